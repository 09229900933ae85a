//! The receive path at the ring: what descriptors say, filters, limits, losses and their counters.

mod common;

use std::time::Duration;

use common::*;
use emulated_nic::wires::{CaptureFormat, CaptureReader, CaptureWriter, Impaired, Impairment};
use emulated_nic::wires::{Shape, Sink, Source, SourceConfig};
use emulated_nic::{
    FrameBatch, Ingress, Injection, Nic, SCRIBBLE, Supply, Variant, Wire, WireError,
};

/// Brings these frames, then ends. Frames with a `true` have a wrong FCS.
#[derive(Debug)]
struct Given {
    frames: Vec<(Vec<u8>, bool)>,
    next: usize,
    patient: bool,
}

impl Ingress for Given {
    fn receive(&mut self, _: Duration, batch: &mut FrameBatch) -> Result<Supply, WireError> {
        while let Some((frame, bad)) = self.frames.get(self.next) {
            if !batch.push(frame) {
                return Ok(Supply::More);
            }
            if *bad {
                batch.spoil_fcs();
            }
            self.next += 1;
        }
        Ok(Supply::End)
    }

    fn is_patient(&self) -> bool {
        self.patient
    }
}

fn given(variant: Variant, frames: &[Vec<u8>]) -> (Nic, Driver) {
    given_bad(
        variant,
        frames.iter().map(|f| (f.clone(), false)).collect(),
        true,
    )
}

fn given_bad(variant: Variant, frames: Vec<(Vec<u8>, bool)>, patient: bool) -> (Nic, Driver) {
    let ingress = Given {
        frames,
        next: 0,
        patient,
    };
    nic(variant, Wire::new(ingress, Sink::new()))
}

/// Receives `frames` on queue 0 after `settings`.
fn receive(frames: &[Vec<u8>], settings: impl FnOnce(&Driver)) -> (Nic, Driver, Vec<Received>) {
    let (mut nic, driver) = given(Variant::I82599, frames);
    let (mut rx, _tx) = driver.set_up(512);
    settings(&driver);
    driver.link();
    nic.run_until_idle(100);
    let seen = rx.drain();
    assert!(nic.wire_counts().is_conserved());
    assert_eq!(nic.faults(), []);
    (nic, driver, seen)
}

const HASHES: u32 = 1 << 16 | 1 << 17 | 1 << 20 | 1 << 21 | 1 << 22 | 1 << 23;

/// DPDK's default key, in the registers' byte order.
fn rss(driver: &Driver, entries: impl Fn(usize) -> u8) {
    let key = [
        0x6d5a_56da,
        0x255b_0ec2,
        0x4167_253d,
        0x43a3_8fb0,
        0xd0ca_2bcb,
        0xae7b_30b4,
        0x77cb_2da3,
        0x8030_f20c,
        0x6a42_b73b,
        0xbeac_01fa_u32,
    ];
    for (n, word) in (0u32..).zip(key) {
        driver.write(0xeb80 + 4 * n, word.swap_bytes());
    }
    for n in 0..32 {
        let bytes = std::array::from_fn(|i| entries(4 * n + i));
        driver.write(0xeb00 + 4 * n as u32, u32::from_le_bytes(bytes));
    }
    driver.write(MRQC, 1 | HASHES);
}

fn tcp(mut p: Vec<u8>) -> Vec<u8> {
    p[23] = 6;
    p[46] = 0x50;
    seal_ip(&mut p, 20);
    seal_l4(&mut p, 14, 6, 16);
    p
}

/// Puts the right checksum into an IPv4 header of `len` bytes.
fn seal_ip(p: &mut [u8], len: usize) {
    p[24..26].fill(0);
    let sum = internet_checksum(&p[14..14 + len]);
    p[24..26].copy_from_slice(&sum.to_be_bytes());
}

fn tagged(p: &[u8], tag: u16) -> Vec<u8> {
    let mut t = p[..12].to_vec();
    t.extend([0x81, 0x00]);
    t.extend(tag.to_be_bytes());
    t.extend(&p[12..]);
    t
}

