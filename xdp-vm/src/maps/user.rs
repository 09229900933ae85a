//! Maps from the user's side: keys and values are slices of bytes, checked in length; what the
//! kernel's system call would answer is an error that names the map.

use std::sync::Arc;
use std::time::Duration;

use super::layout::{RDONLY, WRONLY};
use super::lock::{self, F_LOCK};
use super::{Map, MapError, Ring, Storage, Update, flags, nested};
use crate::errno::Errno;
use crate::{Executable, MapSpec};

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

    /// Entries that there are; of an array and a perf event array, all it has. A bloom filter does not
    /// know, and a ring buffer counts bytes: 0.
    pub fn len(&self) -> u32 {
        match &self.storage {
            Storage::Array(_) => self.spec.max_entries,
            Storage::Hash(hash) => hash.len(),
            Storage::Lpm(lpm) => lpm.len(),
            Storage::Queue(queue) => queue.len(),
            Storage::Events(events) => events.entries(),
            Storage::Nested(_) | Storage::Programs(_) | Storage::Targets(_) => {
                self.all_keys().len() as u32
            }
            Storage::Bloom(_) | Storage::Ringbuf(_) => 0,
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
        values
            .iter()
            .try_for_each(|value| self.check_value(value))?;
        self.write(key, values, what.flags())
            .map_err(|errno| self.failed("update", errno))
    }

    /// As [`Map::lookup`], while the value's spin lock is held (`BPF_F_LOCK`): no change that a program
    /// makes under the lock is seen in part. The lock's own bytes are zero.
    ///
    /// # Errors
    /// As [`Map::lookup`], and a map whose values have no lock (`EINVAL`).
    pub fn lookup_locked(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MapError> {
        self.check_key(key)?;
        self.check_read()?;
        let lock = self.spec.spin_lock;
        let lock = lock.ok_or_else(|| self.failed("lookup", Errno::EINVAL))?;
        // SAFETY: the key has the map's size.
        #[allow(unsafe_code)]
        Ok(unsafe { self.read_locked(lock as usize, key.as_ptr()) })
    }

    /// As [`Map::update`], while the value's spin lock is held (`BPF_F_LOCK`): an entry that there is is
    /// changed in place.
    ///
    /// # Errors
    /// As [`Map::update`], and a map whose values have no lock (`EINVAL`).
    pub fn update_locked(&self, key: &[u8], value: &[u8], what: Update) -> Result<(), MapError> {
        self.check_key(key)?;
        self.check_write()?;
        self.check_value(value)?;
        if self.spec.spin_lock.is_none() {
            return Err(self.failed("update", Errno::EINVAL));
        }
        self.write(key, &[value], what.flags() | F_LOCK)
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

    /// Adds a value to a queue, a stack or a bloom filter. Where a queue or stack is full,
    /// [`Update::Exist`] lets it take the oldest one's place.
    ///
    /// # Errors
    /// A value of the wrong size, another kind of map, and what the kernel answers: `E2BIG` where it
    /// is full.
    pub fn push(&self, value: &[u8], what: Update) -> Result<(), MapError> {
        self.check_write()?;
        self.check_value(value)?;
        // SAFETY: the value has the map's size.
        #[allow(unsafe_code)]
        let done = unsafe { self.push_raw(value.as_ptr(), what.flags()) };
        done.map_err(|errno| self.failed("push", errno))
    }

    /// Takes the next value out of a queue or a stack.
    ///
    /// # Errors
    /// Another kind of map, or one that its flags let nobody read or write.
    pub fn pop(&self) -> Result<Option<Vec<u8>>, MapError> {
        self.check_write()?;
        self.take(true, "pop")
    }

    /// A copy of the next value of a queue or a stack.
    ///
    /// # Errors
    /// Another kind of map, or one that its flags let nobody read.
    pub fn peek(&self) -> Result<Option<Vec<u8>>, MapError> {
        self.take(false, "peek")
    }

    /// True where the value was perhaps added to the bloom filter; false where it was surely not.
    ///
    /// # Errors
    /// A value of the wrong size, another kind of map, or one that its flags let nobody read.
    pub fn contains(&self, value: &[u8]) -> Result<bool, MapError> {
        let Storage::Bloom(bloom) = &self.storage else {
            return Err(self.no("contents to ask for"));
        };
        self.check_read()?;
        self.check_value(value)?;
        // SAFETY: the value has the map's size.
        #[allow(unsafe_code)]
        let found = unsafe { bloom.peek(value.as_ptr()) };
        Ok(found.is_ok())
    }

    /// Puts an inner map under `key` of a map of maps. One that was taken out or replaced is freed with
    /// the outer map, as a program may still use it.
    ///
    /// # Errors
    /// Another kind of map, a key of the wrong size, an inner map that is not like the declaration's
    /// or is for another number of workers, and what the kernel answers to an update.
    pub fn set_inner(&self, key: &[u8], inner: &Arc<Map>, what: Update) -> Result<(), MapError> {
        let Storage::Nested(maps) = &self.storage else {
            return Err(self.no("inner maps"));
        };
        self.check_key(key)?;
        self.check_write()?;
        nested::fits(&self.spec, inner)?;
        if inner.cpus != self.cpus {
            return Err(MapError::Inner {
                map: self.map(),
                inner: inner.map(),
                cause: format!("it is for {} workers, not {}", inner.cpus, self.cpus),
            });
        }
        // SAFETY: the key has the map's size.
        #[allow(unsafe_code)]
        let done = unsafe { maps.set(key.as_ptr(), inner, what.flags()) };
        done.map_err(|errno| self.failed("update", errno))
    }

    /// The inner map under `key` of a map of maps.
    ///
    /// # Errors
    /// Another kind of map, or a key of the wrong size.
    pub fn inner(&self, key: &[u8]) -> Result<Option<Arc<Map>>, MapError> {
        let Storage::Nested(maps) = &self.storage else {
            return Err(self.no("inner maps"));
        };
        self.check_key(key)?;
        // SAFETY: the key has the map's size.
        #[allow(unsafe_code)]
        Ok(unsafe { maps.get(key.as_ptr()) })
    }

    /// Puts a program into a program array; `own` where both are of the same maps.
    pub(super) fn set_program(
        &self,
        index: u32,
        program: &Executable,
        own: bool,
    ) -> Result<(), MapError> {
        let Storage::Programs(programs) = &self.storage else {
            return Err(self.no("programs"));
        };
        self.check_write()?;
        let given = program.maps().cpus();
        if given < self.cpus {
            return Err(MapError::ProgramCpus {
                map: self.map(),
                program: program.name().to_owned(),
                given,
                cpus: self.cpus,
            });
        }
        let maps = (!own).then(|| program.maps());
        programs
            .set(index, program.body(), maps)
            .map_err(|errno| self.failed("update", errno))
    }

    /// Lets programs on worker `index` put records into entry `index` of a perf event array: a ring of
    /// `bytes`, a power of two. Before that they are told `ENOENT`. It stays open.
    ///
    /// # Errors
    /// Another kind of map, a size that is no power of two from 64 to 2^30, an entry of no worker
    /// (`E2BIG`) or opened already (`EEXIST`), or too little memory (`ENOMEM`).
    pub fn open_events(&self, index: u32, bytes: u32) -> Result<(), MapError> {
        let Storage::Events(events) = &self.storage else {
            return Err(self.no("perf events"));
        };
        if !bytes.is_power_of_two() || !(64..=1 << 30).contains(&bytes) {
            return Err(self.failed("open", Errno::EINVAL));
        }
        let done = events.open(index, u64::from(bytes));
        done.map_err(|errno| self.failed("open", errno))
    }

    /// Calls `f` with each record of a ring buffer (whose `index` is 0) or of entry `index` of a perf
    /// event array, oldest first, and takes it out. Gives how many records had no room since the
    /// start.
    ///
    /// # Errors
    /// Another kind of map, or an entry that was not opened (`ENOENT`).
    pub fn drain(&self, index: u32, f: impl FnMut(&[u8])) -> Result<u64, MapError> {
        let ring = self.ring(index, "drain")?;
        ring.drain(f);
        Ok(ring.lost())
    }

    /// Waits for records of a ring buffer or of entry `index` of a perf event array, at most so long.
    /// True where some may be there: there were bytes already (perhaps of a record that is not yet
    /// committed), or a program woke who waits. The kernel's rules decide when one does: where its record
    /// is the next to be taken out, unless its flags say otherwise (`BPF_RB_NO_WAKEUP`,
    /// `BPF_RB_FORCE_WAKEUP`).
    ///
    /// # Errors
    /// As [`Map::drain`].
    pub fn wait(&self, index: u32, most: Duration) -> Result<bool, MapError> {
        Ok(self.ring(index, "wait")?.wait(most))
    }

    fn ring(&self, index: u32, operation: &'static str) -> Result<&Ring, MapError> {
        let ring = match &self.storage {
            Storage::Events(events) => events.ring(index),
            Storage::Ringbuf(ring) => (index == 0).then_some(ring),
            _ => return Err(self.no("records")),
        };
        ring.ok_or_else(|| self.failed(operation, Errno::ENOENT))
    }

    /// True where the map's entries are values that user space may look up and set: it is not frozen,
    /// its flags forbid neither (`BPF_F_RDONLY`, `BPF_F_WRONLY`), and its kind has such entries.
    pub fn is_open(&self) -> bool {
        let has_values = matches!(
            self.storage,
            Storage::Array(_) | Storage::Hash(_) | Storage::Lpm(_) | Storage::Targets(_)
        );
        has_values && !self.spec.frozen && self.spec.flags & (RDONLY | WRONLY) == 0
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

    /// Keys of the kinds that list them at once.
    fn all_keys(&self) -> Vec<Vec<u8>> {
        match &self.storage {
            Storage::Lpm(lpm) => lpm.keys(),
            Storage::Nested(nested) => nested.keys(),
            Storage::Programs(programs) => programs.keys(),
            Storage::Targets(targets) => targets.keys(),
            _ => Vec::new(),
        }
    }

    fn take(&self, remove: bool, operation: &'static str) -> Result<Option<Vec<u8>>, MapError> {
        self.check_read()?;
        let Storage::Queue(queue) = &self.storage else {
            return Err(self.no(operation));
        };
        let mut value = vec![0; self.spec.value_size as usize];
        // SAFETY: the vector has a value's size.
        #[allow(unsafe_code)]
        let done = unsafe { queue.take(value.as_mut_ptr(), remove) };
        Ok(done.is_ok().then_some(value))
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
        self.check_read()?;
        let mut values = match &self.storage {
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
            // SAFETY: as above.
            Storage::Lpm(lpm) => unsafe { lpm.read(key.as_ptr()) },
            Storage::Targets(targets) => targets.value(index(key)).map(|words| {
                let bytes = words.map(u32::to_le_bytes).concat();
                vec![bytes[..self.spec.value_size as usize].to_vec()]
            }),
            _ => return Err(self.no("values to look up")),
        };
        if let (Some(lock), Some(values)) = (self.spec.spin_lock, &mut values) {
            let lock = lock as usize;
            values[0][lock..lock + lock::SIZE].fill(0);
        }
        Ok(values)
    }

    #[allow(unsafe_code)]
    fn write(&self, key: &[u8], values: &[&[u8]], flags: u64) -> Result<(), Errno> {
        if self.spec.spin_lock.is_some() {
            // SAFETY: key and value have the map's sizes; kinds with a lock have one value an entry.
            return unsafe { self.update_raw(0, key.as_ptr(), values[0].as_ptr(), flags) };
        }
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
            // SAFETY: as above; neither kind is per CPU, so there is one value.
            _ => unsafe { self.update_raw(0, key.as_ptr(), values[0].as_ptr(), flags) },
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

    fn check_value(&self, value: &[u8]) -> Result<(), MapError> {
        match value.len() == self.spec.value_size as usize {
            true => Ok(()),
            false => Err(MapError::ValueSize {
                map: self.map(),
                given: value.len(),
                size: self.spec.value_size,
            }),
        }
    }

    fn check_read(&self) -> Result<(), MapError> {
        match self.spec.flags & WRONLY {
            0 => Ok(()),
            _ => Err(self.failed("lookup", Errno::EPERM)),
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

    fn no(&self, operation: &'static str) -> MapError {
        MapError::Kind {
            map: self.map(),
            kind: self.spec.kind.name(),
            operation,
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
    /// The next index of an array, the next bucket of a hash; of others, whether `batch` was filled.
    next: u32,
    /// Keys still to be given, last first.
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
            _ => {
                if self.next == 0 {
                    self.next = 1;
                    self.batch = self.map.all_keys();
                    self.batch.reverse();
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
