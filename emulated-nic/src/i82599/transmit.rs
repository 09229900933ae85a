//! The transmit path (82599 datasheet 7.2): from a ring, packet by packet, to the wire.

use super::core::{Core, QUEUES};
use super::inject::Injection;
use super::queue::{ENABLE, Ring, check_base, check_len};
use super::registers::*;
use super::statistics::{FCS, TxTally, queue_counter};
use super::tx_descriptor::{Context, Data, Descriptor, L4Type, MAX_PARTS, decode};
use super::tx_offload;
use crate::batch::{FrameBatch, MAX_FRAME};
use crate::fcs::fcs;
use crate::memory::Access as Dma;
use crate::strict::Rule;

const DMATXCTL_TE: u32 = 1;
const RTTDCS_ARBDIS: u32 = 1 << 6;
const HLREG0_TXCRCEN: u32 = 1;
const HLREG0_TXPADEN: u32 = 1 << 10;
const SECTX_DIS: u32 = 1 << 1;
const TDWBAL_HEAD_WB: u32 = 1;
const WTHRESH_SHIFT: u32 = 16;
const WTHRESH: u32 = 0x7f;
/// Shortest packet of a driver, and shortest frame on the wire, without FCS.
const MIN_PACKET: usize = 14;
const MIN_FRAME: usize = 60;
/// What a finished descriptor's second word is.
const DD: u64 = 1 << 32;

/// A transmit queue.
#[derive(Debug, Default)]
struct TxQueue {
    ring: Ring,
    contexts: [Option<Context>; 8],
    /// Where the head is written to, instead of descriptors.
    head_at: Option<u64>,
    counter: usize,
    /// It has used advanced descriptors.
    advanced: bool,
    /// The tail at which a packet was found without an end.
    endless: Option<u32>,
    /// The ring cannot be reached: nothing more happens until the queue is turned off.
    stuck: bool,
}

/// The transmit engine.
pub(crate) struct Transmit {
    queues: Box<[TxQueue]>,
    /// Queues that are on.
    active: Vec<u16>,
    changing: bool,
    /// Bus mastering is stopped (CTRL.GIO_DIS).
    pub(crate) stalled: bool,
    /// On their way to the wire.
    batch: FrameBatch,
    enabled: bool,
    pad: bool,
    add_fcs: bool,
    vlan_type: u16,
    tally: TxTally,
    packet: Box<Packet>,
    /// Queues with descriptors written back since the last interrupt.
    touched: u128,
}

/// A packet's descriptors.
struct Packet {
    parts: [Data; MAX_PARTS],
    /// Descriptors, of which at most as many as there is room for are in `parts`.
    count: usize,
    last: Data,
    len: usize,
}

impl Default for Packet {
    fn default() -> Self {
        Packet {
            parts: [Data::default(); MAX_PARTS],
            count: 0,
            last: Data::default(),
            len: 0,
        }
    }
}

impl Packet {
    fn parts(&self) -> &[Data] {
        &self.parts[..self.count.min(MAX_PARTS)]
    }
}

/// Why a packet is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Invalid,
    Fault,
}

impl Transmit {
    pub(crate) fn new() -> Self {
        Transmit {
            queues: (0..QUEUES).map(|_| TxQueue::default()).collect(),
            active: Vec::with_capacity(QUEUES),
            changing: false,
            stalled: false,
            batch: FrameBatch::new(),
            enabled: false,
            pad: true,
            add_fcs: true,
            vlan_type: 0x8100,
            tally: TxTally::default(),
            packet: Box::new(Packet::default()),
            touched: 0,
        }
    }

    /// After a reset.
    pub(crate) fn restart(&mut self) {
        for q in &mut self.queues {
            *q = TxQueue::default();
        }
        self.active.clear();
        self.changing = false;
    }

    /// Frames on their way to the wire.
    pub(crate) fn waiting(&self) -> u64 {
        self.batch.len() as u64
    }
}

impl Core {
    /// Brings what the engine remembers up to date with the registers.
    pub(crate) fn load_transmit(&mut self) {
        let regs = &self.regs;
        let tx = &mut self.tx;
        let hlreg0 = regs.get(&HLREG0);
        let dmatxctl = regs.get(&DMATXCTL);
        tx.enabled = dmatxctl & DMATXCTL_TE != 0 && regs.get(&SECTXCTRL) & SECTX_DIS == 0;
        tx.vlan_type = (dmatxctl >> 16) as u16;
        tx.pad = hlreg0 & HLREG0_TXPADEN != 0;
        tx.add_fcs = hlreg0 & HLREG0_TXCRCEN != 0;
        tx.active.clear();
        for (n, q) in tx.queues.iter_mut().enumerate().filter(|(_, q)| q.ring.on) {
            let low = regs.at(&TDBAL, n);
            q.ring.base = u64::from(regs.at(&TDBAH, n)) << 32 | u64::from(low);
            q.ring.count = regs.at(&TDLEN, n) / 16;
            let head = u64::from(regs.at(&TDWBAH, n)) << 32 | u64::from(regs.at(&TDWBAL, n) & !3);
            q.head_at = (regs.at(&TDWBAL, n) & TDWBAL_HEAD_WB != 0).then_some(head);
            q.counter = queue_counter(regs, &TQSM, n);
            tx.active.push(n as u16);
        }
    }

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

