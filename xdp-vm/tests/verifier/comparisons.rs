//! Comparing pointers: whether two are the same thing may be asked, how far apart two things are may
//! not.

use crate::Kernel::{Differs, Same};
use crate::{Accepted, Refused};
use xdp_vm::verifier::Cause;

const LEAK: crate::Kernel = Differs("loaded as root, the kernel lets programs reveal addresses");

/// Looks up values of `counters` and `flows` (maps 0 and 1), which are left in r6, or null, and r7.
macro_rules! looked_up {
    ($then:literal) => {
        concat!(
            "r9 = r1
             *(u64 *)(r10 - 8) = 3
             r1 = map 1
             r2 = r10
             r2 += -8
             call 1
             if r0 == 0 goto out
             r7 = r0
             r1 = map 1
             r2 = r10
             r2 += -8
             call 1
             r6 = r0\n",
            $then,
            "\n out:
             r0 = 1
             exit"
        )
    };
}

const fn accepted(name: &'static str, text: &'static str) -> Accepted {
    Accepted {
        name,
        text,
        kernel: Same,
    }
}

pub(crate) const ACCEPTED: &[Accepted] = &[
    accepted(
        "what equals a value is not null",
        looked_up!("if r6 != r7 goto out\n r0 = *(u8 *)(r6 + 0)"),
    ),
    accepted(
        "what equals a value is not null, taken",
        looked_up!("if r7 == r6 goto same\n goto out\n same:\n r0 = *(u8 *)(r6 + 0)"),
    ),
    accepted(
        "two places of one map in order",
        looked_up!("if r6 == 0 goto out\n r6 += 4\n if r6 > r7 goto out\n r0 = *(u8 *)(r6 + 0)"),
    ),
    accepted(
        "whether two pointers are the same thing",
        looked_up!("if r6 == r7 goto out\n if r10 == r7 goto out\n if r10 != r6 goto out"),
    ),
    accepted(
        "half of a packet pointer compared with null",
        "r0 = 1
         r2 = *(u32 *)(r1 + 0)
         if w2 == 0 goto out
         r3 = *(u32 *)(r1 + 4)
         r4 = r2
         r4 += 14
         if r4 > r3 goto out
         r0 = *(u8 *)(r2 + 13)
         out:
         exit",
    ),
    accepted(
        "halves of packet pointers compared",
        "r0 = 1
         r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         if w2 == w3 goto out
         if w2 > w3 goto out
         w4 = w2
         if w4 < w3 goto out
         r0 = 2
         out:
         exit",
    ),
];

pub(crate) const REFUSED: &[Refused] = &[
    Refused {
        name: "what does not equal a value may be null",
        text: looked_up!("if r6 == r7 goto out\n r0 = *(u8 *)(r6 + 0)"),
        cause: |c| matches!(c, Cause::MaybeNull { reg: 6 }),
        kernel: Same,
    },
    Refused {
        name: "a moved pointer compared with one that may be null",
        text: looked_up!("r7 += 4\n if r6 == r7 goto out"),
        cause: |c| matches!(c, Cause::PointerComparison { .. }),
        kernel: LEAK,
    },
    Refused {
        name: "the distance of the stack from a map, by trying",
        text: looked_up!("r7 += 4096\n if r7 == r10 goto out"),
        cause: |c| matches!(c, Cause::PointerComparison { .. }),
        kernel: LEAK,
    },
    Refused {
        name: "the order of a value and the stack",
        text: looked_up!("if r7 > r10 goto out"),
        cause: |c| matches!(c, Cause::PointerComparison { .. }),
        kernel: LEAK,
    },
    Refused {
        name: "half of a packet pointer compared with null proves no byte",
        text: "r0 = 1\n r2 = *(u32 *)(r1 + 0)\n if w2 == 0 goto out\n r0 = *(u8 *)(r2 + 0)\n out:\n exit",
        cause: |c| matches!(c, Cause::PacketBounds { .. }),
        kernel: Same,
    },
    Refused {
        name: "half of a packet pointer compared with a number",
        text: "r0 = 1\n r2 = *(u32 *)(r1 + 0)\n if w2 == 4096 goto out\n r0 = 2\n out:\n exit",
        cause: |c| matches!(c, Cause::PointerComparison { .. }),
        kernel: LEAK,
    },
    Refused {
        name: "half of a packet pointer ordered against null",
        text: "r0 = 1\n r2 = *(u32 *)(r1 + 0)\n if w2 s> 0 goto out\n r0 = 2\n out:\n exit",
        cause: |c| matches!(c, Cause::PointerComparison { .. }),
        kernel: LEAK,
    },
    Refused {
        name: "halves of packet pointers compared prove no byte",
        text: "r0 = 1
         r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         if w2 >= w3 goto out
         r0 = *(u8 *)(r2 + 0)
         out:
         exit",
        cause: |c| matches!(c, Cause::PacketBounds { .. }),
        kernel: Same,
    },
    Refused {
        name: "whether a value is in the packet",
        text: looked_up!("r2 = *(u32 *)(r9 + 0)\n if r2 == r7 goto out"),
        cause: |c| matches!(c, Cause::PointerComparison { .. }),
        kernel: LEAK,
    },
];
