//! What receive and transmit queues have in common: a ring, a head, a tail, and turning on and off,
//! which takes a while.

use std::time::Duration;

use crate::strict::{Rule, StrictLog};

/// ENABLE of RXDCTL and TXDCTL.
pub(crate) const ENABLE: u32 = 1 << 25;
/// From the write of ENABLE to the queue's turning on.
const ENABLE_TIME: Duration = Duration::from_micros(10);
/// From the clearing of ENABLE to the queue's turning off.
const DISABLE_TIME: Duration = Duration::from_micros(20);
const DESCRIPTOR: u64 = 16;
const RING_UNIT: u32 = 128;
const RING_MAX: u32 = 128 << 10;

/// A descriptor ring as its device sees it.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    pub(crate) base: u64,
    /// Descriptors.
    pub(crate) count: u32,
    pub(crate) head: u32,
    /// The tail as it was looked at last, inside the ring.
    pub(crate) tail: u32,
    /// A tail that was found wrong, so that it is noted once.
    refused: Option<u32>,
    pub(crate) on: bool,
    wanted: bool,
    change_at: Option<Duration>,
}

impl Ring {
    /// Takes over where the ring is and how long. Head and tail that do not lie in it start again.
    pub(crate) fn set(&mut self, base: u64, bytes: u32) {
        self.base = base;
        self.count = bytes / DESCRIPTOR as u32;
        if self.head >= self.count {
            self.head = 0;
            self.tail = 0;
        }
        if self.tail >= self.count {
            self.tail = self.head;
        }
    }

    /// Descriptors that belong to the device.
    #[inline]
    pub(crate) fn owned(&self) -> u32 {
        if self.tail >= self.head {
            self.tail - self.head
        } else {
            self.tail + self.count - self.head
        }
    }

    /// Index of the `i`-th descriptor from `from`; `i` is less than the ring is long.
    #[inline]
    pub(crate) fn after(&self, from: u32, i: u32) -> u32 {
        let next = from + i;
        if next >= self.count {
            next - self.count
        } else {
            next
        }
    }

    /// Address of a descriptor.
    #[inline]
    pub(crate) fn address(&self, index: u32) -> u64 {
        // A driver may program any base; what wraps around is a fault like any address that is not mapped.
        self.base.wrapping_add(DESCRIPTOR * u64::from(index))
    }

    /// Looks at the tail that the driver has written. `name` is the register's.
    #[inline]
    pub(crate) fn look(&mut self, tail: u32, name: &'static str, n: usize, strict: &mut StrictLog) {
        if tail != self.tail {
            self.look_closely(tail, name, n, strict);
        }
    }

    fn look_closely(&mut self, tail: u32, name: &'static str, n: usize, strict: &mut StrictLog) {
        if tail >= self.count {
            if self.refused != Some(tail) {
                self.refused = Some(tail);
                strict.note(Rule::TailOutsideRing, name, n, u64::from(tail));
            }
            return;
        }
        if tail == self.head {
            // It was not empty, and nobody but the device moves the head.
            strict.note(Rule::AllDescriptorsGiven, name, n, u64::from(tail));
        }
        self.refused = None;
        self.tail = tail;
    }

    /// ENABLE was written.
    pub(crate) fn ask(&mut self, enable: bool, now: Duration) {
        if enable == self.wanted {
            return;
        }
        self.wanted = enable;
        let after = if enable { ENABLE_TIME } else { DISABLE_TIME };
        self.change_at = (self.wanted != self.on).then_some(now + after);
    }

    /// Turns on or off if it is time to.
    pub(crate) fn change(&mut self, now: Duration) -> Option<bool> {
        if self.change_at.is_none_or(|at| at > now) {
            return None;
        }
        self.change_at = None;
        self.on = self.wanted;
        Some(self.on)
    }

    /// A change has been asked for and not happened yet.
    pub(crate) fn is_changing(&self) -> bool {
        self.change_at.is_some()
    }

    /// Starts at `head` with no descriptor.
    pub(crate) fn start(&mut self, head: u32) {
        self.head = head;
        self.tail = head;
        self.refused = None;
    }
}

/// Checks a ring's base as written to its low register.
pub(crate) fn check_base(strict: &mut StrictLog, name: &'static str, n: usize, value: u32) {
    if !value.is_multiple_of(RING_UNIT) {
        strict.note(Rule::RingBaseAlignment, name, n, u64::from(value));
    }
}

/// Checks a ring's length.
pub(crate) fn check_len(strict: &mut StrictLog, name: &'static str, n: usize, value: u32) {
    if !value.is_multiple_of(RING_UNIT) || value > RING_MAX {
        strict.note(Rule::RingLength, name, n, u64::from(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Ring {
        Ring {
            count: 64,
            ..Ring::default()
        }
    }

    #[test]
    fn a_ring_owns_what_lies_between_head_and_tail() {
        let mut r = ring();
        let mut log = StrictLog::default();
        assert_eq!(r.owned(), 0);
        r.look(63, "RDT", 0, &mut log);
        assert_eq!(r.owned(), 63);
        r.head = 60;
        r.look(5, "RDT", 0, &mut log);
        assert_eq!((r.owned(), r.after(60, 8)), (9, 4));
        assert_eq!(log.all().1, 0);
    }

    #[test]
    fn a_ring_at_the_end_of_the_address_space_is_only_odd() {
        let mut r = ring();
        r.set(u64::MAX - 127, 16 * 64);
        assert_eq!((r.address(7), r.address(8)), (u64::MAX - 15, 0));
    }

    #[test]
    fn a_wrong_tail_is_noted_once() {
        let mut r = ring();
        let mut log = StrictLog::default();
        r.look(64, "RDT", 3, &mut log);
        r.look(64, "RDT", 3, &mut log);
        assert_eq!((r.owned(), log.all().1), (0, 1));
        r.look(10, "RDT", 3, &mut log);
        r.look(0, "RDT", 3, &mut log);
        let rules: Vec<_> = log.all().0.iter().map(|v| (v.rule, v.index)).collect();
        assert_eq!(
            rules,
            [(Rule::TailOutsideRing, 3), (Rule::AllDescriptorsGiven, 3)]
        );
    }

    #[test]
    fn a_ring_that_shrinks_under_its_head_starts_again() {
        let mut r = ring();
        (r.head, r.tail) = (50, 60);
        r.set(0, 16 * 56);
        assert_eq!((r.head, r.owned()), (50, 0));
        r.set(0, 16 * 8);
        assert_eq!((r.head, r.owned()), (0, 0));
        r.set(0, 0);
        let mut log = StrictLog::default();
        r.look(3, "RDT", 0, &mut log);
        assert_eq!((r.owned(), log.all().1), (0, 1));
    }

    #[test]
    fn turning_on_takes_a_while() {
        let mut r = ring();
        let us = Duration::from_micros;
        r.ask(true, us(100));
        assert_eq!((r.change(us(105)), r.on), (None, false));
        assert_eq!((r.change(us(110)), r.on), (Some(true), true));
        r.ask(false, us(200));
        r.ask(true, us(201));
        assert_eq!(
            (r.change(us(999)), r.on),
            (None, true),
            "asked back in time"
        );
    }
}
