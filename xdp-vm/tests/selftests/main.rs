//! The kernel's own verifier selftests: for every program of its `verifier_*.c`, loaded as XDP, the verdict
//! of the running kernel and ours. Where they differ it is meant, and [`differences`] says why. The
//! sources come from Debian's package of the kernel and are compiled when the test runs.

mod differences;
#[path = "../kernel_source/mod.rs"]
mod kernel_source;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel_source::Selftests;
use xdp_vm::Object;
use xdp_vm::verifier::{Config, ProgramKind, verify};

/// The kernel has about as many; far fewer would mean that the programs were not found.
const LEAST_ACCEPTED: usize = 60;
const LEAST_REFUSED: usize = 50;

/// What the kernel said of a program.
struct Judged {
    object: String,
    program: String,
    /// Declared as XDP; the others are loaded as XDP all the same.
    xdp: bool,
    accepted: bool,
    log: String,
}

#[test]
fn the_kernel_and_we_decide_alike() {
    let (judged, objects) = match judged() {
        Ok(judged) => judged,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let ours: HashMap<(String, String), Result<(), String>> =
        objects.iter().flat_map(|path| verdicts(path)).collect();
    let mut tally: BTreeMap<(bool, bool, bool), usize> = BTreeMap::new();
    let mut unnamed = vec![];
    let mut met = vec![];
    for j in &judged {
        let key = (j.object.clone(), j.program.clone());
        let verdict = ours.get(&key).cloned();
        let verdict = verdict.unwrap_or_else(|| Err("not found in the object".to_string()));
        *tally
            .entry((j.xdp, j.accepted, verdict.is_ok()))
            .or_default() += 1;
        if j.accepted == verdict.is_ok() {
            continue;
        }
        let file = j.object.trim_start_matches("verifier_");
        let name = format!("{}/{}", file.trim_end_matches(".o"), j.program);
        match differences::reason(&name) {
            Some(_) => met.push(name),
            None => unnamed.push(match verdict {
                Ok(()) => format!("{name}: accepted here; the kernel: {}", j.log),
                Err(cause) => format!("{name}: refused here: {cause}"),
            }),
        }
    }
    for (xdp, what) in [(true, "of type XDP"), (false, "of other types")] {
        let count = |theirs, ours| tally.get(&(xdp, theirs, ours)).copied().unwrap_or(0);
        eprintln!(
            "{what}: accepted by the kernel {}, of these by us {}; refused by the kernel {}, of \
             these by us {}",
            count(true, true) + count(true, false),
            count(true, true),
            count(false, true) + count(false, false),
            count(false, false)
        );
        if xdp {
            assert!(count(true, true) >= LEAST_ACCEPTED, "hardly any accepted");
            assert!(count(false, false) >= LEAST_REFUSED, "hardly any refused");
        }
    }
    assert!(
        unnamed.is_empty(),
        "{} programs differ and differences.rs does not say why:\n{}",
        unnamed.len(),
        unnamed.join("\n")
    );
    // The running kernel decides what can differ, so one that agrees may differ on another.
    for (name, _) in differences::all().filter(|(name, _)| !met.iter().any(|m| m == name)) {
        eprintln!("agrees on this kernel, and need not be named: {name}");
    }
}

/// The kernel's verdicts, and the objects that they are on.
fn judged() -> Result<(Vec<Judged>, Vec<PathBuf>), String> {
    let selftests = Selftests::find()?;
    let (objects, failed) = selftests.objects(|name| name.starts_with("verifier_"))?;
    for line in failed {
        eprintln!("left out: {line}");
    }
    let judge = build_judge(selftests.folder())?;
    let output = Command::new(&judge)
        .args(&objects)
        .output()
        .map_err(|e| format!("{}: {e}", judge.display()))?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let mut judged = vec![];
    let mut unasked = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [object, program, _, xdp, verdict, log] = fields[..] else {
            return Err(format!("the judge says `{line}`"));
        };
        if verdict == "unasked" {
            unasked += 1;
            continue;
        }
        judged.push(Judged {
            object: object.to_owned(),
            program: program.to_owned(),
            xdp: xdp == "1",
            accepted: verdict == "accepted",
            log: log.to_owned(),
        });
    }
    eprintln!("{unasked} programs of other types that libbpf does not load as XDP are left out");
    if !judged.iter().any(|j| j.accepted) {
        return Err("the kernel accepts nothing: bpf(2) is not permitted, or has no XDP".into());
    }
    Ok((judged, objects))
}

fn build_judge(folder: &Path) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/selftests/judge.c");
    let judge = folder.join("judge");
    let output = Command::new("clang-19")
        .args(["-O1", "-Wall"])
        .arg(&source)
        .arg("-o")
        .arg(&judge)
        .arg("-lbpf")
        .output()
        .map_err(|e| format!("clang-19: {e}; install clang-19"))?;
    match output.status.success() {
        true => Ok(judge),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

type Verdict = ((String, String), Result<(), String>);

/// Ours, on every program of an object.
fn verdicts(path: &Path) -> Vec<Verdict> {
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let object = match Object::parse(&fs::read(path).unwrap()) {
        Ok(object) => object,
        Err(e) => {
            eprintln!("{file}: {e}");
            return vec![];
        }
    };
    let rejected = object.rejected.iter().map(|r| {
        let key = (file.clone(), r.name.clone());
        (key, Err(r.error.to_string()))
    });
    let verified = object.programs.iter().map(|program| {
        let config = Config {
            kind: kind_of(&program.section),
            ..Config::default()
        };
        let verdict = verify(program, &object.maps, &config);
        let verdict = verdict
            .map(|_| ())
            .map_err(|e| format!("instruction {}, {}: {}", e.insn, e.text, e.cause));
        ((file.clone(), program.name.clone()), verdict)
    });
    rejected.chain(verified).collect()
}

/// As libbpf reads section names.
fn kind_of(section: &str) -> ProgramKind {
    match section.split_once('/') {
        Some(("xdp" | "xdp.frags", "devmap")) => ProgramKind::XdpDevmap,
        Some(("xdp" | "xdp.frags", "cpumap")) => ProgramKind::XdpCpumap,
        _ => ProgramKind::Xdp,
    }
}
