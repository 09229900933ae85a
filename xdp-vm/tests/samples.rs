//! What the loader makes of the sample programs.

mod common;

use common::load;
use xdp_vm::insn::{call, imm64};
use xdp_vm::{MapKind, Object, Program};

fn names(object: &Object) -> Vec<&str> {
    object.programs.iter().map(|p| &p.name[..]).collect()
}

#[test]
fn drop_is_one_program_with_one_map() {
    let o = load("drop");
    assert_eq!(names(&o), ["drop"]);
    assert_eq!(o.programs[0].section, "xdp");
    assert_eq!(o.license.as_deref(), Some("Dual MIT/GPL"));
    let [map] = &o.maps[..] else {
        panic!("{:?}", o.maps)
    };
    assert_eq!(
        (
            &map.name[..],
            map.kind,
            map.key_size,
            map.value_size,
            map.max_entries,
            map.flags
        ),
        ("dropped", MapKind::PercpuArray, 4, 8, 1, 0)
    );
    let loads: Vec<_> = o.programs[0]
        .insns
        .iter()
        .filter(|i| i.is_ld_imm64())
        .map(|i| (i.src, i.imm))
        .collect();
    assert_eq!(loads, [(imm64::MAP, 0)]);
    let line = o.programs[0].line_of(9).unwrap();
    assert_eq!(
        (&line.file[..], &line.text[..]),
        ("./drop.bpf.c", "*count += 1;")
    );
    assert_eq!(line.line, 20);
}

#[test]
fn global_data_becomes_maps_with_variables() {
    let o = load("sampler");
    let map = |name: &str| {
        let at = o.maps.iter().position(|m| m.name == name);
        at.map(|at| (at, &o.maps[at]))
            .unwrap_or_else(|| panic!("{name}: {:?}", o.maps))
    };
    let (data_index, data) = map(".data");
    assert_eq!(data.initial.as_deref(), Some(&10u32.to_le_bytes()[..]));
    assert!(!data.frozen);
    let (_, bss) = map(".bss");
    assert_eq!(bss.initial, None);
    let variables: Vec<_> = bss
        .variables
        .iter()
        .map(|v| (&v.name[..], v.size))
        .collect();
    assert_eq!(variables, [("seen", 8), ("sampled", 8), ("until_next", 4)]);
    let (_, rodata) = map(".rodata");
    assert!(rodata.frozen);
    assert_eq!(rodata.flags, 0x80);
    let text = rodata.initial.as_ref().unwrap();
    assert!(text.starts_with(b"sampled %u bytes at %llu\0"));

    let program = &o.programs[0];
    let reads_every = program
        .insns
        .iter()
        .any(|i| i.is_ld_imm64() && i.src == imm64::MAP_VALUE && i.imm == data_index as i32);
    assert!(reads_every);
    // The static function is appended behind the program, and the call finds it.
    let functions: Vec<_> = program
        .functions
        .iter()
        .map(|f| (&f.name[..], f.global))
        .collect();
    assert_eq!(functions, [("sampler", true), ("take", false)]);
    assert_eq!(local_calls(program), [program.functions[1].start]);
}

#[test]
fn programs_of_many_sections_share_maps_and_functions() {
    let o = load("mixed");
    let sections: Vec<_> = o
        .programs
        .iter()
        .map(|p| (&p.name[..], &p.section[..]))
        .collect();
    assert_eq!(
        sections,
        [
            ("lottery", "xdp"),
            ("aborted", "xdp"),
            ("by_length", "xdp/by_length"),
            ("forget", "xdp_forget"),
        ]
    );
    for program in &o.programs[..3] {
        let answer = &program.functions[1];
        assert_eq!((&answer.name[..], answer.global), ("answer", true));
        assert_eq!(local_calls(program), [answer.start], "{}", program.name);
        // Lines of the appended function moved with it.
        let line = program.line_of(answer.start).unwrap();
        assert!(
            line.insn >= answer.start && line.text.contains("answer"),
            "{line:?}"
        );
    }
    assert_eq!(o.programs[3].functions.len(), 1);
    assert_eq!(o.maps[1].kind, MapKind::PercpuHash);
    assert_eq!(o.maps[1].flags, 1);
    assert_eq!(o.program(Some("forget")).unwrap().section, "xdp_forget");
    let e = o.program(None).unwrap_err().to_string();
    assert!(e.contains("lottery, aborted, by_length, forget"), "{e}");
    let e = o.program(Some("lotery")).unwrap_err().to_string();
    assert!(e.contains("no program is named lotery"), "{e}");
}

#[test]
fn the_older_map_section_is_read() {
    let o = load("legacy");
    assert_eq!(o.programs[0].section, "prog");
    let maps: Vec<_> = o
        .maps
        .iter()
        .map(|m| (&m.name[..], m.kind, m.key_size, m.value_size, m.max_entries))
        .collect();
    assert_eq!(
        maps,
        [
            ("lengths", MapKind::Hash, 4, 8, 4096),
            ("totals", MapKind::PercpuArray, 4, 8, 2),
        ]
    );
}

/// Slots that local calls go to.
fn local_calls(program: &Program) -> Vec<usize> {
    program
        .insns
        .iter()
        .enumerate()
        .filter(|(_, i)| i.code == 0x85 && i.src == call::LOCAL)
        .map(|(at, i)| (at as i64 + 1 + i64::from(i.imm)) as usize)
        .collect()
}
