//! What each helper asks of its arguments and what it gives back: one row a helper, read by the
//! verifier (to check calls) and by the engines (to know which helpers there are). The numbers and
//! shapes are the kernel's (`include/uapi/linux/bpf.h`).

use crate::MapKind;

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
    /// Memory of the map's value size that is written, and need not be initialised. Of a bloom filter,
    /// which only compares with it, as `MapValue`.
    MapValueOut,
    /// Memory that is read; the next argument is its size in bytes.
    ReadMem,
    /// As `ReadMem`, or null where the size may be zero.
    ReadMemOrNull,
    /// Memory that is written, and need not be initialised; the next argument is its size in bytes.
    WriteMem,
    /// Memory that is read and written; the next argument is its size in bytes.
    ReadWriteMem,
    /// As `WriteMem`, or null where the size may be zero.
    WriteMemOrNull,
    /// So many bytes that are read and written.
    ReadWriteFixed(u32),
    /// So many bytes that are read.
    ReadFixed(u32),
    /// So many bytes that are written, and need not be initialised, at a multiple of their number.
    WriteAligned(u32),
    /// A string that ends in a zero byte, in a map whose contents are part of the program (`.rodata`).
    ConstString,
    /// As `ConstString`: a format for the numbers of 8 bytes in the memory after it.
    ConstFormat,
    /// Size of the memory argument before it, in bytes: at least 1.
    Size,
    /// As `Size`, and zero is allowed.
    SizeOrZero,
    /// Bytes of the record that the call reserves: a number known when the program is verified.
    RecordSize,
    /// A spin lock in a map value.
    Lock,
    /// A record of a ring buffer as it was reserved; the call takes it away from the program.
    Record,
}

/// What a helper leaves in r0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ret {
    /// A number, nothing known of it.
    Scalar,
    /// What the key names in the map among the arguments, or null: a value, or the inner map of a map
    /// of maps. Of an array, a key known to be within is never null.
    MapValueOrNull,
    /// A value of the map among the arguments as one of the CPUs has it, or null.
    PercpuValueOrNull,
    /// A new record of a ring buffer, of the size among the arguments, or null. The program must give
    /// it back on every path.
    RecordOrNull,
    /// Nothing: r0 is void.
    Nothing,
}

/// The contract of one helper.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// Number in a call instruction; of a kernel function, its row's.
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
    /// Kinds that the map argument may be of; empty where there is no such argument.
    pub maps: &'static [MapKind],
}

// The kernel's table of which helper goes with which kind (`check_map_func_compatibility`).

/// Kinds whose entries programs change.
const KEYED: &[MapKind] = &[
    MapKind::Hash,
    MapKind::Array,
    MapKind::PercpuHash,
    MapKind::PercpuArray,
    MapKind::LruHash,
    MapKind::LruPercpuHash,
    MapKind::LpmTrie,
];
/// Kinds that programs look up.
const LOOKED_UP: &[MapKind] = &[
    MapKind::Hash,
    MapKind::Array,
    MapKind::PercpuHash,
    MapKind::PercpuArray,
    MapKind::LruHash,
    MapKind::LruPercpuHash,
    MapKind::LpmTrie,
    MapKind::ArrayOfMaps,
    MapKind::HashOfMaps,
    MapKind::Devmap,
    MapKind::DevmapHash,
    MapKind::Xskmap,
];
const PERCPU: &[MapKind] = &[
    MapKind::PercpuHash,
    MapKind::PercpuArray,
    MapKind::LruPercpuHash,
];
const TARGETS: &[MapKind] = &[
    MapKind::Devmap,
    MapKind::DevmapHash,
    MapKind::Cpumap,
    MapKind::Xskmap,
];
const QUEUES: &[MapKind] = &[MapKind::Queue, MapKind::Stack];
const QUEUES_AND_BLOOM: &[MapKind] = &[MapKind::Queue, MapKind::Stack, MapKind::BloomFilter];

/// The two that the verifier tells apart by their effect.
pub(crate) const SPIN_LOCK: u32 = 93;
pub(crate) const SPIN_UNLOCK: u32 = 94;

