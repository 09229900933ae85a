//! The elements of a hash: one block of them, those that nobody uses on a stack.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::layout;
use super::lru::FREE;
use super::{Hash, Values};

/// The start of an element; key and value follow.
#[repr(C)]
pub(super) struct Element {
    pub(super) next: AtomicU32,
    pub(super) hash: AtomicU32,
    pub(super) version: AtomicU32,
    pub(super) next_free: AtomicU32,
}

const _: () = assert!(size_of::<Element>() as u64 == layout::HEADER);

impl Hash {
    /// An element that nobody uses.
    pub(super) fn take(&self) -> Option<u32> {
        let mut free = self.free.load(Ordering::Acquire);
        while free as u32 != 0 {
            let element = free as u32 - 1;
            let next = self.element(element).next_free.load(Ordering::Relaxed);
            let changed = (free >> 32).wrapping_add(1) << 32 | u64::from(next);
            match self.free.compare_exchange_weak(
                free,
                changed,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(element),
                Err(now) => free = now,
            }
        }
        self.fresh
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < self.total).then_some(n + 1)
            })
            .ok()
    }

    /// Gives an element back.
    pub(super) fn release(&self, element: u32) {
        if let Some(lru) = &self.lru {
            lru.mark(element).store(FREE, Ordering::Relaxed);
        }
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            self.element(element)
                .next_free
                .store(free as u32, Ordering::Relaxed);
            let changed = (free >> 32).wrapping_add(1) << 32 | u64::from(element + 1);
            match self.free.compare_exchange_weak(
                free,
                changed,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => free = now,
            }
        }
    }

    #[inline(always)]
    pub(super) fn element(&self, number: u32) -> &Element {
        // SAFETY: numbers come from `take`, so it is inside the block; the first bytes of an element
        // are aligned to 8, zeroed at first, and only accessed as this.
        unsafe {
            &*self
                .elements
                .base()
                .add(self.offset(number))
                .cast::<Element>()
        }
    }

    #[inline(always)]
    pub(super) fn key(&self, number: u32) -> *mut u8 {
        let offset = self.offset(number) + layout::HEADER as usize;
        self.elements.base().wrapping_add(offset)
    }

    #[inline(always)]
    pub(super) fn value(&self, cpu: u32, number: u32) -> *mut u8 {
        match &self.values {
            Values::Inside(at) => self.elements.base().wrapping_add(self.offset(number) + at),
            Values::Percpu {
                block,
                cpu_stride,
                value_stride,
                ..
            } => block
                .base()
                .wrapping_add(cpu as usize * cpu_stride + number as usize * value_stride),
        }
    }

    #[inline(always)]
    fn offset(&self, number: u32) -> usize {
        number as usize * self.element_stride
    }
}
