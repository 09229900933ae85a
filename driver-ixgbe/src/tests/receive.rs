//! The receive path on a ring that the test writes as a device would, or as one would that lies.

use driver_core::{DescriptorRing, PortConfig, RxCounters, RxPacket, RxQueue, Spares};

use super::*;
use crate::IxgbeRxQueue;
use crate::testing;

const DD: u64 = 1;
const EOP: u64 = 2;
const RXE: u64 = 1 << 29;
/// Receive buffer of the small geometry.
const BUFFER: u64 = 2048;

struct Rx {
    device: Arc<FakeDevice>,
    _port: IxgbePort,
    pool: FramePool,
    ring: DescriptorRing,
    queue: IxgbeRxQueue,
    spares: Spares,
}

fn rx(config: &PortConfig) -> Rx {
    let Bench {
        device,
        port,
        pool,
        mut pairs,
    } = bench(config);
    let (queue, _) = pairs.remove(0);
    Rx {
        ring: testing::ring(&device, 0x1000),
        spares: pool.spares(64),
        device,
        _port: port,
        pool,
        queue,
    }
}

impl Rx {
    /// Finishes descriptor `i` with a packet of `len` bytes.
    fn write(&self, i: usize, flags: u64, len: u64) {
        let words = [0x1234_5678_0000_0111, len << 32 | flags];
        self.ring.descriptors()[i % 64].store(words);
    }

    fn lengths(&mut self, budget: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        let given = self
            .queue
            .poll(budget, &mut self.spares, |p| seen.push(p.total_len()));
        assert_eq!(given, seen.len());
        seen
    }

    fn tail(&self) -> u32 {
        self.device.tail(0, false)
    }

    /// True where descriptor `i` is armed again, with a buffer and no done bit.
    fn armed(&self, i: usize) -> bool {
        let d = &self.ring.descriptors()[i % 64];
        d.load(1) == 0 && d.load(0) > 0xffff && d.load(0) != 0x1234_5678_0000_0111
    }

    fn counters(&self) -> &RxCounters {
        self.queue.counters()
    }
}

#[test]
fn packets_come_in_order_and_slots_are_re_armed() {
    let mut rx = rx(&small());
    assert_eq!(rx.tail(), 63, "all but one belong to the device");
    assert_eq!(rx.lengths(32), [] as [usize; 0]);
    for i in 0..40 {
        rx.write(i, DD | EOP, 60 + i as u64);
    }
    assert_eq!(rx.lengths(32), (60..92).collect::<Vec<_>>());
    assert_eq!(rx.tail(), 31);
    assert!((0..32).all(|i| rx.armed(i)) && !rx.armed(32));
    assert_eq!(rx.lengths(32), (92..100).collect::<Vec<_>>());
    assert_eq!(rx.tail(), 39);
    let c = rx.counters();
    assert_eq!((c.packets.get(), c.bytes.get()), (40, (60..100).sum()));
}

#[test]
fn polls_wrap_around_the_ring_and_end() {
    let mut rx = rx(&small());
    for round in 0..5usize {
        for i in 0..50 {
            rx.write(50 * round + i, DD | EOP, 64);
        }
        assert_eq!(rx.lengths(usize::MAX).len(), 50);
        assert_eq!(rx.tail() as usize, (50 * round + 49) % 64);
    }
    // A device that finishes every descriptor there is, again and again, does not hold us.
    (0..64).for_each(|i| rx.write(i, DD | EOP, 64));
    assert_eq!(rx.lengths(usize::MAX).len(), 64);
    (0..64).for_each(|i| rx.write(i, DD | EOP | RXE, 64));
    assert_eq!(rx.lengths(usize::MAX).len(), 0);
    assert_eq!(rx.counters().errors.get(), 64);
    assert_eq!(rx.lengths(0).len(), 0);
}

#[test]
fn damaged_packets_and_impossible_lengths_are_recycled_and_counted() {
    let mut rx = rx(&small());
    rx.write(0, DD | EOP, 64);
    rx.write(1, DD | EOP | RXE, 64);
    rx.write(2, DD | EOP, 0);
    rx.write(3, DD | EOP, BUFFER);
    rx.write(4, DD | EOP, BUFFER + 1);
    rx.write(5, DD | EOP, 0xffff);
    rx.write(6, DD | EOP, 1);
    assert_eq!(rx.lengths(32), [64, BUFFER as usize, 1]);
    let c = rx.counters();
    assert_eq!(
        (c.errors.get(), c.bad_length.get(), c.packets.get()),
        (1, 3, 3)
    );
    assert!((0..7).all(|i| rx.armed(i)));
    assert_eq!(rx.tail(), 6);
}

#[test]
fn metadata_is_that_of_the_packets_descriptor() {
    let mut rx = rx(&small());
    rx.write(0, DD | EOP, 64);
    let mut hash = None;
    rx.queue
        .poll(1, &mut rx.spares, |p| hash = p.metadata().rss);
    assert_eq!(hash.map(|h| h.value), Some(0x1234_5678));
}

