//! Makes each program one run of instructions: the entry function, then every function that it can
//! reach, in the order in which they are first called, as libbpf lays them out. Calls, maps, global
//! data and function addresses are resolved on the way.

use std::collections::HashMap;

use super::LoadError;
use super::btf::Btf;
use super::btf_ext::{BtfExt, CoreRecord};
use super::core::{self, Fit};
use super::elf::{Elf, Relocation, Section, Symbol, SymbolKind};
use super::maps::{MapTable, Place};
use crate::insn::{CLASS_JMP, call, imm64, jmp};
use crate::{Function, Insn, Line, Program, Rejected, kfunc, refusal};

/// The kernel's limit for one program.
const MAX_PROGRAM: usize = 1_000_000;
/// Types of relocation that instructions carry: of a 64-bit immediate load, and of a call.
const R_BPF_64_64: u32 = 1;
const R_BPF_64_32: u32 = 10;

/// Links every program of the object. The outer error is a fault of the file.
pub(super) fn link(
    elf: &Elf<'_>,
    btf: &Btf,
    ext: &BtfExt,
    maps: &MapTable,
) -> Result<Vec<Result<Program, Rejected>>, LoadError> {
    let functions = functions(elf)?;
    let places = functions
        .iter()
        .enumerate()
        .map(|(i, f)| ((f.section, f.start), i))
        .collect();
    let slots: usize = functions.iter().map(|f| f.end - f.start).sum();
    let linker = Linker {
        elf,
        btf,
        ext,
        maps,
        functions: &functions,
        places,
    };
    // Every program gets its own copy of what it calls. A small file could claim a thousand
    // programs that all call one large function, so what all copies take together is limited.
    let mut budget = 8 * slots + 65_536;
    let programs: Vec<_> = entries(elf, &functions)
        .into_iter()
        .map(|entry| {
            linker.link(entry, &mut budget).map_err(|error| Rejected {
                name: functions[entry].name.to_owned(),
                section: elf.sections[functions[entry].section].name.to_owned(),
                error,
            })
        })
        .collect();
    match programs.is_empty() {
        true => Err(LoadError::NoProgram),
        false => Ok(programs),
    }
}

/// A function before linking: slots `start..end` of a section.
struct Body<'a> {
    name: &'a str,
    section: usize,
    start: usize,
    end: usize,
    local: bool,
}

/// The functions of all executable sections, by section and place.
fn functions<'a>(elf: &Elf<'a>) -> Result<Vec<Body<'a>>, LoadError> {
    let mut by_section: HashMap<usize, Vec<&Symbol<'a>>> = HashMap::new();
    for symbol in &elf.symbols {
        if let (Some(section), true) = (symbol.section, symbol.kind != SymbolKind::Section) {
            by_section.entry(section).or_default().push(symbol);
        }
    }
    let mut all = Vec::new();
    for (index, section) in elf.sections.iter().enumerate() {
        if !section.executable || section.data.is_empty() {
            continue;
        }
        let symbols = by_section.remove(&index).unwrap_or_default();
        functions_of(section, index, symbols, &mut all)?;
    }
    Ok(all)
}

fn functions_of<'a>(
    section: &Section<'a>,
    index: usize,
    mut symbols: Vec<&Symbol<'a>>,
    all: &mut Vec<Body<'a>>,
) -> Result<(), LoadError> {
    let broken = |cause: String| LoadError::BrokenSection {
        section: section.name.to_owned(),
        cause,
    };
    let len = section.data.len();
    if !len.is_multiple_of(Insn::SIZE) {
        return Err(broken(format!(
            "its {len} bytes are not a whole number of instructions"
        )));
    }
    // Assembler sources may leave symbols without a type; local ones are then jump targets.
    match symbols.iter().any(|s| s.kind == SymbolKind::Function) {
        true => symbols.retain(|s| s.kind == SymbolKind::Function),
        false => symbols.retain(|s| s.kind == SymbolKind::Other && !s.local),
    }
    symbols.sort_by_key(|s| (s.value, s.local));
    symbols.dedup_by_key(|s| s.value);
    if symbols.is_empty() {
        all.push(Body {
            name: section.name,
            section: index,
            start: 0,
            end: len / Insn::SIZE,
            local: false,
        });
    }
    for (i, symbol) in symbols.iter().enumerate() {
        let next = symbols.get(i + 1).map_or(len as u64, |s| s.value);
        let end = match symbol.size {
            0 => next,
            size => symbol.value.saturating_add(size),
        };
        let whole = |n: u64| n.is_multiple_of(Insn::SIZE as u64);
        if end > next
            || end > len as u64
            || symbol.value >= end
            || !whole(symbol.value)
            || !whole(end)
        {
            return Err(broken(format!(
                "function {} claims bytes {}..{end} of {len}, up to the next function at {next}",
                symbol.name, symbol.value
            )));
        }
        all.push(Body {
            name: symbol.name,
            section: index,
            start: symbol.value as usize / Insn::SIZE,
            end: end as usize / Insn::SIZE,
            local: symbol.local,
        });
    }
    Ok(())
}

