//! Lookups in arrays, in line.
//!
//! A program that looks up an array puts the key on its stack, sets r2 to its address and r1 to the
//! map, calls, and compares what it got with null. Where all that stands together, the key goes to the
//! index straight from its register, and the only comparison left is that of the index with the number
//! of entries: r1 to r5 are nobody's to read after a call, and an entry that is there is not null.

use super::compile::{Compiler, reg};
use super::emit::{Arith, Cond, Mem, Operand, Reg, Shift, Size, Width};
use crate::Insn;
use crate::insn::{
    CLASS_ALU64, CLASS_JMP, CLASS_ST, CLASS_STX, MODE_MEM, SRC_X, alu, call, imm64, jmp,
};
use crate::maps::{ArrayShape, Storage};

const STORE32X: u8 = CLASS_STX | MODE_MEM;
const STORE32K: u8 = CLASS_ST | MODE_MEM;

const JEQ64K: u8 = CLASS_JMP | jmp::JEQ;
const JNE64K: u8 = CLASS_JMP | jmp::JNE;

/// Where an index comes from.
#[derive(Clone, Copy)]
enum Key {
    /// The memory that r2 points to.
    Memory,
    /// The low half of a register, which goes to the stack as well.
    Register { from: Reg, to: Mem },
    /// A number, which goes to the stack as well.
    Constant { index: i32, to: Mem },
}

/// Whether there is an entry.
enum Found {
    Always,
    Never,
    /// Where the comparison that was made says below.
    Below,
}

impl Compiler<'_> {
    /// A lookup in an array with what stands around it; gives the slots taken.
    pub(super) fn fused_lookup(&mut self, slot: usize) -> Option<usize> {
        if let Some(key) = self.key_on_stack(slot) {
            // The store, two for the address, two for the map.
            let call = slot + 5;
            let array = self.array_at(call)?;
            return Some(5 + self.lookup_and_test(call, key, array));
        }
        let array = self.array_at(slot)?;
        Some(self.lookup_and_test(slot, Key::Memory, array))
    }

    /// The array that a call looks up.
    fn array_at(&self, slot: usize) -> Option<ArrayShape> {
        let map = (*self.flow.lookups.get(slot)?)?;
        match self.maps.at(map as usize)?.storage() {
            Storage::Array(array) => Some(array.shape()),
            _ => None,
        }
    }

    /// The key that is put on the stack here for the lookup that follows at once.
    fn key_on_stack(&self, slot: usize) -> Option<Key> {
        let [store, copy, add, map, _, lookup] = *self.insns.get(slot..slot + 6)? else {
            return None;
        };
        let expected = [
            Insn { dst: 10, ..store },
            Insn {
                code: CLASS_ALU64 | alu::MOV | SRC_X,
                dst: 2,
                src: 10,
                ..Insn::default()
            },
            Insn {
                code: CLASS_ALU64 | alu::ADD,
                dst: 2,
                imm: i32::from(store.off),
                ..Insn::default()
            },
            Insn {
                dst: 1,
                src: imm64::MAP,
                ..map
            },
        ];
        let together = [store, copy, add, map] == expected
            && map.is_ld_imm64()
            && lookup.src == call::HELPER
            && [0, 1, 2, 4].iter().all(|n| self.may_fuse(slot + n));
        let to = Mem::new(reg(10), i32::from(store.off));
        match store.code {
            STORE32X if together && store.src < 10 => Some(Key::Register {
                from: reg(store.src),
                to,
            }),
            STORE32K if together && !self.is_blinding() => Some(Key::Constant {
                index: store.imm,
                to,
            }),
            _ => None,
        }
    }

    /// The lookup at `slot`, and the comparison with null that may follow it. Gives the slots taken.
    fn lookup_and_test(&mut self, slot: usize, key: Key, array: ArrayShape) -> usize {
        let test = self.insns.get(slot + 1).copied().unwrap_or_default();
        let of_null = Insn {
            code: test.code,
            off: test.off,
            ..Insn::default()
        };
        let code = match test == of_null && self.may_fuse(slot) {
            true => test.code,
            false => 0,
        };
        let distance = i32::from(test.off);
        let past_the_end = Some(Cond::AboveOrEqual);
        match (self.index(key, array), code) {
            (Found::Always, JNE64K) | (Found::Never, JEQ64K) => {
                self.jump(slot + 1, None, distance);
            }
            (Found::Always | Found::Never, _) => {}
            (Found::Below, JEQ64K) => {
                self.jump(slot + 1, past_the_end, distance);
                self.value_address(array);
            }
            (Found::Below, JNE64K) => {
                let past_the_end = self.code.jump_ahead(past_the_end);
                self.value_address(array);
                self.jump(slot + 1, None, distance);
                self.code.land(past_the_end);
            }
            (Found::Below, _) => {
                let past_the_end = self.code.jump_ahead(past_the_end);
                self.value_address(array);
                self.code.land(past_the_end);
            }
        }
        match code {
            JEQ64K | JNE64K => 2,
            _ => 1,
        }
    }

    /// Sets r0 to the address where the index is known, else to null, and the machine's r11 to the
    /// index, compared with the number of entries.
    fn index(&mut self, key: Key, array: ArrayShape) -> Found {
        match key {
            Key::Memory => self.code.load(Size::B4, Reg::R11, Mem::new(Reg::Rsi, 0)),
            Key::Register { from, to } => {
                self.code.store(Size::B4, to, from);
                self.code.mov(Width::W32, Reg::R11, from);
            }
            Key::Constant { index, to } => {
                self.code.store_imm(Size::B4, to, index);
                let index = index.cast_unsigned();
                if index >= array.entries {
                    self.code.mov_imm(Reg::Rax, 0);
                    return Found::Never;
                }
                self.code.mov_imm(Reg::R11, u64::from(index));
                self.value_address(array);
                return Found::Always;
            }
        }
        self.code.mov_imm(Reg::Rax, 0);
        // Entries are 32 bits without a sign, and so is the comparison.
        let entries = Operand::Imm(array.entries.cast_signed());
        self.code.arith(Arith::Cmp, Width::W32, Reg::R11, entries);
        Found::Below
    }

    /// r0 = the address of the value whose index is in the machine's r11.
    fn value_address(&mut self, array: ArrayShape) {
        let address = Reg::Rax;
        if array.cpu_stride != 0 {
            self.cpu_slot(address);
            self.multiply(address, array.cpu_stride);
        }
        self.multiply(Reg::R11, array.value_stride);
        if array.cpu_stride != 0 {
            self.code
                .arith(Arith::Add, Width::W64, Reg::R11, Operand::Reg(address));
        }
        self.code
            .mov_imm(address, array.base.expose_provenance() as u64);
        self.code
            .arith(Arith::Add, Width::W64, address, Operand::Reg(Reg::R11));
    }

    fn multiply(&mut self, reg: Reg, by: usize) {
        match i32::try_from(by) {
            Ok(_) if by.is_power_of_two() => {
                self.code
                    .shift_imm(Shift::Shl, Width::W64, reg, by.trailing_zeros() as u8);
            }
            Ok(by) => self.code.mul(Width::W64, reg, Operand::Imm(by)),
            Err(_) => {
                self.code.mov_imm(Reg::R10, by as u64);
                self.code.mul(Width::W64, reg, Operand::Reg(Reg::R10));
            }
        }
    }
}
