//! What a session counted, and whether it adds up.

use datapath::{Fate, Imbalance, Tally};
use driver_core::{Link, PortStats};

/// Counts of a session at one moment; while it runs, of slightly different moments.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Seconds since traffic started.
    pub seconds: f64,
    /// Sum over all queues.
    pub total: Tally,
    /// Counts of each queue.
    pub queues: Vec<Tally>,
    /// What the port counted.
    pub port: PortStats,
    /// Packets that receive queues recycled unseen: damaged, or of a length that cannot be.
    pub unseen: u64,
    /// What the wire did.
    pub wire: WireCounts,
    /// State of the link.
    pub link: Link,
    /// The source has put its last frame on the wire.
    pub source_ended: bool,
}

/// Frames on the wire, towards the port and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounts {
    /// Frames that the source put on the wire.
    pub offered: u64,
    /// Frames that the wire lost.
    pub lost: u64,
    /// Frames that the wire made out of nothing, being second copies.
    pub duplicated: u64,
    /// Frames that changed places with the one behind them.
    pub reordered: u64,
    /// Frames that reached the port.
    pub delivered: u64,
    /// Frames that the port sent.
    pub sent: u64,
}

/// Everything a session counted, at its end.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The counts when the stopped source's last packet was done with.
    pub end: Snapshot,
    /// What became of every frame inside the model.
    pub device: emulated_nic::WireCounts,
    /// Packets of a replay that were too short or too long to be put on the wire.
    pub refused: u64,
    /// Frames of all pools.
    pub frames: u64,
    /// Frames that came home.
    pub frames_home: u64,
    /// Rules of the datasheet that the driver broke, and memory that the device was sent to and was
    /// not given: what the model noticed.
    pub violations: Vec<String>,
}

impl Snapshot {
    /// Packets that did not get what their verdict asked for, aborted ones, and damaged ones.
    pub fn errors(&self) -> u64 {
        self.total.errors() + self.port.rx_errors + self.unseen
    }
}

impl Report {
    /// Packets for which the device had no descriptor, and those that a replay could not send.
    pub fn missed(&self) -> u64 {
        self.end.port.rx_missed + self.refused
    }

    /// Packets that did not get what their verdict asked for, aborted ones, and damaged ones.
    pub fn errors(&self) -> u64 {
        self.end.errors()
    }

    /// Packets a second over the whole run.
    pub fn pps(&self) -> f64 {
        if self.end.seconds > 0.0 {
            self.end.total.received as f64 / self.end.seconds
        } else {
            0.0
        }
    }

    /// Every law that does not hold: one verdict and one fate a packet, every frame of the pools at
    /// home, and each frame of the wire in one place.
    pub fn imbalances(&self) -> Vec<Imbalance> {
        let Snapshot {
            wire, port, total, ..
        } = &self.end;
        let device = &self.device;
        let laws = [
            (
                "frames of the pools against frames at home",
                self.frames,
                self.frames_home,
            ),
            (
                "wire: offered and duplicated against delivered and lost",
                wire.offered + wire.duplicated,
                wire.delivered + wire.lost,
            ),
            (
                "port: delivered by the wire against received and damaged",
                wire.delivered,
                port.rx_packets + port.rx_errors,
            ),
            (
                "port: received against given to workers, missed and recycled unseen",
                port.rx_packets,
                total.received + port.rx_missed + self.end.unseen,
            ),
            (
                "transmitted by workers against sent by the port",
                total.fate(Fate::Transmitted),
                port.tx_packets,
            ),
            (
                "port: sent against seen on the wire",
                port.tx_packets,
                wire.sent,
            ),
            (
                "device: offered against delivered, lost and waiting",
                device.offered,
                device.delivered + device.lost() + device.waiting,
            ),
        ];
        let broken = laws.into_iter().filter(|l| l.1 != l.2);
        let broken = broken.map(|(law, left, right)| Imbalance { law, left, right });
        total.check().err().into_iter().chain(broken).collect()
    }

    /// True where every packet and every frame is accounted for.
    pub fn is_conserved(&self) -> bool {
        self.imbalances().is_empty()
    }

    /// True where the session is [conserved](Self::is_conserved) and the model found no fault with
    /// the driver.
    pub fn is_clean(&self) -> bool {
        self.is_conserved() && self.violations.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_law_is_noticed_when_broken() {
        let mut good = Report {
            frames: 9,
            frames_home: 9,
            ..Report::default()
        };
        good.end.unseen = 1;
        good.end.wire = WireCounts {
            offered: 20,
            lost: 3,
            duplicated: 1,
            reordered: 0,
            delivered: 18,
            sent: 4,
        };
        good.end.port.rx_packets = 16;
        good.end.port.rx_errors = 2;
        good.end.port.rx_missed = 5;
        good.end.port.tx_packets = 4;
        good.end.total.received = 10;
        good.end.total.verdicts = [0, 6, 0, 4, 0];
        good.end.total.fates[Fate::Recycled as usize] = 6;
        good.end.total.fates[Fate::Transmitted as usize] = 4;
        assert_eq!(good.imbalances(), []);
        assert_eq!((good.missed(), good.errors()), (5, 3));

        type Break = fn(&mut Report);
        let breaks: [(&str, Break); 8] = [
            ("verdicts", |r| r.end.total.verdicts[1] += 1),
            ("frames of the pools", |r| r.frames_home -= 1),
            ("wire: offered", |r| r.end.wire.offered += 1),
            ("port: delivered", |r| r.end.port.rx_errors -= 1),
            ("port: received", |r| r.end.port.rx_missed += 1),
            ("transmitted", |r| {
                r.end.port.tx_packets += 1;
                r.end.wire.sent += 1;
            }),
            ("port: sent", |r| r.end.wire.sent -= 1),
            ("device: offered", |r| r.device.waiting += 1),
        ];
        for (law, break_it) in breaks {
            let mut bad = good.clone();
            break_it(&mut bad);
            let found = bad.imbalances();
            assert!(
                found.len() == 1 && found[0].law.contains(law),
                "{law}: {found:?}"
            );
        }
        let strict = Report {
            violations: vec!["a rule".to_owned()],
            ..good
        };
        assert!(strict.is_conserved() && !strict.is_clean());
    }
}
