//! Instructions as text, in the style of the kernel's verifier log and of `llvm-objdump`:
//! `r1 = *(u32 *)(r2 + 4)`.

use std::fmt;

use crate::Insn;
use crate::contract::contract;
use crate::insn::{
    CLASS_ALU, CLASS_ALU64, CLASS_JMP, CLASS_JMP32, CLASS_LDX, CLASS_ST, CLASS_STX, MODE_ATOMIC,
    MODE_MEM, MODE_MEMSX, alu, atomic, call, imm64, jmp,
};

/// One slot. The upper half of a 64-bit immediate is in the next slot and not shown; what is not an
/// instruction is shown in bytes.
impl fmt::Display for Insn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match text(*self) {
            Some(text) => f.write_str(&text),
            None => {
                f.write_str("invalid")?;
                self.to_bytes()
                    .iter()
                    .try_for_each(|b| write!(f, " {b:02x}"))
            }
        }
    }
}

fn text(insn: Insn) -> Option<String> {
    match insn.class() {
        CLASS_ALU => arithmetic(insn, 'w'),
        CLASS_ALU64 => arithmetic(insn, 'r'),
        CLASS_JMP => jump(insn, 'r'),
        CLASS_JMP32 => jump(insn, 'w'),
        CLASS_LDX | CLASS_ST | CLASS_STX => memory(insn),
        _ if insn.is_ld_imm64() => load_imm64(insn),
        _ => None,
    }
}

/// The second operand of arithmetic or a jump.
fn operand(insn: Insn, prefix: char) -> String {
    match insn.is_reg() {
        true => format!("{prefix}{}", insn.src),
        false => insn.imm.to_string(),
    }
}

fn arithmetic(insn: Insn, prefix: char) -> Option<String> {
    let dst = insn.dst;
    let sign = match (insn.op(), insn.off) {
        (alu::DIV | alu::MOD, 1) => "s",
        (alu::MOV, 8 | 16 | 32) if insn.is_reg() => {
            let from = insn.off;
            return Some(format!("{prefix}{dst} = (s{from}){prefix}{}", insn.src));
        }
        (_, 0) => "",
        _ => return None,
    };
    let sign_of = match insn.op() {
        alu::ADD => "+=",
        alu::SUB => "-=",
        alu::MUL => "*=",
        alu::DIV => "/=",
        alu::OR => "|=",
        alu::AND => "&=",
        alu::LSH => "<<=",
        alu::RSH => ">>=",
        alu::MOD => "%=",
        alu::XOR => "^=",
        alu::MOV => "=",
        alu::ARSH => "s>>=",
        alu::NEG if insn.is_reg() => return None,
        alu::NEG => return Some(format!("{prefix}{dst} = -{prefix}{dst}")),
        alu::END => {
            let order = match (prefix, insn.is_reg()) {
                ('w', false) => "le",
                ('w', true) => "be",
                (_, false) => "bswap",
                _ => return None,
            };
            let width = insn.imm;
            return Some(format!("r{dst} = {order}{width} r{dst}"));
        }
        _ => return None,
    };
    Some(format!(
        "{prefix}{dst} {sign}{sign_of} {}",
        operand(insn, prefix)
    ))
}

fn jump(insn: Insn, prefix: char) -> Option<String> {
    let sign = match insn.op() {
        jmp::JA if prefix == 'r' => return Some(format!("goto {:+}", insn.off)),
        jmp::JA => return Some(format!("gotol {:+}", insn.imm)),
        jmp::EXIT if prefix == 'r' => return Some("exit".to_owned()),
        jmp::CALL if prefix == 'r' => return call_text(insn),
        jmp::JEQ => "==",
        jmp::JGT => ">",
        jmp::JGE => ">=",
        jmp::JSET => "&",
        jmp::JNE => "!=",
        jmp::JSGT => "s>",
        jmp::JSGE => "s>=",
        jmp::JLT => "<",
        jmp::JLE => "<=",
        jmp::JSLT => "s<",
        jmp::JSLE => "s<=",
        _ => return None,
    };
    let right = operand(insn, prefix);
    Some(format!(
        "if {prefix}{} {sign} {right} goto {:+}",
        insn.dst, insn.off
    ))
}

fn call_text(insn: Insn) -> Option<String> {
    let imm = insn.imm;
    Some(match insn.src {
        _ if insn.is_reg() => format!("callx r{}", insn.dst),
        call::HELPER => match contract(imm.cast_unsigned()) {
            Some(contract) => format!("call {}#{imm}", contract.name),
            None => format!("call helper#{imm}"),
        },
        call::LOCAL => format!("call pc{imm:+}"),
        call::KFUNC => format!("call kernel-function#{imm}"),
        call::UNRESOLVED => format!("call unresolved#{imm}"),
        _ => return None,
    })
}

