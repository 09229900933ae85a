//! The tag of a program, which tools show beside its name: the first 8 bytes of the SHA-1 of its
//! instructions, where what names maps is zero, so that the same program has the same tag each time
//! it is loaded. So it is in kernels up to 6.12 at least (`bpf_prog_calc_tag`); 6.18 takes SHA-256.

use std::fmt;

use sha1_smol::Sha1;

use crate::Insn;
use crate::insn::imm64;

/// A tag, shown as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub [u8; 8]);

impl Tag {
    /// The tag of these instructions.
    pub fn of(insns: &[Insn]) -> Tag {
        let mut sha1 = Sha1::new();
        let mut names_map = false;
        for insn in insns {
            let was = names_map;
            names_map = insn.is_ld_imm64() && matches!(insn.src, imm64::MAP | imm64::MAP_VALUE);
            let imm = if was || names_map { 0 } else { insn.imm };
            sha1.update(&Insn { imm, ..*insn }.to_bytes());
        }
        let mut tag = [0; 8];
        tag.copy_from_slice(&sha1.digest().bytes()[..8]);
        Tag(tag)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insn(code: u8, dst: u8, src: u8, imm: i32) -> Insn {
        Insn {
            code,
            dst,
            src,
            off: 0,
            imm,
        }
    }

    /// `r0 = 0; exit`, whose tag every list of loaded programs shows.
    #[test]
    fn the_tag_is_the_known_one() {
        let program = [insn(0xb7, 0, 0, 0), insn(0x95, 0, 0, 0)];
        assert_eq!(Tag::of(&program).to_string(), "a04f5eef06a7f555");
    }

    #[test]
    fn what_names_a_map_does_not_count_and_all_else_does() {
        let program = |src, map, offset, high_dst| {
            let halves = [insn(0x18, 1, src, map), insn(0, high_dst, 0, offset)];
            Tag::of(&[halves[0], halves[1], insn(0x95, 0, 0, 0)])
        };
        assert_eq!(program(1, 3, 0, 0), program(1, 4, 0, 0));
        assert_eq!(program(2, 3, 8, 0), program(2, 4, 16, 0));
        assert_ne!(program(0, 3, 0, 0), program(0, 4, 0, 0));
        assert_ne!(program(0, 3, 8, 0), program(0, 3, 16, 0));
        assert_ne!(program(1, 3, 0, 0), program(2, 3, 0, 0));
    }
}
