//! What a comparison teaches: for each conditional jump of RFC 9669, section 4.3, the operands
//! narrowed to the values for which it holds. Whether a jump can be taken at all is the same
//! question: if nothing is left, it cannot.

use super::scalar::{Bounds, Scalar};
use super::tnum::Tnum;
use crate::insn::jmp;

/// A comparison of two scalars, as 64-bit or as 32-bit values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Which.
    pub(super) relation: Relation,
    /// Of 64 bits, else of the low 32.
    pub(super) wide: bool,
}

/// The relation that a comparison asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    SignedGreater,
    SignedGreaterEqual,
    SignedLess,
    SignedLessEqual,
    /// `a & b != 0`.
    AnyBit,
    /// `a & b == 0`: the opposite of `AnyBit`; no instruction asks for it.
    NoBit,
}

impl Relation {
    /// The relation of a conditional jump's operation; `None` for other operations.
    pub(super) fn of(op: u8) -> Option<Relation> {
        Some(match op {
            jmp::JEQ => Relation::Equal,
            jmp::JNE => Relation::NotEqual,
            jmp::JGT => Relation::Greater,
            jmp::JGE => Relation::GreaterEqual,
            jmp::JLT => Relation::Less,
            jmp::JLE => Relation::LessEqual,
            jmp::JSGT => Relation::SignedGreater,
            jmp::JSGE => Relation::SignedGreaterEqual,
            jmp::JSLT => Relation::SignedLess,
            jmp::JSLE => Relation::SignedLessEqual,
            jmp::JSET => Relation::AnyBit,
            _ => return None,
        })
    }

    /// The relation that holds where this one does not.
    pub(super) fn opposite(self) -> Relation {
        match self {
            Relation::Equal => Relation::NotEqual,
            Relation::NotEqual => Relation::Equal,
            Relation::Greater => Relation::LessEqual,
            Relation::GreaterEqual => Relation::Less,
            Relation::Less => Relation::GreaterEqual,
            Relation::LessEqual => Relation::Greater,
            Relation::SignedGreater => Relation::SignedLessEqual,
            Relation::SignedGreaterEqual => Relation::SignedLess,
            Relation::SignedLess => Relation::SignedGreaterEqual,
            Relation::SignedLessEqual => Relation::SignedGreater,
            Relation::AnyBit => Relation::NoBit,
            Relation::NoBit => Relation::AnyBit,
        }
    }

    /// The relation between the same two values named in the other order.
    pub(super) fn mirrored(self) -> Relation {
        match self {
            Relation::Greater => Relation::Less,
            Relation::GreaterEqual => Relation::LessEqual,
            Relation::Less => Relation::Greater,
            Relation::LessEqual => Relation::GreaterEqual,
            Relation::SignedGreater => Relation::SignedLess,
            Relation::SignedGreaterEqual => Relation::SignedLessEqual,
            Relation::SignedLess => Relation::SignedGreater,
            Relation::SignedLessEqual => Relation::SignedGreaterEqual,
            symmetric => symmetric,
        }
    }
}

/// Both operands, narrowed to where `a relation b` holds; `None` where it never does.
pub(super) fn assume(c: Comparison, a: Scalar, b: Scalar) -> Option<(Scalar, Scalar)> {
    match c.relation {
        Relation::Equal => equal(c.wide, a, b),
        Relation::NotEqual => {
            let less = |x: Scalar, y: Scalar| match view(c.wide, y).as_single() {
                Some(v) => without(c.wide, x, v),
                None => Some(x),
            };
            Some((less(a, b)?, less(b, a)?))
        }
        Relation::AnyBit => any_bit(c.wide, a, b),
        Relation::NoBit => no_bit(c.wide, a, b),
        relation => ordered(relation, c.wide, a, b),
    }
}

/// The bounds and bits that a comparison of this width looks at.
#[derive(Clone, Copy)]
struct View {
    tnum: Tnum,
    bounds: Bounds,
}

impl View {
    fn as_single(&self) -> Option<u64> {
        (self.bounds.umin == self.bounds.umax).then_some(self.bounds.umin)
    }
}

fn view(wide: bool, s: Scalar) -> View {
    if wide {
        View {
            tnum: s.tnum,
            bounds: s.w64,
        }
    } else {
        View {
            tnum: s.tnum.truncate(32),
            bounds: s.w32,
        }
    }
}

