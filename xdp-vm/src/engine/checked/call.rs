//! Calls of helpers: each argument is held against the helper's contract before the helper runs.

use super::fault::{Access, Argument, FaultKind, RegionKind};
use super::{Machine, Next, Step};
use crate::Map;
use crate::contract::{Arg, Contract, Ret, SPIN_LOCK, contract};
use crate::helpers::{self, Helper, helper};
use crate::memory::{load8, pointer};

/// Most bytes that the size of memory may be (the kernel's `BPF_MAX_VAR_SIZ`, less one).
const MOST: u64 = (1 << 29) - 1;

impl Machine<'_, '_, '_> {
    pub(super) fn call_helper(&mut self, id: u32, next: i64) -> Step<Next> {
        let contract = contract(id).ok_or(FaultKind::NoHelper { id })?;
        self.call(contract, helper(id), next)
    }

    pub(super) fn call_kfunc(&mut self, immediate: i32, next: i64) -> Step<Next> {
        let contract = crate::kfunc::contract(immediate).ok_or(FaultKind::Unresolved)?;
        self.call(contract, helpers::kfunc(immediate), next)
    }

    /// `body` is `None` of a tail call alone.
    fn call(&mut self, contract: &'static Contract, body: Option<Helper>, next: i64) -> Step<Next> {
        // A helper that copies a value under a lock could wait for it for ever.
        if self.regions.lock().is_some() && contract.args.first() != Some(&Arg::Lock) {
            return Err(FaultKind::LockHeld);
        }
        let mut map = None;
        for n in 0..contract.args.len() {
            self.argument(contract, n, &mut map)
                .map_err(|cause| FaultKind::Argument {
                    helper: contract.name,
                    argument: n + 1,
                    cause: Box::new(cause),
                })?;
        }
        let r = self.regs;
        if let Some(body) = body {
            // SAFETY: the arguments keep the contract, and the worker has values in the maps.
            self.regs[0] = unsafe { body(&mut self.env, r[1], r[2], r[3], r[4], r[5]) };
        } else if contract.id == helpers::TAIL_CALL {
            // SAFETY: r2 was found to be a program array.
            if unsafe { helpers::maps::tail_call(self.env.cpu, r[2], r[3] as u32) } {
                return Ok(Next::End);
            }
        } else {
            return Err(FaultKind::NoHelper { id: contract.id });
        }
        self.written &= !0b11_1111;
        if contract.ret != Ret::Nothing {
            self.written |= 1;
        }
        if let (Ret::MapValueOrNull | Ret::PercpuValueOrNull, Some(map), address @ 1..) =
            (contract.ret, map, self.regs[0])
        {
            match map.spec().kind.is_of_maps() {
                true => self.regions.add_map(address),
                false => self.regions.add_value(map, address),
            }
        }
        if contract.args.first() == Some(&Arg::Lock) {
            let takes = contract.id == SPIN_LOCK;
            self.regions.set_lock(takes.then_some(r[1]));
        }
        if contract.args.first() == Some(&Arg::Record) {
            self.regions.remove_record(r[1]);
        }
        if let (Ret::RecordOrNull, address @ 1..) = (contract.ret, self.regs[0]) {
            self.regions.add_record(address, r[2]);
        }
        Ok(Next::Slot(next))
    }

    fn argument(
        &mut self,
        contract: &Contract,
        n: usize,
        map: &mut Option<&'static Map>,
    ) -> Result<(), Argument> {
        let value = self.get(n as u8 + 1)?;
        let of_map = |size: fn(&Map) -> u32| map.map(|m| u64::from(size(m)));
        let key = of_map(|m| m.spec().key_size);
        let element = of_map(|m| m.spec().value_size);
        let bloom = map.is_some_and(|m| m.spec().kind == crate::MapKind::BloomFilter);
        let (access, size) = match contract.args[n] {
            Arg::Scalar => return Ok(()),
            Arg::Size => return size(value, 1),
            Arg::SizeOrZero => return size(value, 0),
            Arg::RecordSize => return Ok(()),
            Arg::Record if self.regions.is_record(value) => return Ok(()),
            Arg::Record => return Err(Argument::NotRecord),
            Arg::Lock if !self.regions.is_lock(value) => return Err(Argument::NotLock),
            Arg::Lock => {
                let held = self.regions.lock();
                return match contract.id == SPIN_LOCK {
                    true if held.is_some() => Err(Argument::SecondLock),
                    false if held != Some(value) => Err(Argument::LockNotHeld),
                    _ => Ok(()),
                };
            }
            Arg::Context if self.regions.context == Some(value) => return Ok(()),
            Arg::Context => return Err(Argument::NotContext),
            Arg::Map => {
                *map = Some(self.map(contract, value)?);
                return Ok(());
            }
            Arg::MapKey => (&[Access::Read][..], key.ok_or(Argument::NotMap)?),
            Arg::MapValueOut if !bloom => (&[Access::Write][..], element.ok_or(Argument::NotMap)?),
            Arg::MapValue | Arg::MapValueOut => {
                (&[Access::Read][..], element.ok_or(Argument::NotMap)?)
            }
            Arg::ReadMem => (&[Access::Read][..], self.size_after(contract, n)?),
            Arg::ReadMemOrNull => match (value, self.size_after(contract, n)?) {
                (0, 0) => return Ok(()),
                (_, size) => (&[Access::Read][..], size),
            },
            Arg::WriteMem => (&[Access::Write][..], self.size_after(contract, n)?),
            Arg::ReadWriteMem => (
                &[Access::Read, Access::Write][..],
                self.size_after(contract, n)?,
            ),
            Arg::WriteMemOrNull => match (value, self.size_after(contract, n)?) {
                (0, 0) => return Ok(()),
                (_, size) => (&[Access::Write][..], size),
            },
            Arg::ReadWriteFixed(size) => (&[Access::Read, Access::Write][..], u64::from(size)),
            Arg::ReadFixed(size) => (&[Access::Read][..], u64::from(size)),
            Arg::WriteAligned(size) if !value.is_multiple_of(u64::from(size)) => {
                return Err(Argument::Unaligned { size });
            }
            Arg::WriteAligned(size) => (&[Access::Write][..], u64::from(size)),
            Arg::ConstString | Arg::ConstFormat => return self.constant(value),
        };
        if value == 0 {
            return Err(Argument::Null);
        }
        let region = self.regions.find(self.env.buff, value, size);
        if region == Some(RegionKind::Packet) && !contract.takes_packet {
            return Err(Argument::Packet);
        }
        for &access in access {
            self.check(access, value, size)?;
        }
        Ok(())
    }

    /// That there is a string, with the zero that ends it, in a value that programs only read.
    fn constant(&mut self, start: u64) -> Result<(), Argument> {
        let mut at = start;
        loop {
            if self.regions.find(self.env.buff, at, 1) != Some(RegionKind::ReadOnlyValue) {
                return Err(Argument::NotConstant);
            }
            // SAFETY: the byte was just found in a region of the program.
            if unsafe { load8(pointer(at)) } == 0 {
                return Ok(());
            }
            at += 1;
        }
    }

    /// The size that follows memory argument `n`.
    fn size_after(&self, contract: &Contract, n: usize) -> Result<u64, Argument> {
        let value = self.get(n as u8 + 2)?;
        let least = u64::from(contract.args.get(n + 1) == Some(&Arg::Size));
        size(value, least)?;
        Ok(value)
    }

    fn map(&self, contract: &Contract, address: u64) -> Result<&'static Map, Argument> {
        if !self.regions.is_map(address) {
            return Err(Argument::NotMap);
        }
        // SAFETY: the address of a map that the program names, or of one that a map of the program
        // holds; both live at least as long as the run.
        let map = unsafe { helpers::maps::map(address) };
        let kind = map.spec().kind;
        if !contract.maps.contains(&kind) {
            return Err(Argument::MapKind { kind: kind.name() });
        }
        if contract.changes_map && map.spec().read_only_for_programs() {
            return Err(Argument::ReadOnlyMap);
        }
        Ok(map)
    }
}

fn size(size: u64, least: u64) -> Result<(), Argument> {
    match size {
        n if (least..=MOST).contains(&n) => Ok(()),
        size => Err(Argument::Size { size }),
    }
}
