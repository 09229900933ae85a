//! Who runs: the numbers and the name of the thread. In the kernel that is whichever task the packet
//! interrupts; here it is the worker.

use super::Env;
use crate::errno::Errno;
use crate::memory::{self, pointer};

/// Bytes of a thread's name with its zero (`TASK_COMM_LEN`).
const COMM: usize = 16;

/// Bytes of `struct bpf_pidns_info`: the thread and the process, 4 bytes each.
const PID_INFO: usize = 8;

/// The process in the upper half, the thread in the lower.
pub(super) unsafe extern "C" fn get_current_pid_tgid(
    _: &mut Env<'_, '_>,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    let (process, thread) = ids();
    u64::from(process) << 32 | u64::from(thread)
}

/// The group in the upper half, the user in the lower.
pub(super) unsafe extern "C" fn get_current_uid_gid(
    _: &mut Env<'_, '_>,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    // SAFETY: neither touches memory.
    let (group, user) = unsafe { (libc::getgid(), libc::getuid()) };
    u64::from(group) << 32 | u64::from(user)
}

/// The thread's name, with zeros behind it, cut to leave one.
pub(super) unsafe extern "C" fn get_current_comm(
    _: &mut Env<'_, '_>,
    to: u64,
    size: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    let size = size as u32 as usize;
    let mut name = [0u8; COMM];
    // SAFETY: the call writes 16 bytes, which there are. `size` bytes can be written at `to` by the
    // contract.
    unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        memory::zero(pointer(to), size);
        let len = name.iter().position(|&b| b == 0).unwrap_or(COMM);
        memory::copy(pointer(to), name.as_ptr(), len.min(size - 1));
    }
    0
}

/// No class: a worker's control group gives its packets none.
pub(super) unsafe extern "C" fn get_cgroup_classid(
    _: &mut Env<'_, '_>,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    0
}

/// The numbers as the process namespace has them that is named by its device and inode, which must be
/// the worker's own.
pub(super) unsafe extern "C" fn get_ns_current_pid_tgid(
    _: &mut Env<'_, '_>,
    device: u64,
    inode: u64,
    to: u64,
    size: u64,
    _: u64,
) -> u64 {
    let size = size as u32 as usize;
    // SAFETY: the contract: `size` bytes can be written.
    unsafe { memory::zero(pointer(to), size) };
    if size != PID_INFO || namespace() != Some((device, inode)) {
        return Errno::EINVAL.as_return();
    }
    let (process, thread) = ids();
    // SAFETY: as above, and they are eight.
    unsafe {
        memory::store32(pointer(to), thread);
        memory::store32(pointer(to).add(4), process);
    }
    0
}

/// Process and thread.
fn ids() -> (u32, u32) {
    // SAFETY: neither touches memory.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    (process.cast_unsigned(), thread.cast_unsigned())
}

/// Device and inode of the worker's process namespace.
fn namespace() -> Option<(u64, u64)> {
    // SAFETY: all zeros is a value of the structure, which the call fills; the path ends in a zero.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        let path = c"/proc/self/ns/pid".as_ptr();
        (libc::stat(path, &mut stat) == 0).then_some((stat.st_dev, stat.st_ino))
    }
}
