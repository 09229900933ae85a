//! SYN cookies: initial sequence numbers that carry a connection's maximum segment size, so that a
//! server keeps nothing of a SYN until its ACK comes back (RFC 4987, section 3.6). The arithmetic is
//! Linux's (`net/ipv4/syncookies.c`, `net/ipv6/syncookies.c`), on SipHash-2-4: with the same secrets and
//! the same minute, the same cookies.

use std::hash::Hasher;
use std::sync::OnceLock;

use siphasher::sip::SipHasher24;

/// Low bits of a cookie that carry the segment size; the minute is above them.
const BITS: u32 = 24;
const MASK: u32 = (1 << BITS) - 1;
/// Minutes that a cookie holds, the one that it was made in included.
const MAX_AGE: u32 = 2;
/// Segment sizes that a cookie can carry.
const SIZES_IPV4: [u16; 4] = [536, 1300, 1440, 1460];
/// As above: of IPv6, the MTUs 1280, 1480, 1500 and 9000 less 60 bytes of headers.
const SIZES_IPV6: [u16; 4] = [1220, 1420, 1440, 8940];

/// The keys of cookies. Workers that answer for each other share them; the default ones are random,
/// and the same throughout the process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secrets {
    /// Of IPv4: for the sequence number, and for the segment size.
    pub ipv4: [[u8; 16]; 2],
    /// Of IPv6, likewise.
    pub ipv6: [[u8; 16]; 2],
}

impl Secrets {
    /// Those of the process, made when they are first asked for.
    pub fn of_process() -> Self {
        static SECRETS: OnceLock<Secrets> = OnceLock::new();
        *SECRETS.get_or_init(|| Secrets {
            ipv4: [random(), random()],
            ipv6: [random(), random()],
        })
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

/// 16 bytes that nobody guesses.
#[allow(unsafe_code)]
fn random() -> [u8; 16] {
    let mut key = [0u8; 16];
    // SAFETY: writes at most as many bytes as there are.
    let got = unsafe { libc::getrandom(key.as_mut_ptr().cast(), key.len(), 0) };
    if got != key.len() as isize {
        // Kernels before 3.17 have not the call.
        key = fastrand::u128(..).to_le_bytes();
    }
    key
}

/// The ends of a connection, as its packets have them: addresses and ports in network order.
#[derive(Clone, Copy)]
pub(crate) enum Flow {
    Ipv4 {
        source: [u8; 4],
        destination: [u8; 4],
        ports: Ports,
    },
    Ipv6 {
        source: [u8; 16],
        destination: [u8; 16],
        ports: Ports,
    },
}

#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) source: [u8; 2],
    pub(crate) destination: [u8; 2],
}

impl Flow {
    fn sizes(&self) -> &'static [u16; 4] {
        match self {
            Flow::Ipv4 { .. } => &SIZES_IPV4,
            Flow::Ipv6 { .. } => &SIZES_IPV6,
        }
    }

    /// The segment size of a SYN that does not say: the least that its IP version promises.
    pub(crate) fn least_size(&self) -> u16 {
        self.sizes()[0]
    }

    /// The keyed hash of the flow and a count.
    fn hash(&self, secrets: &Secrets, which: usize, count: u32) -> u32 {
        let mut bytes = [0u8; 40];
        let (key, len) = match self {
            Flow::Ipv4 {
                source,
                destination,
                ports,
            } => {
                bytes[..4].copy_from_slice(source);
                bytes[4..8].copy_from_slice(destination);
                // One word: the source port is its upper half, each as the packet has it.
                bytes[8..10].copy_from_slice(&ports.destination);
                bytes[10..12].copy_from_slice(&ports.source);
                bytes[12..16].copy_from_slice(&count.to_le_bytes());
                (&secrets.ipv4[which], 16)
            }
            Flow::Ipv6 {
                source,
                destination,
                ports,
            } => {
                bytes[..16].copy_from_slice(source);
                bytes[16..32].copy_from_slice(destination);
                bytes[32..36].copy_from_slice(&count.to_le_bytes());
                bytes[36..38].copy_from_slice(&ports.source);
                bytes[38..40].copy_from_slice(&ports.destination);
                (&secrets.ipv6[which], 40)
            }
        };
        let mut hasher = SipHasher24::new_with_key(key);
        hasher.write(&bytes[..len]);
        hasher.finish() as u32
    }
}

