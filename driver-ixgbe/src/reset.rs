//! Reset and initialisation, in the order of the 82599 datasheet (331520), 4.6.3, 4.6.7 and 4.6.8.
//! Every wait is bounded by the device's clock.

use std::time::Duration;

use crate::error::Error;
use crate::hw::{Hw, Wait};
use crate::registers::*;
use crate::{filter, link, stats};

/// Queues of each direction that the device has, whatever number of them is used.
pub(crate) const DEVICE_QUEUES: u16 = 128;

/// PCI Device Status, and its bit for transactions that are pending.
const PCI_DEVICE_STATUS: u16 = 0xaa;
const TRANSACTIONS_PENDING: u16 = 1 << 5;

const MS: Duration = Duration::from_millis(1);

/// Takes the port from whatever state it is in to one that can be set up: quiet, reset, its tables
/// cleared, and the firmware told that a driver has it.
pub(crate) fn reset(hw: &Hw, original: &mut Option<link::Original>) -> Result<(), Error> {
    // 1. No interrupts while we work, and none left over.
    mask_interrupts(hw)?;
    // 2, 3. Whoever had the port before may have left its queues on.
    stop_receive(hw)?;
    stop_transmit(hw)?;
    // 4 to 7. Quiet the bus, then reset: twice where the bus would not be quiet.
    let pending = !block_bus_mastering(hw)?;
    if pending {
        flush_transmit_path(hw)?;
    }
    port_reset(hw)?;
    if pending {
        port_reset(hw)?;
    }
    hw.sleep(hw.family.reset_settle);
    // 8. The reset has unmasked nothing, but firmware may have.
    mask_interrupts(hw)?;
    // 9, 10. The reset has started the NVM's auto-read and the DMA engine's initialisation.
    wait_nvm(hw)?;
    wait_dma(hw)?;
    // 11. What the NVM says of the link.
    link::keep_original(hw, original)?;
    // 12. Counters count from here on.
    stats::clear(hw)?;
    // 13. Filters are undefined after power-on.
    filter::clear(hw)?;
    // 14. No rate limit for any transmit queue.
    for queue in 0..DEVICE_QUEUES {
        hw.write(RTTDQSEL, u32::from(queue));
        hw.write(RTTDT1C, 0);
        hw.write(RTTBCNRC, 0);
    }
    // 15. Snooping stays on where the platform needs it; the firmware is to leave the port to us.
    hw.modify(CTRL_EXT, |v| v | CtrlExt::NS_DIS | CtrlExt::DRV_LOAD)?;
    // 16. Write-backs and packet data must not overtake each other: no relaxed ordering. The receive
    //     queues' bit 12 starts as 1 and must be written 0.
    for queue in 0..DEVICE_QUEUES {
        hw.modify(DCA_TXCTRL(queue), |v| v - DcaTxctrl::WRITE_BACK_RO)?;
        hw.modify(DCA_RXCTRL(queue), |v| {
            v - DcaRxctrl::MUST_CLEAR - DcaRxctrl::DATA_WRITE_RO - DcaRxctrl::HEADER_WRITE_RO
        })?;
    }
    Ok(())
}

/// Steps 1 and 8. EIMC bit 31 is reserved.
pub(crate) fn mask_interrupts(hw: &Hw) -> Result<(), Error> {
    hw.write(EIMC, 0x7fff_ffff);
    hw.write(EIMC_EX(0), u32::MAX);
    hw.write(EIMC_EX(1), u32::MAX);
    // Reading drops the causes that came before.
    hw.read(EICR).map(drop)
}

