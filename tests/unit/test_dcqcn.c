// SPDX-License-Identifier: BSD-2-Clause
// DCQCN's reaction point against a golden trace, its bounds, and a step-by-step textbook model.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "control/dcqcn.h"

#define MBIT 1e6

static const struct dcqcn_params paper = {
	.line_rate_bps = 40000000000,
	.min_rate_bps = 10000000,
	.g = 1.0 / 256,
	.increase_timer_ns = 55000,
	.alpha_timer_ns = 55000,
	.byte_counter_bytes = 10000000,
	.fast_recovery = 5,
	.additive_bps = 40000000,
};

static void assert_near(double got, double want, double within)
{
	if (!(fabs(got - want) <= within))
		fail_msg("%.12g is not within %g of %.12g", got, within, want);
}

static void assert_relative(double got, double want, double within)
{
	assert_near(got, want, within * fmax(fabs(want), 1));
}

static void assert_rates(const struct dcqcn *d, double rate_mbit, double target_mbit)
{
	assert_near(d->rate_bps / MBIT, rate_mbit, 1e-9);
	assert_near(d->target_bps / MBIT, target_mbit, 1e-9);
}

static void assert_bounds(const struct dcqcn *d, const struct dcqcn_params *p)
{
	assert_true(d->rate_bps >= p->min_rate_bps);
	assert_true(d->rate_bps <= d->target_bps);
	assert_true(d->target_bps <= p->line_rate_bps);
	assert_true(d->alpha >= 0 && d->alpha <= 1);
	if (!d->limited)
		assert_true(d->rate_bps == p->line_rate_bps && d->target_bps == d->rate_bps);
}

static void init_no_cnp_stands_at_line_rate(void **state)
{
	struct dcqcn d;

	(void)state;
	dcqcn_init(&d, &paper);
	assert_rates(&d, 40000, 40000);
	assert_true(d.alpha == 1);
	assert_false(d.limited);
	assert_true(dcqcn_next_ns(&d) == UINT64_MAX);
	dcqcn_advance(&d, &paper, UINT64_MAX);
	assert_true(d.alpha == 1);
	assert_rates(&d, 40000, 40000);
}

static void single_steps_follow_golden_trace(void **state)
{
	struct dcqcn d;

	(void)state;
	dcqcn_init(&d, &paper);
	dcqcn_cnp(&d, &paper, 0);
	assert_rates(&d, 20000, 40000);
	assert_true(d.alpha == 1);
	dcqcn_cnp(&d, &paper, 0);
	assert_rates(&d, 10000, 20000);
	assert_true(d.alpha == 1);

	dcqcn_alpha_event(&d, &paper);
	assert_near(d.alpha, 0.99609375, 5e-9);
	dcqcn_alpha_event(&d, &paper);
	assert_near(d.alpha, 0.992202759, 5e-10);
	dcqcn_alpha_event(&d, &paper);
	assert_near(d.alpha, 0.988326967, 5e-10);
	assert_rates(&d, 10000, 20000);

	dcqcn_timer_event(&d, &paper);
	assert_rates(&d, 15000, 20000);
	dcqcn_alpha_event(&d, &paper);
	assert_near(d.alpha, 0.984466315, 5e-10);
	dcqcn_timer_event(&d, &paper);
	assert_rates(&d, 17500, 20000);
	dcqcn_timer_event(&d, &paper);
	assert_rates(&d, 18750, 20000);
	dcqcn_timer_event(&d, &paper);
	assert_rates(&d, 19375, 20000);

	dcqcn_timer_event(&d, &paper);
	assert_rates(&d, 19707.5, 20040);
	dcqcn_timer_event(&d, &paper);
	assert_rates(&d, 19893.75, 20080);
	dcqcn_byte_event(&d, &paper);
	assert_rates(&d, 20006.875, 20120);
	dcqcn_timer_event(&d, &paper);
	assert_rates(&d, 20083.4375, 20160);
	dcqcn_byte_event(&d, &paper);
	assert_rates(&d, 20141.71875, 20200);
}

