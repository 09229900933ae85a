//! Tristate numbers: which bits of a 64-bit value are known. A tnum is a pair (`value`, `mask`): a
//! bit set in `mask` is unknown, any other bit is as in `value`. It stands for all `x` with
//! `x & !mask == value`. The multiplication is the one of Vishwanathan et al., "Sound, Precise, and
//! Fast Abstract Interpretation with Tristate Numbers", CGO 2022.

/// A set of 64-bit values, by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tnum {
    /// Bits that are known to be set. Disjoint from `mask`.
    pub value: u64,
    /// Bits that are unknown.
    pub mask: u64,
}

impl Tnum {
    /// Every value.
    pub const UNKNOWN: Tnum = Tnum {
        value: 0,
        mask: u64::MAX,
    };

    /// One value.
    pub const fn constant(value: u64) -> Self {
        Tnum { value, mask: 0 }
    }

    /// The smallest tnum that holds `min..=max`: the bits above the highest one in which they differ.
    pub fn range(min: u64, max: u64) -> Self {
        let differ = min ^ max;
        let mask = match differ.leading_zeros() {
            0 => u64::MAX,
            n => (1u64 << (64 - n)) - 1,
        };
        Tnum {
            value: min & !mask,
            mask,
        }
    }

    /// The only value, where there is but one.
    pub fn as_constant(self) -> Option<u64> {
        (self.mask == 0).then_some(self.value)
    }

    /// Smallest member, unsigned.
    pub fn min(self) -> u64 {
        self.value
    }

    /// Largest member, unsigned.
    pub fn max(self) -> u64 {
        self.value | self.mask
    }

    /// True where `x` is a member.
    pub fn contains(self, x: u64) -> bool {
        x & !self.mask == self.value
    }

    /// True where every member of `other` is a member.
    pub fn includes(self, other: Tnum) -> bool {
        other.mask & !self.mask == 0 && other.value & !self.mask == self.value
    }

    /// The members that both have; `None` where a known bit differs.
    pub fn meet(self, other: Tnum) -> Option<Tnum> {
        let known_in_both = !self.mask & !other.mask;
        if (self.value ^ other.value) & known_in_both != 0 {
            return None;
        }
        let mask = self.mask & other.mask;
        Some(Tnum {
            value: (self.value | other.value) & !mask,
            mask,
        })
    }

    /// `a + b`. A carry can differ only where an unknown bit takes part.
    pub fn wrapping_add(self, other: Tnum) -> Tnum {
        let low = self.value.wrapping_add(other.value);
        let high = low.wrapping_add(self.mask).wrapping_add(other.mask);
        let mask = (low ^ high) | self.mask | other.mask;
        Tnum {
            value: low & !mask,
            mask,
        }
    }

    /// `a - b`.
    pub fn wrapping_sub(self, other: Tnum) -> Tnum {
        let difference = self.value.wrapping_sub(other.value);
        let high = difference.wrapping_add(self.mask);
        let low = difference.wrapping_sub(other.mask);
        let mask = (low ^ high) | self.mask | other.mask;
        Tnum {
            value: difference & !mask,
            mask,
        }
    }

    /// `a & b`.
    pub fn and(self, other: Tnum) -> Tnum {
        let value = self.value & other.value;
        let possible = self.max() & other.max();
        Tnum {
            value,
            mask: possible & !value,
        }
    }

    /// `a | b`.
    pub fn or(self, other: Tnum) -> Tnum {
        let value = self.value | other.value;
        Tnum {
            value,
            mask: (self.mask | other.mask) & !value,
        }
    }

    /// `a ^ b`.
    pub fn xor(self, other: Tnum) -> Tnum {
        let mask = self.mask | other.mask;
        Tnum {
            value: (self.value ^ other.value) & !mask,
            mask,
        }
    }

    /// `a * b`: the product of the known parts plus one partial product for each bit of `a`.
    pub fn wrapping_mul(self, other: Tnum) -> Tnum {
        let known = Tnum::constant(self.value.wrapping_mul(other.value));
        let mut uncertain = Tnum::constant(0);
        let mut rest = self;
        let mut factor = other;
        while rest.value != 0 || rest.mask != 0 {
            if rest.value & 1 != 0 {
                uncertain = uncertain.wrapping_add(Tnum {
                    value: 0,
                    mask: factor.mask,
                });
            } else if rest.mask & 1 != 0 {
                uncertain = uncertain.wrapping_add(Tnum {
                    value: 0,
                    mask: factor.max(),
                });
            }
            rest = rest.rsh(1);
            factor = factor.lsh(1);
        }
        known.wrapping_add(uncertain)
    }

    /// `a << n`, `n` below 64.
    pub fn lsh(self, n: u32) -> Tnum {
        Tnum {
            value: self.value << n,
            mask: self.mask << n,
        }
    }

    /// `a >> n`, `n` below 64.
    pub fn rsh(self, n: u32) -> Tnum {
        Tnum {
            value: self.value >> n,
            mask: self.mask >> n,
        }
    }

    /// `a >> n` that keeps the sign, `n` below 64. An unknown sign is unknown in each copy.
    pub fn arsh(self, n: u32) -> Tnum {
        Tnum {
            value: ((self.value as i64) >> n) as u64,
            mask: ((self.mask as i64) >> n) as u64,
        }
    }

    /// The low `bits` bits, the others zero; `bits` is 1 to 64.
    pub fn truncate(self, bits: u32) -> Tnum {
        self.lsh(64 - bits).rsh(64 - bits)
    }

