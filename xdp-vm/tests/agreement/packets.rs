//! Packets to run programs on: headers of the kinds that programs look for, nested as they come on
//! networks; then some bytes changed, some cut, some of noise alone.

use fastrand::Rng;

/// Lengths that a kernel's test run takes for a packet without fragments.
pub(crate) const LEAST: usize = 14;
pub(crate) const MOST: usize = 3520;

/// Few values each, so that packets meet again what packets before them left in maps.
const PORTS: [u16; 8] = [53, 80, 443, 22, 4789, 8080, 51820, 9];

/// A packet of `LEAST` to `MOST` bytes.
pub(crate) fn packet(rng: &mut Rng) -> Vec<u8> {
    let mut p = Vec::with_capacity(128);
    if rng.u8(0..16) == 0 {
        let length = rng.usize(LEAST..200);
        p.extend((0..length).map(|_| rng.u8(..)));
        return p;
    }
    ethernet(&mut p, rng);
    if rng.bool() {
        let longer = [64, 128, 600, 1514, MOST][rng.usize(0..5)];
        let filling = rng.u8(..);
        p.resize(rng.usize(p.len()..=p.len().max(longer)), filling);
    }
    for _ in 0..rng.usize(0..4).saturating_sub(1) {
        let at = rng.usize(0..p.len());
        p[at] = rng.u8(..);
    }
    if rng.u8(0..4) == 0 {
        p.truncate(rng.usize(LEAST..=p.len().max(LEAST)));
    }
    p.resize(p.len().clamp(LEAST, MOST), 0);
    p
}

fn ethernet(p: &mut Vec<u8>, rng: &mut Rng) {
    p.extend([[2, 0, 0, 0, 0, 1], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]][rng.usize(0..3)]);
    p.extend([2, 0, 0, 0, 0, rng.u8(0..10)]);
    let tags = [0, 0, 0, 0, 1, 1, 2, 3][rng.usize(0..8)];
    for _ in 0..tags {
        p.extend([[0x81, 0x00], [0x88, 0xa8]][rng.usize(0..2)]);
        let number = [0u16, 1, 42, 4011, 4095, rng.u16(..)][rng.usize(0..6)];
        p.extend(number.to_be_bytes());
    }
    match rng.u8(0..16) {
        0..=7 => ipv4(p, rng, 0),
        8..=12 => ipv6(p, rng, 0),
        13 => {
            p.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, rng.u8(0..3)]);
            p.extend([0xa5; 20]);
        }
        14 => {
            p.extend([0x88, 0x47, 0, 1, rng.u8(..), 64]);
            p.extend([0x45; 20]);
        }
        _ => {
            p.extend(rng.u16(..).to_be_bytes());
            p.extend((0..rng.usize(0..80)).map(|_| rng.u8(..)));
        }
    }
}

