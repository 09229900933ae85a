//! The worker over queues that are made of plain lists.

use std::collections::VecDeque;
use std::sync::Arc;

use driver_core::{
    Descriptor, DmaDomain, Frame, FramePool, Geometry, IovaRanges, RxCounters, RxMetadata,
    RxPacket, RxQueue, Spares, TxCounters, TxQueue, TxReason, TxReject,
};

use crate::{Application, BatchSize, Discard, Fate, Parts, SkipProgram, Tally, Verdict, Worker};

/// Receives each of `packets` into the first buffers of `slots`, one packet at a time.
struct ListRx {
    slots: Vec<Frame>,
    packets: VecDeque<Vec<u8>>,
    counters: Arc<RxCounters>,
}

impl RxQueue for ListRx {
    fn poll<H: FnMut(RxPacket<'_>)>(
        &mut self,
        budget: usize,
        spares: &mut Spares,
        mut handler: H,
    ) -> usize {
        let mut n = 0;
        while n < budget
            && let Some(packet) = self.packets.pop_front()
        {
            let pieces: Vec<&[u8]> = packet.chunks(Geometry::KERNEL.buffer).collect();
            for (slot, piece) in self.slots.iter_mut().zip(&pieces) {
                slot.fill(piece).unwrap();
            }
            let (first, rest) = self.slots.split_first_mut().unwrap();
            let rest = &mut rest[..pieces.len() - 1];
            // The ring may wrap anywhere in a chain.
            let (a, b) = rest.split_at_mut(rest.len().div_ceil(2));
            self.counters.bytes.add(packet.len() as u64);
            handler(RxPacket::new(
                first,
                [a, b],
                spares,
                &Descriptor::default(),
                |_| RxMetadata::default(),
            ));
            n += 1;
        }
        n
    }

    fn index(&self) -> u16 {
        0
    }

    fn counters(&self) -> &Arc<RxCounters> {
        &self.counters
    }
}

/// Keeps up to `room` frames until they are reclaimed; `sent` remembers their packets.
struct ListTx {
    room: usize,
    ring: Vec<Frame>,
    sent: Vec<Vec<u8>>,
    flushed: usize,
    counters: Arc<TxCounters>,
}

impl TxQueue for ListTx {
    fn enqueue(&mut self, frame: Frame) -> Result<(), TxReject> {
        if frame.len() < 14 {
            return Err(TxReject {
                frame,
                reason: TxReason::Length,
            });
        }
        if self.ring.len() >= self.room {
            return Err(TxReject {
                frame,
                reason: TxReason::Full,
            });
        }
        self.sent.push(frame.data().to_vec());
        self.ring.push(frame);
        Ok(())
    }

    fn enqueue_chain(&mut self, frames: &mut Vec<Frame>) -> Result<(), TxReason> {
        if self.ring.len() + frames.len() > self.room {
            return Err(TxReason::Full);
        }
        let more: Vec<bool> = frames.iter().map(Frame::more).collect();
        assert!(
            more.iter()
                .rev()
                .enumerate()
                .all(|(i, more)| *more == (i > 0)),
            "{more:?}"
        );
        self.sent.push(
            frames
                .iter()
                .flat_map(|f| f.data().iter().copied())
                .collect(),
        );
        self.ring.append(frames);
        Ok(())
    }

    fn flush(&mut self) {
        self.flushed = self.ring.len();
    }

    fn reclaim(&mut self, spares: &mut Spares) -> usize {
        let n = self
            .ring
            .drain(..self.flushed)
            .map(|f| spares.push(f))
            .count();
        self.flushed = 0;
        n
    }

    fn pending(&self) -> usize {
        self.ring.len()
    }

    fn room(&self) -> usize {
        self.room - self.ring.len()
    }

    fn index(&self) -> u16 {
        0
    }

    fn counters(&self) -> &Arc<TxCounters> {
        &self.counters
    }
}

const SLOTS: usize = 8;
const SIZE: BatchSize = BatchSize {
    packets: 4,
    frames_per_packet: 3,
};

