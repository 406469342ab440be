/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of the lab's peer: RC queue pairs that RDMA-WRITE messages back to back, with
 * go-back-N, a retransmission timer and a window, and without any congestion control.
 */
#ifndef RCPEER_SEND_H
#define RCPEER_SEND_H

#include "rcpeer_cm.h"
#include "rcpeer_report.h"

enum {
	ACK_REQUEST_EVERY = 16,
	RX_BUDGET = 64,
	RETRANSMIT_MAX_MS = 1000,
	CM_FRAME_BYTES_MAX = 400, /* the longest that a requester is sent */
	REQUESTER_RING_SLOTS = 4096,
	STOPPED_DRAIN_MS = 1000, /* after a signal nobody waits long */
};

struct send_options {
	const char *ifname;
	const char *server;
	__u64 qps, qpn_base;
	__u64 message_bytes, mtu_bytes, window_frames;
	__u64 dscp, service_port;
	__u64 sndbuf_bytes, timeout_ms;
	double duration_s, start_at_s, connect_timeout_s, drain_s;
	double offer_mbit;
	double pause_every_ms, pause_for_ms;
	struct address server_address;
	bool progress;
};

struct send_counters {
	__u64 payload_bytes_acked;
	__u64 payload_bytes_first_time;
	__u64 frames_sent;
	__u64 frames_retransmitted;
	__u64 naks;
	__u64 timeouts;
	__u64 messages;
	__u64 acks;
	__u64 acks_ce;
	__u64 cnps;
	__u64 cnps_bad_icrc;
	__u64 pauses;
	__u64 pauses_idle; /* at whose end nothing was in flight */
	__u64 paused_us;
};

static const struct counter_row send_rows[] = {
	COUNTER_ROW(send_counters, payload_bytes_acked),
	COUNTER_ROW(send_counters, payload_bytes_first_time),
	COUNTER_ROW(send_counters, frames_sent),
	COUNTER_ROW(send_counters, frames_retransmitted),
	COUNTER_ROW(send_counters, naks),
	COUNTER_ROW(send_counters, timeouts),
	COUNTER_ROW(send_counters, messages),
	COUNTER_ROW(send_counters, acks),
	COUNTER_ROW(send_counters, acks_ce),
	COUNTER_ROW(send_counters, cnps),
	COUNTER_ROW(send_counters, cnps_bad_icrc),
	COUNTER_ROW(send_counters, pauses),
	COUNTER_ROW(send_counters, pauses_idle),
	COUNTER_ROW(send_counters, paused_us),
};

enum send_state { QP_CONNECTING, QP_READY, QP_DISCONNECTING, QP_CLOSED, QP_FAILED };

static const char *const send_state_names[] = {
	[QP_CONNECTING] = "connecting",
	[QP_READY] = "connected",
	[QP_DISCONNECTING] = "disconnecting",
	[QP_CLOSED] = "closed",
	[QP_FAILED] = "failed",
};

/*
 * Frames have 64-bit indices from 0; PSN, message and place in it all follow from the index:
 *     acked <= next <= sent <= acked + window
 * A NAK or a timeout only moves next back.
 */
struct send_qp {
	enum send_state state;
	struct cm_end cm;
	struct peer_path path;
	__u64 cm_retry_ns;
	struct tx_socket tx;
	__u64 acked, next, sent;
	__u64 timer_ns, timeout_ns;
	__u64 last_ack_ns;
	bool paused; /* begins no message */
	__u64 pause_change_ns, paused_since_ns;
	__u64 offer_start_ns;	   /* when the application began, were there no pauses */
	__u64 *message_started_ns; /* of the messages in flight, by number modulo the window + 2 */
	struct send_counters count;
	struct latencies latency;
	struct timeline acked_bytes;
};

enum send_phase { PHASE_CONNECT, PHASE_WAIT, PHASE_DATA, PHASE_DRAIN, PHASE_BYE, PHASE_DONE };

