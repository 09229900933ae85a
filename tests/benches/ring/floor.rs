//! Peers in the same run: loops that do as little as can be done on such a ring. They check nothing
//! that the device wrote but the done bit, count nothing and hand out nothing.

use driver_core::{Descriptor, DescriptorRing, DmaDomain, Frame, FramePool, Geometry};

use crate::cases::{BATCH, Case, RING, domain};

/// Done bit of a receive descriptor's second quadword, and of a transmit descriptor's.
const RX_DD: u64 = 1;
const TX_DD: u64 = 1 << 32;

struct Ring {
    ring: DescriptorRing,
    frames: Vec<Frame>,
    next: usize,
}

impl Ring {
    fn new(domain: &DmaDomain, pool: &mut FramePool) -> Result<Self, Box<dyn std::error::Error>> {
        let region = domain.allocate(RING as usize * 16)?;
        let ring = DescriptorRing::new(&region, 0, RING as usize).ok_or("the ring does not fit")?;
        let frames = (0..RING).map_while(|_| pool.take()).collect();
        Ok(Ring {
            ring,
            frames,
            next: 0,
        })
    }
}

/// Receives into slots and re-arms them in place.
pub(crate) struct Recycle {
    rx: Ring,
    delta: u64,
}

impl Recycle {
    pub(crate) fn make() -> Result<Box<dyn Case>, Box<dyn std::error::Error>> {
        let domain = domain()?;
        let mut pool = FramePool::new(&domain, Geometry::KERNEL, RING as usize)?;
        let rx = Ring::new(&domain, &mut pool)?;
        Ok(Box::new(Recycle {
            rx,
            delta: domain.delta(),
        }))
    }
}

impl Case for Recycle {
    fn fill(&mut self) {
        finish_received(self.rx.ring.descriptors(), self.rx.next);
    }

    fn drain(&mut self) -> usize {
        let Recycle { rx, delta } = self;
        let mut packets = 0;
        loop {
            let ring = rx.ring.descriptors()[rx.next..]
                .iter()
                .zip(&rx.frames[rx.next..]);
            let want = ring.len();
            let mut done = 0;
            for (descriptor, frame) in ring {
                if descriptor.load_acquire(1) & RX_DD == 0 {
                    break;
                }
                descriptor.store([frame.receive_iova(*delta), 0]);
                done += 1;
            }
            packets += done;
            rx.next = (rx.next + done) & (RING as usize - 1);
            if done < want {
                return packets;
            }
        }
    }
}

/// Receives into slots and swaps each buffer with the transmit ring's.
pub(crate) struct Forward {
    rx: Ring,
    tx: Ring,
    delta: u64,
}

impl Forward {
    pub(crate) fn make() -> Result<Box<dyn Case>, Box<dyn std::error::Error>> {
        let domain = domain()?;
        let mut pool = FramePool::new(&domain, Geometry::KERNEL, 2 * RING as usize)?;
        let (rx, tx) = (
            Ring::new(&domain, &mut pool)?,
            Ring::new(&domain, &mut pool)?,
        );
        Ok(Box::new(Forward {
            rx,
            tx,
            delta: domain.delta(),
        }))
    }
}

impl Case for Forward {
    fn fill(&mut self) {
        finish_received(self.rx.ring.descriptors(), self.rx.next);
        self.tx
            .ring
            .descriptors()
            .iter()
            .for_each(|d| d.store([0, TX_DD]));
    }

    fn drain(&mut self) -> usize {
        let Forward { rx, tx, delta } = self;
        let mut packets = 0;
        loop {
            let from = rx.ring.descriptors()[rx.next..]
                .iter()
                .zip(&mut rx.frames[rx.next..]);
            let to = tx.ring.descriptors()[rx.next..]
                .iter()
                .zip(&mut tx.frames[rx.next..]);
            let want = from.len();
            let mut done = 0;
            for ((received, frame), (sent, free)) in from.zip(to) {
                let word = received.load_acquire(1);
                if word & RX_DD == 0 {
                    break;
                }
                let len = word >> 32 & 0xffff;
                std::mem::swap(frame, free);
                received.store([frame.receive_iova(*delta), 0]);
                sent.store([free.receive_iova(*delta), len << 46 | len]);
                done += 1;
            }
            packets += done;
            rx.next = (rx.next + done) & (RING as usize - 1);
            if done < want {
                return packets;
            }
        }
    }
}

/// All descriptors but a batch, as a device leaves them: the reader stops at the gap.
fn finish_received(ring: &[Descriptor], next: usize) {
    for i in 0..ring.len() - BATCH {
        ring[(next + i) & (ring.len() - 1)].store([0, 60 << 32 | 3]);
    }
}
