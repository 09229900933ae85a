//! How many frames the model carries: `cargo bench -p emulated-nic`.
//!
//! The other end is the least that a driver can be: it looks at done bits, re-arms each descriptor
//! with its buffer and writes the tail once a batch.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{Driver, Rx, Tx};
use emulated_nic::wires::{Sink, Source, SourceConfig};
use emulated_nic::{Nic, Variant, Wire};

const RING: usize = 4096;
const SPAN: Duration = Duration::from_secs(1);

fn main() {
    stepped();
    threaded("threaded: receive", 1, false);
    threaded("threaded: receive, 4 queues", 4, false);
    threaded("threaded: receive and transmit", 1, true);
}

fn source() -> Wire {
    Wire::new(Source::new(SourceConfig::default()), Sink::new())
}

/// A ring filled again and again by single steps, outside of anyone's measurement.
fn stepped() {
    let (mut nic, driver) = common::nic(Variant::I82599, source());
    let (mut rx, _tx) = driver.bring_up(RING);
    let (mut frames, mut spent, start) = (0, Duration::ZERO, Instant::now());
    while start.elapsed() < SPAN {
        let before = Instant::now();
        nic.step();
        spent += before.elapsed();
        frames += recycle(&mut rx, RING);
    }
    report("stepped: fill a ring, full-size scribble", frames, spent);
    assert!(nic.wire_counts().is_conserved());
}

fn threaded(what: &str, queues: usize, forward: bool) {
    let (nic, driver) = common::nic(Variant::I82599, source());
    let (mut rx, mut tx) = bring_up(&driver, queues);
    let running = nic.spawn(None).expect("a thread");
    let (mut frames, start) = (0, Instant::now());
    while start.elapsed() < SPAN {
        for rx in &mut rx {
            let n = recycle(rx, 64);
            if forward {
                send(&mut tx, n);
            }
            frames += n;
        }
    }
    let spent = start.elapsed();
    let nic: Nic = running.stop();
    report(what, frames, spent);
    assert!(nic.wire_counts().is_conserved());
    assert_eq!(nic.strict_log(), []);
}

fn bring_up(driver: &Driver, queues: usize) -> (Vec<Rx>, Tx) {
    driver.reset();
    driver.global();
    for k in 0..10 {
        driver.write(0xeb80 + 4 * k, 0x5a6d_5a6d);
    }
    for k in 0..32u32 {
        let entry = |i: u32| (4 * k + i) % queues as u32;
        let word = entry(0) | entry(1) << 8 | entry(2) << 16 | entry(3) << 24;
        driver.write(0xeb00 + 4 * k, word);
    }
    driver.write(common::MRQC, 1 | 1 << 22 | 1 << 17);
    let rx = (0..queues).map(|n| driver.rx(n, RING)).collect();
    let tx = driver.tx(0, RING);
    driver.receive();
    driver.link();
    (rx, tx)
}

/// Takes up to `budget` frames and arms their descriptors again.
fn recycle(rx: &mut Rx, budget: usize) -> usize {
    let descriptors = rx.ring.descriptors();
    let mut n = 0;
    let mut next = rx.next;
    while n < budget && descriptors[next].load_acquire(1) & 1 != 0 {
        let iova = rx.frames[next].receive_iova(rx.delta);
        descriptors[next].store([iova, 0]);
        next = (next + 1) % descriptors.len();
        n += 1;
    }
    if n > 0 {
        rx.next = next;
        rx.bell.ring(((next + RING - 1) % RING) as u32);
    }
    n
}

/// Sends `n` small packets, all from the ring's own buffers, as far as there is room.
fn send(tx: &mut Tx, n: usize) {
    for _ in 0..n {
        let after = (tx.next + 1) % RING;
        if after == tx.clean {
            if !tx.is_done((tx.clean + 31) % RING) {
                break;
            }
            tx.clean = (tx.clean + 32) % RING;
        }
        let rs = if tx.next % 32 == 31 { common::RS } else { 0 };
        let iova = tx.frames[tx.next].data_iova(tx.delta);
        let flags = common::DATA | common::EOP | common::IFCS | rs | 60 << 46 | 60;
        tx.put_words([iova, flags]);
    }
    tx.flush();
}

fn report(what: &str, frames: usize, spent: Duration) {
    let nanos = spent.as_nanos() as f64 / frames.max(1) as f64;
    println!(
        "{what}: {frames} frames, {nanos:.1} ns each, {:.2} M frames/s",
        1e3 / nanos
    );
}