struct requester {
	struct peer peer;
	const struct send_options *opt;
	enum send_phase phase;
	struct send_qp *qps;
	unsigned int qp_count;
	__u64 frames_per_message;
	__u64 phase_deadline_ns;
	__u64 start_ns, start_wall_ns;
	__u64 cnps_unknown_qp;
	__u64 progress_ns, progress_bytes;
	__u8 payload[4096];
};

static bool has_payload_phase(const struct requester *r)
{
	return r->phase == PHASE_DATA || r->phase == PHASE_DRAIN;
}

/* Payload bytes of the frames below index. */
static __u64 bytes_before(const struct requester *r, __u64 index)
{
	__u64 in_message = index % r->frames_per_message * r->opt->mtu_bytes;

	return index / r->frames_per_message * r->opt->message_bytes +
	       (in_message < r->opt->message_bytes ? in_message : r->opt->message_bytes);
}

static __u8 opcode_at(const struct requester *r, __u64 place)
{
	if (r->frames_per_message == 1)
		return OP_RC_WRITE_ONLY;
	if (place == 0)
		return OP_RC_WRITE_FIRST;
	return place == r->frames_per_message - 1 ? OP_RC_WRITE_LAST : OP_RC_WRITE_MIDDLE;
}

static __u32 psn_of(const struct send_qp *qp, __u64 index)
{
	return (qp->cm.psn + index) & BTH_PSN_MASK;
}

static void send_cm(struct requester *r, struct send_qp *qp, __u16 attribute, __u64 now)
{
	struct peer *p = &r->peer;
	struct peer_path path = qp->path;
	struct frame_head *h;
	__u8 mad[MAD_BYTES];

	path.udp_src_port = udp_src_port_of_pair(QPN_CM, QPN_CM);
	cm_write(mad, attribute, &qp->cm, &path);
	h = batch_begin(&p->batch, &path);
	head_put_bth(h, OP_UD_SEND_ONLY, 0, QPN_CM, false, p->cm_psn++);
	head_put_deth(h, CM_QKEY, QPN_CM);
	batch_add(&p->batch, &path, mad, sizeof(mad), 0);
	/* what is lost here, the retry sends again */
	batch_send(&p->batch, &p->control[path_l3(&path)], now);
}

static void qp_open(struct requester *r, struct send_qp *qp, unsigned int i)
{
	const struct send_options *opt = r->opt;

	qp->state = QP_CONNECTING;
	qp->pause_change_ns = NEVER_NS;
	memcpy(qp->path.src, &r->peer.addrs[0], sizeof(qp->path.src));
	memcpy(qp->path.dst, &opt->server_address, sizeof(qp->path.dst));
	qp->path.tos = r->peer.tos;
	qp->cm = (struct cm_end){
		.local_id = random_u32(),
		.tid = (__u64)random_u32() << 32 | random_u32(),
		.qpn = opt->qpn_base + i,
		.psn = random_u32() & BTH_PSN_MASK,
		.service_port = opt->service_port,
		.mtu_bytes = opt->mtu_bytes,
	};
	qp->message_started_ns = calloc(opt->window_frames + 2, sizeof(__u64));
	if (!qp->message_started_ns)
		err(1, "memory");
	tx_open(&qp->tx, &l3_sockets[path_l3(&qp->path)], opt->ifname, opt->sndbuf_bytes);
	epoll_watch(r->peer.epoll_fd, EPOLL_CTL_ADD, qp->tx.fd, EPOLLONESHOT, TAG_QP + i);
}

static void timer_restart(struct requester *r, struct send_qp *qp, __u64 now)
{
	qp->timeout_ns = r->opt->timeout_ms * NSEC_PER_MSEC;
	qp->timer_ns = qp->acked < qp->sent ? now + qp->timeout_ns : NEVER_NS;
}

static __u64 *message_start(struct requester *r, struct send_qp *qp, __u64 message)
{
	return &qp->message_started_ns[message % (r->opt->window_frames + 2)];
}

