// SPDX-License-Identifier: BSD-2-Clause
// Which QP talks to which: two hash tables over preallocated entries, oldest first out.
#include "control/pairs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

enum { BELIEFS_MAX = 65536 };

/* A REQ on its way to become a pair, and until that is accepted. */
struct handshake {
	struct { /* hashed as bytes: no padding */
		__be32 addr[4];
		uint32_t comm_id;
		uint32_t anchor; /* 0 in all that a message can name */
	} key;
	__be32 dst[4];
	uint32_t qpn;
	uint32_t peer_qpn; /* the REP's; 0: none yet */
	uint64_t seen_ns;
	struct handshake *prev, *next; /* in use: by age; free: unordered */
	UT_hash_handle hh;
};

struct known_pair;

struct pair_end {
	struct endpoint self; /* hashed as bytes */
	struct known_pair *pair;
	UT_hash_handle hh;
};
_Static_assert(sizeof(struct endpoint) == 20, "endpoint is hashed as bytes");

struct known_pair {
	struct pair_end a, b;
	enum pair_source source;
	struct known_pair *prev, *next; /* from policy: unordered; else by age */
};

/* What answers say of one end's peer at one host. */
struct belief {
	struct endpoint self;
	__be32 peer_addr[4];
	uint32_t peer_qpn;
	uint32_t psn;	/* of the last answer */
	uint32_t count; /* of answers in a row that agree */
	uint64_t seen_ns;
	uint64_t muted_until_ns;
};

/*
 * uthash gives a table's memory back with its last entry and takes it again with the next: each
 * table holds an anchor, one entry that no message can name, so that it stays.
 */
struct pairs {
	struct handshake *handshake_store, *handshakes_free, *handshakes_old;
	struct handshake handshake_anchor;
	struct handshake *by_id;
	struct known_pair *pair_store, *pairs_free, *pairs_old, *pairs_fixed;
	struct pair_end end_anchor;
	struct pair_end *by_endpoint;
	size_t handshakes, pairs;
	struct belief *beliefs; /* by hash; a newer one takes an older one's place */
	size_t beliefs_mask;
};

static bool qpn_valid(uint32_t qpn)
{
	return qpn > QPN_CM && qpn <= BTH_QPN_MASK;
}

static bool addr_equal(const __be32 a[4], const __be32 b[4])
{
	return !memcmp(a, b, 4 * sizeof(*a));
}

