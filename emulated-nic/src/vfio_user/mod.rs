//! The model as a device of another process, by the vfio-user protocol (QEMU, `docs/interop/vfio-user.rst`).
//!
//! A [`Server`] listens on a socket; QEMU's `vfio-user-pci`, or any other client, attaches to it and sees
//! a PCI function: configuration space, registers, MSI-X. Everything is trapped, since the 82599 has
//! registers with side effects on the pages of its tails. DMA goes through the mappings that the client
//! shares, and nowhere else.

mod client_memory;
mod function;
mod server;

pub use server::{ServeError, Server};
