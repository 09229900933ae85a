//! Each instruction's meaning, edge cases first. Programs here are written by hand and not verified,
//! so each must be one that the verifier would accept.

use super::*;
use crate::insn::{self, alu, atomic, jmp};
use crate::program::{MapKind, Program};
use crate::{Clock, ContextField, Note};

const K: u8 = insn::SRC_K;
const X: u8 = insn::SRC_X;
const ALU: u8 = insn::CLASS_ALU;
const ALU64: u8 = insn::CLASS_ALU64;

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn {
        code,
        dst,
        src,
        off,
        imm,
    }
}

fn imm64(dst: u8, value: u64) -> [Insn; 2] {
    [
        insn(0x18, dst, 0, 0, value as i32),
        insn(0, 0, 0, 0, (value >> 32) as i32),
    ]
}

fn mov(dst: u8, src: u8) -> Insn {
    insn(ALU64 | alu::MOV | X, dst, src, 0, 0)
}

fn mov_imm(dst: u8, imm: i32) -> Insn {
    insn(ALU64 | alu::MOV, dst, 0, 0, imm)
}

fn call(id: i32) -> Insn {
    insn(0x85, 0, 0, 0, id)
}

const EXIT: Insn = Insn {
    code: 0x95,
    dst: 0,
    src: 0,
    off: 0,
    imm: 0,
};

/// An executable of unverified instructions.
fn executable(insns: Vec<Insn>, notes: &[(usize, Note)], maps: &Maps) -> Executable {
    let mut all = vec![Note::None; insns.len()];
    for &(at, note) in notes {
        all[at] = note;
    }
    let program = Program {
        insns,
        ..Program::default()
    };
    let specs = maps.iter().map(|m| m.spec().clone()).collect();
    let options = Options {
        engine: Engine::Interpreter,
        ..Options::default()
    };
    Executable::with_options(&Verified::new(program, all, specs), maps, &options).unwrap()
}

fn no_maps() -> Maps {
    Maps::create(&[], 1).unwrap()
}

/// Runs instructions that leave a 64-bit result in r0, and gives all of it: through two runs, since
/// one returns only the low half.
fn result(insns: impl IntoIterator<Item = Insn>) -> u64 {
    let mut low: Vec<_> = insns.into_iter().collect();
    let mut high = low.clone();
    low.push(EXIT);
    high.extend([insn(ALU64 | alu::RSH, 0, 0, 0, 32), EXIT]);
    let half = |insns| {
        let mut bytes = [0; 600];
        let mut buff = XdpBuff::new(&mut bytes, 256, 64).unwrap();
        executable(insns, &[], &no_maps()).run(&mut Cpu::new(0), &mut buff)
    };
    u64::from(half(high)) << 32 | u64::from(half(low))
}

/// One arithmetic instruction on `dst` in r0, `src` in r1.
fn arithmetic(op: Insn, dst: u64, src: u64) -> u64 {
    let [a, b] = imm64(0, dst);
    let [c, d] = imm64(1, src);
    result([
        a,
        b,
        c,
        d,
        Insn {
            dst: 0,
            src: 1,
            ..op
        },
    ])
}

const MIN64: u64 = 1 << 63;
const MIN32: u64 = 1 << 31;
const ONES: u64 = u64::MAX;
/// What must not be left in the upper half by a 32-bit operation.
const DIRT: u64 = 0xdead_beef_0000_0000;

