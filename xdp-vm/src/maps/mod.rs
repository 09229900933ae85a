//! Maps: what programs and their users share, with the kernel's semantics for flags, limits and
//! errors. Arrays and hashes, plain and per CPU; LRU hashes; LPM tries; maps of maps; program arrays;
//! queues, stacks and bloom filters; perf event arrays and ring buffers; and devmaps, cpumaps and
//! xskmaps, which say where a packet may go ([`Redirect`](crate::Redirect)).
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
//!     ..MapSpec::default()
//! };
//! let maps = Maps::create(&[spec], 2)?;
//! let hits = maps.get("hits").unwrap();
//! hits.update(&[10, 0, 0, 1], &7u64.to_le_bytes(), Update::Any)?;
//! assert_eq!(hits.lookup(&[10, 0, 0, 1])?, Some(7u64.to_le_bytes().to_vec()));
//! # Ok::<(), xdp_vm::MapError>(())
//! ```
#![allow(unsafe_code)]

mod array;
mod bloom;
mod events;
mod hash;
mod layout;
pub(crate) mod lock;
mod lpm;
mod nested;
mod programs;
mod queue;
mod ring;
mod targets;
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
pub(crate) use ring::{FORCE_WAKEUP, NO_WAKEUP, Ring};

use bloom::Bloom;
use events::Events;
use lpm::Lpm;
use nested::Nested;
use programs::Programs;
use queue::Queue;
use targets::Targets;

use crate::errno::Errno;
use crate::program::Slot;
use crate::{Executable, MapKind, MapSpec};

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
    #[error("map {inner} cannot be put into {map}: {cause}")]
    Inner {
        map: String,
        inner: String,
        cause: String,
    },
    #[error("map {map} is {kind}, which has no {operation}")]
    Kind {
        map: String,
        kind: &'static str,
        operation: &'static str,
    },
    #[error("no map is named {name}")]
    NoMap { name: String },
    #[error("program {program} is for {given} workers, map {map} for {cpus}")]
    ProgramCpus {
        map: String,
        program: String,
        given: u32,
        cpus: u32,
    },
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
    maps: Box<[Arc<Map>]>,
    cpus: u32,
}

/// One map.
#[derive(Debug)]
pub struct Map {
    spec: MapSpec,
    index: u32,
    cpus: u32,
    storage: Storage,
}

#[derive(Debug)]
pub(crate) enum Storage {
    Array(Array),
    /// Also of LRU hashes.
    Hash(Hash),
    Lpm(Lpm),
    Nested(Nested),
    Programs(Programs),
    Targets(Targets),
    Queue(Queue),
    Bloom(Bloom),
    Events(Events),
    Ringbuf(Ring),
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
        let maps = specs.iter().zip(&layouts).zip(0..);
        let maps = maps.map(|((spec, layout), index)| {
            Ok(Arc::new(Map {
                spec: spec.clone(),
                index,
                cpus,
                storage: Storage::new(spec, layout, cpus).ok_or_else(|| MapError::OutOfMemory {
                    map: spec.name.clone(),
                })?,
            }))
        });
        let maps = maps.collect::<Result<Box<[Arc<Map>]>, _>>()?;
        for map in &maps {
            for (key, slot) in &map.spec.slots {
                if let Slot::Map(inner) = slot {
                    let inner = maps.get(*inner).ok_or_else(|| MapError::NoMap {
                        name: format!("number {inner}"),
                    })?;
                    map.set_inner(&key.to_le_bytes(), inner, Update::Any)?;
                }
            }
        }
        Ok(Maps {
            inner: Arc::new(Inner { maps, cpus }),
        })
    }

    /// Puts `program` into entry `index` of the program array `map`: what a tail call to it runs from
    /// now on. A program taken out or replaced is freed with the array, as it may still be running.
    ///
    /// # Errors
    /// There is no such map, it is no program array, the index is past its end, or the program was
    /// made for fewer workers.
    pub fn set_program(&self, map: &str, index: u32, program: &Executable) -> Result<(), MapError> {
        let map = self.get(map).ok_or_else(|| MapError::NoMap {
            name: map.to_owned(),
        })?;
        let own = Arc::ptr_eq(&self.inner, &program.maps().inner);
        map.set_program(index, program, own)
    }

    /// Puts each of `programs` into the program arrays where the object names it. Gives the number of
    /// entries that were filled.
    ///
    /// # Errors
    /// As [`Maps::set_program`].
    pub fn link<'p>(
        &self,
        programs: impl IntoIterator<Item = &'p Executable>,
    ) -> Result<usize, MapError> {
        let mut filled = 0;
        for program in programs {
            let own = Arc::ptr_eq(&self.inner, &program.maps().inner);
            for map in self.iter() {
                for (index, slot) in &map.spec.slots {
                    if matches!(slot, Slot::Program(name) if name == program.name()) {
                        map.set_program(*index, program, own)?;
                        filled += 1;
                    }
                }
            }
        }
        Ok(filled)
    }

    /// The first map of that name.
    pub fn get(&self, name: &str) -> Option<&Map> {
        self.iter().find(|m| m.spec.name == name)
    }

    /// As [`Maps::get`], to be put into a map of maps.
    pub fn shared(&self, name: &str) -> Option<Arc<Map>> {
        let found = self.inner.maps.iter().find(|m| m.spec.name == name);
        found.cloned()
    }

    /// The map of that index in [`Object::maps`](crate::Object::maps).
    pub fn at(&self, index: usize) -> Option<&Map> {
        self.inner.maps.get(index).map(|map| &**map)
    }

    /// All maps, in the order of their declarations.
    pub fn iter(&self) -> impl Iterator<Item = &Map> {
        self.inner.maps.iter().map(|map| &**map)
    }

    /// Workers that the maps are for.
    pub fn cpus(&self) -> u32 {
        self.inner.cpus
    }
}

