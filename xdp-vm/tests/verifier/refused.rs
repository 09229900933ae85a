//! Programs that are not safe, each with the cause it must be refused for: the holes that other
//! verifiers had, and what every one of them must find.

use xdp_vm::verifier::Cause;

use crate::Kernel::{self, Differs, Same};
use crate::Refused;

macro_rules! refused {
    ($name:literal, $cause:pat, $text:literal) => {
        refused!($name, $cause, $text, Same)
    };
    ($name:literal, $cause:pat, $text:literal, $kernel:expr) => {
        Refused {
            name: $name,
            text: $text,
            cause: |c| matches!(c, $cause),
            kernel: $kernel,
        }
    };
}

/// The kernel lets a loader that may see addresses do this; nothing of ours gives them away.
const LEAK: Kernel = Differs("loaded as root, the kernel lets programs reveal addresses");
/// The kernel lets privileged programs read their stack as they find it.
const STACK: Kernel = Differs("loaded as root, the kernel lets programs read unwritten stack");

pub(crate) const CASES: &[Refused] = &[
    // Registers.
    refused!(
        "no verdict",
        Cause::UninitialisedRegister { reg: 0 },
        "exit"
    ),
    refused!(
        "a register nobody wrote",
        Cause::UninitialisedRegister { reg: 5 },
        "r0 = r5\n exit"
    ),
    refused!(
        "half of a packet pointer returned",
        Cause::PointerReturned { .. },
        "r2 = *(u32 *)(r1 + 0)\n w0 = w2\n exit",
        LEAK
    ),
    refused!(
        "half of a packet pointer moved",
        Cause::PointerArithmetic { .. },
        "r2 = *(u32 *)(r1 + 0)\n w3 = w2\n w3 += 14\n r0 = 1\n exit",
        LEAK
    ),
    refused!(
        "half of a packet pointer compared",
        Cause::PointerComparison { .. },
        "r2 = *(u32 *)(r1 + 0)\n w3 = w2\n r0 = 1\n if r3 == 64 goto out\n out:\n exit",
        LEAK
    ),
    refused!(
        "half of a packet pointer taken from a whole one",
        Cause::PointerArithmetic { .. },
        "r2 = *(u32 *)(r1 + 0)\n r3 = *(u32 *)(r1 + 4)\n w4 = w3\n r4 -= r2\n r0 = 1\n exit"
    ),
    refused!(
        "half of a packet pointer stored in the packet",
        Cause::PointerStored { .. },
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         w4 = w2
         r5 = r2
         r5 += 8
         r0 = 1
         if r5 > r3 goto out
         *(u32 *)(r2 + 0) = r4
         out:
         exit",
        LEAK
    ),
    refused!(
        "memory behind half of a packet pointer",
        Cause::NotMemory { .. },
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r5 = r2
         r5 += 8
         r0 = 1
         if r5 > r3 goto out
         w4 = w2
         r0 = *(u8 *)(r4 + 0)
         out:
         exit"
    ),
    refused!(
        "an argument register after a call",
        Cause::UninitialisedRegister { reg: 1 },
        "call 7\n r0 = r1\n exit"
    ),
    refused!(
        "the callee's saved registers are not the caller's",
        Cause::UninitialisedRegister { reg: 6 },
        "r6 = 1
         call f
         exit
         f:
         r0 = r6
         exit"
    ),
    refused!(
        "the frame pointer is not written",
        Cause::FramePointerWritten,
        "r10 = 1\n r0 = 1\n exit"
    ),
    // Packet.
    refused!(
        "a packet byte without a check",
        Cause::PacketBounds {
            needed: 1,
            proven: 0,
            ..
        },
        "r2 = *(u32 *)(r1 + 0)\n r0 = *(u8 *)(r2 + 0)\n exit"
    ),
    refused!(
        "one byte more than was checked",
        Cause::PacketBounds {
            needed: 15,
            proven: 14,
            ..
        },
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r0 = 1
         r4 = r2
         r4 += 14
         if r4 > r3 goto out
         r0 = *(u8 *)(r2 + 14)
         out:
         exit"
    ),
    refused!(
        "a check that is read the wrong way round",
        Cause::PacketBounds { .. },
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r0 = 1
         r4 = r2
         r4 += 14
         if r4 < r3 goto out
         r0 = *(u8 *)(r2 + 0)
         out:
         exit"
    ),
    refused!(
        "equality with the end proves nothing",
        Cause::PacketBounds { .. },
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r0 = 1
         r4 = r2
         r4 += 14
         if r4 == r3 goto in
         exit
         in:
         r0 = *(u8 *)(r2 + 0)
         exit"
    ),
    refused!(
        "before the packet",
        Cause::BeforePacket { .. },
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r0 = 1
         r4 = r2
         r4 += 14
         if r4 > r3 goto out
         r0 = *(u8 *)(r2 - 1)
         out:
         exit"
    ),
    refused!(
        "a negative variable offset",
        Cause::BeforePacket { .. },
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r5 = *(u32 *)(r1 + 16)
         r0 = 1
         r5 &= 15
         r5 -= 8
         r4 = r2
         r4 += r5
         r6 = r4
         r6 += 32
         if r6 > r3 goto out
         r0 = *(u8 *)(r4 + 0)
         out:
         exit"
    ),
    refused!(
        "a variable offset that may be huge makes the comparison worthless",
        Cause::PacketBounds { .. },
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r5 = *(u32 *)(r1 + 16)
         r0 = 1
         r2 += r5
         r4 = r2
         r4 += 8
         if r4 > r3 goto out
         r0 = *(u8 *)(r2 + 0)
         out:
         exit"
    ),
    refused!(
        "a check before the variable offset says nothing after it",
        Cause::PacketBounds { .. },
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r5 = *(u32 *)(r1 + 16)
         r5 &= 7
         r0 = 1
         r4 = r2
         r4 += 14
         if r4 > r3 goto out
         r2 += r5
         r0 = *(u8 *)(r2 + 0)
         out:
         exit"
    ),
    refused!(
        "packet pointers are void after adjust_head",
        Cause::NotMemory { reg: 7, .. },
        "r6 = r1
         r7 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r4 = r7
         r4 += 14
         r0 = 1
         if r4 > r3 goto out
         r2 = 4
         call 44
         r0 = *(u8 *)(r7 + 0)
         out:
         exit"
    ),
    refused!(
        "and so are those spilled, after adjust_tail in a callee",
        Cause::NotMemory { reg: 7, .. },
        "r7 = *(u32 *)(r1 + 0)
         *(u64 *)(r10 - 8) = r7
         call shrink
         r7 = *(u64 *)(r10 - 8)
         r0 = *(u8 *)(r7 + 0)
         exit
         shrink:
         r2 = -4
         call 65
         r0 = 0
         exit"
    ),
    refused!(
        "a comparison of pointers from before the packet moved proves nothing",
        Cause::NotMemory { reg: 7, .. },
        "r6 = r1
         r7 = *(u32 *)(r1 + 0)
         r8 = *(u32 *)(r1 + 4)
         r2 = 4
         call 44
         r4 = r7
         r0 = 1
         if r4 >= r8 goto out
         r0 = *(u8 *)(r7 + 0)
         out:
         exit"
    ),
    refused!(
        "nor can one with the new end be made",
        Cause::PointerComparison { .. },
        "r6 = r1
         r7 = *(u32 *)(r1 + 0)
         r2 = 4
         call 44
         r8 = *(u32 *)(r6 + 4)
         r0 = 1
         if r7 >= r8 goto out
         r0 = 2
         out:
         exit",
        LEAK
    ),
    refused!(
        "the distance between where the packet was and is",
        Cause::PointerArithmetic { .. },
        "r6 = r1
         r7 = *(u32 *)(r1 + 0)
         r2 = 4
         call 44
         r8 = *(u32 *)(r6 + 4)
         r8 -= r7
         r0 = 2
         exit"
    ),
    refused!(
        "a pointer from before the packet moved, moved itself",
        Cause::PointerArithmetic { .. },
        "r7 = *(u32 *)(r1 + 0)\n r2 = 4\n call 44\n r7 += 14\n r0 = 1\n exit",
        LEAK
    ),
    refused!(
        "a pointer from before the packet moved, returned",
        Cause::PointerReturned { .. },
        "r7 = *(u32 *)(r1 + 0)\n r2 = 4\n call 44\n r0 = r7\n exit",
        LEAK
    ),
    refused!(
        "the address of a function",
        Cause::FunctionAddress,
        "r0 = 1\n .raw 0x18 1 4 0 1\n .raw 0 0 0 0 0\n exit\n r0 = 2\n exit"
    ),
    refused!(
        "part of a pointer stored to the stack",
        Cause::PartialSpill { off: -8 },
        "*(u32 *)(r10 - 8) = r1\n r0 = 1\n exit"
    ),
    refused!(
        "a map that programs only write is read",
        Cause::WriteOnlyMap { .. },
        "r1 = value 17 + 0\n r0 = *(u8 *)(r1 + 0)\n exit"
    ),
    refused!(
        "the packet's end is not memory",
        Cause::NotMemory { reg: 2, .. },
        "r2 = *(u32 *)(r1 + 4)\n r0 = *(u8 *)(r2 + 0)\n exit"
    ),
    refused!(
        "an atomic on the packet",
        Cause::AtomicTarget { .. },
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r0 = 1
         r4 = r2
         r4 += 14
         if r4 > r3 goto out
         lock *(u32 *)(r2 + 0) += r0
         out:
         exit"
    ),
    // Maps.
    refused!(
        "a value not compared with null",
        Cause::MaybeNull { reg: 0 },
        "*(u64 *)(r10 - 8) = 0
         r2 = r10
         r2 += -8
         r1 = map 1
         call 1
         r0 = *(u64 *)(r0 + 0)
         exit"
    ),
    refused!(
        "the null side of the comparison",
        Cause::NotMemory { reg: 0, .. },
        "*(u64 *)(r10 - 8) = 0
         r2 = r10
         r2 += -8
         r1 = map 1
         call 1
         if r0 != 0 goto out
         r0 = *(u64 *)(r0 + 0)
         out:
         r0 = 1
         exit"
    ),
    refused!(
        "moved before it was compared with null",
        Cause::PointerArithmetic { .. },
        "*(u64 *)(r10 - 8) = 0
         r2 = r10
         r2 += -8
         r1 = map 1
         call 1
         r0 += 8
         if r0 == 0 goto out
         r1 = *(u64 *)(r0 + 0)
         out:
         r0 = 1
         exit"
    ),
    refused!(
        "the null check of one look-up is not that of another",
        Cause::MaybeNull { reg: 0 },
        "*(u64 *)(r10 - 8) = 0
         r2 = r10
         r2 += -8
         r1 = map 1
         call 1
         r6 = r0
         r2 = r10
         r2 += -8
         r1 = map 1
         call 1
         if r6 == 0 goto out
         r1 = *(u64 *)(r0 + 0)
         out:
         r0 = 1
         exit"
    ),
    refused!(
        "past the end of the value",
        Cause::MapValueBounds { size: 64, .. },
        "r1 = value 4 + 0\n r0 = *(u64 *)(r1 + 57)\n exit"
    ),
    refused!(
        "an index that was not bounded",
        Cause::MapValueBounds { .. },
        "r6 = *(u32 *)(r1 + 16)
         r1 = value 4 + 0
         r1 += r6
         r0 = *(u8 *)(r1 + 0)
         exit"
    ),
    refused!(
        "an index bounded as signed from above only",
        Cause::OffsetUnbounded { .. } | Cause::MapValueBounds { .. },
        "r6 = value 4 + 0
         r6 = *(u64 *)(r6 + 0)
         r0 = 1
         if r6 s> 63 goto out
         r1 = value 4 + 0
         r1 += r6
         r0 = *(u8 *)(r1 + 0)
         out:
         exit"
    ),
    refused!(
        "an index bounded in its low half only",
        Cause::OffsetUnbounded { .. } | Cause::MapValueBounds { .. },
        "r6 = value 4 + 0
         r6 = *(u64 *)(r6 + 0)
         r0 = 1
         if w6 > 63 goto out
         r1 = value 4 + 0
         r1 += r6
         r0 = *(u8 *)(r1 + 0)
         out:
         exit"
    ),
    refused!(
        "an index that a 32-bit shift was taken to bound",
        // CVE-2017-16995 and its kin: sign extension of an immediate.
        Cause::OffsetUnbounded { .. } | Cause::MapValueBounds { .. } | Cause::OffsetTooLarge { .. },
        "w6 = -1
         r6 >>= 1
         r1 = value 4 + 0
         r1 += r6
         r0 = *(u8 *)(r1 + 0)
         exit"
    ),
    refused!(
        "a wrapped multiplication is not small",
        Cause::OffsetUnbounded { .. } | Cause::MapValueBounds { .. },
        "r6 = value 4 + 0
         r6 = *(u64 *)(r6 + 0)
         r0 = 1
         if r6 > 0x7fffffff goto out
         r6 *= r6
         r6 *= 8
         r1 = value 4 + 0
         r1 += r6
         r0 = *(u8 *)(r1 + 0)
         out:
         exit"
    ),
    refused!(
        "a write to constants",
        Cause::ReadOnlyMap { .. },
        "r1 = value 2 + 0\n *(u32 *)(r1 + 0) = 1\n r0 = 1\n exit"
    ),
    refused!(
        "an update of constants by a helper",
        Cause::ReadOnlyMap { .. },
        "*(u64 *)(r10 - 8) = 0
         *(u64 *)(r10 - 16) = 0
         *(u64 *)(r10 - 24) = 0
         r1 = map 2
         r2 = r10
         r2 += -8
         r3 = r10
         r3 += -24
         r4 = 0
         call 2
         r0 = 1
         exit"
    ),
    refused!(
        "a key that is known, past the array's end",
        Cause::MaybeNull { reg: 0 },
        "*(u32 *)(r10 - 4) = 16
         r2 = r10
         r2 += -4
         r1 = map 0
         call 1
         r1 = *(u64 *)(r0 + 0)
         r0 = 2
         exit"
    ),
    refused!(
        "a struct key with padding that nobody set",
        Cause::StackRangeUninitialised {
            off: -1,
            index: 7,
            size: 8,
            ..
        },
        "r6 = *(u32 *)(r1 + 12)
         *(u32 *)(r10 - 8) = r6
         *(u16 *)(r10 - 4) = 80
         *(u8 *)(r10 - 2) = 17
         r1 = map 1
         r2 = r10
         r2 += -8
         call 1
         r0 = 2
         exit",
        STACK
    ),
    refused!(
        "a pointer stored in a map",
        Cause::PointerStored { .. },
        "r1 = value 4 + 0\n *(u64 *)(r1 + 0) = r10\n r0 = 1\n exit",
        LEAK
    ),
    refused!(
        "a pointer given to a map by a helper, through the stack",
        Cause::StackPointerPart { .. },
        "*(u64 *)(r10 - 8) = 0
         *(u64 *)(r10 - 16) = r10
         *(u64 *)(r10 - 24) = 0
         r1 = map 1
         r2 = r10
         r2 += -8
         r3 = r10
         r3 += -24
         r4 = 0
         call 2
         r0 = 1
         exit",
        LEAK
    ),
    refused!(
        "a pointer swapped into a map",
        Cause::PointerStored { .. },
        "r1 = value 4 + 0
         r2 = r10
         lock *(u64 *)(r1 + 0) xchg r2
         r0 = 1
         exit",
        LEAK
    ),
    refused!(
        "an atomic over an unaligned word",
        Cause::AtomicAlignment { size: 8 },
        "r1 = value 4 + 0
         r2 = 1
         lock *(u64 *)(r1 + 4) += r2
         r0 = 1
         exit"
    ),
    // Stack.
    refused!(
        "below the stack",
        Cause::StackBounds { .. },
        "*(u64 *)(r10 - 520) = 0\n r0 = 1\n exit"
    ),
    refused!(
        "above the stack",
        Cause::StackBounds { .. },
        "*(u64 *)(r10 + 0) = 0\n r0 = 1\n exit"
    ),
    refused!(
        "an unaligned word on the stack",
        Cause::StackAlignment { .. },
        "*(u64 *)(r10 - 12) = 0\n r0 = 1\n exit"
    ),
    refused!(
        "a slot nobody wrote",
        Cause::StackUninitialised { .. },
        "r0 = *(u64 *)(r10 - 8)\n exit",
        STACK
    ),
    refused!(
        "a word of which one byte was written over a spill",
        Cause::StackUninitialised { .. } | Cause::StackPointerPart { .. },
        "*(u64 *)(r10 - 8) = r1
         *(u8 *)(r10 - 8) = 1
         r0 = *(u64 *)(r10 - 8)
         exit",
        STACK
    ),
    refused!(
        "a part of a spilled pointer",
        Cause::StackPointerPart { .. },
        "*(u64 *)(r10 - 8) = r1\n r0 = *(u32 *)(r10 - 8)\n exit"
    ),
    refused!(
        "a pointer where a variable store might hit, read as a number",
        Cause::StackPointerPart { .. },
        "*(u64 *)(r10 - 16) = 0
         *(u64 *)(r10 - 8) = r1
         r6 = *(u32 *)(r1 + 16)
         r6 &= 8
         r2 = r10
         r2 += -16
         r2 += r6
         r3 = 0
         *(u64 *)(r2 + 0) = r3
         r0 = *(u64 *)(r10 - 8)
         exit",
        LEAK
    ),
    refused!(
        "a variable index past the array on the stack",
        Cause::StackBounds { .. },
        "*(u64 *)(r10 - 8) = 0
         r6 = *(u32 *)(r1 + 16)
         r6 &= 15
         r2 = r10
         r2 += -8
         r2 += r6
         *(u8 *)(r2 + 0) = 1
         r0 = 1
         exit"
    ),
    refused!(
        "the stack of a function that returned",
        Cause::StackPointerReturned,
        "call f
         r0 = *(u64 *)(r0 + 0)
         exit
         f:
         r0 = r10
         r0 += -8
         exit"
    ),
    refused!(
        "a callee's stack address left in its caller's stack",
        Cause::StackPointerEscapes,
        "r1 = r10
         r1 += -8
         call f
         r0 = 1
         exit
         f:
         *(u64 *)(r1 + 0) = r10
         r0 = 0
         exit"
    ),
    refused!(
        "three functions with more than 512 bytes together",
        Cause::StackTooDeep { .. },
        "*(u64 *)(r10 - 200) = 0
         call f
         r0 = 1
         exit
         f:
         *(u64 *)(r10 - 200) = 0
         call g
         r0 = 1
         exit
         g:
         *(u64 *)(r10 - 200) = 0
         r0 = 1
         exit"
    ),
    refused!(
        "recursion",
        Cause::TooManyFrames { .. },
        "call f
         exit
         f:
         call f
         r0 = 1
         exit"
    ),
    // Context.
    refused!(
        "a field of the context read in part",
        Cause::ContextField { off: 12, size: 2 },
        "r0 = *(u16 *)(r1 + 12)\n exit"
    ),
    refused!(
        "a load across two fields of the context",
        Cause::ContextField { off: 2, size: 4 },
        "r0 = *(u32 *)(r1 + 2)\n exit"
    ),
    refused!(
        "two fields at once",
        Cause::ContextField { off: 0, size: 8 },
        "r0 = *(u64 *)(r1 + 0)\n exit"
    ),
    refused!(
        "past the context",
        Cause::ContextField { off: 24, .. },
        "r0 = *(u32 *)(r1 + 24)\n exit"
    ),
    refused!(
        "a write to the context",
        Cause::ContextWritten,
        "*(u32 *)(r1 + 16) = 1\n r0 = 1\n exit"
    ),
    refused!(
        "egress_ifindex without a devmap",
        Cause::ContextField { off: 20, .. },
        "r0 = *(u32 *)(r1 + 20)\n exit"
    ),
    refused!(
        "one load for the context and the stack",
        Cause::MixedPointers,
        "r2 = *(u32 *)(r1 + 16)
         *(u64 *)(r10 - 16) = 0
         *(u64 *)(r10 - 8) = 0
         r3 = r10
         r3 += -16
         if r2 == 0 goto load
         r3 = r1
         load:
         r0 = *(u32 *)(r3 + 12)
         r0 = 1
         exit"
    ),
    // Pointers as numbers.
    refused!(
        "a pointer as verdict",
        Cause::PointerReturned { .. },
        "r0 = r1\n exit",
        LEAK
    ),
    refused!(
        "a pointer multiplied",
        Cause::PointerArithmetic { .. },
        "r1 *= 2\n r0 = 1\n exit"
    ),
    refused!(
        "a pointer cut to 32 bits",
        Cause::PointerArithmetic { .. },
        "w0 = w1\n exit",
        LEAK
    ),
    refused!(
        "a 32-bit addition to a pointer",
        Cause::PointerArithmetic { .. },
        "r2 = *(u32 *)(r1 + 0)\n w2 += 4\n r0 = 1\n exit"
    ),
    refused!(
        "a pointer's bytes swapped",
        Cause::PointerArithmetic { .. },
        "r1 = be64 r1\n r0 = 1\n exit",
        LEAK
    ),
    refused!(
        "the distance of pointers into different things",
        Cause::PointerArithmetic { .. },
        "r2 = *(u32 *)(r1 + 0)\n r2 -= r10\n r0 = r2\n exit",
        LEAK
    ),
    refused!(
        "a number minus a pointer",
        Cause::PointerArithmetic { .. },
        "r2 = 8\n r3 = r10\n r2 -= r3\n r0 = 1\n exit"
    ),
    refused!(
        "a pointer compared with a number",
        Cause::PointerComparison { .. },
        "r0 = 1\n if r1 > 1000 goto out\n r0 = 2\n out:\n exit",
        LEAK
    ),
    refused!(
        "an address on the stack compared with one in the packet",
        Cause::PointerComparison { .. },
        "r0 = 1\n r2 = *(u32 *)(r1 + 0)\n if r2 > r10 goto out\n r0 = 2\n out:\n exit",
        LEAK
    ),
    refused!(
        "a pointer given to a helper as a number",
        Cause::Argument { arg: 2, .. },
        "r2 = r10\n call 44\n r0 = 1\n exit",
        LEAK
    ),
    refused!(
        "a moved context given to a helper",
        Cause::ArgumentOffset { .. },
        "r1 += 4\n r2 = 4\n call 44\n r0 = 1\n exit"
    ),
    // Calls.
    refused!(
        "a size that may be zero",
        Cause::SizeZero { reg: 2 },
        "r2 = *(u32 *)(r1 + 16)
         r2 &= 7
         *(u64 *)(r10 - 8) = 0
         r1 = r10
         r1 += -8
         call 6
         r0 = 1
         exit"
    ),
    refused!(
        "a size that may be negative",
        Cause::SizeUnbounded { reg: 2, .. },
        "r2 = value 4 + 0
         r2 = *(u64 *)(r2 + 0)
         r1 = value 4 + 0
         call 6
         r0 = 1
         exit"
    ),
    refused!(
        "the packet given to a helper that does not take it",
        Cause::ArgumentMemory { .. },
        "r6 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r4 = r6
         r4 += 14
         r0 = 1
         if r4 > r3 goto out
         r1 = r6
         r2 = 8
         call 6
         out:
         r0 = 1
         exit"
    ),
    refused!(
        "a helper that there is not",
        Cause::UnknownHelper { id: 99999 },
        "call 99999\n r0 = 1\n exit"
    ),
    refused!(
        "a helper that means nothing here",
        Cause::RefusedHelper {
            name: "bpf_probe_read_user",
            ..
        },
        "call 112\n r0 = 1\n exit"
    ),
    refused!(
        "a text compared with one that may change",
        Cause::ArgumentString { arg: 3, .. },
        "*(u64 *)(r10 - 8) = 0
         r1 = r10
         r1 += -8
         r2 = 8
         r3 = value 4 + 0
         call 182
         exit"
    ),
    refused!(
        "a number read into a place between words",
        Cause::ArgumentAlignment {
            arg: 4,
            size: 8,
            ..
        },
        "*(u64 *)(r10 - 8) = 0
         *(u64 *)(r10 - 16) = 0
         r1 = r10
         r1 += -8
         r2 = 8
         r3 = 0
         r4 = r10
         r4 += -12
         call 105
         exit"
    ),
    refused!(
        "a kernel function without a name",
        Cause::UnknownKernelFunction { .. },
        ".raw 0x85 0 2 0 7\n r0 = 1\n exit"
    ),
    refused!(
        "a call through a register",
        Cause::IndirectCall,
        "r1 = 1\n .raw 0x8d 0 0 0 1\n r0 = 1\n exit"
    ),
    // The walk.
    refused!(
        "a loop without an end",
        Cause::InfiniteLoop | Cause::Budget { .. },
        "again:\n goto again"
    ),
    refused!(
        "a loop that only looks as if it counted",
        Cause::InfiniteLoop | Cause::Budget { .. },
        "r6 = 0
         again:
         r6 = 1
         if r6 < 10 goto again
         r0 = 1
         exit"
    ),
    refused!(
        "a loop whose bound the packet decides",
        Cause::InfiniteLoop | Cause::Budget { .. } | Cause::TooManyBranches { .. },
        "again:
         r6 = *(u32 *)(r1 + 16)
         if r6 != 0 goto again
         r0 = 1
         exit"
    ),
    refused!(
        "an endless loop in a callee",
        Cause::InfiniteLoop | Cause::Budget { .. },
        "call f
         exit
         f:
         r0 = 1
         goto f"
    ),
    refused!(
        "a null check that pruning must not skip",
        // Two ways meet: on one r7 is surely a value, on the other it may be null. Whichever is
        // followed first must not stand for both.
        Cause::MaybeNull { .. } | Cause::NotMemory { .. },
        "r6 = *(u32 *)(r1 + 16)
         *(u64 *)(r10 - 8) = 0
         r2 = r10
         r2 += -8
         r1 = map 1
         call 1
         r7 = r0
         r8 = 0
         if r6 == 0 goto meet
         if r7 == 0 goto out
         r8 = 1
         meet:
         r9 = r8
         r9 += 1
         r9 += 1
         r9 += 1
         r0 = *(u64 *)(r7 + 0)
         out:
         r0 = 1
         exit"
    ),
    refused!(
        "a number that two ways leave different, used as an offset after they met",
        Cause::MapValueBounds { .. },
        "r6 = *(u32 *)(r1 + 16)
         r7 = 0
         if r6 == 3 goto meet
         r7 = 100
         if r6 == 4 goto meet
         r7 = 8
         meet:
         r8 = r7
         r8 += 1
         r8 -= 1
         if r6 == 9 goto next
         r8 += 0
         next:
         if r6 == 10 goto on
         r8 += 0
         on:
         r1 = value 4 + 0
         r1 += r8
         r0 = *(u8 *)(r1 + 0)
         exit"
    ),
    refused!(
        "a spilled number that two ways leave different",
        Cause::MapValueBounds { .. },
        "r6 = *(u32 *)(r1 + 16)
         r7 = 0
         *(u64 *)(r10 - 8) = r7
         if r6 == 3 goto meet
         r7 = 100
         *(u64 *)(r10 - 8) = r7
         if r6 == 4 goto meet
         r7 = 8
         *(u64 *)(r10 - 8) = r7
         meet:
         r0 = 1
         if r6 == 9 goto next
         r0 += 1
         next:
         if r6 == 10 goto on
         r0 += 1
         on:
         r8 = *(u64 *)(r10 - 8)
         r1 = value 4 + 0
         r1 += r8
         r0 = *(u8 *)(r1 + 0)
         exit"
    ),
    // The shape.
    refused!("nothing", Cause::Empty, ""),
    refused!("no end", Cause::RunsOffEnd, "r0 = 1"),
    refused!(
        "a jump into a 64-bit load",
        Cause::TargetInsideImmediate { .. },
        "r0 = 1
         goto 1
         r1 = 7 ll
         exit"
    ),
    refused!(
        "a jump past the end",
        Cause::JumpOutOfFunction { .. },
        "r0 = 1\n goto 7\n exit"
    ),
    refused!(
        "a jump before the start",
        Cause::JumpOutOfFunction { .. },
        "r0 = 1\n goto -5\n exit"
    ),
    refused!(
        "a jump into another function",
        Cause::JumpOutOfFunction { .. },
        "call f
         goto inside
         exit
         f:
         r0 = 1
         inside:
         exit"
    ),
    refused!(
        "a function that runs into the next",
        Cause::RunsOffEnd,
        "call f
         r0 = 1
         f:
         r0 = 1
         exit"
    ),
    refused!(
        "a call past the end",
        Cause::CallTarget { .. },
        ".raw 0x85 0 1 0 100\n r0 = 1\n exit"
    ),
    refused!(
        "a call whose target overflows",
        Cause::CallTarget { .. },
        ".raw 0x85 0 1 0 0x7fffffff\n r0 = 1\n exit"
    ),
    refused!(
        "half a 64-bit load at the end",
        Cause::TruncatedImmediate,
        "r0 = 1\n .raw 0x18 1 0 0 0"
    ),
    refused!(
        "a register past the last",
        Cause::NoSuchRegister { reg: 11 },
        ".raw 0xb7 11 0 0 1\n r0 = 1\n exit"
    ),
    refused!(
        "a reserved field of a move",
        Cause::ReservedField { field: "off", .. },
        ".raw 0xb7 0 0 1 1\n exit"
    ),
    refused!(
        "a reserved field of exit",
        Cause::ReservedField { .. },
        "r0 = 1\n .raw 0x95 0 0 0 5"
    ),
    refused!(
        "a shift by more than the width",
        Cause::ReservedField { field: "imm", .. },
        "w0 = 1\n w0 <<= 32\n exit"
    ),
    refused!(
        "a division by the constant zero",
        Cause::ReservedField { field: "imm", .. },
        "w0 = 1\n w0 /= 0\n exit"
    ),
    refused!(
        "an opcode that does not exist",
        Cause::UnknownInstruction { .. },
        ".raw 0xff 0 0 0 0\n r0 = 1\n exit"
    ),
    refused!(
        "an atomic operation that does not exist",
        Cause::ReservedField { field: "imm", .. },
        "r1 = value 4 + 0\n r2 = 1\n .raw 0xdb 1 2 0 0x21\n r0 = 1\n exit"
    ),
    refused!(
        "XCHG without FETCH",
        Cause::ReservedField { field: "imm", .. },
        "r1 = value 4 + 0\n r2 = 1\n .raw 0xdb 1 2 0 0xe0\n r0 = 1\n exit"
    ),
    refused!(
        "a legacy packet load",
        Cause::LegacyPacketLoad,
        "r6 = r1\n .raw 0x30 0 0 0 0\n exit"
    ),
    refused!(
        "a map that there is not",
        Cause::UnknownMap { .. },
        "r1 = map 77\n r0 = 1\n exit"
    ),
    refused!(
        "an address past a value's end",
        Cause::DirectValueOffset { .. },
        "r1 = value 4 + 64\n r0 = 1\n exit"
    ),
    refused!(
        "the address of a value in a map of many",
        Cause::NoDirectValue { .. },
        "r1 = value 0 + 0\n r0 = 1\n exit"
    ),
    // Helpers and kinds of map.
    refused!(
        "a checksum over a size that may be anything",
        Cause::SizeUnbounded { reg: 4, .. },
        "r4 = *(u32 *)(r1 + 16)
         *(u64 *)(r10 - 8) = 7
         r1 = 0
         r2 = 0
         r3 = r10
         r3 += -8
         r4 <<= 8
         r5 = 0
         call 28
         exit"
    ),
    refused!(
        "a checksum from null with a size",
        Cause::Argument { arg: 1, .. },
        "r1 = 0\n r2 = 4\n r3 = 0\n r4 = 0\n r5 = 0\n call 28\n exit"
    ),
    refused!(
        "packet bytes loaded past the stack's end",
        Cause::StackBounds { .. },
        "r2 = 0\n r3 = r10\n r3 += -8\n r4 = 9\n call 189\n exit"
    ),
    refused!(
        "packet bytes loaded into the packet",
        Cause::ArgumentMemory { .. },
        "r3 = *(u32 *)(r1 + 0)
         r4 = *(u32 *)(r1 + 4)
         r5 = r3
         r5 += 8
         r0 = 1
         if r5 > r4 goto out
         r2 = 0
         r4 = 8
         call 189
         out:
         exit"
    ),
    refused!(
        "no bytes stored",
        Cause::SizeZero { reg: 4 },
        "r2 = 0\n r3 = r10\n r3 += -8\n r4 = 0\n *(u64 *)(r10 - 8) = 0\n call 190\n exit"
    ),
    refused!(
        "metadata used after it was moved",
        Cause::NotMemory { reg: 7, .. },
        "r7 = *(u32 *)(r1 + 8)
         r2 = -4
         call 54
         r0 = *(u8 *)(r7 + 0)
         exit"
    ),
    refused!(
        "a packet pointer after a tail call",
        Cause::NotMemory { reg: 7, .. },
        "r7 = *(u32 *)(r1 + 0)
         r2 = map 9
         r3 = 0
         call 12
         r0 = *(u8 *)(r7 + 0)
         exit"
    ),
    refused!(
        "a tail call gives nothing",
        Cause::UninitialisedRegister { reg: 0 },
        "r2 = map 9\n r3 = 0\n call 12\n exit"
    ),
    refused!(
        "a tail call in a function",
        Cause::TailCallInFunction,
        "call f
         exit
         f:
         r2 = map 9
         r3 = 0
         call 12
         r0 = 2
         exit"
    ),
    refused!(
        "a tail call by a map of another kind",
        Cause::ArgumentMap { .. },
        "r2 = map 0\n r3 = 0\n call 12\n r0 = 1\n exit"
    ),
    refused!(
        "a program array looked up",
        Cause::ArgumentMap { .. },
        "*(u32 *)(r10 - 4) = 0\n r2 = r10\n r2 += -4\n r1 = map 9\n call 1\n r0 = 1\n exit"
    ),
    refused!(
        "a cpumap looked up",
        Cause::ArgumentMap { .. },
        "*(u32 *)(r10 - 4) = 0\n r2 = r10\n r2 += -4\n r1 = map 15\n call 1\n r0 = 1\n exit"
    ),
    refused!(
        "a redirect by an array",
        Cause::ArgumentMap { .. },
        "r1 = map 0\n r2 = 0\n r3 = 0\n call 51\n exit"
    ),
    refused!(
        "an entry of a devmap set by a program",
        Cause::ArgumentMap { .. },
        "*(u32 *)(r10 - 4) = 0
         *(u64 *)(r10 - 16) = 0
         r2 = r10
         r2 += -4
         r3 = r10
         r3 += -16
         r4 = 0
         r1 = map 10
         call 2
         exit"
    ),
    refused!(
        "an entry of a devmap written",
        Cause::ReadOnlyMap { .. },
        "*(u32 *)(r10 - 4) = 1
         r2 = r10
         r2 += -4
         r1 = map 10
         call 1
         if r0 == 0 goto out
         *(u32 *)(r0 + 0) = 5
         out:
         r0 = 1
         exit"
    ),
    refused!(
        "an inner map that may be null",
        Cause::MaybeNull { reg: 1 },
        "*(u32 *)(r10 - 4) = 1
         r2 = r10
         r2 += -4
         r1 = map 8
         call 1
         r1 = r0
         r2 = r10
         r2 += -4
         call 1
         r0 = 1
         exit"
    ),
    refused!(
        "an inner map read as memory",
        Cause::NotMemory { .. },
        "*(u32 *)(r10 - 4) = 1
         r2 = r10
         r2 += -4
         r1 = map 8
         call 1
         if r0 == 0 goto out
         r0 = *(u64 *)(r0 + 0)
         out:
         r0 = 1
         exit",
        Differs("loaded as root, the kernel lets programs read its own structures")
    ),
    refused!(
        "an element of an inner array, within by the declaration, may still be null",
        Cause::MaybeNull { .. },
        "*(u32 *)(r10 - 4) = 1
         r2 = r10
         r2 += -4
         r1 = map 8
         call 1
         if r0 == 0 goto out
         r1 = r0
         r2 = r10
         r2 += -4
         call 1
         r0 = *(u64 *)(r0 + 0)
         out:
         r0 = 1
         exit"
    ),
    refused!(
        "a value past an inner map's value",
        Cause::MapValueBounds { .. },
        "*(u32 *)(r10 - 4) = 1
         r2 = r10
         r2 += -4
         r1 = map 8
         call 1
         if r0 == 0 goto out
         r1 = r0
         r2 = r10
         r2 += -4
         call 1
         if r0 == 0 goto out
         r0 = *(u64 *)(r0 + 8)
         out:
         r0 = 1
         exit"
    ),
    refused!(
        "an inner map put into the packet",
        Cause::PointerStored { .. },
        "r6 = *(u32 *)(r1 + 0)
         r7 = *(u32 *)(r1 + 4)
         r2 = r6
         r2 += 8
         r0 = 1
         if r2 > r7 goto out
         *(u32 *)(r10 - 4) = 1
         r2 = r10
         r2 += -4
         r1 = map 8
         call 1
         *(u64 *)(r6 + 0) = r0
         out:
         r0 = 1
         exit",
        LEAK
    ),
    refused!(
        "an unwritten value pushed",
        Cause::StackRangeUninitialised { .. },
        "*(u64 *)(r10 - 8) = 2\n r1 = map 7\n r2 = r10\n r2 += -16\n r3 = 0\n call 87\n exit",
        STACK
    ),
    refused!(
        "a bloom filter asked for an unwritten value",
        Cause::StackRangeUninitialised { .. },
        "r1 = map 13\n r2 = r10\n r2 += -8\n call 89\n exit",
        STACK
    ),
    refused!(
        "a value popped into a constant",
        Cause::ReadOnlyMap { .. },
        "r1 = map 7\n r2 = value 2 + 0\n call 88\n r0 = 1\n exit"
    ),
    refused!(
        "a value popped from a bloom filter",
        Cause::ArgumentMap { .. },
        "*(u64 *)(r10 - 8) = 2\n r1 = map 13\n r2 = r10\n r2 += -8\n call 88\n exit"
    ),
    refused!(
        "a record of unwritten bytes",
        Cause::StackRangeUninitialised { .. },
        "r2 = map 11\n r3 = 0\n r4 = r10\n r4 += -8\n r5 = 8\n call 25\n exit",
        STACK
    ),
    refused!(
        "another CPU's value may be null, whatever the key",
        Cause::MaybeNull { .. },
        "*(u32 *)(r10 - 4) = 1
         r2 = r10
         r2 += -4
         r1 = map 3
         r3 = 0
         call 195
         r0 = *(u64 *)(r0 + 0)
         exit"
    ),
    refused!(
        "another CPU's value of a plain array",
        Cause::ArgumentMap { .. },
        "*(u32 *)(r10 - 4) = 1\n r2 = r10\n r2 += -4\n r1 = map 0\n r3 = 0\n call 195\n exit"
    ),
    refused!(
        "a length that was never set",
        Cause::StackRangeUninitialised { .. },
        "r2 = 0\n r3 = r10\n r3 += -4\n r4 = 0\n r5 = 0\n call 163\n exit",
        STACK
    ),
    refused!(
        "a MTU written into a constant",
        Cause::ReadOnlyMap { .. },
        "r2 = 0\n r3 = value 2 + 0\n r4 = 0\n r5 = 0\n call 163\n exit"
    ),
    refused!(
        "a route written into a constant",
        Cause::ReadOnlyMap { .. },
        "r2 = value 2 + 0\n r3 = 16\n r4 = 0\n call 69\n exit"
    ),
    refused!(
        "a route past the stack's end",
        Cause::StackBounds { .. },
        "*(u64 *)(r10 - 8) = 2\n r2 = r10\n r2 += -8\n r3 = 64\n r4 = 0\n call 69\n exit"
    ),
];
