//! What the transmit path changes in a packet: checksums and VLAN tags (82599 datasheet 7.2.5).

use super::tx_descriptor::{Context, L4Type};
use crate::batch::FrameBatch;
use crate::parse::{fold, sum};

/// Bytes of the two addresses, behind which a tag goes.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// The IPv4 header's checksum, over a header whose checksum field is 0.
pub(crate) fn insert_ip(frame: &mut [u8], context: &Context) {
    let start = context.mac_len();
    if let Some(header) = frame.get_mut(start..start + context.ip_len()) {
        put(header, 10, !fold(sum(header, 0)));
    }
}

/// The checksum of UDP or TCP, whose field holds the sum of the pseudo header.
pub(crate) fn insert_l4(frame: &mut [u8], context: &Context) {
    let Some(segment) = frame.get_mut(context.mac_len() + context.ip_len()..) else {
        return;
    };
    let value = !fold(sum(segment, 0));
    match context.l4() {
        // A UDP checksum of 0 would mean that there is none.
        L4Type::Udp => put(segment, 6, if value == 0 { 0xffff } else { value }),
        L4Type::Tcp => put(segment, 16, value),
        L4Type::Sctp => insert_sctp(segment),
        L4Type::None => {}
    }
}

/// SCTP's checksum (RFC 9260 appendix A), over a packet whose checksum field is 0.
fn insert_sctp(packet: &mut [u8]) {
    if let Some(field) = packet.get_mut(8..12) {
        field.fill(0);
        let value = crc32c::crc32c(packet);
        packet[8..12].copy_from_slice(&value.to_le_bytes());
    }
}

/// A legacy descriptor's checksum: of all from `start`, put at `offset`.
pub(crate) fn insert_legacy(frame: &mut [u8], offset: usize, start: usize) {
    if let Some(covered) = frame.get(start..) {
        let value = !fold(sum(covered, 0));
        put(frame, offset, value);
    }
}

/// Puts a tag into the frame appended last.
pub(crate) fn insert_vlan(batch: &mut FrameBatch, tpid: u16, tag: u16) {
    let Some(len) = batch.last_mut().map(|f| f.len()) else {
        return;
    };
    if batch.resize_last(len + TAG)
        && let Some(frame) = batch.last_mut()
    {
        frame.copy_within(ADDRESSES..len, ADDRESSES + TAG);
        put(frame, ADDRESSES, tpid);
        put(frame, ADDRESSES + 2, tag);
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}
