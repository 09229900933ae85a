//! Which frames a station takes: addresses and VLANs (82599 datasheet 7.1.1).

use super::core::Core;
use super::register_file::RegisterFile;
use super::registers::*;
use crate::strict::Rule;

const FCTRL_SBP: u32 = 1 << 1;
const FCTRL_MPE: u32 = 1 << 8;
const FCTRL_UPE: u32 = 1 << 9;
const FCTRL_BAM: u32 = 1 << 10;
const RAH_AV: u32 = 1 << 31;
const MCSTCTRL_MFE: u32 = 1 << 2;
const VLNCTRL_CFI: u32 = 1 << 28;
const VLNCTRL_CFIEN: u32 = 1 << 29;
const VLNCTRL_VFE: u32 = 1 << 30;
const FILTER_ENABLE: u32 = 1 << 31;
const ETQF_POOL_ENABLE: u32 = 1 << 26;
const ETQF_1588: u32 = 1 << 30;
const ETQS_QUEUE_ENABLE: u32 = 1 << 31;
const FDIRCTRL_PERFECT: u32 = 1 << 4;
const FDIRCTRL_INIT_DONE: u32 = 1 << 3;

/// What the filters say of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Taken; `inexact` where only the hash of its group address matched.
    Accept { inexact: bool },
    /// Not for this station.
    WrongAddress,
    /// Its VLAN is not in the table.
    WrongVlan,
}

/// The filters as the registers have them.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) store_bad: bool,
    all_multicast: bool,
    all_unicast: bool,
    broadcast: bool,
    /// Shift of the multicast hash, where the table is on.
    multicast_shift: Option<u32>,
    multicast: Vec<u32>,
    /// Station addresses, in wire order in the low 48 bits.
    stations: Vec<u64>,
    /// The VLAN table, where it is on.
    vlans: Option<Vec<u32>>,
    /// The drop-eligible bit that a tagged frame must have, where it is looked at.
    cfi: Option<bool>,
    /// Filters by Ethernet type that are on.
    types: Vec<TypeFilter>,
}

/// A filter by Ethernet type.
#[derive(Clone, Copy, Debug)]
struct TypeFilter {
    kind: u16,
    found: TypeMatch,
}

/// What a filter by Ethernet type says of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeMatch {
    /// Number of the filter.
    pub(crate) filter: u32,
    /// The queue that it names, if it does.
    pub(crate) queue: Option<usize>,
}

impl Filter {
    pub(crate) fn load(&mut self, regs: &RegisterFile) {
        let fctrl = regs.get(&FCTRL);
        self.store_bad = fctrl & FCTRL_SBP != 0;
        self.all_multicast = fctrl & FCTRL_MPE != 0;
        self.all_unicast = fctrl & FCTRL_UPE != 0;
        self.broadcast = fctrl & (FCTRL_BAM | FCTRL_MPE) != 0;
        let mcstctrl = regs.get(&MCSTCTRL);
        self.multicast_shift =
            (mcstctrl & MCSTCTRL_MFE != 0).then_some([4, 3, 2, 0][(mcstctrl & 3) as usize]);
        self.multicast.clear();
        self.multicast
            .extend((0..MTA.count()).map(|n| regs.at(&MTA, n)));
        self.stations.clear();
        for n in (0..RAH.count()).filter(|n| regs.at(&RAH, *n) & RAH_AV != 0) {
            let [a, b, c, d] = regs.at(&RAL, n).to_le_bytes();
            let [e, f, ..] = regs.at(&RAH, n).to_le_bytes();
            self.stations.push(address(&[a, b, c, d, e, f]));
        }
        let vlnctrl = regs.get(&VLNCTRL);
        self.vlans = (vlnctrl & VLNCTRL_VFE != 0)
            .then(|| (0..VFTA.count()).map(|n| regs.at(&VFTA, n)).collect());
        self.cfi = (vlnctrl & VLNCTRL_CFIEN != 0).then_some(vlnctrl & VLNCTRL_CFI != 0);
        self.types.clear();
        for n in (0..ETQF.count()).filter(|n| regs.at(&ETQF, *n) & FILTER_ENABLE != 0) {
            let etqs = regs.at(&ETQS, n);
            let queue = (etqs & ETQS_QUEUE_ENABLE != 0).then_some((etqs >> 16 & 0x7f) as usize);
            self.types.push(TypeFilter {
                kind: regs.at(&ETQF, n) as u16,
                found: TypeMatch {
                    filter: n as u32,
                    queue,
                },
            });
        }
    }

