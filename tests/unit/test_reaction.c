// SPDX-License-Identifier: BSD-2-Clause
// The reaction point of one port: what a tick sends, in which order, and what it forgets.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "control/reaction.h"

enum { CLASSES = 64, TICK_NS = 55000, LINE_MBIT = 40000 };

static const struct rate_params params = {
	.line_rate_bps = 40000000000,
	.min_rate_bps = 10000000,
	.g = 1.0 / 256,
	.initial_alpha = 1,
	.increase_timer_ns = 55000,
	.alpha_timer_ns = 55000,
	.fast_recovery = 5,
	.additive_bps = 40000000,
};

static struct rate_change out[CLASSES];

static int set_up(void **state)
{
	*state = reaction_new(CLASSES, &params, 0.02);
	return *state ? 0 : -1;
}

static int tear_down(void **state)
{
	reaction_free(*state);
	return 0;
}

static void assert_change(
	const struct rate_change *c, uint32_t class_index, uint32_t generation, uint64_t rate_mbit)
{
	assert_int_equal(c->class_index, class_index);
	assert_int_equal(c->generation, generation);
	assert_true(c->rate_bps == rate_mbit * 1000000);
}

static void new_port_is_idle_at_line_rate(void **state)
{
	struct reaction *r = *state;

	assert_true(reaction_idle(r));
	assert_int_equal(reaction_limited(r), 0);
	assert_true(reaction_rate_bps(r, 0) == params.line_rate_bps);
	assert_true(reaction_rate_bps(r, CLASSES) == params.line_rate_bps);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 0);
}

static void new_out_of_range_is_refused(void **state)
{
	struct rate_params p = params;

	(void)state;
	assert_null(reaction_new(1, &params, -0.1));
	assert_null(reaction_new(1, &params, __builtin_nan("")));
	p.g = 2;
	assert_null(reaction_new(1, &p, 0.02));
	reaction_free(NULL);
}

static void no_classes_take_no_cnp(void **state)
{
	struct reaction *r = reaction_new(0, &params, 0);

	(void)state;
	assert_non_null(r);
	assert_false(reaction_cnp(r, 0, 1, 0));
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 0);
	reaction_free(r);
}

static void index_out_of_range_changes_nothing(void **state)
{
	struct reaction *r = *state;

	assert_false(reaction_cnp(r, CLASSES, 1, 0));
	assert_false(reaction_cnp(r, UINT32_MAX, 1, 0));
	reaction_forget(r, CLASSES);
	reaction_retry(r, CLASSES);
	reaction_sent(r, CLASSES, 1, 1, 0);
	assert_true(reaction_idle(r));
}

static void cnp_is_sent_at_next_tick_and_once(void **state)
{
	struct reaction *r = *state;

	assert_true(reaction_cnp(r, 7, 3, 1000));
	assert_false(reaction_idle(r));
	assert_int_equal(reaction_limited(r), 1);
	assert_int_equal(reaction_tick(r, 1000, out, CLASSES), 1);
	assert_change(&out[0], 7, 3, 20000);
	assert_int_equal(reaction_tick(r, 1001, out, CLASSES), 0);
	assert_int_equal(reaction_limited(r), 1);
	assert_true(reaction_rate_bps(r, 7) == 20000000000);
}

static void first_cut_since_a_tick_is_sent_at_once_and_the_others_wait(void **state)
{
	struct reaction *r = *state;

	assert_int_equal(reaction_cuts(r, out, CLASSES), 0);
	reaction_cnp(r, 1, 1, 0);
	reaction_cnp(r, 1, 1, 0);
	assert_int_equal(reaction_cuts(r, out, CLASSES), 1);
	assert_int_equal(out[0].class_index, 1);
	assert_true(out[0].rate_bps == reaction_rate_bps(r, 1));
	assert_true(out[0].rate_bps < params.line_rate_bps);
	assert_int_equal(reaction_cuts(r, out, CLASSES), 0);
	reaction_cnp(r, 1, 1, 0);
	assert_int_equal(reaction_cuts(r, out, CLASSES), 0);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 0); /* one was sent since the last */
	assert_false(reaction_idle(r));
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 1);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 0);
	reaction_cnp(r, 1, 1, 0);
	assert_int_equal(reaction_cuts(r, out, CLASSES), 1);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 0);
}

