//! A queue of each direction from power-on to traffic, stepped and on a thread.

mod common;

use std::time::{Duration, Instant};

use common::*;
use emulated_nic::wires::{Sink, Source, SourceConfig};
use emulated_nic::{Variant, Wire};

fn source(limit: Option<u64>) -> (Wire, emulated_nic::wires::SinkCounts) {
    let sink = Sink::new();
    let counts = sink.counts();
    let config = SourceConfig {
        limit,
        ..SourceConfig::default()
    };
    (Wire::new(Source::new(config), sink), counts)
}

#[test]
fn frames_arrive_and_leave_in_virtual_time() {
    for variant in [Variant::I82599, Variant::X540, Variant::X550] {
        let (wire, sent) = source(Some(1000));
        let (mut nic, driver) = nic(variant, wire);
        let (mut rx, mut tx) = driver.bring_up(64);
        let mut seen = 0;
        while nic.step() || rx.is_done() {
            for r in rx.drain() {
                assert_eq!(r.data.len(), 60);
                assert!(r.is_last() && r.status() >> 20 == 0, "{:#x}", r.status());
                tx.send(&r.data);
                seen += 1;
            }
        }
        assert_eq!((seen, sent.frames(), sent.bytes()), (1000, 1000, 60_000));
        let counts = nic.wire_counts();
        assert_eq!((counts.offered, counts.delivered), (1000, 1000));
        assert!(counts.is_conserved());
        assert_eq!(nic.strict_log(), []);
        assert_eq!(nic.faults(), []);
    }
}

#[test]
fn frames_arrive_and_leave_on_a_thread() {
    let (wire, sent) = source(Some(200_000));
    let (nic, driver) = nic(Variant::I82599, wire);
    let running = nic.spawn(None).unwrap();
    let (mut rx, mut tx) = driver.bring_up(512);
    let (mut seen, start) = (0u64, Instant::now());
    while sent.frames() < 200_000 {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{seen} {:?}",
            running.wire_counts()
        );
        while let Some(r) = rx.peek() {
            let full = (tx.next + 1) % tx.count() == tx.clean;
            if full && !tx.is_done(tx.clean) {
                break;
            }
            if full {
                tx.clean = (tx.clean + 1) % tx.count();
            }
            rx.poll();
            tx.send(&r.data);
            seen += 1;
        }
        std::thread::yield_now();
    }
    let nic = running.stop();
    assert_eq!(seen, 200_000);
    assert!(nic.wire_counts().is_conserved());
    assert_eq!(nic.strict_log(), []);
    assert_eq!(nic.faults(), []);
}
