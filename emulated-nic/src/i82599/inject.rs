//! Faults that a test asks of the model: a device that misbehaves, to see what its driver does.

use std::time::Duration;

/// A way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// CTRL.RST never clears, and a function-level reset fails.
    RefuseReset,
    /// The EEPROM is never read (EEC.ARD stays 0).
    NoEeprom,
    /// RDRXCTL.DMAIDONE stays 0.
    NoDmaInit,
    /// The link never comes up; it goes down if it was.
    NoLink,
    /// RXDCTL.ENABLE of this queue stays as it is.
    HangRxQueue(u16),
    /// TXDCTL.ENABLE of this queue stays as it is.
    HangTxQueue(u16),
    /// SECRXSTAT never says that the security block is empty.
    HangSecurityBlock,
    /// Every register reads all ones from this moment on (the NIC's clock), and nothing moves.
    GoneAt(Duration),
    /// Receive descriptors are written back with this length, whatever arrived.
    RxLength(u16),
    /// Received packets never end: EOP stays 0.
    RxNeverEnds,
    /// These bits are set in the status and error word of every receive descriptor.
    RxStatus(u32),
    /// Receive descriptors are used and never written back.
    RxNoWriteBack,
    /// Packets are sent, but neither their descriptors nor the head are written back.
    TxNoWriteBack,
}

#[derive(Debug, Default)]
pub(crate) struct Injections(Vec<Injection>);

impl Injections {
    pub(crate) fn add(&mut self, what: Injection) {
        if !self.0.contains(&what) {
            self.0.push(what);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    #[inline]
    pub(crate) fn has(&self, what: Injection) -> bool {
        self.0.contains(&what)
    }

    #[inline]
    pub(crate) fn is_gone(&self, now: Duration) -> bool {
        self.iter()
            .any(|i| matches!(i, Injection::GoneAt(at) if at <= now))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Injection> + '_ {
        self.0.iter().copied()
    }
}
