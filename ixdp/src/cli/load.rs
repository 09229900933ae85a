//! A run at full speed: figures every interval until it ends, and the summary.

use std::io;
use std::time::Duration;

use datapath::{Application, Program, Tally};
use driver_core::MAX_FRAMES;
use ixdp::{Report, Session, SessionConfig, Snapshot, Source};

use crate::cli::args::{DeviceOptions, LoadOptions};
use crate::cli::failure::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::output::{Output, bytes, thousands};
use crate::cli::{summary, threads};

/// What is run under load.
pub(crate) struct Load<P> {
    /// What is printed as the program's name.
    pub(crate) name: String,
    /// The program of each queue.
    pub(crate) programs: Vec<P>,
    /// Packets by IP protocol, where they are counted.
    pub(crate) protocols: Option<Protocols>,
    /// What is done with each queue's program when the run is over.
    pub(crate) at_end: Option<fn(&mut P)>,
}

/// Counts of packets by IP protocol; past protocol 255 what is not IP.
pub(crate) struct Protocols {
    count: Box<dyn Fn() -> Result<Vec<u64>, Failure>>,
    last: Vec<u64>,
}

impl Protocols {
    /// `count` tells the packets so far. It is asked here for the first time: packets that come later
    /// are in the first interval, however soon they come.
    pub(crate) fn new(
        count: impl Fn() -> Result<Vec<u64>, Failure> + 'static,
    ) -> Result<Self, Failure> {
        Ok(Self {
            last: count()?,
            count: Box::new(count),
        })
    }

    /// Packets since this was last asked.
    fn moved(&mut self) -> Result<Vec<u64>, Failure> {
        let now = (self.count)()?;
        let moved = now.iter().zip(&self.last).map(|(n, l)| n - l).collect();
        self.last = now;
        Ok(moved)
    }
}

/// Runs until the duration or the count is reached, at Ctrl-C, or when nobody reads the output.
pub(crate) fn run<P: Program + Send + 'static>(
    device: &DeviceOptions,
    options: &LoadOptions,
    interrupt: &Interrupt,
    load: Load<P>,
) -> Result<(), Failure> {
    if device.device.stepped {
        return Err(Failure::usage(
            "a stepped device has no time of its own, so nothing can be measured on it",
            "leave `step` out, or use `ixdp run PROG.o --in FILE`",
        ));
    }
    let threads = threads::plan(device, options)?;
    let mut config = session(device, usize::from(options.frame_size) - FCS)?;
    config.threads = threads.workers;
    config.pin = threads.pin;
    config.source = Source {
        frame_size: options.frame_size.into(),
        count: options.count,
        rate: options.rate,
    };
    let mut out = Output::new(options.format);
    let mut programs = load.programs;
    programs.reverse();
    let session = Session::start(&config, |_| {
        let program = programs.pop().expect("one program a queue");
        (program, datapath::Discard)
    })?;
    header(&mut out, &session, &config, &load.name)?;
    let report = measure(
        session,
        options,
        interrupt,
        &mut out,
        load.protocols,
        load.at_end,
    )?;
    summary::summary(&mut out, &config.device.to_string(), &load.name, &report)?;
    match report.is_clean() {
        true => Ok(()),
        false => Err(Failure::Told),
    }
}

/// Checksum of an Ethernet frame.
const FCS: usize = 4;

/// What `--queues`, `--batch`, `--ring` and `--frames` say of a session with frames of up to
/// `max_frame` bytes without FCS.
pub(crate) fn session(device: &DeviceOptions, max_frame: usize) -> Result<SessionConfig, Failure> {
    let standard = SessionConfig::default().max_frame;
    let mut config = SessionConfig {
        max_frame: standard.max(max_frame as u32),
        device: device.device,
        queues: device.queues,
        batch: device.batch.into(),
        ring: device.ring,
        ..SessionConfig::default()
    };
    if let Some(frames) = device.frames {
        let frames = frames as usize;
        let (least, most) = (config.least_frames(), MAX_FRAMES);
        if !(least..=most).contains(&frames) {
            return Err(Failure::usage(
                format!("--frames {frames} is not between {least} and {most}"),
                "a pool fills its receive ring and holds a batch of spares",
            ));
        }
        config.frames = Some(frames);
    }
    Ok(config)
}

fn header<P, A>(
    out: &mut Output,
    session: &Session<P, A>,
    config: &SessionConfig,
    program: &str,
) -> io::Result<()> {
    let pool = session.pool_frames();
    let queues = usize::from(config.queues);
    out.text(format!(
        "{} ({}), driver ixgbe, program {program}",
        config.device,
        session.link()
    ))?;
    out.text(format!(
        "{queues} queue{} on {} worker{}, batch {}, {} frames ({}) a queue, rings of {}",
        plural(queues),
        config.threads,
        plural(config.threads),
        config.batch,
        thousands(pool as u64),
        bytes((pool * config.geometry.stride) as u64),
        config.ring,
    ))?;
    let pinned = match &config.pin[..] {
        [] => "threads are not pinned: there are too few CPUs, or --pin says which".to_owned(),
        [workers @ .., model] => {
            let workers: Vec<_> = workers.iter().map(usize::to_string).collect();
            format!("workers on CPU {}, model on CPU {model}", workers.join(","))
        }
    };
    out.text(pinned)
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// How often the end of a counted run is looked for.
const LOOK: Duration = Duration::from_millis(1);

fn measure<P, A>(
    mut session: Session<P, A>,
    options: &LoadOptions,
    interrupt: &Interrupt,
    out: &mut Output,
    mut protocols: Option<Protocols>,
    at_end: Option<fn(&mut P)>,
) -> Result<Report, Failure>
where
    P: Program + Send + 'static,
    A: Application + Send + 'static,
{
    // A count ends the run by itself.
    let default = if options.count.is_some() { 0.0 } else { 10.0 };
    let duration = match options.duration.unwrap_or(default) {
        0.0 => f64::INFINITY,
        seconds => seconds,
    };
    let mut before = Snapshot {
        queues: vec![Tally::default(); session.queues()],
        ..Snapshot::default()
    };
    let mut line = |out: &mut Output, now: Snapshot| -> Result<(), Failure> {
        let moved = protocols.as_mut().map(Protocols::moved).transpose()?;
        summary::interval(out, (&before, &now), moved)?;
        before = now;
        Ok(())
    };
    let mut next = options.interval;
    while !out.is_closed() {
        let now = session.seconds();
        if now >= duration {
            break;
        }
        if now >= next {
            line(out, session.snapshot()?)?;
            // A late line does not make the next one early.
            next += options.interval * ((now - next) / options.interval).floor() + options.interval;
            continue;
        }
        let mut wait = Duration::from_secs_f64(next.min(duration) - now);
        if options.count.is_some() {
            wait = wait.min(LOOK);
        }
        if interrupt.wait(wait) || session.is_done() {
            break;
        }
    }
    let (report, parts) = session.stop()?;
    if let Some(at_end) = at_end {
        parts
            .into_iter()
            .for_each(|(mut program, _)| at_end(&mut program));
    }
    // What is left of the last interval, so that the lines add up to the summary.
    line(out, report.end.clone())?;
    Ok(report)
}
