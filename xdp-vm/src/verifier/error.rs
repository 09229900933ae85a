//! The refusal: the cause, where it is in the program and in its source, what was known there, and
//! the way that led there.

use std::fmt;

use super::cause::Cause;
use super::state::{Reg, State};
use crate::{Line, MapSpec, Program};

/// Most steps of the path that a refusal keeps.
pub(super) const PATH_STEPS: usize = 12;

/// A program refused: a [`Refusal`], which it dereferences to.
#[derive(Clone, Debug)]
pub struct VerifyError(Box<Refusal>);

impl std::ops::Deref for VerifyError {
    type Target = Refusal;

    fn deref(&self) -> &Refusal {
        &self.0
    }
}

/// Why and where a program is refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The rule that is broken.
    pub cause: Cause,
    /// Slot of the instruction.
    pub insn: usize,
    /// Name of the program.
    pub program: String,
    /// Name of the function it is in, where known.
    pub function: Option<String>,
    /// The instruction, disassembled.
    pub text: String,
    /// Source line it came from, where the object has line info.
    pub line: Option<Line>,
    /// The registers that it uses, and what was known of each.
    pub registers: Vec<Known>,
    /// The last conditional jumps that led there, oldest first.
    pub path: Vec<PathStep>,
}

/// What was known of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its number.
    pub reg: u8,
    /// In words.
    pub words: String,
    /// As the kernel's verifier log writes it.
    pub kernel: String,
}

/// A conditional jump on the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// Slot of the jump.
    pub insn: usize,
    /// Whether it was taken.
    pub taken: bool,
    /// Source line, where known.
    pub line: Option<Line>,
}

impl VerifyError {
    /// A refusal before any path was followed.
    pub(super) fn structural(program: &Program, insn: usize, cause: Cause) -> Self {
        VerifyError(Box::new(Refusal {
            cause,
            insn,
            program: program.name.clone(),
            function: program.function_of(insn).map(|f| f.name.clone()),
            text: text_of(program, insn),
            line: program.line_of(insn).cloned(),
            registers: vec![],
            path: vec![],
        }))
    }

    /// A refusal on a path: with what was known there.
    pub(super) fn on_path(
        program: &Program,
        maps: &[MapSpec],
        insn: usize,
        cause: Cause,
        state: &State,
        trail: &[(usize, bool)],
    ) -> Self {
        let mut error = VerifyError::structural(program, insn, cause);
        error.0.registers = registers_of(program, insn)
            .into_iter()
            .map(|reg| Known {
                reg,
                words: words(state.reg(reg), maps),
                kernel: format!("R{reg}={}", state.reg(reg)),
            })
            .collect();
        error.0.path = trail
            .iter()
            .map(|&(insn, taken)| PathStep {
                insn,
                taken,
                line: program.line_of(insn).cloned(),
            })
            .collect();
        error
    }
}

/// The registers that an instruction names, or that a call takes.
fn registers_of(program: &Program, insn: usize) -> Vec<u8> {
    use crate::insn::{CLASS_JMP, call, jmp};
    let Some(i) = program.insns.get(insn) else {
        return vec![];
    };
    if i.class() == CLASS_JMP && i.op() == jmp::CALL {
        let n = match i.src {
            call::HELPER => crate::contract::contract(i.imm as u32).map_or(5, |c| c.args.len()),
            _ => 5,
        };
        return (1..=n as u8).collect();
    }
    if i.class() == CLASS_JMP && i.op() == jmp::EXIT {
        return vec![0];
    }
    if i.class() == crate::insn::CLASS_LDX {
        return vec![i.src.min(10)];
    }
    let mut regs = vec![i.dst.min(10)];
    let uses_src = match i.class() {
        crate::insn::CLASS_STX => true,
        crate::insn::CLASS_LD | crate::insn::CLASS_ST => false,
        _ => i.is_reg(),
    };
    if uses_src && i.src != i.dst && i.src <= 10 {
        regs.push(i.src);
    }
    regs
}

