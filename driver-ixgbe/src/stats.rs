//! Statistics registers. All of them clear when read, stop at all ones, and ignore writes;
//! octets have 36 bits in two registers, of which the low one is read first. That is handled here,
//! once: a table says what there is, and reading it adds to 64-bit counts.

use driver_core::PortStats;

use crate::error::Error;
use crate::family::Family;
use crate::hw::Hw;
use crate::registers::{self, *};

/// How wide a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// One 32-bit register.
    Single,
    /// Low half, and the other four bits in the register that follows.
    Pair,
}
use Width::{Pair, Single};

/// Which families have a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    All,
    /// Those that pass traffic between host and management controller.
    Os2Bmc,
}

/// A row: name, width, first offset, how many, step from one to the next.
type Row = (&'static str, Width, u32, u16, u32, On);

/// Every counter. Those of one register have a step of 0; the sixteen per-queue ones count for all
/// queues whose number is the same modulo 16 ([`map_queues`]).
const TABLE: &[Row] = &[
    ("CRCERRS", Single, 0x04000, 1, 0, On::All),
    ("ILLERRC", Single, 0x04004, 1, 0, On::All),
    ("ERRBC", Single, 0x04008, 1, 0, On::All),
    ("MSPDC", Single, 0x04010, 1, 0, On::All),
    ("MPC", Single, 0x03fa0, 8, 4, On::All),
    ("MLFC", Single, 0x04034, 1, 0, On::All),
    ("MRFC", Single, 0x04038, 1, 0, On::All),
    ("RLEC", Single, 0x04040, 1, 0, On::All),
    ("LXONTXC", Single, 0x03f60, 1, 0, On::All),
    ("LXOFFTXC", Single, 0x03f68, 1, 0, On::All),
    ("LXONRXCNT", Single, 0x041a4, 1, 0, On::All),
    ("LXOFFRXCNT", Single, 0x041a8, 1, 0, On::All),
    ("PXONTXC", Single, 0x03f00, 8, 4, On::All),
    ("PXOFFTXC", Single, 0x03f20, 8, 4, On::All),
    ("PXONRXCNT", Single, 0x04140, 8, 4, On::All),
    ("PXOFFRXCNT", Single, 0x04160, 8, 4, On::All),
    ("PXON2OFFCNT", Single, 0x03240, 8, 4, On::All),
    ("RXNFGPC", Single, 0x041b0, 1, 0, On::All),
    ("RXNFGBC", Pair, 0x041b4, 1, 0, On::All),
    ("PRC64", Single, 0x0405c, 1, 0, On::All),
    ("PRC127", Single, 0x04060, 1, 0, On::All),
    ("PRC255", Single, 0x04064, 1, 0, On::All),
    ("PRC511", Single, 0x04068, 1, 0, On::All),
    ("PRC1023", Single, 0x0406c, 1, 0, On::All),
    ("PRC1522", Single, 0x04070, 1, 0, On::All),
    ("GPRC", Single, 0x04074, 1, 0, On::All),
    ("BPRC", Single, 0x04078, 1, 0, On::All),
    ("MPRC", Single, 0x0407c, 1, 0, On::All),
    ("GPTC", Single, 0x04080, 1, 0, On::All),
    ("GORC", Pair, 0x04088, 1, 0, On::All),
    ("GOTC", Pair, 0x04090, 1, 0, On::All),
    ("RUC", Single, 0x040a4, 1, 0, On::All),
    ("RFC", Single, 0x040a8, 1, 0, On::All),
    ("ROC", Single, 0x040ac, 1, 0, On::All),
    ("RJC", Single, 0x040b0, 1, 0, On::All),
    ("MNGPRC", Single, 0x040b4, 1, 0, On::All),
    ("MNGPDC", Single, 0x040b8, 1, 0, On::All),
    ("MNGPTC", Single, 0x0cf90, 1, 0, On::All),
    ("TOR", Pair, 0x040c0, 1, 0, On::All),
    ("TPR", Single, 0x040d0, 1, 0, On::All),
    ("TPT", Single, 0x040d4, 1, 0, On::All),
    ("PTC64", Single, 0x040d8, 1, 0, On::All),
    ("PTC127", Single, 0x040dc, 1, 0, On::All),
    ("PTC255", Single, 0x040e0, 1, 0, On::All),
    ("PTC511", Single, 0x040e4, 1, 0, On::All),
    ("PTC1023", Single, 0x040e8, 1, 0, On::All),
    ("PTC1522", Single, 0x040ec, 1, 0, On::All),
    ("MPTC", Single, 0x040f0, 1, 0, On::All),
    ("BPTC", Single, 0x040f4, 1, 0, On::All),
    ("XEC", Single, 0x04120, 1, 0, On::All),
    ("SSVPC", Single, 0x08780, 1, 0, On::All),
    ("FCCRC", Single, 0x05118, 1, 0, On::All),
    ("FCOERPDC", Single, 0x0241c, 1, 0, On::All),
    ("FCLAST", Single, 0x02424, 1, 0, On::All),
    ("FCOEPRC", Single, 0x02428, 1, 0, On::All),
    ("FCOEDWRC", Single, 0x0242c, 1, 0, On::All),
    ("FCOEPTC", Single, 0x08784, 1, 0, On::All),
    ("FCOEDWTC", Single, 0x08788, 1, 0, On::All),
    ("RXDGPC", Single, 0x02f50, 1, 0, On::All),
    ("RXDGBC", Pair, 0x02f54, 1, 0, On::All),
    ("RXDDGPC", Single, 0x02f5c, 1, 0, On::All),
    ("RXLPBKGPC", Single, 0x02f68, 1, 0, On::All),
    ("TXDGPC", Single, 0x087a0, 1, 0, On::All),
    ("TXDGBC", Pair, 0x087a4, 1, 0, On::All),
    ("QPRC", Single, 0x01030, 16, 0x40, On::All),
    ("QBRC", Pair, 0x01034, 16, 0x40, On::All),
    ("QPRDC", Single, 0x01430, 16, 0x40, On::All),
    ("QPTC", Single, 0x08680, 16, 4, On::All),
    ("QBTC", Pair, 0x08700, 16, 8, On::All),
    ("O2BGPTC", Single, 0x041c4, 1, 0, On::Os2Bmc),
    ("O2BSPC", Single, 0x087b0, 1, 0, On::Os2Bmc),
    ("B2OSPC", Single, 0x041c0, 1, 0, On::Os2Bmc),
    ("B2OGPRC", Single, 0x02f90, 1, 0, On::Os2Bmc),
];

/// Counts since the port was opened.
#[derive(Debug)]
pub(crate) struct Stats {
    counts: Vec<Count>,
}

#[derive(Debug)]
struct Count {
    name: &'static str,
    index: Option<u16>,
    width: Width,
    first: u32,
    step: u32,
    total: u64,
}

impl Stats {
    /// All counters of `family`, at zero.
    pub(crate) fn new(family: &Family) -> Self {
        let has = |on| match on {
            On::All => true,
            On::Os2Bmc => family.os2bmc,
        };
        let rows = TABLE.iter().filter(|row| has(row.5));
        let counts = rows.flat_map(|&(name, width, first, many, step, _)| {
            (0..many).map(move |i| Count {
                name,
                index: (many > 1).then_some(i),
                width,
                first,
                step,
                total: 0,
            })
        });
        Stats {
            counts: counts.collect(),
        }
    }

    /// Reads every counter and adds to what there was.
    pub(crate) fn update(&mut self, hw: &Hw) -> Result<(), Error> {
        for count in &mut self.counts {
            let news = count.take(hw)?;
            count.total = count.total.saturating_add(news);
        }
        Ok(())
    }

    /// What the port reports, derived from the registers.
    pub(crate) fn report(&self) -> PortStats {
        let sum = |name: &str| {
            let counts = self.counts.iter().filter(|c| c.name == name);
            counts.fold(0u64, |sum, c| sum.saturating_add(c.total))
        };
        // Pause frames that the device sent count as good packets of 64 bytes.
        let pauses = sum("LXONTXC") + sum("LXOFFTXC");
        let named = |c: &Count| match c.index {
            Some(i) => format!("{}({i})", c.name),
            None => c.name.to_owned(),
        };
        let nonzero = self.counts.iter().filter(|c| c.total != 0);
        PortStats {
            rx_packets: sum("GPRC"),
            rx_bytes: sum("GORC"),
            // No room in the packet buffer, and no descriptor in the ring.
            rx_missed: sum("MPC") + sum("QPRDC"),
            // A jabber (RJC) has a bad checksum and is in CRCERRS already.
            rx_errors: sum("CRCERRS") + sum("RLEC") + sum("RUC") + sum("RFC") + sum("ROC"),
            tx_packets: sum("GPTC").saturating_sub(pauses),
            tx_bytes: sum("GOTC").saturating_sub(64 * pauses),
            registers: nonzero.map(|c| (named(c), c.total)).collect(),
        }
    }
}

impl Count {
    /// What was counted since the last time.
    fn take(&self, hw: &Hw) -> Result<u64, Error> {
        let register = |offset| registers::counter(self.name, self.index, offset, self.step);
        let low = u64::from(hw.take(register(self.first))?);
        match self.width {
            Single => Ok(low),
            Pair => {
                let high = u64::from(hw.take(register(self.first + 4))? & 0xf);
                Ok(high << 32 | low)
            }
        }
    }
}

/// Forgets what the device counted before.
pub(crate) fn clear(hw: &Hw) -> Result<(), Error> {
    Stats::new(hw.family).update(hw)
}

/// Has each queue counted by the per-queue counters with its number modulo 16: all queues are in some
/// counter, so that sums over them are complete.
pub(crate) fn map_queues(hw: &Hw) {
    for register in 0..32 {
        let map = (0..4).fold(0, |map, j| {
            let queue = 4 * u32::from(register) + j;
            map | (queue % 16) << (8 * j)
        });
        hw.write(RQSMR(register), map);
        hw.write(TQSM(register), map);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn counts_add_up_beyond_their_registers() {
        let (hw, device) = testing::hw(0x10fb);
        let mut stats = Stats::new(hw.family);
        for _ in 0..3 {
            device.set(0x4074, 0xffff_fff0); // GPRC
            device.set(0x4088, 0xffff_ffff); // GORCL
            device.set(0x408c, 0xf); // GORCH
            device.set(0x3fa4, 5); // MPC(1)
            device.set(0x1430 + 0x40 * 15, 7); // QPRDC(15)
            stats.update(&hw).unwrap();
        }
        let report = stats.report();
        assert_eq!(report.rx_packets, 3 * 0xffff_fff0);
        assert_eq!(report.rx_bytes, 3 * 0xf_ffff_ffff);
        assert_eq!(report.rx_missed, 36);
        let missed = ("MPC(1)".to_owned(), 15);
        assert!(report.registers.contains(&missed));
        assert!(!report.registers.iter().any(|(_, n)| *n == 0));
        stats.update(&hw).unwrap();
        assert_eq!(stats.report(), report, "read once, each is clear");
    }

    #[test]
    fn pauses_are_no_packets_of_ours() {
        let (hw, device) = testing::hw(0x10fb);
        device.set(0x4080, 10); // GPTC
        device.set(0x4090, 1000); // GOTCL
        device.set(0x3f60, 2); // LXONTXC
        device.set(0x3f68, 1); // LXOFFTXC
        let mut stats = Stats::new(hw.family);
        stats.update(&hw).unwrap();
        let report = stats.report();
        assert_eq!((report.tx_packets, report.tx_bytes), (7, 1000 - 192));
    }

    #[test]
    fn a_counter_at_its_ceiling_is_no_lost_device() {
        let (hw, device) = testing::hw(0x10fb);
        device.set(0x4074, u32::MAX);
        let mut stats = Stats::new(hw.family);
        stats.update(&hw).unwrap();
        assert_eq!(stats.report().rx_packets, u64::from(u32::MAX));
        device.unplug();
        assert!(matches!(stats.update(&hw), Err(Error::Gone { .. })));
    }

    #[test]
    fn families_differ_in_what_they_count() {
        let names = |id| {
            let stats = Stats::new(testing::family(id));
            stats.counts.iter().any(|c| c.name == "B2OSPC")
        };
        assert_eq!([0x10fb, 0x1528, 0x1563].map(names), [false, true, true]);
    }

    #[test]
    fn each_queue_has_a_counter() {
        let (hw, device) = testing::hw(0x10fb);
        map_queues(&hw);
        assert_eq!(device.register(0x2300), 0x0302_0100);
        assert_eq!(device.register(0x230c), 0x0f0e_0d0c);
        assert_eq!(device.register(0x2310), 0x0302_0100);
        assert_eq!(device.register(0x867c), 0x0f0e_0d0c);
    }
}
