//! PCI configuration space: its bytes, which of them can be written, and the capabilities that real
//! drivers look for (PCI Express Base Specification 7.5; PCI Local Bus Specification 6.1).

/// Bytes of configuration space, of a PCI Express function.
pub(crate) const SIZE: usize = 4096;

pub(crate) const COMMAND: usize = 0x04;
pub(crate) const COMMAND_MEMORY: u16 = 1 << 1;
pub(crate) const COMMAND_BUS_MASTER: u16 = 1 << 2;
/// I/O, memory, bus master, parity and system errors, INTx off.
const COMMAND_WRITABLE: u16 = 0x0547;
const STATUS_HAS_CAPABILITIES: u16 = 1 << 4;
/// Errors that were seen; writing ones clears them.
const STATUS_ERRORS: u16 = 0xf900;
const DEVICE_CONTROL_RESET: u16 = 1 << 15;

const CAPABILITY_PM: u8 = 0x01;
const CAPABILITY_MSI: u8 = 0x05;
const CAPABILITY_EXPRESS: u8 = 0x10;
const CAPABILITY_MSIX: u8 = 0x11;
const EXTENDED_AER: u16 = 0x0001;
const EXTENDED_SERIAL: u16 = 0x0003;

/// What a memory or I/O space of the function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    /// Its number; a 64-bit one takes the next too.
    pub(crate) index: usize,
    /// Bytes, a power of two.
    pub(crate) size: u32,
    pub(crate) io: bool,
}

/// Who a function says it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) vendor: u16,
    pub(crate) device: u16,
    pub(crate) revision: u8,
    /// Class, subclass, interface.
    pub(crate) class: [u8; 3],
    pub(crate) mac: [u8; 6],
    /// MSI-X vectors, with the table at the start of a BAR.
    pub(crate) vectors: u16,
    pub(crate) msix_bar: usize,
    /// Where the pending bits are in that BAR.
    pub(crate) pending_offset: u32,
}

/// What a write asks for beyond being stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// A function-level reset.
    pub(crate) reset: bool,
}

/// The configuration space of one function.
#[derive(Clone)]
pub(crate) struct ConfigSpace {
    bytes: Box<[u8; SIZE]>,
    writable: Box<[u8; SIZE]>,
    write_1_clears: Box<[u8; SIZE]>,
    /// Offset of the PCI Express capability.
    express: usize,
    power: usize,
    /// As it was made.
    initial: Box<[u8; SIZE]>,
}

impl ConfigSpace {
    /// A function with the capabilities of the family: power management, MSI, MSI-X, PCI Express with
    /// function-level reset, error reporting and a serial number.
    pub(crate) fn new(function: &Function, bars: &[Bar]) -> Self {
        let mut c = ConfigSpace {
            bytes: Box::new([0; SIZE]),
            writable: Box::new([0; SIZE]),
            write_1_clears: Box::new([0; SIZE]),
            express: 0xa0,
            power: 0x40,
            initial: Box::new([0; SIZE]),
        };
        c.put16(0x00, function.vendor);
        c.put16(0x02, function.device);
        c.writable16(COMMAND, COMMAND_WRITABLE);
        c.put16(0x06, STATUS_HAS_CAPABILITIES);
        c.clears16(0x06, STATUS_ERRORS);
        c.bytes[0x08] = function.revision;
        let [class, subclass, interface] = function.class;
        c.bytes[0x09..0x0c].copy_from_slice(&[interface, subclass, class]);
        c.writable[0x0c] = 0xff;
        for bar in bars {
            c.add_bar(*bar);
        }
        c.put16(0x2c, function.vendor);
        c.put16(0x2e, 0x0003);
        c.bytes[0x34] = c.power as u8;
        c.writable[0x3c] = 0xff;
        c.bytes[0x3d] = 1;
        c.add_power(0x50);
        c.add_msi(0x50, 0x70);
        c.add_msix(0x70, c.express as u8, function);
        c.add_express();
        c.add_error_reporting(0x100, 0x140);
        c.add_serial(0x140, function.mac);
        c.initial = c.bytes.clone();
        c
    }

    fn add_bar(&mut self, bar: Bar) {
        let at = 0x10 + 4 * bar.index;
        if bar.io {
            self.put32(at, 1);
            self.writable32(at, !(bar.size - 1) & !3);
        } else {
            // 64-bit, prefetchable.
            self.put32(at, 0xc);
            self.writable32(at, !(bar.size - 1) & !0xf);
            self.writable32(at + 4, u32::MAX);
        }
    }