/* All frames below index have arrived, in order. */
static void qp_acked_below(struct requester *r, struct send_qp *qp, __u64 index, __u64 now)
{
	__u64 message;

	if (index <= qp->acked)
		return;
	for (message = qp->acked / r->frames_per_message; message < index / r->frames_per_message;
		message++) {
		latencies_add(&qp->latency, now - *message_start(r, qp, message));
		qp->count.messages++;
	}
	timeline_add(&qp->acked_bytes, now, bytes_before(r, index) - bytes_before(r, qp->acked));
	qp->acked = index;
	if (qp->next < index)
		qp->next = index;
	qp->count.payload_bytes_acked = bytes_before(r, index);
	qp->last_ack_ns = now;
	timer_restart(r, qp, now);
}

static void qp_on_ack(struct requester *r, struct send_qp *qp, const struct rx_frame *f, __u64 now)
{
	__s32 ahead = wire_psn_ahead(f->wire.psn, psn_of(qp, qp->acked));
	bool in_flight = ahead >= 0 && qp->acked + ahead < qp->sent;

	qp->count.acks++;
	qp->count.acks_ce += wire_is_ce(f->wire.tos);
	if (!in_flight)
		return; /* of a frame acknowledged before */
	if ((f->wire.syndrome & AETH_TYPE_MASK) == AETH_ACK) {
		qp_acked_below(r, qp, qp->acked + ahead + 1, now);
	} else if (f->wire.syndrome == AETH_NAK_PSN_SEQUENCE) {
		qp->count.naks++;
		qp_acked_below(r, qp, qp->acked + ahead, now);
		qp->next = qp->acked;
		timer_restart(r, qp, now);
	} else {
		warnx("QP 0x%x: unexpected syndrome 0x%02x", qp->cm.qpn, f->wire.syndrome);
		qp->state = QP_FAILED;
	}
}

static void qp_on_rep(struct requester *r, struct send_qp *qp, const struct wire_cm *cm, __u64 now)
{
	if (qp->state == QP_CONNECTING) {
		qp->cm.remote_id = cm->local_id;
		qp->cm.peer_qpn = cm->qpn;
		qp->path.udp_src_port = udp_src_port_of_pair(qp->cm.qpn, cm->qpn);
		qp->state = QP_READY;
	}
	if (qp->state == QP_READY) /* again when the RTU was lost */
		send_cm(r, qp, CM_RTU, now);
}

static struct send_qp *qp_by_comm_id(struct requester *r, const struct rx_frame *f, __u32 id)
{
	struct send_qp *qp;

	for (qp = r->qps; qp < r->qps + r->qp_count; qp++)
		if (qp->cm.local_id == id && address_equal(f->wire.key.src, qp->path.dst))
			return qp;
	return NULL;
}

static struct send_qp *qp_by_qpn(struct requester *r, const struct rx_frame *f)
{
	__u64 i = f->wire.key.dst_qpn - r->opt->qpn_base;

	return i < r->qp_count ? &r->qps[i] : NULL;
}

static void requester_on_cm(struct requester *r, const struct rx_frame *f, __u64 now)
{
	struct send_qp *qp;
	struct wire_cm cm;

	if (!cm_read(f->data, &f->wire, &cm))
		return;
	qp = qp_by_comm_id(r, f, cm.remote_id);
	if (!qp)
		return;
	if (cm.attribute == CM_REP)
		qp_on_rep(r, qp, &cm, now);
	if (cm.attribute == CM_DREP && qp->state == QP_DISCONNECTING)
		qp->state = QP_CLOSED;
}

static void requester_on_cnp(struct requester *r, const struct rx_frame *f)
{
	struct send_qp *qp = qp_by_qpn(r, f);

	r->peer.cnps++;
	if (!qp) {
		r->cnps_unknown_qp++;
		return;
	}
	qp->count.cnps++;
	qp->count.cnps_bad_icrc += !f->icrc_ok;
}

