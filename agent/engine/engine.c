// SPDX-License-Identifier: BSD-2-Clause
// The agent as a whole: everything put in place in order, watched, and taken off in order.
#include "engine/engine.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/local_qps.h"
#include "engine/port.h"
#include "engine/reload.h"
#include "engine/require.h"
#include "engine/show.h"
#include "engine/state.h"
#include "observe/control.h"
#include "observe/snapshot.h"
#include "policy/compile.h"
#include "reconcile/apply.h"

enum {
	AGE_EVERY_MS = 10000,
	GUARDIAN_PAUSE_MS = 1000, /* between two starts */
	CHECK_EVERY_MS = 100,	  /* at most this often are the ports compared */
};

#define MS_NS	     1000000ull
#define FLOW_IDLE_NS 300000000000ull /* a flow silent for this long is forgotten */

/* ---- putting it in place ---- */

/* XOFF and XON hold for the fastest link and the longest frames of all. */
static int plan_marks(struct engine *engine, struct qerr *err)
{
	uint64_t speed_bps = 0;
	uint32_t mtu_bytes = 0;

	for (size_t i = 0; i < engine->ports_count; i++) {
		const struct engine_port *port = &engine->ports[i];

		if (!port_has_queues(port))
			continue;
		speed_bps = port->speed_bps > speed_bps ? port->speed_bps : speed_bps;
		mtu_bytes = port->link.mtu_bytes > mtu_bytes ? port->link.mtu_bytes : mtu_bytes;
	}
	return speed_bps ? compile_marks(engine->policy, speed_bps, mtu_bytes, &engine->conf, err)
			 : 0;
}

int engine_plan_conf(struct engine *engine, struct qerr *err)
{
	compile_conf(engine->policy, &engine->conf);
	return plan_marks(engine, err);
}

int engine_replan_conf(struct engine *engine, struct qerr *err)
{
	struct conf before = engine->conf;
	int code = engine_plan_conf(engine, err);

	if (code)
		engine->conf = before;
	engine->conf.now_ns = engine_now_ns();
	return code ? code : dataplane_set_conf(engine->dp, &engine->conf, err);
}

static int plan(struct engine *engine, struct qerr *err)
{
	for (size_t i = 0; i < engine->policy->ports_count; i++) {
		int code = port_plan(engine, i, err);

		if (code)
			return code;
		engine->ports_count++;
	}
	return engine_plan_conf(engine, err);
}

