/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel structures that quench reads, each field found by CO-RE on the running kernel.
 * Only names matter here; order and neighbours do not.
 */
#ifndef QUENCH_KERNEL_BPF_H
#define QUENCH_KERNEL_BPF_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct hlist_node {
	struct hlist_node *next;
} KERNEL_TYPE;

struct hlist_head {
	struct hlist_node *first;
} KERNEL_TYPE;

struct refcount_struct {
	struct {
		int counter;
	} refs;
} KERNEL_TYPE;

struct gnet_stats_basic_sync { /* its first member is the byte count */
	__u64 unused;
};

struct gnet_stats_queue {
	__u32 backlog;
} KERNEL_TYPE;

struct ns_common {
	unsigned int inum;
} KERNEL_TYPE;

struct net {
	struct ns_common ns;
} KERNEL_TYPE;

struct netdev_queue;

struct Qdisc {
	unsigned int flags;
	struct hlist_node hash;
	__u32 handle;
	__u32 parent;
	struct netdev_queue *dev_queue;
	struct gnet_stats_basic_sync bstats;
	struct gnet_stats_queue qstats;
	struct refcount_struct refcnt;
} KERNEL_TYPE;

struct net_device {
	int ifindex;
	struct {
		struct net *net;
	} nd_net;
	struct Qdisc *qdisc;
	struct hlist_head qdisc_hash[16];
} KERNEL_TYPE;

struct netdev_queue {
	struct net_device *dev;
} KERNEL_TYPE;

struct sk_buff {
	struct net_device *dev;
	__u8 ip_summed : 2;
} KERNEL_TYPE;

enum { SKB_CHECKSUM_PARTIAL = 3 };

/* Is the frame's checksum still to be completed, behind us? That state stays with a clone of it. */
static inline __attribute__((always_inline)) bool skb_is_unfinished(struct __sk_buff *skb)
{
	const struct sk_buff *kernel_skb = (const struct sk_buff *)skb;

	return BPF_CORE_READ_BITFIELD_PROBED(kernel_skb, ip_summed) == SKB_CHECKSUM_PARTIAL;
}

/* Qdisc.flags that make its statistics something else than what is read here. */
#define QDISC_REFUSED_FLAGS                                                                        \
	(0x2 /* INGRESS */ | 0x20 /* CPUSTATS */ | 0x100 /* NOLOCK */ | 0x200 /* OFFLOADED */)

/* 6.2 and later: read kernel memory by plain loads. */
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

#endif
