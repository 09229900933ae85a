//! A bounded ring of records: of a ring buffer map, and of each opened entry of a perf event array.
//! Programs put records in, the user takes them out in the same order. What has no room is refused
//! and counted, as a running program must not wait.
//!
//! A record is reserved (and busy), written, and committed or discarded, by several programs at once;
//! the user sees it from its commit on, and none behind one that is busy. As in the kernel's, a
//! header of 8 bytes is before each: its length with two marks, and how far it is from the block's
//! start, so that a record by itself says which ring it is of.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::errno::Errno;
use crate::memory::{self, Block};

/// Bytes before each record: two words, its length with the marks, and its place in eights of bytes.
const HEADER: u64 = 8;
/// In the length: not yet committed; and to be passed over (`BPF_RINGBUF_BUSY_BIT`, `_DISCARD_BIT`).
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Most bytes of a record (`RINGBUF_MAX_RECORD_SZ`).
const MAX_RECORD: u64 = (u32::MAX / 4) as u64;
/// Bytes before the first record: the address of the [`Shared`] whose block it is.
const PREFIX: usize = 64;

/// `BPF_RB_NO_WAKEUP` and `BPF_RB_FORCE_WAKEUP`.
pub(crate) const NO_WAKEUP: u64 = 1;
pub(crate) const FORCE_WAKEUP: u64 = 2;

/// A ring of a power of two bytes.
#[derive(Debug)]
pub(crate) struct Ring(Box<Shared>);

/// The ring itself, at an address that stays.
#[derive(Debug)]
struct Shared {
    /// The prefix, the ring, and as much again: a record that starts near the ring's end goes on behind it,
    /// so that it is in one piece. Only one record crosses the end at a time, so nothing else is there.
    block: Block,
    mask: u64,
    /// Bytes reserved and taken out since the start.
    produced: AtomicU64,
    consumed: AtomicU64,
    lost: AtomicU64,
    producer: Mutex<()>,
    consumer: Mutex<()>,
    bell: Bell,
}

/// What wakes a user that waits.
#[derive(Debug, Default)]
struct Bell {
    waiting: AtomicU32,
    rung: Mutex<u64>,
    changed: Condvar,
}

impl Ring {
    /// A ring of `size` bytes, a power of two; `None` where memory is short.
    pub(super) fn new(size: u64) -> Option<Self> {
        let bytes = usize::try_from(size).ok()?.checked_mul(2)?;
        let shared = Box::new(Shared {
            block: Block::zeroed(bytes.checked_add(PREFIX)?)?,
            mask: size - 1,
            produced: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            producer: Mutex::new(()),
            consumer: Mutex::new(()),
            bell: Bell::default(),
        });
        let address = std::ptr::from_ref(&*shared).expose_provenance() as u64;
        // SAFETY: the block's first bytes, of which nobody else knows yet.
        unsafe { memory::store64(shared.block.base(), address) };
        Some(Ring(shared))
    }

    /// Puts in one record, made of `parts`; `EAGAIN` where there is no room.
    ///
    /// # Safety
    /// The parts can be read.
    pub(crate) unsafe fn output(
        &self,
        parts: &[(*const u8, usize)],
        flags: u64,
    ) -> Result<(), Errno> {
        let len: u64 = parts.iter().map(|&(_, len)| len as u64).sum();
        let record = self.reserve(len).ok_or(Errno::EAGAIN)?;
        let mut at = record;
        // SAFETY: the record is ours until it is committed, and as long as all parts; those are the
        // caller's promise.
        unsafe {
            for &(part, len) in parts {
                memory::copy(at, part, len);
                at = at.add(len);
            }
            Ring::commit(record, false, flags);
        }
        Ok(())
    }

    /// Reserves a record of `len` bytes: its address, from now on the caller's until it is committed;
    /// `None`, counted, where there is no room.
    pub(crate) fn reserve(&self, len: u64) -> Option<*mut u8> {
        let ring = &*self.0;
        let record = ring.claim(len);
        if record.is_none() {
            ring.lost.fetch_add(1, Ordering::Relaxed);
        }
        record
    }

    /// Ends what [`Ring::reserve`] began: the user is given the record, or never sees it.
    ///
    /// # Safety
    /// `record` was reserved in a ring that lives, and is not yet committed.
    pub(crate) unsafe fn commit(record: *mut u8, discard: bool, flags: u64) {
        // SAFETY: a header is before each record, aligned; its second word says where the block
        // starts, and the block where the ring is.
        let (header, ring, place) = unsafe {
            let header = record.sub(HEADER as usize);
            let place = memory::load32(header.add(4)) * 8;
            let ring = memory::load64(header.sub(place as usize));
            let ring = std::ptr::with_exposed_provenance::<Shared>(ring as usize);
            (header, &*ring, place)
        };
        // SAFETY: as above.
        let header = unsafe { AtomicU32::from_ptr(header.cast()) };
        let marks = if discard { DISCARDED } else { 0 };
        let len = header.load(Ordering::Relaxed) & !BUSY;
        header.store(len | marks, Ordering::Release);
        // Either this sees how far the user has come and that it waits, or the user sees the record.
        fence(Ordering::SeqCst);
        let position = place - PREFIX as u64;
        let next = ring.consumed.load(Ordering::Acquire) & ring.mask == position;
        if flags & FORCE_WAKEUP != 0 || (next && flags & NO_WAKEUP == 0) {
            ring.bell.ring();
        }
    }

