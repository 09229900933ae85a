//! `bpf_trace_printk`, `bpf_trace_vprintk` and `bpf_snprintf`: the kernel's subset of formats
//! (`bpf_bprintf_prepare`), into the worker's [`Trace`](crate::trace::Trace) or the program's memory.
//!
//! Arguments are numbers: the verifier lets no pointer through. So `%s`, which the kernel reads from
//! an address that may be bad, prints nothing, as it does there for a bad one. Formats that only
//! mean something for pointers of a kernel (`%ps`, `%pI4` and the like) are refused with `EINVAL`.

use std::fmt::Write;

use super::Env;
use crate::errno::Errno;
use crate::memory::{self, pointer};
use crate::trace::Line;

/// Longest format that is looked at, as in the kernel's output buffer.
const MAX_FORMAT: usize = 1024;
/// Most arguments that come in memory.
const MAX_ARRAY: usize = 12;
const MAX_WIDTH: usize = 256;

pub(super) unsafe extern "C" fn trace_printk(
    env: &mut Env<'_, '_>,
    format: u64,
    size: u64,
    a: u64,
    b: u64,
    c: u64,
) -> u64 {
    let mut copy = [0; MAX_FORMAT];
    // SAFETY: the contract: `size` bytes can be read at `format`.
    match unsafe { copy_format(&mut copy, format, size) } {
        Some(format) => trace(env, format, &[a, b, c]),
        None => Errno::EINVAL.as_return(),
    }
}

pub(super) unsafe extern "C" fn trace_vprintk(
    env: &mut Env<'_, '_>,
    format: u64,
    size: u64,
    data: u64,
    len: u64,
    _: u64,
) -> u64 {
    let (mut copy, mut args) = ([0; MAX_FORMAT], [0; MAX_ARRAY]);
    // SAFETY: the contract: so many bytes can be read at both.
    let parts = unsafe {
        let args = copy_args(&mut args, data, len);
        copy_format(&mut copy, format, size).zip(args)
    };
    match parts {
        Some((format, args)) => trace(env, format, args),
        None => Errno::EINVAL.as_return(),
    }
}

/// What the text would take with its zero is returned; what fits is written, and zeros behind it to
/// the end of the memory, which the verifier takes for written.
pub(super) unsafe extern "C" fn snprintf(
    _: &mut Env<'_, '_>,
    to: u64,
    size: u64,
    format: u64,
    data: u64,
    len: u64,
) -> u64 {
    let size = size as u32 as usize;
    let mut args = [0; MAX_ARRAY];
    // SAFETY: the contract: `size` bytes can be written at `to`, `len` read at `data`, and at
    // `format` is a string of a map that nobody writes.
    unsafe {
        memory::zero(pointer(to), size);
        let format = constant(format);
        let Some(args) = copy_args(&mut args, data, len) else {
            return Errno::EINVAL.as_return();
        };
        let mut out = Bounded {
            to: pointer(to),
            room: size.saturating_sub(1),
            len: 0,
        };
        match print(format, args, &mut out) {
            Some(_) => out.len as u64 + 1,
            None => Errno::EINVAL.as_return(),
        }
    }
}

/// Conversions that a format makes of arguments; `None` where the kernel would refuse it.
pub(crate) fn conversions(format: &[u8]) -> Option<usize> {
    const MANY: [u64; MAX_ARRAY] = [0; MAX_ARRAY];
    let least = |n: &usize| print(format, &MANY[..*n], &mut Count(0)).is_some();
    (0..=MAX_ARRAY).find(least)
}

