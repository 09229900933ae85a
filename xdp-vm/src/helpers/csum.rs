//! `bpf_csum_diff`: the Internet checksum of what changes (RFC 1071, RFC 1624), as the kernel has it
//! since 6.13: folded to 16 bits on every machine.

use super::Env;
use crate::memory::{self, pointer};

/// The sum of `to` less the sum of `from`, on top of `seed`. Of a size that is not a multiple of 4, which
/// older kernels refuse, zeros fill the last word.
pub(super) unsafe extern "C" fn csum_diff(
    _: &mut Env<'_, '_>,
    from: u64,
    from_size: u64,
    to: u64,
    to_size: u64,
    seed: u64,
) -> u64 {
    let (from_size, to_size, seed) = (from_size as u32, to_size as u32, seed as u32);
    // SAFETY: the contract: so many bytes can be read at both.
    let old = |seed| unsafe { partial(pointer(from), from_size as usize, seed) };
    // SAFETY: as above.
    let new = |seed| unsafe { partial(pointer(to), to_size as usize, seed) };
    let sum = match (from_size, to_size) {
        (0, 0) => seed,
        (0, _) => new(seed),
        // Taken off by adding to the complement.
        (_, 0) => !old(!seed),
        _ => fold32(u64::from(new(seed)) + u64::from(!old(0))),
    };
    u64::from(fold16(sum))
}

/// The sum of `len` bytes on top of `seed`, in ones' complement of 32 bits.
///
/// # Safety
/// `len` bytes can be read at `at`.
unsafe fn partial(at: *const u8, len: usize, seed: u32) -> u32 {
    let mut sum = u64::from(seed);
    let whole = len & !3;
    // SAFETY: inside `len`.
    unsafe {
        for offset in (0..whole).step_by(4) {
            sum += memory::load32(at.add(offset));
        }
        for offset in whole..len {
            sum += memory::load8(at.add(offset)) << (8 * (offset - whole));
        }
    }
    fold32(sum)
}

/// To 32 bits, the carries added in at the end.
fn fold32(sum: u64) -> u32 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    ((sum & 0xffff_ffff) + (sum >> 32)) as u32
}

fn fold16(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, section 3, in network order: the sum of its bytes is ddf2.
    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        // SAFETY: eight bytes.
        let sum = fold16(unsafe { partial(bytes.as_ptr(), 8, 0) });
        assert_eq!(sum.to_le_bytes(), [0xdd, 0xf2]);
    }

    #[test]
    fn sums_fold_whatever_they_carry() {
        let bytes = [0xff; 64];
        // SAFETY: 64 bytes.
        assert_eq!(unsafe { partial(bytes.as_ptr(), 64, u32::MAX) }, u32::MAX);
        assert_eq!(fold32(u64::MAX), u32::MAX);
        assert_eq!(fold16(0xffff_fffe), 0xfffe);
        assert_eq!(fold16(0), 0);
    }
}