/// The helpers that there are, ascending by number.
pub const CONTRACTS: &[Contract] = &[
    row(1, "bpf_map_lookup_elem", &[Arg::Map, Arg::MapKey])
        .gives(Ret::MapValueOrNull)
        .on(LOOKED_UP)
        .takes_packet(),
    row(
        2,
        "bpf_map_update_elem",
        &[Arg::Map, Arg::MapKey, Arg::MapValue, Arg::Scalar],
    )
    .on(KEYED)
    .takes_packet()
    .changes_map(),
    row(3, "bpf_map_delete_elem", &[Arg::Map, Arg::MapKey])
        .on(KEYED)
        .takes_packet()
        .changes_map(),
    row(5, "bpf_ktime_get_ns", &[]),
    // What the format asks for is taken from r3 to r5 as it is: the kernel checks no more.
    row(6, "bpf_trace_printk", &[Arg::ReadMem, Arg::Size]),
    row(7, "bpf_get_prandom_u32", &[]),
    row(8, "bpf_get_smp_processor_id", &[]),
    // Where there is no program to go to, the kernel takes the packet for moved all the same.
    row(12, "bpf_tail_call", &[Arg::Context, Arg::Map, Arg::Scalar])
        .gives(Ret::Nothing)
        .on(&[MapKind::ProgArray])
        .moves_packet(),
    row(14, "bpf_get_current_pid_tgid", &[]),
    row(15, "bpf_get_current_uid_gid", &[]),
    row(16, "bpf_get_current_comm", &[Arg::WriteMem, Arg::Size]),
    row(17, "bpf_get_cgroup_classid", &[Arg::Context]),
    row(22, "bpf_perf_event_read", &[Arg::Map, Arg::Scalar]).on(&[MapKind::PerfEventArray]),
    row(23, "bpf_redirect", &[Arg::Scalar, Arg::Scalar]),
    row(
        25,
        "bpf_perf_event_output",
        &[
            Arg::Context,
            Arg::Map,
            Arg::Scalar,
            Arg::ReadMem,
            Arg::SizeOrZero,
        ],
    )
    .on(&[MapKind::PerfEventArray]),
    row(
        28,
        "bpf_csum_diff",
        &[
            Arg::ReadMemOrNull,
            Arg::SizeOrZero,
            Arg::ReadMemOrNull,
            Arg::SizeOrZero,
            Arg::Scalar,
        ],
    )
    .takes_packet(),
    row(42, "bpf_get_numa_node_id", &[]),
    row(44, "bpf_xdp_adjust_head", &[Arg::Context, Arg::Scalar]).moves_packet(),
    row(
        51,
        "bpf_redirect_map",
        &[Arg::Map, Arg::Scalar, Arg::Scalar],
    )
    .on(TARGETS),
    row(54, "bpf_xdp_adjust_meta", &[Arg::Context, Arg::Scalar]).moves_packet(),
    row(
        55,
        "bpf_perf_event_read_value",
        &[Arg::Map, Arg::Scalar, Arg::WriteMem, Arg::Size],
    )
    .on(&[MapKind::PerfEventArray]),
    row(65, "bpf_xdp_adjust_tail", &[Arg::Context, Arg::Scalar]).moves_packet(),
    row(
        69,
        "bpf_fib_lookup",
        &[Arg::Context, Arg::ReadWriteMem, Arg::Size, Arg::Scalar],
    ),
    row(
        87,
        "bpf_map_push_elem",
        &[Arg::Map, Arg::MapValue, Arg::Scalar],
    )
    .on(QUEUES_AND_BLOOM)
    .takes_packet()
    .changes_map(),
    row(88, "bpf_map_pop_elem", &[Arg::Map, Arg::MapValueOut])
        .on(QUEUES)
        .changes_map(),
    row(89, "bpf_map_peek_elem", &[Arg::Map, Arg::MapValueOut]).on(QUEUES_AND_BLOOM),
    row(SPIN_LOCK, "bpf_spin_lock", &[Arg::Lock]).gives(Ret::Nothing),
    row(SPIN_UNLOCK, "bpf_spin_unlock", &[Arg::Lock]).gives(Ret::Nothing),
    row(
        105,
        "bpf_strtol",
        &[Arg::ReadMem, Arg::Size, Arg::Scalar, Arg::WriteAligned(8)],
    ),
    row(
        106,
        "bpf_strtoul",
        &[Arg::ReadMem, Arg::Size, Arg::Scalar, Arg::WriteAligned(8)],
    ),
    row(118, "bpf_jiffies64", &[]),
    row(
        120,
        "bpf_get_ns_current_pid_tgid",
        &[Arg::Scalar, Arg::Scalar, Arg::WriteMem, Arg::Size],
    ),
    row(125, "bpf_ktime_get_boot_ns", &[]),
    row(
        130,
        "bpf_ringbuf_output",
        &[Arg::Map, Arg::ReadMem, Arg::SizeOrZero, Arg::Scalar],
    )
    .on(&[MapKind::Ringbuf]),
    row(
        131,
        "bpf_ringbuf_reserve",
        &[Arg::Map, Arg::RecordSize, Arg::Scalar],
    )
    .gives(Ret::RecordOrNull)
    .on(&[MapKind::Ringbuf]),
    row(132, "bpf_ringbuf_submit", &[Arg::Record, Arg::Scalar]).gives(Ret::Nothing),
    row(133, "bpf_ringbuf_discard", &[Arg::Record, Arg::Scalar]).gives(Ret::Nothing),
    row(134, "bpf_ringbuf_query", &[Arg::Map, Arg::Scalar]).on(&[MapKind::Ringbuf]),
    row(160, "bpf_ktime_get_coarse_ns", &[]),
    row(
        163,
        "bpf_check_mtu",
        &[
            Arg::Context,
            Arg::Scalar,
            Arg::ReadWriteFixed(4),
            Arg::Scalar,
            Arg::Scalar,
        ],
    ),
    row(
        165,
        "bpf_snprintf",
        &[
            Arg::WriteMemOrNull,
            Arg::SizeOrZero,
            Arg::ConstFormat,
            Arg::ReadMemOrNull,
            Arg::SizeOrZero,
        ],
    ),
    row(
        177,
        "bpf_trace_vprintk",
        &[Arg::ReadMem, Arg::Size, Arg::ReadMemOrNull, Arg::SizeOrZero],
    ),
    row(
        182,
        "bpf_strncmp",
        &[Arg::ReadMem, Arg::Size, Arg::ConstString],
    ),
    row(188, "bpf_xdp_get_buff_len", &[Arg::Context]),
    row(
        189,
        "bpf_xdp_load_bytes",
        &[Arg::Context, Arg::Scalar, Arg::WriteMem, Arg::Size],
    ),
    row(
        190,
        "bpf_xdp_store_bytes",
        &[Arg::Context, Arg::Scalar, Arg::ReadMem, Arg::Size],
    ),
    row(
        195,
        "bpf_map_lookup_percpu_elem",
        &[Arg::Map, Arg::MapKey, Arg::Scalar],
    )
    .gives(Ret::PercpuValueOrNull)
    .on(PERCPU)
    .takes_packet(),
    row(
        204,
        "bpf_tcp_raw_gen_syncookie_ipv4",
        &[Arg::ReadFixed(20), Arg::ReadMem, Arg::SizeOrZero],
    )
    .takes_packet(),
    row(
        205,
        "bpf_tcp_raw_gen_syncookie_ipv6",
        &[Arg::ReadFixed(40), Arg::ReadMem, Arg::SizeOrZero],
    )
    .takes_packet(),
    row(
        206,
        "bpf_tcp_raw_check_syncookie_ipv4",
        &[Arg::ReadFixed(20), Arg::ReadFixed(20)],
    )
    .takes_packet(),
    row(
        207,
        "bpf_tcp_raw_check_syncookie_ipv6",
        &[Arg::ReadFixed(40), Arg::ReadFixed(20)],
    )
    .takes_packet(),
    row(208, "bpf_ktime_get_tai_ns", &[]),
];

