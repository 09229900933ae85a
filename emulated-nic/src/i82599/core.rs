//! The whole NIC under one lock: registers, engines, wire. A register access and a step are the two
//! things that happen to it.

use std::sync::Arc;
use std::time::Duration;

use driver_core::ALL_ONES;

use super::eeprom::Eeprom;
use super::filter::Filter;
use super::inject::Injections;
use super::interrupts::Interrupts;
use super::link::LinkState;
use super::pci::config_space;
use super::receive::Receive;
use super::register_file::{Decoded, RegisterFile, SPACE};
use super::registers::STATUS;
use super::reset::ResetState;
use super::rss::Rss;
use super::sfp::{self, Module};
use super::transmit::Transmit;
use crate::config_space::ConfigSpace;
use crate::counts::WireCounts;
use crate::memory::{Doorbells, Memory};
use crate::strict::{Rule, StrictLog};
use crate::wire::{Wire, WireError};
use crate::{Undersize, Variant};

/// Queues of each direction.
pub(crate) const QUEUES: usize = 128;

/// What a model is made with.
pub(crate) struct Config {
    pub(crate) variant: Variant,
    pub(crate) mac: [u8; 6],
    pub(crate) port: u32,
    pub(crate) undersize: Undersize,
    pub(crate) link_delay: Duration,
    pub(crate) seed: u64,
}

pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) pci: ConfigSpace,
    pub(crate) regs: RegisterFile,
    pub(crate) doorbells: Arc<Doorbells>,
    pub(crate) memory: Memory,
    pub(crate) strict: StrictLog,
    pub(crate) reset: ResetState,
    pub(crate) eeprom: Eeprom,
    pub(crate) link: LinkState,
    /// What is in the SFP+ cage.
    pub(crate) module: Option<Module>,
    pub(crate) interrupts: Interrupts,
    pub(crate) filter: Filter,
    pub(crate) rss: Rss,
    pub(crate) rx: Receive,
    pub(crate) tx: Transmit,
    pub(crate) wire: Wire,
    pub(crate) wire_error: Option<WireError>,
    pub(crate) counts: WireCounts,
    pub(crate) inject: Injections,
    /// Registers were written that the engines have derived something from.
    pub(crate) dirty: bool,
    /// Buffers are scribbled over to their full size for every packet, not now and then.
    pub(crate) thorough: bool,
    pub(crate) now: Duration,
}

impl Core {
    pub(crate) fn new(
        config: Config,
        wire: Wire,
        doorbells: Arc<Doorbells>,
        interrupts: Interrupts,
    ) -> Self {
        let mut regs = RegisterFile::new(config.variant);
        regs.fill_with_noise(config.seed);
        let mut core = Core {
            pci: config_space(&config),
            eeprom: Eeprom::new(config.mac, config.variant),
            regs,
            doorbells,
            memory: Memory::new(),
            strict: StrictLog::default(),
            reset: ResetState::default(),
            link: LinkState::default(),
            module: sfp::module(config.variant, config.mac),
            interrupts,
            filter: Filter::default(),
            rss: Rss::default(),
            rx: Receive::new(config.variant),
            tx: Transmit::new(),
            wire,
            wire_error: None,
            counts: WireCounts::default(),
            inject: Injections::default(),
            dirty: true,
            thorough: true,
            now: Duration::ZERO,
            config,
        };
        core.power_on();
        core
    }

    /// Reads the register at `offset`.
    pub(crate) fn read(&mut self, now: Duration, offset: u32) -> u32 {
        self.advance(now);
        let Some(d) = self.access(offset) else {
            // Inside of the register space, places without a register read as 0.
            let inside = offset < SPACE && offset.is_multiple_of(4);
            return if inside && !self.inject.is_gone(now) {
                0
            } else {
                ALL_ONES
            };
        };
        match d.register.read {
            None => self.regs.read(d),
            Some(f) => {
                let held = self.regs.held(d);
                f(self, d.index, held)
            }
        }
    }

    /// Writes the register at `offset`.
    pub(crate) fn write(&mut self, now: Duration, offset: u32, value: u32) {
        self.advance(now);
        let Some(d) = self.access(offset) else {
            // Reading there is harmless, and dumps of registers do.
            if offset.is_multiple_of(4) && !self.inject.is_gone(now) {
                self.strict
                    .note(Rule::UnknownRegister, "", 0, u64::from(offset));
            }
            return;
        };
        let before = self.regs.held(d);
        self.regs.write(d, value);
        self.dirty |= !d.register.aside;
        if let Some(f) = d.register.write {
            f(self, d.index, before, value);
        }
    }

    fn access(&mut self, offset: u32) -> Option<Decoded> {
        if self.inject.is_gone(self.now) {
            return None;
        }
        if !offset.is_multiple_of(4) {
            self.strict
                .note(Rule::UnalignedAccess, "", 0, u64::from(offset));
            return None;
        }
        let found = self.regs.decode(offset);
        match found {
            None => {}
            // Reading STATUS is how a driver makes sure that its write of CTRL has arrived.
            Some(d) if d.register.name == STATUS.name => {}
            Some(d) if self.reset.forbids_access(self.now) => {
                self.strict
                    .note(Rule::AccessDuringReset, d.register.name, d.index, 0);
            }
            Some(_) => {}
        }
        found
    }

    /// Lets time pass: resets end, the link comes up, queues turn on and off.
    pub(crate) fn advance(&mut self, now: Duration) {
        self.now = now;
        self.strict.now = now;
        self.memory.now = now;
        self.advance_reset();
        self.advance_link();
    }

    /// Works for at most about `budget` frames in each direction. True where anything was done.
    pub(crate) fn step(&mut self, now: Duration, budget: usize) -> bool {
        self.advance(now);
        if self.inject.is_gone(now) {
            return false;
        }
        self.settle();
        let faults = self.memory.fault_count;
        let sent = self.step_transmit(budget);
        let received = self.step_receive(budget);
        self.note_faults(faults);
        self.fire_interrupts();
        sent | received
    }

    /// Brings what the engines remember up to date with the registers.
    fn settle(&mut self) {
        let queues_changed = self.advance_queues();
        if self.dirty || queues_changed {
            self.dirty = false;
            self.filter.load(&self.regs);
            self.rss.load(&self.regs, self.config.variant);
            self.load_receive();
            self.load_transmit();
        }
    }

    fn note_faults(&mut self, before: u64) {
        for i in before..self.memory.fault_count {
            // Faults that were not kept are only counted here too.
            let fault = self.memory.faults().get(i as usize);
            let rule = match fault.is_some_and(|f| f.bus_master_off) {
                true => Rule::DmaWithoutBusMaster,
                false => Rule::DmaOutsideMapping,
            };
            let iova = fault.map_or(0, |f| f.iova);
            self.strict.note(rule, "", 0, iova);
        }
    }

    /// Lets queues that were asked to do so turn on or off. True where one did.
    pub(crate) fn advance_queues(&mut self) -> bool {
        self.advance_rx_queues() | self.advance_tx_queues()
    }
}
