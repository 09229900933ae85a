//! Contents of maps as JSON: what `--maps` reads and `--dump-maps` writes.
//!
//! ```json
//! {"blocked": {"10.0.0.1": 1},
//!  "ports":   [{"key": 8080, "value": [1, 0]}]}
//! ```
//! Keys and values are sized by the map. A number, or a string with one (`"17"`, `"0x1f90"`), is in
//! the machine's byte order and for sizes of 1, 2, 4 and 8 bytes; an address (IPv4, IPv6, Ethernet)
//! is in network order; `"0x..."` for any other size, and a list of bytes, are memory as it lies
//! there. In a per-CPU map a list is one value a CPU, and anything else is every CPU's.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};

use driver_core::MacAddr;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value, json};
use xdp_vm::{MapError, MapSpec};

/// What a file says of one map.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Index of the map in its object.
    pub(crate) map: usize,
    pub(crate) entries: Vec<Entry>,
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    /// One value, or in a per-CPU map one a CPU.
    pub(crate) values: Vec<Vec<u8>>,
}

/// Why a map file does not fit the object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MapsFileError {
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("not an object of maps; write {{\"map\": {{\"key\": value}}}}")]
    NotAnObject,
    #[error("the object has no map `{map}`; it has {}", list(known))]
    NoSuchMap { map: String, known: Vec<String> },
    #[error(
        "map {map}: write {{\"key\": value, ...}} or [{{\"key\": key, \"value\": value}}, ...]"
    )]
    NotEntries { map: String },
    #[error("map {map}, key {key}: {source}")]
    Key {
        map: String,
        key: String,
        source: FieldError,
    },
    #[error("map {map}, value of key {key}: {source}")]
    Value {
        map: String,
        key: String,
        source: FieldError,
    },
    #[error("map {map}, key {key} is there twice")]
    Twice { map: String, key: String },
    #[error("map {map} is there twice; put all its entries together")]
    MapTwice { map: String },
    #[error("{source} (key {key}; it has room for {entries} entries)")]
    Refused {
        key: String,
        entries: u32,
        source: MapError,
    },
    #[error("map {map}, key {key}: {given} values for {cpus} CPUs (one a queue)")]
    Cpus {
        map: String,
        key: String,
        given: usize,
        cpus: usize,
    },
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
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// What a map says of an entry that it does not take.
pub(crate) fn refused(spec: &MapSpec, key: &[u8], source: MapError) -> MapsFileError {
    MapsFileError::Refused {
        key: show(key).to_string(),
        entries: spec.max_entries,
        source,
    }
}

/// A part of the file. An object keeps members that are there twice, which [`Value`] would lose.
#[derive(Deserialize)]
#[serde(untagged)]
enum Part<V> {
    #[serde(
        bound(deserialize = "V: Deserialize<'de>"),
        deserialize_with = "members"
    )]
    Members(Vec<(String, V)>),
    Other(Value),
}

fn members<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
    from: D,
) -> Result<Vec<(String, V)>, D::Error> {
    struct Members<V>(PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
        type Value = Vec<(String, V)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }
    from.deserialize_map(Members(PhantomData))
}

/// Reads a map file against the maps of an object. Nothing of it is kept where one thing is wrong.
pub(crate) fn parse(
    text: &[u8],
    specs: &[MapSpec],
    cpus: usize,
) -> Result<Vec<Contents>, MapsFileError> {
    let Part::Members(maps) = serde_json::from_slice::<Part<Part<Value>>>(text)? else {
        return Err(MapsFileError::NotAnObject);
    };
    let mut seen = HashSet::new();
    maps.into_iter()
        .map(|(name, entries)| {
            if !seen.insert(name.clone()) {
                return Err(MapsFileError::MapTwice { map: name });
            }
            let map = specs.iter().position(|s| s.name == name);
            let map = map.ok_or_else(|| MapsFileError::NoSuchMap {
                map: name,
                known: specs.iter().map(|s| s.name.clone()).collect(),
            })?;
            let entries = Reader {
                spec: &specs[map],
                cpus,
                seen: HashSet::new(),
            }
            .entries(entries)?;
            Ok(Contents { map, entries })
        })
        .collect()
}

/// Reads the entries of one map.
struct Reader<'a> {
    spec: &'a MapSpec,
    cpus: usize,
    seen: HashSet<Vec<u8>>,
}

