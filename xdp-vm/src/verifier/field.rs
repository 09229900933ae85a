//! The name that the source has for a byte of the stack: where a helper is given an object whose type the
//! map's declaration tells.

use super::cause::Cause;
use super::state::{INNER, Kind, State};
use crate::contract::{self, Arg};
use crate::insn::call;
use crate::types::Type;
use crate::{MapSpec, Program};

/// What byte the cause complains of, as a field of a map's key or value.
pub(super) fn of_cause(
    program: &Program,
    maps: &[MapSpec],
    insn: usize,
    cause: &Cause,
    state: &State,
) -> Option<String> {
    let Cause::StackRangeUninitialised { start, index, .. } = *cause else {
        return None;
    };
    let called = program.insns.get(insn).filter(|i| i.src == call::HELPER)?;
    let args = contract::contract(called.imm as u32)?.args;
    let map = (1..=args.len() as u8).find_map(|r| match state.reg(r).kind {
        Kind::Map(map) => Some(map),
        _ => None,
    })?;
    let outer = maps.get((map & !INNER) as usize)?;
    let spec = match map & INNER {
        0 => outer,
        _ => outer.inner.as_deref()?,
    };
    let of: &Type = (1..).zip(args).find_map(|(r, arg)| {
        let reg = state.reg(r);
        let is_it =
            matches!(reg.kind, Kind::Stack(_)) && reg.offsets() == (start.into(), start.into());
        match arg {
            Arg::MapKey if is_it => spec.key.as_ref(),
            Arg::MapValue if is_it => spec.value.as_ref(),
            _ => None,
        }
    })?;
    let place = of.place(u32::try_from(index).ok()?)?;
    Some(format!("{place} of {}", of.words()))
}
