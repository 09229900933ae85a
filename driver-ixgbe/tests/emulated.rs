//! The driver on the emulated NIC, which shares no definition with it: whatever one of them has wrong
//! about the device shows here. Every test ends with an empty strict log, no DMA fault, and all frames
//! home.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driver_core::{
    Checksum, DmaDomain, Frame, FramePool, Geometry, IovaRanges, L3, L4, Link, Port, PortConfig,
    RxMetadata, RxQueue, Spares, SystemClock, TxQueue, wait_until,
};
use driver_ixgbe::{Error, IxgbePort, IxgbeRxQueue, IxgbeTxQueue};
use emulated_nic::wires::{Shape, Sink, Source, SourceConfig};
use emulated_nic::{Egress, FrameBatch, Ingress, Injection, Nic, Supply, Variant, Wire, WireError};

const VARIANTS: [Variant; 3] = [Variant::I82599, Variant::X540, Variant::X550];

/// Frames that a test puts on the wire, and whether they wait for a NIC that has no room.
#[derive(Clone, Debug, Default)]
struct ToNic {
    frames: Arc<Mutex<VecDeque<Vec<u8>>>>,
    patient: bool,
}

impl Ingress for ToNic {
    fn receive(&mut self, _now: Duration, batch: &mut FrameBatch) -> Result<Supply, WireError> {
        let mut frames = self.frames.lock().unwrap();
        while let Some(frame) = frames.pop_front() {
            if !batch.push(&frame) {
                frames.push_front(frame);
                return Ok(Supply::More);
            }
        }
        Ok(Supply::Later)
    }

    fn is_patient(&self) -> bool {
        self.patient
    }
}

/// Frames that the NIC sent.
#[derive(Clone, Debug, Default)]
struct FromNic(Arc<Mutex<Vec<Vec<u8>>>>);

impl Egress for FromNic {
    fn transmit(&mut self, _now: Duration, batch: &FrameBatch) -> Result<usize, WireError> {
        let mut frames = self.0.lock().unwrap();
        let before = frames.len();
        frames.extend(batch.iter().map(|f| f.data.to_vec()));
        Ok(frames.len() - before)
    }
}

/// A port on a stepped NIC whose wire is in the test's hands.
struct Bench {
    nic: Nic,
    port: IxgbePort,
    pool: FramePool,
    to: ToNic,
    from: FromNic,
}

impl Bench {
    fn new(variant: Variant) -> Self {
        Bench::with_wire(variant, true)
    }

    fn with_wire(variant: Variant, patient: bool) -> Self {
        let to = ToNic {
            patient,
            ..ToNic::default()
        };
        let from = FromNic::default();
        let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
        let nic = Nic::builder(variant)
            .wire(Wire::new(to.clone(), from.clone()))
            .seed(7)
            .build(domain.clone());
        let port = IxgbePort::open(nic.device()).unwrap();
        let pool = FramePool::new(&domain, Geometry::KERNEL, 4096).unwrap();
        Bench {
            nic,
            port,
            pool,
            to,
            from,
        }
    }

    fn start(&mut self, config: &PortConfig) -> Vec<(IxgbeRxQueue, IxgbeTxQueue)> {
        let pairs = self
            .port
            .start(config, std::slice::from_mut(&mut self.pool));
        self.port.wait_link(Duration::from_secs(5)).unwrap();
        pairs.unwrap()
    }

    fn send(&self, frames: impl IntoIterator<Item = Vec<u8>>) {
        self.to.frames.lock().unwrap().extend(frames);
    }

    /// What every test ends with.
    fn end(mut self, pairs: Vec<(IxgbeRxQueue, IxgbeTxQueue)>, spares: Spares) {
        drop((pairs, spares));
        self.port.stop().unwrap();
        assert_eq!(
            self.pool.available(),
            self.pool.total(),
            "every frame is home"
        );
        self.broke_nothing();
    }

    fn broke_nothing(&self) {
        assert!(
            self.nic.strict_log().is_empty(),
            "{:#?}",
            self.nic.strict_log()
        );
        assert!(self.nic.faults().is_empty(), "{:?}", self.nic.faults());
        assert!(self.nic.wire_counts().is_conserved());
    }
}

