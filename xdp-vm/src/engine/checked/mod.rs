//! The checked interpreter: runs programs that nobody verified. Each access is tested, when it is
//! made, against the memory that the program may touch then; each argument of a helper against the
//! helper's [contract](crate::contract); and a budget ends what does not end by itself, always at the
//! same instruction. It works on the instructions as they are in the object and shares with the other
//! engines only the helpers and the maps, so that it can find the verifier, the decoder and the
//! compiler wrong.
//!
//! Addresses are real ones, as in the other engines. What the program does to get at one does not
//! matter: an access is good where all its bytes lie in one region that is the program's.
#![allow(unsafe_code)]

mod arithmetic;
mod call;
mod fault;
mod regions;

pub use fault::{Access, Argument, Fault, FaultKind, Near, RegionKind};

use super::atomics::{Change, change32, change64, compare32, compare64};
use crate::buff::XdpBuff;
use crate::cpu::{Cpu, FRAME, MAX_FRAMES};
use crate::helpers::Env;
use crate::insn::{self, alu, atomic, call as callee, imm64, jmp};
use crate::maps::{Maps, Ring, lock};
use crate::memory::{load8, load16, load32, load64, pointer, store8, store16, store32, store64};
use crate::verifier::well_formed;
use crate::{ContextField, Insn, Program};
use arithmetic::{binary, compare, moved, unary};
use regions::Regions;

/// A program and its maps, to be run with every access checked. It needs no verification.
///
/// ```
/// use xdp_vm::{Checked, Cpu, Insn, MapSpec, Maps, Program, XdpBuff};
/// // r0 = *(u8 *)(r1 + 0): one byte of the context, which has words only.
/// let insns = [[0x71, 0x10, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
/// let program = Program {
///     insns: insns.map(Insn::from_bytes).to_vec(),
///     ..Program::default()
/// };
/// let checked = Checked::new(&program, &Maps::create(&[], 1)?);
/// let mut buffer = vec![0; 4096];
/// let mut packet = XdpBuff::new(&mut buffer, 256, 60)?;
/// let fault = checked.run(&mut Cpu::new(0), &mut packet, 1000).unwrap_err();
/// assert_eq!(fault.at, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checked {
    insns: Vec<Insn>,
    /// By slot: the instruction is one that RFC 9669 has, and its reserved fields are zero.
    valid: Vec<bool>,
    maps: Maps,
}

/// A run that came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// What the program returned. Of an XDP program the low 32 bits are the verdict.
    pub r0: u64,
    /// Instructions that it took.
    pub steps: u64,
}

impl Checked {
    /// Takes a program of any kind, with the maps that its references are indices into. An
    /// instruction that there is not is a fault where it is reached.
    pub fn new(program: &Program, maps: &Maps) -> Self {
        let insns = program.insns.clone();
        Checked {
            valid: insns.iter().map(well_formed).collect(),
            insns,
            maps: maps.clone(),
        }
    }

    /// Runs it on a packet, for at most `budget` instructions. A program of a program array that a
    /// tail call goes to was verified, and runs outside the budget.
    ///
    /// # Errors
    /// The first thing that the program may not do, and where. What it did to the packet and the maps
    /// before stays done.
    pub fn run(&self, cpu: &mut Cpu, buff: &mut XdpBuff<'_>, budget: u64) -> Result<Ran, Fault> {
        let context = buff.context();
        let ran = self.start(cpu, buff, |m| {
            m.regions.context = Some(context);
            m.set(1, context);
            m.run(budget)
        })?;
        Ok(match cpu.next {
            None => ran,
            Some(_) => Ran {
                r0: u64::from(super::run_tail_calls(0, cpu, buff)),
                ..ran
            },
        })
    }

    /// Runs it as a function of `memory`: r1 holds its address (0 where it is empty) and r2 its length
    /// in bytes. Helpers that ask for a packet's context cannot be called.
    ///
    /// # Errors
    /// As [`Checked::run`].
    pub fn run_on_memory(
        &self,
        cpu: &mut Cpu,
        memory: &mut [u8],
        budget: u64,
    ) -> Result<Ran, Fault> {
        let len = memory.len();
        let address = match len {
            0 => 0,
            _ => memory.as_mut_ptr().expose_provenance() as u64,
        };
        let mut buff = XdpBuff::new(&mut [], 0, 0).expect("nothing lies in nothing");
        self.start(cpu, &mut buff, |m| {
            m.regions.memory = Some((address, len as u64));
            m.set(1, address);
            m.set(2, len as u64);
            m.run(budget)
        })
    }

