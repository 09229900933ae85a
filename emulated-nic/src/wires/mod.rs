//! Wires and halves of wires to plug a NIC into.

mod capture;
mod capture_wire;
mod impaired;
mod packets;
mod pcapng;
mod pipe;
mod sink;
mod source;

pub use capture::{CaptureError, CaptureFile, CaptureSummary, Packet};
pub use capture_wire::{CaptureCounts, CaptureFormat, CaptureReader, CaptureWriter};
pub use impaired::{Impaired, Impairment, ImpairmentCounts};
pub use packets::Shape;
pub use pipe::{PipeIn, PipeOut, pipe};
pub use sink::{Silence, Sink, SinkCounts};
pub use source::{Source, SourceConfig};