static void cuts_that_do_not_fit_or_were_forgotten_are_left_to_the_tick(void **state)
{
	struct reaction *r = *state;

	reaction_cnp(r, 0, 1, 0);
	reaction_cnp(r, 1, 1, 0);
	reaction_cnp(r, 2, 1, 0);
	reaction_forget(r, 0);
	assert_int_equal(reaction_cuts(r, out, 1), 1);
	assert_int_equal(out[0].class_index, 1);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 1);
	assert_int_equal(out[0].class_index, 2);
}

static void several_cnps_in_a_tick_are_one_change(void **state)
{
	struct reaction *r = *state;

	reaction_cnp(r, 7, 3, 0);
	reaction_cnp(r, 7, 3, 0);
	reaction_cnp(r, 7, 3, 0);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 1);
	assert_change(&out[0], 7, 3, 5000);
}

static void cuts_below_step_add_up(void **state)
{
	struct reaction *r = *state;
	uint64_t calm = 1200ull * TICK_NS;
	uint64_t enough = params.line_rate_bps / 100 * 98;
	int i;

	reaction_cnp(r, 0, 1, 0);
	reaction_tick(r, 0, out, CLASSES);
	reaction_tick(r, calm, out, CLASSES);
	assert_true(reaction_idle(r));
	for (i = 0; i < 20; i++) { /* alpha has decayed: each cut is less than 2 % */
		reaction_cnp(r, 0, 1, calm);
		if (reaction_rate_bps(r, 0) < enough)
			break;
		assert_int_equal(reaction_cuts(r, out, CLASSES), 0);
		assert_int_equal(reaction_tick(r, calm, out, CLASSES), 0);
	}
	assert_in_range(i, 1, 19);
	assert_int_equal(reaction_tick(r, calm, out, CLASSES), 1);
	assert_true(out[0].rate_bps == reaction_rate_bps(r, 0));
}

static void cnp_too_soon_is_refused_and_changes_nothing(void **state)
{
	struct rate_params p = params;
	struct reaction *r;

	(void)state;
	p.cnp_spacing_ns = 4000;
	r = reaction_new(CLASSES, &p, 0.02);
	assert_non_null(r);
	assert_true(reaction_cnp(r, 0, 1, 0));
	assert_false(reaction_cnp(r, 0, 1, 3999));
	assert_true(reaction_rate_bps(r, 0) == 20000000000);
	assert_true(reaction_cnp(r, 1, 1, 3999));
	assert_true(reaction_cnp(r, 0, 1, 4000));
	reaction_free(r);
}

/* A NIC's cut comes after its CNP; a tick between the two must not lose it. */
static void cut_that_is_due_later_is_sent_when_it_is(void **state)
{
	struct rate_params p = params;
	struct reaction *r;

	(void)state;
	p.variant = RATE_HPCC_MLX;
	p.cut_timer_ns = 4000;
	r = reaction_new(CLASSES, &p, 0.02);
	assert_non_null(r);
	assert_true(reaction_cnp(r, 0, 1, 0));
	assert_int_equal(reaction_limited(r), 1);
	assert_int_equal(reaction_cuts(r, out, CLASSES), 0);
	assert_int_equal(reaction_tick(r, 4000, out, CLASSES), 0);
	assert_int_equal(reaction_tick(r, 4001, out, CLASSES), 1);
	assert_change(&out[0], 0, 1, 20000);
	reaction_cnp(r, 0, 1, 7000); /* the wheel has the next increase, which is later */
	assert_int_equal(reaction_tick(r, 8000, out, CLASSES), 0);
	assert_int_equal(reaction_tick(r, 8001, out, CLASSES), 1);
	reaction_free(r);
}

static void cnp_at_min_rate_sends_nothing_new(void **state)
{
	struct reaction *r = *state;
	int i;

	for (i = 0; i < 100; i++)
		reaction_cnp(r, 0, 1, 0);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 1);
	assert_change(&out[0], 0, 1, 10);
	reaction_cnp(r, 0, 1, 0);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 0);
}

static void increase_is_held_until_it_passes_step(void **state)
{
	struct reaction *r = *state;
	uint64_t last = 20000000000ull, now;
	size_t sent = 0;

	reaction_cnp(r, 0, 1, 0);
	reaction_cnp(r, 0, 1, 0);
	reaction_cnp(r, 0, 1, 0);
	reaction_tick(r, 0, out, CLASSES);
	last = out[0].rate_bps;
	for (now = TICK_NS; !reaction_idle(r); now += TICK_NS) {
		if (!reaction_tick(r, now, out, CLASSES))
			continue;
		assert_true(out[0].rate_bps > last + last / 50 ||
			    out[0].rate_bps == params.line_rate_bps);
		last = out[0].rate_bps;
		sent++;
	}
	assert_true(last == params.line_rate_bps);
	assert_true(sent > 20 && sent < 200); /* of the 760 increases */
}

