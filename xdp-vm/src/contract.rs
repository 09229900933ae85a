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
    /// Memory arguments may lie in the packet.
    pub takes_packet: bool,
    /// Elements of the map argument may be changed, added or removed.
    pub changes_map: bool,
}

/// The helpers that there are, ascending by number.
pub const CONTRACTS: &[Contract] = &[
    row(1, "bpf_map_lookup_elem", &[Arg::Map, Arg::MapKey])
        .gives(Ret::MapValueOrNull)
        .takes_packet(),
    row(
        2,
        "bpf_map_update_elem",
        &[Arg::Map, Arg::MapKey, Arg::MapValue, Arg::Scalar],
    )
    .takes_packet()
    .changes_map(),
    row(3, "bpf_map_delete_elem", &[Arg::Map, Arg::MapKey])
        .takes_packet()
        .changes_map(),
    row(5, "bpf_ktime_get_ns", &[]),
    // What the format asks for is taken from r3 to r5 as it is: the kernel checks no more.
    row(6, "bpf_trace_printk", &[Arg::ReadMem, Arg::Size]),
    row(7, "bpf_get_prandom_u32", &[]),
    row(8, "bpf_get_smp_processor_id", &[]),
    row(44, "bpf_xdp_adjust_head", &[Arg::Context, Arg::Scalar]).moves_packet(),
    row(65, "bpf_xdp_adjust_tail", &[Arg::Context, Arg::Scalar]).moves_packet(),
];

/// The contract of helper `id`, where there is such a helper.
pub fn contract(id: u32) -> Option<&'static Contract> {
    CONTRACTS
        .binary_search_by_key(&id, |c| c.id)
        .ok()
        .map(|i| &CONTRACTS[i])
}

/// A helper that gives a number and does nothing else that concerns the verifier.
const fn row(id: u32, name: &'static str, args: &'static [Arg]) -> Contract {
    Contract {
        id,
        name,
        args,
        ret: Ret::Scalar,
        moves_packet: false,
        takes_packet: false,
        changes_map: false,
    }
}

impl Contract {
    const fn gives(mut self, ret: Ret) -> Self {
        self.ret = ret;
        self
    }

    const fn moves_packet(mut self) -> Self {
        self.moves_packet = true;
        self
    }

    const fn takes_packet(mut self) -> Self {
        self.takes_packet = true;
        self
    }

    const fn changes_map(mut self) -> Self {
        self.changes_map = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Look-up is by bisection, and a size argument speaks of the memory before it.
    #[test]
    fn rows_are_ascending_and_sizes_follow_memory() {
        assert!(CONTRACTS.windows(2).all(|w| w[0].id < w[1].id));
        for c in CONTRACTS {
            assert!(c.args.len() <= 5, "{}", c.name);
            for (n, arg) in c.args.iter().enumerate() {
                let sized = matches!(arg, Arg::ReadMem | Arg::ReadMemOrNull | Arg::WriteMem);
                let size = c.args.get(n + 1);
                let is_size = matches!(size, Some(Arg::Size | Arg::SizeOrZero));
                assert_eq!(sized, is_size, "{} argument {}", c.name, n + 1);
            }
            assert_eq!(contract(c.id).map(|c| c.name), Some(c.name));
        }
        assert!(contract(0).is_none());
    }
}
