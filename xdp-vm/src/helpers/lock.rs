//! Spin locks in map values: one word, 0 where it is free. Programs hold one for a few instructions, as
//! the verifier saw to, and the user while it copies a value.

use super::Env;
use crate::maps::lock;
use crate::memory::pointer;

pub(super) unsafe extern "C" fn spin_lock(
    _: &mut Env<'_, '_>,
    r1: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: an aligned lock in a map value.
    unsafe { lock::take(pointer(r1)) };
    0
}

pub(super) unsafe extern "C" fn spin_unlock(
    _: &mut Env<'_, '_>,
    r1: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a lock that this program holds.
    unsafe { lock::release(pointer(r1)) };
    0
}