static void line_rate_is_sent_exactly_and_ends_it(void **state)
{
	struct reaction *r = *state;

	reaction_cnp(r, 5, 9, 0);
	reaction_tick(r, 0, out, CLASSES);
	reaction_tick(r, 7 * TICK_NS, out, CLASSES); /* within 2 % of line */
	assert_true(out[0].rate_bps > params.line_rate_bps / 100 * 98);
	assert_int_equal(reaction_tick(r, 100 * TICK_NS, out, CLASSES), 1);
	assert_change(&out[0], 5, 9, LINE_MBIT);
	assert_int_equal(reaction_limited(r), 0);
	assert_true(reaction_idle(r));
	assert_int_equal(reaction_tick(r, 101 * TICK_NS, out, CLASSES), 0);
}

static void new_generation_starts_anew(void **state)
{
	struct reaction *r = *state;

	reaction_cnp(r, 0, 1, 0);
	reaction_cnp(r, 0, 1, 0);
	reaction_tick(r, 0, out, CLASSES);
	assert_change(&out[0], 0, 1, 10000);
	reaction_cnp(r, 0, 2, 0);
	assert_int_equal(reaction_limited(r), 1);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 1);
	assert_change(&out[0], 0, 2, 20000);
}

static void changes_that_did_not_fit_go_first(void **state)
{
	struct reaction *r = *state;
	uint32_t i;

	for (i = 0; i < 5; i++)
		reaction_cnp(r, i, 1, 0);
	assert_int_equal(reaction_tick(r, 0, out, 2), 2);
	assert_change(&out[0], 0, 1, 20000);
	assert_change(&out[1], 1, 1, 20000);
	reaction_cnp(r, 0, 1, 0);
	reaction_cnp(r, 9, 1, 0);
	assert_int_equal(reaction_tick(r, 0, out, 2), 2);
	assert_change(&out[0], 2, 1, 20000);
	assert_change(&out[1], 3, 1, 20000);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 3);
	assert_change(&out[0], 4, 1, 20000);
	assert_change(&out[1], 0, 1, 10000);
	assert_change(&out[2], 9, 1, 20000);
	assert_int_equal(reaction_tick(r, 0, out, 0), 0);
}

static void small_output_starves_no_class(void **state)
{
	struct reaction *r = *state;
	unsigned int sent[CLASSES] = {0};
	uint32_t i, tick;

	for (tick = 0; tick < 10 * CLASSES; tick++) {
		for (i = 0; i < CLASSES; i++)
			reaction_cnp(r, i, tick + 1, tick);
		/* Alternate the state so that every class has something to send. */
		for (i = 0; i < CLASSES && tick % 2; i++)
			reaction_cnp(r, i, tick + 1, tick);
		assert_int_equal(reaction_tick(r, tick, out, 1), 1);
		sent[out[0].class_index]++;
	}
	for (i = 0; i < CLASSES; i++)
		assert_in_range(sent[i], 8, 12);
}

static void forget_of_lowered_class_sends_line_rate(void **state)
{
	struct reaction *r = *state;

	reaction_cnp(r, 3, 8, 0);
	reaction_tick(r, 0, out, CLASSES);
	reaction_forget(r, 3);
	assert_int_equal(reaction_limited(r), 0);
	assert_true(reaction_rate_bps(r, 3) == params.line_rate_bps);
	assert_false(reaction_idle(r));
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 1);
	assert_change(&out[0], 3, 8, LINE_MBIT);
	assert_true(reaction_idle(r));
}

static void forget_before_anything_was_sent_sends_nothing(void **state)
{
	struct reaction *r = *state;

	reaction_cnp(r, 3, 8, 0);
	reaction_forget(r, 3);
	reaction_forget(r, 3);
	assert_int_equal(reaction_limited(r), 0);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 0);
	assert_true(reaction_idle(r));
}

static void forget_then_same_generation_starts_anew(void **state)
{
	struct reaction *r = *state;

	reaction_cnp(r, 3, 8, 0);
	reaction_cnp(r, 3, 8, 0);
	reaction_tick(r, 0, out, CLASSES);
	reaction_forget(r, 3);
	reaction_cnp(r, 3, 8, 0);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 1);
	assert_change(&out[0], 3, 8, 20000);
}

