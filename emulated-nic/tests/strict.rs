//! Every rule of the strict log, broken once: the model must say so, and say nothing else.

mod common;

use std::time::Duration;

use common::*;
use emulated_nic::{Access, Nic, Rule, Variant};

/// The rules broken, each as often as it was.
fn broken(nic: &Nic) -> Vec<Rule> {
    nic.strict_log().iter().map(|v| v.rule).collect()
}

/// Breaks rules by one write after a reset.
fn by_write(offset: u32, value: u32) -> Vec<Rule> {
    let (nic, driver) = silent(Variant::I82599);
    driver.reset();
    driver.write(offset, value);
    broken(&nic)
}

#[test]
fn offsets() {
    assert_eq!(by_write(0x0002, 0), [Rule::UnalignedAccess]);
    assert_eq!(by_write(0x00fc, 0), [Rule::UnknownRegister]);
    assert_eq!(by_write(0x7fffc, 0), [Rule::UnknownRegister]);
    let (nic, driver) = silent(Variant::I82599);
    assert_eq!(driver.read(0x20001), u32::MAX);
    assert_eq!(broken(&nic), [Rule::UnalignedAccess]);
    assert_eq!(nic.strict_log()[0].value, 0x20001);
}

#[test]
fn access_during_reset() {
    let (nic, driver) = silent(Variant::I82599);
    driver.write(CTRL, 1 << 26);
    driver.read(STATUS);
    assert_eq!(broken(&nic), [], "a read that flushes the write");
    driver.read(CTRL);
    assert_eq!(broken(&nic), [Rule::AccessDuringReset]);
    assert_eq!(nic.strict_log()[0].register, "CTRL");
    driver.sleep(Duration::from_millis(1));
    driver.read(CTRL);
    assert_eq!(nic.strict_count(), 1, "after a millisecond it may be read");
}

#[test]
fn reserved_bits() {
    assert_eq!(by_write(0x810, 1 << 20), [Rule::EiacReservedBits]);
    assert_eq!(by_write(0x810, 0x4000_ffff), []);
    assert_eq!(by_write(DTXMXSZRQ, 0x1fff), [Rule::DtxmxszrqReservedBits]);
    assert_eq!(by_write(DTXMXSZRQ, 0xfff), []);
    let (nic, driver) = silent(Variant::I82599);
    driver.reset();
    let held = driver.read(RDRXCTL);
    driver.write(RDRXCTL, held ^ 1 << 11);
    assert_eq!(broken(&nic), [Rule::RdrxctlReservedField]);
}

/// Receives frames with these bits of RDRXCTL turned over.
fn receiving_with(bits: u32) -> Vec<Rule> {
    let (nic, driver) = with_source(10);
    let _queues = driver.set_up(64);
    driver.write(RDRXCTL, driver.read(RDRXCTL) ^ bits);
    assert_eq!(broken(&nic), [], "no frame has arrived");
    driver.link();
    broken(&nic)
}

#[test]
fn rdrxctl_when_the_first_frame_arrives() {
    assert_eq!(receiving_with(0), []);
    assert_eq!(receiving_with(1 << 1), [Rule::CrcStripDiffers]);
    assert_eq!(receiving_with(8 << 17), [Rule::RscFirstSize]);
    assert_eq!(receiving_with(1 << 25), [Rule::RscAckFcoeFix]);
    assert_eq!(receiving_with(1 << 26), [Rule::RscAckFcoeFix]);
}

#[test]
fn dca_rxctrl_bit_12() {
    let (nic, driver) = with_source(10);
    let _queues = driver.set_up(64);
    driver.set(rxq(0, 0x0c), 1 << 12);
    driver.link();
    assert_eq!(
        broken(&nic),
        [Rule::DcaRxctrlBit12],
        "once, not for each frame"
    );
}