/// Which functions are programs: the global ones outside `.text` (all of a section that has none
/// but static ones). `.text` holds what programs call, unless there is nothing else.
fn entries(elf: &Elf<'_>, functions: &[Body<'_>]) -> Vec<usize> {
    let is_text = |f: &Body<'_>| elf.sections[f.section].name.starts_with(".text");
    let only_text = functions.iter().all(is_text);
    let mut has_global = vec![false; elf.sections.len()];
    for f in functions.iter().filter(|f| !f.local) {
        has_global[f.section] = true;
    }
    (0..functions.len())
        .filter(|&i| only_text || !is_text(&functions[i]))
        .filter(|&i| !functions[i].local || !has_global[functions[i].section])
        .collect()
}

struct Linker<'a> {
    elf: &'a Elf<'a>,
    btf: &'a Btf,
    ext: &'a BtfExt,
    maps: &'a MapTable,
    functions: &'a [Body<'a>],
    /// By section and first slot.
    places: HashMap<(usize, usize), usize>,
}

/// The program that is being put together.
#[derive(Default)]
struct Draft {
    program: Program,
    /// Functions to append, in this order.
    order: Vec<usize>,
    /// By function: its place in `order`.
    known: HashMap<usize, usize>,
    /// Slots that wait for the place of a function of `order`.
    fixups: Vec<(usize, usize)>,
}

impl Draft {
    /// The place in `order` of a function that the program needs.
    fn need(&mut self, function: usize) -> usize {
        *self.known.entry(function).or_insert_with(|| {
            self.order.push(function);
            self.order.len() - 1
        })
    }
}

