//! Devmaps, cpumaps and xskmaps: where `bpf_redirect_map` may send a packet. The values are the
//! user's, in the kernel's layout: one word (an interface, a queue's size, a socket), and where the
//! declaration has 8 bytes another (the number of a program). What they mean is for whoever acts on
//! the verdict.
#![allow(unsafe_code)]

use super::flags;
use super::hash::Hash;
use super::layout::{Layout, SLOT};
use crate::errno::Errno;
use crate::memory::{self, Block};
use crate::{MapKind, MapSpec};

/// Longest queue of a cpumap's entry.
const MAX_QUEUE: u32 = 16384;

/// The entries of such a map.
#[derive(Debug)]
pub(crate) struct Targets {
    kind: MapKind,
    value_size: usize,
    entries: u32,
    slots: Slots,
}

#[derive(Debug)]
enum Slots {
    /// By index: the value, then a word that is not zero where there is one.
    Array(Block),
    Hash(Hash),
}

impl Targets {
    /// `None` where memory is short.
    pub(super) fn new(spec: &MapSpec, layout: &Layout, cpus: u32) -> Option<Self> {
        Some(Targets {
            kind: spec.kind,
            value_size: spec.value_size as usize,
            entries: spec.max_entries,
            slots: match spec.kind {
                MapKind::DevmapHash => Slots::Hash(Hash::new(spec, layout, cpus)?),
                _ => Slots::Array(Block::zeroed(layout.values as usize)?),
            },
        })
    }

    /// True where a packet can be sent to all entries.
    pub(crate) fn broadcasts(&self) -> bool {
        matches!(self.kind, MapKind::Devmap | MapKind::DevmapHash)
    }

    /// The words of an entry.
    #[inline]
    pub(crate) fn value(&self, key: u32) -> Option<[u32; 2]> {
        // SAFETY: four bytes.
        let at = unsafe { self.lookup(key.to_le_bytes().as_ptr()) };
        if at.is_null() {
            return None;
        }
        // SAFETY: a value has one word or two.
        unsafe {
            let second = match self.value_size {
                8 => memory::load32(at.add(4)) as u32,
                _ => 0,
            };
            Some([memory::load32(at) as u32, second])
        }
    }

    /// The address of an entry's value, or null.
    ///
    /// # Safety
    /// Four bytes can be read at `key`.
    pub(super) unsafe fn lookup(&self, key: *const u8) -> *mut u8 {
        match &self.slots {
            // SAFETY: the caller's promise; one value serves all CPUs.
            Slots::Hash(hash) => unsafe { hash.lookup(0, key) },
            Slots::Array(_) => {
                // SAFETY: the caller's promise.
                let slot = self.slot(unsafe { memory::load32(key) } as u32);
                slot.filter(|&slot| occupied(slot))
                    .unwrap_or(std::ptr::null_mut())
            }
        }
    }

    /// Sets an entry; a value whose first word is zero deletes it, where the kind has no such target.
    ///
    /// # Safety
    /// Four bytes can be read at `key` and a value at `value`.
    pub(super) unsafe fn update(
        &self,
        key: *const u8,
        value: *const u8,
        flags: u64,
    ) -> Result<(), Errno> {
        if flags > flags::EXIST {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's promise: at least one word.
        let first = unsafe { memory::load32(value) } as u32;
        let slot = match &self.slots {
            Slots::Hash(_) if first == 0 => return Err(Errno::EINVAL),
            // SAFETY: the caller's promise.
            Slots::Hash(hash) => return unsafe { hash.update(0, key, value, flags) },
            Slots::Array(_) => {
                // SAFETY: the caller's promise.
                let index = unsafe { memory::load32(key) } as u32;
                self.slot(index).ok_or(Errno::E2BIG)?
            }
        };
        match (self.kind, flags) {
            (MapKind::Xskmap, flags::NOEXIST) if occupied(slot) => return Err(Errno::EEXIST),
            (MapKind::Xskmap, flags::EXIST) if !occupied(slot) => return Err(Errno::ENOENT),
            // As for arrays, every entry of which is there.
            (MapKind::Devmap | MapKind::Cpumap, flags::NOEXIST) => return Err(Errno::EEXIST),
            (MapKind::Cpumap, _) if first > MAX_QUEUE => return Err(Errno::EOVERFLOW),
            _ => {}
        }
        let there = self.kind == MapKind::Xskmap || first != 0;
        // SAFETY: a slot has room for a value and the word after it.
        unsafe {
            memory::copy(slot, value, self.value_size);
            memory::store64(slot.add(8), u64::from(there));
        }
        Ok(())
    }

    /// Deletes an entry. Of an array, one that is not there is deleted all the same.
    ///
    /// # Safety
    /// Four bytes can be read at `key`.
    pub(super) unsafe fn delete(&self, key: *const u8) -> Result<(), Errno> {
        match &self.slots {
            // SAFETY: the caller's promise.
            Slots::Hash(hash) => unsafe { hash.delete(key) },
            Slots::Array(_) => {
                // SAFETY: the caller's promise.
                let index = unsafe { memory::load32(key) } as u32;
                let slot = self.slot(index).ok_or(Errno::EINVAL)?;
                // SAFETY: a slot.
                unsafe { memory::store64(slot.add(8), 0) };
                Ok(())
            }
        }
    }

    /// Keys of the entries that there are.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        match &self.slots {
            Slots::Hash(hash) => hash.keys(),
            Slots::Array(_) => (0..self.entries)
                .filter(|&index| self.slot(index).is_some_and(occupied))
                .map(|index| index.to_le_bytes().to_vec())
                .collect(),
        }
    }

    fn slot(&self, index: u32) -> Option<*mut u8> {
        match &self.slots {
            Slots::Array(block) if index < self.entries => {
                Some(block.base().wrapping_add(index as usize * SLOT as usize))
            }
            _ => None,
        }
    }
}

fn occupied(slot: *mut u8) -> bool {
    // SAFETY: callers hold a slot of the block.
    unsafe { memory::load64(slot.add(8)) != 0 }
}
