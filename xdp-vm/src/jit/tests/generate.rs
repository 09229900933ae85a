//! Programs at random, valid by the way they are made: arithmetic, jumps forward, loops with a bound,
//! memory of the stack, the packet and maps, atomic operations, helpers, local calls. Nothing that
//! differs from run to run (the address of an element of a hash) is left where it can be seen.

use super::*;
use crate::insn::{atomic, call, imm64, jmp};

/// A program and what the harness has to know of it.
pub(super) struct Generated {
    pub(super) insns: Vec<Insn>,
    pub(super) notes: Vec<(usize, Note)>,
    /// Bit n: map n.
    pub(super) used_maps: u32,
}

/// Maps that programs use, by index.
pub(super) fn maps() -> Maps {
    let spec = |name: &str, kind, key_size, value_size, max_entries| MapSpec {
        name: name.to_owned(),
        kind,
        key_size,
        value_size,
        max_entries,
        ..MapSpec::default()
    };
    let specs = [
        spec("array", MapKind::Array, 4, 16, 5),
        spec("percpu_array", MapKind::PercpuArray, 4, 24, 3),
        spec("hash", MapKind::Hash, 8, 16, 4),
        spec("percpu_hash", MapKind::PercpuHash, 4, 16, 4),
        spec("global", MapKind::Array, 4, 32, 1),
    ];
    Maps::create(&specs, CPUS).unwrap()
}

pub(super) const CPUS: usize = 3;
const ARRAY: i32 = 0;
const GLOBAL: i32 = 4;
const LOOKUP: i32 = 1;
/// Bytes of a packet that every program may access: the shortest is longer.
const PACKET: i16 = 64;
/// Bytes of a value that every program may access: the smallest is as long.
const VALUE: i16 = 16;

/// Bytes of a frame by what they are for, from r10 down: scratch, key and value of map operations,
/// counters of loops, the context.
const SCRATCH: i16 = -64;
const KEY: i16 = -72;
const MAP_VALUE: i16 = -96;
const COUNTER: i16 = -104;
const CONTEXT: i16 = -136;

/// The register that holds the packet's address. Those below hold numbers, all initialised.
const PACKET_REG: u8 = 9;

struct Generator {
    rng: fastrand::Rng,
    insns: Vec<Insn>,
    notes: Vec<(usize, Note)>,
    used_maps: u32,
    /// Calls of functions: slot, and the function's number.
    calls: Vec<(usize, usize)>,
    /// The function being made, and how many there are.
    function: usize,
    functions: usize,
    loops: i16,
}

pub(super) fn program(seed: u64) -> Generated {
    let mut rng = fastrand::Rng::with_seed(seed);
    let functions = [1, 1, 1, 2, 3][rng.usize(..5)];
    let mut generator = Generator {
        rng,
        insns: Vec::new(),
        notes: Vec::new(),
        used_maps: 0,
        calls: Vec::new(),
        function: 0,
        functions,
        loops: 0,
    };
    let mut starts = Vec::new();
    for function in 0..functions {
        starts.push(generator.insns.len());
        generator.function = function;
        generator.function();
    }
    for (slot, function) in generator.calls {
        generator.insns[slot].imm = (starts[function] as i64 - (slot as i64 + 1)) as i32;
    }
    Generated {
        insns: generator.insns,
        notes: generator.notes,
        used_maps: generator.used_maps,
    }
}

