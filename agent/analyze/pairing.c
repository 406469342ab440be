// SPDX-License-Identifier: BSD-2-Clause
// QP pairs of a capture: from CM through the pair learner, else from the PSNs of answers.
#include "analyze/pairing.h"

#include <string.h>

enum { PAIR_EVIDENCE = 3 }; /* answers in a row that must fit one flow's requests */

static void join(struct analyze_flow *flow, uint32_t peer_qpn, enum flow_pair_source source)
{
	flow->peer_qpn = peer_qpn;
	flow->pair_source = source;
}

struct analyze_flow *analyze_reverse(const struct analyze *a, const struct analyze_flow *flow)
{
	struct flow_key key = flow_reverse_key(&flow->key, flow->peer_qpn);

	return flow->pair_source ? table_find(&a->flows, &key) : NULL;
}

/* A connection begins: a QP that had one before counts its PSNs afresh. */
static void join_by_cm(struct analyze *a, const struct endpoint *from, const struct endpoint *to)
{
	struct analyze_flow *flow;
	struct flow_key key = {.dst_qpn = to->qpn};

	memcpy(key.src, from->addr, sizeof(key.src));
	memcpy(key.dst, to->addr, sizeof(key.dst));
	flow = table_find(&a->flows, &key);
	if (!flow)
		return;
	flow->reused = flow->packets > 0;
	flow->requests.known = 0;
	flow->responses.known = 0;
	join(flow, from->qpn, FLOW_PAIR_CM);
}

void pairing_start(struct analyze *a, struct analyze_flow *flow)
{
	const struct flow_key *key = &flow->key;
	const struct endpoint *peer = pairs_peer(a->pairs, key->dst, key->dst_qpn, key->src);

	if (peer)
		join(flow, peer->qpn, FLOW_PAIR_CM);
}

void pairing_learn_cm(
	struct analyze *a, const struct wire_frame *f, const struct wire_cm *cm, uint64_t time_ns)
{
	struct pairs_changes changes = pairs_learn(a->pairs, f->key.src, f->key.dst, cm, time_ns);

	for (size_t i = 0; i < changes.count; i++) {
		if (changes.change[i].event != PAIRS_UP)
			continue;
		join_by_cm(a, &changes.change[i].a, &changes.change[i].b);
		join_by_cm(a, &changes.change[i].b, &changes.change[i].a);
	}
}

void pairing_expect(struct analyze *a, const struct analyze_flow *flow, uint32_t psn)
{
	if (!flow->pair_source)
		a->recent[psn % ANALYZE_RECENT_REQUESTS] = (struct recent_request){
			.flow = table_index(&a->flows, flow) + 1, .psn = psn};
}

static bool runs_against(const struct analyze_flow *a, const struct analyze_flow *b)
{
	return !memcmp(a->key.src, b->key.dst, sizeof(a->key.src)) &&
	       !memcmp(a->key.dst, b->key.src, sizeof(a->key.dst));
}

void pairing_match(struct analyze *a, struct analyze_flow *flow, uint32_t psn)
{
	const struct recent_request *request = &a->recent[psn % ANALYZE_RECENT_REQUESTS];
	struct analyze_flow *asked;

	if (flow->pair_source || !request->flow || request->psn != psn)
		return;
	asked = analyze_flow_at(a, request->flow - 1);
	if (asked->pair_source || !runs_against(asked, flow))
		return;
	if (flow->candidate != request->flow) {
		flow->candidate = request->flow;
		flow->evidence = 0;
	} else if (flow->candidate_psn == psn) {
		return;
	}
	flow->candidate_psn = psn;
	if (++flow->evidence < PAIR_EVIDENCE)
		return;
	join(flow, asked->key.dst_qpn, FLOW_PAIR_ACK);
	join(asked, flow->key.dst_qpn, FLOW_PAIR_ACK);
}
