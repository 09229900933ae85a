//! The walk over all paths, depth first. Where paths may meet, states are stored: a path that comes
//! to a state which one stored and followed to all its ends covers need not be followed again. A
//! path that meets its own state never ends. What a step asks of the numbers and stack slots it was
//! given is handed back along the stored states it came by, so that each says what counted in it.

use super::call;
use super::cause::Cause;
use super::error::VerifyError;
use super::live::Regs;
use super::state::{Demand, Kind, MAX_FRAMES, Origin, State};
use super::step::{self, Env, Next, Seen};
use super::subsume::{self, Lens};
use super::trail::{self, Link, Trail};
use super::{Observer, Statistics};
use crate::insn::{CLASS_JMP, CLASS_JMP32};

/// Most branches that may wait (kernel: `BPF_COMPLEXITY_LIMIT_JMP_SEQ`).
const MOST_PENDING: usize = 8192;
/// Memory for stored states and for branches that wait, each; bytes.
const MOST_BYTES: usize = 64 << 20;
/// Of the states that a path came by, this many are compared with it to find that it goes in a circle. A
/// longer circle ends with the budget; comparing with all would make that end far.
const MOST_OPEN_COMPARED: usize = 64;

/// What a walk found out.
pub(super) struct Findings {
    pub(super) seen: Vec<Seen>,
    pub(super) statistics: Statistics,
}

/// A path being followed, or waiting to be.
struct Path {
    state: State,
    at: usize,
    /// The stored state it comes from.
    parent: Option<usize>,
    /// Its last fork.
    link: Link,
}

/// The states stored at one slot.
#[derive(Clone, Default)]
struct List {
    /// Those that the path now followed came by, oldest first: not all that comes of them is followed.
    open: Vec<usize>,
    /// Those followed to all their ends.
    closed: Vec<usize>,
}

/// A stored state.
struct Stored {
    state: State,
    /// Place of its list in `lists`.
    list: usize,
    parent: Option<usize>,
    /// Paths and stored states that come from it and are not followed to their ends.
    open: u32,
    /// What was asked of it.
    demand: Demand,
    hits: u32,
    misses: u32,
    bytes: usize,
}

/// The walk.
pub(super) struct Walk<'a, 'o> {
    env: Env<'a>,
    live: Vec<Regs>,
    stored: Vec<Option<Stored>>,
    free: Vec<usize>,
    /// Stored states by the slot they are at.
    lists: Vec<List>,
    /// Place of each join's list in `lists`.
    list_of: Vec<u32>,
    pending: Vec<Path>,
    stored_bytes: usize,
    pending_bytes: usize,
    seen: Vec<Seen>,
    /// Jumps and instructions since a state was last stored, on whichever path.
    jumps: u32,
    steps: u32,
    /// Stack used by each function, and who calls whom.
    depths: Vec<usize>,
    calls: Vec<(usize, usize)>,
    statistics: Statistics,
    trail: Trail,
    observer: Option<&'o mut Observer<'o>>,
}

impl<'a, 'o> Walk<'a, 'o> {
    pub(super) fn new(
        env: Env<'a>,
        live: Vec<Regs>,
        observer: Option<&'o mut Observer<'o>>,
    ) -> Self {
        let slots = env.program.insns.len();
        let mut joins = 0;
        let list_of = (env.cfg.joins.iter())
            .map(|&join| {
                joins += u32::from(join);
                joins.wrapping_sub(1)
            })
            .collect();
        Walk {
            live,
            stored: vec![],
            free: vec![],
            lists: vec![List::default(); joins as usize],
            list_of,
            pending: vec![],
            stored_bytes: 0,
            pending_bytes: 0,
            seen: vec![Seen::Never; slots],
            jumps: 0,
            steps: 0,
            depths: vec![0; env.cfg.starts.len()],
            calls: vec![],
            statistics: Statistics::default(),
            trail: Trail::default(),
            observer,
            env,
        }
    }

    /// Follows every path to its end.
    pub(super) fn run(mut self) -> Result<Findings, VerifyError> {
        let mut path = Path {
            state: State::entry(),
            at: 0,
            parent: None,
            link: Link::default(),
        };
        loop {
            self.follow(&mut path)?;
            self.end(&path);
            match self.pending.pop() {
                Some(next) => {
                    self.pending_bytes -= weight(&next.state);
                    self.trail.resume(next.link);
                    path = next;
                }
                None => break,
            }
        }
        let bytes = call::stack_of_chains(&self.depths, &self.calls);
        if bytes > call::STACK_LIMIT {
            let most = call::STACK_LIMIT;
            let cause = Cause::StackTooDeep { bytes, most };
            return Err(VerifyError::structural(self.env.program, 0, cause));
        }
        self.statistics.stack_bytes = bytes;
        Ok(Findings {
            seen: self.seen,
            statistics: self.statistics,
        })
    }

