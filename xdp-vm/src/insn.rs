//! The instruction word of eBPF and the names of its fields (RFC 9669, sections 3 to 5).

/// One 8-byte instruction slot. A 64-bit immediate load takes two; the second is kept as a slot of
/// its own with `code` zero, so that jump offsets and instruction numbers count slots as the RFC,
/// the kernel and `llvm-objdump` do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Insn {
    /// Operation and class.
    pub code: u8,
    /// Destination register, 0..=10 in a valid program (4 bits on the wire).
    pub dst: u8,
    /// Source register, or a kind that refines `code` (4 bits on the wire).
    pub src: u8,
    /// Signed offset: of a jump in slots, of a memory access in bytes.
    pub off: i16,
    /// Signed immediate.
    pub imm: i32,
}

impl Insn {
    /// Size of a slot in bytes.
    pub const SIZE: usize = 8;

    /// Reads a little-endian slot.
    pub fn from_bytes(b: [u8; 8]) -> Self {
        Insn {
            code: b[0],
            dst: b[1] & 0xf,
            src: b[1] >> 4,
            off: i16::from_le_bytes([b[2], b[3]]),
            imm: i32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        }
    }

    /// Writes a little-endian slot.
    pub fn to_bytes(self) -> [u8; 8] {
        let off = self.off.to_le_bytes();
        let imm = self.imm.to_le_bytes();
        [
            self.code,
            (self.dst & 0xf) | (self.src << 4),
            off[0],
            off[1],
            imm[0],
            imm[1],
            imm[2],
            imm[3],
        ]
    }

    /// Instruction class: the low three bits of `code`.
    pub fn class(self) -> u8 {
        self.code & 0x07
    }

    /// Operation of an arithmetic or jump instruction: the high four bits of `code`.
    pub fn op(self) -> u8 {
        self.code & 0xf0
    }

    /// True where the second operand of an arithmetic or jump instruction is a register.
    pub fn is_reg(self) -> bool {
        self.code & SRC_X != 0
    }

    /// True for the first slot of a 64-bit immediate load.
    pub fn is_ld_imm64(self) -> bool {
        self.code == LD_IMM64
    }

    /// True for a call of a kernel function.
    pub fn is_kfunc_call(self) -> bool {
        self.code == CLASS_JMP | jmp::CALL && self.src == call::KFUNC
    }

    /// Width in bytes of a load or store: 1, 2, 4 or 8.
    pub fn size(self) -> u32 {
        match self.code & 0x18 {
            SIZE_B => 1,
            SIZE_H => 2,
            SIZE_W => 4,
            _ => 8,
        }
    }

    /// Mode of a load or store: the high three bits of `code`.
    pub fn mode(self) -> u8 {
        self.code & 0xe0
    }
}

/// Classes (RFC 9669, table 2).
pub const CLASS_LD: u8 = 0x00;
#[allow(missing_docs)]
pub const CLASS_LDX: u8 = 0x01;
#[allow(missing_docs)]
pub const CLASS_ST: u8 = 0x02;
#[allow(missing_docs)]
pub const CLASS_STX: u8 = 0x03;
/// 32-bit arithmetic.
pub const CLASS_ALU: u8 = 0x04;
/// 64-bit jumps, calls and exit.
pub const CLASS_JMP: u8 = 0x05;
/// Jumps that compare 32 bits.
pub const CLASS_JMP32: u8 = 0x06;
/// 64-bit arithmetic.
pub const CLASS_ALU64: u8 = 0x07;

/// Second operand is `imm`.
pub const SRC_K: u8 = 0x00;
/// Second operand is register `src`.
pub const SRC_X: u8 = 0x08;

/// Sizes of loads and stores.
pub const SIZE_W: u8 = 0x00;
#[allow(missing_docs)]
pub const SIZE_H: u8 = 0x08;
#[allow(missing_docs)]
pub const SIZE_B: u8 = 0x10;
#[allow(missing_docs)]
pub const SIZE_DW: u8 = 0x18;