/// A UDP packet over IPv4 of flow `flow`, `len` bytes long, with checksums.
fn udp(flow: u16, len: usize) -> Vec<u8> {
    let mut f = vec![0u8; len];
    f[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    f[6..12].copy_from_slice(&[2, 0, 0, 0, 1, 0]);
    f[12..14].copy_from_slice(&[8, 0]);
    let total = (len - 14) as u16;
    f[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17]);
    f[16..18].copy_from_slice(&total.to_be_bytes());
    f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    f[34..36].copy_from_slice(&flow.to_be_bytes());
    f[36..38].copy_from_slice(&[0, 53]);
    f[38..40].copy_from_slice(&(total - 20).to_be_bytes());
    for (i, b) in f[42..].iter_mut().enumerate() {
        *b = (i as u8) ^ (flow as u8);
    }
    let ip = checksum(&f[14..34], 0);
    f[24..26].copy_from_slice(&ip.to_be_bytes());
    let pseudo = sum(&f[26..34]) + 17 + u32::from(total - 20);
    let l4 = match checksum(&f[34..], pseudo) {
        0 => 0xffff,
        sum => sum,
    };
    f[40..42].copy_from_slice(&l4.to_be_bytes());
    f
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|w| match w {
        [a, b] => u32::from(u16::from_be_bytes([*a, *b])),
        _ => u32::from(w[0]) << 8,
    });
    words.sum()
}

fn checksum(bytes: &[u8], seed: u32) -> u16 {
    let mut s = sum(bytes) + seed;
    while s > 0xffff {
        s = (s & 0xffff) + (s >> 16);
    }
    !(s as u16)
}

#[test]
fn every_family_comes_up() {
    for variant in VARIANTS {
        let mut b = Bench::new(variant);
        assert_eq!(b.port.mac().to_string(), "02:00:00:00:00:01");
        let pairs = b.start(&PortConfig::default());
        let up = Link {
            up: true,
            speed: 10_000,
        };
        assert_eq!(b.port.link().unwrap(), up, "{variant}");
        let spares = b.pool.spares(0);
        b.end(pairs, spares);
    }
}

#[test]
fn packets_of_every_length_arrive_as_they_were_sent_and_go_out_again() {
    for variant in VARIANTS {
        let mut b = Bench::new(variant);
        let config = PortConfig {
            max_frame: 9018,
            ..PortConfig::default()
        };
        let mut pairs = b.start(&config);
        let lengths = [
            60, 61, 64, 1514, 1518, 3071, 3072, 3073, 6143, 6144, 6145, 9018,
        ];
        let sent: Vec<_> = lengths.iter().map(|len| udp(3, *len)).collect();
        let mut spares = b.pool.spares(256);
        for _ in 0..60 {
            b.send(sent.iter().cloned());
            spares.refill(&mut b.pool, 128);
            b.nic.run_until_idle(10);
            let (rx, tx) = &mut pairs[0];
            let mut packets: Vec<Vec<Frame>> = Vec::new();
            let given = rx.poll(64, &mut spares, |p| {
                let mut frames = Vec::new();
                assert!(p.take_all(|f| frames.push(f)));
                packets.push(frames);
            });
            assert_eq!(given, sent.len());
            for (mut packet, bytes) in packets.into_iter().zip(&sent) {
                let joined: Vec<u8> = packet.iter().flat_map(|f| f.data().to_vec()).collect();
                assert_eq!(&joined, bytes);
                tx.enqueue_chain(&mut packet).unwrap();
            }
            tx.flush();
            b.nic.run_until_idle(10);
            while tx.reclaim(&mut spares) > 0 {
                spares.drain_to(&mut b.pool, 128);
            }
            assert_eq!(tx.pending(), 0);
        }
        let out = std::mem::take(&mut *b.from.0.lock().unwrap());
        assert_eq!(out.len(), 60 * sent.len());
        assert!(out.iter().zip(sent.iter().cycle()).all(|(a, b)| a == b));
        b.end(pairs, spares);
    }
}