static void requester_on_frame(void *ctx, const struct rx_frame *f)
{
	struct requester *r = ctx;
	struct send_qp *qp;

	if (f->wire.kind == WIRE_CM) {
		requester_on_cm(r, f, now_ns());
	} else if (f->wire.kind == WIRE_CNP) {
		requester_on_cnp(r, f);
	} else if (f->wire.opcode == OP_RC_ACK) {
		qp = qp_by_qpn(r, f);
		if (qp && qp->state != QP_CONNECTING &&
			address_equal(f->wire.key.src, qp->path.dst))
			qp_on_ack(r, qp, f, now_ns());
	}
}

static bool ack_requested(const struct requester *r, __u64 index)
{
	__u64 every = r->opt->window_frames / 2;

	if (every > ACK_REQUEST_EVERY || !every)
		every = every ? ACK_REQUEST_EVERY : 1;
	return index % r->frames_per_message == r->frames_per_message - 1 ||
	       index % every == every - 1;
}

/*
 * Add frame index to the batch. Its payload starts with the count of frames this QP has ever sent:
 * retransmissions get a new one, so the responder can tell overtaking and loss on the path.
 */
static void batch_add_data(struct requester *r, struct send_qp *qp, __u64 index, __u64 stamp)
{
	const struct send_options *opt = r->opt;
	__u64 place = index % r->frames_per_message;
	__u64 message = index / r->frames_per_message;
	unsigned int bytes = bytes_before(r, index + 1) - bytes_before(r, index);
	unsigned int pad = -bytes & 3;
	struct frame_head *h = batch_begin(&r->peer.batch, &qp->path);

	head_put_bth(h, opcode_at(r, place), pad, qp->cm.peer_qpn, ack_requested(r, index),
		psn_of(qp, index));
	if (place == 0)
		head_put_reth(h, message * opt->message_bytes, qp->cm.peer_qpn, opt->message_bytes);
	if (bytes >= STAMP_BYTES) {
		put_be64(head_take(h, STAMP_BYTES), stamp);
		bytes -= STAMP_BYTES;
	}
	batch_add(&r->peer.batch, &qp->path, r->payload, bytes, pad);
}

static __u64 messages_of(const struct requester *r, __u64 frames)
{
	return (frames + r->frames_per_message - 1) / r->frames_per_message;
}

static double message_interval_ns(const struct requester *r)
{
	return r->opt->message_bytes * 8e3 / r->opt->offer_mbit;
}

/* When the application has its next message to send; 0 (long ago) when it always has one. */
static __u64 message_due_ns(const struct requester *r, const struct send_qp *qp)
{
	if (r->opt->offer_mbit <= 0)
		return 0;
	return qp->offer_start_ns + (__u64)(messages_of(r, qp->sent) * message_interval_ns(r));
}

/* How many messages the application has had to send by now. */
static __u64 messages_due(const struct requester *r, const struct send_qp *qp, __u64 now)
{
	return 1 + (__u64)((now - qp->offer_start_ns) / message_interval_ns(r));
}

/* Where sending stops for now: the window, the application's next message, a pause, the end. */
static __u64 qp_frame_limit(const struct requester *r, const struct send_qp *qp, __u64 now)
{
	__u64 window = qp->acked + r->opt->window_frames;

	if (r->phase == PHASE_DRAIN || qp->paused) /* only what was begun */
		return min_u64(window, messages_of(r, qp->sent) * r->frames_per_message);
	if (r->opt->offer_mbit > 0)
		return min_u64(window, messages_due(r, qp, now) * r->frames_per_message);
	return window;
}

static void qp_note_sent(struct requester *r, struct send_qp *qp, unsigned int n, __u64 now)
{
	for (; n; n--, qp->next++) {
		qp->count.frames_sent++;
		if (qp->next < qp->sent) {
			qp->count.frames_retransmitted++;
			continue;
		}
		if (qp->next % r->frames_per_message == 0)
			*message_start(r, qp, qp->next / r->frames_per_message) = now;
		qp->sent++;
	}
	qp->count.payload_bytes_first_time = bytes_before(r, qp->sent);
	if (qp->timer_ns == NEVER_NS)
		qp->timer_ns = now + qp->timeout_ns;
}

