// SPDX-License-Identifier: BSD-2-Clause
// What a plan says of ports that are untouched, as they should be, nearly so, or somebody else's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "policy/compile.h"
#include "quench/abi.h"
#include "reconcile/desired.h"
#include "reconcile/plan.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum { TICK_NS = 64, OURS = 7 };

static const char text[] =
	"version: 1\n"
	"ports:\n"
	"- {name: eth0, role: host, rate: 1Gbit}\n"
	"- {name: eth1, role: gateway, rate: 1Gbit}\n"
	"- {name: eth2, role: monitor}\n"
	"classes:\n"
	"- {name: a, priority: 3, dscp: [26], kind: lossless, limit: 1MiB, pfc: {}}\n"
	"- {name: b, priority: 2, dscp: [10], kind: lossy, limit: 1MiB}\n"
	"dcqcn: {qp_classes: 4}\n";

enum { HOST, GATEWAY, MONITOR };

static struct policy policy;

static void refuse(void *arg, const struct policy_note *note)
{
	(void)arg;
	if (!note->warning)
		fail_msg("%s", note->text);
}

static int setup(void **state)
{
	(void)state;
	return policy_parse(text, strlen(text), "p.yaml", &policy, refuse, NULL);
}

/* A port that nobody touched. */
static struct plan_facts untouched(void)
{
	static struct tc_object noqueue = {
		.kind = TC_OTHER, .parent = TC_H_ROOT, .other = {"noqueue"}};

	return (struct plan_facts){.link = {.name = "eth9", .mtu_bytes = 1500, .kind = "veth"},
		.tick_ns = TICK_NS,
		.have = &noqueue,
		.have_count = 1};
}

static struct hook_program program(uint32_t id)
{
	return (struct hook_program){.id = id, .name = "some", .ours = id == OURS};
}

/* As the kernel keeps the name. */
static void attach(struct hook_chain *chain, const char *name)
{
	struct hook_program *ours = &chain->programs[chain->count++];

	*ours = program(OURS);
	snprintf(ours->name, sizeof(ours->name), "%.15s", name);
}

/* A port that is as policy says; have is the caller's to free(). */
static struct plan_facts as_it_should_be(size_t port)
{
	struct plan_facts facts = untouched();
	struct tree_spec spec;
	struct qerr err;

	desired_spec(&spec, &policy, &policy.ports[port], facts.link.mtu_bytes);
	if (tree_build(&spec, &facts.have, &facts.have_count, &err))
		fail_msg("%s", err.text);
	facts.filter = true;
	facts.hooks.xdp = program(OURS);
	attach(&facts.hooks.egress, port == HOST ? "quench_tc_egress" : "quench_tc_ahead");
	if (port == HOST)
		attach(&facts.hooks.ingress, "quench_tc_ingress");
	return facts;
}

static struct tc_object *find(struct plan_facts *facts, bool is_class, uint32_t handle)
{
	for (size_t i = 0; i < facts->have_count; i++)
		if (tc_is_class(&facts->have[i]) == is_class && facts->have[i].handle == handle)
			return &facts->have[i];
	fail_msg("no object %x", handle);
	return NULL;
}

static struct plan plan_of(size_t port, const struct plan_facts *facts)
{
	struct plan plan = {};

	plan_port(&plan, &policy, &policy.ports[port], facts);
	assert_int_equal(plan.code, 0);
	return plan;
}

static void assert_step(const struct plan_step *step, enum plan_action action, const char *kind,
	const char *name, const char *from, const char *to)
{
	assert_int_equal(step->action, action);
	assert_string_equal(step->kind, kind);
	assert_string_equal(step->name, name);
	assert_string_equal(step->from, from);
	assert_string_equal(step->to, to);
}

