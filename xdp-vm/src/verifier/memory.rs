//! Loads, stores and atomic operations: what each region allows, and what comes back.

use super::cause::Cause;
use super::lock;
use super::scalar::Scalar;
use super::stack::{Byte, Stack, StackFault};
use super::state::{Kind, MAX_STACK, Reg, State};
use super::step::Env;
use crate::insn::{self, atomic};
use crate::{ContextField, Insn, MapSpec};

/// Kernel: `BPF_F_WRONLY_PROG`.
const WRONLY_PROG: u32 = 0x100;

/// What is done to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A load. Where it reads the context, the field that it reads.
pub(super) fn load(
    env: &Env<'_>,
    state: &mut State,
    i: &Insn,
) -> Result<Option<ContextField>, Cause> {
    let base = readable(state, i.src)?;
    let size = i.size();
    let off = i64::from(i.off);
    let mut field = None;
    let mut value = match base.kind {
        Kind::Context => {
            let (f, value) = context_field(env, &base, off, size, i.mode())?;
            field = Some(f);
            value
        }
        Kind::Stack(depth) => load_stack(state, &base, i.src, depth as usize, off, size)?,
        Kind::MapValue(map) => {
            let spec = env.map(map);
            map_value(spec, &base, i.src, off, i64::from(size), Access::Read)?;
            known_constant(spec, &base, off, size)
                .map_or(Reg::scalar(Scalar::of_size(size)), Reg::constant)
        }
        Kind::Record(length) => {
            record(length, &base, i.src, off, i64::from(size))?;
            Reg::scalar(Scalar::of_size(size))
        }
        _ => {
            packet(&base, i.src, off, i64::from(size))?;
            Reg::scalar(Scalar::of_size(size))
        }
    };
    if i.mode() == insn::MODE_MEMSX {
        // A pointer loaded so is a pointer in part.
        if value.kind != Kind::Scalar {
            return Err(match base.kind {
                Kind::Context => Cause::ContextField { off, size },
                _ => Cause::StackPointerPart {
                    off: i32::from(i.off),
                },
            });
        }
        value.scalar = value.scalar.sign_extend(size * 8);
        value.id = 0;
    }
    state.set(i.dst, value);
    Ok(field)
}

/// A store of a register or of an immediate.
pub(super) fn store(env: &Env<'_>, state: &mut State, i: &Insn) -> Result<(), Cause> {
    let base = readable(state, i.dst)?;
    let size = i.size();
    let off = i64::from(i.off);
    let value = if i.class() == insn::CLASS_ST {
        Reg::constant(i64::from(i.imm) as u64)
    } else {
        // What is learnt of the register later is learnt of its copy on the stack.
        super::step::link(state, i.src);
        readable(state, i.src)?
    };
    if let Kind::Stack(depth) = base.kind {
        return store_stack(state, &base, i.dst, depth as usize, off, size, &value);
    }
    let place = match base.kind {
        Kind::Context => return Err(Cause::ContextWritten),
        Kind::MapValue(map) => {
            let spec = env.map(map);
            map_value(spec, &base, i.dst, off, i64::from(size), Access::Write)?;
            "a map"
        }
        Kind::Record(length) => {
            record(length, &base, i.dst, off, i64::from(size))?;
            "a record"
        }
        _ => {
            packet(&base, i.dst, off, i64::from(size))?;
            "the packet"
        }
    };
    no_pointer(i.src, &value, place)
}