    fn start(
        &self,
        cpu: &mut Cpu,
        buff: &mut XdpBuff<'_>,
        run: impl FnOnce(&mut Machine<'_, '_, '_>) -> Result<Ran, Fault>,
    ) -> Result<Ran, Fault> {
        if cpu.slot() >= self.maps.cpus() {
            let (slot, cpus) = (cpu.slot(), self.maps.cpus());
            return Err(FaultKind::Worker { slot, cpus }.at(0));
        }
        cpu.start();
        cpu.next = None;
        let top = cpu.stack_top();
        let mut machine = Machine {
            checked: self,
            regions: Regions::new(top),
            env: Env { cpu, buff },
            regs: [0; 11],
            written: 0,
            calls: Vec::with_capacity(MAX_FRAMES),
        };
        machine.set(10, top);
        let ran = run(&mut machine);
        for record in machine.regions.records() {
            // SAFETY: a record as it was reserved, which nobody else gives back.
            unsafe { Ring::commit(pointer(record), true, 0) };
        }
        if let Some(held) = machine.regions.lock() {
            // SAFETY: a lock of a map value, which this run took and nobody else gives back.
            unsafe { lock::release(pointer(held)) };
        }
        ran
    }
}

/// One run.
struct Machine<'c, 'r, 'b> {
    checked: &'c Checked,
    env: Env<'r, 'b>,
    regions: Regions,
    regs: [u64; 11],
    /// By register, a bit: it holds something.
    written: u16,
    calls: Vec<Caller>,
}

/// What a call of a function keeps of the caller.
struct Caller {
    return_to: usize,
    regs: [u64; 11],
    written: u16,
}

/// What comes next.
enum Next {
    Slot(i64),
    End,
}

type Step<T> = Result<T, FaultKind>;

