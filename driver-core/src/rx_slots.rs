//! The buffers of a receive ring, in their slots.
//!
//! This module guards that all of them are of one size, the receive limit's: frames enter at the start,
//! where each is looked at, and from spares, whose size is compared once a run. So a received length is
//! held against the limit alone, and nothing is looked up per packet.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::frame::{Frame, ReceiveLimit};
use crate::packet::{RxMetadata, RxPacket};
use crate::pool::{FramePool, Spares};
use crate::ring::Descriptor;

/// Frames of one geometry, one a descriptor, always all there. Dropping it sends them home.
#[derive(Debug)]
pub struct RxSlots {
    frames: Box<[Frame]>,
    limit: ReceiveLimit,
    /// Stands in for spares that do not fit: none.
    none: Spares,
}

impl RxSlots {
    /// `count` slots, filled from `pool`, that receive up to `buffer` bytes each. `None` where the pool
    /// has too few frames, or their room is not that large.
    pub fn new(pool: &mut FramePool, count: usize, buffer: usize) -> Option<Self> {
        let limit = pool.geometry().receive_limit(buffer)?;
        let frames: Box<[_]> = (0..count).map_while(|_| pool.take()).collect();
        let filled = frames.len() == count && frames.iter().all(|f| limit.is_for(f));
        filled.then(|| RxSlots {
            frames,
            limit,
            none: pool.spares(0),
        })
    }

    /// Number of slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True where there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The buffers, to be looked at.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// One slot.
    #[inline]
    pub fn slot(&mut self, index: usize) -> RxSlot<'_> {
        RxSlot {
            frame: &mut self.frames[index],
            limit: self.limit,
        }
    }

    /// The slots in `run`, for packets of one buffer each. Buffers that are taken are replaced from
    /// `spares`; spares of another size or domain count as none.
    #[inline]
    pub fn run<'a>(&'a mut self, run: Range<usize>, spares: &'a mut Spares) -> RxRun<'a> {
        RxRun {
            frames: &mut self.frames[run],
            limit: self.limit,
            around: RxAround {
                fragments: [&mut [], &mut []],
                limit: self.limit,
                spares: fitting(spares, &mut self.none),
            },
        }
    }

    /// The slot at `first`, and those of the `fragments` after it, around the end of the ring, as the
    /// rest of its packet.
    pub fn chain<'a>(
        &'a mut self,
        first: usize,
        fragments: usize,
        spares: &'a mut Spares,
    ) -> RxRun<'a> {
        let (start, end) = self.frames.split_at_mut(first);
        let (frames, ahead) = end.split_at_mut(1);
        let to_end = fragments.min(ahead.len());
        let (ahead, behind) = (&mut ahead[..to_end], &mut start[..fragments - to_end]);
        // A packet has fragments where the first part is not empty.
        let fragments = if ahead.is_empty() {
            [behind, ahead]
        } else {
            [ahead, behind]
        };
        RxRun {
            frames,
            limit: self.limit,
            around: RxAround {
                fragments,
                limit: self.limit,
                spares: fitting(spares, &mut self.none),
            },
        }
    }

    /// Forgets all frames and never frees them: for a device that may still write to them.
    pub fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.frames));
    }
}

/// `spares` where they are like `none`, which is the ring's.
#[inline]
fn fitting<'a>(spares: &'a mut Spares, none: &'a mut Spares) -> &'a mut Spares {
    if spares.is_like(none) { spares } else { none }
}

/// A stretch of slots.
#[derive(Debug)]
pub struct RxRun<'a> {
    frames: &'a mut [Frame],
    limit: ReceiveLimit,
    around: RxAround<'a>,
}

impl<'a> RxRun<'a> {
    /// The slots, and what goes with the packet in each.
    #[inline]
    pub fn slots(self) -> (impl ExactSizeIterator<Item = RxSlot<'a>>, RxAround<'a>) {
        let limit = self.limit;
        let slots = self
            .frames
            .iter_mut()
            .map(move |frame| RxSlot { frame, limit });
        (slots, self.around)
    }
}

/// What goes with the packets of a run: the other buffers of a packet that lies in several slots, and
/// the spares that fit the ring.
#[derive(Debug)]
pub struct RxAround<'a> {
    fragments: [&'a mut [Frame]; 2],
    /// The ring's.
    limit: ReceiveLimit,
    spares: &'a mut Spares,
}

/// One slot of a receive ring with its buffer.
#[derive(Debug)]
pub struct RxSlot<'a> {
    frame: &'a mut Frame,
    limit: ReceiveLimit,
}

impl RxSlot<'_> {
    /// Marks `len` bytes behind the full headroom as received. False, and nothing changed, where there
    /// are none, or more than the device was given room for.
    #[inline]
    pub fn receive(&mut self, len: usize) -> bool {
        // SAFETY: the limit is the ring's, and all its frames are of that geometry.
        unsafe { self.frame.receive_unchecked(self.limit, len) }
    }

    /// The packet that was received here, to be given to a handler. `around` is its run's.
    /// `descriptor` holds what the device wrote about it, which `decode` reads.
    ///
    /// # Panics
    /// `around` is that of a ring with frames of another size: its spares would end up in this one.
    #[inline(always)]
    pub fn packet<'p>(
        &'p mut self,
        around: &'p mut RxAround<'_>,
        descriptor: &'p Descriptor,
        decode: fn([u64; 2]) -> RxMetadata,
    ) -> RxPacket<'p> {
        // Where both come from one run this is known when it is compiled.
        assert!(
            around.limit.is_like(self.limit),
            "a slot and what is around it are of different rings"
        );
        let RxAround {
            fragments, spares, ..
        } = around;
        let [first, second] = fragments;
        RxPacket::new(self.frame, [first, second], spares, descriptor, decode)
    }

    /// Address at which the device may write to the buffer that is in the slot now.
    #[inline]
    pub fn receive_iova(&self, delta: u64) -> u64 {
        self.frame.receive_iova(delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DmaDomain, Geometry, IovaRanges};

    #[test]
    #[should_panic(expected = "different rings")]
    fn spares_of_another_ring_do_not_get_into_a_slot() {
        let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
        let mut large = FramePool::new(&domain, Geometry::KERNEL, 4).unwrap();
        let mut small = FramePool::new(&domain, Geometry::SMALL, 4).unwrap();
        let mut spares = small.spares(2);
        spares.refill(&mut small, 2);
        let mut rings = [
            RxSlots::new(&mut large, 1, 3072).unwrap(),
            RxSlots::new(&mut small, 1, 2048).unwrap(),
        ];
        let [ring, other] = &mut rings;
        let (_, mut around) = other.run(0..1, &mut spares).slots();
        let mut slot = ring.slot(0);
        assert!(slot.receive(3072));
        // The small frame would then be received into as if it were a large one.
        let descriptor = Descriptor::default();
        slot.packet(&mut around, &descriptor, |_| RxMetadata::default())
            .take();
    }
}
