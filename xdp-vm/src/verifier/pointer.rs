//! Arithmetic and comparison with pointers: an offset moves a pointer within its region, a
//! comparison of a packet pointer with the packet's end proves bytes.

use super::alu;
use super::branch::Relation;
use super::cause::Cause;
use super::lock;
use super::references;
use super::scalar::Scalar;
use super::state::{INNER, Kind, MAX_STACK, Reg, State};
use super::step::Env;
use crate::insn::alu as op;

/// No memory is so large that a pointer could be this far from its base (kernel:
/// `BPF_MAX_VAR_OFF`).
const MOST_OFFSET: i64 = 1 << 29;
/// Packets are no longer than this (kernel: `MAX_PACKET_OFF`).
const MOST_PACKET: u64 = 0xffff;

/// `left op right` where at least one is a pointer; the result goes to register `dst`.
pub(super) fn arithmetic(
    state: &mut State,
    operation: u8,
    wide: bool,
    dst: u8,
    src: u8,
    left: Reg,
    right: Reg,
) -> Result<Reg, Cause> {
    let (pointer, number, pointer_reg, number_reg) = if left.kind.is_pointer() {
        (left, right, dst, src)
    } else {
        (right, left, src, dst)
    };
    let refused = Cause::PointerArithmetic {
        reg: pointer_reg,
        operation: name(operation),
        kind: pointer.kind.words(),
    };
    if left.kind.is_pointer() && right.kind.is_pointer() {
        // A distance within one packet says nothing of where it is; nor does its low half.
        let halves = left.kind == Kind::PacketLow || right.kind == Kind::PacketLow;
        let distance = operation == op::SUB && of_one_packet(left.kind, right.kind);
        return if distance && !(wide && halves) {
            Ok(Reg::scalar(Scalar::of_size(if wide { 8 } else { 4 })))
        } else {
            Err(refused)
        };
    }
    if !wide {
        return Err(refused);
    }
    let subtracts = match operation {
        op::ADD => false,
        op::SUB if left.kind.is_pointer() => true,
        _ => return Err(refused),
    };
    let movable = match pointer.kind {
        Kind::Packet | Kind::PacketMeta | Kind::MapValue(_) | Kind::Stack(_) | Kind::Record(_) => {
            true
        }
        Kind::Context => number.scalar.as_constant().is_some(),
        _ => false,
    };
    if !movable {
        return Err(refused);
    }
    // All that is proven through the pointer from here on hangs on this number.
    state.need(number.origin);
    let out = moved(state, &pointer, &number.scalar, subtracts, number_reg)?;
    let off = i64::from(out.off);
    if off.abs() >= MOST_OFFSET {
        return Err(Cause::OffsetTooLarge { off });
    }
    Ok(out)
}

fn moved(
    state: &mut State,
    pointer: &Reg,
    by: &Scalar,
    subtracts: bool,
    number_reg: u8,
) -> Result<Reg, Cause> {
    let mut out = *pointer;
    if let Some(v) = by.as_constant() {
        let v = v as i64;
        let v = if subtracts { v.checked_neg() } else { Some(v) };
        let off = v.and_then(|v| i64::from(pointer.off).checked_add(v));
        let off = off.unwrap_or(i64::MAX);
        out.off = i32::try_from(off).map_err(|_| Cause::OffsetTooLarge { off })?;
        return Ok(out);
    }
    let (min, max) = (by.w64.smin, by.w64.smax);
    let unbounded = min <= -MOST_OFFSET || (subtracts && max >= MOST_OFFSET);
    if unbounded || min >= MOST_OFFSET {
        return Err(Cause::OffsetUnbounded {
            reg: number_reg,
            min,
        });
    }
    let operation = if subtracts { op::SUB } else { op::ADD };
    out.scalar = alu::binary(operation, false, true, pointer.scalar, *by);
    if pointer.kind.is_packet() {
        out.id = state.fresh_id();
        out.range = 0;
    }
    Ok(out)
}

pub(super) fn name(operation: u8) -> &'static str {
    match operation {
        op::ADD => "+",
        op::SUB => "-",
        op::MUL => "*",
        op::DIV => "/",
        op::OR => "|",
        op::AND => "&",
        op::LSH => "<<",
        op::RSH => ">>",
        op::NEG => "negation",
        op::MOD => "%",
        op::XOR => "^",
        op::MOV => "a narrowing move",
        op::ARSH => "a signed >>",
        _ => "a byte swap",
    }
}

/// What a comparison with a pointer in it says.
pub(super) enum Verdict {
    /// It always holds, or never.
    Known(bool),
    /// It may hold or not; nothing is learnt.
    Open,
    /// It may hold or not, and tells null from a value: values with this id are null where it
    /// holds equal to `equal`.
    Null { id: u32, equal: bool },
    /// It may hold or not; where it does (`when` true) or does not, values with this id are there, not
    /// null.
    There { id: u32, when: bool },
    /// Where it holds (`when` true) or does not, this is proven of packet pointers.
    Packet { proof: Proof, when: bool },
}

/// Bytes proven of all packet pointers of one kind and id.
#[derive(Clone, Copy)]
pub(super) struct Proof {
    kind: Kind,
    id: u32,
    bytes: u32,
}

