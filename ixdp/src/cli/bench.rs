//! `ixdp bench drop`: every packet dropped, as fast as they come.

use std::path::{Path, PathBuf};

use datapath::SkipProgram;
use ixdp::LoadedProgram;
use ixdp::xdp_vm::{Maps, Object};

use crate::cli::args::BenchDrop;
use crate::cli::failure::{Failure, file};
use crate::cli::interrupt::Interrupt;
use crate::cli::load::{self, Load, Protocols};
use crate::cli::object::read_object;

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
    let (name, program) = match &args.prog {
        Some(argument) => {
            let (path, name) = split(argument);
            let object = read_object(&path)?;
            let program = LoadedProgram::load(&object, name.as_deref(), queues);
            let program = program.map_err(file("run a program of", &path))?;
            let told = format!("{} of {}", program.name(), path.display());
            (told, program)
        }
        None => {
            let bytes = if args.per_proto { PROTO_COUNT } else { DROP };
            let program = LoadedProgram::load(&Object::parse(bytes)?, None, queues)?;
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

/// `FILE.o:NAME`, unless there is a file of that whole name.
fn split(argument: &Path) -> (PathBuf, Option<String>) {
    let whole = (argument.to_owned(), None);
    if argument.exists() {
        return whole;
    }
    let parts = argument.to_str().and_then(|text| text.rsplit_once(':'));
    match parts {
        Some((path, name)) if !path.is_empty() && !name.is_empty() => {
            (path.into(), Some(name.to_owned()))
        }
        _ => whole,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_follow_the_file() {
        let of = |text: &str| split(Path::new(text));
        assert_eq!(of("a.o:main"), ("a.o".into(), Some("main".to_owned())));
        assert_eq!(of("a.o"), ("a.o".into(), None));
        assert_eq!(
            of("dir:x/a.o:f"),
            ("dir:x/a.o".into(), Some("f".to_owned()))
        );
        assert_eq!(of("a.o:"), ("a.o:".into(), None));
        let file = tempfile::Builder::new().suffix(":b").tempfile().unwrap();
        assert_eq!(split(file.path()), (file.path().to_owned(), None));
    }
}
