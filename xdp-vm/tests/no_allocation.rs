//! While a program runs, nothing is allocated and the system is not called: not by the engine, nor by
//! the data paths of any kind of map, printing, or moving the packet's ends. What a program asks for
//! itself is apart: an entry more in a map that is not preallocated, waking a reader.
#![allow(unsafe_code)] // the counting allocator, and what is done in a child of this process

#[allow(dead_code)] // each test file uses its part
#[path = "verifier/asm.rs"]
mod asm;
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Cpu, Engine, Executable, MapKind, MapSpec, Maps, Options, Update, XdpBuff};

/// Counts this thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ENGINES: [Engine; 2] = [Engine::Interpreter, Engine::Auto];

fn options(engine: Engine) -> Options {
    Options {
        engine,
        ..Options::default()
    }
}

#[test]
fn running_takes_no_memory() {
    let objects = [
        "drop",
        "proto_count",
        "firewall",
        "vlan_pop",
        "trim",
        "sampler",
        "legacy",
        "mixed",
    ];
    for name in objects {
        let object = common::load(name);
        let maps = Maps::create(&object.maps, 1).unwrap();
        for program in &object.programs {
            let (verified, _) = verify(program, &object.maps, &Config::default()).unwrap();
            for engine in ENGINES {
                let executable =
                    Executable::with_options(&verified, &maps, &options(engine)).unwrap();
                let (mut cpu, mut buffer) = (Cpu::new(0), vec![0x81; 4096]);
                let before = ALLOCATIONS.get();
                for len in 14..1000 {
                    let mut buff = XdpBuff::new(&mut buffer, 256, len).unwrap();
                    executable.run(&mut cpu, &mut buff);
                }
                let name = &program.name;
                assert_eq!(ALLOCATIONS.get(), before, "{name}, {engine:?}");
            }
        }
        // The count does count.
        let before = ALLOCATIONS.get();
        drop(std::hint::black_box(vec![0u8; 100]));
        assert!(ALLOCATIONS.get() > before);
    }
}

const ENTRIES: u32 = 4;

fn map(kind: MapKind, key_size: u32, value_size: u32) -> MapSpec {
    MapSpec {
        name: "m".into(),
        kind,
        key_size,
        value_size,
        max_entries: ENTRIES,
        flags: u32::from(kind == MapKind::LpmTrie),
        ..MapSpec::default()
    }
}

fn of_maps(kind: MapKind) -> MapSpec {
    MapSpec {
        inner: Some(Box::new(map(MapKind::Array, 4, 8))),
        ..map(kind, 4, 4)
    }
}

/// What a program does with a map, `map 0`. It finds a random key in r10 - 8 and r2, a value in
/// r10 - 16 and r3, the map in r1 and the context in r6 and r8. What it must not see goes into r7.
struct Case {
    map: MapSpec,
    text: &'static str,
}

/// A value written, found, counted up, and found again.
const ARRAY: &str = "
    r4 = 0\n call 2\n r7 = r0
    r1 = map 0\n r2 = r10\n r2 += -8\n call 1
    if r0 == 0 goto lost
    r1 = *(u64 *)(r0 + 0)\n r1 += 1\n *(u64 *)(r0 + 0) = r1
    goto done
    lost:\n r7 = 1
    done:";

/// As an array, and deleted one time in two.
const HASH: &str = "
    r4 = 0\n call 2\n r7 = r0
    r1 = map 0\n r2 = r10\n r2 += -8\n call 1
    if r0 == 0 goto lost
    r1 = *(u64 *)(r0 + 0)\n r1 += 1\n *(u64 *)(r0 + 0) = r1
    call 7
    if w0 s> 0 goto done
    r1 = map 0\n r2 = r10\n r2 += -8\n call 3
    r7 |= r0
    goto done
    lost:\n r7 = 1
    done:";

/// Put in, looked at, and taken out.
const QUEUE: &str = "
    r2 = r3\n r3 = 2\n call 87\n r7 = r0
    r1 = map 0\n r2 = r10\n r2 += -16\n call 89\n r7 |= r0
    r1 = map 0\n r2 = r10\n r2 += -16\n call 88\n r7 |= r0";

