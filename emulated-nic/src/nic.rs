//! A NIC to hold: built, stepped by its holder or run on a thread of its own.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use driver_core::{Device, DmaDomain, Identity, IovaRanges, pin_thread};

use crate::counts::WireCounts;
use crate::device::EmulatedDevice;
use crate::i82599::core::{Config, Core, QUEUES};
use crate::i82599::inject::Injection;
use crate::i82599::interrupts::{Interrupts, Vectors};
use crate::i82599::pci::REGISTER_BAR;
use crate::memory::{Doorbells, Fault};
use crate::strict::Violation;
use crate::wire::{Wire, WireError};
use crate::{Undersize, Variant};

/// What each register access costs in virtual time.
const ACCESS_TIME: Duration = Duration::from_nanos(500);
/// Frames that one step moves at most, in each direction.
const STEP_FRAMES: usize = 1 << 16;
/// Frames that the thread moves before it looks whether somebody wants the registers.
const THREAD_FRAMES: usize = 256;
/// Steps without anything to do after which the thread lets others run.
const IDLE_STEPS: u32 = 64;

/// What the model, its device handle and its thread share.
pub(crate) struct Shared {
    pub(crate) identity: Identity,
    pub(crate) domain: DmaDomain,
    pub(crate) ranges: IovaRanges,
    pub(crate) doorbells: Arc<Doorbells>,
    pub(crate) vectors: Arc<Vectors>,
    core: Mutex<Core>,
    /// Callers that want the lock; the thread stands back for them.
    waiting: AtomicU32,
    time: Time,
    idle: Duration,
    /// The thread that runs the model, to be woken when there is something to do.
    thread: Mutex<Option<Thread>>,
}

/// The NIC's clock: virtual, and while a thread runs also driven by the machine's.
struct Time(Mutex<Moment>);

struct Moment {
    /// Virtual nanoseconds, without those since `running`.
    nanos: u64,
    /// When the thread was started that runs now.
    running: Option<Instant>,
}

impl Shared {
    /// The model, for a register access or a look.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        core
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.time.now())
    }

    /// Time that an access takes passes.
    pub(crate) fn access_time(&self) -> Duration {
        if !self.is_threaded() {
            self.time.pass(ACCESS_TIME);
        }
        self.now()
    }

    pub(crate) fn sleep(&self, span: Duration) {
        if self.is_threaded() {
            std::thread::sleep(span);
            return;
        }
        self.time.pass(span);
        let now = self.now();
        self.lock().step(now, STEP_FRAMES);
    }

    /// The model's thread looks at once whether there is something to do.
    pub(crate) fn wake(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*thread {
            thread.unpark();
        }
    }

    fn set_thread(&self, thread: Option<Thread>) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }

    fn is_threaded(&self) -> bool {
        self.time.moment().running.is_some()
    }

    /// Steps until told to stop.
    fn run(&self, stop: &AtomicBool) {
        let mut idle = 0;
        while !stop.load(Ordering::Relaxed) {
            while self.waiting.load(Ordering::Acquire) > 0 {
                std::thread::yield_now();
            }
            let progress = {
                let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
                core.step(self.now(), THREAD_FRAMES)
            };
            idle = if progress { 0 } else { idle + 1 };
            if idle < IDLE_STEPS {
                continue;
            }
            match self.idle {
                Duration::ZERO => std::thread::yield_now(),
                idle => std::thread::park_timeout(idle),
            }
        }
    }
}

impl Time {
    fn new() -> Self {
        let running = None;
        Time(Mutex::new(Moment { nanos: 0, running }))
    }

    fn now(&self) -> u64 {
        self.moment().now()
    }

    /// Lets virtual time pass; at the end of time it stands still.
    fn pass(&self, span: Duration) {
        let span = span.as_nanos().min(u128::from(u64::MAX)) as u64;
        let mut moment = self.moment();
        moment.nanos = moment.nanos.saturating_add(span);
    }

    fn set_threaded(&self, threaded: bool) {
        let mut moment = self.moment();
        moment.nanos = moment.now();
        moment.running = threaded.then(Instant::now);
    }

    fn moment(&self) -> MutexGuard<'_, Moment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Moment {
    fn now(&self) -> u64 {
        let ran = self
            .running
            .map_or(0, |since| since.elapsed().as_nanos() as u64);
        self.nanos.saturating_add(ran)
    }
}