/// `s` with what is now known of the part that was looked at.
fn narrowed(wide: bool, s: Scalar, v: View) -> Option<Scalar> {
    let mut out = s;
    if wide {
        out.tnum = s.tnum.meet(v.tnum)?;
        out.w64 = s.w64.meet(v.bounds);
    } else {
        out.tnum = s.tnum.meet(Tnum {
            value: v.tnum.value,
            mask: v.tnum.mask | 0xffff_ffff_0000_0000,
        })?;
        out.w32 = s.w32.meet(v.bounds);
    }
    out.settle()
}

fn equal(wide: bool, a: Scalar, b: Scalar) -> Option<(Scalar, Scalar)> {
    let (va, vb) = (view(wide, a), view(wide, b));
    let both = View {
        tnum: va.tnum.meet(vb.tnum)?,
        bounds: va.bounds.meet(vb.bounds),
    };
    let (mut x, mut y) = (narrowed(wide, a, both)?, narrowed(wide, b, both)?);
    if wide {
        // The low halves are equal too.
        let low = x.meet(y)?;
        (x, y) = (low, low);
    }
    Some((x, y))
}

/// `s` without the one value `v`: an end of a range moves inwards.
fn without(wide: bool, s: Scalar, v: u64) -> Option<Scalar> {
    let mut seen = view(wide, s);
    let sv = if wide { v as i64 } else { i64::from(v as i32) };
    let b = &mut seen.bounds;
    if b.umin == v {
        b.umin = b.umin.checked_add(1)?;
    }
    if b.umax == v {
        b.umax = b.umax.checked_sub(1)?;
    }
    if b.smin == sv {
        b.smin = b.smin.checked_add(1)?;
    }
    if b.smax == sv {
        b.smax = b.smax.checked_sub(1)?;
    }
    narrowed(wide, s, seen)
}

fn ordered(relation: Relation, wide: bool, a: Scalar, b: Scalar) -> Option<(Scalar, Scalar)> {
    match relation {
        Relation::Greater
        | Relation::GreaterEqual
        | Relation::SignedGreater
        | Relation::SignedGreaterEqual => {
            let (y, x) = ordered(relation.mirrored(), wide, b, a)?;
            return Some((x, y));
        }
        _ => {}
    }
    // a < b or a <= b.
    let (mut va, mut vb) = (view(wide, a), view(wide, b));
    match relation {
        Relation::Less => {
            va.bounds.umax = va.bounds.umax.min(vb.bounds.umax.checked_sub(1)?);
            vb.bounds.umin = vb.bounds.umin.max(va.bounds.umin.checked_add(1)?);
        }
        Relation::LessEqual => {
            va.bounds.umax = va.bounds.umax.min(vb.bounds.umax);
            vb.bounds.umin = vb.bounds.umin.max(va.bounds.umin);
        }
        Relation::SignedLess => {
            va.bounds.smax = va.bounds.smax.min(vb.bounds.smax.checked_sub(1)?);
            vb.bounds.smin = vb.bounds.smin.max(va.bounds.smin.checked_add(1)?);
        }
        _ => {
            va.bounds.smax = va.bounds.smax.min(vb.bounds.smax);
            vb.bounds.smin = vb.bounds.smin.max(va.bounds.smin);
        }
    }
    Some((narrowed(wide, a, va)?, narrowed(wide, b, vb)?))
}

fn any_bit(wide: bool, a: Scalar, b: Scalar) -> Option<(Scalar, Scalar)> {
    let common = view(wide, a).tnum.max() & view(wide, b).tnum.max();
    if common == 0 {
        return None;
    }
    if !common.is_power_of_two() {
        return Some((a, b));
    }
    // One bit alone can make it hold: both have it.
    let with_bit = |s: Scalar| {
        let mut seen = view(wide, s);
        seen.tnum = seen.tnum.meet(Tnum {
            value: common,
            mask: !common,
        })?;
        narrowed(wide, s, seen)
    };
    Some((with_bit(a)?, with_bit(b)?))
}