    /// Calls `f` with each record, oldest first, and takes it out.
    pub(super) fn drain(&self, mut f: impl FnMut(&[u8])) {
        let ring = &*self.0;
        let _held = held(&ring.consumer);
        let mut record = Vec::new();
        let mut at = ring.consumed.load(Ordering::Relaxed);
        while at != ring.produced.load(Ordering::Acquire) {
            let place = ring.place(at);
            // SAFETY: what was produced and not consumed starts with a header.
            let marked = unsafe { AtomicU32::from_ptr(place.cast()) }.load(Ordering::Acquire);
            if marked & BUSY != 0 {
                break;
            }
            let len = marked & !DISCARDED;
            if marked & DISCARDED == 0 {
                record.resize(len as usize, 0);
                // SAFETY: a record that is committed and not consumed is written by nobody.
                unsafe {
                    memory::copy(
                        record.as_mut_ptr(),
                        place.add(HEADER as usize),
                        len as usize,
                    );
                }
                f(&record);
            }
            at += whole(u64::from(len));
            ring.consumed.store(at, Ordering::Release);
        }
    }

    /// Waits until there may be a record, at most so long; false where the time ran out. One that a
    /// program committed without a wake-up may be there and not end the wait.
    pub(super) fn wait(&self, most: Duration) -> bool {
        let until = Instant::now().checked_add(most);
        let bell = &self.0.bell;
        let mut rung = held(&bell.rung);
        let before = *rung;
        bell.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // Only now is a producer sure to see that somebody waits: what came before is looked for.
        let mut found = self.waiting() > 0;
        while !found {
            let left = until.map_or(Duration::MAX, |t| {
                t.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                break;
            }
            // A day at a time: some systems know no longer waits.
            let left = left.min(Duration::from_secs(86_400));
            let woken = bell.changed.wait_timeout(rung, left);
            rung = woken.unwrap_or_else(PoisonError::into_inner).0;
            found = *rung != before;
        }
        bell.waiting.fetch_sub(1, Ordering::SeqCst);
        found
    }

    /// Records that had no room, since the start.
    pub(super) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Bytes that wait for the user.
    pub(crate) fn waiting(&self) -> u64 {
        let consumed = self.consumed();
        self.produced().saturating_sub(consumed)
    }

    /// Bytes of the ring.
    pub(crate) fn size(&self) -> u64 {
        self.0.mask + 1
    }

    /// Bytes put in since the start.
    pub(crate) fn produced(&self) -> u64 {
        self.0.produced.load(Ordering::Acquire)
    }

    /// Bytes taken out since the start.
    pub(crate) fn consumed(&self) -> u64 {
        self.0.consumed.load(Ordering::Acquire)
    }
}

impl Shared {
    fn claim(&self, len: u64) -> Option<*mut u8> {
        // Never quite full, as in the kernel.
        if len > MAX_RECORD || whole(len) > self.mask {
            return None;
        }
        let _held = held(&self.producer);
        let start = self.produced.load(Ordering::Relaxed);
        let used = start - self.consumed.load(Ordering::Acquire);
        if used + whole(len) > self.mask {
            return None;
        }
        let header = self.place(start);
        let place = (PREFIX as u64 + (start & self.mask)) / 8;
        // SAFETY: a header in the ring, aligned, where nothing is that the user has not taken out.
        unsafe {
            AtomicU32::from_ptr(header.cast()).store(len as u32 | BUSY, Ordering::Relaxed);
            memory::store32(header.add(4), place as u32);
        }
        self.produced.store(start + whole(len), Ordering::Release);
        Some(header.wrapping_add(HEADER as usize))
    }

    fn place(&self, at: u64) -> *mut u8 {
        self.block
            .base()
            .wrapping_add(PREFIX + (at & self.mask) as usize)
    }
}

impl Bell {
    fn ring(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            *held(&self.rung) += 1;
            self.changed.notify_all();
        }
    }
}

/// Bytes of a record with its header, up to where the next starts.
fn whole(len: u64) -> u64 {
    (len + HEADER).next_multiple_of(8)
}

