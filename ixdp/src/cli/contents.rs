//! From what a file says of maps to the maps, and back.

use ixdp::LoadedProgram;
use ixdp::xdp_vm::{LoadError, Map, MapError, MapKind, Maps, Object, Update};

use crate::cli::failure::Failure;
use crate::cli::fields::Cell;
use crate::cli::maps_file::{self, Contents, Entry, Inner, Items, MapsFileError};

/// Sets the variables: before the program is verified, since it may depend on them.
pub(crate) fn set_globals(object: &mut Object, contents: &Contents) -> Result<(), Failure> {
    for (name, cell) in &contents.globals {
        if !cell.is_whole() {
            let map = maps_file::GLOBALS.to_owned();
            return Err(MapsFileError::Anything { map }.into());
        }
        let set: Result<(), LoadError> = object.set_variable(name, &cell.bytes);
        set?;
    }
    Ok(())
}

/// Fills the program's maps.
pub(crate) fn fill(
    program: &LoadedProgram,
    object: &Object,
    contents: &Contents,
) -> Result<(), Failure> {
    let maps = program.maps();
    for given in &contents.maps {
        let Some(map) = maps.at(given.map) else {
            continue;
        };
        match &given.items {
            Items::Entries(entries) => put(map, entries)?,
            Items::Values(values) => {
                for value in values {
                    map.push(whole(map, value)?, Update::Any)?;
                }
            }
            Items::Inner(inner) => {
                for (key, inner) in inner {
                    put_inner(maps, map, key, inner)?;
                }
            }
            Items::Programs(programs) => {
                for (index, name) in programs {
                    program.put(object, map.name(), *index, name)?;
                }
            }
        }
    }
    Ok(())
}

fn put(map: &Map, entries: &[Entry]) -> Result<(), MapsFileError> {
    for Entry { key, values } in entries {
        let values = values.iter().map(|value| whole(map, value));
        let values: Vec<&[u8]> = values.collect::<Result<_, _>>()?;
        map.update_percpu(key, &values, Update::Any)
            .map_err(|source| maps_file::refused(map.spec(), key, source))?;
    }
    Ok(())
}

/// What is to be put into a map says something of every byte.
fn whole<'a>(map: &Map, value: &'a Cell) -> Result<&'a [u8], MapsFileError> {
    match value.is_whole() {
        true => Ok(&value.bytes),
        false => Err(MapsFileError::Anything {
            map: map.name().to_owned(),
        }),
    }
}

fn put_inner(maps: &Maps, map: &Map, key: &[u8], inner: &Inner) -> Result<(), Failure> {
    let inner = match inner {
        Inner::Named(name) => maps
            .shared(name)
            .ok_or_else(|| MapError::NoMap { name: name.clone() })?,
        Inner::Own(entries) => {
            let spec = map.spec().inner.as_deref().cloned().unwrap_or_default();
            let name = spec.name.clone();
            let made = Maps::create(&[spec], maps.cpus() as usize)?;
            let made = made.shared(&name).ok_or(MapError::NoMap { name })?;
            put(&made, entries)?;
            made
        }
    };
    map.set_inner(key, &inner, Update::Any)
        .map_err(|source| maps_file::refused(map.spec(), key, source))?;
    Ok(())
}

/// Lets programs write the records that [`read`] reads.
pub(crate) fn open_records(program: &LoadedProgram) -> Result<(), MapError> {
    for map in program.maps().iter() {
        if map.spec().kind == MapKind::PerfEventArray {
            map.open_events(0, RECORDS)?;
        }
    }
    Ok(())
}

/// Bytes of records kept of each perf event array.
const RECORDS: u32 = 1 << 20;

/// What a map holds; `None` where user space may not see that. What a queue, a stack or a ring buffer
/// holds is taken out of it.
pub(crate) fn read(map: &Map) -> Result<Option<Items>, MapError> {
    Ok(match map.spec().kind {
        MapKind::ArrayOfMaps | MapKind::HashOfMaps => {
            let mut all = Vec::new();
            for key in map.keys() {
                if let Some(inner) = map.inner(&key)? {
                    all.push((key, Inner::Own(entries(&inner)?)));
                }
            }
            all.sort_by(|a, b| a.0.cmp(&b.0));
            Some(Items::Inner(all))
        }
        MapKind::Queue | MapKind::Stack => {
            let mut values = Vec::new();
            while let Some(value) = map.pop()? {
                values.push(Cell::whole(value));
            }
            Some(Items::Values(values))
        }
        MapKind::Ringbuf | MapKind::PerfEventArray => {
            let mut records = Vec::new();
            map.drain(0, |record| records.push(Cell::whole(record.to_vec())))?;
            Some(Items::Values(records))
        }
        _ if map.is_open() => Some(Items::Entries(entries(map)?)),
        _ => None,
    })
}

/// The entries of a map: of arrays what is not zero.
pub(crate) fn entries(map: &Map) -> Result<Vec<Entry>, MapError> {
    let mut entries = Vec::new();
    for key in map.keys() {
        let values = match map.spec().kind.is_percpu() {
            true => map.lookup_percpu(&key)?,
            false => map.lookup(&key)?.map(|value| vec![value]),
        };
        let is_array = map.spec().kind.is_array();
        if let Some(values) = values
            && !(is_array && values.iter().flatten().all(|b| *b == 0))
        {
            let values = values.into_iter().map(Cell::whole).collect();
            entries.push(Entry { key, values });
        }
    }
    if !map.spec().kind.is_array() {
        entries.sort_by(|a, b| a.key.cmp(&b.key));
    }
    Ok(entries)
}
