//! Where packets go.

use xdp_vm::{MapKind, Redirect};

use crate::{Both, map, r0};

pub(crate) fn redirects_give_verdicts_and_targets() {
    assert_eq!(r0("r1 = 7\n r2 = 0\n call 23\n exit"), 4);
    assert_eq!(r0("r1 = 7\n r2 = 1\n call 23\n exit"), 0);
    let mut program = Both::new("r1 = 7\n r2 = 0\n call 23\n exit", &[]);
    program.run(&[0; 64]);
    let target = Some(Redirect::Interface { ifindex: 7 });
    assert_eq!(program.cpu.take_redirect(), target);
    assert_eq!(program.cpu.take_redirect(), None, "it was taken");

    for kind in [
        MapKind::Devmap,
        MapKind::DevmapHash,
        MapKind::Cpumap,
        MapKind::Xskmap,
    ] {
        for flags in (0..=34).chain([1 << 31]) {
            let text = format!("r1 = map 0\n r2 = 3\n r3 = {flags} ll\n call 51\n exit");
            let mut program = Both::new(&text, &[map(kind, 4, 4, 8)]);
            let (verdict, _) = program.run(&[0; 64]);
            // Nothing is there: the flags say the verdict, unless they ask for all or are unknown.
            let devmap = matches!(kind, MapKind::Devmap | MapKind::DevmapHash);
            let expected = match flags {
                0..=3 => flags as u32,
                8..=11 | 24..=27 if devmap => 4,
                16..=19 if devmap => flags as u32 & 3,
                _ => 0,
            };
            assert_eq!(verdict, expected, "{kind:?} {flags}");
            assert_eq!(program.cpu.take_redirect().is_some(), expected == 4);
        }
    }
}

pub(crate) fn an_entry_is_told_with_its_value() {
    // A hit, and then a miss by another key where the packet says so.
    let text = "r6 = *(u32 *)(r1 + 0)
                r7 = *(u32 *)(r1 + 4)
                r1 = map 0
                r2 = 1
                r3 = 0
                call 51
                r2 = r6
                r2 += 1
                if r2 > r7 goto out
                r2 = *(u8 *)(r6 + 0)
                if r2 == 0 goto out
                r1 = map 0
                r3 = 2
                call 51
                out:
                exit";
    for kind in [MapKind::Devmap, MapKind::DevmapHash] {
        let mut program = Both::new(text, &[map(kind, 4, 8, 4)]);
        // Interface 1, the loopback, is everywhere; no program.
        program.set(&[1, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(program.run(&[0; 64]).0, 4);
        let entry = Redirect::Entry {
            map: 0,
            kind,
            key: 1,
            value: [1, 0],
        };
        assert_eq!(program.cpu.take_redirect(), Some(entry));
        assert_eq!(program.run(&[3; 64]).0, 2, "the miss gives its flags");
        assert_eq!(program.cpu.take_redirect(), None, "and takes the hit back");
        assert_eq!(program.map().keys().count(), 1);
        program.map().delete(&[1, 0, 0, 0]).unwrap();
        assert_eq!(program.map().len(), 0);
    }
}
