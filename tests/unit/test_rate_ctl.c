// SPDX-License-Identifier: BSD-2-Clause
// The rate control against golden traces, its bounds, and each variant's rules event by event.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "control/rate_ctl.h"

#define MBIT 1e6
#define GBIT 1000000000ull
#define US   1000ull

#ifdef __SANITIZE_ADDRESS__
enum { RANDOM_STEPS = 1000000 };
#else
enum { RANDOM_STEPS = 10000000 }; /* of each variant */
#endif

/* Zhu et al.; T and K apart, so that each can be watched alone. */
static const struct rate_params paper = {
	.variant = RATE_SIGCOMM15,
	.line_rate_bps = 40 * GBIT,
	.min_rate_bps = 10000000,
	.g = 1.0 / 256,
	.initial_alpha = 1,
	.increase_timer_ns = 35 * US,
	.alpha_timer_ns = 10 * US,
	.byte_counter_bytes = 10000000,
	.fast_recovery = 5,
	.additive_bps = 40000000,
};

static const struct rate_params ns3 = {
	.variant = RATE_NS3_RDMA,
	.line_rate_bps = 40 * GBIT,
	.min_rate_bps = 100000000,
	.g = 1.0 / 256,
	.initial_alpha = 0.5,
	.increase_timer_ns = 60 * US,
	.alpha_timer_ns = 55 * US,
	.byte_counter_bytes = 1000000,
	.fast_recovery = 5,
	.additive_bps = 40000000,
	.hyper_bps = 200000000,
	.clamp = RATE_CLAMP_ALWAYS,
};

/* run.py of HPCC, at 100 Gbit/s with the table's steps. */
static const struct rate_params hpcc = {
	.variant = RATE_HPCC_MLX,
	.line_rate_bps = 100 * GBIT,
	.min_rate_bps = 1000000000,
	.g = 1.0 / 256,
	.initial_alpha = 1,
	.increase_timer_ns = 300 * US,
	.alpha_timer_ns = 1 * US,
	.cut_timer_ns = 4 * US,
	.fast_recovery = 1,
	.additive_bps = 50000000,
	.hyper_bps = 100000000,
	.clamp = RATE_CLAMP_AFTER_INCREASE,
};

static const struct rate_params nvidia = {
	.variant = RATE_NVIDIA,
	.line_rate_bps = 100 * GBIT,
	.min_rate_bps = 1000000,
	.g = 5.0 / 1024,
	.initial_alpha = 1023.0 / 1024,
	.increase_timer_ns = 300 * US,
	.alpha_timer_ns = 1 * US,
	.cut_timer_ns = 4 * US,
	.fast_recovery = 1,
	.additive_bps = 5000000,
	.hyper_bps = 50000000,
	.clamp = RATE_CLAMP_AFTER_INCREASE,
	.min_dec_fac = 0.5,
	.gd = 11,
};

static const struct rate_params fixed = {
	.variant = RATE_FIXED,
	.line_rate_bps = 25 * GBIT,
	.min_rate_bps = 1000000,
};

static const struct rate_params *const all[] = {&paper, &ns3, &hpcc, &nvidia, &fixed};
enum { ALL = sizeof(all) / sizeof(all[0]) };

static void assert_near(double got, double want, double within)
{
	if (!(fabs(got - want) <= within))
		fail_msg("%.12g is not within %g of %.12g", got, within, want);
}

static void assert_relative(double got, double want, double within)
{
	assert_near(got, want, within * fmax(fabs(want), 1));
}

static void assert_rates(const struct rate_ctl *s, double rate_mbit, double target_mbit)
{
	assert_near(s->rate_bps / MBIT, rate_mbit, 1e-8);
	assert_near(s->target_bps / MBIT, target_mbit, 1e-8);
}

static bool in_bounds(const struct rate_ctl *s, const struct rate_params *p)
{
	bool below_line = p->variant == RATE_NS3_RDMA || s->target_bps <= p->line_rate_bps;
	bool at_line = s->rate_bps == p->line_rate_bps && s->target_bps == s->rate_bps;

	return s->rate_bps >= p->min_rate_bps && s->rate_bps <= p->line_rate_bps &&
	       s->rate_bps <= s->target_bps && below_line && s->alpha >= 0 && s->alpha <= 1 &&
	       (s->limited ? true : at_line && rate_ctl_next_ns(s) == UINT64_MAX);
}

/* ---- golden traces ---- */

