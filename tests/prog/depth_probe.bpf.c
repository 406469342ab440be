// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// For tests: what depth_read (bpf/depth.bpf.c, linked with this) says of one entry of qdisc_refs,
// and whether somebody is at work on the queues of its port meanwhile.
#include "kernel.bpf.h"
#include "depth.bpf.h"

/* Starts with one word: 0 is free (asm-generic/qspinlock_types.h). */
struct spinlock {
} KERNEL_TYPE;

struct qdisc_skb_head {
	struct spinlock lock;
} KERNEL_TYPE;

/* Those of kernel.bpf.h, of which more is needed here. */
struct Qdisc___lock {
	struct qdisc_skb_head q;
} KERNEL_TYPE;

struct netdev_queue___root {
	struct Qdisc *qdisc_sleeping;
} KERNEL_TYPE;

__u32 probe_ref; /* which entry */
__u32 probe_handle, probe_parent, probe_backlog_bytes, probe_root_lock;
__u64 probe_sent_bytes;

/* The word of the root qdisc's lock, under which all queues of the port change. */
static inline __attribute__((always_inline)) __u32 root_lock(__u64 dev_queue)
{
	const struct netdev_queue___root *queue = (const struct netdev_queue___root *)dev_queue;
	__u64 root = 0;
	__u32 word = ~0u;

	bpf_core_read(&root, sizeof(root), &queue->qdisc_sleeping);
	bpf_probe_read_kernel(&word, sizeof(word),
		(void *)(root + bpf_core_field_offset(struct Qdisc___lock, q) +
			 bpf_core_field_offset(struct qdisc_skb_head, lock)));
	return word;
}

/* 1 when the entry is believed. */
SEC("tc")
int depth_probe(struct __sk_buff *skb)
{
	struct qdisc_seen seen = {};
	int believed = depth_read(probe_ref, &seen);

	probe_handle = seen.handle;
	probe_parent = seen.parent;
	probe_backlog_bytes = seen.backlog_bytes;
	probe_sent_bytes = seen.sent_bytes;
	probe_root_lock = believed ? root_lock(seen.dev_queue) : ~0u;
	return believed;
}
