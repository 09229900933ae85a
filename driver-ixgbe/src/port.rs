//! The port: open, start, stop, start again, close.

use std::sync::Arc;
use std::time::Duration;

use driver_core::{
    DescriptorRing, Device, DmaRegion, FramePool, Identity, Limits, Link, MacAddr, Port,
    PortConfig, PortStats, QueuePairs, TxRing,
};

use crate::error::Error;
use crate::filter::{self, Filter};
use crate::hw::{Hw, Wait};
use crate::receive::{self, BUFFER_UNIT, IxgbeRxQueue, RxSetup};
use crate::registers::*;
use crate::running::Running;
use crate::stats::{self, Stats};
use crate::transmit::IxgbeTxQueue;
use crate::{family, link, reset, rss};

/// Checksum of an Ethernet frame, which the device counts and we do not.
const FCS: u32 = 4;
/// Longest frame without its checksum: 15.5 KiB is what the hardware can do, with it.
pub(crate) const MAX_FRAME: u32 = 15 * 1024 + 512 - FCS;
/// Shortest limit on the length of frames: the standard's.
const MIN_MAX_FRAME: u32 = 1514;
/// Longest frame, with its checksum, that needs no JUMBOEN.
const STANDARD: u32 = 1518;

const QUEUE_PAIRS: u16 = 64;
const RING: (u32, u32) = (64, 4096);
/// A ring's bytes are a multiple of 128.
const RING_MULTIPLE: u32 = 8;

/// Bytes of the register BAR that are used, at least.
const BAR: u32 = 0x2_0000;
/// Packet memory of the transmit side, in KiB.
const TX_BUFFER_KIB: u32 = 160;

/// A port of an 82599, X520, X540 or X550.
///
/// [`open`](Self::open) resets the controller and starts the link; [`Port::start`] makes queues.
#[derive(Debug)]
pub struct IxgbePort {
    owner: Owner,
    mac: MacAddr,
    filter: Filter,
    stats: Stats,
    link: Option<link::Original>,
    running: Option<Arc<Running>>,
    /// The port was reset under its queues and needs to be brought up again.
    stale: bool,
}

/// The claim on the port: the firmware leaves it alone until this goes.
#[derive(Debug)]
struct Owner(Hw);

impl IxgbePort {
    /// Takes the port over: resets it, reads its address, starts its link. It stays quiet until it is
    /// started. Fails where the device is none of the family, does not answer, or gets stuck; the error
    /// names the step and the register.
    pub fn open(device: Arc<dyn Device>) -> Result<Self, Error> {
        let identity = device.identity();
        let family = family::of(identity)?;
        if identity.bar_size < BAR {
            return Err(Error::Bar {
                device: identity.name.clone(),
                size: identity.bar_size,
                need: BAR,
            });
        }
        let hw = Hw { device, family };
        let mut link = None;
        let owner = Owner(hw);
        let hw = &owner.0;
        reset::reset(hw, &mut link)?;
        let mac = filter::station_address(hw)?;
        link::start(hw)?;
        log::info!("{}: {} with address {mac}", hw.name(), hw.family.name);
        Ok(IxgbePort {
            mac,
            filter: Filter::default(),
            stats: Stats::new(hw.family),
            link,
            running: None,
            stale: false,
            owner,
        })
    }

    fn hw(&self) -> &Hw {
        &self.owner.0
    }

    /// Changes what is accepted, now if the port runs and at its start otherwise. Filters may be
    /// changed only while nothing is received (datasheet 4.6.7), so the receiver pauses.
    fn change_filter(
        &mut self,
        change: impl FnOnce(&mut Filter) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut filter = self.filter.clone();
        change(&mut filter)?;
        if self.running.is_some() {
            let hw = self.hw();
            stop_receiver(hw)?;
            let written = filter.write(hw);
            // Whatever came of it, the port goes on receiving.
            start_receiver(hw)?;
            written?;
        }
        self.filter = filter;
        Ok(())
    }
}

impl Port for IxgbePort {
    type Rx = IxgbeRxQueue;
    type Tx = IxgbeTxQueue;
    type Error = Error;

