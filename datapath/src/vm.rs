//! Programs of the VM, as the worker runs them.

use std::sync::Arc;

use driver_core::RxPacket;
use xdp_vm::{Cpu, Executable, Fragment, MAX_FRAGMENTS, TAIL_RESERVE, XdpBuff};

use crate::hints::Hints;
use crate::verdict::Verdict;
use crate::worker::Program;

/// A verified program on one receive queue. Clones of the executable run on other queues at the same
/// time, each with a `Cpu` of its own.
#[derive(Debug)]
pub struct VmProgram {
    executable: Arc<Executable>,
    cpu: Cpu,
    queue: u32,
    /// The program may ask what the device said of the packet.
    reads_metadata: bool,
}

impl VmProgram {
    /// `executable` on receive queue `queue`, which is what it sees as `rx_queue_index`; `cpu` has the
    /// worker's slot.
    pub fn new(executable: Arc<Executable>, cpu: Cpu, queue: u16) -> Self {
        VmProgram {
            reads_metadata: executable.reads_metadata(),
            executable,
            cpu,
            queue: queue.into(),
        }
    }

    /// Its clock, random numbers and trace.
    pub fn cpu(&mut self) -> &mut Cpu {
        &mut self.cpu
    }
}

impl Program for VmProgram {
    /// The program sees the packet's first buffer, and reaches those behind it by helpers. A packet whose
    /// ends were moved to where they cannot be is aborted.
    #[inline]
    fn run(&mut self, packet: &mut RxPacket<'_>) -> u32 {
        if packet.has_fragments() {
            return self.run_on_chain(packet);
        }
        let (head, len) = (packet.head(), packet.data().len());
        let hints = self.reads_metadata.then(|| Hints(packet.raw_metadata()));
        let Ok(mut buff) = XdpBuff::new(packet.buffer_mut(), head, len) else {
            return Verdict::Aborted as u32;
        };
        buff.set_rx(INGRESS, self.queue);
        if let Some(hints) = &hints {
            buff.set_metadata(hints);
        }
        let verdict = self.executable.run(&mut self.cpu, &mut buff);
        let (new_head, new_len) = (buff.data(), buff.len());
        if (new_head, new_len) == (head, len) {
            return verdict;
        }
        if packet.set_range(new_head, new_len).is_err() {
            return Verdict::Aborted as u32;
        }
        verdict
    }
}

impl VmProgram {
    /// As [`Program::run`], on a packet of several buffers. What the program cut off stays in its slots.
    /// One of more buffers than the kernel has for a packet is aborted.
    #[cold]
    fn run_on_chain(&mut self, packet: &mut RxPacket<'_>) -> u32 {
        self.on_chain(packet).unwrap_or(Verdict::Aborted as u32)
    }

    fn on_chain(&mut self, packet: &mut RxPacket<'_>) -> Option<u32> {
        let hints = self.reads_metadata.then(|| Hints(packet.raw_metadata()));
        let mut lens = [0; MAX_FRAGMENTS];
        let (verdict, head, len, left) = {
            let (first, rest) = packet.frames_mut();
            let mut fragments: [Fragment<'_>; MAX_FRAGMENTS] = Default::default();
            let mut count = 0;
            for frame in rest {
                let (head, len, capacity) = (frame.head(), frame.len(), frame.capacity());
                let room = capacity.checked_sub(TAIL_RESERVE)?.max(head + len);
                let buffer = &mut frame.buffer_mut()[..room];
                *fragments.get_mut(count)? = Fragment::new(buffer, head, len).ok()?;
                count += 1;
            }
            let (head, len) = (first.head(), first.len());
            let mut buff = XdpBuff::new(first.buffer_mut(), head, len).ok()?;
            buff.set_rx(INGRESS, self.queue);
            if let Some(hints) = &hints {
                buff.set_metadata(hints);
            }
            buff.set_fragments(&mut fragments[..count]).ok()?;
            let verdict = self.executable.run(&mut self.cpu, &mut buff);
            for (to, fragment) in lens.iter_mut().zip(buff.fragments()) {
                *to = fragment.len();
            }
            (verdict, buff.data(), buff.len(), buff.fragments().len())
        };
        packet.keep_fragments(left);
        let (first, rest) = packet.frames_mut();
        first.set_range(head, len).ok()?;
        for (frame, len) in rest.zip(lens) {
            let head = frame.head();
            frame.set_range(head, len).ok()?;
        }
        Some(verdict)
    }
}

/// What programs see as the interface that a packet came in by, as in the kernel's test runs.
const INGRESS: u32 = 1;
