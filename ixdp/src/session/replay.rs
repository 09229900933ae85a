//! One packet after the other, in virtual time, on the caller's thread: the same device model, driver
//! and workers as in a session, and the same result on every run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datapath::{Application, Program, Verdict};
use driver_core::{Port, RxPacket};
use emulated_nic::{Egress, FrameBatch, Ingress, Nic, Supply, Undersize, Wire, WireError};

use super::report::{Report, Snapshot, WireCounts};
use super::rig::{self, PortWorker, Ready, Rig};
use super::{SessionConfig, SessionError, crew, tallies};

/// Shortest packet that has an Ethernet header.
const HEADER: usize = 14;
/// Steps of the model in which a packet has to come out.
const STEPS: usize = 64;
/// What passes on the device's clock from packet to packet.
const GAP: Duration = Duration::from_micros(1);

/// A device in virtual time.
///
/// ```
/// use datapath::Verdict;
/// use driver_core::RxPacket;
/// use ixdp::{Outcome, Replay, SessionConfig};
///
/// let short_ones = |packet: &mut RxPacket<'_>| match packet.data().len() {
///     ..100 => Verdict::Tx as u32,
///     _ => Verdict::Drop as u32,
/// };
/// let mut replay = Replay::start(&SessionConfig::default(), |_queue| short_ones)?;
/// let outcome = replay.packet(&[7; 60])?;
/// let Outcome::Judged { verdict, ref sent, .. } = outcome else { panic!("{outcome:?}") };
/// assert_eq!((verdict, &sent[0][..]), (Some(Verdict::Tx), &[7; 60][..]));
/// assert!(matches!(replay.packet(&[7; 13])?, Outcome::Missed { .. }));
/// assert!(replay.finish()?.is_clean());
/// # Ok::<(), ixdp::SessionError>(())
/// ```
pub struct Replay<P> {
    workers: Vec<PortWorker<P, Witness>>,
    rig: Rig,
    nic: Nic,
    post: Arc<Mutex<Post>>,
    max_frame: usize,
    packets: u64,
    refused: u64,
    started: Instant,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It reached a queue.
    Judged {
        /// What the program said; `None` where there is none, and the packet went past it.
        verdict: Option<Verdict>,
        /// Bytes after the program.
        length: usize,
        /// Queue that it came in by.
        queue: u16,
        /// The packet after the program, where the application got it.
        passed: Option<Vec<u8>>,
        /// What the device sent because of it.
        sent: Vec<Vec<u8>>,
    },
    /// It reached no queue.
    Missed {
        /// Why.
        reason: String,
    },
}

/// The wire's two ends, in the caller's hands.
#[derive(Debug, Default)]
struct Post {
    /// Packets on their way to the NIC.
    inbound: VecDeque<Vec<u8>>,
    /// Packets that it sent.
    outbound: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct End(Arc<Mutex<Post>>);

impl End {
    fn post(&self) -> std::sync::MutexGuard<'_, Post> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ingress for End {
    fn receive(&mut self, _: Duration, batch: &mut FrameBatch) -> Result<Supply, WireError> {
        let mut post = self.post();
        while let Some(packet) = post.inbound.front() {
            if !batch.push(packet) {
                return Ok(Supply::More);
            }
            post.inbound.pop_front();
        }
        Ok(Supply::Later)
    }

    fn is_patient(&self) -> bool {
        true
    }
}

impl Egress for End {
    fn transmit(&mut self, _: Duration, batch: &FrameBatch) -> Result<usize, WireError> {
        let mut post = self.post();
        post.outbound.extend(batch.iter().map(|f| f.data.to_vec()));
        Ok(batch.len())
    }
}

/// The application of a replay: remembers the last packet.
#[derive(Debug, Default)]
struct Witness {
    verdict: Option<Verdict>,
    length: usize,
    passed: Option<Vec<u8>>,
}

impl Application for Witness {
    fn judged(&mut self, verdict: Verdict, packet: &RxPacket<'_>) {
        self.verdict = Some(verdict);
        self.length = packet.total_len();
    }

