//! A receive queue: its set-up (facts 5.2), and the way of a packet out of its ring.
//!
//! The device owns the descriptors from its head up to the tail; the one at the tail is armed too but
//! not its own yet, so that head and tail never meet on a full ring. The driver walks descriptors that
//! are done from `next` on and re-arms each in place, so the tail is always the descriptor before
//! `next`. A chain whose end is not there yet keeps its descriptors until it is.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use driver_core::{
    DescriptorRing, Doorbell, Frame, FramePool, Geometry, RxCounters, RxMetadata, RxPacket,
    RxQueue, Spares,
};

use crate::decode::{length, status::*};
use crate::error::Error;
use crate::hw::Wait;
use crate::registers::*;
use crate::running::Running;

/// Receive buffers are programmed in units of this many bytes, 1 to 16 of them (SRRCTL).
pub(crate) const BUFFER_UNIT: usize = 1024;
const BUFFER_UNITS_MAX: usize = 16;

/// What a packet may carry beyond the longest frame: two VLAN tags.
const TAGS: usize = 8;

/// A receive queue of an ixgbe port. Dropping it disables the queue first; its frames then go home.
#[derive(Debug)]
pub struct IxgbeRxQueue {
    ring: Ring,
    doorbell: Doorbell,
    geometry: Geometry,
    /// Stands in for spares that do not fit.
    none: Spares,
    index: u16,
    running: Arc<Running>,
}

/// The descriptors, their buffers, and where we are.
#[derive(Debug)]
struct Ring {
    descriptors: DescriptorRing,
    /// Buffer of each descriptor.
    slots: Box<[Frame]>,
    /// First descriptor that the device has not been seen to finish, or the first of a chain that it
    /// has not finished.
    next: usize,
    /// Bytes the device may write into a buffer.
    buffer: usize,
    delta: u64,
    decode: fn([u64; 2]) -> RxMetadata,
    /// Most descriptors of one packet.
    chain_max: usize,
    /// What comes until the next end of packet belongs to a packet that was too long.
    discarding: bool,
    counters: Arc<RxCounters>,
}

/// How a queue is to be set up.
pub(crate) struct RxSetup<'a> {
    pub(crate) index: u16,
    pub(crate) descriptors: DescriptorRing,
    pub(crate) count: u32,
    pub(crate) pool: &'a mut FramePool,
    pub(crate) pool_index: usize,
    pub(crate) max_frame: u32,
    pub(crate) strip_vlan: bool,
    /// Drop packets that find no descriptor, rather than let them wait in the packet buffer, where
    /// they hold up those of other queues.
    pub(crate) drop_when_empty: bool,
}

/// Bytes of a buffer of `geometry` that the device can be told of.
pub(crate) fn programmable(geometry: &Geometry) -> usize {
    (geometry.buffer / BUFFER_UNIT).min(BUFFER_UNITS_MAX) * BUFFER_UNIT
}

impl IxgbeRxQueue {
    /// Sets a queue up and enables it. The port's receiver must be off.
    pub(crate) fn start(running: &Arc<Running>, setup: RxSetup<'_>) -> Result<Self, Error> {
        let hw = running.hw();
        let (q, count) = (setup.index, setup.count as usize);
        let geometry = setup.pool.geometry();
        let buffer = programmable(&geometry);
        let delta = hw.device.domain().delta();
        let doorbell = hw.device.doorbell(RDT(q).offset())?;
        let available = setup.pool.available();
        let slots: Box<[Frame]> = (0..count).map_while(|_| setup.pool.take()).collect();
        if slots.len() < count {
            return Err(Error::PoolTooSmall {
                pool: setup.pool_index,
                needed: count,
                available,
            });
        }
        for (descriptor, frame) in setup.descriptors.descriptors().iter().zip(&slots) {
            descriptor.store([frame.receive_iova(delta), 0]);
        }
        let iova = setup.descriptors.iova();
        hw.write(RDBAL(q), iova as u32);
        hw.write(RDBAH(q), (iova >> 32) as u32);
        hw.write(RDLEN(q), setup.descriptors.len_bytes());
        let mut srrctl = Srrctl::from_bits_retain((buffer / BUFFER_UNIT) as u32);
        srrctl |= Srrctl::ADVANCED_ONE_BUFFER;
        srrctl.set(Srrctl::DROP_EN, setup.drop_when_empty);
        hw.write(SRRCTL(q), srrctl);
        // No coalescing of packets: the program is to see each as it came.
        hw.write(RSCCTL(q), 0);
        hw.write(RDH(q), 0);
        hw.write(RDT(q), 0);
        let longest = setup.max_frame as usize + TAGS;
        let ring = Ring {
            descriptors: setup.descriptors,
            slots,
            next: 0,
            buffer,
            delta,
            decode: hw.family.decode,
            chain_max: longest.div_ceil(buffer),
            discarding: false,
            counters: Arc::default(),
        };
        // From here on the drop disables the queue before its memory goes.
        let queue = IxgbeRxQueue {
            ring,
            doorbell,
            geometry,
            none: setup.pool.spares(0),
            index: q,
            running: running.clone(),
        };
        hw.modify(RXDCTL(q), |mut v| {
            if hw.family.rlpml {
                v -= Rxdctl::RLPML | Rxdctl::RLPML_EN;
            }
            v.set(Rxdctl::VME, setup.strip_vlan);
            v | Rxdctl::ENABLE
        })?;
        let wait = Wait {
            step: "enable a receive queue",
            every: Duration::from_millis(1),
            limit: Duration::from_millis(10),
            remedy: "reset the function through its bus",
        };
        hw.wait(RXDCTL(q), wait, |v| v.contains(Rxdctl::ENABLE))?;
        // A tail written before the queue reads as enabled is lost.
        queue.doorbell.ring(setup.count - 1);
        Ok(queue)
    }
}

