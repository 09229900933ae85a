//! Counters with one writer and any number of readers.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that one thread raises and others read: a plain load and store, no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the counter's one writer may call this; a second writer's additions could be lost.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// The count so far.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a receive queue counts.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct RxCounters {
    /// Packets given to the handler.
    pub packets: Counter,
    /// Bytes of those, as they arrived.
    pub bytes: Counter,
    /// Packets that the device marked as damaged: recycled unseen.
    pub errors: Counter,
    /// Descriptors whose length cannot be true: recycled unseen.
    pub bad_length: Counter,
    /// Packets over more buffers than are taken: recycled unseen.
    pub too_long: Counter,
}

/// What a transmit queue counts.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct TxCounters {
    /// Packets put on the ring.
    pub packets: Counter,
    /// Bytes of those.
    pub bytes: Counter,
    /// Packets given back because the ring was full.
    pub full: Counter,
    /// Packets given back because of their length.
    pub bad_length: Counter,
    /// Frames that the device has finished with.
    pub reclaimed: Counter,
}
