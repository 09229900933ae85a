//! Helpers that ask the host's network, as far as the worker was given one.

use super::Env;
use crate::errno::Errno;
use crate::memory::{self, pointer};
use crate::network::{AF_INET, AF_INET6, ETHERNET, FibQuery};

/// `BPF_FIB_LOOKUP_DIRECT` to `BPF_FIB_LOOKUP_MARK`.
const FIB_FLAGS: u64 = 0x3f;

const FRAGMENTATION_NEEDED: u64 = 1;

pub(super) unsafe extern "C" fn fib_lookup(
    env: &mut Env<'_, '_>,
    _: u64,
    params: u64,
    size: u64,
    flags: u64,
    _: u64,
) -> u64 {
    if (size as u32 as usize) < FibQuery::SIZE || flags & 0xffff_ffff & !FIB_FLAGS != 0 {
        return Errno::EINVAL.as_return();
    }
    let mut bytes = [0; FibQuery::SIZE];
    // SAFETY: the contract: `size` bytes can be read, which are enough.
    unsafe { memory::copy(bytes.as_mut_ptr(), pointer(params), bytes.len()) };
    let mut query = FibQuery::from_bytes(&bytes);
    if ![AF_INET, AF_INET6].contains(&query.family) {
        return Errno::EAFNOSUPPORT.as_return();
    }
    let Some(network) = env.cpu.network() else {
        return Errno::ENODEV.as_return();
    };
    match network.fib_lookup(&mut query, flags as u32) {
        Ok(result) => {
            let bytes = query.to_bytes();
            // SAFETY: the contract: the same bytes can be written.
            unsafe { memory::copy(pointer(params), bytes.as_ptr(), bytes.len()) };
            u64::from(result as u32)
        }
        Err(errno) => errno.as_return(),
    }
}

/// The packet, longer by `difference`, or one of the length in `mtu_len` from its IP header on, on an
/// interface; 0 for that which it came in by.
pub(super) unsafe extern "C" fn check_mtu(
    env: &mut Env<'_, '_>,
    _: u64,
    ifindex: u64,
    mtu_len: u64,
    difference: u64,
    flags: u64,
) -> u64 {
    if flags != 0 {
        return Errno::EINVAL.as_return();
    }
    let ifindex = match ifindex as u32 {
        0 => env.buff.ingress_ifindex(),
        ifindex => ifindex,
    };
    let Some(mtu) = env.cpu.network().and_then(|network| network.mtu(ifindex)) else {
        return Errno::ENODEV.as_return();
    };
    // SAFETY: the contract: four bytes that can be read and written.
    let asked = unsafe { memory::load32(pointer(mtu_len)) };
    let len = match asked {
        0 => env.buff.total_len() as i64,
        asked => asked as i64 + i64::from(ETHERNET),
    };
    let fits = len + i64::from(difference as i32) <= i64::from(mtu) + i64::from(ETHERNET);
    // SAFETY: as above.
    unsafe { memory::store32(pointer(mtu_len), mtu) };
    if fits { 0 } else { FRAGMENTATION_NEEDED }
}
