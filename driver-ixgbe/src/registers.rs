//! The registers this driver uses: one table with name, access, value type and offset, in the names
//! of the 82599 datasheet (331520), which X540 and X550 share.
//!
//! Access is in the types: [`Hw::read`](crate::hw::Hw::read) takes what can be read,
//! [`Hw::write`](crate::hw::Hw::write) what can be written, and a counter that reading clears can only
//! be [taken](crate::hw::Hw::take). Values are bit flags where the register is a set of bits.
//!
//! Receive queue registers lie in two blocks: queues 0 to 63 from 0x01000, 64 to 127 from 0x0D000.
#![allow(non_snake_case)]

use std::fmt;
use std::marker::PhantomData;

/// Which register an error speaks of: name, index, and byte offset in the register BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterName {
    /// The datasheet's name.
    pub name: &'static str,
    /// Number within an array of registers.
    pub index: Option<u16>,
    /// Byte offset.
    pub offset: u32,
}

impl fmt::Display for RegisterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(i) => write!(f, "{}({i}) at {:#07x}", self.name, self.offset),
            None => write!(f, "{} at {:#07x}", self.name, self.offset),
        }
    }
}

/// May be read; reading changes nothing.
#[derive(Debug)]
pub(crate) enum Ro {}
/// May be read and written.
#[derive(Debug)]
pub(crate) enum Rw {}
/// Written only.
#[derive(Debug)]
pub(crate) enum Wo {}
/// Reading clears it.
#[derive(Debug)]
pub(crate) enum Rc {}

pub(crate) trait Readable {}
impl Readable for Ro {}
impl Readable for Rw {}
pub(crate) trait Writable {}
impl Writable for Rw {}
impl Writable for Wo {}

/// What a register holds.
pub(crate) trait Value: Copy {
    fn from_u32(bits: u32) -> Self;
    fn to_u32(self) -> u32;
}

impl Value for u32 {
    fn from_u32(bits: u32) -> Self {
        bits
    }
    fn to_u32(self) -> u32 {
        self
    }
}

/// One register: access `A`, value `V`.
pub(crate) struct Register<A, V = u32> {
    pub(crate) name: RegisterName,
    kind: PhantomData<fn() -> (A, V)>,
}

impl<A, V> Clone for Register<A, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A, V> Copy for Register<A, V> {}

impl<A, V> Register<A, V> {
    const fn new(name: &'static str, index: Option<u16>, offset: u32) -> Self {
        Register {
            name: RegisterName {
                name,
                index,
                offset,
            },
            kind: PhantomData,
        }
    }

    pub(crate) const fn offset(&self) -> u32 {
        self.name.offset
    }
}

macro_rules! value {
    (Flags $t:ident) => {
        $t
    };
    () => {
        u32
    };
}

macro_rules! registers {
    ($($access:ident $name:ident $([$n:ident < $count:literal])? $(: $value:ident)? = $offset:expr;)*) => {
        $(registers!(@one $access $name $([$n $count])? (value!($(Flags $value)?)) $offset);)*

        /// First and last register of every row, for the tests of the table.
        #[cfg(test)]
        pub(crate) fn rows() -> Vec<(RegisterName, u32)> {
            vec![$(registers!(@row $name $([$count])?)),*]
        }
    };
    (@one $access:ident $name:ident ($value:ty) $offset:expr) => {
        pub(crate) const $name: Register<$access, $value> =
            Register::new(stringify!($name), None, $offset);
    };
    (@one $access:ident $name:ident [$n:ident $count:literal] ($value:ty) $offset:expr) => {
        pub(crate) const fn $name($n: u16) -> Register<$access, $value> {
            debug_assert!($n < $count);
            let at = $n as u32;
            Register::new(stringify!($name), Some($n), stride(at, $offset))
        }
    };
    (@row $name:ident) => { ($name.name, $name.offset()) };
    (@row $name:ident [$count:literal]) => { ($name(0).name, $name($count - 1).offset()) };
}

/// Where the registers of an array are.
enum At {
    /// First, and from one to the next.
    Every(u32, u32),
    /// Offset in the receive queue's block.
    RxQueue(u32),
    /// Offset in the transmit queue's block.
    TxQueue(u32),
}
use At::{Every, RxQueue, TxQueue};

const fn stride(n: u32, at: At) -> u32 {
    match at {
        Every(first, step) => first + step * n,
        RxQueue(offset) if n < 64 => 0x0_1000 + 0x40 * n + offset,
        RxQueue(offset) => 0x0_d000 + 0x40 * (n - 64) + offset,
        TxQueue(offset) => 0x0_6000 + 0x40 * n + offset,
    }
}