#[test]
fn arithmetic_with_registers() {
    for (class, op, off, dst, src, expected) in [
        (ALU64, alu::ADD, 0, ONES, 2, 1),
        (ALU, alu::ADD, 0, DIRT | 0xffff_ffff, DIRT | 2, 1),
        (ALU64, alu::SUB, 0, 1, 2, ONES),
        (ALU, alu::SUB, 0, DIRT | 1, 2, 0xffff_ffff),
        (ALU64, alu::MUL, 0, MIN64 | 3, 2, 6),
        (ALU, alu::MUL, 0, DIRT | 0x8000_0001, 2, 2),
        (ALU64, alu::DIV, 0, ONES, 2, ONES / 2),
        (ALU64, alu::DIV, 0, 7, 0, 0),
        (ALU, alu::DIV, 0, DIRT | 7, 2, 3),
        // The low half of the divisor counts, and it is zero.
        (ALU, alu::DIV, 0, DIRT | 7, DIRT, 0),
        (ALU64, alu::MOD, 0, 7, 0, 7),
        (ALU64, alu::MOD, 0, ONES, 10, 5),
        (ALU, alu::MOD, 0, DIRT | 7, DIRT, 7),
        (ALU, alu::MOD, 0, DIRT | 7, 4, 3),
        (ALU64, alu::DIV, 1, -7i64 as u64, 2, -3i64 as u64),
        (ALU64, alu::DIV, 1, MIN64, ONES, MIN64),
        (ALU64, alu::DIV, 1, 5, 0, 0),
        (ALU, alu::DIV, 1, DIRT | 0xffff_fff9, 2, 0xffff_fffd),
        (ALU, alu::DIV, 1, DIRT | MIN32, 0xffff_ffff, MIN32),
        (ALU, alu::DIV, 1, DIRT | 5, 0, 0),
        (ALU64, alu::MOD, 1, -7i64 as u64, 2, ONES),
        (ALU64, alu::MOD, 1, 7, -2i64 as u64, 1),
        (ALU64, alu::MOD, 1, MIN64, ONES, 0),
        (ALU64, alu::MOD, 1, MIN64, 0, MIN64),
        (ALU, alu::MOD, 1, DIRT | 0xffff_fff9, 2, 0xffff_ffff),
        (ALU, alu::MOD, 1, DIRT | MIN32, 0xffff_ffff, 0),
        (ALU, alu::MOD, 1, DIRT | MIN32, 0, MIN32),
        (ALU64, alu::OR, 0, DIRT, 0xff, DIRT | 0xff),
        (ALU, alu::OR, 0, DIRT | 1, DIRT | 2, 3),
        (ALU64, alu::AND, 0, DIRT | 7, DIRT | 2, DIRT | 2),
        (ALU, alu::AND, 0, ONES, ONES, 0xffff_ffff),
        (ALU64, alu::XOR, 0, DIRT | 5, DIRT | 4, 1),
        (ALU, alu::XOR, 0, DIRT | 5, 4, 1),
        // Distances of shifts are masked.
        (ALU64, alu::LSH, 0, 1, 65, 2),
        (ALU64, alu::LSH, 0, 1, 63, MIN64),
        (ALU, alu::LSH, 0, DIRT | 1, 33, 2),
        (ALU, alu::LSH, 0, 1, DIRT | 31, MIN32),
        (ALU64, alu::RSH, 0, ONES, 127, 1),
        (ALU, alu::RSH, 0, ONES, 63, 1),
        (ALU64, alu::ARSH, 0, MIN64, 127, ONES),
        (ALU, alu::ARSH, 0, DIRT | MIN32, 63, 0xffff_ffff),
        (ALU, alu::ARSH, 0, DIRT | 0x4000_0000, 30, 1),
        (ALU64, alu::MOV, 0, 0, DIRT | 1, DIRT | 1),
        (ALU, alu::MOV, 0, 0, DIRT | 1, 1),
        (ALU64, alu::MOV, 8, 0, 0x180, -128i64 as u64),
        (ALU64, alu::MOV, 16, 0, 0xf_8000, -32768i64 as u64),
        (
            ALU64,
            alu::MOV,
            32,
            0,
            DIRT | MIN32,
            -2_147_483_648i64 as u64,
        ),
        (ALU64, alu::MOV, 32, 0, DIRT | 1, 1),
        (ALU, alu::MOV, 8, 0, DIRT | 0x180, 0xffff_ff80),
        (ALU, alu::MOV, 16, 0, DIRT | 0x8000, 0xffff_8000),
        (ALU, alu::MOV, 16, 0, DIRT | 0x7fff, 0x7fff),
    ] {
        let op = insn(class | op | X, 0, 1, off, 0);
        assert_eq!(
            arithmetic(op, dst, src),
            expected,
            "{op} with {dst:#x} and {src:#x}"
        );
    }
}

