//! Memory that a client shares: mapped here, and what of it the model may reach where.
//!
//! This module guards that a file of the client's is mapped only as far as it goes, page by page, and
//! stays mapped for as long as the model has a window on it.
#![allow(unsafe_code)]

use std::any::Any;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::MmapOptions;
use rustix::io::Errno;

use crate::memory::{MappingError, Memory, Permissions};

/// Mappings are made of pages of this size, whatever the host's.
const PAGE: u64 = 4096;

/// What a client asks to be mapped.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) iova: u64,
    pub(super) len: u64,
    /// The memory; `None` where it is not shared, and DMA to it is a fault.
    pub(super) file: Option<File>,
    /// Where it starts in the file.
    pub(super) offset: u64,
    pub(super) permissions: Permissions,
}

/// Maps what a client asks for.
///
/// Errors are those that Linux's own VFIO answers with: EINVAL for what is empty, not made of whole pages,
/// goes beyond the last address or the end of its file; EEXIST for what overlaps.
pub(super) fn map(memory: &mut Memory, request: Request) -> io::Result<()> {
    let Request {
        iova,
        len,
        file,
        offset,
        permissions,
    } = request;
    if [iova, len, offset].iter().any(|n| n % PAGE != 0) || len == 0 {
        return Err(Errno::INVAL.into());
    }
    let mut base = None;
    let mut owner: Arc<dyn Any + Send + Sync> = Arc::new(());
    if let Some(file) = file {
        let end = offset.checked_add(len).ok_or(Errno::INVAL)?;
        if end > file.metadata()?.len() {
            return Err(Errno::INVAL.into());
        }
        let size = usize::try_from(len).map_err(|_| Errno::NOMEM)?;
        let mut options = MmapOptions::new();
        options.offset(offset).len(size);
        let mapping = match permissions.write {
            true => options.map_raw(&file)?,
            false => options.map_raw_read_only(&file)?,
        };
        base = NonNull::new(mapping.as_mut_ptr());
        owner = Arc::new(mapping);
    }
    // SAFETY: the mapping is the owner, stays where it is when that moves, and is `len` bytes long;
    // nobody else in this process uses it.
    let mapped = unsafe { memory.map_foreign(iova, len, base, permissions, owner) };
    mapped.map_err(errno)
}

/// Takes away what a client no longer shares.
pub(super) fn unmap(memory: &mut Memory, iova: u64, len: u64) -> io::Result<()> {
    memory.unmap_range(iova, len).map_err(errno)
}

fn errno(error: MappingError) -> io::Error {
    match error {
        MappingError::Range | MappingError::Split => Errno::INVAL.into(),
        MappingError::Overlap => Errno::EXIST.into(),
    }
}