registers! {
    // General.
    Rw CTRL: Ctrl = 0x0_0000;
    Ro STATUS: Status = 0x0_0008;
    Rw CTRL_EXT: CtrlExt = 0x0_0018;
    Rw ESDP: Esdp = 0x0_0020;
    Rw EEC: Eec = 0x1_0010;
    Rw SWSM: Swsm = 0x1_0140;
    Ro FWSM = 0x1_0148;
    Rw SW_FW_SYNC = 0x1_0160;
    Rw GCR_EXT: GcrExt = 0x1_1050;

    // Interrupts: masked, and left alone.
    Ro EICR = 0x0_0800;
    Wo EIMC = 0x0_0888;
    Wo EIMC_EX[n < 2] = Every(0x0_0ab0, 4);

    // Receive, the whole port.
    Rw RXCTRL: Rxctrl = 0x0_3000;
    Rw RXPBSIZE[n < 8] = Every(0x0_3c00, 4);
    Rw HLREG0: Hlreg0 = 0x0_4240;
    Rw RDRXCTL: Rdrxctl = 0x0_2f00;
    Rw FCTRL: Fctrl = 0x0_5080;
    Rw MAXFRS = 0x0_4268;
    Rw SECRXCTRL: Secrxctrl = 0x0_8d00;
    Ro SECRXSTAT: Secrxstat = 0x0_8d04;
    Rw RXCSUM: Rxcsum = 0x0_5000;
    Rw MRQC: Mrqc = 0x0_ec80;
    Rw RETA[n < 32] = Every(0x0_eb00, 4);
    Rw ERETA[n < 96] = Every(0x0_ee80, 4);
    Rw RSSRK[n < 10] = Every(0x0_eb80, 4);

    // Receive, one queue.
    Rw RDBAL[n < 128] = RxQueue(0x00);
    Rw RDBAH[n < 128] = RxQueue(0x04);
    Rw RDLEN[n < 128] = RxQueue(0x08);
    Rw DCA_RXCTRL[n < 128]: DcaRxctrl = RxQueue(0x0c);
    Rw RDH[n < 128] = RxQueue(0x10);
    Rw SRRCTL[n < 128]: Srrctl = RxQueue(0x14);
    Rw RDT[n < 128] = RxQueue(0x18);
    Rw RXDCTL[n < 128]: Rxdctl = RxQueue(0x28);
    Rw RSCCTL[n < 128] = RxQueue(0x2c);

    // Filters.
    Rw RAL[n < 128] = Every(0x0_a200, 8);
    Rw RAH[n < 128] = Every(0x0_a204, 8);
    Rw MPSAR_LO[n < 128] = Every(0x0_a600, 8);
    Rw MPSAR_HI[n < 128] = Every(0x0_a604, 8);
    Rw MTA[n < 128] = Every(0x0_5200, 4);
    Rw MCSTCTRL: Mcstctrl = 0x0_5090;
    Rw PFUTA[n < 128] = Every(0x0_f400, 4);
    Rw VLNCTRL: Vlnctrl = 0x0_5088;
    Rw VFTA[n < 128] = Every(0x0_a000, 4);
    Rw PFVLVF[n < 64] = Every(0x0_f100, 4);
    Rw PFVLVFB[n < 128] = Every(0x0_f200, 4);
    Rw FTQF[n < 128] = Every(0x0_e600, 4);

    // Transmit, the whole port.
    Rw RTTDCS: Rttdcs = 0x0_4900;
    Wo RTTDQSEL = 0x0_4904;
    Wo RTTDT1C = 0x0_4908;
    Wo RTTBCNRC = 0x0_4984;
    Rw TXPBTHRESH[n < 8] = Every(0x0_4950, 4);
    Rw DMATXCTL: Dmatxctl = 0x0_4a80;
    Rw DTXMXSZRQ = 0x0_8100;
    Rw MTQC = 0x0_8120;
    Rw TXPBSIZE[n < 8] = Every(0x0_cc00, 4);

    // Transmit, one queue.
    Rw TDBAL[n < 128] = TxQueue(0x00);
    Rw TDBAH[n < 128] = TxQueue(0x04);
    Rw TDLEN[n < 128] = TxQueue(0x08);
    Rw DCA_TXCTRL[n < 128]: DcaTxctrl = TxQueue(0x0c);
    Rw TDH[n < 128] = TxQueue(0x10);
    Rw TDT[n < 128] = TxQueue(0x18);
    Rw TXDCTL[n < 128]: Txdctl = TxQueue(0x28);
    Rw TDWBAL[n < 128] = TxQueue(0x38);
    Rw TDWBAH[n < 128] = TxQueue(0x3c);

    // Flow control: off, but its thresholds must be sane.
    Rw FCTTV[n < 4] = Every(0x0_3200, 4);
    Rw FCRTL[n < 8] = Every(0x0_3220, 4);
    Rw FCRTH[n < 8] = Every(0x0_3260, 4);
    Rw FCRTV = 0x0_32a0;
    Rw FCCFG = 0x0_3d00;
    Rw MFLCN: Mflcn = 0x0_4294;

    // Link and PHY.
    Rw AUTOC: Autoc = 0x0_42a0;
    Rw AUTOC2: Autoc2 = 0x0_42a8;
    Ro LINKS: Links = 0x0_42a4;
    Rw MSCA: Msca = 0x0_425c;
    Rw MSRWD = 0x0_4260;

    // Which per-queue counter a queue counts in; the counters are in `stats`.
    Rw RQSMR[n < 32] = Every(0x0_2300, 4);
    Rw TQSM[n < 32] = Every(0x0_8600, 4);
}

