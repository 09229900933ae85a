//! An eBPF virtual machine for XDP programs.

pub mod contract;
pub mod insn;
mod loader;
pub mod program;
mod verified;

pub use insn::Insn;
pub use loader::LoadError;
pub use program::{Function, Line, MapKind, MapSpec, Object, Program, Rejected, Variable};
pub use verified::{ContextField, Note, Verified};
