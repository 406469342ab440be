// SPDX-License-Identifier: BSD-2-Clause
// The reaction point of one port: DCQCN states by class, and a dense list of the busy ones.
#include "control/reaction.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct slot {
	struct rate_ctl rate;
	uint64_t sent_bps; /* what the class has in the kernel, whoever owns it */
	uint32_t generation;
	bool busy;   /* in the list */
	bool urgent; /* send whatever the rate is, however little it moved */
	bool failed; /* the kernel may not have sent_bps */
	bool cut;    /* in the list of cuts */
	bool early;  /* a cut has been sent since the last tick */
};

struct reaction {
	struct rate_params params;
	double step;
	uint32_t classes;
	uint32_t limited;
	struct slot *slots;
	/* Class indices that are limited or wait to be sent; those longest unsent come first. */
	uint32_t *busy;
	uint32_t busy_count;
	uint32_t *later; /* scratch of a tick */
	/* Those that CNPs came for since reaction_cuts was last asked. */
	uint32_t *cuts;
	uint32_t cuts_count;
};

struct reaction *reaction_new(uint32_t classes, const struct rate_params *params, double step)
{
	struct reaction *r;
	uint32_t i;

	if (!rate_params_valid(params) || !isfinite(step) || step < 0)
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->params = *params;
	r->step = step;
	r->classes = classes;
	r->slots = calloc((size_t)classes + 1, sizeof(*r->slots));
	r->busy = calloc((size_t)classes + 1, sizeof(*r->busy));
	r->later = calloc((size_t)classes + 1, sizeof(*r->later));
	r->cuts = calloc((size_t)classes + 1, sizeof(*r->cuts));
	if (!r->slots || !r->busy || !r->later || !r->cuts) {
		reaction_free(r);
		return NULL;
	}
	for (i = 0; i < classes; i++) {
		rate_ctl_init(&r->slots[i].rate, params);
		r->slots[i].sent_bps = params->line_rate_bps;
	}
	return r;
}

void reaction_free(struct reaction *r)
{
	if (!r)
		return;
	free(r->slots);
	free(r->busy);
	free(r->later);
	free(r->cuts);
	free(r);
}

static uint64_t slot_rate_bps(const struct slot *s)
{
	return (uint64_t)s->rate.rate_bps;
}

static void make_busy(struct reaction *r, uint32_t class_index)
{
	struct slot *s = &r->slots[class_index];

	if (s->busy)
		return;
	s->busy = true;
	r->busy[r->busy_count++] = class_index;
}

/* Keep the count of limited QPs right across whatever changed this slot. */
static void count_limited(struct reaction *r, bool was, bool is)
{
	r->limited += is;
	r->limited -= was;
}

bool reaction_cnp(struct reaction *r, uint32_t class_index, uint32_t generation, uint64_t now_ns)
{
	struct slot *s;
	bool was;

	if (class_index >= r->classes)
		return false;
	s = &r->slots[class_index];
	was = s->rate.limited;
	if (s->generation != generation) {
		rate_ctl_init(&s->rate, &r->params);
		s->generation = generation;
	}
	rate_ctl_cnp(&s->rate, &r->params, now_ns);
	count_limited(r, was, s->rate.limited);
	s->urgent = true;
	make_busy(r, class_index);
	if (!s->cut)
		r->cuts[r->cuts_count++] = class_index;
	s->cut = true;
	return true;
}

void reaction_sent(struct reaction *r, uint32_t class_index, uint32_t generation, uint64_t bytes,
	uint64_t now_ns)
{
	struct slot *s;

	if (class_index >= r->classes)
		return;
	s = &r->slots[class_index];
	if (s->generation != generation || !s->rate.limited)
		return;
	rate_ctl_sent(&s->rate, &r->params, bytes, now_ns);
	count_limited(r, true, s->rate.limited);
}

static void advance(struct reaction *r, struct slot *s, uint64_t now_ns)
{
	if (!s->rate.limited)
		return;
	rate_ctl_advance(&s->rate, &r->params, now_ns);
	count_limited(r, true, s->rate.limited);
}

static bool must_send(const struct reaction *r, const struct slot *s)
{
	uint64_t rate_bps = slot_rate_bps(s);
	double moved_bps = (double)rate_bps - (double)s->sent_bps;

	if (s->failed)
		return true;
	if (rate_bps == s->sent_bps)
		return false;
	if (s->urgent || !s->rate.limited)
		return true;
	return fabs(moved_bps) > r->step * s->sent_bps;
}

static struct rate_change take_change(struct reaction *r, uint32_t class_index)
{
	struct slot *s = &r->slots[class_index];

	s->sent_bps = slot_rate_bps(s);
	s->failed = false;
	return (struct rate_change){
		.class_index = class_index,
		.generation = s->generation,
		.rate_bps = s->sent_bps,
	};
}

size_t reaction_cuts(struct reaction *r, struct rate_change *out, size_t max)
{
	size_t count = 0;
	uint32_t i;

	for (i = 0; i < r->cuts_count; i++) {
		struct slot *s = &r->slots[r->cuts[i]];

		s->cut = false;
		if (!s->urgent || s->early || count == max || !must_send(r, s))
			continue;
		out[count++] = take_change(r, r->cuts[i]);
		s->urgent = false;
		s->early = true;
	}
	r->cuts_count = 0;
	return count;
}

size_t reaction_tick(struct reaction *r, uint64_t now_ns, struct rate_change *out, size_t max)
{
	uint32_t i, unfit = 0, later = 0;
	size_t count = 0;

	for (i = 0; i < r->busy_count; i++) {
		uint32_t class_index = r->busy[i];
		struct slot *s = &r->slots[class_index];

		advance(r, s, now_ns);
		if (must_send(r, s)) {
			if (count == max) {
				r->busy[unfit++] = class_index;
				continue;
			}
			out[count++] = take_change(r, class_index);
		}
		s->urgent = s->early = false;
		s->busy = s->rate.limited;
		if (s->busy)
			r->later[later++] = class_index;
	}
	memcpy(r->busy + unfit, r->later, later * sizeof(*r->later));
	r->busy_count = unfit + later;
	return count;
}

void reaction_retry(struct reaction *r, uint32_t class_index)
{
	if (class_index >= r->classes)
		return;
	r->slots[class_index].failed = true;
	make_busy(r, class_index);
}

void reaction_forget(struct reaction *r, uint32_t class_index)
{
	struct slot *s;

	if (class_index >= r->classes)
		return;
	s = &r->slots[class_index];
	count_limited(r, s->rate.limited, false);
	rate_ctl_init(&s->rate, &r->params);
	s->urgent = false;
}

uint32_t reaction_limited(const struct reaction *r)
{
	return r->limited;
}

uint64_t reaction_rate_bps(const struct reaction *r, uint32_t class_index)
{
	if (class_index >= r->classes)
		return r->params.line_rate_bps;
	return slot_rate_bps(&r->slots[class_index]);
}

bool reaction_idle(const struct reaction *r)
{
	return !r->busy_count;
}
