//! The SFP+ module: a memory of 256 bytes and one for diagnostics, on the two wires of I2CCTL
//! (82599 datasheet 8.2.3.1.7; SFF-8472). Drivers move the wires bit by bit.

use super::core::Core;
use super::registers::I2CCTL;
use crate::Variant;

const CLOCK_IN: u32 = 1 << 0;
const CLOCK_OUT: u32 = 1 << 1;
const DATA_IN: u32 = 1 << 2;
const DATA_OUT: u32 = 1 << 3;

/// I2C addresses, as their first byte without the direction: identification and diagnostics.
const IDENTIFICATION: u8 = 0xa0;
const DIAGNOSTICS: u8 = 0xa2;
const PAGE: usize = 256;

/// A module and what it says on the bus.
#[derive(Debug)]
pub(crate) struct Module {
    pages: [[u8; PAGE]; 2],
    bus: Bus,
}

/// A slave's side of the bus.
#[derive(Debug)]
struct Bus {
    clock: bool,
    data: bool,
    /// The slave lets the data line go, which is then high unless the master holds it.
    released: bool,
    phase: Phase,
    /// The page that is talked to, and the next byte in it.
    page: usize,
    pointer: u8,
    /// The next byte written is the pointer.
    points: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// An address comes: so many bits, so far.
    Address(u8, u8),
    /// A byte comes.
    Write(u8, u8),
    /// A byte goes: what is left of it, and how many bits have been shown.
    Read(u8, u8),
    /// The slave acknowledges; then comes what is named.
    Acknowledge(Next),
    /// The master acknowledges a byte that it read, or wants no more.
    Acknowledged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Write,
    Read,
}

impl Module {
    /// A 10GBASE-SR module with a serial number made of the station's address.
    pub(crate) fn new(mac: [u8; 6]) -> Self {
        Module {
            pages: [identification(mac), diagnostics()],
            bus: Bus {
                clock: true,
                data: true,
                released: true,
                phase: Phase::Idle,
                page: 0,
                pointer: 0,
                points: false,
            },
        }
    }

    /// The master's levels of both wires.
    fn drive(&mut self, clock: bool, data: bool) {
        let bus = &mut self.bus;
        let before = (bus.clock, bus.data);
        (bus.clock, bus.data) = (clock, data);
        match (before, (clock, data)) {
            ((true, true), (true, false)) => {
                bus.phase = Phase::Address(0, 0);
                bus.released = true;
            }
            ((true, false), (true, true)) => {
                bus.phase = Phase::Idle;
                bus.released = true;
            }
            ((false, _), (true, data)) => bus.clock_rises(data),
            ((true, _), (false, _)) => bus.clock_falls(&mut self.pages),
            _ => {}
        }
    }

    /// The level of the data wire.
    fn data(&self) -> bool {
        self.bus.data && self.bus.released
    }
}

impl Bus {
    fn clock_rises(&mut self, data: bool) {
        let bit = u8::from(data);
        self.phase = match self.phase {
            Phase::Address(byte, count) if count < 8 => Phase::Address(byte << 1 | bit, count + 1),
            Phase::Write(byte, count) if count < 8 => Phase::Write(byte << 1 | bit, count + 1),
            Phase::Acknowledged if data => Phase::Idle,
            phase => phase,
        };
    }

    fn clock_falls(&mut self, pages: &mut [[u8; PAGE]; 2]) {
        match self.phase {
            Phase::Address(byte, 8) => {
                let page = [IDENTIFICATION, DIAGNOSTICS]
                    .iter()
                    .position(|address| *address == byte & !1);
                match page {
                    Some(page) => {
                        self.page = page;
                        self.points = byte & 1 == 0;
                        let read = byte & 1 != 0;
                        self.acknowledge(if read { Next::Read } else { Next::Write });
                    }
                    None => self.phase = Phase::Idle,
                }
            }
            Phase::Write(byte, 8) => {
                if std::mem::take(&mut self.points) {
                    self.pointer = byte;
                } else {
                    // Only what a user may write: the second half of the diagnostics page.
                    if self.page == 1 && self.pointer >= 0x80 {
                        pages[1][self.pointer as usize] = byte;
                    }
                    self.pointer = self.pointer.wrapping_add(1);
                }
                self.acknowledge(Next::Write);
            }
            Phase::Acknowledge(Next::Write) => {
                self.released = true;
                self.phase = Phase::Write(0, 0);
            }
            Phase::Acknowledge(Next::Read) | Phase::Acknowledged => {
                let byte = pages[self.page][self.pointer as usize];
                self.pointer = self.pointer.wrapping_add(1);
                self.show(byte, 0);
            }
            Phase::Read(_, 8) => {
                self.released = true;
                self.phase = Phase::Acknowledged;
            }
            Phase::Read(byte, count) => self.show(byte, count),
            Phase::Idle | Phase::Address(..) | Phase::Write(..) => {}
        }
    }

