//! Packets over several buffers: 3,520 bytes linear, the rest in pages, as the kernel's test run has it.

use crate::Both;

/// The linear part, and a page.
const LINEAR: usize = 3520;
const PAGE: usize = 4096;

fn packet(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251 + 1) as u8).collect()
}

pub(crate) fn bytes_are_reached_in_every_buffer() {
    // Bytes that start where the packet's first word says are loaded and stored elsewhere, 32 at a time.
    let text = |load: i64, store: i64| {
        format!(
            "r6 = r1
             *(u64 *)(r10 - 8) = 0
             *(u64 *)(r10 - 16) = 0
             *(u64 *)(r10 - 24) = 0
             *(u64 *)(r10 - 32) = 0
             r2 = {load}
             r3 = r10
             r3 += -32
             r4 = 32
             call 189
             r7 = r0
             r1 = r6
             r2 = {store}
             r3 = r10
             r3 += -32
             r4 = 32
             call 190
             r7 <<= 8
             r7 += r0
             r1 = r6
             call 188
             r0 ^= r7
             exit"
        )
    };
    let long = LINEAR + 17 * PAGE;
    for len in [64, LINEAR, LINEAR + 1, 9000, 70_000, long] {
        let packet = packet(len);
        let last = len as i64 - 32;
        for (load, store) in [
            (0, 20),
            (last, 0),
            (0, last),
            (LINEAR as i64 - 16, 0),
            (0, LINEAR as i64 - 31),
            ((LINEAR + PAGE) as i64 - 1, (LINEAR + 3 * PAGE) as i64 - 16),
            (last + 1, 0),
            (0, last + 1),
            (0xffff, 0),
            (0x1_0000, 0),
        ] {
            let (r0, after) = Both::new(&text(load, store), &[]).run(&packet);
            let fits = |at: i64| at <= last && at <= 0xffff;
            if fits(load) && fits(store) {
                assert_eq!(r0, len as u32);
                let (load, store) = (load as usize, store as usize);
                assert_eq!(after[store..store + 32], packet[load..load + 32]);
            }
        }
    }
}

pub(crate) fn the_end_moves_through_the_buffers() {
    // Moves the end twice; the answers, and how far the program can see.
    let text = |first: i32, second: i32| {
        format!(
            "r6 = r1
             r2 = {first}
             call 65
             r7 = r0
             r1 = r6
             r2 = {second}
             call 65
             r7 <<= 16
             r7 += r0
             r2 = *(u32 *)(r6 + 0)
             r3 = *(u32 *)(r6 + 4)
             r3 -= r2
             r7 ^= r3
             r1 = r6
             call 188
             r0 ^= r7
             exit"
        )
    };
    let mut cut = 0;
    for len in [
        LINEAR,
        LINEAR + 1,
        LINEAR + 100,
        9000,
        70_000,
        LINEAR + 17 * PAGE,
    ] {
        let last = (len - LINEAR) % PAGE;
        let room = if len > LINEAR && last > 0 {
            PAGE - last
        } else {
            0
        };
        for (first, second) in [
            (0, 0),
            (1, 1),
            (-1, 1),
            (room as i32, 1),
            (room as i32 + 1, 0),
            (-(last as i32), 1),
            (-(last as i32) - 1, 5),
            (-5000, 300),
            (-(len as i32) + 14, 5),
            (-(len as i32) + 13, 5),
            (-((len - LINEAR) as i32), 1),
            (-((len - LINEAR) as i32) - 10, 10),
            (i32::MIN, i32::MAX),
        ] {
            let (_, after) = Both::new(&text(first, second), &[]).run(&packet(len));
            cut += usize::from(after.len() < LINEAR);
        }
    }
    assert!(cut > 0, "no packet was cut down to its linear part");
    // The head moves in the linear part only.
    for delta in [14, LINEAR as i32 - 14, LINEAR as i32 - 13, 4000, -216, -217] {
        let head = format!("r2 = {delta}\n call 44\n exit");
        Both::new(&head, &[]).run(&packet(9000));
    }
}
