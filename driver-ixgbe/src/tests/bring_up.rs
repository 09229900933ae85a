//! Opening and starting: what is asked for, what goes wrong at each wait, and what is written in which
//! order.

use std::time::Duration;

use driver_core::{Link, MacAddr, Port, RssConfig};

use super::*;

fn open_with(id: u16, fault: impl FnOnce(&FakeDevice)) -> Result<IxgbePort, Error> {
    let device = FakeDevice::new(id);
    fault(&device);
    IxgbePort::open(device)
}

/// Message of a port that is opened with `offset` stuck at `value`.
fn opened_with(id: u16, offset: u32, value: u32) -> String {
    error_of(open_with(id, |d| d.stick(offset, value))).to_string()
}

fn start_with(config: &PortConfig, frames: usize, fault: impl FnOnce(&FakeDevice)) -> Error {
    let device = FakeDevice::new(0x10fb);
    let mut port = IxgbePort::open(device.clone()).unwrap();
    let mut pools = [pool(&device, frames)];
    fault(&device);
    let error = error_of(port.start(config, &mut pools));
    assert_eq!(
        pools[0].available(),
        frames,
        "all frames are home after {error}"
    );
    assert!(
        device.state().mapped.is_empty(),
        "nothing stays mapped after {error}"
    );
    error
}

#[test]
fn each_wait_of_the_reset_is_bounded_and_named() {
    let text = opened_with(0x10fb, 0x0, 1 << 26);
    assert!(
        text.contains("reset: CTRL at 0x00000 still reads 0x04000000"),
        "{text}"
    );
    let text = opened_with(0x10fb, 0x1_0010, 1 << 8);
    assert!(text.contains("NVM auto-read: EEC at 0x10010"), "{text}");
    let text = opened_with(0x10fb, 0x2f00, 0x10_8800);
    assert!(
        text.contains("DMA initialisation: RDRXCTL at 0x02f00"),
        "{text}"
    );
    let text = opened_with(0x10fb, 0x1_0140, 1);
    assert!(
        text.contains("semaphore between the ports' drivers: SWSM"),
        "{text}"
    );
    let text = opened_with(0x10fb, 0x1_0140, 0);
    assert!(
        text.contains("semaphore with the firmware (SWESMBI): SWSM"),
        "{text}"
    );
}

#[test]
fn each_wait_of_the_start_is_bounded_and_named() {
    let text = |offset| start_with(&small(), 512, |d| d.stick(offset, 0)).to_string();
    assert!(text(0x1028).contains("enable a receive queue: RXDCTL(0) at 0x01028"));
    assert!(text(0x6028).contains("enable a transmit queue: TXDCTL(0) at 0x06028"));
    assert!(text(0x8d04).contains("quiet the receive path: SECRXSTAT at 0x08d04"));
}

#[test]
fn a_bus_that_stays_busy_is_reset_twice() {
    let resets = |busy: bool| {
        let device = FakeDevice::new(0x10fb);
        if busy {
            device.stick(0x8, 0x8_0000);
        }
        IxgbePort::open(device.clone()).unwrap();
        let state = device.state();
        let is_reset = |w: &&(u32, u32)| w.0 == 0 && w.1 & 1 << 26 != 0;
        state.writes.iter().filter(is_reset).count()
    };
    assert_eq!((resets(false), resets(true)), (1, 2));
}

#[test]
fn what_the_nvm_and_firmware_say_is_heard() {
    assert!(opened_with(0x10fb, 0x1_0010, 1 << 9).contains("no NVM"));
    assert!(opened_with(0x10fb, 0x1_0148, 5 << 19).contains("error 0x05"));
    assert!(opened_with(0x10fb, 0xa204, 0x5544).contains("no station address"));
    assert!(opened_with(0x10fb, 0xa200, 0x3300_0001).contains("no station address"));
    assert!(matches!(
        open_with(0x10ed, |_| ()),
        Err(Error::VirtualFunction { id: 0x10ed, .. })
    ));
    let gone = error_of(open_with(0x10fb, FakeDevice::unplug));
    assert!(gone.to_string().contains("is gone"), "{gone}");
}