    fn acknowledge(&mut self, next: Next) {
        self.released = false;
        self.phase = Phase::Acknowledge(next);
    }

    /// Puts the highest bit of `byte` on the wire.
    fn show(&mut self, byte: u8, count: u8) {
        self.released = byte & 0x80 != 0;
        self.phase = Phase::Read(byte << 1, count + 1);
    }
}

/// The identification page (SFF-8472 table 4-1).
fn identification(mac: [u8; 6]) -> [u8; PAGE] {
    let mut p = [0; PAGE];
    p[0] = 0x03; // SFP or SFP+
    p[1] = 0x04; // known by its module definition
    p[2] = 0x07; // LC connector
    p[3] = 0x10; // 10GBASE-SR
    p[6] = 0x01; // 1000BASE-SX
    p[11] = 0x06; // 64B/66B
    p[12] = 103; // 10.3 Gbit/s
    p[16] = 8; // 80 m on OM2
    p[17] = 3; // 30 m on OM1
    p[19] = 30; // 300 m on OM3
    text(&mut p[20..36], "IXDP");
    p[37..40].copy_from_slice(&[0x00, 0x1b, 0x21]);
    text(&mut p[40..56], "EMULATED-SR");
    text(&mut p[56..60], "1");
    p[60..62].copy_from_slice(&850u16.to_be_bytes());
    let [_, _, a, b, c, d] = mac;
    text(&mut p[68..84], &format!("{a:02X}{b:02X}{c:02X}{d:02X}"));
    text(&mut p[84..92], "260101");
    p[92] = 0x68; // diagnostics, calibrated
    p[94] = 0x05;
    p[63] = sum(&p[..63]);
    p[95] = sum(&p[64..95]);
    p
}

/// The diagnostics page: plausible thresholds and values (SFF-8472 tables 9-5 and 9-16).
fn diagnostics() -> [u8; PAGE] {
    let mut p = [0; PAGE];
    // Alarms high and low, warnings high and low of temperature (1/256 degree), voltage (100 uV), bias
    // current (2 uA), transmitted and received power (0.1 uW).
    let limits: [[u16; 4]; 5] = [
        [0x5500, 0xf800, 0x5000, 0x0000],
        [36_000, 30_000, 35_000, 31_000],
        [6_000, 1_000, 5_500, 1_500],
        [12_589, 1_000, 10_000, 1_585],
        [12_589, 631, 10_000, 1_000],
    ];
    let values: [u16; 5] = [0x2300, 33_000, 3_000, 5_800, 5_600];
    for (i, limit) in limits.as_flattened().iter().enumerate() {
        p[2 * i..2 * i + 2].copy_from_slice(&limit.to_be_bytes());
    }
    // Calibration that changes nothing: slopes of one.
    p[68..72].copy_from_slice(&1f32.to_be_bytes());
    for at in [76, 80, 84, 88] {
        p[at..at + 2].copy_from_slice(&0x0100u16.to_be_bytes());
    }
    p[95] = sum(&p[..95]);
    for (i, value) in values.iter().enumerate() {
        p[96 + 2 * i..98 + 2 * i].copy_from_slice(&value.to_be_bytes());
    }
    p
}

