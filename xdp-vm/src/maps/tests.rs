//! The kernel's semantics, one behaviour a test, and what must hold under concurrent use.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

fn spec(kind: MapKind, key_size: u32, value_size: u32, max_entries: u32) -> MapSpec {
    MapSpec {
        name: "m".to_owned(),
        kind,
        key_size,
        value_size,
        max_entries,
        flags: 0,
        initial: None,
        frozen: false,
        variables: Vec::new(),
        ..MapSpec::default()
    }
}

fn one(spec: MapSpec) -> Maps {
    Maps::create(&[spec], 3).unwrap()
}

fn errno(result: Result<(), MapError>) -> i32 {
    match result.unwrap_err() {
        MapError::Failed { errno, .. } => errno.0,
        other => panic!("{other}"),
    }
}

fn key(n: u32) -> [u8; 4] {
    n.to_le_bytes()
}

#[test]
fn array_entries_are_always_there() {
    let maps = one(spec(MapKind::Array, 4, 5, 3));
    let m = maps.get("m").unwrap();
    assert_eq!(m.lookup(&key(2)).unwrap(), Some(vec![0; 5]));
    m.update(&key(2), b"abcde", Update::Any).unwrap();
    m.update(&key(1), b"fghij", Update::Exist).unwrap();
    assert_eq!(m.lookup(&key(2)).unwrap().unwrap(), b"abcde");
    assert_eq!(m.lookup(&key(1)).unwrap().unwrap(), b"fghij");
    assert_eq!(m.lookup(&key(0)).unwrap(), Some(vec![0; 5]));
    assert_eq!(m.lookup(&key(3)).unwrap(), None);
    assert_eq!(errno(m.update(&key(3), b"abcde", Update::Any)), 7);
    assert_eq!(errno(m.update(&key(2), b"abcde", Update::NoExist)), 17);
    assert_eq!(errno(m.delete(&key(0))), 22);
    assert_eq!(m.keys().collect::<Vec<_>>(), [key(0), key(1), key(2)]);
    assert_eq!(m.len(), 3);
}

#[test]
fn sizes_of_keys_and_values_are_checked() {
    let maps = one(spec(MapKind::Hash, 6, 2, 4));
    let m = maps.get("m").unwrap();
    assert!(matches!(
        m.lookup(&[0; 5]),
        Err(MapError::KeySize {
            given: 5,
            size: 6,
            ..
        })
    ));
    assert!(matches!(m.delete(&[0; 7]), Err(MapError::KeySize { .. })));
    assert!(matches!(
        m.update(&[0; 6], &[0; 3], Update::Any),
        Err(MapError::ValueSize {
            given: 3,
            size: 2,
            ..
        })
    ));
    assert!(matches!(
        m.lookup_percpu(&[0; 6]),
        Err(MapError::NotPercpu { .. })
    ));
}

#[test]
fn each_cpu_has_its_value() {
    for kind in [MapKind::PercpuArray, MapKind::PercpuHash] {
        let maps = one(spec(kind, 4, 12, 3));
        let m = maps.get("m").unwrap();
        let values: [&[u8]; 3] = [&[1; 12], &[2; 12], &[3; 12]];
        m.update_percpu(&key(1), &values, Update::Any).unwrap();
        assert_eq!(m.lookup_percpu(&key(1)).unwrap().unwrap(), values);
        for cpu in 0..3 {
            // SAFETY: the key has four bytes, the value 12, and there are three CPUs.
            unsafe {
                let at = m.lookup_raw(cpu, key(1).as_ptr());
                assert_eq!(at as usize % 8, 0);
                assert_eq!(crate::memory::load8(at), u64::from(cpu) + 1);
            }
        }
        m.update(&key(1), &[9; 12], Update::Exist).unwrap();
        assert_eq!(
            m.lookup_percpu(&key(1)).unwrap().unwrap(),
            vec![vec![9; 12]; 3]
        );
        assert!(matches!(m.lookup(&key(1)), Err(MapError::Percpu { .. })));
        assert!(matches!(
            m.update_percpu(&key(1), &values[..2], Update::Any),
            Err(MapError::Values {
                given: 2,
                cpus: 3,
                ..
            })
        ));
    }
}

