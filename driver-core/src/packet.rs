//! A received packet in its ring slot, and what the device says about it.

use crate::frame::{Frame, RangeError};
use crate::pool::Spares;
use crate::ring::Descriptor;

/// A received packet, still in its ring slots: what a handler sees.
///
/// Letting it go **recycles**: the slots are re-armed with the same buffers. [`take`](Self::take) and
/// [`take_all`](Self::take_all) move buffers out, and the slots are re-armed with spares; where there
/// is none the buffers stay, so a ring never has a hole and never stalls.
#[derive(Debug)]
pub struct RxPacket<'a> {
    frame: &'a mut Frame,
    /// The other buffers of a longer packet: two runs, since the ring may wrap between them.
    rest: [&'a mut [Frame]; 2],
    spares: &'a mut Spares,
    descriptor: &'a Descriptor,
    decode: fn([u64; 2]) -> RxMetadata,
}

impl<'a> RxPacket<'a> {
    /// For drivers: a packet whose buffers have had their lengths set by
    /// [`Frame::set_received`]. `descriptor` holds what the device wrote about
    /// the packet, which `decode` reads.
    #[inline(always)]
    pub fn new(
        frame: &'a mut Frame,
        rest: [&'a mut [Frame]; 2],
        spares: &'a mut Spares,
        descriptor: &'a Descriptor,
        decode: fn([u64; 2]) -> RxMetadata,
    ) -> Self {
        RxPacket {
            frame,
            rest,
            spares,
            descriptor,
            decode,
        }
    }

    /// Bytes of the packet in its first buffer.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.frame.data()
    }

    /// Bytes of the packet in its first buffer, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.frame.data_mut()
    }

    /// The whole first buffer, headroom and reserve included.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        self.frame.buffer_mut()
    }

    /// Offset of the packet in its first buffer.
    #[inline]
    pub fn head(&self) -> usize {
        self.frame.head()
    }

    /// Moves head and length of the packet within its first buffer, as a program did.
    #[inline]
    pub fn set_range(&mut self, head: usize, len: usize) -> Result<(), RangeError> {
        self.frame.set_range(head, len)
    }

    /// The first buffer and those after it, in order, to be changed together.
    pub fn frames_mut(&mut self) -> (&mut Frame, impl Iterator<Item = &mut Frame>) {
        let rest = self.rest.iter_mut().flat_map(|r| r.iter_mut());
        (self.frame, rest)
    }

    /// Lets go of all but the first `count` buffers after the first: a program cut them off. They stay in
    /// their slots, which are re-armed with them.
    pub fn keep_fragments(&mut self, count: usize) {
        let [first, second] = std::mem::take(&mut self.rest);
        let (of_first, of_second) = (count.min(first.len()), count.saturating_sub(first.len()));
        let of_second = of_second.min(second.len());
        self.rest = [&mut first[..of_first], &mut second[..of_second]];
    }

    /// Buffers after the first, in order.
    #[inline]
    pub fn fragments(&self) -> impl Iterator<Item = &Frame> {
        self.rest.iter().flat_map(|r| r.iter())
    }

    /// True where the packet fills more than one buffer.
    #[inline]
    pub fn has_fragments(&self) -> bool {
        !self.rest[0].is_empty()
    }

    /// Bytes of the packet in all its buffers.
    #[inline]
    pub fn total_len(&self) -> usize {
        let more = if self.has_fragments() {
            self.fragments_len()
        } else {
            0
        };
        self.frame.len() + more
    }

    #[cold]
    fn fragments_len(&self) -> usize {
        self.fragments().map(Frame::len).sum()
    }

    /// What the device wrote about the packet, decoded now.
    #[inline]
    pub fn metadata(&self) -> RxMetadata {
        self.raw_metadata().decode()
    }

    /// As [`metadata`](Self::metadata), to be decoded later, when the packet may be borrowed.
    #[inline]
    pub fn raw_metadata(&self) -> RawMetadata {
        RawMetadata {
            words: [self.descriptor.load(0), self.descriptor.load(1)],
            decode: self.decode,
        }
    }

    /// Moves the packet out where it is in one buffer; `None` where there is no spare, or it has
    /// fragments (use [`take_all`](Self::take_all)).
    #[inline]
    pub fn take(self) -> Option<Frame> {
        if self.has_fragments() {
            return None;
        }
        self.spares.swap_into(self.frame)
    }

    /// Moves every buffer of the packet out, first to last, linked by [`Frame::more`]. False, and
    /// nothing moved, where there are too few spares.
    #[inline]
    pub fn take_all(self, mut sink: impl FnMut(Frame)) -> bool {
        let [first, second] = self.rest;
        let mut left = first.len() + second.len();
        if self.spares.len() <= left {
            return false;
        }
        for slot in [self.frame].into_iter().chain(first).chain(second) {
            let Some(mut frame) = self.spares.swap_into(slot) else {
                return false;
            };
            frame.set_more(left > 0);
            left = left.saturating_sub(1);
            sink(frame);
        }
        true
    }
}

/// What the device wrote about a packet, not decoded yet.
#[derive(Clone, Copy, Debug)]
pub struct RawMetadata {
    words: [u64; 2],
    decode: fn([u64; 2]) -> RxMetadata,
}

impl RawMetadata {
    /// What it says.
    pub fn decode(&self) -> RxMetadata {
        (self.decode)(self.words)
    }
}

/// What a receive descriptor says about its packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxMetadata {
    /// Layer 3 as the device parsed it.
    pub l3: L3,
    /// Layer 4 as the device parsed it.
    pub l4: L4,
    /// Hash that chose the queue, where one was computed.
    pub rss: Option<RssHash>,
    /// VLAN tag (priority, DEI and VID) that the device took out of the packet.
    pub vlan: Option<u16>,
    /// The IPv4 header checksum.
    pub ip_checksum: Checksum,
    /// The TCP, UDP or SCTP checksum.
    pub l4_checksum: Checksum,
    /// A tunnel's outer checksum, where the device looks into tunnels.
    pub outer_checksum: Checksum,
}

/// Layer 3 of a received packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum L3 {
    #[default]
    Unknown,
    Ipv4,
    /// IPv4 with options.
    Ipv4Options,
    Ipv6,
    /// IPv6 with extension headers.
    Ipv6Extensions,
    /// A match of an EtherType filter, by its number.
    EtherTypeFilter(u8),
}

/// Layer 4 of a received packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum L4 {
    #[default]
    Unknown,
    Tcp,
    Udp,
    Sctp,
}

/// What the device found of a checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Not looked at, or not to be trusted.
    #[default]
    Unknown,
    /// Computed and right.
    Good,
    /// Computed and wrong.
    Bad,
}

/// A receive-side-scaling hash and the fields it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RssHash {
    /// Toeplitz hash.
    pub value: u32,
    /// Fields hashed.
    pub kind: RssKind,
}

/// Fields that an RSS hash covers: addresses, or addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RssKind {
    Ipv4,
    Ipv4Tcp,
    Ipv4Udp,
    Ipv6,
    Ipv6Tcp,
    Ipv6Udp,
    /// A combination that the device numbers and this crate does not name.
    Other(u8),
}
