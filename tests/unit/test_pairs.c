// SPDX-License-Identifier: BSD-2-Clause
// Learning QP pairs: real CM frames, lost and repeated messages, reuse, and hostile hosts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/pairs.h"

#define SECOND 1000000000ull

enum { HANDSHAKES = 8, PAIRS = 4 };

struct host {
	__be32 addr[4];
};

static struct host host_v4(uint32_t addr)
{
	struct host h;

	wire_map_ipv4(h.addr, htonl(addr));
	return h;
}

static const struct host unspecified;
static struct host h1, h2, h3;

static int set_up(void **state)
{
	h1 = host_v4(0xc0000201);
	h2 = host_v4(0xc0000202);
	h3 = host_v4(0xc0000203);
	*state = pairs_new(HANDSHAKES, PAIRS);
	return *state ? 0 : -1;
}

static int tear_down(void **state)
{
	pairs_free(*state);
	return 0;
}

static struct endpoint at(const struct host *h, uint32_t qpn)
{
	struct endpoint e = {.qpn = qpn};

	memcpy(e.addr, h->addr, sizeof(e.addr));
	return e;
}

static struct pairs_changes req_at(struct pairs *p, const struct host *src, const struct host *dst,
	uint32_t id, uint32_t qpn, uint64_t now_ns)
{
	struct wire_cm cm = {.attribute = CM_REQ, .local_id = id, .qpn = qpn};

	return pairs_learn(p, src->addr, dst->addr, &cm, now_ns);
}

static struct pairs_changes rep_at(struct pairs *p, const struct host *src, const struct host *dst,
	uint32_t remote_id, uint32_t qpn, uint64_t now_ns)
{
	struct wire_cm cm = {.attribute = CM_REP, .remote_id = remote_id, .qpn = qpn};

	return pairs_learn(p, src->addr, dst->addr, &cm, now_ns);
}

static struct pairs_changes req(
	struct pairs *p, const struct host *src, const struct host *dst, uint32_t id, uint32_t qpn)
{
	return req_at(p, src, dst, id, qpn, 0);
}

static struct pairs_changes rep(struct pairs *p, const struct host *src, const struct host *dst,
	uint32_t remote_id, uint32_t qpn)
{
	return rep_at(p, src, dst, remote_id, qpn, 0);
}

static struct pairs_changes dreq(
	struct pairs *p, const struct host *src, const struct host *dst, uint32_t qpn)
{
	struct wire_cm cm = {.attribute = CM_DREQ, .qpn = qpn};

	return pairs_learn(p, src->addr, dst->addr, &cm, 0);
}

static struct pairs_changes tell(struct pairs *p, const struct host *src, const struct host *dst,
	__u16 attribute, uint32_t remote_id)
{
	struct wire_cm cm = {.attribute = attribute, .remote_id = remote_id};

	return pairs_learn(p, src->addr, dst->addr, &cm, 0);
}

static void assert_nothing(struct pairs_changes c)
{
	assert_int_equal(c.count, 0);
}

static void assert_change(const struct pairs_changes *c, size_t i, enum pairs_event event,
	struct endpoint a, struct endpoint b)
{
	assert_true(i < c->count);
	assert_int_equal(c->change[i].event, event);
	assert_memory_equal(&c->change[i].a, &a, sizeof(a));
	assert_memory_equal(&c->change[i].b, &b, sizeof(b));
}

static void assert_only(
	struct pairs_changes c, enum pairs_event event, struct endpoint a, struct endpoint b)
{
	assert_int_equal(c.count, 1);
	assert_change(&c, 0, event, a, b);
}

static void assert_peer(const struct pairs *p, struct endpoint self, struct endpoint peer)
{
	const struct endpoint *found = pairs_peer(p, self.addr, self.qpn, peer.addr);

	assert_non_null(found);
	assert_memory_equal(found, &peer, sizeof(peer));
}

static void assert_no_peer(const struct pairs *p, struct endpoint self, const struct host *peer)
{
	assert_null(pairs_peer(p, self.addr, self.qpn, peer->addr));
}

static struct pairs_changes connect_pair(
	struct pairs *p, const struct host *a, uint32_t qpn_a, const struct host *b, uint32_t qpn_b)
{
	assert_nothing(req(p, a, b, 0x1000 + qpn_a, qpn_a));
	return rep(p, b, a, 0x1000 + qpn_a, qpn_b);
}

