//! What is known at one point of one path: the registers and the stack of every active function.
//!
//! A pointer is a region, a constant offset into it and a variable part; packet pointers with the
//! same `id` share their variable part, so what a comparison with `data_end` proves of one holds
//! for all. A register also carries its [`Origin`]: which registers and stack slots of the last
//! stored state its number was computed from. When a decision hangs on the number, the walk asks
//! those places to be precise, and compares everything else loosely.

use std::fmt;

use super::lock::HeldLock;
use super::references::References;
use super::scalar::Scalar;
use super::stack::Stack;

/// Deepest chain of calls, the entry function included (kernel: `MAX_CALL_FRAMES`).
pub const MAX_FRAMES: usize = 8;
/// Bytes of stack that a chain of calls may use together (kernel: `MAX_BPF_STACK`).
pub const MAX_STACK: i32 = 512;
/// Number of the frame pointer.
pub const FP: usize = 10;

/// In a map's number: not that map, but one of those that it holds, of which only the declared shape is
/// known.
pub const INNER: u32 = 1 << 31;

/// What kind of thing a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing was written to it, or what was is void.
    Uninit,
    /// A number.
    Scalar,
    /// The program's context.
    Context,
    /// A map, by index; with [`INNER`] in it, an inner map of that map of maps.
    Map(u32),
    /// An inner map, or null, not yet compared with null.
    MapOrNull(u32),
    /// A value of a map.
    MapValue(u32),
    /// A value of a map, or null, not yet compared with null.
    MapValueOrNull(u32),
    /// Into the packet.
    Packet,
    /// Into the metadata before the packet.
    PacketMeta,
    /// One past the packet's last byte.
    PacketEnd,
    /// The low half of an address in the packet, as a 32-bit move leaves it: good for a distance of
    /// 32 bits, and for nothing else.
    PacketLow,
    /// An address in the packet from before it moved: good for a distance, and for nothing else.
    PacketMoved,
    /// Into the stack of the frame with this depth.
    Stack(u32),
    /// Into a record of a ring buffer, of so many bytes, which is reserved.
    Record(u32),
    /// Such a record, or null, not yet compared with null.
    RecordOrNull(u32),
}

impl Kind {
    /// True for everything that holds an address.
    pub fn is_pointer(self) -> bool {
        !matches!(self, Kind::Uninit | Kind::Scalar)
    }

    /// True for pointers into the packet.
    pub fn is_packet(self) -> bool {
        use Kind::{Packet, PacketEnd, PacketLow, PacketMeta, PacketMoved};
        matches!(
            self,
            Packet | PacketMeta | PacketEnd | PacketLow | PacketMoved
        )
    }

    /// True for what must be given back: the register's id is the reference's.
    pub fn is_referenced(self) -> bool {
        matches!(self, Kind::Record(_) | Kind::RecordOrNull(_))
    }

    /// Of what may be null, what it is where it is not.
    pub fn not_null(self) -> Option<Kind> {
        Some(match self {
            Kind::MapOrNull(map) => Kind::Map(map),
            Kind::MapValueOrNull(map) => Kind::MapValue(map),
            Kind::RecordOrNull(size) => Kind::Record(size),
            _ => return None,
        })
    }

    /// The kind in words.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Uninit => "uninitialised",
            Kind::Scalar => "a number",
            Kind::Context => "the context",
            Kind::Map(_) => "a map",
            Kind::MapOrNull(_) => "a map, or null",
            Kind::MapValue(_) => "a pointer to a map value",
            Kind::MapValueOrNull(_) => "a pointer to a map value, or null",
            Kind::Packet => "a packet pointer",
            Kind::PacketMeta => "a pointer to the packet's metadata",
            Kind::PacketEnd => "the packet's end",
            Kind::PacketLow => "the low half of a packet pointer",
            Kind::PacketMoved => "a packet pointer from before the packet moved",
            Kind::Stack(_) => "a stack pointer",
            Kind::Record(_) => "a pointer to a record",
            Kind::RecordOrNull(_) => "a pointer to a record, or null",
        }
    }
}