/// An atomic operation.
pub(super) fn atomic(env: &Env<'_>, state: &mut State, i: &Insn) -> Result<(), Cause> {
    let base = readable(state, i.dst)?;
    let operand = readable(state, i.src)?;
    let size = i.size();
    let off = i64::from(i.off);
    if i.imm == atomic::CMPXCHG {
        no_pointer(0, &readable(state, 0)?, "memory by an atomic operation")?;
    }
    no_pointer(i.src, &operand, "memory by an atomic operation")?;
    match base.kind {
        Kind::Stack(depth) => {
            let depth = depth as usize;
            let loaded = load_stack(state, &base, i.dst, depth, off, size)?;
            if loaded.kind != Kind::Scalar {
                return Err(Cause::StackPointerPart {
                    off: i32::from(i.off),
                });
            }
            // The slot is written by what it holds: it is not written anew.
            let unknown = Reg::scalar(Scalar::of_size(size));
            store_stack(state, &base, i.dst, depth, off, size, &unknown)?;
        }
        Kind::MapValue(map) => {
            let spec = env.map(map);
            map_value(spec, &base, i.dst, off, i64::from(size), Access::Read)?;
            map_value(spec, &base, i.dst, off, i64::from(size), Access::Write)?;
            atomic_aligned(&base, off, size)?;
        }
        Kind::Record(length) => {
            record(length, &base, i.dst, off, i64::from(size))?;
            atomic_aligned(&base, off, size)?;
        }
        kind => return Err(Cause::AtomicTarget { kind: kind.words() }),
    }
    let fetched = match i.imm {
        atomic::CMPXCHG => Some(0),
        n if n & atomic::FETCH != 0 => Some(i.src),
        _ => None,
    };
    if let Some(r) = fetched {
        state.set(r, Reg::scalar(Scalar::of_size(size)));
    }
    Ok(())
}

/// Memory that a helper reads or writes: `most` bytes from the pointer in `reg` on.
pub(super) fn helper(
    env: &Env<'_>,
    state: &mut State,
    reg: u8,
    most: u64,
    access: Access,
) -> Result<(), Cause> {
    let base = readable(state, reg)?;
    let size = i64::try_from(most).unwrap_or(i64::MAX);
    match base.kind {
        Kind::Packet | Kind::PacketMeta => packet(&base, reg, 0, size),
        Kind::MapValue(map) => map_value(env.map(map), &base, reg, 0, size, access),
        Kind::Record(length) => record(length, &base, reg, 0, size),
        Kind::Stack(depth) => helper_stack(state, &base, reg, depth as usize, size, access),
        kind => Err(not_memory(reg, kind)),
    }
}

/// Memory of which a helper may write any number of bytes up to `most`.
pub(super) fn helper_may_write(
    env: &Env<'_>,
    state: &mut State,
    reg: u8,
    most: u64,
) -> Result<(), Cause> {
    let base = readable(state, reg)?;
    let Kind::Stack(depth) = base.kind else {
        return helper(env, state, reg, most, Access::Write);
    };
    let size = i64::try_from(most).unwrap_or(i64::MAX);
    let (low, high) = stack_range(&base, reg, 0, size)?;
    let length = (high - low) as u32 + size as u32;
    let stack = &mut state.frames[depth as usize].stack;
    stack.blur(low, length).map_err(stack_fault)
}

/// A register that was written.
pub(super) fn readable(state: &State, reg: u8) -> Result<Reg, Cause> {
    let value = *state.reg(reg);
    match value.kind {
        Kind::Uninit => Err(Cause::UninitialisedRegister { reg }),
        _ => Ok(value),
    }
}

/// A number, not an address.
pub(super) fn no_pointer(reg: u8, value: &Reg, place: &'static str) -> Result<(), Cause> {
    if !value.kind.is_pointer() {
        return Ok(());
    }
    let kind = value.kind.words();
    Err(Cause::PointerStored { reg, kind, place })
}

fn not_memory(reg: u8, kind: Kind) -> Cause {
    match kind {
        kind if kind.not_null().is_some() => Cause::MaybeNull { reg },
        kind => Cause::NotMemory {
            reg,
            kind: kind.words(),
        },
    }
}

