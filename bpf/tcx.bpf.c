// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The tc hooks of a port, outside any lock: ask for CNPs about CE frames, and turn the clones that
// such a request makes into CNPs as they leave.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "cnp.bpf.h"
#include "depth.bpf.h"
#include "mac.bpf.h"
#include "mark.bpf.h"
#include "pause.bpf.h"

/* Both tcx and clsact read this as "carry on with the next program". */
enum { HOOK_NEXT = TC_ACT_UNSPEC };

/* A look at the ECN bits where they mostly are; what it cannot see may be CE. */
static inline __attribute__((always_inline)) bool may_be_ce(struct __sk_buff *skb)
{
	enum { TOS_OFF = ETH_HEADER_BYTES + 1, IPV6_ECN_SHIFT = 4 };
	const __u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	if (data + TOS_OFF + 1 > end)
		return true;
	if (skb->protocol == WIRE_HTONS(ETHERTYPE_IPV4))
		return wire_is_ce(data[TOS_OFF]);
	if (skb->protocol == WIRE_HTONS(ETHERTYPE_IPV6))
		return wire_is_ce(data[TOS_OFF] >> IPV6_ECN_SHIFT);
	return true;
}

/* A CE frame for this host: the host is the notification point. */
static inline __attribute__((always_inline)) int notify_as_host(struct __sk_buff *skb)
{
	struct port_stats *stats;
	struct port_conf *port;
	struct conf *conf;
	struct wire_frame f;

	if (!may_be_ce(skb))
		return HOOK_NEXT;
	port = port_get(skb->ifindex);
	conf = conf_get();
	if (!port || !conf || !(port->flags & PORT_NOTIFY_INGRESS))
		return HOOK_NEXT;
	frame_read(skb, conf, &f);
	if (!wire_is_ce(f.tos) || !frame_is_notifiable(&f))
		return HOOK_NEXT;
	stats = stats_get(port->slot);
	if (stats)
		cnp_request(skb, conf, &f, stats, skb->ifindex, CLONE_CNP_BACK);
	return HOOK_NEXT;
}

SEC("tc")
int quench_tc_ingress(struct __sk_buff *skb)
{
	return notify_as_host(skb);
}

/* The same on a port where XDP is generic. */
SEC("tc")
int quench_tc_ingress_generic(struct __sk_buff *skb)
{
	mac_restore(skb);
	return notify_as_host(skb);
}

/* Has this port's stack written the frame's Ethernet header (routed), or was it bridged? */
static inline __attribute__((always_inline)) bool is_routed(
	struct __sk_buff *skb, const struct port_conf *port)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct wire_eth *eth = data;
	int i;

	if (data + sizeof(*eth) > end)
		return false;
	for (i = 0; i < 6; i++)
		if (eth->src[i] != port->mac[i])
			return false;
	return true;
}

/*
 * The receivers behind this port send no CNPs, so the port does: it marks here, before the queue,
 * so that the frame it marks is the frame it notifies about.
 */
static inline __attribute__((always_inline)) void notify_for_receivers(struct __sk_buff *skb,
	const struct conf *conf, const struct port_conf *port, struct port_stats *stats,
	struct wire_frame *f, __u32 index)
{
	struct qdisc_seen gate = {};

	if (index < CLASSES_MAX && depth_read(port->refs_base + ref_gate(index), &gate))
		mark_frame(skb, &conf->classes[index], f, gate.backlog_bytes, stats);
	if (wire_is_ce(f->tos) && frame_is_notifiable(f) && skb->ingress_ifindex)
		cnp_request(skb, conf, f, stats, skb->ingress_ifindex,
			is_routed(skb, port) ? CLONE_CNP_ROUTED : CLONE_CNP_BACK);
}

/* A frame on its way into queues: whom does it concern beside the one that it is for? */
static inline __attribute__((always_inline)) void look_ahead(
	struct __sk_buff *skb, const struct conf *conf, const struct port_conf *port)
{
	struct port_stats *stats = stats_get(port->slot);
	struct wire_frame f;
	__u32 index;

	if (!stats)
		return;
	frame_read(skb, conf, &f);
	if (f.kind == WIRE_CNP && !f.tunnel)
		return;
	index = frame_class(conf, port, &f);
	if (index >= CLASSES_MAX || frame_is_kept_out(skb, &conf->classes[index]))
		index = CLASS_NONE;
	if (port->flags & PORT_PAUSES && index < CLASSES_MAX)
		pause_upstream(skb, conf, port, stats, index);
	if (port->flags & PORT_NOTIFY_EGRESS)
		notify_for_receivers(skb, conf, port, stats, &f, index);
}

static inline __attribute__((always_inline)) int morph(struct __sk_buff *skb)
{
	struct port_conf *port = port_get(skb->ifindex);
	struct conf *conf = conf_get();
	struct port_stats *stats;

	stats = port ? stats_get(port->slot) : NULL;
	if (!stats || !conf)
		return TC_ACT_SHOT;
	if (skb->mark == CLONE_PFC ? pause_morph(skb, conf, port)
				   : cnp_morph(skb, conf, skb->mark, stats))
		return HOOK_NEXT;
	stats->drops[PORT_DROP_MORPH]++;
	return TC_ACT_SHOT;
}

/* The egress hook of most ports: one look at the mark. */
SEC("tc")
int quench_tc_egress(struct __sk_buff *skb)
{
	return clone_is_marked(skb->mark) ? morph(skb) : HOOK_NEXT;
}

/* That of a port that notifies for the receivers behind it, or whose queues pause others. */
SEC("tc")
int quench_tc_ahead(struct __sk_buff *skb)
{
	struct port_conf *port;
	struct conf *conf;

	if (clone_is_marked(skb->mark))
		return morph(skb);
	port = port_get(skb->ifindex);
	conf = conf_get();
	if (port && conf && port->flags & (PORT_NOTIFY_EGRESS | PORT_PAUSES))
		look_ahead(skb, conf, port);
	return HOOK_NEXT;
}
