//! Holes that verifiers had, by the number that they are known by. Each program is ours, and goes where
//! the mistake led: a verifier that makes it again takes the last access for safe. Other holes of the
//! kind are in the tables of their subjects (CVE-2017-16995 among the refused programs).

use xdp_vm::verifier::Cause;

use crate::{Kernel, Refused};

macro_rules! hole {
    ($name:literal, $cause:pat, $text:literal) => {
        Refused {
            name: $name,
            text: $text,
            cause: |c| matches!(c, $cause),
            kernel: Kernel::Same,
        }
    };
}

pub(crate) const REFUSED: &[Refused] = &[
    // The bounds of the low half were taken for those of the whole.
    hole!(
        "CVE-2020-8835: a comparison of 32 bits bounds no number of 64",
        Cause::OffsetUnbounded { .. } | Cause::MapValueBounds { .. } | Cause::OffsetTooLarge { .. },
        "r1 = value 4 + 0
         r7 = *(u64 *)(r1 + 0)
         r0 = 1
         if w7 > 4 goto out
         r1 += r7
         r0 = *(u8 *)(r1 + 0)
         out:
         exit"
    ),
    // An OR made the bounds of the low half from those of the whole, cut off.
    hole!(
        "CVE-2020-27194: an OR does not bound the low half by the whole",
        Cause::OffsetUnbounded { .. } | Cause::MapValueBounds { .. } | Cause::OffsetTooLarge { .. },
        "r1 = value 4 + 0
         r7 = *(u64 *)(r1 + 0)
         r0 = 1
         r8 = 6
         r8 <<= 32
         r8 += 2
         if r7 >= r8 goto out
         if r7 == 0 goto out
         r7 |= 0
         w7 = w7
         r7 >>= 1
         r7 *= 64
         r1 += r7
         r0 = *(u8 *)(r1 + 0)
         out:
         exit"
    ),
    // Bits of which only the upper half is known were taken for known in the lower.
    hole!(
        "CVE-2021-3490: an operation of 32 bits leaves an unknown bit unknown",
        Cause::OffsetUnbounded { .. } | Cause::MapValueBounds { .. } | Cause::OffsetTooLarge { .. },
        "r1 = value 4 + 0
         r7 = *(u64 *)(r1 + 0)
         r8 = 1
         r8 <<= 32
         r8 += 1
         r7 &= r8
         w9 = 1
         w7 ^= w9
         r7 <<= 6
         r1 += r7
         r0 = *(u8 *)(r1 + 0)
         exit"
    ),
    // That the whole is at least 1 was taken to say it of the low half.
    hole!(
        "CVE-2021-31440: the low half of a positive number may be zero",
        Cause::OffsetUnbounded { .. } | Cause::MapValueBounds { .. } | Cause::OffsetTooLarge { .. },
        "r1 = value 4 + 0
         r7 = *(u64 *)(r1 + 0)
         r0 = 1
         if r7 s< 1 goto out
         w8 = w7
         if w8 > 1 goto out
         r8 += -1
         r1 += r8
         r0 = *(u8 *)(r1 + 0)
         out:
         exit"
    ),
    // The dividend was left whole where the divisor is zero.
    hole!(
        "CVE-2021-3444: a remainder of 32 bits by zero is the low half",
        Cause::MapValueBounds { .. },
        "r8 = 1
         r8 <<= 32
         r9 = 0
         w8 %= w9
         r0 = 1
         if r8 != 0 goto out
         r1 = value 4 + 0
         r0 = *(u8 *)(r1 + 64)
         out:
         exit"
    ),
    // A shift of 32 bits was done on all 64, and cut afterwards.
    hole!(
        "CVE-2018-18445: a shift of 32 bits loses the upper half first",
        Cause::MapValueBounds { .. },
        "r1 = value 4 + 0
         r7 = *(u64 *)(r1 + 0)
         r0 = 1
         r8 = 1
         r8 <<= 32
         r7 &= r8
         if r7 == 0 goto out
         w7 >>= 31
         r9 = 2
         r9 -= r7
         r9 *= 32
         r1 += r9
         r0 = *(u8 *)(r1 + 0)
         out:
         exit"
    ),
    // A logical shift kept the signed bounds of what was shifted.
    hole!(
        "CVE-2017-17853: a logical shift makes a negative number a large one",
        Cause::MapValueBounds { .. } | Cause::OffsetUnbounded { .. } | Cause::OffsetTooLarge { .. },
        "r1 = value 4 + 0
         r7 = *(u64 *)(r1 + 0)
         r0 = 1
         if r7 s> -1 goto out
         r7 >>= 57
         r1 += r7
         r0 = *(u8 *)(r1 + 0)
         out:
         exit"
    ),
    // The immediate of a move of 32 bits was taken for a negative number of 64.
    hole!(
        "CVE-2021-45402: a move of 32 bits gives a positive number",
        Cause::MapValueBounds { .. },
        "w8 = -1
         r0 = 1
         if r8 s< 0 goto out
         r1 = value 4 + 0
         r0 = *(u8 *)(r1 + 64)
         out:
         exit"
    ),
    // Arithmetic moved what might be null, so that the comparison with null was no longer one.
    hole!(
        "CVE-2022-23222: nothing is added to what may be null",
        Cause::PointerArithmetic { .. } | Cause::MaybeNull { .. },
        "*(u64 *)(r10 - 8) = 0
         r1 = map 1
         r2 = r10
         r2 += -8
         call 1
         r0 += 8
         if r0 == 0 goto out
         r0 = *(u8 *)(r0 - 8)
         exit
         out:
         r0 = 1
         exit"
    ),
    // A record was given back by a pointer into its middle.
    hole!(
        "CVE-2021-4204: a record is given back by its start alone",
        Cause::Argument { .. } | Cause::ArgumentOffset { .. } | Cause::NotHeld { .. },
        "r1 = map 12
         r2 = 16
         r3 = 0
         call 131
         if r0 == 0 goto out
         r1 = r0
         r1 += 8
         r2 = 0
         call 132
         out:
         r0 = 1
         exit"
    ),
    // A path was taken for one that had been seen, though the number that the access hangs on differed.
    hole!(
        "CVE-2023-2163: a path that differs in what matters is not pruned",
        Cause::MapValueBounds { .. },
        "r1 = value 4 + 0
         r7 = *(u64 *)(r1 + 0)
         r9 = *(u64 *)(r1 + 8)
         r8 = 64
         if r7 > 5 goto a
         r8 = 0
         a:
         r6 = r8
         if r9 > 5 goto b
         r9 = 0
         b:
         if r6 == 9 goto c
         r6 += 0
         c:
         r1 += r6
         r0 = *(u8 *)(r1 + 0)
         exit"
    ),
    hole!(
        "CVE-2023-2163, through the stack",
        Cause::MapValueBounds { .. },
        "r1 = value 4 + 0
         r7 = *(u64 *)(r1 + 0)
         r9 = *(u64 *)(r1 + 8)
         r8 = 64
         if r7 > 5 goto a
         r8 = 0
         a:
         *(u64 *)(r10 - 8) = r8
         if r9 > 5 goto b
         r9 = 0
         b:
         r6 = *(u64 *)(r10 - 8)
         r1 += r6
         r0 = *(u8 *)(r1 + 0)
         exit"
    ),
    // A map of another kind was taken.
    hole!(
        "CVE-2021-34866: a ring buffer's helper takes no other map",
        Cause::ArgumentMap { .. },
        "r1 = map 0
         r2 = 16
         r3 = 0
         call 131
         r0 = 1
         exit"
    ),
];
