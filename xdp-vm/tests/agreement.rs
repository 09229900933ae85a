//! The sample programs on the running kernel and here: the same verdict, the same packet after, the
//! same maps, packet for packet. Where the kernel may not be asked, the test says so and goes without.

#[allow(dead_code)] // each test file uses its part
#[path = "verifier/asm.rs"]
mod asm;
mod common;
#[path = "verifier/kernel.rs"]
mod kernel;

use std::collections::{BTreeSet, HashMap};

use common::{Bench, packet};
use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Engine, Map, MapKind, Object, Update};

/// Programs whose answer does not hang on chance. `mixed` counts by processor in `by_cpu`, whose
/// number is the kernel's there and the worker's here.
const PROGRAMS: [(&str, &str); 11] = [
    ("drop", "drop"),
    ("pass", "pass"),
    ("proto_count", "proto_count"),
    ("tx_swap", "tx_swap"),
    ("firewall", "firewall"),
    ("vlan_pop", "vlan_pop"),
    ("trim", "trim"),
    ("sampler", "sampler"),
    ("legacy", "legacy"),
    ("mixed", "by_length"),
    ("mixed", "aborted"),
];
const PACKETS: usize = 2_000;

#[test]
fn the_kernel_gives_the_same_answers() {
    if !kernel::may_be_asked() {
        return;
    }
    for (object, program) in PROGRAMS {
        compare(&common::load(object), program, Engine::Interpreter);
        compare(&common::load(object), program, Engine::Auto);
    }
}

/// Strangers' objects: those that Debian's xdp-tools installs, or of the folder that `XDP_OBJECTS`
/// names.
#[test]
fn installed_objects_agree() {
    let folder = std::env::var("XDP_OBJECTS")
        .unwrap_or_else(|_| format!("/usr/lib/{}-linux-gnu/bpf", std::env::consts::ARCH));
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return eprintln!("skipped: there is no {folder}; install xdp-tools");
    };
    if !kernel::may_be_asked() {
        return;
    }
    for path in entries.map(|e| e.unwrap().path()) {
        if path.extension().is_none_or(|e| e != "o") {
            continue;
        }
        let object = Object::parse(&std::fs::read(&path).unwrap()).unwrap();
        for rejected in &object.rejected {
            eprintln!("{}: {}: {}", path.display(), rejected.name, rejected.error);
        }
        for program in &object.programs {
            // What both accept must agree; what one refuses is for the verifier's own tests.
            let ours = verify(program, &object.maps, &Config::default()).map(|_| ());
            let theirs = kernel::load(program, &object.maps).unwrap().map(|_| ());
            eprintln!("{}: {}: {ours:?}, {theirs:?}", path.display(), program.name);
            if ours.is_ok() && theirs.is_ok() {
                compare(&object, &program.name, Engine::Interpreter);
                compare(&object, &program.name, Engine::Auto);
            }
        }
    }
}

