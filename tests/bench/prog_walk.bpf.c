// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// For benchmarks: BPF_PROG_RUN calls a program with one frame again and again, as the call before
// left it. These programs come first: they make it the next frame of another flow, and go on to the
// program that is measured.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { HEAD_BYTES_MAX = 128, BTH_OFF_MAX = 96, BTH_BYTES = 12, BTH_QPN = 4 };

struct {
	__u32 flows;	  /* that the frames belong to, in turn */
	__u32 step;	  /* from one flow to the next; without a common divisor with flows */
	__u32 flow;	  /* of the next frame */
	__u32 frames;	  /* made so far in this lap */
	__u32 lap;	  /* and PSN: each flow has a frame in each */
	__u32 first_qpn;  /* of flow 0 */
	__u32 bth_off;	  /* in the frame */
	__u32 mark;	  /* skb: its mark */
	__u32 head_bytes; /* skb: of the frame that are written anew */
	__u32 zero;
	__u8 head[HEAD_BYTES_MAX];
} walk;

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} measured_xdp SEC(".maps"), measured_tc SEC(".maps");

/* QPN and PSN of the next frame as they lie in a BTH. */
static inline __attribute__((always_inline)) __be64 walk_next(void)
{
	__u64 qpn_psn = (__u64)(walk.first_qpn + walk.flow) << 32 | (walk.lap & 0xffffff);

	walk.flow += walk.step;
	if (walk.flow >= walk.flows)
		walk.flow -= walk.flows;
	if (++walk.frames == walk.flows) {
		walk.frames = 0;
		walk.lap++;
	}
	return bpf_cpu_to_be64(qpn_psn);
}

SEC("xdp.frags")
int walk_xdp(struct xdp_md *ctx)
{
	void *bth = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (walk.bth_off > BTH_OFF_MAX)
		return XDP_ABORTED;
	bth += walk.bth_off;
	if (bth + BTH_BYTES > end)
		return XDP_ABORTED;
	*(__be64 *)(bth + BTH_QPN) = walk_next(); /* at once: a load of both need not wait */
	bpf_tail_call(ctx, &measured_xdp, 0);
	return XDP_ABORTED;
}

SEC("tc")
int walk_tc(struct __sk_buff *skb)
{
	__u32 bth_off = walk.bth_off, head_bytes = walk.head_bytes;

	if (bth_off > BTH_OFF_MAX || head_bytes > HEAD_BYTES_MAX || !head_bytes)
		return TC_ACT_SHOT;
	*(__be64 *)(walk.head + bth_off + BTH_QPN) = walk_next();
	if (bpf_skb_store_bytes(skb, 0, walk.head, head_bytes, 0))
		return TC_ACT_SHOT;
	skb->mark = walk.mark;
	bpf_tail_call(skb, &measured_tc, 0);
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
