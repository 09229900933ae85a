//! Receive queues: their registers, and how a frame gets into a ring (82599 datasheet 7.1.3, 7.1.9).

use super::core::{Core, QUEUES};
use super::inject::{Injection, Injections};
use super::mac::Class;
use super::queue::{ENABLE, Ring, check_base, check_len};
use super::receive::Receive;
use super::register_file::RegisterFile;
use super::registers::*;
use super::statistics::{FCS, queue_counter};
use super::write_back::{Buffer, PacketInfo};
use crate::Variant;
use crate::batch::WireFrame;
use crate::fcs::fcs;
use crate::memory::{Access as Dma, Memory};
use crate::strict::Rule;

const DCA_RXCTRL_BIT12: u32 = 1 << 12;
const SRRCTL_DROP_EN: u32 = 1 << 28;
const RXDCTL_VME: u32 = 1 << 30;
const RXDCTL_RLPML_EN: u32 = 1 << 15;
const RXDCTL_RLPML: u32 = 0x3fff;
const RSCCTL_RSCEN: u32 = 1;
/// Bytes of tags that a frame may have beyond the longest.
const TAGS: usize = 8;
const TPID_VLAN: [u8; 2] = [0x81, 0x00];
/// Every so many packets a buffer is scribbled over while the model runs on its own thread.
const SCRIBBLE_EVERY: u32 = 61;

/// A receive queue.
#[derive(Debug, Default)]
pub(super) struct RxQueue {
    pub(super) ring: Ring,
    /// Bytes of a buffer.
    pub(super) buffer: usize,
    pub(super) advanced: bool,
    pub(super) drop: bool,
    pub(super) strip_vlan: bool,
    /// Longest frame with FCS; 0 where the queue has no limit.
    pub(super) max_frame: u64,
    pub(super) counter: usize,
    /// The ring cannot be reached: nothing more happens until the queue is turned off.
    pub(super) stuck: bool,
    pub(super) checked_dca: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    Done,
    NoDescriptor { drop: bool },
}

impl RxQueue {
    /// Takes over what the registers say; the queue is on.
    pub(super) fn load(&mut self, regs: &RegisterFile, n: usize, variant: Variant) {
        let (rxdctl, srrctl) = (regs.at(&RXDCTL, n), regs.at(&SRRCTL, n));
        let base = u64::from(regs.at(&RDBAH, n)) << 32 | u64::from(regs.at(&RDBAL, n));
        self.ring.set(base, regs.at(&RDLEN, n));
        self.buffer = (srrctl & 0x1f) as usize * 1024;
        self.advanced = srrctl >> 25 & 7 != 0;
        self.drop = srrctl & SRRCTL_DROP_EN != 0;
        self.strip_vlan = rxdctl & RXDCTL_VME != 0;
        // The 82599 does not have the limit.
        let limited = variant != Variant::I82599 && rxdctl & RXDCTL_RLPML_EN != 0;
        self.max_frame = if limited {
            u64::from(rxdctl & RXDCTL_RLPML)
        } else {
            0
        };
        self.counter = queue_counter(regs, &RQSMR, n);
    }
}

impl Core {
    pub(crate) fn advance_rx_queues(&mut self) -> bool {
        if !self.rx.changing {
            return false;
        }
        let mut changed = false;
        for n in 0..QUEUES {
            let q = &mut self.rx.queues[n];
            match q.ring.change(self.now) {
                Some(true) => {
                    q.stuck = false;
                    q.checked_dca = false;
                    q.ring.start(self.regs.at(&RDH, n));
                    self.drop_early_tail(n, Rule::RdtBeforeEnable, "RDT", n);
                }
                Some(false) => {
                    let head = q.ring.head;
                    self.regs.set_at(&RDH, n, head);
                    self.doorbells.set(n, 0);
                }
                None => continue,
            }
            changed = true;
        }
        self.rx.changing = self.rx.queues.iter().any(|q| q.ring.is_changing());
        changed
    }

    /// A tail that was stored while its queue was off is lost.
    pub(crate) fn drop_early_tail(
        &mut self,
        doorbell: usize,
        rule: Rule,
        name: &'static str,
        n: usize,
    ) {
        let tail = self.doorbells.get(doorbell);
        if tail != 0 {
            self.strict.note(rule, name, n, u64::from(tail));
            self.doorbells.set(doorbell, 0);
        }
    }

