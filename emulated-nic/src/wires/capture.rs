//! Capture files, read packet by packet: pcap in both byte orders with micro- or nanoseconds, and
//! pcapng.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{PcapNgReader, RawBlock};
use pcap_file::{Endianness, PcapError, TsResolution};

/// Why a capture file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CaptureError {
    /// The file could not be opened.
    #[error("cannot open {path}: {source}", path = path.display())]
    Open { path: PathBuf, source: io::Error },
    /// The file is something else.
    #[error("{path} is neither a pcap nor a pcapng file", path = path.display())]
    Foreign { path: PathBuf },
    /// Packets of another kind of link.
    #[error(
        "packet {packet} of {path} was captured on link type {link_type}: only Ethernet (1) can be \
         put on this wire",
        path = path.display()
    )]
    LinkType {
        path: PathBuf,
        packet: u64,
        link_type: u32,
    },
    /// The file is damaged, or ends too early.
    #[error("{path}, packet {packet}, at byte {offset}: {cause}", path = path.display())]
    Damaged {
        path: PathBuf,
        packet: u64,
        offset: u64,
        cause: String,
    },
    /// The file could not be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// A packet of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its number, from 0.
    pub index: u64,
    /// When it was captured, since 1970.
    pub timestamp: Duration,
    /// Its length on the wire; more than there is data where the capture kept only a part.
    pub original_len: usize,
    /// What was captured of it.
    pub data: &'a [u8],
}

/// What a whole file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureSummary {
    /// Packets.
    pub packets: u64,
    /// Bytes captured of them.
    pub bytes: u64,
    /// Packets of which the capture kept only a part.
    pub cut: u64,
    /// Bytes captured of the longest.
    pub longest: usize,
}

/// A capture file, being read.
pub struct CaptureFile {
    path: PathBuf,
    format: Format,
    /// Number of the next packet.
    index: u64,
    /// Offset of the next record.
    offset: u64,
    current: Current,
}

enum Format {
    Pcap(PcapReader<File>),
    /// With the interfaces of the current section.
    PcapNg(PcapNgReader<File>, Vec<Interface>),
}

#[derive(Debug, Default)]
struct Current {
    timestamp: Duration,
    original_len: usize,
    data: Vec<u8>,
}

/// What packets of a pcapng interface need to be understood.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u32,
    snap_len: usize,
    /// Timestamp units: a power of 10, or of 2 where the high bit is set.
    resolution: u8,
    /// Seconds to add.
    offset: u64,
}

const ETHERNET: u32 = 1;
/// Longest packet that is believed; the formats' own tools stop at a quarter of a MiB.
const MAX_PACKET: usize = 1 << 20;
const PCAP_HEADER: u64 = 24;
const PCAP_RECORD: u64 = 16;
const MICROSECONDS: u8 = 6;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl CaptureFile {
    /// Opens a capture file of either format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref().to_path_buf();
        let failed = |source| CaptureError::Open {
            path: path.clone(),
            source,
        };
        let mut file = File::open(&path).map_err(failed)?;
        let mut magic = Vec::new();
        file.by_ref()
            .take(12)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        file.rewind().map_err(failed)?;
        let damaged = |e| damage(&path, 0, 0, &e);
        let mut offset = 0;
        let format = match magic[..] {
            [0x0a, 0x0d, 0x0d, 0x0a, ..] => {
                let reader = PcapNgReader::new(file).map_err(damaged)?;
                offset = section_header_len(&magic);
                Format::PcapNg(reader, Vec::new())
            }
            [0xa1, 0xb2, 0xc3, 0xd4, ..]
            | [0xd4, 0xc3, 0xb2, 0xa1, ..]
            | [0xa1, 0xb2, 0x3c, 0x4d, ..]
            | [0x4d, 0x3c, 0xb2, 0xa1, ..] => {
                let reader = PcapReader::new(file).map_err(damaged)?;
                offset += PCAP_HEADER;
                Format::Pcap(reader)
            }
            _ => return Err(CaptureError::Foreign { path }),
        };
        Ok(CaptureFile {
            path,
            format,
            index: 0,
            offset,
            current: Current::default(),
        })
    }

    /// Reads a whole file to see whether that can be done.
    pub fn validate(path: impl AsRef<Path>) -> Result<CaptureSummary, CaptureError> {
        let mut file = CaptureFile::open(path)?;
        let mut summary = CaptureSummary::default();
        while let Some(packet) = file.next_packet()? {
            summary.packets += 1;
            summary.bytes += packet.data.len() as u64;
            summary.cut += u64::from(packet.data.len() < packet.original_len);
            summary.longest = summary.longest.max(packet.data.len());
        }
        Ok(summary)
    }

    /// The next packet; `None` at the end of the file.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        let found = match &mut self.format {
            Format::Pcap(reader) => next_pcap(reader, &mut self.current, &mut self.offset),
            Format::PcapNg(reader, interfaces) => {
                next_pcapng(reader, interfaces, &mut self.current, &mut self.offset)
            }
        };
        match found {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(Trouble::LinkType(link_type)) => {
                return Err(CaptureError::LinkType {
                    path: self.path.clone(),
                    packet: self.index,
                    link_type,
                });
            }
            Err(Trouble::Damage(e)) => {
                return Err(damage(&self.path, self.index, self.offset, &e));
            }
        }
        self.index += 1;
        Ok(Some(self.last(self.index - 1)))
    }

    /// The packet that [`next_packet`](Self::next_packet) gave last.
    pub(super) fn current(&self) -> Packet<'_> {
        self.last(self.index.saturating_sub(1))
    }

    fn last(&self, index: u64) -> Packet<'_> {
        Packet {
            index,
            timestamp: self.current.timestamp,
            original_len: self.current.original_len,
            data: &self.current.data,
        }
    }
}

