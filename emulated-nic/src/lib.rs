//! Register-level models of Intel NICs, and the wires between them.
//!
//! A [`Nic`] is an 82599 (X520), X540 or X550 that exists in memory. It has the registers of the real
//! one, with their reset values and side effects, does DMA into memory that a driver maps for it, and
//! takes its time over a reset or a link. A driver gets it as a [`driver_core::Device`], the same trait
//! that stands for hardware, and can tell the difference by speed only. The model shares no
//! definition with any driver: offsets, bits and layouts are written a second time, from the datasheet,
//! so that a mistake in one of them shows.
//!
//! # Two ways to run
//!
//! - **Stepped**: nothing happens but what the holder asks for, and time is virtual. A driver that
//!   sleeps on the device's clock advances it, so that bringing a port up takes microseconds; a register
//!   access costs half a microsecond; [`Nic::step`] moves packets and no time. The same steps give
//!   the same result, bit by bit.
//! - **On a thread**: [`Nic::spawn`] lets it run by the machine's clock. Registers are behind a lock,
//!   for which the thread stands back; tail registers and rings are shared memory that it polls, so a
//!   driver's packet path is what it is on hardware. [`Running::stop`] gives the stepped NIC back.
//!
//! # What it checks
//!
//! - Every DMA access, a receive buffer to the full size that the driver promised, lies in mapped memory;
//!   else it is a recorded [`Fault`] and does not happen.
//! - The **strict log** ([`Monitor::strict_log`]) has every [`Rule`] of the datasheet that the driver
//!   broke, with register, value and time.
//! - [`Monitor::wire_counts`] says what became of every frame; the counts add up exactly.
//!
//! A test can also make it misbehave: see [`Injection`].
//!
//! # Wires
//!
//! A port is plugged into a [`Wire`]: a source of traffic, capture files, a cable to another port, a plug
//! that echoes, with losses and delays if wanted ([`wires`]).
//!
//! # Other processes
//!
//! A [`vfio_user::Server`] offers a NIC on a socket. QEMU attaches it as a PCI function, and Linux's own
//! `ixgbe` drives it (`hw-tests/lab`): what that driver does and a rule forbids is a rule misread.
//!
//! # Not modelled
//!
//! Header split, RSC, perfect filters of the flow director, 5-tuple filters, DCB, virtual functions, time
//! stamps, security blocks and flow control. A driver that asks for one of the offloads gets a note in
//! the strict log ([`Rule::NotModelled`]). Signature filters of the flow director are taken and never
//! match.
//!
//! # Example
//!
//! A receive queue brought up by hand, in the order of the 82599 datasheet's section 4.6, and one frame
//! received:
//!
//! ```
//! use std::time::Duration;
//!
//! use driver_core::{DescriptorRing, DmaDomain, FramePool, Geometry, IovaRanges, wait_until};
//! use emulated_nic::wires::{Sink, Source, SourceConfig};
//! use emulated_nic::{Nic, Variant, Wire};
//!
//! let source = Source::new(SourceConfig { limit: Some(1), ..SourceConfig::default() });
//! let domain = DmaDomain::new(IovaRanges::with_address_bits(39))?;
//! let mut nic = Nic::builder(Variant::I82599)
//!     .wire(Wire::new(source, Sink::new()))
//!     .build(domain.clone());
//! let device = nic.device();
//! let wait = |offset, bit: u32| {
//!     let (every, limit) = (Duration::from_millis(1), Duration::from_secs(2));
//!     wait_until(device.clock(), every, limit, || device.read32(offset) & bit != 0)
//! };
//!
//! // Reset (CTRL), then wait for the NVM (EEC) and the DMA engine (RDRXCTL).
//! device.write32(0x00000, 1 << 26);
//! device.clock().sleep(Duration::from_millis(2));
//! assert!(wait(0x10010, 1 << 9) && wait(0x02f00, 1 << 3));
//!
//! // Strip checksums (HLREG0 does by default), settle RDRXCTL, accept broadcast and any address.
//! let rdrxctl = device.read32(0x02f00) & !(0x1f << 17);
//! device.write32(0x02f00, rdrxctl | 1 << 1 | 1 << 25 | 1 << 26);
//! device.write32(0x05080, 7 << 8);
//!
//! // A ring of 64 descriptors, a frame for each, in memory that the device can reach.
//! let region = domain.allocate(64 * 16)?;
//! device.map(&region)?;
//! let ring = DescriptorRing::new(&region, 0, 64).expect("it fits");
//! let mut pool = FramePool::new(&domain, Geometry::SMALL, 64)?;
//! device.map(pool.region())?;
//! let mut frames: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
//! for (descriptor, frame) in ring.descriptors().iter().zip(&frames) {
//!     descriptor.store([frame.receive_iova(domain.delta()), 0]);
//! }
//!
//! // RDBAL, RDBAH, RDLEN; SRRCTL: 2 KiB buffers, advanced descriptors; DCA_RXCTRL; RXDCTL.
//! device.write32(0x01000, ring.iova() as u32);
//! device.write32(0x01004, (ring.iova() >> 32) as u32);
//! device.write32(0x01008, ring.len_bytes());
//! device.write32(0x01014, 1 << 25 | 2);
//! device.write32(0x0100c, device.read32(0x0100c) & !(1 << 12));
//! device.write32(0x01028, 1 << 25);
//! assert!(wait(0x01028, 1 << 25));
//! device.doorbell(0x01018)?.ring(63);
//!
//! // Let frames in (RXCTRL), wait for the link (LINKS), and see what has come.
//! device.write32(0x03000, 1);
//! assert!(wait(0x042a4, 1 << 30));
//! nic.step();
//! let write_back = ring.descriptors()[0].load_acquire(1);
//! assert_eq!(write_back & 3, 3, "done, and the end of a packet");
//! assert!(frames[0].set_received((write_back >> 32 & 0xffff) as usize));
//! assert_eq!(frames[0].data().len(), 60);
//! assert!(nic.strict_log().is_empty() && nic.faults().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod config_space;
mod counts;
mod device;
mod fcs;
mod i82599;
mod memory;
mod nic;
mod parse;
mod strict;
mod variant;
pub mod vfio_user;
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
