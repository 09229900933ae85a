//! How long compiling takes: 500 instructions in less than 50 microseconds.

use std::time::Instant;

use super::*;

/// A program as compilers make them: mostly loads, arithmetic, comparisons and forward jumps.
fn typical(slots: usize) -> Vec<Insn> {
    let mut insns = vec![insn(ALU64 | insn::alu::MOV, 0, 0, 0, 2)];
    insns.extend((1..10).map(|r| insn(ALU64 | insn::alu::MOV, r, 0, 0, i32::from(r))));
    while insns.len() < slots - 10 {
        insns.extend([
            insn(0x7b, 10, 1, -8, 0),
            insn(0x69, 2, 10, -8, 0),
            insn(ALU64 | insn::alu::MOV | X, 3, 2, 0, 0),
            insn(ALU64 | insn::alu::ADD, 3, 0, 0, 14),
            insn(insn::CLASS_JMP | insn::jmp::JGT | X, 3, 4, 5, 0),
            insn(ALU64 | insn::alu::END, 2, 0, 0, 16),
            insn(ALU | insn::alu::AND, 2, 0, 0, 0xff),
            insn(insn::CLASS_JMP32 | insn::jmp::JEQ, 2, 0, 2, 0x800),
            insn(ALU64 | insn::alu::LSH, 2, 0, 0, 3),
            insn(ALU64 | insn::alu::ADD | X, 1, 2, 0, 0),
        ]);
    }
    insns.resize(slots - 1, insn(ALU64 | insn::alu::XOR | X, 1, 2, 0, 0));
    insns.push(EXIT);
    insns
}

#[test]
fn compiling_is_quick() {
    let maps = no_maps();
    let verified = trusted(typical(500), &[], &maps);
    let best = (0..200)
        .map(|_| {
            let start = Instant::now();
            let jit = Jit::new(&verified, &maps, &JitOptions::default()).unwrap();
            let time = start.elapsed();
            drop(jit);
            time
        })
        .min()
        .unwrap();
    println!("500 instructions compiled in {best:?}");
    if cfg!(debug_assertions) {
        return println!("not judged: built without full optimisation");
    }
    assert!(best.as_micros() < 50, "{best:?}");
}