/// What a [`Nic`] is made with.
#[derive(Debug)]
pub struct Builder {
    variant: Variant,
    name: String,
    mac: [u8; 6],
    port: u32,
    undersize: Undersize,
    link_delay: Duration,
    seed: u64,
    idle: Duration,
    wire: Wire,
}

impl Builder {
    fn new(variant: Variant) -> Self {
        Builder {
            variant,
            name: format!("emu:{variant}"),
            mac: [0x02, 0, 0, 0, 0, 0x01],
            port: 0,
            undersize: Undersize::Discard,
            link_delay: match variant {
                Variant::I82599 => Duration::from_millis(500),
                Variant::X540 | Variant::X550 => Duration::from_millis(1500),
            },
            seed: 0,
            idle: Duration::ZERO,
            wire: Wire::silent(),
        }
    }

    /// What its [`Identity`] calls it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The station address in its EEPROM; 02:00:00:00:00:01 if not set.
    pub fn mac(mut self, mac: [u8; 6]) -> Self {
        self.mac = mac;
        self
    }

    /// Which port of its chip it is (STATUS.LAN_ID); 0 to 3.
    pub fn port(mut self, port: u8) -> Self {
        self.port = u32::from(port & 3);
        self
    }

    /// What becomes of frames below 60 bytes.
    pub fn undersize(mut self, undersize: Undersize) -> Self {
        self.undersize = undersize;
        self
    }

    /// How long the link takes to come up: half a second on the 82599, one and a half on the others
    /// if not set.
    pub fn link_delay(mut self, delay: Duration) -> Self {
        self.link_delay = delay;
        self
    }

    /// What its port is plugged into; a silent partner if not set.
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// Seed of what memories hold after power-on.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How long its thread sleeps where there is nothing to do. It is woken when a client of a
    /// [`Server`](crate::vfio_user::Server) writes a register, but not by a driver's doorbell in this
    /// process; not at all if not set.
    pub fn idle(mut self, sleep: Duration) -> Self {
        self.idle = sleep;
        self
    }

    /// The NIC, powered on, at the virtual time 0. Its device maps regions of `domain`.
    pub fn build(self, domain: DmaDomain) -> Nic {
        let doorbells = Arc::new(Doorbells::new(2 * QUEUES));
        let vectors = Arc::new(Vectors::new());
        let config = Config {
            variant: self.variant,
            mac: self.mac,
            port: self.port,
            undersize: self.undersize,
            link_delay: self.link_delay,
            seed: self.seed,
        };
        let interrupts = Interrupts::new(vectors.clone());
        let core = Core::new(config, self.wire, doorbells.clone(), interrupts);
        let identity = Identity {
            name: self.name,
            vendor: 0x8086,
            device: self.variant.device_id(),
            revision: 1,
            bar_size: REGISTER_BAR.size,
        };
        Nic(Monitor(Arc::new(Shared {
            identity,
            domain,
            ranges: IovaRanges::with_address_bits(48),
            doorbells,
            vectors,
            core: Mutex::new(core),
            waiting: AtomicU32::new(0),
            time: Time::new(),
            idle: self.idle,
            thread: Mutex::new(None),
        })))
    }
}

/// An emulated NIC that moves only when it is told to: by [`step`](Self::step), or by a driver's
/// sleeping on its clock. What it can be asked is [`Monitor`]'s.
#[derive(Debug)]
pub struct Nic(Monitor);

impl Nic {
    /// Starts to describe a NIC.
    pub fn builder(variant: Variant) -> Builder {
        Builder::new(variant)
    }

    /// Does what there is to do now: sends what descriptors ask for, fills free descriptors with
    /// what the wire has, at most about 65,000 frames in each direction. True where anything
    /// was done. Time does not pass.
    pub fn step(&mut self) -> bool {
        let now = self.shared().now();
        self.shared().lock().step(now, STEP_FRAMES)
    }

    /// Steps until there is nothing to do, at most `limit` times; returns how often.
    pub fn run_until_idle(&mut self, limit: usize) -> usize {
        (0..limit).take_while(|_| self.step()).count()
    }

    /// Lets time pass, and steps.
    pub fn advance(&mut self, span: Duration) {
        self.shared().sleep(span);
    }

