//! Hashes and per-CPU hashes, as the kernel has them: chains of elements in buckets, a lock a bucket
//! for those who change it, none for those who look up.
//!
//! All elements lie in one block that lives as long as the map, so a program may use the value it
//! found for as long as it runs, also after another deleted the entry: the element may then be
//! **recycled** for another key, never freed. Those who look up while that happens are kept right by
//! two things. The end of a chain says which bucket it is the end of: one who was led into another
//! chain notices and starts again. And an element counts its uses (`version`, odd while its key is
//! written): a key that was compared while it changed is compared again.
//!
//! An update of an entry puts a new element in front of the old one and then takes the old one out,
//! so that one who looks up finds one whole value or the other (per-CPU values are overwritten in
//! place, each only by its CPU). One who set out before the first and passed by after the second would
//! find neither, as happens in the kernel: here the bucket counts its replacements, and who finds
//! nothing looks again if there was one.
//!
//! A full **LRU** hash makes room for a new entry: a hand goes round the elements and takes the first
//! that was not looked up since it last came by. It holds one bucket at a time, never that of the new
//! key too.
#![allow(unsafe_code)]

mod chain;
mod elements;
mod lru;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::flags;
use super::layout::{self, Layout, MAX_KEY, ZERO_SEED};
use crate::errno::Errno;
use crate::memory::{self, Block};
use crate::{MapKind, MapSpec};
use chain::{END, REPLACED};
use lru::Lru;

const KEY_WORDS: usize = MAX_KEY as usize / 8;

/// A hash map.
#[derive(Debug)]
pub(crate) struct Hash {
    buckets: Block,
    mask: u32,
    seed: u64,
    elements: Block,
    element_stride: usize,
    key_size: usize,
    key_words: usize,
    value_size: usize,
    values: Values,
    entries: u32,
    /// Elements that there are.
    total: u32,
    /// Entries that there are.
    count: AtomicU32,
    /// Elements from this one on were never used.
    fresh: AtomicU32,
    /// Stack of used elements: number + 1 of the first in the low half, a count of changes in the
    /// high half, so that an element that left and came back is not taken for one that stayed.
    free: AtomicU64,
    lru: Option<Lru>,
}

/// Where the values are.
#[derive(Debug)]
enum Values {
    /// In the element, this far from its start.
    Inside(usize),
    /// In a block of its own, by CPU and element.
    Percpu {
        block: Block,
        cpu_stride: usize,
        value_stride: usize,
        cpus: u32,
    },
}

/// Times that an update of a full LRU hash makes room, before others are taken to be too many.
const EVICTIONS: u32 = 64;

impl Hash {
    /// `None` where memory is short.
    pub(super) fn new(spec: &MapSpec, layout: &Layout, cpus: u32) -> Option<Self> {
        let key_words = spec.key_size.div_ceil(8) as usize;
        let values = match layout.cpu_stride {
            0 => Values::Inside(layout::HEADER as usize + 8 * key_words),
            stride => Values::Percpu {
                block: Block::zeroed(layout.values as usize)?,
                cpu_stride: stride as usize,
                value_stride: layout.value_stride as usize,
                cpus,
            },
        };
        Some(Hash {
            buckets: Block::zeroed((layout.buckets * layout::BUCKET) as usize)?,
            mask: (layout.buckets - 1) as u32,
            seed: match spec.flags & ZERO_SEED {
                0 => RandomState::new().hash_one(&spec.name),
                _ => 0,
            },
            elements: Block::zeroed((layout.elements * layout.element_stride) as usize)?,
            element_stride: layout.element_stride as usize,
            key_size: spec.key_size as usize,
            key_words,
            value_size: match spec.kind {
                // The address of a map.
                MapKind::HashOfMaps => 8,
                _ => spec.value_size as usize,
            },
            values,
            entries: spec.max_entries,
            total: layout.elements as u32,
            count: AtomicU32::new(0),
            fresh: AtomicU32::new(0),
            free: AtomicU64::new(0),
            lru: match layout.marks {
                0 => None,
                bytes => Some(Lru {
                    marks: Block::zeroed(bytes as usize)?,
                    hand: AtomicU32::new(0),
                }),
            },
        })
    }

