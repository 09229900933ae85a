//! What the compiler does around calls, and the flow it refuses.

use super::*;
use crate::insn::{call, imm64, jmp};

fn compiled(insns: Vec<Insn>, maps: &Maps) -> Result<Jit, ExecutableError> {
    Jit::new(&trusted(insns, &[], maps), maps, &JitOptions::default())
}

fn run(insns: Vec<Insn>) -> u32 {
    let maps = no_maps();
    let jit = compiled(insns, &maps).unwrap();
    let mut bytes = [0; 64];
    let mut buff = XdpBuff::new(&mut bytes, 0, 64).unwrap();
    run_jit(&jit, &maps, &mut Cpu::new(0), &mut buff)
}

fn mov(dst: u8, imm: i32) -> Insn {
    insn(ALU64 | insn::alu::MOV, dst, 0, 0, imm)
}

/// A jump over `n` bytes of code, for all `n` around where one byte no longer reaches, in both
/// directions.
#[test]
fn jumps_of_every_length() {
    for fill in 0..60 {
        let filler = (0..fill).map(|_| insn(ALU64 | insn::alu::ADD, 0, 0, 0, 0x1000));
        let mut insns = vec![mov(0, 1), insn(insn::CLASS_JMP | jmp::JEQ, 0, 0, fill, 1)];
        insns.extend(filler.clone());
        insns.push(EXIT);
        assert_eq!(run(insns), 1, "{fill}");
        // Two turns, then out.
        let mut insns = vec![mov(0, 0), mov(1, 2)];
        insns.extend(filler);
        insns.push(insn(ALU64 | insn::alu::SUB, 1, 0, 0, 1));
        insns.push(insn(insn::CLASS_JMP | jmp::JNE, 1, 0, -fill - 2, 0));
        insns.push(EXIT);
        assert_eq!(run(insns), 2 * 0x1000 * fill as u32, "{fill}");
    }
}

/// Jumps over jumps: that one of them does not reach makes others not reach.
#[test]
fn jumps_that_depend_on_each_other() {
    let count = 90;
    let mut insns = vec![mov(0, 0), mov(1, 0)];
    // Each goes over the same number of others, of 5 bytes each while all are short.
    for _ in 0..count {
        insns.push(insn(insn::CLASS_JMP | jmp::JNE, 1, 0, 24, 0));
        insns.push(insn(ALU64 | insn::alu::ADD, 0, 0, 0, 1));
    }
    insns.extend((0..30).map(|_| mov(2, 0)));
    insns.push(EXIT);
    assert_eq!(run(insns), count);
}

/// Functions with all combinations of kept registers: the machine's stack must be right where a
/// helper is called, and be cleaned up.
#[test]
fn the_stack_is_aligned_for_helpers() {
    for used in 0..16u8 {
        for with_stack in [false, true] {
            for nested in [false, true] {
                let mut insns = Vec::new();
                let body = |insns: &mut Vec<Insn>| {
                    for r in 0..4 {
                        if used & 1 << r != 0 {
                            insns.push(mov(6 + r, 100 + i32::from(r)));
                        }
                    }
                    if with_stack {
                        insns.push(insn(0x7a, 10, 0, -8, 5));
                    }
                    // The time is taken by the system's library, which relies on the alignment.
                    insns.push(insn(0x85, 0, call::HELPER, 0, 5));
                    insns.push(insn(ALU64 | insn::alu::MOV, 0, 0, 0, 1));
                    for r in 0..4 {
                        if used & 1 << r != 0 {
                            insns.push(insn(ALU64 | insn::alu::ADD | X, 0, 6 + r, 0, 0));
                        }
                    }
                    insns.push(EXIT);
                };
                if nested {
                    // Nothing of the caller's is lost, whatever the function uses.
                    insns.extend((6..10).map(|r| mov(r, 1000 * i32::from(r))));
                    insns.push(insn(0x85, 0, call::LOCAL, 0, 5));
                    insns.extend((6..10).map(|r| insn(ALU64 | insn::alu::ADD | X, 0, r, 0, 0)));
                    insns.push(EXIT);
                }
                body(&mut insns);
                let sum: u32 = (0..4).filter(|r| used & 1 << r != 0).map(|r| 100 + r).sum();
                let expected = 1 + sum + if nested { 30_000 } else { 0 };
                assert_eq!(run(insns), expected, "{used:#b} {with_stack} {nested}");
            }
        }
    }
}

