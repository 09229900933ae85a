//! Interrupt causes, masks, moderation and vectors (82599 datasheet 7.3 and 8.2.3.5).
//!
//! In MSI-X mode the causes of queues are the vectors that IVAR maps them to; other causes share the
//! vector of IVAR_MISC. A cause that is set and enabled sends its vector's message once, not before
//! the interval of EITR has passed, and is then cleared (EIAC) and masked (EIAM) as asked.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::core::{Core, QUEUES};
use super::registers::*;
use crate::strict::Rule;

/// MSI-X vectors.
pub(crate) const VECTORS: u16 = 64;
/// Link status changed.
pub(crate) const CAUSE_LINK: u32 = 1 << 20;
/// Causes that are not queues'.
const OTHER_CAUSES: u32 = 0x7fff_0000;
const CAUSE_TCP_TIMER: u32 = 1 << 30;
/// Legal bits of EIAC.
pub(crate) const EIAC_BITS: u32 = 0x4000_ffff;
/// Reading EICR clears these only, where GPIE.OCD is set.
const OCD_CLEARS: u32 = 0x3fff_0000;
const GPIE_MSIX: u32 = 1 << 4;
const GPIE_OCD: u32 = 1 << 5;
const GPIE_EIAME: u32 = 1 << 30;
const EITR_INTERVAL_UNIT: Duration = Duration::from_nanos(2048);
const IVAR_VALID: u32 = 0x80;

/// Where messages go: eventfds of our own, made when a driver in this process asks for them, and
/// those that a bus outside has given.
#[derive(Debug)]
pub(crate) struct Vectors {
    own: [OnceLock<OwnedFd>; VECTORS as usize],
    bus: Mutex<BusLines>,
}

/// The ways of a bus to be interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Signalling {
    /// Not at all.
    #[default]
    Off,
    /// One line, which is masked whenever it fires.
    Intx,
    /// One message.
    Msi,
    /// A message for each vector.
    Msix,
}

/// The eventfds of a bus outside of the process.
#[derive(Debug)]
struct BusLines {
    signalling: Signalling,
    fds: [Option<OwnedFd>; VECTORS as usize],
    /// Messages that wait for an eventfd (the pending bits of MSI-X).
    pending: u64,
    /// The line is masked.
    masked: bool,
}

impl Vectors {
    pub(crate) fn new() -> Self {
        Vectors {
            own: [const { OnceLock::new() }; VECTORS as usize],
            bus: Mutex::new(BusLines {
                signalling: Signalling::Off,
                fds: [const { None }; VECTORS as usize],
                pending: 0,
                masked: false,
            }),
        }
    }

    /// The eventfd of a vector; `None` where there is no such vector or no descriptor left.
    pub(crate) fn get(&self, vector: u16) -> Option<BorrowedFd<'_>> {
        let slot = self.own.get(vector as usize)?;
        if slot.get().is_none() {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
            // Another thread may have been quicker: then its descriptor stays and this one closes.
            let _ = slot.set(fd);
        }
        slot.get().map(|fd| fd.as_fd())
    }

    fn signal(&self, vector: usize) {
        if let Some(fd) = self.own[vector].get() {
            notify(fd);
        }
        self.bus().fire(vector);
    }

    /// Turns the bus's interrupts off, or to another kind, of which none has an eventfd yet.
    pub(crate) fn set_signalling(&self, signalling: Signalling) {
        let mut bus = self.bus();
        bus.fds = [const { None }; VECTORS as usize];
        bus.signalling = signalling;
        bus.pending = 0;
        bus.masked = false;
    }

    pub(crate) fn signalling(&self) -> Signalling {
        self.bus().signalling
    }

    /// Gives a vector of the bus its eventfd, or takes it away. A message that waited for it is sent.
    pub(crate) fn set_fd(&self, vector: usize, fd: Option<OwnedFd>) {
        let mut bus = self.bus();
        let waits = bus.pending >> vector & 1 != 0;
        if let Some(fd) = &fd
            && waits
        {
            notify(fd);
            bus.pending &= !(1 << vector);
        }
        bus.fds[vector] = fd;
    }

    /// Sends a vector's message, as a client that tests its eventfds asks for.
    pub(crate) fn trigger(&self, vector: usize) {
        self.bus().fire(vector);
    }

    /// Masks the line, or not.
    pub(crate) fn mask_line(&self, masked: bool) {
        self.bus().masked = masked;
    }

    /// Pending bits of MSI-X.
    pub(crate) fn pending(&self) -> u64 {
        self.bus().pending
    }

    fn bus(&self) -> MutexGuard<'_, BusLines> {
        self.bus.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BusLines {
    fn fire(&mut self, vector: usize) {
        let (vector, line) = match self.signalling {
            Signalling::Off => return,
            Signalling::Intx => (0, true),
            Signalling::Msi => (0, false),
            Signalling::Msix => (vector, false),
        };
        if line && std::mem::replace(&mut self.masked, true) {
            return;
        }
        match &self.fds[vector] {
            Some(fd) => notify(fd),
            None => self.pending |= 1 << vector,
        }
    }
}

