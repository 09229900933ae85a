//! Capture files as wires: both formats, what is wrong with files, and what comes out at the ring.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::*;
use emulated_nic::wires::{
    CaptureError, CaptureFile, CaptureFormat, CaptureReader, CaptureWriter, Silence, Sink,
};
use emulated_nic::{Nic, Undersize, Variant, Wire, WireError};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Frames of lengths that go round every padding of the formats.
fn packets() -> Vec<(Duration, Vec<u8>)> {
    (0..8u64)
        .map(|n| {
            let at = Duration::new(1_700_000_000 + n, 123_456_789 - n as u32);
            (at, udp(60 + n as usize))
        })
        .collect()
}

fn write(path: &Path, format: CaptureFormat) {
    let mut w = CaptureWriter::create(path, format).unwrap();
    for (at, data) in packets() {
        w.write(at, data.len() + 7, &data).unwrap();
    }
    w.finish().unwrap();
    assert!(
        w.write(Duration::ZERO, 60, &[0; 60]).is_err(),
        "nothing follows the end"
    );
}

fn read(path: &Path) -> Vec<(Duration, Vec<u8>)> {
    let mut file = CaptureFile::open(path).unwrap();
    let mut found = Vec::new();
    while let Some(p) = file.next_packet().unwrap() {
        assert_eq!(
            (p.index, p.original_len),
            (found.len() as u64, p.data.len() + 7)
        );
        found.push((p.timestamp, p.data.to_vec()));
    }
    found
}

#[test]
fn both_formats_keep_packets_and_nanoseconds() {
    let dir = scratch();
    for (name, format) in [
        ("a.pcap", CaptureFormat::Pcap),
        ("a.pcapng", CaptureFormat::PcapNg),
    ] {
        let path = dir.path().join(name);
        assert_eq!(CaptureFormat::of(&path), format);
        write(&path, format);
        assert_eq!(read(&path), packets());
        let summary = CaptureFile::validate(&path).unwrap();
        assert_eq!((summary.packets, summary.cut, summary.longest), (8, 8, 67));
    }
}

/// A pcap file written by hand: magic, byte order, one packet.
fn by_hand(big: bool, nanos: bool, link_type: u32) -> Vec<u8> {
    let word = |v: u32| {
        if big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    };
    let half = |v: u16| {
        if big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    };
    let mut f = word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    f.extend(half(2));
    f.extend(half(4));
    for v in [0, 0, 64, link_type, 1_000, 500_000, 60, 1514] {
        f.extend(word(v));
    }
    f.extend(udp(60));
    f
}

#[test]
fn pcap_in_both_byte_orders_and_resolutions() {
    let dir = scratch();
    let path = dir.path().join("x.pcap");
    for (big, nanos) in [(false, false), (false, true), (true, false), (true, true)] {
        fs::write(&path, by_hand(big, nanos, 1)).unwrap();
        let mut file = CaptureFile::open(&path).unwrap();
        let p = file.next_packet().unwrap().unwrap();
        let fraction = if nanos { 500_000 } else { 500_000_000 };
        assert_eq!(p.timestamp, Duration::new(1000, fraction));
        // Longer on the wire than the snap length of 64.
        assert_eq!((p.data, p.original_len), (&udp(60)[..], 1514));
        assert!(file.next_packet().unwrap().is_none());
    }
}

/// A block of a pcapng file in big endian: words, then bytes.
fn block(kind: u32, body: &[u32], data: &[u8]) -> Vec<u8> {
    let padded = data.len().next_multiple_of(4);
    let len = (12 + 4 * body.len() + padded) as u32;
    let mut b = kind.to_be_bytes().to_vec();
    b.extend(len.to_be_bytes());
    body.iter().for_each(|w| b.extend(w.to_be_bytes()));
    b.extend_from_slice(data);
    b.resize(b.len() + padded - data.len(), 0);
    b.extend(len.to_be_bytes());
    b
}

/// A section header with these options.
fn section(options: &[u8]) -> Vec<u8> {
    let body = [0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX];
    block(0x0a0d_0d0a, &body, options)
}

/// An option of a block in big endian, padded.
fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut o = code.to_be_bytes().to_vec();
    o.extend((value.len() as u16).to_be_bytes());
    o.extend(value);
    o.resize(4 + value.len().next_multiple_of(4), 0);
    o
}

