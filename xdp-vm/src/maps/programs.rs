//! Program arrays: what a tail call goes to. A program that was taken out may still be running, so
//! each lives as long as the array that it was ever put into.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Maps;
use super::layout::Layout;
use crate::engine::Body;
use crate::errno::Errno;
use crate::memory::Block;

/// The entries of a program array.
pub(crate) struct Programs {
    /// An address each, null for none.
    slots: Block,
    entries: u32,
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
    /// `None` where memory is short.
    pub(super) fn new(entries: u32, layout: &Layout) -> Option<Self> {
        Some(Programs {
            slots: Block::zeroed(layout.values as usize)?,
            entries,
            kept: Mutex::default(),
        })
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&AtomicPtr<Body>> {
        (index < self.entries).then(|| {
            let offset = index as usize * size_of::<AtomicPtr<Body>>();
            // SAFETY: inside the block, whose layout has more than an address for each entry; it is
            // aligned, zeroed at first, and only accessed as this.
            unsafe { &*self.slots.base().add(offset).cast::<AtomicPtr<Body>>() }
        })
    }

    /// The program of entry `index`.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Body> {
        let slot = self.slot(index)?;
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
        let slot = self.slot(index).ok_or(Errno::E2BIG)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.iter().any(|(known, _)| Arc::ptr_eq(known, body)) {
            kept.push((body.clone(), maps.cloned()));
        }
        slot.store(Arc::as_ptr(body).cast_mut(), Ordering::Release);
        Ok(())
    }

    /// Takes a program out.
    pub(super) fn delete(&self, index: u32) -> Result<(), Errno> {
        let slot = self.slot(index).ok_or(Errno::E2BIG)?;
        match slot.swap(std::ptr::null_mut(), Ordering::AcqRel).is_null() {
            true => Err(Errno::ENOENT),
            false => Ok(()),
        }
    }

    /// Indices of the entries that hold a program.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        let all = (0..self.entries).filter(|&index| self.get(index).is_some());
        all.map(|index| index.to_le_bytes().to_vec()).collect()
    }
}
