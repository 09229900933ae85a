//! A transmit ring: descriptors, and the frames that they refer to.
//!
//! This module guards which frames are there: the `used` ones before `tail`, and no other. The bounds of
//! a packet's two writes, to the descriptor and to the frame beside it, are that one invariant, so they
//! cost no check each; and finished frames leave as runs of memory.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use crate::frame::{Frame, FrameKinds};
use crate::pool::Spares;
use crate::ring::{Descriptor, DescriptorRing};

/// Descriptors of a transmit queue with their frames, in the order of the ring. One descriptor always
/// stays free, since a full ring would look like an empty one.
#[derive(Debug)]
pub struct TxRing {
    descriptors: DescriptorRing,
    frames: Box<[MaybeUninit<Frame>]>,
    /// Next descriptor to fill, in units of [`UNIT`]; `end` where that is the first one.
    tail: usize,
    /// Up to where descriptors may be filled without a look at what is there, likewise; at most `end`.
    until: usize,
    /// Oldest descriptor in use, likewise, less than `end`; none is where it is the tail.
    oldest: usize,
    /// Number of descriptors and of places for frames, likewise.
    end: usize,
    /// What the frames are that came since the ring was empty: so it is known of a run of them at once
    /// that all are of one size.
    kinds: FrameKinds,
}

/// The next descriptor of a transmit ring, free, with the place of its frame.
#[derive(Debug)]
pub struct TxSlot<'a>(&'a mut TxRing);

impl TxSlot<'_> {
    /// Fills the descriptor with `words`, which refer to `frame`.
    #[inline]
    pub fn fill(self, frame: Frame, words: [u64; 2]) {
        let TxSlot(ring) = self;
        let tail = ring.tail;
        ring.kinds.add(&frame);
        // SAFETY: there is a slot only where `tail` is less than `until`, which is at most `end`: inside
        // both arrays, and what is there is not in use.
        unsafe {
            let descriptors = ring.descriptors().as_ptr();
            (*descriptors.byte_add(tail)).store(words);
            let frames = ring.frames.as_mut_ptr();
            frames.byte_add(tail).write(MaybeUninit::new(frame));
        }
        ring.tail = tail + UNIT;
    }
}

/// Bytes of a descriptor, and of a frame: what the next one of either is further by.
const UNIT: usize = 16;
const _: () = assert!(size_of::<Frame>() == UNIT && size_of::<Descriptor>() == UNIT);

impl TxRing {
    /// An empty ring over `descriptors`. `None` where there are fewer than two.
    pub fn new(descriptors: DescriptorRing) -> Option<Self> {
        let count = descriptors.descriptors().len();
        let frames = (0..count).map(|_| MaybeUninit::uninit()).collect();
        (count >= 2).then(|| TxRing {
            descriptors,
            frames,
            tail: 0,
            until: (count - 1) * UNIT,
            oldest: 0,
            end: count * UNIT,
            kinds: FrameKinds::none(),
        })
    }

    /// Descriptors that may be filled.
    #[inline]
    pub fn room(&self) -> usize {
        self.frames.len() - 1 - self.used()
    }

    /// Descriptors in use.
    #[inline]
    pub fn used(&self) -> usize {
        // A tail at the end is one at the start.
        let tail = if self.tail == self.end { 0 } else { self.tail };
        let turn = if tail < self.oldest { self.end } else { 0 };
        (tail + turn - self.oldest) / UNIT
    }

    /// Next descriptor to fill.
    #[inline]
    pub fn tail(&self) -> usize {
        if self.tail == self.end {
            0
        } else {
            self.tail / UNIT
        }
    }

    /// The descriptors, first to last.
    #[inline]
    pub fn descriptors(&self) -> &[Descriptor] {
        self.descriptors.descriptors()
    }

    /// The descriptors' place in memory.
    pub fn memory(&self) -> &DescriptorRing {
        &self.descriptors
    }

