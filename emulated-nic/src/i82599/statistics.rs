//! Statistics (82599 datasheet 8.2.3.23): tallies that the packet paths keep, and the registers that
//! they are added to at the end of a step.
//!
//! Good packets are counted (GPRC, the size bins, octets) once they have passed the address and VLAN
//! filters, whether or not a descriptor is found for them afterwards; TPR and TORL count all that
//! arrived. Octets include the checksum (FCS).

use super::core::Core;
use super::register_file::RegisterFile;
use super::registers::*;

/// Bytes of a frame's checksum.
pub(crate) const FCS: u64 = 4;
/// Counters of queues.
const QUEUE_COUNTERS: usize = 16;

/// Received since the last flush.
#[derive(Debug, Default)]
pub(crate) struct RxTally {
    pub(crate) total: u64,
    pub(crate) total_octets: u64,
    pub(crate) unfiltered: u64,
    pub(crate) unfiltered_octets: u64,
    pub(crate) good: u64,
    pub(crate) good_octets: u64,
    pub(crate) bins: [u64; 6],
    pub(crate) broadcast: u64,
    pub(crate) multicast: u64,
    pub(crate) crc_errors: u64,
    pub(crate) undersize: u64,
    pub(crate) fragments: u64,
    pub(crate) oversize: u64,
    pub(crate) jabber: u64,
    pub(crate) missed: u64,
    pub(crate) to_host: u64,
    pub(crate) to_host_octets: u64,
    pub(crate) queue_packets: [u64; QUEUE_COUNTERS],
    pub(crate) queue_octets: [u64; QUEUE_COUNTERS],
    pub(crate) queue_drops: [u64; QUEUE_COUNTERS],
}

/// Sent since the last flush.
#[derive(Debug, Default)]
pub(crate) struct TxTally {
    pub(crate) packets: u64,
    pub(crate) octets: u64,
    pub(crate) bins: [u64; 6],
    pub(crate) broadcast: u64,
    pub(crate) multicast: u64,
    pub(crate) queue_packets: [u64; QUEUE_COUNTERS],
    pub(crate) queue_octets: [u64; QUEUE_COUNTERS],
}

/// The size bin of a frame of `len` bytes with FCS: 64, to 127, 255, 511, 1023, and above.
#[inline]
pub(crate) fn bin(len: u64) -> usize {
    match len {
        ..=64 => 0,
        65..=127 => 1,
        128..=255 => 2,
        256..=511 => 3,
        512..=1023 => 4,
        _ => 5,
    }
}

impl RxTally {
    /// A good frame to `destination` of `octets` bytes with FCS.
    #[inline]
    pub(crate) fn good(&mut self, destination: &[u8; 6], octets: u64) {
        self.good += 1;
        self.good_octets += octets;
        self.bins[bin(octets)] += 1;
        if destination[0] & 1 != 0 {
            match destination {
                [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => self.broadcast += 1,
                _ => self.multicast += 1,
            }
        }
    }

    pub(crate) fn flush(&mut self, regs: &mut RegisterFile) {
        let t = std::mem::take(self);
        regs.count(&TPR, 0, t.total);
        regs.count36(&TORL, &TORH, 0, t.total_octets);
        regs.count(&RXNFGPC, 0, t.unfiltered);
        regs.count36(&RXNFGBCL, &RXNFGBCH, 0, t.unfiltered_octets);
        regs.count(&GPRC, 0, t.good);
        regs.count36(&GORCL, &GORCH, 0, t.good_octets);
        regs.count(&BPRC, 0, t.broadcast);
        regs.count(&MPRC, 0, t.multicast);
        regs.count(&CRCERRS, 0, t.crc_errors);
        regs.count(&RUC, 0, t.undersize);
        regs.count(&RFC, 0, t.fragments);
        regs.count(&ROC, 0, t.oversize);
        regs.count(&RJC, 0, t.jabber);
        regs.count(&MPC, 0, t.missed);
        regs.count(&RXDGPC, 0, t.to_host);
        regs.count36(&RXDGBCL, &RXDGBCH, 0, t.to_host_octets);
        for (n, by) in t.bins.into_iter().enumerate() {
            regs.count(&PRC, n, by);
        }
        for n in 0..QUEUE_COUNTERS {
            regs.count(&QPRC, n, t.queue_packets[n]);
            regs.count36(&QBRC_L, &QBRC_H, n, t.queue_octets[n]);
            regs.count(&QPRDC, n, t.queue_drops[n]);
        }
    }
}

impl TxTally {
    /// A frame to `destination` of `octets` bytes with FCS, from a queue with this counter.
    #[inline]
    pub(crate) fn sent(&mut self, destination: &[u8], octets: u64, counter: usize) {
        self.packets += 1;
        self.octets += octets;
        self.bins[bin(octets)] += 1;
        self.queue_packets[counter] += 1;
        self.queue_octets[counter] += octets;
        if destination[0] & 1 != 0 {
            if destination.starts_with(&[0xff; 6]) {
                self.broadcast += 1;
            } else {
                self.multicast += 1;
            }
        }
    }