/* The bytes of one row of tests/vectors/cm.txt; returns how many. */
static size_t read_frame(const char *name, uint8_t *frame, size_t max)
{
	char line[2048], row[32], hex[2000];
	FILE *f = fopen("tests/vectors/cm.txt", "r");
	size_t len = 0;
	unsigned int byte;

	if (!f)
		fail_msg(
			"tests/vectors/cm.txt: %s (run from the top of the tree)", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%31s %*s %*s %*s %*s %*s %1999s", row, hex) != 2 ||
			strcmp(row, name))
			continue;
		while (len < max && sscanf(hex + 2 * len, "%2x", &byte) == 1)
			frame[len++] = byte;
	}
	fclose(f);
	return len;
}

static struct pairs_changes learn_frame(struct pairs *p, const char *name)
{
	static _Alignas(8) uint8_t buffer[2 + 1024];
	uint8_t *frame = buffer + 2;
	size_t len = read_frame(name, frame, 1024);
	struct wire_frame f;
	struct wire_cm cm;

	wire_frame_init(&f);
	assert_int_equal(wire_parse(frame, frame + len, &f), WIRE_CM);
	assert_true(f.bth_off + BTH_BYTES + DETH_BYTES + MAD_BYTES <= (int)len);
	assert_true(wire_read_cm(frame + f.bth_off + BTH_BYTES + DETH_BYTES, &cm));
	return pairs_learn(p, f.key.src, f.key.dst, &cm, 0);
}

static void real_frames_make_and_end_a_pair(void **state)
{
	struct pairs *p = *state;
	struct endpoint a = at(&h1, 0x001122), b = at(&h2, 0x003344);

	assert_nothing(learn_frame(p, "req"));
	assert_int_equal(pairs_handshakes(p), 1);
	assert_no_peer(p, a, &h2);
	assert_only(learn_frame(p, "rep"), PAIRS_UP, a, b);
	assert_int_equal(pairs_handshakes(p), 0);
	assert_nothing(learn_frame(p, "rtu"));
	assert_peer(p, a, b);
	assert_peer(p, b, a);
	assert_only(learn_frame(p, "dreq"), PAIRS_DOWN, a, b);
	assert_no_peer(p, a, &h2);
	assert_no_peer(p, b, &h1);
	assert_int_equal(pairs_count(p), 0);
	assert_nothing(learn_frame(p, "dreq"));
}

static void repeated_messages_change_nothing(void **state)
{
	struct pairs *p = *state;

	assert_nothing(req(p, &h1, &h2, 7, 0x11));
	assert_nothing(req(p, &h1, &h2, 7, 0x11));
	assert_int_equal(pairs_handshakes(p), 1);
	assert_only(rep(p, &h2, &h1, 7, 0x12), PAIRS_UP, at(&h1, 0x11), at(&h2, 0x12));
	assert_nothing(rep(p, &h2, &h1, 7, 0x12));
	assert_nothing(req(p, &h1, &h2, 7, 0x11)); /* one that was late */
	assert_nothing(rep(p, &h2, &h1, 7, 0x12));
	assert_int_equal(pairs_count(p), 1);
	assert_int_equal(pairs_handshakes(p), 0);
}

static void rep_repeated_after_dreq_brings_nothing_back(void **state)
{
	struct pairs *p = *state;

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_int_equal(dreq(p, &h2, &h1, 0x11).count, 1);
	assert_nothing(rep(p, &h2, &h1, 0x1011, 0x12));
	assert_int_equal(pairs_count(p), 0);
}

static void rep_without_req_is_ignored(void **state)
{
	assert_nothing(rep(*state, &h2, &h1, 7, 0x12));
	assert_int_equal(pairs_count(*state), 0);
}

static void rep_from_another_host_is_ignored(void **state)
{
	struct pairs *p = *state;

	req(p, &h1, &h2, 7, 0x11);
	assert_nothing(rep(p, &h3, &h1, 7, 0x66));
	assert_only(rep(p, &h2, &h1, 7, 0x12), PAIRS_UP, at(&h1, 0x11), at(&h2, 0x12));
}

static void rej_ends_the_handshake(void **state)
{
	struct pairs *p = *state;

	assert_nothing(req(p, &h1, &h2, 7, 10));
	assert_nothing(tell(p, &h2, &h1, CM_REJ, 7));
	assert_nothing(rep(p, &h2, &h1, 7, 20));
}

static void rej_of_another_host_or_request_is_ignored(void **state)
{
	struct pairs *p = *state;

	assert_nothing(req(p, &h1, &h2, 7, 10));
	assert_nothing(tell(p, &h3, &h1, CM_REJ, 7));
	assert_nothing(tell(p, &h2, &h1, CM_REJ, 8));
	assert_nothing(tell(p, &h1, &h2, CM_REJ, 7));
	assert_only(rep(p, &h2, &h1, 7, 20), PAIRS_UP, at(&h1, 10), at(&h2, 20));
}

