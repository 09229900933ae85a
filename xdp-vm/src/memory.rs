//! Access to memory that programs, workers and the user share: map values, packets, the stacks of
//! programs.
//!
//! Programs on several workers and the user read and write the same map values at once, in sizes
//! and at alignments of the program's choosing; the kernel's rules give them what the processor
//! gives. References into such memory would be a lie to the compiler, and plain accesses through
//! pointers a data race. So all access goes through the functions here, which act as relaxed atomics
//! of each byte: on x86-64 a single `mov` in inline assembly (which the compiler can neither split,
//! nor repeat, nor reason about), elsewhere an atomic where the address is aligned and bytes where
//! it is not. What a program could see torn on the kernel, it can see torn here.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

#[cfg(not(target_endian = "little"))]
compile_error!("eBPF objects are little-endian, and so must the machine be that runs them");

/// Alignment of a block's first byte: a cache line, so that per-CPU areas share none.
const ALIGN: usize = 64;

/// Zeroed memory of a map or a stack. Its address holds until it is dropped; pages that are never
/// touched are never taken.
#[derive(Debug)]
pub(crate) struct Block {
    allocation: NonNull<u8>,
    layout: Layout,
    base: NonNull<u8>,
}

// SAFETY: a block is bytes without an owner among threads; all access goes through the functions
// of this module or through atomics.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Takes `size` zeroed bytes; `None` where the system has not that much.
    pub(crate) fn zeroed(size: usize) -> Option<Block> {
        // An alignment that the allocator meets by itself lets it hand out fresh zero pages instead
        // of writing them; the cache line is found by hand.
        let layout = Layout::from_size_align(size.max(1).checked_add(ALIGN)?, 8).ok()?;
        // SAFETY: the layout's size is not zero.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = allocation.as_ptr().align_offset(ALIGN);
        // SAFETY: `skip` is less than `ALIGN`, by which the allocation is longer than `size`.
        let base = unsafe { allocation.add(skip) };
        // Programs keep addresses in plain registers.
        base.as_ptr().expose_provenance();
        Some(Block {
            allocation,
            layout,
            base,
        })
    }

    /// The first byte.
    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout, and freed once.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}

