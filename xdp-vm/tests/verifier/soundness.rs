//! What the verifier accepts, run: in the checked interpreter without a fault, and in the other
//! engines with the same outcome. Programs are those of the table, the samples, the objects of the
//! distribution's `xdp-tools`, and mutations of all.
//!
//! `XDP_VM_RUNS=100000000 cargo test --release -p xdp-vm --test verifier soundness -- --nocapture`
//! makes so many runs; `IXDP_FUZZ_SEED` starts elsewhere. A finding is printed as lines for the table
//! of programs, to be kept there.

use std::path::Path;
use std::time::Instant;

use fastrand::Rng;
use xdp_vm::verifier::{Config, verify};
use xdp_vm::{
    Checked, Clock, Cpu, Engine, Executable, ExecutableError, Map, MapSpec, Maps, Object, Options,
    Program, Redirect, XdpBuff,
};

use crate::fuzz::{listing, mutate, seed};
use crate::{accepted, asm, maps, refused};

/// Inputs that each accepted program is given.
const INPUTS: u64 = 250;
/// Instructions of a run: more than the verifier follows in all, so that only an endless loop gets
/// there.
const STEPS: u64 = 2_000_000;
/// For the verifier, so that no mutation takes long.
const BUDGET: u64 = 50_000;

/// A program and the maps that it was written for.
struct Source {
    program: Program,
    maps: Vec<MapSpec>,
}

/// Programs of the table, and of all objects that are at hand.
fn sources() -> Vec<Source> {
    let texts = accepted().map(|c| c.text);
    let texts = texts.chain(refused().map(|c| c.text));
    let mut sources: Vec<Source> = texts
        .map(|text| Source {
            program: asm::program(text),
            maps: maps(),
        })
        .collect();
    let written = sources.len();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ixdp/programs");
    add_objects(&samples, &mut sources);
    assert!(
        sources.len() > written,
        "no samples in {}",
        samples.display()
    );
    let before = sources.len();
    for folder in [
        "/usr/lib/bpf",
        "/usr/lib/x86_64-linux-gnu/bpf",
        "/usr/lib64/bpf",
    ] {
        add_objects(Path::new(folder), &mut sources);
    }
    match sources.len() - before {
        0 => println!("xdp-tools is not installed: its programs are left out"),
        n => println!("{n} programs of xdp-tools"),
    }
    sources
}

fn add_objects(folder: &Path, sources: &mut Vec<Source>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "o"))
    {
        let Ok(object) = std::fs::read(path).map(|b| Object::parse(&b)) else {
            continue;
        };
        // What cannot be loaded is for the loader's tests.
        let Ok(object) = object else { continue };
        if Maps::create(&object.maps, 1).is_err() {
            continue;
        }
        sources.extend(object.programs.iter().map(|program| Source {
            program: program.clone(),
            maps: object.maps.clone(),
        }));
    }
}

/// What can be seen of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    r0: u32,
    meta: Vec<u8>,
    packet: Vec<u8>,
    redirect: Option<Redirect>,
}

/// One engine with maps of its own.
struct Runner {
    name: &'static str,
    maps: Maps,
    cpu: Cpu,
    form: Form,
}

enum Form {
    Checked(Checked),
    Executable(Executable),
}

impl Runner {
    fn new(name: &'static str, maps: Maps, form: Form) -> Self {
        let mut cpu = Cpu::new(0);
        cpu.set_clock(Clock::Fixed(1_000_000_007));
        cpu.set_seed(1);
        Runner {
            name,
            maps,
            cpu,
            form,
        }
    }

    fn run(&mut self, packet: &[u8]) -> Result<Outcome, String> {
        const HEADROOM: usize = 256;
        let mut buffer = vec![0; HEADROOM + packet.len() + 600];
        buffer[HEADROOM..HEADROOM + packet.len()].copy_from_slice(packet);
        let mut buff = XdpBuff::new(&mut buffer, HEADROOM, packet.len()).expect("it fits");
        let r0 = match &self.form {
            Form::Checked(checked) => {
                let ran = checked.run(&mut self.cpu, &mut buff, STEPS);
                ran.map_err(|fault| fault.to_string())?.r0 as u32
            }
            Form::Executable(executable) => executable.run(&mut self.cpu, &mut buff),
        };
        Ok(Outcome {
            r0,
            meta: buff.meta().to_vec(),
            packet: buff.packet().to_vec(),
            redirect: self.cpu.take_redirect(),
        })
    }
}

