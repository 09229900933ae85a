#!/bin/sh
# boot: passthrough
# 50 MB by TCP, segmented and checked by the NIC, arrive as they were sent
check "connected" connect
check "the contents are the same" transfer 51200
more "the NIC cuts segments" "$(stat tx_pkts_nic)" 30000
more "from fewer packets of the stack" "$(($(stat tx_pkts_nic) - $(stat tx_packets)))" -1
equal "no checksum is wrong" "$(peer_stat rx_csum_offload_errors)" 0
equal "nothing is missed" "$(peer_stat rx_missed_errors)" 0
