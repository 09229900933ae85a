//! Every sample program in both engines, on packets of all kinds: the same verdict, the same packet
//! after, the same prints, and in the end the same maps.

mod common;

use common::{Bench, packet};
use xdp_vm::{Engine, JitOptions, Maps, Object, Options};

const PACKETS: usize = 10_000;

#[test]
fn samples_do_the_same_in_both_engines() {
    let mut programs = 0;
    for entry in std::fs::read_dir(common::folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "o") {
            let object = Object::parse(&std::fs::read(&path).unwrap()).unwrap();
            for program in &object.programs {
                compare(&object, &program.name);
                programs += 1;
            }
        }
    }
    assert!(programs >= 10, "{programs}");
}

fn compare(object: &Object, name: &str) {
    let bench = |engine, blind_constants| {
        let options = Options {
            engine,
            jit: JitOptions {
                blind_constants,
                perf_map: false,
            },
        };
        let maps = Maps::create(&object.maps, 2).unwrap();
        Bench::with_options(object, Some(name), &maps, &options)
    };
    let mut interpreter = bench(Engine::Interpreter, false);
    let mut others = [bench(Engine::Auto, false), bench(Engine::Auto, true)];
    let mut random = fastrand::Rng::with_seed(0xe46);
    for _ in 0..PACKETS {
        let mut packet = packet(&mut random);
        if random.u8(..16) == 0 {
            // Shorter than the kernel hands to a program, which here is up to the user.
            packet.truncate(random.usize(..14));
        }
        let expected = interpreter.run(&packet);
        let printed = printed(&mut interpreter);
        for other in &mut others {
            assert_eq!(other.run(&packet), expected, "{name} on {packet:02x?}");
            assert_eq!(crate::printed(other), printed, "{name} on {packet:02x?}");
        }
    }
    let expected = contents(&interpreter.maps);
    for other in &others {
        assert!(contents(&other.maps) == expected, "{name}: the maps differ");
    }
}

fn printed(bench: &mut Bench) -> Vec<String> {
    let mut lines = Vec::new();
    bench.cpu.trace.drain(|line| lines.push(line.to_owned()));
    lines
}

/// Keys and values of all maps, of all workers, in the order of keys.
fn contents(maps: &Maps) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    maps.iter()
        .map(|map| {
            let value = |key: &[u8]| match map.spec().kind.is_percpu() {
                true => map.lookup_percpu(key).unwrap().unwrap().concat(),
                false => map.lookup(key).unwrap().unwrap(),
            };
            let mut entries: Vec<_> = map.keys().map(|k| (k.clone(), value(&k))).collect();
            entries.sort();
            entries
        })
        .collect()
}
