//! What is measured, and the peers beside it.

use std::error::Error;
use std::time::Duration;

use datapath::{BatchSize, Discard, Verdict, VmProgram, Worker};
use driver_core::{
    DmaDomain, Frame, FramePool, Geometry, IovaRanges, Port, PortConfig, RxPacket, RxQueue, Spares,
    TxQueue,
};
use driver_ixgbe::{IxgbePort, IxgbeRxQueue, IxgbeTxQueue};
use emulated_nic::wires::{Sink, Source, SourceConfig};
use emulated_nic::{Nic, Variant, Wire};
use ixdp::xdp_vm::verifier::{Config, verify};
use ixdp::xdp_vm::{Cpu, Engine, Executable, Maps, Object, Options};

use crate::floor;

/// Descriptors of each ring.
pub(crate) const RING: u32 = 512;
/// Packets of one poll.
pub(crate) const BATCH: usize = 32;

/// One thing to measure.
pub(crate) trait Case {
    /// Outside the measured part: puts finished descriptors on the ring.
    fn fill(&mut self);

    /// The measured part: takes them off again. Returns how many packets there were.
    fn drain(&mut self) -> usize;
}

type Made = Result<Box<dyn Case>, Box<dyn Error>>;

/// A line of the table.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Most instructions a packet.
    pub(crate) limit: Option<f64>,
    pub(crate) make: fn() -> Made,
}

/// The table.
pub(crate) const CASES: &[Row] = &[
    row("receive, recycle", Some(30.0), || Recycle::make(false)),
    row("receive, transmit", Some(70.0), Forward::make),
    row("datapath with a compiled-in function", Some(55.0), function),
    row("datapath with the drop sample, interpreted", None, || {
        program(Engine::Interpreter)
    }),
    row("datapath with the drop sample, compiled", None, || {
        program(Engine::Auto)
    }),
    row("peer: receive, buffers through the pool", None, || {
        Recycle::make(true)
    }),
    row("peer: unchecked loop, receive", None, floor::Recycle::make),
    row("peer: unchecked loop, transmit", None, floor::Forward::make),
];

const fn row(name: &'static str, limit: Option<f64>, make: fn() -> Made) -> Row {
    Row { name, limit, make }
}

/// A domain as wide as the narrowest IOMMUs.
pub(crate) fn domain() -> Result<DmaDomain, Box<dyn Error>> {
    Ok(DmaDomain::new(IovaRanges::with_address_bits(39))?)
}

/// A stepped 82599 with an endless source of 64-byte frames, and our driver on it.
struct Bed {
    nic: Nic,
    /// Kept open: a port that goes away stops its device.
    _port: IxgbePort,
    rx: Option<IxgbeRxQueue>,
    tx: Option<IxgbeTxQueue>,
    pool: Option<FramePool>,
}

impl Bed {
    fn new() -> Result<Self, Box<dyn Error>> {
        let domain = domain()?;
        let wire = Wire::new(Source::new(SourceConfig::default()), Sink::new());
        let nic = Nic::builder(Variant::I82599)
            .wire(wire)
            .build(domain.clone());
        let mut port = IxgbePort::open(nic.device())?;
        let mut pools = [FramePool::new(
            &domain,
            Geometry::KERNEL,
            4 * RING as usize,
        )?];
        let config = PortConfig {
            rx_ring: RING,
            tx_ring: RING,
            ..PortConfig::default()
        };
        port.wait_link(Duration::from_secs(10))?;
        let pair = port.start(&config, &mut pools)?.pop();
        let (rx, tx) = pair.ok_or("the port gave no queue")?;
        let [pool] = pools;
        Ok(Bed {
            nic,
            _port: port,
            rx: Some(rx),
            tx: Some(tx),
            pool: Some(pool),
        })
    }
}

/// The driver alone: every packet is recycled in place, or leaves for the pool and a frame of the
/// pool takes its place, as drivers do whose packets are always moved out.
struct Recycle {
    nic: Nic,
    _port: IxgbePort,
    rx: IxgbeRxQueue,
    pool: FramePool,
    spares: Spares,
    through_pool: bool,
}

impl Recycle {
    fn make(through_pool: bool) -> Made {
        let bed = Bed::new()?;
        let (Some(rx), Some(pool)) = (bed.rx, bed.pool) else {
            return Err("no queue".into());
        };
        let spares = pool.spares(BATCH);
        Ok(Box::new(Recycle {
            nic: bed.nic,
            _port: bed._port,
            rx,
            pool,
            spares,
            through_pool,
        }))
    }
}