static void plan_of_an_untouched_port_creates_all_of_it(void **state)
{
	struct plan_facts facts = untouched(), done = as_it_should_be(HOST);
	struct plan plan = plan_of(HOST, &facts);
	size_t programs = 3, filter = 1;

	(void)state;
	assert_int_equal(plan_count(&plan, PLAN_CREATE), programs + done.have_count + filter);
	assert_int_equal(plan_count(&plan, PLAN_DELETE), 1);
	assert_int_equal(plan_count(&plan, PLAN_CHANGE) + plan_count(&plan, PLAN_BLOCKED), 0);
	assert_step(&plan.steps[0], PLAN_CREATE, "xdp", "xdp", "", "quench_xdp, native");
	assert_step(&plan.steps[1], PLAN_CREATE, "tcx", "tcx ingress", "", "quench_tc_ingress");
	assert_step(&plan.steps[2], PLAN_CREATE, "tcx", "tcx egress", "", "quench_tc_egress");
	assert_step(&plan.steps[3], PLAN_DELETE, "qdisc", "noqueue qdisc",
		"the kernel's own, back when ours goes", "");
	assert_step(&plan.steps[4], PLAN_CREATE, "qdisc", "htb qdisc 9000:", "", "default 30");
	assert_string_equal(plan.steps[4].place, "root");
	assert_step(&plan.steps[plan.steps_count - 1], PLAN_CREATE, "filter",
		"bpf filter quench_root", "", "preference 1");
	assert_int_equal(plan.warnings_count, 0);
	plan_free(&plan);
	free(done.have);
}

static void plan_of_a_port_as_it_should_be_is_empty(void **state)
{
	static const size_t ports[] = {HOST, GATEWAY};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
		struct plan_facts facts = as_it_should_be(ports[i]);
		struct plan plan = plan_of(ports[i], &facts);

		assert_int_equal(plan.steps_count, 0);
		assert_int_equal(plan.warnings_count, 0);
		free(facts.have);
	}
}

/* A slowed QP and a closed gate are what the agent is there for. */
static void plan_leaves_alone_what_the_agent_sets(void **state)
{
	struct plan_facts facts = as_it_should_be(HOST);
	struct tc_object *qp = find(&facts, true, TREE_CLASS(TREE_INNER, MINOR_QP + 2));
	struct plan plan;

	(void)state;
	qp->htb_class.rate_bps = qp->htb_class.ceil_bps = 2000000;
	qp->htb_class.burst_bytes = qp->htb_class.cburst_bytes = 4000;
	*find(&facts, false, TREE_HANDLE(TREE_GATE + 1)) = (struct tc_object){.kind = TC_TBF,
		.handle = TREE_HANDLE(TREE_GATE + 1),
		.parent = TREE_CLASS(TREE_ROOT, MINOR_PRIORITY + 1),
		.tbf = {.closed = true, .limit_bytes = 1 << 20}};
	plan = plan_of(HOST, &facts);
	assert_int_equal(plan.steps_count, 0);
	qp->htb_class.quantum_bytes++;
	plan = plan_of(HOST, &facts);
	assert_int_equal(plan.steps_count, 1);
	assert_step(&plan.steps[0], PLAN_CHANGE, "class", "htb class 9020:1002", "quantum 1523",
		"quantum 1522");
	assert_true(plan.steps[0].leaf);
	plan_free(&plan);
	free(facts.have);
}

static void plan_shows_only_values_that_differ(void **state)
{
	struct plan_facts facts = as_it_should_be(GATEWAY);
	struct tc_object *class = find(&facts, true, TREE_CLASS(TREE_ROOT, MINOR_PRIORITY));
	struct plan plan;

	(void)state;
	class->htb_class.rate_bps = 80000000;
	class->htb_class.prio = 5;
	find(&facts, false, TREE_HANDLE(TREE_GATE))->tbf.limit_bytes = 9999;
	plan = plan_of(GATEWAY, &facts);
	assert_int_equal(plan.steps_count, 2);
	assert_step(&plan.steps[0], PLAN_CHANGE, "class", "htb class 9000:10",
		"rate 80000000, prio 5", "rate 400000000, prio 2");
	assert_step(&plan.steps[1], PLAN_CHANGE, "qdisc", "tbf qdisc 9010:", "limit 9999",
		"limit 1048576");
	assert_false(plan.steps[0].leaf);
	plan_free(&plan);
	free(facts.have);
}