    fn follow(&mut self, path: &mut Path) -> Result<(), VerifyError> {
        loop {
            if self.env.cfg.joins[path.at] && self.meets_known(path)? {
                return Ok(());
            }
            if self.statistics.processed >= self.env.config.budget {
                let processed = self.statistics.processed;
                return Err(self.refuse(path, Cause::Budget { processed }));
            }
            self.statistics.processed += 1;
            self.steps += 1;
            if let Some(observer) = &mut self.observer {
                observer(path.at, &path.state);
            }
            let at = path.at;
            let class = self.env.program.insns[at].class();
            self.jumps += u32::from(matches!(class, CLASS_JMP | CLASS_JMP32));
            if super::cfg::is_exit(&self.env.program.insns[at]) {
                self.note_depths(&path.state);
            }
            let next = step::step(&self.env, &mut path.state, at, &mut self.seen[at])
                .map_err(|cause| self.refuse(path, cause))?;
            let demand = std::mem::take(&mut path.state.demand);
            self.ask(path.parent, demand);
            match next {
                Next::Goto(to) => path.at = to,
                Next::Call(to) => {
                    let frames = &path.state.frames;
                    let callee = frames[frames.len() - 1].function;
                    let edge = (frames[frames.len() - 2].function, callee);
                    if !self.calls.contains(&edge) {
                        self.calls.push(edge);
                    }
                    path.at = to;
                }
                Next::Fork(to, taken) => self.fork(path, to, *taken)?,
                Next::Nowhere | Next::End => return Ok(()),
            }
        }
    }

    /// Goes on with the next slot; the taken way waits.
    fn fork(&mut self, path: &mut Path, to: usize, mut taken: State) -> Result<(), VerifyError> {
        let at = path.at;
        self.pending_bytes += weight(&taken);
        if self.pending.len() >= MOST_PENDING || self.pending_bytes > MOST_BYTES {
            let most = self.pending.len();
            return Err(self.refuse(path, Cause::TooManyBranches { most }));
        }
        taken.demand = Demand::default();
        let waiting = Path {
            state: taken,
            at: to,
            parent: path.parent,
            link: self.trail.push(at, true, path.link),
        };
        path.link = self.trail.push(at, false, path.link);
        path.at = at + 1;
        if let Some(stored) = path.parent.and_then(|p| self.stored[p].as_mut()) {
            stored.open += 1;
        }
        self.pending.push(waiting);
        let most = &mut self.statistics.peak_pending;
        *most = (*most).max(self.pending.len());
        self.note_bytes();
        Ok(())
    }

    /// True where the path need not be followed on. Else its state may be stored.
    fn meets_known(&mut self, path: &mut Path) -> Result<bool, VerifyError> {
        let list = self.list_of[path.at] as usize;
        let live = self.live_of(&path.state, path.at);
        let worth = if self.lists[list].open.is_empty() {
            self.jumps >= 2 && self.steps >= 8
        } else {
            // Each round of a loop differs from the last: store one now and then.
            self.jumps >= 20 || self.steps >= 100
        };
        // Depth first: a state with open ends is one that this path came by.
        let newest = self.lists[list].open.iter().rev().take(MOST_OPEN_COMPARED);
        for stored in newest.filter_map(|&id| self.stored[id].as_ref()) {
            if subsume::same(&stored.state, &path.state, &live) {
                return Err(self.refuse(path, Cause::InfiniteLoop));
            }
        }
        let mut n = 0;
        while n < self.lists[list].closed.len() {
            let id = self.lists[list].closed[n];
            let Some(stored) = self.stored[id].as_mut() else {
                n += 1;
                continue;
            };
            let lens = Lens {
                live: &live,
                demand: Some(&stored.demand),
            };
            if subsume::covers(&stored.state, &path.state, &lens) {
                stored.hits += 1;
                self.statistics.pruned += 1;
                // All that was asked of that state is now asked of this path's.
                let demand = before(&stored.demand, &path.state);
                self.ask(path.parent, demand);
                return Ok(true);
            }
            // Where no state is stored now, the ones that are stay: a loop near its end finds those
            // of all its rounds.
            stored.misses += u32::from(worth);
            if stored.misses > stored.hits * 3 + 3 {
                self.lists[list].closed.swap_remove(n);
                self.drop_stored(id);
                continue;
            }
            n += 1;
        }
        if worth {
            self.store(path, list);
        }
        Ok(false)
    }

