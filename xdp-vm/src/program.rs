//! What the loader makes of an object file and everything after it works on: programs whose
//! references are resolved to indices, and the maps that they share.

use crate::Insn;
use crate::loader::LoadError;
use crate::types::Type;

/// An object file after loading: its programs and the maps that they share.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// Every program that the file holds, in the order of its sections and symbols.
    pub programs: Vec<Program>,
    /// Maps that the programs name, `.rodata`, `.data` and `.bss` among them.
    pub maps: Vec<MapSpec>,
    /// Programs of the file that cannot be used, with the cause.
    pub rejected: Vec<Rejected>,
    /// The `license` section, where there is one.
    pub license: Option<String>,
}

/// A program of an object that cannot be used; the others of the same object can.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// Symbol name of the entry function.
    pub name: String,
    /// ELF section it is in.
    pub section: String,
    /// Why.
    pub error: LoadError,
}

/// One entry point with all that it calls, linked into one run of instructions.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Symbol name of the entry function.
    pub name: String,
    /// ELF section it came from, as written (`xdp`, `xdp.frags/foo`, `tc`).
    pub section: String,
    /// Instruction slots. Slot 0 is the entry.
    pub insns: Vec<Insn>,
    /// Entry function first, then each function it can reach, ascending by `start`.
    pub functions: Vec<Function>,
    /// Source lines, ascending by `insn`; empty where the object has no line info.
    pub lines: Vec<Line>,
    /// Names of kernel functions that are not in [`KFUNCS`](crate::kfunc::KFUNCS), which calls of kind
    /// [`call::KFUNC`](crate::insn::call::KFUNC) give by index.
    pub kfuncs: Vec<String>,
    /// What calls of kind [`call::UNRESOLVED`](crate::insn::call::UNRESOLVED) stand for: instructions
    /// that need a type which is not here.
    pub unresolved: Vec<String>,
}

/// A function of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Symbol name.
    pub name: String,
    /// Its first slot; it ends where the next one starts.
    pub start: usize,
    /// False for `static` functions.
    pub global: bool,
}

/// The source line that an instruction, and those after it, came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// First slot that this line made.
    pub insn: usize,
    /// File as the compiler recorded it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 where unknown.
    pub column: u32,
    /// Text of the line, trimmed; empty where unknown.
    pub text: String,
}

/// Kinds of map. The numbers are the kernel's (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum MapKind {
    Hash = 1,
    #[default]
    Array = 2,
    ProgArray = 3,
    PerfEventArray = 4,
    PercpuHash = 5,
    PercpuArray = 6,
    LruHash = 9,
    LruPercpuHash = 10,
    LpmTrie = 11,
    ArrayOfMaps = 12,
    HashOfMaps = 13,
    Devmap = 14,
    Cpumap = 16,
    Xskmap = 17,
    Queue = 22,
    Stack = 23,
    DevmapHash = 25,
    Ringbuf = 27,
    BloomFilter = 30,
}

impl MapKind {
    /// Every kind, by number.
    pub const ALL: [MapKind; 19] = [
        MapKind::Hash,
        MapKind::Array,
        MapKind::ProgArray,
        MapKind::PerfEventArray,
        MapKind::PercpuHash,
        MapKind::PercpuArray,
        MapKind::LruHash,
        MapKind::LruPercpuHash,
        MapKind::LpmTrie,
        MapKind::ArrayOfMaps,
        MapKind::HashOfMaps,
        MapKind::Devmap,
        MapKind::Cpumap,
        MapKind::Xskmap,
        MapKind::Queue,
        MapKind::Stack,
        MapKind::DevmapHash,
        MapKind::Ringbuf,
        MapKind::BloomFilter,
    ];

