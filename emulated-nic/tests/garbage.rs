//! Drivers that make no sense: whatever they write, the model neither panics nor loses count.

mod common;

use std::time::Duration;

use common::*;
use emulated_nic::wires::{Shape, Sink, Source, SourceConfig};
use emulated_nic::{Variant, Wire};
use fastrand::Rng;

fn hostile_source(seed: u64, rate: Option<u64>) -> Wire {
    let config = SourceConfig {
        shape: Shape::Hostile(2000),
        limit: Some(20_000),
        seed,
        rate,
        ..SourceConfig::default()
    };
    Wire::new(Source::new(config), Sink::new())
}

/// A word as likely to mean something as to mean nothing.
fn word(random: &mut Rng, regions: &[u64]) -> u32 {
    match random.u8(..6) {
        0 => random.u32(..),
        1 => 1 << random.u8(..32),
        2 => random.u32(..256),
        3 => *random.choice(regions).unwrap() as u32,
        4 => ENABLE,
        _ => 0,
    }
}

#[test]
fn any_value_in_any_register() {
    for seed in 0..12 {
        let mut random = Rng::with_seed(seed);
        let variant = [Variant::I82599, Variant::X540, Variant::X550][seed as usize % 3];
        let rate = random.bool().then_some(2_000_000);
        let (mut nic, driver) = nic(variant, hostile_source(seed, rate));
        let (mut rx, _tx) = driver.bring_up(64);
        let regions = [rx.ring.iova(), rx.frames[0].receive_iova(rx.delta)];
        for _ in 0..2000 {
            // Queue registers come up more often than their share of the space.
            let offset = match random.u8(..5) {
                0 => random.u32(..0x20000) & !3,
                1 => rxq(random.usize(..3), random.u32(..16) * 4),
                2 => txq(random.usize(..3), random.u32(..16) * 4),
                3 => *random
                    .choice([RXCTRL, FCTRL, HLREG0, MRQC, 0x3c00, 0x2f00].iter())
                    .unwrap(),
                _ => 0x800 + random.u32(..0x100) * 4,
            };
            // A reset each few writes would leave nothing to be broken.
            if offset == CTRL && random.u8(..) > 4 {
                continue;
            }
            match random.u8(..4) {
                0 => drop(driver.read(offset)),
                1 => drop(nic.step()),
                2 => driver.sleep(Duration::from_micros(random.u64(..30))),
                _ => driver.write(offset, word(&mut random, &regions)),
            }
        }
        assert!(nic.wire_counts().is_conserved(), "{:?}", nic.wire_counts());
        // And it can be used again.
        driver.write(CTRL, 1 << 26);
        driver.sleep(Duration::from_millis(200));
        assert_eq!(driver.read(rxq(0, 0x28)) & ENABLE, 0);
        rx.next = 0;
    }
}

#[test]
fn any_bits_in_transmit_descriptors() {
    for seed in 0..12 {
        let mut random = Rng::with_seed(seed);
        let (mut nic, driver) = nic(Variant::X550, Wire::echo(64));
        let (mut rx, mut tx) = driver.bring_up(64);
        for _ in 0..200 {
            for _ in 0..random.usize(1..60) {
                let mut second = random.u64(..);
                if random.bool() {
                    // Something like a packet.
                    let len = random.u64(..200);
                    let more = random.u64(..) & (0xff << 36 | 0xff << 24 | 3 << 40);
                    second = DATA | EOP | IFCS | RS | len | len << 46 | more;
                }
                let iova = tx.frames[random.usize(..63)].data_iova(tx.delta);
                let first = if random.u8(..8) == 0 {
                    random.u64(..)
                } else {
                    iova
                };
                tx.put_words([first, second]);
            }
            tx.flush();
            nic.run_until_idle(100);
            rx.drain();
        }
        assert!(nic.wire_counts().is_conserved(), "{:?}", nic.wire_counts());
        assert!(nic.wire_counts().transmitted > 100);
    }
}

#[test]
fn any_addresses_in_receive_descriptors() {
    for seed in 0..10 {
        let mut random = Rng::with_seed(seed);
        let (mut nic, driver) = nic(Variant::I82599, hostile_source(seed, None));
        let (rx, _tx) = driver.bring_up(64);
        for _ in 0..500 {
            let words = [random.u64(..) >> random.u8(..64), random.u64(..)];
            rx.ring.descriptors()[random.usize(..64)].store(words);
            rx.bell.ring(random.u32(..80));
            nic.step();
        }
        assert!(nic.wire_counts().is_conserved());
        assert!(nic.wire_counts().rx_fault > 0 && !nic.faults().is_empty());
    }
}
