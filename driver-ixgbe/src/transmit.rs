//! A transmit queue: its set-up (82599 datasheet 4.6.8), and the way of a frame through its ring.
//!
//! The device reports only descriptors that ask for it (RS). The driver asks at the end of each flush
//! and at least every [`REPORT_EVERY`] descriptors, remembers where, and looks at nothing else when it
//! takes finished frames back.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use driver_core::{
    Doorbell, Frame, Spares, TxCounters, TxQueue, TxReason, TxReject, TxRing, wait_until,
};

use crate::error::Error;
use crate::hw::Wait;
use crate::port::MAX_FRAME;
use crate::registers::*;
use crate::running::Running;

/// Bits of an advanced data descriptor's second quadword.
mod bits {
    /// DTYP 3 (data), IFCS (insert the checksum), DEXT (advanced format).
    pub(super) const DATA: u64 = 3 << 20 | 1 << 25 | 1 << 29;
    /// End of packet.
    pub(super) const EOP: u64 = 1 << 24;
    /// Report status.
    pub(super) const RS: u64 = 1 << 27;
    /// Descriptor done.
    pub(super) const DD: u64 = 1 << 32;
    /// Place of PAYLEN, the bytes of the whole packet.
    pub(super) const PAYLEN_SHIFT: u32 = 46;
}
use bits::*;

/// Shortest packet that the device takes: an Ethernet header. It pads to 60 bytes.
const MIN_PACKET: usize = 14;
/// Most descriptors of one packet.
const MAX_CHAIN: usize = 40;
/// At most this many descriptors go without a report.
const REPORT_EVERY: usize = 32;
/// PTHRESH 32, HTHRESH 1, WTHRESH 0: prefetch within the 40 descriptors that the chip caches, and
/// write each report back at once.
const THRESHOLDS: u32 = 32 | 1 << 8;
/// How long a queue that goes away waits for frames on their way out.
const DRAIN: Duration = Duration::from_millis(10);

/// A transmit queue of an ixgbe port. Dropping it gives frames on their way a moment to leave and
/// disables the queue; all frames then go home.
#[derive(Debug)]
pub struct IxgbeTxQueue {
    ring: TxRing,
    /// The tail that the device was told last.
    shown: usize,
    /// Descriptors that the device has finished, and whose frames are still on the ring: the oldest.
    finished: usize,
    /// Where a report is to come: how many descriptors it covers, at the index of the first of them.
    reports: Box<[u32]>,
    /// First descriptor that no report has come for.
    reported: usize,
    delta: u64,
    /// What was enqueued since the last flush.
    batch: Batch,
    doorbell: Doorbell,
    counters: Arc<TxCounters>,
    index: u16,
    running: Arc<Running>,
}

/// What has not reached the counters yet.
#[derive(Debug, Default)]
struct Batch {
    bytes: u64,
    /// Descriptors that are not the first of their packet.
    fragments: u64,
}

impl IxgbeTxQueue {
    /// Sets a queue up and enables it. DMATXCTL.TE must be set.
    pub(crate) fn start(running: &Arc<Running>, q: u16, ring: TxRing) -> Result<Self, Error> {
        let hw = running.hw();
        let descriptors = ring.memory();
        let count = ring.descriptors().len();
        for descriptor in descriptors.descriptors() {
            descriptor.store([0, 0]);
        }
        let iova = descriptors.iova();
        hw.write(TDBAL(q), iova as u32);
        hw.write(TDBAH(q), (iova >> 32) as u32);
        hw.write(TDLEN(q), descriptors.len_bytes());
        // Reports go into descriptors, not to a head in memory.
        hw.write(TDWBAL(q), 0);
        hw.write(TDWBAH(q), 0);
        hw.write(TDH(q), 0);
        hw.write(TDT(q), 0);
        // From here on the drop disables the queue before its memory goes.
        let queue = IxgbeTxQueue {
            doorbell: hw.device.doorbell(TDT(q).offset())?,
            delta: hw.device.domain().delta(),
            ring,
            shown: 0,
            finished: 0,
            reports: vec![0; count].into(),
            reported: 0,
            batch: Batch::default(),
            counters: Arc::default(),
            index: q,
            running: running.clone(),
        };
        hw.modify(TXDCTL(q), |v| {
            let thresholds = Txdctl::from_bits_retain(THRESHOLDS);
            (v - Txdctl::THRESHOLDS - Txdctl::SWFLSH) | thresholds | Txdctl::ENABLE
        })?;
        let wait = Wait {
            step: "enable a transmit queue",
            every: Duration::from_millis(1),
            limit: Duration::from_millis(10),
            remedy: "reset the function through its bus",
        };
        hw.wait(TXDCTL(q), wait, |v| v.contains(Txdctl::ENABLE))?;
        Ok(queue)
    }

    /// What is left of [`enqueue`](TxQueue::enqueue): the ring's end, a full ring, a wrong length.
    #[cold]
    #[inline(never)]
    fn enqueue_or_reject(&mut self, frame: Frame) -> Result<(), TxReject> {
        let len = frame.len();
        let reason = if !(MIN_PACKET..=MAX_FRAME as usize).contains(&len) {
            TxReason::Length
        } else if let Some(slot) = self.ring.free() {
            let words = words(&frame, self.delta, len, EOP);
            slot.fill(frame, words);
            self.batch.bytes += len as u64;
            return Ok(());
        } else {
            TxReason::Full
        };
        self.count_reject(reason);
        Err(TxReject { frame, reason })
    }

    fn count_reject(&self, reason: TxReason) {
        match reason {
            TxReason::Full => self.counters.full.add(1),
            TxReason::Length => self.counters.bad_length.add(1),
        }
    }