static void messages_that_make_and_end_nothing_change_nothing(void **state)
{
	static const __u16 others[] = {CM_MRA, CM_RTU, CM_LAP, CM_DREP};
	struct pairs *p = *state;
	size_t i;

	connect_pair(p, &h1, 10, &h2, 20);
	assert_nothing(req(p, &h1, &h2, 7, 11));
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_nothing(tell(p, &h2, &h1, others[i], 7));
		assert_nothing(tell(p, &h1, &h2, others[i], 7));
	}
	assert_peer(p, at(&h1, 10), at(&h2, 20));
	assert_only(rep(p, &h2, &h1, 7, 21), PAIRS_UP, at(&h1, 11), at(&h2, 21));
}

static void same_comm_id_on_two_hosts_is_two_handshakes(void **state)
{
	struct pairs *p = *state;

	req(p, &h1, &h3, 7, 0x11);
	req(p, &h2, &h3, 7, 0x22);
	assert_int_equal(pairs_handshakes(p), 2);
	assert_only(rep(p, &h3, &h2, 7, 0x32), PAIRS_UP, at(&h2, 0x22), at(&h3, 0x32));
	assert_only(rep(p, &h3, &h1, 7, 0x31), PAIRS_UP, at(&h1, 0x11), at(&h3, 0x31));
	assert_peer(p, at(&h3, 0x31), at(&h1, 0x11));
	assert_peer(p, at(&h3, 0x32), at(&h2, 0x22));
}

static void same_qpn_on_both_hosts_is_a_pair(void **state)
{
	struct pairs *p = *state;

	assert_only(connect_pair(p, &h1, 0x11, &h2, 0x11), PAIRS_UP, at(&h1, 0x11), at(&h2, 0x11));
	assert_peer(p, at(&h1, 0x11), at(&h2, 0x11));
	assert_peer(p, at(&h2, 0x11), at(&h1, 0x11));
	assert_int_equal(dreq(p, &h1, &h2, 0x11).count, 1);
	assert_int_equal(pairs_count(p), 0);
}

static void pair_within_one_host_is_a_pair_but_not_with_itself(void **state)
{
	struct pairs *p = *state;

	assert_int_equal(connect_pair(p, &h1, 0x11, &h1, 0x12).count, 1);
	assert_peer(p, at(&h1, 0x11), at(&h1, 0x12));
	assert_nothing(connect_pair(p, &h1, 0x13, &h1, 0x13));
	assert_int_equal(dreq(p, &h1, &h1, 0x12).count, 1);
	assert_int_equal(pairs_count(p), 0);
}

static void dreq_from_either_side_ends_the_pair(void **state)
{
	struct pairs *p = *state;
	struct endpoint a = at(&h1, 0x11), b = at(&h2, 0x12);

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_only(dreq(p, &h1, &h2, 0x12), PAIRS_DOWN, a, b);
	connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_only(dreq(p, &h2, &h1, 0x11), PAIRS_DOWN, a, b);
}

static void dreq_that_does_not_fit_the_pair_is_ignored(void **state)
{
	struct pairs *p = *state;

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_nothing(dreq(p, &h3, &h2, 0x12)); /* not the peer */
	assert_nothing(dreq(p, &h1, &h2, 0x11)); /* the sender's own QPN */
	assert_nothing(dreq(p, &h1, &h2, 0x99));
	assert_nothing(dreq(p, &unspecified, &unspecified, 0));
	assert_int_equal(pairs_count(p), 1);
}

static void reserved_qpns_are_refused(void **state)
{
	static const uint32_t reserved[] = {0, 1, 0x1000000, UINT32_MAX};
	struct pairs *p = *state;
	size_t i;

	for (i = 0; i < 4; i++) {
		struct endpoint bad = at(&h1, reserved[i]), good = at(&h2, 0x12);

		assert_nothing(req(p, &h1, &h2, 7, reserved[i]));
		assert_int_equal(pairs_handshakes(p), 0);
		assert_nothing(connect_pair(p, &h1, 0x11, &h2, reserved[i]));
		req(p, &h1, &h2, 0x1011, 0x11);
		rep(p, &h2, &h1, 0x1011, 0x12);
		dreq(p, &h1, &h2, 0x12);
		assert_nothing(pairs_add(p, &bad, &good));
		assert_nothing(pairs_add(p, &good, &bad));
		assert_nothing(pairs_remove(p, &bad, &good));
	}
	assert_int_equal(pairs_count(p), 0);
}

