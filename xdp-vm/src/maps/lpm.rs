//! Longest prefix match: a hash that holds each prefix under its length and its bits, and a count of
//! prefixes by length. A lookup tries the lengths that there are, from the longest that the key allows
//! down: as many steps as there are different lengths, and no lock.
//!
//! Keys are the kernel's (`struct bpf_lpm_trie_key`): the length in bits, 4 bytes, then the bits in
//! network order.
#![allow(unsafe_code)]

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::hash::Hash;
use super::layout::{LPM_PREFIX, Layout, MAX_LPM_DATA};
use crate::MapSpec;
use crate::errno::Errno;
use crate::memory;

const PREFIX: usize = LPM_PREFIX as usize;
const MAX_DATA: usize = MAX_LPM_DATA as usize;
/// Lengths from 0 to 2048.
const LENGTHS: usize = MAX_DATA * 8 + 1;
const WORDS: usize = LENGTHS.div_ceil(64);

/// A trie, as its users see it.
#[derive(Debug)]
pub(crate) struct Lpm {
    prefixes: Hash,
    /// By length: prefixes that there are. Held by who changes something.
    counts: Mutex<Box<[u32]>>,
    /// A bit a length: there are such prefixes.
    present: Box<[AtomicU64; WORDS]>,
    data: usize,
}

/// A prefix, its bits past its length zero.
#[derive(Clone, Copy)]
struct Key {
    bytes: [u8; PREFIX + MAX_DATA],
    len: u32,
}

impl Lpm {
    /// `None` where memory is short.
    pub(super) fn new(spec: &MapSpec, layout: &Layout, cpus: u32) -> Option<Self> {
        let data = spec.key_size as usize - PREFIX;
        Some(Lpm {
            prefixes: Hash::new(spec, layout, cpus)?,
            counts: Mutex::new(vec![0; 8 * data + 1].into()),
            present: Box::new(std::array::from_fn(|_| AtomicU64::new(0))),
            data,
        })
    }

