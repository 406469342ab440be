// SPDX-License-Identifier: BSD-2-Clause
// The fast thread's part of priority flow control: gates closed and opened, peers told.
#include "engine/gates.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/gates_state.h"
#include "netlink/link.h"
#include "reconcile/tree.h"

enum {
	RETRY_NS = 1000000, /* until a gate that would not open is tried again */
	MOVES_NS = 1000000, /* within this time, or two frames', an opened gate must move */
	SAY_ROUNDS_MAX = 4,
	LENGTH_UNIT_NS = 10000, /* of the first bucket of gate_counters.lengths */
	REACTION_UNIT_NS = 1000,
	NOTE_EVERY_NS = 1000000000, /* of one kind, about one class of one port */
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

const char *gates_port_name(const struct gates *gates, uint32_t slot)
{
	return slot ? gates->policy->ports[slot - 1].name : "this host";
}

/* ---- what the peer asks for ---- */

static int gate_change(struct gates *gates, struct gate_port *port, uint32_t cls, bool closed)
{
	struct tc_object obj = tree_gate(&port->conf.spec, cls, closed);
	int code = tc_apply(gates->nl, port->conf.ifindex, &obj, TC_CHANGE, NULL);

	if (code)
		gates_count(&dataplane_counters(gates->dp)->netlink_errors, 1);
	return code;
}

bool gate_look(const struct gates *gates, const struct gate_port *port, uint32_t cls,
	struct tc_qdisc_stats *stats)
{
	return port->conf.ifindex &&
	       !tc_stats(gates->nl, port->conf.ifindex, TREE_HANDLE(TREE_GATE + cls), stats, NULL);
}

static void gate_close(struct gates *gates, struct gate_port *port, uint32_t cls, uint64_t heard_ns)
{
	struct gate_counters *counters = &port->counters[cls];
	struct gate *gate = &port->gates[cls];
	struct tc_qdisc_stats stats;
	uint64_t took_ns;

	if (gate_change(gates, port, cls, true)) {
		gate->pause = (struct pause){};
		return;
	}
	took_ns = clock_ns() - heard_ns;
	__atomic_fetch_or(&port->pauses->closed, 1u << cls, __ATOMIC_RELEASE);
	gates_count(&counters->pauses, 1);
	gates_count(&counters->reaction_ns, took_ns);
	gates_count(
		&counters->reactions[pause_bucket(took_ns, REACTION_UNIT_NS, PAUSE_BUCKETS)], 1);
	__atomic_store_n(&counters->paused_since_ns, gate->pause.since_ns, __ATOMIC_RELAXED);
	gate->moves_ns = 0;
	if (gate_look(gates, port, cls, &stats))
		gate->sent_bytes = stats.bytes;
	gates_watch(gates, port, clock_ns());
}

static void count_pause(struct gate_counters *counters, uint64_t now)
{
	uint64_t length_ns = now - counters->paused_since_ns;

	if (!counters->paused_since_ns)
		return;
	__atomic_store_n(&counters->paused_since_ns, 0, __ATOMIC_RELAXED);
	gates_count(&counters->paused_ns, length_ns);
	gates_count(&counters->lengths[pause_bucket(length_ns, LENGTH_UNIT_NS, PAUSE_BUCKETS)], 1);
}

/* Queues that stood still may drain now, and with them end XOFFs of ours. */
static void look_for_xon(struct gates *gates)
{
	for (uint32_t slot = 0; slot < SLOTS_MAX; slot++)
		if (gates->ports[slot].pauses &&
			__atomic_load_n(&gates->ports[slot].pauses->xoff, __ATOMIC_RELAXED))
			dataplane_pause_look(gates->dp, slot);
}

static void gate_kick(struct gates *gates, const struct gate_port *port)
{
	link_kick(gates->kick_fd, port->conf.ifindex, TREE_CLASS(TREE_ROOT, MINOR_SINK));
}

/* A gate that is not there, or whose port is not, is as good as open. */
static bool gate_is_shut(int code)
{
	return code && code != -ENOENT && code != -ENODEV;
}

static void gate_open(struct gates *gates, struct gate_port *port, uint32_t cls)
{
	uint64_t moves_ns = 2ull * tree_longest_frame(&port->conf.spec) * port->conf.byte_ps / 1000;
	struct gate *gate = &port->gates[cls];
	struct tc_qdisc_stats stats;
	uint64_t now;

	if (gate_look(gates, port, cls, &stats)) {
		if (stats.bytes > gate->sent_bytes)
			gates_count(
				&port->counters[cls].escaped_bytes, stats.bytes - gate->sent_bytes);
		gate->sent_bytes = stats.bytes;
	}
	if (gate_is_shut(gate_change(gates, port, cls, false))) {
		now = clock_ns();
		gate->pause = (struct pause){now, now + RETRY_NS};
		return;
	}
	gate_kick(gates, port);
	now = clock_ns();
	gate->moves_ns = now + (moves_ns > MOVES_NS ? moves_ns : MOVES_NS);
	__atomic_fetch_and(&port->pauses->closed, ~(1u << cls), __ATOMIC_RELEASE);
	count_pause(&port->counters[cls], now);
	look_for_xon(gates);
}

/* A gate was opened a while ago: has it sent anything? A foreign filter may have eaten the kick. */
static void gate_verify(struct gates *gates, struct gate_port *port, uint32_t cls, uint64_t now)
{
	struct gate *gate = &port->gates[cls];
	struct tc_qdisc_stats stats;

	if (!gate->moves_ns || now < gate->moves_ns)
		return;
	gate->moves_ns = 0;
	if (!gate_look(gates, port, cls, &stats) || !stats.backlog_bytes ||
		stats.bytes != gate->sent_bytes)
		return;
	gates_count(&port->counters[cls].kicks_lost, 1);
	gate_kick(gates, port);
	gate->moves_ns = now + MOVES_NS;
}

static void gate_step(struct gates *gates, struct gate_port *port, uint32_t cls,
	enum pause_step step, uint64_t heard_ns)
{
	if (step == PAUSE_CLOSE)
		gate_close(gates, port, cls, heard_ns);
	else if (step == PAUSE_OPEN)
		gate_open(gates, port, cls);
}

void gate_force_open(struct gates *gates, struct gate_port *port, uint32_t cls)
{
	gate_step(gates, port, cls, pause_set(&port->gates[cls].pause, clock_ns(), 0), 0);
}

void gates_hear(struct gates *gates, struct gate_port *port, uint64_t heard_ns)
{
	for (uint32_t cls = 0; cls < gates->policy->classes_count; cls++) {
		uint32_t priority = gates->policy->classes[cls].priority;
		uint64_t until_ns =
			__atomic_load_n(&port->pauses->until_ns[priority], __ATOMIC_RELAXED);

		if (!(port->conf.obeyed >> priority & 1) || gates_ignored(port, cls))
			continue;
		gate_step(gates, port, cls,
			pause_set(&port->gates[cls].pause, clock_ns(), until_ns), heard_ns);
	}
}

/* ---- what we ask of the peer ---- */

/* Which pause led to which: what the origin of a storm is found by. */
static void note_xoffs(struct gates *gates, struct gate_port *port, uint32_t classes)
{
	uint64_t now = clock_ns();

	for (uint32_t cls = 0; cls < gates->policy->classes_count; cls++) {
		uint32_t at = port->pauses->crossed_at[cls];
		const struct gate *gate;
		char why[64] = "";

		if (!(classes >> cls & 1) || at >= SLOTS_MAX || port->counters[cls].xoff_since_ns ||
			now < port->noted_ns[cls] + NOTE_EVERY_NS)
			continue;
		port->noted_ns[cls] = now;
		gate = &gates->ports[at].gates[cls];
		if (pause_is_closed(&gate->pause))
			snprintf(why, sizeof(why), ", which its own peer has paused for %.1f ms",
				(now - gate->pause.since_ns) / 1e6);
		gates->calls.note(gates->calls.arg,
			"port %s: XOFF to its peer, priority %u: it fills the queue to %s%s",
			gates_port_name(gates, port->conf.slot),
			gates->policy->classes[cls].priority, gates_port_name(gates, at), why);
	}
}

static bool affordable(const struct gates *gates, const struct gate_port *port, uint64_t now)
{
	return port->pauses->budget_second != now / 1000000000 ||
	       port->pauses->budget_used < gates->policy->pfc.budget_per_s;
}

/* How long the peer of the port has been asked to pause. */
static void count_xoffs(struct gate_port *port, uint32_t xoff)
{
	uint64_t now = clock_ns();

	for (uint32_t cls = 0; cls < CLASSES_MAX; cls++) {
		struct gate_counters *counters = &port->counters[cls];
		uint64_t since_ns = counters->xoff_since_ns;

		if ((xoff >> cls & 1) == !!since_ns)
			continue;
		if (since_ns)
			gates_count(&counters->xoff_ns, now - since_ns);
		__atomic_store_n(&counters->xoff_since_ns,
			since_ns ? 0 : port->pauses->crossed_ns[cls], __ATOMIC_RELAXED);
	}
}

/*
 * Let the peer know what has changed. A blank frame becomes all that is to be said, as it leaves.
 * It may say XON when meanwhile, and ahead of it, the kernel has said XOFF again: then once more.
 */
static void say(struct gates *gates, struct gate_port *port)
{
	struct port_pauses *p = port->pauses;
	uint32_t xoff = __atomic_load_n(&p->xoff, __ATOMIC_ACQUIRE);
	uint32_t xon = __atomic_load_n(&p->told, __ATOMIC_ACQUIRE) & ~xoff;

	for (int i = 0; i < SAY_ROUNDS_MAX; i++) {
		if (!xon && !(xoff & ~p->told))
			break;
		link_blank(gates->blank_fd, port->conf.ifindex);
		xoff = __atomic_load_n(&p->xoff, __ATOMIC_ACQUIRE);
		if (xoff & xon)
			link_blank(gates->blank_fd, port->conf.ifindex);
		xon = __atomic_load_n(&p->told, __ATOMIC_ACQUIRE) & ~xoff;
	}
	note_xoffs(gates, port, xoff);
	count_xoffs(port, xoff);
	if (!xoff)
		port->again_ns = 0;
	else if (!port->again_ns)
		port->again_ns = clock_ns() + port->conf.pause_ns / 2;
}

/* A pause is about to run out while its cause lasts. */
static void say_again(struct gates *gates, struct gate_port *port, uint64_t now)
{
	if (!port->again_ns || now < port->again_ns)
		return;
	port->again_ns = 0;
	if (!__atomic_load_n(&port->pauses->xoff, __ATOMIC_ACQUIRE))
		return;
	port->again_ns = now + port->conf.pause_ns / 2;
	if (affordable(gates, port, now))
		link_blank(gates->blank_fd, port->conf.ifindex);
}

/* ---- from the fast thread ---- */

static bool take(__u32 *flag)
{
	return __atomic_exchange_n(flag, 0, __ATOMIC_ACQ_REL);
}

void gates_news(struct gates *gates, uint32_t slot, uint64_t event_ns)
{
	struct gate_port *port = &gates->ports[slot < SLOTS_MAX ? slot : 0];

	if (!port->pauses || !port->conf.ifindex)
		return;
	if (take(&port->pauses->arrived))
		gates_hear(gates, port, event_ns);
	if (take(&port->pauses->changed))
		say(gates, port);
}

static uint64_t sooner(uint64_t due_ns, uint64_t at_ns)
{
	return at_ns && at_ns < due_ns ? at_ns : due_ns;
}

uint64_t gates_due_ns(const struct gates *gates)
{
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t slot = 0; slot < SLOTS_MAX; slot++) {
		const struct gate_port *port = &gates->ports[slot];

		if (!port->conf.ifindex)
			continue;
		due_ns = sooner(due_ns, port->again_ns);
		due_ns = sooner(due_ns, port->watch_ns);
		for (uint32_t cls = 0; cls < gates->policy->classes_count; cls++) {
			const struct gate *gate = &port->gates[cls];

			due_ns = sooner(due_ns, gate->moves_ns);
			if (pause_is_closed(&gate->pause))
				due_ns = sooner(due_ns, gate->pause.until_ns);
		}
	}
	return due_ns;
}

