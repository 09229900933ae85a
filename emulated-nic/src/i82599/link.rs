//! The link: an SFP+ module on the 82599, a 10GBASE-T PHY behind MDIO on X540 and X550.

use std::collections::BTreeMap;
use std::time::Duration;

use super::core::Core;
use super::inject::Injection;
use super::interrupts::CAUSE_LINK;
use super::registers::*;
use crate::Variant;

const AUTOC_RESTART_AN: u32 = 1 << 12;
const AUTOC_LMS: u32 = 7 << 13;
const LMS_10G_SERIAL: u32 = 3 << 13;
const AUTOC2_SERIAL_PMA: u32 = 3 << 16;
const SERIAL_PMA_SFI: u32 = 2 << 16;
const AUTOC2_LINK_DISABLE: u32 = 7 << 28;
const LINKS_UP: u32 = 1 << 30;
const LINKS_SPEED_10G: u32 = 3 << 28;
const LINKS_SPEED_1G: u32 = 2 << 28;
const LINKS_AN_DONE: u32 = 1 << 31;
/// ANLP1: the autonegotiation state machine runs.
const ANLP1_AN_STATE: u32 = 1 << 16;
/// ESDP: a module is in the cage.
const SDP2: u32 = 1 << 2;
/// ESDP: the laser is off, where the pin is an output.
const SDP3: u32 = 1 << 3;
const ESDP_DIRECTION_SHIFT: u32 = 8;

#[derive(Debug, Default)]
pub(crate) struct LinkState {
    up: bool,
    up_at: Option<Duration>,
    /// It was down since LINKS was read last.
    was_down: bool,
    /// A test has unplugged the cable.
    unplugged: bool,
    phy: Phy,
}

impl LinkState {
    pub(crate) fn is_up(&self) -> bool {
        self.up
    }
}

impl Core {
    /// The link goes down and nothing brings it up again yet.
    pub(crate) fn link_lost(&mut self) {
        if self.link.up {
            self.interrupts.raise_other(CAUSE_LINK);
        }
        self.link.up = false;
        self.link.was_down = true;
        self.link.up_at = None;
    }

    /// Plugs the cable in or out.
    pub(crate) fn plug(&mut self, plugged: bool) {
        self.link.unplugged = !plugged;
        self.consider_link();
    }

    /// After the NVM was read: the media configuration, and the link starts.
    pub(crate) fn load_nvm_link(&mut self) {
        if self.config.variant == Variant::I82599 {
            let autoc = self.regs.get(&AUTOC) & !AUTOC_LMS | LMS_10G_SERIAL;
            self.regs.set(&AUTOC, autoc);
            self.regs.set(&AUTOC2, SERIAL_PMA_SFI);
        } else {
            self.link.phy = Phy::new(self.config.variant);
        }
        self.consider_link();
    }

    /// Starts or stops the link as the configuration asks.
    fn consider_link(&mut self) {
        let possible = self.reset.nvm_read
            && !self.link.unplugged
            && !self.inject.has(Injection::NoLink)
            && match self.config.variant {
                Variant::I82599 => self.module_can_link(),
                Variant::X540 | Variant::X550 => self.link.phy.can_link(),
            };
        if !possible {
            self.link_lost();
        } else if !self.link.up && self.link.up_at.is_none() {
            self.link.up_at = Some(self.now + self.config.link_delay);
        }
    }

    fn restart_link(&mut self) {
        self.link_lost();
        self.consider_link();
    }

    fn module_can_link(&self) -> bool {
        let autoc2 = self.regs.get(&AUTOC2);
        let esdp = self.regs.get(&ESDP);
        let laser_off = esdp & SDP3 != 0 && esdp & SDP3 << ESDP_DIRECTION_SHIFT != 0;
        self.regs.get(&AUTOC) & AUTOC_LMS == LMS_10G_SERIAL
            && autoc2 & AUTOC2_SERIAL_PMA == SERIAL_PMA_SFI
            && autoc2 & AUTOC2_LINK_DISABLE == 0
            && !laser_off
    }

    pub(crate) fn advance_link(&mut self) {
        if self.inject.has(Injection::NoLink) {
            self.link_lost();
        } else if self.link.up_at.is_some_and(|at| at <= self.now) {
            self.link.up_at = None;
            self.link.up = true;
            self.interrupts.raise_other(CAUSE_LINK);
        }
    }
}

pub(crate) fn write_autoc(core: &mut Core, _: usize, before: u32, value: u32) {
    core.regs.set(&AUTOC, value & !AUTOC_RESTART_AN);
    if core.config.variant != Variant::I82599 {
        return;
    }
    if value & AUTOC_RESTART_AN != 0 {
        core.restart_link();
    } else if (before ^ value) & AUTOC_LMS != 0 {
        core.consider_link();
    }
}

pub(crate) fn write_autoc2(core: &mut Core, _: usize, _: u32, _: u32) {
    if core.config.variant == Variant::I82599 {
        core.consider_link();
    }
}

/// The level of a pin is what drives it: the register where it is an output, else the cage.
pub(crate) fn read_esdp(core: &mut Core, _: usize, held: u32) -> u32 {
    let module = core.config.variant == Variant::I82599;
    if held & SDP2 << ESDP_DIRECTION_SHIFT != 0 {
        return held;
    }
    held & !SDP2 | if module { SDP2 } else { 0 }
}

