//! Packets out of the blocks of a pcapng file (draft-ietf-opsawg-pcapng). Only what a packet needs
//! is read: options that say nothing of link or time are stepped over whatever they hold, since
//! files with a comment that is no UTF-8, or with options that have no end mark, are in circulation.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use pcap_file::Endianness;

use super::capture::{Current, MAX_PACKET, Trouble};

/// Blocks of these kinds are looked into.
pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// First word of a section header's body, by which the byte order is known.
const BYTE_ORDER_MAGIC: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
/// The version of the format.
const MAJOR: u16 = 1;
/// Bytes of a block that are not its body: kind and length before, the length again behind.
const FRAME: u32 = 12;
/// Longest body that is looked into: a packet and its options.
const MAX_BODY: u32 = 2 * MAX_PACKET as u32;

/// Options of an interface.
const END_OF_OPTIONS: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

const MICROSECONDS: u8 = 6;
const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// The link type of Ethernet.
pub(super) const ETHERNET: u32 = 1;

/// A pcapng file, being read.
pub(super) struct PcapNg {
    input: BufReader<File>,
    /// Of the current section.
    order: Endianness,
    /// Of the current section.
    interfaces: Vec<Interface>,
    /// Of the current block.
    body: Vec<u8>,
}

/// What packets of an interface need to be understood.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u32,
    snap_len: usize,
    /// Timestamp units: a power of 10, or of 2 where the high bit is set.
    resolution: u8,
    /// Seconds to add.
    offset: i64,
}