#[test]
fn tails_before_their_queue_is_on() {
    let (nic, driver) = silent(Variant::I82599);
    driver.reset();
    driver.write(rxq(3, 0x18), 0);
    driver.write(rxq(3, 0x18), 63);
    driver.write(txq(3, 0x18), 0);
    driver.write(txq(3, 0x18), 1);
    assert_eq!(broken(&nic), [Rule::RdtBeforeEnable, Rule::TdtBeforeEnable]);
    // Linux's self-test wants the registers to hold what was written; the queue starts without it.
    assert_eq!(
        (driver.read(rxq(3, 0x18)), driver.read(txq(3, 0x18))),
        (63, 1)
    );
    driver.write(rxq(3, 0x28), ENABLE);
    assert!(driver.wait(rxq(3, 0x28), ENABLE, ENABLE));
    assert_eq!(driver.read(rxq(3, 0x18)), 0, "it is lost");
}

#[test]
fn doorbells_before_their_queue_is_on() {
    let (nic, driver) = silent(Variant::I82599);
    driver.reset();
    driver.global();
    driver.device.doorbell(rxq(0, 0x18)).unwrap().ring(63);
    driver.device.doorbell(txq(0, 0x18)).unwrap().ring(1);
    let (rx, tx) = (driver.rx(0, 64), driver.tx(0, 64));
    assert_eq!(broken(&nic), [Rule::RdtBeforeEnable, Rule::TdtBeforeEnable]);
    drop((rx, tx));
}

#[test]
fn transmit_queue_before_dmatxctl_te() {
    let (nic, driver) = silent(Variant::I82599);
    driver.reset();
    let _tx = driver.tx(0, 64);
    assert_eq!(broken(&nic), [Rule::EnableBeforeTe]);
    driver.write(txq(0, 0x18), 1);
    assert_eq!(broken(&nic)[1..], [Rule::TdtBeforeEnable]);
}

#[test]
fn ring_addresses_and_lengths() {
    for queue in [rxq(70, 0), txq(70, 0)] {
        assert_eq!(by_write(queue, 0x1000), []);
        assert_eq!(by_write(queue, 0x1040), [Rule::RingBaseAlignment]);
        assert_eq!(by_write(queue + 8, 0x2_0000), []);
        assert_eq!(by_write(queue + 8, 0x1010), [Rule::RingLength]);
        assert_eq!(by_write(queue + 8, 0x2_0080), [Rule::RingLength]);
    }
}

#[test]
fn heads_of_queues_that_are_on() {
    let (nic, driver) = silent(Variant::I82599);
    let _queues = driver.bring_up(64);
    driver.write(rxq(0, 0x10), 5);
    driver.write(txq(0, 0x10), 5);
    assert_eq!(broken(&nic), [Rule::HeadWhileEnabled; 2]);
    assert_eq!(
        (driver.read(rxq(0, 0x10)), driver.read(txq(0, 0x10))),
        (0, 0)
    );
}

#[test]
fn tails_outside_of_their_ring() {
    let (mut nic, driver) = silent(Variant::I82599);
    let (rx, tx) = driver.bring_up(64);
    rx.bell.ring(64);
    tx.bell.ring(64);
    nic.step();
    nic.step();
    let mut rules = broken(&nic);
    rules.sort();
    assert_eq!(rules, [Rule::TailOutsideRing; 2]);
    assert_eq!((nic.strict_log()[0].value, nic.faults()), (64, vec![]));
}

#[test]
fn all_descriptors_given() {
    let (mut nic, driver) = with_source(5);
    let (rx, _tx) = driver.bring_up(64);
    nic.step();
    // Five are used, 58 are left; up to the head means all 64, and looks like none.
    rx.bell.ring(5);
    nic.step();
    assert_eq!(broken(&nic), [Rule::AllDescriptorsGiven]);
}

#[test]
fn receive_buffers() {
    assert_eq!(by_write(rxq(1, 0x14), 2 | 1 << 25), []);
    assert_eq!(by_write(rxq(1, 0x14), 0), [Rule::BufferSize]);
    assert_eq!(by_write(rxq(1, 0x14), 17), [Rule::BufferSize]);
    assert_eq!(
        by_write(rxq(1, 0x14), 2 | 2 << 25),
        [Rule::BufferSize],
        "header split"
    );
    let (nic, driver) = with_source(1);
    let (rx, _tx) = driver.set_up(64);
    // Frames are 2624 bytes apart, and 3 KiB is said to be there.
    driver.write(rxq(0, 0x14), 3 | 1 << 25);
    driver.link();
    assert_eq!(broken(&nic), [Rule::BuffersOverlap]);
    drop(rx);
}

