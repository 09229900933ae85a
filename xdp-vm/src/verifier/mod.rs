//! The verifier: proves that a program is safe to run without any check, or says why it may not be.
//!
//! It follows every path from the entry, with what is known of each register and of each byte of the
//! stack: numbers by their bits and bounds ([`scalar`], [`tnum`]), pointers by their region and
//! offset ([`state`]). A load or store passes only where all that is known puts it within its region:
//! the packet as far as a comparison with `data_end` proved it, a map value, the stack, a field of the
//! context. Loops are followed round by round, and must end within the budget.
//!
//! # What is proved
//! No access outside of the packet, a map value, or the program's own stack; no read of what was
//! never written; no address given away (to maps, to the packet, in r0, or by a comparison that tells
//! more than an order within the packet); no record that was reserved and is neither submitted nor
//! discarded, or both; no spin lock that is not released; at most
//! [`state::MAX_FRAMES`] functions deep and
//! [`state::MAX_STACK`] bytes of stack; an end on every path.
//!
//! # Why a stored state may stand for another
//! A path is cut where a stored state, whose paths were all followed to their ends, covers its own.
//! What was not looked at from there on does not count: dead registers, unread slots, and numbers on
//! which no decision hung. A number's origin, the places of the last stored state that it came from,
//! is carried with it, so a decision asks those places to be precise without going back over the path.
//!
//! # Example
//! ```
//! use xdp_vm::verifier::{Cause, Config, verify};
//! use xdp_vm::{Insn, Program};
//!
//! // r0 = XDP_PASS; exit. And without the first: r0 was never written.
//! let pass = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
//! let mut program = Program { insns: pass.map(Insn::from_bytes).to_vec(), ..Program::default() };
//! let (verified, statistics) = verify(&program, &[], &Config::default())?;
//! assert_eq!((verified.notes().len(), statistics.processed), (2, 2));
//!
//! program.insns.remove(0);
//! let refusal = verify(&program, &[], &Config::default()).unwrap_err();
//! assert_eq!(refusal.cause, Cause::UninitialisedRegister { reg: 0 });
//! # Ok::<(), xdp_vm::verifier::VerifyError>(())
//! ```

mod alu;
mod annotate;
mod branch;
mod call;
mod cause;
mod cfg;
mod error;
mod field;
mod live;
pub mod lock;
mod memory;
mod pointer;
pub mod references;
pub mod scalar;
pub mod stack;
pub mod state;
mod step;
mod strings;
mod subsume;
pub mod tnum;
mod trail;
mod walk;

pub use annotate::{Annotated, Held, StackSlot, annotate};
pub use cause::Cause;
pub(crate) use cfg::well_formed;
pub use error::{Explanation, Known, PathStep, Refusal, VerifyError};

use crate::{MapSpec, Note, Program, Verified};
use state::State;
use step::{Env, Seen};

/// What kind of program it is: which fields of the context it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramKind {
    /// At a device's receive queue.
    #[default]
    Xdp,
    /// On an entry of a devmap: a packet about to leave.
    XdpDevmap,
    /// On an entry of a cpumap.
    XdpCpumap,
}

impl ProgramKind {
    /// True where `egress_ifindex` may be read.
    pub fn has_egress(self) -> bool {
        self == ProgramKind::XdpDevmap
    }
}

/// Limits and the kind of program.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Most instructions to follow, all paths together.
    pub budget: u64,
    /// Kind of program.
    pub kind: ProgramKind,
}

impl Default for Config {
    /// The kernel's budget (`BPF_COMPLEXITY_LIMIT_INSNS`), a program at a receive queue.
    fn default() -> Self {
        Config {
            budget: 1_000_000,
            kind: ProgramKind::Xdp,
        }
    }
}

/// What a verification took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Instructions followed, all paths together.
    pub processed: u64,
    /// States stored.
    pub stored: usize,
    /// Most states stored at a time.
    pub peak_stored: usize,
    /// Paths cut because a stored state covers them.
    pub pruned: usize,
    /// Most branches that waited at a time.
    pub peak_pending: usize,
    /// Most bytes of states stored and of branches that waited at a time.
    pub peak_bytes: usize,
    /// Stack of the deepest chain of calls, in bytes, each function rounded up to 16.
    pub stack_bytes: usize,
}

/// Called before each instruction followed, with its slot and what is known there.
pub type Observer<'o> = dyn FnMut(usize, &State) + 'o;

/// Proves `program` safe with `maps`, which its map references are indices into.
///
/// # Errors
/// The first rule found broken, with the instruction, what was known and the way there. It is the
/// program that is wrong then, or the proof that was not found: the error names a remedy for both.
pub fn verify(
    program: &Program,
    maps: &[MapSpec],
    config: &Config,
) -> Result<(Verified, Statistics), VerifyError> {
    run(program, maps, config, None)
}

/// As [`verify`], and shows each step to `observer`.
///
/// # Errors
/// As [`verify`].
pub fn verify_observed(
    program: &Program,
    maps: &[MapSpec],
    config: &Config,
    observer: &mut Observer<'_>,
) -> Result<(Verified, Statistics), VerifyError> {
    run(
        program,
        maps,
        config,
        Some(&mut |at, state| observer(at, state)),
    )
}

/// Checks what RFC 9669 says of `program` without following it: its instructions, their reserved
/// fields, and where its jumps go.
///
/// # Errors
/// The first rule found broken.
pub fn check_shape(program: &Program, maps: &[MapSpec]) -> Result<(), VerifyError> {
    cfg::check_shape(program, maps).map(|_| ())
}

fn run<'o>(
    program: &Program,
    maps: &[MapSpec],
    config: &Config,
    observer: Option<&'o mut Observer<'o>>,
) -> Result<(Verified, Statistics), VerifyError> {
    let cfg = cfg::check(program, maps)?;
    let live = live::live_registers(&program.insns, &cfg);
    let env = Env {
        program,
        maps,
        config,
        cfg: &cfg,
    };
    let found = walk::Walk::new(env, live, observer).run()?;
    let notes = notes(program, &found.seen);
    let verified = Verified::new(program.clone(), notes, maps.to_vec());
    Ok((verified, found.statistics))
}

fn notes(program: &Program, seen: &[Seen]) -> Vec<Note> {
    let mut notes: Vec<Note> = seen
        .iter()
        .map(|s| match s {
            Seen::Never => Note::Dead,
            Seen::Plain => Note::None,
            Seen::Context(field) => Note::Context(*field),
        })
        .collect();
    // The second half of a load is as alive as the first.
    for at in 0..notes.len() {
        if program.insns[at].is_ld_imm64() && notes[at] == Note::None {
            notes[at + 1] = Note::None;
        }
    }
    notes
}
