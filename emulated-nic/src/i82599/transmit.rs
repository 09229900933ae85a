//! The transmit path (82599 datasheet 7.2): from a ring, packet by packet, to the wire.

use super::core::{Core, QUEUES};
use super::inject::Injection;
use super::registers::*;
use super::segment::{self, Segments, Unfit};
use super::statistics::{FCS, TxTally};
use super::tx_descriptor::{Context, Data, Descriptor, MAX_PARTS, decode};
use super::tx_offload;
use super::tx_ring::TxQueue;
use crate::batch::{FrameBatch, MAX_FRAME};
use crate::fcs::fcs;
use crate::memory::Access as Dma;
use crate::strict::Rule;

pub(super) const DMATXCTL_TE: u32 = 1;
const HLREG0_TXCRCEN: u32 = 1;
const HLREG0_LPBK: u32 = 1 << 15;
const HLREG0_TXPADEN: u32 = 1 << 10;
const SECTX_DIS: u32 = 1 << 1;
/// Shortest packet of a driver, and shortest frame on the wire, without FCS.
const MIN_PACKET: usize = 14;
const MIN_FRAME: usize = 60;
/// What a finished descriptor's second word is.
const DD: u64 = 1 << 32;

/// The transmit engine.
pub(crate) struct Transmit {
    pub(super) queues: Box<[TxQueue]>,
    /// Queues that are on.
    pub(super) active: Vec<u16>,
    pub(super) changing: bool,
    /// Bus mastering is stopped (CTRL.GIO_DIS).
    pub(crate) stalled: bool,
    /// On their way to the wire.
    pub(super) batch: FrameBatch,
    pub(super) enabled: bool,
    pub(super) pad: bool,
    pub(super) add_fcs: bool,
    /// Frames come back inside the MAC (HLREG0.LPBK).
    pub(super) loopback: bool,
    pub(super) vlan_type: u16,
    pub(super) tally: TxTally,
    packet: Box<Packet>,
    pub(super) segments: Segments,
    /// Queues with descriptors written back since the last interrupt.
    pub(super) touched: u128,
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
            loopback: false,
            vlan_type: 0x8100,
            tally: TxTally::default(),
            packet: Box::new(Packet::default()),
            segments: Segments::default(),
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
        self.batch.len() as u64 + self.segments.waiting()
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
        tx.loopback = hlreg0 & HLREG0_LPBK != 0;
        tx.active.clear();
        for (n, q) in tx.queues.iter_mut().enumerate().filter(|(_, q)| q.ring.on) {
            q.load(regs, n);
            tx.active.push(n as u16);
        }
    }

    /// Sends at most about `budget` packets of each queue. True where anything moved.
    pub(crate) fn step_transmit(&mut self, budget: usize) -> bool {
        let mut progress = self.push_to_wire() | self.send_segments();
        let connected = self.link.is_up() || self.tx.loopback;
        if !self.tx.enabled || self.tx.stalled || !connected {
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
            // Segments of the packet before go first.
            let busy = self.tx.segments.is_busy();
            if busy || !self.has_room_to_send() || !self.gather(n, &mut packet) {
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
            self.send_segments();
        }
        self.tx.packet = packet;
        progress
    }

    pub(super) fn has_room_to_send(&mut self) -> bool {
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
        if self.tx.loopback {
            self.counts.looped += batch.len() as u64;
            self.receive_looped(&batch);
            batch.clear();
            self.tx.batch = batch;
            return true;
        }
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
                Descriptor::Unknown if packet.count == 0 => {
                    self.strict.note(Rule::NotModelled, "TDBAL", n, words[1]);
                    q.ring.head = q.ring.after(q.ring.head, 1);
                }
                Descriptor::Context(..) | Descriptor::Unknown => {
                    // In the middle of a packet, which it spoils: a piece without length.
                    self.strict.note(Rule::NotModelled, "TDBAL", n, words[1]);
                    if let Some(slot) = packet.parts.get_mut(packet.count) {
                        *slot = Data::default();
                    }
                    packet.count += 1;
                    i += 1;
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
        let first = packet.parts[0];
        if first.wants_segmentation() {
            return self.build_segments(n, packet);
        }
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

    /// Reads a packet that leaves in segments, of which the first leave at once.
    fn build_segments(&mut self, n: usize, packet: &Packet) -> Result<(), Refused> {
        let tx = &mut self.tx;
        let mut rest = tx.segments.room(packet.len);
        for part in packet.parts() {
            let (now, later) = rest.split_at_mut(part.len());
            if !self.memory.read_buffer(part.address(), now) {
                return Err(Refused::Fault);
            }
            rest = later;
        }
        let first = packet.parts[0];
        let context = tx.queues[n].contexts[first.context()].ok_or(Refused::Invalid)?;
        let counter = tx.queues[n].counter;
        self.begin_segments(first, packet.last, context, counter);
        Ok(())
    }

    /// Pads the frame, or takes the driver's own FCS off it.
    pub(super) fn finish_frame(&mut self, wants_fcs: bool) {
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
        let longest = match first.wants_segmentation() {
            true => segment::MAX_PACKET,
            false => MAX_FRAME - 4,
        };
        if !(MIN_PACKET..=longest).contains(&packet.len) {
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
            let Some(context) = &q.contexts[first.context()] else {
                return broken(Rule::TxContextMissing, first.context() as u64);
            };
            return match segment::check(first, context, packet.len) {
                Ok(()) => Ok(()),
                Err(Unfit::Payload) => broken(Rule::TxPaylenMismatch, first.payload_len() as u64),
                Err(Unfit::Length) => broken(Rule::TxSegmentLength, packet.len as u64),
                Err(Unfit::Protocol) => broken(Rule::NotModelled, packet.len as u64),
            };
        }
        if first.payload_len() != packet.len {
            return broken(Rule::TxPaylenMismatch, first.payload_len() as u64);
        }
        let sums = first.wants_ip_checksum() || first.wants_l4_checksum();
        let needed = sums || packet.last.wants_vlan();
        if needed && q.contexts[first.context()].is_none() {
            return broken(Rule::TxContextMissing, first.context() as u64);
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