    /// The kind that the kernel gives this number, where it is supported.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u32 == number)
    }

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            MapKind::Hash => "hash",
            MapKind::Array => "array",
            MapKind::ProgArray => "prog_array",
            MapKind::PerfEventArray => "perf_event_array",
            MapKind::PercpuHash => "percpu_hash",
            MapKind::PercpuArray => "percpu_array",
            MapKind::LruHash => "lru_hash",
            MapKind::LruPercpuHash => "lru_percpu_hash",
            MapKind::LpmTrie => "lpm_trie",
            MapKind::ArrayOfMaps => "array_of_maps",
            MapKind::HashOfMaps => "hash_of_maps",
            MapKind::Devmap => "devmap",
            MapKind::Cpumap => "cpumap",
            MapKind::Xskmap => "xskmap",
            MapKind::Queue => "queue",
            MapKind::Stack => "stack",
            MapKind::DevmapHash => "devmap_hash",
            MapKind::Ringbuf => "ringbuf",
            MapKind::BloomFilter => "bloom_filter",
        }
    }

    /// True where keys are the indices `0..max_entries`, and every entry is always there.
    pub fn is_array(self) -> bool {
        matches!(self, MapKind::Array | MapKind::PercpuArray)
    }

    /// True where each CPU has a value of its own.
    pub fn is_percpu(self) -> bool {
        matches!(
            self,
            MapKind::PercpuHash | MapKind::PercpuArray | MapKind::LruPercpuHash
        )
    }

    /// True where entries say where `bpf_redirect_map` sends a packet.
    pub fn is_targets(self) -> bool {
        matches!(
            self,
            MapKind::Devmap | MapKind::DevmapHash | MapKind::Cpumap | MapKind::Xskmap
        )
    }

    /// True where entries are maps.
    pub fn is_of_maps(self) -> bool {
        matches!(self, MapKind::ArrayOfMaps | MapKind::HashOfMaps)
    }
}

/// What a map is, before memory is taken for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapSpec {
    /// Symbol name, or the section's name for global data (`.rodata`, `.data`, `.bss`).
    pub name: String,
    /// Kind.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Most entries it may hold.
    pub max_entries: u32,
    /// Flags as the kernel numbers them (`BPF_F_NO_PREALLOC` = 1, `BPF_F_RDONLY_PROG` = 0x80, ...).
    pub flags: u32,
    /// First bytes of the only value, for global data; `None` where they are zero.
    pub initial: Option<Vec<u8>>,
    /// Nobody writes it once the program is loaded, so the verifier may take its bytes as known.
    pub frozen: bool,
    /// Variables inside global data: what `Object::set_variable` finds by name.
    pub variables: Vec<Variable>,
    /// What the kind takes beyond its sizes (`map_extra`): of a bloom filter, its hash functions in
    /// the low four bits, 5 where 0.
    pub extra: u64,
    /// Of a map of maps: what every inner map must be like.
    pub inner: Option<Box<MapSpec>>,
    /// What the object puts into a map of maps or a program array, by key.
    pub slots: Vec<(u32, Slot)>,
    /// The object asks for one map of this name for all who load it (`LIBBPF_PIN_BY_NAME`). Here every
    /// load has maps of its own, found by their name.
    pub pinned: bool,
    /// What its keys are, where the object says so in a form that can be told.
    pub key: Option<Type>,
    /// What its values are, likewise.
    pub value: Option<Type>,
    /// First byte of the `struct bpf_spin_lock` in a value, where there is one: of arrays and hashes
    /// alone.
    pub spin_lock: Option<u32>,
}

/// What an object puts into an entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A map, by index.
    Map(usize),
    /// A program, by name: put in by [`Maps::link`](crate::Maps::link).
    Program(String),
}

impl MapSpec {
    /// True where programs may not write values: by the flag `BPF_F_RDONLY_PROG`, by being frozen, or
    /// because only the user knows what the values mean.
    pub fn read_only_for_programs(&self) -> bool {
        const RDONLY_PROG: u32 = 0x80;
        self.frozen || self.flags & RDONLY_PROG != 0 || self.kind.is_targets()
    }
}

/// A global variable of the C source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name in the source.
    pub name: String,
    /// First byte in the map's value.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Its type, where the object has type information.
    pub of: Option<Type>,
}

impl Program {
    /// The source line that made slot `insn`, where known.
    pub fn line_of(&self, insn: usize) -> Option<&Line> {
        let after = self.lines.partition_point(|l| l.insn <= insn);
        self.lines[..after].last()
    }

    /// The function that slot `insn` belongs to.
    pub fn function_of(&self, insn: usize) -> Option<&Function> {
        let after = self.functions.partition_point(|f| f.start <= insn);
        self.functions[..after].last()
    }
}
