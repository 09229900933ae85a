#!/bin/sh
# What ethtool shows, and the self-test
# strict: RdtBeforeEnable: the register test writes patterns into tails
# strict: TailOutsideRing: the register test writes patterns into tails
# strict: RingBaseAlignment: the register test writes patterns into bases
# strict: RingLength: the register test writes patterns into lengths
# strict: DcaRxctrlBit12: the loopback test does not set DCA_RXCTRL up
# strict: CrcStripDiffers: the loopback test does not set RDRXCTL up
# strict: RscFirstSize: the loopback test does not set RDRXCTL up
# strict: RscAckFcoeFix: the loopback test does not set RDRXCTL up
check "connected" connect
for what in -S -g -l -k -i -d -c -a -x -T --show-priv-flags; do
  check "ethtool $what" ethtool "$what" eth0
done
check "the module's contents" sh -c 'ethtool -m eth0 | grep -q "EMULATED-SR"'
check "the EEPROM's contents" sh -c 'ethtool -e eth0 length 16 | grep -q "02 00 00 00 00 01"'
check "self-test offline" ethtool -t eth0 offline
wait_for 20 is_up eth0
check "self-test online" ethtool -t eth0 online
check "it works afterwards" wait_for 10 answers
