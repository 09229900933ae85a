//! Receive write-back formats (82599 datasheet 7.1.5, 7.1.6): what a finished descriptor says.

use super::rss::Spread;
use crate::parse::{L3, L4, Parsed, Sum, packet_type};

const DD: u64 = 1;
const EOP: u64 = 1 << 1;
const VP: u64 = 1 << 3;
const UDPCS: u64 = 1 << 4;
const L4CS: u64 = 1 << 5;
const IPCS: u64 = 1 << 6;
const PIF: u64 = 1 << 7;
const ERROR_RXE: u64 = 1 << 29;
const ERROR_L4: u64 = 1 << 30;
const ERROR_IP: u64 = 1 << 31;
const LEN_SHIFT: u32 = 32;
const VLAN_SHIFT: u32 = 48;

/// Fields of the older format's second word.
mod legacy {
    pub(super) const STATUS_SHIFT: u32 = 32;
    pub(super) const ERRORS_SHIFT: u32 = 40;
    pub(super) const VLAN_SHIFT: u32 = 48;
    pub(super) const ERROR_RXE: u64 = 1 << 0;
    pub(super) const ERROR_L4: u64 = 1 << 6;
    pub(super) const ERROR_IP: u64 = 1 << 7;
}

/// What is said of a packet.
pub(crate) struct PacketInfo<'a> {
    pub(crate) parsed: &'a Parsed,
    pub(crate) inexact: bool,
    /// The tag that was taken out.
    pub(crate) stripped: Option<u16>,
    pub(crate) spread: Spread,
    /// The second dword is the RSS hash, not IP id and fragment checksum.
    pub(crate) hash_in_descriptor: bool,
    pub(crate) bad: bool,
}

/// What is said of one of its buffers.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) len: usize,
    pub(crate) last: bool,
}

impl PacketInfo<'_> {
    /// The words of a descriptor. All but length and DD is said with the packet's last buffer, and
    /// type and hash with every one.
    #[inline]
    pub(crate) fn words(&self, advanced: bool, buffer: Buffer) -> [u64; 2] {
        if advanced {
            [self.first_word(), self.second_word(buffer)]
        } else {
            [0, self.legacy_word(buffer)]
        }
    }

    fn first_word(&self) -> u64 {
        let low = self.spread.kind | self.parsed.packet_type;
        let high = match self.hash_in_descriptor {
            true => self.spread.hash,
            false => u32::from(self.parsed.ip_id),
        };
        u64::from(low) | u64::from(high) << 32
    }

    fn second_word(&self, buffer: Buffer) -> u64 {
        let mut word = DD | (buffer.len as u64) << LEN_SHIFT;
        if buffer.last {
            word |= EOP | self.status() | self.errors();
            if let Some(tag) = self.stripped {
                word |= u64::from(tag) << VLAN_SHIFT;
            }
        }
        word
    }

    fn status(&self) -> u64 {
        let p = self.parsed;
        let mut status = 0;
        if self.stripped.is_some() {
            status |= VP;
        }
        if self.inexact {
            status |= PIF;
        }
        if p.l3 == L3::V4 && p.ip_sum != Sum::Unchecked {
            status |= IPCS;
        }
        if p.l4_sum != Sum::Unchecked {
            status |= L4CS;
            if p.l4 == L4::Udp {
                status |= UDPCS;
            }
        }
        status
    }

    fn errors(&self) -> u64 {
        let mut errors = 0;
        if self.bad {
            errors |= ERROR_RXE;
        }
        if self.parsed.l4_sum == Sum::Bad {
            errors |= ERROR_L4;
        }
        if self.parsed.ip_sum == Sum::Bad {
            errors |= ERROR_IP;
        }
        errors
    }

    fn legacy_word(&self, buffer: Buffer) -> u64 {
        let mut word = buffer.len as u64 | DD << legacy::STATUS_SHIFT;
        if buffer.last {
            word |= (EOP | self.status()) << legacy::STATUS_SHIFT;
            let errors = self.errors();
            for (advanced, old) in [
                (ERROR_RXE, legacy::ERROR_RXE),
                (ERROR_L4, legacy::ERROR_L4),
                (ERROR_IP, legacy::ERROR_IP),
            ] {
                if errors & advanced != 0 {
                    word |= old << legacy::ERRORS_SHIFT;
                }
            }
            if let Some(tag) = self.stripped {
                word |= u64::from(tag) << legacy::VLAN_SHIFT;
            }
        }
        word
    }
}

const _: () = assert!(packet_type::IPV4 > 0xf, "types lie above the RSS type");
