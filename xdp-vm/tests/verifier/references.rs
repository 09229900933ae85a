//! What must be given back: records of ring buffers, on every path, exactly once.

use xdp_vm::verifier::Cause;

use crate::Kernel::{self, Differs, Same};
use crate::{Accepted, Refused};

const fn accepted(name: &'static str, text: &'static str) -> Accepted {
    Accepted {
        name,
        text,
        kernel: Same,
    }
}

const fn refused(name: &'static str, text: &'static str, cause: fn(&Cause) -> bool) -> Refused {
    differs(name, text, cause, Same)
}

const fn differs(
    name: &'static str,
    text: &'static str,
    cause: fn(&Cause) -> bool,
    kernel: Kernel,
) -> Refused {
    Refused {
        name,
        text,
        cause,
        kernel,
    }
}

/// A record of 16 bytes, or null, is in r0 after this.
macro_rules! reserve {
    ($rest:literal) => {
        concat!("r1 = map 12\n r2 = 16\n r3 = 0\n call 131\n", $rest)
    };
}

/// A record of 16 bytes is in r6 after this, r0 is 0, and at `out` the program ends.
macro_rules! record {
    ($rest:literal) => {
        record!($rest, "")
    };
    ($rest:literal, $functions:literal) => {
        concat!(
            "r6 = r1\n r1 = map 12\n r2 = 16\n r3 = 0\n call 131\n r7 = r6\n r6 = r0\n r0 = 0
             if r6 == 0 goto out\n",
            $rest,
            "\n out:\n exit\n",
            $functions
        )
    };
}

pub(crate) const ACCEPTED: &[Accepted] = &[
    accepted(
        "a record written and submitted",
        record!(
            "*(u64 *)(r6 + 0) = 7\n r1 = 5\n *(u32 *)(r6 + 12) = r1\n r1 = r6\n r2 = 0\n call 132\n r0 = 1"
        ),
    ),
    accepted(
        "a record discarded, with flags",
        record!("r1 = r6\n r2 = 3\n call 133\n r0 = 1"),
    ),
    accepted(
        "submitted on one path, discarded on the other",
        record!(
            "r3 = *(u32 *)(r7 + 16)
             r1 = r6
             r2 = 0
             if r3 == 3 goto discard
             call 132
             r0 = 1
             exit
             discard:
             call 133
             r0 = 2"
        ),
    ),
    accepted(
        "null needs nothing",
        reserve!(
            "if r0 != 0 goto there\n exit\n there:\n r1 = r0\n r2 = 0\n call 132\n r0 = 0\n exit"
        ),
    ),
    accepted(
        "null told by a copy of the pointer",
        reserve!(
            "r6 = r0
             *(u64 *)(r10 - 8) = r0
             r0 = 0
             if r6 == 0 goto out
             r1 = *(u64 *)(r10 - 8)
             *(u8 *)(r1 + 15) = 1
             r2 = 0
             call 132
             r0 = 0
             out:
             exit"
        ),
    ),
    accepted(
        "read what the ring happened to hold, and add to it",
        record!(
            "r1 = *(u64 *)(r6 + 8)\n lock *(u64 *)(r6 + 0) += r1\n r1 = r6\n r2 = 0\n call 132\n r0 = 0"
        ),
    ),
    accepted(
        "at an index within the record",
        record!(
            "r3 = *(u32 *)(r7 + 16)
             r3 &= 15
             r1 = r6
             r1 += r3
             *(u8 *)(r1 + 0) = 1
             r1 = r6
             r2 = 0
             call 133
             r0 = 0"
        ),
    ),
    accepted(
        "packet bytes loaded into a record",
        record!(
            "r1 = r7\n r2 = 0\n r3 = r6\n r4 = 16\n call 189\n r1 = r6\n r2 = 0\n call 132\n r0 = 0"
        ),
    ),
    accepted(
        "a record as the value of a map",
        record!(
            "*(u64 *)(r10 - 8) = 1\n r1 = map 1\n r2 = r10\n r2 += -8\n r3 = r6\n r4 = 0\n call 2\n r1 = r6\n r2 = 0\n call 132\n r0 = 0"
        ),
    ),
    accepted(
        "two records, given back in either order",
        record!(
            "r1 = map 12
             r2 = 8
             r3 = 0
             call 131
             r8 = r0
             if r8 == 0 goto one
             r1 = r6
             r2 = 0
             call 132
             r1 = r8
             r2 = 0
             call 133
             r0 = 0
             exit
             one:
             r1 = r6
             r2 = 0
             call 132
             r0 = 0"
        ),
    ),
    accepted(
        "a function submits what its caller reserved",
        record!(
            "r1 = r6\n call give\n r0 = 0",
            "give:\n r2 = 0\n call 132\n r0 = 0\n exit"
        ),
    ),
    accepted(
        "a function reserves what its caller submits",
        "call take
         if r0 == 0 goto out
         r1 = r0
         r2 = 0
         call 132
         out:
         r0 = 0
         exit
         take:
         r1 = map 12
         r2 = 16
         r3 = 0
         call 131
         exit",
    ),
    accepted(
        "a record a round of a loop",
        "r6 = 4
         again:
         r1 = map 12
         r2 = 16
         r3 = 0
         call 131
         if r0 == 0 goto next
         r1 = r0
         r2 = 0
         call 132
         next:
         r6 += -1
         if r6 != 0 goto again
         r0 = 0
         exit",
    ),
    accepted(
        "an empty record",
        "r1 = map 12\n r2 = 0\n r3 = 0\n call 131\n if r0 == 0 goto out\n r1 = r0\n r2 = 0\n call 132\n out:\n r0 = 0\n exit",
    ),
    accepted(
        "a record longer than there can be is null, whatever is done with it",
        "r1 = map 12\n r2 = 4294967296 ll\n r3 = 0\n call 131\n if r0 == 0 goto out\n r1 = r0\n r2 = 0\n call 132\n out:\n r0 = 0\n exit",
    ),
    accepted(
        "whether a record is there, asked twice",
        reserve!(
            "r6 = r0
             r0 = 0
             if r6 == 0 goto out
             if r6 == 0 goto never
             r1 = r6
             r2 = 0
             call 132
             out:
             r0 = 0
             exit
             never:
             r0 = r9
             exit"
        ),
    ),
];

