//! Maps: what programs and their users share. Array, per-CPU array, hash and per-CPU hash with the
//! kernel's semantics for flags, limits and errors.
//!
//! A program holds the address of a value for as long as it runs, so memory of a map is never freed
//! while the map lives. Arrays are accessed without a lock; a hash locks a bucket for updates and
//! deletions, and nothing for a lookup. "CPU" is a worker's slot, `0..cpus`.
//!
//! ```
//! use xdp_vm::{MapKind, MapSpec, Maps, Update};
//! let spec = MapSpec {
//!     name: "hits".into(),
//!     kind: MapKind::Hash,
//!     key_size: 4,
//!     value_size: 8,
//!     max_entries: 16,
//!     flags: 0,
//!     initial: None,
//!     frozen: false,
//!     variables: vec![],
//! };
//! let maps = Maps::create(&[spec], 2)?;
//! let hits = maps.get("hits").unwrap();
//! hits.update(&[10, 0, 0, 1], &7u64.to_le_bytes(), Update::Any)?;
//! assert_eq!(hits.lookup(&[10, 0, 0, 1])?, Some(7u64.to_le_bytes().to_vec()));
//! # Ok::<(), xdp_vm::MapError>(())
//! ```
#![allow(unsafe_code)]

mod array;
mod hash;
mod layout;
#[cfg(test)]
mod tests;
mod user;

use std::sync::Arc;

use thiserror::Error;

pub use layout::MAX_BYTES;
pub use user::Keys;

pub(crate) use array::Array;
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_imports))]
pub(crate) use array::ArrayShape;
pub(crate) use hash::Hash;

use crate::errno::Errno;
use crate::{MapKind, MapSpec};

/// Flags of an update (`BPF_ANY`, `BPF_NOEXIST`, `BPF_EXIST`).
pub(crate) mod flags {
    pub(crate) const NOEXIST: u64 = 1;
    pub(crate) const EXIST: u64 = 2;
}

/// Most workers that per-CPU maps can be made for.
pub const MAX_CPUS: usize = 4096;

/// What an update may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Update {
    /// Create the entry or overwrite it (`BPF_ANY`).
    #[default]
    Any,
    /// Create it (`BPF_NOEXIST`).
    NoExist,
    /// Overwrite it (`BPF_EXIST`).
    Exist,
}

/// Why a map cannot be made, or an operation on it fails.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MapError {
    #[error("map {map} cannot be made: {cause}")]
    Declaration { map: String, cause: String },
    #[error(
        "map {map} takes {bytes} bytes; all maps together may take {limit}: lower its max_entries"
    )]
    TooLarge { map: String, bytes: u64, limit: u64 },
    #[error("map {map}: the system has not enough memory; lower its max_entries")]
    OutOfMemory { map: String },
    #[error("maps for {cpus} workers, not 1 to {MAX_CPUS}")]
    Cpus { cpus: usize },
    #[error("map {map}: a key of {given} bytes, it has {size}")]
    KeySize {
        map: String,
        given: usize,
        size: u32,
    },
    #[error("map {map}: a value of {given} bytes, it has {size}")]
    ValueSize {
        map: String,
        given: usize,
        size: u32,
    },
    #[error("map {map}: values for {given} CPUs, it has {cpus}")]
    Values {
        map: String,
        given: usize,
        cpus: u32,
    },
    #[error("map {map} has a value for each CPU; look them up together")]
    Percpu { map: String },
    #[error("map {map} has one value for all CPUs")]
    NotPercpu { map: String },
    #[error("map {map} is frozen: its contents are part of the program, set them before loading")]
    Frozen { map: String },
    #[error("map {map}: {operation} failed: {errno}")]
    Failed {
        map: String,
        operation: &'static str,
        errno: Errno,
    },
}

/// The maps of one object, shared by its programs, the workers, and the user. Clones are the same
/// maps.
#[derive(Clone, Debug)]
pub struct Maps {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    maps: Box<[Map]>,
    cpus: u32,
}

