//! From instruction slots to [`Op`]s. What the verifier proved is not proved again; but no op is
//! made that names a register there is not, or goes to a place outside the program, so that the
//! engine's own state is sound whatever the program.

use super::fused::fuse;
use super::op::{Kind, Op};
use crate::helpers::{self, helper, kfunc};
use crate::insn::{
    self, CLASS_ALU, CLASS_ALU64, CLASS_JMP, CLASS_JMP32, CLASS_LDX, CLASS_ST, CLASS_STX,
    MODE_ATOMIC, MODE_MEM, MODE_MEMSX, alu, atomic, call, imm64, jmp,
};
use crate::maps::Maps;
use crate::{ContextField, ExecutableError, Insn, Note};

/// Decodes a program whose maps are those of `maps`. The last op is one that nothing reaches.
pub(super) fn decode(
    insns: &[Insn],
    notes: &[Note],
    maps: &Maps,
) -> Result<Vec<Op>, ExecutableError> {
    let places = places(insns, notes);
    let mut ops = Vec::with_capacity(insns.len() + 1);
    let mut slot = 0;
    while slot < insns.len() {
        let decoder = Decoder {
            insns,
            maps,
            places: &places,
            slot,
            at: ops.len(),
        };
        let note = notes.get(slot).copied().unwrap_or_default();
        let op = decoder.op(note).ok_or(ExecutableError::Instruction {
            insn: slot,
            text: insns[slot],
        })?;
        ops.push(op);
        slot += width(insns, notes, slot);
    }
    ops.push(TRAP);
    fuse(&mut ops);
    Ok(ops)
}

const TRAP: Op = Op {
    kind: Kind::Trap,
    dst: 0,
    src: 0,
    off: 0,
    imm: 0,
};

/// Slots that the instruction at `slot` takes. One that is never reached may be anything.
fn width(insns: &[Insn], notes: &[Note], slot: usize) -> usize {
    match notes.get(slot) {
        Some(Note::Dead) => 1,
        _ if insns[slot].is_ld_imm64() => 2,
        _ => 1,
    }
}

/// By slot: its op; `None` for the second half of a 64-bit load.
fn places(insns: &[Insn], notes: &[Note]) -> Vec<Option<usize>> {
    let mut places = vec![None; insns.len()];
    let (mut slot, mut at) = (0, 0);
    while slot < insns.len() {
        places[slot] = Some(at);
        at += 1;
        slot += width(insns, notes, slot);
    }
    places
}

struct Decoder<'a> {
    insns: &'a [Insn],
    maps: &'a Maps,
    places: &'a [Option<usize>],
    /// The instruction.
    slot: usize,
    /// Its op.
    at: usize,
}