static void plan_tells_what_is_missing_and_what_is_too_much(void **state)
{
	struct plan_facts facts = as_it_should_be(GATEWAY);
	struct tc_object *lost = find(&facts, false, TREE_HANDLE(TREE_SLOT_LEAF + 2));
	struct plan plan;

	(void)state;
	/* ours by its handle, yet not in the policy; somebody else's; TBF's own class */
	*lost = (struct tc_object){.kind = TC_HTB_CLASS,
		.handle = TREE_CLASS(TREE_ROOT, MINOR_PRIORITY + 7),
		.parent = TREE_CLASS(TREE_ROOT, MINOR_PORT)};
	facts.have = realloc(facts.have, (facts.have_count + 2) * sizeof(*facts.have));
	assert_non_null(facts.have);
	facts.have[facts.have_count++] = (struct tc_object){.kind = TC_OTHER,
		.handle = 0xffff0000,
		.parent = TC_H_CLSACT,
		.other = {"ingress"}};
	facts.have[facts.have_count++] = (struct tc_object){.kind = TC_OTHER_CLASS,
		.handle = TREE_CLASS(TREE_GATE, 1),
		.parent = TREE_HANDLE(TREE_GATE),
		.other = {"tbf"}};
	facts.filter = false;
	facts.hooks.egress.count = 0;
	plan = plan_of(GATEWAY, &facts);
	assert_int_equal(plan.steps_count, 4);
	assert_step(&plan.steps[0], PLAN_CREATE, "tcx", "tcx egress", "", "quench_tc_ahead");
	assert_step(
		&plan.steps[1], PLAN_CREATE, "qdisc", "bfifo qdisc a002:", "", "limit 1048576 B");
	assert_int_equal(plan.steps[2].action, PLAN_DELETE);
	assert_string_equal(plan.steps[2].name, "htb class 9000:17");
	assert_step(&plan.steps[3], PLAN_CREATE, "filter", "bpf filter quench_root", "",
		"preference 1");
	plan_free(&plan);
	free(facts.have);
}

static void plan_stops_at_what_is_somebody_else_s(void **state)
{
	struct tc_object root = {.kind = TC_TBF, .handle = 0x80010000, .parent = TC_H_ROOT};
	struct tc_object mq = {.kind = TC_OTHER, .parent = TC_H_ROOT, .other = {"mq"}};
	struct plan_facts facts = untouched();
	struct plan plan;

	(void)state;
	facts.hooks.xdp = program(66);
	facts.have = &root;
	plan = plan_of(GATEWAY, &facts);
	assert_int_equal(plan.steps_count, 3);
	assert_step(&plan.steps[0], PLAN_BLOCKED, "port", "", "",
		"another XDP program (id 66, some) is attached; quench does not replace it");
	assert_step(&plan.steps[2], PLAN_BLOCKED, "port", "", "",
		"somebody else's root qdisc is in place: tbf qdisc 8001:; delete it, or leave this "
		"port out");
	plan_free(&plan);
	facts.have = &mq;
	plan = plan_of(GATEWAY, &facts);
	assert_int_equal(plan_count(&plan, PLAN_BLOCKED), 2);
	plan_free(&plan);
	policy.ports[GATEWAY].replace_mq = true;
	plan = plan_of(GATEWAY, &facts);
	assert_int_equal(plan_count(&plan, PLAN_BLOCKED), 1);
	policy.ports[GATEWAY].replace_mq = false;
	plan_free(&plan);
}

static void plan_puts_the_right_program_in_the_place_of_ours(void **state)
{
	struct plan_facts facts = as_it_should_be(GATEWAY);
	struct plan plan;

	(void)state;
	facts.hooks.egress.count = 0;
	attach(&facts.hooks.egress, "quench_tc_egress");
	plan = plan_of(GATEWAY, &facts);
	assert_int_equal(plan.steps_count, 1);
	assert_step(&plan.steps[0], PLAN_CHANGE, "tcx", "tcx egress", "quench_tc_egres",
		"quench_tc_ahead");
	plan_free(&plan);
	free(facts.have);
}

