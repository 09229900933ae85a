//! Strings that are part of the program: what helpers take as formats and as texts to compare with.

use super::cause::Cause;
use super::state::{INNER, Kind, Reg};
use super::step::Env;
use crate::contract::Contract;
use crate::helpers::printk;

/// Kernel: `BPF_F_RDONLY_PROG`.
const RDONLY_PROG: u32 = 0x80;

/// The string at `value`, without the zero that ends it: in a map that nobody writes any more, at a
/// known place, and ending there.
pub(super) fn constant<'e>(
    env: &'e Env<'_>,
    contract: &Contract,
    arg: u8,
    value: &Reg,
) -> Result<&'e [u8], Cause> {
    let refused = |problem| Cause::ArgumentString {
        helper: contract.name,
        arg,
        problem,
    };
    let Kind::MapValue(map) = value.kind else {
        return Err(Cause::Argument {
            helper: contract.name,
            arg,
            wanted: "a string of the program's constants",
            kind: value.kind.words(),
        });
    };
    let spec = env.map(map);
    // Of an inner map only the shape is known.
    if map & INNER != 0 || !spec.frozen || spec.flags & RDONLY_PROG == 0 {
        return Err(refused("may be written"));
    }
    if !value.has_constant_offset() {
        return Err(refused("is at a place that is not known"));
    }
    let size = spec.value_size as usize;
    let at = usize::try_from(value.offsets().0).ok();
    let at = at
        .filter(|&at| at < size)
        .ok_or(refused("is outside of its map"))?;
    // What the object did not give is zero.
    let initial = spec.initial.as_deref().unwrap_or_default();
    let text = &initial[at.min(initial.len())..size.min(initial.len())];
    match text.iter().position(|&b| b == 0) {
        Some(end) => Ok(&text[..end]),
        None if at + text.len() < size => Ok(text),
        None => Err(refused("has no zero byte at its end")),
    }
}

/// That a format fits the numbers that are given with it, `bytes` of them.
pub(super) fn format(
    contract: &Contract,
    arg: u8,
    format: &[u8],
    bytes: &Reg,
) -> Result<(), Cause> {
    let refused = |problem| Cause::ArgumentString {
        helper: contract.name,
        arg,
        problem,
    };
    // Of a number that is not known, the helper asks when it runs.
    let Some(bytes) = bytes.as_constant() else {
        return Ok(());
    };
    if bytes % 8 != 0 {
        return Err(refused("has arguments that are not 8 bytes each"));
    }
    match printk::conversions(format) {
        Some(conversions) if conversions as u64 <= bytes / 8 => Ok(()),
        Some(_) => Err(refused("asks for more arguments than are given")),
        None => Err(refused("is not one that the kernel prints")),
    }
}