impl Decoder<'_> {
    fn op(&self, note: Note) -> Option<Op> {
        let insn = self.insns[self.slot];
        if note == Note::Dead {
            return Some(TRAP);
        }
        // r10 is only read.
        let writes_dst = matches!(
            insn.class(),
            CLASS_ALU | CLASS_ALU64 | CLASS_LDX | insn::CLASS_LD
        );
        if insn.dst > 10 || (writes_dst && insn.dst > 9) {
            return None;
        }
        let op = |kind| Op {
            kind,
            dst: insn.dst,
            src: insn.src,
            off: i32::from(insn.off),
            imm: i64::from(insn.imm).cast_unsigned(),
        };
        if let Note::Context(field) = note {
            let signed = insn.mode() == insn::MODE_MEMSX;
            return match insn.class() {
                CLASS_LDX => Some(op(context(field, signed)?)),
                _ => None,
            };
        }
        let src_is_register = match insn.class() {
            CLASS_LDX | CLASS_STX => true,
            CLASS_ALU | CLASS_ALU64 if insn.op() == alu::END => false,
            CLASS_ALU | CLASS_ALU64 | CLASS_JMP | CLASS_JMP32 => insn.is_reg(),
            _ => false,
        };
        if src_is_register && insn.src > 10 {
            return None;
        }
        match insn.class() {
            CLASS_ALU64 => Some(op(arithmetic(insn, true)?)),
            CLASS_ALU => Some(op(arithmetic(insn, false)?)),
            CLASS_LDX | CLASS_ST | CLASS_STX => Some(op(memory(insn)?)),
            CLASS_JMP | CLASS_JMP32 => self.jump(insn, op),
            _ if insn.is_ld_imm64() => self.load_imm64(insn),
            _ => None,
        }
    }

    fn jump(&self, insn: Insn, op: impl Fn(Kind) -> Op) -> Option<Op> {
        let wide = insn.class() == CLASS_JMP;
        let to = |distance: i32, op: Op| {
            let target = self.slot as i64 + 1 + i64::from(distance);
            let place = (*self.places.get(usize::try_from(target).ok()?)?)?;
            Some(Op {
                off: i32::try_from(place as i64 - (self.at as i64 + 1)).ok()?,
                ..op
            })
        };
        match (insn.op(), wide) {
            (jmp::JA, true) => to(i32::from(insn.off), op(Kind::Jump)),
            (jmp::JA, false) => to(insn.imm, op(Kind::Jump)),
            (jmp::EXIT, true) => Some(op(Kind::Exit)),
            (jmp::CALL, true) if insn.is_reg() => None,
            (jmp::CALL, true) => match insn.src {
                call::HELPER => {
                    let id = insn.imm.cast_unsigned();
                    if id == helpers::MAP_LOOKUP_ELEM {
                        return Some(op(Kind::CallLookup));
                    }
                    if id == helpers::TAIL_CALL {
                        return Some(op(Kind::TailCall));
                    }
                    Some(Op {
                        imm: (helper(id)? as *const ()).expose_provenance() as u64,
                        ..op(Kind::CallHelper)
                    })
                }
                call::KFUNC => Some(Op {
                    imm: (kfunc(insn.imm)? as *const ()).expose_provenance() as u64,
                    ..op(Kind::CallHelper)
                }),
                call::LOCAL => to(insn.imm, op(Kind::CallLocal)),
                _ => None,
            },
            _ => to(i32::from(insn.off), op(condition(insn, wide)?)),
        }
    }

    fn load_imm64(&self, insn: Insn) -> Option<Op> {
        let high = self.insns.get(self.slot + 1)?.imm.cast_unsigned();
        let low = insn.imm.cast_unsigned();
        let value = match insn.src {
            imm64::VALUE => u64::from(high) << 32 | u64::from(low),
            imm64::MAP => {
                let map = self.maps.at(low as usize)?;
                std::ptr::from_ref(map).expose_provenance() as u64
            }
            imm64::MAP_VALUE => {
                let map = self.maps.at(low as usize)?;
                map.address(high)?.expose_provenance() as u64
            }
            // Only a number until there are helpers that call it.
            imm64::FUNC => u64::from(low),
            _ => return None,
        };
        Some(Op {
            kind: Kind::Mov64K,
            dst: insn.dst,
            src: 0,
            off: 0,
            imm: value,
        })
    }
}

/// Only numbers have a sign to extend.
fn context(field: ContextField, signed: bool) -> Option<Kind> {
    Some(match (field, signed) {
        (ContextField::Data, false) => Kind::LoadData,
        (ContextField::DataEnd, false) => Kind::LoadDataEnd,
        (ContextField::DataMeta, false) => Kind::LoadDataMeta,
        (ContextField::IngressIfindex, false) => Kind::LoadIngressIfindex,
        (ContextField::RxQueueIndex, false) => Kind::LoadRxQueueIndex,
        (ContextField::EgressIfindex, false) => Kind::LoadEgressIfindex,
        (ContextField::IngressIfindex, true) => Kind::LoadSxIngressIfindex,
        (ContextField::RxQueueIndex, true) => Kind::LoadSxRxQueueIndex,
        (ContextField::EgressIfindex, true) => Kind::LoadSxEgressIfindex,
        (ContextField::Data | ContextField::DataEnd | ContextField::DataMeta, true) => return None,
    })
}

