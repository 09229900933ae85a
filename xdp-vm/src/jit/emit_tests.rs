//! Encodings, byte by byte, beside what a disassembler makes of them. The bytes follow from the
//! manual's tables; where `objdump` is installed, it has to read from them what is written here.

use std::process::Command;

use super::Reg::*;
use super::Width::{W32, W64};
use super::*;

/// What is emitted, the bytes, and their reading.
type Row = (fn(&mut Code), &'static [u8], &'static str);

fn at(base: Reg, disp: i32) -> Mem {
    Mem::new(base, disp)
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Moves. A byte of prefix for the width, one bit each for r8 to r15.
    (|c| c.mov(W64, Rax, Rdi), &[0x48, 0x89, 0xf8], "mov rax,rdi"),
    (|c| c.mov(W32, Rax, Rdi), &[0x89, 0xf8], "mov eax,edi"),
    (|c| c.mov(W64, R15, R8), &[0x4d, 0x89, 0xc7], "mov r15,r8"),
    (|c| c.mov(W32, R13, Rcx), &[0x41, 0x89, 0xcd], "mov r13d,ecx"),
    (|c| c.mov_imm(Rax, 0), &[0x31, 0xc0], "xor eax,eax"),
    (|c| c.mov_imm(R9, 0), &[0x45, 0x31, 0xc9], "xor r9d,r9d"),
    (|c| c.mov_imm(Rcx, 0xffff_ffff), &[0xb9, 0xff, 0xff, 0xff, 0xff], "mov ecx,0xffffffff"),
    (|c| c.mov_imm(R8, 1), &[0x41, 0xb8, 1, 0, 0, 0], "mov r8d,0x1"),
    (|c| c.mov_imm(Rbx, -2i64 as u64), &[0x48, 0xc7, 0xc3, 0xfe, 0xff, 0xff, 0xff],
        "mov rbx,0xfffffffffffffffe"),
    (|c| c.mov_imm(R14, 1 << 32), &[0x49, 0xbe, 0, 0, 0, 0, 1, 0, 0, 0], "movabs r14,0x100000000"),

    // Loads and stores. rbp and r13 need a distance, rsp and r12 an index byte.
    (|c| c.load(Size::B1, Rax, at(Rdi, 0)), &[0x0f, 0xb6, 0x07], "movzx eax,BYTE PTR [rdi]"),
    (|c| c.load(Size::B2, R9, at(Rsi, 12)), &[0x44, 0x0f, 0xb7, 0x4e, 12],
        "movzx r9d,WORD PTR [rsi+0xc]"),
    (|c| c.load(Size::B4, Rdx, at(Rbp, 0)), &[0x8b, 0x55, 0], "mov edx,DWORD PTR [rbp+0x0]"),
    (|c| c.load(Size::B8, Rdx, at(Rbp, -512)), &[0x48, 0x8b, 0x95, 0, 0xfe, 0xff, 0xff],
        "mov rdx,QWORD PTR [rbp-0x200]"),
    (|c| c.load(Size::B8, Rbx, at(R12, 8)), &[0x49, 0x8b, 0x5c, 0x24, 8],
        "mov rbx,QWORD PTR [r12+0x8]"),
    (|c| c.load(Size::B4, Rbx, at(R13, 0)), &[0x41, 0x8b, 0x5d, 0],
        "mov ebx,DWORD PTR [r13+0x0]"),
    (|c| c.load(Size::B4, Rsi, at(Rsp, 0)), &[0x8b, 0x34, 0x24], "mov esi,DWORD PTR [rsp]"),
    (|c| c.load_signed(Size::B1, Rax, at(R14, 1)), &[0x49, 0x0f, 0xbe, 0x46, 1],
        "movsx rax,BYTE PTR [r14+0x1]"),
    (|c| c.load_signed(Size::B2, Rax, at(Rdx, 1)), &[0x48, 0x0f, 0xbf, 0x42, 1],
        "movsx rax,WORD PTR [rdx+0x1]"),
    (|c| c.load_signed(Size::B4, R8, at(Rdx, 1)), &[0x4c, 0x63, 0x42, 1],
        "movsxd r8,DWORD PTR [rdx+0x1]"),
    // Without a prefix the numbers of sil and dil are dh and bh.
    (|c| c.store(Size::B1, at(Rax, 0), Rsi), &[0x40, 0x88, 0x30], "mov BYTE PTR [rax],sil"),
    (|c| c.store(Size::B1, at(Rdi, 0), Rbp), &[0x40, 0x88, 0x2f], "mov BYTE PTR [rdi],bpl"),
    (|c| c.store(Size::B1, at(Rdi, 0), Rax), &[0x88, 0x07], "mov BYTE PTR [rdi],al"),
    (|c| c.store(Size::B1, at(Rdi, 0), R8), &[0x44, 0x88, 0x07], "mov BYTE PTR [rdi],r8b"),
    (|c| c.store(Size::B2, at(Rdi, 2), R15), &[0x66, 0x44, 0x89, 0x7f, 2],
        "mov WORD PTR [rdi+0x2],r15w"),
    (|c| c.store(Size::B4, at(Rdi, 2), Rcx), &[0x89, 0x4f, 2], "mov DWORD PTR [rdi+0x2],ecx"),
    (|c| c.store(Size::B8, at(R13, 128), Rcx), &[0x49, 0x89, 0x8d, 0x80, 0, 0, 0],
        "mov QWORD PTR [r13+0x80],rcx"),
    (|c| c.store_imm(Size::B1, at(Rax, 0), -2), &[0xc6, 0x00, 0xfe], "mov BYTE PTR [rax],0xfe"),
    (|c| c.store_imm(Size::B2, at(R8, 0), 0x1234), &[0x66, 0x41, 0xc7, 0x00, 0x34, 0x12],
        "mov WORD PTR [r8],0x1234"),
    (|c| c.store_imm(Size::B4, at(Rax, 0), 5), &[0xc7, 0x00, 5, 0, 0, 0],
        "mov DWORD PTR [rax],0x5"),
    (|c| c.store_imm(Size::B8, at(Rax, 0), -1), &[0x48, 0xc7, 0x00, 0xff, 0xff, 0xff, 0xff],
        "mov QWORD PTR [rax],0xffffffffffffffff"),
    (|c| c.lea(Rax, at(Rdi, 14)), &[0x48, 0x8d, 0x47, 14], "lea rax,[rdi+0xe]"),
    (|c| c.lea(R8, Mem::indexed(R13, R12)), &[0x4f, 0x8d, 0x44, 0x25, 0], "lea r8,[r13+r12*1+0x0]"),
    (|c| c.lea(Rax, Mem::indexed(Rcx, Rdx)), &[0x48, 0x8d, 0x04, 0x11], "lea rax,[rcx+rdx*1]"),
    (|c| c.push(Rbx), &[0x53], "push rbx"),
    (|c| c.push(R12), &[0x41, 0x54], "push r12"),
    (|c| c.pop(Rbp), &[0x5d], "pop rbp"),
    (|c| c.pop(R15), &[0x41, 0x5f], "pop r15"),

    // Arithmetic.
    (|c| c.arith(Arith::Add, W64, Rax, Operand::Reg(R8)), &[0x4c, 0x01, 0xc0], "add rax,r8"),
    (|c| c.arith(Arith::Or, W32, R9, Operand::Reg(Rdx)), &[0x41, 0x09, 0xd1], "or r9d,edx"),
    (|c| c.arith(Arith::And, W64, Rdi, Operand::Imm(-1)), &[0x48, 0x83, 0xe7, 0xff],
        "and rdi,0xffffffffffffffff"),
    (|c| c.arith(Arith::Sub, W64, Rbp, Operand::Imm(512)), &[0x48, 0x81, 0xed, 0, 2, 0, 0],
        "sub rbp,0x200"),
    (|c| c.arith(Arith::Xor, W32, R15, Operand::Imm(128)), &[0x41, 0x81, 0xf7, 0x80, 0, 0, 0],
        "xor r15d,0x80"),
    (|c| c.arith(Arith::Cmp, W32, Rcx, Operand::Imm(127)), &[0x83, 0xf9, 0x7f], "cmp ecx,0x7f"),
    (|c| c.test(W64, Rax, Operand::Reg(Rdi)), &[0x48, 0x85, 0xf8], "test rax,rdi"),
    (|c| c.test(W32, R8, Operand::Imm(1)), &[0x41, 0xf7, 0xc0, 1, 0, 0, 0], "test r8d,0x1"),
    (|c| c.mul(W64, Rax, Operand::Reg(R8)), &[0x49, 0x0f, 0xaf, 0xc0], "imul rax,r8"),
    (|c| c.mul(W32, R9, Operand::Imm(3)), &[0x45, 0x6b, 0xc9, 3], "imul r9d,r9d,0x3"),
    (|c| c.mul(W64, Rdi, Operand::Imm(1000)), &[0x48, 0x69, 0xff, 0xe8, 3, 0, 0],
        "imul rdi,rdi,0x3e8"),
    (|c| c.unary(Unary::Neg, W64, R13), &[0x49, 0xf7, 0xdd], "neg r13"),
    (|c| c.unary(Unary::Div, W32, R11), &[0x41, 0xf7, 0xf3], "div r11d"),
    (|c| c.unary(Unary::Idiv, W64, R11), &[0x49, 0xf7, 0xfb], "idiv r11"),
    (|c| c.sign_to_rdx(W64), &[0x48, 0x99], "cqo"),
    (|c| c.sign_to_rdx(W32), &[0x99], "cdq"),
    (|c| c.shift_imm(Shift::Shl, W64, Rdi, 63), &[0x48, 0xc1, 0xe7, 63], "shl rdi,0x3f"),
    (|c| c.shift_imm(Shift::Sar, W32, R14, 1), &[0x41, 0xd1, 0xfe], "sar r14d,1"),
    (|c| c.shift_cl(Shift::Shr, W64, R8), &[0x49, 0xd3, 0xe8], "shr r8,cl"),
    (|c| c.shift_reg(Shift::Shl, W64, Rax, R9), &[0xc4, 0xe2, 0xb1, 0xf7, 0xc0], "shlx rax,rax,r9"),
    (|c| c.shift_reg(Shift::Shr, W32, R13, Rcx), &[0xc4, 0x42, 0x73, 0xf7, 0xed],
        "shrx r13d,r13d,ecx"),
    (|c| c.shift_reg(Shift::Sar, W64, Rdx, R15), &[0xc4, 0xe2, 0x82, 0xf7, 0xd2],
        "sarx rdx,rdx,r15"),
    (|c| c.swap16(Rax), &[0x66, 0xc1, 0xc0, 8], "rol ax,0x8"),
    (|c| c.swap16(R8), &[0x66, 0x41, 0xc1, 0xc0, 8], "rol r8w,0x8"),
    (|c| c.swap(W32, Rdx), &[0x0f, 0xca], "bswap edx"),
    (|c| c.swap(W64, R15), &[0x49, 0x0f, 0xcf], "bswap r15"),
    (|c| c.extend16(Rax, R8), &[0x41, 0x0f, 0xb7, 0xc0], "movzx eax,r8w"),
    (|c| c.extend_signed(W64, Size::B1, Rax, Rsi), &[0x48, 0x0f, 0xbe, 0xc6], "movsx rax,sil"),
    (|c| c.extend_signed(W32, Size::B1, Rax, Rdi), &[0x40, 0x0f, 0xbe, 0xc7], "movsx eax,dil"),
    (|c| c.extend_signed(W32, Size::B1, R8, Rcx), &[0x44, 0x0f, 0xbe, 0xc1], "movsx r8d,cl"),
    (|c| c.extend_signed(W32, Size::B2, Rbp, Rdi), &[0x0f, 0xbf, 0xef], "movsx ebp,di"),
    (|c| c.extend_signed(W64, Size::B4, Rcx, R9), &[0x49, 0x63, 0xc9], "movsxd rcx,r9d"),

    // Atomic operations. The lock comes before the width.
    (|c| c.lock_arith(Arith::Add, W64, at(Rax, 0), Rdi), &[0xf0, 0x48, 0x01, 0x38],
        "lock add QWORD PTR [rax],rdi"),
    (|c| c.lock_arith(Arith::Xor, W32, at(R13, 4), R8), &[0xf0, 0x45, 0x31, 0x45, 4],
        "lock xor DWORD PTR [r13+0x4],r8d"),
    (|c| c.lock_xadd(W64, at(Rbp, -8), Rcx), &[0xf0, 0x48, 0x0f, 0xc1, 0x4d, 0xf8],
        "lock xadd QWORD PTR [rbp-0x8],rcx"),
    (|c| c.xchg(W32, at(Rbp, -8), Rcx), &[0x87, 0x4d, 0xf8], "xchg DWORD PTR [rbp-0x8],ecx"),
    (|c| c.lock_cmpxchg(W64, at(R14, 0), R10), &[0xf0, 0x4d, 0x0f, 0xb1, 0x16],
        "lock cmpxchg QWORD PTR [r14],r10"),

    (|c| c.call_reg(R11), &[0x41, 0xff, 0xd3], "call r11"),
    (|c| c.ret(), &[0xc3], "ret"),
    (|c| c.undefined(), &[0x0f, 0x0b], "ud2"),
];

