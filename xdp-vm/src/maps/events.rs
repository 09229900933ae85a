//! Perf event arrays: a ring for each CPU that the user opened one for.

use std::sync::OnceLock;

use super::ring::Ring;
use crate::errno::Errno;

/// The entries of such a map. One that was not opened takes no records.
#[derive(Debug)]
pub(crate) struct Events {
    entries: u32,
    /// Of the CPUs that there are: nobody writes to another's.
    rings: Box<[OnceLock<Ring>]>,
}

impl Events {
    /// With `entries`, of which the first `cpus` can be opened.
    pub(super) fn new(entries: u32, cpus: u32) -> Self {
        Events {
            entries,
            rings: (0..entries.min(cpus)).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Puts a record into entry `index`, for a program on `cpu`.
    ///
    /// # Safety
    /// The parts can be read.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn output(
        &self,
        index: u32,
        cpu: u32,
        parts: &[(*const u8, usize)],
    ) -> Result<(), Errno> {
        if index >= self.entries {
            return Err(Errno::E2BIG);
        }
        let ring = self.ring(index).ok_or(Errno::ENOENT)?;
        if index != cpu {
            // An event belongs to its CPU.
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: the caller's promise.
        unsafe { ring.output(parts, 0) }.map_err(|_| Errno::ENOSPC)
    }

    /// That entry `index` is open, and so can be asked for its count, which stays 0.
    pub(crate) fn read(&self, index: u32) -> Result<(), Errno> {
        if index >= self.entries {
            return Err(Errno::E2BIG);
        }
        self.ring(index).map(|_| ()).ok_or(Errno::ENOENT)
    }

    /// Opens entry `index` with a ring of `size` bytes, a power of two.
    pub(super) fn open(&self, index: u32, size: u64) -> Result<(), Errno> {
        let entry = self.rings.get(index as usize).ok_or(Errno::E2BIG)?;
        let ring = Ring::new(size).ok_or(Errno::ENOMEM)?;
        entry.set(ring).map_err(|_| Errno::EEXIST)
    }

    /// The ring of entry `index`.
    pub(super) fn ring(&self, index: u32) -> Option<&Ring> {
        self.rings.get(index as usize)?.get()
    }

    /// Entries that there are, opened or not.
    pub(super) fn entries(&self) -> u32 {
        self.entries
    }
}
