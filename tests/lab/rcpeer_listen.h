/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder of the lab's peer: takes the frames of any number of connections in order only,
 * answers with coalesced ACKs and one NAK per gap, and counts what the path did to them.
 */
#ifndef RCPEER_LISTEN_H
#define RCPEER_LISTEN_H

#include "rcpeer_cm.h"
#include "rcpeer_report.h"

enum {
	ACK_AT_LEAST_EVERY = 16,
	ANSWER_AFTER_FRAMES = 16, /* frames read from the ring before answers leave */
	FLOWS_MAX = 4096,
	RESPONDER_RING_SLOTS = 4096,
	ANSWER_RETRY_MS = 1,
	MSN_MASK = 0xffffff,
};

struct listen_options {
	const char *ifname;
	__u64 qpn_base, dscp, service_port;
	double duration_s, hold_acks_ms;
	bool progress;
};

struct flow_counters {
	__u64 payload_bytes;	/* in order, first time */
	__u64 frames;		/* all that came with a good ICRC */
	__u64 duplicates;	/* behind the expected PSN */
	__u64 gaps;		/* times that the PSN jumped ahead of the expected one */
	__u64 frames_ahead;	/* dropped for such a jump */
	__u64 order_violations; /* sent before a frame that had come already */
	__u64 frames_lost;	/* sent before the last that came, and never seen */
	__u64 operation_errors; /* First, Middle, Last in an impossible order or length */
	__u64 naks_sent;
	__u64 acks_sent;
	__u64 ce;
	__u64 ect;
	__u64 cnps;
	__u64 messages;
};

static const struct counter_row flow_rows[] = {
	COUNTER_ROW(flow_counters, payload_bytes),
	COUNTER_ROW(flow_counters, frames),
	COUNTER_ROW(flow_counters, duplicates),
	COUNTER_ROW(flow_counters, gaps),
	COUNTER_ROW(flow_counters, frames_ahead),
	COUNTER_ROW(flow_counters, order_violations),
	COUNTER_ROW(flow_counters, frames_lost),
	COUNTER_ROW(flow_counters, operation_errors),
	COUNTER_ROW(flow_counters, naks_sent),
	COUNTER_ROW(flow_counters, acks_sent),
	COUNTER_ROW(flow_counters, ce),
	COUNTER_ROW(flow_counters, ect),
	COUNTER_ROW(flow_counters, cnps),
	COUNTER_ROW(flow_counters, messages),
};

enum flow_state { FLOW_ANSWERED, FLOW_ESTABLISHED, FLOW_CLOSED };

static const char *const flow_state_names[] = {
	[FLOW_ANSWERED] = "answered",
	[FLOW_ESTABLISHED] = "established",
	[FLOW_CLOSED] = "closed",
};

struct recv_flow {
	enum flow_state state;
	struct cm_end cm;
	struct peer_path path;
	unsigned int cm_tries;
	__u64 cm_retry_ns;
	__u32 expected_psn;
	__u32 msn;
	bool in_message;
	__u64 message_bytes_left;
	bool gap_open; /* a NAK was sent for it; no other until the expected frame comes */
	bool ack_due, nak_due;
	unsigned int unanswered;
	__u64 stamps; /* one past the highest stamp seen: how many frames the sender had sent */
	__u64 first_wall_ns, last_wall_ns;
	struct flow_counters count;
	struct timeline payload;
};

/* An answer as it was when it was made, on its way through the time that answers are held back. */
struct answer {
	size_t flow;
	__u64 due_ns;
	__u32 psn, msn;
	bool nak;
};

/* Answers in the order they were made in, which is the order they leave in. */
struct answer_queue {
	struct answer *items; /* a ring: item i is at i modulo the room */
	size_t room;	      /* a power of two, or 0 */
	__u64 taken, added;
};

struct responder {
	struct peer peer;
	const struct listen_options *opt;
	struct recv_flow *flows;
	size_t flow_count, flow_room;
	struct answer_queue answers;
	__u64 frames_unknown_qp;
	__u64 hold_ns, end_ns, progress_ns, progress_bytes;
};

static struct recv_flow *flow_by_qpn(struct responder *r, const struct rx_frame *f)
{
	__u64 i = f->wire.key.dst_qpn - r->opt->qpn_base;

	return i < r->flow_count ? &r->flows[i] : NULL;
}

static bool flow_is_from(const struct recv_flow *flow, const struct rx_frame *f)
{
	return address_equal(f->wire.key.src, flow->path.dst);
}

