// SPDX-License-Identifier: BSD-2-Clause
// XOFF and XON marks, and pause times, from the policy to what the kernel side is told.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "policy/compile.h"
#include "policy/marks.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define GBIT	      1000000000ull
#define MTU	      4200

/* Three gateway ports, one lossless class that pauses; reaction 20 us. */
static struct policy policy_of(uint32_t limit_bytes)
{
	struct policy policy = {
		.ports_count = 3,
		.classes_count = 1,
		.classes = {{.name = "roce",
			.priority = 3,
			.kind = CLASS_LOSSLESS,
			.limit_bytes = limit_bytes,
			.pfc = {.present = true}}},
		.pfc = {.reaction_ns = 20000, .cable_m = 40},
	};

	return policy;
}

static struct class_conf marks_of(const struct policy *policy)
{
	struct conf conf = {};
	struct qerr err = {};

	if (compile_marks(policy, 100 * GBIT, MTU, &conf, &err))
		fail_msg("%s", err.text);
	return conf.classes[0];
}

static void assert_refused(const struct policy *policy, const char *says)
{
	struct conf conf = {};
	struct qerr err = {};

	assert_int_equal(compile_marks(policy, 100 * GBIT, MTU, &conf, &err), -ERANGE);
	if (!strstr(err.text, says))
		fail_msg("\"%s\" is not in: %s", says, err.text);
}

static struct headroom headroom_here(void)
{
	const struct headroom_link link = {
		.speed_bps = 100 * GBIT, .cable_mm = 40000, .mtu_bytes = MTU, .reaction_ns = 20000};
	struct headroom h;

	assert_int_equal(headroom_compute(headroom_find("quench"), &link, &h, NULL), 0);
	return h;
}

static void marks_computed_leave_the_headroom_of_every_filler(void **state)
{
	struct policy policy = policy_of(2000000);
	struct class_conf conf = marks_of(&policy);
	struct headroom h = headroom_here();

	(void)state;
	assert_int_equal(2 * (conf.xoff_bytes + h.bytes), 2000000);
	assert_int_equal(conf.xon_bytes, conf.xoff_bytes - 2 * (MTU + 22));
}

static void marks_given_are_kept(void **state)
{
	struct policy policy = policy_of(2000000);
	struct class_conf conf;

	(void)state;
	policy.classes[0].pfc.xoff_bytes = 100000;
	policy.classes[0].pfc.xon_bytes = 70000;
	conf = marks_of(&policy);
	assert_int_equal(conf.xoff_bytes, 100000);
	assert_int_equal(conf.xon_bytes, 70000);
}

static void marks_half_given_are_completed(void **state)
{
	struct policy policy = policy_of(2000000);
	uint32_t xoff_bytes = marks_of(&policy).xoff_bytes;

	(void)state;
	policy.classes[0].pfc.xon_bytes = 70000;
	assert_int_equal(marks_of(&policy).xoff_bytes, xoff_bytes);
	assert_int_equal(marks_of(&policy).xon_bytes, 70000);
	policy.classes[0].pfc = (struct policy_marks){.present = true, .xoff_bytes = 100000};
	assert_int_equal(marks_of(&policy).xon_bytes, 100000 - 2 * (MTU + 22));
	policy.classes[0].pfc.xoff_bytes = 9000;
	assert_int_equal(marks_of(&policy).xon_bytes, 4500);
}

static void marks_that_the_machine_s_links_do_not_allow_are_refused(void **state)
{
	struct headroom h = headroom_here();
	struct policy policy = policy_of(2 * h.buffer_min_bytes);

	(void)state;
	assert_int_equal(marks_of(&policy).xon_bytes, MTU + 22);
	policy.classes[0].limit_bytes--;
	assert_refused(&policy, "class roce: limit: ");
	policy = policy_of(2 * (100000 + h.bytes));
	policy.classes[0].pfc.xoff_bytes = 100000;
	assert_int_equal(marks_of(&policy).xoff_bytes, 100000);
	policy.classes[0].limit_bytes--;
	assert_refused(&policy, "class roce: limit: ");
}

static void marks_computed_below_kmax_are_refused(void **state)
{
	struct policy policy = policy_of(2000000);
	uint32_t xoff_bytes = marks_of(&policy).xoff_bytes;

	(void)state;
	policy.classes[0].ecn = (struct policy_ecn){true, 1000, xoff_bytes - 1, 0.1};
	marks_of(&policy);
	policy.classes[0].ecn.kmax_bytes = xoff_bytes;
	assert_refused(&policy, "class roce: ecn.kmax: ");
}

static void monitor_ports_fill_nothing(void **state)
{
	struct policy policy = policy_of(2000000);
	uint32_t xoff_bytes = marks_of(&policy).xoff_bytes;

	(void)state;
	policy.ports_count = 5;
	policy.ports[3].role = policy.ports[4].role = PORT_MONITOR;
	assert_int_equal(marks_of(&policy).xoff_bytes, xoff_bytes);
	policy.ports[3].role = PORT_GATEWAY;
	assert_true(marks_of(&policy).xoff_bytes < xoff_bytes);
}

