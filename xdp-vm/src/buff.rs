//! The context of an XDP program: one packet in its buffer, with headroom before it and tailroom
//! behind it. The rules for moving its ends are the kernel's (`bpf_xdp_adjust_head`,
//! `bpf_xdp_adjust_tail`).
#![allow(unsafe_code)]

use std::marker::PhantomData;

use thiserror::Error;

use crate::ContextField;
use crate::errno::Errno;
use crate::fragment::{Fragment, MAX_FRAGMENTS};
use crate::memory;
use crate::metadata::Metadata;

/// Bytes at the start of the buffer that the packet and its metadata never grow into: the kernel
/// keeps its record of a redirected frame there (`struct xdp_frame`).
pub const HEADROOM_RESERVE: usize = 40;
/// Bytes at the end of the buffer that the packet never grows into: the kernel keeps its list of
/// fragments there (`struct skb_shared_info`).
pub const TAIL_RESERVE: usize = 320;
/// Least bytes of a packet after its ends were moved: an Ethernet header.
pub const MIN_PACKET: usize = 14;
/// Most bytes of metadata: the kernel keeps their number in a byte.
const MAX_META: u64 = 252;

/// One packet, lent to a program for the length of a run. Made anew for each packet, which costs two
/// comparisons.
///
/// ```
/// use xdp_vm::XdpBuff;
/// let mut buffer = vec![0; 2048];
/// buffer[256..316].fill(0xaa);
/// let mut buff = XdpBuff::new(&mut buffer, 256, 60)?;
/// buff.set_rx(3, 0);
/// assert_eq!((buff.data(), buff.len(), buff.meta_len()), (256, 60, 0));
/// assert_eq!(buff.packet(), [0xaa; 60]);
/// # Ok::<(), xdp_vm::BuffError>(())
/// ```
#[derive(Debug)]
pub struct XdpBuff<'a> {
    // Addresses, since programs calculate with them as numbers; the provenance of the buffer is
    // exposed when they are made. Always
    // start <= data_meta <= data <= data_end <= start + size of the buffer.
    data: u64,
    data_end: u64,
    data_meta: u64,
    start: u64,
    /// Where `data_end` can grow to.
    tail_limit: u64,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
    metadata: Option<&'a dyn Metadata>,
    /// What of the packet is behind `data_end`, in other buffers; none of them is empty.
    fragments: &'a mut [Fragment<'a>],
    buffer: PhantomData<&'a mut [u8]>,
}

/// Stretches of a packet's bytes, each in one buffer.
pub(crate) struct Parts<'p, 'a> {
    /// Where the next buffer's bytes are.
    next: (*mut u8, usize),
    behind: std::slice::Iter<'p, Fragment<'a>>,
    /// Bytes to pass over, and to give then.
    skip: usize,
    len: usize,
}

impl Iterator for Parts<'_, '_> {
    type Item = (*mut u8, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while self.len > 0 {
            let (at, there) = self.next;
            if self.skip < there {
                let given = self.len.min(there - self.skip);
                let part = (at.wrapping_add(self.skip), given);
                self.next = (at, self.skip + given);
                self.skip += given;
                self.len -= given;
                return Some(part);
            }
            self.skip -= there;
            self.next = self.behind.next()?.part();
        }
        None
    }
}

/// Bytes of a field in [`XdpBuff`].
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) struct Place {
    pub(crate) offset: i32,
    pub(crate) bytes: u32,
}

/// A packet that does not lie in its buffer.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a packet of {len} bytes from byte {data} does not lie in a buffer of {size}")]
pub struct BuffError {
    /// First byte of the packet.
    pub data: usize,
    /// Bytes of the packet.
    pub len: usize,
    /// Bytes of the buffer.
    pub size: usize,
}

