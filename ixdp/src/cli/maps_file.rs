//! Contents of maps in files: what `--maps` reads and `--dump-maps` writes, as JSON or as TOML.
//!
//! ```json
//! {"blocked": {"10.0.0.1": 1},
//!  "flows":   [{"key": {"saddr": "10.0.0.1", "port": 53}, "value": {"packets": 2}}],
//!  "globals": {"closed_port": 53}}
//! ```
//! Keys and values are written as `fields` has it. In a per-CPU map a list is one value a CPU, and
//! anything else is every CPU's. A map of maps holds names of maps, or the contents of new ones; a
//! program array the names of programs; queues, stacks and bloom filters are lists of values.
//! `globals` are variables of `.data`, `.rodata` and `.bss`, by name.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use xdp_vm::{LoadError, MapError, MapKind, MapSpec};

use crate::cli::fields::{Cell, FieldError, Form, encode, memory, render as show};

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) maps: Vec<MapContents>,
    /// Variables by name, with their bytes.
    pub(crate) globals: Vec<(String, Cell)>,
}

/// What a file says of one map.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MapContents {
    /// Index of the map in its object.
    pub(crate) map: usize,
    pub(crate) items: Items,
}

/// What a map holds, by its kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Items {
    /// Values under keys.
    Entries(Vec<Entry>),
    /// Values without keys, in their order: of queues, stacks, bloom filters, ring buffers.
    Values(Vec<Cell>),
    /// Maps under keys.
    Inner(Vec<(Vec<u8>, Inner)>),
    /// Programs by name.
    Programs(Vec<(u32, String)>),
}

/// An entry of a map of maps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    /// A map of the object.
    Named(String),
    /// One of its own.
    Own(Vec<Entry>),
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    /// One value, or in a per-CPU map one a CPU.
    pub(crate) values: Vec<Cell>,
}

/// The name under which variables are.
pub(crate) const GLOBALS: &str = "globals";

/// Why a map file does not fit the object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MapsFileError {
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("not TOML: {0}")]
    Toml(#[from] toml::de::Error),
    #[error("not text: {0}")]
    Text(#[from] std::str::Utf8Error),
    #[error("`globals` is not an object of variables and their values")]
    NotGlobals,
    #[error("{0}")]
    NoVariable(Box<LoadError>),
    #[error("variable {name}: {source}")]
    Variable {
        name: String,
        source: Box<FieldError>,
    },
    #[error("map {map}: `_` stands for anything and is for expectations only")]
    Anything { map: String },
    #[error("map {map}: write a list of values, as in [1, 2]")]
    NotValues { map: String },
    #[error("map {map}, key {key}: write the name of {what}")]
    NotName {
        map: String,
        key: String,
        what: &'static str,
    },
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
        source: Box<FieldError>,
    },
    #[error("map {map}, value of key {key}: {source}")]
    Value {
        map: String,
        key: String,
        source: Box<FieldError>,
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

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// What a map says of an entry that it does not take.
pub(crate) fn refused(spec: &MapSpec, key: &[u8], source: MapError) -> MapsFileError {
    MapsFileError::Refused {
        key: show(key, key_form(spec)).to_string(),
        entries: spec.max_entries,
        source,
    }
}

/// A part of the file. An object keeps members that are there twice, which [`Value`] would lose.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Part<V> {
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

/// The parts of a file: of JSON where it starts with a brace or bracket, else of TOML.
pub(crate) fn document<T: for<'de> Deserialize<'de>>(text: &[u8]) -> Result<T, MapsFileError> {
    let first = text.iter().find(|b| !b.is_ascii_whitespace());
    // A list or a table's head: TOML has the latter at the start of a line of its own.
    let is_json = match first {
        Some(b'{') => true,
        Some(b'[') => serde_json::from_slice::<Value>(text).is_ok(),
        _ => false,
    };
    Ok(match is_json {
        true => serde_json::from_slice(text)?,
        false => toml::from_str(std::str::from_utf8(text)?)?,
    })
}

/// Reads a map file against the maps of an object. Nothing of it is kept where one thing is wrong.
pub(crate) fn parse(
    text: &[u8],
    specs: &[MapSpec],
    cpus: usize,
) -> Result<Contents, MapsFileError> {
    read(document(text)?, specs, cpus)
}

/// A file's parts before it is known what they should be.
pub(crate) type Parts = Part<Part<Value>>;

/// As [`parse`], of what was taken from its file.
pub(crate) fn read(
    parts: Parts,
    specs: &[MapSpec],
    cpus: usize,
) -> Result<Contents, MapsFileError> {
    let Part::Members(maps) = parts else {
        return Err(MapsFileError::NotAnObject);
    };
    let mut contents = Contents::default();
    let mut seen = HashSet::new();
    for (name, items) in maps {
        if !seen.insert(name.clone()) {
            return Err(MapsFileError::MapTwice { map: name });
        }
        let Some(map) = specs.iter().position(|s| s.name == name) else {
            if name == GLOBALS {
                contents.globals = globals(items, specs)?;
                continue;
            }
            return Err(MapsFileError::NoSuchMap {
                map: name,
                known: specs.iter().map(|s| s.name.clone()).collect(),
            });
        };
        let items = Reader::new(&specs[map], cpus).items(items)?;
        contents.maps.push(MapContents { map, items });
    }
    Ok(contents)
}

/// The variables of `globals`.
fn globals(items: Part<Value>, specs: &[MapSpec]) -> Result<Vec<(String, Cell)>, MapsFileError> {
    let Part::Members(members) = items else {
        return Err(MapsFileError::NotGlobals);
    };
    let mut globals = Vec::new();
    for (name, value) in members {
        let mut variables = specs.iter().flat_map(|s| &s.variables);
        let Some(variable) = variables.find(|v| v.name == name) else {
            let near = None;
            let unknown = LoadError::UnknownVariable { name, near };
            return Err(MapsFileError::NoVariable(unknown.into()));
        };
        let form = Form {
            size: variable.size as usize,
            of: variable.of.as_ref(),
        };
        match encode(&value, form) {
            Ok(cell) => globals.push((name, cell)),
            Err(source) => {
                let source = source.into();
                return Err(MapsFileError::Variable { name, source });
            }
        }
    }
    Ok(globals)
}

/// What the keys of a map are.
pub(crate) fn key_form(spec: &MapSpec) -> Form<'_> {
    Form {
        size: spec.key_size as usize,
        of: spec.key.as_ref(),
    }
}

/// What the values of a map are; records of events are bytes of any length, for which the size is 0.
pub(crate) fn value_form(spec: &MapSpec) -> Form<'_> {
    match is_of_records(spec) {
        true => Form { size: 0, of: None },
        false => Form {
            size: spec.value_size as usize,
            of: spec.value.as_ref(),
        },
    }
}

