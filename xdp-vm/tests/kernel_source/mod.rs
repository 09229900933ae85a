//! The kernel's own BPF selftests, out of Debian's package of its source, compiled when a test asks for
//! them and kept in a cache outside of the repository (`IXDP_CACHE`, or `ixdp` in the user's cache
//! folder). Nothing of it is part of this repository.
//!
//! Needs Debian's `linux-source-6.12`, `clang-19`, `libbpf-dev` and, for the files that need the kernel's
//! types, `bpftool`; `.ci/run` installs them.
#![allow(dead_code)] // each test file uses its part

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ARCHIVE: &str = "/usr/src/linux-source-6.12.tar.xz";
const COMPILER: &str = "clang-19";
/// What of the archive is needed.
const PARTS: [&str; 3] = [
    "tools/testing/selftests/bpf",
    "tools/lib/bpf",
    "tools/include",
];

/// The source and where what is made of it goes.
pub(crate) struct Selftests {
    source: PathBuf,
    made: PathBuf,
}

impl Selftests {
    /// The source, unpacked; where it is not to be had, the reason.
    pub(crate) fn find() -> Result<Selftests, String> {
        let cache = cache()?;
        let archive = fs::metadata(ARCHIVE).map_err(|e| {
            format!(
                "{}; install linux-source-6.12",
                cannot(ARCHIVE.as_ref(), &e)
            )
        })?;
        // Another version of the package has another length.
        let root = cache.join(format!("linux-source-6.12-{}", archive.len()));
        if !root.exists() {
            unpack(&cache, &root)?;
        }
        let made = root.join("made");
        fs::create_dir_all(made.join("include/bpf")).map_err(|e| cannot(&made, &e))?;
        let selftests = Selftests { source: root, made };
        selftests.headers()?;
        Ok(selftests)
    }

    /// The objects of the sources in `progs/` whose name `wanted` picks, by name, compiled where that
    /// has not been done; and what clang said of those that do not compile.
    pub(crate) fn objects(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(Vec<PathBuf>, Vec<String>), String> {
        let progs = self.bpf().join("progs");
        let mut sources: Vec<PathBuf> = fs::read_dir(&progs)
            .map_err(|e| cannot(&progs, &e))?
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.extension().is_some_and(|e| e == "c"))
            .filter(|p| p.file_stem().is_some_and(|n| wanted(&n.to_string_lossy())))
            .collect();
        sources.sort();
        let (mut objects, mut failed) = (vec![], vec![]);
        // Two at a time, as the machines that run this have few cores.
        for pair in sources.chunks(2) {
            let running: Vec<_> = pair.iter().map(|source| self.compile(source)).collect();
            for (source, child) in pair.iter().zip(running) {
                let object = self.object_of(source);
                match child?.map(|child| child.wait_with_output()) {
                    None => objects.push(object),
                    Some(Ok(output)) if output.status.success() => {
                        fs::rename(object.with_extension("new"), &object)
                            .map_err(|e| cannot(&object, &e))?;
                        objects.push(object);
                    }
                    Some(Ok(output)) => {
                        let text = String::from_utf8_lossy(&output.stderr);
                        let line = text.lines().find(|l| l.contains("error")).unwrap_or("?");
                        failed.push(format!("{}: {line}", name_of(source)));
                    }
                    Some(Err(e)) => return Err(format!("{COMPILER}: {e}")),
                }
            }
        }
        Ok((objects, failed))
    }

    /// A folder for what a test makes of its own.
    pub(crate) fn folder(&self) -> &Path {
        &self.made
    }

    fn bpf(&self) -> PathBuf {
        self.source.join("tools/testing/selftests/bpf")
    }

    fn object_of(&self, source: &Path) -> PathBuf {
        self.made.join(name_of(source)).with_extension("o")
    }

