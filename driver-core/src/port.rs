//! What a driver gives back: a port and its queues.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::counters::{RxCounters, TxCounters};
use crate::device::Identity;
use crate::frame::Frame;
use crate::packet::RxPacket;
use crate::pool::{FramePool, Spares};

/// A network port under a driver.
pub trait Port: Send {
    /// Its receive queues.
    type Rx: RxQueue;
    /// Its transmit queues.
    type Tx: TxQueue;
    /// What its operations fail with: names the step, the register and the remedy.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The device below.
    fn identity(&self) -> &Identity;

    /// The station address.
    fn mac(&self) -> MacAddr;

    /// What there may be of everything.
    fn limits(&self) -> Limits;

    /// The link now.
    fn link(&mut self) -> Result<Link, Self::Error>;

    /// Waits for the link, at most `limit`; fails where it is not up by then.
    fn wait_link(&mut self, limit: Duration) -> Result<Link, Self::Error>;

    /// Sets up queues, fills the receive rings from `pools` (queue `i` from `pools[i % n]`) and lets
    /// traffic flow. Each pair has one owner, and stopping is dropping: a queue that goes away is
    /// disabled first and its frames go home.
    fn start(
        &mut self,
        config: &PortConfig,
        pools: &mut [FramePool],
    ) -> Result<QueuePairs<Self>, Self::Error>;

    /// Stops receiving and transmitting. All queues must have been dropped before.
    fn stop(&mut self) -> Result<(), Self::Error>;

    /// Accepts frames for any unicast and multicast address, or only for those set.
    fn set_promiscuous(&mut self, on: bool) -> Result<(), Self::Error>;

    /// Accepts frames for `mac` too.
    fn add_mac(&mut self, mac: MacAddr) -> Result<(), Self::Error>;

    /// Accepts frames for `mac` no more.
    fn remove_mac(&mut self, mac: MacAddr) -> Result<(), Self::Error>;

    /// Statistics since the port was opened.
    fn stats(&mut self) -> Result<PortStats, Self::Error>;
}

/// The queues of a port, a receive and a transmit queue each.
pub type QueuePairs<P> = Vec<(<P as Port>::Rx, <P as Port>::Tx)>;

/// A receive queue: one owner, one thread.
pub trait RxQueue: Send {
    /// Gives up to `budget` received packets to `handler`, each in its ring slot, re-arms the slots
    /// and writes the tail once. Returns how many packets were given. `spares` re-arm the slots of
    /// buffers that the handler takes; spares of another geometry or domain count as none.
    fn poll<H>(&mut self, budget: usize, spares: &mut Spares, handler: H) -> usize
    where
        H: FnMut(RxPacket<'_>);

    /// Number of the queue on its port.
    fn index(&self) -> u16;

    /// Counts so far, to be read from any thread.
    fn counters(&self) -> &Arc<RxCounters>;
}

/// A transmit queue: one owner, one thread.
pub trait TxQueue: Send {
    /// Puts a packet of one frame on the ring, or gives it back.
    fn enqueue(&mut self, frame: Frame) -> Result<(), TxReject>;

    /// Puts a packet of several frames, in order, on the ring and empties `frames`; or leaves both
    /// as they are and says why.
    fn enqueue_chain(&mut self, frames: &mut Vec<Frame>) -> Result<(), TxReason>;

    /// Shows the device what was enqueued: writes the tail, once.
    fn flush(&mut self);

    /// Takes finished frames off the ring while `spares` has room; the others stay for the next call.
    /// Returns how many it took.
    fn reclaim(&mut self, spares: &mut Spares) -> usize;

    /// Frames on the ring that have not been reclaimed.
    fn pending(&self) -> usize;

    /// Frames that can be enqueued before the ring is full.
    fn room(&self) -> usize;

    /// Number of the queue on its port.
    fn index(&self) -> u16;

    /// Counts so far, to be read from any thread.
    fn counters(&self) -> &Arc<TxCounters>;
}

/// A frame that a transmit queue did not take.
#[derive(Debug)]
pub struct TxReject {
    /// The frame, unchanged.
    pub frame: Frame,
    /// Why.
    pub reason: TxReason,
}

/// Why a transmit queue does not take a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TxReason {
    /// No descriptor is free: reclaim, or try later.
    #[error("the transmit ring is full")]
    Full,
    /// Shorter or longer than the device can send, or over too many frames.
    #[error("the device cannot send a packet of this length")]
    Length,
}