static void plan_of_a_monitor_has_no_queues(void **state)
{
	struct plan_facts facts = untouched(), was_gateway = as_it_should_be(GATEWAY);
	struct plan plan = plan_of(MONITOR, &facts);

	(void)state;
	assert_int_equal(plan.steps_count, 1);
	assert_step(&plan.steps[0], PLAN_CREATE, "xdp", "xdp", "", "quench_xdp, native");
	plan_free(&plan);
	plan = plan_of(MONITOR, &was_gateway);
	assert_int_equal(plan_count(&plan, PLAN_DELETE), 1 + was_gateway.have_count);
	assert_int_equal(plan.steps_count, 1 + was_gateway.have_count);
	plan_free(&plan);
	plan_leave(&plan, &was_gateway);
	assert_int_equal(plan_count(&plan, PLAN_DELETE), 2 + was_gateway.have_count);
	plan_free(&plan);
	plan_leave(&plan, &facts);
	assert_int_equal(plan.steps_count, 0);
	free(was_gateway.have);
}

static void plan_of_what_programs_are_told_shows_what_differs(void **state)
{
	struct conf want, have;
	struct plan plan = {};

	(void)state;
	compile_conf(&policy, &want);
	have = want;
	have.now_ns = 1234567; /* the agent's clock */
	plan_conf(&plan, &policy, &want, &have);
	assert_int_equal(plan.steps_count, 0);

	have.cnp_pcp = 3;
	have.dscp_class[26] = CLASS_NONE;
	have.dscp_class[4] = have.dscp_class[9] = 0;
	have.classes[1].limit_bytes = 77;
	have.classes[1].kmin_bytes = 10000;
	have.classes[1].kmax_bytes = 20000;
	have.classes[1].slope = (uint64_t)(COMPILE_SLOPE_ONE * 0.125 / 10000);
	plan_conf(&plan, &policy, &want, &have);
	assert_int_equal(plan.steps_count, 3);
	assert_step(&plan.steps[0], PLAN_CHANGE, "conf", "configuration", "cnp.priority 3",
		"cnp.priority 6");
	assert_step(&plan.steps[1], PLAN_CHANGE, "conf", "class a", "dscp 4+9", "dscp 26");
	assert_step(&plan.steps[2], PLAN_CHANGE, "conf", "class b",
		"limit 77, kmin 10000, kmax 20000, pmax 12.5%",
		"limit 1048576, kmin 0, kmax 0, pmax 0%");
	plan_free(&plan);
}

/* ---- warnings ---- */

struct trouble {
	const char *code; /* of the one warning that there is then; NULL: none */
	size_t port;
	enum port_trust trust;
	enum port_xdp xdp;
	uint32_t mtu_bytes;
	const char *kind;
	struct plan_nic nic;
	bool lldpad;
	const char *says; /* among other things */
};