/* What must be equal for an earlier agent's maps and queues to be taken over, as one number. */
static void describe_layout(const struct engine *engine, char layout[INSTANCE_LAYOUT_MAX])
{
	char text[64];
	uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */

	for (size_t i = 0; i <= engine->ports_count; i++) {
		const struct engine_port *port = &engine->ports[i];

		if (i < engine->ports_count)
			snprintf(text, sizeof(text), "%s %d %d %u %u %u", port->link.name,
				port->link.ifindex, port->policy->role, port->conf.refs_base,
				port->conf.qp_count, port->spec.qp_class);
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
	engine->adopt = !code && !strcmp(state.layout, layout) && state.netns == instance_netns() &&
			!access(engine->instance->pin_dir, F_OK);
	if (!engine->adopt)
		return clean_leftovers(engine, err);
	for (size_t i = 0; i < engine->ports_count; i++)
		engine->ports[i].claimed = true;
	fprintf(stderr, "quench: taking over from an agent that died\n");
	events_note(&engine->events, "took over from an agent that died");
	return 0;
}

uint64_t engine_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static int load_dataplane(struct engine *engine, struct qerr *err)
{
	const struct engine_port *last = &engine->ports[engine->ports_count - 1];
	struct dataplane_size size = {
		.flows = engine->policy->flows_max,
		.pairs = engine->policy->flows_max * 2,
		.refs = last->conf.refs_base + port_refs(last),
		.qp_classes = last->conf.qp_base + last->conf.qp_count + 1,
	};
	int code =
		dataplane_open(&engine->dp, &size, engine->instance->pin_dir, engine->adopt, err);

	if (code && engine->adopt) {
		code = clean_leftovers(engine, err);
		if (!code)
			code = dataplane_open(
				&engine->dp, &size, engine->instance->pin_dir, false, err);
	}
	engine->started_ns = engine->conf.now_ns = engine_now_ns();
	return code ? code : dataplane_set_conf(engine->dp, &engine->conf, err);
}

int engine_save(const struct engine *engine, struct qerr *err)
{
	struct instance_state state = {.netns = instance_netns()};

	describe_layout(engine, state.layout);
	for (size_t i = 0; i < engine->ports_count; i++) {
		const struct engine_port *port = &engine->ports[i];
		struct instance_port *saved = &state.ports[state.ports_count];

		if (!port->claimed || port->gone)
			continue;
		memcpy(saved->name, port->link.name, sizeof(saved->name));
		saved->ifindex = port->link.ifindex;
		saved->line_rate_bps = port->spec.line_rate_bps;
		state.ports_count++;
	}
	return instance_save(engine->instance, &state, err);
}

static void beat(void *arg)
{
	struct engine *engine = arg;

	guardian_beat(&engine->guardian);
}

static void tell_qdisc_gone(void *arg)
{
	struct engine *engine = arg;

	if (write(engine->gone_fd, &(uint64_t){1}, sizeof(uint64_t)) < 0)
		return; /* its counter is full: told already */
}

static void note(void *arg, const char *fmt, ...)
{
	struct engine *engine = arg;
	char text[EVENT_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	events_note(&engine->events, "%s", text);
}

void engine_fast_ports(const struct engine *engine, struct fast_port ports[POLICY_PORTS_MAX])
{
	for (size_t i = 0; i < engine->ports_count; i++) {
		const struct engine_port *port = &engine->ports[i];

		ports[i] = (struct fast_port){
			.ifindex = port->gone ? 0 : port->link.ifindex,
			.slot = port->conf.slot,
			.qp_base = port->conf.qp_base,
			.spec = port->spec,
			.dcqcn = port->dcqcn,
			.obeyed = port->conf.obeyed,
			.byte_ps = port->conf.byte_ps,
			.pause_ns =
				(uint64_t)port->conf.pause_quanta * port->conf.quantum_ps / 1000,
		};
	}
}

static int start_fast(struct engine *engine, struct qerr *err)
{
	struct fast_port ports[POLICY_PORTS_MAX];
	const struct fast_calls calls = {
		.beat = beat, .qdisc_gone = tell_qdisc_gone, .note = note, .arg = engine};

	engine_fast_ports(engine, ports);
	return fast_start(&engine->fast, engine->policy, engine->dp, ports, engine->ports_count,
		engine->adopt, &calls, err);
}

/* ---- start, serve, stop ---- */

static int open_signals(struct engine *engine, struct qerr *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* before any thread starts */
	signal(SIGPIPE, SIG_IGN);
	engine->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (engine->signal_fd < 0)
		return qerr_set(err, -errno, "cannot watch signals: %s", strerror(errno));
	return 0;
}

static int open_watches(struct engine *engine, struct qerr *err)
{
	engine->gone_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (engine->gone_fd < 0)
		return qerr_set(err, -errno, "cannot make an eventfd: %s", strerror(errno));
	engine->links_fd = link_watch_open(err);
	return engine->links_fd < 0 ? engine->links_fd : 0;
}

static int start(struct engine *engine, struct qerr *err)
{
	const struct policy_observe *observe = &engine->policy->observe;
	int code = require_machine(err);

	if (!code)
		code = open_signals(engine, err);
	if (!code)
		code = open_watches(engine, err);
	if (!code)
		code = rtnl_open(&engine->nl, err);
	if (!code)
		code = plan(engine, err);
	if (!code)
		code = look_back(engine, err);
	if (!code)
		code = engine_save(engine, err);
	engine->saved = !code;
	if (!code)
		code = load_dataplane(engine, err);
	if (!code)
		code = guardian_start(&engine->guardian, engine->instance, err);
	for (size_t i = 0; !code && i < engine->ports_count; i++)
		code = port_install(engine, &engine->ports[i], err);
	if (!code)
		code = guardian_wait(&engine->guardian, err);
	if (!code)
		code = start_fast(engine, err);
	if (!code)
		code = http_start(
			&engine->http, observe->host, observe->port, show_metrics, engine, err);
	if (code)
		return code;
	code = control_open(
		&engine->control, engine->instance->socket_path, show_answer, engine, err);
	if (code)
		return code;
	__atomic_store_n(&dataplane_counters(engine->dp)->qdisc_gone, 0, __ATOMIC_RELEASE);
	engine->adopt = false; /* whatever is set up from here on is new */
	return 0;
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

/* Without a guardian nobody would open anything for a dead agent: start another, but not in haste.
 */
static void on_guardian(struct engine *engine)
{
	events_note(&engine->events, "the guardian died; starting another");
	guardian_reap(&engine->guardian);
	engine->guardian_due_ns = engine_now_ns() + GUARDIAN_PAUSE_MS * MS_NS;
}

static void replace_guardian(struct engine *engine, uint64_t now)
{
	struct qerr err = {};

	if (!engine->guardian_due_ns || now < engine->guardian_due_ns)
		return;
	engine->guardian_due_ns = 0;
	if (!guardian_start(&engine->guardian, engine->instance, &err))
		return;
	events_note(&engine->events, "%s", err.text);
	engine->guardian_due_ns = now + GUARDIAN_PAUSE_MS * MS_NS;
}

/* Something about links or queues has changed; what, the kernel says best itself. */
static void check_ports(struct engine *engine)
{
	bool queues = engine->queues_due;

	engine->check_due = engine->queues_due = false;
	if (queues) {
		__atomic_store_n(&dataplane_counters(engine->dp)->qdisc_gone, 0, __ATOMIC_RELEASE);
		if (!engine->policy->repair)
			events_note(&engine->events,
				"a queue of ours was deleted; it stays so (repair: false)");
	}
	pthread_mutex_lock(&engine->nl_lock);
	for (size_t i = 0; i < engine->ports_count; i++)
		port_check(engine, &engine->ports[i], queues);
	pthread_mutex_unlock(&engine->nl_lock);
}

static void look_over_ports(struct engine *engine)
{
	pthread_mutex_lock(&engine->nl_lock);
	for (size_t i = 0; i < engine->ports_count; i++)
		port_look_over(engine, &engine->ports[i]);
	pthread_mutex_unlock(&engine->nl_lock);
}

static void age_flows(struct engine *engine, uint64_t now)
{
	dataplane_set_now(engine->dp, now);
	if (now >= engine->started_ns + FLOW_IDLE_NS) /* while no agent ran, time stood still */
		dataplane_age(engine->dp, now - FLOW_IDLE_NS);
}

/* A descriptor that may become ready, and what is to be done then. */
struct watch {
	int fd;
	void (*ready)(struct engine *engine);
};

static void on_signal(struct engine *engine)
{
	struct signalfd_siginfo info;

	if (read(engine->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		json_decref(engine_reload(engine));
	else
		engine->release = true;
}

static void on_control(struct engine *engine)
{
	control_serve(engine->control);
}

static void on_qdisc_gone(struct engine *engine)
{
	uint64_t times;

	if (read(engine->gone_fd, &times, sizeof(times)) > 0)
		engine->check_due = engine->queues_due = true;
}

static void on_links(struct engine *engine)
{
	link_watch_take(engine->links_fd);
	engine->check_due = true;
}

static int patience_ms(const struct engine *engine)
{
	int local_ms = local_qps_patience_ms(engine);

	if (engine->check_due || engine->guardian_due_ns)
		return CHECK_EVERY_MS;
	return local_ms < AGE_EVERY_MS ? local_ms : AGE_EVERY_MS;
}

static void serve(struct engine *engine)
{
	uint64_t check_ns = 0, age_ns = engine_now_ns() + AGE_EVERY_MS * MS_NS;

	local_qps_turn(engine, engine_now_ns());
	while (!engine->release) {
		const struct watch watches[] = {
			{engine->signal_fd, on_signal},
			{control_fd(engine->control), on_control},
			{engine->guardian.pid_fd, on_guardian},
			{engine->gone_fd, on_qdisc_gone},
			{engine->links_fd, on_links},
		};
		enum { N = sizeof(watches) / sizeof(watches[0]) };
		struct pollfd fds[N];
		uint64_t now;

		for (size_t i = 0; i < N; i++)
			fds[i] = (struct pollfd){.fd = watches[i].fd, .events = POLLIN};
		if (poll(fds, N, patience_ms(engine)) > 0)
			for (size_t i = 0; i < N; i++)
				if (fds[i].revents)
					watches[i].ready(engine);
		now = engine_now_ns();
		if (engine->check_due && now >= check_ns && !engine->release) {
			check_ns = now + CHECK_EVERY_MS * MS_NS;
			check_ports(engine);
		}
		replace_guardian(engine, now);
		local_qps_turn(engine, now);
		if (now >= age_ns) {
			look_over_ports(engine);
			age_ns = now + AGE_EVERY_MS * MS_NS;
			age_flows(engine, now);
		}
	}
}

/* Everything off, in the reverse order. */
static void take_off(struct engine *engine)
{
	for (size_t i = 0; engine->dp && i < engine->ports_count; i++)
		port_disarm(engine, &engine->ports[i]);
	fast_stop(engine->fast);
	for (size_t i = 0; i < engine->ports_count; i++)
		port_remove_queues(engine, &engine->ports[i]);
	dataplane_close(engine->dp);
	guardian_stop(&engine->guardian);
	if (engine->saved)
		instance_forget(engine->instance);
	else
		instance_abandon(engine->instance); /* what is in it is an earlier agent's */
}

/* What an earlier agent left goes on working as it did; only this agent goes. */
static void leave(struct engine *engine)
{
	fast_stop(engine->fast);
	for (size_t i = 0; i < engine->ports_count; i++)
		if (engine->ports[i].has_tree)
			tree_release(engine->nl, engine->ports[i].link.ifindex,
				engine->ports[i].spec.line_rate_bps, NULL);
	dataplane_leave(engine->dp);
	guardian_stop(&engine->guardian);
	instance_unlock(engine->instance);
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void stop(struct engine *engine, bool failed)
{
	http_stop(engine->http);
	control_close(engine->control);
	if (failed && engine->adopt && engine->saved)
		leave(engine);
	else
		take_off(engine);
	rtnl_close(engine->nl);
	close_if_open(engine->signal_fd);
	close_if_open(engine->gone_fd);
	close_if_open(engine->links_fd);
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
	engine->signal_fd = engine->gone_fd = engine->links_fd = -1;
	pthread_mutex_init(&engine->nl_lock, NULL);
	events_init(&engine->events);
	engine->reload_result = "ok";
	code = guardian_prepare(&engine->guardian, err);
	if (!code)
		code = start(engine, err);
	if (!code) {
		announce(engine);
		serve(engine);
	}
	stop(engine, code);
	pthread_mutex_destroy(&engine->nl_lock);
	pthread_mutex_destroy(&engine->events.lock);
	free(engine->reloaded);
	free(engine);
	return code;
}

/* A port of that name with another index is another port: nothing of ours is on it. */
static int clean_port(struct rtnl *nl, const struct instance_port *port, struct qerr *err)
{
	struct link_info link;

	if (link_get_index(nl, port->ifindex, &link, NULL)) /* whatever it is called by now */
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
	if (state.ports_count && state.netns != instance_netns())
		return qerr_set(err, -EINVAL,
			"instance %s ran in another network namespace (inode %llu): do this there",
			instance->name, (unsigned long long)state.netns);
	code = rtnl_open(&nl, err);
	if (code)
		return code;
	for (size_t i = 0; !code && i < state.ports_count; i++)
		code = clean_port(nl, &state.ports[i], err);
	rtnl_close(nl);
	return code ? code : dataplane_unpin(instance->pin_dir, err);
}