impl<'a> XdpBuff<'a> {
    /// The packet of `len` bytes from byte `data` of `buffer`, without metadata. The interface it
    /// came in by is 1 and the queue 0, as in the kernel's test runs, until set.
    ///
    /// # Errors
    /// The packet does not lie in the buffer.
    #[inline]
    pub fn new(buffer: &'a mut [u8], data: usize, len: usize) -> Result<Self, BuffError> {
        // SAFETY: the buffer is lent for 'a.
        unsafe { Self::from_raw_parts(buffer.as_mut_ptr(), buffer.len(), data, len) }
    }

    /// As [`XdpBuff::new`], for memory that is not a slice (a DMA buffer).
    ///
    /// # Safety
    /// `size` bytes at `buffer` are memory that nobody else accesses during 'a, in particular no
    /// device.
    ///
    /// # Errors
    /// The packet does not lie in the buffer.
    #[inline]
    pub unsafe fn from_raw_parts(
        buffer: *mut u8,
        size: usize,
        data: usize,
        len: usize,
    ) -> Result<Self, BuffError> {
        if data > size || len > size - data {
            return Err(BuffError { data, len, size });
        }
        let start = buffer.expose_provenance() as u64;
        let first = start + data as u64;
        Ok(XdpBuff {
            data: first,
            data_end: first + len as u64,
            data_meta: first,
            start,
            tail_limit: start + size.saturating_sub(TAIL_RESERVE) as u64,
            ingress_ifindex: 1,
            rx_queue_index: 0,
            egress_ifindex: 0,
            metadata: None,
            fragments: &mut [],
            buffer: PhantomData,
        })
    }

    /// Takes the `len` bytes before the packet for its metadata.
    ///
    /// # Errors
    /// They are not before it in the buffer, not a multiple of 4, or too many.
    pub fn set_meta(&mut self, len: usize) -> Result<(), BuffError> {
        let headroom = self.data();
        if len > headroom || !len.is_multiple_of(4) || len as u64 > MAX_META {
            return Err(BuffError {
                data: headroom,
                len,
                size: headroom,
            });
        }
        self.data_meta = self.data - len as u64;
        Ok(())
    }

    /// Sets the interface and the queue that the packet came in by.
    #[inline]
    pub fn set_rx(&mut self, ifindex: u32, queue: u32) {
        self.ingress_ifindex = ifindex;
        self.rx_queue_index = queue;
    }

    /// Sets the interface that the packet is to leave by, for a program that runs there.
    #[inline]
    pub fn set_egress(&mut self, ifindex: u32) {
        self.egress_ifindex = ifindex;
    }

    /// Sets what the device said of the packet, for programs that ask
    /// ([`Executable::reads_metadata`](crate::Executable::reads_metadata)). Without it they are told that
    /// there is no such device.
    #[inline]
    pub fn set_metadata(&mut self, metadata: &'a dyn Metadata) {
        self.metadata = Some(metadata);
    }

