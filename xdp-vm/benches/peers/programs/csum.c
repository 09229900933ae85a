/* The Internet checksum over the whole packet, folded at each word, each access checked. */
#include "peers.h"

PROGRAM(csum)
{
	u8 *at = packet.data;
	u32 sum = 0;

	for (u32 i = 0; i < 750; i++) {
		u8 *next = at + 2;

		if (next > packet.end)
			break;
		sum += *(u16 *)at;
		sum = (sum & 0xffff) + (sum >> 16);
		at = next;
		/* Else the loop is made over, on some machines and not on others. */
		asm volatile("" : "+r"(at));
	}
	return (u16)~sum;
}
