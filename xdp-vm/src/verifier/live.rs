//! Which registers may still be read, at each slot: a backward pass over each function. A register
//! that nobody reads any more says nothing about a path, and states that differ only there are the
//! same. The stack's counterpart is recorded on the walk, since only there is known which slots an
//! access reaches.

use super::cfg::{self, Cfg};
use crate::insn::{self, alu, atomic, call, jmp};
use crate::{Insn, contract};

/// A set of registers, bit `n` for `rn`.
pub(super) type Regs = u16;

/// r0 to r5: a call leaves nothing of them.
const CALL_CLOBBERS: Regs = 0x3f;

/// Registers that are live before each slot.
pub(super) fn live_registers(insns: &[Insn], cfg: &Cfg) -> Vec<Regs> {
    let slots = insns.len();
    let mut live = vec![0; slots];
    let predecessors = Predecessors::of(insns);
    // Functions do not jump into each other: one list of work serves all.
    let mut queued = vec![true; slots];
    let mut work: Vec<usize> = (0..slots).collect();
    debug_assert_eq!(cfg.joins.len(), slots);
    while let Some(at) = work.pop() {
        queued[at] = false;
        let i = &insns[at];
        let (uses, defines) = effect(i);
        let mut after = 0;
        for next in successors(insns, at).into_iter().flatten() {
            after |= live[next];
        }
        let before = uses | (after & !defines);
        if before != live[at] {
            live[at] = before;
            for &p in predecessors.of_slot(at) {
                let p = p as usize;
                if !queued[p] {
                    queued[p] = true;
                    work.push(p);
                }
            }
        }
    }
    live
}

/// The slots that may follow.
fn successors(insns: &[Insn], at: usize) -> [Option<usize>; 2] {
    let i = &insns[at];
    let inside = |n: i64| usize::try_from(n).ok().filter(|&n| n < insns.len());
    let next = inside(at as i64 + 1);
    let target = cfg::jump_offset(i).and_then(|off| inside(at as i64 + 1 + off));
    if cfg::is_exit(i) {
        [None, None]
    } else if cfg::is_goto(i) {
        [target, None]
    } else {
        [next, target]
    }
}

/// The slots that each slot may follow, as one list with an index.
struct Predecessors {
    first: Vec<u32>,
    list: Vec<u32>,
}

impl Predecessors {
    fn of(insns: &[Insn]) -> Self {
        let mut first = vec![0u32; insns.len() + 1];
        for at in 0..insns.len() {
            for next in successors(insns, at).into_iter().flatten() {
                first[next + 1] += 1;
            }
        }
        for n in 1..first.len() {
            first[n] += first[n - 1];
        }
        let mut filled = first.clone();
        let mut list = vec![0; first[insns.len()] as usize];
        for at in 0..insns.len() {
            for next in successors(insns, at).into_iter().flatten() {
                list[filled[next] as usize] = at as u32;
                filled[next] += 1;
            }
        }
        Predecessors { first, list }
    }

    fn of_slot(&self, at: usize) -> &[u32] {
        &self.list[self.first[at] as usize..self.first[at + 1] as usize]
    }
}

/// Registers that an instruction reads, and those it overwrites.
fn effect(i: &Insn) -> (Regs, Regs) {
    let bit = |r: u8| -> Regs { 1 << (r & 15) };
    let (dst, src) = (bit(i.dst), bit(i.src));
    match i.class() {
        // The second half of a 64-bit load has this class too, and names r0 alone: no harm done.
        insn::CLASS_LD => (0, if i.is_ld_imm64() { dst } else { 0 }),
        insn::CLASS_LDX => (src, dst),
        insn::CLASS_ST => (dst, 0),
        insn::CLASS_STX if i.mode() == insn::MODE_ATOMIC => match i.imm {
            atomic::CMPXCHG => (dst | src | bit(0), 0),
            _ => (dst | src, 0),
        },
        insn::CLASS_STX => (dst | src, 0),
        insn::CLASS_ALU | insn::CLASS_ALU64 => {
            let operand = if i.is_reg() { src } else { 0 };
            match i.op() {
                alu::MOV => (operand, dst),
                alu::END | alu::NEG => (dst, 0),
                _ => (dst | operand, 0),
            }
        }
        _ => match i.op() {
            jmp::JA => (0, 0),
            jmp::EXIT => (bit(0), 0),
            jmp::CALL => {
                let arguments = match i.src {
                    call::HELPER => contract::contract(i.imm as u32).map_or(5, |c| c.args.len()),
                    _ => 5,
                };
                (((1 << arguments) - 1) << 1, CALL_CLOBBERS)
            }
            _ => (dst | if i.is_reg() { src } else { 0 }, 0),
        },
    }
}
