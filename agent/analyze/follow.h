/* SPDX-License-Identifier: BSD-2-Clause */
/* A flow's health: how its PSNs run, what its ACKs say, how long its frames are. */
#ifndef QUENCH_ANALYZE_FOLLOW_H
#define QUENCH_ANALYZE_FOLLOW_H

#include "analyze/analyze.h"

/* Take in one frame of the flow, already counted. */
void follow_frame(struct analyze *a, struct analyze_flow *flow, const struct analyze_frame *frame,
	const struct analyze_seen *seen);

/* The capture has ended: settle what was still open. */
void follow_finish(struct analyze *a);

#endif
