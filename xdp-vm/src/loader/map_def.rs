//! What a map is declared as: the type of a variable (`.maps`), or the words of the older section.

use super::btf::{Btf, Kind};
use super::{LoadError, shape};
use crate::{MapKind, MapSpec};

/// Fields of one BTF map definition are a dozen; far more are an attack.
const MAX_FIELDS: usize = 64;
/// Smallest definition in the older section: kind, key, value, entries, flags.
const LEGACY_LEN: usize = 20;
/// `LIBBPF_PIN_BY_NAME`.
const PIN_BY_NAME: u32 = 1;
/// Least bytes of a ring buffer.
const PAGE: u32 = 4096;

/// What a definition says.
pub(super) struct Definition {
    pub(super) spec: MapSpec,
    /// Bytes from the variable's start to its entries, where it may have some.
    pub(super) values: Option<u32>,
}

/// Reads a map's definition from the type of its variable: a struct whose members say a number as
/// the length of an array pointed to (`__uint`), a type as the target of a pointer (`__type`), or
/// what the map holds as an array of pointers (`__array`).
pub(super) fn read(btf: &Btf, variable: u32, name: &str) -> Result<Definition, LoadError> {
    definition(btf, variable, name, true)
}

fn definition(btf: &Btf, id: u32, name: &str, outer: bool) -> Result<Definition, LoadError> {
    let fail = |cause: String| LoadError::Map {
        map: name.to_owned(),
        cause,
    };
    let Some(Kind::Composite { members, .. }) = btf.plain(id).map(|t| &t.kind) else {
        return Err(fail("its definition is not a struct".to_owned()));
    };
    if members.len() > MAX_FIELDS {
        return Err(fail(format!("its definition has {} fields", members.len())));
    }
    let mut kind = 0;
    let (mut extra, mut pinned) = (0, false);
    let mut spin_lock = None;
    let (mut values, mut inner) = (None, None);
    let (mut key, mut value) = (None, None);
    let mut fields = [0u32; 4];
    let [key_size, value_size, max_entries, flags] = &mut fields;
    for member in members {
        let field = btf.string(member.name);
        let number =
            || number(btf, member.of).ok_or_else(|| fail(format!("field {field} is not a number")));
        let size = || {
            size_behind(btf, member.of)
                .ok_or_else(|| fail(format!("field {field} is not a type with a size")))
        };
        match field {
            "type" => kind = number()?,
            "key_size" => *key_size = number()?,
            "value_size" => *value_size = number()?,
            "key" => {
                *key_size = size()?;
                key = shape::behind(btf, member.of);
            }
            "value" => {
                *value_size = size()?;
                value = shape::behind(btf, member.of);
                spin_lock = lock_in(btf, member.of).map_err(&fail)?;
            }
            "max_entries" => *max_entries = number()?,
            "map_flags" => *flags = number()?,
            "map_extra" => extra = u64::from(number()?),
            "pinning" => pinned = number()? == PIN_BY_NAME,
            // Which NUMA node a map lives on says nothing of its contents.
            "numa_node" => {}
            "values" if outer => {
                values = Some(member.offset / 8);
                // 4, as the kernel has it: a descriptor's number.
                *value_size = 4;
                inner = inner_map(btf, member.of, name)?;
            }
            other => return Err(fail(format!("its definition has an unknown field {other}"))),
        }
    }
    let mut spec = spec(name, kind, fields)?;
    spec.extra = extra;
    spec.pinned = pinned;
    spec.key = key;
    spec.value = value;
    spec.spin_lock = spin_lock;
    if spec.kind.is_of_maps() {
        spec.inner = inner.map(Box::new);
    }
    if spec.kind == MapKind::Ringbuf {
        // Machines differ in their pages; loaders make it fit.
        spec.max_entries = spec
            .max_entries
            .max(PAGE)
            .checked_next_power_of_two()
            .unwrap_or(spec.max_entries);
    }
    Ok(Definition { spec, values })
}

/// What the pointers in a map of maps point to; `None` for those of a program array.
fn inner_map(btf: &Btf, values: u32, name: &str) -> Result<Option<MapSpec>, LoadError> {
    let pointed = match btf.plain(values).map(|t| &t.kind) {
        Some(Kind::Array { element, .. }) => match btf.plain(*element).map(|t| &t.kind) {
            Some(Kind::Pointer { to }) => Some(*to),
            _ => None,
        },
        _ => None,
    };
    let Some(to) = pointed else {
        return Err(LoadError::Map {
            map: name.to_owned(),
            cause: "field values is not an array of pointers".to_owned(),
        });
    };
    match btf.plain(to).map(|t| &t.kind) {
        Some(Kind::Composite { .. }) => {
            let inner = definition(btf, to, &format!("{name}.inner"), false)?;
            Ok(Some(inner.spec))
        }
        _ => Ok(None),
    }
}

