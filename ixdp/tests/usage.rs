//! Help, and wrong usage: exit code 2, and a hint of what is right.

mod common;

use common::{assert_code, output, sample, stderr, stdout};

#[test]
fn help_teaches_by_examples_and_fits_a_terminal() {
    for args in [
        &["--help"][..],
        &["bench", "--help"],
        &["bench", "drop", "--help"],
        &["run", "--help"],
        &["verify", "--help"],
    ] {
        let help = common::ixdp(args).env("COLUMNS", "80").output().unwrap();
        assert_code(&help, 0);
        let text = stdout(&help);
        assert!(
            args.len() == 2 && args[0] == "bench" || text.contains("Examples:"),
            "{text}"
        );
        let long: Vec<_> = text.lines().filter(|l| l.chars().count() > 80).collect();
        assert!(long.is_empty(), "{args:?}: {long:#?}");
    }
    let version = output(["--version"]);
    assert_code(&version, 0);
    assert!(stdout(&version).starts_with("ixdp "));
}

#[test]
fn wrong_usage_is_code_2_with_a_hint() {
    let object = sample("drop");
    let object = object.to_str().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&[], "Usage"),
        (&["dorp"], "unrecognized subcommand"),
        (&["bench"], "Usage"),
        (&["bench", "drop", "--bacth", "1"], "--batch"),
        (&["bench", "drop", "eth0"], "emu:82599"),
        (&["bench", "drop", "0000:03:00.0"], "emulated devices only"),
        (
            &["bench", "drop", "vfio-user:/run/x"],
            "emulated devices only",
        ),
        (&["bench", "drop", "emu:x710"], "emu:x540"),
        (&["bench", "drop", "emu:82599,loss=2"], "share from 0 to 1"),
        (&["bench", "drop", "emu:82599,step"], "hint"),
        (&["bench", "drop", "--queues", "0"], "1..=64"),
        (&["bench", "drop", "--queues", "65"], "1..=64"),
        (&["bench", "drop", "--ring", "100"], "multiple of 8"),
        (&["bench", "drop", "--ring", "8"], "64 to 4096"),
        (&["bench", "drop", "--cores", "2"], "hint"),
        (&["bench", "drop", "--pin", "3-1"], "backwards"),
        (&["bench", "drop", "--pin", "0"], "hint"),
        (&["bench", "drop", "--pin", "0,8191"], "may not run"),
        (&["bench", "drop", "--frames", "10"], "hint"),
        (&["bench", "drop", "--batch", "0"], "1..=1024"),
        (&["bench", "drop", "--duration", "-1"], "seconds"),
        (&["bench", "drop", "--duration", "NaN"], "seconds"),
        (&["bench", "drop", "--interval", "0"], "at least"),
        (&["bench", "drop", "--count", "0"], "--count"),
        (&["bench", "drop", "--frame-size", "63"], "64..=9728"),
        (&["bench", "drop", "--format", "xml"], "json"),
        (
            &["bench", "drop", "--per-proto", "--skip-prog"],
            "cannot be used with",
        ),
        (
            &["bench", "drop", "--prog", "a.o", "--per-proto"],
            "cannot be used with",
        ),
        (&["run"], "PROG.o"),
        (&["run", object, "--out", "x.pcap"], "--in"),
        (
            &["run", object, "--in", "x.pcap", "--count", "1"],
            "cannot be used with",
        ),
        (
            &["run", object, "--in", "x.pcap", "--out", "x.pcap"],
            "hint",
        ),
        (
            &[
                "run", object, "--in", "a.pcap", "--out", "x.pcap", "--tx-out", "./x.pcap",
            ],
            "hint",
        ),
        (
            &["run", object, "--in", "a.pcap", "--out", "x.txt"],
            ".pcapng",
        ),
        (
            &["run", object, "--in", "a.pcap", "--verdicts", object],
            "hint",
        ),
        (
            &["run", object, "emu:82599,loss=0.1", "--in", "a.pcap"],
            "hint",
        ),
        (&["run", object, "--dump-maps", "-"], "/dev/stdout"),
        (
            &["run", object, "emu:82599,seed=7", "--in", "a.pcap"],
            "hint",
        ),
        (&["run", object, "--set", "port"], "VAR=VALUE"),
        (&["verify"], "PROG.o"),
    ];
    for (args, hint) in cases {
        let wrong = output(*args);
        assert_eq!(wrong.status.code(), Some(2), "{args:?}: {}", stderr(&wrong));
        assert!(stdout(&wrong).is_empty(), "{args:?}");
        assert!(
            stderr(&wrong).contains(hint),
            "{args:?} {hint}: {}",
            stderr(&wrong)
        );
    }
}
