/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ECN marking: DCQCN's congestion point, on the instantaneous depth of a class at its port. */
#ifndef QUENCH_MARK_BPF_H
#define QUENCH_MARK_BPF_H

#include "maps.bpf.h"

/* Never below kmin, always above kmax, a straight line up to pmax between (CoNEXT'16, eq. 1). */
static inline __attribute__((always_inline)) bool mark_wanted(
	const struct class_conf *cls, __u32 depth_bytes)
{
	if (depth_bytes <= cls->kmin_bytes)
		return false;
	if (depth_bytes > cls->kmax_bytes)
		return true;
	return (__u64)bpf_get_prandom_u32() << 16 < (depth_bytes - cls->kmin_bytes) * cls->slope;
}

/* IPv4: the second byte, and the header checksum with it (RFC 1624). */
static inline __attribute__((always_inline)) long mark_ipv4(
	struct __sk_buff *skb, __u32 l3_off, __u8 tos)
{
	enum { CHECK_OFF = 10, TOS_OFF = 1, VERSION_IHL_OFF = 0 };
	__u8 before[2], after;

	if (bpf_skb_load_bytes(skb, l3_off + VERSION_IHL_OFF, before, sizeof(before)))
		return -1;
	after = tos | ECN_CE;
	if (bpf_l3_csum_replace(skb, l3_off + CHECK_OFF,
		    WIRE_HTONS((__u16)(before[0] << 8 | before[1])),
		    WIRE_HTONS((__u16)(before[0] << 8 | after)), sizeof(__u16)))
		return -1;
	return bpf_skb_store_bytes(skb, l3_off + TOS_OFF, &after, sizeof(after), 0);
}

/* IPv6: the ECN bits are the upper half of the second byte's lower half; no checksum covers them.
 */
static inline __attribute__((always_inline)) long mark_ipv6(struct __sk_buff *skb, __u32 l3_off)
{
	__u8 byte;

	if (bpf_skb_load_bytes(skb, l3_off + 1, &byte, sizeof(byte)))
		return -1;
	byte |= ECN_CE << 4;
	return bpf_skb_store_bytes(skb, l3_off + 1, &byte, sizeof(byte), BPF_F_RECOMPUTE_CSUM);
}

/*
 * Written where our parser found the header: bpf_skb_ecn_set_ce writes at skb->network_header,
 * which is an inner VLAN tag on a frame with two.
 */
static inline __attribute__((always_inline)) bool mark_set_ce(
	struct __sk_buff *skb, const struct wire_frame *f)
{
	if (f->l3 == L3_IPV4)
		return !mark_ipv4(skb, f->l3_off, f->tos);
	return f->l3 == L3_IPV6 && !mark_ipv6(skb, f->l3_off);
}

/* Set CE on an ECT frame that the curve picks; a frame that is CE already is not ours to count. */
static inline __attribute__((always_inline)) void mark_frame(struct __sk_buff *skb,
	const struct class_conf *cls, struct wire_frame *f, __u32 depth_bytes,
	struct port_stats *stats)
{
	if (!cls->ecn || !wire_is_ect(f->tos) || wire_is_ce(f->tos))
		return;
	if (!mark_wanted(cls, depth_bytes))
		return;
	if (!mark_set_ce(skb, f))
		return;
	f->tos |= ECN_CE;
	stats->ce_marked++;
}

#endif
