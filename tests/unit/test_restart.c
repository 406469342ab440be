// SPDX-License-Identifier: BSD-2-Clause
// Which changes of a policy a live agent follows, and which it names instead.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/restart.h"

#define HEAD  "version: 1\n"
#define PORTS "ports: [{name: a, role: gateway, rate: 1Gbit}, {name: b, role: host, rate: 1Gbit}]\n"
#define ROCE  "{name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MB}"

static struct policy before, after;

static void print(void *arg, const struct policy_note *note)
{
	(void)arg;
	if (!note->warning)
		print_error("%s\n", note->text);
}

static void read(const char *text, struct policy *policy)
{
	assert_int_equal(policy_parse(text, strlen(text), "test", policy, print, NULL), 0);
}

static void expect_followed(const char *text)
{
	char buf[128];
	const char *what;

	read(HEAD PORTS "classes: [" ROCE "]\n", &before);
	read(text, &after);
	what = policy_needs_restart(&before, &after, buf, sizeof(buf));
	if (what)
		fail_msg("%s needs a restart: %s", text, what);
}

static void expect_restart(const char *text, const char *what)
{
	char buf[128];

	read(HEAD PORTS "classes: [" ROCE "]\n", &before);
	read(text, &after);
	assert_string_equal(policy_needs_restart(&before, &after, buf, sizeof(buf)), what);
}

static void restart_values_in_place_are_followed(void **state)
{
	(void)state;
	expect_followed(HEAD PORTS "classes: [" ROCE "]\n");
	expect_followed(HEAD PORTS "classes: [{name: other, priority: 4, dscp: [1, 2], "
				   "kind: lossless, limit: 2MB, pfc: {}}]\n");
	expect_followed(HEAD "ports: [{name: a, role: gateway, rate: 2Gbit, trust: dscp, "
			     "notify: true}, {name: b, role: host, rate: 1Gbit, pfc: off}]\n"
			     "classes: [" ROCE "]\n");
	expect_followed(HEAD PORTS "classes: [" ROCE "]\ndcqcn: {min_rate: 3Mbit, tick: 2ms}\n"
				   "pfc: {reaction: 1ms}\nrepair: false\ncnp: {interval: 1ms}\n");
}

static void restart_what_shapes_queues_and_maps_is_named(void **state)
{
	(void)state;
	expect_restart(HEAD "ports: [{name: a, role: gateway, rate: 1Gbit}]\nclasses: [" ROCE "]\n",
		"the number of ports");
	expect_restart(HEAD PORTS, "the number of classes");
	expect_restart(
		HEAD PORTS "classes: [" ROCE "]\ndcqcn: {qp_classes: 5}\n", "dcqcn.qp_classes");
	expect_restart(HEAD PORTS "classes: [" ROCE "]\nflows_max: 2048\n", "flows_max");
	expect_restart(HEAD PORTS "classes: [" ROCE "]\nobserve: {listen: \"127.0.0.1:1\"}\n",
		"observe.listen");
	expect_restart(HEAD PORTS "classes: [" ROCE "]\nrealtime: {poll: true}\n", "realtime");
	expect_restart(HEAD "ports: [{name: a, role: host, rate: 1Gbit}, "
			    "{name: b, role: host, rate: 1Gbit}]\nclasses: [" ROCE "]\n",
		"the role of port a");
	expect_restart(HEAD "ports: [{name: b, role: gateway, rate: 1Gbit}, "
			    "{name: a, role: host, rate: 1Gbit}]\nclasses: [" ROCE "]\n",
		"the place in the list of port b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(restart_values_in_place_are_followed),
		cmocka_unit_test(restart_what_shapes_queues_and_maps_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