impl Generator {
    fn function(&mut self) {
        if self.function == 0 {
            self.push(insn(0x7b, 10, 1, CONTEXT, 0));
            self.load_context(PACKET_REG, 1, ContextField::Data);
        } else {
            // Functions get the packet first, then numbers.
            self.push(insn(ALU64 | insn::alu::MOV | X, PACKET_REG, 1, 0, 0));
        }
        for r in 0..PACKET_REG {
            self.set(r);
        }
        for word in 0..8 {
            let r = self.number();
            self.push(insn(0x7b, 10, r, SCRATCH + 8 * word, 0));
        }
        self.push(insn(0x7a, 10, 0, KEY, 0));
        for word in 0..2 {
            self.push(insn(0x7a, 10, 0, MAP_VALUE + 8 * word, 7));
        }
        self.block(0);
        // The result depends on all registers.
        for r in 1..PACKET_REG {
            let op = [insn::alu::ADD, insn::alu::XOR, insn::alu::SUB][self.rng.usize(..3)];
            self.push(insn(ALU64 | op | X, 0, r, 0, 0));
        }
        if self.function == 0 {
            // Where the context is differs from run to run.
            self.push(insn(0x7a, 10, 0, CONTEXT, 0));
            for r in 0..PACKET_REG {
                self.push(insn(0x7b, 10, r, SCRATCH - 256 + 8 * i16::from(r), 0));
            }
        }
        self.push(EXIT);
    }

    fn block(&mut self, depth: u32) {
        for _ in 0..self.rng.u32(1..=8) {
            match self.rng.u32(..32) {
                0..=11 => self.arithmetic(),
                12..=14 => self.scratch(),
                15..=16 => self.packet(),
                17 => self.set_random(),
                18..=19 => self.atomic_on_stack(),
                20..=21 => self.look_up(),
                22 => self.change_map(),
                23 => self.global(),
                24 => self.small_helper(),
                25 if self.function == 0 => self.context(),
                26 if self.function + 1 < self.functions => self.call_function(),
                27..=28 if depth < 3 => self.branch(depth),
                29 if depth < 3 => self.bounded_loop(depth),
                _ => self.arithmetic(),
            }
        }
    }

    // Steps of a block. Each leaves r0 to r8 initialised and r9 the packet.

    fn arithmetic(&mut self) {
        use insn::alu::*;
        let (dst, src) = (self.number(), self.number());
        let class = if self.rng.bool() { ALU64 } else { ALU };
        let plain = [ADD, SUB, MUL, OR, AND, XOR, MOV, LSH, RSH, ARSH];
        let (code, off, imm) = match self.rng.u32(..20) {
            0..=13 => (
                class | plain[self.rng.usize(..plain.len())],
                0,
                self.immediate(),
            ),
            14 => (class | DIV, self.rng.i16(0..2), self.immediate()),
            15 => (class | MOD, self.rng.i16(0..2), self.immediate()),
            16 => return self.push(insn(class | NEG, dst, 0, 0, 0)),
            17 => {
                let order = if class == ALU && self.rng.bool() {
                    X
                } else {
                    0
                };
                let width = [16, 32, 64][self.rng.usize(..3)];
                return self.push(insn(class | END | order, dst, 0, 0, width));
            }
            18 => {
                let widths = if class == ALU { 2 } else { 3 };
                let bits = [8, 16, 32][self.rng.usize(..widths)];
                return self.push(insn(class | MOV | X, dst, src, bits, 0));
            }
            // Pairs that become one.
            _ => {
                self.push(insn(ALU64 | MOV | X, dst, src, 0, 0));
                (ALU64 | ADD, 0, self.immediate())
            }
        };
        match self.rng.bool() {
            true => self.push(insn(code | X, dst, src, off, 0)),
            false => self.push(insn(code, dst, 0, off, imm)),
        }
    }

    fn scratch(&mut self) {
        self.access(10, SCRATCH, 64);
    }

    fn packet(&mut self) {
        self.access(PACKET_REG, 0, PACKET);
    }

    /// A load or store at a random place, of any alignment, in `size` bytes.
    fn access(&mut self, base: u8, from: i16, size: i16) {
        let r = self.number();
        let widths = [insn::SIZE_B, insn::SIZE_H, insn::SIZE_W, insn::SIZE_DW];
        let width = widths[self.rng.usize(..4)];
        let bytes = insn(width, 0, 0, 0, 0).size() as i16;
        let off = from + self.rng.i16(0..=size - bytes);
        match self.rng.u32(..5) {
            0 | 1 => self.push(insn(
                insn::CLASS_LDX | insn::MODE_MEM | width,
                r,
                base,
                off,
                0,
            )),
            2 if width != insn::SIZE_DW => {
                self.push(insn(
                    insn::CLASS_LDX | insn::MODE_MEMSX | width,
                    r,
                    base,
                    off,
                    0,
                ));
            }
            3 => {
                let imm = self.immediate();
                self.push(insn(
                    insn::CLASS_ST | insn::MODE_MEM | width,
                    base,
                    0,
                    off,
                    imm,
                ));
            }
            _ => self.push(insn(
                insn::CLASS_STX | insn::MODE_MEM | width,
                base,
                r,
                off,
                0,
            )),
        }
    }

