//! `ixdp bench drop`: every packet dropped, as fast as they come.

use datapath::SkipProgram;
use ixdp::LoadedProgram;
use ixdp::xdp_vm::{Maps, Object};

use crate::cli::args::BenchDrop;
use crate::cli::failure::{Failure, file};
use crate::cli::interrupt::Interrupt;
use crate::cli::load::{self, Load, Protocols};
use crate::cli::object::{read_object, split};

const DROP: &[u8] = include_bytes!("../../programs/drop.bpf.o");
const PROTO_COUNT: &[u8] = include_bytes!("../../programs/proto_count.bpf.o");
/// The map of the counting program: packets by IP protocol, and past the last what is not IP.
const COUNTS: &str = "rxcnt";

/// Measures.
pub(crate) fn drop(args: &BenchDrop) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let queues = args.device.queues;
    if args.device.skip_prog {
        let load = Load {
            name: "none (skipped)".to_owned(),
            programs: vec![SkipProgram; queues.into()],
            protocols: None,
            at_end: None,
        };
        return load::run(&args.device, &args.load, &interrupt, load);
    }
    let options = args.engine.options();
    let (name, program) = match &args.prog {
        Some(argument) => {
            let (path, name) = split(argument);
            let object = read_object(&path)?;
            let program = LoadedProgram::load_with(&object, name.as_deref(), queues, &options);
            let program = program.map_err(file("run a program of", &path))?;
            let told = format!("{} of {}", program.name(), path.display());
            (told, program)
        }
        None => {
            let bytes = if args.per_proto { PROTO_COUNT } else { DROP };
            let object = Object::parse(bytes)?;
            let program = LoadedProgram::load_with(&object, None, queues, &options)?;
            (format!("{} (embedded)", program.name()), program)
        }
    };
    let maps = program.maps().clone();
    let load = Load {
        name,
        programs: (0..queues).map(|q| program.on_queue(q)).collect(),
        protocols: match args.per_proto {
            true => Some(Protocols::new(move || counts(&maps))?),
            false => None,
        },
        at_end: None,
    };
    load::run(&args.device, &args.load, &interrupt, load)
}

/// Packets of each protocol so far, over all queues.
fn counts(maps: &Maps) -> Result<Vec<u64>, Failure> {
    let Some(map) = maps.get(COUNTS) else {
        return Ok(Vec::new());
    };
    let mut counts = Vec::new();
    for key in map.keys() {
        let values = map.lookup_percpu(&key)?.unwrap_or_default();
        let values = values.iter().filter_map(|v| v.first_chunk().copied());
        counts.push(values.map(u64::from_le_bytes).sum());
    }
    Ok(counts)
}
