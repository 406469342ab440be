/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Priority flow control. What the peer of a port says is written down for the agent, which closes
 * and opens the gates; what a queue that fills has to say to the peer it fills from goes out at
 * once, as a clone of the frame that filled it.
 */
#ifndef QUENCH_PAUSE_BPF_H
#define QUENCH_PAUSE_BPF_H

#include "depth.bpf.h"
#include "event.bpf.h"
#include "kernel.bpf.h"
#include "quench/build.h"

/* Start the timer that looks for the end of the slot's XOFF, delay_ns from now. */
int pause_watch(__u32 slot, __u64 delay_ns);

static inline __attribute__((always_inline)) struct port_pauses *pauses_get(__u32 slot)
{
	return bpf_map_lookup_elem(&pauses, &slot);
}

/*
 * Tell the agent to look at the port's pauses, unless it has been told: *told is one of the port's
 * flags.
 */
static inline __attribute__((always_inline)) void pause_tell(__u32 *told, const struct conf *conf,
	const struct port_conf *port, struct port_stats *stats)
{
	struct flow_key none = {};
	struct event *e;

	if (__sync_lock_test_and_set(told, 1))
		return;
	e = event_new(EVENT_PAUSE, &none, port, stats);
	if (e)
		bpf_ringbuf_submit(e, conf->polls ? BPF_RB_NO_WAKEUP : 0);
	else
		__sync_lock_test_and_set(told, 0);
}

/* ---- from the peer ---- */

/* One priority of a PFC frame: until when, as the agent wants it; true if policy obeys it. */
static inline __attribute__((always_inline)) bool pause_hear_one(const struct port_conf *port,
	struct port_pauses *p, struct port_stats *stats, __u32 priority, __u16 quanta, __u64 now)
{
	if (quanta) {
		stats->xoff_received[priority]++;
		__sync_fetch_and_add(&p->xoffs[priority], 1);
	} else {
		stats->xon_received[priority]++;
	}
	if (!(port->obeyed >> priority & 1)) {
		stats->pause_ignored[PAUSE_IGNORED_NOT_ENABLED]++;
		return false;
	}
	p->until_ns[priority] = now + (__u64)quanta * port->quantum_ps / 1000;
	return true;
}

/* A frame of kind WIRE_PFC has arrived, and these are its fields. */
static inline __attribute__((always_inline)) int pause_hear(const struct wire_mac_control *m,
	const struct conf *conf, const struct port_conf *port, struct port_stats *stats)
{
	struct port_pauses *p;
	bool obeyed = false;
	__u64 now;
	__u16 classes;
	int i;

	if (!m || !conf || !port || !stats)
		return 0;
	p = pauses_get(port->slot);
	if (!p)
		return 0;
	classes = WIRE_HTONS(m->classes) & 0xff;
	if (!classes)
		stats->pause_ignored[PAUSE_IGNORED_EMPTY]++;
	now = bpf_ktime_get_ns();
	for (i = 0; i < PRIORITIES; i++)
		if (classes >> i & 1)
			obeyed |= pause_hear_one(port, p, stats, i, WIRE_HTONS(m->time[i]), now);
	if (obeyed)
		pause_tell(&p->arrived, conf, port, stats);
	return 0;
}

/* ---- to the peer ---- */

/* May the port send another PFC frame in this second? */
static inline __attribute__((always_inline)) bool pause_afford(
	const struct conf *conf, struct port_pauses *p, __u64 now)
{
	__u64 second = now / 1000000000;

	if (p->budget_second != second) {
		p->budget_second = second;
		p->budget_used = 0;
	}
	if (p->budget_used >= conf->pfc_budget_per_s)
		return false;
	__sync_fetch_and_add(&p->budget_used, 1);
	return true;
}

/*
 * Send a clone of the frame to its ingress port, to become a PFC frame there. Not one of a frame
 * whose checksum somebody will still write into it: then, and where this fails, the agent sends.
 */
static inline __attribute__((always_inline)) void pause_clone(
	struct __sk_buff *skb, struct port_pauses *p, struct port_stats *stats, __u32 cls)
{
	__u32 mark = skb->mark;

	if (skb_is_unfinished(skb))
		return;
	skb->mark = CLONE_PFC;
	if (bpf_clone_redirect(skb, skb->ingress_ifindex, 0)) {
		stats->pause_suppressed[PAUSE_SUPPRESSED_CLONE]++;
		__sync_fetch_and_and(&p->told, ~(1u << cls)); /* lost behind the hook */
	}
	skb->mark = mark;
}

