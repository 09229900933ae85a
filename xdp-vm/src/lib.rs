//! An eBPF virtual machine for XDP programs.

pub mod contract;
pub mod insn;
pub mod program;
mod verified;
pub mod verifier;

pub use insn::Insn;
pub use program::{Function, Line, MapKind, MapSpec, Object, Program, Variable};
pub use verified::{ContextField, Note, Verified};