#[test]
fn a_device_that_goes_is_an_error_everywhere() {
    let mut b = bench(&small());
    b.device.unplug();
    let gone = |e: Error| assert!(matches!(e, Error::Gone { .. }), "{e}");
    gone(error_of(b.port.stats()));
    gone(error_of(b.port.link()));
    gone(error_of(b.port.wait_link(Duration::from_secs(1))));
    gone(error_of(b.port.set_promiscuous(false)));
}

#[test]
fn queues_left_on_and_locks_left_behind_do_not_stop_us() {
    let port = open_with(0x10fb, |d| {
        d.set(0x1028, 1 << 25);
        d.set(0xd028 + 63 * 0x40, 1 << 25);
        d.set(0x1_0160, 1 << 8 | 1 << 3);
    });
    assert_eq!(port.unwrap().mac().to_string(), "02:00:00:33:44:55");
}

#[test]
fn the_order_of_bring_up_is_the_datasheets() {
    let b = bench(&small());
    let state = b.device.state();
    let at = |what: &str, want: &dyn Fn(u32, u32) -> bool| {
        let found = state.writes.iter().position(|w| want(w.0, w.1));
        found.unwrap_or_else(|| panic!("{what} was not written"))
    };
    let last = |offset: u32| state.writes.iter().rposition(|w| w.0 == offset).unwrap();
    let reset = at("CTRL.RST", &|o, v| o == 0 && v & 1 << 26 != 0);
    assert!(at("EIMC", &|o, v| o == 0x888 && v == 0x7fff_ffff) < reset);
    let off = at("RXEN off", &|o, v| o == 0x3000 && v & 1 == 0);
    let on = at("RXEN on", &|o, v| o == 0x3000 && v & 1 == 1);
    let enabled = at("RXDCTL.ENABLE", &|o, v| o == 0x1028 && v & 1 << 25 != 0);
    assert!(
        off < last(0x5080) && last(0x5080) < on,
        "FCTRL between off and on"
    );
    assert!(reset < enabled && enabled < on);
    let arbiter_off = at("ARBDIS", &|o, v| o == 0x4900 && v & 1 << 6 != 0);
    assert!(arbiter_off < last(0x8120) && last(0x8120) < last(0x4900));
    assert!(
        last(0x4a80) < last(0x6028),
        "DMATXCTL.TE before TXDCTL.ENABLE"
    );
    drop(state);
    let r = |offset| b.device.register(offset);
    assert_eq!(
        r(0x2f00),
        0x0600_880a,
        "RSCFRSTSIZE 0, CRCSTRIP, RSCACKC, FCOE_WRFIX"
    );
    assert_eq!(r(0x100c) & (1 << 12 | 1 << 13 | 1 << 15), 0, "DCA_RXCTRL");
    assert_eq!(
        r(0x1014),
        0x0200_0002,
        "SRRCTL: 2 KiB, advanced, one buffer"
    );
    assert_eq!(r(0x4268), 1522 << 16, "MAXFRS");
    assert_eq!(r(0x4240) & 7, 7, "HLREG0: CRC added and stripped, jumbo");
    assert_eq!(r(0x3c00), 512 << 10, "RXPBSIZE");
    assert_eq!(r(0x18) & 1 << 28, 1 << 28, "DRV_LOAD");
    assert_eq!(r(0x6028) & 0x7f_7f7f, 0x120, "TXDCTL thresholds");
    assert_eq!(r(0x5080) & 0x700, 0x700, "FCTRL: all of it");
    assert_eq!(r(0x8d00) & 2, 0, "SECRXCTRL: open again");
}

