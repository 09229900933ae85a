//! What a NIC sees in a frame: VLAN tag, packet type, checksums (82599 datasheet 7.1.6, 7.1.11).

const TPID_VLAN: u16 = 0x8100;
const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const ESP: u8 = 50;
const AH: u8 = 51;
const DESTINATION: u8 = 60;

/// Packet type bits, as in the write-back's first word.
pub(crate) mod packet_type {
    pub(crate) const IPV4: u32 = 1 << 4;
    pub(crate) const IPV4_OPTIONS: u32 = 1 << 5;
    pub(crate) const IPV6: u32 = 1 << 6;
    pub(crate) const IPV6_EXTENSIONS: u32 = 1 << 7;
    pub(crate) const TCP: u32 = 1 << 8;
    pub(crate) const UDP: u32 = 1 << 9;
    pub(crate) const SCTP: u32 = 1 << 10;
    pub(crate) const ESP: u32 = 1 << 12;
    pub(crate) const AH: u32 = 1 << 13;
    /// A filter by Ethernet type matched; its number is in the three lowest bits instead of IP's.
    pub(crate) const ETHERTYPE_FILTER: u32 = 1 << 15;
    pub(crate) const ETHERTYPE_FILTER_SHIFT: u32 = 4;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum L3 {
    #[default]
    None,
    V4,
    V6,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum L4 {
    /// None that is known, or a fragment.
    #[default]
    None,
    Tcp,
    Udp,
    Sctp,
}

/// A checksum of a received packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sum {
    #[default]
    Unchecked,
    Good,
    Bad,
}

/// What is known of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The outermost tag.
    pub(crate) tag: Option<u16>,
    /// The Ethernet type behind the tag.
    pub(crate) kind: u16,
    pub(crate) l3: L3,
    pub(crate) l4: L4,
    pub(crate) l3_at: usize,
    pub(crate) l4_at: usize,
    /// Bits of [`packet_type`].
    pub(crate) packet_type: u32,
    pub(crate) ip_sum: Sum,
    pub(crate) l4_sum: Sum,
    pub(crate) ip_id: u16,
}

/// Looks at a frame. `zero_is_bad`: a UDP datagram over IPv4 without a checksum counts as one with
/// a wrong checksum, as the 82599 has it.
#[inline]
pub(crate) fn parse(frame: &[u8], zero_is_bad: bool) -> Parsed {
    let mut p = Parsed::default();
    let Some(mut kind) = be16(frame, 12) else {
        return p;
    };
    let mut at = 14;
    if kind == TPID_VLAN {
        let (Some(tag), Some(inner)) = (be16(frame, 14), be16(frame, 16)) else {
            return p;
        };
        p.tag = Some(tag);
        kind = inner;
        at = 18;
    }
    p.kind = kind;
    // A second tag is not looked behind.
    match kind {
        TYPE_IPV4 => parse_v4(frame, at, zero_is_bad, &mut p),
        TYPE_IPV6 => parse_v6(frame, at, &mut p),
        _ => {}
    }
    p
}

