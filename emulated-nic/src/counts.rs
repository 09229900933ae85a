//! What became of every frame: counts that must add up.

/// Frames of one NIC, each counted once. See [`is_conserved`](Self::is_conserved).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounts {
    /// Frames that the wire brought to the MAC.
    pub offered: u64,
    /// Bytes of those, without checksums (FCS).
    pub offered_bytes: u64,
    /// Frames written to a receive ring, write-back included.
    pub delivered: u64,
    /// Lost: the checksum (FCS) was wrong.
    pub bad_fcs: u64,
    /// Lost: shorter than 60 bytes without FCS.
    pub undersize: u64,
    /// Lost: longer than the largest frame.
    pub oversize: u64,
    /// Lost: RXCTRL.RXEN was 0.
    pub receiver_off: u64,
    /// Lost: not for this station.
    pub filtered: u64,
    /// Lost: its VLAN is not in the table.
    pub vlan_filtered: u64,
    /// Lost: its queue is not enabled.
    pub queue_off: u64,
    /// Lost: longer than its queue takes (RXDCTL.RLPML).
    pub too_long_for_queue: u64,
    /// Lost: no descriptor, and the queue has DROP_EN set (QPRDC).
    pub no_descriptor: u64,
    /// Lost: no descriptor, and the packet buffer was full (MPC).
    pub buffer_full: u64,
    /// Lost: an address that is not mapped.
    pub rx_fault: u64,
    /// Lost: a test asked for it.
    pub rx_injected: u64,
    /// Lost: in the packet buffer when the NIC was reset.
    pub flushed: u64,
    /// In the packet buffer now.
    pub waiting: u64,

    /// Packets that descriptors described, up to their EOP.
    pub requested: u64,
    /// Frames that segmentation made of those, beyond one each.
    pub segmented: u64,
    /// Frames that the wire took.
    pub transmitted: u64,
    /// Bytes of those, without checksums (FCS).
    pub transmitted_bytes: u64,
    /// Frames that came back inside the MAC (loopback), and so were offered again.
    pub looped: u64,
    /// Lost: a broken descriptor; the strict log says which.
    pub tx_invalid: u64,
    /// Lost: an address that is not mapped.
    pub tx_fault: u64,
    /// Lost: the link was down.
    pub tx_no_link: u64,
    /// Lost: the wire failed.
    pub tx_wire_error: u64,
    /// On their way to the wire now.
    pub tx_waiting: u64,
}

impl WireCounts {
    /// Frames offered and not delivered, whatever the reason.
    pub fn lost(&self) -> u64 {
        self.bad_fcs
            + self.undersize
            + self.oversize
            + self.receiver_off
            + self.filtered
            + self.vlan_filtered
            + self.queue_off
            + self.too_long_for_queue
            + self.no_descriptor
            + self.buffer_full
            + self.rx_fault
            + self.rx_injected
            + self.flushed
    }

    /// Every frame offered was delivered, lost for one reason, or waits; and every packet requested
    /// was sent, lost for one reason, or waits.
    pub fn is_conserved(&self) -> bool {
        let sent = self.transmitted
            + self.looped
            + self.tx_invalid
            + self.tx_fault
            + self.tx_no_link
            + self.tx_wire_error
            + self.tx_waiting;
        self.offered == self.delivered + self.lost() + self.waiting
            && self.requested + self.segmented == sent
    }
}
