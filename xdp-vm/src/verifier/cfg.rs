//! What can be said of a program without following it: each instruction is one that RFC 9669 has,
//! its reserved fields are zero, its registers exist, its jumps stay within their function and do
//! not hit the second half of a 64-bit immediate load, and the maps it names are there.

use super::cause::Cause;
use super::error::VerifyError;
use crate::insn::{self, alu, atomic, call, imm64, jmp};
use crate::{Insn, MapKind, MapSpec, Program};

/// Most slots of a program (kernel: `BPF_COMPLEXITY_LIMIT_INSNS`).
pub(super) const MOST_SLOTS: usize = 1_000_000;

/// The shape of a program that passed.
pub(super) struct Cfg {
    /// First slot of each function, ascending; the first is 0.
    pub(super) starts: Vec<usize>,
    /// Slots where paths may meet, and states are worth storing and comparing.
    pub(super) joins: Vec<bool>,
}

impl Cfg {
    /// The function that a slot is in, by its place in `starts`.
    pub(super) fn function_of(&self, slot: usize) -> usize {
        self.starts.partition_point(|&s| s <= slot) - 1
    }
}

/// Checks the whole program, also by the rules that are the kernel's alone.
pub(super) fn check(program: &Program, maps: &[MapSpec]) -> Result<Cfg, VerifyError> {
    let cfg = check_shape(program, maps)?;
    for (at, i) in program.insns.iter().enumerate() {
        // The second half of an immediate load has the code of nothing.
        check_kernel_rules(i).map_err(|cause| VerifyError::structural(program, at, cause))?;
    }
    Ok(cfg)
}

/// Checks the whole program by RFC 9669.
pub(super) fn check_shape(program: &Program, maps: &[MapSpec]) -> Result<Cfg, VerifyError> {
    let refuse = |at: usize, cause: Cause| VerifyError::structural(program, at, cause);
    let slots = program.insns.len();
    if slots == 0 {
        return Err(refuse(0, Cause::Empty));
    }
    if slots > MOST_SLOTS {
        let most = MOST_SLOTS;
        return Err(refuse(0, Cause::TooLong { slots, most }));
    }
    let second = second_halves(program).map_err(|(at, cause)| refuse(at, cause))?;
    let starts = function_starts(program, &second).map_err(|(at, cause)| refuse(at, cause))?;
    let mut cfg = Cfg {
        starts,
        joins: vec![false; slots],
    };
    for function in 0..cfg.starts.len() {
        let first = cfg.starts[function];
        let end = cfg.starts.get(function + 1).copied().unwrap_or(slots);
        let mut last = first;
        for at in (first..end).filter(|&at| !second[at]) {
            let i = program.insns[at];
            last = at;
            check_insn(&i).map_err(|cause| refuse(at, cause))?;
            if i.is_ld_imm64() {
                check_imm64(&i, &program.insns[at + 1], maps).map_err(|c| refuse(at, c))?;
            }
            if let Some(offset) = jump_offset(&i) {
                let target = at as i64 + 1 + offset;
                if target < first as i64 || target >= end as i64 {
                    return Err(refuse(at, Cause::JumpOutOfFunction { target }));
                }
                if second[target as usize] {
                    return Err(refuse(at, Cause::TargetInsideImmediate { target }));
                }
                cfg.joins[target as usize] = true;
                // Before a fork is a good place too: it saves both ways.
                cfg.joins[at] |= !is_goto(&i);
            }
            if is_call(&i) && i.src == call::LOCAL && at + 1 < slots {
                cfg.joins[at + 1] = true;
            }
        }
        if !ends_function(&program.insns[last]) {
            return Err(refuse(last, Cause::RunsOffEnd));
        }
    }
    Ok(cfg)
}

/// Offset of a jump's target from the next slot; `None` for what is not a jump.
pub(super) fn jump_offset(i: &Insn) -> Option<i64> {
    match (i.class(), i.op()) {
        (insn::CLASS_JMP, jmp::CALL | jmp::EXIT) => None,
        (insn::CLASS_JMP32, jmp::JA) => Some(i64::from(i.imm)),
        (insn::CLASS_JMP | insn::CLASS_JMP32, _) => Some(i64::from(i.off)),
        _ => None,
    }
}

/// True for calls of any kind.
pub(super) fn is_call(i: &Insn) -> bool {
    i.class() == insn::CLASS_JMP && i.op() == jmp::CALL
}

/// True for the return from a function.
pub(super) fn is_exit(i: &Insn) -> bool {
    i.class() == insn::CLASS_JMP && i.op() == jmp::EXIT
}

/// True for jumps without a condition.
pub(super) fn is_goto(i: &Insn) -> bool {
    matches!(i.class(), insn::CLASS_JMP | insn::CLASS_JMP32) && i.op() == jmp::JA
}