static void sigcomm15_follows_golden_trace(void **state)
{
	struct rate_ctl s;

	(void)state;
	rate_ctl_init(&s, &paper);
	rate_ctl_cnp(&s, &paper, 0);
	assert_rates(&s, 20000, 40000);
	assert_true(s.alpha == 1);
	rate_ctl_cnp(&s, &paper, 0);
	assert_rates(&s, 10000, 20000);
	assert_true(s.alpha == 1);
	assert_near(rate_ctl_alpha(&s, &paper, 10 * US), 0.99609375, 5e-9);
	assert_near(rate_ctl_alpha(&s, &paper, 20 * US), 0.992202759, 5e-10);
	assert_near(rate_ctl_alpha(&s, &paper, 30 * US), 0.988326967, 5e-10);
	rate_ctl_advance(&s, &paper, 35 * US - 1);
	assert_rates(&s, 10000, 20000);
	rate_ctl_advance(&s, &paper, 35 * US);
	assert_rates(&s, 15000, 20000);
	assert_near(rate_ctl_alpha(&s, &paper, 35 * US), 0.988326967, 5e-10);
	assert_near(rate_ctl_alpha(&s, &paper, 40 * US), 0.984466315, 5e-10);
	rate_ctl_advance(&s, &paper, 70 * US);
	assert_rates(&s, 17500, 20000);
	rate_ctl_advance(&s, &paper, 105 * US);
	assert_rates(&s, 18750, 20000);
	rate_ctl_advance(&s, &paper, 140 * US);
	assert_rates(&s, 19375, 20000);
	rate_ctl_advance(&s, &paper, 175 * US);
	assert_rates(&s, 19707.5, 20040);
	rate_ctl_advance(&s, &paper, 210 * US);
	assert_rates(&s, 19893.75, 20080);
	rate_ctl_sent(&s, &paper, 9999999, 210 * US);
	assert_rates(&s, 19893.75, 20080);
	rate_ctl_sent(&s, &paper, 1, 210 * US);
	assert_rates(&s, 20006.875, 20120);
	rate_ctl_advance(&s, &paper, 245 * US);
	assert_rates(&s, 20083.4375, 20160);
	rate_ctl_sent(&s, &paper, 10000000, 245 * US);
	assert_rates(&s, 20141.71875, 20200);
}

/* reports.md's five CNPs by hand, g = 1/256: alpha is 1 throughout, then decayed twice. */
static void sigcomm15_five_cnps_cut_with_alpha_from_before(void **state)
{
	struct rate_ctl s;
	int i;

	(void)state;
	rate_ctl_init(&s, &paper);
	for (i = 0; i < 4; i++)
		rate_ctl_cnp(&s, &paper, 0);
	assert_rates(&s, 2500, 5000);
	rate_ctl_cnp(&s, &paper, 20 * US);
	assert_rates(&s, 2500 * (1 - 0.9922027587890625 / 2), 2500);
	assert_near(s.alpha, 0.9922027587890625 * 255 / 256 + 1.0 / 256, 1e-15);
}

static void ns3_first_cnp_raises_alpha_and_then_cuts(void **state)
{
	struct rate_ctl s;

	(void)state;
	rate_ctl_init(&s, &ns3);
	rate_ctl_cnp(&s, &ns3, 0);
	assert_near(s.alpha, 0.501953125, 1e-12);
	assert_rates(&s, 29960.9375, 40000);
}

static void ns3_hyper_increase_halves_the_periods(void **state)
{
	struct rate_params p = ns3;
	struct rate_ctl s;

	(void)state;
	p.fast_recovery = 2;
	rate_ctl_init(&s, &p);
	rate_ctl_cnp(&s, &p, 0);
	s.rate_bps = s.target_bps = 10 * GBIT;
	rate_ctl_sent(&s, &p, 2000000, 0); /* BC 2: fast recovery, then additive */
	assert_rates(&s, 10020, 10040);
	rate_ctl_advance(&s, &p, 60 * US); /* T 1: additive, for BC is at F */
	assert_rates(&s, 10050, 10080);
	rate_ctl_advance(&s, &p, 120 * US); /* T 2: hyper, 1 step; the period is still whole */
	assert_rates(&s, 10165, 10280);
	assert_true(rate_ctl_next_ns(&s) == 180 * US);
	rate_ctl_advance(&s, &p, 180 * US); /* T 3, BC 2: again 1 step, and half a period */
	assert_rates(&s, 10322.5, 10480);
	assert_true(rate_ctl_next_ns(&s) == 210 * US);
	rate_ctl_sent(&s, &p, 1000000, 180 * US); /* BC 3: 2 steps, and half a byte counter */
	assert_rates(&s, 10601.25, 10880);
	assert_true(s.bytes_left == 500000);
}

static void ns3_target_of_a_deep_cut_drops_to_an_eighth(void **state)
{
	struct rate_ctl s;

	(void)state;
	rate_ctl_init(&s, &ns3);
	rate_ctl_cnp(&s, &ns3, 0);
	s.rate_bps = 3999 * MBIT;
	rate_ctl_advance(&s, &ns3, 60 * US);
	assert_rates(&s, (3999 + 5000) / 2.0, 5000);
	rate_ctl_advance(&s, &ns3, 120 * US);
	assert_rates(&s, (4499.5 + 5000) / 2, 5000);
}

static void ns3_clamp_says_when_the_target_follows(void **state)
{
	static const struct {
		enum rate_clamp clamp;
		bool timer, bytes, follows;
	} cases[] = {
		{RATE_CLAMP_ALWAYS, false, false, true},
		{RATE_CLAMP_AFTER_BYTES, false, false, false},
		{RATE_CLAMP_AFTER_BYTES, true, false, false},
		{RATE_CLAMP_AFTER_BYTES, false, true, true},
		{RATE_CLAMP_AFTER_INCREASE, false, false, false},
		{RATE_CLAMP_AFTER_INCREASE, true, false, true},
		{RATE_CLAMP_AFTER_INCREASE, false, true, true},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rate_params p = ns3;
		struct rate_ctl s;
		double before;

		p.clamp = cases[i].clamp;
		rate_ctl_init(&s, &p);
		rate_ctl_cnp(&s, &p, 0);
		s.bytes_left = 700;
		rate_ctl_sent(&s, &p, cases[i].bytes ? 700 : 0, 0);
		rate_ctl_advance(&s, &p, cases[i].timer ? 60 * US : 0);
		before = s.rate_bps;
		rate_ctl_cnp(&s, &p, 60 * US - !cases[i].timer);
		assert_true(s.target_bps == (cases[i].follows ? before : 40e9));
		assert_int_equal(
			s.bytes_left == p.byte_counter_bytes, cases[i].follows || cases[i].bytes);
	}
}

