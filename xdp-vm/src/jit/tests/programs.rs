//! Programs made at random, in both engines.
//!
//! `XDP_VM_PROGRAMS=10000000 cargo test --release -p xdp-vm --lib jit::tests::programs` runs ten
//! million; `XDP_VM_SEED=N` starts at another seed.

use super::generate::{CPUS, Generated, maps, program};
use super::*;

/// Seeds of programs that found faults, and the faults. The engines have not differed yet: these were
/// put in to see them found.
const FOUND: [(u64, &str); 9] = [
    (
        1004,
        "the upper half of r0 after a 32-bit compare and exchange",
    ),
    (1917, "the same"),
    (8, "rdx lost in a division"),
    (17, "the same"),
    (29, "a map taken for another where two ways meet"),
    (302, "the same"),
    (26, "one worker's value for another's"),
    (16, "functions that share a frame"),
    (131, "the same"),
];

#[test]
fn seeds_of_what_was_found() {
    let mut rig = Rig::new();
    for (seed, fault) in FOUND {
        println!("{seed}: {fault}");
        rig.compare(seed);
    }
}

#[test]
fn random_programs() {
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>().unwrap());
    let default = if cfg!(debug_assertions) {
        5_000
    } else {
        100_000
    };
    let count = number("XDP_VM_PROGRAMS").unwrap_or(default);
    let first = number("XDP_VM_SEED").unwrap_or(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mut total = Statistics::default();
    std::thread::scope(|scope| {
        let share = |thread| (first + thread..first + count).step_by(threads as usize);
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut rig = Rig::new();
                    share(thread).for_each(|seed| rig.compare(seed));
                    rig.statistics
                })
            })
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(statistics) => total.add(&statistics),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    println!("{count} programs from seed {first}, none differ: {total:?}");
    // What the programs were meant to do, they did.
    assert_eq!(total.programs, count);
    assert!(total.with_maps > count / 4 && total.with_calls > count / 10);
    assert!(total.moved_packet > count / 50);
}

/// What was tried.
#[derive(Debug, Default)]
struct Statistics {
    programs: u64,
    instructions: u64,
    code_bytes: u64,
    with_maps: u64,
    with_calls: u64,
    moved_packet: u64,
}

impl Statistics {
    fn add(&mut self, other: &Statistics) {
        self.programs += other.programs;
        self.instructions += other.instructions;
        self.code_bytes += other.code_bytes;
        self.with_maps += other.with_maps;
        self.with_calls += other.with_calls;
        self.moved_packet += other.moved_packet;
    }
}

/// What programs run on, made once.
struct Rig {
    maps: Maps,
    cpu: Cpu,
    buffer: Vec<u8>,
    statistics: Statistics,
}

