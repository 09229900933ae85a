//! The XDP data path: programs on receive queues, verdicts and their effects.
#![forbid(unsafe_code)]

mod hints;
mod spin;
mod tally;
mod verdict;
mod vm;
mod worker;

#[cfg(test)]
mod tests;

pub use spin::spin;
pub use tally::{Fate, Imbalance, Tally, WorkerCounters};
pub use verdict::Verdict;
pub use vm::VmProgram;
pub use worker::{Application, BatchSize, Discard, Parts, Program, SkipProgram, Worker};
