// SPDX-License-Identifier: BSD-2-Clause
// The pause storm watchdog's eyes and hands: what it judges by, and what is done about a storm.
#include "engine/gates_state.h"

#include "dataplane/dataplane.h"

enum { LOOKS = 4 }; /* in the shorter of the two times */

static uint64_t period_ns(const struct policy_watchdog *policy)
{
	uint64_t detect_ns = policy->detect_ns ? policy->detect_ns : policy->restore_ns;

	return (detect_ns < policy->restore_ns ? detect_ns : policy->restore_ns) / LOOKS;
}

static uint64_t storm_drops(const struct gates *gates, const struct gate_port *port)
{
	struct port_stats stats;

	return dataplane_get_stats(gates->dp, port->conf.slot, &stats)
		       ? 0
		       : stats.drops[PORT_DROP_STORM];
}

static void set_bit(__u32 *bits, uint32_t cls, bool on)
{
	if (on)
		__atomic_fetch_or(bits, 1u << cls, __ATOMIC_RELEASE);
	else
		__atomic_fetch_and(bits, ~(1u << cls), __ATOMIC_RELEASE);
}

bool gates_ignored(const struct gate_port *port, uint32_t cls)
{
	return port->pauses->stormed >> cls & 1;
}

static bool obeys(const struct gates *gates, const struct gate_port *port, uint32_t cls)
{
	return port->conf.obeyed >> gates->policy->classes[cls].priority & 1;
}

void gates_judge(struct gates *gates, struct gate_port *port, uint32_t cls, uint64_t now_ns)
{
	struct watchdog *watchdog = &port->gates[cls].watchdog;
	enum watchdog_mitigation what = MITIGATE_NONE;

	if (obeys(gates, port, cls))
		what = watchdog_mitigation(watchdog, &gates->policy->pfc.watchdog);
	else
		*watchdog = (struct watchdog){};
	set_bit(&port->pauses->stormed, cls, what != MITIGATE_NONE);
	set_bit(&port->pauses->dropped, cls, what == MITIGATE_DROP);
	if (what != MITIGATE_NONE || !obeys(gates, port, cls))
		gate_force_open(gates, port, cls);
	else
		gates_hear(gates, port, now_ns);
}

static void on_storm(struct gates *gates, struct gate_port *port, uint32_t cls,
	const struct watchdog_sample *sample)
{
	static const char *const actions[] = {
		[WATCHDOG_DROP] = "its frames are dropped",
		[WATCHDOG_FORWARD] = "the pause is ignored",
		[WATCHDOG_ALERT] = "nothing is done about it (action: alert)",
	};
	struct gate *gate = &port->gates[cls];

	gates_count(&port->counters[cls].storms, 1);
	gate->storm_ns = sample->now_ns;
	gate->storm_drops = storm_drops(gates, port);
	gates->calls.note(gates->calls.arg,
		"port %s: pause storm on priority %u, %llu bytes wait: %s until no XOFF comes "
		"for %llu ms",
		gates_port_name(gates, port->conf.slot), gates->policy->classes[cls].priority,
		(unsigned long long)sample->backlog_bytes,
		actions[gates->policy->pfc.watchdog.action],
		(unsigned long long)gates->policy->pfc.watchdog.restore_ns / 1000000);
}

static void on_restore(struct gates *gates, struct gate_port *port, uint32_t cls,
	const struct watchdog_sample *sample)
{
	struct gate *gate = &port->gates[cls];

	gates_count(&port->counters[cls].restores, 1);
	gates->calls.note(gates->calls.arg,
		"port %s: the pause storm on priority %u is over after %.1f s; %llu frames were "
		"dropped",
		gates_port_name(gates, port->conf.slot), gates->policy->classes[cls].priority,
		(sample->now_ns - gate->storm_ns) / 1e9,
		(unsigned long long)(storm_drops(gates, port) - gate->storm_drops));
	gate->storm_ns = 0;
}

static bool take_sample(struct gates *gates, struct gate_port *port, uint32_t cls, uint64_t now_ns,
	struct watchdog_sample *sample)
{
	uint32_t priority = gates->policy->classes[cls].priority;
	const struct gate_counters *counters = &port->counters[cls];
	struct tc_qdisc_stats stats;

	if (!gate_look(gates, port, cls, &stats))
		return false;
	*sample = (struct watchdog_sample){
		.now_ns = now_ns,
		.backlog_bytes = stats.backlog_bytes,
		.sent_bytes = stats.bytes,
		.paused_ns = counters->paused_ns,
		.xoffs = __atomic_load_n(&port->pauses->xoffs[priority], __ATOMIC_RELAXED),
		.until_ns = __atomic_load_n(&port->pauses->until_ns[priority], __ATOMIC_RELAXED),
	};
	if (counters->paused_since_ns && counters->paused_since_ns < now_ns)
		sample->paused_ns += now_ns - counters->paused_since_ns;
	return true;
}

/* A look at one class; false: there is nothing more to look at. */
static bool look(struct gates *gates, struct gate_port *port, uint32_t cls, uint64_t now_ns)
{
	struct gate *gate = &port->gates[cls];
	struct watchdog_sample sample;
	enum watchdog_change change;
	bool news;

	if (!take_sample(gates, port, cls, now_ns, &sample))
		return gate->watchdog.storm || pause_is_closed(&gate->pause);
	change = watchdog_look(&gate->watchdog, &gates->policy->pfc.watchdog, &sample);
	if (change == WATCHDOG_STORM)
		on_storm(gates, port, cls, &sample);
	if (change == WATCHDOG_RESTORE)
		on_restore(gates, port, cls, &sample);
	if (change != WATCHDOG_NONE || gate->watchdog.storm) /* the guardian may have ended it */
		gates_judge(gates, port, cls, now_ns);
	news = sample.xoffs != gate->watched_xoffs;
	gate->watched_xoffs = sample.xoffs;
	if (news || gate->watchdog.storm || pause_is_closed(&gate->pause))
		return true;
	gate->watchdog = (struct watchdog){};
	return false;
}

static bool look_at_all(struct gates *gates, struct gate_port *port, uint64_t now_ns)
{
	bool more = false;

	for (uint32_t cls = 0; cls < gates->policy->classes_count; cls++)
		if (obeys(gates, port, cls))
			more |= look(gates, port, cls, now_ns);
	return more;
}

void gates_watch(struct gates *gates, struct gate_port *port, uint64_t now_ns)
{
	const struct policy_watchdog *policy = &gates->policy->pfc.watchdog;

	if (port->watch_ns || (!policy->detect_ns && !policy->big_red_switch))
		return;
	port->watch_ns = now_ns + period_ns(policy);
	look_at_all(gates, port, now_ns);
}

void gates_watch_run(struct gates *gates, struct gate_port *port, uint64_t now_ns)
{
	if (!port->watch_ns || now_ns < port->watch_ns)
		return;
	port->watch_ns = 0;
	if (look_at_all(gates, port, now_ns))
		port->watch_ns = now_ns + period_ns(&gates->policy->pfc.watchdog);
}
