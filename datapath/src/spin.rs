//! The loop of a worker's thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use driver_core::{RxQueue, TxQueue};

use crate::worker::{Application, Program, Worker};

/// Rounds of empty polls after which the thread lets others run: where there are more threads than
/// CPUs, what would fill the rings may be waiting for this one.
const PATIENCE: u32 = 64;

/// Polls `workers` in turn until `stop` is set; then polls on until a round comes back empty, so that
/// what the device had finished by then is counted.
pub fn spin<R, T, P, A>(workers: &mut [Worker<R, T, P, A>], stop: &AtomicBool)
where
    R: RxQueue,
    T: TxQueue,
    P: Program,
    A: Application,
{
    let mut round = || workers.iter_mut().map(Worker::poll).sum::<usize>();
    let mut idle = 0;
    while !stop.load(Ordering::Relaxed) {
        if round() > 0 {
            idle = 0;
        } else if idle < PATIENCE {
            idle += 1;
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
    while round() > 0 {}
}