#[test]
fn arithmetic_with_immediates() {
    for (class, op, off, dst, imm, expected) in [
        // Immediates are extended by their sign to 64 bits.
        (ALU64, alu::ADD, 0, 1, -2, ONES),
        (ALU, alu::ADD, 0, DIRT | 1, -2, 0xffff_ffff),
        (ALU64, alu::SUB, 0, 1, -1, 2),
        (ALU, alu::SUB, 0, DIRT, -1, 1),
        (ALU64, alu::MUL, 0, 3, -1, -3i64 as u64),
        (ALU, alu::MUL, 0, 3, -1, 0xffff_fffd),
        (ALU64, alu::DIV, 0, ONES, -1, 1),
        (ALU64, alu::DIV, 0, 5, -1, 0),
        (ALU, alu::DIV, 0, ONES, -1, 1),
        (ALU64, alu::MOD, 0, 5, -1, 5),
        (ALU, alu::MOD, 0, DIRT | 5, -1, 5),
        (ALU64, alu::DIV, 1, -6i64 as u64, -3, 2),
        (ALU, alu::DIV, 1, 0xffff_fffa, -3, 2),
        (ALU64, alu::MOD, 1, -7i64 as u64, -3, ONES),
        (ALU, alu::MOD, 1, 0xffff_fff9, -3, 0xffff_ffff),
        (ALU64, alu::OR, 0, 0, -1, ONES),
        (ALU, alu::OR, 0, 0, -1, 0xffff_ffff),
        (ALU64, alu::AND, 0, DIRT | 0xff, -16, DIRT | 0xf0),
        (ALU, alu::AND, 0, DIRT | 0xff, -16, 0xf0),
        (ALU64, alu::XOR, 0, 0, -1, ONES),
        (ALU, alu::XOR, 0, DIRT, -1, 0xffff_ffff),
        (ALU64, alu::LSH, 0, 1, 40, 1 << 40),
        (ALU, alu::LSH, 0, DIRT | 3, 31, MIN32),
        (ALU64, alu::RSH, 0, MIN64, 63, 1),
        (ALU, alu::RSH, 0, DIRT | MIN32, 31, 1),
        (ALU64, alu::ARSH, 0, MIN64, 63, ONES),
        (ALU, alu::ARSH, 0, MIN32, 31, 0xffff_ffff),
        (ALU64, alu::MOV, 0, 0, -1, ONES),
        (ALU, alu::MOV, 0, DIRT, -1, 0xffff_ffff),
        (ALU64, alu::NEG, 0, 1, 0, ONES),
        (ALU, alu::NEG, 0, DIRT | 1, 0, 0xffff_ffff),
        (ALU64, alu::NEG, 0, MIN64, 0, MIN64),
    ] {
        let op = insn(class | op | K, 0, 0, off, imm);
        assert_eq!(arithmetic(op, dst, 0), expected, "{op} with {dst:#x}");
    }
}

#[test]
fn byte_order() {
    const V: u64 = 0x1122_3344_5566_7788;
    for (code, width, expected) in [
        (ALU | alu::END, 16, 0x7788),
        (ALU | alu::END, 32, 0x5566_7788),
        (ALU | alu::END, 64, V),
        (ALU | alu::END | X, 16, 0x8877),
        (ALU | alu::END | X, 32, 0x8877_6655),
        (ALU | alu::END | X, 64, 0x8877_6655_4433_2211),
        (ALU64 | alu::END, 16, 0x8877),
        (ALU64 | alu::END, 32, 0x8877_6655),
        (ALU64 | alu::END, 64, 0x8877_6655_4433_2211),
    ] {
        let [a, b] = imm64(0, V);
        let op = insn(code, 0, 0, 0, width);
        assert_eq!(result([a, b, op]), expected, "{op}");
    }
}

#[test]
fn jumps_compare_what_they_should() {
    let taken = |code: u8, dst: u64, src: u64, imm: i32| {
        let [a, b] = imm64(1, dst);
        let [c, d] = imm64(2, src);
        let jump = insn(code, 1, if code & X == 0 { 0 } else { 2 }, 1, imm);
        // The instruction that is jumped over makes the answer 0.
        result([mov_imm(0, 1), a, b, c, d, jump, mov_imm(0, 0)]) == 1
    };
    const MINUS: u64 = -1i64 as u64;
    // left, right, then which of the conditions hold: of 64 bits, and of 32.
    type Holds = fn(u64, u64) -> bool;
    let conditions: [(u8, Holds, Holds); 11] = [
        (jmp::JEQ, |a, b| a == b, |a, b| a as u32 == b as u32),
        (jmp::JNE, |a, b| a != b, |a, b| a as u32 != b as u32),
        (jmp::JGT, |a, b| a > b, |a, b| a as u32 > b as u32),
        (jmp::JGE, |a, b| a >= b, |a, b| a as u32 >= b as u32),
        (jmp::JLT, |a, b| a < b, |a, b| (a as u32) < b as u32),
        (jmp::JLE, |a, b| a <= b, |a, b| a as u32 <= b as u32),
        (
            jmp::JSET,
            |a, b| a & b != 0,
            |a, b| a as u32 & b as u32 != 0,
        ),
        (
            jmp::JSGT,
            |a, b| a as i64 > b as i64,
            |a, b| a as i32 > b as i32,
        ),
        (
            jmp::JSGE,
            |a, b| a as i64 >= b as i64,
            |a, b| a as i32 >= b as i32,
        ),
        (
            jmp::JSLT,
            |a, b| (a as i64) < b as i64,
            |a, b| (a as i32) < b as i32,
        ),
        (
            jmp::JSLE,
            |a, b| a as i64 <= b as i64,
            |a, b| a as i32 <= b as i32,
        ),
    ];
    let values = [
        0,
        1,
        2,
        MIN32 - 1,
        MIN32,
        0xffff_ffff,
        1 << 32,
        DIRT | 1,
        MIN64,
        MINUS,
        MINUS - 1,
    ];
    for (op, wide, narrow) in conditions {
        for a in values {
            for b in values {
                let of = |class: u8| taken(class | op | X, a, b, 0);
                assert_eq!(of(insn::CLASS_JMP), wide(a, b), "{op:#x} {a:#x} {b:#x}");
                assert_eq!(
                    of(insn::CLASS_JMP32),
                    narrow(a, b),
                    "w {op:#x} {a:#x} {b:#x}"
                );
            }
            for imm in [0, 1, 2, -1, i32::MIN, i32::MAX] {
                let b = i64::from(imm) as u64;
                let of = |class: u8| taken(class | op | K, a, 0, imm);
                assert_eq!(of(insn::CLASS_JMP), wide(a, b), "{op:#x} {a:#x} {imm}");
                assert_eq!(
                    of(insn::CLASS_JMP32),
                    narrow(a, b),
                    "w {op:#x} {a:#x} {imm}"
                );
            }
        }
    }
    // The fixed examples that the comparison above leans on.
    assert!(taken(insn::CLASS_JMP32 | jmp::JSGT | K, 0xffff_ffff, 0, -2));
    assert!(!taken(insn::CLASS_JMP | jmp::JSGT | K, MIN64, 0, -2));
    assert!(taken(insn::CLASS_JMP | jmp::JGT | K, MINUS, 0, -2));
}

