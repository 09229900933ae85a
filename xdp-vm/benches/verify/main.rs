//! How long verification takes, beside the kernel's verifier on the same programs in the same run.
//! `cargo bench -p xdp-vm --bench verify`
//!
//! The programs are the samples, what Debian's xdp-tools installs (`XDP_OBJECTS` names another
//! folder), and two compiled by clang when the benchmark starts (`CLANG` names another): a load
//! balancer of 6,000 instructions with 30 calls, and 20,000 instructions of generated rules. Both
//! verifiers take turns, and a figure is the best of its turns: other processes only add to them. The
//! kernel's time is the one that it reports.
#![allow(unsafe_code)] // the counting allocator

#[allow(dead_code)] // the tests use more of it
#[path = "../../tests/verifier/asm.rs"]
mod asm;
#[path = "../../tests/verifier/kernel.rs"]
mod kernel;
mod sources;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{MapSpec, Program};

const ROUNDS: usize = 7;
/// A round repeats a verification for so long.
const TURN: Duration = Duration::from_millis(5);

/// What is promised: time of a processed instruction, and of the largest program, and its memory.
const MOST_NS: f64 = 1500.0;
const MOST_TIME: Duration = Duration::from_millis(500);
const MOST_BYTES: usize = 64 << 20;

/// What the process has allocated, now and at most.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // One thread allocates: no update is lost.
        let now = NOW.load(Relaxed) + layout.size();
        NOW.store(now, Relaxed);
        PEAK.store(PEAK.load(Relaxed).max(now), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        NOW.store(NOW.load(Relaxed) - layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What verifying a program took.
struct Row {
    name: String,
    instructions: usize,
    processed: u64,
    time: Duration,
    peak: usize,
    /// By the kernel: processed instructions and time, or why not.
    kernel: Result<(u64, Duration), String>,
}

impl Row {
    fn ns(&self) -> f64 {
        self.time.as_nanos() as f64 / self.processed as f64
    }
}

fn main() {
    let (objects, missing) = sources::objects();
    for reason in missing {
        println!("left out: {reason}");
    }
    let may_ask = kernel::may_be_asked();
    let mut rows = vec![];
    for (file, object) in &objects {
        for program in object.programs.iter().filter(|p| p.section.contains("xdp")) {
            let name = format!("{file}/{}", program.name);
            match measure(name.clone(), program, &object.maps, may_ask) {
                Ok(row) => rows.push(row),
                Err(e) => println!("left out: {name}: {e}; {}", opinion(program, &object.maps)),
            }
        }
    }
    rows.sort_by_key(|r| r.processed);
    report(&rows);
    judge(&rows);
}

/// What the kernel says of a program that is refused here.
fn opinion(program: &Program, maps: &[MapSpec]) -> String {
    match kernel::ask(program, maps) {
        Ok(kernel::Opinion::Accepted { processed }) => {
            format!("the kernel accepts it, with {processed} instructions followed")
        }
        Ok(kernel::Opinion::Refused(log)) => format!("the kernel refuses it too: {log}"),
        Err(e) => format!("the kernel is not asked: {e}"),
    }
}

fn measure(
    name: String,
    program: &Program,
    maps: &[MapSpec],
    may_ask: bool,
) -> Result<Row, String> {
    let config = Config::default();
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let (_, statistics) = verify(program, maps, &config).map_err(|e| e.to_string())?;
    let peak = PEAK.load(Relaxed) - before;
    let (mut best, mut kernels_best) = (Duration::MAX, Duration::MAX);
    let mut kernel = match may_ask {
        true => Ok(0),
        false => Err("it is not asked".to_owned()),
    };
    for _ in 0..ROUNDS {
        let turn = Instant::now();
        loop {
            let start = Instant::now();
            let _ = std::hint::black_box(verify(program, maps, &config));
            best = best.min(start.elapsed());
            if turn.elapsed() >= TURN {
                break;
            }
        }
        if kernel.is_ok() {
            kernel = match kernel::load(program, maps) {
                Ok(Ok(loaded)) => {
                    kernels_best = kernels_best.min(loaded.verification);
                    Ok(loaded.processed)
                }
                Ok(Err(log)) => Err(format!("it refuses: {}", log.trim())),
                Err(e) => Err(format!("bpf(2) gives {e}")),
            };
        }
    }
    Ok(Row {
        name,
        instructions: program.insns.len(),
        processed: statistics.processed,
        time: best,
        peak,
        kernel: kernel.map(|processed| (processed, kernels_best)),
    })
}

fn report(rows: &[Row]) {
    println!(
        "\n{:40}{:>8}{:>11}{:>11}{:>10}{:>10}{:>11}{:>11}{:>10}",
        "program", "insns", "processed", "ms", "ns each", "MiB", "kernel:", "ms", "ns each"
    );
    for row in rows {
        print!(
            "{:40}{:>8}{:>11}{:>11.3}{:>10.0}{:>10.2}",
            row.name,
            row.instructions,
            row.processed,
            row.time.as_secs_f64() * 1e3,
            row.ns(),
            row.peak as f64 / f64::from(1 << 20),
        );
        match &row.kernel {
            Ok((processed, time)) => println!(
                "{processed:>11}{:>11.3}{:>10.0}",
                time.as_secs_f64() * 1e3,
                time.as_nanos() as f64 / (*processed).max(1) as f64
            ),
            Err(e) => println!("  {}", &e[..e.len().min(60)]),
        }
    }
}

/// Small programs take their time for what is done once: a program of ten instructions is not judged
/// by the instruction.
fn judge(rows: &[Row]) {
    const LEAST_PROCESSED: u64 = 100;
    println!("\ntargets");
    let verdict = |met| if met { "met" } else { "MISSED" };
    let judged = rows.iter().filter(|r| r.processed >= LEAST_PROCESSED);
    match judged.max_by(|a, b| a.ns().total_cmp(&b.ns())) {
        Some(slowest) => println!(
            "at most {MOST_NS:.0} ns a processed instruction: {:.0} ({}): {}",
            slowest.ns(),
            slowest.name,
            verdict(slowest.ns() <= MOST_NS)
        ),
        None => println!("not judged: no program has {LEAST_PROCESSED} instructions to follow"),
    }
    if let Some(longest) = rows.iter().max_by_key(|r| r.time) {
        println!(
            "at most {MOST_TIME:?} for a program: {:?} ({}): {}",
            longest.time,
            longest.name,
            verdict(longest.time <= MOST_TIME)
        );
    }
    if let Some(largest) = rows.iter().max_by_key(|r| r.peak) {
        println!(
            "at most {} MiB: {:.1} ({}): {}",
            MOST_BYTES >> 20,
            largest.peak as f64 / f64::from(1 << 20),
            largest.name,
            verdict(largest.peak <= MOST_BYTES)
        );
    }
}
