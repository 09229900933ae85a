//! The maps of an object: BTF definitions (`.maps`), the older `maps` section, and global data
//! (`.rodata`, `.data`, `.bss`), each with what instructions may point into. A definition that
//! cannot be used is kept with its cause, for the programs that name it.

use std::collections::HashMap;

use super::LoadError;
use super::btf::{Btf, Kind};
use super::elf::{Elf, Section, SymbolKind};
use crate::{MapKind, MapSpec, Variable};

/// Fields of one BTF map definition are a dozen; far more are an attack.
const MAX_FIELDS: usize = 64;
/// Smallest definition in the older section: kind, key, value, entries, flags.
const LEGACY_LEN: usize = 20;
/// Most bytes of one section of global data; `.bss` claims them without having them in the file.
const MAX_DATA: u64 = 64 << 20;
/// `BPF_F_RDONLY_PROG`: programs may not write.
const RDONLY_PROG: u32 = 0x80;

/// All maps of an object.
#[derive(Default)]
pub(super) struct MapTable {
    pub(super) specs: Vec<MapSpec>,
    /// By section and byte offset: the index in `specs`, or why there is none.
    places: HashMap<(usize, u64), Result<usize, LoadError>>,
    /// By section: the map that the whole of a data section became.
    data: HashMap<usize, Result<usize, LoadError>>,
}

/// What an address in a section of maps or data means.
pub(super) enum Place {
    /// The map itself.
    Map(usize),
    /// A byte in the only value of a map.
    Value(usize, u32),
}

impl MapTable {
    pub(super) fn read(elf: &Elf<'_>, btf: &Btf) -> Result<Self, LoadError> {
        let mut table = MapTable::default();
        for (index, section) in elf.sections.iter().enumerate() {
            match section.name {
                ".maps" => table.read_btf_maps(elf, index, btf)?,
                "maps" => table.read_legacy_maps(elf, index),
                name if is_data(name) && section.size > 0 => table.read_data(elf, index),
                _ => {}
            }
        }
        Ok(table)
    }

    /// What byte `offset` of section `section` is; `None` where it is neither a map nor data.
    pub(super) fn place(&self, section: usize, offset: u64) -> Option<Result<Place, LoadError>> {
        if let Some(data) = self.data.get(&section) {
            return Some(data.clone().and_then(|map| match u32::try_from(offset) {
                Ok(at) if at <= self.specs[map].value_size => Ok(Place::Value(map, at)),
                _ => Err(LoadError::Map {
                    map: self.specs[map].name.clone(),
                    cause: format!(
                        "an instruction points to byte {offset} of {}",
                        self.specs[map].value_size
                    ),
                }),
            }));
        }
        Some(self.places.get(&(section, offset))?.clone().map(Place::Map))
    }

    /// Variables of the section `.maps`: their type says what the map is, their symbol where.
    fn read_btf_maps(&mut self, elf: &Elf<'_>, index: usize, btf: &Btf) -> Result<(), LoadError> {
        let Some(variables) = btf.section(".maps") else {
            return Err(LoadError::BrokenSection {
                section: ".maps".to_owned(),
                cause: "there is no type information for it; build with `clang -g`".to_owned(),
            });
        };
        let symbols: HashMap<&str, u64> = elf
            .symbols
            .iter()
            .filter(|s| s.section == Some(index) && s.kind != SymbolKind::Section)
            .map(|s| (s.name, s.value))
            .collect();
        for &variable in variables {
            let name = btf.name(variable);
            let Some(&offset) = symbols.get(name) else {
                return Err(LoadError::Map {
                    map: name.to_owned(),
                    cause: "defined in the type information and without a symbol; the file is \
                            damaged, build it again"
                        .to_owned(),
                });
            };
            let spec = btf_map(btf, variable, name);
            self.add((index, offset), spec);
        }
        Ok(())
    }

