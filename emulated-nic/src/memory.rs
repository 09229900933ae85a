//! The model's view of driver memory, and the tail registers that it shares with drivers.
//!
//! This module guards the addresses that a driver writes into registers and descriptors: each is
//! resolved through the mappings that the driver made, whole length at once, and what lies outside
//! of them is a recorded [`Fault`], never an access. Descriptors are read and written as atomics, a
//! done bit last and with Release. Packet bytes are plain copies: as with any device that does DMA,
//! a buffer belongs to the model from the tail that shows it until the descriptor's write-back, and
//! the driver stays away from it in between.
#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;
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

impl Access {
    const COUNT: usize = 5;
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
    /// In the order of their addresses; none overlap.
    windows: Vec<Window>,
    /// The window that served each kind of access last, reads and writes apart.
    last: [usize; 2 * Access::COUNT],
    faults: Vec<Fault>,
    pub(crate) fault_count: u64,
    pub(crate) bus_master: bool,
    pub(crate) now: Duration,
}

/// What a device may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permissions {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Permissions {
    pub(crate) const BOTH: Permissions = Permissions {
        read: true,
        write: true,
    };

    fn allow(self, direction: Direction) -> bool {
        match direction {
            Direction::Read => self.read,
            Direction::Write => self.write,
        }
    }
}

/// Which way an access goes, as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

struct Window {
    iova: u64,
    len: u64,
    /// `None` where the memory's owner did not share it.
    base: Option<NonNull<u8>>,
    permissions: Permissions,
    /// Keeps the memory mapped into the process.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: `base` points into memory that the owner keeps mapped, which may be used from any thread.
unsafe impl Send for Window {}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}+{:#x} {:?}", self.iova, self.len, self.permissions)
    }
}

impl Window {
    /// The last address. A window may end where the addresses do.
    fn last(&self) -> u64 {
        self.iova + (self.len - 1)
    }
}

