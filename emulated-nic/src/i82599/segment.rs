//! Segmentation: one packet of a driver leaves as many frames (82599 datasheet 7.2.4).
//!
//! The driver gives one header and up to 256 KiB behind it. Each frame gets a copy of the header, in which
//! lengths, the IPv4 identification, the sequence number and the TCP flags are made right, and both
//! checksums are computed.

use super::core::Core;
use super::registers::{DTXTCPFLGH, DTXTCPFLGL};
use super::statistics::FCS;
use super::tx_descriptor::{Context, Data, L4Type};
use super::tx_offload;
use crate::batch::MAX_FRAME;
use crate::parse::fold;

/// Longest packet of a driver.
pub(super) const MAX_PACKET: usize = 256 << 10;
/// Where TCP's flags are, with the reserved bits before them.
const FLAGS: usize = 12;
const FLAG_BITS: u16 = 0x0fff;
const IPV6_HEADER: usize = 40;

/// A packet that leaves in segments.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// Header and payload.
    packet: Vec<u8>,
    plan: Option<Plan>,
}

/// How a packet is cut.
#[derive(Clone, Copy, Debug)]
struct Plan {
    context: Context,
    header: usize,
    mss: usize,
    ip_checksum: bool,
    l4_checksum: bool,
    tag: Option<u16>,
    fcs: bool,
    counter: usize,
    /// Flags that the first, the middle and the last segment keep.
    masks: [u16; 3],
    /// Payload bytes that have left.
    sent: usize,
    /// Segments that have left.
    index: u16,
}

/// What of a packet cannot be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// The header is longer than the packet, or a segment longer than a frame.
    Length,
    /// PAYLEN is not what follows the header.
    Payload,
    /// Neither TCP nor UDP.
    Protocol,
}

impl Segments {
    /// Whether a packet is still on its way.
    pub(super) fn is_busy(&self) -> bool {
        self.plan.is_some()
    }

    /// Packets none of whose segments has left.
    pub(super) fn waiting(&self) -> u64 {
        u64::from(self.plan.is_some_and(|plan| plan.index == 0))
    }

    /// Room for a packet of `len` bytes, to be written.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        self.packet.clear();
        self.packet.resize(len, 0);
        &mut self.packet
    }
}

/// Checks that a packet of `len` bytes can be segmented.
pub(super) fn check(first: Data, context: &Context, len: usize) -> Result<(), Unfit> {
    let header = header_len(context);
    if !matches!(context.l4(), L4Type::Tcp | L4Type::Udp) {
        return Err(Unfit::Protocol);
    }
    let least = match context.l4() {
        L4Type::Tcp => 20,
        _ => 8,
    };
    let longest = header + context.mss();
    if context.l4_len() < least
        || context.mss() == 0
        || header >= len
        || longest > MAX_FRAME - 4
        || len > MAX_PACKET
    {
        return Err(Unfit::Length);
    }
    match first.payload_len() == len - header {
        true => Ok(()),
        false => Err(Unfit::Payload),
    }
}

fn header_len(context: &Context) -> usize {
    context.mac_len() + context.ip_len() + context.l4_len()
}

impl Core {
    /// Starts to send what was read into [`Segments::room`].
    pub(super) fn begin_segments(
        &mut self,
        first: Data,
        last: Data,
        context: Context,
        counter: usize,
    ) {
        let (low, high) = (self.regs.get(&DTXTCPFLGL), self.regs.get(&DTXTCPFLGH));
        self.tx.segments.plan = Some(Plan {
            context,
            header: header_len(&context),
            mss: context.mss(),
            ip_checksum: first.wants_ip_checksum(),
            l4_checksum: first.wants_l4_checksum(),
            tag: last.wants_vlan().then(|| context.vlan_tag()),
            fcs: last.wants_fcs(),
            counter,
            masks: [low as u16, (low >> 16) as u16, high as u16].map(|mask| mask & FLAG_BITS),
            sent: 0,
            index: 0,
        });
    }

    /// Sends segments while the wire takes them. True where any left.
    pub(super) fn send_segments(&mut self) -> bool {
        let mut progress = false;
        while let Some(mut plan) = self.tx.segments.plan {
            if !self.has_room_to_send() {
                break;
            }
            let tx = &mut self.tx;
            let packet = &tx.segments.packet;
            let (header, payload) = packet.split_at(plan.header);
            let piece = &payload[plan.sent..payload.len().min(plan.sent + plan.mss)];
            let len = piece.len();
            let is_last = plan.sent + len == payload.len();
            let Some(frame) = tx.batch.append(header.len() + len) else {
                break;
            };
            frame[..header.len()].copy_from_slice(header);
            frame[header.len()..].copy_from_slice(piece);
            plan.finish_header(frame, is_last);
            if let Some(tag) = plan.tag {
                tx_offload::insert_vlan(&mut tx.batch, tx.vlan_type, tag);
            }
            self.finish_frame(plan.fcs);
            let tx = &mut self.tx;
            if let Some(frame) = tx.batch.last_mut() {
                let octets = frame.len() as u64 + FCS;
                tx.tally.sent(frame, octets, plan.counter);
            }
            self.counts.segmented += u64::from(plan.index > 0);
            plan.sent += len;
            plan.index = plan.index.wrapping_add(1);
            self.tx.segments.plan = (!is_last).then_some(plan);
            progress = true;
        }
        progress
    }
}

impl Plan {
    /// Makes the header of a segment right.
    fn finish_header(&self, frame: &mut [u8], is_last: bool) {
        let ip = self.context.mac_len();
        let l4 = ip + self.context.ip_len();
        let len = (frame.len() - l4) as u16;
        let total = (frame.len() - ip) as u16;
        match frame[ip] >> 4 {
            4 => {
                put16(frame, ip + 2, total);
                let id = get16(frame, ip + 4);
                put16(frame, ip + 4, id.wrapping_add(self.index));
            }
            _ => put16(frame, ip + 4, total.saturating_sub(IPV6_HEADER as u16)),
        }
        let checksum = match self.context.l4() {
            L4Type::Tcp => {
                let sequence = l4 + 4;
                let number =
                    u32::from(get16(frame, sequence)) << 16 | u32::from(get16(frame, sequence + 2));
                let number = number.wrapping_add(self.sent as u32);
                put16(frame, sequence, (number >> 16) as u16);
                put16(frame, sequence + 2, number as u16);
                let mask = match (self.index, is_last) {
                    (_, true) => self.masks[2],
                    (0, false) => self.masks[0],
                    (_, false) => self.masks[1],
                };
                let flags = get16(frame, l4 + FLAGS);
                put16(frame, l4 + FLAGS, flags & (mask | !FLAG_BITS));
                16
            }
            _ => {
                put16(frame, l4 + 4, len);
                6
            }
        };
        if self.l4_checksum {
            // The field holds the sum of the pseudo header but for the length, which differs.
            let pseudo = u64::from(get16(frame, l4 + checksum)) + u64::from(len);
            put16(frame, l4 + checksum, fold(pseudo));
            tx_offload::insert_l4(frame, &self.context);
        }
        if self.ip_checksum {
            put16(frame, ip + 10, 0);
            tx_offload::insert_ip(frame, &self.context);
        }
    }
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}
