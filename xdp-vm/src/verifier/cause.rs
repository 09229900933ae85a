//! Why a program is refused, in types: what rule is broken, with its numbers, and the remedy.

use thiserror::Error;

/// The rule that a program breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say what each means; the fields are their numbers
pub enum Cause {
    // The shape of the program.
    #[error("the program has no instructions")]
    Empty,
    #[error("the program has {slots} instruction slots, more than {most}")]
    TooLong { slots: usize, most: usize },
    #[error("the function table does not start at 0 or is not ascending within the program")]
    FunctionTable,
    #[error("no instruction has the opcode {code:#04x}")]
    UnknownInstruction { code: u8 },
    #[error("the reserved field `{field}` is {value}, not a value this instruction may have")]
    ReservedField { field: &'static str, value: i64 },
    #[error("there is no register r{reg}")]
    NoSuchRegister { reg: u8 },
    #[error("the frame pointer r10 is read-only")]
    FramePointerWritten,
    #[error("the jump's target, slot {target}, is not in the same function")]
    JumpOutOfFunction { target: i64 },
    #[error("the target, slot {target}, is the second half of a 64-bit immediate load")]
    TargetInsideImmediate { target: i64 },
    #[error("the 64-bit immediate load has no second half")]
    TruncatedImmediate,
    #[error("the function's last instruction is neither an exit nor a jump")]
    RunsOffEnd,
    #[error("the call's target, slot {target}, is not the start of a function")]
    CallTarget { target: i64 },
    #[error("there is no helper {id} for XDP programs here")]
    UnknownHelper { id: i32 },
    #[error("{name} is not for programs here: {reason}")]
    RefusedHelper {
        name: &'static str,
        reason: &'static str,
        remedy: &'static str,
    },
    #[error("the kernel function `{name}` is not available here")]
    UnknownKernelFunction { name: String },
    #[error("it needs `{what}`, of a type of the kernel that is not here")]
    UnresolvedType { what: String },
    #[error("a call through a register is not allowed")]
    IndirectCall,
    #[error("the legacy packet loads (ABS, IND) are not for XDP programs")]
    LegacyPacketLoad,
    #[error("the program names map {index}, and there is none with this number")]
    UnknownMap { index: i64 },
    #[error("the declaration of `{map}` does not say what maps it holds")]
    NoInnerMap { map: String },
    #[error("`{map}` has no single value whose address could be taken")]
    NoDirectValue { map: String },
    #[error("offset {offset} is outside of the value of `{map}`, {size} bytes")]
    DirectValueOffset { map: String, offset: i64, size: u32 },
    #[error("the address of a function has no use here")]
    FunctionAddress,

    // What registers hold.
    #[error("r{reg} is read and was never written on this path")]
    UninitialisedRegister { reg: u8 },
    #[error("r{reg} is {kind}, not something with memory behind it")]
    NotMemory { reg: u8, kind: &'static str },
    #[error("r{reg} may be null")]
    MaybeNull { reg: u8 },
    #[error("the same load reaches the context on one path and other memory on another")]
    MixedPointers,

    // Memory.
    #[error(
        "the access needs {needed} bytes of the packet from its pointer's base, {proven} are proven"
    )]
    PacketBounds { reg: u8, needed: i64, proven: u32 },
    #[error("the access starts {min} bytes from where its packet pointer's base is: before it")]
    BeforePacket { reg: u8, min: i64 },
    #[error("the access may reach bytes {min} to {max} of the {size}-byte value of `{map}`")]
    MapValueBounds {
        reg: u8,
        map: String,
        size: u32,
        min: i64,
        max: i64,
    },
    #[error("the access may reach bytes {min} to {max} of the {size}-byte record")]
    RecordBounds {
        reg: u8,
        size: u32,
        min: i64,
        max: i64,
    },
    #[error("the access may reach bytes {min} to {max} of the stack, which has -512 to -1")]
    StackBounds { reg: u8, min: i64, max: i64 },
    #[error("the stack is accessed at {off}, not a multiple of the access's {size} bytes")]
    StackAlignment { off: i64, size: u32 },
    #[error("byte {off} of the stack is read and was never written on this path")]
    StackUninitialised { off: i32 },
    #[error(
        "{size} bytes of the stack from {start} are read, and byte {off} (number {index} of \
         them) was never written on this path"
    )]
    StackRangeUninitialised {
        start: i32,
        size: u32,
        off: i32,
        index: i32,
    },
    #[error("byte {off} of the stack is part of a pointer, which must be read whole")]
    StackPointerPart { off: i32 },
    #[error("the pointer stored to the stack at {off} is not stored as 8 aligned bytes")]
    PartialSpill { off: i64 },
    #[error("the context has no field of {size} bytes at {off} to load")]
    ContextField { off: i64, size: u32 },
    #[error("the context is read-only")]
    ContextWritten,
    #[error("`{map}` is read-only for programs")]
    ReadOnlyMap { map: String },
    #[error("`{map}` is write-only for programs")]
    WriteOnlyMap { map: String },
    #[error("r{reg} is {kind}: its address must not be written to {place}")]
    PointerStored {
        reg: u8,
        kind: &'static str,
        place: &'static str,
    },
    #[error("an atomic operation works on the stack and on map values, not on {kind}")]
    AtomicTarget { kind: &'static str },
    #[error("the atomic operation is not aligned to its {size} bytes")]
    AtomicAlignment { size: u32 },

    // Arithmetic and comparison.
    #[error("`{operation}` on {kind} in r{reg} gives nothing that can be followed")]
    PointerArithmetic {
        reg: u8,
        operation: &'static str,
        kind: &'static str,
    },
    #[error("r{reg} is added to a pointer and may be as low as {min}")]
    OffsetUnbounded { reg: u8, min: i64 },
    #[error("the pointer would be {off} bytes from its base, further than any memory reaches")]
    OffsetTooLarge { off: i64 },
    #[error("comparing {left} with {right} would reveal an address")]
    PointerComparison {
        left: &'static str,
        right: &'static str,
    },

    // Calls and returns.
    #[error("argument {arg} of {helper} must be {wanted}; r{arg} is {kind}")]
    Argument {
        helper: &'static str,
        arg: u8,
        wanted: &'static str,
        kind: &'static str,
    },
    #[error("argument {arg} of {helper} must be the pointer itself, without an offset")]
    ArgumentOffset { helper: &'static str, arg: u8 },
    #[error("{helper} does not take {kind} as memory")]
    ArgumentMemory {
        helper: &'static str,
        kind: &'static str,
    },
    #[error("{helper} does not go with `{map}`, of kind {kind}")]
    ArgumentMap {
        helper: &'static str,
        map: String,
        kind: &'static str,
    },
    #[error("argument {arg} of {helper}, a string, {problem}")]
    ArgumentString {
        helper: &'static str,
        arg: u8,
        problem: &'static str,
    },
    #[error("argument {arg} of {helper} must lie at a multiple of {size} bytes")]
    ArgumentAlignment {
        helper: &'static str,
        arg: u8,
        size: u32,
    },
    #[error("a tail call is made by a function that the program calls")]
    TailCallInFunction,
    #[error("the size in r{reg} may be negative or huge: {min} to {max}")]
    SizeUnbounded { reg: u8, min: i64, max: u64 },
    #[error("the size in r{reg} may be zero")]
    SizeZero { reg: u8 },
    #[error("r0 is {kind} when the program ends: its address would be returned")]
    PointerReturned { kind: &'static str },
    #[error("a function must not return a pointer into its own stack")]
    StackPointerReturned,
    #[error("a pointer to the stack is stored in the stack of a caller")]
    StackPointerEscapes,
    #[error("calls nest deeper than {most} functions")]
    TooManyFrames { most: usize },
    #[error("the functions of this call chain use {bytes} bytes of stack, more than {most}")]
    StackTooDeep { bytes: usize, most: usize },

    // References.
    #[error("what the call at instruction {acquired_at} gave is not given back on this path")]
    ReferenceLeaked { acquired_at: usize },
    #[error("argument {arg} of {helper} is {kind} that this path does not hold")]
    NotHeld {
        helper: &'static str,
        arg: u8,
        kind: &'static str,
    },
    #[error("bpf_spin_lock and bpf_spin_unlock take the lock in a value of `{map}`, at its place")]
    NotALock { map: String },
    #[error("a spin lock is taken while another is held")]
    SecondLock,
    #[error("a spin lock is released that this path does not hold")]
    LockNotHeld,
    #[error("{what} is reached while a spin lock is held")]
    LockHeld { what: &'static str },
    #[error("the access reaches the spin lock in a value of `{map}`")]
    LockTouched { map: String },
    #[error("the path holds {most} references and asks for another")]
    TooManyReferences { most: usize },

    // The walk's limits.
    #[error("the same state comes back: the loop never ends")]
    InfiniteLoop,
    #[error("{processed} instructions were followed along all paths, and no end was in sight")]
    Budget { processed: u64 },
    #[error("more than {most} branches wait to be followed")]
    TooManyBranches { most: usize },
}

impl Cause {
    /// What would make the program acceptable, as far as that can be said from the cause alone.
    pub fn remedy(&self) -> String {
        use Cause::*;
        match self {
            PacketBounds { needed, proven, .. } => format!(
                "check `data + {needed} > data_end` (and leave if so) before this access: {proven} \
                 bytes are proven, {needed} needed. Where a variable was added to `data`, check \
                 the pointer that has it: one added later starts from nothing"
            ),
            BeforePacket { .. } => {
                "compare the offset that was added with 0, or make it unsigned".into()
            }
            NotMemory { kind, .. } | ArgumentMemory { kind, .. } if kind.contains("moved") => {
                "load `data` and `data_end` again after the call that moves the packet".into()
            }
            MaybeNull { reg } => {
                format!("compare r{reg} with null (`if (!p) return ...;`) before using it")
            }
            MapValueBounds { size, .. } => format!(
                "bound the index first: an `if`, or a mask such as `& (N - 1)`, so that the last \
                 byte stays below {size}"
            ),
            RecordBounds { size, .. } => {
                format!("reserve a longer record, or keep the last byte below {size}")
            }
            ReferenceLeaked { .. } => {
                "give it back on every path that ends: submit or discard a record; \
                 where the call gave null there is nothing to give back"
                    .into()
            }
            NotALock { .. } => {
                "declare a `struct bpf_spin_lock` in the map's value type, and pass its address"
                    .into()
            }
            SecondLock | LockHeld { .. } => {
                "release the lock with bpf_spin_unlock before this".into()
            }
            LockNotHeld => {
                "release the lock through the pointer that it was taken through, once".into()
            }
            LockTouched { .. } => {
                "access the value's other members one by one; use bpf_spin_lock for the lock".into()
            }
            NotHeld { .. } => "give back what a call gave, once".into(),
            TooManyReferences { .. } => "give back what is held before asking for more".into(),
            StackRangeUninitialised { .. } => {
                "set the whole object first, padding too (`__builtin_memset(&x, 0, sizeof(x))`)"
                    .into()
            }
            StackUninitialised { .. } | UninitialisedRegister { .. } => {
                "give the variable a value on every path that leads here".into()
            }
            StackBounds { .. } => "keep the index within the array; the stack has 512 bytes".into(),
            OffsetUnbounded { .. } | SizeUnbounded { .. } => {
                "bound the number from both sides before this, or mask it; make it unsigned".into()
            }
            SizeZero { reg } => format!("leave before the call where r{reg} is zero"),
            PointerArithmetic { kind, .. } if kind.contains("null") => {
                "compare the pointer with null before computing with it".into()
            }
            PointerArithmetic { .. } => {
                "use only addition and subtraction of bounded numbers, in 64 bits".into()
            }
            PointerStored { .. } | PointerReturned { .. } | PointerComparison { .. } => {
                "keep the value that the pointer points to, or an offset, not the address".into()
            }
            ContextField { .. } | ContextWritten => {
                "load the fields of `struct xdp_md` whole, 4 bytes each; \
                 egress_ifindex is for devmap programs"
                    .into()
            }
            ReadOnlyMap { .. } => "make the variable non-const, or do not write it".into(),
            InfiniteLoop => "change in each round what the loop's condition looks at".into(),
            Budget { .. } | TooManyBranches { .. } => {
                "bound loops more tightly, or split the work with tail calls".into()
            }
            StackTooDeep { .. } => "move large objects to a per-CPU array map".into(),
            TooManyFrames { .. } => "remove recursion; inline small functions".into(),
            AtomicTarget { .. } | AtomicAlignment { .. } => {
                "do atomic operations on aligned members of map values".into()
            }
            RefusedHelper { remedy, .. } => (*remedy).into(),
            ArgumentString { .. } => {
                "pass a `static const char []` of the program that fits its arguments".into()
            }
            ArgumentAlignment { size, .. } => {
                format!("pass a variable of {size} bytes, or align it to that")
            }
            UnknownHelper { .. } | UnknownKernelFunction { .. } => {
                "see the list of helpers; a later version may have it".into()
            }
            UnresolvedType { .. } => {
                "ask for the type first (`bpf_core_type_exists`), or do without it".into()
            }
            IndirectCall | LegacyPacketLoad | FunctionAddress => {
                "compile without it; clang does not make it from ordinary C for XDP".into()
            }
            Argument { wanted, .. } => format!("pass {wanted}"),
            ArgumentMap { .. } => "use a map of a kind that the helper is for".into(),
            NoInnerMap { .. } => {
                "declare `__array(values, struct { ... })` in the map of maps".into()
            }
            TailCallInFunction => {
                "make tail calls in the program itself, or its functions `__always_inline`".into()
            }
            ArgumentOffset { .. } => "pass the pointer as it came".into(),
            ArgumentMemory { .. } => "copy it to the stack and pass that".into(),
            _ => "compile the object anew; this did not come from a compiler's hands".into(),
        }
    }
}