    fn atomic_on_stack(&mut self) {
        self.atomic(10, SCRATCH, 8);
    }

    fn atomic(&mut self, base: u8, from: i16, words: i16) {
        let r = self.number();
        let ops = [
            atomic::ADD,
            atomic::OR,
            atomic::AND,
            atomic::XOR,
            atomic::ADD | atomic::FETCH,
            atomic::OR | atomic::FETCH,
            atomic::AND | atomic::FETCH,
            atomic::XOR | atomic::FETCH,
            atomic::XCHG,
            atomic::CMPXCHG,
        ];
        let code = if self.rng.bool() { 0xdb } else { 0xc3 };
        let off = from + 8 * self.rng.i16(0..words);
        let imm = ops[self.rng.usize(..ops.len())];
        // The base must stay what it is, and not be seen.
        if base == r || base == 0 && imm == atomic::CMPXCHG {
            return;
        }
        self.push(insn(code, base, r, off, imm));
    }

    fn set_random(&mut self) {
        let r = self.number();
        self.set(r);
    }

    /// A lookup, and what a program does with the value where there is one.
    fn look_up(&mut self) {
        let map = self.rng.i32(0..5);
        self.key_and_map(map);
        self.push(insn(0x85, 0, call::HELPER, 0, LOOKUP));
        self.after_call();
        let absent = self.insns.len();
        self.push(insn(insn::CLASS_JMP | jmp::JEQ, 0, 0, 0, 0));
        for _ in 0..self.rng.u32(1..4) {
            // r0 holds the address until the end of this.
            match self.rng.u32(..3) {
                0 => self.atomic(0, 0, VALUE / 8),
                _ => self.access_value(),
            }
        }
        self.land(absent);
        self.set(0);
    }

    /// As `access`, with a base of r0 that has to survive.
    fn access_value(&mut self) {
        let before = self.insns.len();
        self.access(0, 0, VALUE);
        let last = self.insns[before];
        if last.class() == insn::CLASS_LDX && last.dst == 0 {
            self.insns[before].dst = 1;
        }
        if last.class() == insn::CLASS_STX && last.src == 0 {
            // The address of an element is not to be seen.
            self.insns[before].src = 2;
        }
    }

    fn change_map(&mut self) {
        let map = self.rng.i32(0..4);
        self.key_and_map(map);
        if self.rng.bool() {
            self.push(insn(0x85, 0, call::HELPER, 0, 3));
        } else {
            let r = 6 + self.rng.u8(..3);
            self.push(insn(0x7b, 10, r, MAP_VALUE, 0));
            self.push(insn(ALU64 | insn::alu::MOV | X, 3, 10, 0, 0));
            self.push(insn(ALU64 | insn::alu::ADD, 3, 0, 0, i32::from(MAP_VALUE)));
            let flags = self.rng.i32(0..4);
            self.push(insn(ALU64 | insn::alu::MOV, 4, 0, 0, flags));
            self.push(insn(0x85, 0, call::HELPER, 0, 2));
        }
        self.after_call();
    }

