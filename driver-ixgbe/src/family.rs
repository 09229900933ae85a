//! The families and how they differ, as data, and which PCI id is which.

use std::time::Duration;

use driver_core::{Identity, RxMetadata};

use crate::decode;
use crate::error::Error;

/// What sets one family of controllers apart.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// Packet memory of the receive side, in KiB.
    pub(crate) rx_buffer_kib: u32,
    /// Queues that an entry of the RSS table can name.
    pub(crate) rss_queues: u16,
    /// Entries of the RSS table.
    pub(crate) rss_table: usize,
    /// What to wait after a reset.
    pub(crate) reset_settle: Duration,
    /// The link is made by a 10GBASE-T PHY behind MDIO, and AUTOC has no part in it.
    pub(crate) copper: bool,
    /// Pending transactions show in the PCI Device Status register.
    pub(crate) pending_in_config: bool,
    /// The software/firmware semaphore is guarded by SW_FW_SYNC bit 31 instead of SWSM.SWESMBI.
    pub(crate) regsmp: bool,
    /// RXDCTL can limit the packet length of one queue.
    pub(crate) rlpml: bool,
    /// Malicious driver detection, to be switched off.
    pub(crate) mdd: bool,
    /// LINKS can say 2.5 and 5 Gbit/s.
    pub(crate) multi_gigabit: bool,
    /// Counts traffic between host and management controller.
    pub(crate) os2bmc: bool,
    /// Reads a receive descriptor.
    pub(crate) decode: fn([u64; 2]) -> RxMetadata,
}

static INTEL_82599: Family = Family {
    name: "82599",
    rx_buffer_kib: 512,
    rss_queues: 16,
    rss_table: 128,
    reset_settle: Duration::from_millis(50),
    copper: false,
    pending_in_config: true,
    regsmp: false,
    rlpml: false,
    mdd: false,
    multi_gigabit: false,
    os2bmc: false,
    decode: decode::intel_82599,
};

static X540: Family = Family {
    name: "X540",
    rx_buffer_kib: 384,
    reset_settle: Duration::from_millis(100),
    copper: true,
    regsmp: true,
    rlpml: true,
    os2bmc: true,
    decode: decode::x540,
    ..INTEL_82599
};

static X550: Family = Family {
    name: "X550",
    rss_queues: 64,
    rss_table: 512,
    pending_in_config: false,
    mdd: true,
    multi_gigabit: true,
    decode: decode::x550,
    ..X540
};

/// PCI vendor id of Intel.
const INTEL: u16 = 0x8086;

const PF_82599: [u16; 17] = [
    0x10f7, 0x10f8, 0x10f9, 0x10fb, 0x10fc, 0x1507, 0x1514, 0x1517, 0x151c, 0x1529, 0x152a, 0x154a,
    0x154d, 0x154f, 0x1557, 0x1558, 0x155d,
];
const PF_X540: [u16; 3] = [0x1528, 0x1560, 0x155c];
const PF_X550: [u16; 2] = [0x1563, 0x15d1];
const X550EM_X: [u16; 6] = [0x15aa, 0x15ab, 0x15ac, 0x15ad, 0x15ae, 0x15b0];
const X550EM_A: [u16; 11] = [
    0x15c2, 0x15c3, 0x15c4, 0x15c6, 0x15c7, 0x15c8, 0x15ca, 0x15cc, 0x15ce, 0x15e4, 0x15e5,
];
const VIRTUAL: [(u16, &str); 10] = [
    (0x10ed, "82599"),
    (0x152e, "82599, Hyper-V"),
    (0x1515, "X540"),
    (0x1530, "X540, Hyper-V"),
    (0x1565, "X550"),
    (0x1564, "X550, Hyper-V"),
    (0x15a8, "X550EM_x"),
    (0x15a9, "X550EM_x, Hyper-V"),
    (0x15c5, "X550EM_a"),
    (0x15b4, "X550EM_a, Hyper-V"),
];

/// 82599 ports whose cage holds an SFP+ or QSFP+ module, with a laser to turn on.
const SFP: [u16; 8] = [
    0x10fb, 0x1507, 0x1529, 0x154a, 0x154d, 0x154f, 0x1557, 0x1558,
];

/// True where this driver knows a PCI vendor and device id: what an opener asks before it chooses
/// a driver. Virtual functions and X550EM are not among them.
pub fn supports(vendor: u16, device: u16) -> bool {
    vendor == INTEL && physical(device).is_some()
}

/// The family of `identity`, or why it has none.
pub(crate) fn of(identity: &Identity) -> Result<&'static Family, Error> {
    let id = identity.device;
    let device = || identity.name.clone();
    if identity.vendor == INTEL {
        if let Some(family) = physical(id) {
            return Ok(family);
        }
        if let Some(&(_, name)) = VIRTUAL.iter().find(|v| v.0 == id) {
            let device = device();
            return Err(Error::VirtualFunction { device, id, name });
        }
        for (ids, name) in [(&X550EM_X[..], "X550EM_x"), (&X550EM_A, "X550EM_a")] {
            if ids.contains(&id) {
                let device = device();
                return Err(Error::Unsupported { device, id, name });
            }
        }
    }
    Err(Error::UnknownDevice {
        device: device(),
        vendor: identity.vendor,
        id,
    })
}

/// True where the port has a laser that SDP3 turns off.
pub(crate) fn has_laser(identity: &Identity) -> bool {
    SFP.contains(&identity.device)
}

fn physical(id: u16) -> Option<&'static Family> {
    let families = [
        (&PF_82599[..], &INTEL_82599),
        (&PF_X540, &X540),
        (&PF_X550, &X550),
    ];
    families
        .into_iter()
        .find(|(ids, _)| ids.contains(&id))
        .map(|(_, family)| family)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(vendor: u16, device: u16) -> Identity {
        Identity {
            name: "0000:03:00.0".into(),
            vendor,
            device,
            revision: 1,
            bar_size: 0x8_0000,
        }
    }

    #[test]
    fn each_physical_function_has_its_family() {
        for (id, name) in [
            (0x10fb, "82599"),
            (0x1558, "82599"),
            (0x1528, "X540"),
            (0x1563, "X550"),
        ] {
            assert_eq!(of(&identity(0x8086, id)).unwrap().name, name);
            assert!(supports(0x8086, id));
        }
        let x550 = of(&identity(0x8086, 0x15d1)).unwrap();
        assert_eq!((x550.rss_table, x550.rx_buffer_kib), (512, 384));
    }

    #[test]
    fn others_are_refused_by_name() {
        let text = |vendor, id| of(&identity(vendor, id)).unwrap_err().to_string();
        assert!(text(0x8086, 0x10ed).contains("10ed) is a virtual function (82599)"));
        assert!(text(0x8086, 0x15ad).contains("15ad) is an X550EM_x"));
        assert!(text(0x8086, 0x1572).contains("8086:1572"));
        assert!(text(0x1234, 0x10fb).contains("1234:10fb"));
        assert!(
            !supports(0x8086, 0x10ed) && !supports(0x1234, 0x10fb) && !supports(0x8086, 0x15ad)
        );
    }
}
