//! The link: an SFP+ module on the 82599, a PHY behind MDIO on the others.

mod common;

use common::*;
use emulated_nic::Variant;

const AUTOC: u32 = 0x42a0;
const AUTOC2: u32 = 0x42a8;
const ESDP: u32 = 0x20;
const MSCA: u32 = 0x425c;
const MSRWD: u32 = 0x4260;
const UP: u32 = 1 << 30;

#[test]
fn the_link_comes_up_after_a_while_and_down_is_latched() {
    let (nic, driver) = silent(Variant::I82599);
    driver.reset();
    driver.sleep(ms(450));
    assert_eq!(
        (driver.read(LINKS) & UP, driver.read(STATUS) & 1 << 7),
        (0, 0)
    );
    driver.sleep(ms(100));
    let links = driver.read(LINKS);
    assert_eq!((links & UP, links >> 28 & 3), (UP, 3));
    assert_eq!(driver.read(STATUS) & 1 << 7, 1 << 7);
    nic.plug(false);
    nic.plug(true);
    driver.sleep(ms(600));
    assert_eq!((driver.read(LINKS) & UP, driver.read(LINKS) & UP), (0, UP));
}

#[test]
fn the_link_needs_the_right_media_settings() {
    let (_nic, driver) = silent(Variant::I82599);
    driver.reset();
    driver.link();
    let autoc = driver.read(AUTOC);
    assert_eq!(
        (autoc >> 13 & 7, driver.read(AUTOC2) >> 16 & 3),
        (3, 2),
        "10G serial, SFI"
    );
    let after = |driver: &Driver| {
        driver.sleep(ms(600));
        driver.read(LINKS);
        driver.read(LINKS) & UP
    };
    driver.write(AUTOC, autoc & !(7 << 13) | 1 << 13 | 1 << 12);
    assert_eq!(after(&driver), 0, "the parallel interface leads nowhere");
    assert_eq!(
        driver.read(AUTOC) & 1 << 12,
        0,
        "the restart bit clears itself"
    );
    driver.write(AUTOC, autoc | 1 << 12);
    assert_eq!(after(&driver), UP);
    driver.set(AUTOC2, 1 << 28);
    assert_eq!(after(&driver), 0, "link disabled");
    driver.clear(AUTOC2, 7 << 28);
    assert_eq!(after(&driver), UP);
    assert_eq!(driver.read(ESDP) & 4, 4, "a module is in the cage");
    driver.write(ESDP, 1 << 3 | 1 << 11);
    assert_eq!(after(&driver), 0, "laser off");
    driver.write(ESDP, 1 << 11);
    assert_eq!(after(&driver), UP);
    driver.write(AUTOC, autoc | 1 << 12);
    assert_eq!(driver.read(LINKS) & UP, 0, "a restart takes the link down");
}

/// An MDIO frame of this operation: 0 address, 1 write, 2 read and count up, 3 read.
fn mdio(driver: &Driver, operation: u32, device: u32, low: u32) {
    driver.write(MSCA, low | device << 16 | operation << 26 | 1 << 30);
    assert!(driver.wait(MSCA, 1 << 30, 0));
}

fn read_phy(driver: &Driver, device: u32, register: u32) -> u32 {
    mdio(driver, 0, device, register);
    mdio(driver, 3, device, 0);
    driver.read(MSRWD) >> 16
}

fn write_phy(driver: &Driver, device: u32, register: u32, value: u32) {
    mdio(driver, 0, device, register);
    driver.write(MSRWD, value);
    mdio(driver, 1, device, 0);
}

#[test]
fn an_x540_links_by_its_phy() {
    let (_nic, driver) = silent(Variant::X540);
    driver.reset();
    assert_eq!(
        (read_phy(&driver, 1, 2), read_phy(&driver, 1, 3)),
        (0x0154, 0x0200)
    );
    mdio(&driver, 0, 1, 2);
    mdio(&driver, 2, 1, 0);
    mdio(&driver, 3, 1, 0);
    assert_eq!(
        driver.read(MSRWD) >> 16,
        0x0200,
        "reading counts the address up"
    );
    driver.link();
    assert_eq!(driver.read(LINKS) >> 28 & 3, 3);
    assert_eq!(read_phy(&driver, 7, 1) & (1 << 5 | 1 << 2), 1 << 5 | 1 << 2);
    write_phy(&driver, 7, 0x20, 0);
    write_phy(&driver, 7, 0, 1 << 12 | 1 << 9);
    assert_eq!(
        (driver.read(LINKS) & UP, read_phy(&driver, 7, 0)),
        (0, 1 << 12)
    );
    driver.link();
    assert_eq!(
        driver.read(LINKS) >> 28 & 3,
        2,
        "10G is not advertised any more"
    );
    write_phy(&driver, 1, 0, 1 << 11);
    assert_eq!(driver.read(LINKS) & UP, 0, "powered down");
    let (_nic, driver) = silent(Variant::I82599);
    driver.reset();
    assert_eq!(
        read_phy(&driver, 1, 2),
        0xffff,
        "no PHY answers on the 82599"
    );
}
