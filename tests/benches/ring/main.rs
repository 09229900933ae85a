//! The packet path over a pre-filled ring: instructions and time per packet.
//!
//! The stepped model writes a full ring of finished descriptors outside the measured part; then the
//! driver alone runs. Instructions are callgrind's, of the packet path alone, repeatable; times are
//! medians over rounds in which all cases take turns, so that a slow moment of the machine meets all
//! of them.
//!
//! `cargo bench -p ixdp-tests --bench ring` prints the table; `-- --check` fails where a case needs
//! more instructions than its limit.

mod callgrind;
mod cases;
mod floor;

use std::process::ExitCode;
use std::time::Instant;
use std::{env, io};

use cases::{CASES, Case, Row};

/// Packets of one ring: what one round measures.
const ROUND: usize = cases::RING as usize - 32;
/// Rounds that callgrind counts.
const COUNTED: usize = 20;
/// Rounds that the clock measures.
const TIMED: usize = 200;

/// The measured part. Callgrind finds it by its name, so it must stay a function of its own.
#[inline(never)]
fn measured(case: &mut dyn Case) -> usize {
    case.drain()
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let after = |flag: &str| args.iter().skip_while(|a| *a != flag).nth(1);
    let done = match after("--case") {
        Some(name) => run_for_callgrind(name),
        None => report(args.iter().any(|a| a == "--check")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error>;

/// In callgrind's process: one case, its packets on standard output.
fn run_for_callgrind(name: &str) -> Result<bool, Failure> {
    let row = CASES
        .iter()
        .find(|r| r.name == name)
        .ok_or("there is no such case")?;
    let mut case = (row.make)()?;
    // The first rounds touch memory and tables for the first time.
    for _ in 0..2 {
        case.fill();
        case.drain();
    }
    let mut packets = 0;
    for _ in 0..COUNTED {
        case.fill();
        packets += measured(&mut *case);
    }
    println!("packets {packets}");
    Ok(true)
}

fn report(check: bool) -> Result<bool, Failure> {
    let times = time_all()?;
    let scratch = tempfile::tempdir()?;
    println!(
        "batch {}, 64-byte frames, rings of {}",
        cases::BATCH,
        cases::RING
    );
    println!(
        "{:<44} {:>12} {:>7} {:>10} {:>17}",
        "", "instructions", "limit", "ns", "(spread)"
    );
    let mut within = true;
    for (row, time) in CASES.iter().zip(times) {
        let count = match callgrind::count(row.name, scratch.path()) {
            Ok(count) => Some(count.per_packet()),
            Err(missing @ callgrind::Error::Missing) if !check => {
                eprintln!("{missing}");
                None
            }
            Err(e) => return Err(e.into()),
        };
        print_row(row, count, &time);
        within &= !count
            .zip(row.limit)
            .is_some_and(|(count, limit)| count > limit);
    }
    println!(
        "\ninstructions: callgrind, inside the packet path only, {COUNTED} rings of {ROUND} packets\n\
         ns: median of {TIMED} rings, all cases in turn in one process; spread: 5th to 95th percentile"
    );
    if !within {
        println!("over the limit");
    }
    Ok(within || !check)
}

fn print_row(row: &Row, count: Option<f64>, time: &Spread) {
    let count = count.map_or("-".to_owned(), |c| format!("{c:.1}"));
    let limit = row.limit.map_or("-".to_owned(), |l| format!("{l:.0}"));
    let spread = format!("({:.1} to {:.1})", time.low, time.high);
    println!(
        "{:<44} {count:>12} {limit:>7} {:>10.1} {spread:>17}",
        row.name, time.median
    );
}

/// Time per packet in nanoseconds.
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

fn time_all() -> Result<Vec<Spread>, Failure> {
    let mut cases = CASES
        .iter()
        .map(|r| (r.make)())
        .collect::<Result<Vec<_>, _>>()?;
    let mut times = vec![Vec::with_capacity(TIMED); cases.len()];
    for _ in 0..TIMED {
        for ((case, times), row) in cases.iter_mut().zip(&mut times).zip(CASES) {
            case.fill();
            let start = Instant::now();
            let packets = measured(&mut **case);
            let took = start.elapsed();
            if packets < ROUND {
                let message = format!("{}: a round of {packets} packets, not {ROUND}", row.name);
                return Err(io::Error::other(message).into());
            }
            times.push(took.as_nanos() as f64 / packets as f64);
        }
    }
    Ok(times.into_iter().map(spread).collect())
}

fn spread(mut times: Vec<f64>) -> Spread {
    times.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    Spread {
        low: at(5),
        median: at(50),
        high: at(95),
    }
}
