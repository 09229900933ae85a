//! The refusal: the cause, where it is in the program and in its source, what was known there, and
//! the way that led there.

use std::fmt;

use super::Statistics;
use super::cause::Cause;
use super::field;
use super::state::{Reg, State};
use super::trail::Way;
use crate::{Line, MapSpec, Program};

/// Most steps of the path that a refusal keeps.
const PATH_STEPS: usize = 200;
/// Steps of the path that it shows where nobody asks for more.
const SHOWN_STEPS: usize = 6;

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
    /// What the byte is that was found uninitialised, where the type of its object is known: a field
    /// (`tuple.port of struct flow`), or padding.
    pub field: Option<String>,
    /// The path that led there, oldest step first, the last being the refused line itself.
    pub path: Vec<PathStep>,
    /// Steps before the first one of `path`, which are not kept.
    pub path_skipped: usize,
    /// What the verification took until then.
    pub statistics: Statistics,
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
    /// Slot of the instruction that last wrote it on this path, where there was one.
    pub set_by: Option<usize>,
    /// Its source line, where known.
    pub set_at: Option<Line>,
}

/// A source line on the path; where the object has no line info, a conditional jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// Slot of its first instruction; of its conditional jump, where it ends with one.
    pub insn: usize,
    /// The function, where it is another than the step before's.
    pub function: Option<String>,
    /// Source line, where known.
    pub line: Option<Line>,
    /// The conditional jump that it ends with, and whether it was taken. Jumps of which only one way
    /// was possible are none.
    pub branch: Option<(String, bool)>,
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
            field: None,
            path: vec![],
            path_skipped: 0,
            statistics: Statistics::default(),
        }))
    }

    /// A refusal on a path: with what was known there, and how it came.
    pub(super) fn on_path(
        (program, maps): (&Program, &[MapSpec]),
        insn: usize,
        cause: Cause,
        state: &State,
        way: &Way,
        statistics: Statistics,
    ) -> Self {
        let mut error = VerifyError::structural(program, insn, cause);
        let refusal = &mut error.0;
        refusal.registers = registers_of(program, insn)
            .into_iter()
            .map(|reg| {
                let set_by = way.writers[usize::from(reg)];
                Known {
                    reg,
                    words: words(state.reg(reg), maps),
                    kernel: format!("R{reg}={}", state.reg(reg)),
                    set_by,
                    set_at: set_by.and_then(|at| program.line_of(at)).cloned(),
                }
            })
            .collect();
        refusal.field = field::of_cause(program, maps, insn, &refusal.cause, state);
        refusal.path = path(program, way);
        refusal.path_skipped = refusal.path.len().saturating_sub(PATH_STEPS);
        refusal.path.drain(..refusal.path_skipped);
        refusal.statistics = statistics;
        error
    }
}

/// Instructions in source lines.
fn path(program: &Program, way: &Way) -> Vec<PathStep> {
    let mut path: Vec<PathStep> = vec![];
    let mut inside: Option<&str> = None;
    for &(insn, taken) in &way.steps {
        let line = program.line_of(insn);
        let function = program.function_of(insn).map(|f| f.name.as_str());
        let branch = taken.map(|taken| (text_of(program, insn), taken));
        let same = |last: &PathStep| {
            let lines = last.line.as_ref().zip(line);
            lines.is_some_and(|(a, b)| (a.line, &a.file) == (b.line, &b.file))
                && last.branch.is_none()
                && function == inside
        };
        match path.last_mut() {
            Some(last) if same(last) => {
                if branch.is_some() {
                    last.insn = insn;
                    last.branch = branch;
                }
            }
            // Without lines, it is the jumps that tell the way.
            _ if line.is_none() && branch.is_none() => {}
            _ => path.push(PathStep {
                insn,
                function: function
                    .filter(|name| inside != Some(name) && !name.is_empty())
                    .map(str::to_owned),
                line: line.cloned(),
                branch,
            }),
        }
        if line.is_some() || taken.is_some() {
            inside = function;
        }
    }
    path
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
        self.0.tell(f, false)
    }
}

/// A refusal with the whole path that led to it and where its registers were set, for people.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'a>(&'a Refusal);

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.tell(f, true)
    }
}

impl Refusal {
    /// All that is known about it: what [`VerifyError`] prints, and the whole path.
    pub fn explanation(&self) -> Explanation<'_> {
        Explanation(self)
    }

    fn tell(&self, f: &mut fmt::Formatter<'_>, whole: bool) -> fmt::Result {
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
        if let Some(field) = &self.field {
            out.line("  byte: ", &format!("it is {field}"))?;
        }
        for known in &self.registers {
            out.line("  known: ", &format!("r{} {}", known.reg, known.words))?;
            out.line("         ", &known.kernel)?;
            if whole && let Some(insn) = known.set_by {
                let line = known.set_at.as_ref().map(place);
                let line = line.map_or(String::new(), |l| format!(", {l}"));
                out.line("         ", &format!("set by instruction {insn}{line}"))?;
            }
        }
        self.tell_path(&mut out, whole)?;
        out.last("  remedy: ", &self.remedy())
    }

    fn tell_path(&self, out: &mut Wrapped<'_, '_>, whole: bool) -> fmt::Result {
        let shown = match whole {
            true => self.path.len(),
            false => self.path.len().min(SHOWN_STEPS),
        };
        if shown == 0 {
            return Ok(());
        }
        let before = self.path.len() - shown + self.path_skipped;
        out.line(
            "  path: ",
            &match before {
                0 => "from the entry".to_owned(),
                n => format!("the last {shown} steps, {n} before them"),
            },
        )?;
        for step in &self.path[self.path.len() - shown..] {
            if let Some(function) = &step.function {
                out.line("    ", &format!("in `{function}`:"))?;
            }
            let branch = step.branch.as_ref().map(|(text, taken)| {
                let taken = if *taken { "taken" } else { "not taken" };
                format!("instruction {}: {text}: {taken}", step.insn)
            });
            match (&step.line, branch) {
                (Some(line), branch) => {
                    out.line("    ", &place(line))?;
                    if let (Some(branch), true) = (branch, whole) {
                        out.line("        ", &branch)?;
                    }
                }
                (None, Some(branch)) => out.line("    ", &branch)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// What would make the program acceptable.
    pub fn remedy(&self) -> String {
        let remedy = self.cause.remedy();
        match &self.field {
            Some(field) if !field.starts_with("padding") => {
                let name = field.split(" of ").next().unwrap_or_default();
                format!("give `{name}` a value on every path that leads here, or {remedy}")
            }
            _ => remedy,
        }
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
