//! The sample programs, loaded, verified and run.
#![allow(dead_code)] // each test file uses its part

use std::path::PathBuf;

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Clock, Cpu, Engine, Executable, Maps, Object, Options, XdpBuff};

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../ixdp/programs")
}

pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let path = folder().join(format!("{name}.bpf.o"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub(crate) fn load(name: &str) -> Object {
    Object::parse(&bytes(name)).unwrap()
}

/// One program with its maps and a worker.
pub(crate) struct Bench {
    pub(crate) maps: Maps,
    pub(crate) cpu: Cpu,
    program: Executable,
}

impl Bench {
    pub(crate) fn new(object: &Object, program: Option<&str>) -> Self {
        Bench::with_engine(object, program, Engine::Auto)
    }

    pub(crate) fn with_engine(object: &Object, program: Option<&str>, engine: Engine) -> Self {
        let maps = Maps::create(&object.maps, 2).unwrap();
        let options = Options {
            engine,
            ..Options::default()
        };
        Bench::with_options(object, program, &maps, &options)
    }

    pub(crate) fn with_maps(object: &Object, program: Option<&str>, maps: &Maps) -> Self {
        Bench::with_options(object, program, maps, &Options::default())
    }

    pub(crate) fn with_options(
        object: &Object,
        program: Option<&str>,
        maps: &Maps,
        options: &Options,
    ) -> Self {
        let program = object.program(program).unwrap();
        let (verified, _) = verify(program, &object.maps, &Config::default())
            .unwrap_or_else(|e| panic!("{}: {e}", program.name));
        let program = Executable::with_options(&verified, maps, options).unwrap();
        Bench::of(maps.clone(), program, 1)
    }

    /// On the worker's slot `slot`.
    pub(crate) fn of(maps: Maps, program: Executable, slot: u32) -> Self {
        let mut cpu = Cpu::new(slot);
        cpu.set_clock(Clock::Fixed(99));
        cpu.set_seed(7);
        Bench { maps, cpu, program }
    }

    /// The verdict and the packet after.
    pub(crate) fn run(&mut self, packet: &[u8]) -> (u32, Vec<u8>) {
        let (verdict, meta, after) = self.run_with_meta(packet);
        (verdict, after[meta..].to_vec())
    }

    /// The verdict, the bytes of metadata, and metadata and packet after.
    pub(crate) fn run_with_meta(&mut self, packet: &[u8]) -> (u32, usize, Vec<u8>) {
        let mut buffer = vec![0; 4096];
        buffer[256..256 + packet.len()].copy_from_slice(packet);
        let mut buff = XdpBuff::new(&mut buffer, 256, packet.len()).unwrap();
        let verdict = self.program.run(&mut self.cpu, &mut buff);
        let after = [buff.meta(), buff.packet()].concat();
        (verdict, buff.meta_len(), after)
    }

    /// The number under a key, added up over the CPUs.
    pub(crate) fn sum(&self, map: &str, key: u32) -> u64 {
        let map = self.maps.get(map).unwrap();
        let key = key.to_le_bytes();
        let values = match map.spec().kind.is_percpu() {
            true => map.lookup_percpu(&key).unwrap(),
            false => map.lookup(&key).unwrap().map(|v| vec![v]),
        };
        let number = |v: Vec<u8>| u64::from_le_bytes(v.try_into().unwrap());
        values.unwrap_or_default().into_iter().map(number).sum()
    }

    /// A global variable of 8 bytes.
    pub(crate) fn variable(&self, section: &str, name: &str) -> u64 {
        let map = self.maps.get(section).unwrap();
        let variable = map
            .spec()
            .variables
            .iter()
            .find(|v| v.name == name)
            .unwrap();
        let value = map.lookup(&[0; 4]).unwrap().unwrap();
        u64::from_le_bytes(value[variable.offset as usize..][..8].try_into().unwrap())
    }
}

pub(crate) const ABORTED: u32 = 0;
pub(crate) const DROP: u32 = 1;
pub(crate) const PASS: u32 = 2;
pub(crate) const TX: u32 = 3;

/// Frames of the kinds that the programs tell apart, mutated and cut.
pub(crate) fn packet(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
    for _ in 0..random.usize(0..4) {
        p.extend([[0x81, 0x00], [0x88, 0xa8]][random.usize(0..2)]);
        p.extend([0, random.u8(..)]);
    }
    match random.u8(0..4) {
        0 => {
            let protocol = [17, 17, 6, random.u8(..)][random.usize(0..4)];
            p.extend([8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, protocol, 0, 0]);
            p.extend([10, 0, 0, random.u8(0..5), 10, 0, 0, 9]);
            p.extend([1, 2, 0, [9, 53][random.usize(0..2)], 0, 8, 0, 0]);
        }
        1 => {
            let next = || [0, 43, 44, 60, 17, 58];
            p.extend([
                0x86,
                0xdd,
                0x60,
                0,
                0,
                0,
                0,
                60,
                next()[random.usize(0..6)],
                64,
            ]);
            p.extend([0xfd; 32]);
            for _ in 0..random.usize(0..8) {
                p.extend([
                    next()[random.usize(0..6)],
                    random.u8(0..2),
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                ]);
            }
        }
        2 => p.extend([8, 6, 0, 1]),
        _ => p.extend((0..random.usize(0..80)).map(|_| random.u8(..))),
    }
    if random.bool() {
        let longer = [64, 128, 1500, 3520][random.usize(0..4)];
        p.resize(random.usize(p.len()..=p.len().max(longer)), 0xa5);
    }
    for _ in 0..random.usize(0..3) {
        let at = random.usize(0..p.len());
        p[at] = random.u8(..);
    }
    if random.u8(0..4) == 0 {
        p.truncate(random.usize(14..=p.len().max(14)));
    }
    // Shorter ones are refused by the kernel's test run, not by the program.
    p.resize(p.len().max(14), 0);
    p
}
