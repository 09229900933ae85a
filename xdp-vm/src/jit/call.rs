//! Calls of helpers: through the same functions as the interpreter, but for lookups in arrays and
//! the worker's number, which are in line, and lookups in hashes, which skip the choice among the
//! kinds of map.

use std::mem::offset_of;

use super::compile::{Compiler, ENV};
use super::emit::{Arith, Cond, Mem, Operand, Reg, Shift, Size, Width};
use crate::cpu::Cpu;
use crate::helpers::{self, Env, helper, maps::hash_lookup};
use crate::maps::{ArrayShape, Hash, Storage};

impl Compiler<'_> {
    pub(super) fn call_helper(&mut self, slot: usize, id: u32) -> Option<()> {
        if id == helpers::SMP_PROCESSOR_ID {
            self.cpu_slot(Reg::Rax);
            return Some(());
        }
        let map = self.flow.lookups[slot].and_then(|m| self.maps.at(m as usize));
        match map.map(|m| m.storage()) {
            Some(Storage::Array(array)) => self.look_up_array(array.shape()),
            Some(Storage::Hash(hash)) => self.look_up_hash(hash),
            _ => self.call_function(id)?,
        }
        Some(())
    }

    /// The environment goes before the arguments, each of which moves one register on.
    fn call_function(&mut self, id: u32) -> Option<()> {
        const ARGUMENTS: [(Reg, Reg); 5] = [
            (Reg::Rsi, Reg::Rdi),
            (Reg::Rdx, Reg::Rsi),
            (Reg::Rcx, Reg::Rdx),
            (Reg::R8, Reg::Rcx),
            (Reg::R9, Reg::R8),
        ];
        for (to, from) in ARGUMENTS.into_iter().rev() {
            self.code.mov(Width::W64, to, from);
        }
        self.code.mov(Width::W64, Reg::Rdi, ENV);
        self.call_address((helper(id)? as *const ()).addr());
        Some(())
    }

    fn call_address(&mut self, address: usize) {
        self.code.mov_imm(Reg::R11, address as u64);
        self.code.call_reg(Reg::R11);
    }

    fn look_up_hash(&mut self, hash: &Hash) {
        self.code.mov(Width::W64, Reg::Rdx, Reg::Rsi);
        self.cpu_slot(Reg::Rsi);
        let hash = std::ptr::from_ref(hash).expose_provenance();
        self.code.mov_imm(Reg::Rdi, hash as u64);
        self.call_address((hash_lookup as *const ()).addr());
    }

    /// r0 = the address of the value, or null past the end.
    fn look_up_array(&mut self, array: ArrayShape) {
        let index = Reg::Rax;
        self.code.load(Size::B4, index, Mem::new(Reg::Rsi, 0));
        // Entries are 32 bits without a sign, and so is the comparison.
        let entries = Operand::Imm(array.entries.cast_signed());
        self.code.arith(Arith::Cmp, Width::W32, index, entries);
        let past_the_end = self.code.jump_ahead(Some(Cond::AboveOrEqual));
        self.multiply(index, array.value_stride);
        if array.cpu_stride != 0 {
            self.cpu_slot(Reg::R11);
            self.multiply(Reg::R11, array.cpu_stride);
            self.code
                .arith(Arith::Add, Width::W64, index, Operand::Reg(Reg::R11));
        }
        self.code
            .mov_imm(Reg::R11, array.base.expose_provenance() as u64);
        self.code
            .arith(Arith::Add, Width::W64, index, Operand::Reg(Reg::R11));
        let done = self.code.jump_ahead(None);
        self.code.land(past_the_end);
        self.code.mov_imm(Reg::Rax, 0);
        self.code.land(done);
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

    /// The worker's number.
    fn cpu_slot(&mut self, to: Reg) {
        let cpu = Mem::new(ENV, offset_of!(Env<'_, '_>, cpu) as i32);
        self.code.load(Size::B8, to, cpu);
        self.code
            .load(Size::B4, to, Mem::new(to, Cpu::SLOT_OFFSET as i32));
    }
}
