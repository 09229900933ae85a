//! Machine code of x86-64: registers, operands, and the few instructions that the compiler needs,
//! encoded into a buffer (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2).

/// General registers. The number is the one in encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[rustfmt::skip]
pub(super) enum Reg {
    Rax, Rcx, Rdx, Rbx, Rsp, Rbp, Rsi, Rdi, R8, R9, R10, R11, R12, R13, R14, R15,
}

/// Width of an operation on registers. One of 32 bits clears the upper half of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    W32,
    W64,
}

/// Bytes of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    B1,
    B2,
    B4,
    B8,
}

/// Memory at `base + index + disp`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mem {
    base: Reg,
    index: Option<Reg>,
    disp: i32,
}

/// A second operand: a register, or an immediate that is extended by its sign.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Reg(Reg),
    Imm(i32),
}

/// Arithmetic of the form `a = a op b`, by its number in the first group of encodings.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Arith {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Operations of one operand, by number in the third group of encodings.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Unary {
    Neg = 3,
    /// rdx:rax / operand: quotient in rax, remainder in rdx.
    Div = 6,
    /// As `Div`, signed.
    Idiv = 7,
}

/// Shifts, by number in the second group of encodings.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Shift {
    Rol = 0,
    Shl = 4,
    Shr = 5,
    Sar = 7,
}

/// Conditions of a jump, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Cond {
    Below = 2,
    AboveOrEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowOrEqual = 6,
    Above = 7,
    Less = 0xc,
    GreaterOrEqual = 0xd,
    LessOrEqual = 0xe,
    Greater = 0xf,
}

/// A short jump forward whose target is not known yet: the place of its distance.
#[must_use]
pub(super) struct Hole(usize);

/// Code as it grows.
#[derive(Debug, Default)]
pub(super) struct Code {
    bytes: Vec<u8>,
}

impl Mem {
    pub(super) fn new(base: Reg, disp: i32) -> Self {
        Mem {
            base,
            index: None,
            disp,
        }
    }

    /// `index` is any register but rsp.
    pub(super) fn indexed(base: Reg, index: Reg) -> Self {
        debug_assert_ne!(index, Reg::Rsp);
        Mem {
            base,
            index: Some(index),
            disp: 0,
        }
    }
}

/// What the ModRM byte names beside the register: another register, or memory.
#[derive(Clone, Copy)]
enum Rm {
    Reg(Reg),
    Mem(Mem),
}

/// A row of opcodes below 0x100, or of two bytes that start with 0x0f.
type Opcode = u16;

impl Code {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    #[cfg(test)]
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    // Moves, loads and stores.

    pub(super) fn mov(&mut self, width: Width, to: Reg, from: Reg) {
        self.encode(width, 0x89, from as u8, Rm::Reg(to));
    }

