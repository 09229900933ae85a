//! The plainest halves: one that sends nothing, one that takes everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::batch::FrameBatch;
use crate::parse::{Sum, parse};
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
pub struct Sink {
    totals: Arc<Totals>,
    verify: bool,
}

#[derive(Debug, Default)]
struct Totals {
    frames: AtomicU64,
    bytes: AtomicU64,
    bad_fcs: AtomicU64,
    bad_checksum: AtomicU64,
}

/// What a [`Sink`] has taken; readable from any thread while it takes more.
#[derive(Clone, Debug)]
pub struct SinkCounts(Arc<Totals>);

impl Sink {
    /// A sink that only counts.
    pub fn new() -> Self {
        Sink::default()
    }

    /// A sink that also checks the checksums of IPv4, UDP and TCP.
    pub fn verifying() -> Self {
        Sink {
            verify: true,
            ..Sink::default()
        }
    }

    /// A view of its counts.
    pub fn counts(&self) -> SinkCounts {
        SinkCounts(self.totals.clone())
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

    /// Frames with a wrong checksum of IPv4, UDP or TCP, if the sink verifies.
    pub fn bad_checksum(&self) -> u64 {
        self.0.bad_checksum.load(Ordering::Relaxed)
    }
}

impl Egress for Sink {
    fn transmit(&mut self, _: Duration, batch: &FrameBatch) -> Result<usize, WireError> {
        let (mut bytes, mut bad, mut wrong) = (0, 0, 0);
        for frame in batch.iter() {
            bytes += frame.data.len() as u64;
            bad += u64::from(frame.bad_fcs);
            wrong += u64::from(self.verify && has_bad_checksum(frame.data));
        }
        let totals = &self.totals;
        let add = |total: &AtomicU64, by| total.fetch_add(by, Ordering::Relaxed);
        add(&totals.frames, batch.len() as u64);
        add(&totals.bytes, bytes);
        add(&totals.bad_fcs, bad);
        add(&totals.bad_checksum, wrong);
        Ok(batch.len())
    }
}

fn has_bad_checksum(frame: &[u8]) -> bool {
    let parsed = parse(frame, false);
    parsed.ip_sum == Sum::Bad || parsed.l4_sum == Sum::Bad
}

#[cfg(test)]
mod tests {
    use super::super::packets::{Flow, Shape};
    use super::*;

    #[test]
    fn a_verifying_sink_finds_what_is_wrong_and_only_that() {
        let mut random = fastrand::Rng::with_seed(5);
        let flow = Flow::new(1, [2; 6], &mut random);
        let mut sink = Sink::verifying();
        for shape in [Shape::SmallUdp, Shape::Udp(777), Shape::Mixed(1500)] {
            let mut batch = FrameBatch::new();
            while flow.send(shape, &mut random, &mut batch) {}
            sink.transmit(Duration::ZERO, &batch).unwrap();
        }
        let counts = sink.counts();
        assert!(counts.frames() > 100);
        assert_eq!(counts.bad_checksum(), 0, "sources send right checksums");
        let mut batch = FrameBatch::new();
        flow.send(Shape::SmallUdp, &mut random, &mut batch);
        if let Some(frame) = batch.last_mut() {
            frame[59] ^= 1;
        }
        sink.transmit(Duration::ZERO, &batch).unwrap();
        assert_eq!(counts.bad_checksum(), 1);
    }
}
