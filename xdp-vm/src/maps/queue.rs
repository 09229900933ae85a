//! Queues and stacks: values without keys, one lock. Programs get copies, never addresses.
#![allow(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::flags;
use super::layout::Layout;
use crate::errno::Errno;
use crate::memory::{self, Block};
use crate::{MapKind, MapSpec};

/// Values in a circle.
#[derive(Debug)]
pub(crate) struct Queue {
    values: Block,
    stride: usize,
    value_size: usize,
    slots: u32,
    /// The last in is the first out.
    stack: bool,
    held: Mutex<Held>,
}

/// Which slots hold values.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// The oldest.
    first: u32,
    count: u32,
}

impl Queue {
    /// `None` where memory is short.
    pub(super) fn new(spec: &MapSpec, layout: &Layout) -> Option<Self> {
        Some(Queue {
            values: Block::zeroed(layout.values as usize)?,
            stride: layout.value_stride as usize,
            value_size: spec.value_size as usize,
            slots: spec.max_entries,
            stack: spec.kind == MapKind::Stack,
            held: Mutex::default(),
        })
    }

    /// Adds a value. Where there is no room, `EXIST` lets it take the oldest one's place.
    ///
    /// # Safety
    /// A value can be read at `value`.
    pub(super) unsafe fn push(&self, value: *const u8, flags: u64) -> Result<(), Errno> {
        if flags != 0 && flags != flags::EXIST {
            return Err(Errno::EINVAL);
        }
        let mut held = self.lock();
        if held.count == self.slots {
            if flags != flags::EXIST {
                return Err(Errno::E2BIG);
            }
            held.first = self.after(held.first, 1);
            held.count -= 1;
        }
        let to = self.value(self.after(held.first, held.count));
        // SAFETY: a slot's value; the caller's promise.
        unsafe { memory::copy(to, value, self.value_size) };
        held.count += 1;
        Ok(())
    }

    /// Copies the next value to `to`, and takes it out where `remove`. Where there is none, `to` is
    /// zeroed.
    ///
    /// # Safety
    /// A value can be written at `to`.
    pub(super) unsafe fn take(&self, to: *mut u8, remove: bool) -> Result<(), Errno> {
        let mut held = self.lock();
        if held.count == 0 {
            // SAFETY: the caller's promise.
            unsafe { memory::zero(to, self.value_size) };
            return Err(Errno::ENOENT);
        }
        let slot = match self.stack {
            true => self.after(held.first, held.count - 1),
            false => held.first,
        };
        // SAFETY: a slot's value; the caller's promise.
        unsafe { memory::copy(to, self.value(slot), self.value_size) };
        if remove {
            held.count -= 1;
            if !self.stack {
                held.first = self.after(held.first, 1);
            }
        }
        Ok(())
    }

    /// Values that there are.
    pub(super) fn len(&self) -> u32 {
        self.lock().count
    }

    /// The slot `by` after `slot`, round the end.
    fn after(&self, slot: u32, by: u32) -> u32 {
        ((u64::from(slot) + u64::from(by)) % u64::from(self.slots)) as u32
    }

    fn value(&self, slot: u32) -> *mut u8 {
        self.values.base().wrapping_add(slot as usize * self.stride)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
