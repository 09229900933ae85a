//! Objects compiled for the occasion: what the samples do not have. Needs clang and libbpf's headers;
//! without them each test says so and passes.

mod common;

use std::path::Path;
use std::process::Command;

use common::Bench;
use xdp_vm::insn::{call, imm64};
use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Executable, LoadError, MapKind, Maps, Object, Slot};

const HEAD: &str = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n";

/// What clang makes of `source`; `None`, with the reason printed, where there is no clang.
fn compile(source: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    if let Err(e) = Command::new(&clang).arg("--version").output() {
        eprintln!("skipped: {clang}: {e}; install clang");
        return None;
    }
    if !Path::new("/usr/include/bpf/bpf_helpers.h").exists() {
        eprintln!("skipped: no bpf/bpf_helpers.h; install libbpf-dev");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("a.bpf.c"), folder.path().join("a.o"));
    std::fs::write(&input, format!("{HEAD}{source}")).unwrap();
    let done = Command::new(&clang)
        .args(["-O2", "-g", "-target", "bpf", "-c", "-o"])
        .arg(&output)
        .arg(&input)
        .arg(format!(
            "-idirafter/usr/include/{}-linux-gnu",
            std::env::consts::ARCH
        ))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    Some(std::fs::read(output).unwrap())
}

fn load(source: &str) -> Option<Object> {
    compile(source, &[]).map(|bytes| Object::parse(&bytes).unwrap())
}

fn names(object: &Object) -> Vec<&str> {
    object.programs.iter().map(|p| &p.name[..]).collect()
}

fn why(object: &Object, program: &str) -> String {
    let rejected = object.rejected.iter().find(|r| r.name == program);
    rejected
        .unwrap_or_else(|| panic!("{program} was not rejected"))
        .error
        .to_string()
}

#[test]
fn a_map_of_an_unsupported_kind_rejects_only_who_names_it() {
    let Some(o) = load(
        r#"
        struct { __uint(type, BPF_MAP_TYPE_SOCKMAP); __uint(max_entries, 8);
                 __type(key, int); __type(value, int); } ports SEC(".maps");
        struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 8);
                 __uint(key_size, 4); __uint(value_size, 16);
                 __uint(pinning, LIBBPF_PIN_BY_NAME); __uint(map_flags, BPF_F_MMAPABLE);
               } table SEC(".maps");
        SEC("xdp") int redirects(struct xdp_md *c) { return bpf_redirect_map(&ports, 0, 0); }
        SEC("xdp") int looks_up(struct xdp_md *c)
        { int k = 0; return bpf_map_lookup_elem(&table, &k) ? XDP_PASS : XDP_DROP; }
        "#,
    ) else {
        return;
    };
    assert_eq!(names(&o), ["looks_up"]);
    let e = why(&o, "redirects");
    assert_eq!(
        e,
        "map ports is of kind sockmap (15), which is not supported yet"
    );
    let e = o.program(Some("redirects")).unwrap_err().to_string();
    assert!(e.contains("program redirects: map ports"), "{e}");
    assert_eq!(
        (&o.maps[0].name[..], o.maps[0].value_size, o.maps[0].flags),
        ("table", 16, 0x400)
    );
    assert_eq!(o.maps.len(), 1);
}

#[test]
fn kernel_functions_weak_and_strong() {
    let Some(o) = load(
        r#"
        extern int strong_one(int) __ksym;
        extern int weak_one(int) __ksym __attribute__((weak));
        SEC("xdp") int with_strong(struct xdp_md *c) { return strong_one(1); }
        SEC("xdp") int with_weak(struct xdp_md *c) { return weak_one ? weak_one(1) : XDP_PASS; }
        "#,
    ) else {
        return;
    };
    assert_eq!(names(&o), ["with_weak"]);
    assert!(
        why(&o, "with_strong").contains("strong_one is not defined"),
        "{}",
        why(&o, "with_strong")
    );
    let program = &o.programs[0];
    let call = program.insns.iter().find(|i| i.code == 0x85).unwrap();
    assert_eq!(
        (call.src, &program.kfuncs[call.imm as usize][..]),
        (call::KFUNC, "weak_one")
    );
    let address = program.insns.iter().find(|i| i.is_ld_imm64()).unwrap();
    assert_eq!((address.src, address.imm), (imm64::VALUE, 0));
    // Its address is zero, so the call is dead and the program runs.
    assert_eq!(
        Bench::new(&o, Some("with_weak")).run(&[0; 60]).0,
        common::PASS
    );
}

