//! While a program runs, nothing is allocated: not by the engine, nor by lookups, updates of maps,
//! printing, or moving the packet's ends.
#![allow(unsafe_code)] // the counting allocator

#[allow(dead_code)] // each test file uses its part
#[path = "verifier/asm.rs"]
mod asm;
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Cpu, Engine, Executable, MapKind, MapSpec, Maps, Options, XdpBuff};

/// Counts this thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn running_takes_no_memory() {
    let objects = [
        "drop",
        "proto_count",
        "firewall",
        "vlan_pop",
        "trim",
        "sampler",
        "legacy",
        "mixed",
    ];
    for name in objects {
        let object = common::load(name);
        let maps = Maps::create(&object.maps, 1).unwrap();
        for program in &object.programs {
            let (verified, _) = verify(program, &object.maps, &Config::default()).unwrap();
            for engine in [Engine::Interpreter, Engine::Auto] {
                let options = Options {
                    engine,
                    ..Options::default()
                };
                let executable = Executable::with_options(&verified, &maps, &options).unwrap();
                let (mut cpu, mut buffer) = (Cpu::new(0), vec![0x81; 4096]);
                let before = ALLOCATIONS.get();
                for len in 14..1000 {
                    let mut buff = XdpBuff::new(&mut buffer, 256, len).unwrap();
                    executable.run(&mut cpu, &mut buff);
                }
                let name = &program.name;
                assert_eq!(ALLOCATIONS.get(), before, "{name}, {engine:?}");
            }
        }
        // The count does count.
        let before = ALLOCATIONS.get();
        drop(std::hint::black_box(vec![0u8; 100]));
        assert!(ALLOCATIONS.get() > before);
    }
}

/// Nor by a trie, a queue, a full LRU hash, an event, a redirect, or a tail call.
#[test]
fn other_kinds_of_map_take_no_memory() {
    let map = |kind, key_size, value_size| MapSpec {
        name: "m".into(),
        kind,
        key_size,
        value_size,
        max_entries: 4,
        flags: u32::from(kind == MapKind::LpmTrie),
        ..MapSpec::default()
    };
    let specs = [
        map(MapKind::ProgArray, 4, 4),
        map(MapKind::LpmTrie, 8, 8),
        map(MapKind::LruHash, 8, 8),
        map(MapKind::Queue, 0, 8),
        map(MapKind::PerfEventArray, 4, 4),
        map(MapKind::Devmap, 4, 4),
    ];
    let at = |register: u32| format!("r{register} = r10\n r{register} += -8\n");
    let (second, third, fourth) = (at(2), at(3), at(4));
    // The key: a random address, all 32 bits of it.
    let text = format!(
        "r6 = r1
         call 7
         *(u32 *)(r10 - 4) = r0
         *(u32 *)(r10 - 8) = 32
         r1 = map 1\n {second} {third} r4 = 0\n call 2
         r1 = map 1\n {second} call 3
         r1 = map 2\n {second} {third} r4 = 0\n call 2
         r7 = r0
         r1 = map 3\n {second} r3 = 2\n call 87
         r1 = r6\n r2 = map 4\n r3 = 0\n {fourth} r5 = 8\n call 25
         r1 = map 5\n r2 = 0\n r3 = 8\n call 51
         r1 = r6\n r2 = map 0\n r3 = 0\n call 12
         r0 = r7
         exit"
    );
    let (verified, _) = verify(&asm::program(&text), &specs, &Config::default()).unwrap();
    let maps = Maps::create(&specs, 1).unwrap();
    let program = Executable::new(&verified, &maps).unwrap();
    maps.set_program("m", 0, &program).unwrap();
    maps.at(4).unwrap().open_events(0, 4096).unwrap();
    let (mut cpu, mut buffer) = (Cpu::new(0), vec![0; 4096]);
    let before = ALLOCATIONS.get();
    for _ in 0..1000 {
        let mut buff = XdpBuff::new(&mut buffer, 256, 64).unwrap();
        assert_eq!(program.run(&mut cpu, &mut buff), 0, "each update went in");
    }
    assert_eq!(ALLOCATIONS.get(), before);
    assert_eq!(maps.at(2).unwrap().len(), 4);
}
