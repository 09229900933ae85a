//! Kinds of map, and what helpers make of them.

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Cpu, MapKind, MapSpec, Maps, Update, XdpBuff};

use crate::{Both, asm, executable, map};

/// A push, a push or a pop or a peek by the packet's first byte, and what is left then.
pub(crate) fn queues_and_stacks_give_values_in_order() {
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

pub(crate) fn a_bloom_filter_knows_what_it_saw() {
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

pub(crate) fn the_longest_prefix_wins() {
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

pub(crate) fn tail_calls_end_after_thirty_three() {
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

pub(crate) fn inner_maps_are_found_and_replaced() {
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

/// Entries that are looked up stay; others make room.
pub(crate) fn an_lru_hash_forgets_what_nobody_asks_for() {
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
