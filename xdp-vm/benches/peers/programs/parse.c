/* Drops what is UDP to port 4789, as a filter in front of a service would. */
#include "peers.h"

PROGRAM(parse)
{
	u8 *ip = ipv4_of(packet);
	u8 *udp;

	if (!ip || ip[9] != UDP || (ip[0] & 0xf) != 5)
		return PASS;
	udp = ip + 20;
	if (udp + 8 > packet.end)
		return PASS;
	return *(u16 *)(udp + 2) == __builtin_bswap16(4789) ? DROP : PASS;
}
