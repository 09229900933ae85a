//! clang for BPF, where there is one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The object that `compiler`, as Debian names it, makes of `source` for a version of the instruction set.
/// Where it cannot here, the reason.
///
/// # Panics
/// Where the source is at fault.
pub(crate) fn compile(compiler: &str, version: &str, source: &Path) -> Result<Vec<u8>, String> {
    let name = source.file_stem().and_then(|n| n.to_str()).unwrap_or("x");
    let object: PathBuf = std::env::temp_dir().join(format!(
        "ixdp-test-{}-{compiler}-{version}-{name}.o",
        std::process::id()
    ));
    let machine = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(compiler)
        .args([
            "-target",
            "bpf",
            "-O2",
            "-g",
            "-Wall",
            "-Wno-unused-command-line-argument",
        ])
        .arg(format!("-mcpu={version}"))
        .args(["-idirafter", &machine])
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output()
        .map_err(|e| e.to_string())?;
    let bytes = std::fs::read(&object).map_err(|e| e.to_string());
    let _ = std::fs::remove_file(&object);
    if output.status.success() {
        return bytes;
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let wanting = [
        "unknown target CPU",
        "file not found",
        "unable to create target",
    ];
    match text.lines().find(|l| wanting.iter().any(|w| l.contains(w))) {
        Some(line) => Err(line.to_string()),
        None => panic!("{source:?} does not compile with {compiler} {version}:\n{text}"),
    }
}