/// A pointer from a program's register.
#[inline(always)]
pub(crate) fn pointer(register: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(register as usize)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod word {
    use std::arch::asm;

    macro_rules! access {
        ($load:ident, $store:ident, $ty:ty, $load_text:literal, $store_text:literal, $class:ident) => {
            /// Reads a value, zero-extended.
            ///
            /// # Safety
            /// The bytes are inside memory that lives and that is accessed through this module.
            #[inline(always)]
            pub(crate) unsafe fn $load(at: *const u8) -> u64 {
                let value: u64;
                // SAFETY: reads bytes that the caller vouches for.
                unsafe {
                    asm!($load_text, value = out(reg) value, at = in(reg) at,
                         options(nostack, preserves_flags, readonly));
                }
                value
            }

            /// Writes the low bytes of a value.
            ///
            /// # Safety
            /// As for the load.
            #[inline(always)]
            pub(crate) unsafe fn $store(at: *mut u8, value: $ty) {
                // SAFETY: writes bytes that the caller vouches for.
                unsafe {
                    asm!($store_text, at = in(reg) at, value = in($class) value,
                         options(nostack, preserves_flags));
                }
            }
        };
    }

    access!(
        load8,
        store8,
        u8,
        "movzx {value:e}, byte ptr [{at}]",
        "mov byte ptr [{at}], {value}",
        reg_byte
    );
    access!(
        load16,
        store16,
        u16,
        "movzx {value:e}, word ptr [{at}]",
        "mov word ptr [{at}], {value:x}",
        reg
    );
    access!(
        load32,
        store32,
        u32,
        "mov {value:e}, dword ptr [{at}]",
        "mov dword ptr [{at}], {value:e}",
        reg
    );
    access!(
        load64,
        store64,
        u64,
        "mov {value}, qword ptr [{at}]",
        "mov qword ptr [{at}], {value}",
        reg
    );
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod word {
    use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

    macro_rules! access {
        ($load:ident, $store:ident, $ty:ty, $atomic:ty) => {
            /// Reads a value, zero-extended.
            ///
            /// # Safety
            /// The bytes are inside memory that lives and that is accessed through this module.
            #[inline(always)]
            pub(crate) unsafe fn $load(at: *const u8) -> u64 {
                let typed = at.cast::<$ty>().cast_mut();
                if typed.is_aligned() {
                    // SAFETY: aligned, and the caller vouches for the rest.
                    return u64::from(unsafe { <$atomic>::from_ptr(typed) }.load(Relaxed));
                }
                let mut bytes = [0; size_of::<$ty>()];
                for (i, byte) in bytes.iter_mut().enumerate() {
                    // SAFETY: inside the value.
                    *byte = unsafe { AtomicU8::from_ptr(at.cast_mut().add(i)) }.load(Relaxed);
                }
                u64::from(<$ty>::from_le_bytes(bytes))
            }

            /// Writes the low bytes of a value.
            ///
            /// # Safety
            /// As for the load.
            #[inline(always)]
            pub(crate) unsafe fn $store(at: *mut u8, value: $ty) {
                let typed = at.cast::<$ty>();
                if typed.is_aligned() {
                    // SAFETY: aligned, and the caller vouches for the rest.
                    return unsafe { <$atomic>::from_ptr(typed) }.store(value, Relaxed);
                }
                for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
                    // SAFETY: inside the value.
                    unsafe { AtomicU8::from_ptr(at.add(i)) }.store(byte, Relaxed);
                }
            }
        };
    }

    access!(load8, store8, u8, AtomicU8);
    access!(load16, store16, u16, AtomicU16);
    access!(load32, store32, u32, AtomicU32);
    access!(load64, store64, u64, AtomicU64);
}

pub(crate) use word::{load8, load16, load32, load64, store8, store16, store32, store64};

/// Copies `len` bytes from the lowest up.
///
/// # Safety
/// Both ranges are inside memory that lives and that is accessed through this module.
#[inline]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    let mut at = 0;
    // SAFETY: `at` stays such that each access is inside `0..len`.
    unsafe {
        while len - at >= 8 {
            store64(to.add(at), load64(from.add(at)));
            at += 8;
        }
        while at < len {
            store8(to.add(at), load8(from.add(at)) as u8);
            at += 1;
        }
    }
}

/// Writes `len` zero bytes.
///
/// # Safety
/// As for [`copy`].
pub(crate) unsafe fn zero(to: *mut u8, len: usize) {
    let mut at = 0;
    // SAFETY: `at` stays such that each access is inside `0..len`.
    unsafe {
        while len - at >= 8 {
            store64(to.add(at), 0);
            at += 8;
        }
        while at < len {
            store8(to.add(at), 0);
            at += 1;
        }
    }
}

/// A copy of `len` bytes.
///
/// # Safety
/// As for [`copy`].
pub(crate) unsafe fn to_vec(from: *const u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // SAFETY: the vector has `len` bytes, and nobody else knows of it.
    unsafe { copy(bytes.as_mut_ptr(), from, len) };
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_every_size_and_alignment() {
        let block = Block::zeroed(64).unwrap();
        assert_eq!(block.base() as usize % ALIGN, 0);
        for shift in 0..8 {
            let at = block.base().wrapping_add(shift);
            // SAFETY: all inside the block.
            unsafe {
                store64(at, 0x8877_6655_4433_2211);
                assert_eq!(load64(at), 0x8877_6655_4433_2211);
                assert_eq!(
                    (load32(at), load16(at), load8(at)),
                    (0x4433_2211, 0x2211, 0x11)
                );
                store32(at, u32::MAX);
                store16(at.add(4), 0xbeef);
                store8(at.add(6), 0xaa);
                assert_eq!(load64(at), 0x88aa_beef_ffff_ffff);
            }
        }
    }

    #[test]
    fn copies_of_every_length() {
        let (a, b) = (Block::zeroed(40).unwrap(), Block::zeroed(40).unwrap());
        for len in 0..33 {
            // SAFETY: all inside the blocks.
            unsafe {
                for i in 0..40 {
                    store8(a.base().add(i), i as u8 + 1);
                }
                zero(b.base(), 40);
                copy(b.base(), a.base(), len);
                let expected: Vec<u8> = (1..=40)
                    .map(|i| if i <= len as u8 { i } else { 0 })
                    .collect();
                assert_eq!(to_vec(b.base(), 40), expected);
            }
        }
    }
}
