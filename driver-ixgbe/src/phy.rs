//! The 10GBASE-T PHY of X540 and X550, over MDIO (MSCA and MSRWD; clause 45 of IEEE 802.3).
//! The caller holds the PHY's semaphore.

use std::time::Duration;

use crate::error::Error;
use crate::hw::{Hw, Wait};
use crate::registers::*;

/// Clause 45 device addresses and registers: the PMA's identifier, and autonegotiation control.
const PMA: u16 = 1;
const PMA_ID_HIGH: u16 = 2;
const AN: u16 = 7;
const AN_CONTROL: u16 = 0;
/// Bits of the latter: enable and restart autonegotiation.
const AN_ENABLE: u16 = 1 << 12;
const AN_RESTART: u16 = 1 << 9;

/// Has the PHY negotiate the link anew.
pub(crate) fn restart_negotiation(hw: &Hw) -> Result<(), Error> {
    let phy = find(hw)?;
    let control = read(hw, phy, AN, AN_CONTROL)?;
    write(hw, phy, AN, AN_CONTROL, control | AN_ENABLE | AN_RESTART)
}

/// The MDIO address at which a PHY answers.
fn find(hw: &Hw) -> Result<u8, Error> {
    for phy in 0..32 {
        if !matches!(read(hw, phy, PMA, PMA_ID_HIGH)?, 0 | 0xffff) {
            return Ok(phy);
        }
    }
    Err(Error::NoPhy { device: hw.name() })
}

fn read(hw: &Hw, phy: u8, device: u16, register: u16) -> Result<u16, Error> {
    command(hw, phy, device, register, Msca::empty())?;
    command(hw, phy, device, register, Msca::OP_READ)?;
    // All ones in the whole register is what an absent device gives; in the high half, an absent PHY.
    Ok((hw.read(MSRWD)? >> 16) as u16)
}

fn write(hw: &Hw, phy: u8, device: u16, register: u16, value: u16) -> Result<(), Error> {
    hw.write(MSRWD, u32::from(value));
    command(hw, phy, device, register, Msca::empty())?;
    command(hw, phy, device, register, Msca::OP_WRITE)
}

fn command(hw: &Hw, phy: u8, device: u16, register: u16, op: Msca) -> Result<(), Error> {
    let address = u32::from(register) | u32::from(device) << 16 | u32::from(phy) << 21;
    hw.write(MSCA, Msca::from_bits_retain(address) | op | Msca::MDI_CMD);
    let wait = Wait {
        step: "MDIO command to the PHY",
        every: Duration::from_micros(10),
        limit: Duration::from_millis(10),
        remedy: "the PHY does not answer: power the card off and on",
    };
    hw.wait(MSCA, wait, |v| !v.contains(Msca::MDI_CMD))
        .map(drop)
}
