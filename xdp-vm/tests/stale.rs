//! The committed objects are what `build.sh` makes of the committed sources.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use xdp_vm::Object;

/// MANIFEST: comments, of which the second names the compiler, then lines of `sha256sum`.
fn manifest() -> String {
    fs::read_to_string(common::folder().join("MANIFEST")).unwrap()
}

#[test]
fn sources_and_objects_are_those_recorded() {
    let manifest = manifest();
    let recorded: BTreeSet<_> = manifest
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| l.split_once("  ").unwrap().1.to_owned())
        .collect();
    let found: BTreeSet<_> = fs::read_dir(common::folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            [".h", ".bpf.c", ".bpf.o"]
                .iter()
                .any(|end| name.ends_with(end))
        })
        .collect();
    assert!(found.len() > 20);
    assert_eq!(found, recorded, "run build.sh and commit what it made");
    let check = Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "MANIFEST"])
        .current_dir(common::folder())
        .output()
        .expect("sha256sum, of coreutils");
    assert!(
        check.status.success(),
        "run build.sh and commit what it made: {}",
        String::from_utf8_lossy(&check.stdout)
    );
}

#[test]
fn the_same_compiler_makes_the_same_objects() {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let version = match Command::new(&clang).arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout)
            .lines()
            .next()
            .map(str::to_owned),
        Err(e) => return eprintln!("skipped: {clang}: {e}; install clang"),
    };
    let manifest = manifest();
    let recorded = manifest.lines().nth(1).and_then(|l| l.strip_prefix("# "));
    if version.as_deref() != recorded {
        return eprintln!("skipped: {clang} is {version:?}, the objects were made by {recorded:?}");
    }
    let out = tempfile::tempdir().unwrap();
    let done = Command::new(common::folder().join("build.sh"))
        .arg(out.path())
        .output()
        .unwrap();
    if !done.status.success() {
        let message = String::from_utf8_lossy(&done.stderr);
        if message.contains("file not found") || message.contains("not found\n") {
            return eprintln!("skipped: {message}; install llvm, libbpf-dev and linux-libc-dev");
        }
        panic!("{message}");
    }
    let mut compared = 0;
    for entry in fs::read_dir(out.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let fresh = Object::parse(&fs::read(&path).unwrap()).unwrap();
        let kept = Object::parse(&fs::read(common::folder().join(name)).unwrap()).unwrap();
        let code = |o: &Object| -> Vec<_> {
            o.programs
                .iter()
                .map(|p| (p.name.clone(), p.section.clone(), p.insns.clone()))
                .collect()
        };
        assert_eq!(
            code(&fresh),
            code(&kept),
            "{name}: run build.sh and commit what it made"
        );
        assert_eq!(
            fresh.maps, kept.maps,
            "{name}: run build.sh and commit what it made"
        );
        compared += 1;
    }
    assert!(compared >= 10);
}
