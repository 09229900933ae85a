//! Program arrays: what a tail call goes to. A program that was taken out may still be running, so
//! each lives as long as the array that it was ever put into.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Maps;
use crate::engine::Body;
use crate::errno::Errno;

/// The entries of a program array.
pub(crate) struct Programs {
    slots: Box<[AtomicPtr<Body>]>,
    /// All that were ever put in, with their maps where those are others than the array is of. Its own
    /// maps it must not hold, or they would never be freed; who runs a program holds them.
    kept: Mutex<Vec<(Arc<Body>, Option<Maps>)>>,
}

/// Not its programs: they name their maps, which may name this one.
impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Programs").finish_non_exhaustive()
    }
}

impl Programs {
    pub(super) fn new(entries: u32) -> Self {
        Programs {
            slots: (0..entries).map(|_| AtomicPtr::default()).collect(),
            kept: Mutex::default(),
        }
    }

    /// The program of entry `index`.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Body> {
        let slot = self.slots.get(index as usize)?;
        // SAFETY: null, or a program that `kept` keeps.
        unsafe { slot.load(Ordering::Acquire).as_ref() }
    }

    /// Puts a program in. `maps` are its maps, where they are not those that the array is of.
    pub(super) fn set(
        &self,
        index: u32,
        body: &Arc<Body>,
        maps: Option<&Maps>,
    ) -> Result<(), Errno> {
        let slot = self.slots.get(index as usize).ok_or(Errno::E2BIG)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.iter().any(|(known, _)| Arc::ptr_eq(known, body)) {
            kept.push((body.clone(), maps.cloned()));
        }
        slot.store(Arc::as_ptr(body).cast_mut(), Ordering::Release);
        Ok(())
    }

    /// Takes a program out.
    pub(super) fn delete(&self, index: u32) -> Result<(), Errno> {
        let slot = self.slots.get(index as usize).ok_or(Errno::E2BIG)?;
        match slot.swap(std::ptr::null_mut(), Ordering::AcqRel).is_null() {
            true => Err(Errno::ENOENT),
            false => Ok(()),
        }
    }

    /// Indices of the entries that hold a program.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        let all = (0..self.slots.len() as u32).filter(|&index| self.get(index).is_some());
        all.map(|index| index.to_le_bytes().to_vec()).collect()
    }
}
