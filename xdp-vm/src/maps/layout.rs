//! What a map's declaration must satisfy, and how much memory it takes: all of it known, and
//! refused where it is too much, before any is taken. Limits are the kernel's
//! (`array_map_alloc_check`, `htab_map_alloc_check` and their like), the total is ours.

use super::MapError;
use crate::{MapKind, MapSpec};

/// Most bytes that the maps of one object may take together.
pub const MAX_BYTES: u64 = 4 << 30;
/// Most bytes of a hash key: a program builds it on its stack.
pub(super) const MAX_KEY: u32 = 512;
/// Most bytes of a value.
const MAX_VALUE: u32 = 64 << 20;
/// Most bytes of a value that each CPU has for itself (`PCPU_MIN_UNIT_SIZE`).
const MAX_PERCPU_VALUE: u32 = 32 << 10;
/// Bytes before the key in an element of a hash.
pub(super) const HEADER: u64 = 16;
/// Bytes of a bucket.
pub(super) const BUCKET: u64 = 8;

/// Bytes of a slot of the user's: a word, and another that says whether it holds something.
pub(super) const SLOT: u64 = 16;
/// Bytes of the prefix length that an LPM key starts with.
pub(super) const LPM_PREFIX: u32 = 4;
/// Most bytes that follow it.
pub(super) const MAX_LPM_DATA: u32 = 256;
/// Least bytes of a ring buffer.
const PAGE: u32 = 4096;

const NO_PREALLOC: u32 = 1;
const NO_COMMON_LRU: u32 = 1 << 1;
const NUMA_NODE: u32 = 1 << 2;
pub(super) const RDONLY: u32 = 1 << 3;
pub(super) const WRONLY: u32 = 1 << 4;
pub(super) const ZERO_SEED: u32 = 1 << 6;
const RDONLY_PROG: u32 = 1 << 7;
const WRONLY_PROG: u32 = 1 << 8;
const MMAPABLE: u32 = 1 << 10;
const PRESERVE_ELEMS: u32 = 1 << 11;
pub(super) const INNER_MAP: u32 = 1 << 12;
const ACCESS: u32 = RDONLY | WRONLY | RDONLY_PROG | WRONLY_PROG;

/// Sizes of a map's parts, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// From one value to the next.
    pub(super) value_stride: u64,
    /// From one CPU's values to the next CPU's; 0 where they share.
    pub(super) cpu_stride: u64,
    /// All values, of an array or a per-CPU hash.
    pub(super) values: u64,
    /// Elements of a hash: a few more than entries, since an update puts a new element in before it
    /// takes the old one out.
    pub(super) elements: u64,
    /// From one element to the next.
    pub(super) element_stride: u64,
    /// Buckets, a power of two.
    pub(super) buckets: u64,
    /// Bytes of marks of an LRU hash, one an element; else 0.
    pub(super) marks: u64,
}

impl Layout {
    /// All memory, as far as it is in proportion to the map.
    fn total(&self) -> u64 {
        self.values + self.elements * self.element_stride + self.buckets * BUCKET + self.marks
    }
}

/// Checks all declarations, and that there is room for them together.
pub(super) fn layouts(specs: &[MapSpec], cpus: u32) -> Result<Vec<Layout>, MapError> {
    let mut total = 0u64;
    let mut layouts = Vec::with_capacity(specs.len());
    for spec in specs {
        let layout = layout(spec, cpus).map_err(|cause| MapError::Declaration {
            map: spec.name.clone(),
            cause,
        })?;
        total = total.saturating_add(layout.total());
        if total > MAX_BYTES {
            return Err(MapError::TooLarge {
                map: spec.name.clone(),
                bytes: layout.total(),
                limit: MAX_BYTES,
            });
        }
        layouts.push(layout);
    }
    Ok(layouts)
}

impl MapSpec {
    /// Checks that a map can be made of the declaration, for workers `0..cpus`, and gives the bytes that
    /// it would take, as far as they are in proportion to it. Takes no memory.
    ///
    /// # Errors
    /// A declaration that its kind does not allow, or more memory than [`MAX_BYTES`].
    pub fn check(&self, cpus: usize) -> Result<u64, MapError> {
        let cpus = match cpus {
            1..=super::MAX_CPUS => cpus as u32,
            _ => return Err(MapError::Cpus { cpus }),
        };
        let layouts = layouts(std::slice::from_ref(self), cpus)?;
        Ok(layouts.iter().map(Layout::total).sum())
    }
}

