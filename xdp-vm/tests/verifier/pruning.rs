//! What a stored state may stand for: what a decision hung on must be as it was, the rest may differ.

use crate::Kernel::Differs;
use crate::{Accepted, Refused};
use xdp_vm::verifier::Cause;

const STACK: crate::Kernel =
    Differs("loaded as root, the kernel lets programs read unwritten stack");

pub(crate) const ACCEPTED: &[Accepted] = &[Accepted {
    name: "of a remainder only that it is one is asked",
    text: "r6 = *(u32 *)(r1 + 12)
         r0 = 1
         if r6 > 7000 goto other
         r6 += 1
         other:
         r7 = r6
         r7 %= 36
         if r7 == 40 goto bad
         exit
         bad:
         r0 = *(u64 *)(r1 + 0)
         exit",
    kernel: Differs("the kernel knows nothing of a remainder"),
}];

pub(crate) const REFUSED: &[Refused] = &[
    Refused {
        name: "a masked number that the mask does not bound: the first path must not stand for the second",
        text: "r6 = *(u32 *)(r1 + 12)
         r7 = *(u32 *)(r1 + 16)
         r0 = 1
         if r7 == 0 goto large
         r6 &= 3
         goto join
         large:
         r6 = 7
         join:
         r8 = r6
         r8 &= 7
         if r8 > 3 goto bad
         exit
         bad:
         r0 = *(u64 *)(r10 - 8)
         exit",
        cause: |c| matches!(c, Cause::StackUninitialised { .. }),
        kernel: STACK,
    },
    Refused {
        name: "nor where a remainder is below its divisor because the number is",
        text: "r6 = *(u32 *)(r1 + 12)
         r7 = *(u32 *)(r1 + 16)
         r0 = 1
         if r7 == 0 goto large
         r6 &= 3
         goto join
         large:
         r6 = 9
         join:
         r8 = r6
         r8 %= 36
         if r8 > 3 goto bad
         exit
         bad:
         r0 = *(u64 *)(r10 - 8)
         exit",
        cause: |c| matches!(c, Cause::StackUninitialised { .. }),
        kernel: STACK,
    },
    Refused {
        name: "nor of the low half of a number",
        text: "r6 = *(u32 *)(r1 + 12)
         r7 = *(u32 *)(r1 + 16)
         r0 = 1
         if r7 == 0 goto large
         r6 &= 3
         goto join
         large:
         r6 = 9
         join:
         w8 = w6
         if r8 > 3 goto bad
         exit
         bad:
         r0 = *(u64 *)(r10 - 8)
         exit",
        cause: |c| matches!(c, Cause::StackUninitialised { .. }),
        kernel: STACK,
    },
];