    pub(crate) fn metadata(&self) -> Option<&'a dyn Metadata> {
        self.metadata
    }

    /// First byte of the packet, counted from the start of the buffer.
    #[inline]
    pub fn data(&self) -> usize {
        (self.data - self.start) as usize
    }

    /// Adds the packet's other buffers, in order: programs see them through helpers only.
    ///
    /// # Errors
    /// There are more than [`MAX_FRAGMENTS`].
    pub fn set_fragments(&mut self, fragments: &'a mut [Fragment<'a>]) -> Result<(), BuffError> {
        if fragments.len() > MAX_FRAGMENTS {
            return Err(BuffError {
                data: 0,
                len: fragments.len(),
                size: MAX_FRAGMENTS,
            });
        }
        self.fragments = fragments;
        Ok(())
    }

    /// The packet's buffers after the first that are left: a program may have cut some off, the last
    /// first.
    pub fn fragments(&self) -> &[Fragment<'a>] {
        self.fragments
    }

    /// Bytes of the packet in all its buffers.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.len() + self.fragments.iter().map(Fragment::len).sum::<usize>()
    }

    /// Bytes of the packet in its first buffer.
    #[inline]
    pub fn len(&self) -> usize {
        (self.data_end - self.data) as usize
    }

    /// True where the packet has no byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.data_end == self.data
    }

    /// Bytes of metadata, which end where the packet starts.
    #[inline]
    pub fn meta_len(&self) -> usize {
        (self.data - self.data_meta) as usize
    }

    /// The packet's bytes in its first buffer.
    pub fn packet(&self) -> &[u8] {
        // SAFETY: the packet lies in the buffer that is lent to this value, and no program runs on
        // it while the value is borrowed.
        unsafe { std::slice::from_raw_parts(memory::pointer(self.data), self.len()) }
    }

    /// The metadata's bytes.
    pub fn meta(&self) -> &[u8] {
        // SAFETY: as for the packet, before which the metadata lies.
        unsafe { std::slice::from_raw_parts(memory::pointer(self.data_meta), self.meta_len()) }
    }

    /// What r1 holds when the program starts in the interpreter. Nothing is read through it: the
    /// verifier turns loads of the context into the fields below.
    #[inline(always)]
    pub(crate) fn context(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Where a field of the context is in this representation, for compiled code.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) fn place_of(field: ContextField) -> Place {
        macro_rules! place {
            ($field:ident, $bytes:literal) => {
                Place {
                    offset: std::mem::offset_of!(Self, $field) as i32,
                    bytes: $bytes,
                }
            };
        }
        match field {
            ContextField::Data => place!(data, 8),
            ContextField::DataEnd => place!(data_end, 8),
            ContextField::DataMeta => place!(data_meta, 8),
            ContextField::IngressIfindex => place!(ingress_ifindex, 4),
            ContextField::RxQueueIndex => place!(rx_queue_index, 4),
            ContextField::EgressIfindex => place!(egress_ifindex, 4),
        }
    }

    #[inline(always)]
    pub(crate) fn data_address(&self) -> u64 {
        self.data
    }

    #[inline(always)]
    pub(crate) fn data_end_address(&self) -> u64 {
        self.data_end
    }

    #[inline(always)]
    pub(crate) fn data_meta_address(&self) -> u64 {
        self.data_meta
    }

    #[inline(always)]
    pub(crate) fn ingress_ifindex(&self) -> u32 {
        self.ingress_ifindex
    }

    #[inline(always)]
    pub(crate) fn rx_queue_index(&self) -> u32 {
        self.rx_queue_index
    }

    #[inline(always)]
    pub(crate) fn egress_ifindex(&self) -> u32 {
        self.egress_ifindex
    }

    /// Moves the packet's start by `delta` bytes (negative: back into the headroom), its metadata
    /// along. Bytes that become part of the packet keep what the buffer held.
    pub(crate) fn adjust_head(&mut self, delta: i32) -> Result<(), Errno> {
        let meta = self.data - self.data_meta;
        let data = self.data.wrapping_add_signed(i64::from(delta));
        let lowest = self.start + HEADROOM_RESERVE as u64 + meta;
        if data < lowest || data.wrapping_add(MIN_PACKET as u64) > self.data_end {
            return Err(Errno::EINVAL);
        }
        if meta != 0 {
            let from = memory::pointer(self.data_meta);
            let to = memory::pointer(self.data_meta.wrapping_add_signed(i64::from(delta)));
            // SAFETY: both ranges lie in the buffer, from `start` to `data_end`, by the checks.
            unsafe { std::ptr::copy(from, to, meta as usize) };
        }
        self.data_meta = data - meta;
        self.data = data;
        Ok(())
    }

    /// Moves the start of the metadata by `delta` bytes (negative: forward into the headroom). New bytes
    /// keep what the buffer held.
    pub(crate) fn adjust_meta(&mut self, delta: i32) -> Result<(), Errno> {
        let meta = self.data_meta.wrapping_add_signed(i64::from(delta));
        if meta < self.start + HEADROOM_RESERVE as u64 || meta > self.data {
            return Err(Errno::EINVAL);
        }
        let len = self.data - meta;
        if !len.is_multiple_of(4) || len > MAX_META {
            return Err(Errno::EACCES);
        }
        self.data_meta = meta;
        Ok(())
    }

    /// Where `len` bytes from byte `offset` of the packet are: the parts of them that lie together, in
    /// order.
    #[inline]
    pub(crate) fn bytes_at(&self, offset: u32, len: u32) -> Result<Parts<'_, 'a>, Errno> {
        // The kernel says in its own way that no packet is longer.
        if offset > 0xffff || len > 0xffff {
            return Err(Errno::EFAULT);
        }
        let (skip, len) = (offset as usize, len as usize);
        if skip + len > self.len() && skip + len > self.total_len() {
            return Err(Errno::EINVAL);
        }
        Ok(self.parts(skip, len))
    }

    /// As above, as far as there are bytes.
    #[inline]
    pub(crate) fn parts(&self, skip: usize, len: usize) -> Parts<'_, 'a> {
        Parts {
            next: (memory::pointer(self.data), self.len()),
            behind: self.fragments.iter(),
            skip,
            len,
        }
    }

    /// Moves the packet's end by `delta` bytes. Bytes that become part of the packet are zero.
    pub(crate) fn adjust_tail(&mut self, delta: i32) -> Result<(), Errno> {
        if !self.fragments.is_empty() {
            return self.adjust_last(delta);
        }
        let end = self.data_end.wrapping_add_signed(i64::from(delta));
        if end > self.tail_limit || end < self.data + MIN_PACKET as u64 {
            return Err(Errno::EINVAL);
        }
        if end > self.data_end {
            let new = (end - self.data_end) as usize;
            // SAFETY: up to `tail_limit`, which lies in the buffer.
            unsafe { memory::zero(memory::pointer(self.data_end), new) };
        }
        self.data_end = end;
        Ok(())
    }

    /// As above, where the end is in a fragment: one that is cut to nothing is gone, and what is cut
    /// beyond the first of them comes off the linear part.
    #[cold]
    fn adjust_last(&mut self, delta: i32) -> Result<(), Errno> {
        if let (Ok(more), Some(last)) = (usize::try_from(delta), self.fragments.last_mut()) {
            return last.grow(more);
        }
        if delta == i32::MIN {
            // The kernel negates it in 32 bits, where it stays negative, and cuts nothing.
            return Ok(());
        }
        let mut cut = delta.unsigned_abs() as usize;
        if cut + MIN_PACKET > self.total_len() {
            return Err(Errno::EINVAL);
        }
        let mut left = self.fragments.len();
        while left > 0 && cut > 0 {
            let last = &mut self.fragments[left - 1];
            cut -= last.shrink(cut);
            if !last.is_empty() {
                break;
            }
            left -= 1;
        }
        self.fragments = &mut std::mem::take(&mut self.fragments)[..left];
        self.data_end -= cut as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 4096;

    fn buffer() -> Vec<u8> {
        (0..SIZE).map(|i| i as u8 | 1).collect()
    }

    #[test]
    fn a_packet_outside_its_buffer_is_refused() {
        let mut bytes = [0; 64];
        for (data, len, fits) in [
            (0, 64, true),
            (64, 0, true),
            (0, 65, false),
            (65, 0, false),
            (1, 64, false),
            (usize::MAX, 2, false),
            (2, usize::MAX, false),
        ] {
            assert_eq!(
                XdpBuff::new(&mut bytes, data, len).is_ok(),
                fits,
                "{data} {len}"
            );
        }
    }

    #[test]
    fn the_head_moves_between_the_reserve_and_the_last_header() {
        let mut bytes = buffer();
        let mut b = XdpBuff::new(&mut bytes, 256, 60).unwrap();
        assert_eq!(b.adjust_head(-217), Err(Errno::EINVAL));
        assert_eq!(b.adjust_head(-216), Ok(()));
        assert_eq!((b.data(), b.len()), (40, 276));
        assert_eq!(b.adjust_head(-1), Err(Errno::EINVAL));
        assert_eq!(b.adjust_head(276 - 13), Err(Errno::EINVAL));
        assert_eq!(b.adjust_head(276 - 14), Ok(()));
        assert_eq!((b.data(), b.len(), b.meta_len()), (302, 14, 0));
        for extreme in [i32::MIN, i32::MAX] {
            assert_eq!(b.adjust_head(extreme), Err(Errno::EINVAL));
        }
    }

    #[test]
    fn metadata_moves_with_the_head() {
        let mut bytes = buffer();
        let meta: Vec<u8> = bytes[248..256].to_vec();
        let mut b = XdpBuff::new(&mut bytes, 256, 60).unwrap();
        b.data_meta -= 8;
        assert_eq!(b.adjust_head(-209), Err(Errno::EINVAL), "metadata counts");
        assert_eq!(b.adjust_head(-4), Ok(()));
        assert_eq!((b.data(), b.meta_len()), (252, 8));
        assert_eq!(bytes[244..252], meta);
    }

    #[test]
    fn metadata_grows_in_words_within_the_headroom() {
        let mut bytes = buffer();
        let mut b = XdpBuff::new(&mut bytes, 256, 60).unwrap();
        assert_eq!(b.adjust_meta(-3), Err(Errno::EACCES));
        assert_eq!(b.adjust_meta(-220), Err(Errno::EINVAL));
        assert_eq!(b.adjust_meta(1), Err(Errno::EINVAL));
        assert_eq!(b.adjust_meta(-216), Ok(()));
        assert_eq!((b.meta_len(), b.meta().len()), (216, 216));
        assert_eq!(b.adjust_meta(-4), Err(Errno::EINVAL));
        assert_eq!(b.adjust_meta(216), Ok(()));
        assert_eq!(b.meta_len(), 0);
        let mut bytes = buffer();
        let mut b = XdpBuff::new(&mut bytes, 512, 60).unwrap();
        assert_eq!(b.adjust_meta(-256), Err(Errno::EACCES), "252 is the most");
        assert_eq!(b.adjust_meta(-252), Ok(()));
        for extreme in [i32::MIN, i32::MAX] {
            assert_eq!(b.adjust_meta(extreme), Err(Errno::EINVAL));
        }
    }

    #[test]
    fn the_tail_grows_with_zeros_up_to_the_reserve() {
        let mut bytes = buffer();
        let mut b = XdpBuff::new(&mut bytes, 256, 60).unwrap();
        assert_eq!(b.adjust_tail(-47), Err(Errno::EINVAL));
        assert_eq!(b.adjust_tail(-46), Ok(()));
        assert_eq!(b.adjust_tail(10), Ok(()));
        assert_eq!(b.len(), 24);
        assert_eq!(b.packet()[14..], [0; 10]);
        assert_ne!(b.packet()[13], 0);
        let room = (SIZE - TAIL_RESERVE - 256 - 24) as i32;
        assert_eq!(b.adjust_tail(room + 1), Err(Errno::EINVAL));
        assert_eq!(b.adjust_tail(room), Ok(()));
        assert_eq!(b.len(), 3520);
        for extreme in [i32::MIN, i32::MAX] {
            assert_eq!(b.adjust_tail(extreme), Err(Errno::EINVAL));
        }
        assert_ne!(bytes[SIZE - TAIL_RESERVE], 0, "the reserve is not touched");
    }

    #[test]
    fn a_small_buffer_has_no_tailroom() {
        let mut bytes = [1; 100];
        let mut b = XdpBuff::new(&mut bytes, 0, 60).unwrap();
        assert_eq!(b.adjust_tail(1), Err(Errno::EINVAL));
        assert_eq!(
            b.adjust_tail(-20),
            Err(Errno::EINVAL),
            "the end is past the limit already"
        );
        assert_eq!(b.adjust_head(0), Err(Errno::EINVAL));
    }
}
