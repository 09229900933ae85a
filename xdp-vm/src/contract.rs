//! What each helper asks of its arguments and what it gives back: one row a helper, read by the
//! verifier (to check calls) and by the engines (to know which helpers there are). The numbers and
//! shapes are the kernel's (`include/uapi/linux/bpf.h`).

/// One argument of a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// Any initialised scalar; never a pointer.
    Scalar,
    /// The program's context (r1 at entry), unmodified.
    Context,
    /// A map.
    Map,
    /// Memory of the map's key size, initialised.
    MapKey,
    /// Memory of the map's value size, initialised.
    MapValue,
    /// Memory that is read; the next argument is its size in bytes.
    ReadMem,
    /// As `ReadMem`, or null where the size may be zero.
    ReadMemOrNull,
    /// Memory that is written, and need not be initialised; the next argument is its size in bytes.
    WriteMem,
    /// Size of the memory argument before it, in bytes: at least 1.
    Size,
    /// As `Size`, and zero is allowed.
    SizeOrZero,
}

/// What a helper leaves in r0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ret {
    /// A number, nothing known of it.
    Scalar,
    /// A value of the map that was the first argument, or null.
    MapValueOrNull,
}

/// The contract of one helper.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// Number in a call instruction.
    pub id: u32,
    /// Name, as the kernel has it, with `bpf_`.
    pub name: &'static str,
    /// Arguments r1 to r5; what is past the slice is not looked at.
    pub args: &'static [Arg],
    /// Result.
    pub ret: Ret,
    /// Packet pointers held by the program are void after the call.
    pub moves_packet: bool,
}

/// The helpers that there are, ascending by number.
pub const CONTRACTS: &[Contract] = &[
    row(
        1,
        "bpf_map_lookup_elem",
        &[Arg::Map, Arg::MapKey],
        Ret::MapValueOrNull,
        false,
    ),
    row(
        2,
        "bpf_map_update_elem",
        &[Arg::Map, Arg::MapKey, Arg::MapValue, Arg::Scalar],
        Ret::Scalar,
        false,
    ),
    row(
        3,
        "bpf_map_delete_elem",
        &[Arg::Map, Arg::MapKey],
        Ret::Scalar,
        false,
    ),
    row(5, "bpf_ktime_get_ns", &[], Ret::Scalar, false),
    row(
        6,
        "bpf_trace_printk",
        &[
            Arg::ReadMem,
            Arg::Size,
            Arg::Scalar,
            Arg::Scalar,
            Arg::Scalar,
        ],
        Ret::Scalar,
        false,
    ),
    row(7, "bpf_get_prandom_u32", &[], Ret::Scalar, false),
    row(8, "bpf_get_smp_processor_id", &[], Ret::Scalar, false),
    row(
        44,
        "bpf_xdp_adjust_head",
        &[Arg::Context, Arg::Scalar],
        Ret::Scalar,
        true,
    ),
    row(
        65,
        "bpf_xdp_adjust_tail",
        &[Arg::Context, Arg::Scalar],
        Ret::Scalar,
        true,
    ),
];

/// The contract of helper `id`, where there is such a helper.
pub fn contract(id: u32) -> Option<&'static Contract> {
    CONTRACTS
        .binary_search_by_key(&id, |c| c.id)
        .ok()
        .map(|i| &CONTRACTS[i])
}

const fn row(
    id: u32,
    name: &'static str,
    args: &'static [Arg],
    ret: Ret,
    moves_packet: bool,
) -> Contract {
    Contract {
        id,
        name,
        args,
        ret,
        moves_packet,
    }
}