    pub(crate) fn flush(&mut self, regs: &mut RegisterFile) {
        let t = std::mem::take(self);
        regs.count(&GPTC, 0, t.packets);
        regs.count(&TPT, 0, t.packets);
        regs.count(&TXDGPC, 0, t.packets);
        regs.count36(&GOTCL, &GOTCH, 0, t.octets);
        regs.count36(&TXDGBCL, &TXDGBCH, 0, t.octets);
        regs.count(&BPTC, 0, t.broadcast);
        regs.count(&MPTC, 0, t.multicast);
        for (n, by) in t.bins.into_iter().enumerate() {
            regs.count(&PTC, n, by);
        }
        for n in 0..QUEUE_COUNTERS {
            regs.count(&QPTC, n, t.queue_packets[n]);
            regs.count36(&QBTC_L, &QBTC_H, n, t.queue_octets[n]);
        }
    }
}

/// The counter that RQSMR or TQSM gives a queue.
pub(crate) fn queue_counter(regs: &RegisterFile, map: &Register, queue: usize) -> usize {
    (regs.at(map, queue / 4) >> (8 * (queue % 4)) & 0xf) as usize
}

/// The low half of a pair: clears nothing.
pub(crate) fn read_low(_: &mut Core, _: usize, held: u32) -> u32 {
    held
}

/// The high half of a pair: clears both.
fn read_high(core: &mut Core, low: &Register, high: &Register, n: usize) -> u32 {
    let held = core.regs.at(high, n);
    core.regs.set_at(low, n, 0);
    core.regs.set_at(high, n, 0);
    held
}

pub(crate) fn read_gorch(core: &mut Core, n: usize, _: u32) -> u32 {
    read_high(core, &GORCL, &GORCH, n)
}

pub(crate) fn read_gotch(core: &mut Core, n: usize, _: u32) -> u32 {
    read_high(core, &GOTCL, &GOTCH, n)
}

pub(crate) fn read_torh(core: &mut Core, n: usize, _: u32) -> u32 {
    read_high(core, &TORL, &TORH, n)
}

pub(crate) fn read_rxnfgbch(core: &mut Core, n: usize, _: u32) -> u32 {
    read_high(core, &RXNFGBCL, &RXNFGBCH, n)
}

pub(crate) fn read_rxdgbch(core: &mut Core, n: usize, _: u32) -> u32 {
    read_high(core, &RXDGBCL, &RXDGBCH, n)
}

pub(crate) fn read_txdgbch(core: &mut Core, n: usize, _: u32) -> u32 {
    read_high(core, &TXDGBCL, &TXDGBCH, n)
}

pub(crate) fn read_qbrc_h(core: &mut Core, n: usize, _: u32) -> u32 {
    read_high(core, &QBRC_L, &QBRC_H, n)
}

pub(crate) fn read_qbtc_h(core: &mut Core, n: usize, _: u32) -> u32 {
    read_high(core, &QBTC_L, &QBTC_H, n)
}
