//! Helpers and kinds of map on the running kernel and here: small programs in assembler, the same
//! answer and the same packet after from both. Where the kernel may not be asked, the answers that it
//! gave when the test was written hold.

#[allow(dead_code)] // each test file uses its part
#[path = "verifier/asm.rs"]
mod asm;
#[path = "verifier/kernel.rs"]
mod kernel;

use std::cell::Cell;
use std::sync::Arc;

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{
    Cpu, Engine, Errno, Executable, FibQuery, FibResult, Map, MapKind, MapSpec, Maps, Network,
    Options, Redirect, Update, Verified, XdpBuff,
};

thread_local! {
    /// The engine that the test at hand is for.
    static ENGINE: Cell<Engine> = const { Cell::new(Engine::Interpreter) };
}

/// All tests, in one engine.
macro_rules! tests_in {
    ($module:ident, $engine:expr) => {
        tests_in!($module, $engine,
            checksums_of_what_was_and_what_is,
            bytes_are_loaded_and_stored_within_the_packet,
            metadata_grows_and_shrinks_as_in_the_kernel,
            redirects_give_verdicts_and_targets,
            an_entry_is_told_with_its_value,
            queues_and_stacks_give_values_in_order,
            a_bloom_filter_knows_what_it_saw,
            the_longest_prefix_wins,
            tail_calls_end_after_thirty_three,
            inner_maps_are_found_and_replaced,
            perf_events_reach_their_reader,
            a_ring_buffer_fills_and_tells,
            records_are_reserved_until_the_ring_is_full,
            the_network_answers_for_its_interfaces,
            an_lru_hash_forgets_what_nobody_asks_for
        );
    };
    ($module:ident, $engine:expr, $($test:ident),*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::ENGINE.set($engine);
                    super::$test();
                }
            )*
        }
    };
}

tests_in!(interpreted, xdp_vm::Engine::Interpreter);
tests_in!(compiled, xdp_vm::Engine::Auto);

fn map(kind: MapKind, key_size: u32, value_size: u32, max_entries: u32) -> MapSpec {
    MapSpec {
        name: "m".into(),
        kind,
        key_size,
        value_size,
        max_entries,
        ..MapSpec::default()
    }
}

/// A program here, and in the kernel where it may be asked.
struct Both {
    cpu: Cpu,
    maps: Maps,
    program: Executable,
    kernel: Option<kernel::Loaded>,
}

fn executable(verified: &Verified, maps: &Maps) -> Executable {
    let options = Options {
        engine: ENGINE.get(),
        ..Options::default()
    };
    Executable::with_options(verified, maps, &options).unwrap()
}

impl Both {
    fn new(text: &str, maps: &[MapSpec]) -> Self {
        Both::for_cpus(text, maps, 1)
    }

    fn for_cpus(text: &str, maps: &[MapSpec], cpus: usize) -> Self {
        let program = asm::program(text);
        let (verified, _) =
            verify(&program, maps, &Config::default()).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let kernel = kernel::may_be_asked().then(|| {
            let loaded = kernel::load(&program, maps).unwrap();
            loaded.unwrap_or_else(|log| panic!("{text}\n{log}"))
        });
        let maps = Maps::create(maps, cpus).unwrap();
        Both {
            cpu: Cpu::new(0),
            program: executable(&verified, &maps),
            maps,
            kernel,
        }
    }

    fn map(&self) -> &Map {
        self.maps.at(0).unwrap()
    }

    /// Sets an entry in both.
    fn set(&self, key: &[u8], value: &[u8]) {
        self.map().update(key, value, Update::Any).unwrap();
        if let Some(kernel) = &self.kernel {
            kernel.update(0, key, value).unwrap();
        }
    }

    /// What both return, and the packet after, its metadata before it, which are the same.
    fn run(&mut self, packet: &[u8]) -> (u32, Vec<u8>) {
        let mut buffer = vec![0; 4096];
        buffer[256..256 + packet.len()].copy_from_slice(packet);
        let mut buff = XdpBuff::new(&mut buffer, 256, packet.len()).unwrap();
        let r0 = self.program.run(&mut self.cpu, &mut buff);
        let ours = (r0, [buff.meta(), buff.packet()].concat());
        if let Some(kernel) = &self.kernel {
            let theirs = kernel.run(packet).unwrap();
            assert_eq!(
                (ours.0.cast_signed(), &ours.1),
                (theirs.0.cast_signed(), &theirs.1),
                "ours, the kernel's"
            );
        }
        ours
    }
}

