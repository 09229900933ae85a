//! The frame pool and its recycler.
//!
//! A [`FramePool`] owns one DMA region cut into frames and hands each out once. It has one owner and
//! takes no lock. A frame that is dropped anywhere (by a queue that goes away, by an application on
//! another thread) finds its pool by its address and lands in the pool's inbox; the owner empties the
//! inbox when its own stack runs dry. So no path loses a buffer, and the paths that matter do not
//! come here: a dropped packet re-arms its ring slot, and forwarding swaps buffers between two rings
//! through [`Spares`].
#![allow(unsafe_code)]

use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::dma::{DmaDomain, DmaError, DmaRegion};
use crate::frame::{Frame, Geometry};

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PoolError {
    #[error("a frame pool must have 1 to {MAX_FRAMES} frames, not {0}")]
    Count(usize),
    #[error(
        "frames of {} bytes at a stride of {} do not hold headroom, a buffer of {} and the reserve; \
         use one of the ready geometries", .0.capacity, .0.stride, .0.buffer
    )]
    Geometry(Geometry),
    #[error(transparent)]
    Dma(#[from] DmaError),
}

/// Most frames of one pool: 4 GiB in the kernel's geometry.
pub const MAX_FRAMES: usize = 1 << 20;

/// Frames of one geometry and their one owner.
#[derive(Debug)]
pub struct FramePool {
    free: Vec<Frame>,
    traffic: PoolTraffic,
    shared: Arc<Shared>,
}

/// How often frames went through a pool: what recycling in place saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolTraffic {
    /// Frames asked for, those that were not there included.
    pub takes: u64,
    /// Frames given back by the owner.
    pub gives: u64,
    /// Dropped frames that came home by the inbox.
    pub sent_home: u64,
}

/// What outlives the pool for as long as one of its frames is out.
#[derive(Debug)]
struct Shared {
    region: DmaRegion,
    geometry: Geometry,
    delta: u64,
    total: usize,
    /// Length of `inbox.frames`, to look at without the lock.
    waiting: AtomicUsize,
    inbox: Mutex<Inbox>,
}

#[derive(Debug)]
struct Inbox {
    /// Frames that came home, as addresses: a `Frame` in here would be sent home again when dropped.
    frames: Vec<usize>,
    /// How many ever came.
    arrivals: u64,
    /// The pool is gone; how many frames it left behind, those in `frames` included.
    orphaned: Option<usize>,
}

/// Pools with a frame out, ascending by address. Only dropped frames look here.
static POOLS: RwLock<Vec<Arc<Shared>>> = RwLock::new(Vec::new());

impl FramePool {
    /// A pool of `count` frames in memory of its own.
    pub fn new(domain: &DmaDomain, geometry: Geometry, count: usize) -> Result<Self, PoolError> {
        if !geometry.is_valid() {
            return Err(PoolError::Geometry(geometry));
        }
        if count == 0 || count > MAX_FRAMES {
            return Err(PoolError::Count(count));
        }
        let region = domain.allocate_frames(count * geometry.stride)?;
        let base = region.as_ptr();
        let frames = (0..count).map(|i| {
            // SAFETY: `count` strides lie in the region; each buffer is made into a frame once.
            unsafe { Frame::from_raw(base.add(i * geometry.stride), geometry.capacity as u16) }
        });
        // Last in, first out: the lowest addresses leave first.
        let free = frames.rev().collect();
        let inbox = Inbox {
            frames: Vec::with_capacity(count),
            arrivals: 0,
            orphaned: None,
        };
        let inbox = Mutex::new(inbox);
        let delta = domain.delta();
        let waiting = AtomicUsize::new(0);
        let shared = Arc::new(Shared {
            region,
            geometry,
            delta,
            total: count,
            waiting,
            inbox,
        });
        let mut pools = POOLS.write().unwrap_or_else(PoisonError::into_inner);
        let at = pools.partition_point(|p| p.start() < shared.start());
        pools.insert(at, shared.clone());
        Ok(FramePool {
            free,
            traffic: PoolTraffic::default(),
            shared,
        })
    }

