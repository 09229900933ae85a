//! The device around the packet engines: reset, NVM, semaphores, statistics, devices that refuse, and
//! the two ways to run.

mod common;

use common::*;
use driver_core::{ALL_ONES, DeviceError, DmaDomain, DmaError, IovaRanges, read_present};
use emulated_nic::{Injection, Nic, Variant};

const EERD: u32 = 0x10014;
const EEWR: u32 = 0x10018;
const SWSM: u32 = 0x10140;
const SW_FW_SYNC: u32 = 0x10160;
const UP: u32 = 1 << 30;

#[test]
fn identity_and_configuration_space() {
    for (name, id) in [
        ("82599", 0x10fb),
        ("X520", 0x10fb),
        ("x540", 0x1528),
        ("x550", 0x1563),
    ] {
        let variant: Variant = name.parse().unwrap();
        let (_nic, driver) = silent(variant);
        let identity = driver.device.identity();
        assert_eq!((identity.vendor, identity.device), (0x8086, id));
        assert_eq!(identity.name, format!("emu:{variant}"));
        assert_eq!(driver.device.config_read16(0).unwrap(), 0x8086);
        assert_eq!(driver.device.config_read16(2).unwrap(), id);
        assert_eq!(driver.device.config_read16(0xaa).unwrap() & 1 << 5, 0);
        assert!(matches!(
            driver.device.config_read16(4096),
            Err(DeviceError::Config { .. })
        ));
    }
    let e = "82598".parse::<Variant>().unwrap_err();
    assert!(e.to_string().contains("82598"), "{e}");
    let (nic, driver) = silent(Variant::I82599);
    assert_eq!(driver.device.config_read16(4).unwrap() & 4, 4);
    nic.set_bus_master(false);
    assert_eq!(driver.device.config_read16(4).unwrap() & 4, 0);
}

#[test]
fn a_port_says_which_it_is() {
    let domain = domain();
    let nic = Nic::builder(Variant::I82599)
        .port(1)
        .name("left")
        .build(domain);
    assert_eq!(nic.device().read32(STATUS) >> 2 & 3, 1);
    assert_eq!(nic.device().identity().name, "left");
}

#[test]
fn a_reset_takes_its_time_and_gives_reset_values() {
    let (nic, driver) = silent(Variant::I82599);
    driver.sleep(ms(20));
    driver.write(CTRL_EXT, 1 << 28);
    driver.write(CTRL, 1 << 26);
    driver.sleep(ms(1));
    assert_eq!(driver.read(CTRL) & 1 << 26, 1 << 26, "still going on");
    assert_eq!(driver.read(EEC) & 1 << 9, 0);
    driver.sleep(ms(1));
    assert_eq!(driver.read(CTRL) & 1 << 26, 0);
    assert_eq!(
        (driver.read(EEC) & 1 << 9, driver.read(RDRXCTL)),
        (0, 0x0010_8800)
    );
    driver.sleep(ms(10));
    assert_eq!(
        (driver.read(EEC) >> 8 & 3, driver.read(RDRXCTL)),
        (3, 0x0010_8808)
    );
    let values = [
        (CTRL_EXT, 0),
        (rxq(5, 0x14), 0x402),
        (rxq(77, 0x0c), 0x9200),
        (0x3c00, 512 << 10),
        (0xcc1c, 0xa0 << 10),
        (0x4950, 0x96),
        (DTXMXSZRQ, 0x10),
        (DMATXCTL, 0x8100_0004),
        (RTTDCS, 0x00c0_0000),
        (HLREG0, 0x0801_2c0b),
        (VLNCTRL, 0x8100),
        (FCTRL, 0),
    ];
    for (offset, value) in values {
        assert_eq!(driver.read(offset), value, "{offset:#x}");
    }
    assert_eq!(nic.strict_log(), []);
    for variant in [Variant::X540, Variant::X550] {
        let (_nic, driver) = silent(variant);
        assert_eq!(driver.read(0x3c00), 384 << 10);
    }
}

