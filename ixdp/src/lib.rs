//! XDP in userspace on Intel NICs.
//!
//! A [`Session`] is the whole way of a packet: a device ([`DeviceArg`]), its driver, a pool of frames
//! and a worker for each queue, and the threads that poll. It starts, is looked at while it runs
//! ([`Snapshot`]), and stops with a [`Report`] that says what became of every packet and every frame.
//! A [`Replay`] is the same way in virtual time, one packet after the other, on the caller's thread.
//!
//! What judges packets is any [`datapath::Program`]: a function, or a [`LoadedProgram`] that clang
//! compiled and the verifier accepted.
//!
//! ```
//! use datapath::{Discard, Verdict};
//! use ixdp::xdp_vm::Object;
//! use ixdp::{LoadedProgram, Session, SessionConfig, Source};
//!
//! let object = Object::parse(include_bytes!("../programs/drop.bpf.o"))?;
//! let config = SessionConfig {
//!     queues: 2,
//!     source: Source { count: Some(10_000), ..Source::default() },
//!     ..SessionConfig::default()
//! };
//! let program = LoadedProgram::load(&object, None, config.queues)?;
//! let session = Session::start(&config, |queue| (program.on_queue(queue), Discard))?;
//! while !session.is_done() {
//!     std::thread::yield_now();
//! }
//! let (report, _) = session.stop()?;
//! assert_eq!(report.end.total.verdict(Verdict::Drop), 10_000);
//! assert!(report.is_clean(), "every packet and every frame is accounted for");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod device_arg;
mod program;
mod session;

pub use xdp_vm;

pub use device_arg::{DeviceArg, DeviceArgError, Impairments, Model};
pub use program::{LoadedProgram, ProgramError};
pub use session::{
    Outcome, Replay, Report, Session, SessionConfig, SessionError, Snapshot, Source, WireCounts,
};