#[test]
fn encodings() {
    for (emit, bytes, text) in ROWS {
        let mut code = Code::default();
        emit(&mut code);
        assert_eq!(code.bytes(), *bytes, "{text}: {:02x?}", code.bytes());
    }
}

#[test]
fn a_disassembler_reads_the_same() {
    let mut code = Code::default();
    for (emit, _, _) in ROWS {
        emit(&mut code);
    }
    let Some(listing) = disassemble(code.bytes()) else {
        return println!("skipped: objdump is not installed");
    };
    let expected: Vec<_> = ROWS.iter().map(|row| row.2).collect();
    assert_eq!(listing, expected);
}

/// Every register in every place of an encoding that names one.
#[test]
fn a_disassembler_reads_every_register() {
    const NAMES: [&str; 16] = [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ];
    const REGS: [Reg; 16] = [
        Rax, Rcx, Rdx, Rbx, Rsp, Rbp, Rsi, Rdi, R8, R9, R10, R11, R12, R13, R14, R15,
    ];
    let (mut code, mut expected) = (Code::default(), Vec::new());
    for (a, name) in REGS.into_iter().zip(NAMES) {
        for (b, other) in REGS.into_iter().zip(NAMES) {
            code.mov(W64, a, b);
            expected.push(format!("mov {name},{other}"));
            code.load(Size::B8, a, at(b, 0x7f));
            expected.push(format!("mov {name},QWORD PTR [{other}+0x7f]"));
            code.load(Size::B8, a, at(b, -0x81));
            expected.push(format!("mov {name},QWORD PTR [{other}-0x81]"));
            code.mul(W64, a, Operand::Reg(b));
            expected.push(format!("imul {name},{other}"));
            code.shift_reg(Shift::Sar, W64, a, b);
            expected.push(format!("sarx {name},{name},{other}"));
            if b != Rsp {
                code.lea(R9, Mem::indexed(a, b));
                let distance = if matches!(a, Rbp | R13) { "+0x0" } else { "" };
                expected.push(format!("lea r9,[{name}+{other}*1{distance}]"));
            }
        }
        code.push(a);
        expected.push(format!("push {name}"));
        code.pop(a);
        expected.push(format!("pop {name}"));
        code.arith(Arith::Add, W64, a, Operand::Imm(0x80));
        expected.push(format!("add {name},0x80"));
        code.mov_imm(a, 0x1122_3344_5566_7788);
        expected.push(format!("movabs {name},0x1122334455667788"));
    }
    let Some(listing) = disassemble(code.bytes()) else {
        return println!("skipped: objdump is not installed");
    };
    assert_eq!(listing, expected);
}

