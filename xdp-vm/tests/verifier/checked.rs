//! A machine that trusts nothing: every register knows whether it holds a number or an address and
//! into what, every byte of the stack whether it was written, and each access is checked. It shares
//! no code with the library, and exists to find the verifier wrong: a program that was accepted must
//! run here without a fault, whatever the packet, the maps and the helpers give.

use fastrand::Rng;
use xdp_vm::insn::{self, alu, atomic, call, imm64, jmp};
use xdp_vm::{Insn, MapSpec, Program};

/// What a register holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    Uninit,
    Num(u64),
    Ptr(Region, i64),
}

/// What an address points into.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Region {
    Context,
    Map(usize),
    /// One of the maps that a map holds.
    Inner(usize),
    /// A value, by its place in `values`.
    Value(usize),
    /// The packet after the n-th move; offsets count from `data`.
    Packet(u32),
    Meta(u32),
    /// As the packet, of which only the low half of the address is there.
    Low(u32),
    /// The stack of a frame, by its serial number.
    Stack(u32),
    /// A record of a ring buffer, by its place in `records`.
    Record(usize),
}

/// A rule broken at run time.
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) what: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Byte {
    Uninit,
    Num(u8),
    /// Byte n of the pointer that was stored here.
    Ptr(Region, i64, u8),
}

struct Frame {
    serial: u32,
    regs: [Value; 11],
    stack: Vec<Byte>,
    return_to: usize,
}

struct Machine<'a> {
    insns: &'a [Insn],
    maps: &'a [MapSpec],
    rng: &'a mut Rng,
    frames: Vec<Frame>,
    values: Vec<(usize, Vec<u8>)>,
    /// Records reserved; `None` from where they were submitted or discarded on.
    records: Vec<Option<Vec<u8>>>,
    /// The value whose lock is held.
    lock: Option<usize>,
    packet: Vec<u8>,
    meta: i64,
    moves: u32,
    serials: u32,
}

const STACK: i64 = 512;
/// Numbers of inner maps start here.
const INNER: usize = 1000;

/// Runs `program` once, on what `rng` makes up. Gives the number of steps.
pub(crate) fn run(
    program: &Program,
    maps: &[MapSpec],
    rng: &mut Rng,
    most: u64,
) -> Result<u64, Fault> {
    let length = match rng.u8(0..4) {
        0 => rng.usize(0..16),
        1 => rng.usize(0..70),
        _ => rng.usize(14..300),
    };
    let small = rng.bool();
    let byte = |rng: &mut Rng| {
        if small { rng.u8(0..8) } else { rng.u8(..) }
    };
    let packet = (0..length).map(|_| byte(rng)).collect();
    let meta = i64::from(rng.u8(0..3)) * 4;
    let mut m = Machine {
        insns: &program.insns,
        maps,
        rng,
        frames: vec![],
        values: vec![],
        records: vec![],
        lock: None,
        packet,
        meta,
        moves: 0,
        serials: 0,
    };
    m.enter(0);
    m.frames[0].regs[1] = Value::Ptr(Region::Context, 0);
    let mut at = 0;
    for steps in 1..=most {
        match m.step(at).map_err(|what| Fault { at, what })? {
            Some(next) => at = next,
            None => return Ok(steps),
        }
    }
    Err(Fault {
        at,
        what: format!("still running after {most} steps"),
    })
}

type Step<T> = Result<T, String>;

fn fault<T>(what: impl Into<String>) -> Step<T> {
    Err(what.into())
}