static void hpcc_follows_golden_trace(void **state)
{
	struct rate_ctl s;

	(void)state;
	rate_ctl_init(&s, &hpcc);
	rate_ctl_cnp(&s, &hpcc, 0);
	assert_rates(&s, 100000, 100000);
	rate_ctl_cnp(&s, &hpcc, 3 * US);
	rate_ctl_advance(&s, &hpcc, 4000);
	assert_rates(&s, 100000, 100000);
	assert_true(rate_ctl_next_ns(&s) == 4001);
	rate_ctl_advance(&s, &hpcc, 4001);
	assert_near(s.rate_bps / MBIT, 50582.1347, 5e-5);
	assert_near(s.target_bps / MBIT, 100000, 0);
	assert_near(s.alpha, 0.988357306, 5e-10);
	assert_int_equal(s.stage[RATE_TIMER], 0);
	rate_ctl_advance(&s, &hpcc, 304001);
	assert_near(s.rate_bps / MBIT, 75291.0674, 5e-5);
	assert_near(rate_ctl_alpha(&s, &hpcc, 304001), 0.305476998, 5e-10);
	assert_int_equal(s.stage[RATE_TIMER], 1);
	rate_ctl_advance(&s, &hpcc, 604001);
	assert_near(s.rate_bps / MBIT, 87645.5337, 5e-5);
	assert_near(rate_ctl_alpha(&s, &hpcc, 604001), 0.094415446, 5e-10);
	rate_ctl_advance(&s, &hpcc, 904001);
	assert_near(s.rate_bps / MBIT, 93822.7668, 5e-5);
	assert_near(rate_ctl_alpha(&s, &hpcc, 904001), 0.029181498, 5e-10);
	rate_ctl_advance(&s, &hpcc, 1204001);
	assert_near(s.rate_bps / MBIT, 96911.3834, 5e-5);
	assert_near(rate_ctl_alpha(&s, &hpcc, 1204001), 0.009019285, 5e-10);
	assert_int_equal(s.stage[RATE_TIMER], 4);
	assert_near(s.target_bps / MBIT, 100000, 0);
}

static void hpcc_has_one_additive_stage_and_then_hyper(void **state)
{
	struct rate_ctl s;

	(void)state;
	rate_ctl_init(&s, &hpcc);
	rate_ctl_cnp(&s, &hpcc, 0);
	rate_ctl_advance(&s, &hpcc, 4001);
	s.rate_bps = s.target_bps = 10 * GBIT;
	rate_ctl_advance(&s, &hpcc, 304001);
	assert_rates(&s, 10000, 10000);
	rate_ctl_advance(&s, &hpcc, 604001);
	assert_rates(&s, 10025, 10050);
	rate_ctl_advance(&s, &hpcc, 904001);
	assert_rates(&s, 10087.5, 10150);
	rate_ctl_advance(&s, &hpcc, 1204001);
	assert_rates(&s, 10168.75, 10250);
}

static void hpcc_cuts_once_in_a_period_however_many_cnps(void **state)
{
	struct rate_ctl s;
	uint64_t now;

	(void)state;
	rate_ctl_init(&s, &hpcc);
	for (now = 0; now <= 8001; now += 100)
		rate_ctl_cnp(&s, &hpcc, now);
	rate_ctl_advance(&s, &hpcc, 8001);
	assert_relative(s.rate_bps, 25e9, 0.01);
	assert_true(s.target_bps == 100e9);
}

static void nvidia_alpha_follows_fixed_point_sequence(void **state)
{
	static const int falls[] = {1018, 1013, 1008, 1003, 998, 993};
	static const int rises[] = {5, 9, 13, 17, 21, 25};
	struct rate_ctl s;
	int i;

	(void)state;
	rate_ctl_init(&s, &nvidia);
	rate_ctl_cnp(&s, &nvidia, 0);
	for (i = 0; i < 6; i++)
		assert_true(rate_ctl_alpha(&s, &nvidia, (i + 1) * US) * 1024 == falls[i]);
	assert_true(rate_ctl_alpha(&s, &nvidia, 1000000 * US) == 0);
	s.alpha = 0;
	for (i = 0; i < 6; i++) {
		rate_ctl_cnp(&s, &nvidia, i * US + 500);
		assert_true(rate_ctl_alpha(&s, &nvidia, (i + 1) * US) * 1024 == rises[i]);
	}
}

static void nvidia_cut_is_bounded_by_gd_and_min_dec_fac(void **state)
{
	static const struct {
		uint32_t gd;
		double min_dec_fac, share;
	} cases[] = {
		{11, 0, 1 - 1003.0 / 2048},
		{10, 0, 1 - 1003.0 / 1024},
		{10, 0.5, 0.5},
		{11, 0.75, 0.75},
		{11, 1, 1},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rate_params p = nvidia;
		struct rate_ctl s;

		p.gd = cases[i].gd;
		p.min_dec_fac = cases[i].min_dec_fac;
		rate_ctl_init(&s, &p);
		rate_ctl_cnp(&s, &p, 0);
		rate_ctl_advance(&s, &p, 4001); /* four updates of alpha */
		assert_relative(s.rate_bps, 100e9 * cases[i].share, 1e-12);
	}
}

