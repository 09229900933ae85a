//! SYN cookies for headers that a program has at hand (`bpf_tcp_raw_gen_syncookie_ipv4` and kin).

use super::Env;
use crate::cpu::Cpu;
use crate::errno::Errno;
use crate::memory::{self, pointer};
use crate::syncookie::{self, Flow, Ports};

/// Bytes of a TCP header without options.
const TCP: usize = 20;
/// Bytes of the longest one.
const MOST_TCP: usize = 60;
/// Nanoseconds that a cookie's count goes by.
const MINUTE: u64 = 60_000_000_000;

macro_rules! helpers {
    ($generate:ident, $check:ident, $flow:ident) => {
        /// The cookie, and above it the segment size that it carries.
        pub(super) unsafe extern "C" fn $generate(
            env: &mut Env<'_, '_>,
            ip: u64,
            tcp: u64,
            len: u64,
            _: u64,
            _: u64,
        ) -> u64 {
            let len = len as u32 as usize;
            let mut header = [0; MOST_TCP];
            let Some(header) = header.get_mut(..len).filter(|h| h.len() >= TCP) else {
                return Errno::EINVAL.as_return();
            };
            // SAFETY: the contract: `len` bytes can be read, and an IP header.
            let flow = unsafe {
                memory::copy(header.as_mut_ptr(), pointer(tcp), len);
                $flow(ip, header)
            };
            generate(env.cpu, &flow, header)
        }

        /// 0 where the acknowledgement answers a cookie.
        pub(super) unsafe extern "C" fn $check(
            env: &mut Env<'_, '_>,
            ip: u64,
            tcp: u64,
            _: u64,
            _: u64,
            _: u64,
        ) -> u64 {
            let mut header = [0; TCP];
            // SAFETY: the contract: a TCP header and an IP header can be read.
            let flow = unsafe {
                memory::copy(header.as_mut_ptr(), pointer(tcp), TCP);
                $flow(ip, &header)
            };
            check(env.cpu, &flow, &header)
        }
    };
}

helpers!(gen_ipv4, check_ipv4, ipv4);
helpers!(gen_ipv6, check_ipv6, ipv6);

fn generate(cpu: &Cpu, flow: &Flow, tcp: &[u8]) -> u64 {
    let header_len = usize::from(tcp[12] >> 4) * 4;
    if header_len != tcp.len() {
        return Errno::EINVAL.as_return();
    }
    let mss = segment_size(&tcp[TCP..]).unwrap_or(flow.least_size());
    let seq = word(tcp, 4);
    let (cookie, mss) = syncookie::make(&cpu.syncookies, flow, seq, mss, minute(cpu));
    u64::from(mss) << 32 | u64::from(cookie)
}

fn check(cpu: &Cpu, flow: &Flow, tcp: &[u8; TCP]) -> u64 {
    let seq = word(tcp, 4).wrapping_sub(1);
    let cookie = word(tcp, 8).wrapping_sub(1);
    match syncookie::check(&cpu.syncookies, flow, seq, cookie, minute(cpu)) {
        Some(_) => 0,
        None => Errno::EACCES.as_return(),
    }
}

/// The last segment size other than 0 that the options of a TCP header offer (RFC 9293, 3.1). Options
/// that are cut end the list.
fn segment_size(mut options: &[u8]) -> Option<u16> {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const SEGMENT_SIZE: u8 = 2;
    let mut found = None;
    while let Some((&kind, rest)) = options.split_first() {
        match kind {
            END => break,
            NOTHING => options = rest,
            _ => {
                let len = usize::from(rest.first().copied().unwrap_or(0));
                if len < 2 || len > options.len() {
                    break;
                }
                if let (SEGMENT_SIZE, &[_, _, high, low]) = (kind, &options[..len])
                    && (high, low) != (0, 0)
                {
                    found = Some(u16::from_be_bytes([high, low]));
                }
                options = &options[len..];
            }
        }
    }
    found
}

fn minute(cpu: &Cpu) -> u32 {
    (cpu.now(libc::CLOCK_MONOTONIC_COARSE) / MINUTE) as u32
}

/// Four bytes in network order.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn ports(tcp: &[u8]) -> Ports {
    Ports {
        source: [tcp[0], tcp[1]],
        destination: [tcp[2], tcp[3]],
    }
}

/// # Safety
/// An IPv4 header without options can be read.
unsafe fn ipv4(ip: u64, tcp: &[u8]) -> Flow {
    // SAFETY: the caller's promise.
    unsafe {
        Flow::Ipv4 {
            source: bytes(ip, 12),
            destination: bytes(ip, 16),
            ports: ports(tcp),
        }
    }
}

/// # Safety
/// An IPv6 header can be read.
unsafe fn ipv6(ip: u64, tcp: &[u8]) -> Flow {
    // SAFETY: the caller's promise.
    unsafe {
        Flow::Ipv6 {
            source: bytes(ip, 8),
            destination: bytes(ip, 24),
            ports: ports(tcp),
        }
    }
}

/// # Safety
/// `N` bytes can be read `at` bytes from the header's start.
unsafe fn bytes<const N: usize>(header: u64, at: usize) -> [u8; N] {
    let mut out = [0; N];
    // SAFETY: the caller's promise.
    unsafe { memory::copy(out.as_mut_ptr(), pointer(header).add(at), N) };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segment_size_is_found_among_options() {
        for (options, expected) in [
            (&[][..], None),
            (&[2, 4, 5, 180], Some(1460)),
            (&[1, 1, 2, 4, 5, 180], Some(1460)),
            (&[3, 3, 7, 2, 4, 5, 180], Some(1460)),
            (&[2, 4, 5, 180, 2, 4, 2, 24], Some(536)),
            (&[2, 4, 5, 180, 2, 4, 0, 0], Some(1460)),
            (&[0, 2, 4, 5, 180], None),
            (&[2, 4, 5], None),
            (&[2], None),
            (&[8, 0, 2, 4, 5, 180], None),
            (&[8, 1, 2, 4, 5, 180], None),
            (&[2, 3, 5, 2, 4, 5, 180], Some(1460)),
        ] {
            assert_eq!(segment_size(options), expected, "{options:?}");
        }
    }
}
