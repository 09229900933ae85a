//! The worker: one thread's receive queue, transmit queue, program and frames.

use std::sync::Arc;

use driver_core::{Frame, FramePool, RxPacket, RxQueue, Spares, TxQueue, TxReason};

use crate::tally::{Batch, Fate, WorkerCounters};
use crate::verdict::Verdict;

/// What judges packets. The VM's adapter is `VmProgram`; any function from a
/// packet to a return value is one too, compiled in.
pub trait Program {
    /// Runs on a packet in its ring slot and may change it; returns what an XDP program returns.
    fn run(&mut self, packet: &mut RxPacket<'_>) -> u32;

    /// True where there is no program and every packet goes to the application unjudged.
    #[inline]
    fn is_skipped(&self) -> bool {
        false
    }
}

impl<F: FnMut(&mut RxPacket<'_>) -> u32> Program for F {
    #[inline(always)]
    fn run(&mut self, packet: &mut RxPacket<'_>) -> u32 {
        self(packet)
    }
}

/// No program: the queue is opened with the program explicitly skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct SkipProgram;

impl Program for SkipProgram {
    fn run(&mut self, _: &mut RxPacket<'_>) -> u32 {
        Verdict::Pass as u32
    }

    #[inline]
    fn is_skipped(&self) -> bool {
        true
    }
}

/// What stands above the program. It sees only packets with PASS.
pub trait Application {
    /// Takes a passed packet: reads it in its ring slot, or moves it out
    /// ([`RxPacket::take`], [`RxPacket::take_all`]). Returns whether it got what it wanted; false is
    /// counted as [`Fate::PassLost`].
    fn deliver(&mut self, packet: RxPacket<'_>) -> bool;

    /// Is told every verdict, and sees the packet as the program left it, before the verdict is acted on.
    #[inline(always)]
    fn judged(&mut self, _verdict: Verdict, _packet: &RxPacket<'_>) {}
}

impl<F: FnMut(RxPacket<'_>) -> bool> Application for F {
    fn deliver(&mut self, packet: RxPacket<'_>) -> bool {
        self(packet)
    }
}

/// An application that lets every passed packet go, and counts as having had it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl Application for Discard {
    fn deliver(&mut self, _: RxPacket<'_>) -> bool {
        true
    }
}

/// One thread's share of a port: polls a receive queue, runs the program on every packet in its ring
/// slot and acts on the verdict.
pub struct Worker<R, T, P, A> {
    rx: R,
    tx: T,
    program: P,
    application: A,
    pool: FramePool,
    spares: Spares,
    /// Frames that could not be sent; they become spares when the poll is over.
    returned: Vec<Frame>,
    /// Frames of one packet on their way to the transmit ring.
    chain: Vec<Frame>,
    size: BatchSize,
    counters: Arc<WorkerCounters>,
}

/// How much a worker does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Most packets of one poll, at least 1.
    pub packets: usize,
    /// Frames that the longest packet fills, at least 1.
    pub frames_per_packet: usize,
}

impl BatchSize {
    /// Up to `packets` at a time, none of which is longer than `max_frame` bytes in receive buffers
    /// of `buffer` bytes.
    pub fn new(packets: usize, max_frame: usize, buffer: usize) -> Self {
        let frames_per_packet = max_frame.div_ceil(buffer.max(1)).max(1);
        BatchSize {
            packets: packets.max(1),
            frames_per_packet,
        }
    }

    /// Frames that one poll can take out of the ring: what the worker keeps as spares.
    pub fn frames(&self) -> usize {
        self.packets * self.frames_per_packet
    }
}

/// What a worker was made of, when it ends.
pub struct Parts<R, T, P, A> {
    /// Its receive queue.
    pub rx: R,
    /// Its transmit queue; frames that the device has not finished are still on its ring.
    pub tx: T,
    /// Its program.
    pub program: P,
    /// Its application.
    pub application: A,
    /// Its pool, with the worker's spares given back.
    pub pool: FramePool,
}

impl<R: RxQueue, T: TxQueue, P: Program, A: Application> Worker<R, T, P, A> {
    /// A worker that polls up to `size.packets` at a time. `pool` gives the frames that take the place
    /// of those that leave.
    pub fn new(
        (rx, tx): (R, T),
        program: P,
        application: A,
        mut pool: FramePool,
        size: BatchSize,
    ) -> Self {
        let mut spares = pool.spares(8 * size.frames());
        spares.refill(&mut pool, size.frames());
        let returned = Vec::with_capacity(size.frames());
        let chain = Vec::with_capacity(size.frames_per_packet);
        let counters = Arc::default();
        Worker {
            rx,
            tx,
            program,
            application,
            pool,
            spares,
            returned,
            chain,
            size,
            counters,
        }
    }

