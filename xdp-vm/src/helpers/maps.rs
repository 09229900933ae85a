//! Maps from the program's side.

use std::num::NonZeroUsize;

use super::{Env, outcome};
use crate::cpu::Cpu;
use crate::maps::{Hash, Map, Storage};
use crate::memory::pointer;

/// Tail calls that a run may make (`MAX_TAIL_CALL_CNT`).
const MAX_TAIL_CALLS: u32 = 33;

/// Sets what runs next to entry `index` of a program array. True where the program is to end with
/// this, and false where it goes on: there is no program, or there were too many.
///
/// # Safety
/// The register holds a program array, as for [`map`].
pub(crate) unsafe fn tail_call(cpu: &mut Cpu, register: u64, index: u32) -> bool {
    // SAFETY: the caller's promise.
    let Storage::Programs(programs) = (unsafe { map(register) }).storage() else {
        return false;
    };
    let Some(body) = programs.get(index) else {
        return false;
    };
    if cpu.tail_calls == MAX_TAIL_CALLS {
        return false;
    }
    cpu.tail_calls += 1;
    cpu.next = NonZeroUsize::new(std::ptr::from_ref(body).expose_provenance());
    true
}

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

/// A key of another CPU than there is gives null.
pub(super) unsafe extern "C" fn lookup_percpu_elem(
    _: &mut Env<'_, '_>,
    r1: u64,
    key: u64,
    cpu: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map and a key of it.
    unsafe {
        let map = map(r1);
        match cpu as u32 {
            cpu if cpu < map.cpus() => map.lookup_raw(cpu, pointer(key)).expose_provenance() as u64,
            _ => 0,
        }
    }
}

pub(super) unsafe extern "C" fn push_elem(
    _: &mut Env<'_, '_>,
    r1: u64,
    value: u64,
    flags: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map and a value of it.
    outcome(unsafe { map(r1).push_raw(pointer(value), flags) })
}

pub(super) unsafe extern "C" fn pop_elem(
    _: &mut Env<'_, '_>,
    r1: u64,
    value: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map, and memory for a value of it.
    outcome(unsafe { map(r1).take_raw(pointer(value), true) })
}

pub(super) unsafe extern "C" fn peek_elem(
    _: &mut Env<'_, '_>,
    r1: u64,
    value: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map, and memory for a value of it (a value, of a bloom filter).
    outcome(unsafe { map(r1).take_raw(pointer(value), false) })
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