    fn add_power(&mut self, next: u8) {
        let at = self.power;
        self.capability(at, CAPABILITY_PM, next);
        self.put16(at + 2, 0x4823);
        self.put16(at + 4, 0x2000);
        self.writable16(at + 4, 0x1f03);
        self.clears16(at + 4, 1 << 15);
    }

    fn add_msi(&mut self, at: usize, next: u8) {
        self.capability(at, CAPABILITY_MSI, next);
        // 64-bit addresses, a mask bit, one vector.
        self.put16(at + 2, 0x0180);
        self.writable16(at + 2, 0x0071);
        self.writable32(at + 4, !3);
        self.writable32(at + 8, u32::MAX);
        self.writable16(at + 0xc, u16::MAX);
        self.writable32(at + 0x10, 1);
    }

    fn add_msix(&mut self, at: usize, next: u8, function: &Function) {
        self.capability(at, CAPABILITY_MSIX, next);
        self.put16(at + 2, function.vectors - 1);
        self.writable16(at + 2, 0xc000);
        let bar = function.msix_bar as u32;
        self.put32(at + 4, bar);
        self.put32(at + 8, function.pending_offset | bar);
    }

    fn add_express(&mut self) {
        let at = self.express;
        self.capability(at, CAPABILITY_EXPRESS, 0);
        // An endpoint, version 2.
        self.put16(at + 2, 0x0002);
        // Payloads to 512 bytes, role-based errors, function-level reset.
        self.put32(at + 4, 0x1000_8cc2);
        self.put16(at + 8, 0x2810);
        self.writable16(at + 8, 0x7fff);
        self.clears16(at + 0xa, 0x000f);
        // 5 GT/s on eight lanes.
        self.put32(at + 0xc, 0x0002_7482);
        self.writable16(at + 0x10, 0x01fb);
        self.put16(at + 0x12, 0x1082);
        // Completion timeouts of all ranges, and off.
        self.put32(at + 0x24, 0x1f);
        self.put16(at + 0x28, 6);
        self.writable16(at + 0x28, 0x001f);
        self.put32(at + 0x2c, 0x0000_0006);
        self.put16(at + 0x30, 2);
        self.writable16(at + 0x30, 0x0fff);
    }

    fn add_error_reporting(&mut self, at: usize, next: u16) {
        self.extended(at, EXTENDED_AER, next);
        self.put32(at + 0xc, 0x0046_2031);
        self.writable32(at + 8, 0x013f_f030);
        self.writable32(at + 0xc, 0x013f_f030);
        self.put32(at + 0x14, 0x0000_2000);
        self.writable32(at + 0x14, 0x0000_31c1);
    }

    fn add_serial(&mut self, at: usize, mac: [u8; 6]) {
        self.extended(at, EXTENDED_SERIAL, 0);
        let [a, b, c, d, e, f] = mac;
        let serial = [f, e, d, 0xff, 0xff, c, b, a];
        self.bytes[at + 4..at + 12].copy_from_slice(&serial);
    }

    fn capability(&mut self, at: usize, id: u8, next: u8) {
        self.bytes[at] = id;
        self.bytes[at + 1] = next;
    }

    fn extended(&mut self, at: usize, id: u16, next: u16) {
        self.put32(at, u32::from(id) | 1 << 16 | u32::from(next) << 20);
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn writable16(&mut self, at: usize, mask: u16) {
        self.writable[at..at + 2].copy_from_slice(&mask.to_le_bytes());
    }

    fn writable32(&mut self, at: usize, mask: u32) {
        self.writable[at..at + 4].copy_from_slice(&mask.to_le_bytes());
    }

    fn clears16(&mut self, at: usize, mask: u16) {
        self.write_1_clears[at..at + 2].copy_from_slice(&mask.to_le_bytes());
    }

    /// Back to what it was at power-on.
    pub(crate) fn reset(&mut self) {
        self.bytes = self.initial.clone();
    }

    /// Sixteen bits; `None` outside, or where they are not aligned.
    pub(crate) fn read16(&self, at: usize) -> Option<u16> {
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        at.is_multiple_of(2).then(|| u16::from_le_bytes(*bytes))
    }

    /// Copies from `at`. False where it is not all inside.
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) -> bool {
        let end = at.saturating_add(into.len());
        match self.bytes.get(at..end) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }

