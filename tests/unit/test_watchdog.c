// SPDX-License-Identifier: BSD-2-Clause
// The pause storm watchdog: what is a storm and what only looks like one, and when it is over.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/watchdog.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MS	      1000000ull
#define SECOND	      1000000000ull

static const struct policy_watchdog defaults = {
	.detect_ns = 200 * MS,
	.restore_ns = 200 * MS,
	.action = WATCHDOG_DROP,
};

/*
 * A priority whose peer pauses it for on_ns of every period_ns, from begin_ns to end_ns, with a
 * frame of pause_ns every refresh_ns. Time goes in steps; a step that is open sends a frame.
 */
struct world {
	uint64_t step_ns;
	uint64_t begin_ns, end_ns, period_ns, on_ns;
	uint64_t refresh_ns, pause_ns;
	bool empty; /* nothing waits */
	struct watchdog_sample seen;
	struct watchdog watchdog;
	uint64_t storms, restores, storm_ns, restore_ns;
};

static struct world steady_storm(uint64_t begin_ns, uint64_t end_ns)
{
	return (struct world){
		.step_ns = MS,
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.period_ns = UINT64_MAX,
		.on_ns = UINT64_MAX,
		.refresh_ns = 10 * MS,
		.pause_ns = 20 * MS,
	};
}

/* The peer's frames of this step; outside its times to pause it says XON. */
static void hear(struct world *w)
{
	struct watchdog_sample *s = &w->seen;
	uint64_t at = s->now_ns - w->begin_ns;

	if (s->now_ns < w->begin_ns || s->now_ns >= w->end_ns) {
		s->until_ns = s->now_ns < s->until_ns ? s->until_ns : 0;
		return;
	}
	if (at % w->period_ns >= w->on_ns) {
		s->until_ns = 0;
	} else if (at % w->period_ns % w->refresh_ns == 0) {
		s->until_ns = s->now_ns + w->pause_ns;
		s->xoffs++;
	}
}

static void step(struct world *w, const struct policy_watchdog *policy)
{
	struct watchdog_sample *s = &w->seen;
	bool obeyed = watchdog_mitigation(&w->watchdog, policy) == MITIGATE_NONE;

	hear(w);
	if (obeyed && s->until_ns > s->now_ns)
		s->paused_ns += w->step_ns;
	else if (!w->empty)
		s->sent_bytes += 1500;
	s->backlog_bytes = w->empty ? 0 : 100000;
	s->now_ns += w->step_ns;
}

static void look(struct world *w, const struct policy_watchdog *policy)
{
	enum watchdog_change change = watchdog_look(&w->watchdog, policy, &w->seen);

	if (change == WATCHDOG_STORM) {
		w->storms++;
		w->storm_ns = w->seen.now_ns;
	}
	if (change == WATCHDOG_RESTORE) {
		w->restores++;
		w->restore_ns = w->seen.now_ns;
	}
}

/* Until end_ns with looks every poll_ns, some of them late by up to late_ns. */
static void run(struct world *w, const struct policy_watchdog *policy, uint64_t end_ns,
	uint64_t poll_ns, uint64_t late_ns)
{
	uint64_t due_ns = w->seen.now_ns;

	while (w->seen.now_ns < end_ns) {
		if (w->seen.now_ns >= due_ns) {
			look(w, policy);
			due_ns = w->seen.now_ns + poll_ns;
			if (late_ns)
				due_ns += (uint64_t)rand() % (late_ns / MS + 1) * MS;
		}
		step(w, policy);
	}
}

static void storm_is_found_within_one_look_of_the_detection_time(void **state)
{
	static const uint64_t polls[] = {MS, 10 * MS, 50 * MS, 100 * MS, 200 * MS};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(polls); i++) {
		struct world w = steady_storm(303 * MS, 10 * SECOND);

		run(&w, &defaults, 2 * SECOND, polls[i], 0);
		assert_int_equal(w.storms, 1);
		assert_in_range(w.storm_ns, 503 * MS, 503 * MS + polls[i]);
		assert_int_equal(w.restores, 0);
	}
}

static void storm_is_found_at_every_detection_time(void **state)
{
	static const uint64_t times[] = {100 * MS, 400 * MS, 5 * SECOND, 60 * SECOND};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct policy_watchdog policy = defaults;
		struct world w = steady_storm(SECOND, 100 * SECOND);

		policy.detect_ns = times[i];
		run(&w, &policy, 70 * SECOND, 10 * MS, 0);
		assert_int_equal(w.storms, 1);
		assert_in_range(w.storm_ns, SECOND + times[i], SECOND + times[i] + 10 * MS);
	}
}

