//! Every instruction with every register in each of its places, on edge values and random ones.

use super::*;
use crate::insn::{atomic, jmp};

/// What to run the instruction on: `registers` are r0 to r9 before.
struct Case {
    registers: [u64; 10],
}

/// Byte of the stack, from r10 down, where the registers are before, and where they are left.
const BEFORE: i16 = -80;
const AFTER: i16 = -160;
/// Written where a jump was not taken.
const MARK: i16 = -168;
/// A place for memory accesses, with room around.
const PLACE: i64 = -256;

const EDGES: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0x8000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX - 1,
    u64::MAX,
];
const IMMEDIATES: [i32; 14] = [
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    33,
    63,
    127,
    128,
    -1,
    i32::MIN,
    i32::MAX,
];

/// Runs one instruction, between loads of all registers and stores of all, on `cases` in the
/// interpreter and in all variants of the compiler.
fn check(middle: &[Insn], cases: &[Case]) {
    let mut insns = Vec::new();
    for r in 0..10 {
        insns.push(insn(0x79, r, 10, BEFORE + 8 * i16::from(r), 0));
    }
    insns.extend(middle);
    for r in 0..10 {
        insns.push(insn(0x7b, 10, r, AFTER + 8 * i16::from(r), 0));
    }
    insns.push(EXIT);
    let maps = no_maps();
    let verified = trusted(insns, &[], &maps);
    let interpreter = interpreted(&verified, &maps);
    let jits: Vec<_> = variants()
        .map(|(options, features)| {
            let jit = Jit::with_features(&verified, &maps, &options, features).unwrap();
            (options, features, jit)
        })
        .collect();
    let mut cpu = Cpu::new(0);
    CPU.with_borrow_mut(|slot| std::mem::swap(slot, &mut cpu));
    let mut bytes = [0; 64];
    for case in cases {
        let mut state = |run: &mut dyn FnMut(&mut Cpu, &mut XdpBuff<'_>) -> u32| {
            fill_stack(&cpu, &[0x1111_2222_3333_4444, 0x5555_6666_7777_8888]);
            for (r, &value) in case.registers.iter().enumerate() {
                let at = cpu.stack_top().wrapping_add_signed(i64::from(BEFORE)) + 8 * r as u64;
                // SAFETY: inside the stack.
                unsafe { memory::store64(pointer(at), value) };
            }
            let mut buff = XdpBuff::new(&mut bytes, 0, 64).unwrap();
            let returned = run(&mut cpu, &mut buff);
            // SAFETY: the frame of the only function.
            let frame = unsafe { memory::to_vec(pointer(cpu.stack_top() - FRAME as u64), FRAME) };
            (returned, frame)
        };
        let expected = state(&mut |cpu, buff| interpreter.run(cpu, buff));
        for (options, features, jit) in &jits {
            let found = state(&mut |cpu, buff| run_jit(jit, &maps, cpu, buff));
            assert!(
                found == expected,
                "{}on {:x?} with {options:?}, {features:?}:\nfound {found:x?}\nnot {expected:x?}",
                listing(middle),
                case.registers
            );
        }
    }
    CPU.with_borrow_mut(|slot| std::mem::swap(slot, &mut cpu));
}

thread_local! {
    /// One worker for all programs of a thread, so that its stack stays where it is.
    static CPU: std::cell::RefCell<Cpu> = std::cell::RefCell::new(Cpu::new(0));
}

fn stack_top() -> u64 {
    CPU.with_borrow(|cpu| cpu.stack_top())
}

/// Registers with all pairs of edge values in `dst` and `src`, and some random ones.
fn pairs(dst: u8, src: u8, rng: &mut fastrand::Rng) -> Vec<Case> {
    let edges = EDGES.into_iter().flat_map(|a| EDGES.map(|b| (a, b)));
    let random: Vec<_> = (0..8).map(|_| (rng.u64(..), rng.u64(..))).collect();
    let mut cases = Vec::new();
    for (a, b) in edges.chain(random) {
        let mut registers = std::array::from_fn(|_| rng.u64(..));
        registers[usize::from(dst)] = a;
        registers[usize::from(src)] = b;
        cases.push(Case { registers });
    }
    cases
}

