//! Superinstructions against the sequences that they stand for, run on the same registers and memory.
#![allow(unsafe_code)]

use super::fused::*;
use super::interpreter;
use super::op::{Kind, Op};
use crate::buff::XdpBuff;
use crate::maps::Maps;
use crate::{Cpu, MapSpec};

const NOP: Op = Op {
    kind: Kind::Nop,
    dst: 0,
    src: 0,
    off: 0,
    imm: 0,
};

/// A map, a packet and a generator of operations.
struct Bench {
    maps: Maps,
    /// In one place, since registers get to hold its address.
    packet: [u8; 128],
    rng: fastrand::Rng,
}

/// Holds the packet's address all along.
const BASE: u8 = 9;

impl Bench {
    fn new() -> Self {
        let spec = MapSpec {
            key_size: 4,
            value_size: 8,
            max_entries: 3,
            ..MapSpec::default()
        };
        Bench {
            maps: Maps::create(&[spec], 1).unwrap(),
            packet: [0; 128],
            rng: fastrand::Rng::with_seed(7),
        }
    }

    fn map(&self) -> u64 {
        std::ptr::from_ref(self.maps.at(0).unwrap()).expose_provenance() as u64
    }

    fn number(&mut self) -> u64 {
        match self.rng.u8(..4) {
            0 => self.rng.u64(..4),
            1 => u64::MAX - self.rng.u64(..4),
            2 => i64::from(self.rng.i32(..)).cast_unsigned(),
            _ => self.rng.u64(..),
        }
    }

    /// Operations that are linked as the sequence asks, but for registers that must differ.
    fn operations(&mut self, sequence: &[(Link, Kind)]) -> Vec<Op> {
        let looks_up = sequence.iter().any(|s| s.1 == Kind::CallLookup);
        // Through the value before, which has to be an address then.
        let loads = sequence
            .iter()
            .any(|s| matches!(s, (Link::With, Kind::Load32 | Kind::Load64)));
        let mut ops = Vec::new();
        let (mut at, mut before) = (0, 0);
        for &(link, kind) in sequence {
            let mut op = Op {
                kind,
                dst: self.rng.u8(..4),
                src: self.rng.u8(..4),
                // Past the operation after the sequence.
                off: 1,
                imm: self.number(),
            };
            match kind {
                Kind::Load8 | Kind::Load16 | Kind::Load32 | Kind::Load64 => {
                    (op.src, op.off) = (BASE, self.rng.i32(0..32));
                }
                Kind::StoreX8
                | Kind::StoreX16
                | Kind::StoreX32
                | Kind::StoreX64
                | Kind::StoreK64 => (op.dst, op.off) = (BASE, self.rng.i32(0..32)),
                Kind::Mov64X if looks_up => (op.dst, op.src) = (2, BASE),
                Kind::Add64K if looks_up => (op.dst, op.imm) = (2, self.rng.u64(..32)),
                Kind::Mov64K if loads => op.imm = self.packet.as_ptr().expose_provenance() as u64,
                Kind::Mov64K if looks_up => (op.dst, op.imm) = (1, self.map()),
                _ => {}
            }
            match link {
                Link::Any | Link::None => {}
                Link::Same => op.dst = at,
                Link::With | Link::Source => op.src = at,
                Link::Back => op.dst = before,
                Link::Both => (op.dst, op.src) = (at, before),
            }
            if matches!(link, Link::Any | Link::With | Link::Back) {
                (before, at) = (at, op.dst);
            }
            ops.push(op);
        }
        ops
    }

    /// Runs operations on registers that hold `values`, and gives what they leave: r0 as
    /// returned, the registers, and the packet.
    fn run(&mut self, ops: &[Op], values: &[u64], packet: &[u8]) -> (u32, [u8; 128]) {
        let set = (0..).zip(values).map(|(dst, &imm)| Op {
            kind: Kind::Mov64K,
            dst,
            imm,
            ..NOP
        });
        let mut all: Vec<Op> = set.collect();
        all.push(Op {
            kind: Kind::LoadData,
            dst: BASE,
            ..NOP
        });
        all.extend(ops);
        // Which a jump goes past.
        all.push(Op {
            kind: Kind::Xor64K,
            dst: 5,
            imm: u64::MAX,
            ..NOP
        });
        all.extend((0..8).map(|src| Op {
            kind: Kind::StoreX64,
            dst: BASE,
            src,
            off: 64 + 8 * i32::from(src),
            imm: 0,
        }));
        all.extend([Kind::Exit, Kind::Trap].map(|kind| Op { kind, ..NOP }));
        self.packet = [0xee; 128];
        self.packet[..packet.len()].copy_from_slice(packet);
        let mut buff = XdpBuff::new(&mut self.packet, 0, 128).unwrap();
        let mut cpu = Cpu::new(0);
        // SAFETY: all access is inside the packet; registers are below r10, jumps inside `all`.
        let r0 = unsafe { interpreter::run(&all, &mut cpu, &mut buff) };
        (r0, self.packet)
    }
}

