//! A receive queue: its set-up (82599 datasheet 4.6.7), and the way of a packet out of its ring.
//!
//! The device owns the descriptors from its head up to the tail; the one at the tail is armed too but
//! not its own yet, so that head and tail never meet on a full ring. The driver walks descriptors that
//! are done from `next` on and re-arms each in place, so the tail is always the descriptor before
//! `next`. A chain whose end is not there yet keeps its descriptors until it is.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use driver_core::{
    Descriptor, DescriptorRing, Doorbell, FramePool, Geometry, RxCounters, RxMetadata, RxPacket,
    RxQueue, RxRun, RxSlots, Spares,
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
    index: u16,
    running: Arc<Running>,
}

/// The descriptors, their buffers, and where we are.
#[derive(Debug)]
struct Ring {
    descriptors: DescriptorRing,
    /// Buffer of each descriptor.
    slots: RxSlots,
    /// First descriptor that the device has not been seen to finish, or the first of a chain that it
    /// has not finished.
    next: usize,
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
        let slots = RxSlots::new(setup.pool, count, buffer).ok_or(Error::PoolTooSmall {
            pool: setup.pool_index,
            needed: count,
            available,
        })?;
        for (descriptor, frame) in setup.descriptors.descriptors().iter().zip(slots.frames()) {
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
            self.ring.slots.leak();
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

/// Index of `descriptor`, one of `all`.
#[inline]
fn position(all: &[Descriptor], descriptor: &Descriptor) -> usize {
    (ptr::from_ref(descriptor).addr() - all.as_ptr().addr()) / size_of::<Descriptor>()
}

/// A packet over several buffers, all of them there.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    /// Buffers after the first, and the bytes in them.
    fragments: usize,
    bytes: u64,
}

/// What was found where the packet path ended.
enum Step {
    Nothing,
    /// That many descriptors were given back to the device.
    Rearmed(usize),
    Chain(Chain),
}

impl Ring {
    /// Gives finished packets to `handler` and re-arms their slots, as far as `budget` and once around
    /// the ring at most. The handler is called in one place only, so that it is compiled into the loop.
    #[inline]
    fn walk<H>(&mut self, budget: usize, spares: &mut Spares, mut handler: H) -> Walked
    where
        H: FnMut(RxPacket<'_>),
    {
        let (delta, decode) = (self.delta, self.decode);
        let budget = budget.min(self.slots.len());
        let mut total = Walked::default();
        if self.discarding && budget > 0 {
            total.rearmed = self.discard();
        }
        let mut chain = Chain::default();
        // While the end of a packet that is being discarded is not there, what the device finishes next
        // is a part of it, and no packet.
        while !self.discarding && total.packets < budget && total.rearmed < self.slots.len() {
            let (descriptors, run) = self.run(budget - total.packets, chain.fragments, spares);
            let (slots, mut around) = run.slots();
            let want = slots.len();
            let mut bytes = 0;
            let mut stopped = None;
            for (descriptor, mut slot) in descriptors.iter().zip(slots) {
                let word1 = descriptor.load_acquire(1);
                let len = length(word1);
                let sound = word1 & (DD | EOP | RXE) == DD | EOP;
                if !sound || !slot.receive(len) {
                    stopped = Some(descriptor);
                    break;
                }
                bytes += len as u64;
                handler(slot.packet(&mut around, descriptor, decode));
                descriptor.store([slot.receive_iova(delta), 0]);
            }
            // Where it stopped says how many there were: so they need not be counted one by one.
            let done = stopped.map_or(want, |at| position(descriptors, at));
            self.next = self.wrapped(self.next + done);
            total.packets += done;
            total.rearmed += done;
            total.bytes += bytes;
            if chain.fragments > 0 {
                if done == 0 {
                    break; // the device has taken back what it had written
                }
                total.rearmed += self.rearm(chain.fragments);
                total.bytes += chain.bytes;
                chain = Chain::default();
            }
            if done == want {
                continue;
            }
            match self.step() {
                Step::Nothing => break,
                Step::Rearmed(count) => total.rearmed += count,
                Step::Chain(found) => chain = found,
            }
        }
        total
    }

    /// The next stretch of the ring: up to `budget` descriptors, not past the end, with their slots. Or,
    /// where there are `fragments`, one descriptor with its slot and those of the fragments.
    #[inline(always)]
    fn run<'a>(
        &'a mut self,
        budget: usize,
        fragments: usize,
        spares: &'a mut Spares,
    ) -> (&'a [Descriptor], RxRun<'a>) {
        let descriptors = self.descriptors.descriptors();
        if fragments > 0 {
            let first = &descriptors[self.next..=self.next];
            return (first, self.slots.chain(self.next, fragments, spares));
        }
        let run = self.next..self.slots.len().min(self.next + budget);
        (&descriptors[run.clone()], self.slots.run(run, spares))
    }

    /// What is not a sound packet in one buffer: nothing there yet, a packet over several buffers, a
    /// damaged one, a length that cannot be. Damage and lies are recycled and counted. The packet over
    /// several buffers is made to look like one in its first, with fragments.
    #[cold]
    #[inline(never)]
    fn step(&mut self) -> Step {
        let mut lied = false;
        let mut bytes = 0;
        for fragments in 0..self.chain_max {
            let last = self.wrapped(self.next + fragments);
            let word1 = self.descriptors.descriptors()[last].load_acquire(1);
            if word1 & DD == 0 {
                return Step::Nothing;
            }
            let len = length(word1);
            lied |= !self.slots.slot(last).receive(len);
            if fragments > 0 {
                bytes += len as u64;
            }
            if word1 & EOP == 0 {
                continue;
            }
            if word1 & RXE != 0 {
                self.counters.errors.add(1);
            } else if lied {
                self.counters.bad_length.add(1);
            } else if fragments == 0 {
                // Finished since the packet path looked, which takes it the next time.
                return Step::Nothing;
            } else {
                self.merge(self.next, last);
                return Step::Chain(Chain { fragments, bytes });
            }
            return Step::Rearmed(self.rearm(fragments + 1));
        }
        // More buffers than the longest frame fills: the device lies, and the rest is not kept either.
        self.counters.too_long.add(1);
        self.discarding = true;
        Step::Rearmed(self.rearm(self.chain_max) + self.discard())
    }

    /// Writes what the device says about a packet, which is in its last descriptor, into its first, and
    /// keeps the length there. The device is done with both.
    fn merge(&self, first: usize, last: usize) {
        const LENGTH: u64 = 0xffff << 32;
        let descriptors = self.descriptors.descriptors();
        let (first, last) = (&descriptors[first], &descriptors[last]);
        let word1 = last.load(1) & !LENGTH | first.load(1) & LENGTH;
        first.store([last.load(0), word1]);
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
            let iova = self.slots.frames()[at].receive_iova(self.delta);
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
