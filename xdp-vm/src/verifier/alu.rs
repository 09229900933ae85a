//! What arithmetic does to what is known: for each operation of RFC 9669, section 4.1, a scalar that
//! holds every result for every pair of operands. The low half of most results depends on the low
//! halves of the operands alone, so a 32-bit operation is the 64-bit one on operands that are zero-
//! and sign-extended from 32 bits, and a 64-bit operation learns its low half in the same way.

use super::scalar::{Bounds, Scalar};
use super::tnum::Tnum;
use crate::insn::alu;

/// `a op b` of 64 bits, or of the low 32 bits with the upper half cleared. `signed` selects the
/// signed forms of division and remainder.
pub(super) fn binary(op: u8, signed: bool, wide: bool, a: Scalar, b: Scalar) -> Scalar {
    if let (Some(x), Some(y)) = (a.as_constant(), b.as_constant()) {
        return Scalar::constant(concrete(op, signed, wide, x, y));
    }
    if wide {
        let whole = operate(op, signed, a, b);
        if !low_half_is_independent(op) {
            return whole;
        }
        let low = low_half(op, signed, a, b);
        let known_low = Scalar {
            tnum: Tnum {
                value: low.tnum.value,
                mask: low.tnum.mask | 0xffff_ffff_0000_0000,
            },
            w64: Bounds::ALL_64,
            w32: low.w32,
        };
        return whole.meet(known_low).unwrap_or(whole);
    }
    match op {
        alu::DIV | alu::MOD if signed => {
            operate(op, signed, a.sign_extend(32), b.sign_extend(32)).truncate(32)
        }
        alu::DIV | alu::MOD | alu::RSH => {
            operate(op, signed, a.truncate(32), shift_amount(op, b)).truncate(32)
        }
        alu::ARSH => operate(op, signed, a.sign_extend(32), shift_amount(op, b)).truncate(32),
        _ => low_half(op, signed, a, b),
    }
}

/// `-a`.
pub(super) fn neg(wide: bool, a: Scalar) -> Scalar {
    binary(alu::SUB, false, wide, Scalar::constant(0), a)
}

/// The low `bits` bits of `a` with their bytes in the opposite order.
pub(super) fn swap_bytes(bits: u32, a: Scalar) -> Scalar {
    let a = a.truncate(bits);
    let shift = 64 - bits;
    let t = Tnum {
        value: a.tnum.value.swap_bytes() >> shift,
        mask: a.tnum.mask.swap_bytes() >> shift,
    };
    Scalar {
        tnum: t,
        ..Scalar::UNKNOWN
    }
    .settle()
    .unwrap_or(Scalar::of_size(bits / 8))
}

/// What the engines compute: division by zero gives 0, the remainder by zero the dividend, shifts
/// take their amount modulo the width (RFC 9669, section 4.1).
pub(super) fn concrete(op: u8, signed: bool, wide: bool, x: u64, y: u64) -> u64 {
    if !wide {
        let (a, b) = (x as u32, y as u32);
        let (sa, sb) = (a as i32, b as i32);
        return u64::from(match op {
            alu::ADD => a.wrapping_add(b),
            alu::SUB => a.wrapping_sub(b),
            alu::MUL => a.wrapping_mul(b),
            alu::DIV if signed => match sb {
                0 => 0,
                _ => sa.wrapping_div(sb) as u32,
            },
            alu::DIV => a.checked_div(b).unwrap_or(0),
            alu::MOD if signed => match sb {
                0 => a,
                _ => sa.wrapping_rem(sb) as u32,
            },
            alu::MOD => a.checked_rem(b).unwrap_or(a),
            alu::OR => a | b,
            alu::AND => a & b,
            alu::XOR => a ^ b,
            alu::LSH => a.wrapping_shl(b),
            alu::RSH => a.wrapping_shr(b),
            alu::ARSH => sa.wrapping_shr(b) as u32,
            _ => b,
        });
    }
    let (sx, sy) = (x as i64, y as i64);
    match op {
        alu::ADD => x.wrapping_add(y),
        alu::SUB => x.wrapping_sub(y),
        alu::MUL => x.wrapping_mul(y),
        alu::DIV if signed => match sy {
            0 => 0,
            _ => sx.wrapping_div(sy) as u64,
        },
        alu::DIV => x.checked_div(y).unwrap_or(0),
        alu::MOD if signed => match sy {
            0 => x,
            _ => sx.wrapping_rem(sy) as u64,
        },
        alu::MOD => x.checked_rem(y).unwrap_or(x),
        alu::OR => x | y,
        alu::AND => x & y,
        alu::XOR => x ^ y,
        alu::LSH => x.wrapping_shl(y as u32),
        alu::RSH => x.wrapping_shr(y as u32),
        alu::ARSH => sx.wrapping_shr(y as u32) as u64,
        _ => y,
    }
}