fn udp6(len: usize) -> Vec<u8> {
    let mut p = udp(60)[..12].to_vec();
    p.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    p.extend(((len - 54) as u16).to_be_bytes());
    p.extend([17, 64]);
    p.extend([1; 16]);
    p.extend([2; 16]);
    p.extend(2794u16.to_be_bytes());
    p.extend(1766u16.to_be_bytes());
    p.extend(((len - 54) as u16).to_be_bytes());
    p.extend([0, 0]);
    p.resize(len, 7);
    let mut covered = p[22..54].to_vec();
    covered.extend([0, 17]);
    covered.extend(((len - 54) as u16).to_be_bytes());
    covered.extend(&p[54..]);
    let sum = internet_checksum(&covered);
    p[60..62].copy_from_slice(&sum.to_be_bytes());
    p
}

const IPV4: u32 = 1 << 4;
const IPV4_OPTIONS: u32 = 1 << 5;
const IPV6: u32 = 1 << 6;
const TCP: u32 = 1 << 8;
const UDP: u32 = 1 << 9;
const DD_EOP: u32 = 3;
const UDPCS: u32 = 1 << 4;
const L4CS: u32 = 1 << 5;
const IPCS: u32 = 1 << 6;
const L4E: u32 = 1 << 30;
const IPE: u32 = 1 << 31;

#[test]
fn what_a_descriptor_says_of_a_packet() {
    let good = udp(100);
    let mut bad_ip = udp(100);
    bad_ip[24] ^= 1;
    let mut bad_udp = udp(100);
    bad_udp[99] ^= 1;
    let mut no_sum = udp(100);
    no_sum[40..42].fill(0);
    let mut fragment = udp(100);
    fragment[20] = 0x20;
    seal_ip(&mut fragment, 20);
    let mut options = udp(100);
    options[14] = 0x46;
    seal_ip(&mut options, 24);
    let mut arp = udp(60);
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut bad_tcp = tcp(udp(80));
    bad_tcp[60] ^= 4;
    let cases = [
        (good.clone(), IPV4 | UDP, IPCS | L4CS | UDPCS, 7),
        (tcp(udp(80)), IPV4 | TCP, IPCS | L4CS, 1),
        (bad_tcp, IPV4 | TCP, IPCS | L4CS | L4E, 1),
        (bad_ip, IPV4 | UDP, IPCS | L4CS | UDPCS | IPE, 7),
        (bad_udp, IPV4 | UDP, IPCS | L4CS | UDPCS | L4E, 7),
        (no_sum, IPV4 | UDP, IPCS | L4CS | UDPCS | L4E, 7),
        (fragment, IPV4, IPCS, 2),
        (udp6(90), IPV6 | UDP, L4CS | UDPCS, 8),
        (arp, 0, 0, 0),
        (tagged(&good, 5), IPV4 | UDP, IPCS | L4CS | UDPCS, 7),
        (tagged(&tagged(&good, 5), 6), 0, 0, 0),
    ];
    let frames: Vec<_> = cases.iter().map(|c| c.0.clone()).collect();
    let (nic, _, seen) = receive(&frames, |d| rss(d, |_| 0));
    assert_eq!(nic.strict_log(), []);
    for ((frame, kind, status, rss), r) in cases.iter().zip(&seen) {
        assert_eq!(&r.data, frame);
        assert_eq!(r.packet_type(), *kind, "{r:x?}");
        assert_eq!(r.status(), DD_EOP | status, "{r:x?}");
        assert_eq!(r.rss().0, *rss, "{r:x?}");
    }
    assert_eq!(seen.len(), cases.len());
    let (.., seen) = receive(&[options], |_| {});
    assert_eq!(seen[0].packet_type(), IPV4_OPTIONS | UDP);
}

#[test]
fn an_x550_does_not_call_a_missing_udp_checksum_wrong() {
    let mut no_sum = udp(100);
    no_sum[40..42].fill(0);
    let (nic, driver) = given(Variant::X550, &[no_sum]);
    let (mut rx, _tx) = driver.bring_up(64);
    assert_eq!(rx.drain()[0].status(), DD_EOP | IPCS);
    drop(nic);
}