impl Machine<'_> {
    fn enter(&mut self, return_to: usize) {
        self.serials += 1;
        let mut regs = [Value::Uninit; 11];
        regs[10] = Value::Ptr(Region::Stack(self.serials), 0);
        self.frames.push(Frame {
            serial: self.serials,
            regs,
            stack: vec![Byte::Uninit; STACK as usize],
            return_to,
        });
    }

    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a frame")
    }

    fn get(&mut self, r: u8) -> Step<Value> {
        match self.top().regs[usize::from(r)] {
            Value::Uninit => fault(format!("r{r} is read unwritten")),
            v => Ok(v),
        }
    }

    fn num(&mut self, r: u8) -> Step<u64> {
        match self.get(r)? {
            Value::Num(n) => Ok(n),
            v => fault(format!("r{r} is {v:?}, not a number")),
        }
    }

    fn set(&mut self, r: u8, v: Value) {
        self.top().regs[usize::from(r)] = v;
    }

    fn step(&mut self, at: usize) -> Step<Option<usize>> {
        let Some(&i) = self.insns.get(at) else {
            return fault("past the end");
        };
        match i.class() {
            insn::CLASS_LD => {
                let high = self.insns[at + 1].imm as u32;
                let v = match i.src {
                    imm64::MAP => Value::Ptr(Region::Map(i.imm as usize), 0),
                    imm64::MAP_VALUE => {
                        let n = self.value_of(i.imm as usize);
                        Value::Ptr(Region::Value(n), i64::from(high))
                    }
                    _ => Value::Num(u64::from(high) << 32 | u64::from(i.imm as u32)),
                };
                self.set(i.dst, v);
                return Ok(Some(at + 2));
            }
            insn::CLASS_LDX => {
                let base = self.get(i.src)?;
                let mut v = self.load(base, i64::from(i.off), i64::from(i.size()))?;
                if i.mode() == insn::MODE_MEMSX {
                    let Value::Num(n) = v else {
                        return fault("a pointer sign-extended");
                    };
                    let shift = 64 - i.size() * 8;
                    v = Value::Num((((n << shift) as i64) >> shift) as u64);
                }
                self.set(i.dst, v);
            }
            insn::CLASS_STX if i.mode() == insn::MODE_ATOMIC => self.atomic(&i)?,
            insn::CLASS_ST | insn::CLASS_STX => {
                let v = if i.class() == insn::CLASS_ST {
                    Value::Num(i64::from(i.imm) as u64)
                } else {
                    self.get(i.src)?
                };
                let base = self.get(i.dst)?;
                self.store(base, i64::from(i.off), i64::from(i.size()), v)?;
            }
            insn::CLASS_ALU | insn::CLASS_ALU64 => self.alu(&i)?,
            _ => return self.jump(&i, at),
        }
        Ok(Some(at + 1))
    }

    fn value_of(&mut self, map: usize) -> usize {
        if let Some(n) = self.values.iter().position(|(m, _)| *m == map) {
            return n;
        }
        self.new_value(map)
    }

    /// A map; from [`INNER`] on, one of those that a map holds.
    fn spec(&self, map: usize) -> &MapSpec {
        match map.checked_sub(INNER) {
            Some(outer) => self.maps[outer].inner.as_ref().expect("inner maps"),
            None => &self.maps[map],
        }
    }

    fn new_value(&mut self, map: usize) -> usize {
        let spec = self.spec(map).clone();
        let mut bytes = vec![0; spec.value_size as usize];
        match &spec.initial {
            Some(initial) => bytes[..initial.len()].copy_from_slice(initial),
            None => bytes.iter_mut().for_each(|b| *b = self.rng.u8(..)),
        }
        self.values.push((map, bytes));
        self.values.len() - 1
    }

    /// The packet's bytes that an access touches, or why not.
    /// Both into the packet as it is, or both as it was before some move.
    fn of_one_packet(&self, a: Region, b: Region) -> bool {
        (moves(a) == Some(self.moves)) == (moves(b) == Some(self.moves))
    }

    fn packet_range(&self, region: Region, off: i64, size: i64) -> Step<()> {
        let (moves, low, high) = match region {
            Region::Packet(m) => (m, 0, self.packet.len() as i64),
            Region::Meta(m) => (m, -self.meta, 0),
            other => return fault(format!("{other:?} is not memory")),
        };
        if moves != self.moves {
            return fault("a packet pointer from before the packet moved");
        }
        if off < low || off.saturating_add(size) > high {
            return fault(format!("packet bytes {off} + {size} of {low}..{high}"));
        }
        Ok(())
    }

    fn load(&mut self, base: Value, off: i64, size: i64) -> Step<Value> {
        let Value::Ptr(region, start) = base else {
            return fault(format!("load through {base:?}"));
        };
        let at = start.wrapping_add(off);
        let mut bytes = [0u8; 8];
        match region {
            Region::Context => {
                let moves = self.moves;
                return match (at, size) {
                    (0, 4) => Ok(Value::Ptr(Region::Packet(moves), 0)),
                    (4, 4) => Ok(Value::Ptr(Region::Packet(moves), self.packet.len() as i64)),
                    (8, 4) => Ok(Value::Ptr(Region::Meta(moves), -self.meta)),
                    (12 | 16, 4) => Ok(Value::Num(u64::from(match self.rng.u8(0..3) {
                        0 => self.rng.u32(0..128),
                        1 => 1 << self.rng.u32(0..32),
                        _ => self.rng.u32(..),
                    }))),
                    _ => fault(format!("context field {at}, {size} bytes")),
                };
            }
            Region::Stack(serial) => return self.load_stack(serial, at, size),
            Region::Value(n) => {
                self.no_lock(n, at, size)?;
                let value = &self.values[n].1;
                if at < 0 || at.saturating_add(size) > value.len() as i64 {
                    return fault(format!("value bytes {at} + {size}"));
                }
                for k in 0..size {
                    bytes[k as usize] = value[(at + k) as usize];
                }
            }
            Region::Record(n) => {
                let record = self.record(n, at, size)?;
                bytes[..size as usize].copy_from_slice(record);
            }
            _ => {
                self.packet_range(region, at, size)?;
                for k in 0..size {
                    // Metadata is whatever a driver left there.
                    let b = usize::try_from(at + k)
                        .ok()
                        .and_then(|n| self.packet.get(n));
                    bytes[k as usize] = b.copied().unwrap_or(0x5a);
                }
            }
        }
        Ok(Value::Num(u64::from_le_bytes(bytes)))
    }

    /// That an access has nothing of the value's lock.
    fn no_lock(&self, value: usize, at: i64, size: i64) -> Step<()> {
        match self.spec(self.values[value].0).spin_lock.map(i64::from) {
            Some(lock) if at < lock + 4 && lock < at + size => fault("a lock accessed"),
            _ => Ok(()),
        }
    }

    fn record(&mut self, n: usize, at: i64, size: i64) -> Step<&mut [u8]> {
        let Some(record) = &mut self.records[n] else {
            return fault("a record that was given back");
        };
        if at < 0 || at.saturating_add(size) > record.len() as i64 {
            return fault(format!("record bytes {at} + {size} of {}", record.len()));
        }
        Ok(&mut record[at as usize..(at + size) as usize])
    }

    /// That no record is held where the program ends.
    fn nothing_held(&self) -> Step<()> {
        if self.lock.is_some() {
            return fault("a lock is never released");
        }
        match self.records.iter().position(Option::is_some) {
            Some(n) => fault(format!("record {n} is never given back")),
            None => Ok(()),
        }
    }

    fn stack(&mut self, serial: u32, at: i64, size: i64) -> Step<&mut [Byte]> {
        if at < -STACK || at.saturating_add(size) > 0 {
            return fault(format!("stack bytes {at} + {size}"));
        }
        let from = (STACK + at) as usize;
        match self.frames.iter_mut().find(|f| f.serial == serial) {
            Some(frame) => Ok(&mut frame.stack[from..from + size as usize]),
            None => fault("the stack of a function that returned"),
        }
    }

    fn load_stack(&mut self, serial: u32, at: i64, size: i64) -> Step<Value> {
        let bytes = self.stack(serial, at, size)?;
        if let (Byte::Ptr(region, off, 0), 8) = (bytes[0], size) {
            let whole = bytes
                .iter()
                .enumerate()
                .all(|(n, b)| *b == Byte::Ptr(region, off, n as u8));
            if whole {
                return Ok(Value::Ptr(region, off));
            }
        }
        let mut n = 0u64;
        for (k, b) in bytes.iter().enumerate() {
            match b {
                Byte::Num(v) => n |= u64::from(*v) << (8 * k),
                Byte::Uninit => return fault(format!("stack byte {} is unwritten", at + k as i64)),
                Byte::Ptr(..) => return fault("part of a pointer read as a number"),
            }
        }
        Ok(Value::Num(n))
    }

    fn store(&mut self, base: Value, off: i64, size: i64, v: Value) -> Step<()> {
        let Value::Ptr(region, start) = base else {
            return fault(format!("store through {base:?}"));
        };
        let at = start.wrapping_add(off);
        if let Region::Stack(serial) = region {
            let bytes = self.stack(serial, at, size)?;
            for (k, b) in bytes.iter_mut().enumerate() {
                *b = match v {
                    Value::Num(n) => Byte::Num((n >> (8 * k)) as u8),
                    Value::Ptr(r, o) if size == 8 => Byte::Ptr(r, o, k as u8),
                    other => return fault(format!("{other:?} stored in part")),
                };
            }
            return Ok(());
        }
        let Value::Num(n) = v else {
            return fault(format!("{v:?} stored in {region:?}"));
        };
        match region {
            Region::Value(value) => {
                let spec = self.spec(self.values[value].0);
                // Devmaps and their like are the user's to write.
                if spec.frozen || matches!(spec.kind as u32, 14 | 16 | 17 | 25) {
                    return fault("a constant written");
                }
                self.no_lock(value, at, size)?;
                let bytes = &mut self.values[value].1;
                if at < 0 || at.saturating_add(size) > bytes.len() as i64 {
                    return fault(format!("value bytes {at} + {size}"));
                }
                for k in 0..size {
                    bytes[(at + k) as usize] = (n >> (8 * k)) as u8;
                }
            }
            Region::Record(record) => {
                let bytes = self.record(record, at, size)?;
                bytes.copy_from_slice(&n.to_le_bytes()[..size as usize]);
            }
            _ => {
                self.packet_range(region, at, size)?;
                for k in 0..size {
                    if let Some(b) = usize::try_from(at + k)
                        .ok()
                        .and_then(|p| self.packet.get_mut(p))
                    {
                        *b = (n >> (8 * k)) as u8;
                    }
                }
            }
        }
        Ok(())
    }

    fn atomic(&mut self, i: &Insn) -> Step<()> {
        let (off, size) = (i64::from(i.off), i64::from(i.size()));
        let base = self.get(i.dst)?;
        if !matches!(
            base,
            Value::Ptr(Region::Stack(_) | Region::Value(_) | Region::Record(_), _)
        ) {
            return fault(format!("atomic on {base:?}"));
        }
        let operand = self.num(i.src)?;
        let Value::Num(old) = self.load(base, off, size)? else {
            return fault("atomic on a pointer");
        };
        let new = match i.imm & !atomic::FETCH {
            atomic::ADD => old.wrapping_add(operand),
            atomic::OR => old | operand,
            atomic::AND => old & operand,
            atomic::XOR => old ^ operand,
            _ if i.imm == atomic::XCHG => operand,
            _ => {
                let expected = self.num(0)?;
                let mask = u64::MAX >> (64 - 8 * size);
                if old == expected & mask { operand } else { old }
            }
        };
        self.store(base, off, size, Value::Num(new))?;
        if i.imm == atomic::CMPXCHG {
            self.set(0, Value::Num(old));
        } else if i.imm & atomic::FETCH != 0 {
            self.set(i.src, Value::Num(old));
        }
        Ok(())
    }

    fn operand(&mut self, i: &Insn) -> Step<Value> {
        if i.is_reg() {
            self.get(i.src)
        } else {
            Ok(Value::Num(i64::from(i.imm) as u64))
        }
    }

    fn alu(&mut self, i: &Insn) -> Step<()> {
        let wide = i.class() == insn::CLASS_ALU64;
        if i.op() == alu::MOV {
            let v = match self.operand(i)? {
                Value::Num(n) => Value::Num(moved(n, i.off, wide)),
                v if wide && i.off == 0 => v,
                Value::Ptr(r, o) if i.off == 0 && moves(r).is_some() => {
                    Value::Ptr(Region::Low(moves(r).unwrap_or_default()), o)
                }
                v => return fault(format!("{v:?} cut")),
            };
            self.set(i.dst, v);
            return Ok(());
        }
        let left = self.get(i.dst)?;
        if matches!(i.op(), alu::NEG | alu::END) {
            let Value::Num(n) = left else {
                return fault(format!("{left:?} negated or swapped"));
            };
            self.set(i.dst, Value::Num(unary(i, n, wide)));
            return Ok(());
        }
        let right = self.operand(i)?;
        let out = match (left, right) {
            (Value::Num(a), Value::Num(b)) => Value::Num(binary(i, a, b, wide)),
            (Value::Ptr(r, o), Value::Num(n)) if wide && i.op() == alu::ADD && whole(r) => {
                Value::Ptr(r, o.wrapping_add(n as i64))
            }
            (Value::Num(n), Value::Ptr(r, o)) if wide && i.op() == alu::ADD && whole(r) => {
                Value::Ptr(r, o.wrapping_add(n as i64))
            }
            (Value::Ptr(r, o), Value::Num(n)) if wide && i.op() == alu::SUB && whole(r) => {
                Value::Ptr(r, o.wrapping_sub(n as i64))
            }
            (Value::Ptr(r, a), Value::Ptr(s, b))
                if i.op() == alu::SUB
                    && moves(r).is_some()
                    && self.of_one_packet(r, s)
                    && (!wide || whole(r) && whole(s)) =>
            {
                let n = a.wrapping_sub(b) as u64;
                Value::Num(if wide { n } else { n & 0xffff_ffff })
            }
            (a, b) => return fault(format!("{a:?} op {:#x} {b:?}", i.op())),
        };
        self.set(i.dst, out);
        Ok(())
    }

    fn jump(&mut self, i: &Insn, at: usize) -> Step<Option<usize>> {
        let to = |off: i64| Some((at as i64 + 1 + off) as usize);
        match i.op() {
            jmp::JA if i.class() == insn::CLASS_JMP32 => return Ok(to(i64::from(i.imm))),
            jmp::JA => return Ok(to(i64::from(i.off))),
            jmp::EXIT => {
                let r0 = self.top().regs[0];
                if self.frames.len() == 1 {
                    self.num(0)?;
                    self.nothing_held()?;
                    return Ok(None);
                }
                let frame = self.frames.pop().expect("a frame");
                self.set(0, r0);
                return Ok(Some(frame.return_to));
            }
            jmp::CALL if i.src == call::LOCAL => {
                if self.frames.len() == 8 {
                    return fault("nine frames");
                }
                let regs = self.top().regs;
                self.clobber();
                self.enter(at + 1);
                self.top().regs[1..=5].copy_from_slice(&regs[1..=5]);
                return Ok(to(i64::from(i.imm)));
            }
            jmp::CALL => {
                let r0 = self.helper(i.imm)?;
                self.clobber();
                self.set(0, r0);
                return Ok(Some(at + 1));
            }
            _ => {}
        }
        let (left, right) = (self.get(i.dst)?, self.operand(i)?);
        let wide = i.class() == insn::CLASS_JMP;
        // Addresses far from zero, so that order and equality are as in real memory.
        const BASE: u64 = 0x7f12_3456_7000;
        let (a, b) = match (left, right) {
            (Value::Num(a), Value::Num(b)) => (a, b),
            (Value::Ptr(r, o), Value::Num(0)) if wide && equality(i.op()) && whole(r) => {
                (BASE.wrapping_add(o as u64), 0)
            }
            (Value::Num(0), Value::Ptr(r, o)) if wide && equality(i.op()) && whole(r) => {
                (0, BASE.wrapping_add(o as u64))
            }
            (Value::Ptr(r, a), Value::Ptr(s, b))
                if wide && same_stack(r, s)
                    || (if wide {
                        packet(r, s)
                    } else {
                        both_in_packets(r, s)
                    }) && self.of_one_packet(r, s) =>
            {
                (BASE.wrapping_add(a as u64), BASE.wrapping_add(b as u64))
            }
            (Value::Ptr(Region::Value(m), a), Value::Ptr(Region::Value(n), b))
                if wide && self.values[m].0 == self.values[n].0 && self.values[m].0 < INNER =>
            {
                let place = |n: usize, off: i64| BASE.wrapping_add(off as u64) + ((n as u64) << 32);
                (place(m, a), place(n, b))
            }
            // Of 32 bits: the low half of an address as good as never is null.
            (Value::Ptr(r, _), Value::Num(0)) if equality(i.op()) && moves(r).is_some() => {
                (BASE, 0)
            }
            (Value::Num(0), Value::Ptr(r, _)) if equality(i.op()) && moves(r).is_some() => {
                (0, BASE)
            }
            (Value::Ptr(r, 0), Value::Ptr(s, 0))
                if wide && equality(i.op()) && moves(r).is_none() && moves(s).is_none() =>
            {
                (BASE, BASE + u64::from(r != s))
            }
            (a, b) => return fault(format!("{a:?} compared with {b:?}")),
        };
        let taken = if wide {
            compare(i.op(), a, b, a as i64, b as i64)
        } else {
            let (a, b) = (a as u32, b as u32);
            let (sa, sb) = (i64::from(a as i32), i64::from(b as i32));
            compare(i.op(), u64::from(a), u64::from(b), sa, sb)
        };
        Ok(to(if taken { i64::from(i.off) } else { 0 }))
    }

    fn clobber(&mut self) {
        self.top().regs[..6].fill(Value::Uninit);
    }

    /// That `size` bytes in register `r` can be read.
    fn reads(&mut self, r: u8, size: i64) -> Step<()> {
        let base = self.get(r)?;
        for k in 0..size {
            match self.load(base, k, 1)? {
                Value::Num(_) => {}
                _ => return fault("a pointer given to a helper as memory"),
            }
        }
        Ok(())
    }

    /// The map in register `r`, which is of one of these kinds.
    fn map(&mut self, r: u8, kinds: &[u32]) -> Step<usize> {
        let map = match self.get(r)? {
            Value::Ptr(Region::Map(n), 0) => n,
            Value::Ptr(Region::Inner(n), 0) => n + INNER,
            v => return fault(format!("{v:?} is not a map")),
        };
        match self.spec(map).kind as u32 {
            kind if kinds.contains(&kind) => Ok(map),
            kind => fault(format!("a map of kind {kind}")),
        }
    }

    fn context(&mut self) -> Step<()> {
        match self.get(1)? {
            Value::Ptr(Region::Context, 0) => Ok(()),
            _ => fault("not the context"),
        }
    }

    /// That `size` bytes in register `r` can be written, with anything.
    fn writes(&mut self, r: u8, size: i64) -> Step<()> {
        let base = self.get(r)?;
        for k in 0..size {
            let byte = u64::from(self.rng.u8(..));
            self.store(base, k, 1, Value::Num(byte))?;
        }
        Ok(())
    }

    /// A size in register `r`.
    fn size(&mut self, r: u8, least: u64) -> Step<i64> {
        match self.num(r)? {
            n if n >= least && n < 1 << 29 => Ok(n as i64),
            n => fault(format!("{n} bytes")),
        }
    }

    /// A new value of a map, or null.
    fn value_or_null(&mut self, map: usize, there: bool) -> Value {
        if !there {
            return Value::Num(0);
        }
        let single = map < INNER && self.maps[map].max_entries == 1;
        let value = if single {
            self.value_of(map)
        } else {
            self.new_value(map)
        };
        Value::Ptr(Region::Value(value), 0)
    }

    fn helper(&mut self, id: i32) -> Step<Value> {
        const KEYED: [u32; 7] = [1, 2, 5, 6, 9, 10, 11];
        if self.lock.is_some() && id != 94 {
            return fault("a helper called under a lock");
        }
        match id {
            93 | 94 => {
                let Value::Ptr(Region::Value(n), at) = self.get(1)? else {
                    return fault("not a lock");
                };
                if self.spec(self.values[n].0).spin_lock.map(i64::from) != Some(at) {
                    return fault("not at the lock");
                }
                let held = if id == 93 { None } else { Some(n) };
                if self.lock != held {
                    return fault("a lock taken or released twice");
                }
                self.lock = if id == 93 { Some(n) } else { None };
                Ok(Value::Uninit)
            }
            1 => {
                let n = self.map(1, &[1, 2, 5, 6, 9, 10, 11, 12, 13, 14, 17, 25])?;
                let spec = self.spec(n).clone();
                self.reads(2, i64::from(spec.key_size))?;
                let mut there = self.rng.bool();
                if matches!(spec.kind as u32, 12 | 13) {
                    return Ok(match there {
                        true => Value::Ptr(Region::Inner(n), 0),
                        false => Value::Num(0),
                    });
                }
                // Whether an element is there is decided by the key for arrays; how long an inner
                // one is, nobody knows.
                let key = self.get(2)?;
                if matches!(spec.kind as u32, 2 | 6)
                    && n < INNER
                    && let Value::Num(k) = self.load(key, 0, 4)?
                {
                    there = k < u64::from(spec.max_entries);
                }
                Ok(self.value_or_null(n, there))
            }
            195 => {
                let n = self.map(1, &[5, 6, 10])?;
                self.reads(2, i64::from(self.spec(n).key_size))?;
                self.num(3)?;
                let there = self.rng.bool();
                Ok(self.value_or_null(n, there))
            }
            2 | 3 => {
                let n = self.map(1, &KEYED)?;
                self.reads(2, i64::from(self.spec(n).key_size))?;
                if id == 2 {
                    self.reads(3, i64::from(self.spec(n).value_size))?;
                    self.num(4)?;
                }
                if self.spec(n).frozen {
                    return fault("a constant map changed");
                }
                Ok(Value::Num(self.result()))
            }
            5 | 7 | 8 | 14 | 15 | 42 | 118 | 125 | 160 | 208 => {
                Ok(Value::Num(self.rng.u64(..) >> self.rng.u32(0..64)))
            }
            6 => {
                let size = self.num(2)?;
                if size == 0 || size > 1 << 20 {
                    return fault(format!("format of {size} bytes"));
                }
                self.reads(1, size as i64)?;
                Ok(Value::Num(self.result()))
            }
            12 => {
                self.context()?;
                self.map(2, &[3])?;
                self.num(3)?;
                if self.frames.len() > 1 {
                    return fault("a tail call in a function");
                }
                // There was no program; one that there is ends this one.
                self.nothing_held()?;
                self.moves += 1;
                Ok(Value::Uninit)
            }
            23 => {
                self.num(1)?;
                self.num(2)?;
                Ok(Value::Num([0, 4][self.rng.usize(0..2)]))
            }
            25 => {
                self.context()?;
                self.map(2, &[4])?;
                self.num(3)?;
                let size = self.size(5, 0)?;
                self.reads(4, size)?;
                Ok(Value::Num(self.result()))
            }
            28 => {
                for (memory, size) in [(1, 2), (3, 4)] {
                    let size = self.size(size, 0)?;
                    if self.get(memory)? == Value::Num(0) && size == 0 {
                        continue;
                    }
                    self.reads(memory, size)?;
                }
                self.num(5)?;
                Ok(Value::Num(u64::from(self.rng.u16(..))))
            }
            44 | 54 | 65 => {
                self.context()?;
                self.num(2)?;
                self.moves += 1;
                let length = self.rng.usize(0..200);
                self.packet.resize(length, 0);
                self.meta = i64::from(self.rng.u8(0..3)) * 4;
                Ok(Value::Num(self.result()))
            }
            51 => {
                self.map(1, &[14, 16, 17, 25])?;
                self.num(2)?;
                self.num(3)?;
                Ok(Value::Num(self.rng.u64(0..5)))
            }
            69 => {
                self.context()?;
                let size = self.size(3, 1)?;
                self.reads(2, size)?;
                self.writes(2, size)?;
                self.num(4)?;
                Ok(Value::Num(self.result()))
            }
            163 => {
                self.context()?;
                self.num(2)?;
                self.reads(3, 4)?;
                self.writes(3, 4)?;
                self.num(4)?;
                self.num(5)?;
                Ok(Value::Num(self.result()))
            }
            87..=89 => {
                let kinds: &[u32] = if id == 88 { &[22, 23] } else { &[22, 23, 30] };
                let n = self.map(1, kinds)?;
                let size = i64::from(self.spec(n).value_size);
                let bloom = self.spec(n).kind as u32 == 30;
                if id == 87 || bloom {
                    self.reads(2, size)?;
                } else {
                    self.writes(2, size)?;
                }
                if id == 87 {
                    self.num(3)?;
                }
                Ok(Value::Num(self.result()))
            }
            130 => {
                self.map(1, &[27])?;
                let size = self.size(3, 0)?;
                self.reads(2, size)?;
                self.num(4)?;
                Ok(Value::Num(self.result()))
            }
            131 => {
                self.map(1, &[27])?;
                let size = self.num(2)?;
                self.num(3)?;
                if size > 4096 || self.rng.u8(0..4) == 0 {
                    return Ok(Value::Num(0));
                }
                self.records.push(Some(vec![0x5a; size as usize]));
                Ok(Value::Ptr(Region::Record(self.records.len() - 1), 0))
            }
            132 | 133 => {
                self.num(2)?;
                let Value::Ptr(Region::Record(n), 0) = self.get(1)? else {
                    return fault("not a record as it was reserved");
                };
                match self.records[n].take() {
                    Some(_) => Ok(Value::Uninit),
                    None => fault("a record given back twice"),
                }
            }
            134 => {
                self.map(1, &[27])?;
                self.num(2)?;
                Ok(Value::Num(self.rng.u64(..)))
            }
            188 => {
                self.context()?;
                Ok(Value::Num(self.packet.len() as u64))
            }
            189 | 190 => {
                self.context()?;
                self.num(2)?;
                let size = self.size(4, 1)?;
                if id == 189 {
                    self.writes(3, size)?;
                } else {
                    self.reads(3, size)?;
                }
                Ok(Value::Num(self.result()))
            }
            16 => {
                let size = self.size(2, 1)?;
                self.writes(1, size)?;
                Ok(Value::Num(self.result()))
            }
            17 => {
                self.context()?;
                Ok(Value::Num(0))
            }
            22 | 55 => {
                self.map(1, &[4])?;
                self.num(2)?;
                if id == 55 {
                    let size = self.size(4, 1)?;
                    self.writes(3, size)?;
                }
                Ok(Value::Num(self.result()))
            }
            105 | 106 => {
                let size = self.size(2, 1)?;
                self.reads(1, size)?;
                self.num(3)?;
                self.writes(4, 8)?;
                Ok(Value::Num(self.result()))
            }
            120 => {
                self.num(1)?;
                self.num(2)?;
                let size = self.size(4, 1)?;
                self.writes(3, size)?;
                Ok(Value::Num(self.result()))
            }
            165 => {
                let size = self.size(2, 0)?;
                if self.get(1)? != Value::Num(0) || size != 0 {
                    self.writes(1, size)?;
                }
                self.reads(3, 1)?;
                let size = self.size(5, 0)?;
                if self.get(4)? != Value::Num(0) || size != 0 {
                    self.reads(4, size)?;
                }
                Ok(Value::Num(self.result()))
            }
            177 => {
                let size = self.size(2, 1)?;
                self.reads(1, size)?;
                let size = self.size(4, 0)?;
                if self.get(3)? != Value::Num(0) || size != 0 {
                    self.reads(3, size)?;
                }
                Ok(Value::Num(self.result()))
            }
            182 => {
                let size = self.size(2, 1)?;
                self.reads(1, size)?;
                self.reads(3, 1)?;
                Ok(Value::Num(self.result()))
            }
            204..=207 => {
                self.reads(1, if id % 2 == 0 { 20 } else { 40 })?;
                let size = match id {
                    204 | 205 => self.size(3, 0)?,
                    _ => 20,
                };
                self.reads(2, size)?;
                Ok(Value::Num(self.result()))
            }
            other => fault(format!("helper {other}")),
        }
    }

    fn result(&mut self) -> u64 {
        [0, -22i64 as u64][self.rng.usize(0..2)]
    }
}

