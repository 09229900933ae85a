//! From a verified program to machine code.
//!
//! Each register of the program has its own of the machine, such that arguments of helpers are close
//! to where they must be and r6 to r9 survive calls by themselves. r9, r10 and r11 of the machine are
//! free for sequences within an instruction; r12 holds the environment of helpers where one is
//! needed. The program's stack is that of the [`Cpu`](crate::Cpu), as in the interpreter.
//!
//! The code is written in passes. In the first all jumps are short; those that turn out not to reach
//! their targets are long in the next, until all reach. A jump that became long stays long, so there
//! is an end.

use super::emit::{Arith, Code, Cond, Mem, Operand, Reg, Size, Width};
use super::flow::{Flow, Function, Refused, is_dead};
use crate::buff::XdpBuff;
use crate::cpu::FRAME;
use crate::engine::JitOptions;
use crate::helpers;
use crate::insn::{
    CLASS_ALU, CLASS_ALU64, CLASS_JMP, CLASS_JMP32, CLASS_LDX, CLASS_ST, CLASS_STX, MODE_MEMSX,
    SRC_X, call, imm64, jmp,
};
use crate::maps::Maps;
use crate::{Insn, Note};

/// r0 to r10.
const REGS: [Reg; 11] = [
    Reg::Rax,
    Reg::Rdi,
    Reg::Rsi,
    Reg::Rdx,
    Reg::Rcx,
    Reg::R8,
    Reg::Rbx,
    Reg::R13,
    Reg::R14,
    Reg::R15,
    Reg::Rbp,
];

/// Where the environment is.
pub(super) const ENV: Reg = Reg::R12;
/// Arguments of the entry: the context is r1 as it comes.
const STACK_ARGUMENT: Reg = Reg::Rsi;
const ENV_ARGUMENT: Reg = Reg::Rdx;

/// Instructions of the machine that not all of them have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    /// Shifts by any register.
    pub(super) bmi2: bool,
}

impl Features {
    /// Of this machine.
    pub(super) fn detect() -> Self {
        Features {
            bmi2: std::arch::is_x86_feature_detected!("bmi2"),
        }
    }
}

/// The code of a program.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) code: Vec<u8>,
    /// Where the code of each slot starts.
    pub(super) offsets: Vec<u32>,
    /// Where the code of each function starts: slot and offset.
    pub(super) functions: Vec<(usize, u32)>,
}

pub(super) struct Compiler<'a> {
    pub(super) insns: &'a [Insn],
    pub(super) maps: &'a Maps,
    pub(super) features: Features,
    pub(super) code: Code,
    pub(super) flow: &'a Flow,
    pub(super) notes: &'a [Note],
    blinding: Option<Blinding>,
    /// Where the code of each slot starts, and that of each function.
    offsets: Vec<u32>,
    entries: Vec<u32>,
    jumps: Vec<Jump>,
    /// By slot: its jump does not reach with one byte.
    long: Vec<bool>,
}

/// A jump or call whose distance is to be set.
#[derive(Clone, Copy)]
struct Jump {
    end: usize,
    short: bool,
    from: usize,
    to: Target,
}

#[derive(Clone, Copy)]
enum Target {
    Slot(usize),
    Function(usize),
}

/// Keys that immediates are hidden by.
struct Blinding {
    keys: std::hash::RandomState,
}

/// Compiles a program whose maps are those of `maps`.
pub(super) fn compile(
    insns: &[Insn],
    notes: &[Note],
    maps: &Maps,
    options: &JitOptions,
    features: Features,
) -> Result<Compiled, Refused> {
    let flow = Flow::of(insns, notes, maps)?;
    let mut compiler = Compiler {
        insns,
        notes,
        maps,
        features,
        blinding: options.blind_constants.then(|| Blinding {
            keys: std::hash::RandomState::new(),
        }),
        code: Code::default(),
        flow: &flow,
        offsets: vec![0; insns.len()],
        entries: vec![0; flow.functions.len()],
        jumps: Vec::new(),
        long: vec![false; insns.len()],
    };
    loop {
        compiler.pass()?;
        if compiler.link()? {
            break;
        }
    }
    let starts = flow.functions.iter().map(|f| f.start);
    Ok(Compiled {
        functions: starts.zip(compiler.entries).collect(),
        code: compiler.code.into_bytes(),
        offsets: compiler.offsets,
    })
}