#[test]
fn core_relocations_are_fitted_to_the_types_that_there_are() {
    let Some(o) = load(
        r#"
        #define CORE __attribute__((preserve_access_index))
        struct xdp_md___some { __u32 rx_queue_index; __u32 data_end; __u32 nothing; __u32 data; } CORE;
        struct iphdr { __u8 ihl:4, version:4; __u8 tos; __u16 tot_len, id, frag_off;
                       __u8 ttl, protocol; __u16 check; __u32 saddr, daddr; } CORE;
        struct sk_buff { int len; } CORE;
        enum bpf_cmd_like { SOME = 5 };
        static __noinline int len_of(struct sk_buff *skb) { return skb->len; }
        SEC("xdp") int fields(struct xdp_md *c)
        {
            struct xdp_md___some *some = (void *)c;
            struct iphdr *ip = (void *)(long)some->data + 14;
            if ((void *)(ip + 1) > (void *)(long)some->data_end)
                return XDP_DROP;
            return ip->version * 256 + ip->protocol;
        }
        SEC("xdp") int asks(struct xdp_md *c)
        {
            struct xdp_md___some *some = (void *)c;
            return __builtin_preserve_field_info(some->nothing, 2)
                | __builtin_preserve_field_info(some->data, 2) << 1
                | __builtin_preserve_field_info(some->data_end, 0) << 2
                | __builtin_preserve_type_info(*(struct sk_buff *)0, 0) << 8
                | __builtin_preserve_type_info(*(struct xdp_md___some *)0, 0) << 9
                | __builtin_preserve_type_info(*(struct xdp_md___some *)0, 1) << 10;
        }
        SEC("xdp") int guarded(struct xdp_md *c)
        {
            struct sk_buff *skb = (void *)(long)c->data;
            if (__builtin_preserve_type_info(*(struct sk_buff *)0, 0))
                return len_of(skb);
            return XDP_PASS;
        }
        SEC("xdp") int relocated(struct xdp_md *c)
        { struct sk_buff *s = (void *)(long)c->data; return len_of(s); }
        "#,
    ) else {
        return;
    };
    let names_of = names(&o);
    assert_eq!(names_of, ["fields", "asks", "guarded", "relocated"]);
    let mut packet = vec![0; 60];
    packet[14] = 0x45;
    packet[14 + 9] = 17;
    assert_eq!(
        Bench::new(&o, Some("fields")).run(&packet).0,
        4 * 256 + 17,
        "by the names of the fields, not their places"
    );
    let expected = 1 << 1 | 4 << 2 | 1 << 9 | 24 << 10;
    assert_eq!(Bench::new(&o, Some("asks")).run(&packet).0, expected);
    assert_eq!(Bench::new(&o, Some("guarded")).run(&packet).0, common::PASS);
    let program = o.program(Some("relocated")).unwrap();
    let e = verify(program, &o.maps, &Config::default()).unwrap_err();
    assert!(
        e.to_string().contains("field_byte_offset of sk_buff (0:0)"),
        "{e}"
    );
}

#[test]
fn maps_and_programs_are_put_where_the_object_says() {
    let Some(o) = load(
        r#"
        struct inner { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 2);
                       __type(key, int); __type(value, long); };
        struct inner one SEC(".maps"), two SEC(".maps");
        struct { __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); __uint(max_entries, 4);
                 __type(key, int); __uint(pinning, LIBBPF_PIN_BY_NAME);
                 __array(values, struct inner);
               } outer SEC(".maps") = { .values = { [1] = &one, [3] = &two } };
        SEC("xdp") int last(struct xdp_md *c) { return 77; }
        int entry(struct xdp_md *c);
        struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 3);
                 __type(key, int); __array(values, int (void *));
               } jumps SEC(".maps") = { .values = { [2] = (void *)&last } };
        struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 5000); } ring SEC(".maps");
        SEC("xdp") int entry(struct xdp_md *c)
        {
            int key = c->rx_queue_index + 1;
            void *map = bpf_map_lookup_elem(&outer, &key);
            if (!map)
                return -1;
            key = 0;
            long *value = bpf_map_lookup_elem(map, &key);
            if (value)
                *value += 5;
            bpf_tail_call(c, &jumps, 2);
            bpf_ringbuf_output(&ring, &key, 4, 0);
            return 66;
        }
        "#,
    ) else {
        return;
    };
    let spec = |name: &str| o.maps.iter().find(|m| m.name == name).unwrap();
    let index = |name: &str| o.maps.iter().position(|m| m.name == name).unwrap();
    let outer = spec("outer");
    assert_eq!((outer.kind, outer.value_size), (MapKind::ArrayOfMaps, 4));
    assert!(outer.pinned && !spec("jumps").pinned);
    assert_eq!(
        outer.slots,
        [(1, Slot::Map(index("one"))), (3, Slot::Map(index("two")))]
    );
    let inner = outer.inner.as_deref().unwrap();
    assert_eq!((inner.kind, inner.max_entries), (MapKind::Array, 2));
    assert_eq!(spec("jumps").slots, [(2, Slot::Program("last".into()))]);
    assert_eq!(spec("ring").max_entries, 8192);

    let maps = Maps::create(&o.maps, 2).unwrap();
    let mut entry = Bench::with_maps(&o, Some("entry"), &maps);
    assert_eq!(entry.run(&[0; 60]).0, 66, "nothing to go to yet");
    let (verified, _) = verify(
        o.program(Some("last")).unwrap(),
        &o.maps,
        &Config::default(),
    )
    .unwrap();
    let last = Executable::new(&verified, &maps).unwrap();
    assert_eq!(maps.link([&last]).unwrap(), 1);
    drop(last);
    assert_eq!(entry.run(&[0; 60]).0, 77);
    let value = |name: &str| maps.get(name).unwrap().lookup(&[0; 4]).unwrap().unwrap();
    assert_eq!(value("one"), 10u64.to_le_bytes());
    assert_eq!(value("two"), 0u64.to_le_bytes());
    let mut records = 0;
    maps.get("ring")
        .unwrap()
        .drain(0, |_| records += 1)
        .unwrap();
    assert_eq!(records, 1);
}

