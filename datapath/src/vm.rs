//! Programs of the VM, as the worker runs them.

use std::sync::Arc;

use driver_core::RxPacket;
use xdp_vm::{Cpu, Executable, XdpBuff};

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
    /// The program sees the packet's first buffer; it may move its head, and its tail where there is
    /// no other buffer behind it. A packet whose ends were moved to where they cannot be is aborted.
    #[inline]
    fn run(&mut self, packet: &mut RxPacket<'_>) -> u32 {
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
        // A tail that moved between two buffers would cut bytes out of the middle of the packet.
        let cut = packet.has_fragments() && new_head + new_len != head + len;
        if cut || packet.set_range(new_head, new_len).is_err() {
            return Verdict::Aborted as u32;
        }
        verdict
    }
}

/// What programs see as the interface that a packet came in by, as in the kernel's test runs.
const INGRESS: u32 = 1;
