//! Memory that code runs from. It is written while it cannot be executed, and can be executed only
//! once it cannot be written: never both.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{self, NonNull};

use crate::buff::XdpBuff;
use crate::helpers::Env;

/// What fills the rest of the last page: a trap.
const INT3: u8 = 0xcc;

/// A program's code, which can be executed and not written.
#[derive(Debug)]
pub(super) struct CodeMemory {
    base: NonNull<u8>,
    /// Bytes of code, and of the mapping.
    len: usize,
    mapped: usize,
}

/// The code of a program: r1, the address behind its stack and the environment of helpers in, r0 out.
type Entry = unsafe extern "sysv64" fn(*mut XdpBuff<'_>, u64, *mut Env<'_, '_>) -> u64;

// SAFETY: nobody writes the memory once it is made, and it is freed once, by its owner.
unsafe impl Send for CodeMemory {}
// SAFETY: as above.
unsafe impl Sync for CodeMemory {}

impl CodeMemory {
    /// Copies `code` to memory of its own and makes that executable.
    ///
    /// # Errors
    /// The system has no memory, or does not let a process make it executable.
    pub(super) fn new(code: &[u8]) -> io::Result<Self> {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mapped = code.len().max(1).next_multiple_of(page);
        // SAFETY: a new mapping, at no address that is in use.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = CodeMemory {
            base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            len: code.len(),
            mapped,
        };
        // SAFETY: the mapping is `mapped` bytes, at least as many as the code has, and ours alone.
        let sealed = unsafe {
            memory.base.write_bytes(INT3, mapped);
            memory
                .base
                .copy_from_nonoverlapping(NonNull::from(code).cast(), code.len());
            libc::mprotect(base, mapped, libc::PROT_READ | libc::PROT_EXEC)
        };
        match sealed {
            0 => Ok(memory),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: readable for as long as `self` lives, and nobody writes it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// Runs the code from its first byte.
    ///
    /// # Safety
    /// The code was compiled from a verified program whose maps live and have the slot of `env`'s
    /// worker, and starts with its entry.
    #[inline]
    pub(super) unsafe fn run(&self, env: &mut Env<'_, '_>) -> u64 {
        let stack = env.cpu.stack_top();
        let context: *mut XdpBuff<'_> = env.buff;
        // SAFETY: the code follows the calling convention of `Entry`; the caller vouches for the
        // rest.
        unsafe {
            let entry = std::mem::transmute::<*mut u8, Entry>(self.base.as_ptr());
            entry(context, stack, env)
        }
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Permissions of the mapping that an address is in, as the system tells.
    fn permissions(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let from = usize::from_str_radix(from, 16).ok()?;
            let to = usize::from_str_radix(to, 16).ok()?;
            (from..to).contains(&address).then(|| rest[..4].to_owned())
        })
    }

    #[test]
    fn code_is_executable_and_not_writable_and_goes_with_its_owner() {
        let code = vec![0xc3; 5000];
        let memory = CodeMemory::new(&code).unwrap();
        assert_eq!(memory.bytes(), code);
        let address = memory.base.addr().get();
        assert_eq!(permissions(address).as_deref(), Some("r-xp"));
        assert_eq!(permissions(address + 4999).as_deref(), Some("r-xp"));
        // SAFETY: inside the mapping, which is two pages at least.
        assert_eq!(unsafe { memory.base.add(5000).read() }, INT3);
    }
}
