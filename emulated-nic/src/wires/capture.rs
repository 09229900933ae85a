//! Capture files, read packet by packet: pcap in both byte orders with micro- or nanoseconds, and
//! pcapng.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::pcap::PcapReader;
use pcap_file::{PcapError, TsResolution};

use super::pcapng::{ETHERNET, PcapNg, SECTION_HEADER};

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
    PcapNg(PcapNg),
}

/// The packet that was read last.
#[derive(Debug, Default)]
pub(super) struct Current {
    timestamp: Duration,
    original_len: usize,
    data: Vec<u8>,
}

/// Longest packet that is believed; the formats' own tools stop at a quarter of a MiB.
pub(super) const MAX_PACKET: usize = 1 << 20;
const PCAP_HEADER: u64 = 24;
const PCAP_RECORD: u64 = 16;

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
            .take(4)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        file.rewind().map_err(failed)?;
        let mut offset = 0;
        let format = match magic[..] {
            _ if magic.starts_with(&SECTION_HEADER.to_be_bytes()) => {
                Format::PcapNg(PcapNg::new(file))
            }
            [0xa1, 0xb2, 0xc3, 0xd4, ..]
            | [0xd4, 0xc3, 0xb2, 0xa1, ..]
            | [0xa1, 0xb2, 0x3c, 0x4d, ..]
            | [0x4d, 0x3c, 0xb2, 0xa1, ..] => {
                let reader = PcapReader::new(file).map_err(|e| Trouble::from(e).at(&path, 0, 0))?;
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
            Format::PcapNg(reader) => reader.next(&mut self.current, &mut self.offset),
        };
        match found {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(trouble) => return Err(trouble.at(&self.path, self.index, self.offset)),
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

/// Why there is no next packet.
pub(super) enum Trouble {
    LinkType(u32),
    /// The cause, in words.
    Damage(String),
}

impl Trouble {
    /// The error that names the place.
    fn at(self, path: &Path, packet: u64, offset: u64) -> CaptureError {
        let path = path.to_path_buf();
        match self {
            Trouble::LinkType(link_type) => CaptureError::LinkType {
                path,
                packet,
                link_type,
            },
            Trouble::Damage(cause) => CaptureError::Damaged {
                path,
                packet,
                offset,
                cause,
            },
        }
    }
}

impl From<PcapError> for Trouble {
    fn from(e: PcapError) -> Self {
        match e {
            PcapError::IoError(e) => e.into(),
            other => Trouble::Damage(other.to_string()),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(e: io::Error) -> Self {
        Trouble::Damage(match e.kind() {
            io::ErrorKind::UnexpectedEof => {
                "the file ends within this record, or the record's length is wrong".to_owned()
            }
            _ => format!("reading failed: {e}"),
        })
    }
}

impl Current {
    pub(super) fn set(
        &mut self,
        timestamp: Duration,
        original_len: u32,
        data: &[u8],
    ) -> Result<(), Trouble> {
        if data.len() > MAX_PACKET {
            return Err(Trouble::Damage("a packet of more than a MiB".to_owned()));
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
