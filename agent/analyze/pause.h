/* SPDX-License-Identifier: BSD-2-Clause */
/* Pause frames by sender: XOFF and XON of each priority (802.1Qbb) and of the link (802.3x). */
#ifndef QUENCH_ANALYZE_PAUSE_H
#define QUENCH_ANALYZE_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "quench/wire.h"

enum {
	PAUSE_PRIORITIES = 8,
	PAUSE_LINK = PAUSE_PRIORITIES, /* the row of 802.3x, after those of PFC */
	PAUSE_ROWS,
};

/* XOFF kept up for this long is a storm: the detection time of SONiC's PFC watchdog. */
#define PAUSE_STORM_NS 200000000ull

struct pause_row {
	uint64_t xoff, xon;
	uint64_t begin_ns;   /* of the XOFF that holds */
	uint64_t last_ns;    /* of its latest renewal */
	uint64_t until_ns;   /* when it runs out */
	uint64_t longest_ns; /* the longest that one was seen to hold */
	uint64_t paused_ns;  /* altogether; only with a known speed */
	uint8_t holds, storm;
	uint8_t zero[6];
};

/* A port that sends pause frames: an entry of a table. */
struct pauser {
	uint8_t mac[8]; /* the key: a MAC address and two zeros */
	uint64_t pfc_frames, link_frames;
	struct pause_row row[PAUSE_ROWS];
};

/* What one frame did. */
struct pause_effect {
	uint32_t xoffs;	  /* rows that it paused */
	uint32_t storms;  /* rows that it turned into a storm */
	uint64_t held_ns; /* the longest of those, until now */
};

/*
 * Take in a frame of kind PFC or PAUSE. quantum_ps is the time of 512 bits, 0 when the link's speed
 * is not known: then a renewal counts as long as it comes within the pause's time at 1 Gbit/s, the
 * longest that it can mean.
 */
struct pause_effect pause_take(struct pauser *p, const struct wire_mac_control *m, bool pfc,
	uint64_t now_ns, uint64_t quantum_ps);

/* Nothing more comes after now_ns: what still holds has held until then. */
void pause_finish(struct pauser *p, uint64_t now_ns, uint64_t quantum_ps);

#endif
