//! One instruction: what it makes of a state, and where control goes. Knows nothing of paths.

use super::Config;
use super::alu;
use super::branch::{self, Comparison, Relation};
use super::call;
use super::cause::Cause;
use super::cfg::{self, Cfg};
use super::memory;
use super::pointer::{self, Verdict};
use super::scalar::Scalar;
use super::state::{INNER, Kind, Origin, Reg, State};
use crate::insn::{self, alu as op, atomic, imm64, jmp};
use crate::{ContextField, Insn, MapSpec, Program, contract, kfunc, refusal};

/// What stays the same throughout.
pub(super) struct Env<'a> {
    pub(super) program: &'a Program,
    pub(super) maps: &'a [MapSpec],
    pub(super) config: &'a Config,
    pub(super) cfg: &'a Cfg,
}

impl Env<'_> {
    /// A map that the structural check has found to be there, or the shape of those that it holds,
    /// which that check has found to be declared.
    pub(super) fn map(&self, index: u32) -> &MapSpec {
        let map = &self.maps[(index & !INNER) as usize];
        match &map.inner {
            Some(inner) if index & INNER != 0 => inner,
            _ => map,
        }
    }
}

/// Where control goes.
pub(super) enum Next {
    /// On with this slot.
    Goto(usize),
    /// On with the next slot, and, in the state given, with this one.
    Fork(usize, Box<State>),
    /// Neither: what is known excludes both.
    Nowhere,
    /// The program ended.
    End,
    /// On with this slot, the first of a function.
    Call(usize),
}

/// What an instruction was seen to do on any path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Never,
    Plain,
    Context(ContextField),
}

/// Makes the step at `at`.
pub(super) fn step(
    env: &Env<'_>,
    state: &mut State,
    at: usize,
    seen: &mut Seen,
) -> Result<Next, Cause> {
    let i = &env.program.insns[at];
    if writes_frame_pointer(i) {
        return Err(Cause::FramePointerWritten);
    }
    let mut now = Seen::Plain;
    let mut next = Next::Goto(at + 1);
    match i.class() {
        insn::CLASS_LD => {
            load_immediate(env, state, i, at);
            next = Next::Goto(at + 2);
        }
        insn::CLASS_LDX => {
            if let Some(field) = memory::load(env, state, i)? {
                now = Seen::Context(field);
            }
        }
        insn::CLASS_STX if i.mode() == insn::MODE_ATOMIC => memory::atomic(env, state, i)?,
        insn::CLASS_ST | insn::CLASS_STX => memory::store(env, state, i)?,
        insn::CLASS_ALU | insn::CLASS_ALU64 => arithmetic(state, i)?,
        _ => next = jump(env, state, i, at)?,
    }
    if *seen != Seen::Never && *seen != now {
        return Err(Cause::MixedPointers);
    }
    *seen = now;
    Ok(next)
}

/// r10 is nobody's to write. Dead code may name it: compilers and tests mark with it what they take
/// for impossible.
fn writes_frame_pointer(i: &Insn) -> bool {
    match i.class() {
        insn::CLASS_LD | insn::CLASS_LDX | insn::CLASS_ALU | insn::CLASS_ALU64 => i.dst == 10,
        insn::CLASS_STX if i.mode() == insn::MODE_ATOMIC => {
            i.src == 10 && i.imm & atomic::FETCH != 0 && i.imm != atomic::CMPXCHG
        }
        _ => false,
    }
}

fn load_immediate(env: &Env<'_>, state: &mut State, i: &Insn, at: usize) {
    let high = env.program.insns[at + 1].imm as u32;
    let value = match i.src {
        imm64::MAP => Reg::pointer(Kind::Map(i.imm as u32)),
        imm64::MAP_VALUE => Reg {
            off: high as i32,
            ..Reg::pointer(Kind::MapValue(i.imm as u32))
        },
        _ => Reg::constant(u64::from(high) << 32 | u64::from(i.imm as u32)),
    };
    state.set(i.dst, value);
}

