// SPDX-License-Identifier: BSD-2-Clause
// The agent as a whole: everything put in place in order, watched, and taken off in order.
#include "engine/engine.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dataplane/dataplane.h"
#include "engine/fast.h"
#include "engine/guardian.h"
#include "engine/require.h"
#include "netlink/link.h"
#include "netlink/rtnl.h"
#include "netlink/tc.h"
#include "observe/control.h"
#include "observe/http.h"
#include "observe/snapshot.h"
#include "policy/compile.h"
#include "reconcile/apply.h"
#include "reconcile/tree.h"

enum {
	ROOT_FILTER_PREFERENCE = 1,
	AGE_EVERY_MS = 10000,
};

#define FLOW_IDLE_NS 300000000000ull /* a flow silent for this long is forgotten */

struct engine_port {
	const struct policy_port *policy;
	struct link_info link;
	struct port_conf conf;
	struct tree_spec spec;
	struct dcqcn_params dcqcn;
	enum xdp_mode xdp;
	bool has_tree;
};

struct engine {
	struct instance *instance;
	const struct policy *policy;
	const char *policy_path;
	time_t loaded_at;
	struct conf conf;
	struct engine_port ports[POLICY_PORTS_MAX];
	size_t ports_count;
	struct dataplane *dp;
	struct fast *fast;
	struct http *http;
	pthread_mutex_t nl_lock; /* nl is used by the main and the HTTP thread */
	struct rtnl *nl;
	struct guardian guardian;
	bool adopt; /* take over what an earlier agent left in place */
	int control_fd, signal_fd;
	bool release;
};

/* ---- what is to be ---- */

static void plan_spec(const struct engine *engine, struct engine_port *port)
{
	const struct policy *policy = engine->policy;
	struct tree_spec *spec = &port->spec;

	memset(spec, 0, sizeof(*spec));
	spec->rate_bps = port->policy->rate_bps;
	spec->mtu_bytes = port->link.mtu_bytes;
	spec->classes_count = policy->classes_count;
	for (size_t c = 0; c < policy->classes_count; c++)
		spec->classes[c].limit_bytes = policy->classes[c].limit_bytes;
	spec->slots = compile_slots(policy);
	compile_dcqcn(policy, port->policy, &port->dcqcn);
	if (!(port->conf.flags & PORT_REACTION) || !policy->classes_count)
		return;
	spec->qp_count = policy->dcqcn.qp_classes;
	spec->qp_class = compile_reaction_class(policy);
	spec->line_rate_bps = port->dcqcn.line_rate_bps;
}

static uint32_t refs_of(const struct engine_port *port)
{
	return ref_qp_leaf(port->spec.slots, port->spec.qp_count);
}

static int plan_port(struct engine *engine, size_t i, struct qerr *err)
{
	struct engine_port *port = &engine->ports[i], *before = i ? port - 1 : NULL;
	int code;

	port->policy = &engine->policy->ports[i];
	code = link_get(engine->nl, port->policy->name, &port->link, err);
	if (code)
		return code;
	port->conf.slot = i + 1;
	port->conf.flags = compile_port_flags(engine->policy, port->policy);
	port->conf.reaction_class = compile_reaction_class(engine->policy);
	memcpy(port->conf.mac, port->link.mac, sizeof(port->conf.mac));
	plan_spec(engine, port);
	port->conf.qp_count = port->spec.qp_count;
	port->conf.refs_base = before ? before->conf.refs_base + refs_of(before) : 0;
	port->conf.qp_base = before ? before->conf.qp_base + before->conf.qp_count : 0;
	if (port->policy->role != PORT_GATEWAY && port->policy->role != PORT_HOST)
		return 0;
	return tree_spec_check(&port->spec, err);
}

static int plan(struct engine *engine, struct qerr *err)
{
	for (size_t i = 0; i < engine->policy->ports_count; i++) {
		int code = plan_port(engine, i, err);

		if (code)
			return code;
		engine->ports_count++;
	}
	compile_conf(engine->policy, &engine->conf);
	return 0;
}

/* ---- putting it in place ---- */