fn is_of_records(spec: &MapSpec) -> bool {
    matches!(spec.kind, MapKind::Ringbuf | MapKind::PerfEventArray)
}

/// A record of an event, whose length is its own.
fn record(value: &Value) -> Result<Cell, FieldError> {
    let text = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let bytes = text.and_then(memory);
    bytes
        .map(Cell::whole)
        .ok_or_else(|| FieldError::Kind(value.to_string()))
}

/// Reads the entries of one map.
struct Reader<'a> {
    spec: &'a MapSpec,
    cpus: usize,
    seen: HashSet<Vec<u8>>,
}

impl<'a> Reader<'a> {
    fn new(spec: &'a MapSpec, cpus: usize) -> Self {
        Reader {
            spec,
            cpus,
            seen: HashSet::new(),
        }
    }

    fn items(&mut self, items: Part<Value>) -> Result<Items, MapsFileError> {
        let map = || self.spec.name.clone();
        match self.spec.kind {
            MapKind::Queue
            | MapKind::Stack
            | MapKind::BloomFilter
            | MapKind::Ringbuf
            | MapKind::PerfEventArray => {
                let values =
                    values(items).ok_or_else(|| MapsFileError::NotValues { map: map() })?;
                let read = |value| match is_of_records(self.spec) {
                    true => record(value),
                    false => encode(value, value_form(self.spec)),
                };
                let cells = values.iter().map(read).collect::<Result<_, _>>();
                cells
                    .map(Items::Values)
                    .map_err(|source| MapsFileError::Value {
                        map: map(),
                        key: "none".to_owned(),
                        source: source.into(),
                    })
            }
            MapKind::ProgArray => {
                let pairs = self.pairs(items)?;
                let programs = pairs.into_iter().map(|(key, value)| {
                    let (shown, key) = self.key(&key)?;
                    let index = key.first_chunk().copied().map_or(0, u32::from_le_bytes);
                    match value {
                        Value::String(name) => Ok((index, name)),
                        _ => Err(MapsFileError::NotName {
                            map: self.spec.name.clone(),
                            key: shown,
                            what: "a program",
                        }),
                    }
                });
                programs.collect::<Result<_, _>>().map(Items::Programs)
            }
            MapKind::ArrayOfMaps | MapKind::HashOfMaps => {
                let pairs = self.pairs(items)?;
                let inner = pairs.into_iter().map(|(key, value)| {
                    let (_, key) = self.key(&key)?;
                    Ok((key, self.inner(value)?))
                });
                inner.collect::<Result<_, _>>().map(Items::Inner)
            }
            _ => self.entries(items).map(Items::Entries),
        }
    }

