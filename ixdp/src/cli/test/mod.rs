//! `ixdp test`: packets of a capture through a program, and whether verdicts, bytes and maps are as
//! expected.

mod compare;
mod expect;
mod harness;
mod record;

use std::path::Path;

use ixdp::LoadedProgram;
use serde_json::{Value, json};

use crate::cli::args::Test;
use crate::cli::contents;
use crate::cli::failure::{Failure, file, read};
use crate::cli::files::OutFile;
use crate::cli::maps_file;
use crate::cli::object::{read_object, set_variables, split};
use crate::cli::output::{Output, thousands};
use compare::Difference;
use expect::Expected;
use harness::{Ran, redirect_value, verdict_name};

/// Tests.
pub(crate) fn test(args: &Test) -> Result<(), Failure> {
    let record = args.write_expect.as_deref();
    let record =
        record.map(|path| Ok::<_, Failure>((record::language(path)?, OutFile::create(path)?)));
    let record = record.transpose()?;
    let (path, name) = split(&args.object);
    if name.is_some() && args.prog.is_some() {
        let hint = "leave one of them out";
        return Err(Failure::usage(
            "the program is named twice, behind the file and by --prog",
            hint,
        ));
    }
    let mut object = read_object(&path)?;
    let given = args.maps.as_deref().map(|path| {
        let contents = maps_file::parse(&read(path)?, &object.maps, 1);
        contents.map_err(file("use the contents of maps in", path))
    });
    let given = given.transpose()?.unwrap_or_default();
    let expected = args.expect.as_deref();
    let expected = expected
        .map(|path| expect::parse(path, &object.maps))
        .transpose()?;
    contents::set_globals(&mut object, &given)?;
    set_variables(&mut object, &path, &args.set)?;
    let name = name.as_deref().or(args.prog.as_deref());
    let program = LoadedProgram::load_with(&object, name, 1, &args.engine.options());
    let program = program.map_err(file("test a program of", &path))?;
    if let Some(path) = &args.maps {
        contents::fill(&program, &object, &given)
            .map_err(|failure| failure.of_file("use the contents of maps in", path))?;
    }
    contents::open_records(&program)?;
    let mut judge = Judge {
        out: Output::new(args.format),
        program: &program,
        expected: expected.as_ref(),
        count: Count::default(),
    };
    let mut recorded = Vec::new();
    harness::run(args, &program, |ran| {
        if record.is_some() {
            recorded.extend(record::packet(&ran, &program));
        }
        judge.packet(&ran)
    })?;
    judge.absent(&args.packets)?;
    if let Some((language, target)) = record {
        record::write(target, language, recorded, &program)?;
    }
    judge.maps()?;
    judge.end()
}

/// What was counted.
#[derive(Debug, Default)]
struct Count {
    packets: u64,
    /// Packets of which something was expected, and those that were otherwise.
    expected: u64,
    failed: u64,
    maps: u64,
    maps_failed: u64,
    missed: u64,
}

struct Judge<'a> {
    out: Output,
    program: &'a LoadedProgram,
    expected: Option<&'a Expected>,
    count: Count,
}