/// A key, and the values that it has.
type Entry = (Vec<u8>, Option<Vec<Vec<u8>>>);

/// Everything that the user can see in a map.
fn contents(map: &Map) -> Vec<Entry> {
    let mut all: Vec<_> = map
        .keys()
        .map(|key| {
            let one = map.lookup(&key).ok().flatten().map(|v| vec![v]);
            let value = one.or_else(|| map.lookup_percpu(&key).ok().flatten());
            (key, value)
        })
        .collect();
    all.sort();
    all
}

/// An accepted program was run.
struct Tried {
    runs: u64,
    /// The JIT too; else there is none, or the program tail-calls.
    compiled: bool,
}

/// Runs an accepted program on `times` inputs in every engine.
///
/// # Errors
/// What went wrong, in words.
fn try_all(source: &Source, rng: &mut Rng, times: u64) -> Result<Option<Tried>, String> {
    let config = Config {
        budget: BUDGET,
        ..Config::default()
    };
    let Ok((verified, _)) = verify(&source.program, &source.maps, &config) else {
        return Ok(None);
    };
    let names_maps = source.program.insns.iter().any(|i| i.is_ld_imm64());
    let specs = if names_maps { &source.maps[..] } else { &[] };
    let fresh = || Maps::create(specs, 1).map_err(|e| e.to_string());
    let maps = fresh()?;
    let checked = Checked::new(&source.program, &maps);
    let mut first = Runner::new("checked", maps, Form::Checked(checked));
    let mut others = vec![];
    let mut compiled = true;
    let tail_calls = source
        .program
        .insns
        .iter()
        .any(|i| i.code == 0x85 && i.imm == 12);
    for (name, engine) in [("interpreter", Engine::Interpreter), ("jit", Engine::Jit)] {
        let options = Options {
            engine,
            ..Options::default()
        };
        let maps = fresh()?;
        match Executable::with_options(&verified, &maps, &options) {
            Ok(executable) => others.push(Runner::new(name, maps, Form::Executable(executable))),
            // Another machine, or tail calls, which only the interpreter makes.
            Err(ExecutableError::NoJit) => compiled = false,
            Err(ExecutableError::Instruction { .. }) if engine == Engine::Jit && tail_calls => {
                compiled = false;
            }
            Err(e) => return Err(format!("{name}: {e}")),
        }
    }
    for _ in 0..times {
        let packet = packet(rng);
        let expected = first
            .run(&packet)
            .map_err(|e| format!("{e}\non {packet:02x?}"))?;
        for other in &mut others {
            let outcome = other.run(&packet)?;
            if outcome != expected {
                let name = other.name;
                return Err(format!(
                    "checked: {expected:x?}\n{name}: {outcome:x?}\non {packet:02x?}"
                ));
            }
        }
    }
    for other in &others {
        for (a, b) in first.maps.iter().zip(other.maps.iter()) {
            let (a, b) = (contents(a), contents(b));
            if a != b {
                return Err(format!("maps: checked {a:x?}\n{}: {b:x?}", other.name));
            }
        }
    }
    Ok(Some(Tried {
        runs: times,
        compiled,
    }))
}

/// Bytes of all kinds, or the headers of a frame with some of them changed.
fn packet(rng: &mut Rng) -> Vec<u8> {
    const FRAME: [u8; 42] = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcd,
        10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0, 53, 0, 8, 0, 0,
    ];
    let len = match rng.u8(0..4) {
        0 => rng.usize(0..20),
        1 => rng.usize(14..70),
        _ => rng.usize(42..300),
    };
    let small = rng.bool();
    let mut bytes: Vec<u8> = (0..len)
        .map(|_| if small { rng.u8(0..8) } else { rng.u8(..) })
        .collect();
    if rng.bool() {
        let headers = len.min(FRAME.len());
        bytes[..headers].copy_from_slice(&FRAME[..headers]);
        for _ in 0..rng.usize(0..4) {
            if len > 0 {
                bytes[rng.usize(0..len)] = rng.u8(..);
            }
        }
    }
    bytes
}

