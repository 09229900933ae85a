//! `ixdp bench drop`: what it prints, that it adds up, and how it ends.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{assert_code, ixdp, json_lines, output, sample, stderr, stdout, sum};
use serde_json::Value;

/// Runs `bench drop` to its end with JSON output; gives the intervals and the summary.
#[track_caller]
fn bench(args: &[&str]) -> (Vec<Value>, Value) {
    let run = output(["bench", "drop", "--format", "json"].iter().chain(args));
    assert_code(&run, 0);
    let mut lines = json_lines(&stdout(&run));
    let summary = lines.pop().expect("a summary");
    assert_eq!(summary["kind"], "summary");
    assert!(lines.iter().all(|l| l["kind"] == "interval"));
    assert_eq!(summary["conserved"], true);
    assert_eq!(summary["violations"], serde_json::json!([]));
    assert_eq!(summary["frames"]["total"], summary["frames"]["home"]);
    (lines, summary)
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

#[test]
fn a_counted_run_is_exact_and_adds_up() {
    let (intervals, summary) = bench(&["--count", "30000", "--queues", "4", "--interval", "0.05"]);
    assert_eq!(summary["packets"], 30_000);
    assert_eq!(summary["verdicts"]["drop"], 30_000);
    assert_eq!(sum(&summary["verdicts"]), 30_000);
    assert_eq!(sum(&summary["fates"]), 30_000);
    assert_eq!(summary["bytes"], 30_000 * 60);
    assert_eq!(
        (number(&summary["errors"]), number(&summary["missed"])),
        (0, 0)
    );
    assert!(summary["wire"]["offered"] == 30_000 && summary["wire"]["delivered"] == 30_000);
    let of = |key: &str| intervals.iter().map(|i| number(&i[key])).sum::<u64>();
    assert_eq!((of("packets"), of("bytes")), (30_000, 30_000 * 60));
    assert_eq!((of("errors"), of("missed")), (0, 0));
    let queues: Vec<u64> = summary["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(number)
        .collect();
    assert_eq!((queues.len(), queues.iter().sum()), (4, 30_000));
    assert!(
        queues.iter().all(|q| *q > 0),
        "RSS spreads the flows: {queues:?}"
    );
    let (pps, seconds) = (summary["pps"].as_f64(), summary["seconds"].as_f64());
    let packets = pps.unwrap() * seconds.unwrap();
    assert!(
        (packets - 30_000.0).abs() < 1.0,
        "average over the whole time: {packets}"
    );
}

#[test]
fn every_model_and_frame_size_runs() {
    for device in ["emu:x540", "emu:x550"] {
        let (_, summary) = bench(&[device, "--count", "2000", "--frame-size", "1518"]);
        assert_eq!(summary["device"], device);
        assert_eq!(summary["bytes"], 2000 * 1514);
    }
    let (_, jumbo) = bench(&["--count", "500", "--frame-size", "9000", "--batch", "8"]);
    assert_eq!(
        (&jumbo["packets"], &jumbo["bytes"]),
        (&500.into(), &(500 * 8996).into())
    );
}

#[test]
fn what_the_wire_does_is_counted_and_the_seed_repeats_it() {
    let device = "emu:82599,loss=0.1,dup=0.05,reorder=0.1,seed=7";
    let wire = || {
        let (_, summary) = bench(&[device, "--count", "20000"]);
        let wire = summary["wire"].clone();
        let [offered, lost, duplicated, reordered] =
            ["offered", "lost", "duplicated", "reordered"].map(|key| number(&wire[key]));
        assert_eq!(offered, 20_000);
        assert!(
            (1700..2300).contains(&lost),
            "a tenth of the frames: {lost}"
        );
        assert!(duplicated > 500 && reordered > 500, "{wire}");
        assert_eq!(number(&summary["packets"]), offered - lost + duplicated);
        wire
    };
    assert_eq!(wire(), wire());
}

#[test]
fn skipped_programs_and_ones_of_the_user() {
    let (_, skipped) = bench(&["--count", "1000", "--skip-prog"]);
    assert_eq!(
        (&skipped["skipped"], sum(&skipped["verdicts"])),
        (&1000.into(), 0)
    );
    let object = format!("{}:aborted", sample("mixed").display());
    let (_, aborted) = bench(&["--count", "1000", "--prog", &object]);
    assert_eq!(aborted["verdicts"]["aborted"], 1000);
    assert_eq!(aborted["errors"], 1000);
    let swap = sample("tx_swap");
    let (_, sent) = bench(&["--count", "1000", "--prog", swap.to_str().unwrap()]);
    assert_eq!(sent["verdicts"]["tx"], 1000);
    assert_eq!(
        number(&sent["fates"]["transmitted"]),
        number(&sent["wire"]["sent"])
    );
}

#[test]
fn text_has_the_originals_columns() {
    let run = output(["bench", "drop", "--duration", "0.6", "--interval", "0.25"]);
    assert_code(&run, 0);
    let text = stdout(&run);
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("Summary")).collect();
    assert!(lines.len() >= 2, "{text}");
    for line in lines {
        let (label, rest) = line.split_at(23);
        assert_eq!(label.trim_end(), "Summary");
        let (received, rest) = rest.split_at(13);
        let (unit, errors) = rest.split_at(5);
        assert_eq!((unit, errors), (" rx/s", "            0 err/s"), "{line}");
        let digits = received.trim_start().replace(',', "");
        assert!(digits.parse::<u64>().is_ok(), "{line}");
        let groups: Vec<&str> = received.trim_start().split(',').collect();
        assert!(
            groups[1..].iter().all(|g| g.len() == 3) && groups[0].len() <= 3,
            "{line}"
        );
    }
    for row in [
        "Duration",
        "Packets received",
        "Average packets/s",
        "Verdicts",
        "Conserved",
    ] {
        assert!(text.contains(&format!("  {row:<20}: ")), "{row}: {text}");
    }
    assert!(
        text.lines()
            .next()
            .unwrap()
            .starts_with("emu:82599 (up, 10 Gbit/s), driver ixgbe, program drop")
    );
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}

#[test]
fn rates_by_protocol_are_in_the_oldest_samples_format() {
    let args = [
        "--count",
        "5000",
        "--per-proto",
        "--interval",
        "0.1",
        "--queues",
        "2",
    ];
    let run = output(["bench", "drop"].iter().chain(&args));
    assert_code(&run, 0);
    let text = stdout(&run);
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("proto ")).collect();
    assert!(!lines.is_empty(), "{text}");
    for line in lines {
        let rate = line
            .strip_prefix("proto 17: ")
            .and_then(|l| l.strip_suffix(" pkt/s"));
        let rate = rate.unwrap_or_else(|| panic!("{line}"));
        assert!(
            rate.len() == 10 && rate.trim_start().parse::<u64>().is_ok(),
            "{line}"
        );
    }
    let (intervals, _) = bench(&args);
    let counted = intervals
        .iter()
        .filter_map(|i| i["protocols"]["17"].as_u64());
    assert_eq!(counted.sum::<u64>(), 5000);
}

