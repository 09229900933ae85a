//! Register-level models of Intel NICs, and the wires between them.
#![warn(missing_docs)]

mod batch;
mod counts;
mod device;
mod fcs;
mod i82599;
mod memory;
mod nic;
mod strict;
mod variant;
mod wire;
pub mod wires;

pub use batch::{FrameBatch, MAX_FRAME, WireFrame};
pub use counts::WireCounts;
pub use i82599::inject::Injection;
pub use memory::{Access, Fault, SCRIBBLE};
pub use nic::{Builder, Monitor, Nic, Running};
pub use strict::{Rule, Violation};
pub use variant::{UnknownVariant, Variant};
pub use wire::{Egress, Ingress, Supply, Wire, WireError};

/// What becomes of frames shorter than 60 bytes without their checksum (FCS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undersize {
    /// They are runts and lost, as on hardware.
    #[default]
    Discard,
    /// They are received as they are, if they have a header: captures hold frames as their sender had
    /// them before padding.
    Deliver,
}
