//! What a driver asks of PCI configuration space, and the reset that comes from there.

use std::time::Duration;

use super::core::{Core, QUEUES};
use super::inject::Injection;
use super::registers::{RDT, TDT};

const VENDOR: u16 = 0x8086;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_BUS_MASTER: u16 = 1 << 2;
const CLASS_ETHERNET: u16 = 0x0200;
/// Device Control 2: completion timeout 16 to 32 ms.
const COMPLETION_TIMEOUT: u16 = 6;
/// Link Status: 5 GT/s on eight lanes.
const LINK_STATUS: u16 = 8 << 4 | 2;
const CONFIG_SPACE: u16 = 4096;

impl Core {
    /// Sixteen bits of configuration space; `None` outside of it. Registers that no driver of the
    /// family reads are 0.
    pub(crate) fn config_read16(&self, offset: u16) -> Option<u16> {
        if offset >= CONFIG_SPACE || !offset.is_multiple_of(2) {
            return None;
        }
        if self.inject.is_gone(self.now) {
            return Some(u16::MAX);
        }
        Some(match offset {
            0x00 => VENDOR,
            0x02 => self.config.variant.device_id(),
            0x04 if self.memory.bus_master => COMMAND_MEMORY | COMMAND_BUS_MASTER,
            0x04 => COMMAND_MEMORY,
            0x08 => 1,
            0x0a => CLASS_ETHERNET,
            0xb2 => LINK_STATUS,
            0xc8 => COMPLETION_TIMEOUT,
            _ => 0,
        })
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
