//! What a run can end with other than a value.

use std::fmt;

use thiserror::Error;

/// What a program did that it may not, and where.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("instruction {at}: {kind}")]
pub struct Fault {
    /// Slot of the instruction.
    pub at: usize,
    /// What it did.
    pub kind: FaultKind,
}

/// What a program did that it may not.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FaultKind {
    #[error("it is not an instruction of RFC 9669, or a reserved field of it is not zero")]
    Instruction,
    #[error("the way leads to slot {target}, outside the program")]
    OutOfProgram { target: i64 },
    #[error("r{register} is read and holds nothing")]
    Unwritten { register: u8 },
    #[error("r10 is written, which is the address of the stack")]
    FramePointer,
    #[error("{access} {size} bytes at {near}, which is not the program's to {access}")]
    Memory {
        access: Access,
        size: u64,
        near: Near,
    },
    #[error("byte {offset} of the stack is read and was not written")]
    UnwrittenStack { offset: i64 },
    #[error("there is no map {index}")]
    NoMap { index: u32 },
    #[error("the map has no value that an instruction can name")]
    NoDirectValue,
    #[error("there is no helper {id}")]
    NoHelper { id: u32 },
    #[error("what is called was not found when the object was linked")]
    Unresolved,
    #[error("argument {argument} of {helper}: {cause}")]
    Argument {
        helper: &'static str,
        argument: usize,
        cause: Box<Argument>,
    },
    #[error("functions call each other more than 8 deep")]
    CallDepth,
    #[error("the program ends and holds {records} records of ring buffers")]
    Kept { records: usize },
    #[error("a helper is called, or the program ends, while a spin lock is held")]
    LockHeld,
    #[error("it still runs after {budget} instructions")]
    Budget { budget: u64 },
    #[error("worker {slot} has no values in maps for {cpus}; make them for more")]
    Worker { slot: u32, cpus: u32 },
}

/// What is wrong with an argument of a helper.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Argument {
    #[error(transparent)]
    Fault(#[from] FaultKind),
    #[error("it is not the context of the program")]
    NotContext,
    #[error("it is not a map")]
    NotMap,
    #[error("the helper does not go with a map of kind {kind}")]
    MapKind { kind: &'static str },
    #[error("programs may not change this map")]
    ReadOnlyMap,
    #[error("{size} is not a number of bytes that the helper takes")]
    Size { size: u64 },
    #[error("it is not a record that the program holds")]
    NotRecord,
    #[error("it is not the spin lock of a map value")]
    NotLock,
    #[error("a spin lock is held already")]
    SecondLock,
    #[error("it is not the spin lock that is held")]
    LockNotHeld,
    #[error("its address is not a multiple of {size}")]
    Unaligned { size: u32 },
    #[error("it is not a string of the program's constants")]
    NotConstant,
    #[error("it is null")]
    Null,
    #[error("memory of the packet, which the helper does not take")]
    Packet,
}

/// What was tried on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Access {
    Read,
    Write,
    /// Read and write in one step.
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Atomic => "change",
        })
    }
}

/// Memory that a program may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RegionKind {
    /// From the start of the metadata to the packet's end.
    Packet,
    /// All frames that are in a call.
    Stack,
    Context,
    MapValue,
    /// Of a map that programs may only read.
    ReadOnlyValue,
    /// Of a ring buffer, from its reservation until it is submitted or discarded.
    Record,
    /// What [`Checked::run_on_memory`](crate::Checked::run_on_memory) was given.
    Memory,
}

/// An address, as far as it can be told: addresses themselves differ from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// So many bytes from the start of a region of so many.
    Region {
        /// Kind of region.
        kind: RegionKind,
        /// Distance in bytes.
        offset: i64,
        /// Bytes of the region.
        len: u64,
    },
    /// Null, or as good as that.
    Null,
    /// Nowhere near anything.
    Nowhere,
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Near::Null => f.write_str("null"),
            Near::Nowhere => f.write_str("an address of nothing"),
            Near::Region { kind, offset, len } => {
                let name = match kind {
                    RegionKind::Packet => "the packet and its metadata",
                    RegionKind::Stack => "the stack",
                    RegionKind::Context => "the context",
                    RegionKind::MapValue => "a map's value",
                    RegionKind::ReadOnlyValue => "a value that programs may only read",
                    RegionKind::Record => "a record of a ring buffer",
                    RegionKind::Memory => "the memory",
                };
                write!(f, "byte {offset} of {name}, {len} bytes")
            }
        }
    }
}

impl FaultKind {
    pub(super) fn at(self, at: usize) -> Fault {
        Fault { at, kind: self }
    }
}