/* Send one batch of this QP. True when it could send more at once. */
static bool qp_send_batch(struct requester *r, struct send_qp *qp, unsigned int i)
{
	__u64 now = now_ns();
	__u64 limit = qp_frame_limit(r, qp, now);
	__u64 index = qp->next;
	__u64 stamp = qp->count.frames_sent;

	if (qp->state != QP_READY || !tx_ready(&qp->tx, now) || index >= limit)
		return false;
	while (index < limit && !batch_full(&r->peer.batch))
		batch_add_data(r, qp, index++, stamp++);
	qp_note_sent(r, qp, batch_send(&r->peer.batch, &qp->tx, now), now);
	if (qp->tx.blocked)
		peer_watch_room(&r->peer, &qp->tx, TAG_QP + i);
	return tx_ready(&qp->tx, now) && qp->next < limit;
}

/*
 * A NIC's timer starts when the frame is on the wire; this one when the socket took it. So while
 * frames still wait in this host's own queue nothing has timed out.
 */
static void qp_check_timer(struct send_qp *qp, __u64 now)
{
	if (now < qp->timer_ns)
		return;
	if (tx_queued_bytes(&qp->tx)) {
		qp->timer_ns = now + qp->timeout_ns;
		return;
	}
	qp->count.timeouts++;
	qp->next = qp->acked;
	qp->timeout_ns = min_u64(qp->timeout_ns * 2, RETRANSMIT_MAX_MS * NSEC_PER_MSEC);
	qp->timer_ns = now + qp->timeout_ns;
}

static void qp_begin_pause(struct requester *r, struct send_qp *qp, __u64 now)
{
	qp->paused = true;
	qp->paused_since_ns = now;
	qp->pause_change_ns = now + (__u64)(r->opt->pause_for_ms * NSEC_PER_MSEC);
	qp->count.pauses++;
}

/* An application that pauses does not catch up afterwards. */
static void qp_end_pause(struct requester *r, struct send_qp *qp, __u64 now)
{
	qp->paused = false;
	qp->pause_change_ns = now + (__u64)(r->opt->pause_every_ms * NSEC_PER_MSEC);
	qp->offer_start_ns += now - qp->paused_since_ns;
	qp->count.pauses_idle += qp->acked == qp->sent;
	qp->count.paused_us += (now - qp->paused_since_ns) / NSEC_PER_USEC;
}

static void qp_check_pause(struct requester *r, struct send_qp *qp, __u64 now)
{
	if (now < qp->pause_change_ns || r->phase != PHASE_DATA)
		return;
	if (qp->paused)
		qp_end_pause(r, qp, now);
	else
		qp_begin_pause(r, qp, now);
}

static void qp_check_cm(struct requester *r, struct send_qp *qp, __u64 now)
{
	bool leaving = qp->state == QP_DISCONNECTING;

	if ((qp->state != QP_CONNECTING && !leaving) || now < qp->cm_retry_ns)
		return;
	qp->cm_retry_ns = now + CM_RETRY_MS * NSEC_PER_MSEC;
	send_cm(r, qp, leaving ? CM_DREQ : CM_REQ, now);
}

static unsigned int count_state(const struct requester *r, enum send_state state)
{
	unsigned int i, n = 0;

	for (i = 0; i < r->qp_count; i++)
		n += r->qps[i].state == state;
	return n;
}

/* Every message begun is sent to its end, and all of it is acknowledged. */
static bool all_complete(const struct requester *r)
{
	const struct send_qp *qp;

	for (qp = r->qps; qp < r->qps + r->qp_count; qp++)
		if (qp->state == QP_READY &&
			(qp->sent % r->frames_per_message || qp->acked < qp->sent))
			return false;
	return true;
}

static void enter_phase(struct requester *r, enum send_phase phase, __u64 deadline_ns)
{
	r->phase = phase;
	r->phase_deadline_ns = deadline_ns;
}

