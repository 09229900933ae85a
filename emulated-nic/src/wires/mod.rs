//! Wires and halves of wires to plug a NIC into.

mod packets;
mod pipe;
mod sink;
mod source;

pub use packets::Shape;
pub use pipe::{PipeIn, PipeOut, pipe};
pub use sink::{Silence, Sink, SinkCounts};
pub use source::{Source, SourceConfig};