static void nvidia_first_cnp_sets_both_rates_until_line_rate(void **state)
{
	struct rate_params p = nvidia;
	struct rate_ctl s;

	(void)state;
	p.first_cnp_bps = 20 * GBIT;
	rate_ctl_init(&s, &p);
	rate_ctl_cnp(&s, &p, 0);
	assert_rates(&s, 20000, 20000);
	rate_ctl_cnp(&s, &p, 1000);
	assert_rates(&s, 20000, 20000);
	rate_ctl_advance(&s, &p, 1000000 * US);
	assert_false(s.limited);
	assert_rates(&s, 100000, 100000);
	rate_ctl_cnp(&s, &p, 1000000 * US + 1);
	assert_rates(&s, 20000, 20000);
	assert_true(s.alpha == p.initial_alpha);
}

static void fixed_stays_at_its_rate(void **state)
{
	struct rate_ctl s;
	uint64_t now;

	(void)state;
	rate_ctl_init(&s, &fixed);
	for (now = 0; now < 100; now++)
		assert_true(rate_ctl_cnp(&s, &fixed, now * 50 * US));
	rate_ctl_sent(&s, &fixed, UINT64_MAX, 1000 * GBIT);
	assert_rates(&s, 25000, 25000);
	assert_false(s.limited);
}

/* ---- what all variants do ---- */

static void cnp_closer_than_spacing_is_ignored(void **state)
{
	struct rate_params p = paper;
	struct rate_ctl s;

	(void)state;
	p.cnp_spacing_ns = 4 * US;
	rate_ctl_init(&s, &p);
	assert_true(rate_ctl_cnp(&s, &p, 1000));
	assert_false(rate_ctl_cnp(&s, &p, 1000));
	assert_false(rate_ctl_cnp(&s, &p, 4999));
	assert_rates(&s, 20000, 40000);
	assert_true(rate_ctl_cnp(&s, &p, 5000));
	assert_rates(&s, 10000, 20000);
}

/* How long until a QP that nothing limits further is back at line rate. */
static uint64_t recovery_ns(struct rate_ctl *s, const struct rate_params *p, uint64_t now)
{
	uint64_t since = now;

	while (s->limited) {
		now = rate_ctl_next_ns(s);
		rate_ctl_advance(s, p, now);
		assert_true(in_bounds(s, p));
	}
	return now - since;
}

/* The paper: 4 stages, then 40 Mbit/s a stage from Rt on, the last gap halved below tolerance. */
static void storm_then_silence_recovers_in_the_time_of_the_parameters(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ALL; i++) {
		const struct rate_params *p = all[i];
		struct rate_ctl s;
		uint64_t now, stages;

		rate_ctl_init(&s, p);
		for (now = 0; now < 1000 * US; now += 100) {
			rate_ctl_cnp(&s, p, now);
			assert_true(in_bounds(&s, p));
		}
		rate_ctl_advance(&s, p, now);
		assert_true(p->variant == RATE_FIXED || s.rate_bps < 0.9 * p->line_rate_bps);
		if (p->variant != RATE_SIGCOMM15)
			continue;
		assert_true(s.rate_bps == p->min_rate_bps && s.target_bps == s.rate_bps);
		stages = recovery_ns(&s, p, now - 100) / p->increase_timer_ns;
		assert_in_range(stages, 4 + 999, 4 + 1000 + 14);
	}
}

static void calm_after_recovery_lets_alpha_decay(void **state)
{
	struct rate_ctl s;

	(void)state;
	rate_ctl_init(&s, &paper);
	rate_ctl_cnp(&s, &paper, 0);
	rate_ctl_advance(&s, &paper, 1000 * 10 * US);
	assert_false(s.limited);
	rate_ctl_cnp(&s, &paper, 1000 * 10 * US + 1);
	assert_relative(s.rate_bps, 40e9 * (1 - pow(255.0 / 256, 1000) / 2), 1e-12);
	assert_true(s.limited);
}

/* A step of 1 bit/s would need 2e10 stages one by one. */
static void time_jump_is_constant_work(void **state)
{
	struct rate_params p = paper;
	struct rate_ctl s;

	(void)state;
	p.additive_bps = 1;
	rate_ctl_init(&s, &p);
	rate_ctl_cnp(&s, &p, 0);
	rate_ctl_cnp(&s, &p, 0);
	rate_ctl_advance(&s, &p, 1000000004ull * 35 * US);
	assert_relative(s.target_bps, 20e9 + 1e9, 1e-12);
	assert_relative(s.rate_bps, 20e9 + 1e9 - 1, 1e-12);
	assert_true(s.limited);
	assert_true(rate_ctl_next_ns(&s) == 1000000005ull * 35 * US);
	rate_ctl_advance(&s, &p, UINT64_MAX);
	assert_false(s.limited);
	assert_rates(&s, 40000, 40000);
}

static void time_backwards_changes_nothing(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ALL; i++) {
		struct rate_ctl s, before;

		rate_ctl_init(&s, all[i]);
		rate_ctl_cnp(&s, all[i], 1000000);
		rate_ctl_advance(&s, all[i], 1010000);
		before = s;
		rate_ctl_advance(&s, all[i], 0);
		assert_memory_equal(&s, &before, sizeof(s));
		rate_ctl_cnp(&s, all[i], 500);
		assert_true(in_bounds(&s, all[i]));
	}
}