    /// Runs the NIC on a thread of its own, on processor `cpu` if that is given and possible, by the
    /// machine's clock.
    pub fn spawn(self, cpu: Option<usize>) -> std::io::Result<Running> {
        let shared = self.0.0.clone();
        let stop = Arc::new(AtomicBool::new(false));
        shared.lock().thorough = false;
        shared.time.set_threaded(true);
        let (their, flag) = (shared.clone(), stop.clone());
        let spawned = std::thread::Builder::new()
            .name(shared.identity.name.clone())
            .spawn(move || {
                if let Some(cpu) = cpu
                    && let Err(error) = pin_thread(cpu)
                {
                    log::warn!("the model's thread cannot run on CPU {cpu} alone: {error}");
                }
                their.run(&flag);
            });
        match spawned {
            Ok(thread) => {
                shared.set_thread(Some(thread.thread().clone()));
                Ok(Running {
                    monitor: Monitor(shared),
                    stop,
                    thread: Some(thread),
                })
            }
            Err(error) => {
                shared.time.set_threaded(false);
                shared.lock().thorough = true;
                Err(error)
            }
        }
    }
}

impl Deref for Nic {
    type Target = Monitor;

    fn deref(&self) -> &Monitor {
        &self.0
    }
}

/// An emulated NIC on a thread of its own. Dropping it stops the thread.
#[derive(Debug)]
pub struct Running {
    monitor: Monitor,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Stops the thread. The NIC is stepped again, in the state it was in.
    pub fn stop(mut self) -> Nic {
        self.halt();
        Nic(Monitor(self.monitor.0.clone()))
    }

    fn halt(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            self.monitor.0.set_thread(None);
            if thread.join().is_err() {
                log::error!("the thread of {} panicked", self.monitor.0.identity.name);
            }
            self.monitor.0.time.set_threaded(false);
            self.monitor.0.lock().thorough = true;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.halt();
    }
}

impl Deref for Running {
    type Target = Monitor;

    fn deref(&self) -> &Monitor {
        &self.monitor
    }
}

/// What can be asked of a NIC, and done to it from outside, while it runs or not.
pub struct Monitor(Arc<Shared>);

impl Monitor {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// The device that a driver is given.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::new(EmulatedDevice::new(self.0.clone()))
    }

    /// Rules that its driver broke, in order; of very many, the first.
    pub fn strict_log(&self) -> Vec<Violation> {
        self.0.lock().strict.all().0.to_vec()
    }

    /// How many rules its driver broke in all.
    pub fn strict_count(&self) -> u64 {
        self.0.lock().strict.all().1
    }

    /// DMA accesses that did not happen, in order; of very many, the first.
    pub fn faults(&self) -> Vec<Fault> {
        self.0.lock().memory.faults().to_vec()
    }

    /// What became of every frame so far.
    pub fn wire_counts(&self) -> WireCounts {
        let core = self.0.lock();
        WireCounts {
            waiting: core.rx.waiting(),
            tx_waiting: core.tx.waiting(),
            ..core.counts
        }
    }

    /// True where the wire will never bring another frame.
    pub fn wire_has_ended(&self) -> bool {
        self.0.lock().rx.has_ended()
    }

    /// The wire's first error since this was asked last.
    pub fn take_wire_error(&self) -> Option<WireError> {
        self.0.lock().wire_error.take()
    }

    /// Tells the wire that the NIC sends no more, so that what it buffers is written.
    pub fn finish_wire(&self) -> Result<(), WireError> {
        self.0.lock().wire.egress.finish()
    }

    /// Makes the NIC misbehave from now on.
    pub fn inject(&self, what: Injection) {
        self.0.lock().inject.add(what);
    }

    /// Makes it behave again.
    pub fn clear_injections(&self) {
        self.0.lock().inject.clear();
    }

    /// Plugs the cable in or out.
    pub fn plug(&self, plugged: bool) {
        self.0.lock().plug(plugged);
    }

    /// Turns bus mastering on or off, as the PCI command register does.
    pub fn set_bus_master(&self, on: bool) {
        self.0.lock().set_bus_master(on);
    }

    /// Sets or clears bits of SW_FW_SYNC as firmware does (its own are the software's, shifted by 5).
    pub fn set_firmware_semaphores(&self, bits: u32, held: bool) {
        self.0.lock().set_firmware_semaphores(bits, held);
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nic")
            .field("name", &self.0.identity.name)
            .finish_non_exhaustive()
    }
}