/// As `pairs`, of one register.
fn singles(dst: u8, rng: &mut fastrand::Rng) -> Vec<Case> {
    pairs(dst, dst, rng).into_iter().step_by(5).collect()
}

/// Operation and offset of all arithmetic with a register.
const ARITHMETIC: [(u8, i16); 15] = {
    use crate::insn::alu::*;
    [
        (ADD, 0),
        (SUB, 0),
        (MUL, 0),
        (DIV, 0),
        (DIV, 1),
        (MOD, 0),
        (MOD, 1),
        (OR, 0),
        (AND, 0),
        (XOR, 0),
        (LSH, 0),
        (RSH, 0),
        (ARSH, 0),
        (MOV, 0),
        (NEG, 0),
    ]
};

#[test]
fn arithmetic_of_two_registers() {
    let mut rng = fastrand::Rng::with_seed(1);
    for dst in 0..10 {
        for src in 0..10 {
            let cases = pairs(dst, src, &mut rng);
            for class in [ALU, ALU64] {
                for (op, off) in ARITHMETIC.into_iter().filter(|a| a.0 != insn::alu::NEG) {
                    check(&[insn(class | op | X, dst, src, off, 0)], &cases);
                }
                for bits in [8, 16, 32] {
                    if bits < 32 || class == ALU64 {
                        let op = insn::alu::MOV | X;
                        check(&[insn(class | op, dst, src, bits, 0)], &cases);
                    }
                }
            }
        }
    }
}

#[test]
fn arithmetic_with_an_immediate() {
    let mut rng = fastrand::Rng::with_seed(2);
    for dst in 0..10 {
        let cases = singles(dst, &mut rng);
        for class in [ALU, ALU64] {
            for (op, off) in ARITHMETIC {
                for imm in IMMEDIATES.into_iter().chain([rng.i32(..)]) {
                    check(&[insn(class | op, dst, 0, off, imm)], &cases);
                }
            }
            for width in [16, 32, 64] {
                for order in [0, X] {
                    if class == ALU || order == 0 {
                        check(
                            &[insn(class | insn::alu::END | order, dst, 0, 0, width)],
                            &cases,
                        );
                    }
                }
            }
        }
        for value in EDGES {
            let low = insn(insn::LD_IMM64, dst, 0, 0, value as i32);
            check(&[low, insn(0, 0, 0, 0, (value >> 32) as i32)], &cases[..1]);
        }
    }
}

/// Pairs that become one instruction of the machine, and pairs that look like them.
#[test]
fn pairs_of_instructions() {
    use crate::insn::alu::{ADD, ARSH, LSH, MOV, RSH};
    let mut rng = fastrand::Rng::with_seed(3);
    for dst in 0..10 {
        for src in 0..10 {
            let cases: Vec<_> = pairs(dst, src, &mut rng).into_iter().step_by(9).collect();
            let mov = insn(ALU64 | MOV | X, dst, src, 0, 0);
            for imm in IMMEDIATES {
                check(&[mov, insn(ALU64 | ADD, dst, 0, 0, imm)], &cases);
            }
            check(
                &[
                    insn(ALU64 | MOV | X, dst, src, 8, 0),
                    insn(ALU64 | ADD, dst, 0, 0, 1),
                ],
                &cases,
            );
            check(&[mov, insn(ALU64 | ADD, src, 0, 0, 1)], &cases);
            // The second is reached without the first as well.
            let over = insn(insn::CLASS_JMP | jmp::JSET | X, src, dst, 1, 0);
            check(&[over, mov, insn(ALU64 | ADD, dst, 0, 0, 5)], &cases);
            for third in 0..10 {
                check(&[mov, insn(ALU64 | ADD | X, dst, third, 0, 0)], &cases[..4]);
            }
        }
        let cases = singles(dst, &mut rng);
        for (first, second) in [(32, 32), (32, 31), (31, 32), (16, 16), (0, 32)] {
            for op in [RSH, ARSH] {
                let shift = |op, by| insn(ALU64 | op, dst, 0, 0, by);
                check(&[shift(LSH, first), shift(op, second)], &cases);
            }
        }
    }
}

