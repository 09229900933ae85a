//! Frames that do not arrive: filters, limits, missing descriptors, and the counters that tell.

mod common;

use common::traffic::*;
use common::*;
use std::time::Duration;

use emulated_nic::wires::{Sink, Source, SourceConfig};
use emulated_nic::{Nic, Variant, Wire};

/// Frames to different destinations, of which `settings` let the ones with these numbers in.
fn accepted(settings: impl Fn(&Driver)) -> Vec<usize> {
    let to = |mac: [u8; 6]| {
        let mut p = udp(60);
        p[..6].copy_from_slice(&mac);
        p
    };
    let station = to([2, 0, 0, 0, 0, 1]);
    let frames = [
        station.clone(),
        to([2, 0, 0, 0, 0, 9]),
        to([0xff; 6]),
        to([1, 0, 0x5e, 0, 0, 1]),
        to([1, 0, 0x5e, 0, 0x12, 0x34]),
        tagged(&station, 100),
        tagged(&station, 200),
    ];
    let (nic, _, seen) = receive(&frames, |d| {
        d.clear(RXCTRL, 1);
        d.write(FCTRL, 0);
        settings(d);
        d.receive();
    });
    let c = nic.wire_counts();
    assert_eq!(
        c.delivered + c.filtered + c.vlan_filtered,
        frames.len() as u64
    );
    let number = |r: &Received| frames.iter().position(|f| *f == r.data).unwrap();
    seen.iter().map(number).collect()
}

#[test]
fn filters_let_in_what_they_should() {
    let station = [0, 5, 6];
    assert_eq!(accepted(|_| {}), station);
    assert_eq!(accepted(|d| d.write(FCTRL, 1 << 10)), [0, 2, 5, 6]);
    assert_eq!(accepted(|d| d.write(FCTRL, 1 << 9)), [0, 1, 5, 6]);
    assert_eq!(accepted(|d| d.write(FCTRL, 1 << 8)), [0, 2, 3, 4, 5, 6]);
    assert_eq!(
        accepted(|d| d.write(0xa204, 0)),
        [] as [usize; 0],
        "no station address"
    );
    let second = |d: &Driver| {
        d.write(0xa200 + 8 * 127, 0x0000_0002);
        d.write(0xa204 + 8 * 127, 1 << 31 | 0x0900);
    };
    assert_eq!(accepted(second), [0, 1, 5, 6]);
    // Bits 47:36 of 01:00:5e:00:12:34 are 0x341.
    let hash = |d: &Driver| {
        d.write(0x5200 + 4 * (0x341 >> 5), 1 << (0x341 & 31));
        d.write(0x5090, 1 << 2);
    };
    assert_eq!(accepted(hash), [0, 4, 5, 6]);
    assert_eq!(
        accepted(|d| d.write(0x5200 + 4 * (0x341 >> 5), u32::MAX)),
        station,
        "no MFE"
    );
    let vlan = |d: &Driver| {
        d.write(0xa000 + 4 * (100 >> 5), 1 << (100 & 31));
        d.set(VLNCTRL, 1 << 30);
    };
    assert_eq!(accepted(vlan), [0, 5]);
}

#[test]
fn an_inexact_match_says_so() {
    let mut group = udp(60);
    group[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0x12, 0x34]);
    let (.., seen) = receive(&[group, udp(60)], |d| {
        d.write(0x5200 + 4 * (0x341 >> 5), 1 << (0x341 & 31));
        d.write(0x5090, 1 << 2);
    });
    let pif: Vec<_> = seen.iter().map(|r| r.status() >> 7 & 1).collect();
    assert_eq!(pif, [1, 0]);
}

fn counter(driver: &Driver, offset: u32) -> u32 {
    driver.read(offset)
}

const CRCERRS: u32 = 0x4000;
const MPC: u32 = 0x3fa0;
const RUC: u32 = 0x40a4;
const RFC: u32 = 0x40a8;
const ROC: u32 = 0x40ac;
const GPRC: u32 = 0x4074;
const TPR: u32 = 0x40d0;

#[test]
fn damaged_short_and_long_frames_are_counted_where_they_belong() {
    let frames = vec![
        (udp(60), false),
        (udp(60), true),
        (udp(59), false),
        (udp(59), true),
        (udp(1514), false),
        (udp(1515), false),
        (tagged(&udp(1514), 1), false),
        (vec![1; 9], false),
    ];
    let (mut nic, driver) = given_bad(Variant::I82599, frames, true);
    let (mut rx, _tx) = driver.bring_up(64);
    nic.step();
    assert_eq!(rx.drain().len(), 3);
    let c = nic.wire_counts();
    assert_eq!((c.bad_fcs, c.undersize, c.oversize), (2, 2, 1));
    assert!(c.is_conserved());
    let read = |o| counter(&driver, o);
    assert_eq!(
        [CRCERRS, RFC, RUC, ROC, GPRC, TPR].map(read),
        [1, 1, 1, 1, 3, 8]
    );
    assert_eq!(
        [CRCERRS, RFC, RUC, ROC, GPRC, TPR].map(read),
        [0; 6],
        "reading clears"
    );
}

#[test]
fn bad_frames_are_stored_where_that_is_asked_for() {
    let frames = vec![(udp(60), true), (udp(50), false), (udp(2000), false)];
    let (nic, driver) = given_bad(Variant::I82599, frames, true);
    let (mut rx, _tx) = driver.set_up(64);
    driver.clear(RXCTRL, 1);
    driver.set(FCTRL, 1 << 1);
    driver.receive();
    driver.link();
    let seen = rx.drain();
    let rxe: Vec<_> = seen
        .iter()
        .map(|r| (r.data.len(), r.status() >> 29 & 1))
        .collect();
    assert_eq!(rxe, [(60, 1), (50, 1), (2000, 1)]);
    assert!(nic.wire_counts().is_conserved());
}

