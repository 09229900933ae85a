//! Types of the C source as BTF has them: what a key, a value or a global variable is made of, so that
//! its bytes can be named, written and read by field.

/// A type, with everything in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// As the source names it: the outermost typedef (`__be32`), or the type's own name; empty where it
    /// has none.
    pub name: String,
    /// Bytes.
    pub size: u32,
    /// What it is.
    pub shape: Shape,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A whole number.
    Integer {
        /// Two's complement.
        signed: bool,
    },
    /// 0 or 1.
    Bool,
    /// A number that has names.
    Enumeration {
        /// Two's complement.
        signed: bool,
        /// Names and their numbers.
        names: Vec<(String, i64)>,
    },
    /// A floating-point number.
    Float,
    /// An address.
    Pointer,
    /// Several of one type, one behind the other.
    Array {
        /// Their type.
        element: Box<Type>,
        /// How many.
        count: u32,
    },
    /// Fields one behind the other.
    Struct(Vec<Field>),
    /// Fields in the same place.
    Union(Vec<Field>),
}

/// A field of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name; empty for a struct or union whose fields are named as if they were the outer one's.
    pub name: String,
    /// Where it starts, in bits from the start of the struct.
    pub bit_offset: u32,
    /// How many bits it has, where it is a field of bits.
    pub bits: Option<u32>,
    /// Its type.
    pub of: Type,
}

impl Field {
    /// Bytes from the start of the struct to the field's first.
    pub fn offset(&self) -> u32 {
        self.bit_offset / 8
    }

    /// One past the last byte that it touches.
    fn end(&self) -> u32 {
        match self.bits {
            Some(bits) => (self.bit_offset + bits).div_ceil(8),
            None => self.offset() + self.of.size,
        }
    }
}

impl Type {
    /// True for numbers in network byte order, as the kernel's headers name them (`__be16`, ...).
    pub fn is_big_endian(&self) -> bool {
        matches!(self.name.as_str(), "__be16" | "__be32" | "__be64")
    }

    /// Its name with `struct` or `union` where that belongs to it.
    pub fn words(&self) -> String {
        match (&self.shape, self.name.as_str()) {
            (Shape::Struct(_), "") => "a struct without a name".to_owned(),
            (Shape::Union(_), "") => "a union without a name".to_owned(),
            (Shape::Struct(_), name) => format!("struct {name}"),
            (Shape::Union(_), name) => format!("union {name}"),
            (Shape::Array { element, count }, "") => format!("{}[{count}]", element.words()),
            (_, name) => name.to_owned(),
        }
    }

    /// What byte `at` of it is: the path to a field (`tuple.ports[1]`), the padding after one
    /// (`padding after tuple.proto`), or nothing for what has no fields or is shorter.
    pub fn place(&self, at: u32) -> Option<String> {
        if at >= self.size {
            return None;
        }
        match &self.shape {
            Shape::Struct(_) | Shape::Union(_) | Shape::Array { .. } => {
                let mut path = String::new();
                Some(match self.descend(at, &mut path) {
                    true => path,
                    false if path.is_empty() => "padding at its start".to_owned(),
                    false => format!("padding after {path}"),
                })
            }
            _ => None,
        }
    }

    /// Extends `path` to the field of byte `at`. False where the byte is padding behind it.
    fn descend(&self, at: u32, path: &mut String) -> bool {
        match &self.shape {
            Shape::Struct(fields) | Shape::Union(fields) => {
                let holds = |f: &&Field| f.offset() <= at && at < f.end();
                if let Some(field) = fields.iter().find(holds) {
                    join(path, &field.name);
                    return match field.bits {
                        Some(_) => true,
                        None => field.of.descend(at - field.offset(), path),
                    };
                }
                let before = fields.iter().filter(|f| f.end() <= at);
                if let Some(field) = before.max_by_key(|f| f.end()) {
                    join(path, &field.name);
                }
                false
            }
            Shape::Array { element, count } if element.size > 0 => {
                let index = (at / element.size).min(count.saturating_sub(1));
                path.push_str(&format!("[{index}]"));
                element.descend(at % element.size, path)
            }
            _ => true,
        }
    }
}

fn join(path: &mut String, name: &str) {
    if !path.is_empty() && !name.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str, size: u32) -> Type {
        Type {
            name: name.to_owned(),
            size,
            shape: Shape::Integer { signed: false },
        }
    }

    fn field(name: &str, offset: u32, of: Type) -> Field {
        Field {
            name: name.to_owned(),
            bit_offset: offset * 8,
            bits: None,
            of,
        }
    }

    #[test]
    fn bytes_are_named_as_the_source_does() {
        let ports = Type {
            name: String::new(),
            size: 4,
            shape: Shape::Array {
                element: Box::new(number("__be16", 2)),
                count: 2,
            },
        };
        let inner = Type {
            name: String::new(),
            size: 8,
            shape: Shape::Struct(vec![
                field("proto", 0, number("__u8", 1)),
                field("ports", 4, ports),
            ]),
        };
        let flags = Field {
            bits: Some(3),
            ..field("flags", 12, number("__u32", 4))
        };
        let outer = Type {
            name: "flow".to_owned(),
            size: 16,
            shape: Shape::Struct(vec![
                field("saddr", 0, number("__be32", 4)),
                field("", 4, inner.clone()),
                flags,
            ]),
        };
        let place = |at| outer.place(at).unwrap();
        assert_eq!(place(3), "saddr");
        assert_eq!(place(4), "proto");
        assert_eq!(place(5), "padding after proto");
        assert_eq!(place(11), "ports[1]");
        assert_eq!(place(12), "flags");
        assert_eq!(place(13), "padding after flags");
        assert_eq!(outer.place(16), None);
        assert_eq!(number("__u32", 4).place(1), None);
        assert_eq!(outer.words(), "struct flow");
    }
}
