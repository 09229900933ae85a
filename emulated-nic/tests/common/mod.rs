//! A driver that pokes registers: as little as brings a queue up, written from the datasheet's order
//! of initialisation (82599 datasheet 4.6) and shared with nobody.
#![allow(dead_code, unreachable_pub)] // a module of each test file, which uses its part

pub mod traffic;

use std::sync::Arc;
use std::time::Duration;

use driver_core::{
    DescriptorRing, Device, DmaDomain, DmaRegion, Doorbell, Frame, FramePool, Geometry, IovaRanges,
    wait_until,
};
use emulated_nic::wires::{Sink, Source, SourceConfig};
use emulated_nic::{Nic, Variant, Wire};

pub const CTRL: u32 = 0x0;
pub const STATUS: u32 = 0x8;
pub const CTRL_EXT: u32 = 0x18;
pub const EIMC: u32 = 0x888;
pub const RXCTRL: u32 = 0x3000;
pub const RDRXCTL: u32 = 0x2f00;
pub const SECRXCTRL: u32 = 0x8d00;
pub const SECRXSTAT: u32 = 0x8d04;
pub const HLREG0: u32 = 0x4240;
pub const FCTRL: u32 = 0x5080;
pub const RXCSUM: u32 = 0x5000;
pub const LINKS: u32 = 0x42a4;
pub const EEC: u32 = 0x10010;
pub const DMATXCTL: u32 = 0x4a80;
pub const RTTDCS: u32 = 0x4900;
pub const MTQC: u32 = 0x8120;
pub const DTXMXSZRQ: u32 = 0x8100;
pub const MRQC: u32 = 0xec80;
pub const VLNCTRL: u32 = 0x5088;
pub const MAXFRS: u32 = 0x4268;

pub const ENABLE: u32 = 1 << 25;
pub const UPE_MPE_BAM: u32 = 7 << 8;
pub const BUFFER: usize = 2048;

pub fn rxq(n: usize, offset: u32) -> u32 {
    let block = if n < 64 {
        0x1000 + 0x40 * n
    } else {
        0xd000 + 0x40 * (n - 64)
    };
    block as u32 + offset
}

pub fn txq(n: usize, offset: u32) -> u32 {
    0x6000 + 0x40 * n as u32 + offset
}

pub fn domain() -> DmaDomain {
    DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap()
}

/// A driver under test conditions.
pub struct Driver {
    pub device: Arc<dyn Device>,
    pub domain: DmaDomain,
}

/// A NIC with this wire, and its driver.
pub fn nic(variant: Variant, wire: Wire) -> (Nic, Driver) {
    let domain = domain();
    let nic = Nic::builder(variant).wire(wire).build(domain.clone());
    let device = nic.device();
    (nic, Driver { device, domain })
}

impl Driver {
    pub fn read(&self, offset: u32) -> u32 {
        self.device.read32(offset)
    }

    pub fn write(&self, offset: u32, value: u32) {
        self.device.write32(offset, value);
    }

    pub fn set(&self, offset: u32, bits: u32) {
        self.write(offset, self.read(offset) | bits);
    }

    pub fn clear(&self, offset: u32, bits: u32) {
        self.write(offset, self.read(offset) & !bits);
    }

    pub fn sleep(&self, span: Duration) {
        self.device.clock().sleep(span);
    }

    pub fn wait(&self, offset: u32, bits: u32, wanted: u32) -> bool {
        let (every, limit) = (Duration::from_millis(1), Duration::from_secs(5));
        wait_until(self.device.clock(), every, limit, || {
            self.read(offset) & bits == wanted
        })
    }

