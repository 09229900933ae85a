//! An eBPF virtual machine for XDP programs.

mod buff;
pub mod contract;
mod cpu;
mod disasm;
mod engine;
mod errno;
mod helpers;
pub mod insn;
#[cfg(all(target_arch = "x86_64", unix))]
mod jit;
mod loader;
mod maps;
mod memory;
pub mod program;
mod tag;
mod trace;
mod verified;
pub mod verifier;

pub use buff::{BuffError, HEADROOM_RESERVE, MIN_PACKET, TAIL_RESERVE, XdpBuff};
pub use cpu::{Clock, Cpu, FRAME, MAX_FRAMES};
pub use engine::{Engine, Executable, ExecutableError, JitOptions, MachineCode, Options};
pub use errno::Errno;
pub use insn::Insn;
pub use loader::LoadError;
pub use maps::{Keys, MAX_BYTES, MAX_CPUS, Map, MapError, Maps, Update};
pub use program::{Function, Line, MapKind, MapSpec, Object, Program, Rejected, Variable};
pub use tag::Tag;
pub use trace::Trace;
pub use verified::{ContextField, Note, Verified};
