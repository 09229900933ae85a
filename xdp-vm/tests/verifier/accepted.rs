//! Programs that are safe: the shapes that compilers make and authors write.

use crate::Accepted;
use crate::Kernel::{self, Differs, Same};

const fn case(name: &'static str, text: &'static str) -> Accepted {
    differs(name, text, Same)
}

const fn differs(name: &'static str, text: &'static str, kernel: Kernel) -> Accepted {
    Accepted { name, text, kernel }
}

pub(crate) const CASES: &[Accepted] = &[
    case("a verdict", "r0 = 2\n exit"),
    case("a verdict of 32 bits", "w0 = -1\n exit"),
    case(
        "bytes behind data_end checked with >",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r4 = r2
         r4 += 14
         if r4 > r3 goto out
         r0 = *(u8 *)(r2 + 13)
         r5 = *(u64 *)(r2 + 6)
         out:
         r0 = 1
         exit",
    ),
    case(
        "a length of 32 bits, of pointers narrowed first",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         w4 = w3
         r5 = r2
         r5 += 14
         if r5 > r3 goto out
         w5 = w2
         r6 = r4
         w6 -= w5
         w4 -= w2
         w4 -= w6
         w4 += 1
         out:
         w0 = w3
         w0 -= w2
         exit",
    ),
    case(
        "checked with >=, one byte more than needed",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r4 = r2
         r4 += 8
         if r4 >= r3 goto out
         r0 = *(u8 *)(r2 + 8)
         out:
         r0 = 1
         exit",
    ),
    case(
        "checked with <=, taken",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r4 = r2
         r4 += 8
         if r4 <= r3 goto in
         r0 = 1
         exit
         in:
         r0 = *(u64 *)(r2 + 0)
         r0 = 2
         exit",
    ),
    case(
        "checked with <, taken",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r4 = r2
         r4 += 8
         if r4 < r3 goto in
         r0 = 1
         exit
         in:
         r0 = *(u8 *)(r2 + 8)
         r0 = 2
         exit",
    ),
    case(
        "data_end on the left, all four",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r4 = r2
         r4 += 4
         r0 = 1
         if r3 < r4 goto out
         r5 = *(u32 *)(r2 + 0)
         r4 += 4
         if r3 <= r4 goto out
         r5 = *(u8 *)(r2 + 8)
         r4 += 4
         if r3 >= r4 goto more
         goto out
         more:
         r5 = *(u32 *)(r2 + 8)
         r4 += 4
         if r3 > r4 goto last
         goto out
         last:
         r5 = *(u8 *)(r2 + 16)
         out:
         exit",
    ),
    case(
        "a header of variable length: ihl * 4",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r0 = 1
         r4 = r2
         r4 += 34
         if r4 > r3 goto out
         r5 = *(u8 *)(r2 + 14)
         r5 &= 15
         r5 <<= 2
         r2 += 14
         r2 += r5
         r4 = r2
         r4 += 8
         if r4 > r3 goto out
         r5 = *(u16 *)(r2 + 2)
         out:
         exit",
    ),
    case(
        "a VLAN loop, unrolled by the walk",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r0 = 1
         r6 = 0
         r4 = r2
         r4 += 14
         if r4 > r3 goto out
         again:
         r5 = *(u16 *)(r2 + 12)
         if r5 != 129 goto out
         r4 = r2
         r4 += 18
         if r4 > r3 goto out
         r2 += 4
         r6 += 1
         if r6 < 4 goto again
         out:
         exit",
    ),
    case(
        "extension headers of variable length in a bounded loop",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r0 = 1
         r6 = 0
         again:
         r4 = r2
         r4 += 8
         if r4 > r3 goto out
         r5 = *(u8 *)(r2 + 1)
         r5 <<= 3
         r5 += 8
         r2 += r5
         r6 += 1
         if r6 < 6 goto again
         out:
         exit",
    ),
    case(
        "a checksum loop over the payload",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r6 = 0
         r7 = 0
         again:
         r4 = r2
         r4 += 2
         if r4 > r3 goto out
         r5 = *(u16 *)(r2 + 0)
         r7 += r5
         r2 = r4
         r6 += 2
         if r6 < 1500 goto again
         out:
         r0 = r7
         exit",
    ),
    case(
        "a masked offset into the packet",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r0 = 1
         r4 = r2
         r4 += 1
         if r4 > r3 goto out
         r5 = *(u8 *)(r2 + 0)
         r5 &= 0x7f
         r2 += r5
         r2 += 4
         if r2 > r3 goto out
         r0 = *(u8 *)(r2 - 1)
         out:
         exit",
    ),
    case(
        "metadata checked with data",
        "r2 = *(u32 *)(r1 + 8)
         r3 = *(u32 *)(r1 + 0)
         r4 = r2
         r4 += 4
         r0 = 1
         if r4 > r3 goto out
         r0 = *(u32 *)(r2 + 0)
         out:
         exit",
    ),
    case(
        "a counter in an array",
        "*(u32 *)(r10 - 4) = 3
         r2 = r10
         r2 += -4
         r1 = map 0
         call 1
         if r0 == 0 goto out
         r1 = 1
         lock *(u64 *)(r0 + 0) += r1
         out:
         r0 = 2
         exit",
    ),
    case(
        "a key that is known finds its element in an array",
        "*(u32 *)(r10 - 8) = 3
         r2 = r10
         r2 += -8
         r1 = map 0
         call 1
         r1 = *(u64 *)(r0 + 0)
         *(u32 *)(r10 - 4) = 0
         r2 = r10
         r2 += -4
         r1 = map 3
         call 1
         r1 = *(u64 *)(r0 + 8)
         r0 = 2
         exit",
    ),
    case(
        "a per-CPU counter, plainly added to",
        "r6 = *(u32 *)(r1 + 16)
         *(u32 *)(r10 - 4) = r6
         r2 = r10
         r2 += -4
         r1 = map 3
         call 1
         if r0 == 0 goto out
         r1 = *(u64 *)(r0 + 8)
         r1 += 1
         *(u64 *)(r0 + 8) = r1
         out:
         r0 = 2
         exit",
    ),
    case(
        "a struct as key, set in pieces",
        "r6 = *(u32 *)(r1 + 12)
         *(u32 *)(r10 - 8) = r6
         *(u16 *)(r10 - 4) = 80
         *(u8 *)(r10 - 2) = 17
         *(u8 *)(r10 - 1) = 0
         r1 = 0
         *(u64 *)(r10 - 24) = r1
         *(u64 *)(r10 - 16) = r1
         r1 = map 1
         r2 = r10
         r2 += -8
         r3 = r10
         r3 += -24
         r4 = 0
         call 2
         r0 = 2
         exit",
    ),
    case(
        "a null check on a copy refines the original",
        "*(u64 *)(r10 - 8) = 0
         r2 = r10
         r2 += -8
         r1 = map 1
         call 1
         r6 = r0
         *(u64 *)(r10 - 16) = r0
         if r6 != 0 goto in
         r0 = 1
         exit
         in:
         r1 = *(u64 *)(r0 + 8)
         r3 = *(u64 *)(r10 - 16)
         r1 = *(u64 *)(r3 + 0)
         r0 = 2
         exit",
    ),
    case(
        "a packet pointer spilled and filled keeps its proof",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         *(u64 *)(r10 - 8) = r2
         r4 = r2
         r4 += 20
         r0 = 1
         if r4 > r3 goto out
         r5 = *(u64 *)(r10 - 8)
         r0 = *(u32 *)(r5 + 16)
         out:
         exit",
    ),
    case(
        "a spilled index keeps its bounds, also when compared after the spill",
        "r6 = *(u32 *)(r1 + 16)
         *(u64 *)(r10 - 8) = r6
         r0 = 1
         if r6 > 7 goto out
         r1 = value 4 + 0
         r2 = *(u64 *)(r10 - 8)
         r2 <<= 3
         r1 += r2
         r0 = *(u64 *)(r1 + 0)
         out:
         exit",
    ),
    case(
        "an index masked within the value",
        "r6 = *(u32 *)(r1 + 16)
         r6 &= 63
         r1 = value 4 + 0
         r1 += r6
         *(u8 *)(r1 + 0) = 1
         r0 = 2
         exit",
    ),
    case(
        "a frozen constant decides a branch: the other side is dead",
        "r1 = value 2 + 0
         r2 = *(u32 *)(r1 + 0)
         if r2 == 7 goto ok
         r0 = *(u64 *)(r9 + 0)
         exit
         ok:
         r0 = 2
         exit",
    ),
    case(
        "a sign-extended frozen constant",
        "r1 = value 2 + 4
         r2 = *(s32 *)(r1 + 0)
         if r2 == -1 goto ok
         r0 = *(u64 *)(r9 + 0)
         exit
         ok:
         r0 = 2
         exit",
    ),
    case(
        "a function of its own that checks and reads",
        "r6 = r1
         r2 = *(u32 *)(r1 + 4)
         r1 = *(u32 *)(r1 + 0)
         call byte
         exit
         byte:
         r3 = r1
         r3 += 1
         r0 = 0
         if r3 > r2 goto out
         r0 = *(u8 *)(r1 + 0)
         out:
         exit",
    ),
    case(
        "a function that writes into its caller's stack",
        "r1 = r10
         r1 += -16
         call set
         r0 = *(u64 *)(r10 - 16)
         exit
         set:
         r2 = 7
         *(u64 *)(r1 + 0) = r2
         r0 = 0
         exit",
    ),
    case(
        "packet pointers are loaded anew after the head moved",
        "r6 = r1
         r2 = -14
         call 44
         r2 = *(u32 *)(r6 + 0)
         r3 = *(u32 *)(r6 + 4)
         r4 = r2
         r4 += 14
         r0 = 1
         if r4 > r3 goto out
         *(u8 *)(r2 + 0) = 1
         r0 = 3
         out:
         exit",
    ),
    case(
        "the length that the packet had before its tail moved",
        "r6 = r1
         r7 = *(u32 *)(r1 + 0)
         r8 = *(u32 *)(r1 + 4)
         *(u64 *)(r10 - 8) = r8
         r2 = 4
         call 65
         r9 = *(u64 *)(r10 - 8)
         r9 -= r7
         r0 = 1
         if r9 > 100 goto out
         if r7 > r8 goto out
         r0 = 2
         out:
         exit",
    ),
    case(
        "the distance of two packet pointers is a number",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r3 -= r2
         r0 = 1
         if r3 < 14 goto out
         r0 = 2
         out:
         exit",
    ),
    case(
        "stack at a bounded variable offset",
        "*(u64 *)(r10 - 16) = 0
         *(u64 *)(r10 - 8) = 0
         r6 = *(u32 *)(r1 + 16)
         r6 &= 15
         r2 = r10
         r2 += -16
         r2 += r6
         *(u8 *)(r2 + 0) = 5
         r0 = *(u8 *)(r2 + 0)
         exit",
    ),
    case(
        "division, remainder and shifts of unknown numbers",
        "r2 = *(u32 *)(r1 + 12)
         r3 = *(u32 *)(r1 + 16)
         r0 = r2
         r0 /= r3
         r0 s/= r3
         r0 %= r3
         r0 s%= r3
         r0 <<= r3
         r0 >>= r3
         r0 s>>= r3
         w0 /= w3
         w0 s%= w3
         exit",
    ),
    case(
        "instructions of the fourth version",
        "r2 = *(u32 *)(r1 + 12)
         r0 = (s8)r2
         r0 = (s32)r2
         w0 = (s16)w2
         r0 = bswap64 r0
         r0 = be16 r0
         r0 = le32 r0
         *(u64 *)(r10 - 8) = r0
         r3 = *(s16 *)(r10 - 8)
         gotol out
         out:
         exit",
    ),
    case(
        "atomics with and without the old value",
        "r1 = value 4 + 0
         r2 = 5
         lock *(u64 *)(r1 + 0) += r2
         lock *(u64 *)(r1 + 8) += r2 fetch
         lock *(u32 *)(r1 + 16) |= r2 fetch
         lock *(u32 *)(r1 + 20) ^= r2
         lock *(u64 *)(r1 + 24) xchg r2
         r0 = 1
         lock *(u64 *)(r1 + 32) cmpxchg r2
         *(u64 *)(r10 - 8) = 1
         lock *(u64 *)(r10 - 8) &= r2 fetch
         r0 = r2
         exit",
    ),
    case(
        "a loop that counts down a register of 32 bits",
        "w6 = 100
         w0 = 0
         again:
         w0 += w6
         w6 += -1
         if w6 != 0 goto again
         exit",
    ),
    case(
        "many branches that meet again do not multiply",
        // 24 independent flags: 2^24 paths unless their meeting points are recognised.
        "r6 = *(u32 *)(r1 + 12)
         r0 = 0
         if r6 & 1 goto 1
         r0 += 1
         if r6 & 2 goto 1
         r0 += 1
         if r6 & 4 goto 1
         r0 += 1
         if r6 & 8 goto 1
         r0 += 1
         if r6 & 16 goto 1
         r0 += 1
         if r6 & 32 goto 1
         r0 += 1
         if r6 & 64 goto 1
         r0 += 1
         if r6 & 128 goto 1
         r0 += 1
         if r6 & 256 goto 1
         r0 += 1
         if r6 & 512 goto 1
         r0 += 1
         if r6 & 1024 goto 1
         r0 += 1
         if r6 & 2048 goto 1
         r0 += 1
         if r6 & 4096 goto 1
         r0 += 1
         if r6 & 8192 goto 1
         r0 += 1
         if r6 & 16384 goto 1
         r0 += 1
         if r6 & 32768 goto 1
         r0 += 1
         if r6 & 65536 goto 1
         r0 += 1
         if r6 & 131072 goto 1
         r0 += 1
         if r6 & 262144 goto 1
         r0 += 1
         if r6 & 524288 goto 1
         r0 += 1
         if r6 & 1048576 goto 1
         r0 += 1
         if r6 & 2097152 goto 1
         r0 += 1
         if r6 & 4194304 goto 1
         r0 += 1
         if r6 & 8388608 goto 1
         r0 += 1
         exit",
    ),
    case(
        "a key taken from the packet",
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r4 = r2
         r4 += 14
         r0 = 1
         if r4 > r3 goto out
         r1 = map 1
         call 1
         r0 = 2
         out:
         exit",
    ),
    case(
        "a 32-bit comparison bounds an index",
        "r6 = *(u32 *)(r1 + 16)
         w6 = w6
         r0 = 1
         if w6 > 63 goto out
         r1 = value 4 + 0
         r1 += r6
         r0 = *(u8 *)(r1 + 0)
         out:
         exit",
    ),
    case(
        "a signed comparison from both sides bounds an index",
        "r6 = *(u32 *)(r1 + 16)
         r7 = *(u32 *)(r1 + 12)
         r6 -= r7
         r0 = 1
         if r6 s< 0 goto out
         if r6 s> 56 goto out
         r1 = value 4 + 0
         r1 += r6
         r0 = *(u64 *)(r1 + 0)
         out:
         exit",
    ),
    case(
        "trace_printk: what follows the size is not looked at",
        "*(u64 *)(r10 - 8) = 0x6869
         r1 = r10
         r1 += -8
         r2 = 8
         call 6
         r0 = 2
         exit",
    ),
    case(
        "the order of two places of one frame",
        "r2 = r10
         r2 += -8
         r0 = 1
         if r2 != r10 goto out
         r0 = 2
         out:
         exit",
    ),
    case(
        "what no path reaches may write r10 and call what there is not",
        "r6 = *(u32 *)(r1 + 16)
         r6 &= 7
         r0 = 2
         if r6 <= 7 goto out
         r10 = 0
         call 99999
         out:
         exit",
    ),
    differs(
        "a slot that nothing reaches",
        "r0 = 2
         exit
         r0 = 3
         exit",
        Differs("the kernel refuses unreachable slots, which harm nobody"),
    ),
    differs(
        "the order of two packet pointers",
        "r2 = *(u32 *)(r1 + 0)
         r3 = r2
         r3 += 4
         r0 = 1
         if r2 < r3 goto out
         r0 = 2
         out:
         exit",
        Same,
    ),
    case(
        "a checksum over what changes on the stack, from null",
        "*(u64 *)(r10 - 8) = 7
         r1 = 0
         r2 = 0
         r3 = r10
         r3 += -8
         r4 = 8
         r5 = 0
         call 28
         exit",
    ),
    case(
        "a checksum over the packet, of a bounded length",
        "r6 = *(u32 *)(r1 + 0)
         r7 = *(u32 *)(r1 + 4)
         r8 = *(u32 *)(r1 + 16)
         r8 &= 60
         r0 = 1
         r2 = r6
         r2 += 64
         if r2 > r7 goto out
         r1 = 0
         r2 = 0
         r3 = r6
         r4 = r8
         r5 = 0
         call 28
         out:
         exit",
    ),
    case(
        "bytes of the packet loaded to the stack and stored back",
        "r6 = r1
         r2 = 12
         r3 = r10
         r3 += -8
         r4 = 8
         call 189
         r7 = *(u64 *)(r10 - 8)
         r1 = r6
         r2 = 0
         r3 = r10
         r3 += -8
         r4 = 8
         call 190
         r1 = r6
         call 188
         exit",
    ),
    case(
        "clocks and numbers",
        "call 42\n call 118\n call 125\n call 160\n call 208\n exit",
    ),
    case(
        "metadata made, checked and written",
        "r6 = r1
         r2 = -4
         call 54
         if r0 != 0 goto out
         r1 = *(u32 *)(r6 + 8)
         r2 = *(u32 *)(r6 + 0)
         r3 = r1
         r3 += 4
         if r3 > r2 goto out
         *(u32 *)(r1 + 0) = 5
         out:
         r0 = 2
         exit",
    ),
    case(
        "a redirect to an interface",
        "r1 = 3\n r2 = 0\n call 23\n exit",
    ),
    case(
        "a redirect by a map, whatever the key",
        "r2 = *(u32 *)(r1 + 16)\n r1 = map 10\n r3 = 2\n call 51\n exit",
    ),
    case(
        "an entry of a devmap is read",
        "*(u32 *)(r10 - 4) = 1
         r2 = r10
         r2 += -4
         r1 = map 10
         call 1
         if r0 == 0 goto out
         r0 = *(u32 *)(r0 + 0)
         out:
         exit",
    ),
    case(
        "whether there is a socket for the queue",
        "r2 = *(u32 *)(r1 + 16)
         *(u32 *)(r10 - 4) = r2
         r2 = r10
         r2 += -4
         r1 = map 16
         call 1
         if r0 == 0 goto out
         r1 = map 16
         r2 = 0
         r3 = 2
         call 51
         exit
         out:
         r0 = 2
         exit",
    ),
    case(
        "a value pushed and another popped, which needs no bytes before",
        "*(u64 *)(r10 - 16) = 1
         *(u64 *)(r10 - 8) = 2
         r1 = map 7
         r2 = r10
         r2 += -16
         r3 = 0
         call 87
         r1 = map 7
         r2 = r10
         r2 += -32
         call 88
         r0 = *(u64 *)(r10 - 32)
         exit",
    ),
    case(
        "a bloom filter asked for bytes of a map",
        "*(u64 *)(r10 - 8) = 2
         r1 = map 13
         r2 = r10
         r2 += -8
         call 89
         exit",
    ),
    case(
        "a value of an inner map",
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
         r0 = *(u64 *)(r0 + 0)
         out:
         r0 = 2
         exit",
    ),
    case(
        "an entry of an inner hash is set and deleted",
        "*(u64 *)(r10 - 8) = 1
         *(u64 *)(r10 - 16) = 1
         r2 = r10
         r2 += -2
         r1 = map 14
         call 1
         if r0 == 0 goto out
         r6 = r0
         r1 = r6
         r2 = r10
         r2 += -8
         r3 = r10
         r3 += -16
         r4 = 0
         call 2
         r1 = r6
         r2 = r10
         r2 += -8
         call 3
         out:
         r0 = 2
         exit",
    ),
    case(
        "a tail call, and what is done where it finds none",
        "r2 = map 9\n r3 = 1\n call 12\n r0 = 2\n exit",
    ),
    case(
        "a record with bytes of the packet",
        "*(u64 *)(r10 - 8) = 1
         r2 = map 11
         r3 = 0xfffffffff ll
         r4 = r10
         r4 += -8
         r5 = 8
         call 25
         r0 = 2
         exit",
    ),
    case(
        "a record in a ring, and how full that is",
        "*(u64 *)(r10 - 8) = 1
         r1 = map 12
         r2 = r10
         r2 += -8
         r3 = 8
         r4 = 0
         call 130
         r1 = map 12
         r2 = 0
         call 134
         exit",
    ),
    case(
        "another CPU's value, once it is found to be there",
        "*(u32 *)(r10 - 4) = 1
         r2 = r10
         r2 += -4
         r1 = map 3
         r3 = 7
         call 195
         if r0 == 0 goto out
         r0 = *(u64 *)(r0 + 56)
         out:
         r0 = 2
         exit",
    ),
    case(
        "a route for bytes of the packet",
        "r6 = *(u32 *)(r1 + 0)
         r7 = *(u32 *)(r1 + 4)
         r2 = r6
         r2 += 8
         r0 = 1
         if r2 > r7 goto out
         r1 = map 6
         r2 = r6
         call 1
         if r0 == 0 goto out
         r0 = *(u32 *)(r0 + 0)
         out:
         r0 = 1
         exit",
    ),
    case(
        "the MTU of an interface",
        "*(u32 *)(r10 - 4) = 0
         r2 = 0
         r3 = r10
         r3 += -4
         r4 = 0
         r5 = 0
         call 163
         r0 = *(u32 *)(r10 - 4)
         exit",
    ),
    case(
        "a route",
        "*(u64 *)(r10 - 64) = 2
         *(u64 *)(r10 - 56) = 1
         *(u64 *)(r10 - 48) = 0
         *(u64 *)(r10 - 40) = 0
         *(u64 *)(r10 - 32) = 0
         *(u64 *)(r10 - 24) = 0
         *(u64 *)(r10 - 16) = 0
         *(u64 *)(r10 - 8) = 0
         r2 = r10
         r2 += -64
         r3 = 64
         r4 = 0
         call 69
         r1 = *(u32 *)(r10 - 56)
         exit",
    ),
];
