//! Why a session does not start, or breaks.

use std::io;

use driver_core::{DmaError, PoolError};

/// Why a session could not be started, looked at or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No memory for the device.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// No frames.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The driver failed.
    #[error(transparent)]
    Port(#[from] driver_ixgbe::Error),
    /// The wire failed.
    #[error(transparent)]
    Wire(#[from] emulated_nic::WireError),
    /// A configuration without queues or threads, or for more queues than the device has.
    #[error(
        "{queues} queues on {threads} threads: there must be 1 to {most} queues, and no more threads than queues"
    )]
    Shape {
        /// Queues asked for.
        queues: u16,
        /// Threads asked for.
        threads: usize,
        /// Queues that the device has.
        most: u16,
    },
    /// A thread may not run on the CPU that was asked for.
    #[error("a worker cannot run on CPU {cpu} alone: {source}")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// A worker's thread ended by a panic, and its counts are lost.
    #[error("a worker's thread panicked: this is a fault of ixdp, please report it")]
    WorkerPanicked,
    /// A packet did not come out of the device.
    #[error("the device took a packet of {length} bytes and neither delivered nor dropped it")]
    Stuck {
        /// Bytes of the packet.
        length: usize,
    },
}
