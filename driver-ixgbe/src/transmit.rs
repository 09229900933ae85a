//! A transmit queue: its set-up (facts 6.2), and the way of a frame through its ring.
//!
//! The device reports only descriptors that ask for it (RS). The driver asks at the end of each flush
//! and at least every [`REPORT_EVERY`] descriptors, remembers where, and looks at nothing else when it
//! takes finished frames back.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use driver_core::{
    DescriptorRing, Doorbell, Frame, Spares, TxCounters, TxQueue, TxReason, TxReject, wait_until,
};

use crate::error::Error;
use crate::hw::Wait;
use crate::port::MAX_FRAME;
use crate::registers::*;
use crate::running::Running;

/// Bits of an advanced data descriptor's second quadword (facts 7.3).
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
    descriptors: DescriptorRing,
    /// Frame of each descriptor that is in use.
    slots: Box<[Option<Frame>]>,
    /// Next descriptor to fill.
    tail: usize,
    /// Descriptors that may be filled: all but one at most.
    free: usize,
    /// What the device was told last.
    shown: usize,
    /// First descriptor in use.
    clean: usize,
    /// First one that the device has not been seen to finish.
    finished: usize,
    /// Descriptors that will be reported, oldest first.
    reports: VecDeque<u32>,
    delta: u64,
    doorbell: Doorbell,
    counters: Arc<TxCounters>,
    index: u16,
    running: Arc<Running>,
}

impl IxgbeTxQueue {
    /// Sets a queue up and enables it. DMATXCTL.TE must be set.
    pub(crate) fn start(
        running: &Arc<Running>,
        q: u16,
        descriptors: DescriptorRing,
        count: usize,
    ) -> Result<Self, Error> {
        let hw = running.hw();
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
            descriptors,
            slots: (0..count).map(|_| None).collect(),
            tail: 0,
            free: count - 1,
            shown: 0,
            clean: 0,
            finished: 0,
            reports: VecDeque::with_capacity(count),
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

    /// Fills the next descriptor. `payload` is the packet's length in its first descriptor.
    #[inline]
    fn put(&mut self, frame: Frame, payload: usize, end: u64) {
        let tail = self.tail;
        let words = [
            frame.data_iova(self.delta),
            (payload as u64) << PAYLEN_SHIFT | DATA | end | frame.len() as u64,
        ];
        self.descriptors.descriptors()[tail].store(words);
        // A free descriptor has no frame: forgetting what was there drops nothing.
        mem::forget(self.slots[tail].replace(frame));
        self.free -= 1;
        self.tail = self.after(tail);
    }

    /// The descriptor after `index`.
    #[inline]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.slots.len() {
            0
        } else {
            index + 1
        }
    }

    /// Descriptors from `from` up to `to`.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from {
            to - from
        } else {
            to + self.slots.len() - from
        }
    }

    #[cold]
    #[inline(never)]
    fn reject(&self, frame: Frame, reason: TxReason) -> TxReject {
        self.count_reject(reason);
        TxReject { frame, reason }
    }

    fn count_reject(&self, reason: TxReason) {
        match reason {
            TxReason::Full => self.counters.full.add(1),
            TxReason::Length => self.counters.bad_length.add(1),
        }
    }

    /// Asks for reports on what is about to be shown to the device: of the last descriptor, and of an
    /// end of packet at least every [`REPORT_EVERY`] (somewhat later where a packet is in the way).
    fn request_reports(&mut self) {
        let n = self.slots.len();
        let mut left = self.distance(self.shown, self.tail);
        let mut at = self.shown;
        while left > 0 {
            let mut stride = left.min(REPORT_EVERY);
            let mut last = (at + stride - 1) % n;
            let mut word = self.descriptors.descriptors()[last].load(1);
            while word & EOP == 0 && stride < left {
                stride += 1;
                last = self.after(last);
                word = self.descriptors.descriptors()[last].load(1);
            }
            self.descriptors.descriptors()[last].store_word(1, word | RS);
            self.reports.push_back(last as u32);
            at = self.after(last);
            left -= stride;
        }
    }
}

impl TxQueue for IxgbeTxQueue {
    #[inline]
    fn enqueue(&mut self, frame: Frame) -> Result<(), TxReject> {
        let len = frame.len();
        if self.free == 0 {
            return Err(self.reject(frame, TxReason::Full));
        }
        if !(MIN_PACKET..=MAX_FRAME as usize).contains(&len) {
            return Err(self.reject(frame, TxReason::Length));
        }
        self.put(frame, len, EOP);
        self.counters.packets.add(1);
        self.counters.bytes.add(len as u64);
        Ok(())
    }

    fn enqueue_chain(&mut self, frames: &mut Vec<Frame>) -> Result<(), TxReason> {
        let total: usize = frames.iter().map(Frame::len).sum();
        let count = frames.len();
        let sendable = (1..=MAX_CHAIN).contains(&count)
            && (MIN_PACKET..=MAX_FRAME as usize).contains(&total)
            && frames.iter().all(|f| !f.is_empty());
        let refusal = match sendable {
            false => Some(TxReason::Length),
            true if self.free < count => Some(TxReason::Full),
            true => None,
        };
        if let Some(reason) = refusal {
            self.count_reject(reason);
            return Err(reason);
        }
        for (i, frame) in frames.drain(..).enumerate() {
            let payload = if i == 0 { total } else { 0 };
            let end = if i + 1 == count { EOP } else { 0 };
            self.put(frame, payload, end);
        }
        self.counters.packets.add(1);
        self.counters.bytes.add(total as u64);
        Ok(())
    }

    fn flush(&mut self) {
        if self.tail != self.shown {
            self.request_reports();
            self.doorbell.ring(self.tail as u32);
            self.shown = self.tail;
        }
    }

    #[inline]
    fn reclaim(&mut self, spares: &mut Spares) -> usize {
        while let Some(&report) = self.reports.front() {
            let word = self.descriptors.descriptors()[report as usize].load_acquire(1);
            if word & DD == 0 {
                break;
            }
            self.reports.pop_front();
            self.finished = self.after(report as usize);
        }
        let count = self.distance(self.clean, self.finished).min(spares.room());
        if count == 0 {
            return 0;
        }
        let (start, from_clean) = self.slots.split_at_mut(self.clean);
        let to_end = count.min(from_clean.len());
        for run in [&mut from_clean[..to_end], &mut start[..count - to_end]] {
            for slot in run {
                if let Some(frame) = slot.take() {
                    spares.push(frame);
                }
            }
        }
        self.clean += count;
        if self.clean >= self.slots.len() {
            self.clean -= self.slots.len();
        }
        self.free += count;
        self.counters.reclaimed.add(count as u64);
        count
    }

    fn pending(&self) -> usize {
        self.slots.len() - 1 - self.free
    }

    fn index(&self) -> u16 {
        self.index
    }

    fn counters(&self) -> &Arc<TxCounters> {
        &self.counters
    }
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
            mem::forget(mem::take(&mut self.slots));
        }
    }
}
