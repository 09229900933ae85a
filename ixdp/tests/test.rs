//! `ixdp test`: verdicts, packets, maps and variables against what is expected of them.

mod common;

use std::path::Path;
use std::process::Output;

use common::{assert_code, compile, ethernet, ipv4, json_lines, pcap, sample, stderr, stdout, udp};
use serde_json::json;
use tempfile::TempDir;

/// A folder with a capture of four packets: UDP to ports 53 and 9, ARP, and one that is too short.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let packet =
        |from, port| ethernet(0x0800, &ipv4([10, 0, 0, from], 17, &udp(1, port, &[7; 20])));
    let packets = [
        packet(1, 53),
        packet(2, 9),
        ethernet(0x0806, &[0; 28]),
        vec![1; 9],
    ];
    let packets: Vec<_> = (1..).zip(packets).collect();
    std::fs::write(dir.path().join("in.pcap"), pcap(&packets)).unwrap();
    dir
}

fn test(dir: &TempDir, object: &Path, more: &[&str]) -> Output {
    let mut command = common::ixdp(["test"]);
    command
        .arg(object)
        .args(["--packets", "in.pcap"])
        .args(more);
    command.current_dir(dir.path()).output().unwrap()
}

/// Writes a file of the folder.
fn put(dir: &TempDir, name: &str, text: &str) {
    std::fs::write(dir.path().join(name), text).unwrap();
}

#[test]
fn without_expectations_there_is_a_line_a_packet() {
    let dir = folder();
    for engine in ["interpreter", "jit", "auto"] {
        let run = test(&dir, &sample("firewall"), &["--engine", engine]);
        assert_code(&run, 0);
        let golden = "packet  verdict   bytes\n     \
             0  pass      62\n     1  drop      62\n     2  pass      42\n     \
             3  missed    it has 9 bytes, less than an Ethernet header\nfirewall: 4 packets\n";
        assert_eq!(stdout(&run), golden, "{engine}");
    }
    let lines = json_lines(&stdout(&test(
        &dir,
        &sample("firewall"),
        &["--format", "json"],
    )));
    assert_eq!(lines[1]["verdict"], "drop");
    assert_eq!(lines[4]["missed"], 1);
}

#[test]
fn what_is_expected_is_checked() {
    let dir = folder();
    put(
        &dir,
        "maps.toml",
        "[blocked]\n\"10.0.0.1\" = 5\n[globals]\nclosed_port = 10\n",
    );
    put(
        &dir,
        "good.toml",
        r#"
        [[packets]]
        verdict = "drop"
        bytes = "same"
        [[packets]]
        verdict = "pass"
        length = 62
        at = { 12 = "0x0800", 26 = "0x0a00 0002" }
        [maps]
        blocked = { "10.0.0.1" = 6 }
        "#,
    );
    let firewall = sample("firewall");
    let with = |expect: &str| {
        test(
            &dir,
            &firewall,
            &["--maps", "maps.toml", "--expect", expect],
        )
    };
    let run = with("good.toml");
    assert_code(&run, 0);
    assert_eq!(
        stdout(&run),
        "firewall: ok: 2 of 4 packets and 1 maps checked\n"
    );

    put(
        &dir,
        "bad.json",
        r#"{"packets": [{"packet": 1, "verdict": "drop", "length": 60, "at": {"26": "0x0b"}},
                        {"verdict": "redirect", "redirect": {"interface": 3}},
                        {"verdict": "pass"},
                        {"packet": 9, "verdict": "pass"}],
            "maps": {"blocked": {"10.0.0.1": 5, "10.0.0.9": 1}}}"#,
    );
    let run = with("bad.json");
    assert_code(&run, 1);
    let golden = "\
packet 1: verdict: expected drop, got pass
packet 1: length: expected 60, got 62
packet 1: bytes from 26 on: expected 0x0b, got 0x0a
packet 2: verdict: expected redirect, got pass
packet 2: redirect: expected {\"interface\":3}, got nothing
packet 3: verdict: expected pass, got the program did not get it: it has 9 bytes, less than an \
Ethernet header
packet 9: it is expected, and in.pcap has 4 packets
map blocked: key \"10.0.0.1\": expected 5, got 6
map blocked: key \"10.0.0.9\": expected 1, got nothing
firewall: FAILED: 4 of 4 packets and 1 of 1 maps are not as expected
";
    assert_eq!(stdout(&run), golden);
}

