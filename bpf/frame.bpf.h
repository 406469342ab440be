/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reading a frame, at an XDP or tc hook. */
#ifndef QUENCH_FRAME_BPF_H
#define QUENCH_FRAME_BPF_H

#include "maps.bpf.h"
#include "quench/class.h"

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

/* Is the frame for a group of stations? What cannot be looked at is taken for unicast. */
static inline __attribute__((always_inline)) bool frame_is_multicast(struct __sk_buff *skb)
{
	const __u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	return data + 1 <= end && data[0] & 1;
}

/* Is the frame best effort although its fields name the class? */
static inline __attribute__((always_inline)) bool frame_is_kept_out(
	struct __sk_buff *skb, const struct class_conf *cls)
{
	return cls->unicast_only && frame_is_multicast(skb);
}

/* Is this a frame whose congestion its sender should hear of? ACKs, CM and CNPs are not. */
static inline __attribute__((always_inline)) bool frame_is_notifiable(const struct wire_frame *f)
{
	return f->kind == WIRE_ROCEV2 && !f->tunnel && !wire_is_ack(f->opcode);
}

#endif