fn compare(object: &Object, name: &str, engine: Engine) {
    let program = object.program(Some(name)).unwrap();
    let theirs = kernel::load(program, &object.maps).unwrap();
    let theirs = theirs.unwrap_or_else(|log| panic!("the kernel refuses {name}: {log}"));
    let mut ours = Bench::with_engine(object, Some(name), engine);
    let mut random = fastrand::Rng::with_seed(0x1dd);
    let filled: Vec<_> = ours
        .maps
        .iter()
        .enumerate()
        .map(|(index, map)| fill(map, index, &theirs, &mut random))
        .collect();
    let mut verdicts = BTreeSet::new();
    for _ in 0..PACKETS {
        let packet = packet(&mut random);
        let expected = theirs.run(&packet).unwrap();
        assert_eq!(
            ours.run(&packet),
            expected,
            "{name}, {engine:?}, on {packet:02x?}"
        );
        verdicts.insert(expected.0);
    }
    if name == "firewall" {
        assert_eq!(verdicts.len(), 2, "the packets do not try both ways");
    }
    for (index, map) in ours.maps.iter().enumerate() {
        if map.name() == "by_cpu" || !has_values(map) {
            continue;
        }
        // Of a large array, what was put in and a sample of the rest: a lookup is a system call.
        let step = map.len() as usize / 4096 + 1;
        let keys = map.keys().enumerate();
        for (_, key) in keys.filter(|(n, k)| n % step == 0 || filled[index].contains_key(k)) {
            let bytes = theirs.lookup(index, &key, copies(map) * stride(map));
            let theirs = words(&bytes.unwrap().unwrap(), stride(map));
            let values = match map.spec().kind.is_percpu() {
                true => map.lookup_percpu(&key).unwrap().unwrap(),
                false => vec![map.lookup(&key).unwrap().unwrap()],
            };
            let padded: Vec<u8> = values.iter().flat_map(|v| pad(v, stride(map))).collect();
            let ours = words(&padded, stride(map));
            // What was put in, each of the CPUs has; what came to it, any of them.
            let first = filled[index].get(&key).cloned();
            let first = first.unwrap_or_else(|| vec![0; stride(map)]);
            let grown = |values: &[Vec<u64>]| -> Vec<u64> {
                let first = &words(&first, stride(map))[0];
                let column = |i: usize| values.iter().map(move |v| v[i].wrapping_sub(first[i]));
                (0..first.len())
                    .map(|i| column(i).fold(0, u64::wrapping_add))
                    .collect()
            };
            assert_eq!(
                grown(&ours),
                grown(&theirs),
                "{name}, {} {key:?}",
                map.name()
            );
        }
    }
}

/// Puts the same entries in both maps: keys that packets have somewhere, small values, the same on
/// each CPU. Gives what was put where.
fn fill(
    map: &Map,
    index: usize,
    theirs: &kernel::Loaded,
    random: &mut fastrand::Rng,
) -> HashMap<Vec<u8>, Vec<u8>> {
    let mut filled = HashMap::new();
    let spec = map.spec();
    if map.name().starts_with('.') || !has_values(map) {
        return filled;
    }
    for _ in 0..50 {
        let packet = packet(random);
        let size = spec.key_size as usize;
        let at = random.usize(0..=packet.len().saturating_sub(size));
        let mut key = pad(&packet[at..packet.len().min(at + size)], size);
        if matches!(spec.kind, MapKind::Array | MapKind::PercpuArray) {
            let port = u32::from(u16::from_le_bytes([key[0], key[1]]));
            key = (port % spec.max_entries).to_le_bytes().to_vec();
        }
        let mut value = vec![0; spec.value_size as usize];
        value[0] = random.u8(0..8);
        map.update(&key, &value, Update::Any).unwrap();
        let padded = pad(&value, stride(map));
        theirs
            .update(index, &key, &padded.repeat(copies(map)))
            .unwrap();
        filled.insert(key, padded);
    }
    filled
}

/// True of maps whose entries are values, rather than devices, programs or records.
fn has_values(map: &Map) -> bool {
    use MapKind::*;
    matches!(
        map.spec().kind,
        Array | Hash | PercpuArray | PercpuHash | LruHash | LruPercpuHash
    )
}

/// Values that the kernel has under a key.
fn copies(map: &Map) -> usize {
    if map.spec().kind.is_percpu() {
        possible_cpus()
    } else {
        1
    }
}

/// Bytes from one of them to the next, a whole number of words.
fn stride(map: &Map) -> usize {
    (map.spec().value_size as usize).next_multiple_of(8)
}

fn pad(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(size, 0);
    padded
}

/// Values in words.
fn words(bytes: &[u8], stride: usize) -> Vec<Vec<u64>> {
    let word = |w: &[u8; 8]| u64::from_le_bytes(*w);
    bytes
        .chunks(stride)
        .map(|v| v.as_chunks::<8>().0.iter().map(word).collect())
        .collect()
}

/// Processors that the kernel keeps per-CPU values for.
fn possible_cpus() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last = text
        .trim()
        .rsplit(['-', ','])
        .next()
        .unwrap()
        .parse::<usize>();
    last.unwrap() + 1
}
