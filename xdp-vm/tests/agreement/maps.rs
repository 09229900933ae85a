//! Maps on both sides: filled with the same, and compared in the end.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use fastrand::Rng;
use xdp_vm::{Map, MapKind, MapSpec, Slot, Update};

use crate::kernel::{self, Loaded};
use crate::packets;

/// Entries that are put into a map of many.
const FILLED: usize = 50;
/// Of an array, about as many entries are compared: each costs a system call.
const COMPARED: usize = 2048;

/// The keys that were put into a map.
pub(crate) type Filled = BTreeSet<Vec<u8>>;

/// The programs that maps name.
pub(crate) fn programs_of(specs: &[MapSpec]) -> impl Iterator<Item = &str> {
    specs.iter().flat_map(|s| &s.slots).filter_map(|s| match s {
        (_, Slot::Program(name)) => Some(&name[..]),
        _ => None,
    })
}

/// Puts a program into the entries that the object has for it, in the kernel.
pub(crate) fn link(specs: &[MapSpec], name: &str, program: &Loaded) {
    for (map, spec) in specs.iter().enumerate() {
        for (key, slot) in &spec.slots {
            if matches!(slot, Slot::Program(wanted) if wanted == name) {
                program.update_program(map, *key).unwrap();
            }
        }
    }
}

/// Puts the same entries into one map on both sides: keys that packets have somewhere, small values,
/// the same on each CPU.
pub(crate) fn fill<'m>(
    ours: impl Iterator<Item = &'m Map>,
    theirs: &OwnedFd,
    rng: &mut Rng,
) -> Filled {
    let ours: Vec<&Map> = ours.collect();
    let mut filled = Filled::new();
    let spec = ours[0].spec();
    // What the object put there, and what programs only read, is as it should be.
    if spec.initial.is_some() || spec.frozen || ours[0].name().starts_with('.') {
        return filled;
    }
    let device = matches!(spec.kind, MapKind::Devmap | MapKind::DevmapHash);
    if !has_values(spec.kind) && !device {
        return filled;
    }
    for _ in 0..FILLED {
        let key = key(spec, rng);
        let mut value = vec![0; spec.value_size as usize];
        // Interface 1 is there on every machine.
        value[0] = if device { 1 } else { rng.u8(0..8) };
        let padded = pad(&value, stride(spec));
        if kernel::update(theirs, &key, &padded.repeat(copies(spec)), 0).is_err() {
            // A full map, or one that its user may not write.
            break;
        }
        for map in &ours {
            let put = map.update(&key, &value, Update::Any);
            put.unwrap_or_else(|e| panic!("the kernel puts {key:02x?} into {}: {e}", map.name()));
        }
        filled.insert(key);
    }
    filled
}

fn key(spec: &MapSpec, rng: &mut Rng) -> Vec<u8> {
    let size = spec.key_size as usize;
    let packet = packets::packet(rng);
    let at = rng.usize(0..=packet.len().saturating_sub(size));
    let found = pad(&packet[at..packet.len().min(at + size)], size);
    match spec.kind {
        MapKind::LpmTrie => {
            let bits = rng.u32(0..=(spec.key_size - 4) * 8);
            [&bits.to_le_bytes()[..], &found[4..]].concat()
        }
        MapKind::Array | MapKind::PercpuArray | MapKind::Devmap => {
            let number = match rng.bool() {
                true => rng.u32(0..8),
                false => u32::from(u16::from_le_bytes([found[0], found[1]])),
            };
            (number % spec.max_entries).to_le_bytes().to_vec()
        }
        _ => found,
    }
}