static void clock_and_bytes_follow_golden_trace(void **state)
{
	struct dcqcn d;
	uint64_t start = 1000, t = paper.increase_timer_ns;

	(void)state;
	dcqcn_init(&d, &paper);
	dcqcn_cnp(&d, &paper, start);
	dcqcn_cnp(&d, &paper, start);
	dcqcn_advance(&d, &paper, start + t - 1);
	assert_rates(&d, 10000, 20000);
	assert_true(dcqcn_next_ns(&d) == start + t);
	dcqcn_advance(&d, &paper, start + t);
	assert_rates(&d, 15000, 20000);
	assert_near(d.alpha, 0.99609375, 5e-9);
	assert_true(dcqcn_next_ns(&d) == start + 2 * t);
	dcqcn_advance(&d, &paper, start + 4 * t);
	assert_rates(&d, 19375, 20000);
	assert_near(d.alpha, 0.984466315, 5e-10);
	dcqcn_advance(&d, &paper, start + 6 * t + t / 2);
	assert_rates(&d, 19893.75, 20080);
	assert_true(dcqcn_next_ns(&d) == start + 7 * t);
	dcqcn_sent(&d, &paper, 9999999, start + 6 * t + t / 2);
	assert_rates(&d, 19893.75, 20080);
	dcqcn_sent(&d, &paper, 1, start + 6 * t + t / 2);
	assert_rates(&d, 20006.875, 20120);
	dcqcn_sent(&d, &paper, 10000000, start + 7 * t);
	assert_rates(&d, 20141.71875, 20200);
}

static void cnp_cuts_with_alpha_from_before_it(void **state)
{
	struct dcqcn d;

	(void)state;
	dcqcn_init(&d, &paper);
	d.alpha = 0.5;
	dcqcn_cnp(&d, &paper, 0);
	assert_rates(&d, 30000, 40000);
	assert_near(d.alpha, 0.501953125, 1e-12);
}

static void cnp_restarts_timers_stages_and_bytes(void **state)
{
	struct dcqcn d;

	(void)state;
	dcqcn_init(&d, &paper);
	dcqcn_cnp(&d, &paper, 0);
	dcqcn_advance(&d, &paper, 54999);
	dcqcn_sent(&d, &paper, 10000001, 54999);
	assert_int_equal(d.byte_stage, 1);
	assert_true(d.bytes == 1);
	dcqcn_cnp(&d, &paper, 54999);
	assert_int_equal(d.timer_stage, 0);
	assert_int_equal(d.byte_stage, 0);
	assert_true(d.bytes == 0);
	assert_true(d.alpha == 1);
	dcqcn_advance(&d, &paper, 54999 + 54999);
	assert_rates(&d, 15000, 30000);
	assert_true(d.alpha == 1);
	dcqcn_advance(&d, &paper, 54999 + 55000);
	assert_rates(&d, 22500, 30000);
	assert_true(d.alpha == 1 - paper.g);
}

static void cnp_event_due_at_same_time_runs_first(void **state)
{
	struct dcqcn d;

	(void)state;
	dcqcn_init(&d, &paper);
	dcqcn_cnp(&d, &paper, 0);
	dcqcn_cnp(&d, &paper, 55000);
	assert_near(d.target_bps / MBIT, 30000, 1e-9);
	assert_near(d.rate_bps / MBIT, 30000 * (1 - (1 - paper.g) / 2), 1e-9);
}

static void cnp_flood_stops_at_min_rate(void **state)
{
	struct dcqcn d;
	int i;

	(void)state;
	dcqcn_init(&d, &paper);
	for (i = 0; i < 1000; i++) {
		dcqcn_cnp(&d, &paper, i);
		assert_bounds(&d, &paper);
	}
	assert_true(d.rate_bps == paper.min_rate_bps);
	assert_true(d.target_bps == paper.min_rate_bps);
	assert_true(d.alpha == 1);
}