    /// A map that a map of maps holds.
    fn inner(&self, value: Value) -> Result<Inner, MapsFileError> {
        let inner = self.spec.inner.as_deref();
        Ok(match (value, inner) {
            (Value::String(name), _) => Inner::Named(name),
            (contents, Some(inner)) => {
                // What is there twice was lost when the outer entry was read.
                let contents = match contents {
                    Value::Object(members) => Part::Members(members.into_iter().collect()),
                    other => Part::Other(other),
                };
                Inner::Own(Reader::new(inner, self.cpus).entries(contents)?)
            }
            (_, None) => {
                return Err(MapsFileError::NotEntries {
                    map: self.spec.name.clone(),
                });
            }
        })
    }

    fn entries(&mut self, entries: Part<Value>) -> Result<Vec<Entry>, MapsFileError> {
        let pairs = self.pairs(entries)?;
        pairs.into_iter().map(|(k, v)| self.entry(k, v)).collect()
    }

    fn pairs(&self, entries: Part<Value>) -> Result<Vec<(Value, Value)>, MapsFileError> {
        let map = || self.spec.name.clone();
        Ok(match entries {
            Part::Members(pairs) => pairs
                .into_iter()
                .map(|(k, v)| (Value::String(k), v))
                .collect(),
            Part::Other(Value::Array(items)) => items
                .into_iter()
                .map(|item| pair(item).ok_or_else(|| MapsFileError::NotEntries { map: map() }))
                .collect::<Result<_, _>>()?,
            Part::Other(_) => return Err(MapsFileError::NotEntries { map: map() }),
        })
    }

    /// A key as it is shown, and its bytes.
    fn key(&self, key: &Value) -> Result<(String, Vec<u8>), MapsFileError> {
        let shown = match key {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match encode(key, key_form(self.spec)) {
            Ok(cell) if cell.is_whole() => Ok((shown, cell.bytes)),
            Ok(_) => Err(MapsFileError::Anything {
                map: self.spec.name.clone(),
            }),
            Err(source) => Err(MapsFileError::Key {
                map: self.spec.name.clone(),
                key: shown,
                source: source.into(),
            }),
        }
    }

    fn entry(&mut self, key: Value, value: Value) -> Result<Entry, MapsFileError> {
        let map = || self.spec.name.clone();
        let (shown, bytes) = self.key(&key)?;
        if !self.seen.insert(bytes.clone()) {
            return Err(MapsFileError::Twice {
                map: map(),
                key: shown,
            });
        }
        let read = |value: &Value| {
            encode(value, value_form(self.spec)).map_err(|source| MapsFileError::Value {
                map: map(),
                key: shown.clone(),
                source: source.into(),
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

/// The elements of a list.
fn values(items: Part<Value>) -> Option<Vec<Value>> {
    match items {
        Part::Other(Value::Array(items)) => Some(items),
        _ => None,
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

/// Writes the contents of maps in the form that [`parse`] reads, one map a line.
pub(crate) fn render<'a>(maps: impl Iterator<Item = (&'a MapSpec, Vec<Entry>)>) -> String {
    let lines: Vec<String> = maps
        .map(|(spec, entries)| {
            let name = Value::String(spec.name.clone());
            format!("{name}: {}", tell(spec, &entries))
        })
        .collect();
    match lines.is_empty() {
        true => "{}\n".to_owned(),
        false => format!("{{\n{}\n}}\n", lines.join(",\n")),
    }
}

/// The entries of one map.
pub(crate) fn tell(spec: &MapSpec, entries: &[Entry]) -> Value {
    let entries = entries.iter().map(|entry| {
        let value = |cell: &Cell| show(&cell.bytes, value_form(spec));
        let value = match (spec.kind.is_percpu(), &entry.values[..]) {
            (false, [one, ..]) => value(one),
            (_, values) => Value::Array(values.iter().map(value).collect()),
        };
        json!({"key": show(&entry.key, key_form(spec)), "value": value})
    });
    Value::Array(entries.collect())
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
        assert_eq!((all.maps.len(), all.maps[0].map), (1, 0));
        match all.maps.remove(0).items {
            Items::Entries(entries) => Ok(entries),
            other => panic!("{other:?}"),
        }
    }

    fn entry(key: &[u8], values: &[&[u8]]) -> Entry {
        Entry {
            key: key.to_vec(),
            values: values.iter().map(|v| Cell::whole(v.to_vec())).collect(),
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
        assert_eq!(back.maps.len(), 2);
        let again = |name: &str| {
            let found = back.maps.iter().find(|c| maps[c.map].name == name);
            match &found.unwrap().items {
                Items::Entries(entries) => entries[0].clone(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(again("plain"), entry(&[1, 2, 3, 4, 5, 6], &[&[255; 8]]));
        assert_eq!(again("each"), entry(&[7, 0], &[&[1, 2, 3], &[0, 0, 0]]));
        assert_eq!(render([].into_iter()), "{}\n");
    }
}
