//! `ixdp run` on captures: verdicts, changed packets and map contents against an implementation that
//! is not the program.

mod common;
#[path = "common/judge.rs"]
mod judge;

use std::path::Path;

use common::{
    Captured, assert_code, json_lines, mixed_packets, output, pcap, read_pcap, sample, stderr,
    stdout, sum,
};
use serde_json::{Value, json};

/// A directory with a capture in it, and what a run of a sample on it left there.
struct Run {
    dir: tempfile::TempDir,
    verdicts: Vec<Value>,
    summary: Value,
}

impl Run {
    #[track_caller]
    fn of(program: &str, packets: &[Captured], more: &[&str]) -> Run {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            dir.path()
                .join(name)
                .into_os_string()
                .into_string()
                .unwrap()
        };
        std::fs::write(path("in.pcap"), pcap(packets)).unwrap();
        let more: Vec<String> = more
            .iter()
            .map(|arg| arg.replace("DIR", dir.path().to_str().unwrap()))
            .collect();
        let object = sample(program).into_os_string().into_string().unwrap();
        let mut args = vec!["run".to_owned(), object, "--format".into(), "json".into()];
        for (option, name) in [
            ("--in", "in.pcap"),
            ("--out", "out.pcap"),
            ("--tx-out", "sent.pcap"),
            ("--verdicts", "verdicts.jsonl"),
        ] {
            args.extend([option.to_owned(), path(name)]);
        }
        args.extend(more);
        let run = output(&args);
        assert_code(&run, 0);
        let lines = json_lines(&stdout(&run));
        let summary = lines.last().expect("a summary").clone();
        assert_eq!(summary["kind"], "summary");
        assert_eq!(summary["conserved"], true);
        assert_eq!(summary["violations"], json!([]));
        let verdicts = json_lines(&std::fs::read_to_string(path("verdicts.jsonl")).unwrap());
        assert_eq!(verdicts.len(), packets.len(), "one line a packet");
        for (i, line) in verdicts.iter().enumerate() {
            assert_eq!(line["index"], i, "in the capture's order");
        }
        Run {
            dir,
            verdicts,
            summary,
        }
    }

    fn read(&self, name: &str) -> Vec<Captured> {
        read_pcap(&self.dir.path().join(name))
    }

    fn judged(&self, i: usize) -> (&str, usize) {
        let length = self.verdicts[i]["length"].as_u64().unwrap_or_default();
        (
            self.verdicts[i]["verdict"].as_str().unwrap(),
            length as usize,
        )
    }
}

const CLOSED: u16 = 9;
const BLOCKED: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 5]];
const MAPS: &str = r#"{"blocked": {"10.0.0.1": 0, "10.0.0.5": 100}}"#;

