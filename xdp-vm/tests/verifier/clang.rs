//! What clang makes of C, for each version of the instruction set that it knows. Where there is no
//! clang for BPF, or no libbpf headers, the test says so and goes without.

use std::path::Path;

use xdp_vm::Object;
use xdp_vm::verifier::{Cause, Config, verify};

use crate::{checked, compiler, kernel};

/// Compilers to try, as Debian names them.
const COMPILERS: [&str; 2] = ["clang", "clang-19"];
const VERSIONS: [&str; 4] = ["v1", "v2", "v3", "v4"];

/// Every object that the compilers here make of a source, with how it was made.
fn objects(source: &str) -> Vec<(String, Object)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/verifier/c")
        .join(source);
    let mut out = vec![];
    for compiler in COMPILERS {
        for version in VERSIONS {
            let how = format!("{compiler} -mcpu={version}");
            match compiler::compile(compiler, version, &source) {
                Ok(bytes) => match Object::parse(&bytes) {
                    Ok(object) => out.push((how, object)),
                    Err(e) => panic!("{how}: {e}"),
                },
                Err(reason) => eprintln!("not compiled with {how}: {reason}"),
            }
        }
    }
    out
}

#[test]
fn programs_in_c_are_accepted() {
    let mut rng = fastrand::Rng::with_seed(10);
    for (how, object) in objects("accepted.c") {
        assert_eq!(object.programs.len(), 9, "{how}: {:?}", object.rejected);
        let locks = object.maps.iter().filter_map(|m| m.spin_lock);
        assert_eq!(locks.collect::<Vec<_>>(), [8], "{how}");
        for program in &object.programs {
            let (_, statistics) = verify(program, &object.maps, &Config::default())
                .unwrap_or_else(|e| panic!("{how}, {}:\n{e}", program.name));
            for _ in 0..100 {
                let run = checked::run(program, &object.maps, &mut rng, statistics.processed);
                if let Err(fault) = run {
                    panic!("{how}, {}, slot {}: {}", program.name, fault.at, fault.what);
                }
            }
            // Of this one the kernel follows a million instructions and gives up, for half a minute.
            let hopeless = program.name == "table_on_the_stack";
            if !hopeless
                && kernel::may_be_asked()
                && let kernel::Opinion::Accepted { processed } =
                    kernel::ask(program, &object.maps).expect("bpf(2)")
            {
                let ours = statistics.processed;
                println!(
                    "{how} {}: {ours} steps, the kernel {processed}",
                    program.name
                );
                assert!(ours < 4 * processed + 1000, "{how} {}", program.name);
            }
        }
    }
}

#[test]
fn faulty_programs_in_c_are_refused() {
    for (how, object) in objects("refused.c") {
        assert_eq!(object.programs.len(), 8, "{how}: {:?}", object.rejected);
        for program in &object.programs {
            let name = program.name.as_str();
            let Err(e) = verify(program, &object.maps, &Config::default()) else {
                panic!("{how}, {name} must be refused");
            };
            let right = matches!(
                (name, &e.cause),
                (
                    "no_check" | "checked_too_little",
                    Cause::PacketBounds { .. }
                ) | ("no_null_check", Cause::MaybeNull { .. })
                    | ("padding", Cause::StackRangeUninitialised { .. })
                    | ("index_too_large", Cause::MapValueBounds { .. })
                    | ("endless", Cause::InfiniteLoop | Cause::Budget { .. })
                    | ("stale", Cause::NotMemory { .. })
                    | ("address", Cause::PointerStored { .. })
            );
            assert!(right, "{how}, {name}:\n{e}");
            let line = e.line.as_ref().expect("compiled with -g");
            assert!(
                line.file.ends_with("refused.c") && line.line > 0,
                "{line:?}"
            );
        }
    }
}