    /// Polls once. Returns how many packets there were.
    pub fn poll(&mut self) -> usize {
        self.balance();
        let mut seen = Batch::default();
        let bytes_before = self.rx.counters().bytes.get();
        let Worker {
            rx,
            tx,
            program,
            application,
            spares,
            returned,
            chain,
            ..
        } = self;
        let received = rx.poll(self.size.packets, spares, |mut packet| {
            if program.is_skipped() {
                seen.skipped += 1;
                seen.fates[pass(application, packet) as usize] += 1;
                return;
            }
            let verdict = Verdict::from_return(program.run(&mut packet)).unwrap_or_else(|| {
                seen.invalid += 1;
                Verdict::Aborted
            });
            seen.verdicts[verdict as usize] += 1;
            application.judged(verdict, &packet);
            let fate = match verdict {
                Verdict::Aborted | Verdict::Drop => return,
                Verdict::Pass => pass(application, packet),
                Verdict::Tx => transmit(tx, packet, chain, returned),
                Verdict::Redirect => Fate::RedirectFailed,
            };
            seen.fates[fate as usize] += 1;
        });
        if seen.fates[Fate::Transmitted as usize] > 0 {
            self.tx.flush();
        }
        if !self.returned.is_empty() {
            self.returned.drain(..).for_each(|f| self.spares.push(f));
        }
        if received > 0 {
            seen.bytes = self.rx.counters().bytes.get() - bytes_before;
            self.counters.add(received, &seen);
        }
        received
    }

    /// Sees that this poll finds a batch of spares, and room for a batch on the transmit ring. What was
    /// sent comes first: so forwarding swaps frames between the two rings, several batches at a time,
    /// and leaves the pool alone.
    #[inline]
    fn balance(&mut self) {
        let batch = self.size.frames();
        // No more than half of a ring, or a short one would never have room enough.
        let room = batch.min((self.tx.room() + self.tx.pending()) / 2);
        if self.spares.len() >= batch && self.tx.room() >= room {
            return;
        }
        self.tx.reclaim(&mut self.spares);
        if self.spares.len() < batch {
            self.spares.refill(&mut self.pool, batch);
        } else if self.tx.room() < room {
            // The spares are full, and what else was sent waits behind them.
            self.spares.drain_to(&mut self.pool, batch);
            self.tx.reclaim(&mut self.spares);
        }
    }

    /// Takes finished frames off the transmit ring; returns how many are still on it.
    pub fn drain(&mut self) -> usize {
        self.tx.flush();
        while self.tx.reclaim(&mut self.spares) > 0 {
            self.spares.drain_to(&mut self.pool, self.size.frames());
        }
        self.tx.pending()
    }

    /// Ends the worker.
    pub fn into_parts(mut self) -> Parts<R, T, P, A> {
        self.spares.drain_to(&mut self.pool, 0);
        let Worker {
            rx,
            tx,
            program,
            application,
            pool,
            ..
        } = self;
        Parts {
            rx,
            tx,
            program,
            application,
            pool,
        }
    }

    /// Its counts, to be read from any thread.
    pub fn counters(&self) -> &Arc<WorkerCounters> {
        &self.counters
    }

    /// The pool that its spares come from.
    pub fn pool(&self) -> &FramePool {
        &self.pool
    }

    /// What stands above the program.
    pub fn application(&mut self) -> &mut A {
        &mut self.application
    }

    /// The program.
    pub fn program(&mut self) -> &mut P {
        &mut self.program
    }
}

#[inline]
fn pass<A: Application>(application: &mut A, packet: RxPacket<'_>) -> Fate {
    if application.deliver(packet) {
        Fate::Delivered
    } else {
        Fate::PassLost
    }
}

#[inline]
fn transmit<T: TxQueue>(
    tx: &mut T,
    packet: RxPacket<'_>,
    chain: &mut Vec<Frame>,
    returned: &mut Vec<Frame>,
) -> Fate {
    if packet.has_fragments() {
        return transmit_chain(tx, packet, chain, returned);
    }
    let Some(frame) = packet.take() else {
        return Fate::TxNoSpare;
    };
    match tx.enqueue(frame) {
        Ok(()) => Fate::Transmitted,
        Err(reject) => {
            returned.push(reject.frame);
            refused(reject.reason)
        }
    }
}

#[cold]
fn transmit_chain<T: TxQueue>(
    tx: &mut T,
    packet: RxPacket<'_>,
    chain: &mut Vec<Frame>,
    returned: &mut Vec<Frame>,
) -> Fate {
    if !packet.take_all(|frame| chain.push(frame)) {
        return Fate::TxNoSpare;
    }
    let sent = tx.enqueue_chain(chain);
    // What was refused is still there.
    returned.append(chain);
    sent.map_or_else(refused, |()| Fate::Transmitted)
}

fn refused(reason: TxReason) -> Fate {
    match reason {
        TxReason::Full => Fate::TxFull,
        TxReason::Length => Fate::TxLength,
    }
}
