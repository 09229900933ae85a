//! From BTF's table of types to a [`Type`] that stands alone. A file may claim types of any depth and
//! size: one with more than [`MAX_PARTS`] parts is left without a name for its bytes, which is no error.

use super::btf::{Btf, Kind, Meaning};
use crate::types::{Field, Shape, Type};

/// Deepest nesting of a type.
const MAX_DEPTH: usize = 32;
/// Most fields and enumeration names of a type, with those of its fields.
const MAX_PARTS: usize = 4096;

/// The type `id` with all that it is made of; `None` where that has no size, or no end.
pub(super) fn shape(btf: &Btf, id: u32) -> Option<Type> {
    Builder {
        btf,
        parts: MAX_PARTS,
    }
    .build(id, MAX_DEPTH)
}

/// What the pointer type `id` points to: how map definitions say a type.
pub(super) fn behind(btf: &Btf, id: u32) -> Option<Type> {
    match btf.plain(id)?.kind {
        Kind::Pointer { to } => shape(btf, to),
        _ => None,
    }
}

struct Builder<'a> {
    btf: &'a Btf,
    /// Parts that may still be made.
    parts: usize,
}

impl Builder<'_> {
    fn build(&mut self, id: u32, depth: usize) -> Option<Type> {
        self.spend(1)?;
        let depth = depth.checked_sub(1)?;
        let plain = self.btf.plain(id)?;
        let shape = match &plain.kind {
            Kind::Scalar { meaning, .. } => self.number(meaning)?,
            Kind::Pointer { .. } => Shape::Pointer,
            Kind::Array { element, count } => Shape::Array {
                element: Box::new(self.build(*element, depth)?),
                count: *count,
            },
            Kind::Composite {
                members,
                union,
                bit_fields,
                ..
            } => {
                let mut fields = Vec::new();
                for member in members {
                    let (bit_offset, bits) = match (bit_fields, member.offset >> 24) {
                        (true, 0) => (member.offset, None),
                        (true, bits) => (member.offset & 0xff_ffff, Some(bits)),
                        (false, _) => (member.offset, None),
                    };
                    fields.push(Field {
                        name: self.btf.string(member.name).to_owned(),
                        bit_offset,
                        bits,
                        of: self.build(member.of, depth)?,
                    });
                }
                let size = self.btf.size_of(id)?;
                // What lies outside of its struct names nothing.
                let fits = |f: &Field| f.offset().checked_add(f.of.size).is_some_and(|e| e <= size);
                if !fields.iter().all(|f| f.bits.is_some() || fits(f)) {
                    return None;
                }
                match union {
                    true => Shape::Union(fields),
                    false => Shape::Struct(fields),
                }
            }
            _ => return None,
        };
        Some(Type {
            name: self.name(id),
            size: self.btf.size_of(id)?,
            shape,
        })
    }

    fn number(&mut self, meaning: &Meaning) -> Option<Shape> {
        Some(match meaning {
            Meaning::Integer { signed } => Shape::Integer { signed: *signed },
            Meaning::Bool => Shape::Bool,
            Meaning::Float => Shape::Float,
            Meaning::Enumeration { signed, names } => {
                self.spend(names.len())?;
                let named = |&(name, value): &(u32, i64)| (self.btf.string(name).to_owned(), value);
                Shape::Enumeration {
                    signed: *signed,
                    names: names.iter().map(named).collect(),
                }
            }
        })
    }

    /// The outermost name.
    fn name(&self, mut id: u32) -> String {
        for _ in 0..MAX_DEPTH {
            match self.btf.get(id).map(|t| &t.kind) {
                // A variable's name is not its type's; qualifiers have none.
                Some(Kind::Variable { of }) => id = *of,
                Some(Kind::Alias { of }) if self.btf.name(id).is_empty() => id = *of,
                _ => break,
            }
        }
        self.btf.name(id).to_owned()
    }

    fn spend(&mut self, parts: usize) -> Option<()> {
        self.parts = self.parts.checked_sub(parts)?;
        let left = self.btf.parts.get().checked_sub(parts)?;
        self.btf.parts.set(left);
        Some(())
    }
}