fn arithmetic(state: &mut State, i: &Insn) -> Result<(), Cause> {
    let wide = i.class() == insn::CLASS_ALU64;
    match i.op() {
        op::MOV => return assign(state, i, wide),
        op::NEG | op::END => {
            let value = memory::readable(state, i.dst)?;
            if value.kind != Kind::Scalar {
                return Err(on_pointer(i, i.dst, &value));
            }
            let scalar = match (i.op(), wide, i.is_reg()) {
                (op::NEG, _, _) => alu::neg(wide, value.scalar),
                // To little-endian: the host is, so only the width changes.
                (_, false, false) => value.scalar.truncate(i.imm as u32),
                _ => alu::swap_bytes(i.imm as u32, value.scalar),
            };
            state.set(
                i.dst,
                Reg {
                    scalar,
                    id: 0,
                    ..value
                },
            );
            return Ok(());
        }
        _ => {}
    }
    let left = memory::readable(state, i.dst)?;
    let right = operand(state, i)?;
    if left.kind.is_pointer() || right.kind.is_pointer() {
        let src = if i.is_reg() { i.src } else { i.dst };
        let out = pointer::arithmetic(state, i.op(), wide, i.dst, src, left, right)?;
        state.set(i.dst, out);
        return Ok(());
    }
    let itself = i.is_reg() && i.src == i.dst;
    let out = if itself && matches!(i.op(), op::XOR | op::SUB) {
        Reg::constant(0)
    } else {
        let scalar = alu::binary(i.op(), i.off == 1, wide, left.scalar, right.scalar);
        Reg {
            origin: origin(i, wide, &left, &right, &scalar),
            ..Reg::scalar(scalar)
        }
    };
    state.set(i.dst, out);
    Ok(())
}

/// Where the result of arithmetic comes from. What is known of it whatever an operand is does not come
/// from that operand: of `x % 36` that it is below 36, of `x & 7` that it is at most 7. A decision that
/// hangs on the result then asks nothing of `x`, which would keep paths apart that differ in it.
fn origin(i: &Insn, wide: bool, left: &Reg, right: &Reg, result: &Scalar) -> Origin {
    let both = left.origin.union(right.origin);
    if both.is_none() || *result == Scalar::of_size(if wide { 8 } else { 4 }) {
        return Origin::NONE;
    }
    if !matches!(i.op(), op::AND | op::MOD | op::RSH) {
        return both;
    }
    let any = alu::binary(i.op(), i.off == 1, wide, Scalar::UNKNOWN, right.scalar);
    if any == *result { right.origin } else { both }
}

/// A move: the copy stays linked to what it was copied from.
fn assign(state: &mut State, i: &Insn, wide: bool) -> Result<(), Cause> {
    if !i.is_reg() {
        let v = if wide {
            i64::from(i.imm) as u64
        } else {
            u64::from(i.imm as u32)
        };
        state.set(i.dst, Reg::constant(v));
        return Ok(());
    }
    link(state, i.src);
    let value = memory::readable(state, i.src)?;
    if value.kind != Kind::Scalar {
        if !wide && i.off == 0 && value.kind.is_packet() {
            // Where only 32 bits of `data_end - data` are wanted, compilers narrow both first.
            state.set(i.dst, Reg::pointer(Kind::PacketLow));
            return Ok(());
        }
        if !wide || i.off != 0 {
            return Err(on_pointer(i, i.src, &value));
        }
        state.set(i.dst, value);
        return Ok(());
    }
    let mut out = value;
    if i.off != 0 {
        out.scalar = value.scalar.sign_extend(i.off as u32);
        if out.scalar != value.scalar {
            out.id = 0;
        }
        if out.scalar == Scalar::UNKNOWN.sign_extend(i.off as u32) {
            out.origin = Origin::NONE;
        }
    }
    if !wide {
        out = out.truncated(32);
    }
    state.set(i.dst, out);
    Ok(())
}