static void enter_wait(struct requester *r, __u64 now)
{
	__u64 wall = wall_ns();
	__u64 start_wall = r->opt->start_at_s * 1e9;

	enter_phase(r, PHASE_WAIT, start_wall > wall ? now + (start_wall - wall) : now);
}

/* The first pauses of the QPs are spread, or all would pause together. */
static void enter_data(struct requester *r, __u64 now)
{
	double spread_ns = r->opt->pause_every_ms * NSEC_PER_MSEC / r->qp_count;
	unsigned int i;

	r->start_ns = now;
	r->start_wall_ns = wall_ns();
	r->progress_ns = now + NSEC_PER_SEC;
	for (i = 0; i < r->qp_count; i++) {
		r->qps[i].acked_bytes.start_ns = now;
		r->qps[i].offer_start_ns = now;
		if (spread_ns > 0)
			r->qps[i].pause_change_ns = now + (__u64)(spread_ns * (i + 1));
	}
	enter_phase(r, PHASE_DATA, now + (__u64)(r->opt->duration_s * 1e9));
}

static void enter_drain(struct requester *r, __u64 now)
{
	__u64 wait_ns = r->opt->drain_s * 1e9;
	struct send_qp *qp;

	for (qp = r->qps; qp < r->qps + r->qp_count; qp++)
		if (qp->paused)
			qp_end_pause(r, qp, now);
	if (r->peer.stop)
		wait_ns = min_u64(wait_ns, STOPPED_DRAIN_MS * NSEC_PER_MSEC);
	enter_phase(r, PHASE_DRAIN, now + wait_ns);
}

static void enter_bye(struct requester *r, __u64 now)
{
	struct send_qp *qp;

	for (qp = r->qps; qp < r->qps + r->qp_count; qp++) {
		qp->timer_ns = NEVER_NS;
		qp->cm_retry_ns = 0;
		qp->state = qp->state == QP_READY ? QP_DISCONNECTING : QP_FAILED;
	}
	enter_phase(r, PHASE_BYE, now + CM_DREQ_PATIENCE_MS * NSEC_PER_MSEC);
}

/* Enter the next phase when this one has done its work or its time is over. */
static void requester_next_phase(struct requester *r, __u64 now)
{
	bool over = now >= r->phase_deadline_ns || r->peer.stop;

	switch (r->phase) {
	case PHASE_CONNECT:
		if (!count_state(r, QP_CONNECTING))
			enter_wait(r, now);
		else if (over)
			enter_bye(r, now);
		break;
	case PHASE_WAIT:
		if (r->peer.stop)
			enter_bye(r, now);
		else if (over)
			enter_data(r, now);
		break;
	case PHASE_DATA:
		if (over)
			enter_drain(r, now);
		break;
	case PHASE_DRAIN:
		if (all_complete(r) || now >= r->phase_deadline_ns)
			enter_bye(r, now);
		break;
	case PHASE_BYE:
		if (!count_state(r, QP_DISCONNECTING) || now >= r->phase_deadline_ns)
			enter_phase(r, PHASE_DONE, NEVER_NS);
		break;
	case PHASE_DONE:
		break;
	}
}

/* A phase may have nothing to do: go on until one has, for no event would tell. */
static void requester_advance(struct requester *r, __u64 now)
{
	enum send_phase before;

	do {
		before = r->phase;
		requester_next_phase(r, now);
	} while (r->phase != before);
}

static void requester_progress(struct requester *r, __u64 now)
{
	__u64 bytes = 0, resent = 0;
	unsigned int i;

	if (!r->opt->progress || r->phase != PHASE_DATA || now < r->progress_ns)
		return;
	for (i = 0; i < r->qp_count; i++) {
		bytes += r->qps[i].count.payload_bytes_acked;
		resent += r->qps[i].count.frames_retransmitted;
	}
	fprintf(stderr, "%6.1f s  %8.2f Mbit/s  %llu retransmitted\n", (now - r->start_ns) / 1e9,
		(bytes - r->progress_bytes) * 8 / 1e6, resent);
	r->progress_bytes = bytes;
	r->progress_ns += NSEC_PER_SEC;
}

