// SPDX-License-Identifier: BSD-2-Clause
// DCQCN's reaction point: the equations, each run of equal events in closed form.
#include "control/dcqcn.h"

#include <math.h>

/* A gap halved this often is below the last digit of any rate. */
#define HALVINGS_MAX 1100

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static double halved(double value, double times)
{
	return ldexp(value, -(int)fmin(times, HALVINGS_MAX));
}

/* How many events of a periodic timer are due by now; moves *due_ns past now. */
static uint64_t take_due(uint64_t *due_ns, uint64_t period_ns, uint64_t now_ns)
{
	uint64_t passed;

	if (*due_ns == UINT64_MAX || now_ns < *due_ns)
		return 0;
	passed = (now_ns - *due_ns) / period_ns;
	*due_ns = add_saturated(*due_ns + passed * period_ns, period_ns);
	return passed + 1;
}

bool dcqcn_params_valid(const struct dcqcn_params *p)
{
	return p->line_rate_bps > 0 && p->min_rate_bps > 0 && p->min_rate_bps <= p->line_rate_bps &&
	       p->g > 0 && p->g <= 1 && p->increase_timer_ns > 0 && p->alpha_timer_ns > 0 &&
	       p->fast_recovery >= 1;
}

void dcqcn_init(struct dcqcn *d, const struct dcqcn_params *p)
{
	*d = (struct dcqcn){
		.rate_bps = p->line_rate_bps,
		.target_bps = p->line_rate_bps,
		.alpha = 1,
		.alpha_due_ns = UINT64_MAX,
		.increase_due_ns = UINT64_MAX,
	};
}

/* alpha <- (1 - g) alpha, times over */
static void decay_alpha(struct dcqcn *d, const struct dcqcn_params *p, uint64_t times)
{
	if (times)
		d->alpha *= pow(1 - p->g, times);
}

/* Stages that halve the gap to a target that stands still. */
static void approach_target(struct dcqcn *d, double stages)
{
	d->rate_bps = d->target_bps - halved(d->target_bps - d->rate_bps, stages);
}

/*
 * Stages that raise the target by R_AI and then halve the gap: gap' = (gap + R_AI) / 2, which
 * after n of them is R_AI + (gap - R_AI) / 2^n.
 */
static void follow_target(struct dcqcn *d, const struct dcqcn_params *p, double stages)
{
	double additive_bps = p->additive_bps;
	double gap = d->target_bps - d->rate_bps;

	gap = additive_bps + halved(gap - additive_bps, stages);
	d->target_bps = fmin(d->target_bps + stages * additive_bps, p->line_rate_bps);
	d->rate_bps = d->target_bps - gap;
}

/* How many of the next stages of this counter are fast recovery: max(T, BC) < F after each. */
static uint64_t fast_stages_left(
	const struct dcqcn *d, const struct dcqcn_params *p, uint32_t stage)
{
	uint32_t last = p->fast_recovery - 1;

	if (d->timer_stage > last || d->byte_stage > last)
		return 0;
	return last - stage;
}

/* How many additive stages the target can make in full before it meets the line rate. */
static double additive_stages_left(const struct dcqcn *d, const struct dcqcn_params *p)
{
	if (!p->additive_bps)
		return 0;
	return floor((p->line_rate_bps - d->target_bps) / p->additive_bps);
}

static void release_at_line_rate(struct dcqcn *d, const struct dcqcn_params *p)
{
	double line_bps = p->line_rate_bps;

	if (d->rate_bps < line_bps * (1 - DCQCN_LINE_TOLERANCE))
		return;
	d->rate_bps = line_bps;
	d->target_bps = line_bps;
	d->timer_stage = 0;
	d->byte_stage = 0;
	d->bytes = 0;
	d->increase_due_ns = UINT64_MAX;
	d->limited = false;
}

/* Count stages of one counter, timer or byte, and raise the rate as they say. */
static void run_stages(
	struct dcqcn *d, const struct dcqcn_params *p, uint32_t *stage, uint64_t stages)
{
	uint64_t fast = fast_stages_left(d, p, *stage);
	double left, additive;

	if (!d->limited || !stages)
		return;
	if (fast > stages)
		fast = stages;
	*stage = stages > UINT32_MAX - *stage ? UINT32_MAX : *stage + (uint32_t)stages;
	if (fast)
		approach_target(d, fast);

	left = stages - fast;
	additive = fmin(left, additive_stages_left(d, p));
	if (additive > 0)
		follow_target(d, p, additive);

	left -= additive;
	if (left > 0) {
		d->target_bps = fmin(d->target_bps + p->additive_bps, p->line_rate_bps);
		approach_target(d, left);
	}
	release_at_line_rate(d, p);
}

void dcqcn_alpha_event(struct dcqcn *d, const struct dcqcn_params *p)
{
	decay_alpha(d, p, 1);
}

void dcqcn_timer_event(struct dcqcn *d, const struct dcqcn_params *p)
{
	run_stages(d, p, &d->timer_stage, 1);
}

void dcqcn_byte_event(struct dcqcn *d, const struct dcqcn_params *p)
{
	run_stages(d, p, &d->byte_stage, 1);
}

/* Between two CNPs alpha and the rate touch nothing in common: their order does not matter. */
void dcqcn_advance(struct dcqcn *d, const struct dcqcn_params *p, uint64_t now_ns)
{
	uint64_t stages;

	decay_alpha(d, p, take_due(&d->alpha_due_ns, p->alpha_timer_ns, now_ns));
	if (!d->limited)
		return;
	stages = take_due(&d->increase_due_ns, p->increase_timer_ns, now_ns);
	run_stages(d, p, &d->timer_stage, stages);
}

void dcqcn_cnp(struct dcqcn *d, const struct dcqcn_params *p, uint64_t now_ns)
{
	dcqcn_advance(d, p, now_ns);
	d->target_bps = d->rate_bps;
	d->rate_bps = fmax(p->min_rate_bps, d->rate_bps * (1 - d->alpha / 2));
	d->alpha = fmin(1, (1 - p->g) * d->alpha + p->g);
	d->timer_stage = 0;
	d->byte_stage = 0;
	d->bytes = 0;
	d->alpha_due_ns = add_saturated(now_ns, p->alpha_timer_ns);
	d->increase_due_ns = add_saturated(now_ns, p->increase_timer_ns);
	d->limited = true;
}

void dcqcn_sent(struct dcqcn *d, const struct dcqcn_params *p, uint64_t bytes, uint64_t now_ns)
{
	uint64_t total, stages;

	dcqcn_advance(d, p, now_ns);
	if (!d->limited || !p->byte_counter_bytes)
		return;
	total = add_saturated(d->bytes, bytes);
	stages = total / p->byte_counter_bytes;
	d->bytes = total % p->byte_counter_bytes;
	run_stages(d, p, &d->byte_stage, stages);
}

uint64_t dcqcn_next_ns(const struct dcqcn *d)
{
	return d->limited ? d->increase_due_ns : UINT64_MAX;
}