fn parse_v4(frame: &[u8], at: usize, zero_is_bad: bool, p: &mut Parsed) {
    let Some(header) = frame.get(at..at + 20) else {
        return;
    };
    let header_len = usize::from(header[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_len < 20 || at + header_len > frame.len() {
        return;
    }
    p.l3 = L3::V4;
    p.l3_at = at;
    p.packet_type = if header_len > 20 {
        packet_type::IPV4_OPTIONS
    } else {
        packet_type::IPV4
    };
    p.ip_id = u16::from_be_bytes([header[4], header[5]]);
    let whole = &frame[at..at + header_len];
    p.ip_sum = judge(fold(sum(whole, 0)));
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    if fragment || total < header_len || at + total > frame.len() {
        return;
    }
    let pseudo = sum(&header[12..20], 0) + u64::from(header[9]);
    let segment = at + header_len..at + total;
    parse_l4(frame, segment, header[9], pseudo, zero_is_bad, p);
}

fn parse_v6(frame: &[u8], at: usize, p: &mut Parsed) {
    let Some(header) = frame.get(at..at + 40) else {
        return;
    };
    if header[0] >> 4 != 6 {
        return;
    }
    p.l3 = L3::V6;
    p.l3_at = at;
    p.packet_type = packet_type::IPV6;
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let end = at + 40 + payload;
    if end > frame.len() {
        return;
    }
    let (mut next, mut l4) = (header[6], at + 40);
    while matches!(next, HOP_BY_HOP | ROUTING | DESTINATION | FRAGMENT) {
        p.packet_type |= packet_type::IPV6_EXTENSIONS;
        let Some(extension) = frame[..end].get(l4..l4 + 8) else {
            return;
        };
        if next == FRAGMENT {
            return;
        }
        next = extension[0];
        l4 += 8 * (usize::from(extension[1]) + 1);
    }
    if l4 > end {
        return;
    }
    let pseudo = sum(&header[8..40], 0) + u64::from(next);
    // Over IPv6 a checksum of zero is never right.
    parse_l4(frame, l4..end, next, pseudo, true, p);
}

/// `pseudo` is the sum of addresses and protocol; the segment's length is added here.
fn parse_l4(
    frame: &[u8],
    range: std::ops::Range<usize>,
    protocol: u8,
    pseudo: u64,
    zero_is_bad: bool,
    p: &mut Parsed,
) {
    let segment = &frame[range.clone()];
    let check = || judge(fold(sum(segment, pseudo + segment.len() as u64)));
    match protocol {
        TCP if segment.len() >= 20 => {
            p.packet_type |= packet_type::TCP;
            p.l4 = L4::Tcp;
            p.l4_sum = check();
        }
        UDP if segment.len() >= 8 => {
            p.packet_type |= packet_type::UDP;
            p.l4 = L4::Udp;
            p.l4_sum = match (segment[6..8] == [0, 0], zero_is_bad) {
                (true, true) => Sum::Bad,
                (true, false) => Sum::Unchecked,
                (false, _) => check_udp(segment, pseudo),
            };
        }
        SCTP if segment.len() >= 12 => {
            p.packet_type |= packet_type::SCTP;
            p.l4 = L4::Sctp;
            p.l4_sum = check_sctp(segment);
        }
        ESP => p.packet_type |= packet_type::ESP,
        AH => p.packet_type |= packet_type::AH,
        _ => {}
    }
    p.l4_at = range.start;
}

/// A datagram's own length counts, which may be less than the packet's.
fn check_udp(segment: &[u8], pseudo: u64) -> Sum {
    let len = usize::from(u16::from_be_bytes([segment[4], segment[5]]));
    match segment.get(..len) {
        Some(datagram) if len >= 8 => judge(fold(sum(datagram, pseudo + len as u64))),
        _ => Sum::Bad,
    }
}

/// SCTP's checksum covers the packet as if its own field were 0 (RFC 9260, 6.8).
fn check_sctp(packet: &[u8]) -> Sum {
    let crc = crc32c::crc32c(&packet[..8]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let crc = crc32c::crc32c_append(crc, &packet[12..]);
    match packet[8..12] == crc.to_le_bytes() {
        true => Sum::Good,
        false => Sum::Bad,
    }
}

fn judge(folded: u16) -> Sum {
    if folded == 0xffff {
        Sum::Good
    } else {
        Sum::Bad
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let b = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([b[0], b[1]]))
}

/// Adds the big-endian 16-bit words of `bytes`, an odd last byte as if a zero followed, to `start`.
#[inline]
pub(crate) fn sum(bytes: &[u8], start: u64) -> u64 {
    let chunks = bytes.chunks_exact(4);
    let rest = chunks.remainder();
    let mut total = start;
    for c in chunks {
        total += u64::from(u32::from_be_bytes([c[0], c[1], c[2], c[3]]));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_be_bytes(last))
}

/// The one's complement sum in 16 bits.
#[inline]
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_fold_as_rfc_1071_has_it() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes, 0)), 0xddf2);
        assert_eq!(
            fold(sum(&bytes[..7], 0)),
            fold(0xf201 + 0xf4f5 + 0xf600 + 0x3)
        );
        assert_eq!(fold(sum(&[0xff; 4096], 0)), 0xffff);
    }

    #[test]
    fn anything_can_be_parsed() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let mut frame = vec![0; random.usize(..96)];
            random.fill(&mut frame);
            if frame.len() > 20 {
                frame[12..14].copy_from_slice(if random.bool() {
                    &[8, 0]
                } else {
                    &[0x86, 0xdd]
                });
                frame[14] = if random.bool() { 0x45 } else { 0x60 };
                frame[20] = *random.choice([0, 6, 17, 43, 44, 60, 132].iter()).unwrap();
            }
            let p = parse(&frame, true);
            assert!(p.l4 == L4::None || p.l4_at + 8 <= frame.len());
        }
    }
}