static bool endpoint_equal(const struct endpoint *a, const struct endpoint *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static struct endpoint endpoint_of(const __be32 addr[4], uint32_t qpn)
{
	struct endpoint e = {.qpn = qpn};

	memcpy(e.addr, addr, sizeof(e.addr));
	return e;
}

static void report(
	struct pairs_changes *changes, enum pairs_event event, const struct known_pair *pair)
{
	changes->change[changes->count++] = (struct pairs_change){
		.event = event,
		.source = pair->source,
		.a = pair->a.self,
		.b = pair->b.self,
	};
}

static bool anchor_tables(struct pairs *p)
{
	p->handshake_anchor.key.anchor = 1;
	HASH_ADD(hh, p->by_id, key, sizeof(p->handshake_anchor.key), (&p->handshake_anchor));
	HASH_ADD(hh, p->by_endpoint, self, sizeof(p->end_anchor.self), (&p->end_anchor));
	return p->by_id && p->by_endpoint;
}

static size_t power_of_two(size_t least)
{
	size_t power = 1024;

	while (power < least && power < BELIEFS_MAX)
		power *= 2;
	return power;
}

struct pairs *pairs_new(size_t max_handshakes, size_t max_pairs)
{
	struct pairs *p;
	size_t i;

	if (!max_handshakes || !max_pairs)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->handshake_store = calloc(max_handshakes, sizeof(*p->handshake_store));
	p->pair_store = calloc(max_pairs, sizeof(*p->pair_store));
	p->beliefs_mask = power_of_two(2 * max_pairs) - 1;
	p->beliefs = calloc(p->beliefs_mask + 1, sizeof(*p->beliefs));
	if (!p->handshake_store || !p->pair_store || !p->beliefs || !anchor_tables(p)) {
		pairs_free(p);
		return NULL;
	}
	for (i = 0; i < max_handshakes; i++)
		DL_APPEND(p->handshakes_free, &p->handshake_store[i]);
	for (i = 0; i < max_pairs; i++)
		DL_APPEND(p->pairs_free, &p->pair_store[i]);
	return p;
}

void pairs_free(struct pairs *p)
{
	if (!p)
		return;
	HASH_CLEAR(hh, p->by_id);
	HASH_CLEAR(hh, p->by_endpoint);
	free(p->handshake_store);
	free(p->pair_store);
	free(p->beliefs);
	free(p);
}

/* Handshakes */

static struct handshake *find_handshake(struct pairs *p, const __be32 addr[4], uint32_t comm_id)
{
	struct handshake *h, wanted = {.key.comm_id = comm_id};

	memcpy(wanted.key.addr, addr, sizeof(wanted.key.addr));
	HASH_FIND(hh, p->by_id, &wanted.key, sizeof(wanted.key), h);
	return h;
}

static void drop_handshake(struct pairs *p, struct handshake *h)
{
	HASH_DELETE(hh, p->by_id, h);
	DL_DELETE(p->handshakes_old, h);
	DL_PREPEND(p->handshakes_free, h);
	p->handshakes -= !h->peer_qpn;
}

static void expire_handshakes(struct pairs *p, uint64_t now_ns)
{
	struct handshake *h;

	while ((h = p->handshakes_old)) {
		if (now_ns < h->seen_ns || now_ns - h->seen_ns < PAIRS_HANDSHAKE_NS)
			return;
		drop_handshake(p, h);
	}
}

/* An entry under that key, in the table as its youngest; NULL without memory for the table. */
static struct handshake *new_handshake(struct pairs *p, const __be32 addr[4], uint32_t comm_id)
{
	struct handshake *h;

	if (!p->handshakes_free)
		drop_handshake(p, p->handshakes_old);
	h = p->handshakes_free;
	memcpy(h->key.addr, addr, sizeof(h->key.addr));
	h->key.comm_id = comm_id;
	HASH_ADD(hh, p->by_id, key, sizeof(h->key), h);
	if (!h->hh.tbl)
		return NULL;
	DL_DELETE(p->handshakes_free, h);
	DL_APPEND(p->handshakes_old, h);
	p->handshakes++;
	return h;
}

static void learn_req(struct pairs *p, const __be32 src[4], const __be32 dst[4],
	const struct wire_cm *cm, uint64_t now_ns)
{
	struct handshake *h;

	if (!qpn_valid(cm->qpn))
		return;
	h = find_handshake(p, src, cm->local_id);
	if (h)
		drop_handshake(p, h);
	h = new_handshake(p, src, cm->local_id);
	if (!h)
		return;
	memcpy(h->dst, dst, sizeof(h->dst));
	h->qpn = cm->qpn;
	h->peer_qpn = 0;
	h->seen_ns = now_ns;
}

/* Pairs */

static struct pair_end *find_end(const struct pairs *p, const struct endpoint *self)
{
	struct pair_end *end;

	HASH_FIND(hh, p->by_endpoint, self, sizeof(*self), end);
	return end;
}

static struct known_pair *find_pair(const struct pairs *p, const struct endpoint *self)
{
	struct pair_end *end = find_end(p, self);

	return end ? end->pair : NULL;
}

static const struct endpoint *other_end(const struct pair_end *end)
{
	return end == &end->pair->a ? &end->pair->b.self : &end->pair->a.self;
}

static bool joins(const struct known_pair *pair, const struct endpoint *a, const struct endpoint *b)
{
	return (endpoint_equal(&pair->a.self, a) && endpoint_equal(&pair->b.self, b)) ||
	       (endpoint_equal(&pair->a.self, b) && endpoint_equal(&pair->b.self, a));
}

static bool is_fixed(const struct known_pair *pair)
{
	return pair && pair->source == PAIR_POLICY;
}

/* Somebody who knows has told of it. */
static bool is_told(const struct known_pair *pair)
{
	return pair && pair->source != PAIR_ANSWERS;
}

static struct known_pair **list_of(struct pairs *p, const struct known_pair *pair)
{
	return is_fixed(pair) ? &p->pairs_fixed : &p->pairs_old;
}

static void end_pair(struct pairs *p, struct known_pair *pair, struct pairs_changes *changes)
{
	struct known_pair **list = list_of(p, pair);

	report(changes, PAIRS_DOWN, pair);
	HASH_DELETE(hh, p->by_endpoint, &pair->a);
	HASH_DELETE(hh, p->by_endpoint, &pair->b);
	DL_DELETE(*list, pair);
	DL_PREPEND(p->pairs_free, pair);
	p->pairs--;
}

static bool hash_end(struct pairs *p, struct known_pair *pair, struct pair_end *end)
{
	end->pair = pair;
	HASH_ADD(hh, p->by_endpoint, self, sizeof(end->self), end);
	return end->hh.tbl;
}

static bool hash_pair(struct pairs *p, struct known_pair *pair)
{
	if (!hash_end(p, pair, &pair->a))
		return false;
	if (hash_end(p, pair, &pair->b))
		return true;
	HASH_DELETE(hh, p->by_endpoint, &pair->a);
	return false;
}

/* The pair is known already: from policy it stays, else its source is the later one. */
static void tell_again(struct pairs *p, struct known_pair *pair, enum pair_source source,
	struct pairs_changes *changes)
{
	struct known_pair **from = list_of(p, pair), **to;
	bool other = !is_fixed(pair) && pair->source != source;

	DL_DELETE(*from, pair);
	if (!is_fixed(pair))
		pair->source = source;
	to = list_of(p, pair);
	DL_APPEND(*to, pair);
	if (other)
		report(changes, PAIRS_UP, pair);
}

/* Make room: the pairs that hold one of the ends go, or else the oldest when none is free. */
static void displace(struct pairs *p, struct known_pair *at_a, struct known_pair *at_b,
	struct pairs_changes *changes)
{
	if (at_a)
		end_pair(p, at_a, changes);
	if (at_b && at_b != at_a)
		end_pair(p, at_b, changes);
	if (!p->pairs_free && p->pairs_old)
		end_pair(p, p->pairs_old, changes);
}

static void start_pair(struct pairs *p, const struct endpoint *a, const struct endpoint *b,
	enum pair_source source, struct pairs_changes *changes)
{
	struct known_pair **list, *pair = p->pairs_free;

	if (!pair)
		return;
	pair->a.self = *a;
	pair->b.self = *b;
	pair->source = source;
	if (!hash_pair(p, pair))
		return;
	list = list_of(p, pair);
	DL_DELETE(p->pairs_free, pair);
	DL_APPEND(*list, pair);
	p->pairs++;
	report(changes, PAIRS_UP, pair);
}

static void set_pair(struct pairs *p, const struct endpoint *a, const struct endpoint *b,
	enum pair_source source, struct pairs_changes *changes)
{
	struct known_pair *at_a = find_pair(p, a), *at_b = find_pair(p, b);

	if (!qpn_valid(a->qpn) || !qpn_valid(b->qpn) || endpoint_equal(a, b))
		return;
	if (at_a && joins(at_a, a, b)) {
		tell_again(p, at_a, source, changes);
		return;
	}
	if (is_fixed(at_a) || is_fixed(at_b))
		return;
	displace(p, at_a, at_b, changes);
	start_pair(p, a, b, source, changes);
}

static void learn_rep(struct pairs *p, const __be32 src[4], const __be32 dst[4],
	const struct wire_cm *cm, struct pairs_changes *changes)
{
	struct handshake *h = find_handshake(p, dst, cm->remote_id);
	struct endpoint a, b;

	if (!h || h->peer_qpn || !qpn_valid(cm->qpn) || !addr_equal(h->dst, src))
		return;
	a = endpoint_of(dst, h->qpn);
	b = endpoint_of(src, cm->qpn);
	h->peer_qpn = cm->qpn;
	p->handshakes--;
	set_pair(p, &a, &b, PAIR_CM, changes);
}

/* The handshake's pair, if it is still there and still CM's. */
static struct known_pair *pair_of_handshake(const struct pairs *p, const struct handshake *h)
{
	struct endpoint a = endpoint_of(h->key.addr, h->qpn);
	struct endpoint b = endpoint_of(h->dst, h->peer_qpn);
	struct known_pair *pair = find_pair(p, &a);

	return pair && pair->source == PAIR_CM && joins(pair, &a, &b) ? pair : NULL;
}

/* The receiver of a REQ does not want it, or its sender does not want the REP. */
static void learn_rej(struct pairs *p, const __be32 src[4], const __be32 dst[4],
	const struct wire_cm *cm, struct pairs_changes *changes)
{
	struct handshake *asked = find_handshake(p, dst, cm->remote_id);
	struct handshake *answered = find_handshake(p, src, cm->local_id);
	struct known_pair *pair;

	if (asked && !asked->peer_qpn && addr_equal(asked->dst, src))
		drop_handshake(p, asked);
	if (!answered || !answered->peer_qpn || !addr_equal(answered->dst, dst))
		return;
	pair = pair_of_handshake(p, answered);
	drop_handshake(p, answered);
	if (pair)
		end_pair(p, pair, changes);
}

/* From here on only a DREQ ends the pair. */
static void learn_rtu(
	struct pairs *p, const __be32 src[4], const __be32 dst[4], const struct wire_cm *cm)
{
	struct handshake *h = find_handshake(p, src, cm->local_id);

	if (h && h->peer_qpn && addr_equal(h->dst, dst))
		drop_handshake(p, h);
}

/* Answers */

static struct belief *belief_at(
	const struct pairs *p, const struct endpoint *self, const __be32 peer_addr[4])
{
	unsigned int hash, more;

	HASH_JEN(self, sizeof(*self), hash);
	HASH_JEN(peer_addr, 4 * sizeof(*peer_addr), more);
	return &p->beliefs[(hash ^ more * 31) & p->beliefs_mask];
}

/* Take in that self's peer is said to be `peer`; returns how often in a row it was. */
static uint32_t believe(struct pairs *p, const struct endpoint *self, const struct endpoint *peer,
	uint32_t psn, uint64_t now_ns)
{
	struct belief *b = belief_at(p, self, peer->addr);

	if (!endpoint_equal(&b->self, self) || !addr_equal(b->peer_addr, peer->addr)) {
		*b = (struct belief){.self = *self};
		memcpy(b->peer_addr, peer->addr, sizeof(b->peer_addr));
	}
	if (now_ns < b->muted_until_ns)
		return 0;
	if (b->peer_qpn != peer->qpn || now_ns - b->seen_ns > PAIRS_EVIDENCE_NS)
		b->count = 0;
	b->count += !b->count || b->psn != psn;
	b->peer_qpn = peer->qpn;
	b->psn = psn;
	b->seen_ns = now_ns;
	return b->count;
}

/* Frames of a connection that has ended are still on their way. */
static void mute(
	struct pairs *p, const struct endpoint *self, const struct endpoint *peer, uint64_t now_ns)
{
	struct belief *b = belief_at(p, self, peer->addr);

	*b = (struct belief){.self = *self, .muted_until_ns = now_ns + PAIRS_TIMEWAIT_NS};
	memcpy(b->peer_addr, peer->addr, sizeof(b->peer_addr));
}

/* So many answers say that this end has another peer than its pair says. */
static void contradict(
	struct pairs *p, struct known_pair *pair, uint32_t count, struct pairs_changes *changes)
{
	if (pair && count >= PAIRS_EVIDENCE)
		end_pair(p, pair, changes);
}

struct pairs_changes pairs_answer(struct pairs *p, const __be32 from[4], const struct endpoint *to,
	uint32_t asked_qpn, uint32_t psn, uint64_t now_ns)
{
	const struct endpoint a = *to, b = endpoint_of(from, asked_qpn);
	struct pairs_changes changes = {0};
	struct known_pair *at_a = find_pair(p, &a), *at_b = find_pair(p, &b);
	uint32_t of_a, of_b;

	if (!qpn_valid(a.qpn) || !qpn_valid(b.qpn) || endpoint_equal(&a, &b) || is_told(at_a) ||
		is_told(at_b))
		return changes;
	of_a = believe(p, &a, &b, psn, now_ns);
	of_b = believe(p, &b, &a, psn, now_ns);
	if (at_a && at_a == at_b)
		return changes;
	contradict(p, at_a, of_a, &changes);
	contradict(p, at_b, of_b, &changes);
	if (of_a >= PAIRS_EVIDENCE && of_b >= PAIRS_EVIDENCE)
		set_pair(p, &a, &b, PAIR_ANSWERS, &changes);
	return changes;
}

static void learn_dreq(struct pairs *p, const __be32 src[4], const __be32 dst[4],
	const struct wire_cm *cm, uint64_t now_ns, struct pairs_changes *changes)
{
	struct endpoint receiver = endpoint_of(dst, cm->qpn), sender;
	struct pair_end *end = find_end(p, &receiver);

	if (!qpn_valid(cm->qpn) || !end || is_fixed(end->pair))
		return;
	sender = *other_end(end);
	if (!addr_equal(sender.addr, src))
		return;
	mute(p, &receiver, &sender, now_ns);
	mute(p, &sender, &receiver, now_ns);
	end_pair(p, end->pair, changes);
}

struct pairs_changes pairs_learn(struct pairs *p, const __be32 src[4], const __be32 dst[4],
	const struct wire_cm *cm, uint64_t now_ns)
{
	struct pairs_changes changes = {0};

	expire_handshakes(p, now_ns);
	switch (cm->attribute) {
	case CM_REQ:
		learn_req(p, src, dst, cm, now_ns);
		break;
	case CM_REP:
		learn_rep(p, src, dst, cm, &changes);
		break;
	case CM_REJ:
		learn_rej(p, src, dst, cm, &changes);
		break;
	case CM_RTU:
		learn_rtu(p, src, dst, cm);
		break;
	case CM_DREQ:
		learn_dreq(p, src, dst, cm, now_ns, &changes);
		break;
	}
	return changes;
}

struct pairs_changes pairs_add(struct pairs *p, const struct endpoint *a, const struct endpoint *b)
{
	struct pairs_changes changes = {0};

	set_pair(p, a, b, PAIR_POLICY, &changes);
	return changes;
}

struct pairs_changes pairs_add_local(
	struct pairs *p, const struct endpoint *local, const struct endpoint *peer)
{
	struct pairs_changes changes = {0};

	set_pair(p, local, peer, PAIR_NETLINK, &changes);
	return changes;
}

struct pairs_changes pairs_remove_local(
	struct pairs *p, const struct endpoint *local, const struct endpoint *peer)
{
	struct known_pair *pair = qpn_valid(local->qpn) ? find_pair(p, local) : NULL;
	struct pairs_changes changes = {0};

	if (pair && pair->source == PAIR_NETLINK && joins(pair, local, peer))
		end_pair(p, pair, &changes);
	return changes;
}

struct pairs_changes pairs_restore(struct pairs *p, const struct endpoint *a,
	const struct endpoint *b, enum pair_source source)
{
	struct pairs_changes changes = {0};

	set_pair(p, a, b, source, &changes);
	return changes;
}

struct pairs_changes pairs_remove(
	struct pairs *p, const struct endpoint *a, const struct endpoint *b)
{
	struct pairs_changes changes = {0};
	struct known_pair *pair = qpn_valid(a->qpn) ? find_pair(p, a) : NULL;

	if (pair && joins(pair, a, b))
		end_pair(p, pair, &changes);
	return changes;
}

const struct endpoint *pairs_peer(
	const struct pairs *p, const __be32 addr[4], uint32_t qpn, const __be32 peer_addr[4])
{
	const struct endpoint self = endpoint_of(addr, qpn), *peer;
	const struct pair_end *end = find_end(p, &self);

	if (!qpn_valid(qpn) || !end)
		return NULL;
	peer = other_end(end);
	return addr_equal(peer->addr, peer_addr) ? peer : NULL;
}

size_t pairs_count(const struct pairs *p)
{
	return p->pairs;
}

size_t pairs_handshakes(const struct pairs *p)
{
	return p->handshakes;
}
