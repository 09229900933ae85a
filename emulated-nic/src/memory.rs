//! The model's view of driver memory, and the tail registers that it shares with drivers.
//!
//! This module guards the addresses that a driver writes into registers and descriptors: each is
//! resolved through the mappings that the driver made, whole length at once, and what lies outside
//! of them is a recorded [`Fault`], never an access. Descriptors are read and written as atomics, a
//! done bit last and with Release. Packet bytes are plain copies: as with any device that does DMA,
//! a buffer belongs to the model from the tail that shows it until the descriptor's write-back, and
//! the driver stays away from it in between.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use driver_core::{DmaRegion, Doorbell};

/// Faults that are kept; more are only counted.
const KEPT: usize = 256;
/// What the model writes behind a packet, up to the size of the buffer that the driver promised.
pub const SCRIBBLE: u8 = 0xa5;

/// What a device wanted with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Fetch a receive descriptor.
    RxDescriptor,
    /// Write a received packet.
    RxBuffer,
    /// Fetch a transmit descriptor or write it back.
    TxDescriptor,
    /// Fetch a packet to be sent.
    TxBuffer,
    /// Write a transmit queue's head.
    HeadWriteBack,
}

/// A DMA access that did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What for.
    pub access: Access,
    /// First address.
    pub iova: u64,
    /// Bytes.
    pub len: usize,
    /// Bus mastering was off; else the address is not mapped.
    pub bus_master_off: bool,
    /// When, on the NIC's clock.
    pub at: Duration,
}

/// Mapped driver memory.
#[derive(Debug)]
pub(crate) struct Memory {
    windows: Vec<Window>,
    /// The window that served each kind of access last.
    last: [usize; 5],
    faults: Vec<Fault>,
    pub(crate) fault_count: u64,
    pub(crate) bus_master: bool,
    pub(crate) now: Duration,
}

#[derive(Debug)]
struct Window {
    iova: u64,
    len: u64,
    base: NonNull<u8>,
    /// Keeps the memory mapped into the process.
    _region: DmaRegion,
}

// SAFETY: `base` points into the region that the window holds, which may be used from any thread.
unsafe impl Send for Window {}

impl Memory {
    pub(crate) fn new() -> Self {
        Memory {
            windows: Vec::new(),
            last: [0; 5],
            faults: Vec::new(),
            fault_count: 0,
            bus_master: true,
            now: Duration::ZERO,
        }
    }

    pub(crate) fn map(&mut self, region: &DmaRegion) {
        if self.windows.iter().any(|w| w.iova == region.iova()) {
            return;
        }
        self.windows.push(Window {
            iova: region.iova(),
            len: region.len() as u64,
            base: region.as_ptr(),
            _region: region.clone(),
        });
    }

    pub(crate) fn unmap(&mut self, region: &DmaRegion) {
        self.windows.retain(|w| w.iova != region.iova());
        self.last = [0; 5];
    }

    /// Whether all of `len` bytes at `iova` can be reached; a fault is recorded if not.
    #[inline]
    #[cfg(test)]
    fn check(&mut self, access: Access, iova: u64, len: usize) -> bool {
        self.resolve(access, iova, len).is_some()
    }

    /// Fetches the descriptor at `iova`.
    #[inline]
    pub(crate) fn descriptor(&mut self, access: Access, iova: u64) -> Option<[u64; 2]> {
        let words = self.words(access, iova)?;
        let load = |i: usize| u64::from_le(words[i].load(Ordering::Relaxed));
        Some([load(0), load(1)])
    }

    /// Writes the descriptor at `iova` back: whoever sees the second word sees the first, and all
    /// packet bytes written before.
    #[inline]
    pub(crate) fn write_back(&mut self, access: Access, iova: u64, value: [u64; 2]) -> bool {
        let Some(words) = self.words(access, iova) else {
            return false;
        };
        words[0].store(value[0].to_le(), Ordering::Relaxed);
        words[1].store(value[1].to_le(), Ordering::Release);
        true
    }

    /// Writes a transmit queue's head to `iova`.
    pub(crate) fn write_head(&mut self, iova: u64, head: u32) -> bool {
        let Some(p) = self.resolve(Access::HeadWriteBack, iova & !3, 4) else {
            return false;
        };
        // SAFETY: four mapped bytes, aligned since mappings are pages and the address is masked.
        let word = unsafe { AtomicU32::from_ptr(p.as_ptr().cast()) };
        word.store(head.to_le(), Ordering::Release);
        true
    }

