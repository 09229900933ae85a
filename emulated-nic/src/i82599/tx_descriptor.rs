//! Transmit descriptors (82599 datasheet 7.2.3), as views of their two words.

/// Most descriptors of a packet.
pub(crate) const MAX_PARTS: usize = 40;

const DEXT: u64 = 1 << 29;
const DTYP_SHIFT: u32 = 20;
const DTYP_CONTEXT: u64 = 2;
const DTYP_DATA: u64 = 3;
const EOP: u64 = 1 << 24;
const IFCS: u64 = 1 << 25;
/// Legacy only: insert a checksum.
const IC: u64 = 1 << 26;
const RS: u64 = 1 << 27;
const VLE: u64 = 1 << 30;
const TSE: u64 = 1 << 31;
const IXSM: u64 = 1 << 40;
const TXSM: u64 = 1 << 41;

/// A descriptor, told by its type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Descriptor {
    /// Number and contents of a context.
    Context(usize, Context),
    Data(Data),
    /// A type that there is not.
    Unknown,
}

/// Parameters of offloads, sticky per queue and number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context([u64; 2]);

/// A piece of a packet, advanced or legacy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Data([u64; 2]);

/// Checksum that a context describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum L4Type {
    Udp,
    Tcp,
    Sctp,
    None,
}

#[inline]
pub(crate) fn decode(words: [u64; 2]) -> Descriptor {
    if words[1] & DEXT == 0 {
        return Descriptor::Data(Data(words));
    }
    match words[1] >> DTYP_SHIFT & 0xf {
        DTYP_DATA => Descriptor::Data(Data(words)),
        DTYP_CONTEXT => Descriptor::Context((words[1] >> 36 & 7) as usize, Context(words)),
        _ => Descriptor::Unknown,
    }
}

impl Context {
    /// Length of the IP header.
    pub(crate) fn ip_len(&self) -> usize {
        (self.0[0] & 0x1ff) as usize
    }

    /// Length of the link header.
    pub(crate) fn mac_len(&self) -> usize {
        (self.0[0] >> 9 & 0x7f) as usize
    }

    pub(crate) fn vlan_tag(&self) -> u16 {
        (self.0[0] >> 16) as u16
    }

    /// Length of the transport header, for segmentation.
    pub(crate) fn l4_len(&self) -> usize {
        (self.0[1] >> 40 & 0xff) as usize
    }

    /// Payload bytes of a segment.
    pub(crate) fn mss(&self) -> usize {
        (self.0[1] >> 48) as usize
    }

    pub(crate) fn l4(&self) -> L4Type {
        match self.0[1] >> 11 & 3 {
            0 => L4Type::Udp,
            1 => L4Type::Tcp,
            2 => L4Type::Sctp,
            _ => L4Type::None,
        }
    }
}

impl Data {
    pub(crate) fn address(&self) -> u64 {
        self.0[0]
    }

    pub(crate) fn len(&self) -> usize {
        (self.0[1] & 0xffff) as usize
    }

    pub(crate) fn is_legacy(&self) -> bool {
        self.0[1] & DEXT == 0
    }

    pub(crate) fn is_last(&self) -> bool {
        self.0[1] & EOP != 0
    }

    pub(crate) fn wants_fcs(&self) -> bool {
        self.0[1] & IFCS != 0
    }

    pub(crate) fn wants_report(&self) -> bool {
        self.0[1] & RS != 0
    }

    pub(crate) fn wants_vlan(&self) -> bool {
        self.0[1] & VLE != 0
    }

    pub(crate) fn wants_segmentation(&self) -> bool {
        !self.is_legacy() && self.0[1] & TSE != 0
    }

    pub(crate) fn wants_ip_checksum(&self) -> bool {
        !self.is_legacy() && self.0[1] & IXSM != 0
    }

    pub(crate) fn wants_l4_checksum(&self) -> bool {
        !self.is_legacy() && self.0[1] & TXSM != 0
    }

    /// Number of its context.
    pub(crate) fn context(&self) -> usize {
        (self.0[1] >> 36 & 7) as usize
    }

    /// Length of the packet, of an advanced descriptor.
    pub(crate) fn payload_len(&self) -> usize {
        (self.0[1] >> 46) as usize
    }

    /// Legacy only: where the checksum goes, and where what it covers starts.
    pub(crate) fn legacy_checksum(&self) -> Option<(usize, usize)> {
        let wanted = self.is_legacy() && self.0[1] & IC != 0;
        let (offset, start) = (self.0[1] >> 16 & 0xff, self.0[1] >> 40 & 0xff);
        wanted.then_some((offset as usize, start as usize))
    }

    /// Legacy only: the tag to insert.
    pub(crate) fn legacy_vlan_tag(&self) -> u16 {
        (self.0[1] >> 48) as u16
    }
}
