/* SPDX-License-Identifier: BSD-2-Clause */
/* What holds for every frame that the parser was shown, however damaged. */
#ifndef QUENCH_TESTS_PROMISES_H
#define QUENCH_TESTS_PROMISES_H

#include <stddef.h>

#include "quench/wire_cm.h"

/* A BTH was read, with what of the extended headers its kind needs. */
static inline bool has_bth(const struct wire_frame *f)
{
	return wire_is_roce(f->kind) || f->kind == WIRE_CNP || f->kind == WIRE_CM ||
	       f->kind == WIRE_UNKNOWN_OPCODE;
}

/* The bytes that the parser read of the BTH and, of an ACK, up to the AETH's end. */
static inline size_t transport_bytes(const struct wire_frame *f)
{
	__u16 flags = wire_opcode(f->opcode)->flags;

	if (!(flags & OPF_ACK) || !wire_is_roce(f->kind))
		return BTH_BYTES;
	return BTH_BYTES + (flags & OPF_RDETH ? RDETH_BYTES : 0) + AETH_BYTES;
}

static inline const char *broken_roce_promise(const struct wire_frame *f, size_t len)
{
	size_t transport_end = f->bth_off + transport_bytes(f);

	if (!f->bth_off || transport_end > len)
		return "a BTH past the end";
	if (f->icrc_off < transport_end)
		return "an ICRC inside the headers";
	if (f->kind != WIRE_UNKNOWN_OPCODE &&
		f->icrc_off < (size_t)f->bth_off + BTH_BYTES + wire_opcode(f->opcode)->ext_bytes)
		return "an ICRC inside the extended headers";
	if (f->kind != WIRE_UNKNOWN_OPCODE && !wire_opcode(f->opcode)->flags)
		return "an opcode that is not defined";
	if (wire_payload_bytes(f) > f->icrc_off)
		return "more payload than there are bytes";
	if (wire_roce_l3_off(f) < ETH_HEADER_BYTES || wire_roce_l3_off(f) >= f->l4_off)
		return "RoCE behind no network header";
	if (f->mpa || f->tcp_payload_off)
		return "RoCE in TCP";
	return NULL;
}

static inline const char *broken_tunnel_promise(const struct wire_frame *f, size_t len)
{
	if (f->tunnel >= TUNNEL_END)
		return "a tunnel that is none";
	if (!f->tunnel && (f->inner_l3 || f->inner_l3_off || f->inner_tos))
		return "an inner header without a tunnel";
	if (f->inner_l3_off > len || (f->inner_l3 && f->inner_l3_off <= f->l3_off))
		return "an inner header past the end, or before the outer one";
	if (f->tunnel && (f->l3 != L3_IPV4 && f->l3 != L3_IPV6))
		return "a tunnel without IP around it";
	return NULL;
}

static inline const char *broken_tcp_promise(const struct wire_frame *f, size_t len)
{
	if ((f->kind == WIRE_IWARP) != (f->mpa != MPA_NONE) || f->mpa > MPA_REPLY)
		return "iWARP without a start frame, or the other way round";
	if (f->tcp_payload_off > len ||
		(f->mpa && f->tcp_payload_off + (size_t)MPA_KEY_BYTES > len))
		return "a TCP payload past the end";
	if (f->tcp_payload_off && f->kind != WIRE_IWARP && f->kind != WIRE_OTHER)
		return "a TCP payload in something else";
	return NULL;
}

static inline const char *broken_pause_promise(const struct wire_frame *f, size_t len)
{
	if (f->tags || f->tunnel || f->l3)
		return "a pause with a tag, a tunnel or a network header";
	if (f->mac_control_off + sizeof(struct wire_mac_control) > len)
		return "pause times past the end";
	return NULL;
}

/* NULL, or what does not hold for a frame of len bytes. */
static inline const char *broken_promise(const struct wire_frame *f, size_t len)
{
	bool tcp = f->kind == WIRE_IWARP || f->kind == WIRE_OTHER;
	const char *broken;

	if (f->kind >= WIRE_KIND_COUNT || f->l3 > L3_LRH || f->inner_l3 > L3_LRH)
		return "a kind or a network layer that is none";
	if (f->l3_off > len || f->l4_off > len || f->mac_control_off > len)
		return "a header past the end";
	if (f->psn > BTH_PSN_MASK || (f->key.dst_qpn > BTH_QPN_MASK && !tcp))
		return "a QPN or PSN of more than 24 bits";
	if (f->zero || f->zero2 || f->rest)
		return "something where nothing belongs";
	if (f->tags > WIRE_TAGS_MAX || (f->pcp > 7) != (f->tags == 0))
		return "a PCP without a tag, or more tags than there may be";
	if ((f->kind == WIRE_ROCEV1) != (wire_is_roce(f->kind) && wire_roce_l3(f) == L3_GRH))
		return "a GRH and RoCEv2";
	if (f->kind == WIRE_CM && f->key.dst_qpn != QPN_CM)
		return "CM on another QP";
	broken = broken_tunnel_promise(f, len);
	if (!broken)
		broken = broken_tcp_promise(f, len);
	if (!broken && has_bth(f))
		broken = broken_roce_promise(f, len);
	if (!broken && (f->kind == WIRE_PFC || f->kind == WIRE_PAUSE))
		broken = broken_pause_promise(f, len);
	return broken;
}

#endif