fn no_bit(wide: bool, a: Scalar, b: Scalar) -> Option<(Scalar, Scalar)> {
    // What is surely set in one is clear in the other.
    let clear = |s: Scalar, bits: u64| {
        let mut seen = view(wide, s);
        seen.tnum = seen.tnum.meet(Tnum {
            value: 0,
            mask: !bits,
        })?;
        narrowed(wide, s, seen)
    };
    let (sa, sb) = (view(wide, a).tnum.value, view(wide, b).tnum.value);
    Some((clear(a, sb)?, clear(b, sa)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verifier::scalar::tests::{hull, sample};

    const RELATIONS: [Relation; 12] = [
        Relation::Equal,
        Relation::NotEqual,
        Relation::Greater,
        Relation::GreaterEqual,
        Relation::Less,
        Relation::LessEqual,
        Relation::SignedGreater,
        Relation::SignedGreaterEqual,
        Relation::SignedLess,
        Relation::SignedLessEqual,
        Relation::AnyBit,
        Relation::NoBit,
    ];

    fn holds(c: Comparison, x: u64, y: u64) -> bool {
        let (x, y, sx, sy) = if c.wide {
            (x, y, x as i64, y as i64)
        } else {
            let low = |v: u64| v & 0xffff_ffff;
            (low(x), low(y), i64::from(x as i32), i64::from(y as i32))
        };
        match c.relation {
            Relation::Equal => x == y,
            Relation::NotEqual => x != y,
            Relation::Greater => x > y,
            Relation::GreaterEqual => x >= y,
            Relation::Less => x < y,
            Relation::LessEqual => x <= y,
            Relation::SignedGreater => sx > sy,
            Relation::SignedGreaterEqual => sx >= sy,
            Relation::SignedLess => sx < sy,
            Relation::SignedLessEqual => sx <= sy,
            Relation::AnyBit => x & y != 0,
            Relation::NoBit => x & y == 0,
        }
    }

    fn check(a: Scalar, xs: &[u64], b: Scalar, ys: &[u64]) {
        for relation in RELATIONS {
            for wide in [true, false] {
                let c = Comparison { relation, wide };
                let out = assume(c, a, b);
                if let Some((na, nb)) = out {
                    assert!(a.includes(&na) && b.includes(&nb), "{c:?} grew");
                }
                for &x in xs {
                    for &y in ys {
                        if holds(c, x, y) {
                            let (na, nb) = out.unwrap_or_else(|| {
                                panic!("{c:?} can hold: {x:#x} {y:#x}\n{a:x?}\n{b:x?}")
                            });
                            assert!(
                                na.contains(x) && nb.contains(y),
                                "{c:?} lost {x:#x} {y:#x}: {a:x?} {b:x?} -> {na:x?} {nb:x?}"
                            );
                        }
                        let mirrored = Comparison {
                            relation: relation.mirrored(),
                            wide,
                        };
                        let opposite = Comparison {
                            relation: relation.opposite(),
                            wide,
                        };
                        assert_eq!(holds(c, x, y), holds(mirrored, y, x));
                        assert_ne!(holds(c, x, y), holds(opposite, x, y));
                    }
                }
            }
        }
    }

    /// Every pair of members for which the relation holds survives the narrowing.
    #[test]
    fn narrowing_keeps_what_holds() {
        let mut rng = fastrand::Rng::with_seed(4);
        for _ in 0..60_000 {
            let (a, xs) = sample(&mut rng);
            let (b, ys) = sample(&mut rng);
            check(a.settle().unwrap(), &xs, b.settle().unwrap(), &ys);
        }
    }

    /// All pairs of short intervals at the places where the orders of both widths wrap.
    #[test]
    fn narrowing_keeps_what_holds_where_orders_wrap() {
        let bases = [
            0u64,
            0x7fff_fffe,
            0xffff_fffe,
            i64::MAX as u64 - 1,
            u64::MAX - 1,
        ];
        let mut sets = vec![];
        for base in bases {
            for from in 0..4u64 {
                for length in 0..4u64 {
                    let members: Vec<u64> = (from..=from + length)
                        .map(|i| base.wrapping_add(i))
                        .collect();
                    sets.push((hull(&members, 0xff).settle().unwrap(), members));
                }
            }
        }
        for (a, xs) in &sets {
            for (b, ys) in &sets {
                check(*a, xs, *b, ys);
            }
        }
    }

    /// On constants a comparison is decided: exactly one of it and its opposite can hold.
    #[test]
    fn constants_decide() {
        for x in crate::verifier::scalar::tests::corners() {
            for y in crate::verifier::scalar::tests::corners() {
                for relation in RELATIONS {
                    for wide in [true, false] {
                        let c = Comparison { relation, wide };
                        let out = assume(c, Scalar::constant(x), Scalar::constant(y));
                        assert_eq!(out.is_some(), holds(c, x, y), "{c:?} {x:#x} {y:#x}");
                    }
                }
            }
        }
    }
}