#[test]
fn jumps_count_slots_and_go_both_ways() {
    // A loop over a 16-byte load: r0 = 3 * 5.
    let [a, b] = imm64(2, 3);
    let program = [
        mov_imm(0, 0),
        mov_imm(1, 5),
        a,
        b,
        insn(ALU64 | alu::ADD | X, 0, 2, 0, 0),
        insn(ALU64 | alu::SUB, 1, 0, 0, 1),
        insn(insn::CLASS_JMP | jmp::JNE, 1, 0, -5, 0),
    ];
    assert_eq!(result(program), 15);
    // Over a long one, by the jump whose distance is in the immediate.
    let [a, b] = imm64(0, 7);
    let gotol = insn(insn::CLASS_JMP32 | jmp::JA, 0, 0, 0, 3);
    assert_eq!(result([mov_imm(0, 1), gotol, a, b, EXIT]), 1);
    let goto = insn(insn::CLASS_JMP | jmp::JA, 0, 0, 3, 0);
    assert_eq!(result([mov_imm(0, 1), goto, a, b, EXIT]), 1);
}

#[test]
fn memory_of_every_width() {
    let stx = |code, off| insn(code, 10, 1, off, 0);
    let ldx = |code, off| insn(code, 0, 10, off, 0);
    let [a, b] = imm64(1, 0x8182_8384_8586_8788);
    for (store, load, expected) in [
        (0x7b, 0x79, 0x8182_8384_8586_8788),
        (0x63, 0x61, 0x8586_8788),
        (0x6b, 0x69, 0x8788),
        (0x73, 0x71, 0x88),
        (0x63, 0x81, 0xffff_ffff_8586_8788),
        (0x6b, 0x89, 0xffff_ffff_ffff_8788),
        (0x73, 0x91, 0xffff_ffff_ffff_ff88),
    ] {
        for off in [-8, -13, -512] {
            let program = [a, b, stx(store, off), ldx(load, off)];
            assert_eq!(result(program), expected, "{store:#x} {load:#x} {off}");
        }
    }
    // Immediates: extended to 64 bits, cut to less. Neighbours stay.
    for (store, expected) in [
        (0x7a, 0xffff_ffff_ffff_fffe),
        (0x62, 0x1111_1111_ffff_fffe),
        (0x6a, 0x1111_1111_1111_fffe),
        (0x72, 0x1111_1111_1111_11fe),
    ] {
        let [a, b] = imm64(1, 0x1111_1111_1111_1111);
        let program = [
            a,
            b,
            stx(0x7b, -8),
            insn(store, 10, 0, -8, -2),
            ldx(0x79, -8),
        ];
        assert_eq!(result(program), expected, "{store:#x}");
    }
}

