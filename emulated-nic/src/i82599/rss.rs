//! Receive-side scaling (82599 datasheet 7.1.2.8): which queue a packet belongs to.

use super::core::Core;
use super::register_file::RegisterFile;
use super::registers::*;
use crate::Variant;
use crate::parse::{L3, L4, Parsed};
use crate::strict::Rule;

const MODE: u32 = 0xf;
const MODE_OFF: u32 = 0;
const MODE_RSS: u32 = 1;
const HASH_TCP_V4: u32 = 1 << 16;
const HASH_V4: u32 = 1 << 17;
const HASH_V6: u32 = 1 << 20;
const HASH_TCP_V6: u32 = 1 << 21;
const HASH_UDP_V4: u32 = 1 << 22;
const HASH_UDP_V6: u32 = 1 << 23;
/// Bytes of the longest input: two IPv6 addresses and two ports.
const INPUT: usize = 36;

/// RSS as the registers have it.
#[derive(Debug, Default)]
pub(crate) struct Rss {
    mrqc: u32,
    toeplitz: Toeplitz,
    queues: Vec<u8>,
}

/// The Toeplitz hash under one key, as a table by position and value of each half byte of the input.
#[derive(Debug)]
struct Toeplitz([[u32; 16]; 2 * INPUT]);

impl Default for Toeplitz {
    fn default() -> Self {
        Toeplitz([[0; 16]; 2 * INPUT])
    }
}

/// What RSS says of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spread {
    /// RSS type as in the write-back; 0 where the packet was not hashed.
    pub(crate) kind: u32,
    pub(crate) hash: u32,
    pub(crate) queue: usize,
}

impl Rss {
    pub(crate) fn load(&mut self, regs: &RegisterFile, variant: Variant) {
        self.mrqc = regs.get(&MRQC);
        if self.mrqc & MODE != MODE_RSS {
            return;
        }
        let mut key = [0; 40];
        for (n, bytes) in key.chunks_mut(4).enumerate() {
            bytes.copy_from_slice(&regs.at(&RSSRK, n).to_le_bytes());
        }
        self.toeplitz = Toeplitz::new(&key);
        let mask = (variant.rss_queues() - 1) as u8;
        let words = (0..RETA.count()).map(|n| regs.at(&RETA, n));
        let more = (0..ERETA.count()).map(|n| regs.at(&ERETA, n));
        self.queues.clear();
        self.queues.extend(
            words
                .chain(more)
                .flat_map(u32::to_le_bytes)
                .map(|q| q & mask),
        );
        self.queues.truncate(variant.rss_entries());
    }

    /// Hashes a packet and looks its queue up.
    #[inline]
    pub(crate) fn spread(&self, frame: &[u8], p: &Parsed) -> Spread {
        if self.mrqc & MODE != MODE_RSS {
            return Spread::default();
        }
        let Some((kind, with_ports)) = self.kind(p) else {
            return Spread::default();
        };
        let (at, len) = match p.l3 {
            L3::V4 => (p.l3_at + 12, 8),
            _ => (p.l3_at + 8, 32),
        };
        let mut hash = self.toeplitz.hash(0, &frame[at..at + len]);
        if with_ports {
            hash ^= self.toeplitz.hash(len, &frame[p.l4_at..p.l4_at + 4]);
        }
        let entry = hash as usize & (self.queues.len() - 1);
        Spread {
            kind,
            hash,
            queue: self.queues[entry] as usize,
        }
    }

    /// RSS type of a packet, and whether its ports are hashed.
    #[inline]
    fn kind(&self, p: &Parsed) -> Option<(u32, bool)> {
        let on = |bit| self.mrqc & bit != 0;
        match (p.l3, p.l4) {
            (L3::V4, L4::Tcp) if on(HASH_TCP_V4) => Some((1, true)),
            (L3::V4, L4::Udp) if on(HASH_UDP_V4) => Some((7, true)),
            (L3::V4, _) if on(HASH_V4) => Some((2, false)),
            (L3::V6, L4::Tcp) if on(HASH_TCP_V6) => Some((3, true)),
            (L3::V6, L4::Udp) if on(HASH_UDP_V6) => Some((8, true)),
            (L3::V6, _) if on(HASH_V6) => Some((5, false)),
            _ => None,
        }
    }
}

