//! A million dropped packets: no allocation, and nothing asked of the pool.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use datapath::{BatchSize, Discard, Verdict, Worker};
use driver_core::{DmaDomain, FramePool, Geometry, IovaRanges, PoolTraffic, Port, PortConfig};
use driver_ixgbe::IxgbePort;
use emulated_nic::wires::{Sink, Source, SourceConfig};
use emulated_nic::{Nic, Variant, Wire};
use ixdp::LoadedProgram;
use ixdp::xdp_vm::Object;

/// Counts what is taken from the heap while `COUNTING`.
struct Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static TAKEN: AtomicU64 = AtomicU64::new(0);

fn count() {
    if COUNTING.load(Ordering::Relaxed) {
        TAKEN.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: everything is the system allocator's; counting touches no memory of the heap.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on as it came.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on as it came.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: passed on as it came.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PACKETS: u64 = 1_000_000;

#[test]
fn a_million_drops_take_nothing_from_the_heap_and_nothing_from_the_pool() {
    let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
    let wire = Wire::new(Source::new(SourceConfig::default()), Sink::new());
    let mut nic = Nic::builder(Variant::I82599)
        .wire(wire)
        .build(domain.clone());
    let mut port = IxgbePort::open(nic.device()).unwrap();
    port.wait_link(Duration::from_secs(10)).unwrap();
    let mut pools = [FramePool::new(&domain, Geometry::KERNEL, 1024).unwrap()];
    let pair = port
        .start(&PortConfig::default(), &mut pools)
        .unwrap()
        .remove(0);
    let [pool] = pools;

    // It counts each packet in a map.
    let object = include_bytes!("../../ixdp/programs/drop.bpf.o");
    let program = LoadedProgram::load(&Object::parse(object).unwrap(), None, 1).unwrap();
    let size = BatchSize {
        packets: 32,
        frames_per_packet: 1,
    };
    let mut worker = Worker::new(pair, program.on_queue(0), Discard, pool, size);

    let before = worker.pool().traffic();
    let counters = worker.counters().clone();
    while counters.snapshot().received < PACKETS {
        nic.step();
        COUNTING.store(true, Ordering::Relaxed);
        while worker.poll() > 0 {}
        COUNTING.store(false, Ordering::Relaxed);
    }
    let tally = counters.snapshot();
    assert_eq!(TAKEN.load(Ordering::Relaxed), 0, "allocations in {tally:?}");
    let after = worker.pool().traffic();
    assert_eq!(after, before, "frames through the pool in {tally:?}");
    assert_ne!(after, PoolTraffic::default(), "the pool counts");
    assert_eq!(tally.verdict(Verdict::Drop), tally.received);
    tally.check().unwrap();

    // The counter counts.
    COUNTING.store(true, Ordering::Relaxed);
    drop(std::hint::black_box(Box::new(tally)));
    COUNTING.store(false, Ordering::Relaxed);
    assert_eq!(TAKEN.load(Ordering::Relaxed), 1);
}
