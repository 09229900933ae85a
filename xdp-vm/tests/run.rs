//! The sample programs end to end: loaded, verified, run on packets, with verdicts, packets and maps
//! worked out by hand.

mod common;

use common::{ABORTED, Bench, DROP, PASS, TX, load};
use xdp_vm::{MapError, Maps, Update};

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];

/// Ethernet, tags, then the type and what follows.
fn ethernet(tags: &[u16], ethertype: u16, rest: &[u8]) -> Vec<u8> {
    let mut p = MACS.to_vec();
    for tag in tags {
        p.extend([0x81, 0x00]);
        p.extend(tag.to_be_bytes());
    }
    p.extend(ethertype.to_be_bytes());
    p.extend(rest);
    p
}

fn ipv4(protocol: u8, source: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let mut p = vec![
        0x45,
        0,
        0,
        (20 + rest.len()) as u8,
        0,
        0,
        0,
        0,
        64,
        protocol,
        0,
        0,
    ];
    p.extend(source);
    p.extend([10, 0, 0, 99]);
    p.extend(rest);
    p
}

fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
    p.extend([0xfd; 32]);
    p.extend(rest);
    p
}

fn udp(port: u16) -> Vec<u8> {
    let mut p = vec![0x12, 0x34];
    p.extend(port.to_be_bytes());
    p.extend([0, 8, 0, 0]);
    p
}

#[test]
fn drop_counts_on_its_cpu() {
    let mut b = Bench::new(&load("drop"), None);
    for n in 1..=3u64 {
        assert_eq!(b.run(&[0; 60]).0, DROP);
        let counts = b
            .maps
            .get("dropped")
            .unwrap()
            .lookup_percpu(&[0; 4])
            .unwrap();
        assert_eq!(counts.unwrap(), [0u64.to_le_bytes(), n.to_le_bytes()]);
    }
}

#[test]
fn pass_passes() {
    let packet = [5; 60];
    assert_eq!(
        Bench::new(&load("pass"), None).run(&packet),
        (PASS, packet.to_vec())
    );
}

#[test]
fn proto_count_looks_behind_tags_and_extensions() {
    const OTHER: u32 = 256;
    let mut b = Bench::new(&load("proto_count"), None);
    let hop_by_hop_then = |next| [&[next, 1][..], &[0; 14], &udp(1)].concat();
    let fragment_then = |next| [&[next, 0xff][..], &[0; 6], &udp(1)].concat();
    for (packet, protocol) in [
        (ethernet(&[], 0x0800, &ipv4(17, [1; 4], &udp(53))), 17),
        (ethernet(&[], 0x0800, &ipv4(6, [1; 4], &[])), 6),
        (ethernet(&[5], 0x0800, &ipv4(1, [1; 4], &[])), 1),
        (ethernet(&[5, 6], 0x0800, &ipv4(89, [1; 4], &[])), 89),
        (ethernet(&[5, 6, 7], 0x0800, &ipv4(17, [1; 4], &[])), OTHER),
        (ethernet(&[], 0x86dd, &ipv6(58, &[])), 58),
        (ethernet(&[], 0x86dd, &ipv6(0, &hop_by_hop_then(132))), 132),
        (ethernet(&[], 0x86dd, &ipv6(44, &fragment_then(17))), 17),
        (ethernet(&[], 0x86dd, &ipv6(0, &[17, 1, 0])), OTHER),
        (ethernet(&[], 0x0806, &[0; 28]), OTHER),
        (ethernet(&[], 0x0800, &ipv4(17, [1; 4], &[])[..19]), OTHER),
        (ethernet(&[], 0x86dd, &ipv6(17, &[])[..39]), OTHER),
        (ethernet(&[], 0x8100, &[0, 5]), OTHER),
        (MACS.to_vec(), OTHER),
        (Vec::new(), OTHER),
    ] {
        let before = b.sum("rxcnt", protocol);
        let total: u64 = (0..=OTHER).map(|p| b.sum("rxcnt", p)).sum();
        assert_eq!(b.run(&packet), (DROP, packet.clone()));
        assert_eq!(
            b.sum("rxcnt", protocol),
            before + 1,
            "protocol {protocol} of {packet:02x?}"
        );
        assert_eq!(
            (0..=OTHER).map(|p| b.sum("rxcnt", p)).sum::<u64>(),
            total + 1
        );
    }
}

