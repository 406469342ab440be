// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The parser's passes. Functions of their own, which the verifier looks at once: inlined, each of a
// pass's many ends would be followed through all that comes after it.
#include "frame.bpf.h"

int frame_first_xdp(struct xdp_md *ctx, const struct conf *conf, struct wire_frame *f)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct wire_cursor c = wire_cursor(data, end, 0);

	if (!f || !conf)
		return WIRE_OTHER;
	wire_frame_init(f);
	return wire_parse_first(&c, &conf->udp_ports, f);
}

int frame_rest_xdp(struct xdp_md *ctx, const struct conf *conf, struct wire_frame *f)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct wire_cursor c;

	if (!f || !conf)
		return WIRE_OTHER;
	c = wire_cursor(data, end, f->rest_off);
	return wire_parse_rest(&c, &conf->udp_ports, f);
}

int frame_first(struct __sk_buff *skb, const struct conf *conf, struct wire_frame *f)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct wire_cursor c = wire_cursor(data, end, 0);

	if (!f || !conf)
		return WIRE_OTHER;
	wire_frame_init(f);
	if (skb->vlan_present) { /* the outer tag is not in the bytes here */
		f->tags = 1;
		f->pcp = skb->vlan_tci >> 13;
	}
	return wire_parse_first(&c, &conf->udp_ports, f);
}

int frame_rest(struct __sk_buff *skb, const struct conf *conf, struct wire_frame *f)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct wire_cursor c;

	if (!f || !conf)
		return WIRE_OTHER;
	c = wire_cursor(data, end, f->rest_off);
	return wire_parse_rest(&c, &conf->udp_ports, f);
}