fn layout(spec: &MapSpec, cpus: u32) -> Result<Layout, String> {
    use MapKind::*;
    let percpu = spec.kind.is_percpu();
    let shape = Shape::of(spec);
    let allowed = match spec.kind {
        Array => NUMA_NODE | MMAPABLE | PRESERVE_ELEMS | INNER_MAP | ACCESS,
        PercpuArray => NUMA_NODE | PRESERVE_ELEMS | ACCESS,
        Hash | PercpuHash => NO_PREALLOC | NUMA_NODE | ZERO_SEED | ACCESS,
        LruHash | LruPercpuHash => NO_COMMON_LRU | NUMA_NODE | ZERO_SEED | ACCESS,
        LpmTrie => NO_PREALLOC | NUMA_NODE | ACCESS,
        ArrayOfMaps => NUMA_NODE | ACCESS,
        HashOfMaps => NO_PREALLOC | NUMA_NODE | ZERO_SEED | ACCESS,
        ProgArray | PerfEventArray => NUMA_NODE | ACCESS,
        Devmap | DevmapHash | Xskmap => NUMA_NODE | RDONLY | WRONLY,
        Cpumap | Ringbuf => NUMA_NODE,
        Queue | Stack => NUMA_NODE | ACCESS,
        BloomFilter => NUMA_NODE | ZERO_SEED | ACCESS,
    };
    if spec.flags & !allowed != 0 {
        return Err(format!(
            "flags {:#x} do not go with its kind",
            spec.flags & !allowed
        ));
    }
    if spec.kind == LpmTrie && spec.flags & NO_PREALLOC == 0 {
        return Err("its kind needs the flag BPF_F_NO_PREALLOC (1)".to_owned());
    }
    for (one, other) in [(RDONLY, WRONLY), (RDONLY_PROG, WRONLY_PROG)] {
        if spec.flags & one != 0 && spec.flags & other != 0 {
            return Err("it is both read-only and write-only".to_owned());
        }
    }
    // As many as there are CPUs, where nothing is said.
    if spec.max_entries == 0 && spec.kind != PerfEventArray {
        return Err("it has room for no entry".to_owned());
    }
    check_sizes(spec)?;
    check_inner(spec)?;
    if let Some(initial) = &spec.initial
        && (spec.kind != Array || initial.len() > spec.value_size as usize)
    {
        return Err(format!(
            "{} initial bytes do not go with its kind or size",
            initial.len()
        ));
    }

    let entries = u64::from(spec.max_entries);
    let mut layout = Layout {
        value_stride: u64::from(spec.value_size).next_multiple_of(8),
        cpu_stride: 0,
        values: 0,
        elements: 0,
        element_stride: 0,
        buckets: 0,
        marks: 0,
    };
    match shape {
        Shape::Array | Shape::Hash => {}
        Shape::Slots => {
            layout.value_stride = SLOT;
            layout.values = entries.max(u64::from(cpus)) * SLOT;
            return Ok(layout);
        }
        Shape::Ring => {
            // Records near its end go on behind it.
            layout.values = 2 * entries;
            return Ok(layout);
        }
        Shape::Queue => {
            layout.values = entries * layout.value_stride;
            return Ok(layout);
        }
        Shape::Bits => {
            layout.values = bloom_bits(spec) / 8;
            return Ok(layout);
        }
    }
    let hash = shape == Shape::Hash;
    if matches!(spec.kind, HashOfMaps | DevmapHash) {
        layout.value_stride = 8;
    }
    if hash {
        layout.elements = entries + 2 * u64::from(cpus) + 8;
        layout.buckets = entries.next_power_of_two();
        let in_element = if percpu { 0 } else { layout.value_stride };
        layout.element_stride = HEADER + u64::from(spec.key_size).next_multiple_of(8) + in_element;
        if matches!(spec.kind, LruHash | LruPercpuHash) {
            layout.marks = layout.elements;
        }
    }
    let slots = if hash { layout.elements } else { entries };
    // Not past 2^32 * 2^26: no overflow, nor after the multiplication by the number of CPUs below.
    let values = slots * layout.value_stride;
    if percpu {
        layout.cpu_stride = values.next_multiple_of(64);
        layout.values = layout.cpu_stride.saturating_mul(u64::from(cpus));
    } else if !hash {
        layout.values = values;
    }
    Ok(layout)
}

/// What a map's memory is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Values by index.
    Array,
    /// Elements by key.
    Hash,
    /// A few words of the user's by index.
    Slots,
    /// One ring of bytes.
    Ring,
    /// Values one after the other.
    Queue,
    /// Bits.
    Bits,
}