#[test]
fn atomics_with_and_without_fetch() {
    const OLD: u64 = 0x1_0000_00f0;
    const OPERAND: u64 = 0xaaaa_0000_0000_003c;
    // What memory holds after, then what the operand's register holds after.
    let fetch = atomic::FETCH;
    for (wide, imm, memory, register) in [
        (true, atomic::ADD, OLD.wrapping_add(OPERAND), OPERAND),
        (true, atomic::ADD | fetch, OLD.wrapping_add(OPERAND), OLD),
        (true, atomic::OR, OLD | OPERAND, OPERAND),
        (true, atomic::OR | fetch, OLD | OPERAND, OLD),
        (true, atomic::AND, OLD & OPERAND, OPERAND),
        (true, atomic::AND | fetch, OLD & OPERAND, OLD),
        (true, atomic::XOR, OLD ^ OPERAND, OPERAND),
        (true, atomic::XOR | fetch, OLD ^ OPERAND, OLD),
        (true, atomic::XCHG, OPERAND, OLD),
        (false, atomic::ADD, 0x1_0000_012c, OPERAND),
        (false, atomic::ADD | fetch, 0x1_0000_012c, 0xf0),
        (false, atomic::OR, 0x1_0000_00fc, OPERAND),
        (false, atomic::OR | fetch, 0x1_0000_00fc, 0xf0),
        (false, atomic::AND, 0x1_0000_0030, OPERAND),
        (false, atomic::AND | fetch, 0x1_0000_0030, 0xf0),
        (false, atomic::XOR, 0x1_0000_00cc, OPERAND),
        (false, atomic::XOR | fetch, 0x1_0000_00cc, 0xf0),
        (false, atomic::XCHG, 0x1_0000_003c, 0xf0),
    ] {
        let code = if wide { 0xdb } else { 0xc3 };
        // At -12 the 64-bit ones are not aligned, at -13 none is.
        for off in [-8, -12, -13] {
            let [a, b] = imm64(1, OLD);
            let [c, d] = imm64(2, OPERAND);
            let head = [
                a,
                b,
                insn(0x7b, 10, 1, off, 0),
                c,
                d,
                insn(code, 10, 2, off, imm),
            ];
            let load = insn(0x79, 0, 10, off, 0);
            assert_eq!(
                result(head.into_iter().chain([load])),
                memory,
                "{imm:#x} {wide} {off}"
            );
            let keep = mov(0, 2);
            assert_eq!(
                result(head.into_iter().chain([keep])),
                register,
                "{imm:#x} {wide} {off}"
            );
        }
    }
}

#[test]
fn compare_and_exchange() {
    const OLD: u64 = 0x7_0000_0005;
    // Width, r0 before, then memory and r0 after.
    for (code, expected, memory, r0) in [
        (0xdb, OLD, 0x9_0000_0009, OLD),
        (0xdb, 5, OLD, OLD),
        // The upper half of r0 is not compared, and is zero after.
        (0xc3, 0x3_0000_0005, 0x7_0000_0009, 5),
        (0xc3, 6, OLD, 5),
    ] {
        for off in [-8, -13] {
            let [a, b] = imm64(1, OLD);
            let [c, d] = imm64(0, expected);
            let [e, f] = imm64(2, 0x9_0000_0009);
            let exchange = insn(code, 10, 2, off, atomic::CMPXCHG);
            let head = [a, b, insn(0x7b, 10, 1, off, 0), c, d, e, f, exchange];
            assert_eq!(result(head), r0, "{code:#x} {expected:#x}");
            let load = insn(0x79, 0, 10, off, 0);
            assert_eq!(
                result(head.into_iter().chain([load])),
                memory,
                "{code:#x} {expected:#x}"
            );
        }
    }
}

#[test]
fn functions_have_their_own_frames_and_keep_registers() {
    // f(n): writes n to its own frame, calls itself with n - 1 down to 0, then reads its frame back
    // and adds. r6 is its own in each call.
    let program = vec![
        mov_imm(1, 7),
        mov_imm(6, 1000),
        insn(0x85, 0, 1, 0, 2),
        insn(ALU64 | alu::ADD | X, 0, 6, 0, 0),
        EXIT,
        // f:
        insn(0x7b, 10, 1, -8, 0),
        mov(6, 1),
        mov_imm(0, 0),
        insn(insn::CLASS_JMP | jmp::JEQ, 1, 0, 5, 1),
        insn(ALU64 | alu::SUB, 1, 0, 0, 1),
        insn(0x85, 0, 1, 0, -6),
        insn(0x79, 1, 10, -8, 0),
        insn(ALU64 | alu::ADD | X, 0, 1, 0, 0),
        insn(ALU64 | alu::ADD | X, 0, 6, 0, 0),
        EXIT,
    ];
    let run = |program| {
        let mut bytes = [0; 600];
        let mut buff = XdpBuff::new(&mut bytes, 256, 64).unwrap();
        executable(program, &[], &no_maps()).run(&mut Cpu::new(0), &mut buff)
    };
    // The main function and seven calls: frames are used up to the last.
    assert_eq!(run(program.clone()), 1000 + 2 * (7 + 6 + 5 + 4 + 3 + 2));
    // One more is what the verifier would refuse; the engine still does not leave its stack.
    let mut deeper = program;
    deeper[0] = mov_imm(1, 9);
    assert_eq!(run(deeper), 0);
}

