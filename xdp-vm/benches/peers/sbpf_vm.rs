//! solana-sbpf, as its users run it: addresses of the program are translated, and its instructions
//! counted. It has no map, and its oldest form of programs is what clang makes for version 2 of the
//! instruction set.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Arc;

use solana_sbpf::ebpf::MM_INPUT_START;
use solana_sbpf::elf::Executable;
use solana_sbpf::memory_region::{MemoryMapping, MemoryRegion, default_access_violation_handler};
use solana_sbpf::program::{BuiltinProgram, FunctionRegistry, SBPFVersion};
use solana_sbpf::verifier::RequisiteVerifier;
use solana_sbpf::vm::{CallFrame, Config, ContextObject, EbpfVm, ExecutionMode};

use super::programs::{Packet, Programs, packet};
use super::{Peer, timed};

const VERSION: SBPFVersion = SBPFVersion::V0;

/// What a program may spend, and where its memory is.
struct Context {
    remaining: u64,
    mapping: MemoryMapping,
}

impl ContextObject for Context {
    fn consume(&mut self, amount: u64) {
        self.remaining = self.remaining.saturating_sub(amount);
    }

    fn get_remaining(&self) -> u64 {
        self.remaining
    }

    fn active_mapping_ptr(&mut self) -> NonNull<MemoryMapping> {
        NonNull::from(&mut self.mapping)
    }
}

struct Sbpf {
    executable: Executable<Context>,
    loader: Arc<BuiltinProgram<Context>>,
    context: Context,
    frames: Vec<CallFrame>,
    jit: bool,
}

pub(crate) fn jit(programs: &Programs, name: &str) -> Result<Box<dyn Peer>, String> {
    let sbpf = make(programs, name, true)?;
    sbpf.executable.jit_compile().map_err(|e| e.to_string())?;
    Ok(Box::new(sbpf))
}

pub(crate) fn interpreter(programs: &Programs, name: &str) -> Result<Box<dyn Peer>, String> {
    Ok(Box::new(make(programs, name, false)?))
}

fn make(programs: &Programs, name: &str, jit: bool) -> Result<Sbpf, String> {
    if name == "count" {
        return Err("it has no maps".to_owned());
    }
    let config = Config {
        enabled_sbpf_versions: VERSION..=VERSION,
        ..Config::default()
    };
    let loader = Arc::new(BuiltinProgram::new_loader(config));
    let executable = Executable::from_text_bytes(
        &programs.old_vm(name)?,
        loader.clone(),
        VERSION,
        FunctionRegistry::default(),
    )
    .map_err(|e| e.to_string())?;
    executable
        .verify::<RequisiteVerifier>()
        .map_err(|e| e.to_string())?;
    // The context, with addresses as the program sees them, and the packet behind it.
    let packet = packet();
    let data = MM_INPUT_START + size_of::<Packet>() as u64;
    let mut input = [data, data + packet.len() as u64]
        .map(u64::to_le_bytes)
        .concat();
    input.extend(packet);
    let input: &'static mut [u8] = input.leak();
    let region = MemoryRegion::new(std::ptr::from_mut(input), MM_INPUT_START);
    // SAFETY: the region is memory that is never freed and that nobody else uses.
    let mapping = unsafe {
        MemoryMapping::new_with_access_violation_handler(
            vec![region],
            loader.get_config(),
            VERSION,
            Box::new(default_access_violation_handler),
        )
    };
    Ok(Sbpf {
        context: Context {
            remaining: 0,
            mapping: mapping.map_err(|e| e.to_string())?,
        },
        frames: vec![CallFrame::default(); loader.get_config().max_call_depth],
        executable,
        loader,
        jit,
    })
}

impl Sbpf {
    /// Calls `f` with what runs the program once.
    fn with_vm<T>(&mut self, f: impl FnOnce(&mut dyn FnMut() -> Result<u64, String>) -> T) -> T {
        let stack = self.loader.get_config().stack_size();
        let mut vm = EbpfVm::new(self.loader.clone(), VERSION, &mut self.context, stack);
        vm.registers[1] = MM_INPUT_START;
        let registers = vm.registers;
        f(&mut || {
            vm.registers = registers;
            vm.context().remaining = 1 << 40;
            let mut mode = match self.jit {
                true => ExecutionMode::Jit,
                false => ExecutionMode::Interpreted,
            };
            let (_, result) = vm.execute_program(&self.executable, &mut mode, &mut self.frames);
            Result::from(result).map_err(|e| e.to_string())
        })
    }
}

impl Peer for Sbpf {
    fn result(&mut self) -> Result<u32, String> {
        self.with_vm(|run| run().map(|r| r as u32))
    }

    fn time(&mut self, runs: u32) -> f64 {
        self.with_vm(|run| {
            timed(runs, || {
                let _ = black_box(run());
            })
        })
    }
}
