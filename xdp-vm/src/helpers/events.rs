//! Records that programs hand to the user: perf events and ring buffers.

use super::maps::map;
use super::{Env, outcome};
use crate::errno::Errno;
use crate::fragment::MAX_FRAGMENTS;
use crate::maps::{FORCE_WAKEUP, NO_WAKEUP, Ring, Storage};
use crate::memory::{self, pointer};

/// Bits of `bpf_perf_event_output`'s flags: which buffer, all ones for the CPU's own; and how many
/// bytes of the packet go with the record.
const INDEX: u64 = 0xffff_ffff;
const PACKET_LEN: u64 = 0xf_ffff << 32;

/// Flags that a record is put in with; those that submit one are looked at and not checked.
const WAKEUPS: u64 = NO_WAKEUP | FORCE_WAKEUP;

/// The record is the program's memory followed by the first bytes of the packet.
pub(super) unsafe extern "C" fn perf_event_output(
    env: &mut Env<'_, '_>,
    _: u64,
    r2: u64,
    flags: u64,
    data: u64,
    size: u64,
) -> u64 {
    if flags & !(INDEX | PACKET_LEN) != 0 {
        return Errno::EINVAL.as_return();
    }
    let packet_len = ((flags & PACKET_LEN) >> 32) as usize;
    if packet_len > env.buff.total_len() {
        return Errno::EFAULT.as_return();
    }
    let cpu = env.cpu.slot();
    let index = match flags & INDEX {
        INDEX => cpu,
        index => index as u32,
    };
    // SAFETY: the contract: a map that outlives the run, and memory of that size. The packet has
    // bytes from its start to its end.
    unsafe {
        let Storage::Events(events) = map(r2).storage() else {
            return Errno::EINVAL.as_return();
        };
        let mut parts = [(std::ptr::null(), 0); 2 + MAX_FRAGMENTS];
        let record = (pointer(data), size as usize);
        let packet = env.buff.parts(0, packet_len);
        for (to, (at, len)) in parts.iter_mut().zip(std::iter::once(record).chain(packet)) {
            *to = (at.cast_const(), len);
        }
        outcome(events.output(index, cpu, &parts))
    }
}

/// Bytes of `struct bpf_perf_event_value`: count, time enabled, time that it ran.
const VALUE: usize = 24;

/// Entries here take records and count nothing: an open one reads 0.
pub(super) unsafe extern "C" fn perf_event_read(
    env: &mut Env<'_, '_>,
    r1: u64,
    flags: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map that outlives the run.
    outcome(unsafe { counter(env, r1, flags) })
}

/// As above, with the times, which nobody keeps.
pub(super) unsafe extern "C" fn perf_event_read_value(
    env: &mut Env<'_, '_>,
    r1: u64,
    flags: u64,
    to: u64,
    size: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: memory of that size that can be written, a map that outlives the run.
    unsafe {
        memory::zero(pointer(to), size as usize);
        if size as u32 as usize != VALUE {
            return Errno::EINVAL.as_return();
        }
        outcome(counter(env, r1, flags))
    }
}

/// That there is an event to read.
///
/// # Safety
/// `r1` holds a map that outlives the run.
unsafe fn counter(env: &Env<'_, '_>, r1: u64, flags: u64) -> Result<(), Errno> {
    if flags & !INDEX != 0 {
        return Err(Errno::EINVAL);
    }
    let index = match flags {
        INDEX => env.cpu.slot(),
        index => index as u32,
    };
    // SAFETY: the caller's promise.
    match (unsafe { map(r1) }).storage() {
        Storage::Events(events) => events.read(index),
        _ => Err(Errno::EINVAL),
    }
}

pub(super) unsafe extern "C" fn ringbuf_output(
    _: &mut Env<'_, '_>,
    r1: u64,
    data: u64,
    size: u64,
    flags: u64,
    _: u64,
) -> u64 {
    if flags & !WAKEUPS != 0 {
        return Errno::EINVAL.as_return();
    }
    // SAFETY: the contract: a map that outlives the run, and memory of that size.
    unsafe {
        let Storage::Ringbuf(ring) = map(r1).storage() else {
            return Errno::EINVAL.as_return();
        };
        outcome(ring.output(&[(pointer(data).cast_const(), size as usize)], flags))
    }
}

/// The address of a record, or null where there is no room.
pub(super) unsafe extern "C" fn ringbuf_reserve(
    _: &mut Env<'_, '_>,
    r1: u64,
    size: u64,
    flags: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map that outlives the run.
    let Storage::Ringbuf(ring) = (unsafe { map(r1) }).storage() else {
        return 0;
    };
    if flags != 0 {
        return 0;
    }
    let record = ring.reserve(size);
    record.map_or(0, |record| record.expose_provenance() as u64)
}

pub(super) unsafe extern "C" fn ringbuf_submit(
    _: &mut Env<'_, '_>,
    record: u64,
    flags: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a record as it was reserved, given up once.
    unsafe { Ring::commit(pointer(record), false, flags) };
    0
}

pub(super) unsafe extern "C" fn ringbuf_discard(
    _: &mut Env<'_, '_>,
    record: u64,
    flags: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: as of submitting.
    unsafe { Ring::commit(pointer(record), true, flags) };
    0
}

pub(super) unsafe extern "C" fn ringbuf_query(
    _: &mut Env<'_, '_>,
    r1: u64,
    what: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: a map that outlives the run.
    let Storage::Ringbuf(ring) = (unsafe { map(r1) }).storage() else {
        return 0;
    };
    match what {
        0 => ring.waiting(),
        1 => ring.size(),
        2 => ring.consumed(),
        3 => ring.produced(),
        _ => 0,
    }
}