static void pause_of_half_the_detection_time_repeated_is_no_storm(void **state)
{
	static const uint64_t polls[] = {MS, 10 * MS, 50 * MS, 100 * MS, 200 * MS, 600 * MS};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(polls); i++)
		for (uint64_t on = 100 * MS; on <= 190 * MS; on += 90 * MS) {
			struct world w = steady_storm(7 * MS, 100 * SECOND);

			w.period_ns = 200 * MS;
			w.on_ns = on;
			run(&w, &defaults, 20 * SECOND, polls[i], 0);
			assert_int_equal(w.storms, 0);
		}
}

/* Every look falls into a pause, and hardly anything between two looks was one. */
static void pause_in_the_last_moment_before_each_look_is_no_storm(void **state)
{
	struct world w = steady_storm(47 * MS, 100 * SECOND);

	(void)state;
	w.period_ns = 50 * MS;
	w.on_ns = 4 * MS;
	run(&w, &defaults, 20 * SECOND, 50 * MS, 0);
	assert_true(w.seen.paused_ns > SECOND);
	assert_int_equal(w.storms, 0);
}

static void pause_of_an_empty_queue_is_no_storm(void **state)
{
	struct world w = steady_storm(0, 100 * SECOND);

	(void)state;
	w.empty = true;
	run(&w, &defaults, 10 * SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 0);
	w.empty = false; /* from now on something waits */
	run(&w, &defaults, 10 * SECOND + 200 * MS, 10 * MS, 0);
	assert_int_equal(w.storms, 0);
	run(&w, &defaults, 10 * SECOND + 220 * MS, 10 * MS, 0);
	assert_int_equal(w.storms, 1);
}

static void queue_that_was_empty_at_one_look_starts_anew(void **state)
{
	struct watchdog_sample s = {.backlog_bytes = 1};
	struct watchdog w = {};

	(void)state;
	for (int i = 0; i < 100; i++) {
		s.backlog_bytes = i % 4 != 3;
		assert_int_equal(watchdog_look(&w, &defaults, &s), WATCHDOG_NONE);
		s.now_ns += 60 * MS;
		s.paused_ns += 60 * MS;
	}
}

static void queue_that_sends_now_and_then_is_no_storm(void **state)
{
	struct watchdog_sample s = {.backlog_bytes = 100000};
	struct watchdog w = {};

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(watchdog_look(&w, &defaults, &s), WATCHDOG_NONE);
		s.now_ns += 190 * MS;
		s.paused_ns += 190 * MS;
		s.sent_bytes += 64;
	}
}

static void queue_that_is_stuck_without_a_pause_is_no_storm(void **state)
{
	struct watchdog_sample s = {.backlog_bytes = 100000};
	struct watchdog w = {};

	(void)state;
	for (s.now_ns = 0; s.now_ns < 10 * SECOND; s.now_ns += 10 * MS)
		assert_int_equal(watchdog_look(&w, &defaults, &s), WATCHDOG_NONE);
}

