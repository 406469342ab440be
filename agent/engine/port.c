// SPDX-License-Identifier: BSD-2-Clause
// One port: planned from the policy, put in place, kept true, taken off.
#include "engine/port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tags.h"
#include "netlink/ethtool.h"
#include "netlink/link_upper.h"
#include "netlink/tc.h"
#include "policy/compile.h"
#include "reconcile/apply.h"
#include "reconcile/desired.h"

bool port_has_queues(const struct engine_port *port)
{
	return policy_port_has_queues(port->policy);
}

uint32_t port_refs(const struct engine_port *port)
{
	return ref_qp_leaf(port->spec.slots, port->spec.qp_count);
}

static void plan_spec(const struct engine *engine, struct engine_port *port)
{
	desired_spec(&port->spec, engine->policy, port->policy, port->link.mtu_bytes);
	compile_dcqcn(engine->policy, port->policy, &port->dcqcn);
}

static int refuse_upper(struct engine *engine, const struct engine_port *port, struct qerr *err)
{
	return port_has_queues(port)
		       ? link_upper_refuse(engine->nl, &port->link, port->policy->name, err)
		       : 0;
}

int port_plan(struct engine *engine, size_t i, struct qerr *err)
{
	struct engine_port *port = &engine->ports[i], *before = i ? port - 1 : NULL;
	int code;

	port->policy = &engine->policy->ports[i];
	code = link_get(engine->nl, port->policy->name, &port->link, err);
	if (!code)
		code = refuse_upper(engine, port, err);
	if (code)
		return code;
	port->speed_bps = desired_speed_bps(port->policy, ethtool_speed_bps(port->policy->name));
	port->conf.slot = i + 1;
	port->conf.flags = compile_port_flags(engine->policy, port->policy);
	port->conf.reaction_class = compile_reaction_class(engine->policy);
	memcpy(port->conf.mac, port->link.mac, sizeof(port->conf.mac));
	compile_port_pfc(engine->policy, port->policy, port->speed_bps, &port->conf);
	plan_spec(engine, port);
	port->conf.qp_count = port->spec.qp_count;
	port->conf.refs_base = before ? before->conf.refs_base + port_refs(before) : 0;
	port->conf.qp_base = before ? before->conf.qp_base + before->conf.qp_count : 0;
	return port_has_queues(port) ? tree_spec_check(&port->spec, err) : 0;
}

/* A tree that is there already is taken over if it can be, and else made anew. */
static int place_tree(struct engine *engine, struct engine_port *port, const struct tc_object *list,
	size_t n, struct qerr *err)
{
	int ifindex = port->link.ifindex, code = -ENOENT;

	if (engine->adopt) {
		code = tree_adopt(engine->nl, ifindex, list, n, err);
		if (code == -EIO) {
			events_note(&engine->events, "%s: making the queues anew", err->text);
			tree_remove(engine->nl, ifindex, NULL);
		}
	}
	return code ? tree_install(engine->nl, ifindex, list, n, port->policy->replace_mq, err) : 0;
}

/* The program that steers and marks, on the root qdisc. */
static int add_filter(
	struct engine *engine, const struct engine_port *port, bool replace, struct qerr *err)
{
	return tc_filter_bpf_add(engine->nl, port->link.ifindex, TREE_HANDLE(TREE_ROOT),
		TREE_FILTER_PREFERENCE, dataplane_root_fd(engine->dp), "quench_root",
		TREE_HANDLE(TREE_ROOT), replace, err);
}

static int install_tree(struct engine *engine, struct engine_port *port, struct qerr *err)
{
	struct tc_object *list;
	size_t n;
	int code = tree_build(&port->spec, &list, &n, err);

	if (code)
		return code;
	code = place_tree(engine, port, list, n, err);
	free(list);
	if (code)
		return code;
	port->has_tree = true;
	return add_filter(engine, port, engine->adopt, err);
}