static void end_of_time_does_not_wrap(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ALL; i++) {
		struct rate_ctl s;

		rate_ctl_init(&s, all[i]);
		rate_ctl_cnp(&s, all[i], UINT64_MAX - 10);
		rate_ctl_cnp(&s, all[i], UINT64_MAX);
		rate_ctl_advance(&s, all[i], UINT64_MAX);
		rate_ctl_sent(&s, all[i], UINT64_MAX, UINT64_MAX);
		assert_true(in_bounds(&s, all[i]));
	}
}

/* 400 Gbit/s, 50 days after the clock's start: no digit is lost. */
static void large_rates_and_times_are_exact(void **state)
{
	const uint64_t start = 50ull * 86400 * 1000000000;
	struct rate_params p = paper;
	struct rate_ctl s;

	(void)state;
	p.line_rate_bps = 400 * GBIT;
	rate_ctl_init(&s, &p);
	rate_ctl_cnp(&s, &p, start);
	rate_ctl_cnp(&s, &p, start);
	assert_true(s.rate_bps == 100e9 && s.target_bps == 200e9);
	rate_ctl_advance(&s, &p, start + 35 * US - 1);
	assert_true(s.rate_bps == 100e9);
	rate_ctl_advance(&s, &p, start + 35 * US);
	assert_true(s.rate_bps == 150e9);
	rate_ctl_advance(&s, &p, start + 4 * 35 * US);
	assert_true(s.rate_bps == 193.75e9);
	rate_ctl_advance(&s, &p, start + 6 * 35 * US);
	assert_true(s.target_bps == 200.08e9 && s.rate_bps == 198.4875e9);
	assert_true(rate_ctl_next_ns(&s) == start + 7 * 35 * US);
}

static void byte_counters_count_every_byte(void **state)
{
	static const uint64_t counters[] = {10000000, 10000000000};
	size_t i, k;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct rate_params p = paper;
		struct rate_ctl s;

		p.byte_counter_bytes = counters[i];
		rate_ctl_init(&s, &p);
		rate_ctl_cnp(&s, &p, 0);
		for (k = 0; k < 999; k++)
			rate_ctl_sent(&s, &p, counters[i] / 1000, 0);
		rate_ctl_sent(&s, &p, counters[i] / 1000 - 1, 0);
		assert_rates(&s, 20000, 40000);
		rate_ctl_sent(&s, &p, 1, 0);
		assert_rates(&s, 30000, 40000);
		rate_ctl_sent(&s, &p, 2 * counters[i] + 7, 0);
		assert_rates(&s, 37500, 40000);
		assert_true(s.bytes_left == counters[i] - 7);
		rate_ctl_cnp(&s, &p, 0);
		assert_true(s.bytes_left == counters[i]);
	}
}

static void no_additive_step_stays_at_rate_before_cut(void **state)
{
	struct rate_params p = paper;
	struct rate_ctl s;

	(void)state;
	p.additive_bps = 0;
	rate_ctl_init(&s, &p);
	rate_ctl_cnp(&s, &p, 0);
	rate_ctl_cnp(&s, &p, 0);
	rate_ctl_advance(&s, &p, UINT64_MAX - 1);
	assert_true(s.limited);
	assert_rates(&s, 20000, 20000);
}

static void params_out_of_range_are_refused(void **state)
{
	struct rate_params p;
	size_t i;

	(void)state;
	for (i = 0; i < ALL; i++)
		assert_true(rate_params_valid(all[i]));
#define REFUSED(of, field, value)                                                                  \
	do {                                                                                       \
		p = of;                                                                            \
		p.field = (value);                                                                 \
		assert_false(rate_params_valid(&p));                                               \
	} while (0)
	REFUSED(fixed, variant, RATE_VARIANTS);
	REFUSED(fixed, line_rate_bps, 0);
	REFUSED(fixed, min_rate_bps, 0);
	REFUSED(fixed, min_rate_bps, fixed.line_rate_bps + 1);
	REFUSED(paper, g, 0);
	REFUSED(paper, g, 1.001);
	REFUSED(paper, g, NAN);
	REFUSED(paper, initial_alpha, 0);
	REFUSED(paper, increase_timer_ns, 0);
	REFUSED(paper, alpha_timer_ns, 0);
	REFUSED(paper, fast_recovery, 0);
	REFUSED(ns3, increase_timer_ns, 1);
	REFUSED(ns3, byte_counter_bytes, 1);
	REFUSED(ns3, clamp, 3);
	REFUSED(hpcc, cut_timer_ns, 0);
	REFUSED(hpcc, byte_counter_bytes, 1000);
	REFUSED(hpcc, clamp, RATE_CLAMP_AFTER_BYTES);
	REFUSED(hpcc, first_cnp_bps, hpcc.line_rate_bps + 1);
	REFUSED(nvidia, g, 1.0 / 200);
	REFUSED(nvidia, initial_alpha, 1);
	REFUSED(nvidia, min_dec_fac, 1.01);
	REFUSED(nvidia, gd, 12);
#undef REFUSED
}

/* ---- the rules event by event: what the closed forms must come to ---- */

struct textbook {
	double rc, rt, alpha;
	uint64_t t, bc, left, alpha_due, increase_due, cut_due;
	bool alpha_runs, stages_run, started, hyper, cnp_alpha, cnp_cut;
};