    /// The low `bits` bits, the others copies of the highest of them; `bits` is 1 to 64.
    pub fn sign_extend(self, bits: u32) -> Tnum {
        self.lsh(64 - bits).arsh(64 - bits)
    }

    /// True where every member is a multiple of `size`, a power of two.
    pub fn is_aligned(self, size: u64) -> bool {
        self.max() & (size - 1) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Tnum;

    /// Every tnum of `bits` bits.
    fn all(bits: u32) -> Vec<Tnum> {
        let n = 1u64 << bits;
        (0..n)
            .flat_map(|mask| (0..n).map(move |value| Tnum { value, mask }))
            .filter(|t| t.value & t.mask == 0)
            .collect()
    }

    fn members(t: Tnum, bits: u32) -> impl Iterator<Item = u64> {
        (0..1u64 << bits).filter(move |&x| t.contains(x))
    }

    type Abstract = fn(Tnum, Tnum) -> Tnum;
    type Concrete = fn(u64, u64) -> u64;

    /// Every operation holds every concrete result: for all pairs of tnums of 5 bits with all their
    /// members, at the bottom of the word and, by a shift, at the top, where it wraps.
    #[test]
    fn operations_hold_every_concrete_result() {
        let operations: [(&str, Abstract, Concrete); 6] = [
            ("add", Tnum::wrapping_add, u64::wrapping_add),
            ("sub", Tnum::wrapping_sub, u64::wrapping_sub),
            ("mul", Tnum::wrapping_mul, u64::wrapping_mul),
            ("and", Tnum::and, |a, b| a & b),
            ("or", Tnum::or, |a, b| a | b),
            ("xor", Tnum::xor, |a, b| a ^ b),
        ];
        const BITS: u32 = 5;
        let tnums = all(BITS);
        for (name, abs, conc) in operations {
            for shift in [0, 64 - BITS] {
                for &a in &tnums {
                    for &b in &tnums {
                        // A product of two shifted operands is zero: only one is moved up.
                        let b_shift = if name == "mul" { 0 } else { shift };
                        let out = abs(a.lsh(shift), b.lsh(b_shift));
                        assert_eq!(out.value & out.mask, 0, "{name} {a:?} {b:?}");
                        for x in members(a, BITS) {
                            for y in members(b, BITS) {
                                let z = conc(x << shift, y << b_shift);
                                assert!(out.contains(z), "{name} {a:?} {b:?}: {x} {y}");
                            }
                        }
                    }
                }
            }
        }
    }

    /// Addition, subtraction and the bitwise operations are optimal: the smallest tnum that holds
    /// the results.
    #[test]
    fn operations_are_as_precise_as_bits_can_be() {
        let operations: [(&str, Abstract, Concrete); 5] = [
            ("add", Tnum::wrapping_add, u64::wrapping_add),
            ("sub", Tnum::wrapping_sub, u64::wrapping_sub),
            ("and", Tnum::and, |a, b| a & b),
            ("or", Tnum::or, |a, b| a | b),
            ("xor", Tnum::xor, |a, b| a ^ b),
        ];
        const BITS: u32 = 4;
        for (name, abs, conc) in operations {
            for a in all(BITS) {
                for b in all(BITS) {
                    let (mut ones, mut zeros) = (u64::MAX, u64::MAX);
                    for x in members(a, BITS) {
                        for y in members(b, BITS) {
                            ones &= conc(x, y);
                            zeros &= !conc(x, y);
                        }
                    }
                    let best = Tnum {
                        value: ones,
                        mask: !(ones | zeros),
                    };
                    assert_eq!(abs(a, b), best, "{name} {a:?} {b:?}");
                }
            }
        }
    }

    /// All tnums of 8 bits, all their members: shifts, truncation, sign extension, bounds.
    #[test]
    fn unary_operations_hold_every_concrete_result() {
        for t in all(8) {
            for up in [0, 56] {
                let a = t.lsh(up);
                for x in members(t, 8).map(|x| x << up) {
                    for n in [0, 1, 3, 8, 31, 63] {
                        assert!(a.lsh(n).contains(x << n));
                        assert!(a.rsh(n).contains(x >> n));
                        assert!(a.arsh(n).contains(((x as i64) >> n) as u64));
                    }
                    for bits in [1, 4, 7, 8, 32, 64] {
                        let s = 64 - bits;
                        assert!(a.truncate(bits).contains(x << s >> s));
                        assert!(
                            a.sign_extend(bits)
                                .contains((((x << s) as i64) >> s) as u64)
                        );
                    }
                    assert!(a.min() <= x && x <= a.max());
                    for size in [1, 2, 4, 8] {
                        assert!(!a.is_aligned(size) || x % size == 0);
                    }
                }
            }
        }
    }

    #[test]
    fn range_meet_and_includes_agree_with_membership() {
        const BITS: u32 = 5;
        for min in 0..256u64 {
            for max in min..256 {
                let t = Tnum::range(min, max);
                assert!((min..=max).all(|x| t.contains(x)));
            }
        }
        assert_eq!(Tnum::range(0, u64::MAX), Tnum::UNKNOWN);
        for a in all(BITS) {
            for b in all(BITS) {
                let subset = members(b, BITS).all(|x| a.contains(x));
                assert_eq!(a.includes(b), subset, "{a:?} {b:?}");
                let meet = a.meet(b);
                for x in 0..1 << BITS {
                    let both = a.contains(x) && b.contains(x);
                    assert_eq!(meet.is_some_and(|m| m.contains(x)), both);
                }
            }
        }
    }
}
