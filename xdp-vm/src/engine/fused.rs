//! Superinstructions: sequences of operations that compilers make over and over, run as one. Going to
//! the next operation costs the interpreter more than most operations do, and a result that the next
//! one works on goes through memory; both are saved here.
//!
//! A superinstruction is a [`Kind`] for the first operation of its sequence. The operations after it
//! stay as they are: jumps may go to them, and its arm in the interpreter takes its operands from them.

use super::op::{Kind, Op};

/// The table, handed to the macro `$table`: a name, and the operations in order, each with how it is
/// linked to the ones before.
///
/// | word | what it is | link |
/// |---|---|---|
/// | `any` | makes a value | none |
/// | `same` | makes a value | works on the destination of the operation before, with another register or a constant |
/// | `with` | makes a value | its source is the destination of the operation before, its destination is not |
/// | `back` | makes a value | works on the destination before that of the operation before |
/// | `both` | makes a value | as `same`, and its source is the destination before that |
/// | `test` | jumps | compares the destination of the operation before, with another register or a constant |
/// | `test_with` | jumps | compares another register with the destination of the operation before |
/// | `test_any` | jumps | none |
/// | `store` | writes memory | the destination of the operation before |
/// | `store_any` | writes memory | none |
/// | `jump`, `exit`, `look_up` | as their kind says | none |
macro_rules! superinstructions {
    ($table:ident) => {
        $table! {
            // An address beside another, and whether the packet reaches so far.
            Lea: { any Mov64X, same Add64K }
            LeaX: { any Mov64X, same Add64X }
            LeaJgt: { any Mov64X, same Add64K, test Jgt64X }
            LeaJge: { any Mov64X, same Add64K, test Jge64X }
            LeaJlt: { any Mov64X, same Add64K, test_with Jlt64X }
            AddJgt: { any Add64K, test Jgt64X }
            AddJge: { any Add64K, test Jge64X }
            AddJgtFrom: { any Add64K, test_with Jgt64X }
            AddJltFrom: { any Add64K, test_with Jlt64X }
            // The end of a loop.
            AddJne64: { any Add64K, test Jne64K }
            AddJne32: { any Add32K, test Jne32K }
            AddJlt64: { any Add64K, test Jlt64K }
            AddJlt32: { any Add32K, test Jlt32K }
            AddMovJne64: { any Add64K, any Mov64X, test_any Jne64K }
            AddMovJne32: { any Add32K, any Mov64X, test_any Jne32K }
            // A field, and what it is compared with.
            Load8Jeq32: { any Load8, test Jeq32K }
            Load8Jne32: { any Load8, test Jne32K }
            Load16Jeq32: { any Load16, test Jeq32K }
            Load16Jne32: { any Load16, test Jne32K }
            Load32Jeq32: { any Load32, test Jeq32K }
            Load32Jne32: { any Load32, test Jne32K }
            Load8Jeq64: { any Load8, test Jeq64K }
            Load8Jne64: { any Load8, test Jne64K }
            Load16Jeq64: { any Load16, test Jeq64K }
            Load16Jne64: { any Load16, test Jne64K }
            Load32Jeq64: { any Load32, test Jeq64K }
            Load32Jne64: { any Load32, test Jne64K }
            Load64Jeq64: { any Load64, test Jeq64K }
            Load64Jne64: { any Load64, test Jne64K }
            Load32Jne32X: { any Load32, test_with Jne32X }
            Load8AndJne: { any Load8, same And32K, test Jne32K }
            Load8AndJeq: { any Load8, same And32K, test Jeq32K }
            Load16AndJne: { any Load16, same And32K, test Jne32K }
            Load16AndJeq: { any Load16, same And32K, test Jeq32K }
            AndJne32: { any And32K, test Jne32K }
            AndJeq32: { any And32K, test Jeq32K }
            AndJne64: { any And64K, test Jne64K }
            AndJeq64: { any And64K, test Jeq64K }
            // A field in another byte order, or part of one.
            Load16Swap: { any Load16, same Swap16 }
            Load32Swap: { any Load32, same Swap32 }
            Load64Swap: { any Load64, same Swap64 }
            MovAnd32: { any Mov32X, same And32K }
            MovAnd64: { any Mov64X, same And64K }
            Load8And: { any Load8, same And32K }
            Load16And: { any Load16, same And32K }
            Load8Lsh32: { any Load8, same Lsh32K }
            Load8Lsh64: { any Load8, same Lsh64K }
            Load8Or32: { any Load8, with Or32X }
            Load8Or64: { any Load8, with Or64X }
            LshOr32: { any Lsh32K, same Or32X }
            LshOr64: { any Lsh64K, same Or64X }
            Extend: { any Lsh64K, same Rsh64K }
            ExtendSigned: { any Lsh64K, same Arsh64K }
            // Hashes: rotations, and what they are mixed with.
            Rotate32: { any Mov32X, same Rsh32K, any Mov32X, same Lsh32K, both Or32X }
            RotateBack32: { any Mov32X, same Lsh32K, any Mov32X, same Rsh32K, both Or32X }
            Rotate64: { any Mov64X, same Rsh64K, any Mov64X, same Lsh64K, both Or64X }
            RotateBack64: { any Mov64X, same Lsh64K, any Mov64X, same Rsh64K, both Or64X }
            MovRsh64: { any Mov64X, same Rsh64K }
            MovRsh32: { any Mov32X, same Rsh32K }
            MovLsh64: { any Mov64X, same Lsh64K }
            MovLsh32: { any Mov32X, same Lsh32K }
            SubXor32: { any Sub32X, same Xor32X }
            XorSub32: { any Xor32X, same Sub32X }
            AddSubXor32: { any Add32X, any Sub32X, same Xor32X }
            AddSub32: { any Add32X, any Sub32X }
            XorXor32: { any Xor32X, same Xor32X }
            AddMov32: { any Add32X, with Mov32X }
            SubMov32: { any Sub32X, with Mov32X }
            XorMov32: { any Xor32X, with Mov32X }
            LshXor: { any Lsh64K, same Xor64X }
            LshXorAdd: { any Lsh64K, same Xor64X, same Add64K }
            XorAdd: { any Xor64X, same Add64K }
            // Sums, and their carries brought in.
            Load16Add32: { any Load16, with Add32X }
            Load16Add64: { any Load16, with Add64X }
            Load32Add64: { any Load32, with Add64X }
            Load16AddFold32: {
                any Load16, with Add32X, with Mov32X, same Rsh32K, back And32K, both Add32X
            }
            AddFold32: { any Add32X, with Mov32X, same Rsh32K, back And32K, both Add32X }
            Fold32: { any Mov32X, same Rsh32K, any And32K, both Add32X }
            Fold64: { any Mov64X, same Rsh64K, any And64K, both Add64X }
            MovAdd32: { any Mov32X, same Add32X }
            AndAdd32: { any And32K, same Add32X }
            AndAdd64: { any And64K, same Add64X }
            // From one place to another.
            Copy8: { any Load8, store StoreX8 }
            Copy16: { any Load16, store StoreX16 }
            Copy32: { any Load32, store StoreX32 }
            Copy64: { any Load64, store StoreX64 }
            ConstantLoad32: { any Mov64K, with Load32 }
            ConstantLoad64: { any Mov64K, with Load64 }
            Constants: { any Mov64K, any Mov64K }
            Load8Load8: { any Load8, any Load8 }
            Load32Load32: { any Load32, any Load32 }
            Load64Load64: { any Load64, any Load64 }
            StoreStore64: { store_any StoreX64, store_any StoreX64 }
            StoreStoreK64: { store_any StoreK64, store_any StoreK64 }
            // Counters.
            Count: { any Load64, same Add64K, store StoreX64 }
            CountBy: { any Load64, same Add64X, store StoreX64 }
            // A verdict, or a constant before a jump.
            MovExit32: { any Mov32K, exit Exit }
            MoveExit32: { any Mov32X, exit Exit }
            MovExit64: { any Mov64K, exit Exit }
            MovJump32: { any Mov32K, jump Jump }
            MovJump64: { any Mov64K, jump Jump }
            // The address of a key on the stack, a map, and whether there is an entry.
            KeyLookup: { any Mov64X, same Add64K, any Mov64K, look_up CallLookup }
            KeyLookupJeq: {
                any Mov64X, same Add64K, any Mov64K, look_up CallLookup, test_any Jeq64K
            }
            KeyStoreLookup: {
                store_any StoreX32, any Mov64X, same Add64K, any Mov64K, look_up CallLookup
            }
            KeyStoreLookupJeq: {
                store_any StoreX32, any Mov64X, same Add64K, any Mov64K, look_up CallLookup,
                test_any Jeq64K
            }
        }
    };
}