impl Reader<'_> {
    fn entries(&mut self, entries: Part<Value>) -> Result<Vec<Entry>, MapsFileError> {
        let map = || self.spec.name.clone();
        let pairs: Vec<(Value, Value)> = match entries {
            Part::Members(pairs) => pairs
                .into_iter()
                .map(|(k, v)| (Value::String(k), v))
                .collect(),
            Part::Other(Value::Array(items)) => items
                .into_iter()
                .map(|item| pair(item).ok_or_else(|| MapsFileError::NotEntries { map: map() }))
                .collect::<Result<_, _>>()?,
            Part::Other(_) => return Err(MapsFileError::NotEntries { map: map() }),
        };
        pairs.into_iter().map(|(k, v)| self.entry(k, v)).collect()
    }

    fn entry(&mut self, key: Value, value: Value) -> Result<Entry, MapsFileError> {
        let map = || self.spec.name.clone();
        let shown = match &key {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let bytes =
            field(&key, self.spec.key_size as usize).map_err(|source| MapsFileError::Key {
                map: map(),
                key: shown.clone(),
                source,
            })?;
        if !self.seen.insert(bytes.clone()) {
            return Err(MapsFileError::Twice {
                map: map(),
                key: shown,
            });
        }
        let size = self.spec.value_size as usize;
        let read = |value: &Value| {
            field(value, size).map_err(|source| MapsFileError::Value {
                map: map(),
                key: shown.clone(),
                source,
            })
        };
        let values = match (self.spec.kind.is_percpu(), &value) {
            (true, Value::Array(items)) if items.len() != self.cpus => {
                return Err(MapsFileError::Cpus {
                    map: map(),
                    key: shown,
                    given: items.len(),
                    cpus: self.cpus,
                });
            }
            (true, Value::Array(items)) => items.iter().map(read).collect::<Result<_, _>>()?,
            (true, one) => vec![read(one)?; self.cpus],
            (false, one) => vec![read(one)?],
        };
        Ok(Entry { key: bytes, values })
    }
}

/// The two members of `{"key": .., "value": ..}`, and no other.
fn pair(item: Value) -> Option<(Value, Value)> {
    let Value::Object(mut members) = item else {
        return None;
    };
    let key = members.remove("key")?;
    let value = members.remove("value")?;
    members.is_empty().then_some((key, value))
}

/// The bytes of a key or value of `size` bytes.
fn field(value: &Value, size: usize) -> Result<Vec<u8>, FieldError> {
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
fn memory(digits: &str) -> Option<Vec<u8>> {
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

/// Writes the contents of maps in the form that [`parse`] reads, one map a line.
pub(crate) fn render<'a>(maps: impl Iterator<Item = (&'a MapSpec, Vec<Entry>)>) -> String {
    let lines: Vec<String> = maps
        .map(|(spec, entries)| {
            let entries = entries.iter().map(|entry| {
                let values: Vec<Value> = entry.values.iter().map(|v| show(v)).collect();
                let value = match spec.kind.is_percpu() {
                    true => Value::Array(values),
                    false => values.into_iter().next().unwrap_or_default(),
                };
                json!({"key": show(&entry.key), "value": value})
            });
            let name = Value::String(spec.name.clone());
            format!("{name}: {}", Value::Array(entries.collect()))
        })
        .collect();
    match lines.is_empty() {
        true => "{}\n".to_owned(),
        false => format!("{{\n{}\n}}\n", lines.join(",\n")),
    }
}