/// Gives a number an id, so that its copies can be known to equal it.
pub(super) fn link(state: &mut State, r: u8) {
    let reg = *state.reg(r);
    if reg.kind == Kind::Scalar && reg.id == 0 && reg.scalar.as_constant().is_none() {
        let id = state.fresh_id();
        state.set(r, Reg { id, ..reg });
    }
}

fn on_pointer(i: &Insn, reg: u8, value: &Reg) -> Cause {
    Cause::PointerArithmetic {
        reg,
        operation: pointer::name(i.op()),
        kind: value.kind.words(),
    }
}

/// The second operand of arithmetic or of a comparison: a register or the immediate, sign-extended.
fn operand(state: &State, i: &Insn) -> Result<Reg, Cause> {
    if i.is_reg() {
        memory::readable(state, i.src)
    } else {
        Ok(Reg::constant(i64::from(i.imm) as u64))
    }
}

fn jump(env: &Env<'_>, state: &mut State, i: &Insn, at: usize) -> Result<Next, Cause> {
    // Structurally checked: the target is a slot of this function.
    let target = |off: i64| (at as i64 + 1 + off) as usize;
    match i.op() {
        jmp::JA => Ok(Next::Goto(target(cfg::jump_offset(i).unwrap_or(0)))),
        jmp::EXIT => Ok(match call::leave(state)? {
            Some(to) => Next::Goto(to),
            None => Next::End,
        }),
        jmp::CALL if i.src == insn::call::LOCAL => {
            let first = target(i64::from(i.imm));
            call::enter(state, env.cfg.function_of(first), at + 1)?;
            Ok(Next::Call(first))
        }
        jmp::CALL if i.src == insn::call::KFUNC => {
            let contract =
                kfunc::contract(i.imm).ok_or_else(|| no_such_function(env.program, i.imm))?;
            call::helper(env, state, contract, at)?;
            Ok(Next::Goto(at + 1))
        }
        jmp::CALL if i.src == insn::call::UNRESOLVED => {
            let what = usize::try_from(i.imm).ok();
            let what = what.and_then(|n| env.program.unresolved.get(n)).cloned();
            let what = what.unwrap_or_else(|| format!("number {}", i.imm));
            Err(Cause::UnresolvedType { what })
        }
        jmp::CALL => {
            let contract = contract::contract(i.imm as u32).ok_or_else(|| no_such_helper(i.imm))?;
            call::helper(env, state, contract, at)?;
            Ok(Next::Goto(at + 1))
        }
        operation => {
            let relation =
                Relation::of(operation).ok_or(Cause::UnknownInstruction { code: i.code })?;
            let wide = i.class() == insn::CLASS_JMP;
            let left = memory::readable(state, i.dst)?;
            let right = operand(state, i)?;
            let c = Comparison { relation, wide };
            let to = target(i64::from(i.off));
            if left.kind.is_pointer() || right.kind.is_pointer() {
                compare_pointers(env, state, c, &left, &right, at, to)
            } else if i.is_reg() && i.src == i.dst {
                Ok(compare_with_itself(state, relation, at, to))
            } else {
                Ok(compare_numbers(state, c, i, &left, &right, at, to))
            }
        }
    }
}

/// Why a helper cannot be called: it has no meaning here, or nobody knows it.
fn no_such_helper(id: i32) -> Cause {
    match refusal::helper(id as u32) {
        Some(refused) => Cause::RefusedHelper {
            name: refused.name,
            reason: refused.reason,
            remedy: refused.remedy,
        },
        None => Cause::UnknownHelper { id },
    }
}

/// As above, of a kernel function.
fn no_such_function(program: &Program, immediate: i32) -> Cause {
    let name = usize::try_from(immediate).ok();
    let name = name.and_then(|n| program.kfuncs.get(n)).cloned();
    let name = name.unwrap_or_else(|| format!("number {immediate}"));
    match refusal::kfunc(&name) {
        Some(refused) => Cause::RefusedHelper {
            name: refused.name,
            reason: refused.reason,
            remedy: refused.remedy,
        },
        None => Cause::UnknownKernelFunction { name },
    }
}

