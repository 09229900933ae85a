//! The buffers of a receive ring, in their slots.
//!
//! This module guards that all of them are of one geometry, whose receive limit is the ring's: frames
//! enter only where that is checked (at the start, and when a spare takes the place of a packet), so a
//! received length is held against the limit alone, and nothing is looked up per packet.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::frame::{Frame, ReceiveLimit};
use crate::packet::{RxMetadata, RxPacket};
use crate::pool::Spares;
use crate::ring::Descriptor;

/// Frames of one geometry, one a descriptor, always all there. Dropping it sends them home.
#[derive(Debug)]
pub struct RxSlots {
    frames: Box<[Frame]>,
    limit: ReceiveLimit,
}

impl RxSlots {
    /// Slots that hold `frames`. Gives them back where one of them is not of the limit's geometry.
    pub fn new(frames: Vec<Frame>, limit: ReceiveLimit) -> Result<Self, Vec<Frame>> {
        if frames.iter().any(|f| !limit.is_for(f)) {
            return Err(frames);
        }
        let frames = frames.into();
        Ok(RxSlots { frames, limit })
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

    /// The slots in `run`, for packets of one buffer each.
    #[inline]
    pub fn run(&mut self, run: Range<usize>) -> RxRun<'_> {
        RxRun {
            frames: &mut self.frames[run],
            fragments: RxFragments([&mut [], &mut []]),
            limit: self.limit,
        }
    }

    /// The slot at `first`, and those of the `fragments` after it, around the end of the ring, as the
    /// rest of its packet.
    pub fn chain(&mut self, first: usize, fragments: usize) -> RxRun<'_> {
        let (start, end) = self.frames.split_at_mut(first);
        let (frames, ahead) = end.split_at_mut(1);
        let to_end = fragments.min(ahead.len());
        let (ahead, behind) = (&mut ahead[..to_end], &mut start[..fragments - to_end]);
        // A packet has fragments where the first part is not empty.
        let rest = if ahead.is_empty() {
            [behind, ahead]
        } else {
            [ahead, behind]
        };
        RxRun {
            frames,
            fragments: RxFragments(rest),
            limit: self.limit,
        }
    }

    /// Forgets all frames and never frees them: for a device that may still write to them.
    pub fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.frames));
    }
}

/// A stretch of slots.
#[derive(Debug)]
pub struct RxRun<'a> {
    frames: &'a mut [Frame],
    fragments: RxFragments<'a>,
    limit: ReceiveLimit,
}

impl<'a> RxRun<'a> {
    /// The slots, each with the packet's other buffers (none, or those of the one packet there is).
    #[inline]
    pub fn slots(self) -> (impl ExactSizeIterator<Item = RxSlot<'a>>, RxFragments<'a>) {
        let limit = self.limit;
        let slots = self
            .frames
            .iter_mut()
            .map(move |frame| RxSlot { frame, limit });
        (slots, self.fragments)
    }
}

/// Buffers after the first of a packet that lies in several slots.
#[derive(Debug)]
pub struct RxFragments<'a>([&'a mut [Frame]; 2]);

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

    /// The packet that was received here, its fragments behind it, to be given to a handler.
    /// `descriptor` holds what the device wrote about it, which `decode` reads.
    #[inline(always)]
    pub fn packet<'p>(
        &'p mut self,
        fragments: &'p mut RxFragments<'_>,
        spares: &'p mut Spares,
        descriptor: &'p Descriptor,
        decode: fn([u64; 2]) -> RxMetadata,
    ) -> RxPacket<'p> {
        let [first, second] = &mut fragments.0;
        RxPacket::new(self.frame, [first, second], spares, descriptor, decode)
    }

    /// Address at which the device may write to the buffer that is in the slot now.
    #[inline]
    pub fn receive_iova(&self, delta: u64) -> u64 {
        self.frame.receive_iova(delta)
    }
}