impl Compiler<'_> {
    /// Writes the code of all functions, jumps without their distances.
    fn pass(&mut self) -> Result<(), Refused> {
        self.code.clear();
        self.jumps.clear();
        for (index, function) in self.flow.functions.iter().enumerate() {
            self.entries[index] = self.code.len() as u32;
            self.prologue(function, index == 0);
            let mut slot = function.start;
            while slot < function.end {
                self.offsets[slot] = self.code.len() as u32;
                if is_dead(self.notes, slot) {
                    // One trap for a run of slots that nothing reaches.
                    if slot + 1 == function.end || !is_dead(self.notes, slot + 1) {
                        self.code.undefined();
                    }
                    slot += 1;
                    continue;
                }
                let fused = self.fused(slot).or_else(|| self.fused_lookup(slot));
                let slots = match fused {
                    Some(slots) => slots,
                    None => self.insn(slot, function, index == 0).ok_or(Refused(slot))?,
                };
                for inside in slot + 1..slot + slots {
                    self.offsets[inside] = self.code.len() as u32;
                }
                slot += slots;
            }
        }
        Ok(())
    }

    /// Sets the distances of jumps. False where one did not reach, and is long from now on.
    fn link(&mut self) -> Result<bool, Refused> {
        let mut all = true;
        for jump in &self.jumps {
            let target = match jump.to {
                Target::Slot(slot) => self.offsets[slot],
                Target::Function(index) => self.entries[index],
            };
            if !self
                .code
                .set_distance(jump.end, jump.short, target as usize)
            {
                if !jump.short {
                    return Err(Refused(jump.from));
                }
                self.long[jump.from] = true;
                all = false;
            }
        }
        Ok(all)
    }

    /// Registers that a function keeps for its caller, in the order they are pushed.
    fn kept(
        &self,
        function: &Function,
        is_entry: bool,
    ) -> impl DoubleEndedIterator<Item = Reg> + use<> {
        let saved = function.saved;
        let saved = (0..4).filter(move |n| saved & 1 << n != 0);
        let entry = [(self.flow.uses_stack, Reg::Rbp), (self.flow.uses_env, ENV)];
        saved.map(|n| REGS[6 + n]).chain(
            entry
                .into_iter()
                .filter(move |e| is_entry && e.0)
                .map(|e| e.1),
        )
    }

    /// True where a word more on the stack aligns it for calls: it is off by the return address.
    fn pads(&self, function: &Function, is_entry: bool) -> bool {
        function.calls && self.kept(function, is_entry).count().is_multiple_of(2)
    }

    /// True where a function takes a frame of its own, below that of its caller.
    fn moves_stack(&self, function: &Function, is_entry: bool) -> bool {
        !is_entry && function.has_frame && self.flow.uses_stack
    }

    fn prologue(&mut self, function: &Function, is_entry: bool) {
        for reg in self.kept(function, is_entry) {
            self.code.push(reg);
        }
        if self.pads(function, is_entry) {
            self.code
                .arith(Arith::Sub, Width::W64, Reg::Rsp, Operand::Imm(8));
        }
        if self.moves_stack(function, is_entry) {
            self.code
                .arith(Arith::Sub, Width::W64, Reg::Rbp, Operand::Imm(FRAME as i32));
        }
        if !is_entry {
            return;
        }
        if self.flow.uses_stack {
            self.code.mov(Width::W64, Reg::Rbp, STACK_ARGUMENT);
        }
        if self.flow.uses_env {
            self.code.mov(Width::W64, ENV, ENV_ARGUMENT);
        }
    }

    fn epilogue(&mut self, function: &Function, is_entry: bool) {
        if self.moves_stack(function, is_entry) {
            self.code
                .arith(Arith::Add, Width::W64, Reg::Rbp, Operand::Imm(FRAME as i32));
        }
        if self.pads(function, is_entry) {
            self.code
                .arith(Arith::Add, Width::W64, Reg::Rsp, Operand::Imm(8));
        }
        for reg in self.kept(function, is_entry).rev() {
            self.code.pop(reg);
        }
        self.code.ret();
    }

    /// One instruction; gives the slots that it takes.
    fn insn(&mut self, slot: usize, function: &Function, is_entry: bool) -> Option<usize> {
        let insn = self.insns[slot];
        if let Some(&Note::Context(field)) = self.notes.get(slot) {
            if insn.class() != CLASS_LDX {
                return None;
            }
            let place = XdpBuff::place_of(field);
            let size = if place.bytes == 8 { Size::B8 } else { Size::B4 };
            let from = Mem::new(reg(insn.src), place.offset);
            match insn.mode() == MODE_MEMSX {
                true => self.code.load_signed(size, reg(insn.dst), from),
                false => self.code.load(size, reg(insn.dst), from),
            }
            return Some(1);
        }
        match insn.class() {
            CLASS_ALU64 => self.arithmetic(slot, insn, Width::W64)?,
            CLASS_ALU => self.arithmetic(slot, insn, Width::W32)?,
            CLASS_LDX | CLASS_ST | CLASS_STX => self.access(slot, insn)?,
            CLASS_JMP | CLASS_JMP32 => match (insn.op(), insn.class()) {
                (jmp::EXIT, CLASS_JMP) => self.epilogue(function, is_entry),
                (jmp::CALL, CLASS_JMP) => self.call(slot, insn)?,
                (jmp::JA, CLASS_JMP) => self.jump(slot, None, i32::from(insn.off)),
                (jmp::JA, CLASS_JMP32) => self.jump(slot, None, insn.imm),
                _ => self.branch(slot, insn)?,
            },
            _ if insn.is_ld_imm64() => {
                self.load_imm64(slot, insn)?;
                return Some(2);
            }
            _ => return None,
        }
        Some(1)
    }

    fn branch(&mut self, slot: usize, insn: Insn) -> Option<()> {
        let width = match insn.class() {
            CLASS_JMP => Width::W64,
            _ => Width::W32,
        };
        let condition = match insn.op() {
            jmp::JEQ => Cond::Equal,
            jmp::JNE | jmp::JSET => Cond::NotEqual,
            jmp::JGT => Cond::Above,
            jmp::JGE => Cond::AboveOrEqual,
            jmp::JLT => Cond::Below,
            jmp::JLE => Cond::BelowOrEqual,
            jmp::JSGT => Cond::Greater,
            jmp::JSGE => Cond::GreaterOrEqual,
            jmp::JSLT => Cond::Less,
            jmp::JSLE => Cond::LessOrEqual,
            _ => return None,
        };
        let left = reg(insn.dst);
        let right = self.operand(slot, insn);
        match (insn.op(), right) {
            (jmp::JSET, right) => self.code.test(width, left, right),
            // A comparison with zero leaves the same flags, and is shorter so.
            (_, Operand::Imm(0)) => self.code.test(width, left, Operand::Reg(left)),
            (_, right) => self.code.arith(Arith::Cmp, width, left, right),
        }
        self.jump(slot, Some(condition), i32::from(insn.off));
        Some(())
    }

    pub(super) fn jump(&mut self, slot: usize, condition: Option<Cond>, distance: i32) {
        let short = !self.long[slot];
        self.code.jump(condition, short);
        self.jumps.push(Jump {
            end: self.code.len(),
            short,
            from: slot,
            to: Target::Slot(target(slot, distance)),
        });
    }

    fn call(&mut self, slot: usize, insn: Insn) -> Option<()> {
        if insn.code & SRC_X != 0 {
            return None;
        }
        match insn.src {
            call::HELPER => self.call_helper(slot, insn.imm.cast_unsigned()),
            call::KFUNC => self.call_function(helpers::kfunc(insn.imm)?),
            call::LOCAL => {
                let start = target(slot, insn.imm);
                let index = self.flow.functions.iter().position(|f| f.start == start)?;
                self.code.call();
                self.jumps.push(Jump {
                    end: self.code.len(),
                    short: false,
                    from: slot,
                    to: Target::Function(index),
                });
                Some(())
            }
            _ => None,
        }
    }

    fn load_imm64(&mut self, slot: usize, insn: Insn) -> Option<()> {
        let high = self.insns.get(slot + 1)?.imm.cast_unsigned();
        let low = insn.imm.cast_unsigned();
        let to = reg(insn.dst);
        let value = match insn.src {
            imm64::VALUE => u64::from(high) << 32 | u64::from(low),
            imm64::MAP => {
                std::ptr::from_ref(self.maps.at(low as usize)?).expose_provenance() as u64
            }
            imm64::MAP_VALUE => {
                let map = self.maps.at(low as usize)?;
                map.address(high)?.expose_provenance() as u64
            }
            imm64::FUNC => u64::from(low),
            _ => return None,
        };
        match &self.blinding {
            // The program chooses these numbers, but not addresses.
            Some(blinding) if insn.src == imm64::VALUE => {
                let key = blinding.key(slot);
                self.code.mov_imm(to, value ^ key);
                self.code.mov_imm(Reg::R10, key);
                self.code
                    .arith(Arith::Xor, Width::W64, to, Operand::Reg(Reg::R10));
            }
            _ => self.code.mov_imm(to, value),
        }
        Some(())
    }

    /// The second operand: a register, or the immediate, which goes through r10 of the machine where
    /// it is to be hidden.
    pub(super) fn operand(&mut self, slot: usize, insn: Insn) -> Operand {
        match insn.is_reg() {
            true => Operand::Reg(reg(insn.src)),
            false => self.immediate(slot, insn.imm),
        }
    }

    /// An immediate of the program at this slot, at most one a slot.
    pub(super) fn immediate(&mut self, slot: usize, value: i32) -> Operand {
        let Some(blinding) = &self.blinding else {
            return Operand::Imm(value);
        };
        let key = blinding.key(slot) as i32;
        let extend = |v: i32| i64::from(v).cast_unsigned();
        self.code.mov_imm(Reg::R10, extend(value ^ key));
        self.code
            .arith(Arith::Xor, Width::W64, Reg::R10, Operand::Imm(key));
        Operand::Reg(Reg::R10)
    }

    /// True where immediates of the program must not be in the code.
    pub(super) fn is_blinding(&self) -> bool {
        self.blinding.is_some()
    }
}

impl Blinding {
    /// The same in every pass.
    fn key(&self, slot: usize) -> u64 {
        std::hash::BuildHasher::hash_one(&self.keys, slot)
    }
}

/// The machine's register for r0 to r10; `Flow` refused all others.
pub(super) fn reg(number: u8) -> Reg {
    REGS[usize::from(number)]
}

/// Where a jump goes; `Flow` refused what is outside.
fn target(slot: usize, distance: i32) -> usize {
    (slot as i64 + 1 + i64::from(distance)) as usize
}