/// Places in the last stored state, as sets of bits. Places that share a bit are taken together, which
/// is safe: more is precise than need be. It costs, though: of the two outermost functions, where
/// objects and spills of real programs meet, no two places do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    regs: u64,
    slots: [u64; 2],
}

impl Origin {
    /// Nowhere: constants, and what was loaded from memory.
    pub const NONE: Origin = Origin {
        regs: 0,
        slots: [0; 2],
    };

    /// Register `reg` of the frame at `depth`.
    pub fn reg(depth: usize, reg: usize) -> Self {
        Origin {
            regs: 1 << ((depth * 10 + reg) % 64),
            slots: [0; 2],
        }
    }

    /// Stack slot `slot` of the frame at `depth`.
    pub fn slot(depth: usize, slot: usize) -> Self {
        let mut slots = [0; 2];
        slots[depth % 2] = 1 << ((depth / 2 * 21 + slot) % 64);
        Origin { regs: 0, slots }
    }

    /// Both.
    pub fn union(self, o: Origin) -> Self {
        Origin {
            regs: self.regs | o.regs,
            slots: [self.slots[0] | o.slots[0], self.slots[1] | o.slots[1]],
        }
    }

    /// Those not in `o`.
    pub fn minus(self, o: Origin) -> Self {
        Origin {
            regs: self.regs & !o.regs,
            slots: [self.slots[0] & !o.slots[0], self.slots[1] & !o.slots[1]],
        }
    }

    /// True where they share a place.
    pub fn meets(self, o: Origin) -> bool {
        let shared = self.slots[0] & o.slots[0] | self.slots[1] & o.slots[1];
        self.regs & o.regs != 0 || shared != 0
    }

    /// True for nowhere.
    pub fn is_none(self) -> bool {
        self == Origin::NONE
    }
}

/// One register, or what was spilled from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg {
    /// What it holds.
    pub kind: Kind,
    /// The number; of a pointer, the variable part of its offset.
    pub scalar: Scalar,
    /// Constant part of a pointer's offset, in bytes.
    pub off: i32,
    /// Of a packet pointer: this many bytes from its variable part on (that is, where `off` is 0)
    /// are proven to lie within.
    pub range: u32,
    /// Numbers with the same id are equal; packet pointers share their variable part; values
    /// that may be null are null together. 0 is nobody's.
    pub id: u32,
    /// Where the number came from.
    pub origin: Origin,
}

impl Reg {
    /// Not readable.
    pub const UNINIT: Reg = Reg {
        kind: Kind::Uninit,
        scalar: Scalar::UNKNOWN,
        off: 0,
        range: 0,
        id: 0,
        origin: Origin::NONE,
    };

    /// A number of which `scalar` is known.
    pub const fn scalar(scalar: Scalar) -> Self {
        Reg {
            kind: Kind::Scalar,
            scalar,
            ..Reg::UNINIT
        }
    }

    /// A known number.
    pub const fn constant(v: u64) -> Self {
        Reg::scalar(Scalar::constant(v))
    }

    /// A pointer to the start of a region.
    pub const fn pointer(kind: Kind) -> Self {
        Reg {
            kind,
            scalar: Scalar::constant(0),
            ..Reg::UNINIT
        }
    }

    /// The number, where it is one and known.
    pub fn as_constant(&self) -> Option<u64> {
        match self.kind {
            Kind::Scalar => self.scalar.as_constant(),
            _ => None,
        }
    }

    /// True for a pointer whose offset is known.
    pub fn has_constant_offset(&self) -> bool {
        self.scalar.as_constant().is_some()
    }

    /// Least and greatest offset of the pointer into its region.
    pub fn offsets(&self) -> (i64, i64) {
        let off = i64::from(self.off);
        (
            self.scalar.w64.smin.saturating_add(off),
            self.scalar.w64.smax.saturating_add(off),
        )
    }

    /// A low part of the number, `bits` wide: equal to the whole, and so still linked to its
    /// equals, where it fits. Where nothing more is known of it than its width, that comes from
    /// nowhere.
    pub fn truncated(&self, bits: u32) -> Reg {
        let scalar = self.scalar.truncate(bits);
        let id = if scalar == self.scalar { self.id } else { 0 };
        let origin = if scalar == Scalar::of_size(bits / 8) {
            Origin::NONE
        } else {
            self.origin
        };
        Reg {
            scalar,
            id,
            origin,
            ..*self
        }
    }
}

