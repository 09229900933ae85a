//! When a path need not be followed: everything that may happen from its state may happen from one
//! stored at the same place, and from there all ends were found safe.
//!
//! What nobody looked at from the stored state on does not count: registers that are not live,
//! stack slots never read, and of numbers on which no decision hung only that they are numbers.

use super::live::Regs;
use super::stack::Byte;
use super::state::{Demand, Kind, Origin, Reg, State};

/// What counts in a stored state.
pub(super) struct Lens<'a> {
    /// Live registers of each frame.
    pub(super) live: &'a [Regs],
    /// What was asked of the stored state; `None` takes everything as asked for.
    pub(super) demand: Option<&'a Demand>,
}

/// True where `old` covers `new`.
pub(super) fn covers(old: &State, new: &State, lens: &Lens<'_>) -> bool {
    if !same_calls(old, new) {
        return false;
    }
    let mut ids = Ids::default();
    if !references_cover(old, new, &mut ids) || !lock_covers(old, new, &mut ids) {
        return false;
    }
    for depth in 0..old.frames.len() {
        let (o, n) = (&old.frames[depth], &new.frames[depth]);
        for r in 0..10 {
            if lens.live[depth] & (1 << r) == 0 {
                continue;
            }
            let exact = lens
                .demand
                .is_none_or(|d| d.precise.meets(Origin::reg(depth, r)));
            if !reg_covers(&o.regs[r], &n.regs[r], exact, &mut ids) {
                return false;
            }
        }
    }
    (0..old.frames.len()).all(|depth| stack_covers(old, new, depth, lens, &mut ids))
}

/// True where the two states are the same in all that counts: a path that comes back to one of its
/// own states never ends.
pub(super) fn same(old: &State, new: &State, live: &[Regs]) -> bool {
    let lens = Lens { live, demand: None };
    covers(old, new, &lens) && covers(new, old, &lens)
}

/// The same number of references, each the other's counterpart by the order in which they came.
fn references_cover(old: &State, new: &State, ids: &mut Ids) -> bool {
    let (old, new) = (old.references.held(), new.references.held());
    old.len() == new.len() && old.iter().zip(new).all(|(o, n)| ids.agree(o.id, n.id))
}

/// Both hold a lock of the same map, or neither one.
fn lock_covers(old: &State, new: &State, ids: &mut Ids) -> bool {
    match (old.lock, new.lock) {
        (None, None) => true,
        (Some(o), Some(n)) => o.map == n.map && ids.agree(o.id, n.id),
        _ => false,
    }
}

fn same_calls(old: &State, new: &State) -> bool {
    old.frames.len() == new.frames.len()
        && old
            .frames
            .iter()
            .zip(&new.frames)
            .all(|(o, n)| o.return_to == n.return_to && o.function == n.function)
}

/// Which id of the new state stands for which of the old: what was equal in the old state must be
/// equal in the new one.
#[derive(Default)]
struct Ids(Vec<(u32, u32)>);

impl Ids {
    fn agree(&mut self, old: u32, new: u32) -> bool {
        if old == 0 {
            return true;
        }
        match self.0.iter().find(|(o, _)| *o == old) {
            // 0 is nobody's: two of them are not known to be equal.
            Some(&(_, known)) => known == new && new != 0,
            None => {
                self.0.push((old, new));
                true
            }
        }
    }
}

fn reg_covers(old: &Reg, new: &Reg, exact: bool, ids: &mut Ids) -> bool {
    match (old.kind, new.kind) {
        // The path from the old state did without it.
        (Kind::Uninit, _) => true,
        (Kind::Scalar, Kind::Scalar) => {
            !exact || (old.scalar.includes(&new.scalar) && ids.agree(old.id, new.id))
        }
        (o, n) if o == n => {
            old.off == new.off
                && old.range <= new.range
                && old.scalar.includes(&new.scalar)
                && ids.agree(old.id, new.id)
        }
        _ => false,
    }
}

fn stack_covers(old: &State, new: &State, depth: usize, lens: &Lens<'_>, ids: &mut Ids) -> bool {
    let (o, n) = (&old.frames[depth].stack, &new.frames[depth].stack);
    for (k, slot) in o.slots().iter().enumerate() {
        if lens
            .demand
            .is_some_and(|d| d.reads[depth] & (1 << (k % 64)) == 0)
        {
            continue;
        }
        let exact = lens
            .demand
            .is_none_or(|d| d.precise.meets(Origin::slot(depth, k)));
        let base = -8 * (k as i32 + 1);
        let other = n.slots().get(k);
        if slot.holds_pointer() {
            let covered = other
                .is_some_and(|s| s.holds_pointer() && reg_covers(&slot.reg, &s.reg, true, ids));
            if !covered {
                return false;
            }
            continue;
        }
        let spilled = slot.bytes.iter().take_while(|b| **b == Byte::Spill).count();
        if spilled > 0 && exact {
            let Some(s) = other else { return false };
            let same_size = s.bytes[..spilled].iter().all(|b| *b == Byte::Spill)
                && (spilled == 8 || s.bytes[spilled] != Byte::Spill);
            if !same_size || !reg_covers(&slot.reg, &s.reg, true, ids) {
                return false;
            }
        }
        for at in 0..8 {
            let new_byte = n.byte(base + at as i32);
            let pointer = other.is_some_and(|s| s.holds_pointer());
            let covered = match slot.bytes[at] {
                Byte::Uninit => true,
                _ if pointer => false,
                Byte::Zero => new_byte == Byte::Zero,
                Byte::Misc | Byte::Spill => new_byte != Byte::Uninit,
            };
            if !covered {
                return false;
            }
        }
    }
    true
}