impl Toeplitz {
    fn new(key: &[u8; 40]) -> Self {
        // Bit i of the input, counted from its start, adds the 32 bits of the key from bit i on.
        let window = |i: usize| {
            let bytes: [u8; 8] = std::array::from_fn(|n| key.get(i / 8 + n).copied().unwrap_or(0));
            (u64::from_be_bytes(bytes) << (i % 8) >> 32) as u32
        };
        let mut table = Toeplitz::default();
        for (position, row) in table.0.iter_mut().enumerate() {
            for (value, sum) in row.iter_mut().enumerate() {
                *sum = (0..4)
                    .filter(|bit| value & (8 >> bit) != 0)
                    .fold(0, |sum, bit| sum ^ window(4 * position + bit));
            }
        }
        table
    }

    /// What `bytes` at this position of the input add to the hash.
    #[inline]
    fn hash(&self, position: usize, bytes: &[u8]) -> u32 {
        let rows = self.0[2 * position..].chunks_exact(2);
        bytes.iter().zip(rows).fold(0, |hash, (b, rows)| {
            hash ^ rows[0][usize::from(b >> 4)] ^ rows[1][usize::from(b & 15)]
        })
    }
}

pub(crate) fn write_mrqc(core: &mut Core, _: usize, _: u32, value: u32) {
    if !matches!(value & MODE, MODE_OFF | MODE_RSS) {
        core.strict
            .note(Rule::NotModelled, "MRQC", 0, u64::from(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and results published with the specification of RSS.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn toeplitz_agrees_with_the_published_vectors() {
        let t = Toeplitz::new(&KEY);
        #[rustfmt::skip]
        let vectors = [
            ([66, 9, 149, 187], 2794, [161, 142, 100, 80], 1766, 0x323e_8fc2, 0x51cc_c178),
            ([199, 92, 111, 2], 14230, [65, 69, 140, 83], 4739, 0xd718_262a, 0xc626_b0ea),
            ([24, 19, 198, 95], 12898, [12, 22, 207, 184], 38024, 0xd2d0_a5de, 0x5c2b_394a),
        ];
        for (src, sport, dst, dport, addresses, all) in vectors {
            let ports = [u16::to_be_bytes(sport), u16::to_be_bytes(dport)].concat();
            let hash = t.hash(0, &[src, dst].concat());
            assert_eq!(hash, addresses);
            assert_eq!(hash ^ t.hash(8, &ports), all);
        }
    }

    #[test]
    fn toeplitz_agrees_with_the_published_vectors_for_ipv6() {
        let t = Toeplitz::new(&KEY);
        let vectors = [
            (
                "3ffe:2501:200:1fff::7",
                2794,
                "3ffe:2501:200:3::1",
                1766,
                0x2cc1_8cd5,
                0x4020_7d3d,
            ),
            (
                "3ffe:501:8::260:97ff:fe40:efab",
                14230,
                "ff02::1",
                4739,
                0x0f0c_461c,
                0xdde5_1bbf,
            ),
            (
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                "fe80::200:f8ff:fe21:67cf",
                38024,
                0x4b61_e985,
                0x02d1_feef,
            ),
        ];
        for (src, sport, dst, dport, addresses, all) in vectors {
            let octets = |s: &str| s.parse::<std::net::Ipv6Addr>().unwrap().octets();
            let hash = t.hash(0, &[octets(src), octets(dst)].concat());
            assert_eq!(hash, addresses);
            let ports = [u16::to_be_bytes(sport), u16::to_be_bytes(dport)].concat();
            assert_eq!(hash ^ t.hash(32, &ports), all);
        }
    }
}
