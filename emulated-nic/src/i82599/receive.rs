//! The receive path (82599 datasheet 7.1): from the wire through MAC, filters and RSS into a ring.
//!
//! A frame that finds no descriptor is lost at once where its queue says so (SRRCTL.DROP_EN), else it
//! waits in the packet buffer, and all that arrive after it wait behind it; what does not fit the
//! packet buffer is missed (MPC). Where the wire is patient, frames wait there instead.

use super::core::{Core, QUEUES};
use super::filter::Verdict;
use super::inject::Injection;
use super::parse::{Parsed, parse};
use super::queue::{ENABLE, Ring, check_base, check_len};
use super::register_file::RegisterFile;
use super::registers::*;
use super::rss::Spread;
use super::statistics::{FCS, RxTally, queue_counter};
use super::write_back::{Buffer, PacketInfo};
use crate::batch::{FrameBatch, WireFrame};
use crate::fcs::fcs;
use crate::memory::Access as Dma;
use crate::strict::Rule;
use crate::wire::Supply;
use crate::{Undersize, Variant};

const RXEN: u32 = 1;
const HLREG0_RXCRCSTRP: u32 = 1 << 1;
const HLREG0_JUMBOEN: u32 = 1 << 2;
const RDRXCTL_CRCSTRIP: u32 = 1 << 1;
const RDRXCTL_RSCFRSTSIZE: u32 = 0x1f << 17;
const RDRXCTL_RSCACKC: u32 = 1 << 25;
const RDRXCTL_FCOE_WRFIX: u32 = 1 << 26;
/// Bits of RDRXCTL that a driver may change: CRCSTRIP, PSP, AGGDIS, RSCFRSTSIZE, RSCACKC,
/// FCOE_WRFIX, and the X550's two for malicious drivers. DMAIDONE is read only.
const RDRXCTL_CHANGEABLE: u32 = 0x363f_000e;
const RXCSUM_PCSD: u32 = 1 << 13;
const SECRX_DIS: u32 = 1 << 1;
const SECRXSTAT_READY: u32 = 1;
const DCA_RXCTRL_BIT12: u32 = 1 << 12;
const SRRCTL_DROP_EN: u32 = 1 << 28;
const RXDCTL_VME: u32 = 1 << 30;
const RXDCTL_RLPML_EN: u32 = 1 << 15;
const RXDCTL_RLPML: u32 = 0x3fff;
const RSCCTL_RSCEN: u32 = 1;
const TPID_VLAN: [u8; 2] = [0x81, 0x00];

/// Shortest frame, and longest without JUMBOEN, with FCS.
const MIN_FRAME: u64 = 64;
const MAX_STANDARD_FRAME: u64 = 1518;
/// What even [`Undersize::Deliver`] does not deliver is shorter than a header.
const HEADER: usize = 14;
/// Frames or fragments below this are not even counted (specification update 331521, 18).
const COUNTED_FRAGMENT: usize = 12;
const FIFO_FRAMES: usize = 8192;
/// Every so many packets a buffer is scribbled over while the model runs on its own thread.
const SCRIBBLE_EVERY: u32 = 61;

/// A receive queue.
#[derive(Debug, Default)]
struct RxQueue {
    ring: Ring,
    /// Bytes of a buffer.
    buffer: usize,
    advanced: bool,
    drop: bool,
    strip_vlan: bool,
    /// Longest frame with FCS; 0 where the queue has no limit.
    max_frame: u64,
    counter: usize,
    /// The ring cannot be reached: nothing more happens until the queue is turned off.
    stuck: bool,
    checked_dca: bool,
}

/// The receive engine.
pub(crate) struct Receive {
    queues: Box<[RxQueue]>,
    /// Queues that are on.
    active: Vec<u16>,
    changing: bool,
    /// Bus mastering is stopped (CTRL.GIO_DIS).
    pub(crate) stalled: bool,
    /// From the wire, not looked at yet.
    batch: FrameBatch,
    ended: bool,
    /// The packet buffer.
    fifo: FrameBatch,
    fifo_bytes: usize,
    enabled: bool,
    blocked: bool,
    max_frame: u64,
    strip_fcs: bool,
    hash_in_descriptor: bool,
    zero_udp_is_bad: bool,
    tally: RxTally,
    /// Queues with descriptors written back since the last interrupt.
    touched: u128,
    scratch: Vec<u8>,
    until_scribble: u32,
}

