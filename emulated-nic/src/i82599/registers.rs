//! The registers: one row each, with everything there is to say about it.
//!
//! A row names the datasheet address and its aliases, how many instances there are, how reads and
//! writes act, the value after reset and, where a register does more than hold a value, the function
//! that does it. (facts: 82599 datasheet chapter 8, as restated in the project's notes.)

use super::core::Core;
use super::{
    eeprom, filter, interrupts, link, receive, reset, rss, rx_ring, sfp, statistics, tx_ring,
};

/// How a register answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Holds what was written, within its mask.
    ReadWrite,
    /// Writes are ignored.
    ReadOnly,
    /// Reads as 0.
    WriteOnly,
    /// A counter: reading clears it, writes are ignored, and it sticks at all ones.
    ClearOnRead,
    /// Writing ones clears bits.
    Write1Clear,
    /// Writing ones sets bits.
    Write1Set,
    /// Reading sets these bits, and returns what was there before.
    ReadSets(u32),
}

/// A place where instances `first..first + count` of a register are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pub(crate) offset: u32,
    pub(crate) stride: u32,
    pub(crate) first: u16,
    pub(crate) count: u16,
}

/// What is read: given the index and the value held.
pub(crate) type Read = fn(&mut Core, usize, u32) -> u32;
/// What a write does, after the value was stored: given the index, the value held before and what
/// was written.
pub(crate) type Write = fn(&mut Core, usize, u32, u32);

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    pub(crate) name: &'static str,
    /// Its own address first, then the continuation for higher indices, and aliases.
    pub(crate) homes: [Home; 3],
    pub(crate) access: Access,
    pub(crate) reset: u32,
    pub(crate) mask: u32,
    pub(crate) read: Option<Read>,
    pub(crate) write: Option<Write>,
    /// Memory rather than a register: a reset leaves it alone.
    pub(crate) keeps: bool,
    /// Memory that holds noise after power-on.
    pub(crate) noise: bool,
    /// Only the X550 has it.
    pub(crate) x550: bool,
    /// Writing it changes nothing that the packet engines remember.
    pub(crate) aside: bool,
}

const NOWHERE: Home = Home {
    offset: 0,
    stride: 0,
    first: 0,
    count: 0,
};

const fn at(offset: u32) -> Register {
    array(offset, 4, 1)
}

const fn array(offset: u32, stride: u32, count: u16) -> Register {
    let home = Home {
        offset,
        stride,
        first: 0,
        count,
    };
    Register {
        name: "",
        homes: [home, NOWHERE, NOWHERE],
        access: Access::ReadWrite,
        reset: 0,
        mask: u32::MAX,
        read: None,
        write: None,
        keeps: false,
        noise: false,
        x550: false,
        aside: false,
    }
}

/// A register of the receive queues: 64 in one block, 64 in another.
const fn rxq(offset: u32) -> Register {
    array(0x01000 + offset, 0x40, 64).then(0x0d000 + offset, 0x40, 64)
}

/// A register of the transmit queues.
const fn txq(offset: u32) -> Register {
    array(0x06000 + offset, 0x40, 128)
}

/// A statistics counter.
const fn count(offset: u32, stride: u32, n: u16) -> Register {
    let mut r = array(offset, stride, n).access(Access::ClearOnRead);
    r.aside = true;
    r
}

impl Register {
    /// More instances, at another address.
    const fn then(mut self, offset: u32, stride: u32, count: u16) -> Self {
        self.homes[1] = Home {
            offset,
            stride,
            first: self.homes[0].count,
            count,
        };
        self
    }

    /// The first `count` instances answer at this address too.
    const fn alias(mut self, offset: u32, stride: u32, count: u16) -> Self {
        self.homes[2] = Home {
            offset,
            stride,
            first: 0,
            count,
        };
        self
    }

    const fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    const fn ro(self) -> Self {
        self.access(Access::ReadOnly)
    }

    const fn wo(self) -> Self {
        self.access(Access::WriteOnly)
    }

    const fn reset(mut self, value: u32) -> Self {
        self.reset = value;
        self
    }

    const fn mask(mut self, mask: u32) -> Self {
        self.mask = mask;
        self
    }

