//! Segmentation, SCTP's checksum and loopback: what a packet becomes on the wire.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use emulated_nic::wires::Silence;
use emulated_nic::{Egress, FrameBatch, Rule, Variant, Wire, WireError};

const TSE: u64 = 1 << 31;
const HEADERS: usize = 14 + 20 + 20;

/// Keeps every frame, but takes only a few at a time.
#[derive(Debug)]
struct Slow(Arc<Mutex<Vec<Vec<u8>>>>);

impl Egress for Slow {
    fn transmit(&mut self, _: Duration, batch: &FrameBatch) -> Result<usize, WireError> {
        let mut kept = self.0.lock().unwrap();
        let taken = batch.len().min(3);
        kept.extend(batch.iter().take(taken).map(|f| f.data.to_vec()));
        Ok(taken)
    }
}

/// What a packet in pieces of 1 KiB becomes, and the rules that it broke.
fn sent(packet: &[u8], context: [u64; 2], payload: usize, flags: u64) -> (Vec<Vec<u8>>, Vec<Rule>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(Silence, Slow(kept.clone())));
    let (_rx, mut tx) = driver.bring_up(128);
    tx.put_words(context);
    let pieces: Vec<_> = packet.chunks(1024).collect();
    for (i, piece) in pieces.iter().enumerate() {
        let last = if i + 1 == pieces.len() { EOP | RS } else { 0 };
        tx.put(
            piece,
            DATA | IFCS | TSE | flags | last | (payload as u64) << 46,
        );
    }
    tx.flush();
    nic.run_until_idle(1000);
    assert!(nic.wire_counts().is_conserved(), "{:?}", nic.wire_counts());
    assert!(
        tx.is_done(pieces.len()),
        "the packet's descriptor is given back"
    );
    let rules = nic.strict_log().iter().map(|v| v.rule).collect();
    let frames = kept.lock().unwrap().clone();
    (frames, rules)
}

/// A context for these lengths, with a segment size.
fn context(ip_len: u64, l4_len: u64, l4: u64, mss: u64) -> [u64; 2] {
    let lengths = ip_len | 14 << 9;
    [
        lengths,
        2 << 20 | DEXT | l4 << 11 | l4_len << 40 | mss << 48,
    ]
}

/// A TCP packet over IPv4 as a stack leaves it for segmentation: no total length, no checksums but the sum
/// of the pseudo header without the length.
fn tcp(payload: usize, flags: u8) -> Vec<u8> {
    let mut p = udp(HEADERS + payload);
    p[16..18].fill(0);
    p[23] = 6;
    p[24..26].fill(0);
    p[38..42].copy_from_slice(&0xffff_ff00u32.to_be_bytes());
    p[42..46].fill(0);
    p[46..50].copy_from_slice(&[0x50, flags, 0x20, 0]);
    let mut pseudo = p[26..34].to_vec();
    pseudo.extend_from_slice(&[0, 6]);
    let sum = !internet_checksum(&pseudo);
    p[50..52].copy_from_slice(&sum.to_be_bytes());
    p[52..54].fill(0);
    for (i, byte) in p[HEADERS..].iter_mut().enumerate() {
        *byte = (i * 7) as u8;
    }
    p
}

#[test]
fn a_packet_leaves_as_segments_that_add_up() {
    // FIN, PSH, ACK and CWR.
    let packet = tcp(5000, 0x99);
    let (frames, rules) = sent(&packet, context(20, 20, 1, 1448), 5000, IXSM | TXSM);
    assert_eq!(rules, []);
    let lengths: Vec<_> = frames.iter().map(|f| f.len() - HEADERS).collect();
    assert_eq!(lengths, [1448, 1448, 1448, 656]);
    let payload: Vec<u8> = frames.iter().flat_map(|f| f[HEADERS..].to_vec()).collect();
    assert_eq!(payload, packet[HEADERS..]);
    let flags: Vec<_> = frames.iter().map(|f| f[47]).collect();
    // CWR stays in the first, FIN and PSH in the last.
    assert_eq!(flags, [0x90, 0x10, 0x10, 0x19]);
    for (i, frame) in frames.iter().enumerate() {
        let total = u16::from_be_bytes([frame[16], frame[17]]);
        assert_eq!(usize::from(total), frame.len() - 14);
        let id = u16::from_be_bytes([frame[18], frame[19]]);
        assert_eq!(id, 0x1234 + i as u16);
        let sequence = u32::from_be_bytes(frame[38..42].try_into().unwrap());
        assert_eq!(sequence, 0xffff_ff00u32.wrapping_add(1448 * i as u32));
        assert_eq!(internet_checksum(&frame[14..34]), 0, "IPv4");
        let mut sealed = frame.clone();
        seal_l4(&mut sealed, 14, 6, 16);
        assert_eq!(&sealed, frame, "TCP");
    }
}

