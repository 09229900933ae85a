//! The stack of one function, by byte: what was never written, numbers of which nothing is known,
//! zeroes, and registers spilled whole or in their low part, which come back as they were.

use std::fmt;
use std::rc::Rc;

use super::alu;
use super::scalar::Scalar;
use super::state::{Kind, Origin, Reg};
use crate::insn::alu as op;

/// Bytes of a slot.
const SLOT: i32 = 8;

/// What one byte of the stack holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Byte {
    /// Nothing was written, or what was is void.
    Uninit,
    /// Part of a number.
    Misc,
    /// Zero.
    Zero,
    /// A byte of the slot's spilled register.
    Spill,
}

/// Eight aligned bytes. Slot `k` of a frame is the bytes from `-8 * (k + 1)` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The lowest address first.
    pub bytes: [Byte; 8],
    /// The spilled register; where only a low part was spilled, that part.
    pub reg: Reg,
}

impl Slot {
    const EMPTY: Slot = Slot {
        bytes: [Byte::Uninit; 8],
        reg: Reg::UNINIT,
    };

    /// True where the slot holds a pointer.
    pub fn holds_pointer(&self) -> bool {
        self.bytes[0] == Byte::Spill && self.reg.kind.is_pointer()
    }

    /// Bytes of the register that were spilled.
    fn spilled(&self) -> usize {
        self.bytes.iter().take_while(|b| **b == Byte::Spill).count()
    }

    /// Forgets the spilled register: a number's bytes stay readable, a pointer's do not.
    fn scrub(&mut self) {
        let rest = if self.reg.kind.is_pointer() {
            Byte::Uninit
        } else {
            Byte::Misc
        };
        for b in &mut self.bytes {
            if *b == Byte::Spill {
                *b = rest;
            }
        }
        self.reg = Reg::UNINIT;
    }
}

/// Why bytes of the stack cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackFault {
    /// The byte at this offset from the frame pointer was never written.
    Uninit(i32),
    /// The byte at this offset is part of a pointer.
    Pointer(i32),
}

/// The stack of one function. Copies share their slots until one is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    slots: Rc<Vec<Slot>>,
    /// Slots written whole since the last stored state, a bit a slot.
    pub(super) written: u64,
}

impl Stack {
    pub(super) fn new() -> Self {
        // Nothing of a function just entered can have been written before it.
        Stack {
            slots: Rc::new(vec![]),
            written: u64::MAX,
        }
    }

    /// The slots in use, from the frame pointer down.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Bytes in use.
    pub fn depth(&self) -> usize {
        self.slots.len() * SLOT as usize
    }

    /// The slots that `size` bytes at `off` touch, a bit each.
    pub(super) fn mask(off: i32, size: u32) -> u64 {
        let mut mask = 0;
        for k in slot_of(off + size.max(1) as i32 - 1)..=slot_of(off) {
            mask |= 1u64 << (k % 64);
        }
        mask
    }

    /// Stores `value` at a known offset: the caller has checked bounds, and that a pointer is stored
    /// whole and aligned. True where the number's being zero was made use of.
    pub(super) fn store(&mut self, off: i32, size: u32, value: &Reg) -> bool {
        let k = slot_of(off);
        let at = position(off);
        let size = size as usize;
        if at + size > 8 {
            // Aligned accesses do not cross slots; others are refused before.
            self.fill(off, size as u32, Byte::Misc);
            return false;
        }
        let slot = self.slot_mut(k);
        if at == 0 {
            let old_pointer = slot.holds_pointer();
            if slot.spilled() > size {
                slot.scrub();
            }
            if size < 8 && old_pointer {
                slot.scrub();
            }
            // What is left of an older, longer spill was scrubbed; a shorter one is overwritten.
            slot.bytes[..size].fill(Byte::Spill);
            slot.reg = match value.kind {
                Kind::Scalar => value.truncated(size as u32 * 8),
                _ => *value,
            };
            if size == 8 {
                self.written |= 1 << (k % 64);
            }
            return false;
        }
        if slot.spilled() > at || slot.holds_pointer() {
            slot.scrub();
        }
        let zero = value.as_constant() == Some(0);
        slot.bytes[at..at + size].fill(if zero { Byte::Zero } else { Byte::Misc });
        zero
    }

    /// Marks `size` bytes from `off` on as `byte`, which is not `Spill`.
    pub(super) fn fill(&mut self, off: i32, size: u32, byte: Byte) {
        let end = off + size as i32;
        let mut at = off;
        while at < end {
            let k = slot_of(at);
            let first = position(at);
            let last = (first + (end - at) as usize).min(8);
            let slot = self.slot_mut(k);
            if slot.bytes[0] == Byte::Spill {
                slot.scrub();
            }
            slot.bytes[first..last].fill(byte);
            if first == 0 && last == 8 {
                self.written |= 1 << (k % 64);
            }
            at += (last - first) as i32;
        }
    }