/// Picks among the four forms of an operation.
macro_rules! forms {
    ($insn:expr, $wide:expr, $x64:ident $k64:ident $x32:ident $k32:ident) => {
        match ($wide, $insn.is_reg()) {
            (true, true) => Kind::$x64,
            (true, false) => Kind::$k64,
            (false, true) => Kind::$x32,
            (false, false) => Kind::$k32,
        }
    };
}

fn arithmetic(insn: Insn, wide: bool) -> Option<Kind> {
    Some(match (insn.op(), insn.off) {
        (alu::ADD, 0) => forms!(insn, wide, Add64X Add64K Add32X Add32K),
        (alu::SUB, 0) => forms!(insn, wide, Sub64X Sub64K Sub32X Sub32K),
        (alu::MUL, 0) => forms!(insn, wide, Mul64X Mul64K Mul32X Mul32K),
        (alu::DIV, 0) => forms!(insn, wide, Div64X Div64K Div32X Div32K),
        (alu::DIV, 1) => forms!(insn, wide, Sdiv64X Sdiv64K Sdiv32X Sdiv32K),
        (alu::MOD, 0) => forms!(insn, wide, Mod64X Mod64K Mod32X Mod32K),
        (alu::MOD, 1) => forms!(insn, wide, Smod64X Smod64K Smod32X Smod32K),
        (alu::OR, 0) => forms!(insn, wide, Or64X Or64K Or32X Or32K),
        (alu::AND, 0) => forms!(insn, wide, And64X And64K And32X And32K),
        (alu::XOR, 0) => forms!(insn, wide, Xor64X Xor64K Xor32X Xor32K),
        (alu::LSH, 0) => forms!(insn, wide, Lsh64X Lsh64K Lsh32X Lsh32K),
        (alu::RSH, 0) => forms!(insn, wide, Rsh64X Rsh64K Rsh32X Rsh32K),
        (alu::ARSH, 0) => forms!(insn, wide, Arsh64X Arsh64K Arsh32X Arsh32K),
        (alu::MOV, 0) => forms!(insn, wide, Mov64X Mov64K Mov32X Mov32K),
        (alu::MOV, from) if insn.is_reg() => match (wide, from) {
            (true, 8) => Kind::Movsx64From8,
            (true, 16) => Kind::Movsx64From16,
            (true, 32) => Kind::Movsx64From32,
            (false, 8) => Kind::Movsx32From8,
            (false, 16) => Kind::Movsx32From16,
            _ => return None,
        },
        (alu::NEG, 0) if !insn.is_reg() => match wide {
            true => Kind::Neg64,
            false => Kind::Neg32,
        },
        (alu::END, 0) => match (wide, insn.is_reg(), insn.imm) {
            // To little-endian, which the machine is.
            (false, false, 16) => Kind::Cut16,
            (false, false, 32) => Kind::Cut32,
            (false, false, 64) => Kind::Nop,
            // To big-endian, and the swap that does not ask.
            (false, true, 16) | (true, false, 16) => Kind::Swap16,
            (false, true, 32) | (true, false, 32) => Kind::Swap32,
            (false, true, 64) | (true, false, 64) => Kind::Swap64,
            _ => return None,
        },
        _ => return None,
    })
}

