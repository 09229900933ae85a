//! What the device said of the packet (`bpf_xdp_metadata_rx_hash` and kin): the functions of XDP hints.

use super::{Env, outcome};
use crate::errno::Errno;
use crate::memory::{self, pointer};
use crate::metadata::Metadata;

/// Nanoseconds of the device's clock at which the packet came in.
pub(super) unsafe extern "C" fn rx_timestamp(
    env: &mut Env<'_, '_>,
    _: u64,
    to: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    outcome(metadata(env).and_then(Metadata::timestamp).map(|ns| {
        // SAFETY: the contract: eight bytes that can be written.
        unsafe { memory::store64(pointer(to), ns) };
    }))
}

/// The hash that chose the queue, and what it covers.
pub(super) unsafe extern "C" fn rx_hash(
    env: &mut Env<'_, '_>,
    _: u64,
    hash: u64,
    kind: u64,
    _: u64,
    _: u64,
) -> u64 {
    outcome(metadata(env).and_then(Metadata::hash).map(|found| {
        // SAFETY: the contract: four bytes each that can be written.
        unsafe {
            memory::store32(pointer(hash), found.value);
            memory::store32(pointer(kind), found.covers);
        }
    }))
}

/// The VLAN tag that the device took out: its protocol, in network order, and its fields.
pub(super) unsafe extern "C" fn rx_vlan_tag(
    env: &mut Env<'_, '_>,
    _: u64,
    protocol: u64,
    tag: u64,
    _: u64,
    _: u64,
) -> u64 {
    outcome(metadata(env).and_then(Metadata::vlan_tag).map(|found| {
        // SAFETY: the contract: two bytes each that can be written.
        unsafe {
            memory::store16(pointer(protocol), found.protocol.to_be());
            memory::store16(pointer(tag), found.tag);
        }
    }))
}

fn metadata<'b>(env: &Env<'_, 'b>) -> Result<&'b dyn Metadata, Errno> {
    env.buff.metadata().ok_or(Errno::EOPNOTSUPP)
}
