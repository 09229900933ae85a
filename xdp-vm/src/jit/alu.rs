//! Arithmetic.

use super::compile::{Compiler, reg};
use super::emit::{Arith, Cond, Mem, Operand, Reg, Shift, Size, Unary, Width};
use super::flow::is_dead;
use crate::Insn;
use crate::insn::{CLASS_ALU64, SRC_K, SRC_X, alu};

impl Compiler<'_> {
    pub(super) fn arithmetic(&mut self, slot: usize, insn: Insn, width: Width) -> Option<()> {
        let to = reg(insn.dst);
        match (insn.op(), insn.off) {
            (alu::ADD, 0) => self.simple(Arith::Add, slot, insn, width),
            (alu::SUB, 0) => self.simple(Arith::Sub, slot, insn, width),
            (alu::OR, 0) => self.simple(Arith::Or, slot, insn, width),
            (alu::AND, 0) => self.simple(Arith::And, slot, insn, width),
            (alu::XOR, 0) => self.simple(Arith::Xor, slot, insn, width),
            (alu::MUL, 0) => {
                let by = self.operand(slot, insn);
                self.code.mul(width, to, by);
            }
            (alu::DIV, 0 | 1) | (alu::MOD, 0 | 1) => {
                let division = Division {
                    width,
                    is_signed: insn.off == 1,
                    wants_remainder: insn.op() == alu::MOD,
                };
                self.divide(division, slot, insn);
            }
            (alu::LSH, 0) => self.shift(Shift::Shl, width, insn),
            (alu::RSH, 0) => self.shift(Shift::Shr, width, insn),
            (alu::ARSH, 0) => self.shift(Shift::Sar, width, insn),
            (alu::NEG, 0) if !insn.is_reg() => self.code.unary(Unary::Neg, width, to),
            (alu::MOV, 0) => match self.operand(slot, insn) {
                Operand::Reg(from) => self.code.mov(width, to, from),
                Operand::Imm(value) => self.code.mov_imm(to, extend(value, width)),
            },
            (alu::MOV, bits) if insn.is_reg() => {
                let size = match (bits, width) {
                    (8, _) => Size::B1,
                    (16, _) => Size::B2,
                    (32, Width::W64) => Size::B4,
                    _ => return None,
                };
                self.code.extend_signed(width, size, to, reg(insn.src));
            }
            (alu::END, 0) => self.byte_order(insn, width)?,
            _ => return None,
        }
        Some(())
    }

    fn simple(&mut self, op: Arith, slot: usize, insn: Insn, width: Width) {
        let right = self.operand(slot, insn);
        self.code.arith(op, width, reg(insn.dst), right);
    }

    /// To little-endian, which the machine is; to big-endian; and the swap that does not ask.
    fn byte_order(&mut self, insn: Insn, width: Width) -> Option<()> {
        let to = reg(insn.dst);
        let swaps = match (width, insn.is_reg()) {
            (Width::W32, swaps) => swaps,
            (Width::W64, false) => true,
            (Width::W64, true) => return None,
        };
        match (swaps, insn.imm) {
            (false, 16) => self.code.extend16(to, to),
            (false, 32) => self.code.mov(Width::W32, to, to),
            (false, 64) => {}
            (true, 16) => {
                self.code.swap16(to);
                self.code.extend16(to, to);
            }
            (true, 32) => self.code.swap(Width::W32, to),
            (true, 64) => self.code.swap(Width::W64, to),
            _ => return None,
        }
        Some(())
    }

    /// Distances count in their low bits only, in the machine as in the instruction set. They are not
    /// hidden: six bits say nothing.
    fn shift(&mut self, op: Shift, width: Width, insn: Insn) {
        let to = reg(insn.dst);
        if !insn.is_reg() {
            let mask = if width == Width::W64 { 63 } else { 31 };
            return match insn.imm as u8 & mask {
                0 if width == Width::W64 => {}
                0 => self.code.mov(width, to, to),
                distance => self.code.shift_imm(op, width, to, distance),
            };
        }
        let by = reg(insn.src);
        if self.features.bmi2 {
            return self.code.shift_reg(op, width, to, by);
        }
        // The distance has to be in cl.
        match (to, by) {
            (Reg::Rcx, _) => {
                self.code.mov(Width::W64, Reg::R11, Reg::Rcx);
                self.code.mov(Width::W64, Reg::Rcx, by);
                self.code.shift_cl(op, width, Reg::R11);
                self.code.mov(Width::W64, Reg::Rcx, Reg::R11);
            }
            (_, Reg::Rcx) => self.code.shift_cl(op, width, to),
            _ => {
                self.code.mov(Width::W64, Reg::R11, Reg::Rcx);
                self.code.mov(Width::W64, Reg::Rcx, by);
                self.code.shift_cl(op, width, to);
                self.code.mov(Width::W64, Reg::Rcx, Reg::R11);
            }
        }
    }

    fn divide(&mut self, division: Division, slot: usize, insn: Insn) {
        let to = reg(insn.dst);
        if insn.is_reg() {
            let by = reg(insn.src);
            self.code.test(division.width, by, Operand::Reg(by));
            let not_zero = self.code.jump_ahead(Some(Cond::NotEqual));
            self.divide_by_zero(division, to);
            let done = self.code.jump_ahead(None);
            self.code.land(not_zero);
            let done_too = division.is_signed.then(|| {
                self.code
                    .arith(Arith::Cmp, division.width, by, Operand::Imm(-1));
                let other = self.code.jump_ahead(Some(Cond::NotEqual));
                self.divide_by_minus_one(division, to);
                let done = self.code.jump_ahead(None);
                self.code.land(other);
                done
            });
            self.divide_in_general(division, to, by);
            self.code.land(done);
            if let Some(done) = done_too {
                self.code.land(done);
            }
            return;
        }
        let by = extend(insn.imm, division.width);
        match by {
            0 => self.divide_by_zero(division, to),
            _ if division.is_signed && insn.imm == -1 => self.divide_by_minus_one(division, to),
            _ if !division.is_signed && by.is_power_of_two() && !self.is_blinding() => {
                self.divide_by_power_of_two(division, to, by);
            }
            _ => {
                let by = match self.immediate(slot, insn.imm) {
                    Operand::Reg(hidden) => hidden,
                    Operand::Imm(_) => {
                        self.code.mov_imm(Reg::R11, by);
                        Reg::R11
                    }
                };
                self.divide_in_general(division, to, by);
            }
        }
    }

    /// The quotient is zero, the remainder what was divided.
    fn divide_by_zero(&mut self, division: Division, to: Reg) {
        match (division.wants_remainder, division.width) {
            (false, _) => self.code.mov_imm(to, 0),
            (true, Width::W32) => self.code.mov(Width::W32, to, to),
            (true, Width::W64) => {}
        }
    }

    /// The machine traps where the lowest number is divided by -1; here the quotient wraps.
    fn divide_by_minus_one(&mut self, division: Division, to: Reg) {
        match division.wants_remainder {
            false => self.code.unary(Unary::Neg, division.width, to),
            true => self.code.mov_imm(to, 0),
        }
    }

    fn divide_by_power_of_two(&mut self, division: Division, to: Reg, by: u64) {
        let log = by.trailing_zeros() as u8;
        match (division.wants_remainder, division.width) {
            (true, _) => {
                // At most 2^31 - 1.
                let mask = Operand::Imm((by - 1) as i32);
                self.code.arith(Arith::And, division.width, to, mask);
            }
            (false, Width::W64) if log == 0 => {}
            (false, Width::W32) if log == 0 => self.code.mov(Width::W32, to, to),
            (false, width) => self.code.shift_imm(Shift::Shr, width, to, log),
        }
    }

    /// The machine divides rdx:rax; what was there is kept in r9 and r10 of the machine.
    fn divide_in_general(&mut self, division: Division, to: Reg, by: Reg) {
        let width = division.width;
        if by != Reg::R11 {
            self.code.mov(width, Reg::R11, by);
        }
        if to != Reg::Rax {
            self.code.mov(Width::W64, Reg::R10, Reg::Rax);
            self.code.mov(width, Reg::Rax, to);
        }
        if to != Reg::Rdx {
            self.code.mov(Width::W64, Reg::R9, Reg::Rdx);
        }
        if division.is_signed {
            self.code.sign_to_rdx(width);
            self.code.unary(Unary::Idiv, width, Reg::R11);
        } else {
            self.code.mov_imm(Reg::Rdx, 0);
            self.code.unary(Unary::Div, width, Reg::R11);
        }
        let result = if division.wants_remainder {
            Reg::Rdx
        } else {
            Reg::Rax
        };
        if to != result {
            self.code.mov(width, to, result);
        }
        if to != Reg::Rax {
            self.code.mov(Width::W64, Reg::Rax, Reg::R10);
        }
        if to != Reg::Rdx {
            self.code.mov(Width::W64, Reg::Rdx, Reg::R9);
        }
    }

    /// Pairs of instructions that the machine has one for; gives the slots taken.
    pub(super) fn fused(&mut self, slot: usize) -> Option<usize> {
        let (first, second) = (self.insns[slot], *self.insns.get(slot + 1)?);
        if first.dst != second.dst || !self.may_fuse(slot) {
            return None;
        }
        let to = reg(first.dst);
        let shifts = (first.imm, second.imm) == (32, 32) && first.code == LSH64K;
        match (first.code, second.code) {
            (MOV64X, ADD64K) if plain(first) && plain(second) && !self.is_blinding() => {
                self.code.lea(to, Mem::new(reg(first.src), second.imm));
            }
            (MOV64X, ADD64X) if plain(first) && plain(second) && second.src != second.dst => {
                self.code
                    .lea(to, Mem::indexed(reg(first.src), reg(second.src)));
            }
            // How compilers clear or fill the upper half where they know of no 32-bit moves.
            (LSH64K, RSH64K) if shifts && plain(first) && plain(second) => {
                self.code.mov(Width::W32, to, to);
            }
            (LSH64K, ARSH64K) if shifts && plain(first) && plain(second) => {
                self.code.extend_signed(Width::W64, Size::B4, to, to);
            }
            _ => return None,
        }
        Some(2)
    }

    /// True where the next slot is reached from this one only.
    pub(super) fn may_fuse(&self, slot: usize) -> bool {
        !self.flow.is_target[slot + 1]
            && !is_dead(self.notes, slot + 1)
            && self.flow.functions.iter().all(|f| f.start != slot + 1)
    }
}

const MOV64X: u8 = CLASS_ALU64 | alu::MOV | SRC_X;
const ADD64X: u8 = CLASS_ALU64 | alu::ADD | SRC_X;
const ADD64K: u8 = CLASS_ALU64 | alu::ADD | SRC_K;
const LSH64K: u8 = CLASS_ALU64 | alu::LSH | SRC_K;
const RSH64K: u8 = CLASS_ALU64 | alu::RSH | SRC_K;
const ARSH64K: u8 = CLASS_ALU64 | alu::ARSH | SRC_K;

/// Not one of the operations that the offset makes of another.
fn plain(insn: Insn) -> bool {
    insn.off == 0
}

/// What a division gives.
#[derive(Clone, Copy)]
struct Division {
    width: Width,
    is_signed: bool,
    wants_remainder: bool,
}

/// An immediate as an operand of this width.
fn extend(value: i32, width: Width) -> u64 {
    match width {
        Width::W64 => i64::from(value).cast_unsigned(),
        Width::W32 => u64::from(value.cast_unsigned()),
    }
}
