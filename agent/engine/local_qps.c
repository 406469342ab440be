// SPDX-License-Identifier: BSD-2-Clause
// The QPs of this machine: what the kernel says of them against the pairs that are known.
#include "engine/local_qps.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "control/local.h"
#include "engine/state.h"
#include "netlink/rdma.h"

#define MS_NS	 1000000ull
#define FRESH_NS 30000000000ull /* flows are dated to ten seconds */

/* One look: what the kernel says now, and the changes that make of it. */
struct look {
	const struct dataplane *dp;
	uint64_t now_ns;
	struct rdma_state state;
	struct local_address *addresses;
	struct local local;
	struct local_pair *pairs;
	size_t pairs_count;
	struct fast_local_change *changes;
	size_t changes_count, changes_room;
	int code;
};

static bool is_host(const struct engine *engine, size_t i)
{
	return engine->ports[i].policy->role == PORT_HOST;
}

/* How often CNPs came, or were due, at hosts for which no pair was known. */
static uint64_t count_unknown(const struct engine *engine)
{
	struct port_stats stats;
	uint64_t count = 0;

	for (size_t i = 0; i < engine->ports_count; i++)
		if (is_host(engine, i) &&
			!dataplane_get_stats(engine->dp, engine->ports[i].conf.slot, &stats))
			count += stats.cnp_unknown_pair +
				 stats.cnp_suppressed[CNP_SUPPRESSED_UNKNOWN_PAIR];
	return count;
}

/* Without RDMA on this machine no QP is the answer. */
static int read_state(struct look *look, struct qerr *err)
{
	struct rtnl *nl;
	int code = rdma_open(&nl, err);

	if (code == -EPROTONOSUPPORT)
		return 0;
	if (!code)
		code = rdma_read(nl, &look->state, err);
	rtnl_close(nl);
	for (size_t i = 0; !code && i < look->state.devices_count; i++)
		if (look->state.devices[i].here &&
			rdma_addresses(RDMA_CLASS, &look->state.devices[i], &look->addresses,
				&look->local.addresses_count))
			code = qerr_set(err, -ENOMEM, "out of memory");
	look->local.qps = look->state.qps;
	look->local.qps_count = look->state.qps_count;
	look->local.addresses = look->addresses;
	return code;
}

static bool is_fresh(const struct look *look, const struct flow *flow)
{
	return look->now_ns < flow->last_ns + FRESH_NS;
}

static bool has_sent(void *arg, const struct flow_key *key)
{
	const struct look *look = arg;
	struct qp qp;

	return dataplane_get_qp(look->dp, key, &qp) && is_fresh(look, &qp.flow);
}

static void see_flows(struct look *look)
{
	struct flow_key keys[DATAPLANE_PAGE];
	struct flow flows[DATAPLANE_PAGE];
	struct dataplane_walk walk = {};
	size_t n;

	while ((n = dataplane_next_flows(look->dp, &walk, keys, flows)))
		for (size_t i = 0; i < n; i++)
			if (is_fresh(look, &flows[i]))
				local_see(&look->local, &keys[i], has_sent, look);
}

static void pair_ends(const struct flow_key *flow, const struct pair *pair, struct endpoint *from,
	struct endpoint *to)
{
	memcpy(from->addr, flow->src, sizeof(from->addr));
	memcpy(to->addr, flow->dst, sizeof(to->addr));
	from->qpn = pair->peer_qpn;
	to->qpn = flow->dst_qpn;
}

static void keep_pair(void *arg, const struct flow_key *flow, const struct pair *pair)
{
	struct look *look = arg;
	struct endpoint from, to;

	pair_ends(flow, pair, &from, &to);
	if (pair->source == PAIR_NETLINK)
		local_keep(&look->local, &from, &to);
}

static void change(struct look *look, bool up, const struct endpoint *a, const struct endpoint *b)
{
	if (look->changes_count == look->changes_room) {
		size_t room = 2 * look->changes_room + 16;
		struct fast_local_change *more =
			realloc(look->changes, room * sizeof(*look->changes));

		if (!more) {
			look->code = -ENOMEM;
			return;
		}
		look->changes = more;
		look->changes_room = room;
	}
	look->changes[look->changes_count++] =
		(struct fast_local_change){.up = up, .local = *a, .peer = *b};
}

static void end_pair(void *arg, const struct flow_key *flow, const struct pair *pair)
{
	struct look *look = arg;
	struct endpoint from, to;

	pair_ends(flow, pair, &from, &to);
	if (pair->source == PAIR_NETLINK &&
		!local_has_pair(look->pairs, look->pairs_count, &from, &to))
		change(look, false, &from, &to);
}

/* Is that known from where it is known best? */
static bool is_known(const struct look *look, const struct local_pair *pair)
{
	struct flow_key flow = {.dst_qpn = pair->to.qpn};
	struct pair known;

	memcpy(flow.src, pair->from.addr, sizeof(flow.src));
	memcpy(flow.dst, pair->to.addr, sizeof(flow.dst));
	return dataplane_get_pair(look->dp, &flow, &known) && known.peer_qpn == pair->from.qpn &&
	       (known.source == PAIR_NETLINK || known.source == PAIR_POLICY);
}

/* Those that ended first: others may have taken their ends. */
static int compare(struct look *look, struct qerr *err)
{
	look->pairs = calloc(2 * look->local.qps_count + 1, sizeof(*look->pairs));
	if (!look->pairs)
		return qerr_set(err, -ENOMEM, "out of memory");
	look->pairs_count = local_pairs(&look->local, look->pairs);
	dataplane_each_pair(look->dp, end_pair, look);
	for (size_t i = 0; i < look->pairs_count; i++)
		if (!is_known(look, &look->pairs[i]))
			change(look, true, &look->pairs[i].from, &look->pairs[i].to);
	return look->code ? qerr_set(err, look->code, "out of memory") : 0;
}

static int look_at_qps(struct engine *engine, uint64_t now_ns, struct qerr *err)
{
	struct look look = {.dp = engine->dp, .now_ns = now_ns};
	int code = read_state(&look, err);

	if (!code && look.local.qps_count) {
		see_flows(&look);
		dataplane_each_pair(look.dp, keep_pair, &look);
	}
	if (!code)
		code = compare(&look, err);
	if (!code)
		code = fast_local_pairs(engine->fast, look.changes, look.changes_count, err);
	rdma_free(&look.state);
	free(look.addresses);
	free(look.pairs);
	free(look.changes);
	return code;
}

int local_qps_patience_ms(const struct engine *engine)
{
	for (size_t i = 0; i < engine->ports_count; i++)
		if (is_host(engine, i))
			return LOCAL_QPS_HASTE_MS;
	return INT_MAX;
}

void local_qps_turn(struct engine *engine, uint64_t now_ns)
{
	struct local_qps *qps = &engine->local_qps;
	uint64_t unknown;
	struct qerr err = {};
	int code;

	if (local_qps_patience_ms(engine) == INT_MAX ||
		(qps->looked_ns && now_ns < qps->looked_ns + LOCAL_QPS_HASTE_MS * MS_NS))
		return;
	unknown = count_unknown(engine);
	if (qps->looked_ns && unknown == qps->unknown &&
		now_ns < qps->looked_ns + LOCAL_QPS_EVERY_MS * MS_NS)
		return;
	qps->looked_ns = now_ns;
	qps->unknown = unknown;
	code = look_at_qps(engine, now_ns, &err);
	if (code && code != qps->code)
		events_note(&engine->events, "%s", err.text);
	qps->code = code;
}