    /// What becomes of a frame to `destination` with this VLAN tag.
    #[inline]
    pub(crate) fn judge(&self, destination: &[u8; 6], tag: Option<u16>) -> Verdict {
        let Some(inexact) = self.judge_address(destination) else {
            return Verdict::WrongAddress;
        };
        if let Some(tag) = tag
            && !self.takes_vlan(tag)
        {
            return Verdict::WrongVlan;
        }
        Verdict::Accept { inexact }
    }

    /// The filter that this Ethernet type (behind a tag) matches.
    #[inline]
    pub(crate) fn match_type(&self, kind: u16) -> Option<TypeMatch> {
        self.types.iter().find(|f| f.kind == kind).map(|f| f.found)
    }

    /// Whether the address matched only inexactly; `None` where it did not.
    #[inline]
    fn judge_address(&self, destination: &[u8; 6]) -> Option<bool> {
        if destination[0] & 1 == 0 {
            let exact = self.all_unicast || self.stations.contains(&address(destination));
            return exact.then_some(false);
        }
        if destination == &[0xff; 6] {
            return self.broadcast.then_some(false);
        }
        if self.stations.contains(&address(destination)) {
            return Some(false);
        }
        let high = u32::from(destination[4]) | u32::from(destination[5]) << 8;
        let hashed = self.multicast_shift.is_some_and(|shift| {
            let vector = high >> shift & 0xfff;
            self.multicast[(vector >> 5) as usize] >> (vector & 31) & 1 != 0
        });
        (hashed || self.all_multicast).then_some(true)
    }

    fn takes_vlan(&self, tag: u16) -> bool {
        let id = tag & 0xfff;
        let listed = self
            .vlans
            .as_ref()
            .is_none_or(|table| table[usize::from(id >> 5)] >> (id & 31) & 1 != 0);
        let cfi = tag & 0x1000 != 0;
        listed && self.cfi.is_none_or(|wanted| wanted == cfi)
    }
}

fn address(bytes: &[u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = *bytes;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

pub(crate) fn write_vt_ctl(core: &mut Core, _: usize, _: u32, value: u32) {
    if value & 1 != 0 {
        core.strict
            .note(Rule::NotModelled, "VT_CTL", 0, u64::from(value));
    }
}

/// Pools and time stamps are not modelled.
pub(crate) fn write_etqf(core: &mut Core, n: usize, _: u32, value: u32) {
    if value & FILTER_ENABLE != 0 && value & (ETQF_POOL_ENABLE | ETQF_1588) != 0 {
        core.strict
            .note(Rule::NotModelled, "ETQF", n, u64::from(value));
    }
}

pub(crate) fn write_synqf(core: &mut Core, _: usize, _: u32, value: u32) {
    if value & FILTER_ENABLE != 0 {
        core.strict
            .note(Rule::NotModelled, "SYNQF", 0, u64::from(value));
    }
}

pub(crate) fn write_ftqf(core: &mut Core, n: usize, _: u32, value: u32) {
    if value & FILTER_ENABLE != 0 {
        core.strict
            .note(Rule::NotModelled, "FTQF", n, u64::from(value));
    }
}

pub(crate) fn read_fdirctrl(_: &mut Core, _: usize, held: u32) -> u32 {
    held | FDIRCTRL_INIT_DONE
}

/// Signature filters are a guess of where a flow's next packet should go, which may always fail: here
/// they all do, and RSS decides. Perfect filters would have to match.
pub(crate) fn write_fdirctrl(core: &mut Core, _: usize, _: u32, value: u32) {
    if value & 3 != 0 && value & FDIRCTRL_PERFECT != 0 {
        core.strict
            .note(Rule::NotModelled, "FDIRCTRL", 0, u64::from(value));
    }
}
