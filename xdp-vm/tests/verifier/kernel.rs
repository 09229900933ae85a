//! The running kernel's verifier, asked through `bpf(2)`: a second opinion on every verdict. Where it
//! may not be asked, the tests say so and go without.
#![allow(unsafe_code)] // bpf(2) takes pointers in a union; nothing else here needs it
#![allow(dead_code)] // each test file uses its part

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use xdp_vm::insn::{CLASS_JMP, call, imm64, jmp};
use xdp_vm::{Insn, MapSpec, Program, Slot};

const MAP_CREATE: libc::c_long = 0;
const PROG_LOAD: libc::c_long = 5;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const MAP_DELETE: libc::c_long = 3;
const MAP_NEXT_KEY: libc::c_long = 4;
const MAP_BY_ID: libc::c_long = 14;
const BTF_LOAD: libc::c_long = 18;
const MAP_TAKE: libc::c_long = 21;
const PROG_TEST_RUN: libc::c_long = 10;
const MAP_FREEZE: libc::c_long = 22;
const PROG_TYPE_XDP: u32 = 6;

/// What the kernel said.
pub(crate) enum Opinion {
    /// With the instructions that it followed.
    Accepted { processed: u64 },
    /// With the end of its log.
    Refused(String),
}

/// `union bpf_attr` as 64-bit words; each command uses a prefix of it.
type Attr = [u64; 20];

/// True where the kernel may be asked; the reason is printed once where not.
pub(crate) fn may_be_asked() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let pass = crate::asm::program("r0 = 2\n exit");
        match ask(&pass, &[]) {
            Ok(Opinion::Accepted { .. }) => true,
            Ok(Opinion::Refused(log)) => panic!("the kernel refuses the empty program: {log}"),
            Err(e) => {
                eprintln!("the kernel's verifier is not asked: bpf(2) gives {e}");
                false
            }
        }
    })
}

/// A program in the kernel, with the maps that it names.
pub(crate) struct Loaded {
    program: OwnedFd,
    maps: Rc<Vec<OwnedFd>>,
    /// Instructions that its verifier followed, and how long that took it by its own account.
    pub(crate) processed: u64,
    pub(crate) verification: Duration,
}

/// Loads `program` as XDP and throws it away again. Errors are of the asking, not of the program.
pub(crate) fn ask(program: &Program, maps: &[MapSpec]) -> io::Result<Opinion> {
    Ok(match load(program, maps)? {
        Ok(loaded) => Opinion::Accepted {
            processed: loaded.processed,
        },
        Err(log) => Opinion::Refused(log),
    })
}

/// Loads `program` as XDP. The inner error is the end of the log of a refusal.
pub(crate) fn load(program: &Program, maps: &[MapSpec]) -> io::Result<Result<Loaded, String>> {
    load_on(program, &create_maps(maps)?)
}

/// Makes maps, and puts those of them that an object puts into maps of maps there.
pub(crate) fn create_maps(specs: &[MapSpec]) -> io::Result<Rc<Vec<OwnedFd>>> {
    let fds = specs.iter().map(create).collect::<io::Result<Vec<_>>>()?;
    for (fd, spec) in fds.iter().zip(specs) {
        for (key, slot) in &spec.slots {
            if let Slot::Map(inner) = slot {
                let inner = fds[*inner].as_raw_fd() as u32;
                update(fd, &key.to_le_bytes(), &inner.to_le_bytes(), 0)?;
            }
        }
    }
    Ok(Rc::new(fds))
}

