//! What a worker counts, and the two laws that its counts obey at every quiet moment.

use std::fmt;

use driver_core::Counter;

use crate::verdict::Verdict;

/// Counts of one worker: it writes, anybody reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    received: Counter,
    bytes: Counter,
    verdicts: [Counter; 5],
    skipped: Counter,
    invalid: Counter,
    fates: [Counter; Fate::ALL.len()],
}

/// What became of a packet in the end: exactly one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fate {
    /// Its buffers re-armed their slots: dropped or aborted, as the program wanted.
    Recycled = 0,
    /// The application took it.
    Delivered = 1,
    /// It was put on a transmit ring.
    Transmitted = 2,
    /// PASS, and the application did not take it.
    PassLost = 3,
    /// TX, and the transmit ring was full.
    TxFull = 4,
    /// TX, and the device cannot send a packet of that length.
    TxLength = 5,
    /// TX, and no spare frame was there to take its place in the receive ring.
    TxNoSpare = 6,
    /// REDIRECT without a target that exists.
    RedirectFailed = 7,
}

impl Fate {
    /// All fates, each at the index of its number.
    pub const ALL: [Fate; 8] = [
        Fate::Recycled,
        Fate::Delivered,
        Fate::Transmitted,
        Fate::PassLost,
        Fate::TxFull,
        Fate::TxLength,
        Fate::TxNoSpare,
        Fate::RedirectFailed,
    ];

    /// Its name, as counters and JSON have it.
    pub fn name(self) -> &'static str {
        match self {
            Fate::Recycled => "recycled",
            Fate::Delivered => "delivered",
            Fate::Transmitted => "transmitted",
            Fate::PassLost => "pass_lost",
            Fate::TxFull => "tx_full",
            Fate::TxLength => "tx_length",
            Fate::TxNoSpare => "tx_no_spare",
            Fate::RedirectFailed => "redirect_failed",
        }
    }

    /// True where the packet did not get what its verdict asked for.
    pub fn is_loss(self) -> bool {
        self as u8 >= Fate::PassLost as u8
    }
}

/// Counts of one poll, in plain integers; added to [`WorkerCounters`] at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) verdicts: [u32; 5],
    pub(crate) skipped: u32,
    pub(crate) invalid: u32,
    pub(crate) bytes: u64,
    /// Packets whose fate is not [`Fate::Recycled`].
    pub(crate) fates: [u32; Fate::ALL.len()],
}

impl WorkerCounters {
    /// Adds a poll of `received` packets.
    pub(crate) fn add(&self, received: usize, batch: &Batch) {
        self.received.add(received as u64);
        self.bytes.add(batch.bytes);
        for (counter, n) in self.verdicts.iter().zip(batch.verdicts) {
            counter.add(u64::from(n));
        }
        self.skipped.add(u64::from(batch.skipped));
        self.invalid.add(u64::from(batch.invalid));
        let moved: u32 = batch.fates.iter().sum();
        self.fates[Fate::Recycled as usize].add((received as u64).saturating_sub(moved.into()));
        for (counter, n) in self.fates.iter().zip(batch.fates) {
            counter.add(u64::from(n));
        }
    }

    /// The counts now. While the worker runs they may be of slightly different moments.
    pub fn snapshot(&self) -> Tally {
        Tally {
            received: self.received.get(),
            bytes: self.bytes.get(),
            verdicts: std::array::from_fn(|i| self.verdicts[i].get()),
            skipped: self.skipped.get(),
            invalid: self.invalid.get(),
            fates: std::array::from_fn(|i| self.fates[i].get()),
        }
    }
}

/// Counts of one or several workers at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets that receive queues gave.
    pub received: u64,
    /// Bytes of those as they arrived, without FCS.
    pub bytes: u64,
    /// Verdicts, at the index of their number.
    pub verdicts: [u64; 5],
    /// Packets that went past the program, which was told to be skipped.
    pub skipped: u64,
    /// Verdicts that are no action; counted in `aborted` too.
    pub invalid: u64,
    /// Fates, at the index of their number.
    pub fates: [u64; Fate::ALL.len()],
}

