//! `ixdp run`: a program on the packets of a capture, one after the other in virtual time; or on
//! generated packets at full speed.

use std::error::Error;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use datapath::{Program, SkipProgram, VmProgram};
use emulated_nic::wires::{CaptureError, CaptureFile, CaptureSummary, CaptureWriter};
use ixdp::xdp_vm::Clock;
use ixdp::{Impairments, LoadedProgram, Outcome, Replay, Report, SessionConfig};
use serde::Serialize;

use crate::cli::args::{Format, Run};
use crate::cli::contents;
use crate::cli::failure::{Failure, FileError, file, read};
use crate::cli::files::{OutFile, capture_format, check_paths};
use crate::cli::interrupt::Interrupt;
use crate::cli::load::{self, Load};
use crate::cli::maps_file;
use crate::cli::object::{read_object, set_variables};
use crate::cli::output::{Output, complain, stdout_failed, thousands};
use crate::cli::summary;

/// Runs.
pub(crate) fn run(args: &Run) -> Result<(), Failure> {
    check_paths(args)?;
    check_device(args)?;
    let interrupt = Interrupt::listen()?;
    let program = load_program(args)?;
    let name = format!("{} of {}", program.name(), args.object.display());
    let queues = args.device.queues;
    match &args.files.input {
        Some(input) => {
            let run = CaptureRun::open(args, input)?;
            let config = SessionConfig {
                max_frame: u32::MAX,
                ..load::session(&args.device, emulated_nic::MAX_FRAME)?
            };
            if args.device.skip_prog {
                let replay = Replay::start(&config, |_| SkipProgram)?;
                return run.run(replay, &interrupt, &name, &program, |_, _| {});
            }
            let trace = args.trace;
            let replay = Replay::start(&config, |queue| {
                let mut program = program.on_queue(queue);
                // Runs can be repeated: the clock is the capture's, and random numbers are the same.
                program.cpu().set_seed(queue.into());
                program
            })?;
            run.run(replay, &interrupt, &name, &program, move |program, time| {
                if trace {
                    print_trace(program);
                }
                let now = time.map_or(0, |t| t.as_nanos() as u64);
                program.cpu().set_clock(Clock::Fixed(now));
            })
        }
        None => {
            // Made now: a run would be for nothing if what it found could not be written.
            let maps = args.files.dump_maps.as_deref().map(OutFile::create);
            let maps = maps.transpose()?;
            let result = if args.device.skip_prog {
                let load = Load {
                    name: "none (skipped)".to_owned(),
                    programs: vec![SkipProgram; queues.into()],
                    protocols: None,
                    at_end: None,
                };
                load::run(&args.device, &args.load, &interrupt, load)
            } else {
                let load = Load {
                    name,
                    programs: (0..queues).map(|q| program.on_queue(q)).collect(),
                    protocols: None,
                    at_end: args.trace.then_some(print_trace),
                };
                load::run(&args.device, &args.load, &interrupt, load)
            };
            if let (Ok(()) | Err(Failure::Told), Some(mut out)) = (&result, maps) {
                dump_maps(&program, &mut out)?;
                out.commit()?;
            }
            result
        }
    }
}

fn check_device(args: &Run) -> Result<(), Failure> {
    let faults = args.device.device.impairments;
    if args.files.input.is_some() && faults != Impairments::default() {
        return Err(Failure::usage(
            "a capture is delivered whole and in order, so its wire has no loss=, dup=, reorder= or seed=",
            "leave them out, or run on generated packets without --in",
        ));
    }
    Ok(())
}

/// Loads the program with its variables and maps set.
fn load_program(args: &Run) -> Result<LoadedProgram, Failure> {
    let mut object = read_object(&args.object)?;
    set_variables(&mut object, &args.object, &args.set)?;
    let queues = args.device.queues;
    let contents = args.maps.as_deref().map(|path| {
        let contents = maps_file::parse(&read(path)?, &object.maps, queues.into());
        contents.map_err(file("use the contents of maps in", path))
    });
    let contents = contents.transpose()?.unwrap_or_default();
    contents::set_globals(&mut object, &contents)?;
    let options = args.engine.options();
    let program = LoadedProgram::load_with(&object, args.prog.as_deref(), queues, &options);
    let program = program.map_err(file("run a program of", &args.object))?;
    if let Some(path) = &args.maps {
        contents::fill(&program, &object, &contents)
            .map_err(|failure| failure.of_file("use the contents of maps in", path))?;
    }
    Ok(program)
}

