//! One direction of a cable: a bounded queue between two NICs, each on its own thread.

use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};

use crate::batch::FrameBatch;
use crate::wire::{Egress, Ingress, Supply, WireError};

/// Bytes of the queue for each frame that it was made for; longer frames share.
const BYTES_PER_FRAME: usize = 256;
/// Before each frame: its length, and whether its checksum (FCS) is wrong.
const HEADER: usize = 3;

/// One direction of a cable with room for about `frames` frames: what the transmitting NIC and what
/// the receiving NIC is plugged into. Where it is full, the transmitter waits.
pub fn pipe(frames: usize) -> (PipeIn, PipeOut) {
    let bytes = frames.max(1) * BYTES_PER_FRAME;
    // A single frame of any length must fit.
    let bytes = bytes.max(HEADER + crate::batch::MAX_FRAME);
    let (producer, consumer) = RingBuffer::new(bytes);
    (PipeIn(producer), PipeOut(consumer))
}

/// Where frames go into the cable.
#[derive(Debug)]
pub struct PipeIn(Producer<u8>);

/// Where frames come out of the cable.
#[derive(Debug)]
pub struct PipeOut(Consumer<u8>);

impl Egress for PipeIn {
    fn transmit(&mut self, _: Duration, batch: &FrameBatch) -> Result<usize, WireError> {
        if self.0.is_abandoned() {
            // Nobody is at the other end: as with an unplugged cable, frames are gone.
            return Ok(batch.len());
        }
        let mut taken = 0;
        for frame in batch.iter() {
            let len = frame.data.len();
            if self.0.slots() < HEADER + len {
                break;
            }
            let [low, high] = (len as u16).to_le_bytes();
            let header = [low, high, u8::from(frame.bad_fcs)];
            let sent = self.0.push_entire_slice(&header).is_ok()
                && self.0.push_entire_slice(frame.data).is_ok();
            debug_assert!(sent, "there was room");
            taken += 1;
        }
        Ok(taken)
    }
}

impl Ingress for PipeOut {
    fn receive(&mut self, _: Duration, batch: &mut FrameBatch) -> Result<Supply, WireError> {
        loop {
            let Some(header) = self.peek() else {
                return Ok(Supply::Later);
            };
            let len = usize::from(u16::from_le_bytes([header[0], header[1]]));
            // The writer shows the header before the frame.
            if self.0.slots() < HEADER + len {
                return Ok(Supply::Later);
            }
            let Some(room) = batch.append(len) else {
                return Ok(Supply::More);
            };
            let mut skipped = [0; HEADER];
            let read = self.0.pop_entire_slice(&mut skipped).is_ok()
                && self.0.pop_entire_slice(room).is_ok();
            debug_assert!(read, "it was there");
            if header[2] != 0 {
                batch.spoil_fcs();
            }
        }
    }
}

impl PipeOut {
    fn peek(&mut self) -> Option<[u8; HEADER]> {
        let chunk = self.0.read_chunk(HEADER).ok()?;
        let (a, b) = chunk.as_slices();
        let mut bytes = a.iter().chain(b).copied();
        let header = [bytes.next()?, bytes.next()?, bytes.next()?];
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pipe_takes_no_more_and_loses_nothing() {
        let (mut input, mut output) = pipe(1);
        let mut batch = FrameBatch::new();
        for n in 0..8u8 {
            assert!(batch.push(&vec![n; 4096]));
        }
        batch.spoil_fcs();
        let (mut seen, mut taken) = (Vec::new(), Vec::new());
        while !batch.is_empty() {
            let n = input.transmit(Duration::ZERO, &batch).unwrap();
            taken.push(n);
            batch.take(n);
            let mut out = FrameBatch::new();
            assert_eq!(
                output.receive(Duration::ZERO, &mut out).unwrap(),
                Supply::Later
            );
            seen.extend(out.iter().map(|f| (f.data.to_vec(), f.bad_fcs)));
        }
        // Three frames of 4 KiB and what goes before them fit into the room for one of 16 KiB.
        assert_eq!(taken, [3, 3, 2]);
        let expected: Vec<_> = (0..8u8).map(|n| (vec![n; 4096], n == 7)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn frames_for_nobody_are_gone() {
        let (mut input, output) = pipe(1);
        drop(output);
        let mut batch = FrameBatch::new();
        batch.push(&[0; 60]);
        assert_eq!(input.transmit(Duration::ZERO, &batch).unwrap(), 1);
    }
}
