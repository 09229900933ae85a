//! DMA memory: regions that the process and its devices both see.
//!
//! A [`DmaDomain`] reserves one window of virtual addresses and lays every region into it, so that
//! IOVA and virtual address differ by one constant for the whole domain: turning a pointer into what
//! a descriptor holds is one subtraction, whichever pool or ring it points into, and a frame can
//! leave by another port than it came. Regions are 2 MiB huge pages from a memfd where the system
//! has them, else ordinary pages (one warning).
//!
//! This module guards `mmap`: a region is mapped as long as any handle on it lives. DMA memory holds
//! packets and rings, that is bytes and atomics; whatever a device writes there, every bit pattern
//! is a valid value.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::iova::{Allocator, IovaRanges};

/// Size and alignment of a huge page, and the unit in which regions are laid into the window.
pub const HUGE_PAGE: usize = 2 << 20;

/// Largest window of a domain: room for regions, reserved and not backed.
const WINDOW_MAX: usize = 64 << 30;
/// Smallest window that is still worth having; a limit on address space can make it this small.
const WINDOW_MIN: usize = 256 << 20;
/// First IOVA of a window. Address 0 stays free: a zeroed descriptor must fault.
const WINDOW_IOVA: u64 = HUGE_PAGE as u64;

/// Why DMA memory could not be had.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum DmaError {
    /// The address space for the window could not be reserved.
    #[error("cannot reserve {size} bytes of address space for DMA: {source}; raise `ulimit -v`")]
    Reserve { size: usize, source: io::Error },
    /// A region of no bytes.
    #[error("a DMA region must have at least one byte")]
    Empty,
    /// The window, or the IOVA ranges of the bus, have no stretch left that is long enough.
    #[error(
        "no {size} bytes of IOVA are left in the ranges that the bus allows ({ranges}); \
         use fewer frames or smaller rings"
    )]
    NoIova { size: usize, ranges: IovaRanges },
    /// The kernel refused the memory.
    #[error("cannot take {size} bytes of DMA memory: {source}; use fewer frames (--frames)")]
    Memory { size: usize, source: io::Error },
    /// A device that was added later cannot reach memory handed out before.
    #[error(
        "the device cannot reach IOVA {iova:#x}, {size} bytes, that the domain has handed out: \
         it allows {ranges}; open the device with the narrowest ranges first"
    )]
    Unreachable {
        iova: u64,
        size: usize,
        ranges: IovaRanges,
    },
}

/// One space of DMA addresses, shared by all devices of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DmaDomain(Arc<Window>);

#[derive(Debug)]
struct Window {
    base: NonNull<u8>,
    size: usize,
    ranges: IovaRanges,
    free: Mutex<Allocator>,
}

// SAFETY: `base` is only an address: memory is reached through regions, which own their part of it.
unsafe impl Send for Window {}
// SAFETY: as above; what changes is behind the mutex.
unsafe impl Sync for Window {}

impl DmaDomain {
    /// A domain whose regions get IOVAs within `ranges` only: the intersection of what the devices
    /// that will be attached allow.
    pub fn new(ranges: IovaRanges) -> Result<Self, DmaError> {
        let mut size = WINDOW_MAX;
        let base = loop {
            match reserve(size) {
                Ok(base) => break base,
                Err(_) if size / 2 >= WINDOW_MIN => size /= 2,
                Err(source) => return Err(DmaError::Reserve { size, source }),
            }
        };
        let free = Mutex::new(Allocator::new(&ranges, WINDOW_IOVA, size as u64));
        Ok(DmaDomain(Arc::new(Window {
            base,
            size,
            ranges,
            free,
        })))
    }

    /// Takes a region of at least `size` bytes, zeroed, rounded up to whole huge pages of address
    /// space. Its memory goes back when the last handle on it is dropped.
    pub fn allocate(&self, size: usize) -> Result<DmaRegion, DmaError> {
        self.take(size, false)
    }

    /// As [`allocate`](Self::allocate), for memory whose bytes frames own: no ring can be laid over it.
    pub(crate) fn allocate_frames(&self, size: usize) -> Result<DmaRegion, DmaError> {
        self.take(size, true)
    }

    fn take(&self, size: usize, frames: bool) -> Result<DmaRegion, DmaError> {
        if size == 0 {
            return Err(DmaError::Empty);
        }
        let no_iova = || DmaError::NoIova {
            size,
            ranges: self.0.ranges.clone(),
        };
        let len = size
            .checked_next_multiple_of(HUGE_PAGE)
            .ok_or_else(no_iova)?;
        let iova = self
            .lock()
            .take(len as u64, HUGE_PAGE as u64)
            .ok_or_else(no_iova)?;
        let offset = (iova - WINDOW_IOVA) as usize;
        // SAFETY: the allocator hands out stretches inside the window only.
        let ptr = unsafe { self.0.base.add(offset) };
        match map(ptr, len) {
            Ok(()) => Ok(DmaRegion(Arc::new(Mapping {
                window: self.0.clone(),
                ptr,
                len,
                iova,
                frames,
            }))),
            Err(source) => {
                // A failed fixed mapping may have taken the reservation with it.
                // SAFETY: the stretch is this call's own until it is given back.
                if unsafe { reserve_at(Some(ptr), len) }.is_ok() {
                    self.lock().give(iova, len as u64);
                }
                Err(DmaError::Memory { size: len, source })
            }
        }
    }

    /// The IOVA ranges this domain was made for.
    pub fn ranges(&self) -> &IovaRanges {
        &self.0.ranges
    }

