//! Programs that the object puts into a program array are there when the first one runs.

mod common;

use std::process::Command;

use common::{assert_code, json_lines, output, stdout};
use ixdp::LoadedProgram;
use ixdp::xdp_vm::Object;

const SOURCE: &str = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
int last(struct xdp_md *ctx);
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 4);
    __uint(key_size, 4);
    __array(values, int (void *));
} next SEC(".maps") = { .values = { [2] = (void *)&last } };
SEC("xdp/last") int last(struct xdp_md *ctx) { return XDP_TX; }
SEC("xdp") int first(struct xdp_md *ctx) { bpf_tail_call(ctx, &next, 2); return XDP_ABORTED; }
char _license[] SEC("license") = "GPL";
"#;

#[test]
fn an_initialised_program_array_is_filled() {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("t.bpf.c"), folder.path().join("t.bpf.o"));
    std::fs::write(&source, SOURCE).unwrap();
    let include = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let compiled = Command::new("clang")
        .args(["-O2", "-g", "-target", "bpf", &include, "-c"])
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .output();
    match compiled {
        Ok(out) if out.status.success() => {}
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stderr);
            eprintln!("left out: clang cannot compile it (is libbpf-dev there?): {said}");
            return;
        }
        Err(e) => {
            eprintln!("left out: clang is needed: {e}");
            return;
        }
    }
    let bytes = std::fs::read(&object).unwrap();
    LoadedProgram::load(&Object::parse(&bytes).unwrap(), Some("first"), 1).unwrap();

    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/five.pcap");
    let run = output([
        "run".as_ref(),
        object.as_os_str(),
        "--prog".as_ref(),
        "first".as_ref(),
        "--in".as_ref(),
        capture.as_ref(),
        "--verdicts".as_ref(),
        "-".as_ref(),
    ]);
    assert_code(&run, 0);
    let lines = json_lines(&stdout(&run));
    assert!(lines[..5].iter().all(|l| l["verdict"] == "tx"), "{lines:?}");
}
