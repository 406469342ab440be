/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events to the agent's fast thread. A full ring loses the event, never the frame. */
#ifndef QUENCH_EVENT_BPF_H
#define QUENCH_EVENT_BPF_H

#include "maps.bpf.h"

static inline __attribute__((always_inline)) struct event *event_new(__u32 type,
	const struct flow_key *key, const struct port_conf *port, struct port_stats *stats)
{
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		stats->ring_drops++;
		return NULL;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->type = type;
	e->slot = port->slot;
	e->time_ns = bpf_ktime_get_ns();
	e->key = *key;
	return e;
}

/* What comes in storms and again has half of the ring; the rest is for what comes once. */
static inline __attribute__((always_inline)) bool event_has_room(struct port_stats *stats)
{
	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) <=
		bpf_ringbuf_query(&events, BPF_RB_RING_SIZE) / 2)
		return true;
	stats->ring_drops++;
	return false;
}

static inline __attribute__((always_inline)) void event_send_cnp(
	const struct flow_key *data, const struct port_conf *port, struct port_stats *stats)
{
	struct event *e;

	if (!event_has_room(stats))
		return;
	e = event_new(EVENT_CNP, data, port, stats);
	if (e)
		bpf_ringbuf_submit(e, 0);
}

/* An answer to the request with that PSN, which went to asked_qpn. */
static inline __attribute__((always_inline)) void event_send_answer(const struct wire_frame *f,
	__u32 asked_qpn, const struct port_conf *port, struct port_stats *stats)
{
	struct event *e;

	if (!event_has_room(stats))
		return;
	e = event_new(EVENT_ANSWER, &f->key, port, stats);
	if (!e)
		return;
	e->cm.qpn = asked_qpn;
	e->cm.psn = f->psn;
	bpf_ringbuf_submit(e, 0);
}

/* What wire_read_cm reads of a MAD, which follows BTH and DETH. */
enum { CM_READ_BYTES = MAD_HEADER_BYTES + 48 };

struct cm_bytes {
	__u8 mad[CM_READ_BYTES];
};

/* Where the MAD of a frame of kind WIRE_CM starts; 0 when the frame is too short for one. */
static inline __attribute__((always_inline)) __u32 cm_offset(const struct wire_frame *f)
{
	__u32 at = f->bth_off + BTH_BYTES + DETH_BYTES;

	return f->icrc_off < at + CM_READ_BYTES ? 0 : at;
}

static inline __attribute__((always_inline)) void event_send_cm(const struct cm_bytes *bytes,
	const struct wire_frame *f, const struct port_conf *port, struct port_stats *stats)
{
	struct wire_cm cm;
	struct event *e;

	if (!wire_read_cm(bytes->mad, &cm))
		return;
	e = event_new(EVENT_CM, &f->key, port, stats);
	if (!e)
		return;
	e->cm = cm;
	bpf_ringbuf_submit(e, 0);
}

#endif
