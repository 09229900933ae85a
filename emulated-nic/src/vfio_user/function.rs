//! A client's view of the NIC: regions, interrupts, mappings, reset.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_MASKABLE,
    VFIO_IRQ_SET_ACTION_MASK, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_UNMASK,
    VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_ERR_IRQ_INDEX,
    VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS,
    VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
    vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend, ServerRegion};

use super::client_memory::{self, Request};
use crate::config_space;
use crate::i82599::interrupts::{Signalling, VECTORS};
use crate::i82599::pci::{IO_BAR, MSIX_BAR, PENDING_OFFSET, REGISTER_BAR};
use crate::memory::Permissions;
use crate::nic::Shared;
use crate::strict::Rule;

/// Where IOADDR and IODATA are in the I/O BAR (82599 datasheet 8.1.2).
const IOADDR: u64 = 0;
const IODATA: u64 = 4;
/// The largest single access of a bus.
const LARGEST_ACCESS: usize = 8;

/// The regions by their VFIO indices.
pub(super) fn regions() -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = [REGISTER_BAR, IO_BAR, MSIX_BAR]
                .iter()
                .find(|bar| bar.index == index as usize)
                .map(|bar| u64::from(bar.size));
            let size = match index {
                VFIO_PCI_CONFIG_REGION_INDEX => config_space::SIZE as u64,
                _ => size.unwrap_or(0),
            };
            let flags = match size {
                0 => 0,
                _ => VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE,
            };
            let region_info = vfio_region_info {
                argsz: size_of::<vfio_region_info>() as u32,
                flags,
                index,
                size,
                ..Default::default()
            };
            ServerRegion {
                region_info,
                sparse_areas: Vec::new(),
                mmap_fd: None,
            }
        })
        .collect()
}

/// The interrupts by their VFIO indices.
pub(super) fn interrupts() -> Vec<IrqInfo> {
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| {
            let (flags, count) = match index {
                VFIO_PCI_INTX_IRQ_INDEX => (VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED, 1),
                VFIO_PCI_MSI_IRQ_INDEX => (0, 1),
                VFIO_PCI_MSIX_IRQ_INDEX => (0, u32::from(VECTORS)),
                _ => (0, 0),
            };
            let flags = match count {
                0 => 0,
                _ => flags | VFIO_IRQ_INFO_EVENTFD,
            };
            IrqInfo {
                index,
                flags,
                count,
            }
        })
        .collect()
}

/// The NIC while a client is attached.
pub(super) struct Function<'a> {
    shared: &'a Shared,
    /// IOADDR: the register that IODATA leads to.
    address: u32,
}

impl<'a> Function<'a> {
    /// The NIC as after power-on: a client finds nothing of the one before.
    pub(super) fn new(shared: &'a Shared) -> Self {
        detach(shared);
        Function { shared, address: 0 }
    }

    fn read32(&self, offset: u64) -> u32 {
        let now = self.shared.access_time();
        self.shared.lock().read(now, offset as u32)
    }

    fn write32(&self, offset: u64, value: u32) {
        let now = self.shared.access_time();
        self.shared.lock().write(now, offset as u32, value);
        self.shared.wake();
    }

    /// Reads from a BAR of 32-bit registers. Narrower reads take their part of one.
    fn read_registers(&self, offset: u64, data: &mut [u8], read: impl Fn(&Self, u64) -> u32) {
        let mut at = offset & !3;
        let mut skip = (offset & 3) as usize;
        let mut rest = data;
        while !rest.is_empty() {
            let word = read(self, at).to_le_bytes();
            let part = &word[skip..];
            let (now, later) = rest.split_at_mut(rest.len().min(part.len()));
            now.copy_from_slice(&part[..now.len()]);
            (at, skip, rest) = (at + 4, 0, later);
        }
    }

    /// Writes whole registers only: the NIC does not take parts of one.
    fn write_registers(&mut self, offset: u64, data: &[u8], write: impl Fn(&mut Self, u64, u32)) {
        let (words, rest) = data.as_chunks::<4>();
        if !offset.is_multiple_of(4) || !rest.is_empty() {
            let mut core = self.shared.lock();
            core.strict.note(Rule::UnalignedAccess, "", 0, offset);
            return;
        }
        for (i, word) in words.iter().enumerate() {
            write(self, offset + 4 * i as u64, u32::from_le_bytes(*word));
        }
    }

    fn read_io(&self, offset: u64) -> u32 {
        match offset {
            IOADDR => self.address,
            IODATA => self.read32(self.address.into()),
            _ => 0,
        }
    }

    fn write_io(&mut self, offset: u64, value: u32) {
        match offset {
            IOADDR => self.address = value,
            IODATA => self.write32(self.address.into(), value),
            _ => {}
        }
    }

    /// Pending bits; the table itself is kept by whoever attached the device.
    fn read_msix(&self, offset: u64) -> u32 {
        let pending = self.shared.vectors.pending();
        match offset.checked_sub(PENDING_OFFSET.into()) {
            Some(0) => pending as u32,
            Some(4) => (pending >> 32) as u32,
            _ => 0,
        }
    }
}

