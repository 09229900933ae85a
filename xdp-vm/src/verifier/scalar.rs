//! What is known of a number in a register: its bits ([`Tnum`]) and its bounds, unsigned and signed,
//! of the whole 64-bit value and of its low 32 bits. Each of the five says something the others
//! cannot, and [`Scalar::settle`] lets each learn from the others. A scalar stands for the set of
//! values that satisfy all five.

use super::tnum::Tnum;

/// Bounds of a value of some width, both ends included: `umin <= v <= umax` read as unsigned and
/// `smin <= v <= smax` read as signed. Of 32 bits, the unsigned ends are zero-extended and the
/// signed ends sign-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Smallest, unsigned.
    pub umin: u64,
    /// Largest, unsigned.
    pub umax: u64,
    /// Smallest, signed.
    pub smin: i64,
    /// Largest, signed.
    pub smax: i64,
}

impl Bounds {
    /// Every value of 64 bits.
    pub const ALL_64: Bounds = Bounds::all(64);
    /// Every value of 32 bits.
    pub const ALL_32: Bounds = Bounds::all(32);

    /// Every value of `bits` bits (32 or 64).
    pub const fn all(bits: u32) -> Self {
        Bounds {
            umin: 0,
            umax: u64::MAX >> (64 - bits),
            smin: i64::MIN >> (64 - bits),
            smax: i64::MAX >> (64 - bits),
        }
    }

    /// The values that both allow; it may be that there are none.
    pub fn meet(self, o: Bounds) -> Bounds {
        Bounds {
            umin: self.umin.max(o.umin),
            umax: self.umax.min(o.umax),
            smin: self.smin.max(o.smin),
            smax: self.smax.min(o.smax),
        }
    }

    /// True where each bound of `o` lies within.
    pub fn includes(self, o: Bounds) -> bool {
        self.umin <= o.umin && o.umax <= self.umax && self.smin <= o.smin && o.smax <= self.smax
    }

    /// The tightest bounds for the same values; `None` where there are none. The values below the
    /// sign bit and those from it upwards are in order both as signed and as unsigned, so each half
    /// is one interval.
    fn settle(self, bits: u32) -> Option<Bounds> {
        let all = Bounds::all(bits);
        let sign = 1u64 << (bits - 1);
        let lower = (self.smax >= 0)
            .then(|| {
                let min = self.umin.max(self.smin.max(0) as u64);
                let max = self.umax.min(self.smax as u64);
                (min, max)
            })
            .filter(|(min, max)| min <= max);
        let upper = (self.smin < 0)
            .then(|| {
                let min = self.umin.max(self.smin as u64 & all.umax).max(sign);
                let max = self.umax.min(self.smax.min(-1) as u64 & all.umax);
                (min, max)
            })
            .filter(|(min, max)| min <= max);
        let signed = |v: u64| ((v << (64 - bits)) as i64) >> (64 - bits);
        match (lower, upper) {
            (None, None) => None,
            (Some((min, max)), None) | (None, Some((min, max))) => Some(Bounds {
                umin: min,
                umax: max,
                smin: signed(min),
                smax: signed(max),
            }),
            (Some(low), Some(high)) => Some(Bounds {
                umin: low.0,
                umax: high.1,
                smin: signed(high.0),
                smax: signed(low.1),
            }),
        }
    }

    /// What a tnum of `bits` bits says.
    fn of_tnum(t: Tnum, bits: u32) -> Bounds {
        let t = t.truncate(bits);
        let sign = 1u64 << (bits - 1);
        let signed = |v: u64| ((v << (64 - bits)) as i64) >> (64 - bits);
        let (low, high) = if t.mask & sign != 0 {
            (t.value | sign, t.max() & !sign)
        } else {
            (t.min(), t.max())
        };
        Bounds {
            umin: t.min(),
            umax: t.max(),
            smin: signed(low),
            smax: signed(high),
        }
    }
}

