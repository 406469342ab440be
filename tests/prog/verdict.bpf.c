// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// For tests: what the parser and the ICRC code, compiled for BPF, say of a frame.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <linux/pkt_cls.h>

#include "far.bpf.h"
#include "frame.bpf.h"
#include "mac.bpf.h"
#include "quench/build.h"
#include "verdict.h"

struct conf conf = {.udp_ports = WIRE_PORTS_DEFAULT};
struct port_conf port;
struct verdict verdict;
struct hook_verdict at_xdp, at_tc;
static struct far_headers far;

SEC("xdp")
int quench_parse(struct xdp_md *ctx)
{
	frame_parse_xdp(ctx, &conf, &verdict.frame);
	return verdict.frame.kind;
}

SEC("tc")
int quench_parse_tc(struct __sk_buff *skb)
{
	frame_parse(skb, &conf, &verdict.frame);
	return verdict.frame.kind;
}

/* As if no header lay in the linear part. */
SEC("xdp")
int quench_parse_far(struct xdp_md *ctx)
{
	__u64 last = bpf_xdp_get_buff_len(ctx) - 1; /* as in far.bpf.h */

	if (last >= FAR_HEADERS_BYTES)
		last = FAR_HEADERS_BYTES - 1;
	WIRE_OPAQUE(last);
	if (bpf_xdp_load_bytes(ctx, 0, far.bytes, last + 1))
		return WIRE_KIND_COUNT;
	far.count = last + 1;
	far_parse(&far, &conf, &verdict.frame);
	return verdict.frame.kind;
}

/* Where the kernel really calls programs: as ours read frames there. */
static inline __attribute__((always_inline)) void answer(
	struct hook_verdict *verdict, const struct wire_frame *f)
{
	verdict->frame = *f;
	verdict->cls = frame_class(&conf, &port, f);
	verdict->seen++;
}

SEC("xdp.frags")
int quench_hook_xdp(struct xdp_md *ctx)
{
	struct wire_frame f = {};

	frame_parse_xdp(ctx, &conf, &f);
	if (f.kind == WIRE_TRUNCATED)
		far_read(ctx, &conf, &f);
	answer(&at_xdp, &f);
	return XDP_PASS;
}

SEC("tc")
int quench_hook_tc(struct __sk_buff *skb)
{
	struct wire_frame f;

	mac_restore(skb);
	frame_read(skb, &conf, &f);
	answer(&at_tc, &f);
	return TC_ACT_OK;
}

static long icrc_step(__u32 i, __u32 *crc)
{
	const struct wire_frame *f = &verdict.frame;
	__u32 l3_off = wire_roce_l3_off(f);

	if (i >= f->icrc_off - l3_off)
		return 1;
	*crc = wire_crc32_byte(
		*crc, wire_icrc_byte(wire_roce_l3(f), f->l4_off - l3_off, f->bth_off - l3_off, i,
			      verdict.packet[i & (PACKET_MAX - 1)]));
	return 0;
}

SEC("xdp")
int quench_verdict(struct xdp_md *ctx)
{
	struct wire_frame *f = &verdict.frame;
	__u32 crc = ICRC_SEED, last;

	frame_parse_xdp(ctx, &conf, f);
	verdict.icrc = 0;
	last = f->icrc_off - wire_roce_l3_off(f) - 1;
	if (!f->bth_off || last >= PACKET_MAX)
		return XDP_PASS;
	WIRE_OPAQUE(last);
	if (bpf_xdp_load_bytes(ctx, wire_roce_l3_off(f), verdict.packet, last + 1))
		return XDP_ABORTED;
	bpf_loop(PACKET_MAX, icrc_step, &crc, 0);
	verdict.icrc = ~crc;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
