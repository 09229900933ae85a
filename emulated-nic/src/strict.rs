//! The strict log: rules of the datasheet that a driver broke.
//!
//! Each rule is a mistake that real hardware punishes late, far away or only sometimes. The model
//! notes it where it happens and goes on as the hardware would.

use std::fmt;
use std::time::Duration;

/// Violations that are kept; more are only counted.
const KEPT: usize = 1024;

macro_rules! rules {
    ($($name:ident: $text:literal,)*) => {
        /// A rule for drivers of the 82599 family.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $text] $name,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];

            /// What the rule asks for.
            pub fn text(self) -> &'static str {
                match self {
                    $(Rule::$name => $text,)*
                }
            }
        }
    };
}

rules! {
    UnalignedAccess: "registers are accessed at multiples of four bytes",
    UnknownRegister: "only offsets that hold a register are written",
    AccessDuringReset: "no register is accessed for 1 ms after CTRL.RST, but STATUS to flush that write",
    EiacReservedBits: "EIAC may name queue causes 15:0 and the TCP timer (30) only",
    DtxmxszrqReservedBits: "bits 31:12 of DTXMXSZRQ are reserved and written 0",
    RdrxctlReservedField: "reserved fields of RDRXCTL keep their value",
    CrcStripDiffers: "RDRXCTL.CRCSTRIP and HLREG0.RXCRCSTRP are equal when the first frame arrives",
    RscFirstSize: "RDRXCTL.RSCFRSTSIZE is 0 when the first frame arrives",
    RscAckFcoeFix: "RDRXCTL.RSCACKC and FCOE_WRFIX are 1 when the first frame arrives",
    DcaRxctrlBit12: "DCA_RXCTRL bit 12 is cleared before its queue receives",
    RdtBeforeEnable: "RDT is written only after RXDCTL.ENABLE reads 1",
    TdtBeforeEnable: "TDT is written only after DMATXCTL.TE is set and TXDCTL.ENABLE reads 1",
    EnableBeforeTe: "TXDCTL.ENABLE is set only after DMATXCTL.TE",
    RingBaseAlignment: "a ring starts at a multiple of 128 bytes",
    RingLength: "a ring's length is a multiple of 128 bytes, at least 128 and at most 128 KiB",
    HeadWhileEnabled: "RDH and TDH are written only while their queue is disabled",
    TailOutsideRing: "RDT and TDT name a descriptor of their ring",
    AllDescriptorsGiven: "at most all descriptors but one are given to the device",
    BuffersOverlap: "receive buffers are as large as SRRCTL says and do not overlap",
    BufferSize: "SRRCTL names a packet buffer of 1 to 16 KiB and a type without header split",
    DmaOutsideMapping: "the device is given only addresses that are mapped for it",
    DmaWithoutBusMaster: "the device is not made to use DMA while bus mastering is off",
    MtqcWithoutArbdis: "MTQC is written only while RTTDCS.ARBDIS is 1",
    TxLegacyInAdvancedRing: "DEXT is set in every descriptor of a ring that uses advanced descriptors",
    TxTooManyDescriptors: "a packet has at most 40 descriptors",
    TxEopMissing: "the descriptor before TDT ends a packet",
    TxLengthZero: "a data descriptor has a DTALEN of at least 1",
    TxPaylenMismatch: "PAYLEN is the sum of the buffers of the packet, less the header where it is segmented",
    TxSegmentLength: "what is segmented has a header shorter than itself, an MSS, and segments that fit a frame",
    TxPacketLength: "a packet has at least 14 bytes and at most the largest frame",
    TxContextMissing: "a data descriptor names a context that was set up before",
    HeadWriteBackAlignment: "the head write-back address is a multiple of 16 bytes",
    HeadWriteBackThreshold: "WTHRESH is 0 where head write-back is used",
    NotModelled: "only what the model knows is used; what this asks for is ignored",
}

/// One break of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// Register concerned, by its datasheet name; empty where none is.
    pub register: &'static str,
    /// Queue or index of the register.
    pub index: usize,
    /// What was written, read or found.
    pub value: u64,
    /// When, on the NIC's clock.
    pub at: Duration,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} at {:?}: {} ({}[{}], value {:#x})",
            self.rule,
            self.at,
            self.rule.text(),
            self.register,
            self.index,
            self.value
        )
    }
}

/// Violations in the order they happened.
#[derive(Debug, Default)]
pub(crate) struct StrictLog {
    kept: Vec<Violation>,
    count: u64,
    pub(crate) now: Duration,
}

impl StrictLog {
    pub(crate) fn note(&mut self, rule: Rule, register: &'static str, index: usize, value: u64) {
        self.count += 1;
        let violation = Violation {
            rule,
            register,
            index,
            value,
            at: self.now,
        };
        if self.kept.len() < KEPT {
            log::debug!("{violation}");
            self.kept.push(violation);
        }
    }

    /// The violations kept, and how many there were in all.
    pub(crate) fn all(&self) -> (&[Violation], u64) {
        (&self.kept, self.count)
    }
}
