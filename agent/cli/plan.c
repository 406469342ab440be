// SPDX-License-Identifier: BSD-2-Clause
// quench plan: what would change on this machine, and what is in the way.
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan_report.h"
#include "cli/report.h"
#include "engine/instance.h"
#include "netlink/ethtool.h"
#include "netlink/link_upper.h"
#include "policy/compile.h"
#include "reconcile/desired.h"
#include "reconcile/look.h"
#include "reconcile/ports.h"

static const char help[] =
	"Show what would have to change for this machine to be as the policy says: queues, filter, "
	"programs and what they are told. Nothing is changed. Beside a running agent, ~ is what "
	"`quench reload` does, and + and - of queues need a restart; the agent's rate control, "
	"watchdog and realtime are its own and not compared."
	"\v+ is to be made, ~ to be changed in place, - to be taken off; ! stands in the way.\n\n"
	"Exit status: 0 it can be applied, 1 something is in the way or cannot be read, 3 the "
	"policy is invalid.";

struct planning {
	const struct policy *policy;
	const struct instance *instance;
	struct rtnl *nl;
	struct plan_report *report;
	uint64_t speed_bps; /* of the fastest port with queues */
	uint32_t mtu_bytes; /* the longest */
};

static void plan_one(
	struct planning *p, const struct policy_port *port, struct plan *plan, struct qerr *err)
{
	struct plan_facts facts;
	struct link_info link;
	uint64_t speed_bps;
	int code = link_get(p->nl, port->name, &link, err);

	if (!code && policy_port_has_queues(port))
		code = link_upper_refuse(p->nl, &link, port->name, err);
	if (!code)
		code = look_at(p->nl, &link, p->instance->pin_dir, &facts, err);
	if (code)
		return plan_block(plan, err->text);
	plan_port(plan, p->policy, port, &facts);
	look_free(&facts);
	if (!policy_port_has_queues(port))
		return;
	speed_bps = desired_speed_bps(port, ethtool_speed_bps(port->name));
	p->speed_bps = speed_bps > p->speed_bps ? speed_bps : p->speed_bps;
	p->mtu_bytes = link.mtu_bytes > p->mtu_bytes ? link.mtu_bytes : p->mtu_bytes;
}

static void plan_ports(struct planning *p)
{
	for (size_t i = 0; i < p->policy->ports_count; i++) {
		const struct policy_port *port = &p->policy->ports[i];
		struct plan plan = {};
		struct qerr err;

		plan_one(p, port, &plan, &err);
		plan_report_port(p->report, port->name, snapshot_role_name(port->role), &plan);
		plan_free(&plan);
	}
}

static bool policy_has(const struct policy *policy, const char *name)
{
	for (size_t i = 0; i < policy->ports_count; i++)
		if (!strcmp(policy->ports[i].name, name))
			return true;
	return false;
}

/* Ports of the running agent, or of a dead one, that the policy does not name. */
static void plan_leftovers(struct planning *p)
{
	struct instance_state state;

	if (instance_load(p->instance, &state, NULL) || state.netns != instance_netns())
		return;
	for (size_t i = 0; i < state.ports_count; i++) {
		struct plan_facts facts;
		struct link_info link;
		struct plan plan = {};

		if (link_get_index(p->nl, state.ports[i].ifindex, &link, NULL) ||
			policy_has(p->policy, link.name) ||
			look_at(p->nl, &link, p->instance->pin_dir, &facts, NULL))
			continue;
		plan_leave(&plan, &facts);
		plan_report_port(p->report, link.name, "no longer in the policy", &plan);
		plan_free(&plan);
		look_free(&facts);
	}
}

/*
 * What all ports share. XOFF and XON hold for the fastest link and the longest frames of all. Where
 * no agent is or was, the programs bring their configuration with them.
 */
static void plan_shared(struct planning *p)
{
	struct plan plan = {};
	struct conf want, have;
	struct qerr err;

	compile_conf(p->policy, &want);
	if (p->speed_bps && compile_marks(p->policy, p->speed_bps, p->mtu_bytes, &want, &err))
		plan_block(&plan, err.text);
	else if (!hooks_read_conf(p->instance->pin_dir, &have))
		plan_conf(&plan, p->policy, &want, &have);
	if (plan.steps_count)
		plan_report_port(p->report, "all ports", "what the programs are told", &plan);
	plan_free(&plan);
}

static int make_plan(struct planning *p, struct qerr *err)
{
	int code = rtnl_open(&p->nl, err);

	if (code)
		return code;
	plan_ports(p);
	plan_leftovers(p);
	plan_shared(p);
	rtnl_close(p->nl);
	return 0;
}

int cli_plan(int argc, char **argv)
{
	struct policy *policy = malloc(sizeof(*policy));
	struct cli_options options;
	struct instance instance;
	struct qerr err = {};
	struct planning p = {.policy = policy, .instance = &instance};
	int status;

	if (!policy)
		return cli_fail("out of memory");
	cli_parse(argc, argv, help, CLI_INSTANCE | CLI_POLICY | CLI_JSON, &options);
	status = cli_load_policy(options.policy, policy);
	if (status == EXIT_OK && ports_find(policy, &err))
		status = cli_fail(err.text);
	if (status == EXIT_OK && instance_init(&instance, options.instance, &err))
		status = cli_fail(err.text);
	if (status == EXIT_OK) {
		p.report = plan_report_open(options.json);
		if (!p.report || make_plan(&p, &err))
			status = cli_fail(p.report ? err.text : "out of memory");
		if (plan_report_close(p.report, status == EXIT_OK))
			status = EXIT_FAILED;
	}
	free(policy);
	return status;
}
