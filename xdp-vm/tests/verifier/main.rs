//! The verifier against programs: a table of what must be accepted and what must be refused, each
//! also put to the running kernel; what clang makes of C; and streams of nonsense.

mod accepted;
mod asm;
mod checked;
mod clang;
mod comparisons;
#[path = "../common/clang.rs"]
mod compiler;
mod faults;
mod fuzz;
mod holes;
mod kernel;
mod locks;
mod page;
mod pruning;
mod references;
mod refused;
mod soundness;

use xdp_vm::verifier::{Cause, Config, verify};
use xdp_vm::{MapKind, MapSpec};

/// Where the kernel's verdict is known to be another one, and why that is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// The kernel's verdict is the same.
    Same,
    /// The kernel decides otherwise: the reason.
    Differs(&'static str),
}

/// A program that must be accepted.
pub(crate) struct Accepted {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) kernel: Kernel,
}

/// A program that must be refused, and for what.
pub(crate) struct Refused {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) cause: fn(&Cause) -> bool,
    pub(crate) kernel: Kernel,
}

/// The maps that the table's programs name.
pub(crate) fn maps() -> Vec<MapSpec> {
    let map = |name: &str, kind, key_size, value_size, max_entries| MapSpec {
        name: name.into(),
        kind,
        key_size,
        value_size,
        max_entries,
        flags: 0,
        initial: None,
        frozen: false,
        variables: vec![],
        ..MapSpec::default()
    };
    let mut constants = map(".rodata", MapKind::Array, 4, 16, 1);
    constants.flags = 0x80;
    constants.frozen = true;
    constants.initial = Some(vec![7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4]);
    vec![
        map("counters", MapKind::Array, 4, 8, 16),
        map("flows", MapKind::Hash, 8, 16, 64),
        constants,
        map("stats", MapKind::PercpuArray, 4, 64, 256),
        map(".bss", MapKind::Array, 4, 64, 1),
        map("recent", MapKind::LruHash, 4, 8, 32),
        MapSpec {
            flags: 1,
            ..map("routes", MapKind::LpmTrie, 8, 4, 16)
        },
        map("queue", MapKind::Queue, 0, 16, 4),
        MapSpec {
            inner: Some(Box::new(map("inner", MapKind::Array, 4, 8, 4))),
            ..map("tables", MapKind::ArrayOfMaps, 4, 4, 4)
        },
        map("programs", MapKind::ProgArray, 4, 4, 4),
        map("ports", MapKind::Devmap, 4, 8, 4),
        map("events", MapKind::PerfEventArray, 4, 4, 2),
        map("ring", MapKind::Ringbuf, 0, 0, 4096),
        map("seen", MapKind::BloomFilter, 0, 8, 100),
        MapSpec {
            inner: Some(Box::new(map("inner", MapKind::Hash, 8, 16, 4))),
            ..map("tenants", MapKind::HashOfMaps, 2, 4, 4)
        },
        map("cpus", MapKind::Cpumap, 4, 4, 4),
        map("sockets", MapKind::Xskmap, 4, 4, 4),
        MapSpec {
            flags: 0x100,
            ..map("log", MapKind::Array, 4, 8, 1)
        },
        MapSpec {
            spin_lock: Some(8),
            ..map("locked", MapKind::Array, 4, 16, 4)
        },
        MapSpec {
            spin_lock: Some(0),
            ..map("guarded", MapKind::Hash, 4, 24, 4)
        },
        MapSpec {
            spin_lock: Some(8),
            ..map("only", MapKind::Array, 4, 16, 1)
        },
    ]
}

fn accepted() -> impl Iterator<Item = &'static Accepted> {
    let all = [
        accepted::CASES,
        comparisons::ACCEPTED,
        pruning::ACCEPTED,
        references::ACCEPTED,
        locks::ACCEPTED,
    ];
    all.into_iter().flatten()
}

fn refused() -> impl Iterator<Item = &'static Refused> {
    let all = [
        refused::CASES,
        comparisons::REFUSED,
        pruning::REFUSED,
        references::REFUSED,
        locks::REFUSED,
        holes::REFUSED,
    ];
    all.into_iter().flatten()
}

#[test]
fn what_is_safe_is_accepted() {
    let maps = maps();
    for case in accepted() {
        let program = asm::program(case.text);
        if let Err(e) = verify(&program, &maps, &Config::default()) {
            panic!("`{}` must be accepted:\n{e}", case.name);
        }
    }
}

#[test]
fn what_is_unsafe_is_refused_for_the_right_cause() {
    let maps = maps();
    for case in refused() {
        let program = asm::program(case.text);
        match verify(&program, &maps, &Config::default()) {
            Ok(_) => panic!("`{}` must be refused", case.name),
            Err(e) => assert!((case.cause)(&e.cause), "`{}`: {:?}", case.name, e.cause),
        }
    }
}

/// The kernel decides as we do, except where the table says why not.
#[test]
fn the_kernel_agrees() {
    if !kernel::may_be_asked() {
        return;
    }
    let maps = maps();
    let cases = accepted()
        .map(|c| (c.name, c.text, true, c.kernel))
        .chain(refused().map(|c| (c.name, c.text, false, c.kernel)));
    let mut wrong = vec![];
    for (name, text, ours, expected) in cases {
        let (theirs, log) = match kernel::ask(&asm::program(text), &maps).expect("bpf(2)") {
            kernel::Opinion::Accepted { .. } => (true, String::new()),
            kernel::Opinion::Refused(log) => (false, log),
        };
        if (theirs == ours) != (expected == Kernel::Same) {
            wrong.push(format!(
                "`{name}`: ours {ours}, the kernel's {theirs}: {log}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A refusal says what is wrong, where, what was known and what to do, and fits 100 columns.
#[test]
fn a_refusal_explains_itself() {
    let program = asm::program(
        "r2 = *(u32 *)(r1 + 0)
         r3 = *(u32 *)(r1 + 4)
         r4 = r2
         r4 += 14
         if r4 > r3 goto out
         r0 = *(u8 *)(r2 + 33)
         exit
         out:
         r0 = 1
         exit",
    );
    let e = verify(&program, &maps(), &Config::default()).expect_err("33 is past 14");
    assert_eq!(
        e.cause,
        Cause::PacketBounds {
            reg: 2,
            needed: 34,
            proven: 14
        }
    );
    let text = e.to_string();
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "instruction 5",
        "34 bytes",
        "14 are proven",
        "data + 34 > data_end",
        "R2=pkt(r=14)",
        "instruction 4: if r4 > r3 goto +2: not taken",
    ] {
        assert!(unwrapped.contains(part), "no `{part}` in:\n{text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}