void gates_run(struct gates *gates, uint64_t now_ns)
{
	for (uint32_t slot = 0; slot < SLOTS_MAX; slot++) {
		struct gate_port *port = &gates->ports[slot];

		if (!port->conf.ifindex)
			continue;
		for (uint32_t cls = 0; cls < gates->policy->classes_count; cls++) {
			gate_step(gates, port, cls, pause_expire(&port->gates[cls].pause, now_ns),
				now_ns);
			gate_verify(gates, port, cls, now_ns);
		}
		gates_watch_run(gates, port, now_ns);
		say_again(gates, port, now_ns);
	}
}

void gates_look_over(struct gates *gates, uint64_t now_ns)
{
	for (uint32_t slot = 0; slot < SLOTS_MAX; slot++) {
		struct gate_port *port = &gates->ports[slot];

		if (!port->pauses || !port->conf.ifindex)
			continue;
		take(&port->pauses->arrived);
		take(&port->pauses->changed);
		gates_hear(gates, port, now_ns);
		say(gates, port);
		if (gates->policy->pfc.watchdog.big_red_switch)
			gates_watch(gates, port, now_ns);
		if (affordable(gates, port, now_ns) || now_ns < port->alarm_ns)
			continue;
		port->alarm_ns = now_ns + NOTE_EVERY_NS;
		gates->calls.note(gates->calls.arg,
			"port %s: its budget of %u PFC frames a second is spent (pfc.budget)",
			gates_port_name(gates, slot), gates->policy->pfc.budget_per_s);
	}
}

