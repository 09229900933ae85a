//! The host's network.

use std::sync::Arc;

use xdp_vm::{Errno, FibQuery, FibResult, Network};

use crate::Both;

/// A host with one interface, number 9, and one route.
#[derive(Debug)]
struct OnePort;

impl Network for OnePort {
    fn fib_lookup(&self, query: &mut FibQuery, flags: u32) -> Result<FibResult, Errno> {
        assert_eq!(flags, 2);
        if query.ifindex != 9 {
            return Err(Errno::ENODEV);
        }
        query.dmac = [2, 0, 0, 0, 0, query.dst[3]];
        query.tot_len = 1500;
        Ok(FibResult::Success)
    }

    fn mtu(&self, ifindex: u32) -> Option<u32> {
        (ifindex == 9).then_some(1500)
    }
}

pub(crate) fn the_network_answers_for_its_interfaces() {
    let mtu = |ifindex: u32, asked: u32, difference: i32, flags: u32| {
        format!(
            "*(u32 *)(r10 - 4) = {asked}
             r2 = {ifindex}
             r3 = r10
             r3 += -4
             r4 = {difference}
             r5 = {flags}
             call 163
             r1 = *(u32 *)(r10 - 4)
             r1 <<= 8
             r0 += r1
             exit"
        )
    };
    let without = |text: &str| Both::new(text, &[]).run(&[0; 64]).0.cast_signed();
    assert_eq!(without(&mtu(0x7fff_0000, 0, 0, 0)), -19);
    assert_eq!(without(&mtu(0x7fff_0000, 0, 0, 1)), -22);
    let with = |text: &str| {
        let mut program = Both::new(text, &[]);
        program.kernel = None;
        program.cpu.set_network(Arc::new(OnePort));
        program.run(&[0; 64]).0.cast_signed()
    };
    let (fits, not) = (1500 << 8, 1500 << 8 | 1);
    assert_eq!(with(&mtu(8, 0, 0, 0)), -19);
    assert_eq!(with(&mtu(9, 0, 1450, 0)), fits, "64 and 1450 are 1514");
    assert_eq!(with(&mtu(9, 0, 1451, 0)), not);
    assert_eq!(with(&mtu(9, 1500, 0, 0)), fits);
    assert_eq!(with(&mtu(9, 1501, 0, 0)), not);
    assert_eq!(with(&mtu(9, 1501, -1, 0)), fits);

    let route = |family: u32, ifindex: u32, size: u32, flags: u32| {
        let mut text = String::new();
        for at in 1..=8 {
            text += &format!("*(u64 *)(r10 - {}) = 0\n", 8 * at);
        }
        text += &format!(
            "*(u8 *)(r10 - 64) = {family}
             *(u32 *)(r10 - 56) = {ifindex}
             *(u8 *)(r10 - 29) = 77
             r2 = r10
             r2 += -64
             r3 = {size}
             r4 = {flags}
             call 69
             if r0 != 0 goto out
             r0 = *(u8 *)(r10 - 1)
             out:
             exit"
        );
        text
    };
    assert_eq!(without(&route(2, 0x7fff_0000, 64, 0)), -19);
    assert_eq!(without(&route(2, 0x7fff_0000, 63, 0)), -22);
    assert_eq!(without(&route(2, 0x7fff_0000, 64, 0x1000)), -22);
    assert_eq!(without(&route(3, 0x7fff_0000, 64, 0)), -97);
    assert_eq!(with(&route(2, 9, 64, 2)), 77);
    assert_eq!(with(&route(10, 8, 64, 2)), -19);
}