/// Compares `left` with `right`, at least one of them a pointer.
pub(super) fn compare(
    relation: Relation,
    wide: bool,
    left: &Reg,
    right: &Reg,
) -> Result<Verdict, Cause> {
    let refused = Cause::PointerComparison {
        left: left.kind.words(),
        right: right.kind.words(),
    };
    let equality = matches!(relation, Relation::Equal | Relation::NotEqual);
    let equal = relation == Relation::Equal;
    let zero = |r: &Reg| r.as_constant() == Some(0);
    let low = [left.kind, right.kind].contains(&Kind::PacketLow);
    if !wide || low {
        // The fields of the context have 32 bits, and `if (!ctx->data)` or `if (ctx->data_end ==
        // ctx->data)` may be compiled so: an order within the packet, from which nothing is learnt.
        let packet = left.kind.is_packet() || right.kind.is_packet();
        let null = equality && packet && (zero(left) || zero(right));
        let order = !wide && of_one_packet(left.kind, right.kind);
        return if null || order {
            Ok(Verdict::Open)
        } else {
            Err(refused)
        };
    }
    if equality && (zero(left) || zero(right)) {
        let pointer = if zero(right) { left } else { right };
        return Ok(match pointer.kind {
            kind if kind.not_null().is_some() => Verdict::Null {
                id: pointer.id,
                equal,
            },
            // How engines represent these two is their affair.
            Kind::Context | Kind::Map(_) => Verdict::Open,
            // The lowest page is never mapped, so nothing near a region's start is null.
            _ if pointer.has_constant_offset() && pointer.off >= -MAX_STACK => {
                Verdict::Known(!equal)
            }
            _ => Verdict::Open,
        });
    }
    // Whether two pointers, as they came, are the same thing. Moved ones are not compared: by trying
    // offsets a program would find how far apart two regions are.
    if equality && as_it_came(left) && as_it_came(right) {
        for (maybe, other) in [(left, right), (right, left)] {
            // What equals a value that is there is not null.
            if let (Kind::MapValueOrNull(_), Kind::MapValue(_)) = (maybe.kind, other.kind) {
                let id = maybe.id;
                return Ok(Verdict::There { id, when: equal });
            }
        }
        return Ok(Verdict::Open);
    }
    if matches!(left.kind, Kind::Stack(_)) && left.kind == right.kind {
        // Two places of one frame: their order is the program's own.
        return Ok(Verdict::Open);
    }
    if let Kind::MapValue(map) = left.kind
        && left.kind == right.kind
        && map & INNER == 0
    {
        // Two places of one map: how it lays out its values is not where it is.
        return Ok(Verdict::Open);
    }
    if !of_one_packet(left.kind, right.kind) {
        return Err(refused);
    }
    Ok(packet_proof(relation, left, right))
}

/// True for two pointers into the packet as it is, or into the packet as it was before it moved.
fn of_one_packet(left: Kind, right: Kind) -> bool {
    let both = left.is_packet() && right.is_packet();
    both && (left == Kind::PacketMoved) == (right == Kind::PacketMoved)
}

/// True for a pointer to the start of a region that is not the packet, whose pointers have rules of
/// their own.
fn as_it_came(reg: &Reg) -> bool {
    let pointer = reg.kind.is_pointer() && !reg.kind.is_packet();
    pointer && reg.off == 0 && reg.scalar.as_constant() == Some(0)
}

/// What comparing two packet pointers proves. `p < end` where true proves that the byte at `p` is
/// there too; `p <= end` all before it. Metadata ends where the packet starts.
fn packet_proof(relation: Relation, left: &Reg, right: &Reg) -> Verdict {
    let ends = |pointer: &Reg, end: &Reg| match (pointer.kind, end.kind) {
        (Kind::Packet, Kind::PacketEnd) => true,
        (Kind::PacketMeta, Kind::Packet) => {
            end.off == 0 && end.has_constant_offset() && end.id == 0
        }
        _ => false,
    };
    let (relation, pointer) = if ends(left, right) {
        (relation, left)
    } else if ends(right, left) {
        (relation.mirrored(), right)
    } else {
        return Verdict::Open;
    };
    let (when, strict) = match relation {
        Relation::Less => (true, true),
        Relation::LessEqual => (true, false),
        Relation::Greater => (false, false),
        Relation::GreaterEqual => (false, true),
        _ => return Verdict::Open,
    };
    let var = &pointer.scalar.w64;
    // A pointer that may have wrapped, or points before its base, proves nothing.
    let reach = i128::from(var.umax) + i128::from(pointer.off);
    if var.smin < 0 || var.umax > MOST_PACKET || pointer.off < 0 || reach > i128::from(MOST_PACKET)
    {
        return Verdict::Open;
    }
    Verdict::Packet {
        proof: Proof {
            kind: pointer.kind,
            id: pointer.id,
            bytes: pointer.off as u32 + u32::from(strict),
        },
        when,
    }
}

/// Gives all pointers that a proof is about what it proves.
pub(super) fn apply(state: &mut State, proof: Proof) {
    state.for_each(|reg| {
        if reg.kind == proof.kind && reg.id == proof.id {
            reg.range = reg.range.max(proof.bytes);
        }
    });
}

/// What has this id is null (and so the number 0), or surely there.
pub(super) fn settle_null(env: &Env<'_>, state: &mut State, id: u32, null: bool) {
    if null {
        references::was_null(state, id);
    }
    state.for_each(|reg| {
        let Some(there) = reg.kind.not_null().filter(|_| reg.id == id) else {
            return;
        };
        let keeps_id = there.is_referenced() || lock::tells_values_apart(env, there);
        *reg = match (null, keeps_id) {
            (true, _) => Reg::constant(0),
            (false, true) => Reg {
                id,
                ..Reg::pointer(there)
            },
            (false, false) => Reg::pointer(there),
        };
    });
}
