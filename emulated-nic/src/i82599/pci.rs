//! The function on its bus: configuration space, the reset that comes from there, and which of its
//! registers are doorbells.

use std::time::Duration;

use super::core::{Config, Core, QUEUES};
use super::inject::Injection;
use super::interrupts::VECTORS;
use super::registers::{RDT, TDT};
use crate::config_space::{Bar, COMMAND_BUS_MASTER, COMMAND_MEMORY, ConfigSpace, Function, SIZE};

/// Registers and flash.
pub(crate) const REGISTER_BAR: Bar = Bar {
    index: 0,
    size: 0x8_0000,
    io: false,
};
/// An address and a data register, which lead to the registers.
pub(crate) const IO_BAR: Bar = Bar {
    index: 2,
    size: 32,
    io: true,
};
/// MSI-X table and pending bits.
pub(crate) const MSIX_BAR: Bar = Bar {
    index: 4,
    size: 0x4000,
    io: false,
};
/// Where the pending bits are in their BAR.
pub(crate) const PENDING_OFFSET: u32 = 0x2000;

/// Configuration space as a bus driver leaves it: memory and bus mastering are on.
pub(crate) fn config_space(config: &Config) -> ConfigSpace {
    let function = Function {
        vendor: 0x8086,
        device: config.variant.device_id(),
        revision: 1,
        class: [2, 0, 0],
        mac: config.mac,
        vectors: VECTORS,
        msix_bar: MSIX_BAR.index,
        pending_offset: PENDING_OFFSET,
    };
    let mut space = ConfigSpace::new(&function, &[REGISTER_BAR, IO_BAR, MSIX_BAR]);
    space.set_command(COMMAND_MEMORY | COMMAND_BUS_MASTER, true);
    space
}

impl Core {
    /// Sixteen bits of configuration space; `None` outside of it.
    pub(crate) fn config_read16(&self, offset: u16) -> Option<u16> {
        let held = self.pci.read16(offset.into())?;
        Some(match self.inject.is_gone(self.now) {
            true => u16::MAX,
            false => held,
        })
    }

    /// Bytes of configuration space. False where they are not all inside.
    pub(crate) fn config_read(&self, offset: u64, into: &mut [u8]) -> bool {
        let inside = self.pci.read(offset.min(SIZE as u64) as usize, into);
        if self.inject.is_gone(self.now) {
            into.fill(0xff);
        }
        inside
    }

    /// Writes configuration space. False where it is not all inside.
    pub(crate) fn config_write(&mut self, now: Duration, offset: u64, data: &[u8]) -> bool {
        self.advance(now);
        if self.inject.is_gone(now) {
            return offset.saturating_add(data.len() as u64) <= SIZE as u64;
        }
        let Some(effects) = self.pci.write(offset.min(SIZE as u64) as usize, data) else {
            return false;
        };
        if effects.reset && self.function_reset(now) {
            self.pci.reset();
        }
        self.load_command();
        true
    }

    /// Configuration space as after power-on: nothing is enabled.
    pub(crate) fn config_reset(&mut self) {
        self.pci.reset();
        self.load_command();
    }

    /// Turns bus mastering on or off, as the command register does.
    pub(crate) fn set_bus_master(&mut self, on: bool) {
        self.pci.set_command(COMMAND_BUS_MASTER, on);
        self.load_command();
    }

    fn load_command(&mut self) {
        self.memory.bus_master = self.pci.command() & COMMAND_BUS_MASTER != 0;
    }

    /// A function-level reset, which is over when it returns. False where it is refused.
    pub(crate) fn function_reset(&mut self, now: Duration) -> bool {
        self.advance(now);
        if self.inject.has(Injection::RefuseReset) || self.inject.is_gone(now) {
            return false;
        }
        self.begin_reset(0);
        true
    }

    /// Which doorbell a tail register is.
    pub(crate) fn doorbell_index(&self, offset: u32) -> Option<usize> {
        let found = self
            .regs
            .decode(offset)
            .filter(|_| offset.is_multiple_of(4))?;
        match found.register.name {
            name if name == RDT.name => Some(found.index),
            name if name == TDT.name => Some(QUEUES + found.index),
            _ => None,
        }
    }
}