pub(crate) const REFUSED: &[Refused] = &[
    refused(
        "a record that is never given back",
        record!("r0 = 1"),
        |c| matches!(c, Cause::ReferenceLeaked { acquired_at: 5 }),
    ),
    refused(
        "a record that is not compared with null",
        reserve!("r0 = 0\n exit"),
        |c| matches!(c, Cause::ReferenceLeaked { .. }),
    ),
    refused(
        "a record leaked on one path of two",
        record!(
            "r3 = *(u32 *)(r7 + 16)\n if r3 == 3 goto out\n r1 = r6\n r2 = 0\n call 132\n r0 = 0"
        ),
        |c| matches!(c, Cause::ReferenceLeaked { .. }),
    ),
    refused(
        "a record of every round but the last leaked",
        "r6 = 2
         again:
         r1 = map 12
         r2 = 16
         r3 = 0
         call 131
         r7 = r0
         r6 += -1
         if r6 != 0 goto again
         if r7 == 0 goto out
         r1 = r7
         r2 = 0
         call 132
         out:
         r0 = 0
         exit",
        |c| matches!(c, Cause::ReferenceLeaked { .. }),
    ),
    refused(
        "a record leaked by a function",
        "call take
         r0 = 0
         exit
         take:
         r1 = map 12
         r2 = 16
         r3 = 0
         call 131
         r0 = 0
         exit",
        |c| matches!(c, Cause::ReferenceLeaked { .. }),
    ),
    refused(
        "a record leaked by a tail call",
        record!("r1 = r7\n r2 = map 9\n r3 = 0\n call 12\n r1 = r6\n r2 = 0\n call 132\n r0 = 0"),
        |c| matches!(c, Cause::ReferenceLeaked { .. }),
    ),
    refused(
        "a record given back twice",
        record!("r8 = r6\n r1 = r6\n r2 = 0\n call 132\n r1 = r8\n r2 = 0\n call 132\n r0 = 0"),
        |c| matches!(c, Cause::UninitialisedRegister { reg: 8 }),
    ),
    differs(
        "a record given back twice, the second time from the stack",
        record!(
            "*(u64 *)(r10 - 8) = r6\n r1 = r6\n r2 = 0\n call 133\n r1 = *(u64 *)(r10 - 8)\n r2 = 0\n call 133\n r0 = 0"
        ),
        |c| matches!(c, Cause::StackUninitialised { .. }),
        Same,
    ),
    refused(
        "a record written after it was submitted",
        record!("r1 = r6\n r2 = 0\n call 132\n *(u8 *)(r6 + 0) = 1\n r0 = 0"),
        |c| matches!(c, Cause::UninitialisedRegister { reg: 6 }),
    ),
    refused(
        "a record written after a function gave it back",
        record!(
            "r1 = r6\n call give\n *(u8 *)(r6 + 0) = 1\n r0 = 0",
            "give:\n r2 = 0\n call 132\n r0 = 0\n exit"
        ),
        |c| matches!(c, Cause::UninitialisedRegister { reg: 6 }),
    ),
    refused(
        "what may be null submitted",
        reserve!("r1 = r0\n r2 = 0\n call 132\n r0 = 0\n exit"),
        |c| matches!(c, Cause::MaybeNull { reg: 1 }),
    ),
    refused(
        "what may be null written",
        reserve!("*(u8 *)(r0 + 0) = 1\n r0 = 0\n exit"),
        |c| matches!(c, Cause::MaybeNull { reg: 0 }),
    ),
    refused(
        "a record submitted from its middle",
        record!("r1 = r6\n r1 += 8\n r2 = 0\n call 132\n r0 = 0"),
        |c| matches!(c, Cause::ArgumentOffset { arg: 1, .. }),
    ),
    refused(
        "a record submitted from a variable place",
        record!(
            "r3 = *(u32 *)(r7 + 16)\n r3 &= 8\n r1 = r6\n r1 += r3\n r2 = 0\n call 132\n r0 = 0"
        ),
        |c| matches!(c, Cause::ArgumentOffset { arg: 1, .. }),
    ),
    refused(
        "a map value submitted",
        "r1 = value 4 + 0\n r2 = 0\n call 132\n r0 = 0\n exit",
        |c| matches!(c, Cause::Argument { arg: 1, .. }),
    ),
    refused(
        "the stack submitted",
        "r1 = r10\n r1 += -8\n r2 = 0\n call 132\n r0 = 0\n exit",
        |c| matches!(c, Cause::Argument { arg: 1, .. }),
    ),
    refused(
        "past a record's end",
        record!("*(u64 *)(r6 + 12) = 1\n r1 = r6\n r2 = 0\n call 132\n r0 = 0"),
        |c| {
            matches!(
                c,
                Cause::RecordBounds {
                    size: 16,
                    max: 19,
                    ..
                }
            )
        },
    ),
    refused(
        "before a record's start, where its header is",
        record!("*(u64 *)(r6 - 8) = 1\n r1 = r6\n r2 = 0\n call 132\n r0 = 0"),
        |c| matches!(c, Cause::RecordBounds { min: -8, .. }),
    ),
    refused(
        "at an index past a record's end",
        record!(
            "r3 = *(u32 *)(r7 + 16)\n r3 &= 31\n r1 = r6\n r1 += r3\n *(u8 *)(r1 + 0) = 1\n r1 = r6\n r2 = 0\n call 133\n r0 = 0"
        ),
        |c| matches!(c, Cause::RecordBounds { max: 31, .. }),
    ),
    refused(
        "more packet bytes than the record has",
        record!(
            "r1 = r7\n r2 = 0\n r3 = r6\n r4 = 17\n call 189\n r1 = r6\n r2 = 0\n call 132\n r0 = 0"
        ),
        |c| matches!(c, Cause::RecordBounds { .. }),
    ),
    refused(
        "a record of a size that is not known",
        "r2 = *(u32 *)(r1 + 16)\n r2 &= 15\n r1 = map 12\n r3 = 0\n call 131\n if r0 == 0 goto out\n r1 = r0\n r2 = 0\n call 132\n out:\n r0 = 0\n exit",
        |c| matches!(c, Cause::Argument { arg: 2, .. }),
    ),
    refused(
        "a record reserved in a map that has none",
        "r1 = map 0\n r2 = 8\n r3 = 0\n call 131\n r0 = 0\n exit",
        |c| matches!(c, Cause::ArgumentMap { .. }),
    ),
    differs(
        "an address stored in a record",
        record!("*(u64 *)(r6 + 0) = r10\n r1 = r6\n r2 = 0\n call 132\n r0 = 0"),
        |c| matches!(c, Cause::PointerStored { .. }),
        Differs("loaded as root, the kernel lets programs reveal addresses"),
    ),
    differs(
        "a record returned instead of given back",
        record!("r0 = r6\n exit\n r0 = 0"),
        |c| matches!(c, Cause::ReferenceLeaked { .. }),
        Same,
    ),
    differs(
        "the order of a record and the stack",
        record!("r0 = 0\n if r6 > r10 goto less\n less:\n r1 = r6\n r2 = 0\n call 132\n r0 = 0"),
        |c| matches!(c, Cause::PointerComparison { .. }),
        Differs("loaded as root, the kernel lets programs reveal addresses"),
    ),
    refused(
        "a state without a record does not stand for one with it",
        "r7 = *(u32 *)(r1 + 16)
         r6 = 0
         if r7 == 1 goto join
         r1 = map 12
         r2 = 16
         r3 = 0
         call 131
         r6 = 0
         join:
         r0 = 0
         r1 = 1
         r2 = 2
         r3 = 3
         r4 = 4
         r5 = 5
         if r7 == 2 goto more
         r0 = 1
         more:
         if r7 == 3 goto out
         r0 = 2
         out:
         exit",
        |c| matches!(c, Cause::ReferenceLeaked { .. }),
    ),
    refused(
        "a record compared with null gives the other no certainty",
        record!(
            "r1 = map 12
             r2 = 16
             r3 = 0
             call 131
             r8 = r0
             r1 = r6
             r2 = 0
             call 132
             *(u8 *)(r8 + 0) = 1
             r1 = r8
             r2 = 0
             call 132
             r0 = 0"
        ),
        |c| matches!(c, Cause::MaybeNull { reg: 8 }),
    ),
];