#[test]
fn datagrams_are_cut_too_and_over_ipv6() {
    let mut packet = common::traffic::udp6(14 + 40 + 8 + 3000);
    packet[18..20].fill(0);
    packet[58..60].fill(0);
    let mut pseudo = packet[22..54].to_vec();
    pseudo.extend_from_slice(&[0, 17]);
    let sum = !internet_checksum(&pseudo);
    packet[60..62].copy_from_slice(&sum.to_be_bytes());
    let (frames, rules) = sent(&packet, context(40, 8, 0, 1400), 3000, TXSM);
    assert_eq!(rules, []);
    assert_eq!(frames.len(), 3);
    for frame in &frames {
        let len = (frame.len() - 54) as u16;
        assert_eq!(frame[18..20], len.to_be_bytes(), "the payload of IPv6");
        assert_eq!(frame[58..60], len.to_be_bytes(), "the length of UDP");
        let mut covered = frame[22..54].to_vec();
        covered.extend_from_slice(&[0, 17]);
        covered.extend_from_slice(&len.to_be_bytes());
        covered.extend_from_slice(&frame[54..]);
        assert_eq!(internet_checksum(&covered), 0);
    }
}

#[test]
fn a_packet_of_many_segments_waits_for_a_slow_wire() {
    let packet = tcp(30_000, 0x10);
    let (frames, rules) = sent(&packet, context(20, 20, 1, 100), 30_000, IXSM | TXSM);
    assert_eq!((frames.len(), rules), (300, vec![]));
    let payload: Vec<u8> = frames.iter().flat_map(|f| f[HEADERS..].to_vec()).collect();
    assert_eq!(payload, packet[HEADERS..]);
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let packet = tcp(5000, 0x10);
    for (context, payload, rule) in [
        (context(20, 20, 1, 0), 5000, Rule::TxSegmentLength),
        (context(20, 16, 1, 1448), 5004, Rule::TxSegmentLength),
        (context(20, 20, 1, 1448), 4999, Rule::TxPaylenMismatch),
        (context(20, 20, 1, 16_384), 5000, Rule::TxSegmentLength),
        (context(20, 20, 2, 1448), 5000, Rule::NotModelled),
    ] {
        let (frames, rules) = sent(&packet, context, payload, IXSM | TXSM);
        assert_eq!((frames, rules), (vec![], vec![rule]));
    }
}

#[test]
fn sctp_gets_its_checksum() {
    // RFC 9260's CRC32c; its check value is that of "123456789".
    let mut packet = udp(14 + 20 + 12 + 9);
    packet[23] = 132;
    packet[34..46].fill(0);
    packet[46..].copy_from_slice(b"123456789");
    let kept = Arc::new(Mutex::new(Vec::new()));
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(Silence, Slow(kept.clone())));
    let (_rx, mut tx) = driver.bring_up(128);
    tx.put_words(context(20, 0, 2, 0));
    tx.put(
        &packet,
        DATA | EOP | IFCS | RS | TXSM | (packet.len() as u64) << 46,
    );
    tx.flush();
    nic.run_until_idle(10);
    let frames = kept.lock().unwrap();
    let mut covered = frames[0][34..packet.len()].to_vec();
    let found = u32::from_le_bytes(covered[8..12].try_into().unwrap());
    covered[8..12].fill(0);
    assert_eq!(found, crc32c(&covered));
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

/// CRC32c bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

#[test]
fn in_loopback_frames_come_back_without_a_link() {
    let (mut nic, driver) = silent(Variant::I82599);
    let (mut rx, mut tx) = driver.set_up(64);
    driver.set(HLREG0, 1 << 15);
    let frame = udp(100);
    tx.send(&frame);
    nic.run_until_idle(10);
    let received = rx.drain();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].data, frame);
    let counts = nic.wire_counts();
    assert_eq!((counts.looped, counts.transmitted), (1, 0));
    assert!(counts.is_conserved(), "{counts:?}");
}
