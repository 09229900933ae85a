//! Keys, values and variables as people write them, and as the machine has them: by the fields that BTF
//! tells of, or where there is no type, by their size.
//!
//! - a struct or union: an object of fields, `{"saddr": "10.0.0.1", "proto": 17}`; fields left out are 0
//! - an array: a list of elements, those left out 0; of `char`, a text; of bytes, an address or `0x` bytes
//! - an enumeration: a name of it; a truth value: true, false
//! - a number in network order by its type (`__be16`, ...): the number itself
//! - what is to be compared may be `"_"`, here or in a field: anything will do
//! - all of it as bytes: `"0x..."`, a list of numbers, and as the sizes allow a number or an address

use std::net::{Ipv4Addr, Ipv6Addr};

use driver_core::MacAddr;
use serde_json::{Map, Number, Value};
use xdp_vm::types::{Field, Shape, Type};

/// What a key or a value is, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form<'a> {
    pub(crate) size: usize,
    pub(crate) of: Option<&'a Type>,
}

/// Bytes, and which of their bits are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) bytes: Vec<u8>,
    mask: Vec<u8>,
}

impl Cell {
    /// These bytes, all of them meant.
    pub(crate) fn whole(bytes: Vec<u8>) -> Self {
        let mask = vec![0xff; bytes.len()];
        Cell { bytes, mask }
    }

    fn anything(size: usize) -> Self {
        Cell {
            bytes: vec![0; size],
            mask: vec![0; size],
        }
    }

    /// True where every bit is meant.
    pub(crate) fn is_whole(&self) -> bool {
        self.mask.iter().all(|m| *m == 0xff)
    }

    /// The first byte that is another than what is meant.
    pub(crate) fn difference(&self, bytes: &[u8]) -> Option<usize> {
        if bytes.len() != self.bytes.len() {
            return Some(self.bytes.len().min(bytes.len()));
        }
        let bits = self.bytes.iter().zip(bytes).zip(&self.mask);
        bits.into_iter()
            .position(|((a, b), mask)| (a ^ b) & mask != 0)
    }

    fn put(&mut self, at: usize, part: &Cell) {
        self.bytes[at..at + part.bytes.len()].copy_from_slice(&part.bytes);
        self.mask[at..at + part.mask.len()].copy_from_slice(&part.mask);
    }
}

/// Why a key or a value does not fit its size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldError {
    #[error("{number} does not fit {size} bytes")]
    Range { number: String, size: usize },
    #[error("a number is 1, 2, 4 or 8 bytes, and {size} are needed; write a list of bytes")]
    NumberSize { size: usize },
    #[error("{given} bytes are given, and {size} needed")]
    Length { given: usize, size: usize },
    #[error("{text} is a {what} of {given} bytes, and {size} are needed")]
    Address {
        text: String,
        what: &'static str,
        given: usize,
        size: usize,
    },
    #[error("a list of bytes has numbers from 0 to 255 only, not {0}")]
    Byte(String),
    #[error("{0} is no whole number, address, 0x number, or list of bytes")]
    Kind(String),
    #[error("{of} has no field `{field}`; it has {}", known.join(", "))]
    NoField {
        of: String,
        field: String,
        known: Vec<String>,
    },
    #[error("field `{field}`: {source}")]
    Field {
        field: String,
        source: Box<FieldError>,
    },
    #[error("`{name}` is none of the names of {of}: {}", known.join(", "))]
    NoName {
        of: String,
        name: String,
        known: Vec<String>,
    },
    #[error("{given} elements are given, and it has {count}")]
    Elements { given: usize, count: u32 },
    #[error("{number} does not fit a field of {bits} bits")]
    Bits { number: String, bits: u32 },
}

/// What in an expectation stands for anything.
const ANYTHING: &str = "_";

/// Reads a key or value.
pub(crate) fn encode(value: &Value, form: Form<'_>) -> Result<Cell, FieldError> {
    let Form { size, of } = form;
    if value.as_str() == Some(ANYTHING) {
        return Ok(Cell::anything(size));
    }
    match of.filter(|of| of.size as usize == size) {
        Some(of) => typed(value, of),
        None => raw(value, size).map(Cell::whole),
    }
}

