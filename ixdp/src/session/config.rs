//! What a session is made of.

use datapath::BatchSize;
use driver_core::Geometry;

use crate::DeviceArg;

/// What a [`Session`](crate::Session) or a [`Replay`](crate::Replay) is made of. The default is one
/// queue of an emulated 82599, and 64-byte frames without end.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// The device.
    pub device: DeviceArg,
    /// Receive and transmit queue pairs; RSS spreads packets over them.
    pub queues: u16,
    /// Worker threads; queues are dealt to them in turn.
    pub threads: usize,
    /// CPUs of the worker threads, then of the model's; empty where the scheduler places them.
    pub pin: Vec<usize>,
    /// Most packets of one poll.
    pub batch: usize,
    /// Descriptors of each receive and each transmit ring.
    pub ring: u32,
    /// Frames of each queue's pool; `None` for [`default_frames`](Self::default_frames).
    pub frames: Option<usize>,
    /// Sizes of the frames.
    pub geometry: Geometry,
    /// Longest frame that is received, in bytes, without its checksum (FCS): as long as the device
    /// can where it is more than that.
    pub max_frame: u32,
    /// The traffic of a session; a replay brings its own.
    pub source: Source,
}

/// What the built-in source sends: UDP over IPv4, in 64 flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Bytes of each frame, its checksum (FCS) included: 64 or more.
    pub frame_size: usize,
    /// Frames in all; without end where there is none.
    pub count: Option<u64>,
    /// Frames a second: a line that goes on at its pace, and whose frames are missed where no
    /// descriptor is free. Without, the source waits for descriptors, as under flow control.
    pub rate: Option<u64>,
}

impl Default for Source {
    fn default() -> Self {
        Source {
            frame_size: 64,
            count: None,
            rate: None,
        }
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        SessionConfig {
            device: DeviceArg::default(),
            queues: 1,
            threads: 1,
            pin: Vec::new(),
            batch: 64,
            ring: 512,
            frames: None,
            geometry: Geometry::KERNEL,
            max_frame: 1514,
            source: Source::default(),
        }
    }
}

impl SessionConfig {
    /// Frames that a pool needs at least: a full receive ring and the spares of one batch.
    pub fn least_frames(&self) -> usize {
        self.ring as usize + self.batch_size().frames()
    }

    /// Frames of a pool where nothing else is asked for: both rings full, and spares for four batches.
    pub fn default_frames(&self) -> usize {
        2 * self.ring as usize + 4 * self.batch_size().frames()
    }

    pub(super) fn pool_frames(&self) -> usize {
        self.frames.unwrap_or_else(|| self.default_frames())
    }

    pub(super) fn batch_size(&self) -> BatchSize {
        BatchSize::new(self.batch, self.max_frame as usize, self.geometry.buffer)
    }
}
