/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What our queues hold, read from the kernel's own statistics (depth.bpf.c). */
#ifndef QUENCH_DEPTH_BPF_H
#define QUENCH_DEPTH_BPF_H

#include "maps.bpf.h"

struct qdisc_seen {
	__u64 dev_queue;
	__u64 sent_bytes; /* left the queue so far */
	__u32 flags, handle, parent;
	__u32 backlog_bytes;
	int refs;
	int zero;
};

extern __u32 depth_start; /* 0, which no verifier knows; see depth.bpf.c */

/* Fill *seen from the qdisc at that place of qdisc_refs. 1; 0 when there is none to believe. */
int depth_read(__u32 ref_index, struct qdisc_seen *seen);

/*
 * Look for this port's qdiscs: at once for a new generation, else at most every WALK_RETRY_NS.
 * Call it with the frame at hand, at an egress hook, when a qdisc is missing or the generation is
 * not the one that was last looked for.
 */
int depth_resolve(struct __sk_buff *skb, struct conf *conf, struct port_conf *port);

#endif
