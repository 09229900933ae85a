//! The sample programs on the running kernel and here: the same verdict, the same packet after, the
//! same maps, packet for packet. Where the kernel may not be asked, the test says so and goes without.

#[allow(dead_code)] // each test file uses its part
#[path = "verifier/asm.rs"]
mod asm;
mod common;
#[path = "verifier/kernel.rs"]
mod kernel;

use common::Bench;
use xdp_vm::{Object, Update};

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
        compare(&common::load(object), program);
    }
}

fn compare(object: &Object, name: &str) {
    let program = object.program(Some(name)).unwrap();
    let theirs = kernel::load(program, &object.maps).unwrap();
    let theirs = theirs.unwrap_or_else(|log| panic!("the kernel refuses {name}: {log}"));
    let mut ours = Bench::new(object, Some(name));
    if let Some(map) = object.maps.iter().position(|m| m.name == "blocked") {
        for last in 1..3 {
            let key = [10, 0, 0, last];
            let blocked = ours.maps.at(map).unwrap();
            blocked.update(&key, &[0; 8], Update::Any).unwrap();
            theirs.update(map, &key, &[0; 8]).unwrap();
        }
    }
    let mut random = fastrand::Rng::with_seed(0x1dd);
    let mut verdicts = std::collections::BTreeSet::new();
    for _ in 0..PACKETS {
        let packet = packet(&mut random);
        let expected = theirs.run(&packet).unwrap();
        assert_eq!(ours.run(&packet), expected, "{name} on {packet:02x?}");
        verdicts.insert(expected.0);
    }
    if name == "firewall" {
        assert_eq!(verdicts.len(), 2, "the packets do not try both ways");
    }
    for (index, map) in ours
        .maps
        .iter()
        .enumerate()
        .filter(|(_, m)| m.name() != "by_cpu")
    {
        let (size, percpu) = (map.spec().value_size as usize, map.spec().kind.is_percpu());
        assert!(!percpu || size == 8, "sums are of numbers");
        let copies = if percpu { possible_cpus() } else { 1 };
        for key in map.keys() {
            let theirs = theirs.lookup(index, &key, size * copies).unwrap().unwrap();
            match percpu {
                false => assert_eq!(
                    map.lookup(&key).unwrap().unwrap(),
                    theirs,
                    "{name}, {}",
                    map.name()
                ),
                true => {
                    let ours = map.lookup_percpu(&key).unwrap().unwrap().concat();
                    assert_eq!(sum(&ours), sum(&theirs), "{name}, {} {key:?}", map.name());
                }
            }
        }
    }
}

/// Frames of the kinds that the programs tell apart, mutated and cut.
fn packet(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
    for _ in 0..random.usize(0..4) {
        p.extend([[0x81, 0x00], [0x88, 0xa8]][random.usize(0..2)]);
        p.extend([0, random.u8(..)]);
    }
    match random.u8(0..4) {
        0 => {
            let protocol = [17, 17, 6, random.u8(..)][random.usize(0..4)];
            p.extend([8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, protocol, 0, 0]);
            p.extend([10, 0, 0, random.u8(0..5), 10, 0, 0, 9]);
            p.extend([1, 2, 0, [9, 53][random.usize(0..2)], 0, 8, 0, 0]);
        }
        1 => {
            let next = || [0, 43, 44, 60, 17, 58];
            p.extend([
                0x86,
                0xdd,
                0x60,
                0,
                0,
                0,
                0,
                60,
                next()[random.usize(0..6)],
                64,
            ]);
            p.extend([0xfd; 32]);
            for _ in 0..random.usize(0..8) {
                p.extend([
                    next()[random.usize(0..6)],
                    random.u8(0..2),
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                ]);
            }
        }
        2 => p.extend([8, 6, 0, 1]),
        _ => p.extend((0..random.usize(0..80)).map(|_| random.u8(..))),
    }
    if random.bool() {
        let longer = [64, 128, 1500, 3520][random.usize(0..4)];
        p.resize(random.usize(p.len()..=p.len().max(longer)), 0xa5);
    }
    for _ in 0..random.usize(0..3) {
        let at = random.usize(0..p.len());
        p[at] = random.u8(..);
    }
    if random.u8(0..4) == 0 {
        p.truncate(random.usize(14..=p.len().max(14)));
    }
    // Shorter ones are refused by the kernel's test run, not by the program.
    p.resize(p.len().max(14), 0);
    p
}

fn sum(values: &[u8]) -> u64 {
    values
        .as_chunks::<8>()
        .0
        .iter()
        .map(|v| u64::from_le_bytes(*v))
        .sum()
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
