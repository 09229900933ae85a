//! A small assembler in the notation of `llvm-objdump` and of the kernel's log, so that the programs
//! of the tests can be read: one instruction a line, `label:` before one, `;` starts a comment.
//! `r1 = map 0` and `r1 = value 0 + 4` load a map and an address in its only value; `call 1` calls a
//! helper, `call name` a label; `.raw code dst src off imm` is any slot.

use std::collections::HashMap;

use xdp_vm::insn::{self, alu, atomic, jmp};
use xdp_vm::{Insn, Program};

/// Assembles a program. Panics on what it does not know: the text is a test's own.
pub(crate) fn program(text: &str) -> Program {
    Program {
        name: "test".into(),
        section: "xdp".into(),
        insns: assemble(text),
        ..Program::default()
    }
}

/// Assembles instructions.
pub(crate) fn assemble(text: &str) -> Vec<Insn> {
    let lines: Vec<&str> = text
        .lines()
        .map(|l| l.split(';').next().unwrap_or("").trim())
        .filter(|l| !l.is_empty())
        .collect();
    let mut labels = HashMap::new();
    let mut at = 0;
    for line in &lines {
        match line.strip_suffix(':') {
            Some(label) => {
                labels.insert(label.to_string(), at);
            }
            None => at += slots(line),
        }
    }
    let mut out = vec![];
    for line in lines.iter().filter(|l| !l.ends_with(':')) {
        let a = Assembler {
            labels: &labels,
            at: out.len(),
        };
        let insns = a.line(line);
        assert_eq!(insns.len(), slots(line), "{line}");
        out.extend(insns);
    }
    out
}

fn slots(line: &str) -> usize {
    let wide = line.ends_with(" ll") || line.contains("= map ") || line.contains("= value ");
    if wide { 2 } else { 1 }
}

struct Assembler<'a> {
    labels: &'a HashMap<String, usize>,
    at: usize,
}

const OPS: [(&str, u8, i16); 15] = [
    ("s>>=", alu::ARSH, 0),
    ("s/=", alu::DIV, 1),
    ("s%=", alu::MOD, 1),
    ("<<=", alu::LSH, 0),
    (">>=", alu::RSH, 0),
    ("+=", alu::ADD, 0),
    ("-=", alu::SUB, 0),
    ("*=", alu::MUL, 0),
    ("/=", alu::DIV, 0),
    ("%=", alu::MOD, 0),
    ("|=", alu::OR, 0),
    ("&=", alu::AND, 0),
    ("^=", alu::XOR, 0),
    ("=", alu::MOV, 0),
    ("s=", alu::MOV, 0),
];

