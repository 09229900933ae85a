//! A plugin for the public suite `bpf_conformance`: runs one raw program and prints what it returns.
//!
//! ```text
//! xdp-vm-conformance [MEMORY] [--jit | --checked] [--elf] < PROGRAM
//! ```
//! MEMORY is the bytes that r1 points to and r2 counts, in hex, with or without spaces; without it both
//! are zero. PROGRAM is the instructions, or with `--elf` an object file, in hex as well. Prints r0 in
//! hex and ends with 0; a program that is refused is told on the standard error, and ends with 1.
//!
//! The programs have no context and cannot be verified as XDP programs: only their shape is checked.
//! The interpreter, which is the default, and the compiler (`--jit`) run them **without any further
//! check**, in this process, which has nothing to lose. The one that tests every access is `--checked`;
//! it also runs what the others do not have (`callx`), and a line on the standard error says so.
#![allow(unsafe_code)]

use std::io::Read;
use std::process::ExitCode;

use xdp_vm::insn::{self, alu, call, jmp};
use xdp_vm::verifier::check_shape;
use xdp_vm::{
    Checked, Cpu, Engine, Executable, Insn, MapSpec, Maps, Object, Options, Program, Verified,
    XdpBuff,
};

/// Instructions that the checked interpreter runs before it calls a program endless.
const BUDGET: u64 = 100_000_000;
const USAGE: &str = "usage: xdp-vm-conformance [MEMORY] [--jit | --checked] [--elf] < PROGRAM";

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(r0) => {
            println!("{r0:x}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

enum How {
    Engine(Engine),
    Checked,
}

fn run() -> Result<u64, Error> {
    let (mut how, mut elf, mut memory) = (How::Engine(Engine::Interpreter), false, None);
    for arg in std::env::args().skip(1) {
        match &arg[..] {
            "--jit" => how = How::Engine(Engine::Jit),
            "--checked" => how = How::Checked,
            "--elf" => elf = true,
            option if option.starts_with("--") => {
                return Err(format!("no option is {option}; {USAGE}").into());
            }
            bytes if memory.is_none() => memory = Some(hex(bytes)?),
            more => return Err(format!("{more:?} is too much; {USAGE}").into()),
        }
    }
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let (program, specs) = program(&hex(&input)?, elf)?;
    check_shape(&program, &specs)?;
    let maps = Maps::create(&specs, 1)?;
    let mut memory = memory.unwrap_or_default();
    if !matches!(how, How::Checked) && program.insns.iter().any(is_callx) {
        eprintln!("callx is in the checked interpreter alone, which runs this");
        how = How::Checked;
    }
    match how {
        How::Checked => {
            let checked = Checked::new(&program, &maps);
            let ran = checked.run_on_memory(&mut Cpu::new(0), &mut memory, BUDGET)?;
            Ok(ran.r0)
        }
        How::Engine(engine) => run_unchecked(&program, &specs, &maps, engine, &mut memory),
    }
}

/// True for a call of a helper whose number is in a register.
fn is_callx(i: &Insn) -> bool {
    i.class() == insn::CLASS_JMP && i.op() == jmp::CALL && i.is_reg()
}

/// Bytes of two digits each; spaces and line ends between them do not matter.
fn hex(text: &str) -> Result<Vec<u8>, Error> {
    let digit = |c: char| {
        c.to_digit(16)
            .map(|d| d as u8)
            .ok_or_else(|| format!("{c:?} is not a hexadecimal digit"))
    };
    let digits = text.chars().filter(|c| !c.is_whitespace()).map(digit);
    let digits = digits.collect::<Result<Vec<u8>, _>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err(format!("{} hexadecimal digits are not whole bytes", digits.len()).into());
    }
    Ok(digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect())
}

fn program(bytes: &[u8], elf: bool) -> Result<(Program, Vec<MapSpec>), Error> {
    if elf {
        let object = Object::parse(bytes)?;
        return Ok((object.program(None)?.clone(), object.maps));
    }
    let (slots, rest) = bytes.as_chunks::<{ Insn::SIZE }>();
    if !rest.is_empty() {
        return Err(format!("{} bytes are not whole instructions", bytes.len()).into());
    }
    let program = Program {
        name: "raw".into(),
        insns: slots.iter().map(|&slot| Insn::from_bytes(slot)).collect(),
        ..Program::default()
    };
    Ok((program, vec![]))
}

/// Runs the program as a function of one that gives it its arguments and keeps all 64 bits that it
/// returns, of which the engines tell a verdict's 32. It has so one frame less than a program of its
/// own has.
fn run_unchecked(
    program: &Program,
    specs: &[MapSpec],
    maps: &Maps,
    engine: Engine,
    memory: &mut [u8],
) -> Result<u64, Error> {
    let mut r0 = 0u64;
    let address = match memory.len() {
        0 => 0,
        _ => memory.as_mut_ptr().expose_provenance() as u64,
    };
    let op = |code, dst, src, imm| Insn {
        code,
        dst,
        src,
        off: 0,
        imm,
    };
    let exit = op(insn::CLASS_JMP | jmp::EXIT, 0, 0, 0);
    let after = [
        load(3, (&raw mut r0).expose_provenance() as u64).to_vec(),
        vec![
            op(insn::CLASS_STX | insn::MODE_MEM | insn::SIZE_DW, 3, 0, 0),
            op(insn::CLASS_ALU64 | alu::MOV, 0, 0, 0),
            exit,
        ],
    ]
    .concat();
    let mut insns = load(1, address).to_vec();
    insns.extend(load(2, memory.len() as u64));
    insns.push(op(
        insn::CLASS_JMP | jmp::CALL,
        0,
        call::LOCAL,
        after.len() as i32,
    ));
    insns.extend(after);
    insns.extend(&program.insns);
    let whole = Program {
        name: program.name.clone(),
        insns,
        kfuncs: program.kfuncs.clone(),
        ..Program::default()
    };
    // SAFETY: not of this code's making: the suite's programs are trusted to touch their memory and
    // their stack only, as this program's documentation says.
    let verified = unsafe { Verified::assume(&whole, specs) }?;
    let options = Options {
        engine,
        ..Options::default()
    };
    let executable = Executable::with_options(&verified, maps, &options)?;
    let mut buff = XdpBuff::new(&mut [], 0, 0)?;
    executable.run(&mut Cpu::new(0), &mut buff);
    // SAFETY: the program wrote it through its address.
    Ok(unsafe { (&raw const r0).read_volatile() })
}

/// The two slots that put a number into a register.
fn load(dst: u8, value: u64) -> [Insn; 2] {
    let half = |code, dst, value: u64| Insn {
        code,
        dst,
        src: 0,
        off: 0,
        imm: (value as u32).cast_signed(),
    };
    [half(insn::LD_IMM64, dst, value), half(0, 0, value >> 32)]
}
