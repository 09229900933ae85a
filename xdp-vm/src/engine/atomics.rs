//! Atomic operations on memory of programs: sequentially consistent, as the instruction set has them
//! where they fetch.
//!
//! At an address that is not a multiple of the width, which no compiler makes and most processors
//! refuse, the operation is done in steps that others may see between.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::memory;

/// What an operation does to the value; all give the old one back.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Add,
    Or,
    And,
    Xor,
    Exchange,
}

macro_rules! width {
    ($change:ident, $compare:ident, $ty:ty, $atomic:ty, $load:ident, $store:ident) => {
        /// Changes the value at `at` and gives the old one.
        ///
        /// # Safety
        /// The bytes are inside memory that lives.
        #[inline(always)]
        pub(super) unsafe fn $change(at: *mut u8, change: Change, operand: $ty) -> $ty {
            let typed = at.cast::<$ty>();
            // SAFETY: the caller's promise; aligned where it is accessed as an atomic.
            unsafe {
                if typed.is_aligned() {
                    let value = <$atomic>::from_ptr(typed);
                    return match change {
                        Change::Add => value.fetch_add(operand, SeqCst),
                        Change::Or => value.fetch_or(operand, SeqCst),
                        Change::And => value.fetch_and(operand, SeqCst),
                        Change::Xor => value.fetch_xor(operand, SeqCst),
                        Change::Exchange => value.swap(operand, SeqCst),
                    };
                }
                let old = memory::$load(at) as $ty;
                let new = match change {
                    Change::Add => old.wrapping_add(operand),
                    Change::Or => old | operand,
                    Change::And => old & operand,
                    Change::Xor => old ^ operand,
                    Change::Exchange => operand,
                };
                memory::$store(at, new);
                old
            }
        }

        /// Writes `new` at `at` where `expected` is there, and gives what was there.
        ///
        /// # Safety
        /// The bytes are inside memory that lives.
        #[inline(always)]
        pub(super) unsafe fn $compare(at: *mut u8, expected: $ty, new: $ty) -> $ty {
            let typed = at.cast::<$ty>();
            // SAFETY: the caller's promise; aligned where it is accessed as an atomic.
            unsafe {
                if typed.is_aligned() {
                    return match <$atomic>::from_ptr(typed)
                        .compare_exchange(expected, new, SeqCst, SeqCst)
                    {
                        Ok(old) | Err(old) => old,
                    };
                }
                let old = memory::$load(at) as $ty;
                if old == expected {
                    memory::$store(at, new);
                }
                old
            }
        }
    };
}

width!(change64, compare64, u64, AtomicU64, load64, store64);
width!(change32, compare32, u32, AtomicU32, load32, store32);