/* The port `in` is to pause class cls of its peer, because of the queue that skb goes to. */
static inline __attribute__((always_inline)) void pause_send(struct __sk_buff *skb,
	const struct conf *conf, const struct port_conf *out, const struct port_conf *in,
	struct port_stats *stats, __u32 cls)
{
	struct port_pauses *p = pauses_get(in->slot);
	__u64 now;

	if (!p || cls >= CLASSES_MAX || p->xoff >> cls & 1)
		return;
	if (!(in->flags & PORT_ARMED)) {
		stats->pause_suppressed[PAUSE_SUPPRESSED_NOT_ARMED]++;
		return;
	}
	now = bpf_ktime_get_ns();
	if (!pause_afford(conf, p, now)) {
		stats->pause_suppressed[PAUSE_SUPPRESSED_BUDGET]++;
		return;
	}
	if (__sync_fetch_and_or(&p->xoff, 1u << cls) >> cls & 1)
		return; /* another CPU was faster */
	p->crossed_ns[cls] = now;
	p->crossed_at[cls] = out->slot;
	pause_clone(skb, p, stats, cls);
	pause_tell(&p->changed, conf, in, stats);
	pause_watch(in->slot, 0);
}

/* A frame of class cls on its way into the port's queues: does it fill its ingress port's leaf? */
static inline __attribute__((always_inline)) void pause_upstream(struct __sk_buff *skb,
	const struct conf *conf, const struct port_conf *out, struct port_stats *stats, __u32 cls)
{
	const struct class_conf *c = &conf->classes[cls];
	struct port_conf *in = skb->ingress_ifindex ? port_get(skb->ingress_ifindex) : NULL;
	struct port_state *state = state_get(out->slot);
	struct qdisc_seen leaf = {};
	struct port_pauses *p;
	__u32 depth;

	if (!in || !state || !(in->pausing >> cls & 1))
		return;
	if (!depth_read(out->refs_base + ref_slot_leaf(cls, conf->slots, in->slot), &leaf))
		return;
	depth = leaf.backlog_bytes + skb->wire_len;
	if (depth <= c->xoff_bytes)
		return;
	if (depth > state->leaf_max_bytes[cls])
		state->leaf_max_bytes[cls] = depth;
	p = pauses_get(out->slot);
	if (p && p->stormed >> cls & 1) {
		stats->pause_suppressed[PAUSE_SUPPRESSED_STORM]++;
		return;
	}
	pause_send(skb, conf, out, in, stats, cls);
}

/*
 * Rewrite a clone into what its port has to say: XOFF for every class that is to be paused now, XON
 * for those that no longer are.
 */
static inline __attribute__((always_inline)) bool pause_morph(
	struct __sk_buff *skb, const struct conf *conf, const struct port_conf *port)
{
	__u8 frame[MAC_CONTROL_FRAME_BYTES] __attribute__((aligned(8)));
	struct port_pauses *p = pauses_get(port->slot);
	__u16 quanta[PRIORITIES] = {};
	__u32 priorities = 0, xoff, told;
	int i;

	if (!p || (skb->vlan_present && bpf_skb_vlan_pop(skb)) ||
		bpf_skb_change_tail(skb, MAC_CONTROL_FRAME_BYTES, 0))
		return false;
	xoff = p->xoff;
	told = __sync_lock_test_and_set(&p->told, xoff);
	for (i = 0; i < CLASSES_MAX; i++)
		if ((xoff | told) >> i & 1) {
			priorities |= 1u << (conf->classes[i].priority & 7);
			quanta[conf->classes[i].priority & 7] =
				xoff >> i & 1 ? port->pause_quanta : 0;
		}
	if (!priorities)
		return false; /* drained and told so since */
	wire_build_pfc(frame, port->mac, priorities, quanta);
	if (bpf_skb_store_bytes(skb, 0, frame, sizeof(frame), BPF_F_INVALIDATE_HASH))
		return false; /* impossible: change_tail has made them writable */
	skb->mark = 0;
	return true;
}

/* A PFC frame on its way out, whoever made it: what it says is counted. */
static inline __attribute__((always_inline)) int pause_count_sent(
	struct __sk_buff *skb, __u32 offset, struct port_stats *stats)
{
	struct wire_mac_control m;
	int i;

	if (!stats || bpf_skb_load_bytes(skb, offset, &m, sizeof(m)))
		return 0;
	for (i = 0; i < PRIORITIES; i++) {
		if (!(WIRE_HTONS(m.classes) >> i & 1))
			continue;
		if (m.time[i])
			stats->xoff_sent[i]++;
		else
			stats->xon_sent[i]++;
	}
	return 0;
}

#endif
