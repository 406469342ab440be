// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// For benchmarks: the least that a program must do to count the frames of RoCEv2 flows over IPv4.
// It shares no code with quench, and believes every length that a frame states.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { ROCE_PORT = 4791, QPN_MASK = 0xffffff, CE = 3 };

struct bth {
	__u8 opcode, flags;
	__be16 pkey;
	__be32 qpn;
	__be32 psn;
};

struct key {
	__be32 src, dst, qpn;
};

struct record {
	__u64 packets, bytes, ce;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20);
	__type(key, struct key);
	__type(value, struct record);
} flows SEC(".maps");

SEC("xdp.frags")
int minimal(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct bth *bth = (void *)(udp + 1);
	struct record *record;
	struct key key;

	if ((void *)(bth + 1) > end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 || ip->protocol != IPPROTO_UDP ||
		udp->dest != bpf_htons(ROCE_PORT))
		return XDP_PASS;
	key.src = ip->saddr;
	key.dst = ip->daddr;
	key.qpn = bth->qpn & bpf_htonl(QPN_MASK);
	record = bpf_map_lookup_elem(&flows, &key);
	if (!record)
		return XDP_PASS;
	record->packets++;
	record->bytes += bpf_ntohs(ip->tot_len);
	record->ce += (ip->tos & CE) == CE;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
