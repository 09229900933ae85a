//! Transmit queues: their registers and those that set transmission up (82599 datasheet 4.6.8).

use super::core::{Core, QUEUES};
use super::inject::Injection;
use super::queue::{ENABLE, Ring, check_base, check_len};
use super::register_file::RegisterFile;
use super::registers::*;
use super::statistics::queue_counter;
use super::transmit::DMATXCTL_TE;
use super::tx_descriptor::Context;
use crate::strict::Rule;

const RTTDCS_ARBDIS: u32 = 1 << 6;
const TDWBAL_HEAD_WB: u32 = 1;
const WTHRESH_SHIFT: u32 = 16;
const WTHRESH: u32 = 0x7f;

/// A transmit queue.
#[derive(Debug, Default)]
pub(super) struct TxQueue {
    pub(super) ring: Ring,
    pub(super) contexts: [Option<Context>; 8],
    /// Where the head is written to, instead of descriptors.
    pub(super) head_at: Option<u64>,
    pub(super) counter: usize,
    /// It has used advanced descriptors.
    pub(super) advanced: bool,
    /// The tail at which a packet was found without an end.
    pub(super) endless: Option<u32>,
    /// The ring cannot be reached: nothing more happens until the queue is turned off.
    pub(super) stuck: bool,
}

impl TxQueue {
    /// Takes over what the registers say; the queue is on.
    pub(super) fn load(&mut self, regs: &RegisterFile, n: usize) {
        let base = u64::from(regs.at(&TDBAH, n)) << 32 | u64::from(regs.at(&TDBAL, n));
        self.ring.set(base, regs.at(&TDLEN, n));
        let tdwbal = regs.at(&TDWBAL, n);
        let head_at = u64::from(regs.at(&TDWBAH, n)) << 32 | u64::from(tdwbal & !3);
        self.head_at = (tdwbal & TDWBAL_HEAD_WB != 0).then_some(head_at);
        self.counter = queue_counter(regs, &TQSM, n);
    }
}

impl Core {
    pub(crate) fn advance_tx_queues(&mut self) -> bool {
        if !self.tx.changing {
            return false;
        }
        let mut changed = false;
        for n in 0..QUEUES {
            let q = &mut self.tx.queues[n];
            match q.ring.change(self.now) {
                Some(true) => {
                    *q = TxQueue {
                        ring: std::mem::take(&mut q.ring),
                        ..TxQueue::default()
                    };
                    q.ring.start(self.regs.at(&TDH, n));
                    self.drop_early_tail(QUEUES + n, Rule::TdtBeforeEnable, "TDT", n);
                }
                Some(false) => {
                    let head = q.ring.head;
                    self.regs.set_at(&TDH, n, head);
                    self.doorbells.set(QUEUES + n, 0);
                }
                None => continue,
            }
            changed = true;
        }
        self.tx.changing = self.tx.queues.iter().any(|q| q.ring.is_changing());
        changed
    }

    fn advance_tx_queues_now(&mut self) {
        if self.advance_tx_queues() {
            self.dirty = true;
        }
    }

    fn check_tx_enable(&mut self, n: usize, txdctl: u32) {
        let value = u64::from(txdctl);
        let write_back = txdctl >> WTHRESH_SHIFT & WTHRESH;
        if self.regs.get(&DMATXCTL) & DMATXCTL_TE == 0 {
            self.strict.note(Rule::EnableBeforeTe, "TXDCTL", n, value);
        }
        if write_back > 0 && self.regs.at(&TDWBAL, n) & TDWBAL_HEAD_WB != 0 {
            self.strict
                .note(Rule::HeadWriteBackThreshold, "TXDCTL", n, value);
        }
    }
}

pub(crate) fn write_base(core: &mut Core, n: usize, _: u32, value: u32) {
    check_base(&mut core.strict, "TDBAL", n, value);
}

pub(crate) fn write_len(core: &mut Core, n: usize, _: u32, value: u32) {
    check_len(&mut core.strict, "TDLEN", n, value);
}

pub(crate) fn read_head(core: &mut Core, n: usize, held: u32) -> u32 {
    let ring = &core.tx.queues[n].ring;
    if ring.on { ring.head } else { held }
}

pub(crate) fn write_head(core: &mut Core, n: usize, before: u32, value: u32) {
    if core.tx.queues[n].ring.on {
        core.strict
            .note(Rule::HeadWhileEnabled, "TDH", n, u64::from(value));
        core.regs.set_at(&TDH, n, before);
    }
}

pub(crate) fn read_tail(core: &mut Core, n: usize, held: u32) -> u32 {
    match core.tx.queues[n].ring.on {
        true => core.doorbells.get(QUEUES + n),
        false => held,
    }
}

pub(crate) fn write_tail(core: &mut Core, n: usize, _: u32, value: u32) {
    core.advance_tx_queues_now();
    let enabled = core.regs.get(&DMATXCTL) & DMATXCTL_TE != 0;
    if core.tx.queues[n].ring.on && enabled {
        core.doorbells.set(QUEUES + n, value);
    } else if value != 0 {
        core.strict
            .note(Rule::TdtBeforeEnable, "TDT", n, u64::from(value));
    }
}

pub(crate) fn read_txdctl(core: &mut Core, n: usize, held: u32) -> u32 {
    core.advance_tx_queues_now();
    held & !ENABLE | if core.tx.queues[n].ring.on { ENABLE } else { 0 }
}

pub(crate) fn write_txdctl(core: &mut Core, n: usize, before: u32, value: u32) {
    core.advance_tx_queues_now();
    if value & ENABLE != 0 && before & ENABLE == 0 {
        core.check_tx_enable(n, value);
    }
    if !core.inject.has(Injection::HangTxQueue(n as u16)) {
        core.tx.queues[n].ring.ask(value & ENABLE != 0, core.now);
        core.tx.changing = true;
    }
}

pub(crate) fn write_tdwbal(core: &mut Core, n: usize, _: u32, value: u32) {
    if value & TDWBAL_HEAD_WB != 0 && value & 0xc != 0 {
        core.strict
            .note(Rule::HeadWriteBackAlignment, "TDWBAL", n, u64::from(value));
    }
}

pub(crate) fn write_dtxmxszrq(core: &mut Core, _: usize, _: u32, value: u32) {
    if value >> 12 != 0 {
        core.strict.note(
            Rule::DtxmxszrqReservedBits,
            "DTXMXSZRQ",
            0,
            u64::from(value),
        );
    }
}

pub(crate) fn write_mtqc(core: &mut Core, _: usize, _: u32, value: u32) {
    if core.regs.get(&RTTDCS) & RTTDCS_ARBDIS == 0 {
        core.strict
            .note(Rule::MtqcWithoutArbdis, "MTQC", 0, u64::from(value));
    }
    if value & 0xf != 0 {
        core.strict
            .note(Rule::NotModelled, "MTQC", 0, u64::from(value));
    }
}
