//! Maps of maps. A lookup gives an inner map, which a program may use for as long as it runs, also
//! after the user put another in its place: an inner map lives as long as the outer one that it was
//! ever put into.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use super::flags;
use super::hash::Hash;
use super::layout::{self, Layout, SLOT};
use super::{Map, MapError};
use crate::errno::Errno;
use crate::memory::{self, Block};
use crate::{MapKind, MapSpec};

/// The inner maps.
#[derive(Debug)]
pub(crate) struct Nested {
    entries: u32,
    slots: Slots,
    /// All that were ever put in.
    kept: Mutex<Vec<Arc<Map>>>,
}

/// Addresses of maps; zero for none.
#[derive(Debug)]
enum Slots {
    Array(Block),
    Hash(Hash),
}

impl Nested {
    /// `None` where memory is short.
    pub(super) fn new(spec: &MapSpec, layout: &Layout, cpus: u32) -> Option<Self> {
        Some(Nested {
            entries: spec.max_entries,
            slots: match spec.kind {
                MapKind::HashOfMaps => Slots::Hash(Hash::new(spec, layout, cpus)?),
                _ => Slots::Array(Block::zeroed(layout.values as usize)?),
            },
            kept: Mutex::default(),
        })
    }

    /// The address of the inner map that the key names, or null.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(crate) unsafe fn lookup(&self, key: *const u8) -> *mut u8 {
        // SAFETY: the caller's promise; a hash's value is an address.
        unsafe {
            let at = match &self.slots {
                Slots::Array(_) => self.slot(key),
                Slots::Hash(hash) => match hash.lookup(0, key) {
                    at if at.is_null() => None,
                    at => Some(at),
                },
            };
            at.map_or(std::ptr::null_mut(), |at| {
                memory::pointer(memory::load64(at))
            })
        }
    }

    /// Puts an inner map in, which was checked to be like the template.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(super) unsafe fn set(
        &self,
        key: *const u8,
        inner: &Arc<Map>,
        flags: u64,
    ) -> Result<(), Errno> {
        let address = Arc::as_ptr(inner).expose_provenance() as u64;
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if !kept.iter().any(|map| Arc::ptr_eq(map, inner)) {
                kept.push(inner.clone());
            }
        }
        match &self.slots {
            Slots::Hash(hash) => {
                let value = address.to_le_bytes();
                // SAFETY: the caller's promise; such a hash has values of 8 bytes.
                unsafe { hash.update(0, key, value.as_ptr(), flags) }
            }
            Slots::Array(_) => {
                if flags > flags::EXIST {
                    return Err(Errno::EINVAL);
                }
                // SAFETY: the caller's promise.
                let slot = unsafe { self.slot(key) }.ok_or(Errno::E2BIG)?;
                if flags == flags::NOEXIST {
                    return Err(Errno::EEXIST);
                }
                // SAFETY: a slot.
                unsafe { memory::store64(slot, address) };
                Ok(())
            }
        }
    }

    /// Takes the inner map out of its entry.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(super) unsafe fn delete(&self, key: *const u8) -> Result<(), Errno> {
        match &self.slots {
            // SAFETY: the caller's promise.
            Slots::Hash(hash) => unsafe { hash.delete(key) },
            Slots::Array(_) => {
                // SAFETY: the caller's promise.
                let slot = unsafe { self.slot(key) }.ok_or(Errno::E2BIG)?;
                // SAFETY: a slot.
                match unsafe { memory::load64(slot) } {
                    0 => Err(Errno::ENOENT),
                    _ => {
                        // SAFETY: a slot.
                        unsafe { memory::store64(slot, 0) };
                        Ok(())
                    }
                }
            }
        }
    }

    /// The inner map that the key names.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(super) unsafe fn get(&self, key: *const u8) -> Option<Arc<Map>> {
        // SAFETY: the caller's promise.
        let address = unsafe { self.lookup(key) };
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept
            .iter()
            .find(|map| Arc::as_ptr(map).cast() == address.cast_const());
        found.cloned()
    }

    /// Keys of the entries that hold a map.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        match &self.slots {
            Slots::Hash(hash) => hash.keys(),
            Slots::Array(_) => (0..self.entries)
                .map(|index| index.to_le_bytes().to_vec())
                // SAFETY: a key of four bytes.
                .filter(|key| unsafe { !self.lookup(key.as_ptr()).is_null() })
                .collect(),
        }
    }

    /// # Safety
    /// Four bytes can be read at `key`.
    unsafe fn slot(&self, key: *const u8) -> Option<*mut u8> {
        // SAFETY: the caller's promise.
        let index = unsafe { memory::load32(key) } as u32;
        match &self.slots {
            Slots::Array(block) if index < self.entries => {
                Some(block.base().wrapping_add(index as usize * SLOT as usize))
            }
            _ => None,
        }
    }
}

/// That `inner` may stand where the declaration says `template`: what was proved of one holds for the
/// other.
pub(super) fn fits(outer: &MapSpec, inner: &Map) -> Result<(), MapError> {
    let fail = |cause: String| MapError::Inner {
        map: outer.name.clone(),
        inner: inner.spec.name.clone(),
        cause,
    };
    let Some(template) = &outer.inner else {
        return Err(fail(
            "its declaration does not say what it holds".to_owned(),
        ));
    };
    let shape = |m: &MapSpec| (m.kind, m.key_size, m.value_size, m.flags);
    if shape(template) != shape(&inner.spec) {
        let text = |m: &MapSpec| {
            format!(
                "{} with keys of {}, values of {} bytes and flags {:#x}",
                m.kind.name(),
                m.key_size,
                m.value_size,
                m.flags
            )
        };
        return Err(fail(format!(
            "it is {}, and must be {}",
            text(&inner.spec),
            text(template)
        )));
    }
    let (wanted, there) = (template.max_entries, inner.spec.max_entries);
    if template.kind.is_array() && template.flags & layout::INNER_MAP == 0 && wanted != there {
        return Err(fail(format!(
            "it has {there} entries, and must have {wanted}"
        )));
    }
    if inner.spec.frozen {
        return Err(fail("its contents are part of a program".to_owned()));
    }
    Ok(())
}