    /// The value of the key at `key` on `cpu`, or null.
    ///
    /// # Safety
    /// A key can be read at `key`; `cpu` is one that the map was made for.
    #[inline]
    pub(crate) unsafe fn lookup(&self, cpu: u32, key: *const u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        let found = unsafe { self.with_key(key, |key| self.find(key, self.hash(key))) };
        let Some(found) = found else {
            return std::ptr::null_mut();
        };
        if let Some(lru) = &self.lru {
            lru.touch(found.element);
        }
        self.value(cpu, found.element)
    }

    /// Sets an entry: on a per-CPU map the value of `cpu`, where a new entry is zero on the others.
    ///
    /// # Safety
    /// As for [`Hash::lookup`], and a value can be read at `value`.
    pub(super) unsafe fn update(
        &self,
        cpu: u32,
        key: *const u8,
        value: *const u8,
        flags: u64,
    ) -> Result<(), Errno> {
        let write = |element, new| {
            if let (true, Values::Percpu { cpus, .. }) = (new, &self.values) {
                for other in (0..*cpus).filter(|&c| c != cpu) {
                    // SAFETY: a value of an element.
                    unsafe { memory::zero(self.value(other, element), self.value_size) };
                }
            }
            // SAFETY: a value of an element; the caller's promise.
            unsafe { memory::copy(self.value(cpu, element), value, self.value_size) };
        };
        // SAFETY: the caller's promise.
        unsafe { self.with_key(key, |key| self.change(key, flags, write)) }.map(|_| ())
    }

    /// Sets an entry of a map that is not per-CPU; true where it is new.
    ///
    /// # Safety
    /// A key can be read at `key` and a value at `value`.
    pub(super) unsafe fn insert(
        &self,
        key: *const u8,
        value: *const u8,
        flags: u64,
    ) -> Result<bool, Errno> {
        // SAFETY: a value of an element; the caller's promise.
        let write = |element, _new| unsafe {
            memory::copy(self.value(0, element), value, self.value_size);
        };
        // SAFETY: the caller's promise.
        unsafe { self.with_key(key, |key| self.change(key, flags, write)) }
    }