/// Holds a map against the kernel's. Gives the number of entries that were, or where they differ.
pub(crate) fn compare(ours: &Map, theirs: &OwnedFd, filled: &Filled) -> Result<usize, String> {
    let spec = ours.spec();
    match spec.kind {
        MapKind::Array | MapKind::PercpuArray => {
            let step = ours.len() as usize / COMPARED + 1;
            let keys = ours.keys().enumerate();
            let keys = keys.filter(|(n, key)| n % step == 0 || filled.contains(key));
            compare_entries(ours, theirs, keys.map(|(_, key)| key))
        }
        // What it evicts hangs on the kernel's lists, of which each processor has its own.
        MapKind::LruHash | MapKind::LruPercpuHash if ours.len() > spec.max_entries / 2 => Ok(0),
        kind if has_values(kind) => {
            let keys: BTreeSet<Vec<u8>> = ours.keys().collect();
            let others = kernel::keys(theirs, spec.key_size as usize).unwrap();
            let others: BTreeSet<Vec<u8>> = others.into_iter().map(|k| listed(spec, k)).collect();
            if keys != others {
                let differ = keys.symmetric_difference(&others).next();
                return Err(format!("one side alone has the key {differ:02x?}"));
            }
            compare_entries(ours, theirs, keys.into_iter())
        }
        MapKind::Queue | MapKind::Stack => {
            let mut count = 0;
            loop {
                let expected = kernel::take(theirs, spec.value_size as usize).unwrap();
                let got = ours.pop().unwrap();
                if got != expected {
                    return Err(format!(
                        "value {count}: {got:02x?}, the kernel's {expected:02x?}"
                    ));
                }
                if expected.is_none() {
                    return Ok(count);
                }
                count += 1;
            }
        }
        MapKind::ArrayOfMaps | MapKind::HashOfMaps => {
            let mut count = 0;
            for key in ours.keys() {
                let Some(inner) = ours.inner(&key).unwrap() else {
                    continue;
                };
                let id = kernel::lookup(theirs, &key, 4).unwrap().unwrap();
                let id = u32::from_le_bytes(id.try_into().unwrap());
                let theirs = kernel::map_by_id(id).unwrap();
                // As objects put them there: nothing else was.
                count += compare(&inner, &theirs, &Filled::new())
                    .map_err(|place| format!("under {key:02x?}, {place}"))?;
            }
            Ok(count)
        }
        // Entries are devices, sockets and programs, which programs do not change; records of events
        // are for their readers.
        _ => Ok(0),
    }
}

fn compare_entries(
    ours: &Map,
    theirs: &OwnedFd,
    keys: impl Iterator<Item = Vec<u8>>,
) -> Result<usize, String> {
    let mut count = 0;
    for key in keys {
        compare_entry(ours, theirs, &key)?;
        count += 1;
    }
    Ok(count)
}

/// The kernel lists a prefix as it was put, with the bits behind it; here they are zero.
fn listed(spec: &MapSpec, mut key: Vec<u8>) -> Vec<u8> {
    if spec.kind == MapKind::LpmTrie {
        let bits = u32::from_le_bytes(key[..4].try_into().unwrap()) as usize;
        for (n, byte) in key[4..].iter_mut().enumerate() {
            let kept = bits.saturating_sub(n * 8).min(8);
            *byte &= (0xff00u32 >> kept) as u8;
        }
    }
    key
}

fn compare_entry(ours: &Map, theirs: &OwnedFd, key: &[u8]) -> Result<(), String> {
    let spec = ours.spec();
    let stride = stride(spec);
    let bytes = kernel::lookup(theirs, key, copies(spec) * stride).unwrap();
    let bytes = bytes.expect("a key that the kernel has");
    let values = match spec.kind.is_percpu() {
        true => ours.lookup_percpu(key).unwrap().unwrap(),
        false => vec![ours.lookup(key).unwrap().unwrap()],
    };
    // The kernel has values of processors that no worker here stands for: nobody wrote them.
    for (n, ours) in values.iter().enumerate() {
        let theirs = &bytes[n * stride..][..spec.value_size as usize];
        if ours != theirs {
            return Err(format!(
                "under {key:02x?}, processor {n}: {ours:02x?}, the kernel's {theirs:02x?}"
            ));
        }
    }
    Ok(())
}

/// True of kinds whose entries are values, rather than devices, programs or records.
fn has_values(kind: MapKind) -> bool {
    use MapKind::*;
    matches!(
        kind,
        Array | Hash | PercpuArray | PercpuHash | LruHash | LruPercpuHash | LpmTrie
    )
}

/// Values that the kernel has under a key.
fn copies(spec: &MapSpec) -> usize {
    if spec.kind.is_percpu() {
        possible_cpus()
    } else {
        1
    }
}

/// Bytes from one of them to the next, a whole number of words.
fn stride(spec: &MapSpec) -> usize {
    (spec.value_size as usize).next_multiple_of(8)
}

fn pad(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(size, 0);
    padded
}

/// Processors that the kernel keeps per-CPU values for.
fn possible_cpus() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last = text.trim().rsplit(['-', ',']).next().unwrap();
    last.parse::<usize>().unwrap() + 1
}