#[test]
fn jumps_know_how_far_they_reach() {
    for (condition, short, opcode) in [
        (None, true, &[0xeb][..]),
        (None, false, &[0xe9]),
        (Some(Cond::Below), true, &[0x72]),
        (Some(Cond::Greater), false, &[0x0f, 0x8f]),
    ] {
        let mut code = Code::default();
        code.jump(condition, short);
        let end = code.len();
        assert!(code.set_distance(end, short, end + 127));
        assert_eq!(code.bytes()[..opcode.len()], *opcode);
        assert_eq!(code.bytes()[opcode.len()], 127);
        assert_eq!(code.set_distance(end, short, end + 128), !short);
        for _ in 0..130 {
            code.ret();
        }
        let end = code.len();
        code.jump(condition, short);
        let end_of_jump = code.len();
        assert!(code.set_distance(end_of_jump, short, end_of_jump - 128));
        assert_eq!(
            code.set_distance(end_of_jump, short, end_of_jump - 129),
            !short,
            "{end}"
        );
    }
    let mut code = Code::default();
    let hole = code.jump_ahead(Some(Cond::Equal));
    code.ret();
    code.land(hole);
    code.jump_back(Cond::NotEqual, 2);
    code.call();
    assert!(code.set_distance(10, false, 0));
    assert_eq!(
        code.bytes(),
        [0x74, 1, 0xc3, 0x75, 0xfd, 0xe8, 0xf6, 0xff, 0xff, 0xff]
    );
}

/// What `objdump` reads, one instruction a line, with single spaces.
fn disassemble(bytes: &[u8]) -> Option<Vec<String>> {
    let file = std::env::temp_dir().join(format!(
        "xdp-vm-{}-{:x}",
        std::process::id(),
        bytes.as_ptr().addr()
    ));
    std::fs::write(&file, bytes).unwrap();
    let output = Command::new("objdump")
        .args(["-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel"])
        .args(["--no-show-raw-insn", "--insn-width=16"])
        .arg(&file)
        .output();
    std::fs::remove_file(&file).unwrap();
    let output = output.ok()?;
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(":\t"));
    let words = lines.map(|(_, insn)| insn.split_whitespace().collect::<Vec<_>>().join(" "));
    Some(words.collect())
}