fn assert_firewall(run: &Run, packets: &[Captured]) {
    let mut passed = Vec::new();
    let mut hits = 0;
    for (i, (time, frame)) in packets.iter().enumerate() {
        let (dropped, by_source) = judge::firewall(frame, &BLOCKED, CLOSED);
        let verdict = if dropped { "drop" } else { "pass" };
        assert_eq!(
            run.judged(i),
            (verdict, frame.len()),
            "packet {i}: {frame:02x?}"
        );
        hits += u64::from(by_source);
        if !dropped {
            passed.push((*time, frame.clone()));
        }
    }
    assert!(
        hits > 20 && passed.len() > 50,
        "the packets try every branch"
    );
    assert!(
        run.read("out.pcap") == passed,
        "passed as they came, with their times"
    );
    assert!(run.read("sent.pcap").is_empty());
    let s = &run.summary;
    assert_eq!(s["packets"], packets.len());
    assert_eq!(sum(&s["verdicts"]), packets.len() as u64);
    assert_eq!(s["verdicts"]["pass"], passed.len());
    let maps = std::fs::read_to_string(run.dir.path().join("after.json")).unwrap();
    let maps: Value = serde_json::from_str(&maps).unwrap();
    let counted: u64 = maps["blocked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["value"].as_u64().unwrap())
        .sum();
    assert_eq!(
        counted,
        hits + 100,
        "the map was filled, and the program counted in it"
    );
}

#[test]
fn firewall_with_maps_judges_as_an_independent_parser() {
    let packets = mixed_packets(600);
    for queues in ["1", "5"] {
        let dir = tempfile::tempdir().unwrap();
        let maps = dir.path().join("maps.json");
        std::fs::write(&maps, MAPS).unwrap();
        let maps = maps.to_str().unwrap();
        let more = [
            "--maps",
            maps,
            "--dump-maps",
            "DIR/after.json",
            "--queues",
            queues,
        ];
        let run = Run::of("firewall", &packets, &more);
        assert_firewall(&run, &packets);
        let queues_seen: std::collections::BTreeSet<u64> = run
            .verdicts
            .iter()
            .map(|v| v["queue"].as_u64().unwrap())
            .collect();
        match queues {
            "1" => assert_eq!(queues_seen.len(), 1),
            _ => assert!(queues_seen.len() > 2, "RSS spreads: {queues_seen:?}"),
        }
    }
}

#[test]
fn a_variable_set_by_name_changes_the_verdicts() {
    let packets = mixed_packets(300);
    let run = Run::of("firewall", &packets, &["--set", "closed_port=0x10"]);
    let mut dropped = 0;
    for (i, (_, frame)) in packets.iter().enumerate() {
        let (drop, _) = judge::firewall(frame, &[], 16);
        dropped += usize::from(drop);
        assert_eq!(
            run.judged(i).0,
            if drop { "drop" } else { "pass" },
            "packet {i}"
        );
    }
    assert!(dropped > 0);
}

#[test]
fn vlan_pop_moves_the_head() {
    let packets = mixed_packets(400);
    let run = Run::of("vlan_pop", &packets, &[]);
    let expected: Vec<Captured> = packets
        .iter()
        .map(|(time, frame)| (*time, judge::vlan_pop(frame)))
        .collect();
    let shorter = expected
        .iter()
        .zip(&packets)
        .filter(|(e, p)| e.1.len() < p.1.len());
    assert!(shorter.count() > 50, "many packets are tagged");
    let aborted: Vec<_> = (0..packets.len())
        .filter(|i| run.judged(*i).0 != "pass")
        .collect();
    assert!(
        aborted.iter().all(|i| expected[*i].1.len() < 14),
        "too short without its tag: {aborted:?}"
    );
    for (i, (_, frame)) in expected
        .iter()
        .enumerate()
        .filter(|(i, _)| !aborted.contains(i))
    {
        assert_eq!(run.judged(i), ("pass", frame.len()), "packet {i}");
    }
    let passed: Vec<_> = expected
        .into_iter()
        .enumerate()
        .filter(|(i, _)| !aborted.contains(i))
        .map(|(_, packet)| packet)
        .collect();
    assert!(run.read("out.pcap") == passed);
}

#[test]
fn trim_moves_the_tail_both_ways() {
    // In one buffer: the program sees the whole packet.
    let mut packets = mixed_packets(400);
    packets
        .iter_mut()
        .for_each(|(_, frame)| frame.truncate(3000));
    let run = Run::of(
        "trim",
        &packets,
        &["--set", "keep=100", "--set", "pad_to=70"],
    );
    let sent = run.read("sent.pcap");
    assert_eq!(sent.len(), packets.len());
    for (i, ((time, frame), (sent_at, sent))) in packets.iter().zip(&sent).enumerate() {
        let mut expected = frame.clone();
        expected.resize(frame.len().clamp(70, 100), 0);
        assert_eq!(run.judged(i), ("tx", expected.len()), "packet {i}");
        assert!(*sent == expected && sent_at == time, "packet {i}");
    }
    assert!(packets.iter().any(|p| p.1.len() < 70) && packets.iter().any(|p| p.1.len() > 100));
    assert_eq!(run.summary["wire"]["sent"], packets.len());
}

#[test]
fn tx_swap_sends_every_packet_back_also_over_several_buffers() {
    let packets = mixed_packets(400);
    assert!(
        packets.iter().any(|p| p.1.len() > 2 * 3072),
        "some fill several buffers"
    );
    let run = Run::of("tx_swap", &packets, &["--queues", "3"]);
    let sent = run.read("sent.pcap");
    assert_eq!(sent.len(), packets.len());
    for (i, ((time, frame), (sent_at, sent))) in packets.iter().zip(&sent).enumerate() {
        assert_eq!(run.judged(i), ("tx", frame.len()), "packet {i}");
        // The device pads what is shorter than the shortest Ethernet frame.
        let mut expected = judge::tx_swap(frame);
        expected.resize(frame.len().max(60), 0);
        assert!(*sent == expected && sent_at == time, "packet {i}");
    }
}

#[test]
fn proto_count_counts_in_a_per_cpu_map() {
    let packets = mixed_packets(500);
    let more = ["--queues", "2", "--dump-maps", "DIR/after.json"];
    let run = Run::of("proto_count", &packets, &more);
    let mut expected = [0u64; 257];
    packets
        .iter()
        .for_each(|p| expected[judge::protocol(&p.1)] += 1);
    assert!(expected[6] > 0 && expected[17] > 0 && expected[256] > 0);
    let maps = std::fs::read_to_string(run.dir.path().join("after.json")).unwrap();
    let maps: Value = serde_json::from_str(&maps).unwrap();
    let mut counted = [0u64; 257];
    for entry in maps["rxcnt"].as_array().unwrap() {
        let each = entry["value"].as_array().unwrap();
        assert_eq!(each.len(), 2, "one value a queue");
        let key = entry["key"].as_u64().unwrap() as usize;
        counted[key] = each.iter().map(|v| v.as_u64().unwrap()).sum();
    }
    assert_eq!(counted, expected);
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let packets = mixed_packets(200);
    let of = || {
        let run = Run::of("mixed", &packets, &["--prog", "lottery", "--queues", "4"]);
        let file = |name: &str| std::fs::read(run.dir.path().join(name)).unwrap();
        (file("verdicts.jsonl"), file("out.pcap"), file("sent.pcap"))
    };
    assert!(of() == of());
}

#[test]
fn frames_that_no_nic_takes_are_missed_and_told() {
    let mut packets = mixed_packets(4);
    packets[1].1.truncate(13);
    packets[2].1 = vec![0; 20_000];
    let run = Run::of("pass", &packets, &[]);
    assert_eq!(run.judged(0).0, "pass");
    for i in [1, 2] {
        assert_eq!(run.judged(i).0, "missed");
        assert!(
            run.verdicts[i]["reason"]
                .as_str()
                .unwrap()
                .contains("bytes")
        );
    }
    assert_eq!(run.summary["missed"], 2);
    assert_eq!(run.summary["packets"], 2);
    assert_eq!(run.read("out.pcap").len(), 2);
}

#[test]
fn a_capture_without_packets_is_a_capture() {
    let run = Run::of("drop", &[], &[]);
    assert_eq!(
        (&run.summary["packets"], sum(&run.summary["verdicts"])),
        (&json!(0), 0)
    );
    assert!(run.read("out.pcap").is_empty() && run.read("sent.pcap").is_empty());
}

#[test]
fn without_the_program_every_packet_is_handed_past_it() {
    let packets = mixed_packets(50);
    let run = Run::of("drop", &packets, &["--skip-prog"]);
    assert!((0..50).all(|i| run.judged(i) == ("skipped", packets[i].1.len())));
    assert!(run.read("out.pcap") == packets);
    assert_eq!(
        (sum(&run.summary["verdicts"]), &run.summary["skipped"]),
        (0, &json!(50))
    );
}

#[test]
fn what_a_program_prints_goes_to_stderr_where_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.pcap");
    std::fs::write(&input, pcap(&mixed_packets(25))).unwrap();
    let run = |more: &[&str]| {
        let mut command = common::ixdp(["run"]);
        command
            .arg(sample("sampler"))
            .arg("--in")
            .arg(&input)
            .args(more);
        let run = command.output().unwrap();
        assert_code(&run, 0);
        stderr(&run)
            .lines()
            .filter(|l| l.starts_with("trace: "))
            .count()
    };
    assert_eq!((run(&["--trace"]), run(&[])), (3, 0), "one packet of ten");
    assert_eq!(run(&["--trace", "--set", "every=5"]), 5);
}

