// SPDX-License-Identifier: BSD-2-Clause
// What the agent tells of itself: metrics, and the answers to commands.
#include "engine/show.h"

#include <stdlib.h>
#include <string.h>

#include "engine/port.h"
#include "engine/reload.h"
#include "engine/show_flows.h"
#include "engine/state.h"
#include "netlink/tc.h"
#include "observe/snapshot.h"

/* A tree that was made anew counts from 0; the sum does not. */
static void sum_drops(struct engine_port *port, uint32_t tree_drops)
{
	port->drops += tree_drops >= port->tree_drops ? tree_drops - port->tree_drops : tree_drops;
	port->tree_drops = tree_drops;
}

static void snapshot_port(struct engine *engine, size_t i, struct snapshot_port *out)
{
	const struct fast_gauges *gauges = fast_gauges(engine->fast);
	struct engine_port *port = &engine->ports[i];
	struct tc_qdisc_stats stats, sink;

	memcpy(out->name, port->link.name, sizeof(out->name));
	out->role = port->policy->role;
	out->gone = port->gone;
	if (port->gone)
		return;
	out->xdp = dataplane_xdp_mode(engine->dp, port->link.ifindex);
	out->tags_hidden = port->tags_hidden;
	out->xdp_native = out->xdp == XDP_MODE_IS_NATIVE;
	dataplane_get_stats(engine->dp, port->conf.slot, &out->stats);
	dataplane_get_state(engine->dp, port->conf.slot, &out->state);
	memcpy(out->gates, &dataplane_gates(engine->dp)[gate_index(port->conf.slot, 0)],
		sizeof(out->gates));
	nic_pauses_read(port->link.name, &out->nic_pauses);
	out->obeyed = port->conf.obeyed;
	out->pausing = port->conf.pausing;
	out->stormed = dataplane_pauses(engine->dp)[port->conf.slot].stormed;
	out->qps_limited = gauges->limited[port->conf.slot];
	out->qp_classes_taken = gauges->taken[port->conf.slot];
	if (!port_has_queues(port))
		return;
	for (size_t c = 0; c < engine->policy->classes_count; c++)
		if (!tc_stats(engine->nl, port->link.ifindex, TREE_HANDLE(TREE_GATE + c), &stats,
			    NULL))
			out->occupancy_bytes[c] = stats.backlog_bytes;
	if (!tc_stats(engine->nl, port->link.ifindex, TREE_HANDLE(TREE_ROOT), &stats, NULL) &&
		!tc_stats(engine->nl, port->link.ifindex, TREE_HANDLE(TREE_SINK_LEAF), &sink, NULL))
		sum_drops(port, stats.drops - sink.drops);
	out->queue_drops = port->drops;
}

static struct snapshot *take_snapshot(struct engine *engine)
{
	const struct fast_gauges *gauges = fast_gauges(engine->fast);
	struct snapshot *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	pthread_mutex_lock(&engine->nl_lock);
	snprintf(s->instance, sizeof(s->instance), "%s", engine->instance->name);
	snprintf(s->policy_path, sizeof(s->policy_path), "%s", engine->policy_path);
	s->policy_loaded_at = engine->loaded_at;
	s->policy_result = engine->reload_result;
	s->classes_count = engine->policy->classes_count;
	memcpy(s->classes, engine->policy->classes, sizeof(s->classes));
	s->now_ns = engine_now_ns();
	s->pairs = gauges->pairs;
	s->counters = *dataplane_counters(engine->dp);
	s->ports_count = engine->ports_count;
	for (size_t i = 0; i < engine->ports_count; i++)
		snapshot_port(engine, i, &s->ports[i]);
	pthread_mutex_unlock(&engine->nl_lock);
	return s;
}

/* An interface that is gone has no series, rather than figures that stand still. */
static void leave_out_gone(struct snapshot *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->ports_count; i++)
		if (!s->ports[i].gone)
			s->ports[kept++] = s->ports[i];
	s->ports_count = kept;
}

void show_metrics(void *arg, FILE *out)
{
	struct snapshot *s = take_snapshot(arg);

	if (s) {
		leave_out_gone(s);
		snapshot_write_metrics(s, out);
	}
	free(s);
}

static json_t *show_status(struct engine *engine)
{
	struct snapshot *s = take_snapshot(engine);
	json_t *doc = s ? snapshot_status_json(s) : NULL;

	free(s);
	return doc;
}

static json_t *show_events(struct engine *engine)
{
	return json_pack("{s:i, s:s, s:o}", "version", 1, "instance", engine->instance->name,
		"events", events_json(&engine->events));
}

static json_t *on_release(struct engine *engine)
{
	engine->release = true;
	return json_pack("{s:s}", "result", "releasing");
}

bool show_answer(void *arg, const char *command, struct control_answer *answer)
{
	static const struct {
		const char *name;
		json_t *(*answer)(struct engine *engine);
	} commands[] = {
		{"status", show_status},
		{"events", show_events},
		{"reload", engine_reload},
		{"release", on_release},
	};

	if (!strcmp(command, "flows"))
		return show_flows(arg, answer);
	for (size_t i = 0; !answer->doc && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(command, commands[i].name))
			answer->doc = commands[i].answer(arg);
	return answer->doc;
}
