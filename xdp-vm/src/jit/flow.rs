//! What the compiler has to know of a program before it emits code: where its functions are, where
//! jumps go, which registers each function uses, and which lookups are in arrays.
//!
//! What the verifier proved is not proved again, but what the machine's state hangs on is checked
//! here whatever the program: registers that there are, jumps that stay in their function, functions
//! that do not end in the middle.

use crate::helpers;
use crate::insn::{
    CLASS_ALU, CLASS_ALU64, CLASS_JMP, CLASS_JMP32, CLASS_LD, CLASS_LDX, CLASS_STX, MODE_ATOMIC,
    atomic, call, imm64, jmp,
};
use crate::maps::{Maps, Storage};
use crate::{Insn, Note};

/// A program before it is compiled.
#[derive(Debug)]
pub(super) struct Flow {
    /// Ascending by `start`; the first is the entry.
    pub(super) functions: Vec<Function>,
    /// By slot: a jump goes here.
    pub(super) is_target: Vec<bool>,
    /// By slot: the map that r1 is sure to name at this call.
    pub(super) lookups: Vec<Option<u32>>,
    /// Some function uses its stack.
    pub(super) uses_stack: bool,
    /// Some instruction needs the environment of helpers.
    pub(super) uses_env: bool,
}

/// A function of the program: slots `start..end`.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Bit n: r(6 + n) is used.
    pub(super) saved: u8,
    /// The machine calls: a helper, or a function of the program.
    pub(super) calls: bool,
    /// It uses its stack, or calls one that may.
    pub(super) has_frame: bool,
}

/// The slot of an instruction that cannot be compiled.
pub(super) struct Refused(pub(super) usize);

impl Flow {
    pub(super) fn of(insns: &[Insn], notes: &[Note], maps: &Maps) -> Result<Flow, Refused> {
        let mut flow = Flow {
            functions: functions(insns, notes)?,
            is_target: vec![false; insns.len()],
            lookups: vec![None; insns.len()],
            uses_stack: false,
            uses_env: false,
        };
        for function in &flow.functions {
            mark_targets(function, insns, notes, &mut flow.is_target)?;
        }
        let mut functions = std::mem::take(&mut flow.functions);
        for function in &mut functions {
            flow.scan(function, insns, notes, maps);
        }
        flow.functions = functions;
        Ok(flow)
    }

    /// Notes what the instructions of a function need.
    fn scan(&mut self, function: &mut Function, insns: &[Insn], notes: &[Note], maps: &Maps) {
        // The map that each register names, as far as straight-line code says.
        let mut named = [None; 11];
        for slot in live(insns, notes, function.start..function.end) {
            if self.is_target[slot] {
                named = [None; 11];
            }
            let insn = insns[slot];
            for register in mentioned(insn) {
                match register {
                    6..=9 => function.saved |= 1 << (register - 6),
                    10 => {
                        self.uses_stack = true;
                        function.has_frame = true;
                    }
                    _ => {}
                }
            }
            match kind(insn) {
                Kind::Call(call::LOCAL) => {
                    function.calls = true;
                    function.has_frame = true;
                    named[..6].fill(None);
                }
                Kind::Call(_) => {
                    let map = named[1].filter(|_| insn.imm == helpers::MAP_LOOKUP_ELEM as i32);
                    self.lookups[slot] = map;
                    let storage = map
                        .and_then(|m: u32| maps.at(m as usize))
                        .map(|m| m.storage());
                    match storage {
                        Some(Storage::Array(array)) => {
                            self.uses_env |= array.shape().cpu_stride != 0
                        }
                        _ => {
                            function.calls |= insn.imm != helpers::SMP_PROCESSOR_ID as i32;
                            self.uses_env = true;
                        }
                    }
                    named[..6].fill(None);
                }
                Kind::Other if insn.is_ld_imm64() && insn.src == imm64::MAP => {
                    named[usize::from(insn.dst)] = Some(insn.imm.cast_unsigned());
                }
                Kind::Other if insn.code == MOV64X && insn.off == 0 => {
                    named[usize::from(insn.dst)] = named[usize::from(insn.src)];
                }
                Kind::Other => {
                    named[usize::from(insn.dst)] = None;
                    if insn.class() == CLASS_STX && insn.mode() == MODE_ATOMIC {
                        named[usize::from(insn.src)] = None;
                        named[0] = None;
                    }
                }
                Kind::Jump(_) | Kind::Exit => {}
            }
        }
    }
}

const MOV64X: u8 = CLASS_ALU64 | crate::insn::alu::MOV | crate::insn::SRC_X;

/// What an instruction does to the flow.
enum Kind {
    /// The distance in slots from the next one.
    Jump(i32),
    /// The kind of call.
    Call(u8),
    Exit,
    Other,
}

