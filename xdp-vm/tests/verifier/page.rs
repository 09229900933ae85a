//! `docs/refusals.md`: each refusal with an example and its cure, written from the table of programs
//! that must be refused. `IXDP_WRITE_DOCS=1 cargo test -p xdp-vm --test verifier page` writes it anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use xdp_vm::verifier::{Config, Refusal, verify};

use crate::{asm, maps, refused};

const CAUSES: &str = include_str!("../../src/verifier/cause.rs");

/// Kinds of refusal that no program of the table can show, and what shows them.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "TooLong",
        "A program of more than 1,000,000 slots.\n\n**Cure:** split it with tail calls.",
    ),
    (
        "FunctionTable",
        "Functions that do not start where the program does, or not one after the other: no loader \
         makes such a table.\n\n**Cure:** compile the object anew.",
    ),
    (
        "UnresolvedType",
        "A field of a type of the kernel that is not here, `bpf_core_read(&x, sizeof(x), \
         &task->pid)`.\n\n**Cure:** ask for the type first (`bpf_core_type_exists`), or do without it.",
    ),
    (
        "NoInnerMap",
        "A map of maps whose declaration does not say what it holds.\n\n**Cure:** declare \
         `__array(values, struct { ... })` in it.",
    ),
    (
        "NotHeld",
        "Given back is something that no call gave, or that was given back before. Copies of what is given \
         back are void already, so no program comes to this with the helpers there are.\n\n**Cure:** \
         give back what a call gave, once.",
    ),
    (
        "TooManyReferences",
        "More records reserved at a time, on one path, than the verifier follows.\n\n**Cure:** give back \
         what is held before asking for more.",
    ),
    (
        "Budget",
        "`for (i = 0; i < 2000000; i++) sum += i;`, or branches in a loop whose paths stay \
         apart.\n\n**Cure:** bound loops more tightly, or split the work with tail calls.",
    ),
    (
        "TooManyBranches",
        "More than 8,192 conditional jumps on one path of which both ways are possible, or fewer with \
         much on the stack.\n\n**Cure:** as of `Budget`.",
    ),
];

#[test]
fn the_page_lists_every_refusal() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/refusals.md");
    let written = written();
    if std::env::var_os("IXDP_WRITE_DOCS").is_some() {
        std::fs::write(&page, written).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        found == written,
        "docs/refusals.md is not what the verifier says now; IXDP_WRITE_DOCS=1 cargo test -p \
         xdp-vm --test verifier page writes it anew"
    );
}

fn written() -> String {
    let maps = maps();
    let mut examples: BTreeMap<String, (&str, &str, Refusal)> = BTreeMap::new();
    for case in refused() {
        let program = asm::program(case.text);
        if let Err(e) = verify(&program, &maps, &Config::default()) {
            let kind = kind(&format!("{:?}", e.cause));
            examples
                .entry(kind)
                .or_insert((case.name, case.text, Refusal::clone(&e)));
        }
    }
    let mut page = String::from(INTRODUCTION);
    for kind in kinds() {
        let _ = write!(page, "\n## {kind}\n");
        if let Some((name, text, refusal)) = examples.get(&kind) {
            let _ = writeln!(page, "{}.\n\n```text", sentence(name));
            for line in text.lines() {
                let _ = writeln!(page, "{}", line.trim());
            }
            let cause = &refusal.cause;
            let _ = writeln!(
                page,
                "```\nInstruction {}: {cause}.\n\n**Cure:** {}.",
                refusal.insn,
                cause.remedy()
            );
        } else if let Some((_, why)) = ELSEWHERE.iter().find(|(of, _)| *of == kind) {
            let _ = writeln!(page, "{why}");
        } else {
            let _ = writeln!(page, "No program of the tests is refused for it.");
        }
    }
    page
}

const INTRODUCTION: &str = "# Refusals
Each kind of refusal, in the order of `verifier::Cause`, with a program that is refused for it, what the
verifier says, and the cure. The programs are those of the tests; `r1` is the context, `map N` is a map by
number, and labels end with a colon. This page is written by a test, which fails where it is not what the
verifier says.
";

/// The kinds, as the source has them.
fn kinds() -> Vec<String> {
    let body = CAUSES.split_once("pub enum Cause {").unwrap().1;
    let body = body.split_once("\n}\n").unwrap().0;
    let kinds = body.lines().filter_map(|l| l.strip_prefix("    "));
    let kinds = kinds.filter(|l| l.starts_with(|c: char| c.is_ascii_uppercase()));
    kinds.map(kind).collect()
}

/// The name before the fields.
fn kind(text: &str) -> String {
    text.chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect()
}

fn sentence(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
