//! Causes, masks, moderation and vectors.

mod common;

use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use common::*;
use driver_core::DeviceError;
use emulated_nic::wires::{Silence, Sink};
use emulated_nic::{Variant, Wire};

fn fired(fd: BorrowedFd<'_>) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(fd, &mut count) {
        Ok(8) => u64::from_ne_bytes(count),
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::WouldBlock);
            0
        }
        Ok(n) => panic!("{n} bytes"),
    }
}

const EICR: u32 = 0x800;
const EICS: u32 = 0x808;
const EIAC: u32 = 0x810;
const EITR: u32 = 0x820;
const EIMS: u32 = 0x880;
const EIAM: u32 = 0x890;
const GPIE: u32 = 0x898;
const IVAR: u32 = 0x900;
const IVAR_MISC: u32 = 0xa00;
const EIMS_EX: u32 = 0xaa0;
const MSIX: u32 = 1 << 4;
const EIAME: u32 = 1 << 30;

#[test]
fn a_received_frame_fires_its_queues_vector_and_masks_it() {
    let (mut nic, driver) = with_source(100);
    let (mut rx, _tx) = driver.set_up(64);
    driver.write(GPIE, MSIX | EIAME | 1 << 31);
    driver.write(IVAR, 0x83);
    driver.write(EIAC, 1 << 3);
    driver.write(EIAM, 1 << 3);
    driver.write(EIMS, 1 << 3);
    let fd = driver.device.interrupt(3).unwrap();
    driver.link();
    assert_eq!(
        (fired(fd), driver.read(EICR) & 8, driver.read(EIMS) & 8),
        (1, 0, 0)
    );
    assert_eq!(rx.drain().len(), 63);
    nic.step();
    assert_eq!(
        (fired(fd), driver.read(EICR) & 8),
        (0, 8),
        "masked, but the cause is there"
    );
    driver.write(EIMS, 1 << 3);
    assert_eq!(
        (fired(fd), driver.read(EICR) & 8),
        (1, 0),
        "unmasked, it fires at once"
    );
    assert!(matches!(
        driver.device.interrupt(64),
        Err(DeviceError::Vector { count: 64, .. })
    ));
}

#[test]
fn transmit_queues_and_vectors_above_16_and_32() {
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(Silence, Sink::new()));
    let (_rx, _tx) = driver.bring_up(64);
    let mut tx = driver.tx(3, 64);
    driver.write(GPIE, MSIX | EIAME | 1 << 31);
    // Transmit queue 3 is in the upper byte of the upper half of IVAR 1.
    for (vector, mask, bit) in [(20, EIMS_EX, 20), (40, EIMS_EX + 4, 8)] {
        driver.write(IVAR + 4, (0x80 | vector) << 24);
        driver.write(mask, 1 << bit);
        let fd = driver.device.interrupt(vector as u16).unwrap();
        tx.send(&udp(60));
        nic.step();
        assert_eq!(fired(fd), 1, "vector {vector}");
        tx.send(&udp(60));
        nic.step();
        assert_eq!(fired(fd), 1, "these clear themselves");
    }
}

#[test]
fn moderation_spaces_interrupts() {
    let (mut nic, driver) = nic(Variant::I82599, Wire::new(Silence, Sink::new()));
    let (_rx, mut tx) = driver.bring_up(64);
    driver.write(GPIE, MSIX | EIAME | 1 << 31);
    driver.write(IVAR, 0x80 << 8);
    driver.write(EIAC, 1);
    // 49 units of 2.048 us are 100 us.
    driver.write(EITR, 49 << 3);
    driver.write(EIMS, 1);
    let fd = driver.device.interrupt(0).unwrap();
    let mut counts = Vec::new();
    for _ in 0..20 {
        tx.send(&udp(60));
        nic.advance(Duration::from_micros(20));
        counts.push(fired(fd));
    }
    assert_eq!(counts.iter().sum::<u64>(), 4, "{counts:?}");
    assert!(counts.iter().all(|c| *c <= 1));
}

#[test]
fn link_changes_and_software_causes_use_the_other_vector() {
    let (nic, driver) = silent(Variant::I82599);
    driver.reset();
    driver.write(GPIE, MSIX | 1 << 31);
    driver.write(IVAR_MISC, 0x85 << 8);
    driver.write(EIMS, 1 << 20);
    let fd = driver.device.interrupt(5).unwrap();
    driver.link();
    assert_eq!((fired(fd), driver.read(EICR) & 1 << 20), (1, 1 << 20));
    nic.plug(false);
    driver.sleep(ms(1));
    assert_eq!(fired(fd), 0, "the cause was not cleared");
    driver.write(EICR, 1 << 20);
    driver.write(EICS, 1 << 20);
    assert_eq!((fired(fd), driver.read(EICS) & 1 << 20), (1, 1 << 20));
    driver.write(EIMC, 1 << 20);
    driver.write(EICR, u32::MAX);
    driver.write(EICS, 1 << 20);
    assert_eq!((fired(fd), driver.read(EIMS)), (0, 0));
    driver.write(EIMS, 0);
    assert_eq!(driver.read(EIMS), 0);
}

#[test]
fn without_msi_x_reading_the_causes_clears_them() {
    let (_nic, driver) = silent(Variant::I82599);
    driver.reset();
    driver.write(EIMS, 1 << 20 | 1);
    let fd = driver.device.interrupt(0).unwrap();
    driver.write(EICS, 1);
    assert_eq!((fired(fd), driver.read(EICR), driver.read(EICR)), (1, 1, 0));
    driver.write(GPIE, 1 << 5);
    driver.write(EICS, 1 | 1 << 20);
    assert_eq!(
        (driver.read(EICR), driver.read(EICR)),
        (1 | 1 << 20, 1),
        "OCD spares queues"
    );
}