    /// Sends at most about `budget` packets of each queue. True where anything moved.
    pub(crate) fn step_transmit(&mut self, budget: usize) -> bool {
        let mut progress = self.push_to_wire();
        if !self.tx.enabled || self.tx.stalled || !self.link.is_up() {
            return progress;
        }
        for i in 0..self.tx.active.len() {
            let n = self.tx.active[i] as usize;
            progress |= self.step_tx_queue(n, budget);
        }
        progress |= self.push_to_wire();
        self.tx.tally.flush(&mut self.regs);
        let touched = std::mem::take(&mut self.tx.touched);
        self.raise_queue_causes(touched, true);
        progress
    }

    fn step_tx_queue(&mut self, n: usize, budget: usize) -> bool {
        let tail = self.doorbells.get(QUEUES + n);
        self.tx.queues[n]
            .ring
            .look(tail, "TDT", n, &mut self.strict);
        let mut packet = std::mem::take(&mut self.tx.packet);
        let mut progress = false;
        for _ in 0..budget {
            if !self.has_room_to_send() || !self.gather(n, &mut packet) {
                break;
            }
            progress = true;
            self.counts.requested += 1;
            match self.build(n, &packet) {
                Ok(()) => {}
                Err(Refused::Invalid) => self.counts.tx_invalid += 1,
                Err(Refused::Fault) => self.counts.tx_fault += 1,
            }
            self.retire(n, &packet);
        }
        self.tx.packet = packet;
        progress
    }

    fn has_room_to_send(&mut self) -> bool {
        if !self.tx.batch.fits(MAX_FRAME) {
            self.push_to_wire();
        }
        self.tx.batch.fits(MAX_FRAME)
    }

    /// Hands what is ready to the wire. True where it took anything.
    fn push_to_wire(&mut self) -> bool {
        if self.tx.batch.is_empty() {
            return false;
        }
        let mut batch = std::mem::take(&mut self.tx.batch);
        let taken = match self.wire.egress.transmit(self.now, &batch) {
            Ok(taken) => {
                let taken = taken.min(batch.len());
                self.counts.transmitted += taken as u64;
                let sent = batch.iter().take(taken);
                self.counts.transmitted_bytes += sent.map(|f| f.data.len() as u64).sum::<u64>();
                taken
            }
            Err(error) => {
                log::error!("{error}");
                self.counts.tx_wire_error += batch.len() as u64;
                self.wire_error.get_or_insert(error);
                batch.len()
            }
        };
        batch.take(taken);
        if !batch.is_empty() {
            batch.compact();
        }
        self.tx.batch = batch;
        taken > 0
    }

    /// Collects the next whole packet of a queue, and takes the contexts before it. False where there
    /// is none.
    #[inline]
    fn gather(&mut self, n: usize, packet: &mut Packet) -> bool {
        packet.count = 0;
        packet.len = 0;
        let q = &mut self.tx.queues[n];
        let mut i = 0;
        while i < q.ring.owned() && !q.stuck {
            let at = q.ring.address(q.ring.after(q.ring.head, i));
            let Some(words) = self.memory.descriptor(Dma::TxDescriptor, at) else {
                q.stuck = true;
                return false;
            };
            match decode(words) {
                Descriptor::Context(number, context) if packet.count == 0 => {
                    q.contexts[number] = Some(context);
                    q.advanced = true;
                    q.ring.head = q.ring.after(q.ring.head, 1);
                }
                Descriptor::Data(data) => {
                    if let Some(slot) = packet.parts.get_mut(packet.count) {
                        *slot = data;
                    }
                    packet.count += 1;
                    packet.len += data.len();
                    i += 1;
                    if data.is_last() {
                        packet.last = data;
                        return true;
                    }
                }
                Descriptor::Context(..) | Descriptor::Unknown => {
                    self.strict.note(Rule::NotModelled, "TDBAL", n, words[1]);
                    q.ring.head = q.ring.after(q.ring.head, 1);
                }
            }
        }
        if packet.count > 0 && q.endless != Some(q.ring.tail) {
            q.endless = Some(q.ring.tail);
            self.strict
                .note(Rule::TxEopMissing, "TDT", n, u64::from(q.ring.tail));
        }
        false
    }

