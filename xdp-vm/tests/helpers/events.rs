//! Records for the user.

use xdp_vm::MapKind;

use crate::{Both, map};

pub(crate) fn perf_events_reach_their_reader() {
    let text = |flags: u64| {
        format!(
            "*(u64 *)(r10 - 8) = 77
             r2 = map 0
             r3 = {flags} ll
             r4 = r10
             r4 += -8
             r5 = 8
             call 25
             exit"
        )
    };
    let events = [map(MapKind::PerfEventArray, 4, 4, 2)];
    let run = |flags| {
        Both::new(&text(flags), &events)
            .run(&[0; 64])
            .0
            .cast_signed()
    };
    assert_eq!(run(0xffff_ffff), -2, "no reader");
    assert_eq!(run(2), -7, "no such entry");
    assert_eq!(run(65 << 32), -14, "more than the packet has");
    assert_eq!(run(1 << 52), -22, "an unknown flag");

    let mut program = Both::new(&text(3 << 32 | 0xffff_ffff), &events);
    program.kernel = None;
    program.map().open_events(0, 64).unwrap();
    assert!(program.map().open_events(0, 64).is_err());
    assert!(program.map().open_events(2, 64).is_err());
    let packet: Vec<u8> = (1..65).collect();
    for _ in 0..2 {
        assert_eq!(program.run(&packet).0, 0);
    }
    assert_eq!(program.run(&packet).0.cast_signed(), -28, "no room");
    let mut records = vec![];
    let lost = program
        .map()
        .drain(0, |r| records.push(r.to_vec()))
        .unwrap();
    assert_eq!(lost, 1);
    assert_eq!(records, vec![vec![77, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]; 2]);
    let mut other = Both::new(&text(1), &events);
    other.kernel = None;
    assert!(
        other.map().open_events(1, 64).is_err(),
        "there is no worker 1"
    );
    assert_eq!(other.run(&packet).0.cast_signed(), -2);
    let mut other = Both::for_cpus(&text(1), &events, 2);
    other.kernel = None;
    other.map().open_events(1, 64).unwrap();
    assert_eq!(other.run(&packet).0.cast_signed(), -95, "another CPU's");
}

pub(crate) fn a_ring_buffer_fills_and_tells() {
    let output = |size: u32, flags: u32| {
        format!(
            "*(u64 *)(r10 - 8) = 77
             *(u64 *)(r10 - 16) = 78
             r1 = map 0
             r2 = r10
             r2 += -16
             r3 = {size}
             r4 = {flags}
             call 130
             if r0 != 0 goto out
             r1 = map 0
             r2 = 0
             call 134
             out:
             exit"
        )
    };
    let ring = [map(MapKind::Ringbuf, 0, 0, 4096)];
    let run = |text: &str| Both::new(text, &ring).run(&[0; 64]).0.cast_signed();
    assert_eq!(run(&output(16, 0)), 24);
    assert_eq!(run(&output(0, 3)), 8);
    assert_eq!(run(&output(16, 4)), -22);
    let mut program = Both::new(&output(16, 0), &ring);
    let answers: Vec<i32> = (0..175)
        .map(|_| program.run(&[0; 64]).0.cast_signed())
        .collect();
    assert_eq!(answers[169], 170 * 24);
    assert_eq!(answers[170..], [-11; 5], "full");
    let mut count = 0;
    let lost = program.map().drain(0, |record| {
        assert_eq!(
            record,
            [[78, 0, 0, 0, 0, 0, 0, 0], [77, 0, 0, 0, 0, 0, 0, 0]].concat()
        );
        count += 1;
    });
    assert_eq!((count, lost.unwrap()), (170, 5));
}

pub(crate) fn counters_are_there_where_an_event_is_open() {
    let read = |flags: u64| format!("r1 = map 0\n r2 = {flags} ll\n call 22\n exit");
    let value = |flags: u64, size: u32| {
        format!(
            "*(u64 *)(r10 - 24) = 1
             r1 = map 0
             r2 = {flags} ll
             r3 = r10
             r3 += -24
             r4 = {size}
             call 55
             r1 = *(u64 *)(r10 - 24)
             r0 += r1
             exit"
        )
    };
    let events = [map(MapKind::PerfEventArray, 4, 4, 2)];
    for (flags, expected) in [(0, -2), (1, -2), (2, -7), (0xffff_ffff, -2), (1 << 32, -22)] {
        let run = |text: &str| Both::new(text, &events).run(&[0; 64]).0.cast_signed();
        assert_eq!(run(&read(flags)), expected, "{flags:#x}");
        assert_eq!(run(&value(flags, 24)), expected, "{flags:#x}");
        assert_eq!(run(&value(flags, 16)), -22, "{flags:#x}");
    }
    let mut program = Both::new(&value(0, 24), &events);
    program.kernel = None;
    program.map().open_events(0, 64).unwrap();
    assert_eq!(program.run(&[0; 64]).0, 0, "open, and nothing counted");
}

/// A record of 100 bytes a run, discarded where the packet says so; r0 is what has been produced, or -1
/// where there was no room.
pub(crate) fn records_are_reserved_until_the_ring_is_full() {
    let ring = [map(MapKind::Ringbuf, 0, 0, 4096)];
    let reserve = |size: &str, flags: u32| {
        format!(
            "r6 = *(u32 *)(r1 + 0)
             r7 = *(u32 *)(r1 + 4)
             r8 = 0
             r1 = r6
             r1 += 1
             if r1 > r7 goto reserve
             r8 = *(u8 *)(r6 + 0)
             reserve:
             r1 = map 0
             r2 = {size}
             r3 = {flags}
             call 131
             if r0 != 0 goto there
             r0 = -1
             exit
             there:
             *(u64 *)(r0 + 0) = r8
             *(u32 *)(r0 + 96) = r8
             r1 = r0
             r2 = r8
             if r8 == 1 goto discard
             call 132
             goto query
             discard:
             call 133
             query:
             r1 = map 0
             r2 = 3
             call 134
             exit"
        )
    };
    let mut program = Both::new(&reserve("100", 0), &ring);
    // With its header, up to a multiple of 8.
    let whole = 112;
    for n in 0..40 {
        let mut packet = [0; 64];
        packet[0] = (n % 4) as u8;
        let expected = if n < 36 { (n + 1) * whole } else { -1 };
        assert_eq!(program.run(&packet).0.cast_signed(), expected, "record {n}");
    }
    let mut seen = vec![];
    let lost = program.map().drain(0, |record| {
        assert_eq!((record.len(), record[0]), (100, record[96]));
        seen.push(record[0]);
    });
    assert_eq!((seen, lost.unwrap()), ([0, 2, 3].repeat(9), 4));
    let mut with_flags = Both::new(&reserve("100", 1), &ring);
    assert_eq!(
        with_flags.run(&[0; 64]).0.cast_signed(),
        -1,
        "no flags are known"
    );
    let mut too_long = Both::new(&reserve("4096", 0), &ring);
    assert_eq!(too_long.run(&[0; 64]).0.cast_signed(), -1);
    let mut absurd = Both::new(&reserve("1073741824", 0), &ring);
    assert_eq!(absurd.run(&[0; 64]).0.cast_signed(), -1);
}