    /// Puts a frame into its queue's ring, or says that there is no room.
    #[inline]
    pub(super) fn place(&mut self, frame: WireFrame<'_>, class: &Class) -> Placed {
        let n = class.spread.queue;
        let q = &mut self.rx.queues[n];
        if !q.ring.on || q.stuck || q.buffer == 0 || q.ring.count == 0 {
            self.counts.queue_off += 1;
            return Placed::Done;
        }
        if q.max_frame != 0 && frame.data.len() as u64 + FCS > q.max_frame {
            self.counts.too_long_for_queue += 1;
            return Placed::Done;
        }
        let edit = (q.strip_vlan && class.parsed.tag.is_some()) || !self.rx.strip_fcs;
        let mut scratch = std::mem::take(&mut self.rx.scratch);
        let data = if edit {
            edit_frame(
                frame,
                q.strip_vlan && class.parsed.tag.is_some(),
                self.rx.strip_fcs,
                &mut scratch,
            );
            &scratch[..]
        } else {
            frame.data
        };
        let needed = data.len().div_ceil(q.buffer) as u32;
        if q.ring.owned() < needed {
            let tail = self.doorbells.get(n);
            q.ring.look(tail, "RDT", n, &mut self.strict);
        }
        let placed = if q.ring.owned() < needed {
            Placed::NoDescriptor { drop: q.drop }
        } else {
            self.write_frame(n, data, class);
            Placed::Done
        };
        self.rx.scratch = scratch;
        placed
    }

    /// Writes a frame and its descriptors; the ring has enough of them.
    #[inline]
    pub(super) fn write_frame(&mut self, n: usize, data: &[u8], class: &Class) {
        let scribble = self.thorough || self.rx.time_to_scribble();
        if scribble {
            self.check_queue(n);
        }
        let q = &mut self.rx.queues[n];
        let info = PacketInfo {
            parsed: &class.parsed,
            inexact: class.inexact,
            stripped: if q.strip_vlan { class.parsed.tag } else { None },
            spread: class.spread,
            hash_in_descriptor: self.rx.hash_in_descriptor,
            bad: class.bad,
        };
        let faults = self.memory.fault_count;
        // The NIC may write a buffer's promised bytes as far as the longest frame goes, and no further: Linux
        // promises 2 KiB where it has room for 1536 bytes.
        let reach = q.buffer.min(self.rx.max_frame as usize + TAGS);
        let mut rest = data;
        let mut written_back = true;
        loop {
            let (now, later) = rest.split_at(rest.len().min(q.buffer));
            let at = q.ring.address(q.ring.head);
            let Some([buffer, _]) = self.memory.descriptor(Dma::RxDescriptor, at) else {
                q.stuck = true;
                break;
            };
            // A write to an address that is not mapped is lost, and the device does not learn of it.
            let reach = reach.max(now.len());
            self.memory.fill_buffer(buffer, reach, now, scribble);
            let last = later.is_empty();
            let mut words = info.words(
                q.advanced,
                Buffer {
                    len: now.len(),
                    last,
                },
            );
            written_back &= self.inject.is_empty() || apply(&self.inject, &mut words);
            q.ring.head = q.ring.after(q.ring.head, 1);
            if written_back {
                self.memory.write_back(Dma::RxDescriptor, at, words);
            }
            if last {
                break;
            }
            rest = later;
        }
        self.rx.touched |= 1 << n;
        if self.memory.fault_count != faults {
            self.counts.rx_fault += 1;
        } else if written_back {
            self.counts.delivered += 1;
            let octets = data.len() as u64 + if self.rx.strip_fcs { FCS } else { 0 };
            let counter = self.rx.queues[n].counter;
            let tally = &mut self.rx.tally;
            tally.to_host += 1;
            tally.to_host_octets += octets;
            tally.queue_packets[counter] += 1;
            tally.queue_octets[counter] += octets;
        } else {
            self.counts.rx_injected += 1;
        }
    }

    /// What a queue must have got right by the time that it receives.
    pub(super) fn check_queue(&mut self, n: usize) {
        let q = &mut self.rx.queues[n];
        if !q.checked_dca {
            q.checked_dca = true;
            let value = self.regs.at(&DCA_RXCTRL, n);
            if value & DCA_RXCTRL_BIT12 != 0 {
                self.strict
                    .note(Rule::DcaRxctrlBit12, "DCA_RXCTRL", n, u64::from(value));
            }
        }
        if q.ring.owned() < 2 {
            return;
        }
        // Two buffers that belong to the device at the same time are apart.
        let here = q.ring.address(q.ring.head);
        let next = q.ring.address(q.ring.after(q.ring.head, 1));
        let fetch = |m: &mut Memory, at| m.descriptor(Dma::RxDescriptor, at);
        let a = fetch(&mut self.memory, here);
        let b = fetch(&mut self.memory, next);
        if let (Some([a, _]), Some([b, _])) = (a, b)
            && a.abs_diff(b) < q.buffer as u64
        {
            self.strict.note(Rule::BuffersOverlap, "SRRCTL", n, b);
        }
    }

