// SPDX-License-Identifier: BSD-2-Clause
// Headroom: every figure that others publish, and quench's own sum by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "control/headroom.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define GBIT	      1000000000ull
#define METER	      1000ull

static struct headroom headroom_of(const char *name, struct headroom_link link)
{
	const struct headroom_model *model = headroom_find(name);
	struct qerr err = {};
	struct headroom h;

	assert_non_null(model);
	if (headroom_compute(model, &link, &h, &err))
		fail_msg("%s: %s", name, err.text);
	return h;
}

static double sum_of(const struct headroom *h)
{
	double bytes = 0;

	for (size_t i = 0; i < h->parts_count; i++)
		bytes += h->parts[i].bytes;
	return bytes;
}

static double part_of(const struct headroom *h, const char *what)
{
	for (size_t i = 0; i < h->parts_count; i++)
		if (!strcmp(h->parts[i].what, what))
			return h->parts[i].bytes;
	fail_msg("no part \"%s\"", what);
	return 0;
}

static void mlx5_published_links_match(void **state)
{
	static const struct {
		uint64_t gbit;
		uint64_t bytes[6];
	} rows[] = {
		{10, {16520, 37507, 16720, 37707, 24760, 45747}},
		{25, {16520, 37507, 16720, 37707, 24760, 45747}},
		{40, {16520, 37507, 16720, 37707, 24760, 45747}},
		{50, {19630, 40617, 19880, 40867, 29930, 50917}},
		{100, {35180, 56167, 35680, 56667, 55780, 76767}},
		{200, {66280, 87267, 67280, 88267, 107480, 128467}},
		{400, {128480, 149467, 130480, 151467, 210880, 231867}},
	};
	static const struct {
		uint64_t meters;
		uint32_t mtu;
	} columns[] = {{5, 1500}, {5, 9216}, {7, 1500}, {7, 9216}, {100, 1500}, {100, 9216}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; k < ARRAY_SIZE(columns); k++) {
			struct headroom h = headroom_of(
				"mlx5", (struct headroom_link){.speed_bps = rows[i].gbit * GBIT,
						.cable_mm = columns[k].meters * METER,
						.mtu_bytes = columns[k].mtu});

			assert_int_equal(h.bytes, rows[i].bytes[k]);
			assert_true(sum_of(&h) == (double)h.bytes);
		}
}

static void mlx5_marks_lie_as_in_the_driver(void **state)
{
	const struct headroom_link link = {
		.speed_bps = 100 * GBIT, .cable_mm = 7 * METER, .mtu_bytes = 1500};
	struct headroom h = headroom_of("mlx5", link);
	uint64_t xoff, xon;

	(void)state;
	assert_int_equal(headroom_marks(&h, 262144, &xoff, &xon), 0);
	assert_int_equal(xoff, 262144 - 35680);
	assert_int_equal(xon, 262144 - 35680 - 9216);
	assert_int_equal(headroom_marks(&h, 35680 + 9216 + 128, &xoff, &xon), 0);
	assert_int_equal(headroom_marks(&h, 35680 + 9216 + 127, &xoff, &xon), -ERANGE);
}

static void sonic_published_links_match(void **state)
{
	static const struct {
		uint64_t gbit;
		uint64_t bytes[6];
	} rows[] = {
		{10, {29696, 30720, 36864, 33792, 34816, 41984}},
		{25, {31744, 33792, 49152, 35840, 37888, 56320}},
		{40, {36864, 39936, 65536, 40960, 45056, 73728}},
		{50, {39936, 45056, 76800, 46080, 50176, 87040}},
		{100, {72704, 80896, 144384, 81920, 92160, 163840}},
		{200, {80896, 98304, 225280, 92160, 111616, 256000}},
		{400, {140288, 175104, 429056, 159744, 198656, 487424}},
	};
	static const struct {
		uint64_t meters;
		uint32_t cell;
	} columns[] = {{5, 96}, {40, 96}, {300, 96}, {5, 144}, {40, 144}, {300, 144}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; k < ARRAY_SIZE(columns); k++) {
			struct headroom h = headroom_of(
				"sonic", (struct headroom_link){.speed_bps = rows[i].gbit * GBIT,
						 .cable_mm = columns[k].meters * METER,
						 .mtu_bytes = 1024,
						 .cell_bytes = columns[k].cell});

			assert_int_equal(h.bytes, rows[i].bytes[k]);
			assert_int_equal(h.xon_bytes, 18432);
			assert_int_equal(h.buffer_bytes, rows[i].bytes[k] + 18432);
		}
}

