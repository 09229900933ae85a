//! The transmit path, with the test in the place of the device.

use driver_core::{DescriptorRing, Frame, Spares, TxQueue, TxReason};

use super::*;
use crate::IxgbeTxQueue;
use crate::testing;

const EOP: u64 = 1 << 24;
const RS: u64 = 1 << 27;
const DD: u64 = 1 << 32;

struct Tx {
    device: Arc<FakeDevice>,
    _port: IxgbePort,
    pool: FramePool,
    ring: DescriptorRing,
    queue: IxgbeTxQueue,
    spares: Spares,
}

fn tx(ring: u32) -> Tx {
    let config = PortConfig {
        tx_ring: ring,
        ..small()
    };
    let Bench {
        device,
        port,
        pool,
        mut pairs,
    } = bench(&config);
    let (_, queue) = pairs.remove(0);
    Tx {
        ring: testing::ring(&device, 0x6000),
        spares: pool.spares(256),
        device,
        _port: port,
        pool,
        queue,
    }
}

impl Tx {
    fn frame(&mut self, len: usize) -> Frame {
        let mut frame = self.pool.take().unwrap();
        frame.fill(&vec![0xab; len]).unwrap();
        frame
    }

    fn send(&mut self, count: usize) {
        for _ in 0..count {
            let frame = self.frame(64);
            self.queue.enqueue(frame).unwrap();
        }
    }

    fn word(&self, i: usize) -> u64 {
        self.ring.descriptors()[i].load(1)
    }

    fn reported(&self) -> Vec<usize> {
        (0..self.ring.descriptors().len())
            .filter(|i| self.word(*i) & RS != 0)
            .collect()
    }

    /// Reports descriptor `i`, as a device does that may write what it likes to the other bits.
    fn finish(&self, i: usize) {
        self.ring.descriptors()[i].store([0, DD]);
    }
}

#[test]
fn a_descriptor_says_where_how_long_and_that_it_ends_the_packet() {
    let mut tx = tx(64);
    let frame = tx.frame(100);
    let at = frame.data_iova(tx.device.domain().delta());
    tx.queue.enqueue(frame).unwrap();
    assert_eq!(tx.device.tail(0, true), 0, "not shown before the flush");
    tx.queue.flush();
    assert_eq!(tx.device.tail(0, true), 1);
    let d = &tx.ring.descriptors()[0];
    assert_eq!(d.load(0), at);
    // PAYLEN 100; DEXT, RS, IFCS, EOP, DTYP 3; DTALEN 100.
    assert_eq!(d.load(1), 100 << 46 | 0x2b30_0000 | 100);
}

#[test]
fn reports_are_asked_for_at_the_end_of_a_flush_and_every_32() {
    let mut tx = tx(256);
    tx.send(3);
    tx.queue.flush();
    tx.queue.flush();
    assert_eq!(tx.reported(), [2]);
    tx.send(100);
    tx.queue.flush();
    assert_eq!(tx.reported(), [2, 34, 66, 98, 102]);
    assert_eq!(tx.queue.pending(), 103);
    assert_eq!(tx.queue.reclaim(&mut tx.spares), 0);
    tx.finish(2);
    tx.finish(34);
    assert_eq!(tx.queue.reclaim(&mut tx.spares), 35);
    // Only the oldest report that is missing counts: later ones do not overtake it.
    tx.finish(98);
    assert_eq!(tx.queue.reclaim(&mut tx.spares), 0);
    tx.finish(66);
    assert_eq!(tx.queue.reclaim(&mut tx.spares), 64);
    assert_eq!((tx.queue.pending(), tx.spares.len()), (4, 99));
    assert_eq!(tx.queue.counters().reclaimed.get(), 99);
}