/// A lock that no panic spoils: nothing is half done while one is held.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(ring: &Ring, bytes: &[u8]) -> Result<(), Errno> {
        // SAFETY: a slice.
        unsafe { ring.output(&[(bytes.as_ptr(), bytes.len())], 0) }
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

    /// Reserves, and fills with a byte.
    fn reserve(ring: &Ring, len: usize, byte: u8) -> *mut u8 {
        let record = ring.reserve(len as u64).expect("room");
        for at in 0..len {
            // SAFETY: a record of that length, which is ours.
            unsafe { memory::store8(record.add(at), byte) };
        }
        record
    }

    fn drained(ring: &Ring) -> Vec<Vec<u8>> {
        let mut out = vec![];
        ring.drain(|r| out.push(r.to_vec()));
        out
    }

    #[test]
    fn a_record_is_seen_from_its_commit_on_and_none_overtakes_it() {
        let ring = Ring::new(64).unwrap();
        let (first, second) = (reserve(&ring, 3, 1), reserve(&ring, 9, 2));
        // SAFETY: both were reserved, and each is committed once.
        unsafe { Ring::commit(second, false, 0) };
        assert_eq!(drained(&ring), Vec::<Vec<u8>>::new(), "the first is busy");
        assert_eq!(ring.waiting(), 40);
        // SAFETY: as above.
        unsafe { Ring::commit(first, true, 0) };
        assert_eq!(drained(&ring), [vec![2; 9]], "the first is discarded");
        assert_eq!((ring.waiting(), ring.lost()), (0, 0));
    }

    #[test]
    fn a_reserved_record_is_in_one_piece_wherever_it_starts() {
        let ring = Ring::new(64).unwrap();
        for round in 0..200usize {
            let lens = [round % 17, round % 23];
            for (n, len) in lens.into_iter().enumerate() {
                let record = reserve(&ring, len, (round + n) as u8);
                // SAFETY: just reserved.
                unsafe { Ring::commit(record, false, 0) };
            }
            let bytes = [round as u8, (round + 1) as u8];
            let expected = [vec![bytes[0]; lens[0]], vec![bytes[1]; lens[1]]];
            assert_eq!(drained(&ring), expected);
        }
        assert!(ring.reserve(MAX_RECORD + 1).is_none() && ring.reserve(56).is_none());
        assert_eq!(ring.lost(), 2);
    }

    #[test]
    fn a_user_that_waits_is_woken_as_the_flags_say() {
        let ring = Ring::new(64).unwrap();
        let put = |flags| {
            let record = reserve(&ring, 1, 7);
            // SAFETY: just reserved.
            unsafe { Ring::commit(record, false, flags) };
        };
        assert!(!ring.wait(Duration::from_millis(1)), "nothing is there");
        put(NO_WAKEUP);
        assert!(ring.wait(Duration::ZERO), "what is there needs no wake-up");
        drained(&ring);
        let woken = |flags, most| {
            std::thread::scope(|s| {
                let waits = s.spawn(|| ring.wait(most));
                while ring.0.bell.waiting.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                // Once it has this lock, the other sleeps.
                drop(held(&ring.0.bell.rung));
                put(flags);
                let woken = waits.join().unwrap();
                drained(&ring);
                woken
            })
        };
        assert!(woken(0, Duration::from_secs(60)));
        assert!(woken(FORCE_WAKEUP, Duration::from_secs(60)));
        assert!(!woken(NO_WAKEUP, Duration::from_millis(20)));
    }

    /// Several producers: every record arrives whole, those of one in its order, and the lost are
    /// counted.
    #[test]
    fn producers_do_not_disturb_each_other() {
        const EACH: u64 = 20_000;
        let ring = Ring::new(4096).unwrap();
        let mut next = [0u64; 3];
        let mut seen = 0u64;
        std::thread::scope(|s| {
            let workers: Vec<_> = (0..3u64)
                .map(|who| {
                    let ring = &ring;
                    s.spawn(move || {
                        for n in 0..EACH {
                            let words = 2 + (n % 5) as usize;
                            let Some(record) = ring.reserve(words as u64 * 8) else {
                                std::thread::yield_now();
                                continue;
                            };
                            // SAFETY: a record of that many words, which is ours until committed.
                            unsafe {
                                for w in 0..words {
                                    memory::store64(record.add(8 * w), who << 32 | n);
                                }
                                Ring::commit(record, n % 7 == 0, 0);
                            }
                        }
                    })
                })
                .collect();
            let mut check = |record: &[u8]| {
                let words: Vec<u64> = record
                    .chunks_exact(8)
                    .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
                    .collect();
                assert!(words.iter().all(|w| *w == words[0]), "{words:x?}");
                let (who, n) = ((words[0] >> 32) as usize, words[0] & 0xffff_ffff);
                assert_eq!(words.len() as u64, 2 + n % 5);
                assert!(n >= next[who] && n % 7 != 0, "{who}: {n}");
                next[who] = n + 1;
                seen += 1;
            };
            while workers.iter().any(|w| !w.is_finished()) {
                ring.drain(&mut check);
                std::thread::yield_now();
            }
            ring.drain(&mut check);
        });
        let discarded_at_most = 3 * EACH.div_ceil(7);
        assert!(seen + ring.lost() <= 3 * EACH && seen > 0);
        assert!(seen + ring.lost() + discarded_at_most >= 3 * EACH);
        assert_eq!(ring.waiting(), 0);
    }
}