/// Prints a line, and returns its bytes.
fn trace(env: &mut Env<'_, '_>, format: &[u8], args: &[u64]) -> u64 {
    let mut count = Count(0);
    if print(format, args, &mut count).is_none() {
        return Errno::EINVAL.as_return();
    }
    env.cpu
        .trace
        .line(|line: &mut Line<'_>| print(format, args, line).unwrap_or(Err(std::fmt::Error)));
    count.0 as u64
}

/// The format, up to its zero. It is copied, since others may write it.
///
/// # Safety
/// `size` bytes can be read at `at`.
unsafe fn copy_format(copy: &mut [u8; MAX_FORMAT], at: u64, size: u64) -> Option<&[u8]> {
    let copy = copy.get_mut(..size as u32 as usize)?;
    // SAFETY: the caller's promise.
    unsafe { memory::copy(copy.as_mut_ptr(), pointer(at), copy.len()) };
    let end = copy.iter().position(|&b| b == 0)?;
    Some(&copy[..end])
}

/// Arguments of 8 bytes each.
///
/// # Safety
/// `len` bytes can be read at `at`.
unsafe fn copy_args(copy: &mut [u64; MAX_ARRAY], at: u64, len: u64) -> Option<&[u64]> {
    let len = len as u32 as usize;
    let copy = copy.get_mut(..len / 8).filter(|_| len.is_multiple_of(8))?;
    for (n, arg) in copy.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *arg = unsafe { memory::load64(pointer(at).add(8 * n)) };
    }
    Some(copy)
}

/// A string that is part of the program.
///
/// # Safety
/// The verifier found a zero behind it, in a map that nobody writes any more.
unsafe fn constant<'a>(at: u64) -> &'a [u8] {
    // SAFETY: the caller's promise; what nobody writes may be borrowed.
    unsafe { std::ffi::CStr::from_ptr(pointer(at).cast()) }.to_bytes()
}

/// The program's memory, of which as much is written as there is room for.
struct Bounded {
    to: *mut u8,
    room: usize,
    len: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        let fits = s.len().min(self.room.saturating_sub(self.len));
        if fits > 0 {
            // SAFETY: whoever made this said that `room` bytes can be written.
            unsafe { memory::copy(self.to.add(self.len), s.as_ptr(), fits) };
        }
        self.len += s.len();
        Ok(())
    }
}

/// Counts bytes.
struct Count(usize);

impl Write for Count {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        self.0 += s.len();
        Ok(())
    }
}

/// A conversion such as `%08llx`.
struct Conversion {
    left: bool,
    zeros: bool,
    space: bool,
    width: usize,
    /// `l` or `ll`: all 64 bits.
    long: bool,
    letter: u8,
}

/// Writes `format` with its arguments. `None` where the kernel would refuse the format; an inner
/// error where `out` has no room.
fn print(format: &[u8], args: &[u64], out: &mut impl Write) -> Option<std::fmt::Result> {
    let mut rest = format;
    let mut used = 0;
    let mut result = Ok(());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            if !(byte == b' ' || byte.is_ascii_graphic() || (b'\t'..=b'\r').contains(&byte)) {
                return None;
            }
            result = result.and_then(|()| out.write_char(byte as char));
            continue;
        }
        if let Some(after) = rest.strip_prefix(b"%") {
            rest = after;
            result = result.and_then(|()| out.write_char('%'));
            continue;
        }
        let (conversion, after) = conversion(rest)?;
        rest = after;
        let argument = *args.get(used)?;
        used += 1;
        let written = write(&conversion, argument, out)?;
        result = result.and(written);
    }
    Some(result)
}

fn conversion(mut rest: &[u8]) -> Option<(Conversion, &[u8])> {
    let mut c = Conversion {
        left: false,
        zeros: false,
        space: false,
        width: 0,
        long: false,
        letter: 0,
    };
    let mut next = || {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        Some(byte)
    };
    let mut byte = next()?;
    while let b'0' | b'-' | b' ' | b'+' = byte {
        match byte {
            b'0' => c.zeros = true,
            b'-' => c.left = true,
            b' ' => c.space = true,
            _ => return None,
        }
        byte = next()?;
    }
    while byte.is_ascii_digit() {
        c.width = (c.width * 10 + usize::from(byte - b'0')).min(MAX_WIDTH);
        byte = next()?;
    }
    while byte == b'l' {
        c.long = true;
        byte = next()?;
    }
    c.letter = byte;
    if byte == b'p' {
        // `%px` prints as `%p`; what else may follow asks for symbols or addresses.
        match rest.first() {
            Some(b'x') => rest = &rest[1..],
            Some(other) if other.is_ascii_alphanumeric() => return None,
            _ => {}
        }
    }
    Some((c, rest))
}