#[test]
fn jumps_on_every_condition() {
    const CONDITIONS: [u8; 11] = [
        jmp::JEQ,
        jmp::JNE,
        jmp::JGT,
        jmp::JGE,
        jmp::JLT,
        jmp::JLE,
        jmp::JSET,
        jmp::JSGT,
        jmp::JSGE,
        jmp::JSLT,
        jmp::JSLE,
    ];
    let mark = insn(0x7a, 10, 0, MARK, 1);
    let mut rng = fastrand::Rng::with_seed(4);
    for dst in 0..10 {
        for class in [insn::CLASS_JMP, insn::CLASS_JMP32] {
            for op in CONDITIONS {
                for src in 0..10 {
                    let cases = pairs(dst, src, &mut rng);
                    check(&[insn(class | op | X, dst, src, 1, 0), mark], &cases);
                }
                let cases = singles(dst, &mut rng);
                for imm in IMMEDIATES {
                    check(&[insn(class | op, dst, 0, 1, imm), mark], &cases);
                }
            }
        }
    }
}

#[test]
fn loads_and_stores() {
    let mut rng = fastrand::Rng::with_seed(5);
    for base in 0..10 {
        for other in 0..10 {
            for off in [0, 5, -77, 127, 128, -128, -129] {
                let mut registers = std::array::from_fn(|_| rng.u64(..));
                registers[usize::from(base)] = stack_top().wrapping_add_signed(PLACE);
                let cases = [Case { registers }];
                for size in [insn::SIZE_B, insn::SIZE_H, insn::SIZE_W, insn::SIZE_DW] {
                    let code = |class, mode| class | mode | size;
                    let load = code(insn::CLASS_LDX, insn::MODE_MEM);
                    check(&[insn(load, other, base, off, 0)], &cases);
                    let store = code(insn::CLASS_STX, insn::MODE_MEM);
                    check(&[insn(store, base, other, off, 0)], &cases);
                    if size != insn::SIZE_DW {
                        let load = code(insn::CLASS_LDX, insn::MODE_MEMSX);
                        // Of a value with and of one without a sign.
                        for imm in [0x7f, 0x80] {
                            let set = insn(0x72, 10, 0, MARK, imm);
                            let low = insn(load, other, 10, MARK, 0);
                            check(&[insn(load, other, base, off, 0), set, low], &cases);
                        }
                    }
                    let store = code(insn::CLASS_ST, insn::MODE_MEM);
                    check(&[insn(store, base, 0, off, rng.i32(..))], &cases);
                }
            }
        }
    }
}

#[test]
fn atomic_operations() {
    const PLAIN: [i32; 4] = [atomic::ADD, atomic::OR, atomic::AND, atomic::XOR];
    let mut rng = fastrand::Rng::with_seed(6);
    for base in 0..10 {
        for other in 0..10 {
            for off in [0, 8, 4, 3] {
                let mut cases = Vec::new();
                let at = stack_top().wrapping_add_signed(PLACE);
                // The second and third have in r0 what memory holds, in all or in its low half.
                for r0 in [rng.u64(..), 0x1111_2222_3333_4444, 0x9999_9999_3333_4444] {
                    let mut registers: [u64; 10] = std::array::from_fn(|_| rng.u64(..));
                    registers[0] = r0;
                    registers[usize::from(base)] = at;
                    cases.push(Case { registers });
                }
                for code in [0xdb, 0xc3] {
                    let fetch = PLAIN.map(|op| op | atomic::FETCH);
                    let all = PLAIN.into_iter().chain(fetch);
                    for imm in all.chain([atomic::XCHG, atomic::CMPXCHG]) {
                        check(&[insn(code, base, other, off, imm)], &cases);
                    }
                }
            }
        }
    }
}
