//! Maps from the user's side: keys and values are slices of bytes, checked in length; what the
//! kernel's system call would answer is an error that names the map.

use super::layout::{RDONLY, WRONLY};
use super::{Map, MapError, Storage, Update, flags};
use crate::MapSpec;
use crate::errno::Errno;

impl Update {
    fn flags(self) -> u64 {
        match self {
            Update::Any => 0,
            Update::NoExist => flags::NOEXIST,
            Update::Exist => flags::EXIST,
        }
    }
}

impl Map {
    /// What it was declared as.
    pub fn spec(&self) -> &MapSpec {
        &self.spec
    }

    /// Symbol name, or the section's name for global data.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Entries that there are; of an array, all it has.
    pub fn len(&self) -> u32 {
        match &self.storage {
            Storage::Array(_) => self.spec.max_entries,
            Storage::Hash(hash) => hash.len(),
        }
    }

    /// True where there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of the value under `key`, or `None`.
    ///
    /// # Errors
    /// A key of the wrong size, a per-CPU map, or one that its flags let nobody read.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MapError> {
        if self.spec.kind.is_percpu() {
            return Err(MapError::Percpu { map: self.map() });
        }
        let values = self.read(key)?;
        Ok(values.and_then(|mut v| v.pop()))
    }

    /// A copy of the value under `key` of each CPU, or `None`.
    ///
    /// # Errors
    /// A key of the wrong size, a map that is not per-CPU, or one that its flags let nobody read.
    pub fn lookup_percpu(&self, key: &[u8]) -> Result<Option<Vec<Vec<u8>>>, MapError> {
        if !self.spec.kind.is_percpu() {
            return Err(MapError::NotPercpu { map: self.map() });
        }
        self.read(key)
    }

    /// Sets the value under `key`; on a per-CPU map that of every CPU.
    ///
    /// # Errors
    /// A key or value of the wrong size, a frozen map, and what the kernel answers: `E2BIG` where
    /// the map is full or the index past its end, `EEXIST`, `ENOENT`.
    pub fn update(&self, key: &[u8], value: &[u8], what: Update) -> Result<(), MapError> {
        self.update_percpu(key, &vec![value; self.copies()], what)
    }

    /// Sets the value under `key` of each CPU; of a map that is not per-CPU, there is one.
    ///
    /// # Errors
    /// As for [`Map::update`], and another number of values than CPUs.
    pub fn update_percpu(
        &self,
        key: &[u8],
        values: &[&[u8]],
        what: Update,
    ) -> Result<(), MapError> {
        self.check_key(key)?;
        self.check_write()?;
        if values.len() != self.copies() {
            return Err(MapError::Values {
                map: self.map(),
                given: values.len(),
                cpus: self.copies() as u32,
            });
        }
        let size = self.spec.value_size;
        if let Some(wrong) = values.iter().find(|v| v.len() != size as usize) {
            return Err(MapError::ValueSize {
                map: self.map(),
                given: wrong.len(),
                size,
            });
        }
        self.write(key, values, what.flags())
            .map_err(|errno| self.failed("update", errno))
    }

    /// Deletes the entry under `key`.
    ///
    /// # Errors
    /// A key of the wrong size, a frozen map, and what the kernel answers: `ENOENT`, and `EINVAL`
    /// for an array.
    pub fn delete(&self, key: &[u8]) -> Result<(), MapError> {
        self.check_key(key)?;
        self.check_write()?;
        // SAFETY: the key has the map's size.
        #[allow(unsafe_code)]
        let done = unsafe { self.delete_raw(key.as_ptr()) };
        done.map_err(|errno| self.failed("delete", errno))
    }

    /// True where user space may read the map and write it: it is not frozen, and its flags forbid
    /// neither (`BPF_F_RDONLY`, `BPF_F_WRONLY`).
    pub fn is_open(&self) -> bool {
        !self.spec.frozen && self.spec.flags & (RDONLY | WRONLY) == 0
    }

    /// Keys that there are. An entry that is there from the first to the last is listed once; one
    /// that comes or goes in between may be listed or not.
    pub fn keys(&self) -> Keys<'_> {
        Keys {
            map: self,
            next: 0,
            batch: Vec::new(),
        }
    }

    /// Values that an entry has.
    fn copies(&self) -> usize {
        match self.spec.kind.is_percpu() {
            true => self.cpus as usize,
            false => 1,
        }
    }

    #[allow(unsafe_code)]
    fn read(&self, key: &[u8]) -> Result<Option<Vec<Vec<u8>>>, MapError> {
        self.check_key(key)?;
        if self.spec.flags & WRONLY != 0 {
            return Err(self.failed("lookup", Errno::EPERM));
        }
        Ok(match &self.storage {
            Storage::Array(array) => {
                let index = index(key);
                (index < self.spec.max_entries).then(|| {
                    (0..self.copies())
                        .map(|cpu| {
                            let value = array.value(cpu as u32, index);
                            // SAFETY: a value of the array, since the index is inside it.
                            unsafe { crate::memory::to_vec(value, self.spec.value_size as usize) }
                        })
                        .collect()
                })
            }
            // SAFETY: the key has the map's size.
            Storage::Hash(hash) => unsafe { hash.read(key.as_ptr()) },
        })
    }

    #[allow(unsafe_code)]
    fn write(&self, key: &[u8], values: &[&[u8]], flags: u64) -> Result<(), Errno> {
        match &self.storage {
            Storage::Array(array) => {
                let index = index(key);
                array.check_update(index, flags)?;
                for (cpu, value) in values.iter().enumerate() {
                    let to = array.value(cpu as u32, index);
                    // SAFETY: a value of the array, since the index is inside it.
                    unsafe { crate::memory::copy(to, value.as_ptr(), value.len()) };
                }
                Ok(())
            }
            // SAFETY: key and values have the map's sizes, and there is one a CPU.
            Storage::Hash(hash) => unsafe { hash.update_all(key.as_ptr(), values, flags) },
        }
    }

    fn check_key(&self, key: &[u8]) -> Result<(), MapError> {
        match key.len() == self.spec.key_size as usize {
            true => Ok(()),
            false => Err(MapError::KeySize {
                map: self.map(),
                given: key.len(),
                size: self.spec.key_size,
            }),
        }
    }

    fn check_write(&self) -> Result<(), MapError> {
        if self.spec.frozen {
            return Err(MapError::Frozen { map: self.map() });
        }
        match self.spec.flags & RDONLY {
            0 => Ok(()),
            _ => Err(self.failed("update", Errno::EPERM)),
        }
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> MapError {
        MapError::Failed {
            map: self.map(),
            operation,
            errno,
        }
    }

    fn map(&self) -> String {
        self.spec.name.clone()
    }
}

/// An iterator over copies of a map's keys.
#[derive(Debug)]
pub struct Keys<'a> {
    map: &'a Map,
    /// The next index of an array, the next bucket of a hash.
    next: u32,
    /// Keys of a bucket, still to be given.
    batch: Vec<Vec<u8>>,
}

impl Iterator for Keys<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        match &self.map.storage {
            Storage::Array(_) => {
                let index = self.next;
                (index < self.map.spec.max_entries).then(|| {
                    self.next += 1;
                    index.to_le_bytes().to_vec()
                })
            }
            Storage::Hash(hash) => {
                if self.batch.is_empty() {
                    (self.batch, self.next) = hash.keys_from(self.next)?;
                }
                self.batch.pop()
            }
        }
    }
}

/// The key of an array, whose size was checked to be 4.
fn index(key: &[u8]) -> u32 {
    key.first_chunk()
        .copied()
        .map_or(u32::MAX, u32::from_le_bytes)
}