/// How an operation of a sequence is linked to those before it. See the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Makes a value of whatever registers it names.
    Any,
    Same,
    With,
    Back,
    Both,
    /// Makes no value; its source is the one in hand.
    Source,
    /// Makes no value, and names whatever registers.
    None,
}

/// What an operation of a sequence makes of `$dst` and `$src`, its operands.
macro_rules! made {
    ($op:ident Mov64X $dst:expr, $src:expr) => { $src };
    ($op:ident Mov32X $dst:expr, $src:expr) => { u64::from($src as u32) };
    ($op:ident Mov64K $dst:expr, $src:expr) => { $op.imm };
    ($op:ident Mov32K $dst:expr, $src:expr) => { u64::from($op.imm as u32) };
    ($op:ident Add64X $dst:expr, $src:expr) => { $dst.wrapping_add($src) };
    ($op:ident Add64K $dst:expr, $src:expr) => { $dst.wrapping_add($op.imm) };
    ($op:ident Add32X $dst:expr, $src:expr) => {
        u64::from(($dst as u32).wrapping_add($src as u32))
    };
    ($op:ident Add32K $dst:expr, $src:expr) => {
        u64::from(($dst as u32).wrapping_add($op.imm as u32))
    };
    ($op:ident Sub32X $dst:expr, $src:expr) => {
        u64::from(($dst as u32).wrapping_sub($src as u32))
    };
    ($op:ident And64K $dst:expr, $src:expr) => { $dst & $op.imm };
    ($op:ident And32K $dst:expr, $src:expr) => { u64::from($dst as u32 & $op.imm as u32) };
    ($op:ident Or64X $dst:expr, $src:expr) => { $dst | $src };
    ($op:ident Or32X $dst:expr, $src:expr) => { u64::from($dst as u32 | $src as u32) };
    ($op:ident Xor32X $dst:expr, $src:expr) => { u64::from($dst as u32 ^ $src as u32) };
    ($op:ident Xor64X $dst:expr, $src:expr) => { $dst ^ $src };
    ($op:ident Lsh64K $dst:expr, $src:expr) => { $dst.wrapping_shl($op.imm as u32) };
    ($op:ident Lsh32K $dst:expr, $src:expr) => {
        u64::from(($dst as u32).wrapping_shl($op.imm as u32))
    };
    ($op:ident Rsh64K $dst:expr, $src:expr) => { $dst.wrapping_shr($op.imm as u32) };
    ($op:ident Rsh32K $dst:expr, $src:expr) => {
        u64::from(($dst as u32).wrapping_shr($op.imm as u32))
    };
    ($op:ident Arsh64K $dst:expr, $src:expr) => { arsh64($dst, $op.imm) };
    ($op:ident Swap16 $dst:expr, $src:expr) => { u64::from(($dst as u16).swap_bytes()) };
    ($op:ident Swap32 $dst:expr, $src:expr) => { u64::from(($dst as u32).swap_bytes()) };
    ($op:ident Swap64 $dst:expr, $src:expr) => { $dst.swap_bytes() };
    ($op:ident Load8 $dst:expr, $src:expr) => { made!(@load $op load8 $src) };
    ($op:ident Load16 $dst:expr, $src:expr) => { made!(@load $op load16 $src) };
    ($op:ident Load32 $dst:expr, $src:expr) => { made!(@load $op load32 $src) };
    ($op:ident Load64 $dst:expr, $src:expr) => { made!(@load $op load64 $src) };
    (@load $op:ident $load:ident $src:expr) => {{
        let at = pointer($src.wrapping_add_signed(i64::from($op.off)));
        // SAFETY: the verifier proved that the bytes are the program's to read.
        unsafe { $load(at) }
    }};
}