/// All that a program can leave behind.
#[derive(Debug, PartialEq)]
struct Outcome {
    returned: u32,
    packet: (usize, usize, usize),
    buffer: Vec<u8>,
    stack: Vec<u8>,
    maps: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl Rig {
    fn new() -> Self {
        let mut cpu = Cpu::new(1);
        cpu.set_clock(Clock::Fixed(1_234_567_890_123));
        Rig {
            maps: maps(),
            cpu,
            buffer: vec![0; 1024],
            statistics: Statistics::default(),
        }
    }

    fn compare(&mut self, seed: u64) {
        let Generated {
            insns,
            notes,
            used_maps,
        } = program(seed);
        let verified = trusted(insns, &notes, &self.maps);
        let interpreter = interpreted(&verified, &self.maps);
        let mut rng = fastrand::Rng::with_seed(!seed);
        let (options, features) = rng.choice(variants().collect::<Vec<_>>()).unwrap();
        let jit = Jit::with_features(&verified, &self.maps, &options, features).unwrap();
        let mut moved = false;
        for _ in 0..2 {
            let packet: Vec<u8> = (0..rng.usize(64..300)).map(|_| rng.u8(..)).collect();
            let expected = self.run(&packet, used_maps, |_, cpu, buff| {
                interpreter.run(cpu, buff)
            });
            let found = self.run(&packet, used_maps, |maps, cpu, buff| {
                run_jit(&jit, maps, cpu, buff)
            });
            assert!(
                found == expected,
                "seed {seed}, {options:?}, {features:?}\n{}{}",
                listing(&verified.program().insns),
                difference(&found, &expected)
            );
            moved |= expected.packet != (256, packet.len(), 0);
        }
        let insns = &verified.program().insns;
        let is_call = |i: &Insn| i.code == 0x85 && i.src == insn::call::LOCAL;
        self.statistics.add(&Statistics {
            programs: 1,
            instructions: insns.len() as u64,
            code_bytes: jit.code().len() as u64,
            with_maps: (used_maps != 0).into(),
            with_calls: insns.iter().any(is_call).into(),
            moved_packet: moved.into(),
        });
    }

    fn run(
        &mut self,
        packet: &[u8],
        used_maps: u32,
        run: impl FnOnce(&Maps, &mut Cpu, &mut XdpBuff<'_>) -> u32,
    ) -> Outcome {
        used(&self.maps, used_maps).for_each(reset);
        fill_stack(&self.cpu, &[0x0123_4567_89ab_cdef]);
        self.cpu.set_seed(7);
        self.buffer.fill(0x5a);
        self.buffer[256..256 + packet.len()].copy_from_slice(packet);
        let mut buff = XdpBuff::new(&mut self.buffer, 256, packet.len()).unwrap();
        buff.set_rx(3, 5);
        buff.set_egress(9);
        let returned = run(&self.maps, &mut self.cpu, &mut buff);
        let packet = (buff.data(), buff.len(), buff.meta_len());
        Outcome {
            returned,
            packet,
            buffer: self.buffer.clone(),
            stack: stack_of(&self.cpu),
            maps: used(&self.maps, used_maps).map(contents).collect(),
        }
    }
}

/// The maps whose bits are set.
fn used(maps: &Maps, bits: u32) -> impl Iterator<Item = &crate::Map> {
    let all = maps.iter().enumerate();
    all.filter(move |(i, _)| bits & 1 << i != 0)
        .map(|(_, map)| map)
}

/// Sets a map to contents that are the same each time.
fn reset(map: &crate::Map) {
    let spec = map.spec();
    let value = vec![0x11; spec.value_size as usize];
    let keys: Vec<_> = match spec.kind {
        MapKind::Array | MapKind::PercpuArray => (0..spec.max_entries)
            .map(|i| i.to_le_bytes().to_vec())
            .collect(),
        _ => {
            map.keys().for_each(|key| map.delete(&key).unwrap());
            // Of the keys that programs ask for, a few.
            (1u64..4)
                .map(|i| i.to_le_bytes()[..spec.key_size as usize].to_vec())
                .collect()
        }
    };
    for key in keys {
        match spec.kind.is_percpu() {
            true => map.update_percpu(&key, &[&value[..]; CPUS], Update::Any),
            false => map.update(&key, &value, Update::Any),
        }
        .unwrap();
    }
}

/// Keys and values, of all workers, in the order of keys.
fn contents(map: &crate::Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries: Vec<_> = map
        .keys()
        .map(|key| {
            let value = match map.spec().kind.is_percpu() {
                true => map.lookup_percpu(&key).unwrap().unwrap().concat(),
                false => map.lookup(&key).unwrap().unwrap(),
            };
            (key, value)
        })
        .collect();
    entries.sort();
    entries
}

fn difference(found: &Outcome, expected: &Outcome) -> String {
    let mut text = format!("returned {} not {}\n", found.returned, expected.returned);
    if found.packet != expected.packet {
        let _ = writeln!(text, "packet {:?} not {:?}", found.packet, expected.packet);
    }
    let places = |a: &[u8], b: &[u8]| {
        let pairs = a.iter().zip(b).enumerate();
        pairs
            .filter(|(_, (a, b))| a != b)
            .map(|(i, _)| i)
            .collect::<Vec<_>>()
    };
    let stack = places(&found.stack, &expected.stack);
    let below_top: Vec<_> = stack.iter().map(|i| *i as i64 - STACK as i64).collect();
    let _ = writeln!(
        text,
        "buffer at {:?}",
        places(&found.buffer, &expected.buffer)
    );
    let _ = writeln!(text, "stack at {below_top:?}");
    if found.maps != expected.maps {
        let _ = writeln!(text, "maps {:x?}\nnot {:x?}", found.maps, expected.maps);
    }
    text
}
