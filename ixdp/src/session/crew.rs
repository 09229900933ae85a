//! Worker threads, each with its queues, over any port's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use datapath::{Application, Program, Worker, WorkerCounters, spin};
use driver_core::{FramePool, RxQueue, TxQueue, pin_thread};

use super::SessionError;

/// Longest wait for a device to send what is on its transmit rings, at the end.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// Threads that poll.
pub(crate) struct Crew<P, A> {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Retired<P, A>>>>,
    /// Counts of each queue's worker, by queue.
    pub(crate) counters: Vec<Arc<WorkerCounters>>,
}

/// What is left of a worker: its queues are gone.
pub(crate) struct Retired<P, A> {
    queue: u16,
    pub(crate) program: P,
    pub(crate) application: A,
    pub(crate) pool: FramePool,
    pub(crate) counters: Arc<WorkerCounters>,
}

impl<P, A> Crew<P, A>
where
    P: Program + Send + 'static,
    A: Application + Send + 'static,
{
    /// Spreads `workers`, one a queue, over `threads` threads in turn; thread `i` runs on `pin[i]`
    /// where there is one.
    pub(crate) fn start<R, T>(
        workers: Vec<Worker<R, T, P, A>>,
        threads: usize,
        pin: &[usize],
    ) -> Result<Self, SessionError>
    where
        R: RxQueue + 'static,
        T: TxQueue + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let counters = workers.iter().map(|w| w.counters().clone()).collect();
        let threads = threads.clamp(1, workers.len().max(1));
        let mut shares: Vec<_> = (0..threads).map(|_| Vec::new()).collect();
        for (i, worker) in workers.into_iter().enumerate() {
            shares[i % threads].push(worker);
        }
        let (ready, pinned) = mpsc::channel();
        let mut crew = Crew {
            stop: stop.clone(),
            threads: Vec::new(),
            counters,
        };
        for (i, share) in shares.into_iter().enumerate() {
            let (stop, ready, cpu) = (stop.clone(), ready.clone(), pin.get(i).copied());
            let run = move || {
                let result = cpu.map_or(Ok(()), |cpu| {
                    pin_thread(cpu).map_err(|source| SessionError::Pin { cpu, source })
                });
                let _ = ready.send(result);
                // The other end waits until every thread has said how it fares.
                drop(ready);
                work(share, &stop)
            };
            let spawned = thread::Builder::new()
                .name(format!("ixdp-worker-{i}"))
                .spawn(run);
            match spawned {
                Ok(thread) => crew.threads.push(thread),
                Err(source) => {
                    crew.stop()?;
                    return Err(SessionError::Thread(source));
                }
            }
        }
        drop(ready);
        if let Some(error) = pinned.iter().find_map(Result::err) {
            crew.stop()?;
            return Err(error);
        }
        Ok(crew)
    }

    /// Ends the threads: each takes what the device has finished by now, waits for its transmit rings
    /// to run dry, and drops its queues. Gives what is left, by queue.
    pub(crate) fn stop(mut self) -> Result<Vec<Retired<P, A>>, SessionError> {
        self.stop.store(true, Ordering::Relaxed);
        let mut retired = Vec::new();
        let mut lost = false;
        for thread in std::mem::take(&mut self.threads) {
            match thread.join() {
                Ok(share) => retired.extend(share),
                Err(_) => lost = true,
            }
        }
        if lost {
            return Err(SessionError::WorkerPanicked);
        }
        retired.sort_by_key(|r| r.queue);
        Ok(retired)
    }
}

impl<P, A> Crew<P, A> {
    /// Packets that the workers were given so far.
    pub(crate) fn received(&self) -> u64 {
        self.counters.iter().map(|c| c.snapshot().received).sum()
    }
}

impl<P, A> Drop for Crew<P, A> {
    /// A crew that is not stopped ends all the same, and nobody hears what it counted.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work<R, T, P, A>(mut workers: Vec<Worker<R, T, P, A>>, stop: &AtomicBool) -> Vec<Retired<P, A>>
where
    R: RxQueue,
    T: TxQueue,
    P: Program,
    A: Application,
{
    spin(&mut workers, stop);
    let end = Instant::now() + DRAIN_LIMIT;
    while workers.iter_mut().map(Worker::drain).sum::<usize>() > 0 && Instant::now() < end {
        thread::yield_now();
    }
    workers.into_iter().map(retire).collect()
}

/// Ends a worker and its queues.
pub(crate) fn retire<R, T, P, A>(worker: Worker<R, T, P, A>) -> Retired<P, A>
where
    R: RxQueue,
    T: TxQueue,
    P: Program,
    A: Application,
{
    let counters = worker.counters().clone();
    let parts = worker.into_parts();
    let queue = parts.rx.index();
    drop((parts.rx, parts.tx));
    Retired {
        queue,
        program: parts.program,
        application: parts.application,
        pool: parts.pool,
        counters,
    }
}