    /// Leaves a key on the stack, its address in r2 and the map in r1.
    fn key_and_map(&mut self, map: i32) {
        // Some keys are there, some are not; some are past the end of an array.
        let key = self.rng.i32(-1..6);
        match self.rng.u32(..4) {
            0 => {
                let r = self.number();
                self.push(insn(ALU64 | insn::alu::AND, r, 0, 0, 7));
                self.push(insn(0x63, 10, r, KEY, 0));
            }
            _ => self.push(insn(0x62, 10, 0, KEY, key)),
        }
        self.push(insn(ALU64 | insn::alu::MOV | X, 2, 10, 0, 0));
        self.push(insn(ALU64 | insn::alu::ADD, 2, 0, 0, i32::from(KEY)));
        if self.rng.u32(..4) == 0 {
            // Through another register, or on two ways: not all of them the compiler can follow.
            let r = 6 + self.rng.u8(..3);
            self.load_map(r, imm64::MAP, map, 0);
            self.push(insn(ALU64 | insn::alu::MOV | X, 1, r, 0, 0));
            if self.rng.bool() && map != ARRAY {
                let skip = self.insns.len();
                let other = self.number();
                self.push(insn(insn::CLASS_JMP | jmp::JSET, other, 0, 0, 1));
                self.load_map(1, imm64::MAP, ARRAY, 0);
                self.land(skip);
            }
            self.set(r);
        } else {
            self.load_map(1, imm64::MAP, map, 0);
        }
    }

    fn global(&mut self) {
        let offset = 8 * self.rng.i32(0..3);
        let r = 1 + self.rng.u8(..8);
        self.load_map(r, imm64::MAP_VALUE, GLOBAL, offset);
        match self.rng.bool() {
            true => self.push(insn(0x79, r, r, 0, 0)),
            false => {
                self.push(insn(0xdb, r, 0, 0, atomic::ADD));
                self.set(r);
            }
        }
    }

    fn load_map(&mut self, dst: u8, kind: u8, map: i32, offset: i32) {
        self.used_maps |= 1 << map;
        self.push(insn(insn::LD_IMM64, dst, kind, 0, map));
        self.push(insn(0, 0, 0, 0, offset));
    }

    fn small_helper(&mut self) {
        // The time, a random number, the worker.
        let id = [5, 7, 8][self.rng.usize(..3)];
        self.push(insn(0x85, 0, call::HELPER, 0, id));
        self.after_call();
    }

    /// A field of the context, or a move of the packet's ends.
    fn context(&mut self) {
        self.push(insn(0x79, 1, 10, CONTEXT, 0));
        if self.rng.u32(..3) == 0 {
            let id = [44, 65][self.rng.usize(..2)];
            let distance = self.rng.i32(-80..80);
            self.push(insn(ALU64 | insn::alu::MOV, 2, 0, 0, distance));
            self.push(insn(0x85, 0, call::HELPER, 0, id));
            self.after_call();
            self.push(insn(0x79, 1, 10, CONTEXT, 0));
            self.load_context(PACKET_REG, 1, ContextField::Data);
        } else {
            let fields = [
                ContextField::Data,
                ContextField::DataEnd,
                ContextField::DataMeta,
                ContextField::IngressIfindex,
                ContextField::RxQueueIndex,
                ContextField::EgressIfindex,
            ];
            let r = self.number();
            let field = fields[self.rng.usize(..6)];
            self.load_context(r, 1, field);
        }
        self.set(1);
    }

    fn load_context(&mut self, dst: u8, src: u8, field: ContextField) {
        self.notes.push((self.insns.len(), Note::Context(field)));
        self.push(insn(0x61, dst, src, 0, 0));
    }

    fn call_function(&mut self) {
        self.push(insn(ALU64 | insn::alu::MOV | X, 1, PACKET_REG, 0, 0));
        self.calls.push((
            self.insns.len(),
            self.rng.usize(self.function + 1..self.functions),
        ));
        self.push(insn(0x85, 0, call::LOCAL, 0, 0));
        self.after_call();
    }

    fn branch(&mut self, depth: u32) {
        let from = self.insns.len();
        self.condition();
        self.block(depth + 1);
        if self.rng.bool() {
            let skip = self.insns.len();
            let code = match self.rng.bool() {
                true => insn::CLASS_JMP | jmp::JA,
                false => insn::CLASS_JMP32 | jmp::JA,
            };
            self.push(insn(code, 0, 0, 0, 0));
            self.land(from);
            self.block(depth + 1);
            self.land(skip);
        } else {
            self.land(from);
        }
    }