#[test]
fn statistics_agree_with_the_wire() {
    let mut b = Bench::new(Variant::X550);
    let config = PortConfig {
        queue_pairs: 4,
        ..PortConfig::default()
    };
    let mut pairs = b.start(&config);
    b.send((0..1000).map(|i| udp(i, 60 + usize::from(i % 900))));
    b.send((0..7).map(|i| udp(i, 1600)));
    let mut spares = b.pool.spares(64);
    spares.refill(&mut b.pool, 64);
    let mut received = 0;
    for _ in 0..100 {
        b.nic.step();
        for (rx, tx) in &mut pairs {
            received += rx.poll(16, &mut spares, |p| {
                if let Some(frame) = p.take() {
                    tx.enqueue(frame).unwrap();
                }
            });
            tx.flush();
            tx.reclaim(&mut spares);
        }
    }
    b.nic.run_until_idle(10);
    pairs.iter_mut().for_each(|(_, tx)| {
        tx.reclaim(&mut spares);
    });
    assert_eq!(received, 1000);
    let stats = b.port.stats().unwrap();
    let wire = b.nic.wire_counts();
    assert_eq!((stats.rx_packets, stats.rx_errors), (1000, 7), "{stats:?}");
    assert_eq!((wire.delivered, wire.oversize), (1000, 7));
    assert_eq!(stats.tx_packets, wire.transmitted);
    assert_eq!(
        stats.tx_bytes,
        wire.transmitted_bytes + 4 * wire.transmitted
    );
    let counted: u64 = pairs
        .iter()
        .map(|(rx, _)| rx.counters().packets.get())
        .sum();
    assert_eq!(counted, 1000);
    let queue_packets = |name: &str| {
        let of = |(n, c): &(String, u64)| n.starts_with(name).then_some(*c);
        stats.registers.iter().filter_map(of).sum::<u64>()
    };
    assert_eq!(queue_packets("QPRC("), 1000);
    assert_eq!(queue_packets("QPTC("), wire.transmitted);
    let again = b.port.stats().unwrap();
    assert_eq!(again, stats, "what was read before is not counted twice");
    b.end(pairs, spares);
}

#[test]
fn packets_without_a_descriptor_are_missed_and_counted() {
    let mut b = Bench::with_wire(Variant::I82599, false);
    let config = PortConfig {
        queue_pairs: 2,
        rx_ring: 64,
        ..PortConfig::default()
    };
    let pairs = b.start(&config);
    b.send((0..400).map(|i| udp(i, 60)));
    b.nic.run_until_idle(100);
    let stats = b.port.stats().unwrap();
    let wire = b.nic.wire_counts();
    assert_eq!(
        wire.delivered,
        2 * 63,
        "all but one descriptor of each ring"
    );
    assert_eq!(stats.rx_missed, 400 - 2 * 63);
    let spares = b.pool.spares(0);
    b.end(pairs, spares);
}

#[test]
fn rss_keeps_flows_together_and_spreads_them() {
    for (variant, pairs, reach) in [
        (Variant::I82599, 4, 4),
        (Variant::I82599, 64, 16),
        (Variant::X550, 64, 64),
    ] {
        let mut b = Bench::new(variant);
        let config = PortConfig {
            queue_pairs: pairs,
            rx_ring: 64,
            tx_ring: 64,
            ..PortConfig::default()
        };
        let mut pairs = b.start(&config);
        let mut spares = b.pool.spares(0);
        let mut queue_of = HashMap::new();
        let mut used = vec![0; reach];
        for _ in 0..8 {
            b.send((0..400).map(|flow| udp(flow, 60)));
            for _ in 0..30 {
                b.nic.step();
                for (q, (rx, _)) in pairs.iter_mut().enumerate() {
                    rx.poll(32, &mut spares, |p| {
                        let flow = u16::from_be_bytes([p.data()[34], p.data()[35]]);
                        let hash = p.metadata().rss.unwrap();
                        used[q] += 1;
                        let seen = *queue_of.entry(flow).or_insert((q, hash.value));
                        assert_eq!(seen, (q, hash.value), "flow {flow}");
                    });
                }
            }
        }
        let lost = b.nic.wire_counts().lost();
        assert_eq!(used.iter().sum::<u64>() + lost, 8 * 400);
        assert!(used.iter().all(|n| *n > 0), "{variant}: {used:?}");
        b.end(pairs, spares);
    }
}

