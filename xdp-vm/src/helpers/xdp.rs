//! The packet from the program's side: its ends, its bytes, and where it goes.

use super::maps::map;
use super::{Env, outcome};
use crate::errno::Errno;
use crate::maps::Storage;
use crate::memory::{self, pointer};
use crate::redirect::Redirect;

const ABORTED: u64 = 0;
const REDIRECT: u64 = 4;
/// Bits of `bpf_redirect_map`'s flags that are the verdict where there is no such entry.
const ACTION: u64 = 3;
/// `BPF_F_BROADCAST` and `BPF_F_EXCLUDE_INGRESS`.
const BROADCAST: u64 = 8;
const EXCLUDE_INGRESS: u64 = 16;

/// The distance is an `int` in the kernel: the upper half of the register is not looked at.
pub(super) unsafe extern "C" fn adjust_head(
    env: &mut Env<'_, '_>,
    _: u64,
    delta: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    outcome(env.buff.adjust_head(delta as i32))
}

/// As above.
pub(super) unsafe extern "C" fn adjust_tail(
    env: &mut Env<'_, '_>,
    _: u64,
    delta: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    outcome(env.buff.adjust_tail(delta as i32))
}

/// As above.
pub(super) unsafe extern "C" fn adjust_meta(
    env: &mut Env<'_, '_>,
    _: u64,
    delta: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    outcome(env.buff.adjust_meta(delta as i32))
}

pub(super) unsafe extern "C" fn get_buff_len(
    env: &mut Env<'_, '_>,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    env.buff.total_len() as u64
}

/// Where the packet has not so many bytes, the memory is zeroed: the verifier takes it for written,
/// and the kernel would leave what was there.
pub(super) unsafe extern "C" fn load_bytes(
    env: &mut Env<'_, '_>,
    _: u64,
    offset: u64,
    to: u64,
    len: u64,
    _: u64,
) -> u64 {
    let from = env.buff.bytes_at(offset as u32, len as u32);
    // SAFETY: the contract: `len` bytes can be written at `to`; the packet has as many in its parts.
    unsafe {
        match from {
            Ok(parts) => {
                let mut to = pointer(to);
                for (from, part) in parts {
                    memory::copy(to, from, part);
                    to = to.add(part);
                }
                0
            }
            Err(errno) => {
                memory::zero(pointer(to), len as usize);
                errno.as_return()
            }
        }
    }
}

pub(super) unsafe extern "C" fn store_bytes(
    env: &mut Env<'_, '_>,
    _: u64,
    offset: u64,
    from: u64,
    len: u64,
    _: u64,
) -> u64 {
    let to = env.buff.bytes_at(offset as u32, len as u32);
    outcome(to.map(|parts| {
        let mut from = pointer(from);
        for (to, part) in parts {
            // SAFETY: the contract: `len` bytes can be read at `from`; the packet has as many in its
            // parts.
            unsafe {
                memory::copy(to, from, part);
                from = from.add(part);
            }
        }
    }))
}

/// Whether there is such an interface is found out by whoever acts on the verdict.
pub(super) unsafe extern "C" fn redirect(
    env: &mut Env<'_, '_>,
    ifindex: u64,
    flags: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    if flags != 0 {
        return ABORTED;
    }
    env.cpu.redirect = Some(Redirect::Interface {
        ifindex: ifindex as u32,
    });
    REDIRECT
}

pub(super) unsafe extern "C" fn redirect_map(
    env: &mut Env<'_, '_>,
    r1: u64,
    key: u64,
    flags: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map that outlives the run.
    let map = unsafe { map(r1) };
    let Storage::Targets(targets) = map.storage() else {
        return Errno::EINVAL.as_return();
    };
    let allowed = ACTION
        | if targets.broadcasts() {
            BROADCAST | EXCLUDE_INGRESS
        } else {
            0
        };
    if flags & !allowed != 0 {
        return ABORTED;
    }
    let value = targets.value(key as u32);
    env.cpu.redirect = if flags & BROADCAST != 0 {
        Some(Redirect::Broadcast {
            map: map.index(),
            exclude_ingress: flags & EXCLUDE_INGRESS != 0,
        })
    } else {
        // A miss takes back what an earlier call said.
        value.map(|value| Redirect::Entry {
            map: map.index(),
            kind: map.spec().kind,
            key: key as u32,
            value,
        })
    };
    match env.cpu.redirect {
        Some(_) => REDIRECT,
        None => flags & ACTION,
    }
}
