//! The transmit path: what reaches the wire, and how a driver learns that it did.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use emulated_nic::wires::{PipeOut, Silence, pipe};
use emulated_nic::{Egress, FrameBatch, Ingress, Injection, Nic, Variant, Wire, WireError};

type Frames = Arc<Mutex<Vec<(Vec<u8>, bool)>>>;

/// Keeps every frame, and whether its FCS was wrong; takes at most so many.
#[derive(Debug)]
struct Keep(Frames, usize);

impl Egress for Keep {
    fn transmit(&mut self, _: Duration, batch: &FrameBatch) -> Result<usize, WireError> {
        let mut kept = self.0.lock().unwrap();
        let room = self.1 - kept.len();
        let taken = batch.len().min(room);
        kept.extend(
            batch
                .iter()
                .take(taken)
                .map(|f| (f.data.to_vec(), f.bad_fcs)),
        );
        Ok(taken)
    }
}

fn keeping(variant: Variant, most: usize) -> (Nic, Driver, Frames) {
    let frames = Frames::default();
    let (nic, driver) = nic(variant, Wire::new(Silence, Keep(frames.clone(), most)));
    (nic, driver, frames)
}

/// What `put` puts into a ring comes out like this.
fn sent(put: impl FnOnce(&Driver, &mut Tx)) -> Vec<(Vec<u8>, bool)> {
    let (mut nic, driver, frames) = keeping(Variant::I82599, usize::MAX);
    let (_rx, mut tx) = driver.bring_up(128);
    put(&driver, &mut tx);
    tx.flush();
    nic.run_until_idle(10);
    assert_eq!((nic.strict_log(), nic.faults()), (vec![], vec![]));
    assert!(nic.wire_counts().is_conserved());
    let frames = frames.lock().unwrap();
    frames.clone()
}

const ONE: u64 = DATA | EOP | IFCS | RS;

fn paylen(len: usize) -> u64 {
    (len as u64) << 46
}

#[test]
fn frames_leave_as_they_are_and_short_ones_padded() {
    let long = udp(1514);
    let short = udp(45);
    let mut padded = short.clone();
    padded.resize(60, 0);
    let frames = sent(|_, tx| {
        tx.put(&long, ONE | paylen(1514));
        tx.put(&short, ONE | paylen(45));
    });
    assert_eq!(frames, [(long, false), (padded.clone(), false)]);
    let frames = sent(|_, tx| tx.put(&short, EOP | IFCS | RS));
    assert_eq!(
        frames,
        [(padded, false)],
        "by a descriptor of the older kind"
    );
}

#[test]
fn without_padding_frames_stay_short() {
    let frames = sent(|driver, tx| {
        driver.clear(HLREG0, 1 << 10);
        tx.put(&udp(45), ONE | paylen(45));
    });
    assert_eq!(frames, [(udp(45), false)]);
}

#[test]
fn a_packet_over_several_descriptors_is_one_frame() {
    let whole = udp(3000);
    let frames = sent(|_, tx| {
        tx.put(&whole[..1], DATA | IFCS | paylen(3000));
        tx.put(&whole[1..1500], DATA | IFCS);
        tx.put(&whole[1500..], ONE);
    });
    assert_eq!(frames, [(whole, false)]);
}

#[test]
fn a_driver_that_brings_its_own_fcs_is_held_to_it() {
    let frame = udp(60);
    let mut crc = u32::MAX;
    for b in &frame {
        crc ^= u32::from(*b);
        (0..8).for_each(|_| crc = crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 });
    }
    let right = [&frame[..], &(!crc).to_le_bytes()].concat();
    let wrong = [&frame[..], &[0; 4]].concat();
    let frames = sent(|_, tx| {
        tx.put(&right, DATA | EOP | RS | paylen(64));
        tx.put(&wrong, DATA | EOP | RS | paylen(64));
    });
    assert_eq!(frames, [(frame.clone(), false), (frame, true)]);
}

