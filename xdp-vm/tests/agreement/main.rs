//! Programs on the running kernel and in each engine here: the same verdict, the same packet after, the
//! same maps, packet for packet. Of the samples, of the objects that Debian's xdp-tools installs, and
//! of the kernel's own selftests. Where the kernel may not be asked, the test says so and goes without.
//!
//! `IXDP_AGREEMENT_PACKETS` says how many packets a program.

#[allow(dead_code)] // each test file uses its part
#[path = "../verifier/asm.rs"]
mod asm;
mod both;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/clang.rs"]
mod compiler;
#[path = "../verifier/kernel.rs"]
mod kernel;
#[path = "../kernel_source/mod.rs"]
mod kernel_source;
mod maps;
mod packets;
mod processor;
mod written;

use std::path::{Path, PathBuf};

use both::Left;
use xdp_vm::Object;

/// Packets a program, unless told.
const PACKETS: usize = 10_000;

/// Programs that hang on something other than the packets and the maps, and on what.
const APART: &[(&str, &str)] = &[("mixed.bpf/lottery", "chance")];

#[test]
fn samples_agree() {
    let folder = common::folder();
    let agreed = objects_agree("the samples", &objects_in(&folder));
    assert!(
        agreed.is_none_or(|n| n >= 11),
        "samples are missing: {agreed:?}"
    );
}

/// Strangers' objects: those that Debian's xdp-tools installs, or of the folder that `XDP_OBJECTS`
/// names.
#[test]
fn installed_objects_agree() {
    let folder = std::env::var("XDP_OBJECTS")
        .unwrap_or_else(|_| format!("/usr/lib/{}-linux-gnu/bpf", std::env::consts::ARCH));
    let objects = objects_in(Path::new(&folder));
    if objects.is_empty() {
        return eprintln!("skipped: no objects in {folder}; install xdp-tools");
    }
    objects_agree("installed objects", &objects);
}

#[test]
fn selftests_agree() {
    let wanted = |name: &str| {
        let xdp = name.contains("xdp") || name.starts_with("xsk");
        xdp && !name.starts_with("verifier_")
    };
    let found = kernel_source::Selftests::find().and_then(|s| s.objects(wanted));
    let (objects, failed) = match found {
        Ok(found) => found,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    for line in failed {
        eprintln!("left out: {line}");
    }
    let agreed = objects_agree("the kernel's selftests", &objects);
    assert!(agreed.is_none_or(|n| n >= 30), "hardly any: {agreed:?}");
}

/// Load balancers, checksums, headers in loops, generated programs of 20,000 instructions and of 30
/// functions: as both sides accept them all, all must be compared.
#[test]
fn programs_of_strangers_kinds_agree() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, wanted) = written::objects(folder.path());
    let found = objects.iter().map(|path| {
        let object = Object::parse(&std::fs::read(path).unwrap()).unwrap();
        object.programs.len()
    });
    let programs = found.sum();
    eprintln!("{} of {wanted} objects, {programs} programs", objects.len());
    let agreed = objects_agree("programs of strangers' kinds", &objects);
    assert!(
        agreed.is_none_or(|n| n == programs),
        "{agreed:?} of {programs}"
    );
}

/// Compares every program of the objects; those that both sides refuse are left out. Gives how many were
/// compared; `None` where the kernel may not be asked.
fn objects_agree(what: &str, objects: &[PathBuf]) -> Option<usize> {
    if !kernel::may_be_asked() {
        return None;
    }
    let count = std::env::var("IXDP_AGREEMENT_PACKETS");
    let count = count.ok().and_then(|n| n.parse().ok()).unwrap_or(PACKETS);
    let mut agreed = 0;
    let mut wrong = vec![];
    for path in objects {
        let file = path.file_stem().unwrap_or_default().to_string_lossy();
        let object = match Object::parse(&std::fs::read(path).unwrap()) {
            Ok(object) => object,
            Err(e) => {
                wrong.push(format!("{file}: {e}"));
                continue;
            }
        };
        for rejected in &object.rejected {
            eprintln!("{file}/{}: left out: {}", rejected.name, rejected.error);
        }
        for program in &object.programs {
            let name = format!("{file}/{}", program.name);
            if let Some((_, what)) = APART.iter().find(|(of, _)| *of == name) {
                eprintln!("{name}: left out: its verdict hangs on {what}");
                continue;
            }
            match both::compare(&object, program, count) {
                Ok(done) => {
                    agreed += 1;
                    let (verdicts, entries) = (done.verdicts, done.entries);
                    eprintln!("{name}: {count} packets, {entries} entries, verdicts {verdicts:?}");
                }
                Err(Left::Differ(place)) => wrong.push(format!("{name}: {place}")),
                Err(Left::Unasked(why)) => eprintln!("{name}: left out: {why}"),
                Err(Left::Refused {
                    ours: Some(ours),
                    theirs: None,
                }) => wrong.push(format!("{name}: refused here alone: {ours}")),
                Err(Left::Refused { ours, theirs }) => {
                    let side = if ours.is_some() {
                        "both sides"
                    } else {
                        "the kernel"
                    };
                    let theirs = theirs.unwrap_or_default();
                    eprintln!("{name}: left out: refused by {side}: {theirs}");
                }
            }
        }
    }
    eprintln!("{what}: {agreed} programs agree on {count} packets each, in every engine");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Some(agreed)
}

/// The objects of a folder, by name.
fn objects_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return vec![];
    };
    let paths = entries.flatten().map(|e| e.path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|p| p.extension().is_some_and(|e| e == "o"))
        .collect();
    paths.sort();
    paths
}