impl Shape {
    fn of(spec: &MapSpec) -> Self {
        use MapKind::*;
        match spec.kind {
            Array | PercpuArray => Shape::Array,
            Hash | PercpuHash | LruHash | LruPercpuHash | LpmTrie | HashOfMaps | DevmapHash => {
                Shape::Hash
            }
            ArrayOfMaps | ProgArray | PerfEventArray | Devmap | Cpumap | Xskmap => Shape::Slots,
            Ringbuf => Shape::Ring,
            Queue | Stack => Shape::Queue,
            BloomFilter => Shape::Bits,
        }
    }
}

/// Sizes of key and value that the kind allows.
fn check_sizes(spec: &MapSpec) -> Result<(), String> {
    use MapKind::*;
    let (least_key, most_key) = match spec.kind {
        Hash | PercpuHash | LruHash | LruPercpuHash | HashOfMaps => (1, MAX_KEY),
        LpmTrie => (LPM_PREFIX + 1, LPM_PREFIX + MAX_LPM_DATA),
        Queue | Stack | BloomFilter | Ringbuf => (0, 0),
        _ => (4, 4),
    };
    check("key", spec.key_size, least_key, most_key)?;
    let (least, most) = match spec.kind {
        ArrayOfMaps | HashOfMaps | ProgArray | PerfEventArray | Xskmap => (4, 4),
        Devmap | DevmapHash | Cpumap => (4, 8),
        Ringbuf => (0, 0),
        _ if spec.kind.is_percpu() => (1, MAX_PERCPU_VALUE),
        _ => (1, MAX_VALUE),
    };
    check("value", spec.value_size, least, most)?;
    if spec.kind.is_targets() && !spec.value_size.is_multiple_of(4) {
        return Err(format!("a value of {} bytes, not 4 or 8", spec.value_size));
    }
    if let Some(lock) = spec.spin_lock {
        if !matches!(spec.kind, Array | Hash) {
            return Err("its values have a spin lock, and its kind allows none".to_owned());
        }
        let end = lock.checked_add(super::lock::SIZE as u32);
        if lock % 4 != 0 || end.is_none_or(|end| end > spec.value_size) {
            return Err(format!("a spin lock at byte {lock} of its values"));
        }
    }
    let size = spec.max_entries;
    if spec.kind == Ringbuf && !(size.is_power_of_two() && size >= PAGE) {
        return Err(format!(
            "a ring of {size} bytes (max_entries): not a power of two from {PAGE} on"
        ));
    }
    if spec.kind == BloomFilter && spec.extra > 15 {
        return Err(format!("{} hash functions, at most 15", spec.extra));
    }
    Ok(())
}

/// What a map of maps holds, and what is put where.
fn check_inner(spec: &MapSpec) -> Result<(), String> {
    if spec.slots.iter().any(|&(key, _)| key >= spec.max_entries) {
        return Err("the object puts more into it than it has room for".to_owned());
    }
    if !spec.slots.is_empty() && spec.key_size != 4 {
        return Err("the object fills it by index, and its keys are no indices".to_owned());
    }
    match (&spec.inner, spec.kind.is_of_maps()) {
        (None, false) => Ok(()),
        (Some(_), false) => Err("its kind holds no maps".to_owned()),
        (None, true) => Err("its declaration does not say what maps it holds".to_owned()),
        (Some(inner), true) if holds_more_than_values(inner.kind) => Err(format!(
            "a map of kind {} cannot be in it",
            inner.kind.name()
        )),
        (Some(inner), true) => layout(inner, 1)
            .map(|_| ())
            .map_err(|cause| format!("its inner map: {cause}")),
    }
}

/// Kinds that the kernel lets be no inner maps.
fn holds_more_than_values(kind: MapKind) -> bool {
    kind.is_of_maps() || kind == MapKind::ProgArray
}

fn check(what: &str, size: u32, least: u32, most: u32) -> Result<(), String> {
    match size {
        _ if (least..=most).contains(&size) => Ok(()),
        _ if least == most => Err(format!("a {what} of {size} bytes, its kind has {least}")),
        _ => Err(format!("a {what} of {size} bytes, not {least} to {most}")),
    }
}

/// Hash functions of a bloom filter.
pub(super) fn bloom_hashes(spec: &MapSpec) -> u64 {
    match spec.extra {
        0 => 5,
        n => n,
    }
}

/// Bits of a bloom filter: entries times functions by the logarithm of 2, up to a power of two, and at
/// most 2^32.
pub(super) fn bloom_bits(spec: &MapSpec) -> u64 {
    let bits = u64::from(spec.max_entries) * bloom_hashes(spec) * 7 / 5;
    bits.next_power_of_two().clamp(64, 1 << 32)
}
