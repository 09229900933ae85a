//! A wire that loses, doubles, reorders and delays frames, by a seed, and counts what it did.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::batch::{FrameBatch, MAX_FRAME};
use crate::wire::{Ingress, Supply, WireError};

/// How a wire is impaired. Chances are from 0 to 1, each frame's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    /// Seed of the chances.
    pub seed: u64,
    /// Chance that a frame is lost.
    pub loss: f64,
    /// Chance that a frame comes twice.
    pub duplication: f64,
    /// Chance that a frame comes after the one behind it.
    pub reordering: f64,
    /// How long each frame takes.
    pub delay: Duration,
}

/// Wraps the half of a wire that brings frames.
#[derive(Debug)]
pub struct Impaired<I> {
    inner: I,
    impairment: Impairment,
    random: fastrand::Rng,
    /// From the wire, fate not decided.
    fresh: FrameBatch,
    supply: Supply,
    /// A frame that waits for the next one to pass it; empty for none.
    passed: Option<Held>,
    /// Frames that wait for their time, and when that is.
    late: FrameBatch,
    due: VecDeque<Duration>,
    counts: Arc<Totals>,
}

#[derive(Debug)]
struct Held {
    frame: Vec<u8>,
    bad_fcs: bool,
}

#[derive(Debug, Default)]
struct Totals {
    taken: AtomicU64,
    lost: AtomicU64,
    duplicated: AtomicU64,
    reordered: AtomicU64,
    brought: AtomicU64,
}

/// What an [`Impaired`] wire did; readable from any thread.
#[derive(Clone, Debug)]
pub struct ImpairmentCounts(Arc<Totals>);

impl ImpairmentCounts {
    /// Frames that came from the wire inside.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Frames of those that were lost.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Frames of those that came twice.
    pub fn duplicated(&self) -> u64 {
        self.0.duplicated.load(Ordering::Relaxed)
    }

    /// Frames of those that another one passed.
    pub fn reordered(&self) -> u64 {
        self.0.reordered.load(Ordering::Relaxed)
    }

    /// Frames brought to the NIC; once all have arrived, `taken - lost + duplicated`.
    pub fn brought(&self) -> u64 {
        self.0.brought.load(Ordering::Relaxed)
    }
}

/// Most frames, and bytes, that are on their way where there is a delay.
const LATE_FRAMES: usize = 16 << 10;
const LATE_BYTES: usize = 8 << 20;
/// How often the wire inside is asked at a time. A wire that loses everything would else ask for
/// ever, and the NIC would never come back.
const ROUNDS: usize = 256;

impl<I: Ingress> Impaired<I> {
    /// Impairs `inner`.
    pub fn new(inner: I, impairment: Impairment) -> Self {
        let delayed = !impairment.delay.is_zero();
        Impaired {
            inner,
            impairment,
            random: fastrand::Rng::with_seed(impairment.seed),
            fresh: FrameBatch::new(),
            supply: Supply::More,
            passed: None,
            late: match delayed {
                true => FrameBatch::with_capacity(LATE_BYTES, LATE_FRAMES),
                false => FrameBatch::default(),
            },
            due: VecDeque::new(),
            counts: Arc::default(),
        }
    }

    /// A view of its counts.
    pub fn counts(&self) -> ImpairmentCounts {
        ImpairmentCounts(self.counts.clone())
    }

    fn chance(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.random.f64() < chance
    }

