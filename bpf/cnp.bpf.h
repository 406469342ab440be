/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Congestion notification: a clone of the CE frame goes toward its sender's port, and that port's
 * egress hook turns it into a CNP while the frame itself travels on.
 */
#ifndef QUENCH_CNP_BPF_H
#define QUENCH_CNP_BPF_H

#include <linux/if_ether.h>

#include "flow.bpf.h"
#include "frame.bpf.h"
#include "kernel.bpf.h"
#include "quench/build.h"

static inline __attribute__((always_inline)) void cnp_suppress(
	struct port_stats *stats, enum cnp_suppressed why)
{
	stats->cnp_suppressed[why]++;
}

/* May a CNP about this flow go out now? At most one an interval, whichever CPU asks. */
static inline __attribute__((always_inline)) bool cnp_is_due(
	const struct conf *conf, struct pair *pair)
{
	__u64 last = *(volatile __u64 *)&pair->last_cnp_ns, now = bpf_ktime_get_ns();

	if (last && now - last < conf->cnp_interval_ns)
		return false;
	return __sync_val_compare_and_swap(&pair->last_cnp_ns, last, now) == last;
}

/*
 * Send a clone of the frame to ifindex to become a CNP there. stats are those of the port that
 * saw the CE.
 */
static inline __attribute__((always_inline)) void cnp_request(struct __sk_buff *skb,
	const struct conf *conf, const struct wire_frame *f, struct port_stats *stats,
	__u32 ifindex, enum clone_mark kind)
{
	struct port_conf *out = port_get(ifindex);
	struct pair *pair = bpf_map_lookup_elem(&pairs, &f->key);
	__u32 mark = skb->mark;

	if (!pair)
		return cnp_suppress(stats, CNP_SUPPRESSED_UNKNOWN_PAIR);
	if (!out || !(out->flags & PORT_ARMED))
		return cnp_suppress(stats, CNP_SUPPRESSED_NOT_ARMED);
	if (!cnp_is_due(conf, pair))
		return cnp_suppress(stats, CNP_SUPPRESSED_INTERVAL);
	skb->mark = kind;
	if (bpf_clone_redirect(skb, ifindex, 0))
		cnp_suppress(stats, CNP_SUPPRESSED_CLONE);
	skb->mark = mark;
}

/* The Ethernet addresses of a CNP that goes back the way the frame came. */
static inline __attribute__((always_inline)) int cnp_address_back(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct wire_eth *eth = data, swapped;

	if (data + sizeof(*eth) > end)
		return -1;
	__builtin_memcpy(swapped.dst, eth->src, 6);
	__builtin_memcpy(swapped.src, eth->dst, 6);
	return bpf_skb_store_bytes(skb, 0, &swapped, 12, 0);
}

/* The same when the frame has been routed, so that its addresses are those of the next hop. */
static inline __attribute__((always_inline)) int cnp_address_routed(
	struct __sk_buff *skb, const struct wire_frame *f)
{
	struct bpf_fib_lookup fib = {.ifindex = skb->ifindex};
	struct wire_eth eth;

	if (f->l3 == L3_IPV4) {
		fib.family = 2; /* AF_INET */
		fib.ipv4_src = f->key.dst[3];
		fib.ipv4_dst = f->key.src[3];
	} else {
		fib.family = 10; /* AF_INET6 */
		__builtin_memcpy(fib.ipv6_src, f->key.dst, 16);
		__builtin_memcpy(fib.ipv6_dst, f->key.src, 16);
	}
	if (bpf_fib_lookup(skb, &fib, sizeof(fib), BPF_FIB_LOOKUP_OUTPUT))
		return -1;
	__builtin_memcpy(eth.dst, fib.dmac, 6);
	__builtin_memcpy(eth.src, fib.smac, 6);
	return bpf_skb_store_bytes(skb, 0, &eth, 12, 0);
}

/* Replace everything behind the Ethernet header and its tags by the CNP. */
static inline __attribute__((always_inline)) int cnp_write(
	struct __sk_buff *skb, const struct wire_frame *f, const struct cnp_request *request)
{
	__u8 packet[CNP_IPV6_BYTES] __attribute__((aligned(8))) = {};
	__u32 l3_off = f->l3_off;

	if (f->l3 == L3_IPV4) {
		wire_build_cnp_ipv4(packet, request);
		if (bpf_skb_change_tail(skb, l3_off + CNP_IPV4_BYTES, 0))
			return -1;
		return bpf_skb_store_bytes(
			skb, l3_off, packet, CNP_IPV4_BYTES, BPF_F_INVALIDATE_HASH);
	}
	wire_build_cnp_ipv6(packet, request);
	if (bpf_skb_change_tail(skb, l3_off + CNP_IPV6_BYTES, 0))
		return -1;
	return bpf_skb_store_bytes(skb, l3_off, packet, CNP_IPV6_BYTES, BPF_F_INVALIDATE_HASH);
}

/* Whoever completes a checksum later must find the pseudo header's sum, not 0. */
static inline __attribute__((always_inline)) __be16 cnp_udp_check(
	struct __sk_buff *skb, const struct flow_key *key)
{
	return skb_is_unfinished(skb) ? wire_udp_pseudo_sum(key, CNP_IPV4_BYTES - IPV4_MIN_BYTES)
				      : 0;
}

/* A CNP about a tagged frame rides in the same VLAN, at the priority of CNPs. */
static inline __attribute__((always_inline)) int cnp_set_pcp(
	struct __sk_buff *skb, const struct conf *conf)
{
	__u16 tci = (skb->vlan_tci & 0x1fff) | (__u16)(conf->cnp_pcp << 13);
	__be16 proto = skb->vlan_proto;

	if (!skb->vlan_present || tci == (__u16)skb->vlan_tci)
		return 0;
	return bpf_skb_vlan_pop(skb) || bpf_skb_vlan_push(skb, proto, tci);
}

/* Turn a marked clone into the CNP it stands for; false: it must not leave. */
static inline __attribute__((always_inline)) bool cnp_morph(struct __sk_buff *skb,
	const struct conf *conf, enum clone_mark kind, struct port_stats *stats)
{
	struct cnp_request request = {.tos = conf->cnp_tos};
	struct wire_frame f;
	struct pair *pair;

	frame_read(skb, conf, &f);
	if (!frame_is_notifiable(&f) || !wire_is_ce(f.tos))
		return false;
	pair = bpf_map_lookup_elem(&pairs, &f.key);
	if (!pair)
		return false;
	request.key = f.key;
	request.peer_qpn = pair->peer_qpn;
	request.udp_src = f.udp_src;
	request.udp_dst = conf->udp_ports.roce;
	request.udp_check = cnp_udp_check(skb, &f.key);
	request.pkey = f.pkey;
	if (kind == CLONE_CNP_BACK ? cnp_address_back(skb) : cnp_address_routed(skb, &f)) {
		cnp_suppress(stats, CNP_SUPPRESSED_NO_ROUTE);
		return false;
	}
	if (cnp_write(skb, &f, &request) || cnp_set_pcp(skb, conf)) {
		cnp_suppress(stats, CNP_SUPPRESSED_MORPH);
		return false;
	}
	skb->mark = 0;
	flow_note_cnp(&f.key);
	stats->cnp_sent++;
	return true;
}

#endif