    /// Resets the NIC and waits until it can be used.
    pub fn reset(&self) {
        self.write(EIMC, 0x7fff_ffff);
        self.write(CTRL, 1 << 26);
        self.sleep(Duration::from_millis(2));
        assert!(self.wait(CTRL, 1 << 26, 0), "reset is over");
        assert!(self.wait(EEC, 1 << 9, 1 << 9), "NVM is read");
        assert!(self.wait(RDRXCTL, 1 << 3, 1 << 3), "DMA is ready");
        for n in 0..128 {
            self.write(0xa000 + 4 * n, 0);
            self.write(0x5200 + 4 * n, 0);
        }
    }

    /// Waits for the link.
    pub fn link(&self) {
        self.read(LINKS);
        assert!(self.wait(LINKS, 1 << 30, 1 << 30), "link is up");
    }

    /// Settings of both directions that have to come before queues.
    pub fn global(&self) {
        self.write(RTTDCS, self.read(RTTDCS) | 1 << 6);
        self.write(MTQC, 0);
        self.write(DTXMXSZRQ, 0xfff);
        self.write(RTTDCS, self.read(RTTDCS) & !(1 << 6));
        self.set(DMATXCTL, 1);
        let rdrxctl = self.read(RDRXCTL) & !(0x1f << 17);
        self.write(RDRXCTL, rdrxctl | 1 << 1 | 1 << 25 | 1 << 26);
        self.set(HLREG0, 1 << 1);
        self.write(FCTRL, UPE_MPE_BAM);
        self.write(RXCSUM, 1 << 13);
    }

    /// Lets frames in.
    pub fn receive(&self) {
        self.set(SECRXCTRL, 1 << 1);
        assert!(self.wait(SECRXSTAT, 1, 1), "security block is empty");
        self.set(RXCTRL, 1);
        self.clear(SECRXCTRL, 1 << 1);
    }

    /// The whole way, with receive and transmit queue 0. Traffic flows before this returns.
    pub fn bring_up(&self, ring: usize) -> (Rx, Tx) {
        let queues = self.set_up(ring);
        self.link();
        queues
    }

    /// All but the waiting for the link: no traffic flows yet.
    pub fn set_up(&self, ring: usize) -> (Rx, Tx) {
        self.reset();
        self.global();
        let rx = self.rx(0, ring);
        let tx = self.tx(0, ring);
        self.receive();
        assert_eq!(self.read(STATUS) & 1 << 7, 0, "the link takes longer");
        (rx, tx)
    }

    pub fn region(&self, size: usize) -> DmaRegion {
        let region = self.domain.allocate(size).unwrap();
        self.device.map(&region).unwrap();
        region
    }

    pub fn pool(&self, frames: usize) -> FramePool {
        let pool = FramePool::new(&self.domain, Geometry::SMALL, frames).unwrap();
        self.device.map(pool.region()).unwrap();
        pool
    }

    /// Receive queue `n`, on, all but one of its `count` descriptors given to the device.
    pub fn rx(&self, n: usize, count: usize) -> Rx {
        self.rx_with(n, count, 1 << 25 | 2, ENABLE)
    }

    /// As [`rx`](Self::rx) with these SRRCTL and RXDCTL.
    pub fn rx_with(&self, n: usize, count: usize, srrctl: u32, rxdctl: u32) -> Rx {
        let ring = DescriptorRing::new(&self.region(count * 16), 0, count).unwrap();
        self.write(rxq(n, 0x00), ring.iova() as u32);
        self.write(rxq(n, 0x04), (ring.iova() >> 32) as u32);
        self.write(rxq(n, 0x08), ring.len_bytes());
        self.write(rxq(n, 0x14), srrctl);
        self.clear(rxq(n, 0x0c), 1 << 12);
        self.write(rxq(n, 0x10), 0);
        self.write(rxq(n, 0x28), rxdctl);
        assert!(
            self.wait(rxq(n, 0x28), ENABLE, ENABLE),
            "receive queue {n} is on"
        );
        let mut pool = self.pool(count);
        let frames: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        let mut rx = Rx {
            ring,
            frames,
            delta: self.domain.delta(),
            bell: self.device.doorbell(rxq(n, 0x18)).unwrap(),
            next: 0,
            pool,
        };
        (0..count).for_each(|i| rx.arm(i));
        rx.bell.ring(count as u32 - 1);
        rx
    }