#[test]
fn a_taken_buffer_is_replaced_by_a_spare_or_stays() {
    let mut rx = rx(&small());
    let home = rx.pool.available();
    rx.spares.refill(&mut rx.pool, 2);
    (0..3).for_each(|i| rx.write(i, DD | EOP, 100));
    let mut taken = Vec::new();
    let mut short = 0;
    rx.queue.poll(8, &mut rx.spares, |p| match p.take() {
        Some(frame) => taken.push(frame),
        None => short += 1,
    });
    assert_eq!((taken.len(), short, rx.spares.len()), (2, 1, 0));
    assert!(taken.iter().all(|f| f.len() == 100 && f.head() == 256));
    assert!((0..3).all(|i| rx.armed(i)));
    drop(taken);
    assert_eq!(
        rx.pool.available(),
        home,
        "two went as spares, two came back"
    );
}

#[test]
fn spares_of_another_geometry_count_as_none() {
    let mut rx = rx(&small());
    let domain = rx.device.domain();
    let mut large = FramePool::new(domain, driver_core::Geometry::KERNEL, 4).unwrap();
    let mut spares = large.spares(4);
    spares.refill(&mut large, 4);
    rx.write(0, DD | EOP, 100);
    let mut taken = None;
    rx.queue.poll(8, &mut spares, |p| taken = p.take());
    assert!(taken.is_none());
    assert_eq!(spares.len(), 4);
}

/// Five buffers of the small geometry hold the longest packet.
fn jumbo() -> PortConfig {
    PortConfig {
        max_frame: 9000,
        ..small()
    }
}

#[test]
fn a_chain_waits_for_its_end_and_wraps() {
    let mut rx = rx(&jumbo());
    (0..62).for_each(|i| rx.write(i, DD | EOP, 64));
    assert_eq!(rx.lengths(62).len(), 62);
    // First buffer in 62, second in 63, third in 0.
    rx.write(62, DD, BUFFER);
    rx.write(63, DD, BUFFER);
    assert_eq!(rx.lengths(8), [] as [usize; 0]);
    assert_eq!(
        rx.tail(),
        61,
        "nothing is given back before the end is there"
    );
    assert!(!rx.armed(62));
    rx.write(64, DD | EOP, 100);
    rx.write(65, DD | EOP, 70);
    let mut seen = Vec::new();
    let each = |p: RxPacket<'_>| {
        let fragments: Vec<_> = p.fragments().map(driver_core::Frame::len).collect();
        seen.push((p.data().len(), fragments, p.has_fragments()));
    };
    assert_eq!(rx.queue.poll(8, &mut rx.spares, each), 2);
    assert_eq!(seen[0], (2048, vec![2048, 100], true));
    assert_eq!(seen[1], (70, vec![], false));
    assert!((62..66).all(|i| rx.armed(i)));
    assert_eq!(rx.tail(), 1);
    assert_eq!(rx.counters().bytes.get(), 62 * 64 + 4096 + 100 + 70);
}

#[test]
fn a_chain_that_starts_on_the_last_slot_has_fragments() {
    let mut rx = rx(&jumbo());
    (0..63).for_each(|i| rx.write(i, DD | EOP, 64));
    assert_eq!(rx.lengths(63).len(), 63);
    rx.write(63, DD, BUFFER);
    rx.write(64, DD | EOP, 9);
    rx.spares.refill(&mut rx.pool, 2);
    let mut taken = Vec::new();
    let mut alone = true;
    rx.queue.poll(8, &mut rx.spares, |p| {
        alone = !p.has_fragments();
        assert!(p.take_all(|f| taken.push((f.len(), f.more()))));
    });
    assert!(!alone);
    assert_eq!(taken, [(2048, true), (9, false)]);
    assert!(rx.armed(63) && rx.armed(0));
}

#[test]
fn chains_with_a_lie_or_an_error_are_recycled_whole() {
    let mut rx = rx(&jumbo());
    rx.write(0, DD, BUFFER + 1);
    rx.write(1, DD | EOP, 10);
    rx.write(2, DD, BUFFER);
    rx.write(3, DD | EOP | RXE, 10);
    rx.write(4, DD, 0);
    rx.write(5, DD | EOP, 10);
    rx.write(6, DD | EOP, 80);
    assert_eq!(rx.lengths(8), [80]);
    let c = rx.counters();
    assert_eq!((c.bad_length.get(), c.errors.get()), (2, 1));
    assert!((0..7).all(|i| rx.armed(i)));
    assert_eq!(rx.tail(), 6);
}

#[test]
fn a_chain_without_end_is_cut_and_its_rest_discarded() {
    let mut rx = rx(&jumbo());
    // Seven buffers where five hold the longest packet, and the end comes with a later poll.
    (0..7).for_each(|i| rx.write(i, DD, BUFFER));
    assert_eq!(rx.lengths(8), [] as [usize; 0]);
    assert_eq!((rx.counters().too_long.get(), rx.tail()), (1, 6));
    rx.write(7, DD, BUFFER);
    rx.write(8, DD | EOP, 1);
    rx.write(9, DD | EOP, 90);
    assert_eq!(
        rx.lengths(8),
        [90],
        "the late end is not a packet of its own"
    );
    assert_eq!((rx.counters().too_long.get(), rx.tail()), (1, 9));
    assert!((0..10).all(|i| rx.armed(i)));
}

#[test]
fn a_budget_cuts_between_packets() {
    let mut rx = rx(&jumbo());
    rx.write(0, DD | EOP, 60);
    rx.write(1, DD, BUFFER);
    rx.write(2, DD | EOP, 61);
    rx.write(3, DD | EOP, 62);
    assert_eq!(rx.lengths(1), [60]);
    assert_eq!(rx.lengths(1), [2048 + 61]);
    assert_eq!(rx.lengths(1), [62]);
}