/* The earliest time at which something is to be done that no frame and no socket will tell. */
static __u64 requester_deadline(const struct requester *r, __u64 now)
{
	const struct send_qp *qp;
	__u64 at = r->phase_deadline_ns, due;

	for (qp = r->qps; qp < r->qps + r->qp_count; qp++) {
		if (qp->state == QP_CONNECTING || qp->state == QP_DISCONNECTING)
			at = min_u64(at, qp->cm_retry_ns);
		at = min_u64(at, qp->timer_ns);
		if (qp->tx.retry_ns > now)
			at = min_u64(at, qp->tx.retry_ns);
		if (r->phase != PHASE_DATA)
			continue;
		at = min_u64(at, qp->pause_change_ns);
		due = message_due_ns(r, qp);
		if (due > now)
			at = min_u64(at, due);
	}
	if (r->opt->progress && r->phase == PHASE_DATA)
		at = min_u64(at, r->progress_ns);
	return at;
}

static void requester_wait(struct requester *r, __u64 deadline_ns)
{
	struct epoll_event ev[EVENTS_MAX];
	int i, n = peer_wait(&r->peer, deadline_ns, ev);

	for (i = 0; i < n; i++)
		if (ev[i].data.u64 >= TAG_QP)
			r->qps[ev[i].data.u64 - TAG_QP].tx.blocked = false;
}

/* One turn: what came, what is due, one batch of each QP in turn, sleep. */
static void requester_turn(struct requester *r)
{
	bool more = peer_receive(&r->peer, RX_BUDGET, requester_on_frame, r);
	__u64 now = now_ns();
	unsigned int i;

	requester_advance(r, now);
	requester_progress(r, now);
	for (i = 0; i < r->qp_count; i++) {
		qp_check_cm(r, &r->qps[i], now);
		if (!has_payload_phase(r))
			continue;
		qp_check_timer(&r->qps[i], now);
		qp_check_pause(r, &r->qps[i], now);
		more |= qp_send_batch(r, &r->qps[i], i);
	}
	if (r->phase != PHASE_DONE)
		requester_wait(r, more ? 0 : requester_deadline(r, now));
}

/* Goodput over the time from the start of data to the last acknowledgement. */
static void put_rates(json_t *o, const struct send_counters *c, __u64 span_ns)
{
	double share = c->frames_sent ? (double)c->frames_retransmitted / c->frames_sent : 0;
	double bps = span_ns ? c->payload_bytes_acked * 8e9 / span_ns : 0;

	put_seconds(o, "seconds", span_ns);
	json_object_set_new(o, "goodput_bps", json_integer(bps));
	json_object_set_new(o, "retransmitted_share", json_real(share));
}

static __u64 qp_span_ns(const struct requester *r, const struct send_qp *qp)
{
	return qp->last_ack_ns > r->start_ns ? qp->last_ack_ns - r->start_ns : 0;
}

static json_t *qp_json(const struct requester *r, struct send_qp *qp)
{
	json_t *o = json_object();

	put_count(o, "qpn", qp->cm.qpn);
	put_count(o, "peer_qpn", qp->cm.peer_qpn);
	put_count(o, "udp_src_port", qp->path.udp_src_port);
	json_object_set_new(o, "state", json_string(send_state_names[qp->state]));
	put_counters(o, &qp->count, send_rows, ROWS(send_rows));
	put_rates(o, &qp->count, qp_span_ns(r, qp));
	put_count(o, "frames_unacked", qp->sent - qp->acked);
	put_count(o, "sends_refused", qp->tx.refused);
	json_object_set_new(o, "latency_us", latencies_json(&qp->latency));
	json_object_set_new(o, "goodput_timeline_bps",
		timeline_json(&qp->acked_bytes, 8 * TIMELINE_SLOTS_PER_SEC));
	return o;
}

