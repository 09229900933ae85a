/* One chain of arithmetic, each step on the result of the last. */
#include "peers.h"

PROGRAM(alu)
{
	u64 x = (u64)(packet.end - packet.data);

	for (u64 i = 3000; i; i--) {
		x <<= 1;
		x ^= i;
		x += 7;
		/* Nothing that a compiler could take together with what is before or after. */
		asm volatile("" : "+r"(x));
	}
	return (int)x;
}