    /// Stores at `at` what can be written there. `None` where it is not all inside.
    pub(crate) fn write(&mut self, at: usize, data: &[u8]) -> Option<Effects> {
        let end = at.checked_add(data.len()).filter(|end| *end <= SIZE)?;
        let was_low = self.is_low_power();
        let mut effects = Effects::default();
        for (i, new) in (at..end).zip(data) {
            let mask = self.writable[i];
            self.bytes[i] = self.bytes[i] & !mask | new & mask;
            self.bytes[i] &= !(new & self.write_1_clears[i]);
            let [_, high] = DEVICE_CONTROL_RESET.to_le_bytes();
            effects.reset |= i == self.express + 9 && new & high != 0;
        }
        // Waking up from D3 is a reset: PMCSR says that no state is kept.
        effects.reset |= was_low && !self.is_low_power();
        Some(effects)
    }

    fn is_low_power(&self) -> bool {
        self.bytes[self.power + 4] & 3 == 3
    }

    /// The command register.
    pub(crate) fn command(&self) -> u16 {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]])
    }

    pub(crate) fn set_command(&mut self, bits: u16, on: bool) {
        let value = if on {
            self.command() | bits
        } else {
            self.command() & !bits
        };
        self.put16(COMMAND, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> ConfigSpace {
        let function = Function {
            vendor: 0x8086,
            device: 0x10fb,
            revision: 1,
            class: [2, 0, 0],
            mac: [2, 0x11, 0x22, 0x33, 0x44, 0x55],
            vectors: 64,
            msix_bar: 4,
            pending_offset: 0x2000,
        };
        let bar = |index, size, io| Bar { index, size, io };
        ConfigSpace::new(
            &function,
            &[
                bar(0, 0x8_0000, false),
                bar(2, 32, true),
                bar(4, 0x4000, false),
            ],
        )
    }

    fn read32(c: &ConfigSpace, at: usize) -> u32 {
        let mut bytes = [0; 4];
        assert!(c.read(at, &mut bytes));
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn the_chain_of_capabilities_ends() {
        let c = space();
        let (mut at, mut seen) = (c.bytes[0x34] as usize, Vec::new());
        while at != 0 {
            seen.push(c.bytes[at]);
            at = c.bytes[at + 1] as usize;
        }
        assert_eq!(seen, [0x01, 0x05, 0x11, 0x10]);
        let (mut at, mut seen) = (0x100, Vec::new());
        while at != 0 {
            let header = read32(&c, at);
            seen.push(header as u16);
            at = (header >> 20) as usize;
        }
        assert_eq!(seen, [1, 3]);
        assert_eq!(read32(&c, 0x144), 0xff33_4455);
        assert_eq!(read32(&c, 0x148), 0x0211_22ff);
    }

    #[test]
    fn a_bar_tells_its_size() {
        let mut c = space();
        for (at, wanted) in [
            (0x10, 0xfff8_000c),
            (0x14, u32::MAX),
            (0x18, 0xffff_ffe1),
            (0x20, 0xffff_c00c),
        ] {
            c.write(at, &[0xff; 4]).unwrap();
            assert_eq!(read32(&c, at), wanted, "{at:#x}");
        }
        c.write(0x1c, &[0xff; 4]).unwrap();
        assert_eq!(read32(&c, 0x1c), 0, "there is no BAR 3");
    }

    #[test]
    fn only_what_is_writable_is_written() {
        let mut c = space();
        assert_eq!(c.write(0, &[0xff; 8]), Some(Effects::default()));
        assert_eq!(read32(&c, 0), 0x10fb_8086);
        assert_eq!(c.command(), COMMAND_WRITABLE);
        assert_eq!(c.read16(6), Some(STATUS_HAS_CAPABILITIES));
        assert_eq!(c.write(SIZE - 1, &[0, 0]), None);
        assert_eq!((c.read16(SIZE), c.read16(1)), (None, None));
        assert!(!c.read(SIZE - 2, &mut [0; 4]) && !c.read(usize::MAX, &mut [0; 4]));
        c.reset();
        assert_eq!(c.command(), 0);
    }

    #[test]
    fn resets_are_asked_for_in_two_ways() {
        let mut c = space();
        let express = c.express;
        let [low, high] = (0x2810u16 | DEVICE_CONTROL_RESET).to_le_bytes();
        assert!(c.write(express + 8, &[low, high]).unwrap().reset);
        assert_eq!(c.read16(express + 8), Some(0x2810), "the bit reads 0");
        let power = c.power;
        assert!(!c.write(power + 4, &[3]).unwrap().reset);
        assert!(c.write(power + 4, &[0]).unwrap().reset);
    }
}