    /// Appends the packet to what goes to the wire, as it will be there.
    #[inline]
    fn build(&mut self, n: usize, packet: &Packet) -> Result<(), Refused> {
        self.check(n, packet)?;
        let tx = &mut self.tx;
        let mut rest = tx.batch.append(packet.len).ok_or(Refused::Invalid)?;
        for part in packet.parts() {
            let (now, later) = rest.split_at_mut(part.len());
            if !self.memory.read_buffer(part.address(), now) {
                tx.batch.pop_last();
                return Err(Refused::Fault);
            }
            rest = later;
        }
        let first = packet.parts[0];
        let context = tx.queues[n].contexts[first.context()];
        if let Some(frame) = tx.batch.last_mut() {
            insert_checksums(first, context, frame);
        }
        if packet.last.wants_vlan() {
            let tag = match context {
                Some(context) if !first.is_legacy() => context.vlan_tag(),
                _ => packet.last.legacy_vlan_tag(),
            };
            tx_offload::insert_vlan(&mut tx.batch, tx.vlan_type, tag);
        }
        self.finish_frame(packet.last.wants_fcs());
        let tx = &mut self.tx;
        if let Some(frame) = tx.batch.last_mut() {
            let octets = frame.len() as u64 + FCS;
            tx.tally.sent(frame, octets, tx.queues[n].counter);
        }
        Ok(())
    }

    /// Pads the frame, or takes the driver's own FCS off it.
    fn finish_frame(&mut self, wants_fcs: bool) {
        let tx = &mut self.tx;
        let Some(frame) = tx.batch.last_mut() else {
            return;
        };
        let len = frame.len();
        if wants_fcs && tx.add_fcs {
            if tx.pad && len < MIN_FRAME {
                tx.batch.resize_last(MIN_FRAME);
            }
            return;
        }
        let (body, tail) = frame.split_at(len.saturating_sub(FCS as usize));
        let good = tail == fcs(body).to_le_bytes();
        tx.batch.resize_last(len.saturating_sub(FCS as usize));
        if !good {
            tx.batch.spoil_fcs();
        }
    }

    /// Checks what a driver has to get right of a packet.
    #[inline]
    fn check(&mut self, n: usize, packet: &Packet) -> Result<(), Refused> {
        let first = packet.parts[0];
        let q = &mut self.tx.queues[n];
        let mut broken = |rule, value: u64| {
            self.strict.note(rule, "TDBAL", n, value);
            Err(Refused::Invalid)
        };
        if packet.count > MAX_PARTS {
            return broken(Rule::TxTooManyDescriptors, packet.count as u64);
        }
        if packet.parts().iter().any(|part| part.len() == 0) {
            return broken(Rule::TxLengthZero, packet.len as u64);
        }
        if !(MIN_PACKET..=MAX_FRAME - 4).contains(&packet.len) {
            return broken(Rule::TxPacketLength, packet.len as u64);
        }
        if first.is_legacy() {
            if q.advanced {
                let _ = broken(Rule::TxLegacyInAdvancedRing, 0);
            }
            return Ok(());
        }
        q.advanced = true;
        if first.wants_segmentation() {
            return broken(Rule::NotModelled, packet.len as u64);
        }
        if first.payload_len() != packet.len {
            return broken(Rule::TxPaylenMismatch, first.payload_len() as u64);
        }
        let sums = first.wants_ip_checksum() || first.wants_l4_checksum();
        if sums || packet.last.wants_vlan() {
            match q.contexts[first.context()] {
                None => return broken(Rule::TxContextMissing, first.context() as u64),
                Some(c) if first.wants_l4_checksum() && c.l4() == L4Type::Sctp => {
                    return broken(Rule::NotModelled, 0);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Gives the packet's descriptors back.
    #[inline]
    fn retire(&mut self, n: usize, packet: &Packet) {
        let q = &mut self.tx.queues[n];
        let first = q.ring.head;
        q.ring.head = q.ring.after(first, packet.count as u32);
        let mut reports = packet.last.wants_report();
        let silent = !self.inject.is_empty() && self.inject.has(Injection::TxNoWriteBack);
        if q.head_at.is_none() && !silent {
            // All but the last report only in a packet that asks for it oddly; each is honoured.
            let inner = packet.parts().iter().take(packet.count - 1);
            for (i, _) in inner.enumerate().filter(|(_, part)| part.wants_report()) {
                let at = q.ring.address(q.ring.after(first, i as u32));
                self.memory.write_back(Dma::TxDescriptor, at, [0, DD]);
                reports = true;
            }
            if packet.last.wants_report() {
                let at = q.ring.address(q.ring.after(first, packet.count as u32 - 1));
                self.memory.write_back(Dma::TxDescriptor, at, [0, DD]);
            }
        } else if let Some(at) = q.head_at
            && reports
            && !silent
        {
            self.memory.write_head(at, q.ring.head);
        }
        if reports {
            self.tx.touched |= 1 << n;
        }
    }
}

/// The checksums that the packet asks for.
#[inline]
fn insert_checksums(first: Data, context: Option<Context>, frame: &mut [u8]) {
    if let Some((offset, start)) = first.legacy_checksum() {
        tx_offload::insert_legacy(frame, offset, start);
    }
    let Some(context) = context else {
        return;
    };
    if first.wants_l4_checksum() {
        tx_offload::insert_l4(frame, &context);
    }
    if first.wants_ip_checksum() {
        tx_offload::insert_ip(frame, &context);
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

pub(crate) fn read_tail(core: &mut Core, n: usize, _: u32) -> u32 {
    core.doorbells.get(QUEUES + n)
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

impl Core {
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