impl Assembler<'_> {
    fn line(&self, line: &str) -> Vec<Insn> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "exit" => vec![op(insn::CLASS_JMP | jmp::EXIT, 0, 0, 0, 0)],
            "goto" => vec![op(insn::CLASS_JMP, 0, 0, self.offset(words[1]) as i16, 0)],
            "gotol" => vec![op(insn::CLASS_JMP32, 0, 0, 0, self.offset(words[1]) as i32)],
            "call" => vec![match words[1].parse::<i32>() {
                Ok(helper) => op(insn::CLASS_JMP | jmp::CALL, 0, 0, 0, helper),
                Err(_) => op(
                    insn::CLASS_JMP | jmp::CALL,
                    0,
                    insn::call::LOCAL,
                    0,
                    self.offset(words[1]) as i32,
                ),
            }],
            "if" => vec![self.condition(&words)],
            "lock" => vec![self.atomic(&words)],
            ".raw" => {
                let n = |i: usize| number(words[i]);
                vec![op(
                    n(1) as u8,
                    n(2) as u8,
                    n(3) as u8,
                    n(4) as i16,
                    n(5) as i32,
                )]
            }
            _ if words[0].starts_with("*(") => vec![self.store(line)],
            _ => self.assign(line, &words),
        }
    }

    fn offset(&self, label: &str) -> i64 {
        let to = match self.labels.get(label) {
            Some(&to) => to as i64,
            None => self.at as i64 + 1 + number(label),
        };
        to - self.at as i64 - 1
    }

    /// `if r1 s> 5 goto label`
    fn condition(&self, words: &[&str]) -> Insn {
        let (dst, wide) = register(words[1]);
        let operation = match words[2] {
            "==" => jmp::JEQ,
            "!=" => jmp::JNE,
            ">" => jmp::JGT,
            ">=" => jmp::JGE,
            "<" => jmp::JLT,
            "<=" => jmp::JLE,
            "s>" => jmp::JSGT,
            "s>=" => jmp::JSGE,
            "s<" => jmp::JSLT,
            "s<=" => jmp::JSLE,
            "&" => jmp::JSET,
            other => panic!("comparison {other}"),
        };
        let class = if wide {
            insn::CLASS_JMP
        } else {
            insn::CLASS_JMP32
        };
        let off = self.offset(words[5]) as i16;
        match source(words[3]) {
            Ok(src) => op(class | operation | insn::SRC_X, dst, src, off, 0),
            Err(imm) => op(class | operation, dst, 0, off, imm as i32),
        }
    }

    /// `lock *(u64 *)(r1 + 0) += r2`, with `fetch` at the end; `xchg` or `cmpxchg` as operation.
    fn atomic(&self, words: &[&str]) -> Insn {
        let line = words[1..].join(" ");
        let (size, base, off, rest) = memory(&line);
        let rest: Vec<&str> = rest.split_whitespace().collect();
        let mut imm = match rest[0] {
            "+=" => atomic::ADD,
            "|=" => atomic::OR,
            "&=" => atomic::AND,
            "^=" => atomic::XOR,
            "xchg" => atomic::XCHG,
            "cmpxchg" => atomic::CMPXCHG,
            other => panic!("atomic {other}"),
        };
        if rest.get(2) == Some(&"fetch") {
            imm |= atomic::FETCH;
        }
        let src = register(rest[1]).0;
        op(
            insn::CLASS_STX | insn::MODE_ATOMIC | size.0,
            base,
            src,
            off,
            imm,
        )
    }

    fn store(&self, line: &str) -> Insn {
        let (size, base, off, rest) = memory(line);
        match source(rest.trim_start_matches('=').trim()) {
            Ok(src) => op(insn::CLASS_STX | insn::MODE_MEM | size.0, base, src, off, 0),
            Err(imm) => op(
                insn::CLASS_ST | insn::MODE_MEM | size.0,
                base,
                0,
                off,
                imm as i32,
            ),
        }
    }

    fn assign(&self, line: &str, words: &[&str]) -> Vec<Insn> {
        let (dst, wide) = register(words[0]);
        let class = if wide {
            insn::CLASS_ALU64
        } else {
            insn::CLASS_ALU
        };
        let right = line.split_once('=').map_or("", |x| x.1).trim();
        if words[1] == "=" {
            if let Some(memory_operand) = right.strip_prefix("*(") {
                let (size, base, off, _) = memory(&format!("*({memory_operand}"));
                let mode = if size.1 {
                    insn::MODE_MEMSX
                } else {
                    insn::MODE_MEM
                };
                return vec![op(insn::CLASS_LDX | mode | size.0, dst, base, off, 0)];
            }
            if let Some(v) = right.strip_suffix(" ll") {
                return imm64(dst, insn::imm64::VALUE, number(v));
            }
            if words[2] == "map" {
                return imm64(dst, insn::imm64::MAP, number(words[3]));
            }
            if words[2] == "value" {
                let both = number(words[5]) << 32 | number(words[3]);
                return imm64(dst, insn::imm64::MAP_VALUE, both);
            }
            if let Some(bits) = words[2].strip_prefix("(s") {
                let (bits, src) = bits.split_once(')').expect("(s8)r1");
                let off = number(bits) as i16;
                let code = class | alu::MOV | insn::SRC_X;
                return vec![op(code, dst, register(src).0, off, 0)];
            }
            if right.starts_with("-r") || right.starts_with("-w") {
                return vec![op(class | alu::NEG, dst, 0, 0, 0)];
            }
            for (name, code) in [
                ("le", insn::CLASS_ALU | alu::END),
                ("be", insn::CLASS_ALU | alu::END | insn::SRC_X),
                ("bswap", insn::CLASS_ALU64 | alu::END),
            ] {
                if let Some(bits) = words[2].strip_prefix(name) {
                    return vec![op(code, dst, 0, 0, number(bits) as i32)];
                }
            }
        }
        let (_, operation, off) = OPS
            .iter()
            .find(|(name, ..)| *name == words[1])
            .unwrap_or_else(|| panic!("operation in `{line}`"));
        vec![match source(words[2]) {
            Ok(src) => op(class | operation | insn::SRC_X, dst, src, *off, 0),
            Err(imm) => op(class | operation, dst, 0, *off, imm as i32),
        }]
    }
}

/// `*(u32 *)(r1 - 4) ...`: size code and whether it sign-extends, base, offset, what follows.
fn memory(line: &str) -> ((u8, bool), u8, i16, &str) {
    let (kind, rest) = line
        .strip_prefix("*(")
        .and_then(|l| l.split_once(" *)("))
        .unwrap_or_else(|| panic!("memory operand in `{line}`"));
    let (address, rest) = rest.split_once(')').expect("closing bracket");
    let size = match &kind[1..] {
        "8" => insn::SIZE_B,
        "16" => insn::SIZE_H,
        "32" => insn::SIZE_W,
        _ => insn::SIZE_DW,
    };
    let words: Vec<&str> = address.split_whitespace().collect();
    let mut off = number(words[2]);
    if words[1] == "-" {
        off = -off;
    }
    let base = register(words[0]).0;
    ((size, kind.starts_with('s')), base, off as i16, rest.trim())
}

/// A register's number, and whether it is named as one of 64 bits.
fn register(word: &str) -> (u8, bool) {
    let n = word[1..].parse();
    (
        n.unwrap_or_else(|_| panic!("register {word}")),
        word.starts_with('r'),
    )
}

fn source(word: &str) -> Result<u8, i64> {
    if word.starts_with('r') || word.starts_with('w') {
        Ok(register(word).0)
    } else {
        Err(number(word))
    }
}

fn number(word: &str) -> i64 {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, word.trim_start_matches('+')),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).map(|v| v as i64),
        None => digits.parse(),
    };
    sign * value.unwrap_or_else(|_| panic!("number {word}"))
}

fn imm64(dst: u8, src: u8, v: i64) -> Vec<Insn> {
    vec![
        op(insn::LD_IMM64, dst, src, 0, v as i32),
        op(0, 0, 0, 0, (v >> 32) as i32),
    ]
}

fn op(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn {
        code,
        dst,
        src,
        off,
        imm,
    }
}