/// The cookie for a SYN of sequence number `seq` that offers segments of `mss` bytes, made in minute
/// `minute`; and the segment size that the cookie carries, the greatest not above it.
pub(crate) fn make(secrets: &Secrets, flow: &Flow, seq: u32, mss: u16, minute: u32) -> (u32, u16) {
    let sizes = flow.sizes();
    let index = sizes.iter().rposition(|&size| mss >= size).unwrap_or(0);
    let carried = flow.hash(secrets, 1, minute).wrapping_add(index as u32) & MASK;
    let cookie = flow
        .hash(secrets, 0, 0)
        .wrapping_add(seq)
        .wrapping_add(minute << BITS)
        .wrapping_add(carried);
    (cookie, sizes[index])
}

/// The segment size that `cookie` carries, where it was made for this flow and for a SYN of sequence
/// number `seq`, in minute `minute` or the one before.
pub(crate) fn check(
    secrets: &Secrets,
    flow: &Flow,
    seq: u32,
    cookie: u32,
    minute: u32,
) -> Option<u16> {
    let rest = cookie.wrapping_sub(flow.hash(secrets, 0, 0).wrapping_add(seq));
    let age = minute.wrapping_sub(rest >> BITS) & (u32::MAX >> BITS);
    if age >= MAX_AGE {
        return None;
    }
    let made = minute.wrapping_sub(age);
    let index = rest.wrapping_sub(flow.hash(secrets, 1, made)) & MASK;
    flow.sizes().get(index as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let key = |first: u8| std::array::from_fn(|n| first + n as u8);
        Secrets {
            ipv4: [key(0), key(16)],
            ipv6: [key(32), key(48)],
        }
    }

    fn flows() -> [Flow; 2] {
        let ports = Ports {
            source: [0xc0, 0x01],
            destination: [0, 80],
        };
        [
            Flow::Ipv4 {
                source: [192, 0, 2, 1],
                destination: [198, 51, 100, 2],
                ports,
            },
            Flow::Ipv6 {
                source: [0x20; 16],
                destination: [0xfd; 16],
                ports,
            },
        ]
    }

    /// The reference's vectors (SipHash-2-4, key 00 to 0f, input 00, 01, ...), of the lengths that are
    /// hashed here: 16 bytes as its table has them.
    #[test]
    fn the_hash_is_siphash() {
        let key: [u8; 16] = std::array::from_fn(|n| n as u8);
        let hash = |len: u8| {
            let mut hasher = SipHasher24::new_with_key(&key);
            hasher.write(&(0..len).collect::<Vec<u8>>());
            hasher.finish()
        };
        assert_eq!(hash(0), 0x726f_db47_dd0e_0e31);
        assert_eq!(hash(15), 0xa129_ca61_49be_45e5);
        assert_eq!(hash(16), 0x3f2a_cc7f_57c2_9bdb);
    }

    #[test]
    fn a_cookie_holds_for_two_minutes_and_for_its_flow() {
        let secrets = secrets();
        let mut other = secrets;
        other.ipv4[1][3] ^= 1;
        other.ipv6[1][3] ^= 1;
        for flow in flows() {
            for minute in [0, 1, 255, 256, 0x1234_5678, u32::MAX] {
                for (seq, mss) in [(0, 0), (1, 536), (u32::MAX, 1459), (77, 1460), (5, 9000)] {
                    let (cookie, carried) = make(&secrets, &flow, seq, mss, minute);
                    assert!(carried <= mss.max(flow.least_size()));
                    let at = |seq, cookie, minute| check(&secrets, &flow, seq, cookie, minute);
                    assert_eq!(at(seq, cookie, minute), Some(carried));
                    assert_eq!(at(seq, cookie, minute.wrapping_add(1)), Some(carried));
                    assert_eq!(at(seq, cookie, minute.wrapping_add(2)), None);
                    assert_eq!(at(seq, cookie, minute.wrapping_sub(1)), None);
                    assert_eq!(at(seq, cookie ^ 0x10_0000, minute), None);
                    assert_eq!(at(seq ^ 0x10_0000, cookie, minute), None);
                    assert_eq!(check(&other, &flow, seq, cookie, minute), None);
                }
            }
        }
    }

    #[test]
    fn sizes_are_rounded_down_to_what_a_cookie_can_carry() {
        let carried = |flow: &Flow, mss| make(&secrets(), flow, 0, mss, 0).1;
        let [four, six] = flows();
        for (mss, of_four, of_six) in [
            (0, 536, 1220),
            (1299, 536, 1220),
            (1300, 1300, 1220),
            (1439, 1300, 1420),
            (1440, 1440, 1440),
            (1460, 1460, 1440),
            (8939, 1460, 1440),
            (8940, 1460, 8940),
            (u16::MAX, 1460, 8940),
        ] {
            assert_eq!((carried(&four, mss), carried(&six, mss)), (of_four, of_six));
        }
    }
}