/// One map.
#[derive(Debug)]
pub struct Map {
    spec: MapSpec,
    cpus: u32,
    storage: Storage,
}

#[derive(Debug)]
pub(crate) enum Storage {
    Array(Array),
    Hash(Hash),
}

impl Maps {
    /// Makes maps with their initial contents, in the order of `specs`, for workers `0..cpus`.
    ///
    /// # Errors
    /// A declaration that its kind does not allow, more memory than [`MAX_BYTES`] (nothing was taken
    /// then), or than the system has.
    pub fn create(specs: &[MapSpec], cpus: usize) -> Result<Maps, MapError> {
        if !(1..=MAX_CPUS).contains(&cpus) {
            return Err(MapError::Cpus { cpus });
        }
        let cpus = cpus as u32;
        let layouts = layout::layouts(specs, cpus)?;
        let maps = specs.iter().zip(&layouts).map(|(spec, layout)| {
            let storage = match spec.kind {
                MapKind::Array | MapKind::PercpuArray => {
                    Array::new(spec, layout).map(Storage::Array)
                }
                MapKind::Hash | MapKind::PercpuHash => {
                    Hash::new(spec, layout, cpus).map(Storage::Hash)
                }
            };
            Ok(Map {
                spec: spec.clone(),
                cpus,
                storage: storage.ok_or_else(|| MapError::OutOfMemory {
                    map: spec.name.clone(),
                })?,
            })
        });
        let maps = maps.collect::<Result<Box<[Map]>, _>>()?;
        Ok(Maps {
            inner: Arc::new(Inner { maps, cpus }),
        })
    }

    /// The first map of that name.
    pub fn get(&self, name: &str) -> Option<&Map> {
        self.iter().find(|m| m.spec.name == name)
    }

    /// The map of that index in [`Object::maps`](crate::Object::maps).
    pub fn at(&self, index: usize) -> Option<&Map> {
        self.inner.maps.get(index)
    }

    /// All maps, in the order of their declarations.
    pub fn iter(&self) -> impl Iterator<Item = &Map> {
        self.inner.maps.iter()
    }

    /// Workers that the maps are for.
    pub fn cpus(&self) -> u32 {
        self.inner.cpus
    }
}

/// What helpers and engines do. Pointers are of programs, and the verifier vouches for them.
impl Map {
    #[inline(always)]
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The address of the value that the key names on `cpu`, or null.
    ///
    /// # Safety
    /// A key can be read at `key`; `cpu` is less than the CPUs that the map was made for.
    #[inline(always)]
    pub(crate) unsafe fn lookup_raw(&self, cpu: u32, key: *const u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.storage {
                Storage::Array(array) => array.lookup(cpu, key),
                Storage::Hash(hash) => hash.lookup(cpu, key),
            }
        }
    }

    /// Sets the value that the key names on `cpu`.
    ///
    /// # Safety
    /// As for [`Map::lookup_raw`], and a value can be read at `value`.
    pub(crate) unsafe fn update_raw(
        &self,
        cpu: u32,
        key: *const u8,
        value: *const u8,
        flags: u64,
    ) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.storage {
                Storage::Array(array) => array.update(cpu, key, value, flags),
                Storage::Hash(hash) => hash.update(cpu, key, value, flags),
            }
        }
    }

    /// Deletes the entry that the key names.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(crate) unsafe fn delete_raw(&self, key: *const u8) -> Result<(), Errno> {
        match &self.storage {
            Storage::Array(_) => Err(Errno::EINVAL),
            // SAFETY: the caller's promise.
            Storage::Hash(hash) => unsafe { hash.delete(key) },
        }
    }

    /// The address of byte `offset` of entry 0 of a plain array: of a global variable.
    pub(crate) fn address(&self, offset: u32) -> Option<*mut u8> {
        match &self.storage {
            Storage::Array(array)
                if self.spec.kind == MapKind::Array && offset <= self.spec.value_size =>
            {
                Some(array.value(0, 0).wrapping_add(offset as usize))
            }
            _ => None,
        }
    }
}