/// A line of the verdicts' file.
#[derive(Serialize)]
struct Line<'a> {
    index: u64,
    verdict: &'a str,
    length: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Where verdicts go: a file, or stdout where there is no target.
struct VerdictFile {
    to: BufWriter<Box<dyn Write>>,
    target: Option<OutFile>,
}

impl VerdictFile {
    fn open(path: &Path) -> Result<Self, Failure> {
        let (to, target): (Box<dyn Write>, _) = match path == Path::new(STDOUT) {
            true => (Box::new(io::stdout()), None),
            false => {
                let mut target = OutFile::create(path)?;
                (Box::new(target.file()?), Some(target))
            }
        };
        let to = BufWriter::new(to);
        Ok(VerdictFile { to, target })
    }

    /// Writes a line. False where the reader of stdout has gone away.
    fn write(&mut self, line: &str) -> Result<bool, Failure> {
        let result = writeln!(self.to, "{line}");
        self.is_read(result)
    }

    fn finish(mut self) -> Result<Option<OutFile>, Failure> {
        let result = self.to.flush();
        self.is_read(result)?;
        Ok(self.target)
    }

    fn is_read(&self, result: io::Result<()>) -> Result<bool, Failure> {
        match (result, &self.target) {
            (Ok(()), _) => Ok(true),
            (Err(e), None) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
            (Err(e), None) => Err(stdout_failed(&e).into()),
            (Err(e), Some(target)) => Err(file("write", target.path())(e).into()),
        }
    }
}

/// The path that means stdout.
const STDOUT: &str = "-";

/// A run on a capture, with the files that it writes.
struct CaptureRun<'a> {
    input: &'a Path,
    summary: CaptureSummary,
    passed: Option<(CaptureWriter, OutFile)>,
    sent: Option<(CaptureWriter, OutFile)>,
    verdicts: Option<VerdictFile>,
    maps: Option<OutFile>,
    out: Output,
    device: String,
}