static void cisco_published_links_match(void **state)
{
	static const struct {
		uint64_t gbit;
		double bytes[3]; /* at 1, 100 and 1000 m */
	} rows[] = {
		{10, {24456.5, 25694, 36944}},
		{25, {25243.25, 28337, 56462}},
		{40, {32302, 37252, 82252}},
		{100, {74617, 86992, 199492}},
	};
	static const uint64_t meters[] = {1, 100, 1000};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; k < ARRAY_SIZE(meters); k++) {
			struct headroom h = headroom_of(
				"cisco", (struct headroom_link){.speed_bps = rows[i].gbit * GBIT,
						 .cable_mm = meters[k] * METER,
						 .mtu_bytes = 9216});

			assert_true(sum_of(&h) == rows[i].bytes[k]);
			assert_int_equal(h.bytes, (uint64_t)ceil(rows[i].bytes[k]));
		}
}

static void cisco_shorter_lossless_frames_need_less(void **state)
{
	const struct headroom_link link = {
		.speed_bps = 10 * GBIT, .cable_mm = METER, .mtu_bytes = 2300};
	struct headroom h = headroom_of("cisco", link);

	(void)state;
	assert_true(part_of(&h, "the last lossless frame") == 18560 / 8);
	assert_true(part_of(&h, "the longest frame, XOFF behind it") == 73888 / 8);
}

static void intel_published_frames_match(void **state)
{
	static const struct {
		uint32_t frame;
		double bits_82599;
		uint64_t kib_82599;
		double bits_x540;
		uint64_t kib_x540;
	} rows[] = {
		{1522, 122261, 15, 176820, 22},
		{9522, 342421, 42, 396980, 49},
		{9728, 348090, 43, 402649, 50},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct headroom_link link = {.speed_bps = 10 * GBIT,
			.cable_mm = 100 * METER,
			.mtu_bytes = rows[i].frame - 22};
		struct headroom h = headroom_of("intel-82599", link);

		assert_true(8 * sum_of(&h) == rows[i].bits_82599);
		assert_int_equal(h.bytes, rows[i].kib_82599 * 1024);
		h = headroom_of("intel-x540", link);
		assert_true(8 * sum_of(&h) == rows[i].bits_x540);
		assert_int_equal(h.bytes, rows[i].kib_x540 * 1024);
	}
}

static void intel_xon_mark_is_the_driver_s_low_mark(void **state)
{
	const struct headroom_link link = {.speed_bps = 10 * GBIT, .mtu_bytes = 1500};
	struct headroom h = headroom_of("intel-82599", link);
	uint64_t xoff, xon;

	(void)state;
	/* 2 * (2 * 8 * 1522 + 36 * 10000 / 25 + 1) = 77506 bits: 10 KiB */
	assert_int_equal(headroom_marks(&h, 65536, &xoff, &xon), 0);
	assert_int_equal(xoff, 65536 - 15 * 1024);
	assert_int_equal(xon, 10 * 1024);
}

