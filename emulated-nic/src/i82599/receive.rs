//! The receive path (82599 datasheet 7.1): from the wire through MAC, filters and RSS into a ring.
//!
//! A frame that finds no descriptor is lost at once where its queue says so (SRRCTL.DROP_EN), else it
//! waits in the packet buffer, and all that arrive after it wait behind it; what does not fit the
//! packet buffer is missed (MPC). Where the wire is patient, frames wait there instead.

use super::core::{Core, QUEUES};
use super::inject::Injection;
use super::mac::{MAX_ANY_FRAME, MAX_STANDARD_FRAME};
use super::registers::*;
use super::rx_ring::{Placed, RxQueue};
use super::statistics::RxTally;
use crate::Variant;
use crate::batch::{FRAMES, FrameBatch, WireFrame};
use crate::strict::Rule;
use crate::wire::Supply;

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
/// Frames that the packet buffer holds at most, whatever their length.
const FIFO_FRAMES: usize = 40_000;

/// The receive engine.
pub(crate) struct Receive {
    pub(super) queues: Box<[RxQueue]>,
    /// Queues that are on.
    pub(super) active: Vec<u16>,
    pub(super) changing: bool,
    /// Bus mastering is stopped (CTRL.GIO_DIS).
    pub(crate) stalled: bool,
    /// From the wire, not looked at yet.
    pub(super) batch: FrameBatch,
    pub(super) ended: bool,
    /// The packet buffer.
    pub(super) fifo: FrameBatch,
    pub(super) fifo_bytes: usize,
    pub(super) enabled: bool,
    pub(super) blocked: bool,
    pub(super) max_frame: u64,
    pub(super) strip_fcs: bool,
    pub(super) hash_in_descriptor: bool,
    pub(super) zero_udp_is_bad: bool,
    pub(super) tally: RxTally,
    /// Queues with descriptors written back since the last interrupt.
    pub(super) touched: u128,
    pub(super) scratch: Vec<u8>,
    /// What must be set by the first frame has not been looked at yet.
    unchecked: bool,
    pub(super) until_scribble: u32,
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
            unchecked: false,
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
            _ => u64::from(regs.get(&MAXFRS) >> 16).min(MAX_ANY_FRAME),
        };
        rx.fifo_bytes = (regs.at(&RXPBSIZE, 0) >> 10) as usize * 1024;
        rx.hash_in_descriptor = regs.get(&RXCSUM) & RXCSUM_PCSD != 0;
        rx.active.clear();
        for (n, q) in rx.queues.iter_mut().enumerate().filter(|(_, q)| q.ring.on) {
            q.load(regs, n, self.config.variant);
            rx.active.push(n as u16);
        }
    }

    /// Receives at most about `budget` frames from the wire. True where anything moved.
    pub(crate) fn step_receive(&mut self, budget: usize) -> bool {
        if self.rx.stalled || !self.link.is_up() || self.tx.loopback {
            return false;
        }
        self.settle_tails();
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
            if batch.is_empty() {
                // Frames were sent, and lost on the wire: time was spent, though nothing arrived.
                left = left.saturating_sub(FRAMES);
                progress = true;
            }
        }
        self.rx.batch = batch;
        self.rx.tally.flush(&mut self.regs);
        let touched = std::mem::take(&mut self.rx.touched);
        self.raise_queue_causes(touched, false);
        progress
    }

    /// Asks the wire for more. False where there is none for now.
    fn pull(&mut self, batch: &mut FrameBatch) -> bool {
        if self.rx.ended {
            return false;
        }
        let mut more = false;
        match self.wire.ingress.receive(self.now, batch) {
            Ok(supply) => {
                self.rx.ended = supply == Supply::End;
                more = supply == Supply::More;
            }
            Err(error) => {
                log::error!("{error}");
                self.rx.ended = true;
                self.wire_error.get_or_insert(error);
            }
        }
        more || !batch.is_empty()
    }

    /// Receives frames from the front of `batch`; returns how many.
    fn receive_batch(&mut self, batch: &FrameBatch, patient: bool) -> usize {
        if self.rx.unchecked && self.rx.enabled && !batch.is_empty() {
            self.rx.unchecked = false;
            self.check_rdrxctl();
        }
        for (i, frame) in batch.iter().enumerate() {
            if !self.receive_frame(frame, patient) {
                return i;
            }
        }
        batch.len()
    }

    /// Receives what was sent, as MAC loopback has it.
    pub(super) fn receive_looped(&mut self, batch: &FrameBatch) {
        self.settle_tails();
        for frame in batch.iter() {
            self.receive_frame(frame, false);
        }
        self.rx.tally.flush(&mut self.regs);
        let touched = std::mem::take(&mut self.rx.touched);
        self.raise_queue_causes(touched, false);
    }

    /// Looks at the tails of all queues.
    fn settle_tails(&mut self) {
        for i in 0..self.rx.active.len() {
            let n = self.rx.active[i] as usize;
            let tail = self.doorbells.get(n);
            self.rx.queues[n]
                .ring
                .look(tail, "RDT", n, &mut self.strict);
        }
    }

    /// What a driver must have set in RDRXCTL.
    fn check_rdrxctl(&mut self) {
        let rdrxctl = self.regs.get(&RDRXCTL);
        let value = u64::from(rdrxctl);
        let strips = rdrxctl & RDRXCTL_CRCSTRIP != 0;
        if strips != (self.regs.get(&HLREG0) & HLREG0_RXCRCSTRP != 0) {
            self.strict.note(Rule::CrcStripDiffers, "RDRXCTL", 0, value);
        }
        if rdrxctl & RDRXCTL_RSCFRSTSIZE != 0 {
            self.strict.note(Rule::RscFirstSize, "RDRXCTL", 0, value);
        }
        let wanted = RDRXCTL_RSCACKC | RDRXCTL_FCOE_WRFIX;
        if rdrxctl & wanted != wanted {
            self.strict.note(Rule::RscAckFcoeFix, "RDRXCTL", 0, value);
        }
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
}

pub(crate) fn write_rxctrl(core: &mut Core, _: usize, before: u32, value: u32) {
    core.rx.unchecked |= value & RXEN != 0 && before & RXEN == 0;
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
