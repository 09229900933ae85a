//! The command line: what there is, what it means, and which values are possible.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ixdp::DeviceArg;
use ixdp::xdp_vm::{Engine, Options};

use crate::cli::cpu_list::CpuList;
use crate::cli::emu::Serve;

/// Runs XDP programs in userspace, on every packet that an Intel NIC receives.
///
/// Without a NIC and without root, the device is an emulated one: `emu:82599` behaves as the real
/// chip does, down to its registers, and the driver does not know the difference.
#[derive(Debug, Parser)]
#[command(
    name = "ixdp",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  ixdp bench drop           drop 64-byte packets as fast as they come
  ixdp verify prog.o        is this program safe, and if not, why
  ixdp run prog.o --in in.pcap --verdicts -
                            what does it say about each of these packets
  ixdp test prog.o --packets in.pcap --expect t.toml
                            does it do what it should, maps and bytes too
Exit codes: 0 done, 1 the job failed, 2 wrong usage."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Log what is done, to stderr; twice for more detail.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure one thing at full speed.
    #[command(subcommand)]
    Bench(Bench),
    /// Look at the programs of an object file.
    #[command(subcommand)]
    Prog(Prog),
    /// Run a program on a capture, or on generated packets.
    Run(Box<Run>),
    /// Test a program: packets of a capture in, verdicts, packets and maps compared.
    Test(Box<Test>),
    /// Verify the programs of an object file, and explain every refusal.
    Verify(Verify),
    /// Emulated NICs for other programs.
    #[command(subcommand)]
    Emu(Emu),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Emu {
    /// Serve an emulated NIC on a socket, to QEMU or any other vfio-user client.
    Serve(Box<Serve>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Prog {
    /// List programs, maps, variables, and instructions beside their source lines.
    Show(ProgShow),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ixdp prog show prog.o             programs, maps and variables
  ixdp prog show prog.o:xdp_main    the instructions of a program
  ixdp prog show prog.o --insns     and of all programs
  ixdp prog show prog.o:xdp_main --jit | less
                                    and the machine code of each instruction")]
pub(crate) struct ProgShow {
    /// Object file; a program's name may follow it.
    #[arg(value_name = "PROG.o[:NAME]")]
    pub(crate) object: PathBuf,

    /// Show the instructions of this program.
    #[arg(long, value_name = "NAME")]
    pub(crate) prog: Option<String>,

    /// Show instructions of all programs.
    #[arg(long)]
    pub(crate) insns: bool,

    /// Show the machine code that each instruction is compiled to, in hexadecimal; the program has to
    /// pass the verifier.
    #[arg(long)]
    pub(crate) jit: bool,

    /// Set a global variable (.rodata, .data, .bss) first.
    #[arg(long, value_name = "VAR=VALUE", value_parser = variable)]
    pub(crate) set: Vec<(String, String)>,

    /// How to print; json is one object a line.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Drop every packet and print how many come.
    Drop(Box<BenchDrop>),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ixdp bench drop                            the embedded program, 10 seconds
  ixdp bench drop --per-proto                rates by IP protocol, as xdp1
  ixdp bench drop --queues 4 --cores 2       four queues on two worker threads
  ixdp bench drop --prog mine.o:xdp_main     a program of your own
  ixdp bench drop emu:x540,loss=0.01,seed=7  a wire that loses one in a hundred
  ixdp bench drop --format json --count 1000000

The end says whether every packet and every buffer was accounted for
(`conserved`); where not, the exit code is 1. `missed` are frames for which the
NIC had no free descriptor: normal where the source is faster than the workers,
as on a real line (--rate).")]
pub(crate) struct BenchDrop {
    #[command(flatten)]
    pub(crate) device: DeviceOptions,

    /// Run this program instead of the embedded drop program.
    #[arg(long, value_name = "FILE.o[:NAME]", conflicts_with_all = ["per_proto", "skip_prog"])]
    pub(crate) prog: Option<PathBuf>,

    /// Run the embedded program that counts by IP protocol, and print each protocol's rate.
    #[arg(long, conflicts_with = "skip_prog")]
    pub(crate) per_proto: bool,

    #[command(flatten)]
    pub(crate) engine: EngineOption,

    #[command(flatten)]
    pub(crate) load: LoadOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ixdp run prog.o --in in.pcap --verdicts -      one JSON line a packet
  ixdp run prog.o --in in.pcap --out passed.pcapng --tx-out sent.pcapng
  ixdp run prog.o --in in.pcap --maps maps.json --set port=8080
  ixdp run prog.o --prog xdp_main --duration 5   generated packets

With --in the device runs in virtual time: every packet of the capture reaches
the program, in order, and the same run gives the same result. The program's
clock (bpf_ktime_get_ns) is the packet's time in the capture. Frames that no NIC
would take (under 14 bytes, or longer than the device's limit) get the verdict
`missed` and the reason.

A map file (JSON or TOML) gives contents by map, then by key:
  {\"blocked\": {\"10.0.0.1\": 1},
   \"flows\": [{\"key\": {\"saddr\": \"10.0.0.1\", \"port\": 53}, \"value\": [1, 0]}],
   \"globals\": {\"closed_port\": 53}}
Structs are written by their fields, enumerations by name, numbers in network
order (__be16, ...) as the number. Anything may be an address, a list of bytes,
or 0x and a number (bytes, where the size is not 1, 2, 4 or 8). In a per-CPU map
a list is one value a queue, and anything else is the value of all. A map of
maps takes names of maps, or contents; a program array names of programs; queues
and bloom filters lists of values. --dump-maps writes the same form, and of
arrays only what is not zero.")]
pub(crate) struct Run {
    /// Object file with the program, as `clang -target bpf -c` makes it.
    #[arg(value_name = "PROG.o")]
    pub(crate) object: PathBuf,

    #[command(flatten)]
    pub(crate) device: DeviceOptions,

    /// Name of the program, where the object holds several.
    #[arg(long, value_name = "NAME")]
    pub(crate) prog: Option<String>,

    /// Initial contents of maps and variables, as JSON or TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) maps: Option<PathBuf>,

    /// Set a global variable (.rodata, .data, .bss) before the program is verified.
    #[arg(long, value_name = "VAR=VALUE", value_parser = variable)]
    pub(crate) set: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) engine: EngineOption,

    #[command(flatten)]
    pub(crate) files: RunFiles,

    /// Print what bpf_trace_printk says, to stderr.
    #[arg(long)]
    pub(crate) trace: bool,

    #[command(flatten)]
    pub(crate) load: LoadOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Captures and results")]
pub(crate) struct RunFiles {
    /// Capture (pcap or pcapng) whose packets the device receives.
    #[arg(long = "in", value_name = "FILE", conflicts_with_all = ["duration", "count", "rate", "interval", "frame_size", "cores", "pin"])]
    pub(crate) input: Option<PathBuf>,

    /// Capture to write of passed packets, as the program left them (.pcap or .pcapng).
    #[arg(long, value_name = "FILE", requires = "input")]
    pub(crate) out: Option<PathBuf>,

    /// Capture to write of packets that the device sent (.pcap or .pcapng).
    #[arg(long, value_name = "FILE", requires = "input")]
    pub(crate) tx_out: Option<PathBuf>,

    /// Write one JSON line a packet: index, verdict, length after the program. `-` is stdout, where
    /// the summary is then JSON too.
    #[arg(long, value_name = "FILE", requires = "input")]
    pub(crate) verdicts: Option<PathBuf>,

    /// Write the contents of the maps that user space may read and write, at the end, in the form
    /// that --maps reads.
    #[arg(long, value_name = "FILE")]
    pub(crate) dump_maps: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ixdp verify prog.o
  ixdp verify prog.o --explain           a refusal with its whole path
  ixdp verify prog.o --annotate | less   what is known at each source line
  ixdp verify prog.o --prog xdp_main --format json

A line a program: instructions it has, instructions followed on all paths
(\"processed\"), states stored to compare paths with, the most memory that states
took, and the time. A refusal says what is wrong, at which instruction and line,
what was known there, how the path came there, and what would be accepted.
Programs whose section is not for XDP (tc, kprobe, ...) are set aside.
The exit code is 1 if any program is refused, if a map cannot be made, or if
there is no XDP program.")]
pub(crate) struct Verify {
    /// Object file with the programs.
    #[arg(value_name = "PROG.o")]
    pub(crate) object: PathBuf,

    /// Verify this program only.
    #[arg(long, value_name = "NAME")]
    pub(crate) prog: Option<String>,

    /// Explain a refusal in full: the whole path, its branches, and where registers were set.
    #[arg(long)]
    pub(crate) explain: bool,

    /// Print what registers and stack hold before each source line, as first seen; "or otherwise"
    /// where other paths come with something else.
    #[arg(long)]
    pub(crate) annotate: bool,

    /// Set a global variable (.rodata, .data, .bss) before the programs are verified.
    #[arg(long, value_name = "VAR=VALUE", value_parser = variable)]
    pub(crate) set: Vec<(String, String)>,

    /// How to print.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ixdp test prog.o --packets in.pcap                     what it says of each packet
  ixdp test prog.o --packets in.pcap --write-expect t.toml   record what it does
  ixdp test prog.o --packets in.pcap --expect t.toml     does it still do that
  ixdp test prog.o:xdp_main --packets in.pcap --maps maps.toml --expect t.toml

An expectation file (TOML or JSON):
  [[packets]]                  # one after the other, or packet = N
  verdict = \"redirect\"         # aborted, drop, pass, tx, redirect, or a number
  redirect = { map = \"tx_port\", key = 1 }     # or { interface = 3 }, or
                               # { map = \"tx_port\", broadcast = true }
  length = 60                  # bytes after the program
  bytes = \"0x...\"              # the packet after the program, or \"same\"
  at = { 12 = \"0x0800\" }       # bytes at places of it
  [maps]                       # contents afterwards, as --maps has them
  flows = [{ key = { saddr = \"10.0.0.1\", port = 53 }, value = { packets = 2 } }]
  [globals]
  seen = 3
What is not named is not checked; a map that is named is compared whole (arrays:
what is not listed must be zero). \"_\" as a value or a field is anything.
`capture = \"FILE\"` takes the bytes of each packet from a capture.

Packets lie as in the kernel's test runs: 256 bytes before them, at most 3,520
bytes, interface 1, queue 0, one CPU. The clock is the packet's time in the
capture, and random numbers are the same each time.
Exit codes: 0 all is as expected, 1 it is not, or the program cannot be run,
2 wrong usage.")]
pub(crate) struct Test {
    /// Object file with the program; a name may follow it.
    #[arg(value_name = "PROG.o[:NAME]")]
    pub(crate) object: PathBuf,

    /// Capture (pcap or pcapng) whose packets the program gets.
    #[arg(long, value_name = "FILE")]
    pub(crate) packets: PathBuf,

    /// Name of the program, where the object holds several.
    #[arg(long, value_name = "NAME")]
    pub(crate) prog: Option<String>,

    /// Contents of maps and variables before the first packet, as JSON or TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) maps: Option<PathBuf>,

    /// What is expected, as TOML or JSON. Without it, every verdict is printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Option<PathBuf>,

    /// Write what the program did as an expectation (.toml or .json).
    #[arg(long, value_name = "FILE", conflicts_with = "expect")]
    pub(crate) write_expect: Option<PathBuf>,

    /// Set a global variable (.rodata, .data, .bss) before the program is verified.
    #[arg(long, value_name = "VAR=VALUE", value_parser = variable)]
    pub(crate) set: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) engine: EngineOption,

    /// Interface that packets come in by (ctx->ingress_ifindex).
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) ifindex: u32,

    /// Receive queue that packets come in by (ctx->rx_queue_index).
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) queue: u32,

    /// Print what bpf_trace_printk says, to stderr.
    #[arg(long)]
    pub(crate) trace: bool,

    /// How to print; json is one object a line.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct EngineOption {
    /// What runs the program; auto is the JIT where it can.
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t)]
    engine: EngineName,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// A loop over decoded instructions.
    Interpreter,
    /// Machine code; an error where this machine has none.
    Jit,
    /// The JIT where it can, else the interpreter.
    #[default]
    Auto,
}

impl EngineOption {
    /// For making an executable.
    pub(crate) fn options(&self) -> Options {
        Options {
            engine: match self.engine {
                EngineName::Interpreter => Engine::Interpreter,
                EngineName::Jit => Engine::Jit,
                EngineName::Auto => Engine::Auto,
            },
            ..Options::default()
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceOptions {
    /// Device: emu:82599, emu:x540 or emu:x550; behind it loss=, dup= and reorder= (shares of
    /// frames), seed=, as in emu:82599,loss=0.01,seed=7.
    #[arg(default_value = "emu:82599")]
    pub(crate) device: DeviceArg,

    /// Receive and transmit queue pairs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) queues: u16,

    /// Most packets of one poll.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) batch: u16,

    /// Descriptors of each receive and each transmit ring: 64 to 4096, a multiple of 8.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = ring_size)]
    pub(crate) ring: u32,

    /// Frames of each queue's pool [default: both rings and four batches].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) frames: Option<u32>,

    /// Hand every packet past the program.
    #[arg(long)]
    pub(crate) skip_prog: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Threads, time and output")]
pub(crate) struct LoadOptions {
    /// Worker threads; the queues are spread over them [default: one a queue, but one CPU less
    /// than there are].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) cores: Option<u16>,

    /// CPUs for the worker threads, then one for the model, as in 0,2-3 [default: one each where
    /// there are enough].
    #[arg(long, value_name = "LIST")]
    pub(crate) pin: Option<CpuList>,

    /// End after this many seconds; 0: at Ctrl-C only [default: 10, or with --count 0].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) duration: Option<f64>,

    /// End when the source has sent exactly this many frames and each is accounted for.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Frames a second of the source: a line at its own pace, whose frames are missed where no
    /// descriptor is free [default: as fast as descriptors come free].
    #[arg(long, value_name = "PPS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,

    /// Seconds between two lines of figures.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval, allow_negative_numbers = true)]
    pub(crate) interval: f64,

    /// Bytes of each generated frame, its checksum (FCS) included.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=9728))]
    pub(crate) frame_size: u16,

    /// How to print; json is one object a line.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: one object a line.
    Json,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write VAR=VALUE, as in port=8080".to_owned()),
    }
}

fn ring_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok();
    size.filter(|n: &u32| (64..=4096).contains(n) && n.is_multiple_of(8))
        .ok_or_else(|| "a ring has 64 to 4096 descriptors, a multiple of 8".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok();
    value
        .filter(|s| (0.0..=MAX_SECONDS).contains(s))
        .ok_or_else(|| format!("write seconds, from 0 to {MAX_SECONDS}, as in 2.5"))
}

/// Over thirty years: bounds what can be turned into a `Duration`.
const MAX_SECONDS: f64 = 1e9;

fn interval(text: &str) -> Result<f64, String> {
    let value = seconds(text)?;
    if value < 0.01 {
        return Err("an interval is at least 0.01 seconds".to_owned());
    }
    Ok(value)
}