/// One active function.
#[derive(Clone, Debug)]
pub struct Frame {
    /// r0 to r10.
    pub regs: [Reg; 11],
    /// Its stack.
    pub stack: Stack,
    /// Which function, counted by where they start.
    pub function: usize,
    /// The instruction after the call, in the caller.
    pub return_to: usize,
}

/// What a step asks of the states before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Numbers that a decision hung on.
    pub precise: Origin,
    /// Stack slots read that were not written since the last stored state: a bit a slot, by depth.
    pub reads: [u64; MAX_FRAMES],
}

/// All that is known at one point of one path.
#[derive(Clone, Debug)]
pub struct State {
    /// Entry function first.
    pub frames: Vec<Frame>,
    /// What the step now made asks for; the walk takes it after each.
    pub(super) demand: Demand,
    /// What it holds and must give back.
    pub references: References,
    /// The spin lock that it holds.
    pub lock: Option<HeldLock>,
    /// Last id given out on this path.
    pub(super) last_id: u32,
}

impl State {
    /// At the entry of an XDP program: r1 is the context.
    pub(super) fn entry() -> Self {
        let mut frame = Frame::new(0, 0, 0);
        frame.regs[1] = Reg::pointer(Kind::Context);
        State {
            frames: vec![frame],
            demand: Demand::default(),
            references: References::default(),
            lock: None,
            last_id: 0,
        }
    }

    /// Depth of the running function: 0 for the entry function.
    pub fn depth(&self) -> usize {
        self.frames.len() - 1
    }

    /// The running function's frame.
    pub fn top(&self) -> &Frame {
        &self.frames[self.frames.len() - 1]
    }

    pub(super) fn top_mut(&mut self) -> &mut Frame {
        let depth = self.depth();
        &mut self.frames[depth]
    }

    /// A register of the running function.
    pub fn reg(&self, r: u8) -> &Reg {
        &self.top().regs[usize::from(r)]
    }

    pub(super) fn set(&mut self, r: u8, value: Reg) {
        self.top_mut().regs[usize::from(r)] = value;
    }

