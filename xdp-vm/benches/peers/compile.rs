//! How long it takes to make code of a program that was verified.

use std::time::Instant;

use xdp_vm::insn::{CLASS_ALU, CLASS_ALU64, CLASS_JMP, CLASS_JMP32, SRC_X, alu, jmp};
use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Engine, Executable, Function, Insn, Maps, Options, Program};

const SLOTS: usize = 500;
const MOST_MICROSECONDS: f64 = 50.0;

/// Prints the median of many.
pub(crate) fn report() {
    let verified = match verify(&typical(), &[], &Config::default()) {
        Ok((verified, _)) => verified,
        Err(e) => return println!("compiling: not judged: {e}"),
    };
    let maps = Maps::create(&[], 1).expect("no map takes no memory");
    let options = Options {
        engine: Engine::Jit,
        ..Options::default()
    };
    let mut times = Vec::new();
    for _ in 0..501 {
        let start = Instant::now();
        let made = Executable::with_options(&verified, &maps, &options);
        times.push(start.elapsed().as_nanos() as f64 / 1e3);
        if let Err(e) = made {
            return println!("compiling: not judged: {e}");
        }
    }
    times.sort_by(f64::total_cmp);
    let median = super::quantile(&times, 0.5);
    println!(
        "{:48}{:8}{:14}{}",
        format!("{SLOTS} instructions compiled in under {MOST_MICROSECONDS} µs"),
        "",
        format!("{median:.1} µs"),
        if median < MOST_MICROSECONDS {
            "met"
        } else {
            "MISSED"
        }
    );
}

/// A program as compilers make them: loads, stores, arithmetic, comparisons and forward jumps.
fn typical() -> Program {
    let insn = |code, dst, src, off, imm| Insn {
        code,
        dst,
        src,
        off,
        imm,
    };
    let mut insns: Vec<Insn> = (0..10)
        .map(|r| insn(CLASS_ALU64 | alu::MOV, r, 0, 0, i32::from(r)))
        .collect();
    while insns.len() < SLOTS - 10 {
        insns.extend([
            insn(0x7b, 10, 1, -8, 0),
            insn(0x69, 2, 10, -8, 0),
            insn(CLASS_ALU64 | alu::MOV | SRC_X, 3, 2, 0, 0),
            insn(CLASS_ALU64 | alu::ADD, 3, 0, 0, 14),
            insn(CLASS_JMP | jmp::JGT | SRC_X, 3, 4, 5, 0),
            insn(CLASS_ALU64 | alu::END, 2, 0, 0, 16),
            insn(CLASS_ALU | alu::AND, 2, 0, 0, 0xff),
            insn(CLASS_JMP32 | jmp::JEQ, 2, 0, 2, 0x800),
            insn(CLASS_ALU64 | alu::LSH, 2, 0, 0, 3),
            insn(CLASS_ALU64 | alu::ADD | SRC_X, 1, 2, 0, 0),
        ]);
    }
    insns.resize(SLOTS - 1, insn(CLASS_ALU64 | alu::XOR | SRC_X, 1, 2, 0, 0));
    insns.push(insn(CLASS_JMP | jmp::EXIT, 0, 0, 0, 0));
    Program {
        name: "typical".to_owned(),
        insns,
        functions: vec![Function {
            name: "typical".to_owned(),
            start: 0,
            global: true,
        }],
        ..Program::default()
    }
}