/// As [`load`], on maps that there are.
pub(crate) fn load_on(
    program: &Program,
    fds: &Rc<Vec<OwnedFd>>,
) -> io::Result<Result<Loaded, String>> {
    let mut insns = program.insns.clone();
    for insn in &mut insns {
        // As libbpf leaves calls of what it did not find: refused only where they are reached.
        match insn.src {
            call::KFUNC if insn.code == CLASS_JMP | jmp::CALL => insn.imm = 0,
            call::UNRESOLVED if insn.code == CLASS_JMP | jmp::CALL => {
                (insn.src, insn.imm) = (call::HELPER, 0xbad_2310);
            }
            _ => {}
        }
    }
    let mut at = 0;
    while at < insns.len() {
        if insns[at].is_ld_imm64() {
            if matches!(insns[at].src, imm64::MAP | imm64::MAP_VALUE)
                && let Some(fd) = fds.get(insns[at].imm as usize)
            {
                insns[at].imm = fd.as_raw_fd();
            }
            at += 1;
        }
        at += 1;
    }
    let bytes: Vec<u8> = insns.iter().flat_map(|i| i.to_bytes()).collect();
    // Its statistics first; the whole story, which takes it long, only of a refusal.
    let loaded = match load_bytes(&bytes, STATISTICS)? {
        Ok(loaded) => Ok(loaded),
        Err(_) => load_bytes(&bytes, STORY)?,
    };
    Ok(loaded.map(|(program, statistics)| {
        // `verification time N usec`, `processed N insns ...`.
        let number_after = |word| {
            let mut words = statistics.split_whitespace();
            words.find(|w| *w == word);
            words.next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        Loaded {
            program,
            maps: fds.clone(),
            processed: number_after("processed"),
            verification: Duration::from_micros(number_after("time")),
        }
    }))
}

/// Levels of its log.
const STORY: u64 = 1;
const STATISTICS: u64 = 4;

/// The program and what the log says of it, or the end of the log.
fn load_bytes(bytes: &[u8], level: u64) -> io::Result<Result<(OwnedFd, String), String>> {
    let license = c"GPL";
    let mut log = vec![0u8; 1 << 22];
    let mut attr: Attr = [0; 20];
    attr[0] = u64::from(PROG_TYPE_XDP) | ((bytes.len() / Insn::SIZE) as u64) << 32;
    attr[1] = bytes.as_ptr() as u64;
    attr[2] = license.as_ptr() as u64;
    attr[3] = level | (log.len() as u64) << 32;
    attr[4] = log.as_mut_ptr() as u64;
    let result = bpf(PROG_LOAD, &mut attr);
    let end = log.iter().position(|&b| b == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]);
    match result {
        Ok(program) => Ok(Ok((program, text.into_owned()))),
        Err(e) if e.raw_os_error() == Some(libc::EPERM) && text.is_empty() => Err(e),
        Err(e) => {
            let tail: Vec<&str> = text.lines().rev().take(4).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            Ok(Err(format!("{e}: {}", tail.join(" | "))))
        }
    }
}

impl Loaded {
    /// Runs the program on a packet: what it returned, and the packet after.
    pub(crate) fn run(&self, packet: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        // The longest packet of a test run, and what a program may add.
        let mut after = vec![0; 80 << 10];
        let mut attr: Attr = [0; 20];
        attr[0] = self.program.as_raw_fd() as u64;
        attr[1] = packet.len() as u64 | (after.len() as u64) << 32;
        attr[2] = packet.as_ptr() as u64;
        attr[3] = after.as_mut_ptr() as u64;
        attr[4] = 1;
        command(PROG_TEST_RUN, &mut attr)?;
        after.truncate((attr[1] >> 32) as usize);
        Ok(((attr[0] >> 32) as u32, after))
    }

    /// Runs the program that often on a packet: what it returned last, and nanoseconds a run by the
    /// kernel's account.
    pub(crate) fn repeat(&self, packet: &[u8], runs: u32) -> io::Result<(u32, u32)> {
        let mut attr: Attr = [0; 20];
        attr[0] = self.program.as_raw_fd() as u64;
        attr[1] = packet.len() as u64;
        attr[2] = packet.as_ptr() as u64;
        attr[4] = u64::from(runs);
        command(PROG_TEST_RUN, &mut attr)?;
        Ok(((attr[0] >> 32) as u32, (attr[4] >> 32) as u32))
    }

    /// What map number `map` holds under `key`, `size` bytes of it; `None` where there is no entry.
    pub(crate) fn lookup(
        &self,
        map: usize,
        key: &[u8],
        size: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        lookup(&self.maps[map], key, size)
    }

    /// The maps, in the order of their declarations.
    pub(crate) fn maps(&self) -> &[OwnedFd] {
        &self.maps
    }

