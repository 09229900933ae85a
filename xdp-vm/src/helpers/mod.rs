//! The helpers: functions of the VM that programs call by number. What each asks of its arguments is
//! in [`contract`](crate::contract); the verifier has checked it before one of these runs.
#![allow(unsafe_code)]

pub(crate) mod maps;
mod printk;

use crate::buff::XdpBuff;
use crate::cpu::Cpu;
use crate::errno::Errno;

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

/// The helper of that number: one for each row of [`CONTRACTS`](crate::contract::CONTRACTS).
pub(crate) fn helper(id: u32) -> Option<Helper> {
    Some(match id {
        MAP_LOOKUP_ELEM => maps::lookup_elem,
        2 => maps::update_elem,
        3 => maps::delete_elem,
        5 => ktime_get_ns,
        6 => printk::trace_printk,
        7 => get_prandom_u32,
        SMP_PROCESSOR_ID => get_smp_processor_id,
        44 => xdp_adjust_head,
        65 => xdp_adjust_tail,
        _ => return None,
    })
}

unsafe extern "C" fn ktime_get_ns(
    env: &mut Env<'_, '_>,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    env.cpu.now()
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

/// The distance is an `int` in the kernel: the upper half of the register is not looked at.
unsafe extern "C" fn xdp_adjust_head(
    env: &mut Env<'_, '_>,
    _: u64,
    delta: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    outcome(env.buff.adjust_head(delta as i32))
}

/// As above.
unsafe extern "C" fn xdp_adjust_tail(
    env: &mut Env<'_, '_>,
    _: u64,
    delta: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    outcome(env.buff.adjust_tail(delta as i32))
}

fn outcome(result: Result<(), Errno>) -> u64 {
    result.map_or_else(Errno::as_return, |()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::CONTRACTS;

    #[test]
    fn every_contract_has_its_helper() {
        let numbers: Vec<u32> = (0..300).filter(|&id| helper(id).is_some()).collect();
        let contracts: Vec<u32> = CONTRACTS.iter().map(|c| c.id).collect();
        assert_eq!(numbers, contracts);
    }
}