#[test]
fn generated_packets_run_where_there_is_no_capture() {
    let dir = tempfile::tempdir().unwrap();
    let maps = dir.path().join("after.json");
    let run = common::ixdp(["run"])
        .arg(sample("proto_count"))
        .args([
            "--count",
            "3000",
            "--queues",
            "2",
            "--format",
            "json",
            "--dump-maps",
        ])
        .arg(&maps)
        .output()
        .unwrap();
    assert_code(&run, 0);
    let summary = json_lines(&stdout(&run)).pop().unwrap();
    assert_eq!(
        (&summary["packets"], &summary["conserved"]),
        (&json!(3000), &json!(true))
    );
    let maps: Value = serde_json::from_slice(&std::fs::read(maps).unwrap()).unwrap();
    let udp = &maps["rxcnt"][0];
    let each = udp["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_u64().unwrap());
    assert_eq!((&udp["key"], each.sum::<u64>()), (&json!(17), 3000));
}

#[test]
fn verdicts_on_stdout_are_json_before_the_summary() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.pcap");
    std::fs::write(&input, pcap(&mixed_packets(3))).unwrap();
    let args = ["--verdicts", "-", "--format", "json", "--in"];
    let run = common::ixdp(["run"])
        .arg(sample("drop"))
        .args(args)
        .arg(&input)
        .output()
        .unwrap();
    assert_code(&run, 0);
    let lines = json_lines(&stdout(&run));
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[2]["verdict"], "drop");
    assert_eq!(lines[3]["kind"], "summary");
}