/* What keeps the tables alive has the address :: and ID 0; no message must reach it. */
static void unspecified_address_is_like_any_other(void **state)
{
	struct pairs *p = *state;

	assert_nothing(rep(p, &unspecified, &unspecified, 0, 0x12));
	assert_nothing(req(p, &unspecified, &h2, 0, 0x11));
	assert_int_equal(pairs_handshakes(p), 1);
	assert_int_equal(rep(p, &h2, &unspecified, 0, 0x12).count, 1);
	assert_null(pairs_peer(p, unspecified.addr, 0, unspecified.addr));
	assert_int_equal(dreq(p, &h2, &unspecified, 0x11).count, 1);
}

static void new_pair_on_an_old_endpoint_ends_the_old_pair(void **state)
{
	struct pairs *p = *state;
	struct pairs_changes c;

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	c = connect_pair(p, &h1, 0x11, &h3, 0x13);
	assert_int_equal(c.count, 2);
	assert_change(&c, 0, PAIRS_DOWN, at(&h1, 0x11), at(&h2, 0x12));
	assert_change(&c, 1, PAIRS_UP, at(&h1, 0x11), at(&h3, 0x13));
	assert_no_peer(p, at(&h2, 0x12), &h1);
	assert_int_equal(pairs_count(p), 1);
}

static void new_pair_on_two_old_endpoints_ends_both(void **state)
{
	struct pairs *p = *state;
	struct pairs_changes c;

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	connect_pair(p, &h3, 0x13, &h2, 0x14);
	c = connect_pair(p, &h1, 0x11, &h3, 0x13);
	assert_int_equal(c.count, 3);
	assert_change(&c, 0, PAIRS_DOWN, at(&h1, 0x11), at(&h2, 0x12));
	assert_change(&c, 1, PAIRS_DOWN, at(&h3, 0x13), at(&h2, 0x14));
	assert_change(&c, 2, PAIRS_UP, at(&h1, 0x11), at(&h3, 0x13));
	assert_int_equal(pairs_count(p), 1);
}

static void peer_at_another_address_is_no_peer(void **state)
{
	struct pairs *p = *state;

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_no_peer(p, at(&h1, 0x11), &h3);
	assert_no_peer(p, at(&h1, 0x12), &h2);
	assert_no_peer(p, at(&h3, 0x11), &h2);
}

static void handshake_ages_out(void **state)
{
	struct pairs *p = *state;

	req_at(p, &h1, &h2, 7, 0x11, 0);
	req_at(p, &h1, &h2, 8, 0x21, 0);
	req_at(p, &h1, &h2, 7, 0x11, 30 * SECOND); /* repeated: young again */
	assert_nothing(rep_at(p, &h2, &h1, 8, 0x22, 60 * SECOND));
	assert_int_equal(pairs_handshakes(p), 1);
	assert_int_equal(rep_at(p, &h2, &h1, 7, 0x12, 90 * SECOND - 1).count, 1);
	assert_int_equal(pairs_handshakes(p), 0);
}

static void time_backwards_ages_nothing(void **state)
{
	struct pairs *p = *state;

	req_at(p, &h1, &h2, 7, 0x11, 100 * SECOND);
	assert_int_equal(rep_at(p, &h2, &h1, 7, 0x12, 0).count, 1);
}

static void full_handshakes_drop_the_oldest(void **state)
{
	struct pairs *p = *state;
	uint32_t i;

	for (i = 0; i <= HANDSHAKES; i++)
		req_at(p, &h1, &h2, i, 0x100 + i, i);
	assert_int_equal(pairs_handshakes(p), HANDSHAKES);
	assert_nothing(rep(p, &h2, &h1, 0, 0x12));
	assert_int_equal(rep(p, &h2, &h1, 1, 0x12).count, 1);
}

static void full_pairs_end_the_oldest_learned(void **state)
{
	struct pairs *p = *state;
	struct endpoint fixed_a = at(&h1, 0x50), fixed_b = at(&h2, 0x51);
	struct pairs_changes c;
	uint32_t i;

	assert_only(pairs_add(p, &fixed_a, &fixed_b), PAIRS_UP, fixed_a, fixed_b);
	for (i = 1; i < PAIRS; i++)
		assert_int_equal(connect_pair(p, &h1, 0x100 + i, &h2, 0x200 + i).count, 1);
	connect_pair(p, &h1, 0x101, &h2, 0x201); /* seen again: no longer the oldest */
	c = connect_pair(p, &h1, 0x1ff, &h2, 0x2ff);
	assert_int_equal(c.count, 2);
	assert_change(&c, 0, PAIRS_DOWN, at(&h1, 0x102), at(&h2, 0x202));
	assert_change(&c, 1, PAIRS_UP, at(&h1, 0x1ff), at(&h2, 0x2ff));
	assert_int_equal(pairs_count(p), PAIRS);
	assert_peer(p, fixed_a, fixed_b);
}

