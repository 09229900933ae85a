//! Bloom filters: whether a value was surely never added, or perhaps was.
#![allow(unsafe_code)]

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::{self, Layout, ZERO_SEED};
use crate::MapSpec;
use crate::errno::Errno;
use crate::memory::{self, Block};

/// A filter. Bits are set and never cleared.
#[derive(Debug)]
pub(crate) struct Bloom {
    words: Block,
    /// Bits less one.
    mask: u64,
    hashes: u64,
    seed: u64,
    value_size: usize,
}

impl Bloom {
    /// `None` where memory is short.
    pub(super) fn new(spec: &MapSpec, layout: &Layout) -> Option<Self> {
        Some(Bloom {
            words: Block::zeroed(layout.values as usize)?,
            mask: layout.values * 8 - 1,
            hashes: layout::bloom_hashes(spec),
            seed: match spec.flags & ZERO_SEED {
                0 => RandomState::new().hash_one(&spec.name),
                _ => 0,
            },
            value_size: spec.value_size as usize,
        })
    }

    /// Adds a value.
    ///
    /// # Safety
    /// A value can be read at `value`.
    pub(super) unsafe fn push(&self, value: *const u8, flags: u64) -> Result<(), Errno> {
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's promise.
        let hash = unsafe { self.hash(value) };
        for n in 0..self.hashes {
            let (word, bit) = self.bit(hash, n);
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(())
    }

    /// `ENOENT` where the value was never added.
    ///
    /// # Safety
    /// A value can be read at `value`.
    pub(super) unsafe fn peek(&self, value: *const u8) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let hash = unsafe { self.hash(value) };
        let all = (0..self.hashes).all(|n| {
            let (word, bit) = self.bit(hash, n);
            word.load(Ordering::Relaxed) & bit != 0
        });
        if all { Ok(()) } else { Err(Errno::ENOENT) }
    }

    /// The word and the bit of function `n`: two halves of one hash, added up (Kirsch and
    /// Mitzenmacher).
    fn bit(&self, hash: u64, n: u64) -> (&AtomicU64, u64) {
        let step = hash.rotate_left(32) | 1;
        let bit = hash.wrapping_add(n.wrapping_mul(step)) & self.mask;
        let offset = (bit / 64 * 8) as usize;
        // SAFETY: inside the block, since the bit is masked; aligned, as the block is.
        let word = unsafe { AtomicU64::from_ptr(self.words.base().add(offset).cast()) };
        (word, 1 << (bit % 64))
    }

    /// # Safety
    /// A value can be read at `value`.
    unsafe fn hash(&self, value: *const u8) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |state: u64, word: u64| {
            let product = u128::from(state ^ word ^ ODD) * u128::from(ODD ^ self.seed | 1);
            product as u64 ^ (product >> 64) as u64
        };
        let mut state = self.seed ^ self.value_size as u64;
        let words = self.value_size / 8;
        // SAFETY: inside the value.
        unsafe {
            for word in 0..words {
                state = mix(state, memory::load64(value.add(8 * word)));
            }
            for byte in 8 * words..self.value_size {
                state = mix(state, memory::load8(value.add(byte)) | 0x100);
            }
        }
        mix(state, state >> 32)
    }
}