/* Only where something is made of clones is a hook worth what it costs every frame that leaves. */
static bool has_hooks(const struct engine *engine, const struct engine_port *port)
{
	return desired_hooks(engine->policy, port->policy);
}

int port_install(struct engine *engine, struct engine_port *port, struct qerr *err)
{
	const char *name = port->policy->name;
	int ifindex = port->link.ifindex, code;

	code = dataplane_attach_xdp(engine->dp, name, ifindex,
		port->policy->xdp == PORT_XDP_GENERIC_OK, &port->xdp, err);
	if (!code && has_hooks(engine, port))
		code = dataplane_attach_tc(engine->dp, name, ifindex, port->conf.flags, err);
	else if (!code)
		dataplane_drop_tc(engine->dp, ifindex);
	port->claimed = !code;
	if (!code)
		code = engine_save(engine, err);
	if (code)
		return code;
	tags_check(engine, port);
	/* the hook that makes CNPs of clones is in place: from here on the programs know the port
	 */
	port->conf.flags |= has_hooks(engine, port) ? PORT_ARMED : 0;
	code = dataplane_set_port(engine->dp, ifindex, &port->conf, err);
	if (code || !port_has_queues(port))
		return code;
	code = install_tree(engine, port, err);
	if (code)
		return code;
	port->conf.generation++;
	return dataplane_set_port(engine->dp, ifindex, &port->conf, err);
}

void port_follow(struct engine *engine, size_t i)
{
	enum { KEPT = PORT_ARMED };
	struct engine_port *port = &engine->ports[i];
	uint32_t kept = port->conf.flags & KEPT;

	port->policy = &engine->policy->ports[i];
	port->speed_bps = desired_speed_bps(port->policy, ethtool_speed_bps(port->policy->name));
	port->conf.flags = compile_port_flags(engine->policy, port->policy) | kept;
	port->conf.reaction_class = compile_reaction_class(engine->policy);
	port->conf.obeyed = port->conf.pausing = 0;
	compile_port_pfc(engine->policy, port->policy, port->speed_bps, &port->conf);
	plan_spec(engine, port);
}

/* What a live tree is changed in: not its gates, nor its QP classes. */
static size_t drop_fast(struct tc_object *list, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		bool qp_class = list[i].kind == TC_HTB_CLASS && list[i].handle >> 16 != TREE_ROOT &&
				(list[i].handle & 0xffff) >= MINOR_QP;

		if (list[i].kind != TC_TBF && !qp_class)
			list[kept++] = list[i];
	}
	return kept;
}

static int change_tree(struct engine *engine, struct engine_port *port, struct qerr *err)
{
	struct tc_object *list;
	size_t n;
	int code = tree_build(&port->spec, &list, &n, err);

	if (code)
		return code;
	code = tree_adopt(engine->nl, port->link.ifindex, list, drop_fast(list, n), err);
	free(list);
	return code;
}

int port_apply(struct engine *engine, struct engine_port *port, struct qerr *err)
{
	int ifindex = port->link.ifindex, code = 0;

	if (port->gone)
		return 0;
	tags_check(engine, port);
	if (has_hooks(engine, port)) {
		code = dataplane_attach_tc(
			engine->dp, port->policy->name, ifindex, port->conf.flags, err);
		port->conf.flags |= code ? 0 : PORT_ARMED;
	}
	if (!code)
		code = dataplane_set_port(engine->dp, ifindex, &port->conf, err);
	return code || !port->has_tree ? code : change_tree(engine, port, err);
}

void port_disarm(struct engine *engine, struct engine_port *port)
{
	port->conf.flags &=
		~(PORT_ARMED | PORT_NOTIFY_INGRESS | PORT_NOTIFY_EGRESS | PORT_MARKS | PORT_PAUSES);
	dataplane_set_port(engine->dp, port->link.ifindex, &port->conf, NULL);
}

