/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which QP a flow's answers come from, where no CM message told: an answer carries the PSN of its
 * request. Requests leave their PSN in a table; an answer that finds one there is an event, unless
 * the pair is known. All of a young flow's, then one PSN of sixteen, the same for both directions.
 */
#ifndef QUENCH_PAIRING_BPF_H
#define QUENCH_PAIRING_BPF_H

#include "event.bpf.h"

enum {
	PAIRING_YOUNG_PACKETS = 1024,
	PAIRING_SAMPLE_BITS = 4,
	PAIRING_SAMPLE = 7, /* of the 16; not the one that PSN 0 is in: it is sent most */
};
#define PAIRING_FRESH_NS 1000000000ull /* a request this old is not answered any more */

static inline __attribute__((always_inline)) bool pairing_is_request(
	const struct wire_frame *f, const struct wire_opcode *op)
{
	return !(op->flags & OPF_RESPONSE) &&
	       (f->ack_request || op->operation == 1 << OPERATION_READ_REQUEST);
}

/* A READ's answer begins with the request's PSN; a NAK's PSN is that of what was missed. */
static inline __attribute__((always_inline)) bool pairing_is_answer(
	const struct wire_frame *f, const struct wire_opcode *op)
{
	if (op->flags & OPF_ACK)
		return f->opcode == OP_RC_ATOMIC_ACK || !(f->syndrome & AETH_TYPE_MASK);
	return f->opcode == OP_RC_READ_RESPONSE_FIRST || f->opcode == OP_RC_READ_RESPONSE_ONLY;
}

static inline __attribute__((always_inline)) void pairing_ask(const struct wire_frame *f)
{
	struct asked fresh = {.time_ns = bpf_ktime_get_coarse_ns(), .qpn = f->key.dst_qpn};
	struct flow_key key = f->key;
	struct asked *asked;

	key.dst_qpn = f->psn;
	asked = bpf_map_lookup_elem(&asked_map, &key);
	if (!asked) {
		bpf_map_update_elem(&asked_map, &key, &fresh, BPF_ANY);
		return;
	}
	if (asked->qpn != fresh.qpn && fresh.time_ns - asked->time_ns < PAIRING_FRESH_NS)
		asked->qpn = 0;
	else
		asked->qpn = fresh.qpn;
	asked->time_ns = fresh.time_ns;
}

static inline __attribute__((always_inline)) void pairing_answer(const struct wire_frame *f,
	const struct pair *pair, const struct port_conf *port, struct port_stats *stats)
{
	struct flow_key key = {.dst_qpn = f->psn};
	struct asked *asked;

	__builtin_memcpy(key.src, f->key.dst, sizeof(key.src));
	__builtin_memcpy(key.dst, f->key.src, sizeof(key.dst));
	asked = bpf_map_lookup_elem(&asked_map, &key);
	if (!asked || !asked->qpn || (pair && pair->peer_qpn == asked->qpn) ||
		bpf_ktime_get_coarse_ns() - asked->time_ns >= PAIRING_FRESH_NS)
		return;
	event_send_answer(f, asked->qpn, port, stats);
}

/* A function of its own: few frames need it. */
static __attribute__((noinline)) int pairing_look(
	const struct wire_frame *f, const struct port_conf *port, struct port_stats *stats)
{
	const struct wire_opcode *op;
	struct pair *pair;

	if (!f || !port || !stats)
		return 0;
	pair = bpf_map_lookup_elem(&pairs, &f->key);
	if (pair && pair->source != PAIR_ANSWERS)
		return 0;
	op = wire_opcode(f->opcode);
	if (pairing_is_request(f, op))
		pairing_ask(f);
	else if (pairing_is_answer(f, op))
		pairing_answer(f, pair, port, stats);
	return 0;
}

/* A frame of a reliable connection, whose flow's record counts it already. */
static inline __attribute__((always_inline)) void pairing_note(const struct wire_frame *f,
	const struct flow *flow, const struct port_conf *port, struct port_stats *stats)
{
	const struct wire_opcode *op = wire_opcode(f->opcode);

	if (f->tunnel || (f->opcode & OP_TRANSPORT_MASK) != OP_RC)
		return;
	if (flow->packets >= PAIRING_YOUNG_PACKETS &&
		(f->psn * 2654435761u) >> (32 - PAIRING_SAMPLE_BITS) != PAIRING_SAMPLE)
		return;
	if (pairing_is_request(f, op) || op->flags & OPF_AETH)
		pairing_look(f, port, stats);
}

#endif