static bool same_phase_for_all(const struct rate_params *p)
{
	return p->variant == RATE_HPCC_MLX || p->variant == RATE_NVIDIA;
}

/* What the target gains in the stage that has just been counted. */
static double textbook_step(struct textbook *x, const struct rate_params *p, bool timer)
{
	uint64_t f = p->fast_recovery, most = x->t > x->bc ? x->t : x->bc;
	uint64_t least = x->t < x->bc ? x->t : x->bc;
	uint64_t t_was = x->t - timer, bc_was = x->bc - !timer;

	if (same_phase_for_all(p)) {
		most = t_was > bc_was ? t_was : bc_was;
		if (most < f)
			return 0;
		return most > f && p->hyper_bps ? p->hyper_bps : p->additive_bps;
	}
	if (p->variant == RATE_SIGCOMM15) {
		if (most < f)
			return 0;
		return p->hyper_bps && least > f ? (double)(least - f) * p->hyper_bps
						 : p->additive_bps;
	}
	if (x->hyper || (timer && p->hyper_bps && least >= f)) {
		x->hyper = true;
		return (double)(least - f + 1) * p->hyper_bps;
	}
	return most < f ? 0 : p->additive_bps;
}

static void textbook_release(struct textbook *x, const struct rate_params *p)
{
	x->rc = x->rt = p->line_rate_bps;
	x->t = x->bc = 0;
	x->left = p->byte_counter_bytes;
	x->stages_run = x->hyper = false;
	if (p->variant == RATE_NVIDIA && !x->cnp_cut)
		x->started = false;
}

/* A stage; returns the period until the next one of this counter. */
static uint64_t textbook_stage(struct textbook *x, const struct rate_params *p, bool timer)
{
	uint64_t period = timer ? p->increase_timer_ns : p->byte_counter_bytes;
	double step;

	if (x->hyper)
		period /= 2;
	*(timer ? &x->t : &x->bc) += 1;
	step = textbook_step(x, p, timer);
	if (p->variant == RATE_NS3_RDMA && (x->t == 1 || x->bc == 1) && x->rt > 10 * x->rc)
		x->rt /= 8;
	else
		x->rt += step;
	if (p->variant != RATE_NS3_RDMA)
		x->rt = fmin(x->rt, p->line_rate_bps);
	x->rc = (x->rt + x->rc) / 2;
	if (x->rc >= p->line_rate_bps * (1 - RATE_LINE_TOLERANCE))
		textbook_release(x, p);
	return period;
}

static void textbook_alpha(struct textbook *x, const struct rate_params *p)
{
	double alpha = x->alpha * (1 - p->g);

	if (p->variant == RATE_NVIDIA)
		alpha = floor(alpha * 1024) / 1024;
	x->alpha = alpha + (x->cnp_alpha ? p->g : 0);
	x->cnp_alpha = false;
	x->alpha_due += p->alpha_timer_ns;
}

static bool textbook_clamps(const struct textbook *x, const struct rate_params *p)
{
	return p->variant == RATE_SIGCOMM15 || p->clamp == RATE_CLAMP_ALWAYS || x->bc ||
	       (p->clamp == RATE_CLAMP_AFTER_INCREASE && x->t);
}

static void textbook_cut(
	struct textbook *x, const struct rate_params *p, double share, uint64_t now)
{
	if (textbook_clamps(x, p))
		x->rt = x->rc;
	if (textbook_clamps(x, p) || same_phase_for_all(p))
		x->left = p->byte_counter_bytes;
	x->rc = fmax(p->min_rate_bps, x->rc * share);
	x->t = x->bc = 0;
	x->hyper = false;
	x->increase_due = now + p->increase_timer_ns;
	x->stages_run = true;
}

static void textbook_check_cut(struct textbook *x, const struct rate_params *p)
{
	double share = 1 - x->alpha / 2;

	if (p->variant == RATE_NVIDIA)
		share = fmax(p->min_dec_fac, 1 - x->alpha * 1024 / (1 << p->gd));
	if (x->cnp_cut)
		textbook_cut(x, p, share, x->cut_due);
	x->cnp_cut = false;
	x->cut_due += p->cut_timer_ns;
}

/* Everything due up to now, one event at a time; at one moment alpha, cut, stage. */
static void textbook_advance(struct textbook *x, const struct rate_params *p, uint64_t now)
{
	for (;;) {
		uint64_t alpha = x->alpha_runs ? x->alpha_due : UINT64_MAX;
		uint64_t cut = x->cnp_cut ? x->cut_due : UINT64_MAX;
		uint64_t stage = x->stages_run ? x->increase_due : UINT64_MAX;

		if (alpha > now && cut > now && stage > now)
			return;
		if (alpha <= cut && alpha <= stage)
			textbook_alpha(x, p);
		else if (cut <= stage)
			textbook_check_cut(x, p);
		else
			x->increase_due += textbook_stage(x, p, true);
	}
}

static void textbook_nic_cnp(struct textbook *x, const struct rate_params *p, uint64_t now)
{
	textbook_advance(x, p, now - 1);
	if (!x->started) {
		x->alpha = p->initial_alpha;
		x->alpha_due = now + p->alpha_timer_ns;
		x->cut_due = now + p->cut_timer_ns + 1;
		x->rc = x->rt = fmax(
			p->min_rate_bps, p->first_cnp_bps ? p->first_cnp_bps : p->line_rate_bps);
		x->started = x->alpha_runs = true;
		x->cnp_alpha = false;
	} else {
		x->cnp_alpha = true;
	}
	while (!x->cnp_cut && x->cut_due < now)
		x->cut_due += p->cut_timer_ns;
	x->cnp_cut = true;
}

