// SPDX-License-Identifier: BSD-2-Clause
// The reaction point of one port: rate controls by class, a set of those to look at, a wheel.
#include "control/reaction.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/wheel.h"

enum {
	CACHE_LINE = 64,
	LOOK_AHEAD = 8,	 /* classes whose state is fetched before its turn */
	WHEEL_FINER = 3, /* the wheel tells apart 1/8 of the increase timer, or less */
};

/* What the kernel has, and what is known about sending to it. */
struct delivery {
	uint64_t sent_bps; /* what the class has in the kernel, whoever owns it */
	uint32_t generation;
	uint8_t waits : 1;  /* in the list of those that found no room to be sent */
	uint8_t failed : 1; /* the kernel may not have sent_bps */
	uint8_t cut : 1;    /* in the list of cuts */
	uint8_t early : 1;  /* a cut has been sent since the last tick */
};
_Static_assert(sizeof(struct delivery) == 16, "delivery");

struct reaction {
	struct rate_params params;
	double step;
	uint32_t classes;
	uint32_t limited;
	struct rate_ctl *controls;
	struct delivery *deliveries;
	struct wheel *wheel; /* limited classes, by when their rate next changes */
	/* A bit for each class to look at in the next tick. In the order of their indices: that is
	 * the order of their memory, and a port in trouble looks at all of them. */
	uint64_t *marks;
	uint32_t marks_count;
	uint32_t *due; /* scratch of a tick: the same as a list */
	/* Those that found no room: first in the next tick, in this order. */
	uint32_t *waiting;
	uint32_t waiting_count;
	/* Those that CNPs came for since reaction_cuts was last asked. */
	uint32_t *cuts;
	uint32_t cuts_count;
};

static unsigned int wheel_shift(uint64_t timer_ns)
{
	unsigned int bits = 63 - __builtin_clzll(timer_ns | 1);

	return bits > WHEEL_FINER ? bits - WHEEL_FINER : 0;
}

static bool allocate(struct reaction *r, uint32_t classes)
{
	size_t room = (size_t)classes + 1;

	r->controls = aligned_alloc(CACHE_LINE, room * sizeof(*r->controls));
	r->deliveries = calloc(room, sizeof(*r->deliveries));
	r->wheel = wheel_new(classes, wheel_shift(r->params.increase_timer_ns));
	r->marks = calloc(room / 64 + 1, sizeof(*r->marks));
	r->waiting = calloc(room, sizeof(*r->waiting));
	r->due = calloc(room, sizeof(*r->due));
	r->cuts = calloc(room, sizeof(*r->cuts));
	return r->controls && r->deliveries && r->wheel && r->marks && r->waiting && r->due &&
	       r->cuts;
}

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
	if (!allocate(r, classes)) {
		reaction_free(r);
		return NULL;
	}
	for (i = 0; i < classes; i++) {
		rate_ctl_init(&r->controls[i], params);
		r->deliveries[i].sent_bps = params->line_rate_bps;
	}
	return r;
}

void reaction_free(struct reaction *r)
{
	if (!r)
		return;
	free(r->controls);
	free(r->deliveries);
	wheel_free(r->wheel);
	free(r->marks);
	free(r->waiting);
	free(r->due);
	free(r->cuts);
	free(r);
}

static uint64_t rate_now_bps(const struct rate_ctl *control)
{
	return (uint64_t)control->rate_bps;
}

/* Have the class looked at in the next tick. */
static void mark(struct reaction *r, uint32_t class_index)
{
	uint64_t *word = &r->marks[class_index / 64], bit = 1ull << class_index % 64;

	r->marks_count += !(*word & bit);
	*word |= bit;
}

static void unmark(struct reaction *r, uint32_t class_index)
{
	uint64_t *word = &r->marks[class_index / 64], bit = 1ull << class_index % 64;

	r->marks_count -= !!(*word & bit);
	*word &= ~bit;
}

