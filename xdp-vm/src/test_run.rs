//! A packet in buffers of the shape that the kernel's test run gives it (`BPF_PROG_TEST_RUN` on 4 KiB
//! pages): 256 bytes of headroom, of which 40 are kept; 3,520 bytes linear; the rest in pages.

use thiserror::Error;

use crate::{BuffError, Cpu, Executable, Fragment, MAX_FRAGMENTS, XdpBuff};

const PAGE: usize = 4096;
const HEADROOM: usize = 256;
/// Bytes in the first buffer at most: what headroom and the tail's reserve leave of a page.
const LINEAR: usize = PAGE - HEADROOM - crate::TAIL_RESERVE;
/// Longest packet.
const LONGEST: usize = LINEAR + MAX_FRAGMENTS * PAGE;

/// A packet that programs are run on one after the other, as the kernel's test run does it: what one
/// left is what the next finds.
///
/// ```
/// use xdp_vm::TestPacket;
/// let packet = TestPacket::new(&[0xaa; 9000])?;
/// assert_eq!((packet.linear(), packet.bytes().len()), (3520, 9000));
/// assert!(TestPacket::new(&[0; 13]).is_err());
/// # Ok::<(), xdp_vm::TestPacketError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TestPacket {
    first: Box<[u8; PAGE]>,
    /// Where the metadata, the packet and its linear part's end are in the first buffer.
    meta: usize,
    data: usize,
    end: usize,
    rest: Vec<(Box<[u8; PAGE]>, usize)>,
}

/// A packet that the kernel's test run does not take.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a packet of {len} bytes; a test run takes 14 to {LONGEST}")]
pub struct TestPacketError {
    /// Its bytes.
    pub len: usize,
}

impl TestPacket {
    /// A packet without metadata.
    ///
    /// # Errors
    /// It is shorter than an Ethernet header or longer than all buffers.
    pub fn new(packet: &[u8]) -> Result<Self, TestPacketError> {
        if !(crate::MIN_PACKET..=LONGEST).contains(&packet.len()) {
            return Err(TestPacketError { len: packet.len() });
        }
        let (linear, rest) = packet.split_at(packet.len().min(LINEAR));
        let mut first = Box::new([0; PAGE]);
        first[HEADROOM..HEADROOM + linear.len()].copy_from_slice(linear);
        Ok(TestPacket {
            first,
            meta: HEADROOM,
            data: HEADROOM,
            end: HEADROOM + linear.len(),
            rest: rest
                .chunks(PAGE)
                .map(|piece| {
                    let mut page = Box::new([0; PAGE]);
                    page[..piece.len()].copy_from_slice(piece);
                    (page, piece.len())
                })
                .collect(),
        })
    }

    /// Runs a program on it, and gives what it returned.
    ///
    /// # Errors
    /// Never, as long as programs move the packet's ends by helpers only: its ends lie in its buffers.
    pub fn run(&mut self, program: &Executable, cpu: &mut Cpu) -> Result<u32, BuffError> {
        let mut fragments = self
            .rest
            .iter_mut()
            .map(|(page, len)| Fragment::new(&mut page[..], 0, *len))
            .collect::<Result<Vec<_>, _>>()?;
        let len = self.end - self.data;
        let mut buff = XdpBuff::new(&mut self.first[..], self.data, len)?;
        buff.set_meta(self.data - self.meta)?;
        buff.set_fragments(&mut fragments)?;
        let returned = program.run(cpu, &mut buff);
        self.data = buff.data();
        self.meta = self.data - buff.meta_len();
        self.end = self.data + buff.len();
        let lens: Vec<usize> = buff.fragments().iter().map(Fragment::len).collect();
        self.rest.truncate(lens.len());
        for ((_, len), now) in self.rest.iter_mut().zip(lens) {
            *len = now;
        }
        Ok(returned)
    }

    /// Metadata, then the packet in all its buffers.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.first[self.meta..self.end].to_vec();
        for (page, len) in &self.rest {
            bytes.extend_from_slice(&page[..*len]);
        }
        bytes
    }

    /// Bytes of metadata.
    pub fn meta_len(&self) -> usize {
        self.data - self.meta
    }

    /// Bytes of the packet in its first buffer, which is what the program sees.
    pub fn linear(&self) -> usize {
        self.end - self.data
    }
}