#[test]
fn metadata_is_what_the_packet_is() {
    let mut b = Bench::new(Variant::X540);
    let config = PortConfig {
        strip_vlan: true,
        ..PortConfig::default()
    };
    let mut pairs = b.start(&config);
    let good = udp(9, 100);
    let mut bad_l4 = good.clone();
    bad_l4[60] ^= 1;
    let mut bad_ip = good.clone();
    bad_ip[22] ^= 1;
    let mut tagged = good.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x60, 0x7b]);
    let mut arp = good.clone();
    arp[12..14].copy_from_slice(&[8, 6]);
    b.send([good.clone(), bad_l4, bad_ip, tagged, arp]);
    b.nic.run_until_idle(10);
    let mut spares = b.pool.spares(0);
    let mut seen: Vec<(Vec<u8>, RxMetadata)> = Vec::new();
    pairs[0].0.poll(16, &mut spares, |p| {
        seen.push((p.data().to_vec(), p.metadata()));
    });
    let of = |i: usize| (seen[i].1.ip_checksum, seen[i].1.l4_checksum);
    assert_eq!((seen[0].1.l3, seen[0].1.l4), (L3::Ipv4, L4::Udp));
    assert_eq!(of(0), (Checksum::Good, Checksum::Good));
    assert_eq!(of(1), (Checksum::Good, Checksum::Bad));
    assert_eq!(of(2).0, Checksum::Bad);
    assert_eq!((seen[3].1.vlan, &seen[3].0), (Some(0x607b), &good));
    assert_eq!((seen[4].1.l3, seen[4].1.rss), (L3::Unknown, None));
    b.end(pairs, spares);
}

#[test]
fn only_what_is_asked_for_is_accepted() {
    let mut b = Bench::new(Variant::I82599);
    let config = PortConfig {
        promiscuous: false,
        ..PortConfig::default()
    };
    let mut pairs = b.start(&config);
    let mut spares = b.pool.spares(0);
    let to = |mac: [u8; 6]| {
        let mut frame = udp(1, 60);
        frame[..6].copy_from_slice(&mac);
        frame
    };
    let macs = [
        [2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 9],
        [1, 0, 0x5e, 0, 0, 0xfb],
        [0xff; 6],
        [2, 0, 0, 0, 7, 7],
    ];
    let mut accepted = |b: &mut Bench| {
        b.send(macs.map(to));
        b.nic.run_until_idle(10);
        let mut seen = Vec::new();
        pairs[0]
            .0
            .poll(16, &mut spares, |p| seen.push(p.data()[..6].to_vec()));
        macs.map(|m| seen.contains(&m.to_vec()))
    };
    assert_eq!(accepted(&mut b), [true, false, false, true, false]);
    b.port.add_mac(driver_core::MacAddr(macs[1])).unwrap();
    b.port.add_mac(driver_core::MacAddr(macs[2])).unwrap();
    assert_eq!(accepted(&mut b), [true, true, true, true, false]);
    b.port.remove_mac(driver_core::MacAddr(macs[1])).unwrap();
    assert_eq!(accepted(&mut b), [true, false, true, true, false]);
    b.port.set_promiscuous(true).unwrap();
    assert_eq!(accepted(&mut b), [true; 5]);
    b.end(pairs, spares);
}

#[test]
fn a_port_starts_again_and_again() {
    let mut b = Bench::new(Variant::X540);
    for round in 1..5u16 {
        let config = PortConfig {
            queue_pairs: round,
            rx_ring: 64 * u32::from(round),
            ..PortConfig::default()
        };
        let mut pairs = b.start(&config);
        b.send((0..50).map(|i| udp(i, 80)));
        b.nic.run_until_idle(10);
        let mut spares = b.pool.spares(0);
        let polled = pairs
            .iter_mut()
            .map(|(rx, _)| rx.poll(64, &mut spares, |_| ()));
        assert_eq!(polled.sum::<usize>(), 50);
        drop(pairs);
        b.port.stop().unwrap();
    }
    // Closed and opened again, the NIC is as good as new.
    let Bench {
        nic, port, pool, ..
    } = b;
    drop(port);
    let port = IxgbePort::open(nic.device()).unwrap();
    assert_eq!(pool.available(), pool.total());
    drop(port);
    assert!(nic.strict_log().is_empty(), "{:#?}", nic.strict_log());
}