    /// Takes a frame, empty and with full headroom; `None` where all are out.
    pub fn take(&mut self) -> Option<Frame> {
        self.traffic.takes += 1;
        if self.free.is_empty() {
            self.collect();
        }
        self.free.pop()
    }

    /// Takes a frame back. One of another pool goes home to that.
    pub fn give(&mut self, mut frame: Frame) {
        self.traffic.gives += 1;
        if self.shared.owns(frame.address()) {
            frame.clear();
            self.free.push(frame);
        }
    }

    /// Frames that are home now, those in the inbox included.
    pub fn available(&self) -> usize {
        self.free.len() + self.shared.waiting.load(Ordering::Acquire)
    }

    /// How often frames went through the pool so far.
    pub fn traffic(&self) -> PoolTraffic {
        PoolTraffic {
            sent_home: self.shared.inbox().arrivals,
            ..self.traffic
        }
    }

    /// Frames that the pool was made with.
    pub fn total(&self) -> usize {
        self.shared.total
    }

    /// Sizes of its frames.
    pub fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    /// The memory of its frames: what a device must be able to reach.
    pub fn region(&self) -> &DmaRegion {
        &self.shared.region
    }

    /// A stack of at most `limit` spare frames of this pool's geometry, empty yet.
    pub fn spares(&self, limit: usize) -> Spares {
        Spares {
            frames: Vec::with_capacity(limit),
            room: self.shared.geometry.room(),
            delta: self.shared.delta,
        }
    }

    fn collect(&mut self) {
        if self.shared.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut inbox = self.shared.inbox();
        let capacity = self.shared.geometry.capacity as u16;
        let home = inbox.frames.drain(..).filter_map(|address| {
            let buf = std::ptr::NonNull::new(address as *mut u8)?;
            // SAFETY: a dropped frame of this pool left its buffer here, and the drain takes it once.
            Some(unsafe { Frame::from_raw(buf, capacity) })
        });
        self.free.extend(home);
        self.shared.waiting.store(0, Ordering::Release);
    }
}

impl Drop for FramePool {
    fn drop(&mut self) {
        // Frames must not be sent home one by one to a pool that ends.
        let home = mem::take(&mut self.free)
            .into_iter()
            .map(mem::forget)
            .count();
        let mut inbox = self.shared.inbox();
        let out = self.shared.total - home;
        inbox.orphaned = Some(out);
        let last = inbox.frames.len() == out;
        drop(inbox);
        if last {
            forget_pool(&self.shared);
        }
    }
}

impl Shared {
    fn start(&self) -> usize {
        self.region.as_ptr().as_ptr() as usize
    }

    fn owns(&self, address: usize) -> bool {
        (self.start()..self.start() + self.region.len()).contains(&address)
    }

    fn inbox(&self) -> std::sync::MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts the buffer of a dropped frame into its pool's inbox.
pub(crate) fn send_home(frame: Frame) {
    let address = frame.address();
    mem::forget(frame);
    let pools = POOLS.read().unwrap_or_else(PoisonError::into_inner);
    let after = pools.partition_point(|p| p.start() <= address);
    let Some(pool) = pools[..after].last().filter(|p| p.owns(address)).cloned() else {
        // A frame is only made by a pool, and its pool is registered until the last is home.
        log::error!("a frame at {address:#x} belongs to no pool");
        return;
    };
    drop(pools);
    let mut inbox = pool.inbox();
    inbox.frames.push(address);
    inbox.arrivals += 1;
    pool.waiting.store(inbox.frames.len(), Ordering::Release);
    let last = inbox.orphaned == Some(inbox.frames.len());
    drop(inbox);
    if last {
        forget_pool(&pool);
    }
}

/// Ends a pool whose owner is gone and whose frames are all home: its memory can go.
fn forget_pool(pool: &Arc<Shared>) {
    let mut pools = POOLS.write().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|p| !Arc::ptr_eq(p, pool));
}

