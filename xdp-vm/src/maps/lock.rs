//! Values with a `struct bpf_spin_lock` in them: the lock's word is never copied from or to anywhere. An
//! update with [`F_LOCK`] changes the value in place while it holds the lock, so that who holds it too
//! sees all of the change or nothing of it (`copy_map_value_locked`).
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Map, Storage, flags};
use crate::errno::Errno;
use crate::memory;

/// `BPF_F_LOCK`.
pub(crate) const F_LOCK: u64 = 4;
/// Bytes of a lock.
pub(super) const SIZE: usize = 4;
/// Looks at a lock before the thread lets others run: who holds it may have been interrupted.
const SPINS: u32 = 1 << 10;

/// Waits until the lock is free, and takes it.
///
/// # Safety
/// `lock` is an aligned lock in a map value.
pub(crate) unsafe fn take(lock: *mut u8) {
    // SAFETY: the caller's promise.
    let lock = unsafe { AtomicU32::from_ptr(lock.cast()) };
    let mut looks = 0;
    while lock
        .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        looks += 1;
        match looks % SPINS {
            0 => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Frees the lock.
///
/// # Safety
/// As for [`take`], which the caller called.
pub(crate) unsafe fn release(lock: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { AtomicU32::from_ptr(lock.cast()) }.store(0, Ordering::Release);
}

/// Copies a value, its lock at byte `at` left out.
///
/// # Safety
/// Both are values of `size` bytes, with a lock there.
unsafe fn copy(to: *mut u8, from: *const u8, size: usize, at: usize) {
    let rest = at + SIZE;
    // SAFETY: the caller's promise.
    unsafe {
        memory::copy(to, from, at);
        memory::copy(to.add(rest), from.add(rest), size - rest);
    }
}

impl Map {
    /// Sets the value that the key names, of a map whose values have a lock at byte `at`.
    ///
    /// # Safety
    /// A key can be read at `key` and a value at `value`.
    pub(super) unsafe fn update_with_lock(
        &self,
        at: usize,
        key: *const u8,
        value: *const u8,
        flags: u64,
    ) -> Result<(), Errno> {
        let size = self.spec.value_size as usize;
        let (locked, flags) = (flags & F_LOCK != 0, flags & !F_LOCK);
        if flags > flags::EXIST {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's promise; places of values are of the map's value size, and declared
        // with a lock inside them.
        unsafe {
            let in_place = |to: *mut u8| {
                if locked {
                    take(to.add(at));
                }
                copy(to, value, size, at);
                if locked {
                    release(to.add(at));
                }
            };
            match &self.storage {
                Storage::Array(array) => {
                    let index = memory::load32(key) as u32;
                    array.check_update(index, flags)?;
                    in_place(array.value(0, index));
                    Ok(())
                }
                Storage::Hash(hash) => {
                    let there = hash.lookup(0, key);
                    if locked && !there.is_null() {
                        if flags == flags::NOEXIST {
                            return Err(Errno::EEXIST);
                        }
                        in_place(there);
                        return Ok(());
                    }
                    hash.insert_with(key, flags, |to| {
                        copy(to, value, size, at);
                        memory::zero(to.add(at), SIZE);
                    })
                }
                // No other kind is made with a lock.
                _ => Err(Errno::EOPNOTSUPP),
            }
        }
    }

    /// A copy of the value that the key names, made while its lock is held; the lock's bytes are zero.
    ///
    /// # Safety
    /// A key can be read at `key`, and values have a lock at byte `at`.
    pub(super) unsafe fn read_locked(&self, at: usize, key: *const u8) -> Option<Vec<u8>> {
        // SAFETY: the caller's promise; such maps are not per CPU.
        unsafe {
            let value = self.lookup_raw(0, key);
            if value.is_null() {
                return None;
            }
            take(value.add(at));
            let mut copied = memory::to_vec(value, self.spec.value_size as usize);
            release(value.add(at));
            copied[at..at + SIZE].fill(0);
            Some(copied)
        }
    }
}