/// Of what is in the packet, how often that had moved.
fn moves(r: Region) -> Option<u32> {
    match r {
        Region::Packet(m) | Region::Meta(m) | Region::Low(m) => Some(m),
        _ => None,
    }
}

fn whole(r: Region) -> bool {
    !matches!(r, Region::Low(_))
}

fn packet(a: Region, b: Region) -> bool {
    both_in_packets(a, b) && whole(a) && whole(b)
}

fn both_in_packets(a: Region, b: Region) -> bool {
    moves(a).is_some() && moves(b).is_some()
}

fn same_stack(a: Region, b: Region) -> bool {
    matches!(a, Region::Stack(_)) && a == b
}

fn equality(op: u8) -> bool {
    matches!(op, jmp::JEQ | jmp::JNE)
}

fn compare(op: u8, a: u64, b: u64, sa: i64, sb: i64) -> bool {
    match op {
        jmp::JEQ => a == b,
        jmp::JNE => a != b,
        jmp::JGT => a > b,
        jmp::JGE => a >= b,
        jmp::JLT => a < b,
        jmp::JLE => a <= b,
        jmp::JSGT => sa > sb,
        jmp::JSGE => sa >= sb,
        jmp::JSLT => sa < sb,
        jmp::JSLE => sa <= sb,
        _ => a & b != 0,
    }
}

