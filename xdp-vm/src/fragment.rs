//! The buffers of a packet after its first (`skb_frag_t` of `struct skb_shared_info`), and what the
//! kernel does with them when a program moves the packet's end (`bpf_xdp_frags_increase_tail`,
//! `bpf_xdp_frags_shrink_tail`).
#![allow(unsafe_code)]

use std::marker::PhantomData;

use crate::BuffError;
use crate::errno::Errno;
use crate::memory;

/// Most fragments of a packet (`MAX_SKB_FRAGS`).
pub const MAX_FRAGMENTS: usize = 17;

/// One buffer of a packet after the first, lent for the length of a run.
#[derive(Debug)]
pub struct Fragment<'a> {
    data: u64,
    len: usize,
    /// Bytes from `data` that the fragment may grow to.
    room: usize,
    buffer: PhantomData<&'a mut [u8]>,
}

impl Default for Fragment<'_> {
    /// Of no bytes: a place for one.
    fn default() -> Self {
        Fragment {
            data: std::ptr::dangling_mut::<u8>().expose_provenance() as u64,
            len: 0,
            room: 0,
            buffer: PhantomData,
        }
    }
}

impl<'a> Fragment<'a> {
    /// `len` bytes of the packet from byte `data` of `buffer`, to whose end they may grow.
    ///
    /// # Errors
    /// They do not lie in the buffer, or there is none.
    pub fn new(buffer: &'a mut [u8], data: usize, len: usize) -> Result<Self, BuffError> {
        let size = buffer.len();
        if data > size || len > size - data || len == 0 {
            return Err(BuffError { data, len, size });
        }
        Ok(Fragment {
            data: buffer.as_mut_ptr().expose_provenance() as u64 + data as u64,
            len,
            room: size - data,
            buffer: PhantomData,
        })
    }

    /// Bytes of the packet in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True where a program took all of it away.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its bytes.
    pub fn data(&self) -> &[u8] {
        // SAFETY: they lie in the buffer that is lent to this value, and no program runs on them while
        // the value is borrowed.
        unsafe { std::slice::from_raw_parts(memory::pointer(self.data), self.len) }
    }

    /// Where its bytes are, and how many.
    pub(crate) fn part(&self) -> (*mut u8, usize) {
        (memory::pointer(self.data), self.len)
    }

    /// Adds `more` bytes at the end, which are zero.
    pub(crate) fn grow(&mut self, more: usize) -> Result<(), Errno> {
        if more > self.room - self.len {
            return Err(Errno::EINVAL);
        }
        // SAFETY: up to `room`, which lies in the buffer.
        unsafe { memory::zero(memory::pointer(self.data + self.len as u64), more) };
        self.len += more;
        Ok(())
    }

    /// Takes up to `bytes` away from the end; how many there were.
    pub(crate) fn shrink(&mut self, bytes: usize) -> usize {
        let taken = bytes.min(self.len);
        self.len -= taken;
        taken
    }
}