static void hostile_flood_stays_within_the_tables(void **state)
{
	struct pairs *p = *state;
	struct endpoint fixed_a = at(&h1, 0x50), fixed_b = at(&h2, 0x51);
	uint32_t i;

	pairs_add(p, &fixed_a, &fixed_b);
	for (i = 0; i < 200000; i++) {
		struct host victim = host_v4(0x0a000000 + i % 977);

		req_at(p, &h3, &victim, i * 2654435761u, 2 + i % 0xfffffd, i);
		if (i % 3)
			rep_at(p, &victim, &h3, i * 2654435761u, 2 + i % 1009, i);
		dreq(p, &h3, &h1, 0x50);
		assert_true(pairs_handshakes(p) <= HANDSHAKES);
		assert_true(pairs_count(p) <= PAIRS);
	}
	assert_peer(p, fixed_a, fixed_b);
	assert_peer(p, fixed_b, fixed_a);
}

static void fixed_pair_is_not_ended_or_replaced(void **state)
{
	struct pairs *p = *state;
	struct endpoint a = at(&h1, 0x11), b = at(&h2, 0x12);

	assert_only(pairs_add(p, &a, &b), PAIRS_UP, a, b);
	assert_nothing(pairs_add(p, &b, &a));
	assert_nothing(dreq(p, &h1, &h2, 0x12));
	assert_nothing(dreq(p, &h2, &h1, 0x11));
	assert_nothing(connect_pair(p, &h1, 0x11, &h3, 0x13));
	assert_nothing(connect_pair(p, &h3, 0x13, &h2, 0x12));
	assert_nothing(connect_pair(p, &h1, 0x11, &h2, 0x12));
	assert_nothing(dreq(p, &h1, &h2, 0x12));
	assert_peer(p, a, b);
}

static void add_over_learned_pairs_replaces_or_keeps_them(void **state)
{
	struct pairs *p = *state;
	struct endpoint a = at(&h1, 0x11), b = at(&h2, 0x12), c = at(&h3, 0x13);
	struct pairs_changes changes;

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_only(pairs_add(p, &a, &b), PAIRS_UP, a, b); /* from another source */
	assert_nothing(dreq(p, &h1, &h2, 0x12));	   /* it is fixed now */
	assert_int_equal(pairs_remove(p, &b, &a).count, 1);

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	changes = pairs_add(p, &a, &c);
	assert_int_equal(changes.count, 2);
	assert_change(&changes, 0, PAIRS_DOWN, a, b);
	assert_change(&changes, 1, PAIRS_UP, a, c);
	assert_nothing(pairs_add(p, &a, &b)); /* the first from policy stands */
}

static void add_to_a_table_full_of_fixed_pairs_does_nothing(void **state)
{
	struct pairs *p = *state;
	uint32_t i;

	for (i = 0; i <= PAIRS; i++) {
		struct endpoint a = at(&h1, 0x100 + i), b = at(&h2, 0x200 + i);

		assert_int_equal(pairs_add(p, &a, &b).count, i < PAIRS);
	}
	assert_nothing(connect_pair(p, &h1, 0x11, &h2, 0x12));
	assert_int_equal(pairs_count(p), PAIRS);
}

static void remove_ends_exactly_that_pair(void **state)
{
	struct pairs *p = *state;
	struct endpoint a = at(&h1, 0x11), b = at(&h2, 0x12), other = at(&h2, 0x13);

	pairs_add(p, &a, &b);
	assert_nothing(pairs_remove(p, &a, &other));
	assert_nothing(pairs_remove(p, &other, &a));
	assert_only(pairs_remove(p, &a, &b), PAIRS_DOWN, a, b);
	assert_nothing(pairs_remove(p, &a, &b));
	assert_int_equal(pairs_count(p), 0);
}

static struct pairs_changes tell_ids(struct pairs *p, const struct host *src,
	const struct host *dst, __u16 attribute, uint32_t local_id, uint32_t remote_id)
{
	struct wire_cm cm = {.attribute = attribute, .local_id = local_id, .remote_id = remote_id};

	return pairs_learn(p, src->addr, dst->addr, &cm, 0);
}

static void rej_of_the_rep_ends_the_pair(void **state)
{
	struct pairs *p = *state;

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_nothing(tell_ids(p, &h1, &h3, CM_REJ, 0x1011, 77)); /* to another host */
	assert_nothing(tell_ids(p, &h1, &h2, CM_REJ, 0x1012, 77)); /* of another connection */
	assert_only(tell_ids(p, &h1, &h2, CM_REJ, 0x1011, 77), PAIRS_DOWN, at(&h1, 0x11),
		at(&h2, 0x12));
	assert_nothing(rep(p, &h2, &h1, 0x1011, 0x12)); /* repeated: the REJ had been lost there */
	assert_int_equal(pairs_count(p), 0);
}