    fn identity(&self) -> &Identity {
        self.hw().device.identity()
    }

    fn mac(&self) -> MacAddr {
        self.mac
    }

    fn limits(&self) -> Limits {
        Limits {
            queue_pairs: QUEUE_PAIRS,
            ring: RING,
            ring_multiple: RING_MULTIPLE,
            max_frame: MAX_FRAME,
            rss_queues: self.hw().family.rss_queues,
        }
    }

    fn link(&mut self) -> Result<Link, Error> {
        link::now(self.hw())
    }

    fn wait_link(&mut self, limit: Duration) -> Result<Link, Error> {
        link::wait(self.hw(), limit)
    }

    fn start(
        &mut self,
        config: &PortConfig,
        pools: &mut [FramePool],
    ) -> Result<QueuePairs<Self>, Error> {
        if self.running.is_some() {
            return Err(Error::Running {
                device: self.hw().name(),
            });
        }
        let hw = self.hw().clone();
        check(config, hw.family)?;
        let table = rss::table(&config.rss, config.queue_pairs, hw.family)?;
        check_pools(&hw, config, pools)?;
        if self.stale {
            self.stats.update(&hw)?;
            reset::reset(&hw, &mut self.link)?;
            link::start(&hw)?;
            self.stale = false;
        }
        let rings = Rings::new(&hw, config)?;
        let mut regions = vec![rings.region.clone()];
        regions.extend(pools.iter().map(|p| p.region().clone()));
        let running = Arc::new(Running::new(&hw, regions)?);

        self.filter.set_promiscuous(config.promiscuous);
        stop_receiver(&hw)?;
        set_up_receive(&hw, config)?;
        self.filter.write(&hw)?;
        rss::write(&hw, &config.rss.key, &table)?;
        set_up_transmit(&hw)?;
        stats::map_queues(&hw);
        let mut pairs = Vec::with_capacity(config.queue_pairs.into());
        for q in 0..config.queue_pairs {
            let pool_index = usize::from(q) % pools.len();
            let setup = RxSetup {
                index: q,
                descriptors: rings.receive(q)?,
                count: config.rx_ring,
                pool: &mut pools[pool_index],
                pool_index,
                max_frame: config.max_frame,
                strip_vlan: config.strip_vlan,
                drop_when_empty: config.queue_pairs > 1,
            };
            let rx = IxgbeRxQueue::start(&running, setup)?;
            let tx = IxgbeTxQueue::start(&running, q, rings.transmit(q)?)?;
            pairs.push((rx, tx));
        }
        start_receiver(&hw)?;
        self.running = Some(running);
        Ok(pairs)
    }

    fn stop(&mut self) -> Result<(), Error> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        let device = self.hw().name();
        // Alone again: all queues are gone, and what they did has been seen.
        match Arc::try_unwrap(running) {
            Err(shared) => {
                let alive = Arc::strong_count(&shared).saturating_sub(1);
                self.running = Some(shared);
                Err(Error::QueuesAlive { device, alive })
            }
            Ok(running) if running.is_wedged() => {
                self.running = Some(Arc::new(running));
                Err(Error::Wedged { device })
            }
            Ok(running) => {
                self.stale |= running.was_reset();
                Ok(())
            }
        }
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), Error> {
        self.change_filter(|filter| {
            filter.set_promiscuous(on);
            Ok(())
        })
    }

    fn add_mac(&mut self, mac: MacAddr) -> Result<(), Error> {
        if mac == self.mac {
            return Ok(());
        }
        self.change_filter(|filter| filter.add(mac))
    }

    fn remove_mac(&mut self, mac: MacAddr) -> Result<(), Error> {
        if mac == self.mac {
            return Err(Error::StationAddress { mac });
        }
        self.change_filter(|filter| {
            filter.remove(mac);
            Ok(())
        })
    }

    fn stats(&mut self) -> Result<PortStats, Error> {
        self.stats.update(&self.owner.0)?;
        Ok(self.stats.report())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Queues that outlive the port stop by themselves; a device that is gone needs nothing.
        if reset::mask_interrupts(&self.0).is_ok() {
            self.0.modify(CTRL_EXT, |v| v - CtrlExt::DRV_LOAD).ok();
        }
    }
}

