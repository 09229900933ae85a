//! Driver for Intel's 10-gigabit controllers 82599 (X520), X540 and X550, in user space and in safe
//! Rust. It is written against [`driver_core::Device`] and knows nothing of where its device comes from.
//!
//! # Bring-up
//! [`IxgbePort::open`] takes the controller over from whatever state it is in: it masks interrupts,
//! stops queues that were left on, quiets the bus, resets, waits for the NVM and the DMA engine,
//! clears the tables that are undefined after power-on, reads the station address and starts the link.
//! [`Port::start`](driver_core::Port::start) lays the rings, fills them from pools, programs buffers,
//! filters, RSS and queues, and lets traffic in last. Every wait has a limit in the device's own time,
//! and an [`Error::Timeout`] names the step, the register, what it read last and what to try. A register
//! that reads all ones is [`Error::Gone`].
//!
//! Queues are values with one owner each. **Stopping is dropping**: a queue that goes away is disabled
//! before its memory is freed. Where the device does not obey, the port is reset; where that does not
//! help, the function is reset through its bus; where that does not help either, the memory is leaked
//! and [`Error::Wedged`] says so.
//!
//! # The way of a packet
//! [`IxgbeRxQueue`] walks the ring in straight runs. A descriptor is taken if it is done, ends its packet
//! there, has no receive error and a length that fits its buffer; the packet goes to the handler in its
//! slot, and the slot is armed again with whatever buffer is then in it. All else (errors, lengths that
//! cannot be, packets over several buffers) is a path of its own that costs the others nothing. The
//! tail is written once a poll. [`IxgbeTxQueue`] writes one descriptor a frame, asks the device to
//! report on one in 32 at least, and takes finished frames back as a run.
//!
//! ```
//! use std::time::Duration;
//! use driver_core::{DmaDomain, FramePool, Geometry, IovaRanges, Port, PortConfig, RxQueue, TxQueue};
//! use driver_ixgbe::IxgbePort;
//! use emulated_nic::{Nic, Variant, Wire};
//!
//! // A model of the NIC, with a plug that gives back what is sent. With hardware, the device comes
//! // from VFIO, and nothing below changes.
//! let domain = DmaDomain::new(IovaRanges::with_address_bits(39))?;
//! let mut nic = Nic::builder(Variant::I82599).wire(Wire::echo(64)).build(domain.clone());
//!
//! let mut port = IxgbePort::open(nic.device())?;
//! let mut pools = [FramePool::new(&domain, Geometry::KERNEL, 2048)?];
//! let mut pairs = port.start(&PortConfig::default(), &mut pools)?;
//! println!("link {}", port.wait_link(Duration::from_secs(10))?);
//!
//! let (rx, tx) = &mut pairs[0];
//! let mut frame = pools[0].take().expect("there are 2048, and the ring has 512");
//! frame.fill(&[0xff; 60])?;
//! tx.enqueue(frame).map_err(|reject| reject.reason)?;
//! tx.flush();
//! nic.run_until_idle(10);
//!
//! let mut spares = pools[0].spares(64);
//! let received = rx.poll(32, &mut spares, |packet| assert_eq!(packet.data(), [0xff; 60]));
//! assert_eq!(received, 1);
//! assert_eq!(tx.reclaim(&mut spares), 1);
//!
//! drop((pairs, spares));
//! port.stop()?;
//! assert_eq!(pools[0].available(), 2048);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Families
//! | | 82599, X520 | X540 | X550 |
//! |---|---|---|---|
//! | queue pairs | 64 | 64 | 64 |
//! | queues that RSS reaches | 16 | 16 | 64 |
//! | entries of the RSS table | 128 | 128 | 512 |
//! | receive memory | 512 KiB | 384 KiB | 384 KiB |
//! | link | AUTOC as the NVM has it | 10GBASE-T PHY | 10GBASE-T PHY |
//! | speeds | 10, 1 Gbit/s | 10, 1 Gbit/s, 100 Mbit/s | also 5 and 2.5 Gbit/s |
//!
//! The hardware has 128 queues of each direction; this driver uses the first 64. With more pairs than
//! RSS reaches, the others send, and receive nothing unless a filter steers packets to them. With more
//! than one pair, a packet that finds no descriptor in its ring is dropped (SRRCTL.DROP_EN), so that a slow
//! queue does not hold up the others; with one, the packet buffer absorbs bursts. Multicast addresses
//! are accepted by a hash of 12 bits: others that share it pass too. Broadcast is always accepted.
//!
//! Virtual functions are refused, and so is X550EM, whose PHYs are reached through firmware.
//!
//! # What no model has tried
//! The tests run all three families on the emulated NIC. It stands for the datasheet, not for silicon;
//! these are written from the datasheet and have met neither:
//! - modules and lasers (SDP3 on SFP+ ports), and the media that AUTOC and the NVM choose;
//! - management firmware that holds a semaphore for long, and the taking of one that is never given back;
//! - speeds below 10 Gbit/s;
//! - the errata of checksums ([`RxMetadata`](driver_core::RxMetadata) says unknown where 82599 cannot be trusted);
//! - the cage-present crosstalk filter, which needs a word of the NVM and is not applied: with an
//!   empty SFP+ cage, the link may be reported up.
//!
//! Interrupts are masked and stay so: queues are polled.
#![forbid(unsafe_code)]

mod decode;
mod error;
mod family;
mod filter;
mod hw;
mod link;
mod phy;
mod port;
mod receive;
mod registers;
mod reset;
mod rss;
mod running;
mod semaphore;
mod stats;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transmit;

pub use error::Error;
pub use family::supports;
pub use port::IxgbePort;
pub use receive::IxgbeRxQueue;
pub use registers::RegisterName;
pub use transmit::IxgbeTxQueue;