/// A worker's stack of spare frames, all of one size: what [`RxQueue::poll`](crate::RxQueue::poll)
/// re-arms slots with and [`TxQueue::reclaim`](crate::TxQueue::reclaim) fills.
#[derive(Debug)]
pub struct Spares {
    frames: Vec<Frame>,
    /// Bytes of such a frame behind the full headroom.
    room: u16,
    delta: u64,
}

impl Spares {
    /// Takes the frame that came last, while its cache lines are warm.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        self.frames.pop()
    }

    /// Takes the buffer out of `slot`, with its packet, and leaves the frame that came last in its
    /// place. `None`, and the slot is as it was, where there is none.
    #[inline]
    pub(crate) fn swap_into(&mut self, slot: &mut Frame) -> Option<Frame> {
        let last = self.frames.len().checked_sub(1)?;
        let taken = slot.duplicate();
        // SAFETY: there is a frame at `last`, and it is the stack's no more; the one in `slot` is that in
        // `taken` from here on. They are two different places.
        unsafe {
            self.frames.set_len(last);
            ptr::copy_nonoverlapping(self.frames.as_ptr().add(last), slot, 1);
            Some(taken.assume_init())
        }
    }

    /// Adds a frame. One of another size, or past the limit, goes home to its pool instead.
    #[inline]
    pub fn push(&mut self, frame: Frame) {
        if frame.room() == self.room && self.frames.len() < self.frames.capacity() {
            self.frames.push(frame);
        } else {
            drop(frame);
        }
    }

    /// Bytes behind the headroom of its frames.
    #[inline]
    pub(crate) fn frame_room(&self) -> u16 {
        self.room
    }

    /// Takes over all of `frames`, in order. Those of another size, or past the limit, go home. `alike`
    /// says that none is of another size.
    ///
    /// # Safety
    /// `frames` must hold a frame each, `alike` be true of them, and nobody may use what is there
    /// afterwards.
    #[inline]
    pub(crate) unsafe fn adopt(&mut self, frames: &[MaybeUninit<Frame>], alike: bool) {
        let count = frames.len();
        if count > self.room() || !alike {
            for frame in frames {
                // SAFETY: read once, and nobody else's from here on.
                self.push(unsafe { frame.assume_init_read() });
            }
            return;
        }
        let len = self.frames.len();
        // SAFETY: there is room, and the frames are nobody else's from here on.
        unsafe {
            let end = self.frames.as_mut_ptr().add(len);
            ptr::copy_nonoverlapping(frames.as_ptr().cast::<Frame>(), end, count);
            self.frames.set_len(len + count);
        }
    }

    /// Takes frames from `pool` until there are `want`, or the pool is empty. Returns how many there are.
    pub fn refill(&mut self, pool: &mut FramePool, want: usize) -> usize {
        while self.len() < want.min(self.limit()) {
            let Some(frame) = pool.take() else { break };
            self.push(frame);
        }
        self.len()
    }

    /// Gives frames to `pool` until at most `keep` are left.
    pub fn drain_to(&mut self, pool: &mut FramePool, keep: usize) {
        while self.len() > keep {
            match self.frames.pop() {
                Some(frame) => pool.give(frame),
                None => break,
            }
        }
    }

    /// Frames on the stack.
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True where there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// How many more it can take.
    #[inline]
    pub fn room(&self) -> usize {
        self.frames.capacity() - self.frames.len()
    }

    /// Most frames it keeps.
    pub fn limit(&self) -> usize {
        self.frames.capacity()
    }

    /// True where the frames of both have one size and lie in one domain.
    #[inline]
    pub(crate) fn is_like(&self, other: &Spares) -> bool {
        self.room == other.room && self.delta == other.delta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iova::IovaRanges;

    fn domain() -> DmaDomain {
        DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap()
    }

    #[test]
    fn every_frame_leaves_once_and_comes_home() {
        let mut pool = FramePool::new(&domain(), Geometry::KERNEL, 100).unwrap();
        let frames: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((frames.len(), pool.available()), (100, 0));
        let mut starts: Vec<_> = frames.iter().map(Frame::address).collect();
        starts.sort_unstable();
        assert!(
            starts
                .windows(2)
                .all(|w| w[1] - w[0] == Geometry::KERNEL.stride)
        );
        std::thread::spawn(move || drop(frames)).join().unwrap();
        assert_eq!(pool.available(), 100);
        let traffic = PoolTraffic {
            takes: 101,
            gives: 0,
            sent_home: 100,
        };
        assert_eq!(pool.traffic(), traffic, "the last take found none");
        let again: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        again.into_iter().for_each(|f| pool.give(f));
        assert_eq!(pool.available(), 100);
    }

    #[test]
    fn memory_outlives_the_pool_while_a_frame_is_out_and_no_longer() {
        let mut pool = FramePool::new(&domain(), Geometry::SMALL, 8).unwrap();
        let mut frame = pool.take().unwrap();
        let start = pool.shared.start();
        let registered = || POOLS.read().unwrap().iter().any(|p| p.start() == start);
        drop(pool);
        assert!(registered());
        frame.fill(&[7; 2048]).unwrap();
        assert_eq!(frame.data(), [7; 2048]);
        drop(frame);
        assert!(!registered());
    }

    #[test]
    fn spares_keep_to_their_limit_and_geometry() {
        let domain = domain();
        let mut pool = FramePool::new(&domain, Geometry::KERNEL, 8).unwrap();
        let mut other = FramePool::new(&domain, Geometry::SMALL, 1).unwrap();
        let mut spares = pool.spares(4);
        assert_eq!(spares.refill(&mut pool, 100), 4);
        spares.push(pool.take().unwrap());
        assert_eq!(
            (spares.len(), pool.available()),
            (4, 4),
            "the fifth went home"
        );
        spares.pop();
        spares.push(other.take().unwrap());
        assert_eq!(
            (spares.len(), other.available()),
            (3, 1),
            "another geometry went home"
        );
        spares.drain_to(&mut pool, 0);
        drop(spares);
        assert_eq!(pool.available(), 8);
    }

    #[test]
    fn impossible_pools_are_refused() {
        let domain = domain();
        assert!(matches!(
            FramePool::new(&domain, Geometry::KERNEL, 0),
            Err(PoolError::Count(0))
        ));
        let geometry = |stride, capacity, buffer| Geometry {
            stride,
            capacity,
            buffer,
        };
        for bad in [
            geometry(4096, 4096, 4096),
            geometry(4096, 4096, 0),
            geometry(4000, 4000, 2048),
            // Sums and products that wrap around to something small.
            geometry(64, 64, usize::MAX - 575),
            geometry(64, 64, usize::MAX),
            geometry((1 << 63) + 4096, 4096, 2048),
        ] {
            assert!(
                matches!(FramePool::new(&domain, bad, 2), Err(PoolError::Geometry(_))),
                "{bad:?}"
            );
        }
        let narrow = DmaDomain::new(IovaRanges::new([(0, 8 << 20)])).unwrap();
        assert!(matches!(
            FramePool::new(&narrow, Geometry::KERNEL, 100_000),
            Err(PoolError::Dma(DmaError::NoIova { .. }))
        ));
    }

    #[test]
    fn frame_ranges_are_checked() {
        let mut pool = FramePool::new(&domain(), Geometry::KERNEL, 1).unwrap();
        let mut f = pool.take().unwrap();
        assert!(f.set_range(0, 4096).is_ok() && f.set_range(1, 4096).is_err());
        assert!(f.set_range(usize::MAX, 2).is_err());
        assert!(f.set_received(3840) && !f.set_received(3841));
        assert_eq!((f.head(), f.len()), (256, 3840));
    }
}
