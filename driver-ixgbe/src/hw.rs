//! The device under the port: typed register access, bounded waits, and telling one that is gone.

use std::sync::Arc;
use std::time::Duration;

use driver_core::{ALL_ONES, Device, wait_until};

use crate::error::Error;
use crate::family::Family;
use crate::registers::*;

/// A device and its family. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Hw {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) family: &'static Family,
}

/// A wait for a register: what for, how often to look, how long at most, and what to try after.
pub(crate) struct Wait {
    pub(crate) step: &'static str,
    pub(crate) every: Duration,
    pub(crate) limit: Duration,
    pub(crate) remedy: &'static str,
}

impl Hw {
    /// What the user called the device.
    pub(crate) fn name(&self) -> String {
        self.device.identity().name.clone()
    }

    /// Reads a register in which all ones can only mean that nothing answers.
    pub(crate) fn read<A: Readable, V: Value>(&self, register: Register<A, V>) -> Result<V, Error> {
        match self.device.read32(register.offset()) {
            ALL_ONES => Err(self.gone(register.name)),
            bits => Ok(V::from_u32(bits)),
        }
    }

    pub(crate) fn write<A: Writable, V: Value>(&self, register: Register<A, V>, value: V) {
        self.device.write32(register.offset(), value.to_u32());
    }

    /// Reads, changes and writes a register.
    pub(crate) fn modify<V: Value>(
        &self,
        register: Register<Rw, V>,
        change: impl FnOnce(V) -> V,
    ) -> Result<(), Error> {
        let value = self.read(register)?;
        self.write(register, change(value));
        Ok(())
    }

    /// Reads a counter, which clears it. All ones is its ceiling where the device still answers.
    pub(crate) fn take(&self, counter: Register<Rc>) -> Result<u32, Error> {
        let count = self.device.read32(counter.offset());
        if count == ALL_ONES && self.device.read32(STATUS.offset()) == ALL_ONES {
            return Err(self.gone(counter.name));
        }
        Ok(count)
    }

    /// Waits until `done` says so of a register's value, and returns that.
    pub(crate) fn wait<A: Readable, V: Value>(
        &self,
        register: Register<A, V>,
        wait: Wait,
        done: impl Fn(V) -> bool,
    ) -> Result<V, Error> {
        let mut bits = ALL_ONES;
        let ended = wait_until(self.device.clock(), wait.every, wait.limit, || {
            bits = self.device.read32(register.offset());
            bits == ALL_ONES || done(V::from_u32(bits))
        });
        match (bits, ended) {
            (ALL_ONES, _) => Err(self.gone(register.name)),
            (_, true) => Ok(V::from_u32(bits)),
            (_, false) => Err(Error::Timeout {
                device: self.name(),
                step: wait.step,
                register: register.name,
                value: bits,
                limit: wait.limit,
                remedy: wait.remedy,
            }),
        }
    }

    /// Makes sure that the writes before have reached the device, by reading from it.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.read(STATUS).map(drop)
    }

    pub(crate) fn sleep(&self, span: Duration) {
        self.device.clock().sleep(span);
    }

    fn gone(&self, register: RegisterName) -> Error {
        Error::Gone {
            device: self.name(),
            register,
        }
    }
}
