// SPDX-License-Identifier: BSD-2-Clause
// The answer to `quench flows`: a walk over the tables of flows, a page at a time.
#include "engine/show_flows.h"

#include <stdlib.h>

#include "observe/snapshot.h"

struct flows_answer {
	const struct engine *engine;
	size_t stage;
	bool further; /* the list has entries already */
	struct dataplane_walk walk;
	struct flow_key keys[DATAPLANE_PAGE];
	union {
		struct flow flows[DATAPLANE_PAGE];
		struct qp qps[DATAPLANE_PAGE];
		struct iwarp_way ways[DATAPLANE_PAGE];
	};
};

static void write_entry(struct flows_answer *a, json_t *entry, FILE *out)
{
	fputs(a->further ? ",\n" : "\n", out);
	json_dumpf(entry, out, JSON_COMPACT);
	json_decref(entry);
	a->further = true;
}

/* RoCE that is best effort, or in a class that may drop, is worth seeing. */
static const struct policy_class *class_of(const struct engine *engine, const struct flow *flow)
{
	__u8 index = engine->conf.dscp_class[flow->tos >> 2];

	return flow->l3 == L3_GRH || index == CLASS_NONE ? NULL : &engine->policy->classes[index];
}

static void write_flow(struct flows_answer *a, const struct flow_key *key, const struct flow *flow,
	uint64_t rate_bps, FILE *out)
{
	struct snapshot_flow f = {
		.key = *key, .flow = *flow, .rate_bps = rate_bps, .cls = class_of(a->engine, flow)};

	dataplane_get_pair(a->engine->dp, key, &f.pair);
	write_entry(a, snapshot_flow_json(&f), out);
}

/* The rate that DCQCN holds the QP to; 0: none. */
static uint64_t rate_of(const struct engine *engine, const struct qp *qp)
{
	uint16_t slot = qp->flow.slot;

	if (qp->leaf == QP_SHARED_LEAF || !slot || slot > engine->ports_count)
		return 0;
	return fast_rate_bps(engine->fast, engine->ports[slot - 1].conf.qp_base + qp->leaf);
}

/* ---- the stages, in order; each says whether there is more of it ---- */

static bool write_head(struct flows_answer *a, FILE *out)
{
	fprintf(out, "{\"version\": 1, \"instance\": \"%s\", \"flows\": [",
		a->engine->instance->name);
	return false;
}

static bool write_flows(struct flows_answer *a, FILE *out)
{
	size_t n = dataplane_next_flows(a->engine->dp, &a->walk, a->keys, a->flows);

	for (size_t i = 0; i < n; i++)
		write_flow(a, &a->keys[i], &a->flows[i], 0, out);
	return n;
}

static bool write_qps(struct flows_answer *a, FILE *out)
{
	size_t n = dataplane_next_qps(a->engine->dp, &a->walk, a->keys, a->qps);

	for (size_t i = 0; i < n; i++)
		write_flow(a, &a->keys[i], &a->qps[i].flow, rate_of(a->engine, &a->qps[i]), out);
	return n;
}

static bool write_middle(struct flows_answer *a, FILE *out)
{
	fputs("\n], \"iwarp\": [", out);
	a->further = false;
	return false;
}

static bool write_iwarp(struct flows_answer *a, FILE *out)
{
	size_t n = dataplane_next_iwarp(a->engine->dp, &a->walk, a->keys, a->ways);

	for (size_t i = 0; i < n; i++)
		write_entry(a, snapshot_iwarp_json(&a->keys[i], &a->ways[i]), out);
	return n;
}

static bool write_tail(struct flows_answer *a, FILE *out)
{
	(void)a;
	fputs("\n" SNAPSHOT_FLOWS_LAST, out);
	return false;
}

static bool write_part(void *state, FILE *out)
{
	static bool (*const stages[])(struct flows_answer *, FILE *) = {
		write_head, write_flows, write_qps, write_middle, write_iwarp, write_tail};
	struct flows_answer *a = state;

	if (!stages[a->stage](a, out)) {
		a->stage++;
		a->walk = (struct dataplane_walk){};
	}
	return a->stage < sizeof(stages) / sizeof(stages[0]);
}

bool show_flows(struct engine *engine, struct control_answer *answer)
{
	struct flows_answer *a = calloc(1, sizeof(*a));

	if (!a)
		return false;
	a->engine = engine;
	*answer = (struct control_answer){.part = write_part, .state = a};
	return true;
}