const BLOOM: &str = "
    r2 = r3\n r3 = 0\n call 87\n r7 = r0
    r1 = map 0\n r2 = r10\n r2 += -16\n call 89\n r7 |= r0";

/// Written without waking anybody, or refused where it is full; and a record reserved and handed over.
const RING: &str = "
    r2 = r3\n r3 = 8\n r4 = 1\n call 130
    r1 = map 0\n r2 = 0\n call 134
    r1 = map 0\n r2 = 8\n r3 = 0\n call 131
    if r0 == 0 goto full
    r1 = 5\n *(u64 *)(r0 + 0) = r1
    r1 = r0\n r2 = 1\n call 132
    full:";

const EVENTS: &str = "
    r1 = r6\n r2 = map 0\n r4 = r3\n r3 = 0\n r5 = 8\n call 25";

const REDIRECT: &str = "r2 = 0\n r3 = 8\n call 51";

const TAIL_CALL: &str = "r1 = r6\n r2 = map 0\n r3 = 0\n call 12";

/// A map found, and a value in it.
const INNER: &str = "
    call 1
    if r0 == 0 goto lost
    r1 = r0\n r2 = r10\n r2 += -8\n call 1
    if r0 == 0 goto lost
    r1 = *(u64 *)(r0 + 0)\n r1 += 1\n *(u64 *)(r0 + 0) = r1
    goto done
    lost:\n r7 = 1
    done:";

fn cases() -> Vec<Case> {
    use MapKind::*;
    let case = |map, text| Case { map, text };
    vec![
        case(map(Array, 4, 8), ARRAY),
        case(map(PercpuArray, 4, 8), ARRAY),
        case(map(Hash, 4, 8), HASH),
        case(map(PercpuHash, 4, 8), HASH),
        case(map(LruHash, 4, 8), HASH),
        case(map(LruPercpuHash, 4, 8), HASH),
        case(map(LpmTrie, 8, 8), HASH),
        case(map(Queue, 0, 8), QUEUE),
        case(map(Stack, 0, 8), QUEUE),
        case(map(BloomFilter, 0, 8), BLOOM),
        case(
            MapSpec {
                max_entries: 4096,
                ..map(Ringbuf, 0, 0)
            },
            RING,
        ),
        case(map(PerfEventArray, 4, 4), EVENTS),
        case(map(Devmap, 4, 4), REDIRECT),
        case(map(DevmapHash, 4, 4), REDIRECT),
        case(map(Cpumap, 4, 4), REDIRECT),
        case(map(Xskmap, 4, 4), REDIRECT),
        case(map(ProgArray, 4, 4), TAIL_CALL),
        case(of_maps(ArrayOfMaps), INNER),
        case(of_maps(HashOfMaps), INNER),
    ]
}

/// A program of a case, ready to run again and again.
struct Prepared {
    kind: MapKind,
    program: Executable,
    cpu: Cpu,
    buffer: Vec<u8>,
}

impl Prepared {
    fn new(case: &Case, engine: Engine) -> Self {
        let kind = case.map.kind;
        // A key of a trie is a length and an address.
        let key = match kind {
            MapKind::LpmTrie => "*(u32 *)(r10 - 8) = 32\n *(u32 *)(r10 - 4) = r0",
            _ => "*(u32 *)(r10 - 8) = r0\n *(u32 *)(r10 - 4) = 0",
        };
        let text = format!(
            "r6 = r1\n r7 = 0\n call 7\n r0 &= {mask}\n {key}
             *(u64 *)(r10 - 16) = r0
             r1 = map 0\n r2 = r10\n r2 += -8\n r3 = r10\n r3 += -16
             {}
             r0 = r7\n exit",
            case.text,
            mask = ENTRIES - 1,
        );
        let specs = [case.map.clone()];
        let (verified, _) = verify(&asm::program(&text), &specs, &Config::default())
            .unwrap_or_else(|e| panic!("{kind:?}: {e}"));
        let maps = Maps::create(&specs, 1).unwrap();
        let program = Executable::with_options(&verified, &maps, &options(engine)).unwrap();
        let map = maps.at(0).unwrap();
        match kind {
            MapKind::PerfEventArray => map.open_events(0, 4096).unwrap(),
            MapKind::ProgArray => maps.set_program("m", 0, &program).unwrap(),
            _ if kind.is_of_maps() => {
                let inner = Maps::create(&[*case.map.inner.clone().unwrap()], 1).unwrap();
                let inner = inner.shared("m").unwrap();
                for key in 0..ENTRIES {
                    map.set_inner(&key.to_le_bytes(), &inner, Update::Any)
                        .unwrap();
                }
            }
            _ if kind.is_targets() => {
                map.update(&[0; 4], &[1, 0, 0, 0], Update::Any).unwrap();
            }
            _ => {}
        }
        Prepared {
            kind,
            program,
            cpu: Cpu::new(0),
            buffer: vec![0; 4096],
        }
    }