fn notify(fd: &OwnedFd) {
    // A full counter is a signal that nobody has taken yet.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

pub(crate) struct Interrupts {
    vectors: Arc<Vectors>,
    /// Causes of queues: EICR[15:0] and what lies above.
    queues: u64,
    /// Other causes, as in EICR.
    other: u32,
    /// Causes whose message has been sent and that are still set.
    sent: u64,
    sent_other: u32,
    /// Something changed that may fire a vector.
    pending: bool,
    /// When each vector may fire again.
    allowed: [Duration; VECTORS as usize],
}

impl Interrupts {
    pub(crate) fn new(vectors: Arc<Vectors>) -> Self {
        Interrupts {
            vectors,
            queues: 0,
            other: 0,
            sent: 0,
            sent_other: 0,
            pending: false,
            allowed: [Duration::ZERO; VECTORS as usize],
        }
    }

    pub(crate) fn restart(&mut self) {
        let vectors = self.vectors.clone();
        *self = Interrupts::new(vectors);
    }

    pub(crate) fn raise_other(&mut self, cause: u32) {
        self.other |= cause;
        self.pending = true;
    }

    fn raise_queues(&mut self, causes: u64) {
        self.queues |= causes;
        self.pending |= causes != 0;
    }

    fn clear(&mut self, queues: u64, other: u32) {
        self.queues &= !queues;
        self.other &= !other;
        self.sent &= self.queues;
        self.sent_other &= self.other;
    }

    fn eicr(&self) -> u32 {
        (self.queues & 0xffff) as u32 | self.other
    }
}

impl Core {
    /// Queues of one direction (bit n is queue n) have written descriptors back.
    pub(crate) fn raise_queue_causes(&mut self, mut queues: u128, transmit: bool) {
        let mut causes = 0;
        while queues != 0 {
            let n = queues.trailing_zeros() as usize;
            queues &= queues - 1;
            debug_assert!(n < QUEUES);
            let lane = 16 * (n & 1) + if transmit { 8 } else { 0 };
            let entry = self.regs.at(&IVAR, n >> 1) >> lane & 0xff;
            if entry & IVAR_VALID != 0 {
                causes |= 1 << (entry & 0x3f);
            }
        }
        self.interrupts.raise_queues(causes);
    }

    /// Sends the messages of what is set, enabled and due.
    pub(crate) fn fire_interrupts(&mut self) {
        if !self.interrupts.pending {
            return;
        }
        self.interrupts.pending = false;
        let msix = self.regs.get(&GPIE) & GPIE_MSIX != 0;
        let mut due = self.interrupts.queues & self.queue_mask() & !self.interrupts.sent;
        while due != 0 {
            let cause = due.trailing_zeros() as usize;
            due &= due - 1;
            let vector = if msix { cause } else { 0 };
            if self.fire(vector) {
                self.interrupts.sent |= 1 << cause;
                self.auto_clear_queue(cause, msix);
            }
        }
        let other = self.interrupts.other & self.regs.get(&EIMS) & OTHER_CAUSES;
        let due = other & !self.interrupts.sent_other;
        for bits in [due & CAUSE_TCP_TIMER, due & !CAUSE_TCP_TIMER] {
            let entry = self.regs.get(&IVAR_MISC) >> if bits == CAUSE_TCP_TIMER { 0 } else { 8 };
            let vector = match (msix, entry & IVAR_VALID != 0) {
                (false, _) => 0,
                (true, true) => (entry & 0x3f) as usize,
                (true, false) => continue,
            };
            if bits != 0 && self.fire(vector) {
                self.interrupts.sent_other |= bits;
                self.auto_clear_other(bits);
            }
        }
    }

    /// Signals a vector unless its interval has not passed yet.
    fn fire(&mut self, vector: usize) -> bool {
        if self.now < self.interrupts.allowed[vector] {
            self.interrupts.pending = true;
            return false;
        }
        let units = self.regs.at(&EITR, vector) >> 3 & 0x1ff;
        self.interrupts.allowed[vector] = self.now + EITR_INTERVAL_UNIT * units;
        self.interrupts.vectors.signal(vector);
        true
    }

    fn auto_clear_queue(&mut self, cause: usize, msix: bool) {
        let bit = 1u64 << cause;
        let listed = self.regs.get(&EIAC) & 0xffff & bit as u32 != 0;
        if msix && (cause >= 16 || listed) {
            self.interrupts.clear(bit, 0);
        }
        if self.regs.get(&GPIE) & GPIE_EIAME != 0 {
            let low = self.regs.get(&EIAM) & 0xffff | self.regs.at(&EIAM_EX, 0);
            let auto = u64::from(low) | u64::from(self.regs.at(&EIAM_EX, 1)) << 32;
            self.mask_queues(bit & auto);
        }
    }

    fn auto_clear_other(&mut self, bits: u32) {
        let auto = bits & self.regs.get(&EIAC);
        self.interrupts.clear(0, auto);
        if self.regs.get(&GPIE) & GPIE_EIAME != 0 {
            let masked = self.regs.get(&EIMS) & !(bits & self.regs.get(&EIAM));
            self.regs.set(&EIMS, masked);
        }
    }

    /// Queue causes that are enabled. EIMS[15:0] and EIMS_EX(0)[15:0] are the same bits.
    fn queue_mask(&self) -> u64 {
        u64::from(self.regs.at(&EIMS_EX, 0)) | u64::from(self.regs.at(&EIMS_EX, 1)) << 32
    }

    fn mask_queues(&mut self, causes: u64) {
        let mask = self.queue_mask() & !causes;
        self.set_queue_mask(mask);
        self.interrupts.sent &= !causes;
    }

    fn set_queue_mask(&mut self, mask: u64) {
        self.regs.set_at(&EIMS_EX, 0, mask as u32);
        self.regs.set_at(&EIMS_EX, 1, (mask >> 32) as u32);
        let eims = self.regs.get(&EIMS) & !0xffff | mask as u32 & 0xffff;
        self.regs.set(&EIMS, eims);
    }

    /// The bus's line may fire again, and does where a cause is still set and enabled.
    pub(crate) fn unmask_line(&mut self) {
        self.interrupts.vectors.mask_line(false);
        self.interrupts.sent = 0;
        self.interrupts.sent_other = 0;
        self.interrupts.pending = true;
        self.fire_interrupts();
    }

    fn unmask_queues(&mut self, causes: u64) {
        self.set_queue_mask(self.queue_mask() | causes);
        self.interrupts.pending = true;
        self.fire_interrupts();
    }
}

/// Without MSI-X, reading clears.
pub(crate) fn read_eicr(core: &mut Core, _: usize, _: u32) -> u32 {
    let value = core.interrupts.eicr();
    let gpie = core.regs.get(&GPIE);
    if gpie & GPIE_MSIX == 0 {
        let all = gpie & GPIE_OCD == 0;
        let other = if all { OTHER_CAUSES } else { OCD_CLEARS };
        core.interrupts.clear(if all { u64::MAX } else { 0 }, other);
        // Reading masks what EIAM lists (8.2.3.5.7).
        if gpie & GPIE_EIAME != 0 {
            let auto = core.regs.get(&EIAM) & value;
            let eims = core.regs.get(&EIMS) & !(auto & OTHER_CAUSES);
            core.regs.set(&EIMS, eims);
            core.mask_queues(u64::from(auto & 0xffff));
        }
    }
    value
}

pub(crate) fn write_eicr(core: &mut Core, _: usize, _: u32, value: u32) {
    core.interrupts
        .clear(u64::from(value & 0xffff), value & OTHER_CAUSES);
}

/// EICS reads as EICR does, and clears nothing.
pub(crate) fn read_eics(core: &mut Core, _: usize, _: u32) -> u32 {
    core.interrupts.eicr()
}

pub(crate) fn write_eics(core: &mut Core, _: usize, _: u32, value: u32) {
    core.interrupts.raise_queues(u64::from(value & 0xffff));
    core.interrupts.raise_other(value & OTHER_CAUSES);
    core.fire_interrupts();
}

pub(crate) fn write_eics_ex(core: &mut Core, n: usize, _: u32, value: u32) {
    core.interrupts.raise_queues(u64::from(value) << (32 * n));
    core.fire_interrupts();
}

pub(crate) fn write_mask(core: &mut Core, _: usize, _: u32, value: u32) {
    core.unmask_queues(u64::from(value & 0xffff));
}

pub(crate) fn write_mask_ex(core: &mut Core, n: usize, _: u32, value: u32) {
    core.unmask_queues(u64::from(value) << (32 * n));
}

pub(crate) fn write_eimc(core: &mut Core, _: usize, _: u32, value: u32) {
    let eims = core.regs.get(&EIMS) & !(value & OTHER_CAUSES);
    core.regs.set(&EIMS, eims);
    core.interrupts.sent_other &= !value;
    core.mask_queues(u64::from(value & 0xffff));
}

pub(crate) fn write_eimc_ex(core: &mut Core, n: usize, _: u32, value: u32) {
    core.mask_queues(u64::from(value) << (32 * n));
}

pub(crate) fn write_eiac(core: &mut Core, _: usize, _: u32, value: u32) {
    if value & !EIAC_BITS != 0 {
        core.strict
            .note(Rule::EiacReservedBits, "EIAC", 0, u64::from(value));
    }
}

/// A new interval starts at once, unless only the interval is written (CNT_WDIS).
pub(crate) fn write_eitr(core: &mut Core, n: usize, _: u32, value: u32) {
    if value & 1 << 31 == 0
        && let Some(allowed) = core.interrupts.allowed.get_mut(n)
    {
        *allowed = Duration::ZERO;
    }
}
