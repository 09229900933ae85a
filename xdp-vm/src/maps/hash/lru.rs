//! Making room in a full LRU hash.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use super::Hash;
use crate::memory::Block;

/// What an LRU hash knows of its elements.
#[derive(Debug)]
pub(super) struct Lru {
    /// By element: [`FREE`], [`USED`] or [`RECENT`].
    pub(super) marks: Block,
    /// The element that the hand is at, counted on without end.
    pub(super) hand: AtomicU32,
}

pub(super) const FREE: u8 = 0;
pub(super) const USED: u8 = 1;
const RECENT: u8 = 2;

impl Hash {
    /// Takes an entry out of an LRU hash that was not looked up of late. False where there is none to
    /// take, and for other hashes.
    pub(super) fn evict(&self) -> bool {
        let Some(lru) = &self.lru else {
            return false;
        };
        // The first time round takes their marks from those that were looked up.
        for _ in 0..2 * u64::from(self.total) {
            let element = lru.hand.fetch_add(1, Ordering::Relaxed) % self.total;
            let mark = lru.mark(element);
            match mark.load(Ordering::Relaxed) {
                RECENT => mark.store(USED, Ordering::Relaxed),
                USED if self.remove(element) => return true,
                _ => {}
            }
        }
        false
    }

    /// Deletes the entry that the element holds, where it holds one.
    fn remove(&self, element: u32) -> bool {
        let hash = self.element(element).hash.load(Ordering::Relaxed);
        let _lock = self.lock(hash);
        if !self.unlink(hash, element) {
            return false;
        }
        self.release(element);
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }
}

impl Lru {
    #[inline(always)]
    pub(super) fn mark(&self, element: u32) -> &AtomicU8 {
        // SAFETY: callers name an element of the map, and there is a byte for each.
        unsafe { AtomicU8::from_ptr(self.marks.base().add(element as usize)) }
    }

    /// The element was looked up. One that went to another key meanwhile is taken for recent too: it
    /// only stays a little longer.
    #[inline(always)]
    pub(super) fn touch(&self, element: u32) {
        let mark = self.mark(element);
        // A line that all workers read stays in all their caches.
        if mark.load(Ordering::Relaxed) == USED {
            let _ = mark.compare_exchange(USED, RECENT, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
