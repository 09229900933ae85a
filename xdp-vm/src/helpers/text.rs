//! Numbers in text, and text against text (`kernel/bpf/helpers.c`, `lib/kstrtox.c`).

use std::cmp::Ordering;

use super::Env;
use crate::errno::Errno;
use crate::memory::{self, pointer};

/// Bits of the flags that are the base: 8, 10, 16, or 0 for what the number's prefix says.
const BASE: u64 = 0x1f;
/// Bytes of a number that are looked at, its sign apart.
const MOST: usize = 63;

/// Reads a signed number, and returns how many bytes it took.
pub(super) unsafe extern "C" fn strtol(
    _: &mut Env<'_, '_>,
    text: u64,
    len: u64,
    flags: u64,
    to: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: `len` bytes can be read at `text`, and 8 written at `to`.
    let parsed = unsafe { parse(text, len, flags) };
    let value = parsed.and_then(|number| {
        let value = match number.negative {
            true => 0i64.wrapping_sub_unsigned(number.value),
            false => number.value.cast_signed(),
        };
        // The other sign, or a magnitude that has none.
        let fits = value == 0 || (value < 0) == number.negative;
        fits.then_some((value.cast_unsigned(), number.taken))
            .ok_or(Errno(libc::ERANGE))
    });
    // SAFETY: as above.
    unsafe { give(value, to) }
}

/// As `strtol`, without a sign.
pub(super) unsafe extern "C" fn strtoul(
    _: &mut Env<'_, '_>,
    text: u64,
    len: u64,
    flags: u64,
    to: u64,
    _: u64,
) -> u64 {
    // SAFETY: the contract: `len` bytes can be read at `text`, and 8 written at `to`.
    let parsed = unsafe { parse(text, len, flags) };
    let value = parsed.and_then(|number| match number.negative {
        true => Err(Errno::EINVAL),
        false => Ok((number.value, number.taken)),
    });
    // SAFETY: as above.
    unsafe { give(value, to) }
}

/// Writes the number, 0 where there is none, and returns what is returned.
///
/// # Safety
/// 8 bytes can be written at `to`.
unsafe fn give(value: Result<(u64, usize), Errno>, to: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { memory::store64(pointer(to), value.map_or(0, |(value, _)| value)) };
    match value {
        Ok((_, taken)) => taken as u64,
        Err(errno) => errno.as_return(),
    }
}

struct Number {
    value: u64,
    negative: bool,
    /// Bytes that it takes, spaces before it included.
    taken: usize,
}

/// # Safety
/// `len` bytes can be read at `text`.
unsafe fn parse(text: u64, len: u64, flags: u64) -> Result<Number, Errno> {
    let len = len as u32 as usize;
    if flags & !BASE != 0 || ![0, 8, 10, 16].contains(&flags) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise; what others may write is read once.
    let byte = |n: usize| unsafe { memory::load8(pointer(text).add(n)) as u8 };
    let mut at = (0..len).find(|&n| !is_space(byte(n))).unwrap_or(len);
    let negative = at < len && byte(at) == b'-';
    at += usize::from(negative);
    let mut copy = [0; MOST + 1];
    let rest = (len - at).min(MOST);
    for (n, to) in copy[..rest].iter_mut().enumerate() {
        *to = byte(at + n);
    }
    let (prefix, base) = radix(&copy, flags);
    let mut value = 0u64;
    let mut digits = 0;
    let mut fits = true;
    for digit in copy[prefix..]
        .iter()
        .map_while(|&b| char::from(b).to_digit(16))
    {
        if u64::from(digit) >= base {
            break;
        }
        let more = value.checked_mul(base);
        let more = more.and_then(|v| v.checked_add(u64::from(digit)));
        fits &= more.is_some();
        value = more.unwrap_or(value);
        digits += 1;
    }
    match digits {
        _ if !fits => Err(Errno(libc::ERANGE)),
        0 => Err(Errno::EINVAL),
        _ => Ok(Number {
            value,
            negative,
            taken: at + prefix + digits,
        }),
    }
}

/// Bytes of the prefix that is no part of the number, and its base.
fn radix(text: &[u8; MOST + 1], flags: u64) -> (usize, u64) {
    let hex = text[0] == b'0' && text[1].eq_ignore_ascii_case(&b'x');
    match flags {
        0 if hex && text[2].is_ascii_hexdigit() => (2, 16),
        0 if text[0] == b'0' => (0, 8),
        0 => (0, 10),
        16 if hex => (2, 16),
        base => (0, base),
    }
}

/// What the kernel takes for space: ASCII's, and the one of Latin-1 that does not break.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ' | 0xa0)
}

/// Compares at most `len` bytes with a constant: -1, 0 or 1.
pub(super) unsafe extern "C" fn strncmp(
    _: &mut Env<'_, '_>,
    text: u64,
    len: u64,
    constant: u64,
    _: u64,
    _: u64,
) -> u64 {
    for n in 0..len as u32 as usize {
        // SAFETY: the contract: `len` bytes can be read at `text`, and at `constant` is a string that
        // ends in a zero, past which this does not go.
        let (a, b) = unsafe {
            (
                memory::load8(pointer(text).add(n)),
                memory::load8(pointer(constant).add(n)),
            )
        };
        match a.cmp(&b) {
            Ordering::Less => return u64::MAX,
            Ordering::Greater => return 1,
            Ordering::Equal if a == 0 => return 0,
            Ordering::Equal => {}
        }
    }
    0
}