fn condition(insn: Insn, wide: bool) -> Option<Kind> {
    Some(match insn.op() {
        jmp::JEQ => forms!(insn, wide, Jeq64X Jeq64K Jeq32X Jeq32K),
        jmp::JNE => forms!(insn, wide, Jne64X Jne64K Jne32X Jne32K),
        jmp::JGT => forms!(insn, wide, Jgt64X Jgt64K Jgt32X Jgt32K),
        jmp::JGE => forms!(insn, wide, Jge64X Jge64K Jge32X Jge32K),
        jmp::JLT => forms!(insn, wide, Jlt64X Jlt64K Jlt32X Jlt32K),
        jmp::JLE => forms!(insn, wide, Jle64X Jle64K Jle32X Jle32K),
        jmp::JSET => forms!(insn, wide, Jset64X Jset64K Jset32X Jset32K),
        jmp::JSGT => forms!(insn, wide, Jsgt64X Jsgt64K Jsgt32X Jsgt32K),
        jmp::JSGE => forms!(insn, wide, Jsge64X Jsge64K Jsge32X Jsge32K),
        jmp::JSLT => forms!(insn, wide, Jslt64X Jslt64K Jslt32X Jslt32K),
        jmp::JSLE => forms!(insn, wide, Jsle64X Jsle64K Jsle32X Jsle32K),
        _ => return None,
    })
}

fn memory(insn: Insn) -> Option<Kind> {
    Some(match (insn.class(), insn.mode(), insn.size()) {
        (CLASS_LDX, MODE_MEM, 1) => Kind::Load8,
        (CLASS_LDX, MODE_MEM, 2) => Kind::Load16,
        (CLASS_LDX, MODE_MEM, 4) => Kind::Load32,
        (CLASS_LDX, MODE_MEM, 8) => Kind::Load64,
        (CLASS_LDX, MODE_MEMSX, 1) => Kind::LoadSx8,
        (CLASS_LDX, MODE_MEMSX, 2) => Kind::LoadSx16,
        (CLASS_LDX, MODE_MEMSX, 4) => Kind::LoadSx32,
        (CLASS_STX, MODE_MEM, 1) => Kind::StoreX8,
        (CLASS_STX, MODE_MEM, 2) => Kind::StoreX16,
        (CLASS_STX, MODE_MEM, 4) => Kind::StoreX32,
        (CLASS_STX, MODE_MEM, 8) => Kind::StoreX64,
        (CLASS_ST, MODE_MEM, 1) => Kind::StoreK8,
        (CLASS_ST, MODE_MEM, 2) => Kind::StoreK16,
        (CLASS_ST, MODE_MEM, 4) => Kind::StoreK32,
        (CLASS_ST, MODE_MEM, 8) => Kind::StoreK64,
        (CLASS_STX, MODE_ATOMIC, 8) => atomic(insn)?.0,
        (CLASS_STX, MODE_ATOMIC, 4) => atomic(insn)?.1,
        _ => return None,
    })
}

/// The 64-bit and the 32-bit form of an atomic operation.
fn atomic(insn: Insn) -> Option<(Kind, Kind)> {
    const ADD_FETCH: i32 = atomic::ADD | atomic::FETCH;
    const OR_FETCH: i32 = atomic::OR | atomic::FETCH;
    const AND_FETCH: i32 = atomic::AND | atomic::FETCH;
    const XOR_FETCH: i32 = atomic::XOR | atomic::FETCH;
    // All that fetch into the source write it, so it cannot be r10.
    if insn.imm & atomic::FETCH != 0 && insn.imm != atomic::CMPXCHG && insn.src > 9 {
        return None;
    }
    Some(match insn.imm {
        atomic::ADD => (Kind::AtomicAdd64, Kind::AtomicAdd32),
        atomic::OR => (Kind::AtomicOr64, Kind::AtomicOr32),
        atomic::AND => (Kind::AtomicAnd64, Kind::AtomicAnd32),
        atomic::XOR => (Kind::AtomicXor64, Kind::AtomicXor32),
        ADD_FETCH => (Kind::FetchAdd64, Kind::FetchAdd32),
        OR_FETCH => (Kind::FetchOr64, Kind::FetchOr32),
        AND_FETCH => (Kind::FetchAnd64, Kind::FetchAnd32),
        XOR_FETCH => (Kind::FetchXor64, Kind::FetchXor32),
        atomic::XCHG => (Kind::Xchg64, Kind::Xchg32),
        atomic::CMPXCHG => (Kind::Cmpxchg64, Kind::Cmpxchg32),
        _ => return None,
    })
}
