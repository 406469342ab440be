// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// For tests: what the parser and the ICRC code, compiled for BPF, say of a frame.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "quench/build.h"

enum { PACKET_MAX = 512 };

struct verdict {
	struct wire_frame frame;
	__u32 icrc; /* least significant byte first on the wire; 0 without a BTH */
	__u8 packet[PACKET_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct verdict);
} verdicts SEC(".maps");

static long icrc_step(__u32 i, __u32 *crc)
{
	__u32 zero = 0;
	struct verdict *v = bpf_map_lookup_elem(&verdicts, &zero);

	if (!v || i >= (__u32)(v->frame.icrc_off - v->frame.l3_off))
		return 1;
	*crc = wire_crc32_byte(*crc,
		wire_icrc_byte(v->frame.l3, v->frame.l4_off - v->frame.l3_off,
			v->frame.bth_off - v->frame.l3_off, i, v->packet[i & (PACKET_MAX - 1)]));
	return 0;
}

SEC("xdp")
int quench_verdict(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, crc = ICRC_SEED, len;
	struct verdict *v = bpf_map_lookup_elem(&verdicts, &zero);

	if (!v)
		return XDP_ABORTED;
	wire_frame_init(&v->frame);
	wire_parse(data, end, &v->frame);
	v->icrc = 0;
	len = v->frame.icrc_off - v->frame.l3_off;
	if (!v->frame.bth_off || !len || len > PACKET_MAX)
		return XDP_PASS;
	if (bpf_xdp_load_bytes(ctx, v->frame.l3_off, v->packet, len))
		return XDP_ABORTED;
	bpf_loop(PACKET_MAX, icrc_step, &crc, 0);
	v->icrc = ~crc;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