#[test]
fn kernel_configuration_has_defaults_and_can_be_set() {
    let Some(mut o) = load(
        r#"
        extern int LINUX_KERNEL_VERSION __kconfig;
        extern unsigned long CONFIG_HZ __kconfig __weak;
        extern _Bool CONFIG_XDP_SOCKETS __kconfig;
        SEC("xdp") int asks(struct xdp_md *c)
        {
            if (LINUX_KERNEL_VERSION < KERNEL_VERSION(5, 18, 0))
                return 1;
            return CONFIG_XDP_SOCKETS ? CONFIG_HZ : 7;
        }
        "#
        .replace("KERNEL_VERSION(5, 18, 0)", "((5 << 16) + (18 << 8))")
        .as_str(),
    ) else {
        return;
    };
    assert_eq!(Bench::new(&o, None).run(&[0; 60]).0, 7);
    o.set_variable_text("CONFIG_HZ", "250").unwrap();
    o.set_variable_text("CONFIG_XDP_SOCKETS", "1").unwrap();
    assert_eq!(Bench::new(&o, None).run(&[0; 60]).0, 250);
}

#[test]
fn functions_are_found_across_sections_and_only_those_called() {
    let Some(o) = load(
        r#"
        static __noinline int leaf(int n) { return bpf_get_smp_processor_id() + n; }
        __noinline int unused(int n) { return leaf(n) * 3; }
        __noinline int middle(int n) { return leaf(n) + leaf(n + 1); }
        SEC("?xdp.frags/first") int first(struct xdp_md *c) { return middle(10) + leaf(1); }
        SEC("tc") int second(struct __sk_buff *c) { return leaf(2); }
        SEC("prog") int third(struct xdp_md *c) { return 3; }
        "#,
    ) else {
        return;
    };
    assert_eq!(names(&o), ["first", "second", "third"]);
    assert_eq!(o.programs[0].section, "?xdp.frags/first");
    let functions = |i: usize| -> Vec<_> {
        o.programs[i]
            .functions
            .iter()
            .map(|f| (&f.name[..], f.global))
            .collect()
    };
    assert_eq!(
        functions(0),
        [("first", true), ("middle", true), ("leaf", false)]
    );
    assert_eq!(functions(1), [("second", true), ("leaf", false)]);
    assert_eq!(functions(2), [("third", true)]);
    // The worker's slot is 1: middle = (1 + 10) + (1 + 11), leaf = 1 + 1.
    assert_eq!(Bench::new(&o, Some("first")).run(&[0; 60]).0, 23 + 2);
}

#[test]
fn addresses_of_functions_are_numbers_of_instructions() {
    let Some(o) = load(
        r#"
        static int each(__u32 index, void *context) { return 0; }
        SEC("xdp") int loops(struct xdp_md *c) { bpf_loop(10, each, 0, 0); return XDP_PASS; }
        "#,
    ) else {
        return;
    };
    let program = &o.programs[0];
    let load = program.insns.iter().find(|i| i.is_ld_imm64()).unwrap();
    assert_eq!(load.src, imm64::FUNC);
    assert_eq!(program.functions[1].name, "each");
    assert_eq!(load.imm as usize, program.functions[1].start);
}