    fn bounded_loop(&mut self, depth: u32) {
        let counter = COUNTER - 8 * self.loops;
        self.loops += 1;
        let turns = self.rng.i32(1..5);
        self.push(insn(0x7a, 10, 0, counter, turns));
        let start = self.insns.len();
        self.block(depth + 1);
        let r = self.number();
        self.push(insn(0x79, r, 10, counter, 0));
        self.push(insn(ALU64 | insn::alu::SUB, r, 0, 0, 1));
        self.push(insn(0x7b, 10, r, counter, 0));
        let back = start as i64 - (self.insns.len() as i64 + 1);
        self.push(insn(insn::CLASS_JMP | jmp::JNE, r, 0, back as i16, 0));
        self.loops -= 1;
    }

    fn condition(&mut self) {
        const OPS: [u8; 11] = [
            jmp::JEQ,
            jmp::JNE,
            jmp::JGT,
            jmp::JGE,
            jmp::JLT,
            jmp::JLE,
            jmp::JSET,
            jmp::JSGT,
            jmp::JSGE,
            jmp::JSLT,
            jmp::JSLE,
        ];
        let class = match self.rng.bool() {
            true => insn::CLASS_JMP,
            false => insn::CLASS_JMP32,
        };
        let code = class | OPS[self.rng.usize(..OPS.len())];
        let (dst, src, imm) = (self.number(), self.number(), self.immediate());
        match self.rng.bool() {
            true => self.push(insn(code | X, dst, src, 0, 0)),
            false => self.push(insn(code, dst, 0, 0, imm)),
        }
    }

    // Parts.

    fn push(&mut self, insn: Insn) {
        self.insns.push(insn);
    }

    /// The jump at `slot` goes here.
    fn land(&mut self, slot: usize) {
        let distance = self.insns.len() - (slot + 1);
        let jump = &mut self.insns[slot];
        if jump.code == insn::CLASS_JMP32 | jmp::JA {
            jump.imm = distance as i32;
        } else {
            jump.off = distance as i16;
        }
    }

    /// Calls leave nothing in r1 to r5.
    fn after_call(&mut self) {
        for r in 1..=5 {
            self.set(r);
        }
    }

    /// Gives a register a number.
    fn set(&mut self, r: u8) {
        match self.rng.u32(..6) {
            0 => {
                let value = self.value();
                self.push(insn(insn::LD_IMM64, r, imm64::VALUE, 0, value as i32));
                self.push(insn(0, 0, 0, 0, (value >> 32) as i32));
            }
            1 => {
                let off = self.rng.i16(0..PACKET - 7);
                self.push(insn(0x79, r, PACKET_REG, off, 0));
            }
            _ => {
                let imm = self.immediate();
                let class = if self.rng.bool() { ALU64 } else { ALU };
                self.push(insn(class | insn::alu::MOV, r, 0, 0, imm));
            }
        }
    }

    /// A register that holds a number.
    fn number(&mut self) -> u8 {
        self.rng.u8(..PACKET_REG)
    }

    fn value(&mut self) -> u64 {
        match self.rng.u32(..4) {
            0 => self.rng.u64(..),
            1 => self.rng.u64(..).rotate_left(self.rng.u32(..64)) >> self.rng.u32(..64),
            2 => u64::from(self.rng.u32(..)),
            _ => 1u64
                .rotate_left(self.rng.u32(..64))
                .wrapping_sub(self.rng.u64(..2)),
        }
    }

    fn immediate(&mut self) -> i32 {
        match self.rng.u32(..4) {
            0 => self.rng.i32(..),
            1 => self.rng.i32(-2..3),
            2 => 1i32
                .rotate_left(self.rng.u32(..32))
                .wrapping_sub(self.rng.i32(0..2)),
            _ => self.rng.i32(-200..200),
        }
    }
}
