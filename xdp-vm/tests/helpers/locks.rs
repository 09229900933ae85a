//! Spin locks: what they guard, and that nothing is lost between workers.

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Cpu, Errno, MapKind, MapSpec, Maps, Update, XdpBuff};

use crate::{Both, ENGINE, asm, executable, map};

/// Adds 1 to two numbers of entry 1 of map 0 under its lock at byte 4, and gives the first.
const COUNT_UNDER_LOCK: &str = "
    *(u32 *)(r10 - 4) = 1
    r1 = map 0
    r2 = r10
    r2 += -4
    call 1
    r6 = r0
    r0 = -1
    if r6 == 0 goto out
    r1 = r6
    r1 += 4
    call 93
    r7 = *(u64 *)(r6 + 8)
    r7 += 1
    *(u64 *)(r6 + 8) = r7
    r2 = *(u64 *)(r6 + 16)
    r2 += 1
    *(u64 *)(r6 + 16) = r2
    r1 = r6
    r1 += 4
    call 94
    r0 = r7
    out:
    exit";

fn locked(kind: MapKind) -> MapSpec {
    MapSpec {
        spin_lock: Some(4),
        ..map(kind, 4, 24, 4)
    }
}

/// What is copied from and to a value leaves its lock out, here and in the kernel.
pub(crate) fn a_lock_guards_a_value() {
    for kind in [MapKind::Array, MapKind::Hash] {
        let mut program = Both::new(COUNT_UNDER_LOCK, &[locked(kind)]);
        let key = 1u32.to_le_bytes();
        // All ones where the lock is: copied there, it would never be free.
        let value = |n: u64| {
            [
                vec![7, 0, 0, 0],
                vec![0xff; 4],
                [n; 2].map(u64::to_le_bytes).concat(),
            ]
            .concat()
        };
        program.set(&key, &value(40));
        assert_eq!(program.run(&[0; 64]).0, 41);
        program
            .map()
            .update_locked(&key, &value(50), Update::Exist)
            .unwrap();
        if let Some(kernel) = &program.kernel {
            kernel.update_flags(0, &key, &value(50), 4 | 2).unwrap();
        }
        assert_eq!(program.run(&[0; 64]).0, 51);
        let mut expected = value(51);
        expected[4..8].fill(0);
        assert_eq!(
            program.map().lookup(&key).unwrap().as_ref(),
            Some(&expected)
        );
        assert_eq!(
            program.map().lookup_locked(&key).unwrap().as_ref(),
            Some(&expected)
        );
        if let Some(kernel) = &program.kernel {
            assert_eq!(kernel.lookup(0, &key, 24).unwrap(), Some(expected));
        }
        let there = program
            .map()
            .update_locked(&key, &value(1), Update::NoExist);
        assert!(matches!(
            there,
            Err(xdp_vm::MapError::Failed {
                errno: Errno::EEXIST,
                ..
            })
        ));
    }
    let plain = Maps::create(&[map(MapKind::Array, 4, 24, 4)], 1).unwrap();
    let plain = plain.at(0).unwrap();
    assert!(plain.lookup_locked(&[0; 4]).is_err());
    assert!(plain.update_locked(&[0; 4], &[0; 24], Update::Any).is_err());
    for kind in [MapKind::LruHash, MapKind::PercpuArray, MapKind::Queue] {
        assert!(Maps::create(&[locked(kind)], 1).is_err(), "{kind:?}");
    }
    for at in [2, 21, 24, u32::MAX - 3] {
        let spec = MapSpec {
            spin_lock: Some(at),
            ..locked(MapKind::Array)
        };
        assert!(Maps::create(&[spec], 1).is_err(), "a lock at {at}");
    }
}

/// Nothing is lost between workers, and who looks under the lock sees both numbers alike.
pub(crate) fn workers_count_under_a_lock() {
    const RUNS: u64 = 20_000;
    let specs = [locked(MapKind::Array)];
    let program = asm::program(COUNT_UNDER_LOCK);
    let (verified, _) = verify(&program, &specs, &Config::default()).unwrap();
    let maps = Maps::create(&specs, 3).unwrap();
    let map = maps.at(0).unwrap();
    let engine = ENGINE.get();
    let number =
        |value: &[u8], at: usize| u64::from_le_bytes(value[at..at + 8].try_into().unwrap());
    std::thread::scope(|s| {
        let workers: Vec<_> = (0..3)
            .map(|slot| {
                let (maps, verified) = (&maps, &verified);
                s.spawn(move || {
                    ENGINE.set(engine);
                    let program = executable(verified, maps);
                    let mut cpu = Cpu::new(slot);
                    let mut buffer = vec![0; 4096];
                    for _ in 0..RUNS {
                        let mut buff = XdpBuff::new(&mut buffer, 256, 64).unwrap();
                        program.run(&mut cpu, &mut buff);
                    }
                })
            })
            .collect();
        while workers.iter().any(|w| !w.is_finished()) {
            let value = map.lookup_locked(&1u32.to_le_bytes()).unwrap().unwrap();
            assert_eq!(number(&value, 8), number(&value, 16));
        }
    });
    let value = map.lookup(&1u32.to_le_bytes()).unwrap().unwrap();
    assert_eq!([number(&value, 8), number(&value, 16)], [3 * RUNS; 2]);
}
