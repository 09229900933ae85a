//! An eBPF virtual machine for XDP programs: takes the object that `clang -target bpf` made, proves its
//! programs safe, and runs them on packets in memory, with the semantics of the Linux kernel. It knows
//! nothing of network devices.
//!
//! 1. [`Object::parse`] reads the file: [programs](Program), each linked with what it calls, and the
//!    declarations of their [maps](MapSpec). A program that cannot be used leaves the others usable.
//!    [`Object::set_variable`] sets global variables before the program is verified.
//! 2. [`verifier::verify`] proves a program safe, or says why it could not. Only that makes a
//!    [`Verified`].
//! 3. [`Maps::create`] takes the memory of the maps, for a number of workers; [`Executable::new`] joins
//!    a verified program to them: on x86-64 as machine code, elsewhere for an interpreter.
//!    [`Executable::with_options`] leaves the choice of the [`Engine`].
//! 4. [`Executable::run`] runs it on one packet, an [`XdpBuff`], for a worker, its [`Cpu`]. It takes no
//!    lock, no memory and no system call but what the program asks for.
//!
//! ```
//! use xdp_vm::verifier::{Config, verify};
//! use xdp_vm::{Cpu, Executable, Maps, Object, XdpBuff};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../ixdp/programs/firewall.bpf.o");
//! let mut object = Object::parse(&std::fs::read(path)?)?;
//! object.set_variable_text("closed_port", "53")?;
//!
//! let program = object.program(Some("firewall"))?;
//! let (verified, _) = verify(program, &object.maps, &Config::default())?;
//! let maps = Maps::create(&object.maps, 1)?;
//! let firewall = Executable::new(&verified, &maps)?;
//!
//! let mut buffer = vec![0; 4096];
//! let mut packet = XdpBuff::new(&mut buffer, 256, 60)?;
//! let verdict = firewall.run(&mut Cpu::new(0), &mut packet);
//! assert_eq!(verdict, 2, "not IPv4: passed");
//! # Ok(())
//! # }
//! ```
//!
//! `unsafe` is in few modules: `memory` and `maps` (memory that programs share), `buff` (the packet),
//! `helpers` and `engine` (what the verifier vouches for), `jit` (memory that is executed, and the
//! entry).

mod buff;
pub mod contract;
mod cpu;
mod disasm;
mod engine;
mod errno;
mod fragment;
mod helpers;
pub mod insn;
#[cfg(all(target_arch = "x86_64", unix))]
mod jit;
pub mod kfunc;
mod loader;
mod maps;
mod memory;
pub mod metadata;
mod network;
pub mod program;
pub mod program_type;
mod redirect;
pub mod refusal;
mod syncookie;
mod tag;
mod test_run;
mod trace;
pub mod types;
mod verified;
pub mod verifier;

pub use buff::{BuffError, HEADROOM_RESERVE, MIN_PACKET, TAIL_RESERVE, XdpBuff};
pub use cpu::{Clock, Cpu, FRAME, MAX_FRAMES};
pub use engine::checked::{self, Checked, Fault, FaultKind, Ran};
pub use engine::{Engine, Executable, ExecutableError, JitOptions, MachineCode, Options};
pub use errno::Errno;
pub use fragment::{Fragment, MAX_FRAGMENTS};
pub use insn::Insn;
pub use loader::LoadError;
pub use maps::{Keys, MAX_BYTES, MAX_CPUS, Map, MapError, Maps, Update};
pub use metadata::Metadata;
pub use network::{AF_INET, AF_INET6, FibQuery, FibResult, Network};
pub use program::{Function, Line, MapKind, MapSpec, Object, Program, Rejected, Slot, Variable};
pub use redirect::Redirect;
pub use syncookie::Secrets;
pub use tag::Tag;
pub use test_run::{TestPacket, TestPacketError};
pub use trace::Trace;
pub use verified::{ContextField, Note, Verified};
