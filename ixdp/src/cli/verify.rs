//! `ixdp verify`: which programs of an object are safe, and why the others are refused.

use std::path::Path;
use std::time::Instant;

use ixdp::xdp_vm::program_type::foreign_type;
use ixdp::xdp_vm::verifier::{self, Annotated, Config, Refusal, Statistics};
use ixdp::xdp_vm::{Line, Object, Program};
use serde_json::{Value, json};

use crate::cli::args::Verify;
use crate::cli::failure::{Failure, file};
use crate::cli::object::{read_object, set_variables};
use crate::cli::output::{Output, bytes, thousands, wrapped};

/// Verifies.
pub(crate) fn verify(args: &Verify) -> Result<(), Failure> {
    let mut object = read_object(&args.object)?;
    set_variables(&mut object, &args.object, &args.set)?;
    let wanted = |name: &str| args.prog.as_deref().is_none_or(|wanted| wanted == name);
    if args.prog.is_some() && !object.rejected.iter().any(|r| wanted(&r.name)) {
        // Says which there are.
        let found = object.program(args.prog.as_deref());
        found.map_err(file("verify a program of", &args.object))?;
    }
    let mut out = Output::new(args.format);
    set_aside(&object, &mut out, wanted)?;
    let (mut judged, mut refused) = (0, 0);
    let is_xdp = |section: &str| foreign_type(section).is_none();
    for program in &object.programs {
        if wanted(&program.name) && is_xdp(&program.section) {
            judged += 1;
            refused += usize::from(!judge(program, &object, args, &mut out)?);
        }
    }
    for rejected in &object.rejected {
        if wanted(&rejected.name) && is_xdp(&rejected.section) {
            judged += 1;
            refused += 1;
            out.text(format!("{}: not loaded: {}", rejected.name, rejected.error))?;
            out.json(&json!({
                "kind": "program", "program": rejected.name, "section": rejected.section,
                "verdict": "not loaded", "cause": rejected.error.to_string(),
            }))?;
        }
    }
    if judged == 0 {
        return Err(nothing_left(&args.object).into());
    }
    refused += impossible_maps(&object, &mut out)?;
    match refused {
        0 => Ok(()),
        _ => Err(Failure::Told),
    }
}

fn nothing_left(object: &Path) -> crate::cli::failure::FileError {
    let cause = "its programs are of other types than XDP, and this is for XDP programs only; an \
                 XDP program is in a section named `xdp`";
    file("verify a program of", object)(cause)
}

/// Names the programs that are not XDP.
fn set_aside(
    object: &Object,
    out: &mut Output,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let usable = object.programs.iter().map(|p| (&p.name, &p.section));
    let rejected = object.rejected.iter().map(|r| (&r.name, &r.section));
    for (name, section) in usable.chain(rejected).filter(|(name, _)| wanted(name)) {
        let Some(of) = foreign_type(section) else {
            continue;
        };
        out.text(format!(
            "{name}: set aside: its section `{section}` makes it a {of} program, not XDP"
        ))?;
        out.json(&json!({
            "kind": "program", "program": name, "section": section,
            "verdict": "set aside", "type": of,
        }))?;
    }
    Ok(())
}

/// Names the maps that no run could make. Gives their number.
fn impossible_maps(object: &Object, out: &mut Output) -> Result<usize, Failure> {
    let mut impossible = 0;
    for map in &object.maps {
        if let Err(error) = map.check(1) {
            impossible += 1;
            out.text(error.to_string())?;
            out.json(&json!({"kind": "map", "map": map.name, "cause": error.to_string()}))?;
        }
    }
    Ok(impossible)
}

/// Verifies one program, and prints the verdict. True where it is accepted.
fn judge(
    program: &Program,
    object: &Object,
    args: &Verify,
    out: &mut Output,
) -> Result<bool, Failure> {
    let config = Config {
        kind: program.kind(),
        ..Config::default()
    };
    let started = Instant::now();
    let result = verifier::verify(program, &object.maps, &config);
    let seconds = started.elapsed().as_secs_f64();
    // A second time: what it costs to be asked at each instruction is not the verifier's time.
    let annotated = args
        .annotate
        .then(|| verifier::annotate(program, &object.maps, &config).0);
    if let Some(lines) = &annotated {
        annotations(program, lines, out)?;
    }
    let mut told = json!({
        "kind": "program", "program": program.name, "section": program.section,
        "instructions": program.insns.len(), "seconds": seconds,
    });
    let accepted = result.is_ok();
    let more = match result {
        Ok((_, statistics)) => {
            let figures = figures(&statistics, seconds);
            let instructions = thousands(program.insns.len() as u64);
            out.text(format!(
                "{}: accepted, {instructions} instructions, {figures}",
                program.name
            ))?;
            with_statistics(json!({"verdict": "accepted"}), &statistics)
        }
        Err(error) => {
            let figures = figures(&error.statistics, seconds);
            out.text(format!("{}: refused, {figures}", program.name))?;
            out.text(match args.explain {
                true => error.explanation().to_string(),
                false => error.to_string(),
            })?;
            with_statistics(refusal(&error), &error.statistics)
        }
    };
    merge(&mut told, more);
    if let Some(lines) = annotated {
        merge(
            &mut told,
            json!({"lines": lines.iter().map(annotation).collect::<Vec<_>>()}),
        );
    }
    out.json(&told)?;
    Ok(accepted)
}

