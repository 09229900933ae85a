//! `ixdp prog show`: what an object holds: programs, maps, and instructions beside the source lines that
//! made them.

use ixdp::xdp_vm::insn::imm64;
use ixdp::xdp_vm::verifier::{self, Config};
use ixdp::xdp_vm::{
    Engine, Executable, MachineCode, MapSpec, Maps, Object, Options, Program, Slot,
};
use serde_json::{Value, json};

use crate::cli::args::ProgShow;
use crate::cli::failure::{Failure, file};
use crate::cli::object::{read_object, set_variables, split};
use crate::cli::output::{Output, bytes, thousands, wrapped};

/// Shows.
pub(crate) fn show(args: &ProgShow) -> Result<(), Failure> {
    let (path, name) = split(&args.object);
    let name = name.or_else(|| args.prog.clone());
    let mut object = read_object(&path)?;
    set_variables(&mut object, &path, &args.set)?;
    let mut out = Output::new(args.format);
    if let Some(name) = name {
        let program = object.program(Some(&name));
        let program = program.map_err(file("show a program of", &path))?;
        instructions(program, &object, args, &mut out)?;
        return Ok(());
    }
    for program in &object.programs {
        if args.insns || args.jit {
            instructions(program, &object, args, &mut out)?;
        } else {
            out.text(line_of(program))?;
            out.json(&about(program))?;
        }
    }
    for rejected in &object.rejected {
        let error = rejected.error.to_string();
        out.text(wrapped(
            &format!("program {}: ", rejected.name),
            &format!("section {}, cannot be used: {error}", rejected.section),
        ))?;
        out.json(&json!({
            "kind": "program", "program": rejected.name, "section": rejected.section,
            "cause": error,
        }))?;
    }
    for (index, map) in object.maps.iter().enumerate() {
        show_map(index, map, &object, &mut out)?;
    }
    Ok(())
}

fn line_of(program: &Program) -> String {
    let of = match program.foreign_type() {
        Some(of) => format!(" (a {of} program, not XDP)"),
        None => String::new(),
    };
    let functions = program.functions.len();
    let functions = match functions {
        0 | 1 => String::new(),
        n => format!(", {n} functions"),
    };
    let (instructions, section) = (thousands(program.insns.len() as u64), &program.section);
    let name = &program.name;
    format!("program {name}: section {section}{of}, {instructions} instructions{functions}")
}

fn about(program: &Program) -> Value {
    let functions = program.functions.iter();
    let functions = functions.map(|f| json!({"function": f.name, "instruction": f.start}));
    json!({
        "kind": "program", "program": program.name, "section": program.section,
        "type": program.foreign_type().unwrap_or("xdp"),
        "instructions": program.insns.len(), "functions": functions.collect::<Value>(),
    })
}

fn show_map(index: usize, map: &MapSpec, object: &Object, out: &mut Output) -> Result<(), Failure> {
    let typed = |of: &Option<ixdp::xdp_vm::types::Type>| of.as_ref().map(|of| of.words());
    let (key, value) = (typed(&map.key), typed(&map.value));
    let taken = map.check(1);
    let size = |bytes: u32, of: &Option<String>| match of {
        Some(of) => format!("{of} ({bytes})"),
        None => bytes.to_string(),
    };
    let mut text = format!(
        "{}, key {}, value {}, {} entries",
        map.kind.name(),
        size(map.key_size, &key),
        size(map.value_size, &value),
        thousands(map.max_entries.into())
    );
    if map.flags != 0 {
        text += &format!(", flags {:#x}", map.flags);
    }
    if map.pinned {
        text += ", pinned by name";
    }
    match &taken {
        Ok(taken) => text += &format!(", {}", bytes(*taken)),
        Err(error) => text += &format!("; {error}"),
    }
    out.text(wrapped(&format!("map {index} {}: ", map.name), &text))?;
    for variable in &map.variables {
        let of = variable.of.as_ref().map_or("?".to_owned(), |of| of.words());
        out.text(format!(
            "    {}: {of}, {} bytes at {}",
            variable.name, variable.size, variable.offset
        ))?;
    }
    let slots = map.slots.iter().map(|(key, slot)| {
        let holds = match slot {
            Slot::Map(map) => object.maps.get(*map).map_or("?", |m| m.name.as_str()),
            Slot::Program(name) => name,
        };
        (*key, holds.to_owned())
    });
    let slots: Vec<(u32, String)> = slots.collect();
    for (key, holds) in &slots {
        out.text(format!("    [{key}] = {holds}"))?;
    }
    let variables = map.variables.iter();
    let variables =
        variables.map(|v| json!({"variable": v.name, "offset": v.offset, "size": v.size}));
    out.json(&json!({
        "kind": "map", "index": index, "map": map.name, "type": map.kind.name(),
        "key_size": map.key_size, "value_size": map.value_size, "max_entries": map.max_entries,
        "flags": map.flags, "pinned": map.pinned, "key": key, "value": value,
        "bytes": taken.as_ref().ok(), "cause": taken.as_ref().err().map(ToString::to_string),
        "variables": variables.collect::<Value>(),
        "slots": slots.iter().map(|(k, s)| json!({"key": k, "holds": s})).collect::<Value>(),
    }))?;
    Ok(())
}

