//! Packets of a capture through a program, in memory that lies as in the kernel's test runs.

use std::path::Path;

use datapath::Verdict;
use emulated_nic::wires::CaptureFile;
use ixdp::LoadedProgram;
use ixdp::xdp_vm::{Clock, Cpu, MIN_PACKET, Maps, Redirect, TAIL_RESERVE, XdpBuff};
use serde_json::{Value, json};

use crate::cli::args::Test;
use crate::cli::failure::Failure;
use crate::cli::output::complain;

/// Bytes of the kernel's buffer, and of those before the packet.
const BUFFER: usize = 4096;
const HEADROOM: usize = 256;
/// Longest packet.
pub(super) const LONGEST: usize = BUFFER - HEADROOM - TAIL_RESERVE;

/// What became of a packet.
#[derive(Debug)]
pub(super) struct Ran {
    /// Its number in the capture, from 0.
    pub(super) index: u64,
    /// Its bytes before the program.
    pub(super) before: Vec<u8>,
    /// What the program did; or why it did not get the packet.
    pub(super) result: Result<Done, String>,
}

/// What the program did.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// What it returned.
    pub(super) verdict: u32,
    /// Where it sent the packet, where its verdict is to redirect.
    pub(super) redirect: Option<Redirect>,
    /// The packet after it.
    pub(super) bytes: Vec<u8>,
}

/// Calls `each` with what became of each packet, in the order of the capture.
pub(super) fn run(
    args: &Test,
    program: &LoadedProgram,
    mut each: impl FnMut(Ran) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut cpu = Cpu::new(0);
    cpu.set_seed(0);
    let mut buffer = vec![0; BUFFER];
    let mut capture = CaptureFile::open(&args.packets)?;
    while let Some(packet) = capture.next_packet()? {
        let before = packet.data.to_vec();
        let result = match before.len() {
            ..MIN_PACKET => Err(format!(
                "it has {} bytes, less than an Ethernet header",
                before.len()
            )),
            MIN_PACKET..=LONGEST => {
                buffer.fill(0);
                buffer[HEADROOM..HEADROOM + before.len()].copy_from_slice(&before);
                let mut buff = XdpBuff::new(&mut buffer, HEADROOM, before.len())?;
                buff.set_rx(args.ifindex, args.queue);
                cpu.set_clock(Clock::Fixed(packet.timestamp.as_nanos() as u64));
                let verdict = program.executable().run(&mut cpu, &mut buff);
                let redirect = cpu.take_redirect();
                Ok(Done {
                    verdict,
                    redirect: redirect.filter(|_| verdict == Verdict::Redirect as u32),
                    bytes: buff.packet().to_vec(),
                })
            }
            length => Err(format!(
                "it has {length} bytes, and a test run takes {LONGEST}"
            )),
        };
        if args.trace {
            cpu.trace.drain(|line| complain(&format!("trace: {line}")));
        }
        let index = packet.index;
        each(Ran {
            index,
            before,
            result,
        })?;
    }
    Ok(())
}

/// A verdict as it is written.
pub(super) fn verdict_name(verdict: u32) -> String {
    match Verdict::from_return(verdict) {
        Some(known) => known.name().to_owned(),
        None => verdict.to_string(),
    }
}

/// A target as it is written.
pub(super) fn redirect_value(redirect: &Redirect, maps: &Maps) -> Value {
    let name = |map: u32| maps.at(map as usize).map_or("?", |m| m.name()).to_owned();
    match *redirect {
        Redirect::Interface { ifindex } => json!({"interface": ifindex}),
        Redirect::Entry { map, key, .. } => json!({"map": name(map), "key": key}),
        Redirect::Broadcast {
            map,
            exclude_ingress,
        } => json!({"map": name(map), "broadcast": true, "exclude_ingress": exclude_ingress}),
    }
}

/// Reads all packets of a capture.
pub(super) fn packets(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let mut capture = CaptureFile::open(path)?;
    let mut packets = Vec::new();
    while let Some(packet) = capture.next_packet()? {
        packets.push(packet.data.to_vec());
    }
    Ok(packets)
}
