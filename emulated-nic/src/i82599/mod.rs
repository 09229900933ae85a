//! The model of the 82599 and its successors.

pub(crate) mod core;
mod eeprom;
mod filter;
pub(crate) mod inject;
pub(crate) mod interrupts;
mod link;
mod mac;
pub(crate) mod pci;
mod queue;
mod receive;
mod register_file;
mod registers;
mod reset;
mod rss;
mod rx_ring;
mod segment;
mod sfp;
mod statistics;
mod transmit;
mod tx_descriptor;
mod tx_offload;
mod tx_ring;
mod write_back;
