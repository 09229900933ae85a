//! What the sample programs should do, written again from their descriptions: parses packets by
//! itself and shares nothing with the programs.
#![allow(dead_code)] // not every test file uses everything

/// What is left of a packet behind its Ethernet header and at most two VLAN tags, and its type;
/// `None` where it is cut before.
fn network(frame: &[u8]) -> Option<(u16, &[u8])> {
    let mut rest = frame.get(12..)?;
    for tags in 0.. {
        let kind = u16::from_be_bytes([*rest.first()?, *rest.get(1)?]);
        if tags == 2 || !matches!(kind, 0x8100 | 0x88a8) {
            return Some((kind, &rest[2..]));
        }
        rest = rest.get(4..)?;
    }
    None
}

/// True where the firewall drops the packet, and whether for its source.
pub(crate) fn firewall(frame: &[u8], blocked: &[[u8; 4]], closed_port: u16) -> (bool, bool) {
    let Some((0x0800, ip)) = network(frame) else {
        return (false, false);
    };
    let Some(header) = ip.get(..20) else {
        return (false, false);
    };
    if blocked.iter().any(|source| header[12..16] == source[..]) {
        return (true, true);
    }
    let first_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    if header[9] != 17 || header[0] & 0xf != 5 || !first_fragment || ip.len() < 28 {
        return (false, false);
    }
    (u16::from_be_bytes([ip[22], ip[23]]) == closed_port, false)
}

/// The packet without its outer VLAN tag, where it has one.
pub(crate) fn vlan_pop(frame: &[u8]) -> Vec<u8> {
    match frame.get(12..18) {
        Some([0x81, 0x00, ..] | [0x88, 0xa8, ..]) => [&frame[..12], &frame[16..]].concat(),
        _ => frame.to_vec(),
    }
}

/// The IP protocol, or 256.
pub(crate) fn protocol(frame: &[u8]) -> usize {
    let found = match network(frame) {
        Some((0x0800, ip)) => ip.get(..20).map(|ip| ip[9]),
        Some((0x86dd, ip)) => behind_extensions(ip),
        _ => None,
    };
    found.map_or(256, usize::from)
}

fn behind_extensions(ip: &[u8]) -> Option<u8> {
    let mut next = ip.get(..40)?[6];
    let mut at = 40;
    for _ in 0..6 {
        let length = match next {
            0 | 43 | 60 => 8 + 8 * usize::from(*ip.get(at + 1)?),
            44 => 8,
            _ => break,
        };
        next = ip.get(at..at + 8)?[0];
        at += length;
    }
    Some(next)
}

/// The packet sent back: Ethernet addresses swapped.
pub(crate) fn tx_swap(frame: &[u8]) -> Vec<u8> {
    [&frame[6..12], &frame[..6], &frame[12..]].concat()
}