static void rej_after_the_rtu_changes_nothing(void **state)
{
	struct pairs *p = *state;

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_nothing(tell_ids(p, &h1, &h2, CM_RTU, 0x1011, 77));
	assert_nothing(tell_ids(p, &h1, &h2, CM_REJ, 0x1011, 77));
	assert_peer(p, at(&h1, 0x11), at(&h2, 0x12));
}

static void rej_of_the_rep_leaves_a_later_pair_alone(void **state)
{
	struct pairs *p = *state;

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	connect_pair(p, &h3, 0x13, &h2, 0x12);
	assert_nothing(tell_ids(p, &h1, &h2, CM_REJ, 0x1011, 77));
	assert_peer(p, at(&h3, 0x13), at(&h2, 0x12));
}

/* host b answers host a: QP qpn_a had asked qpn_b with that PSN */
static struct pairs_changes answer_at(struct pairs *p, const struct host *b, const struct host *a,
	uint32_t qpn_a, uint32_t qpn_b, uint32_t psn, uint64_t now_ns)
{
	struct endpoint to = at(a, qpn_a);

	return pairs_answer(p, b->addr, &to, qpn_b, psn, now_ns);
}

static struct pairs_changes answers(struct pairs *p, const struct host *b, const struct host *a,
	uint32_t qpn_a, uint32_t qpn_b, uint32_t psn)
{
	uint32_t i;

	for (i = 0; i < PAIRS_EVIDENCE - 1; i++)
		assert_nothing(answer_at(p, b, a, qpn_a, qpn_b, psn + i, SECOND));
	return answer_at(p, b, a, qpn_a, qpn_b, psn + i, SECOND);
}

static void assert_source(const struct pairs_changes *c, size_t i, enum pair_source source)
{
	assert_int_equal(c->change[i].source, source);
}

static void answers_that_agree_make_a_pair(void **state)
{
	struct pairs *p = *state;
	struct pairs_changes c = answers(p, &h2, &h1, 0x11, 0x12, 7);

	assert_source(&c, 0, PAIR_ANSWERS);
	assert_only(c, PAIRS_UP, at(&h1, 0x11), at(&h2, 0x12));
	assert_peer(p, at(&h1, 0x11), at(&h2, 0x12));
	assert_peer(p, at(&h2, 0x12), at(&h1, 0x11));
	assert_nothing(answer_at(p, &h2, &h1, 0x11, 0x12, 99, SECOND));
	assert_nothing(answer_at(p, &h1, &h2, 0x12, 0x11, 3, SECOND)); /* the other way round */
}

static void answers_with_one_psn_or_far_apart_are_no_evidence(void **state)
{
	struct pairs *p = *state;
	uint64_t now;
	int i;

	for (i = 0; i < 10; i++)
		assert_nothing(answer_at(p, &h2, &h1, 0x11, 0x12, 7, SECOND));
	for (i = 0, now = SECOND; i < 10; i++, now += PAIRS_EVIDENCE_NS + 1)
		assert_nothing(answer_at(p, &h2, &h1, 0x11, 0x12, i, now));
	assert_nothing(answers(p, &h2, &h1, 0x11, 0, 7));
	assert_nothing(answers(p, &h2, &h1, 1, 0x12, 7));
}

static void answers_on_one_qpn_at_both_hosts_make_a_pair(void **state)
{
	struct pairs *p = *state;

	assert_only(answers(p, &h2, &h1, 0x11, 0x11, 7), PAIRS_UP, at(&h1, 0x11), at(&h2, 0x11));
	assert_nothing(answers(p, &h1, &h1, 0x13, 0x13, 7)); /* one QP is no pair */
	assert_int_equal(pairs_count(p), 1);
}

static void answers_for_which_two_qps_could_be_meant_make_none(void **state)
{
	struct pairs *p = *state;
	uint32_t psn;

	for (psn = 0; psn < 100; psn++) {
		assert_nothing(answer_at(p, &h2, &h1, 0x11, 0x21, psn, SECOND));
		assert_nothing(answer_at(p, &h2, &h1, 0x12, 0x21, psn, SECOND));
	}
	assert_int_equal(pairs_count(p), 0);
}

