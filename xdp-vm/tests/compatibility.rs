//! `docs/compatibility.md` against the code and the running kernel: which helpers and kinds of map there
//! are. `IXDP_WRITE_DOCS=1 cargo test -p xdp-vm --test compatibility -- --test-threads 1` writes its tables
//! anew.

#[allow(dead_code)] // each test file uses its part
#[path = "verifier/asm.rs"]
mod asm;
#[path = "verifier/kernel.rs"]
mod kernel;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use xdp_vm::MapKind;
use xdp_vm::contract::{CONTRACTS, contract};
use xdp_vm::refusal;

/// Helpers are numbered from 1 to this (`BPF_FUNC_cgrp_storage_delete`, the last: new ones are kernel
/// functions).
const LAST_HELPER: u32 = 211;
/// Kinds of map are numbered from 1 to this (`BPF_MAP_TYPE_ARENA`).
const LAST_MAP: u32 = 33;

#[test]
fn the_table_of_helpers_is_true() {
    let names = helpers();
    if names.is_empty() {
        return eprintln!("skipped: no bpf_helper_defs.h; install libbpf-dev");
    }
    for here in CONTRACTS {
        assert_eq!(
            Some(here.name),
            names.get(&here.id).map(|n| &n[..]),
            "{}",
            here.id
        );
    }
    let listed = numbers("helpers");
    let asked = kernel::may_be_asked();
    let theirs: Vec<u32> = match asked {
        true => (1..=LAST_HELPER).filter(|&id| kernel_has(id)).collect(),
        false => vec![],
    };
    // What a kernel offers hangs on how it was built: the page lists what any was seen to.
    for id in theirs.iter().filter(|id| !listed.contains(id)) {
        eprintln!("this kernel also has {id}, which the page does not list");
    }
    let ours = CONTRACTS.iter().map(|c| c.id);
    let all: BTreeSet<u32> = listed
        .into_iter()
        .chain(ours)
        .chain(match writing() {
            true => theirs,
            false => vec![],
        })
        .collect();
    let mut table = String::from("| helper | number | here |\n|---|---|---|\n");
    for id in all {
        let here = match (contract(id), refusal::helper(id)) {
            (Some(_), _) => "yes",
            (None, Some(refused)) => &format!("refused: {}", refused.reason),
            (None, None) => "no",
        };
        let name = names.get(&id).map_or("?", |n| n);
        let _ = writeln!(table, "| `{name}` | {id} | {here} |");
    }
    hold("helpers", &table);
}

#[test]
fn the_table_of_maps_is_true() {
    let mut table = String::from("| kind | number | here |\n|---|---|---|\n");
    for number in 1..=LAST_MAP {
        let kind = MapKind::from_number(number);
        let name = kind.map_or(NOT_HERE[number as usize], MapKind::name);
        let here = if kind.is_some() { "yes" } else { "no" };
        let _ = writeln!(table, "| {name} | {number} | {here} |");
    }
    hold("maps", &table);
}

/// Names of the kinds by number, as the kernel has them, for those that are not here.
const NOT_HERE: [&str; LAST_MAP as usize + 1] = [
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "stack_trace",
    "cgroup_array",
    "",
    "",
    "",
    "",
    "",
    "",
    "sockmap",
    "",
    "",
    "sockhash",
    "cgroup_storage",
    "reuseport_sockarray",
    "percpu_cgroup_storage",
    "",
    "",
    "sk_storage",
    "",
    "struct_ops",
    "",
    "inode_storage",
    "task_storage",
    "",
    "user_ringbuf",
    "cgrp_storage",
    "arena",
];

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/compatibility.md")
}

fn writing() -> bool {
    std::env::var_os("IXDP_WRITE_DOCS").is_some()
}

/// The page before a table, the table, and the page after it.
fn parts(name: &str) -> [String; 3] {
    let page = std::fs::read_to_string(page()).unwrap();
    let (before, rest) = page
        .split_once(&format!("<!-- {name} -->\n"))
        .expect("the table's place");
    let end = format!("<!-- end of {name} -->\n");
    let (table, after) = rest.split_once(&end).expect("the table's end");
    [before, table, after].map(str::to_owned)
}

/// The numbers that a table lists now.
fn numbers(name: &str) -> BTreeSet<u32> {
    let [_, table, _] = parts(name);
    let cells = table.lines().filter_map(|row| row.split('|').nth(2));
    cells.filter_map(|cell| cell.trim().parse().ok()).collect()
}

/// Holds a table of the page against what it should be, or writes it.
fn hold(name: &str, table: &str) {
    let [before, found, after] = parts(name);
    if writing() {
        let place = format!("<!-- {name} -->\n{table}<!-- end of {name} -->\n");
        std::fs::write(page(), [before, place, after].concat()).unwrap();
        return;
    }
    assert!(
        found == table,
        "the table of {name} in docs/compatibility.md is not what there is: run \
         IXDP_WRITE_DOCS=1 cargo test -p xdp-vm --test compatibility -- --test-threads 1\n{table}"
    );
}

/// Names of helpers by number, out of libbpf's header.
fn helpers() -> BTreeMap<u32, String> {
    let header = PathBuf::from("/usr/include/bpf/bpf_helper_defs.h");
    let text = std::fs::read_to_string(header).unwrap_or_default();
    let mut names = BTreeMap::new();
    for line in text.lines() {
        // static long (*bpf_name)(...) = (void *) 7;
        let name = line
            .split_once("(*")
            .and_then(|(_, rest)| rest.split_once(')'));
        let number = line
            .rsplit_once("(void *) ")
            .map(|(_, n)| n.trim_end_matches(';'));
        if let (Some((name, _)), Some(Ok(number))) = (name, number.map(str::parse)) {
            names.insert(number, name.to_owned());
        }
    }
    names
}

/// True where the kernel lets XDP programs call it: a call with no arguments is refused for those
/// then, not for the helper.
fn kernel_has(id: u32) -> bool {
    let call = asm::program(&format!("call {id}\n r0 = 0\n exit"));
    match kernel::ask(&call, &[]).expect("bpf(2)") {
        kernel::Opinion::Accepted { .. } => true,
        kernel::Opinion::Refused(log) => ![
            "program of this type cannot use helper",
            "unknown func",
            "invalid func",
        ]
        .iter()
        .any(|reason| log.contains(reason)),
    }
}
