//! Millions of packets through the threaded model, with faults on the wire and verdicts at random:
//! at the end every packet and every frame is accounted for, and no rule of the datasheet was broken.

use std::time::Duration;

use datapath::{Fate, Verdict};
use driver_core::{Frame, RxPacket};
use ixdp::{DeviceArg, Session, SessionConfig, Source};

/// Without optimisation a smaller run: the default test command is to take minutes, not an hour.
const PACKETS: u64 = if cfg!(debug_assertions) {
    300_000
} else {
    10_000_000
};
const QUEUES: u16 = 4;
/// Frames that the application of a queue keeps at most.
const KEPT: usize = 64;

/// Keeps some of the passed packets for a while, as an application does.
struct Keeper {
    kept: Vec<Frame>,
    random: fastrand::Rng,
}

impl datapath::Application for Keeper {
    fn deliver(&mut self, packet: RxPacket<'_>) -> bool {
        if self.random.u8(..) < 64 {
            let Some(frame) = packet.take() else {
                return false;
            };
            if self.kept.len() == KEPT {
                self.kept.swap_remove(self.random.usize(..KEPT));
            }
            self.kept.push(frame);
            return true;
        }
        packet.data().len() == 60
    }
}

#[test]
fn faults_and_random_verdicts_lose_no_packet_and_no_frame() {
    let device: DeviceArg = "emu:82599,loss=0.01,dup=0.005,reorder=0.02,seed=7"
        .parse()
        .unwrap();
    let config = SessionConfig {
        device,
        queues: QUEUES,
        threads: 2,
        source: Source {
            count: Some(PACKETS),
            ..Source::default()
        },
        ..SessionConfig::default()
    };
    let session = Session::start(&config, |queue| {
        let mut random = fastrand::Rng::with_seed(u64::from(queue) + 1);
        // 5 is no verdict: it counts as aborted.
        let judge = move |_: &mut RxPacket<'_>| random.u32(0..=5);
        let random = fastrand::Rng::with_seed(u64::from(queue) + 100);
        let kept = Vec::with_capacity(KEPT);
        (judge, Keeper { kept, random })
    })
    .unwrap();
    while !session.is_done() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (report, parts) = session.stop().unwrap();

    let end = &report.end;
    assert_eq!(end.wire.offered, PACKETS);
    let near = |what: &str, count: u64, share: f64| {
        let expected = share * PACKETS as f64;
        let off = (count as f64 - expected).abs() / expected;
        assert!(off < 0.1, "{what}: {count}, not about {expected}");
    };
    near("lost", end.wire.lost, 0.01);
    near("duplicated", end.wire.duplicated, 0.005);
    near("reordered", end.wire.reordered, 0.02);
    let arrived = PACKETS - end.wire.lost + end.wire.duplicated;
    assert_eq!(end.total.received, arrived);
    assert!(
        end.queues.iter().all(|q| q.received > 0),
        "RSS reaches every queue"
    );
    end.total.check().unwrap();
    for verdict in Verdict::ALL {
        let of_six = if verdict == Verdict::Aborted {
            2.0
        } else {
            1.0
        };
        near(verdict.name(), end.total.verdict(verdict), of_six / 6.0);
    }
    let sent = end.total.fate(Fate::Transmitted);
    assert!(sent > 0);
    assert_eq!(sent, report.end.wire.sent);
    assert_eq!(report.violations, [] as [String; 0]);
    // Frames that the application still has were out when the session counted.
    let kept: usize = parts.iter().map(|(_, keeper)| keeper.kept.len()).sum();
    assert_eq!(report.frames - report.frames_home, kept as u64);
    let mut settled = report.clone();
    settled.frames_home += kept as u64;
    assert_eq!(settled.imbalances(), [], "no other law is broken");
}