impl PcapNg {
    /// A file that starts with a section header.
    pub(super) fn new(file: File) -> Self {
        PcapNg {
            input: BufReader::new(file),
            order: Endianness::Little,
            interfaces: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Reads up to the next packet; false at the end of the file. `offset` is that of the next block.
    pub(super) fn next(
        &mut self,
        current: &mut Current,
        offset: &mut u64,
    ) -> Result<bool, Trouble> {
        while let Some((kind, len)) = self.block()? {
            let found = matches!(kind, PACKET | SIMPLE_PACKET | ENHANCED_PACKET);
            if found {
                self.packet(kind, current)?;
            }
            match kind {
                SECTION_HEADER => self.interfaces.clear(),
                INTERFACE => self.interfaces.push(self.interface()?),
                _ => {}
            }
            *offset += u64::from(len);
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the next block, into `body` where it is of a kind that is looked into. Gives its kind
    /// and length.
    fn block(&mut self) -> Result<Option<(u32, u32)>, Trouble> {
        // The file may end before a block, and nowhere else.
        if self.input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let (mut kind, mut len) = ([0; 4], [0; 4]);
        self.input.read_exact(&mut kind)?;
        self.input.read_exact(&mut len)?;
        let header = u32::from_be_bytes(kind) == SECTION_HEADER;
        self.body.clear();
        if header {
            let mut magic = [0; 4];
            self.input.read_exact(&mut magic)?;
            self.order = match magic {
                BYTE_ORDER_MAGIC => Endianness::Big,
                [0x4d, 0x3c, 0x2b, 0x1a] => Endianness::Little,
                _ => return Err(damage("the section header has no byte-order magic")),
            };
            self.body.extend(magic);
        }
        let (kind, len) = (u32_of(self.order, kind), u32_of(self.order, len));
        let known = self.body.len() as u32;
        if len < FRAME + known || !len.is_multiple_of(4) {
            return Err(damage(format!("a block cannot be {len} bytes long")));
        }
        let left = len - FRAME - known;
        if header || matches!(kind, INTERFACE | PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
            if left > MAX_BODY {
                return Err(damage(format!(
                    "a block of {len} bytes is too long: packets of up to {MAX_PACKET} are read"
                )));
            }
            let mut body = self.input.by_ref().take(left.into());
            if body.read_to_end(&mut self.body)? < left as usize {
                return Err(cut());
            }
        } else {
            let mut body = self.input.by_ref().take(left.into());
            if io::copy(&mut body, &mut io::sink())? < left.into() {
                return Err(cut());
            }
        }
        let mut again = [0; 4];
        self.input.read_exact(&mut again)?;
        let again = u32_of(self.order, again);
        if again != len {
            return Err(damage(format!(
                "a block says at its start that it is {len} bytes long, and at its end {again}"
            )));
        }
        if header {
            let major = self.half(4)?;
            if major != MAJOR {
                return Err(damage(format!(
                    "version {major} of pcapng is not known, only {MAJOR}"
                )));
            }
        }
        Ok(Some((kind, len)))
    }

    /// The interface that the current block describes.
    fn interface(&self) -> Result<Interface, Trouble> {
        let mut interface = Interface {
            link_type: self.half(0)?.into(),
            snap_len: self.word(4)? as usize,
            resolution: MICROSECONDS,
            offset: 0,
        };
        let mut at = 8;
        // A list of options that breaks off has said all that it says.
        while let (Ok(code), Ok(len)) = (self.half(at), self.half(at + 2)) {
            let value = self.body.get(at + 4..at + 4 + usize::from(len));
            match (code, value) {
                (END_OF_OPTIONS, _) | (_, None) => break,
                (IF_TSRESOL, Some(&[units, ..])) => interface.resolution = units,
                (IF_TSOFFSET, Some(value)) => {
                    if let Some(&seconds) = value.first_chunk::<8>() {
                        interface.offset = match self.order {
                            Endianness::Big => i64::from_be_bytes(seconds),
                            Endianness::Little => i64::from_le_bytes(seconds),
                        };
                    }
                }
                _ => {}
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
        Ok(interface)
    }

    /// The packet in the current block, which is of one of the three kinds that hold one.
    fn packet(&self, kind: u32, current: &mut Current) -> Result<(), Trouble> {
        let (id, header) = match kind {
            SIMPLE_PACKET => (0, 4),
            ENHANCED_PACKET => (self.word(0)?, 20),
            // The older block has a count of drops behind.
            _ => (self.half(0)?.into(), 20),
        };
        let Some(interface) = self.interfaces.get(id as usize) else {
            return Err(damage(format!(
                "the packet is of interface {id}, which the file does not describe before it"
            )));
        };
        if interface.link_type != ETHERNET {
            return Err(Trouble::LinkType(interface.link_type));
        }
        let (timestamp, captured, original) = match kind {
            SIMPLE_PACKET => {
                let original = self.word(0)?;
                let captured = match interface.snap_len {
                    0 => original as usize,
                    snap_len => (original as usize).min(snap_len),
                };
                (Duration::ZERO, captured, original)
            }
            _ => {
                let units = u64::from(self.word(4)?) << 32 | u64::from(self.word(8)?);
                let captured = self.word(12)? as usize;
                (interface.time(units), captured, self.word(16)?)
            }
        };
        let data = self.body.get(header..header + captured).ok_or_else(short)?;
        current.set(timestamp, original, data)
    }

    fn half(&self, at: usize) -> Result<u16, Trouble> {
        let bytes = self.body.get(at..).and_then(|b| b.first_chunk().copied());
        let bytes = bytes.ok_or_else(short)?;
        Ok(match self.order {
            Endianness::Big => u16::from_be_bytes(bytes),
            Endianness::Little => u16::from_le_bytes(bytes),
        })
    }

    fn word(&self, at: usize) -> Result<u32, Trouble> {
        let bytes = self.body.get(at..).and_then(|b| b.first_chunk().copied());
        Ok(u32_of(self.order, bytes.ok_or_else(short)?))
    }
}

impl Interface {
    /// Time of a timestamp in the interface's units, since 1970; one that cannot be told is the
    /// nearest that can.
    fn time(&self, units: u64) -> Duration {
        let exponent = u32::from(self.resolution & 0x7f);
        let per_second = match self.resolution & 0x80 {
            0 => 10u128.checked_pow(exponent),
            _ => 1u128.checked_shl(exponent),
        };
        let Some(per_second) = per_second else {
            return Duration::from_secs(self.offset.max(0).unsigned_abs());
        };
        let seconds = i128::from((u128::from(units) / per_second) as u64) + i128::from(self.offset);
        if seconds < 0 {
            return Duration::ZERO;
        }
        let rest = u128::from(units) % per_second;
        // Less than 2^64, so the product fits. Units finer than a nanosecond lose what a Duration cannot
        // hold.
        let nanos = rest * NANOS_PER_SECOND / per_second;
        Duration::new(u64::try_from(seconds).unwrap_or(u64::MAX), nanos as u32)
    }
}

fn u32_of(order: Endianness, bytes: [u8; 4]) -> u32 {
    match order {
        Endianness::Big => u32::from_be_bytes(bytes),
        Endianness::Little => u32::from_le_bytes(bytes),
    }
}

fn damage(cause: impl Into<String>) -> Trouble {
    Trouble::Damage(cause.into())
}

fn short() -> Trouble {
    damage("the block is too short for what it should hold")
}

fn cut() -> Trouble {
    io::Error::from(io::ErrorKind::UnexpectedEof).into()
}
