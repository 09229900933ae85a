//! What holds while a port has queues: the memory that the device may reach, and the promise that none
//! of it is freed before the device has stopped reaching for it.
//!
//! Port and queues share one [`Running`]. A queue that goes away is disabled first. Where the device
//! does not disable it, the port is reset; where that fails, the function is reset through its bus;
//! where that fails too, the memory is leaked on purpose.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use driver_core::DmaRegion;

use crate::error::Error;
use crate::hw::{Hw, Wait};
use crate::registers::*;
use crate::reset;

/// Bit 25 of RXDCTL and of TXDCTL.
const ENABLE: u32 = 1 << 25;

/// How long a queue may take to stop: with traffic coming in it is much longer than the nominal 100 us.
const DISABLE_LIMIT: Duration = Duration::from_secs(1);
/// What the device may still do to a queue's memory after the queue reads as disabled.
const SETTLE: Duration = Duration::from_micros(200);

/// DMA mappings of a port that has queues, until the last of port and queues is gone.
#[derive(Debug)]
pub(crate) struct Running {
    hw: Hw,
    regions: Vec<DmaRegion>,
    /// Held while escalating: one reset is enough for all queues.
    escalation: Mutex<()>,
    /// The port was reset under its queues: nothing works before the next bring-up.
    reset: AtomicBool,
    /// The device could not be stopped.
    wedged: AtomicBool,
}

impl Running {
    /// Maps `regions` for the device.
    pub(crate) fn new(hw: &Hw, regions: Vec<DmaRegion>) -> Result<Self, Error> {
        let mut running = Running {
            hw: hw.clone(),
            regions: Vec::new(),
            escalation: Mutex::new(()),
            reset: AtomicBool::new(false),
            wedged: AtomicBool::new(false),
        };
        for region in regions {
            // What was mapped before a failure is unmapped by the drop.
            hw.device.map(&region)?;
            running.regions.push(region);
        }
        Ok(running)
    }

    pub(crate) fn hw(&self) -> &Hw {
        &self.hw
    }

    /// True where the port must be brought up again before it can be used.
    pub(crate) fn was_reset(&self) -> bool {
        self.reset.load(Ordering::Acquire)
    }

    /// True where the device may still reach memory that it was given.
    pub(crate) fn is_wedged(&self) -> bool {
        self.wedged.load(Ordering::Acquire)
    }

    /// Disables the queue that `control` (its RXDCTL or TXDCTL) belongs to. False where the device could
    /// not be kept from its memory, which then must not be freed.
    pub(crate) fn stop_queue<V: Value>(
        &self,
        control: Register<Rw, V>,
        step: &'static str,
    ) -> bool {
        match self.disable(control, step) {
            Ok(()) => true,
            Err(error) => {
                log::warn!("{error}");
                self.escalate(control)
            }
        }
    }

    fn disable<V: Value>(&self, control: Register<Rw, V>, step: &'static str) -> Result<(), Error> {
        let enabled = |v: V| v.to_u32() & ENABLE != 0;
        if enabled(self.hw.read(control)?) {
            self.hw
                .modify(control, |v| V::from_u32(v.to_u32() & !ENABLE))?;
        }
        let wait = Wait {
            step,
            every: Duration::from_micros(100),
            limit: DISABLE_LIMIT,
            remedy: "resetting the port",
        };
        self.hw.wait(control, wait, |v| !enabled(v))?;
        self.hw.sleep(SETTLE);
        Ok(())
    }

    fn escalate<V: Value>(&self, control: Register<Rw, V>) -> bool {
        let _one = self
            .escalation
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_wedged() {
            return false;
        }
        let stopped = |hw: &Hw| {
            let value = hw.read(control)?;
            Ok::<bool, Error>(value.to_u32() & ENABLE == 0)
        };
        let by_port = reset::port_reset(&self.hw).and_then(|()| {
            self.hw.sleep(self.hw.family.reset_settle);
            stopped(&self.hw)
        });
        self.reset.store(true, Ordering::Release);
        if matches!(by_port, Ok(true)) {
            return true;
        }
        if let Err(error) = by_port {
            log::warn!("{error}");
        }
        match self.hw.device.reset() {
            Ok(()) => true,
            Err(error) => {
                self.wedged.store(true, Ordering::Release);
                let device = self.hw.name();
                log::error!("{error}; {}", Error::Wedged { device });
                false
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_wedged() {
            self.regions.drain(..).for_each(mem::forget);
            return;
        }
        // No queue is left. A device that is gone by now needs no switching off.
        if self.hw.modify(RXCTRL, |v| v - Rxctrl::RXEN).is_ok() {
            self.hw.modify(DMATXCTL, |v| v - Dmatxctl::TE).ok();
        }
        for region in &self.regions {
            self.hw.device.unmap(region);
        }
    }
}
