// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parser. Functions of their own, which the verifier looks at once: inlined, each of the
// parser's many ends would be followed through all that comes after it.
#include "frame.bpf.h"

int frame_parse_xdp(struct xdp_md *ctx, const struct conf *conf, struct wire_frame *f)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (!f || !conf)
		return WIRE_OTHER;
	wire_frame_init(f);
	return wire_parse_ports(data, end, &conf->udp_ports, f);
}

int frame_parse(struct __sk_buff *skb, const struct conf *conf, struct wire_frame *f)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	if (!f || !conf)
		return WIRE_OTHER;
	wire_frame_init(f);
	if (skb->vlan_present) { /* the outer tag is not in the bytes here */
		f->tags = 1;
		f->pcp = skb->vlan_tci >> 13;
	}
	return wire_parse_ports(data, end, &conf->udp_ports, f);
}
