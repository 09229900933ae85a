//! The NVM behind EERD and EEWR, and the semaphores that software and firmware share.

use std::time::Duration;

use super::core::Core;
use super::registers::SW_FW_SYNC;
use crate::Variant;

const WORDS: usize = 0x1000;
/// The words up to and with this one add up to [`CHECKSUM`].
const CHECKSUM_WORD: usize = 0x3f;
const CHECKSUM: u16 = 0xbaba;
/// Pointers to sections, which the checksum covers too; here there are none.
const POINTERS: std::ops::Range<usize> = 0x03..0x0f;
const NO_POINTER: u16 = 0xffff;
/// Pointer to the firmware's module, which the checksum does not follow.
const FIRMWARE_WORD: usize = 0x0f;
const FIRMWARE: u16 = 0x0200;
/// In that module, a pointer to the configuration of pass-through mode; in there, its version.
const PASS_THROUGH_POINTER: u16 = 4;
const PASS_THROUGH: u16 = 0x0220;
const PASS_THROUGH_VERSION: u16 = 7;
/// The first version that drivers take for a product's.
const VERSION: u16 = 6;
/// Pointer to the list of what is written to CORECTL for each kind of SFP+ module.
const MODULES_WORD: usize = 0x2b;
const MODULES: u16 = 0x0240;
const MODULES_LEN: u16 = 9;
/// Kinds of module in that list: copper and optical, on either port.
const MODULE_KINDS: std::ops::RangeInclusive<u16> = 3..=6;
const MODULE_WORDS: u16 = 0x0260;
const END: u16 = 0xffff;
/// Device capabilities; bit 0: any SFP+ module may be used.
const CAPABILITIES_WORD: usize = 0x2c;

const EEC_REQ: u32 = 1 << 6;
const EEC_GNT: u32 = 1 << 7;
const EEC_PRES: u32 = 1 << 8;
const EEC_ARD: u32 = 1 << 9;
const START: u32 = 1;
const DONE: u32 = 1 << 1;
/// SW_FW_SYNC bit 31, on X540 and later: reading sets it.
const REGSMP: u32 = 1 << 31;

const READ_TIME: Duration = Duration::from_micros(20);
const WRITE_TIME: Duration = Duration::from_micros(100);

#[derive(Debug)]
pub(crate) struct Eeprom {
    image: Vec<u16>,
    data: u16,
    read_done: Duration,
    write_done: Duration,
}

impl Eeprom {
    pub(crate) fn new(mac: [u8; 6], variant: Variant) -> Self {
        let mut image = vec![0; WORDS];
        for (word, bytes) in image.iter_mut().zip(mac.chunks(2)) {
            *word = u16::from_le_bytes([bytes[0], bytes[1]]);
        }
        image[POINTERS].fill(NO_POINTER);
        image[0x18] = variant.device_id();
        image[CAPABILITIES_WORD] = 1;
        add_firmware(&mut image);
        if variant == Variant::I82599 {
            add_modules(&mut image);
        }
        let mut eeprom = Eeprom {
            image,
            data: 0,
            read_done: Duration::ZERO,
            write_done: Duration::ZERO,
        };
        eeprom.seal();
        eeprom
    }

    /// Makes the checksum right.
    fn seal(&mut self) {
        let sum = self.image[..CHECKSUM_WORD]
            .iter()
            .fold(0u16, |s, w| s.wrapping_add(*w));
        self.image[CHECKSUM_WORD] = CHECKSUM.wrapping_sub(sum);
    }
}

/// The firmware is there, and recent.
fn add_firmware(image: &mut [u16]) {
    image[FIRMWARE_WORD] = FIRMWARE;
    image[usize::from(FIRMWARE + PASS_THROUGH_POINTER)] = PASS_THROUGH;
    image[usize::from(PASS_THROUGH + PASS_THROUGH_VERSION)] = VERSION;
}

/// Every kind of module is set up by the same single word.
fn add_modules(image: &mut [u16]) {
    image[MODULES_WORD] = MODULES;
    let kinds = MODULE_KINDS.flat_map(|kind| [kind, MODULE_WORDS]);
    // The list's length comes first.
    let list = std::iter::once(MODULES_LEN).chain(kinds).chain([END]);
    for (word, value) in image[usize::from(MODULES)..].iter_mut().zip(list) {
        *word = value;
    }
    // A length, what is written, the end.
    image[usize::from(MODULE_WORDS)..][..3].copy_from_slice(&[2, 0, END]);
}

pub(crate) fn read_eec(core: &mut Core, _: usize, held: u32) -> u32 {
    let mut v = held;
    if held & EEC_REQ != 0 {
        v |= EEC_GNT;
    }
    if core.reset.nvm_read {
        v |= EEC_PRES | EEC_ARD;
    }
    v
}

pub(crate) fn write_eerd(core: &mut Core, _: usize, _: u32, value: u32) {
    if value & START != 0 {
        let word = (value >> 2 & 0x3fff) as usize;
        core.eeprom.data = core.eeprom.image.get(word).copied().unwrap_or(0xffff);
        core.eeprom.read_done = core.now + READ_TIME;
    }
}

pub(crate) fn read_eerd(core: &mut Core, _: usize, held: u32) -> u32 {
    if core.now < core.eeprom.read_done {
        return held;
    }
    held | DONE | u32::from(core.eeprom.data) << 16
}

pub(crate) fn write_eewr(core: &mut Core, _: usize, _: u32, value: u32) {
    if value & START != 0 {
        let word = (value >> 2 & 0x3fff) as usize;
        if let Some(w) = core.eeprom.image.get_mut(word) {
            *w = (value >> 16) as u16;
        }
        core.eeprom.write_done = core.now + WRITE_TIME;
    }
}

pub(crate) fn read_eewr(core: &mut Core, _: usize, held: u32) -> u32 {
    if core.now < core.eeprom.write_done {
        held
    } else {
        held | DONE
    }
}

impl Core {
    /// Firmware takes or gives up semaphores.
    pub(crate) fn set_firmware_semaphores(&mut self, bits: u32, held: bool) {
        let value = self.regs.get(&SW_FW_SYNC);
        let value = if held { value | bits } else { value & !bits };
        self.regs.set(&SW_FW_SYNC, value);
    }
}

pub(crate) fn read_sw_fw_sync(core: &mut Core, _: usize, held: u32) -> u32 {
    if core.config.variant.has_phy() {
        core.regs.set(&SW_FW_SYNC, held | REGSMP);
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_holds_the_address_and_adds_up() {
        let e = Eeprom::new([0x02, 0x11, 0x22, 0x33, 0x44, 0x55], Variant::X540);
        assert_eq!(e.image[..3], [0x1102, 0x3322, 0x5544]);
        let sum = e.image[..=0x3f]
            .iter()
            .fold(0u16, |s, w| s.wrapping_add(*w));
        assert_eq!(sum, 0xbaba);
    }
}
