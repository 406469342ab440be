/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What every RoCE frame adds to the record of its flow. */
#ifndef QUENCH_FLOW_BPF_H
#define QUENCH_FLOW_BPF_H

#include "maps.bpf.h"

/* A PSN further away than this is that of another connection of the same QPN. */
enum { FLOW_PSN_WINDOW = 65536 };

/*
 * PSNs of a connected QP's requests run on by one; a jump ahead is a gap, a step back a
 * retransmission. Datagrams (UD, RD) share their PSNs with other destinations.
 */
static inline __attribute__((always_inline)) void flow_note_psn(
	struct flow *flow, const struct wire_frame *f, const struct wire_opcode *op)
{
	__s32 ahead = wire_psn_ahead(f->psn, flow->psn);
	bool known = flow->psn_known && ahead > -FLOW_PSN_WINDOW && ahead < FLOW_PSN_WINDOW;

	if (op->flags & OPF_DETH)
		return;
	if (known && ahead <= 0) {
		__sync_fetch_and_add(&flow->retransmissions, 1);
		return;
	}
	if (known && ahead > 1)
		__sync_fetch_and_add(&flow->psn_gaps, 1);
	flow->psn = f->psn;
	/* a READ request takes as many PSNs as its answer has packets: start afresh behind it */
	flow->psn_known = op->operation != 1 << OPERATION_READ_REQUEST;
}

/* An ACK that is none: the responder is not ready, or refuses. */
static inline __attribute__((always_inline)) void flow_note_nak(struct flow *flow, __u8 syndrome)
{
	__u32 code = syndrome & AETH_CODE_MASK;

	if ((syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK)
		__sync_fetch_and_add(&flow->rnr, 1);
	if ((syndrome & AETH_TYPE_MASK) != AETH_NAK)
		return;
	__sync_fetch_and_add(&flow->nak, 1);
	if (code < NAK_CODES)
		__sync_fetch_and_add(&flow->naks[code], 1);
}

/* What is noted once costs no more than a look from then on. */
static inline __attribute__((always_inline)) void flow_note_bit(__u8 *bits, __u8 bit)
{
	if (!(*bits & bit))
		*bits |= bit;
}

static inline __attribute__((always_inline)) void flow_count(struct flow *flow, __u32 bytes)
{
	if (flow->cpu == bpf_get_smp_processor_id()) {
		flow->packets++;
		flow->bytes += bytes;
	} else {
		__sync_fetch_and_add(&flow->packets_elsewhere, 1);
		__sync_fetch_and_add(&flow->bytes_elsewhere, bytes);
	}
}

static inline __attribute__((always_inline)) void flow_note(
	struct flow *flow, const struct wire_frame *f, __u32 slot, __u64 now_ns)
{
	__u32 bytes = f->icrc_off + ICRC_BYTES - wire_roce_l3_off(f);
	const struct wire_opcode *op = wire_opcode(f->opcode);
	__u8 tos = wire_roce_tos(f);

	flow_count(flow, bytes);
	if (bytes > flow->bytes_max)
		flow->bytes_max = bytes;
	if (wire_is_ce(tos))
		__sync_fetch_and_add(&flow->ce, 1);
	flow_note_bit(&flow->ecn_seen, 1 << (tos & ECN_MASK));
	flow_note_bit(&flow->operations, op->operation);
	if (op->flags & OPF_ACK)
		flow_note_nak(flow, f->syndrome);
	else if (!(op->flags & OPF_RESPONSE))
		flow_note_psn(flow, f, op);
	flow->tos = tos;
	flow->last_ns = now_ns;
	flow->slot = slot;
	flow->l3 = wire_roce_l3(f);
}

/* A CNP about the flow, which arrives here or leaves here. */
static inline __attribute__((always_inline)) void flow_note_cnp(const struct flow_key *key)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, key);
	struct qp *qp = flow ? NULL : bpf_map_lookup_elem(&qps, key);

	if (qp)
		flow = &qp->flow;
	if (flow)
		__sync_fetch_and_add(&flow->cnp, 1);
}

#endif
