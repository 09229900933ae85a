//! The sections, symbols and relocations of an object file, checked against the file's length once,
//! so that what follows works on plain slices. Reads through the `object` crate.

use object::LittleEndian as LE;
use object::elf::{
    self, EM_BPF, ET_REL, FileHeader64, SHF_EXECINSTR, SHN_ABS, SHN_COMMON, SHN_UNDEF, SHT_NOBITS,
    SHT_PROGBITS, SHT_REL, SHT_RELA, SHT_SYMTAB, STB_LOCAL, STB_WEAK, STT_FUNC, STT_OBJECT,
    STT_SECTION,
};
use object::read::elf::{FileHeader, Rel, SectionHeader, Sym};

use super::LoadError;

/// An object file, borrowed.
pub(super) struct Elf<'a> {
    pub(super) sections: Vec<Section<'a>>,
    pub(super) symbols: Vec<Symbol<'a>>,
}

pub(super) struct Section<'a> {
    pub(super) name: &'a str,
    /// Bytes in the file; empty for `.bss`.
    pub(super) data: &'a [u8],
    /// Bytes in memory: differs from `data.len()` only for `.bss`.
    pub(super) size: u64,
    /// `.bss` and its like.
    pub(super) zeroed: bool,
    /// Holds instructions.
    pub(super) executable: bool,
    /// Ascending by offset.
    pub(super) relocations: Vec<Relocation>,
}

#[derive(Clone, Copy)]
pub(super) struct Relocation {
    /// Byte offset in the section.
    pub(super) offset: u64,
    pub(super) symbol: usize,
    pub(super) kind: u32,
    /// From a RELA entry; REL entries keep it in the instruction.
    pub(super) addend: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolKind {
    Function,
    Object,
    Section,
    Other,
}

pub(super) struct Symbol<'a> {
    pub(super) name: &'a str,
    pub(super) value: u64,
    pub(super) size: u64,
    /// Index in [`Elf::sections`]; `None` where undefined, absolute or common.
    pub(super) section: Option<usize>,
    pub(super) undefined: bool,
    pub(super) kind: SymbolKind,
    pub(super) weak: bool,
    pub(super) local: bool,
}

impl<'a> Elf<'a> {
    /// Reads the tables of `bytes`. Takes memory in proportion to the number of entries that the
    /// file really holds.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, LoadError> {
        let header = header(bytes)?;
        let table = header.sections(LE, bytes).map_err(broken)?;
        let mut sections = Vec::with_capacity(table.len());
        let mut total = 0u64;
        for (index, section) in table.enumerate() {
            let name = utf8(table.section_name(LE, section).map_err(broken)?)?;
            let kind = section.sh_type(LE);
            let data = section.data(LE, bytes).map_err(|e| LoadError::BrokenElf {
                cause: format!("section {name} (number {}): {e}", index.0),
            })?;
            // Sections of a compiler's file do not overlap. Were they allowed to, a small file
            // could claim the same megabyte thousands of times.
            total = total.saturating_add(data.len() as u64);
            if total > bytes.len() as u64 {
                return Err(LoadError::BrokenElf {
                    cause: format!("section {name} (number {}) overlaps others", index.0),
                });
            }
            sections.push(Section {
                name,
                data,
                size: section.sh_size(LE),
                zeroed: kind == SHT_NOBITS,
                executable: kind == SHT_PROGBITS && section.sh_flags(LE).0 & SHF_EXECINSTR.0 != 0,
                relocations: Vec::new(),
            });
        }

        let table_symbols = table.symbols(LE, bytes, SHT_SYMTAB).map_err(broken)?;
        let mut symbols = Vec::with_capacity(table_symbols.len());
        for symbol in table_symbols.iter() {
            let name = utf8(table_symbols.symbol_name(LE, symbol).map_err(broken)?)?;
            let index = symbol.st_shndx(LE);
            let plain = ![SHN_UNDEF, SHN_ABS, SHN_COMMON].contains(&index);
            let section = match plain {
                true if (index.0 as usize) < sections.len() => Some(index.0 as usize),
                true => {
                    return Err(LoadError::BrokenElf {
                        cause: format!(
                            "symbol {name:?} is in section {}, which is not there",
                            index.0
                        ),
                    });
                }
                false => None,
            };
            symbols.push(Symbol {
                name,
                value: symbol.st_value(LE),
                size: symbol.st_size(LE),
                section,
                undefined: index == SHN_UNDEF,
                kind: symbol_kind(symbol),
                weak: symbol.st_bind() == STB_WEAK,
                local: symbol.st_bind() == STB_LOCAL,
            });
        }
        for symbol in &mut symbols {
            if let (SymbolKind::Section, Some(section)) = (symbol.kind, symbol.section) {
                symbol.name = sections[section].name;
            }
        }

