//! What is known at each source line of a program: the registers and the stack when a path first came
//! there, and which of it other paths found otherwise.

use super::error::words;
use super::state::{FP, Kind, Reg, State};
use super::{Config, Statistics, VerifyError, verify_observed};
use crate::{Line, MapSpec, Program, Verified};

/// A source line, or without line info an instruction, with what is known before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotated {
    /// Slot of its first instruction.
    pub insn: usize,
    /// The function that it is in, where known.
    pub function: Option<String>,
    /// Where it is in the source, where known.
    pub line: Option<Line>,
    /// How many times a path came there; 0 for what no path reaches.
    pub visits: u64,
    /// Registers that hold something.
    pub registers: Vec<Held>,
    /// Slots of the stack in use, by their offset from the frame pointer, lowest last.
    pub stack: Vec<StackSlot>,
}

/// What a register held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its number.
    pub reg: u8,
    /// In words.
    pub words: String,
    /// Other paths came with something else in it.
    pub varies: bool,
}

/// What eight bytes of the stack held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSlot {
    /// Of the lowest byte, from the frame pointer: -8, -16, ...
    pub offset: i32,
    /// In words.
    pub words: String,
    /// Other paths came with something else in it.
    pub varies: bool,
}

/// What was seen at one place.
struct Place {
    first: State,
    visits: u64,
    /// A bit a register, and a bit a slot of the stack.
    varies: (u16, u64),
}

/// Verifies `program`, and gives what was known at each source line, also where it is refused: then of
/// the lines that were reached before.
pub fn annotate(
    program: &Program,
    maps: &[MapSpec],
    config: &Config,
) -> (Vec<Annotated>, Result<(Verified, Statistics), VerifyError>) {
    let mut places: Vec<Option<Place>> = Vec::new();
    places.resize_with(program.insns.len(), || None);
    let mut starts = vec![program.lines.is_empty(); program.insns.len()];
    let mut before: Option<&Line> = None;
    for line in &program.lines {
        let place = |l: &Line| (l.line, l.file.clone());
        if before.map(place) != Some(place(line))
            && let Some(start) = starts.get_mut(line.insn)
        {
            *start = true;
        }
        before = Some(line);
    }
    let result = verify_observed(program, maps, config, &mut |at, state| {
        if starts[at] {
            match &mut places[at] {
                Some(place) => place.visit(state),
                none => {
                    *none = Some(Place {
                        first: state.clone(),
                        visits: 1,
                        varies: (0, 0),
                    });
                }
            }
        }
    });
    let annotated = (0..program.insns.len())
        .filter(|&at| starts[at] && (at == 0 || !program.insns[at - 1].is_ld_imm64()))
        .map(|at| {
            let place = places[at].as_ref();
            Annotated {
                insn: at,
                function: program.function_of(at).map(|f| f.name.clone()),
                line: program.line_of(at).cloned(),
                visits: place.map_or(0, |p| p.visits),
                registers: place.map_or(vec![], |p| p.registers(maps)),
                stack: place.map_or(vec![], |p| p.stack(maps)),
            }
        })
        .collect();
    (annotated, result)
}

impl Place {
    fn visit(&mut self, state: &State) {
        self.visits += 1;
        let (first, now) = (self.first.top(), state.top());
        for (r, (a, b)) in first.regs.iter().zip(&now.regs).enumerate() {
            self.varies.0 |= u16::from(!same(a, b)) << r;
        }
        let (a, b) = (first.stack.slots(), now.stack.slots());
        for k in 0..a.len().max(b.len()) {
            let same = match (a.get(k), b.get(k)) {
                (Some(a), Some(b)) => a.bytes == b.bytes && same(&a.reg, &b.reg),
                _ => false,
            };
            self.varies.1 |= u64::from(!same) << (k % 64);
        }
    }

    fn registers(&self, maps: &[MapSpec]) -> Vec<Held> {
        let regs = self.first.top().regs[..FP].iter().enumerate();
        regs.filter(|(r, reg)| reg.kind != Kind::Uninit || self.varies.0 >> r & 1 != 0)
            .map(|(r, reg)| Held {
                reg: r as u8,
                words: words(reg, maps),
                varies: self.varies.0 >> r & 1 != 0,
            })
            .collect()
    }

    fn stack(&self, maps: &[MapSpec]) -> Vec<StackSlot> {
        use super::stack::Byte;
        let slots = self.first.top().stack.slots().iter().enumerate();
        slots
            .filter(|(_, slot)| slot.bytes != [Byte::Uninit; 8])
            .map(|(k, slot)| StackSlot {
                offset: -8 * (k as i32 + 1),
                words: match slot.bytes {
                    [Byte::Spill, ..] => words(&slot.reg, maps),
                    bytes => {
                        let written = bytes.iter().filter(|b| **b != Byte::Uninit).count();
                        match (written, bytes == [Byte::Zero; 8]) {
                            (_, true) => "is zero".to_owned(),
                            (8, _) => "was written".to_owned(),
                            (n, _) => {
                                let byte = |b: &Byte| if *b == Byte::Uninit { '?' } else { 'w' };
                                let map: String = bytes.iter().map(byte).collect();
                                format!("was written in {n} of its bytes: {map}, lowest first")
                            }
                        }
                    }
                },
                varies: self.varies.1 >> (k % 64) & 1 != 0,
            })
            .collect()
    }
}

/// True where as much is known of both; who they are linked to does not count.
fn same(a: &Reg, b: &Reg) -> bool {
    (a.kind, a.scalar, a.off, a.range) == (b.kind, b.scalar, b.off, b.range)
}
