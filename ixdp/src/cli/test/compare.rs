//! What is expected against what was found, difference by difference.

use ixdp::xdp_vm::{Map, MapError, MapSpec, Maps};
use serde_json::{Value, json};

use super::expect::{Bytes, Packet};
use super::harness::{Ran, redirect_value, verdict_name};
use crate::cli::contents;
use crate::cli::fields::{Cell, Form, hexadecimal, render};
use crate::cli::maps_file::{Entry, Inner, Items, key_form, value_form};

/// One difference.
#[derive(Debug)]
pub(super) struct Difference {
    /// What differs: `verdict`, `bytes`, a key and a field.
    pub(super) what: String,
    pub(super) expected: Value,
    pub(super) got: Value,
    /// Lines that show where, for people.
    pub(super) shown: Vec<String>,
}

impl Difference {
    fn new(what: impl Into<String>, expected: Value, got: Value) -> Self {
        Difference {
            what: what.into(),
            expected,
            got,
            shown: vec![],
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({"what": self.what, "expected": self.expected, "got": self.got})
    }
}

/// A packet's differences.
pub(super) fn packet(expected: &Packet, ran: &Ran, maps: &Maps) -> Vec<Difference> {
    let mut differences = Vec::new();
    let done = match &ran.result {
        Ok(done) => done,
        Err(reason) => {
            let wanted = expected
                .verdict
                .map_or("a verdict".to_owned(), verdict_name);
            let got = format!("the program did not get it: {reason}");
            return vec![Difference::new("verdict", wanted.into(), got.into())];
        }
    };
    if let Some(verdict) = expected.verdict
        && verdict != done.verdict
    {
        let (expected, got) = (verdict_name(verdict), verdict_name(done.verdict));
        differences.push(Difference::new("verdict", expected.into(), got.into()));
    }
    if let Some(redirect) = &expected.redirect {
        let got = done.redirect.as_ref().map(|r| redirect_value(r, maps));
        if got.as_ref() != Some(redirect) {
            let got = got.unwrap_or(Value::Null);
            differences.push(Difference::new("redirect", redirect.clone(), got));
        }
    }
    if let Some(length) = expected.length
        && length != done.bytes.len()
    {
        let got = done.bytes.len().into();
        differences.push(Difference::new("length", length.into(), got));
    }
    let bytes = expected.bytes.as_ref().map(|bytes| match bytes {
        Bytes::Same => &ran.before,
        Bytes::These(bytes) => bytes,
    });
    if let Some(bytes) = bytes
        && *bytes != done.bytes
    {
        let (expected, got) = (hexadecimal(bytes), hexadecimal(&done.bytes));
        let mut difference = Difference::new("bytes", expected, got);
        difference.shown = dump(bytes, &done.bytes);
        differences.push(difference);
    }
    for (at, bytes) in &expected.at {
        let end = (at + bytes.len()).min(done.bytes.len());
        let got = done.bytes.get(*at..end).unwrap_or_default();
        if got != bytes {
            let what = format!("bytes from {at} on");
            differences.push(Difference::new(what, hexadecimal(bytes), hexadecimal(got)));
        }
    }
    differences
}

/// Bytes of a line.
const LINE: usize = 16;

/// The lines of both that differ, and below them where.
fn dump(expected: &[u8], got: &[u8]) -> Vec<String> {
    let mut lines = vec![];
    let length = expected.len().max(got.len());
    for from in (0..length).step_by(LINE) {
        let part = |bytes: &[u8]| -> Vec<u8> {
            let to = (from + LINE).min(bytes.len());
            bytes.get(from..to).unwrap_or_default().to_vec()
        };
        let (a, b) = (part(expected), part(got));
        if a == b {
            continue;
        }
        let text = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!(" {b:02x}")).collect() };
        let marks: String = (0..LINE)
            .map(|n| if a.get(n) == b.get(n) { "   " } else { " ^^" })
            .collect();
        lines.push(format!("expected  {from:04x} {}", text(&a)));
        lines.push(format!("got       {from:04x} {}", text(&b)));
        lines.push(format!("               {}", marks.trim_end()));
    }
    lines
}

/// A map's differences.
pub(super) fn map(map: &Map, expected: &Items) -> Result<Vec<Difference>, MapError> {
    let spec = map.spec();
    Ok(match (expected, contents::read(map)?) {
        (Items::Entries(expected), Some(Items::Entries(got))) => {
            entries(spec, expected, &got, spec.kind.is_array())
        }
        (Items::Values(expected), Some(Items::Values(got))) => values(spec, expected, &got),
        (Items::Inner(expected), Some(Items::Inner(got))) => inner(map, expected, &got)?,
        _ => {
            let what = "what user space cannot see of such a map";
            vec![Difference::new("contents", what.into(), Value::Null)]
        }
    })
}