/// Why a mapping cannot be made or taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MappingError {
    /// It has no bytes, or goes beyond the last address.
    Range,
    /// Part of it is mapped.
    Overlap,
    /// A mapping lies in it only in part.
    Split,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Memory {
            windows: Vec::new(),
            last: [usize::MAX; 2 * Access::COUNT],
            faults: Vec::new(),
            fault_count: 0,
            bus_master: true,
            now: Duration::ZERO,
        }
    }

    pub(crate) fn map(&mut self, region: &DmaRegion) {
        // One that is mapped already overlaps with itself, and is left as it is.
        let _ = self.insert(Window {
            iova: region.iova(),
            len: region.len() as u64,
            base: Some(region.as_ptr()),
            permissions: Permissions::BOTH,
            _owner: Arc::new(region.clone()),
        });
    }

    pub(crate) fn unmap(&mut self, region: &DmaRegion) {
        self.windows.retain(|w| w.iova != region.iova());
        self.forget();
    }

    /// Maps `len` bytes at `iova`, which are `base` and what follows where their owner shares them.
    ///
    /// # Safety
    /// The memory stays mapped into the process for as long as `owner` lives, and nothing in this
    /// process holds a reference to it.
    pub(crate) unsafe fn map_foreign(
        &mut self,
        iova: u64,
        len: u64,
        base: Option<NonNull<u8>>,
        permissions: Permissions,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<(), MappingError> {
        self.insert(Window {
            iova,
            len,
            base,
            permissions,
            _owner: owner,
        })
    }

    fn insert(&mut self, window: Window) -> Result<(), MappingError> {
        let end = window
            .len
            .checked_sub(1)
            .and_then(|l| window.iova.checked_add(l));
        let last = end.ok_or(MappingError::Range)?;
        let at = self.windows.partition_point(|w| w.last() < window.iova);
        if self.windows.get(at).is_some_and(|w| w.iova <= last) {
            return Err(MappingError::Overlap);
        }
        self.windows.insert(at, window);
        self.forget();
        Ok(())
    }

    /// Takes the mappings away that lie in `len` bytes at `iova`: nothing, or all of them.
    pub(crate) fn unmap_range(&mut self, iova: u64, len: u64) -> Result<(), MappingError> {
        let last = len.checked_sub(1).and_then(|l| iova.checked_add(l));
        let last = last.ok_or(MappingError::Range)?;
        let from = self.windows.partition_point(|w| w.last() < iova);
        let to = self.windows.partition_point(|w| w.iova <= last);
        let touched = &self.windows[from..to.max(from)];
        if touched.iter().any(|w| w.iova < iova || w.last() > last) {
            return Err(MappingError::Split);
        }
        self.windows.drain(from..to.max(from));
        self.forget();
        Ok(())
    }

    /// Takes every mapping away.
    pub(crate) fn unmap_all(&mut self) {
        self.windows.clear();
        self.forget();
    }

    /// Windows have moved: none is remembered.
    fn forget(&mut self) {
        self.last = [usize::MAX; 2 * Access::COUNT];
    }

    /// Whether all of `len` bytes at `iova` can be reached; a fault is recorded if not.
    #[cfg(test)]
    fn check(&mut self, access: Access, iova: u64, len: usize) -> bool {
        self.resolve(access, Direction::Read, iova, len).is_some()
    }

    /// Fetches the descriptor at `iova`.
    #[inline]
    pub(crate) fn descriptor(&mut self, access: Access, iova: u64) -> Option<[u64; 2]> {
        let words = self.words(access, Direction::Read, iova)?;
        let load = |i: usize| u64::from_le(words[i].load(Ordering::Relaxed));
        Some([load(0), load(1)])
    }

    /// Writes the descriptor at `iova` back: whoever sees the second word sees the first, and all
    /// packet bytes written before.
    #[inline]
    pub(crate) fn write_back(&mut self, access: Access, iova: u64, value: [u64; 2]) -> bool {
        let Some(words) = self.words(access, Direction::Write, iova) else {
            return false;
        };
        words[0].store(value[0].to_le(), Ordering::Relaxed);
        words[1].store(value[1].to_le(), Ordering::Release);
        true
    }

    /// Writes a transmit queue's head to `iova`.
    pub(crate) fn write_head(&mut self, iova: u64, head: u32) -> bool {
        let Some(p) = self.resolve(Access::HeadWriteBack, Direction::Write, iova & !3, 4) else {
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
        let data = &data[..data.len().min(size)];
        let Some(p) = self.near(Access::RxBuffer, Direction::Write, iova, size) else {
            return self.fill_pieces(iova, size, data, scribble);
        };
        // SAFETY: `size` bytes at `p` are mapped and the buffer is the model's until it is written
        // back (module docs); `data` is the model's own memory.
        unsafe { fill(p, size, data, scribble) };
        true
    }

    /// Copies the packet bytes at `iova` into `into`.
    #[inline]
    pub(crate) fn read_buffer(&mut self, iova: u64, into: &mut [u8]) -> bool {
        let len = into.len();
        let Some(p) = self.near(Access::TxBuffer, Direction::Read, iova, len) else {
            return self.read_pieces(iova, into);
        };
        // SAFETY: the bytes are mapped and stay as they are until the descriptor is written back
        // (module docs); `into` is the model's own memory.
        unsafe { std::ptr::copy_nonoverlapping(p.as_ptr(), into.as_mut_ptr(), len) };
        true
    }

    /// [`fill_buffer`](Self::fill_buffer) over several mappings.
    #[cold]
    fn fill_pieces(&mut self, iova: u64, size: usize, data: &[u8], scribble: bool) -> bool {
        let (access, direction) = (Access::RxBuffer, Direction::Write);
        let (mut iova, mut size, mut data) = (iova, size, data);
        if !self.is_covered(direction, iova, size) {
            self.fault(access, iova, size);
            return false;
        }
        while size > 0 {
            let Some((p, there)) = self.search(access, direction, iova) else {
                return false;
            };
            let len = size.min(there);
            let (now, later) = data.split_at(data.len().min(len));
            // SAFETY: as in `fill_buffer`, for `len` bytes at `p`.
            unsafe { fill(p, len, now, scribble) };
            (iova, size, data) = (iova.wrapping_add(len as u64), size - len, later);
        }
        true
    }

    /// [`read_buffer`](Self::read_buffer) over several mappings.
    #[cold]
    fn read_pieces(&mut self, iova: u64, into: &mut [u8]) -> bool {
        let (access, direction) = (Access::TxBuffer, Direction::Read);
        if !self.is_covered(direction, iova, into.len()) {
            self.fault(access, iova, into.len());
            return false;
        }
        let (mut iova, mut rest) = (iova, into);
        while !rest.is_empty() {
            let Some((p, there)) = self.search(access, direction, iova) else {
                return false;
            };
            let len = rest.len().min(there);
            let (now, later) = rest.split_at_mut(len);
            // SAFETY: as in `read_buffer`, for `len` bytes at `p`.
            unsafe { std::ptr::copy_nonoverlapping(p.as_ptr(), now.as_mut_ptr(), len) };
            (iova, rest) = (iova.wrapping_add(len as u64), later);
        }
        true
    }

    /// Faults kept so far.
    pub(crate) fn faults(&self) -> &[Fault] {
        &self.faults
    }

    #[inline]
    fn words(
        &mut self,
        access: Access,
        direction: Direction,
        iova: u64,
    ) -> Option<&[AtomicU64; 2]> {
        let p = self.resolve(access, direction, iova & !15, 16)?;
        // SAFETY: sixteen mapped bytes, aligned since mappings are pages and the address is masked;
        // both sides use them as atomics, and the window outlives the borrow of `self`.
        Some(unsafe { p.cast::<[AtomicU64; 2]>().as_ref() })
    }

    /// All of `len` bytes at `iova`, in one mapping; else a fault is recorded.
    #[inline]
    fn resolve(
        &mut self,
        access: Access,
        direction: Direction,
        iova: u64,
        len: usize,
    ) -> Option<NonNull<u8>> {
        let found = self.near(access, direction, iova, len);
        if found.is_none() {
            self.fault(access, iova, len);
        }
        found
    }

    /// All of `len` bytes at `iova`, in one mapping.
    #[inline]
    fn near(
        &mut self,
        access: Access,
        direction: Direction,
        iova: u64,
        len: usize,
    ) -> Option<NonNull<u8>> {
        if let Some(w) = self.windows.get(self.last[slot(access, direction)]) {
            let offset = iova.wrapping_sub(w.iova);
            if self.bus_master
                && offset < w.len
                && len as u64 <= w.len - offset
                && let Some(base) = w.base
            {
                // SAFETY: the offset lies inside the window.
                return Some(unsafe { base.add(offset as usize) });
            }
        }
        self.search(access, direction, iova)
            .filter(|&(_, there)| len <= there)
            .map(|(p, _)| p)
    }

    /// Where `iova` is, and how many bytes follow in its mapping.
    #[cold]
    fn search(
        &mut self,
        access: Access,
        direction: Direction,
        iova: u64,
    ) -> Option<(NonNull<u8>, usize)> {
        let i = self.window_of(direction, iova)?;
        self.last[slot(access, direction)] = i;
        let w = &self.windows[i];
        let offset = iova - w.iova;
        // SAFETY: the offset lies inside the window.
        let p = unsafe { w.base?.add(offset as usize) };
        Some((p, usize::try_from(w.len - offset).unwrap_or(usize::MAX)))
    }

    /// The mapping that has `iova` and allows the access.
    fn window_of(&self, direction: Direction, iova: u64) -> Option<usize> {
        let i = self.windows.partition_point(|w| w.last() < iova);
        let w = self.windows.get(i)?;
        let may = self.bus_master && w.base.is_some() && w.permissions.allow(direction);
        (may && w.iova <= iova).then_some(i)
    }

    /// Whether mappings without a hole in between have all of `len` bytes at `iova`.
    fn is_covered(&self, direction: Direction, iova: u64, len: usize) -> bool {
        let (mut iova, mut left) = (iova, len as u64);
        while left > 0 {
            let Some(i) = self.window_of(direction, iova) else {
                return false;
            };
            let there = self.windows[i].last() - iova;
            if left - 1 <= there {
                return true;
            }
            left -= there + 1;
            let Some(next) = iova.checked_add(there + 1) else {
                return false;
            };
            iova = next;
        }
        true
    }

    #[cold]
    fn fault(&mut self, access: Access, iova: u64, len: usize) {
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
    }
}

/// Where the window of an access is remembered.
#[inline]
fn slot(access: Access, direction: Direction) -> usize {
    2 * access as usize + direction as usize
}

/// Writes `data`, and where asked a pattern behind it.
///
/// # Safety
/// `size` bytes at `p` may be written, and `data` is not longer than that and lies elsewhere.
#[inline]
unsafe fn fill(p: NonNull<u8>, size: usize, data: &[u8], scribble: bool) {
    let n = data.len();
    // SAFETY: by the contract.
    unsafe {
        std::ptr::copy_nonoverlapping(data.as_ptr(), p.as_ptr(), n);
        if scribble {
            std::ptr::write_bytes(p.as_ptr().add(n), SCRIBBLE, size - n);
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

    /// `size` bytes of ordinary memory, to be mapped in pieces.
    fn pages(size: usize) -> (Arc<[AtomicU64]>, NonNull<u8>) {
        let words: Arc<[AtomicU64]> = (0..size / 8).map(|_| AtomicU64::new(0)).collect();
        let base = NonNull::from(&words[0]).cast();
        (words, base)
    }

    fn map(m: &mut Memory, iova: u64, len: u64, at: usize, p: Permissions) -> Option<MappingError> {
        let (words, base) = pages(16384);
        // SAFETY: the words are held, used as atomics only, and `at + len` lies in them or is not reached.
        unsafe { m.map_foreign(iova, len, Some(base.add(at)), p, Arc::new(words)) }.err()
    }

    #[test]
    fn mappings_do_not_overlap_and_are_taken_away_whole() {
        let mut m = Memory::new();
        let both = Permissions::BOTH;
        assert_eq!(map(&mut m, 0x2000, 0x1000, 0, both), None);
        assert_eq!(map(&mut m, 0x1000, 0x1000, 0, both), None);
        assert_eq!(
            map(&mut m, 0x1800, 0x1000, 0, both),
            Some(MappingError::Overlap)
        );
        assert_eq!(map(&mut m, 0, 0x1001, 0, both), Some(MappingError::Overlap));
        assert_eq!(map(&mut m, 0, 0, 0, both), Some(MappingError::Range));
        assert_eq!(map(&mut m, u64::MAX - 0xfff, 0x1000, 0, both), None);
        assert_eq!(
            map(&mut m, u64::MAX - 0x1fff, 0x2001, 0, both),
            Some(MappingError::Range)
        );
        assert_eq!(m.unmap_range(0x1000, 0x1800), Err(MappingError::Split));
        assert_eq!(m.unmap_range(0x8000, 0x1000), Ok(()), "nothing is there");
        assert!(m.check(Access::TxBuffer, 0x2fff, 1));
        assert_eq!(m.unmap_range(0, 0x3000), Ok(()));
        assert!(!m.check(Access::TxBuffer, 0x2fff, 1));
        assert!(m.check(Access::TxBuffer, u64::MAX, 1));
        assert_eq!(m.unmap_range(0, u64::MAX), Err(MappingError::Split));
        m.unmap_all();
        assert!(!m.check(Access::TxBuffer, u64::MAX, 1));
    }

    #[test]
    fn a_transfer_may_span_mappings_but_no_hole() {
        let mut m = Memory::new();
        for page in [0x1000, 0x2000, 0x3000, 0x5000] {
            assert_eq!(map(&mut m, page, 0x1000, 0, Permissions::BOTH), None);
        }
        let data: Vec<u8> = (0..0x1804).map(|i| i as u8 | 1).collect();
        assert!(m.fill_buffer(0x1ffe, 0x1900, &data, true));
        let mut back = vec![0; 0x1900];
        assert!(m.read_buffer(0x1ffe, &mut back));
        assert!(back.starts_with(&data));
        assert!(back[data.len()..].iter().all(|b| *b == SCRIBBLE));
        assert!(!m.fill_buffer(0x3f00, 0x101, &data[..1], false));
        assert!(!m.read_buffer(0x0fff, &mut back));
        assert_eq!(m.faults().len(), 2);
    }

    #[test]
    fn a_mapping_allows_what_its_owner_said() {
        let mut m = Memory::new();
        let (read, write) = (true, false);
        assert_eq!(
            map(&mut m, 0x1000, 0x1000, 0, Permissions { read, write }),
            None
        );
        assert_eq!(
            map(
                &mut m,
                0x2000,
                0x1000,
                0,
                Permissions {
                    read: false,
                    write: true
                }
            ),
            None
        );
        let shared = Arc::new(());
        // SAFETY: there is no memory.
        unsafe { m.map_foreign(0x3000, 0x1000, None, Permissions::BOTH, shared) }.unwrap();
        let mut byte = [0];
        assert!(m.read_buffer(0x1000, &mut byte) && !m.fill_buffer(0x1000, 1, &[1], false));
        assert!(m.fill_buffer(0x2000, 1, &[1], false) && !m.read_buffer(0x2000, &mut byte));
        assert!(!m.read_buffer(0x3000, &mut byte) && !m.fill_buffer(0x3000, 1, &[1], false));
        assert!(
            !m.fill_buffer(0x1fff, 2, &[1], false),
            "half of it may not be written"
        );
        assert_eq!(m.fault_count, 5);
    }
}
