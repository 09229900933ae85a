//! What this crate promises of its engines, held against the figures of this run.

use super::{Column, NATIVE, quantile};

/// A promise on some programs.
struct Target {
    what: &'static str,
    programs: &'static [&'static str],
    ours: &'static str,
    theirs: &'static str,
    bound: Bound,
}

/// How two medians must stand to each other.
enum Bound {
    /// Theirs is at least so many times ours.
    Times(f64),
    /// Ours is at most so many times theirs.
    Within(f64),
    /// Ours is at most so many nanoseconds more.
    Plus(f64),
    Faster,
    /// Ours is not slower by more than both spreads.
    NotSlower,
}

const INTERPRETER: &str = "xdp-vm interpreter";
const JIT: &str = "xdp-vm JIT";

const TARGETS: [Target; 5] = [
    Target {
        what: "interpreter at least 5 times rbpf's",
        programs: &["parse", "count", "csum"],
        ours: INTERPRETER,
        theirs: "rbpf interpreter",
        bound: Bound::Times(5.0),
    },
    Target {
        what: "JIT at most 1.25 times native",
        programs: &["csum"],
        ours: JIT,
        theirs: NATIVE,
        bound: Bound::Within(1.25),
    },
    Target {
        what: "JIT at most native and 3 ns",
        programs: &["parse", "count"],
        ours: JIT,
        theirs: NATIVE,
        bound: Bound::Plus(3.0),
    },
    Target {
        what: "JIT faster than rbpf's",
        programs: &["parse", "count", "csum"],
        ours: JIT,
        theirs: "rbpf JIT",
        bound: Bound::Faster,
    },
    Target {
        what: "JIT not slower than rbpf's beyond the spread",
        programs: &["alu"],
        ours: JIT,
        theirs: "rbpf JIT",
        bound: Bound::NotSlower,
    },
];

/// Prints each promise with what came of it.
pub(crate) fn report(columns: &[Column]) {
    println!("\ntargets");
    for target in TARGETS {
        for &program in target.programs {
            let find = |peer| {
                let mut all = columns.iter();
                all.find(|c| c.peer == peer && c.program == program)
                    .map(|c| &c.times[..])
            };
            let verdict = match (find(target.ours), find(target.theirs)) {
                (Some(ours), Some(theirs)) => target.bound.verdict(ours, theirs),
                _ => "not judged: one of them did not run".to_owned(),
            };
            println!("{:48}{program:8}{verdict}", target.what);
        }
    }
}

impl Bound {
    /// Of sorted times.
    fn verdict(&self, ours: &[f64], theirs: &[f64]) -> String {
        let (a, b) = (quantile(ours, 0.5), quantile(theirs, 0.5));
        let spread = half_spread(ours) + half_spread(theirs);
        let (figure, met) = match *self {
            Bound::Times(least) => (format!("{:.1} times", b / a), b >= least * a),
            Bound::Within(most) => (format!("{:.2} times", a / b), a <= most * b),
            Bound::Plus(most) => (format!("{:+.1} ns", a - b), a <= b + most),
            Bound::Faster => (format!("{:.2} times", b / a), a < b),
            Bound::NotSlower => (format!("{:.2} times", b / a), a <= b + spread),
        };
        let met = match (self, met) {
            (Bound::Faster, _) if (a - b).abs() <= doubt(ours) + doubt(theirs) => {
                "equal, as far as this run can tell"
            }
            (_, true) => "met",
            (_, false) => "MISSED",
        };
        format!("{figure:14}{met}")
    }
}

/// Half of what lies between the quartiles.
pub(crate) fn half_spread(times: &[f64]) -> f64 {
    (quantile(times, 0.75) - quantile(times, 0.25)) / 2.0
}

/// How far a median may be off: three times its standard error, where times are spread as chance has it.
fn doubt(times: &[f64]) -> f64 {
    3.0 * 1.86 * half_spread(times) / (times.len() as f64).sqrt()
}