#[test]
fn packets_that_differ_are_shown_side_by_side() {
    let dir = folder();
    let packet = ethernet(0x0806, &[0; 28]);
    let packets = vec![(1, packet)];
    put(&dir, "e.toml", "capture = \"out.pcap\"\n");
    std::fs::write(dir.path().join("in.pcap"), pcap(&packets)).unwrap();
    std::fs::write(dir.path().join("out.pcap"), pcap(&packets)).unwrap();
    let run = test(&dir, &sample("tx_swap"), &["--expect", "e.toml"]);
    assert_code(&run, 1);
    let golden = "\
packet 0: bytes differ:
    expected  0000  02 00 00 00 00 01 02 00 00 00 00 02 08 06 00 00
    got       0000  02 00 00 00 00 02 02 00 00 00 00 01 08 06 00 00
                                   ^^                ^^
tx_swap: FAILED: 1 of 1 packets and 0 of 0 maps are not as expected
";
    assert_eq!(stdout(&run), golden);
    // And where they do not differ.
    assert_code(&test(&dir, &sample("pass"), &["--expect", "e.toml"]), 0);
}

/// Presets for `kinds.c`, its flow from packet 0.
const PRESET: &str = r#"
flows = [{ key = { saddr = "10.0.0.1", ether_type = 0x0800, mac = "02:00:00:00:00:02" },
           value = { packets = 41, balance = 3, mode = "MODE_COUNT", note = "hi", low = 9, high = 4000 } }]
lengths = { 1 = 1000 }
outer = [{ key = 0, value = "first" }, { key = 1, value = { 0 = 77 } }]
ports = { 2 = 6 }
sizes = [5]
[globals]
limit = 50
total = 7
"#;

#[test]
fn maps_of_every_kind_are_preset_and_compared_by_field() {
    let Some(object) = compile("kinds", &[]) else {
        return;
    };
    let dir = folder();
    put(&dir, "maps.toml", PRESET);
    put(
        &dir,
        "e.toml",
        r#"
        [[packets]]
        verdict = "tx"
        at = { 0 = "0xee" }
        [[packets]]
        verdict = "tx"
        [[packets]]
        verdict = "pass"
        [maps]
        flows = [{ key = { saddr = "10.0.0.1", ether_type = 2048, mac = "02:00:00:00:00:02" },
                   value = { packets = 43, balance = -7, mode = 7, note = "_", low = 9, high = 4002, seen = true } }]
        lengths = { 1 = 1166 }
        outer = [{ key = 0, value = { 1 = 3 } }, { key = 1, value = { 0 = 77 } }]
        sizes = [5, 62, 62, 42]
        events = ["0x0a000001", "0x0a000001"]
        [globals]
        total = 10
        "#,
    );
    let with = |more: &[&str]| {
        let all = [&["--prog", "kinds", "--maps", "maps.toml"], more].concat();
        test(&dir, object.path(), &all)
    };
    for engine in ["interpreter", "auto"] {
        let run = with(&["--expect", "e.toml", "--engine", engine]);
        assert_eq!(
            stdout(&run),
            "kinds: ok: 3 of 4 packets and 6 maps checked\n"
        );
        assert_code(&run, 0);
    }

    // One byte of one field, and the field is named.
    let text = std::fs::read_to_string(dir.path().join("e.toml")).unwrap();
    put(
        &dir,
        "bad.toml",
        &text
            .replace("balance = -7", "balance = -8")
            .replace("1166", "1165")
            .replace("42]", "42, 1]")
            .replace("0 = 77", "0 = 78")
            .replace("total = 10", "total = 11"),
    );
    let run = with(&["--expect", "bad.toml"]);
    assert_code(&run, 1);
    let said = stdout(&run);
    for part in [
        "\"saddr\":\"10.0.0.1\"",
        ", balance: expected {",
        "map lengths: key 1, CPU 0: expected 1165, got 1166",
        "map sizes: value 4: expected 1, got nothing",
        "map outer: key 1: key 0: expected 78, got 77",
        "variable: total: expected 11, got 10",
        "0 of 3 packets and 5 of 6 maps",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }

    // What is recorded is what is expected the next time, in both languages.
    for name in ["r.toml", "r.json"] {
        assert_code(&with(&["--write-expect", name]), 0);
        let run = with(&["--expect", name]);
        assert_eq!(
            stdout(&run),
            "kinds: ok: 3 of 4 packets and 8 maps checked\n",
            "{}",
            std::fs::read_to_string(dir.path().join(name)).unwrap()
        );
    }
    let recorded = std::fs::read(dir.path().join("r.json")).unwrap();
    let recorded: serde_json::Value = serde_json::from_slice(&recorded).unwrap();
    assert_eq!(
        recorded["maps"]["flows"][0]["value"],
        json!({"packets": 43, "balance": -7, "mode": "MODE_COUNT", "note": "hi", "low": 9,
               "high": 4002, "seen": true})
    );
    assert_eq!(
        recorded["packets"][2],
        json!({"packet": 2, "verdict": "pass", "bytes": "same"})
    );
}

