//! The maps of an object: BTF definitions (`.maps`), the older `maps` section, and global data
//! (`.rodata`, `.data`, `.bss`, `.kconfig`), each with what instructions may point into. A definition
//! that cannot be used is kept with its cause, for the programs that name it. The definition itself
//! is in `map_def`.

use std::collections::HashMap;

use super::btf::Btf;
use super::elf::{Elf, Section, Symbol, SymbolKind};
use super::{LoadError, map_def, shape};
use crate::{MapKind, MapSpec, Slot, Variable};

/// Most bytes of one section of global data; `.bss` claims them without having them in the file.
const MAX_DATA: u64 = 64 << 20;
/// `BPF_F_RDONLY_PROG`: programs may not write.
const RDONLY_PROG: u32 = 0x80;
/// The section of external variables, most of them, and most bytes of one.
const KCONFIG: &str = ".kconfig";
const MAX_KCONFIG: usize = 4096;
const MAX_OPTION: u32 = 4096;
/// Linux 6.12.0, as `LINUX_VERSION_CODE` has it.
const KERNEL_VERSION: u32 = 6 << 16 | 12 << 8;

/// All maps of an object.
#[derive(Default)]
pub(super) struct MapTable {
    pub(super) specs: Vec<MapSpec>,
    /// By section and byte offset: the index in `specs`, or why there is none.
    places: HashMap<(usize, u64), Result<usize, LoadError>>,
    /// By section: the map that the whole of a data section became.
    data: HashMap<usize, Result<usize, LoadError>>,
    /// By name: the map and the byte in its value of what the kernel's configuration says.
    kconfig: HashMap<String, (usize, u32)>,
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
                name if is_data(name) && section.size > 0 => table.read_data(elf, index, btf),
                _ => {}
            }
        }
        table.read_kconfig(btf)?;
        Ok(table)
    }

    /// The map, and the byte in its value, that hold an external variable of the kernel's
    /// configuration.
    pub(super) fn kconfig(&self, name: &str) -> Option<(usize, u32)> {
        self.kconfig.get(name).copied()
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
            return Err(LoadError::UntypedMaps);
        };
        let symbols: HashMap<&str, u64> = elf
            .symbols
            .iter()
            .filter(|s| s.section == Some(index) && s.kind != SymbolKind::Section)
            .map(|s| (s.name, s.value))
            .collect();
        let mut initialised = Vec::new();
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
            let definition = map_def::read(btf, variable, name);
            if let Ok(definition) = &definition
                && let Some(values) = definition.values
            {
                initialised.push((offset, values, name));
            }
            self.add((index, offset), definition.map(|d| d.spec));
        }
        self.read_initialisers(elf, index, &initialised);
        Ok(())
    }

    /// Relocations of the section `.maps`: each puts a map, or a program, into an entry of the map that
    /// it lies in. `initialised`: where those start, and how far their entries are from there.
    fn read_initialisers(&mut self, elf: &Elf<'_>, index: usize, initialised: &[(u64, u32, &str)]) {
        const POINTER: u64 = 8;
        for relocation in &elf.sections[index].relocations {
            let before = initialised.iter().filter(|m| m.0 <= relocation.offset);
            let Some(&(start, values, name)) = before.max_by_key(|m| m.0) else {
                continue;
            };
            let symbol = &elf.symbols[relocation.symbol];
            let at = (relocation.offset - start).checked_sub(u64::from(values));
            let key = at.filter(|at| at.is_multiple_of(POINTER));
            let key = key.and_then(|at| u32::try_from(at / POINTER).ok());
            let target = self.target(symbol, index);
            let Some(Ok(map)) = self.places.get(&(index, start)) else {
                continue;
            };
            match (key, target) {
                (Some(key), Some(slot)) => self.specs[*map].slots.push((key, slot)),
                _ => {
                    let cause = format!(
                        "its initial value {} is neither a map nor a program that it could hold",
                        symbol.name
                    );
                    let map = name.to_owned();
                    self.places
                        .insert((index, start), Err(LoadError::Map { map, cause }));
                }
            }
        }
    }

    fn target(&self, symbol: &Symbol<'_>, maps: usize) -> Option<Slot> {
        match symbol.kind {
            SymbolKind::Function => Some(Slot::Program(symbol.name.to_owned())),
            _ if symbol.section == Some(maps) => {
                let place = self.places.get(&(maps, symbol.value))?;
                place.as_ref().ok().map(|&map| Slot::Map(map))
            }
            _ => None,
        }
    }

    /// External variables of the section `.kconfig`, which exists in the type information alone: a map
    /// of constants. The version is that of the kernel whose behaviour this is; options of a kernel's
    /// configuration are off, until somebody sets them.
    fn read_kconfig(&mut self, btf: &Btf) -> Result<(), LoadError> {
        let Some(variables) = btf.section(KCONFIG) else {
            return Ok(());
        };
        let fail = |cause: String| LoadError::Map {
            map: KCONFIG.to_owned(),
            cause,
        };
        if variables.len() > MAX_KCONFIG {
            return Err(fail(format!("it has {} variables", variables.len())));
        }
        let mut value = Vec::new();
        let mut all = Vec::new();
        for &variable in variables {
            let name = btf.name(variable);
            let size = btf.size_of(variable).filter(|&size| size <= MAX_OPTION);
            let size =
                size.ok_or_else(|| fail(format!("{name} has no size, or too large a one")))?;
            let offset = value.len().next_multiple_of(8);
            value.resize(offset + size as usize, 0);
            if name == "LINUX_KERNEL_VERSION" {
                let version = KERNEL_VERSION.to_le_bytes();
                let bytes = &mut value[offset..];
                let len = bytes.len().min(version.len());
                bytes[..len].copy_from_slice(&version[..len]);
            }
            let place = (self.specs.len(), offset as u32);
            self.kconfig.insert(name.to_owned(), place);
            all.push(Variable {
                name: name.to_owned(),
                offset: offset as u32,
                size,
                of: shape::shape(btf, variable),
            });
        }
        if value.is_empty() {
            return Ok(());
        }
        self.specs.push(MapSpec {
            name: KCONFIG.to_owned(),
            kind: MapKind::Array,
            key_size: 4,
            value_size: value.len() as u32,
            max_entries: 1,
            flags: RDONLY_PROG,
            initial: Some(value),
            frozen: true,
            variables: all,
            ..MapSpec::default()
        });
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
                map_def::read_legacy(symbol.name, bytes.unwrap_or_default()),
            );
        }
    }

    /// A whole section of global data becomes an array of one entry.
    fn read_data(&mut self, elf: &Elf<'_>, index: usize, btf: &Btf) {
        let section = &elf.sections[index];
        let typed = btf.section(section.name).unwrap_or_default();
        let types: HashMap<&str, u32> = typed.iter().map(|&id| (btf.name(id), id)).collect();
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
                    of: types.get(s.name).and_then(|&id| shape::shape(btf, id)),
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
