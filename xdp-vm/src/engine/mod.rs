//! Running verified programs. [`Executable`] joins a program to its maps; `decode` turns its
//! instructions into operations, `fused` makes one of several, `interpreter` runs them. The other
//! engine, the compiler, is the module `jit`.

mod arithmetic;
mod atomics;
pub mod checked;
mod decode;
#[macro_use]
mod fused;
#[cfg(test)]
mod fused_tests;
mod interpreter;
mod op;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::buff::XdpBuff;
use crate::cpu::Cpu;
use crate::insn::imm64;
#[cfg(all(target_arch = "x86_64", unix))]
use crate::jit::Jit;
use crate::kfunc;
use crate::maps::Maps;
use crate::{Insn, MapSpec, Verified};
use op::Op;

/// What runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Engine {
    /// A loop over decoded instructions, on every machine.
    Interpreter,
    /// Code of the machine, on x86-64.
    Jit,
    /// `Jit` where this process may have code made and the program makes no tail calls, else
    /// `Interpreter`.
    #[default]
    Auto,
}

/// How to make an [`Executable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// The engine.
    pub engine: Engine,
    /// What the compiler does beyond compiling.
    pub jit: JitOptions,
}

/// What the compiler does beyond compiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct JitOptions {
    /// Hide the program's constants in its code by random keys, so that who wrote the program cannot
    /// place instructions of their choice among those of the code (`bpf_jit_harden` of the kernel).
    pub blind_constants: bool,
    /// Name the code for profilers: `perf` finds `bpf_prog_TAG_NAME` in `/tmp/perf-PID.map`.
    pub perf_map: bool,
}

/// A program's machine code.
#[derive(Clone, Copy, Debug)]
pub struct MachineCode<'a> {
    /// The code, where it runs.
    pub bytes: &'a [u8],
    /// By instruction slot: where its code starts in `bytes`, ascending. Slots without code of their
    /// own start where the next one does; what a function does before its first slot is before it.
    pub offsets: &'a [u32],
}

/// Why a verified program cannot be run.
#[derive(Clone, Debug, Error)]
#[allow(missing_docs)]
pub enum ExecutableError {
    #[error(
        "the program was verified against another map {name}; verify it again after changing maps or variables"
    )]
    OtherMap { name: String },
    #[error("the program names map {index}, and there are {maps}")]
    NoMap { index: usize, maps: usize },
    #[error("instruction {insn} (`{text}`) cannot be run by this engine")]
    Instruction { insn: usize, text: Insn },
    #[error("there is no compiler for this machine; use the interpreter")]
    NoJit,
    #[error("no memory for {bytes} bytes of code: {cause}; use the interpreter")]
    CodeMemory { bytes: usize, cause: String },
    #[error("the names of the code cannot be written to {}: {cause}", path.display())]
    PerfMap { path: PathBuf, cause: String },
}

/// A verified program joined to its maps, ready to run. It may run on several threads at once, each
/// with its own [`Cpu`].
#[derive(Debug)]
pub struct Executable {
    body: Arc<Body>,
    /// Their addresses are in the operations or the code.
    maps: Maps,
}

/// A program without what keeps its maps alive: what a program array holds.
#[derive(Debug)]
pub(crate) struct Body {
    name: String,
    reads_metadata: bool,
    form: Form,
}

/// What a program was made into.
#[derive(Debug)]
enum Form {
    Ops(Box<[Op]>),
    #[cfg(all(target_arch = "x86_64", unix))]
    Code(Jit),
}

impl Executable {
    /// Joins `verified` to `maps`, made from the declarations that it was verified against, for the
    /// fastest engine that there is.
    ///
    /// # Errors
    /// The maps are others, or there is an instruction that this engine does not have.
    pub fn new(verified: &Verified, maps: &Maps) -> Result<Self, ExecutableError> {
        Self::with_options(verified, maps, &Options::default())
    }

    /// As [`Executable::new`], for an engine of choice.
    ///
    /// # Errors
    /// As there; and the engine is not for this machine, or the system grants no memory for code.
    pub fn with_options(
        verified: &Verified,
        maps: &Maps,
        options: &Options,
    ) -> Result<Self, ExecutableError> {
        let program = verified.program();
        for (insn, _) in program
            .insns
            .iter()
            .zip(verified.notes())
            .filter(|(i, _)| i.is_ld_imm64() && matches!(i.src, imm64::MAP | imm64::MAP_VALUE))
        {
            let index = insn.imm as usize;
            let (Some(proved), Some(map)) = (verified.maps().get(index), maps.at(index)) else {
                return Err(ExecutableError::NoMap {
                    index,
                    maps: maps.iter().count(),
                });
            };
            if !same(proved, map.spec()) {
                return Err(ExecutableError::OtherMap {
                    name: proved.name.clone(),
                });
            }
        }
        Ok(Executable {
            body: Arc::new(Body {
                name: program.name.clone(),
                reads_metadata: program
                    .insns
                    .iter()
                    .any(|i| i.is_kfunc_call() && kfunc::reads_metadata(i.imm)),
                form: Form::of(verified, maps, options)?,
            }),
            maps: maps.clone(),
        })
    }