/// What a program without maps returns on 64 bytes.
fn r0(text: &str) -> i32 {
    let packet: Vec<u8> = (0..64u8)
        .map(|n| n.wrapping_mul(7).wrapping_add(1))
        .collect();
    Both::new(text, &[]).run(&packet).0.cast_signed()
}

fn checksums_of_what_was_and_what_is() {
    let mut random = fastrand::Rng::with_seed(5);
    // Sizes of both, and the seed; the bytes lie on the stack.
    let run = |from: u32, to: u32, seed: u32, fill: &mut dyn FnMut() -> u32| {
        let mut text = String::new();
        for at in 1..=8 {
            text += &format!("w1 = {}\n *(u32 *)(r10 - {}) = r1\n", fill() as i32, 4 * at);
        }
        let pointer = |size: u32, at: u32, reg: u32| match size {
            0 => format!("r{reg} = 0\n"),
            _ => format!("r{reg} = r10\n r{reg} += -{at}\n"),
        };
        text += &pointer(from, 16, 1);
        text += &format!("r2 = {from}\n");
        text += &pointer(to, 32, 3);
        text += &format!("r4 = {to}\n w5 = {}\n call 28\n exit", seed as i32);
        r0(&text)
    };
    for (from, to) in [(0, 0), (0, 16), (16, 0), (16, 16), (4, 12), (12, 4), (0, 4)] {
        for seed in [0, 1, 0xffff, 0x1_0000, u32::MAX, random.u32(..)] {
            assert!((0..=0xffff).contains(&run(from, to, seed, &mut || random.u32(..))));
            run(from, to, seed, &mut || 0);
            run(from, to, seed, &mut || u32::MAX);
        }
    }
    for size in 1..16 {
        // Of newer kernels; older ones refuse what is no multiple of 4.
        run(size, 0, 5, &mut || random.u32(..));
        run(0, size, 5, &mut || random.u32(..));
        run(size, 16 - size, 5, &mut || random.u32(..));
    }
    assert_eq!(run(0, 16, 0, &mut || 1), 4, "the sum of four ones");
}

fn bytes_are_loaded_and_stored_within_the_packet() {
    let call = |helper: u32, offset: i64, len: u32| {
        format!(
            "r6 = r1
             *(u64 *)(r10 - 8) = -1
             *(u64 *)(r10 - 16) = -1
             r2 = {offset} ll
             r3 = r10
             r3 += -16
             r4 = {len}
             call {helper}
             exit"
        )
    };
    for helper in [189, 190] {
        for (offset, len, expected) in [
            (0, 16, 0),
            (48, 16, 0),
            (49, 16, -22),
            (63, 1, 0),
            (64, 1, -22),
            (-1, 1, -14),
            (0x1_0000, 1, -14),
            (0xffff, 1, -22),
            (1 << 32, 1, 0),
        ] {
            let got = r0(&call(helper, offset, len));
            assert_eq!(got, expected, "helper {helper}, {len} bytes at {offset}");
        }
    }
    // What was loaded is what is there.
    let text = "r2 = 9\n r3 = r10\n r3 += -8\n r4 = 4\n call 189\n r0 = *(u32 *)(r10 - 8)\n exit";
    assert_eq!(r0(text), i32::from_le_bytes([64, 71, 78, 85]));
    assert_eq!(r0("call 188\n exit"), 64);
}