#[test]
fn a_broken_device_is_an_error_that_names_the_step() {
    let open = |fault| {
        let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
        let nic = Nic::builder(Variant::I82599).build(domain);
        nic.inject(fault);
        IxgbePort::open(nic.device()).unwrap_err().to_string()
    };
    let text = open(Injection::RefuseReset);
    assert!(text.contains("reset: CTRL"), "{text}");
    let text = open(Injection::NoEeprom);
    assert!(text.contains("NVM auto-read: EEC"), "{text}");
    let text = open(Injection::NoDmaInit);
    assert!(text.contains("DMA initialisation: RDRXCTL"), "{text}");
    let text = open(Injection::GoneAt(Duration::from_millis(40)));
    assert!(text.contains("is gone"), "{text}");

    let start = |fault| {
        let mut b = Bench::new(Variant::I82599);
        b.nic.inject(fault);
        let config = PortConfig {
            queue_pairs: 3,
            ..PortConfig::default()
        };
        let pools = std::slice::from_mut(&mut b.pool);
        let error = b.port.start(&config, pools).unwrap_err();
        assert_eq!(b.pool.available(), b.pool.total());
        error.to_string()
    };
    let text = start(Injection::HangRxQueue(2));
    assert!(text.contains("RXDCTL(2)"), "{text}");
    let text = start(Injection::HangTxQueue(1));
    assert!(text.contains("TXDCTL(1)"), "{text}");
    let text = start(Injection::HangSecurityBlock);
    assert!(text.contains("SECRXSTAT"), "{text}");
}

#[test]
fn a_link_that_does_not_come_is_a_bounded_wait() {
    for variant in VARIANTS {
        let mut b = Bench::new(variant);
        b.nic.inject(Injection::NoLink);
        let error = b.port.wait_link(Duration::from_secs(30)).unwrap_err();
        assert!(
            matches!(error, Error::Timeout { step: "link", .. }),
            "{variant}: {error}"
        );
        b.nic.clear_injections();
        b.nic.plug(true);
        assert!(
            b.port.wait_link(Duration::from_secs(30)).unwrap().up,
            "{variant}"
        );
        b.broke_nothing();
    }
}

#[test]
fn a_queue_that_hangs_is_ended_by_a_reset() {
    let mut b = Bench::new(Variant::I82599);
    let mut pairs = b.start(&PortConfig::default());
    b.nic.inject(Injection::HangRxQueue(0));
    let (rx, tx) = pairs.remove(0);
    drop(rx);
    drop(tx);
    b.nic.clear_injections();
    assert_eq!(b.pool.available(), b.pool.total());
    b.port.stop().unwrap();
    let mut pairs = b.start(&PortConfig::default());
    b.send([udp(1, 60)]);
    b.nic.run_until_idle(10);
    let mut spares = b.pool.spares(0);
    assert_eq!(pairs[0].0.poll(8, &mut spares, |_| ()), 1);
    b.end(pairs, spares);
}

#[test]
fn a_device_that_will_not_stop_leaks_its_memory() {
    let mut b = Bench::new(Variant::I82599);
    let mut pairs = b.start(&PortConfig::default());
    b.nic.inject(Injection::HangRxQueue(0));
    b.nic.inject(Injection::RefuseReset);
    let (rx, tx) = pairs.remove(0);
    drop(rx);
    assert_eq!(b.pool.available(), b.pool.total() - 512);
    drop(tx);
    assert!(matches!(b.port.stop(), Err(Error::Wedged { .. })));
}

#[test]
fn a_device_that_lies_gets_counters_not_memory() {
    let lie = |what| {
        let mut b = Bench::new(Variant::I82599);
        let config = PortConfig {
            max_frame: 9000,
            ..PortConfig::default()
        };
        let mut pairs = b.start(&config);
        b.nic.inject(what);
        let mut spares = b.pool.spares(0);
        let mut longest = 0;
        for _ in 0..20 {
            b.send((0..200).map(|i| udp(i, 60)));
            b.nic.step();
            pairs[0].0.poll(usize::MAX, &mut spares, |p| {
                longest = longest.max(p.total_len())
            });
        }
        // It is honest again: so are the packets, from the next whole one on.
        b.nic.clear_injections();
        for _ in 0..3 {
            b.send([udp(1, 77)]);
            b.nic.run_until_idle(4);
            pairs[0]
                .0
                .poll(usize::MAX, &mut spares, |p| longest = p.total_len());
        }
        assert_eq!(longest, 77, "after {what:?}");
        let c = pairs[0].0.counters().clone();
        let counts = (c.errors.get(), c.bad_length.get(), c.too_long.get());
        b.end(pairs, spares);
        counts
    };
    let (errors, bad_length, too_long) = lie(Injection::RxLength(0xffff));
    assert!(errors == 0 && bad_length > 1000 && too_long == 0);
    let (errors, bad_length, too_long) = lie(Injection::RxLength(0));
    assert!(errors == 0 && bad_length > 1000 && too_long == 0);
    let (errors, bad_length, too_long) = lie(Injection::RxStatus(1 << 29));
    assert!(errors > 1000 && bad_length == 0 && too_long == 0);
    let (.., too_long) = lie(Injection::RxNeverEnds);
    assert!(too_long >= 1);
}