fn moved(n: u64, bits: i16, wide: bool) -> u64 {
    let n = match bits {
        8 => n as i8 as i64 as u64,
        16 => n as i16 as i64 as u64,
        32 => n as i32 as i64 as u64,
        _ => n,
    };
    if wide { n } else { u64::from(n as u32) }
}

fn unary(i: &Insn, n: u64, wide: bool) -> u64 {
    if i.op() == alu::NEG {
        let n = (n as i64).wrapping_neg() as u64;
        return if wide { n } else { u64::from(n as u32) };
    }
    let swap = wide || i.is_reg();
    match (i.imm, swap) {
        (16, true) => u64::from((n as u16).swap_bytes()),
        (32, true) => u64::from((n as u32).swap_bytes()),
        (_, true) => n.swap_bytes(),
        (16, _) => u64::from(n as u16),
        (32, _) => u64::from(n as u32),
        _ => n,
    }
}

/// By 128-bit numbers, another way than the library's.
fn binary(i: &Insn, a: u64, b: u64, wide: bool) -> u64 {
    let bits = if wide { 64 } else { 32 };
    let mask = if wide { u64::MAX } else { 0xffff_ffff };
    let (a, b) = (a & mask, b & mask);
    let signed = |v: u64| {
        let shift = 64 - bits;
        i128::from(((v << shift) as i64) >> shift)
    };
    let (ua, ub) = (i128::from(a), i128::from(b));
    let amount = (b % bits) as u32;
    let out: i128 = match i.op() {
        alu::ADD => ua + ub,
        alu::SUB => ua - ub,
        alu::MUL => return a.wrapping_mul(b) & mask,
        alu::DIV if b == 0 => 0,
        alu::MOD if b == 0 => ua,
        alu::DIV if i.off == 1 => signed(a) / signed(b),
        alu::MOD if i.off == 1 => signed(a) % signed(b),
        alu::DIV => ua / ub,
        alu::MOD => ua % ub,
        alu::OR => ua | ub,
        alu::AND => ua & ub,
        alu::XOR => ua ^ ub,
        alu::LSH => ua << amount,
        alu::RSH => ua >> amount,
        _ => signed(a) >> amount,
    };
    out as u64 & mask
}
