//! The members of the 82599 family and what differs between them.

use std::fmt;
use std::str::FromStr;

/// Which NIC is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// 82599 with an SFP+ cage (X520), device id 0x10FB.
    I82599,
    /// X540 with its 10GBASE-T PHY, device id 0x1528.
    X540,
    /// X550 with its 10GBASE-T PHY, device id 0x1563.
    X550,
}

impl Variant {
    /// PCI device id.
    pub fn device_id(self) -> u16 {
        match self {
            Variant::I82599 => 0x10fb,
            Variant::X540 => 0x1528,
            Variant::X550 => 0x1563,
        }
    }

    /// Memory for received packets, in KiB.
    pub fn rx_packet_kib(self) -> u32 {
        match self {
            Variant::I82599 => 512,
            Variant::X540 | Variant::X550 => 384,
        }
    }

    /// Entries of the RSS redirection table.
    pub fn rss_entries(self) -> usize {
        match self {
            Variant::I82599 | Variant::X540 => 128,
            Variant::X550 => 512,
        }
    }

    /// Queues that an entry of the redirection table can name.
    pub fn rss_queues(self) -> u16 {
        match self {
            Variant::I82599 | Variant::X540 => 16,
            Variant::X550 => 64,
        }
    }

    /// True where the medium is twisted pair behind a PHY of its own.
    pub(crate) fn has_phy(self) -> bool {
        self != Variant::I82599
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Variant::I82599 => "82599",
            Variant::X540 => "x540",
            Variant::X550 => "x550",
        })
    }
}

/// A name that no model has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no model `{0}`: use 82599 (or x520), x540 or x550")]
pub struct UnknownVariant(String);

impl FromStr for Variant {
    type Err = UnknownVariant;

    fn from_str(s: &str) -> Result<Self, UnknownVariant> {
        match s.to_ascii_lowercase().as_str() {
            "82599" | "x520" => Ok(Variant::I82599),
            "x540" => Ok(Variant::X540),
            "x550" => Ok(Variant::X550),
            _ => Err(UnknownVariant(s.to_owned())),
        }
    }
}
