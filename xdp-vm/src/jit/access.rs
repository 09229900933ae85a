//! Loads, stores and atomic operations.

use super::compile::{Compiler, reg};
use super::emit::{Arith, Cond, Mem, Operand, Reg, Size, Width};
use crate::Insn;
use crate::insn::{CLASS_LDX, CLASS_ST, CLASS_STX, MODE_ATOMIC, MODE_MEM, MODE_MEMSX, atomic};

impl Compiler<'_> {
    pub(super) fn access(&mut self, slot: usize, insn: Insn) -> Option<()> {
        let size = match insn.size() {
            1 => Size::B1,
            2 => Size::B2,
            4 => Size::B4,
            _ => Size::B8,
        };
        let at = |register| Mem::new(reg(register), i32::from(insn.off));
        match (insn.class(), insn.mode()) {
            (CLASS_LDX, MODE_MEM) => self.code.load(size, reg(insn.dst), at(insn.src)),
            (CLASS_LDX, MODE_MEMSX) if size != Size::B8 => {
                self.code.load_signed(size, reg(insn.dst), at(insn.src));
            }
            (CLASS_STX, MODE_MEM) => self.code.store(size, at(insn.dst), reg(insn.src)),
            (CLASS_ST, MODE_MEM) => match self.immediate(slot, insn.imm) {
                Operand::Imm(value) => self.code.store_imm(size, at(insn.dst), value),
                Operand::Reg(hidden) => self.code.store(size, at(insn.dst), hidden),
            },
            (CLASS_STX, MODE_ATOMIC) => match size {
                Size::B8 => self.atomic(insn, Width::W64)?,
                Size::B4 => self.atomic(insn, Width::W32)?,
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }

    fn atomic(&mut self, insn: Insn, width: Width) -> Option<()> {
        let at = Mem::new(reg(insn.dst), i32::from(insn.off));
        let from = reg(insn.src);
        match insn.imm {
            atomic::XCHG => self.code.xchg(width, at, from),
            atomic::CMPXCHG => {
                self.code.lock_cmpxchg(width, at, from);
                if width == Width::W32 {
                    // The machine leaves rax alone where the values were equal.
                    self.code.mov(width, Reg::Rax, Reg::Rax);
                }
            }
            _ => {
                let op = match insn.imm & !atomic::FETCH {
                    atomic::ADD => Arith::Add,
                    atomic::OR => Arith::Or,
                    atomic::AND => Arith::And,
                    atomic::XOR => Arith::Xor,
                    _ => return None,
                };
                match (insn.imm & atomic::FETCH != 0, op) {
                    (false, op) => self.code.lock_arith(op, width, at, from),
                    (true, Arith::Add) => self.code.lock_xadd(width, at, from),
                    (true, op) => self.fetch(op, insn, width),
                }
            }
        }
        Some(())
    }

    /// The machine has no such operation that gives the old value: it is tried until nobody came
    /// between. That takes rax, so r0 waits in r11 of the machine.
    fn fetch(&mut self, op: Arith, insn: Insn, width: Width) {
        let kept = |register: Reg| {
            if register == Reg::Rax {
                Reg::R11
            } else {
                register
            }
        };
        let at = Mem::new(kept(reg(insn.dst)), i32::from(insn.off));
        let from = kept(reg(insn.src));
        self.code.mov(Width::W64, Reg::R11, Reg::Rax);
        let size = if width == Width::W64 {
            Size::B8
        } else {
            Size::B4
        };
        self.code.load(size, Reg::Rax, at);
        let again = self.code.len();
        self.code.mov(width, Reg::R10, Reg::Rax);
        self.code.arith(op, width, Reg::R10, Operand::Reg(from));
        self.code.lock_cmpxchg(width, at, Reg::R10);
        self.code.jump_back(Cond::NotEqual, again);
        if from == Reg::R11 {
            // The old value is for r0, where it is already: also its upper half is clear, since the
            // load cleared it.
            return;
        }
        self.code.mov(width, from, Reg::Rax);
        self.code.mov(Width::W64, Reg::Rax, Reg::R11);
    }
}
