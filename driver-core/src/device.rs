//! The seam: what a driver knows of its device.
//!
//! Hardware bound to VFIO, an emulated NIC, and whatever a test wraps around either implement
//! [`Device`]. The control path goes through the trait; a queue's tail register is handed out once
//! as a [`Doorbell`], so that the packet path is the same stores on hardware and on a model.
#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::dma::{DmaDomain, DmaError, DmaRegion};
use crate::iova::IovaRanges;

/// What a register reads when nothing answers.
pub const ALL_ONES: u32 = u32::MAX;

/// Who a device is, from its PCI configuration space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What the user called it: a PCI address, `emu:82599`, a socket's path.
    pub name: String,
    /// PCI vendor id; Intel is 0x8086.
    pub vendor: u16,
    /// PCI device id.
    pub device: u16,
    /// PCI revision.
    pub revision: u8,
    /// Bytes of the register BAR.
    pub bar_size: u32,
}

/// Why a device would not do what was asked.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum DeviceError {
    #[error("{device}: offset {offset:#x} is not a register of its {size:#x}-byte BAR")]
    Offset {
        device: String,
        offset: u32,
        size: u32,
    },
    #[error("{device} has no interrupt vector {vector}: it has {count}")]
    Vector {
        device: String,
        vector: u16,
        count: u16,
    },
    #[error(
        "{device}: configuration space cannot be read at {offset:#x}; is the device still there?"
    )]
    Config { device: String, offset: u16 },
    #[error("{device} cannot be reset: {reason}; open it again, or restart the machine it is in")]
    Reset { device: String, reason: String },
    #[error("{device} is gone: its registers read all ones; was it unplugged or reset?")]
    Gone { device: String },
    #[error(transparent)]
    Dma(#[from] DmaError),
}

/// A device under a driver.
pub trait Device: Send + Sync + fmt::Debug {
    /// Who it is.
    fn identity(&self) -> &Identity;

    /// Reads the 32-bit register at byte `offset` of the register BAR. Reading may have effects
    /// (clear-on-read). [`ALL_ONES`] where nothing answers or there is no such offset.
    fn read32(&self, offset: u32) -> u32;

    /// Writes the 32-bit register at byte `offset` of the register BAR.
    fn write32(&self, offset: u32, value: u32);

    /// The tail register at `offset`, for the one queue that owns it. It keeps the memory or mapping
    /// behind it, so that a queue may outlive the device.
    fn doorbell(&self, offset: u32) -> Result<Doorbell, DeviceError>;

    /// Reads 16 bits of PCI configuration space at byte `offset`.
    fn config_read16(&self, offset: u16) -> Result<u16, DeviceError>;

    /// The domain whose memory the device is given.
    fn domain(&self) -> &DmaDomain;

    /// IOVA ranges that the device's bus allows.
    fn iova_ranges(&self) -> IovaRanges;

    /// Lets the device reach `region`, at its IOVA. Mapping a region again does nothing.
    fn map(&self, region: &DmaRegion) -> Result<(), DmaError>;

    /// Takes `region` away from the device again. One that is not mapped is left alone.
    fn unmap(&self, region: &DmaRegion);

    /// How many interrupt vectors there are.
    fn vectors(&self) -> u16;

    /// The eventfd that is signalled when `vector` fires.
    fn interrupt(&self, vector: u16) -> Result<BorrowedFd<'_>, DeviceError>;

    /// Resets the function through its bus (PCI function-level reset).
    fn reset(&self) -> Result<(), DeviceError>;

    /// The time that the device lives in.
    fn clock(&self) -> &dyn Clock;
}

/// The time that a device lives in: the wall's, or a stepped model's own.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;

    /// Lets `span` pass. A stepped model advances by it and returns at once.
    fn sleep(&self, span: Duration);
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        let mut t = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `t` is a valid place for the result; the monotonic clock always exists.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    }

    fn sleep(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

/// The tail register of one queue, written from the packet path.
pub struct Doorbell {
    register: NonNull<u32>,
    /// Keeps what `register` points to, since a queue may outlive the handle on its device.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: it is used by the one queue that owns it, on whatever thread that is.
unsafe impl Send for Doorbell {}

impl Doorbell {
    /// # Safety
    /// `register` must point to a 4-aligned register, or an atomic in its place, that stays valid for
    /// as long as `owner` lives, and that nothing accesses but atomically.
    pub unsafe fn new(register: NonNull<u32>, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Doorbell {
            register,
            _owner: owner,
        }
    }

    /// Tail `index` in ordinary memory: for devices that are models. `None` where there is no such tail.
    pub fn in_memory(tails: &Arc<[AtomicU32]>, index: usize) -> Option<Self> {
        let register = NonNull::from(tails.get(index)?).cast();
        // SAFETY: an atomic, in memory that is held.
        Some(unsafe { Doorbell::new(register, Arc::new(tails.clone())) })
    }

    /// Stores `tail`, after all descriptors and packet bytes that were written before.
    #[inline]
    pub fn ring(&self, tail: u32) {
        // On x86 stores to memory and to uncached registers stay in order; elsewhere a device's
        // register needs the stronger barrier.
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a barrier touches no memory.
        unsafe {
            std::arch::asm!("dmb oshst", options(nostack, preserves_flags));
        }
        // SAFETY: valid by the contract of `new`, as the owner lives. A 32-bit atomic store is one store instruction,
        // which is what a register needs and what a model's thread reads with Acquire.
        unsafe { AtomicU32::from_ptr(self.register.as_ptr()) }
            .store(tail.to_le(), Ordering::Release);
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Doorbell").field(&self.register).finish()
    }
}

/// Reads a register, telling a device that is gone from one that answers.
pub fn read_present(device: &dyn Device, offset: u32) -> Result<u32, DeviceError> {
    match device.read32(offset) {
        ALL_ONES => Err(DeviceError::Gone {
            device: device.identity().name.clone(),
        }),
        value => Ok(value),
    }
}

/// Waits until `done` says so, looking every `every` for at most `limit` of the device's time.
/// Returns whether it came true. The last look is made after the limit has passed.
pub fn wait_until(
    clock: &dyn Clock,
    every: Duration,
    limit: Duration,
    mut done: impl FnMut() -> bool,
) -> bool {
    let end = clock.now().saturating_add(limit);
    loop {
        let last = clock.now() >= end;
        if done() {
            return true;
        }
        if last {
            return false;
        }
        clock.sleep(every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doorbell_keeps_its_tail() {
        let tails: Arc<[AtomicU32]> = (0..2).map(|_| AtomicU32::new(0)).collect();
        let doorbell = Doorbell::in_memory(&tails, 1).unwrap();
        assert!(Doorbell::in_memory(&tails, 2).is_none());
        doorbell.ring(7);
        assert_eq!(tails[1].load(Ordering::Acquire).to_le(), 7);
        let held = Arc::downgrade(&tails);
        drop(tails);
        doorbell.ring(8);
        assert!(held.upgrade().is_some());
        drop(doorbell);
        assert!(held.upgrade().is_none());
    }

    #[test]
    fn the_longest_wait_does_not_overflow() {
        assert!(wait_until(
            &SystemClock,
            Duration::ZERO,
            Duration::MAX,
            || true
        ));
    }
}