fn ends_function(i: &Insn) -> bool {
    is_exit(i) || is_goto(i)
}

type At<T> = Result<T, (usize, Cause)>;

fn second_halves(program: &Program) -> At<Vec<bool>> {
    let slots = program.insns.len();
    let mut second = vec![false; slots];
    let mut at = 0;
    while at < slots {
        if program.insns[at].is_ld_imm64() {
            if at + 1 >= slots {
                return Err((at, Cause::TruncatedImmediate));
            }
            second[at + 1] = true;
            at += 1;
        }
        at += 1;
    }
    Ok(second)
}

/// The functions that the table names, and those that are called.
fn function_starts(program: &Program, second: &[bool]) -> At<Vec<usize>> {
    let slots = program.insns.len();
    let mut starts = vec![0];
    for (n, f) in program.functions.iter().enumerate() {
        let ascending = n == 0 || program.functions[n - 1].start < f.start;
        if (n == 0 && f.start != 0) || !ascending || f.start >= slots || second[f.start] {
            return Err((0, Cause::FunctionTable));
        }
        starts.push(f.start);
    }
    for (at, i) in program.insns.iter().enumerate() {
        if !second[at] && is_call(i) && !i.is_reg() && i.src == call::LOCAL {
            let target = at as i64 + 1 + i64::from(i.imm);
            if target < 0 || target >= slots as i64 {
                return Err((at, Cause::CallTarget { target }));
            }
            if second[target as usize] {
                return Err((at, Cause::TargetInsideImmediate { target }));
            }
            starts.push(target as usize);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    Ok(starts)
}

/// True for an instruction that there is, with its reserved fields zero, taken by itself.
pub(crate) fn well_formed(i: &Insn) -> bool {
    check_insn(i).is_ok()
}

/// What RFC 9669 has and the kernel does not let programs do.
fn check_kernel_rules(i: &Insn) -> Result<(), Cause> {
    match (i.class(), i.op()) {
        (insn::CLASS_JMP, jmp::CALL) if i.is_reg() => Err(Cause::IndirectCall),
        (insn::CLASS_ALU | insn::CLASS_ALU64, alu::LSH | alu::RSH | alu::ARSH) if !i.is_reg() => {
            let width = if i.class() == insn::CLASS_ALU64 {
                64
            } else {
                32
            };
            match (0..width).contains(&i.imm) {
                true => Ok(()),
                false => reserved(&[imm(i)]),
            }
        }
        _ => Ok(()),
    }
}

fn check_insn(i: &Insn) -> Result<(), Cause> {
    for reg in [i.dst, i.src] {
        if reg > 10 {
            return Err(Cause::NoSuchRegister { reg });
        }
    }
    match i.class() {
        insn::CLASS_LD => check_ld(i),
        insn::CLASS_LDX => check_ldx(i),
        insn::CLASS_ST | insn::CLASS_STX => check_store(i),
        insn::CLASS_ALU | insn::CLASS_ALU64 => check_alu(i),
        _ => check_jump(i),
    }
}

fn unknown(i: &Insn) -> Cause {
    Cause::UnknownInstruction { code: i.code }
}

/// The named fields must be zero.
fn reserved(fields: &[(&'static str, i64)]) -> Result<(), Cause> {
    match fields.iter().find(|(_, value)| *value != 0) {
        None => Ok(()),
        Some(&(field, value)) => Err(Cause::ReservedField { field, value }),
    }
}

fn src(i: &Insn) -> (&'static str, i64) {
    ("src", i64::from(i.src))
}

fn dst(i: &Insn) -> (&'static str, i64) {
    ("dst", i64::from(i.dst))
}

fn off(i: &Insn) -> (&'static str, i64) {
    ("off", i64::from(i.off))
}

fn imm(i: &Insn) -> (&'static str, i64) {
    ("imm", i64::from(i.imm))
}

fn check_ld(i: &Insn) -> Result<(), Cause> {
    if i.is_ld_imm64() {
        return reserved(&[off(i)]);
    }
    match i.mode() {
        insn::MODE_ABS | insn::MODE_IND if i.code & 0x18 != insn::SIZE_DW => {
            Err(Cause::LegacyPacketLoad)
        }
        _ => Err(unknown(i)),
    }
}

fn check_imm64(i: &Insn, second: &Insn, maps: &[MapSpec]) -> Result<(), Cause> {
    reserved(&[
        ("code of the second half", i64::from(second.code)),
        ("dst of the second half", i64::from(second.dst)),
        ("src of the second half", i64::from(second.src)),
        ("off of the second half", i64::from(second.off)),
    ])?;
    let map = |index: i32| {
        let found = usize::try_from(index).ok().and_then(|n| maps.get(n));
        found.ok_or(Cause::UnknownMap {
            index: i64::from(index),
        })
    };
    match i.src {
        imm64::VALUE => Ok(()),
        imm64::MAP => {
            let spec = map(i.imm)?;
            if spec.kind.is_of_maps() && spec.inner.is_none() {
                return Err(Cause::NoInnerMap {
                    map: spec.name.clone(),
                });
            }
            reserved(&[("imm of the second half", i64::from(second.imm))])
        }
        imm64::MAP_VALUE => {
            let spec = map(i.imm)?;
            if spec.kind != MapKind::Array || spec.max_entries != 1 {
                return Err(Cause::NoDirectValue {
                    map: spec.name.clone(),
                });
            }
            let offset = i64::from(second.imm as u32);
            if offset >= i64::from(spec.value_size) {
                return Err(Cause::DirectValueOffset {
                    map: spec.name.clone(),
                    offset,
                    size: spec.value_size,
                });
            }
            Ok(())
        }
        imm64::FUNC => Err(Cause::FunctionAddress),
        _ => reserved(&[src(i)]),
    }
}

fn check_ldx(i: &Insn) -> Result<(), Cause> {
    let sign_extends = i.mode() == insn::MODE_MEMSX && i.size() < 8;
    if i.mode() != insn::MODE_MEM && !sign_extends {
        return Err(unknown(i));
    }
    reserved(&[imm(i)])
}

fn check_store(i: &Insn) -> Result<(), Cause> {
    let immediate = i.class() == insn::CLASS_ST;
    match i.mode() {
        insn::MODE_MEM if immediate => reserved(&[src(i)]),
        insn::MODE_MEM => reserved(&[imm(i)]),
        insn::MODE_ATOMIC if !immediate && i.size() >= 4 => match i.imm {
            atomic::XCHG | atomic::CMPXCHG => Ok(()),
            n => match n & !atomic::FETCH {
                atomic::ADD | atomic::OR | atomic::AND | atomic::XOR => Ok(()),
                _ => reserved(&[imm(i)]),
            },
        },
        _ => Err(unknown(i)),
    }
}

fn check_alu(i: &Insn) -> Result<(), Cause> {
    let wide = i.class() == insn::CLASS_ALU64;
    let operand = |i: &Insn| {
        if i.is_reg() {
            reserved(&[imm(i)])
        } else {
            reserved(&[src(i)])
        }
    };
    match i.op() {
        // Amounts of shifts are masked.
        alu::ADD
        | alu::SUB
        | alu::MUL
        | alu::OR
        | alu::AND
        | alu::XOR
        | alu::LSH
        | alu::RSH
        | alu::ARSH => {
            operand(i)?;
            reserved(&[off(i)])
        }
        alu::DIV | alu::MOD => {
            operand(i)?;
            if !i.is_reg() && i.imm == 0 {
                return Err(Cause::ReservedField {
                    field: "imm",
                    value: 0,
                });
            }
            if i.off == 1 {
                return Ok(());
            }
            reserved(&[off(i)])
        }
        alu::NEG if !i.is_reg() => reserved(&[src(i), off(i), imm(i)]),
        alu::MOV => {
            operand(i)?;
            let extends = i.is_reg() && (matches!(i.off, 8 | 16) || (wide && i.off == 32));
            if extends { Ok(()) } else { reserved(&[off(i)]) }
        }
        alu::END if !wide || !i.is_reg() => {
            reserved(&[src(i), off(i)])?;
            if matches!(i.imm, 16 | 32 | 64) {
                return Ok(());
            }
            Err(Cause::ReservedField {
                field: "imm",
                value: i64::from(i.imm),
            })
        }
        _ => Err(unknown(i)),
    }
}

fn check_jump(i: &Insn) -> Result<(), Cause> {
    let wide = i.class() == insn::CLASS_JMP;
    match i.op() {
        jmp::JA if !i.is_reg() && wide => reserved(&[dst(i), src(i), imm(i)]),
        jmp::JA if !i.is_reg() => reserved(&[dst(i), src(i), off(i)]),
        // Older compilers put the register into `imm`.
        jmp::CALL if wide && i.is_reg() => {
            reserved(&[src(i), off(i), imm(i)]).map_err(|_| Cause::IndirectCall)
        }
        jmp::CALL if wide => match i.src {
            // Whether there is such a function is asked where the call is reached: objects guard
            // calls of functions, and uses of types, that not every kernel has.
            call::HELPER | call::LOCAL | call::KFUNC | call::UNRESOLVED => {
                reserved(&[dst(i), off(i)])
            }
            _ => reserved(&[src(i)]),
        },
        jmp::EXIT if wide && !i.is_reg() => reserved(&[dst(i), src(i), off(i), imm(i)]),
        op if super::branch::Relation::of(op).is_some() => {
            if i.is_reg() {
                reserved(&[imm(i)])
            } else {
                reserved(&[src(i)])
            }
        }
        _ => Err(unknown(i)),
    }
}