/* Keep the count of limited QPs right across whatever changed this one. */
static void count_limited(struct reaction *r, bool was, bool is)
{
	r->limited += is;
	r->limited -= was;
}

bool reaction_cnp(struct reaction *r, uint32_t class_index, uint32_t generation, uint64_t now_ns)
{
	struct rate_ctl *control;
	struct delivery *d;
	bool was, taken;

	if (class_index >= r->classes)
		return false;
	control = &r->controls[class_index];
	d = &r->deliveries[class_index];
	was = control->limited;
	if (d->generation != generation) {
		rate_ctl_init(control, &r->params);
		d->generation = generation;
	}
	taken = rate_ctl_cnp(control, &r->params, now_ns);
	count_limited(r, was, control->limited);
	mark(r, class_index);
	if (!d->cut)
		r->cuts[r->cuts_count++] = class_index;
	d->cut = true;
	return taken;
}

void reaction_sent(struct reaction *r, uint32_t class_index, uint32_t generation, uint64_t bytes,
	uint64_t now_ns)
{
	struct rate_ctl *control;
	double before_bps;

	if (class_index >= r->classes)
		return;
	control = &r->controls[class_index];
	if (r->deliveries[class_index].generation != generation || !control->limited)
		return;
	before_bps = control->rate_bps;
	rate_ctl_sent(control, &r->params, bytes, now_ns);
	count_limited(r, true, control->limited);
	if (control->rate_bps != before_bps)
		mark(r, class_index);
}

static bool must_send(const struct reaction *r, uint32_t class_index)
{
	const struct rate_ctl *control = &r->controls[class_index];
	const struct delivery *d = &r->deliveries[class_index];
	uint64_t rate_bps = rate_now_bps(control);

	if (d->failed)
		return true;
	if (rate_bps == d->sent_bps)
		return false;
	return !control->limited ||
	       fabs((double)rate_bps - (double)d->sent_bps) > r->step * (double)d->sent_bps;
}

static struct rate_change take_change(struct reaction *r, uint32_t class_index)
{
	struct delivery *d = &r->deliveries[class_index];

	d->sent_bps = rate_now_bps(&r->controls[class_index]);
	d->failed = false;
	d->waits = false;
	return (struct rate_change){
		.class_index = class_index,
		.generation = d->generation,
		.rate_bps = d->sent_bps,
	};
}

size_t reaction_cuts(struct reaction *r, struct rate_change *out, size_t max)
{
	size_t count = 0;
	uint32_t i;

	for (i = 0; i < r->cuts_count; i++) {
		struct delivery *d = &r->deliveries[r->cuts[i]];

		d->cut = false;
		if (d->early || count == max || !must_send(r, r->cuts[i]))
			continue;
		out[count++] = take_change(r, r->cuts[i]);
		d->early = true;
	}
	r->cuts_count = 0;
	return count;
}

struct output {
	struct rate_change *change;
	size_t count, max;
};

/* The class found no room, or has found none yet: it keeps its place. */
static void wait(struct reaction *r, uint32_t class_index)
{
	r->deliveries[class_index].waits = true;
	r->waiting[r->waiting_count++] = class_index;
}

/* Send the class's rate, if it must be and can be. */
static void send_or_wait(struct reaction *r, uint32_t class_index, struct output *out)
{
	struct delivery *d = &r->deliveries[class_index];
	bool early = d->early, waited = d->waits;

	d->early = false;
	d->waits = false;
	if (!must_send(r, class_index)) {
		if (waited && r->controls[class_index].limited)
			wait(r, class_index);
	} else if (early) {
		mark(r, class_index);
	} else if (out->count == out->max) {
		wait(r, class_index);
	} else {
		out->change[out->count++] = take_change(r, class_index);
	}
}

