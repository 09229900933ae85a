//! Global variables of the C source, set before the program is loaded, as loaders' skeletons do.

use super::LoadError;
use crate::Object;

impl Object {
    /// Sets the global variable `name` to `value`, in the map's initial contents: also one in
    /// `.rodata`, which nobody can write later. Verify the programs after it, not before.
    ///
    /// # Errors
    /// There is no such variable, or `value` is not of its size.
    pub fn set_variable(&mut self, name: &str, value: &[u8]) -> Result<(), LoadError> {
        let (map, variable) = self.find_variable(name)?;
        let spec = &mut self.maps[map];
        let (offset, size) = {
            let v = &spec.variables[variable];
            (v.offset as usize, v.size)
        };
        if value.len() != size as usize {
            return Err(LoadError::VariableSize {
                name: name.to_owned(),
                size,
                given: value.len(),
            });
        }
        let bytes = spec.initial.get_or_insert_default();
        let end = offset + size as usize;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset..end].copy_from_slice(value);
        Ok(())
    }

    /// Sets the global variable `name` from text: a variable of 1, 2, 4 or 8 bytes from a number
    /// (decimal, `0x` hexadecimal, negative), one of another size from its bytes in hexadecimal
    /// (`0a 0b` or `0a0b`).
    ///
    /// # Errors
    /// As [`Object::set_variable`], and text that is no number or one out of range.
    pub fn set_variable_text(&mut self, name: &str, text: &str) -> Result<(), LoadError> {
        let (map, variable) = self.find_variable(name)?;
        let size = self.maps[map].variables[variable].size;
        let value = match size {
            1 | 2 | 4 | 8 => number(name, size, text.trim())?,
            _ => hex(text).ok_or_else(|| LoadError::VariableText {
                name: name.to_owned(),
                size,
                text: text.to_owned(),
                expected: "bytes in hexadecimal",
            })?,
        };
        self.set_variable(name, &value)
    }

    /// Indices of the map and of the variable in it.
    fn find_variable(&self, name: &str) -> Result<(usize, usize), LoadError> {
        for (map, spec) in self.maps.iter().enumerate() {
            if let Some(at) = spec.variables.iter().position(|v| v.name == name) {
                return Ok((map, at));
            }
        }
        let names = self.maps.iter().flat_map(|m| &m.variables);
        let near = names
            .map(|v| (distance(&v.name, name), &v.name))
            .filter(|(d, _)| *d <= 1 + name.len() / 3)
            .min()
            .map(|(_, n)| n.clone());
        Err(LoadError::UnknownVariable {
            name: name.to_owned(),
            near,
        })
    }
}

/// A number in the two's complement of `size` bytes, little-endian.
fn number(name: &str, size: u32, text: &str) -> Result<Vec<u8>, LoadError> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = match hexadecimal {
        Some(rest) => (rest, 16),
        None => (digits, 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(LoadError::VariableText {
            name: name.to_owned(),
            size,
            text: text.to_owned(),
            expected: "a number",
        });
    }
    let high = u64::MAX >> (64 - 8 * size);
    let low = -1i64 << (8 * size - 1);
    // What does not fit 128 bits is out of range all the same.
    let value = i128::from_str_radix(digits, radix).unwrap_or(i128::MAX);
    let value = if negative { -value } else { value };
    if value < i128::from(low) || value > i128::from(high) {
        return Err(LoadError::OutOfRange {
            name: name.to_owned(),
            size,
            text: text.to_owned(),
            low,
            high,
        });
    }
    Ok(value.to_le_bytes()[..size as usize].to_vec())
}

/// Pairs of hexadecimal digits, white space between them ignored.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Edits between two names (Levenshtein), to suggest what was meant. Names are cut at 64 bytes.
fn distance(a: &str, b: &str) -> usize {
    let cut = |s: &str| s.bytes().take(64).collect::<Vec<_>>();
    let (a, b) = (cut(a), cut(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MapKind, MapSpec, Variable};

    fn object() -> Object {
        let variable = |name: &str, offset, size| Variable {
            name: name.to_owned(),
            offset,
            size,
            of: None,
        };
        let spec = |name: &str, initial, variables| MapSpec {
            name: name.to_owned(),
            kind: MapKind::Array,
            key_size: 4,
            value_size: 32,
            max_entries: 1,
            flags: 0,
            initial,
            frozen: false,
            variables,
            ..MapSpec::default()
        };
        Object {
            maps: vec![
                spec(
                    ".rodata",
                    Some(vec![0xee; 32]),
                    vec![
                        variable("port", 2, 2),
                        variable("big", 8, 8),
                        variable("mac", 16, 6),
                    ],
                ),
                spec(".bss", None, vec![variable("level", 4, 1)]),
            ],
            ..Object::default()
        }
    }

    #[test]
    fn numbers_are_sized_and_checked() {
        let mut o = object();
        o.set_variable_text("port", "0x1F90").unwrap();
        o.set_variable_text("big", "-2").unwrap();
        o.set_variable_text("mac", "02 00 00 aabbcc").unwrap();
        o.set_variable_text("level", "-128").unwrap();
        let rodata = o.maps[0].initial.as_ref().unwrap();
        assert_eq!(
            rodata[0..8],
            [0xee, 0xee, 0x90, 0x1f, 0xee, 0xee, 0xee, 0xee]
        );
        assert_eq!(rodata[8..16], (-2i64).to_le_bytes());
        assert_eq!(rodata[16..22], [2, 0, 0, 0xaa, 0xbb, 0xcc]);
        assert_eq!(rodata[22], 0xee);
        assert_eq!(o.maps[1].initial.as_ref().unwrap()[..], [0, 0, 0, 0, 0x80]);

        for (name, text) in [("port", "65536"), ("port", "-32769"), ("level", "256")] {
            let e = o.set_variable_text(name, text).unwrap_err();
            assert!(matches!(e, LoadError::OutOfRange { .. }), "{e}");
        }
        let huge = "9".repeat(200);
        let e = o.set_variable_text("big", &huge).unwrap_err();
        assert!(matches!(e, LoadError::OutOfRange { .. }), "{e}");
        for (name, text) in [("port", "8o"), ("port", ""), ("port", "0x"), ("mac", "abc")] {
            let e = o.set_variable_text(name, text).unwrap_err();
            assert!(matches!(e, LoadError::VariableText { .. }), "{e}");
        }
        let e = o.set_variable("port", &[1]).unwrap_err();
        assert_eq!(
            e.to_string(),
            "variable port has 2 bytes, the value given 1"
        );
        let e = o.set_variable_text("mac", "0102").unwrap_err();
        assert!(matches!(e, LoadError::VariableSize { .. }), "{e}");
    }

    #[test]
    fn an_unknown_name_brings_a_near_one() {
        let e = object().set_variable("prot", &[]).unwrap_err();
        assert_eq!(
            e.to_string(),
            "no global variable is named prot; did you mean port?"
        );
        let e = object().set_variable("something_else", &[]).unwrap_err();
        assert_eq!(e.to_string(), "no global variable is named something_else");
    }
}