#[test]
fn hashes_are_those_published_and_choose_the_queue() {
    let (mut nic, driver) = given(Variant::I82599, &[udp(60), tcp(udp(60)), udp(60)]);
    driver.reset();
    driver.global();
    let mut queues: Vec<_> = (0..16).map(|n| driver.rx(n, 64)).collect();
    rss(&driver, |entry| entry as u8 % 16);
    driver.receive();
    driver.link();
    nic.step();
    // TCP and UDP hash the same four values: 0x51ccc178, entry 0x78.
    let seen = queues[8].drain();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0].rss(), (7, 0x51cc_c178));
    assert_eq!(seen[1].rss(), (1, 0x51cc_c178));
    assert_eq!(nic.strict_log(), []);
}

#[test]
fn only_enabled_kinds_are_hashed() {
    let (.., seen) = receive(&[udp(60), tcp(udp(60)), udp6(80)], |d| {
        rss(d, |_| 0);
        d.write(MRQC, 1 | 1 << 17 | 1 << 16);
    });
    let hashes: Vec<_> = seen.iter().map(|r| r.rss()).collect();
    assert_eq!(hashes, [(2, 0x323e_8fc2), (1, 0x51cc_c178), (0, 0)]);
    let (.., seen) = receive(&[udp(60)], |d| {
        rss(d, |_| 0);
        d.write(RXCSUM, 0);
    });
    assert_eq!(
        seen[0].rss(),
        (7, 0x1234),
        "without PCSD the IP id is there"
    );
}

#[test]
fn an_x550_reaches_64_queues_by_512_entries() {
    let (mut nic, driver) = given(Variant::X550, &[udp(60)]);
    driver.reset();
    driver.global();
    let mut rx = driver.rx(63, 64);
    rss(&driver, |_| 0);
    // 0x51ccc178 & 0x1ff is entry 0x178, which is entry 0xf8 of the extension.
    driver.write(0xee80 + 0xf8, 63 | 0xc0);
    driver.receive();
    driver.link();
    nic.step();
    assert_eq!(
        rx.drain().len(),
        1,
        "the two upper bits of an entry are ignored"
    );
}

#[test]
fn queues_of_both_register_blocks_receive() {
    let kinds = [0, 15, 63, 64, 100, 127];
    let frames = kinds.map(|n| {
        let mut p = udp(60);
        p[12..14].copy_from_slice(&[0x90, n]);
        p
    });
    let (mut nic, driver) = given(Variant::I82599, &frames);
    driver.reset();
    driver.global();
    let mut queues = kinds.map(|n| driver.rx(n.into(), 64));
    for (filter, n) in (0u32..).zip(kinds) {
        driver.write(0x5128 + 4 * filter, 1 << 31 | 0x9000 | u32::from(n));
        driver.write(0xec00 + 4 * filter, 1 << 31 | u32::from(n) << 16);
    }
    driver.receive();
    driver.link();
    nic.step();
    for ((filter, rx), frame) in (0u32..).zip(&mut queues).zip(&frames) {
        let seen = rx.drain();
        assert_eq!((seen.len(), &seen[0].data), (1, frame));
        assert_eq!(seen[0].packet_type(), 1 << 15 | filter << 4);
    }
    for n in kinds {
        let rxdctl = rxq(n.into(), 0x28);
        assert_eq!(driver.read(rxq(n.into(), 0x10)), 1, "RDH");
        driver.write(rxdctl, 0);
        assert!(driver.wait(rxdctl, ENABLE, 0), "queue {n} turns off");
    }
    assert_eq!(nic.strict_log(), []);
}

