//! Packets of the built-in source.

use crate::batch::{FrameBatch, MAX_FRAME};

/// What frames of a source are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// UDP over IPv4, 60 bytes and FCS.
    SmallUdp,
    /// UDP over IPv4 of this length without FCS; at least 42 bytes.
    Udp(usize),
    /// IPv4 and IPv6, UDP, TCP and ICMP, with and without VLAN tags, fragments and options, of any
    /// length from the shortest to this one without FCS; now and then ARP.
    Mixed(usize),
    /// As `Mixed`, and some of them damaged: wrong checksums, cut headers, wrong FCS, too short, too
    /// long, random bytes.
    Hostile(usize),
}

const MIN_FRAME: usize = 60;
const SMALL: usize = 60;
const ETHERNET: usize = 14;
const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// A flow: addresses, ports, and its small packet ready to be copied.
#[derive(Debug)]
pub(super) struct Flow {
    destination: [u8; 6],
    source: [u8; 6],
    v4: [[u8; 4]; 2],
    v6: [[u8; 16]; 2],
    ports: [u16; 2],
    small: [u8; SMALL],
}

impl Flow {
    pub(super) fn new(n: usize, destination: [u8; 6], random: &mut fastrand::Rng) -> Self {
        let [a, b] = (n as u16).to_be_bytes();
        let v6 = |host: u8| {
            let mut address = [0; 16];
            address[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
            address[13..].copy_from_slice(&[host, a, b]);
            address
        };
        let mut flow = Flow {
            destination,
            source: [0x02, 0, 0, 1, a, b],
            v4: [[10, 1, a, b], [10, 2, random.u8(..), random.u8(1..=254)]],
            v6: [v6(1), v6(2)],
            ports: [random.u16(1024..), random.u16(1024..)],
            small: [0; SMALL],
        };
        let mut small = [0; SMALL];
        flow.write_v4(&mut small, 0, UDP, false);
        flow.small = small;
        flow
    }

    /// Appends the flow's next packet. False where there is no room for it.
    #[inline]
    pub(super) fn send(
        &self,
        shape: Shape,
        random: &mut fastrand::Rng,
        batch: &mut FrameBatch,
    ) -> bool {
        match shape {
            Shape::SmallUdp => batch.push(&self.small),
            Shape::Udp(len) => {
                let len = len.clamp(42, MAX_FRAME);
                let Some(frame) = batch.append(len) else {
                    return false;
                };
                self.write_v4(frame, 0, UDP, false);
                true
            }
            Shape::Mixed(max) => self.mixed(max, random, batch),
            Shape::Hostile(max) => self.hostile(max, random, batch),
        }
    }

    fn mixed(&self, max: usize, random: &mut fastrand::Rng, batch: &mut FrameBatch) -> bool {
        let len = match random.u8(..4) {
            0 => MIN_FRAME,
            1 => random.usize(MIN_FRAME..=max.clamp(MIN_FRAME, 256)),
            _ => random.usize(MIN_FRAME..=max.clamp(MIN_FRAME, MAX_FRAME)),
        };
        let Some(frame) = batch.append(len) else {
            return false;
        };
        let tag = if random.u8(..4) == 0 { 4 } else { 0 };
        match random.u8(..16) {
            0 => self.write_arp(frame),
            1 => self.write_v4(frame, tag, ICMP, false),
            2 => self.write_v6(frame, tag, ICMP_V6),
            3 => self.write_v4(frame, tag, UDP, true),
            4..8 => self.write_v4(frame, tag, TCP, false),
            8..10 if len >= ETHERNET + tag + 60 => self.write_v6(frame, tag, TCP),
            8..12 if len >= ETHERNET + tag + 48 => self.write_v6(frame, tag, UDP),
            _ => self.write_v4(frame, tag, UDP, false),
        }
        true
    }

    fn hostile(&self, max: usize, random: &mut fastrand::Rng, batch: &mut FrameBatch) -> bool {
        match random.u8(..8) {
            0 => {
                let len = random.usize(0..MIN_FRAME);
                let Some(frame) = batch.append(len) else {
                    return false;
                };
                random.fill(frame);
                true
            }
            1 => {
                let len = random.usize(MIN_FRAME..=(max + 64).clamp(MIN_FRAME, MAX_FRAME));
                let Some(frame) = batch.append(len) else {
                    return false;
                };
                random.fill(frame);
                frame[..6].copy_from_slice(&self.destination);
                true
            }
            2 | 3 => {
                if !self.mixed(max, random, batch) {
                    return false;
                }
                if let Some(frame) = batch.last_mut() {
                    let at = random.usize(12..frame.len());
                    frame[at] ^= 1 << random.u8(..8);
                }
                true
            }
            4 => {
                let sent = self.mixed(max, random, batch);
                if sent {
                    batch.spoil_fcs();
                }
                sent
            }
            _ => self.mixed(max, random, batch),
        }
    }

    fn write_ethernet<'a>(&self, frame: &'a mut [u8], tag: usize, kind: u16) -> &'a mut [u8] {
        frame[..6].copy_from_slice(&self.destination);
        frame[6..12].copy_from_slice(&self.source);
        if tag > 0 {
            frame[12..16].copy_from_slice(&[0x81, 0, 0, 100]);
        }
        frame[12 + tag..14 + tag].copy_from_slice(&kind.to_be_bytes());
        &mut frame[ETHERNET + tag..]
    }

    fn write_arp(&self, frame: &mut [u8]) {
        let arp = self.write_ethernet(frame, 0, 0x0806);
        arp.fill(0);
        arp[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        arp[8..14].copy_from_slice(&self.source);
        arp[14..18].copy_from_slice(&self.v4[0]);
        arp[24..28].copy_from_slice(&self.v4[1]);
    }

    fn write_v4(&self, frame: &mut [u8], tag: usize, protocol: u8, fragment: bool) {
        let ip = self.write_ethernet(frame, tag, 0x0800);
        let total = ip.len() as u16;
        ip[..4].copy_from_slice(&[0x45, 0, (total >> 8) as u8, total as u8]);
        ip[4..12].copy_from_slice(&[0, 7, if fragment { 0x20 } else { 0 }, 0, 64, protocol, 0, 0]);
        ip[12..16].copy_from_slice(&self.v4[0]);
        ip[16..20].copy_from_slice(&self.v4[1]);
        let sum = checksum(&[&ip[..20]]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let (header, payload) = ip.split_at_mut(20);
        self.write_l4(payload, protocol, &header[12..20]);
    }

    fn write_v6(&self, frame: &mut [u8], tag: usize, protocol: u8) {
        let ip = self.write_ethernet(frame, tag, 0x86dd);
        let Some(payload) = ip.len().checked_sub(40) else {
            return;
        };
        let [high, low] = (payload as u16).to_be_bytes();
        ip[..8].copy_from_slice(&[0x60, 0, 0, 0, high, low, protocol, 64]);
        ip[8..24].copy_from_slice(&self.v6[0]);
        ip[24..40].copy_from_slice(&self.v6[1]);
        let (header, payload) = ip.split_at_mut(40);
        self.write_l4(payload, protocol, &header[8..40]);
    }

    /// Fills the segment with a header, its checksum and a pattern.
    fn write_l4(&self, segment: &mut [u8], protocol: u8, addresses: &[u8]) {
        for (n, b) in segment.iter_mut().enumerate() {
            *b = n as u8;
        }
        let len = segment.len() as u16;
        let at = match protocol {
            UDP if len >= 8 => {
                segment[4..6].copy_from_slice(&len.to_be_bytes());
                6
            }
            TCP if len >= 20 => {
                segment[12..14].copy_from_slice(&[0x50, 0x10]);
                16
            }
            _ => return,
        };
        segment[..2].copy_from_slice(&self.ports[0].to_be_bytes());
        segment[2..4].copy_from_slice(&self.ports[1].to_be_bytes());
        segment[at..at + 2].fill(0);
        let tail = [0, protocol, (len >> 8) as u8, len as u8];
        let sum = match checksum(&[addresses, &tail, segment]) {
            0 if protocol == UDP => 0xffff,
            sum => sum,
        };
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The Internet checksum (RFC 1071) of parts of which all but the last have even lengths.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b));
        }
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
