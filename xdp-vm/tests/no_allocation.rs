//! While a program runs, nothing is allocated: not by the engine, nor by lookups, updates of maps,
//! printing, or moving the packet's ends.
#![allow(unsafe_code)] // the counting allocator

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Cpu, Engine, Executable, Maps, Options, XdpBuff};

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