fn memory(insn: Insn) -> Option<String> {
    let size = 8 * insn.size();
    let (dst, src, imm) = (insn.dst, insn.src, insn.imm);
    let at = |register| {
        let sign = if insn.off < 0 { '-' } else { '+' };
        format!("(r{register} {sign} {})", insn.off.unsigned_abs())
    };
    Some(match (insn.class(), insn.mode()) {
        (CLASS_LDX, MODE_MEM) => format!("r{dst} = *(u{size} *){}", at(src)),
        (CLASS_LDX, MODE_MEMSX) if size < 64 => format!("r{dst} = *(s{size} *){}", at(src)),
        (CLASS_ST, MODE_MEM) => format!("*(u{size} *){} = {imm}", at(dst)),
        (CLASS_STX, MODE_MEM) => format!("*(u{size} *){} = r{src}", at(dst)),
        (CLASS_STX, MODE_ATOMIC) if size >= 32 => {
            let at = format!("(u{size} *){}", at(dst));
            let (wide, prefix) = match size {
                64 => ("64", 'r'),
                _ => ("", 'w'),
            };
            let (name, sign) = match imm & !atomic::FETCH {
                atomic::ADD => ("add", "+="),
                atomic::OR => ("or", "|="),
                atomic::AND => ("and", "&="),
                atomic::XOR => ("xor", "^="),
                _ if imm == atomic::XCHG => {
                    return Some(format!("{prefix}{src} = xchg{wide}({at}, {prefix}{src})"));
                }
                _ if imm == atomic::CMPXCHG => {
                    let (old, new) = (format!("{prefix}0"), format!("{prefix}{src}"));
                    return Some(format!("{old} = cmpxchg{wide}({at}, {old}, {new})"));
                }
                _ => return None,
            };
            match imm & atomic::FETCH {
                0 => format!("lock *{at} {sign} {prefix}{src}"),
                _ => format!("{prefix}{src} = atomic{wide}_fetch_{name}({at}, {prefix}{src})"),
            }
        }
        _ => return None,
    })
}

fn load_imm64(insn: Insn) -> Option<String> {
    let (dst, imm) = (insn.dst, insn.imm);
    Some(match insn.src {
        imm64::VALUE => format!("r{dst} = {:#x} ll", imm.cast_unsigned()),
        imm64::MAP => format!("r{dst} = map[{imm}]"),
        imm64::MAP_VALUE => format!("r{dst} = map_value[{imm}]"),
        imm64::FUNC => format!("r{dst} = function[{imm}]"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_its_text() {
        let insn = |code, dst, src, off, imm| Insn {
            code,
            dst,
            src,
            off,
            imm,
        };
        for (insn, text) in [
            (insn(0x07, 1, 0, 0, -4), "r1 += -4"),
            (insn(0x0c, 1, 2, 0, 0), "w1 += w2"),
            (insn(0xbf, 1, 2, 0, 0), "r1 = r2"),
            (insn(0xb4, 0, 0, 0, 2), "w0 = 2"),
            (insn(0xbf, 1, 2, 8, 0), "r1 = (s8)r2"),
            (insn(0xbc, 1, 2, 16, 0), "w1 = (s16)w2"),
            (insn(0x3f, 1, 2, 1, 0), "r1 s/= r2"),
            (insn(0x94, 1, 0, 1, 7), "w1 s%= 7"),
            (insn(0xc7, 3, 0, 0, 32), "r3 s>>= 32"),
            (insn(0x84, 3, 0, 0, 0), "w3 = -w3"),
            (insn(0xdc, 3, 0, 0, 16), "r3 = be16 r3"),
            (insn(0xd4, 3, 0, 0, 32), "r3 = le32 r3"),
            (insn(0xd7, 3, 0, 0, 64), "r3 = bswap64 r3"),
            (insn(0x61, 1, 2, 4, 0), "r1 = *(u32 *)(r2 + 4)"),
            (insn(0x91, 1, 2, -1, 0), "r1 = *(s8 *)(r2 - 1)"),
            (insn(0x7b, 10, 1, -8, 0), "*(u64 *)(r10 - 8) = r1"),
            (insn(0x72, 1, 0, 3, 9), "*(u8 *)(r1 + 3) = 9"),
            (insn(0xdb, 1, 2, 0, 0), "lock *(u64 *)(r1 + 0) += r2"),
            (
                insn(0xc3, 1, 2, 4, 1),
                "w2 = atomic_fetch_add((u32 *)(r1 + 4), w2)",
            ),
            (
                insn(0xdb, 1, 2, 0, 0xe1),
                "r2 = xchg64((u64 *)(r1 + 0), r2)",
            ),
            (
                insn(0xc3, 1, 2, 0, 0xf1),
                "w0 = cmpxchg((u32 *)(r1 + 0), w0, w2)",
            ),
            (insn(0x05, 0, 0, -3, 0), "goto -3"),
            (insn(0x06, 0, 0, 0, 70_000), "gotol +70000"),
            (insn(0x6d, 1, 2, 5, 0), "if r1 s> r2 goto +5"),
            (insn(0x56, 1, 0, 5, -1), "if w1 != -1 goto +5"),
            (insn(0x85, 0, 0, 0, 1), "call bpf_map_lookup_elem#1"),
            (insn(0x85, 0, 0, 0, 9999), "call helper#9999"),
            (insn(0x85, 0, 1, 0, 5), "call pc+5"),
            (insn(0x8d, 3, 0, 0, 0), "callx r3"),
            (insn(0x95, 0, 0, 0, 0), "exit"),
            (insn(0x18, 1, 0, 0, 0x10), "r1 = 0x10 ll"),
            (insn(0x18, 1, 1, 0, 2), "r1 = map[2]"),
            (insn(0xff, 1, 2, 3, 4), "invalid ff 21 03 00 04 00 00 00"),
        ] {
            assert_eq!(insn.to_string(), text);
        }
    }

    #[test]
    fn no_word_is_without_a_text() {
        for code in 0..=255 {
            for (src, off, imm) in [(0, 0, 0), (1, 8, 16), (15, i16::MIN, i32::MIN)] {
                let insn = Insn {
                    code,
                    dst: 15,
                    src,
                    off,
                    imm,
                };
                assert!(!insn.to_string().is_empty());
            }
        }
    }
}