static void textbook_cnp(struct textbook *x, const struct rate_params *p, uint64_t now)
{
	double raised;

	if (same_phase_for_all(p)) {
		textbook_nic_cnp(x, p, now);
		return;
	}
	textbook_advance(x, p, now);
	raised = (1 - p->g) * x->alpha + p->g;
	textbook_cut(x, p, 1 - (p->variant == RATE_NS3_RDMA ? raised : x->alpha) / 2, now);
	x->alpha = raised;
	x->alpha_due = now + p->alpha_timer_ns;
	x->alpha_runs = true;
}

static void textbook_sent(
	struct textbook *x, const struct rate_params *p, uint64_t bytes, uint64_t now)
{
	textbook_advance(x, p, now);
	if (!p->byte_counter_bytes)
		return;
	while (x->stages_run && bytes >= x->left) {
		bytes -= x->left;
		x->left = p->byte_counter_bytes; /* unless the stage comes back to line rate */
		x->left = textbook_stage(x, p, false);
	}
	if (x->stages_run)
		x->left -= bytes;
	else
		x->left = p->byte_counter_bytes;
}

static uint64_t random_below(uint64_t *seed, uint64_t limit)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed % limit;
}

static struct rate_params random_params(uint64_t *seed, enum rate_variant variant)
{
	bool bytes = variant != RATE_HPCC_MLX && random_below(seed, 3);
	struct rate_params p = {
		.variant = variant,
		.line_rate_bps = 100000000 + random_below(seed, 400 * GBIT),
		.min_rate_bps = 1 + random_below(seed, 100000000),
		.g = (1 + random_below(seed, 1024)) / 1024.0,
		.initial_alpha = (1 + random_below(seed, 1023)) / 1024.0,
		.increase_timer_ns = 2 * (500 + random_below(seed, 500000)),
		.alpha_timer_ns = 1000 + random_below(seed, 1000000),
		.byte_counter_bytes = bytes ? 2 + random_below(seed, 10000000) : 0,
		.fast_recovery = 1 + random_below(seed, 31),
		.additive_bps = random_below(seed, 8) ? random_below(seed, 100000000) : 0,
		.hyper_bps = random_below(seed, 3) ? 1000000 + random_below(seed, 1000000000) : 0,
		.clamp = random_below(seed, 2) ? RATE_CLAMP_AFTER_INCREASE : RATE_CLAMP_ALWAYS,
		.cut_timer_ns = 100 + random_below(seed, 100000),
		.min_dec_fac = random_below(seed, 101) / 100.0,
		.gd = 10 + random_below(seed, 2),
	};

	if (variant != RATE_HPCC_MLX && !random_below(seed, 3))
		p.clamp = RATE_CLAMP_AFTER_BYTES;
	if (!random_below(seed, 3))
		p.first_cnp_bps = 1 + random_below(seed, p.line_rate_bps);
	return p;
}

static uint64_t random_gap_ns(uint64_t *seed, const struct rate_params *p)
{
	static const uint64_t timers[] = {1, 1, 1, 3, 40, 400};
	uint64_t longest = timers[random_below(seed, 6)] * p->increase_timer_ns;

	return random_below(seed, 4) ? random_below(seed, longest) : random_below(seed, 1000);
}

static void random_step(struct rate_ctl *s, struct textbook *x, const struct rate_params *p,
	uint64_t *seed, uint64_t now)
{
	uint64_t bytes = random_below(seed, 40 * (p->byte_counter_bytes + 1));

	switch (random_below(seed, 6)) {
	case 0:
		rate_ctl_cnp(s, p, now);
		textbook_cnp(x, p, now);
		break;
	case 1:
		rate_ctl_sent(s, p, bytes, now);
		textbook_sent(x, p, bytes, now);
		break;
	default:
		rate_ctl_advance(s, p, now);
		textbook_advance(x, p, now);
	}
}

/*
 * The two may differ in the last digits, and so, at the edge of the tolerance, in which stage
 * comes back to line rate; there a run ends.
 */
static bool at_edge(const struct rate_ctl *s, const struct textbook *x, const struct rate_params *p)
{
	double edge_bps = p->line_rate_bps * (1 - 1.01 * RATE_LINE_TOLERANCE);

	return s->rate_bps >= edge_bps && x->rc >= edge_bps && fabs(s->rate_bps - x->rc) > 1;
}

/* One run of random events; false if it ended at the edge. */
static bool random_run(uint64_t *seed, enum rate_variant variant)
{
	struct rate_params p = random_params(seed, variant);
	struct textbook x = {p.line_rate_bps, p.line_rate_bps, .alpha = p.initial_alpha};
	uint64_t now = 1 + random_below(seed, 1000000);
	struct rate_ctl s;
	int step;

	assert_true(rate_params_valid(&p));
	rate_ctl_init(&s, &p);
	x.left = p.byte_counter_bytes;
	for (step = 0; step < 400; step++) {
		now += random_gap_ns(seed, &p);
		random_step(&s, &x, &p, seed, now);
		if (at_edge(&s, &x, &p))
			return false;
		assert_true(in_bounds(&s, &p));
		assert_relative(s.rate_bps, x.rc, 1e-9);
		assert_relative(s.target_bps, x.rt, 1e-9);
		if (s.started || variant == RATE_SIGCOMM15 || variant == RATE_NS3_RDMA)
			assert_near(rate_ctl_alpha(&s, &p, now), x.alpha, 1e-9);
		assert_int_equal(s.increase_due_ns != UINT64_MAX, x.stages_run);
		if (x.stages_run)
			assert_true(s.increase_due_ns == x.increase_due);
		assert_true(s.bytes_left == x.left);
	}
	return true;
}