impl fmt::Debug for CaptureFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("CaptureFile");
        debug.field("path", &self.path).field("index", &self.index);
        debug.finish_non_exhaustive()
    }
}

enum Trouble {
    LinkType(u32),
    Damage(PcapError),
}

impl From<PcapError> for Trouble {
    fn from(e: PcapError) -> Self {
        Trouble::Damage(e)
    }
}

impl Current {
    fn set(&mut self, timestamp: Duration, original_len: u32, data: &[u8]) -> Result<(), Trouble> {
        if data.len() > MAX_PACKET {
            return Err(PcapError::InvalidField("a packet of more than a MiB").into());
        }
        self.timestamp = timestamp;
        self.original_len = (original_len as usize).max(data.len());
        self.data.clear();
        self.data.extend_from_slice(data);
        Ok(())
    }
}

fn next_pcap(
    reader: &mut PcapReader<File>,
    current: &mut Current,
    offset: &mut u64,
) -> Result<bool, Trouble> {
    let header = reader.header();
    let Some(packet) = reader.next_raw_packet() else {
        return Ok(false);
    };
    let packet = packet?;
    // The upper bits say whether frames carry an FCS.
    let link_type = u32::from(header.datalink) & 0xffff;
    if link_type != ETHERNET {
        return Err(Trouble::LinkType(link_type));
    }
    let nanos = match header.ts_resolution {
        TsResolution::MicroSecond => u64::from(packet.ts_frac) * 1000,
        TsResolution::NanoSecond => u64::from(packet.ts_frac),
    };
    let timestamp = Duration::from_secs(packet.ts_sec.into()) + Duration::from_nanos(nanos);
    current.set(timestamp, packet.orig_len, &packet.data)?;
    *offset += PCAP_RECORD + u64::from(packet.incl_len);
    Ok(true)
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

fn next_pcapng(
    reader: &mut PcapNgReader<File>,
    interfaces: &mut Vec<Interface>,
    current: &mut Current,
    offset: &mut u64,
) -> Result<bool, Trouble> {
    loop {
        // A new section may change the byte order, but no block is both that and a packet.
        let order = reader.section().endianness;
        let (kind, len) = {
            let Some(block) = reader.next_raw_block() else {
                return Ok(false);
            };
            let block = block?;
            let len = u64::from(block.initial_len);
            if matches!(block.type_, PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
                read_packet(&block, order, interfaces, current)?;
                *offset += len;
                return Ok(true);
            }
            (block.type_, len)
        };
        match kind {
            SECTION_HEADER => interfaces.clear(),
            INTERFACE => interfaces.extend(reader.interfaces().last().map(Interface::new)),
            _ => {}
        }
        *offset += len;
    }
}

/// Takes a packet out of one of the three kinds of block that hold one.
fn read_packet(
    block: &RawBlock<'_>,
    order: Endianness,
    interfaces: &[Interface],
    current: &mut Current,
) -> Result<(), Trouble> {
    let short = || PcapError::InvalidField("the block is too short for its packet");
    let body = &block.body[..];
    let word = |at: usize| -> Result<u32, PcapError> {
        let bytes = body
            .get(at..at + 4)
            .and_then(|b| b.first_chunk())
            .ok_or_else(short)?;
        Ok(match order {
            Endianness::Big => u32::from_be_bytes(*bytes),
            Endianness::Little => u32::from_le_bytes(*bytes),
        })
    };
    let (id, header) = match block.type_ {
        SIMPLE_PACKET => (0, 4),
        ENHANCED_PACKET => (word(0)?, 20),
        // The older block has a count of drops in the upper or later half.
        _ => match order {
            Endianness::Big => (word(0)? >> 16, 20),
            Endianness::Little => (word(0)? & 0xffff, 20),
        },
    };
    let interface = interfaces
        .get(id as usize)
        .ok_or(PcapError::InvalidInterfaceId(id))?;
    if interface.link_type != ETHERNET {
        return Err(Trouble::LinkType(interface.link_type));
    }
    let (timestamp, captured, original) = match block.type_ {
        SIMPLE_PACKET => {
            let original = word(0)?;
            let captured = match interface.snap_len {
                0 => original as usize,
                snap_len => (original as usize).min(snap_len),
            };
            (Duration::ZERO, captured, original)
        }
        _ => {
            let units = u64::from(word(4)?) << 32 | u64::from(word(8)?);
            (interface.time(units), word(12)? as usize, word(16)?)
        }
    };
    let end = header + captured;
    let data = body.get(header..end).ok_or_else(short)?;
    current.set(timestamp, original, data)
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let mut interface = Interface {
            link_type: u32::from(block.linktype),
            snap_len: block.snaplen as usize,
            resolution: MICROSECONDS,
            offset: 0,
        };
        for option in &block.options {
            match option {
                InterfaceDescriptionOption::IfTsResol(units) => interface.resolution = *units,
                InterfaceDescriptionOption::IfTsOffset(seconds) => interface.offset = *seconds,
                _ => {}
            }
        }
        interface
    }

    /// Time of a timestamp in the interface's units; one too far off to be told is the last there is.
    fn time(&self, units: u64) -> Duration {
        let exponent = u32::from(self.resolution & 0x7f);
        let per_second = match self.resolution & 0x80 {
            0 => 10u128.checked_pow(exponent),
            _ => 1u128.checked_shl(exponent),
        };
        let Some(per_second) = per_second else {
            return Duration::from_secs(self.offset);
        };
        let seconds = u128::from(units) / per_second;
        // Less than 2^64, so the product fits. Units finer than a nanosecond lose what a Duration cannot
        // hold.
        let rest = u128::from(units) % per_second;
        let nanos = rest * NANOS_PER_SECOND / per_second;
        Duration::new((seconds as u64).saturating_add(self.offset), nanos as u32)
    }
}

/// Length of the block that a pcapng file starts with, from its first twelve bytes.
fn section_header_len(start: &[u8]) -> u64 {
    let len: [u8; 4] = start
        .get(4..8)
        .and_then(|b| b.first_chunk().copied())
        .unwrap_or_default();
    u64::from(match start.get(8) {
        Some(0x1a) => u32::from_be_bytes(len),
        _ => u32::from_le_bytes(len),
    })
}

fn damage(path: &Path, packet: u64, offset: u64, error: &PcapError) -> CaptureError {
    let cause = match error {
        PcapError::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            "the file ends within this record, or the record's length is wrong".to_owned()
        }
        PcapError::IoError(e) => format!("reading failed: {e}"),
        other => other.to_string(),
    };
    CaptureError::Damaged {
        path: path.to_path_buf(),
        packet,
        offset,
        cause,
    }
}