static void peer_s_response_is_802_3_s_else_policy_s_else_the_reaction(void **state)
{
	static const struct {
		uint64_t speed_bps, response_ns, bytes;
	} rows[] = {
		{100 * GBIT, 0, 25216}, {100 * GBIT, 1000000, 12500000},
		{200000000, 1000000, 25000}, {200000000, 0, 500}, /* 20 us */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy policy = policy_of(1 << 30);
		struct marks marks;
		double bytes = -1;

		policy.pfc.response_ns = rows[i].response_ns;
		marks_compute(&marks, &policy, &policy.classes[0], rows[i].speed_bps, MTU);
		for (size_t k = 0; k < marks.headroom.parts_count; k++)
			if (!strcmp(marks.headroom.parts[k].what, "the peer's response"))
				bytes = marks.headroom.parts[k].bytes;
		assert_true(bytes == (double)rows[i].bytes);
	}
}

static void class_that_pauses_nobody_has_no_marks(void **state)
{
	struct policy policy = policy_of(2000);

	(void)state;
	policy.classes[0].pfc.present = false;
	assert_int_equal(marks_of(&policy).xoff_bytes, 0);
	policy.classes[0].pfc.present = true;
	policy.classes[0].kind = CLASS_SEMI_LOSSLESS;
	assert_int_equal(marks_of(&policy).xoff_bytes, 0);
	assert_false(compile_pauses(&policy));
}

/* A quantum is 512 bit times; a pause has 65,535 at most. */
static void pause_times_follow_the_link_s_speed(void **state)
{
	static const struct {
		uint64_t speed_bps, pause_ns;
		uint32_t quantum_ps, quanta;
	} rows[] = {
		{1 * GBIT, 33553920, 512000, 65535}, {10 * GBIT, 3355392, 51200, 65535},
		{25 * GBIT, 1342157, 20480, 65535}, {40 * GBIT, 838848, 12800, 65535},
		{100 * GBIT, 335539, 5120, 65534}, {400 * GBIT, 83885, 1280, 65535},
		{800 * GBIT, 41942, 640, 65534}, {800 * GBIT, 1000000000, 640, 65535},
		{1 * GBIT, 10000, 512000, 19},
		{1000000, 10000, 512000000, 1}, /* never 0: that would be XON */
		{100 * GBIT, 0, 5120, 65535},	/* auto: as long as it can be */
		{200000000, 0, 2560000, 7812},	/* but 20 ms at the most */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy policy = policy_of(1000000);
		struct port_conf conf = {};

		policy.pfc.pause_ns = rows[i].pause_ns;
		compile_port_pfc(&policy, &policy.ports[0], rows[i].speed_bps, &conf);
		assert_int_equal(conf.quantum_ps, rows[i].quantum_ps);
		assert_int_equal(conf.pause_quanta, rows[i].quanta);
	}
}

/* Each direction apart, and never a priority that policy does not name. */
static void directions_follow_kind_and_port(void **state)
{
	static const struct {
		enum class_kind kind;
		bool marks;
		enum port_pfc pfc;
		uint8_t obeyed, pausing;
	} rows[] = {
		{CLASS_LOSSLESS, true, PFC_BOTH, 1 << 3, 1 << 0},
		{CLASS_LOSSLESS, true, PFC_SEND, 0, 1 << 0},
		{CLASS_LOSSLESS, true, PFC_OBEY, 1 << 3, 0},
		{CLASS_LOSSLESS, true, PFC_OFF, 0, 0},
		{CLASS_LOSSLESS, false, PFC_BOTH, 1 << 3, 0},
		{CLASS_SEMI_LOSSLESS, false, PFC_BOTH, 1 << 3, 0},
		{CLASS_LOSSY, false, PFC_BOTH, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy policy = policy_of(1000000);
		struct port_conf conf = {};

		policy.classes[0].kind = rows[i].kind;
		policy.classes[0].pfc.present = rows[i].marks;
		policy.ports[0].pfc = rows[i].pfc;
		compile_port_pfc(&policy, &policy.ports[0], GBIT, &conf);
		assert_int_equal(conf.obeyed, rows[i].obeyed);
		assert_int_equal(conf.pausing, rows[i].pausing);
		memset(&conf, 0, sizeof(conf));
		policy.ports[0].role = PORT_MONITOR;
		compile_port_pfc(&policy, &policy.ports[0], GBIT, &conf);
		assert_int_equal(conf.obeyed | conf.pausing, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks_computed_leave_the_headroom_of_every_filler),
		cmocka_unit_test(marks_given_are_kept),
		cmocka_unit_test(marks_half_given_are_completed),
		cmocka_unit_test(marks_that_the_machine_s_links_do_not_allow_are_refused),
		cmocka_unit_test(marks_computed_below_kmax_are_refused),
		cmocka_unit_test(monitor_ports_fill_nothing),
		cmocka_unit_test(peer_s_response_is_802_3_s_else_policy_s_else_the_reaction),
		cmocka_unit_test(class_that_pauses_nobody_has_no_marks),
		cmocka_unit_test(pause_times_follow_the_link_s_speed),
		cmocka_unit_test(directions_follow_kind_and_port),
	};

	return cmocka_run_group_tests_name("marks", tests, NULL, NULL);
}