impl Storage {
    /// `None` where memory is short.
    fn new(spec: &MapSpec, layout: &layout::Layout, cpus: u32) -> Option<Self> {
        Some(match spec.kind {
            MapKind::Array | MapKind::PercpuArray => Storage::Array(Array::new(spec, layout)?),
            MapKind::Hash | MapKind::PercpuHash | MapKind::LruHash | MapKind::LruPercpuHash => {
                Storage::Hash(Hash::new(spec, layout, cpus)?)
            }
            MapKind::LpmTrie => Storage::Lpm(Lpm::new(spec, layout, cpus)?),
            MapKind::ArrayOfMaps | MapKind::HashOfMaps => {
                Storage::Nested(Nested::new(spec, layout, cpus)?)
            }
            MapKind::ProgArray => Storage::Programs(Programs::new(spec.max_entries, layout)?),
            MapKind::Devmap | MapKind::DevmapHash | MapKind::Cpumap | MapKind::Xskmap => {
                Storage::Targets(Targets::new(spec, layout, cpus)?)
            }
            MapKind::Queue | MapKind::Stack => Storage::Queue(Queue::new(spec, layout)?),
            MapKind::BloomFilter => Storage::Bloom(Bloom::new(spec, layout)?),
            MapKind::PerfEventArray => {
                // As many as there are CPUs, where nothing is said.
                let entries = match spec.max_entries {
                    0 => cpus,
                    entries => entries,
                };
                Storage::Events(Events::new(entries, cpus))
            }
            MapKind::Ringbuf => Storage::Ringbuf(Ring::new(u64::from(spec.max_entries))?),
        })
    }
}

/// What helpers and engines do. Pointers are of programs, and the verifier vouches for them; also that
/// a helper is only given kinds of map that it goes with.
impl Map {
    #[inline(always)]
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Its number among the maps it was made with.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Workers that it is for.
    #[inline(always)]
    pub(crate) fn cpus(&self) -> u32 {
        self.cpus
    }

    /// The address of the value, or of the inner map, that the key names on `cpu`, or null.
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
                other => other.lookup_other(key),
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
            if let Some(lock) = self.spec.spin_lock {
                return self.update_with_lock(lock as usize, key, value, flags);
            }
            match &self.storage {
                Storage::Array(array) => array.update(cpu, key, value, flags),
                Storage::Hash(hash) => hash.update(cpu, key, value, flags),
                Storage::Lpm(lpm) => lpm.update(key, value, flags),
                Storage::Targets(targets) => targets.update(key, value, flags),
                _ => Err(Errno::EOPNOTSUPP),
            }
        }
    }

    /// Deletes the entry that the key names.
    ///
    /// # Safety
    /// A key can be read at `key`.
    pub(crate) unsafe fn delete_raw(&self, key: *const u8) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.storage {
                Storage::Array(_) => Err(Errno::EINVAL),
                Storage::Hash(hash) => hash.delete(key),
                Storage::Lpm(lpm) => lpm.delete(key),
                Storage::Targets(targets) => targets.delete(key),
                Storage::Nested(nested) => nested.delete(key),
                Storage::Programs(programs) => programs.delete(crate::memory::load32(key) as u32),
                _ => Err(Errno::EOPNOTSUPP),
            }
        }
    }

    /// Adds a value to a queue, a stack or a bloom filter.
    ///
    /// # Safety
    /// A value can be read at `value`.
    pub(crate) unsafe fn push_raw(&self, value: *const u8, flags: u64) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.storage {
                Storage::Queue(queue) => queue.push(value, flags),
                Storage::Bloom(bloom) => bloom.push(value, flags),
                _ => Err(Errno::EOPNOTSUPP),
            }
        }
    }

    /// Copies the next value of a queue or a stack to `value`, and takes it out where `remove`; asks a
    /// bloom filter for the one there.
    ///
    /// # Safety
    /// A value can be written at `value`; read, where it is a bloom filter.
    pub(crate) unsafe fn take_raw(&self, value: *mut u8, remove: bool) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.storage {
                Storage::Queue(queue) => queue.take(value, remove),
                Storage::Bloom(bloom) if !remove => bloom.peek(value),
                _ => Err(Errno::EOPNOTSUPP),
            }
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

impl Storage {
    /// # Safety
    /// As for [`Map::lookup_raw`].
    unsafe fn lookup_other(&self, key: *const u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Storage::Lpm(lpm) => lpm.lookup(key),
                Storage::Nested(nested) => nested.lookup(key),
                Storage::Targets(targets) => targets.lookup(key),
                _ => std::ptr::null_mut(),
            }
        }
    }
}
