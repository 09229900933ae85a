#!/bin/sh
# Twenty times down and up, the driver unloaded and loaded, a reset by PCI
check "connected" connect
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  ip link set eth0 down
  ip link set eth0 up
done
check "the link comes up after all" wait_for 20 is_up eth0
check "and answers" wait_for 10 answers
ip link set eth0 down
check "reset by PCI" sh -c 'echo 1 > /sys/class/net/eth0/device/reset'
ip link set eth0 up
check "the link comes up after a reset" wait_for 20 is_up eth0
check "and answers after a reset" wait_for 10 answers
unload
check "loaded again" load
check "connected again" connect
