//! Calls: of helpers, checked against their contract's row; of the program's own functions, which
//! are followed in place with a frame of their own; and the returns.

use super::cause::Cause;
use super::lock;
use super::memory::{self, Access};
use super::references;
use super::scalar::Scalar;
use super::state::{Frame, INNER, Kind, MAX_FRAMES, MAX_STACK, Origin, Reg, State};
use super::step::Env;
use super::strings;
use crate::contract::{Arg, Contract, Ret, SPIN_LOCK, SPIN_UNLOCK};
use crate::helpers::TAIL_CALL;
use crate::{MapKind, MapSpec};

/// Sizes from here on are taken for mistakes (kernel: `BPF_MAX_VAR_SIZ`).
const MOST_SIZE: u64 = 1 << 29;

/// Registers that a call leaves to nobody.
const CLOBBERED: std::ops::RangeInclusive<u8> = 0..=5;

/// Calls a helper.
pub(super) fn helper(
    env: &Env<'_>,
    state: &mut State,
    contract: &Contract,
    at: usize,
) -> Result<(), Cause> {
    let name = contract.name;
    // What it goes to would run in the function's place: engines run it in the program's.
    if contract.id == TAIL_CALL && state.depth() > 0 {
        return Err(Cause::TailCallInFunction);
    }
    if contract.id == TAIL_CALL {
        references::none_held(state)?;
    }
    if contract.id != SPIN_UNLOCK && contract.id != SPIN_LOCK {
        lock::none_held(state, contract.name)?;
    }
    let mut map = None;
    let mut key = None;
    let mut record_size = 0;
    for (n, &arg) in contract.args.iter().enumerate() {
        let reg = n as u8 + 1;
        let value = memory::readable(state, reg)?;
        let wrong = |wanted: &'static str| Cause::Argument {
            helper: name,
            arg: reg,
            wanted,
            kind: value.kind.words(),
        };
        match arg {
            Arg::Scalar => {
                if value.kind != Kind::Scalar {
                    return Err(wrong("a number"));
                }
            }
            Arg::Context => {
                if value.kind != Kind::Context {
                    return Err(wrong("the context"));
                }
                if value.off != 0 {
                    return Err(Cause::ArgumentOffset {
                        helper: name,
                        arg: reg,
                    });
                }
            }
            Arg::Map => match value.kind {
                Kind::Map(m) => {
                    goes_with(env.map(m), contract)?;
                    map = Some(m);
                }
                Kind::MapOrNull(_) => return Err(Cause::MaybeNull { reg }),
                _ => return Err(wrong("a map")),
            },
            Arg::MapKey => {
                let size = map.map_or(0, |m| env.map(m).key_size);
                memory_argument(contract, reg, &value)?;
                memory::helper(env, state, reg, u64::from(size), Access::Read)?;
                // How many entries an inner map has is not known.
                let array = map.filter(|m| m & INNER == 0);
                key = array.and_then(|m| constant_key(state, env.map(m), &value));
            }
            Arg::MapValue => {
                let size = map.map_or(0, |m| env.map(m).value_size);
                memory_argument(contract, reg, &value)?;
                memory::helper(env, state, reg, u64::from(size), Access::Read)?;
            }
            Arg::MapValueOut => {
                let spec = map.map(|m| env.map(m));
                let size = spec.map_or(0, |s| s.value_size);
                let access = match spec.map(|s| s.kind) {
                    Some(MapKind::BloomFilter) => Access::Read,
                    _ => Access::Write,
                };
                memory_argument(contract, reg, &value)?;
                memory::helper(env, state, reg, u64::from(size), access)?;
            }
            Arg::ReadWriteFixed(size) => {
                memory_argument(contract, reg, &value)?;
                memory::helper(env, state, reg, u64::from(size), Access::Read)?;
                memory::helper(env, state, reg, u64::from(size), Access::Write)?;
            }
            Arg::ReadFixed(size) => {
                memory_argument(contract, reg, &value)?;
                memory::helper(env, state, reg, u64::from(size), Access::Read)?;
            }
            Arg::WriteAligned(size) => {
                memory_argument(contract, reg, &value)?;
                aligned(contract, reg, &value, size)?;
                memory::helper(env, state, reg, u64::from(size), Access::Write)?;
            }
            Arg::ConstString => {
                strings::constant(env, contract, reg, &value)?;
                state.need(value.origin);
            }
            Arg::ConstFormat => {
                let format = strings::constant(env, contract, reg, &value)?;
                let arguments = *state.reg(reg + 2);
                strings::format(contract, reg, format, &arguments)?;
                state.need(value.origin.union(arguments.origin));
            }
            Arg::ReadMem
            | Arg::ReadMemOrNull
            | Arg::WriteMem
            | Arg::WriteMemOrNull
            | Arg::ReadWriteMem => {
                // The size comes next, and decides how much is touched.
                let rule = contract.args.get(n + 1).copied();
                sized_memory(env, state, contract, reg, arg, rule)?;
            }
            // Checked with the memory before it.
            Arg::Size | Arg::SizeOrZero => {}
            Arg::RecordSize => {
                let size = value.as_constant().ok_or_else(|| wrong("a known number"))?;
                state.need(value.origin);
                // So long a record there never is: the engines give null.
                record_size = u32::try_from(size).unwrap_or(0);
            }
            Arg::Lock if contract.id == SPIN_LOCK => lock::take(env, state, &value)?,
            Arg::Lock => lock::release(env, state, &value)?,
            Arg::Record => match value.kind {
                Kind::Record(_) => references::release(state, name, reg, &value)?,
                Kind::RecordOrNull(_) => return Err(Cause::MaybeNull { reg }),
                _ => return Err(wrong("a record as it was reserved")),
            },
        }
    }
    if let Some(m) = map {
        may_change(env.map(m), contract)?;
    }
    for r in CLOBBERED {
        state.set(r, Reg::UNINIT);
    }
    if contract.moves_packet {
        state.void_packet_pointers();
    }
    if contract.ret == Ret::Nothing {
        return Ok(());
    }
    let result = match (contract.ret, map) {
        (Ret::MapValueOrNull, Some(m)) if env.map(m).kind.is_of_maps() => Reg {
            id: state.fresh_id(),
            ..Reg::pointer(Kind::MapOrNull(m | INNER))
        },
        (Ret::MapValueOrNull | Ret::PercpuValueOrNull, Some(m)) => {
            let there = contract.ret == Ret::MapValueOrNull
                && key.is_some_and(|(key, origin)| {
                    let present = key < u64::from(env.map(m).max_entries);
                    if present {
                        state.need(origin);
                    }
                    present
                });
            match there {
                true if lock::tells_values_apart(env, Kind::MapValue(m)) => Reg {
                    id: state.fresh_id(),
                    ..Reg::pointer(Kind::MapValue(m))
                },
                true => Reg::pointer(Kind::MapValue(m)),
                false => Reg {
                    id: state.fresh_id(),
                    ..Reg::pointer(Kind::MapValueOrNull(m))
                },
            }
        }
        (Ret::RecordOrNull, _) => references::acquire(state, Kind::RecordOrNull(record_size), at)?,
        _ => Reg::scalar(Scalar::UNKNOWN),
    };
    state.set(0, result);
    Ok(())
}