/// A set of 64-bit values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// Its bits.
    pub tnum: Tnum,
    /// Bounds of the whole value.
    pub w64: Bounds,
    /// Bounds of its low 32 bits.
    pub w32: Bounds,
}

impl Scalar {
    /// Every value.
    pub const UNKNOWN: Scalar = Scalar {
        tnum: Tnum::UNKNOWN,
        w64: Bounds::ALL_64,
        w32: Bounds::ALL_32,
    };

    /// One value.
    pub const fn constant(v: u64) -> Self {
        let low = v as u32;
        Scalar {
            tnum: Tnum::constant(v),
            w64: Bounds {
                umin: v,
                umax: v,
                smin: v as i64,
                smax: v as i64,
            },
            w32: Bounds {
                umin: low as u64,
                umax: low as u64,
                smin: low as i32 as i64,
                smax: low as i32 as i64,
            },
        }
    }

    /// Every value of `size` bytes, zero-extended.
    pub fn of_size(size: u32) -> Self {
        Scalar::UNKNOWN.truncate(size * 8)
    }

    /// The only value, where there is but one.
    pub fn as_constant(&self) -> Option<u64> {
        self.tnum.as_constant()
    }

    /// True where `v` satisfies all that is known.
    pub fn contains(&self, v: u64) -> bool {
        let low = v & 0xffff_ffff;
        let (s, s32) = (v as i64, i64::from(v as i32));
        self.tnum.contains(v)
            && (self.w64.umin..=self.w64.umax).contains(&v)
            && (self.w64.smin..=self.w64.smax).contains(&s)
            && (self.w32.umin..=self.w32.umax).contains(&low)
            && (self.w32.smin..=self.w32.smax).contains(&s32)
    }

    /// True where all that is known of `self` holds of `other` too.
    pub fn includes(&self, other: &Scalar) -> bool {
        self.tnum.includes(other.tnum)
            && self.w64.includes(other.w64)
            && self.w32.includes(other.w32)
    }

    /// The values that are in both; `None` where there are none.
    pub fn meet(self, other: Scalar) -> Option<Scalar> {
        Scalar {
            tnum: self.tnum.meet(other.tnum)?,
            w64: self.w64.meet(other.w64),
            w32: self.w32.meet(other.w32),
        }
        .settle()
    }

    /// Tightens each part by the others; `None` where no value satisfies them all.
    pub fn settle(mut self) -> Option<Scalar> {
        let single = match self {
            s if s.tnum.mask == 0 => Some(s.tnum.value),
            s if s.w64.umin == s.w64.umax => Some(s.w64.umin),
            _ => None,
        };
        if let Some(value) = single {
            return self.contains(value).then(|| Scalar::constant(value));
        }
        // Information flows in a circle through the parts; two rounds carry nearly all of it.
        for _ in 0..3 {
            let before = self;
            self.w64 = self.w64.meet(Bounds::of_tnum(self.tnum, 64)).settle(64)?;
            self.w32 = self.w32.meet(Bounds::of_tnum(self.tnum, 32)).settle(32)?;
            self.w32 = self.w32.meet(low_half(self.w64)).settle(32)?;
            let w64 = whole(self.w64, self.w32)?.settle(64)?;
            let low = Tnum::range(self.w32.umin, self.w32.umax);
            let tnum = self
                .tnum
                .meet(Tnum::range(w64.umin, w64.umax))?
                .meet(Tnum {
                    value: low.value,
                    mask: low.mask | 0xffff_ffff_0000_0000,
                })?;
            // Nothing that this round looked at changed after it had: another would find the same.
            let settled = w64 == self.w64 && tnum == self.tnum;
            (self.w64, self.tnum) = (w64, tnum);
            if settled || self == before {
                break;
            }
        }
        Some(self)
    }