static void counters_sum(struct send_counters *into, const struct send_counters *from)
{
	size_t i;

	for (i = 0; i < ROWS(send_rows); i++)
		*(__u64 *)((char *)into + send_rows[i].offset) +=
			*(const __u64 *)((const char *)from + send_rows[i].offset);
}

static json_t *requester_json(struct requester *r)
{
	struct timeline timeline = {.start_ns = r->start_ns};
	struct send_counters total = {0};
	struct latencies latency = {0};
	json_t *o = peer_json(&r->peer, "send");
	json_t *qps = json_array();
	__u64 span_ns = 0, unacked = 0, refused = 0;
	struct send_qp *qp;
	size_t i;

	for (qp = r->qps; qp < r->qps + r->qp_count; qp++) {
		counters_sum(&total, &qp->count);
		timeline_merge(&timeline, &qp->acked_bytes);
		for (i = 0; i < qp->latency.count; i++)
			latencies_add(&latency, qp->latency.us[i] * NSEC_PER_USEC);
		if (qp_span_ns(r, qp) > span_ns)
			span_ns = qp_span_ns(r, qp);
		unacked += qp->sent - qp->acked;
		refused += qp->tx.refused;
		json_array_append_new(qps, qp_json(r, qp));
	}
	json_object_set_new(o, "server", json_string(r->opt->server));
	put_seconds(o, "start_epoch", r->start_wall_ns);
	put_counters(o, &total, send_rows, ROWS(send_rows));
	put_rates(o, &total, span_ns);
	put_count(o, "frames_unacked", unacked);
	put_count(o, "sends_refused", refused);
	put_count(o, "cnps_unknown_qp", r->cnps_unknown_qp);
	json_object_set_new(o, "latency_us", latencies_json(&latency));
	json_object_set_new(
		o, "goodput_timeline_bps", timeline_json(&timeline, 8 * TIMELINE_SLOTS_PER_SEC));
	json_object_set_new(o, "qps", qps);
	free(timeline.bytes);
	free(latency.us);
	return o;
}

static int requester_report(struct requester *r)
{
	unsigned int i, unconnected = 0;
	int rc;

	for (i = 0; i < r->qp_count; i++) {
		unconnected += !r->qps[i].cm.peer_qpn;
		if (r->qps[i].tx.refused)
			warnx("QP 0x%x: %llu sends refused (%s), tried again", r->qps[i].cm.qpn,
				r->qps[i].tx.refused, strerror(r->qps[i].tx.refused_errno));
	}
	rc = report_print(requester_json(r));
	if (unconnected) {
		warnx("%u of %u QPs were not connected to %s", unconnected, r->qp_count,
			r->opt->server);
		return 1;
	}
	return rc;
}

/* Run the requester to its end; returns the exit code. */
static int send_run(struct send_options *opt)
{
	static struct requester r;
	unsigned int i;

	r.opt = opt;
	r.peer.ifname = opt->ifname;
	r.peer.tos = opt->dscp << 2 | ECN_ECT0;
	r.qp_count = opt->qps;
	r.frames_per_message = (opt->message_bytes + opt->mtu_bytes - 1) / opt->mtu_bytes;
	peer_find_interface(&r.peer, &opt->server_address);
	if (!opt->qpn_base)
		opt->qpn_base = peer_qpn_base(&r.peer, 0x10000);
	r.qps = calloc(r.qp_count, sizeof(*r.qps));
	if (!r.qps)
		err(1, "memory");
	for (i = 0; i < sizeof(r.payload); i++)
		r.payload[i] = i;
	peer_open(&r.peer, CM_FRAME_BYTES_MAX, REQUESTER_RING_SLOTS);
	for (i = 0; i < r.qp_count; i++) {
		qp_open(&r, &r.qps[i], i);
		timer_restart(&r, &r.qps[i], 0);
	}
	enter_phase(&r, PHASE_CONNECT, now_ns() + (__u64)(opt->connect_timeout_s * 1e9));
	while (r.phase != PHASE_DONE)
		requester_turn(&r);
	return requester_report(&r);
}

#endif
