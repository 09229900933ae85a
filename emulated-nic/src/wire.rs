//! What a NIC's port is plugged into.
//!
//! A [`Wire`] has two halves: an [`Ingress`] brings frames to the NIC, an [`Egress`] takes those that
//! it sends. They exchange frames in [`FrameBatch`]es. Wires are made of the halves in
//! [`wires`](crate::wires), or of anyone's own.

use std::fmt;
use std::time::Duration;

use crate::batch::FrameBatch;
use crate::wires::{CaptureError, Silence, Sink, pipe};

/// What an [`Ingress`] says after it has put what it has into the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// There may be more at once: the batch was full, or the NIC should just ask again.
    More,
    /// Nothing more now.
    Later,
    /// Nothing more, ever.
    End,
}

/// Why a wire failed.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A capture file could not be read or written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A wire of someone else's failed.
    #[error("the wire failed: {0}")]
    Other(String),
}

/// The half of a wire that brings frames to the NIC.
pub trait Ingress: Send + fmt::Debug {
    /// Appends frames that have arrived by `now` (the NIC's clock) to `batch`, until it is full or
    /// there are no more. After an error the wire is taken to have ended.
    fn receive(&mut self, now: Duration, batch: &mut FrameBatch) -> Result<Supply, WireError>;

    /// True where frames wait for a NIC that has no room, instead of being lost: as from a capture
    /// that is to be delivered whole, or a sender that obeys flow control. False for a line that
    /// comes at its own pace.
    fn is_patient(&self) -> bool {
        false
    }
}

/// The half of a wire that takes the frames that the NIC sends.
pub trait Egress: Send + fmt::Debug {
    /// Takes frames from the front of `batch`; returns how many. The NIC keeps the rest and offers
    /// them again.
    fn transmit(&mut self, now: Duration, batch: &FrameBatch) -> Result<usize, WireError>;

    /// No frame follows: whatever is buffered goes out.
    fn finish(&mut self) -> Result<(), WireError> {
        Ok(())
    }
}

/// Both halves.
#[derive(Debug)]
pub struct Wire {
    pub(crate) ingress: Box<dyn Ingress>,
    pub(crate) egress: Box<dyn Egress>,
}

impl Wire {
    /// Plugs two halves together.
    pub fn new(ingress: impl Ingress + 'static, egress: impl Egress + 'static) -> Self {
        Wire {
            ingress: Box::new(ingress),
            egress: Box::new(egress),
        }
    }

    /// A partner that is up but silent, and takes everything.
    pub fn silent() -> Self {
        Wire::new(Silence, Sink::new())
    }

    /// A plug that gives the NIC back what it sends; at most `frames` frames are on their way.
    pub fn echo(frames: usize) -> Self {
        let (egress, ingress) = pipe(frames);
        Wire::new(ingress, egress)
    }

    /// A cable between two ports, with room for `frames` frames in each direction.
    pub fn cable(frames: usize) -> (Self, Self) {
        let (a_out, b_in) = pipe(frames);
        let (b_out, a_in) = pipe(frames);
        (Wire::new(a_in, a_out), Wire::new(b_in, b_out))
    }
}
