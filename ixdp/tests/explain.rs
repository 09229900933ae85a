//! `ixdp verify` explains: the path in source lines, fields by name, what is known at each line, what
//! it leaves to others.

mod common;

use std::process::{Command, Output};

use common::{assert_code, compile, json_lines, stderr, stdout};
use tempfile::NamedTempFile;

fn verify(object: &NamedTempFile, more: &[&str]) -> Output {
    let mut command = common::ixdp(["verify"]);
    command.arg(object.path()).args(more).output().unwrap()
}

/// Every line fits a terminal.
#[track_caller]
fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

/// Asserts that `parts` come one after the other.
#[track_caller]
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn a_missing_check_is_told_with_its_numbers_and_the_path() {
    let Some(object) = compile("flow", &["NO_CHECK"]) else {
        return;
    };
    let run = verify(&object, &["--explain"]);
    assert_code(&run, 1);
    let text = stdout(&run);
    fits(&text);
    in_order(
        &text,
        &[
            "count: refused, ",
            "14 are",
            "source: flow.c:",
            "path: from the entry",
            "flow.c:34: if ((void *)(eth + 1) > end)",
            "not taken",
            "flow.c:36: if (eth->h_proto != bpf_htons(ETH_P_IP))",
            "remedy: check `data + ",
            "14 bytes are proven",
        ],
    );
    // The short form has the path, and not the branches.
    let short = stdout(&verify(&object, &[]));
    in_order(&short, &["path:", "flow.c:36", "remedy:"]);
    assert!(!short.contains("not taken"), "{short}");

    let line = json_lines(&stdout(&verify(&object, &["--format", "json"]))).remove(1);
    let path = line["path"].as_array().unwrap();
    assert_eq!(line["path_skipped"], 0);
    let at = |n: u64| path.iter().position(|s| s["line"]["line"] == n);
    let (first, second) = (at(34).unwrap(), at(36).unwrap());
    assert!(first < second, "{line}");
    assert_eq!(path[first]["taken"], false);
    assert_eq!(path[path.len() - 1]["line"], line["line"]);
    // Each register of the load was set by an instruction of the path.
    let set = line["registers"][0]["set_by"].as_u64().unwrap();
    assert!(set < line["instruction"].as_u64().unwrap());
    assert!(line["processed"].as_u64().unwrap() > 0 && line["peak_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn uninitialised_bytes_of_a_key_are_named_as_the_source_does() {
    for (definitions, byte, remedy) in [
        (
            &["NO_MEMSET"][..],
            "it is padding after proto of struct flow",
            "set the whole object first",
        ),
        (
            &["NO_MEMSET", "NO_PORT"],
            "it is padding after proto of struct flow",
            "__builtin_memset",
        ),
    ] {
        let Some(object) = compile("flow", definitions) else {
            return;
        };
        let run = verify(&object, &[]);
        assert_code(&run, 1);
        in_order(
            &stdout(&run),
            &["bpf_map_lookup_elem", byte, "is the map `flows`", remedy],
        );
    }
}

#[test]
fn without_type_information_instructions_are_named() {
    let Some(object) = compile("flow", &["NO_CHECK"]) else {
        return;
    };
    let strip = ["llvm-objcopy", "llvm-objcopy-14", "llvm-objcopy-19"];
    let stripped = strip.iter().find(|name| {
        let arguments = ["--remove-section=.BTF.ext", "--remove-section=.rel.BTF.ext"];
        let run = Command::new(name)
            .args(arguments)
            .arg(object.path())
            .status();
        run.is_ok_and(|status| status.success())
    });
    if stripped.is_none() {
        eprintln!("left out, there is no llvm-objcopy");
        return;
    }
    let run = verify(&object, &["--explain"]);
    assert_code(&run, 1);
    let text = stdout(&run);
    assert!(!text.contains("flow.c"), "{text}");
    in_order(
        &text,
        &[
            "at: instruction ",
            "path:",
            ": if r",
            ": not taken",
            "remedy:",
        ],
    );
    let run = verify(&object, &["--annotate"]);
    in_order(
        &stdout(&run),
        &["instruction 0: ", "r1      is the context"],
    );
}

#[test]
fn what_is_known_is_told_at_each_line() {
    let Some(object) = compile("flow", &[]) else {
        return;
    };
    let run = verify(&object, &["--annotate"]);
    assert_code(&run, 0);
    let text = stdout(&run);
    in_order(
        &text,
        &[
            "count:\n",
            "r1      is the context",
            "flow.c:34",
            "data + 0; 0 bytes are proven",
            "flow.c:36",
            "14 bytes are proven",
            "34 bytes are proven",
            "flow.c:50: n = bpf_map_lookup_elem(&flows, &f);",
            "fp-8",
            "flow.c:51: if (n)",
            "r0      points into a value of `flows` (8 bytes), at byte 0, or is null",
            "count: accepted, ",
        ],
    );
    let line = json_lines(&stdout(&verify(
        &object,
        &["--annotate", "--format", "json"],
    )))
    .remove(1);
    let lines = line["lines"].as_array().unwrap();
    let at = |n: u64| lines.iter().find(|l| l["line"]["line"] == n).unwrap();
    assert_eq!(at(34)["visits"], 1);
    // Several ways lead to the end.
    assert!(lines.iter().any(|l| l["visits"].as_u64() > Some(1)));
}

#[test]
fn programs_for_other_hooks_are_set_aside() {
    let Some(object) = compile("flow", &[]) else {
        return;
    };
    let run = verify(&object, &[]);
    assert_code(&run, 0);
    assert!(
        stdout(&run).contains("classify: set aside: its section `tc` makes it a tc program"),
        "{}",
        stdout(&run)
    );
    let run = verify(&object, &["--prog", "classify"]);
    assert_code(&run, 1);
    assert!(
        stderr(&run).contains("other types than XDP"),
        "{}",
        stderr(&run)
    );
}

#[test]
fn maps_that_cannot_be_made_are_named() {
    let Some(object) = compile("flow", &["NO_ROOM"]) else {
        return;
    };
    let run = verify(&object, &[]);
    assert_code(&run, 1);
    assert!(
        stdout(&run).contains("map flows cannot be made: "),
        "{}",
        stdout(&run)
    );
}
