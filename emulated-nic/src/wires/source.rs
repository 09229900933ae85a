//! The built-in traffic source.

use std::time::Duration;

use super::packets::{Flow, Shape};
use crate::batch::FrameBatch;
use crate::wire::{Ingress, Supply, WireError};

/// What a [`Source`] sends.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceConfig {
    /// Different flows, by addresses and ports, sent in turn. At least 1.
    pub flows: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// Frames in all; endless without.
    pub limit: Option<u64>,
    /// Frames a second; as fast as the NIC takes them without.
    pub rate: Option<u64>,
    /// What the frames are.
    pub shape: Shape,
    /// Destination address.
    pub destination: [u8; 6],
}

impl Default for SourceConfig {
    /// Endless 64-byte UDP (60 bytes and FCS) in 64 flows to everyone's station address, as fast as
    /// the NIC takes them.
    fn default() -> Self {
        SourceConfig {
            flows: 64,
            seed: 1,
            limit: None,
            rate: None,
            shape: Shape::SmallUdp,
            destination: [0x02, 0, 0, 0, 0, 0x01],
        }
    }
}

/// A traffic source. Without a rate it is patient: it waits for a NIC that has no room. With one it
/// is a line that goes on at its pace.
#[derive(Debug)]
pub struct Source {
    config: SourceConfig,
    flows: Vec<Flow>,
    random: fastrand::Rng,
    next: usize,
    sent: u64,
    /// When the first frame was asked for.
    start: Option<Duration>,
}

impl Source {
    /// A source of this traffic.
    pub fn new(config: SourceConfig) -> Self {
        let mut random = fastrand::Rng::with_seed(config.seed);
        let flows = (0..config.flows.max(1))
            .map(|n| Flow::new(n, config.destination, &mut random))
            .collect();
        Source {
            config,
            flows,
            random,
            next: 0,
            sent: 0,
            start: None,
        }
    }

    /// Frames that may be sent by `now`.
    fn due(&mut self, now: Duration) -> u64 {
        let start = *self.start.get_or_insert(now);
        let limit = self.config.limit.unwrap_or(u64::MAX) - self.sent;
        let by_rate = self.config.rate.map_or(u64::MAX, |rate| {
            let nanos = now.saturating_sub(start).as_nanos();
            let due = nanos * u128::from(rate) / 1_000_000_000;
            (due as u64).saturating_sub(self.sent)
        });
        limit.min(by_rate)
    }
}

impl Ingress for Source {
    fn receive(&mut self, now: Duration, batch: &mut FrameBatch) -> Result<Supply, WireError> {
        let due = self.due(now);
        for _ in 0..due {
            let flow = &self.flows[self.next];
            if !flow.send(self.config.shape, &mut self.random, batch) {
                return Ok(Supply::More);
            }
            self.sent += 1;
            self.next += 1;
            if self.next == self.flows.len() {
                self.next = 0;
            }
        }
        match self.config.limit {
            Some(limit) if self.sent == limit => Ok(Supply::End),
            _ => Ok(Supply::Later),
        }
    }

    fn is_patient(&self) -> bool {
        self.config.rate.is_none()
    }
}