static void paused_share_decides_at_99_percent(void **state)
{
	static const struct {
		uint64_t paused_ns;
		enum watchdog_change change;
	} rows[] = {
		{200 * MS, WATCHDOG_STORM},
		{198 * MS, WATCHDOG_STORM},
		{198 * MS - 1, WATCHDOG_NONE},
		{100 * MS, WATCHDOG_NONE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct watchdog_sample s = {.backlog_bytes = 1};
		struct watchdog w = {};

		assert_int_equal(watchdog_look(&w, &defaults, &s), WATCHDOG_NONE);
		s.now_ns = 200 * MS;
		s.paused_ns = rows[i].paused_ns;
		assert_int_equal(watchdog_look(&w, &defaults, &s), rows[i].change);
	}
}

static void look_delayed_threefold_finds_no_storm_in_pauses_that_ended(void **state)
{
	(void)state;
	for (unsigned int seed = 0; seed < 20; seed++) {
		struct world w = steady_storm(13 * MS, 100 * SECOND);

		srand(seed);
		w.period_ns = 200 * MS;
		w.on_ns = 100 * MS;
		run(&w, &defaults, 20 * SECOND, 50 * MS, 100 * MS);
		run(&w, &defaults, 40 * SECOND, 200 * MS, 400 * MS);
		assert_int_equal(w.storms, 0);
	}
}

static void look_delayed_threefold_still_finds_a_storm_once(void **state)
{
	(void)state;
	for (unsigned int seed = 0; seed < 20; seed++) {
		struct world w = steady_storm(SECOND, 10 * SECOND);

		srand(seed);
		run(&w, &defaults, 20 * SECOND, 50 * MS, 100 * MS);
		assert_int_equal(w.storms, 1);
		assert_in_range(w.storm_ns, 1200 * MS, 1500 * MS);
		assert_int_equal(w.restores, 1);
	}
}

/* A peer that is software leaves gaps between two XOFFs. */
static void gaps_of_half_a_percent_do_not_hide_a_storm(void **state)
{
	struct world w = steady_storm(SECOND, 10 * SECOND);

	(void)state;
	w.step_ns = MS / 10;
	w.refresh_ns = 20 * MS;
	w.pause_ns = 20 * MS - MS / 10;
	w.empty = true; /* it sends nothing in the gaps either */
	while (w.seen.now_ns < 2 * SECOND) {
		step(&w, &defaults);
		w.seen.backlog_bytes = 100000;
		if (w.seen.now_ns % (10 * MS) == 0)
			look(&w, &defaults);
	}
	assert_int_equal(w.storms, 1);
}

/* Two at once, one a little later than the other, each action. */
static void storm_of_a_minute_on_two_priorities_is_one_storm_and_one_restore_each(void **state)
{
	static const enum watchdog_action actions[] = {
		WATCHDOG_DROP, WATCHDOG_FORWARD, WATCHDOG_ALERT};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		struct policy_watchdog policy = defaults;
		struct world priorities[2] = {
			steady_storm(SECOND, 61 * SECOND), steady_storm(1150 * MS, 61150 * MS)};

		policy.action = actions[i];
		for (size_t k = 0; k < 2; k++) {
			struct world *w = &priorities[k];

			run(w, &policy, 70 * SECOND, 50 * MS, 50 * MS);
			assert_int_equal(w->storms, 1);
			assert_int_equal(w->restores, 1);
			assert_in_range(w->storm_ns - w->begin_ns, 200 * MS, 400 * MS);
			assert_in_range(w->restore_ns - w->end_ns, 200 * MS, 400 * MS);
		}
	}
}

/* What is dropped or forwarded is not paused any more: only the peer's frames tell. */
static void mitigation_does_not_blind_the_restoration(void **state)
{
	struct world w = steady_storm(0, 30 * SECOND);
	uint64_t paused_ns;

	(void)state;
	run(&w, &defaults, SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 1);
	paused_ns = w.seen.paused_ns;
	run(&w, &defaults, 30 * SECOND, 10 * MS, 0);
	assert_int_equal(w.seen.paused_ns, paused_ns);
	assert_int_equal(w.restores, 0);
	run(&w, &defaults, 31 * SECOND, 10 * MS, 0);
	assert_int_equal(w.restores, 1);
	run(&w, &defaults, 60 * SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 1);
}

/* At a low speed one XOFF lasts longer than the restoration time. */
static void pause_in_force_is_not_quiet(void **state)
{
	struct policy_watchdog policy = defaults;
	struct world w = steady_storm(0, 30 * SECOND);

	(void)state;
	policy.restore_ns = 100 * MS;
	w.pause_ns = 168 * MS;
	w.refresh_ns = 160 * MS;
	run(&w, &policy, 31 * SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 1);
	assert_int_equal(w.restores, 1);
	assert_true(w.restore_ns > 30 * SECOND);
}

static void xon_frames_do_not_delay_the_restoration(void **state)
{
	struct watchdog_sample s = {.backlog_bytes = 1};
	struct watchdog w = {};

	(void)state;
	watchdog_look(&w, &defaults, &s);
	s.now_ns = s.paused_ns = 200 * MS;
	s.xoffs = 10;
	s.until_ns = 210 * MS;
	assert_int_equal(watchdog_look(&w, &defaults, &s), WATCHDOG_STORM);
	/* from here on only XONs: each sets until_ns to the time that it came */
	while (s.now_ns < 400 * MS) {
		s.now_ns += 10 * MS;
		s.until_ns = s.now_ns;
		assert_int_equal(watchdog_look(&w, &defaults, &s),
			s.now_ns < 400 * MS ? WATCHDOG_NONE : WATCHDOG_RESTORE);
	}
}

static void storm_that_comes_back_is_another_one(void **state)
{
	struct world w = steady_storm(SECOND, 100 * SECOND);

	(void)state;
	w.period_ns = 4 * SECOND;
	w.on_ns = SECOND;
	run(&w, &defaults, 21 * SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 5);
	assert_int_equal(w.restores, 5);
}