/// That the helper is for maps of this kind.
fn goes_with(spec: &MapSpec, contract: &Contract) -> Result<(), Cause> {
    if contract.maps.contains(&spec.kind) {
        return Ok(());
    }
    Err(Cause::ArgumentMap {
        helper: contract.name,
        map: spec.name.clone(),
        kind: spec.kind.name(),
    })
}

/// Memory in `reg`, its size in the register after it.
fn sized_memory(
    env: &Env<'_>,
    state: &mut State,
    contract: &Contract,
    reg: u8,
    arg: Arg,
    rule: Option<Arg>,
) -> Result<(), Cause> {
    let value = memory::readable(state, reg)?;
    let size = memory::readable(state, reg + 1)?;
    if size.kind != Kind::Scalar {
        return Err(Cause::Argument {
            helper: contract.name,
            arg: reg + 1,
            wanted: "a size",
            kind: size.kind.words(),
        });
    }
    let (least, most) = (size.scalar.w64.umin, size.scalar.w64.umax);
    if size.scalar.w64.smin < 0 || most >= MOST_SIZE {
        return Err(Cause::SizeUnbounded {
            reg: reg + 1,
            min: size.scalar.w64.smin,
            max: most,
        });
    }
    if least == 0 && rule != Some(Arg::SizeOrZero) {
        return Err(Cause::SizeZero { reg: reg + 1 });
    }
    state.need(size.origin);
    let or_null = matches!(arg, Arg::ReadMemOrNull | Arg::WriteMemOrNull);
    if or_null && value.as_constant() == Some(0) {
        state.need(value.origin);
        return if most == 0 {
            Ok(())
        } else {
            Err(Cause::Argument {
                helper: contract.name,
                arg: reg,
                wanted: "memory, or null with the size 0",
                kind: "null",
            })
        };
    }
    memory_argument(contract, reg, &value)?;
    if arg == Arg::ReadWriteMem {
        memory::helper(env, state, reg, most, Access::Read)?;
    }
    if matches!(arg, Arg::WriteMem | Arg::WriteMemOrNull | Arg::ReadWriteMem) {
        // Only what is surely written becomes readable.
        if least == most {
            return memory::helper(env, state, reg, most, Access::Write);
        }
        return memory::helper_may_write(env, state, reg, most);
    }
    memory::helper(env, state, reg, most, Access::Read)
}

