//! Figures of a run: a line an interval, and the summary at its end.

use std::collections::BTreeMap;
use std::io;

use datapath::{Fate, Tally, Verdict};
use ixdp::{Report, Snapshot};
use serde::Serialize;

use crate::cli::output::{Output, figures, protocol, rate, thousands};

/// Counts of the figures of one interval.
#[derive(Serialize)]
struct Interval<'a> {
    kind: &'static str,
    /// Seconds since the start.
    elapsed: f64,
    /// Length of the interval.
    seconds: f64,
    packets: u64,
    bytes: u64,
    pps: u64,
    errors: u64,
    missed: u64,
    /// Packets of each queue.
    queues: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocols: Option<BTreeMap<String, u64>>,
    /// Why the rate is zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle: Option<&'a str>,
}

/// Prints what happened between two moments. `protocols` are packets by IP protocol in the interval.
pub(crate) fn interval(
    out: &mut Output,
    (before, now): (&Snapshot, &Snapshot),
    protocols: Option<Vec<u64>>,
) -> io::Result<()> {
    let seconds = now.seconds - before.seconds;
    let packets = now.total.received - before.total.received;
    let errors = now.errors() - before.errors();
    let idle = (packets == 0).then(|| idle(before, now));
    if let Some(protocols) = &protocols {
        for (number, packets) in moved(protocols) {
            out.text(protocol(number, rate(packets, seconds)))?;
        }
    } else {
        let values = [
            (rate(packets, seconds), "rx/s"),
            (rate(errors, seconds), "err/s"),
        ];
        out.text(figures("Summary", &values))?;
    }
    if let Some(idle) = idle {
        out.text(format!("  no packets: {idle}"))?;
    }
    let each = now.queues.iter().zip(&before.queues);
    out.json(&Interval {
        kind: "interval",
        elapsed: now.seconds,
        seconds,
        packets,
        bytes: now.total.bytes - before.total.bytes,
        pps: rate(packets, seconds),
        errors,
        missed: now.port.rx_missed - before.port.rx_missed,
        queues: each.map(|(n, b)| n.received - b.received).collect(),
        protocols: protocols.map(|p| {
            let name = |n: Option<u8>| n.map_or("other".to_owned(), |n| n.to_string());
            moved(&p).map(|(number, n)| (name(number), n)).collect()
        }),
        idle,
    })
}

/// The protocols of which there was a packet: the index is the protocol's number, and past the last
/// are packets that are not IP.
fn moved(protocols: &[u64]) -> impl Iterator<Item = (Option<u8>, u64)> {
    let each = protocols.iter().enumerate().filter(|p| *p.1 > 0);
    each.map(|(i, n)| (u8::try_from(i).ok(), *n))
}

/// Why no packet came between two moments.
fn idle(before: &Snapshot, now: &Snapshot) -> &'static str {
    let offered = now.wire.offered - before.wire.offered;
    let delivered = now.wire.delivered - before.wire.delivered;
    let lost = now.wire.lost - before.wire.lost;
    if !now.link.up {
        "the link is down"
    } else if now.port.rx_missed > before.port.rx_missed {
        "the NIC had no free descriptor: the workers do not keep up"
    } else if now.port.rx_errors + now.unseen > before.port.rx_errors + before.unseen {
        "every frame that arrived was damaged, too short or too long"
    } else if offered == 0 && now.source_ended {
        "the source has sent all its frames"
    } else if offered == 0 {
        "the source sent nothing: does its thread have a CPU? (--cores, --pin)"
    } else if delivered == 0 && lost > 0 {
        "the wire lost every frame (loss=)"
    } else {
        "frames are on their way: the interval is too short for this machine"
    }
}

/// The last line of a run.
#[derive(Serialize)]
struct Summary<'a> {
    kind: &'static str,
    device: &'a str,
    program: &'a str,
    packets: u64,
    bytes: u64,
    seconds: f64,
    pps: f64,
    verdicts: BTreeMap<&'static str, u64>,
    skipped: u64,
    fates: BTreeMap<&'static str, u64>,
    errors: u64,
    missed: u64,
    conserved: bool,
    violations: &'a [String],
    frames: Frames,
    wire: Wire,
    queues: Vec<u64>,
}

#[derive(Serialize)]
struct Frames {
    total: u64,
    home: u64,
}

