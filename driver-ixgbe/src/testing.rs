//! A device for tests: registers in a map with the few behaviours that bring-up waits for, a log of what
//! was written, virtual time, and faults: registers that get stuck, and being gone.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use driver_core::{
    ALL_ONES, Clock, Descriptor, DescriptorRing, Device, DeviceError, DmaDomain, DmaError,
    DmaRegion, Doorbell, Identity, IovaRanges,
};

use crate::family::{self, Family};
use crate::hw::Hw;

/// Tail registers of receive and transmit queues.
const TAILS: usize = 256;

#[derive(Debug)]
pub(crate) struct FakeDevice {
    identity: Identity,
    domain: DmaDomain,
    clock: FakeClock,
    tails: Arc<[AtomicU32]>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    registers: HashMap<u32, u32>,
    /// What was written, in order.
    pub(crate) writes: Vec<(u32, u32)>,
    /// Registers that keep reading as this.
    stuck: HashMap<u32, u32>,
    /// Queue controls whose ENABLE only a reset clears.
    stubborn: Vec<u32>,
    gone: bool,
    /// The function can be reset through its bus.
    pub(crate) bus_reset_works: bool,
    pub(crate) mapped: Vec<DmaRegion>,
}

#[derive(Debug, Default)]
struct FakeClock(Mutex<Duration>);

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }
    fn sleep(&self, span: Duration) {
        *self.0.lock().unwrap() += span;
    }
}

pub(crate) fn family(id: u16) -> &'static Family {
    family::of(FakeDevice::new(id).identity()).unwrap()
}

pub(crate) fn hw(id: u16) -> (Hw, Arc<FakeDevice>) {
    let device = FakeDevice::new(id);
    let family = family(id);
    let hw = Hw {
        device: device.clone(),
        family,
    };
    (hw, device)
}

