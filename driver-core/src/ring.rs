//! Descriptor rings in DMA memory.
//!
//! A descriptor is written by two parties that share no lock: it is made of atomics. A done bit is
//! read with Acquire before the rest of the descriptor; a tail is stored with Release after the
//! descriptors and the packet bytes ([`Doorbell::ring`](crate::Doorbell::ring)).
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dma::DmaRegion;

/// A 16-byte descriptor: two little-endian quadwords.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct Descriptor([AtomicU64; 2]);

impl Descriptor {
    /// Reads quadword 0 or 1; what the device wrote before it is visible afterwards.
    #[inline]
    pub fn load_acquire(&self, word: usize) -> u64 {
        u64::from_le(self.0[word].load(Ordering::Acquire))
    }

    /// Reads quadword 0 or 1, after an acquiring read of the other.
    #[inline]
    pub fn load(&self, word: usize) -> u64 {
        u64::from_le(self.0[word].load(Ordering::Relaxed))
    }

    /// Writes both quadwords. The device sees them once the tail has been stored.
    #[inline]
    pub fn store(&self, words: [u64; 2]) {
        self.0[0].store(words[0].to_le(), Ordering::Relaxed);
        self.0[1].store(words[1].to_le(), Ordering::Relaxed);
    }

    /// Writes quadword 0 or 1.
    #[inline]
    pub fn store_word(&self, word: usize, value: u64) {
        self.0[word].store(value.to_le(), Ordering::Relaxed);
    }
}

/// A ring of descriptors: a part of a region that it keeps mapped.
#[derive(Debug)]
pub struct DescriptorRing {
    first: NonNull<Descriptor>,
    count: usize,
    offset: usize,
    region: DmaRegion,
}

// SAFETY: `first` points into the region, which may be used from any thread, and to atomics.
unsafe impl Send for DescriptorRing {}
// SAFETY: as above.
unsafe impl Sync for DescriptorRing {}

impl DescriptorRing {
    /// The `count` descriptors that start `offset` bytes into `region`. `None` where they do not lie
    /// in it, `offset` is not a multiple of 16, or the region is a pool's, whose bytes frames own. Two
    /// rings over the same bytes are possible, and then see each other's descriptors.
    pub fn new(region: &DmaRegion, offset: usize, count: usize) -> Option<Self> {
        let len = count.checked_mul(size_of::<Descriptor>())?;
        let end = offset.checked_add(len)?;
        let inside = end <= region.len() && offset.is_multiple_of(align_of::<Descriptor>());
        (inside && !region.holds_frames()).then(|| DescriptorRing {
            // SAFETY: inside the region.
            first: unsafe { region.as_ptr().add(offset) }.cast(),
            count,
            offset,
            region: region.clone(),
        })
    }

    /// The descriptors, first to last.
    #[inline]
    pub fn descriptors(&self) -> &[Descriptor] {
        // SAFETY: the stretch lies in the region (checked in `new`), which this ring keeps mapped;
        // regions are page-aligned, so descriptors are 16-aligned; atomics may be shared, and no frame
        // hands out references to the same bytes (checked in `new`).
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }

    /// Address of the first descriptor as the device sees it.
    pub fn iova(&self) -> u64 {
        self.region.iova() + self.offset as u64
    }

    /// Length in bytes.
    pub fn len_bytes(&self) -> u32 {
        (self.count * size_of::<Descriptor>()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DmaDomain, FramePool, Geometry, IovaRanges};

    #[test]
    fn rings_lie_in_their_region_and_not_over_frames() {
        let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
        let region = domain.allocate(1).unwrap();
        let all = region.len() / 16;
        let ring = DescriptorRing::new(&region, 16, all - 1).unwrap();
        assert_eq!(ring.iova(), region.iova() + 16);
        assert_eq!(ring.descriptors().len(), all - 1);
        for (offset, count) in [(16, all), (8, 1), (usize::MAX - 15, 1), (0, usize::MAX)] {
            assert!(DescriptorRing::new(&region, offset, count).is_none());
        }
        let pool = FramePool::new(&domain, Geometry::SMALL, 1).unwrap();
        assert!(DescriptorRing::new(pool.region(), 0, 1).is_none());
    }
}