#[test]
fn the_context_is_read_as_pointers() {
    let note = |at, field| (at, Note::Context(field));
    let program = vec![
        insn(0x61, 2, 1, 0, 0),
        insn(0x61, 3, 1, 4, 0),
        insn(0x61, 4, 1, 8, 0),
        insn(0x61, 5, 1, 12, 0),
        insn(0x61, 6, 1, 16, 0),
        insn(0x61, 7, 1, 20, 0),
        // r0 = byte 1 of the packet << 24 | (end - data) << 16 | ifindexes and queue
        insn(0x71, 0, 2, 1, 0),
        insn(ALU64 | alu::LSH, 0, 0, 0, 24),
        insn(ALU64 | alu::SUB | X, 3, 2, 0, 0),
        insn(ALU64 | alu::LSH, 3, 0, 0, 16),
        insn(ALU64 | alu::OR | X, 0, 3, 0, 0),
        insn(ALU64 | alu::SUB | X, 2, 4, 0, 0),
        insn(ALU64 | alu::OR | X, 0, 2, 0, 0),
        insn(ALU64 | alu::OR | X, 0, 5, 0, 0),
        insn(ALU64 | alu::OR | X, 0, 6, 0, 0),
        insn(ALU64 | alu::OR | X, 0, 7, 0, 0),
        EXIT,
    ];
    let notes = [
        note(0, ContextField::Data),
        note(1, ContextField::DataEnd),
        note(2, ContextField::DataMeta),
        note(3, ContextField::IngressIfindex),
        note(4, ContextField::RxQueueIndex),
        note(5, ContextField::EgressIfindex),
    ];
    let mut bytes = [0; 600];
    bytes[257] = 0x42;
    let mut buff = XdpBuff::new(&mut bytes, 256, 64).unwrap();
    buff.set_rx(0x1, 0x20);
    buff.set_egress(0x400);
    let verdict = executable(program, &notes, &no_maps()).run(&mut Cpu::new(0), &mut buff);
    assert_eq!(verdict, 0x42 << 24 | 64 << 16 | 0x421);
}

fn spec(name: &str, kind: MapKind) -> MapSpec {
    MapSpec {
        name: name.to_owned(),
        kind,
        key_size: 4,
        value_size: 8,
        max_entries: 4,
        flags: 0,
        initial: None,
        frozen: false,
        variables: Vec::new(),
        ..MapSpec::default()
    }
}

/// `*(u32 *)(r10 - 4) = key; r1 = map; r2 = r10 - 4`
fn map_and_key(map: i32, key: i32) -> [Insn; 5] {
    [
        insn(0x62, 10, 0, -4, key),
        insn(0x18, 1, insn::imm64::MAP, 0, map),
        insn(0, 0, 0, 0, 0),
        mov(2, 10),
        insn(ALU64 | alu::ADD, 2, 0, 0, -4),
    ]
}

