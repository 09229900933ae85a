//! Running verified programs. [`Executable`] joins a program to its maps; `decode` turns its
//! instructions into operations, `interpreter` runs them.

mod atomics;
mod decode;
mod interpreter;
mod op;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use thiserror::Error;

use crate::buff::XdpBuff;
use crate::cpu::Cpu;
use crate::insn::imm64;
use crate::maps::Maps;
use crate::{Insn, MapSpec, Verified};
use op::Op;

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
}

/// A verified program joined to its maps, ready to run. It may run on several threads at once, each
/// with its own [`Cpu`].
#[derive(Debug)]
pub struct Executable {
    body: Arc<Body>,
    /// Their addresses are in the operations.
    maps: Maps,
}

/// A program without what keeps its maps alive: what a program array holds.
#[derive(Debug)]
pub(crate) struct Body {
    name: String,
    ops: Box<[Op]>,
}

impl Executable {
    /// Joins `verified` to `maps`, made from the declarations that it was verified against.
    ///
    /// # Errors
    /// The maps are others, or there is an instruction that this engine does not have.
    pub fn new(verified: &Verified, maps: &Maps) -> Result<Self, ExecutableError> {
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
                ops: decode::decode(&program.insns, verified.notes(), maps)?.into(),
            }),
            maps: maps.clone(),
        })
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
        // SAFETY: the operations were decoded from a verified program with these maps, which live as
        // long as `self`, and the slot is one of theirs.
        let mut r0 = unsafe { interpreter::run(&self.body.ops, cpu, buff) };
        // Each program that a tail call goes to starts from here.
        while let Some(next) = cpu.next.take() {
            // SAFETY: the address of a program in an array of a map that lives: see `Programs`. The
            // array took only programs whose maps have the slots of its own.
            r0 = unsafe {
                let body = std::ptr::with_exposed_provenance::<Body>(next.get());
                interpreter::run(&(*body).ops, cpu, buff)
            };
        }
        r0
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