fn typed(value: &Value, of: &Type) -> Result<Cell, FieldError> {
    let size = of.size as usize;
    if value.as_str() == Some(ANYTHING) {
        return Ok(Cell::anything(size));
    }
    match (&of.shape, value) {
        (Shape::Struct(fields) | Shape::Union(fields), Value::Object(members)) => {
            composite(of, fields, members)
        }
        (Shape::Array { element, count }, Value::Array(items))
            if items.len() != size || element.size == 1 || *count as usize == size =>
        {
            if items.len() > *count as usize {
                let given = items.len();
                let count = *count;
                return Err(FieldError::Elements { given, count });
            }
            let mut cell = Cell::whole(vec![0; size]);
            for (n, item) in items.iter().enumerate() {
                let part = typed(item, element).map_err(within(format!("[{n}]")))?;
                cell.put(n * element.size as usize, &part);
            }
            Ok(cell)
        }
        (Shape::Array { element, .. }, Value::String(text)) if element.name == "char" => {
            // A text, unless it is bytes.
            if text.starts_with("0x") {
                return raw(value, size).map(Cell::whole);
            }
            if text.len() > size {
                let given = text.len();
                return Err(FieldError::Length { given, size });
            }
            let mut bytes = text.clone().into_bytes();
            bytes.resize(size, 0);
            Ok(Cell::whole(bytes))
        }
        (Shape::Enumeration { names, .. }, Value::String(name))
            if !name.starts_with(|c: char| c.is_ascii_digit() || c == '-') =>
        {
            let found = names.iter().find(|(known, _)| known == name);
            let (_, number) = found.ok_or_else(|| FieldError::NoName {
                of: of.words(),
                name: name.clone(),
                known: names.iter().map(|(name, _)| name.clone()).collect(),
            })?;
            Ok(Cell::whole(number.to_le_bytes()[..size].to_vec()))
        }
        (Shape::Float, Value::Number(n)) if matches!(size, 4 | 8) => {
            let n = n.as_f64().ok_or_else(|| kind(value))?;
            Ok(Cell::whole(match size {
                4 => (n as f32).to_le_bytes().to_vec(),
                _ => n.to_le_bytes().to_vec(),
            }))
        }
        _ => {
            let mut bytes = raw(value, size)?;
            // Addresses are in network order already.
            if of.is_big_endian() && is_number(value) {
                bytes.reverse();
            }
            Ok(Cell::whole(bytes))
        }
    }
}

fn within(field: String) -> impl Fn(FieldError) -> FieldError {
    move |source| FieldError::Field {
        field: field.clone(),
        source: Box::new(source),
    }
}

fn composite(
    of: &Type,
    fields: &[Field],
    members: &Map<String, Value>,
) -> Result<Cell, FieldError> {
    let mut cell = Cell::whole(vec![0; of.size as usize]);
    for (name, value) in members {
        let Some((bit, field)) = find(fields, name, 0) else {
            let mut known = Vec::new();
            names(fields, &mut known);
            return Err(FieldError::NoField {
                of: of.words(),
                field: name.clone(),
                known,
            });
        };
        match field.bits {
            Some(bits) => put_bits(&mut cell, bit, bits, value),
            None => typed(value, &field.of).map(|part| cell.put(bit as usize / 8, &part)),
        }
        .map_err(within(name.clone()))?;
    }
    Ok(cell)
}

/// A field of that name, also inside of fields without one, and its first bit.
fn find<'a>(fields: &'a [Field], name: &str, from: u32) -> Option<(u32, &'a Field)> {
    fields.iter().find_map(|field| {
        let at = from + field.bit_offset;
        match (&field.of.shape, field.name.as_str()) {
            (Shape::Struct(inner) | Shape::Union(inner), "") => find(inner, name, at),
            (_, this) => (this == name).then_some((at, field)),
        }
    })
}

fn names(fields: &[Field], into: &mut Vec<String>) {
    for field in fields {
        match (&field.of.shape, field.name.as_str()) {
            (Shape::Struct(inner) | Shape::Union(inner), "") => names(inner, into),
            (_, "") => {}
            (_, name) => into.push(name.to_owned()),
        }
    }
}