    const fn read(mut self, f: Read) -> Self {
        self.read = Some(f);
        self
    }

    const fn write(mut self, f: Write) -> Self {
        self.write = Some(f);
        self
    }

    const fn keeps(mut self) -> Self {
        self.keeps = true;
        self
    }

    const fn noise(mut self) -> Self {
        self.keeps = true;
        self.noise = true;
        self
    }

    const fn x550(mut self) -> Self {
        self.x550 = true;
        self
    }

    const fn aside(mut self) -> Self {
        self.aside = true;
        self
    }

    /// Number of instances.
    pub(crate) const fn count(&self) -> usize {
        (self.homes[0].count + self.homes[1].count) as usize
    }

    /// Address of instance `n`.
    pub(crate) const fn offset(&self, n: usize) -> u32 {
        let first = self.homes[1].first as usize;
        if self.homes[1].count > 0 && n >= first {
            self.homes[1].offset + self.homes[1].stride * (n - first) as u32
        } else {
            self.homes[0].offset + self.homes[0].stride * n as u32
        }
    }
}

macro_rules! table {
    ($($name:ident = $row:expr;)*) => {
        $(pub(crate) const $name: Register = Register { name: stringify!($name), ..$row };)*
        /// Every row.
        pub(crate) static TABLE: &[Register] = &[$($name),*];
    };
}

