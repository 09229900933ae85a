//! The checked interpreter on programs that nobody verified: each wrong thing has its own fault.

use xdp_vm::checked::{Access, Argument, Near, RegionKind};
use xdp_vm::{Checked, Cpu, Fault, FaultKind, Maps, Ran, XdpBuff};

use crate::{asm, maps};

fn run(text: &str) -> Result<Ran, Fault> {
    run_for(text, 1000)
}

fn run_for(text: &str, budget: u64) -> Result<Ran, Fault> {
    let maps = Maps::create(&maps(), 1).expect("the maps of the tests");
    let mut buffer = vec![0; 1024];
    let mut buff = XdpBuff::new(&mut buffer, 256, 60).expect("it fits");
    Checked::new(&asm::program(text), &maps).run(&mut Cpu::new(0), &mut buff, budget)
}

fn fault(text: &str) -> Fault {
    run(text).expect_err(text)
}

/// What is wrong with an argument of a helper.
fn argument(text: &str) -> (usize, Argument) {
    match fault(text).kind {
        FaultKind::Argument {
            argument, cause, ..
        } => (argument, *cause),
        other => panic!("{text}: {other}"),
    }
}

fn region(kind: RegionKind, offset: i64, len: u64) -> Near {
    Near::Region { kind, offset, len }
}

#[test]
fn what_ends_gives_its_value_and_its_length() {
    let ran = run("r0 = 1\n r0 <<= 40\n exit");
    assert_eq!(
        ran,
        Ok(Ran {
            r0: 1 << 40,
            steps: 3
        })
    );
    let ran = run("r1 = *(u32 *)(r1 + 0)\n *(u8 *)(r1 + 59) = 7\n r0 = *(u8 *)(r1 + 59)\n exit");
    assert_eq!(ran.map(|r| r.r0), Ok(7));
}

#[test]
fn the_budget_ends_a_loop_at_the_same_instruction_each_time() {
    let text = "r0 = 0\nagain:\n r0 += 1\n r1 = r0\n goto again";
    for budget in 0..40 {
        let stopped = fault_at(text, budget);
        let expected = match budget {
            0 => 0,
            n => 1 + (n as usize - 1) % 3,
        };
        assert_eq!(stopped, (expected, FaultKind::Budget { budget }));
    }
    fn fault_at(text: &str, budget: u64) -> (usize, FaultKind) {
        let fault = run_for(text, budget).expect_err("it has no end");
        (fault.at, fault.kind)
    }
}

#[test]
fn accesses_outside_are_told_by_region_and_distance() {
    let cases = [
        (
            "r2 = *(u32 *)(r1 + 0)\n r0 = *(u32 *)(r2 + 57)\n exit",
            (Access::Read, 4, region(RegionKind::Packet, 57, 60)),
        ),
        (
            "r2 = *(u32 *)(r1 + 0)\n *(u8 *)(r2 - 1) = 0\n exit",
            (Access::Write, 1, region(RegionKind::Packet, -1, 60)),
        ),
        (
            "*(u64 *)(r10 - 4) = 0\n exit",
            (Access::Write, 8, region(RegionKind::Stack, 508, 512)),
        ),
        (
            "*(u64 *)(r10 - 520) = 0\n exit",
            (Access::Write, 8, region(RegionKind::Stack, -8, 512)),
        ),
        (
            "r1 = 0\n r0 = *(u8 *)(r1 + 8)\n exit",
            (Access::Read, 1, Near::Null),
        ),
        (
            "r1 = 4660\n r1 <<= 32\n r0 = *(u8 *)(r1 + 0)\n exit",
            (Access::Read, 1, Near::Nowhere),
        ),
        (
            "r0 = *(u16 *)(r1 + 0)\n exit",
            (Access::Read, 2, region(RegionKind::Context, 0, 24)),
        ),
        (
            "*(u32 *)(r1 + 0) = 0\n exit",
            (Access::Write, 4, region(RegionKind::Context, 0, 24)),
        ),
        (
            "r1 = value 4 + 60\n r0 = *(u64 *)(r1 + 0)\n exit",
            (Access::Read, 8, region(RegionKind::MapValue, 60, 64)),
        ),
        (
            "r1 = value 2 + 0\n *(u8 *)(r1 + 0) = 1\n exit",
            (Access::Write, 1, region(RegionKind::ReadOnlyValue, 0, 16)),
        ),
    ];
    for (text, (access, size, near)) in cases {
        let expected = FaultKind::Memory { access, size, near };
        assert_eq!(fault(text).kind, expected, "{text}");
    }
}