fn put_bits(cell: &mut Cell, bit: u32, bits: u32, value: &Value) -> Result<(), FieldError> {
    let number = match value.as_str() {
        Some(ANYTHING) => None,
        _ => {
            let word = raw(value, 8)?;
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            // Negative numbers have all their upper bits set.
            let upper = word.checked_shr(bits.saturating_sub(1)).unwrap_or(0);
            if upper > 1 && upper != u64::MAX >> bits.saturating_sub(1) {
                let number = value.to_string();
                return Err(FieldError::Bits { number, bits });
            }
            Some(word)
        }
    };
    for n in 0..bits {
        let (byte, place) = (((bit + n) / 8) as usize, (bit + n) % 8);
        let (Some(to), Some(mask)) = (cell.bytes.get_mut(byte), cell.mask.get_mut(byte)) else {
            continue;
        };
        let one = number.is_some_and(|w| w.checked_shr(n).unwrap_or(0) & 1 != 0);
        *to = *to & !(1 << place) | u8::from(one) << place;
        *mask = *mask & !(1 << place) | u8::from(number.is_some()) << place;
    }
    Ok(())
}

/// Writes a key or value so that [`encode`] reads the same bytes again.
pub(crate) fn render(bytes: &[u8], form: Form<'_>) -> Value {
    if form.size != bytes.len() {
        return hexadecimal(bytes);
    }
    if let Some(of) = form.of {
        let told = tell(bytes, of);
        // Where fields do not have all of it (padding, unions), the bytes do.
        if encode(&told, form).is_ok_and(|cell| cell.bytes == bytes) {
            return told;
        }
    }
    show(bytes)
}

fn tell(bytes: &[u8], of: &Type) -> Value {
    let Some(bytes) = bytes.get(..of.size as usize) else {
        return show(bytes);
    };
    match &of.shape {
        Shape::Struct(fields) if of.name != "in6_addr" => {
            let mut members = Map::new();
            tell_fields(bytes, fields, 0, &mut members);
            Value::Object(members)
        }
        Shape::Struct(_) => tell_bytes(bytes),
        Shape::Array { element, .. } if element.size == 1 => match element.name.as_str() {
            "char" => tell_text(bytes),
            _ => tell_bytes(bytes),
        },
        Shape::Array { element, count } if element.size > 0 => {
            let elements = bytes.chunks(element.size as usize).take(*count as usize);
            Value::Array(elements.map(|bytes| tell(bytes, element)).collect())
        }
        Shape::Integer { .. } if of.is_big_endian() => match bytes {
            [a, b, c, d] => Ipv4Addr::new(*a, *b, *c, *d).to_string().into(),
            _ => bytes
                .iter()
                .fold(0u64, |n, b| n << 8 | u64::from(*b))
                .into(),
        },
        Shape::Integer { signed: true } => signed(bytes).map_or_else(|| show(bytes), Value::from),
        Shape::Bool if matches!(bytes, [0 | 1]) => Value::Bool(bytes == [1]),
        Shape::Enumeration { names, .. } => {
            let named = |(_, n): &&(String, i64)| n.to_le_bytes().starts_with(bytes);
            match names.iter().find(named) {
                Some((name, _)) => name.clone().into(),
                None => show(bytes),
            }
        }
        _ => show(bytes),
    }
}

fn tell_fields(bytes: &[u8], fields: &[Field], from: u32, into: &mut Map<String, Value>) {
    for field in fields {
        let bit = from + field.bit_offset;
        let part = bytes.get(bit as usize / 8..).unwrap_or_default();
        match (&field.of.shape, field.name.as_str(), field.bits) {
            (Shape::Struct(inner), "", _) => tell_fields(bytes, inner, bit, into),
            (Shape::Union(inner), "", _) => {
                // One of those in the same place says all.
                if let Some(largest) = inner.iter().max_by_key(|f| f.of.size) {
                    tell_fields(bytes, std::slice::from_ref(largest), bit, into);
                }
            }
            (_, "", _) => {}
            (_, name, Some(bits)) => {
                let one = |n: u32| {
                    let byte = bytes.get(((bit + n) / 8) as usize).copied().unwrap_or(0);
                    u64::from(byte >> ((bit + n) % 8) & 1) << n
                };
                let number: u64 = (0..bits.min(64)).map(one).sum();
                into.insert(name.to_owned(), number.into());
            }
            (_, name, None) => {
                into.insert(name.to_owned(), tell(part, &field.of));
            }
        }
    }
}

fn tell_text(bytes: &[u8]) -> Value {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
    match std::str::from_utf8(&bytes[..end]) {
        Ok(text) if !text.chars().any(char::is_control) && !text.starts_with("0x") => text.into(),
        _ => hexadecimal(bytes),
    }
}

