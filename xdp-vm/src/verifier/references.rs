//! References: what a helper gave to the program, and the program must give back exactly once on every
//! path (kernel: `acquire_reference`, `release_reference`). A state holds a list of them; a register
//! that points to such a thing has the reference's number as its id, so that when it is given back
//! every copy is void, wherever it is.

use super::cause::Cause;
use super::state::{Kind, Reg, State};

/// Most references that a path may hold at a time: no program comes near, and states stay small.
const MOST_HELD: usize = 256;

/// A reference that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The id of the registers that point to it.
    pub id: u32,
    /// Slot of the call that gave it.
    pub acquired_at: usize,
}

/// The references that a path holds, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References(Vec<Held>);

impl References {
    /// Those held.
    pub fn held(&self) -> &[Held] {
        &self.0
    }

    /// Takes one off the list; false where it is not there.
    fn remove(&mut self, id: u32) -> bool {
        let place = self.0.iter().position(|held| held.id == id);
        place.map(|n| self.0.remove(n)).is_some()
    }
}

/// A pointer to what a call at `at` gave: of `kind`, with a reference that is held from now on.
pub(super) fn acquire(state: &mut State, kind: Kind, at: usize) -> Result<Reg, Cause> {
    if state.references.0.len() == MOST_HELD {
        return Err(Cause::TooManyReferences { most: MOST_HELD });
    }
    let id = state.fresh_id();
    state.references.0.push(Held {
        id,
        acquired_at: at,
    });
    Ok(Reg {
        id,
        ..Reg::pointer(kind)
    })
}

/// Gives back what `value`, argument `arg` of `helper`, points to. Every pointer to it is void.
pub(super) fn release(
    state: &mut State,
    helper: &'static str,
    arg: u8,
    value: &Reg,
) -> Result<(), Cause> {
    if value.off != 0 || !value.has_constant_offset() {
        return Err(Cause::ArgumentOffset { helper, arg });
    }
    if !state.references.remove(value.id) {
        let kind = value.kind.words();
        return Err(Cause::NotHeld { helper, arg, kind });
    }
    state.void(|reg| reg.kind.is_referenced() && reg.id == value.id);
    Ok(())
}

/// What a call gave turned out to be null: there is nothing to give back.
pub(super) fn was_null(state: &mut State, id: u32) {
    state.references.remove(id);
}

/// That nothing is held where the program ends, or goes over to another.
pub(super) fn none_held(state: &State) -> Result<(), Cause> {
    match state.references.0.first() {
        None => Ok(()),
        Some(held) => Err(Cause::ReferenceLeaked {
            acquired_at: held.acquired_at,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verifier::stack::Byte;

    /// Every copy is void once the thing is given back: in registers, and on stacks of callers.
    #[test]
    fn copies_are_void_when_it_is_given_back() {
        let mut state = State::entry();
        let record = acquire(&mut state, Kind::Record(8), 0).unwrap();
        let other = acquire(&mut state, Kind::Record(8), 1).unwrap();
        state.set(6, record);
        state.set(7, other);
        state.set(8, Reg { off: 4, ..record });
        state.top_mut().stack.store(-8, 8, &record);
        state.top_mut().stack.store(-16, 8, &other);
        release(&mut state, "h", 1, &record).unwrap();
        assert_eq!(state.reg(6).kind, Kind::Uninit);
        assert_eq!(state.reg(8).kind, Kind::Uninit);
        assert_eq!(*state.reg(7), other);
        assert_eq!(state.top().stack.byte(-8), Byte::Uninit);
        assert_eq!(state.top().stack.load(-16, 8), Ok(other));
        assert_eq!(state.references.held().len(), 1);
        let again = release(&mut state, "h", 1, &record);
        assert!(matches!(again, Err(Cause::NotHeld { .. })));
        let moved = release(&mut state, "h", 1, &Reg { off: 4, ..other });
        assert!(matches!(moved, Err(Cause::ArgumentOffset { .. })));
        was_null(&mut state, other.id);
        assert_eq!(none_held(&state), Ok(()));
    }

    #[test]
    fn held_references_are_bounded() {
        let mut state = State::entry();
        for at in 0..MOST_HELD {
            acquire(&mut state, Kind::Record(0), at).unwrap();
        }
        let most = acquire(&mut state, Kind::Record(0), 0);
        assert!(matches!(most, Err(Cause::TooManyReferences { .. })));
        let leaked = none_held(&state);
        assert_eq!(leaked, Err(Cause::ReferenceLeaked { acquired_at: 0 }));
    }
}