void port_remove_queues(struct engine *engine, struct engine_port *port)
{
	struct qerr err = {};

	if (!port->has_tree || port->gone)
		return;
	tree_remove(engine->nl, port->link.ifindex, &err);
	if (err.text[0])
		fprintf(stderr, "quench: %s\n", err.text);
	port->has_tree = false;
}

/* ---- keeping it true ---- */

static void note_result(struct engine *engine, const struct engine_port *port, int code,
	const struct qerr *err, const char *what)
{
	if (code)
		events_note(&engine->events, "port %s: %s, but that failed: %s", port->policy->name,
			what, err->text);
	else
		events_note(&engine->events, "port %s: %s", port->policy->name, what);
}

static void lose_port(struct engine *engine, struct engine_port *port)
{
	dataplane_forget_port(engine->dp, port->link.ifindex);
	fast_port_renew(engine->fast, port->conf.slot, 0, port->link.mtu_bytes);
	port->gone = true;
	port->has_tree = port->claimed = false;
	port->conf.flags &= ~PORT_ARMED;
	engine_save(engine, NULL);
}

/* Set up what the interface lacks of ours; a failure is told once and tried again at each look. */
static void set_up_again(struct engine *engine, struct engine_port *port)
{
	struct qerr err = {};
	int code = refuse_upper(engine, port, &err);

	if (!code)
		code = port_install(engine, port, &err);
	fast_port_renew(engine->fast, port->conf.slot, port->link.ifindex, port->link.mtu_bytes);
	if (!code || !port->failed)
		note_result(engine, port, code, &err, "is back; set up again");
	port->failed = code;
}

/* The longest frame of all is perhaps another one now. */
static void replan_marks(struct engine *engine)
{
	struct qerr err = {};

	if (engine_replan_conf(engine, &err))
		events_note(&engine->events, "XOFF and XON stay where they were: %s", err.text);
}

/* The interface is another one under the old name: all of ours went with the old one. */
static void welcome_port(
	struct engine *engine, struct engine_port *port, const struct link_info *link)
{
	if (!port->gone)
		lose_port(engine, port);
	port->link = *link;
	port->gone = port->failed = false;
	memcpy(port->conf.mac, link->mac, sizeof(port->conf.mac));
	plan_spec(engine, port);
	set_up_again(engine, port);
	replan_marks(engine);
}

/*
 * Make again what somebody deleted of the port's queues, the filter with them, and with change set
 * what is there to what the spec says now. *missing is how much there was to make.
 */
static int mend_queues(struct engine *engine, struct engine_port *port, bool change,
	size_t *missing, struct qerr *err)
{
	int ifindex = port->link.ifindex, code;
	struct tc_object *list;
	size_t n;

	*missing = 0;
	code = tree_build(&port->spec, &list, &n, err);
	if (code)
		return code;
	code = tree_mend(engine->nl, ifindex, list, n, change, missing, err);
	free(list);
	if (code || (!*missing && !change))
		return code;
	code = add_filter(engine, port, true, err);
	port->conf.generation++;
	dataplane_set_port(engine->dp, ifindex, &port->conf, NULL);
	fast_port_renew(engine->fast, port->conf.slot, ifindex, port->spec.mtu_bytes);
	return code;
}

static void check_mtu(struct engine *engine, struct engine_port *port, uint32_t mtu_bytes)
{
	struct qerr err = {};
	char what[64];
	size_t missing;
	int code;

	if (mtu_bytes == port->link.mtu_bytes)
		return;
	snprintf(what, sizeof(what), "MTU is %u now, was %u; queues follow", mtu_bytes,
		port->link.mtu_bytes);
	port->link.mtu_bytes = port->spec.mtu_bytes = mtu_bytes;
	code = mend_queues(engine, port, true, &missing, &err);
	note_result(engine, port, code, &err, what);
	replan_marks(engine);
}

