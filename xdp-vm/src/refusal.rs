//! Helpers that the kernel lets XDP programs call and that mean nothing here, each with the reason and
//! what to do instead. What is neither here nor in [`contract`](crate::contract) is a helper that the
//! kernel refuses too.

/// A helper that is refused by name.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Number in a call instruction; 0 of kernel functions, which have names only.
    pub id: u32,
    /// Name, as the kernel has it.
    pub name: &'static str,
    /// Why it cannot be.
    pub reason: &'static str,
    /// What the program can do instead.
    pub remedy: &'static str,
}

/// The refusal of helper `id`, where it is refused by name.
pub fn helper(id: u32) -> Option<&'static Refusal> {
    REFUSED.iter().find(|r| r.id == id)
}

/// The refusal of a kernel function, where it is refused by name.
pub fn kfunc(name: &str) -> Option<&'static Refusal> {
    REFUSED_KFUNCS.iter().find(|r| r.name == name)
}

macro_rules! refused {
    ($reason:literal, $remedy:literal: $($id:literal $name:literal),+ $(,)?) => {
        &[$(Refusal { id: $id, name: $name, reason: $reason, remedy: $remedy }),+]
    };
}

/// Every helper that is refused by name, by reason.
pub const REFUSED: Groups = Groups(&[
    refused!("there is no kernel task here whose structure it could give",
        "ask for numbers and names instead (`bpf_get_current_pid_tgid`, `bpf_get_current_comm`)":
        35 "bpf_get_current_task",
        141 "bpf_get_task_stack",
        158 "bpf_get_current_task_btf",
        175 "bpf_task_pt_regs",
        180 "bpf_find_vma",
    ),
    refused!("it reads memory that is not the program's by address, past what is proven",
        "read the packet, map values and the context directly: they need no probe":
        112 "bpf_probe_read_user",
        113 "bpf_probe_read_kernel",
        114 "bpf_probe_read_user_str",
        115 "bpf_probe_read_kernel_str",
    ),
    refused!("it may sleep, which no XDP program may",
        "let the user put the data into a map":
        148 "bpf_copy_from_user",
        191 "bpf_copy_from_user_task",
    ),
    refused!("a packet belongs to no task, and so to no control group",
        "let the user put what it knows of the group into a map":
        37 "bpf_current_task_under_cgroup",
        80 "bpf_get_current_cgroup_id",
        123 "bpf_get_current_ancestor_cgroup_id",
    ),
    refused!("storage hangs on tasks and groups of the kernel, which are not here",
        "use a hash map with a key of your own":
        156 "bpf_task_storage_get",
        157 "bpf_task_storage_delete",
        210 "bpf_cgrp_storage_get",
        211 "bpf_cgrp_storage_delete",
    ),
    refused!("the signal would go to whichever task the packet happens to interrupt",
        "tell the user by a ring buffer":
        109 "bpf_send_signal",
        117 "bpf_send_signal_thread",
    ),
    refused!("there is no socket of a kernel here whose structure it could give",
        "look addresses and ports up in a map that the user keeps":
        136 "bpf_skc_to_tcp6_sock",
        137 "bpf_skc_to_tcp_sock",
        138 "bpf_skc_to_tcp_timewait_sock",
        139 "bpf_skc_to_tcp_request_sock",
        140 "bpf_skc_to_udp6_sock",
        178 "bpf_skc_to_unix_sock",
        196 "bpf_skc_to_mptcp_sock",
    ),
    refused!("it takes a listening socket of a kernel, which is not here",
        "use `bpf_tcp_raw_check_syncookie_ipv4`, `bpf_tcp_raw_gen_syncookie_ipv4` and their kin for IPv6: they need none":
        100 "bpf_tcp_check_syncookie",
        110 "bpf_tcp_gen_syncookie",
    ),
    refused!("it takes a variable or a type of the kernel, which is not here",
        "keep the numbers in a per-CPU map, and print fields one by one":
        149 "bpf_snprintf_btf",
        153 "bpf_per_cpu_ptr",
        154 "bpf_this_cpu_ptr",
    ),
    refused!("it reads the processor's record of branches, which is the machine's and not the program's",
        "measure from outside, with perf":
        176 "bpf_get_branch_snapshot",
    ),
]);

/// Every kernel function that is refused by name, by reason; none has a number. A weak one is not
/// refused: its address is null, and a program that asks first does without it.
pub const REFUSED_KFUNCS: Groups = Groups(&[
    refused!("the kernel's flow tables are not here",
        "keep flows in a hash map, or declare it `__weak` and do without where its address is null":
        0 "bpf_xdp_flow_lookup",
    ),
    refused!("the kernel's table of connections is not here",
        "keep connections in a hash map, or declare it `__weak` and do without where its address is null":
        0 "bpf_xdp_ct_lookup",
        0 "bpf_xdp_ct_alloc",
        0 "bpf_skb_ct_lookup",
        0 "bpf_skb_ct_alloc",
        0 "bpf_ct_insert_entry",
        0 "bpf_ct_release",
        0 "bpf_ct_set_timeout",
        0 "bpf_ct_change_timeout",
        0 "bpf_ct_set_status",
        0 "bpf_ct_change_status",
        0 "bpf_ct_set_nat_info",
    ),
    refused!("the kernel's table of IPsec states is not here",
        "keep what the program needs of a state in a hash map":
        0 "bpf_xdp_get_xfrm_state",
        0 "bpf_xdp_xfrm_state_release",
    ),
]);

/// Rows, several a reason.
#[derive(Clone, Copy, Debug)]
pub struct Groups(&'static [&'static [Refusal]]);

impl Groups {
    /// Every row.
    pub fn iter(&self) -> impl Iterator<Item = &'static Refusal> {
        self.0.iter().copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::contract;

    #[test]
    fn nothing_is_refused_twice_or_there_and_refused() {
        let mut ids: Vec<u32> = REFUSED.iter().map(|r| r.id).collect();
        let number = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), number);
        for refused in REFUSED.iter() {
            assert!(contract(refused.id).is_none(), "{}", refused.name);
            assert_eq!(helper(refused.id).map(|r| r.name), Some(refused.name));
        }
        assert!(helper(0).is_none());
        for refused in REFUSED_KFUNCS.iter() {
            assert_eq!(kfunc(refused.name).map(|r| r.name), Some(refused.name));
            assert!(crate::kfunc::immediate(refused.name).is_none());
        }
    }
}
