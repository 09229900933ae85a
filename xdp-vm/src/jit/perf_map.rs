//! Names for profilers: `perf` looks for the symbols of code that it finds in no file in
//! `/tmp/perf-PID.map`, a line each: start and size in hexadecimal, then the name
//! (`tools/perf/Documentation/jit-interface.txt` of the kernel's sources).

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::Program;
use crate::Tag;

/// Where `perf` looks for the symbols of this process.
pub(super) fn path() -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()))
}

/// Adds the functions of a program, with the names that the kernel gives: `bpf_prog_TAG_NAME`.
/// `functions` are slots and offsets of code, ascending.
pub(super) fn add(program: &Program, code: &[u8], functions: &[(usize, u32)]) -> io::Result<()> {
    let tag = Tag::of(&program.insns);
    let base = code.as_ptr().addr();
    let ends = functions
        .iter()
        .skip(1)
        .map(|f| f.1 as usize)
        .chain([code.len()]);
    let mut lines = String::new();
    for (&(slot, start), end) in functions.iter().zip(ends) {
        let start = start as usize;
        let name = match slot {
            0 => &program.name,
            _ => program.function_of(slot).map_or(&program.name, |f| &f.name),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            lines,
            "{:x} {:x} bpf_prog_{tag}_{name}",
            base + start,
            end - start
        );
    }
    // Its name can be guessed, and the folder is everybody's: a link there may lead anywhere.
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path())?;
    file.write_all(lines.as_bytes())
}
