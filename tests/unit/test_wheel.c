// SPDX-License-Identifier: BSD-2-Clause
// The wheel of timers: everything comes out once, never late, and mostly not early.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "control/wheel.h"

enum { ENTRIES = 2000, SHIFT = 10 };

static uint32_t out[ENTRIES];

static int set_up(void **state)
{
	*state = wheel_new(ENTRIES, SHIFT);
	return *state ? 0 : -1;
}

static int tear_down(void **state)
{
	wheel_free(*state);
	return 0;
}

static void entry_comes_out_when_due_and_once(void **state)
{
	struct wheel *w = *state;

	wheel_add(w, 7, 50 << SHIFT);
	assert_true(wheel_has(w, 7));
	assert_int_equal(wheel_take(w, (50 << SHIFT) - 1, out), 0);
	assert_int_equal(wheel_take(w, 50 << SHIFT, out), 1);
	assert_int_equal(out[0], 7);
	assert_false(wheel_has(w, 7));
	assert_int_equal(wheel_take(w, UINT64_MAX, out), 0);
}

static void entry_added_late_comes_out_at_next_take(void **state)
{
	struct wheel *w = *state;

	wheel_take(w, 1000000000, out);
	wheel_add(w, 1, 5);
	wheel_add(w, 2, 1000000000);
	assert_int_equal(wheel_take(w, 1000000000, out), 2);
	wheel_add(w, 1, 5);
	assert_int_equal(wheel_take(w, 0, out), 1);
}

static void entry_without_a_time_is_not_taken_in(void **state)
{
	struct wheel *w = *state;

	wheel_add(w, 1, UINT64_MAX);
	assert_false(wheel_has(w, 1));
	assert_int_equal(wheel_take(w, UINT64_MAX, out), 0);
}

static void entry_of_far_away_waits_and_comes(void **state)
{
	struct wheel *w = *state;

	wheel_add(w, 3, UINT64_MAX - 1);
	wheel_take(w, 1ull << 62, out);
	if (!wheel_has(w, 3))
		wheel_add(w, 3, UINT64_MAX - 1);
	assert_int_equal(wheel_take(w, UINT64_MAX - 1, out), 1);
}

static uint64_t random_below(uint64_t *seed, uint64_t limit)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed % limit;
}

struct due {
	uint64_t at_ns[ENTRIES]; /* 0: not in the wheel */
	uint64_t early;
};

/* What came out was in; what was not due goes back. Then nothing that is due is left. */
static void check_taken(struct wheel *w, struct due *due, size_t count, uint64_t now)
{
	for (size_t i = 0; i < count; i++) {
		assert_true(due->at_ns[out[i]]);
		if (due->at_ns[out[i]] <= now) {
			due->at_ns[out[i]] = 0;
			continue;
		}
		due->early++;
		wheel_add(w, out[i], due->at_ns[out[i]]);
	}
	for (uint32_t i = 0; i < ENTRIES; i++) {
		assert_int_equal(wheel_has(w, i), due->at_ns[i] != 0);
		assert_true(!due->at_ns[i] || due->at_ns[i] > now);
	}
}

static void random_times_come_out_on_time(void **state)
{
	static struct due due;
	uint64_t seed = 88172645463325252ull, now = 1, added = 0;
	int round;

	memset(&due, 0, sizeof(due));
	for (round = 0; round < 3000; round++) {
		for (int i = 0; i < 20; i++) {
			uint32_t entry = random_below(&seed, ENTRIES);
			uint64_t range = 1ull << (8 + random_below(&seed, 32));

			if (due.at_ns[entry])
				continue;
			due.at_ns[entry] = now + 1 + random_below(&seed, range);
			wheel_add(*state, entry, due.at_ns[entry]);
			added++;
		}
		now += random_below(&seed, 1ull << (8 + random_below(&seed, 28)));
		check_taken(*state, &due, wheel_take(*state, now, out), now);
	}
	assert_true(added > 10000);
	assert_true(due.early < 11 * added); /* each level moves an entry on once, at the most */
}

#define WHEEL_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WHEEL_TEST(entry_comes_out_when_due_and_once),
		WHEEL_TEST(entry_added_late_comes_out_at_next_take),
		WHEEL_TEST(entry_without_a_time_is_not_taken_in),
		WHEEL_TEST(entry_of_far_away_waits_and_comes),
		WHEEL_TEST(random_times_come_out_on_time),
	};

	return cmocka_run_group_tests_name("wheel", tests, NULL, NULL);
}