    /// An id that nothing on this path has.
    pub(super) fn fresh_id(&mut self) -> u32 {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    /// A decision hangs on `reg`'s number.
    pub(super) fn need(&mut self, origin: Origin) {
        self.demand.precise = self.demand.precise.union(origin);
    }

    /// Slots of the frame at `depth` were read.
    pub(super) fn note_reads(&mut self, depth: usize, slots: u64) {
        let old = slots & !self.frames[depth].stack.written;
        self.demand.reads[depth] |= old;
    }

    /// Applies `f` to every register and every spilled register of every frame.
    pub(super) fn for_each(&mut self, mut f: impl FnMut(&mut Reg)) {
        for frame in &mut self.frames {
            frame.regs.iter_mut().for_each(&mut f);
        }
        self.for_each_spilled(f);
    }

    fn for_each_spilled(&mut self, mut f: impl FnMut(&mut Reg)) {
        for frame in &mut self.frames {
            frame.stack.for_each_spilled(&mut f);
        }
    }

    /// Makes the pointers among registers and spilled registers void that `which` says.
    pub(super) fn void(&mut self, mut which: impl FnMut(&Reg) -> bool) {
        for frame in &mut self.frames {
            for reg in &mut frame.regs {
                if reg.kind.is_pointer() && which(reg) {
                    *reg = Reg::UNINIT;
                }
            }
            frame.stack.void(&mut which);
        }
    }

    /// The packet moved: no pointer into it holds. How far apart two of them were is still known, as
    /// the buffer is the same, and programs compute lengths of it.
    pub(super) fn void_packet_pointers(&mut self) {
        self.for_each(|reg| {
            if reg.kind.is_packet() && reg.kind != Kind::PacketLow {
                *reg = Reg::pointer(Kind::PacketMoved);
            }
        });
    }
}

impl Frame {
    /// A function just entered, at `depth`.
    pub(super) fn new(depth: usize, function: usize, return_to: usize) -> Self {
        let mut regs = [Reg::UNINIT; 11];
        regs[FP] = Reg::pointer(Kind::Stack(depth as u32));
        Frame {
            regs,
            stack: Stack::new(),
            function,
            return_to,
        }
    }
}

/// As the kernel's verifier log writes a register.
impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            Kind::Uninit => return f.write_str("?"),
            Kind::Scalar => {
                return match self.scalar.as_constant() {
                    Some(v) => write!(f, "{}", v as i64),
                    None => write!(f, "scalar({})", Parts(&self.scalar, self.id)),
                };
            }
            Kind::Context => "ctx",
            Kind::Map(_) => "map_ptr",
            Kind::MapOrNull(_) => "map_ptr_or_null",
            Kind::MapValue(_) => "map_value",
            Kind::MapValueOrNull(_) => "map_value_or_null",
            Kind::Packet => "pkt",
            Kind::PacketMeta => "pkt_meta",
            Kind::PacketEnd => "pkt_end",
            Kind::PacketLow => "pkt_low",
            Kind::PacketMoved => "pkt_moved",
            Kind::Stack(_) => "fp",
            Kind::Record(_) => "ringbuf_mem",
            Kind::RecordOrNull(_) => "ringbuf_mem_or_null",
        };
        f.write_str(name)?;
        if let (Kind::Stack(_), Some(0)) = (self.kind, self.scalar.as_constant()) {
            return write!(f, "{}", self.off);
        }
        let mut parts = vec![];
        if self.off != 0 {
            parts.push(format!("off={}", self.off));
        }
        if let Kind::Map(m) | Kind::MapOrNull(m) | Kind::MapValue(m) | Kind::MapValueOrNull(m) =
            self.kind
        {
            let inner = if m & INNER == 0 { "" } else { ".inner" };
            parts.push(format!("map={}{inner}", m & !INNER));
        }
        if let Kind::Record(size) | Kind::RecordOrNull(size) = self.kind {
            parts.push(format!("sz={size}"));
        }
        if self.kind.is_packet() {
            parts.push(format!("r={}", self.range));
        }
        if self.has_constant_offset() {
            if self.id != 0 {
                parts.push(format!("id={}", self.id));
            }
        } else {
            parts.push(Parts(&self.scalar, self.id).to_string());
        }
        write!(f, "({})", parts.join(","))
    }
}

/// The parts of a scalar that say something.
struct Parts<'a>(&'a Scalar, u32);

impl fmt::Display for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts(s, id) = *self;
        let mut parts = vec![];
        if id != 0 {
            parts.push(format!("id={id}"));
        }
        let all = Scalar::UNKNOWN;
        if s.w64.smin != all.w64.smin && s.w64.smin != s.w64.umin as i64 {
            parts.push(format!("smin={}", s.w64.smin));
        }
        if s.w64.smax != all.w64.smax && s.w64.smax != s.w64.umax as i64 {
            parts.push(format!("smax={}", s.w64.smax));
        }
        if s.w64.umin != 0 {
            parts.push(format!("umin={}", s.w64.umin));
        }
        if s.w64.umax != u64::MAX {
            parts.push(format!("umax={}", s.w64.umax));
        }
        if s.w32 != all.w32 && s.w64.umax > 0xffff_ffff {
            parts.push(format!("umin32={},umax32={}", s.w32.umin, s.w32.umax));
        }
        if s.tnum.mask != u64::MAX && s.as_constant().is_none() {
            parts.push(format!("var_off=({:#x}; {:#x})", s.tnum.value, s.tnum.mask));
        }
        f.write_str(&parts.join(","))
    }
}

/// One line: the registers that hold something, then the stack, as the kernel's log has them.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.depth() > 0 {
            write!(f, "frame{}: ", self.depth())?;
        }
        let mut first = true;
        for (i, reg) in self.top().regs.iter().enumerate() {
            if reg.kind != Kind::Uninit {
                write!(f, "{}R{i}={reg}", if first { "" } else { " " })?;
                first = false;
            }
        }
        write!(f, "{}", self.top().stack)
    }
}
