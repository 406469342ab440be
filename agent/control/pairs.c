// SPDX-License-Identifier: BSD-2-Clause
// Which QP talks to which: two hash tables over preallocated entries, oldest first out.
#include "control/pairs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

/* A REQ on its way to become a pair. */
struct handshake {
	struct { /* hashed as bytes: no padding */
		__be32 addr[4];
		uint32_t comm_id;
		uint32_t anchor; /* 0 in all that a message can name */
	} key;
	__be32 dst[4];
	uint32_t qpn;
	uint64_t seen_ns;
	struct handshake *prev, *next; /* in use: by age; free: unordered */
	UT_hash_handle hh;
};

struct pair;

struct pair_end {
	struct endpoint self; /* hashed as bytes */
	struct pair *pair;
	UT_hash_handle hh;
};
_Static_assert(sizeof(struct endpoint) == 20, "endpoint is hashed as bytes");

struct pair {
	struct pair_end a, b;
	bool fixed;		  /* from policy */
	struct pair *prev, *next; /* learned: by age; else unordered */
};

/*
 * uthash gives a table's memory back with its last entry and takes it again with the next: each
 * table holds an anchor, one entry that no message can name, so that it stays.
 */
struct pairs {
	struct handshake *handshake_store, *handshakes_free, *handshakes_old;
	struct handshake handshake_anchor;
	struct handshake *by_id;
	struct pair *pair_store, *pairs_free, *pairs_old, *pairs_fixed;
	struct pair_end end_anchor;
	struct pair_end *by_endpoint;
	size_t handshakes, pairs;
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

static void report(struct pairs_changes *changes, enum pairs_event event, const struct pair *pair)
{
	changes->change[changes->count++] = (struct pairs_change){
		.event = event,
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
	if (!p->handshake_store || !p->pair_store || !anchor_tables(p)) {
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
	p->handshakes--;
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
	h->seen_ns = now_ns;
}

/* Pairs */

static struct pair_end *find_end(const struct pairs *p, const struct endpoint *self)
{
	struct pair_end *end;

	HASH_FIND(hh, p->by_endpoint, self, sizeof(*self), end);
	return end;
}

static struct pair *find_pair(const struct pairs *p, const struct endpoint *self)
{
	struct pair_end *end = find_end(p, self);

	return end ? end->pair : NULL;
}

static const struct endpoint *other_end(const struct pair_end *end)
{
	return end == &end->pair->a ? &end->pair->b.self : &end->pair->a.self;
}

static bool joins(const struct pair *pair, const struct endpoint *a, const struct endpoint *b)
{
	return (endpoint_equal(&pair->a.self, a) && endpoint_equal(&pair->b.self, b)) ||
	       (endpoint_equal(&pair->a.self, b) && endpoint_equal(&pair->b.self, a));
}

static struct pair **list_of(struct pairs *p, const struct pair *pair)
{
	return pair->fixed ? &p->pairs_fixed : &p->pairs_old;
}

static void end_pair(struct pairs *p, struct pair *pair, struct pairs_changes *changes)
{
	struct pair **list = list_of(p, pair);

	report(changes, PAIRS_DOWN, pair);
	HASH_DELETE(hh, p->by_endpoint, &pair->a);
	HASH_DELETE(hh, p->by_endpoint, &pair->b);
	DL_DELETE(*list, pair);
	DL_PREPEND(p->pairs_free, pair);
	p->pairs--;
}

static bool hash_end(struct pairs *p, struct pair *pair, struct pair_end *end)
{
	end->pair = pair;
	HASH_ADD(hh, p->by_endpoint, self, sizeof(end->self), end);
	return end->hh.tbl;
}

static bool hash_pair(struct pairs *p, struct pair *pair)
{
	if (!hash_end(p, pair, &pair->a))
		return false;
	if (hash_end(p, pair, &pair->b))
		return true;
	HASH_DELETE(hh, p->by_endpoint, &pair->a);
	return false;
}

static void move_to_list(struct pairs *p, struct pair *pair, bool fixed)
{
	struct pair **from = list_of(p, pair), **to;

	DL_DELETE(*from, pair);
	pair->fixed = fixed;
	to = list_of(p, pair);
	DL_APPEND(*to, pair);
}

/* Make room: the pairs that hold one of the ends go, or else the oldest when none is free. */
static void displace(
	struct pairs *p, struct pair *at_a, struct pair *at_b, struct pairs_changes *changes)
{
	if (at_a)
		end_pair(p, at_a, changes);
	if (at_b && at_b != at_a)
		end_pair(p, at_b, changes);
	if (!p->pairs_free && p->pairs_old)
		end_pair(p, p->pairs_old, changes);
}

static void start_pair(struct pairs *p, const struct endpoint *a, const struct endpoint *b,
	bool fixed, struct pairs_changes *changes)
{
	struct pair **list, *pair = p->pairs_free;

	if (!pair)
		return;
	pair->a.self = *a;
	pair->b.self = *b;
	pair->fixed = fixed;
	if (!hash_pair(p, pair))
		return;
	list = list_of(p, pair);
	DL_DELETE(p->pairs_free, pair);
	DL_APPEND(*list, pair);
	p->pairs++;
	report(changes, PAIRS_UP, pair);
}

static void set_pair(struct pairs *p, const struct endpoint *a, const struct endpoint *b,
	bool fixed, struct pairs_changes *changes)
{
	struct pair *at_a = find_pair(p, a), *at_b = find_pair(p, b);

	if (!qpn_valid(a->qpn) || !qpn_valid(b->qpn) || endpoint_equal(a, b))
		return;
	if (at_a && joins(at_a, a, b)) {
		move_to_list(p, at_a, at_a->fixed || fixed);
		return;
	}
	if ((at_a && at_a->fixed) || (at_b && at_b->fixed))
		return;
	displace(p, at_a, at_b, changes);
	start_pair(p, a, b, fixed, changes);
}

static void learn_rep(struct pairs *p, const __be32 src[4], const __be32 dst[4],
	const struct wire_cm *cm, struct pairs_changes *changes)
{
	struct handshake *h = find_handshake(p, dst, cm->remote_id);
	struct endpoint a, b;

	if (!h || !qpn_valid(cm->qpn) || !addr_equal(h->dst, src))
		return;
	a = endpoint_of(dst, h->qpn);
	b = endpoint_of(src, cm->qpn);
	drop_handshake(p, h);
	set_pair(p, &a, &b, false, changes);
}

/* The receiver of a REQ does not want it. */
static void learn_rej(
	struct pairs *p, const __be32 src[4], const __be32 dst[4], const struct wire_cm *cm)
{
	struct handshake *h = find_handshake(p, dst, cm->remote_id);

	if (h && addr_equal(h->dst, src))
		drop_handshake(p, h);
}

static void learn_dreq(struct pairs *p, const __be32 src[4], const __be32 dst[4],
	const struct wire_cm *cm, struct pairs_changes *changes)
{
	struct endpoint receiver = endpoint_of(dst, cm->qpn);
	struct pair_end *end = find_end(p, &receiver);

	if (!qpn_valid(cm->qpn) || !end || end->pair->fixed)
		return;
	if (addr_equal(other_end(end)->addr, src))
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
		learn_rej(p, src, dst, cm);
		break;
	case CM_DREQ:
		learn_dreq(p, src, dst, cm, &changes);
		break;
	}
	return changes;
}

struct pairs_changes pairs_add(struct pairs *p, const struct endpoint *a, const struct endpoint *b)
{
	struct pairs_changes changes = {0};

	set_pair(p, a, b, true, &changes);
	return changes;
}

struct pairs_changes pairs_restore(
	struct pairs *p, const struct endpoint *a, const struct endpoint *b)
{
	struct pairs_changes changes = {0};

	set_pair(p, a, b, false, &changes);
	return changes;
}

struct pairs_changes pairs_remove(
	struct pairs *p, const struct endpoint *a, const struct endpoint *b)
{
	struct pairs_changes changes = {0};
	struct pair *pair = qpn_valid(a->qpn) ? find_pair(p, a) : NULL;

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
