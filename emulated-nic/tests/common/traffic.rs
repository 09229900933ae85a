//! Frames given one by one, and what is done to them.
#![allow(dead_code, unreachable_pub)] // a module of each test file, which uses its part

use std::time::Duration;

use emulated_nic::wires::Sink;
use emulated_nic::{FrameBatch, Ingress, Nic, Supply, Variant, Wire, WireError};

use super::*;

/// Brings these frames, then ends. Frames with a `true` have a wrong FCS.
#[derive(Debug)]
pub struct Given {
    pub frames: Vec<(Vec<u8>, bool)>,
    pub next: usize,
    pub patient: bool,
}

impl Ingress for Given {
    fn receive(&mut self, _: Duration, batch: &mut FrameBatch) -> Result<Supply, WireError> {
        while let Some((frame, bad)) = self.frames.get(self.next) {
            if !batch.push(frame) {
                return Ok(Supply::More);
            }
            if *bad {
                batch.spoil_fcs();
            }
            self.next += 1;
        }
        Ok(Supply::End)
    }

    fn is_patient(&self) -> bool {
        self.patient
    }
}

pub fn given(variant: Variant, frames: &[Vec<u8>]) -> (Nic, Driver) {
    given_bad(
        variant,
        frames.iter().map(|f| (f.clone(), false)).collect(),
        true,
    )
}

pub fn given_bad(variant: Variant, frames: Vec<(Vec<u8>, bool)>, patient: bool) -> (Nic, Driver) {
    let ingress = Given {
        frames,
        next: 0,
        patient,
    };
    nic(variant, Wire::new(ingress, Sink::new()))
}

/// Receives `frames` on queue 0 after `settings`.
pub fn receive(frames: &[Vec<u8>], settings: impl FnOnce(&Driver)) -> (Nic, Driver, Vec<Received>) {
    let (mut nic, driver) = given(Variant::I82599, frames);
    let (mut rx, _tx) = driver.set_up(512);
    settings(&driver);
    driver.link();
    nic.run_until_idle(100);
    let seen = rx.drain();
    assert!(nic.wire_counts().is_conserved());
    assert_eq!(nic.faults(), []);
    (nic, driver, seen)
}

pub const HASHES: u32 = 1 << 16 | 1 << 17 | 1 << 20 | 1 << 21 | 1 << 22 | 1 << 23;

/// DPDK's default key, in the registers' byte order.
pub fn rss(driver: &Driver, entries: impl Fn(usize) -> u8) {
    let key = [
        0x6d5a_56da,
        0x255b_0ec2,
        0x4167_253d,
        0x43a3_8fb0,
        0xd0ca_2bcb,
        0xae7b_30b4,
        0x77cb_2da3,
        0x8030_f20c,
        0x6a42_b73b,
        0xbeac_01fa_u32,
    ];
    for (n, word) in (0u32..).zip(key) {
        driver.write(0xeb80 + 4 * n, word.swap_bytes());
    }
    for n in 0..32 {
        let bytes = std::array::from_fn(|i| entries(4 * n + i));
        driver.write(0xeb00 + 4 * n as u32, u32::from_le_bytes(bytes));
    }
    driver.write(MRQC, 1 | HASHES);
}

pub fn tcp(mut p: Vec<u8>) -> Vec<u8> {
    p[23] = 6;
    p[46] = 0x50;
    seal_ip(&mut p, 20);
    seal_l4(&mut p, 14, 6, 16);
    p
}

/// Puts the right checksum into an IPv4 header of `len` bytes.
pub fn seal_ip(p: &mut [u8], len: usize) {
    p[24..26].fill(0);
    let sum = internet_checksum(&p[14..14 + len]);
    p[24..26].copy_from_slice(&sum.to_be_bytes());
}

pub fn tagged(p: &[u8], tag: u16) -> Vec<u8> {
    let mut t = p[..12].to_vec();
    t.extend([0x81, 0x00]);
    t.extend(tag.to_be_bytes());
    t.extend(&p[12..]);
    t
}

pub fn udp6(len: usize) -> Vec<u8> {
    let mut p = udp(60)[..12].to_vec();
    p.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    p.extend(((len - 54) as u16).to_be_bytes());
    p.extend([17, 64]);
    p.extend([1; 16]);
    p.extend([2; 16]);
    p.extend(2794u16.to_be_bytes());
    p.extend(1766u16.to_be_bytes());
    p.extend(((len - 54) as u16).to_be_bytes());
    p.extend([0, 0]);
    p.resize(len, 7);
    let mut covered = p[22..54].to_vec();
    covered.extend([0, 17]);
    covered.extend(((len - 54) as u16).to_be_bytes());
    covered.extend(&p[54..]);
    let sum = internet_checksum(&covered);
    p[60..62].copy_from_slice(&sum.to_be_bytes());
    p
}