/// A number where the size allows one, else memory in hexadecimal.
fn show(bytes: &[u8]) -> Value {
    if !matches!(bytes.len(), 1 | 2 | 4 | 8) {
        let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        return Value::String(format!("0x{digits}"));
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdp_vm::MapKind;

    fn spec(name: &str, kind: MapKind, key_size: u32, value_size: u32) -> MapSpec {
        MapSpec {
            name: name.to_owned(),
            kind,
            key_size,
            value_size,
            max_entries: 8,
            flags: 0,
            initial: None,
            frozen: false,
            variables: Vec::new(),
            ..MapSpec::default()
        }
    }

    fn read(text: &str, spec: MapSpec) -> Result<Vec<Entry>, String> {
        let mut all = parse(text.as_bytes(), &[spec], 2).map_err(|e| e.to_string())?;
        assert_eq!((all.len(), all[0].map), (1, 0));
        Ok(all.remove(0).entries)
    }

    fn entry(key: &[u8], values: &[&[u8]]) -> Entry {
        Entry {
            key: key.to_vec(),
            values: values.iter().map(|v| v.to_vec()).collect(),
        }
    }

    #[test]
    fn every_way_to_write_a_field() {
        let hash = |key, value| spec("m", MapKind::Hash, key, value);
        let one = |text: &str, key, value| read(text, hash(key, value)).unwrap().remove(0);
        assert_eq!(
            one(r#"{"m": {"10.0.0.1": 258}}"#, 4, 2),
            entry(&[10, 0, 0, 1], &[&[2, 1]])
        );
        assert_eq!(
            one(r#"{"m": {"0x0a000001": -2}}"#, 4, 8),
            entry(
                &[1, 0, 0, 10],
                &[&[0xfe, 255, 255, 255, 255, 255, 255, 255]]
            )
        );
        assert_eq!(
            one(r#"{"m": {"2001:db8::1": "02:00:00:00:00:0f"}}"#, 16, 6),
            entry(
                &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                &[&[2, 0, 0, 0, 0, 15]]
            )
        );
        assert_eq!(
            one(r#"{"m": [{"key": [1,2,3], "value": "0xAA00bb"}]}"#, 3, 3),
            entry(&[1, 2, 3], &[&[0xaa, 0, 0xbb]])
        );
        assert_eq!(
            one(r#"{"m": {"18446744073709551615": true}}"#, 8, 1),
            entry(&[255; 8], &[&[1]])
        );
    }

    #[test]
    fn a_per_cpu_list_is_one_value_a_cpu() {
        let map = || spec("m", MapKind::PercpuArray, 4, 2);
        assert_eq!(
            read(r#"{"m": {"1": [5, [6, 7]]}}"#, map()),
            Ok(vec![entry(&[1, 0, 0, 0], &[&[5, 0], &[6, 7]])])
        );
        assert_eq!(
            read(r#"{"m": {"1": 9}}"#, map()),
            Ok(vec![entry(&[1, 0, 0, 0], &[&[9, 0], &[9, 0]])])
        );
        assert_eq!(
            read(r#"{"m": {"1": [9]}}"#, map()),
            Err("map m, key 1: 1 values for 2 CPUs (one a queue)".to_owned())
        );
    }

    #[test]
    fn errors_name_map_key_and_cause() {
        let hash = || spec("m", MapKind::Hash, 4, 2);
        for (text, error) in [
            ("[]", "not an object of maps"),
            (r#"{"n": {}}"#, "no map `n`; it has m"),
            (r#"{"m": 1}"#, "map m: write"),
            (r#"{"m": [{"key": 1}]}"#, "map m: write"),
            (
                r#"{"m": {"x": 1}}"#,
                "map m, key x: \"x\" is no whole number",
            ),
            (
                r#"{"m": {"1": 65536}}"#,
                "map m, value of key 1: 65536 does not fit 2 bytes",
            ),
            (r#"{"m": {"1": -32769}}"#, "does not fit"),
            (r#"{"m": {"1": 1.5}}"#, "1.5 is no whole number"),
            (r#"{"m": {"1": null}}"#, "null is no"),
            (r#"{"m": {"1": [1]}}"#, "1 bytes are given, and 2 needed"),
            (r#"{"m": {"1": 1, "1": 2}}"#, "map m, key 1 is there twice"),
            (r#"{"m": {"1": 1}, "m": {"2": 2}}"#, "map m is there twice"),
            (r#"{"m": {"1": [1, 256]}}"#, "not 256"),
            (
                r#"{"m": {"::1": 1}}"#,
                "IPv6 address of 16 bytes, and 4 are needed",
            ),
            (r#"{"m": {"1": 1, "0x1": 2}}"#, "is there twice"),
            (
                r#"{"m": {"99999999999999999999999999999999999999999999": 1}}"#,
                "does not fit",
            ),
        ] {
            let got = read(text, hash()).unwrap_err();
            assert!(got.contains(error), "{text}: {got}");
        }
        assert!(
            parse(b"{", &[hash()], 1)
                .unwrap_err()
                .to_string()
                .starts_with("not JSON: ")
        );
        let wide = read(r#"{"m": {"1": 1}}"#, spec("m", MapKind::Hash, 3, 1)).unwrap_err();
        assert!(
            wide.contains("a number is 1, 2, 4 or 8 bytes, and 3"),
            "{wide}"
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        let maps = [
            spec("plain", MapKind::Hash, 6, 8),
            spec("each", MapKind::PercpuHash, 2, 3),
        ];
        let plain = vec![entry(&[1, 2, 3, 4, 5, 6], &[&[255; 8]])];
        let each = vec![entry(&[7, 0], &[&[1, 2, 3], &[0, 0, 0]])];
        let text = render(maps.iter().zip([plain, each]));
        let back = parse(text.as_bytes(), &maps, 2).unwrap();
        assert_eq!(back.len(), 2);
        let again = |name: &str| {
            let found = back.iter().find(|c| maps[c.map].name == name).unwrap();
            found.entries[0].clone()
        };
        assert_eq!(again("plain"), entry(&[1, 2, 3, 4, 5, 6], &[&[255; 8]]));
        assert_eq!(again("each"), entry(&[7, 0], &[&[1, 2, 3], &[0, 0, 0]]));
        assert_eq!(render([].into_iter()), "{}\n");
    }
}
