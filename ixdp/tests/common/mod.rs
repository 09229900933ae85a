//! What the tests of the command line share: the command itself, and captures written and read by
//! hand, so that no library stands on both sides.
#![allow(dead_code)] // not every test file uses everything

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The built command.
pub(crate) fn ixdp<I: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixdp"));
    command.args(args).env_remove("RUST_LOG");
    command
}

/// A sample program's object.
pub(crate) fn sample(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    programs.join(format!("{name}.bpf.o"))
}

/// Runs to the end.
pub(crate) fn output<I: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = I>) -> Output {
    ixdp(args).output().expect("the command runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("errors are UTF-8")
}

/// Asserts the exit code, showing what was said where it is another.
#[track_caller]
pub(crate) fn assert_code(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "stdout:\n{}\nstderr:\n{}",
        stdout(output),
        stderr(output)
    );
}

/// Every line as a JSON object.
#[track_caller]
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            assert!(value.is_object(), "{line}");
            value
        })
        .collect()
}

/// The sum of the numbers in an object.
pub(crate) fn sum(object: &Value) -> u64 {
    let members = object.as_object().expect("an object").values();
    members.map(|v| v.as_u64().expect("a count")).sum()
}

/// A captured packet: microseconds and bytes.
pub(crate) type Captured = (u64, Vec<u8>);

/// A classic capture: little-endian, microseconds, Ethernet.
pub(crate) fn pcap(packets: &[Captured]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend(word.to_le_bytes());
    }
    for (micros, data) in packets {
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        let len = data.len() as u32;
        for word in [seconds as u32, rest as u32, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(data);
    }
    file
}

/// Reads a classic capture, as [`pcap`] writes it or with nanoseconds or in the other byte order.
#[track_caller]
pub(crate) fn read_pcap(path: &Path) -> Vec<Captured> {
    let file = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let little = matches!(
        file[..4],
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]
    );
    let word = |at: usize| {
        let bytes = file[at..at + 4].try_into().unwrap();
        match little {
            true => u32::from_le_bytes(bytes),
            false => u32::from_be_bytes(bytes),
        }
    };
    let nanos = match word(0) {
        0xa1b2_c3d4 => false,
        0xa1b2_3c4d => true,
        magic => panic!("magic {magic:#x}"),
    };
    assert_eq!(word(20), 1, "Ethernet");
    let mut packets = Vec::new();
    let mut at = 24;
    while at < file.len() {
        let fraction = u64::from(word(at + 4)) / if nanos { 1000 } else { 1 };
        let len = word(at + 8) as usize;
        let data = file[at + 16..at + 16 + len].to_vec();
        packets.push((u64::from(word(at)) * 1_000_000 + fraction, data));
        at += 16 + len;
    }
    packets
}

/// An Ethernet frame, unpadded.
pub(crate) fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ether_type.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A VLAN tag and what it tags.
pub(crate) fn vlan(id: u16, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes()[..], &ether_type.to_be_bytes(), payload].concat()
}

/// An IPv4 header without options, and its payload.
pub(crate) fn ipv4(source: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    packet.extend(source);
    packet.extend([10, 9, 8, 7]);
    let sum = ones_complement(&packet);
    packet[10..12].copy_from_slice(&(!sum).to_be_bytes());
    packet.extend(payload);
    packet
}

fn ones_complement(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// An IPv6 header and its payload.
pub(crate) fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend(payload);
    packet
}

/// A UDP datagram without a checksum.
pub(crate) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for word in [source, destination, (8 + payload.len()) as u16, 0] {
        datagram.extend(word.to_be_bytes());
    }
    datagram.extend(payload);
    datagram
}

/// Packets of many shapes, the same on each call: IPv4 and IPv6, with and without VLAN tags, UDP to
/// open and closed ports, cut headers, payloads from none to several receive buffers.
pub(crate) fn mixed_packets(count: usize) -> Vec<Captured> {
    let mut random = fastrand::Rng::with_seed(82599);
    let packet = |r: &mut fastrand::Rng| {
        let long = r.u8(..) < 20;
        let length = if long {
            r.usize(1500..9600)
        } else {
            r.usize(0..300)
        };
        let payload: Vec<u8> = std::iter::repeat_with(|| r.u8(..)).take(length).collect();
        let transport = match r.u8(..4) {
            0 => (6, payload),
            1 => (r.u8(..), payload),
            _ => {
                let port = if r.bool() { 9 } else { r.u16(1..20) };
                (17, udp(r.u16(..), port, &payload))
            }
        };
        let source = [10, 0, 0, r.u8(..8)];
        let (mut kind, mut body) = match r.u8(..8) {
            0 => (0x0806, vec![7; 28]),
            1 | 2 => (0x86dd, ipv6(transport.0, &transport.1)),
            _ => (0x0800, ipv4(source, transport.0, &transport.1)),
        };
        for _ in 0..r.u8(..8).saturating_sub(4) {
            body = vlan(r.u16(1..4095), kind, &body);
            kind = if r.bool() { 0x8100 } else { 0x88a8 };
        }
        let mut frame = ethernet(kind, &body);
        if r.u8(..) < 40 {
            frame.truncate(r.usize(14..60).min(frame.len()));
        }
        frame.truncate(9700);
        frame
    };
    let packets = (0..count).map(|i| (1_700_000_000_000_000 + 17 * i as u64, packet(&mut random)));
    packets.collect()
}

/// Compiles `tests/c/NAME.c` with these definitions. `None` where there is no clang for BPF or no libbpf
/// headers; that is said, as the test goes without.
pub(crate) fn compile(name: &str, definitions: &[&str]) -> Option<tempfile::NamedTempFile> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(format!("{name}.c"));
    let object = tempfile::Builder::new().suffix(".o").tempfile().unwrap();
    let machine = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let compiled = Command::new("clang")
        .args([
            "-target",
            "bpf",
            "-O2",
            "-g",
            "-mcpu=v3",
            "-idirafter",
            &machine,
        ])
        .args(definitions.iter().map(|d| format!("-D{d}")))
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(object.path())
        .output();
    match compiled {
        Ok(output) if output.status.success() => Some(object),
        Ok(output) => {
            let said = stderr(&output);
            // A source of ours that does not compile is a fault; a missing compiler or header is not.
            assert!(
                said.contains("file not found") || said.contains("target"),
                "{said}"
            );
            eprintln!("left out, {name}.c cannot be compiled: {said}");
            None
        }
        Err(e) => {
            eprintln!("left out, there is no clang: {e}");
            None
        }
    }
}
