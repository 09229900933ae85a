//! The file of what is expected.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use datapath::Verdict;
use ixdp::xdp_vm::MapSpec;
use serde::Deserialize;
use serde_json::Value;

use super::harness;
use crate::cli::failure::{Failure, FileError, file, read};
use crate::cli::fields::memory;
use crate::cli::maps_file::{self, Contents, Part, Parts};

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    packets: Vec<PacketText>,
    capture: Option<PathBuf>,
    maps: Option<Parts>,
    globals: Option<Part<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PacketText {
    packet: Option<u64>,
    verdict: Option<Value>,
    redirect: Option<Value>,
    length: Option<usize>,
    bytes: Option<String>,
    at: Option<BTreeMap<String, String>>,
}

/// What is expected.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// By packet.
    pub(super) packets: BTreeMap<u64, Packet>,
    pub(super) contents: Contents,
}

/// What is expected of a packet; what is `None` is not checked.
#[derive(Debug, Default)]
pub(super) struct Packet {
    pub(super) verdict: Option<u32>,
    pub(super) redirect: Option<Value>,
    pub(super) length: Option<usize>,
    pub(super) bytes: Option<Bytes>,
    /// Bytes from an offset on.
    pub(super) at: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug)]
pub(super) enum Bytes {
    /// As before the program.
    Same,
    These(Vec<u8>),
}

#[derive(Debug, thiserror::Error)]
enum ExpectError {
    #[error(
        "packet {packet}: {verdict} is no verdict; write aborted, drop, pass, tx, redirect, or a number"
    )]
    Verdict { packet: u64, verdict: Value },
    #[error("packet {packet}: `{text}` is not \"same\" or bytes as in \"0x0a0b\"")]
    Bytes { packet: u64, text: String },
    #[error("packet {packet}: `{text}` is no offset in bytes")]
    Offset { packet: u64, text: String },
    #[error(
        "packet {packet}: write redirect as {{ interface = N }}, {{ map = NAME, key = N }} or {{ map = NAME, broadcast = true }}"
    )]
    Redirect { packet: u64 },
    #[error("packet {packet} is there twice")]
    Twice { packet: u64 },
}

/// Reads the file.
pub(super) fn parse(path: &Path, specs: &[MapSpec]) -> Result<Expected, Failure> {
    let text = read(path)?;
    let wrong = file::<Box<dyn std::error::Error + Send + Sync>>("use the expectations in", path);
    let from: File = maps_file::document(&text).map_err(|e| wrong(e.into()))?;
    let mut expected = Expected::default();
    let mut next = 0;
    for text in from.packets {
        let number = text.packet.unwrap_or(next);
        next = number + 1;
        let packet = packet(number, text).map_err(|e| wrong(e.into()))?;
        if expected.packets.insert(number, packet).is_some() {
            return Err(wrong(ExpectError::Twice { packet: number }.into()).into());
        }
    }
    if let Some(capture) = from.capture {
        // Beside the file that names it.
        let beside = path.parent().unwrap_or(Path::new("")).join(capture);
        for (n, bytes) in (0..).zip(harness::packets(&beside)?) {
            let packet = expected.packets.entry(n).or_default();
            packet.bytes.get_or_insert(Bytes::These(bytes));
        }
    }
    let contents = |parts| -> Result<Contents, FileError> {
        maps_file::read(parts, specs, 1).map_err(|e| wrong(e.into()))
    };
    if let Some(maps) = from.maps {
        expected.contents = contents(maps)?;
    }
    if let Some(globals) = from.globals {
        let named = vec![(maps_file::GLOBALS.to_owned(), globals)];
        expected
            .contents
            .globals
            .extend(contents(Part::Members(named))?.globals);
    }
    Ok(expected)
}

fn packet(number: u64, text: PacketText) -> Result<Packet, ExpectError> {
    let packet = number;
    let verdict = text.verdict.map(|verdict| {
        let found = match &verdict {
            Value::String(name) => {
                (0..5).find(|v| Verdict::from_return(*v).is_some_and(|known| known.name() == name))
            }
            other => other.as_u64().and_then(|n| u32::try_from(n).ok()),
        };
        found.ok_or(ExpectError::Verdict { packet, verdict })
    });
    let hexadecimal = |text: &str| {
        let digits: String = text.split_whitespace().collect();
        let bytes = digits.strip_prefix("0x").and_then(memory);
        bytes.ok_or_else(|| ExpectError::Bytes {
            packet,
            text: text.to_owned(),
        })
    };
    let bytes = text.bytes.map(|text| match text.as_str() {
        "same" => Ok(Bytes::Same),
        other => hexadecimal(other).map(Bytes::These),
    });
    let at = text
        .at
        .unwrap_or_default()
        .into_iter()
        .map(|(offset, text)| {
            let offset = offset.parse().map_err(|_| ExpectError::Offset {
                packet,
                text: offset,
            })?;
            Ok((offset, hexadecimal(&text)?))
        });
    Ok(Packet {
        verdict: verdict.transpose()?,
        redirect: text.redirect.map(|r| redirect(packet, r)).transpose()?,
        length: text.length,
        bytes: bytes.transpose()?,
        at: at.collect::<Result<_, _>>()?,
    })
}

/// One of the three forms, with what may be left out.
fn redirect(packet: u64, mut value: Value) -> Result<Value, ExpectError> {
    let wrong = || ExpectError::Redirect { packet };
    let members = value.as_object_mut().ok_or_else(wrong)?;
    if members.get("broadcast").and_then(Value::as_bool) == Some(true) {
        members.entry("exclude_ingress").or_insert(false.into());
    }
    let has = |names: &[&str]| {
        members.len() == names.len() && names.iter().all(|name| members.contains_key(*name))
    };
    let known = has(&["interface"])
        || has(&["map", "key"])
        || has(&["map", "broadcast", "exclude_ingress"]);
    match known {
        true => Ok(value),
        false => Err(wrong()),
    }
}
