//! The link: what the NVM says of it stays, autonegotiation is restarted, and waits for a
//! carrier are bounded, with another try where it does not come.

use std::time::Duration;

use driver_core::{Link, wait_until};

use crate::error::Error;
use crate::family;
use crate::hw::Hw;
use crate::phy;
use crate::registers::*;
use crate::semaphore::{self, Resource};

/// How often to look for a carrier.
const LOOK: Duration = Duration::from_millis(10);
/// After how long without one to try again. Links take up to 8 s, and some never come without that.
const RETRY: Duration = Duration::from_secs(8);

/// What the NVM put into AUTOC and AUTOC2, to be put back after later resets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Original {
    autoc: Autoc,
    autoc2: Autoc2,
}

/// Step 11 of the reset order: remembers what the NVM says of the link, or restores it. A link that
/// the NVM disables (for power saving) is enabled.
pub(crate) fn keep_original(hw: &Hw, original: &mut Option<Original>) -> Result<(), Error> {
    if hw.family.copper {
        return Ok(());
    }
    let autoc2 = hw.read(AUTOC2)?;
    if autoc2.intersects(Autoc2::LINK_DISABLE) {
        hw.write(AUTOC2, autoc2 - Autoc2::LINK_DISABLE);
    }
    let now = Original {
        autoc: hw.read(AUTOC)?,
        autoc2: hw.read(AUTOC2)?,
    };
    let first = *original.get_or_insert(now);
    if now.autoc - Autoc::RESTART_AN != first.autoc - Autoc::RESTART_AN {
        semaphore::with(hw, Resource::MacCsr, |hw| {
            hw.write(AUTOC, first.autoc | Autoc::RESTART_AN);
            Ok(())
        })?;
    }
    if now.autoc2 != first.autoc2 {
        hw.write(AUTOC2, first.autoc2);
    }
    Ok(())
}

/// Starts bringing the link up. The speed and medium are as the NVM programmed them; a 10GBASE-T PHY
/// negotiates by itself.
pub(crate) fn start(hw: &Hw) -> Result<(), Error> {
    if family::has_laser(hw.device.identity()) {
        hw.modify(ESDP, |v| v - Esdp::SDP3)?;
    }
    if hw.family.copper {
        return Ok(());
    }
    restart(hw)
}

/// The link now.
pub(crate) fn now(hw: &Hw) -> Result<Link, Error> {
    // A loss of the link is latched: the first read says what was, the second what is.
    hw.read(LINKS)?;
    Ok(decode(hw.read(LINKS)?, hw.family.multi_gigabit))
}

/// Waits for a carrier, restarting the negotiation where none comes.
pub(crate) fn wait(hw: &Hw, limit: Duration) -> Result<Link, Error> {
    let clock = hw.device.clock();
    let end = clock.now().saturating_add(limit);
    loop {
        let mut last = now(hw);
        let left = end.saturating_sub(clock.now());
        wait_until(clock, LOOK, left.min(RETRY), || {
            last = now(hw);
            !matches!(last, Ok(Link { up: false, .. }))
        });
        let link = last?;
        if link.up {
            return Ok(link);
        }
        if clock.now() >= end {
            return Err(Error::Timeout {
                device: hw.name(),
                step: "link",
                register: LINKS.name,
                value: hw.read(LINKS)?.bits(),
                limit,
                remedy: "check the cable or module and that the other end is up",
            });
        }
        log::info!("{}: no carrier for {RETRY:?}; negotiating again", hw.name());
        restart(hw)?;
    }
}

fn restart(hw: &Hw) -> Result<(), Error> {
    if hw.family.copper {
        let port = (hw.read(STATUS)? & Status::LAN_ID).bits() >> 2;
        return semaphore::with(hw, Resource::Phy(port as u8), phy::restart_negotiation);
    }
    // Management firmware writes AUTOC too.
    semaphore::with(hw, Resource::MacCsr, |hw| {
        hw.modify(AUTOC, |v| v | Autoc::RESTART_AN)
    })
}

fn decode(links: Links, multi_gigabit: bool) -> Link {
    if !links.contains(Links::UP) {
        return Link::default();
    }
    let odd = multi_gigabit && links.contains(Links::NON_STANDARD);
    let speed = match ((links & Links::SPEED).bits() >> 28, odd) {
        (3, false) => 10_000,
        (3, true) => 2_500,
        (2, _) => 1_000,
        (1, false) => 100,
        (1, true) => 5_000,
        _ => 0,
    };
    Link { up: true, speed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_says_up_and_speed() {
        let at = |bits, multi| decode(Links::from_bits_retain(bits), multi);
        let up = |speed| Link { up: true, speed };
        assert_eq!(at(0x7000_0000, false), up(10_000));
        assert_eq!(at(0x6000_0000, false), up(1_000));
        assert_eq!(at(0x5000_0000, false), up(100));
        assert_eq!(at(0x7800_0000, true), up(2_500));
        assert_eq!(at(0x5800_0000, true), up(5_000));
        assert_eq!(at(0x7800_0000, false), up(10_000));
        assert_eq!(at(0x3000_0080, false), Link::default(), "bit 7 is reserved");
    }
}