static void recovery_reaches_line_rate_and_stops(void **state)
{
	struct dcqcn d;
	uint64_t next;
	int steps = 0;

	(void)state;
	dcqcn_init(&d, &paper);
	dcqcn_cnp(&d, &paper, 0);
	while ((next = dcqcn_next_ns(&d)) != UINT64_MAX && steps < 100000) {
		dcqcn_advance(&d, &paper, next);
		assert_bounds(&d, &paper);
		steps++;
	}
	assert_false(d.limited);
	assert_rates(&d, 40000, 40000);
	/* Four fast stages leave 1250 of 40000; the target stands at line, so each halves it. */
	assert_int_equal(steps, 13);
	dcqcn_sent(&d, &paper, UINT64_MAX, 1000000000);
	dcqcn_timer_event(&d, &paper);
	dcqcn_byte_event(&d, &paper);
	assert_int_equal(d.timer_stage + d.byte_stage, 0);
	assert_rates(&d, 40000, 40000);
}

static void calm_after_recovery_lets_alpha_decay(void **state)
{
	struct dcqcn d;

	(void)state;
	dcqcn_init(&d, &paper);
	dcqcn_cnp(&d, &paper, 0);
	dcqcn_advance(&d, &paper, 100 * 55000);
	assert_false(d.limited);
	dcqcn_cnp(&d, &paper, 1000 * 55000 + 1);
	assert_relative(d.rate_bps, 40e9 * (1 - pow(255.0 / 256, 1000) / 2), 1e-12);
	assert_true(d.limited);
}

static void byte_counter_off_never_counts(void **state)
{
	struct dcqcn_params p = paper;
	struct dcqcn d;

	(void)state;
	p.byte_counter_bytes = 0;
	dcqcn_init(&d, &p);
	dcqcn_cnp(&d, &p, 0);
	dcqcn_sent(&d, &p, UINT64_MAX, 1);
	assert_int_equal(d.byte_stage, 0);
	assert_rates(&d, 20000, 40000);
}

static void time_backwards_changes_nothing(void **state)
{
	struct dcqcn d;

	(void)state;
	dcqcn_init(&d, &paper);
	dcqcn_cnp(&d, &paper, 1000000);
	dcqcn_advance(&d, &paper, 0);
	assert_rates(&d, 20000, 40000);
	assert_true(d.alpha == 1);
	dcqcn_cnp(&d, &paper, 500);
	assert_rates(&d, 10000, 20000);
}

/* A step of 1 bit/s would need 2e10 stages one by one. */
static void time_jump_is_constant_work(void **state)
{
	struct dcqcn_params p = paper;
	struct dcqcn d;

	(void)state;
	p.additive_bps = 1;
	dcqcn_init(&d, &p);
	dcqcn_cnp(&d, &p, 0);
	dcqcn_cnp(&d, &p, 0);
	dcqcn_advance(&d, &p, 1000000004ull * 55000);
	assert_relative(d.target_bps, 20e9 + 1e9, 1e-12);
	assert_relative(d.rate_bps, 20e9 + 1e9 - 1, 1e-12);
	assert_true(d.limited);
	assert_true(dcqcn_next_ns(&d) == 1000000005ull * 55000);
	dcqcn_advance(&d, &p, UINT64_MAX);
	assert_false(d.limited);
	assert_rates(&d, 40000, 40000);
}

static void no_additive_step_stays_at_rate_before_cut(void **state)
{
	struct dcqcn_params p = paper;
	struct dcqcn d;

	(void)state;
	p.additive_bps = 0;
	dcqcn_init(&d, &p);
	dcqcn_cnp(&d, &p, 0);
	dcqcn_cnp(&d, &p, 0);
	dcqcn_advance(&d, &p, UINT64_MAX - 1);
	assert_true(d.limited);
	assert_rates(&d, 20000, 20000);
	assert_bounds(&d, &p);
}

