//! `ixdp emu serve`: an emulated NIC for another program, QEMU above all, behind a vfio-user socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use clap::{Args, ValueEnum};
use emulated_nic::vfio_user::Server;
use emulated_nic::wires::{CaptureReader, CaptureWriter, Silence, Sink};
use emulated_nic::{Monitor, Nic, Running, Variant, Violation, Wire};
use serde::Serialize;

use crate::cli::args::Format;
use crate::cli::failure::Failure;
use crate::cli::files::capture_format;
use crate::cli::interrupt::Interrupt;
use crate::cli::output::{Output, complain, thousands};

/// How long an idle model sleeps. Its clients write registers, which wakes it; frames of a peer wait that
/// long at most.
const IDLE: Duration = Duration::from_micros(200);
/// How often new entries of the strict log are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Room of a cable between two ports, in frames.
const CABLE: usize = 4096;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ixdp emu serve --socket nic.sock                      a silent partner on the wire
  ixdp emu serve --socket a.sock --peer b.sock          two ports, with a cable between them
  ixdp emu serve --socket nic.sock --wire echo          every frame comes back
  ixdp emu serve --socket nic.sock --in in.pcap --out sent.pcapng
QEMU attaches it as a PCI function (11.1 or later, memory that is shared):
  qemu-system-x86_64 -object memory-backend-memfd,id=mem,size=1G,share=on
    -machine q35,memory-backend=mem -m 1G
    -device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"nic.sock\"}}' ...

Clients come one after another; each finds the NIC as after power-on. Every rule
of the datasheet that the client's driver breaks is printed as it happens. At
Ctrl-C the counts of frames follow; the exit code is 1 where DMA went outside of
what the client had mapped.")]
pub(crate) struct Serve {
    /// What is emulated: 82599, x540 or x550.
    #[arg(long, value_name = "MODEL", default_value = "82599")]
    model: Variant,

    /// Socket to listen on.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    /// Socket of a second port of the same model, at the other end of the cable.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["wire", "input", "out"])]
    peer: Option<PathBuf>,

    /// What is at the other end of the cable.
    #[arg(long, value_name = "WIRE", value_enum, conflicts_with_all = ["input", "out"])]
    wire: Option<Partner>,

    /// Capture (pcap or pcapng) whose packets the NIC receives.
    #[arg(long = "in", value_name = "FILE")]
    input: Option<PathBuf>,

    /// Capture to write of the packets that the NIC sends (.pcap or .pcapng).
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Station address in the EEPROM; the peer's is the next.
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:01", value_parser = mac)]
    mac: Mac,

    /// Read what happens to the cable from stdin, a line each: `unplug` or `plug`, and the socket of
    /// the port where there are two.
    #[arg(long)]
    control: bool,

    /// How to print; json is one object a line.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Partner {
    /// Takes everything and says nothing.
    Silent,
    /// Gives every frame back.
    Echo,
}

type Mac = [u8; 6];

fn mac(text: &str) -> Result<Mac, String> {
    let wrong = || "write six pairs of hexadecimal digits, as in 02:00:00:00:00:01".to_owned();
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|p| p.len() == 2).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
    }
    if parts.next().is_some() {
        return Err(wrong());
    }
    if bytes[0] & 1 != 0 {
        return Err("a station's address is not a multicast address".to_owned());
    }
    Ok(bytes)
}

/// A port that is served.
struct Port {
    name: String,
    nic: Running,
    /// Entries of its strict log that have been printed.
    told: usize,
    clients: Arc<AtomicU64>,
}

#[derive(Serialize)]
struct Ready<'a> {
    kind: &'static str,
    socket: &'a str,
    model: String,
}

#[derive(Serialize)]
struct Broken<'a> {
    kind: &'static str,
    socket: &'a str,
    at: f64,
    rule: String,
    register: &'static str,
    index: usize,
    value: u64,
    text: &'static str,
}

#[derive(Serialize)]
struct Summary<'a> {
    kind: &'static str,
    socket: &'a str,
    clients: u64,
    received: u64,
    delivered: u64,
    lost: u64,
    requested: u64,
    transmitted: u64,
    strict: u64,
    faults: usize,
    conserved: bool,
}

/// Serves until Ctrl-C.
pub(crate) fn serve(args: &Serve) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let mut out = Output::new(args.format);
    let mut ports = Vec::new();
    match &args.peer {
        Some(peer) if *peer == args.socket => {
            return Err(Failure::usage(
                "both ports are to listen on the same socket",
                "give --peer a path of its own",
            ));
        }
        Some(peer) => {
            let (a, b) = Wire::cable(CABLE);
            ports.push(port(args, &args.socket, 0, a)?);
            ports.push(port(args, peer, 1, b)?);
        }
        None => ports.push(port(args, &args.socket, 0, wire(args)?)?),
    }
    for port in &ports {
        out.text(format!("{} listens on {}", args.model, port.name))?;
        out.json(&Ready {
            kind: "ready",
            socket: &port.name,
            model: args.model.to_string(),
        })?;
    }
    let orders = args.control.then(orders);
    loop {
        let end = interrupt.wait(LOOK) || out.is_closed();
        for order in orders.iter().flat_map(|orders| orders.try_iter()) {
            obey(&ports, &order);
        }
        for port in &mut ports {
            tell_broken_rules(&mut out, port)?;
        }
        if end {
            break;
        }
    }
    let mut clean = true;
    for port in ports {
        let _ = std::fs::remove_file(&port.name);
        clean &= summary(&mut out, port)?;
    }
    match clean {
        true => Ok(()),
        false => Err(Failure::Told),
    }
}

