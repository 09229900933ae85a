//! Which helpers there are: the kernel's list for XDP, asked of its verifier, against ours.

use xdp_vm::contract::contract;
use xdp_vm::refusal;

use crate::{asm, kernel};

/// Past the highest number of a helper that a kernel has (211 since 6.3: newer functions are kfuncs).
const NUMBERS: std::ops::Range<u32> = 1..240;

/// Numbers that kernel 6.18 lets XDP programs call: what holds where the kernel may not be asked.
const OF_6_18: [u32; 104] = [
    1, 2, 3, 5, 6, 7, 8, 12, 14, 15, 16, 17, 22, 23, 25, 28, 35, 37, 42, 44, 51, 54, 55, 65, 69,
    80, 84, 85, 86, 87, 88, 89, 93, 94, 99, 100, 105, 106, 109, 110, 112, 113, 114, 115, 117, 118,
    120, 123, 125, 130, 131, 132, 133, 134, 136, 137, 138, 139, 140, 141, 148, 149, 153, 154, 156,
    157, 158, 160, 163, 164, 165, 169, 170, 171, 172, 175, 176, 177, 178, 180, 181, 182, 188, 189,
    190, 191, 194, 195, 196, 197, 198, 199, 200, 201, 202, 203, 204, 205, 206, 207, 208, 209, 210,
    211,
];

/// What is neither here nor refused by a reason: references (sockets), timers, dynptrs
/// and callbacks, which the verifier does not follow yet.
const LATER: [u32; 19] = [
    84, 85, 86, 99, 164, 169, 170, 171, 172, 181, 194, 197, 198, 199, 200, 201, 202, 203, 209,
];

/// True where the kernel's verifier knows the helper and lets XDP programs call it, whatever it then
/// says of the arguments.
fn kernel_has(id: u32) -> bool {
    let program = asm::program(&format!("call {id}\n r0 = 0\n exit"));
    match kernel::ask(&program, &[]).unwrap() {
        kernel::Opinion::Accepted { .. } => true,
        kernel::Opinion::Refused(log) => {
            let unknown = ["cannot use helper", "unknown func", "invalid func"];
            !unknown.iter().any(|words| log.contains(words))
        }
    }
}

#[test]
fn every_helper_of_the_kernel_is_here_or_refused_by_name() {
    let ids: Vec<u32> = if kernel::may_be_asked() {
        NUMBERS.filter(|&id| kernel_has(id)).collect()
    } else {
        OF_6_18.to_vec()
    };
    let missing: Vec<u32> = ids
        .iter()
        .copied()
        .filter(|&id| contract(id).is_none() && refusal::helper(id).is_none())
        .filter(|id| !LATER.contains(id))
        .collect();
    assert_eq!(missing, [], "neither a contract nor a refusal");
    // What the kernel here does not let XDP programs call, a later one does, or an earlier one did.
    for id in NUMBERS.filter(|id| !OF_6_18.contains(id)) {
        assert!(contract(id).is_none(), "{id} is no helper of XDP");
        assert!(refusal::helper(id).is_none(), "{id} is no helper of XDP");
    }
}