fn check(config: &PortConfig, family: &family::Family) -> Result<(), Error> {
    if !(1..=QUEUE_PAIRS).contains(&config.queue_pairs) {
        return Err(Error::QueuePairs {
            asked: config.queue_pairs,
            max: QUEUE_PAIRS,
            name: family.name,
        });
    }
    let (min, max) = RING;
    for (which, asked) in [("receive", config.rx_ring), ("transmit", config.tx_ring)] {
        if !(min..=max).contains(&asked) || !asked.is_multiple_of(RING_MULTIPLE) {
            return Err(Error::RingSize {
                which,
                asked,
                min,
                max,
                multiple: RING_MULTIPLE,
            });
        }
    }
    if !(MIN_MAX_FRAME..=MAX_FRAME).contains(&config.max_frame) {
        return Err(Error::MaxFrame {
            asked: config.max_frame,
            min: MIN_MAX_FRAME,
            max: MAX_FRAME,
        });
    }
    Ok(())
}

/// Each pool must lie where the device's descriptors can point, have buffers of a size the device can be
/// told, and fill the rings of its queues.
fn check_pools(hw: &Hw, config: &PortConfig, pools: &[FramePool]) -> Result<(), Error> {
    if pools.is_empty() {
        return Err(Error::NoPool);
    }
    let delta = hw.device.domain().delta();
    for (i, pool) in pools.iter().enumerate() {
        let region = pool.region();
        let first = region.as_ptr().as_ptr() as u64;
        if first.wrapping_sub(delta) != region.iova() {
            return Err(Error::ForeignPool {
                pool: i,
                device: hw.name(),
            });
        }
        let geometry = pool.geometry();
        if receive::programmable(&geometry) == 0 {
            return Err(Error::Buffer {
                pool: i,
                buffer: geometry.buffer,
                min: BUFFER_UNIT,
            });
        }
        let queues = (0..usize::from(config.queue_pairs))
            .filter(|q| q % pools.len() == i)
            .count();
        let needed = queues * config.rx_ring as usize;
        if pool.available() < needed {
            return Err(Error::PoolTooSmall {
                pool: i,
                needed,
                available: pool.available(),
            });
        }
    }
    Ok(())
}

/// The descriptor rings of all queues, in one region: receive rings first.
struct Rings {
    region: DmaRegion,
    receive: usize,
    transmit: usize,
    pairs: usize,
}

impl Rings {
    fn new(hw: &Hw, config: &PortConfig) -> Result<Self, Error> {
        let pairs = usize::from(config.queue_pairs);
        let (receive, transmit) = (config.rx_ring as usize, config.tx_ring as usize);
        let bytes = 16 * pairs * (receive + transmit);
        Ok(Rings {
            region: hw.device.domain().allocate(bytes)?,
            receive,
            transmit,
            pairs,
        })
    }

    fn receive(&self, q: u16) -> Result<DescriptorRing, Error> {
        self.ring(usize::from(q) * self.receive, self.receive)
    }

    fn transmit(&self, q: u16) -> Result<TxRing, Error> {
        let first = self.pairs * self.receive + usize::from(q) * self.transmit;
        TxRing::new(self.ring(first, self.transmit)?).ok_or(self.too_small(first))
    }

    fn ring(&self, first: usize, count: usize) -> Result<DescriptorRing, Error> {
        let ring = DescriptorRing::new(&self.region, 16 * first, count);
        ring.ok_or(self.too_small(first))
    }

    fn too_small(&self, first: usize) -> Error {
        Error::RingMemory {
            offset: 16 * first,
            len: self.region.len(),
        }
    }
}