    /// The value of the longest prefix, no longer than the key's, that the key starts with; or null.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(crate) unsafe fn lookup(&self, key: *const u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.longest(unsafe { self.key(key) }, |prefix| {
            // SAFETY: the prefix has the map's key size. A trie has one value for all CPUs.
            let value = unsafe { self.prefixes.lookup(0, prefix.bytes.as_ptr()) };
            (!value.is_null()).then_some(value)
        })
        .unwrap_or(std::ptr::null_mut())
    }

    /// A copy of that value.
    ///
    /// # Safety
    /// As for [`Lpm::lookup`].
    pub(super) unsafe fn read(&self, key: *const u8) -> Option<Vec<Vec<u8>>> {
        // SAFETY: the caller's promise.
        self.longest(unsafe { self.key(key) }, |prefix| {
            // SAFETY: the prefix has the map's key size.
            unsafe { self.prefixes.read(prefix.bytes.as_ptr()) }
        })
    }

    /// Sets the value of a prefix.
    ///
    /// # Safety
    /// A key can be read at `key` and a value at `value`.
    pub(super) unsafe fn update(
        &self,
        key: *const u8,
        value: *const u8,
        flags: u64,
    ) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let prefix = unsafe { self.key(key) }.ok_or(Errno::EINVAL)?;
        let mut counts = self.lock();
        // Before the prefix is there, so that nobody who could find it passes its length by.
        self.add(&mut counts, prefix.len);
        // SAFETY: the prefix has the map's key size; the caller's promise.
        let new = unsafe { self.prefixes.insert(prefix.bytes.as_ptr(), value, flags) };
        if new != Ok(true) {
            self.sub(&mut counts, prefix.len);
        }
        match new {
            Ok(_) => Ok(()),
            Err(Errno::E2BIG) => Err(Errno::ENOSPC),
            Err(other) => Err(other),
        }
    }

    /// Deletes a prefix.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(super) unsafe fn delete(&self, key: *const u8) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let prefix = unsafe { self.key(key) }.ok_or(Errno::EINVAL)?;
        let mut counts = self.lock();
        // SAFETY: the prefix has the map's key size.
        unsafe { self.prefixes.delete(prefix.bytes.as_ptr()) }?;
        self.sub(&mut counts, prefix.len);
        Ok(())
    }

    /// Prefixes that there are.
    pub(super) fn len(&self) -> u32 {
        self.prefixes.len()
    }

    /// Copies of all prefixes, from specific to general: each after those that it is a prefix of.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        let mut all = self.prefixes.keys();
        all.sort_by(|a, b| specific_first(a, b));
        all
    }

    fn longest<T>(&self, key: Option<Key>, find: impl Fn(&Key) -> Option<T>) -> Option<T> {
        let mut prefix = key?;
        let mut limit = prefix.len;
        while let Some(len) = self.length_up_to(limit) {
            prefix.cut(len);
            if let Some(found) = find(&prefix) {
                return Some(found);
            }
            limit = len.checked_sub(1)?;
        }
        None
    }

    /// The greatest length of a prefix that there is, not past `limit`.
    fn length_up_to(&self, limit: u32) -> Option<u32> {
        let (top, bit) = (limit as usize / 64, limit % 64);
        let below = u64::MAX >> (63 - bit);
        let mut mask = below;
        for word in (0..=top).rev() {
            let bits = self.present[word].load(Ordering::Acquire) & mask;
            if bits != 0 {
                return Some(word as u32 * 64 + 63 - bits.leading_zeros());
            }
            mask = u64::MAX;
        }
        None
    }

    fn add(&self, counts: &mut [u32], len: u32) {
        counts[len as usize] += 1;
        self.present[len as usize / 64].fetch_or(1 << (len % 64), Ordering::AcqRel);
    }

    fn sub(&self, counts: &mut [u32], len: u32) {
        counts[len as usize] -= 1;
        if counts[len as usize] == 0 {
            self.present[len as usize / 64].fetch_and(!(1 << (len % 64)), Ordering::AcqRel);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Box<[u32]>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of a key, cut to its length; `None` where that is longer than the key.
    ///
    /// # Safety
    /// A key can be read at `key`.
    unsafe fn key(&self, key: *const u8) -> Option<Key> {
        let mut copy = Key {
            bytes: [0; PREFIX + MAX_DATA],
            len: 0,
        };
        // SAFETY: a key has so many bytes, and the copy has room for the longest.
        unsafe { memory::copy(copy.bytes.as_mut_ptr(), key, PREFIX + self.data) };
        let [a, b, c, d, ..] = copy.bytes;
        let len = u32::from_le_bytes([a, b, c, d]);
        if len as usize > 8 * self.data {
            return None;
        }
        copy.len = 8 * self.data as u32;
        copy.cut(len);
        Some(copy)
    }
}

impl Key {
    /// Shortens to `len` bits.
    fn cut(&mut self, len: u32) {
        let used = (self.len as usize).div_ceil(8);
        let data = &mut self.bytes[PREFIX..PREFIX + used];
        let whole = len as usize / 8;
        let tail = data.get_mut(whole..).and_then(|t| t.split_first_mut());
        if let Some((partial, rest)) = tail {
            *partial &= !(0xff >> (len % 8)) as u8;
            rest.fill(0);
        }
        self.len = len;
        self.bytes[..PREFIX].copy_from_slice(&len.to_le_bytes());
    }
}

/// The order of the kernel's iteration: a walk of the trie, left before right, both before their
/// parent.
fn specific_first(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let len = |key: &[u8]| key.first_chunk().map_or(0, |&l| u32::from_le_bytes(l));
    let (len_a, len_b) = (len(a), len(b));
    let bits = a[PREFIX..].iter().zip(&b[PREFIX..]);
    let mut common = 0;
    for (x, y) in bits {
        let same = (x ^ y).leading_zeros();
        common += same;
        if same < 8 {
            break;
        }
    }
    if common >= len_a.min(len_b) {
        return len_b.cmp(&len_a);
    }
    let bit = |key: &[u8]| key[PREFIX + common as usize / 8] >> (7 - common % 8) & 1;
    match (bit(a), bit(b)) {
        (0, 1) => Less,
        (1, 0) => Greater,
        _ => Equal,
    }
}
