//! What can go wrong, each with its cause and what to try.

use std::time::Duration;

use driver_core::{DeviceError, DmaError, MacAddr};

use crate::registers::RegisterName;

/// Why the port would not do what was asked.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(
        "{device} is {vendor:04x}:{id:04x}, which is no 82599, X520, X540 or X550: \
         give it to the driver that knows it"
    )]
    UnknownDevice {
        device: String,
        vendor: u16,
        id: u16,
    },
    #[error(
        "{device} (8086:{id:04x}) is a virtual function ({name}): open the physical function it belongs to"
    )]
    VirtualFunction {
        device: String,
        id: u16,
        name: &'static str,
    },
    #[error(
        "{device} (8086:{id:04x}) is an {name}: its PHY is reached through the firmware, which this \
         driver does not speak to; use an 82599, X520, X540 or X550"
    )]
    Unsupported {
        device: String,
        id: u16,
        name: &'static str,
    },
    #[error("{device} has a register BAR of {size:#x} bytes; at least {need:#x} are needed")]
    Bar {
        device: String,
        size: u32,
        need: u32,
    },

    #[error("{device} is gone: {register} reads all ones; was it unplugged or reset?")]
    Gone {
        device: String,
        register: RegisterName,
    },
    #[error("{device}: {step}: {register} still reads {value:#010x} after {limit:?}; {remedy}")]
    Timeout {
        device: String,
        /// The step of bring-up or shutdown.
        step: &'static str,
        register: RegisterName,
        /// What the register read last.
        value: u32,
        limit: Duration,
        remedy: &'static str,
    },
    #[error("{device} has no NVM (EEC reads {eec:#010x}): the card is damaged or not programmed")]
    NoNvm { device: String, eec: u32 },
    #[error(
        "{device}: the firmware reports error {code:#04x} (FWSM {fwsm:#010x}): update the NVM with Intel's tool"
    )]
    Firmware {
        device: String,
        code: u32,
        fwsm: u32,
    },
    #[error(
        "{device}: the NVM holds no station address (RAL(0) {ral:#010x}, RAH(0) {rah:#010x}): \
         program one with Intel's tool"
    )]
    NoStationAddress { device: String, ral: u32, rah: u32 },
    #[error(
        "{device}: no PHY answers on MDIO addresses 0 to 31; reset the function through its bus"
    )]
    NoPhy { device: String },

    #[error("{asked} queue pairs: {name} has 1 to {max}")]
    QueuePairs {
        asked: u16,
        max: u16,
        name: &'static str,
    },
    #[error(
        "a {which} ring of {asked} descriptors: there may be {min} to {max}, a multiple of {multiple}"
    )]
    RingSize {
        which: &'static str,
        asked: u32,
        min: u32,
        max: u32,
        multiple: u32,
    },
    #[error("a longest frame of {asked} bytes: it may be {min} to {max}, without the checksum")]
    MaxFrame { asked: u32, min: u32, max: u32 },
    #[error("RSS table entry {entry} names queue {queue}: RSS reaches queues 0 to {last} here")]
    RssQueue { entry: usize, queue: u16, last: u16 },
    #[error("an RSS table of {asked} entries: {name} has {max}")]
    RssTable {
        asked: usize,
        max: usize,
        name: &'static str,
    },
    #[error("no frame pool was given: receive rings are filled from at least one")]
    NoPool,
    #[error(
        "pool {pool} has {available} frames at home, and its receive rings take {needed}: \
         use more frames or smaller rings"
    )]
    PoolTooSmall {
        pool: usize,
        needed: usize,
        available: usize,
    },
    #[error("pool {pool} has receive buffers of {buffer} bytes: the device needs at least {min}")]
    Buffer {
        pool: usize,
        buffer: usize,
        min: usize,
    },
    #[error(
        "pool {pool} lies in another DMA domain than {device}: make it from the device's domain"
    )]
    ForeignPool { pool: usize, device: String },

    #[error(
        "the descriptor ring at offset {offset:#x} does not fit its DMA region of {len:#x} bytes"
    )]
    RingMemory { offset: usize, len: usize },

    #[error("{device} is running already: drop its queues and stop it first")]
    Running { device: String },
    #[error("{device} still has {alive} queues in use: drop them before stopping the port")]
    QueuesAlive { device: String, alive: usize },
    #[error(
        "{device} did not stop its DMA, even by a reset: the memory it may write to is leaked; \
         open the device again after a power cycle or a reset of its slot"
    )]
    Wedged { device: String },
    #[error("all {max} unicast address filters are in use: remove one, or go promiscuous")]
    AddressesFull { max: usize },
    #[error("{mac} is the port's own address and stays")]
    StationAddress { mac: MacAddr },
    #[error("{mac} is no address to accept frames for: it is all zeros")]
    BadAddress { mac: MacAddr },

    #[error(transparent)]
    Dma(#[from] DmaError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}