impl Linker<'_> {
    fn link(&self, entry: usize, budget: &mut usize) -> Result<Program, LoadError> {
        let mut draft = Draft::default();
        draft.program.name = self.functions[entry].name.to_owned();
        draft.program.section = self.elf.sections[self.functions[entry].section]
            .name
            .to_owned();
        draft.need(entry);
        let mut next = 0;
        while let Some(&function) = draft.order.get(next) {
            self.append(function, &mut draft, budget)?;
            next += 1;
        }
        let Draft {
            mut program,
            fixups,
            ..
        } = draft;
        for (slot, target) in fixups {
            let start = program.functions[target].start as i32;
            let insn = &mut program.insns[slot];
            insn.imm = match insn.is_ld_imm64() {
                true => start,
                false => start - (slot as i32 + 1),
            };
        }
        Ok(program)
    }

    /// Copies one function to the end of the program, with its lines, its references resolved.
    fn append(
        &self,
        function: usize,
        draft: &mut Draft,
        budget: &mut usize,
    ) -> Result<(), LoadError> {
        let body = &self.functions[function];
        let section = &self.elf.sections[body.section];
        let len = body.end - body.start;
        let base = draft.program.insns.len();
        if base + len > MAX_PROGRAM {
            return Err(LoadError::TooLong { limit: MAX_PROGRAM });
        }
        let Some(left) = budget.checked_sub(len) else {
            return Err(LoadError::TooLong { limit: *budget });
        };
        *budget = left;
        let range = body.start..body.end;
        draft.program.functions.push(Function {
            name: body.name.to_owned(),
            start: base,
            global: !body.local,
        });
        for line in self.ext.lines_in(section.name, range.clone()) {
            draft.program.lines.push(Line {
                insn: base + line.insn - body.start,
                file: self.btf.string(line.file).to_owned(),
                line: line.line,
                column: line.column,
                text: self.btf.string(line.text).trim().to_owned(),
            });
        }
        let bytes = &section.data[body.start * Insn::SIZE..body.end * Insn::SIZE];
        let words = bytes.as_chunks::<{ Insn::SIZE }>().0;
        draft
            .program
            .insns
            .extend(words.iter().map(|&word| Insn::from_bytes(word)));
        for record in self.ext.core_in(section.name, range) {
            self.fit(
                section,
                record,
                base + record.insn - body.start,
                &mut draft.program,
            )?;
        }
        let mut slot = body.start;
        while slot < body.end {
            let at = base + slot - body.start;
            let insn = draft.program.insns[at];
            let step = if insn.is_ld_imm64() { 2 } else { 1 };
            if slot + step > body.end {
                return Err(self.fault(
                    section,
                    slot,
                    "a 64-bit load is cut by the function's end",
                ));
            }
            self.resolve(section, body.section, slot, at, draft)?;
            slot += step;
        }
        Ok(())
    }

    /// Fits the instruction that is number `at` of the program to the types that there are.
    fn fit(
        &self,
        section: &Section<'_>,
        record: &CoreRecord,
        at: usize,
        program: &mut Program,
    ) -> Result<(), LoadError> {
        match record.fit(self.btf) {
            Fit::Keep => Ok(()),
            Fit::Value(value) => match core::patch(&mut program.insns[at..], value) {
                true => Ok(()),
                false => Err(self.fault(
                    section,
                    record.insn,
                    &format!(
                        "the CO-RE relocation \"{}\" does not fit the instruction",
                        record.describe(self.btf)
                    ),
                )),
            },
            Fit::Missing => {
                let what = record.describe(self.btf);
                let known = program.unresolved.iter().position(|u| *u == what);
                let index = known.unwrap_or_else(|| {
                    program.unresolved.push(what);
                    program.unresolved.len() - 1
                });
                let slots = if program.insns[at].is_ld_imm64() {
                    2
                } else {
                    1
                };
                for insn in program.insns[at..].iter_mut().take(slots) {
                    *insn = Insn {
                        code: CLASS_JMP | jmp::CALL,
                        src: call::UNRESOLVED,
                        imm: index as i32,
                        ..Insn::default()
                    };
                }
                Ok(())
            }
        }
    }

    /// Resolves the instruction at `slot` of the section, which is number `at` of the program.
    fn resolve(
        &self,
        section: &Section<'_>,
        section_index: usize,
        slot: usize,
        at: usize,
        draft: &mut Draft,
    ) -> Result<(), LoadError> {
        let insn = draft.program.insns[at];
        let is_call = insn.code == CLASS_JMP | jmp::CALL;
        let relocation = relocation_at(section, slot);
        let Some(relocation) = relocation else {
            if is_call && insn.src == call::LOCAL {
                let target = slot as i64 + 1 + i64::from(insn.imm);
                return self.call(section, section_index, slot, at, target, draft);
            }
            let unresolved = match insn.src {
                imm64::MAP | imm64::MAP_VALUE | imm64::FUNC => insn.is_ld_imm64(),
                _ => false,
            };
            if unresolved || (is_call && insn.src == call::KFUNC) {
                return Err(self.fault(
                    section,
                    slot,
                    "names a map or function by a number that only the loader which made it knows",
                ));
            }
            return Ok(());
        };

        let symbol = &self.elf.symbols[relocation.symbol];
        if ![R_BPF_64_64, R_BPF_64_32].contains(&relocation.kind) {
            return Err(LoadError::RelocationKind {
                section: section.name.to_owned(),
                insn: slot,
                kind: relocation.kind,
                symbol: symbol.name.to_owned(),
            });
        }
        if is_call && insn.src == call::LOCAL {
            if symbol.undefined
                && let Some(immediate) = kfunc::immediate(symbol.name)
            {
                let insn = &mut draft.program.insns[at];
                insn.src = call::KFUNC;
                insn.imm = immediate;
                return Ok(());
            }
            if symbol.undefined && (symbol.weak || refusal::kfunc(symbol.name).is_some()) {
                // Of a weak one: only reached where the program found its address to be other than zero, which it
                // never is: the verifier sees the call dead, or refuses it by name.
                let kfuncs = &mut draft.program.kfuncs;
                let index = kfuncs.iter().position(|k| k == symbol.name);
                let index = index.unwrap_or_else(|| {
                    kfuncs.push(symbol.name.to_owned());
                    kfuncs.len() - 1
                });
                let insn = &mut draft.program.insns[at];
                insn.src = call::KFUNC;
                insn.imm = index as i32;
                return Ok(());
            }
            let target = self.section_of(section, slot, symbol)?;
            let value = symbol.value as i64 / Insn::SIZE as i64;
            let place = value + i64::from(insn.imm) + 1 + relocation.addend / Insn::SIZE as i64;
            return self.call(section, target, slot, at, place, draft);
        }
        if insn.is_ld_imm64() {
            return self.address(section, slot, at, relocation, draft);
        }
        Err(self.fault(
            section,
            slot,
            &format!(
                "a relocation against {} on an instruction that is neither a call nor a 64-bit load",
                symbol.name
            ),
        ))
    }

    /// A call of the function at slot `target` of section `target_section`.
    fn call(
        &self,
        section: &Section<'_>,
        target_section: usize,
        slot: usize,
        at: usize,
        target: i64,
        draft: &mut Draft,
    ) -> Result<(), LoadError> {
        let function = usize::try_from(target)
            .ok()
            .and_then(|target| self.places.get(&(target_section, target)));
        let Some(&function) = function else {
            return Err(self.fault(
                section,
                slot,
                &format!(
                    "calls slot {target} of section {}, where no function starts",
                    self.elf.sections[target_section].name
                ),
            ));
        };
        let place = draft.need(function);
        draft.fixups.push((at, place));
        Ok(())
    }

    /// A 64-bit load of the address of a map, a global variable, or a function.
    fn address(
        &self,
        section: &Section<'_>,
        slot: usize,
        at: usize,
        relocation: Relocation,
        draft: &mut Draft,
    ) -> Result<(), LoadError> {
        let symbol = &self.elf.symbols[relocation.symbol];
        let insn = draft.program.insns[at];
        let (kind, low, high) = if symbol.undefined
            && let Some((map, offset)) = self.maps.kconfig(symbol.name)
        {
            (imm64::MAP_VALUE, map as i32, offset.cast_signed())
        } else if symbol.undefined && kfunc::immediate(symbol.name).is_some() {
            // Its address serves only to be compared with null.
            (imm64::VALUE, 1, 0)
        } else if symbol.undefined && symbol.weak {
            (imm64::VALUE, 0, 0)
        } else {
            let target = self.section_of(section, slot, symbol)?;
            let offset = symbol
                .value
                .checked_add_signed(i64::from(insn.imm))
                .and_then(|o| o.checked_add_signed(relocation.addend));
            let Some(offset) = offset else {
                return Err(self.fault(section, slot, "points before the start of its section"));
            };
            if self.elf.sections[target].executable {
                let place = offset / Insn::SIZE as u64;
                self.call(section, target, slot, at, place as i64, draft)?;
                (imm64::FUNC, 0, 0)
            } else {
                match self.maps.place(target, offset) {
                    Some(Ok(Place::Map(map))) => (imm64::MAP, map as i32, 0),
                    Some(Ok(Place::Value(map, at))) => {
                        (imm64::MAP_VALUE, map as i32, at.cast_signed())
                    }
                    Some(Err(cause)) => return Err(cause),
                    None => {
                        return Err(self.fault(
                            section,
                            slot,
                            &format!(
                                "{} is at byte {offset} of section {}, where there is no map and no \
                                 global data",
                                symbol.name, self.elf.sections[target].name
                            ),
                        ));
                    }
                }
            }
        };
        let insn = &mut draft.program.insns[at];
        insn.src = kind;
        insn.imm = low;
        draft.program.insns[at + 1].imm = high;
        Ok(())
    }

    /// The section that `symbol` is in.
    fn section_of(
        &self,
        section: &Section<'_>,
        slot: usize,
        symbol: &Symbol<'_>,
    ) -> Result<usize, LoadError> {
        match symbol.section {
            Some(index) => Ok(index),
            None if symbol.undefined => Err(LoadError::Extern {
                section: section.name.to_owned(),
                insn: slot,
                symbol: symbol.name.to_owned(),
            }),
            None => Err(self.fault(
                section,
                slot,
                &format!("{} is in no section; give it an initial value", symbol.name),
            )),
        }
    }

    fn fault(&self, section: &Section<'_>, slot: usize, cause: &str) -> LoadError {
        LoadError::Instruction {
            section: section.name.to_owned(),
            insn: slot,
            cause: cause.to_owned(),
        }
    }
}

fn relocation_at(section: &Section<'_>, slot: usize) -> Option<Relocation> {
    let offset = (slot * Insn::SIZE) as u64;
    let found = section
        .relocations
        .binary_search_by_key(&offset, |r| r.offset);
    found.ok().map(|i| section.relocations[i])
}