#[test]
fn a_new_percpu_entry_of_a_program_is_zero_elsewhere() {
    let maps = one(spec(MapKind::PercpuHash, 4, 8, 1));
    let m = maps.get("m").unwrap();
    // The element that is recycled must not show what it held before.
    m.update(&key(5), &[0xff; 8], Update::Any).unwrap();
    m.delete(&key(5)).unwrap();
    for round in 0..20u8 {
        // SAFETY: the key has four bytes, the value eight.
        unsafe { m.update_raw(1, key(6).as_ptr(), [round; 8].as_ptr(), flags::NOEXIST) }.unwrap();
        let expected = vec![vec![0; 8], vec![round; 8], vec![0; 8]];
        assert_eq!(m.lookup_percpu(&key(6)).unwrap().unwrap(), expected);
        m.delete(&key(6)).unwrap();
    }
}

#[test]
fn hash_updates_obey_their_flags() {
    let maps = one(spec(MapKind::Hash, 4, 8, 2));
    let m = maps.get("m").unwrap();
    assert_eq!(errno(m.update(&key(1), &[1; 8], Update::Exist)), 2);
    m.update(&key(1), &[1; 8], Update::NoExist).unwrap();
    assert_eq!(errno(m.update(&key(1), &[2; 8], Update::NoExist)), 17);
    m.update(&key(1), &[3; 8], Update::Exist).unwrap();
    m.update(&key(2), &[4; 8], Update::Any).unwrap();
    assert_eq!(errno(m.update(&key(3), &[5; 8], Update::Any)), 7);
    // Full, and an update of what is there still works, as often as one likes.
    for round in 0..100 {
        m.update(&key(1), &[round; 8], Update::Any).unwrap();
    }
    assert_eq!(m.lookup(&key(1)).unwrap().unwrap(), [99; 8]);
    assert_eq!(m.len(), 2);
    m.delete(&key(1)).unwrap();
    assert_eq!(errno(m.delete(&key(1))), 2);
    assert_eq!(m.lookup(&key(1)).unwrap(), None);
    m.update(&key(3), &[5; 8], Update::Any).unwrap();
    let mut keys: Vec<_> = m.keys().collect();
    keys.sort();
    assert_eq!(keys, [key(2), key(3)]);
    // SAFETY: the key has four bytes, the value eight.
    let odd = unsafe { m.update_raw(0, key(2).as_ptr(), [0; 8].as_ptr(), 3) };
    assert_eq!(odd, Err(Errno::EINVAL));
}

#[test]
fn keys_of_every_size_are_told_apart() {
    for size in [1u32, 3, 4, 5, 7, 8, 9, 16, 17, 63, 512] {
        let maps = one(spec(MapKind::Hash, size, 4, 600));
        let m = maps.get("m").unwrap();
        // Keys that differ in one byte, each byte in turn.
        let keys: Vec<Vec<u8>> = (0..size as usize)
            .map(|i| {
                let mut k = vec![0; size as usize];
                k[i] = 1;
                k
            })
            .collect();
        for (i, k) in keys.iter().enumerate() {
            m.update(k, &key(i as u32), Update::NoExist).unwrap();
        }
        for (i, k) in keys.iter().enumerate() {
            assert_eq!(m.lookup(k).unwrap().unwrap(), key(i as u32), "size {size}");
        }
        assert_eq!(m.lookup(&vec![0; size as usize]).unwrap(), None);
        let mut listed: Vec<_> = m.keys().collect();
        listed.sort();
        let mut expected = keys.clone();
        expected.sort();
        assert_eq!(listed, expected);
    }
}

#[test]
fn a_held_value_stays_readable_after_its_entry_went() {
    let maps = one(spec(MapKind::Hash, 4, 8, 4));
    let m = maps.get("m").unwrap();
    m.update(&key(1), &[7; 8], Update::Any).unwrap();
    // SAFETY: the key has four bytes; the value stays memory of the map.
    unsafe {
        let held = m.lookup_raw(0, key(1).as_ptr());
        m.update(&key(1), &[8; 8], Update::Any).unwrap();
        let now = m.lookup_raw(0, key(1).as_ptr());
        assert_ne!(held, now, "an update replaces the element");
        assert_eq!(crate::memory::load8(held), 7);
        m.delete(&key(1)).unwrap();
        assert_eq!(crate::memory::load8(now), 8);
        crate::memory::store8(held, 1);
    }
}