    /// Writes `data` into the buffer of `size` bytes at `iova`, all of which must be mapped, and
    /// where `scribble` says so a pattern into the rest of it.
    #[inline]
    pub(crate) fn fill_buffer(
        &mut self,
        iova: u64,
        size: usize,
        data: &[u8],
        scribble: bool,
    ) -> bool {
        debug_assert!(data.len() <= size);
        let Some(p) = self.resolve(Access::RxBuffer, iova, size) else {
            return false;
        };
        let n = data.len().min(size);
        // SAFETY: `size` bytes at `p` are mapped and the buffer is the model's until it is written
        // back (module docs); `data` is the model's own memory.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), p.as_ptr(), n);
            if scribble {
                std::ptr::write_bytes(p.as_ptr().add(n), SCRIBBLE, size - n);
            }
        }
        true
    }

    /// Copies the packet bytes at `iova` into `into`.
    #[inline]
    pub(crate) fn read_buffer(&mut self, iova: u64, into: &mut [u8]) -> bool {
        let Some(p) = self.resolve(Access::TxBuffer, iova, into.len()) else {
            return false;
        };
        // SAFETY: the bytes are mapped and stay as they are until the descriptor is written back
        // (module docs); `into` is the model's own memory.
        unsafe { std::ptr::copy_nonoverlapping(p.as_ptr(), into.as_mut_ptr(), into.len()) };
        true
    }

    /// Faults kept so far.
    pub(crate) fn faults(&self) -> &[Fault] {
        &self.faults
    }

    #[inline]
    fn words(&mut self, access: Access, iova: u64) -> Option<&[AtomicU64; 2]> {
        let p = self.resolve(access, iova & !15, 16)?;
        // SAFETY: sixteen mapped bytes, aligned since mappings are pages and the address is masked;
        // both sides use them as atomics, and the window outlives the borrow of `self`.
        Some(unsafe { p.cast::<[AtomicU64; 2]>().as_ref() })
    }

    #[inline]
    fn resolve(&mut self, access: Access, iova: u64, len: usize) -> Option<NonNull<u8>> {
        if let Some(w) = self.windows.get(self.last[access as usize]) {
            let offset = iova.wrapping_sub(w.iova);
            if self.bus_master && offset < w.len && len as u64 <= w.len - offset {
                // SAFETY: the offset lies inside the window.
                return Some(unsafe { w.base.add(offset as usize) });
            }
        }
        self.resolve_slowly(access, iova, len)
    }

    #[cold]
    fn resolve_slowly(&mut self, access: Access, iova: u64, len: usize) -> Option<NonNull<u8>> {
        let at = self.windows.iter().position(|w| {
            let offset = iova.wrapping_sub(w.iova);
            offset < w.len && len as u64 <= w.len - offset
        });
        match at {
            Some(i) if self.bus_master => {
                self.last[access as usize] = i;
                let w = &self.windows[i];
                // SAFETY: the offset lies inside the window.
                Some(unsafe { w.base.add((iova - w.iova) as usize) })
            }
            _ => {
                self.fault_count += 1;
                if self.faults.len() < KEPT {
                    self.faults.push(Fault {
                        access,
                        iova,
                        len,
                        bus_master_off: !self.bus_master,
                        at: self.now,
                    });
                }
                None
            }
        }
    }
}

/// The tail registers of all queues: receive queues first, then transmit queues. Drivers store into
/// them through a [`Doorbell`] without a trap, and the model looks at them.
#[derive(Debug)]
pub(crate) struct Doorbells(Arc<[AtomicU32]>);

impl Doorbells {
    pub(crate) fn new(count: usize) -> Self {
        Doorbells((0..count).map(|_| AtomicU32::new(0)).collect())
    }

    /// What was stored last; all that the driver wrote before is visible.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> u32 {
        u32::from_le(self.0[i].load(Ordering::Acquire))
    }

    pub(crate) fn set(&self, i: usize, value: u32) {
        self.0[i].store(value.to_le(), Ordering::Release);
    }

    pub(crate) fn doorbell(&self, i: usize) -> Option<Doorbell> {
        Doorbell::in_memory(&self.0, i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver_core::{DmaDomain, HUGE_PAGE, IovaRanges};

    #[test]
    fn only_whole_accesses_inside_a_mapping_happen() {
        let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
        let region = domain.allocate(4096).unwrap();
        let end = region.iova() + region.len() as u64;
        let mut m = Memory::new();
        assert!(
            !m.check(Access::RxBuffer, region.iova(), 1),
            "not mapped yet"
        );
        m.map(&region);
        assert_eq!(region.len(), HUGE_PAGE);
        assert!(m.fill_buffer(end - 64, 64, &[1; 60], true));
        let mut back = [0; 64];
        assert!(m.read_buffer(end - 64, &mut back));
        assert_eq!((back[59], back[60], back[63]), (1, SCRIBBLE, SCRIBBLE));
        assert!(!m.fill_buffer(end - 63, 64, &[2; 60], true));
        assert!(!m.check(Access::TxBuffer, u64::MAX, 2));
        m.bus_master = false;
        assert!(m.descriptor(Access::RxDescriptor, region.iova()).is_none());
        m.bus_master = true;
        assert!(m.descriptor(Access::RxDescriptor, region.iova()).is_some());
        m.unmap(&region);
        assert!(m.descriptor(Access::RxDescriptor, region.iova()).is_none());
        let what: Vec<_> = m
            .faults()
            .iter()
            .map(|f| (f.access, f.len, f.bus_master_off))
            .collect();
        assert_eq!(
            what,
            [
                (Access::RxBuffer, 1, false),
                (Access::RxBuffer, 64, false),
                (Access::TxBuffer, 2, false),
                (Access::RxDescriptor, 16, true),
                (Access::RxDescriptor, 16, false),
            ]
        );
    }
}