    /// The shortest way to put `value` in a register. Changes the flags.
    pub(super) fn mov_imm(&mut self, to: Reg, value: u64) {
        if value == 0 {
            return self.arith(Arith::Xor, Width::W32, to, Operand::Reg(to));
        }
        if let Ok(low) = u32::try_from(value) {
            self.rex(Width::W32, 0, 0, to as u8, false);
            self.byte(0xb8 | (to as u8 & 7));
            return self.word(low);
        }
        if let Ok(signed) = i32::try_from(value.cast_signed()) {
            self.encode(Width::W64, 0xc7, 0, Rm::Reg(to));
            return self.word(signed.cast_unsigned());
        }
        self.rex(Width::W64, 0, 0, to as u8, false);
        self.byte(0xb8 | (to as u8 & 7));
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Extended with zeros to 64 bits.
    pub(super) fn load(&mut self, size: Size, to: Reg, from: Mem) {
        let (width, opcode) = match size {
            Size::B1 => (Width::W32, 0x0fb6),
            Size::B2 => (Width::W32, 0x0fb7),
            Size::B4 => (Width::W32, 0x8b),
            Size::B8 => (Width::W64, 0x8b),
        };
        self.encode(width, opcode, to as u8, Rm::Mem(from));
    }

    /// Extended by the sign to 64 bits.
    pub(super) fn load_signed(&mut self, size: Size, to: Reg, from: Mem) {
        self.encode(Width::W64, signed_move(size), to as u8, Rm::Mem(from));
    }

    /// Extends the low bytes of `from` by their sign.
    pub(super) fn extend_signed(&mut self, width: Width, size: Size, to: Reg, from: Reg) {
        let rm = Rm::Reg(from);
        self.encode_byte(width, signed_move(size), to as u8, rm, size == Size::B1);
    }

    /// Clears all but the low two bytes.
    pub(super) fn extend16(&mut self, to: Reg, from: Reg) {
        self.encode(Width::W32, 0x0fb7, to as u8, Rm::Reg(from));
    }

    pub(super) fn store(&mut self, size: Size, to: Mem, from: Reg) {
        let (opcode, width) = match size {
            Size::B1 => (0x88, Width::W32),
            Size::B2 | Size::B4 => (0x89, Width::W32),
            Size::B8 => (0x89, Width::W64),
        };
        if size == Size::B2 {
            self.byte(0x66);
        }
        self.encode_byte(width, opcode, from as u8, Rm::Mem(to), size == Size::B1);
    }

    pub(super) fn store_imm(&mut self, size: Size, to: Mem, value: i32) {
        if size == Size::B2 {
            self.byte(0x66);
        }
        let (opcode, width) = match size {
            Size::B1 => (0xc6, Width::W32),
            Size::B2 | Size::B4 => (0xc7, Width::W32),
            Size::B8 => (0xc7, Width::W64),
        };
        self.encode(width, opcode, 0, Rm::Mem(to));
        let bytes = value.to_le_bytes();
        match size {
            Size::B1 => self.bytes.extend_from_slice(&bytes[..1]),
            Size::B2 => self.bytes.extend_from_slice(&bytes[..2]),
            Size::B4 | Size::B8 => self.bytes.extend_from_slice(&bytes),
        }
    }

    /// The address itself.
    pub(super) fn lea(&mut self, to: Reg, address: Mem) {
        self.encode(Width::W64, 0x8d, to as u8, Rm::Mem(address));
    }

    pub(super) fn push(&mut self, reg: Reg) {
        self.rex(Width::W32, 0, 0, reg as u8, false);
        self.byte(0x50 | (reg as u8 & 7));
    }

    pub(super) fn pop(&mut self, reg: Reg) {
        self.rex(Width::W32, 0, 0, reg as u8, false);
        self.byte(0x58 | (reg as u8 & 7));
    }

    // Arithmetic.

    pub(super) fn arith(&mut self, op: Arith, width: Width, left: Reg, right: Operand) {
        match right {
            Operand::Reg(right) => {
                self.encode(width, op as u16 * 8 + 1, right as u8, Rm::Reg(left))
            }
            Operand::Imm(value) => self.immediate(0x83, 0x81, width, op as u8, left, value),
        }
    }

    /// Sets the flags by `left & right`.
    pub(super) fn test(&mut self, width: Width, left: Reg, right: Operand) {
        match right {
            Operand::Reg(right) => self.encode(width, 0x85, right as u8, Rm::Reg(left)),
            Operand::Imm(value) => {
                self.encode(width, 0xf7, 0, Rm::Reg(left));
                self.word(value.cast_unsigned());
            }
        }
    }

    pub(super) fn mul(&mut self, width: Width, left: Reg, right: Operand) {
        match right {
            Operand::Reg(right) => self.encode(width, 0x0faf, left as u8, Rm::Reg(right)),
            Operand::Imm(value) => self.immediate(0x6b, 0x69, width, left as u8, left, value),
        }
    }

    pub(super) fn unary(&mut self, op: Unary, width: Width, reg: Reg) {
        self.encode(width, 0xf7, op as u8, Rm::Reg(reg));
    }

    /// Fills rdx with the sign of rax.
    pub(super) fn sign_to_rdx(&mut self, width: Width) {
        self.rex(width, 0, 0, 0, false);
        self.byte(0x99);
    }

    pub(super) fn shift_imm(&mut self, op: Shift, width: Width, reg: Reg, distance: u8) {
        if distance == 1 {
            return self.encode(width, 0xd1, op as u8, Rm::Reg(reg));
        }
        self.encode(width, 0xc1, op as u8, Rm::Reg(reg));
        self.byte(distance);
    }

    /// By cl.
    pub(super) fn shift_cl(&mut self, op: Shift, width: Width, reg: Reg) {
        self.encode(width, 0xd3, op as u8, Rm::Reg(reg));
    }

    /// By any register, without a change of the flags (BMI2). `Rol` there is not.
    pub(super) fn shift_reg(&mut self, op: Shift, width: Width, reg: Reg, distance: Reg) {
        let prefix = match op {
            Shift::Shl => 0b01,
            Shift::Sar => 0b10,
            Shift::Shr | Shift::Rol => 0b11,
        };
        let high = |reg: Reg| u8::from((reg as u8) < 8);
        let wide = u8::from(width == Width::W64);
        self.bytes.extend_from_slice(&[
            0xc4,
            high(reg) << 7 | 1 << 6 | high(reg) << 5 | 0b00010,
            wide << 7 | (!(distance as u8) & 0xf) << 3 | prefix,
            0xf7,
            0xc0 | (reg as u8 & 7) << 3 | (reg as u8 & 7),
        ]);
    }

    /// Swaps the low two bytes; the others stay.
    pub(super) fn swap16(&mut self, reg: Reg) {
        self.byte(0x66);
        self.shift_imm(Shift::Rol, Width::W32, reg, 8);
    }

    pub(super) fn swap(&mut self, width: Width, reg: Reg) {
        self.rex(width, 0, 0, reg as u8, false);
        self.byte(0x0f);
        self.byte(0xc8 | (reg as u8 & 7));
    }

    // Atomic operations.

    /// `memory = memory op reg`.
    pub(super) fn lock_arith(&mut self, op: Arith, width: Width, memory: Mem, reg: Reg) {
        self.byte(0xf0);
        self.encode(width, op as u16 * 8 + 1, reg as u8, Rm::Mem(memory));
    }

    /// `memory, reg = memory + reg, memory`.
    pub(super) fn lock_xadd(&mut self, width: Width, memory: Mem, reg: Reg) {
        self.byte(0xf0);
        self.encode(width, 0x0fc1, reg as u8, Rm::Mem(memory));
    }

    /// `memory, reg = reg, memory`; locked without being asked.
    pub(super) fn xchg(&mut self, width: Width, memory: Mem, reg: Reg) {
        self.encode(width, 0x87, reg as u8, Rm::Mem(memory));
    }

    /// Where memory equals rax, `memory = reg`; else `rax = memory`. Equal or not is in the flags.
    pub(super) fn lock_cmpxchg(&mut self, width: Width, memory: Mem, reg: Reg) {
        self.byte(0xf0);
        self.encode(width, 0x0fb1, reg as u8, Rm::Mem(memory));
    }

    // Jumps.

    /// A jump, on a condition or without one, whose distance is set later by
    /// [`Code::set_distance`] at the place that [`Code::len`] then says.
    pub(super) fn jump(&mut self, condition: Option<Cond>, short: bool) {
        match (condition, short) {
            (Some(condition), true) => self.bytes.extend_from_slice(&[0x70 | condition as u8, 0]),
            (Some(condition), false) => {
                self.bytes
                    .extend_from_slice(&[0x0f, 0x80 | condition as u8, 0, 0, 0, 0]);
            }
            (None, true) => self.bytes.extend_from_slice(&[0xeb, 0]),
            (None, false) => self.bytes.extend_from_slice(&[0xe9, 0, 0, 0, 0]),
        }
    }

    /// A call to a place in this code; its distance, of four bytes, is set as that of a jump.
    pub(super) fn call(&mut self) {
        self.bytes.extend_from_slice(&[0xe8, 0, 0, 0, 0]);
    }

    /// Sets the distance of the jump that ends at `end`. False where it does not fit.
    pub(super) fn set_distance(&mut self, end: usize, short: bool, target: usize) -> bool {
        let distance = target as i64 - end as i64;
        if short {
            let Ok(distance) = i8::try_from(distance) else {
                return false;
            };
            self.bytes[end - 1] = distance.cast_unsigned();
        } else {
            let Ok(distance) = i32::try_from(distance) else {
                return false;
            };
            self.bytes[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        }
        true
    }

    /// A short jump forward to where [`Code::land`] will be called.
    pub(super) fn jump_ahead(&mut self, condition: Option<Cond>) -> Hole {
        self.jump(condition, true);
        Hole(self.len())
    }

    /// Here is where that jump goes.
    pub(super) fn land(&mut self, hole: Hole) {
        let here = self.len();
        let fits = self.set_distance(hole.0, true, here);
        debug_assert!(fits, "sequences within an instruction are short");
    }

    /// A short jump back to `target`.
    pub(super) fn jump_back(&mut self, condition: Cond, target: usize) {
        self.jump(Some(condition), true);
        let end = self.len();
        let fits = self.set_distance(end, true, target);
        debug_assert!(fits, "sequences within an instruction are short");
    }

    pub(super) fn call_reg(&mut self, reg: Reg) {
        self.encode(Width::W32, 0xff, 2, Rm::Reg(reg));
    }

    pub(super) fn ret(&mut self) {
        self.byte(0xc3);
    }

    /// Stops the process: what is never reached.
    pub(super) fn undefined(&mut self) {
        self.bytes.extend_from_slice(&[0x0f, 0x0b]);
    }

    // Encoding.

    fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn word(&mut self, word: u32) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// An operation with an immediate of one byte where that is enough, else of four.
    fn immediate(
        &mut self,
        short: Opcode,
        long: Opcode,
        width: Width,
        reg: u8,
        rm: Reg,
        value: i32,
    ) {
        match i8::try_from(value) {
            Ok(byte) => {
                self.encode(width, short, reg, Rm::Reg(rm));
                self.byte(byte.cast_unsigned());
            }
            Err(_) => {
                self.encode(width, long, reg, Rm::Reg(rm));
                self.word(value.cast_unsigned());
            }
        }
    }

    fn encode(&mut self, width: Width, opcode: Opcode, reg: u8, rm: Rm) {
        self.encode_byte(width, opcode, reg, rm, false);
    }

    /// REX prefix, opcode and ModRM. `byte`: a register operand is of one byte, and without the
    /// prefix its numbers 4 to 7 would name ah, ch, dh and bh.
    fn encode_byte(&mut self, width: Width, opcode: Opcode, reg: u8, rm: Rm, byte: bool) {
        let (base, index) = match rm {
            Rm::Reg(r) => (r as u8, 0),
            Rm::Mem(m) => (m.base as u8, m.index.map_or(0, |r| r as u8)),
        };
        let force =
            byte && ((4..8).contains(&reg) || matches!(rm, Rm::Reg(_)) && (4..8).contains(&base));
        self.rex(width, reg, index, base, force);
        if opcode > 0xff {
            self.byte(0x0f);
        }
        self.byte(opcode as u8);
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(r) => self.byte(0xc0 | reg | (r as u8 & 7)),
            Rm::Mem(m) => self.memory(reg, m),
        }
    }

    fn memory(&mut self, reg: u8, m: Mem) {
        // rbp and r13 have no form without a distance; rsp and r12 only one with an index byte,
        // whose index 4 says that there is none.
        let base = m.base as u8 & 7;
        let short = i8::try_from(m.disp);
        let mode = match short {
            Ok(0) if base != 5 => 0x00,
            Ok(_) => 0x40,
            Err(_) => 0x80,
        };
        match m.index {
            Some(index) => {
                self.byte(mode | reg | 4);
                self.byte((index as u8 & 7) << 3 | base);
            }
            None if base == 4 => {
                self.byte(mode | reg | 4);
                self.byte(0x24);
            }
            None => self.byte(mode | reg | base),
        }
        match (mode, short) {
            (0x00, _) => {}
            (_, Ok(short)) => self.byte(short.cast_unsigned()),
            (_, Err(_)) => self.word(m.disp.cast_unsigned()),
        }
    }

    fn rex(&mut self, width: Width, reg: u8, index: u8, base: u8, force: bool) {
        let wide = u8::from(width == Width::W64);
        let rex = wide << 3 | (reg >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        if rex != 0 || force {
            self.byte(0x40 | rex);
        }
    }
}

/// Opcode of a move that extends by the sign. From 4 bytes it is one of its own.
fn signed_move(size: Size) -> Opcode {
    match size {
        Size::B1 => 0x0fbe,
        Size::B2 => 0x0fbf,
        Size::B4 | Size::B8 => 0x63,
    }
}

#[cfg(test)]
#[path = "emit_tests.rs"]
mod tests;
