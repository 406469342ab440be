// SPDX-License-Identifier: BSD-2-Clause
// Ports by pattern, driver and MAC address: which interfaces they become.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "policy/ports.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const struct policy_device devices[] = {
	{"lo", "", {}, false},
	{"eth0", "mlx5_core", {2, 0, 0, 0, 0, 1}, true},
	{"eth1", "mlx5_core", {2, 0, 0, 0, 0, 2}, true},
	{"eth2", "bnxt_en", {2, 0, 0, 0, 0, 3}, true},
	{"eth10", "bnxt_en", {2, 0, 0, 0, 0, 4}, true},
	{"br0", "bridge", {2, 0, 0, 0, 0, 1}, false},
};

static struct policy policy;

static void refuse(void *arg, const struct policy_note *note)
{
	(void)arg;
	if (!note->warning)
		fail_msg("%s", note->text);
}

static int find(const char *ports, struct qerr *err)
{
	char text[1024];

	snprintf(text, sizeof(text), "version: 1\nports:\n%s", ports);
	assert_int_equal(policy_parse(text, strlen(text), "p.yaml", &policy, refuse, NULL), 0);
	return policy_find_ports(&policy, devices, ARRAY_SIZE(devices), err);
}

/* want: the names, in order, each with a space behind it. */
static void assert_found(const char *ports, const char *want)
{
	char got[256] = "";
	struct qerr err;

	if (find(ports, &err))
		fail_msg("%s: %s", ports, err.text);
	for (size_t i = 0; i < policy.ports_count; i++)
		strcat(strcat(got, policy.ports[i].name), " ");
	assert_string_equal(got, want);
}

static void ports_become_the_interfaces_that_they_mean(void **state)
{
	static const char *const cases[][2] = {
		{"- {name: eth*, role: monitor}\n", "eth0 eth1 eth2 eth10 "},
		{"- {name: eth?, role: monitor}\n", "eth0 eth1 eth2 "},
		{"- {name: \"eth[02]\", role: monitor}\n", "eth0 eth2 "},
		{"- {name: \"*\", role: monitor}\n", "eth0 eth1 eth2 eth10 "},
		{"- {name: \"*\", driver: bnxt_en, role: monitor}\n", "eth2 eth10 "},
		{"- {name: \"*\", mac: \"02:00:00:00:00:02\", role: monitor}\n", "eth1 "},
		{"- {name: \"*\", mac: \"02:00:00:00:00:01\", role: monitor}\n", "eth0 "},
		/* named in full comes first, wherever it stands */
		{"- {name: eth*, role: monitor}\n- {name: eth1, role: monitor}\n",
			"eth0 eth2 eth10 eth1 "},
		/* then the first pattern */
		{"- {name: \"*\", driver: bnxt_en, role: monitor}\n- {name: \"*\", role: "
		 "monitor}\n",
			"eth2 eth10 eth0 eth1 "},
		{"- {name: eth0, driver: mlx5_core, role: monitor}\n", "eth0 "},
		{"- {name: br0, role: monitor}\n", "br0 "},
		{"- {name: none0, driver: bnxt_en, role: monitor}\n", "none0 "},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_found(cases[i][0], cases[i][1]);
}

static void ports_keep_what_their_pattern_says(void **state)
{
	(void)state;
	assert_found("- {name: eth0, role: host, rate: 1Gbit}\n"
		     "- {name: \"*\", driver: bnxt_en, role: gateway, rate: 25Gbit, pfc: obey}\n",
		"eth0 eth2 eth10 ");
	assert_int_equal(policy.ports[0].role, PORT_HOST);
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(policy.ports[i].role, PORT_GATEWAY);
		assert_true(policy.ports[i].rate_bps == 25000000000);
		assert_int_equal(policy.ports[i].pfc, PFC_OBEY);
		assert_int_equal(policy.ports[i].line, 4);
	}
}

static void ports_that_mean_nothing_are_refused(void **state)
{
	static const struct {
		const char *ports, *says;
	} cases[] = {
		{"- {name: ib*, role: monitor}\n", "port ib*: no interface is meant by that"},
		{"- {name: br*, role: monitor}\n", "port br*: no interface"},
		{"- {name: eth*, driver: ice, role: monitor}\n", "with the driver ice"},
		{"- {name: eth0, driver: ice, role: monitor}\n",
			"port eth0: the interface of that name has another driver (mlx5_core)"},
		{"- {name: eth0, mac: \"02:00:00:00:00:02\", role: monitor}\n",
			"or another MAC address"},
		{"- {name: eth*, role: monitor}\n- {name: eth*, role: monitor}\n",
			"port eth*: no interface is meant"},
	};
	struct qerr err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(find(cases[i].ports, &err), -ENODEV);
		if (!strstr(err.text, cases[i].says))
			fail_msg("\"%s\" is not in: %s", cases[i].says, err.text);
	}
}

static void ports_have_a_most(void **state)
{
	static struct policy_device many[POLICY_PORTS_MAX + 1];
	struct qerr err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		snprintf(many[i].name, sizeof(many[i].name), "eth%zu", i + 20);
		many[i].lowest = true;
	}
	find("- {name: eth*, role: monitor}\n", &err);
	strcpy(policy.ports[0].name, "eth*");
	policy.ports_count = 1;
	assert_int_equal(policy_find_ports(&policy, many, ARRAY_SIZE(many) - 1, &err), 0);
	assert_int_equal(policy.ports_count, POLICY_PORTS_MAX);
	strcpy(policy.ports[0].name, "eth*");
	policy.ports_count = 1;
	assert_int_equal(policy_find_ports(&policy, many, ARRAY_SIZE(many), &err), -E2BIG);
}

static void ports_in_full_need_no_looking(void **state)
{
	(void)state;
	assert_found("- {name: eth0, role: monitor}\n", "eth0 ");
	assert_false(policy_port_is_open(&policy.ports[0]));
	assert_found("- {name: eth*, role: monitor}\n", "eth0 eth1 eth2 eth10 ");
	assert_false(policy_port_is_open(&policy.ports[0]));
	assert_found("- {name: eth0, driver: mlx5_core, role: monitor}\n", "eth0 ");
	assert_true(policy_port_is_open(&policy.ports[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports_become_the_interfaces_that_they_mean),
		cmocka_unit_test(ports_keep_what_their_pattern_says),
		cmocka_unit_test(ports_that_mean_nothing_are_refused),
		cmocka_unit_test(ports_have_a_most),
		cmocka_unit_test(ports_in_full_need_no_looking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