/// True where the low half of the result depends on nothing but the low halves of the operands.
fn low_half_is_independent(op: u8) -> bool {
    matches!(
        op,
        alu::ADD | alu::SUB | alu::MUL | alu::OR | alu::AND | alu::XOR
    )
}

/// The low half of the result, zero-extended, by both ways to extend the operands.
fn low_half(op: u8, signed: bool, a: Scalar, b: Scalar) -> Scalar {
    let amount = |b: Scalar, extended: Scalar| match op {
        alu::LSH => shift_amount(op, b),
        _ => extended,
    };
    let zero = operate(op, signed, a.truncate(32), amount(b, b.truncate(32))).truncate(32);
    let sign = operate(op, signed, a.sign_extend(32), amount(b, b.sign_extend(32))).truncate(32);
    zero.meet(sign).unwrap_or(zero)
}

/// The amount of a 32-bit shift: its low five bits. Other operations take their low half.
fn shift_amount(op: u8, b: Scalar) -> Scalar {
    match op {
        alu::LSH | alu::RSH | alu::ARSH => {
            if b.w64.umax < 32 {
                b
            } else {
                operate(alu::AND, false, b, Scalar::constant(31))
            }
        }
        _ => b.truncate(32),
    }
}

/// The 64-bit operation, part by part.
fn operate(op: u8, signed: bool, a: Scalar, b: Scalar) -> Scalar {
    let (tnum, w64) = match op {
        alu::ADD => (a.tnum.wrapping_add(b.tnum), add(a.w64, b.w64)),
        alu::SUB => (a.tnum.wrapping_sub(b.tnum), sub(a.w64, b.w64)),
        alu::MUL => (a.tnum.wrapping_mul(b.tnum), mul(a.w64, b.w64)),
        alu::AND => (a.tnum.and(b.tnum), and(a.w64, b.w64)),
        alu::OR => (a.tnum.or(b.tnum), or(a.w64, b.w64)),
        alu::XOR => (a.tnum.xor(b.tnum), xor(a.w64, b.w64)),
        alu::DIV if signed => (Tnum::UNKNOWN, sdiv(a.w64, b.w64)),
        alu::DIV => (Tnum::UNKNOWN, div(a.w64, b.w64)),
        alu::MOD if signed => (Tnum::UNKNOWN, smod(a.w64, b.w64)),
        alu::MOD => (Tnum::UNKNOWN, modulo(a.w64, b.w64)),
        alu::LSH | alu::RSH | alu::ARSH => shift(op, a, b),
        // A move is not arithmetic; its result is the second operand.
        alu::MOV => return b,
        _ => (Tnum::UNKNOWN, Bounds::ALL_64),
    };
    let w32 = Bounds::ALL_32;
    Scalar { tnum, w64, w32 }
        .settle()
        .unwrap_or(Scalar::UNKNOWN)
}

/// Unsigned bounds, the signed ones left open.
fn unsigned(umin: u64, umax: u64) -> Bounds {
    Bounds {
        umin,
        umax,
        ..Bounds::ALL_64
    }
}

/// Signed bounds, the unsigned ones left open.
fn signed(smin: i64, smax: i64) -> Bounds {
    Bounds {
        smin,
        smax,
        ..Bounds::ALL_64
    }
}

/// Where both ends wrap, or neither, the interval stays one.
fn add(a: Bounds, b: Bounds) -> Bounds {
    let mut out = Bounds::ALL_64;
    let (umin, low) = a.umin.overflowing_add(b.umin);
    let (umax, high) = a.umax.overflowing_add(b.umax);
    if low == high {
        (out.umin, out.umax) = (umin, umax);
    }
    if let (Some(smin), Some(smax)) = (a.smin.checked_add(b.smin), a.smax.checked_add(b.smax)) {
        (out.smin, out.smax) = (smin, smax);
    }
    out
}