/// What is to be done with a frame that the MAC took.
struct Class {
    parsed: Parsed,
    inexact: bool,
    spread: Spread,
    bad: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reject {
    BadFcs,
    Undersize,
    Oversize,
    Address,
    Vlan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placed {
    Done,
    NoDescriptor { drop: bool },
}

impl Receive {
    pub(crate) fn new(variant: Variant) -> Self {
        Receive {
            queues: (0..QUEUES).map(|_| RxQueue::default()).collect(),
            active: Vec::with_capacity(QUEUES),
            changing: false,
            stalled: false,
            batch: FrameBatch::new(),
            ended: false,
            fifo: FrameBatch::with_capacity((variant.rx_packet_kib() as usize) << 11, FIFO_FRAMES),
            fifo_bytes: 0,
            enabled: false,
            blocked: false,
            max_frame: MAX_STANDARD_FRAME,
            strip_fcs: true,
            hash_in_descriptor: false,
            zero_udp_is_bad: variant == Variant::I82599,
            tally: RxTally::default(),
            touched: 0,
            scratch: Vec::new(),
            until_scribble: 1,
        }
    }

    /// After a reset. Returns how many frames were in the packet buffer.
    pub(crate) fn restart(&mut self) -> u64 {
        for q in &mut self.queues {
            *q = RxQueue::default();
        }
        self.active.clear();
        self.changing = false;
        let lost = self.fifo.len() as u64;
        self.fifo.clear();
        lost
    }

    /// RXCTRL.RXEN is set.
    pub(crate) fn is_on(&self, regs: &RegisterFile) -> bool {
        regs.get(&RXCTRL) & RXEN != 0
    }

    /// The wire will bring nothing more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended && self.batch.is_empty()
    }

    /// Frames in the packet buffer.
    pub(crate) fn waiting(&self) -> u64 {
        self.fifo.len() as u64
    }
}

impl Core {
    /// Brings what the engine remembers up to date with the registers.
    pub(crate) fn load_receive(&mut self) {
        let regs = &self.regs;
        let rx = &mut self.rx;
        let hlreg0 = regs.get(&HLREG0);
        rx.enabled = regs.get(&RXCTRL) & RXEN != 0;
        rx.blocked = regs.get(&SECRXCTRL) & SECRX_DIS != 0;
        rx.strip_fcs = hlreg0 & HLREG0_RXCRCSTRP != 0;
        rx.max_frame = match hlreg0 & HLREG0_JUMBOEN {
            0 => MAX_STANDARD_FRAME,
            _ => u64::from(regs.get(&MAXFRS) >> 16),
        };
        rx.fifo_bytes = (regs.at(&RXPBSIZE, 0) >> 10) as usize * 1024;
        rx.hash_in_descriptor = regs.get(&RXCSUM) & RXCSUM_PCSD != 0;
        rx.active.clear();
        for (n, q) in rx.queues.iter_mut().enumerate().filter(|(_, q)| q.ring.on) {
            let rxdctl = regs.at(&RXDCTL, n);
            let srrctl = regs.at(&SRRCTL, n);
            let low = regs.at(&RDBAL, n);
            q.ring.base = u64::from(regs.at(&RDBAH, n)) << 32 | u64::from(low);
            q.ring.count = regs.at(&RDLEN, n) / 16;
            q.buffer = (srrctl & 0x1f) as usize * 1024;
            q.advanced = srrctl >> 25 & 7 != 0;
            q.drop = srrctl & SRRCTL_DROP_EN != 0;
            q.strip_vlan = rxdctl & RXDCTL_VME != 0;
            let limited = self.config.variant.has_phy() && rxdctl & RXDCTL_RLPML_EN != 0;
            q.max_frame = if limited {
                u64::from(rxdctl & RXDCTL_RLPML)
            } else {
                0
            };
            q.counter = queue_counter(regs, &RQSMR, n);
            rx.active.push(n as u16);
        }
    }

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

    /// Receives at most about `budget` frames from the wire. True where anything moved.
    pub(crate) fn step_receive(&mut self, budget: usize) -> bool {
        if self.rx.stalled || !self.link.is_up() {
            return false;
        }
        for i in 0..self.rx.active.len() {
            let n = self.rx.active[i] as usize;
            let tail = self.doorbells.get(n);
            self.rx.queues[n]
                .ring
                .look(tail, "RDT", n, &mut self.strict);
        }
        let mut progress = self.drain_packet_buffer();
        let patient = self.wire.ingress.is_patient();
        let mut batch = std::mem::take(&mut self.rx.batch);
        let mut left = budget;
        while left > 0 {
            let taken = self.receive_batch(&batch, patient);
            let blocked = taken < batch.len();
            batch.take(taken);
            left = left.saturating_sub(taken);
            progress |= taken > 0;
            // A patient wire keeps its frames while no frame could go anywhere.
            let idle = patient && (!self.rx.enabled || self.rx.blocked);
            if blocked || idle || !self.pull(&mut batch) {
                break;
            }
        }
        self.rx.batch = batch;
        self.rx.tally.flush(&mut self.regs);
        let touched = std::mem::take(&mut self.rx.touched);
        self.raise_queue_causes(touched, false);
        progress
    }

