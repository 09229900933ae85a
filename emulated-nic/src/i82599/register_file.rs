//! What the registers hold, and the way from an offset to a row of the table.

use super::registers::{Access, Register, TABLE};
use crate::Variant;

/// Bytes of register space.
pub(crate) const SPACE: u32 = 0x20000;
const WORDS: usize = SPACE as usize / 4;

/// A register found by its offset.
#[derive(Clone, Copy)]
pub(crate) struct Decoded {
    pub(crate) register: &'static Register,
    pub(crate) index: usize,
    word: usize,
}

/// The values of all registers.
pub(crate) struct RegisterFile {
    values: Box<[u32]>,
    /// For each word of the space, one more than the row, and the index in it.
    decode: Box<[(u16, u16)]>,
}

impl RegisterFile {
    pub(crate) fn new(variant: Variant) -> Self {
        let mut decode = vec![(0, 0); WORDS].into_boxed_slice();
        let rows = TABLE.iter().enumerate();
        for (row, r) in rows.filter(|(_, r)| !r.x550 || variant == Variant::X550) {
            for home in &r.homes {
                for i in 0..home.count {
                    let offset = home.offset + home.stride * u32::from(i);
                    decode[offset as usize / 4] = (row as u16 + 1, home.first + i);
                }
            }
        }
        let mut file = RegisterFile {
            values: vec![0; WORDS].into_boxed_slice(),
            decode,
        };
        file.reset(true);
        file
    }

    /// Back to the values after a reset; after power-on, memories too.
    pub(crate) fn reset(&mut self, power_on: bool) {
        for r in TABLE.iter().filter(|r| power_on || !r.keeps) {
            for n in 0..r.count() {
                self.set_at(r, n, r.reset);
            }
        }
    }

    /// Fills the memories that nobody has written since power-on with noise.
    pub(crate) fn fill_with_noise(&mut self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        for r in TABLE.iter().filter(|r| r.noise) {
            for n in 0..r.count() {
                self.set_at(r, n, random.u32(..) & r.mask);
            }
        }
    }

    /// Who is at `offset`, a multiple of 4.
    #[inline]
    pub(crate) fn decode(&self, offset: u32) -> Option<Decoded> {
        let &(row, index) = self.decode.get(offset as usize / 4)?;
        let register = &TABLE[(row as usize).checked_sub(1)?];
        let index = index as usize;
        let word = register.offset(index) as usize / 4;
        Some(Decoded {
            register,
            index,
            word,
        })
    }

    /// What a register holds.
    #[inline]
    pub(crate) fn get(&self, r: &Register) -> u32 {
        self.at(r, 0)
    }

    /// What instance `n` of a register holds.
    #[inline]
    pub(crate) fn at(&self, r: &Register, n: usize) -> u32 {
        self.values[r.offset(n) as usize / 4]
    }

    pub(crate) fn set(&mut self, r: &Register, value: u32) {
        self.set_at(r, 0, value);
    }

    #[inline]
    pub(crate) fn set_at(&mut self, r: &Register, n: usize, value: u32) {
        self.values[r.offset(n) as usize / 4] = value;
    }

    /// Adds to a counter, which sticks at all ones.
    pub(crate) fn count(&mut self, r: &Register, n: usize, by: u64) {
        let held = u64::from(self.at(r, n));
        let sum = held.saturating_add(by).min(u64::from(u32::MAX));
        self.set_at(r, n, sum as u32);
    }

    /// Adds to a 36-bit counter of two registers, which sticks at all ones.
    pub(crate) fn count36(&mut self, low: &Register, high: &Register, n: usize, by: u64) {
        let held = u64::from(self.at(high, n) & 0xf) << 32 | u64::from(self.at(low, n));
        let sum = held.saturating_add(by).min((1 << 36) - 1);
        self.set_at(low, n, sum as u32);
        self.set_at(high, n, (sum >> 32) as u32);
    }

    /// The value held at a decoded place.
    pub(crate) fn held(&self, d: Decoded) -> u32 {
        self.values[d.word]
    }