#[test]
fn what_was_never_written_is_not_read() {
    assert_eq!(
        fault("r0 = r3\n exit").kind,
        FaultKind::Unwritten { register: 3 }
    );
    assert_eq!(fault("exit").kind, FaultKind::Unwritten { register: 0 });
    let hole = "*(u8 *)(r10 - 7) = 0\n r0 = *(u16 *)(r10 - 8)\n exit";
    assert_eq!(fault(hole).kind, FaultKind::UnwrittenStack { offset: -8 });
    // A frame starts empty however often it is entered.
    let stale = "call write\n call read\n exit\nwrite:\n *(u64 *)(r10 - 8) = 1\n r0 = 0\n exit
        read:\n r0 = *(u64 *)(r10 - 8)\n exit";
    assert!(matches!(
        fault(stale).kind,
        FaultKind::UnwrittenStack { .. }
    ));
    let after_call = "r1 = 1\n call 7\n r0 = r1\n exit";
    assert_eq!(fault(after_call).kind, FaultKind::Unwritten { register: 1 });
}

#[test]
fn the_frame_of_a_function_that_returned_is_gone() {
    let text = "call f\n r0 = *(u8 *)(r0 + 0)\n exit\nf:\n *(u8 *)(r10 - 1) = 1\n r0 = r10\n r0 += -1\n exit";
    assert!(matches!(fault(text).kind, FaultKind::Memory { .. }));
}

#[test]
fn ways_out_of_the_program() {
    assert_eq!(
        fault("goto -5").kind,
        FaultKind::OutOfProgram { target: -4 }
    );
    assert_eq!(fault("r0 = 0").kind, FaultKind::OutOfProgram { target: 1 });
    assert_eq!(fault(".raw 0xff 0 0 0 0").kind, FaultKind::Instruction);
    assert_eq!(fault(".raw 0x07 0 0 1 0").kind, FaultKind::Instruction);
    assert_eq!(fault("r10 = 1\n exit").kind, FaultKind::FramePointer);
    assert_eq!(fault("f:\n call f\n exit").kind, FaultKind::CallDepth);
    assert_eq!(fault("call 9999").kind, FaultKind::NoHelper { id: 9999 });
    // Into the second half of a load.
    assert_eq!(
        fault("goto 1\n r1 = map 0\n exit").kind,
        FaultKind::Instruction
    );
}

#[test]
fn helpers_are_given_what_their_contract_says() {
    let key = "r1 = map 0\n r2 = r10\n r2 += -4\n";
    let unwritten = argument(&format!("{key} call 1\n exit"));
    assert!(matches!(
        unwritten,
        (2, Argument::Fault(FaultKind::UnwrittenStack { offset: -4 }))
    ));
    let null = argument("r1 = map 0\n r2 = 0\n call 1\n exit");
    assert_eq!(null, (2, Argument::Null));
    let no_map = argument("r2 = r10\n r1 = r2\n call 1\n exit");
    assert_eq!(no_map, (1, Argument::NotMap));
    let kind = argument("r1 = map 7\n r2 = r10\n call 1\n exit");
    assert_eq!(kind, (1, Argument::MapKind { kind: "queue" }));
    let context = argument("r1 = r10\n r2 = 0\n call 44\n exit");
    assert_eq!(context, (1, Argument::NotContext));
    let frozen = "*(u64 *)(r10 - 16) = 0\n *(u64 *)(r10 - 8) = 0\n r1 = map 2\n r2 = r10\n r2 += -4
        r3 = r10\n r3 += -16\n r4 = 0\n call 2\n exit";
    assert_eq!(argument(frozen), (1, Argument::ReadOnlyMap));
    for size in [-1, i64::from(i32::MIN), 0, 1 << 29] {
        let text = format!("r2 = 0\n r3 = r10\n r3 += -8\n r4 = {size}\n call 189\n exit");
        let (n, cause) = argument(&text);
        assert_eq!(
            (n, cause),
            (
                3,
                Argument::Size {
                    size: size.cast_unsigned()
                }
            )
        );
    }
    let long = "r2 = 0\n r3 = r10\n r3 += -8\n r4 = 9\n call 189\n exit";
    assert!(matches!(
        argument(long),
        (
            3,
            Argument::Fault(FaultKind::Memory {
                access: Access::Write,
                size: 9,
                ..
            })
        )
    ));
    let packet = "r6 = r1\n r3 = *(u32 *)(r1 + 0)\n r2 = 0\n r4 = 4\n r1 = r6\n call 189\n exit";
    assert_eq!(argument(packet), (3, Argument::Packet));
    // Memory that overlaps: both are read, and the sums take each other off.
    let overlap = "*(u64 *)(r10 - 8) = 7\n r1 = r10\n r1 += -8\n r2 = 8\n r3 = r1\n r4 = 8\n r5 = 0
        call 28\n exit";
    assert_eq!(run(overlap).map(|r| r.r0), Ok(0xffff));
}