static void plan_warns_of_what_is_there(void **state)
{
	static const struct trouble cases[] = {
		{.port = GATEWAY},
		{"lro", GATEWAY, .nic = {.lro = true}, .says = "ethtool -K eth9 lro off"},
		{"gro_hw", GATEWAY, .nic = {.gro_hw = true}, .says = "rx-gro-hw off"},
		{"udp_gro", GATEWAY, .nic = {.udp_gro = true}, .says = "rx-gro-list off"},
		{NULL, HOST, .nic = {.udp_gro = true}},
		{"channels", GATEWAY, .kind = "", .nic = {.channels = 9, .channels_max = 16},
			.says = "ethtool -L eth9 combined 8"},
		{NULL, GATEWAY, .kind = "", .nic = {.channels = 8, .channels_max = 16}},
		{NULL, GATEWAY, .kind = "veth", .nic = {.channels = 9, .channels_max = 16}},
		{"mtu", GATEWAY, .kind = "", .mtu_bytes = 3507, .says = "generic-ok"},
		{NULL, GATEWAY, .kind = "", .mtu_bytes = 3506},
		{NULL, GATEWAY, .kind = "", .mtu_bytes = 9000, .xdp = PORT_XDP_GENERIC_OK},
		{"tags_hidden", MONITOR, .trust = TRUST_PCP, .nic = {.strips_tags = true},
			.says = "rx-vlan-offload off"},
		{"tags_hidden", MONITOR, .trust = TRUST_PCP_DSCP, .nic = {.strips_tags = true},
			.says = "rx-vlan-offload off"},
		{NULL, MONITOR, .trust = TRUST_DSCP_PCP, .nic = {.strips_tags = true}},
		{"firmware_dcbx", GATEWAY, .nic = {.firmware_dcbx = true}, .says = "LLDP agent"},
		{"lldpad", GATEWAY, .lldpad = true, .says = "dcbtool sc eth9 dcb off"},
		{"global_pause", GATEWAY, .nic = {.pause_rx = true}, .says = "are on (rx):"},
		{"global_pause", GATEWAY, .nic = {.pause_tx = true}, .says = "are on (tx):"},
		{"global_pause", HOST, .nic = {.pause_rx = true, .pause_tx = true},
			.says = "are on (rx and tx):"},
		{NULL, MONITOR, .nic = {.pause_rx = true}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct trouble *c = &cases[i];
		struct policy_port port = policy.ports[c->port];
		struct plan_facts facts = untouched();
		struct plan plan = {};

		facts.nic = c->nic;
		facts.lldpad = c->lldpad;
		facts.link.mtu_bytes = c->mtu_bytes ? c->mtu_bytes : 1500;
		if (c->kind)
			snprintf(facts.link.kind, sizeof(facts.link.kind), "%s", c->kind);
		port.trust = c->trust;
		port.xdp = c->xdp;
		plan_warn(&plan, &policy, &port, &facts);
		if (plan.warnings_count != (c->code != NULL))
			fail_msg("case %zu: %zu warnings", i, plan.warnings_count);
		if (c->code) {
			assert_string_equal(plan.warnings[0].code, c->code);
			if (!strstr(plan.warnings[0].text, c->says))
				fail_msg("\"%s\" is not in: %s", c->says, plan.warnings[0].text);
		}
		plan_free(&plan);
	}
}

static void plan_warns_of_programs_before_ours_only(void **state)
{
	struct plan_facts facts = as_it_should_be(HOST);
	struct hook_chain *egress = &facts.hooks.egress;
	struct plan plan;

	(void)state;
	*egress = (struct hook_chain){.programs = {program(5)}, .count = 1};
	attach(egress, "quench_tc_egress");
	egress->programs[egress->count++] = program(9);
	plan = plan_of(HOST, &facts);
	assert_int_equal(plan.steps_count, 0);
	assert_int_equal(plan.warnings_count, 1);
	assert_string_equal(plan.warnings[0].code, "foreign_tcx");
	assert_non_null(
		strstr(plan.warnings[0].text, "the tcx egress program 5 (some) runs before"));
	plan_free(&plan);
	facts.hooks.ingress.programs[0] = program(5);
	egress->count = 0;
	plan = plan_of(HOST, &facts);
	assert_int_equal(plan_count(&plan, PLAN_CREATE), 2);
	assert_int_equal(plan.warnings_count, 1);
	plan_free(&plan);
	free(facts.have);
}

static void plan_warns_of_clsact(void **state)
{
	struct tc_object clsact = {
		.kind = TC_OTHER, .handle = 0xffff0000, .parent = TC_H_CLSACT, .other = {"clsact"}};
	struct plan_facts facts = untouched();
	struct plan plan;

	(void)state;
	facts.have = &clsact;
	plan = plan_of(GATEWAY, &facts);
	assert_int_equal(plan.warnings_count, 1);
	assert_string_equal(plan.warnings[0].code, "clsact");
	assert_int_equal(plan_count(&plan, PLAN_BLOCKED) + plan_count(&plan, PLAN_DELETE), 0);
	plan_free(&plan);
	plan = plan_of(MONITOR, &facts);
	assert_int_equal(plan.warnings_count, 0);
	plan_free(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plan_of_an_untouched_port_creates_all_of_it),
		cmocka_unit_test(plan_of_a_port_as_it_should_be_is_empty),
		cmocka_unit_test(plan_leaves_alone_what_the_agent_sets),
		cmocka_unit_test(plan_shows_only_values_that_differ),
		cmocka_unit_test(plan_tells_what_is_missing_and_what_is_too_much),
		cmocka_unit_test(plan_stops_at_what_is_somebody_else_s),
		cmocka_unit_test(plan_puts_the_right_program_in_the_place_of_ours),
		cmocka_unit_test(plan_of_a_monitor_has_no_queues),
		cmocka_unit_test(plan_of_what_programs_are_told_shows_what_differs),
		cmocka_unit_test(plan_warns_of_what_is_there),
		cmocka_unit_test(plan_warns_of_programs_before_ours_only),
		cmocka_unit_test(plan_warns_of_clsact),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