#[test]
fn memories_hold_noise_after_power_on_and_survive_a_reset() {
    let (_nic, driver) = silent(Variant::I82599);
    let mta = |d: &Driver| (0..128).map(|n| d.read(0x5200 + 4 * n)).collect::<Vec<_>>();
    let before = mta(&driver);
    assert!(before.iter().filter(|w| **w != 0).count() > 100);
    driver.write(0xa000, 0x1234);
    driver.write(CTRL, 1 << 26);
    driver.sleep(ms(20));
    assert_eq!(mta(&driver), before);
    assert_eq!(driver.read(0xa000), 0x1234);
}

#[test]
fn the_station_address_comes_from_the_nvm() {
    let domain = domain();
    let mac = [2, 0xaa, 0xbb, 0xcc, 0xdd, 0xee];
    let nic = Nic::builder(Variant::I82599).mac(mac).build(domain.clone());
    let driver = Driver {
        device: nic.device(),
        domain,
    };
    assert_eq!(driver.read(0xa204) >> 31, 0, "not before the NVM was read");
    driver.reset();
    assert_eq!(
        (driver.read(0xa200), driver.read(0xa204)),
        (0xccbb_aa02, 0x8000_eedd)
    );
    // And by EERD, with a checksum over all.
    let word = |n: u32| {
        driver.write(EERD, n << 2 | 1);
        assert!(driver.wait(EERD, 2, 2));
        (driver.read(EERD) >> 16) as u16
    };
    assert_eq!([word(0), word(1), word(2)], [0xaa02, 0xccbb, 0xeedd]);
    let sum = (0..0x40).fold(0u16, |sum, n| sum.wrapping_add(word(n)));
    assert_eq!(sum, 0xbaba);
    driver.write(EEWR, 0xbeef << 16 | 0x100 << 2 | 1);
    assert!(driver.wait(EEWR, 2, 2));
    assert_eq!(word(0x100), 0xbeef);
    driver.write(EERD, 1);
    assert_eq!(driver.read(EERD) & 2, 0, "a read takes a while");
}

#[test]
fn semaphores() {
    let (nic, driver) = silent(Variant::I82599);
    assert_eq!((driver.read(SWSM) & 1, driver.read(SWSM) & 1), (0, 1));
    driver.write(SWSM, 2);
    assert_eq!(driver.read(SWSM) & 2, 2, "SWESMBI sticks");
    driver.write(SW_FW_SYNC, 1);
    nic.set_firmware_semaphores(1 << 5, true);
    assert_eq!(driver.read(SW_FW_SYNC), 1 | 1 << 5);
    nic.set_firmware_semaphores(1 << 5, false);
    assert_eq!(driver.read(SW_FW_SYNC), 1);
    let (_nic, driver) = silent(Variant::X540);
    let regsmp = |d: &Driver| d.read(SW_FW_SYNC) >> 31;
    assert_eq!(
        (regsmp(&driver), regsmp(&driver)),
        (0, 1),
        "reading sets REGSMP"
    );
    driver.write(SW_FW_SYNC, 0);
    assert_eq!(regsmp(&driver), 0);
}

#[test]
fn gio_disable_stops_the_bus() {
    let (nic, driver) = with_source(10);
    let _queues = driver.set_up(64);
    assert_eq!(driver.read(STATUS) & 1 << 19, 1 << 19);
    driver.write(CTRL, 1 << 2);
    assert_eq!(driver.read(STATUS) & 1 << 19, 0);
    driver.link();
    assert_eq!((nic.wire_counts().delivered, nic.faults()), (0, vec![]));
    driver.write(CTRL, 0);
    driver.sleep(ms(1));
    assert_eq!(nic.wire_counts().delivered, 10);
}