    /// As [`Hash::insert`], with a value that `write` writes to the element's, which is recycled memory.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(super) unsafe fn insert_with(
        &self,
        key: *const u8,
        flags: u64,
        write: impl Fn(*mut u8),
    ) -> Result<(), Errno> {
        let write = |element, _new| write(self.value(0, element));
        // SAFETY: the caller's promise.
        unsafe { self.with_key(key, |key| self.change(key, flags, write)) }.map(|_| ())
    }

    /// Sets an entry of a per-CPU map on all CPUs.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(super) unsafe fn update_all(
        &self,
        key: *const u8,
        values: &[&[u8]],
        flags: u64,
    ) -> Result<(), Errno> {
        let write = |element, _new| {
            for (cpu, value) in values.iter().enumerate() {
                // SAFETY: a value of an element; there are as many as CPUs, each of the map's size.
                unsafe {
                    memory::copy(self.value(cpu as u32, element), value.as_ptr(), value.len())
                };
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.with_key(key, |key| self.change(key, flags, write)) }.map(|_| ())
    }

    /// Deletes an entry.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(super) unsafe fn delete(&self, key: *const u8) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe {
            self.with_key(key, |key| {
                let hash = self.hash(key);
                let _lock = self.lock(hash);
                let Some(found) = self.find(key, hash) else {
                    return Err(Errno::ENOENT);
                };
                self.unlink(hash, found.element);
                self.release(found.element);
                self.count.fetch_sub(1, Ordering::Relaxed);
                Ok(())
            })
        }
    }

    /// Copies of an entry's values: one, or one a CPU. `None` where there is no such entry.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(super) unsafe fn read(&self, key: *const u8) -> Option<Vec<Vec<u8>>> {
        let cpus = match &self.values {
            Values::Inside(_) => 1,
            Values::Percpu { cpus, .. } => *cpus,
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.with_key(key, |key| {
                loop {
                    let found = self.find(key, self.hash(key))?;
                    let values = (0..cpus)
                        .map(|cpu| memory::to_vec(self.value(cpu, found.element), self.value_size))
                        .collect();
                    // Values copied while the element went to another key are not this key's.
                    if self.unchanged(found) {
                        return Some(values);
                    }
                }
            })
        }
    }

    /// Copies of the keys in buckets from `bucket` on, up to the first bucket that has any, and the
    /// number of the bucket after it; `None` past the last.
    pub(super) fn keys_from(&self, mut bucket: u32) -> Option<(Vec<Vec<u8>>, u32)> {
        while bucket <= self.mask {
            let is_element = |link: u32| link != 0 && link & END == 0;
            let first = &self.bucket(bucket).first;
            if is_element(first.load(Ordering::Relaxed)) {
                let _lock = self.lock(bucket);
                let mut keys = Vec::new();
                let mut link = first.load(Ordering::Acquire);
                while is_element(link) {
                    // SAFETY: the key of an element, which holds still while its bucket is locked.
                    keys.push(unsafe { memory::to_vec(self.key(link - 1), self.key_size) });
                    link = self.element(link - 1).next.load(Ordering::Acquire);
                }
                if !keys.is_empty() {
                    return Some((keys, bucket + 1));
                }
            }
            bucket += 1;
        }
        None
    }

    /// Copies of all keys.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        let (mut all, mut bucket) = (Vec::new(), 0);
        while let Some((keys, next)) = self.keys_from(bucket) {
            all.extend(keys);
            bucket = next;
        }
        all
    }

    /// Entries that there are.
    pub(super) fn len(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Puts an entry in, or in place of another. `write` writes an element's value, and is told
    /// whether the element is new. True where the entry is.
    fn change(&self, key: &[u64], flags: u64, write: impl Fn(u32, bool)) -> Result<bool, Errno> {
        if flags > flags::EXIST {
            return Err(Errno::EINVAL);
        }
        let hash = self.hash(key);
        // A full LRU hash: others may take what was made free before this one gets to it.
        for _ in 0..EVICTIONS {
            match self.change_once(key, hash, flags, &write) {
                Err(Errno::E2BIG | Errno::ENOMEM) if self.evict() => {}
                done => return done,
            }
        }
        Err(Errno::ENOMEM)
    }

    fn change_once(
        &self,
        key: &[u64],
        hash: u32,
        flags: u64,
        write: &impl Fn(u32, bool),
    ) -> Result<bool, Errno> {
        let _lock = self.lock(hash);
        let old = self.find(key, hash);
        match (&old, flags) {
            (Some(_), flags::NOEXIST) => return Err(Errno::EEXIST),
            (None, flags::EXIST) => return Err(Errno::ENOENT),
            _ => {}
        }
        if let (Some(old), Values::Percpu { .. }) = (old, &self.values) {
            if let Some(lru) = &self.lru {
                lru.touch(old.element);
            }
            write(old.element, false);
            return Ok(false);
        }
        if old.is_none() {
            let reserved = self
                .count
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                    (n < self.entries).then_some(n + 1)
                });
            reserved.map_err(|_| Errno::E2BIG)?;
        }
        let Some(new) = self.take() else {
            // More threads update at once than the map was made for.
            if old.is_none() {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
            return Err(Errno::ENOMEM);
        };
        self.publish(new, key, hash, write);
        if let Some(old) = old {
            // Who misses the old element sees this, and with it the new one.
            let state = &self.bucket(hash & self.mask).state;
            let now = state.load(Ordering::Relaxed);
            state.store(now.wrapping_add(REPLACED), Ordering::Release);
            self.unlink(hash, old.element);
            self.release(old.element);
        }
        Ok(old.is_none())
    }

    #[inline(always)]
    fn hash(&self, key: &[u64]) -> u32 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut state = self.seed ^ self.key_size as u64;
        for word in key {
            let product =
                u128::from(state ^ word ^ ODD) * u128::from(ODD ^ self.seed.rotate_left(32) | 1);
            state = product as u64 ^ (product >> 64) as u64;
        }
        (state ^ (state >> 32)) as u32
    }

    /// Calls `f` with a copy of the key in words, the last filled with zeros: a key in shared memory
    /// must not change between being hashed and being stored.
    ///
    /// # Safety
    /// A key can be read at `key`.
    #[inline(always)]
    unsafe fn with_key<R>(&self, key: *const u8, f: impl FnOnce(&[u64]) -> R) -> R {
        // SAFETY: reads `key_size` bytes.
        unsafe {
            match self.key_size {
                4 => f(&[memory::load32(key)]),
                8 => f(&[memory::load64(key)]),
                size if size <= 16 => {
                    let mut words = [0u64; 2];
                    memory::copy(words.as_mut_ptr().cast(), key, size);
                    f(&words[..self.key_words])
                }
                size => {
                    let mut words = [0u64; KEY_WORDS];
                    memory::copy(words.as_mut_ptr().cast(), key, size);
                    f(&words[..self.key_words])
                }
            }
        }
    }
}