/* What must be equal for an earlier agent's maps and queues to be taken over, as one number. */
static void describe_layout(const struct engine *engine, char layout[INSTANCE_LAYOUT_MAX])
{
	char text[64];
	uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */

	for (size_t i = 0; i <= engine->ports_count; i++) {
		const struct engine_port *port = &engine->ports[i];

		if (i < engine->ports_count)
			snprintf(text, sizeof(text), "%s %d %u %u", port->link.name,
				port->link.ifindex, port->conf.refs_base, port->conf.qp_count);
		else
			snprintf(text, sizeof(text), "%zu %u", engine->policy->classes_count,
				engine->policy->flows_max);
		for (const char *c = text; *c; c++)
			hash = (hash ^ (unsigned char)*c) * 0x100000001b3ull;
	}
	snprintf(layout, INSTANCE_LAYOUT_MAX, "%016llx", (unsigned long long)hash);
}

static int clean_leftovers(struct engine *engine, struct qerr *err)
{
	bool found = false;
	int code = engine_clean(engine->instance, &found, err);

	engine->adopt = false;
	if (found && !code)
		fprintf(stderr, "quench: cleaned up after an agent that died\n");
	return code;
}

/* Is there something of an earlier agent, and does it fit? What does not fit goes. */
static int look_back(struct engine *engine, struct qerr *err)
{
	char layout[INSTANCE_LAYOUT_MAX];
	struct instance_state state;
	int code = instance_load(engine->instance, &state, err);

	describe_layout(engine, layout);
	engine->adopt = !code && !strcmp(state.layout, layout) &&
			!access(engine->instance->pin_dir, F_OK);
	if (!engine->adopt)
		return clean_leftovers(engine, err);
	fprintf(stderr, "quench: taking over from an agent that died\n");
	return 0;
}

static int load_dataplane(struct engine *engine, struct qerr *err)
{
	const struct engine_port *last = &engine->ports[engine->ports_count - 1];
	struct dataplane_size size = {
		.flows = engine->policy->flows_max,
		.pairs = engine->policy->flows_max * 2,
		.refs = last->conf.refs_base + refs_of(last),
		.qp_classes = last->conf.qp_base + last->conf.qp_count + 1,
	};
	int code = dataplane_open(
		&engine->dp, &size, engine->instance->pin_dir, engine->adopt, err);

	if (code && engine->adopt) {
		code = clean_leftovers(engine, err);
		if (!code)
			code = dataplane_open(
				&engine->dp, &size, engine->instance->pin_dir, false, err);
	}
	return code ? code : dataplane_set_conf(engine->dp, &engine->conf, err);
}

static bool has_queues(const struct engine_port *port)
{
	return port->policy->role == PORT_GATEWAY || port->policy->role == PORT_HOST;
}

/* A tree that is there already is taken over if it can be, and else made anew. */
static int place_tree(struct engine *engine, struct engine_port *port, const struct tc_object *list,
	size_t n, struct qerr *err)
{
	int ifindex = port->link.ifindex, code = -ENOENT;

	if (engine->adopt) {
		code = tree_adopt(engine->nl, ifindex, list, n, err);
		if (code == -EIO) {
			fprintf(stderr, "quench: %s: making the queues anew\n", err->text);
			tree_remove(engine->nl, ifindex, NULL);
		}
	}
	return code ? tree_install(engine->nl, ifindex, list, n, err) : 0;
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
	return tc_filter_bpf_add(engine->nl, port->link.ifindex, TREE_HANDLE(TREE_ROOT),
		ROOT_FILTER_PREFERENCE, dataplane_root_fd(engine->dp), "quench_root",
		TREE_HANDLE(TREE_ROOT), engine->adopt, err);
}

/* The hooks first, then the queues, and only then the clones that need both. */
static int install_port(struct engine *engine, struct engine_port *port, struct qerr *err)
{
	const char *name = port->policy->name;
	int ifindex = port->link.ifindex, code;

	if (engine->adopt)
		port->conf.flags |= PORT_ARMED; /* it all works already */
	code = dataplane_set_port(engine->dp, ifindex, &port->conf, err);
	if (!code)
		code = dataplane_attach_xdp(engine->dp, name, ifindex,
			port->policy->xdp == PORT_XDP_GENERIC_OK, &port->xdp, err);
	if (code || !has_queues(port))
		return code;
	code = dataplane_attach_tc(
		engine->dp, name, ifindex, port->conf.flags & PORT_NOTIFY_INGRESS, err);
	if (!code)
		code = install_tree(engine, port, err);
	if (code)
		return code;
	port->conf.flags |= PORT_ARMED;
	port->conf.generation++;
	return dataplane_set_port(engine->dp, ifindex, &port->conf, err);
}