#[test]
fn redirects_say_where_to() {
    let Some(object) = compile("kinds", &[]) else {
        return;
    };
    let dir = folder();
    put(
        &dir,
        "maps.json",
        r#"{"ports": {"2": 6}, "globals": {"limit": 50}}"#,
    );
    put(
        &dir,
        "e.toml",
        "packets = [{ verdict = \"redirect\", redirect = { map = \"ports\", key = 2 } }]\n",
    );
    let named = format!("{}:kinds", object.path().display());
    let more = ["--maps", "maps.json", "--expect", "e.toml"];
    assert_code(&test(&dir, Path::new(&named), &more), 0);
    // Without the entry, the program's other verdict.
    let run = test(
        &dir,
        Path::new(&named),
        &["--set", "limit=50", "--expect", "e.toml"],
    );
    assert_code(&run, 1);
    assert!(
        stdout(&run).contains("expected redirect, got drop"),
        "{}",
        stdout(&run)
    );
}

#[test]
fn wrong_files_are_named_with_their_cause() {
    let dir = folder();
    let firewall = sample("firewall");
    for (option, text, cause) in [
        ("--maps", "[blokked]\n1 = 1\n", "no map `blokked`"),
        ("--maps", "[blocked]\n1 = \"_\"\n", "for expectations only"),
        (
            "--maps",
            "[globals]\nport = 1\n",
            "no global variable is named port",
        ),
        (
            "--maps",
            "[globals]\nclosed_port = 65536\n",
            "does not fit 2 bytes",
        ),
        ("--maps", "= 1\n", "not TOML"),
        (
            "--expect",
            "[[packets]]\nverdict = \"accept\"\n",
            "is no verdict",
        ),
        ("--expect", "[[packets]]\nbytes = \"abc\"\n", "`abc` is not"),
        ("--expect", "[[packets]]\ncolour = 1\n", "colour"),
        (
            "--expect",
            "[[packets]]\nredirect = 3\n",
            "write redirect as",
        ),
        ("--expect", "capture = \"gone.pcap\"\n", "gone.pcap"),
        (
            "--expect",
            "[maps]\nblocked = { x = 1 }\n",
            "map blocked, key x",
        ),
    ] {
        put(&dir, "f.toml", text);
        let run = test(&dir, &firewall, &[option, "f.toml"]);
        assert_code(&run, 1);
        assert!(stderr(&run).contains(cause), "{text}: {}", stderr(&run));
        assert!(stdout(&run).is_empty(), "{text}");
    }
    let usage = [
        (
            &["--write-expect", "x.txt"][..],
            "end the name in .toml or .json",
        ),
        (
            &["--write-expect", "x.toml", "--expect", "y.toml"],
            "cannot be used with",
        ),
        (&["--engine", "quick"], "interpreter"),
    ];
    for (more, hint) in usage {
        let run = test(&dir, &firewall, more);
        assert_code(&run, 2);
        assert!(stderr(&run).contains(hint), "{}", stderr(&run));
    }
}
