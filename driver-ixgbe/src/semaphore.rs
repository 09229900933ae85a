//! What the two ports and the firmware share, and the semaphore that guards it.
//!
//! SW_FW_SYNC has a bit for each resource, once for software and, five bits up, once for firmware.
//! It may itself be changed only while SWSM.SMBI is held, which reading 0 acquires, and a second lock:
//! SWSM.SWESMBI against the firmware on 82599, SW_FW_SYNC bit 31 on X540 and later.

use std::time::Duration;

use crate::error::Error;
use crate::hw::{Hw, Wait};
use crate::registers::*;

/// What is shared; the software bit in SW_FW_SYNC.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource {
    /// The PHY of this port: 0 or 1.
    Phy(u8),
    /// Registers of the MAC that firmware writes too, AUTOC among them.
    MacCsr,
}

const REGSMP: u32 = 1 << 31;
/// How long somebody else may hold a resource: 200 tries of 5 ms.
const HELD: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(1000));
/// How long somebody else may hold the lock over SW_FW_SYNC itself.
const LOCKED: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(100));

impl Resource {
    fn software(self) -> u32 {
        match self {
            Resource::Phy(port) => 2 << (port & 1),
            Resource::MacCsr => 1 << 3,
        }
    }

    fn firmware(self) -> u32 {
        self.software() << 5
    }
}

/// Runs `f` while holding `resource`.
pub(crate) fn with<T>(
    hw: &Hw,
    resource: Resource,
    f: impl FnOnce(&Hw) -> Result<T, Error>,
) -> Result<T, Error> {
    acquire(hw, resource)?;
    let result = f(hw);
    let released = locked(hw, |hw| hw.modify(SW_FW_SYNC, |v| v & !resource.software()));
    let value = result?;
    released?;
    Ok(value)
}

fn acquire(hw: &Hw, resource: Resource) -> Result<(), Error> {
    let (every, limit) = HELD;
    let clock = hw.device.clock();
    let end = clock.now() + limit;
    let busy = resource.software() | resource.firmware();
    loop {
        let now = locked(hw, |hw| {
            let now = hw.read(SW_FW_SYNC)?;
            if now & busy == 0 {
                hw.write(SW_FW_SYNC, now | resource.software());
            }
            Ok(now)
        })?;
        if now & busy == 0 {
            return Ok(());
        }
        if clock.now() >= end {
            // A holder that died does not let go. Nobody holds one for a second on purpose.
            log::warn!(
                "{}: {resource:?} was held for {limit:?} (SW_FW_SYNC {now:#x}); taking it",
                hw.name()
            );
            return locked(hw, |hw| {
                hw.modify(SW_FW_SYNC, |v| v & !busy | resource.software())
            });
        }
        clock.sleep(every);
    }
}

/// Runs `f` while SW_FW_SYNC may be changed.
fn locked<T>(hw: &Hw, f: impl FnOnce(&Hw) -> Result<T, Error>) -> Result<T, Error> {
    let (every, limit) = LOCKED;
    let wait = |step, remedy| Wait {
        step,
        every,
        limit,
        remedy,
    };
    let smbi = wait("semaphore between the ports' drivers", "trying once more");
    if let Err(error) = hw.wait(SWSM, smbi, |v| !v.contains(Swsm::SMBI)) {
        // As above: left behind by a driver that died.
        log::warn!("{error}");
        hw.modify(SWSM, |v| v - Swsm::SMBI)?;
        let smbi = wait(
            "semaphore between the ports' drivers",
            "another driver holds the card's other port; stop it, or reset the card",
        );
        hw.wait(SWSM, smbi, |v| !v.contains(Swsm::SMBI))?;
    }
    let result = second_lock(hw, wait).and_then(|()| {
        let result = f(hw);
        if hw.family.regsmp {
            hw.modify(SW_FW_SYNC, |v| v & !REGSMP)?;
        }
        result
    });
    hw.modify(SWSM, |v| v - Swsm::SMBI - Swsm::SWESMBI)?;
    result
}

fn second_lock(hw: &Hw, wait: impl Fn(&'static str, &'static str) -> Wait) -> Result<(), Error> {
    let remedy = "the firmware does not let go: reset the card or update its NVM";
    if hw.family.regsmp {
        let wait = wait("semaphore of SW_FW_SYNC (REGSMP)", remedy);
        return hw.wait(SW_FW_SYNC, wait, |v| v & REGSMP == 0).map(drop);
    }
    let clock = hw.device.clock();
    let end = clock.now() + LOCKED.1;
    loop {
        // It sticks only where the firmware does not hold it.
        hw.modify(SWSM, |v| v | Swsm::SWESMBI)?;
        let swsm = hw.read(SWSM)?;
        if swsm.contains(Swsm::SWESMBI) {
            return Ok(());
        }
        if clock.now() >= end {
            return Err(Error::Timeout {
                device: hw.name(),
                step: "semaphore with the firmware (SWESMBI)",
                register: SWSM.name,
                value: swsm.bits(),
                limit: LOCKED.1,
                remedy,
            });
        }
        clock.sleep(LOCKED.0);
    }
}