#[test]
fn maps_from_a_program() {
    let kinds = [
        MapKind::Array,
        MapKind::Hash,
        MapKind::PercpuArray,
        MapKind::PercpuHash,
    ];
    for kind in kinds {
        let maps = Maps::create(&[spec("other", MapKind::Hash), spec("m", kind)], 3).unwrap();
        let run = |slot, insns: Vec<Insn>| {
            let mut bytes = [0; 600];
            let mut buff = XdpBuff::new(&mut bytes, 256, 64).unwrap();
            executable(insns, &[], &maps).run(&mut Cpu::new(slot), &mut buff) as i32
        };
        // Update with what the slot says, through the value's address add one.
        let update = |key, flags| {
            let mut insns = map_and_key(1, key).to_vec();
            insns.extend([
                insn(0x7a, 10, 0, -16, 40),
                mov(3, 10),
                insn(ALU64 | alu::ADD, 3, 0, 0, -16),
                mov_imm(4, flags),
                call(2),
                EXIT,
            ]);
            insns
        };
        let add_one = |key| {
            let mut insns = map_and_key(1, key).to_vec();
            insns.extend([
                call(1),
                insn(insn::CLASS_JMP | jmp::JNE, 0, 0, 2, 0),
                mov_imm(0, -1),
                EXIT,
                mov_imm(1, 1),
                insn(0xdb, 0, 1, 0, atomic::ADD),
                insn(0x79, 0, 0, 0, 0),
                EXIT,
            ]);
            insns
        };
        let is_array = matches!(kind, MapKind::Array | MapKind::PercpuArray);
        assert_eq!(run(0, add_one(9)), -1, "{kind:?}: no such key");
        assert_eq!(
            run(0, update(2, 1)),
            if is_array { -17 } else { 0 },
            "{kind:?}"
        );
        assert_eq!(run(0, update(2, 0)), 0, "{kind:?}");
        assert_eq!(run(0, update(2, 3)), -22, "{kind:?}");
        assert_eq!(run(0, add_one(2)), 41, "{kind:?}");
        let value = |slot: usize| {
            let m = maps.get("m").unwrap();
            let bytes = match kind.is_percpu() {
                true => m.lookup_percpu(&[2, 0, 0, 0]).unwrap().unwrap()[slot].clone(),
                false => m.lookup(&[2, 0, 0, 0]).unwrap().unwrap(),
            };
            u64::from_le_bytes(bytes.try_into().unwrap())
        };
        let of_slot_2 = if kind.is_percpu() { 1 } else { 42 };
        assert_eq!(run(2, add_one(2)), of_slot_2, "{kind:?}");
        assert_eq!(value(2), of_slot_2 as u64);
        assert_eq!(value(0), if kind.is_percpu() { 41 } else { 42 });
        let mut delete = map_and_key(1, 2).to_vec();
        delete.extend([call(3), EXIT]);
        assert_eq!(
            run(0, delete.clone()),
            if is_array { -22 } else { 0 },
            "{kind:?}"
        );
        assert_eq!(run(0, delete), if is_array { -22 } else { -2 }, "{kind:?}");
        assert!(maps.get("other").unwrap().is_empty());
    }
}

#[test]
fn a_worker_without_a_slot_runs_nothing() {
    let maps = Maps::create(&[spec("m", MapKind::PercpuArray)], 2).unwrap();
    let pass = executable(vec![mov_imm(0, 2), EXIT], &[], &maps);
    let mut bytes = [0; 600];
    let mut buff = XdpBuff::new(&mut bytes, 256, 64).unwrap();
    assert_eq!(pass.run(&mut Cpu::new(1), &mut buff), 2);
    assert_eq!(pass.run(&mut Cpu::new(2), &mut buff), 0);
}

#[test]
fn helpers_of_the_worker() {
    let run = |cpu: &mut Cpu, id| {
        let mut bytes = [0; 600];
        let mut buff = XdpBuff::new(&mut bytes, 256, 64).unwrap();
        let maps = Maps::create(&[], 8).unwrap();
        executable(vec![call(id), EXIT], &[], &maps).run(cpu, &mut buff)
    };
    let mut cpu = Cpu::new(5);
    assert_eq!(run(&mut cpu, 8), 5);
    cpu.set_clock(Clock::Fixed(1234));
    assert_eq!(run(&mut cpu, 5), 1234);
    cpu.set_clock(Clock::Monotonic);
    let times = (run(&mut cpu, 5), run(&mut cpu, 5));
    assert!(times.1.wrapping_sub(times.0) < 1_000_000_000, "{times:?}");
    cpu.set_seed(1);
    let drawn: Vec<_> = (0..4).map(|_| run(&mut cpu, 7)).collect();
    cpu.set_seed(1);
    let again: Vec<_> = (0..4).map(|_| run(&mut cpu, 7)).collect();
    assert_eq!(drawn, again);
    assert!(drawn.windows(2).any(|w| w[0] != w[1]), "{drawn:?}");
}

#[test]
fn what_a_program_prints_is_kept() {
    // "n=%d\n\0" on the stack.
    let [a, b] = imm64(1, u64::from_le_bytes(*b"n=%d\n\0\0\0"));
    let program = |size| {
        vec![
            a,
            b,
            insn(0x7b, 10, 1, -8, 0),
            mov(1, 10),
            insn(ALU64 | alu::ADD, 1, 0, 0, -8),
            mov_imm(2, size),
            mov_imm(3, -42),
            mov_imm(4, 0),
            mov_imm(5, 0),
            call(6),
            EXIT,
        ]
    };
    let mut cpu = Cpu::new(0);
    let mut run = |size| {
        let mut bytes = [0; 600];
        let mut buff = XdpBuff::new(&mut bytes, 256, 64).unwrap();
        executable(program(size), &[], &no_maps()).run(&mut cpu, &mut buff) as i32
    };
    assert_eq!(run(6), 6);
    // Without the end of the string.
    assert_eq!(run(5), -22);
    let mut lines = Vec::new();
    cpu.trace.drain(|l| lines.push(l.to_owned()));
    assert_eq!(lines, ["n=-42"]);
}

