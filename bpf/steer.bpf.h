/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which leaf a frame waits in. On most ports: one leaf per ingress port. On a reaction-point port
 * each QP has a leaf of its own while there is one to give; a QP changes its leaf only when no
 * frame of it is left in the old one, so that it never overtakes itself. All of this runs under
 * the root qdisc's lock: nothing else touches this port's QPs meanwhile.
 */
#ifndef QUENCH_STEER_BPF_H
#define QUENCH_STEER_BPF_H

#include "depth.bpf.h"
#include "flow.bpf.h"
#include "pairing.bpf.h"

static inline __attribute__((always_inline)) struct qp_class *qp_class_get(
	const struct port_conf *port, __u32 leaf)
{
	__u32 index = port->qp_base + leaf;

	if (leaf >= port->qp_count)
		return NULL;
	return bpf_map_lookup_elem(&qp_classes, &index);
}

/* Has the QP's old leaf sent all that the QP put there? Unknown counts as no. */
static inline __attribute__((always_inline)) bool leaf_is_drained(
	const struct port_conf *port, __u32 ref, __u64 position)
{
	struct qdisc_seen seen = {};

	if (!depth_read(port->refs_base + ref, &seen))
		return false;
	return !seen.backlog_bytes || (position && seen.sent_bytes >= position);
}

/* Take a class from the port's pool for the flow; false when it is empty. */
static inline __attribute__((always_inline)) bool qp_class_take(
	const struct port_conf *port, const struct flow_key *key, struct qp *qp)
{
	struct qp_pool *pool = bpf_map_lookup_elem(&qp_pools, &port->slot);
	struct qp_class *cls;
	__u64 *leaf;
	__u32 at;

	if (!pool || !port->qp_count || pool->head == *(volatile __u32 *)&pool->tail)
		return false;
	at = port->qp_base + pool->head % port->qp_count;
	leaf = bpf_map_lookup_elem(&qp_free, &at);
	if (!leaf)
		return false;
	cls = qp_class_get(port, *leaf);
	if (!cls)
		return false;
	qp->leaf = *leaf;
	qp->generation = cls->generation;
	cls->owner = *key;
	cls->last_ns = bpf_ktime_get_coarse_ns();
	cls->taken = 1;
	__sync_fetch_and_add(&pool->head, 1); /* after the class says so, on every machine */
	return true;
}

/*
 * A fresh record starts where the last frame without a record went: that may have been one of this
 * QP. A function of its own for the sake of the stack.
 */
static __attribute__((noinline)) int qp_make(
	const struct port_state *state, const struct flow_key *key)
{
	struct qp fresh = {.leaf = QP_SHARED_LEAF};

	if (!state || !key)
		return 0;
	fresh.position = state->refused_position;
	fresh.flow.cpu = bpf_get_smp_processor_id();
	fresh.flow.last_ns = bpf_ktime_get_coarse_ns(); /* not to be aged at once */
	return bpf_map_update_elem(&qps, key, &fresh, BPF_NOEXIST);
}

static inline __attribute__((always_inline)) struct qp *qp_get(
	const struct port_state *state, const struct flow_key *key)
{
	struct qp *qp = bpf_map_lookup_elem(&qps, key);

	if (qp)
		return qp;
	qp_make(state, key);
	return bpf_map_lookup_elem(&qps, key);
}

/* Is the class still this QP's, until the agent has seen its leaf empty? */
static inline __attribute__((always_inline)) bool qp_class_is_of(
	const struct qp_class *cls, const struct flow_key *key)
{
	int i;

	if (!cls->taken || cls->owner.dst_qpn != key->dst_qpn)
		return false;
	for (i = 0; i < 4; i++)
		if (cls->owner.src[i] != key->src[i] || cls->owner.dst[i] != key->dst[i])
			return false;
	return true;
}

/* How far the shared leaf must get before a frame that goes there now has left it. */
static inline __attribute__((always_inline)) __u64 shared_position(
	const struct port_conf *port, __u32 shared_ref, __u32 wire_len)
{
	struct qdisc_seen seen = {};

	if (depth_read(port->refs_base + shared_ref, &seen))
		return seen.sent_bytes + seen.backlog_bytes + wire_len;
	return ~0ull;
}

/* The minor id of the leaf, below its class's inner HTB, for a RoCE frame of a reaction point. */
static inline __attribute__((always_inline)) __u16 steer_qp(struct __sk_buff *skb,
	const struct conf *conf, const struct port_conf *port, struct port_state *state,
	const struct wire_frame *f, __u32 slot, struct port_stats *stats)
{
	__u32 shared_ref = ref_slot_leaf(port->reaction_class, conf->slots, slot);
	struct qp *qp = qp_get(state, &f->key);
	struct qp_class *cls;

	if (!qp) {
		stats->flows_full++;
		state->refused_position = shared_position(port, shared_ref, skb->wire_len);
		return MINOR_SLOT + slot;
	}
	if (qp->leaf != QP_SHARED_LEAF && qp->flow.slot != port->slot)
		qp->leaf = QP_SHARED_LEAF; /* that leaf is another port's */
	flow_note(&qp->flow, f, port->slot, bpf_ktime_get_coarse_ns());
	if (slot == SLOT_LOCAL) /* others have been seen as they came */
		pairing_note(f, &qp->flow, port, stats);
	if (qp->leaf != QP_SHARED_LEAF) {
		cls = qp_class_get(port, qp->leaf);
		if (cls && cls->generation == qp->generation) {
			cls->last_ns = qp->flow.last_ns;
			cls->bytes += skb->wire_len;
			return MINOR_QP + qp->leaf;
		}
		if (cls && qp_class_is_of(cls, &f->key) &&
			!leaf_is_drained(port, ref_qp_leaf(conf->slots, qp->leaf), 0))
			return MINOR_QP + qp->leaf;
		qp->leaf = QP_SHARED_LEAF;
		qp->position = 0;
		stats->qp_moves++;
	}
	if (!wire_is_ack(f->opcode)) {
		if ((!qp->position || leaf_is_drained(port, shared_ref, qp->position)) &&
			qp_class_take(port, &f->key, qp)) {
			stats->qp_moves += qp->position != 0;
			return MINOR_QP + qp->leaf;
		}
		stats->qp_unenforced++;
	}
	qp->position = shared_position(port, shared_ref, skb->wire_len);
	return MINOR_SLOT + slot;
}

#endif
