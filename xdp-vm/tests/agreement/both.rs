//! One program in the kernel and in each of our engines, with maps that hold the same.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Engine, Executable, Maps, Object, Options, Program};

use crate::common::Bench;
use crate::kernel::{self, Loaded};
use crate::maps::{self, Filled};
use crate::packets;
use crate::processor;

/// What runs programs here. `Auto` compiles what can be compiled.
const ENGINES: [Engine; 2] = [Engine::Interpreter, Engine::Auto];

/// Why a program was not compared.
pub(crate) enum Left {
    /// One side refuses it, or both do.
    Refused {
        ours: Option<String>,
        theirs: Option<String>,
    },
    /// The kernel does not make its maps, or does not run it.
    Unasked(String),
    /// They differ: where.
    Differ(String),
}

/// What a comparison came by.
pub(crate) struct Compared {
    /// How often each verdict was given.
    pub(crate) verdicts: BTreeMap<u32, usize>,
    /// Entries of maps that were held against each other, over all engines.
    pub(crate) entries: usize,
}

/// The program on both sides.
struct Both {
    theirs: Loaded,
    ours: Vec<(Engine, Bench)>,
    filled: Vec<Filled>,
    /// Those that the program's entries in program arrays need.
    _others: Vec<Loaded>,
}

/// Runs `program` on `count` packets on both sides and compares verdicts, packets and, in the end, maps.
pub(crate) fn compare(object: &Object, program: &Program, count: usize) -> Result<Compared, Left> {
    let mut rng = Rng::with_seed(0x1dd);
    let mut both = Both::load(object, program, processor::pin(), &mut rng)?;
    let mut verdicts = BTreeMap::new();
    for n in 0..count {
        let packet = packets::packet(&mut rng);
        let expected = match both.theirs.run(&packet) {
            Ok(expected) => expected,
            Err(e) if n == 0 => return Err(Left::Unasked(format!("test run: {e}"))),
            Err(e) => return Err(Left::Differ(format!("test run: {e}, on {packet:02x?}"))),
        };
        for (engine, bench) in &mut both.ours {
            let (verdict, _, after) = bench.run_with_meta(&packet);
            let got = (verdict, after);
            if got != expected {
                return Err(Left::Differ(format!(
                    "{engine:?}, packet {n}: verdict {}, the kernel's {}\nbefore: {packet:02x?}\n\
                     after:  {:02x?}\nkernel: {:02x?}",
                    got.0, expected.0, got.1, expected.1
                )));
            }
        }
        *verdicts.entry(expected.0).or_default() += 1;
    }
    let mut entries = 0;
    for (engine, bench) in &both.ours {
        for (index, map) in bench.maps.iter().enumerate() {
            let theirs = &both.theirs.maps()[index];
            entries += maps::compare(map, theirs, &both.filled[index]).map_err(|place| {
                Left::Differ(format!("{engine:?}, map {}, {place}", map.name()))
            })?;
        }
    }
    Ok(Compared { verdicts, entries })
}

impl Both {
    /// Loads it on both sides, here for a worker whose number is the processor's.
    fn load(object: &Object, program: &Program, slot: u32, rng: &mut Rng) -> Result<Both, Left> {
        let fds = kernel::create_maps(&object.maps)
            .map_err(|e| Left::Unasked(format!("the kernel does not make its maps: {e}")))?;
        let theirs = kernel::load_on(program, &fds).expect("bpf(2)");
        let ours = verify(program, &object.maps, &Config::default());
        let (theirs, verified) = match (theirs, ours) {
            (Ok(theirs), Ok((verified, _))) => (theirs, verified),
            (theirs, ours) => {
                let ours = ours
                    .err()
                    .map(|e| format!("instruction {}, {}: {}", e.insn, e.text, e.cause));
                let theirs = theirs.err();
                return Err(Left::Refused { ours, theirs });
            }
        };
        let wanted: BTreeSet<&str> = maps::programs_of(&object.maps).collect();
        let others: Vec<(&Program, Loaded)> = object
            .programs
            .iter()
            .filter(|p| wanted.contains(&p.name[..]))
            .filter_map(|p| Some((p, kernel::load_on(p, &fds).ok()?.ok()?)))
            .collect();
        for (other, loaded) in &others {
            maps::link(&object.maps, &other.name, loaded);
        }
        let mut benches = vec![];
        for engine in ENGINES {
            let maps = Maps::create(&object.maps, slot as usize + 1)
                .map_err(|e| Left::Unasked(format!("its maps are not made here: {e}")))?;
            let options = Options {
                engine,
                ..Options::default()
            };
            let make = |p: &Program| {
                let (verified, _) = verify(p, &object.maps, &Config::default()).ok()?;
                Executable::with_options(&verified, &maps, &options).ok()
            };
            let linked: Vec<Executable> = others.iter().filter_map(|(p, _)| make(p)).collect();
            maps.link(&linked).expect("entries of program arrays");
            let program = Executable::with_options(&verified, &maps, &options)
                .unwrap_or_else(|e| panic!("{}, {engine:?}: {e}", program.name));
            benches.push((engine, Bench::of(maps, program, slot)));
        }
        let filled = (0..object.maps.len())
            .map(|index| {
                let ours = benches
                    .iter()
                    .map(|(_, bench)| bench.maps.at(index).unwrap());
                maps::fill(ours, &fds[index], rng)
            })
            .collect();
        Ok(Both {
            theirs,
            ours: benches,
            filled,
            _others: others.into_iter().map(|(_, loaded)| loaded).collect(),
        })
    }
}