fn entries(spec: &MapSpec, expected: &[Entry], got: &[Entry], is_array: bool) -> Vec<Difference> {
    let mut differences = Vec::new();
    let key = |key: &[u8]| format!("key {}", render(key, key_form(spec)));
    let values = |entry: &Entry| {
        let values = entry.values.iter();
        let mut values: Vec<Value> = values.map(|v| render(&v.bytes, value_form(spec))).collect();
        match values.len() {
            1 => values.remove(0),
            _ => Value::Array(values),
        }
    };
    for entry in expected {
        let zero;
        let found = match got.iter().find(|g| g.key == entry.key) {
            Some(found) => Some(found),
            // Zeroes are not listed.
            None if is_array => {
                let size = spec.value_size as usize;
                zero = Entry {
                    key: entry.key.clone(),
                    values: vec![Cell::whole(vec![0; size]); entry.values.len()],
                };
                Some(&zero)
            }
            None => None,
        };
        let Some(found) = found else {
            let expected = values(entry);
            differences.push(Difference::new(key(&entry.key), expected, Value::Null));
            continue;
        };
        for (cpu, (want, have)) in entry.values.iter().zip(&found.values).enumerate() {
            let mut what = key(&entry.key);
            if spec.kind.is_percpu() {
                what += &format!(", CPU {cpu}");
            }
            differences.extend(value(what, value_form(spec), want, &have.bytes));
        }
    }
    for entry in got {
        if !expected.iter().any(|e| e.key == entry.key) {
            let nothing = if is_array { 0.into() } else { Value::Null };
            differences.push(Difference::new(key(&entry.key), nothing, values(entry)));
        }
    }
    differences
}

/// A value's difference, by the field of its first byte that differs.
fn value(what: String, form: Form<'_>, want: &Cell, have: &[u8]) -> Option<Difference> {
    let at = want.difference(have)?;
    let field = form.of.and_then(|of| of.place(at as u32));
    let what = match field {
        Some(field) => format!("{what}, {field}"),
        None => what,
    };
    let (expected, got) = (render(&want.bytes, form), render(have, form));
    Some(Difference::new(what, expected, got))
}

fn values(spec: &MapSpec, expected: &[Cell], got: &[Cell]) -> Vec<Difference> {
    let mut differences = Vec::new();
    for n in 0..expected.len().max(got.len()) {
        let what = format!("value {n}");
        let form = value_form(spec);
        match (expected.get(n), got.get(n)) {
            (Some(want), Some(have)) => {
                differences.extend(value(what, form, want, &have.bytes));
            }
            (want, have) => {
                let told =
                    |cell: Option<&Cell>| cell.map_or(Value::Null, |c| render(&c.bytes, form));
                differences.push(Difference::new(what, told(want), told(have)));
            }
        }
    }
    differences
}

fn inner(
    map: &Map,
    expected: &[(Vec<u8>, Inner)],
    got: &[(Vec<u8>, Inner)],
) -> Result<Vec<Difference>, MapError> {
    let spec = map.spec();
    let mut differences = Vec::new();
    for (key, want) in expected {
        let what = format!("key {}", render(key, key_form(spec)));
        let there = map.inner(key)?;
        match (want, there) {
            (_, None) => {
                differences.push(Difference::new(what, "a map".into(), Value::Null));
            }
            (Inner::Named(name), Some(there)) if there.name() == name => {}
            (Inner::Named(name), Some(there)) => {
                differences.push(Difference::new(
                    what,
                    name.clone().into(),
                    there.name().into(),
                ));
            }
            (Inner::Own(want), Some(there)) => {
                let have = contents::entries(&there)?;
                let is_array = there.spec().kind.is_array();
                for mut difference in entries(there.spec(), want, &have, is_array) {
                    difference.what = format!("{what}: {}", difference.what);
                    differences.push(difference);
                }
            }
        }
    }
    for (key, _) in got {
        if !expected.iter().any(|(k, _)| k == key) {
            let what = format!("key {}", render(key, key_form(spec)));
            differences.push(Difference::new(what, Value::Null, "a map".into()));
        }
    }
    Ok(differences)
}

/// The differences of variables.
pub(super) fn globals(
    maps: &Maps,
    expected: &[(String, Cell)],
) -> Result<Vec<Difference>, MapError> {
    let mut differences = Vec::new();
    for (name, want) in expected {
        for map in maps.iter() {
            let Some(variable) = map.spec().variables.iter().find(|v| v.name == *name) else {
                continue;
            };
            let bytes = map.lookup(&[0; 4])?.unwrap_or_default();
            let from = variable.offset as usize;
            let have = bytes
                .get(from..from + variable.size as usize)
                .unwrap_or_default();
            let form = Form {
                size: variable.size as usize,
                of: variable.of.as_ref(),
            };
            differences.extend(value(name.clone(), form, want, have));
            break;
        }
    }
    Ok(differences)
}
