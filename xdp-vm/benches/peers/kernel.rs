//! The running kernel, asked by `bpf(2)` to load the program and to run it over and over on the
//! packet (`BPF_PROG_TEST_RUN`). It takes the time itself.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use xdp_vm::insn::imm64;
use xdp_vm::{Insn, MapSpec};

use super::Peer;
use super::programs::{Programs, packet};

const BPF_MAP_CREATE: i32 = 0;
const BPF_PROG_LOAD: i32 = 5;
const BPF_PROG_TEST_RUN: i32 = 10;
const BPF_PROG_TYPE_XDP: u32 = 6;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
}

struct Kernel {
    program: OwnedFd,
    packet: Vec<u8>,
    /// What the program refers to.
    _maps: Vec<OwnedFd>,
}

pub(crate) fn make(programs: &Programs, name: &str) -> Result<Box<dyn Peer>, String> {
    let object = programs.xdp(name)?;
    let program = object.program(Some(name)).map_err(|e| e.to_string())?;
    let maps: Vec<_> = object
        .maps
        .iter()
        .map(create)
        .collect::<io::Result<_>>()
        .map_err(|e| format!("no map: {e}"))?;
    let slots = program.insns.iter().map(|insn| {
        let imm = match insn.is_ld_imm64() && insn.src == imm64::MAP {
            true => maps[insn.imm as usize].as_raw_fd(),
            false => insn.imm,
        };
        Insn { imm, ..*insn }.to_bytes()
    });
    let code: Vec<[u8; 8]> = slots.collect();
    let mut load = ProgLoad {
        prog_type: BPF_PROG_TYPE_XDP,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr().expose_provenance() as u64,
        license: c"GPL".as_ptr().expose_provenance() as u64,
    };
    let program = descriptor(BPF_PROG_LOAD, &mut load).map_err(|e| format!("not loaded: {e}"))?;
    Ok(Box::new(Kernel {
        program,
        packet: packet(),
        _maps: maps,
    }))
}

fn create(spec: &MapSpec) -> io::Result<OwnedFd> {
    let mut create = MapCreate {
        map_type: spec.kind as u32,
        key_size: spec.key_size,
        value_size: spec.value_size,
        max_entries: spec.max_entries,
    };
    descriptor(BPF_MAP_CREATE, &mut create)
}

fn descriptor<T>(command: i32, attributes: &mut T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: the call made it, for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf<T>(command: i32, attributes: &mut T) -> io::Result<i32> {
    let attributes = std::ptr::from_mut(attributes);
    // SAFETY: attributes of that command, as long as said; what they point to lives.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    match done {
        -1 => Err(io::Error::last_os_error()),
        done => Ok(done as i32),
    }
}

impl Kernel {
    /// What the program returned, and nanoseconds a run.
    fn run(&self, repeat: u32) -> io::Result<(u32, u32)> {
        let mut run = TestRun {
            prog_fd: self.program.as_raw_fd().cast_unsigned(),
            data_size_in: self.packet.len() as u32,
            data_in: self.packet.as_ptr().expose_provenance() as u64,
            repeat,
            ..TestRun::default()
        };
        bpf(BPF_PROG_TEST_RUN, &mut run)?;
        Ok((run.retval, run.duration))
    }
}

impl Peer for Kernel {
    fn result(&mut self) -> Result<u32, String> {
        self.run(1).map(|r| r.0).map_err(|e| e.to_string())
    }

    fn time(&mut self, runs: u32) -> f64 {
        self.run(runs).map_or(f64::NAN, |r| f64::from(r.1))
    }
}
