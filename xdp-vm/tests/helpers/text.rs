//! Numbers in text, texts against constants, and text from numbers.

use crate::{Both, asm, rodata};
use xdp_vm::verifier::{Config, verify};
use xdp_vm::{MapKind, MapSpec};

/// The text lies on the stack from -64 on, `len` bytes of it; the result is `r0` and the number behind
/// it, in the packet's first 16 bytes.
fn number(text: &[u8], flags: u64, helper: u32) -> (i64, u64) {
    let mut bytes = [0; 64];
    bytes[..text.len()].copy_from_slice(text);
    let mut program = String::from("r6 = *(u32 *)(r1 + 0)\n r7 = *(u32 *)(r1 + 4)\n");
    for (n, word) in bytes.chunks(4).enumerate() {
        let word = i32::from_le_bytes(word.try_into().unwrap());
        program += &format!("*(u32 *)(r10 - {}) = {word}\n", 64 - 4 * n as i32);
    }
    program += &format!(
        "r1 = r10
         r1 += -64
         r2 = {}
         r3 = {flags} ll
         r4 = r10
         r4 += -72
         call {helper}
         r1 = r6
         r1 += 16
         if r1 > r7 goto out
         *(u64 *)(r6 + 0) = r0
         r0 = *(u64 *)(r10 - 72)
         *(u64 *)(r6 + 8) = r0
         out:
         r0 = 2
         exit",
        text.len()
    );
    let (_, after) = Both::new(&program, &[]).run(&[0xff; 64]);
    let word = |at: usize| u64::from_le_bytes(after[at..at + 8].try_into().unwrap());
    (word(0).cast_signed(), word(8))
}

pub(crate) fn numbers_are_read_from_text() {
    const STRTOL: u32 = 105;
    const STRTOUL: u32 = 106;
    for (text, flags, signed, unsigned) in [
        (&b"42"[..], 10, (2, 42), (2, 42)),
        (b"42 and more", 0, (2, 42), (2, 42)),
        (b" \t\n-7", 0, (5, -7i64 as u64), (-22, 0)),
        (b"\xa0\x0b5", 0, (3, 5), (3, 5)),
        (b"0x1F.", 0, (4, 31), (4, 31)),
        (b"0X1f", 16, (4, 31), (4, 31)),
        (b"1f", 16, (2, 31), (2, 31)),
        (b"0x", 0, (1, 0), (1, 0)),
        (b"0x", 16, (-22, 0), (-22, 0)),
        (b"0755", 0, (4, 493), (4, 493)),
        (b"089", 0, (1, 0), (1, 0)),
        (b"089", 8, (1, 0), (1, 0)),
        (b"9", 8, (-22, 0), (-22, 0)),
        (b"-0", 10, (2, 0), (-22, 0)),
        (b"+5", 10, (-22, 0), (-22, 0)),
        (b"- 5", 10, (-22, 0), (-22, 0)),
        (b"--5", 10, (-22, 0), (-22, 0)),
        (b"   ", 10, (-22, 0), (-22, 0)),
        (b"-", 10, (-22, 0), (-22, 0)),
        (b"\0", 10, (-22, 0), (-22, 0)),
        (b"7\x008", 10, (1, 7), (1, 7)),
        (
            b"9223372036854775807",
            10,
            (19, i64::MAX as u64),
            (19, i64::MAX as u64),
        ),
        (b"9223372036854775808", 10, (-34, 0), (19, 1 << 63)),
        (b"-9223372036854775808", 10, (20, 1 << 63), (-22, 0)),
        (b"-9223372036854775809", 10, (-34, 0), (-22, 0)),
        (b"18446744073709551615", 10, (-34, 0), (20, u64::MAX)),
        (b"18446744073709551616", 10, (-34, 0), (-34, 0)),
        (b"5", 1, (-22, 0), (-22, 0)),
        (b"5", 7, (-22, 0), (-22, 0)),
        (b"5", 42, (-22, 0), (-22, 0)),
        (b"5", 1 << 40, (-22, 0), (-22, 0)),
        (&[b'0'; 64], 10, (63, 0), (63, 0)),
    ] {
        assert_eq!(
            number(text, flags, STRTOL),
            signed,
            "strtol {text:?} {flags}"
        );
        assert_eq!(
            number(text, flags, STRTOUL),
            unsigned,
            "strtoul {text:?} {flags}"
        );
    }
}

pub(crate) fn texts_are_compared_with_constants() {
    let constants = [rodata(b"abc\0\xff\0abcdefgh\0")];
    let compare = |text: &[u8; 4], len: u32, at: u32| {
        let word = i32::from_le_bytes(*text);
        let program = format!(
            "*(u32 *)(r10 - 4) = {word}
             r1 = r10
             r1 += -4
             r2 = {len}
             r3 = value 0 + {at}
             call 182
             exit"
        );
        Both::new(&program, &constants)
            .run(&[0; 64])
            .0
            .cast_signed()
    };
    for (text, len, at, expected) in [
        (b"abc\0", 4, 0, 0),
        (b"abcd", 4, 0, 1),
        (b"abcd", 3, 0, 0),
        (b"ab\0\0", 4, 0, -1),
        (b"abd\0", 4, 0, 1),
        (b"abb\0", 4, 0, -1),
        (b"abcd", 4, 6, 0),
        (b"abce", 4, 6, 1),
        (b"\x7f\0\0\0", 4, 4, -1),
        (b"\xff\0zz", 4, 4, 0),
        (b"\0zzz", 4, 3, 0),
    ] {
        assert_eq!(compare(text, len, at), expected, "{text:?} {len} {at}");
    }
}