#[derive(Serialize)]
struct Wire {
    offered: u64,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    delivered: u64,
    sent: u64,
}

fn verdicts(tally: &Tally) -> BTreeMap<&'static str, u64> {
    let each = Verdict::ALL.into_iter();
    each.map(|v| (v.name(), tally.verdict(v))).collect()
}

fn fates(tally: &Tally) -> BTreeMap<&'static str, u64> {
    let each = Fate::ALL.into_iter();
    each.map(|f| (f.name(), tally.fate(f))).collect()
}

/// Prints the end of a run: duration, packets, averages, verdicts, and whether all adds up.
pub(crate) fn summary(
    out: &mut Output,
    device: &str,
    program: &str,
    report: &Report,
) -> io::Result<()> {
    text(out, report)?;
    out.json(&Summary {
        kind: "summary",
        device,
        program,
        packets: report.end.total.received,
        bytes: report.end.total.bytes,
        seconds: report.end.seconds,
        pps: report.pps(),
        verdicts: verdicts(&report.end.total),
        skipped: report.end.total.skipped,
        fates: fates(&report.end.total),
        errors: report.errors(),
        missed: report.missed(),
        conserved: report.is_conserved(),
        violations: &report.violations,
        frames: Frames {
            total: report.frames,
            home: report.frames_home,
        },
        wire: Wire {
            offered: report.end.wire.offered,
            lost: report.end.wire.lost,
            duplicated: report.end.wire.duplicated,
            reordered: report.end.wire.reordered,
            delivered: report.end.wire.delivered,
            sent: report.end.wire.sent,
        },
        queues: report.end.queues.iter().map(|q| q.received).collect(),
    })
}

fn text(out: &mut Output, report: &Report) -> io::Result<()> {
    let mut row = |name: &str, value: String| out.text(format!("  {name:<20}: {value}"));
    let Snapshot { total, wire, .. } = &report.end;
    row("Duration", format!("{:.2} s", report.end.seconds))?;
    row("Packets received", thousands(total.received))?;
    row("Average packets/s", thousands(report.pps().round() as u64))?;
    let mut judged: Vec<String> = Verdict::ALL
        .into_iter()
        .filter(|v| total.verdict(*v) > 0)
        .map(|v| format!("{v} {}", thousands(total.verdict(v))))
        .collect();
    if total.skipped > 0 {
        judged.push(format!("past the program {}", thousands(total.skipped)));
    }
    if judged.is_empty() {
        judged.push("none".to_owned());
    }
    row("Verdicts", judged.join(", "))?;
    if report.errors() > 0 {
        let mut causes: Vec<String> = Fate::ALL
            .into_iter()
            .filter(|f| f.is_loss() && total.fate(*f) > 0)
            .map(|f| format!("{} {}", f.name(), thousands(total.fate(f))))
            .collect();
        let aborted = total.verdict(Verdict::Aborted);
        for (name, n) in [
            ("aborted", aborted),
            ("damaged", report.end.port.rx_errors),
            ("unseen", report.end.unseen),
        ] {
            if n > 0 {
                causes.push(format!("{name} {}", thousands(n)));
            }
        }
        let errors = thousands(report.errors());
        row("Errors", format!("{errors} ({})", causes.join(", ")))?;
    }
    for (n, cause) in [
        (
            report.end.port.rx_missed,
            "no free descriptor: the source is faster than the workers",
        ),
        (
            report.refused,
            "shorter than any frame, or longer than the device takes",
        ),
    ] {
        if n > 0 {
            row("Missed", format!("{} ({cause})", thousands(n)))?;
        }
    }
    if wire.lost + wire.duplicated + wire.reordered > 0 {
        row(
            "Wire",
            format!(
                "{} offered, {} lost, {} duplicated, {} reordered",
                thousands(wire.offered),
                thousands(wire.lost),
                thousands(wire.duplicated),
                thousands(wire.reordered)
            ),
        )?;
    }
    let broken = report.imbalances();
    row(
        "Conserved",
        match broken.is_empty() {
            true => "yes: every packet and every frame is accounted for".to_owned(),
            false => "NO".to_owned(),
        },
    )?;
    for imbalance in broken {
        row("", imbalance.to_string())?;
    }
    for violation in &report.violations {
        row("Rule broken", violation.clone())?;
    }
    Ok(())
}
