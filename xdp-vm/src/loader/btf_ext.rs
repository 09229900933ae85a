//! What `.BTF.ext` says of instructions: their source lines, and the CO-RE relocations that they
//! wait for. Function info is not read: names come from the symbols.

use std::collections::HashMap;
use std::ops::Range;

use super::LoadError;
use super::btf::{Btf, Reader};
use super::core::{self, Fit};
use crate::Insn;

const MAGIC: u16 = 0xeb9f;
const LINE_LEN: usize = 16;
const CORE_LEN: usize = 16;

/// The parsed section: records by section of instructions, ascending by instruction.
#[derive(Default)]
pub(super) struct BtfExt {
    lines: HashMap<String, Vec<LineRecord>>,
    core: HashMap<String, Vec<CoreRecord>>,
}

/// Where a line of source starts. The strings are in [`Btf`].
pub(super) struct LineRecord {
    /// Slot in the section.
    pub(super) insn: usize,
    pub(super) file: u32,
    pub(super) text: u32,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// An instruction that must be fitted to the running kernel's types.
pub(super) struct CoreRecord {
    /// Slot in the section.
    pub(super) insn: usize,
    type_id: u32,
    access: u32,
    kind: u32,
}

impl CoreRecord {
    /// What becomes of the instruction.
    pub(super) fn fit(&self, btf: &Btf) -> Fit {
        core::fit(btf, self.type_id, btf.string(self.access), self.kind)
    }

    /// What it asks, for a person: `field_byte_offset of xdp_md (0:1)`.
    pub(super) fn describe(&self, btf: &Btf) -> String {
        const KINDS: [&str; 13] = [
            "field_byte_offset",
            "field_byte_size",
            "field_exists",
            "field_signed",
            "field_lshift_u64",
            "field_rshift_u64",
            "type_id_local",
            "type_id_target",
            "type_exists",
            "type_size",
            "enumval_exists",
            "enumval_value",
            "type_matches",
        ];
        let kind = KINDS.get(self.kind as usize).unwrap_or(&"unknown");
        let name = match btf.name(self.type_id) {
            "" => "an unnamed type",
            name => name,
        };
        format!("{kind} of {name} ({})", btf.string(self.access))
    }
}

impl BtfExt {
    /// Reads a `.BTF.ext` section. Takes memory in proportion to its length.
    pub(super) fn parse(data: &[u8], btf: &Btf) -> Result<Self, LoadError> {
        let mut reader = Reader {
            data,
            at: 0,
            section: ".BTF.ext",
        };
        if reader.u16()? != MAGIC {
            return Err(reader.error("wrong magic"));
        }
        reader.skip(2)?;
        let header = reader.u32()? as usize;
        if header < 24 {
            return Err(reader.error("header too short"));
        }
        reader.skip(8)?;
        let lines = (reader.u32()?, reader.u32()?);
        // Older compilers know no CO-RE relocations and have a shorter header.
        let core = match header >= 32 {
            true => (reader.u32()?, reader.u32()?),
            false => (0, 0),
        };
        let part = |(offset, len): (u32, u32)| -> Result<Reader<'_>, LoadError> {
            let start = header.saturating_add(offset as usize);
            match data.get(..start.saturating_add(len as usize)) {
                Some(data) => Ok(Reader {
                    data,
                    at: start,
                    section: ".BTF.ext",
                }),
                None => Err(reader.error("the header points past the section's end")),
            }
        };
        Ok(BtfExt {
            lines: read_all(part(lines)?, btf, LINE_LEN)?,
            core: read_all(part(core)?, btf, CORE_LEN)?,
        })
    }

    /// The lines of a section's slots `range`, ascending.
    pub(super) fn lines_in(&self, section: &str, range: Range<usize>) -> &[LineRecord] {
        records_in(&self.lines, section, range)
    }

    /// The CO-RE relocations of a section's slots `range`, ascending.
    pub(super) fn core_in(&self, section: &str, range: Range<usize>) -> &[CoreRecord] {
        records_in(&self.core, section, range)
    }
}

/// A record about one instruction.
trait Record: Sized {
    fn read(reader: &mut Reader<'_>) -> Result<Self, LoadError>;
    fn insn(&self) -> usize;
}

impl Record for LineRecord {
    fn read(r: &mut Reader<'_>) -> Result<Self, LoadError> {
        let insn = r.u32()? as usize / Insn::SIZE;
        let (file, text, packed) = (r.u32()?, r.u32()?, r.u32()?);
        Ok(LineRecord {
            insn,
            file,
            text,
            line: packed >> 10,
            column: packed & 0x3ff,
        })
    }

    fn insn(&self) -> usize {
        self.insn
    }
}

impl Record for CoreRecord {
    fn read(r: &mut Reader<'_>) -> Result<Self, LoadError> {
        Ok(CoreRecord {
            insn: r.u32()? as usize / Insn::SIZE,
            type_id: r.u32()?,
            access: r.u32()?,
            kind: r.u32()?,
        })
    }

    fn insn(&self) -> usize {
        self.insn
    }
}

fn records_in<'a, T: Record>(
    all: &'a HashMap<String, Vec<T>>,
    section: &str,
    range: Range<usize>,
) -> &'a [T] {
    let records = all.get(section).map_or(&[][..], |r| &r[..]);
    let start = records.partition_point(|r| r.insn() < range.start);
    let end = records.partition_point(|r| r.insn() < range.end);
    &records[start..end.max(start)]
}

/// Blocks of records, each for one section: the size of a record once at the start, then for each
/// block the section's name and the number of records.
fn read_all<T: Record>(
    mut reader: Reader<'_>,
    btf: &Btf,
    least: usize,
) -> Result<HashMap<String, Vec<T>>, LoadError> {
    let mut all = HashMap::<String, Vec<T>>::new();
    if reader.at == reader.data.len() {
        return Ok(all);
    }
    let len = reader.u32()? as usize;
    if len < least {
        return Err(reader.error("records are too short"));
    }
    while reader.at < reader.data.len() {
        let name = reader.u32()?;
        let count = reader.u32()?;
        if count == 0 {
            return Err(reader.error("a block without records"));
        }
        let records = all.entry(btf.string(name).to_owned()).or_default();
        for _ in 0..count {
            // Newer compilers may append fields to a record.
            let data = reader.bytes(len)?;
            records.push(T::read(&mut Reader {
                data,
                at: 0,
                section: ".BTF.ext",
            })?);
        }
    }
    for records in all.values_mut() {
        // One record an instruction: the last, should there be several.
        records.reverse();
        records.sort_by_key(T::insn);
        records.dedup_by_key(|r| r.insn());
    }
    Ok(all)
}
