//! Arithmetic that the machine does otherwise than programs are promised.
//!
//! Division by zero gives zero, and the remainder is then what was divided. The one quotient that
//! overflows, of the lowest number by -1, is that number, its remainder zero (RFC 9669, 4.1).

pub(super) fn div64(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(0)
}

pub(super) fn div32(a: u32, b: u32) -> u32 {
    a.checked_div(b).unwrap_or(0)
}

pub(super) fn mod64(a: u64, b: u64) -> u64 {
    a.checked_rem(b).unwrap_or(a)
}

pub(super) fn mod32(a: u32, b: u32) -> u32 {
    a.checked_rem(b).unwrap_or(a)
}

pub(super) fn sdiv64(a: u64, b: u64) -> u64 {
    match b {
        0 => 0,
        b => a
            .cast_signed()
            .wrapping_div(b.cast_signed())
            .cast_unsigned(),
    }
}

pub(super) fn sdiv32(a: u32, b: u32) -> u32 {
    match b {
        0 => 0,
        b => a
            .cast_signed()
            .wrapping_div(b.cast_signed())
            .cast_unsigned(),
    }
}

pub(super) fn smod64(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => a
            .cast_signed()
            .wrapping_rem(b.cast_signed())
            .cast_unsigned(),
    }
}

pub(super) fn smod32(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        b => a
            .cast_signed()
            .wrapping_rem(b.cast_signed())
            .cast_unsigned(),
    }
}

pub(super) fn arsh64(a: u64, b: u64) -> u64 {
    a.cast_signed().wrapping_shr(b as u32).cast_unsigned()
}

pub(super) fn arsh32(a: u32, b: u32) -> u32 {
    a.cast_signed().wrapping_shr(b).cast_unsigned()
}
