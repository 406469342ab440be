/* SPDX-License-Identifier: BSD-2-Clause */
/* How fast quench pauses, and obeys pauses, on this machine: the real agent, real frames. */
#ifndef QUENCH_ROUNDS_H
#define QUENCH_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"
#include "qerr.h"

enum { ROUNDS_MAX = 100000 };

struct rounds_times {
	uint64_t p50_ns, p99_ns, max_ns;
};

/* Each is from when a frame is handed to the wire. */
struct rounds_result {
	struct rounds_times closed; /* the peer's XOFF, until the kernel says the gate is closed */
	struct rounds_times opened; /* its XON, until the gate is open */
	struct rounds_times xoff;   /* the frame that passes the mark, until XOFF is on the wire */
};

/*
 * Measure in that many rounds (1 to ROUNDS_MAX), in namespaces that are gone afterwards, with an
 * agent that runs as realtime says (its cpus do not count). Needs what the agent needs. Negative
 * errno and *err.
 */
int rounds_run(uint32_t rounds, const struct policy_realtime *realtime,
	struct rounds_result *result, struct qerr *err);

#endif
