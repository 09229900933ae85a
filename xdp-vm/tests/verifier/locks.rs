//! Spin locks in map values: one at a time, released before the program ends or calls, and never touched
//! as memory.

use xdp_vm::verifier::Cause;

use crate::Kernel::Same;
use crate::{Accepted, Refused};

const fn accepted(name: &'static str, text: &'static str) -> Accepted {
    Accepted {
        name,
        text,
        kernel: Same,
    }
}

const fn refused(name: &'static str, text: &'static str, cause: fn(&Cause) -> bool) -> Refused {
    Refused {
        name,
        text,
        cause,
        kernel: Same,
    }
}

/// A value of `guarded` (map 19, its lock at byte 0) is in r6 after this, and of another look-up in r7;
/// the context is in r8. At `out` the program ends, with r0.
macro_rules! guarded {
    ($rest:literal) => {
        guarded!($rest, "")
    };
    ($rest:literal, $functions:literal) => {
        concat!(
            "r8 = r1
             *(u32 *)(r10 - 4) = 1
             r1 = map 19
             r2 = r10
             r2 += -4
             call 1
             if r0 == 0 goto out
             r6 = r0
             r1 = map 19
             r2 = r10
             r2 += -4
             call 1
             if r0 == 0 goto out
             r7 = r0
             r0 = 0\n",
            $rest,
            "\n out:\n r0 = 0\n exit\n",
            $functions
        )
    };
}

pub(crate) const ACCEPTED: &[Accepted] = &[
    accepted(
        "a value changed under its lock",
        guarded!(
            "r1 = r6
             call 93
             r2 = *(u64 *)(r6 + 8)
             r2 += 1
             *(u64 *)(r6 + 8) = r2
             *(u32 *)(r6 + 4) = 1
             r1 = r6
             call 94"
        ),
    ),
    accepted(
        "a lock in the middle of an array's only value at hand",
        "r1 = value 20 + 8
         call 93
         r6 = value 20 + 0
         *(u64 *)(r6 + 0) = 7
         *(u32 *)(r6 + 12) = 7
         r1 = value 20 + 8
         call 94
         r0 = 0
         exit",
    ),
    accepted(
        "two locks, one after the other",
        guarded!("r1 = r6\n call 93\n r1 = r6\n call 94\n r1 = r7\n call 93\n r1 = r7\n call 94"),
    ),
    accepted(
        "released on both ways",
        guarded!(
            "r1 = r6
             call 93
             r2 = *(u64 *)(r6 + 8)
             if r2 == 0 goto zero
             r1 = r6
             call 94
             goto out
             zero:
             r1 = r6
             call 94"
        ),
    ),
    accepted(
        "a function of the program called under a lock",
        guarded!(
            "r1 = r6\n call 93\n r1 = r6\n call f\n r1 = r6\n call 94",
            "f:\n *(u64 *)(r1 + 16) = 1\n r0 = 0\n exit"
        ),
    ),
    accepted(
        "a function that takes the lock, and one that releases it",
        guarded!(
            "r1 = r6\n call f\n r1 = r6\n call g",
            "f:\n call 93\n r0 = 0\n exit\n g:\n call 94\n r0 = 0\n exit"
        ),
    ),
    accepted(
        "what is before and behind a lock, without holding it",
        "r1 = value 20 + 0\n r0 = *(u64 *)(r1 + 0)\n r0 = *(u32 *)(r1 + 12)\n r0 = 0\n exit",
    ),
    accepted(
        "an update of the map, under no lock",
        guarded!(
            "*(u64 *)(r10 - 16) = 0
             *(u64 *)(r10 - 24) = 0
             *(u64 *)(r10 - 32) = 0
             r1 = map 19
             r2 = r10
             r2 += -4
             r3 = r10
             r3 += -32
             r4 = 4
             call 2"
        ),
    ),
];