fn sub(a: Bounds, b: Bounds) -> Bounds {
    let mut out = Bounds::ALL_64;
    let (umin, low) = a.umin.overflowing_sub(b.umax);
    let (umax, high) = a.umax.overflowing_sub(b.umin);
    if low == high {
        (out.umin, out.umax) = (umin, umax);
    }
    if let (Some(smin), Some(smax)) = (a.smin.checked_sub(b.smax), a.smax.checked_sub(b.smin)) {
        (out.smin, out.smax) = (smin, smax);
    }
    out
}

fn mul(a: Bounds, b: Bounds) -> Bounds {
    let mut out = Bounds::ALL_64;
    if let (Some(umin), Some(umax)) = (a.umin.checked_mul(b.umin), a.umax.checked_mul(b.umax)) {
        (out.umin, out.umax) = (umin, umax);
    }
    let ends = [
        a.smin.checked_mul(b.smin),
        a.smin.checked_mul(b.smax),
        a.smax.checked_mul(b.smin),
        a.smax.checked_mul(b.smax),
    ];
    if let [Some(w), Some(x), Some(y), Some(z)] = ends {
        (out.smin, out.smax) = (w.min(x).min(y).min(z), w.max(x).max(y).max(z));
    }
    out
}

/// Never more than either operand; never negative if one of them is not.
fn and(a: Bounds, b: Bounds) -> Bounds {
    let mut out = unsigned(0, a.umax.min(b.umax));
    if a.smin >= 0 || b.smin >= 0 {
        out.smin = 0;
    } else {
        // Every bit above the highest that a negative end lacks stays set.
        let floor = |m: i64| -> i64 {
            if m >= 0 {
                0
            } else {
                let bits = 64 - (!m as u64).leading_zeros();
                if bits >= 63 {
                    i64::MIN
                } else {
                    -(1i64 << bits)
                }
            }
        };
        out.smin = floor(a.smin).min(floor(b.smin));
    }
    out
}

/// Never less than either operand, no bit above the highest of both.
fn or(a: Bounds, b: Bounds) -> Bounds {
    unsigned(a.umin.max(b.umin), all_ones(a.umax | b.umax))
}

fn xor(a: Bounds, b: Bounds) -> Bounds {
    unsigned(0, all_ones(a.umax | b.umax))
}

/// The highest set bit of `v` and all below it.
fn all_ones(v: u64) -> u64 {
    match v.leading_zeros() {
        64 => 0,
        n => u64::MAX >> n,
    }
}

fn div(a: Bounds, b: Bounds) -> Bounds {
    // Division by zero gives zero.
    let umin = if b.umin == 0 { 0 } else { a.umin / b.umax };
    unsigned(umin, a.umax / b.umin.max(1))
}

fn modulo(a: Bounds, b: Bounds) -> Bounds {
    // The remainder by zero is the dividend.
    if b.umin == 0 {
        return unsigned(0, a.umax);
    }
    if a.umax < b.umin {
        return unsigned(a.umin, a.umax);
    }
    unsigned(0, a.umax.min(b.umax - 1))
}

fn sdiv(a: Bounds, b: Bounds) -> Bounds {
    if a.smin >= 0 && b.smin >= 0 {
        return div(a, b);
    }
    // The magnitude does not grow; the one quotient that overflows wraps to the smallest number.
    match (a.smin.checked_neg(), a.smax.checked_neg()) {
        (Some(x), Some(y)) => signed(a.smin.min(y).min(0), a.smax.max(x).max(0)),
        _ => Bounds::ALL_64,
    }
}

fn smod(a: Bounds, b: Bounds) -> Bounds {
    // The sign is the dividend's, the magnitude at most its own.
    let mut out = signed(a.smin.min(0), a.smax.max(0));
    if b.smin > 0 || b.smax < 0 {
        // And below the divisor's.
        let limit = b.smin.unsigned_abs().max(b.smax.unsigned_abs()) - 1;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        out.smin = out.smin.max(-limit);
        out.smax = out.smax.min(limit);
    }
    out
}