#[test]
fn ends_of_the_packet_move() {
    let program = |helper, delta| {
        vec![
            mov_imm(2, delta),
            // Only the low half is the distance.
            insn(ALU64 | alu::LSH, 2, 0, 0, 32),
            insn(ALU64 | alu::RSH, 2, 0, 0, 32),
            call(helper),
            EXIT,
        ]
    };
    let mut bytes = [0xff; 2048];
    let mut buff = XdpBuff::new(&mut bytes, 256, 64).unwrap();
    let mut run = |helper, delta| {
        let code = executable(program(helper, delta), &[], &no_maps())
            .run(&mut Cpu::new(0), &mut buff) as i32;
        (code, buff.data(), buff.len())
    };
    assert_eq!(run(44, -4), (0, 252, 68));
    assert_eq!(run(44, 8), (0, 260, 60));
    assert_eq!(run(44, -300), (-22, 260, 60));
    assert_eq!(run(65, -40), (0, 260, 20));
    assert_eq!(run(65, 4), (0, 260, 24));
    assert_eq!(run(65, 2000), (-22, 260, 24));
    assert_eq!(bytes[280..284], [0; 4]);
}

#[test]
fn dead_code_may_be_anything() {
    let jump = insn(insn::CLASS_JMP | jmp::JA, 0, 0, 2, 0);
    let garbage = insn(0x18, 15, 15, -1, -1);
    let program = vec![mov_imm(0, 2), jump, garbage, insn(0xff, 9, 9, 9, 9), EXIT];
    let dead = [(2, Note::Dead), (3, Note::Dead)];
    let mut bytes = [0; 600];
    let mut buff = XdpBuff::new(&mut bytes, 256, 64).unwrap();
    let executable = executable(program, &dead, &no_maps());
    assert_eq!(executable.run(&mut Cpu::new(0), &mut buff), 2);
}

#[test]
fn what_the_engine_lacks_is_an_error() {
    let jump_out = insn(insn::CLASS_JMP | jmp::JA, 0, 0, 100, 0);
    let into_the_middle = insn(insn::CLASS_JMP | jmp::JA, 0, 0, 1, 0);
    let [a, b] = imm64(1, 1);
    for (program, at) in [
        (vec![call(9999), EXIT], 0),
        (vec![insn(0x8d, 1, 0, 0, 0), EXIT], 0),
        (vec![insn(0x85, 0, 2, 0, 0), EXIT], 0),
        (vec![mov_imm(0, 0), insn(0xff, 0, 0, 0, 0), EXIT], 1),
        (vec![mov_imm(11, 0), EXIT], 0),
        (vec![mov_imm(10, 0), EXIT], 0),
        (vec![mov(0, 12), EXIT], 0),
        (vec![jump_out, EXIT], 0),
        (vec![into_the_middle, a, b, EXIT], 0),
        (vec![EXIT, insn(0x18, 0, 0, 0, 0)], 1),
        (vec![insn(0x18, 1, 1, 0, 0), insn(0, 0, 0, 0, 0), EXIT], 0),
    ] {
        let notes = vec![Note::None; program.len()];
        let decoded = decode::decode(&program, &notes, &no_maps());
        let Err(ExecutableError::Instruction { insn, .. }) = decoded else {
            panic!("{program:?} was decoded");
        };
        assert_eq!(insn, at, "{program:?}");
    }
}

#[test]
fn other_maps_than_proved_are_refused() {
    let mut program = map_and_key(0, 0).to_vec();
    program.extend([call(1), EXIT]);
    let notes = vec![Note::None; program.len()];
    let program = Program {
        insns: program,
        ..Program::default()
    };
    let proved = spec("m", MapKind::Array);
    let with = |change: fn(&mut MapSpec)| {
        let mut other = proved.clone();
        change(&mut other);
        let maps = Maps::create(&[other], 1).unwrap();
        let verified = Verified::new(program.clone(), notes.clone(), vec![proved.clone()]);
        Executable::new(&verified, &maps).map(|e| e.name().to_owned())
    };
    assert!(with(|_| {}).is_ok());
    assert!(with(|m| m.initial = Some(vec![1])).is_ok());
    for change in [
        (|m| m.value_size = 4) as fn(&mut MapSpec),
        |m| m.max_entries = 5,
        |m| m.kind = MapKind::Hash,
        |m| m.frozen = true,
    ] {
        let e = with(change).unwrap_err();
        assert!(matches!(e, ExecutableError::OtherMap { .. }), "{e}");
    }
    let verified = Verified::new(program, notes, vec![proved]);
    let e = Executable::new(&verified, &no_maps()).unwrap_err();
    assert!(
        matches!(e, ExecutableError::NoMap { index: 0, maps: 0 }),
        "{e}"
    );
}