pub(crate) const REFUSED: &[Refused] = &[
    refused(
        "a lock that is never released",
        guarded!("r1 = r6\n call 93"),
        |c| matches!(c, Cause::LockHeld { .. }),
    ),
    refused(
        "a lock released on one way only",
        guarded!(
            "r2 = *(u64 *)(r6 + 8)\n r9 = r2\n r1 = r6\n call 93\n if r9 == 0 goto out\n r1 = r6\n call 94"
        ),
        |c| matches!(c, Cause::LockHeld { .. }),
    ),
    refused(
        "the same lock taken twice",
        guarded!("r1 = r6\n call 93\n r1 = r6\n call 93\n r1 = r6\n call 94"),
        |c| matches!(c, Cause::SecondLock),
    ),
    refused(
        "a second lock",
        guarded!("r1 = r6\n call 93\n r1 = r7\n call 93\n r1 = r7\n call 94\n r1 = r6\n call 94"),
        |c| matches!(c, Cause::SecondLock),
    ),
    refused(
        "another lock released: of the same map, of another look-up",
        guarded!("r1 = r6\n call 93\n r1 = r7\n call 94"),
        |c| matches!(c, Cause::LockNotHeld),
    ),
    refused(
        "the lock of another entry of an array released",
        "*(u32 *)(r10 - 4) = 0
         *(u32 *)(r10 - 8) = 1
         r1 = map 18
         r2 = r10
         r2 += -4
         call 1
         if r0 == 0 goto out
         r6 = r0
         r1 = map 18
         r2 = r10
         r2 += -8
         call 1
         if r0 == 0 goto out
         r7 = r0
         r1 = r6
         r1 += 8
         call 93
         r1 = r7
         r1 += 8
         call 94
         out:
         r0 = 0
         exit",
        |c| matches!(c, Cause::LockNotHeld),
    ),
    refused(
        "a lock released that is not held",
        guarded!("r1 = r6\n call 94"),
        |c| matches!(c, Cause::LockNotHeld),
    ),
    refused(
        "a helper called under a lock",
        guarded!("r1 = r6\n call 93\n call 7\n r1 = r6\n call 94"),
        |c| matches!(c, Cause::LockHeld { .. }),
    ),
    refused(
        "a helper called under a lock, by a function",
        guarded!(
            "r1 = r6\n call 93\n call f\n r1 = r6\n call 94",
            "f:\n call 7\n r0 = 0\n exit"
        ),
        |c| matches!(c, Cause::LockHeld { .. }),
    ),
    refused(
        "a tail call under a lock",
        guarded!("r1 = r6\n call 93\n r1 = r8\n r2 = map 9\n r3 = 0\n call 12\n r1 = r6\n call 94"),
        |c| matches!(c, Cause::LockHeld { .. }),
    ),
    refused(
        "a lock read as memory",
        guarded!("r2 = *(u32 *)(r6 + 0)"),
        |c| matches!(c, Cause::LockTouched { .. }),
    ),
    refused(
        "a lock written as memory",
        guarded!("*(u64 *)(r6 + 0) = 0"),
        |c| matches!(c, Cause::LockTouched { .. }),
    ),
    refused(
        "a lock changed by an atomic operation",
        "r1 = value 20 + 8\n r2 = 0\n lock *(u32 *)(r1 + 0) += r2\n r0 = 0\n exit",
        |c| matches!(c, Cause::LockTouched { .. }),
    ),
    refused(
        "a lock that an index may reach",
        "r2 = *(u32 *)(r1 + 16)\n r2 &= 15\n r1 = value 20 + 0\n r1 += r2\n r0 = *(u8 *)(r1 + 0)\n r0 = 0\n exit",
        |c| matches!(c, Cause::LockTouched { .. }),
    ),
    refused(
        "a lock given to a helper as memory",
        guarded!("r1 = r8\n r2 = 0\n r3 = r6\n r4 = 8\n call 189"),
        |c| matches!(c, Cause::LockTouched { .. }),
    ),
    refused(
        "a value with its lock given to an update",
        guarded!("r1 = map 19\n r2 = r10\n r2 += -4\n r3 = r6\n r4 = 0\n call 2"),
        |c| matches!(c, Cause::LockTouched { .. }),
    ),
    refused(
        "not the lock's place",
        "r1 = value 20 + 4\n call 93\n r1 = value 20 + 4\n call 94\n r0 = 0\n exit",
        |c| matches!(c, Cause::NotALock { .. }),
    ),
    refused(
        "a variable place that may be the lock's",
        "r2 = *(u32 *)(r1 + 16)\n r2 &= 8\n r1 = value 20 + 0\n r1 += r2\n r6 = r1\n call 93\n r1 = r6\n call 94\n r0 = 0\n exit",
        |c| matches!(c, Cause::NotALock { .. }),
    ),
    refused(
        "a map without locks",
        "r1 = value 4 + 0\n call 93\n r1 = value 4 + 0\n call 94\n r0 = 0\n exit",
        |c| matches!(c, Cause::NotALock { .. }),
    ),
    refused(
        "a lock on the stack",
        "*(u32 *)(r10 - 4) = 0\n r1 = r10\n r1 += -4\n call 93\n r1 = r10\n r1 += -4\n call 94\n r0 = 0\n exit",
        |c| matches!(c, Cause::Argument { arg: 1, .. }),
    ),
    refused(
        "a lock in a value that may be null",
        "*(u32 *)(r10 - 4) = 1\n r1 = map 19\n r2 = r10\n r2 += -4\n call 1\n r1 = r0\n call 93\n r0 = 0\n exit",
        |c| matches!(c, Cause::MaybeNull { reg: 1 }),
    ),
    refused(
        "the lock of another look-up released, on one way",
        guarded!(
            "r9 = *(u64 *)(r6 + 8)
             r1 = r6
             call 93
             if r9 == 0 goto other
             goto join
             other:
             r6 = r7
             join:
             r1 = r6
             call 94"
        ),
        |c| matches!(c, Cause::LockNotHeld),
    ),
    refused(
        "a state without a lock does not stand for one with it",
        guarded!(
            "r9 = *(u64 *)(r6 + 8)
             if r9 == 1 goto join
             r1 = r6
             call 93
             join:
             r0 = 0
             r1 = 1
             r2 = 2
             r3 = 3
             r4 = 4
             r5 = 5
             if r9 == 2 goto more
             r0 = 1
             more:
             if r9 == 3 goto out
             r0 = 2"
        ),
        |c| matches!(c, Cause::LockHeld { .. }),
    ),
];