/* Write down what is about to be made, so that it can be taken off whatever happens to us. */
static int save_state(struct engine *engine, struct qerr *err)
{
	struct instance_state state = {};

	describe_layout(engine, state.layout);
	for (size_t i = 0; i < engine->ports_count; i++) {
		struct instance_port *port = &state.ports[state.ports_count++];

		memcpy(port->name, engine->ports[i].link.name, sizeof(port->name));
		port->ifindex = engine->ports[i].link.ifindex;
		port->line_rate_bps = engine->ports[i].spec.line_rate_bps;
	}
	return instance_save(engine->instance, &state, err);
}

static void beat(void *arg)
{
	struct engine *engine = arg;

	guardian_beat(&engine->guardian);
}

static int start_fast(struct engine *engine, struct qerr *err)
{
	struct fast_port ports[POLICY_PORTS_MAX];

	for (size_t i = 0; i < engine->ports_count; i++)
		ports[i] = (struct fast_port){
			.ifindex = engine->ports[i].link.ifindex,
			.slot = engine->ports[i].conf.slot,
			.qp_base = engine->ports[i].conf.qp_base,
			.spec = engine->ports[i].spec,
			.dcqcn = engine->ports[i].dcqcn,
		};
	return fast_start(&engine->fast, engine->policy, engine->dp, ports, engine->ports_count,
		engine->adopt, beat, engine, err);
}

/* ---- showing it ---- */

static void snapshot_port(struct engine *engine, size_t i, struct snapshot_port *out)
{
	const struct fast_gauges *gauges = fast_gauges(engine->fast);
	const struct engine_port *port = &engine->ports[i];
	struct tc_qdisc_stats stats;

	memcpy(out->name, port->link.name, sizeof(out->name));
	out->role = port->policy->role;
	out->xdp = dataplane_xdp_mode(engine->dp, port->link.ifindex);
	dataplane_get_stats(engine->dp, port->conf.slot, &out->stats);
	dataplane_get_state(engine->dp, port->conf.slot, &out->state);
	out->qps_limited = gauges->limited[port->conf.slot];
	out->qp_classes_taken = gauges->taken[port->conf.slot];
	if (!has_queues(port))
		return;
	for (size_t c = 0; c < engine->policy->classes_count; c++)
		if (!tc_stats(engine->nl, port->link.ifindex, TREE_HANDLE(TREE_GATE + c), &stats,
			    NULL))
			out->occupancy_bytes[c] = stats.backlog_bytes;
	if (!tc_stats(engine->nl, port->link.ifindex, TREE_HANDLE(TREE_ROOT), &stats, NULL))
		out->queue_drops = stats.drops;
}

static struct snapshot *take_snapshot(struct engine *engine)
{
	const struct fast_gauges *gauges = fast_gauges(engine->fast);
	struct snapshot *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	snprintf(s->instance, sizeof(s->instance), "%s", engine->instance->name);
	snprintf(s->policy_path, sizeof(s->policy_path), "%s", engine->policy_path);
	s->policy_loaded_at = engine->loaded_at;
	s->classes_count = engine->policy->classes_count;
	memcpy(s->classes, engine->policy->classes, sizeof(s->classes));
	s->pairs = gauges->pairs;
	s->counters = *dataplane_counters(engine->dp);
	s->ports_count = engine->ports_count;
	pthread_mutex_lock(&engine->nl_lock);
	for (size_t i = 0; i < engine->ports_count; i++)
		snapshot_port(engine, i, &s->ports[i]);
	pthread_mutex_unlock(&engine->nl_lock);
	return s;
}

static void show_metrics(void *arg, FILE *out)
{
	struct snapshot *s = take_snapshot(arg);

	if (s)
		snapshot_write_metrics(s, out);
	free(s);
}

static json_t *show_status(struct engine *engine)
{
	struct snapshot *s = take_snapshot(engine);
	json_t *doc = s ? snapshot_status_json(s) : NULL;

	free(s);
	return doc;
}

struct flows_walk {
	struct engine *engine;
	json_t *list;
};