/// Whether an operation of a sequence jumps.
macro_rules! holds {
    ($op:ident Jeq64K $dst:expr, $src:expr) => {
        $dst == $op.imm
    };
    ($op:ident Jeq32K $dst:expr, $src:expr) => {
        $dst as u32 == $op.imm as u32
    };
    ($op:ident Jne64K $dst:expr, $src:expr) => {
        $dst != $op.imm
    };
    ($op:ident Jne32K $dst:expr, $src:expr) => {
        $dst as u32 != $op.imm as u32
    };
    ($op:ident Jne32X $dst:expr, $src:expr) => {
        $dst as u32 != $src as u32
    };
    ($op:ident Jgt64X $dst:expr, $src:expr) => {
        $dst > $src
    };
    ($op:ident Jge64X $dst:expr, $src:expr) => {
        $dst >= $src
    };
    ($op:ident Jlt64X $dst:expr, $src:expr) => {
        $dst < $src
    };
    ($op:ident Jlt64K $dst:expr, $src:expr) => {
        $dst < $op.imm
    };
    ($op:ident Jlt32K $dst:expr, $src:expr) => {
        ($dst as u32) < $op.imm as u32
    };
}

/// What an operation of a sequence writes to memory, and how.
macro_rules! written {
    ($op:ident StoreX8 $src:expr) => {
        (store8, $src as u8)
    };
    ($op:ident StoreX16 $src:expr) => {
        (store16, $src as u16)
    };
    ($op:ident StoreX32 $src:expr) => {
        (store32, $src as u32)
    };
    ($op:ident StoreX64 $src:expr) => {
        (store64, $src)
    };
    ($op:ident StoreK64 $src:expr) => {
        (store64, $op.imm)
    };
}

