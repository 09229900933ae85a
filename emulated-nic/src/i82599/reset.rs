//! Power-on, resets and the general registers (82599 datasheet 4.2 and 8.2.3.1).

use std::time::Duration;

use super::core::{Core, QUEUES};
use super::inject::Injection;
use super::registers::*;
use crate::Variant;

/// CTRL: block bus mastering.
pub(crate) const CTRL_GIO_DIS: u32 = 1 << 2;
const CTRL_LNK_RST: u32 = 1 << 3;
const CTRL_RST: u32 = 1 << 26;
const STATUS_LINK: u32 = 1 << 7;
const STATUS_REQUESTS_ENABLED: u32 = 1 << 19;
const RDRXCTL_DMAIDONE: u32 = 1 << 3;

/// How long CTRL.RST reads 1.
const RST_TIME: Duration = Duration::from_micros(1500);
/// How long a driver has to stay away from the registers.
const RST_QUIET: Duration = Duration::from_millis(1);
/// From power-on or reset to RDRXCTL.DMAIDONE.
const DMA_INIT_TIME: Duration = Duration::from_millis(9);

/// Where a reset stands.
#[derive(Debug, Default)]
pub(crate) struct ResetState {
    /// CTRL bits that read 1 until the moment beside them.
    in_progress: u32,
    until: Duration,
    quiet_until: Duration,
    nvm_read_at: Duration,
    dma_init_at: Duration,
    /// The NVM has been read since the last reset (EEC.ARD).
    pub(crate) nvm_read: bool,
}

impl ResetState {
    pub(crate) fn forbids_access(&self, now: Duration) -> bool {
        now < self.quiet_until
    }
}

impl Core {
    pub(crate) fn power_on(&mut self) {
        self.restart();
    }

    /// Everything but memories back to what it is after a reset, now.
    pub(crate) fn restart(&mut self) {
        self.regs.reset(false);
        for n in 0..8 {
            let kib = self.config.variant.rx_packet_kib();
            self.regs.set_at(&RXPBSIZE, n, kib << 10);
        }
        self.regs.set_at(&TXPBTHRESH, 0, 0x96);
        for i in 0..2 * QUEUES {
            self.doorbells.set(i, 0);
        }
        self.counts.flushed += self.rx.restart();
        self.tx.restart();
        self.interrupts.restart();
        self.link_lost();
        self.reset.nvm_read = false;
        self.reset.nvm_read_at = self.now + nvm_read_time(self.config.variant);
        self.reset.dma_init_at = self.now + DMA_INIT_TIME;
        self.apply_bus_master();
        self.dirty = true;
    }

    /// A reset by the function's own register or by the bus.
    pub(crate) fn begin_reset(&mut self, ctrl_bits: u32) {
        self.restart();
        self.reset.in_progress = ctrl_bits;
        self.reset.until = self.now + RST_TIME;
        if ctrl_bits & CTRL_RST != 0 {
            self.reset.quiet_until = self.now + RST_QUIET;
        }
    }

    pub(crate) fn advance_reset(&mut self) {
        let r = &mut self.reset;
        if self.now >= r.until && !self.inject.has(Injection::RefuseReset) {
            r.in_progress = 0;
        }
        let read = self.now >= r.nvm_read_at && !self.inject.has(Injection::NoEeprom);
        if read && !r.nvm_read && r.in_progress == 0 {
            r.nvm_read = true;
            self.load_nvm();
        }
    }

    /// What the hardware takes from the NVM by itself.
    fn load_nvm(&mut self) {
        let [a, b, c, d, e, f] = self.config.mac;
        self.regs.set(&RAL, u32::from_le_bytes([a, b, c, d]));
        self.regs
            .set(&RAH, 1 << 31 | u32::from_le_bytes([e, f, 0, 0]));
        self.regs.set(&MPSAR_LO, 1);
        self.dirty = true;
        self.load_nvm_link();
    }

    /// Bus mastering is on where the bus says so and CTRL does not stop it.
    pub(crate) fn apply_bus_master(&mut self) {
        self.tx.stalled = self.regs.get(&CTRL) & CTRL_GIO_DIS != 0;
        self.rx.stalled = self.tx.stalled;
    }
}

fn nvm_read_time(variant: Variant) -> Duration {
    match variant {
        Variant::I82599 => Duration::from_millis(8),
        Variant::X540 | Variant::X550 => Duration::from_millis(60),
    }
}

pub(crate) fn read_ctrl(core: &mut Core, _: usize, held: u32) -> u32 {
    held | core.reset.in_progress
}

pub(crate) fn write_ctrl(core: &mut Core, _: usize, _: u32, value: u32) {
    let bits = value & (CTRL_RST | CTRL_LNK_RST);
    if bits != 0 {
        core.begin_reset(bits);
    } else {
        core.apply_bus_master();
    }
}

pub(crate) fn read_status(core: &mut Core, _: usize, _: u32) -> u32 {
    let mut v = core.config.port << 2;
    if core.link.is_up() {
        v |= STATUS_LINK;
    }
    if !core.rx.stalled {
        v |= STATUS_REQUESTS_ENABLED;
    }
    v
}

/// The free-running timer, in microseconds.
pub(crate) fn read_frtimer(core: &mut Core, _: usize, _: u32) -> u32 {
    core.now.as_micros() as u32
}

pub(crate) fn read_rdrxctl(core: &mut Core, _: usize, held: u32) -> u32 {
    let done = core.now >= core.reset.dma_init_at
        && core.reset.in_progress == 0
        && !core.inject.has(Injection::NoDmaInit);
    held & !RDRXCTL_DMAIDONE | if done { RDRXCTL_DMAIDONE } else { 0 }
}
