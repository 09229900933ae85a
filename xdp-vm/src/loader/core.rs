//! CO-RE relocations ("compile once, run everywhere"): what an instruction says of a type of the kernel
//! is fitted to the types that programs meet here.
//!
//! - `struct xdp_md` is known: its fields, by name.
//! - Headers of packets (`struct iphdr` and its like, which come with `vmlinux.h`) are the same
//!   everywhere: what the compiler wrote holds, as long as the object's own definition has their size.
//! - Of any other type it is known that there is none: questions whether it exists are answered, and
//!   an instruction that needs its layout is replaced by one that the verifier refuses by name where
//!   it is reached, as other loaders do.
//!
//! The instructions of an object already say what holds for its own definitions, so whatever agrees
//! with them is left as it is. Records: the kernel's `struct bpf_core_relo`.

use super::btf::{Btf, Kind, Type};
use crate::Insn;
use crate::insn::{self, CLASS_ALU, CLASS_ALU64, CLASS_LDX, CLASS_ST, CLASS_STX};

/// `struct xdp_md`: its fields, each of 4 bytes, in their order ([`ContextField`](crate::ContextField)).
const XDP_MD: [&str; 6] = [
    "data",
    "data_end",
    "data_meta",
    "ingress_ifindex",
    "rx_queue_index",
    "egress_ifindex",
];
const FIELD: u64 = 4;

/// Types that lie in packets, and their bytes.
const WIRE: [(&str, u32); 20] = [
    ("ethhdr", 14),
    ("vlan_hdr", 4),
    ("vlan_ethhdr", 18),
    ("arphdr", 8),
    ("iphdr", 20),
    ("ipv6hdr", 40),
    ("ipv6_opt_hdr", 2),
    ("ipv6_rt_hdr", 4),
    ("frag_hdr", 8),
    ("ip_auth_hdr", 12),
    ("ip_esp_hdr", 8),
    ("in_addr", 4),
    ("in6_addr", 16),
    ("tcphdr", 20),
    ("udphdr", 8),
    ("sctphdr", 12),
    ("icmphdr", 8),
    ("icmp6hdr", 8),
    ("gre_base_hdr", 4),
    ("mpls_label", 4),
];

/// What a record asks (`enum bpf_core_relo_kind`).
mod ask {
    pub(super) const FIELD_OFFSET: u32 = 0;
    pub(super) const FIELD_SIZE: u32 = 1;
    pub(super) const FIELD_EXISTS: u32 = 2;
    pub(super) const FIELD_RSHIFT: u32 = 5;
    pub(super) const TYPE_ID_LOCAL: u32 = 6;
    pub(super) const TYPE_EXISTS: u32 = 8;
    pub(super) const TYPE_SIZE: u32 = 9;
    pub(super) const ENUM_EXISTS: u32 = 10;
    pub(super) const TYPE_MATCHES: u32 = 12;
}

/// What becomes of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// What the compiler wrote holds.
    Keep,
    /// It says this.
    Value(u64),
    /// There is nothing that it could say.
    Missing,
}

/// Answers a record: `kind` is what it asks, `access` the path of members, `0:1:2`.
pub(super) fn fit(btf: &Btf, type_id: u32, access: &str, kind: u32) -> Fit {
    if kind == ask::TYPE_ID_LOCAL {
        return Fit::Keep;
    }
    let name = flavourless(btf.name(type_id));
    if name == "xdp_md" {
        return context(btf, type_id, access, kind);
    }
    let size = btf.size_of(type_id);
    if WIRE
        .iter()
        .any(|&(wire, bytes)| wire == name && size == Some(bytes))
    {
        return match kind {
            ask::FIELD_OFFSET..=ask::FIELD_RSHIFT
            | ask::TYPE_EXISTS
            | ask::TYPE_SIZE
            | ask::TYPE_MATCHES => Fit::Keep,
            _ => Fit::Missing,
        };
    }
    match kind {
        ask::FIELD_EXISTS | ask::TYPE_EXISTS | ask::ENUM_EXISTS | ask::TYPE_MATCHES => {
            Fit::Value(0)
        }
        _ => Fit::Missing,
    }
}

/// Of `struct xdp_md`, whose definition in the object may have other fields, in another order.
fn context(btf: &Btf, type_id: u32, access: &str, kind: u32) -> Fit {
    match kind {
        ask::TYPE_EXISTS | ask::TYPE_MATCHES => return Fit::Value(1),
        ask::TYPE_SIZE => return Fit::Value(FIELD * XDP_MD.len() as u64),
        _ => {}
    }
    let field = member(btf, type_id, access)
        .and_then(|name| XDP_MD.iter().position(|&field| field == name));
    match (kind, field) {
        (ask::FIELD_EXISTS, field) => Fit::Value(u64::from(field.is_some())),
        (ask::FIELD_OFFSET, Some(field)) => Fit::Value(FIELD * field as u64),
        (ask::FIELD_SIZE, Some(_)) => Fit::Value(FIELD),
        // Numbers without a sign that fill their words.
        (ask::FIELD_OFFSET..=ask::FIELD_RSHIFT, Some(_)) => Fit::Keep,
        _ => Fit::Missing,
    }
}

/// The name of the member of 4 bytes that `0:N` names.
fn member<'b>(btf: &'b Btf, type_id: u32, access: &str) -> Option<&'b str> {
    let (first, index) = access.split_once(':')?;
    let Some(Type {
        kind: Kind::Composite { members, .. },
        ..
    }) = btf.plain(type_id)
    else {
        return None;
    };
    let member = members.get(index.parse::<usize>().ok()?)?;
    (first == "0" && btf.size_of(member.of) == Some(FIELD as u32)).then(|| btf.string(member.name))
}

/// Without what tells several definitions of one type apart: `task_struct___old`.
fn flavourless(name: &str) -> &str {
    name.split_once("___").map_or(name, |(name, _)| name)
}

/// Puts `value` where the instruction has its number. False where it has none that it fits.
pub(super) fn patch(insns: &mut [Insn], value: u64) -> bool {
    let Some((first, rest)) = insns.split_first_mut() else {
        return false;
    };
    match first.class() {
        CLASS_ALU | CLASS_ALU64 if !first.is_reg() => match i32::try_from(value) {
            Ok(imm) => first.imm = imm,
            Err(_) => return false,
        },
        CLASS_LDX | CLASS_ST | CLASS_STX => match i16::try_from(value) {
            Ok(off) => first.off = off,
            Err(_) => return false,
        },
        _ if first.is_ld_imm64() && first.src == insn::imm64::VALUE => {
            let Some(second) = rest.first_mut() else {
                return false;
            };
            first.imm = value as u32 as i32;
            second.imm = (value >> 32) as u32 as i32;
        }
        _ => return false,
    }
    true
}
