//! rbpf, in its quickest way to be called: the context is the memory that the program gets.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::hint::black_box;

use rbpf::EbpfVmRaw;

use super::programs::{Packet, Programs, packet};
use super::{Peer, timed};

struct Rbpf {
    vm: EbpfVmRaw<'static>,
    context: Packet,
    jit: bool,
    /// What `context` points to.
    _packet: Vec<u8>,
}

/// The array of `count`, as its helper knows it.
struct Counts(UnsafeCell<[u64; 256]>);

// SAFETY: one thread runs the benchmark.
unsafe impl Sync for Counts {}

static COUNTS: Counts = Counts(UnsafeCell::new([0; 256]));

/// `map_lookup` of the programs.
fn lookup(_map: u64, key: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: programs give the address of a key on their stack.
    let key = unsafe { std::ptr::with_exposed_provenance::<u32>(key as usize).read() };
    match key {
        0..256 => COUNTS.0.get().expose_provenance() as u64 + 8 * u64::from(key),
        _ => 0,
    }
}

pub(crate) fn jit(programs: &Programs, name: &str) -> Result<Box<dyn Peer>, String> {
    let mut rbpf = make(programs, name, true)?;
    rbpf.vm.jit_compile().map_err(|e| e.to_string())?;
    Ok(Box::new(rbpf))
}

pub(crate) fn interpreter(programs: &Programs, name: &str) -> Result<Box<dyn Peer>, String> {
    Ok(Box::new(make(programs, name, false)?))
}

fn make(programs: &Programs, name: &str, jit: bool) -> Result<Rbpf, String> {
    let code: &'static [u8] = programs.vm(name)?.leak();
    let mut vm = EbpfVmRaw::new(Some(code)).map_err(|e| e.to_string())?;
    vm.register_helper(1, lookup).map_err(|e| e.to_string())?;
    let packet = packet();
    let data = packet.as_ptr().expose_provenance() as u64;
    let end = data + packet.len() as u64;
    let counts = COUNTS.0.get().expose_provenance() as u64;
    vm.register_allowed_memory(data..end);
    vm.register_allowed_memory(counts..counts + 8 * 256);
    Ok(Rbpf {
        vm,
        context: Packet { data, end },
        jit,
        _packet: packet,
    })
}

impl Rbpf {
    #[inline]
    fn run(&mut self) -> Result<u64, rbpf::lib::Error> {
        // SAFETY: the context as bytes, for as long as the call; the program reads the packet that
        // `self` owns.
        unsafe {
            let context = std::ptr::from_mut(&mut self.context).cast();
            let context = std::slice::from_raw_parts_mut(context, size_of::<Packet>());
            match self.jit {
                true => self.vm.execute_program_jit(context),
                false => self.vm.execute_program(context),
            }
        }
    }
}

impl Peer for Rbpf {
    fn result(&mut self) -> Result<u32, String> {
        self.run().map(|r| r as u32).map_err(|e| e.to_string())
    }

    fn time(&mut self, runs: u32) -> f64 {
        timed(runs, || {
            let _ = black_box(self.run());
        })
    }
}