/// A whole field of the context, or nothing.
fn context_field(
    env: &Env<'_>,
    base: &Reg,
    off: i64,
    size: u32,
    mode: u8,
) -> Result<(ContextField, Reg), Cause> {
    let at = i64::from(base.off) + off;
    let refused = Cause::ContextField { off: at, size };
    if size != 4 || !base.has_constant_offset() {
        return Err(refused);
    }
    let field = i16::try_from(at).ok().and_then(ContextField::at);
    let field = field.ok_or(refused.clone())?;
    let pointer = match field {
        ContextField::Data => Some(Kind::Packet),
        ContextField::DataMeta => Some(Kind::PacketMeta),
        ContextField::DataEnd => Some(Kind::PacketEnd),
        ContextField::EgressIfindex if !env.config.kind.has_egress() => return Err(refused),
        _ => None,
    };
    match pointer {
        Some(_) if mode == insn::MODE_MEMSX => Err(refused),
        Some(kind) => Ok((field, Reg::pointer(kind))),
        None => Ok((field, Reg::scalar(Scalar::of_size(4)))),
    }
}

/// That `size` bytes at `off` from the pointer are proven to be in the packet. What is proven counts
/// from the pointer's variable part, which it shares with all of the same id.
fn packet(base: &Reg, reg: u8, off: i64, size: i64) -> Result<(), Cause> {
    if !matches!(base.kind, Kind::Packet | Kind::PacketMeta) {
        return Err(not_memory(reg, base.kind));
    }
    let min = i64::from(base.off).saturating_add(off);
    if base.scalar.w64.smin < 0 || min < 0 {
        let min = base.scalar.w64.smin.min(0).saturating_add(min);
        return Err(Cause::BeforePacket { reg, min });
    }
    let needed = min.saturating_add(size);
    if needed > i64::from(base.range) {
        let proven = base.range;
        return Err(Cause::PacketBounds {
            reg,
            needed,
            proven,
        });
    }
    Ok(())
}

/// That `size` bytes are within the value, and the map lets programs do this.
fn map_value(
    spec: &MapSpec,
    base: &Reg,
    reg: u8,
    off: i64,
    size: i64,
    access: Access,
) -> Result<(), Cause> {
    let name = || spec.name.clone();
    if access == Access::Write && spec.read_only_for_programs() {
        return Err(Cause::ReadOnlyMap { map: name() });
    }
    if access == Access::Read && spec.flags & WRONLY_PROG != 0 {
        return Err(Cause::WriteOnlyMap { map: name() });
    }
    let (low, high) = base.offsets();
    let min = low.saturating_add(off);
    let end = high.saturating_add(off).saturating_add(size);
    if min < 0 || end > i64::from(spec.value_size) {
        return Err(Cause::MapValueBounds {
            reg,
            map: name(),
            size: spec.value_size,
            min,
            max: end.saturating_sub(1),
        });
    }
    lock::untouched(spec, min, end)
}

/// That `size` bytes are within the record.
fn record(length: u32, base: &Reg, reg: u8, off: i64, size: i64) -> Result<(), Cause> {
    let (low, high) = base.offsets();
    let min = low.saturating_add(off);
    let end = high.saturating_add(off).saturating_add(size);
    if min < 0 || end > i64::from(length) {
        return Err(Cause::RecordBounds {
            reg,
            size: length,
            min,
            max: end.saturating_sub(1),
        });
    }
    Ok(())
}

/// Atomic operations do not straddle words.
fn atomic_aligned(base: &Reg, off: i64, size: u32) -> Result<(), Cause> {
    let at = i64::from(base.off) + off;
    let aligned = base.scalar.tnum.is_aligned(u64::from(size));
    if at.rem_euclid(i64::from(size)) != 0 || !aligned {
        return Err(Cause::AtomicAlignment { size });
    }
    Ok(())
}

/// What is at a known place of a value that nobody writes.
fn known_constant(spec: &MapSpec, base: &Reg, off: i64, size: u32) -> Option<u64> {
    let initial = spec.initial.as_ref().filter(|_| spec.frozen)?;
    if !base.has_constant_offset() {
        return None;
    }
    let at = usize::try_from(base.offsets().0 + off).ok()?;
    let mut bytes = [0; 8];
    for (n, b) in bytes[..size as usize].iter_mut().enumerate() {
        // Past what the object gave, a value is zero.
        *b = initial.get(at + n).copied().unwrap_or(0);
    }
    Some(u64::from_le_bytes(bytes))
}

