//! What a written-back advanced receive descriptor says about its packet, with the
//! errata of each family. Any bit pattern has a meaning here: a device that lies is only wrong.

use driver_core::{Checksum, L3, L4, RssHash, RssKind, RxMetadata};

/// Status bits: doubleword 2, the low half of quadword 1.
pub(crate) mod status {
    /// Descriptor done.
    pub(crate) const DD: u64 = 1 << 0;
    /// End of packet.
    pub(crate) const EOP: u64 = 1 << 1;
    /// A VLAN tag was taken out.
    pub(crate) const VP: u64 = 1 << 3;
    /// The layer 4 checksum was looked at.
    pub(crate) const L4CS: u64 = 1 << 5;
    /// The IPv4 header checksum was looked at.
    pub(crate) const IPCS: u64 = 1 << 6;
    /// X550: a tunnel's outer checksum was looked at.
    pub(crate) const OUTER_CS: u64 = 1 << 8;
    /// X550: that one is wrong.
    pub(crate) const OUTER_ERROR: u64 = 1 << 26;
    /// Receive error: the MAC found the packet damaged.
    pub(crate) const RXE: u64 = 1 << 29;
    pub(crate) const L4_ERROR: u64 = 1 << 30;
    pub(crate) const IP_ERROR: u64 = 1 << 31;
}
use status::*;

/// Packet type bits: doubleword 0, the low half of quadword 0.
mod kind {
    pub(super) const IPV4: u64 = 1 << 4;
    pub(super) const IPV4_OPTIONS: u64 = 1 << 5;
    pub(super) const IPV6: u64 = 1 << 6;
    pub(super) const IPV6_EXTENSIONS: u64 = 1 << 7;
    pub(super) const TCP: u64 = 1 << 8;
    pub(super) const UDP: u64 = 1 << 9;
    pub(super) const SCTP: u64 = 1 << 10;
    /// An EtherType filter matched, and bits 6:4 are its number.
    pub(super) const ETQF: u64 = 1 << 15;
    /// X550.
    pub(super) const TUNNEL: u64 = 1 << 16;
}

/// Bytes that the device says it wrote into the descriptor's buffer.
#[inline(always)]
pub(crate) fn length(word1: u64) -> usize {
    usize::from((word1 >> 32) as u16)
}

/// 82599: the layer 4 error of a UDP packet is not to be trusted, since datagrams without a checksum
/// (a zero in its place, which is legal) are flagged too (erratum 44); nor is the IPv4 error of a
/// packet in which no layer 4 was found, since fragments may carry a bogus one (erratum 66).
pub(crate) fn intel_82599(write_back: [u64; 2]) -> RxMetadata {
    let mut m = x540(write_back);
    if m.l4 == L4::Udp && m.l4_checksum == Checksum::Bad {
        m.l4_checksum = Checksum::Unknown;
    }
    if m.l4 == L4::Unknown && m.ip_checksum == Checksum::Bad {
        m.ip_checksum = Checksum::Unknown;
    }
    m
}

/// X540: as the descriptor says.
pub(crate) fn x540([word0, word1]: [u64; 2]) -> RxMetadata {
    RxMetadata {
        l3: l3(word0),
        l4: l4(word0),
        rss: rss(word0),
        vlan: (word1 & VP != 0).then_some((word1 >> 48) as u16),
        ip_checksum: checksum(word1, IPCS, IP_ERROR),
        l4_checksum: checksum(word1, L4CS, L4_ERROR),
        outer_checksum: Checksum::Unknown,
    }
}

/// X550: looks into tunnels too.
pub(crate) fn x550([word0, word1]: [u64; 2]) -> RxMetadata {
    let mut m = x540([word0, word1]);
    if word0 & kind::TUNNEL != 0 {
        m.outer_checksum = checksum(word1, OUTER_CS, OUTER_ERROR);
    }
    m
}

fn checksum(word1: u64, looked_at: u64, wrong: u64) -> Checksum {
    match (word1 & looked_at != 0, word1 & wrong != 0) {
        (false, _) => Checksum::Unknown,
        (true, false) => Checksum::Good,
        (true, true) => Checksum::Bad,
    }
}

fn l3(word0: u64) -> L3 {
    let is = |bit| word0 & bit != 0;
    if is(kind::ETQF) {
        L3::EtherTypeFilter((word0 >> 4 & 7) as u8)
    } else if is(kind::IPV4_OPTIONS) {
        L3::Ipv4Options
    } else if is(kind::IPV4) {
        L3::Ipv4
    } else if is(kind::IPV6_EXTENSIONS) {
        L3::Ipv6Extensions
    } else if is(kind::IPV6) {
        L3::Ipv6
    } else {
        L3::Unknown
    }
}

fn l4(word0: u64) -> L4 {
    match word0 & (kind::ETQF | kind::TCP | kind::UDP | kind::SCTP) {
        kind::TCP => L4::Tcp,
        kind::UDP => L4::Udp,
        kind::SCTP => L4::Sctp,
        _ => L4::Unknown,
    }
}