#[test]
fn a_full_ring_gives_the_frame_back() {
    let mut tx = tx(64);
    tx.send(63);
    let frame = tx.frame(99);
    let reject = tx.queue.enqueue(frame).unwrap_err();
    assert_eq!((reject.reason, reject.frame.len()), (TxReason::Full, 99));
    let mut chain = vec![reject.frame];
    assert_eq!(tx.queue.enqueue_chain(&mut chain), Err(TxReason::Full));
    assert_eq!(chain.len(), 1);
    assert_eq!(tx.queue.counters().full.get(), 2);
    tx.queue.flush();
    tx.finish(31);
    assert_eq!(tx.queue.reclaim(&mut tx.spares), 32);
    assert_eq!(tx.queue.enqueue_chain(&mut chain), Ok(()));
    assert!(chain.is_empty());
}

#[test]
fn the_ring_wraps_for_ever() {
    let mut tx = tx(64);
    let mut at = 0;
    for round in 0..50 {
        let count = 1 + round % 63;
        tx.send(count);
        tx.queue.flush();
        for i in 0..count {
            if tx.word((at + i) % 64) & RS != 0 {
                tx.finish((at + i) % 64);
            }
        }
        at = (at + count) % 64;
        assert_eq!(tx.device.tail(0, true) as usize, at);
        assert_eq!(tx.queue.reclaim(&mut tx.spares), count);
        tx.spares.drain_to(&mut tx.pool, 0);
        assert_eq!(tx.queue.pending(), 0);
    }
}

#[test]
fn spares_without_room_leave_frames_on_the_ring() {
    let mut tx = tx(64);
    tx.send(40);
    tx.queue.flush();
    tx.finish(31);
    tx.finish(39);
    let mut few = tx.pool.spares(10);
    assert_eq!(tx.queue.reclaim(&mut few), 10);
    assert_eq!(tx.queue.reclaim(&mut few), 0);
    few.drain_to(&mut tx.pool, 5);
    assert_eq!(tx.queue.reclaim(&mut few), 5);
    assert_eq!(tx.queue.reclaim(&mut tx.spares), 25);
    assert_eq!(tx.queue.pending(), 0);
}

#[test]
fn lengths_that_cannot_be_sent_are_refused() {
    let mut tx = tx(64);
    for len in [0, 13] {
        let frame = tx.frame(len);
        let reject = tx.queue.enqueue(frame).unwrap_err();
        assert_eq!(reject.reason, TxReason::Length, "{len}");
    }
    let frame = tx.frame(14);
    assert!(tx.queue.enqueue(frame).is_ok());
    let mut none = Vec::new();
    assert_eq!(tx.queue.enqueue_chain(&mut none), Err(TxReason::Length));
    let mut hole = vec![tx.frame(64), tx.frame(0), tx.frame(64)];
    assert_eq!(tx.queue.enqueue_chain(&mut hole), Err(TxReason::Length));
    let mut many: Vec<_> = (0..41).map(|_| tx.frame(64)).collect();
    assert_eq!(tx.queue.enqueue_chain(&mut many), Err(TxReason::Length));
    // 15.5 KiB with the checksum.
    let mut long: Vec<_> = (0..8).map(|_| tx.frame(1984)).collect();
    assert_eq!(tx.queue.enqueue_chain(&mut long), Err(TxReason::Length));
    long[7].set_range(256, 1980).unwrap();
    assert_eq!(tx.queue.enqueue_chain(&mut long), Ok(()));
    assert_eq!(tx.queue.counters().bad_length.get(), 6);
}

#[test]
fn a_chain_has_its_length_in_front_and_its_end_behind() {
    let mut tx = tx(128);
    tx.send(20);
    let mut chain: Vec<_> = (0..40).map(|_| tx.frame(100)).collect();
    tx.queue.enqueue_chain(&mut chain).unwrap();
    tx.send(1);
    tx.queue.flush();
    assert_eq!(tx.word(20) >> 46, 4000);
    assert!((21..60).all(|i| tx.word(i) >> 46 == 0));
    assert!((20..59).all(|i| tx.word(i) & EOP == 0) && tx.word(59) & EOP != 0);
    assert!((20..60).all(|i| tx.word(i) & 0xffff == 100));
    assert_eq!(
        tx.reported(),
        [59, 60],
        "a report is for an end of packet only"
    );
    assert_eq!(tx.queue.counters().packets.get(), 22);
}
