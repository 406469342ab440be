/* SPDX-License-Identifier: BSD-2-Clause */
/* What quench headroom shows, as text or as JSON. */
#ifndef QUENCH_HEADROOM_REPORT_H
#define QUENCH_HEADROOM_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/headroom.h"
#include "measure/rounds.h"

/* The link and the class, as options give them. */
struct headroom_asked {
	const struct headroom_model *model;
	uint64_t speed_bps, cable_mm, mtu_bytes, port_mtu_bytes, cell_bytes;
	uint64_t reaction_ns, response_ns;
	uint64_t limit_bytes; /* of the class; 0: not given */
	uint64_t ports;	      /* that fill it */
};

struct headroom_answer {
	struct headroom headroom;
	uint64_t limit_bytes;
	uint64_t ample_bytes; /* with this limit the queue does not run dry */
	uint64_t xoff_bytes, xon_bytes;
};

struct headroom_measured {
	struct rounds_result times;
	uint32_t rounds;
	struct policy_realtime realtime;
	uint64_t reaction_ns; /* of quench as one that pauses */
	uint64_t response_ns; /* of quench as one that is paused */
};

struct headroom_report {
	const struct headroom_asked *asked;
	const struct headroom_answer *answer;	  /* NULL: nothing was worked out */
	const struct headroom_measured *measured; /* NULL: nothing was measured */
};

/* Write it to the standard output; nonzero when that fails. */
int headroom_report(const struct headroom_report *report, bool json);

#endif
