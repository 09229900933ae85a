#!/bin/sh
# Linux finds both NICs, their modules, and a link at 10 Gbit/s
dmesg | grep ixgbe > /tmp/log
equal "both ports are probed" "$(grep -c 'Intel(R) 10 Gigabit Network Connection' /tmp/log)" 2
equal "the module is known" "$(grep -c 'PHY: 20, SFP+:' /tmp/log)" 2
equal "the address is the EEPROM's" "$(cat /sys/class/net/eth0/address)" 02:00:00:00:00:01
check "the link comes up" connect
ethtool eth0 > /tmp/settings
check "at 10 Gbit/s" grep -q 'Speed: 10000Mb/s' /tmp/settings
check "through a module for fibre" grep -q 'Port: FIBRE' /tmp/settings