static void pair_by_answers_ends_when_others_contradict_it(void **state)
{
	struct pairs *p = *state;
	struct pairs_changes c;

	answers(p, &h2, &h1, 0x11, 0x12, 7);
	assert_nothing(answer_at(p, &h2, &h1, 0x14, 0x12, 50, SECOND));
	assert_nothing(answer_at(p, &h2, &h1, 0x13, 0x12, 51, SECOND));
	assert_nothing(answer_at(p, &h2, &h1, 0x14, 0x12, 52, SECOND));
	assert_nothing(answer_at(p, &h2, &h1, 0x14, 0x12, 53, SECOND));
	assert_peer(p, at(&h1, 0x11), at(&h2, 0x12));
	assert_int_equal(answer_at(p, &h2, &h1, 0x14, 0x12, 54, SECOND).count, 2);
	assert_no_peer(p, at(&h1, 0x11), &h2);
	answers(p, &h2, &h1, 0x15, 0x16, 7);
	c = answers(p, &h2, &h1, 0x15, 0x17, 50);
	assert_int_equal(c.count, 2); /* all say so of both ends: that is a pair at once */
	assert_change(&c, 0, PAIRS_DOWN, at(&h1, 0x15), at(&h2, 0x16));
	assert_change(&c, 1, PAIRS_UP, at(&h1, 0x15), at(&h2, 0x17));
}

static void answers_do_not_touch_what_others_told(void **state)
{
	struct pairs *p = *state;
	struct endpoint local = at(&h3, 0x31), peer = at(&h2, 0x32);

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	pairs_add_local(p, &local, &peer);
	assert_nothing(answers(p, &h2, &h1, 0x11, 0x19, 7));
	assert_nothing(answers(p, &h2, &h1, 0x19, 0x12, 7));
	assert_nothing(answers(p, &h2, &h3, 0x31, 0x19, 7));
	assert_peer(p, at(&h1, 0x11), at(&h2, 0x12));
	assert_peer(p, local, peer);
}

static void local_pair_ends_when_its_qp_is_gone_and_only_then(void **state)
{
	struct pairs *p = *state;
	struct endpoint local = at(&h1, 0x11), peer = at(&h2, 0x12), other = at(&h2, 0x13);

	assert_nothing(pairs_remove_local(p, &local, &peer));
	assert_only(pairs_add_local(p, &local, &peer), PAIRS_UP, local, peer);
	assert_nothing(pairs_remove_local(p, &local, &other));
	assert_only(pairs_remove_local(p, &peer, &local), PAIRS_DOWN, local, peer);
	connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_nothing(pairs_remove_local(p, &local, &peer));
	assert_peer(p, local, peer);
}

static void pair_by_answers_gives_way_to_what_others_tell(void **state)
{
	struct pairs *p = *state;
	struct pairs_changes c;

	answers(p, &h2, &h1, 0x11, 0x12, 7);
	c = connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_source(&c, 0, PAIR_CM);
	assert_only(c, PAIRS_UP, at(&h1, 0x11), at(&h2, 0x12));
	answers(p, &h2, &h1, 0x21, 0x22, 7);
	c = connect_pair(p, &h1, 0x21, &h3, 0x23);
	assert_int_equal(c.count, 2);
	assert_source(&c, 0, PAIR_ANSWERS);
	assert_change(&c, 1, PAIRS_UP, at(&h1, 0x21), at(&h3, 0x23));
}

static void answers_of_an_ended_connection_say_nothing_for_a_while(void **state)
{
	struct pairs *p = *state;
	uint64_t now;
	uint32_t psn;

	connect_pair(p, &h1, 0x11, &h2, 0x12);
	assert_int_equal(dreq(p, &h1, &h2, 0x12).count, 1);
	for (psn = 0, now = 0; now < PAIRS_TIMEWAIT_NS; psn++, now += SECOND / 2)
		assert_nothing(answer_at(p, &h2, &h1, 0x11, 0x12, psn, now));
	assert_int_equal(connect_pair(p, &h1, 0x11, &h2, 0x12).count, 1); /* CM knows */
	assert_int_equal(dreq(p, &h1, &h2, 0x12).count, 1);
	for (psn = 0, now = PAIRS_TIMEWAIT_NS; psn < 2; psn++)
		assert_nothing(answer_at(p, &h2, &h1, 0x11, 0x12, psn, now));
	assert_int_equal(answer_at(p, &h2, &h1, 0x11, 0x12, psn, now).count, 1);
}

/* What the kernel keeps: the one QP that a PSN was lately sent to; 0: more than one. */
enum { TWINS = 8, ASKED = 4096 };
struct asked_qps {
	uint32_t psn[ASKED], qpn[ASKED];
};

static void ask(struct asked_qps *k, uint32_t psn, uint32_t qpn)
{
	uint32_t at = psn % ASKED;
	bool other = k->psn[at] == psn && k->qpn[at] != qpn && k->qpn[at] != UINT32_MAX;

	k->psn[at] = psn;
	k->qpn[at] = other ? 0 : qpn;
}

/* QPs between two hosts with PSNs that run close together or alike: whatever is learned is right.
 */
