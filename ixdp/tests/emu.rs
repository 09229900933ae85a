//! `ixdp emu serve`: a NIC on a socket, until it is told to end.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{assert_code, ixdp, json_lines, output, stderr};

/// A server that says that it is ready.
fn serve(arguments: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = ixdp(["emu", "serve", "--format", "json"].iter().chain(arguments))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut ready = String::new();
    lines.read_line(&mut ready).unwrap();
    assert!(ready.contains("\"ready\""), "{ready}");
    (child, lines)
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    let kill = Command::new("kill").args(["-INT", &pid]).status();
    assert!(kill.unwrap().success());
}

#[test]
fn two_ports_are_served_and_the_end_says_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.sock"), folder.path().join("b.sock"));
    let paths = [a.to_str().unwrap(), b.to_str().unwrap()];
    let (mut child, mut lines) = serve(&["--socket", paths[0], "--peer", paths[1], "--control"]);
    let mut ready = String::new();
    lines.read_line(&mut ready).unwrap();
    assert!(ready.contains("b.sock"), "{ready}");
    // A version message that ends in the middle: the client is dropped, which is a visit all the same.
    let mut client = UnixStream::connect(&a).unwrap();
    client.write_all(&[1, 0, 1, 0, 16, 0, 0, 0]).unwrap();
    drop(client);
    let mut orders = child.stdin.take().unwrap();
    orders.write_all(b"unplug\nplug\n").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    interrupt(&child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let summaries = json_lines(&rest);
    let clients: Vec<_> = summaries.iter().map(|s| &s["clients"]).collect();
    assert_eq!(clients, [1, 0], "{rest}");
    assert!(
        summaries
            .iter()
            .all(|s| s["conserved"] == true && s["faults"] == 0)
    );
    assert!(!a.exists() && !b.exists(), "the sockets are removed");
}

#[test]
fn what_cannot_be_served_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let serve = |arguments: &[&str]| output(["emu", "serve"].iter().chain(arguments));
    let taken = serve(&["--socket", file.to_str().unwrap()]);
    assert_code(&taken, 1);
    assert!(
        stderr(&taken).contains("is not a socket"),
        "{}",
        stderr(&taken)
    );
    assert!(Path::exists(&file));
    let same = serve(&["--socket", "x.sock", "--peer", "x.sock"]);
    assert_code(&same, 2);
    for wrong in [
        &["--socket", "x.sock", "--mac", "01:00:00:00:00:01"][..],
        &["--socket", "x.sock", "--mac", "02:00"],
        &["--socket", "x.sock", "--model", "x710"],
        &["--socket", "x.sock", "--wire", "echo", "--in", "y.pcap"],
        &[],
    ] {
        assert_code(&serve(wrong), 2);
    }
}