    /// The low `bits` bits (8, 16, 32 or 64), the others zero.
    pub fn truncate(self, bits: u32) -> Scalar {
        let max = u64::MAX >> (64 - bits);
        if self.w64.umax <= max {
            return self;
        }
        let w64 = if bits == 32 {
            Bounds {
                umin: self.w32.umin,
                umax: self.w32.umax,
                ..Bounds::ALL_64
            }
        } else {
            Bounds {
                umax: max,
                ..Bounds::ALL_64
            }
        };
        Scalar {
            tnum: self.tnum.truncate(bits),
            w64,
            w32: if bits == 32 { self.w32 } else { Bounds::ALL_32 },
        }
        .settle()
        .unwrap_or(Scalar {
            w64: Bounds {
                umax: max,
                ..Bounds::ALL_64
            },
            ..Scalar::UNKNOWN
        })
    }

    /// The low `bits` bits (8, 16, 32 or 64), the others copies of the highest of them.
    pub fn sign_extend(self, bits: u32) -> Scalar {
        let all = Bounds {
            smin: i64::MIN >> (64 - bits),
            smax: i64::MAX >> (64 - bits),
            ..Bounds::ALL_64
        };
        if all.smin <= self.w64.smin && self.w64.smax <= all.smax {
            return self;
        }
        let (w64, w32) = if bits == 32 {
            let w64 = Bounds {
                smin: self.w32.smin,
                smax: self.w32.smax,
                ..Bounds::ALL_64
            };
            (w64, self.w32)
        } else {
            (all, Bounds::ALL_32)
        };
        Scalar {
            tnum: self.tnum.sign_extend(bits),
            w64,
            w32,
        }
        .settle()
        .unwrap_or(Scalar::UNKNOWN)
    }
}

/// Bounds of the low halves of the values within `w`. An interval keeps its order when the upper
/// half is cut off, as long as it is as long after the cut as before.
fn low_half(w: Bounds) -> Bounds {
    let mut out = Bounds::ALL_32;
    for (min, max) in [(w.umin, w.umax), (w.smin as u64, w.smax as u64)] {
        let length = max.wrapping_sub(min);
        let (low, high) = (min & 0xffff_ffff, max & 0xffff_ffff);
        if low <= high && high - low == length {
            out.umin = out.umin.max(low);
            out.umax = out.umax.min(high);
        }
        let (low, high) = (i64::from(min as i32), i64::from(max as i32));
        if low <= high && (high - low) as u64 == length {
            out.smin = out.smin.max(low);
            out.smax = out.smax.min(high);
        }
    }
    out
}