#[test]
fn absurd_declarations_are_refused_before_memory_is_taken() {
    let refused = |s: MapSpec| Maps::create(&[s], 4).unwrap_err().to_string();
    for kind in [
        MapKind::Array,
        MapKind::Hash,
        MapKind::PercpuArray,
        MapKind::PercpuHash,
    ] {
        let e = refused(spec(kind, 4, 4096, u32::MAX));
        assert!(e.contains("lower its max_entries"), "{e}");
        assert!(refused(spec(kind, 4, 8, 0)).contains("no entry"));
        assert!(refused(spec(kind, 4, 0, 1)).contains("a value of 0 bytes"));
        assert!(refused(spec(kind, 4, u32::MAX, 1)).contains("a value of 4294967295 bytes"));
        let mut odd = spec(kind, 4, 8, 1);
        odd.flags = 1 << 20;
        assert!(refused(odd).contains("flags 0x100000"));
    }
    assert!(refused(spec(MapKind::Array, 8, 8, 1)).contains("its kind has 4"));
    assert!(refused(spec(MapKind::Hash, 0, 8, 1)).contains("a key of 0 bytes"));
    assert!(refused(spec(MapKind::Hash, 513, 8, 1)).contains("a key of 513 bytes"));
    assert!(refused(spec(MapKind::PercpuArray, 4, 40_000, 1)).contains("40000 bytes"));
    // Together too much, each alone small enough.
    let half = spec(MapKind::Array, 4, 1 << 20, 3 << 10);
    let e = Maps::create(&[half.clone(), half], 1).unwrap_err();
    assert!(matches!(e, MapError::TooLarge { .. }), "{e}");
    assert!(matches!(
        Maps::create(&[], 0),
        Err(MapError::Cpus { cpus: 0 })
    ));
}

#[test]
fn flags_that_keep_user_space_out_are_told_and_kept() {
    for (flags, frozen, reads, writes) in [
        (0, false, true, true),
        (layout::RDONLY, false, true, false),
        (layout::WRONLY, false, false, true),
        (0, true, true, false),
    ] {
        let mut spec = spec(MapKind::Array, 4, 4, 1);
        (spec.flags, spec.frozen) = (flags, frozen);
        let maps = one(spec);
        let m = maps.get("m").unwrap();
        assert_eq!(m.is_open(), reads && writes);
        assert_eq!(m.lookup(&key(0)).is_ok(), reads);
        assert_eq!(m.update(&key(0), &key(1), Update::Any).is_ok(), writes);
    }
}

#[test]
fn frozen_maps_keep_what_they_were_loaded_with() {
    let mut rodata = spec(MapKind::Array, 4, 8, 1);
    rodata.initial = Some(vec![1, 2, 3]);
    rodata.frozen = true;
    let maps = one(rodata);
    let m = maps.get("m").unwrap();
    assert_eq!(
        m.lookup(&key(0)).unwrap().unwrap(),
        [1, 2, 3, 0, 0, 0, 0, 0]
    );
    let e = m.update(&key(0), &[0; 8], Update::Any).unwrap_err();
    assert!(matches!(e, MapError::Frozen { .. }));
}

/// Few keys, many threads, every element recycled over and over: one who looks a key up finds a
/// whole value of that key, and keys that nobody touches are always found.
#[test]
fn lookups_hold_while_elements_are_recycled() {
    // Long chains, in which one who looks up spends time, and short ones, between which elements go.
    for buckets in [1, 4, 64] {
        recycle(buckets);
    }
}

