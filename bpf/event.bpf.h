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

/* CNPs come in storms and again; what makes a pair comes once: half of the ring is kept for that.
 */
static inline __attribute__((always_inline)) void event_send_cnp(
	const struct flow_key *data, const struct port_conf *port, struct port_stats *stats)
{
	struct event *e;

	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >
		bpf_ringbuf_query(&events, BPF_RB_RING_SIZE) / 2) {
		stats->ring_drops++;
		return;
	}
	e = event_new(EVENT_CNP, data, port, stats);
	if (e)
		bpf_ringbuf_submit(e, 0);
}

/* The MAD follows BTH and DETH; what wire_read_cm reads of it lies in its first 72 bytes. */
enum { CM_READ_BYTES = MAD_HEADER_BYTES + 48, BTH_OFF_MAX = 255 };

static inline __attribute__((always_inline)) void event_send_cm(const void *data, const void *end,
	const struct wire_frame *f, const struct port_conf *port, struct port_stats *stats)
{
	__u32 bth_off = f->bth_off;
	const __u8 *mad;
	struct wire_cm cm;
	struct event *e;

	if (bth_off > BTH_OFF_MAX || f->icrc_off < bth_off + BTH_BYTES + DETH_BYTES + CM_READ_BYTES)
		return;
	asm volatile("" : "+r"(bth_off)); /* keep the mask: the verifier needs the bound */
	bth_off &= BTH_OFF_MAX;
	mad = (const __u8 *)data + bth_off + BTH_BYTES + DETH_BYTES;
	if (mad + CM_READ_BYTES > (const __u8 *)end || !wire_read_cm(mad, &cm))
		return;
	e = event_new(EVENT_CM, &f->key, port, stats);
	if (!e)
		return;
	e->cm = cm;
	bpf_ringbuf_submit(e, 0);
}

#endif