/// Reads a definition of the older kind.
pub(super) fn read_legacy(name: &str, bytes: &[u8]) -> Result<MapSpec, LoadError> {
    let Some(words) = bytes.get(..LEGACY_LEN) else {
        return Err(LoadError::Map {
            map: name.to_owned(),
            cause: format!(
                "its definition has {} bytes, at least {LEGACY_LEN} are needed",
                bytes.len()
            ),
        });
    };
    let word = |i: usize| {
        let b = &words[4 * i..];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    };
    spec(name, word(0), [word(1), word(2), word(3), word(4)])
}

fn spec(
    name: &str,
    kind: u32,
    [key_size, value_size, max_entries, flags]: [u32; 4],
) -> Result<MapSpec, LoadError> {
    let Some(kind) = MapKind::from_number(kind) else {
        return Err(LoadError::MapKind {
            map: name.to_owned(),
            kind: kind_name(kind),
        });
    };
    Ok(MapSpec {
        name: name.to_owned(),
        kind,
        key_size,
        value_size,
        max_entries,
        flags,
        initial: None,
        frozen: false,
        variables: Vec::new(),
        ..MapSpec::default()
    })
}

/// `int (*field)[NUMBER]`
fn number(btf: &Btf, id: u32) -> Option<u32> {
    let Kind::Pointer { to } = btf.plain(id)?.kind else {
        return None;
    };
    match btf.plain(to)?.kind {
        Kind::Array { count, .. } => Some(count),
        _ => None,
    }
}

/// `TYPE *field`
fn size_behind(btf: &Btf, id: u32) -> Option<u32> {
    match btf.plain(id)?.kind {
        Kind::Pointer { to } => btf.size_of(to),
        _ => None,
    }
}

/// First byte of the spin lock in the struct that field `id` points to, in it or in a struct within.
fn lock_in(btf: &Btf, id: u32) -> Result<Option<u32>, String> {
    let Some(Kind::Pointer { to }) = btf.plain(id).map(|t| &t.kind) else {
        return Ok(None);
    };
    let mut locks = Vec::new();
    let mut left = MAX_MEMBERS;
    find_locks(btf, *to, 0, &mut left, &mut locks);
    match locks[..] {
        [] => Ok(None),
        [lock] => Ok(Some(lock)),
        _ => Err("its values have more than one spin lock".to_owned()),
    }
}

/// Members looked at for a lock, all structs together: far more are an attack.
const MAX_MEMBERS: usize = 4096;

fn find_locks(btf: &Btf, id: u32, at: u32, left: &mut usize, locks: &mut Vec<u32>) {
    let Some(plain) = btf.plain(id) else { return };
    let Kind::Composite { members, .. } = &plain.kind else {
        return;
    };
    if btf.string(plain.name) == "bpf_spin_lock" {
        locks.push(at);
        return;
    }
    for member in members {
        let Some(fewer) = left.checked_sub(1) else {
            return;
        };
        *left = fewer;
        let at = at.saturating_add((member.offset & 0xff_ffff) / 8);
        find_locks(btf, member.of, at, left, locks);
    }
}

/// The kernel's name of a kind, for the error that it is not supported.
fn kind_name(number: u32) -> String {
    const NAMES: [&str; 34] = [
        "unspec",
        "hash",
        "array",
        "prog_array",
        "perf_event_array",
        "percpu_hash",
        "percpu_array",
        "stack_trace",
        "cgroup_array",
        "lru_hash",
        "lru_percpu_hash",
        "lpm_trie",
        "array_of_maps",
        "hash_of_maps",
        "devmap",
        "sockmap",
        "cpumap",
        "xskmap",
        "sockhash",
        "cgroup_storage",
        "reuseport_sockarray",
        "percpu_cgroup_storage",
        "queue",
        "stack",
        "sk_storage",
        "devmap_hash",
        "struct_ops",
        "ringbuf",
        "inode_storage",
        "task_storage",
        "bloom_filter",
        "user_ringbuf",
        "cgrp_storage",
        "arena",
    ];
    match NAMES.get(number as usize) {
        Some(name) => format!("{name} ({number})"),
        None => number.to_string(),
    }
}
