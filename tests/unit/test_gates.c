// SPDX-License-Identifier: BSD-2-Clause
// The gates of the fast thread over a kernel of the test's own: nothing stays closed, dropped or
// paused once what it was for is over.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/gates.h"
#include "netlink/link.h"
#include "netlink/tc.h"

enum {
	IN_SLOT = 1,  /* whose peer is paused by us */
	OUT_SLOT = 2, /* whose peer pauses us */
	IN_IFINDEX = 11,
	OUT_IFINDEX = 12,
	PRIORITY = 3,
};
#define SECOND 1000000000ull

/* ---- the kernel ---- */

static struct {
	struct port_pauses pauses[SLOTS_MAX];
	struct gate_counters gates[SLOTS_MAX * CLASSES_MAX];
	struct agent_counters counters;
	bool closed;	 /* the gate of the only class at OUT_SLOT */
	int looks;	 /* at IN_SLOT's queues, for its XON */
	int blanks;	 /* frames that became what IN_SLOT has to say */
	bool stats_fail; /* nothing can be read */
	int apply_code;	 /* what a change comes to */
	uint32_t limit;	 /* of that gate */
} kernel;

int tc_apply(
	struct rtnl *nl, int ifindex, const struct tc_object *obj, enum tc_op op, struct qerr *err)
{
	(void)nl, (void)op, (void)err;
	if (ifindex == OUT_IFINDEX && obj->kind == TC_TBF && !kernel.apply_code) {
		kernel.closed = obj->tbf.closed;
		kernel.limit = obj->tbf.limit_bytes;
	}
	return kernel.apply_code;
}

int tc_stats(struct rtnl *nl, int ifindex, uint32_t handle, struct tc_qdisc_stats *stats,
	struct qerr *err)
{
	(void)nl, (void)ifindex, (void)handle, (void)err;
	*stats = (struct tc_qdisc_stats){.backlog_bytes = 1000, .qlen = 1};
	return kernel.stats_fail ? -ENOBUFS : 0;
}

int link_kick_open(struct qerr *err)
{
	(void)err;
	return dup(0);
}

int link_kick(int fd, int ifindex, uint32_t priority)
{
	(void)fd, (void)ifindex, (void)priority;
	return 0;
}

int link_blank_open(uint32_t mark, struct qerr *err)
{
	(void)mark, (void)err;
	return dup(0);
}

int link_blank(int fd, int ifindex)
{
	struct port_pauses *p = &kernel.pauses[ifindex == IN_IFINDEX ? IN_SLOT : OUT_SLOT];

	(void)fd;
	p->told = p->xoff;
	kernel.blanks += ifindex == IN_IFINDEX;
	return 0;
}

struct port_pauses *dataplane_pauses(const struct dataplane *dp)
{
	(void)dp;
	return kernel.pauses;
}

struct gate_counters *dataplane_gates(const struct dataplane *dp)
{
	(void)dp;
	return kernel.gates;
}

struct agent_counters *dataplane_counters(const struct dataplane *dp)
{
	(void)dp;
	return &kernel.counters;
}

int dataplane_get_stats(const struct dataplane *dp, uint32_t slot, struct port_stats *stats)
{
	(void)dp, (void)slot;
	memset(stats, 0, sizeof(*stats));
	return 0;
}

void dataplane_pause_look(const struct dataplane *dp, uint32_t slot)
{
	(void)dp;
	kernel.looks += slot == IN_SLOT;
}

/* ---- the agent ---- */

static struct policy policy;
static struct fast_port ports[2];
static struct gates *gates;