/// The longest frame with FCS and two tags.
const REACH: usize = 1518 + 8;

#[test]
fn addresses_that_are_not_mapped() {
    let (nic, driver) = with_source(3);
    let (rx, mut tx) = driver.set_up(64);
    rx.ring.descriptors()[1].store([0, 0]);
    tx.put_words([1 << 46, DATA | EOP | IFCS | RS | 60 << 46 | 60]);
    tx.flush();
    driver.link();
    assert_eq!(broken(&nic), [Rule::DmaOutsideMapping; 2]);
    let faults: Vec<_> = nic
        .faults()
        .iter()
        .map(|f| (f.access, f.iova, f.len))
        .collect();
    assert_eq!(
        faults,
        [
            (Access::TxBuffer, 1 << 46, 60),
            (Access::RxBuffer, 0, REACH)
        ]
    );
    let c = nic.wire_counts();
    assert_eq!(
        (c.delivered, c.rx_fault, c.tx_fault, c.transmitted),
        (2, 1, 1, 0)
    );
    assert!(c.is_conserved());
    assert!(
        tx.is_done(0),
        "the device does not know what became of its read"
    );
}

#[test]
fn a_buffer_must_be_mapped_as_far_as_frames_go() {
    for (room, rules) in [(REACH, vec![]), (REACH - 1, vec![Rule::DmaOutsideMapping])] {
        let (nic, driver) = with_source(1);
        let (rx, _tx) = driver.set_up(64);
        let region = driver.region(1);
        let end = region.iova() + region.len() as u64;
        rx.ring.descriptors()[0].store([end - room as u64, 0]);
        driver.link();
        assert_eq!(
            broken(&nic),
            rules,
            "{room} bytes; the packet alone would fit"
        );
    }
}

#[test]
fn memory_that_was_unmapped() {
    let (nic, driver) = with_source(10);
    let (rx, _tx) = driver.set_up(64);
    driver.device.unmap(rx.pool.region());
    driver.link();
    let (strict, faults) = (broken(&nic), nic.faults());
    assert_eq!((strict.len(), faults.len()), (10, 10));
    assert!(strict.iter().all(|r| *r == Rule::DmaOutsideMapping));
}

#[test]
fn dma_without_bus_mastering() {
    let (nic, driver) = with_source(1);
    let _queues = driver.set_up(64);
    nic.set_bus_master(false);
    driver.link();
    assert!(
        nic.strict_log()
            .iter()
            .all(|v| v.rule == Rule::DmaWithoutBusMaster)
    );
    assert!(nic.strict_count() > 0 && nic.faults()[0].bus_master_off);
}

#[test]
fn mtqc_without_arbdis() {
    let (nic, driver) = silent(Variant::I82599);
    driver.reset();
    driver.write(MTQC, 0);
    assert_eq!(broken(&nic), [Rule::MtqcWithoutArbdis]);
}

/// Sends what `put` puts into the ring, and gives the rules broken and the frames sent.
fn by_send(put: impl FnOnce(&mut Tx)) -> (Vec<Rule>, u64) {
    let (mut nic, driver) = silent(Variant::I82599);
    let (_rx, mut tx) = driver.bring_up(128);
    put(&mut tx);
    tx.flush();
    nic.step();
    nic.step();
    assert!(nic.wire_counts().is_conserved());
    (broken(&nic), nic.wire_counts().transmitted)
}

const ONE: u64 = DATA | EOP | IFCS | RS;