fn worker<P: crate::Program, A: Application>(
    packets: &[&[u8]],
    frames: usize,
    tx_room: usize,
    program: P,
    application: A,
) -> Worker<ListRx, ListTx, P, A> {
    let domain = DmaDomain::new(IovaRanges::with_address_bits(39)).unwrap();
    let mut pool = FramePool::new(&domain, Geometry::KERNEL, frames).unwrap();
    let slots = (0..SLOTS).map(|_| pool.take().unwrap()).collect();
    let packets = packets.iter().map(|p| p.to_vec()).collect();
    let rx = ListRx {
        slots,
        packets,
        counters: Arc::default(),
    };
    let tx = ListTx {
        room: tx_room,
        ring: Vec::new(),
        sent: Vec::new(),
        flushed: 0,
        counters: Arc::default(),
    };
    Worker::new((rx, tx), program, application, pool, SIZE)
}

/// Polls until nothing comes, then checks that every packet and every frame is accounted for.
fn finish<P: crate::Program, A: Application>(
    mut worker: Worker<ListRx, ListTx, P, A>,
) -> (Tally, ListTx, A) {
    while worker.poll() > 0 {}
    assert_eq!(worker.drain(), 0);
    let tally = worker.counters().snapshot();
    tally.check().unwrap();
    let Parts {
        rx,
        tx,
        application,
        pool,
        ..
    } = worker.into_parts();
    drop(rx);
    assert_eq!(pool.available(), pool.total(), "every frame is home");
    (tally, tx, application)
}

/// The packet's first byte is the verdict.
fn first_byte(packet: &mut RxPacket<'_>) -> u32 {
    u32::from(packet.data()[0])
}

#[test]
fn each_verdict_has_its_effect() {
    let packets: Vec<Vec<u8>> = (0..7).map(|v| vec![v; 60]).collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let mut seen = Vec::new();
    let application = |packet: RxPacket<'_>| {
        seen.push(packet.data().to_vec());
        true
    };
    let (tally, tx, _) = finish(worker(&packets, 32, 8, first_byte, application));
    assert_eq!((tally.received, tally.bytes), (7, 420));
    assert_eq!(tally.verdicts, [3, 1, 1, 1, 1], "5 and 6 are no verdicts");
    assert_eq!(tally.invalid, 2);
    assert_eq!(seen, [vec![2; 60]]);
    assert_eq!(tx.sent, [vec![3; 60]]);
    assert_eq!(tally.fate(Fate::RedirectFailed), 1);
}

#[test]
fn a_full_transmit_ring_and_a_short_packet_are_counted_and_their_frames_kept() {
    let packets: [&[u8]; 5] = [&[3; 60], &[3; 60], &[3; 60], &[3; 60], &[3; 9]];
    let (tally, tx, _) = finish(worker(&packets, 32, 2, first_byte, Discard));
    assert_eq!(tx.sent.len(), 2);
    assert_eq!(
        tally.fate(Fate::TxFull),
        2,
        "the first poll of four found room for two"
    );
    assert_eq!(tally.fate(Fate::TxLength), 1);
}

#[test]
fn without_spares_the_ring_keeps_its_frames() {
    let packets: [&[u8]; 3] = [&[3; 60], &[2; 60], &[1; 60]];
    let application = |packet: RxPacket<'_>| packet.take().is_some();
    let (tally, tx, _) = finish(worker(&packets, SLOTS, 8, first_byte, application));
    assert_eq!(tx.sent.len(), 0);
    assert_eq!(
        (tally.fate(Fate::TxNoSpare), tally.fate(Fate::PassLost)),
        (1, 1)
    );
}

#[test]
fn a_packet_over_several_buffers_is_sent_and_delivered_whole() {
    let long: Vec<u8> = (0..9000u32)
        .map(|i| if i == 0 { 3 } else { i as u8 })
        .collect();
    let mut passed = long.clone();
    passed[0] = 2;
    let mut seen = Vec::new();
    let application = |packet: RxPacket<'_>| {
        let len = packet.total_len();
        let taken = packet.take_all(|frame| seen.extend_from_slice(frame.data()));
        taken && len == 9000
    };
    let (tally, tx, _) = finish(worker(&[&long, &passed], 32, 8, first_byte, application));
    assert_eq!((tx.sent.len(), tally.fate(Fate::Transmitted)), (1, 1));
    assert!(tx.sent[0] == long && seen == passed);
    let (tally, tx, _) = finish(worker(&[&long], 32, 2, first_byte, Discard));
    assert_eq!(
        (tx.sent.len(), tally.fate(Fate::TxFull)),
        (0, 1),
        "three frames, room for two"
    );
    let (tally, ..) = finish(worker(&[&long], SLOTS + 2, 8, first_byte, Discard));
    assert_eq!(tally.fate(Fate::TxNoSpare), 1, "three frames, two spares");
}

