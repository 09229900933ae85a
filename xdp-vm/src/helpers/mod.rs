//! The helpers: functions of the VM that programs call by number. What each asks of its arguments is
//! in [`contract`](crate::contract); the verifier has checked it before one of these runs.
#![allow(unsafe_code)]

mod csum;
mod events;
mod lock;
pub(crate) mod maps;
pub(crate) mod metadata;
mod network;
pub(crate) mod printk;
mod syncookie;
mod task;
mod text;
mod time;
mod xdp;

use crate::buff::XdpBuff;
use crate::cpu::Cpu;
use crate::errno::Errno;
use crate::kfunc;

/// What a helper works with.
pub(crate) struct Env<'r, 'b> {
    pub(crate) cpu: &'r mut Cpu,
    pub(crate) buff: &'r mut XdpBuff<'b>,
}

/// A helper: r1 to r5 in, r0 out. The calling convention is one that compiled code can follow.
///
/// # Safety
/// The arguments keep the helper's contract, and the slot of the CPU is one that the maps have.
pub(crate) type Helper = unsafe extern "C" fn(&mut Env<'_, '_>, u64, u64, u64, u64, u64) -> u64;

/// Numbers that the engines treat apart.
pub(crate) const MAP_LOOKUP_ELEM: u32 = 1;
pub(crate) const SMP_PROCESSOR_ID: u32 = 8;

/// A jump, which the engines make themselves, with [`maps::tail_call`].
pub(crate) const TAIL_CALL: u32 = 12;

/// The helper of that number: one for each row of [`CONTRACTS`](crate::contract::CONTRACTS) but
/// [`TAIL_CALL`].
pub(crate) fn helper(id: u32) -> Option<Helper> {
    Some(match id {
        MAP_LOOKUP_ELEM => maps::lookup_elem,
        2 => maps::update_elem,
        3 => maps::delete_elem,
        5 => time::ktime_get_ns,
        6 => printk::trace_printk,
        7 => get_prandom_u32,
        SMP_PROCESSOR_ID => get_smp_processor_id,
        14 => task::get_current_pid_tgid,
        15 => task::get_current_uid_gid,
        16 => task::get_current_comm,
        17 => task::get_cgroup_classid,
        22 => events::perf_event_read,
        23 => xdp::redirect,
        25 => events::perf_event_output,
        28 => csum::csum_diff,
        42 => get_numa_node_id,
        44 => xdp::adjust_head,
        51 => xdp::redirect_map,
        54 => xdp::adjust_meta,
        55 => events::perf_event_read_value,
        65 => xdp::adjust_tail,
        69 => network::fib_lookup,
        87 => maps::push_elem,
        88 => maps::pop_elem,
        89 => maps::peek_elem,
        93 => lock::spin_lock,
        94 => lock::spin_unlock,
        105 => text::strtol,
        106 => text::strtoul,
        118 => time::jiffies64,
        120 => task::get_ns_current_pid_tgid,
        125 => time::ktime_get_boot_ns,
        130 => events::ringbuf_output,
        131 => events::ringbuf_reserve,
        132 => events::ringbuf_submit,
        133 => events::ringbuf_discard,
        134 => events::ringbuf_query,
        160 => time::ktime_get_coarse_ns,
        163 => network::check_mtu,
        165 => printk::snprintf,
        177 => printk::trace_vprintk,
        182 => text::strncmp,
        188 => xdp::get_buff_len,
        189 => xdp::load_bytes,
        190 => xdp::store_bytes,
        195 => maps::lookup_percpu_elem,
        204 => syncookie::gen_ipv4,
        205 => syncookie::gen_ipv6,
        206 => syncookie::check_ipv4,
        207 => syncookie::check_ipv6,
        208 => time::ktime_get_tai_ns,
        _ => return None,
    })
}

/// The kernel function that a call with this immediate means: one for each row of
/// [`KFUNCS`](crate::kfunc::KFUNCS).
pub(crate) fn kfunc(immediate: i32) -> Option<Helper> {
    Some(match kfunc::contract(immediate)?.id {
        0 => metadata::rx_timestamp,
        1 => metadata::rx_hash,
        2 => metadata::rx_vlan_tag,
        _ => return None,
    })
}

unsafe extern "C" fn get_prandom_u32(
    env: &mut Env<'_, '_>,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    u64::from(env.cpu.random_u32())
}

unsafe extern "C" fn get_smp_processor_id(
    env: &mut Env<'_, '_>,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    u64::from(env.cpu.slot())
}

/// One node: which memory is near a worker is for whoever made its buffers.
unsafe extern "C" fn get_numa_node_id(
    _: &mut Env<'_, '_>,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    0
}

fn outcome(result: Result<(), Errno>) -> u64 {
    result.map_or_else(Errno::as_return, |()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::CONTRACTS;
    use crate::kfunc::KFUNCS;

    #[test]
    fn every_contract_has_its_helper() {
        let numbers: Vec<u32> = (0..300).filter(|&id| helper(id).is_some()).collect();
        let contracts: Vec<u32> = CONTRACTS
            .iter()
            .map(|c| c.id)
            .filter(|&id| id != TAIL_CALL)
            .collect();
        assert_eq!(numbers, contracts);
        for row in KFUNCS {
            let immediate = kfunc::immediate(row.name).unwrap();
            assert!(kfunc(immediate).is_some(), "{}", row.name);
        }
    }
}