    /// Runs it, and gives what the last run returned that was not as it must be.
    fn run(&mut self) -> u32 {
        let mut wrong = 0;
        for _ in 0..1000 {
            let mut buff = XdpBuff::new(&mut self.buffer, 256, 64).unwrap();
            wrong |= self.program.run(&mut self.cpu, &mut buff);
        }
        wrong
    }
}

fn prepared() -> Vec<(Engine, Prepared)> {
    let cases = cases();
    let all = ENGINES.into_iter().flat_map(|engine| {
        cases
            .iter()
            .map(move |c| (engine, Prepared::new(c, engine)))
    });
    all.collect()
}

#[test]
fn there_is_a_case_for_each_kind_of_map() {
    let cases = cases();
    for kind in MapKind::ALL {
        assert!(cases.iter().any(|c| c.map.kind == kind), "{kind:?}");
    }
}

#[test]
fn no_kind_of_map_takes_memory() {
    for (engine, mut program) in prepared() {
        let before = ALLOCATIONS.get();
        let wrong = program.run();
        assert_eq!(ALLOCATIONS.get(), before, "{:?}, {engine:?}", program.kind);
        assert_eq!(wrong, 0, "{:?}, {engine:?}", program.kind);
    }
}

#[test]
fn no_kind_of_map_calls_the_system() {
    let calls = |run: &mut dyn FnMut()| match calls_the_system(run) {
        Ok(calls) => Some(calls),
        Err(e) => {
            eprintln!("skipped: calls of the system cannot be forbidden: {e}");
            None
        }
    };
    // One that does.
    let caught = calls(&mut || {
        // SAFETY: has no arguments and no effect.
        unsafe { libc::syscall(libc::SYS_getppid) };
    });
    let Some(caught) = caught else {
        return;
    };
    assert!(caught, "a call is not noticed");
    for (engine, mut program) in prepared() {
        let called = calls(&mut || {
            program.run();
        });
        assert_eq!(called, Some(false), "{:?}, {engine:?}", program.kind);
    }
}

/// True where `run` calls the system: in a child of this process, which the kernel ends for it. Errors
/// where that cannot be had.
fn calls_the_system(run: &mut dyn FnMut()) -> io::Result<bool> {
    const FORBIDDEN: i32 = 77;
    // SAFETY: the child does nothing but run what allocates nothing, and ends.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            if !forbid_calls() {
                // SAFETY: ends the child.
                unsafe { libc::_exit(FORBIDDEN) };
            }
            run();
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        _ => {}
    }
    let mut status = 0;
    // SAFETY: waits for our child, and writes the status that it is given.
    if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(io::Error::last_os_error());
    }
    match (libc::WIFSIGNALED(status), libc::WIFEXITED(status)) {
        (true, _) if libc::WTERMSIG(status) == libc::SIGSYS => Ok(true),
        (_, true) if libc::WEXITSTATUS(status) == 0 => Ok(false),
        (_, true) if libc::WEXITSTATUS(status) == FORBIDDEN => Err(io::Error::other(
            "the kernel takes no filter of system calls",
        )),
        _ => Err(io::Error::other(format!(
            "the child ended with {status:#x}"
        ))),
    }
}

/// From here on every call of the system but the one that ends the process ends it otherwise.
fn forbid_calls() -> bool {
    const NUMBER: u32 = 0; // of the call, in what the filter is given
    let line = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut filter = [
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER),
        line(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_exit_group as u32,
        ),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        line(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_KILL_PROCESS,
        ),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the filter lives over the call, and has as many lines as said.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    }
}