#[test]
fn tx_swap_swaps_addresses() {
    let mut b = Bench::new(&load("tx_swap"), None);
    let (verdict, packet) = b.run(&ethernet(&[], 0x0800, &[7; 46]));
    let expected = [&MACS[6..], &MACS[..6], &[8, 0], &[7; 46]].concat();
    assert_eq!((verdict, packet), (TX, expected));
    assert_eq!(b.run(&[0; 13]).0, DROP);
}

#[test]
fn firewall_obeys_its_map_and_its_variable() {
    let mut object = load("firewall");
    object.set_variable_text("closed_port", "0x1f90").unwrap();
    let mut b = Bench::new(&object, None);
    let from = |source, port| ethernet(&[], 0x0800, &ipv4(17, source, &udp(port)));
    assert_eq!(b.run(&from([10, 0, 0, 1], 53)).0, PASS);
    assert_eq!(b.run(&from([10, 0, 0, 1], 8080)).0, DROP);
    assert_eq!(
        b.run(&from([10, 0, 0, 1], 9)).0,
        PASS,
        "the port was set to another"
    );
    // Fragments but the first have no ports, nor has what is cut.
    let mut fragment = from([10, 0, 0, 1], 8080);
    fragment[14 + 7] = 1;
    assert_eq!(b.run(&fragment).0, PASS);
    assert_eq!(b.run(&from([10, 0, 0, 1], 8080)[..41]).0, PASS);

    let blocked = b.maps.get("blocked").unwrap();
    blocked
        .update(&[10, 0, 0, 1], &[0; 8], Update::Any)
        .unwrap();
    assert_eq!(b.run(&from([10, 0, 0, 1], 53)).0, DROP);
    assert_eq!(b.run(&from([10, 0, 0, 1], 54)).0, DROP);
    assert_eq!(b.run(&from([10, 0, 0, 2], 53)).0, PASS);
    assert_eq!(b.sum("blocked", u32::from_le_bytes([10, 0, 0, 1])), 2);
    b.maps
        .get("blocked")
        .unwrap()
        .delete(&[10, 0, 0, 1])
        .unwrap();
    assert_eq!(b.run(&from([10, 0, 0, 1], 53)).0, PASS);

    let frozen = b.maps.get(".rodata").unwrap();
    let size = frozen.spec().value_size as usize;
    let e = frozen
        .update(&[0; 4], &vec![0; size], Update::Any)
        .unwrap_err();
    assert!(matches!(e, MapError::Frozen { .. }), "{e}");
}

#[test]
fn vlan_pop_moves_the_start() {
    let mut b = Bench::new(&load("vlan_pop"), None);
    let tagged = ethernet(&[100, 200], 0x0800, &[3; 40]);
    assert_eq!(b.run(&tagged), (PASS, ethernet(&[200], 0x0800, &[3; 40])));
    let plain = ethernet(&[], 0x0800, &[3; 40]);
    assert_eq!(b.run(&plain), (PASS, plain));
    // After the move, a header's length remains, and no more is needed.
    assert_eq!(
        b.run(&ethernet(&[1], 0x0800, &[])),
        (PASS, ethernet(&[], 0x0800, &[]))
    );
}