static void renewed_parameters_keep_a_limited_rate(void **state)
{
	struct rate_params slower = params;
	struct reaction *r = *state;

	slower.additive_bps = 1000000;
	reaction_cnp(r, 3, 1, 1000);
	reaction_cuts(r, out, CLASSES);
	assert_true(reaction_renew(r, &slower, 0.02));
	assert_true(reaction_rate_bps(r, 3) == params.line_rate_bps / 2);
	assert_int_equal(reaction_limited(r), 1);
}

static void renewed_bounds_hold_for_all(void **state)
{
	struct rate_params lower = params;
	struct reaction *r = *state;

	lower.line_rate_bps = 10000000000;
	reaction_cnp(r, 3, 1, 1000);
	reaction_cuts(r, out, CLASSES);
	assert_true(reaction_renew(r, &lower, 0.02));
	assert_true(reaction_rate_bps(r, 3) == lower.line_rate_bps);
	assert_true(reaction_rate_bps(r, 4) == lower.line_rate_bps);
	/* every class has the old line rate in the kernel; the one just cut waits for its turn */
	assert_int_equal(reaction_tick(r, 2000, out, CLASSES), CLASSES - 1);
	assert_change(&out[3], 4, 0, 10000);
	assert_int_equal(reaction_tick(r, 3000, out, CLASSES), 1);
	assert_change(&out[0], 3, 1, 10000);
}

static void renewed_variant_starts_at_line_rate(void **state)
{
	struct rate_params fixed = params;
	struct reaction *r = *state;

	fixed.variant = RATE_FIXED;
	reaction_cnp(r, 3, 1, 1000);
	reaction_cuts(r, out, CLASSES);
	assert_true(reaction_renew(r, &fixed, 0.02));
	assert_int_equal(reaction_limited(r), 0);
	assert_int_equal(reaction_tick(r, 2000, out, CLASSES), 0); /* just cut: not its turn */
	assert_int_equal(reaction_tick(r, 3000, out, CLASSES), 1);
	assert_change(&out[0], 3, 1, LINE_MBIT);
}

static void renewed_out_of_range_changes_nothing(void **state)
{
	struct rate_params bad = params;
	struct reaction *r = *state;

	bad.g = 0;
	assert_false(reaction_renew(r, &bad, 0.02));
	assert_false(reaction_renew(r, &params, -1));
	assert_true(reaction_idle(r));
}

static void failed_change_is_written_again(void **state)
{
	struct reaction *r = *state;

	reaction_cnp(r, 3, 8, 0);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 1);
	reaction_retry(r, 3);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 1);
	assert_change(&out[0], 3, 8, 20000);
	assert_int_equal(reaction_tick(r, 100 * TICK_NS, out, CLASSES), 1);
	assert_true(reaction_idle(r));
	reaction_retry(r, 3);
	assert_false(reaction_idle(r));
	assert_int_equal(reaction_tick(r, 101 * TICK_NS, out, CLASSES), 1);
	assert_change(&out[0], 3, 8, LINE_MBIT);
	assert_true(reaction_idle(r));
}

static void sent_bytes_count_for_their_generation_only(void **state)
{
	struct rate_params p = params;
	struct reaction *r;

	(void)state;
	p.byte_counter_bytes = 1000;
	r = reaction_new(CLASSES, &p, 0);
	assert_non_null(r);
	reaction_sent(r, 0, 1, 5000, 0);
	reaction_sent(r, 0, 0, 5000, 0); /* nothing limits it */
	assert_int_equal(reaction_limited(r), 0);
	assert_true(reaction_idle(r));
	reaction_cnp(r, 0, 1, 0);
	reaction_sent(r, 0, 2, 5000, 0);
	assert_true(reaction_rate_bps(r, 0) == 20000000000);
	reaction_sent(r, 0, 1, 1000, 0);
	assert_true(reaction_rate_bps(r, 0) == 30000000000);
	reaction_sent(r, 0, 1, 1000000, 0);
	assert_int_equal(reaction_limited(r), 0);
	assert_int_equal(reaction_tick(r, 0, out, CLASSES), 0); /* line rate was never left */
	assert_true(reaction_idle(r));
	reaction_free(r);
}

static uint32_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed >> 16;
}

static void random_step(struct reaction *r, uint64_t *seed, uint64_t now)
{
	uint32_t class_index = next_random(seed) % CLASSES;

	switch (next_random(seed) % 8) {
	case 0:
		reaction_forget(r, class_index);
		break;
	case 1:
		reaction_retry(r, class_index);
		break;
	case 2:
	case 3:
		reaction_cnp(r, class_index, next_random(seed) % 3, now);
	}
}