#[test]
fn jumbo_frames_up_to_maxfrs() {
    let frames = [udp(9014), udp(9015), vec![2; 16_000]];
    let (nic, _, seen) = receive(&frames, |d| {
        d.set(HLREG0, 1 << 2);
        d.write(MAXFRS, 9018 << 16);
    });
    assert_eq!(seen.iter().map(|r| r.data.len()).sum::<usize>(), 9014);
    assert_eq!(nic.wire_counts().oversize, 2);
    let (nic, ..) = receive(&[vec![2; 15_868], vec![2; 15_869]], |d| {
        d.set(HLREG0, 1 << 2);
        d.write(MAXFRS, 0xffff << 16);
    });
    assert_eq!(nic.wire_counts().oversize, 1, "15.5 KiB are the most");
}

#[test]
fn a_queue_of_an_x540_can_have_its_own_limit() {
    for (variant, delivered) in [(Variant::X540, 1), (Variant::I82599, 2)] {
        let (nic, driver) = given(variant, &[udp(996), udp(997)]);
        driver.reset();
        driver.global();
        let mut rx = driver.rx_with(0, 64, 1 << 25 | 2, ENABLE | 1 << 15 | 1000);
        driver.receive();
        driver.link();
        assert_eq!(rx.drain().len(), delivered);
        assert_eq!(nic.wire_counts().too_long_for_queue, 2 - delivered as u64);
    }
}

fn many(n: usize, patient: bool) -> (Nic, Driver) {
    given_bad(Variant::I82599, vec![(udp(60), false); n], patient)
}

#[test]
fn a_patient_wire_loses_nothing() {
    for drop_en in [0, 1 << 28] {
        let (mut nic, driver) = many(200, true);
        driver.reset();
        driver.global();
        let mut rx = driver.rx_with(0, 64, drop_en | 1 << 25 | 2, ENABLE);
        driver.receive();
        driver.link();
        let mut seen = 0;
        while nic.step() || rx.is_done() {
            seen += rx.drain().len();
        }
        let c = nic.wire_counts();
        assert_eq!(
            (seen, c.offered, c.lost(), driver.read(MPC)),
            (200, 200, 0, 0)
        );
    }
}

#[test]
fn a_queue_with_drop_en_drops_what_finds_no_descriptor() {
    let (mut nic, driver) = many(200, false);
    driver.reset();
    driver.global();
    // Queue 0 counts in counter 5.
    driver.write(0x2300, 5);
    let mut rx = driver.rx_with(0, 64, 1 << 28 | 1 << 25 | 2, ENABLE);
    driver.receive();
    driver.link();
    nic.step();
    assert_eq!(rx.drain().len(), 63);
    let c = nic.wire_counts();
    assert_eq!((c.delivered, c.no_descriptor, c.waiting), (63, 137, 0));
    assert!(c.is_conserved());
    let read = |o| counter(&driver, o);
    // QPRC, QPRDC, MPC, GPRC.
    assert_eq!(
        [0x1030 + 0x140, 0x1430 + 0x140, MPC, GPRC].map(read),
        [63, 137, 0, 200]
    );
}

#[test]
fn without_drop_en_frames_wait_in_the_packet_buffer_until_that_is_full() {
    // 60 bytes each: 384 KiB hold 6553, and 63 are in the ring.
    let (mut nic, driver) = many(10_000, false);
    let (mut rx, _tx) = driver.set_up(64);
    driver.write(0x3c00, 384 << 10);
    driver.link();
    nic.step();
    let c = nic.wire_counts();
    assert_eq!(
        (c.delivered, c.waiting, c.buffer_full),
        (63, 6553, 10_000 - 63 - 6553)
    );
    assert!(c.is_conserved());
    assert_eq!(u64::from(driver.read(MPC)), c.buffer_full);
    let mut seen = 0;
    while nic.step() || rx.is_done() {
        seen += rx.drain().len();
    }
    let c = nic.wire_counts();
    assert_eq!((seen, c.waiting), (63 + 6553, 0));
    assert!(c.is_conserved());
}

#[test]
fn a_reset_empties_the_packet_buffer() {
    let (nic, driver) = many(100, false);
    let _queues = driver.bring_up(64);
    assert_eq!(nic.wire_counts().waiting, 37);
    driver.reset();
    let c = nic.wire_counts();
    assert_eq!((c.waiting, c.flushed), (0, 37));
    assert!(c.is_conserved());
}

#[test]
fn frames_for_a_receiver_or_queue_that_is_off_are_lost() {
    let (nic, driver) = many(10, false);
    driver.reset();
    driver.link();
    driver.sleep(Duration::from_millis(1));
    assert_eq!(nic.wire_counts().receiver_off, 10);
    let (nic, driver) = many(10, true);
    driver.reset();
    driver.global();
    driver.receive();
    driver.link();
    assert_eq!(nic.wire_counts().queue_off, 10);
    assert!(nic.wire_counts().is_conserved());
}

#[test]
fn a_ring_of_4096_is_filled_in_one_step() {
    let wire = Wire::new(Source::new(SourceConfig::default()), Sink::new());
    let (mut nic, driver) = nic(Variant::I82599, wire);
    let (mut rx, _tx) = driver.bring_up(4096);
    rx.drain();
    nic.step();
    let done = rx
        .ring
        .descriptors()
        .iter()
        .filter(|d| d.load_acquire(1) & 1 != 0)
        .count();
    assert_eq!(done, 4095);
    assert!(nic.wire_counts().is_conserved());
}