impl Drop for Function<'_> {
    fn drop(&mut self) {
        detach(self.shared);
    }
}

/// Takes everything away that a client has given, and resets the function.
fn detach(shared: &Shared) {
    let now = shared.access_time();
    let mut core = shared.lock();
    core.memory.unmap_all();
    shared.vectors.set_signalling(Signalling::Off);
    core.function_reset(now);
    core.config_reset();
}

/// A region's BAR, where the access lies in it.
fn check(region: u32, offset: u64, len: usize) -> io::Result<()> {
    let size = match region {
        VFIO_PCI_CONFIG_REGION_INDEX => config_space::SIZE as u64,
        _ => [REGISTER_BAR, IO_BAR, MSIX_BAR]
            .iter()
            .find(|bar| bar.index == region as usize)
            .map_or(0, |bar| u64::from(bar.size)),
    };
    let end = offset.checked_add(len as u64);
    let inside = end.is_some_and(|end| end <= size);
    let config = region == VFIO_PCI_CONFIG_REGION_INDEX;
    match inside && len > 0 && (config || len <= LARGEST_ACCESS) {
        true => Ok(()),
        false => Err(Errno::INVAL.into()),
    }
}

impl ServerBackend for Function<'_> {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        check(region, offset, data.len())?;
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            self.shared.lock().config_read(offset, data);
        } else if region as usize == REGISTER_BAR.index {
            self.read_registers(offset, data, Function::read32);
        } else if region as usize == IO_BAR.index {
            self.read_registers(offset, data, Function::read_io);
        } else {
            self.read_registers(offset, data, Function::read_msix);
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        check(region, offset, data.len())?;
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            let now = self.shared.access_time();
            self.shared.lock().config_write(now, offset, data);
            self.shared.wake();
        } else if region as usize == REGISTER_BAR.index {
            self.write_registers(offset, data, |f, at, value| f.write32(at, value));
        } else if region as usize == IO_BAR.index {
            self.write_registers(offset, data, Function::write_io);
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        let request = Request {
            iova: address,
            len: size,
            file: fd,
            offset,
            permissions: Permissions {
                read: flags.contains(DmaMapFlags::READ),
                write: flags.contains(DmaMapFlags::WRITE),
            },
        };
        log::debug!("map {request:x?}");
        client_memory::map(&mut self.shared.lock().memory, request)
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        log::debug!("unmap {size:#x} bytes at {address:#x}, {flags:?}");
        if flags.contains(DmaUnmapFlags::GET_DIRTY_PAGE_INFO) {
            return Err(Errno::NOTSUP.into());
        }
        let memory = &mut self.shared.lock().memory;
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            memory.unmap_all();
            return Ok(());
        }
        client_memory::unmap(memory, address, size)
    }

    fn reset(&mut self) -> io::Result<()> {
        let now = self.shared.access_time();
        let mut core = self.shared.lock();
        if !core.function_reset(now) {
            return Err(Errno::IO.into());
        }
        core.config_reset();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        let (signalling, vectors) = match index {
            VFIO_PCI_INTX_IRQ_INDEX => (Signalling::Intx, 1),
            VFIO_PCI_MSI_IRQ_INDEX => (Signalling::Msi, 1),
            VFIO_PCI_MSIX_IRQ_INDEX => (Signalling::Msix, u32::from(VECTORS)),
            // Errors and requests to release the device: none ever come.
            VFIO_PCI_ERR_IRQ_INDEX..VFIO_PCI_NUM_IRQS => return Ok(()),
            _ => return Err(Errno::INVAL.into()),
        };
        let end = start.checked_add(count).filter(|end| *end <= vectors);
        let range = start as usize..end.ok_or(Errno::INVAL)? as usize;
        let lines = &self.shared.vectors;
        if flags & VFIO_IRQ_SET_ACTION_MASK != 0 {
            if signalling == Signalling::Intx {
                lines.mask_line(true);
            }
            return Ok(());
        }
        if flags & VFIO_IRQ_SET_ACTION_UNMASK != 0 {
            if signalling == Signalling::Intx {
                self.shared.lock().unmask_line();
            }
            return Ok(());
        }
        if flags & VFIO_IRQ_SET_ACTION_TRIGGER == 0 {
            return Err(Errno::INVAL.into());
        }
        if range.is_empty() {
            if lines.signalling() == signalling {
                lines.set_signalling(Signalling::Off);
            }
            return Ok(());
        }
        if flags & VFIO_IRQ_SET_DATA_EVENTFD == 0 {
            range.for_each(|vector| lines.trigger(vector));
            return Ok(());
        }
        if !fds.is_empty() && fds.len() != range.len() {
            return Err(Errno::INVAL.into());
        }
        // One kind at a time, as on a bus.
        if lines.signalling() != signalling {
            lines.set_signalling(signalling);
        }
        let mut fds = fds.into_iter().map(OwnedFd::from);
        range.for_each(|vector| lines.set_fd(vector, fds.next()));
        Ok(())
    }
}