/// A context: lengths of headers, VLAN tag, L4 type.
fn context(tx: &mut Tx, number: u64, mac_len: u64, ip_len: u64, tag: u64, l4: u64) {
    let first = ip_len | mac_len << 9 | tag << 16;
    tx.put_words([first, 2 << 20 | DEXT | l4 << 11 | 1 << 10 | number << 36]);
}

/// The packet without its checksums, but with the sum of the pseudo header, as software leaves it.
fn unsummed(mut p: Vec<u8>, at: usize) -> Vec<u8> {
    p[24..26].fill(0);
    let len = (p.len() - 34) as u16;
    let mut pseudo = p[26..34].to_vec();
    pseudo.extend([0, p[23]]);
    pseudo.extend(len.to_be_bytes());
    let sum = !internet_checksum(&pseudo);
    p[34 + at..36 + at].copy_from_slice(&sum.to_be_bytes());
    p
}

#[test]
fn checksums_are_inserted() {
    let frames = sent(|_, tx| {
        context(tx, 0, 14, 20, 0, 0);
        let p = unsummed(udp(101), 6);
        tx.put(&p, ONE | IXSM | TXSM | paylen(101));
        context(tx, 1, 14, 20, 0, 1);
        let mut t = udp(90);
        t[23] = 6;
        let t = unsummed(t, 16);
        tx.put(&t, ONE | IXSM | TXSM | 1 << 36 | paylen(90));
        // The first context is still there.
        tx.put(&p, ONE | IXSM | TXSM | paylen(101));
    });
    let mut tcp = udp(90);
    tcp[23] = 6;
    tcp[24..26].fill(0);
    let sum = internet_checksum(&tcp[14..34]);
    tcp[24..26].copy_from_slice(&sum.to_be_bytes());
    tcp[40..42].copy_from_slice(&unsummed(udp(90), 16)[40..42]);
    seal_l4(&mut tcp, 14, 6, 16);
    assert_eq!(frames, [(udp(101), false), (tcp, false), (udp(101), false)]);
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
    // Ports that make the sum come out as zero.
    let mut p = udp(60);
    seal_l4(&mut p, 14, 17, 6);
    let sum = u16::from_be_bytes([p[40], p[41]]);
    let port = u16::from_be_bytes([p[34], p[35]]);
    // Adding the checksum to a word that it covers makes it zero.
    let raised = u32::from(port) + u32::from(sum);
    let port = (raised & 0xffff) as u16 + (raised >> 16) as u16;
    p[34..36].copy_from_slice(&port.to_be_bytes());
    seal_l4(&mut p, 14, 17, 6);
    assert_eq!(p[40..42], [0, 0]);
    let frames = sent(|_, tx| {
        context(tx, 0, 14, 20, 0, 0);
        tx.put(&unsummed(p, 6), ONE | IXSM | TXSM | paylen(60));
    });
    assert_eq!(frames[0].0[40..42], [0xff, 0xff]);
}

#[test]
fn vlan_tags_are_inserted() {
    let plain = udp(70);
    let frames = sent(|_, tx| {
        context(tx, 0, 14, 20, 0x6123, 3);
        tx.put(&plain, ONE | VLE | paylen(70));
    });
    let tagged = [&plain[..12], &[0x81, 0, 0x61, 0x23], &plain[12..]].concat();
    assert_eq!(frames, [(tagged.clone(), false)]);
    let frames = sent(|_, tx| tx.put(&plain, EOP | IFCS | RS | VLE | 0x6123 << 48));
    assert_eq!(
        frames,
        [(tagged, false)],
        "the older descriptor holds its tag"
    );
}

#[test]
fn legacy_checksum_insertion() {
    let mut p = udp(60);
    p[24..26].fill(0);
    // All from offset 14, put at 24: with the rest of the packet zeroed that is the IP checksum.
    p[34..].fill(0);
    let frames = sent(|_, tx| tx.put(&p, EOP | IFCS | RS | 1 << 26 | 24 << 16 | 14 << 40));
    assert_eq!(frames[0].0[24..26], udp(60)[24..26]);
}