/// Prints a program's instructions beside its source lines, and with --jit their machine code.
fn instructions(
    program: &Program,
    object: &Object,
    args: &ProgShow,
    out: &mut Output,
) -> Result<(), Failure> {
    out.text(line_of(program))?;
    let compiled = match args.jit {
        true => Some(compile(program, object)?),
        false => None,
    };
    let code = compiled.as_ref().and_then(Executable::machine_code);
    let (mut function, mut place) = (None, None);
    let mut told = Vec::new();
    if let Some(code) = &code {
        let prologue = code_of(code, None);
        out.text(format!(
            "        entry: {} bytes of machine code",
            prologue.len()
        ))?;
        hexadecimal(prologue, out)?;
    }
    for (at, insn) in program.insns.iter().enumerate() {
        if at > 0 && program.insns[at - 1].is_ld_imm64() {
            continue;
        }
        let inside = program.function_of(at).map(|f| f.name.as_str());
        if inside != function {
            function = inside;
            out.text(format!("{}:", inside.unwrap_or_default()))?;
        }
        let line = program.line_of(at);
        let here = line.map(|l| (&l.file, l.line));
        if here != place {
            place = here;
            if let Some(line) = line {
                let name = line.file.rsplit('/').next().unwrap_or_default();
                out.text(format!("; {name}:{}: {}", line.line, line.text))?;
            }
        }
        out.text(format!("{at:>6}: {}", text(program, object, at)))?;
        let machine = code.as_ref().map(|code| code_of(code, Some(at)));
        if let Some(machine) = machine {
            hexadecimal(machine, out)?;
        }
        told.push(json!({
            "instruction": at, "text": text(program, object, at),
            "bytes": insn.to_bytes().to_vec(),
            "line": line.map(|l| json!({"file": l.file, "line": l.line, "text": l.text})),
            "code": machine,
        }));
    }
    let mut all = about(program);
    all["listing"] = told.into();
    out.json(&all)?;
    Ok(())
}

/// An instruction as text; 64-bit immediates, of two slots, as what they mean.
fn text(program: &Program, object: &Object, at: usize) -> String {
    let insn = program.insns[at];
    let upper = program.insns.get(at + 1).map(|second| second.imm);
    let (true, Some(upper)) = (insn.is_ld_imm64(), upper) else {
        return insn.to_string();
    };
    let map = || {
        object
            .maps
            .get(insn.imm as usize)
            .map_or("?", |m| m.name.as_str())
    };
    match insn.src {
        0 => {
            let value = (upper as u32 as u64) << 32 | u64::from(insn.imm as u32);
            format!("r{} = {value:#x} ll", insn.dst)
        }
        imm64::MAP => format!("r{} = map {}", insn.dst, map()),
        imm64::MAP_VALUE => format!("r{} = map {} + {upper}", insn.dst, map()),
        _ => insn.to_string(),
    }
}

/// Verifies and compiles.
fn compile(program: &Program, object: &Object) -> Result<Executable, Failure> {
    let config = Config {
        kind: program.kind(),
        ..Config::default()
    };
    let (verified, _) = verifier::verify(program, &object.maps, &config)?;
    let maps = Maps::create(&object.maps, 1)?;
    let options = Options {
        engine: Engine::Jit,
        ..Options::default()
    };
    Ok(Executable::with_options(&verified, &maps, &options)?)
}

/// The code of an instruction; without one, what is before the first.
fn code_of<'a>(code: &MachineCode<'a>, at: Option<usize>) -> &'a [u8] {
    let offset = |at: usize| {
        code.offsets
            .get(at)
            .map_or(code.bytes.len(), |o| *o as usize)
    };
    let (from, to) = match at {
        None => (0, offset(0)),
        Some(at) => (offset(at), offset(at + 1)),
    };
    code.bytes.get(from..to).unwrap_or_default()
}

/// Bytes of a line of machine code.
const LINE: usize = 16;

fn hexadecimal(code: &[u8], out: &mut Output) -> Result<(), Failure> {
    for line in code.chunks(LINE) {
        let digits: String = line.iter().map(|b| format!(" {b:02x}")).collect();
        out.text(format!("            {digits}"))?;
    }
    Ok(())
}