#[test]
fn values_are_the_programs_from_their_lookup_on() {
    let look_up = "*(u32 *)(r10 - 4) = 3\n r1 = map 0\n r2 = r10\n r2 += -4\n call 1\n";
    let ok = format!(
        "{look_up} if r0 == 0 goto out\n *(u64 *)(r0 + 0) = 5\n r0 = *(u64 *)(r0 + 0)\nout:\n exit"
    );
    assert_eq!(run(&ok).map(|r| r.r0), Ok(5));
    let past = format!("{look_up} r0 = *(u8 *)(r0 + 8)\n exit");
    assert!(matches!(
        fault(&past).kind,
        FaultKind::Memory {
            near: Near::Region {
                kind: RegionKind::MapValue,
                offset: 8,
                len: 8
            },
            ..
        }
    ));
    let absent = "*(u32 *)(r10 - 4) = 99\n r1 = map 0\n r2 = r10\n r2 += -4\n call 1\n r0 = *(u8 *)(r0 + 0)\n exit";
    assert!(matches!(
        fault(absent).kind,
        FaultKind::Memory {
            near: Near::Null,
            ..
        }
    ));
}

#[test]
fn a_function_of_memory() {
    let maps = Maps::create(&[], 1).expect("none");
    let run = |text: &str| {
        let mut memory = [1, 2, 3, 4];
        let checked = Checked::new(&asm::program(text), &maps);
        let ran = checked.run_on_memory(&mut Cpu::new(0), &mut memory, 100);
        (ran.map(|r| r.r0).map_err(|f| f.kind), memory)
    };
    let text = "r0 = *(u32 *)(r1 + 0)\n r0 += r2\n *(u8 *)(r1 + 3) = 9\n exit";
    assert_eq!(run(text), (Ok(0x0403_0205), [1, 2, 3, 9]));
    let (past, _) = run("r0 = *(u8 *)(r1 + 4)\n exit");
    let near = region(RegionKind::Memory, 4, 4);
    assert_eq!(
        past,
        Err(FaultKind::Memory {
            access: Access::Read,
            size: 1,
            near
        })
    );
}

#[test]
fn records_are_given_back_once() {
    let reserve = "r1 = map 12\n r2 = 8\n r3 = 0\n call 131\n if r0 == 0 goto out\n r6 = r0\n";
    let submit = "r1 = r6\n r2 = 0\n call 132\n r0 = 1\n";
    let kept = format!("{reserve} r0 = 0\nout:\n exit");
    assert_eq!(fault(&kept).kind, FaultKind::Kept { records: 1 });
    let good = format!("{reserve} *(u64 *)(r6 + 0) = 1\n {submit}out:\n exit");
    assert_eq!(run(&good).map(|r| r.r0), Ok(1));
    let twice = format!("{reserve} {submit} {submit}out:\n exit");
    assert_eq!(argument(&twice), (1, Argument::NotRecord));
    let inside = format!("{reserve} r6 += 1\n {submit}out:\n exit");
    assert_eq!(argument(&inside), (1, Argument::NotRecord));
    let after = format!("{reserve} {submit} *(u64 *)(r6 + 0) = 1\nout:\n exit");
    assert!(matches!(fault(&after).kind, FaultKind::Memory { .. }));
    let past = format!("{reserve} *(u64 *)(r6 + 8) = 1\nout:\n exit");
    let near = region(RegionKind::Record, 8, 8);
    let expected = FaultKind::Memory {
        access: Access::Write,
        size: 8,
        near,
    };
    assert_eq!(fault(&past).kind, expected);
}