static void end_of_time_does_not_wrap(void **state)
{
	struct dcqcn d;

	(void)state;
	dcqcn_init(&d, &paper);
	dcqcn_cnp(&d, &paper, UINT64_MAX - 10);
	dcqcn_cnp(&d, &paper, UINT64_MAX);
	assert_rates(&d, 10000, 20000);
	dcqcn_advance(&d, &paper, UINT64_MAX);
	assert_rates(&d, 10000, 20000);
	assert_bounds(&d, &paper);
}

static void params_out_of_range_are_refused(void **state)
{
	struct dcqcn_params p;

	(void)state;
	assert_true(dcqcn_params_valid(&paper));
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		p = paper;                                                                         \
		p.field = (value);                                                                 \
		assert_false(dcqcn_params_valid(&p));                                              \
	} while (0)
	REFUSED(line_rate_bps, 0);
	REFUSED(min_rate_bps, 0);
	REFUSED(min_rate_bps, paper.line_rate_bps + 1);
	REFUSED(g, 0);
	REFUSED(g, 1.001);
	REFUSED(g, NAN);
	REFUSED(increase_timer_ns, 0);
	REFUSED(alpha_timer_ns, 0);
	REFUSED(fast_recovery, 0);
#undef REFUSED
}

/* The paper's rules one event after the other: what the closed forms must come to. */
struct textbook {
	double rc, rt, alpha;
	uint64_t t, bc, bytes, alpha_due, increase_due;
	bool limited, alpha_runs;
};

static void textbook_stage(struct textbook *x, const struct dcqcn_params *p, uint64_t *stage)
{
	if (!x->limited)
		return;
	++*stage;
	if ((x->t > x->bc ? x->t : x->bc) >= p->fast_recovery)
		x->rt = fmin(x->rt + p->additive_bps, p->line_rate_bps);
	x->rc = (x->rt + x->rc) / 2;
	if (x->rc >= p->line_rate_bps * (1 - DCQCN_LINE_TOLERANCE)) {
		x->rc = p->line_rate_bps;
		x->rt = p->line_rate_bps;
		x->limited = false;
	}
}

static void textbook_advance(struct textbook *x, const struct dcqcn_params *p, uint64_t now)
{
	while (x->alpha_runs && x->alpha_due <= now) {
		x->alpha *= 1 - p->g;
		x->alpha_due += p->alpha_timer_ns;
	}
	while (x->limited && x->increase_due <= now) {
		textbook_stage(x, p, &x->t);
		x->increase_due += p->increase_timer_ns;
	}
}

static void textbook_cnp(struct textbook *x, const struct dcqcn_params *p, uint64_t now)
{
	textbook_advance(x, p, now);
	x->rt = x->rc;
	x->rc = fmax(p->min_rate_bps, x->rc * (1 - x->alpha / 2));
	x->alpha = (1 - p->g) * x->alpha + p->g;
	x->t = x->bc = x->bytes = 0;
	x->alpha_due = now + p->alpha_timer_ns;
	x->increase_due = now + p->increase_timer_ns;
	x->limited = x->alpha_runs = true;
}

static void textbook_sent(
	struct textbook *x, const struct dcqcn_params *p, uint64_t bytes, uint64_t now)
{
	textbook_advance(x, p, now);
	if (!x->limited || !p->byte_counter_bytes)
		return;
	x->bytes += bytes;
	while (x->bytes >= p->byte_counter_bytes) {
		x->bytes -= p->byte_counter_bytes;
		textbook_stage(x, p, &x->bc);
	}
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static uint64_t random_below(uint64_t *seed, uint64_t limit)
{
	return next_random(seed) % limit;
}

static struct dcqcn_params random_params(uint64_t *seed)
{
	struct dcqcn_params p = {
		.line_rate_bps = 100000000 + random_below(seed, 400000000000),
		.min_rate_bps = 1 + random_below(seed, 100000000),
		.g = (1 + random_below(seed, 1024)) / 1024.0,
		.increase_timer_ns = 1000 + random_below(seed, 1000000),
		.alpha_timer_ns = 1000 + random_below(seed, 1000000),
		.byte_counter_bytes = random_below(seed, 3) ? random_below(seed, 10000000) : 0,
		.fast_recovery = 1 + random_below(seed, 31),
		.additive_bps = random_below(seed, 8) ? random_below(seed, 100000000) : 0,
	};