/// pcapng by hand, in big endian: microseconds by default, a second interface in powers of two, an
/// older packet block, a simple one, an unknown block.
#[test]
fn pcapng_units_interfaces_and_older_blocks() {
    let frame = udp(61);
    let mut f = section(&[]);
    f.extend(block(1, &[1 << 16, 100], &[]));
    // if_tsresol (9): 2^-10; end of options.
    f.extend(block(1, &[1 << 16, 0, 9 << 16 | 1, 0x8a00_0000, 0], &[]));
    f.extend(block(6, &[0, 0, 2_500_000, 61, 61], &frame));
    f.extend(block(6, &[1, 0, 3 << 10 | 512, 61, 61], &frame));
    f.extend(block(0xbad, &[1, 2], &[]));
    f.extend(block(2, &[0, 0, 7_000_000, 61, 2000], &frame));
    f.extend(block(3, &[2000], &[frame.clone(), vec![9; 39]].concat()));
    let dir = scratch();
    let path = dir.path().join("x.pcapng");
    fs::write(&path, f).unwrap();
    let mut file = CaptureFile::open(&path).unwrap();
    let mut seen = Vec::new();
    while let Some(p) = file.next_packet().unwrap() {
        assert_eq!(p.data[..61], frame);
        seen.push((p.timestamp.as_millis(), p.data.len(), p.original_len));
    }
    assert_eq!(
        seen,
        [
            (2500, 61, 61),
            (3500, 61, 61),
            (7000, 61, 2000),
            (0, 100, 2000)
        ]
    );
}

/// Comments that are not UTF-8, lists without an end mark, lengths that are not the usual ones or
/// reach past the block: as strangers' tools write them.
#[test]
fn options_that_no_packet_needs_do_not_make_a_file_unreadable() {
    let odd = [
        option(1, &[0xff, 0xfe]),
        option(10, &[0; 4]),
        option(2, b"eth\xff"),
        vec![0, 3, 0xff, 0, 1, 2, 3, 4],
    ];
    let frame = udp(60);
    let packet = [frame.clone(), option(1, &[0xff])].concat();
    for odd in &odd {
        let mut f = section(odd);
        f.extend(block(1, &[1 << 16, 0], odd));
        f.extend(block(6, &[0, 0, 2_500_000, 60, 60], &packet));
        // A name-resolution block that breaks off, and one that is longer than any packet may be.
        f.extend(block(4, &[0x0001_ff00], &[]));
        f.extend(block(0xbad, &[], &vec![7; 5 << 20]));
        f.extend(block(6, &[0, 0, 3_000_000, 60, 60], &frame));
        let dir = scratch();
        let path = dir.path().join("x.pcapng");
        fs::write(&path, f).unwrap();
        let mut file = CaptureFile::open(&path).unwrap();
        let first = file.next_packet().unwrap().unwrap();
        assert_eq!(
            (first.timestamp.as_millis(), first.data),
            (2500, &frame[..])
        );
        let second = file.next_packet().unwrap().unwrap();
        assert_eq!(second.timestamp.as_millis(), 3000);
        assert!(file.next_packet().unwrap().is_none());
    }
}

/// if_tsoffset is signed, and a time before 1970 is the nearest that can be told.
#[test]
fn an_interface_may_shift_its_times_either_way() {
    let frame = udp(60);
    let dir = scratch();
    let path = dir.path().join("x.pcapng");
    for (offset, seconds) in [(-3i64, 7), (-11, 0), (5, 15), (i64::MIN, 0)] {
        let mut f = section(&[]);
        f.extend(block(1, &[1 << 16, 0], &option(14, &offset.to_be_bytes())));
        f.extend(block(6, &[0, 0, 10_000_000, 60, 60], &frame));
        fs::write(&path, f).unwrap();
        let mut file = CaptureFile::open(&path).unwrap();
        let packet = file.next_packet().unwrap().unwrap();
        assert_eq!(packet.timestamp, Duration::from_secs(seconds), "{offset}");
    }
}

#[test]
fn a_time_that_a_format_cannot_tell_is_an_error_with_the_limit() {
    let dir = scratch();
    for (name, format, latest) in [
        ("x.pcap", CaptureFormat::Pcap, u64::from(u32::MAX)),
        (
            "x.pcapng",
            CaptureFormat::PcapNg,
            u64::MAX / 1_000_000_000 - 1,
        ),
    ] {
        let path = dir.path().join(name);
        let mut w = CaptureWriter::create(&path, format).unwrap();
        w.write(Duration::from_secs(latest), 60, &udp(60)).unwrap();
        let e = w.write(Duration::from_secs(latest + 2), 60, &udp(60));
        let e = e.unwrap_err().to_string();
        assert!(e.contains(name) && e.contains("later"), "{e}");
        w.finish().unwrap();
        assert_eq!(CaptureFile::validate(&path).unwrap().packets, 1);
    }
}