    /// The engine that runs it: never [`Engine::Auto`].
    pub fn engine(&self) -> Engine {
        match &self.body.form {
            Form::Ops(_) => Engine::Interpreter,
            #[cfg(all(target_arch = "x86_64", unix))]
            Form::Code(_) => Engine::Jit,
        }
    }

    /// Its machine code, where it was compiled.
    pub fn machine_code(&self) -> Option<MachineCode<'_>> {
        match &self.body.form {
            Form::Ops(_) => None,
            #[cfg(all(target_arch = "x86_64", unix))]
            Form::Code(jit) => Some(MachineCode {
                bytes: jit.code(),
                offsets: jit.offsets(),
            }),
        }
    }

    /// True where the program may ask for what the device said of the packet: who runs it gives that
    /// to the packet ([`XdpBuff::set_metadata`]).
    pub fn reads_metadata(&self) -> bool {
        self.body.reads_metadata
    }

    /// Name of the entry function.
    pub fn name(&self) -> &str {
        &self.body.name
    }

    /// The maps that it works on.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    pub(crate) fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// Runs the program on one packet and gives what it returned: a verdict (0 aborted, 1 drop,
    /// 2 pass, 3 tx, 4 redirect: then [`Cpu::take_redirect`] says where to), or another number, which
    /// whoever asked must take as aborted.
    ///
    /// A worker whose slot is not below [`Maps::cpus`] has no per-CPU values: 0 without a run.
    #[inline]
    #[allow(unsafe_code)]
    pub fn run(&self, cpu: &mut Cpu, buff: &mut XdpBuff<'_>) -> u32 {
        if cpu.slot() >= self.maps.cpus() {
            return interpreter::ABORTED;
        }
        cpu.start();
        // SAFETY: made from a verified program with these maps, which live as long as `self`, and the
        // slot is one of theirs.
        let r0 = unsafe { self.body.form.run(cpu, buff) };
        match cpu.next {
            None => r0,
            Some(_) => run_tail_calls(r0, cpu, buff),
        }
    }
}

/// Runs the program that a tail call went to, and those that its tail calls go to. Out of the way of
/// programs that make none, which are run in line.
#[cold]
#[inline(never)]
#[allow(unsafe_code)]
fn run_tail_calls(mut r0: u32, cpu: &mut Cpu, buff: &mut XdpBuff<'_>) -> u32 {
    while let Some(next) = cpu.next.take() {
        // SAFETY: the address of a program in an array of a map that lives: see `Programs`. The
        // array took only programs whose maps have the slots of its own.
        r0 = unsafe {
            let body = std::ptr::with_exposed_provenance::<Body>(next.get());
            (*body).form.run(cpu, buff)
        };
    }
    r0
}

impl Form {
    /// Runs it on one packet.
    ///
    /// # Safety
    /// The maps that it was made with live, and have the slot of `cpu`.
    #[inline]
    #[allow(unsafe_code)]
    unsafe fn run(&self, cpu: &mut Cpu, buff: &mut XdpBuff<'_>) -> u32 {
        // SAFETY: made from a verified program; the caller's promise.
        unsafe {
            match self {
                Form::Ops(ops) => interpreter::run(ops, cpu, buff),
                #[cfg(all(target_arch = "x86_64", unix))]
                Form::Code(jit) => jit.run(cpu, buff),
            }
        }
    }

    fn of(verified: &Verified, maps: &Maps, options: &Options) -> Result<Self, ExecutableError> {
        match options.engine {
            Engine::Interpreter => Self::decode(verified, maps),
            Engine::Jit => Self::compile(verified, maps, &options.jit),
            Engine::Auto => match Self::compile(verified, maps, &options.jit) {
                // What only the interpreter has, tail calls, is for it to run.
                Err(
                    e @ (ExecutableError::NoJit
                    | ExecutableError::CodeMemory { .. }
                    | ExecutableError::Instruction { .. }),
                ) => {
                    log::info!("program {}: {e}", verified.program().name);
                    Self::decode(verified, maps)
                }
                form => form,
            },
        }
    }

    fn decode(verified: &Verified, maps: &Maps) -> Result<Self, ExecutableError> {
        let ops = decode::decode(&verified.program().insns, verified.notes(), maps)?;
        Ok(Form::Ops(ops.into()))
    }

    #[cfg(all(target_arch = "x86_64", unix))]
    fn compile(
        verified: &Verified,
        maps: &Maps,
        options: &JitOptions,
    ) -> Result<Self, ExecutableError> {
        Jit::new(verified, maps, options).map(Form::Code)
    }

    #[cfg(not(all(target_arch = "x86_64", unix)))]
    fn compile(_: &Verified, _: &Maps, _: &JitOptions) -> Result<Self, ExecutableError> {
        Err(ExecutableError::NoJit)
    }
}

/// True where what was proved of one map holds for the other: all that the verifier looks at.
fn same(proved: &MapSpec, map: &MapSpec) -> bool {
    let shape = |m: &MapSpec| {
        (
            m.kind,
            m.key_size,
            m.value_size,
            m.max_entries,
            m.flags,
            m.frozen,
            m.inner
                .as_deref()
                .map(|i| (i.kind, i.key_size, i.value_size, i.flags)),
        )
    };
    shape(proved) == shape(map) && (!proved.frozen || proved.initial == map.initial)
}
