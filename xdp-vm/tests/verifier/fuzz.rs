//! Streams that no compiler made: every one must end in a verdict, within the budget and without a
//! panic; and where the kernel may be asked, what we accept it accepts too.

use fastrand::Rng;
use xdp_vm::contract::CONTRACTS;
use xdp_vm::insn::{self, alu, jmp};
use xdp_vm::verifier::{Cause, Config, verify};
use xdp_vm::{Insn, MapSpec, Program};

use crate::{accepted, asm, checked, kernel, maps, refused};

/// A budget that keeps a round of fuzzing short; the limit itself is what is tested with it.
const BUDGET: u64 = 20_000;

fn config() -> Config {
    Config {
        budget: BUDGET,
        ..Config::default()
    }
}

/// Rounds to run: more by `IXDP_FUZZ_ROUNDS`.
fn rounds(usual: usize) -> usize {
    std::env::var("IXDP_FUZZ_ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(usual)
}

pub(crate) fn seed(usual: u64) -> Rng {
    let seed = std::env::var("IXDP_FUZZ_SEED")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(usual);
    Rng::with_seed(seed)
}

/// Every program of the table.
fn corpus() -> Vec<Program> {
    let texts = accepted().map(|c| c.text);
    let texts = texts.chain(refused().map(|c| c.text));
    texts.map(asm::program).collect()
}

/// Changes a program in a few places, in ways that often keep it well-formed.
pub(crate) fn mutate(rng: &mut Rng, program: &mut Program, others: &[Program]) {
    for _ in 0..rng.usize(1..4) {
        let n = program.insns.len();
        if n == 0 {
            return;
        }
        let at = rng.usize(0..n);
        let i = &mut program.insns[at];
        match rng.u8(0..14) {
            0 => i.dst = rng.u8(0..11),
            1 => i.src = rng.u8(0..11),
            2 => i.off = i.off.wrapping_add(rng.i16(-8..9)),
            3 => i.imm = i.imm.wrapping_add(rng.i32(-8..9)),
            4 => i.imm = interesting(rng),
            5 => i.code ^= 1 << rng.u8(0..8),
            6 => i.code = i.code & 0x0f | (rng.u8(0..16) << 4),
            7 => *i = plausible(rng),
            8 => program.insns.swap(at, rng.usize(0..n)),
            9 => {
                let copy = program.insns[rng.usize(0..n)];
                program.insns[at] = copy;
            }
            10 => program.insns.insert(at, plausible(rng)),
            11 => {
                program.insns.remove(at);
            }
            12 => {
                // A piece of another program.
                let other = &others[rng.usize(0..others.len())].insns;
                if !other.is_empty() {
                    let from = rng.usize(0..other.len());
                    let to = (from + rng.usize(1..6)).min(other.len());
                    program
                        .insns
                        .splice(at..at, other[from..to].iter().copied());
                }
            }
            _ => i.off = rng.i16(-20..20),
        }
    }
}

fn interesting(rng: &mut Rng) -> i32 {
    const VALUES: [i32; 16] = [
        0,
        1,
        -1,
        2,
        7,
        8,
        14,
        31,
        32,
        63,
        64,
        255,
        0xffff,
        i32::MAX,
        i32::MIN,
        -8,
    ];
    VALUES[rng.usize(0..VALUES.len())]
}

/// An instruction whose fields make sense together.
fn plausible(rng: &mut Rng) -> Insn {
    let mut i = Insn {
        dst: rng.u8(0..10),
        src: rng.u8(0..11),
        ..Insn::default()
    };
    match rng.u8(0..8) {
        0..=2 => {
            const OPS: [u8; 12] = [
                alu::ADD,
                alu::SUB,
                alu::MUL,
                alu::DIV,
                alu::OR,
                alu::AND,
                alu::LSH,
                alu::RSH,
                alu::MOD,
                alu::XOR,
                alu::MOV,
                alu::ARSH,
            ];
            let class = [insn::CLASS_ALU, insn::CLASS_ALU64][rng.usize(0..2)];
            i.code = class | OPS[rng.usize(0..OPS.len())];
            if rng.bool() {
                i.code |= insn::SRC_X;
            } else {
                i.src = 0;
                i.imm = rng.i32(0..40);
            }
        }
        3 | 4 => {
            const SIZES: [u8; 4] = [insn::SIZE_B, insn::SIZE_H, insn::SIZE_W, insn::SIZE_DW];
            let class = [insn::CLASS_LDX, insn::CLASS_STX, insn::CLASS_ST][rng.usize(0..3)];
            i.code = class | insn::MODE_MEM | SIZES[rng.usize(0..4)];
            i.off = rng.i16(-4..4) * 8;
            if class == insn::CLASS_ST {
                (i.src, i.imm) = (0, rng.i32(-2..100));
            }
            if rng.bool() && class != insn::CLASS_LDX {
                i.dst = 10;
            }
        }
        5 | 6 => {
            const OPS: [u8; 11] = [
                jmp::JEQ,
                jmp::JGT,
                jmp::JGE,
                jmp::JSET,
                jmp::JNE,
                jmp::JSGT,
                jmp::JSGE,
                jmp::JLT,
                jmp::JLE,
                jmp::JSLT,
                jmp::JSLE,
            ];
            let class = [insn::CLASS_JMP, insn::CLASS_JMP32][rng.usize(0..2)];
            i.code = class | OPS[rng.usize(0..OPS.len())];
            i.off = rng.i16(0..6);
            if rng.bool() {
                i.code |= insn::SRC_X;
            } else {
                (i.src, i.imm) = (0, interesting(rng));
            }
        }
        _ => {
            i = Insn {
                code: insn::CLASS_JMP | jmp::CALL,
                imm: CONTRACTS[rng.usize(0..CONTRACTS.len())].id as i32,
                ..Insn::default()
            };
        }
    }
    i
}

/// Random bytes, random well-formed instructions, and mutated programs: a verdict for each.
#[test]
fn every_stream_ends_in_a_verdict() {
    let maps = maps();
    let corpus = corpus();
    let mut rng = seed(7);
    let mut accepted = 0;
    for round in 0..rounds(30_000) {
        let mut program = Program::default();
        match round % 3 {
            0 => {
                let n = rng.usize(0..40);
                program.insns = (0..n)
                    .map(|_| Insn::from_bytes(rng.u64(..).to_le_bytes()))
                    .collect();
            }
            1 => {
                let n = rng.usize(1..60);
                program.insns = (0..n).map(|_| plausible(&mut rng)).collect();
                program.insns.extend(asm::assemble("r0 = 1\n exit"));
            }
            _ => {
                program = corpus[rng.usize(0..corpus.len())].clone();
                mutate(&mut rng, &mut program, &corpus);
            }
        }
        match verify(&program, &maps, &config()) {
            Ok((_, statistics)) => {
                assert!(statistics.processed <= BUDGET);
                accepted += 1;
                runs_clean(&program, &maps, &mut rng, 20, statistics.processed);
            }
            // Each refusal can be told.
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
    assert!(
        accepted > 100,
        "{accepted} accepted: the fuzzer has no teeth"
    );
}

/// An accepted program runs without a fault, and its longest way is among those followed.
fn runs_clean(program: &Program, maps: &[MapSpec], rng: &mut Rng, times: u32, steps: u64) {
    for _ in 0..times {
        let at_start = rng.clone();
        if let Err(fault) = checked::run(program, maps, rng, steps) {
            let at = program.insns.get(fault.at);
            panic!(
                "slot {}, {at:?}: {}\nwith {at_start:?}\n{}",
                fault.at,
                fault.what,
                listing(program)
            );
        }
    }
}

pub(crate) fn listing(program: &Program) -> String {
    let lines = program.insns.iter().enumerate();
    let lines = lines.map(|(n, i)| {
        format!(
            "{n}: .raw {:#04x} {} {} {} {}",
            i.code, i.dst, i.src, i.off, i.imm
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Accepted programs of the table, and mutations of them, run on a machine that checks all.
#[test]
fn what_is_accepted_runs_without_a_fault() {
    let maps = maps();
    let corpus = corpus();
    let mut rng = seed(9);
    for case in accepted() {
        let program = asm::program(case.text);
        let (_, statistics) = verify(&program, &maps, &Config::default()).expect(case.name);
        runs_clean(&program, &maps, &mut rng, 300, statistics.processed);
    }
    let mut accepted = 0;
    for _ in 0..rounds(30_000) {
        let mut program = corpus[rng.usize(0..corpus.len())].clone();
        mutate(&mut rng, &mut program, &corpus);
        if let Ok((_, statistics)) = verify(&program, &maps, &config()) {
            accepted += 1;
            runs_clean(&program, &maps, &mut rng, 40, statistics.processed);
        }
    }
    assert!(
        accepted > 500,
        "{accepted} accepted: the mutator has no teeth"
    );
}

/// A stream as long as may be, and ones that branch as much as may be, end within the limits.
#[test]
fn the_limits_hold() {
    let mut program = Program::default();
    let mov = asm::assemble("r0 = 1")[0];
    program.insns = vec![mov; 999_999];
    program.insns.extend(asm::assemble("exit"));
    let (_, statistics) = verify(&program, &[], &Config::default()).expect("a million slots");
    assert_eq!(statistics.processed, 1_000_000);
    program.insns.push(mov);
    let e = verify(&program, &[], &Config::default()).expect_err("one too many");
    assert!(matches!(e.cause, Cause::TooLong { .. }));

    // Every state differs from every other, and every branch is open.
    let mut text = String::from("r6 = *(u32 *)(r1 + 16)\n r7 = 0\n");
    for n in 0..40 {
        text += &format!("r7 *= 2\n if r6 == {n} goto 1\n r7 += 1\n *(u8 *)(r10 - 1) = 0\n");
    }
    text += "r1 = value 4 + 0\n r7 &= 31\n r1 += r7\n r0 = *(u8 *)(r1 + 0)\n exit";
    let e = verify(&asm::program(&text), &maps(), &Config::default());
    if let Err(e) = e {
        let limit = matches!(
            e.cause,
            Cause::Budget { .. } | Cause::TooManyBranches { .. }
        );
        assert!(limit, "{e}");
    }
}

/// Why the kernel refuses some of what we accept: rules of its own that no safety hangs on.
const POLICIES: &[(&str, &str)] = &[
    ("unreachable insn", "slots that nothing reaches"),
    (
        "subtraction from stack pointer",
        "a stack pointer moved by subtraction",
    ),
];

/// Mutated programs that we accept, put to the kernel.
#[test]
fn the_kernel_accepts_what_we_accept() {
    if !kernel::may_be_asked() {
        return;
    }
    let maps = maps();
    let corpus = corpus();
    let mut rng = seed(8);
    let mut asked = 0;
    let mut by_policy = vec![0; POLICIES.len()];
    let mut more_precise = 0;
    for _ in 0..rounds(20_000) {
        let mut program = corpus[rng.usize(0..corpus.len())].clone();
        mutate(&mut rng, &mut program, &corpus);
        let Ok((_, statistics)) = verify(&program, &maps, &config()) else {
            continue;
        };
        asked += 1;
        let kernel::Opinion::Refused(log) = kernel::ask(&program, &maps).expect("bpf(2)") else {
            continue;
        };
        match POLICIES.iter().position(|(text, _)| log.contains(text)) {
            Some(policy) => by_policy[policy] += 1,
            None => {
                // We claim to know better; then no run may show a fault.
                runs_clean(&program, &maps, &mut rng, 2_000, statistics.processed);
                println!("we know more than the kernel: {log}");
                more_precise += 1;
            }
        }
    }
    for ((_, reason), n) in POLICIES.iter().zip(&by_policy) {
        println!("{n} of {asked} refused by the kernel alone for {reason}");
    }
    assert!(asked > 500, "{asked} accepted: the mutator has no teeth");
    // Real gaps in precision are few; a hole of ours would be met often.
    assert!(more_precise * 20 < asked, "{more_precise} of {asked}");
}