static void models_without_figures_for_the_link_say_so(void **state)
{
	static const struct {
		const char *model;
		uint64_t speed_bps, meters;
		const char *says;
	} rows[] = {
		{"quench", 200000000, 1, "give the peer's own"},
		{"sonic", 200000000, 1, "speeds of 1, 10, 25"},
		{"cisco", 50 * GBIT, 1, "speeds of 10, 25, 40 and 100"},
		{"intel-82599", 25 * GBIT, 1, "10 Gbit/s"},
		{"intel-x540", 10 * GBIT, 101, "100 m"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct headroom_link link = {.speed_bps = rows[i].speed_bps,
			.cable_mm = rows[i].meters * METER,
			.mtu_bytes = 1500};
		struct qerr err = {};
		struct headroom h;

		assert_int_equal(
			headroom_compute(headroom_find(rows[i].model), &link, &h, &err), -EINVAL);
		assert_non_null(strstr(err.text, rows[i].says));
	}
	assert_null(headroom_find("broadcom"));
}

static void response_table_is_that_of_802_3(void **state)
{
	static const struct {
		uint64_t speed_bps;
		uint32_t quanta;
	} rows[] = {
		{1 * GBIT, 2},
		{10 * GBIT, 67},
		{25 * GBIT, 80},
		{40 * GBIT, 118},
		{50 * GBIT, 147},
		{100 * GBIT, 394},
		{200 * GBIT, 453},
		{400 * GBIT, 905},
		{800 * GBIT, 905},
		{200000000, 0},
		{UINT64_MAX, 0},
		{0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(headroom_response_quanta(rows[i].speed_bps), rows[i].quanta);
}

static void quench_sum_is_that_by_hand(void **state)
{
	const struct headroom_link link = {.speed_bps = 100 * GBIT,
		.cable_mm = 40 * METER,
		.mtu_bytes = 4200,
		.port_mtu_bytes = 9000,
		.reaction_ns = 20000};
	struct headroom h = headroom_of("quench", link);
	/* 40 m: 410.4 ns there and back */
	double around = (9022 + 24) + 250000 + 84 + 5130 + 25216;

	(void)state;
	assert_true(fabs(part_of(&h, "cable, there and back") - 5130) < 1e-6);
	assert_true(part_of(&h, "the peer's response") == 25216);
	assert_true(part_of(&h, "quench's reaction") == 250000);
	assert_int_equal(h.bytes, (uint64_t)around + 3 * 4222);
	assert_int_equal(h.xon_gap_bytes, 2 * 4222);
	assert_int_equal(h.buffer_bytes, h.bytes + 2 * 4222 + (uint64_t)around);
}

/* Cisco, Nexus 5000: fibre holds 641 bytes in 100 m at 10 Gbit/s. */
static void quench_cable_is_fibre(void **state)
{
	const struct headroom_link link = {
		.speed_bps = 10 * GBIT, .cable_mm = 100 * METER, .mtu_bytes = 1500};
	struct headroom h = headroom_of("quench", link);

	(void)state;
	assert_int_equal((uint64_t)(part_of(&h, "cable, there and back") / 2), 641);
}

static void quench_peer_of_its_own_response_is_counted_by_time(void **state)
{
	const struct headroom_link link = {.speed_bps = 200000000,
		.mtu_bytes = 1024,
		.reaction_ns = 1000000,
		.response_ns = 4000000};
	struct headroom h = headroom_of("quench", link);

	(void)state;
	assert_true(part_of(&h, "quench's reaction") == 25000);
	assert_true(part_of(&h, "the peer's response") == 100000);
	assert_true(part_of(&h, "cable, there and back") == 0);
}

static void quench_slower_reaction_needs_more(void **state)
{
	struct headroom_link link = {.speed_bps = 10 * GBIT, .mtu_bytes = 1500};
	uint64_t before = headroom_of("quench", link).bytes;

	(void)state;
	for (link.reaction_ns = 8; link.reaction_ns <= 8000000; link.reaction_ns *= 10) {
		uint64_t bytes = headroom_of("quench", link).bytes;

		assert_int_equal(
			bytes - headroom_of("quench", (struct headroom_link){.speed_bps = 10 * GBIT,
							      .mtu_bytes = 1500})
					.bytes,
			link.reaction_ns * 10 / 8);
		assert_true(bytes > before);
		before = bytes;
	}
}

static void quench_marks_leave_room_on_both_sides(void **state)
{
	const struct headroom_link link = {.speed_bps = 100 * GBIT,
		.cable_mm = 40 * METER,
		.mtu_bytes = 4200,
		.reaction_ns = 20000};
	struct headroom h = headroom_of("quench", link);
	uint64_t xoff, xon;

	(void)state;
	assert_int_equal(headroom_marks(&h, h.buffer_bytes, &xoff, &xon), 0);
	assert_int_equal(xoff + h.bytes, h.buffer_bytes);
	assert_int_equal(xoff - xon, 2 * 4222);
	assert_int_equal(headroom_marks(&h, h.buffer_min_bytes, &xoff, &xon), 0);
	assert_int_equal(xon, 4222);
	assert_int_equal(headroom_marks(&h, h.buffer_min_bytes - 1, &xoff, &xon), -ERANGE);
}

static void every_model_names_its_parts(void **state)
{
	const struct headroom_link link = {
		.speed_bps = 10 * GBIT, .cable_mm = 10 * METER, .mtu_bytes = 1500};

	(void)state;
	for (size_t i = 0; i < headroom_models_count; i++) {
		struct headroom h = headroom_of(headroom_models[i].name, link);

		assert_ptr_equal(headroom_find(headroom_models[i].name), &headroom_models[i]);
		assert_in_range(h.parts_count, 1, HEADROOM_PARTS_MAX);
		assert_true((double)h.bytes >= sum_of(&h));
		assert_true((double)h.bytes < sum_of(&h) + 1024);
		assert_true(h.buffer_bytes >= h.buffer_min_bytes && h.buffer_min_bytes >= h.bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mlx5_published_links_match),
		cmocka_unit_test(mlx5_marks_lie_as_in_the_driver),
		cmocka_unit_test(sonic_published_links_match),
		cmocka_unit_test(cisco_published_links_match),
		cmocka_unit_test(cisco_shorter_lossless_frames_need_less),
		cmocka_unit_test(intel_published_frames_match),
		cmocka_unit_test(intel_xon_mark_is_the_driver_s_low_mark),
		cmocka_unit_test(models_without_figures_for_the_link_say_so),
		cmocka_unit_test(response_table_is_that_of_802_3),
		cmocka_unit_test(quench_sum_is_that_by_hand),
		cmocka_unit_test(quench_cable_is_fibre),
		cmocka_unit_test(quench_peer_of_its_own_response_is_counted_by_time),
		cmocka_unit_test(quench_slower_reaction_needs_more),
		cmocka_unit_test(quench_marks_leave_room_on_both_sides),
		cmocka_unit_test(every_model_names_its_parts),
	};

	return cmocka_run_group_tests_name("headroom", tests, NULL, NULL);
}