#[test]
fn done_is_written_where_it_is_asked_for_only() {
    let (mut nic, driver, frames) = keeping(Variant::I82599, usize::MAX);
    let (_rx, mut tx) = driver.bring_up(128);
    for n in 0..10 {
        let rs = if n % 4 == 3 { RS } else { 0 };
        tx.put(&udp(60), DATA | EOP | IFCS | rs | paylen(60));
    }
    tx.flush();
    nic.step();
    let done: Vec<_> = (0..10).filter(|i| tx.is_done(*i)).collect();
    assert_eq!((done, frames.lock().unwrap().len()), (vec![3, 7], 10));
    assert_eq!(driver.read(txq(0, 0x10)), 10, "TDH");
    assert_eq!(
        tx.ring.descriptors()[3].load(1),
        1 << 32,
        "nothing of the request is left"
    );
    assert_ne!(tx.ring.descriptors()[2].load(1), 1 << 32);
}

#[test]
fn a_head_can_be_written_back_instead() {
    let (mut nic, driver, _frames) = keeping(Variant::I82599, usize::MAX);
    driver.reset();
    driver.global();
    let head = driver_core::DescriptorRing::new(&driver.region(4096), 0, 1).unwrap();
    let mut tx = driver.tx_with(0, 128, head.iova());
    driver.link();
    for n in 0..10 {
        let rs = if n == 6 { RS } else { 0 };
        tx.put(&udp(60), DATA | EOP | IFCS | rs | paylen(60));
    }
    tx.flush();
    nic.step();
    assert_eq!(head.descriptors()[0].load_acquire(0), 7);
    assert!(!tx.is_done(6), "descriptors stay as they were");
    assert_eq!(nic.strict_log(), []);
}

#[test]
fn a_whole_ring_is_sent_in_one_step() {
    let (mut nic, driver, frames) = keeping(Variant::I82599, usize::MAX);
    let (_rx, mut tx) = driver.bring_up(4096);
    for _ in 0..4095 {
        tx.put(&udp(60), ONE | paylen(60));
    }
    tx.flush();
    nic.step();
    assert!((0..4095).all(|i| tx.is_done(i)));
    assert_eq!(frames.lock().unwrap().len(), 4095);
}

#[test]
fn a_wire_that_takes_no_more_holds_the_ring_up() {
    let (mut nic, driver, frames) = keeping(Variant::I82599, 10);
    let (_rx, mut tx) = driver.bring_up(4096);
    for _ in 0..1000 {
        tx.put(&udp(60), ONE | paylen(60));
    }
    tx.flush();
    nic.run_until_idle(100);
    let c = nic.wire_counts();
    assert_eq!((frames.lock().unwrap().len(), c.transmitted), (10, 10));
    assert!(c.tx_waiting > 0 && c.requested < 1000, "{c:?}");
    assert!(c.is_conserved());
}

#[test]
fn every_transmit_queue_sends() {
    let (mut nic, driver, frames) = keeping(Variant::I82599, usize::MAX);
    driver.reset();
    driver.global();
    let mut queues: Vec<_> = [0, 1, 63, 64, 127].map(|n| driver.tx(n, 64)).into();
    driver.link();
    for (n, tx) in queues.iter_mut().enumerate() {
        let data = udp(60 + n);
        tx.send(&data);
    }
    nic.step();
    let lens: Vec<_> = frames.lock().unwrap().iter().map(|f| f.0.len()).collect();
    assert_eq!(lens, [60, 61, 62, 63, 64]);
}

#[test]
fn nothing_is_sent_without_a_link() {
    let (mut nic, driver, frames) = keeping(Variant::I82599, usize::MAX);
    let (_rx, mut tx) = driver.bring_up(128);
    nic.plug(false);
    tx.send(&udp(60));
    nic.step();
    assert_eq!((frames.lock().unwrap().len(), tx.is_done(0)), (0, false));
    nic.plug(true);
    driver.link();
    assert_eq!((frames.lock().unwrap().len(), tx.is_done(0)), (1, true));
}

