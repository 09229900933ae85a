//! The sample programs, loaded, verified and run.
#![allow(dead_code)] // each test file uses its part

use std::path::PathBuf;

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Clock, Cpu, Executable, Maps, Object, XdpBuff};

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
        let maps = Maps::create(&object.maps, 2).unwrap();
        Bench::with_maps(object, program, &maps)
    }

    pub(crate) fn with_maps(object: &Object, program: Option<&str>, maps: &Maps) -> Self {
        let program = object.program(program).unwrap();
        let (verified, _) = verify(program, &object.maps, &Config::default())
            .unwrap_or_else(|e| panic!("{}: {e}", program.name));
        let mut cpu = Cpu::new(1);
        cpu.set_clock(Clock::Fixed(99));
        cpu.set_seed(7);
        Bench {
            maps: maps.clone(),
            cpu,
            program: Executable::new(&verified, maps).unwrap(),
        }
    }

    /// The verdict and the packet after.
    pub(crate) fn run(&mut self, packet: &[u8]) -> (u32, Vec<u8>) {
        let mut buffer = vec![0; 4096];
        buffer[256..256 + packet.len()].copy_from_slice(packet);
        let mut buff = XdpBuff::new(&mut buffer, 256, packet.len()).unwrap();
        let verdict = self.program.run(&mut self.cpu, &mut buff);
        (verdict, buff.packet().to_vec())
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
