/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames whose headers do not all lie in the linear part (xdp.frags), read from a copy. */
#ifndef QUENCH_FAR_BPF_H
#define QUENCH_FAR_BPF_H

#include "maps.bpf.h"

/* The parser's passes (far.bpf.c). */
int far_first(const struct far_headers *far, const struct conf *conf, struct wire_frame *f);
int far_rest(const struct far_headers *far, const struct conf *conf, struct wire_frame *f);

/* Say what the frame is whose first bytes these are. */
static inline __attribute__((always_inline)) void far_parse(
	const struct far_headers *far, const struct conf *conf, struct wire_frame *f)
{
	int i;

	far_first(far, conf, f);
	for (i = 0; i < WIRE_PASSES_MAX && f->rest; i++)
		far_rest(far, conf, f);
}

/*
 * Parse the frame again when it goes on behind its linear part. Returns false when it does not:
 * what has been found out about it is all there is.
 */
static inline __attribute__((always_inline)) bool far_read(
	struct xdp_md *ctx, const struct conf *conf, struct wire_frame *f)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 linear = end - data, count = bpf_xdp_get_buff_len(ctx), last;
	struct far_headers *far;
	__u32 zero = 0;

	if (count <= linear)
		return false;
	far = bpf_map_lookup_elem(&far_scratch, &zero);
	if (!far)
		return false;
	last = count - 1; /* no verifier before Linux 6.8 sees otherwise that count is not 0 */
	if (last >= FAR_HEADERS_BYTES)
		last = FAR_HEADERS_BYTES - 1;
	WIRE_OPAQUE(last);
	count = last + 1;
	if (bpf_xdp_load_bytes(ctx, 0, far->bytes, count))
		return false;
	far->count = count;
	far_parse(far, conf, f);
	return true;
}

#endif