/// With the EtherType before it where it is the outermost.
fn ipv4(p: &mut Vec<u8>, rng: &mut Rng, depth: u32) {
    if depth == 0 {
        p.extend([8, 0]);
    }
    let at = p.len();
    let words = if rng.u8(0..6) == 0 { rng.u8(..16) } else { 5 };
    let protocol = protocol(rng, depth);
    let fragment = match rng.u8(0..8) {
        0 => rng.u16(..),
        _ => 0x4000,
    };
    let ttl = [64, 1, 0, 255][rng.usize(0..4)];
    p.extend([0x40 | words, rng.u8(0..2) * 4, 0, 0, 0, rng.u8(..)]);
    p.extend(fragment.to_be_bytes());
    p.extend([ttl, protocol, 0, 0]);
    p.extend([10, 0, 0, rng.u8(0..6), 10, 0, rng.u8(0..2), rng.u8(0..6)]);
    for _ in 20..usize::from(words) * 4 {
        p.push([0, 1, 1, rng.u8(..)][rng.usize(0..4)]);
    }
    transport(p, rng, protocol, depth);
    let length = match rng.u8(0..8) {
        0 => rng.u16(..),
        _ => (p.len() - at) as u16,
    };
    p[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
    if rng.bool() {
        let sum = checksum(&p[at..at + 20]);
        p[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn ipv6(p: &mut Vec<u8>, rng: &mut Rng, depth: u32) {
    if depth == 0 {
        p.extend([0x86, 0xdd]);
    }
    let extensions = rng.usize(0..7).saturating_sub(2);
    let kinds: Vec<u8> = (0..extensions)
        .map(|_| [0, 43, 44, 60, 51, 135][rng.usize(0..6)])
        .collect();
    let last = protocol(rng, depth);
    let next = |n: usize| kinds.get(n).copied().unwrap_or(last);
    let at = p.len();
    p.extend([
        0x60,
        0,
        0,
        rng.u8(..),
        0,
        0,
        next(0),
        [64, 1, 0][rng.usize(0..3)],
    ]);
    for _ in 0..2 {
        p.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, rng.u8(0..6)]);
    }
    for n in 0..extensions {
        let units = rng.u8(0..3);
        p.extend([next(n + 1), units, 1, 4, 0, 0, 0, 0]);
        for _ in 0..units {
            p.extend([1, 6, 0, 0, 0, 0, 0, rng.u8(..)]);
        }
    }
    transport(p, rng, last, depth);
    let length = (p.len() - at - 40) as u16;
    p[at + 4..at + 6].copy_from_slice(&length.to_be_bytes());
}

fn protocol(rng: &mut Rng, depth: u32) -> u8 {
    match rng.u8(0..16) {
        0..=4 => 17,
        5..=9 => 6,
        10 => 1,
        11 => 58,
        12 if depth == 0 => 4,
        13 if depth == 0 => 41,
        14 => 47,
        _ => rng.u8(..),
    }
}

fn transport(p: &mut Vec<u8>, rng: &mut Rng, protocol: u8, depth: u32) {
    let port = |rng: &mut Rng| PORTS[rng.usize(0..PORTS.len())].to_be_bytes();
    match protocol {
        17 => {
            p.extend(port(rng));
            p.extend(port(rng));
            p.extend([0, 8 + rng.u8(0..40), rng.u8(..), rng.u8(..)]);
            p.extend((0..rng.usize(0..40)).map(|_| rng.u8(0..8)));
        }
        6 => {
            p.extend(port(rng));
            p.extend(port(rng));
            p.extend([0, 0, 0, rng.u8(..), 0, 0, 0, rng.u8(0..3)]);
            let words = if rng.bool() { rng.u8(4..16) } else { 5 };
            let flags = [0x02, 0x10, 0x12, 0x11, 0x04, rng.u8(..)][rng.usize(0..6)];
            p.extend([words << 4, flags, 0xff, 0xff, rng.u8(..), rng.u8(..), 0, 0]);
            let end = p.len() + (usize::from(words) * 4).saturating_sub(20);
            while p.len() < end {
                match rng.u8(0..5) {
                    0 => p.push(1),
                    1 => p.extend([2, 4, 5, rng.u8(..)]),
                    2 => p.extend([8, 10, 0, 0, 0, 1, 0, 0, 0, rng.u8(..)]),
                    3 => p.extend([3, 3, 7]),
                    _ => p.extend([rng.u8(..), rng.u8(..)]),
                }
            }
        }
        1 | 58 => {
            let kind = [0, 3, 8, 11, 128, 129, 135, rng.u8(..)][rng.usize(0..8)];
            p.extend([
                kind,
                rng.u8(0..5),
                rng.u8(..),
                rng.u8(..),
                0,
                1,
                0,
                rng.u8(0..4),
            ]);
            if kind == 3 && depth == 0 {
                ipv4(p, rng, 1);
            }
        }
        4 if depth == 0 => ipv4(p, rng, 1),
        41 if depth == 0 => ipv6(p, rng, 1),
        47 => p.extend([[0, 0x20][rng.usize(0..2)], 0, 8, 0, 0, 0, 0, rng.u8(0..4)]),
        _ => p.extend((0..rng.usize(0..60)).map(|_| rng.u8(..))),
    }
}

/// Of an IPv4 header whose field for it is zero (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<2>().0.iter();
    let mut sum: u32 = words.map(|w| u32::from(u16::from_be_bytes(*w))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The packets are what they are said to be.
#[test]
fn packets_are_of_all_kinds() {
    let mut rng = Rng::with_seed(3);
    let (mut udp, mut tagged, mut long, mut cut) = (0, 0, 0, 0);
    for _ in 0..2_000 {
        let p = packet(&mut rng);
        assert!((LEAST..=MOST).contains(&p.len()));
        udp += usize::from(p.len() > 23 && p[12..14] == [8, 0] && p[23] == 17);
        tagged += usize::from(p[12..14] == [0x81, 0]);
        long += usize::from(p.len() > 1514);
        cut += usize::from(p.len() < 34);
    }
    assert!(
        udp > 100 && tagged > 100 && long > 20 && cut > 100,
        "{udp} {tagged} {long} {cut}"
    );
}
