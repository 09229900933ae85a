//! The just-in-time compiler for x86-64.
//!
//! `flow` looks at the program, `compile` (with `alu`, `access`, `call` and `lookup`) writes its code
//! with the instructions of `emit`, `memory` holds it. Registers, traps and calling conventions are those of
//! x86-64 on Linux and its kin; elsewhere the interpreter serves.

mod access;
mod alu;
mod call;
mod compile;
mod emit;
mod flow;
mod lookup;
mod memory;
mod perf_map;
#[cfg(test)]
mod tests;

use crate::buff::XdpBuff;
use crate::cpu::Cpu;
use crate::engine::JitOptions;
use crate::helpers::Env;
use crate::maps::Maps;
use crate::{ExecutableError, Verified};
use compile::{Compiled, Features, compile};
use flow::Refused;
use memory::CodeMemory;

/// The code of a program.
#[derive(Debug)]
pub(crate) struct Jit {
    memory: CodeMemory,
    offsets: Box<[u32]>,
}

impl Jit {
    /// Compiles `verified`, whose maps are `maps`.
    ///
    /// # Errors
    /// An instruction that this engine does not have, no memory for code, or a perf map that cannot
    /// be written.
    pub(crate) fn new(
        verified: &Verified,
        maps: &Maps,
        options: &JitOptions,
    ) -> Result<Self, ExecutableError> {
        Self::with_features(verified, maps, options, Features::detect())
    }

    fn with_features(
        verified: &Verified,
        maps: &Maps,
        options: &JitOptions,
        features: Features,
    ) -> Result<Self, ExecutableError> {
        let program = verified.program();
        let Compiled {
            code,
            offsets,
            functions,
        } = compile(&program.insns, verified.notes(), maps, options, features).map_err(
            |Refused(insn)| ExecutableError::Instruction {
                insn,
                text: program.insns.get(insn).copied().unwrap_or_default(),
            },
        )?;
        let memory = CodeMemory::new(&code).map_err(|e| ExecutableError::CodeMemory {
            bytes: code.len(),
            cause: e.to_string(),
        })?;
        if options.perf_map {
            perf_map::add(program, memory.bytes(), &functions).map_err(|e| {
                ExecutableError::PerfMap {
                    path: perf_map::path(),
                    cause: e.to_string(),
                }
            })?;
        }
        Ok(Jit {
            memory,
            offsets: offsets.into(),
        })
    }

    /// The machine code.
    pub(crate) fn code(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// Where the code of each slot starts.
    pub(crate) fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Runs the program and gives the low half of r0.
    ///
    /// # Safety
    /// The maps that it was compiled with live, and have the slot of `cpu`.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn run(&self, cpu: &mut Cpu, buff: &mut XdpBuff<'_>) -> u32 {
        let mut env = Env { cpu, buff };
        // SAFETY: compiled from a verified program in `new`; the caller vouches for the maps.
        unsafe { self.memory.run(&mut env) as u32 }
    }
}