impl Case for Recycle {
    fn fill(&mut self) {
        self.nic.step();
    }

    fn drain(&mut self) -> usize {
        let Recycle {
            rx,
            pool,
            spares,
            through_pool,
            ..
        } = self;
        let mut packets = 0;
        loop {
            let n = if *through_pool {
                spares.refill(pool, BATCH);
                rx.poll(BATCH, spares, |packet| {
                    if let Some(frame) = packet.take() {
                        pool.give(frame);
                    }
                })
            } else {
                rx.poll(BATCH, spares, |_packet| {})
            };
            if n == 0 {
                return packets;
            }
            packets += n;
        }
    }
}

/// The driver alone: every packet goes out again, and what was sent before re-arms the receive ring.
struct Forward {
    nic: Nic,
    _port: IxgbePort,
    rx: IxgbeRxQueue,
    tx: IxgbeTxQueue,
    spares: Spares,
    /// Frames that the transmit ring had no room for.
    refused: Vec<Frame>,
}

impl Forward {
    fn make() -> Made {
        let bed = Bed::new()?;
        let (Some(rx), Some(tx), Some(mut pool)) = (bed.rx, bed.tx, bed.pool) else {
            return Err("no queue".into());
        };
        let spares = pool.spares(8 * BATCH);
        let mut case = Forward {
            nic: bed.nic,
            _port: bed._port,
            rx,
            tx,
            spares,
            refused: Vec::with_capacity(BATCH),
        };
        // A round lives on the frames that the round before put on the transmit ring: the first ones
        // fill it.
        while case.tx.pending() < RING as usize - BATCH {
            case.spares.refill(&mut pool, 8 * BATCH);
            case.fill();
            case.drain();
        }
        Ok(Box::new(case))
    }
}

impl Case for Forward {
    fn fill(&mut self) {
        self.nic.step();
    }

    fn drain(&mut self) -> usize {
        let Forward {
            rx,
            tx,
            spares,
            refused,
            ..
        } = self;
        let mut packets = 0;
        loop {
            if spares.len() < BATCH || tx.room() < BATCH {
                tx.reclaim(spares);
            }
            let n = rx.poll(BATCH, spares, |packet| {
                if let Some(frame) = packet.take()
                    && let Err(reject) = tx.enqueue(frame)
                {
                    refused.push(reject.frame);
                }
            });
            tx.flush();
            packets += n;
            if n == 0 || !refused.is_empty() {
                // A round that lost a packet is short, and so an error.
                return packets.saturating_sub(refused.len());
            }
        }
    }
}

/// The whole data path.
struct Whole<P> {
    nic: Nic,
    _port: IxgbePort,
    worker: Worker<IxgbeRxQueue, IxgbeTxQueue, P, Discard>,
}

impl<P: datapath::Program + 'static> Whole<P> {
    fn make(program: P) -> Made {
        let bed = Bed::new()?;
        let (Some(rx), Some(tx), Some(pool)) = (bed.rx, bed.tx, bed.pool) else {
            return Err("no queue".into());
        };
        let size = BatchSize {
            packets: BATCH,
            frames_per_packet: 1,
        };
        let worker = Worker::new((rx, tx), program, Discard, pool, size);
        Ok(Box::new(Whole {
            nic: bed.nic,
            _port: bed._port,
            worker,
        }))
    }
}

impl<P: datapath::Program> Case for Whole<P> {
    fn fill(&mut self) {
        self.nic.step();
    }

    fn drain(&mut self) -> usize {
        let mut packets = 0;
        loop {
            match self.worker.poll() {
                0 => return packets,
                n => packets += n,
            }
        }
    }
}

/// Looks at the packet as the shortest useful program would.
fn function() -> Made {
    Whole::make(
        |packet: &mut RxPacket<'_>| match packet.data().get(12..14) {
            Some([0x08, 0x00]) => Verdict::Drop as u32,
            _ => Verdict::Aborted as u32,
        },
    )
}

/// The sample that drops and counts in a per-CPU array, in the VM.
fn program(engine: Engine) -> Made {
    let object = Object::parse(include_bytes!("../../../ixdp/programs/drop.bpf.o"))?;
    let program = object.program(None)?;
    let (verified, _) = verify(program, &object.maps, &Config::default())?;
    let maps = Maps::create(&object.maps, 1)?;
    let options = Options {
        engine,
        ..Options::default()
    };
    let executable = Executable::with_options(&verified, &maps, &options)?;
    Whole::make(VmProgram::new(executable.into(), Cpu::new(0), 0))
}
