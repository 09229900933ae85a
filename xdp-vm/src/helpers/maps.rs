//! Maps from the program's side.

use super::{Env, outcome};
use crate::maps::{Hash, Map};
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

pub(super) unsafe extern "C" fn lookup_elem(
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

pub(super) unsafe extern "C" fn update_elem(
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

pub(super) unsafe extern "C" fn delete_elem(
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

/// The address of a value in a hash, or null: what compiled code calls where it knows the map.
///
/// # Safety
/// A key of that hash can be read at `key`, and `cpu` is one that it was made for.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) unsafe extern "C" fn hash_lookup(hash: &Hash, cpu: u32, key: *const u8) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { hash.lookup(cpu, key) }
}
