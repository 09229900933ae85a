//! Why an object, or one program of it, cannot be used.

use thiserror::Error;

/// Why an object file, one of its programs, or one of its variables cannot be used. Each names the
/// thing, the cause, and what can be done.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LoadError {
    #[error(
        "not a 64-bit ELF object file ({cause}); build the program with `clang -O2 -g -target bpf -c`"
    )]
    NotElf { cause: String },
    #[error(
        "the object is for machine {machine}, not eBPF (247); build it with `clang -target bpf`"
    )]
    NotBpf { machine: u16 },
    #[error("the object is big-endian; build it with `clang -target bpfel`")]
    BigEndian,
    #[error(
        "ELF file of type {kind}, not a relocatable object (1); hand over the `.o` of `clang -c`"
    )]
    NotRelocatable { kind: u16 },
    #[error("broken ELF file: {cause}; the file is cut or damaged, build it again")]
    BrokenElf { cause: String },
    #[error("the object holds no program: no executable section with instructions in it")]
    NoProgram,
    #[error("section {section}: {cause}; the file is damaged, build it again")]
    BrokenSection { section: String, cause: String },
    #[error(
        "section .maps: there is no type information that says what its maps are; build with `clang -g`"
    )]
    UntypedMaps,
    #[error(
        "type information ({section}) at byte {offset}: {cause}; build with `clang -g`, or drop the section with `llvm-objcopy --remove-section={section}`"
    )]
    BrokenBtf {
        section: &'static str,
        offset: usize,
        cause: String,
    },
    #[error("map {map}: {cause}")]
    Map { map: String, cause: String },
    #[error("map {map} is of kind {kind}, which is not supported yet")]
    MapKind { map: String, kind: String },
    #[error("section {section}, instruction {insn}: {cause}")]
    Instruction {
        section: String,
        insn: usize,
        cause: String,
    },
    #[error(
        "section {section}, instruction {insn}: relocation of type {kind} against {symbol} is not supported; build with clang 12 or later"
    )]
    RelocationKind {
        section: String,
        insn: usize,
        kind: u32,
        symbol: String,
    },
    #[error(
        "section {section}, instruction {insn}: {symbol} is not defined in the object; kernel functions and variables are not supported (declare it `__weak` if the program can do without), a function of yours must be linked in with `bpftool gen object`"
    )]
    Extern {
        section: String,
        insn: usize,
        symbol: String,
    },
    #[error(
        "linked with the functions that it calls, the program has over {limit} instructions; call fewer functions from fewer programs"
    )]
    TooLong { limit: usize },
    #[error("no program is named {name}; there are: {known}")]
    UnknownProgram { name: String, known: String },
    #[error("program {name}: {cause}")]
    Rejected {
        name: String,
        #[source]
        cause: Box<LoadError>,
    },
    #[error("the object holds several programs ({known}); say which")]
    WhichProgram { known: String },
    #[error("no global variable is named {name}{}", near.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    UnknownVariable { name: String, near: Option<String> },
    #[error("variable {name} has {size} bytes, the value given {given}")]
    VariableSize {
        name: String,
        size: u32,
        given: usize,
    },
    #[error("variable {name} has {size} bytes: {text} is not between {low} and {high}")]
    OutOfRange {
        name: String,
        size: u32,
        text: String,
        low: i64,
        high: u64,
    },
    #[error("variable {name} has {size} bytes: cannot read {text:?} as {expected}")]
    VariableText {
        name: String,
        size: u32,
        text: String,
        expected: &'static str,
    },
}
