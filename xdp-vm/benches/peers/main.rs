//! Engines side by side: the interpreter and the compiler of this crate, other VMs, the kernel, and
//! the same C compiled for the machine. `cargo bench -p xdp-vm --bench peers`
//!
//! All run the same sources (`programs/`) on the same packet, in turns: a round times each once, in an
//! order of its own, and a figure is the median of the rounds, so that what disturbs the machine disturbs all of them. The
//! spread is that of the middle half of the rounds. Programs are compiled by clang when the benchmark
//! starts (`CLANG` names another). What the crate promises of its engines is judged at the end.

#[allow(dead_code)] // the tests use more of it
#[path = "../../tests/verifier/asm.rs"]
mod asm;
#[path = "../../tests/verifier/kernel.rs"]
mod bpf;
mod compile;
mod kernel;
mod native;
mod ours;
mod programs;
mod rbpf_vm;
mod sbpf_vm;
mod targets;

use std::time::Instant;

use programs::{NAMES, Programs};

/// Odd, so that the median is one of them.
const ROUNDS: usize = 201;
/// How long one peer runs in a round: less than what the scheduler gives to others in between, which so
/// spoils few rounds and leaves the median alone.
const TURN_NS: f64 = 400_000.0;
/// The column that others are compared with.
const NATIVE: &str = "native, clang -O2";
/// Takes what a run costs that no program is responsible for.
const NOTHING: &str = "nothing";

/// One engine with one program, ready to run it on the packet.
pub(crate) trait Peer {
    /// Runs the program once and gives the low half of what it returned.
    fn result(&mut self) -> Result<u32, String>;

    /// Runs it that often and gives nanoseconds a run.
    fn time(&mut self, runs: u32) -> f64;
}

/// Nanoseconds a run of `run`, called `runs` times.
pub(crate) fn timed(runs: u32, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..runs {
        run();
    }
    start.elapsed().as_nanos() as f64 / f64::from(runs)
}

/// An engine by name: how to make one for a program, or why it cannot run.
type Make = fn(&Programs, &str) -> Result<Box<dyn Peer>, String>;

const PEERS: [(&str, Make); 8] = [
    (NATIVE, native::make),
    ("xdp-vm JIT", ours::jit),
    ("xdp-vm interpreter", ours::interpreter),
    ("rbpf JIT", rbpf_vm::jit),
    ("rbpf interpreter", rbpf_vm::interpreter),
    ("sbpf JIT", sbpf_vm::jit),
    ("sbpf interpreter", sbpf_vm::interpreter),
    ("kernel", kernel::make),
];

pub(crate) struct Column {
    peer: &'static str,
    program: &'static str,
    engine: Box<dyn Peer>,
    runs: u32,
    times: Vec<f64>,
}

fn main() {
    let programs = match Programs::compile() {
        Ok(programs) => programs,
        Err(cause) => return println!("skipped: {cause}"),
    };
    let mut columns = columns(&programs);
    // In another order each round: who runs after whom is not to matter.
    let mut order: Vec<usize> = (0..columns.len()).collect();
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..ROUNDS {
        rng.shuffle(&mut order);
        for &n in &order {
            let column = &mut columns[n];
            let time = column.engine.time(column.runs);
            column.times.push(time);
        }
    }
    columns
        .iter_mut()
        .for_each(|c| c.times.sort_by(f64::total_cmp));
    report(&columns);
    targets::report(&columns);
    compile::report();
}

/// All that can run, warmed up, with as many runs a turn as fill it.
fn columns(programs: &Programs) -> Vec<Column> {
    let mut columns = Vec::new();
    for program in NAMES {
        let mut expected = None;
        for (peer, make) in PEERS {
            let made = make(programs, program).and_then(|mut engine| {
                let result = engine.result()?;
                // The first is the machine itself.
                let expected = *expected.get_or_insert(result);
                match result == expected {
                    true => Ok(engine),
                    false => Err(format!("it gave {result:#x}, not {expected:#x}")),
                }
            });
            let mut engine = match made {
                Ok(engine) => engine,
                Err(cause) => {
                    println!("{program}: no {peer}: {cause}");
                    continue;
                }
            };
            let once = engine.time(100).min(engine.time(100)).max(1.0);
            columns.push(Column {
                peer,
                program,
                engine,
                runs: (TURN_NS / once).clamp(3.0, 1e6) as u32,
                times: Vec::with_capacity(ROUNDS),
            });
        }
    }
    columns
}

fn report(columns: &[Column]) {
    println!(
        "\nnanoseconds a run, median of {ROUNDS} rounds ± half the spread of the middle half; in \
         brackets: times the native code"
    );
    let shown = NAMES.iter().filter(|name| **name != NOTHING);
    print!("{:22}", "");
    shown.clone().for_each(|name| print!("{name:>27}"));
    println!();
    let find = |peer: &str, program: &str| {
        let mut all = columns.iter();
        all.find(|c| c.peer == peer && c.program == program)
            .map(|c| &c.times[..])
    };
    for (peer, _) in PEERS {
        let nets = if peer == "kernel" { 2 } else { 1 };
        for net in 0..nets {
            let label = if net == 0 { peer } else { "kernel, net" };
            print!("{label:22}");
            for program in shown.clone() {
                let cell = find(peer, program).map(|times| {
                    let harness = match net {
                        0 => 0.0,
                        _ => find(peer, NOTHING).map_or(0.0, |t| quantile(t, 0.5)),
                    };
                    let time = quantile(times, 0.5) - harness;
                    let spread = targets::half_spread(times);
                    let ratio = find(NATIVE, program).map_or(f64::NAN, |t| time / quantile(t, 0.5));
                    format!("{time:.1} ±{spread:.1} ({ratio:.2})")
                });
                print!("{:>27}", cell.as_deref().unwrap_or("–"));
            }
            println!();
        }
    }
    if columns.iter().any(|c| c.peer == "kernel") {
        println!(
            "kernel, net: less what its test run takes for a program that only returns; its own \
             count has whole nanoseconds"
        );
    }
}

/// Of sorted times.
pub(crate) fn quantile(times: &[f64], q: f64) -> f64 {
    times[((times.len() - 1) as f64 * q).round() as usize]
}
