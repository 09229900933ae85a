//! Maps from the program's side.

use super::{Env, outcome};
use crate::maps::Map;
use crate::memory::pointer;

/// The map that a register names.
///
/// # Safety
/// The register was loaded from an instruction that names a map, which lives as long as the
/// executable that runs.
#[inline(always)]
pub(crate) unsafe fn map<'a>(register: u64) -> &'a Map {
    // SAFETY: the caller's promise.
    unsafe { &*std::ptr::with_exposed_provenance::<Map>(register as usize) }
}

pub(super) unsafe fn lookup_elem(
    env: &mut Env<'_, '_>,
    r1: u64,
    key: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map and a key of it.
    unsafe { map(r1).lookup_raw(env.cpu.slot(), pointer(key)) }.expose_provenance() as u64
}

pub(super) unsafe fn update_elem(
    env: &mut Env<'_, '_>,
    r1: u64,
    key: u64,
    value: u64,
    flags: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map, a key and a value of it.
    outcome(unsafe { map(r1).update_raw(env.cpu.slot(), pointer(key), pointer(value), flags) })
}

pub(super) unsafe fn delete_elem(
    _: &mut Env<'_, '_>,
    r1: u64,
    key: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map and a key of it.
    outcome(unsafe { map(r1).delete_raw(pointer(key)) })
}