impl FakeDevice {
    pub(crate) fn new(id: u16) -> Arc<Self> {
        let identity = Identity {
            name: "fake".into(),
            vendor: 0x8086,
            device: id,
            revision: 1,
            bar_size: 0x2_0000,
        };
        let mut state = State {
            bus_reset_works: true,
            ..State::default()
        };
        let registers = [
            (0x0_0008, 0x8_0000),    // STATUS: PCIe requests enabled
            (0x1_0010, 0x300),       // EEC: auto-read done, present
            (0x0_2f00, 0x0010_8808), // RDRXCTL: RSCFRSTSIZE 8, DMA initialised
            (0x0_a200, 0x3300_0002), // RAL(0)
            (0x0_a204, 0x8000_5544), // RAH(0)
            (0x0_42a4, 0x7000_0080), // LINKS: up, 10G
            (0x0_4240, 0x0801_2c0b), // HLREG0
            (0x0_100c, 0x9200),      // DCA_RXCTRL(0)
            (0x0_42a0, 0xc19d_8284), // AUTOC
        ];
        state.registers.extend(registers);
        Arc::new(FakeDevice {
            identity,
            domain: DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap(),
            clock: FakeClock::default(),
            tails: (0..TAILS).map(|_| AtomicU32::new(0)).collect(),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What `offset` holds, without the effects of a read.
    pub(crate) fn register(&self, offset: u32) -> u32 {
        let state = self.state();
        state.registers.get(&offset).copied().unwrap_or(0)
    }

    pub(crate) fn set(&self, offset: u32, value: u32) {
        self.state().registers.insert(offset, value);
    }

    /// From now on `offset` reads as `value`, whatever is written.
    pub(crate) fn stick(&self, offset: u32, value: u32) {
        self.state().stuck.insert(offset, value);
    }

    pub(crate) fn unstick(&self, offset: u32) {
        self.state().stuck.remove(&offset);
    }

    /// The queue whose control is at `offset` stays enabled until the port is reset.
    pub(crate) fn refuse_to_stop(&self, offset: u32) {
        self.state().stubborn.push(offset);
    }

    pub(crate) fn unplug(&self) {
        self.state().gone = true;
    }

    /// The tail last shown for receive queue `q`, or transmit queue `q`.
    pub(crate) fn tail(&self, q: u16, transmit: bool) -> u32 {
        self.tails[usize::from(q) + 128 * usize::from(transmit)].load(Ordering::Acquire)
    }
}

impl Device for FakeDevice {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn read32(&self, offset: u32) -> u32 {
        let mut state = self.state();
        if state.gone {
            return ALL_ONES;
        }
        if let Some(&value) = state.stuck.get(&offset) {
            return value;
        }
        let value = state.registers.get(&offset).copied().unwrap_or(0);
        match offset {
            // SWSM: reading takes SMBI.
            0x1_0140 => drop(state.registers.insert(offset, value | 1)),
            _ if is_counter(offset) => drop(state.registers.insert(offset, 0)),
            _ => {}
        }
        value
    }

    fn write32(&self, offset: u32, value: u32) {
        let mut state = self.state();
        state.writes.push((offset, value));
        let value = match offset {
            // CTRL: RST clears itself, and GIO_DIS clears STATUS bit 19.
            0 => {
                let enabled = if value & 1 << 2 == 0 { 1 << 19 } else { 0 };
                let status = state.registers.entry(8).or_default();
                *status = *status & !(1 << 19) | enabled;
                if value & 1 << 26 != 0 {
                    // All queues are off after it.
                    state.stubborn.clear();
                    state
                        .registers
                        .retain(|at, _| !matches!(at & 0x3f, 0x28) || !in_queue_block(*at));
                    0
                } else {
                    value
                }
            }
            // SECRXCTRL: RX_DIS makes SECRXSTAT ready.
            0x8d00 => {
                state.registers.insert(0x8d04, value >> 1 & 1);
                value
            }
            // MSCA: commands end at once.
            0x425c => value & !(1 << 30),
            _ if state.stubborn.contains(&offset) => value | 1 << 25,
            _ => value,
        };
        state.registers.insert(offset, value);
    }

    fn doorbell(&self, offset: u32) -> Result<Doorbell, DeviceError> {
        let n = match offset {
            0x1000..0x2000 => (offset - 0x1018) / 0x40,
            0xd000..0xe000 => (offset - 0xd018) / 0x40 + 64,
            _ => (offset - 0x6018) / 0x40 + 128,
        };
        Doorbell::in_memory(&self.tails, n as usize).ok_or_else(|| DeviceError::Offset {
            device: self.identity.name.clone(),
            offset,
            size: self.identity.bar_size,
        })
    }

    fn config_read16(&self, _offset: u16) -> Result<u16, DeviceError> {
        Ok(0)
    }

    fn domain(&self) -> &DmaDomain {
        &self.domain
    }

    fn iova_ranges(&self) -> IovaRanges {
        self.domain.ranges().clone()
    }

    fn map(&self, region: &DmaRegion) -> Result<(), DmaError> {
        self.state().mapped.push(region.clone());
        Ok(())
    }

    fn unmap(&self, region: &DmaRegion) {
        self.state().mapped.retain(|r| r.iova() != region.iova());
    }

    fn vectors(&self) -> u16 {
        0
    }

    fn interrupt(&self, vector: u16) -> Result<BorrowedFd<'_>, DeviceError> {
        Err(DeviceError::Vector {
            device: self.identity.name.clone(),
            vector,
            count: 0,
        })
    }

    fn reset(&self) -> Result<(), DeviceError> {
        if self.state().bus_reset_works {
            return Ok(());
        }
        Err(DeviceError::Reset {
            device: self.identity.name.clone(),
            reason: "the test says so".into(),
        })
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }
}

fn in_queue_block(offset: u32) -> bool {
    matches!(offset, 0x1000..0x2000 | 0x6000..0x8000 | 0xd000..0xe000)
}

fn is_counter(offset: u32) -> bool {
    matches!(offset, 0x3fa0..0x3fc0 | 0x4000..0x4124 | 0x3f60..0x3f70)
        || matches!(offset, 0x1000..0x2000 if matches!(offset & 0x3f, 0x30 | 0x34 | 0x38))
}

/// The ring of a queue as the device sees it: from the base and length registers at `block`, in the
/// memory that was mapped for it.
pub(crate) fn ring(device: &FakeDevice, block: u32) -> DescriptorRing {
    let low = u64::from(device.register(block));
    let iova = u64::from(device.register(block + 4)) << 32 | low;
    let count = device.register(block + 8) as usize / size_of::<Descriptor>();
    let state = device.state();
    let holds = |r: &&DmaRegion| (r.iova()..r.iova() + r.len() as u64).contains(&iova);
    let region = state.mapped.iter().find(holds).unwrap();
    DescriptorRing::new(region, (iova - region.iova()) as usize, count).unwrap()
}