impl RxQueue for IxgbeRxQueue {
    #[inline]
    fn poll<H>(&mut self, budget: usize, spares: &mut Spares, handler: H) -> usize
    where
        H: FnMut(RxPacket<'_>),
    {
        let ring = &mut self.ring;
        let spares = if spares.fits(&self.geometry, ring.delta) {
            spares
        } else {
            &mut self.none
        };
        let walked = ring.walk(budget, spares, handler);
        if walked.rearmed > 0 {
            self.doorbell.ring(ring.tail());
            ring.counters.packets.add(walked.packets as u64);
            ring.counters.bytes.add(walked.bytes);
        }
        walked.packets
    }

    fn index(&self) -> u16 {
        self.index
    }

    fn counters(&self) -> &Arc<RxCounters> {
        &self.ring.counters
    }
}

impl Drop for IxgbeRxQueue {
    fn drop(&mut self) {
        let stopped = self
            .running
            .stop_queue(RXDCTL(self.index), "disable a receive queue");
        if !stopped {
            mem::forget(mem::take(&mut self.ring.slots));
        }
    }
}

/// What one walk over the ring did.
#[derive(Clone, Copy, Debug, Default)]
struct Walked {
    packets: usize,
    bytes: u64,
    /// Descriptors given back to the device.
    rearmed: usize,
}

impl Ring {
    /// Gives finished packets to `handler` and re-arms their slots, as far as `budget` and once around
    /// the ring at most.
    #[inline]
    fn walk<H>(&mut self, budget: usize, spares: &mut Spares, mut handler: H) -> Walked
    where
        H: FnMut(RxPacket<'_>),
    {
        let budget = budget.min(self.slots.len());
        let mut total = Walked::default();
        if self.discarding && budget > 0 {
            total.rearmed = self.discard();
        }
        while total.packets < budget && total.rearmed < self.slots.len() {
            let more = self.straight(budget - total.packets, spares, &mut handler, &mut total);
            if more {
                continue;
            }
            let step = self.step(spares, &mut handler);
            if step.rearmed == 0 {
                break;
            }
            total.packets += step.packets;
            total.bytes += step.bytes;
            total.rearmed += step.rearmed;
        }
        total
    }

    /// The packet path: a run of sound packets of one buffer each, up to the end of the ring. True where
    /// that ended it; false at a descriptor that is not done, or is not of that kind.
    #[inline(always)]
    fn straight<H>(
        &mut self,
        budget: usize,
        spares: &mut Spares,
        handler: &mut H,
        total: &mut Walked,
    ) -> bool
    where
        H: FnMut(RxPacket<'_>),
    {
        let (buffer, delta, decode) = (self.buffer, self.delta, self.decode);
        let run = self.next..self.slots.len().min(self.next + budget);
        let descriptors = &self.descriptors.descriptors()[run.clone()];
        let slots = &mut self.slots[run];
        let mut all = true;
        let (mut done, mut bytes) = (0, 0);
        for (descriptor, slot) in descriptors.iter().zip(slots) {
            let word1 = descriptor.load_acquire(1);
            let len = length(word1);
            let sound = word1 & (DD | EOP | RXE) == DD | EOP;
            if !sound || len.wrapping_sub(1) >= buffer || !slot.set_received(len) {
                all = false;
                break;
            }
            let word0 = descriptor.load(0);
            let rest = [&mut [][..], &mut [][..]];
            handler(RxPacket::new(slot, rest, spares, [word0, word1], decode));
            descriptor.store([slot.receive_iova(delta), 0]);
            bytes += len as u64;
            done += 1;
        }
        self.next = self.wrapped(self.next + done);
        total.packets += done;
        total.rearmed += done;
        total.bytes += bytes;
        all
    }

    /// What the packet path leaves: nothing there yet, a packet over several buffers, a damaged one, a
    /// length that cannot be. Re-arms none where the packet's end is not there yet.
    #[cold]
    #[inline(never)]
    fn step(&mut self, spares: &mut Spares, handler: &mut dyn FnMut(RxPacket<'_>)) -> Walked {
        let mut lied = false;
        for k in 0..self.chain_max {
            let descriptor = &self.descriptors.descriptors()[self.wrapped(self.next + k)];
            let word1 = descriptor.load_acquire(1);
            if word1 & DD == 0 {
                return Walked::default();
            }
            lied |= !(1..=self.buffer).contains(&length(word1));
            if word1 & EOP == 0 {
                continue;
            }
            let damaged = word1 & RXE != 0;
            let write_back = [descriptor.load(0), word1];
            let mut walked = Walked::default();
            if damaged {
                self.counters.errors.add(1);
            } else if lied {
                self.counters.bad_length.add(1);
            } else {
                walked.bytes = self.deliver(k + 1, write_back, spares, handler);
                walked.packets = 1;
            }
            walked.rearmed = self.rearm(k + 1);
            return walked;
        }
        // More buffers than the longest frame fills: the device lies, and the rest is not kept either.
        self.counters.too_long.add(1);
        self.discarding = true;
        Walked {
            rearmed: self.rearm(self.chain_max) + self.discard(),
            ..Walked::default()
        }
    }

    /// Gives the `count` buffers from `next` on to `handler` as one packet. Returns its bytes.
    fn deliver(
        &mut self,
        count: usize,
        write_back: [u64; 2],
        spares: &mut Spares,
        handler: &mut dyn FnMut(RxPacket<'_>),
    ) -> u64 {
        let mut bytes = 0;
        for k in 0..count {
            let at = self.wrapped(self.next + k);
            let len = length(self.descriptors.descriptors()[at].load(1));
            // Checked before against the buffer, which every frame of the geometry has behind its headroom.
            if !self.slots[at].set_received(len) {
                self.counters.bad_length.add(1);
                return 0;
            }
            bytes += len as u64;
        }
        let to_end = (self.slots.len() - self.next).min(count);
        let (start, end) = self.slots.split_at_mut(self.next);
        let Some((first, rest)) = end[..to_end].split_first_mut() else {
            return 0;
        };
        let wrapped = &mut start[..count - to_end];
        let rest = if rest.is_empty() {
            [wrapped, rest]
        } else {
            [rest, wrapped]
        };
        handler(RxPacket::new(first, rest, spares, write_back, self.decode));
        bytes
    }

    /// Re-arms what is done, up to the end of the packet that is being discarded.
    #[cold]
    #[inline(never)]
    fn discard(&mut self) -> usize {
        let mut rearmed = 0;
        while self.discarding && rearmed < self.slots.len() {
            let word1 = self.descriptors.descriptors()[self.next].load_acquire(1);
            if word1 & DD == 0 {
                break;
            }
            self.discarding = word1 & EOP == 0;
            rearmed += self.rearm(1);
        }
        rearmed
    }

    /// Gives the `count` slots from `next` on back to the device, at the next write of the tail.
    fn rearm(&mut self, count: usize) -> usize {
        for k in 0..count {
            let at = self.wrapped(self.next + k);
            let iova = self.slots[at].receive_iova(self.delta);
            self.descriptors.descriptors()[at].store([iova, 0]);
        }
        self.next = self.wrapped(self.next + count);
        count
    }

    /// `index` on the ring, where it is less than two rounds.
    #[inline]
    fn wrapped(&self, index: usize) -> usize {
        let n = self.slots.len();
        if index >= n { index - n } else { index }
    }

    /// The last descriptor that was re-armed: one short of all that are armed.
    #[inline]
    fn tail(&self) -> u32 {
        let before = if self.next == 0 {
            self.slots.len()
        } else {
            self.next
        };
        (before - 1) as u32
    }
}