static void mitigation_follows_the_action_and_lasts_as_long_as_the_storm(void **state)
{
	static const struct {
		enum watchdog_action action;
		enum watchdog_mitigation mitigation;
	} rows[] = {
		{WATCHDOG_DROP, MITIGATE_DROP},
		{WATCHDOG_FORWARD, MITIGATE_FORWARD},
		{WATCHDOG_ALERT, MITIGATE_NONE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy_watchdog policy = defaults;
		struct world w = steady_storm(0, SECOND);

		policy.action = rows[i].action;
		assert_int_equal(watchdog_mitigation(&w.watchdog, &policy), MITIGATE_NONE);
		run(&w, &policy, SECOND, 10 * MS, 0);
		assert_int_equal(w.storms, 1);
		assert_int_equal(watchdog_mitigation(&w.watchdog, &policy), rows[i].mitigation);
		run(&w, &policy, 2 * SECOND, 10 * MS, 0);
		assert_int_equal(w.restores, 1);
		assert_int_equal(watchdog_mitigation(&w.watchdog, &policy), MITIGATE_NONE);
	}
}

static void big_red_switch_drops_at_once_and_only_while_it_is_on(void **state)
{
	struct policy_watchdog policy = defaults;
	struct world w = steady_storm(0, 100 * SECOND);

	(void)state;
	w.period_ns = 200 * MS;
	w.on_ns = 100 * MS;
	policy.action = WATCHDOG_ALERT;
	policy.big_red_switch = true;
	run(&w, &policy, 10 * SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 1);
	assert_int_equal(w.storm_ns, 0);
	assert_int_equal(w.restores, 0);
	assert_int_equal(watchdog_mitigation(&w.watchdog, &policy), MITIGATE_DROP);
	policy.big_red_switch = false;
	run(&w, &policy, 20 * SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 1);
	assert_int_equal(w.restores, 1);
	assert_int_equal(w.restore_ns, 10 * SECOND);
}

static void big_red_switch_in_a_storm_leaves_it_to_the_quiet(void **state)
{
	struct policy_watchdog policy = defaults;
	struct world w = steady_storm(0, 30 * SECOND);

	(void)state;
	run(&w, &policy, SECOND, 10 * MS, 0);
	policy.big_red_switch = true;
	run(&w, &policy, 2 * SECOND, 10 * MS, 0);
	policy.big_red_switch = false;
	run(&w, &policy, 30 * SECOND, 10 * MS, 0);
	assert_int_equal(w.restores, 0);
	run(&w, &policy, 31 * SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 1);
	assert_int_equal(w.restores, 1);
}

static void no_watchdog_finds_nothing_and_ends_what_there_was(void **state)
{
	struct policy_watchdog off = defaults;
	struct world w = steady_storm(0, 30 * SECOND);

	(void)state;
	off.detect_ns = 0;
	run(&w, &off, 5 * SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 0);
	run(&w, &defaults, 6 * SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 1);
	look(&w, &off);
	assert_int_equal(w.restores, 1);
}

/* An agent that takes over in a storm: what came before its first look counts for nothing. */
static void first_look_in_a_storm_begins_the_window(void **state)
{
	struct world w = steady_storm(0, 30 * SECOND);

	(void)state;
	while (w.seen.now_ns < 5 * SECOND)
		step(&w, &defaults);
	run(&w, &defaults, 10 * SECOND, 10 * MS, 0);
	assert_int_equal(w.storms, 1);
	assert_int_equal(w.storm_ns, 5 * SECOND + 200 * MS);
}

static void counts_that_go_back_begin_the_window_anew(void **state)
{
	const struct watchdog_sample stuck = {.now_ns = SECOND,
		.backlog_bytes = 1,
		.sent_bytes = 5000,
		.paused_ns = SECOND,
		.xoffs = 10};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct watchdog_sample s = stuck;
		struct watchdog w = {};

		watchdog_look(&w, &defaults, &s);
		s.now_ns = i == 0 ? MS : s.now_ns + 300 * MS;
		s.paused_ns = i == 1 ? 0 : s.paused_ns + 300 * MS;
		s.sent_bytes = i == 2 ? 0 : s.sent_bytes;
		s.xoffs = i == 3 ? 0 : s.xoffs;
		assert_int_equal(watchdog_look(&w, &defaults, &s), WATCHDOG_NONE);
		s.now_ns += 200 * MS;
		s.paused_ns += 200 * MS;
		assert_int_equal(watchdog_look(&w, &defaults, &s), WATCHDOG_STORM);
	}
}