#[test]
fn files_that_are_no_captures_are_named() {
    let dir = scratch();
    let path = dir.path().join("x.pcap");
    let open = || CaptureFile::open(&path).unwrap_err();
    assert!(matches!(open(), CaptureError::Open { .. }));
    for bytes in [
        &b""[..],
        b"abc",
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ] {
        fs::write(&path, bytes).unwrap();
        let e = open();
        assert!(matches!(e, CaptureError::Foreign { .. }));
        assert!(e.to_string().contains("x.pcap"), "{e}");
    }
    fs::write(&path, by_hand(false, false, 127)).unwrap();
    match CaptureFile::validate(&path).unwrap_err() {
        CaptureError::LinkType {
            packet: 0,
            link_type: 127,
            ..
        } => {}
        e => panic!("{e}"),
    }
}

#[test]
fn a_file_cut_anywhere_is_whole_up_to_there_or_says_where_it_is_cut() {
    let dir = scratch();
    for (name, format, header) in [
        ("a.pcap", CaptureFormat::Pcap, 24),
        ("a.pcapng", CaptureFormat::PcapNg, 28),
    ] {
        let path = dir.path().join(name);
        write(&path, format);
        let whole = fs::read(&path).unwrap();
        let (mut last, mut clean) = (0, 0);
        for len in 12..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let mut packets = 0;
            let result = CaptureFile::open(&path).and_then(|mut file| {
                while file.next_packet()?.is_some() {
                    packets += 1;
                }
                Ok(())
            });
            assert!(packets >= last, "more of the file holds no fewer packets");
            last = packets;
            match result {
                Ok(()) => clean += 1,
                Err(CaptureError::Damaged {
                    packet,
                    offset,
                    cause,
                    ..
                }) => {
                    assert_eq!(packet, packets);
                    assert!(
                        offset <= len as u64 && cause.contains("ends"),
                        "{offset} {cause}"
                    );
                    assert!(packets == 0 || offset >= header, "{offset}");
                }
                Err(e) => panic!("{e}"),
            }
        }
        // Cut between packets a file cannot be told from a shorter one.
        let interface_blocks = if format == CaptureFormat::PcapNg {
            1
        } else {
            0
        };
        assert_eq!((last, clean), (7, 8 + interface_blocks));
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let dir = scratch();
    let mut random = fastrand::Rng::with_seed(3);
    for format in [CaptureFormat::Pcap, CaptureFormat::PcapNg] {
        let path = dir.path().join("x");
        write(&path, format);
        let whole = fs::read(&path).unwrap();
        for _ in 0..100 {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            fs::write(&path, &bytes).unwrap();
            // Whether it can still be read depends on what was hit.
            if let Ok(summary) = CaptureFile::validate(&path) {
                assert!(summary.packets <= 8);
            }
        }
    }
}

fn through(from: &Path, undersize: Undersize, to: &Path) -> (Nic, Vec<Vec<u8>>) {
    let reader = CaptureReader::open(from).unwrap();
    let writer = CaptureWriter::create(to, CaptureFormat::PcapNg).unwrap();
    let writer = writer.epoch(Duration::from_secs(1_000_000));
    let domain = domain();
    let mut nic = Nic::builder(Variant::I82599)
        .undersize(undersize)
        .wire(Wire::new(reader, writer))
        .build(domain.clone());
    let device = nic.device();
    let driver = Driver { device, domain };
    let (mut rx, mut tx) = driver.bring_up(8);
    let mut seen = Vec::new();
    while nic.step() || rx.is_done() {
        for r in rx.drain() {
            tx.send(&r.data);
            seen.push(r.data);
        }
    }
    assert!(nic.wire_has_ended());
    nic.finish_wire().unwrap();
    (nic, seen)
}

fn captured(path: PathBuf, frames: &[Vec<u8>]) -> PathBuf {
    let mut w = CaptureWriter::create(&path, CaptureFormat::Pcap).unwrap();
    for f in frames {
        w.write(Duration::from_secs(9), f.len(), f).unwrap();
    }
    w.finish().unwrap();
    path
}