fn write(c: &Conversion, argument: u64, out: &mut impl Write) -> Option<std::fmt::Result> {
    let unsigned = if c.long {
        argument
    } else {
        argument & 0xffff_ffff
    };
    let signed = match c.long {
        true => argument.cast_signed(),
        false => i64::from(argument as i32),
    };
    let mut digits = Digits::default();
    let formatted = match c.letter {
        b'd' | b'i' if c.space && signed >= 0 => write!(digits, " {signed}"),
        b'd' | b'i' => write!(digits, "{signed}"),
        b'u' => write!(digits, "{unsigned}"),
        b'x' => write!(digits, "{unsigned:x}"),
        b'X' => write!(digits, "{unsigned:X}"),
        b'p' => write!(digits, "{argument:016x}"),
        b'c' if !c.long => match argument as u8 {
            0 => Ok(()),
            byte => digits.write_char(if byte.is_ascii() { byte as char } else { '?' }),
        },
        b's' if !c.long => Ok(()),
        _ => return None,
    };
    let text = digits.text();
    let fill = c.width.saturating_sub(text.len());
    let pad = |out: &mut dyn Write, with| (0..fill).try_for_each(|_| out.write_char(with));
    Some(formatted.and_then(|()| {
        if c.left {
            out.write_str(text)?;
            return pad(out, ' ');
        }
        if c.zeros && !matches!(c.letter, b'c' | b's') {
            // Zeros go behind the sign.
            let (sign, number) = match text.strip_prefix(['-', ' ']) {
                Some(number) => (&text[..1], number),
                None => ("", text),
            };
            out.write_str(sign)?;
            pad(out, '0')?;
            return out.write_str(number);
        }
        pad(out, ' ')?;
        out.write_str(text)
    }))
}

/// Text of one number, without an allocation.
#[derive(Default)]
struct Digits {
    bytes: [u8; 24],
    len: usize,
}

impl Digits {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for Digits {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        let end = self.len + s.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(format: &str, args: [u64; 3]) -> Option<String> {
        let mut out = String::new();
        print(format.as_bytes(), &args, &mut out)?.unwrap();
        Some(out)
    }

    #[test]
    fn conversions_print_as_the_kernels() {
        let minus = -5i64 as u64;
        for (format, args, expected) in [
            ("plain 100%%\n", [0; 3], "plain 100%\n"),
            ("%d %u %x", [minus, minus, minus], "-5 4294967291 fffffffb"),
            ("%ld %lu %lx", [minus, 7, minus], "-5 7 fffffffffffffffb"),
            (
                "%lld %llu %llX",
                [minus, u64::MAX, 0xab],
                "-5 18446744073709551615 AB",
            ),
            ("%i|%5d|%-5d|", [1, 2, 3], "1|    2|3    |"),
            ("%05d|%05d|% d", [42, minus, 7], "00042|-0005| 7"),
            ("%c%c%c", [104, 105, 33], "hi!"),
            ("%p", [0xffff_8880_1234_5678, 0, 0], "ffff888012345678"),
            ("%px.", [0x10, 0, 0], "0000000000000010."),
            ("<%s>", [0xdead, 0, 0], "<>"),
            ("%016llx", [0x1234, 0, 0], "0000000000001234"),
        ] {
            assert_eq!(
                formatted(format, args).as_deref(),
                Some(expected),
                "{format}"
            );
        }
    }

    #[test]
    fn formats_that_the_kernel_refuses_are_refused() {
        for format in [
            "%",
            "%l",
            "%y",
            "%hd",
            "%f",
            "%n",
            "%*d",
            "%.5d",
            "%+d",
            "%lc",
            "%ls",
            "%pI4",
            "%ps",
            "%d %d %d %d",
            "\u{1}",
            "caf\u{e9}",
            "%5",
        ] {
            assert_eq!(formatted(format, [0; 3]), None, "{format:?}");
        }
    }
}