/// Modes of loads and stores.
pub const MODE_IMM: u8 = 0x00;
#[allow(missing_docs)]
pub const MODE_ABS: u8 = 0x20;
#[allow(missing_docs)]
pub const MODE_IND: u8 = 0x40;
#[allow(missing_docs)]
pub const MODE_MEM: u8 = 0x60;
/// Sign-extending load.
pub const MODE_MEMSX: u8 = 0x80;
#[allow(missing_docs)]
pub const MODE_ATOMIC: u8 = 0xc0;

/// 64-bit immediate load (`lddw`).
pub const LD_IMM64: u8 = CLASS_LD | MODE_IMM | SIZE_DW;

/// Arithmetic operations.
#[allow(missing_docs)]
pub mod alu {
    pub const ADD: u8 = 0x00;
    pub const SUB: u8 = 0x10;
    pub const MUL: u8 = 0x20;
    pub const DIV: u8 = 0x30;
    pub const OR: u8 = 0x40;
    pub const AND: u8 = 0x50;
    pub const LSH: u8 = 0x60;
    pub const RSH: u8 = 0x70;
    pub const NEG: u8 = 0x80;
    pub const MOD: u8 = 0x90;
    pub const XOR: u8 = 0xa0;
    pub const MOV: u8 = 0xb0;
    pub const ARSH: u8 = 0xc0;
    pub const END: u8 = 0xd0;
}

/// Jump operations.
#[allow(missing_docs)]
pub mod jmp {
    pub const JA: u8 = 0x00;
    pub const JEQ: u8 = 0x10;
    pub const JGT: u8 = 0x20;
    pub const JGE: u8 = 0x30;
    pub const JSET: u8 = 0x40;
    pub const JNE: u8 = 0x50;
    pub const JSGT: u8 = 0x60;
    pub const JSGE: u8 = 0x70;
    pub const CALL: u8 = 0x80;
    pub const EXIT: u8 = 0x90;
    pub const JLT: u8 = 0xa0;
    pub const JLE: u8 = 0xb0;
    pub const JSLT: u8 = 0xc0;
    pub const JSLE: u8 = 0xd0;
}

/// What `imm` of an atomic instruction says.
#[allow(missing_docs)]
pub mod atomic {
    pub const ADD: i32 = 0x00;
    pub const OR: i32 = 0x40;
    pub const AND: i32 = 0x50;
    pub const XOR: i32 = 0xa0;
    /// The old value comes back in `src`.
    pub const FETCH: i32 = 0x01;
    pub const XCHG: i32 = 0xe1;
    pub const CMPXCHG: i32 = 0xf1;
}

/// What `src` of a 64-bit immediate load says (RFC 9669, section 5.4; kernel `BPF_PSEUDO_*`).
pub mod imm64 {
    /// A plain number.
    pub const VALUE: u8 = 0;
    /// A map: `imm` is its index in [`Object::maps`](crate::Object::maps).
    pub const MAP: u8 = 1;
    /// A byte inside the only value of a map: `imm` the map's index, the second slot's `imm` the offset.
    pub const MAP_VALUE: u8 = 2;
    /// A function: `imm` is the number of its first instruction.
    pub const FUNC: u8 = 4;
}

/// What `src` of a call says (RFC 9669, section 4.3.1).
pub mod call {
    /// A helper: `imm` is its number.
    pub const HELPER: u8 = 0;
    /// A function of the program: `imm` is relative to the next instruction.
    pub const LOCAL: u8 = 1;
    /// A kernel function: `imm` is the index of its name in
    /// [`Program::kfuncs`](crate::Program::kfuncs).
    pub const KFUNC: u8 = 2;
    /// Nothing that there is: `imm` is the index of what the object asked for in
    /// [`Program::unresolved`](crate::Program::unresolved). Made by the loader; no object has it.
    pub const UNRESOLVED: u8 = 9;
}
