//! Programs to verify: the samples, what the distribution installs, and two that are made here for
//! their size.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use xdp_vm::Object;

/// Objects by name, and what there is not, with the reason.
pub(crate) fn objects() -> (Vec<(String, Object)>, Vec<String>) {
    let (mut objects, mut missing) = (vec![], vec![]);
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ixdp/programs");
    let installed = std::env::var("XDP_OBJECTS")
        .unwrap_or_else(|_| format!("/usr/lib/{}-linux-gnu/bpf", std::env::consts::ARCH));
    for (folder, remedy) in [
        (samples, "run it in the repository"),
        (PathBuf::from(installed), "install xdp-tools"),
    ] {
        let found = in_folder(&folder);
        if found.is_empty() {
            missing.push(format!("no objects in {}; {remedy}", folder.display()));
        }
        for (name, bytes) in found {
            push(&mut objects, &mut missing, name, Ok(bytes));
        }
    }
    let balancer = include_str!("balancer.c");
    push(
        &mut objects,
        &mut missing,
        "balancer".into(),
        compile(balancer),
    );
    push(
        &mut objects,
        &mut missing,
        "rules".into(),
        compile(&rules()),
    );
    (objects, missing)
}

fn push(
    objects: &mut Vec<(String, Object)>,
    missing: &mut Vec<String>,
    name: String,
    bytes: Result<Vec<u8>, String>,
) {
    let object = bytes.and_then(|b| Object::parse(&b).map_err(|e| e.to_string()));
    match object {
        Ok(object) => objects.push((name, object)),
        Err(e) => missing.push(format!("{name}: {e}")),
    }
}

fn in_folder(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "o"))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.split('.').next()?.to_owned();
        Some((name, std::fs::read(path).ok()?))
    };
    paths.into_iter().filter_map(read).collect()
}

fn compile(source: &str) -> Result<Vec<u8>, String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let (c, o) = (folder.path().join("a.c"), folder.path().join("a.o"));
    std::fs::write(&c, source).map_err(|e| e.to_string())?;
    let output = Command::new(&clang)
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c"])
        .args([c.as_path(), Path::new("-o"), &o])
        .output()
        .map_err(|e| format!("{clang}: {e}; install clang"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    std::fs::read(&o).map_err(|e| e.to_string())
}

/// As generators make filters: some 20,000 instructions, a rule after the other in line, each of which
/// reads what it looks at.
fn rules() -> String {
    const RULES: u32 = 680;
    let mut rng = fastrand::Rng::with_seed(20_000);
    let mut c = String::from(
        "typedef unsigned char u8; typedef unsigned short u16; typedef unsigned u32;
         typedef unsigned long long u64;
         struct xdp_md { u32 data, data_end, data_meta, in, queue, out; };
         struct { int (*type)[6]; int (*max_entries)[1024]; u32 *key; u64 *value; } hits
            __attribute__((section(\".maps\"), used));
         static void *(*const lookup)(void *map, const void *key) = (void *)1;
         #define FIELD(type, at) (*(volatile type *)(data + at))
         #define SRC __builtin_bswap32(FIELD(u32, 26))
         #define DST __builtin_bswap32(FIELD(u32, 30))
         #define FROM __builtin_bswap16(FIELD(u16, 34))
         #define TO __builtin_bswap16(FIELD(u16, 36))
         __attribute__((section(\"xdp\"), used)) int rules(struct xdp_md *ctx)
         {
            u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end;
            u64 *n;
            u32 key;
            if (data + 42 > end || *(u16 *)(data + 12) != 8 || (data[14] & 15) != 5) return 2;\n",
    );
    for rule in 0..RULES {
        let mut mask = || u32::MAX << rng.u32(0..24);
        let (src_mask, dst_mask) = (mask(), mask());
        let (src, dst) = (rng.u32(..) & src_mask, rng.u32(..) & dst_mask);
        let low = rng.u16(..60_000);
        let test = match rng.u8(..3) {
            0 => format!("(SRC & {src_mask}u) == {src}u && TO >= {low} && TO < {low} + 100"),
            1 => format!("(DST & {dst_mask}u) == {dst}u && FIELD(u8, 23) == 6 && FROM > {low}"),
            _ => format!(
                "(SRC & {src_mask}u) == {src}u && (DST & {dst_mask}u) == {dst}u && FIELD(u8, 23) != 1"
            ),
        };
        let verdict = rng.u8(1..3);
        let _ = writeln!(
            c,
            "if ({test}) {{ key = {rule}; n = lookup(&hits, &key);
               if (n) {{ *n += TO + {rule}; if (data + {rule} % 64 + 43 < end)
                 *n ^= data[{rule} % 64 + 42]; }}
               asm volatile(\"\"); return {verdict}; }}"
        );
    }
    c + "return 2; }\nchar _license[] __attribute__((section(\"license\"), used)) = \"GPL\";\n"
}