#[test]
fn statistics_add_up() {
    let (mut nic, driver) = with_source(50);
    let (mut rx, mut tx) = driver.set_up(64);
    // Receive queue 0 counts in 3, transmit queue 0 in 9.
    driver.write(0x2300, 3);
    driver.write(0x8600, 9);
    driver.link();
    for r in rx.drain() {
        tx.send(&r.data);
    }
    let mut group = udp(300);
    group[0] = 1;
    tx.send(&group);
    tx.send(&[&[0xff; 6], &udp(60)[6..]].concat());
    nic.step();
    let read = |offset| driver.read(offset);
    // GPRC, PRC64, TPR, RXDGPC, QPRC(3), RXNFGPC
    for offset in [0x4074, 0x405c, 0x40d0, 0x2f50, 0x1030 + 0x40 * 3, 0x41b0] {
        assert_eq!((read(offset), read(offset)), (50, 0), "{offset:#x}");
    }
    // GORC, TOR, QBRC(3), RXDGBC: low, high clears.
    for low in [0x4088, 0x40c0, 0x1034 + 0x40 * 3, 0x2f54] {
        assert_eq!(
            (read(low), read(low), read(low + 4), read(low)),
            (3200, 3200, 0, 0)
        );
    }
    // GPTC, TPT, TXDGPC, QPTC(9) and by its other address
    for offset in [0x4080, 0x40d4, 0x87a0, 0x6030 + 0x40 * 9] {
        assert_eq!(read(offset), 52, "{offset:#x}");
    }
    assert_eq!(read(0x8680 + 4 * 9), 0, "the same counter");
    let sent = 51 * 64 + 304;
    for low in [0x4090, 0x8700 + 8 * 9, 0x87a4] {
        assert_eq!((read(low), read(low + 4), read(low)), (sent, 0, 0));
    }
    // PTC64, PTC511, MPTC, BPTC
    assert_eq!([0x40d8, 0x40e4, 0x40f0, 0x40f4].map(read), [51, 1, 1, 1]);
}

#[test]
fn a_function_level_reset() {
    let (nic, driver) = silent(Variant::I82599);
    let _queues = driver.bring_up(64);
    driver.device.reset().unwrap();
    assert_eq!(
        (driver.read(RXCTRL), driver.read(rxq(0, 0x28)) & ENABLE),
        (0, 0)
    );
    nic.inject(Injection::RefuseReset);
    let e = driver.device.reset().unwrap_err();
    assert!(matches!(e, DeviceError::Reset { .. }), "{e}");
}

#[test]
fn devices_that_refuse() {
    let never = |what: Injection, offset: u32, bits: u32, wanted: u32| {
        let (nic, driver) = silent(Variant::I82599);
        nic.inject(what);
        driver.write(CTRL, 1 << 26);
        driver.sleep(ms(2));
        assert!(!driver.wait(offset, bits, wanted), "{what:?}");
        nic.clear_injections();
        driver.write(CTRL, 1 << 26);
        driver.sleep(ms(2));
        assert!(driver.wait(offset, bits, wanted), "{what:?} is over");
    };
    never(Injection::RefuseReset, CTRL, 1 << 26, 0);
    never(Injection::NoEeprom, EEC, 1 << 9, 1 << 9);
    never(Injection::NoDmaInit, RDRXCTL, 1 << 3, 1 << 3);
    never(Injection::NoLink, LINKS, UP, UP);
    let (nic, driver) = silent(Variant::I82599);
    driver.reset();
    driver.global();
    for (what, offset) in [
        (Injection::HangRxQueue(70), rxq(70, 0x28)),
        (Injection::HangTxQueue(70), txq(70, 0x28)),
    ] {
        nic.inject(what);
        driver.write(offset, ENABLE);
        assert!(!driver.wait(offset, ENABLE, ENABLE), "{what:?}");
        nic.clear_injections();
        driver.write(offset, ENABLE);
        assert!(driver.wait(offset, ENABLE, ENABLE));
    }
    nic.inject(Injection::HangSecurityBlock);
    driver.write(SECRXCTRL, 2);
    assert!(!driver.wait(SECRXSTAT, 1, 1));
}

#[test]
fn a_device_that_is_gone_reads_all_ones() {
    let (nic, driver) = with_source(1000);
    let (mut rx, _tx) = driver.bring_up(64);
    assert!(read_present(&*driver.device, STATUS).is_ok());
    nic.inject(Injection::GoneAt(driver.device.clock().now() + ms(5)));
    assert_ne!(driver.read(STATUS), ALL_ONES);
    driver.sleep(ms(5));
    rx.drain();
    driver.sleep(ms(5));
    assert!(!rx.is_done(), "nothing moves");
    for offset in [STATUS, CTRL, rxq(0, 0x28), 0x7fffc] {
        assert_eq!(driver.read(offset), ALL_ONES);
    }
    assert_eq!(driver.device.config_read16(0).unwrap(), 0xffff);
    let e = read_present(&*driver.device, STATUS).unwrap_err();
    assert!(matches!(e, DeviceError::Gone { .. }));
    assert!(matches!(
        driver.device.reset(),
        Err(DeviceError::Reset { .. })
    ));
}