    fn advance_rx_queues_now(&mut self) {
        if self.advance_rx_queues() {
            self.dirty = true;
        }
    }
}

impl Receive {
    fn time_to_scribble(&mut self) -> bool {
        self.until_scribble -= 1;
        if self.until_scribble == 0 {
            self.until_scribble = SCRIBBLE_EVERY;
        }
        self.until_scribble == SCRIBBLE_EVERY
    }
}

/// A frame without its tag, or with its FCS.
fn edit_frame(frame: WireFrame<'_>, strip_vlan: bool, strip_fcs: bool, out: &mut Vec<u8>) {
    out.clear();
    match frame.data {
        data if strip_vlan && data.len() >= 16 && data[12..14] == TPID_VLAN => {
            out.extend_from_slice(&data[..12]);
            out.extend_from_slice(&data[16..]);
        }
        data => out.extend_from_slice(data),
    }
    if !strip_fcs {
        let sum = fcs(frame.data) ^ u32::from(frame.bad_fcs);
        out.extend_from_slice(&sum.to_le_bytes());
    }
}

/// Makes the write-back lie as a test asked. False where it is not to happen at all.
fn apply(injections: &Injections, words: &mut [u64; 2]) -> bool {
    let mut written = true;
    for injection in injections.iter() {
        match injection {
            Injection::RxLength(len) => {
                words[1] = words[1] & !(0xffff << 32) | u64::from(len) << 32
            }
            Injection::RxNeverEnds => words[1] &= !2,
            Injection::RxStatus(bits) => words[1] |= u64::from(bits),
            Injection::RxNoWriteBack => written = false,
            _ => {}
        }
    }
    written
}

pub(crate) fn write_base(core: &mut Core, n: usize, _: u32, value: u32) {
    check_base(&mut core.strict, "RDBAL", n, value);
}

pub(crate) fn write_len(core: &mut Core, n: usize, _: u32, value: u32) {
    check_len(&mut core.strict, "RDLEN", n, value);
}

pub(crate) fn read_head(core: &mut Core, n: usize, held: u32) -> u32 {
    let ring = &core.rx.queues[n].ring;
    if ring.on { ring.head } else { held }
}

pub(crate) fn write_head(core: &mut Core, n: usize, before: u32, value: u32) {
    if core.rx.queues[n].ring.on {
        core.strict
            .note(Rule::HeadWhileEnabled, "RDH", n, u64::from(value));
        core.regs.set_at(&RDH, n, before);
    }
}

pub(crate) fn read_tail(core: &mut Core, n: usize, held: u32) -> u32 {
    match core.rx.queues[n].ring.on {
        true => core.doorbells.get(n),
        false => held,
    }
}

pub(crate) fn write_tail(core: &mut Core, n: usize, _: u32, value: u32) {
    core.advance_rx_queues_now();
    if core.rx.queues[n].ring.on {
        // The next step looks at it, as at a tail that came without a trap.
        core.doorbells.set(n, value);
    } else if value != 0 {
        core.strict
            .note(Rule::RdtBeforeEnable, "RDT", n, u64::from(value));
    }
}

pub(crate) fn write_srrctl(core: &mut Core, n: usize, _: u32, value: u32) {
    let size = value & 0x1f;
    let kind = value >> 25 & 7;
    if !(1..=16).contains(&size) || kind > 1 {
        core.strict
            .note(Rule::BufferSize, "SRRCTL", n, u64::from(value));
    }
}

pub(crate) fn read_rxdctl(core: &mut Core, n: usize, held: u32) -> u32 {
    core.advance_rx_queues_now();
    held & !ENABLE | if core.rx.queues[n].ring.on { ENABLE } else { 0 }
}

pub(crate) fn write_rxdctl(core: &mut Core, n: usize, _: u32, value: u32) {
    core.advance_rx_queues_now();
    if !core.inject.has(Injection::HangRxQueue(n as u16)) {
        core.rx.queues[n].ring.ask(value & ENABLE != 0, core.now);
        core.rx.changing = true;
    }
}

pub(crate) fn write_rscctl(core: &mut Core, n: usize, _: u32, value: u32) {
    if value & RSCCTL_RSCEN != 0 {
        core.strict
            .note(Rule::NotModelled, "RSCCTL", n, u64::from(value));
    }
}

/// The override of DROP_EN by queue is not modelled.
pub(crate) fn write_pfqde(core: &mut Core, _: usize, _: u32, value: u32) {
    if value != 0 {
        core.strict
            .note(Rule::NotModelled, "PFQDE", 0, u64::from(value));
    }
}