#[test]
fn transmit_descriptors() {
    let sixty = udp(60);
    let advanced = |tx: &mut Tx| tx.put(&sixty, ONE | 60 << 46);
    assert_eq!(by_send(advanced), (vec![], 1));
    let legacy = |tx: &mut Tx| tx.put(&sixty, EOP | IFCS | RS);
    assert_eq!(by_send(legacy), (vec![], 1), "a ring of the older kind");
    let mixed = |tx: &mut Tx| {
        advanced(tx);
        legacy(tx);
    };
    assert_eq!(by_send(mixed), (vec![Rule::TxLegacyInAdvancedRing], 2));
    let paylen = |tx: &mut Tx| tx.put(&sixty, ONE | 61 << 46);
    assert_eq!(by_send(paylen), (vec![Rule::TxPaylenMismatch], 0));
    let empty = |tx: &mut Tx| {
        tx.put(&sixty, DATA | IFCS | 60 << 46);
        tx.put(&[], ONE | 60 << 46);
    };
    assert_eq!(by_send(empty), (vec![Rule::TxLengthZero], 0));
    let short = |tx: &mut Tx| tx.put(&sixty[..13], ONE | 13 << 46);
    assert_eq!(by_send(short), (vec![Rule::TxPacketLength], 0));
    let no_context = |tx: &mut Tx| tx.put(&sixty, ONE | TXSM | 60 << 46);
    assert_eq!(by_send(no_context), (vec![Rule::TxContextMissing], 0));
    let segmentation = |tx: &mut Tx| tx.put(&sixty, ONE | 1 << 31 | 60 << 46);
    assert_eq!(by_send(segmentation), (vec![Rule::TxContextMissing], 0));
}

#[test]
fn what_is_to_be_segmented() {
    // A context without an MSS.
    let no_mss = |tx: &mut Tx| {
        let lengths = 20 | 14 << 9;
        tx.put_words([lengths, 2 << 20 | DEXT | 1 << 11 | 20 << 40]);
        tx.put(&udp(60), DATA | EOP | IFCS | RS | 1 << 31 | 6 << 46);
    };
    assert_eq!(by_send(no_mss), (vec![Rule::TxSegmentLength], 0));
}

#[test]
fn descriptors_of_a_packet() {
    let pieces = |n: u64| {
        move |tx: &mut Tx| {
            for i in 0..n {
                let last = if i + 1 == n { EOP | RS } else { 0 };
                tx.put(&[2; 10], DATA | IFCS | last | (10 * n) << 46);
            }
        }
    };
    assert_eq!(by_send(pieces(40)), (vec![], 1));
    assert_eq!(by_send(pieces(41)), (vec![Rule::TxTooManyDescriptors], 0));
    let endless = |tx: &mut Tx| tx.put(&udp(60), DATA | IFCS | 60 << 46);
    assert_eq!(
        by_send(endless),
        (vec![Rule::TxEopMissing], 0),
        "once a tail"
    );
}

#[test]
fn head_write_back() {
    assert_eq!(by_write(txq(0, 0x38), 0x1001), []);
    assert_eq!(
        by_write(txq(0, 0x38), 0x1005),
        [Rule::HeadWriteBackAlignment]
    );
    let (nic, driver) = silent(Variant::I82599);
    driver.reset();
    driver.global();
    driver.write(txq(0, 0x38), 0x1001);
    driver.write(txq(0, 0x28), ENABLE | 4 << 16);
    assert_eq!(broken(&nic), [Rule::HeadWriteBackThreshold]);
}

#[test]
fn what_is_not_modelled_is_said_to_be() {
    for (offset, value) in [
        (MRQC, 2),
        (0x51b0, 1),
        (0x5128, 1 << 31 | 1 << 30),
        (0xe600, 1 << 31),
        (0xec30, 1 << 31),
        (0xee00, 1 << 4 | 1),
        (0x2f04, 1),
        (rxq(0, 0x2c), 1),
    ] {
        assert_eq!(by_write(offset, value), [Rule::NotModelled], "{offset:#x}");
    }
}

#[test]
fn every_rule_is_broken_in_this_file() {
    let source = include_str!("strict.rs");
    for rule in Rule::ALL {
        assert!(
            source.contains(&format!("Rule::{rule:?}")),
            "{rule:?} has no test"
        );
        assert!(!rule.text().is_empty());
    }
}
