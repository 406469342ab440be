// SPDX-License-Identifier: BSD-2-Clause
// PSNs, ACKs and path MTU of a flow, by what its frames do.
#include "analyze/follow.h"

#include <string.h>

#include "analyze/pairing.h"

enum {
	OPERATION_MASK = 0x1f, /* of an opcode; the rest is the transport */

	PATH_MTU_MIN_BYTES = 256, /* IBTA vol. 1, 9.7 */
	PATH_MTU_MAX_BYTES = 4096,
	ACK_REQUEST_OFFSET = 8, /* in the BTH */
	ACK_REQUEST = 0x80,

	REORDER_NS = 1000000, /* what comes later than this was sent again */
	DUPLICATE_NS = 20000, /* copies follow each other faster than most resenders can */
	DOUBLED_FRAMES_MIN = 8,
	DOUBLED_PERCENT = 40, /* of a flow's frames; all of them twice would be 50 */
};

/* The frames of a message but for its last are as long as the path MTU (IBTA vol. 1, 9.7.2). */
static void learn_mtu(struct analyze_flow *flow, const struct wire_frame *f)
{
	static const uint8_t is_full[OPERATION_MASK + 1] = {
		[0x00 ... 0x01] = 1, /* SEND first, middle */
		[0x06 ... 0x07] = 1, /* WRITE first, middle */
		[0x0d ... 0x0e] = 1, /* READ response first, middle */
	};
	uint32_t bytes = wire_payload_bytes(f);

	if (!is_full[f->opcode & OPERATION_MASK])
		return;
	if (bytes >= PATH_MTU_MIN_BYTES && bytes <= PATH_MTU_MAX_BYTES && !(bytes & (bytes - 1)))
		flow->path_mtu_bytes = bytes;
}

/* PSNs */

/* A READ takes as many PSNs as its answer will have frames; RETH, its last header, ends in bytes.
 */
static uint32_t read_psns(const struct analyze *a, const struct analyze_flow *flow,
	const struct analyze_frame *frame, const struct wire_frame *f)
{
	uint32_t length_off = f->bth_off + BTH_BYTES + wire_opcode(f->opcode)->ext_bytes - 4;
	const struct analyze_flow *reverse = analyze_reverse(a, flow);
	uint32_t bytes, mtu;

	mtu = flow->path_mtu_bytes ?: reverse ? reverse->path_mtu_bytes : 0;
	if (!mtu)
		mtu = PATH_MTU_MIN_BYTES;
	if (length_off + 4 > frame->len)
		return BTH_PSN_MASK;
	bytes = wire_be32_at(frame->data + length_off);
	return bytes ? (bytes - 1) / mtu + 1 : 1;
}

/*
 * Is it the same frame as a moment ago, bit for bit? A copy made by the capture or on the way looks
 * so; a retransmission can, so follow_finish() judges them together. Notes this one as well.
 */
static bool is_copy(
	struct psn_run *run, const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	uint32_t slot = seen->wire.psn % PSN_RECENT, icrc, age_ns;
	bool same;

	if (seen->icrc != ICRC_OK)
		return false;
	memcpy(&icrc, frame->data + seen->wire.icrc_off, sizeof(icrc));
	age_ns = (uint32_t)frame->time_ns - run->recent[slot].time_ns;
	same = run->recent[slot].icrc == icrc && age_ns < DUPLICATE_NS;
	run->recent[slot].icrc = icrc;
	run->recent[slot].time_ns = frame->time_ns;
	return same;
}

/* Has the receiver's host sent a NAK since then? */
static bool was_naked(const struct analyze *a, const struct analyze_flow *flow, uint64_t since_ns)
{
	const struct analyze_host *back = analyze_host_back(a, flow);

	return back && back->nak_ns >= since_ns;
}

/* Late, but so soon that the sender can hardly have been told: overtaken on the way? */
static bool may_be_reordered(const struct analyze *a, const struct analyze_flow *flow,
	const struct psn_run *run, uint64_t now_ns)
{
	return now_ns - run->jump_ns < REORDER_NS && !was_naked(a, flow, run->jump_ns);
}

/* What came late is what the next frame makes of it: a sender that goes back sends more again. */
static void settle_late(
	struct analyze *a, struct analyze_flow *flow, struct psn_run *run, enum finding_id id)
{
	for (; run->late; run->late--) {
		analyze_note(a, id, run->late_frame, flow);
		run->late_frame = 0;
	}
}

static void take_late(struct analyze *a, struct analyze_flow *flow, struct psn_run *run,
	const struct analyze_frame *frame)
{
	if (!may_be_reordered(a, flow, run, frame->time_ns)) {
		analyze_note(a, FINDING_RETRANSMISSION, frame->number, flow);
		return;
	}
	if (!run->late++)
		run->late_frame = frame->number;
}

static void follow_psn(struct analyze *a, struct analyze_flow *flow, struct psn_run *run,
	const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	bool copy = is_copy(run, frame, seen);
	uint32_t missing;

	switch (psn_take(run, seen->wire.psn, &missing)) {
	case PSN_NEXT:
		settle_late(a, flow, run, FINDING_OUT_OF_ORDER);
		break;
	case PSN_JUMP:
		settle_late(a, flow, run, FINDING_OUT_OF_ORDER);
		run->jump_ns = frame->time_ns;
		flow->psns_missing += missing;
		analyze_note(a, FINDING_PSN_GAP, frame->number, flow);
		break;
	case PSN_LATE:
		take_late(a, flow, run, frame);
		break;
	case PSN_AGAIN:
		settle_late(a, flow, run, FINDING_RETRANSMISSION);
		analyze_note(
			a, copy ? FINDING_DUPLICATE : FINDING_RETRANSMISSION, frame->number, flow);
		break;
	case PSN_RESTART:
		settle_late(a, flow, run, FINDING_OUT_OF_ORDER);
		flow->reused = 1;
		break;
	}
}

