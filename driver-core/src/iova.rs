//! Addresses that a device uses (IOVA): which of them a bus allows, and a first-fit allocator inside
//! those. Pure arithmetic; the memory behind an address is [`crate::dma`]'s.

use std::fmt;

/// The IOVA ranges a bus lets a device use: sorted, disjoint, each inclusive at both ends (an
/// IOMMU's last address is often `2^n - 1`, and 64 bits have no exclusive end for it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IovaRanges(Vec<(u64, u64)>);

impl IovaRanges {
    /// What an x86 IOMMU with `bits` of address offers: everything but the interrupt window
    /// 0xFEE00000..0xFEEFFFFF.
    pub fn with_address_bits(bits: u32) -> Self {
        let last = if bits >= 64 {
            u64::MAX
        } else {
            (1 << bits) - 1
        };
        IovaRanges::new([(0, 0xfedf_ffff.min(last)), (0xfef0_0000, last)])
    }

    /// Ranges in any order, overlapping or touching ones merged, empty ones (`first > last`) left out.
    pub fn new(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|(a, b)| a <= b).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = (*end).max(last),
                _ => merged.push((first, last)),
            }
        }
        IovaRanges(merged)
    }

    /// What both allow.
    pub fn intersect(&self, other: &IovaRanges) -> Self {
        let pairs = self
            .0
            .iter()
            .flat_map(|a| other.0.iter().map(move |b| (*a, *b)));
        IovaRanges::new(pairs.map(|(a, b)| (a.0.max(b.0), a.1.min(b.1))))
    }

    /// True where the whole of `first..first + len` lies in one range. An empty stretch does.
    pub fn contains(&self, first: u64, len: u64) -> bool {
        let Some(last) = len.checked_sub(1).and_then(|n| first.checked_add(n)) else {
            return len == 0;
        };
        self.0.iter().any(|r| r.0 <= first && last <= r.1)
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }
}

impl fmt::Display for IovaRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "none");
        }
        for (i, (first, last)) in self.0.iter().enumerate() {
            write!(f, "{}{first:#x}..={last:#x}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// Hands out stretches of a window of addresses, lowest first, and takes them back.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Free stretches, ascending and never touching: (first, length).
    free: Vec<(u64, u64)>,
}

impl Allocator {
    /// Everything of `first..first + len` that `ranges` allows.
    pub(crate) fn new(ranges: &IovaRanges, first: u64, len: u64) -> Self {
        let window = IovaRanges::new([(first, first.saturating_add(len.saturating_sub(1)))]);
        let free = ranges.intersect(&window);
        Allocator {
            free: free
                .iter()
                .map(|(a, b)| (a, (b - a).saturating_add(1)))
                .collect(),
        }
    }

    /// Takes the lowest stretch of `len` bytes whose start is a multiple of `align` (a power of two).
    pub(crate) fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        for i in 0..self.free.len() {
            let (first, size) = self.free[i];
            let start = first.checked_next_multiple_of(align)?;
            let skipped = start - first;
            if skipped.checked_add(len).is_none_or(|need| need > size) {
                continue;
            }
            let rest = (start + len, size - skipped - len);
            let pieces = [(first, skipped), rest];
            self.free
                .splice(i..=i, pieces.into_iter().filter(|p| p.1 > 0));
            return Some(start);
        }
        None
    }

    /// Gives a stretch back that [`take`](Self::take) handed out.
    pub(crate) fn give(&mut self, first: u64, len: u64) {
        let at = self.free.partition_point(|f| f.0 < first);
        self.free.insert(at, (first, len));
        if at + 1 < self.free.len() && first + len == self.free[at + 1].0 {
            self.free[at].1 += self.free[at + 1].1;
            self.free.remove(at + 1);
        }
        if at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == first {
            self.free[at - 1].1 += self.free[at].1;
            self.free.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_intersect() {
        let a = IovaRanges::new([(8, 15), (0, 7), (32, 63), (40, 50)]);
        assert_eq!(a.iter().collect::<Vec<_>>(), [(0, 15), (32, 63)]);
        let b = IovaRanges::new([(10, 40), (60, u64::MAX)]);
        assert_eq!(
            a.intersect(&b).iter().collect::<Vec<_>>(),
            [(10, 15), (32, 40), (60, 63)]
        );
        assert!(a.contains(0, 16) && !a.contains(0, 17) && !a.contains(u64::MAX, 2));
    }

    #[test]
    fn an_x86_iommu_leaves_the_interrupt_window_out() {
        let r = IovaRanges::with_address_bits(39);
        assert!(!r.contains(0xfee0_0000, 4) && r.contains((1 << 39) - 1, 1));
        assert!(!r.contains(1 << 39, 1));
    }

    #[test]
    fn allocator_skips_holes_aligns_and_merges_again() {
        let ranges = IovaRanges::new([(0, 99), (200, 1000)]);
        let mut a = Allocator::new(&ranges, 10, 600);
        assert_eq!(a.take(80, 16), Some(16));
        assert_eq!(
            a.take(80, 16),
            Some(208),
            "the first range has no room left for 80"
        );
        assert_eq!(
            a.take(8, 1),
            Some(200),
            "what alignment skipped is still there"
        );
        assert_eq!(a.take(1000, 1), None);
        a.give(208, 80);
        a.give(16, 80);
        a.give(200, 8);
        assert_eq!(a.free, [(10, 90), (200, 410)]);
    }
}
