//! SYN cookies. The kernel's secrets are its own, so its cookies are not ours: compared are the errors,
//! the segment sizes, how cookies differ where sequence numbers do, and that each accepts its own.

use xdp_vm::{Clock, Secrets};

use crate::Both;

const ETHERNET: usize = 14;

/// A program that makes a cookie for the packet's headers, the TCP header `len` bytes long, or checks one,
/// and leaves the answer in the packet's first 8 bytes.
fn program(helper: u32, ip: usize, len: usize) -> Both {
    let text = format!(
        "r6 = *(u32 *)(r1 + 0)
         r7 = *(u32 *)(r1 + 4)
         r1 = r6
         r1 += {}
         if r1 > r7 goto out
         r1 = r6
         r1 += {ETHERNET}
         r2 = r6
         r2 += {}
         r3 = {len}
         call {helper}
         *(u64 *)(r6 + 0) = r0
         out:
         r0 = 2
         exit",
        ETHERNET + ip + len.max(20),
        ETHERNET + ip
    );
    Both::new(&text, &[])
}

/// Ethernet, IP and TCP; `options` follow.
fn packet(ip: usize, seq: u32, acknowledged: u32, options: &[u8]) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..(ETHERNET + ip) as u8).collect();
    packet.extend([0xc0, 0x01, 0, 80]);
    packet.extend(seq.to_be_bytes());
    packet.extend(acknowledged.to_be_bytes());
    packet.push(((20 + options.len()) / 4) as u8 * 16);
    packet.extend([2, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(options);
    packet.resize(packet.len().max(ETHERNET + ip + 40), 0);
    packet
}

/// What the program said, here and in the kernel.
fn answers(program: &mut Both, packet: &[u8]) -> (i64, Option<i64>) {
    let first = |after: &[u8]| i64::from_le_bytes(after[..8].try_into().unwrap());
    let ours = first(&program.run_here(packet).1);
    let theirs = program.run_there(packet);
    (ours, theirs.map(|(_, after)| first(&after)))
}

pub(crate) fn cookies_answer_for_themselves() {
    const ACCESS: i64 = -13;
    for (make, check, ip) in [(204, 206, 20), (205, 207, 40)] {
        let mut check = program(check, ip, 20);
        for options in [
            &[][..],
            &[2, 4, 5, 180],
            &[1, 1, 1, 1, 2, 4, 2, 0],
            &[2, 4, 0x23, 0x28],
            &[2, 4, 0, 0],
            &[2, 4, 0, 1],
            &[3, 3, 7, 2, 4, 5, 160, 0],
            &[0, 2, 4, 5, 180, 0, 0, 0],
            &[8, 1, 2, 4],
            &[2, 3, 5, 0],
            &[254, 40, 2, 4],
        ] {
            let mut make = program(make, ip, 20 + options.len());
            let (ours, theirs) = answers(&mut make, &packet(ip, 77, 0, options));
            let (next, their_next) = answers(&mut make, &packet(ip, 78, 0, options));
            assert_eq!(next as u32, (ours as u32).wrapping_add(1));
            assert!(ours >> 32 >= 536, "{ours:#x}");
            if let (Some(theirs), Some(their_next)) = (theirs, their_next) {
                assert_eq!(ours >> 32, theirs >> 32, "segment size of {options:?}");
                assert_eq!(their_next as u32, (theirs as u32).wrapping_add(1));
            }
            let theirs = theirs.unwrap_or(ours);
            // The answer to ours is ours, and to theirs theirs.
            let ack = |cookie: i64, seq: u32| packet(ip, seq, (cookie as u32).wrapping_add(1), &[]);
            let here = |check: &mut Both, packet: &[u8]| answers(check, packet).0;
            let there = |check: &mut Both, packet: &[u8]| answers(check, packet).1.unwrap_or(0);
            assert_eq!(here(&mut check, &ack(ours, 78)), 0);
            assert_eq!(there(&mut check, &ack(theirs, 78)), 0);
            // Far off in what carries the size, and in the flow.
            let wrong = ack(ours ^ 0x80_0000, 78);
            assert_eq!(here(&mut check, &wrong), ACCESS);
            let mut other = ack(ours, 78);
            other[ETHERNET + ip] ^= 0x40;
            assert_eq!(here(&mut check, &other), ACCESS);
            if check.kernel.is_some() {
                assert_eq!(there(&mut check, &ack(theirs ^ 0x80_0000, 78)), ACCESS);
            }
        }
        // The kernel's window: the minute that the cookie was made in, and the next.
        let mut make = program(make, ip, 20);
        make.kernel = None;
        check.kernel = None;
        let secrets = Secrets {
            ipv4: [[1; 16], [2; 16]],
            ipv6: [[3; 16], [4; 16]],
        };
        const MINUTE: u64 = 60_000_000_000;
        for program in [&mut make, &mut check] {
            program.cpu.set_syncookie_secrets(secrets);
            program.cpu.set_clock(Clock::Fixed(1000 * MINUTE));
        }
        let cookie = answers(&mut make, &packet(ip, 5, 0, &[])).0 as u32;
        let ack = packet(ip, 6, cookie.wrapping_add(1), &[]);
        for (minute, expected) in [(1000, 0), (1001, 0), (1002, ACCESS), (999, ACCESS)] {
            check.cpu.set_clock(Clock::Fixed(minute * MINUTE + 7));
            assert_eq!(answers(&mut check, &ack).0, expected, "minute {minute}");
        }
    }
}

pub(crate) fn headers_that_are_cut_get_no_cookie() {
    for (make, ip) in [(204, 20), (205, 40)] {
        for len in [0, 19, 24, 60] {
            // The header says 20.
            let mut packet = packet(ip, 1, 0, &[]);
            packet.resize(ETHERNET + ip + 60, 0);
            let (ours, theirs) = answers(&mut program(make, ip, len), &packet);
            assert_eq!((ours, theirs.unwrap_or(ours)), (-22, -22), "{len} bytes");
        }
    }
}
