//! Capture files as halves of a wire.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};

use super::capture::{CaptureError, CaptureFile};
use crate::batch::{FrameBatch, MAX_FRAME};
use crate::wire::{Egress, Ingress, Supply, WireError};

/// Longest packet that files say they can hold.
const SNAP_LEN: u32 = 0x4_0000;
/// pcapng's if_tsresol for nanoseconds.
const NANOSECONDS: u8 = 9;

/// Brings the packets of a capture file to the NIC: as captured, without padding, in order, all of
/// them. Of a packet that the capture kept only a part of, that part; of one longer than any frame,
/// as much as is longer than the NIC takes.
#[derive(Debug)]
pub struct CaptureReader {
    file: CaptureFile,
    counts: Arc<Totals>,
    /// The file's current packet has not been sent.
    held: bool,
    ended: bool,
    pace: Option<Pace>,
}

/// Sending by the file's timestamps.
#[derive(Debug, Default)]
struct Pace {
    /// The NIC's time at which the first packet was sent, and that packet's timestamp.
    start: Option<(Duration, Duration)>,
}

#[derive(Debug, Default)]
struct Totals {
    packets: AtomicU64,
    cut: AtomicU64,
}

/// What a [`CaptureReader`] has sent; readable from any thread.
#[derive(Clone, Debug)]
pub struct CaptureCounts(Arc<Totals>);

impl CaptureCounts {
    /// Packets sent.
    pub fn packets(&self) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    /// Packets sent of which the capture kept only a part.
    pub fn cut(&self) -> u64 {
        self.0.cut.load(Ordering::Relaxed)
    }
}

impl CaptureReader {
    /// Opens a file. Its packets are sent as fast as the NIC takes them, none is lost.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        Ok(CaptureReader {
            file: CaptureFile::open(path)?,
            counts: Arc::default(),
            held: false,
            ended: false,
            pace: None,
        })
    }

    /// Sends packets at the intervals at which they were captured, whether the NIC takes them or not.
    pub fn paced(mut self) -> Self {
        self.pace = Some(Pace::default());
        self
    }

    /// A view of its counts.
    pub fn counts(&self) -> CaptureCounts {
        CaptureCounts(self.counts.clone())
    }

    fn is_due(&mut self, now: Duration) -> bool {
        let timestamp = self.file.current().timestamp;
        let Some(pace) = &mut self.pace else {
            return true;
        };
        let (start, first) = *pace.start.get_or_insert((now, timestamp));
        // A damaged file may hold any time: no sum that could overflow.
        timestamp.saturating_sub(first) <= now.saturating_sub(start)
    }
}

impl Ingress for CaptureReader {
    fn receive(&mut self, now: Duration, batch: &mut FrameBatch) -> Result<Supply, WireError> {
        while !self.ended {
            if !self.held {
                self.held = self.file.next_packet()?.is_some();
                self.ended = !self.held;
                continue;
            }
            if !self.is_due(now) {
                return Ok(Supply::Later);
            }
            let packet = self.file.current();
            let sent = packet.data.len().min(MAX_FRAME);
            if !batch.push(&packet.data[..sent]) {
                return Ok(Supply::More);
            }
            let cut = packet.data.len() < packet.original_len;
            self.counts.packets.fetch_add(1, Ordering::Relaxed);
            self.counts.cut.fetch_add(u64::from(cut), Ordering::Relaxed);
            self.held = false;
        }
        Ok(Supply::End)
    }

    fn is_patient(&self) -> bool {
        self.pace.is_none()
    }
}

/// A format of capture files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureFormat {
    /// pcap, with nanoseconds.
    Pcap,
    /// pcapng, with one interface and nanoseconds.
    PcapNg,
}

impl CaptureFormat {
    /// The format for a file name: pcapng where it ends so, else pcap.
    pub fn of(path: &Path) -> Self {
        match path.extension() {
            Some(e) if e.eq_ignore_ascii_case("pcapng") => CaptureFormat::PcapNg,
            _ => CaptureFormat::Pcap,
        }
    }
}

/// Writes a capture file: packet by packet, or what a NIC sends.
pub struct CaptureWriter {
    path: PathBuf,
    /// `None` once it is finished.
    writer: Option<Writer>,
    /// What is added to the NIC's time.
    epoch: Duration,
}

impl fmt::Debug for CaptureWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureWriter")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

enum Writer {
    Pcap(PcapWriter<BufWriter<File>>),
    PcapNg(PcapNgWriter<BufWriter<File>>),
}

