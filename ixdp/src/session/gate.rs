//! A valve on the way from a traffic source to the NIC: shut until the workers are there, and shut
//! for good when the session ends. Counts what passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use emulated_nic::{FrameBatch, Ingress, Supply, WireError};

/// The source behind its valve.
#[derive(Debug)]
pub(super) struct Gate<I> {
    source: I,
    valve: Arc<Valve>,
}

/// The session's hand on the gate.
#[derive(Debug, Default)]
pub(super) struct Valve {
    state: AtomicU8,
    offered: AtomicU64,
}

const SHUT: u8 = 0;
const OPEN: u8 = 1;
const ENDED: u8 = 2;

impl<I: Ingress> Gate<I> {
    pub(super) fn new(source: I) -> (Self, Arc<Valve>) {
        let valve = Arc::<Valve>::default();
        let gate = Gate {
            source,
            valve: valve.clone(),
        };
        (gate, valve)
    }
}

impl Valve {
    /// Lets frames through.
    pub(super) fn open(&self) {
        self.state.store(OPEN, Ordering::Release);
    }

    /// Tells the NIC that no frame follows.
    pub(super) fn end(&self) {
        self.state.store(ENDED, Ordering::Release);
    }

    /// Frames that went through.
    pub(super) fn offered(&self) -> u64 {
        self.offered.load(Ordering::Acquire)
    }
}

impl<I: Ingress> Ingress for Gate<I> {
    fn receive(&mut self, now: Duration, batch: &mut FrameBatch) -> Result<Supply, WireError> {
        match self.valve.state.load(Ordering::Acquire) {
            SHUT => return Ok(Supply::Later),
            ENDED => return Ok(Supply::End),
            _ => {}
        }
        let before = batch.len();
        let supply = self.source.receive(now, batch);
        let more = (batch.len() - before) as u64;
        // The NIC's thread is the only writer.
        let offered = self.valve.offered.load(Ordering::Relaxed) + more;
        self.valve.offered.store(offered, Ordering::Release);
        supply
    }

    fn is_patient(&self) -> bool {
        self.source.is_patient()
    }
}