#[test]
fn a_superinstruction_does_what_its_sequence_does() {
    let mut bench = Bench::new();
    for &(kind, sequence) in ROWS {
        let mut matched = 0;
        for _ in 0..10_000 {
            let ops = bench.operations(sequence);
            let kinds: Vec<Kind> = ops.iter().map(|op| op.kind).collect();
            if !matches(sequence, &kinds, &ops) {
                continue;
            }
            let values: Vec<u64> = (0..8).map(|_| bench.number()).collect();
            let most = [0, 1, 0xff][matched % 3];
            let packet: [u8; 64] = std::array::from_fn(|_| bench.rng.u8(0..=most));
            let mut fused = ops.clone();
            fused[0].kind = kind;
            let expected = bench.run(&ops, &values, &packet);
            let got = bench.run(&fused, &values, &packet);
            assert_eq!(got, expected, "{kind:?}: {ops:?} on {values:x?}");
            matched += 1;
            if matched == 300 {
                break;
            }
        }
        assert_eq!(matched, 300, "{kind:?}: its links are not met");
    }
}

#[test]
fn each_sequence_is_fused() {
    let mut bench = Bench::new();
    for &(kind, sequence) in ROWS {
        let ops = std::iter::repeat_with(|| bench.operations(sequence)).take(10_000);
        let mut ops = ops
            .into_iter()
            .find(|ops| {
                let kinds: Vec<Kind> = ops.iter().map(|op| op.kind).collect();
                matches(sequence, &kinds, ops)
            })
            .unwrap();
        let plain = ops.clone();
        fuse(&mut ops);
        assert_eq!(ops[0].kind, kind, "{sequence:?}");
        let operands = |op: &Op| (op.dst, op.src, op.off, op.imm);
        assert!(
            ops.iter().map(operands).eq(plain.iter().map(operands)),
            "only kinds change"
        );
    }
}

#[test]
fn what_is_not_linked_is_not_fused() {
    let op = |kind, dst, src| Op {
        kind,
        dst,
        src,
        ..NOP
    };
    for [first, second] in [
        [op(Kind::Mov64X, 1, 2), op(Kind::Add64K, 2, 0)],
        // The second adds what the first made to itself.
        [op(Kind::Lsh64K, 1, 0), op(Kind::Xor64X, 1, 1)],
        [op(Kind::Load16, 1, 2), op(Kind::Add32X, 1, 1)],
        [op(Kind::Load16, 1, 2), op(Kind::Add32X, 3, 2)],
        [op(Kind::Load32, 1, 2), op(Kind::StoreX32, 1, 2)],
    ] {
        let mut ops = [first, second];
        fuse(&mut ops);
        assert_eq!(ops.map(|op| op.kind), [first.kind, second.kind]);
    }
}

#[test]
fn a_jump_into_a_sequence_runs_the_rest_of_it() {
    let op = |kind, dst, src, off, imm| Op {
        kind,
        dst,
        src,
        off,
        imm,
    };
    let mut ops = [
        op(Kind::Mov64K, 2, 0, 0, 10),
        op(Kind::Mov64K, 1, 0, 0, 1),
        op(Kind::Jeq64K, 2, 0, 1, 10),
        op(Kind::Mov64X, 1, 2, 0, 0),
        op(Kind::Add64K, 1, 0, 0, 5),
        op(Kind::Mov64X, 0, 1, 0, 0),
        op(Kind::Exit, 0, 0, 0, 0),
        op(Kind::Trap, 0, 0, 0, 0),
    ];
    fuse(&mut ops);
    assert_eq!(ops[3].kind, Kind::Lea);
    let run = |ops: &[Op]| {
        let mut bytes = [0; 64];
        let mut buff = XdpBuff::new(&mut bytes, 0, 64).unwrap();
        // SAFETY: nothing is accessed; registers are below r10, jumps inside `ops`.
        unsafe { interpreter::run(ops, &mut Cpu::new(0), &mut buff) }
    };
    assert_eq!(run(&ops), 6);
    ops[2].imm = 11;
    assert_eq!(run(&ops), 15);
}
