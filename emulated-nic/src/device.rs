//! The NIC as a driver sees it.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use driver_core::{
    Clock, Device, DeviceError, DmaDomain, DmaError, DmaRegion, Doorbell, Identity, IovaRanges,
};

use crate::i82599::interrupts::VECTORS;
use crate::nic::Shared;

/// An emulated NIC's side of the seam.
pub(crate) struct EmulatedDevice {
    shared: Arc<Shared>,
    clock: ModelClock,
}

struct ModelClock(Arc<Shared>);

impl EmulatedDevice {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let clock = ModelClock(shared.clone());
        EmulatedDevice { shared, clock }
    }

    fn name(&self) -> String {
        self.shared.identity.name.clone()
    }
}

impl fmt::Debug for EmulatedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EmulatedDevice")
            .field(&self.shared.identity.name)
            .finish()
    }
}

impl Device for EmulatedDevice {
    fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    fn read32(&self, offset: u32) -> u32 {
        let now = self.shared.access_time();
        self.shared.lock().read(now, offset)
    }

    fn write32(&self, offset: u32, value: u32) {
        let now = self.shared.access_time();
        self.shared.lock().write(now, offset, value);
    }

    fn doorbell(&self, offset: u32) -> Result<Doorbell, DeviceError> {
        let index = self.shared.lock().doorbell_index(offset);
        index
            .and_then(|index| self.shared.doorbells.doorbell(index))
            .ok_or_else(|| DeviceError::Offset {
                device: self.name(),
                offset,
                size: self.shared.identity.bar_size,
            })
    }

    fn config_read16(&self, offset: u16) -> Result<u16, DeviceError> {
        let core = self.shared.lock();
        core.config_read16(offset)
            .ok_or_else(|| DeviceError::Config {
                device: self.name(),
                offset,
            })
    }

    fn domain(&self) -> &DmaDomain {
        &self.shared.domain
    }

    fn iova_ranges(&self) -> IovaRanges {
        self.shared.ranges.clone()
    }

    fn map(&self, region: &DmaRegion) -> Result<(), DmaError> {
        let (iova, size) = (region.iova(), region.len());
        if !self.shared.ranges.contains(iova, size as u64) {
            let ranges = self.shared.ranges.clone();
            return Err(DmaError::Unreachable { iova, size, ranges });
        }
        self.shared.lock().memory.map(region);
        Ok(())
    }

    fn unmap(&self, region: &DmaRegion) {
        self.shared.lock().memory.unmap(region);
    }

    fn vectors(&self) -> u16 {
        VECTORS
    }

    fn interrupt(&self, vector: u16) -> Result<BorrowedFd<'_>, DeviceError> {
        self.shared
            .vectors
            .get(vector)
            .ok_or_else(|| DeviceError::Vector {
                device: self.name(),
                vector,
                count: VECTORS,
            })
    }

    fn reset(&self) -> Result<(), DeviceError> {
        let now = self.shared.access_time();
        let done = self.shared.lock().function_reset(now);
        done.then_some(()).ok_or_else(|| DeviceError::Reset {
            device: self.name(),
            reason: "the model refuses: a test asked it to".into(),
        })
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }
}

impl Clock for ModelClock {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, span: Duration) {
        self.0.sleep(span);
    }
}