    /// Decides the fates of fresh frames and sends what is left of them on; stops where `out` might
    /// not have room for what comes of the next.
    fn decide(&mut self, out: &mut FrameBatch) {
        let mut fresh = std::mem::take(&mut self.fresh);
        while let Some(frame) = fresh.front() {
            let waiting = self.passed.as_ref().map_or(0, |h| h.frame.len());
            if !has_room(out, 2 * frame.data.len() + waiting) {
                break;
            }
            count(&self.counts.taken);
            let (data, bad_fcs) = (frame.data, frame.bad_fcs);
            if self.chance(self.impairment.loss) {
                count(&self.counts.lost);
            } else if self.passed.is_none() && self.chance(self.impairment.reordering) {
                self.passed = Some(Held {
                    frame: data.to_vec(),
                    bad_fcs,
                });
            } else {
                send(out, data, bad_fcs);
                if self.chance(self.impairment.duplication) {
                    count(&self.counts.duplicated);
                    send(out, data, bad_fcs);
                }
                if let Some(held) = self.passed.take() {
                    count(&self.counts.reordered);
                    send(out, &held.frame, held.bad_fcs);
                }
            }
            fresh.take(1);
        }
        self.fresh = fresh;
    }

    /// A frame that nobody will pass goes on.
    fn give_up_waiting(&mut self, out: &mut FrameBatch) {
        if let Some(held) = &self.passed
            && has_room(out, held.frame.len())
        {
            send(out, &held.frame, held.bad_fcs);
            self.passed = None;
        }
    }

    /// Everything that has arrived by now, without the delay.
    fn receive_impaired(
        &mut self,
        now: Duration,
        out: &mut FrameBatch,
    ) -> Result<Supply, WireError> {
        for _ in 0..ROUNDS {
            self.decide(out);
            if !self.fresh.is_empty() {
                return Ok(Supply::More);
            }
            if self.supply == Supply::End {
                self.give_up_waiting(out);
                let done = self.passed.is_none();
                return Ok(if done { Supply::End } else { Supply::More });
            }
            self.supply = self.inner.receive(now, &mut self.fresh)?;
            if self.fresh.is_empty() && self.supply != Supply::End {
                return Ok(self.supply);
            }
        }
        Ok(Supply::More)
    }

    /// Frames whose time has come.
    fn receive_late(&mut self, now: Duration, out: &mut FrameBatch) -> bool {
        while let (Some(due), Some(frame)) = (self.due.front(), self.late.front()) {
            if *due > now {
                return false;
            }
            if !has_room(out, frame.data.len()) {
                return true;
            }
            send(out, frame.data, frame.bad_fcs);
            self.late.take(1);
            self.due.pop_front();
        }
        false
    }
}

impl<I: Ingress> Ingress for Impaired<I> {
    fn receive(&mut self, now: Duration, batch: &mut FrameBatch) -> Result<Supply, WireError> {
        let before = batch.len();
        let supply = if self.impairment.delay.is_zero() {
            self.receive_impaired(now, batch)?
        } else {
            let mut late = std::mem::take(&mut self.late);
            if !late.fits_frames(64, 4 * MAX_FRAME) {
                late.compact();
            }
            let supply = self.receive_impaired(now, &mut late);
            self.late = late;
            self.due
                .resize(self.late.len(), now + self.impairment.delay);
            let more = self.receive_late(now, batch);
            match supply? {
                _ if more => Supply::More,
                Supply::End if self.late.is_empty() => Supply::End,
                _ => Supply::Later,
            }
        };
        let brought = (batch.len() - before) as u64;
        self.counts.brought.fetch_add(brought, Ordering::Relaxed);
        Ok(supply)
    }

    fn is_patient(&self) -> bool {
        self.inner.is_patient()
    }
}

/// Room for three frames that are `bytes` long together, in a batch that could hold any frame.
fn has_room(out: &FrameBatch, bytes: usize) -> bool {
    debug_assert!(bytes <= 3 * MAX_FRAME);
    out.fits_frames(3, bytes)
}

fn send(out: &mut FrameBatch, data: &[u8], bad_fcs: bool) {
    let sent = out.push(data);
    debug_assert!(sent, "there was room");
    if bad_fcs {
        out.spoil_fcs();
    }
}

fn count(total: &AtomicU64) {
    total.fetch_add(1, Ordering::Relaxed);
}