/// That the helper takes this kind of memory at all.
fn memory_argument(contract: &Contract, reg: u8, value: &Reg) -> Result<(), Cause> {
    let fits = match value.kind {
        Kind::Stack(_) | Kind::MapValue(_) | Kind::Record(_) => true,
        Kind::Packet | Kind::PacketMeta => contract.takes_packet,
        kind if kind.not_null().is_some() => return Err(Cause::MaybeNull { reg }),
        Kind::Scalar => {
            return Err(Cause::Argument {
                helper: contract.name,
                arg: reg,
                wanted: "a pointer to memory",
                kind: value.kind.words(),
            });
        }
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(Cause::ArgumentMemory {
        helper: contract.name,
        kind: value.kind.words(),
    })
}

/// That the memory in `reg` lies at a multiple of `size`, a power of two.
fn aligned(contract: &Contract, reg: u8, value: &Reg, size: u32) -> Result<(), Cause> {
    let whole = i64::from(value.off).rem_euclid(i64::from(size)) == 0;
    if whole && value.scalar.tnum.is_aligned(u64::from(size)) {
        return Ok(());
    }
    Err(Cause::ArgumentAlignment {
        helper: contract.name,
        arg: reg,
        size,
    })
}

/// That a helper that changes elements may do so to this map.
fn may_change(spec: &MapSpec, contract: &Contract) -> Result<(), Cause> {
    if contract.changes_map && spec.read_only_for_programs() {
        return Err(Cause::ReadOnlyMap {
            map: spec.name.clone(),
        });
    }
    Ok(())
}

/// The key, where it is a known number on the stack and the map an array, whose elements are always
/// there.
fn constant_key(state: &State, spec: &MapSpec, key: &Reg) -> Option<(u64, Origin)> {
    let array = matches!(spec.kind, MapKind::Array | MapKind::PercpuArray);
    let Kind::Stack(depth) = key.kind else {
        return None;
    };
    if !array || !key.has_constant_offset() || spec.key_size != 4 {
        return None;
    }
    let off = i32::try_from(key.offsets().0).ok()?;
    let value = state.frames[depth as usize].stack.load(off, 4).ok()?;
    value.as_constant().map(|v| (v, value.origin))
}

/// Enters a function of the program; the next instruction is its first.
pub(super) fn enter(state: &mut State, function: usize, return_to: usize) -> Result<(), Cause> {
    if state.frames.len() == MAX_FRAMES {
        return Err(Cause::TooManyFrames { most: MAX_FRAMES });
    }
    let depth = state.frames.len();
    let mut frame = Frame::new(depth, function, return_to);
    let caller = state.top_mut();
    frame.regs[1..=5].copy_from_slice(&caller.regs[1..=5]);
    for r in CLOBBERED {
        caller.regs[usize::from(r)] = Reg::UNINIT;
    }
    state.frames.push(frame);
    Ok(())
}

/// Leaves a function. The instruction to go on with, or `None` where the program ends.
pub(super) fn leave(state: &mut State) -> Result<Option<usize>, Cause> {
    if state.depth() == 0 {
        let r0 = memory::readable(state, 0)?;
        lock::none_held(state, "the program's end")?;
        references::none_held(state)?;
        return match r0.kind {
            Kind::Scalar => Ok(None),
            kind => Err(Cause::PointerReturned { kind: kind.words() }),
        };
    }
    let r0 = *state.reg(0);
    if matches!(r0.kind, Kind::Stack(_)) {
        return Err(Cause::StackPointerReturned);
    }
    let return_to = state.top().return_to;
    state.frames.pop();
    state.set(0, r0);
    Ok(Some(return_to))
}

/// The stack that the deepest chain of calls uses: each function's own, rounded up to 16 bytes, and
/// a function that uses none still takes that much (kernel: `check_max_stack_depth`).
pub(super) fn stack_of_chains(depths: &[usize], calls: &[(usize, usize)]) -> usize {
    let cost = |f: usize| depths[f].max(1).next_multiple_of(16);
    // Deepest chain that ends in each function. A chain has at most `MAX_FRAMES` functions, as the
    // walk found, so as many rounds reach every chain.
    let mut below: Vec<usize> = (0..depths.len()).map(cost).collect();
    for _ in 1..MAX_FRAMES {
        let mut changed = false;
        for &(caller, callee) in calls {
            let through = cost(caller) + below[callee];
            if through > below[caller] {
                below[caller] = through;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    below[0]
}

/// The limit that [`stack_of_chains`] must keep.
pub(super) const STACK_LIMIT: usize = MAX_STACK as usize;
