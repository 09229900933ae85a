//! What helpers ask of the host's network: routes and the sizes that interfaces take. The virtual
//! machine has none; who runs programs on real ports says what there is, by a [`Network`] given to the
//! worker ([`Cpu::set_network`](crate::Cpu::set_network)).

use std::fmt::Debug;

use crate::errno::Errno;

/// The network as programs on a worker see it. Called while a program runs: it should take no lock
/// that others hold for long, and no memory.
///
/// What is not overridden answers as a host without any interface does.
pub trait Network: Debug + Send + Sync {
    /// `bpf_fib_lookup`: the way to `query.dst`, written into `query`. `flags` are the kernel's
    /// (`BPF_FIB_LOOKUP_*`), of which only known ones are set.
    ///
    /// # Errors
    /// `ENODEV` where there is no interface `query.ifindex`.
    fn fib_lookup(&self, query: &mut FibQuery, flags: u32) -> Result<FibResult, Errno> {
        let _ = (query, flags);
        Err(Errno::ENODEV)
    }

    /// The most bytes that a packet without its Ethernet header may have on an interface; `None` where
    /// there is no such interface.
    fn mtu(&self, ifindex: u32) -> Option<u32> {
        let _ = ifindex;
        None
    }
}

/// Bytes of an Ethernet header, which a MTU does not count.
pub(crate) const ETHERNET: u32 = 14;

/// `AF_INET` and `AF_INET6`, as a query's family.
pub const AF_INET: u8 = 2;
/// See [`AF_INET`].
pub const AF_INET6: u8 = 10;

/// What a route lookup found, by the kernel's numbers (`BPF_FIB_LKUP_RET_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum FibResult {
    Success = 0,
    Blackhole = 1,
    Unreachable = 2,
    Prohibit = 3,
    /// The destination is this host itself.
    NotForwarded = 4,
    ForwardingDisabled = 5,
    UnsupportedTunnel = 6,
    /// The next hop's address on the link is not known.
    NoNeighbour = 7,
    FragmentationNeeded = 8,
    NoSourceAddress = 9,
}

/// A route lookup: what is asked, and, after it, what was found (`struct bpf_fib_lookup`). Fields of
/// packets are in network order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FibQuery {
    /// [`AF_INET`] or [`AF_INET6`].
    pub family: u8,
    /// Protocol above IP, and its ports.
    pub l4_protocol: u8,
    /// Source port.
    pub sport: [u8; 2],
    /// Destination port.
    pub dport: [u8; 2],
    /// In: the packet's length from its IP header on, 0 to check none. Out: the way's MTU.
    pub tot_len: u16,
    /// In: the interface that the packet came in by. Out: the one it leaves by.
    pub ifindex: u32,
    /// In: the type of service (first byte) or the flow information. Out: the route's metric, in the
    /// machine's order.
    pub tos: [u8; 4],
    /// Source address, IPv4 in the first four bytes.
    pub src: [u8; 16],
    /// In: destination address. Out: the next hop's.
    pub dst: [u8; 16],
    /// In: the table, where the flags say so. Out: VLAN protocol and tag.
    pub vlan: [u8; 4],
    /// Out: the interface's address, or in: the packet's mark, in the first four bytes.
    pub smac: [u8; 6],
    /// Out: the next hop's address on the link.
    pub dmac: [u8; 6],
}

impl FibQuery {
    /// Bytes of the kernel's structure.
    pub const SIZE: usize = 64;

    /// From the kernel's layout.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let mut at = 0;
        FibQuery {
            family: field::<1>(bytes, &mut at)[0],
            l4_protocol: field::<1>(bytes, &mut at)[0],
            sport: field(bytes, &mut at),
            dport: field(bytes, &mut at),
            tot_len: u16::from_le_bytes(field(bytes, &mut at)),
            ifindex: u32::from_le_bytes(field(bytes, &mut at)),
            tos: field(bytes, &mut at),
            src: field(bytes, &mut at),
            dst: field(bytes, &mut at),
            vlan: field(bytes, &mut at),
            smac: field(bytes, &mut at),
            dmac: field(bytes, &mut at),
        }
    }

    /// To the kernel's layout.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let mut at = 0;
        for part in [
            &[self.family, self.l4_protocol][..],
            &self.sport,
            &self.dport,
            &self.tot_len.to_le_bytes(),
            &self.ifindex.to_le_bytes(),
            &self.tos,
            &self.src,
            &self.dst,
            &self.vlan,
            &self.smac,
            &self.dmac,
        ] {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes
    }
}

fn field<const N: usize>(bytes: &[u8; FibQuery::SIZE], at: &mut usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[*at..*at + N]);
    *at += N;
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of the kernel's `struct bpf_fib_lookup`.
    #[test]
    fn the_layout_is_the_kernels() {
        let bytes: [u8; 64] = std::array::from_fn(|n| n as u8);
        let query = FibQuery::from_bytes(&bytes);
        assert_eq!((query.family, query.l4_protocol), (0, 1));
        assert_eq!(
            (query.sport, query.dport, query.tot_len),
            ([2, 3], [4, 5], 0x0706)
        );
        assert_eq!((query.ifindex, query.tos), (0x0b0a_0908, [12, 13, 14, 15]));
        assert_eq!((query.src[0], query.dst[0]), (16, 32));
        assert_eq!((query.vlan[0], query.smac[0], query.dmac[5]), (48, 52, 63));
        assert_eq!(query.to_bytes(), bytes);
    }
}
