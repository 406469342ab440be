/* SPDX-License-Identifier: BSD-2-Clause */
/* Which flow is the other direction of which: told by CM, or proved by answers. */
#ifndef QUENCH_ANALYZE_PAIRING_H
#define QUENCH_ANALYZE_PAIRING_H

#include "analyze/analyze.h"

/* A flow has been made: its pair may be known already. */
void pairing_start(struct analyze *a, struct analyze_flow *flow);

/* Take in a CM message that makes or ends a connection. */
void pairing_learn_cm(
	struct analyze *a, const struct wire_frame *f, const struct wire_cm *cm, uint64_t time_ns);

/* The flow carried a request that will be answered with its PSN. */
void pairing_expect(struct analyze *a, const struct analyze_flow *flow, uint32_t psn);

/*
 * The flow carried an answer. When its PSN is that of one flow's request, three times with
 * different PSNs and no other flow between, the two are a pair.
 */
void pairing_match(struct analyze *a, struct analyze_flow *flow, uint32_t psn);

#endif