    /// Symbols of the section `maps`: each a struct of five words, or more as the loaders of the
    /// time had it; what follows the fifth is about pinning and nesting.
    fn read_legacy_maps(&mut self, elf: &Elf<'_>, index: usize) {
        let data = elf.sections[index].data;
        let mut symbols: Vec<_> = elf
            .symbols
            .iter()
            .filter(|s| s.section == Some(index) && s.kind != SymbolKind::Section)
            .filter(|s| !s.name.is_empty())
            .collect();
        symbols.sort_by_key(|s| s.value);
        symbols.dedup_by_key(|s| s.value);
        for (i, symbol) in symbols.iter().enumerate() {
            let end = symbols.get(i + 1).map_or(data.len() as u64, |s| s.value);
            let bytes = data.get(symbol.value as usize..end as usize);
            self.add(
                (index, symbol.value),
                legacy_map(symbol.name, bytes.unwrap_or_default()),
            );
        }
    }

    /// A whole section of global data becomes an array of one entry.
    fn read_data(&mut self, elf: &Elf<'_>, index: usize) {
        let section = &elf.sections[index];
        let map = data_map(section).map(|mut spec| {
            spec.variables = elf
                .symbols
                .iter()
                .filter(|s| s.section == Some(index) && s.kind == SymbolKind::Object)
                .filter(|s| {
                    s.size > 0
                        && s.value
                            .checked_add(s.size)
                            .is_some_and(|end| end <= section.size)
                })
                .map(|s| Variable {
                    name: s.name.to_owned(),
                    offset: s.value as u32,
                    size: s.size as u32,
                })
                .collect();
            spec.variables.sort_by_key(|v| v.offset);
            self.specs.push(spec);
            self.specs.len() - 1
        });
        if !section.relocations.is_empty() {
            log::warn!(
                "section {} holds addresses of other things, which a program cannot use as data; \
                 they read as offsets",
                section.name
            );
        }
        self.data.insert(index, map);
    }

    fn add(&mut self, place: (usize, u64), spec: Result<MapSpec, LoadError>) {
        let index = spec.map(|spec| {
            self.specs.push(spec);
            self.specs.len() - 1
        });
        self.places.insert(place, index);
    }
}

/// `.rodata`, `.data`, `.bss`, and `.rodata.str1.1` and the like.
fn is_data(name: &str) -> bool {
    [".rodata", ".data", ".bss"].iter().any(|base| {
        name.strip_prefix(base)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn data_map(section: &Section<'_>) -> Result<MapSpec, LoadError> {
    if section.size > MAX_DATA {
        return Err(LoadError::Map {
            map: section.name.to_owned(),
            cause: format!(
                "{} bytes of global data are over the limit of {MAX_DATA}",
                section.size
            ),
        });
    }
    let value_size = section.size as u32;
    let read_only = section.name.starts_with(".rodata");
    Ok(MapSpec {
        name: section.name.to_owned(),
        kind: MapKind::Array,
        key_size: 4,
        value_size,
        max_entries: 1,
        flags: if read_only { RDONLY_PROG } else { 0 },
        initial: (!section.zeroed).then(|| section.data.to_vec()),
        frozen: read_only,
        variables: Vec::new(),
        ..MapSpec::default()
    })
}

/// Reads a map's definition from the type of its variable: a struct whose members say a number as
/// the length of an array pointed to (`__uint`), or a type as the target of a pointer (`__type`).
fn btf_map(btf: &Btf, variable: u32, name: &str) -> Result<MapSpec, LoadError> {
    let fail = |cause: String| LoadError::Map {
        map: name.to_owned(),
        cause,
    };
    let Some(Kind::Composite { members, .. }) = btf.plain(variable).map(|t| &t.kind) else {
        return Err(fail("its definition is not a struct".to_owned()));
    };
    if members.len() > MAX_FIELDS {
        return Err(fail(format!("its definition has {} fields", members.len())));
    }
    let mut kind = 0;
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
            "key" => *key_size = size()?,
            "value" => *value_size = size()?,
            "max_entries" => *max_entries = number()?,
            "map_flags" => *flags = number()?,
            // Where maps are pinned, and which NUMA node they live on, says nothing of their
            // contents. `values` and `map_extra` belong to kinds that are refused below.
            "pinning" | "numa_node" | "values" | "map_extra" => {}
            other => return Err(fail(format!("its definition has an unknown field {other}"))),
        }
    }
    spec(name, kind, fields)
}

/// Reads a definition of the older kind.
fn legacy_map(name: &str, bytes: &[u8]) -> Result<MapSpec, LoadError> {
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