/* The flow of the initiator's communication ID. */
static struct recv_flow *flow_by_comm_id(
	struct responder *r, const struct rx_frame *f, __u32 remote_id)
{
	struct recv_flow *flow;

	for (flow = r->flows; flow < r->flows + r->flow_count; flow++)
		if (flow->cm.remote_id == remote_id && flow_is_from(flow, f))
			return flow;
	return NULL;
}

static void answer_cm(struct responder *r, const struct recv_flow *flow, __u16 attribute, __u64 now)
{
	struct peer *p = &r->peer;
	struct peer_path path = flow->path;
	struct frame_head *h;
	__u8 mad[MAD_BYTES];

	path.udp_src_port = udp_src_port_of_pair(QPN_CM, QPN_CM);
	cm_write(mad, attribute, &flow->cm, &path);
	h = batch_begin(&p->batch, &path);
	head_put_bth(h, OP_UD_SEND_ONLY, 0, QPN_CM, false, p->cm_psn++);
	head_put_deth(h, CM_QKEY, QPN_CM);
	batch_add(&p->batch, &path, mad, sizeof(mad), 0);
	/* the other side asks again when it is lost */
	batch_send(&p->batch, &p->control[path_l3(&path)], now);
}

static struct recv_flow *flow_create(
	struct responder *r, const struct rx_frame *f, const struct wire_cm *req)
{
	struct recv_flow *flow;

	if (r->flow_count == FLOWS_MAX)
		return NULL;
	r->flows = grow(r->flows, &r->flow_room, r->flow_count + 1, sizeof(*r->flows));
	flow = &r->flows[r->flow_count];
	memset(flow, 0, sizeof(*flow));
	memcpy(flow->path.src, f->wire.key.dst, sizeof(flow->path.src));
	memcpy(flow->path.dst, f->wire.key.src, sizeof(flow->path.dst));
	flow->cm = (struct cm_end){
		.local_id = random_u32(),
		.remote_id = req->local_id,
		.tid = get_be64(f->data + f->wire.bth_off + BTH_BYTES + DETH_BYTES + MAD_TID),
		.qpn = r->opt->qpn_base + r->flow_count,
		.peer_qpn = req->qpn,
		.psn = random_u32() & BTH_PSN_MASK,
	};
	flow->path.udp_src_port = udp_src_port_of_pair(flow->cm.qpn, flow->cm.peer_qpn);
	flow->path.tos = r->peer.tos;
	flow->expected_psn = req->psn;
	r->flow_count++;
	return flow;
}

static void responder_on_req(
	struct responder *r, const struct rx_frame *f, const struct wire_cm *req, __u64 now)
{
	struct recv_flow *flow;

	if (cm_service_port(f->data, &f->wire) != r->opt->service_port)
		return;
	flow = flow_by_comm_id(r, f, req->local_id);
	if (!flow)
		flow = flow_create(r, f, req);
	if (!flow || flow->state == FLOW_CLOSED)
		return;
	flow->cm_retry_ns = now + CM_RETRY_MS * NSEC_PER_MSEC;
	answer_cm(r, flow, CM_REP, now);
}

static void responder_on_cm(struct responder *r, const struct rx_frame *f, __u64 now)
{
	struct recv_flow *flow;
	struct wire_cm cm;

	if (!cm_read(f->data, &f->wire, &cm))
		return;
	if (cm.attribute == CM_REQ) {
		responder_on_req(r, f, &cm, now);
		return;
	}
	flow = flow_by_comm_id(r, f, cm.local_id);
	if (!flow || flow->cm.local_id != cm.remote_id)
		return;
	if (cm.attribute == CM_RTU && flow->state == FLOW_ANSWERED)
		flow->state = FLOW_ESTABLISHED;
	if (cm.attribute == CM_DREQ) {
		flow->state = FLOW_CLOSED;
		answer_cm(r, flow, CM_DREP, now);
	}
}

/* A request's payload: where it starts, how long it is without the pad bytes. */
struct write_request {
	bool first, last;    /* of its message */
	__u64 message_bytes; /* first: from the RETH */
	const __u8 *payload;
	unsigned int payload_bytes;
};

