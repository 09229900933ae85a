//! Sessions: a device, its driver, workers and their threads, from start to stop.

mod config;
mod crew;
mod error;
mod gate;
mod replay;
mod report;
mod rig;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use datapath::{Application, Program, Tally};
use driver_core::{Link, Port};
use emulated_nic::wires::{self, Impaired, Impairment, ImpairmentCounts, Shape, Sink};
use emulated_nic::{Monitor, Running, Undersize, Wire};

pub use config::{SessionConfig, Source};
pub use error::SessionError;
pub use replay::{Outcome, Replay};
pub use report::{Report, Snapshot, WireCounts};

use crew::Crew;
use gate::{Gate, Valve};
use rig::{Ready, Rig};

/// Longest wait for the packets of a stopped source to be done with.
const QUIET_LIMIT: Duration = Duration::from_secs(5);
/// Checksum of an Ethernet frame.
const FCS: usize = 4;

/// A device that receives, with a worker on each queue and threads that poll. `P` judges packets and
/// `A` takes those that pass; each queue has its own.
///
/// ```
/// use datapath::{Discard, Verdict};
/// use driver_core::RxPacket;
/// use ixdp::{Session, SessionConfig, Source};
///
/// let config = SessionConfig {
///     source: Source { count: Some(10_000), ..Source::default() },
///     ..SessionConfig::default()
/// };
/// let drop_all = |_: &mut RxPacket<'_>| Verdict::Drop as u32;
/// let session = Session::start(&config, |_queue| (drop_all, Discard))?;
/// while !session.is_done() {
///     std::thread::yield_now();
/// }
/// let (report, _) = session.stop()?;
/// assert_eq!(report.end.total.verdict(Verdict::Drop), 10_000);
/// assert!(report.is_clean(), "{report:?}");
/// # Ok::<(), ixdp::SessionError>(())
/// ```
pub struct Session<P, A> {
    // In the order in which they have to go: threads that use queues, the port, the NIC.
    crew: Crew<P, A>,
    rig: Rig,
    nic: Running,
    valve: Arc<Valve>,
    faults: ImpairmentCounts,
    started: Instant,
    pool_frames: usize,
}

impl<P, A> Session<P, A>
where
    P: Program + Send + 'static,
    A: Application + Send + 'static,
{
    /// Brings the device up, puts the program and application that `make` gives on each queue, and
    /// lets traffic flow.
    ///
    /// # Errors
    /// No memory, no thread, a CPU that may not be used, or what the driver says of the device.
    pub fn start(
        config: &SessionConfig,
        make: impl FnMut(u16) -> (P, A),
    ) -> Result<Self, SessionError> {
        let source = wires::Source::new(wires::SourceConfig {
            seed: config.device.impairments.seed,
            limit: config.source.count,
            rate: config.source.rate,
            shape: match config.source.frame_size {
                64 => Shape::SmallUdp,
                size => Shape::Udp(size.saturating_sub(FCS)),
            },
            ..wires::SourceConfig::default()
        });
        let (gate, valve) = Gate::new(source);
        let faults = config.device.impairments;
        let line = Impaired::new(
            gate,
            Impairment {
                seed: faults.seed,
                loss: faults.loss,
                duplication: faults.duplicate,
                reordering: faults.reorder,
                delay: Duration::ZERO,
            },
        );
        let faults = line.counts();
        let wire = Wire::new(line, Sink::new());
        let Ready { nic, rig, workers } = rig::start(config, Undersize::Discard, wire, make)?;
        let nic = nic.spawn(config.pin.get(config.threads).copied());
        let nic = nic.map_err(SessionError::Thread)?;
        let crew = Crew::start(workers, config.threads, &config.pin)?;
        let started = Instant::now();
        valve.open();
        Ok(Session {
            crew,
            rig,
            nic,
            valve,
            faults,
            started,
            pool_frames: config.pool_frames(),
        })
    }

    /// Stops the source, waits until what it has sent is done with, ends the threads, and drops the
    /// queues. Gives the report, and each queue's program and application.
    ///
    /// # Errors
    /// A thread panicked, the device is gone, or the wire failed.
    pub fn stop(self) -> Result<(Report, Vec<(P, A)>), SessionError> {
        self.valve.end();
        let limit = Instant::now() + QUIET_LIMIT;
        while !self.is_done() && Instant::now() < limit {
            thread::yield_now();
        }
        let mut end = self.counts();
        let retired = self.crew.stop()?;
        let nic = self.nic.stop();
        // What came in while the threads ended.
        (end.total, end.queues) = tallies(retired.iter().map(|r| r.counters.snapshot()));
        end.wire.sent = nic.wire_counts().transmitted;
        end.wire.delivered = nic.wire_counts().offered;
        let report = self.rig.finish(&nic, end, &retired)?;
        let parts = retired.into_iter().map(|r| (r.program, r.application));
        Ok((report, parts.collect()))
    }
}

impl<P, A> Session<P, A> {
    /// Seconds since traffic started.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// The link, as it came up.
    pub fn link(&self) -> Link {
        self.rig.link
    }

    /// Queues, and so workers.
    pub fn queues(&self) -> usize {
        self.crew.counters.len()
    }

    /// Frames of each queue's pool.
    pub fn pool_frames(&self) -> usize {
        self.pool_frames
    }

    /// Looks at all counts, without stopping anything.
    ///
    /// # Errors
    /// The device is gone.
    pub fn snapshot(&mut self) -> Result<Snapshot, SessionError> {
        let port = self.rig.port.stats()?;
        let link = self.rig.port.link()?;
        Ok(Snapshot {
            port,
            link,
            ..self.counts()
        })
    }

    /// True when the source has sent its last frame and each that arrived was judged or recycled.
    pub fn is_done(&self) -> bool {
        self.nic.wire_has_ended() && is_quiet(&self.nic, self.crew.received() + self.rig.unseen())
    }

    /// What can be counted without asking the device.
    fn counts(&self) -> Snapshot {
        let (total, queues) = tallies(self.crew.counters.iter().map(|c| c.snapshot()));
        let device = self.nic.wire_counts();
        Snapshot {
            seconds: self.seconds(),
            total,
            queues,
            unseen: self.rig.unseen(),
            wire: WireCounts {
                offered: self.valve.offered(),
                delivered: device.offered,
                lost: self.faults.lost(),
                duplicated: self.faults.duplicated(),
                reordered: self.faults.reordered(),
                sent: device.transmitted,
            },
            link: self.rig.link,
            source_ended: self.nic.wire_has_ended(),
            ..Snapshot::default()
        }
    }
}

/// True where nothing waits inside the NIC, and all that it delivered is among the `taken` packets.
fn is_quiet(nic: &Monitor, taken: u64) -> bool {
    let counts = nic.wire_counts();
    counts.waiting == 0 && counts.delivered == taken
}

fn tallies(each: impl Iterator<Item = Tally>) -> (Tally, Vec<Tally>) {
    let queues: Vec<Tally> = each.collect();
    let mut total = Tally::default();
    queues.iter().for_each(|queue| total.merge(queue));
    (total, queues)
}