pub(crate) fn write_esdp(core: &mut Core, _: usize, _: u32, _: u32) {
    if core.config.variant == Variant::I82599 {
        core.consider_link();
    }
}

/// "Down" is latched until it has been read once.
pub(crate) fn read_links(core: &mut Core, _: usize, _: u32) -> u32 {
    let was_down = std::mem::take(&mut core.link.was_down);
    if !core.link.up || was_down {
        return 0;
    }
    match core.config.variant {
        Variant::I82599 => LINKS_UP | LINKS_SPEED_10G,
        Variant::X540 | Variant::X550 if core.link.phy.advertises_10g() => {
            LINKS_UP | LINKS_SPEED_10G | LINKS_AN_DONE
        }
        Variant::X540 | Variant::X550 => LINKS_UP | LINKS_SPEED_1G | LINKS_AN_DONE,
    }
}

pub(crate) fn read_anlp1(core: &mut Core, _: usize, held: u32) -> u32 {
    held | if core.reset.nvm_read {
        ANLP1_AN_STATE
    } else {
        0
    }
}

/// A clause 45 PHY: registers by device type and address.
#[derive(Debug, Default)]
struct Phy {
    registers: BTreeMap<(u8, u16), u16>,
    /// Latched by an address cycle.
    address: u16,
}

const MSCA_COMMAND: u32 = 1 << 30;
/// Port address of the internal PHY.
const PHY_ADDRESS: u32 = 0;
const PMA: u8 = 1;
const AN: u8 = 7;
const CONTROL: u16 = 0;
const STATUS_REGISTER: u16 = 1;
const CONTROL_RESET: u16 = 1 << 15;
const CONTROL_LOW_POWER: u16 = 1 << 11;
const AN_RESTART: u16 = 1 << 9;
const AN_ENABLE: u16 = 1 << 12;
const AN_COMPLETE: u16 = 1 << 5;
const LINK_STATUS: u16 = 1 << 2;
/// 10GBASE-T autonegotiation control (IEEE 802.3 45.2.7.10): bit 12 advertises 10GBASE-T.
const AN_10GBASE_T: u16 = 0x20;
const ADVERTISE_10G: u16 = 1 << 12;

impl Phy {
    fn new(variant: Variant) -> Self {
        let id = if variant == Variant::X540 {
            0x0200
        } else {
            0x0220
        };
        let registers = BTreeMap::from([
            ((PMA, 2), 0x0154),
            ((PMA, 3), id),
            ((AN, CONTROL), AN_ENABLE),
            ((AN, AN_10GBASE_T), ADVERTISE_10G),
        ]);
        Phy {
            registers,
            address: 0,
        }
    }

    fn get(&self, device: u8, register: u16) -> u16 {
        self.registers
            .get(&(device, register))
            .copied()
            .unwrap_or(0)
    }

    fn advertises_10g(&self) -> bool {
        self.get(AN, AN_10GBASE_T) & ADVERTISE_10G != 0
    }

    fn can_link(&self) -> bool {
        self.get(PMA, CONTROL) & CONTROL_LOW_POWER == 0
    }
}

/// An MDIO frame: operation 0 latches an address, 1 writes, 2 reads and counts up, 3 reads.
pub(crate) fn write_msca(core: &mut Core, _: usize, _: u32, value: u32) {
    if value & MSCA_COMMAND == 0 {
        return;
    }
    core.regs.set(&MSCA, value & !MSCA_COMMAND);
    let device = (value >> 16 & 0x1f) as u8;
    let present = core.config.variant.has_phy() && value >> 21 & 0x1f == PHY_ADDRESS;
    let msrwd = core.regs.get(&MSRWD);
    let address = core.link.phy.address;
    match value >> 26 & 3 {
        0 => core.link.phy.address = value as u16,
        1 if present => core.write_phy(device, address, msrwd as u16),
        1 => {}
        operation => {
            let data = if present {
                core.read_phy(device, address)
            } else {
                0xffff
            };
            core.regs
                .set(&MSRWD, msrwd & 0xffff | u32::from(data) << 16);
            if operation == 2 {
                core.link.phy.address = address.wrapping_add(1);
            }
        }
    }
}

impl Core {
    fn read_phy(&mut self, device: u8, register: u16) -> u16 {
        let held = self.link.phy.get(device, register);
        let up = self.link.up;
        match (device, register) {
            (AN | PMA, STATUS_REGISTER) if up => held | LINK_STATUS | AN_COMPLETE,
            _ => held,
        }
    }

    fn write_phy(&mut self, device: u8, register: u16, value: u16) {
        let restarts = match (device, register) {
            (AN, CONTROL) => value & (AN_RESTART | CONTROL_RESET) != 0,
            (PMA, CONTROL) => value & CONTROL_RESET != 0,
            _ => false,
        };
        let kept = match register {
            CONTROL => value & !(AN_RESTART | CONTROL_RESET),
            _ => value,
        };
        self.link.phy.registers.insert((device, register), kept);
        if restarts {
            self.restart_link();
        } else {
            self.consider_link();
        }
    }
}
