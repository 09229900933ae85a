//! Programs of the kinds that strangers bring, written for this test, and programs that a generator
//! writes: what two compilers make of them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use crate::compiler;

/// Compilers as Debian names them, and the newest instruction set of each.
const COMPILERS: [(&str, &str); 2] = [("clang", "v3"), ("clang-19", "v4")];
const SOURCES: [&str; 3] = ["checksums", "headers", "balancer"];

/// Objects of all sources, put into `folder`; how many of them there would be with every compiler.
pub(crate) fn objects(folder: &Path) -> (Vec<PathBuf>, usize) {
    let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agreement/c");
    let mut sources: Vec<PathBuf> = SOURCES
        .iter()
        .map(|name| written.join(name).with_extension("c"))
        .collect();
    fs::copy(written.join("common.h"), folder.join("common.h")).unwrap();
    for (name, text) in [
        ("rules", rules(2_600)),
        ("calls", calls(30, 25)),
        ("straight", straight(12, 40)),
    ] {
        let source = folder.join(name).with_extension("c");
        fs::write(&source, text).unwrap();
        sources.push(source);
    }
    let mut objects = vec![];
    for source in &sources {
        for (compiler, version) in COMPILERS {
            let name = source.file_stem().unwrap().to_string_lossy();
            match compiler::compile(compiler, version, source) {
                Ok(bytes) => {
                    let object = folder.join(format!("{name}-{compiler}.o"));
                    fs::write(&object, bytes).unwrap();
                    objects.push(object);
                }
                Err(reason) => eprintln!("{name}: not compiled with {compiler}: {reason}"),
            }
        }
    }
    (objects, sources.len() * COMPILERS.len())
}

/// A filter that is a list of rules on bytes of the packet, tried one after the other: about eight
/// instructions each.
fn rules(count: usize) -> String {
    let mut rng = Rng::with_seed(1);
    let mut c = String::from(
        "#include \"common.h\"\n\
         SEC(\"xdp\") int rules(struct xdp_md *ctx)\n\
         {\n\
         \tstruct packet p = packet_of(ctx);\n\
         \tvolatile __u8 *data = p.data;\n\
         \t__u32 score = 0;\n\
         \tif (p.data + 64 > p.end)\n\
         \t\treturn XDP_PASS;\n",
    );
    for _ in 0..count {
        let (at, other) = (rng.u8(0..64), rng.u8(0..64));
        let (byte, mask) = (rng.u8(..), rng.u8(1..=255));
        let _ = writeln!(
            c,
            "\tif ((data[{at}] & {mask}) == {} && data[{other}] > {byte})\n\t\tscore += {};",
            byte & mask,
            rng.u16(..)
        );
    }
    c + "\treturn score & 3;\n}\n"
}

/// A program of many functions that share an object on the stack of their caller.
fn calls(functions: usize, statements: usize) -> String {
    program("calls", "__noinline", functions, statements)
}

/// The same in one piece.
fn straight(functions: usize, statements: usize) -> String {
    program("straight", "__always_inline", functions, statements)
}

fn program(name: &str, inline: &str, functions: usize, statements: usize) -> String {
    let mut rng = Rng::with_seed(2);
    let mut c = String::from(
        "#include \"common.h\"\n\
         struct work { __u64 a, b, c, d; };\n\
         struct {\n\
         \t__uint(type, BPF_MAP_TYPE_ARRAY);\n\
         \t__uint(max_entries, 1024);\n\
         \t__type(key, __u32);\n\
         \t__type(value, struct work);\n\
         } table SEC(\".maps\");\n\
         struct {\n\
         \t__uint(type, BPF_MAP_TYPE_PERCPU_HASH);\n\
         \t__uint(max_entries, 20000);\n\
         \t__type(key, __u32);\n\
         \t__type(value, struct work);\n\
         } kept SEC(\".maps\");\n",
    );
    for n in 0..functions {
        let _ = write!(
            c,
            "static {inline} int rule{n}(void *data, void *end, struct work *w)\n\
             {{\n\
             \tstruct iphdr *ip = data + sizeof(struct ethhdr);\n\
             \tstruct work *entry;\n\
             \t__u32 key;\n\
             \tif ((void *)(ip + 1) > end)\n\
             \t\treturn {};\n\
             \tkey = (ip->saddr ^ {}u) % 1024;\n\
             \tentry = bpf_map_lookup_elem(&table, &key);\n\
             \tif (!entry)\n\
             \t\treturn 0;\n",
            rng.u8(0..4),
            rng.u32(..)
        );
        for _ in 0..statements {
            statement(&mut c, &mut rng);
        }
        c += "\tentry->a += w->a;\n\treturn (w->a ^ w->d) & 3;\n}\n";
    }
    let _ = write!(
        c,
        "SEC(\"xdp\") int {name}(struct xdp_md *ctx)\n\
         {{\n\
         \tstruct packet p = packet_of(ctx);\n\
         \tstruct work w = {{ 1, 2, 3, 4 }}, *known;\n\
         \tint verdict = XDP_PASS, answer;\n\
         \t__u32 key;\n"
    );
    for n in 0..functions {
        let _ = writeln!(
            c,
            "\tanswer = rule{n}(p.data, p.end, &w);\n\
             \tif (answer == {})\n\
             \t\tverdict = answer;",
            rng.u8(0..4)
        );
        if n % 5 == 3 {
            c += "\tkey = w.b % 5000;\n\
                 \tknown = bpf_map_lookup_elem(&kept, &key);\n\
                 \tif (known)\n\
                 \t\tknown->d += w.c;\n\
                 \telse\n\
                 \t\tbpf_map_update_elem(&kept, &key, &w, BPF_ANY);\n";
        }
    }
    c + "\treturn verdict;\n}\n"
}

fn statement(c: &mut String, rng: &mut Rng) {
    let (byte, small) = (rng.u8(..), rng.u8(2..99));
    let _ = match rng.u8(0..7) {
        0 => writeln!(
            c,
            "\tif (ip->protocol == {} && (ip->daddr & {byte}) == {}) {{\n\
             \t\tw->a += {small};\n\
             \t\tentry->b ^= w->a;\n\
             \t}}",
            [1, 6, 17, 58][rng.usize(0..4)],
            rng.u8(0..4)
        ),
        1 => writeln!(
            c,
            "\tif (ip->ttl > {byte})\n\t\tw->b += ip->id * {small};\n\
             \telse\n\t\tw->c -= ip->tot_len;"
        ),
        2 => writeln!(
            c,
            "\tw->d = w->d << {} | w->a >> {};",
            rng.u8(1..31),
            rng.u8(1..31)
        ),
        3 => writeln!(
            c,
            "\tif (w->a % {small} == w->b % {})\n\t\tentry->c++;",
            rng.u8(2..99)
        ),
        4 => writeln!(
            c,
            "\tw->c ^= w->b * {}u + (__u32)w->d / {small};",
            rng.u32(..)
        ),
        5 => writeln!(
            c,
            "\tw->a += *(__u8 *)(data + {at});\n\
             \tif (*(__u8 *)(data + {at}) > {byte})\n\t\tw->b = ~w->b;",
            at = rng.u8(14..34)
        ),
        _ => writeln!(
            c,
            "\tswitch (ip->tos & 7) {{\n\
             \tcase 0: w->a++; break;\n\
             \tcase 1: w->b--; break;\n\
             \tcase 2: w->c += w->a; break;\n\
             \tcase 5: w->d ^= {}; break;\n\
             \t}}",
            rng.u32(..)
        ),
    };
}