impl Judge<'_> {
    fn packet(&mut self, ran: &Ran) -> Result<(), Failure> {
        let maps = self.program.maps();
        self.count.packets += 1;
        let expected = self.expected.and_then(|e| e.packets.get(&ran.index));
        let differences = expected.map_or(vec![], |e| compare::packet(e, ran, maps));
        self.count.expected += u64::from(expected.is_some());
        self.count.failed += u64::from(!differences.is_empty());
        let mut told = json!({"kind": "packet", "packet": ran.index});
        let mut row = format!("{:>6}  ", ran.index);
        match &ran.result {
            Ok(done) => {
                let verdict = verdict_name(done.verdict);
                told["verdict"] = verdict.clone().into();
                told["length"] = done.bytes.len().into();
                let length = match (ran.before.len(), done.bytes.len()) {
                    (before, after) if before == after => before.to_string(),
                    (before, after) => format!("{before} -> {after}"),
                };
                row += &format!("{verdict:<9} {length:<12}");
                if let Some(redirect) = &done.redirect {
                    told["redirect"] = redirect_value(redirect, maps);
                    row += &format!(" to {}", told["redirect"]);
                }
                if done.bytes.len() == ran.before.len() && done.bytes != ran.before {
                    row += " changed";
                }
            }
            Err(reason) => {
                self.count.missed += 1;
                told["verdict"] = "missed".into();
                told["reason"] = reason.clone().into();
                row += &format!("missed    {reason}");
            }
        }
        if expected.is_some() {
            told["as_expected"] = differences.is_empty().into();
            told["differences"] = differences.iter().map(Difference::to_json).collect();
        }
        self.out.json(&told)?;
        if self.expected.is_none() {
            if self.count.packets == 1 {
                self.out.text("packet  verdict   bytes")?;
            }
            return Ok(self.out.text(row.trim_end())?);
        }
        self.tell(&format!("packet {}", ran.index), &differences)
    }

    /// Prints differences.
    fn tell(&mut self, of: &str, differences: &[Difference]) -> Result<(), Failure> {
        for d in differences {
            let what = &d.what;
            if d.shown.is_empty() {
                let value = |v: &Value| match v {
                    Value::Null => "nothing".to_owned(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let (expected, got) = (value(&d.expected), value(&d.got));
                self.out
                    .text(format!("{of}: {what}: expected {expected}, got {got}"))?;
            } else {
                self.out.text(format!("{of}: {what} differ:"))?;
                for line in &d.shown {
                    self.out.text(format!("    {line}"))?;
                }
            }
        }
        Ok(())
    }

    /// Packets that were expected and are not there.
    fn absent(&mut self, capture: &Path) -> Result<(), Failure> {
        let packets = self.count.packets;
        let expected = self.expected.map(|e| e.packets.range(packets..));
        for (number, _) in expected.into_iter().flatten() {
            self.count.expected += 1;
            self.count.failed += 1;
            let cause = format!("{} has {packets} packets", capture.display());
            self.out
                .text(format!("packet {number}: it is expected, and {cause}"))?;
            self.out.json(&json!({
                "kind": "packet", "packet": number, "as_expected": false, "reason": cause,
            }))?;
        }
        Ok(())
    }

    fn maps(&mut self) -> Result<(), Failure> {
        let Some(expected) = self.expected else {
            return Ok(());
        };
        let maps = self.program.maps();
        for given in &expected.contents.maps {
            let Some(map) = maps.at(given.map) else {
                continue;
            };
            let differences = compare::map(map, &given.items)?;
            self.map(map.name(), "map", &differences)?;
        }
        if !expected.contents.globals.is_empty() {
            let differences = compare::globals(maps, &expected.contents.globals)?;
            self.map("globals", "variables", &differences)?;
        }
        Ok(())
    }

    fn map(&mut self, name: &str, kind: &str, differences: &[Difference]) -> Result<(), Failure> {
        self.count.maps += 1;
        self.count.maps_failed += u64::from(!differences.is_empty());
        self.out.json(&json!({
            "kind": kind, "map": name, "as_expected": differences.is_empty(),
            "differences": differences.iter().map(Difference::to_json).collect::<Value>(),
        }))?;
        let of = match kind {
            "map" => format!("map {name}"),
            _ => "variable".to_owned(),
        };
        self.tell(&of, differences)
    }

    fn end(mut self) -> Result<(), Failure> {
        let c = &self.count;
        let failed = c.failed + c.maps_failed > 0;
        let name = self.program.name();
        self.out.json(&json!({
            "kind": "summary", "program": name, "packets": c.packets, "missed": c.missed,
            "expected": c.expected, "failed": c.failed,
            "maps": c.maps, "maps_failed": c.maps_failed,
            "as_expected": self.expected.map(|_| !failed),
        }))?;
        let packets = thousands(c.packets);
        self.out.text(match (self.expected, failed) {
            (None, _) => format!("{name}: {packets} packets"),
            (Some(_), false) => format!(
                "{name}: ok: {} of {packets} packets and {} maps checked",
                thousands(c.expected),
                c.maps
            ),
            (Some(_), true) => format!(
                "{name}: FAILED: {} of {} packets and {} of {} maps are not as expected",
                thousands(c.failed),
                thousands(c.expected),
                c.maps_failed,
                c.maps
            ),
        })?;
        match failed {
            true => Err(Failure::Told),
            false => Ok(()),
        }
    }
}
