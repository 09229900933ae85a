//! The plugin for the public conformance suite, by its protocol: programs of our own, in every engine.

use std::io::Write;
use std::process::{Command, Output, Stdio};

#[path = "verifier/asm.rs"]
mod asm;

const ENGINES: [&[&str]; 3] = [&[], &["--jit"], &["--checked"]];

fn plugin(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_xdp-vm-conformance"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the plugin");
    let mut stdin = child.stdin.take().expect("its input");
    // It may have ended before it read all, on a wrong option.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("its output")
}

/// As the suite writes bytes: two spaces after each.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}  ")).collect()
}

fn program(text: &str) -> String {
    let insns = asm::program(text).insns;
    let bytes: Vec<u8> = insns.iter().flat_map(|i| i.to_bytes()).collect();
    hex(&bytes) + "\n"
}

/// What each engine prints; there is no compiler on some machines.
fn everywhere(memory: Option<&[u8]>, text: &str, check: impl Fn(&Output, &str)) {
    let memory = memory.map(hex);
    for engine in ENGINES {
        if engine == ["--jit"] && !cfg!(all(target_arch = "x86_64", unix)) {
            println!("there is no compiler for this machine: --jit is left out");
            continue;
        }
        let args: Vec<&str> = memory
            .iter()
            .map(|m| &m[..])
            .chain(engine.iter().copied())
            .collect();
        check(
            &plugin(&args, &program(text)),
            &format!("{engine:?} {text}"),
        );
    }
}

fn returns(memory: Option<&[u8]>, text: &str, r0: u64) {
    everywhere(memory, text, |output, what| {
        let printed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {errors}");
        assert_eq!(
            u64::from_str_radix(printed.trim(), 16),
            Ok(r0),
            "{what}: {printed}"
        );
    });
}

fn refused(text: &str, reason: &str) {
    everywhere(None, text, |output, what| {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {errors}");
        assert!(output.stdout.is_empty(), "{what}");
        assert!(errors.contains(reason), "{what}: {errors}");
    });
}

#[test]
fn all_64_bits_come_back() {
    returns(None, "r0 = -2\n exit", u64::MAX - 1);
    returns(
        None,
        "r0 = 0x123456789abcdef0 ll\n exit",
        0x1234_5678_9abc_def0,
    );
}

#[test]
fn memory_and_its_length_are_the_arguments() {
    let memory = [0x11, 0x22, 0x33, 0x44, 0x55];
    returns(Some(&memory), "r0 = *(u32 *)(r1 + 1)\n exit", 0x5544_3322);
    returns(Some(&memory), "r0 = r2\n exit", 5);
    returns(
        Some(&memory),
        "*(u16 *)(r1 + 3) = 258\n r0 = *(u16 *)(r1 + 3)\n exit",
        258,
    );
    returns(None, "r0 = r1\n r0 |= r2\n exit", 0);
}

/// What RFC 9669 has and verified programs may not do.
#[test]
fn shifts_are_masked_and_helpers_called_by_register() {
    returns(None, "r0 = 3\n r0 <<= 65\n exit", 6);
    returns(None, "r0 = -16\n r0 s>>= -62\n exit", u64::MAX - 3);
    returns(None, "w0 = 3\n w0 <<= 33\n exit", 6);
    // The number of the worker.
    returns(None, "r2 = 8\n .raw 0x8d 2 0 0 0\n exit", 0);
    refused("r2 = 8\n .raw 0x8d 2 0 0 1\n exit", "call");
}

#[test]
fn functions_have_frames_of_their_own() {
    let text = "r1 = 20\n *(u64 *)(r10 - 8) = 1\n call twice\n r1 = *(u64 *)(r10 - 8)\n r0 += r1
        exit\ntwice:\n *(u64 *)(r10 - 8) = 7\n r0 = r1\n r0 *= 2\n exit";
    returns(None, text, 41);
}

#[test]
fn what_is_no_program_is_refused_with_the_reason() {
    refused(".raw 0xb7 0 3 0 1\n exit", "src");
    refused(".raw 0xb7 0 0 8 1\n exit", "off");
    refused(".raw 0x95 1 0 0 0", "dst");
    refused(".raw 0xff 0 0 0 0\n exit", "instruction");
    refused("goto 9\n exit", "jump");
    refused("r0 = 1", "neither an exit nor a jump");
    // The program is run inside of another, which it cannot reach.
    refused(".raw 0x85 0 1 0 -8\n exit", "call");
}

#[test]
fn only_the_checked_interpreter_says_what_is_outside() {
    let output = plugin(
        &["--checked", "01  02"],
        &program("r0 = *(u32 *)(r1 + 0)\n exit"),
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors.contains("4 bytes at byte 0 of the memory, 2 bytes"),
        "{errors}"
    );
}

#[test]
fn input_that_is_none() {
    for (args, input) in [
        (&["--fast"][..], "95 00 00 00 00 00 00 00"),
        (&["0x12"], "95 00 00 00 00 00 00 00"),
        (&["1"], "95 00 00 00 00 00 00 00"),
        (&["11", "22"], "95 00 00 00 00 00 00 00"),
        (&[], "95 00 00"),
        (&[], "zz"),
        (&[], ""),
        (&["--elf"], "7f 45 4c 46"),
    ] {
        let output = plugin(args, input);
        assert_eq!(output.status.code(), Some(1), "{args:?} {input}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

#[test]
fn an_object_file() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../ixdp/programs/pass.bpf.o");
    let bytes = std::fs::read(sample).expect("the sample");
    for engine in ENGINES {
        let args = [engine, &["--elf"]].concat();
        let output = plugin(&args, &(hex(&bytes) + "\n"));
        let printed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(printed.trim(), "2", "{args:?}: {errors}");
    }
}