    /// Transmit queue `n`, on.
    pub fn tx(&self, n: usize, count: usize) -> Tx {
        self.tx_with(n, count, 0)
    }

    /// As [`tx`](Self::tx), with head write-back to this address if it is not 0.
    pub fn tx_with(&self, n: usize, count: usize, head_at: u64) -> Tx {
        let ring = DescriptorRing::new(&self.region(count * 16), 0, count).unwrap();
        self.write(txq(n, 0x00), ring.iova() as u32);
        self.write(txq(n, 0x04), (ring.iova() >> 32) as u32);
        self.write(txq(n, 0x08), ring.len_bytes());
        self.write(txq(n, 0x10), 0);
        if head_at != 0 {
            self.write(txq(n, 0x38), head_at as u32 | 1);
            self.write(txq(n, 0x3c), (head_at >> 32) as u32);
        }
        self.write(txq(n, 0x28), ENABLE | 32);
        assert!(
            self.wait(txq(n, 0x28), ENABLE, ENABLE),
            "transmit queue {n} is on"
        );
        let mut pool = self.pool(count);
        let frames: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        Tx {
            ring,
            frames,
            delta: self.domain.delta(),
            bell: self.device.doorbell(txq(n, 0x18)).unwrap(),
            next: 0,
            clean: 0,
            pool,
        }
    }
}

/// A receive queue.
pub struct Rx {
    pub ring: DescriptorRing,
    pub frames: Vec<Frame>,
    pub delta: u64,
    pub bell: Doorbell,
    pub next: usize,
    pub pool: FramePool,
}

/// A descriptor that was written back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub words: [u64; 2],
    pub data: Vec<u8>,
}

impl Received {
    pub fn status(&self) -> u32 {
        self.words[1] as u32
    }

    pub fn rss(&self) -> (u32, u32) {
        (self.words[0] as u32 & 0xf, (self.words[0] >> 32) as u32)
    }

    pub fn packet_type(&self) -> u32 {
        self.words[0] as u32 & 0x1_fff0
    }

    pub fn vlan(&self) -> u16 {
        (self.words[1] >> 48) as u16
    }

    pub fn is_last(&self) -> bool {
        self.status() & 2 != 0
    }
}

impl Rx {
    pub fn count(&self) -> usize {
        self.ring.descriptors().len()
    }

    pub fn arm(&mut self, i: usize) {
        let iova = self.frames[i].receive_iova(self.delta);
        self.ring.descriptors()[i].store([iova, 0]);
    }

    /// Whether the next descriptor is done.
    pub fn is_done(&self) -> bool {
        self.ring.descriptors()[self.next].load_acquire(1) & 1 != 0
    }

    /// The next descriptor if it is done; it is armed again and the tail moved.
    pub fn poll(&mut self) -> Option<Received> {
        let received = self.peek()?;
        self.arm(self.next);
        self.bell.ring(self.next as u32);
        self.next = (self.next + 1) % self.count();
        Some(received)
    }

    /// The next descriptor if it is done, and nothing else.
    pub fn peek(&mut self) -> Option<Received> {
        if !self.is_done() {
            return None;
        }
        let d = &self.ring.descriptors()[self.next];
        let words = [d.load(0), d.load(1)];
        let len = (words[1] >> 32 & 0xffff) as usize;
        let frame = &mut self.frames[self.next];
        assert!(frame.set_received(len), "a length of {len}");
        let data = frame.data().to_vec();
        Some(Received { words, data })
    }

    /// All that is done.
    pub fn drain(&mut self) -> Vec<Received> {
        std::iter::from_fn(|| self.poll()).collect()
    }
}

