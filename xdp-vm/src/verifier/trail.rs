//! How a refused path came about. The walk keeps a link a fork, and drops it with the path; only where
//! a program is refused is the path made again from them, step by step, to say by which source lines
//! it came and where each register got what it holds.

use super::state::{MAX_FRAMES, State};
use super::step::{self, Env, Next, Seen};
use crate::insn::{CLASS_ALU, CLASS_ALU64, CLASS_JMP, CLASS_LD, CLASS_LDX, CLASS_STX, jmp};

/// Most steps that are made again.
const MOST_STEPS: usize = 1_000_000;

/// Forks of the path that is followed and of those that wait. Paths are followed depth first, so the
/// links of a path that ended are the last ones.
#[derive(Default)]
pub(super) struct Trail {
    forks: Vec<Fork>,
}

struct Fork {
    at: u32,
    taken: bool,
    before: Link,
}

/// The last fork of a path.
#[derive(Clone, Copy, Default)]
pub(super) struct Link(Option<u32>);

impl Trail {
    /// Adds a way that a fork went, after those that led to it.
    pub(super) fn push(&mut self, at: usize, taken: bool, before: Link) -> Link {
        let link = Link(Some(self.forks.len() as u32));
        let at = at as u32;
        self.forks.push(Fork { at, taken, before });
        link
    }

    /// Forgets what came after a waiting path's last fork: those paths have ended.
    pub(super) fn resume(&mut self, link: Link) {
        self.forks.truncate(link.0.map_or(0, |n| n as usize + 1));
    }

    /// Forks to `link`, oldest first: where, and whether the jump was taken.
    pub(super) fn forks(&self, mut link: Link) -> Vec<(usize, bool)> {
        let mut forks = vec![];
        while let Some(fork) = link.0.and_then(|n| self.forks.get(n as usize)) {
            forks.push((fork.at as usize, fork.taken));
            link = fork.before;
        }
        forks.reverse();
        forks
    }
}

/// A path made again.
pub(super) struct Way {
    /// Each instruction, with the way that a fork went.
    pub(super) steps: Vec<(usize, Option<bool>)>,
    /// By register of the function that it ends in: the instruction that last wrote it.
    pub(super) writers: [Option<usize>; 11],
}

/// Follows the path with these forks to the instruction `end`. Where the steps do not lead there, what
/// they led to is given, and nothing of writers.
pub(super) fn retrace(env: &Env<'_>, forks: &[(usize, bool)], end: usize) -> Way {
    let mut state = State::entry();
    let mut seen = vec![Seen::Never; env.program.insns.len()];
    let mut writers = [[None; 11]; MAX_FRAMES];
    let mut steps = vec![];
    let mut left = forks.iter();
    let mut at = 0;
    for _ in 0..MOST_STEPS {
        let depth = state.depth();
        let insn = env.program.insns[at];
        seen[at] = Seen::Never;
        let next = step::step(env, &mut state, at, &mut seen[at]);
        state.demand = Default::default();
        let arrived = at == end && left.len() == 0;
        let mut fork = None;
        let to = match next {
            // The refused instruction itself, or one that a limit was met at.
            Err(_) => {
                steps.push((at, None));
                let writers = if arrived { writers[depth] } else { [None; 11] };
                return Way { steps, writers };
            }
            Ok(_) if arrived => at,
            Ok(Next::Fork(to, taken_state)) => match left.next() {
                Some(&(expected, taken)) if expected == at => {
                    fork = Some(taken);
                    match taken {
                        true => {
                            state = *taken_state;
                            to
                        }
                        false => at + 1,
                    }
                }
                _ => break,
            },
            Ok(Next::Goto(to) | Next::Call(to)) => to,
            Ok(Next::Nowhere | Next::End) => break,
        };
        steps.push((at, fork));
        if arrived {
            let writers = writers[depth];
            return Way { steps, writers };
        }
        match (depth.cmp(&state.depth()), insn.class()) {
            (std::cmp::Ordering::Less, _) => writers[depth + 1] = writers[depth],
            (std::cmp::Ordering::Greater, _) => writers[depth - 1][0] = writers[depth][0],
            (_, CLASS_LD | CLASS_LDX | CLASS_ALU | CLASS_ALU64) => {
                writers[depth][usize::from(insn.dst)] = Some(at);
            }
            (_, CLASS_JMP) if insn.op() == jmp::CALL => {
                writers[depth][..6].fill(Some(at));
            }
            (_, CLASS_STX) if insn.imm & 1 != 0 => {
                // Atomic operations that fetch.
                writers[depth][usize::from(insn.src)] = Some(at);
            }
            _ => {}
        }
        at = to;
    }
    let writers = [None; 11];
    Way { steps, writers }
}