    fn store(&mut self, path: &mut Path, list: usize) {
        let bytes = weight(&path.state);
        if self.stored_bytes + bytes > MOST_BYTES {
            return;
        }
        let stored = Stored {
            state: path.state.clone(),
            list,
            parent: path.parent,
            open: 1,
            demand: Demand::default(),
            hits: 0,
            misses: 0,
            bytes,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.stored[id] = Some(stored);
                id
            }
            None => {
                self.stored.push(Some(stored));
                self.stored.len() - 1
            }
        };
        self.stored_bytes += bytes;
        self.statistics.stored += 1;
        let most = &mut self.statistics.peak_stored;
        *most = (*most).max(self.stored.len() - self.free.len());
        self.note_bytes();
        self.lists[list].open.push(id);
        path.parent = Some(id);
        self.jumps = 0;
        self.steps = 0;
        // From here on, numbers come from this state.
        for (depth, frame) in path.state.frames.iter_mut().enumerate() {
            for (r, reg) in frame.regs.iter_mut().enumerate() {
                reg.origin = match reg.kind {
                    Kind::Scalar => Origin::reg(depth, r),
                    _ => Origin::NONE,
                };
            }
            frame.stack.restart(depth);
        }
    }

    fn drop_stored(&mut self, id: usize) {
        if let Some(stored) = self.stored[id].take() {
            self.stored_bytes -= stored.bytes;
            self.free.push(id);
        }
    }

    /// Hands a demand to the stored state that a path comes from, and on to those before it as far
    /// as it is new to them.
    fn ask(&mut self, parent: Option<usize>, demand: Demand) {
        let mut demand = demand;
        let mut at = parent;
        while let Some(stored) = at.and_then(|id| self.stored[id].as_mut()) {
            let new = stored.demand.take_new(demand);
            if new == Demand::default() {
                return;
            }
            demand = before(&new, &stored.state);
            at = stored.parent;
        }
    }

    /// A path was followed to its end.
    fn end(&mut self, path: &Path) {
        self.note_depths(&path.state);
        let mut at = path.parent;
        while let Some(id) = at
            && let Some(stored) = &mut self.stored[id]
        {
            stored.open -= 1;
            if stored.open > 0 {
                break;
            }
            at = stored.parent;
            let list = &mut self.lists[stored.list];
            // Depth first: it is one of the last, mostly the last.
            if let Some(n) = list.open.iter().rposition(|&open| open == id) {
                list.open.remove(n);
            }
            list.closed.push(id);
        }
    }

    fn note_depths(&mut self, state: &State) {
        for frame in &state.frames {
            let depth = &mut self.depths[frame.function];
            *depth = (*depth).max(frame.stack.depth());
        }
    }

    /// Live registers of each frame: callers have lost r0 to r5.
    fn live_of(&self, state: &State, at: usize) -> [Regs; MAX_FRAMES] {
        let mut live = [0; MAX_FRAMES];
        let depth = state.depth();
        live[depth] = self.live[at];
        for (caller, callee) in live.iter_mut().zip(&state.frames[1..]) {
            *caller = self.live[callee.return_to] & !0x3f;
        }
        live
    }

    fn note_bytes(&mut self) {
        let most = &mut self.statistics.peak_bytes;
        *most = (*most).max(self.stored_bytes + self.pending_bytes);
    }

    fn refuse(&self, path: &Path, cause: Cause) -> VerifyError {
        let way = trail::retrace(&self.env, &self.trail.forks(path.link), path.at);
        VerifyError::on_path(
            (self.env.program, self.env.maps),
            path.at,
            cause,
            &path.state,
            &way,
            self.statistics,
        )
    }
}

impl Demand {
    /// Adds what is new in `other`, and gives that back.
    fn take_new(&mut self, other: Demand) -> Demand {
        let mut new = Demand {
            precise: other.precise.minus(self.precise),
            reads: [0; MAX_FRAMES],
        };
        self.precise = self.precise.union(other.precise);
        for (n, (mine, theirs)) in self.reads.iter_mut().zip(other.reads).enumerate() {
            new.reads[n] = theirs & !*mine;
            *mine |= theirs;
        }
        new
    }
}

/// What a demand on a stored state asks of the one before it.
fn before(demand: &Demand, state: &State) -> Demand {
    let mut out = Demand::default();
    for (depth, frame) in state.frames.iter().enumerate() {
        for (r, reg) in frame.regs.iter().enumerate() {
            if demand.precise.meets(Origin::reg(depth, r)) {
                out.precise = out.precise.union(reg.origin);
            }
        }
        for (k, slot) in frame.stack.slots().iter().enumerate() {
            if demand.precise.meets(Origin::slot(depth, k)) {
                out.precise = out.precise.union(slot.reg.origin);
            }
        }
        out.reads[depth] = demand.reads[depth] & !frame.stack.written;
    }
    out
}

/// Bytes that a state takes, roughly: its stack may be shared, and is counted as if it were not.
fn weight(state: &State) -> usize {
    let frame = size_of::<super::state::Frame>();
    let frames = state.frames.iter();
    let frames: usize = frames.map(|f| frame + size_of_val(f.stack.slots())).sum();
    frames + size_of_val(state.references.held())
}