/// What a register holds, in words.
pub(super) fn words(reg: &Reg, maps: &[MapSpec]) -> String {
    use super::state::{INNER, Kind};
    let outer = |m: u32| maps.get((m & !INNER) as usize);
    let map = |m: u32| outer(m).map_or("?", |m| m.name.as_str());
    let spec = |m: u32| match outer(m) {
        Some(outer) if m & INNER != 0 => outer.inner.as_deref(),
        plain => plain,
    };
    let range = |lo: i64, hi: i64| {
        if lo == hi {
            format!("{lo}")
        } else if lo == i64::MIN && hi == i64::MAX {
            "any number".to_string()
        } else {
            format!("{lo} to {hi}")
        }
    };
    match reg.kind {
        Kind::Uninit => "was never written on this path".into(),
        Kind::Scalar => match reg.scalar.as_constant() {
            Some(v) => format!("is the number {}", v as i64),
            None if reg.scalar.w64.smin >= 0 => format!(
                "is a number from {} to {}",
                reg.scalar.w64.umin, reg.scalar.w64.umax
            ),
            None => format!(
                "is a number: {}",
                range(reg.scalar.w64.smin, reg.scalar.w64.smax)
            ),
        },
        Kind::Context => "is the context".into(),
        Kind::Map(m) if m & INNER != 0 => format!("is a map out of `{}`", map(m)),
        Kind::MapOrNull(m) => format!("is a map out of `{}`, or null", map(m)),
        Kind::Map(m) => format!("is the map `{}`", map(m)),
        Kind::MapValue(m) | Kind::MapValueOrNull(m) => {
            let (lo, hi) = reg.offsets();
            let null = matches!(reg.kind, Kind::MapValueOrNull(_));
            format!(
                "points into a value of {}`{}` ({} bytes), at byte {}{}",
                if m & INNER == 0 { "" } else { "a map out of " },
                map(m),
                spec(m).map_or(0, |m| m.value_size),
                range(lo, hi),
                if null { ", or is null" } else { "" }
            )
        }
        Kind::Packet | Kind::PacketMeta => {
            let from = if reg.kind == Kind::Packet {
                "data"
            } else {
                "data_meta"
            };
            let var = &reg.scalar.w64;
            let variable = if reg.has_constant_offset() {
                String::new()
            } else {
                format!(" plus a variable part of {}", range(var.smin, var.smax))
            };
            format!(
                "points into the packet, {from} + {}{variable}; {} bytes are proven from {}",
                reg.off,
                reg.range,
                if variable.is_empty() {
                    from
                } else {
                    "the variable part"
                }
            )
        }
        Kind::PacketEnd => "is the packet's end".into(),
        Kind::PacketLow => "is the low half of an address in the packet".into(),
        Kind::PacketMoved => "points to where the packet was before it moved".into(),
        Kind::Record(size) | Kind::RecordOrNull(size) => {
            let (lo, hi) = reg.offsets();
            let null = matches!(reg.kind, Kind::RecordOrNull(_));
            format!(
                "points into a record of {size} bytes, at byte {}{}",
                range(lo, hi),
                if null { ", or is null" } else { "" }
            )
        }
        Kind::Stack(_) => {
            let (lo, hi) = reg.offsets();
            format!("points to the stack, at byte {}", range(lo, hi))
        }
    }
}

fn text_of(program: &Program, insn: usize) -> String {
    let insn = program.insns.get(insn);
    insn.map(ToString::to_string).unwrap_or_default()
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Wrapped { f };
        out.line(
            "",
            &format!("program `{}` is refused: {}", self.program, self.cause),
        )?;
        let function = match &self.function {
            Some(name) if !name.is_empty() => format!(" in `{name}`"),
            _ => String::new(),
        };
        out.line(
            "  at: ",
            &format!("instruction {}{function}: {}", self.insn, self.text),
        )?;
        if let Some(line) = &self.line {
            out.line("  source: ", &place(line))?;
        }
        for known in &self.registers {
            out.line("  known: ", &format!("r{} {}", known.reg, known.words))?;
            out.line("         ", &known.kernel)?;
        }
        if !self.path.is_empty() {
            out.line("  path: ", "the last branches before it")?;
            for step in &self.path {
                let taken = if step.taken { "taken" } else { "not taken" };
                let place = step.line.as_ref().map(place).unwrap_or_default();
                out.line(
                    "    ",
                    &format!("instruction {}, {taken} {place}", step.insn),
                )?;
            }
        }
        out.last("  remedy: ", &self.cause.remedy())
    }
}

impl std::error::Error for VerifyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

fn place(line: &Line) -> String {
    let file = line.file.rsplit('/').next().unwrap_or_default();
    format!("{file}:{}: {}", line.line, line.text)
        .trim_end()
        .trim_end_matches(':')
        .to_string()
}

/// Breaks text between words so that no line is longer than [`WIDTH`].
struct Wrapped<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
}

/// Columns that a refusal fits into.
const WIDTH: usize = 100;

impl Wrapped<'_, '_> {
    fn line(&mut self, label: &str, text: &str) -> fmt::Result {
        self.last(label, text)?;
        self.f.write_str("\n")
    }

    fn last(&mut self, label: &str, text: &str) -> fmt::Result {
        let indent = label.len().max(4);
        self.f.write_str(label)?;
        let mut column = label.len();
        let mut first = true;
        for word in text.split_whitespace() {
            let mut word = word;
            if !first && column + 1 + word.chars().count() > WIDTH {
                write!(self.f, "\n{:indent$}", "")?;
                column = indent;
            } else if !first {
                self.f.write_str(" ")?;
                column += 1;
            }
            // A word that fits no line is cut.
            while column + word.chars().count() > WIDTH {
                let cut = word
                    .char_indices()
                    .nth(WIDTH - column)
                    .map_or(word.len(), |(i, _)| i);
                write!(self.f, "{}\n{:indent$}", &word[..cut], "")?;
                word = &word[cut..];
                column = indent;
            }
            self.f.write_str(word)?;
            column += word.chars().count();
            first = false;
        }
        Ok(())
    }
}