    /// Puts this program itself into a program array.
    pub(crate) fn update_program(&self, map: usize, key: u32) -> io::Result<()> {
        let fd = self.program.as_raw_fd() as u32;
        self.update(map, &key.to_le_bytes(), &fd.to_le_bytes())
    }

    /// Puts a new map, with `value` under `inner_key`, into a map of maps.
    pub(crate) fn update_inner(
        &self,
        map: usize,
        key: u32,
        inner: &MapSpec,
        inner_key: &[u8],
        value: &[u8],
    ) -> io::Result<()> {
        let fd = create(inner)?;
        let number = fd.as_raw_fd() as u32;
        let mut attr: Attr = [0; 20];
        attr[0] = u64::from(number);
        attr[1] = inner_key.as_ptr() as u64;
        attr[2] = value.as_ptr() as u64;
        command(MAP_UPDATE, &mut attr)?;
        self.update(map, &key.to_le_bytes(), &number.to_le_bytes())
    }

    /// Deletes an entry of map number `map`.
    pub(crate) fn delete(&self, map: usize, key: &[u8]) -> io::Result<()> {
        let mut attr: Attr = [0; 20];
        attr[0] = self.maps[map].as_raw_fd() as u64;
        attr[1] = key.as_ptr() as u64;
        command(MAP_DELETE, &mut attr).map(|_| ())
    }

    /// Sets an entry of map number `map`, with the kernel's flags.
    pub(crate) fn update_flags(
        &self,
        map: usize,
        key: &[u8],
        value: &[u8],
        flags: u64,
    ) -> io::Result<()> {
        update(&self.maps[map], key, value, flags)
    }

    /// Sets an entry of map number `map`.
    pub(crate) fn update(&self, map: usize, key: &[u8], value: &[u8]) -> io::Result<()> {
        update(&self.maps[map], key, value, 0)
    }
}

/// What `map` holds under `key`, `size` bytes of it; `None` where there is no entry.
pub(crate) fn lookup(map: &OwnedFd, key: &[u8], size: usize) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; size];
    let mut attr: Attr = [0; 20];
    attr[0] = map.as_raw_fd() as u64;
    attr[1] = key.as_ptr() as u64;
    attr[2] = value.as_mut_ptr() as u64;
    Ok(found(command(MAP_LOOKUP, &mut attr))?.map(|_| value))
}

/// Takes a value out of a queue or a stack; `None` where it is empty.
pub(crate) fn take(map: &OwnedFd, size: usize) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; size];
    let mut attr: Attr = [0; 20];
    attr[0] = map.as_raw_fd() as u64;
    attr[2] = value.as_mut_ptr() as u64;
    Ok(found(command(MAP_TAKE, &mut attr))?.map(|_| value))
}

/// Sets an entry, with the kernel's flags.
pub(crate) fn update(map: &OwnedFd, key: &[u8], value: &[u8], flags: u64) -> io::Result<()> {
    let mut attr: Attr = [0; 20];
    attr[0] = map.as_raw_fd() as u64;
    attr[1] = key.as_ptr() as u64;
    attr[2] = value.as_ptr() as u64;
    attr[3] = flags;
    command(MAP_UPDATE, &mut attr).map(|_| ())
}

/// Every key of a map, `size` bytes each.
pub(crate) fn keys(map: &OwnedFd, size: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut keys: Vec<Vec<u8>> = vec![];
    loop {
        let mut next = vec![0; size];
        let mut attr: Attr = [0; 20];
        attr[0] = map.as_raw_fd() as u64;
        attr[1] = keys.last().map_or(0, |k| k.as_ptr() as u64);
        attr[2] = next.as_mut_ptr() as u64;
        if found(command(MAP_NEXT_KEY, &mut attr))?.is_none() {
            return Ok(keys);
        }
        keys.push(next);
    }
}

/// The map that the kernel numbers so: what looking up a map of maps gives.
pub(crate) fn map_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attr: Attr = [0; 20];
    attr[0] = u64::from(id);
    bpf(MAP_BY_ID, &mut attr)
}

/// `None` where there is no such entry.
fn found(result: io::Result<i32>) -> io::Result<Option<i32>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(e) => Err(e),
    }
}

