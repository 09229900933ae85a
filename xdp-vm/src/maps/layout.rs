//! What a map's declaration must satisfy, and how much memory it takes: all of it known, and
//! refused where it is too much, before any is taken. Limits are the kernel's
//! (`array_map_alloc_check`, `htab_map_alloc_check`), the total is ours.

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

const NO_PREALLOC: u32 = 1;
const NUMA_NODE: u32 = 1 << 2;
pub(super) const RDONLY: u32 = 1 << 3;
pub(super) const WRONLY: u32 = 1 << 4;
pub(super) const ZERO_SEED: u32 = 1 << 6;
const RDONLY_PROG: u32 = 1 << 7;
const WRONLY_PROG: u32 = 1 << 8;
const MMAPABLE: u32 = 1 << 10;
const PRESERVE_ELEMS: u32 = 1 << 11;
const INNER_MAP: u32 = 1 << 12;
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
}

impl Layout {
    /// All memory, as far as it is in proportion to the map.
    fn total(&self) -> u64 {
        self.values + self.elements * self.element_stride + self.buckets * BUCKET
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

fn layout(spec: &MapSpec, cpus: u32) -> Result<Layout, String> {
    let percpu = spec.kind.is_percpu();
    let hash = matches!(spec.kind, MapKind::Hash | MapKind::PercpuHash);
    let allowed = match spec.kind {
        MapKind::Array => NUMA_NODE | MMAPABLE | PRESERVE_ELEMS | INNER_MAP | ACCESS,
        MapKind::PercpuArray => NUMA_NODE | PRESERVE_ELEMS | ACCESS,
        MapKind::Hash | MapKind::PercpuHash => NO_PREALLOC | NUMA_NODE | ZERO_SEED | ACCESS,
    };
    if spec.flags & !allowed != 0 {
        return Err(format!(
            "flags {:#x} do not go with its kind",
            spec.flags & !allowed
        ));
    }
    for (one, other) in [(RDONLY, WRONLY), (RDONLY_PROG, WRONLY_PROG)] {
        if spec.flags & one != 0 && spec.flags & other != 0 {
            return Err("it is both read-only and write-only".to_owned());
        }
    }
    if spec.max_entries == 0 {
        return Err("it has room for no entry".to_owned());
    }
    match hash {
        true if !(1..=MAX_KEY).contains(&spec.key_size) => {
            return Err(format!(
                "a key of {} bytes, not 1 to {MAX_KEY}",
                spec.key_size
            ));
        }
        false if spec.key_size != 4 => {
            return Err(format!(
                "a key of {} bytes, an array's has 4",
                spec.key_size
            ));
        }
        _ => {}
    }
    let most = if percpu { MAX_PERCPU_VALUE } else { MAX_VALUE };
    if !(1..=most).contains(&spec.value_size) {
        return Err(format!(
            "a value of {} bytes, not 1 to {most}",
            spec.value_size
        ));
    }
    if let Some(initial) = &spec.initial
        && (spec.kind != MapKind::Array || initial.len() > spec.value_size as usize)
    {
        return Err(format!(
            "{} initial bytes do not go with its kind or size",
            initial.len()
        ));
    }

    let entries = u64::from(spec.max_entries);
    let value_stride = u64::from(spec.value_size).next_multiple_of(8);
    let elements = if hash {
        entries + 2 * u64::from(cpus) + 8
    } else {
        0
    };
    let slots = if hash { elements } else { entries };
    let values = match (hash, percpu) {
        (true, false) => 0,
        _ => slots * value_stride,
    };
    // Not past 2^32 * 2^26: no overflow, nor after the multiplication by the number of CPUs below.
    let cpu_stride = if percpu {
        values.next_multiple_of(64)
    } else {
        0
    };
    let in_element = if percpu { 0 } else { value_stride };
    Ok(Layout {
        value_stride,
        cpu_stride,
        values: if percpu {
            cpu_stride.saturating_mul(u64::from(cpus))
        } else {
            values
        },
        elements,
        element_stride: match hash {
            true => HEADER + u64::from(spec.key_size).next_multiple_of(8) + in_element,
            false => 0,
        },
        buckets: if hash { entries.next_power_of_two() } else { 0 },
    })
}
