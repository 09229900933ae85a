#!/bin/sh
# Tags are inserted and taken out by the NIC, and other VLANs are filtered
check "connected" connect
modprobe 8021q
ip link add link eth0 name v7 type vlan id 7
ip addr add 10.7.0.1/24 dev v7
ip link set v7 up
peer /bin/ip link add link eth1 name v7 type vlan id 7
peer /bin/ip addr add 10.7.0.2/24 dev v7
peer /bin/ip link set v7 up
check "VLAN 7 answers" wait_for 5 ping -c 1 -W 1 10.7.0.2
check "with tags by software too" sh -c 'ethtool -K eth0 rxvlan off txvlan off && /bin/ping -c 3 -i 0.1 10.7.0.2'
ip link add link eth0 name v9 type vlan id 9
ip addr add 10.9.0.1/24 dev v9
ip link set v9 up
if ping -c 2 -W 1 10.9.0.2 > /dev/null 2>&1; then bad "VLAN 9 answers"; else ok "VLAN 9 does not"; fi