/* Read an RDMA WRITE; false when it is another operation or its lengths contradict each other. */
static bool read_write_request(const struct rx_frame *f, struct write_request *w)
{
	const __u8 *at = f->data + f->wire.bth_off + BTH_BYTES;
	const __u8 *end = f->data + f->wire.icrc_off;
	unsigned int pad = (f->wire.bth_flags & BTH_PAD_MASK) >> 4;
	__u8 op = f->wire.opcode;

	if (op != OP_RC_WRITE_FIRST && op != OP_RC_WRITE_MIDDLE && op != OP_RC_WRITE_LAST &&
		op != OP_RC_WRITE_ONLY)
		return false;
	w->first = op == OP_RC_WRITE_FIRST || op == OP_RC_WRITE_ONLY;
	w->last = op == OP_RC_WRITE_LAST || op == OP_RC_WRITE_ONLY;
	if (w->first) {
		if (end - at < RETH_BYTES)
			return false;
		w->message_bytes = wire_be32_at(at + 12);
		at += RETH_BYTES;
	}
	if (end - at < pad)
		return false;
	w->payload = at;
	w->payload_bytes = end - at - pad;
	return true;
}

/*
 * The sender's own count of its frames tells what PSNs cannot: a retransmission is younger than
 * what came before it, a frame that was overtaken is older.
 */
static void flow_note_stamp(struct recv_flow *flow, const struct write_request *w)
{
	__u64 stamp;

	if (w->payload_bytes < STAMP_BYTES)
		return;
	stamp = get_be64(w->payload);
	if (stamp >= flow->stamps) {
		flow->count.frames_lost += stamp - flow->stamps;
		flow->stamps = stamp + 1;
		return;
	}
	flow->count.order_violations++;
	if (flow->count.frames_lost)
		flow->count.frames_lost--; /* it was late, not lost */
}

/* The frame that was expected: its place in the message, its bytes, the answer it asks for. */
static void flow_take(
	struct recv_flow *flow, const struct rx_frame *f, const struct write_request *w)
{
	flow->expected_psn = (flow->expected_psn + 1) & BTH_PSN_MASK;
	flow->gap_open = false;
	if (w->first == flow->in_message)
		flow->count.operation_errors++;
	if (w->first)
		flow->message_bytes_left = w->message_bytes;
	if (w->payload_bytes > flow->message_bytes_left ||
		(w->last && w->payload_bytes != flow->message_bytes_left))
		flow->count.operation_errors++;
	flow->message_bytes_left -= min_u64(w->payload_bytes, flow->message_bytes_left);
	flow->in_message = !w->last;
	if (w->last) {
		flow->msn = (flow->msn + 1) & MSN_MASK;
		flow->count.messages++;
	}
	flow->count.payload_bytes += w->payload_bytes;
	timeline_add(&flow->payload, f->wall_ns, w->payload_bytes);
	flow->unanswered++;
}

static void flow_on_ahead(struct recv_flow *flow)
{
	flow->count.frames_ahead++;
	if (flow->gap_open)
		return;
	flow->gap_open = true;
	flow->nak_due = true;
	flow->count.gaps++;
}

static void flow_note_arrival(struct recv_flow *flow, const struct rx_frame *f)
{
	__u64 slot_ns = TIMELINE_SLOT_MS * NSEC_PER_MSEC;

	if (flow->state == FLOW_ANSWERED) /* data says what a lost RTU would have */
		flow->state = FLOW_ESTABLISHED;
	if (!flow->count.frames) {
		flow->first_wall_ns = f->wall_ns;
		flow->payload.start_ns = f->wall_ns - f->wall_ns % slot_ns;
	}
	flow->last_wall_ns = f->wall_ns;
	flow->count.frames++;
	flow->count.ce += wire_is_ce(f->wire.tos);
	flow->count.ect += wire_is_ect(f->wire.tos);
}

static void flow_on_request(struct recv_flow *flow, const struct rx_frame *f)
{
	bool ack_req = f->data[f->wire.bth_off + 8] & BTH_ACK_REQUEST;
	__s32 ahead = wire_psn_ahead(f->wire.psn, flow->expected_psn);
	struct write_request w = {0};

	flow_note_arrival(flow, f);
	if (!read_write_request(f, &w)) {
		flow->count.operation_errors++;
		return;
	}
	flow_note_stamp(flow, &w);
	if (ahead > 0) {
		flow_on_ahead(flow);
		return;
	}
	if (ahead < 0)
		flow->count.duplicates++;
	else
		flow_take(flow, f, &w);
	if (ack_req || flow->unanswered >= ACK_AT_LEAST_EVERY)
		flow->ack_due = true;
}

static void responder_on_frame(void *ctx, const struct rx_frame *f)
{
	struct responder *r = ctx;
	struct recv_flow *flow;

	if (f->wire.kind == WIRE_CM) {
		responder_on_cm(r, f, now_ns());
		return;
	}
	if (wire_is_response(f->wire.opcode) && f->wire.kind != WIRE_CNP)
		return; /* for a requester on this host */
	flow = flow_by_qpn(r, f);
	if (f->wire.kind == WIRE_CNP) {
		r->peer.cnps++;
		if (flow)
			flow->count.cnps++;
	} else if (!flow || !flow_is_from(flow, f) || flow->state == FLOW_CLOSED) {
		r->frames_unknown_qp++;
	} else {
		flow_on_request(flow, f);
	}
}