        for section in table.iter() {
            relocations(section, bytes, &mut sections, symbols.len())?;
        }
        for section in &mut sections {
            section.relocations.sort_by_key(|r| r.offset);
        }
        Ok(Elf { sections, symbols })
    }

    /// The first section of that name.
    pub(super) fn section(&self, name: &str) -> Option<(usize, &Section<'a>)> {
        self.sections
            .iter()
            .enumerate()
            .find(|(_, s)| s.name == name)
    }
}

/// The file header, after telling a stranger's file from one of ours.
fn header(bytes: &[u8]) -> Result<&FileHeader64<LE>, LoadError> {
    let not_elf = |cause: &str| LoadError::NotElf {
        cause: cause.to_owned(),
    };
    if bytes.is_empty() {
        return Err(not_elf("the file is empty"));
    }
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(not_elf("it does not start with the ELF magic"));
    }
    match (bytes.get(4), bytes.get(5)) {
        (Some(2), Some(1)) => {}
        (Some(2), Some(2)) => {
            let machine = bytes.get(18..20).map(|m| u16::from_be_bytes([m[0], m[1]]));
            return Err(match machine {
                Some(machine) if machine != EM_BPF.0 => LoadError::NotBpf { machine },
                _ => LoadError::BigEndian,
            });
        }
        (Some(_), Some(_)) => return Err(not_elf("it is a 32-bit file")),
        _ => return Err(not_elf("the header is cut")),
    }
    let header = FileHeader64::<LE>::parse(bytes).map_err(|e| not_elf(&e.to_string()))?;
    let machine = header.e_machine(LE);
    if machine != EM_BPF {
        return Err(LoadError::NotBpf { machine: machine.0 });
    }
    let kind = header.e_type(LE);
    if kind != ET_REL {
        return Err(LoadError::NotRelocatable { kind: kind.0 });
    }
    Ok(header)
}

fn symbol_kind(symbol: &elf::Sym64<LE>) -> SymbolKind {
    match symbol.st_type() {
        STT_FUNC => SymbolKind::Function,
        STT_OBJECT => SymbolKind::Object,
        STT_SECTION => SymbolKind::Section,
        _ => SymbolKind::Other,
    }
}

/// Adds the entries of `section`, where it is a table of relocations, to the section it is for.
fn relocations(
    section: &elf::SectionHeader64<LE>,
    bytes: &[u8],
    sections: &mut [Section<'_>],
    symbols: usize,
) -> Result<(), LoadError> {
    let kind = section.sh_type(LE);
    if kind != SHT_REL && kind != SHT_RELA {
        return Ok(());
    }
    let mut entries = Vec::new();
    if let Some((rels, _)) = section.rel(LE, bytes).map_err(broken)? {
        entries.extend(rels.iter().map(|r| Relocation {
            offset: r.r_offset(LE),
            symbol: r.r_sym(LE) as usize,
            kind: r.r_type(LE).0,
            addend: 0,
        }));
    }
    if let Some((relas, _)) = section.rela(LE, bytes).map_err(broken)? {
        entries.extend(relas.iter().map(|r| Relocation {
            offset: r.r_offset.get(LE),
            symbol: r.r_sym(LE, false) as usize,
            kind: r.r_type(LE, false).0,
            addend: r.r_addend.get(LE),
        }));
    }
    let target = section.sh_info(LE) as usize;
    let Some(target) = sections.get_mut(target) else {
        return Err(LoadError::BrokenElf {
            cause: format!("relocations for section {target}, which is not there"),
        });
    };
    if let Some(bad) = entries.iter().find(|r| r.symbol >= symbols) {
        return Err(LoadError::BrokenSection {
            section: target.name.to_owned(),
            cause: format!(
                "relocation at byte {:#x} names symbol {}, which is not there",
                bad.offset, bad.symbol
            ),
        });
    }
    target.relocations.append(&mut entries);
    Ok(())
}

/// Longest name that is taken for one. Names may overlap in the file: without a limit, reading them
/// all could take time in the square of its length.
const MAX_NAME: usize = 4096;

fn utf8(name: &[u8]) -> Result<&str, LoadError> {
    if name.len() > MAX_NAME {
        return Err(LoadError::BrokenElf {
            cause: format!("a name is {} bytes long, over {MAX_NAME}", name.len()),
        });
    }
    std::str::from_utf8(name).map_err(|_| LoadError::BrokenElf {
        cause: format!("a name is not text: {:?}", String::from_utf8_lossy(name)),
    })
}

fn broken(error: object::read::Error) -> LoadError {
    LoadError::BrokenElf {
        cause: error.to_string(),
    }
}