/* CNPs that arrived about this flow are counted under the way back. */
static void fill_pair(const struct engine *engine, struct snapshot_flow *f)
{
	struct flow_key back = {.dst_qpn = 0};
	struct pair pair;

	if (!dataplane_get_pair(engine->dp, &f->key, &f->pair))
		return;
	memcpy(back.src, f->key.dst, sizeof(back.src));
	memcpy(back.dst, f->key.src, sizeof(back.dst));
	back.dst_qpn = f->pair.peer_qpn;
	if (dataplane_get_pair(engine->dp, &back, &pair))
		f->cnp_received = pair.cnp_received;
}

static void show_flow(
	void *arg, const struct flow_key *key, const struct flow *flow, const struct qp *qp)
{
	struct flows_walk *walk = arg;
	const struct engine *engine = walk->engine;
	struct snapshot_flow f = {.key = *key, .flow = *flow};

	fill_pair(engine, &f);
	if (qp && qp->leaf != QP_SHARED_LEAF && flow->slot && flow->slot <= engine->ports_count)
		f.rate_bps = fast_rate_bps(
			engine->fast, engine->ports[flow->slot - 1].conf.qp_base + qp->leaf);
	json_array_append_new(walk->list, snapshot_flow_json(&f));
}

static json_t *show_flows(struct engine *engine)
{
	struct flows_walk walk = {.engine = engine, .list = json_array()};

	dataplane_each_flow(engine->dp, show_flow, &walk);
	return json_pack("{s:i, s:s, s:o}", "version", 1, "instance", engine->instance->name,
		"flows", walk.list);
}

static json_t *on_release(struct engine *engine)
{
	engine->release = true;
	return json_pack("{s:s}", "result", "releasing");
}

static json_t *on_command(void *arg, const char *command)
{
	static const struct {
		const char *name;
		json_t *(*answer)(struct engine *engine);
	} commands[] = {
		{"status", show_status},
		{"flows", show_flows},
		{"release", on_release},
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(command, commands[i].name))
			return commands[i].answer(arg);
	return NULL;
}

/* ---- start, serve, stop ---- */

static int open_signals(struct engine *engine, struct qerr *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread starts */
	signal(SIGPIPE, SIG_IGN);
	engine->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (engine->signal_fd < 0)
		return qerr_set(err, -errno, "cannot watch signals: %s", strerror(errno));
	return 0;
}

static int start(struct engine *engine, struct qerr *err)
{
	const struct policy_observe *observe = &engine->policy->observe;
	int code = require_machine(err);

	if (!code)
		code = open_signals(engine, err);
	if (!code)
		code = rtnl_open(&engine->nl, err);
	if (!code)
		code = plan(engine, err);
	if (!code)
		code = look_back(engine, err);
	if (!code)
		code = save_state(engine, err);
	if (!code)
		code = load_dataplane(engine, err);
	if (!code)
		code = guardian_start(&engine->guardian, engine->instance, err);
	for (size_t i = 0; !code && i < engine->ports_count; i++)
		code = install_port(engine, &engine->ports[i], err);
	if (!code)
		code = start_fast(engine, err);
	if (!code)
		code = http_start(
			&engine->http, observe->host, observe->port, show_metrics, engine, err);
	if (code)
		return code;
	engine->control_fd = control_listen(engine->instance->socket_path, err);
	return engine->control_fd < 0 ? engine->control_fd : 0;
}

static void announce(const struct engine *engine)
{
	for (size_t i = 0; i < engine->ports_count; i++) {
		const struct engine_port *port = &engine->ports[i];

		fprintf(stderr, "quench: port %s: %s, XDP %s, %.3f Mbit/s\n", port->link.name,
			snapshot_role_name(port->policy->role), snapshot_xdp_name(port->xdp),
			port->policy->rate_bps / 1e6);
	}
	fprintf(stderr, "quench: instance %s is ready; metrics at http://%s:%u/metrics\n",
		engine->instance->name, engine->policy->observe.host, engine->policy->observe.port);
}

static uint64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* Without a guardian nobody would open anything for a dead agent: start another. */
static void replace_guardian(struct engine *engine)
{
	struct qerr err = {};

	fprintf(stderr, "quench: the guardian died; starting another\n");
	if (guardian_start(&engine->guardian, engine->instance, &err))
		fprintf(stderr, "quench: %s\n", err.text);
}