#[rustfmt::skip]
table! {
    // General
    CTRL          = at(0x00000).mask(reset::CTRL_GIO_DIS).read(reset::read_ctrl).write(reset::write_ctrl);
    STATUS        = at(0x00008).ro().read(reset::read_status);
    CTRL_EXT      = at(0x00018);
    ESDP          = at(0x00020).read(link::read_esdp).write(link::write_esdp);
    I2CCTL        = at(0x00028).mask(sfp::RELEASED).reset(sfp::RELEASED).read(sfp::read_i2cctl).write(sfp::write_i2cctl).aside();
    FRTIMER       = at(0x00048).ro().read(reset::read_frtimer);
    TCPTIMER      = at(0x0004c);
    LEDCTL        = at(0x00200);
    PFMBICR       = array(0x00710, 4, 4).access(Access::Write1Clear);
    PFMBIMR       = array(0x00720, 4, 2);

    // Interrupts
    EICR          = at(0x00800).read(interrupts::read_eicr).write(interrupts::write_eicr).aside();
    EICS          = at(0x00808).wo().read(interrupts::read_eics).write(interrupts::write_eics).aside();
    EIAC          = at(0x00810).mask(interrupts::EIAC_BITS).write(interrupts::write_eiac).aside();
    EITR          = array(0x00820, 4, 24).then(0x12300, 4, 105).write(interrupts::write_eitr).aside();
    EIMS          = at(0x00880).access(Access::Write1Set).mask(0x7fff_ffff).write(interrupts::write_mask).aside();
    EIMC          = at(0x00888).wo().write(interrupts::write_eimc).aside();
    EIAM          = at(0x00890).aside();
    EITRSEL       = at(0x00894).aside();
    GPIE          = at(0x00898).aside();
    IVAR          = array(0x00900, 4, 64).aside();
    IVAR_MISC     = at(0x00a00).mask(0xbfbf).aside();
    EICS_EX       = array(0x00a90, 4, 2).wo().write(interrupts::write_eics_ex).aside();
    EIMS_EX       = array(0x00aa0, 4, 2).access(Access::Write1Set).write(interrupts::write_mask_ex).aside();
    EIMC_EX       = array(0x00ab0, 4, 2).wo().write(interrupts::write_eimc_ex).aside();
    EIAM_EX       = array(0x00ad0, 4, 2).aside();
    PBACL         = at(0x11068).then(0x110c0, 4, 1).aside();

    // Receive queues
    RDBAL         = rxq(0x00).mask(0xffff_ff80).write(rx_ring::write_base);
    RDBAH         = rxq(0x04);
    RDLEN         = rxq(0x08).mask(0x000f_ff80).write(rx_ring::write_len);
    DCA_RXCTRL    = rxq(0x0c).reset(0x0000_9200).alias(0x02200, 4, 16);
    RDH           = rxq(0x10).mask(0xffff).read(rx_ring::read_head).write(rx_ring::write_head);
    SRRCTL        = rxq(0x14).reset(0x0000_0402).alias(0x02100, 4, 16).write(rx_ring::write_srrctl);
    RDT           = rxq(0x18).mask(0xffff).read(rx_ring::read_tail).write(rx_ring::write_tail).aside();
    RXDCTL        = rxq(0x28).read(rx_ring::read_rxdctl).write(rx_ring::write_rxdctl);
    RSCCTL        = rxq(0x2c).write(rx_ring::write_rscctl);

    // Receive, global
    RXCTRL        = at(0x03000).mask(1).write(receive::write_rxctrl);
    RDRXCTL       = at(0x02f00).reset(0x0010_8800).read(reset::read_rdrxctl).write(receive::write_rdrxctl);
    PFQDE         = at(0x02f04).write(rx_ring::write_pfqde);
    RXPBSIZE      = array(0x03c00, 4, 8).reset(0x0008_0000).mask(0x000f_fc00);
    SECRXCTRL     = at(0x08d00).mask(0x3);
    SECRXSTAT     = at(0x08d04).ro().read(receive::read_secrxstat);
    RSCDBU        = at(0x03028);
    PSRTYPE       = array(0x0ea00, 4, 64).alias(0x05480, 4, 16);
    RXCSUM        = at(0x05000);
    RFCTL         = at(0x05008);

    // Filters
    FCTRL         = at(0x05080).mask(0x0000_3702);
    VLNCTRL       = at(0x05088).reset(0x0000_8100);
    MCSTCTRL      = at(0x05090).mask(0x7);
    EXVET         = at(0x05078).reset(0x8100_0000);
    VXLANCTRL     = at(0x0507c).x550();
    MTA           = array(0x05200, 4, 128).noise();
    RAL           = array(0x0a200, 8, 128).keeps().alias(0x05400, 8, 16);
    RAH           = array(0x0a204, 8, 128).keeps().mask(0x8000_ffff).alias(0x05404, 8, 16);
    MPSAR_LO      = array(0x0a600, 8, 128).keeps();
    MPSAR_HI      = array(0x0a604, 8, 128).keeps();
    VFTA          = array(0x0a000, 4, 128).noise();
    PFUTA         = array(0x0f400, 4, 128).noise();
    PFVLVF        = array(0x0f100, 4, 64).noise();
    PFVLVFB       = array(0x0f200, 4, 128).noise();
    VT_CTL        = at(0x051b0).write(filter::write_vt_ctl);
    VFRE          = array(0x051e0, 4, 2);
    VFTE          = array(0x08110, 4, 2);
    VMOLR         = array(0x0f000, 4, 64);
    ETQF          = array(0x05128, 4, 8).write(filter::write_etqf);
    ETQS          = array(0x0ec00, 4, 8);
    SYNQF         = at(0x0ec30).write(filter::write_synqf);
    SAQF          = array(0x0e000, 4, 128).noise();
    DAQF          = array(0x0e200, 4, 128).noise();
    SDPQF         = array(0x0e400, 4, 128).noise();
    FTQF          = array(0x0e600, 4, 128).noise().write(filter::write_ftqf);
    L34T_IMIR     = array(0x0e800, 4, 128).noise();
    PFMAILBOX     = array(0x04b00, 4, 64);
    PFMBMEM       = array(0x13000, 4, 1024).keeps();
    PFDTXGSWC     = at(0x08220);

    // Receive-side scaling
    MRQC          = at(0x0ec80).alias(0x05818, 4, 1).write(rss::write_mrqc);
    RETA          = array(0x0eb00, 4, 32).alias(0x05c00, 4, 32);
    ERETA         = array(0x0ee80, 4, 96).x550();
    RSSRK         = array(0x0eb80, 4, 10).alias(0x05c80, 4, 10);
    RQTC          = at(0x0ec70);

    // Flow director
    FDIRCTRL      = at(0x0ee00).read(filter::read_fdirctrl).write(filter::write_fdirctrl);
    FDIRSIPV6     = array(0x0ee0c, 4, 3);
    FDIRIPSA      = at(0x0ee18);
    FDIRIPDA      = at(0x0ee1c);
    FDIRPORT      = at(0x0ee20);
    FDIRVLAN      = at(0x0ee24);
    FDIRHASH      = at(0x0ee28);
    FDIRCMD       = at(0x0ee2c).mask(0x3f7f_ffdc);
    FDIRFREE      = at(0x0ee38);
    FDIRMASKS     = array(0x0ee3c, 4, 4);
    FDIRLEN       = count(0x0ee4c, 4, 1);
    FDIRSTAT      = count(0x0ee50, 4, 4);
    FDIRHKEY      = at(0x0ee68);
    FDIRSKEY      = at(0x0ee6c);
    FDIRM         = array(0x0ee70, 4, 3);

    // Transmit queues
    TDBAL         = txq(0x00).mask(0xffff_ff80).write(tx_ring::write_base);
    TDBAH         = txq(0x04);
    TDLEN         = txq(0x08).mask(0x000f_ff80).write(tx_ring::write_len);
    DCA_TXCTRL    = txq(0x0c).reset(0x0000_2a00);
    TDH           = txq(0x10).mask(0xffff).read(tx_ring::read_head).write(tx_ring::write_head);
    TDT           = txq(0x18).mask(0xffff).read(tx_ring::read_tail).write(tx_ring::write_tail).aside();
    TXDCTL        = txq(0x28).read(tx_ring::read_txdctl).write(tx_ring::write_txdctl);
    TDWBAL        = txq(0x38).write(tx_ring::write_tdwbal);
    TDWBAH        = txq(0x3c);

    // Transmit, global
    DMATXCTL      = at(0x04a80).reset(0x8100_0004);
    DTXTCPFLGL    = at(0x04a88).reset(0x0f76_0ff6);
    DTXTCPFLGH    = at(0x04a8c).reset(0x0000_0f7f);
    DTXMXSZRQ     = at(0x08100).reset(0x10).mask(0xfff).write(tx_ring::write_dtxmxszrq);
    MTQC          = at(0x08120).write(tx_ring::write_mtqc);
    TXPBSIZE      = array(0x0cc00, 4, 8).reset(0x0002_8000).mask(0x000f_fc00);
    TXPBTHRESH    = array(0x04950, 4, 8).mask(0x3ff);
    SECTXCTRL     = at(0x08800);
    SECTXSTAT     = at(0x08804).ro().reset(1);
    SECTXBUFFAF   = at(0x08808);
    SECTXMINIFG   = at(0x08810);
    RTTDCS        = at(0x04900).reset(0x00c0_0000);
    RTTDQSEL      = at(0x04904).mask(0x7f).aside();
    RTTDT1C       = at(0x04908).aside();
    RTTBCNRC      = at(0x04984).aside();
    RTTUP2TC      = at(0x0c800);
    RTRUP2TC      = at(0x03020);
    RTRPCS        = at(0x02430);
    RTTPCS        = at(0x0cd00);

    // MAC and flow control
    HLREG0        = at(0x04240).reset(0x0801_2c0b);
    HLREG1        = at(0x04244).ro();
    MAXFRS        = at(0x04268).reset(0x05ee_0000).mask(0xffff_0000);
    CORECTL       = at(0x14f00).aside();
    PCS1GLCTL     = at(0x04208);
    PCS1GLSTA     = at(0x0420c).ro();
    MSCA          = at(0x0425c).write(link::write_msca);
    MSRWD         = at(0x04260);
    MFLCN         = at(0x04294);
    AUTOC         = at(0x042a0).reset(0xc19d_8284).write(link::write_autoc);
    LINKS         = at(0x042a4).ro().read(link::read_links);
    AUTOC2        = at(0x042a8).write(link::write_autoc2);
    AUTOC3        = at(0x042ac);
    ANLP1         = at(0x042b0).ro().read(link::read_anlp1);
    ANLP2         = at(0x042b4).ro();
    LINKS2        = at(0x04324).ro();
    MACC          = at(0x04330);
    PCS1GANA      = at(0x04218);
    PCS1GANLP     = at(0x0421c).ro();
    PFCTOP        = at(0x03008).aside();
    FCTTV         = array(0x03200, 4, 4);
    FCRTL         = array(0x03220, 4, 8);
    FCRTH         = array(0x03260, 4, 8);
    FCRTV         = at(0x032a0);
    FCCFG         = at(0x03d00);
    TFCS          = at(0x0ce00).ro();

    // Time stamps
    RXMTRL        = at(0x05120);
    TSYNCRXCTL    = at(0x05188);
    RXSTMPL       = at(0x051e8).ro();
    RXSTMPH       = at(0x051a4).ro();
    RXSATRL       = at(0x051a0).ro();
    RXSATRH       = at(0x051a8).ro();
    TSYNCTXCTL    = at(0x08c00);
    TXSTMPL       = at(0x08c04).ro();
    TXSTMPH       = at(0x08c08).ro();
    SYSTIML       = at(0x08c0c);
    SYSTIMH       = at(0x08c10);
    TIMINCA       = at(0x08c14);
    TIMADJL       = at(0x08c18);
    TSAUXC        = at(0x08c20);

    // Host interface of the firmware, which does nothing
    HICR          = at(0x15f00).aside();
    FWSTS         = at(0x15f0c).aside();
    MMNGC         = at(0x042d0).ro().aside();
    DCA_ID        = at(0x11070).ro().aside();
    DCA_CTRL      = at(0x11074).reset(1).aside();

    // Wake-up, which never happens
    WUC           = at(0x05800).aside();
    WUFC          = at(0x05808).aside();
    WUS           = at(0x05810).access(Access::Write1Clear).aside();
    IPAV          = at(0x05838).aside();
    IP4AT         = array(0x05840, 8, 4).aside();
    IP6AT         = array(0x05880, 4, 4).aside();
    WUPL          = at(0x05900).aside();
    WUPM          = array(0x05a00, 4, 32).ro().aside();
    FHFT          = array(0x09000, 4, 256).aside();
    FHFT_EXT      = array(0x09800, 4, 128).aside();

    // IPsec offload, which is not done
    IPSTXIDX      = at(0x08900).mask(0x1fff).aside();
    IPSTXSALT     = at(0x08904).aside();
    IPSTXKEY      = array(0x08908, 4, 4).aside();
    IPSRXIDX      = at(0x08e00).mask(0x1fff).aside();
    IPSRXIPADDR   = array(0x08e04, 4, 4).aside();
    IPSRXSPI      = at(0x08e14).aside();
    IPSRXIPIDX    = at(0x08e18).aside();
    IPSRXKEY      = array(0x08e1c, 4, 4).aside();
    IPSRXSALT     = at(0x08e2c).aside();
    IPSRXMOD      = at(0x08e30).aside();

    // NVM, semaphores, PCIe
    EEC           = at(0x10010).mask(0x0000_007f).reset(0x0000_3410).read(eeprom::read_eec);
    EERD          = at(0x10014).mask(0x0000_fffc).read(eeprom::read_eerd).write(eeprom::write_eerd);
    EEWR          = at(0x10018).mask(0xffff_fffc).read(eeprom::read_eewr).write(eeprom::write_eewr);
    FLA           = at(0x1001c);
    SWSM          = at(0x10140).mask(0x3).access(Access::ReadSets(1)).keeps().aside();
    FWSM          = at(0x10148).ro().reset(0x0000_8000);
    FACTPS        = at(0x10150).ro();
    SW_FW_SYNC    = at(0x10160).read(eeprom::read_sw_fw_sync).keeps().aside();
    GRC           = at(0x10200);
    SRAMREL       = at(0x10210);
    GCR           = at(0x11000);
    GCR_EXT       = at(0x11050);
    I2CCTL_X550   = at(0x15f5c).x550();

    // Statistics (82599 datasheet 8.2.3.23)
    CRCERRS       = count(0x04000, 4, 1);
    ILLERRC       = count(0x04004, 4, 1);
    ERRBC         = count(0x04008, 4, 1);
    MSPDC         = count(0x04010, 4, 1);
    MPC           = count(0x03fa0, 4, 8);
    MLFC          = count(0x04034, 4, 1);
    MRFC          = count(0x04038, 4, 1);
    RLEC          = count(0x04040, 4, 1);
    LXONTXC       = count(0x03f60, 4, 1);
    LXOFFTXC      = count(0x03f68, 4, 1);
    LXONRXCNT     = count(0x041a4, 4, 1);
    LXOFFRXCNT    = count(0x041a8, 4, 1);
    PXONTXC       = count(0x03f00, 4, 8);
    PXOFFTXC      = count(0x03f20, 4, 8);
    PXONRXCNT     = count(0x04140, 4, 8);
    PXOFFRXCNT    = count(0x04160, 4, 8);
    PXON2OFFCNT   = count(0x03240, 4, 8);
    PRC           = count(0x0405c, 4, 6);
    GPRC          = count(0x04074, 4, 1);
    BPRC          = count(0x04078, 4, 1);
    MPRC          = count(0x0407c, 4, 1);
    GPTC          = count(0x04080, 4, 1);
    GORCL         = count(0x04088, 4, 1).read(statistics::read_low);
    GORCH         = count(0x0408c, 4, 1).read(statistics::read_gorch);
    GOTCL         = count(0x04090, 4, 1).read(statistics::read_low);
    GOTCH         = count(0x04094, 4, 1).read(statistics::read_gotch);
    RUC           = count(0x040a4, 4, 1);
    RFC           = count(0x040a8, 4, 1);
    ROC           = count(0x040ac, 4, 1);
    RJC           = count(0x040b0, 4, 1);
    MNGPRC        = count(0x040b4, 4, 1);
    MNGPDC        = count(0x040b8, 4, 1);
    MNGPTC        = count(0x0cf90, 4, 1);
    TORL          = count(0x040c0, 4, 1).read(statistics::read_low);
    TORH          = count(0x040c4, 4, 1).read(statistics::read_torh);
    TPR           = count(0x040d0, 4, 1);
    TPT           = count(0x040d4, 4, 1);
    PTC           = count(0x040d8, 4, 6);
    MPTC          = count(0x040f0, 4, 1);
    BPTC          = count(0x040f4, 4, 1);
    XEC           = count(0x04120, 4, 1);
    RXNFGPC       = count(0x041b0, 4, 1);
    RXNFGBCL      = count(0x041b4, 4, 1).read(statistics::read_low);
    RXNFGBCH      = count(0x041b8, 4, 1).read(statistics::read_rxnfgbch);
    B2OSPC        = count(0x041c0, 4, 1);
    O2BGPTC       = count(0x041c4, 4, 1);
    RXDGPC        = count(0x02f50, 4, 1);
    RXDGBCL       = count(0x02f54, 4, 1).read(statistics::read_low);
    RXDGBCH       = count(0x02f58, 4, 1).read(statistics::read_rxdgbch);
    RXDDGPC       = count(0x02f5c, 4, 1);
    RXLPBKGPC     = count(0x02f68, 4, 1);
    B2OGPRC       = count(0x02f90, 4, 1);
    FCCRC         = count(0x05118, 4, 1);
    FCOERPDC      = count(0x0241c, 4, 1);
    FCLAST        = count(0x02424, 4, 1);
    FCOEPRC       = count(0x02428, 4, 1);
    FCOEDWRC      = count(0x0242c, 4, 1);
    SSVPC         = count(0x08780, 4, 1);
    FCOEPTC       = count(0x08784, 4, 1);
    FCOEDWTC      = count(0x08788, 4, 1);
    TXDGPC        = count(0x087a0, 4, 1);
    TXDGBCL       = count(0x087a4, 4, 1).read(statistics::read_low);
    TXDGBCH       = count(0x087a8, 4, 1).read(statistics::read_txdgbch);
    O2BSPC        = count(0x087b0, 4, 1);
    RQSMR         = array(0x02300, 4, 32);
    TQSM          = array(0x08600, 4, 32);
    QPRC          = count(0x01030, 0x40, 16);
    QPRDC         = count(0x01430, 0x40, 16);
    QBRC_L        = count(0x01034, 0x40, 16).read(statistics::read_low);
    QBRC_H        = count(0x01038, 0x40, 16).read(statistics::read_qbrc_h);
    QPTC          = count(0x08680, 4, 16).alias(0x06030, 0x40, 16);
    QBTC_L        = count(0x08700, 8, 16).read(statistics::read_low);
    QBTC_H        = count(0x08704, 8, 16).read(statistics::read_qbtc_h);
}
