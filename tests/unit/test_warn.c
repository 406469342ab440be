// SPDX-License-Identifier: BSD-2-Clause
// Warnings about policies that are valid: each where it should be, and none where it should not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "policy/policy.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define HOST	"version: 1\nports: [{name: eth0, role: host, rate: 200Mbit}]\n"
#define GATEWAY "version: 1\nports: [{name: eth0, role: gateway, rate: 200Mbit}]\n"
#define SLOW	"version: 1\nports: [{name: eth0, role: host, rate: 20Mbit}]\n"
#define CLASS	"classes: [{name: a, priority: 3, dscp: [26], kind: lossless, limit: 768KiB, "
#define ECN	"ecn: {kmin: 30KB, kmax: 300KB, pmax: 50%}"
#define MARKS	CLASS ECN "}]\n"
#define PAUSES	CLASS "pfc: {}}]\n"
#define TIMER	"dcqcn: {increase_timer: 2ms, qp_classes: 8}\n"

#define UNMARKED                                                                                   \
	"0 is what all unmarked traffic has: a pause would stop that too; let RDMA mark its "

static struct policy policy;

static void collect(void *arg, const struct policy_note *note)
{
	char *got = arg;
	size_t used = strlen(got);

	if (!note->warning)
		fail_msg("a fault: %s", note->text);
	snprintf(got + used, 2048 - used, "%s%zu:%zu: %s: %s", used ? "\n" : "", note->line,
		note->column, note->field, note->what);
}

/* want has every warning on a line of its own. */
static void assert_warnings(const char *text, const char *want)
{
	char got[2048] = "";

	assert_int_equal(policy_parse(text, strlen(text), "p", &policy, collect, got), 0);
	if (strcmp(got, want))
		fail_msg("%s\ngot:  %s\nwant: %s\n", text, got, want);
}

static void policy_that_fits_its_link_has_no_warning(void **state)
{
	static const char *const good[] = {
		HOST MARKS "dcqcn: {increase_timer: 2ms}\n",
		HOST MARKS "dcqcn: {increase_timer: 1200us}\n", /* just as long as the queue */
		HOST MARKS "dcqcn: {variant: fixed}\n",
		HOST "dcqcn: {qp_classes: 100, min_rate: 2Mbit}\n", /* all of the port, not more */
		GATEWAY MARKS,
		GATEWAY PAUSES,
		HOST PAUSES "dcqcn: {increase_timer: 2ms}\n",
		"version: 1\nports: [{name: eth0, role: monitor}]\n" CLASS "}]\n",
		GATEWAY PAUSES "pfc: {pause: 1ms, reaction: 500us}\n",
		GATEWAY "cnp: {generate: off, priority: 0, dscp: 0}\n",
		GATEWAY "classes: [{name: a, priority: 3, dscp: [0], kind: lossy, limit: 1MB}]\n",
		"version: 1\nports:\n- {name: a, role: gateway, rate: 1Gbit, pfc: off}\n"
		"- {name: b, role: gateway, rate: 1Gbit, pfc: send}\n" PAUSES,
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_warnings(good[i], "");
}

static void policy_that_hurts_is_warned_of(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{GATEWAY CLASS "}]\n",
			"3:52: classes[0].kind: lossless by name only: without pfc and without ecn "
			"nobody is slowed down before the limit drops; add `pfc: {}` or ecn"},
		{GATEWAY "classes: [{name: a, priority: 3, dscp: [1, 0], pcp: [0], kind: lossless, "
			 "limit: 768KiB, pfc: {}}]\n",
			"3:40: classes[0].dscp: " UNMARKED "packets\n"
			"3:53: classes[0].pcp: " UNMARKED "frames"},
		{GATEWAY "classes: [{name: a, priority: 3, pcp: [0], kind: semi-lossless, "
			 "limit: 1MB}]\n",
			"3:39: classes[0].pcp: " UNMARKED "frames"},
		{SLOW MARKS TIMER,
			"4:25: dcqcn.increase_timer: 2ms is less than a queue of kmin, 30KB, takes "
			"at 20Mbit, 12.0 ms: rates would rise on old news; policies/lab.yaml tells "
			"how timers and thresholds follow the link\n"
			"3:101: classes[0].ecn.kmax: a queue of 300KB takes 120.0 ms at 20Mbit, "
			"and "
			"after 67 ms most QPs send again; lower it, policies/lab.yaml tells how "
			"thresholds follow the link"},
		{HOST MARKS, "1:1: dcqcn.increase_timer: 55us is less than a queue of kmin, 30KB, "
			     "takes at 200Mbit, 1.2 ms: rates would rise on old news; "
			     "policies/lab.yaml tells how timers and thresholds follow the link"},
		{SLOW, "2:40: ports[0].rate: 64 QPs (dcqcn.qp_classes) at their slowest "
		       "(dcqcn.min_rate, 2Mbit) are 128Mbit, more than 20Mbit: a congested port "
		       "could not be relieved; lower one of them"},
		{"version: 1\nports:\n- {name: a, role: gateway, rate: 1Gbit, pfc: off}\n"
		 "- {name: b, role: gateway, rate: 1Gbit, pfc: obey}\n" PAUSES,
			"5:82: classes[0].pfc: no port sends pauses: each has `pfc: obey` or `pfc: "
			"off`"},
		{"version: 1\nports:\n- {name: a, role: monitor, rate: 1Gbit, notify: true}\n"
		 "- {name: b, role: host, rate: 1Gbit, notify: true}\n",
			"3:34: ports[0].rate: does nothing in role monitor; leave it out\n"
			"3:49: ports[0].notify: does nothing in role monitor; leave it out\n"
			"4:46: ports[1].notify: does nothing in role host; leave it out"},
		{GATEWAY "cnp: {priority: 0, dscp: 0}\n",
			"3:17: cnp.priority: CNPs of priority 0 are best effort to everybody on "
			"their way, and late when it is congested; 6 and 7 are usual\n"
			"3:26: cnp.dscp: CNPs of DSCP 0 are best effort to everybody on their way, "
			"and late when it is congested; 48 is usual"},
		{GATEWAY PAUSES "pfc: {pause: 999us, multicast: true, watchdog: {detect: off}}\n",
			"4:57: pfc.watchdog.detect: without it a peer that pauses for ever stops "
			"its class for ever, here and step by step in the whole fabric\n"
			"4:14: pfc.pause: 999us is less than twice the reaction, 500us: a pause "
			"would end before it is renewed\n"
			"4:32: pfc.multicast: a broadcast waits for the slowest of its receivers, "
			"and with it everything in its class"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_warnings(cases[i].text, cases[i].want);
}

static void count(void *arg, const struct policy_note *note)
{
	size_t *counts = arg;

	counts[note->warning]++;
}

static void policy_with_a_fault_has_no_warnings(void **state)
{
	static const char text[] = SLOW "flows_max: 1\n";
	size_t counts[2] = {};

	(void)state;
	assert_int_not_equal(policy_parse(text, strlen(text), "p", &policy, count, counts), 0);
	assert_int_equal(counts[0], 1);
	assert_int_equal(counts[1], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policy_that_fits_its_link_has_no_warning),
		cmocka_unit_test(policy_that_hurts_is_warned_of),
		cmocka_unit_test(policy_with_a_fault_has_no_warnings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