static void answers_of_twins_lead_to_no_wrong_pair(void **state)
{
	uint64_t seed = 88172645463325252ull;
	static struct asked_qps kernel;
	int round, right = 0;

	(void)state;
	for (round = 0; round < 200; round++) {
		struct pairs *p = pairs_new(HANDSHAKES, 2 * TWINS);
		uint32_t psn[TWINS], step, i;

		memset(&kernel, 0xff, sizeof(kernel));
		for (i = 0; i < TWINS; i++)
			psn[i] = round % 2 ? 0 : (seed = seed * 6364136223846793005ull + 1) >> 48;
		for (step = 0; step < 500; step++) {
			struct pairs_changes c;

			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			i = (seed >> 40) % TWINS;
			ask(&kernel, psn[i], 0x200 + i);
			if (seed >> 60) { /* mostly, the answer comes at once */
				uint32_t asked = kernel.qpn[psn[i] % ASKED];

				c = answer_at(p, &h2, &h1, 0x100 + i, asked, psn[i], step);
				for (size_t n = 0; n < c.count; n++)
					assert_int_equal(
						c.change[n].a.qpn + 0x100, c.change[n].b.qpn);
			}
			psn[i]++;
		}
		right += pairs_count(p);
		pairs_free(p);
	}
	assert_true(right >= 100 * TWINS); /* those whose PSNs are apart: all of them */
}

static void new_without_room_is_refused(void **state)
{
	(void)state;
	assert_null(pairs_new(0, 1));
	assert_null(pairs_new(1, 0));
	pairs_free(NULL);
}

#define TABLE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(real_frames_make_and_end_a_pair),
		TABLE_TEST(repeated_messages_change_nothing),
		TABLE_TEST(rep_repeated_after_dreq_brings_nothing_back),
		TABLE_TEST(rep_without_req_is_ignored),
		TABLE_TEST(rep_from_another_host_is_ignored),
		TABLE_TEST(rej_ends_the_handshake),
		TABLE_TEST(rej_of_another_host_or_request_is_ignored),
		TABLE_TEST(messages_that_make_and_end_nothing_change_nothing),
		TABLE_TEST(same_comm_id_on_two_hosts_is_two_handshakes),
		TABLE_TEST(same_qpn_on_both_hosts_is_a_pair),
		TABLE_TEST(pair_within_one_host_is_a_pair_but_not_with_itself),
		TABLE_TEST(dreq_from_either_side_ends_the_pair),
		TABLE_TEST(dreq_that_does_not_fit_the_pair_is_ignored),
		TABLE_TEST(reserved_qpns_are_refused),
		TABLE_TEST(unspecified_address_is_like_any_other),
		TABLE_TEST(new_pair_on_an_old_endpoint_ends_the_old_pair),
		TABLE_TEST(new_pair_on_two_old_endpoints_ends_both),
		TABLE_TEST(peer_at_another_address_is_no_peer),
		TABLE_TEST(handshake_ages_out),
		TABLE_TEST(time_backwards_ages_nothing),
		TABLE_TEST(full_handshakes_drop_the_oldest),
		TABLE_TEST(full_pairs_end_the_oldest_learned),
		TABLE_TEST(hostile_flood_stays_within_the_tables),
		TABLE_TEST(fixed_pair_is_not_ended_or_replaced),
		TABLE_TEST(add_over_learned_pairs_replaces_or_keeps_them),
		TABLE_TEST(add_to_a_table_full_of_fixed_pairs_does_nothing),
		TABLE_TEST(remove_ends_exactly_that_pair),
		TABLE_TEST(rej_of_the_rep_ends_the_pair),
		TABLE_TEST(rej_after_the_rtu_changes_nothing),
		TABLE_TEST(rej_of_the_rep_leaves_a_later_pair_alone),
		TABLE_TEST(answers_that_agree_make_a_pair),
		TABLE_TEST(answers_with_one_psn_or_far_apart_are_no_evidence),
		TABLE_TEST(answers_on_one_qpn_at_both_hosts_make_a_pair),
		TABLE_TEST(answers_for_which_two_qps_could_be_meant_make_none),
		TABLE_TEST(pair_by_answers_ends_when_others_contradict_it),
		TABLE_TEST(answers_do_not_touch_what_others_told),
		TABLE_TEST(local_pair_ends_when_its_qp_is_gone_and_only_then),
		TABLE_TEST(pair_by_answers_gives_way_to_what_others_tell),
		TABLE_TEST(answers_of_an_ended_connection_say_nothing_for_a_while),
		cmocka_unit_test(answers_of_twins_lead_to_no_wrong_pair),
		cmocka_unit_test(new_without_room_is_refused),
	};

	return cmocka_run_group_tests_name("pairs", tests, NULL, NULL);
}
