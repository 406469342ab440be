// SPDX-License-Identifier: BSD-2-Clause
// One class of one port, as its peer pauses it.
#include "control/pause.h"

enum pause_step pause_set(struct pause *pause, uint64_t now_ns, uint64_t until_ns)
{
	bool closed = pause_is_closed(pause);

	pause->until_ns = until_ns;
	if (until_ns <= now_ns) {
		pause->since_ns = 0;
		return closed ? PAUSE_OPEN : PAUSE_NONE;
	}
	if (closed)
		return PAUSE_NONE;
	pause->since_ns = now_ns;
	return PAUSE_CLOSE;
}

enum pause_step pause_expire(struct pause *pause, uint64_t now_ns)
{
	if (!pause_is_closed(pause) || now_ns < pause->until_ns)
		return PAUSE_NONE;
	pause->since_ns = 0;
	return PAUSE_OPEN;
}

uint32_t pause_bucket(uint64_t time_ns, uint64_t unit_ns, uint32_t buckets)
{
	uint32_t n = 0;

	while (n + 1 < buckets && time_ns > unit_ns << n)
		n++;
	return n;
}
