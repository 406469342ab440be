// SPDX-License-Identifier: BSD-2-Clause
// sigcomm15 and ns3-rdma: every CNP cuts, and stages are counted before they are compared.
#include <math.h>

#include "control/rate_ops.h"

/* So many times the rate: what a target must be for ns3-rdma to drop it after a cut. */
#define DEEP_CUT 10

static bool paper_params_valid(const struct rate_params *p)
{
	return p->clamp <= RATE_CLAMP_AFTER_INCREASE;
}

/* The halves of both periods are used. */
static bool ns3_params_valid(const struct rate_params *p)
{
	return paper_params_valid(p) && p->increase_timer_ns > 1 && p->byte_counter_bytes != 1;
}

static uint64_t period_of(const struct rate_params *p, enum rate_counter counter)
{
	return counter == RATE_TIMER ? p->increase_timer_ns : p->byte_counter_bytes;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The stages of this counter until it has been counted to `last`. */
static uint64_t up_to(const struct rate_ctl *s, enum rate_counter counter, uint32_t last)
{
	return last - s->stage[counter];
}

/* Fast recovery until either counter is at F, hyper increase while both are beyond it. */
static struct rate_run sigcomm15_plan(
	struct rate_ctl *s, const struct rate_params *p, enum rate_counter counter)
{
	uint32_t next = s->stage[counter] + 1, other = s->stage[!counter], f = p->fast_recovery;
	struct rate_run run = {UINT64_MAX, period_of(p, counter), p->additive_bps, false};

	if (next < f && other < f) {
		run.step_bps = 0;
		run.stages = up_to(s, counter, f - 1);
	} else if (p->hyper_bps && next > f && other > f) {
		run.step_bps = (double)p->hyper_bps * (lesser(next, other) - f);
		run.stages = next < other ? 1 : UINT64_MAX;
	} else if (p->hyper_bps && other > f) {
		run.stages = up_to(s, counter, f);
	}
	return run;
}

/*
 * Fast recovery until either counter is at F. Only the timer looks whether both are, and so begins
 * hyper increase, in which periods after a stage are halved.
 */
static struct rate_run ns3_plan(
	struct rate_ctl *s, const struct rate_params *p, enum rate_counter counter)
{
	uint32_t next = s->stage[counter] + 1, other = s->stage[!counter], f = p->fast_recovery;
	struct rate_run run = {UINT64_MAX, period_of(p, counter), p->additive_bps, false};
	bool first = next == 1 || other == 1;

	if (s->hyper)
		run.period /= 2;
	if (s->hyper || (counter == RATE_TIMER && p->hyper_bps && next >= f && other >= f)) {
		run.step_bps = (double)p->hyper_bps * (lesser(next, other) - f + 1);
		run.stages = s->hyper && next >= other ? UINT64_MAX : 1;
		s->hyper = true;
	} else if (next < f && other < f) {
		run.step_bps = 0;
		run.stages = up_to(s, counter, f - 1);
	} else if (counter == RATE_TIMER && p->hyper_bps && other >= f) {
		run.stages = up_to(s, counter, f - 1);
	}
	if (first && s->target_bps > DEEP_CUT * s->rate_bps) {
		run.target_drops = true;
		run.stages = 1;
	}
	return run;
}

static void paper_alpha(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	uint64_t times = rate_take_due(&s->alpha_due_ns, p->alpha_timer_ns, now_ns);

	s->alpha = rate_alpha_decayed(s->alpha, p->g, times);
}

static void raise_alpha(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	s->alpha = fmin(1, (1 - p->g) * s->alpha + p->g);
	s->alpha_due_ns = rate_add_ns(now_ns, p->alpha_timer_ns);
}

static void cut(struct rate_ctl *s, const struct rate_params *p, double alpha)
{
	s->rate_bps = fmax(p->min_rate_bps, s->rate_bps * (1 - alpha / 2));
}

/* Alpha and the rate up to date, if the CNP is to be taken. */
static bool take_cnp(struct rate_ctl *s, const struct rate_params *p, const struct rate_ops *ops,
	uint64_t now_ns)
{
	if (p->cnp_spacing_ns && now_ns < s->cut_due_ns)
		return false;
	rate_run_timer(s, p, ops, now_ns);
	paper_alpha(s, p, now_ns);
	s->cut_due_ns = rate_add_ns(now_ns, p->cnp_spacing_ns);
	return true;
}

static bool sigcomm15_cnp(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	if (!take_cnp(s, p, &rate_sigcomm15, now_ns))
		return false;
	s->target_bps = s->rate_bps;
	cut(s, p, s->alpha);
	raise_alpha(s, p, now_ns);
	s->bytes_left = p->byte_counter_bytes;
	rate_restart_stages(s, p, now_ns);
	return true;
}

static bool ns3_cnp(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	if (!take_cnp(s, p, &rate_ns3_rdma, now_ns))
		return false;
	if (rate_clamps(s, p->clamp)) {
		s->target_bps = s->rate_bps;
		s->bytes_left = p->byte_counter_bytes;
	}
	raise_alpha(s, p, now_ns);
	cut(s, p, s->alpha);
	rate_restart_stages(s, p, now_ns);
	return true;
}

static void sigcomm15_advance(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	rate_run_timer(s, p, &rate_sigcomm15, now_ns);
}

static void ns3_advance(struct rate_ctl *s, const struct rate_params *p, uint64_t now_ns)
{
	rate_run_timer(s, p, &rate_ns3_rdma, now_ns);
}

const struct rate_ops rate_sigcomm15 = {
	.params_valid = paper_params_valid,
	.cnp = sigcomm15_cnp,
	.advance = sigcomm15_advance,
	.alpha = paper_alpha,
	.plan = sigcomm15_plan,
};

const struct rate_ops rate_ns3_rdma = {
	.params_valid = ns3_params_valid,
	.cnp = ns3_cnp,
	.advance = ns3_advance,
	.alpha = paper_alpha,
	.plan = ns3_plan,
	.target_may_pass_line = true,
};