/* Requests of connected QPs run on by one; datagrams share their PSNs among destinations. */
static void follow_request(struct analyze *a, struct analyze_flow *flow,
	const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	const struct wire_frame *f = &seen->wire;
	uint8_t transport = f->opcode & ~OPERATION_MASK;
	bool is_read = operation_of(f->opcode) == OPERATION_READ_REQUEST;

	if (transport != OP_RC && transport != OP_UC && transport != OP_XRC)
		return;
	follow_psn(a, flow, &flow->requests, frame, seen);
	if (is_read && flow->requests.furthest == f->psn)
		flow->requests.room = read_psns(a, flow, frame, f) - 1;
	if (is_read || frame->data[f->bth_off + ACK_REQUEST_OFFSET] & ACK_REQUEST)
		pairing_expect(a, flow, f->psn);
}

/* The answers to one READ run on by one; between two of them lie the PSNs of other requests. */
static void follow_response(struct analyze *a, struct analyze_flow *flow,
	const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	static const struct {
		uint8_t begins, ends;
	} rows[] = {
		[0] = {1, 0}, /* first */
		[1] = {0, 0}, /* middle */
		[2] = {0, 1}, /* last */
		[3] = {1, 1}, /* only */
	};
	uint8_t place = (seen->wire.opcode & OPERATION_MASK) - OP_RC_READ_RESPONSE_FIRST;
	struct psn_run *run = &flow->responses;

	run->room = rows[place].begins && !run->open ? BTH_PSN_MASK : 0;
	follow_psn(a, flow, run, frame, seen);
	run->open = !rows[place].ends;
	if (rows[place].begins)
		pairing_match(a, flow, seen->wire.psn);
}

/* ACKs */

static enum finding_id nak_finding(uint8_t syndrome)
{
	static const uint8_t by_code[AETH_CODE_MASK + 1] = {
		[0] = FINDING_NAK_PSN_SEQUENCE,
		[1] = FINDING_NAK_INVALID_REQUEST,
		[2] = FINDING_NAK_REMOTE_ACCESS,
		[3] = FINDING_NAK_REMOTE_OPERATIONAL,
		[4] = FINDING_NAK_INVALID_RD_REQUEST,
		[5 ... AETH_CODE_MASK] = FINDING_NAK_RESERVED,
	};

	if ((syndrome & AETH_TYPE_MASK) == AETH_NAK)
		return by_code[syndrome & AETH_CODE_MASK];
	return (syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK ? FINDING_RNR_NAK : FINDING_NONE;
}

static void follow_ack(struct analyze *a, struct analyze_flow *flow,
	const struct analyze_frame *frame, const struct analyze_seen *seen)
{
	enum finding_id id = nak_finding(seen->wire.syndrome);

	pairing_match(a, flow, seen->wire.psn);
	if (id == FINDING_NONE)
		return;
	analyze_note(a, id, frame->number, flow);
	flow->nak += id != FINDING_RNR_NAK;
	analyze_host(a, flow)->nak_ns = frame->time_ns;
}

void follow_frame(struct analyze *a, struct analyze_flow *flow, const struct analyze_frame *frame,
	const struct analyze_seen *seen)
{
	static void (*const follow[OPERATION_COUNT])(struct analyze *, struct analyze_flow *,
		const struct analyze_frame *, const struct analyze_seen *) = {
		[OPERATION_SEND] = follow_request,
		[OPERATION_WRITE] = follow_request,
		[OPERATION_READ_REQUEST] = follow_request,
		[OPERATION_READ_RESPONSE] = follow_response,
		[OPERATION_ATOMIC] = follow_request,
		[OPERATION_ACK] = follow_ack,
	};
	enum wire_operation operation = operation_of(seen->wire.opcode);

	learn_mtu(flow, &seen->wire);
	if (follow[operation])
		follow[operation](a, flow, frame, seen);
}

/*
 * A capture that sees a link twice doubles all of a flow's frames. Fewer copies than that are
 * retransmissions that came quickly.
 */
static bool is_doubled(const struct analyze_flow *flow)
{
	uint64_t copies = flow->noted[FINDING_DUPLICATE];
	uint64_t followed = flow->packets - flow->operations[OPERATION_ACK];

	return copies >= DOUBLED_FRAMES_MIN && copies * 100 >= followed * DOUBLED_PERCENT;
}

static void undo_copies(struct analyze *a, struct analyze_flow *flow)
{
	uint32_t copies = flow->noted[FINDING_DUPLICATE];

	flow->noted[FINDING_RETRANSMISSION] += copies;
	flow->noted[FINDING_DUPLICATE] = 0;
	a->evidence[FINDING_RETRANSMISSION].count += copies;
	a->evidence[FINDING_DUPLICATE].count -= copies;
}

void follow_finish(struct analyze *a)
{
	for (uint32_t i = 0; i < a->flows.count; i++) {
		struct analyze_flow *flow = analyze_flow_at(a, i);

		settle_late(a, flow, &flow->requests, FINDING_OUT_OF_ORDER);
		settle_late(a, flow, &flow->responses, FINDING_OUT_OF_ORDER);
		if (flow->noted[FINDING_DUPLICATE] && !is_doubled(flow))
			undo_copies(a, flow);
	}
	if (!a->evidence[FINDING_DUPLICATE].count)
		evidence_merge(
			&a->evidence[FINDING_RETRANSMISSION], &a->evidence[FINDING_DUPLICATE]);
}