#[test]
fn what_cannot_be_written_is_told_before_anything_is_run() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("in.pcap"), pcap(&mixed_packets(20))).unwrap();
    let run = |args: &[&str]| {
        let mut command = common::ixdp(["run"]);
        command.arg(sample("pass")).args(args);
        command.current_dir(dir.path()).output().unwrap()
    };
    for option in ["--out", "--verdicts", "--dump-maps"] {
        let run = run(&["--in", "in.pcap", option, "none/x.pcap"]);
        assert_code(&run, 1);
        assert_eq!(stdout(&run), "", "{option}");
        let said = stderr(&run);
        assert!(
            said.contains("none/x.pcap") && said.contains("no folder none; make it"),
            "{said}"
        );
    }
    // Under load too, which would otherwise take its ten seconds.
    let run = run(&["--dump-maps", "none/maps"]);
    assert_code(&run, 1);
    assert_eq!(stdout(&run), "");
}

#[test]
fn a_full_disk_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let full = dir.path().join("full.pcap");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    std::fs::write(dir.path().join("in.pcap"), pcap(&mixed_packets(20))).unwrap();
    let run = |out: &str, to: std::process::Stdio| {
        let mut command = common::ixdp(["run"]);
        command
            .arg(sample("pass"))
            .args(["--in", "in.pcap", "--out", out]);
        command.current_dir(dir.path()).stdout(to).output().unwrap()
    };
    let failed = run("full.pcap", std::process::Stdio::piped());
    assert_code(&failed, 1);
    let said = stderr(&failed);
    let cause = said.lines().last().unwrap_or_default();
    assert!(said.contains("cannot write full.pcap"), "{said}");
    assert!(cause.starts_with("  cause: No space left"), "{said}");

    let stdout = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let failed = run("out.pcap", stdout.into());
    assert_code(&failed, 1);
    assert!(stderr(&failed).contains("cannot write to stdout: No space"));
}

