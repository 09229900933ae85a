//! The seam between a NIC driver and its device.
//!
//! A driver is written against three things of this crate and nothing else:
//!
//! - [`Device`]: registers, doorbells, DMA mappings, interrupts and a clock. Hardware bound to VFIO
//!   implements it, and so does an emulated NIC; tests wrap either.
//! - DMA memory: a [`DmaDomain`] hands out regions that process and device see, [`FramePool`] cuts
//!   one into [`Frame`]s, [`DescriptorRing`] lays descriptors into one.
//! - [`Port`], [`RxQueue`], [`TxQueue`]: what the driver gives back. Above them, which driver it is
//!   no longer matters.
//!
//! # What no type can check
//! A device reads and writes the addresses that it is given, while the program runs. Frames and rings
//! have one owner each, and addresses in no mapped region are the IOMMU's (or the model's) to refuse;
//! but a driver that gives a device the address of a frame which it still lends out has a data race,
//! with no `unsafe` in it. So whoever writes to registers or descriptors owns what they point to,
//! from the tail that shows it until the write-back. Drivers are the only ones who need to.
//!
//! ```
//! use driver_core::{DmaDomain, FramePool, Geometry, IovaRanges};
//!
//! let domain = DmaDomain::new(IovaRanges::with_address_bits(39))?;
//! let mut pool = FramePool::new(&domain, Geometry::KERNEL, 64)?;
//! let mut frame = pool.take().expect("64 frames are there");
//! frame.fill(b"a packet")?;
//! assert_eq!(frame.data(), b"a packet");
//! std::thread::spawn(move || drop(frame)).join().unwrap();
//! assert_eq!(pool.available(), 64, "a dropped frame is home again");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod counters;
mod device;
mod dma;
mod frame;
mod iova;
mod packet;
mod pool;
mod port;
mod ring;
mod rx_slots;
mod thread;
mod tx_ring;

pub use counters::{Counter, RxCounters, TxCounters};
pub use device::{
    ALL_ONES, Clock, Device, DeviceError, Doorbell, Identity, SystemClock, read_present, wait_until,
};
pub use dma::{DmaDomain, DmaError, DmaRegion, HUGE_PAGE};
pub use frame::{Frame, Geometry, HEADROOM, RangeError, TAIL_RESERVE};
pub use iova::IovaRanges;
pub use packet::{Checksum, L3, L4, RawMetadata, RssHash, RssKind, RxMetadata, RxPacket};
pub use pool::{FramePool, MAX_FRAMES, PoolError, PoolTraffic, Spares};
pub use port::{
    Limits, Link, MacAddr, ParseMacError, Port, PortConfig, PortStats, QueuePairs, RssConfig,
    RxQueue, TxQueue, TxReason, TxReject,
};
pub use ring::{Descriptor, DescriptorRing};
pub use rx_slots::{RxAround, RxRun, RxSlot, RxSlots};
pub use thread::{allowed_cpus, pin_thread};
pub use tx_ring::{TxRing, TxSlot};
