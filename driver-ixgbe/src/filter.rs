//! Which frames the port accepts: exact unicast addresses, a hash of multicast ones,
//! everything when promiscuous, broadcast always; VLANs are not filtered.

use driver_core::MacAddr;

use crate::error::Error;
use crate::hw::Hw;
use crate::registers::*;
use crate::reset::DEVICE_QUEUES;

/// Exact address filters, the station address among them.
const ADDRESSES: usize = 128;

/// What is accepted besides the station address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    promiscuous: bool,
    /// Address in filter `i + 1`; filter 0 has the station address.
    unicast: Vec<Option<MacAddr>>,
    multicast: Vec<MacAddr>,
}

impl Filter {
    pub(crate) fn set_promiscuous(&mut self, on: bool) {
        self.promiscuous = on;
    }

    /// Adds `mac`; one that is there already stays.
    pub(crate) fn add(&mut self, mac: MacAddr) -> Result<(), Error> {
        if mac == MacAddr::default() {
            return Err(Error::BadAddress { mac });
        }
        if mac.is_multicast() {
            if !self.multicast.contains(&mac) {
                self.multicast.push(mac);
            }
            return Ok(());
        }
        if self.unicast.contains(&Some(mac)) {
            return Ok(());
        }
        let unused = self.unicast.iter().position(Option::is_none);
        let slot = unused.unwrap_or(self.unicast.len());
        if slot + 1 >= ADDRESSES {
            return Err(Error::AddressesFull { max: ADDRESSES });
        }
        if slot == self.unicast.len() {
            self.unicast.push(None);
        }
        self.unicast[slot] = Some(mac);
        Ok(())
    }

    /// Removes `mac`; one that is not there is no error, since it is not accepted either way.
    pub(crate) fn remove(&mut self, mac: MacAddr) {
        self.multicast.retain(|m| *m != mac);
        for slot in &mut self.unicast {
            if *slot == Some(mac) {
                *slot = None;
            }
        }
    }

    /// Writes all of it to the device. Receiving must be off.
    pub(crate) fn write(&self, hw: &Hw) -> Result<(), Error> {
        let all = Fctrl::MPE | Fctrl::UPE;
        hw.modify(FCTRL, |v| {
            let v = (v - all - Fctrl::SBP) | Fctrl::BAM;
            if self.promiscuous { v | all } else { v }
        })?;
        hw.modify(VLNCTRL, |v| v - Vlnctrl::VFE - Vlnctrl::CFIEN)?;
        for (i, slot) in self.unicast.iter().enumerate() {
            write_address(hw, i as u16 + 1, *slot);
        }
        let mut table = [0u32; 128];
        for (word, bit) in self.multicast.iter().map(multicast_bit) {
            table[word] |= 1 << bit;
        }
        for (word, bits) in (0..).zip(table) {
            hw.write(MTA(word), bits);
        }
        let enable = if self.multicast.is_empty() {
            Mcstctrl::empty()
        } else {
            Mcstctrl::MFE
        };
        // Filter type 0: bits 47:36 of the address.
        hw.write(MCSTCTRL, enable);
        Ok(())
    }
}

/// The station address that the NVM put into filter 0.
pub(crate) fn station_address(hw: &Hw) -> Result<MacAddr, Error> {
    let (ral, rah) = (hw.device.read32(RAL(0).offset()), hw.read(RAH(0))?);
    let [a, b, c, d] = ral.to_le_bytes();
    let [e, f, ..] = rah.to_le_bytes();
    let mac = MacAddr([a, b, c, d, e, f]);
    if rah & RAH_AV == 0 || mac.is_multicast() || mac == MacAddr::default() {
        let device = hw.name();
        return Err(Error::NoStationAddress { device, ral, rah });
    }
    Ok(mac)
}

/// Step 13 of the reset order: only the station address is accepted, into pool 0, and no filter that
/// steers packets to queues or pools is on. Most of these tables hold noise after power-on.
pub(crate) fn clear(hw: &Hw) -> Result<(), Error> {
    for i in 1..128 {
        write_address(hw, i, None);
    }
    hw.write(MPSAR_LO(0), 1);
    hw.write(MPSAR_HI(0), 0);
    for i in 0..128 {
        hw.write(MTA(i), 0);
        hw.write(VFTA(i), 0);
        hw.write(PFUTA(i), 0);
        hw.write(PFVLVFB(i), 0);
    }
    for i in 0..64 {
        hw.write(PFVLVF(i), 0);
    }
    for i in 0..DEVICE_QUEUES {
        hw.write(FTQF(i), 0);
    }
    hw.flush()
}

/// The high half holds the valid bit: it is cleared first and set last.
fn write_address(hw: &Hw, index: u16, mac: Option<MacAddr>) {
    hw.write(RAH(index), 0);
    let MacAddr([a, b, c, d, e, f]) = mac.unwrap_or_default();
    hw.write(RAL(index), u32::from_le_bytes([a, b, c, d]));
    hw.write(MPSAR_LO(index), mac.is_some().into());
    hw.write(MPSAR_HI(index), 0);
    if mac.is_some() {
        hw.write(RAH(index), u32::from_le_bytes([e, f, 0, 0]) | RAH_AV);
    }
}

/// Word and bit of a multicast address in MTA.
fn multicast_bit(mac: &MacAddr) -> (usize, u32) {
    let hash = usize::from(mac.0[4] >> 4) | usize::from(mac.0[5]) << 4;
    (hash >> 5, hash as u32 & 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_reused_and_run_out() {
        let mac = |i: u8| MacAddr([2, 0, 0, 0, 0, i]);
        let mut f = Filter::default();
        for i in 1..128 {
            f.add(mac(i)).unwrap();
            f.add(mac(i)).unwrap();
        }
        let full = f.add(mac(200)).unwrap_err();
        assert!(full.to_string().contains("128"), "{full}");
        f.remove(mac(5));
        f.remove(mac(5));
        f.add(mac(200)).unwrap();
        assert_eq!(f.unicast[4], Some(mac(200)));
        assert!(matches!(
            f.add(MacAddr::default()),
            Err(Error::BadAddress { .. })
        ));
    }

    #[test]
    fn multicast_hash_is_the_top_twelve_bits() {
        assert_eq!(
            multicast_bit(&MacAddr([1, 0, 0x5e, 0, 0, 0xfb])),
            (0xfb0 >> 5, 16)
        );
        assert_eq!(multicast_bit(&MacAddr([1, 0, 0x5e, 0, 0x1f, 0])), (0, 1));
    }
}
