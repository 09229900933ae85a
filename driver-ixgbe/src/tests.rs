//! The driver against a scripted device and hand-written rings.

mod bring_up;
mod receive;
mod shutdown;
mod transmit;

use std::sync::Arc;

use driver_core::{Device, FramePool, Geometry, Port, PortConfig, QueuePairs};

use crate::testing::FakeDevice;
use crate::{Error, IxgbePort};

/// A port with its device, pool and queues.
struct Bench {
    device: Arc<FakeDevice>,
    port: IxgbePort,
    pool: FramePool,
    pairs: QueuePairs<IxgbePort>,
}

fn pool(device: &FakeDevice, frames: usize) -> FramePool {
    FramePool::new(device.domain(), Geometry::SMALL, frames).unwrap()
}

/// A device whose queues are on as soon as they are told to be.
fn bench(config: &PortConfig) -> Bench {
    let device = FakeDevice::new(0x10fb);
    let mut port = IxgbePort::open(device.clone()).unwrap();
    let mut pool = pool(&device, 2048);
    let pairs = port.start(config, std::slice::from_mut(&mut pool)).unwrap();
    Bench {
        device,
        port,
        pool,
        pairs,
    }
}

fn small() -> PortConfig {
    PortConfig {
        rx_ring: 64,
        tx_ring: 64,
        ..PortConfig::default()
    }
}

fn error_of<T>(result: Result<T, Error>) -> Error {
    result.err().expect("this must fail")
}