/// Shifts by less than 64; a larger amount is taken modulo 64 by the engines, and nothing is said.
fn shift(op: u8, a: Scalar, b: Scalar) -> (Tnum, Bounds) {
    let (least, most) = (b.w64.umin, b.w64.umax);
    if most > 63 {
        return (Tnum::UNKNOWN, Bounds::ALL_64);
    }
    let (least, most) = (least as u32, most as u32);
    let by_constant = least == most;
    match op {
        alu::LSH => {
            let tnum = if by_constant {
                a.tnum.lsh(least)
            } else {
                Tnum::UNKNOWN.lsh(least)
            };
            (tnum, shift_left(a, least, most))
        }
        alu::RSH => {
            let tnum = if by_constant {
                a.tnum.rsh(least)
            } else {
                Tnum::UNKNOWN
            };
            (tnum, unsigned(a.w64.umin >> most, a.w64.umax >> least))
        }
        _ => {
            let tnum = if by_constant {
                a.tnum.arsh(least)
            } else {
                Tnum::UNKNOWN
            };
            let smin = (a.w64.smin >> least).min(a.w64.smin >> most);
            let smax = (a.w64.smax >> least).max(a.w64.smax >> most);
            (tnum, signed(smin, smax))
        }
    }
}

fn shift_left(a: Scalar, least: u32, most: u32) -> Bounds {
    // From 32 places on only the low half survives, so only it need be bounded: compilers without
    // 32-bit moves write extensions as a pair of such shifts.
    let (u, s) = if least >= 32 {
        (a.truncate(32).w64, a.sign_extend(32).w64)
    } else {
        (a.w64, a.w64)
    };
    let mut out = Bounds::ALL_64;
    if u.umax <= u64::MAX >> most {
        (out.umin, out.umax) = (u.umin << least, u.umax << most);
    }
    if s.smin >= i64::MIN >> most && s.smax <= i64::MAX >> most {
        out.smin = (s.smin << least).min(s.smin << most);
        out.smax = (s.smax << least).max(s.smax << most);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verifier::scalar::tests::{corners, hull, sample};

    const OPS: [(u8, bool); 14] = [
        (alu::ADD, false),
        (alu::SUB, false),
        (alu::MUL, false),
        (alu::DIV, false),
        (alu::DIV, true),
        (alu::MOD, false),
        (alu::MOD, true),
        (alu::OR, false),
        (alu::AND, false),
        (alu::XOR, false),
        (alu::LSH, false),
        (alu::RSH, false),
        (alu::ARSH, false),
        (alu::MOV, false),
    ];

    /// Sets of values of every kind, all operations, both widths: each concrete result is held.
    #[test]
    fn every_result_is_held() {
        let mut rng = fastrand::Rng::with_seed(2);
        for round in 0..60_000 {
            let (a, xs) = sample(&mut rng);
            let (b, ys) = sample(&mut rng);
            let (Some(a), Some(b)) = (a.settle(), b.settle()) else {
                panic!("round {round}: a set with members is not empty");
            };
            for (op, signed) in OPS {
                for wide in [true, false] {
                    let out = binary(op, signed, wide, a, b);
                    for &x in &xs {
                        for &y in &ys {
                            let z = concrete(op, signed, wide, x, y);
                            assert!(
                                out.contains(z),
                                "{op:#x} signed {signed} wide {wide}: {x:#x}, {y:#x} -> {z:#x}\n\
                                 {a:x?}\n{b:x?}\n{out:x?}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Every pair of intervals of 8-bit values at small width and at the places where 32 and 64
    /// bits wrap, for every operation.
    #[test]
    fn every_small_interval_is_held() {
        let bases = [
            0u64,
            0x7fff_fffe,
            0xffff_fffe,
            i64::MAX as u64 - 1,
            u64::MAX - 1,
        ];
        let mut intervals = vec![];
        for base in bases {
            for from in 0..4u64 {
                for length in 0..4u64 {
                    let members: Vec<u64> = (from..=from + length)
                        .map(|i| base.wrapping_add(i))
                        .collect();
                    intervals.push((hull(&members, 0xff).settle().unwrap(), members));
                }
            }
        }
        for (a, xs) in &intervals {
            for (b, ys) in &intervals {
                for (op, signed) in OPS {
                    for wide in [true, false] {
                        let out = binary(op, signed, wide, *a, *b);
                        for &x in xs {
                            for &y in ys {
                                let z = concrete(op, signed, wide, x, y);
                                assert!(
                                    out.contains(z),
                                    "{op:#x} {signed} {wide}: {x:#x} {y:#x} -> {z:#x}\n{out:x?}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    /// Every set of 4-bit values that a scalar can tell from others by its bits or by its bounds, with
    /// its members: at zero, and around the places where 32 and 64 bits wrap or change their sign.
    fn small_sets() -> Vec<(Scalar, Vec<u64>)> {
        const BITS: u64 = 4;
        let n = 1u64 << BITS;
        let mut sets = vec![];
        for mask in 0..n {
            for value in (0..n).filter(|v| v & mask == 0) {
                let members: Vec<u64> = (0..n).filter(|v| v & !mask == value).collect();
                sets.push((hull_of(&members, 1), members));
            }
        }
        // Around the borders a bit less, which is as far to either side.
        let borders = [
            4u64.wrapping_neg(),
            (1 << 31) - 4,
            (1 << 32) - 4,
            (1 << 63) - 4,
        ];
        for (base, n) in [(0, n)].into_iter().chain(borders.map(|b| (b, n / 2))) {
            for from in 0..n {
                for to in from..n {
                    let members: Vec<u64> = (from..=to).map(|i| base.wrapping_add(i)).collect();
                    sets.push((hull_of(&members, 0xff), members));
                }
            }
        }
        sets
    }

    fn hull_of(members: &[u64], parts: u8) -> Scalar {
        hull(members, parts).settle().expect("it has members")
    }

    /// Every operation on every pair of those sets: all pairs of their members.
    #[test]
    fn every_small_set_is_held() {
        let sets = small_sets();
        for (a, xs) in &sets {
            for (b, ys) in &sets {
                for (op, signed) in OPS {
                    for wide in [true, false] {
                        let out = binary(op, signed, wide, *a, *b);
                        let lost = xs.iter().find_map(|&x| {
                            ys.iter()
                                .map(|&y| (x, y, concrete(op, signed, wide, x, y)))
                                .find(|&(_, _, z)| !out.contains(z))
                        });
                        assert_eq!(
                            lost, None,
                            "{op:#x} {signed} {wide}: {a:x?} {b:x?} -> {out:x?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn unary_results_are_held() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..50_000 {
            let (a, xs) = sample(&mut rng);
            let a = a.settle().unwrap();
            for &x in &xs {
                assert!(neg(true, a).contains(x.wrapping_neg()));
                assert!(neg(false, a).contains(u64::from((x as u32).wrapping_neg())));
                assert!(swap_bytes(16, a).contains(u64::from((x as u16).swap_bytes())));
                assert!(swap_bytes(32, a).contains(u64::from((x as u32).swap_bytes())));
                assert!(swap_bytes(64, a).contains(x.swap_bytes()));
            }
        }
    }

    /// Constants in, the same constant out: the abstract and the concrete operation agree.
    #[test]
    fn constants_stay_constant() {
        for x in corners() {
            for y in corners() {
                for (op, signed) in OPS {
                    for wide in [true, false] {
                        let z = concrete(op, signed, wide, x, y);
                        let out =
                            binary(op, signed, wide, Scalar::constant(x), Scalar::constant(y));
                        assert_eq!(out.as_constant(), Some(z));
                    }
                }
            }
        }
    }

    /// What programs rely on: masks, header lengths, extensions written as shifts.
    #[test]
    fn common_shapes_are_precise() {
        let byte = Scalar::of_size(1);
        let ihl = binary(alu::AND, false, true, byte, Scalar::constant(15));
        let length = binary(alu::LSH, false, true, ihl, Scalar::constant(2));
        assert_eq!((length.w64.umin, length.w64.umax), (0, 60));
        assert!(length.tnum.is_aligned(4));

        let up = binary(alu::LSH, false, true, Scalar::UNKNOWN, Scalar::constant(32));
        let down = binary(alu::RSH, false, true, up, Scalar::constant(32));
        assert_eq!(down.w64.umax, 0xffff_ffff);
        let signed = binary(alu::ARSH, false, true, up, Scalar::constant(32));
        assert_eq!(
            (signed.w64.smin, signed.w64.smax),
            (-(1 << 31), (1 << 31) - 1)
        );

        let small = binary(alu::MOD, false, true, Scalar::UNKNOWN, Scalar::constant(10));
        assert_eq!(small.w64.umax, 9);
        let fraction = binary(
            alu::DIV,
            false,
            false,
            Scalar::UNKNOWN,
            Scalar::constant(1000),
        );
        assert_eq!(fraction.w64.umax, 0xffff_ffff / 1000);
    }
}
