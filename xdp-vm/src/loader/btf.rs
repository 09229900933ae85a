//! BPF type format (`.BTF`): the types, as far as loading needs them. An own parser, since what
//! there is treats one odd type as the end of the file. Layout: the kernel's
//! `Documentation/bpf/btf.rst`.

use std::cell::Cell;

use super::LoadError;

/// Types nest; a file may claim that they nest in a circle.
const MAX_DEPTH: usize = 32;

/// Longest string that is of use: names, and lines of source in a message. Strings may overlap in
/// the file, so that a small file could otherwise ask for much memory.
const MAX_STRING: usize = 256;

/// Most parts of types that an object tells in all.
const MAX_PARTS: usize = 1 << 16;

const MAGIC: u16 = 0xeb9f;
const HEADER_LEN: usize = 24;

/// The parsed section.
#[derive(Default)]
pub(super) struct Btf {
    /// Type 0 is `void`.
    types: Vec<Type>,
    strings: Vec<u8>,
    /// Parts of types that may still be told to the outside: many maps may name one large type.
    pub(super) parts: Cell<usize>,
}

/// One type, its name an offset in the strings.
pub(super) struct Type {
    pub(super) name: u32,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Void,
    /// Integers, enumerations, floats: `size` bytes.
    Scalar {
        size: u32,
        meaning: Meaning,
    },
    Pointer {
        to: u32,
    },
    Array {
        element: u32,
        count: u32,
    },
    /// Structs and unions.
    Composite {
        size: u32,
        members: Vec<Member>,
        union: bool,
        /// Members may be fields of bits: their size is in the upper byte of their offset.
        bit_fields: bool,
    },
    /// Typedefs and qualifiers.
    Alias {
        of: u32,
    },
    Variable {
        of: u32,
    },
    /// A section's variables.
    Section {
        variables: Vec<u32>,
    },
    /// Declarations, functions, tags: nothing here looks into them.
    Other,
}

/// What a number is.
pub(super) enum Meaning {
    Integer {
        signed: bool,
    },
    Bool,
    Float,
    /// Names, as offsets in the strings, and their numbers.
    Enumeration {
        signed: bool,
        names: Vec<(u32, i64)>,
    },
}

pub(super) struct Member {
    pub(super) name: u32,
    pub(super) of: u32,
    /// From the start of the struct, in bits; with its size in the upper byte where it is a field of
    /// bits.
    pub(super) offset: u32,
}

impl Btf {
    /// Reads a `.BTF` section. Takes memory in proportion to its length.
    pub(super) fn parse(data: &[u8]) -> Result<Self, LoadError> {
        let (types, strings) = header(data)?;
        let mut btf = Btf {
            types: vec![Type {
                name: 0,
                kind: Kind::Void,
            }],
            strings: strings.to_vec(),
            parts: Cell::new(MAX_PARTS),
        };
        let mut reader = Reader {
            data: types,
            at: 0,
            section: ".BTF",
        };
        while reader.at < types.len() {
            let one = read_type(&mut reader)?;
            btf.types.push(one);
        }
        Ok(btf)
    }

    /// The string at `offset`, cut at [`MAX_STRING`] bytes; empty where there is none.
    pub(super) fn string(&self, offset: u32) -> &str {
        let tail = self.strings.get(offset as usize..).unwrap_or_default();
        let tail = &tail[..tail.len().min(MAX_STRING)];
        let text = tail.split(|&b| b == 0).next().unwrap_or_default();
        match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(e) => std::str::from_utf8(&text[..e.valid_up_to()]).unwrap_or_default(),
        }
    }

    pub(super) fn get(&self, id: u32) -> Option<&Type> {
        self.types.get(id as usize)
    }

    /// Name of a type; empty where it has none.
    pub(super) fn name(&self, id: u32) -> &str {
        self.get(id).map_or("", |t| self.string(t.name))
    }

    /// The variables of section `name`.
    pub(super) fn section(&self, name: &str) -> Option<&[u32]> {
        self.types.iter().find_map(|t| match &t.kind {
            Kind::Section { variables } if self.string(t.name) == name => Some(&variables[..]),
            _ => None,
        })
    }

    /// The type behind typedefs and qualifiers.
    pub(super) fn plain(&self, mut id: u32) -> Option<&Type> {
        for _ in 0..MAX_DEPTH {
            match self.get(id)? {
                Type {
                    kind: Kind::Alias { of } | Kind::Variable { of },
                    ..
                } => id = *of,
                other => return Some(other),
            }
        }
        None
    }

    /// Bytes of a value of type `id`; `None` where it has no size, or one past 32 bits.
    pub(super) fn size_of(&self, mut id: u32) -> Option<u32> {
        let mut count = 1u32;
        for _ in 0..MAX_DEPTH {
            match &self.plain(id)?.kind {
                Kind::Scalar { size, .. } | Kind::Composite { size, .. } => {
                    return count.checked_mul(*size);
                }
                Kind::Pointer { .. } => return count.checked_mul(8),
                Kind::Array {
                    element,
                    count: here,
                } => {
                    count = count.checked_mul(*here)?;
                    id = *element;
                }
                _ => return None,
            }
        }
        None
    }
}