    /// Starts the compiler; `None` where the object is there.
    fn compile(&self, source: &Path) -> Result<Option<std::process::Child>, String> {
        let object = self.object_of(source);
        if object.exists() {
            return Ok(None);
        }
        let bpf = self.bpf();
        let include = |folder: PathBuf| format!("-I{}", folder.display());
        Command::new(COMPILER)
            .args(["-target", "bpf", "-mcpu=v4", "-O2", "-g", "-std=gnu11"])
            .args(["-fno-strict-aliasing", "-Wno-everything"])
            // As the selftests' own Makefile says of the machine and the compiler.
            .args(["-D__TARGET_ARCH_x86", "-DENABLE_ATOMICS_TESTS"])
            .arg("-D__BPF_FEATURE_ADDR_SPACE_CAST")
            .arg(include(self.made.join("include")))
            .arg(include(bpf.clone()))
            .arg(include(bpf.join("progs")))
            .arg(include(self.source.join("tools/include/uapi")))
            .arg("-idirafter")
            .arg(format!(
                "/usr/include/{}-linux-gnu",
                std::env::consts::ARCH
            ))
            .arg("-c")
            .arg(source)
            .arg("-o")
            .arg(object.with_extension("new"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map(Some)
            .map_err(|e| format!("{COMPILER}: {e}; install {COMPILER}"))
    }

    /// The headers that the selftests' build would make or install.
    fn headers(&self) -> Result<(), String> {
        let include = self.made.join("include");
        for name in ["helpers", "tracing", "endian", "core_read"] {
            let file = format!("bpf_{name}.h");
            let from = self.source.join("tools/lib/bpf").join(&file);
            fs::copy(&from, include.join("bpf").join(&file)).map_err(|e| cannot(&from, &e))?;
        }
        let list = Path::new("/usr/include/bpf/bpf_helper_defs.h");
        fs::copy(list, include.join("bpf/bpf_helper_defs.h"))
            .map_err(|e| format!("{}; install libbpf-dev", cannot(list, &e)))?;
        let types = include.join("vmlinux.h");
        if types.exists() {
            return Ok(());
        }
        let dump = Command::new("bpftool")
            .args(["btf", "dump", "file", "/sys/kernel/btf/vmlinux"])
            .args(["format", "c"])
            .output();
        match dump {
            Ok(out) if out.status.success() => {
                fs::write(&types, out.stdout).map_err(|e| cannot(&types, &e))
            }
            Ok(out) => {
                let said = String::from_utf8_lossy(&out.stderr);
                eprintln!("without vmlinux.h: bpftool: {}", said.trim());
                Ok(())
            }
            Err(e) => {
                eprintln!("without vmlinux.h: bpftool: {e}; install bpftool");
                Ok(())
            }
        }
    }
}

fn cache() -> Result<PathBuf, String> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = from("IXDP_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|c| c.join("ixdp")))
        .or_else(|| from("HOME").map(|h| h.join(".cache/ixdp")))
        .ok_or("neither IXDP_CACHE nor HOME says where to build")?;
    fs::create_dir_all(&cache).map_err(|e| cannot(&cache, &e))?;
    Ok(cache)
}

/// Unpacks beside the place and moves it there, so that a half unpacked one is never found.
fn unpack(cache: &Path, root: &Path) -> Result<(), String> {
    let aside = cache.join(format!("unpacking-{}", std::process::id()));
    fs::create_dir_all(&aside).map_err(|e| cannot(&aside, &e))?;
    let status = Command::new("tar")
        .arg("-C")
        .arg(&aside)
        .args(["-xf", ARCHIVE])
        .args(PARTS.map(|p| format!("linux-source-6.12/{p}")))
        .status()
        .map_err(|e| format!("tar: {e}"))?;
    if !status.success() {
        return Err(format!("tar does not unpack {ARCHIVE}: {status}"));
    }
    let moved = fs::rename(aside.join("linux-source-6.12"), root);
    let _ = fs::remove_dir_all(&aside);
    match moved {
        // Another test was quicker.
        Err(_) if root.exists() => Ok(()),
        other => other.map_err(|e| cannot(root, &e)),
    }
}

fn name_of(source: &Path) -> String {
    let stem = source.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
