//! The packet: its checksums, its bytes, its metadata.

use crate::r0;

pub(crate) fn checksums_of_what_was_and_what_is() {
    let mut random = fastrand::Rng::with_seed(5);
    // Sizes of both, and the seed; the bytes lie on the stack.
    let run = |from: u32, to: u32, seed: u32, fill: &mut dyn FnMut() -> u32| {
        let mut text = String::new();
        for at in 1..=8 {
            text += &format!("w1 = {}\n *(u32 *)(r10 - {}) = r1\n", fill() as i32, 4 * at);
        }
        let pointer = |size: u32, at: u32, reg: u32| match size {
            0 => format!("r{reg} = 0\n"),
            _ => format!("r{reg} = r10\n r{reg} += -{at}\n"),
        };
        text += &pointer(from, 16, 1);
        text += &format!("r2 = {from}\n");
        text += &pointer(to, 32, 3);
        text += &format!("r4 = {to}\n w5 = {}\n call 28\n exit", seed as i32);
        r0(&text)
    };
    for (from, to) in [(0, 0), (0, 16), (16, 0), (16, 16), (4, 12), (12, 4), (0, 4)] {
        for seed in [0, 1, 0xffff, 0x1_0000, u32::MAX, random.u32(..)] {
            assert!((0..=0xffff).contains(&run(from, to, seed, &mut || random.u32(..))));
            run(from, to, seed, &mut || 0);
            run(from, to, seed, &mut || u32::MAX);
        }
    }
    for size in 1..16 {
        // Of newer kernels; older ones refuse what is no multiple of 4.
        run(size, 0, 5, &mut || random.u32(..));
        run(0, size, 5, &mut || random.u32(..));
        run(size, 16 - size, 5, &mut || random.u32(..));
    }
    assert_eq!(run(0, 16, 0, &mut || 1), 4, "the sum of four ones");
}

pub(crate) fn bytes_are_loaded_and_stored_within_the_packet() {
    let call = |helper: u32, offset: i64, len: u32| {
        format!(
            "r6 = r1
             *(u64 *)(r10 - 8) = -1
             *(u64 *)(r10 - 16) = -1
             r2 = {offset} ll
             r3 = r10
             r3 += -16
             r4 = {len}
             call {helper}
             exit"
        )
    };
    for helper in [189, 190] {
        for (offset, len, expected) in [
            (0, 16, 0),
            (48, 16, 0),
            (49, 16, -22),
            (63, 1, 0),
            (64, 1, -22),
            (-1, 1, -14),
            (0x1_0000, 1, -14),
            (0xffff, 1, -22),
            (1 << 32, 1, 0),
        ] {
            let got = r0(&call(helper, offset, len));
            assert_eq!(got, expected, "helper {helper}, {len} bytes at {offset}");
        }
    }
    // What was loaded is what is there.
    let text = "r2 = 9\n r3 = r10\n r3 += -8\n r4 = 4\n call 189\n r0 = *(u32 *)(r10 - 8)\n exit";
    assert_eq!(r0(text), i32::from_le_bytes([64, 71, 78, 85]));
    assert_eq!(r0("call 188\n exit"), 64);
}

pub(crate) fn metadata_grows_and_shrinks_as_in_the_kernel() {
    for (first, second, expected) in [
        (0, 0, 0),
        (-4, 0, 0),
        (-4, 4, 0),
        (-4, -4, 0),
        (-4, 8, -22),
        (-3, 0, -13),
        (4, 0, -22),
        (-216, 0, 0),
        (-220, 0, -22),
        (-212, -4, 0),
        (-212, -8, -22),
        (i32::MIN, 0, -22),
    ] {
        let text = format!(
            "r6 = r1\n r2 = {first}\n call 54\n r7 = r0\n if r0 != 0 goto out
             r1 = r6\n r2 = {second}\n call 54\n r7 = r0
             out:\n r0 = r7\n exit"
        );
        assert_eq!(r0(&text), expected, "{first} then {second}");
    }
}