#[test]
fn a_long_frame_goes_over_several_buffers() {
    let frame = udp(5000);
    let (mut nic, driver) = given(Variant::I82599, std::slice::from_ref(&frame));
    let (mut rx, _tx) = driver.set_up(64);
    driver.set(HLREG0, 1 << 2);
    driver.write(MAXFRS, 9728 << 16);
    driver.link();
    nic.step();
    let whole = rx.frames[2].buffer_mut()[256..256 + BUFFER].to_vec();
    let seen = rx.drain();
    let shape: Vec<_> = seen.iter().map(|r| (r.data.len(), r.is_last())).collect();
    assert_eq!(shape, [(2048, false), (2048, false), (904, true)]);
    assert_eq!(
        seen.iter().flat_map(|r| r.data.clone()).collect::<Vec<_>>(),
        frame
    );
    assert!(
        whole[904..].iter().all(|b| *b == SCRIBBLE),
        "written to its full size"
    );
    assert_eq!(rx.frames[2].buffer_mut()[256 + BUFFER], 0, "and not beyond");
    assert_eq!(seen[0].status() >> 20 | seen[1].status() >> 20, 0);
    assert_eq!(nic.wire_counts().delivered, 1);
}

#[test]
fn a_frame_waits_for_all_the_descriptors_it_needs() {
    let (mut nic, driver) = given(Variant::I82599, &[udp(60), udp(5000)]);
    let (mut rx, _tx) = driver.set_up(8);
    driver.set(HLREG0, 1 << 2);
    driver.write(MAXFRS, 9728 << 16);
    // Two descriptors after the first frame: not enough.
    driver.write(rxq(0, 0x18), 3);
    driver.link();
    nic.run_until_idle(9);
    assert_eq!(
        (nic.wire_counts().delivered, driver.read(rxq(0, 0x10))),
        (1, 1)
    );
    rx.bell.ring(4);
    nic.step();
    assert_eq!((rx.drain().len(), nic.wire_counts().delivered), (4, 2));
}

#[test]
fn vlan_tags_are_stripped_by_the_queue_that_asks() {
    let frame = tagged(&udp(100), 0x6123);
    let (mut nic, driver) = given(Variant::I82599, std::slice::from_ref(&frame));
    driver.reset();
    driver.global();
    let mut rx = driver.rx_with(0, 64, 1 << 25 | 2, ENABLE | 1 << 30);
    driver.receive();
    driver.link();
    nic.step();
    let r = &rx.drain()[0];
    assert_eq!(
        (&r.data, r.vlan(), r.status() & 1 << 3),
        (&udp(100), 0x6123, 1 << 3)
    );
    let (.., seen) = receive(std::slice::from_ref(&frame), |_| {});
    let r = &seen[0];
    assert_eq!((&r.data, r.vlan(), r.status() & 1 << 3), (&frame, 0, 0));
}

#[test]
fn the_fcs_is_stripped_or_kept() {
    let (nic, driver) = given(Variant::I82599, &[udp(60)]);
    let (mut rx, _tx) = driver.set_up(64);
    driver.clear(RXCTRL, 1);
    driver.clear(HLREG0, 1 << 1);
    driver.clear(RDRXCTL, 1 << 1);
    driver.receive();
    driver.link();
    let r = &rx.drain()[0];
    assert_eq!((r.data.len(), &r.data[..60]), (64, &udp(60)[..]));
    // The check sequence of a whole frame leaves this residue.
    let crc = r.data.iter().fold(u32::MAX, |mut crc, b| {
        crc ^= u32::from(*b);
        (0..8).for_each(|_| crc = crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 });
        crc
    });
    assert_eq!(crc, 0xdebb_20e3);
    assert_eq!(nic.strict_log(), []);
}

#[test]
fn legacy_descriptors() {
    let mut bad = udp(80);
    bad[79] ^= 1;
    let (mut nic, driver) = given(Variant::I82599, &[udp(80), bad]);
    driver.reset();
    driver.global();
    let rx = driver.rx_with(0, 64, 2, ENABLE);
    driver.receive();
    driver.link();
    nic.step();
    let words = |i: usize| rx.ring.descriptors()[i].load_acquire(1);
    let status = u64::from(DD_EOP | IPCS | L4CS | UDPCS) << 32;
    assert_eq!(words(0), 80 | status);
    assert_eq!(words(1), 80 | status | 1 << 46);
}

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