/// What a port may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most queue pairs.
    pub queue_pairs: u16,
    /// Smallest and largest ring, in descriptors.
    pub ring: (u32, u32),
    /// A ring's size must be a multiple of this.
    pub ring_multiple: u32,
    /// Longest frame in bytes, without its checksum (FCS).
    pub max_frame: u32,
    /// Most queues that RSS can spread to.
    pub rss_queues: u16,
}

/// How a port is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive and transmit queue pairs.
    pub queue_pairs: u16,
    /// Descriptors of each receive ring.
    pub rx_ring: u32,
    /// Descriptors of each transmit ring.
    pub tx_ring: u32,
    /// Longest frame taken, in bytes, without its checksum (FCS).
    pub max_frame: u32,
    /// Take frames for any address.
    pub promiscuous: bool,
    /// Take the outermost VLAN tag out of received frames and report it as metadata.
    pub strip_vlan: bool,
    /// How RSS spreads packets over the queues.
    pub rss: RssConfig,
}

impl Default for PortConfig {
    fn default() -> Self {
        PortConfig {
            queue_pairs: 1,
            rx_ring: 512,
            tx_ring: 512,
            max_frame: 1518,
            promiscuous: true,
            strip_vlan: false,
            rss: RssConfig::default(),
        }
    }
}

/// Receive-side scaling: the key of the Toeplitz hash and the queue of each table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssConfig {
    /// Key of the hash.
    pub key: [u8; 40],
    /// Queues, repeated over the device's table in order; empty: all queues in turn.
    pub table: Vec<u16>,
}

impl Default for RssConfig {
    /// A key whose hash is the same for both directions of a flow: 0x6d5a repeated.
    fn default() -> Self {
        let key = std::array::from_fn(|i| if i % 2 == 0 { 0x6d } else { 0x5a });
        RssConfig {
            key,
            table: Vec::new(),
        }
    }
}

/// State of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// A carrier is there.
    pub up: bool,
    /// Speed in Mbit/s; 0 while down.
    pub speed: u32,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.up, self.speed) {
            (false, _) => write!(f, "down"),
            (true, s) if s >= 1000 && s % 1000 == 0 => write!(f, "up, {} Gbit/s", s / 1000),
            (true, s) if s >= 1000 => write!(f, "up, {:.1} Gbit/s", f64::from(s) / 1000.0),
            (true, s) => write!(f, "up, {s} Mbit/s"),
        }
    }
}

/// Statistics of a port, in 64 bits, however narrow the device's registers are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Good packets received by the MAC, whatever became of them.
    pub rx_packets: u64,
    /// Bytes of those, with their checksums (FCS).
    pub rx_bytes: u64,
    /// Packets that found no room in the device's buffer or no descriptor in their ring.
    pub rx_missed: u64,
    /// Packets that were damaged, too short or too long.
    pub rx_errors: u64,
    /// Packets transmitted.
    pub tx_packets: u64,
    /// Bytes of those, with their checksums (FCS).
    pub tx_bytes: u64,
    /// Every counter of the device that is not zero, by its datasheet name.
    pub registers: Vec<(String, u64)>,
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// True for addresses of groups, the broadcast address among them.
    pub fn is_multicast(&self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Text that is no Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an Ethernet address: write six hexadecimal bytes, as in 02:00:00:00:00:01")]
pub struct ParseMacError(String);

impl FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(s: &str) -> Result<Self, ParseMacError> {
        let wrong = || ParseMacError(s.to_owned());
        let mut bytes = [0; 6];
        let mut parts = s.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(wrong)?;
            if part.len() > 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        parts
            .next()
            .is_none()
            .then_some(MacAddr(bytes))
            .ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses_read_as_they_print() {
        let mac: MacAddr = "02:0:fe:Aa:00:10".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:fe:aa:00:10");
        for bad in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "02:00:00:00:00:+1",
            "g::::::",
        ] {
            assert!(bad.parse::<MacAddr>().is_err(), "{bad}");
        }
    }

    #[test]
    fn links_print_their_speed() {
        assert_eq!(
            Link {
                up: true,
                speed: 10_000
            }
            .to_string(),
            "up, 10 Gbit/s"
        );
        assert_eq!(
            Link {
                up: true,
                speed: 2_500
            }
            .to_string(),
            "up, 2.5 Gbit/s"
        );
        assert_eq!(
            Link {
                up: true,
                speed: 100
            }
            .to_string(),
            "up, 100 Mbit/s"
        );
        assert_eq!(Link::default().to_string(), "down");
    }
}
