//! The loop of a worker's thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use driver_core::{RxQueue, TxQueue};

use crate::worker::{Application, Program, Worker};

/// Empty polls in a row after which the thread lets others run: where there are more threads than
/// CPUs, what would fill the ring may be waiting for this one.
const PATIENCE: u32 = 64;

/// Polls until `stop` is set; then polls on until a poll comes back empty, so that what the device
/// had finished by then is counted.
pub fn spin<R, T, P, A>(worker: &mut Worker<R, T, P, A>, stop: &AtomicBool)
where
    R: RxQueue,
    T: TxQueue,
    P: Program,
    A: Application,
{
    let mut idle = 0;
    while !stop.load(Ordering::Relaxed) {
        if worker.poll() > 0 {
            idle = 0;
        } else if idle < PATIENCE {
            idle += 1;
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
    while worker.poll() > 0 {}
}