#[test]
fn a_skipped_program_judges_nothing() {
    let packets: [&[u8]; 2] = [&[0; 60], &[1; 60]];
    let (tally, ..) = finish(worker(&packets, 32, 8, SkipProgram, Discard));
    assert_eq!((tally.skipped, tally.verdicts), (2, [0; 5]));
    assert_eq!(tally.fate(Fate::Delivered), 2);
}

#[test]
fn the_application_is_told_verdict_and_length_after_the_program() {
    #[derive(Default)]
    struct Log(Vec<(Verdict, usize)>);
    impl Application for Log {
        fn deliver(&mut self, _: RxPacket<'_>) -> bool {
            true
        }
        fn judged(&mut self, verdict: Verdict, packet: &RxPacket<'_>) {
            self.0.push((verdict, packet.total_len()));
        }
    }
    let trim = |packet: &mut RxPacket<'_>| {
        let (verdict, head) = (first_byte(packet), packet.head());
        packet.set_range(head + 4, 30).unwrap();
        verdict
    };
    let (_, tx, log) = finish(worker(&[&[2; 60], &[3; 64]], 32, 8, trim, Log::default()));
    assert_eq!(log.0, [(Verdict::Pass, 30), (Verdict::Tx, 30)]);
    assert_eq!(tx.sent, [vec![3; 30]]);
}

/// The sample `name`, verified, on queue 0.
fn vm_program(object: &[u8]) -> crate::VmProgram {
    use xdp_vm::{Cpu, Executable, Maps, Object, verifier};
    let object = Object::parse(object).unwrap();
    let program = object.program(None).unwrap();
    let config = verifier::Config::default();
    let (verified, _) = verifier::verify(program, &object.maps, &config).unwrap();
    let maps = Maps::create(&object.maps, 1).unwrap();
    let executable = Arc::new(Executable::new(&verified, &maps).unwrap());
    crate::VmProgram::new(executable, Cpu::new(0), 0)
}

#[test]
fn a_vm_program_moves_the_head_of_a_packet_in_its_slot() {
    let mut tagged = vec![9; 80];
    tagged[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
    let mut popped = tagged.clone();
    popped.drain(12..16);
    let mut passed = Vec::new();
    let program = vm_program(include_bytes!("../../ixdp/programs/vlan_pop.bpf.o"));
    let application = |packet: RxPacket<'_>| {
        passed.push(packet.data().to_vec());
        true
    };
    let _ = finish(worker(&[&tagged, &[7; 60]], 32, 0, program, application));
    assert_eq!(passed, [popped, vec![7; 60]]);
}

/// `trim` cuts by what it sees, the first buffer, down to 128 bytes: so much comes off the packet's end.
#[test]
fn a_tail_moves_through_the_buffers_and_what_is_cut_off_stays_in_its_slot() {
    let buffer = Geometry::KERNEL.buffer;
    let cut = buffer - 128;
    let long: Vec<u8> = (0..9000u32).map(|i| (i * 7) as u8).collect();
    let packets: [&[u8]; 4] = [&[1; 3000], &[2; 4000], &long, &[3; 100]];
    // Frames for the slots and one batch: none may get lost.
    let frames = SLOTS + SIZE.frames();
    let program = vm_program(include_bytes!("../../ixdp/programs/trim.bpf.o"));
    let (tally, tx, _) = finish(worker(&packets, frames, SLOTS, program, Discard));
    assert_eq!(tally.verdict(Verdict::Tx), 4);
    assert_eq!(tally.fate(Fate::Transmitted), 4);
    let kept = [128, 4000 - cut, 9000 - cut, 100];
    let expected: Vec<&[u8]> = packets.iter().zip(kept).map(|(p, n)| &p[..n]).collect();
    assert!(kept[1] < buffer, "its second buffer was cut off");
    assert_eq!(tx.sent, expected);
}