pub(crate) fn create(spec: &MapSpec) -> io::Result<OwnedFd> {
    let inner = spec.inner.as_deref().map(create).transpose()?;
    let mut attr: Attr = [0; 20];
    attr[8] = spec.extra;
    if let Some(inner) = &inner {
        attr[2] |= (inner.as_raw_fd() as u64) << 32;
    }
    attr[0] = spec.kind as u64 | u64::from(spec.key_size) << 32;
    attr[1] = u64::from(spec.value_size) | u64::from(spec.max_entries) << 32;
    attr[2] |= u64::from(spec.flags);
    let types = spec
        .spin_lock
        .map(|at| locked_value(spec, at))
        .transpose()?;
    if let Some(types) = &types {
        attr[6] = types.as_raw_fd() as u64 | KEY_TYPE << 32;
        attr[7] = VALUE_TYPE;
    }
    let fd = bpf(MAP_CREATE, &mut attr)?;
    if let Some(initial) = &spec.initial {
        let mut value = initial.clone();
        value.resize(spec.value_size as usize, 0);
        let key = 0u32;
        let mut attr: Attr = [0; 20];
        attr[0] = fd.as_raw_fd() as u64;
        attr[1] = &raw const key as u64;
        attr[2] = value.as_ptr() as u64;
        command(MAP_UPDATE, &mut attr)?;
    }
    if spec.frozen {
        let mut attr: Attr = [0; 20];
        attr[0] = fd.as_raw_fd() as u64;
        command(MAP_FREEZE, &mut attr)?;
    }
    Ok(fd)
}

/// Numbers of the types in what [`locked_value`] loads.
const KEY_TYPE: u64 = 1;
const VALUE_TYPE: u64 = 6;

/// Type information of a map with a spin lock at byte `at` of its values: keys are numbers, and the rest
/// of a value is bytes.
fn locked_value(spec: &MapSpec, at: u32) -> io::Result<OwnedFd> {
    assert_eq!(spec.key_size, 4, "the keys are numbers");
    const INT: u32 = 1 << 24;
    const ARRAY: u32 = 3 << 24;
    const STRUCT: u32 = 4 << 24;
    let strings = b"\0u32\0bpf_spin_lock\0val\0u8\0value\0a\0b\0c\0";
    let name = |n: &[u8]| {
        let found = strings
            .windows(n.len() + 1)
            .position(|w| w[..n.len()] == *n && w[n.len()] == 0);
        found.expect("a name") as u32
    };
    let rest = spec.value_size - at - 4;
    #[rustfmt::skip]
    let words = [
        name(b"u32"), INT, 4, 32,
        name(b"bpf_spin_lock"), STRUCT | 1, 4, name(b"val"), 1, 0,
        name(b"u8"), INT, 1, 8,
        0, ARRAY, 0, 3, 1, at,
        0, ARRAY, 0, 3, 1, rest,
        name(b"value"), STRUCT | 3, spec.value_size,
        name(b"a"), 4, 0, name(b"b"), 2, at * 8, name(b"c"), 5, (at + 4) * 8,
    ];
    let types: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let header = [
        0x0001_eb9f,
        24,
        0,
        types.len() as u32,
        types.len() as u32,
        strings.len() as u32,
    ];
    let mut all: Vec<u8> = header.iter().flat_map(|w| w.to_le_bytes()).collect();
    all.extend(types);
    all.extend(strings);
    let mut attr: Attr = [0; 20];
    attr[0] = all.as_ptr() as u64;
    attr[2] = all.len() as u64;
    bpf(BTF_LOAD, &mut attr)
}

/// A command that gives a file descriptor.
fn bpf(number: libc::c_long, attr: &mut Attr) -> io::Result<OwnedFd> {
    let fd = command(number, attr)?;
    // SAFETY: the kernel has just given this descriptor to us and to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn command(number: libc::c_long, attr: &mut Attr) -> io::Result<i32> {
    // SAFETY: `attr` is as long as said, and the pointers in it are to live buffers of the sizes it
    // names, which the caller holds over the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            number,
            attr.as_mut_ptr(),
            size_of::<Attr>() as libc::c_ulong,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as i32)
}
