//! A frame: one buffer of a pool with, at most, one packet in it.
//!
//! ```text
//! 0        256                        head + len        capacity - 320    capacity
//! | headroom | <- head ... packet ... -> | tailroom          | reserve        |
//! ```
//! The default geometry is the Linux kernel's for XDP on 4 KiB pages, so that programs that move the
//! packet's head and tail succeed and fail where they do there: at most 3,520 bytes in one buffer.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::pool;

/// Bytes before a received packet (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: usize = 256;
/// Bytes at the end of a frame that a packet never grows into (the kernel's `skb_shared_info`).
pub const TAIL_RESERVE: usize = 320;

/// Sizes of the frames of a pool, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// From the start of one frame to the next. An odd number of cache lines, so that the headers of
    /// consecutive packets do not compete for one cache set.
    pub stride: usize,
    /// Headroom, packet, tailroom and reserve together.
    pub capacity: usize,
    /// What a receive queue lets the device write behind the headroom.
    pub buffer: usize,
}

impl Geometry {
    /// The kernel's geometry: 3,520 bytes for a packet, 3 KiB receive buffers.
    pub const KERNEL: Geometry = Geometry {
        stride: 65 * 64,
        capacity: 4096,
        buffer: 3072,
    };
    /// Half the memory: 2 KiB receive buffers, and the tail grows no further.
    pub const SMALL: Geometry = Geometry {
        stride: 41 * 64,
        capacity: 2624,
        buffer: 2048,
    };

    /// True where headroom, buffer and reserve fit into the capacity, that into the stride, and the
    /// stride is whole cache lines, at most 64 KiB.
    pub fn is_valid(&self) -> bool {
        // All of it is the caller's word: no sum that could overflow.
        let room = self.capacity.checked_sub(HEADROOM + TAIL_RESERVE);
        room.is_some_and(|room| (1..=room).contains(&self.buffer))
            && self.capacity <= self.stride.min(u16::MAX as usize)
            && self.stride <= 1 << 16
            && self.stride.is_multiple_of(64)
    }

    /// What lengths received into buffers of `buffer` bytes are held against. `None` where there is no
    /// buffer, or it does not fit behind the headroom.
    pub(crate) fn receive_limit(&self, buffer: usize) -> Option<ReceiveLimit> {
        let (room, buffer) = (self.room(), u16::try_from(buffer).ok()?);
        (1..=room)
            .contains(&buffer)
            .then_some(ReceiveLimit { room, buffer })
    }

    /// Bytes behind the full headroom; 0 where the geometry is impossible.
    #[inline]
    pub(crate) fn room(&self) -> u16 {
        self.capacity
            .saturating_sub(HEADROOM)
            .try_into()
            .unwrap_or(0)
    }
}

/// Owned handle on one frame: where it is, and the packet in it. Dropping it sends the buffer home
/// to its pool, by way of a lock; the packet path moves frames through [`Spares`](crate::Spares)
/// and rings instead.
///
/// A packet longer than one frame is a run of frames in which all but the last say
/// [`more`](Self::more).
pub struct Frame {
    buf: NonNull<u8>,
    /// Offset of the packet from `buf` (bits 15:0), whether it goes on in the next frame (16), its bytes
    /// in this frame (47:32), and the buffer's bytes behind the full headroom, its room (63:48).
    /// `head + len <= HEADROOM + room`, always. One word, so that a frame moves as two registers, and
    /// the length where descriptors have it.
    state: u64,
}

const MORE: u64 = 1 << 16;
const LEN_SHIFT: u32 = 32;
const ROOM_SHIFT: u32 = 48;
const ROOM: u64 = 0xffff << ROOM_SHIFT;

/// What received lengths are held against, for the frames of one geometry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveLimit {
    /// Room of such a frame.
    room: u16,
    /// Most bytes: no more than the room.
    buffer: u16,
}

// SAFETY: a frame owns its bytes alone, like a `Box<[u8]>`: pools hand each buffer out once.
unsafe impl Send for Frame {}
// SAFETY: shared access only reads.
unsafe impl Sync for Frame {}

/// What frames have in common: their states' bits that all have, and that any has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameKinds {
    all: u64,
    any: u64,
}

impl FrameKinds {
    /// Of no frame.
    pub(crate) fn none() -> Self {
        FrameKinds {
            all: u64::MAX,
            any: 0,
        }
    }

    /// And of this one.
    #[inline]
    pub(crate) fn add(&mut self, frame: &Frame) {
        self.all &= frame.state;
        self.any |= frame.state;
    }

    /// True where there is a frame and every one has this room.
    #[inline]
    pub(crate) fn all_have(&self, room: u16) -> bool {
        self.all >> ROOM_SHIFT == u64::from(room) && self.any >> ROOM_SHIFT == u64::from(room)
    }
}

impl ReceiveLimit {
    /// True where frames that fit one fit the other.
    #[inline]
    pub(crate) fn is_like(self, other: ReceiveLimit) -> bool {
        self.room == other.room
    }

    /// True where `frame` is of the limit's geometry.
    pub(crate) fn is_for(&self, frame: &Frame) -> bool {
        frame.room() == self.room
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frame")
            .field("buf", &self.buf)
            .field("head", &self.head())
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("more", &self.more())
            .finish()
    }
}

/// A head or length that does not fit the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len} bytes at offset {head} do not fit a frame of {capacity} bytes")]
#[allow(missing_docs)]
pub struct RangeError {
    pub head: usize,
    pub len: usize,
    pub capacity: usize,
}