    /// What to subtract (wrapping) from a virtual address in this domain to get its IOVA.
    pub fn delta(&self) -> u64 {
        (self.0.base.as_ptr() as u64).wrapping_sub(WINDOW_IOVA)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Allocator> {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the window is this value's own, and every region in it held an `Arc` on it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size) };
    }
}

/// A stretch of DMA memory. Cheap to clone; the memory stays mapped until the last clone, of owner
/// or device, is gone.
#[derive(Clone, Debug)]
pub struct DmaRegion(Arc<Mapping>);

#[derive(Debug)]
struct Mapping {
    window: Arc<Window>,
    ptr: NonNull<u8>,
    len: usize,
    iova: u64,
    /// Its bytes are owned by frames.
    frames: bool,
}

// SAFETY: the mapping is plain shared memory; those who reach into it say how they share it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl DmaRegion {
    /// First byte. Valid for [`len`](Self::len) bytes as long as a handle on the region lives.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.0.ptr
    }

    /// Length in bytes, whole pages.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Address of the first byte as devices see it; the rest follows without a gap.
    pub fn iova(&self) -> u64 {
        self.0.iova
    }

    /// True where frames own the bytes: references to them are handed out, so nobody else may.
    pub(crate) fn holds_frames(&self) -> bool {
        self.0.frames
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Put the reservation back rather than unmap, so that nothing else lands in the window. If
        // the kernel refuses, the stretch is not handed out again.
        // SAFETY: this stretch of the window is this mapping's own and nobody holds a pointer.
        let reserved = unsafe { reserve_at(Some(self.ptr), self.len) };
        if reserved.is_ok() {
            let mut free = self
                .window
                .free
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            free.give(self.iova, self.len as u64);
        }
    }
}

fn reserve(size: usize) -> io::Result<NonNull<u8>> {
    // One huge page more, so that the window can start on a huge page.
    // SAFETY: without a fixed address nothing that is mapped changes.
    let raw = unsafe { reserve_at(None, size + HUGE_PAGE)? };
    let skip = raw.align_offset(HUGE_PAGE);
    // SAFETY: both ends lie outside the window kept, inside the mapping just made.
    unsafe {
        let base = raw.add(skip);
        if skip > 0 {
            libc::munmap(raw.as_ptr().cast(), skip);
        }
        libc::munmap(base.add(size).as_ptr().cast(), HUGE_PAGE - skip);
        Ok(base)
    }
}

/// # Safety
/// At a fixed address, the stretch must be the caller's own to replace.
unsafe fn reserve_at(at: Option<NonNull<u8>>, size: usize) -> io::Result<NonNull<u8>> {
    let (addr, fixed) = at.map_or((std::ptr::null_mut(), 0), |p| (p.as_ptr(), libc::MAP_FIXED));
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: the caller owns the stretch, or there is none.
    let p = unsafe { libc::mmap(addr.cast(), size, libc::PROT_NONE, flags, -1, 0) };
    pointer(p)
}

/// Backs `len` bytes at `at`, a stretch of the window that nobody uses, with memory.
fn map(at: NonNull<u8>, len: usize) -> io::Result<()> {
    match map_memfd(at, len, libc::MFD_HUGETLB | libc::MFD_HUGE_2MB) {
        Ok(()) => Ok(()),
        Err(_) => {
            warn_once();
            map_memfd(at, len, 0)
        }
    }
}

fn map_memfd(at: NonNull<u8>, len: usize, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: the name is a C string; a negative result is checked.
    let fd = unsafe { libc::memfd_create(c"ixdp-dma".as_ptr(), libc::MFD_CLOEXEC | flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let _closed_at_the_end = unsafe { File::from_raw_fd(fd) };
    // Take the memory before it is mapped. A fixed mapping that fails for want of huge pages would
    // leave a hole in the window, in which another thread's mapping may land.
    let size = libc::off_t::try_from(len).map_err(io::Error::other)?;
    // SAFETY: changes nothing but the file.
    if unsafe { libc::fallocate(fd, 0, 0, size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Populate now, so that the packet path meets no page fault.
    let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: `at..at + len` is a reserved stretch of the window that the allocator gave to this call.
    let p = unsafe { libc::mmap(at.as_ptr().cast(), len, prot, flags, fd, 0) };
    // The mapping keeps the memory when the file is closed.
    pointer(p)?;
    Ok(())
}

fn pointer(p: *mut libc::c_void) -> io::Result<NonNull<u8>> {
    if p == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(p.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

fn warn_once() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        log::warn!(
            "no 2 MiB huge pages: using ordinary pages (as root, `sysctl vm.nr_hugepages=128` adds some)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether huge pages are there or not, asking for them leaves no hole in the window, in which a
    /// mapping of another thread could land and be replaced by the next region.
    #[test]
    fn the_window_stays_whole_when_there_are_no_huge_pages() {
        let at = reserve(HUGE_PAGE).unwrap();
        let asked = map_memfd(at, HUGE_PAGE, libc::MFD_HUGETLB | libc::MFD_HUGE_2MB);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: replaces nothing that is mapped.
        let p = unsafe { libc::mmap(at.as_ptr().cast(), HUGE_PAGE, 0, flags, -1, 0) };
        assert_eq!(p, libc::MAP_FAILED, "a hole after {asked:?}");
        // SAFETY: the stretch is this test's own.
        unsafe { libc::munmap(at.as_ptr().cast(), HUGE_PAGE) };
    }
}