#[test]
fn a_zero_rate_says_why() {
    let (intervals, summary) = bench(&[
        "emu:82599,loss=1",
        "--duration",
        "0.5",
        "--interval",
        "0.2",
        "--rate",
        "1000",
    ]);
    assert_eq!(summary["packets"], 0);
    let said = intervals[0]["idle"].as_str().expect("a reason");
    assert!(said.contains("lost every frame"), "{said}");
    let (_, slow) = bench(&["--duration", "0.5", "--rate", "2000"]);
    assert!((1..=1500).contains(&number(&slow["packets"])), "{slow}");
}

/// A run without end; its stdout.
fn endless(more: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = ixdp(
        ["bench", "drop", "--duration", "0", "--interval", "0.2"]
            .iter()
            .chain(more),
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// Waits for the end, and kills what does not end.
#[track_caller]
fn wait(child: &mut Child) -> i32 {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().expect("not killed by a signal");
        }
        if Instant::now() > limit {
            let _ = child.kill();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ctrl_c_ends_with_the_summary() {
    for signal in ["-INT", "-TERM"] {
        let (mut child, mut out) = endless(&["--format", "json"]);
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.contains("\"interval\""), "{line}");
        let kill = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(wait(&mut child), 0);
        let summary = json_lines(&rest).pop().expect("a summary");
        assert_eq!(
            (&summary["kind"], &summary["conserved"]),
            (&"summary".into(), &true.into())
        );
        assert!(number(&summary["packets"]) > 0);
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let (mut child, mut out) = endless(&[]);
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    drop(out);
    assert_eq!(wait(&mut child), 0);
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(!said.contains("panic") && !said.contains("error"), "{said}");
}

#[test]
fn a_program_that_cannot_be_run_is_a_failed_job() {
    let missing = output(["bench", "drop", "--prog", "no/such.o"]);
    assert_code(&missing, 1);
    assert!(
        stderr(&missing).contains("no/such.o"),
        "{}",
        stderr(&missing)
    );
    let object = format!("{}:nothing", sample("mixed").display());
    let unknown = output(["bench", "drop", "--prog", &object]);
    assert_code(&unknown, 1);
    assert!(stderr(&unknown).contains("lottery"), "{}", stderr(&unknown));
}
