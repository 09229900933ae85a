//! What the device said of a packet, for programs that ask: the descriptor is decoded only then.

use driver_core::{RawMetadata, RssKind};
use xdp_vm::metadata::{PacketHash, VlanTag, rss};
use xdp_vm::{Errno, Metadata};

/// EtherType of the tags that devices take out.
const VLAN: u16 = 0x8100;

/// The words of one packet's descriptor. No timestamps: no descriptor that is read here carries one.
#[derive(Debug)]
pub(crate) struct Hints(pub(crate) RawMetadata);

impl Metadata for Hints {
    fn hash(&self) -> Result<PacketHash, Errno> {
        let hash = self.0.decode().rss.ok_or(Errno::ENODATA)?;
        Ok(PacketHash {
            value: hash.value,
            covers: covers(hash.kind),
        })
    }

    fn vlan_tag(&self) -> Result<VlanTag, Errno> {
        let tag = self.0.decode().vlan.ok_or(Errno::ENODATA)?;
        Ok(VlanTag {
            protocol: VLAN,
            tag,
        })
    }
}

/// The kernel's bits; none where the device's number has no name.
fn covers(kind: RssKind) -> u32 {
    match kind {
        RssKind::Ipv4 => rss::IPV4,
        RssKind::Ipv4Tcp => rss::IPV4 | rss::L4 | rss::TCP,
        RssKind::Ipv4Udp => rss::IPV4 | rss::L4 | rss::UDP,
        RssKind::Ipv6 => rss::IPV6,
        RssKind::Ipv6Tcp => rss::IPV6 | rss::L4 | rss::TCP,
        RssKind::Ipv6Udp => rss::IPV6 | rss::L4 | rss::UDP,
        RssKind::Other(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use driver_core::{Descriptor, DmaDomain, FramePool, Geometry, IovaRanges};
    use driver_core::{RssHash, RxMetadata, RxPacket};

    use super::*;

    /// A device whose descriptor is a hash, its kind, and a VLAN tag, each where it is not 0.
    fn decode(words: [u64; 2]) -> RxMetadata {
        let kind = match words[1] as u8 {
            1 => RssKind::Ipv4Tcp,
            2 => RssKind::Ipv6,
            other => RssKind::Other(other),
        };
        RxMetadata {
            rss: (words[0] != 0).then_some(RssHash {
                value: words[0] as u32,
                kind,
            }),
            vlan: (words[1] >> 8 != 0).then_some((words[1] >> 8) as u16),
            ..RxMetadata::default()
        }
    }

    fn hints(words: [u64; 2]) -> Hints {
        let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
        let mut pool = FramePool::new(&domain, Geometry::KERNEL, 2).unwrap();
        let mut spares = pool.spares(0);
        let mut frame = pool.take().unwrap();
        let descriptor = Descriptor::default();
        descriptor.store(words);
        let rest = [&mut [][..], &mut [][..]];
        Hints(RxPacket::new(&mut frame, rest, &mut spares, &descriptor, decode).raw_metadata())
    }

    #[test]
    fn a_descriptor_is_told_in_the_kernels_words() {
        let told = hints([0xdead_beef, 0x0020_6401]);
        assert_eq!(
            told.hash(),
            Ok(PacketHash {
                value: 0xdead_beef,
                covers: 1 | 8 | 16
            })
        );
        let tag = VlanTag {
            protocol: 0x8100,
            tag: 0x2064,
        };
        assert_eq!(told.vlan_tag(), Ok(tag));
        assert_eq!(told.timestamp(), Err(Errno::EOPNOTSUPP));
        assert_eq!(hints([7, 2]).hash().map(|h| h.covers), Ok(2));
        assert_eq!(hints([7, 9]).hash().map(|h| h.covers), Ok(0));
        let silent = hints([0, 0]);
        assert_eq!(silent.hash(), Err(Errno::ENODATA));
        assert_eq!(silent.vlan_tag(), Err(Errno::ENODATA));
    }
}
