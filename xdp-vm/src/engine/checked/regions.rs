//! The memory that a run may touch at a moment, by address.

use super::fault::{FaultKind, Near, RegionKind};
use crate::Map;
use crate::buff::XdpBuff;
use crate::cpu::{FRAME, MAX_FRAMES};

/// Bytes of the context (`struct xdp_md`).
const CONTEXT: u64 = 24;
/// Bytes of a spin lock.
const LOCK: u64 = 4;
/// As far from a region an address is still told by its distance.
const NEAR: u64 = 1 << 16;
const STACK: usize = FRAME * MAX_FRAMES;

pub(super) struct Regions {
    pub(super) context: Option<u64>,
    /// Address and bytes.
    pub(super) memory: Option<(u64, u64)>,
    stack_top: u64,
    /// Functions in a call.
    frames: u64,
    /// By byte of the stack from its end down: it was written.
    written: [u64; STACK / 64],
    values: Vec<Value>,
    /// Address and bytes of what was reserved and not given back.
    records: Vec<(u64, u64)>,
    maps: Vec<u64>,
    /// The spin lock that the program holds.
    lock: Option<u64>,
}

struct Value {
    start: u64,
    len: u64,
    /// Address of its spin lock.
    lock: Option<u64>,
    kind: RegionKind,
}

impl Regions {
    pub(super) fn new(stack_top: u64) -> Self {
        Regions {
            context: None,
            memory: None,
            stack_top,
            frames: 1,
            written: [0; STACK / 64],
            values: Vec::new(),
            records: Vec::new(),
            maps: Vec::new(),
            lock: None,
        }
    }

    /// A map that the program has the address of.
    pub(super) fn add_map(&mut self, address: u64) {
        if !self.maps.contains(&address) {
            self.maps.push(address);
        }
    }

    pub(super) fn is_map(&self, address: u64) -> bool {
        self.maps.contains(&address)
    }

    /// A value of `map` that the program has the address of.
    pub(super) fn add_value(&mut self, map: &Map, start: u64) {
        if self.values.iter().any(|v| v.start == start) {
            return;
        }
        let spec = map.spec();
        self.values.push(Value {
            start,
            len: u64::from(spec.value_size),
            lock: spec.spin_lock.map(|at| start + u64::from(at)),
            kind: match spec.read_only_for_programs() {
                true => RegionKind::ReadOnlyValue,
                false => RegionKind::MapValue,
            },
        });
    }

    /// A record that the program reserved.
    pub(super) fn add_record(&mut self, start: u64, len: u64) {
        self.records.push((start, len));
    }

    pub(super) fn is_record(&self, start: u64) -> bool {
        self.records.iter().any(|r| r.0 == start)
    }

    pub(super) fn remove_record(&mut self, start: u64) {
        self.records.retain(|r| r.0 != start);
    }

    /// Addresses of the records that the program still holds.
    pub(super) fn records(&self) -> impl Iterator<Item = u64> {
        self.records.iter().map(|r| r.0)
    }

    /// Whether a spin lock of a value is at `address`.
    pub(super) fn is_lock(&self, address: u64) -> bool {
        self.values.iter().any(|v| v.lock == Some(address))
    }

    /// The spin lock that the program holds.
    pub(super) fn lock(&self) -> Option<u64> {
        self.lock
    }

    pub(super) fn set_lock(&mut self, lock: Option<u64>) {
        self.lock = lock;
    }

    /// Whether bytes are a spin lock's in part, which are nobody's.
    fn touches_lock(&self, address: u64, size: u64) -> bool {
        let mut locks = self.values.iter().filter_map(|v| v.lock);
        locks.any(|lock| address < lock + LOCK && lock < address.saturating_add(size))
    }

    /// The frame of a called function holds nothing of who had it before.
    pub(super) fn enter_frame(&mut self) {
        let first = self.frames as usize * FRAME / 64;
        self.written[first..first + FRAME / 64].fill(0);
        self.frames += 1;
    }

    pub(super) fn leave_frame(&mut self) {
        self.frames -= 1;
    }

    /// Offset in the context.
    pub(super) fn in_context(&self, address: u64) -> Option<i16> {
        let offset = address.checked_sub(self.context?)?;
        (offset < CONTEXT).then_some(offset as i16)
    }

    pub(super) fn in_packet(&self, buff: &XdpBuff<'_>, address: u64) -> bool {
        (buff.data_meta_address()..buff.data_end_address()).contains(&address)
    }

    /// The region that has all `size` bytes at `address`; the context has none that are read as
    /// they are.
    pub(super) fn find(&self, buff: &XdpBuff<'_>, address: u64, size: u64) -> Option<RegionKind> {
        if self.touches_lock(address, size) {
            return None;
        }
        let inside = |(start, len, kind): (u64, u64, RegionKind)| {
            let offset = address.checked_sub(start)?;
            (kind != RegionKind::Context && size <= len && offset <= len - size).then_some(kind)
        };
        self.all(buff).find_map(inside)
    }

    pub(super) fn near(&self, buff: &XdpBuff<'_>, address: u64) -> Near {
        if address < 4096 {
            return Near::Null;
        }
        let distance = |start: u64, len: u64| {
            let end = start + len;
            if address < start {
                start - address
            } else {
                address.saturating_sub(end)
            }
        };
        match self.all(buff).min_by_key(|r| distance(r.0, r.1)) {
            Some((start, len, kind)) if distance(start, len) <= NEAR => Near::Region {
                kind,
                offset: address.wrapping_sub(start).cast_signed(),
                len,
            },
            _ => Near::Nowhere,
        }
    }

    fn all(&self, buff: &XdpBuff<'_>) -> impl Iterator<Item = (u64, u64, RegionKind)> {
        let stack = self.frames * FRAME as u64;
        let packet = self.memory.is_none().then(|| {
            let start = buff.data_meta_address();
            (start, buff.data_end_address() - start, RegionKind::Packet)
        });
        let memory = self.memory.map(|(a, len)| (a, len, RegionKind::Memory));
        let context = self.context.map(|a| (a, CONTEXT, RegionKind::Context));
        let stack = (self.stack_top - stack, stack, RegionKind::Stack);
        let values = self.values.iter().map(|v| (v.start, v.len, v.kind));
        let records = self.records.iter();
        let records = records.map(|&(start, len)| (start, len, RegionKind::Record));
        let fixed = packet.into_iter().chain(memory).chain(context);
        std::iter::once(stack)
            .chain(fixed)
            .chain(values)
            .chain(records)
    }

    /// # Errors
    /// A byte of them was not.
    pub(super) fn stack_was_written(&self, address: u64, size: u64) -> Result<(), FaultKind> {
        match (address..address + size).find(|&a| !self.bit(a)) {
            None => Ok(()),
            Some(a) => Err(FaultKind::UnwrittenStack {
                offset: a.wrapping_sub(self.stack_top).cast_signed(),
            }),
        }
    }

    pub(super) fn stack_is_written(&mut self, address: u64, size: u64) {
        for a in address..address + size {
            let n = self.number(a);
            self.written[n / 64] |= 1 << (n % 64);
        }
    }

    fn bit(&self, address: u64) -> bool {
        let n = self.number(address);
        self.written[n / 64] >> (n % 64) & 1 != 0
    }

    fn number(&self, address: u64) -> usize {
        (self.stack_top - 1 - address) as usize
    }
}