#[test]
fn a_device_that_lies_as_a_test_asks() {
    let lie = |what: Injection| {
        let (mut nic, driver) = given(Variant::I82599, &[udp(60)]);
        let (rx, _tx) = driver.set_up(64);
        nic.inject(what);
        driver.link();
        nic.step();
        assert!(nic.wire_counts().is_conserved());
        rx.ring.descriptors()[0].load_acquire(1)
    };
    assert_eq!(lie(Injection::RxLength(0xffff)) >> 32 & 0xffff, 0xffff);
    assert_eq!(lie(Injection::RxNeverEnds) & 3, 1);
    assert_eq!(lie(Injection::RxStatus(1 << 29)) >> 29 & 1, 1);
    assert_eq!(lie(Injection::RxNoWriteBack), 0);
}

#[test]
fn hostile_traffic_is_conserved_whatever_it_is() {
    for seed in 0..4 {
        let config = SourceConfig {
            limit: Some(20_000),
            shape: Shape::Hostile(4000),
            seed,
            ..SourceConfig::default()
        };
        let impairment = Impairment {
            seed,
            loss: 0.1,
            duplication: 0.05,
            reordering: 0.2,
            delay: Duration::from_micros(50),
        };
        let wire = Impaired::new(Source::new(config), impairment);
        let impaired = wire.counts();
        let (mut nic, driver) = nic(Variant::I82599, Wire::new(wire, Sink::new()));
        let (mut rx, _tx) = driver.set_up(256);
        driver.set(HLREG0, 1 << 2);
        driver.write(MAXFRS, 3000 << 16);
        rss(&driver, |_| 0);
        driver.link();
        let mut packets = 0;
        while !nic.wire_has_ended() || rx.is_done() {
            nic.advance(Duration::from_micros(20));
            packets += rx.drain().iter().filter(|r| r.is_last()).count() as u64;
        }
        let c = nic.wire_counts();
        assert!(c.is_conserved(), "{c:?}");
        assert_eq!(c.delivered, packets);
        assert!(c.bad_fcs > 0 && c.undersize > 0 && c.oversize > 0 && c.filtered == 0);
        assert_eq!(impaired.taken(), 20_000);
        assert_eq!(
            impaired.taken() - impaired.lost() + impaired.duplicated(),
            c.offered
        );
        assert!(impaired.lost() > 1500 && impaired.duplicated() > 500);
        assert!(impaired.reordered() > 1500);
        assert_eq!((nic.strict_log(), nic.faults()), (vec![], vec![]));
    }
}

#[test]
fn impairment_is_the_same_for_the_same_seed_and_keeps_to_its_delay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcap");
    let mut w = CaptureWriter::create(&path, CaptureFormat::Pcap).unwrap();
    for n in 0..100 {
        w.write(Duration::ZERO, 60 + n, &udp(60 + n)).unwrap();
    }
    w.finish().unwrap();
    let order = |seed, delay| {
        let reader = CaptureReader::open(&path).unwrap();
        let impairment = Impairment {
            seed,
            reordering: 0.3,
            delay,
            ..Impairment::default()
        };
        let wire = Wire::new(Impaired::new(reader, impairment), Sink::new());
        let (mut nic, driver) = nic(Variant::I82599, wire);
        let (mut rx, _tx) = driver.bring_up(256);
        let at_once = rx.drain().len();
        nic.advance(delay);
        let mut lens: Vec<_> = rx.drain().iter().map(|r| r.data.len()).collect();
        if at_once > 0 {
            lens.clear();
        }
        (at_once, lens)
    };
    let ms = Duration::from_millis(40);
    let (at_once, first) = order(1, ms);
    assert_eq!((at_once, first.len()), (0, 100));
    assert!(!first.is_sorted());
    assert_eq!(order(1, ms).1, first);
    assert_ne!(order(2, ms).1, first);
    assert_eq!(order(1, Duration::ZERO).0, 100);
}

#[test]
fn a_source_with_a_rate_keeps_to_it() {
    let config = SourceConfig {
        rate: Some(1_000_000),
        ..SourceConfig::default()
    };
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(Source::new(config), Sink::new()));
    let (mut rx, _tx) = driver.bring_up(4096);
    rx.drain();
    let before = nic.wire_counts().offered;
    nic.advance(Duration::from_millis(3));
    assert_eq!(nic.wire_counts().offered - before, 3000);
    assert_eq!(rx.drain().len(), 3000);
}