fn metadata_grows_and_shrinks_as_in_the_kernel() {
    for (first, second, expected) in [
        (0, 0, 0),
        (-4, 0, 0),
        (-4, 4, 0),
        (-4, -4, 0),
        (-4, 8, -22),
        (-3, 0, -13),
        (4, 0, -22),
        (-216, 0, 0),
        (-220, 0, -22),
        (-212, -4, 0),
        (-212, -8, -22),
        (i32::MIN, 0, -22),
    ] {
        let text = format!(
            "r6 = r1\n r2 = {first}\n call 54\n r7 = r0\n if r0 != 0 goto out
             r1 = r6\n r2 = {second}\n call 54\n r7 = r0
             out:\n r0 = r7\n exit"
        );
        assert_eq!(r0(&text), expected, "{first} then {second}");
    }
}

fn redirects_give_verdicts_and_targets() {
    assert_eq!(r0("r1 = 7\n r2 = 0\n call 23\n exit"), 4);
    assert_eq!(r0("r1 = 7\n r2 = 1\n call 23\n exit"), 0);
    let mut program = Both::new("r1 = 7\n r2 = 0\n call 23\n exit", &[]);
    program.run(&[0; 64]);
    let target = Some(Redirect::Interface { ifindex: 7 });
    assert_eq!(program.cpu.take_redirect(), target);
    assert_eq!(program.cpu.take_redirect(), None, "it was taken");

    for kind in [
        MapKind::Devmap,
        MapKind::DevmapHash,
        MapKind::Cpumap,
        MapKind::Xskmap,
    ] {
        for flags in (0..=34).chain([1 << 31]) {
            let text = format!("r1 = map 0\n r2 = 3\n r3 = {flags} ll\n call 51\n exit");
            let mut program = Both::new(&text, &[map(kind, 4, 4, 8)]);
            let (verdict, _) = program.run(&[0; 64]);
            // Nothing is there: the flags say the verdict, unless they ask for all or are unknown.
            let devmap = matches!(kind, MapKind::Devmap | MapKind::DevmapHash);
            let expected = match flags {
                0..=3 => flags as u32,
                8..=11 | 24..=27 if devmap => 4,
                16..=19 if devmap => flags as u32 & 3,
                _ => 0,
            };
            assert_eq!(verdict, expected, "{kind:?} {flags}");
            assert_eq!(program.cpu.take_redirect().is_some(), expected == 4);
        }
    }
}

