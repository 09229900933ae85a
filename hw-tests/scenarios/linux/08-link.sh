#!/bin/sh
# The cable is taken away and given back
check "connected" connect
echo "@@@ host unplug"
check "the link goes down" wait_for 10 is_down eth0
echo "@@@ host plug"
check "the link comes back" wait_for 20 is_up eth0
check "and answers" wait_for 10 answers
more "the driver has counted it" "$(stat lsc_int)" 1