    /// Some bytes of `size` from `off` on may be overwritten with a number: what was initialised
    /// stays so, nothing of it is known any more. Fails where a pointer might be hit.
    pub(super) fn blur(&mut self, off: i32, size: u32) -> Result<(), StackFault> {
        for at in off..off + size as i32 {
            if self.slots.get(slot_of(at)).is_some_and(Slot::holds_pointer) {
                return Err(StackFault::Pointer(at));
            }
        }
        // They count as used, whether or not anything was there.
        self.slot_mut(slot_of(off));
        for at in off..off + size as i32 {
            let slot = &self.slots[slot_of(at)];
            if slot.bytes[position(at)] != Byte::Uninit {
                let slot = self.slot_mut(slot_of(at));
                if slot.bytes[0] == Byte::Spill {
                    slot.scrub();
                }
                slot.bytes[position(at)] = Byte::Misc;
            }
        }
        Ok(())
    }

    /// What a load of `size` bytes at `off` gives: a spilled register whole or in part, zero, or a
    /// number of that size.
    pub(super) fn load(&self, off: i32, size: u32) -> Result<Reg, StackFault> {
        let at = position(off);
        if at + size as usize <= 8
            && let Some(slot) = self.slots.get(slot_of(off))
        {
            let spilled = slot.spilled();
            if slot.holds_pointer() {
                return if size == 8 {
                    Ok(slot.reg)
                } else {
                    Err(StackFault::Pointer(off))
                };
            }
            if at + size as usize <= spilled {
                if at == 0 {
                    return Ok(slot.reg.truncated(size * 8));
                }
                let amount = Scalar::constant(at as u64 * 8);
                let shifted = alu::binary(op::RSH, false, true, slot.reg.scalar, amount);
                return Ok(Reg {
                    scalar: shifted.truncate(size * 8),
                    id: 0,
                    ..slot.reg
                });
            }
        }
        self.readable(off, size)?;
        let zero = (off..off + size as i32).all(|at| self.byte(at) == Byte::Zero);
        Ok(if zero {
            Reg::constant(0)
        } else {
            Reg::scalar(Scalar::of_size(size))
        })
    }

    /// That `size` bytes from `off` on are initialised and no part of a pointer.
    pub(super) fn readable(&self, off: i32, size: u32) -> Result<(), StackFault> {
        for at in off..off + size as i32 {
            match self.byte(at) {
                Byte::Uninit => return Err(StackFault::Uninit(at)),
                Byte::Spill if self.slots[slot_of(at)].holds_pointer() => {
                    return Err(StackFault::Pointer(at));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What the byte at `off` holds.
    pub fn byte(&self, off: i32) -> Byte {
        self.slots
            .get(slot_of(off))
            .map_or(Byte::Uninit, |s| s.bytes[position(off)])
    }

    /// Makes spilled registers void: their bytes are as if never written.
    pub(super) fn void(&mut self, which: &mut impl FnMut(&Reg) -> bool) {
        for k in 0..self.slots.len() {
            if self.slots[k].holds_pointer() && which(&self.slots[k].reg) {
                self.slot_mut(k).scrub();
            }
        }
    }

    /// Applies `f` to every spilled register.
    pub(super) fn for_each_spilled(&mut self, f: &mut impl FnMut(&mut Reg)) {
        for k in 0..self.slots.len() {
            if self.slots[k].bytes[0] == Byte::Spill {
                let mut reg = self.slots[k].reg;
                f(&mut reg);
                if reg != self.slots[k].reg {
                    self.slot_mut(k).reg = reg;
                }
            }
        }
    }

    /// From here on, numbers come from the state now stored.
    pub(super) fn restart(&mut self, depth: usize) {
        self.written = 0;
        for k in 0..self.slots.len() {
            let slot = &self.slots[k];
            if slot.bytes[0] == Byte::Spill && slot.reg.kind == Kind::Scalar {
                let origin = Origin::slot(depth, k);
                if slot.reg.origin != origin {
                    self.slot_mut(k).reg.origin = origin;
                }
            }
        }
    }

    /// The slot, made if it was not yet in use.
    fn slot_mut(&mut self, k: usize) -> &mut Slot {
        let slots = Rc::make_mut(&mut self.slots);
        if slots.len() <= k {
            slots.resize(k + 1, Slot::EMPTY);
        }
        &mut slots[k]
    }
}

/// The slot that the byte at `off` (negative) belongs to.
fn slot_of(off: i32) -> usize {
    ((-1 - off).max(0) / SLOT) as usize
}

/// Where in its slot the byte at `off` is.
fn position(off: i32) -> usize {
    off.rem_euclid(SLOT) as usize
}

/// As the kernel's log has it: ` fp-8=...` for each slot in use.
impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, slot) in self.slots.iter().enumerate() {
            if slot.bytes == [Byte::Uninit; 8] {
                continue;
            }
            write!(f, " fp-{}=", (k + 1) * 8)?;
            if slot.bytes[0] == Byte::Spill {
                write!(f, "{}", slot.reg)?;
                continue;
            }
            for b in slot.bytes.iter().rev() {
                f.write_str(match b {
                    Byte::Uninit => "?",
                    Byte::Misc => "m",
                    Byte::Zero => "0",
                    Byte::Spill => "s",
                })?;
            }
        }
        Ok(())
    }
}