fn recycle(buckets: u64) {
    const PASSES: u32 = 20_000;
    const STABLE: u32 = 8;
    let spec = spec(MapKind::Hash, 4, 16, 64);
    let mut layout = layout::layouts(std::slice::from_ref(&spec), 4).unwrap()[0];
    layout.buckets = buckets;
    let m = &Map {
        index: 0,
        storage: Storage::Hash(Hash::new(&spec, &layout, 4).unwrap()),
        spec,
        cpus: 4,
    };
    let value = |key: u32, n: u32| {
        let mut v = [0; 16];
        for (i, word) in [key, n, key ^ n, !key].into_iter().enumerate() {
            v[4 * i..][..4].copy_from_slice(&word.to_le_bytes());
        }
        v
    };
    for k in 0..STABLE {
        m.update(&key(k), &value(k, 0), Update::Any).unwrap();
    }
    let (done, start) = (AtomicBool::new(false), Barrier::new(3));
    std::thread::scope(|scope| {
        let (done, start) = (&done, &start);
        for t in 0..2u32 {
            scope.spawn(move || {
                start.wait();
                for n in 0.. {
                    let k = 100 + (u32::wrapping_mul(n, 7) + t) % 16;
                    let _ = m.update(&key(k), &value(k, n), Update::Any);
                    // Stable keys are overwritten, and never absent.
                    let k = n % STABLE;
                    m.update(&key(k), &value(k, n), Update::Exist).unwrap();
                    let _ = m.delete(&key(100 + n.wrapping_add(t) % 16));
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        // Set also when a check fails, so that the others end.
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _done = Done(done);
        start.wait();
        for _ in 0..PASSES {
            for k in (0..STABLE).chain(100..116) {
                match m.lookup(&key(k)).unwrap() {
                    Some(v) => {
                        let word =
                            |i: usize| u32::from_le_bytes(v[4 * i..][..4].try_into().unwrap());
                        assert_eq!(word(0), k);
                        assert_eq!(word(2), k ^ word(1), "a torn value of key {k}");
                    }
                    None => assert!(k >= STABLE, "key {k} was there all the time"),
                }
            }
        }
    });
    assert!((0..STABLE).any(|k| m.lookup(&key(k)).unwrap().unwrap() != value(k, 0)));
    for k in 100..116 {
        let _ = m.delete(&key(k));
    }
    assert_eq!(m.len(), STABLE);
    assert_eq!(m.keys().count() as u32, STABLE);
    // No element was lost: the map can be filled to its last entry.
    for k in 1000..1000 + 64 - STABLE {
        m.update(&key(k), &[0; 16], Update::NoExist).unwrap();
    }
    assert_eq!(errno(m.update(&key(1), &[0; 16], Update::NoExist)), 17);
    assert_eq!(errno(m.update(&key(9999), &[0; 16], Update::NoExist)), 7);
}

/// Workers that insert, look up and delete at once: a full LRU hash takes every entry, holds no more
/// than it has room for, and gives nobody another key's value.
#[test]
fn an_lru_hash_holds_its_size_under_concurrent_use() {
    for kind in [MapKind::LruHash, MapKind::LruPercpuHash] {
        let maps = one(spec(kind, 4, 8, 64));
        let m = &maps.get("m").unwrap();
        std::thread::scope(|scope| {
            for cpu in 0..3u32 {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(u64::from(cpu));
                    for _ in 0..30_000 {
                        let n = random.u32(0..200);
                        let (key, value) = (key(n), u64::from(n).to_le_bytes());
                        // SAFETY: key and value have the map's sizes, and there is such a CPU.
                        unsafe {
                            match random.u8(0..8) {
                                0 => _ = m.delete_raw(key.as_ptr()),
                                1..4 => m.update_raw(cpu, key.as_ptr(), value.as_ptr(), 0).unwrap(),
                                _ => _ = m.lookup_raw(cpu, key.as_ptr()),
                            }
                        }
                        assert!(m.len() <= 64);
                    }
                });
            }
        });
        let keys: Vec<_> = m.keys().collect();
        assert_eq!(keys.len(), m.len() as usize);
        for key in keys {
            let n = u64::from(u32::from_le_bytes(key[..].try_into().unwrap()));
            let values = match kind.is_percpu() {
                true => m.lookup_percpu(&key).unwrap().unwrap(),
                false => vec![m.lookup(&key).unwrap().unwrap()],
            };
            for value in values {
                let value = u64::from_le_bytes(value.try_into().unwrap());
                assert!(
                    value == n || (kind.is_percpu() && value == 0),
                    "{n} holds {value}"
                );
            }
        }
    }
}

#[test]
fn declarations_of_other_kinds_are_checked() {
    let refused = |spec: MapSpec| Maps::create(&[spec], 1).unwrap_err().to_string();
    let trie = spec(MapKind::LpmTrie, 8, 4, 4);
    assert!(refused(trie.clone()).contains("BPF_F_NO_PREALLOC"));
    let wide = MapSpec {
        key_size: 261,
        flags: 1,
        ..trie
    };
    assert!(refused(wide).contains("a key of 261 bytes, not 5 to 260"));
    assert!(refused(spec(MapKind::Queue, 4, 8, 4)).contains("its kind has 0"));
    assert!(refused(spec(MapKind::Ringbuf, 0, 0, 5000)).contains("not a power of two"));
    assert!(refused(spec(MapKind::Devmap, 4, 6, 4)).contains("not 4 or 8"));
    assert!(refused(spec(MapKind::ArrayOfMaps, 4, 4, 4)).contains("does not say"));
    let nested = MapSpec {
        inner: Some(Box::new(spec(MapKind::ProgArray, 4, 4, 4))),
        ..spec(MapKind::ArrayOfMaps, 4, 4, 4)
    };
    assert!(refused(nested).contains("prog_array cannot be in it"));
    let overfull = MapSpec {
        slots: vec![(4, Slot::Program("p".into()))],
        ..spec(MapKind::ProgArray, 4, 4, 4)
    };
    assert!(refused(overfull).contains("more into it than it has room for"));
    for kind in MapKind::ALL {
        let huge = MapSpec {
            flags: u32::from(kind == MapKind::LpmTrie),
            inner: kind
                .is_of_maps()
                .then(|| Box::new(spec(MapKind::Array, 4, 4, 1))),
            ..spec(kind, 4, 4, 1 << 31)
        };
        let sizes = match kind {
            MapKind::LpmTrie => (8, 4),
            MapKind::Queue | MapKind::Stack | MapKind::BloomFilter => (0, 64 << 10),
            MapKind::Ringbuf => (0, 0),
            _ => (4, 4),
        };
        let huge = MapSpec {
            key_size: sizes.0,
            value_size: sizes.1,
            ..huge
        };
        match Maps::create(&[huge], 64) {
            Err(MapError::TooLarge { .. }) => {}
            // At most 2^31 bytes, or bits: what is never touched is never taken.
            Ok(_) if matches!(kind, MapKind::Ringbuf | MapKind::BloomFilter) => {}
            other => panic!("{kind:?}: {other:?}"),
        }
    }
    for kind in MapKind::ALL {
        assert_eq!(MapKind::from_number(kind as u32), Some(kind));
    }
    assert_eq!(MapKind::from_number(15), None);
}

#[test]
fn values_of_targets_mean_what_the_kernel_takes_them_for() {
    let maps = one(spec(MapKind::Cpumap, 4, 4, 4));
    let m = maps.get("m").unwrap();
    let size = |n: u32| n.to_le_bytes();
    m.update(&key(1), &size(16384), Update::Any).unwrap();
    assert_eq!(errno(m.update(&key(1), &size(16385), Update::Any)), 75);
    assert_eq!(errno(m.update(&key(2), &size(1), Update::NoExist)), 17);
    assert_eq!(errno(m.update(&key(4), &size(1), Update::Any)), 7);
    assert_eq!(m.lookup(&key(1)).unwrap(), Some(size(16384).to_vec()));
    m.update(&key(1), &size(0), Update::Any).unwrap();
    assert_eq!((m.lookup(&key(1)).unwrap(), m.len()), (None, 0));
    assert_eq!(errno(m.delete(&key(4))), 22);

    let maps = one(spec(MapKind::Xskmap, 4, 4, 4));
    let m = maps.get("m").unwrap();
    assert_eq!(errno(m.update(&key(0), &size(0), Update::Exist)), 2);
    m.update(&key(0), &size(0), Update::NoExist).unwrap();
    assert_eq!(errno(m.update(&key(0), &size(0), Update::NoExist)), 17);
    assert_eq!(m.lookup(&key(0)).unwrap(), Some(vec![0; 4]));

    let maps = one(spec(MapKind::DevmapHash, 4, 8, 2));
    let m = maps.get("m").unwrap();
    assert_eq!(errno(m.update(&key(7), &[0; 8], Update::Any)), 22);
    m.update(&key(7), &[3, 0, 0, 0, 9, 0, 0, 0], Update::Any)
        .unwrap();
    m.update(&key(8), &[1; 8], Update::Any).unwrap();
    assert_eq!(errno(m.update(&key(9), &[1; 8], Update::Any)), 7);
    assert_eq!(
        m.lookup(&key(7)).unwrap(),
        Some(vec![3, 0, 0, 0, 9, 0, 0, 0])
    );
    assert_eq!(m.len(), 2);
}
