/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reading a frame from an skb at a tc hook. */
#ifndef QUENCH_FRAME_BPF_H
#define QUENCH_FRAME_BPF_H

#include "maps.bpf.h"

enum { HEADERS_MAX_BYTES = 256 }; /* pulled into the linear part when the headers are not there */

static inline __attribute__((always_inline)) void frame_start(
	struct __sk_buff *skb, struct wire_frame *f)
{
	wire_frame_init(f);
	if (skb->vlan_present) { /* the outer tag is not in the bytes here */
		f->tags = 1;
		f->pcp = skb->vlan_tci >> 13;
	}
}

static inline __attribute__((always_inline)) void frame_read_linear(
	struct __sk_buff *skb, struct wire_frame *f)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	frame_start(skb, f);
	wire_parse(data, end, f);
}

/* Say what the frame is, wherever its headers lie. */
static inline __attribute__((always_inline)) void frame_read(
	struct __sk_buff *skb, struct wire_frame *f)
{
	__u32 linear = skb->data_end - skb->data, pull = skb->len;

	frame_read_linear(skb, f);
	if (f->kind != WIRE_TRUNCATED || linear >= skb->len)
		return;
	if (pull > HEADERS_MAX_BYTES)
		pull = HEADERS_MAX_BYTES;
	if (!bpf_skb_pull_data(skb, pull))
		frame_read_linear(skb, f);
}

/* The class that policy puts the frame in, or CLASS_NONE: DSCP decides, PCP where there is no IP.
 */
static inline __attribute__((always_inline)) __u8 frame_class(
	const struct conf *conf, const struct wire_frame *f)
{
	if (f->l3 == L3_IPV4 || f->l3 == L3_IPV6)
		return conf->dscp_class[(f->tos >> 2) & 63];
	if (f->pcp < 8)
		return conf->pcp_class[f->pcp];
	return CLASS_NONE;
}

/* Is this a frame whose congestion its sender should hear of? ACKs, CM and CNPs are not. */
static inline __attribute__((always_inline)) bool frame_is_notifiable(const struct wire_frame *f)
{
	return f->kind == WIRE_ROCEV2 && !wire_is_ack(f->opcode);
}

#endif