/// Runs to make: by `XDP_VM_RUNS`.
fn runs() -> u64 {
    let runs = std::env::var("XDP_VM_RUNS");
    runs.ok().and_then(|n| n.parse().ok()).unwrap_or(50_000)
}

#[test]
fn accepted_programs_run_without_a_fault_and_alike_in_every_engine() {
    let sources = sources();
    let mut rng = seed(11);
    let (wanted, began) = (runs(), Instant::now());
    let (mut done, mut accepted, mut tried, mut told) = (0, 0u64, 0u64, 0);
    let mut interpreted = 0u64;
    let others: Vec<Program> = sources.iter().map(|s| s.program.clone()).collect();
    let mut unchanged = sources.iter();
    while done < wanted || unchanged.len() > 0 {
        // Each as it is first, then mutations.
        let source = match unchanged.next() {
            Some(source) => Source {
                program: source.program.clone(),
                maps: source.maps.clone(),
            },
            None => {
                let base = &sources[rng.usize(0..sources.len())];
                let mut program = base.program.clone();
                mutate(&mut rng, &mut program, &others);
                Source {
                    program,
                    maps: base.maps.clone(),
                }
            }
        };
        tried += 1;
        match try_all(&source, &mut rng, INPUTS) {
            Ok(None) => {}
            Ok(Some(outcome)) => {
                done += outcome.runs;
                accepted += 1;
                interpreted += u64::from(!outcome.compiled);
            }
            Err(what) => panic!(
                "{}, after {done} runs: {what}\n{}",
                source.program.name,
                listing(&source.program)
            ),
        }
        if done * 10 / wanted.max(1) > told {
            told = done * 10 / wanted.max(1);
            let s = began.elapsed().as_secs();
            println!("{done} runs of {accepted} programs, {tried} tried, {s} s");
        }
    }
    println!(
        "{done} runs of {accepted} accepted programs of {tried}: no finding; {interpreted} of them without the JIT"
    );
    assert!(
        accepted * 100 > tried,
        "{accepted} of {tried} accepted: the mutator has no teeth"
    );
}

/// Found by the test above: the engines read a field of the context without extending its sign.
#[test]
fn a_field_of_the_context_is_read_with_its_sign() {
    for (offset, is_address) in [(0, true), (4, true), (8, true), (12, false), (16, false)] {
        let text =
            format!(".raw 0x81 2 1 {offset} 0\n r0 = 0\n if r2 s< 0 goto +1\n r0 = 1\n exit");
        let program = asm::program(&text);
        let Ok((verified, _)) = verify(&program, &[], &Config::default()) else {
            assert!(is_address, "{offset}");
            continue;
        };
        assert!(!is_address, "{offset}");
        let maps = Maps::create(&[], 1).expect("no map");
        let checked = Checked::new(&program, &maps);
        for (number, is_negative) in [(7, false), (u32::MAX - 7, true)] {
            let mut buffer = [0; 512];
            let mut cpu = Cpu::new(0);
            let mut buff = XdpBuff::new(&mut buffer, 256, 64).expect("it fits");
            buff.set_rx(number, number);
            let wanted = u64::from(!is_negative);
            let ran = checked.run(&mut cpu, &mut buff, STEPS).expect("no fault");
            assert_eq!(ran.r0, wanted, "checked, {offset}");
            for engine in [Engine::Interpreter, Engine::Jit] {
                let options = Options {
                    engine,
                    ..Options::default()
                };
                let executable = match Executable::with_options(&verified, &maps, &options) {
                    Ok(executable) => executable,
                    Err(ExecutableError::NoJit) if engine == Engine::Jit => continue,
                    Err(error) => panic!("{error}"),
                };
                let r0 = executable.run(&mut cpu, &mut buff);
                assert_eq!(u64::from(r0), wanted, "{engine:?}, {offset}");
            }
        }
    }
}