/// Text, padded with spaces.
fn text(field: &mut [u8], text: &str) {
    field.fill(b' ');
    for (place, byte) in field.iter_mut().zip(text.bytes()) {
        *place = byte;
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// The wires: what the driver lets go of is high unless the module holds it.
pub(crate) fn read_i2cctl(core: &mut Core, _: usize, held: u32) -> u32 {
    let held = held & (CLOCK_OUT | DATA_OUT);
    let clock = held & CLOCK_OUT != 0;
    let data = held & DATA_OUT != 0 && core.module.as_ref().is_none_or(Module::data);
    held | if clock { CLOCK_IN } else { 0 } | if data { DATA_IN } else { 0 }
}

pub(crate) fn write_i2cctl(core: &mut Core, _: usize, _: u32, value: u32) {
    if let Some(module) = &mut core.module {
        module.drive(value & CLOCK_OUT != 0, value & DATA_OUT != 0);
    }
}

/// The module in the cage of a NIC that has one.
pub(crate) fn module(variant: Variant, mac: [u8; 6]) -> Option<Module> {
    (variant == Variant::I82599).then(|| Module::new(mac))
}

/// After a reset the wires are let go.
pub(crate) const RELEASED: u32 = CLOCK_OUT | DATA_OUT;

const _: () = assert!(I2CCTL.reset == RELEASED);

#[cfg(test)]
mod tests {
    use super::*;

    /// A master that moves the wires as a driver does.
    struct Master(Module);

    impl Master {
        fn start(&mut self) {
            self.0.drive(false, true);
            self.0.drive(true, true);
            self.0.drive(true, false);
            self.0.drive(false, false);
        }

        fn stop(&mut self) {
            self.0.drive(false, false);
            self.0.drive(true, false);
            self.0.drive(true, true);
        }

        fn bit(&mut self, data: bool) -> bool {
            self.0.drive(false, data);
            self.0.drive(true, data);
            let level = self.0.data();
            self.0.drive(false, data);
            level
        }

        /// Sends a byte; true where it was acknowledged.
        fn send(&mut self, byte: u8) -> bool {
            for i in (0..8).rev() {
                self.bit(byte >> i & 1 != 0);
            }
            !self.bit(true)
        }

        fn receive(&mut self, more: bool) -> u8 {
            let byte = (0..8).fold(0, |byte, _| byte << 1 | u8::from(self.bit(true)));
            self.bit(!more);
            byte
        }

        fn read(&mut self, device: u8, at: u8, count: usize) -> Vec<u8> {
            self.start();
            assert!(self.send(device) && self.send(at));
            self.start();
            assert!(self.send(device | 1));
            let bytes = (1..=count).map(|i| self.receive(i < count)).collect();
            self.stop();
            bytes
        }
    }

    fn master() -> Master {
        Master(Module::new([2, 0, 0xab, 0xcd, 0xef, 1]))
    }

    #[test]
    fn bytes_are_read_one_by_one_and_in_a_row() {
        let mut m = master();
        assert_eq!(m.read(0xa0, 0, 1), [3]);
        assert_eq!(m.read(0xa0, 37, 3), [0x00, 0x1b, 0x21]);
        assert_eq!(m.read(0xa0, 68, 8), *b"ABCDEF01");
        assert_eq!(m.read(0xa2, 96, 2), [0x23, 0x00]);
        assert_eq!(m.read(0xa0, 255, 2), [0, 3], "it starts again");
    }

    #[test]
    fn other_addresses_are_not_acknowledged() {
        let mut m = master();
        m.start();
        assert!(!m.send(0xb0));
        m.stop();
        assert_eq!(m.read(0xa0, 0, 1), [3]);
    }

    #[test]
    fn a_user_writes_the_half_that_is_theirs() {
        let mut m = master();
        for (at, kept) in [
            (0x80, [0x5a, 0xa5]),
            (0x10, m.read(0xa2, 0x10, 2).try_into().unwrap()),
        ] {
            m.start();
            assert!(m.send(0xa2) && m.send(at) && m.send(0x5a) && m.send(0xa5));
            m.stop();
            assert_eq!(m.read(0xa2, at, 2), kept);
        }
    }

    #[test]
    fn the_pages_add_up() {
        let p = identification([2, 0, 0, 0, 0, 1]);
        assert_eq!((sum(&p[..63]), sum(&p[64..95])), (p[63], p[95]));
        assert_eq!(&p[20..24], b"IXDP");
        let d = diagnostics();
        assert_eq!(sum(&d[..95]), d[95]);
    }
}