    /// The next descriptor, to be filled. `None` where the ring is full, or where it is not known
    /// without a closer look, which is [`free`](Self::free)'s.
    #[inline]
    pub fn free_at_once(&mut self) -> Option<TxSlot<'_>> {
        (self.tail < self.until).then_some(TxSlot(self))
    }

    /// The next descriptor, to be filled. `None` where the ring is full.
    #[inline]
    pub fn free(&mut self) -> Option<TxSlot<'_>> {
        (self.tail < self.until || self.go_on()).then_some(TxSlot(self))
    }

    /// Goes back to the start where the tail is at the end, and looks how far there is room. False where
    /// the ring is full.
    #[cold]
    #[inline]
    fn go_on(&mut self) -> bool {
        if self.tail == self.end {
            self.tail = 0;
        }
        self.look();
        self.tail < self.until
    }

    /// One descriptor stays free: the one before the oldest in use.
    #[inline]
    fn look(&mut self) {
        let before = if self.oldest == 0 {
            self.end
        } else {
            self.oldest
        } - UNIT;
        self.until = if before >= self.tail {
            before
        } else {
            self.end
        };
    }

    /// Moves the frames of the `count` oldest descriptors, or as many as there is room for, into
    /// `spares`, and frees the descriptors. Returns how many.
    #[inline]
    pub fn reclaim(&mut self, count: usize, spares: &mut Spares) -> usize {
        let used = self.used();
        let count = count.min(used).min(spares.room());
        let first = self.oldest / UNIT;
        let to_end = count.min(self.frames.len() - first);
        // Out of the ring first: a frame must not be in two places, whatever happens.
        let oldest = self.oldest + count * UNIT;
        self.oldest = if oldest >= self.end {
            oldest - self.end
        } else {
            oldest
        };
        self.look();
        let alike = self.kinds.all_have(spares.frame_room());
        if count == used {
            self.kinds = FrameKinds::none();
        }
        // SAFETY: `count` frames from `first` on were there and are the ring's no more: `to_end` of them
        // up to its end at most, the others from its start. All of them were counted in `kinds`.
        unsafe {
            spares.adopt(self.frames.get_unchecked(first..first + to_end), alike);
            if count > to_end {
                spares.adopt(self.frames.get_unchecked(..count - to_end), alike);
            }
        }
        count
    }

    /// Forgets all frames and never frees them: for a device that may still read from them.
    pub fn leak(&mut self) {
        self.oldest = self.tail() * UNIT;
        self.look();
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        let count = self.frames.len();
        for i in 0..self.used() {
            // SAFETY: it is in use, and dropped once.
            unsafe { self.frames[(self.oldest / UNIT + i) % count].assume_init_drop() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DmaDomain, FramePool, Geometry, IovaRanges};

    fn ring(domain: &DmaDomain, count: usize) -> Option<TxRing> {
        let region = domain.allocate(16 * count).unwrap();
        TxRing::new(DescriptorRing::new(&region, 0, count).unwrap())
    }

    fn fill(ring: &mut TxRing, pool: &mut FramePool) {
        let frame = pool.take().unwrap();
        ring.free().unwrap().fill(frame, [0; 2]);
    }

    #[test]
    fn frames_leave_in_the_order_they_came_and_none_is_lost() {
        let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
        let mut pool = FramePool::new(&domain, Geometry::SMALL, 64).unwrap();
        let mut other = FramePool::new(&domain, Geometry::KERNEL, 4).unwrap();
        assert!(ring(&domain, 1).is_none());
        let mut ring = ring(&domain, 8).unwrap();
        let mut spares = pool.spares(5);
        let mut mark = 0u64;
        let mut expected = 0u64;
        for round in 0..40 {
            for _ in 0..1 + round % 7 {
                let mut frame = pool.take().unwrap();
                frame.fill(&mark.to_le_bytes()).unwrap();
                match ring.free() {
                    Some(slot) => {
                        slot.fill(frame, [mark, 0]);
                        mark += 1;
                    }
                    None => assert_eq!(ring.room(), 0),
                }
            }
            assert_eq!(ring.used() + ring.room(), 7);
            let count = ring.reclaim(round % 9, &mut spares);
            assert!(count <= 5);
            let mut taken: Vec<_> = std::iter::from_fn(|| spares.pop()).collect();
            taken.reverse();
            for frame in taken {
                assert_eq!(frame.data(), expected.to_le_bytes());
                expected += 1;
            }
        }
        assert_eq!(mark - expected, ring.used() as u64);
        while ring.reclaim(usize::MAX, &mut spares) > 0 {
            spares.drain_to(&mut pool, 0);
        }
        // A frame of another geometry goes home, whatever is around it.
        fill(&mut ring, &mut pool);
        fill(&mut ring, &mut other);
        fill(&mut ring, &mut pool);
        assert_eq!(ring.reclaim(3, &mut spares), 3);
        assert_eq!((spares.len(), other.available()), (2, 4));
        fill(&mut ring, &mut pool);
        drop((ring, spares));
        assert_eq!((pool.available(), other.available()), (64, 4));
    }

    #[test]
    fn leaked_frames_do_not_come_home() {
        let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
        let mut pool = FramePool::new(&domain, Geometry::SMALL, 4).unwrap();
        let mut ring = ring(&domain, 8).unwrap();
        fill(&mut ring, &mut pool);
        ring.leak();
        drop(ring);
        assert_eq!(pool.available(), 3);
    }
}