fn figures(statistics: &Statistics, seconds: f64) -> String {
    format!(
        "{} processed, {} states, {} of memory, {:.3} ms",
        thousands(statistics.processed),
        thousands(statistics.stored as u64),
        bytes(statistics.peak_bytes as u64),
        seconds * 1e3
    )
}

fn with_statistics(mut told: Value, statistics: &Statistics) -> Value {
    merge(
        &mut told,
        json!({
            "processed": statistics.processed, "states": statistics.stored,
            "peak_states": statistics.peak_stored, "pruned": statistics.pruned,
            "peak_branches": statistics.peak_pending, "peak_bytes": statistics.peak_bytes,
            "stack": statistics.stack_bytes,
        }),
    );
    told
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

/// A refusal for programs.
fn refusal(error: &Refusal) -> Value {
    let line = |line: &Option<Line>| line.as_ref().map(line_json);
    let registers = error.registers.iter().map(|k| {
        json!({
            "register": k.reg, "is": k.words, "kernel": k.kernel,
            "set_by": k.set_by, "set_at": line(&k.set_at),
        })
    });
    let path = error.path.iter().map(|step| {
        let branch = step.branch.as_ref();
        json!({
            "instruction": step.insn, "function": step.function, "line": line(&step.line),
            "branch": branch.map(|(text, _)| text), "taken": branch.map(|(_, taken)| taken),
        })
    });
    json!({
        "verdict": "refused",
        "cause": error.cause.to_string(), "remedy": error.remedy(), "field": error.field,
        "instruction": error.insn, "text": error.text, "function": error.function,
        "line": line(&error.line), "registers": registers.collect::<Vec<_>>(),
        "path": path.collect::<Vec<_>>(), "path_skipped": error.path_skipped,
        "explanation": error.explanation().to_string(),
    })
}

fn line_json(line: &Line) -> Value {
    json!({"file": line.file, "line": line.line, "column": line.column, "text": line.text})
}

/// A line of the source with what is known there, for programs.
fn annotation(line: &Annotated) -> Value {
    let registers = line.registers.iter();
    let registers =
        registers.map(|r| json!({"register": r.reg, "is": r.words, "varies": r.varies}));
    let stack = line.stack.iter();
    let stack = stack.map(|s| json!({"offset": s.offset, "is": s.words, "varies": s.varies}));
    json!({
        "instruction": line.insn, "function": line.function,
        "line": line.line.as_ref().map(line_json), "visits": line.visits,
        "registers": registers.collect::<Vec<_>>(), "stack": stack.collect::<Vec<_>>(),
    })
}

/// Prints what is known before each line of the source.
fn annotations(program: &Program, lines: &[Annotated], out: &mut Output) -> Result<(), Failure> {
    let mut function = None;
    for line in lines {
        if line.function != function {
            function.clone_from(&line.function);
            if let Some(name) = &function {
                out.text(format!("{name}:"))?;
            }
        }
        let place = match &line.line {
            Some(at) => {
                let name = at.file.rsplit('/').next().unwrap_or_default();
                format!("{name}:{}: {}", at.line, at.text)
            }
            None => format!("instruction {}: {}", line.insn, program.insns[line.insn]),
        };
        let visits = match line.visits {
            0 => "  [no path comes here]".to_owned(),
            1 => String::new(),
            n => format!("  [{} times]", thousands(n)),
        };
        out.text(wrapped("  ", &format!("{place}{visits}")))?;
        let varies = |varies| if varies { "; or otherwise" } else { "" };
        for r in &line.registers {
            let label = format!("      r{:<6} ", r.reg);
            out.text(wrapped(&label, &format!("{}{}", r.words, varies(r.varies))))?;
        }
        for s in &line.stack {
            let label = format!("      fp{:<5} ", s.offset);
            out.text(wrapped(&label, &format!("{}{}", s.words, varies(s.varies))))?;
        }
    }
    Ok(())
}
