//! Files that are not what they should be: an error that says so, never a panic, a hang, or memory
//! out of proportion.
#![allow(unsafe_code)] // the counting allocator

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{LoadError, MapKind, MapSpec, Maps, Object};

/// Counts what this thread holds, and the most it held.
struct Counting;

thread_local! {
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(change: isize) {
    let _ = HELD.try_with(|held| {
        let (now, peak) = held.get();
        held.set((now + change, peak.max(now + change)));
    });
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SAMPLES: [&str; 10] = [
    "drop",
    "pass",
    "proto_count",
    "tx_swap",
    "firewall",
    "vlan_pop",
    "trim",
    "sampler",
    "legacy",
    "mixed",
];

/// Parses, and checks that no more memory was held at a time than goes with the file's length.
fn parse(bytes: &[u8]) -> Result<Object, LoadError> {
    HELD.set((0, 0));
    let object = Object::parse(bytes);
    let peak = HELD.get().1 as usize;
    assert!(
        peak < 64 * bytes.len() + (64 << 10),
        "{peak} bytes for {}",
        bytes.len()
    );
    object
}

#[test]
fn strangers_files_are_named() {
    let good = common::bytes("drop");
    let error = |bytes: &[u8]| parse(bytes).unwrap_err();
    let patched = |at: usize, with: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        error(&bytes)
    };
    assert!(matches!(error(b""), LoadError::NotElf { .. }));
    assert!(matches!(error(b"#!/bin/sh\n"), LoadError::NotElf { .. }));
    assert!(matches!(error(&good[..5]), LoadError::NotElf { .. }));
    assert!(matches!(error(&good[..40]), LoadError::NotElf { .. }));
    // Class, byte order, type, machine.
    assert!(matches!(patched(4, &[1]), LoadError::NotElf { .. }));
    let mut big = good.clone();
    big[5] = 2;
    big[18..20].copy_from_slice(&[0, 247]);
    assert_eq!(error(&big), LoadError::BigEndian);
    big[18..20].copy_from_slice(&[0, 43]);
    assert_eq!(error(&big), LoadError::NotBpf { machine: 43 });
    assert_eq!(patched(16, &[2]), LoadError::NotRelocatable { kind: 2 });
    assert_eq!(patched(18, &[62]), LoadError::NotBpf { machine: 62 });
    let e = patched(18, &[62]).to_string();
    assert!(
        e.contains("machine 62") && e.contains("clang -target bpf"),
        "{e}"
    );
    // The table of sections is at the end.
    let e = error(&good[..good.len() - 1]);
    assert!(matches!(e, LoadError::BrokenElf { .. }), "{e}");
    // No section left, or none that runs.
    assert!(patched(60, &[0, 0]) == LoadError::NoProgram);
    let table = u64::from_le_bytes(good[40..48].try_into().unwrap()) as usize;
    let flags_of_xdp = table + 3 * 64 + 8;
    assert_eq!(good[flags_of_xdp], 6, "the section is the fourth");
    assert_eq!(patched(flags_of_xdp, &[2]), LoadError::NoProgram);
    // A section that claims what another has.
    let size_of_text = table + 2 * 64 + 32;
    let e = patched(size_of_text, &(good.len() as u64 - 64).to_le_bytes());
    assert!(e.to_string().contains("overlaps"), "{e}");
}

#[test]
fn every_cut_of_a_file_is_an_error() {
    for name in SAMPLES {
        let good = common::bytes(name);
        for len in 0..good.len() {
            assert!(parse(&good[..len]).is_err(), "{name} cut at {len}");
        }
    }
}

#[test]
fn no_mutation_makes_it_panic() {
    const ROUNDS: usize = 6_000;
    let mut random = fastrand::Rng::with_seed(20_261_201);
    let (mut parsed, mut refused, mut rejected) = (0, 0, 0);
    for name in SAMPLES {
        let good = common::bytes(name);
        for _ in 0..ROUNDS {
            let mut bytes = good.clone();
            for _ in 0..random.usize(1..6) {
                mutate(&mut bytes, &mut random);
            }
            match parse(&bytes) {
                Ok(object) => {
                    parsed += 1;
                    rejected += object.rejected.len();
                    use_it(&object);
                }
                Err(e) => {
                    refused += 1;
                    assert!(!e.to_string().is_empty());
                }
            }
        }
    }
    // The mutations reach past the first checks, and are not all harmless.
    assert!(
        parsed > 10_000 && refused > 3_000 && rejected > 500,
        "{parsed} {refused} {rejected}"
    );
}

/// Maps as large as can be said, and sizes whose products overflow: a refusal that names the map,
/// and no memory taken for it.
#[test]
fn absurd_maps_of_every_kind_are_refused_before_memory_is_taken() {
    let kinds: Vec<MapKind> = (0..64).filter_map(MapKind::from_number).collect();
    assert!(kinds.len() >= 19, "{kinds:?}");
    let sizes = [0, 4, 8, 1 << 16, 1 << 31, u32::MAX];
    let entries = [0, 1, u32::MAX - 1, u32::MAX];
    let (mut made, mut refused) = (0, 0);
    for &kind in &kinds {
        for (key_size, value_size) in sizes.iter().flat_map(|k| sizes.map(|v| (*k, v))) {
            for max_entries in entries {
                for flags in [0, 1] {
                    let spec = MapSpec {
                        name: "absurd".into(),
                        kind,
                        key_size,
                        value_size,
                        max_entries,
                        flags,
                        ..MapSpec::default()
                    };
                    HELD.set((0, 0));
                    let outcome = Maps::create(&[spec], 4096).map(drop);
                    let peak = HELD.get().1;
                    match outcome {
                        Ok(()) => made += 1,
                        Err(e) => {
                            assert!(e.to_string().contains("absurd"), "{e}");
                            assert!(peak < 16 << 10, "{kind:?}: {peak} bytes, then {e}");
                            refused += 1;
                        }
                    }
                    // Entries without end fit nowhere but where an entry takes next to nothing.
                    // A bloom filter has 2^32 bits at most, as the kernel has it.
                    let most = match kind {
                        MapKind::BloomFilter => (512 << 20) + (16 << 10),
                        _ => 16 << 10,
                    };
                    if max_entries > 1 << 30 {
                        assert!(peak < most, "{kind:?} took {peak} bytes");
                    }
                }
            }
        }
    }
    assert!(
        made > 20 && refused > 3_000,
        "{made} made, {refused} refused"
    );
}

/// What is done with an object before it runs.
fn use_it(object: &Object) {
    let config = Config {
        budget: 2_000,
        ..Config::default()
    };
    for program in &object.programs {
        for insn in &program.insns {
            assert!(!insn.to_string().is_empty());
        }
        assert_eq!(program.functions[0].start, 0);
        if let Err(e) = verify(program, &object.maps, &config) {
            assert!(!e.to_string().is_empty());
        }
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    const ODD: [u64; 8] = [
        0,
        1,
        7,
        0x7fff_ffff,
        0x8000_0000,
        u32::MAX as u64,
        u64::MAX / 2,
        u64::MAX,
    ];
    let len = bytes.len();
    if len < 64 {
        return;
    }
    // Headers and tables matter more than their share of the bytes.
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let at = match random.u8(0..4) {
        0 => random.usize(0..64),
        1 if table < len - 8 => random.usize(table..len),
        _ => random.usize(0..len),
    };
    match random.u8(0..7) {
        0 => bytes[at] ^= 1 << random.u8(0..8),
        1 => bytes[at] = random.u8(..),
        2 | 3 => {
            let width = if random.bool() { 4 } else { 8 };
            let at = at / width * width;
            let value = match random.bool() {
                true => ODD[random.usize(0..ODD.len())],
                false => random.u64(0..2 * len as u64),
            };
            let end = (at + width).min(len);
            bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
        4 => {
            // One place's words at another.
            let size = random.usize(1..40).min(len - at);
            let from = random.usize(0..len - size);
            bytes.copy_within(from..from + size, at);
        }
        5 => {
            let other = random.usize(0..len);
            bytes.swap(at, other);
        }
        _ if random.u8(0..10) == 0 => bytes.truncate(at),
        _ => bytes[at] = bytes[at].wrapping_add(1),
    }
}
