// SPDX-License-Identifier: BSD-2-Clause
// A peer's pauses: what the gate is told, and until when.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/pause.h"

static void pause_xoff_closes_until_its_time(void **state)
{
	struct pause pause = {};

	(void)state;
	assert_int_equal(pause_set(&pause, 1000, 5000), PAUSE_CLOSE);
	assert_true(pause_is_closed(&pause));
	assert_int_equal(pause_expire(&pause, 4999), PAUSE_NONE);
	assert_int_equal(pause_expire(&pause, 5000), PAUSE_OPEN);
	assert_false(pause_is_closed(&pause));
	assert_int_equal(pause_expire(&pause, 6000), PAUSE_NONE);
}

static void pause_refresh_moves_only_the_end(void **state)
{
	struct pause pause = {};

	(void)state;
	pause_set(&pause, 1000, 5000);
	assert_int_equal(pause_set(&pause, 3000, 7000), PAUSE_NONE);
	assert_int_equal(pause.since_ns, 1000);
	assert_int_equal(pause_expire(&pause, 5000), PAUSE_NONE);
	assert_int_equal(pause_expire(&pause, 7000), PAUSE_OPEN);
}

static void pause_shorter_time_replaces_a_longer_one(void **state)
{
	struct pause pause = {};

	(void)state;
	pause_set(&pause, 1000, 9000);
	assert_int_equal(pause_set(&pause, 2000, 3000), PAUSE_NONE);
	assert_int_equal(pause_expire(&pause, 3000), PAUSE_OPEN);
}

static void pause_xon_opens_at_once(void **state)
{
	struct pause pause = {};

	(void)state;
	pause_set(&pause, 1000, 9000);
	assert_int_equal(pause_set(&pause, 2000, 2000), PAUSE_OPEN);
	assert_false(pause_is_closed(&pause));
}

static void pause_xon_of_an_open_gate_is_nothing(void **state)
{
	struct pause pause = {};

	(void)state;
	assert_int_equal(pause_set(&pause, 2000, 2000), PAUSE_NONE);
	assert_int_equal(pause_set(&pause, 2000, 0), PAUSE_NONE);
}

static void pause_heard_late_is_over(void **state)
{
	struct pause pause = {};

	(void)state;
	assert_int_equal(pause_set(&pause, 6000, 5000), PAUSE_NONE);
}

static void pause_buckets_double(void **state)
{
	(void)state;
	assert_int_equal(pause_bucket(0, 10, 4), 0);
	assert_int_equal(pause_bucket(10, 10, 4), 0);
	assert_int_equal(pause_bucket(11, 10, 4), 1);
	assert_int_equal(pause_bucket(20, 10, 4), 1);
	assert_int_equal(pause_bucket(40, 10, 4), 2);
	assert_int_equal(pause_bucket(41, 10, 4), 3);
	assert_int_equal(pause_bucket(UINT64_MAX, 10, 4), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pause_xoff_closes_until_its_time),
		cmocka_unit_test(pause_refresh_moves_only_the_end),
		cmocka_unit_test(pause_shorter_time_replaces_a_longer_one),
		cmocka_unit_test(pause_xon_opens_at_once),
		cmocka_unit_test(pause_xon_of_an_open_gate_is_nothing),
		cmocka_unit_test(pause_heard_late_is_over),
		cmocka_unit_test(pause_buckets_double),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
