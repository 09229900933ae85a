//! What a worker brings to the programs it runs: its slot, its clock, its random numbers, its trace,
//! and the stack. One worker, one `Cpu`, on one thread.

use std::alloc::{Layout, handle_alloc_error};
use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::memory::Block;
use crate::network::Network;
use crate::redirect::Redirect;
use crate::syncookie::Secrets;
use crate::trace::Trace;

/// Bytes of stack that each function of a program has.
pub const FRAME: usize = 512;
/// Functions that may be in a call at once, the program's own included.
pub const MAX_FRAMES: usize = 8;
/// Calls that may be open at once: each but the first frame has one.
const MAX_CALLS: usize = MAX_FRAMES - 1;
const STACK: usize = FRAME * MAX_FRAMES;

/// The state of a worker that programs see or use. `slot` is what they get as the processor's
/// number, and which of the per-CPU values they work on: a number of the worker, never the processor
/// that its thread happens to be on.
#[derive(Debug)]
pub struct Cpu {
    slot: u32,
    random: fastrand::Rng,
    clock: Clock,
    /// What programs printed.
    pub trace: Trace,
    network: Option<Arc<dyn Network>>,
    pub(crate) syncookies: Secrets,
    /// Where the program that runs, or ran last, said that the packet goes.
    pub(crate) redirect: Option<Redirect>,
    /// Tail calls that the run has made.
    pub(crate) tail_calls: u32,
    /// Address of the program that a tail call goes to.
    pub(crate) next: Option<NonZeroUsize>,
    stack: Block,
    pub(crate) calls: [Call; MAX_CALLS],
}

/// Where `bpf_ktime_get_ns` and its kin get the time from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The system's clocks.
    Monotonic,
    /// This time in nanoseconds, until it is set again: runs that can be repeated.
    Fixed(u64),
}

/// What a call of a function keeps of the caller.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call {
    pub(crate) return_to: u32,
    /// r6 to r9.
    pub(crate) saved: [u64; 4],
}

impl Cpu {
    /// Where the number is, for compiled code.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) const SLOT_OFFSET: usize = std::mem::offset_of!(Cpu, slot);

    /// A worker with the system's clock and a random seed.
    pub fn new(slot: u32) -> Self {
        Cpu {
            slot,
            random: fastrand::Rng::new(),
            clock: Clock::Monotonic,
            trace: Trace::default(),
            network: None,
            syncookies: Secrets::of_process(),
            redirect: None,
            tail_calls: 0,
            next: None,
            stack: Block::zeroed(STACK)
                .unwrap_or_else(|| handle_alloc_error(Layout::new::<[u8; STACK]>())),
            calls: [Call::default(); MAX_CALLS],
        }
    }

    /// The worker's number.
    #[inline]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Starts the random numbers over from `seed`: runs that can be repeated.
    pub fn set_seed(&mut self, seed: u64) {
        self.random.seed(seed);
    }

    /// Sets where programs get the time from.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Sets the keys of SYN cookies: those of other machines that answer for the same addresses, or
    /// fixed ones, for runs that can be repeated.
    pub fn set_syncookie_secrets(&mut self, secrets: Secrets) {
        self.syncookies = secrets;
    }

    pub(crate) fn random_u32(&mut self) -> u32 {
        self.random.u32(..)
    }

    /// Gives programs the host's network to ask. Without one they are told that there is no interface.
    pub fn set_network(&mut self, network: Arc<dyn Network>) {
        self.network = Some(network);
    }

    pub(crate) fn network(&self) -> Option<&dyn Network> {
        self.network.as_deref()
    }

    /// Where the last run sent its packet, to be acted on where its verdict is 4 (redirect); `None`
    /// where it did not say. Takes it: what one packet was told is not told to the next.
    #[inline]
    pub fn take_redirect(&mut self) -> Option<Redirect> {
        self.redirect.take()
    }

    /// Forgets what the last run left.
    #[inline]
    pub(crate) fn start(&mut self) {
        self.redirect = None;
        self.tail_calls = 0;
    }

    /// Nanoseconds of one of the system's clocks.
    pub(crate) fn now(&self, which: libc::clockid_t) -> u64 {
        match self.clock {
            Clock::Monotonic => system_ns(which),
            Clock::Fixed(ns) => ns,
        }
    }

    /// r10 of the entry function: one past its frame. Frames of called functions are below.
    #[inline(always)]
    pub(crate) fn stack_top(&self) -> u64 {
        self.stack.base().addr() as u64 + STACK as u64
    }
}

#[allow(unsafe_code)]
fn system_ns(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the struct that it is given. It cannot fail for the clocks that helpers
    // name, which every Linux has.
    unsafe { libc::clock_gettime(which, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