static struct answer *queue_at(const struct answer_queue *q, __u64 i)
{
	return &q->items[i & (q->room - 1)];
}

static bool queue_empty(const struct answer_queue *q)
{
	return q->taken == q->added;
}

static void queue_make_room(struct answer_queue *q)
{
	struct answer_queue bigger = {.room = q->room ? q->room * 2 : 64};
	__u64 i;

	if (q->added - q->taken < q->room)
		return;
	bigger.items = calloc(bigger.room, sizeof(*bigger.items));
	if (!bigger.items)
		err(1, "memory");
	for (i = q->taken; i != q->added; i++)
		*queue_at(&bigger, bigger.added++) = *queue_at(q, i);
	free(q->items);
	*q = bigger;
}

/* ACKs carry the last PSN taken, a NAK the one that is missed; either confirms all before it. */
static void queue_answer(struct responder *r, struct recv_flow *flow, __u64 now)
{
	struct answer_queue *q = &r->answers;

	queue_make_room(q);
	*queue_at(q, q->added++) = (struct answer){
		.flow = flow - r->flows,
		.due_ns = now + r->hold_ns,
		.psn = flow->nak_due ? flow->expected_psn : flow->expected_psn - 1,
		.msn = flow->msn,
		.nak = flow->nak_due,
	};
	flow->ack_due = false;
	flow->nak_due = false;
	flow->unanswered = 0;
}

/*
 * Make the answers that the flows owe. When the stack has refused to take those before, flows go
 * on owing theirs, so that one answer will do for many frames.
 */
static void responder_make_answers(struct responder *r, __u64 now)
{
	struct recv_flow *flow;

	if (!r->hold_ns && !queue_empty(&r->answers))
		return;
	for (flow = r->flows; flow < r->flows + r->flow_count; flow++)
		if (flow->ack_due || flow->nak_due)
			queue_answer(r, flow, now);
}

static void batch_add_answer(
	struct responder *r, const struct recv_flow *flow, const struct answer *a)
{
	__u8 syndrome = a->nak ? AETH_NAK_PSN_SEQUENCE : AETH_ACK | AETH_CREDIT_NONE;
	struct frame_head *h = batch_begin(&r->peer.batch, &flow->path);

	head_put_bth(h, OP_RC_ACK, 0, flow->cm.peer_qpn, false, a->psn);
	head_put_aeth(h, syndrome, a->msn);
	batch_add(&r->peer.batch, &flow->path, NULL, 0, 0);
}

/* Batch what is due at the head of the queue, of one family: a socket speaks only one. */
static unsigned int batch_add_answers(struct responder *r, enum wire_l3 *l3, __u64 now)
{
	const struct recv_flow *flow;
	const struct answer *a;
	__u64 i;

	for (i = r->answers.taken; i != r->answers.added && !batch_full(&r->peer.batch); i++) {
		a = queue_at(&r->answers, i);
		flow = &r->flows[a->flow];
		if (a->due_ns > now)
			break;
		if (i == r->answers.taken)
			*l3 = path_l3(&flow->path);
		else if (*l3 != path_l3(&flow->path))
			break;
		batch_add_answer(r, flow, a);
	}
	return i - r->answers.taken;
}

static void responder_note_answered(struct responder *r, unsigned int sent)
{
	const struct answer *a;
	struct recv_flow *flow;

	for (; sent; sent--) {
		a = queue_at(&r->answers, r->answers.taken++);
		flow = &r->flows[a->flow];
		flow->count.naks_sent += a->nak;
		flow->count.acks_sent += !a->nak;
	}
}

/* Send the answers whose time has come. Returns when there is more to do for it. */
static __u64 responder_answer(struct responder *r, __u64 now)
{
	enum wire_l3 l3 = L3_NONE;
	unsigned int n, sent;

	do {
		n = batch_add_answers(r, &l3, now);
		sent = n ? batch_send(&r->peer.batch, &r->peer.control[l3], now) : 0;
		responder_note_answered(r, sent);
		if (sent < n)
			return now + ANSWER_RETRY_MS * NSEC_PER_MSEC;
	} while (n);
	return queue_empty(&r->answers) ? NEVER_NS
					: queue_at(&r->answers, r->answers.taken)->due_ns;
}

