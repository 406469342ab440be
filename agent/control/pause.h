/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One class of one port, as its peer pauses it (IEEE 802.1Qbb): the gate is to be closed until the
 * latest word says otherwise or its time is over. Pure: time is an argument.
 */
#ifndef QUENCH_PAUSE_H
#define QUENCH_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

struct pause {
	uint64_t since_ns; /* closed since then; 0: open */
	uint64_t until_ns; /* while closed: opens then by itself */
};

/* What the gate must do now. */
enum pause_step { PAUSE_NONE, PAUSE_CLOSE, PAUSE_OPEN };

/*
 * The peer's latest word: pause until until_ns, or go on if that is past. A new time replaces the
 * old one, longer or shorter; while the gate is closed that moves nothing but its end.
 */
enum pause_step pause_set(struct pause *pause, uint64_t now_ns, uint64_t until_ns);

/* Time has passed. */
enum pause_step pause_expire(struct pause *pause, uint64_t now_ns);

static inline bool pause_is_closed(const struct pause *pause)
{
	return pause->since_ns;
}

/*
 * The bucket, of `buckets`, for a time: bucket n holds what is up to unit_ns times 2^n, the last
 * one the rest.
 */
uint32_t pause_bucket(uint64_t time_ns, uint64_t unit_ns, uint32_t buckets);

#endif