/// The types and the strings of a section.
fn header(data: &[u8]) -> Result<(&[u8], &[u8]), LoadError> {
    let mut reader = Reader {
        data,
        at: 0,
        section: ".BTF",
    };
    let magic = reader.u16()?;
    if magic != MAGIC {
        return Err(reader.error("wrong magic"));
    }
    let version = reader.u16()? & 0xff;
    if version != 1 {
        return Err(reader.error("unknown version"));
    }
    let header = reader.u32()? as usize;
    if header < HEADER_LEN {
        return Err(reader.error("header too short"));
    }
    let types = (reader.u32()?, reader.u32()?);
    let strings = (reader.u32()?, reader.u32()?);
    let part = |(offset, len): (u32, u32)| {
        let start = header.checked_add(offset as usize)?;
        data.get(start..start.checked_add(len as usize)?)
    };
    match (part(types), part(strings)) {
        (Some(types), Some(strings)) => Ok((types, strings)),
        _ => Err(reader.error("the header points past the section's end")),
    }
}

/// One record: 12 bytes, then what its kind brings.
fn read_type(reader: &mut Reader<'_>) -> Result<Type, LoadError> {
    let name = reader.u32()?;
    let info = reader.u32()?;
    let size_or_type = reader.u32()?;
    let count = info & 0xffff;
    let flag = info >> 31 != 0;
    let scalar = |meaning| Kind::Scalar {
        size: size_or_type,
        meaning,
    };
    let kind = match (info >> 24) & 0x1f {
        1 => {
            let encoding = reader.u32()? >> 24 & 0xf;
            scalar(match encoding {
                4 => Meaning::Bool,
                bits => Meaning::Integer {
                    signed: bits & 1 != 0,
                },
            })
        }
        2 => Kind::Pointer { to: size_or_type },
        3 => {
            let element = reader.u32()?;
            reader.skip(4)?;
            let count = reader.u32()?;
            Kind::Array { element, count }
        }
        composite @ (4 | 5) => {
            let mut members = Vec::new();
            for _ in 0..count {
                let name = reader.u32()?;
                let of = reader.u32()?;
                let offset = reader.u32()?;
                members.push(Member { name, of, offset });
            }
            Kind::Composite {
                size: size_or_type,
                members,
                union: composite == 5,
                bit_fields: flag,
            }
        }
        6 => {
            let mut names = Vec::new();
            for _ in 0..count {
                let name = reader.u32()?;
                let word = reader.u32()?;
                let value = match flag {
                    true => i64::from(word as i32),
                    false => i64::from(word),
                };
                names.push((name, value));
            }
            let signed = flag;
            scalar(Meaning::Enumeration { signed, names })
        }
        19 => {
            let mut names = Vec::new();
            for _ in 0..count {
                let name = reader.u32()?;
                let (low, high) = (reader.u32()?, reader.u32()?);
                names.push((name, (u64::from(high) << 32 | u64::from(low)) as i64));
            }
            let signed = flag;
            scalar(Meaning::Enumeration { signed, names })
        }
        8..=11 | 18 => Kind::Alias { of: size_or_type },
        7 | 12 => Kind::Other,
        13 => {
            reader.skip(8 * count as usize)?;
            Kind::Other
        }
        14 => {
            reader.skip(4)?;
            Kind::Variable { of: size_or_type }
        }
        15 => {
            let mut variables = Vec::new();
            for _ in 0..count {
                variables.push(reader.u32()?);
                reader.skip(8)?;
            }
            Kind::Section { variables }
        }
        16 => scalar(Meaning::Float),
        17 => {
            reader.skip(4)?;
            Kind::Other
        }
        other => return Err(reader.error(&format!("unknown kind of type {other}"))),
    };
    Ok(Type { name, kind })
}

/// Little-endian words of a section, never past its end.
pub(super) struct Reader<'a> {
    pub(super) data: &'a [u8],
    pub(super) at: usize,
    pub(super) section: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], LoadError> {
        let end = self.at.checked_add(len);
        match end.and_then(|end| self.data.get(self.at..end)) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(self.error("a record is cut by the section's end")),
        }
    }

    pub(super) fn skip(&mut self, len: usize) -> Result<(), LoadError> {
        self.bytes(len).map(|_| ())
    }

    pub(super) fn u16(&mut self) -> Result<u16, LoadError> {
        let b = self.bytes(2)?;
        Ok(u16::from_le_bytes([b[0], b[1]]))
    }

    pub(super) fn u32(&mut self) -> Result<u32, LoadError> {
        let b = self.bytes(4)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub(super) fn error(&self, cause: &str) -> LoadError {
        LoadError::BrokenBtf {
            section: self.section,
            offset: self.at,
            cause: cause.to_owned(),
        }
    }
}