/// The lines of stdin.
fn orders() -> Receiver<String> {
    let (send, orders) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    orders
}

/// Plugs a cable in or out.
fn obey(ports: &[Port], order: &str) {
    let mut words = order.split_whitespace();
    let plugged = match words.next() {
        Some("plug") => true,
        Some("unplug") => false,
        None => return,
        Some(_) => return complain(&format!("warning: `{order}` is neither plug nor unplug")),
    };
    let named = words.next();
    let mut found = false;
    for port in ports.iter().filter(|p| named.is_none_or(|n| n == p.name)) {
        port.nic.plug(plugged);
        found = true;
    }
    if !found {
        complain(&format!("warning: `{order}`: no port has that socket"));
    }
}

fn wire(args: &Serve) -> Result<Wire, Failure> {
    match args.wire {
        Some(Partner::Echo) => return Ok(Wire::echo(CABLE)),
        Some(Partner::Silent) => return Ok(Wire::silent()),
        None => {}
    }
    let input = args.input.as_deref().map(CaptureReader::open);
    let output = match &args.out {
        Some(path) => Some(CaptureWriter::create(path, capture_format(path)?)?),
        None => None,
    };
    Ok(match (input.transpose()?, output) {
        (None, None) => Wire::silent(),
        (Some(input), None) => Wire::new(input, Sink::new()),
        (None, Some(output)) => Wire::new(Silence, output),
        (Some(input), Some(output)) => Wire::new(input, output),
    })
}

/// Makes a NIC, lets it run, and listens for its clients.
fn port(args: &Serve, path: &Path, number: u8, wire: Wire) -> Result<Port, Failure> {
    let mut mac = args.mac;
    mac[5] = mac[5].wrapping_add(number);
    let domain = driver_core::DmaDomain::new(driver_core::IovaRanges::with_address_bits(48))?;
    let name = path.display().to_string();
    let nic = Nic::builder(args.model)
        .name(name.clone())
        .mac(mac)
        .port(number)
        .idle(IDLE)
        .wire(wire)
        .build(domain)
        .spawn(None)?;
    let server = Server::bind(path, &nic)?;
    let clients = Arc::new(AtomicU64::new(0));
    let served = clients.clone();
    std::thread::Builder::new()
        .name(format!("serve {name}"))
        .spawn(move || {
            loop {
                let outcome = server.serve_client();
                served.fetch_add(1, Ordering::Relaxed);
                match outcome {
                    Ok(()) => log::info!("a client has gone"),
                    Err(error) => complain(&format!("warning: {error}")),
                }
            }
        })?;
    Ok(Port {
        name,
        nic,
        told: 0,
        clients,
    })
}

fn tell_broken_rules(out: &mut Output, port: &mut Port) -> Result<(), Failure> {
    let log = port.nic.strict_log();
    for violation in &log[port.told.min(log.len())..] {
        out.text(format!("{}: {violation}", port.name))?;
        out.json(&broken(&port.name, violation))?;
    }
    port.told = log.len();
    Ok(())
}

fn broken<'a>(socket: &'a str, v: &Violation) -> Broken<'a> {
    Broken {
        kind: "strict",
        socket,
        at: v.at.as_secs_f64(),
        rule: format!("{:?}", v.rule),
        register: v.register,
        index: v.index,
        value: v.value,
        text: v.rule.text(),
    }
}

/// Prints what became of the frames. True where no DMA went astray and every frame is accounted for.
fn summary(out: &mut Output, port: Port) -> Result<bool, Failure> {
    let clients = port.clients.load(Ordering::Relaxed);
    let nic = port.nic.stop();
    let finished = Monitor::finish_wire(&nic);
    let counts = nic.wire_counts();
    let faults = nic.faults();
    out.text(format!("{}:", port.name))?;
    for (label, value) in [
        ("Clients", clients),
        ("Frames to the NIC", counts.offered),
        ("  delivered", counts.delivered),
        ("  lost", counts.lost()),
        ("Packets of the driver", counts.requested),
        ("  sent", counts.transmitted),
        ("Rules broken", nic.strict_count()),
        ("DMA faults", faults.len() as u64),
    ] {
        out.text(format!("  {label:<22}: {}", thousands(value)))?;
    }
    for fault in faults.iter().take(10) {
        out.text(format!("  {fault:?}"))?;
    }
    out.json(&Summary {
        kind: "summary",
        socket: &port.name,
        clients,
        received: counts.offered,
        delivered: counts.delivered,
        lost: counts.lost(),
        requested: counts.requested,
        transmitted: counts.transmitted,
        strict: nic.strict_count(),
        faults: faults.len(),
        conserved: counts.is_conserved(),
    })?;
    finished?;
    Ok(faults.is_empty() && counts.is_conserved())
}