fn an_entry_is_told_with_its_value() {
    // A hit, and then a miss by another key where the packet says so.
    let text = "r6 = *(u32 *)(r1 + 0)
                r7 = *(u32 *)(r1 + 4)
                r1 = map 0
                r2 = 1
                r3 = 0
                call 51
                r2 = r6
                r2 += 1
                if r2 > r7 goto out
                r2 = *(u8 *)(r6 + 0)
                if r2 == 0 goto out
                r1 = map 0
                r3 = 2
                call 51
                out:
                exit";
    for kind in [MapKind::Devmap, MapKind::DevmapHash] {
        let mut program = Both::new(text, &[map(kind, 4, 8, 4)]);
        // Interface 1, the loopback, is everywhere; no program.
        program.set(&[1, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(program.run(&[0; 64]).0, 4);
        let entry = Redirect::Entry {
            map: 0,
            kind,
            key: 1,
            value: [1, 0],
        };
        assert_eq!(program.cpu.take_redirect(), Some(entry));
        assert_eq!(program.run(&[3; 64]).0, 2, "the miss gives its flags");
        assert_eq!(program.cpu.take_redirect(), None, "and takes the hit back");
        assert_eq!(program.map().keys().count(), 1);
        program.map().delete(&[1, 0, 0, 0]).unwrap();
        assert_eq!(program.map().len(), 0);
    }
}

/// A push, a push or a pop or a peek by the packet's first byte, and what is left then.
fn queues_and_stacks_give_values_in_order() {
    let text = "r6 = *(u32 *)(r1 + 0)
                r7 = *(u32 *)(r1 + 4)
                r0 = 1
                r2 = r6
                r2 += 2
                if r2 > r7 goto out
                r8 = *(u8 *)(r6 + 0)
                r9 = *(u8 *)(r6 + 1)
                *(u64 *)(r10 - 8) = r9
                r1 = map 0
                r2 = r10
                r2 += -8
                if r8 == 4 goto pop
                if r8 == 5 goto peek
                r3 = r8
                call 87
                exit
                pop:
                call 88
                goto tell
                peek:
                call 89
                tell:
                r1 = *(u64 *)(r10 - 8)
                r1 <<= 8
                r0 += r1
                out:
                exit";
    let mut random = fastrand::Rng::with_seed(3);
    for kind in [MapKind::Queue, MapKind::Stack] {
        let mut program = Both::new(text, &[map(kind, 0, 8, 3)]);
        let mut full = 0;
        for n in 0..400 {
            let what = random.u8(0..6);
            let mut packet = vec![0; 64];
            (packet[0], packet[1]) = (what, n as u8);
            let got = program.run(&packet).0.cast_signed();
            full += i32::from(got == -7);
        }
        assert!(full > 0, "it was never full");
        let map = program.map();
        while map.pop().unwrap().is_some() {}
        map.push(&7u64.to_le_bytes(), Update::Any).unwrap();
        map.push(&8u64.to_le_bytes(), Update::Any).unwrap();
        let first = if kind == MapKind::Queue { 7u64 } else { 8 };
        assert_eq!(map.peek().unwrap(), Some(first.to_le_bytes().to_vec()));
        assert_eq!(map.len(), 2);
    }
}

fn a_bloom_filter_knows_what_it_saw() {
    let text = "r6 = *(u32 *)(r1 + 0)
                r7 = *(u32 *)(r1 + 4)
                r0 = 1
                r2 = r6
                r2 += 2
                if r2 > r7 goto out
                r8 = *(u8 *)(r6 + 0)
                r9 = *(u8 *)(r6 + 1)
                *(u64 *)(r10 - 8) = r9
                *(u32 *)(r10 - 16) = 9
                r1 = map 0
                r2 = r10
                r2 += -8
                if r8 == 4 goto peek
                r3 = r8
                call 87
                exit
                peek:
                call 89
                out:
                exit";
    let filter = MapSpec {
        extra: 3,
        ..map(MapKind::BloomFilter, 0, 8, 1000)
    };
    let mut program = Both::new(text, &[filter]);
    let mut packet = vec![0; 64];
    packet[1] = 5;
    packet[0] = 4;
    assert_eq!(program.run(&packet).0.cast_signed(), -2);
    packet[0] = 1;
    assert_eq!(program.run(&packet).0.cast_signed(), -22, "flags");
    packet[0] = 0;
    assert_eq!(program.run(&packet).0, 0);
    packet[0] = 4;
    assert_eq!(program.run(&packet).0, 0);
    assert!(program.map().contains(&5u64.to_le_bytes()).unwrap());
    let strangers = (1000..2000u64).filter(|n| program.map().contains(&n.to_le_bytes()).unwrap());
    assert!(strangers.count() < 10, "a filter that knows everything");
}

fn the_longest_prefix_wins() {
    // The key is the packet's first 8 bytes: a length and an address.
    let text = "r6 = *(u32 *)(r1 + 0)
                r7 = *(u32 *)(r1 + 4)
                r0 = -1
                r2 = r6
                r2 += 8
                if r2 > r7 goto out
                r1 = map 0
                r2 = r6
                call 1
                if r0 == 0 goto none
                r0 = *(u32 *)(r0 + 0)
                exit
                none:
                r0 = -2
                out:
                exit";
    let trie = MapSpec {
        flags: 1,
        ..map(MapKind::LpmTrie, 8, 4, 64)
    };
    let mut program = Both::new(text, &[trie]);
    let mut random = fastrand::Rng::with_seed(11);
    let key = |len: u32, address: [u8; 4]| [len.to_le_bytes(), address].concat();
    let address = |random: &mut fastrand::Rng| [10, random.u8(0..3), random.u8(0..4) << 6, 0];
    let mut found = 0;
    for round in 0..600u32 {
        let at = key(random.u32(0..34), address(&mut random));
        let (value, flags) = (round.to_le_bytes(), random.u64(0..3));
        let what = [Update::Any, Update::NoExist, Update::Exist][flags as usize];
        let ours = match random.u8(0..3) {
            0 => program.map().delete(&at),
            _ => program.map().update(&at, &value, what),
        };
        if let Some(kernel) = &program.kernel {
            // The same choice again.
            let theirs = match &ours {
                Err(xdp_vm::MapError::Failed { operation, .. }) if *operation == "delete" => {
                    kernel.delete(0, &at)
                }
                _ if program.map().lookup(&at).ok().flatten() == Some(value.to_vec())
                    || ours.is_err() =>
                {
                    kernel.update_flags(0, &at, &value, flags)
                }
                _ => kernel.delete(0, &at),
            };
            let errno = ours.as_ref().err().map(|e| match e {
                xdp_vm::MapError::Failed { errno, .. } => errno.0,
                other => panic!("{other}"),
            });
            assert_eq!(
                errno,
                theirs.err().and_then(|e| e.raw_os_error()),
                "{at:?} {flags}"
            );
        }
        let mut packet = key(random.u32(0..34), address(&mut random));
        packet.resize(64, 0);
        found += u32::from(program.run(&packet).0.cast_signed() >= 0);
    }
    assert!(found > 50, "{found} of 600 found");
    let keys: Vec<_> = program.map().keys().collect();
    assert_eq!(keys.len(), program.map().len() as usize);
    for (n, later) in keys.iter().enumerate() {
        let len = |key: &[u8]| u32::from_le_bytes(key[..4].try_into().unwrap());
        let inside = |inner: &[u8], outer: &[u8]| {
            let bits = |key: &[u8]| u32::from_be_bytes(key[4..8].try_into().unwrap());
            let shift = 32 - len(outer);
            len(inner) >= len(outer)
                && u64::from(bits(inner)) >> shift == u64::from(bits(outer)) >> shift
        };
        let general_first = keys[..n].iter().any(|earlier| inside(later, earlier));
        assert!(!general_first, "{later:?} comes after what it is in");
    }
}

fn tail_calls_end_after_thirty_three() {
    // Counts its runs, then goes to itself; returns the count where it may not.
    let text = "r6 = r1
                *(u32 *)(r10 - 4) = 0
                r1 = map 1
                r2 = r10
                r2 += -4
                call 1
                if r0 == 0 goto out
                r7 = r0
                r1 = *(u64 *)(r7 + 0)
                r1 += 1
                *(u64 *)(r7 + 0) = r1
                r1 = r6
                r2 = map 0
                r3 = 2
                call 12
                r0 = *(u64 *)(r7 + 0)
                out:
                exit";
    let programs = map(MapKind::ProgArray, 4, 4, 4);
    let mut program = Both::new(text, &[programs, map(MapKind::Array, 4, 8, 1)]);
    assert_eq!(program.run(&[0; 64]).0, 1, "there is no program");
    program.maps.set_program("m", 2, &program.program).unwrap();
    if let Some(kernel) = &program.kernel {
        kernel.update_program(0, 2).unwrap();
    }
    assert_eq!(program.run(&[0; 64]).0, 1 + 34);
    assert_eq!(program.run(&[0; 64]).0, 1 + 68, "each run has its own");
    assert_eq!(program.map().keys().collect::<Vec<_>>(), [[2, 0, 0, 0]]);
    program.map().delete(&[2, 0, 0, 0]).unwrap();
    assert!(program.map().is_empty());
    assert!(program.maps.set_program("m", 4, &program.program).is_err());
}

fn inner_maps_are_found_and_replaced() {
    let text = "*(u32 *)(r10 - 4) = 1
                r2 = r10
                r2 += -4
                r1 = map 0
                call 1
                if r0 == 0 goto none
                r1 = r0
                r2 = r10
                r2 += -4
                call 1
                if r0 == 0 goto out
                r1 = *(u64 *)(r0 + 0)
                r1 += 1
                *(u64 *)(r0 + 0) = r1
                r0 = r1
                exit
                none:
                r0 = -1
                out:
                exit";
    for kind in [MapKind::ArrayOfMaps, MapKind::HashOfMaps] {
        let inner = map(MapKind::Array, 4, 8, 4);
        let outer = MapSpec {
            inner: Some(Box::new(inner.clone())),
            ..map(kind, 4, 4, 2)
        };
        let mut program = Both::new(text, &[outer]);
        assert_eq!(program.run(&[0; 64]).0.cast_signed(), -1);
        for value in [10u64, 20] {
            let maps = Maps::create(std::slice::from_ref(&inner), 1).unwrap();
            let new = maps.shared("m").unwrap();
            new.update(&[1, 0, 0, 0], &value.to_le_bytes(), Update::Any)
                .unwrap();
            program
                .map()
                .set_inner(&[1, 0, 0, 0], &new, Update::Any)
                .unwrap();
            if let Some(kernel) = &program.kernel {
                kernel
                    .update_inner(0, 1, &inner, &[1, 0, 0, 0], &value.to_le_bytes())
                    .unwrap();
            }
            assert_eq!(u64::from(program.run(&[0; 64]).0), value + 1);
            assert_eq!(u64::from(program.run(&[0; 64]).0), value + 2);
            let found = program.map().inner(&[1, 0, 0, 0]).unwrap().unwrap();
            assert_eq!(
                found.lookup(&[1, 0, 0, 0]).unwrap(),
                Some((value + 2).to_le_bytes().to_vec())
            );
        }
        for other in [
            map(MapKind::Hash, 4, 8, 4),
            map(MapKind::Array, 4, 16, 4),
            map(MapKind::Array, 4, 8, 5),
        ] {
            let other = Maps::create(&[other], 1).unwrap().shared("m").unwrap();
            let refused = program.map().set_inner(&[0; 4], &other, Update::Any);
            assert!(matches!(refused, Err(xdp_vm::MapError::Inner { .. })));
        }
        program.map().delete(&[1, 0, 0, 0]).unwrap();
        assert!(program.map().is_empty());
        assert!(program.map().delete(&[1, 0, 0, 0]).is_err());
    }
}

fn perf_events_reach_their_reader() {
    let text = |flags: u64| {
        format!(
            "*(u64 *)(r10 - 8) = 77
             r2 = map 0
             r3 = {flags} ll
             r4 = r10
             r4 += -8
             r5 = 8
             call 25
             exit"
        )
    };
    let events = [map(MapKind::PerfEventArray, 4, 4, 2)];
    let run = |flags| {
        Both::new(&text(flags), &events)
            .run(&[0; 64])
            .0
            .cast_signed()
    };
    assert_eq!(run(0xffff_ffff), -2, "no reader");
    assert_eq!(run(2), -7, "no such entry");
    assert_eq!(run(65 << 32), -14, "more than the packet has");
    assert_eq!(run(1 << 52), -22, "an unknown flag");

    let mut program = Both::new(&text(3 << 32 | 0xffff_ffff), &events);
    program.kernel = None;
    program.map().open_events(0, 64).unwrap();
    assert!(program.map().open_events(0, 64).is_err());
    assert!(program.map().open_events(2, 64).is_err());
    let packet: Vec<u8> = (1..65).collect();
    for _ in 0..2 {
        assert_eq!(program.run(&packet).0, 0);
    }
    assert_eq!(program.run(&packet).0.cast_signed(), -28, "no room");
    let mut records = vec![];
    let lost = program
        .map()
        .drain(0, |r| records.push(r.to_vec()))
        .unwrap();
    assert_eq!(lost, 1);
    assert_eq!(records, vec![vec![77, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]; 2]);
    let mut other = Both::new(&text(1), &events);
    other.kernel = None;
    assert!(
        other.map().open_events(1, 64).is_err(),
        "there is no worker 1"
    );
    assert_eq!(other.run(&packet).0.cast_signed(), -2);
    let mut other = Both::for_cpus(&text(1), &events, 2);
    other.kernel = None;
    other.map().open_events(1, 64).unwrap();
    assert_eq!(other.run(&packet).0.cast_signed(), -95, "another CPU's");
}

fn a_ring_buffer_fills_and_tells() {
    let output = |size: u32, flags: u32| {
        format!(
            "*(u64 *)(r10 - 8) = 77
             *(u64 *)(r10 - 16) = 78
             r1 = map 0
             r2 = r10
             r2 += -16
             r3 = {size}
             r4 = {flags}
             call 130
             if r0 != 0 goto out
             r1 = map 0
             r2 = 0
             call 134
             out:
             exit"
        )
    };
    let ring = [map(MapKind::Ringbuf, 0, 0, 4096)];
    let run = |text: &str| Both::new(text, &ring).run(&[0; 64]).0.cast_signed();
    assert_eq!(run(&output(16, 0)), 24);
    assert_eq!(run(&output(0, 3)), 8);
    assert_eq!(run(&output(16, 4)), -22);
    let mut program = Both::new(&output(16, 0), &ring);
    let answers: Vec<i32> = (0..175)
        .map(|_| program.run(&[0; 64]).0.cast_signed())
        .collect();
    assert_eq!(answers[169], 170 * 24);
    assert_eq!(answers[170..], [-11; 5], "full");
    let mut count = 0;
    let lost = program.map().drain(0, |record| {
        assert_eq!(
            record,
            [[78, 0, 0, 0, 0, 0, 0, 0], [77, 0, 0, 0, 0, 0, 0, 0]].concat()
        );
        count += 1;
    });
    assert_eq!((count, lost.unwrap()), (170, 5));
}

/// A record of 100 bytes a run, discarded where the packet says so; r0 is what has been produced, or -1
/// where there was no room.
fn records_are_reserved_until_the_ring_is_full() {
    let ring = [map(MapKind::Ringbuf, 0, 0, 4096)];
    let reserve = |size: &str, flags: u32| {
        format!(
            "r6 = *(u32 *)(r1 + 0)
             r7 = *(u32 *)(r1 + 4)
             r8 = 0
             r1 = r6
             r1 += 1
             if r1 > r7 goto reserve
             r8 = *(u8 *)(r6 + 0)
             reserve:
             r1 = map 0
             r2 = {size}
             r3 = {flags}
             call 131
             if r0 != 0 goto there
             r0 = -1
             exit
             there:
             *(u64 *)(r0 + 0) = r8
             *(u32 *)(r0 + 96) = r8
             r1 = r0
             r2 = r8
             if r8 == 1 goto discard
             call 132
             goto query
             discard:
             call 133
             query:
             r1 = map 0
             r2 = 3
             call 134
             exit"
        )
    };
    let mut program = Both::new(&reserve("100", 0), &ring);
    // With its header, up to a multiple of 8.
    let whole = 112;
    for n in 0..40 {
        let mut packet = [0; 64];
        packet[0] = (n % 4) as u8;
        let expected = if n < 36 { (n + 1) * whole } else { -1 };
        assert_eq!(program.run(&packet).0.cast_signed(), expected, "record {n}");
    }
    let mut seen = vec![];
    let lost = program.map().drain(0, |record| {
        assert_eq!((record.len(), record[0]), (100, record[96]));
        seen.push(record[0]);
    });
    assert_eq!((seen, lost.unwrap()), ([0, 2, 3].repeat(9), 4));
    let mut with_flags = Both::new(&reserve("100", 1), &ring);
    assert_eq!(
        with_flags.run(&[0; 64]).0.cast_signed(),
        -1,
        "no flags are known"
    );
    let mut too_long = Both::new(&reserve("4096", 0), &ring);
    assert_eq!(too_long.run(&[0; 64]).0.cast_signed(), -1);
    let mut absurd = Both::new(&reserve("1073741824", 0), &ring);
    assert_eq!(absurd.run(&[0; 64]).0.cast_signed(), -1);
}

/// A host with one interface, number 9, and one route.
#[derive(Debug)]
struct OnePort;

impl Network for OnePort {
    fn fib_lookup(&self, query: &mut FibQuery, flags: u32) -> Result<FibResult, Errno> {
        assert_eq!(flags, 2);
        if query.ifindex != 9 {
            return Err(Errno::ENODEV);
        }
        query.dmac = [2, 0, 0, 0, 0, query.dst[3]];
        query.tot_len = 1500;
        Ok(FibResult::Success)
    }

    fn mtu(&self, ifindex: u32) -> Option<u32> {
        (ifindex == 9).then_some(1500)
    }
}

fn the_network_answers_for_its_interfaces() {
    let mtu = |ifindex: u32, asked: u32, difference: i32, flags: u32| {
        format!(
            "*(u32 *)(r10 - 4) = {asked}
             r2 = {ifindex}
             r3 = r10
             r3 += -4
             r4 = {difference}
             r5 = {flags}
             call 163
             r1 = *(u32 *)(r10 - 4)
             r1 <<= 8
             r0 += r1
             exit"
        )
    };
    let without = |text: &str| Both::new(text, &[]).run(&[0; 64]).0.cast_signed();
    assert_eq!(without(&mtu(0x7fff_0000, 0, 0, 0)), -19);
    assert_eq!(without(&mtu(0x7fff_0000, 0, 0, 1)), -22);
    let with = |text: &str| {
        let mut program = Both::new(text, &[]);
        program.kernel = None;
        program.cpu.set_network(Arc::new(OnePort));
        program.run(&[0; 64]).0.cast_signed()
    };
    let (fits, not) = (1500 << 8, 1500 << 8 | 1);
    assert_eq!(with(&mtu(8, 0, 0, 0)), -19);
    assert_eq!(with(&mtu(9, 0, 1450, 0)), fits, "64 and 1450 are 1514");
    assert_eq!(with(&mtu(9, 0, 1451, 0)), not);
    assert_eq!(with(&mtu(9, 1500, 0, 0)), fits);
    assert_eq!(with(&mtu(9, 1501, 0, 0)), not);
    assert_eq!(with(&mtu(9, 1501, -1, 0)), fits);

    let route = |family: u32, ifindex: u32, size: u32, flags: u32| {
        let mut text = String::new();
        for at in 1..=8 {
            text += &format!("*(u64 *)(r10 - {}) = 0\n", 8 * at);
        }
        text += &format!(
            "*(u8 *)(r10 - 64) = {family}
             *(u32 *)(r10 - 56) = {ifindex}
             *(u8 *)(r10 - 29) = 77
             r2 = r10
             r2 += -64
             r3 = {size}
             r4 = {flags}
             call 69
             if r0 != 0 goto out
             r0 = *(u8 *)(r10 - 1)
             out:
             exit"
        );
        text
    };
    assert_eq!(without(&route(2, 0x7fff_0000, 64, 0)), -19);
    assert_eq!(without(&route(2, 0x7fff_0000, 63, 0)), -22);
    assert_eq!(without(&route(2, 0x7fff_0000, 64, 0x1000)), -22);
    assert_eq!(without(&route(3, 0x7fff_0000, 64, 0)), -97);
    assert_eq!(with(&route(2, 9, 64, 2)), 77);
    assert_eq!(with(&route(10, 8, 64, 2)), -19);
}

/// Entries that are looked up stay; others make room.
fn an_lru_hash_forgets_what_nobody_asks_for() {
    for kind in [MapKind::LruHash, MapKind::LruPercpuHash] {
        let maps = Maps::create(&[map(kind, 4, 8, 64)], 1).unwrap();
        let lru = maps.at(0).unwrap();
        let text = "*(u32 *)(r10 - 4) = 0
                    r2 = r10
                    r2 += -4
                    r1 = map 0
                    call 1
                    if r0 != 0 goto there
                    r0 = 0
                    exit
                    there:
                    r0 = 1
                    exit";
        let program = asm::program(text);
        let (verified, _) = verify(&program, &[lru.spec().clone()], &Config::default()).unwrap();
        let asks_for_zero = executable(&verified, &maps);
        let mut cpu = Cpu::new(0);
        for n in 0..10_000u32 {
            lru.update(&n.to_le_bytes(), &[1; 8], Update::Any).unwrap();
            let mut buffer = [0; 512];
            let mut buff = XdpBuff::new(&mut buffer, 64, 64).unwrap();
            assert_eq!(asks_for_zero.run(&mut cpu, &mut buff), 1, "{n}");
            assert_eq!(lru.len(), (n + 1).min(64));
        }
        assert_eq!(lru.keys().count(), 64);
        lru.delete(&[0; 4]).unwrap();
        assert_eq!(lru.len(), 63);
    }
}