static void random_events_match_textbook(void **state)
{
	uint64_t seed = 88172645463325252ull;
	int variant, run, edges = 0;

	(void)state;
	for (variant = RATE_SIGCOMM15; variant < RATE_FIXED; variant++)
		for (run = 0; run < 200; run++)
			edges += !random_run(&seed, variant);
	assert_true(edges < 8);
}

/* The same events in many small steps and in one large one, and the same twice, bit for bit. */
static void small_steps_come_to_the_same_as_one(void **state)
{
	uint64_t seed = 2463534242ull;
	int variant, run;

	(void)state;
	for (variant = RATE_SIGCOMM15; variant < RATE_FIXED; variant++) {
		for (run = 0; run < 300; run++) {
			struct rate_params p = random_params(&seed, variant);
			struct rate_ctl one, many, again;
			uint64_t end = 1 + random_below(&seed, 100 * p.increase_timer_ns), now = 1;

			rate_ctl_init(&one, &p);
			rate_ctl_cnp(&one, &p, 0);
			many = again = one;
			rate_ctl_advance(&one, &p, end);
			rate_ctl_advance(&again, &p, end);
			for (; now < end; now += 1 + random_below(&seed, p.increase_timer_ns / 4))
				rate_ctl_advance(&many, &p, now);
			rate_ctl_advance(&many, &p, end);
			assert_memory_equal(&one, &again, sizeof(one));
			assert_int_equal(one.limited, many.limited);
			assert_relative(one.rate_bps, many.rate_bps, 1e-9);
			assert_relative(one.target_bps, many.target_bps, 1e-9);
			assert_true(rate_ctl_next_ns(&one) == rate_ctl_next_ns(&many));
			assert_int_equal(one.stage[RATE_TIMER], many.stage[RATE_TIMER]);
		}
	}
}

static void random_events_never_leave_the_bounds(void **state)
{
	uint64_t seed = 1181783497276652981ull;
	int variant, step;

	(void)state;
	for (variant = 0; variant < RATE_VARIANTS; variant++) {
		struct rate_params p = *all[variant];
		uint64_t now = 0;
		struct rate_ctl s;

		rate_ctl_init(&s, &p);
		for (step = 0; step < RANDOM_STEPS; step++) {
			uint64_t random = random_below(&seed, UINT64_MAX);

			now += random >> 8 & (random & 64 ? 0xfffff : 0xfff);
			if (random % 8 == 0)
				rate_ctl_cnp(&s, &p, now);
			else if (random % 8 == 1)
				rate_ctl_sent(&s, &p, random >> 40, now);
			else
				rate_ctl_advance(&s, &p, now);
			if (!in_bounds(&s, &p) ||
				(s.limited && rate_ctl_next_ns(&s) <= now && random % 8))
				fail_msg("variant %d, step %d: Rc %.17g Rt %.17g alpha %.17g",
					variant, step, s.rate_bps, s.target_bps, s.alpha);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sigcomm15_follows_golden_trace),
		cmocka_unit_test(sigcomm15_five_cnps_cut_with_alpha_from_before),
		cmocka_unit_test(ns3_first_cnp_raises_alpha_and_then_cuts),
		cmocka_unit_test(ns3_hyper_increase_halves_the_periods),
		cmocka_unit_test(ns3_target_of_a_deep_cut_drops_to_an_eighth),
		cmocka_unit_test(ns3_clamp_says_when_the_target_follows),
		cmocka_unit_test(hpcc_follows_golden_trace),
		cmocka_unit_test(hpcc_has_one_additive_stage_and_then_hyper),
		cmocka_unit_test(hpcc_cuts_once_in_a_period_however_many_cnps),
		cmocka_unit_test(nvidia_alpha_follows_fixed_point_sequence),
		cmocka_unit_test(nvidia_cut_is_bounded_by_gd_and_min_dec_fac),
		cmocka_unit_test(nvidia_first_cnp_sets_both_rates_until_line_rate),
		cmocka_unit_test(fixed_stays_at_its_rate),
		cmocka_unit_test(cnp_closer_than_spacing_is_ignored),
		cmocka_unit_test(storm_then_silence_recovers_in_the_time_of_the_parameters),
		cmocka_unit_test(calm_after_recovery_lets_alpha_decay),
		cmocka_unit_test(time_jump_is_constant_work),
		cmocka_unit_test(time_backwards_changes_nothing),
		cmocka_unit_test(end_of_time_does_not_wrap),
		cmocka_unit_test(large_rates_and_times_are_exact),
		cmocka_unit_test(byte_counters_count_every_byte),
		cmocka_unit_test(no_additive_step_stays_at_rate_before_cut),
		cmocka_unit_test(params_out_of_range_are_refused),
		cmocka_unit_test(random_events_match_textbook),
		cmocka_unit_test(small_steps_come_to_the_same_as_one),
		cmocka_unit_test(random_events_never_leave_the_bounds),
	};

	return cmocka_run_group_tests_name("rate_ctl", tests, NULL, NULL);
}
