//! Spin locks in map values (kernel: `process_spin_lock`): one at a time, taken and released through
//! pointers of one look-up, with no call of a helper in between; and a lock's own bytes are nobody's to
//! read or write.

use super::cause::Cause;
use super::state::{Kind, Reg, State};
use super::step::Env;
use crate::MapSpec;

/// Bytes of `struct bpf_spin_lock`.
const SIZE: i64 = 4;

/// A lock that a path holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The map, as a register's kind names it.
    pub map: u32,
    /// The id of the pointers that came from the same look-up; 0 of a map's only value.
    pub id: u32,
}

/// True where pointers to the map's values keep the id of their look-up, to tell locks apart.
pub(super) fn tells_values_apart(env: &Env<'_>, kind: Kind) -> bool {
    matches!(kind, Kind::MapValue(map) if env.map(map).spin_lock.is_some())
}

/// The lock that argument 1 of `helper` points to.
fn lock_of(env: &Env<'_>, helper: &'static str, value: &Reg) -> Result<HeldLock, Cause> {
    let Kind::MapValue(map) = value.kind else {
        return Err(match value.kind.not_null() {
            Some(_) => Cause::MaybeNull { reg: 1 },
            None => Cause::Argument {
                helper,
                arg: 1,
                wanted: "a spin lock in a map value",
                kind: value.kind.words(),
            },
        });
    };
    let spec = env.map(map);
    let at = value.has_constant_offset().then(|| value.offsets().0);
    match (spec.spin_lock, at) {
        (Some(lock), Some(at)) if i64::from(lock) == at => Ok(HeldLock { map, id: value.id }),
        _ => Err(Cause::NotALock {
            map: spec.name.clone(),
        }),
    }
}

/// `bpf_spin_lock`.
pub(super) fn take(env: &Env<'_>, state: &mut State, value: &Reg) -> Result<(), Cause> {
    let lock = lock_of(env, "bpf_spin_lock", value)?;
    if state.lock.is_some() {
        return Err(Cause::SecondLock);
    }
    state.lock = Some(lock);
    Ok(())
}

/// `bpf_spin_unlock`.
pub(super) fn release(env: &Env<'_>, state: &mut State, value: &Reg) -> Result<(), Cause> {
    let lock = lock_of(env, "bpf_spin_unlock", value)?;
    if state.lock != Some(lock) {
        return Err(Cause::LockNotHeld);
    }
    state.lock = None;
    Ok(())
}

/// That no lock is held where a helper is called or the program ends.
pub(super) fn none_held(state: &State, what: &'static str) -> Result<(), Cause> {
    match state.lock {
        None => Ok(()),
        Some(_) => Err(Cause::LockHeld { what }),
    }
}

/// That bytes `low` to before `end` of a value have nothing of its lock in them.
pub(super) fn untouched(spec: &MapSpec, low: i64, end: i64) -> Result<(), Cause> {
    match spec.spin_lock.map(i64::from) {
        Some(lock) if low < lock + SIZE && lock < end => Err(Cause::LockTouched {
            map: spec.name.clone(),
        }),
        _ => Ok(()),
    }
}