static void serve(struct engine *engine)
{
	while (!engine->release) {
		struct pollfd fds[] = {
			{ .fd = engine->signal_fd, .events = POLLIN },
			{ .fd = engine->control_fd, .events = POLLIN },
			{ .fd = engine->guardian.pid_fd, .events = POLLIN },
		};
		int n = poll(fds, 3, AGE_EVERY_MS);

		if (n > 0 && fds[0].revents)
			return;
		if (n > 0 && fds[1].revents)
			control_serve(engine->control_fd, on_command, engine);
		if (n > 0 && fds[2].revents)
			replace_guardian(engine);
		if (n == 0 && monotonic_ns() > FLOW_IDLE_NS)
			dataplane_age(engine->dp, monotonic_ns() - FLOW_IDLE_NS);
	}
}

/* No more clones; QPs keep their leaves until the queues are gone (rule: never overtake). */
static void disarm(struct engine *engine, struct engine_port *port)
{
	port->conf.flags &= ~(PORT_ARMED | PORT_NOTIFY_INGRESS | PORT_NOTIFY_EGRESS | PORT_MARKS);
	dataplane_set_port(engine->dp, port->link.ifindex, &port->conf, NULL);
}

/* Everything off, in the reverse order. */
static void take_off(struct engine *engine)
{
	struct qerr err = {};

	for (size_t i = 0; engine->dp && i < engine->ports_count; i++)
		disarm(engine, &engine->ports[i]);
	fast_stop(engine->fast);
	for (size_t i = 0; i < engine->ports_count; i++)
		if (engine->ports[i].has_tree) {
			tree_remove(engine->nl, engine->ports[i].link.ifindex, &err);
			if (err.text[0])
				fprintf(stderr, "quench: %s\n", err.text);
		}
	dataplane_close(engine->dp);
	guardian_stop(&engine->guardian);
	instance_forget(engine->instance);
}

/* What an earlier agent left goes on working as it did; only this agent goes. */
static void leave(struct engine *engine)
{
	fast_stop(engine->fast);
	dataplane_leave(engine->dp);
	guardian_stop(&engine->guardian);
	instance_unlock(engine->instance);
}

static void stop(struct engine *engine, bool failed)
{
	http_stop(engine->http);
	if (failed && engine->adopt)
		leave(engine);
	else
		take_off(engine);
	rtnl_close(engine->nl);
	if (engine->control_fd >= 0)
		close(engine->control_fd);
	if (engine->signal_fd >= 0)
		close(engine->signal_fd);
}

int engine_run(
	struct instance *instance, const struct policy *policy, const char *path, struct qerr *err)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	int code;

	if (!engine)
		return qerr_set(err, -ENOMEM, "out of memory");
	engine->instance = instance;
	engine->policy = policy;
	engine->policy_path = path;
	engine->loaded_at = time(NULL);
	engine->control_fd = engine->signal_fd = -1;
	engine->guardian = GUARDIAN_NONE;
	pthread_mutex_init(&engine->nl_lock, NULL);
	code = start(engine, err);
	if (!code) {
		announce(engine);
		serve(engine);
	}
	stop(engine, code);
	pthread_mutex_destroy(&engine->nl_lock);
	free(engine);
	return code;
}

/* A port of that name with another index is another port: nothing of ours is on it. */
static int clean_port(struct rtnl *nl, const struct instance_port *port, struct qerr *err)
{
	struct link_info link;

	if (link_get(nl, port->name, &link, NULL) || link.ifindex != port->ifindex)
		return 0;
	return tree_remove(nl, port->ifindex, err);
}

int engine_clean(const struct instance *instance, bool *found, struct qerr *err)
{
	struct instance_state state;
	struct rtnl *nl;
	int code = instance_load(instance, &state, err);

	*found = !code && (state.ports_count || !access(instance->pin_dir, F_OK));
	if (code || !*found)
		return code;
	code = rtnl_open(&nl, err);
	if (code)
		return code;
	for (size_t i = 0; !code && i < state.ports_count; i++)
		code = clean_port(nl, &state.ports[i], err);
	rtnl_close(nl);
	return code ? code : dataplane_unpin(instance->pin_dir, err);
}