#[test]
fn maps_are_written_though_the_program_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let run = common::ixdp(["run"])
        .arg(sample("firewall"))
        .args(["--skip-prog", "--count", "100", "--dump-maps", "maps.json"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_code(&run, 0);
    let maps = std::fs::read_to_string(dir.path().join("maps.json")).unwrap();
    let maps: Value = serde_json::from_str(&maps).unwrap();
    assert_eq!(maps, json!({"blocked": []}));
}

#[test]
fn an_interrupted_run_ends_with_the_summary_of_its_part_and_writes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let packets: Vec<Captured> = (0..300_000).map(|n| (n, vec![7; 60])).collect();
    std::fs::write(dir.path().join("in.pcap"), pcap(&packets)).unwrap();
    let mut child = common::ixdp(["run"])
        .arg(sample("pass"))
        .args(["--in", "in.pcap", "--out", "out.pcap", "--verdicts", "-"])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The first line of verdicts says that the run is under way.
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    std::io::BufRead::read_line(&mut out, &mut text).unwrap();
    let kill = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(kill.success());
    std::io::Read::read_to_string(&mut out, &mut text).unwrap();
    let run = child.wait_with_output().unwrap();
    assert_code(&run, 1);
    assert!(
        stderr(&run).contains("interrupted after"),
        "{}",
        stderr(&run)
    );
    let lines = json_lines(&text);
    let summary = lines.last().unwrap();
    assert_eq!(summary["kind"], "summary");
    assert_eq!(summary["packets"], lines.len() - 1);
    assert!(lines.len() < packets.len());
    assert_eq!(summary["conserved"], true);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_capture_s_missed_packets_are_told_by_their_cause() {
    let dir = tempfile::tempdir().unwrap();
    let packets = [(0, vec![7; 13]), (1, vec![7; 60]), (2, vec![7; 20_000])];
    std::fs::write(dir.path().join("in.pcap"), pcap(&packets)).unwrap();
    let run = common::ixdp(["run"])
        .arg(sample("pass"))
        .args(["--in", "in.pcap"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_code(&run, 0);
    let text = stdout(&run);
    let missed = text.lines().find(|line| line.contains("Missed")).unwrap();
    assert!(missed.contains(": 2 (shorter than"), "{text}");
    assert!(!text.contains("descriptor"), "{text}");
}

#[test]
fn pcapng_goes_in_and_comes_out() {
    let packets = mixed_packets(60);
    let first = Run::of("pass", &packets, &["--dump-maps", "DIR/none.json"]);
    let dir = first.dir.path();
    let ng = dir.join("out.pcapng");
    let back = dir.join("back.pcap");
    for (from, to) in [(dir.join("in.pcap"), &ng), (ng.clone(), &back)] {
        let run = common::ixdp(["run"])
            .arg(sample("pass"))
            .arg("--in")
            .arg(from)
            .arg("--out")
            .arg(to)
            .output()
            .unwrap();
        assert_code(&run, 0);
    }
    assert_eq!(std::fs::read(&ng).unwrap()[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(
        read_pcap(&back) == packets,
        "times and bytes survive both formats"
    );
}

/// Runs the drop program on `capture` and expects a failure that names the file; gives what was said.
#[track_caller]
fn refused(capture: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.pcap");
    std::fs::write(&input, capture).unwrap();
    std::fs::write(dir.path().join("out.pcap"), b"old").unwrap();
    let run = common::ixdp(["run"])
        .arg(sample("pass"))
        .arg("--in")
        .arg(&input)
        .args([
            "--out",
            "out.pcap",
            "--verdicts",
            "verdicts",
            "--tx-out",
            "tx.pcap",
        ])
        .args(["--dump-maps", "maps"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_code(&run, 1);
    let said = stderr(&run);
    assert!(
        said.starts_with("error: ") && said.contains("in.pcap"),
        "{said}"
    );
    assert_untouched(dir.path(), 2);
    said
}

/// Only the files that were there are there, and the old output is as it was.
#[track_caller]
fn assert_untouched(dir: &Path, files: usize) {
    let left: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), files, "{left:?}");
    assert_eq!(std::fs::read(dir.join("out.pcap")).unwrap(), b"old");
}

#[test]
fn a_broken_capture_leaves_nothing_half_written() {
    let whole = pcap(&mixed_packets(20));
    for cut in [whole.len() - 1, whole.len() - 30, 30, 24 + 15] {
        let said = refused(&whole[..cut]);
        assert!(said.contains("packet"), "{said}");
    }
    for foreign in [&b""[..], b"\x7fELF", &whole[..20], &[0; 64]] {
        refused(foreign);
    }
    let mut wireless = whole.clone();
    wireless[20] = 105;
    assert!(refused(&wireless).contains("Ethernet"));
    let mut huge = whole.clone();
    huge[32..40].fill(0xff);
    assert!(refused(&huge).contains("packet"));
}

#[test]
fn wrong_map_files_and_variables_name_the_cause() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("in.pcap"), pcap(&mixed_packets(2))).unwrap();
    std::fs::write(path("out.pcap"), b"old").unwrap();
    let run = |maps: Option<&str>, more: &[&str]| {
        let mut command = common::ixdp(["run"]);
        command
            .arg(sample("firewall"))
            .args(["--in", "in.pcap", "--out", "out.pcap"]);
        command.args(more).current_dir(dir.path());
        if let Some(text) = maps {
            std::fs::write(path("maps.json"), text).unwrap();
            command.args(["--maps", "maps.json"]);
        }
        let run = command.output().unwrap();
        assert_code(&run, 1);
        stderr(&run)
    };
    for (text, cause) in [
        ("{", "JSON"),
        (r#"{"blokced": {}}"#, "no map `blokced`"),
        (r#"{"blocked": {"10.0.0": 1}}"#, "10.0.0"),
        (r#"{"blocked": {"1": 1}, "blocked": {}}"#, "there twice"),
        (
            r#"{"blocked": {"10.0.0.1": "x"}}"#,
            "map blocked, value of key 10.0.0.1",
        ),
        (r#"{".rodata": {"0": [1, 2]}}"#, "rodata"),
    ] {
        let said = run(Some(text), &[]);
        assert!(said.contains(cause) && said.contains("maps.json"), "{said}");
    }
    assert!(run(None, &["--set", "closed_prot=1"]).contains("closed_port"));
    assert!(run(None, &["--set", "closed_port=65536"]).contains("65536"));
    assert!(run(None, &["--prog", "nothing"]).contains("firewall"));
    assert!(run(None, &["--maps", "gone.json"]).contains("gone.json"));
    std::fs::remove_file(path("maps.json")).unwrap();
    assert_untouched(dir.path(), 2);
}