#[test]
fn wrong_configurations_are_errors_that_say_so() {
    let refused = |change: fn(&mut PortConfig)| {
        let mut config = small();
        change(&mut config);
        start_with(&config, 512, |_| ())
    };
    assert!(matches!(
        refused(|c| c.queue_pairs = 0),
        Error::QueuePairs {
            asked: 0,
            max: 64,
            ..
        }
    ));
    assert!(matches!(
        refused(|c| c.queue_pairs = 65),
        Error::QueuePairs { .. }
    ));
    for asked in [0, 56, 65, 100, 4104, u32::MAX] {
        let config = PortConfig {
            rx_ring: asked,
            ..small()
        };
        let error = start_with(&config, 512, |_| ());
        assert!(
            matches!(
                error,
                Error::RingSize {
                    which: "receive",
                    ..
                }
            ),
            "{error}"
        );
        let config = PortConfig {
            tx_ring: asked,
            ..small()
        };
        let error = start_with(&config, 512, |_| ());
        assert!(
            matches!(
                error,
                Error::RingSize {
                    which: "transmit",
                    ..
                }
            ),
            "{error}"
        );
    }
    assert!(matches!(
        refused(|c| c.max_frame = 15869),
        Error::MaxFrame { max: 15868, .. }
    ));
    assert!(matches!(
        refused(|c| c.max_frame = 64),
        Error::MaxFrame { .. }
    ));
    assert!(matches!(
        refused(|c| c.rss.table = vec![1]),
        Error::RssQueue { .. }
    ));
    let needed = start_with(&small(), 63, |_| ());
    assert!(matches!(
        needed,
        Error::PoolTooSmall {
            pool: 0,
            needed: 64,
            available: 63
        }
    ));
}

#[test]
fn pools_must_belong_and_fit() {
    let device = FakeDevice::new(0x10fb);
    let mut port = IxgbePort::open(device.clone()).unwrap();
    assert!(matches!(
        error_of(port.start(&small(), &mut [])),
        Error::NoPool
    ));
    let other = FakeDevice::new(0x10fb);
    let mut foreign = [pool(&other, 64)];
    let error = error_of(port.start(&small(), &mut foreign));
    assert!(
        matches!(error, Error::ForeignPool { pool: 0, .. }),
        "{error}"
    );
    let tiny = Geometry {
        stride: 1600,
        capacity: 1599,
        buffer: 1023,
    };
    let mut tiny = [FramePool::new(device.domain(), tiny, 64).unwrap()];
    let error = error_of(port.start(&small(), &mut tiny));
    assert!(
        matches!(error, Error::Buffer { buffer: 1023, .. }),
        "{error}"
    );
}

#[test]
fn queues_are_spread_over_pools() {
    let device = FakeDevice::new(0x1563);
    let mut port = IxgbePort::open(device.clone()).unwrap();
    let mut pools = [pool(&device, 200), pool(&device, 200)];
    let config = PortConfig {
        queue_pairs: 5,
        ..small()
    };
    let error = error_of(port.start(&config, &mut pools[..1]));
    assert!(
        matches!(error, Error::PoolTooSmall { needed: 320, .. }),
        "{error}"
    );
    let pairs = port.start(&config, &mut pools).unwrap();
    assert_eq!((pools[0].available(), pools[1].available()), (8, 72));
    assert!(
        device.register(0x1014) & 1 << 28 != 0,
        "SRRCTL.DROP_EN with several queues"
    );
    drop(pairs);
    assert_eq!((pools[0].available(), pools[1].available()), (200, 200));
}

#[test]
fn sixty_four_queues_start() {
    let device = FakeDevice::new(0x10fb);
    let mut port = IxgbePort::open(device.clone()).unwrap();
    let mut pools = [pool(&device, 64 * 64)];
    let config = PortConfig {
        queue_pairs: 64,
        ..small()
    };
    let pairs = port.start(&config, &mut pools).unwrap();
    assert_eq!(pairs.len(), 64);
    assert!(device.register(0x1028 + 63 * 0x40) & 1 << 25 != 0);
    assert!(device.register(0x6028 + 63 * 0x40) & 1 << 25 != 0);
    assert_eq!(device.tail(63, false), 63);
    let busy = error_of(port.start(&config, &mut pools));
    assert!(matches!(busy, Error::Running { .. }));
    drop(pairs);
    port.stop().unwrap();
    assert_eq!(port.limits().rss_queues, 16);
}

