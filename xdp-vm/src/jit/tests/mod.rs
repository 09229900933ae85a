//! The compiler against the interpreter: both run the same programs on the same memory, and all that
//! a program can leave behind has to be equal: what it returns, its stack, the packet, the maps.
#![allow(unsafe_code)]

mod calls;
mod generate;
mod instructions;
mod programs;
mod speed;

use std::fmt::Write as _;

use super::compile::Features;
use super::*;
use crate::cpu::{FRAME, MAX_FRAMES};
use crate::engine::{Engine, Executable, Options};
use crate::memory::{self, pointer};
use crate::program::{Function, Program};
use crate::{Clock, ContextField, Insn, MapKind, MapSpec, Note, Update, insn};

const STACK: usize = FRAME * MAX_FRAMES;
const ALU64: u8 = insn::CLASS_ALU64;
const ALU: u8 = insn::CLASS_ALU;
const X: u8 = insn::SRC_X;

/// All ways to compile: with and without newer instructions, with and without hidden constants.
const VARIANTS: [(JitOptions, Features); 4] = [
    variant(false, false),
    variant(false, true),
    variant(true, false),
    variant(true, true),
];

const fn variant(blind_constants: bool, bmi2: bool) -> (JitOptions, Features) {
    let options = JitOptions {
        blind_constants,
        perf_map: false,
    };
    (options, Features { bmi2 })
}

/// Those that this machine can run.
fn variants() -> impl Iterator<Item = (JitOptions, Features)> {
    let machine = Features::detect();
    VARIANTS
        .into_iter()
        .filter(move |v| machine.bmi2 || !v.1.bmi2)
}

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn {
        code,
        dst,
        src,
        off,
        imm,
    }
}

const EXIT: Insn = Insn {
    code: 0x95,
    dst: 0,
    src: 0,
    off: 0,
    imm: 0,
};

/// A program that the verifier did not see; it must be one that it could accept.
fn trusted(insns: Vec<Insn>, notes: &[(usize, Note)], maps: &Maps) -> Verified {
    let mut all = vec![Note::None; insns.len()];
    for &(slot, note) in notes {
        all[slot] = note;
    }
    let program = Program {
        name: "test".to_owned(),
        insns,
        ..Program::default()
    };
    Verified::new(
        program,
        all,
        maps.iter().map(|m| m.spec().clone()).collect(),
    )
}

fn interpreted(verified: &Verified, maps: &Maps) -> Executable {
    let options = Options {
        engine: Engine::Interpreter,
        ..Options::default()
    };
    Executable::with_options(verified, maps, &options).unwrap()
}

fn no_maps() -> Maps {
    Maps::create(&[], 1).unwrap()
}

/// Sets the stack of a worker to `fill`, which is repeated.
fn fill_stack(cpu: &Cpu, fill: &[u64]) {
    let bottom = cpu.stack_top() - STACK as u64;
    for (i, &value) in fill.iter().cycle().take(STACK / 8).enumerate() {
        // SAFETY: inside the stack.
        unsafe { memory::store64(pointer(bottom + 8 * i as u64), value) };
    }
}

fn stack_of(cpu: &Cpu) -> Vec<u8> {
    // SAFETY: all of the stack.
    unsafe { memory::to_vec(pointer(cpu.stack_top() - STACK as u64), STACK) }
}

/// Runs compiled code with the worker's slot checked, as [`Executable`] does.
fn run_jit(jit: &Jit, maps: &Maps, cpu: &mut Cpu, buff: &mut XdpBuff<'_>) -> u32 {
    assert!(cpu.slot() < maps.cpus());
    // SAFETY: the maps are those it was compiled with, and have the slot.
    unsafe { jit.run(cpu, buff) }
}

/// A program, to be read in a report.
fn listing(insns: &[Insn]) -> String {
    let mut text = String::new();
    for (slot, insn) in insns.iter().enumerate() {
        let _ = writeln!(text, "{slot:4}: {insn}");
    }
    text
}
