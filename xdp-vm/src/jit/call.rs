//! Calls of helpers: through the same functions as the interpreter, but for the worker's number, which
//! is in line as lookups in arrays are (`lookup`), and lookups in hashes, which skip the choice among
//! the kinds of map.

use std::mem::offset_of;

use super::compile::{Compiler, ENV};
use super::emit::{Mem, Reg, Size, Width};
use crate::cpu::Cpu;
use crate::helpers::{self, Env, Helper, helper, maps::hash_lookup};
use crate::maps::{Hash, Storage};

impl Compiler<'_> {
    pub(super) fn call_helper(&mut self, slot: usize, id: u32) -> Option<()> {
        if id == helpers::SMP_PROCESSOR_ID {
            self.cpu_slot(Reg::Rax);
            return Some(());
        }
        let map = self.flow.lookups[slot].and_then(|m| self.maps.at(m as usize));
        match map.map(|m| m.storage()) {
            Some(Storage::Hash(hash)) => self.look_up_hash(hash),
            _ => self.call_function(helper(id)?)?,
        }
        Some(())
    }

    /// The environment goes before the arguments, each of which moves one register on.
    pub(super) fn call_function(&mut self, function: Helper) -> Option<()> {
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
        self.call_address((function as *const ()).addr());
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

    /// The worker's number.
    pub(super) fn cpu_slot(&mut self, to: Reg) {
        let cpu = Mem::new(ENV, offset_of!(Env<'_, '_>, cpu) as i32);
        self.code.load(Size::B8, to, cpu);
        self.code
            .load(Size::B4, to, Mem::new(to, Cpu::SLOT_OFFSET as i32));
    }
}