/// `w` tightened by the bounds `low` of the low halves: the ends move inwards to the nearest value
/// whose low half is allowed. `None` where there is none.
fn whole(w: Bounds, low: Bounds) -> Option<Bounds> {
    const HIGH: u64 = 0xffff_ffff_0000_0000;
    // Works on either order: only the step to the next upper half can overflow.
    let up = |v: u64| -> (u64, bool) {
        let l = v & 0xffff_ffff;
        if l <= low.umax {
            ((v & HIGH) | l.max(low.umin), false)
        } else {
            ((v & HIGH) | low.umin, true)
        }
    };
    let down = |v: u64| -> (u64, bool) {
        let l = v & 0xffff_ffff;
        if l >= low.umin {
            ((v & HIGH) | l.min(low.umax), false)
        } else {
            ((v & HIGH) | low.umax, true)
        }
    };
    let step = 1u64 << 32;
    let unsigned = |(v, carry): (u64, bool)| if carry { v.checked_add(step) } else { Some(v) };
    let unsigned_down = |(v, carry): (u64, bool)| if carry { v.checked_sub(step) } else { Some(v) };
    let signed = |(v, carry): (u64, bool)| {
        if carry {
            (v as i64).checked_add(step as i64)
        } else {
            Some(v as i64)
        }
    };
    let signed_down = |(v, carry): (u64, bool)| {
        if carry {
            (v as i64).checked_sub(step as i64)
        } else {
            Some(v as i64)
        }
    };
    let mut out = Bounds {
        umin: unsigned(up(w.umin))?,
        umax: unsigned_down(down(w.umax))?,
        smin: signed(up(w.smin as u64))?,
        smax: signed_down(down(w.smax as u64))?,
    };
    // Where the value is a sign-extended 32-bit number, it is that number.
    if out.smin >= Bounds::ALL_32.smin && out.smax <= Bounds::ALL_32.smax {
        out.smin = out.smin.max(low.smin);
        out.smax = out.smax.min(low.smax);
    }
    Some(out)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Values where something changes: around zero, the ends of 8, 16, 32 and 64 bits, as signed
    /// and as unsigned, and a few in between.
    pub(crate) fn corners() -> Vec<u64> {
        let mut v = vec![];
        for base in [
            0u64,
            1 << 7,
            1 << 8,
            1 << 15,
            1 << 16,
            1 << 31,
            1 << 32,
            1 << 33,
            1 << 63,
        ] {
            for d in -2i64..=2 {
                v.push(base.wrapping_add(d as u64));
                v.push(base.wrapping_neg().wrapping_add(d as u64));
            }
        }
        v.extend([0x1234_5678_9abc_def0, 0xdead_beef, 14, 34, 0xffff_0000]);
        v.sort_unstable();
        v.dedup();
        v
    }

    /// A random non-empty set of values as a scalar, with members of it.
    pub(crate) fn sample(rng: &mut fastrand::Rng) -> (Scalar, Vec<u64>) {
        let corners = corners();
        let pick = |rng: &mut fastrand::Rng| match rng.u8(0..4) {
            0 => corners[rng.usize(0..corners.len())],
            1 => rng.u64(..) >> rng.u32(0..64),
            2 => rng.u64(0..64),
            _ => (rng.i64(-40..40)) as u64,
        };
        let n = rng.usize(1..6);
        let mut members: Vec<u64> = (0..n).map(|_| pick(rng)).collect();
        if rng.bool() {
            // A short interval, so that bounds matter more than bits.
            let first = members[0];
            members.extend((0..8).map(|i| first.wrapping_add(i)));
        }
        (hull(&members, rng.u8(..)), members)
    }

    /// The least scalar over `members`, in the parts that `parts` selects.
    pub(crate) fn hull(members: &[u64], parts: u8) -> Scalar {
        let mut s = Scalar::UNKNOWN;
        let and = members.iter().fold(u64::MAX, |a, &m| a & m);
        let or = members.iter().fold(0, |a, &m| a | m);
        if parts & 1 != 0 {
            s.tnum = Tnum {
                value: and,
                mask: or & !and,
            };
        }
        if parts & 2 != 0 {
            s.w64.umin = *members.iter().min().unwrap();
            s.w64.umax = *members.iter().max().unwrap();
        }
        if parts & 4 != 0 {
            s.w64.smin = members.iter().map(|&m| m as i64).min().unwrap();
            s.w64.smax = members.iter().map(|&m| m as i64).max().unwrap();
        }
        if parts & 8 != 0 {
            s.w32.umin = members.iter().map(|&m| m & 0xffff_ffff).min().unwrap();
            s.w32.umax = members.iter().map(|&m| m & 0xffff_ffff).max().unwrap();
        }
        if parts & 16 != 0 {
            s.w32.smin = members.iter().map(|&m| i64::from(m as i32)).min().unwrap();
            s.w32.smax = members.iter().map(|&m| i64::from(m as i32)).max().unwrap();
        }
        s
    }

    /// Settling loses no member and never finds a non-empty set empty.
    #[test]
    fn settle_keeps_every_member() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..300_000 {
            let (s, members) = sample(&mut rng);
            let settled = s.settle();
            for &m in &members {
                assert!(s.contains(m));
                let settled = settled.unwrap_or_else(|| panic!("{s:x?} holds {m:#x}"));
                assert!(settled.contains(m), "{s:x?} -> {settled:x?} lost {m:#x}");
                assert!(s.includes(&settled));
                for bits in [8, 16, 32, 64] {
                    let shift = 64 - bits;
                    assert!(settled.truncate(bits).contains(m << shift >> shift));
                    let extended = (((m << shift) as i64) >> shift) as u64;
                    assert!(settled.sign_extend(bits).contains(extended));
                }
            }
        }
    }

    /// As often round as it may go, whatever is known at the start.
    fn settle_plainly(mut s: Scalar) -> Option<Scalar> {
        for _ in 0..3 {
            s.w64 = s.w64.meet(Bounds::of_tnum(s.tnum, 64)).settle(64)?;
            s.w32 = s.w32.meet(Bounds::of_tnum(s.tnum, 32)).settle(32)?;
            s.w32 = s.w32.meet(low_half(s.w64)).settle(32)?;
            s.w64 = whole(s.w64, s.w32)?.settle(64)?;
            let low = Tnum::range(s.w32.umin, s.w32.umax);
            s.tnum = s
                .tnum
                .meet(Tnum::range(s.w64.umin, s.w64.umax))?
                .meet(Tnum {
                    value: low.value,
                    mask: low.mask | 0xffff_ffff_0000_0000,
                })?;
        }
        Some(s)
    }

    /// What `settle` leaves out would have changed nothing.
    #[test]
    fn settle_stops_when_it_is_done() {
        let mut rng = fastrand::Rng::with_seed(2);
        for _ in 0..300_000 {
            let (a, _) = sample(&mut rng);
            let (b, _) = sample(&mut rng);
            // Parts that may contradict each other, and parts that say all.
            let mixed = Scalar {
                tnum: match rng.u8(..4) {
                    0 => b.tnum,
                    1 => Tnum::constant(rng.u64(..) & a.tnum.mask | a.tnum.value),
                    _ => a.tnum,
                },
                w64: if rng.u8(..4) == 0 { b.w64 } else { a.w64 },
                w32: if rng.u8(..4) == 0 { b.w32 } else { a.w32 },
            };
            assert_eq!(mixed.settle(), settle_plainly(mixed), "{mixed:x?}");
        }
    }

    /// All bounds of 4-bit values, placed at the bottom, across the middle and at the top of both
    /// widths: what `settle` keeps is exact wherever signed and unsigned bounds alone decide.
    #[test]
    fn settle_is_exact_on_bounds() {
        for bits in [32u32, 64] {
            let all = Bounds::all(bits);
            let sign = 1u64 << (bits - 1);
            for base in [0, sign.wrapping_sub(4), all.umax - 7] {
                let at = |i: u64| base.wrapping_add(i) & all.umax;
                let signed = |v: u64| ((v << (64 - bits)) as i64) >> (64 - bits);
                let points: Vec<u64> = (0..8).map(at).collect();
                for &umin in &points {
                    for &umax in &points {
                        for &smin in &points {
                            for &smax in &points {
                                let b = Bounds {
                                    umin,
                                    umax,
                                    smin: signed(smin),
                                    smax: signed(smax),
                                };
                                let member = |v: u64| {
                                    (umin..=umax).contains(&v)
                                        && (b.smin..=b.smax).contains(&signed(v))
                                };
                                match b.settle(bits) {
                                    None => assert!(points.iter().all(|&v| !member(v))),
                                    Some(t) => {
                                        assert!(b.includes(t));
                                        assert!(member(t.umin) && member(t.umax));
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn disjoint_sets_meet_in_nothing() {
        let below = Scalar {
            w64: Bounds {
                umax: 9,
                ..Bounds::ALL_64
            },
            ..Scalar::UNKNOWN
        };
        assert_eq!(below.meet(Scalar::constant(10)), None);
        assert_eq!(below.meet(Scalar::constant(9)), Some(Scalar::constant(9)));
        assert_eq!(Scalar::of_size(4).w64.umax, 0xffff_ffff);
        assert_eq!(Scalar::constant(5).meet(Scalar::constant(6)), None);
    }
}
