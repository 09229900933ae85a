//! The same C, compiled for this machine into a shared object and called through a pointer.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;

use super::programs::{Packet, Programs, packet};
use super::{Peer, timed};

type Function = unsafe extern "C" fn(*mut Packet) -> i32;

/// A function of a shared object, which stays loaded.
struct Native {
    function: Function,
    context: Packet,
    /// What `context` points to.
    _packet: Vec<u8>,
}

pub(crate) fn make(programs: &Programs, name: &str) -> Result<Box<dyn Peer>, String> {
    let path = CString::new(programs.native(name).as_os_str().as_bytes()).expect("no zero");
    let symbol = CString::new(name).expect("no zero");
    // SAFETY: loads an object that has no initialisers, and asks for a symbol of it.
    let address: *mut c_void = unsafe {
        let object = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        if object.is_null() {
            return Err("the shared object cannot be loaded".to_owned());
        }
        libc::dlsym(object, symbol.as_ptr())
    };
    if address.is_null() {
        return Err(format!("the shared object has no {name}"));
    }
    let packet = packet();
    let data = packet.as_ptr().expose_provenance() as u64;
    Ok(Box::new(Native {
        // SAFETY: `programs/` declares it so.
        function: unsafe { std::mem::transmute::<*mut c_void, Function>(address) },
        context: Packet {
            data,
            end: data + packet.len() as u64,
        },
        _packet: packet,
    }))
}

impl Native {
    fn run(&mut self) -> u32 {
        // SAFETY: the function reads the packet, which lives as long as `self`.
        unsafe { black_box(self.function)(&mut self.context).cast_unsigned() }
    }
}

impl Peer for Native {
    fn result(&mut self) -> Result<u32, String> {
        Ok(self.run())
    }

    fn time(&mut self, runs: u32) -> f64 {
        timed(runs, || {
            black_box(self.run());
        })
    }
}