#[test]
fn a_capture_goes_through_the_nic_whole_and_in_order() {
    let dir = scratch();
    let mut frames: Vec<_> = (0..100).map(|n| udp(60 + n)).collect();
    frames.insert(3, udp(42));
    frames.insert(7, vec![0; 9000]);
    frames.insert(9, vec![0; 40_000]);
    frames.insert(11, Vec::new());
    let from = captured(dir.path().join("in.pcap"), &frames);
    let to = dir.path().join("out.pcapng");

    let (nic, seen) = through(&from, Undersize::Deliver, &to);
    let wanted: Vec<_> = frames
        .iter()
        .filter(|f| (14..=1514).contains(&f.len()))
        .collect();
    assert_eq!(seen.iter().collect::<Vec<_>>(), wanted);
    let c = nic.wire_counts();
    assert_eq!(
        (c.offered, c.delivered, c.undersize, c.oversize),
        (104, 101, 1, 2)
    );
    assert!(c.is_conserved());
    assert_eq!((nic.strict_log(), nic.faults()), (vec![], vec![]));
    let mut sent = CaptureFile::open(&to).unwrap();
    for data in &seen {
        let p = sent.next_packet().unwrap().unwrap();
        assert!(
            p.timestamp > Duration::from_secs(1_000_000),
            "the NIC's time since the epoch"
        );
        let mut padded = data.clone();
        padded.resize(padded.len().max(60), 0);
        assert_eq!(p.data, padded);
    }
    assert!(sent.next_packet().unwrap().is_none());

    let (nic, seen) = through(&from, Undersize::Discard, &to);
    assert_eq!((seen.len(), nic.wire_counts().undersize), (100, 2));
}

#[test]
fn a_capture_that_breaks_off_ends_the_wire_with_its_error() {
    let dir = scratch();
    let from = captured(dir.path().join("in.pcap"), &vec![udp(60); 10]);
    let whole = fs::read(&from).unwrap();
    fs::write(&from, &whole[..whole.len() - 1]).unwrap();
    let (nic, seen) = through(&from, Undersize::Discard, &dir.path().join("out"));
    assert_eq!(seen.len(), 9);
    match nic.take_wire_error() {
        Some(WireError::Capture(CaptureError::Damaged { packet: 9, .. })) => {}
        e => panic!("{e:?}"),
    }
}

#[test]
fn a_paced_capture_keeps_its_intervals() {
    let dir = scratch();
    let path = dir.path().join("in.pcap");
    let mut w = CaptureWriter::create(&path, CaptureFormat::Pcap).unwrap();
    for ms in [5000, 5010, 5010, 5030] {
        w.write(Duration::from_millis(ms), 60, &udp(60)).unwrap();
    }
    w.finish().unwrap();
    let reader = CaptureReader::open(&path).unwrap().paced();
    let counts = reader.counts();
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(reader, Sink::new()));
    let _queues = driver.bring_up(64);
    nic.step();
    let mut seen = vec![counts.packets()];
    for _ in 0..4 {
        nic.advance(Duration::from_millis(10));
        seen.push(counts.packets());
    }
    assert_eq!((seen, counts.cut()), (vec![1, 3, 3, 4, 4], 0));
}

#[test]
fn a_pace_that_no_clock_can_keep_is_only_never_due() {
    let mut f = block(
        0x0a0d_0d0a,
        &[0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX],
        &[],
    );
    // if_tsresol (9): whole seconds; end of options.
    f.extend(block(1, &[1 << 16, 0, 9 << 16 | 1, 0, 0], &[]));
    f.extend(block(6, &[0, 0, 0, 60, 60], &udp(60)));
    f.extend(block(6, &[0, u32::MAX, u32::MAX, 60, 60], &udp(60)));
    let dir = scratch();
    let path = dir.path().join("x.pcapng");
    fs::write(&path, f).unwrap();
    let reader = CaptureReader::open(&path).unwrap().paced();
    let counts = reader.counts();
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(reader, Sink::new()));
    nic.advance(Duration::from_secs(2));
    let _queues = driver.bring_up(64);
    nic.advance(Duration::from_secs(1));
    assert_eq!(counts.packets(), 1);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let e = CaptureWriter::create("/nonexistent/x.pcap", CaptureFormat::Pcap).unwrap_err();
    assert!(e.to_string().contains("/nonexistent/x.pcap"), "{e}");
    let Ok(writer) = CaptureWriter::create("/dev/full", CaptureFormat::Pcap) else {
        return; // not every system has this device
    };
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(Silence, writer));
    let (_rx, mut tx) = driver.bring_up(64);
    tx.send(&udp(60));
    nic.step();
    assert!(matches!(
        nic.finish_wire(),
        Err(WireError::Capture(CaptureError::Write { .. }))
    ));
}