/// The contract of helper `id`, where there is such a helper.
pub fn contract(id: u32) -> Option<&'static Contract> {
    CONTRACTS
        .binary_search_by_key(&id, |c| c.id)
        .ok()
        .map(|i| &CONTRACTS[i])
}

/// A helper that gives a number and does nothing else that concerns the verifier.
pub(crate) const fn row(id: u32, name: &'static str, args: &'static [Arg]) -> Contract {
    Contract {
        id,
        name,
        args,
        ret: Ret::Scalar,
        moves_packet: false,
        takes_packet: false,
        changes_map: false,
        maps: &[],
    }
}

impl Contract {
    const fn gives(mut self, ret: Ret) -> Self {
        self.ret = ret;
        self
    }

    const fn on(mut self, maps: &'static [MapKind]) -> Self {
        self.maps = maps;
        self
    }

    const fn moves_packet(mut self) -> Self {
        self.moves_packet = true;
        self
    }

    pub(crate) const fn takes_packet(mut self) -> Self {
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
                let sized = matches!(
                    arg,
                    Arg::ReadMem
                        | Arg::ReadMemOrNull
                        | Arg::WriteMem
                        | Arg::WriteMemOrNull
                        | Arg::ReadWriteMem
                );
                let size = c.args.get(n + 1);
                let is_size = matches!(size, Some(Arg::Size | Arg::SizeOrZero));
                assert_eq!(sized, is_size, "{} argument {}", c.name, n + 1);
            }
            let map = c.args.contains(&Arg::Map);
            assert_eq!(map, !c.maps.is_empty(), "{}", c.name);
            assert_eq!(contract(c.id).map(|c| c.name), Some(c.name));
        }
        assert!(contract(0).is_none());
    }
}
