//! The receive path at the ring: what descriptors say, and which queue they are of.

mod common;

use common::traffic::*;
use common::*;
use emulated_nic::{Injection, SCRIBBLE, Variant};

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