    /// What a read returns, and does, by the register's access mode.
    pub(crate) fn read(&mut self, d: Decoded) -> u32 {
        let held = self.values[d.word];
        match d.register.access {
            Access::ReadWrite | Access::ReadOnly | Access::Write1Clear | Access::Write1Set => held,
            Access::WriteOnly => 0,
            Access::ClearOnRead => {
                self.values[d.word] = 0;
                held
            }
            Access::ReadSets(bits) => {
                self.values[d.word] = held | bits;
                held
            }
        }
    }

    /// What a write stores, by the register's access mode and mask.
    pub(crate) fn write(&mut self, d: Decoded, value: u32) {
        let (held, mask) = (self.values[d.word], d.register.mask);
        self.values[d.word] = match d.register.access {
            Access::ReadWrite | Access::WriteOnly | Access::ReadSets(_) => {
                held & !mask | value & mask
            }
            Access::ReadOnly | Access::ClearOnRead => held,
            Access::Write1Clear => held & !(value & mask),
            Access::Write1Set => held | value & mask,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::registers::*;
    use super::*;

    fn offset_of(file: &RegisterFile, offset: u32) -> Option<(&'static str, usize)> {
        file.decode(offset).map(|d| (d.register.name, d.index))
    }

    #[test]
    fn no_two_registers_share_a_place() {
        let mut owner = vec![None; WORDS];
        for r in TABLE {
            for home in &r.homes {
                for i in 0..u32::from(home.count) {
                    let word = (home.offset + home.stride * i) as usize / 4;
                    assert_eq!(owner[word], None, "{} over {:?}", r.name, owner[word]);
                    owner[word] = Some(r.name);
                }
            }
        }
    }

    #[test]
    fn both_blocks_of_receive_queues_and_the_aliases_decode() {
        let f = RegisterFile::new(Variant::I82599);
        assert_eq!(offset_of(&f, 0x01028 + 0x40 * 63), Some(("RXDCTL", 63)));
        assert_eq!(offset_of(&f, 0x0d028), Some(("RXDCTL", 64)));
        assert_eq!(offset_of(&f, 0x0d028 + 0x40 * 63), Some(("RXDCTL", 127)));
        assert_eq!(offset_of(&f, 0x02100 + 4 * 15), Some(("SRRCTL", 15)));
        assert_eq!(offset_of(&f, 0x02140), None);
        assert_eq!(offset_of(&f, 0x05818), Some(("MRQC", 0)));
        assert_eq!(offset_of(&f, 0x06030 + 0x40 * 3), Some(("QPTC", 3)));
        assert_eq!(offset_of(&f, 0x12300), Some(("EITR", 24)));
        assert_eq!(offset_of(&f, 0x0ee80), None, "ERETA is the X550's");
        assert_eq!(offset_of(&f, SPACE), None);
    }

    #[test]
    fn an_alias_reaches_the_same_value() {
        let mut f = RegisterFile::new(Variant::I82599);
        let d = f.decode(0x05c00 + 4 * 9).unwrap();
        f.write(d, 0x0102_0304);
        assert_eq!(f.at(&RETA, 9), 0x0102_0304);
    }

    #[test]
    fn access_modes_do_what_they_say() {
        let mut f = RegisterFile::new(Variant::I82599);
        let swsm = f.decode(0x10140).unwrap();
        assert_eq!((f.read(swsm), f.read(swsm)), (0, 1), "reading sets SMBI");
        f.write(swsm, 0);
        assert_eq!(f.read(swsm), 0);
        f.count(&GPRC, 0, 5);
        let gprc = f.decode(0x04074).unwrap();
        f.write(gprc, 77);
        assert_eq!((f.read(gprc), f.read(gprc)), (5, 0));
        f.count(&GPRC, 0, 1 << 40);
        f.count(&GPRC, 0, 1);
        assert_eq!(f.read(gprc), u32::MAX, "counters stick at all ones");
        f.count36(&GORCL, &GORCH, 0, (1 << 36) - 2);
        f.count36(&GORCL, &GORCH, 0, 9);
        assert_eq!((f.get(&GORCL), f.get(&GORCH)), (u32::MAX, 0xf));
        let links = f.decode(0x042a4).unwrap();
        f.write(links, 1 << 30);
        assert_eq!(f.read(links), 0);
        let rdbal = f.decode(0x01000).unwrap();
        f.write(rdbal, 0x1234_56ff);
        assert_eq!(
            f.read(rdbal),
            0x1234_5680,
            "the low bits of a ring's base are zero"
        );
    }
}
