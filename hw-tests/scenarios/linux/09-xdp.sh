#!/bin/sh
# XDP in the guest's own kernel, native, on its own driver: drop, TX, and back to none
check "connected" connect
before=$(stat rx_pkts_nic)
check "the drop program is attached" ip link set dev eth0 xdpdrv obj /lab/drop.bpf.o sec xdp
check "it is native" sh -c '/bin/ip link show eth0 | grep -q "prog/xdp"'
wait_for 20 is_up eth0
if ping -c 3 -i 0.2 -W 1 "$B" > /dev/null; then bad "it answers"; else ok "nothing gets through"; fi
more "the NIC received all the same" "$(stat rx_pkts_nic)" "$before"
check "it is taken off" ip link set dev eth0 xdp off
wait_for 20 is_up eth0
check "and answers" wait_for 10 answers