#[test]
fn descriptors_that_are_never_written_back() {
    let (mut nic, driver, frames) = keeping(Variant::I82599, usize::MAX);
    let (_rx, mut tx) = driver.bring_up(128);
    nic.inject(Injection::TxNoWriteBack);
    tx.send(&udp(60));
    nic.step();
    assert_eq!((frames.lock().unwrap().len(), tx.is_done(0)), (1, false));
    nic.clear_injections();
    tx.send(&udp(60));
    nic.step();
    assert!(tx.is_done(1));
}

#[test]
fn a_wire_that_fails_is_an_error_and_the_frames_are_counted() {
    #[derive(Debug)]
    struct Broken;
    impl Egress for Broken {
        fn transmit(&mut self, _: Duration, _: &FrameBatch) -> Result<usize, WireError> {
            Err(WireError::Other("cut".into()))
        }
    }
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(Silence, Broken));
    let (_rx, mut tx) = driver.bring_up(128);
    tx.send(&udp(60));
    nic.step();
    assert_eq!(
        nic.take_wire_error().unwrap().to_string(),
        "the wire failed: cut"
    );
    assert_eq!(nic.wire_counts().tx_wire_error, 1);
    assert!(nic.wire_counts().is_conserved());
}

#[test]
fn two_ports_on_a_cable_and_one_plugged_into_itself() {
    let (a_end, b_end) = Wire::cable(64);
    let (mut a, driver_a) = nic(Variant::I82599, a_end);
    let (mut b, driver_b) = nic(Variant::X540, b_end);
    let (mut rx_a, mut tx_a) = driver_a.bring_up(512);
    let (mut rx_b, mut tx_b) = driver_b.bring_up(512);
    for n in 0..200 {
        tx_a.send(&udp(60 + n));
        tx_b.send(&udp(1000));
    }
    let (mut at_a, mut at_b) = (0, Vec::new());
    while a.step() | b.step() {
        at_a += rx_a.drain().len();
        at_b.extend(rx_b.drain().iter().map(|r| r.data.len()));
    }
    assert_eq!(at_a, 200);
    assert_eq!(at_b, (60..260).collect::<Vec<_>>());
    assert!(a.wire_counts().is_conserved() && b.wire_counts().is_conserved());

    let (mut nic, driver) = nic(Variant::I82599, Wire::echo(64));
    let (mut rx, mut tx) = driver.bring_up(512);
    tx.send(&udp(77));
    nic.run_until_idle(10);
    assert_eq!(rx.drain()[0].data, udp(77));
}

#[test]
fn two_ports_on_threads_lose_nothing_between_them() {
    let (a_end, b_end) = Wire::cable(256);
    let (a, driver_a) = nic(Variant::I82599, a_end);
    let (b, driver_b) = nic(Variant::I82599, b_end);
    let (a, b) = (a.spawn(None).unwrap(), b.spawn(None).unwrap());
    let (_rx_a, mut tx) = driver_a.bring_up(512);
    let (mut rx, _tx_b) = driver_b.bring_up(512);
    let (mut sent, mut seen) = (0u32, 0u32);
    while seen < 20_000 {
        if sent < 20_000 && sent - seen < 400 {
            let mut p = udp(60);
            p[50..54].copy_from_slice(&sent.to_be_bytes());
            tx.send(&p);
            sent += 1;
        }
        for r in rx.drain() {
            assert_eq!(r.data[50..54], seen.to_be_bytes(), "in order");
            seen += 1;
        }
    }
    let (a, b) = (a.stop(), b.stop());
    assert_eq!(
        (a.wire_counts().transmitted, b.wire_counts().delivered),
        (20_000, 20_000)
    );
    assert!(a.wire_counts().is_conserved() && b.wire_counts().is_conserved());
    assert_eq!((a.strict_log(), b.strict_log()), (vec![], vec![]));
}

#[test]
fn a_pipe_gives_a_wire_of_ones_own() {
    let (egress, mut far): (_, PipeOut) = pipe(16);
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(Silence, egress));
    let (_rx, mut tx) = driver.bring_up(128);
    tx.send(&udp(61));
    nic.step();
    let mut batch = FrameBatch::new();
    far.receive(Duration::ZERO, &mut batch).unwrap();
    assert_eq!(batch.front().unwrap().data, udp(61));
}
