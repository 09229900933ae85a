//! A device under its driver, with the pools of its queues: what sessions and replays stand on.

use std::sync::Arc;
use std::time::Duration;

use datapath::{Application, Program, Worker};
use driver_core::{
    DmaDomain, FramePool, IovaRanges, Link, Port, PortConfig, QueuePairs, RxCounters, RxQueue,
    TxQueue,
};
use driver_ixgbe::IxgbePort;
use emulated_nic::{Monitor, Nic, Undersize, Variant, Wire};

use super::crew::Retired;
use super::report::{Report, Snapshot};
use super::{SessionConfig, SessionError};
use crate::Model;

/// Longest wait for the link, in the device's time.
const LINK_LIMIT: Duration = Duration::from_secs(10);
/// Bits of an address that every model's bus allows.
const ADDRESS_BITS: u32 = 48;

/// The port of a model, started.
pub(super) struct Rig {
    pub(super) port: IxgbePort,
    pub(super) link: Link,
    /// Counts of each receive queue.
    queues: Vec<Arc<RxCounters>>,
}

/// A NIC, its port, and a worker on each queue, all of them still.
pub(super) struct Ready<P, A> {
    pub(super) nic: Nic,
    pub(super) rig: Rig,
    pub(super) workers: Vec<PortWorker<P, A>>,
}

/// A worker on a queue of this port.
pub(super) type PortWorker<P, A> = Worker<<IxgbePort as Port>::Rx, <IxgbePort as Port>::Tx, P, A>;

/// Builds the model, brings the port up in virtual time, and puts a worker on each queue.
pub(super) fn start<P: Program, A: Application>(
    config: &SessionConfig,
    undersize: Undersize,
    wire: Wire,
    mut make: impl FnMut(u16) -> (P, A),
) -> Result<Ready<P, A>, SessionError> {
    let domain = DmaDomain::new(IovaRanges::with_address_bits(ADDRESS_BITS))?;
    let variant = match config.device.model {
        Model::I82599 => Variant::I82599,
        Model::X540 => Variant::X540,
        Model::X550 => Variant::X550,
    };
    let nic = Nic::builder(variant)
        .name(config.device.to_string())
        .undersize(undersize)
        .wire(wire)
        .build(domain.clone());
    let mut port = IxgbePort::open(nic.device())?;
    let limits = port.limits();
    let config = &SessionConfig {
        max_frame: config.max_frame.min(limits.max_frame),
        ..config.clone()
    };
    let shape = SessionError::Shape {
        queues: config.queues,
        threads: config.threads,
        most: limits.queue_pairs,
    };
    if config.queues == 0 || config.queues > limits.queue_pairs {
        return Err(shape);
    }
    if config.threads == 0 || config.threads > config.queues.into() {
        return Err(shape);
    }
    let mut pools = (0..config.queues)
        .map(|_| FramePool::new(&domain, config.geometry, config.pool_frames()))
        .collect::<Result<Vec<_>, _>>()?;
    let port_config = PortConfig {
        queue_pairs: config.queues,
        rx_ring: config.ring,
        tx_ring: config.ring,
        max_frame: config.max_frame,
        ..PortConfig::default()
    };
    let pairs = port.start(&port_config, &mut pools)?;
    let queues = pairs.iter().map(|(rx, _)| rx.counters().clone()).collect();
    let workers = man(config, pairs, pools, &mut make);
    let link = port.wait_link(LINK_LIMIT)?;
    let rig = Rig { port, link, queues };
    Ok(Ready { nic, rig, workers })
}

fn man<P: Program, A: Application>(
    config: &SessionConfig,
    pairs: QueuePairs<IxgbePort>,
    pools: Vec<FramePool>,
    make: &mut impl FnMut(u16) -> (P, A),
) -> Vec<PortWorker<P, A>> {
    let queues = pairs.into_iter().zip(pools);
    queues
        .map(|((rx, tx), pool)| {
            let (program, application) = make(rx.index());
            Worker::new((rx, tx), program, application, pool, config.batch_size())
        })
        .collect()
}

impl Rig {
    /// Packets that receive queues recycled unseen: damaged, or of a length that cannot be.
    pub(super) fn unseen(&self) -> u64 {
        let of = |c: &RxCounters| c.errors.get() + c.bad_length.get() + c.too_long.get();
        self.queues.iter().map(|c| of(c)).sum()
    }

    /// Ends the port, whose queues are gone, and says what became of everything. `end` holds what the
    /// wire and the workers counted.
    pub(super) fn finish<P, A>(
        mut self,
        nic: &Monitor,
        mut end: Snapshot,
        retired: &[Retired<P, A>],
    ) -> Result<Report, SessionError> {
        end.port = self.port.stats()?;
        end.unseen = self.unseen();
        self.port.stop()?;
        let pools = retired.iter().map(|r| &r.pool);
        let mut report = Report {
            device: nic.wire_counts(),
            frames: pools.clone().map(|p| p.total() as u64).sum(),
            frames_home: pools.map(|p| p.available() as u64).sum(),
            end,
            ..Report::default()
        };
        let violations = nic.strict_log().into_iter().map(|v| v.to_string());
        let faults = nic.faults().into_iter().map(|f| format!("{f:?}"));
        report.violations = violations.chain(faults).collect();
        match nic.take_wire_error() {
            Some(error) => Err(error.into()),
            None => Ok(report),
        }
    }
}

/// Frames that a worker still has on its transmit ring.
pub(super) fn pending<R: RxQueue, T: TxQueue, P: Program, A: Application>(
    workers: &mut [Worker<R, T, P, A>],
) -> usize {
    workers.iter_mut().map(Worker::drain).sum()
}
