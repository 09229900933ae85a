//! Arithmetic and comparisons another way than the other engines': by numbers of 128 bits.

use crate::Insn;
use crate::insn::{alu, jmp};

/// A number moved, its low `bits` extended by their sign where `bits` is not zero.
pub(super) fn moved(n: u64, bits: i16, wide: bool) -> u64 {
    let n = match bits {
        8 => n as i8 as i64 as u64,
        16 => n as i16 as i64 as u64,
        32 => n as i32 as i64 as u64,
        _ => n,
    };
    if wide { n } else { u64::from(n as u32) }
}

/// Negation, and changes of the order of bytes.
pub(super) fn unary(i: &Insn, n: u64, wide: bool) -> u64 {
    if i.op() == alu::NEG {
        let n = (n as i64).wrapping_neg() as u64;
        return if wide { n } else { u64::from(n as u32) };
    }
    let swap = wide || i.is_reg();
    match (i.imm, swap) {
        (16, true) => u64::from((n as u16).swap_bytes()),
        (32, true) => u64::from((n as u32).swap_bytes()),
        (_, true) => n.swap_bytes(),
        (16, _) => u64::from(n as u16),
        (32, _) => u64::from(n as u32),
        _ => n,
    }
}

/// What has two operands.
pub(super) fn binary(i: &Insn, a: u64, b: u64, wide: bool) -> u64 {
    let bits = if wide { 64 } else { 32 };
    let mask = if wide { u64::MAX } else { 0xffff_ffff };
    let (a, b) = (a & mask, b & mask);
    let signed = |v: u64| {
        let shift = 64 - bits;
        i128::from(((v << shift) as i64) >> shift)
    };
    let (ua, ub) = (i128::from(a), i128::from(b));
    let amount = (b % bits) as u32;
    let out: i128 = match i.op() {
        alu::ADD => ua + ub,
        alu::SUB => ua - ub,
        alu::MUL => return a.wrapping_mul(b) & mask,
        alu::DIV if b == 0 => 0,
        alu::MOD if b == 0 => ua,
        alu::DIV if i.off == 1 => signed(a) / signed(b),
        alu::MOD if i.off == 1 => signed(a) % signed(b),
        alu::DIV => ua / ub,
        alu::MOD => ua % ub,
        alu::OR => ua | ub,
        alu::AND => ua & ub,
        alu::XOR => ua ^ ub,
        alu::LSH => ua << amount,
        alu::RSH => ua >> amount,
        _ => signed(a) >> amount,
    };
    out as u64 & mask
}

/// True where the condition of a jump holds.
pub(super) fn compare(op: u8, wide: bool, a: u64, b: u64) -> bool {
    let (a, b) = if wide {
        (a, b)
    } else {
        (a & 0xffff_ffff, b & 0xffff_ffff)
    };
    let signed = |v: u64| {
        if wide {
            v.cast_signed()
        } else {
            i64::from(v as u32 as i32)
        }
    };
    match op {
        jmp::JEQ => a == b,
        jmp::JNE => a != b,
        jmp::JGT => a > b,
        jmp::JGE => a >= b,
        jmp::JLT => a < b,
        jmp::JLE => a <= b,
        jmp::JSGT => signed(a) > signed(b),
        jmp::JSGE => signed(a) >= signed(b),
        jmp::JSLT => signed(a) < signed(b),
        jmp::JSLE => signed(a) <= signed(b),
        _ => a & b != 0,
    }
}
