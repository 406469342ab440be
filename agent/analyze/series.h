/* SPDX-License-Identifier: BSD-2-Clause */
/* The time series: what each flow did in each interval, given away as intervals end. */
#ifndef QUENCH_ANALYZE_SERIES_H
#define QUENCH_ANALYZE_SERIES_H

#include <stdint.h>

#include "analyze/flow.h"

#define SERIES_WHOLE_CAPTURE   0 /* the row's flow that is all of them */
#define SERIES_INTERVAL_MAX_NS 3600000000000ull

struct series_row {
	uint64_t time_ns; /* when the interval began */
	uint64_t interval_ns;
	uint32_t flow;			   /* from 1, in the order in which flows were first seen */
	const struct analyze_flow *record; /* NULL for the whole capture */
	struct flow_sample sample;
	uint64_t xoff; /* pauses of any priority, on the link */
};

/*
 * Called for each flow that had frames, once more with zeros when it falls silent, and last for
 * the whole capture.
 */
typedef void (*series_emit)(void *arg, const struct series_row *row);

struct series {
	uint64_t interval_ns; /* 0: no series is made */
	series_emit emit;
	void *arg;
	uint64_t first_ns; /* when the first interval began */
	uint64_t begin_ns; /* when the running one did */
	uint8_t began;
	struct flow_sample whole;
	uint64_t xoff;
	struct analyze_flow **active;
	uint32_t active_count, active_max;
};

/* Room for all of flows_max flows at once. Returns 0 or -ENOMEM; series_free() after either. */
int series_init(
	struct series *s, uint64_t interval_ns, series_emit emit, void *arg, uint32_t flows_max);
void series_free(struct series *s);

struct table;

/* Time has come to now_ns: give away what has ended. An earlier time counts into what runs. */
void series_advance(struct series *s, const struct table *flows, uint64_t now_ns);

/* The flow does something in the running interval: the counts to add to. */
struct flow_sample *series_sample(struct series *s, struct analyze_flow *flow);

/* The capture has ended. */
void series_finish(struct series *s, const struct table *flows);

#endif