impl Frame {
    /// # Safety
    /// `buf` must be valid for `capacity` bytes of a registered pool and owned by nobody else.
    pub(crate) unsafe fn from_raw(buf: NonNull<u8>, capacity: u16) -> Self {
        debug_assert!(capacity as usize > HEADROOM);
        let room = u64::from(capacity) - HEADROOM as u64;
        Frame {
            buf,
            state: room << ROOM_SHIFT | HEADROOM as u64,
        }
    }

    /// The packet's bytes in this frame.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: `head + len <= capacity`, and the frame owns `capacity` bytes.
        unsafe {
            let data = self.buf.add(self.head());
            std::slice::from_raw_parts(data.as_ptr(), self.len())
        }
    }

    /// The packet's bytes in this frame, to be changed.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`; the borrow is exclusive.
        unsafe {
            let data = self.buf.add(self.head());
            std::slice::from_raw_parts_mut(data.as_ptr(), self.len())
        }
    }

    /// The whole buffer, headroom and reserve included.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        // SAFETY: the frame owns `capacity` bytes; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.buf.as_ptr(), self.capacity()) }
    }

    /// Offset of the packet from the start of the buffer.
    #[inline]
    pub fn head(&self) -> usize {
        usize::from(self.state as u16)
    }

    /// Bytes of the packet in this frame.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from((self.state >> LEN_SHIFT) as u16)
    }

    /// True where no byte of a packet is in the frame.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the buffer, headroom and reserve included.
    #[inline]
    pub fn capacity(&self) -> usize {
        usize::from(self.room()) + HEADROOM
    }

    /// True where the packet goes on in the next frame.
    #[inline]
    pub fn more(&self) -> bool {
        self.state & MORE != 0
    }

    /// Says whether the packet goes on in the next frame.
    #[inline]
    pub fn set_more(&mut self, more: bool) {
        self.state = if more {
            self.state | MORE
        } else {
            self.state & !MORE
        };
    }

    /// Says where in the buffer the packet is: after a program moved its head or tail, or before
    /// bytes are written for transmission.
    #[inline]
    pub fn set_range(&mut self, head: usize, len: usize) -> Result<(), RangeError> {
        let capacity = self.capacity();
        if head > capacity || len > capacity - head {
            return Err(RangeError {
                head,
                len,
                capacity,
            });
        }
        self.state = self.state & (ROOM | MORE) | (len as u64) << LEN_SHIFT | head as u64;
        Ok(())
    }

    /// Marks `len` bytes behind the full headroom as received, in one frame as yet. False, and nothing
    /// changed, where they would not fit: a device that lies about its length must not widen our view.
    #[inline]
    pub fn set_received(&mut self, len: usize) -> bool {
        if len > usize::from(self.room()) {
            return false;
        }
        self.state = self.state & ROOM | (len as u64) << LEN_SHIFT | HEADROOM as u64;
        true
    }

    /// As [`set_received`](Self::set_received), on the packet path: 1 byte at least, and no more than
    /// `limit` allows.
    ///
    /// # Safety
    /// The frame must be of the limit's geometry.
    #[inline]
    pub(crate) unsafe fn receive_unchecked(&mut self, limit: ReceiveLimit, len: usize) -> bool {
        debug_assert!(limit.is_for(self));
        if len.wrapping_sub(1) >= usize::from(limit.buffer) {
            return false;
        }
        let room = u64::from(limit.room) << ROOM_SHIFT;
        self.state = room | (len as u64) << LEN_SHIFT | HEADROOM as u64;
        true
    }

    /// Copies `packet` behind the full headroom. Fails where it is longer than the frame holds.
    pub fn fill(&mut self, packet: &[u8]) -> Result<(), RangeError> {
        self.set_range(HEADROOM, packet.len())?;
        self.data_mut().copy_from_slice(packet);
        Ok(())
    }

    /// Address at which a device finds the packet; `delta` is the
    /// [domain's](crate::DmaDomain::delta).
    #[inline]
    pub fn data_iova(&self, delta: u64) -> u64 {
        (self.buf.as_ptr() as u64 + self.head() as u64).wrapping_sub(delta)
    }

    /// Address at which a device may write a packet behind the full headroom.
    #[inline]
    pub fn receive_iova(&self, delta: u64) -> u64 {
        // In this order all but one operation is the same for every frame of a loop.
        (self.buf.as_ptr() as u64).wrapping_sub(delta.wrapping_sub(HEADROOM as u64))
    }

    /// Start of the buffer: its identity within the process.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.buf.as_ptr() as usize
    }

    /// A second handle on the same buffer, for one of the two to be used.
    #[inline]
    pub(crate) fn duplicate(&self) -> MaybeUninit<Frame> {
        // Field by field, so that the pointer is known not to be null and needs no test later.
        MaybeUninit::new(Frame {
            buf: self.buf,
            state: self.state,
        })
    }

    /// Forgets the packet: full headroom, no bytes.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.state = self.state & ROOM | HEADROOM as u64;
    }

    /// Bytes of the buffer behind the full headroom.
    #[inline]
    pub(crate) fn room(&self) -> u16 {
        (self.state >> ROOM_SHIFT) as u16
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: this handle was the buffer's only owner and ends here.
        pool::send_home(unsafe { Frame::from_raw(self.buf, self.capacity() as u16) });
    }
}