void gates_renew(struct gates *gates, uint32_t slot, int ifindex, uint32_t mtu_bytes)
{
	struct gate_port *port = &gates->ports[slot];

	if (ifindex == port->conf.ifindex) /* some of them may be the old ones */
		for (uint32_t cls = 0; cls < gates->policy->classes_count; cls++)
			gate_force_open(gates, port, cls);
	port->conf.ifindex = ifindex;
	port->conf.spec.mtu_bytes = mtu_bytes;
	memset(port->gates, 0, sizeof(port->gates));
	if (!port->pauses)
		return;
	port->watch_ns = 0;
	__atomic_store_n(&port->pauses->closed, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&port->pauses->stormed, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&port->pauses->dropped, 0, __ATOMIC_RELEASE);
	for (uint32_t cls = 0; cls < CLASSES_MAX; cls++)
		count_pause(&port->counters[cls], clock_ns());
	if (ifindex)
		gates_hear(gates, port, clock_ns());
	look_for_xon(gates);
}

static void follow_port(struct gates *gates, const struct fast_port *conf)
{
	struct gate_port *port = &gates->ports[conf->slot];

	if (!port->pauses)
		return;
	port->conf = *conf;
	if (!conf->ifindex)
		return;
	for (uint32_t cls = 0; cls < gates->policy->classes_count; cls++) {
		gates_judge(gates, port, cls, clock_ns());
		gate_change(gates, port, cls, pause_is_closed(&port->gates[cls].pause));
	}
	gates_watch(gates, port, clock_ns());
}

