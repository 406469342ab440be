// SPDX-License-Identifier: BSD-2-Clause
// The rate control of one QP: what all variants do alike, and the way to each.
#include "control/rate_ctl.h"

#include <math.h>

#include "control/rate_ops.h"

/* A gap halved this often is below the last digit of any rate. */
#define HALVINGS_MAX 1100

static const struct rate_ops *const variants[RATE_VARIANTS] = {
	[RATE_SIGCOMM15] = &rate_sigcomm15,
	[RATE_NS3_RDMA] = &rate_ns3_rdma,
	[RATE_HPCC_MLX] = &rate_hpcc_mlx,
	[RATE_NVIDIA] = &rate_nvidia,
	[RATE_FIXED] = &rate_fixed,
};

uint64_t rate_add_ns(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t rate_take_due(uint64_t *due_ns, uint64_t period_ns, uint64_t now_ns)
{
	uint64_t passed;

	if (*due_ns == UINT64_MAX || now_ns < *due_ns)
		return 0;
	passed = (now_ns - *due_ns) / period_ns;
	*due_ns = rate_add_ns(*due_ns + passed * period_ns, period_ns);
	return passed + 1;
}

double rate_alpha_decayed(double alpha, double g, uint64_t times)
{
	if (times < 2)
		return times ? alpha * (1 - g) : alpha;
	return alpha * pow(1 - g, times);
}

bool rate_clamps(const struct rate_ctl *s, enum rate_clamp clamp)
{
	return clamp == RATE_CLAMP_ALWAYS || s->stage[RATE_BYTES] ||
	       (clamp == RATE_CLAMP_AFTER_INCREASE && s->stage[RATE_TIMER]);
}

void rate_restart_stages(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	s->stage[RATE_TIMER] = 0;
	s->stage[RATE_BYTES] = 0;
	s->hyper = false;
	s->increase_due_ns = rate_add_ns(now_ns, p->increase_timer_ns);
	s->limited = true;
}

static double halved(double value, double times)
{
	return ldexp(value, -(int)fmin(times, HALVINGS_MAX));
}

/* Stages that halve the gap to a target that stands still. */
static void approach_target(struct rate_ctl *s, double stages)
{
	s->rate_bps = s->target_bps - halved(s->target_bps - s->rate_bps, stages);
}

/*
 * Stages that raise the target by step_bps and then halve the gap: gap' = (gap + step) / 2, which
 * after n of them is step + (gap - step) / 2^n.
 */
static void follow_target(struct rate_ctl *s, double step_bps, double stages, double top_bps)
{
	double gap = s->target_bps - s->rate_bps;

	gap = step_bps + halved(gap - step_bps, stages);
	s->target_bps = fmin(s->target_bps + stages * step_bps, top_bps);
	s->rate_bps = s->target_bps - gap;
}

/* Stages whose step is whole, and then, from the one that meets the top on, those without. */
static void climb(struct rate_ctl *s, double step_bps, double stages, double top_bps)
{
	double whole = fmin(stages, floor((top_bps - s->target_bps) / step_bps));

	if (whole > 0)
		follow_target(s, step_bps, whole, top_bps);
	if (stages <= whole)
		return;
	s->target_bps = fmin(s->target_bps + step_bps, top_bps);
	approach_target(s, stages - whole);
}

static void release_at_line_rate(
	struct rate_ctl *s, const struct rate_params *p, const struct rate_ops *ops)
{
	double line_bps = p->line_rate_bps;

	if (s->rate_bps < line_bps * (1 - RATE_LINE_TOLERANCE))
		return;
	s->rate_bps = line_bps;
	s->target_bps = line_bps;
	s->stage[RATE_TIMER] = 0;
	s->stage[RATE_BYTES] = 0;
	s->hyper = false;
	s->bytes_left = p->byte_counter_bytes;
	s->increase_due_ns = UINT64_MAX;
	s->limited = s->cnp_for_cut;
	if (ops->release_forgets && !s->cnp_for_cut)
		s->started = false;
}

static void run_equal_stages(struct rate_ctl *s, const struct rate_params *p,
	const struct rate_ops *ops, const struct rate_run *run, uint64_t stages)
{
	double top_bps = ops->target_may_pass_line ? HUGE_VAL : (double)p->line_rate_bps;

	if (run->target_drops)
		s->target_bps /= 8;
	if (run->target_drops || run->step_bps <= 0)
		approach_target(s, stages);
	else
		climb(s, run->step_bps, stages, top_bps);
	release_at_line_rate(s, p, ops);
}

static void count_stages(uint16_t *stage, uint64_t stages)
{
	*stage = stages > (uint64_t)(UINT16_MAX - *stage) ? UINT16_MAX : *stage + (uint16_t)stages;
}

/*
 * Stages of one counter, the first of them past ns or bytes ago; returns how much is left until
 * the next.
 */
static uint64_t run_stages(struct rate_ctl *s, const struct rate_params *p,
	const struct rate_ops *ops, enum rate_counter counter, uint64_t past)
{
	for (;;) {
		struct rate_run run = ops->plan(s, p, counter);
		uint64_t due = past / run.period;
		uint64_t stages = due < run.stages ? due + 1 : run.stages;

		count_stages(&s->stage[counter], stages);
		run_equal_stages(s, p, ops, &run, stages);
		if (s->increase_due_ns == UINT64_MAX)
			return counter == RATE_BYTES ? s->bytes_left : UINT64_MAX;
		if (due < run.stages)
			return run.period - past % run.period;
		past -= stages * run.period;
	}
}

void rate_run_timer(struct rate_ctl *s, const struct rate_params *p, const struct rate_ops *ops,
	uint64_t now_ns)
{
	uint64_t left_ns;

	if (now_ns < s->increase_due_ns || s->increase_due_ns == UINT64_MAX)
		return;
	left_ns = run_stages(s, p, ops, RATE_TIMER, now_ns - s->increase_due_ns);
	s->increase_due_ns = rate_add_ns(now_ns, left_ns);
}

static bool within_unit(double value)
{
	return value > 0 && value <= 1;
}

bool rate_params_valid(const struct rate_params *p)
{
	if (p->variant >= RATE_VARIANTS || !p->line_rate_bps || !p->min_rate_bps ||
		p->min_rate_bps > p->line_rate_bps)
		return false;
	if (p->variant == RATE_FIXED)
		return true;
	return within_unit(p->g) && within_unit(p->initial_alpha) && p->alpha_timer_ns &&
	       p->increase_timer_ns && p->fast_recovery && variants[p->variant]->params_valid(p);
}

void rate_ctl_init(struct rate_ctl *s, const struct rate_params *p)
{
	*s = (struct rate_ctl){
		.rate_bps = p->line_rate_bps,
		.target_bps = p->line_rate_bps,
		.alpha = p->initial_alpha,
		.alpha_due_ns = UINT64_MAX,
		.increase_due_ns = UINT64_MAX,
		.bytes_left = p->byte_counter_bytes,
	};
}

static double within(double rate_bps, const struct rate_params *p)
{
	return fmin(fmax(rate_bps, (double)p->min_rate_bps), (double)p->line_rate_bps);
}

void rate_ctl_renew(
	struct rate_ctl *s, const struct rate_params *before, const struct rate_params *p)
{
	if (!s->limited || before->variant != p->variant) {
		rate_ctl_init(s, p);
		return;
	}
	s->rate_bps = within(s->rate_bps, p);
	s->target_bps = fmax(within(s->target_bps, p), s->rate_bps);
	if (p->variant == RATE_NVIDIA)
		s->alpha = floor(s->alpha * 1024) / 1024;
	if (s->bytes_left > p->byte_counter_bytes)
		s->bytes_left = p->byte_counter_bytes;
}

bool rate_ctl_cnp(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	return variants[p->variant]->cnp(s, p, now_ns);
}

void rate_ctl_advance(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	if (rate_ctl_next_ns(s) <= now_ns)
		variants[p->variant]->advance(s, p, now_ns);
}

void rate_ctl_sent(struct rate_ctl *s, const struct rate_params *p, uint64_t bytes, uint64_t now_ns)
{
	const struct rate_ops *ops = variants[p->variant];

	rate_ctl_advance(s, p, now_ns);
	if (s->increase_due_ns == UINT64_MAX || !p->byte_counter_bytes)
		return;
	if (bytes < s->bytes_left)
		s->bytes_left -= bytes;
	else
		s->bytes_left = run_stages(s, p, ops, RATE_BYTES, bytes - s->bytes_left);
}

double rate_ctl_alpha(const struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	struct rate_ctl then = *s;

	rate_ctl_advance(&then, p, now_ns);
	variants[p->variant]->alpha(&then, p, now_ns);
	return then.alpha;
}

static bool fixed_cnp(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	(void)s, (void)p, (void)now_ns;
	return true;
}

static void fixed_nothing(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	(void)s, (void)p, (void)now_ns;
}

const struct rate_ops rate_fixed = {
	.cnp = fixed_cnp,
	.advance = fixed_nothing,
	.alpha = fixed_nothing,
};