struct kernel {
	uint64_t rate_bps[CLASSES];
	bool told[CLASSES]; /* since the last tick */
};

/* Apply changes as a kernel does; no class may have a second one between two ticks. */
static void kernel_apply(struct kernel *k, size_t changes)
{
	for (size_t i = 0; i < changes; i++) {
		assert_false(k->told[out[i].class_index]);
		k->told[out[i].class_index] = true;
		k->rate_bps[out[i].class_index] = out[i].rate_bps;
	}
}

/* After a tick: what the kernel has is what the states say, up to the step. */
static void kernel_check(struct kernel *k, const struct reaction *r, const bool *early)
{
	uint32_t limited = 0;

	for (uint32_t i = 0; i < CLASSES; i++) {
		double rate = reaction_rate_bps(r, i), has = k->rate_bps[i];

		limited += reaction_rate_bps(r, i) < params.line_rate_bps;
		if (!early[i])
			assert_true(rate >= has - has / 50 - 1 && rate <= has + has / 50 + 1);
	}
	assert_int_equal(limited, reaction_limited(r));
	memset(k->told, 0, sizeof(k->told));
}

static void random_events_keep_the_kernel_in_step(void **state)
{
	struct reaction *r = *state;
	uint64_t seed = 88172645463325252ull, now = 0;
	bool early[CLASSES];
	struct kernel k = {};
	uint32_t i, step;

	for (i = 0; i < CLASSES; i++)
		k.rate_bps[i] = params.line_rate_bps;
	for (step = 0; step < 100000; step++) {
		now += next_random(&seed) % TICK_NS;
		random_step(r, &seed, now);
		if (next_random(&seed) % 2)
			kernel_apply(&k, reaction_cuts(r, out, next_random(&seed) % CLASSES));
		if (next_random(&seed) % 4)
			continue;
		memcpy(early, k.told, sizeof(early));
		kernel_apply(&k, reaction_tick(r, now, out, CLASSES));
		kernel_check(&k, r, early);
	}
	while (!reaction_idle(r)) {
		now += 100 * TICK_NS;
		memset(k.told, 0, sizeof(k.told));
		kernel_apply(&k, reaction_tick(r, now, out, 3));
	}
	for (i = 0; i < CLASSES; i++)
		assert_true(k.rate_bps[i] == params.line_rate_bps);
}

#define PORT_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PORT_TEST(new_port_is_idle_at_line_rate),
		cmocka_unit_test(new_out_of_range_is_refused),
		cmocka_unit_test(no_classes_take_no_cnp),
		PORT_TEST(index_out_of_range_changes_nothing),
		PORT_TEST(cnp_is_sent_at_next_tick_and_once),
		PORT_TEST(first_cut_since_a_tick_is_sent_at_once_and_the_others_wait),
		PORT_TEST(cuts_that_do_not_fit_or_were_forgotten_are_left_to_the_tick),
		PORT_TEST(several_cnps_in_a_tick_are_one_change),
		PORT_TEST(cuts_below_step_add_up),
		cmocka_unit_test(cnp_too_soon_is_refused_and_changes_nothing),
		cmocka_unit_test(cut_that_is_due_later_is_sent_when_it_is),
		PORT_TEST(cnp_at_min_rate_sends_nothing_new),
		PORT_TEST(increase_is_held_until_it_passes_step),
		PORT_TEST(line_rate_is_sent_exactly_and_ends_it),
		PORT_TEST(new_generation_starts_anew),
		PORT_TEST(changes_that_did_not_fit_go_first),
		PORT_TEST(small_output_starves_no_class),
		PORT_TEST(forget_of_lowered_class_sends_line_rate),
		PORT_TEST(forget_before_anything_was_sent_sends_nothing),
		PORT_TEST(forget_then_same_generation_starts_anew),
		PORT_TEST(renewed_parameters_keep_a_limited_rate),
		PORT_TEST(renewed_bounds_hold_for_all),
		PORT_TEST(renewed_variant_starts_at_line_rate),
		PORT_TEST(renewed_out_of_range_changes_nothing),
		PORT_TEST(failed_change_is_written_again),
		cmocka_unit_test(sent_bytes_count_for_their_generation_only),
		PORT_TEST(random_events_keep_the_kernel_in_step),
	};

	return cmocka_run_group_tests_name("reaction", tests, NULL, NULL);
}
