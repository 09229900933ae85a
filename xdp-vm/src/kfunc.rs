//! Functions of the kernel that programs call by name (`extern ... __ksym`): what each asks of its
//! arguments, as [`contract`](crate::contract) has it for helpers. The loader turns a name into a number
//! here; a name that is not here is refused where the call is reached.

use crate::contract::{Arg, Contract, row};

/// Marks the immediate of a call of kind [`call::KFUNC`](crate::insn::call::KFUNC) as a row's number;
/// without it, it is the index of a name in [`Program::kfuncs`](crate::Program::kfuncs).
const KNOWN: i32 = 1 << 30;

/// The functions that there are, each at the index of its `id`.
pub const KFUNCS: &[Contract] = &[
    // What they give is written only where there is something: so the memory is the program's before.
    row(
        0,
        "bpf_xdp_metadata_rx_timestamp",
        &[Arg::Context, Arg::ReadWriteFixed(8)],
    )
    .takes_packet(),
    row(
        1,
        "bpf_xdp_metadata_rx_hash",
        &[Arg::Context, Arg::ReadWriteFixed(4), Arg::ReadWriteFixed(4)],
    )
    .takes_packet(),
    row(
        2,
        "bpf_xdp_metadata_rx_vlan_tag",
        &[Arg::Context, Arg::ReadWriteFixed(2), Arg::ReadWriteFixed(2)],
    )
    .takes_packet(),
];

/// Number of the row that every function of a packet's metadata is below.
const METADATA: u32 = 3;

/// The immediate of a call of the function `name`, where there is such a function.
pub(crate) fn immediate(name: &str) -> Option<i32> {
    let row = KFUNCS.iter().find(|row| row.name == name)?;
    Some(KNOWN | row.id as i32)
}

/// The contract that a call with this immediate must keep.
pub(crate) fn contract(immediate: i32) -> Option<&'static Contract> {
    KFUNCS.get(usize::try_from(immediate ^ KNOWN).ok()?)
}

/// True where the function asks for what the device said of the packet.
pub(crate) fn reads_metadata(immediate: i32) -> bool {
    contract(immediate).is_some_and(|row| row.id < METADATA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_name_and_by_number() {
        for (n, row) in KFUNCS.iter().enumerate() {
            assert_eq!(row.id as usize, n);
            let immediate = immediate(row.name).unwrap();
            assert_eq!(contract(immediate).map(|c| c.name), Some(row.name));
        }
        for stranger in [0, 1, -1, i32::MIN, i32::MAX, KNOWN | KFUNCS.len() as i32] {
            assert!(contract(stranger).is_none(), "{stranger:#x}");
        }
        assert!(immediate("bpf_nothing").is_none());
    }
}
