//! Wires that impair, pace and mix what they bring.

mod common;

use common::traffic::*;
use common::*;
use std::time::Duration;

use emulated_nic::wires::{
    CaptureFormat, CaptureReader, CaptureWriter, Impaired, Impairment, Shape, Sink, Source,
    SourceConfig,
};
use emulated_nic::{Variant, Wire};

#[test]
fn hostile_traffic_is_conserved_whatever_it_is() {
    for seed in 0..4 {
        let config = SourceConfig {
            limit: Some(20_000),
            shape: Shape::Hostile(4000),
            seed,
            ..SourceConfig::default()
        };
        let impairment = Impairment {
            seed,
            loss: 0.1,
            duplication: 0.05,
            reordering: 0.2,
            delay: Duration::from_micros(50),
        };
        let wire = Impaired::new(Source::new(config), impairment);
        let impaired = wire.counts();
        let (mut nic, driver) = nic(Variant::I82599, Wire::new(wire, Sink::new()));
        let (mut rx, _tx) = driver.set_up(256);
        driver.set(HLREG0, 1 << 2);
        driver.write(MAXFRS, 3000 << 16);
        rss(&driver, |_| 0);
        driver.link();
        let mut packets = 0;
        while !nic.wire_has_ended() || rx.is_done() {
            nic.advance(Duration::from_micros(20));
            packets += rx.drain().iter().filter(|r| r.is_last()).count() as u64;
        }
        let c = nic.wire_counts();
        assert!(c.is_conserved(), "{c:?}");
        assert_eq!(c.delivered, packets);
        assert!(c.bad_fcs > 0 && c.undersize > 0 && c.oversize > 0 && c.filtered == 0);
        assert_eq!(impaired.taken(), 20_000);
        assert_eq!(
            impaired.taken() - impaired.lost() + impaired.duplicated(),
            c.offered
        );
        assert!(impaired.lost() > 1500 && impaired.duplicated() > 500);
        assert!(impaired.reordered() > 1500);
        assert_eq!((nic.strict_log(), nic.faults()), (vec![], vec![]));
    }
}

#[test]
fn impairment_is_the_same_for_the_same_seed_and_keeps_to_its_delay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcap");
    let mut w = CaptureWriter::create(&path, CaptureFormat::Pcap).unwrap();
    for n in 0..100 {
        w.write(Duration::ZERO, 60 + n, &udp(60 + n)).unwrap();
    }
    w.finish().unwrap();
    let order = |seed, delay| {
        let reader = CaptureReader::open(&path).unwrap();
        let impairment = Impairment {
            seed,
            reordering: 0.3,
            delay,
            ..Impairment::default()
        };
        let wire = Wire::new(Impaired::new(reader, impairment), Sink::new());
        let (mut nic, driver) = nic(Variant::I82599, wire);
        let (mut rx, _tx) = driver.bring_up(256);
        let at_once = rx.drain().len();
        nic.advance(delay);
        let mut lens: Vec<_> = rx.drain().iter().map(|r| r.data.len()).collect();
        if at_once > 0 {
            lens.clear();
        }
        (at_once, lens)
    };
    let ms = Duration::from_millis(40);
    let (at_once, first) = order(1, ms);
    assert_eq!((at_once, first.len()), (0, 100));
    assert!(!first.is_sorted());
    assert_eq!(order(1, ms).1, first);
    assert_ne!(order(2, ms).1, first);
    assert_eq!(order(1, Duration::ZERO).0, 100);
}

#[test]
fn a_wire_that_loses_everything_does_not_hold_the_nic_up() {
    for delay in [Duration::ZERO, Duration::from_micros(50)] {
        let impairment = Impairment {
            loss: 1.0,
            delay,
            ..Impairment::default()
        };
        let wire = Impaired::new(Source::new(SourceConfig::default()), impairment);
        let impaired = wire.counts();
        let (mut nic, driver) = nic(Variant::I82599, Wire::new(wire, Sink::new()));
        let (mut rx, _tx) = driver.bring_up(64);
        nic.step();
        assert!(impaired.taken() > 0 && impaired.lost() == impaired.taken());
        assert_eq!((rx.drain().len(), nic.wire_counts().offered), (0, 0));
    }
}

#[test]
fn a_source_with_a_rate_keeps_to_it() {
    let config = SourceConfig {
        rate: Some(1_000_000),
        ..SourceConfig::default()
    };
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(Source::new(config), Sink::new()));
    let (mut rx, _tx) = driver.bring_up(4096);
    rx.drain();
    let before = nic.wire_counts().offered;
    nic.advance(Duration::from_millis(3));
    assert_eq!(nic.wire_counts().offered - before, 3000);
    assert_eq!(rx.drain().len(), 3000);
}
