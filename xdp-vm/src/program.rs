//! What the loader makes of an object file and everything after it works on: programs whose
//! references are resolved to indices, and the maps that they share.

use crate::Insn;
use crate::loader::LoadError;

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
    /// Names of the kernel functions that calls of kind [`call::KFUNC`](crate::insn::call::KFUNC) name.
    pub kfuncs: Vec<String>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    PercpuHash = 5,
    PercpuArray = 6,
}

impl MapKind {
    /// The kind that the kernel gives this number, where it is supported.
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => MapKind::Hash,
            2 => MapKind::Array,
            5 => MapKind::PercpuHash,
            6 => MapKind::PercpuArray,
            _ => return None,
        })
    }

    /// True where keys are the indices `0..max_entries`, and every entry is always there.
    pub fn is_array(self) -> bool {
        matches!(self, MapKind::Array | MapKind::PercpuArray)
    }

    /// True where each CPU has a value of its own.
    pub fn is_percpu(self) -> bool {
        matches!(self, MapKind::PercpuHash | MapKind::PercpuArray)
    }
}

/// What a map is, before memory is taken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
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