#[test]
fn a_device_that_goes_is_an_error_and_frees_nothing_it_may_write_to() {
    let mut b = Bench::new(Variant::I82599);
    let pairs = b.start(&PortConfig::default());
    b.nic.inject(Injection::GoneAt(Duration::ZERO));
    assert!(matches!(b.port.stats(), Err(Error::Gone { .. })));
    assert!(matches!(b.port.link(), Err(Error::Gone { .. })));
    drop(pairs);
    // Whether the bus can still reset it decides where the frames are; nothing hangs either way.
    let home = b.pool.available() == b.pool.total();
    assert_eq!(b.port.stop().is_ok(), home);
}

#[test]
fn forwarding_on_threads_loses_nothing() {
    let source = Source::new(SourceConfig {
        shape: Shape::Mixed(1500),
        flows: 500,
        limit: Some(200_000),
        ..SourceConfig::default()
    });
    let sink = Sink::new();
    let sent = sink.counts();
    let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
    let nic = Nic::builder(Variant::I82599)
        .wire(Wire::new(source, sink))
        .link_delay(Duration::from_millis(1))
        .build(domain.clone());
    let nic = nic.spawn(None).unwrap();
    let mut port = IxgbePort::open(nic.device()).unwrap();
    let mut pools: Vec<_> = (0..2)
        .map(|_| FramePool::new(&domain, Geometry::SMALL, 2048).unwrap())
        .collect();
    let config = PortConfig {
        queue_pairs: 2,
        max_frame: 1600,
        ..PortConfig::default()
    };
    let pairs = port.start(&config, &mut pools).unwrap();
    port.wait_link(Duration::from_secs(10)).unwrap();
    let counts: Vec<_> = pairs
        .iter()
        .map(|(rx, tx)| (rx.counters().clone(), tx.counters().clone()))
        .collect();
    let done = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = pairs
        .into_iter()
        .zip(pools)
        .map(|((mut rx, mut tx), mut pool)| {
            let done = done.clone();
            std::thread::spawn(move || {
                let mut spares = pool.spares(256);
                while !done.load(Ordering::Relaxed) {
                    spares.refill(&mut pool, 64);
                    let n = rx.poll(64, &mut spares, |p| {
                        if let Some(frame) = p.take() {
                            tx.enqueue(frame).ok();
                        }
                    });
                    tx.flush();
                    let back = tx.reclaim(&mut spares);
                    spares.drain_to(&mut pool, 128);
                    if n + back == 0 {
                        std::thread::yield_now();
                    }
                }
                drop((rx, tx, spares));
                pool
            })
        })
        .collect();
    let all_done = || {
        let wire = nic.wire_counts();
        let received: u64 = counts.iter().map(|(rx, _)| rx.packets.get()).sum();
        let back: u64 = counts.iter().map(|(_, tx)| tx.reclaimed.get()).sum();
        let arrived = nic.wire_has_ended() && wire.waiting == 0 && wire.delivered == received;
        arrived && wire.transmitted == back && wire.tx_waiting == 0
    };
    let clock = SystemClock;
    let look = Duration::from_millis(20);
    let in_time = wait_until(&clock, look, Duration::from_secs(60), all_done);
    assert!(in_time, "{:?} {counts:?}", nic.wire_counts());
    done.store(true, Ordering::Relaxed);
    let pools: Vec<_> = workers.into_iter().map(|w| w.join().unwrap()).collect();
    let stats = port.stats().unwrap();
    port.stop().unwrap();
    let received: u64 = counts.iter().map(|(rx, _)| rx.packets.get()).sum();
    let enqueued: u64 = counts.iter().map(|(_, tx)| tx.packets.get()).sum();
    let reclaimed: u64 = counts.iter().map(|(_, tx)| tx.reclaimed.get()).sum();
    assert_eq!(received, nic.wire_counts().delivered);
    assert_eq!(
        received + nic.wire_counts().lost(),
        200_000,
        "{:?}",
        nic.wire_counts()
    );
    assert_eq!((enqueued, reclaimed), (stats.tx_packets, stats.tx_packets));
    assert_eq!(sent.frames(), stats.tx_packets);
    assert!(pools.iter().all(|p| p.available() == p.total()));
    assert!(nic.strict_log().is_empty(), "{:#?}", nic.strict_log());
    assert!(nic.faults().is_empty());
}