/* A class's turn in a tick. One whose cut is still to come may be in the wheel for later. */
static void look_at(struct reaction *r, uint32_t class_index, uint64_t now_ns, struct output *out)
{
	struct rate_ctl *control = &r->controls[class_index];

	if (control->limited) {
		rate_ctl_advance(control, &r->params, now_ns);
		count_limited(r, true, control->limited);
	}
	send_or_wait(r, class_index, out);
	if (control->cnp_for_cut)
		mark(r, class_index);
	if (control->limited && !wheel_has(r->wheel, class_index))
		wheel_add(r->wheel, class_index, rate_ctl_next_ns(control));
}

static void fetch(const struct reaction *r, const uint32_t *list, uint32_t i, uint32_t count)
{
	if (i >= count)
		return;
	__builtin_prefetch(&r->controls[list[i]], 1);
	__builtin_prefetch(&r->deliveries[list[i]], 1);
}

static void look_at_waiting(struct reaction *r, uint64_t now_ns, struct output *out)
{
	uint32_t count = r->waiting_count, i;

	r->waiting_count = 0; /* the list is written anew, behind where it is read */
	for (i = 0; i < count; i++) {
		fetch(r, r->waiting, i + LOOK_AHEAD, count);
		look_at(r, r->waiting[i], now_ns, out);
	}
}

/* The marked classes as a list in r->due; nothing is marked from here on. */
static uint32_t take_marked(struct reaction *r)
{
	uint32_t count = 0, word;

	for (word = 0; word <= r->classes / 64; word++) {
		uint64_t bits = r->marks[word];

		r->marks[word] = 0;
		for (; bits; bits &= bits - 1)
			r->due[count++] = word * 64 + __builtin_ctzll(bits);
	}
	r->marks_count = 0;
	return count;
}

size_t reaction_tick(struct reaction *r, uint64_t now_ns, struct rate_change *out, size_t max)
{
	struct output output = {out, 0, max};
	uint32_t count = wheel_take(r->wheel, now_ns, r->due), i;

	for (i = 0; i < count; i++)
		mark(r, r->due[i]);
	for (i = 0; i < r->waiting_count; i++)
		unmark(r, r->waiting[i]); /* they have their turn first, and only once */
	count = take_marked(r);
	look_at_waiting(r, now_ns, &output);
	for (i = 0; i < count; i++) {
		fetch(r, r->due, i + LOOK_AHEAD, count);
		look_at(r, r->due[i], now_ns, &output);
	}
	return output.count;
}

void reaction_retry(struct reaction *r, uint32_t class_index)
{
	if (class_index >= r->classes)
		return;
	r->deliveries[class_index].failed = true;
	mark(r, class_index);
}

void reaction_forget(struct reaction *r, uint32_t class_index)
{
	struct rate_ctl *control;

	if (class_index >= r->classes)
		return;
	control = &r->controls[class_index];
	count_limited(r, control->limited, false);
	rate_ctl_init(control, &r->params);
	mark(r, class_index);
}

bool reaction_renew(struct reaction *r, const struct rate_params *params, double step)
{
	uint32_t i;

	if (!rate_params_valid(params) || !isfinite(step) || step < 0)
		return false;
	for (i = 0; i < r->classes; i++) {
		bool was = r->controls[i].limited;

		rate_ctl_renew(&r->controls[i], &r->params, params);
		count_limited(r, was, r->controls[i].limited);
		if (rate_now_bps(&r->controls[i]) != r->deliveries[i].sent_bps)
			mark(r, i);
	}
	r->params = *params;
	r->step = step;
	return true;
}

uint32_t reaction_limited(const struct reaction *r)
{
	return r->limited;
}

uint64_t reaction_rate_bps(const struct reaction *r, uint32_t class_index)
{
	if (class_index >= r->classes)
		return r->params.line_rate_bps;
	return rate_now_bps(&r->controls[class_index]);
}

bool reaction_idle(const struct reaction *r)
{
	return !r->marks_count && !r->waiting_count && !r->limited;
}

size_t reaction_bytes(uint32_t classes)
{
	return classes * (sizeof(struct rate_ctl) + sizeof(struct delivery) + 4 * sizeof(uint32_t));
}