    /// Asks for reports on what is about to be shown to the device, `count` descriptors up to the tail:
    /// of the last one, and of an end of packet at least every [`REPORT_EVERY`] (somewhat later where a
    /// packet is in the way).
    #[inline]
    fn request_reports(&mut self, count: usize) {
        let mut start = self.shown;
        let mut left = count;
        while left > REPORT_EVERY {
            let covers = self.next_report(start, left);
            self.request_report(start, covers);
            start = self.wrapped(start + covers);
            left -= covers;
        }
        if left > 0 {
            self.request_report(start, left);
        }
    }

    /// How many of the `left` descriptors from `start` on the next report is to cover.
    #[cold]
    fn next_report(&self, start: usize, left: usize) -> usize {
        let ends = |covers: &usize| {
            let last = self.wrapped(start + covers - 1);
            self.ring.descriptors()[last].load(1) & EOP != 0
        };
        (REPORT_EVERY..left).find(ends).unwrap_or(left)
    }

    #[inline]
    fn request_report(&mut self, start: usize, covers: usize) {
        let last = &self.ring.descriptors()[self.wrapped(start + covers - 1)];
        last.store_word(1, last.load(1) | RS);
        self.reports[start] = covers as u32;
    }

    /// `index` on the ring, where it is less than two rounds.
    #[inline]
    fn wrapped(&self, index: usize) -> usize {
        let n = self.reports.len();
        if index >= n { index - n } else { index }
    }
}

impl TxQueue for IxgbeTxQueue {
    #[inline]
    fn enqueue(&mut self, frame: Frame) -> Result<(), TxReject> {
        let len = frame.len();
        if (MIN_PACKET..=MAX_FRAME as usize).contains(&len)
            && let Some(slot) = self.ring.free_at_once()
        {
            let words = words(&frame, self.delta, len, EOP);
            slot.fill(frame, words);
            self.batch.bytes += len as u64;
            return Ok(());
        }
        self.enqueue_or_reject(frame)
    }

    fn enqueue_chain(&mut self, frames: &mut Vec<Frame>) -> Result<(), TxReason> {
        let total: usize = frames.iter().map(Frame::len).sum();
        let count = frames.len();
        let sendable = (1..=MAX_CHAIN).contains(&count)
            && (MIN_PACKET..=MAX_FRAME as usize).contains(&total)
            && frames.iter().all(|f| !f.is_empty());
        let refusal = match sendable {
            false => Some(TxReason::Length),
            true if self.ring.room() < count => Some(TxReason::Full),
            true => None,
        };
        if let Some(reason) = refusal {
            self.count_reject(reason);
            return Err(reason);
        }
        for (i, frame) in frames.drain(..).enumerate() {
            let payload = if i == 0 { total } else { 0 };
            let end = if i + 1 == count { EOP } else { 0 };
            let words = words(&frame, self.delta, payload, end);
            // There is room for all: a frame without would be dropped here, and go home.
            if let Some(slot) = self.ring.free() {
                slot.fill(frame, words);
            }
        }
        self.batch.fragments += count as u64 - 1;
        self.batch.bytes += total as u64;
        Ok(())
    }

    #[inline]
    fn flush(&mut self) {
        let tail = self.ring.tail();
        let count = self.wrapped(tail + self.reports.len() - self.shown);
        if count == 0 {
            return;
        }
        self.request_reports(count);
        self.doorbell.ring(tail as u32);
        self.shown = tail;
        let batch = mem::take(&mut self.batch);
        self.counters.packets.add(count as u64 - batch.fragments);
        self.counters.bytes.add(batch.bytes);
    }

    #[inline]
    fn reclaim(&mut self, spares: &mut Spares) -> usize {
        loop {
            let covers = self.reports[self.reported] as usize;
            if covers == 0 {
                break;
            }
            let last = self.wrapped(self.reported + covers - 1);
            if self.ring.descriptors()[last].load_acquire(1) & DD == 0 {
                break;
            }
            self.reports[self.reported] = 0;
            self.finished += covers;
            self.reported = self.wrapped(last + 1);
        }
        if self.finished == 0 {
            return 0;
        }
        let count = self.ring.reclaim(self.finished, spares);
        self.finished -= count;
        self.counters.reclaimed.add(count as u64);
        count
    }

    fn pending(&self) -> usize {
        self.ring.used()
    }

    #[inline]
    fn room(&self) -> usize {
        self.ring.room()
    }

    fn index(&self) -> u16 {
        self.index
    }

    fn counters(&self) -> &Arc<TxCounters> {
        &self.counters
    }
}

/// What a descriptor says of `frame`. `payload` is the packet's length in its first descriptor.
#[inline]
fn words(frame: &Frame, delta: u64, payload: usize, end: u64) -> [u64; 2] {
    let flags = DATA | end;
    let word1 = ((payload as u64) << PAYLEN_SHIFT) + flags + frame.len() as u64;
    [frame.data_iova(delta), word1]
}

impl Drop for IxgbeTxQueue {
    fn drop(&mut self) {
        // Without a link nothing leaves, so this is no error.
        let hw = self.running.hw();
        let look = Duration::from_micros(100);
        wait_until(hw.device.clock(), look, DRAIN, || {
            match (hw.read(TDH(self.index)), hw.read(TDT(self.index))) {
                (Ok(head), Ok(tail)) => head == tail,
                _ => true,
            }
        });
        let stopped = self
            .running
            .stop_queue(TXDCTL(self.index), "disable a transmit queue");
        if !stopped {
            self.ring.leak();
        }
    }
}