static void take_fault(void *arg, const struct policy_note *note)
{
	char *got = arg;

	assert_true(strlen(got) + strlen(note->text) < 1000);
	strcat(strcat(got, note->text), "\n");
}

/* What SONiC's own tests feed its watchdog. */
static void settings_out_of_range_are_refused_with_field_and_range(void **state)
{
	static const struct {
		const char *setting, *field, *allowed;
	} rows[] = {
		{"action: invalid", "pfc.watchdog.action", "drop, forward or alert"},
		{"detect: 400a", "pfc.watchdog.detect", "100ms to 60s"},
		{"detect: 40", "pfc.watchdog.detect", "100ms to 60s"},
		{"detect: 40ms", "pfc.watchdog.detect", "100ms to 60s"},
		{"detect: 4000000ms", "pfc.watchdog.detect", "100ms to 60s"},
		{"restore: 500c", "pfc.watchdog.restore", "100ms to 60s"},
		{"restore: 50ms", "pfc.watchdog.restore", "100ms to 60s"},
		{"restore: 50000000ms", "pfc.watchdog.restore", "100ms to 60s"},
	};
	static struct policy policy;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[256], faults[1024] = "";

		snprintf(text, sizeof(text),
			"version: 1\nports: [{name: eth0, role: gateway, rate: 1Gbit}]\n"
			"pfc: {watchdog: {%s}}\n",
			rows[i].setting);
		assert_int_equal(
			policy_parse(text, strlen(text), "p.yaml", &policy, take_fault, faults),
			-EINVAL);
		assert_non_null(strstr(faults, rows[i].field));
		assert_non_null(strstr(faults, rows[i].allowed));
	}
}

static void settings_absent_are_the_usual_ones(void **state)
{
	static const char text[] =
		"version: 1\nports: [{name: eth0, role: gateway, rate: 1Gbit}]\n";
	static struct policy policy;
	char faults[1024] = "";

	(void)state;
	assert_int_equal(
		policy_parse(text, strlen(text), "p.yaml", &policy, take_fault, faults), 0);
	assert_memory_equal(&policy.pfc.watchdog, &defaults, sizeof(defaults));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(storm_is_found_within_one_look_of_the_detection_time),
		cmocka_unit_test(storm_is_found_at_every_detection_time),
		cmocka_unit_test(pause_of_half_the_detection_time_repeated_is_no_storm),
		cmocka_unit_test(pause_in_the_last_moment_before_each_look_is_no_storm),
		cmocka_unit_test(pause_of_an_empty_queue_is_no_storm),
		cmocka_unit_test(queue_that_was_empty_at_one_look_starts_anew),
		cmocka_unit_test(queue_that_sends_now_and_then_is_no_storm),
		cmocka_unit_test(queue_that_is_stuck_without_a_pause_is_no_storm),
		cmocka_unit_test(paused_share_decides_at_99_percent),
		cmocka_unit_test(look_delayed_threefold_finds_no_storm_in_pauses_that_ended),
		cmocka_unit_test(look_delayed_threefold_still_finds_a_storm_once),
		cmocka_unit_test(gaps_of_half_a_percent_do_not_hide_a_storm),
		cmocka_unit_test(
			storm_of_a_minute_on_two_priorities_is_one_storm_and_one_restore_each),
		cmocka_unit_test(mitigation_does_not_blind_the_restoration),
		cmocka_unit_test(pause_in_force_is_not_quiet),
		cmocka_unit_test(xon_frames_do_not_delay_the_restoration),
		cmocka_unit_test(storm_that_comes_back_is_another_one),
		cmocka_unit_test(mitigation_follows_the_action_and_lasts_as_long_as_the_storm),
		cmocka_unit_test(big_red_switch_drops_at_once_and_only_while_it_is_on),
		cmocka_unit_test(big_red_switch_in_a_storm_leaves_it_to_the_quiet),
		cmocka_unit_test(no_watchdog_finds_nothing_and_ends_what_there_was),
		cmocka_unit_test(first_look_in_a_storm_begins_the_window),
		cmocka_unit_test(counts_that_go_back_begin_the_window_anew),
		cmocka_unit_test(settings_out_of_range_are_refused_with_field_and_range),
		cmocka_unit_test(settings_absent_are_the_usual_ones),
	};

	return cmocka_run_group_tests_name("watchdog", tests, NULL, NULL);
}