    /// Asks the wire for more. False where there is none.
    fn pull(&mut self, batch: &mut FrameBatch) -> bool {
        if self.rx.ended {
            return false;
        }
        match self.wire.ingress.receive(self.now, batch) {
            Ok(supply) => self.rx.ended = supply == Supply::End,
            Err(error) => {
                log::error!("{error}");
                self.rx.ended = true;
                self.wire_error.get_or_insert(error);
            }
        }
        !batch.is_empty()
    }

    /// Receives frames from the front of `batch`; returns how many.
    fn receive_batch(&mut self, batch: &FrameBatch, patient: bool) -> usize {
        for (i, frame) in batch.iter().enumerate() {
            if !self.receive_frame(frame, patient) {
                return i;
            }
        }
        batch.len()
    }

    /// Receives a frame. False where it has to wait on the wire.
    #[inline]
    fn receive_frame(&mut self, frame: WireFrame<'_>, patient: bool) -> bool {
        if !self.rx.enabled {
            if patient {
                return false;
            }
            self.count_offered(frame.data);
            self.counts.receiver_off += 1;
            return true;
        }
        let class = self.classify(frame);
        let held_up = self.rx.blocked || !self.rx.fifo.is_empty();
        if let Ok(class) = &class {
            if patient && held_up {
                return false;
            }
            let placed = match held_up {
                true => Placed::NoDescriptor { drop: false },
                false => self.place(frame, class),
            };
            if let Placed::NoDescriptor { drop } = placed {
                if patient {
                    return false;
                }
                self.no_descriptor(frame, class.spread.queue, drop);
            }
        }
        self.count_offered(frame.data);
        self.count_arrival(frame, class.map(|_| ()));
        true
    }

    fn no_descriptor(&mut self, frame: WireFrame<'_>, queue: usize, drop: bool) {
        let rx = &mut self.rx;
        if drop {
            rx.tally.queue_drops[rx.queues[queue].counter] += 1;
            self.counts.no_descriptor += 1;
            return;
        }
        let room = rx.fifo.waiting_bytes() + frame.data.len() <= rx.fifo_bytes;
        if room && !rx.fifo.fits(frame.data.len()) {
            rx.fifo.compact();
        }
        if !room || !rx.fifo.push(frame.data) {
            rx.tally.missed += 1;
            self.counts.buffer_full += 1;
        } else if frame.bad_fcs {
            rx.fifo.spoil_fcs();
        }
    }

    /// Frames from the packet buffer go first.
    fn drain_packet_buffer(&mut self) -> bool {
        if self.rx.fifo.is_empty() || !self.rx.enabled || self.rx.blocked {
            return false;
        }
        let mut fifo = std::mem::take(&mut self.rx.fifo);
        let mut taken = 0;
        for frame in fifo.iter() {
            match self.classify(frame) {
                Ok(class) => {
                    if let Placed::NoDescriptor { .. } = self.place(frame, &class) {
                        break;
                    }
                }
                // The filters have changed meanwhile.
                Err(reject) => self.count_reject(reject),
            }
            taken += 1;
        }
        fifo.take(taken);
        self.rx.fifo = fifo;
        taken > 0
    }

    /// What MAC, filters and RSS say of a frame.
    #[inline]
    fn classify(&self, frame: WireFrame<'_>) -> Result<Class, Reject> {
        let rx = &self.rx;
        let data = frame.data;
        let octets = data.len() as u64 + FCS;
        let store_bad = self.filter.store_bad;
        if frame.bad_fcs && !store_bad {
            return Err(Reject::BadFcs);
        }
        let short = octets < MIN_FRAME && self.config.undersize == Undersize::Discard;
        if short && !store_bad || data.len() < HEADER {
            return Err(Reject::Undersize);
        }
        let parsed = parse(data, rx.zero_udp_is_bad);
        let tag = if parsed.tag.is_some() { 4 } else { 0 };
        let long = octets > rx.max_frame + tag;
        if long && !store_bad {
            return Err(Reject::Oversize);
        }
        let destination = data.first_chunk().ok_or(Reject::Undersize)?;
        match self.filter.judge(destination, parsed.tag) {
            Verdict::Accept { inexact } => Ok(Class {
                inexact,
                spread: self.rss.spread(data, &parsed),
                parsed,
                bad: frame.bad_fcs || short || long,
            }),
            Verdict::WrongAddress => Err(Reject::Address),
            Verdict::WrongVlan => Err(Reject::Vlan),
        }
    }

    fn count_offered(&mut self, data: &[u8]) {
        self.counts.offered += 1;
        self.counts.offered_bytes += data.len() as u64;
    }