/// Least and greatest first byte of an access to the stack, all within its bounds.
fn stack_range(base: &Reg, reg: u8, off: i64, size: i64) -> Result<(i32, i32), Cause> {
    let (low, high) = base.offsets();
    let (low, high) = (low.saturating_add(off), high.saturating_add(off));
    if low < -i64::from(MAX_STACK) || high.saturating_add(size) > 0 {
        return Err(Cause::StackBounds {
            reg,
            min: low,
            max: high.saturating_add(size).saturating_sub(1),
        });
    }
    // An empty access at the end is at no byte.
    Ok((low as i32, high as i32))
}

/// Natural alignment: spilled registers are followed by slot.
fn stack_aligned(base: &Reg, off: i64, size: u32) -> Result<(), Cause> {
    let at = i64::from(base.off) + off;
    if at.rem_euclid(i64::from(size)) != 0 || !base.scalar.tnum.is_aligned(u64::from(size)) {
        return Err(Cause::StackAlignment { off: at, size });
    }
    Ok(())
}

fn stack_fault(fault: StackFault) -> Cause {
    match fault {
        StackFault::Uninit(off) => Cause::StackUninitialised { off },
        StackFault::Pointer(off) => Cause::StackPointerPart { off },
    }
}

fn load_stack(
    state: &mut State,
    base: &Reg,
    reg: u8,
    depth: usize,
    off: i64,
    size: u32,
) -> Result<Reg, Cause> {
    let (low, high) = stack_range(base, reg, off, i64::from(size))?;
    stack_aligned(base, off, size)?;
    let length = (high - low) as u32 + size;
    state.note_reads(depth, Stack::mask(low, length));
    let stack = &state.frames[depth].stack;
    if low == high {
        return stack.load(low, size).map_err(stack_fault);
    }
    stack.readable(low, length).map_err(stack_fault)?;
    Ok(Reg::scalar(Scalar::of_size(size)))
}

fn store_stack(
    state: &mut State,
    base: &Reg,
    reg: u8,
    depth: usize,
    off: i64,
    size: u32,
    value: &Reg,
) -> Result<(), Cause> {
    let (low, high) = stack_range(base, reg, off, i64::from(size))?;
    let at = i64::from(low);
    if value.kind.is_pointer() {
        if size != 8 || low != high || at % 8 != 0 {
            return Err(Cause::PartialSpill { off: at });
        }
        if matches!(value.kind, Kind::Stack(_)) && depth != state.depth() {
            return Err(Cause::StackPointerEscapes);
        }
    }
    stack_aligned(base, off, size)?;
    let stack = &mut state.frames[depth].stack;
    if low != high {
        let length = (high - low) as u32 + size;
        return stack.blur(low, length).map_err(stack_fault);
    }
    if stack.store(low, size, value) {
        state.need(value.origin);
    }
    Ok(())
}

fn helper_stack(
    state: &mut State,
    base: &Reg,
    reg: u8,
    depth: usize,
    size: i64,
    access: Access,
) -> Result<(), Cause> {
    let (low, high) = stack_range(base, reg, 0, size)?;
    if size == 0 {
        return Ok(());
    }
    let length = (high - low) as u32 + size as u32;
    match access {
        Access::Read => {
            state.note_reads(depth, Stack::mask(low, length));
            let stack = &state.frames[depth].stack;
            stack.readable(low, length).map_err(|fault| match fault {
                StackFault::Uninit(off) => Cause::StackRangeUninitialised {
                    start: low,
                    size: length,
                    off,
                    index: off - low,
                },
                pointer => stack_fault(pointer),
            })
        }
        Access::Write => {
            let stack = &mut state.frames[depth].stack;
            if low == high {
                stack.fill(low, length, Byte::Misc);
                return Ok(());
            }
            stack.blur(low, length).map_err(stack_fault)
        }
    }
}