#[test]
fn rss_is_what_was_asked_for() {
    let config = PortConfig {
        queue_pairs: 4,
        rss: RssConfig {
            key: [7; 40],
            table: vec![3, 1],
        },
        ..small()
    };
    let b = bench(&config);
    assert_eq!(b.device.register(0xeb80), 0x0707_0707);
    assert_eq!(b.device.register(0xeb00 + 4 * 31), 0x0103_0103);
}

#[test]
fn filters_reach_the_device() {
    let mut b = bench(&PortConfig {
        promiscuous: false,
        ..small()
    });
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    let group = MacAddr([1, 0, 0x5e, 0, 0, 0xfb]);
    b.port.add_mac(mac).unwrap();
    b.port.add_mac(group).unwrap();
    b.port.add_mac(b.port.mac()).unwrap();
    let r = |offset| b.device.register(offset);
    assert_eq!((r(0xa208), r(0xa20c)), (2, 0x8000_0900));
    assert_eq!((r(0xa608), r(0xa60c)), (1, 0), "its pool");
    assert_eq!((r(0x5200 + 4 * 125), r(0x5090)), (1 << 16, 4));
    assert_eq!(r(0x5080) & 0x700, 0x400, "FCTRL: broadcast only");
    assert_eq!(r(0x3000) & 1, 1, "receiving again");
    b.port.remove_mac(mac).unwrap();
    b.port.remove_mac(group).unwrap();
    let r = |offset| b.device.register(offset);
    assert_eq!((r(0xa20c), r(0x5200 + 4 * 125), r(0x5090)), (0, 0, 0));
    b.port.set_promiscuous(true).unwrap();
    assert_eq!(b.device.register(0x5080) & 0x700, 0x700);
    let own = b.port.mac();
    assert!(matches!(
        b.port.remove_mac(own),
        Err(Error::StationAddress { .. })
    ));
}

#[test]
fn the_link_is_waited_for_and_negotiated_again() {
    let mut b = bench(&small());
    let up = Link {
        up: true,
        speed: 10_000,
    };
    assert_eq!(b.port.wait_link(Duration::from_secs(1)).unwrap(), up);
    b.device.stick(0x42a4, 0x80);
    assert_eq!(b.port.link().unwrap(), Link::default());
    b.device.state().writes.clear();
    let error = error_of(b.port.wait_link(Duration::from_secs(20)));
    let text = error.to_string();
    assert!(
        text.contains("link: LINKS at 0x042a4 still reads 0x00000080 after 20s"),
        "{text}"
    );
    let state = b.device.state();
    let restarts = state
        .writes
        .iter()
        .filter(|w| w.0 == 0x42a0 && w.1 & 1 << 12 != 0);
    assert_eq!(restarts.count(), 2, "after 8 s and 16 s");
}

#[test]
fn a_copper_port_negotiates_through_its_phy() {
    let device = FakeDevice::new(0x1528);
    let mut port = IxgbePort::open(device.clone()).unwrap();
    device.stick(0x42a4, 0);
    let error = error_of(port.wait_link(Duration::from_secs(10)));
    assert!(matches!(error, Error::NoPhy { .. }), "{error}");
    // Whatever is read from it, a PHY is there.
    device.stick(0x4260, 0x0154_0000);
    let error = error_of(port.wait_link(Duration::from_secs(10)));
    assert!(
        matches!(error, Error::Timeout { step: "link", .. }),
        "{error}"
    );
    let restart = (0x4260, 0x154 | 1 << 12 | 1 << 9);
    assert!(device.state().writes.contains(&restart));
    assert_eq!(device.register(0x1_0160), 0, "the semaphore is free again");
    device.stick(0x425c, 1 << 30);
    let text = error_of(port.wait_link(Duration::from_secs(10))).to_string();
    assert!(text.contains("MDIO command to the PHY: MSCA"), "{text}");
    device.unstick(0x42a4);
    assert!(port.wait_link(Duration::from_secs(1)).is_ok());
}