/// A transmit queue.
pub struct Tx {
    pub ring: DescriptorRing,
    pub frames: Vec<Frame>,
    pub delta: u64,
    pub bell: Doorbell,
    pub next: usize,
    pub clean: usize,
    pub pool: FramePool,
}

pub const EOP: u64 = 1 << 24;
pub const IFCS: u64 = 1 << 25;
pub const RS: u64 = 1 << 27;
pub const DEXT: u64 = 1 << 29;
pub const VLE: u64 = 1 << 30;
pub const DATA: u64 = 3 << 20 | DEXT;
pub const IXSM: u64 = 1 << 40;
pub const TXSM: u64 = 1 << 41;

impl Tx {
    pub fn count(&self) -> usize {
        self.ring.descriptors().len()
    }

    /// Puts `data` into the next frame and a descriptor for it with these flags into the ring.
    pub fn put(&mut self, data: &[u8], second: u64) {
        self.frames[self.next].fill(data).unwrap();
        let iova = self.frames[self.next].data_iova(self.delta);
        self.put_words([iova, second | data.len() as u64]);
    }

    /// Puts a descriptor into the ring.
    pub fn put_words(&mut self, words: [u64; 2]) {
        self.ring.descriptors()[self.next].store(words);
        self.next = (self.next + 1) % self.count();
    }

    /// A packet of one descriptor, shown to the device.
    pub fn send(&mut self, data: &[u8]) {
        self.put(data, DATA | EOP | IFCS | RS | (data.len() as u64) << 46);
        self.flush();
    }

    pub fn flush(&mut self) {
        self.bell.ring(self.next as u32);
    }

    pub fn is_done(&self, i: usize) -> bool {
        self.ring.descriptors()[i].load_acquire(1) >> 32 & 1 != 0
    }
}

/// A UDP packet over IPv4 of `len` bytes without FCS.
pub fn udp(len: usize) -> Vec<u8> {
    let mut p = vec![0; len];
    p[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    p[12..14].copy_from_slice(&[8, 0]);
    let total = (len - 14) as u16;
    p[14..18].copy_from_slice(&[0x45, 0, (total >> 8) as u8, total as u8]);
    p[18..26].copy_from_slice(&[0x12, 0x34, 0, 0, 64, 17, 0, 0]);
    p[26..34].copy_from_slice(&[66, 9, 149, 187, 161, 142, 100, 80]);
    p[34..36].copy_from_slice(&2794u16.to_be_bytes());
    p[36..38].copy_from_slice(&1766u16.to_be_bytes());
    p[38..40].copy_from_slice(&(total - 20).to_be_bytes());
    for (i, b) in p[42..].iter_mut().enumerate() {
        *b = i as u8;
    }
    let sum = internet_checksum(&p[14..34]);
    p[24..26].copy_from_slice(&sum.to_be_bytes());
    seal_l4(&mut p, 14, 17, 6);
    p
}

/// Puts the right checksum into the L4 header of an IPv4 packet at `ip`.
pub fn seal_l4(p: &mut [u8], ip: usize, protocol: u8, at: usize) {
    let l4 = ip + 20;
    let len = (p.len() - l4) as u16;
    p[l4 + at..l4 + at + 2].fill(0);
    let mut covered = p[ip + 12..ip + 20].to_vec();
    covered.extend_from_slice(&[0, protocol]);
    covered.extend_from_slice(&len.to_be_bytes());
    covered.extend_from_slice(&p[l4..]);
    let sum = internet_checksum(&covered);
    p[l4 + at..l4 + at + 2].copy_from_slice(&sum.to_be_bytes());
}

pub fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | c.get(1).map_or(0, |b| u32::from(*b)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

pub fn silent(variant: Variant) -> (Nic, Driver) {
    nic(variant, Wire::silent())
}

pub fn with_source(limit: u64) -> (Nic, Driver) {
    let config = SourceConfig {
        limit: Some(limit),
        ..SourceConfig::default()
    };
    nic(Variant::I82599, Wire::new(Source::new(config), Sink::new()))
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