/// What the machine's convention says is the caller's comes back.
#[test]
fn the_entry_keeps_what_is_its_callers() {
    use std::arch::asm;
    let mut insns = vec![insn(0x7a, 10, 0, -8, 0)];
    insns.extend((0..10).map(|r| mov(r, -1)));
    insns.extend([insn(0x85, 0, call::HELPER, 0, 7), EXIT]);
    let maps = no_maps();
    let jit = compiled(insns, &maps).unwrap();
    let mut cpu = Cpu::new(0);
    let mut bytes = [0; 64];
    let mut buff = XdpBuff::new(&mut bytes, 0, 64).unwrap();
    let stack = cpu.stack_top();
    let context = std::ptr::from_mut(&mut buff);
    let mut env = Env {
        cpu: &mut cpu,
        buff: &mut buff,
    };
    let mut kept = [0u64; 6];
    // SAFETY: calls the code as its convention has it, on an aligned stack. The two registers that
    // cannot be operands are put back.
    unsafe {
        asm!(
            "push rbx", "push rbp",
            "mov rbx, 1", "mov rbp, 2", "mov r12, 3", "mov r13, 4", "mov r14, 5", "mov r15, 6",
            "call rax",
            "mov rdi, rbx", "mov rsi, rbp",
            "pop rbp", "pop rbx",
            in("rax") jit.code().as_ptr(),
            inlateout("rdi") context => kept[0], inlateout("rsi") stack => kept[1],
            in("rdx") &raw mut env,
            lateout("r12") kept[2], lateout("r13") kept[3],
            lateout("r14") kept[4], lateout("r15") kept[5],
            clobber_abi("sysv64"),
        );
    }
    assert_eq!(kept, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn flow_that_would_leave_a_function_is_refused() {
    let ja = |off| insn(insn::CLASS_JMP | jmp::JA, 0, 0, off, 0);
    let call = |imm| insn(0x85, 0, call::LOCAL, 0, imm);
    let long = insn(insn::LD_IMM64, 0, imm64::VALUE, 0, 0);
    let half = Insn::default();
    for (what, insns, slot) in [
        ("nothing", vec![], 0),
        ("no end", vec![mov(0, 0)], 0),
        ("past the end", vec![ja(1), EXIT], 0),
        ("before the start", vec![ja(-2), EXIT], 0),
        ("into a load", vec![ja(1), long, half, EXIT], 2),
        ("half a load", vec![long], 0),
        ("a load at the end", vec![long, half], 0),
        ("into another function", vec![ja(2), call(0), EXIT, EXIT], 0),
        (
            "a function that falls into the next",
            vec![call(1), mov(0, 0), mov(0, 0), EXIT],
            1,
        ),
        (
            "a condition at the end",
            vec![EXIT, insn(insn::CLASS_JMP | jmp::JEQ, 0, 0, -2, 0)],
            1,
        ),
        ("a call outside", vec![call(7), EXIT], 0),
        (
            "a register there is not",
            vec![insn(ALU64 | X, 0, 11, 0, 0), EXIT],
            0,
        ),
        ("a write to r10", vec![mov(10, 0), EXIT], 0),
        ("a fetch into r10", vec![insn(0xdb, 1, 10, 0, 1), EXIT], 0),
        (
            "a helper there is not",
            vec![insn(0x85, 0, call::HELPER, 0, 999), EXIT],
            0,
        ),
        (
            "a map there is not",
            vec![insn(insn::LD_IMM64, 1, imm64::MAP, 0, 0), half, EXIT],
            0,
        ),
        (
            "an operation there is not",
            vec![insn(ALU64 | 0xe0, 0, 0, 0, 0), EXIT],
            0,
        ),
    ] {
        match compiled(insns, &no_maps()) {
            Err(ExecutableError::Instruction { insn, .. }) => assert_eq!(insn, slot, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn slots_that_nothing_reaches_may_be_anything() {
    let insns = vec![mov(0, 3), EXIT, insn(0xff, 15, 15, 0, 0), Insn::default()];
    let maps = no_maps();
    let verified = trusted(insns, &[(2, Note::Dead), (3, Note::Dead)], &maps);
    let jit = Jit::new(&verified, &maps, &JitOptions::default()).unwrap();
    let mut bytes = [0; 64];
    let mut buff = XdpBuff::new(&mut bytes, 0, 64).unwrap();
    assert_eq!(run_jit(&jit, &maps, &mut Cpu::new(0), &mut buff), 3);
    // One trap stands for both.
    assert_eq!(jit.code()[jit.offsets()[2] as usize..], [0x0f, 0x0b]);
    assert_eq!(jit.offsets()[2], jit.offsets()[3]);
}

#[test]
fn hidden_constants_are_not_in_the_code() {
    const SECRET: i32 = 0x3c0b_eb90;
    let secret = [0x90, 0xeb, 0x0b, 0x3c];
    let insns = vec![
        mov(0, SECRET),
        mov(1, 0),
        insn(ALU | insn::alu::XOR, 0, 0, 0, SECRET),
        insn(ALU64 | insn::alu::MUL, 1, 0, 0, SECRET),
        insn(ALU64 | insn::alu::DIV, 1, 0, 0, SECRET),
        insn(0x62, 10, 0, -8, SECRET),
        insn(insn::CLASS_JMP32 | jmp::JEQ, 1, 0, 0, SECRET),
        insn(insn::CLASS_JMP | jmp::JSET, 1, 0, 0, SECRET),
        insn(insn::LD_IMM64, 2, 0, 0, SECRET),
        insn(0, 0, 0, 0, SECRET),
        EXIT,
    ];
    let maps = no_maps();
    let verified = trusted(insns, &[], &maps);
    let code = |blind_constants| {
        let options = JitOptions {
            blind_constants,
            ..JitOptions::default()
        };
        Jit::new(&verified, &maps, &options)
            .unwrap()
            .code()
            .to_vec()
    };
    let count = |code: &[u8]| code.windows(4).filter(|w| *w == secret).count();
    assert_eq!(count(&code(false)), 9);
    assert_eq!(count(&code(true)), 0);
    assert_ne!(code(true), code(true), "keys are new each time");
}

#[test]
fn profilers_find_names() {
    let insns = vec![insn(0x85, 0, call::LOCAL, 0, 1), EXIT, mov(0, 1), EXIT];
    let maps = no_maps();
    let program = Program {
        name: "entry".to_owned(),
        insns,
        functions: [("entry", 0), ("helped", 2)]
            .map(|(name, start)| Function {
                name: name.to_owned(),
                start,
                global: false,
            })
            .into(),
        ..Program::default()
    };
    let tag = crate::Tag::of(&program.insns);
    let verified = Verified::new(program, vec![Note::None; 4], vec![]);
    let options = JitOptions {
        perf_map: true,
        ..JitOptions::default()
    };
    let jit = Jit::new(&verified, &maps, &options).unwrap();
    let map = std::fs::read_to_string(perf_map::path()).unwrap();
    std::fs::remove_file(perf_map::path()).unwrap();
    let start = jit.code().as_ptr().addr();
    let helped = jit.offsets()[2] as usize;
    let expected = format!(
        "{start:x} {helped:x} bpf_prog_{tag}_entry\n{:x} {:x} bpf_prog_{tag}_helped\n",
        start + helped,
        jit.code().len() - helped
    );
    assert_eq!(map, expected);
}

/// A lookup in an array and the comparison with null behind it are one: with either jump, with and
/// without an entry, on each worker, and where the comparison is also reached from elsewhere.
#[test]
fn lookups_in_arrays_and_their_null_checks() {
    for (kind, value_size) in [
        (MapKind::Array, 8),
        (MapKind::Array, 24),
        (MapKind::PercpuArray, 8),
    ] {
        let spec = MapSpec {
            kind,
            key_size: 4,
            value_size,
            max_entries: 3,
            ..MapSpec::default()
        };
        let maps = Maps::create(&[spec], 2).unwrap();
        let map = maps.at(0).unwrap();
        for index in 0..3u32 {
            let value = |cpu: u64| {
                let mut value = (100 + u64::from(index) + 10 * cpu).to_le_bytes().to_vec();
                value.resize(value_size as usize, 0xee);
                value
            };
            let key = index.to_le_bytes();
            match kind {
                MapKind::Array => map.update(&key, &value(0), Update::Any),
                _ => map.update_percpu(&key, &[&value(0), &value(1)], Update::Any),
            }
            .unwrap();
        }
        // All there is, as digits of a number.
        for case in 0..5 * 2 * 2 * 2 * 4i32 {
            let (index, case) = (case % 5, case / 5);
            let (op, case) = ([jmp::JEQ, jmp::JNE][case as usize % 2], case / 2);
            let (from_elsewhere, case) = (case % 2 == 1, case / 2);
            let (cpu, store) = (case.cast_unsigned() % 2, case / 2);
            let found = [insn(0x61, 0, 0, 0, 0), EXIT];
            let lost = [insn(ALU64 | insn::alu::ADD, 0, 0, 0, 7), EXIT];
            let (next, far) = match op {
                jmp::JEQ => (found, lost),
                _ => (lost, found),
            };
            let address = [
                insn(ALU64 | insn::alu::MOV | X, 2, 10, 0, 0),
                insn(ALU64 | insn::alu::ADD, 2, 0, 0, -4),
            ];
            let key = match store {
                0 | 1 => vec![insn(0x62, 10, 0, -4, index)],
                // Through a register, one of them that of the result.
                2 => vec![mov(0, index), insn(0x63, 10, 0, -4, 0)],
                _ => vec![mov(3, index), insn(0x63, 10, 3, -4, 0)],
            };
            let mut insns = vec![mov(0, 5)];
            match store {
                0 => insns.extend([&address[..], &key].concat()),
                _ => insns.extend([&key, &address[..]].concat()),
            }
            insns.extend([insn(0x18, 1, imm64::MAP, 0, 0), insn(0, 0, 0, 0, 0)]);
            if from_elsewhere {
                // To the comparison, with null.
                insns.extend([mov(0, 0), insn(insn::CLASS_JMP | jmp::JEQ, 0, 0, 1, 0)]);
            }
            insns.push(insn(0x85, 0, call::HELPER, 0, 1));
            insns.push(insn(insn::CLASS_JMP | op, 0, 0, 2, 0));
            insns.extend(next);
            insns.extend(far);
            let verified = trusted(insns, &[], &maps);
            let expected = match (from_elsewhere || index > 2, kind) {
                (true, _) => 7,
                (_, MapKind::Array) => 100 + index as u32,
                _ => 100 + index as u32 + 10 * cpu,
            };
            for (options, features) in variants() {
                let jit = Jit::with_features(&verified, &maps, &options, features).unwrap();
                let mut bytes = [0; 64];
                let mut buff = XdpBuff::new(&mut bytes, 0, 64).unwrap();
                let mut worker = Cpu::new(cpu);
                let result = run_jit(&jit, &maps, &mut worker, &mut buff);
                let text = listing(&verified.program().insns);
                assert_eq!(
                    result, expected,
                    "{kind:?}, worker {cpu}, {options:?}:\n{text}"
                );
                // The key is where the program put it.
                let key = &stack_of(&worker)[STACK - 4..];
                assert_eq!(key, index.to_le_bytes(), "{text}");
            }
        }
    }
}
