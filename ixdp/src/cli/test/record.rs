//! What a program did, written as what is expected of it.

use std::io::Write;
use std::path::Path;

use ixdp::LoadedProgram;
use ixdp::xdp_vm::MapError;
use serde_json::{Map, Value, json};

use super::harness::{Ran, redirect_value, verdict_name};
use crate::cli::contents;
use crate::cli::failure::{Failure, file};
use crate::cli::fields::{Form, hexadecimal, render};
use crate::cli::files::OutFile;
use crate::cli::maps_file::{Inner, Items, tell, value_form};

/// How the file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Json,
    Toml,
}

/// By the extension.
pub(super) fn language(path: &Path) -> Result<Language, Failure> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("json") => Ok(Language::Json),
        Some("toml") => Ok(Language::Toml),
        _ => Err(Failure::usage(
            format!("{} is neither .toml nor .json", path.display()),
            "the extension chooses the language: end the name in .toml or .json",
        )),
    }
}

/// What became of a packet.
pub(super) fn packet(ran: &Ran, program: &LoadedProgram) -> Option<Value> {
    let done = ran.result.as_ref().ok()?;
    let mut told = json!({"packet": ran.index, "verdict": verdict_name(done.verdict)});
    if let Some(redirect) = &done.redirect {
        told["redirect"] = redirect_value(redirect, program.maps());
    }
    told["bytes"] = match done.bytes == ran.before {
        true => "same".into(),
        false => hexadecimal(&done.bytes),
    };
    Some(told)
}

/// Writes packets, and what maps and variables hold.
pub(super) fn write(
    target: OutFile,
    language: Language,
    packets: Vec<Value>,
    program: &LoadedProgram,
) -> Result<(), Failure> {
    let (maps, globals) = state(program)?;
    let text = match language {
        Language::Json => {
            let whole = json!({"packets": packets, "maps": maps, "globals": globals});
            serde_json::to_string_pretty(&whole)? + "\n"
        }
        Language::Toml => {
            let mut text = String::new();
            for packet in packets {
                text += "[[packets]]\n";
                text += &table(&packet);
                text += "\n";
            }
            for (name, table_of) in [("maps", maps), ("globals", globals)] {
                if table_of.as_object().is_some_and(|t| !t.is_empty()) {
                    text += &format!("[{name}]\n{}\n", table(&table_of));
                }
            }
            text
        }
    };
    let mut target = target;
    let path = target.path().to_owned();
    let written = target.file().map(|mut f| f.write_all(text.as_bytes()))?;
    written.map_err(file("write", &path))?;
    Ok(target.commit()?)
}

/// Maps that can be seen, without those of variables; and the variables.
fn state(program: &LoadedProgram) -> Result<(Value, Value), MapError> {
    let (mut maps, mut globals) = (Map::new(), Map::new());
    for map in program.maps().iter() {
        let spec = map.spec();
        if !spec.variables.is_empty() {
            // Constants are the program's, not what it did.
            if !spec.frozen {
                let bytes = map.lookup(&[0; 4])?.unwrap_or_default();
                for v in &spec.variables {
                    let from = v.offset as usize;
                    let have = bytes.get(from..from + v.size as usize).unwrap_or_default();
                    let form = Form {
                        size: v.size as usize,
                        of: v.of.as_ref(),
                    };
                    globals.insert(v.name.clone(), render(have, form));
                }
            }
            continue;
        }
        let told = match contents::read(map)? {
            Some(Items::Entries(entries)) => tell(spec, &entries),
            Some(Items::Values(values)) => {
                let values = values.iter().map(|v| render(&v.bytes, value_form(spec)));
                Value::Array(values.collect())
            }
            Some(Items::Inner(all)) => {
                let inner = spec.inner.as_deref();
                let entries = all.iter().filter_map(|(key, held)| {
                    let Inner::Own(entries) = held else {
                        return None;
                    };
                    let key = render(key, crate::cli::maps_file::key_form(spec));
                    Some(json!({"key": key, "value": tell(inner?, entries)}))
                });
                Value::Array(entries.collect())
            }
            _ => continue,
        };
        maps.insert(spec.name.clone(), told);
    }
    Ok((Value::Object(maps), Value::Object(globals)))
}

/// The members of an object, a line each.
fn table(value: &Value) -> String {
    let members = value.as_object().into_iter().flatten();
    members
        .map(|(key, value)| format!("{} = {}\n", toml_key(key), inline(value)))
        .collect()
}

fn toml_key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !key.is_empty() && key.chars().all(bare) {
        true => key.to_owned(),
        false => Value::String(key.to_owned()).to_string(),
    }
}

/// A value on one line. JSON's strings are TOML's too.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let members: Vec<String> = members
                .map(|(key, value)| format!("{} = {}", toml_key(key), inline(value)))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        // TOML's numbers end at 63 bits.
        Value::Number(n) if n.as_i64().is_none() && n.is_u64() => format!("\"{n}\""),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_is_what_was_meant() {
        let value = json!({
            "a b": [1, -2, {"c": "x\"\u{1f}\n", "d": u64::MAX}], "e": true, "f": {"g-h": []},
        });
        let back: Value = toml::from_str(&table(&value)).unwrap();
        let mut expected = value;
        expected["a b"][2]["d"] = "18446744073709551615".into();
        assert_eq!(back, expected);
    }
}
