/* What it takes to run a program at all. */
#include "peers.h"

PROGRAM(nothing)
{
	return PASS;
}