static void check_queues(struct engine *engine, struct engine_port *port)
{
	struct qerr err = {};
	size_t missing;
	int code;

	if (!engine->policy->repair)
		return;
	code = mend_queues(engine, port, false, &missing, &err);
	if (code && !port->queues_bad)
		events_note(&engine->events,
			"port %s: somebody deleted queues of ours; they cannot be made again: %s",
			port->policy->name, err.text);
	if (!code && missing)
		events_note(&engine->events, "port %s: somebody deleted queues of ours; made again",
			port->policy->name);
	port->queues_bad = code;
}

/* Hooks that somebody detached are attached again. */
static void check_hooks(struct engine *engine, struct engine_port *port)
{
	const char *name = port->policy->name;
	int ifindex = port->link.ifindex, code;
	struct qerr err = {};

	if (!dataplane_drop_dead_hooks(engine->dp, ifindex))
		return;
	code = dataplane_attach_xdp(engine->dp, name, ifindex,
		port->policy->xdp == PORT_XDP_GENERIC_OK, &port->xdp, &err);
	if (!code && has_hooks(engine, port))
		code = dataplane_attach_tc(engine->dp, name, ifindex, port->conf.flags, &err);
	note_result(engine, port, code, &err, "somebody detached programs of ours; attached again");
}

/* Index first: a rename is no loss. Then the name: the interface may be another one. */
static int look_up(struct engine *engine, const struct engine_port *port, struct link_info *link)
{
	if (!port->gone && !link_get_index(engine->nl, port->link.ifindex, link, NULL))
		return 0;
	return link_get(engine->nl, port->policy->name, link, NULL);
}

/* What may change about an interface that stays itself. */
static void check_link(
	struct engine *engine, struct engine_port *port, const struct link_info *link)
{
	if (link->running != port->link.running)
		events_note(&engine->events, "port %s: link %s", port->policy->name,
			link->running ? "up" : "down");
	port->link.running = link->running;
	if (!memcmp(port->conf.mac, link->mac, sizeof(port->conf.mac)))
		return;
	memcpy(port->conf.mac, link->mac, sizeof(port->conf.mac));
	dataplane_set_port(engine->dp, link->ifindex, &port->conf, NULL);
}

void port_check(struct engine *engine, struct engine_port *port, bool queues)
{
	struct link_info link;
	int code = look_up(engine, port, &link);

	if (code && code != -ENODEV)
		return; /* not known: look again another time */
	if (code && port->gone)
		return;
	if (code) {
		lose_port(engine, port);
		events_note(&engine->events, "port %s: the interface is gone", port->policy->name);
		return;
	}
	if (port->gone || link.ifindex != port->link.ifindex)
		return welcome_port(engine, port, &link);
	check_link(engine, port, &link);
	tags_check(engine, port);
	if (queues)
		check_hooks(engine, port); /* before queues are, for they arm the port again */
	if (!port_has_queues(port))
		return;
	if (!port->has_tree)
		return set_up_again(engine, port);
	check_mtu(engine, port, link.mtu_bytes);
	if (queues)
		check_queues(engine, port);
}

/* With the last filter of a chain goes the chain, and the kernel then says EINVAL. */
static bool filter_is_missing(struct engine *engine, const struct engine_port *port)
{
	int code = tc_filter_bpf_get(engine->nl, port->link.ifindex, TREE_HANDLE(TREE_ROOT),
		TREE_FILTER_PREFERENCE, NULL);

	return code == -ENOENT || code == -EINVAL;
}

void port_look_over(struct engine *engine, struct engine_port *port)
{
	struct qerr err = {};
	int code;

	if (port->gone)
		return;
	check_hooks(engine, port);
	if (port->queues_bad)
		check_queues(engine, port);
	if (!port->has_tree || port->queues_bad || !engine->policy->repair ||
		!filter_is_missing(engine, port))
		return;
	code = add_filter(engine, port, true, &err);
	note_result(engine, port, code, &err, "somebody deleted our filter; made again");
}
