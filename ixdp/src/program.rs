//! From an object file to programs that workers run.

use std::sync::Arc;

use datapath::VmProgram;
use xdp_vm::program::Slot;
use xdp_vm::verifier::{self, Statistics, VerifyError};
use xdp_vm::{
    Cpu, Executable, ExecutableError, LoadError, MapError, Maps, Object, Options, Program,
};

/// A program that was verified and joined to its maps. Every queue runs it on the same maps.
///
/// ```
/// use ixdp::{LoadedProgram, xdp_vm::Object};
///
/// let object = Object::parse(include_bytes!("../programs/proto_count.bpf.o"))?;
/// let program = LoadedProgram::load(&object, None, 4)?;
/// assert_eq!(program.name(), "proto_count");
/// assert!(program.maps().get("rxcnt").is_some());
/// let _on_queue_3 = program.on_queue(3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LoadedProgram {
    executable: Arc<Executable>,
    statistics: Statistics,
    options: Options,
}

/// Why a program cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is no such program in the object, or it could not be linked.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The verifier refuses it.
    #[error(transparent)]
    Refused(#[from] Box<VerifyError>),
    /// Its maps cannot be made.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The engine does not have all of its instructions.
    #[error(transparent)]
    Executable(#[from] ExecutableError),
}

impl LoadedProgram {
    /// Verifies the program of `object` with that name, or its only one, and makes the object's maps
    /// for queues `0..queues`. Programs that the object puts into program arrays, to be tail-called,
    /// are verified and put there too. Set global variables before.
    ///
    /// # Errors
    /// There is no such program, it or one that it may call is refused, or its maps cannot be made.
    pub fn load(object: &Object, name: Option<&str>, queues: u16) -> Result<Self, ProgramError> {
        Self::load_with(object, name, queues, &Options::default())
    }

    /// As [`LoadedProgram::load`], for an engine of choice.
    ///
    /// # Errors
    /// As there, and where this machine does not have the engine.
    pub fn load_with(
        object: &Object,
        name: Option<&str>,
        queues: u16,
        options: &Options,
    ) -> Result<Self, ProgramError> {
        let entry = object.program(name)?;
        let maps = Maps::create(&object.maps, queues.into())?;
        let (executable, statistics) = build(object, entry, &maps, options)?;
        let mut called: Vec<&str> = object
            .maps
            .iter()
            .flat_map(|map| &map.slots)
            .filter_map(|(_, slot)| match slot {
                Slot::Program(name) => Some(name.as_str()),
                Slot::Map(_) => None,
            })
            .collect();
        called.sort_unstable();
        called.dedup();
        for name in called {
            let (executable, _) = build(object, object.program(Some(name))?, &maps, options)?;
            maps.link([&executable])?;
        }
        Ok(LoadedProgram {
            executable: Arc::new(executable),
            statistics,
            options: *options,
        })
    }

    /// Verifies the program of `object`, the one that this was loaded from, with that name, and puts it
    /// into entry `index` of the program array `map`.
    ///
    /// # Errors
    /// There is no such program, it is refused, or the map is no program array or has no such entry.
    pub fn put(
        &self,
        object: &Object,
        map: &str,
        index: u32,
        name: &str,
    ) -> Result<(), ProgramError> {
        let program = object.program(Some(name))?;
        let (executable, _) = build(object, program, self.maps(), &self.options)?;
        Ok(self.maps().set_program(map, index, &executable)?)
    }

    /// The program as the virtual machine has it, to be run on packets in memory.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Name of the entry function.
    pub fn name(&self) -> &str {
        self.executable.name()
    }

    /// The maps that it works on, to be read and written at any time.
    pub fn maps(&self) -> &Maps {
        self.executable.maps()
    }

    /// What its verification took.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The program as the worker of `queue` runs it. The worker's slot, which programs see as the
    /// CPU, is the queue's number: results do not depend on how queues are spread over threads.
    pub fn on_queue(&self, queue: u16) -> VmProgram {
        VmProgram::new(self.executable.clone(), Cpu::new(queue.into()), queue)
    }
}

/// Verifies `program` and joins it to `maps`, those of `object`.
fn build(
    object: &Object,
    program: &Program,
    maps: &Maps,
    options: &Options,
) -> Result<(Executable, Statistics), ProgramError> {
    let config = verifier::Config {
        kind: program.kind(),
        ..verifier::Config::default()
    };
    let verified = verifier::verify(program, &object.maps, &config);
    let (verified, statistics) = verified.map_err(Box::new)?;
    let executable = Executable::with_options(&verified, maps, options)?;
    log::info!(
        "program {}: {} instructions followed to verify it",
        executable.name(),
        statistics.processed
    );
    Ok((executable, statistics))
}