impl Machine<'_, '_, '_> {
    fn run(&mut self, budget: u64) -> Result<Ran, Fault> {
        let mut at = 0;
        for steps in 1..=budget {
            match self.step(at).map_err(|kind| kind.at(at))? {
                Next::End => {
                    let records = self.regions.records().count();
                    if records > 0 {
                        return Err(FaultKind::Kept { records }.at(at));
                    }
                    if self.regions.lock().is_some() {
                        return Err(FaultKind::LockHeld.at(at));
                    }
                    let r0 = self.regs[0];
                    return Ok(Ran { r0, steps });
                }
                Next::Slot(target) => {
                    at = usize::try_from(target)
                        .ok()
                        .filter(|&to| to < self.checked.insns.len())
                        .ok_or_else(|| FaultKind::OutOfProgram { target }.at(at))?;
                }
            }
        }
        Err(FaultKind::Budget { budget }.at(at))
    }

    fn get(&self, register: u8) -> Step<u64> {
        match self.written >> register & 1 {
            0 => Err(FaultKind::Unwritten { register }),
            _ => Ok(self.regs[usize::from(register)]),
        }
    }

    fn set(&mut self, register: u8, value: u64) {
        self.regs[usize::from(register)] = value;
        self.written |= 1 << register;
    }

    /// Writes what an instruction names as its destination.
    fn put(&mut self, register: u8, value: u64) -> Step<()> {
        if register == 10 {
            return Err(FaultKind::FramePointer);
        }
        self.set(register, value);
        Ok(())
    }

    fn step(&mut self, at: usize) -> Step<Next> {
        let i = match self.checked.insns.get(at) {
            Some(i) if self.checked.valid[at] => *i,
            _ => return Err(FaultKind::Instruction),
        };
        match i.class() {
            insn::CLASS_LD => {
                let value = self.wide_immediate(&i, at)?;
                self.put(i.dst, value)?;
                return Ok(Next::Slot(at as i64 + 2));
            }
            insn::CLASS_LDX => {
                let value = self.load(&i)?;
                self.put(i.dst, value)?;
            }
            insn::CLASS_STX if i.mode() == insn::MODE_ATOMIC => self.atomic(&i)?,
            insn::CLASS_STX => {
                let value = self.get(i.src)?;
                self.store(&i, value)?;
            }
            insn::CLASS_ST => self.store(&i, i64::from(i.imm).cast_unsigned())?,
            insn::CLASS_ALU | insn::CLASS_ALU64 => self.arithmetic(&i)?,
            _ => return self.jump(&i, at),
        }
        Ok(Next::Slot(at as i64 + 1))
    }

    fn wide_immediate(&mut self, i: &Insn, at: usize) -> Step<u64> {
        let second = self.checked.insns.get(at + 1);
        let high = match second {
            Some(s) if (s.code, s.dst, s.src, s.off) == (0, 0, 0, 0) => s.imm.cast_unsigned(),
            _ => return Err(FaultKind::Instruction),
        };
        let low = i.imm.cast_unsigned();
        match i.src {
            imm64::VALUE => Ok(u64::from(high) << 32 | u64::from(low)),
            imm64::MAP => {
                let map = self.named(low)?;
                let address = std::ptr::from_ref(map).expose_provenance() as u64;
                self.regions.add_map(address);
                Ok(address)
            }
            imm64::MAP_VALUE => {
                let map = self.named(low)?;
                let value = map.address(0).ok_or(FaultKind::NoDirectValue)?;
                let address = value.expose_provenance() as u64;
                self.regions.add_value(map, address);
                Ok(address.wrapping_add(u64::from(high)))
            }
            _ => Err(FaultKind::Instruction),
        }
    }

    fn named(&self, index: u32) -> Step<&'static crate::Map> {
        let map = self.checked.maps.at(index as usize);
        let map = map.ok_or(FaultKind::NoMap { index })?;
        // SAFETY: the maps are kept by `checked`, which outlives the machine; the reference does not
        // leave it.
        Ok(unsafe { &*std::ptr::from_ref(map) })
    }

    fn load(&mut self, i: &Insn) -> Step<u64> {
        let address = self.get(i.src)?.wrapping_add_signed(i64::from(i.off));
        let size = i.size();
        if let Some(offset) = self.regions.in_context(address) {
            return self.context_field(address, offset, i);
        }
        self.check(Access::Read, address, u64::from(size))?;
        let at = pointer(address);
        // SAFETY: the bytes were just found in a region of the program.
        let value = unsafe {
            match size {
                1 => load8(at),
                2 => load16(at),
                4 => load32(at),
                _ => load64(at),
            }
        };
        Ok(match i.mode() {
            insn::MODE_MEMSX => moved(value, (size * 8) as i16, true),
            _ => value,
        })
    }

    /// Fields of the context are words, and read as the addresses that they stand for.
    fn context_field(&self, address: u64, offset: i16, i: &Insn) -> Step<u64> {
        let field = match (ContextField::at(offset), i.size(), i.mode()) {
            (Some(field), 4, insn::MODE_MEM) => field,
            (Some(field), 4, insn::MODE_MEMSX) if !field.is_address() => field,
            _ => return Err(self.refused(Access::Read, address, u64::from(i.size()))),
        };
        let buff = &self.env.buff;
        let value = match field {
            ContextField::Data => buff.data_address(),
            ContextField::DataEnd => buff.data_end_address(),
            ContextField::DataMeta => buff.data_meta_address(),
            ContextField::IngressIfindex => u64::from(buff.ingress_ifindex()),
            ContextField::RxQueueIndex => u64::from(buff.rx_queue_index()),
            ContextField::EgressIfindex => u64::from(buff.egress_ifindex()),
        };
        Ok(match i.mode() {
            insn::MODE_MEMSX => moved(value, 32, true),
            _ => value,
        })
    }

    fn store(&mut self, i: &Insn, value: u64) -> Step<()> {
        let address = self.get(i.dst)?.wrapping_add_signed(i64::from(i.off));
        self.check(Access::Write, address, u64::from(i.size()))?;
        let at = pointer(address);
        // SAFETY: the bytes were just found in a region that the program may write.
        unsafe {
            match i.size() {
                1 => store8(at, value as u8),
                2 => store16(at, value as u16),
                4 => store32(at, value as u32),
                _ => store64(at, value),
            }
        }
        Ok(())
    }

    fn atomic(&mut self, i: &Insn) -> Step<()> {
        let address = self.get(i.dst)?.wrapping_add_signed(i64::from(i.off));
        let (size, operand) = (u64::from(i.size()), self.get(i.src)?);
        self.check(Access::Read, address, size)?;
        self.check(Access::Write, address, size)?;
        if self.regions.in_packet(self.env.buff, address) {
            return Err(self.refused(Access::Atomic, address, size));
        }
        let at = pointer(address);
        let change = match i.imm & !atomic::FETCH {
            _ if i.imm == atomic::CMPXCHG => None,
            _ if i.imm == atomic::XCHG => Some(Change::Exchange),
            atomic::ADD => Some(Change::Add),
            atomic::OR => Some(Change::Or),
            atomic::AND => Some(Change::And),
            atomic::XOR => Some(Change::Xor),
            _ => return Err(FaultKind::Instruction),
        };
        // SAFETY: the bytes were just found in a region that the program may read and write.
        let old = unsafe {
            match (change, size) {
                (Some(change), 8) => change64(at, change, operand),
                (Some(change), _) => u64::from(change32(at, change, operand as u32)),
                (None, 8) => compare64(at, self.get(0)?, operand),
                (None, _) => u64::from(compare32(at, self.get(0)? as u32, operand as u32)),
            }
        };
        match change {
            None => self.put(0, old),
            Some(_) if i.imm & atomic::FETCH != 0 => self.put(i.src, old),
            Some(_) => Ok(()),
        }
    }

    fn operand(&self, i: &Insn) -> Step<u64> {
        match i.is_reg() {
            true => self.get(i.src),
            false => Ok(i64::from(i.imm).cast_unsigned()),
        }
    }

    fn arithmetic(&mut self, i: &Insn) -> Step<()> {
        let wide = i.class() == insn::CLASS_ALU64;
        let value = match i.op() {
            alu::MOV => moved(self.operand(i)?, i.off, wide),
            alu::NEG | alu::END => unary(i, self.get(i.dst)?, wide),
            _ => binary(i, self.get(i.dst)?, self.operand(i)?, wide),
        };
        self.put(i.dst, value)
    }

    fn jump(&mut self, i: &Insn, at: usize) -> Step<Next> {
        let next = at as i64 + 1;
        let wide = i.class() == insn::CLASS_JMP;
        match i.op() {
            jmp::JA if wide => return Ok(Next::Slot(next + i64::from(i.off))),
            jmp::JA => return Ok(Next::Slot(next + i64::from(i.imm))),
            jmp::EXIT => return self.leave(),
            jmp::CALL if i.is_reg() => {
                // The register holds the number of a helper (RFC 9669, 4.3.1, `callx`).
                return self.call_helper(self.get(i.dst)? as u32, next);
            }
            jmp::CALL if i.src == callee::LOCAL => {
                self.enter(at + 1)?;
                return Ok(Next::Slot(next + i64::from(i.imm)));
            }
            jmp::CALL if i.src == callee::HELPER => {
                return self.call_helper(i.imm.cast_unsigned(), next);
            }
            jmp::CALL if i.src == callee::KFUNC => return self.call_kfunc(i.imm, next),
            jmp::CALL => return Err(FaultKind::Unresolved),
            _ => {}
        }
        let taken = compare(i.op(), wide, self.get(i.dst)?, self.operand(i)?);
        Ok(Next::Slot(next + if taken { i64::from(i.off) } else { 0 }))
    }

    fn enter(&mut self, return_to: usize) -> Step<()> {
        if self.calls.len() + 1 == MAX_FRAMES {
            return Err(FaultKind::CallDepth);
        }
        self.calls.push(Caller {
            return_to,
            regs: self.regs,
            written: self.written,
        });
        // r1 to r5 are the arguments, and r10 is a new frame.
        const ARGUMENTS: u16 = 0b111110;
        self.written &= ARGUMENTS;
        self.set(10, self.regs[10] - FRAME as u64);
        self.regions.enter_frame();
        Ok(())
    }

    fn leave(&mut self) -> Step<Next> {
        let Some(caller) = self.calls.pop() else {
            self.get(0)?;
            return Ok(Next::End);
        };
        let (r0, has_r0) = (self.regs[0], self.written & 1);
        self.regs = caller.regs;
        self.regs[0] = r0;
        // The callee used r1 to r5.
        self.written = caller.written & !0b11_1111 | has_r0;
        self.regions.leave_frame();
        Ok(Next::Slot(caller.return_to as i64))
    }

    /// That `size` bytes at `address` are the program's to read or write, and were written where it
    /// reads its stack.
    fn check(&mut self, access: Access, address: u64, size: u64) -> Step<()> {
        let found = self.regions.find(self.env.buff, address, size);
        match (found, access) {
            (Some(RegionKind::Stack), Access::Read) => {
                self.regions.stack_was_written(address, size)
            }
            (Some(RegionKind::Stack), _) => {
                self.regions.stack_is_written(address, size);
                Ok(())
            }
            (Some(RegionKind::ReadOnlyValue), Access::Read) => Ok(()),
            (Some(RegionKind::ReadOnlyValue) | None, _) => Err(self.refused(access, address, size)),
            (Some(_), _) => Ok(()),
        }
    }

    fn refused(&self, access: Access, address: u64, size: u64) -> FaultKind {
        FaultKind::Memory {
            access,
            size,
            near: self.regions.near(self.env.buff, address),
        }
    }
}