#[test]
fn trim_moves_the_end() {
    let mut object = load("trim");
    let mut b = Bench::new(&object, None);
    assert_eq!(b.run(&[1; 300]), (TX, vec![1; 128]));
    assert_eq!(b.run(&[1; 100]), (TX, vec![1; 100]));
    assert_eq!(
        b.run(&[1; 40]),
        (TX, [[1; 40].as_slice(), &[0; 20]].concat())
    );
    // More than there is room for, and less than a header.
    object.set_variable_text("pad_to", "3521").unwrap();
    object.set_variable_text("keep", "100000").unwrap();
    assert_eq!(
        Bench::new(&object, None).run(&[1; 60]),
        (ABORTED, vec![1; 60])
    );
    object.set_variable_text("pad_to", "3520").unwrap();
    assert_eq!(Bench::new(&object, None).run(&[1; 60]).1.len(), 3520);
    object.set_variable_text("keep", "13").unwrap();
    assert_eq!(
        Bench::new(&object, None).run(&[1; 60]),
        (ABORTED, vec![1; 60])
    );
}

#[test]
fn sampler_keeps_global_variables() {
    let mut object = load("sampler");
    object.set_variable_text("every", "3").unwrap();
    let mut b = Bench::new(&object, None);
    let verdicts: Vec<_> = (0..7).map(|_| b.run(&[0; 77]).0).collect();
    assert_eq!(verdicts, [PASS, DROP, DROP, PASS, DROP, DROP, PASS]);
    assert_eq!(
        (b.variable(".bss", "seen"), b.variable(".bss", "sampled")),
        (7, 3)
    );
    let mut lines = Vec::new();
    b.cpu.trace.drain(|l| lines.push(l.to_owned()));
    assert_eq!(lines, ["sampled 77 bytes at 99"; 3]);
    // The variable is read again while it runs.
    let every = b.maps.get(".data").unwrap();
    every
        .update(&[0; 4], &1u32.to_le_bytes(), Update::Any)
        .unwrap();
    let verdicts: Vec<_> = (0..4).map(|_| b.run(&[0; 60]).0).collect();
    assert_eq!(verdicts, [DROP, DROP, PASS, PASS]);
}

#[test]
fn legacy_counts_by_length() {
    let mut b = Bench::new(&load("legacy"), None);
    for (len, verdict) in [(60, PASS), (61, DROP), (60, PASS), (64, PASS)] {
        assert_eq!(b.run(&vec![0; len]).0, verdict);
    }
    assert_eq!([60, 61, 64, 65].map(|l| b.sum("lengths", l)), [2, 1, 1, 0]);
    assert_eq!([0, 1].map(|odd| b.sum("totals", odd)), [3, 1]);
}

#[test]
fn mixed_programs_share_their_maps() {
    let object = load("mixed");
    let maps = Maps::create(&object.maps, 2).unwrap();
    let bench = |name: &str| Bench::with_maps(&object, Some(name), &maps);
    let mut lottery = bench("lottery");
    let mut drawn = [0u64; 4];
    for _ in 0..1000 {
        drawn[lottery.run(&[0; 60]).0 as usize] += 1;
    }
    assert!(drawn.iter().all(|&n| (150..350).contains(&n)), "{drawn:?}");
    assert_eq!([0, 1, 2, 3].map(|v| lottery.sum("verdicts", v)), drawn);

    let mut by_length = bench("by_length");
    for (len, verdict) in [(60, ABORTED), (61, DROP), (62, PASS), (63, TX)] {
        assert_eq!(by_length.run(&vec![0; len]).0, verdict);
    }
    assert_eq!(bench("aborted").run(&[0; 60]).0, ABORTED);
    assert_eq!(by_length.sum("verdicts", 0), drawn[0] + 2);
    assert_eq!(by_length.sum("by_cpu", 1), 1005);
    let mut forget = bench("forget");
    assert_eq!(forget.run(&[0; 60]).0, DROP);
    assert_eq!(forget.run(&[0; 60]).0, PASS);
    assert!(maps.get("by_cpu").unwrap().is_empty());
}