/// Step 2: receive side off, queue by queue. A queue that does not stop now is stopped by the reset:
/// none of its memory is ours.
fn stop_receive(hw: &Hw) -> Result<(), Error> {
    hw.modify(RXCTRL, |v| v - Rxctrl::RXEN)?;
    for queue in 0..DEVICE_QUEUES {
        if hw.read(RXDCTL(queue))?.contains(Rxdctl::ENABLE) {
            hw.modify(RXDCTL(queue), |v| v - Rxdctl::ENABLE)?;
            let wait = Wait {
                step: "stop receive queues left on",
                every: MS,
                limit: 10 * MS,
                remedy: "the reset will stop it",
            };
            match hw.wait(RXDCTL(queue), wait, |v| !v.contains(Rxdctl::ENABLE)) {
                Ok(_) => {}
                Err(error @ Error::Timeout { .. }) => log::debug!("{error}"),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Step 3: transmit queues off; what they hold is flushed.
fn stop_transmit(hw: &Hw) -> Result<(), Error> {
    for queue in 0..DEVICE_QUEUES {
        hw.write(TXDCTL(queue), Txdctl::SWFLSH);
    }
    hw.flush()?;
    hw.sleep(2 * MS);
    Ok(())
}

/// Step 4: no new PCIe requests. False where requests stay pending, which is to be expected with flow
/// control or without a link; the reset is then done twice.
fn block_bus_mastering(hw: &Hw) -> Result<bool, Error> {
    hw.modify(CTRL, |v| v | Ctrl::GIO_DIS)?;
    let wait = Wait {
        step: "block bus mastering",
        every: Duration::from_micros(100),
        limit: 80 * MS,
        remedy: "resetting twice",
    };
    match hw.wait(STATUS, wait, |v| !v.contains(Status::GIO)) {
        Ok(_) => Ok(true),
        Err(error @ Error::Timeout { .. }) => {
            log::debug!("{error}");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Steps 5 and 6: let what is in the transmit path run into the loopback, and drop it.
fn flush_transmit_path(hw: &Hw) -> Result<(), Error> {
    let hlreg0 = hw.read(HLREG0)?;
    hw.write(HLREG0, hlreg0 | Hlreg0::LPBK);
    hw.modify(RXCTRL, |v| v - Rxctrl::RXEN)?;
    hw.flush()?;
    hw.sleep(3 * MS);
    if hw.family.pending_in_config {
        let clock = hw.device.clock();
        let end = clock.now() + 80 * MS;
        while hw.device.config_read16(PCI_DEVICE_STATUS)? & TRANSACTIONS_PENDING != 0 {
            if clock.now() >= end {
                log::warn!(
                    "{}: PCIe transactions are still pending before the reset",
                    hw.name()
                );
                break;
            }
            clock.sleep(Duration::from_micros(100));
        }
    }
    let gcr_ext = hw.read(GCR_EXT)?;
    hw.write(GCR_EXT, gcr_ext | GcrExt::BUFFERS_CLEAR);
    hw.flush()?;
    hw.sleep(Duration::from_micros(20));
    hw.write(GCR_EXT, gcr_ext);
    hw.write(HLREG0, hlreg0);
    Ok(())
}

/// Step 7: the reset itself, of the MAC and not of the link: management may be using that. No
/// register may be touched in the millisecond after. Stops all DMA.
pub(crate) fn port_reset(hw: &Hw) -> Result<(), Error> {
    hw.modify(CTRL, |v| v | Ctrl::RST)?;
    hw.sleep(2 * MS);
    let wait = Wait {
        step: "reset",
        every: MS,
        limit: 10 * MS,
        remedy: "reset the function through its bus, or power the card off and on",
    };
    let done = |v: Ctrl| !v.intersects(Ctrl::RST | Ctrl::LNK_RST);
    hw.wait(CTRL, wait, done).map(drop)
}

/// Step 9. Auto-read ends, without an NVM too: so look whether there is one, and what the firmware
/// thinks of it.
fn wait_nvm(hw: &Hw) -> Result<(), Error> {
    let wait = Wait {
        step: "NVM auto-read",
        every: MS,
        limit: 500 * MS,
        remedy: "the NVM does not answer: power the card off and on, then reprogram it",
    };
    let eec = hw.wait(EEC, wait, |v| v.contains(Eec::ARD))?;
    if !eec.contains(Eec::PRES) {
        return Err(Error::NoNvm {
            device: hw.name(),
            eec: eec.bits(),
        });
    }
    let fwsm = hw.read(FWSM)?;
    match (fwsm & FWSM_EXT_ERR) >> FWSM_EXT_ERR.trailing_zeros() {
        0 => Ok(()),
        code => Err(Error::Firmware {
            device: hw.name(),
            code,
            fwsm,
        }),
    }
}

/// Step 10.
fn wait_dma(hw: &Hw) -> Result<(), Error> {
    let wait = Wait {
        step: "DMA initialisation",
        every: MS,
        limit: 100 * MS,
        remedy: "power the card off and on",
    };
    hw.wait(RDRXCTL, wait, |v| v.contains(Rdrxctl::DMAIDONE))
        .map(drop)
}
