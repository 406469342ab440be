// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The two ends of a way through a gateway: make frames, count frames. And a program that does
// nothing, for a port in between.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "quench/wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	HEADER_WORDS = 7, /* up to and with the BTH, in words of 8 bytes */
	BTH_OFF = ETH_HEADER_BYTES + IPV4_MIN_BYTES + UDP_HEADER_BYTES,
};

/* What every frame begins with; the QPN in it is the first of qps, which take turns. */
__u64 headers[HEADER_WORDS];
__u32 qps;
__u32 qp;
__u32 psn;
__u64 start_ns; /* of the first frame; 0: none yet */

/*
 * A frame comes here as the stack left it the last time: another TTL, other addresses, marked or
 * not. So all of its headers are written again.
 */
SEC("xdp")
int inject(struct xdp_md *ctx)
{
	__u64 *words = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct wire_bth *bth = (void *)words + BTH_OFF;
	int i;

	if ((void *)(words + HEADER_WORDS) > end)
		return XDP_ABORTED;
	if (!start_ns)
		start_ns = bpf_ktime_get_ns();
	for (i = 0; i < HEADER_WORDS; i++)
		words[i] = headers[i];
	bth->ecn_dqpn = WIRE_HTONL(WIRE_NTOHL(bth->ecn_dqpn) + qp);
	bth->ack_psn = WIRE_HTONL(psn & BTH_PSN_MASK);
	if (++qp >= qps) {
		qp = 0;
		psn++;
	}
	return XDP_TX;
}

SEC("xdp.frags")
int empty(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* A device with one receive queue runs this on one CPU at a time: nothing here needs an atomic. */
__u64 roce_frames, roce_bytes;
__u64 other_frames, other_bytes; /* of UDP that is not RoCE */
__u64 expected;			 /* how many frames are to come in all */
__u64 end_ns;			 /* when the last of them came */

SEC("xdp.frags")
int count(struct xdp_md *ctx)
{
	struct wire_eth *eth = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct wire_ipv4 *ip = (void *)(eth + 1);
	struct wire_udp *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) > end || eth->type != WIRE_HTONS(ETHERTYPE_IPV4) ||
		ip->protocol != IP_PROTO_UDP)
		return XDP_DROP;
	if (udp->dst == WIRE_HTONS(ROCE_V2_UDP_PORT)) {
		roce_frames++;
		roce_bytes += bpf_xdp_get_buff_len(ctx);
	} else {
		other_frames++;
		other_bytes += bpf_xdp_get_buff_len(ctx);
	}
	if (roce_frames + other_frames == expected)
		end_ns = bpf_ktime_get_ns();
	return XDP_DROP;
}