#[test]
fn doorbells_and_registers_are_the_same_tail() {
    let (mut nic, driver) = silent(Variant::I82599);
    let (rx, tx) = driver.bring_up(64);
    rx.bell.ring(7);
    assert_eq!(driver.read(rxq(0, 0x18)), 7);
    driver.write(rxq(0, 0x18), 9);
    nic.step();
    assert_eq!(driver.read(rxq(0, 0x18)), 9);
    assert!(matches!(
        driver.device.doorbell(rxq(0, 0x10)),
        Err(DeviceError::Offset { .. })
    ));
    assert!(matches!(
        driver.device.doorbell(rxq(0, 0x19)),
        Err(DeviceError::Offset { .. })
    ));
    assert!(driver.device.doorbell(rxq(127, 0x18)).is_ok());
    drop(tx);
}

#[test]
fn tails_may_be_written_as_registers_as_soon_as_their_queue_is_on() {
    let (mut nic, driver) = with_source(10);
    driver.reset();
    driver.global();
    for queue in [rxq(0, 0), txq(0, 0)] {
        let region = driver.region(4096);
        driver.write(queue, region.iova() as u32);
        driver.write(queue + 4, (region.iova() >> 32) as u32);
        driver.write(queue + 8, 1024);
        driver.write(queue + 0x28, ENABLE);
        // No sleep, and so no step, between the two.
        while driver.read(queue + 0x28) & ENABLE == 0 {}
        driver.write(queue + 0x18, 1);
    }
    assert_eq!(
        (driver.read(rxq(0, 0x18)), driver.read(txq(0, 0x18))),
        (1, 1)
    );
    assert_eq!(nic.strict_log(), []);
    nic.step();
    assert_eq!(nic.strict_log(), [], "nothing moves without a link");
}

#[test]
fn memory_that_the_bus_cannot_reach_is_refused() {
    // Where x86 has its interrupts.
    let ranges = IovaRanges::new([(0xfee0_0000, 0xfeff_ffff)]);
    let domain = DmaDomain::new(ranges).unwrap();
    let nic = Nic::builder(Variant::I82599).build(domain.clone());
    let region = domain.allocate(1).unwrap();
    let e = nic.device().map(&region).unwrap_err();
    assert!(
        matches!(
            e,
            DmaError::Unreachable {
                iova: 0xfee0_0000,
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn a_model_goes_from_steps_to_a_thread_and_back() {
    let (nic, driver) = with_source(5000);
    let (mut rx, _tx) = driver.bring_up(64);
    let before = driver.device.clock().now();
    let mut seen = rx.drain().len();
    let running = nic.spawn(Some(0)).unwrap();
    assert!(driver.device.clock().now() >= before);
    while seen < 3000 {
        seen += rx.drain().len();
    }
    let mut nic = running.stop();
    let stopped = driver.device.clock().now();
    assert_eq!(
        driver.device.clock().now(),
        stopped,
        "virtual time stands still"
    );
    while nic.step() || rx.is_done() {
        seen += rx.drain().len();
    }
    assert_eq!((seen, nic.wire_counts().delivered), (5000, 5000));
    assert_eq!(nic.strict_log(), []);
}

#[test]
fn two_runs_of_a_stepped_model_are_the_same() {
    let run = || {
        let (mut nic, driver) = with_source(3000);
        let (mut rx, _tx) = driver.bring_up(64);
        let mut words = Vec::new();
        while nic.step() || rx.is_done() {
            words.extend(rx.drain().iter().map(|r| (r.words, r.data.clone())));
        }
        (words, driver.device.clock().now(), nic.wire_counts())
    };
    assert_eq!(run(), run());
}