    /// The MAC's statistics of a frame that arrived.
    #[inline]
    fn count_arrival(&mut self, frame: WireFrame<'_>, fate: Result<(), Reject>) {
        let octets = frame.data.len() as u64 + FCS;
        let tally = &mut self.rx.tally;
        tally.total += 1;
        tally.total_octets += octets;
        match fate {
            Ok(()) => {
                if frame.bad_fcs {
                    tally.crc_errors += 1;
                } else {
                    tally.unfiltered += 1;
                    tally.unfiltered_octets += octets;
                    if let Some(destination) = frame.data.first_chunk() {
                        tally.good(destination, octets);
                    }
                }
            }
            Err(reject) => {
                match reject {
                    Reject::BadFcs if octets < MIN_FRAME => tally.fragments += 1,
                    Reject::BadFcs if octets > self.rx.max_frame => tally.jabber += 1,
                    Reject::BadFcs => tally.crc_errors += 1,
                    Reject::Undersize if frame.data.len() >= COUNTED_FRAGMENT => {
                        tally.undersize += 1;
                    }
                    Reject::Undersize => {}
                    Reject::Oversize => tally.oversize += 1,
                    Reject::Address | Reject::Vlan => {
                        tally.unfiltered += 1;
                        tally.unfiltered_octets += octets;
                    }
                }
                self.count_reject(reject);
            }
        }
    }

    fn count_reject(&mut self, reject: Reject) {
        let c = &mut self.counts;
        *match reject {
            Reject::BadFcs => &mut c.bad_fcs,
            Reject::Undersize => &mut c.undersize,
            Reject::Oversize => &mut c.oversize,
            Reject::Address => &mut c.filtered,
            Reject::Vlan => &mut c.vlan_filtered,
        } += 1;
    }

    /// Puts a frame into its queue's ring, or says that there is no room.
    #[inline]
    fn place(&mut self, frame: WireFrame<'_>, class: &Class) -> Placed {
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
    fn write_frame(&mut self, n: usize, data: &[u8], class: &Class) {
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
            self.memory
                .fill_buffer(buffer & !1, q.buffer, now, scribble);
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
    fn check_queue(&mut self, n: usize) {
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
        let fetch = |m: &mut crate::memory::Memory, at| m.descriptor(Dma::RxDescriptor, at);
        let a = fetch(&mut self.memory, here);
        let b = fetch(&mut self.memory, next);
        if let (Some([a, _]), Some([b, _])) = (a, b)
            && (a & !1).abs_diff(b & !1) < q.buffer as u64
        {
            self.strict.note(Rule::BuffersOverlap, "SRRCTL", n, b);
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
fn apply(injections: &super::inject::Injections, words: &mut [u64; 2]) -> bool {
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

pub(crate) fn read_tail(core: &mut Core, n: usize, _: u32) -> u32 {
    core.doorbells.get(n)
}

pub(crate) fn write_tail(core: &mut Core, n: usize, _: u32, value: u32) {
    core.advance_rx_queues_now();
    if core.rx.queues[n].ring.on {
        core.doorbells.set(n, value);
        core.rx.queues[n]
            .ring
            .look(value, "RDT", n, &mut core.strict);
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

pub(crate) fn write_rxctrl(core: &mut Core, _: usize, before: u32, value: u32) {
    if value & RXEN == 0 || before & RXEN != 0 {
        return;
    }
    let rdrxctl = core.regs.get(&RDRXCTL);
    let value = u64::from(rdrxctl);
    let strips = rdrxctl & RDRXCTL_CRCSTRIP != 0;
    if strips != (core.regs.get(&HLREG0) & HLREG0_RXCRCSTRP != 0) {
        core.strict.note(Rule::CrcStripDiffers, "RDRXCTL", 0, value);
    }
    if rdrxctl & RDRXCTL_RSCFRSTSIZE != 0 {
        core.strict.note(Rule::RscFirstSize, "RDRXCTL", 0, value);
    }
    let wanted = RDRXCTL_RSCACKC | RDRXCTL_FCOE_WRFIX;
    if rdrxctl & wanted != wanted {
        core.strict.note(Rule::RscAckFcoeFix, "RDRXCTL", 0, value);
    }
}

pub(crate) fn write_rdrxctl(core: &mut Core, _: usize, before: u32, value: u32) {
    if (before ^ value) & !RDRXCTL_CHANGEABLE != 0 {
        core.strict
            .note(Rule::RdrxctlReservedField, "RDRXCTL", 0, u64::from(value));
    }
}

/// The security block is empty at once after it was told to stop.
pub(crate) fn read_secrxstat(core: &mut Core, _: usize, held: u32) -> u32 {
    let stopped = core.regs.get(&SECRXCTRL) & SECRX_DIS != 0;
    if stopped && !core.inject.has(Injection::HangSecurityBlock) {
        held | SECRXSTAT_READY
    } else {
        held
    }
}

impl Core {
    fn advance_rx_queues_now(&mut self) {
        if self.advance_rx_queues() {
            self.dirty = true;
        }
    }
}