/// What holds for all receive queues (82599 datasheet 4.6.7). The receiver is off.
fn set_up_receive(hw: &Hw, config: &PortConfig) -> Result<(), Error> {
    // One packet buffer has all the memory.
    let kib = hw.family.rx_buffer_kib;
    hw.write(RXPBSIZE(0), kib << 10);
    for i in 1..8 {
        hw.write(RXPBSIZE(i), 0);
    }
    let longest = config.max_frame + FCS;
    hw.modify(HLREG0, |mut v| {
        v -= Hlreg0::LPBK | Hlreg0::RXPADSTRIPEN;
        v |= Hlreg0::TXCRCEN | Hlreg0::RXCRCSTRP | Hlreg0::TXPADEN;
        v.set(Hlreg0::JUMBOEN, longest > STANDARD);
        v
    })?;
    // The checksum is stripped here too, or neither place does it rightly; RSCFRSTSIZE must be 0, the two
    // others 1; reserved bits stay as they are.
    hw.modify(RDRXCTL, |mut v| {
        v -= Rdrxctl::RSCFRSTSIZE;
        v |= Rdrxctl::CRCSTRIP | Rdrxctl::RSCACKC | Rdrxctl::FCOE_WRFIX;
        if hw.family.mdd {
            v -= Rdrxctl::MDD;
        }
        v
    })?;
    hw.write(MAXFRS, longest << 16);
    // Flow control is off; its high threshold must stand below the buffer's size all the same.
    hw.modify(MFLCN, |v| v - Mflcn::RPFCE - Mflcn::RFCE)?;
    hw.write(FCCFG, 0);
    hw.write(FCRTV, 0);
    for i in 0..4 {
        hw.write(FCTTV(i), 0);
    }
    for i in 0..8 {
        hw.write(FCRTL(i), 0);
        let threshold = if i == 0 { kib * 1024 - 0x6000 } else { 0 };
        hw.write(FCRTH(i), threshold);
    }
    Ok(())
}

/// What holds for all transmit queues (82599 datasheet 4.6.8).
fn set_up_transmit(hw: &Hw) -> Result<(), Error> {
    // MTQC may be changed only while the arbiter is off.
    hw.modify(RTTDCS, |v| v | Rttdcs::ARBDIS)?;
    hw.write(MTQC, 0);
    hw.write(DTXMXSZRQ, 0xfff);
    hw.write(TXPBSIZE(0), TX_BUFFER_KIB << 10);
    // Room for the longest frame.
    hw.write(
        TXPBTHRESH(0),
        TX_BUFFER_KIB - (MAX_FRAME + FCS).div_ceil(1024),
    );
    for i in 1..8 {
        hw.write(TXPBSIZE(i), 0);
        hw.write(TXPBTHRESH(i), 0);
    }
    hw.modify(RTTDCS, |v| v - Rttdcs::ARBDIS)?;
    hw.modify(DMATXCTL, |mut v| {
        v -= Dmatxctl::GDV;
        if hw.family.mdd {
            v -= Dmatxctl::MDD;
        }
        v | Dmatxctl::TE
    })
}

/// Lets packets in (82599 datasheet 4.6.7). The security block must be quiet while the receiver is turned on, or
/// packets that come in meanwhile can hang its DMA.
fn start_receiver(hw: &Hw) -> Result<(), Error> {
    with_path_blocked(hw, |hw| hw.modify(RXCTRL, |v| v | Rxctrl::RXEN))
}

/// Keeps packets out.
fn stop_receiver(hw: &Hw) -> Result<(), Error> {
    with_path_blocked(hw, |hw| hw.modify(RXCTRL, |v| v - Rxctrl::RXEN))
}

fn with_path_blocked(hw: &Hw, f: impl FnOnce(&Hw) -> Result<(), Error>) -> Result<(), Error> {
    hw.modify(SECRXCTRL, |v| v | Secrxctrl::RX_DIS)?;
    let wait = Wait {
        step: "quiet the receive path",
        every: Duration::from_micros(10),
        limit: Duration::from_millis(40),
        remedy: "open the port again, which resets it",
    };
    hw.wait(SECRXSTAT, wait, |v| v.contains(Secrxstat::RDY))?;
    f(hw)?;
    hw.modify(SECRXCTRL, |v| v - Secrxctrl::RX_DIS)
}