static void ignore(void *arg, const char *fmt, ...)
{
	(void)arg, (void)fmt;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

static struct fast_port port_at(uint32_t slot, int ifindex)
{
	return (struct fast_port){.ifindex = ifindex,
		.slot = slot,
		.spec = {.slots = 3, .classes_count = 1, .mtu_bytes = 1500},
		.obeyed = 1 << PRIORITY,
		.byte_ps = 8000,
		.pause_ns = SECOND};
}

static int start(void)
{
	const struct fast_calls calls = {.note = ignore};

	return gates_open(&gates, &policy, NULL, NULL, ports, 2, &calls, NULL);
}

static int open_all(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	memset(&policy, 0, sizeof(policy));
	policy.ports_count = 2;
	policy.classes_count = 1;
	policy.classes[0].priority = PRIORITY;
	policy.pfc.budget_per_s = 1000;
	policy.pfc.watchdog = (struct policy_watchdog){
		.detect_ns = SECOND / 5, .restore_ns = SECOND / 5, .action = WATCHDOG_DROP};
	ports[0] = port_at(IN_SLOT, IN_IFINDEX);
	ports[1] = port_at(OUT_SLOT, OUT_IFINDEX);
	return start();
}

static int close_all(void **state)
{
	(void)state;
	gates_close(gates);
	gates = NULL;
	return 0;
}

/* The peer's word, for so long, as the program writes it down. */
static void say_pause(uint64_t time_ns)
{
	struct port_pauses *p = &kernel.pauses[OUT_SLOT];

	p->xoffs[PRIORITY] += time_ns != 0;
	p->until_ns[PRIORITY] = now_ns() + time_ns;
}

static void hear_pause(uint64_t time_ns)
{
	say_pause(time_ns);
	kernel.pauses[OUT_SLOT].arrived = 1;
	gates_news(gates, OUT_SLOT, now_ns());
}

/* A storm, as the watchdog finds it when time has passed. */
static void make_storm(void)
{
	hear_pause(60 * SECOND);
	gates_run(gates, now_ns() + SECOND);
	gates_run(gates, now_ns() + 2 * SECOND);
	assert_int_equal(kernel.pauses[OUT_SLOT].dropped, 1);
}

static void gates_renewed_after_an_unheard_xon_are_open(void **state)
{
	(void)state;
	hear_pause(60 * SECOND);
	assert_true(kernel.closed);
	say_pause(0);
	gates_renew(gates, OUT_SLOT, OUT_IFINDEX, 1500);
	assert_false(kernel.closed);
}

static void gates_renewed_while_the_pause_lasts_are_closed(void **state)
{
	(void)state;
	hear_pause(60 * SECOND);
	gates_renew(gates, OUT_SLOT, OUT_IFINDEX, 1500);
	assert_true(kernel.closed);
}

/* No timer looks at queues behind a closed gate. */
static void gates_renewed_have_the_queues_looked_at_for_xon(void **state)
{
	(void)state;
	hear_pause(60 * SECOND);
	kernel.pauses[IN_SLOT].xoff = 1;
	kernel.looks = 0;
	say_pause(0);
	gates_renew(gates, OUT_SLOT, 0, 1500);
	assert_true(kernel.looks > 0);
}

static void gates_taken_over_have_the_queues_looked_at_for_xon(void **state)
{
	(void)state;
	gates_close(gates);
	kernel.pauses[IN_SLOT].xoff = 1;
	kernel.pauses[OUT_SLOT].closed = 1;
	kernel.looks = 0;
	assert_int_equal(start(), 0);
	assert_true(kernel.looks > 0);
}

static void news_lost_to_a_full_ring_are_found_by_looking(void **state)
{
	(void)state;
	say_pause(60 * SECOND);
	kernel.pauses[IN_SLOT].told = 1; /* and is to go on */
	gates_look_over(gates, now_ns());
	assert_true(kernel.closed);
	assert_int_equal(kernel.pauses[IN_SLOT].told, 0);
	assert_int_equal(kernel.blanks, 1);
}

static void gate_that_does_not_open_is_tried_again_unless_it_is_gone(void **state)
{
	(void)state;
	hear_pause(60 * SECOND);
	kernel.apply_code = -ENOBUFS;
	hear_pause(0);
	assert_true(gates_due_ns(gates) < now_ns() + SECOND / 100);
	kernel.apply_code = -ENOENT;
	gates_run(gates, now_ns() + SECOND);
	gates_run(gates, now_ns() + 2 * SECOND);
	assert_int_equal(kernel.counters.netlink_errors, 2);
	assert_int_equal(kernel.pauses[OUT_SLOT].closed, 0);
}

static void gate_has_the_limit_of_the_changed_policy_and_stays_closed(void **state)
{
	(void)state;
	hear_pause(60 * SECOND);
	ports[1].spec.classes[0].limit_bytes = 4096;
	gates_follow(gates, &policy, ports, 2);
	assert_int_equal(kernel.limit, 4096);
	assert_true(kernel.closed);
}

static void storm_of_a_class_that_no_longer_obeys_is_over(void **state)
{
	(void)state;
	make_storm();
	ports[1].obeyed = 0;
	gates_follow(gates, &policy, ports, 2);
	assert_int_equal(kernel.pauses[OUT_SLOT].dropped, 0);
	assert_int_equal(kernel.pauses[OUT_SLOT].stormed, 0);
	assert_false(kernel.closed);
}

static void storm_is_met_as_the_changed_policy_has_it(void **state)
{
	(void)state;
	make_storm();
	policy.pfc.watchdog.action = WATCHDOG_FORWARD;
	gates_follow(gates, &policy, ports, 2);
	assert_int_equal(kernel.pauses[OUT_SLOT].dropped, 0);
	assert_int_equal(kernel.pauses[OUT_SLOT].stormed, 1);
	assert_false(kernel.closed);
	policy.pfc.watchdog.action = WATCHDOG_ALERT;
	gates_follow(gates, &policy, ports, 2);
	assert_int_equal(kernel.pauses[OUT_SLOT].stormed, 0);
	assert_true(kernel.closed);
}

static void storm_that_the_guardian_ended_is_met_again_at_the_next_look(void **state)
{
	(void)state;
	make_storm();
	kernel.pauses[OUT_SLOT].dropped = kernel.pauses[OUT_SLOT].stormed = 0;
	gates_run(gates, now_ns() + 3 * SECOND);
	assert_int_equal(kernel.pauses[OUT_SLOT].dropped, 1);
	assert_int_equal(kernel.pauses[OUT_SLOT].stormed, 1);
}

static void storm_outlasts_a_look_that_failed(void **state)
{
	(void)state;
	make_storm();
	say_pause(0);
	kernel.stats_fail = true;
	gates_run(gates, now_ns() + 3 * SECOND);
	kernel.stats_fail = false;
	gates_run(gates, now_ns() + 4 * SECOND);
	gates_run(gates, now_ns() + 5 * SECOND);
	assert_int_equal(kernel.pauses[OUT_SLOT].dropped, 0);
	assert_int_equal(kernel.gates[gate_index(OUT_SLOT, 0)].restores, 1);
}

#define gates_test(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		gates_test(gates_renewed_after_an_unheard_xon_are_open),
		gates_test(gates_renewed_while_the_pause_lasts_are_closed),
		gates_test(gates_renewed_have_the_queues_looked_at_for_xon),
		gates_test(gates_taken_over_have_the_queues_looked_at_for_xon),
		gates_test(news_lost_to_a_full_ring_are_found_by_looking),
		gates_test(gate_that_does_not_open_is_tried_again_unless_it_is_gone),
		gates_test(gate_has_the_limit_of_the_changed_policy_and_stays_closed),
		gates_test(storm_of_a_class_that_no_longer_obeys_is_over),
		gates_test(storm_is_met_as_the_changed_policy_has_it),
		gates_test(storm_that_the_guardian_ended_is_met_again_at_the_next_look),
		gates_test(storm_outlasts_a_look_that_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
