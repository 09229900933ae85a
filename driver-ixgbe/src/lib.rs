//! Driver for Intel 82599, X520, X540 and X550.
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
