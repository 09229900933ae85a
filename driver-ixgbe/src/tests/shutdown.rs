//! Stopping: no frame is lost, and no memory is freed that the device may still write to.

use driver_core::{Port, RxQueue, TxQueue};

use super::*;
use crate::testing;

#[test]
fn dropped_queues_are_off_and_their_frames_home() {
    let Bench {
        device,
        mut port,
        mut pool,
        mut pairs,
    } = bench(&small());
    assert_eq!(pool.available(), 2048 - 64);
    let mut frame = pool.take().unwrap();
    frame.fill(&[1; 64]).unwrap();
    pairs[0].1.enqueue(frame).unwrap();
    let alive = error_of(port.stop());
    assert!(
        matches!(alive, Error::QueuesAlive { alive: 2, .. }),
        "{alive}"
    );
    let (rx, tx) = pairs.remove(0);
    std::thread::spawn(move || drop(rx)).join().unwrap();
    assert_eq!(device.register(0x1028) & 1 << 25, 0);
    assert!(matches!(
        error_of(port.stop()),
        Error::QueuesAlive { alive: 1, .. }
    ));
    drop(tx);
    assert_eq!(device.register(0x6028) & 1 << 25, 0);
    assert_eq!(pool.available(), 2048);
    assert!(!device.state().mapped.is_empty());
    port.stop().unwrap();
    port.stop().unwrap();
    assert!(device.state().mapped.is_empty());
    assert_eq!(device.register(0x3000) & 1, 0, "RXEN is off");
}

#[test]
fn a_stopped_port_starts_again() {
    let Bench {
        device,
        mut port,
        pool,
        pairs,
    } = bench(&small());
    let mut pools = [pool];
    drop(pairs);
    for round in 1..4 {
        port.stop().unwrap();
        let config = PortConfig {
            queue_pairs: round,
            rx_ring: 128,
            ..small()
        };
        let mut pairs = port.start(&config, &mut pools).unwrap();
        let ring = testing::ring(&device, 0x1000);
        ring.descriptors()[0].store([0, 64 << 32 | 3]);
        let mut spares = pools[0].spares(0);
        assert_eq!(pairs[0].0.poll(8, &mut spares, |_| ()), 1);
        drop(pairs);
        assert_eq!(pools[0].available(), 2048);
    }
}

#[test]
fn a_port_may_go_before_its_queues() {
    let Bench {
        device,
        port,
        pool,
        pairs,
    } = bench(&small());
    drop(port);
    assert!(
        !device.state().mapped.is_empty(),
        "the queues still need their memory"
    );
    assert_eq!(
        device.register(0x18) & 1 << 28,
        0,
        "the firmware may have the port"
    );
    drop(pairs);
    assert!(device.state().mapped.is_empty());
    assert_eq!(pool.available(), 2048);
}

#[test]
fn a_queue_that_does_not_stop_has_the_port_reset() {
    let Bench {
        device,
        mut port,
        pool,
        mut pairs,
    } = bench(&small());
    let (rx, tx) = pairs.remove(0);
    device.refuse_to_stop(0x1028);
    device.state().writes.clear();
    drop(rx);
    assert!(
        device
            .state()
            .writes
            .iter()
            .any(|w| w.0 == 0 && w.1 & 1 << 26 != 0)
    );
    drop(tx);
    assert_eq!(pool.available(), 2048);
    port.stop().unwrap();
    // The next start brings the port up from the reset on.
    device.state().writes.clear();
    let mut pools = [pool];
    drop(port.start(&small(), &mut pools).unwrap());
    assert!(
        device
            .state()
            .writes
            .iter()
            .any(|w| w.0 == 0 && w.1 & 1 << 26 != 0)
    );
    assert_eq!(pools[0].available(), 2048);
}

#[test]
fn where_no_reset_helps_the_memory_is_leaked() {
    let Bench {
        device,
        mut port,
        pool,
        mut pairs,
    } = bench(&small());
    let (rx, tx) = pairs.remove(0);
    device.stick(0x1028, 1 << 25);
    device.state().bus_reset_works = false;
    drop(rx);
    assert_eq!(
        pool.available(),
        2048 - 64,
        "the ring's frames are not handed out again"
    );
    drop(tx);
    assert!(matches!(error_of(port.stop()), Error::Wedged { .. }));
    let mut pools = [pool];
    assert!(matches!(
        error_of(port.start(&small(), &mut pools)),
        Error::Running { .. }
    ));
    drop(port);
    assert!(!device.state().mapped.is_empty());
}

#[test]
fn a_device_that_goes_gets_a_bus_reset_before_its_memory_is_freed() {
    let Bench {
        device,
        mut port,
        pool,
        pairs,
    } = bench(&small());
    device.unplug();
    drop(pairs);
    assert_eq!(pool.available(), 2048);
    port.stop().unwrap();

    let Bench {
        device,
        port: _port,
        pool,
        pairs,
    } = bench(&small());
    device.state().bus_reset_works = false;
    device.unplug();
    drop(pairs);
    assert_eq!(pool.available(), 2048 - 64);
}
