//! Chains of elements in buckets: found without a lock, changed by who holds the bucket's. How those who
//! look up are kept right meanwhile is told in the module above.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::super::layout;
use super::Hash;
use super::lru::USED;
use crate::memory;

/// Marks the end of a chain; the other bits are the bucket's number.
pub(super) const END: u32 = 1 << 31;

/// Links are the number of an element + 1, or [`END`] and a bucket. Zeroed memory is an empty bucket.
#[repr(C)]
pub(super) struct Bucket {
    pub(super) first: AtomicU32,
    /// The lowest bit: somebody changes the chain. The others: how often an element was replaced.
    pub(super) state: AtomicU32,
}

const LOCKED: u32 = 1;
pub(super) const REPLACED: u32 = 2;

const _: () = assert!(size_of::<Bucket>() as u64 == layout::BUCKET);

/// An element that held a key, at the version when it did.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) element: u32,
    pub(super) version: u32,
}

impl Hash {
    /// Fills an unused element and puts it at the head of its chain.
    pub(super) fn publish(&self, element: u32, key: &[u64], hash: u32, write: &impl Fn(u32, bool)) {
        let head = self.element(element);
        let version = head.version.load(Ordering::Relaxed);
        head.version.store(version | 1, Ordering::Relaxed);
        // Who sees any of what follows sees that the version is odd.
        fence(Ordering::Release);
        for (i, &word) in key.iter().enumerate() {
            // SAFETY: inside the element's key, which is a whole number of words.
            unsafe { memory::store64(self.key(element).add(8 * i), word) };
        }
        write(element, true);
        head.hash.store(hash, Ordering::Relaxed);
        let bucket = self.bucket(hash & self.mask);
        let first = match bucket.first.load(Ordering::Relaxed) {
            0 => END | (hash & self.mask),
            first => first,
        };
        head.next.store(first, Ordering::Release);
        head.version
            .store((version | 1).wrapping_add(1), Ordering::Release);
        bucket.first.store(element + 1, Ordering::Release);
        if let Some(lru) = &self.lru {
            lru.mark(element).store(USED, Ordering::Relaxed);
        }
    }

    /// Takes an element out of its chain; false where it is not in it. Its own link stays, for those
    /// who stand on it.
    pub(super) fn unlink(&self, hash: u32, element: u32) -> bool {
        let mut place = &self.bucket(hash & self.mask).first;
        loop {
            let link = place.load(Ordering::Relaxed);
            if link == 0 || link & END != 0 {
                return false;
            }
            let next = &self.element(link - 1).next;
            if link == element + 1 {
                place.store(next.load(Ordering::Relaxed), Ordering::Release);
                return true;
            }
            place = next;
        }
    }

    /// The element that holds `key`.
    #[inline(always)]
    pub(super) fn find(&self, key: &[u64], hash: u32) -> Option<Found> {
        let number = hash & self.mask;
        let bucket = self.bucket(number);
        'again: loop {
            let state = bucket.state.load(Ordering::Acquire);
            let mut link = bucket.first.load(Ordering::Acquire);
            if link == 0 {
                return None;
            }
            loop {
                if link & END != 0 {
                    fence(Ordering::Acquire);
                    let replaced = (bucket.state.load(Ordering::Relaxed) ^ state) & !LOCKED != 0;
                    // In another bucket's chain: led there by an element that was recycled.
                    if link != END | number || replaced {
                        continue 'again;
                    }
                    return None;
                }
                let element = self.element(link - 1);
                let version = element.version.load(Ordering::Acquire);
                if element.hash.load(Ordering::Relaxed) == hash && self.key_is(link - 1, key) {
                    let found = Found {
                        element: link - 1,
                        version,
                    };
                    if version & 1 == 0 && self.unchanged(found) {
                        return Some(found);
                    }
                    continue 'again;
                }
                link = element.next.load(Ordering::Acquire);
            }
        }
    }

    /// True where the element still is of the use that it was found in.
    #[inline(always)]
    pub(super) fn unchanged(&self, found: Found) -> bool {
        fence(Ordering::Acquire);
        self.element(found.element).version.load(Ordering::Relaxed) == found.version
    }

    #[inline(always)]
    fn key_is(&self, element: u32, key: &[u64]) -> bool {
        let own = self.key(element);
        key.iter().enumerate().all(|(i, &word)| {
            // SAFETY: inside the element's key, which is a whole number of words.
            unsafe { memory::load64(own.add(8 * i)) == word }
        })
    }

    #[inline(always)]
    pub(super) fn bucket(&self, number: u32) -> &Bucket {
        let offset = number as usize * size_of::<Bucket>();
        // SAFETY: callers mask the number, so it is inside the block, which is aligned, zeroed at
        // first, and only accessed as buckets.
        unsafe { &*self.buckets.base().add(offset).cast::<Bucket>() }
    }

    /// Waits for the bucket and holds it.
    pub(super) fn lock(&self, hash: u32) -> Lock<'_> {
        let state = &self.bucket(hash & self.mask).state;
        let mut turns = 0u32;
        loop {
            let now = state.load(Ordering::Relaxed);
            if now & LOCKED == 0
                && state
                    .compare_exchange_weak(now, now | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Lock(state);
            }
            turns += 1;
            // The holder may have been put aside by the scheduler.
            if turns.is_multiple_of(128) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

/// A bucket that is held.
pub(super) struct Lock<'a>(&'a AtomicU32);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.0.fetch_and(!LOCKED, Ordering::Release);
    }
}