impl CaptureWriter {
    /// Creates a file, or empties it.
    pub fn create(path: impl AsRef<Path>, format: CaptureFormat) -> Result<Self, CaptureError> {
        let path = path.as_ref().to_path_buf();
        let file = File::create(&path).map_err(|source| CaptureError::Open {
            path: path.clone(),
            source,
        })?;
        let writer = Writer::new(BufWriter::new(file), format);
        Ok(CaptureWriter {
            writer: Some(writer.map_err(|e| failed(&path, e))?),
            path,
            epoch: Duration::ZERO,
        })
    }

    /// Makes `epoch` (since 1970) the moment at which the NIC's clock read 0; else that is 1970.
    pub fn epoch(mut self, epoch: Duration) -> Self {
        self.epoch = epoch;
        self
    }

    /// Writes a packet captured at `timestamp` (since 1970), of which there was more on the wire if
    /// `original_len` says so.
    pub fn write(
        &mut self,
        timestamp: Duration,
        original_len: usize,
        data: &[u8],
    ) -> Result<(), CaptureError> {
        let original_len = original_len.max(data.len()) as u32;
        let result = match &mut self.writer {
            Some(writer) => match writer.latest() {
                latest if timestamp > latest => Err(PcapError::IoError(io::Error::other(format!(
                    "the packet's time, {} s after 1970, is later than the format can tell, {} s",
                    timestamp.as_secs(),
                    latest.as_secs()
                )))),
                _ => writer.write(timestamp, original_len, data),
            },
            None => Err(PcapError::IoError(io::Error::other("the file is finished"))),
        };
        result.map_err(|e| failed(&self.path, e))
    }

    /// Writes out what is buffered; no packet can follow. Without it that happens when the writer is
    /// dropped, and an error is lost.
    pub fn finish(&mut self) -> Result<(), CaptureError> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let mut out = match writer {
            Writer::Pcap(writer) => writer.into_writer(),
            Writer::PcapNg(writer) => writer.into_inner(),
        };
        out.flush().map_err(|source| CaptureError::Write {
            path: self.path.clone(),
            source,
        })
    }
}

impl Writer {
    fn new(out: BufWriter<File>, format: CaptureFormat) -> Result<Self, PcapError> {
        Ok(match format {
            CaptureFormat::Pcap => {
                let header = PcapHeader {
                    snaplen: SNAP_LEN,
                    ts_resolution: TsResolution::NanoSecond,
                    endianness: Endianness::Little,
                    ..PcapHeader::default()
                };
                Writer::Pcap(PcapWriter::with_header(out, header)?)
            }
            CaptureFormat::PcapNg => {
                let mut writer = PcapNgWriter::with_endianness(out, Endianness::Little)?;
                writer.write_pcapng_block(InterfaceDescriptionBlock {
                    linktype: DataLink::ETHERNET,
                    snaplen: SNAP_LEN,
                    options: vec![InterfaceDescriptionOption::IfTsResol(NANOSECONDS)],
                })?;
                Writer::PcapNg(writer)
            }
        })
    }

    /// The latest time that the format can tell: seconds are of 32 bits, or nanoseconds of 64.
    fn latest(&self) -> Duration {
        match self {
            Writer::Pcap(_) => Duration::new(u32::MAX.into(), 999_999_999),
            Writer::PcapNg(_) => Duration::from_nanos(u64::MAX),
        }
    }

    fn write(
        &mut self,
        timestamp: Duration,
        original_len: u32,
        data: &[u8],
    ) -> Result<(), PcapError> {
        match self {
            Writer::Pcap(writer) => {
                writer.write_packet(&PcapPacket::new(timestamp, original_len, data))?;
            }
            Writer::PcapNg(writer) => {
                writer.write_pcapng_block(EnhancedPacketBlock {
                    interface_id: 0,
                    timestamp,
                    original_len,
                    data: data.into(),
                    options: Vec::new(),
                })?;
            }
        }
        Ok(())
    }
}

impl Egress for CaptureWriter {
    fn transmit(&mut self, now: Duration, batch: &FrameBatch) -> Result<usize, WireError> {
        for frame in batch.iter() {
            self.write(self.epoch + now, frame.data.len(), frame.data)?;
        }
        Ok(batch.len())
    }

    fn finish(&mut self) -> Result<(), WireError> {
        Ok(CaptureWriter::finish(self)?)
    }
}

fn failed(path: &Path, error: PcapError) -> CaptureError {
    let source = match error {
        PcapError::IoError(e) => e,
        other => io::Error::other(other.to_string()),
    };
    CaptureError::Write {
        path: path.to_path_buf(),
        source,
    }
}
