//! The running kernel, asked by `bpf(2)` to load the program and to run it over and over on the
//! packet (`BPF_PROG_TEST_RUN`). It takes the time itself.

use super::programs::{Programs, packet};
use super::{Peer, bpf};

struct Kernel {
    program: bpf::Loaded,
    packet: Vec<u8>,
}

pub(crate) fn make(programs: &Programs, name: &str) -> Result<Box<dyn Peer>, String> {
    let object = programs.xdp(name)?;
    let program = object.program(Some(name)).map_err(|e| e.to_string())?;
    let program = bpf::load(program, &object.maps)
        .map_err(|e| format!("bpf(2) gives {e}"))?
        .map_err(|log| format!("not loaded: {log}"))?;
    Ok(Box::new(Kernel {
        program,
        packet: packet(),
    }))
}

impl Peer for Kernel {
    fn result(&mut self) -> Result<u32, String> {
        let run = self.program.repeat(&self.packet, 1);
        run.map(|r| r.0).map_err(|e| e.to_string())
    }

    fn time(&mut self, runs: u32) -> f64 {
        let run = self.program.repeat(&self.packet, runs);
        run.map_or(f64::NAN, |r| f64::from(r.1))
    }
}