void gates_follow(struct gates *gates, const struct policy *policy, const struct fast_port *ports,
	size_t ports_count)
{
	gates->policy = policy;
	for (size_t i = 0; i < ports_count; i++)
		follow_port(gates, &ports[i]);
}

static void open_port(struct gates *gates, const struct fast_port *conf)
{
	struct gate_port *port = &gates->ports[conf->slot];

	port->conf = *conf;
	port->pauses = &dataplane_pauses(gates->dp)[conf->slot];
	port->counters = &dataplane_gates(gates->dp)[gate_index(conf->slot, 0)];
	gates_renew(gates, conf->slot, conf->ifindex, conf->spec.mtu_bytes);
}

int gates_open(struct gates **out, const struct policy *policy, struct dataplane *dp,
	struct rtnl *nl, const struct fast_port *ports, size_t ports_count,
	const struct fast_calls *calls, struct qerr *err)
{
	struct gates *gates = calloc(1, sizeof(*gates));

	if (!gates)
		return qerr_set(err, -ENOMEM, "out of memory");
	gates->policy = policy;
	gates->dp = dp;
	gates->nl = nl;
	gates->calls = *calls;
	gates->blank_fd = -1;
	gates->kick_fd = link_kick_open(err);
	if (gates->kick_fd >= 0)
		gates->blank_fd = link_blank_open(CLONE_PFC, err);
	if (gates->blank_fd < 0) {
		gates_close(gates);
		return -EIO;
	}
	for (size_t i = 0; i < ports_count; i++)
		open_port(gates, &ports[i]);
	*out = gates;
	return 0;
}

void gates_close(struct gates *gates)
{
	if (!gates)
		return;
	for (uint32_t slot = 0; slot < SLOTS_MAX; slot++) {
		struct gate_port *port = &gates->ports[slot];

		if (!port->conf.ifindex || !port->pauses)
			continue;
		__atomic_store_n(&port->pauses->xoff, 0, __ATOMIC_RELEASE);
		say(gates, port);
	}
	if (gates->kick_fd >= 0)
		close(gates->kick_fd);
	if (gates->blank_fd >= 0)
		close(gates->blank_fd);
	free(gates);
}
