//! A bounded ring of records: of a ring buffer map, and of each opened entry of a perf event array.
//! Programs put records in, the user takes them out in the same order. What has no room is refused
//! and counted, as a running program must not wait.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::errno::Errno;
use crate::memory::{self, Block};

/// Bytes before each record: its length.
const HEADER: u64 = 8;

/// A ring of a power of two bytes.
#[derive(Debug)]
pub(crate) struct Ring {
    block: Block,
    mask: u64,
    /// Bytes put in and taken out since the start.
    produced: AtomicU64,
    consumed: AtomicU64,
    lost: AtomicU64,
    producer: Mutex<()>,
    consumer: Mutex<()>,
}

impl Ring {
    /// A ring of `size` bytes, a power of two; `None` where memory is short.
    pub(super) fn new(size: u64) -> Option<Self> {
        Some(Ring {
            block: Block::zeroed(usize::try_from(size).ok()?)?,
            mask: size - 1,
            produced: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            producer: Mutex::new(()),
            consumer: Mutex::new(()),
        })
    }

    /// Puts in one record, made of `parts`; `EAGAIN` where there is no room.
    ///
    /// # Safety
    /// The parts can be read.
    pub(crate) unsafe fn output(&self, parts: &[(*const u8, usize)]) -> Result<(), Errno> {
        let len: u64 = parts.iter().map(|&(_, len)| len as u64).sum();
        let whole = len.next_multiple_of(8) + HEADER;
        let _held = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        let start = self.produced.load(Ordering::Relaxed);
        let used = start - self.consumed.load(Ordering::Acquire);
        // Never quite full, as in the kernel.
        if whole > self.mask || used + whole > self.mask {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return Err(Errno::EAGAIN);
        }
        let mut at = start + HEADER;
        // SAFETY: a header is aligned, so it does not wrap; the parts are the caller's promise.
        unsafe {
            memory::store64(self.place(start), len);
            for &(part, len) in parts {
                self.put(at, part, len);
                at += len as u64;
            }
        }
        self.produced.store(start + whole, Ordering::Release);
        Ok(())
    }

    /// Calls `f` with each record, oldest first, and takes it out.
    pub(super) fn drain(&self, mut f: impl FnMut(&[u8])) {
        let _held = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut record = Vec::new();
        let mut at = self.consumed.load(Ordering::Relaxed);
        while at != self.produced.load(Ordering::Acquire) {
            // SAFETY: what was produced and not consumed is written by nobody.
            unsafe {
                let len = memory::load64(self.place(at));
                record.resize(len as usize, 0);
                self.get(at + HEADER, &mut record);
                at += len.next_multiple_of(8) + HEADER;
            }
            f(&record);
            self.consumed.store(at, Ordering::Release);
        }
    }

    /// Records that had no room, since the start.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Bytes that wait for the user.
    pub(crate) fn waiting(&self) -> u64 {
        let consumed = self.consumed();
        self.produced().saturating_sub(consumed)
    }

    /// Bytes of the ring.
    pub(crate) fn size(&self) -> u64 {
        self.mask + 1
    }

    /// Bytes put in since the start.
    pub(crate) fn produced(&self) -> u64 {
        self.produced.load(Ordering::Acquire)
    }

    /// Bytes taken out since the start.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Acquire)
    }

    fn place(&self, at: u64) -> *mut u8 {
        self.block.base().wrapping_add((at & self.mask) as usize)
    }

    /// Bytes from `at` to the ring's end.
    fn until_end(&self, at: u64) -> usize {
        (self.mask + 1 - (at & self.mask)) as usize
    }

    /// # Safety
    /// `len` bytes, less than the ring has, can be read at `from`, and nobody reads the ring's own.
    unsafe fn put(&self, at: u64, from: *const u8, len: usize) {
        let first = len.min(self.until_end(at));
        // SAFETY: up to the ring's end, then from its start; the caller's promise.
        unsafe {
            memory::copy(self.place(at), from, first);
            memory::copy(self.block.base(), from.add(first), len - first);
        }
    }

    /// # Safety
    /// `to` is shorter than the ring, and nobody writes its bytes.
    unsafe fn get(&self, at: u64, to: &mut [u8]) {
        let first = to.len().min(self.until_end(at));
        let (head, tail) = to.split_at_mut(first);
        // SAFETY: up to the ring's end, then from its start; the caller's promise.
        unsafe {
            memory::copy(head.as_mut_ptr(), self.place(at), head.len());
            memory::copy(tail.as_mut_ptr(), self.block.base(), tail.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(ring: &Ring, bytes: &[u8]) -> Result<(), Errno> {
        // SAFETY: a slice.
        unsafe { ring.output(&[(bytes.as_ptr(), bytes.len())]) }
    }

    #[test]
    fn records_wrap_and_come_out_in_order() {
        let ring = Ring::new(64).unwrap();
        for round in 0..100u8 {
            let long: Vec<u8> = (0..round % 30).map(|n| n ^ round).collect();
            output(&ring, &long).unwrap();
            output(&ring, &[round]).unwrap();
            let mut out = Vec::new();
            ring.drain(|r| out.push(r.to_vec()));
            assert_eq!(out, [long, vec![round]]);
        }
        assert_eq!((ring.waiting(), ring.lost()), (0, 0));
    }

    #[test]
    fn what_has_no_room_is_refused_and_counted() {
        let ring = Ring::new(64).unwrap();
        assert_eq!(
            output(&ring, &[0; 57]),
            Err(Errno::EAGAIN),
            "longer than the ring"
        );
        for _ in 0..3 {
            output(&ring, &[0; 8]).unwrap();
        }
        assert_eq!(
            output(&ring, &[0; 8]),
            Err(Errno::EAGAIN),
            "never quite full"
        );
        assert_eq!(ring.waiting(), 48);
        assert_eq!(output(&ring, &[]), Ok(()));
        assert_eq!(ring.lost(), 2);
        ring.drain(|_| {});
        assert_eq!(
            (ring.consumed(), ring.produced(), ring.size()),
            (56, 56, 64)
        );
    }
}
