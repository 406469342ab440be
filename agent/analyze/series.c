// SPDX-License-Identifier: BSD-2-Clause
// The time series: a list of the flows that were active, walked when an interval ends.
#include "analyze/series.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "analyze/table.h"

int series_init(
	struct series *s, uint64_t interval_ns, series_emit emit, void *arg, uint32_t flows_max)
{
	*s = (struct series){
		.interval_ns = interval_ns, .emit = emit, .arg = arg, .active_max = flows_max};
	if (!interval_ns)
		return 0;
	s->active = calloc(flows_max, sizeof(*s->active));
	return s->active ? 0 : -ENOMEM;
}

void series_free(struct series *s)
{
	free(s->active);
	s->active = NULL;
}

struct flow_sample *series_sample(struct series *s, struct analyze_flow *flow)
{
	if (s->interval_ns && !flow->in_series && s->active_count < s->active_max) {
		s->active[s->active_count++] = flow;
		flow->in_series = 1;
	}
	return &flow->sample;
}

static bool is_silent(const struct flow_sample *sample)
{
	return !sample->packets && !sample->cnp;
}

static void emit_row(struct series *s, uint32_t number, const struct analyze_flow *record,
	const struct flow_sample *sample)
{
	struct series_row row = {
		.time_ns = s->begin_ns,
		.interval_ns = s->interval_ns,
		.flow = number,
		.record = record,
		.sample = *sample,
		.xoff = s->xoff,
	};

	s->emit(s->arg, &row);
}

/* Give the interval away and start the next one behind it. Flows that did nothing leave the list.
 */
static void end_interval(struct series *s, const struct table *flows)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->active_count; i++) {
		struct analyze_flow *flow = s->active[i];

		emit_row(s, table_index(flows, flow) + 1, flow, &flow->sample);
		if (is_silent(&flow->sample))
			flow->in_series = 0;
		else
			s->active[kept++] = flow;
		flow->sample = (struct flow_sample){};
	}
	s->active_count = kept;
	emit_row(s, SERIES_WHOLE_CAPTURE, NULL, &s->whole);
	s->whole = (struct flow_sample){};
	s->xoff = 0;
	s->begin_ns += s->interval_ns;
}

void series_advance(struct series *s, const struct table *flows, uint64_t now_ns)
{
	uint64_t begin_ns;

	if (!s->interval_ns)
		return;
	begin_ns = now_ns - now_ns % s->interval_ns;
	if (!s->began) {
		s->began = 1;
		s->first_ns = begin_ns;
		s->begin_ns = begin_ns;
	}
	if (begin_ns <= s->begin_ns)
		return;
	end_interval(s, flows);
	/* a silence: one interval of zeros says it, however long it is */
	if (begin_ns > s->begin_ns)
		end_interval(s, flows);
	s->begin_ns = begin_ns;
}

void series_finish(struct series *s, const struct table *flows)
{
	if (!s->began)
		return;
	end_interval(s, flows);
	end_interval(s, flows); /* all silent: where the last interval ends */
}
