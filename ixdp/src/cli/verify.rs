//! `ixdp verify`: which programs of an object are safe, and why the others are refused.

use std::time::Instant;

use ixdp::xdp_vm::verifier::{self, Config};
use serde_json::{Value, json};

use crate::cli::args::Verify;
use crate::cli::failure::{Failure, file};
use crate::cli::object::{read_object, set_variables};
use crate::cli::output::{Output, thousands};

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
    let mut refused = 0;
    for program in object.programs.iter().filter(|p| wanted(&p.name)) {
        let started = Instant::now();
        let result = verifier::verify(program, &object.maps, &Config::default());
        let seconds = started.elapsed().as_secs_f64();
        let instructions = program.insns.len();
        match result {
            Ok((_, statistics)) => {
                out.text(format!(
                    "{}: accepted, {} instructions, {} processed, {} states, {:.3} ms",
                    program.name,
                    thousands(instructions as u64),
                    thousands(statistics.processed),
                    thousands(statistics.stored as u64),
                    seconds * 1e3
                ))?;
                out.json(&json!({
                    "kind": "program", "program": program.name, "section": program.section,
                    "verdict": "accepted", "instructions": instructions,
                    "processed": statistics.processed, "states": statistics.stored,
                    "stack": statistics.stack_bytes, "seconds": seconds,
                }))?;
            }
            Err(error) => {
                refused += 1;
                out.text(format!("{}: refused", program.name))?;
                out.text(error.to_string())?;
                let line = error.line.as_ref().map(
                    |l| json!({"file": l.file, "line": l.line, "column": l.column, "text": l.text}),
                );
                let registers: Vec<Value> = error
                    .registers
                    .iter()
                    .map(|k| json!({"register": k.reg, "is": k.words, "kernel": k.kernel}))
                    .collect();
                out.json(&json!({
                    "kind": "program", "program": program.name, "section": program.section,
                    "verdict": "refused", "instructions": instructions, "seconds": seconds,
                    "cause": error.cause.to_string(), "remedy": error.cause.remedy(),
                    "instruction": error.insn, "line": line, "registers": registers,
                    "explanation": error.to_string(),
                }))?;
            }
        }
    }
    for rejected in object.rejected.iter().filter(|r| wanted(&r.name)) {
        refused += 1;
        out.text(format!("{}: not loaded: {}", rejected.name, rejected.error))?;
        out.json(&json!({
            "kind": "program", "program": rejected.name, "section": rejected.section,
            "verdict": "not loaded", "cause": rejected.error.to_string(),
        }))?;
    }
    match refused {
        0 => Ok(()),
        _ => Err(Failure::Told),
    }
}
