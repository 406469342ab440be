// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// iWARP connections: learned from MPA's start frames, their segments counted by RDMAP opcode.
// Functions of their own, for the few frames that come here.
#include "iwarp.bpf.h"

enum { TCP_SEQ_OFFSET = 4, IPV4_LENGTH_OFFSET = 2, IPV6_LENGTH_OFFSET = 4 };

static inline __attribute__((always_inline)) __u32 read_be16(struct xdp_md *ctx, __u32 at)
{
	__u8 bytes[2] = {};

	bpf_xdp_load_bytes(ctx, at, bytes, sizeof(bytes));
	return wire_be16_at(bytes);
}

static inline __attribute__((always_inline)) __u32 read_seq(
	struct xdp_md *ctx, const struct wire_frame *f)
{
	__u8 bytes[4] = {};

	bpf_xdp_load_bytes(ctx, f->l4_off + TCP_SEQ_OFFSET, bytes, sizeof(bytes));
	return wire_be32_at(bytes);
}

static inline __attribute__((always_inline)) struct iwarp_way *way_get(const struct flow_key *key)
{
	struct iwarp_way *way = bpf_map_lookup_elem(&iwarp, key), fresh = {};

	if (way)
		return way;
	bpf_map_update_elem(&iwarp, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&iwarp, key);
}

int iwarp_learn(struct xdp_md *ctx, const struct wire_frame *f)
{
	struct flow_key key = {}, back_key = {};
	struct iwarp_way *way, *back;
	struct wire_mpa_terms terms;
	__u8 start[MPA_START_BYTES];

	if (!f)
		return 0;
	iwarp_known = 1;
	key = f->key;
	__builtin_memcpy(back_key.src, key.dst, sizeof(back_key.src));
	__builtin_memcpy(back_key.dst, key.src, sizeof(back_key.dst));
	back_key.dst_qpn = key.dst_qpn << 16 | key.dst_qpn >> 16;
	way = way_get(&key);
	back = way_get(&back_key);
	if (!way || !back || bpf_xdp_load_bytes(ctx, f->tcp_payload_off, start, sizeof(start)) ||
		!wire_read_mpa_terms(start, sizeof(start), &terms))
		return 0;
	way->first_seq = read_seq(ctx, f) + MPA_START_BYTES + terms.private_bytes;
	way->started = 1;
	back->has_markers = !!(terms.flags & MPA_MARKERS);
	return 0;
}

/* Where the segment's payload ends: a short frame is padded. */
static inline __attribute__((always_inline)) __u32 payload_end(
	struct xdp_md *ctx, const struct wire_frame *f)
{
	__u32 frame = bpf_xdp_get_buff_len(ctx), length, end;

	if (f->l3 == L3_IPV4) {
		length = read_be16(ctx, f->l3_off + IPV4_LENGTH_OFFSET);
		end = f->l3_off + length;
	} else {
		length = read_be16(ctx, f->l3_off + IPV6_LENGTH_OFFSET);
		end = f->l3_off + IPV6_HEADER_BYTES + length;
	}
	return length && end < frame ? end : frame; /* 0: more than fits, BIG TCP */
}

/* A marker may stand in front of the FPDU (RFC 5044, 4.3). */
static inline __attribute__((always_inline)) __u32 marker_bytes(
	struct xdp_md *ctx, const struct wire_frame *f, const struct iwarp_way *way)
{
	if (!way->has_markers || !way->started)
		return 0;
	return (read_seq(ctx, f) - way->first_seq) % MPA_MARKER_INTERVAL_BYTES ? 0
									       : MPA_MARKER_BYTES;
}

/* Of what begins elsewhere than at the segment's start nobody can tell an FPDU from data. */
static inline __attribute__((always_inline)) void count_opcode(
	struct xdp_md *ctx, const struct wire_frame *f, struct iwarp_way *way)
{
	__u32 at = f->tcp_payload_off + marker_bytes(ctx, f, way);
	__u8 bytes[FPDU_LENGTH_BYTES + 2];
	struct wire_fpdu fpdu;

	if (at + sizeof(bytes) > payload_end(ctx, f) ||
		bpf_xdp_load_bytes(ctx, at, bytes, sizeof(bytes)) ||
		!wire_read_fpdu(bytes, sizeof(bytes), &fpdu) || fpdu.opcode >= RDMAP_OPCODE_COUNT)
		return;
	__sync_fetch_and_add(&way->opcodes[fpdu.opcode], 1);
}

int iwarp_count(struct xdp_md *ctx, const struct wire_frame *f, __u64 now_ns)
{
	struct flow_key key = {};
	struct iwarp_way *way;

	if (!f)
		return 0;
	key = f->key;
	way = way_get(&key);
	if (!way)
		return 0;
	__sync_fetch_and_add(&way->packets, 1);
	__sync_fetch_and_add(&way->bytes, bpf_xdp_get_buff_len(ctx));
	way->last_ns = now_ns;
	if (!f->mpa)
		count_opcode(ctx, f, way);
	return 0;
}