fn compare_numbers(
    state: &mut State,
    c: Comparison,
    i: &Insn,
    left: &Reg,
    right: &Reg,
    at: usize,
    to: usize,
) -> Next {
    let opposite = Comparison {
        relation: c.relation.opposite(),
        ..c
    };
    let holds = branch::assume(c, left.scalar, right.scalar);
    let fails = branch::assume(opposite, left.scalar, right.scalar);
    let origin = left.origin.union(right.origin);
    let learn = |state: &mut State, (a, b): (Scalar, Scalar)| {
        narrow(state, i.dst, a, origin);
        if i.is_reg() {
            narrow(state, i.src, b, origin);
        }
    };
    if holds.is_none() || fails.is_none() {
        // The way not taken hangs on these numbers.
        state.need(origin);
    }
    match (holds, fails) {
        (Some(holds), Some(fails)) => {
            let mut taken = Box::new(state.clone());
            learn(&mut taken, holds);
            learn(state, fails);
            Next::Fork(to, taken)
        }
        (Some(holds), None) => {
            learn(state, holds);
            Next::Goto(to)
        }
        (None, Some(fails)) => {
            learn(state, fails);
            Next::Goto(at + 1)
        }
        (None, None) => Next::Nowhere,
    }
}

fn compare_with_itself(state: &State, relation: Relation, at: usize, to: usize) -> Next {
    match relation {
        Relation::Equal
        | Relation::GreaterEqual
        | Relation::LessEqual
        | Relation::SignedGreaterEqual
        | Relation::SignedLessEqual => Next::Goto(to),
        Relation::AnyBit | Relation::NoBit => Next::Fork(to, Box::new(state.clone())),
        _ => Next::Goto(at + 1),
    }
}

/// The register, and all that are known to equal it, are within `scalar`. What they say now comes
/// from wherever either operand came from.
fn narrow(state: &mut State, r: u8, scalar: Scalar, origin: Origin) {
    let old = *state.reg(r);
    let learnt = scalar != old.scalar;
    let new = Reg {
        scalar,
        origin: old.origin.union(origin),
        ..old
    };
    state.set(r, new);
    if old.id == 0 || !learnt {
        return;
    }
    state.for_each(|reg| {
        if reg.kind == Kind::Scalar && reg.id == old.id {
            reg.scalar = reg.scalar.meet(scalar).unwrap_or(scalar);
            reg.origin = reg.origin.union(new.origin);
        }
    });
}

fn compare_pointers(
    env: &Env<'_>,
    state: &mut State,
    c: Comparison,
    left: &Reg,
    right: &Reg,
    at: usize,
    to: usize,
) -> Result<Next, Cause> {
    // A number compared with a pointer is null or nothing.
    state.need(left.origin.union(right.origin));
    Ok(match pointer::compare(c.relation, c.wide, left, right)? {
        Verdict::Known(true) => Next::Goto(to),
        Verdict::Known(false) => Next::Goto(at + 1),
        Verdict::Open => Next::Fork(to, Box::new(state.clone())),
        Verdict::Null { id, equal } => {
            let mut taken = Box::new(state.clone());
            pointer::settle_null(env, &mut taken, id, equal);
            pointer::settle_null(env, state, id, !equal);
            Next::Fork(to, taken)
        }
        Verdict::There { id, when } => {
            let mut taken = Box::new(state.clone());
            pointer::settle_null(env, if when { &mut taken } else { state }, id, false);
            Next::Fork(to, taken)
        }
        Verdict::Packet { proof, when } => {
            let mut taken = Box::new(state.clone());
            pointer::apply(if when { &mut taken } else { state }, proof);
            Next::Fork(to, taken)
        }
    })
}
