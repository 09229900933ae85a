//! The plainest halves: one that sends nothing, one that takes everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::batch::FrameBatch;
use crate::wire::{Egress, Ingress, Supply, WireError};

/// Sends nothing, and never ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence;

impl Ingress for Silence {
    fn receive(&mut self, _: Duration, _: &mut FrameBatch) -> Result<Supply, WireError> {
        Ok(Supply::Later)
    }
}

/// Takes every frame and counts it.
#[derive(Debug, Default)]
pub struct Sink(Arc<Totals>);

#[derive(Debug, Default)]
struct Totals {
    frames: AtomicU64,
    bytes: AtomicU64,
    bad_fcs: AtomicU64,
}

/// What a [`Sink`] has taken; readable from any thread while it takes more.
#[derive(Clone, Debug)]
pub struct SinkCounts(Arc<Totals>);

impl Sink {
    /// A sink.
    pub fn new() -> Self {
        Sink::default()
    }

    /// A view of its counts.
    pub fn counts(&self) -> SinkCounts {
        SinkCounts(self.0.clone())
    }
}

impl SinkCounts {
    /// Frames taken.
    pub fn frames(&self) -> u64 {
        self.0.frames.load(Ordering::Relaxed)
    }

    /// Bytes of those, without checksums (FCS).
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Frames whose checksum (FCS) was wrong.
    pub fn bad_fcs(&self) -> u64 {
        self.0.bad_fcs.load(Ordering::Relaxed)
    }
}

impl Egress for Sink {
    fn transmit(&mut self, _: Duration, batch: &FrameBatch) -> Result<usize, WireError> {
        let (mut bytes, mut bad) = (0, 0);
        for frame in batch.iter() {
            bytes += frame.data.len() as u64;
            bad += u64::from(frame.bad_fcs);
        }
        self.0
            .frames
            .fetch_add(batch.len() as u64, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.bad_fcs.fetch_add(bad, Ordering::Relaxed);
        Ok(batch.len())
    }
}