#[test]
fn static_data_is_reached_by_section_and_offset() {
    let Some(mut o) = load(
        r#"
        static volatile const __u32 table[4] = {3, 5, 7, 11};
        static volatile __u32 counters[3] = {100, 200, 300};
        static volatile __u64 zeroed[2];
        volatile const char text[6] = "hello";
        volatile __u32 own SEC(".data.special") = 9;
        SEC("xdp") int sums(struct xdp_md *c)
        {
            counters[1]++;
            zeroed[1] += 2;
            return table[2] * 1000 + counters[1] + zeroed[1] + text[1] + own;
        }
        "#,
    ) else {
        return;
    };
    let expected = |own: u32| 7 * 1000 + 201 + 2 + u32::from(b'e') + own;
    assert_eq!(Bench::new(&o, None).run(&[0; 60]).0, expected(9));
    o.set_variable_text("own", "10").unwrap();
    assert_eq!(Bench::new(&o, None).run(&[0; 60]).0, expected(10));
    o.set_variable("text", b"world\0").unwrap();
    assert_eq!(
        Bench::new(&o, None).run(&[0; 60]).0,
        expected(10) + u32::from(b'o' - b'e')
    );
}

#[test]
fn older_definitions_of_maps_may_be_of_any_length() {
    let Some(o) = load(
        r#"
        struct five { __u32 w[5]; };
        struct ten { __u32 w[10]; };
        struct four { __u32 w[4]; };
        struct five SEC("maps") small = {{BPF_MAP_TYPE_ARRAY, 4, 8, 2, 0}};
        struct ten SEC("maps") large = {{BPF_MAP_TYPE_HASH, 6, 8, 3, BPF_F_NO_PREALLOC}};
        struct four SEC("maps") broken = {{BPF_MAP_TYPE_HASH, 6, 8, 3}};
        SEC("xdp") int uses_two(struct xdp_md *c)
        { __u64 k = 0; return bpf_map_lookup_elem(&small, &k) && bpf_map_lookup_elem(&large, &k); }
        SEC("xdp") int uses_broken(struct xdp_md *c)
        { __u64 k = 0; return bpf_map_lookup_elem(&broken, &k) != 0; }
        "#,
    ) else {
        return;
    };
    assert_eq!(names(&o), ["uses_two"]);
    assert_eq!(
        o.maps
            .iter()
            .map(|m| (&m.name[..], m.key_size, m.max_entries, m.flags))
            .collect::<Vec<_>>(),
        [("small", 4, 2, 0), ("large", 6, 3, 1)]
    );
    assert!(
        why(&o, "uses_broken").contains("has 16 bytes, at least 20"),
        "{}",
        why(&o, "uses_broken")
    );
}

#[test]
fn copies_of_a_large_function_are_limited() {
    let mut source = r#"
        __noinline int large(int n)
        { asm volatile(".rept 3000\n%0 += 1\n.endr" : "+r"(n)); return n; }
        "#
    .to_owned();
    for i in 0..64 {
        source += &format!("SEC(\"xdp\") int p{i}(struct xdp_md *c) {{ return large({i}); }}\n");
    }
    let Some(o) = load(&source) else {
        return;
    };
    assert_eq!(o.programs.len() + o.rejected.len(), 64);
    assert!(!o.programs.is_empty());
    assert!(why(&o, "p63").contains("over"), "{}", why(&o, "p63"));
}

#[test]
fn files_of_the_wrong_kind() {
    let program = "SEC(\"xdp\") int p(struct xdp_md *c) { return XDP_PASS; }";
    let Some(big) = compile(program, &["-target", "bpfeb"]) else {
        return;
    };
    assert_eq!(Object::parse(&big).unwrap_err(), LoadError::BigEndian);
    let data_only = compile("int x = 3;", &[]).unwrap();
    assert_eq!(Object::parse(&data_only).unwrap_err(), LoadError::NoProgram);
    let map = r#"struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 8);
        __type(key, int); __type(value, int); } m SEC(".maps");"#;
    let without_types = compile(&format!("{map}{program}"), &["-g0"]).unwrap();
    let e = Object::parse(&without_types).unwrap_err().to_string();
    assert!(
        e.contains(".maps") && e.ends_with("build with `clang -g`"),
        "{e}"
    );
    // Without a section, a function is a program all the same.
    let plain = compile("int entry(struct xdp_md *c) { return 2; }", &[]).unwrap();
    let plain = Object::parse(&plain).unwrap();
    assert_eq!(
        (names(&plain), &plain.programs[0].section[..]),
        (vec!["entry"], ".text")
    );
}
