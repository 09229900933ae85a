//! The MAC's part of the receive path: which frames are good, which of them the station takes, and how
//! they are counted.

use super::core::Core;
use super::filter::Verdict;
use super::rss::Spread;
use super::statistics::FCS;
use crate::Undersize;
use crate::batch::WireFrame;
use crate::parse::{Parsed, packet_type, parse};

/// Shortest frame, and longest without JUMBOEN, with FCS.
const MIN_FRAME: u64 = 64;
pub(super) const MAX_STANDARD_FRAME: u64 = 1518;
/// Longest frame whatever MAXFRS says: 15.5 KiB.
pub(super) const MAX_ANY_FRAME: u64 = 15872;
/// What even [`Undersize::Deliver`] does not deliver is shorter than a header.
const HEADER: usize = 14;
/// Frames or fragments below this are not even counted (specification update 331521, 18).
const COUNTED_FRAGMENT: usize = 12;

/// What is to be done with a frame that the MAC took.
pub(super) struct Class {
    pub(super) parsed: Parsed,
    pub(super) inexact: bool,
    pub(super) spread: Spread,
    pub(super) bad: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reject {
    BadFcs,
    Undersize,
    Oversize,
    Address,
    Vlan,
}

impl Core {
    /// What MAC, filters and RSS say of a frame.
    #[inline]
    pub(super) fn classify(&self, frame: WireFrame<'_>) -> Result<Class, Reject> {
        let rx = &self.rx;
        let data = frame.data;
        let octets = data.len() as u64 + FCS;
        let store_bad = self.filter.store_bad;
        if frame.bad_fcs && !store_bad {
            return Err(Reject::BadFcs);
        }
        let short = octets < MIN_FRAME && self.config.undersize == Undersize::Discard;
        if short && !store_bad || data.len() < HEADER {
            return Err(Reject::Undersize);
        }
        let mut parsed = parse(data, rx.zero_udp_is_bad);
        let tag = if parsed.tag.is_some() { 4 } else { 0 };
        let long = octets > rx.max_frame + tag;
        if long && !store_bad {
            return Err(Reject::Oversize);
        }
        let destination = data.first_chunk().ok_or(Reject::Undersize)?;
        match self.filter.judge(destination, parsed.tag) {
            Verdict::Accept { inexact } => {
                let mut spread = self.rss.spread(data, &parsed);
                if let Some(found) = self.filter.match_type(parsed.kind) {
                    parsed.packet_type = packet_type::ETHERTYPE_FILTER
                        | found.filter << packet_type::ETHERTYPE_FILTER_SHIFT;
                    spread.queue = found.queue.unwrap_or(spread.queue);
                }
                Ok(Class {
                    parsed,
                    inexact,
                    spread,
                    bad: frame.bad_fcs || short || long,
                })
            }
            Verdict::WrongAddress => Err(Reject::Address),
            Verdict::WrongVlan => Err(Reject::Vlan),
        }
    }

    pub(super) fn count_offered(&mut self, data: &[u8]) {
        self.counts.offered += 1;
        self.counts.offered_bytes += data.len() as u64;
    }

    /// The MAC's statistics of a frame that arrived.
    #[inline]
    pub(super) fn count_arrival(&mut self, frame: WireFrame<'_>, fate: Result<(), Reject>) {
        let octets = frame.data.len() as u64 + FCS;
        let tally = &mut self.rx.tally;
        tally.total += 1;
        tally.total_octets += octets;
        match fate {
            Ok(()) => {
                if frame.bad_fcs {
                    tally.crc_errors += 1;
                } else {
                    tally.unfiltered += 1;
                    tally.unfiltered_octets += octets;
                    if let Some(destination) = frame.data.first_chunk() {
                        tally.good(destination, octets);
                    }
                }
            }
            Err(reject) => {
                match reject {
                    Reject::BadFcs if octets < MIN_FRAME => tally.fragments += 1,
                    Reject::BadFcs if octets > self.rx.max_frame => tally.jabber += 1,
                    Reject::BadFcs => tally.crc_errors += 1,
                    Reject::Undersize if frame.data.len() >= COUNTED_FRAGMENT => {
                        tally.undersize += 1;
                    }
                    Reject::Undersize => {}
                    Reject::Oversize => tally.oversize += 1,
                    Reject::Address | Reject::Vlan => {
                        tally.unfiltered += 1;
                        tally.unfiltered_octets += octets;
                    }
                }
                self.count_reject(reject);
            }
        }
    }

    pub(super) fn count_reject(&mut self, reject: Reject) {
        let c = &mut self.counts;
        *match reject {
            Reject::BadFcs => &mut c.bad_fcs,
            Reject::Undersize => &mut c.undersize,
            Reject::Oversize => &mut c.oversize,
            Reject::Address => &mut c.filtered,
            Reject::Vlan => &mut c.vlan_filtered,
        } += 1;
    }
}
