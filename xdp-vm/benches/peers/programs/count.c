/* Counts packets by their protocol. */
#include "peers.h"

PROGRAM(count)
{
	u8 *ip = ipv4_of(packet);
	u64 *count;

	if (!ip)
		return PASS;
	count = count_of(ip[9]);
	if (count)
		*count += 1;
	return PASS;
}