/// A text made of `numbers` by `format`, of which `size` bytes have room: what is returned, and the room.
fn printed(format: &str, numbers: &[u64], size: u32) -> (i32, Vec<u8>) {
    let mut program = String::from("r6 = *(u32 *)(r1 + 0)\n r7 = *(u32 *)(r1 + 4)\n");
    for at in (48..=80).step_by(8) {
        program += &format!("*(u64 *)(r10 - {at}) = 0\n");
    }
    for (n, number) in numbers.iter().enumerate() {
        program += &format!(
            "r1 = {} ll\n *(u64 *)(r10 - {}) = r1\n",
            number.cast_signed(),
            48 - 8 * n
        );
    }
    program += &format!(
        "r1 = r10
         r1 += -80
         r2 = {size}
         r3 = value 0 + 0
         r4 = r10
         r4 += -48
         r5 = {}
         call 165
         r1 = r6
         r1 += 32
         if r1 > r7 goto out\n",
        8 * numbers.len()
    );
    for at in (0..32).step_by(8) {
        program += &format!(
            "r2 = *(u64 *)(r10 - {})\n *(u64 *)(r6 + {at}) = r2\n",
            80 - at
        );
    }
    program += "out:\n exit";
    let constants = [rodata(format!("{format}\0").as_bytes())];
    let (r0, after) = Both::new(&program, &constants).run(&[0xff; 64]);
    (r0.cast_signed(), after[..32].to_vec())
}

pub(crate) fn numbers_are_written_as_text() {
    for (format, numbers, size, expected) in [
        ("plain", &[][..], 32, "plain"),
        ("100%%", &[], 32, "100%"),
        ("%d|%u|%x", &[-5i64 as u64, 7, 255], 32, "-5|7|ff"),
        (
            "%lld %llx",
            &[-5i64 as u64, u64::MAX],
            32,
            "-5 ffffffffffffffff",
        ),
        ("%05d|%-4d|%4d", &[42, 1, 2], 32, "00042|1   |   2"),
        ("%c%c%c!", &[104, 105, 33], 32, "hi!!"),
        ("<%s>", &[0], 32, "<>"),
        ("%d", &[1, 2, 3], 32, "1"),
        ("%i %i %i %i %i %i", &[1, 2, 3, 4, 5, 6], 32, "1 2 3 4 5 6"),
        ("0123456789", &[], 11, "0123456789"),
    ] {
        let (len, room) = printed(format, numbers, size);
        assert_eq!(len, expected.len() as i32 + 1, "{format}");
        assert_eq!(&room[..expected.len()], expected.as_bytes(), "{format}");
        assert_eq!(room[expected.len()], 0, "{format}");
    }
    let (len, room) = printed("0123456789", &[], 4);
    assert_eq!(
        (len, &room[..4]),
        (11, &b"012\0"[..]),
        "cut, and told what it needs"
    );
    assert_eq!(printed("0123456789", &[], 0).0, 11);

    // What cannot be known to fit is refused, here as in the kernel.
    let refused = |constants: MapSpec, text: &str| {
        let program = asm::program(text);
        let specs = [constants];
        assert!(
            verify(&program, &specs, &Config::default()).is_err(),
            "{text}"
        );
        if crate::kernel::may_be_asked() {
            let theirs = crate::kernel::load(&program, &specs).unwrap();
            assert!(theirs.is_err(), "the kernel takes {text}");
        }
    };
    let print = |len: u32, at: u32| {
        format!(
            "*(u64 *)(r10 - 8) = 0
             *(u64 *)(r10 - 16) = 0
             r1 = r10
             r1 += -8
             r2 = 8
             r3 = value 0 + {at}
             r4 = r10
             r4 += -16
             r5 = {len}
             call 165
             exit"
        )
    };
    refused(rodata(b"%d %d\0"), &print(8, 0));
    refused(rodata(b"%y\0"), &print(8, 0));
    refused(rodata(b"%d\0"), &print(7, 0));
    refused(rodata(b"%d"), &print(8, 0));
    refused(rodata(b"%d\0x"), &print(8, 3));
    let writable = MapSpec {
        frozen: false,
        ..rodata(b"%d\0")
    };
    refused(writable, &print(8, 0));
    let hash = crate::map(MapKind::Hash, 4, 8, 1);
    refused(
        hash,
        "r1 = r10\n r1 += -8\n *(u64 *)(r1 + 0) = 0\n r2 = 8\n r3 = r1\n call 182\n exit",
    );
    // The number of `strtol` lies at a multiple of 8.
    refused(
        rodata(b"x\0"),
        "*(u64 *)(r10 - 16) = 0\n *(u64 *)(r10 - 8) = 0
         r1 = r10\n r1 += -16\n r2 = 2\n r3 = 0\n r4 = r10\n r4 += -12\n call 105\n exit",
    );

    // Lines: what is returned is their length.
    let line = |format: &[u8; 8], numbers: u32| {
        let word = i64::from_le_bytes(*format);
        let text = format!(
            "r1 = {word} ll
             *(u64 *)(r10 - 8) = r1
             *(u64 *)(r10 - 16) = 6
             *(u64 *)(r10 - 24) = 5
             r1 = r10
             r1 += -8
             r2 = 8
             r3 = r10
             r3 += -24
             r4 = {}
             call 177
             exit",
            8 * numbers
        );
        Both::new(&text, &[]).run(&[0; 64]).0.cast_signed()
    };
    assert_eq!(line(b"%d %d\n\0\0", 2), 4);
    assert_eq!(line(b"%d %d\n\0\0", 1), -22);
    assert_eq!(line(b"%5d\0\0\0\0\0", 1), 5);
    assert_eq!(line(b"nothing\0", 0), 7);
    assert_eq!(line(b"no zero!", 0), -22);
}