fn kind(insn: Insn) -> Kind {
    match (insn.class(), insn.op()) {
        (CLASS_JMP, jmp::CALL) => Kind::Call(insn.src),
        (CLASS_JMP, jmp::EXIT) => Kind::Exit,
        (CLASS_JMP32, jmp::JA) => Kind::Jump(insn.imm),
        (CLASS_JMP | CLASS_JMP32, _) => Kind::Jump(i32::from(insn.off)),
        _ => Kind::Other,
    }
}

/// Slots where an instruction starts that may be reached.
pub(super) fn live<'a>(
    insns: &'a [Insn],
    notes: &'a [Note],
    slots: std::ops::Range<usize>,
) -> impl Iterator<Item = usize> + 'a {
    let mut next = slots.start;
    std::iter::from_fn(move || {
        while next < slots.end {
            let slot = next;
            let dead = is_dead(notes, slot);
            next += if !dead && insns[slot].is_ld_imm64() {
                2
            } else {
                1
            };
            if !dead {
                return Some(slot);
            }
        }
        None
    })
}

pub(super) fn is_dead(notes: &[Note], slot: usize) -> bool {
    notes.get(slot) == Some(&Note::Dead)
}

/// The entry and what is called, each up to the next.
fn functions(insns: &[Insn], notes: &[Note]) -> Result<Vec<Function>, Refused> {
    if insns.is_empty() {
        return Err(Refused(0));
    }
    let mut starts = vec![0];
    for slot in live(insns, notes, 0..insns.len()) {
        let insn = insns[slot];
        if let Kind::Call(call::LOCAL) = kind(insn) {
            starts.push(target(slot, insn.imm, 0..insns.len())?);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().copied().skip(1).chain([insns.len()]);
    let functions = starts.iter().copied().zip(ends);
    Ok(functions
        .map(|(start, end)| Function {
            start,
            end,
            saved: 0,
            calls: false,
            has_frame: false,
        })
        .collect())
}

/// Marks where the jumps of a function go, and checks what its code hangs on.
fn mark_targets(
    function: &Function,
    insns: &[Insn],
    notes: &[Note],
    is_target: &mut [bool],
) -> Result<(), Refused> {
    let slots = function.start..function.end;
    // Second halves of 64-bit loads, which are not to be jumped to.
    let mut halves = Vec::new();
    let mut falls_through = None;
    for slot in live(insns, notes, slots.clone()) {
        let insn = insns[slot];
        if !registers_exist(insn) {
            return Err(Refused(slot));
        }
        if insn.is_ld_imm64() {
            if slot + 1 == slots.end {
                return Err(Refused(slot));
            }
            halves.push(slot + 1);
        }
        let last = slot + 1 + usize::from(insn.is_ld_imm64()) == slots.end;
        match kind(insn) {
            Kind::Jump(distance) => {
                is_target[target(slot, distance, slots.clone())?] = true;
                falls_through = (last && insn.op() != jmp::JA).then_some(slot);
            }
            Kind::Exit => falls_through = None,
            _ => falls_through = last.then_some(slot),
        }
    }
    if let Some(slot) = falls_through {
        return Err(Refused(slot));
    }
    match halves.into_iter().find(|&slot| is_target[slot]) {
        Some(slot) => Err(Refused(slot)),
        None => Ok(()),
    }
}

/// Where a jump goes, which must be inside `within`.
fn target(slot: usize, distance: i32, within: std::ops::Range<usize>) -> Result<usize, Refused> {
    usize::try_from(slot as i64 + 1 + i64::from(distance))
        .ok()
        .filter(|target| within.contains(target))
        .ok_or(Refused(slot))
}

/// Registers that an instruction reads or writes, as far as the compiler must know.
fn mentioned(insn: Insn) -> [u8; 2] {
    match kind(insn) {
        Kind::Call(_) => [0, 0],
        _ if insn.is_ld_imm64() => [insn.dst, insn.dst],
        _ => [insn.dst, insn.src],
    }
}

/// No register past r10, and r10 is only read.
fn registers_exist(insn: Insn) -> bool {
    let writes_dst = matches!(insn.class(), CLASS_ALU | CLASS_ALU64 | CLASS_LDX | CLASS_LD);
    let writes_src = insn.class() == CLASS_STX
        && insn.mode() == MODE_ATOMIC
        && insn.imm & atomic::FETCH != 0
        && insn.imm != atomic::CMPXCHG;
    mentioned(insn).iter().all(|&r| r <= 10)
        && !(writes_dst && insn.dst == 10)
        && !(writes_src && insn.src == 10)
}
