//! What a device says of a packet beyond its bytes, as the metadata functions of XDP give it to
//! programs (`struct xdp_metadata_ops`). Who has a device implements [`Metadata`] and gives it to the
//! packet ([`XdpBuff::set_metadata`](crate::XdpBuff::set_metadata)).

use std::fmt::Debug;

use crate::errno::Errno;

/// What the device said of one packet. Asked only where the program asks.
///
/// # Errors
/// Of each: `ENODATA` where the device does this but said nothing of this packet, `EOPNOTSUPP` where it
/// does not. What is not overridden is not done.
pub trait Metadata: Debug {
    /// When the packet came in, in nanoseconds of the device's clock.
    #[allow(missing_docs)]
    fn timestamp(&self) -> Result<u64, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The hash that chose the queue.
    #[allow(missing_docs)]
    fn hash(&self) -> Result<PacketHash, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The VLAN tag that the device took out of the packet.
    #[allow(missing_docs)]
    fn vlan_tag(&self) -> Result<VlanTag, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

/// A receive hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHash {
    /// The hash.
    pub value: u32,
    /// What it covers, in the kernel's bits (`enum xdp_rss_hash_type`): of [`rss`].
    pub covers: u32,
}

/// Bits of [`PacketHash::covers`].
pub mod rss {
    /// IPv4 addresses.
    pub const IPV4: u32 = 1 << 0;
    /// IPv6 addresses.
    pub const IPV6: u32 = 1 << 1;
    /// Ports too, of one of the protocols below.
    pub const L4: u32 = 1 << 3;
    /// TCP's.
    pub const TCP: u32 = 1 << 4;
    /// UDP's.
    pub const UDP: u32 = 1 << 5;
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// EtherType of the tag: 0x8100 or 0x88a8.
    pub protocol: u16,
    /// Priority, drop eligibility and VLAN number.
    pub tag: u16,
}
