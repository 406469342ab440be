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

/* Set CE on an ECT frame that the curve picks; a frame that is CE already is not ours to count. */
static inline __attribute__((always_inline)) void mark_frame(struct __sk_buff *skb,
	const struct class_conf *cls, struct wire_frame *f, __u32 depth_bytes,
	struct port_stats *stats)
{
	if (!cls->ecn || !wire_is_ect(f->tos) || wire_is_ce(f->tos))
		return;
	if (!mark_wanted(cls, depth_bytes))
		return;
	if (bpf_skb_ecn_set_ce(skb) != 1)
		return;
	f->tos |= ECN_CE;
	stats->ce_marked++;
}

#endif
