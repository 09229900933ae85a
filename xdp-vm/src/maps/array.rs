//! Arrays and per-CPU arrays: one block of values, found by a multiplication, without a lock. An
//! entry is always there; it can be overwritten and not deleted.
#![allow(unsafe_code)]

use super::layout::Layout;
use crate::errno::Errno;
use crate::memory::{self, Block};
use crate::{MapSpec, maps::flags};

/// What finds a value of an array: it is at `base + index * value_stride + cpu * cpu_stride`.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) struct ArrayShape {
    pub(crate) base: *mut u8,
    pub(crate) value_stride: usize,
    /// Zero where all CPUs share the values.
    pub(crate) cpu_stride: usize,
    pub(crate) entries: u32,
}

/// The values of an array, of all CPUs.
#[derive(Debug)]
pub(crate) struct Array {
    base: *mut u8,
    value_stride: usize,
    /// Zero where all CPUs share the values, so that one formula serves both kinds.
    cpu_stride: usize,
    entries: u32,
    value_size: usize,
    /// Keeps the memory at `base`.
    _block: Block,
}

// SAFETY: `base` points into the block, which is `Send` and `Sync`.
unsafe impl Send for Array {}
// SAFETY: as above.
unsafe impl Sync for Array {}

impl Array {
    /// `None` where memory is short.
    pub(super) fn new(spec: &MapSpec, layout: &Layout) -> Option<Self> {
        let block = Block::zeroed(layout.values as usize)?;
        let base = block.base();
        if let Some(initial) = &spec.initial {
            // SAFETY: checked to be no longer than the only value.
            unsafe { memory::copy(base, initial.as_ptr(), initial.len()) };
        }
        Some(Array {
            base,
            value_stride: layout.value_stride as usize,
            cpu_stride: layout.cpu_stride as usize,
            entries: spec.max_entries,
            value_size: spec.value_size as usize,
            _block: block,
        })
    }

    /// What compiled code finds values by.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) fn shape(&self) -> ArrayShape {
        ArrayShape {
            base: self.base,
            value_stride: self.value_stride,
            cpu_stride: self.cpu_stride,
            entries: self.entries,
        }
    }

    /// The value of entry `index` on `cpu`, or null past the end. `cpu` must be one that the map was
    /// made for.
    #[inline(always)]
    pub(crate) fn value(&self, cpu: u32, index: u32) -> *mut u8 {
        if index >= self.entries {
            return std::ptr::null_mut();
        }
        let offset = index as usize * self.value_stride + cpu as usize * self.cpu_stride;
        self.base.wrapping_add(offset)
    }

    /// The value that the key at `key` names, or null.
    ///
    /// # Safety
    /// Four bytes at `key` can be read; `cpu` is one that the map was made for.
    #[inline(always)]
    pub(crate) unsafe fn lookup(&self, cpu: u32, key: *const u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        let index = unsafe { memory::load32(key) } as u32;
        self.value(cpu, index)
    }

    /// Overwrites an entry on `cpu`.
    ///
    /// # Safety
    /// As for [`Array::lookup`], and a value can be read at `value`.
    pub(super) unsafe fn update(
        &self,
        cpu: u32,
        key: *const u8,
        value: *const u8,
        flags: u64,
    ) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let index = unsafe { memory::load32(key) } as u32;
        self.check_update(index, flags)?;
        // SAFETY: inside the values, since the index is; the caller's promise.
        unsafe { memory::copy(self.value(cpu, index), value, self.value_size) };
        Ok(())
    }

    /// The checks of an update, in the kernel's order.
    pub(super) fn check_update(&self, index: u32, flags: u64) -> Result<(), Errno> {
        if flags > flags::EXIST {
            return Err(Errno::EINVAL);
        }
        if index >= self.entries {
            return Err(Errno::E2BIG);
        }
        if flags == flags::NOEXIST {
            return Err(Errno::EEXIST);
        }
        Ok(())
    }
}
