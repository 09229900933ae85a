#!/bin/sh
# A hundred pings through the cable, none lost
check "connected" connect
check "no packet is lost" sh -c "/bin/ping -c 100 -i 0.01 -q $B | grep -q ' 0% packet loss'"
check "half a megabyte by TCP" transfer 512
check "large pings arrive in fragments" sh -c "/bin/ping -c 5 -i 0.1 -s 20000 -q $B | grep -q ' 0% packet loss'"
