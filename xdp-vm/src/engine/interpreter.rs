//! The interpreter: one loop over pre-decoded operations. It checks nothing that the verifier
//! proved.
#![allow(unsafe_code)]

use super::arithmetic::{
    arsh32, arsh64, div32, div64, mod32, mod64, sdiv32, sdiv64, smod32, smod64,
};
use super::atomics::{Change, change32, change64, compare32, compare64};
use super::op::{Kind, Op};
use crate::buff::XdpBuff;
use crate::cpu::{Call, Cpu, FRAME};
use crate::helpers::{self, Env, Helper, maps::map};
use crate::maps::Storage;
use crate::memory::{load8, load16, load32, load64, pointer, store8, store16, store32, store64};

/// Runs a program and gives the low half of r0.
///
/// # Safety
/// `ops` are what `decode` made of a verified program, whose maps live and have the slot of `cpu`.
pub(super) unsafe fn run(ops: &[Op], cpu: &mut Cpu, buff: &mut XdpBuff<'_>) -> u32 {
    let mut regs = Registers([0; 11]);
    regs.0[1] = buff.context();
    regs.0[10] = cpu.stack_top();
    let mut depth = 0;
    let mut pc = ops.as_ptr();
    let mut env = Env { cpu, buff };

    loop {
        // SAFETY: `decode` lets no jump leave the ops, and nothing falls off their end: the last is
        // a trap.
        let op = unsafe { &*pc };
        // SAFETY: as above; at most one past the end.
        pc = unsafe { pc.add(1) };

        macro_rules! dst {
            () => {
                *regs.at(op.dst)
            };
        }
        macro_rules! src {
            () => {
                *regs.at(op.src)
            };
        }
        // Arithmetic of 64 bits with a register or the immediate.
        macro_rules! alu64x {
            ($f:expr) => {
                dst!() = $f(dst!(), src!())
            };
        }
        macro_rules! alu64k {
            ($f:expr) => {
                dst!() = $f(dst!(), op.imm)
            };
        }
        // Arithmetic of 32 bits; the upper half of the result is zero.
        macro_rules! alu32x {
            ($f:expr) => {
                dst!() = u64::from($f(dst!() as u32, src!() as u32))
            };
        }
        macro_rules! alu32k {
            ($f:expr) => {
                dst!() = u64::from($f(dst!() as u32, op.imm as u32))
            };
        }
        macro_rules! jump {
            () => {{
                // SAFETY: `decode` checked the target.
                pc = unsafe { pc.offset(op.off as isize) };
            }};
        }
        macro_rules! jump_if {
            ($ty:ty, $left:expr, $right:expr, $test:expr) => {
                if $test($left as $ty, $right as $ty) {
                    jump!();
                }
            };
        }
        macro_rules! address {
            ($register:expr) => {
                pointer(regs.at($register).wrapping_add_signed(i64::from(op.off)))
            };
        }
        macro_rules! load {
            ($load:ident) => {{
                let at = address!(op.src);
                // SAFETY: the verifier proved that the bytes are the program's to read.
                dst!() = unsafe { $load(at) };
            }};
            ($load:ident, $ty:ty) => {{
                let at = address!(op.src);
                // SAFETY: the verifier proved that the bytes are the program's to read.
                let value = unsafe { $load(at) };
                dst!() = i64::from(value as $ty).cast_unsigned();
            }};
        }
        macro_rules! store {
            ($store:ident, $ty:ty, $value:expr) => {{
                let (at, value) = (address!(op.dst), $value as $ty);
                // SAFETY: the verifier proved that the bytes are the program's to write.
                unsafe { $store(at, value) }
            }};
        }
        macro_rules! atomic {
            ($change:ident, $ty:ty, $what:ident) => {{
                let (at, operand) = (address!(op.dst), src!() as $ty);
                // SAFETY: the verifier proved that the bytes are the program's to read and write.
                unsafe { $change(at, Change::$what, operand) }
            }};
        }
        macro_rules! fetch {
            ($change:ident, $ty:ty, $what:ident) => {
                src!() = u64::from(atomic!($change, $ty, $what))
            };
        }

        // The operation after the last one.
        macro_rules! next {
            () => {{
                // SAFETY: a superinstruction stands where its whole sequence is.
                let op = unsafe { &*pc };
                // SAFETY: as above.
                pc = unsafe { pc.add(1) };
                op
            }};
        }
        // A superinstruction. In hand: `$v`, the value for register `$at`, which is not written yet,
        // and `$w`, the one that was made before it.
        macro_rules! fused {
            (any $kind:ident $($rest:tt)*) => {{
                let value = made!(op $kind dst!(), src!());
                fused!(@ value (op.dst) value; $($rest)*)
            }};
            (store_any $kind:ident $($rest:tt)*) => {{
                fused!(@write op $kind src!());
                fused!(@@ $($rest)*)
            }};
            (@ $v:ident ($at:expr) $w:ident;) => { *regs.at($at) = $v };
            (@ $v:ident ($at:expr) $w:ident; , any $kind:ident $($rest:tt)*) => {{
                *regs.at($at) = $v;
                let next = next!();
                let value = made!(next $kind *regs.at(next.dst), *regs.at(next.src));
                fused!(@ value (next.dst) $v; $($rest)*)
            }};
            (@ $v:ident ($at:expr) $w:ident; , same $kind:ident $($rest:tt)*) => {{
                #[allow(unused_variables, reason = "operands in hand may be all it has")]
                let next = next!();
                let value = made!(next $kind $v, *regs.at(next.src));
                fused!(@ value ($at) $w; $($rest)*)
            }};
            (@ $v:ident ($at:expr) $w:ident; , with $kind:ident $($rest:tt)*) => {{
                *regs.at($at) = $v;
                let next = next!();
                let value = made!(next $kind *regs.at(next.dst), $v);
                fused!(@ value (next.dst) $v; $($rest)*)
            }};
            (@ $v:ident ($at:expr) $w:ident; , back $kind:ident $($rest:tt)*) => {{
                *regs.at($at) = $v;
                let next = next!();
                let value = made!(next $kind $w, *regs.at(next.src));
                fused!(@ value (next.dst) $v; $($rest)*)
            }};
            (@ $v:ident ($at:expr) $w:ident; , both $kind:ident $($rest:tt)*) => {{
                #[allow(unused_variables, reason = "operands in hand may be all it has")]
                let next = next!();
                let value = made!(next $kind $v, $w);
                fused!(@ value ($at) $w; $($rest)*)
            }};
            (@ $v:ident ($at:expr) $w:ident; , test $kind:ident) => {{
                *regs.at($at) = $v;
                let next = next!();
                fused!(@jump next holds!(next $kind $v, *regs.at(next.src)))
            }};
            (@ $v:ident ($at:expr) $w:ident; , test_with $kind:ident) => {{
                *regs.at($at) = $v;
                let next = next!();
                fused!(@jump next holds!(next $kind *regs.at(next.dst), $v))
            }};
            (@ $v:ident ($at:expr) $w:ident; , test_any $kind:ident) => {{
                *regs.at($at) = $v;
                let next = next!();
                fused!(@jump next holds!(next $kind *regs.at(next.dst), *regs.at(next.src)))
            }};
            (@ $v:ident ($at:expr) $w:ident; , store $kind:ident $($rest:tt)*) => {{
                *regs.at($at) = $v;
                let next = next!();
                fused!(@write next $kind $v);
                fused!(@@ $($rest)*)
            }};
            (@ $v:ident ($at:expr) $w:ident; , jump Jump) => {{
                *regs.at($at) = $v;
                let next = next!();
                fused!(@jump next true)
            }};
            (@ $v:ident ($at:expr) $w:ident; , exit Exit) => {{
                *regs.at($at) = $v;
                exit!()
            }};
            (@ $v:ident ($at:expr) $w:ident; , look_up CallLookup $($rest:tt)*) => {{
                *regs.at($at) = $v;
                next!();
                look_up!();
                fused!(@@ $($rest)*)
            }};
            // Nothing in hand.
            (@@) => {
                ()
            };
            (@@ , any $kind:ident $($rest:tt)*) => {{
                let next = next!();
                let value = made!(next $kind *regs.at(next.dst), *regs.at(next.src));
                fused!(@ value (next.dst) value; $($rest)*)
            }};
            (@@ , store_any $kind:ident $($rest:tt)*) => {{
                let next = next!();
                fused!(@write next $kind *regs.at(next.src));
                fused!(@@ $($rest)*)
            }};
            (@@ , test_any $kind:ident) => {{
                let next = next!();
                fused!(@jump next holds!(next $kind *regs.at(next.dst), *regs.at(next.src)))
            }};
            (@write $op:ident $kind:ident $src:expr) => {{
                let at = pointer(regs.at($op.dst).wrapping_add_signed(i64::from($op.off)));
                let (store, value) = written!($op $kind $src);
                // SAFETY: the verifier proved that the bytes are the program's to write.
                unsafe { store(at, value) }
            }};
            (@jump $op:ident $test:expr) => {
                if $test {
                    // SAFETY: `decode` checked the target.
                    pc = unsafe { pc.offset($op.off as isize) };
                }
            };
        }
        macro_rules! look_up {
            () => {{
                let slot = env.cpu.slot();
                // SAFETY: the verifier proved that r1 is a map and r2 a key of it.
                let value = unsafe {
                    let (map, key) = (map(regs.0[1]), pointer(regs.0[2]));
                    match map.storage() {
                        Storage::Array(array) => array.lookup(slot, key),
                        _ => map.lookup_raw(slot, key),
                    }
                };
                regs.0[0] = value.expose_provenance() as u64;
            }};
        }
        macro_rules! exit {
            () => {{
                if depth == 0 {
                    return regs.0[0] as u32;
                }
                depth -= 1;
                let call = &env.cpu.calls[depth];
                [regs.0[6], regs.0[7], regs.0[8], regs.0[9]] = call.saved;
                regs.0[10] += FRAME as u64;
                // SAFETY: it was a place in `ops` when it was put there.
                pc = unsafe { ops.as_ptr().add(call.return_to as usize) };
            }};
        }

        macro_rules! dispatch {
            ($($name:ident: { $($steps:tt)* })*) => {
        match op.kind {
            Kind::Add64X => alu64x!(u64::wrapping_add),
            Kind::Add64K => alu64k!(u64::wrapping_add),
            Kind::Add32X => alu32x!(u32::wrapping_add),
            Kind::Add32K => alu32k!(u32::wrapping_add),
            Kind::Sub64X => alu64x!(u64::wrapping_sub),
            Kind::Sub64K => alu64k!(u64::wrapping_sub),
            Kind::Sub32X => alu32x!(u32::wrapping_sub),
            Kind::Sub32K => alu32k!(u32::wrapping_sub),
            Kind::Mul64X => alu64x!(u64::wrapping_mul),
            Kind::Mul64K => alu64k!(u64::wrapping_mul),
            Kind::Mul32X => alu32x!(u32::wrapping_mul),
            Kind::Mul32K => alu32k!(u32::wrapping_mul),
            Kind::Div64X => alu64x!(div64),
            Kind::Div64K => alu64k!(div64),
            Kind::Div32X => alu32x!(div32),
            Kind::Div32K => alu32k!(div32),
            Kind::Sdiv64X => alu64x!(sdiv64),
            Kind::Sdiv64K => alu64k!(sdiv64),
            Kind::Sdiv32X => alu32x!(sdiv32),
            Kind::Sdiv32K => alu32k!(sdiv32),
            Kind::Mod64X => alu64x!(mod64),
            Kind::Mod64K => alu64k!(mod64),
            Kind::Mod32X => alu32x!(mod32),
            Kind::Mod32K => alu32k!(mod32),
            Kind::Smod64X => alu64x!(smod64),
            Kind::Smod64K => alu64k!(smod64),
            Kind::Smod32X => alu32x!(smod32),
            Kind::Smod32K => alu32k!(smod32),
            Kind::Or64X => alu64x!(|a, b| a | b),
            Kind::Or64K => alu64k!(|a, b| a | b),
            Kind::Or32X => alu32x!(|a, b| a | b),
            Kind::Or32K => alu32k!(|a, b| a | b),
            Kind::And64X => alu64x!(|a, b| a & b),
            Kind::And64K => alu64k!(|a, b| a & b),
            Kind::And32X => alu32x!(|a, b| a & b),
            Kind::And32K => alu32k!(|a, b| a & b),
            Kind::Xor64X => alu64x!(|a, b| a ^ b),
            Kind::Xor64K => alu64k!(|a, b| a ^ b),
            Kind::Xor32X => alu32x!(|a, b| a ^ b),
            Kind::Xor32K => alu32k!(|a, b| a ^ b),
            // The distance of a shift counts in its low bits only.
            Kind::Lsh64X => alu64x!(|a: u64, b| a.wrapping_shl(b as u32)),
            Kind::Lsh64K => alu64k!(|a: u64, b| a.wrapping_shl(b as u32)),
            Kind::Lsh32X => alu32x!(u32::wrapping_shl),
            Kind::Lsh32K => alu32k!(u32::wrapping_shl),
            Kind::Rsh64X => alu64x!(|a: u64, b| a.wrapping_shr(b as u32)),
            Kind::Rsh64K => alu64k!(|a: u64, b| a.wrapping_shr(b as u32)),
            Kind::Rsh32X => alu32x!(u32::wrapping_shr),
            Kind::Rsh32K => alu32k!(u32::wrapping_shr),
            Kind::Arsh64X => alu64x!(arsh64),
            Kind::Arsh64K => alu64k!(arsh64),
            Kind::Arsh32X => alu32x!(arsh32),
            Kind::Arsh32K => alu32k!(arsh32),
            Kind::Mov64X => dst!() = src!(),
            Kind::Mov64K => dst!() = op.imm,
            Kind::Mov32X => dst!() = u64::from(src!() as u32),
            Kind::Mov32K => dst!() = u64::from(op.imm as u32),
            Kind::Neg64 => dst!() = dst!().wrapping_neg(),
            Kind::Neg32 => dst!() = u64::from((dst!() as u32).wrapping_neg()),
            Kind::Movsx64From8 => dst!() = i64::from(src!() as i8).cast_unsigned(),
            Kind::Movsx64From16 => dst!() = i64::from(src!() as i16).cast_unsigned(),
            Kind::Movsx64From32 => dst!() = i64::from(src!() as i32).cast_unsigned(),
            Kind::Movsx32From8 => dst!() = u64::from(i32::from(src!() as i8).cast_unsigned()),
            Kind::Movsx32From16 => dst!() = u64::from(i32::from(src!() as i16).cast_unsigned()),
            Kind::Cut16 => dst!() = u64::from(dst!() as u16),
            Kind::Cut32 => dst!() = u64::from(dst!() as u32),
            Kind::Swap16 => dst!() = u64::from((dst!() as u16).swap_bytes()),
            Kind::Swap32 => dst!() = u64::from((dst!() as u32).swap_bytes()),
            Kind::Swap64 => dst!() = dst!().swap_bytes(),
            Kind::Nop => {}

            Kind::Load8 => load!(load8),
            Kind::Load16 => load!(load16),
            Kind::Load32 => load!(load32),
            Kind::Load64 => load!(load64),
            Kind::LoadSx8 => load!(load8, i8),
            Kind::LoadSx16 => load!(load16, i16),
            Kind::LoadSx32 => load!(load32, i32),
            Kind::StoreX8 => store!(store8, u8, src!()),
            Kind::StoreX16 => store!(store16, u16, src!()),
            Kind::StoreX32 => store!(store32, u32, src!()),
            Kind::StoreX64 => store!(store64, u64, src!()),
            Kind::StoreK8 => store!(store8, u8, op.imm),
            Kind::StoreK16 => store!(store16, u16, op.imm),
            Kind::StoreK32 => store!(store32, u32, op.imm),
            Kind::StoreK64 => store!(store64, u64, op.imm),
            Kind::LoadData => dst!() = env.buff.data_address(),
            Kind::LoadDataEnd => dst!() = env.buff.data_end_address(),
            Kind::LoadDataMeta => dst!() = env.buff.data_meta_address(),
            Kind::LoadIngressIfindex => dst!() = u64::from(env.buff.ingress_ifindex()),
            Kind::LoadRxQueueIndex => dst!() = u64::from(env.buff.rx_queue_index()),
            Kind::LoadEgressIfindex => dst!() = u64::from(env.buff.egress_ifindex()),
            Kind::LoadSxIngressIfindex => dst!() = extended(env.buff.ingress_ifindex()),
            Kind::LoadSxRxQueueIndex => dst!() = extended(env.buff.rx_queue_index()),
            Kind::LoadSxEgressIfindex => dst!() = extended(env.buff.egress_ifindex()),

            Kind::AtomicAdd64 => _ = atomic!(change64, u64, Add),
            Kind::AtomicAdd32 => _ = atomic!(change32, u32, Add),
            Kind::AtomicOr64 => _ = atomic!(change64, u64, Or),
            Kind::AtomicOr32 => _ = atomic!(change32, u32, Or),
            Kind::AtomicAnd64 => _ = atomic!(change64, u64, And),
            Kind::AtomicAnd32 => _ = atomic!(change32, u32, And),
            Kind::AtomicXor64 => _ = atomic!(change64, u64, Xor),
            Kind::AtomicXor32 => _ = atomic!(change32, u32, Xor),
            Kind::FetchAdd64 => fetch!(change64, u64, Add),
            Kind::FetchAdd32 => fetch!(change32, u32, Add),
            Kind::FetchOr64 => fetch!(change64, u64, Or),
            Kind::FetchOr32 => fetch!(change32, u32, Or),
            Kind::FetchAnd64 => fetch!(change64, u64, And),
            Kind::FetchAnd32 => fetch!(change32, u32, And),
            Kind::FetchXor64 => fetch!(change64, u64, Xor),
            Kind::FetchXor32 => fetch!(change32, u32, Xor),
            Kind::Xchg64 => fetch!(change64, u64, Exchange),
            Kind::Xchg32 => fetch!(change32, u32, Exchange),
            Kind::Cmpxchg64 => {
                let (at, new) = (address!(op.dst), src!());
                // SAFETY: the verifier proved that the bytes are the program's to write.
                regs.0[0] = unsafe { compare64(at, regs.0[0], new) };
            }
            Kind::Cmpxchg32 => {
                let (at, new) = (address!(op.dst), src!() as u32);
                // SAFETY: the verifier proved that the bytes are the program's to write.
                regs.0[0] = u64::from(unsafe { compare32(at, regs.0[0] as u32, new) });
            }

            Kind::Jump => jump!(),
            Kind::Jeq64X => jump_if!(u64, dst!(), src!(), |a, b| a == b),
            Kind::Jeq64K => jump_if!(u64, dst!(), op.imm, |a, b| a == b),
            Kind::Jeq32X => jump_if!(u32, dst!(), src!(), |a, b| a == b),
            Kind::Jeq32K => jump_if!(u32, dst!(), op.imm, |a, b| a == b),
            Kind::Jne64X => jump_if!(u64, dst!(), src!(), |a, b| a != b),
            Kind::Jne64K => jump_if!(u64, dst!(), op.imm, |a, b| a != b),
            Kind::Jne32X => jump_if!(u32, dst!(), src!(), |a, b| a != b),
            Kind::Jne32K => jump_if!(u32, dst!(), op.imm, |a, b| a != b),
            Kind::Jgt64X => jump_if!(u64, dst!(), src!(), |a, b| a > b),
            Kind::Jgt64K => jump_if!(u64, dst!(), op.imm, |a, b| a > b),
            Kind::Jgt32X => jump_if!(u32, dst!(), src!(), |a, b| a > b),
            Kind::Jgt32K => jump_if!(u32, dst!(), op.imm, |a, b| a > b),
            Kind::Jge64X => jump_if!(u64, dst!(), src!(), |a, b| a >= b),
            Kind::Jge64K => jump_if!(u64, dst!(), op.imm, |a, b| a >= b),
            Kind::Jge32X => jump_if!(u32, dst!(), src!(), |a, b| a >= b),
            Kind::Jge32K => jump_if!(u32, dst!(), op.imm, |a, b| a >= b),
            Kind::Jlt64X => jump_if!(u64, dst!(), src!(), |a, b| a < b),
            Kind::Jlt64K => jump_if!(u64, dst!(), op.imm, |a, b| a < b),
            Kind::Jlt32X => jump_if!(u32, dst!(), src!(), |a, b| a < b),
            Kind::Jlt32K => jump_if!(u32, dst!(), op.imm, |a, b| a < b),
            Kind::Jle64X => jump_if!(u64, dst!(), src!(), |a, b| a <= b),
            Kind::Jle64K => jump_if!(u64, dst!(), op.imm, |a, b| a <= b),
            Kind::Jle32X => jump_if!(u32, dst!(), src!(), |a, b| a <= b),
            Kind::Jle32K => jump_if!(u32, dst!(), op.imm, |a, b| a <= b),
            Kind::Jset64X => jump_if!(u64, dst!(), src!(), |a, b| a & b != 0),
            Kind::Jset64K => jump_if!(u64, dst!(), op.imm, |a, b| a & b != 0),
            Kind::Jset32X => jump_if!(u32, dst!(), src!(), |a, b| a & b != 0),
            Kind::Jset32K => jump_if!(u32, dst!(), op.imm, |a, b| a & b != 0),
            Kind::Jsgt64X => jump_if!(i64, dst!(), src!(), |a, b| a > b),
            Kind::Jsgt64K => jump_if!(i64, dst!(), op.imm, |a, b| a > b),
            Kind::Jsgt32X => jump_if!(i32, dst!(), src!(), |a, b| a > b),
            Kind::Jsgt32K => jump_if!(i32, dst!(), op.imm, |a, b| a > b),
            Kind::Jsge64X => jump_if!(i64, dst!(), src!(), |a, b| a >= b),
            Kind::Jsge64K => jump_if!(i64, dst!(), op.imm, |a, b| a >= b),
            Kind::Jsge32X => jump_if!(i32, dst!(), src!(), |a, b| a >= b),
            Kind::Jsge32K => jump_if!(i32, dst!(), op.imm, |a, b| a >= b),
            Kind::Jslt64X => jump_if!(i64, dst!(), src!(), |a, b| a < b),
            Kind::Jslt64K => jump_if!(i64, dst!(), op.imm, |a, b| a < b),
            Kind::Jslt32X => jump_if!(i32, dst!(), src!(), |a, b| a < b),
            Kind::Jslt32K => jump_if!(i32, dst!(), op.imm, |a, b| a < b),
            Kind::Jsle64X => jump_if!(i64, dst!(), src!(), |a, b| a <= b),
            Kind::Jsle64K => jump_if!(i64, dst!(), op.imm, |a, b| a <= b),
            Kind::Jsle32X => jump_if!(i32, dst!(), src!(), |a, b| a <= b),
            Kind::Jsle32K => jump_if!(i32, dst!(), op.imm, |a, b| a <= b),

            Kind::CallHelper => {
                // SAFETY: `decode` put the address of a helper there; the verifier proved that the
                // arguments keep its contract.
                regs.0[0] = unsafe {
                    let helper = std::ptr::with_exposed_provenance::<()>(op.imm as usize);
                    let helper = std::mem::transmute::<*const (), Helper>(helper);
                    helper(
                        &mut env, regs.0[1], regs.0[2], regs.0[3], regs.0[4], regs.0[5],
                    )
                };
            }
            Kind::CallLookup => look_up!(),
            Kind::TailCall => {
                // SAFETY: the verifier proved that r2 is a program array.
                if unsafe { helpers::maps::tail_call(env.cpu, regs.0[2], regs.0[3] as u32) } {
                    return ABORTED;
                }
            }
            Kind::CallLocal => {
                // The verifier proved that calls go no deeper.
                let Some(call) = env.cpu.calls.get_mut(depth) else {
                    return ABORTED;
                };
                // SAFETY: both point into `ops`.
                let return_to = unsafe { pc.offset_from(ops.as_ptr()) } as u32;
                *call = Call {
                    return_to,
                    saved: [regs.0[6], regs.0[7], regs.0[8], regs.0[9]],
                };
                depth += 1;
                regs.0[10] -= FRAME as u64;
                jump!();
            }
            Kind::Exit => exit!(),
            Kind::Trap => return ABORTED,

            $(Kind::$name => fused!($($steps)*),)*
        }
            };
        }
        superinstructions!(dispatch);
    }
}

/// r0 to r10.
struct Registers([u64; 11]);

impl Registers {
    /// A register that an op names.
    #[inline(always)]
    fn at(&mut self, index: u8) -> &mut u64 {
        debug_assert!(index < 11);
        // SAFETY: `decode` lets no op name a register past r10.
        unsafe { self.0.get_unchecked_mut(usize::from(index)) }
    }
}

/// `XDP_ABORTED`.
pub(super) const ABORTED: u32 = 0;

/// A word with its sign.
fn extended(word: u32) -> u64 {
    i64::from(word.cast_signed()).cast_unsigned()
}
