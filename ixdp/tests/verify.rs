//! `ixdp verify`, and objects that are none.

mod common;

use std::path::Path;

use common::{assert_code, json_lines, output, sample, stderr, stdout};

/// `w0 = 1`, which every compiled `return XDP_DROP` has, and what it is made into.
const DROP: [u8; 8] = [0xb4, 0, 0, 0, 1, 0, 0, 0];
/// `r0 = r10`: gives the stack's address away.
const LEAK: [u8; 8] = [0xbf, 0xa0, 0, 0, 0, 0, 0, 0];
/// A call of bpf_map_lookup_elem, and of a helper that there is not.
const LOOKUP: [u8; 8] = [0x85, 0, 0, 0, 1, 0, 0, 0];
const NOTHING: [u8; 8] = [0x85, 0, 0, 0, 0x77, 0x77, 0, 0];

/// A sample's object with every `from` made into `to`.
fn patched(name: &str, from: [u8; 8], to: [u8; 8]) -> tempfile::NamedTempFile {
    let mut object = std::fs::read(sample(name)).unwrap();
    let mut found = 0;
    for at in 0..object.len() - 8 {
        if object[at..at + 8] == from {
            object[at..at + 8].copy_from_slice(&to);
            found += 1;
        }
    }
    assert!(found > 0, "{name} has the instruction");
    file(&object)
}

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".o").tempfile().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn verify(path: &Path, more: &[&str]) -> std::process::Output {
    common::ixdp(["verify"])
        .arg(path)
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn safe_programs_get_a_line_each() {
    let run = verify(&sample("mixed"), &[]);
    assert_code(&run, 0);
    let text = stdout(&run);
    for name in ["lottery", "aborted", "by_length", "forget"] {
        let line = text
            .lines()
            .find(|l| l.starts_with(&format!("{name}: accepted, ")));
        let line = line.unwrap_or_else(|| panic!("{name}: {text}"));
        for figure in [" instructions, ", " processed, ", " states, ", " ms"] {
            assert!(line.contains(figure), "{line}");
        }
    }
    let run = verify(&sample("mixed"), &["--format", "json", "--prog", "forget"]);
    assert_code(&run, 0);
    let lines = json_lines(&stdout(&run));
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (&lines[0]["program"], &lines[0]["verdict"]),
        (&"forget".into(), &"accepted".into())
    );
    assert!(
        lines[0]["processed"].as_u64().unwrap() >= lines[0]["instructions"].as_u64().unwrap() / 2
    );
}

#[test]
fn a_refusal_is_explained() {
    for (object, cause) in [
        (patched("drop", DROP, LEAK), "r0"),
        (patched("firewall", LOOKUP, NOTHING), "30583"),
    ] {
        let run = verify(object.path(), &[]);
        assert_code(&run, 1);
        let text = stdout(&run);
        assert!(
            text.contains(": refused") && text.contains("remedy:"),
            "{text}"
        );
        assert!(text.to_lowercase().contains(cause), "{text}");

        let run = verify(object.path(), &["--format", "json"]);
        assert_code(&run, 1);
        let line = json_lines(&stdout(&run)).remove(0);
        assert_eq!(line["verdict"], "refused");
        assert!(
            line["instruction"].is_u64() && line["line"]["text"].is_string(),
            "{line}"
        );

        // What is refused does not run either, and nothing is written.
        let name = object.path().to_str().unwrap();
        let run = output(["bench", "drop", "--prog", name]);
        assert_code(&run, 1);
        assert!(
            stderr(&run).contains(name) && stderr(&run).contains("refused"),
            "{}",
            stderr(&run)
        );
        assert!(stdout(&run).is_empty());
    }
}

#[test]
fn an_unknown_name_says_which_there_are() {
    let run = verify(&sample("mixed"), &["--prog", "lotery"]);
    assert_code(&run, 1);
    assert!(
        stderr(&run).contains("lottery, aborted"),
        "{}",
        stderr(&run)
    );
}

/// The object with no section marked executable.
fn without_code(object: &[u8]) -> Vec<u8> {
    let mut object = object.to_vec();
    let word = |at: usize| u16::from_le_bytes([object[at], object[at + 1]]) as usize;
    let (first, size, count) = (word(0x28), word(0x3a), word(0x3c));
    for flags in (0..count).map(|i| first + i * size + 8) {
        object[flags] &= !4;
    }
    object
}

#[test]
fn objects_that_are_none_name_file_and_cause() {
    let good = std::fs::read(sample("drop")).unwrap();
    let change = |changes: &[(usize, u8)]| {
        let mut bytes = good.clone();
        changes.iter().for_each(|(at, to)| bytes[*at] = *to);
        bytes
    };
    let cases: [(Vec<u8>, &str); 7] = [
        (b"#include <linux/bpf.h>\n".to_vec(), "ELF"),
        (Vec::new(), "ELF"),
        (change(&[(5, 2), (18, 0), (19, 247)]), "big-endian"),
        (change(&[(18, 62)]), "machine 62"),
        (good[..good.len() / 2].to_vec(), ""),
        (change(&[(16, 2)]), "relocatable"),
        (without_code(&good), "no program"),
    ];
    for (bytes, cause) in cases {
        let object = file(&bytes);
        for args in [&["verify"][..], &["run"]] {
            let run = common::ixdp(args).arg(object.path()).output().unwrap();
            assert_code(&run, 1);
            let said = stderr(&run);
            assert!(
                said.starts_with("error: ") && said.contains(cause),
                "{cause}: {said}"
            );
            assert!(said.contains(object.path().to_str().unwrap()), "{said}");
        }
    }
    let missing = verify(Path::new("no/such.o"), &[]);
    assert_code(&missing, 1);
    assert!(stderr(&missing).contains("no/such.o"));
}
