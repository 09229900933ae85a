#!/bin/sh
# Frames of 9000 bytes
check "connected" connect
ip link set eth0 mtu 9000
peer /bin/ip link set eth1 mtu 9000
wait_for 20 is_up eth0 && wait_for 20 peer_is_up
check "whole" wait_for 10 ping -c 1 -W 1 -M do -s 8972 "$B"
check "no packet is lost" sh -c "/bin/ping -c 30 -i 0.02 -M do -s 8972 -q $B | grep -q ' 0% packet loss'"
check "a megabyte by TCP" transfer 1024
