//! Sessions and replays as a library: what applications keep, what cannot be started, what is dropped.

use datapath::{Discard, Fate, Verdict};
use driver_core::{Frame, RxPacket};
use ixdp::{DeviceArg, Outcome, Replay, Session, SessionConfig, SessionError, Source};

fn verdict(verdict: Verdict) -> impl FnMut(&mut RxPacket<'_>) -> u32 + Copy + Send {
    move |_: &mut RxPacket<'_>| verdict as u32
}

fn counted(count: u64) -> SessionConfig {
    let source = Source {
        count: Some(count),
        ..Source::default()
    };
    SessionConfig {
        source,
        ..SessionConfig::default()
    }
}

#[test]
fn frames_that_an_application_keeps_are_missing_from_the_report() {
    let keep = |kept: usize| {
        let mut frames: Vec<Frame> = Vec::new();
        let application = move |packet: RxPacket<'_>| {
            if frames.len() < kept {
                frames.extend(packet.take());
            }
            true
        };
        let mut application = Some(application);
        let make = |_| (verdict(Verdict::Pass), application.take().unwrap());
        let session = Session::start(&counted(2000), make).unwrap();
        while !session.is_done() {
            std::thread::yield_now();
        }
        let (report, _parts) = session.stop().unwrap();
        assert_eq!(report.end.total.fate(Fate::Delivered), 2000);
        report
    };
    assert!(keep(0).is_clean());
    let report = keep(7);
    assert_eq!(report.frames - report.frames_home, 7);
    assert!(!report.is_conserved() && report.imbalances().len() == 1);
}

#[test]
fn impossible_shapes_are_errors() {
    for (queues, threads) in [(0, 1), (65, 1), (2, 0), (2, 3)] {
        let config = SessionConfig {
            queues,
            threads,
            ..counted(1)
        };
        let started = Session::start(&config, |_| (verdict(Verdict::Drop), Discard));
        let error = started.err().expect("refused");
        assert!(matches!(error, SessionError::Shape { .. }), "{error}");
    }
    let config = SessionConfig {
        pin: vec![100_000],
        ..counted(1)
    };
    let started = Session::start(&config, |_| (verdict(Verdict::Drop), Discard));
    assert!(matches!(started.err(), Some(SessionError::Pin { .. })));
    let few = SessionConfig {
        frames: Some(100),
        ..counted(1)
    };
    let started = Session::start(&few, |_| (verdict(Verdict::Drop), Discard));
    assert!(matches!(started.err(), Some(SessionError::Port(_))));
}

#[test]
fn a_session_that_is_only_dropped_ends_its_threads() {
    let endless = SessionConfig {
        queues: 4,
        threads: 2,
        ..SessionConfig::default()
    };
    for _ in 0..3 {
        let make = |_| (verdict(Verdict::Tx), Discard);
        let mut session = Session::start(&endless, make).unwrap();
        while session.snapshot().unwrap().wire.sent < 100 {
            std::thread::yield_now();
        }
    }
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("comm")).ok());
    let workers: Vec<String> = names.filter(|n| n.starts_with("ixdp-worker-1")).collect();
    assert!(workers.is_empty(), "{workers:?}");
}

#[test]
fn a_replay_shows_every_packet_whole_on_each_model() {
    for device in ["emu:82599", "emu:x540", "emu:x550"] {
        let config = SessionConfig {
            device: device.parse::<DeviceArg>().unwrap(),
            queues: 3,
            max_frame: 9728,
            ..SessionConfig::default()
        };
        let mut replay = Replay::start(&config, |_| verdict(Verdict::Pass)).unwrap();
        for length in [14, 59, 60, 3072, 3073, 6144, 9728] {
            let packet: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let Outcome::Judged { passed, sent, .. } = replay.packet(&packet).unwrap() else {
                panic!("{device}: a packet of {length} bytes is missed");
            };
            assert!(
                passed.as_ref() == Some(&packet) && sent.is_empty(),
                "{device}: {length}"
            );
        }
        let missed = replay.packet(&[0; 9729]).unwrap();
        assert!(matches!(missed, Outcome::Missed { .. }), "{missed:?}");
        let report = replay.finish().unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!((report.missed(), report.end.total.received), (1, 7));
    }
}
