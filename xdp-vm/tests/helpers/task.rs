//! The thread that runs the program: the kernel's test runs are made by the thread that asks for them.

use crate::{Both, kernel};

/// Runs what leaves its answer in r0, and gives all of it.
fn answer(text: &str) -> u64 {
    let text = format!(
        "r6 = *(u32 *)(r1 + 0)
         r7 = *(u32 *)(r1 + 4)
         {text}
         r1 = r6
         r1 += 8
         if r1 > r7 goto out
         *(u64 *)(r6 + 0) = r0
         out:
         r0 = 2
         exit"
    );
    let (_, after) = Both::new(&text, &[]).run(&[0; 64]);
    u64::from_le_bytes(after[..8].try_into().unwrap())
}

pub(crate) fn the_thread_is_told_as_the_kernel_tells_it() {
    assert_eq!(answer("call 14") >> 32, u64::from(std::process::id()));
    answer("call 15");
    assert_eq!(answer("call 17"), 0);
    for size in [1, 4, 16, 24] {
        let name = |at: u32| {
            answer(&format!(
                "*(u64 *)(r10 - 24) = -1
                 *(u64 *)(r10 - 16) = -1
                 *(u64 *)(r10 - 8) = -1
                 r1 = r10
                 r1 += -24
                 r2 = {size}
                 call 16
                 r0 = *(u64 *)(r10 - {at})"
            ))
        };
        let first = name(24);
        assert_eq!(first & 0xff != 0, size > 1, "{first:#x} of {size} bytes");
        name(16);
        name(8);
    }
    let info = |device: u64, inode: u64, size: u32| {
        answer(&format!(
            "*(u64 *)(r10 - 16) = -1
             *(u64 *)(r10 - 8) = -1
             r1 = {device} ll
             r2 = {inode} ll
             r3 = r10
             r3 += -16
             r4 = {size}
             call 120
             r1 = *(u64 *)(r10 - 16)
             r1 <<= 8
             r0 ^= r1"
        ))
    };
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self/ns/pid").unwrap();
    let got = info(own.dev(), own.ino(), 8);
    let told = kernel::may_be_asked() || got != -22i64 as u64;
    assert!(told, "{got:#x}");
    assert_eq!(info(own.dev(), own.ino(), 16), -22i64 as u64);
    assert_eq!(info(own.dev(), own.ino() + 1, 8), -22i64 as u64);
    assert_eq!(info(own.dev() + 1, own.ino(), 8), -22i64 as u64);
}