/* Ask again for an RTU that does not come. */
static __u64 responder_check_cm(struct responder *r, __u64 now)
{
	__u64 deadline_ns = NEVER_NS;
	struct recv_flow *flow;

	for (flow = r->flows; flow < r->flows + r->flow_count; flow++) {
		if (flow->state != FLOW_ANSWERED || flow->cm_tries == CM_RETRIES_MAX)
			continue;
		if (now >= flow->cm_retry_ns) {
			flow->cm_tries++;
			flow->cm_retry_ns = now + CM_RETRY_MS * NSEC_PER_MSEC;
			answer_cm(r, flow, CM_REP, now);
		}
		deadline_ns = min_u64(deadline_ns, flow->cm_retry_ns);
	}
	return deadline_ns;
}

static __u64 responder_progress(struct responder *r, __u64 now)
{
	__u64 bytes = 0;
	size_t i;

	if (!r->opt->progress)
		return NEVER_NS;
	if (now < r->progress_ns)
		return r->progress_ns;
	for (i = 0; i < r->flow_count; i++)
		bytes += r->flows[i].count.payload_bytes;
	fprintf(stderr, "%zu flows  %8.2f Mbit/s\n", r->flow_count,
		(bytes - r->progress_bytes) * 8 / 1e6);
	r->progress_bytes = bytes;
	r->progress_ns = now + NSEC_PER_SEC;
	return r->progress_ns;
}

static void responder_turn(struct responder *r)
{
	struct epoll_event ev[EVENTS_MAX];
	bool more = peer_receive(&r->peer, ANSWER_AFTER_FRAMES, responder_on_frame, r);
	__u64 now = now_ns();
	__u64 deadline_ns = min_u64(r->end_ns, responder_check_cm(r, now));

	deadline_ns = min_u64(deadline_ns, responder_progress(r, now));
	responder_make_answers(r, now);
	deadline_ns = min_u64(deadline_ns, responder_answer(r, now));
	if (!more)
		peer_wait(&r->peer, deadline_ns, ev);
}

static json_t *flow_json(const struct recv_flow *flow)
{
	json_t *o = json_object();

	json_object_set_new(o, "src", address_json(flow->path.dst));
	json_object_set_new(o, "dst", address_json(flow->path.src));
	put_count(o, "qpn", flow->cm.qpn);
	put_count(o, "peer_qpn", flow->cm.peer_qpn);
	put_count(o, "udp_src_port", flow->path.udp_src_port);
	json_object_set_new(o, "state", json_string(flow_state_names[flow->state]));
	put_counters(o, &flow->count, flow_rows, ROWS(flow_rows));
	put_seconds(o, "first_epoch", flow->first_wall_ns);
	put_seconds(o, "last_epoch", flow->last_wall_ns);
	put_seconds(o, "timeline_start_epoch", flow->payload.start_ns);
	json_object_set_new(o, "timeline", timeline_json(&flow->payload, 1));
	return o;
}

static json_t *responder_json(struct responder *r)
{
	json_t *o = peer_json(&r->peer, "listen");
	json_t *flows = json_array();
	size_t i;

	put_count(o, "frames_unknown_qp", r->frames_unknown_qp);
	json_object_set_new(o, "hold_acks_ms", json_real(r->opt->hold_acks_ms));
	put_count(o, "answers_unsent", r->answers.added - r->answers.taken);
	for (i = 0; i < r->flow_count; i++)
		json_array_append_new(flows, flow_json(&r->flows[i]));
	json_object_set_new(o, "flows", flows);
	return o;
}

/* Run the responder until its time is over or a signal comes; returns the exit code. */
static int listen_run(struct listen_options *opt)
{
	static struct responder r;

	r.opt = opt;
	r.peer.ifname = opt->ifname;
	r.peer.tos = opt->dscp << 2 | ECN_ECT0;
	peer_find_interface(&r.peer, NULL);
	if (!opt->qpn_base)
		opt->qpn_base = peer_qpn_base(&r.peer, 0x20000);
	peer_open(&r.peer, r.peer.if_mtu, RESPONDER_RING_SLOTS);
	r.hold_ns = opt->hold_acks_ms * NSEC_PER_MSEC;
	r.end_ns = opt->duration_s > 0 ? now_ns() + (__u64)(opt->duration_s * 1e9) : NEVER_NS;
	r.progress_ns = now_ns() + NSEC_PER_SEC;
	while (!r.peer.stop && now_ns() < r.end_ns)
		responder_turn(&r);
	return report_print(responder_json(&r));
}

#endif