/// A superinstruction: its kind, and its sequence.
type Row = (Kind, &'static [(Link, Kind)]);

macro_rules! rows {
    ($($name:ident: { $($word:ident $kind:ident),* })*) => {
        pub(super) const ROWS: &[Row] = &[
            $((Kind::$name, &[$((rows!(@ $word), Kind::$kind)),*]),)*
        ];
    };
    (@ any) => { Link::Any };
    (@ same) => { Link::Same };
    (@ with) => { Link::With };
    (@ back) => { Link::Back };
    (@ both) => { Link::Both };
    (@ test) => { Link::Same };
    (@ test_with) => { Link::Source };
    (@ test_any) => { Link::None };
    (@ store) => { Link::Source };
    (@ store_any) => { Link::None };
    (@ jump) => { Link::None };
    (@ exit) => { Link::None };
    (@ look_up) => { Link::None };
}

superinstructions!(rows);

/// Makes superinstructions of what sequences there are, so that from each operation on as few as
/// possible are run until the next jump that is taken.
pub(super) fn fuse(ops: &mut [Op]) {
    let kinds: Vec<Kind> = ops.iter().map(|op| op.kind).collect();
    // From each operation to the end.
    let mut steps = vec![0u32; ops.len() + 1];
    for at in (0..ops.len()).rev() {
        let mut best = (1 + steps[at + 1], kinds[at]);
        for &(kind, sequence) in ROWS {
            if sequence[0].1 == kinds[at] && matches(sequence, &kinds[at..], &ops[at..]) {
                let fused = (1 + steps[at + sequence.len()], kind);
                if fused.0 < best.0 {
                    best = fused;
                }
            }
        }
        (steps[at], ops[at].kind) = best;
    }
}

/// True where the operations, whose kinds before any was fused are `kinds`, start with the sequence.
pub(super) fn matches(sequence: &[(Link, Kind)], kinds: &[Kind], ops: &[Op]) -> bool {
    if kinds.len() < sequence.len() || sequence.iter().zip(kinds).any(|(s, k)| s.1 != *k) {
        return false;
    }
    // The destinations of the last two values.
    let (mut at, mut before) = (None, None);
    sequence.iter().zip(ops).all(|(&(link, kind), op)| {
        let (dst, src) = (Some(op.dst), Some(op.src));
        let linked = match link {
            Link::Any | Link::None => true,
            Link::Same => dst == at && !(reads_source(kind) && src == at),
            Link::With => src == at && dst != at,
            Link::Back => dst == before && at != before,
            Link::Both => dst == at && src == before && at != before,
            Link::Source => src == at,
        };
        if matches!(link, Link::Any | Link::With | Link::Back) {
            (before, at) = (at, dst);
        }
        linked
    })
}

/// True for those kinds of sequences that have a register as their second operand.
fn reads_source(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Add64K
            | Kind::Add32K
            | Kind::And64K
            | Kind::And32K
            | Kind::Lsh64K
            | Kind::Lsh32K
            | Kind::Rsh64K
            | Kind::Rsh32K
            | Kind::Arsh64K
            | Kind::Swap16
            | Kind::Swap32
            | Kind::Swap64
            | Kind::Jeq64K
            | Kind::Jeq32K
            | Kind::Jne64K
            | Kind::Jne32K
            | Kind::Jlt64K
            | Kind::Jlt32K
    )
}