impl Tally {
    /// How often `verdict` was given.
    pub fn verdict(&self, verdict: Verdict) -> u64 {
        self.verdicts[verdict as usize]
    }

    /// How many packets met `fate`.
    pub fn fate(&self, fate: Fate) -> u64 {
        self.fates[fate as usize]
    }

    /// Packets that did not get what their verdict asked for, and aborted ones.
    pub fn errors(&self) -> u64 {
        let lost: u64 = Fate::ALL
            .iter()
            .filter(|f| f.is_loss())
            .map(|f| self.fate(*f))
            .sum();
        lost + self.verdict(Verdict::Aborted)
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Tally) {
        self.received += other.received;
        self.bytes += other.bytes;
        self.skipped += other.skipped;
        self.invalid += other.invalid;
        self.verdicts
            .iter_mut()
            .zip(other.verdicts)
            .for_each(|(a, b)| *a += b);
        self.fates
            .iter_mut()
            .zip(other.fates)
            .for_each(|(a, b)| *a += b);
    }

    /// Checks the laws of packets: one verdict and one fate each, and a fate that fits the verdict.
    pub fn check(&self) -> Result<(), Imbalance> {
        let judged = self.verdicts.iter().sum::<u64>() + self.skipped;
        let fates = self.fates.iter().sum::<u64>();
        let pass = self.verdict(Verdict::Pass) + self.skipped;
        let passed = self.fate(Fate::Delivered) + self.fate(Fate::PassLost);
        let sent = [
            Fate::Transmitted,
            Fate::TxFull,
            Fate::TxLength,
            Fate::TxNoSpare,
        ];
        let sent = sent.iter().map(|f| self.fate(*f)).sum::<u64>();
        let tx = self.verdict(Verdict::Tx);
        let redirect = (
            self.verdict(Verdict::Redirect),
            self.fate(Fate::RedirectFailed),
        );
        let rows = [
            ("received against verdicts", self.received, judged),
            ("received against fates", self.received, fates),
            ("pass against delivered and lost", pass, passed),
            ("tx against transmitted and lost", tx, sent),
            ("redirect against its fates", redirect.0, redirect.1),
        ];
        match rows.into_iter().find(|r| r.1 != r.2) {
            None => Ok(()),
            Some((law, left, right)) => Err(Imbalance { law, left, right }),
        }
    }
}

/// A conservation law that does not hold: packets or buffers were lost, or counted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub struct Imbalance {
    pub law: &'static str,
    pub left: u64,
    pub right: u64,
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not conserved: {}: {} and {}",
            self.law, self.left, self.right
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_law_is_noticed_when_broken() {
        let counters = WorkerCounters::default();
        let mut batch = Batch {
            verdicts: [1, 2, 3, 4, 5],
            bytes: 15 * 60,
            ..Batch::default()
        };
        batch.fates[Fate::Delivered as usize] = 2;
        batch.fates[Fate::PassLost as usize] = 1;
        batch.fates[Fate::Transmitted as usize] = 3;
        batch.fates[Fate::TxFull as usize] = 1;
        batch.fates[Fate::RedirectFailed as usize] = 5;
        counters.add(15, &batch);
        let good = counters.snapshot();
        assert_eq!(good.check(), Ok(()));
        assert_eq!((good.fate(Fate::Recycled), good.errors()), (3, 8));

        for break_it in [
            |t: &mut Tally| t.received += 1,
            |t: &mut Tally| t.verdicts[Verdict::Drop as usize] -= 1,
            |t: &mut Tally| t.fates[Fate::Recycled as usize] += 1,
            |t: &mut Tally| {
                t.fates[Fate::Delivered as usize] += 1;
                t.fates[Fate::Recycled as usize] -= 1;
            },
            |t: &mut Tally| {
                t.fates[Fate::TxFull as usize] += 1;
                t.fates[Fate::RedirectFailed as usize] -= 1;
            },
        ] {
            let mut bad = good;
            break_it(&mut bad);
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