impl<'a> CaptureRun<'a> {
    /// Reads the whole capture once, so that a damaged one is found before anything is written.
    fn open(args: &'a Run, input: &'a Path) -> Result<Self, Failure> {
        if !std::fs::metadata(input).is_ok_and(|there| there.is_file()) {
            std::fs::metadata(input).map_err(file::<io::Error>("read", input))?;
            let cause = "it is no regular file, and has to be read twice; save it to one first";
            return Err(file("read", input)(cause).into());
        }
        let summary = CaptureFile::validate(input)?;
        if summary.cut > 0 {
            log::warn!(
                "{}: {} packets were cut when they were captured; they are run as they are",
                input.display(),
                summary.cut
            );
        }
        let writer = |path: &Option<std::path::PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            let target = OutFile::create(path)?;
            let writer = CaptureWriter::create(target.place(), capture_format(path)?);
            Ok::<_, Failure>(Some((writer.map_err(unwritten(path))?, target)))
        };
        let files = &args.files;
        let on_stdout = files.verdicts.as_deref() == Some(Path::new(STDOUT));
        let verdicts = files.verdicts.as_deref().map(VerdictFile::open);
        Ok(CaptureRun {
            input,
            summary,
            passed: writer(&files.out)?,
            sent: writer(&files.tx_out)?,
            verdicts: verdicts.transpose()?,
            maps: files
                .dump_maps
                .as_deref()
                .map(OutFile::create)
                .transpose()?,
            // Where verdicts are on stdout, all of it is JSON.
            out: Output::new(if on_stdout {
                Format::Json
            } else {
                args.load.format
            }),
            device: args.device.device.to_string(),
        })
    }

    /// Sends every packet through the device. `each` is called with every queue's program before a
    /// packet, and without a time at the end.
    fn run<P: Program>(
        mut self,
        mut replay: Replay<P>,
        interrupt: &Interrupt,
        name: &str,
        program: &LoadedProgram,
        mut each: impl FnMut(&mut P, Option<Duration>),
    ) -> Result<(), Failure> {
        self.out.text(format!(
            "{}, driver ixgbe, program {name}, {} packets of {}",
            self.device,
            thousands(self.summary.packets),
            self.input.display()
        ))?;
        let mut capture = CaptureFile::open(self.input)?;
        while let Some(packet) = capture.next_packet()? {
            let (index, time) = (packet.index, packet.timestamp);
            if interrupt.wait(Duration::ZERO) {
                return self.interrupted(index, &replay.finish()?, name);
            }
            replay.programs().for_each(|p| each(p, Some(time)));
            let outcome = replay.packet(packet.data)?;
            self.tell(index, packet.data.len(), &outcome)?;
            self.keep(time, &outcome)?;
        }
        replay.programs().for_each(|p| each(p, None));
        let report = replay.finish()?;
        self.finish(&report, name, program)
    }

    /// Writes the packet's verdict.
    fn tell(&mut self, index: u64, length: usize, outcome: &Outcome) -> Result<(), Failure> {
        let Some(verdicts) = &mut self.verdicts else {
            return Ok(());
        };
        let line = match outcome {
            Outcome::Judged {
                verdict,
                length,
                queue,
                ..
            } => Line {
                index,
                verdict: verdict.map_or("skipped", |v| v.name()),
                length: *length,
                queue: Some(*queue),
                reason: None,
            },
            Outcome::Missed { reason } => Line {
                index,
                verdict: "missed",
                length,
                queue: None,
                reason: Some(reason),
            },
        };
        if !verdicts.write(&serde_json::to_string(&line)?)? {
            // The other files are still wanted.
            self.verdicts = None;
        }
        Ok(())
    }

    /// Writes what passed and what was sent, with the time of the packet that caused it.
    fn keep(&mut self, time: Duration, outcome: &Outcome) -> Result<(), Failure> {
        let Outcome::Judged { passed, sent, .. } = outcome else {
            return Ok(());
        };
        if let (Some((writer, target)), Some(packet)) = (&mut self.passed, passed) {
            writer
                .write(time, packet.len(), packet)
                .map_err(unwritten(target.path()))?;
        }
        if let Some((writer, target)) = &mut self.sent {
            for packet in sent {
                writer
                    .write(time, packet.len(), packet)
                    .map_err(unwritten(target.path()))?;
            }
        }
        Ok(())
    }

    /// Prints the summary of a part of the capture; files are written whole or not at all.
    fn interrupted(mut self, packets: u64, report: &Report, name: &str) -> Result<(), Failure> {
        if let Some(verdicts) = self.verdicts {
            verdicts.finish()?;
        }
        summary::summary(&mut self.out, &self.device, name, report)?;
        let of = self.summary.packets;
        let said = format!("interrupted after {packets} of {of} packets; no file was written");
        Err(Failure::Job(said.into()))
    }

    /// Puts all files in their places, and prints the summary.
    fn finish(
        mut self,
        report: &Report,
        name: &str,
        program: &LoadedProgram,
    ) -> Result<(), Failure> {
        let mut done = Vec::new();
        for (mut writer, target) in [self.passed, self.sent].into_iter().flatten() {
            writer.finish().map_err(unwritten(target.path()))?;
            done.push(target);
        }
        if let Some(verdicts) = self.verdicts {
            done.extend(verdicts.finish()?);
        }
        if let Some(mut target) = self.maps {
            dump_maps(program, &mut target)?;
            done.push(target);
        }
        done.into_iter().try_for_each(OutFile::commit)?;
        summary::summary(&mut self.out, &self.device, name, report)?;
        match report.is_clean() {
            true => Ok(()),
            false => Err(Failure::Told),
        }
    }
}

/// For `map_err`: names the capture as the user did, not the file that it is on its way in.
fn unwritten(path: &Path) -> impl Fn(CaptureError) -> FileError {
    let failed = file::<Box<dyn Error + Send + Sync>>("write", path);
    move |error| match error {
        CaptureError::Open { source, .. } | CaptureError::Write { source, .. } => {
            failed(source.into())
        }
        other => failed(other.into()),
    }
}

/// Writes the contents of every map that may be read and written: of arrays what is not zero.
fn dump_maps(program: &LoadedProgram, out: &mut OutFile) -> Result<(), Failure> {
    let mut maps = Vec::new();
    for map in program.maps().iter().filter(|m| m.is_open()) {
        maps.push((map.spec(), contents::entries(map)?));
    }
    let text = maps_file::render(maps.into_iter());
    let path = out.path().to_owned();
    let write = out.file().map(|mut f| f.write_all(text.as_bytes()))?;
    Ok(write.map_err(file("write", &path))?)
}

/// Prints what a program said with bpf_trace_printk since the last time.
fn print_trace(program: &mut VmProgram) {
    let cpu = program.cpu();
    let slot = cpu.slot();
    cpu.trace
        .drain(|line| complain(&format!("trace: queue {slot}: {line}")));
    if cpu.trace.lost() > 0 {
        log::warn!(
            "queue {slot}: {} lines of bpf_trace_printk found no room",
            cpu.trace.lost()
        );
    }
}