	return p;
}

static void random_step(struct dcqcn *d, struct textbook *x, const struct dcqcn_params *p,
	uint64_t *seed, uint64_t now)
{
	uint64_t bytes = random_below(seed, 40 * (p->byte_counter_bytes + 1));

	switch (random_below(seed, 6)) {
	case 0:
		dcqcn_cnp(d, p, now);
		textbook_cnp(x, p, now);
		break;
	case 1:
		dcqcn_sent(d, p, bytes, now);
		textbook_sent(x, p, bytes, now);
		break;
	default:
		dcqcn_advance(d, p, now);
		textbook_advance(x, p, now);
	}
}

/*
 * The two may differ in the last digits, and so, at the edge of the tolerance, in which stage
 * comes back to line rate; there the model is set to what it is compared with.
 */
static bool at_edge(const struct dcqcn *d, const struct textbook *x, const struct dcqcn_params *p)
{
	double edge_bps = p->line_rate_bps * (1 - 1.01 * DCQCN_LINE_TOLERANCE);

	return d->limited != x->limited && d->rate_bps >= edge_bps && x->rc >= edge_bps;
}

static uint64_t random_gap_ns(uint64_t *seed, const struct dcqcn_params *p)
{
	static const uint64_t timers[] = {1, 1, 1, 3, 40, 400};

	return random_below(seed, timers[random_below(seed, 6)] * p->increase_timer_ns);
}

static void random_events_match_textbook_within_bounds(void **state)
{
	uint64_t seed = 88172645463325252ull;
	int run, step, edges = 0;

	(void)state;
	for (run = 0; run < 500; run++) {
		struct dcqcn_params p = random_params(&seed);
		struct textbook x = {p.line_rate_bps, p.line_rate_bps, .alpha = 1};
		uint64_t now = random_below(&seed, 1000000);
		struct dcqcn d;

		assert_true(dcqcn_params_valid(&p));
		dcqcn_init(&d, &p);
		for (step = 0; step < 600; step++) {
			now += random_gap_ns(&seed, &p);
			random_step(&d, &x, &p, &seed, now);
			assert_bounds(&d, &p);
			assert_true(dcqcn_next_ns(&d) > now);
			if (at_edge(&d, &x, &p)) {
				edges++;
				break;
			}
			assert_int_equal(d.limited, x.limited);
			assert_relative(d.rate_bps, x.rc, 1e-9);
			assert_relative(d.target_bps, x.rt, 1e-9);
			assert_near(d.alpha, x.alpha, 1e-9);
		}
	}
	assert_true(edges < 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init_no_cnp_stands_at_line_rate),
		cmocka_unit_test(single_steps_follow_golden_trace),
		cmocka_unit_test(clock_and_bytes_follow_golden_trace),
		cmocka_unit_test(cnp_cuts_with_alpha_from_before_it),
		cmocka_unit_test(cnp_restarts_timers_stages_and_bytes),
		cmocka_unit_test(cnp_event_due_at_same_time_runs_first),
		cmocka_unit_test(cnp_flood_stops_at_min_rate),
		cmocka_unit_test(recovery_reaches_line_rate_and_stops),
		cmocka_unit_test(calm_after_recovery_lets_alpha_decay),
		cmocka_unit_test(byte_counter_off_never_counts),
		cmocka_unit_test(time_backwards_changes_nothing),
		cmocka_unit_test(time_jump_is_constant_work),
		cmocka_unit_test(no_additive_step_stays_at_rate_before_cut),
		cmocka_unit_test(end_of_time_does_not_wrap),
		cmocka_unit_test(params_out_of_range_are_refused),
		cmocka_unit_test(random_events_match_textbook_within_bounds),
	};

	return cmocka_run_group_tests_name("dcqcn", tests, NULL, NULL);
}