fn rss(word0: u64) -> Option<RssHash> {
    let kind = match word0 & 0xf {
        0 => return None,
        1 => RssKind::Ipv4Tcp,
        2 => RssKind::Ipv4,
        3 => RssKind::Ipv6Tcp,
        5 => RssKind::Ipv6,
        7 => RssKind::Ipv4Udp,
        8 => RssKind::Ipv6Udp,
        other => RssKind::Other(other as u8),
    };
    let value = (word0 >> 32) as u32;
    Some(RssHash { value, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: u64 = DD | EOP;

    #[test]
    fn types_and_hash() {
        let rows = [
            (0x0000_0000_0000_0000, L3::Unknown, L4::Unknown, None),
            (
                0x51cc_c178_0000_0111,
                L3::Ipv4,
                L4::Tcp,
                Some(RssKind::Ipv4Tcp),
            ),
            (
                0x51cc_c178_0000_0217,
                L3::Ipv4,
                L4::Udp,
                Some(RssKind::Ipv4Udp),
            ),
            (
                0x51cc_c178_0000_0232,
                L3::Ipv4Options,
                L4::Udp,
                Some(RssKind::Ipv4),
            ),
            (
                0x51cc_c178_0000_0445,
                L3::Ipv6,
                L4::Sctp,
                Some(RssKind::Ipv6),
            ),
            (
                0x51cc_c178_0000_01c3,
                L3::Ipv6Extensions,
                L4::Tcp,
                Some(RssKind::Ipv6Tcp),
            ),
            (
                0x51cc_c178_0000_0248,
                L3::Ipv6,
                L4::Udp,
                Some(RssKind::Ipv6Udp),
            ),
            (
                0x51cc_c178_0000_0144,
                L3::Ipv6,
                L4::Tcp,
                Some(RssKind::Other(4)),
            ),
            (
                0x51cc_c178_0000_8050,
                L3::EtherTypeFilter(5),
                L4::Unknown,
                None,
            ),
            // Two layer 4 types at once are no type.
            (0x51cc_c178_0000_0310, L3::Ipv4, L4::Unknown, None),
        ];
        for (word0, l3, l4, kind) in rows {
            let m = x540([word0, GOOD]);
            let rss = kind.map(|kind| RssHash {
                value: 0x51cc_c178,
                kind,
            });
            assert_eq!((m.l3, m.l4, m.rss), (l3, l4, rss), "{word0:#x}");
        }
    }

    #[test]
    fn the_tag_counts_only_where_one_was_stripped() {
        let tagged = 0xa123 << 48 | 64 << 32 | GOOD;
        assert_eq!(x540([0, tagged | VP]).vlan, Some(0xa123));
        assert_eq!(x540([0, tagged]).vlan, None);
        assert_eq!(length(tagged), 64);
    }

    #[test]
    fn checksums_and_the_errata_of_each_family() {
        use Checksum::{Bad, Good, Unknown};
        let (tcp, udp, fragment) = (0x110, 0x210, 0x010);
        let looked = GOOD | IPCS | L4CS;
        // word0, word1, 82599 (IP, L4), X540 (IP, L4)
        let rows = [
            (
                tcp,
                GOOD | IP_ERROR | L4_ERROR,
                (Unknown, Unknown),
                (Unknown, Unknown),
            ),
            (tcp, looked, (Good, Good), (Good, Good)),
            (tcp, looked | L4_ERROR, (Good, Bad), (Good, Bad)),
            (tcp, looked | IP_ERROR, (Bad, Good), (Bad, Good)),
            (udp, looked | L4_ERROR, (Good, Unknown), (Good, Bad)),
            (udp, looked | IP_ERROR, (Bad, Good), (Bad, Good)),
            (
                fragment,
                GOOD | IPCS | IP_ERROR,
                (Unknown, Unknown),
                (Bad, Unknown),
            ),
        ];
        for (word0, word1, on_82599, on_x540) in rows {
            let of = |m: RxMetadata| (m.ip_checksum, m.l4_checksum);
            assert_eq!(
                of(intel_82599([word0, word1])),
                on_82599,
                "{word0:#x} {word1:#x}"
            );
            assert_eq!(of(x540([word0, word1])), on_x540, "{word0:#x} {word1:#x}");
        }
    }

    #[test]
    fn outer_checksums_are_the_x550s_and_of_tunnels_only() {
        let bad = GOOD | OUTER_CS | OUTER_ERROR;
        assert_eq!(x550([1 << 16 | 0x10, bad]).outer_checksum, Checksum::Bad);
        assert_eq!(
            x550([1 << 16 | 0x10, GOOD | OUTER_CS]).outer_checksum,
            Checksum::Good
        );
        assert_eq!(x550([0x10, bad]).outer_checksum, Checksum::Unknown);
        assert_eq!(
            x540([1 << 16 | 0x10, bad]).outer_checksum,
            Checksum::Unknown
        );
    }
}
