// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A frame enters a port's queue tree: which queue, is there room, is it to be marked? Runs as the
// root HTB's classifier, under its lock, so the depths it reads are exact.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "event.bpf.h"
#include "frame.bpf.h"
#include "mark.bpf.h"
#include "pause.bpf.h"
#include "steer.bpf.h"

static inline __attribute__((always_inline)) int enqueue_at(struct __sk_buff *skb, __u16 minor)
{
	skb->tc_classid = minor;
	return TC_ACT_OK;
}

/* The slot of the port that the frame came in by. */
static inline __attribute__((always_inline)) __u32 ingress_slot(struct __sk_buff *skb)
{
	struct port_conf *from = skb->ingress_ifindex ? port_get(skb->ingress_ifindex) : NULL;

	return from && from->slot < SLOTS_MAX ? from->slot : SLOT_LOCAL;
}

/* A CM message of this host, which no XDP program sees. */
static __attribute__((noinline)) int tell_cm(struct __sk_buff *skb, const struct wire_frame *f,
	const struct port_conf *port, struct port_stats *stats)
{
	struct cm_bytes bytes;
	__u32 at;

	if (!f || !port || !stats)
		return 0;
	at = cm_offset(f);
	if (at && !bpf_skb_load_bytes(skb, at, &bytes, sizeof(bytes)))
		event_send_cm(&bytes, f, port, stats);
	return 0;
}

SEC("tc")
int quench_root(struct __sk_buff *skb)
{
	struct port_conf *port = port_get(skb->ifindex);
	struct conf *conf = conf_get();
	struct qdisc_seen gate = {};
	struct port_pauses *pause;
	struct port_state *state;
	struct port_stats *stats;
	struct class_conf *cls;
	struct wire_frame f;
	__u32 slot, index;
	bool known;
	__u16 leaf;

	if (!port || !conf)
		return TC_ACT_UNSPEC;
	stats = stats_get(port->slot);
	state = state_get(port->slot);
	if (!stats || !state)
		return TC_ACT_UNSPEC;
	if (clone_is_marked(skb->mark)) {
		stats->drops[PORT_DROP_STRAY_CLONE]++;
		return enqueue_at(skb, MINOR_SINK);
	}
	frame_read(skb, conf, &f);
	slot = ingress_slot(skb);
	if (f.kind == WIRE_CM && !f.tunnel && slot == SLOT_LOCAL)
		tell_cm(skb, &f, port, stats);
	if (f.kind == WIRE_CNP && !f.tunnel && wire_cnp_is_whole(&f))
		return enqueue_at(skb, MINOR_CONTROL);
	if (f.kind == WIRE_PFC) {
		pause_count_sent(skb, f.mac_control_off, stats);
		return enqueue_at(skb, MINOR_CONTROL);
	}
	index = frame_class(conf, port, &f);
	if (index >= CLASSES_MAX)
		return enqueue_at(skb, MINOR_DEFAULT);
	cls = &conf->classes[index];
	if (frame_is_kept_out(skb, cls)) {
		stats->kept_out++;
		return enqueue_at(skb, MINOR_DEFAULT);
	}
	pause = pauses_get(port->slot);
	if (pause && pause->dropped >> index & 1) {
		stats->drops[PORT_DROP_STORM]++;
		return TC_ACT_SHOT;
	}

	known = depth_read(port->refs_base + ref_gate(index), &gate);
	if (!known || state->generation != port->generation)
		depth_resolve(skb, conf, port);
	if (!known) {
		stats->depth_unknown++;
	} else {
		if (gate.backlog_bytes > state->depth_max_bytes[index])
			state->depth_max_bytes[index] = gate.backlog_bytes;
		if (gate.backlog_bytes + skb->wire_len > cls->limit_bytes) {
			stats->drops[PORT_DROP_LIMIT]++;
			return TC_ACT_SHOT;
		}
		if ((port->flags & (PORT_MARKS | PORT_NOTIFY_EGRESS)) == PORT_MARKS)
			mark_frame(skb, cls, &f, gate.backlog_bytes, stats);
	}
	leaf = MINOR_SLOT + slot;
	if (port->flags & PORT_REACTION && index == port->reaction_class && wire_is_roce(f.kind) &&
		!f.tunnel)
		leaf = steer_qp(skb, conf, port, state, &f, slot, stats);
	skb->priority = TREE_CLASS(TREE_INNER + index, leaf);
	return enqueue_at(skb, MINOR_PRIORITY + index);
}