/// Bytes as the address that their number suggests.
fn tell_bytes(bytes: &[u8]) -> Value {
    if let Ok(mac) = <[u8; 6]>::try_from(bytes) {
        return MacAddr(mac).to_string().into();
    }
    if let Ok(ip) = <[u8; 16]>::try_from(bytes) {
        return Ipv6Addr::from(ip).to_string().into();
    }
    match bytes.len() {
        1 | 2 | 4 | 8 => bytes.iter().copied().collect(),
        _ => hexadecimal(bytes),
    }
}

fn signed(bytes: &[u8]) -> Option<i64> {
    let mut word = match bytes.last()? & 0x80 {
        0 => [0; 8],
        _ => [0xff; 8],
    };
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(word))
}

fn is_number(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim().parse::<std::net::IpAddr>().is_err(),
        Value::Number(_) | Value::Bool(_) => true,
        _ => false,
    }
}

/// Bytes as they lie in memory.
pub(crate) fn hexadecimal(bytes: &[u8]) -> Value {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    Value::String(format!("0x{digits}"))
}

/// The bytes of a key or value of `size` bytes.
fn raw(value: &Value, size: usize) -> Result<Vec<u8>, FieldError> {
    match value {
        Value::Bool(b) => number(i128::from(*b), size),
        Value::Number(n) => number(whole(n).ok_or_else(|| kind(value))?, size),
        Value::String(text) => from_text(text.trim(), size),
        Value::Array(items) => {
            let bytes = items.iter().map(|item| {
                let byte = item.as_u64().and_then(|b| u8::try_from(b).ok());
                byte.ok_or_else(|| FieldError::Byte(item.to_string()))
            });
            sized(bytes.collect::<Result<_, _>>()?, size)
        }
        _ => Err(kind(value)),
    }
}

fn kind(value: &Value) -> FieldError {
    FieldError::Kind(value.to_string())
}

fn whole(n: &Number) -> Option<i128> {
    let signed = n.as_i64().map(i128::from);
    signed.or_else(|| n.as_u64().map(i128::from))
}

fn from_text(text: &str, size: usize) -> Result<Vec<u8>, FieldError> {
    let wrong = || FieldError::Kind(format!("{text:?}"));
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        if !matches!(size, 1 | 2 | 4 | 8) {
            return sized(memory(digits).ok_or_else(wrong)?, size);
        }
        let value = i128::from_str_radix(digits, 16).unwrap_or(i128::MAX);
        return number(value, size);
    }
    let address = |bytes: &[u8], what| match bytes.len() == size {
        true => Ok(bytes.to_vec()),
        false => Err(FieldError::Address {
            text: text.to_owned(),
            what,
            given: bytes.len(),
            size,
        }),
    };
    if let Ok(ip) = text.parse::<Ipv4Addr>() {
        return address(&ip.octets(), "IPv4 address");
    }
    if let Ok(mac) = text.parse::<MacAddr>() {
        return address(&mac.0, "Ethernet address");
    }
    if let Ok(ip) = text.parse::<Ipv6Addr>() {
        return address(&ip.octets(), "IPv6 address");
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    number(text.parse().unwrap_or(i128::MAX), size)
}

/// A number in the machine's byte order, two's complement where negative.
fn number(value: i128, size: usize) -> Result<Vec<u8>, FieldError> {
    if !matches!(size, 1 | 2 | 4 | 8) {
        return Err(FieldError::NumberSize { size });
    }
    let bits = 8 * size as u32;
    if value >= 1 << bits || value < -(1 << (bits - 1)) {
        return Err(FieldError::Range {
            number: value.to_string(),
            size,
        });
    }
    // eBPF programs here are little-endian, and so are the machines that run them.
    Ok(value.to_le_bytes()[..size].to_vec())
}

/// Bytes as they lie in memory, two hexadecimal digits each.
pub(crate) fn memory(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    rest.is_empty().then(|| bytes.collect())?
}

fn sized(bytes: Vec<u8>, size: usize) -> Result<Vec<u8>, FieldError> {
    match bytes.len() == size {
        true => Ok(bytes),
        false => Err(FieldError::Length {
            given: bytes.len(),
            size,
        }),
    }
}

/// A number where the size allows one, else memory in hexadecimal.
fn show(bytes: &[u8]) -> Value {
    if !matches!(bytes.len(), 1 | 2 | 4 | 8) {
        return hexadecimal(bytes);
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word).into()
}
