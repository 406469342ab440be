/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reading a frame, at an XDP or tc hook. */
#ifndef QUENCH_FRAME_BPF_H
#define QUENCH_FRAME_BPF_H

#include "maps.bpf.h"

enum { HEADERS_MAX_BYTES = 256 }; /* pulled into the linear part when the headers are not there */

/* The parser's passes over the linear part (frame.bpf.c). */
int frame_first(struct __sk_buff *skb, const struct conf *conf, struct wire_frame *f);
int frame_rest(struct __sk_buff *skb, const struct conf *conf, struct wire_frame *f);
int frame_first_xdp(struct xdp_md *ctx, const struct conf *conf, struct wire_frame *f);
int frame_rest_xdp(struct xdp_md *ctx, const struct conf *conf, struct wire_frame *f);

/* Say what the frame is, from what lies in its linear part. */
static inline __attribute__((always_inline)) void frame_parse(
	struct __sk_buff *skb, const struct conf *conf, struct wire_frame *f)
{
	int i;

	frame_first(skb, conf, f);
	for (i = 0; i < WIRE_PASSES_MAX && f->rest; i++)
		frame_rest(skb, conf, f);
}

static inline __attribute__((always_inline)) void frame_parse_xdp(
	struct xdp_md *ctx, const struct conf *conf, struct wire_frame *f)
{
	int i;

	frame_first_xdp(ctx, conf, f);
	for (i = 0; i < WIRE_PASSES_MAX && f->rest; i++)
		frame_rest_xdp(ctx, conf, f);
}

/* Say what the frame is, wherever its headers lie. */
static inline __attribute__((always_inline)) void frame_read(
	struct __sk_buff *skb, const struct conf *conf, struct wire_frame *f)
{
	__u32 pull = skb->len;

	__builtin_memset(f, 0, sizeof(*f));
	frame_parse(skb, conf, f);
	if (f->kind != WIRE_TRUNCATED)
		return;
	if (pull > HEADERS_MAX_BYTES)
		pull = HEADERS_MAX_BYTES;
	if (!bpf_skb_pull_data(skb, pull)) /* does nothing when it lies there already */
		frame_parse(skb, conf, f);
}

/*
 * The class that policy puts the frame in, or CLASS_NONE: that of its DSCP or of its PCP, as the
 * port trusts them. Of two that it trusts, the first that the frame has decides.
 */
static inline __attribute__((always_inline)) __u8 frame_class(
	const struct conf *conf, const struct port_conf *port, const struct wire_frame *f)
{
	bool has_dscp = f->l3 == L3_IPV4 || f->l3 == L3_IPV6, has_pcp = f->pcp < 8;

	if (has_pcp && port->flags & PORT_TRUST_PCP && (port->flags & PORT_PCP_FIRST || !has_dscp))
		return conf->pcp_class[f->pcp & 7];
	if (has_dscp && port->flags & PORT_TRUST_DSCP)
		return conf->dscp_class[(f->tos >> 2) & 63];
	if (has_pcp && port->flags & PORT_TRUST_PCP)
		return conf->pcp_class[f->pcp & 7];
	return CLASS_NONE;
}

/* Has the frame a DSCP and a PCP that mean different classes? One that means none says nothing. */
static inline __attribute__((always_inline)) bool frame_disagrees(
	const struct conf *conf, const struct wire_frame *f)
{
	__u8 by_dscp = conf->dscp_class[(f->tos >> 2) & 63], by_pcp = conf->pcp_class[f->pcp & 7];

	return f->pcp < 8 && (f->l3 == L3_IPV4 || f->l3 == L3_IPV6) && by_dscp != CLASS_NONE &&
	       by_pcp != CLASS_NONE && by_dscp != by_pcp;
}

/* Is the frame for a group of stations? What cannot be looked at is taken for unicast. */
static inline __attribute__((always_inline)) bool frame_is_multicast(struct __sk_buff *skb)
{
	const __u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	return data + 1 <= end && data[0] & 1;
}

/* Is this a frame whose congestion its sender should hear of? ACKs, CM and CNPs are not. */
static inline __attribute__((always_inline)) bool frame_is_notifiable(const struct wire_frame *f)
{
	return f->kind == WIRE_ROCEV2 && !f->tunnel && !wire_is_ack(f->opcode);
}

#endif
