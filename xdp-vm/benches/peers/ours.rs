//! This crate's engines, as a worker uses them: the context is made anew for each packet.

use std::hint::black_box;

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Cpu, Engine, Executable, Maps, Options, XdpBuff};

use super::programs::{Programs, packet};
use super::{Peer, timed};

const HEADROOM: usize = 256;

struct Ours {
    executable: Executable,
    cpu: Cpu,
    buffer: Vec<u8>,
    len: usize,
}

pub(crate) fn jit(programs: &Programs, name: &str) -> Result<Box<dyn Peer>, String> {
    make(programs, name, Engine::Jit)
}

pub(crate) fn interpreter(programs: &Programs, name: &str) -> Result<Box<dyn Peer>, String> {
    make(programs, name, Engine::Interpreter)
}

fn make(programs: &Programs, name: &str, engine: Engine) -> Result<Box<dyn Peer>, String> {
    let object = programs.xdp(name)?;
    let maps = Maps::create(&object.maps, 1).map_err(|e| e.to_string())?;
    let program = object.program(Some(name)).map_err(|e| e.to_string())?;
    let (verified, _) =
        verify(program, &object.maps, &Config::default()).map_err(|e| e.to_string())?;
    let options = Options {
        engine,
        ..Options::default()
    };
    let executable =
        Executable::with_options(&verified, &maps, &options).map_err(|e| e.to_string())?;
    let packet = packet();
    let mut buffer = vec![0; 4096];
    buffer[HEADROOM..HEADROOM + packet.len()].copy_from_slice(&packet);
    Ok(Box::new(Ours {
        executable,
        cpu: Cpu::new(0),
        buffer,
        len: packet.len(),
    }))
}

impl Ours {
    /// In line, as the machine's own code is called from the loop that takes the time.
    #[inline(always)]
    fn run(&mut self) -> u32 {
        // The same each time, which the compiler of the benchmark is not to know.
        let len = black_box(self.len);
        match XdpBuff::new(&mut self.buffer, HEADROOM, len) {
            Ok(mut buff) => self.executable.run(&mut self.cpu, &mut buff),
            Err(e) => panic!("{e}"),
        }
    }
}

impl Peer for Ours {
    fn result(&mut self) -> Result<u32, String> {
        Ok(self.run())
    }

    fn time(&mut self, runs: u32) -> f64 {
        timed(runs, || {
            black_box(self.run());
        })
    }
}
