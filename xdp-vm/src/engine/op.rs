//! Pre-decoded instructions: what the interpreter runs. 16 bytes each, operands ready to use: the
//! immediate extended, the jump in ops, a map's address or a helper's in place.

/// One operation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Op {
    pub(crate) kind: Kind,
    pub(crate) dst: u8,
    pub(crate) src: u8,
    /// Of a memory access in bytes; of a jump in ops, from the next one.
    pub(crate) off: i32,
    /// Extended to 64 bits by its sign; or an address.
    pub(crate) imm: u64,
}

const _: () = assert!(size_of::<Op>() == 16);

/// The kinds: those listed here, and one for each row of the table of [superinstructions](super::fused).
macro_rules! kinds {
    ($($name:ident: { $($steps:tt)* })*) => {
/// What an operation does. Of arithmetic and jumps there are four: 64 or 32 bits wide, the second
/// operand a register (`X`) or the immediate (`K`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[rustfmt::skip]
pub(crate) enum Kind {
    Add64X, Add64K, Add32X, Add32K,
    Sub64X, Sub64K, Sub32X, Sub32K,
    Mul64X, Mul64K, Mul32X, Mul32K,
    Div64X, Div64K, Div32X, Div32K,
    Sdiv64X, Sdiv64K, Sdiv32X, Sdiv32K,
    Mod64X, Mod64K, Mod32X, Mod32K,
    Smod64X, Smod64K, Smod32X, Smod32K,
    Or64X, Or64K, Or32X, Or32K,
    And64X, And64K, And32X, And32K,
    Xor64X, Xor64K, Xor32X, Xor32K,
    Lsh64X, Lsh64K, Lsh32X, Lsh32K,
    Rsh64X, Rsh64K, Rsh32X, Rsh32K,
    Arsh64X, Arsh64K, Arsh32X, Arsh32K,
    Mov64X, Mov64K, Mov32X, Mov32K,
    Neg64, Neg32,
    /// Sign-extending moves.
    Movsx64From8, Movsx64From16, Movsx64From32, Movsx32From8, Movsx32From16,
    /// Byte order: cut to a width, or swap the bytes of a width.
    Cut16, Cut32, Swap16, Swap32, Swap64, Nop,

    Load8, Load16, Load32, Load64, LoadSx8, LoadSx16, LoadSx32,
    StoreX8, StoreX16, StoreX32, StoreX64,
    StoreK8, StoreK16, StoreK32, StoreK64,
    /// Fields of the context.
    LoadData, LoadDataEnd, LoadDataMeta, LoadIngressIfindex, LoadRxQueueIndex, LoadEgressIfindex,
    LoadSxIngressIfindex, LoadSxRxQueueIndex, LoadSxEgressIfindex,

    AtomicAdd64, AtomicAdd32, FetchAdd64, FetchAdd32,
    AtomicOr64, AtomicOr32, FetchOr64, FetchOr32,
    AtomicAnd64, AtomicAnd32, FetchAnd64, FetchAnd32,
    AtomicXor64, AtomicXor32, FetchXor64, FetchXor32,
    Xchg64, Xchg32, Cmpxchg64, Cmpxchg32,

    Jump,
    Jeq64X, Jeq64K, Jeq32X, Jeq32K,
    Jne64X, Jne64K, Jne32X, Jne32K,
    Jgt64X, Jgt64K, Jgt32X, Jgt32K,
    Jge64X, Jge64K, Jge32X, Jge32K,
    Jlt64X, Jlt64K, Jlt32X, Jlt32K,
    Jle64X, Jle64K, Jle32X, Jle32K,
    Jset64X, Jset64K, Jset32X, Jset32K,
    Jsgt64X, Jsgt64K, Jsgt32X, Jsgt32K,
    Jsge64X, Jsge64K, Jsge32X, Jsge32K,
    Jslt64X, Jslt64K, Jslt32X, Jslt32K,
    Jsle64X, Jsle64K, Jsle32X, Jsle32K,

    /// Of a helper: `imm` is its address.
    CallHelper,
    /// Of the helper that looks up a map: arrays in line.
    CallLookup,
    /// Of another program: a jump, or the next op where there is none to go to.
    TailCall,
    /// Of a function of the program.
    CallLocal,
    Exit,
    /// Never reached.
    Trap,

    $(
        /// This operation and those after it, as one.
        $name,
    )*
}
    };
}

superinstructions!(kinds);