/// A counter of the statistics table.
pub(crate) const fn counter(
    name: &'static str,
    index: Option<u16>,
    first: u32,
    step: u32,
) -> Register<Rc> {
    let n = match index {
        Some(n) => n as u32,
        None => 0,
    };
    Register::new(name, index, first + n * step)
}

macro_rules! flags {
    ($($(#[$($doc:tt)*])* $name:ident { $($(#[$($bit_doc:tt)*])* $bit:ident = $value:expr;)* })*) => {
        $(
            bitflags::bitflags! {
                $(#[$($doc)*])*
                #[derive(Clone, Copy, Debug, PartialEq, Eq)]
                pub(crate) struct $name: u32 { $($(#[$($bit_doc)*])* const $bit = $value;)* }
            }
            impl Value for $name {
                fn from_u32(bits: u32) -> Self { Self::from_bits_retain(bits) }
                fn to_u32(self) -> u32 { self.bits() }
            }
        )*
    };
}

flags! {
    Ctrl {
        /// Stop starting PCIe requests.
        GIO_DIS = 1 << 2;
        LNK_RST = 1 << 3;
        /// Clears itself.
        RST = 1 << 26;
    }
    Status {
        /// Port number.
        LAN_ID = 3 << 2;
        /// PCIe requests are enabled.
        GIO = 1 << 19;
    }
    CtrlExt {
        /// No snoop disable.
        NS_DIS = 1 << 16;
        /// Tells the firmware that a driver owns the port.
        DRV_LOAD = 1 << 28;
    }
    Esdp {
        /// SFP+ ports: high turns the laser off.
        SDP3 = 1 << 3;
    }
    Eec {
        PRES = 1 << 8;
        /// Auto-read done.
        ARD = 1 << 9;
    }
    Swsm {
        /// Reading sets it; whoever read 0 has it.
        SMBI = 1 << 0;
        SWESMBI = 1 << 1;
    }
    GcrExt {
        BUFFERS_CLEAR = 1 << 30;
    }
    Rxctrl {
        RXEN = 1 << 0;
    }
    Hlreg0 {
        TXCRCEN = 1 << 0;
        RXCRCSTRP = 1 << 1;
        JUMBOEN = 1 << 2;
        TXPADEN = 1 << 10;
        LPBK = 1 << 15;
        RXPADSTRIPEN = 1 << 28;
    }
    Rdrxctl {
        CRCSTRIP = 1 << 1;
        /// DMA initialisation done.
        DMAIDONE = 1 << 3;
        RSCFRSTSIZE = 0x1f << 17;
        RSCACKC = 1 << 25;
        FCOE_WRFIX = 1 << 26;
        /// X550: malicious driver detection.
        MDD = 3 << 28;
    }
    Fctrl {
        /// Store bad packets.
        SBP = 1 << 1;
        MPE = 1 << 8;
        UPE = 1 << 9;
        BAM = 1 << 10;
    }
    Secrxctrl {
        RX_DIS = 1 << 1;
    }
    Secrxstat {
        RDY = 1 << 0;
    }
    Rxcsum {
        /// Descriptors carry the RSS hash instead of a fragment's checksum.
        PCSD = 1 << 13;
    }
    Mrqc {
        RSS = 1;
        TCPV4 = 1 << 16;
        IPV4 = 1 << 17;
        IPV6 = 1 << 20;
        TCPV6 = 1 << 21;
        UDPV4 = 1 << 22;
        UDPV6 = 1 << 23;
    }
    DcaRxctrl {
        /// Starts as 1 and must be written 0.
        MUST_CLEAR = 1 << 12;
        /// Relaxed ordering of packet data.
        DATA_WRITE_RO = 1 << 13;
        HEADER_WRITE_RO = 1 << 15;
    }
    Srrctl {
        /// Advanced descriptors, one buffer a descriptor.
        ADVANCED_ONE_BUFFER = 1 << 25;
        DROP_EN = 1 << 28;
    }
    Rxdctl {
        /// X540 and later: largest packet of this queue, and whether that counts.
        RLPML = 0x3fff;
        RLPML_EN = 1 << 15;
        ENABLE = 1 << 25;
        /// Strip the VLAN tag.
        VME = 1 << 30;
    }
    Mcstctrl {
        /// Multicast filter enable.
        MFE = 1 << 2;
    }
    Vlnctrl {
        CFIEN = 1 << 29;
        VFE = 1 << 30;
    }
    Rttdcs {
        ARBDIS = 1 << 6;
    }
    Dmatxctl {
        TE = 1 << 0;
        /// Double VLAN.
        GDV = 1 << 3;
        /// X550: malicious driver detection.
        MDD = 3 << 5;
    }
    DcaTxctrl {
        /// Relaxed ordering of write-backs.
        WRITE_BACK_RO = 1 << 11;
    }
    Txdctl {
        THRESHOLDS = 0x7f_7f7f;
        ENABLE = 1 << 25;
        SWFLSH = 1 << 26;
    }
    Mflcn {
        RPFCE = 1 << 2;
        RFCE = 1 << 3;
    }
    Autoc {
        RESTART_AN = 1 << 12;
    }
    Autoc2 {
        /// The link is disabled, by a bit of the NVM.
        LINK_DISABLE = 7 << 28;
    }
    /// Bit 7 was a link indication once and is reserved (82599 specification change 12).
    Links {
        /// X550: the speed is 2.5 or 5 Gbit/s.
        NON_STANDARD = 1 << 27;
        SPEED = 3 << 28;
        UP = 1 << 30;
    }
    Msca {
        OP_WRITE = 1 << 26;
        OP_READ = 3 << 26;
        /// Start; clears itself.
        MDI_CMD = 1 << 30;
    }
}

/// FWSM [24:19]: what the firmware complains of; 0 is nothing.
pub(crate) const FWSM_EXT_ERR: u32 = 0x3f << 19;

/// RAH bit 31: the address counts.
pub(crate) const RAH_AV: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_queues_lie_in_two_blocks() {
        let at = |q| {
            [
                RDBAL(q).offset(),
                RDH(q).offset(),
                SRRCTL(q).offset(),
                RDT(q).offset(),
                RXDCTL(q).offset(),
            ]
        };
        assert_eq!(at(0), [0x1000, 0x1010, 0x1014, 0x1018, 0x1028]);
        assert_eq!(at(63), [0x1fc0, 0x1fd0, 0x1fd4, 0x1fd8, 0x1fe8]);
        assert_eq!(at(64), [0xd000, 0xd010, 0xd014, 0xd018, 0xd028]);
        assert_eq!(at(127), [0xdfc0, 0xdfd0, 0xdfd4, 0xdfd8, 0xdfe8]);
        assert_eq!(DCA_RXCTRL(63).offset(), 0x1fcc);
        assert_eq!(DCA_RXCTRL(64).offset(), 0xd00c);
    }

    #[test]
    fn transmit_queues_lie_in_one_block() {
        let at = |q| [TDBAL(q).offset(), TDT(q).offset(), TXDCTL(q).offset()];
        assert_eq!(at(0), [0x6000, 0x6018, 0x6028]);
        assert_eq!(at(63), [0x6fc0, 0x6fd8, 0x6fe8]);
        assert_eq!(at(64), [0x7000, 0x7018, 0x7028]);
        assert_eq!(at(127), [0x7fc0, 0x7fd8, 0x7fe8]);
        assert_eq!(TDWBAH(127).offset(), 0x7ffc);
    }

    #[test]
    fn rows_are_aligned_inside_the_smallest_bar_and_no_two_start_alike() {
        let rows = rows();
        for (i, (first, last)) in rows.iter().enumerate() {
            assert!(first.offset % 4 == 0 && *last < 0x2_0000, "{first}");
            assert!(
                rows[..i]
                    .iter()
                    .all(|(other, _)| other.offset != first.offset),
                "{first}"
            );
        }
    }

    #[test]
    fn registers_print_their_name_index_and_offset() {
        assert_eq!(RXDCTL(64).name.to_string(), "RXDCTL(64) at 0x0d028");
        assert_eq!(EEC.name.to_string(), "EEC at 0x10010");
    }
}