    fn deliver(&mut self, packet: RxPacket<'_>) -> bool {
        let mut bytes = packet.data().to_vec();
        packet.fragments().for_each(|f| bytes.extend(f.data()));
        self.length = bytes.len();
        self.passed = Some(bytes);
        true
    }
}

impl<P: Program> Replay<P> {
    /// Brings the device up, with the program that `make` gives on each queue. `config` says what
    /// device and queues there are; the traffic is the caller's, so faults of the wire are not drawn.
    ///
    /// # Errors
    /// No memory, or what the driver says of the device.
    pub fn start(
        config: &SessionConfig,
        mut make: impl FnMut(u16) -> P,
    ) -> Result<Self, SessionError> {
        let post = Arc::<Mutex<Post>>::default();
        let wire = Wire::new(End(post.clone()), End(post.clone()));
        let make = |queue| (make(queue), Witness::default());
        let Ready { nic, rig, workers } = rig::start(config, Undersize::Deliver, wire, make)?;
        let limit = rig.port.limits().max_frame.min(config.max_frame);
        Ok(Replay {
            workers,
            rig,
            nic,
            post,
            max_frame: limit as usize,
            packets: 0,
            refused: 0,
            started: Instant::now(),
        })
    }

    /// Sends a packet, without FCS, through the device, and waits until nothing of it is left there.
    ///
    /// # Errors
    /// The device neither delivers nor drops it.
    pub fn packet(&mut self, packet: &[u8]) -> Result<Outcome, SessionError> {
        let length = packet.len();
        if length < HEADER || length > self.max_frame {
            self.refused += 1;
            let reason = format!(
                "{length} bytes: the device takes frames of {HEADER} to {} bytes",
                self.max_frame
            );
            return Ok(Outcome::Missed { reason });
        }
        self.post().inbound.push_back(packet.to_vec());
        self.packets += 1;
        // Before the device sees it: what is lost, is lost in the very first step.
        let lost = self.nic.wire_counts().lost();
        self.nic.advance(GAP);
        for _ in 0..STEPS {
            let queue = self.workers.iter_mut().position(|w| w.poll() > 0);
            if let Some(queue) = queue {
                return Ok(self.judged(queue));
            }
            if self.nic.wire_counts().lost() > lost {
                let reason = "the device dropped it".to_owned();
                return Ok(Outcome::Missed { reason });
            }
            self.nic.step();
        }
        Err(SessionError::Stuck { length })
    }

    /// Collects what came of the packet that `queue` has just had.
    fn judged(&mut self, queue: usize) -> Outcome {
        for _ in 0..STEPS {
            if !self.nic.step() && rig::pending(&mut self.workers) == 0 {
                break;
            }
        }
        let witness = std::mem::take(self.workers[queue].application());
        Outcome::Judged {
            verdict: witness.verdict,
            length: witness.length,
            queue: queue as u16,
            passed: witness.passed,
            sent: std::mem::take(&mut self.post().outbound),
        }
    }

    /// The program of each queue.
    pub fn programs(&mut self) -> impl Iterator<Item = &mut P> {
        self.workers.iter_mut().map(|w| w.program())
    }

    /// Drops the queues and says what was counted. The seconds are the machine's, from the start on.
    ///
    /// # Errors
    /// What the driver says of the device.
    pub fn finish(mut self) -> Result<Report, SessionError> {
        rig::pending(&mut self.workers);
        let retired: Vec<_> = self.workers.into_iter().map(crew::retire).collect();
        let (total, queues) = tallies(retired.iter().map(|r| r.counters.snapshot()));
        let device = self.nic.wire_counts();
        let end = Snapshot {
            seconds: self.started.elapsed().as_secs_f64(),
            total,
            queues,
            wire: WireCounts {
                offered: self.packets,
                delivered: device.offered,
                sent: device.transmitted,
                ..WireCounts::default()
            },
            link: self.rig.link,
            source_ended: true,
            ..Snapshot::default()
        };
        let mut report = self.rig.finish(&self.nic, end, &retired)?;
        report.refused = self.refused;
        Ok(report)
    }

    fn post(&self) -> std::sync::MutexGuard<'_, Post> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
