//! Where a program sends its packet: what `bpf_redirect` and `bpf_redirect_map` leave with the worker
//! for whoever acts on the verdict. The virtual machine knows no devices: what the numbers mean is the
//! caller's affair.

use crate::MapKind;

/// The target of a verdict of 4 (redirect).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// An interface (`bpf_redirect`). There may be none of that number.
    Interface {
        /// Its number.
        ifindex: u32,
    },
    /// An entry of a map (`bpf_redirect_map`).
    Entry {
        /// The map, as an index for [`Maps::at`](crate::Maps::at).
        map: u32,
        /// Its kind: a devmap, a cpumap or an xskmap.
        kind: MapKind,
        /// The entry's key.
        key: u32,
        /// The entry's value when the program asked: of a devmap the interface, of a cpumap the
        /// queue's size, of an xskmap the socket; then the number of the entry's program, 0 for none.
        value: [u32; 2],
    },
    /// All entries of a devmap (`BPF_F_BROADCAST`).
    Broadcast {
        /// The map, as an index for [`Maps::at`](crate::Maps::at).
        map: u32,
        /// Not to the interface that the packet came in by (`BPF_F_EXCLUDE_INGRESS`).
        exclude_ingress: bool,
    },
}
