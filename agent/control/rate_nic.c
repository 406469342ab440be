// SPDX-License-Identifier: BSD-2-Clause
// hpcc-mlx and nvidia: CNPs are remembered until alpha's and the cut's next free running timer.
#include <math.h>

#include "control/rate_ops.h"

/* nvidia's alpha is a fraction of this. */
#define ALPHA_ONE 1024

static bool is_10_bit(double value)
{
	return value * ALPHA_ONE == floor(value * ALPHA_ONE);
}

static bool hpcc_params_valid(const struct rate_params *p)
{
	return (p->clamp == RATE_CLAMP_ALWAYS || p->clamp == RATE_CLAMP_AFTER_INCREASE) &&
	       p->cut_timer_ns > 0 && p->first_cnp_bps <= p->line_rate_bps &&
	       !p->byte_counter_bytes;
}

static bool nvidia_params_valid(const struct rate_params *p)
{
	return p->clamp <= RATE_CLAMP_AFTER_INCREASE && p->cut_timer_ns > 0 &&
	       p->first_cnp_bps <= p->line_rate_bps && is_10_bit(p->g) &&
	       is_10_bit(p->initial_alpha) && p->initial_alpha < 1 && p->min_dec_fac >= 0 &&
	       p->min_dec_fac <= 1 && (p->gd == 10 || p->gd == 11);
}

/* Compared, then counted: F stages of fast recovery, one additive, then hyper for good. */
static struct rate_run nic_plan(
	struct rate_ctl *s, const struct rate_params *p, enum rate_counter counter)
{
	uint32_t stage = s->stage[counter], other = s->stage[!counter], f = p->fast_recovery;
	uint32_t furthest = stage > other ? stage : other;
	struct rate_run run = {.stages = UINT64_MAX};

	run.period = counter == RATE_TIMER ? p->increase_timer_ns : p->byte_counter_bytes;
	if (furthest < f) {
		run.stages = f - stage;
	} else if (furthest == f) {
		run.step_bps = p->additive_bps;
		run.stages = f - stage + 1;
	} else {
		run.step_bps = p->hyper_bps ? p->hyper_bps : p->additive_bps;
	}
	return run;
}

static double hpcc_alpha_after(const struct rate_params *p, double alpha, bool cnp, uint64_t times)
{
	if (!cnp)
		return rate_alpha_decayed(alpha, p->g, times);
	alpha = fmin(1, (1 - p->g) * alpha + p->g);
	return rate_alpha_decayed(alpha, p->g, times - 1);
}

/* Each update rounds down, so that at most ALPHA_ONE of them lead to 0. */
static double nvidia_alpha_after(
	const struct rate_params *p, double alpha, bool cnp, uint64_t times)
{
	uint32_t fixed = alpha * ALPHA_ONE, keep = ALPHA_ONE - p->g * ALPHA_ONE;

	if (cnp) {
		fixed = keep * fixed / ALPHA_ONE + ALPHA_ONE - keep;
		fixed = fixed < ALPHA_ONE ? fixed : ALPHA_ONE - 1;
		times--;
	}
	for (; times && fixed; times--)
		fixed = keep * fixed / ALPHA_ONE;
	return (double)fixed / ALPHA_ONE;
}

static void nic_alpha(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	uint64_t times = rate_take_due(&s->alpha_due_ns, p->alpha_timer_ns, now_ns);

	if (!times)
		return;
	s->alpha = p->variant == RATE_NVIDIA
			   ? nvidia_alpha_after(p, s->alpha, s->cnp_for_alpha, times)
			   : hpcc_alpha_after(p, s->alpha, s->cnp_for_alpha, times);
	s->cnp_for_alpha = false;
}

/* What a cut leaves of the rate. */
static double share_left(const struct rate_ctl *s, const struct rate_params *p)
{
	if (p->variant != RATE_NVIDIA)
		return 1 - s->alpha / 2;
	return fmax(p->min_dec_fac, 1 - ldexp(s->alpha * ALPHA_ONE, -(int)p->gd));
}

static void cut(struct rate_ctl *s, const struct rate_params *p)
{
	if (rate_clamps(s, p->clamp))
		s->target_bps = s->rate_bps;
	s->rate_bps = fmax(p->min_rate_bps, s->rate_bps * share_left(s, p));
	s->bytes_left = p->byte_counter_bytes;
	s->cnp_for_cut = false;
	rate_restart_stages(s, p, s->cut_due_ns);
	s->cut_due_ns = rate_add_ns(s->cut_due_ns, p->cut_timer_ns);
}

/* At the same moment: alpha, the cut, and then stages, which the cut has put off. */
static void advance(struct rate_ctl *s, const struct rate_params *p, const struct rate_ops *ops,
	uint64_t now_ns)
{
	if (s->cnp_for_cut && s->cut_due_ns <= now_ns) {
		rate_run_timer(s, p, ops, s->cut_due_ns - 1);
		nic_alpha(s, p, s->cut_due_ns);
		cut(s, p);
	}
	rate_run_timer(s, p, ops, now_ns);
}

/* The first CNP starts the timers; the cut's a nanosecond later, so that alpha is always first. */
static void start(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	double first_bps = p->first_cnp_bps ? p->first_cnp_bps : p->line_rate_bps;

	s->started = true;
	s->alpha = p->initial_alpha;
	s->rate_bps = fmax(p->min_rate_bps, first_bps);
	s->target_bps = s->rate_bps;
	s->cnp_for_alpha = false;
	s->alpha_due_ns = rate_add_ns(now_ns, p->alpha_timer_ns);
	s->cut_due_ns = rate_add_ns(rate_add_ns(now_ns, p->cut_timer_ns), 1);
}

/* A CNP at the very moment of a timer is ahead of it. */
static bool cnp(struct rate_ctl *s, const struct rate_params *p, const struct rate_ops *ops,
	uint64_t now_ns)
{
	uint64_t before_ns = now_ns ? now_ns - 1 : 0;

	if (rate_ctl_next_ns(s) <= before_ns)
		advance(s, p, ops, before_ns);
	if (!s->started) {
		start(s, p, now_ns);
	} else {
		nic_alpha(s, p, before_ns);
		if (!s->cnp_for_cut)
			rate_take_due(&s->cut_due_ns, p->cut_timer_ns, before_ns);
		s->cnp_for_alpha = true;
	}
	s->cnp_for_cut = true;
	s->limited = true;
	return true;
}

static bool hpcc_cnp(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	return cnp(s, p, &rate_hpcc_mlx, now_ns);
}

static bool nvidia_cnp(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	return cnp(s, p, &rate_nvidia, now_ns);
}

static void hpcc_advance(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	advance(s, p, &rate_hpcc_mlx, now_ns);
}

static void nvidia_advance(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	advance(s, p, &rate_nvidia, now_ns);
}

const struct rate_ops rate_hpcc_mlx = {
	.params_valid = hpcc_params_valid,
	.cnp = hpcc_cnp,
	.advance = hpcc_advance,
	.alpha = nic_alpha,
	.plan = nic_plan,
};

const struct rate_ops rate_nvidia = {
	.params_valid = nvidia_params_valid,
	.cnp = nvidia_cnp,
	.advance = nvidia_advance,
	.alpha = nic_alpha,
	.plan = nic_plan,
	.release_forgets = true,
};
