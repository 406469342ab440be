/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 frames of the lab's peer: writes the headers, computes the ICRC over what it wrote or
 * received. Layouts are those of quench/wire.h.
 */
#ifndef RCPEER_FRAME_H
#define RCPEER_FRAME_H

#include <assert.h>
#include <endian.h>
#include <string.h>
#include <libdeflate.h>
#include "quench/wire_cm.h"

enum {
	DUMMY_LRH_BYTES = 8, /* the ICRC starts over an LRH that RoCE does not have */
	STAMP_BYTES = 8,
	HEAD_BYTES_MAX =
		IPV6_HEADER_BYTES + UDP_HEADER_BYTES + BTH_BYTES + RETH_BYTES + STAMP_BYTES,
	TAIL_BYTES_MAX = 3 + ICRC_BYTES,
	IP_TTL_DEFAULT_HOPS = 64,
	IPV4_DONT_FRAGMENT = 0x4000,
	IPV6_FLOW_LABEL = 0x2c3d5, /* any will do */
	ECN_ECT0 = 2,
	PKEY_DEFAULT = 0xffff,
	BTH_ACK_REQUEST = 0x80,
	ROCE_UDP_SRC_BASE = 0xc000,
};

/* What all frames of one QP in one direction share. IPv4 addresses are mapped, as in flow_key. */
struct peer_path {
	__be32 src[4], dst[4];
	__u16 udp_src_port;
	__u8 tos;
};

/* The headers of one frame from the IP header on, and the cursor that writes them. */
struct frame_head {
	__u8 bytes[HEAD_BYTES_MAX];
	unsigned int len;
	unsigned int udp_off;
	unsigned int bth_off;
	enum wire_l3 l3;
};

static inline bool address_is_ipv4(const __be32 addr[4])
{
	return !addr[0] && !addr[1] && addr[2] == WIRE_HTONL(0x0000ffff);
}

static inline enum wire_l3 path_l3(const struct peer_path *path)
{
	return address_is_ipv4(path->dst) ? L3_IPV4 : L3_IPV6;
}

static inline void put_be16(__u8 *at, __u16 v)
{
	at[0] = v >> 8;
	at[1] = v;
}

static inline void put_be24(__u8 *at, __u32 v)
{
	at[0] = v >> 16;
	put_be16(at + 1, v);
}

static inline void put_be32(__u8 *at, __u32 v)
{
	put_be16(at, v >> 16);
	put_be16(at + 2, v);
}

static inline void put_be64(__u8 *at, __u64 v)
{
	put_be32(at, v >> 32);
	put_be32(at + 4, v);
}

static inline __u64 get_be64(const __u8 *at)
{
	return (__u64)wire_be32_at(at) << 32 | wire_be32_at(at + 4);
}

/*
 * The UDP source port of a QP pair: folded into 20 bits, then into the 14 of 0xc000-0xffff.
 * Symmetric, so both directions carry the same port. Linux: rdma_calc_flow_label and
 * rdma_flow_label_to_udp_sport in include/rdma/ib_verbs.h.
 */
static __u16 udp_src_port_of_pair(__u32 qpn, __u32 peer_qpn)
{
	__u64 v = (__u64)qpn * peer_qpn;
	__u32 label;

	v ^= v >> 20;
	v ^= v >> 40;
	label = v & 0xfffff;
	return ((label & 0x3fff) ^ ((label & 0xfc000) >> 14)) | ROCE_UDP_SRC_BASE;
}

/* What routers may change is all ones in the ICRC (IBTA annex 16.4.3, 17.3.4). */
static void icrc_mask_l3(__u8 *l3, enum wire_l3 form)
{
	if (form == L3_IPV4) {
		l3[1] = 0xff;
		l3[8] = 0xff;
		memset(l3 + 10, 0xff, 2);
		return;
	}
	l3[0] |= 0x0f;
	memset(l3 + 1, 0xff, 3);
	l3[7] = 0xff;
}

/*
 * CRC-32 over the dummy LRH and the masked headers from l3 through the BTH; bth_off and udp_off
 * count from l3, and are equal behind a GRH. Go on with libdeflate_crc32 over what follows.
 */
static __u32 icrc_headers(
	const __u8 *l3, enum wire_l3 form, unsigned int udp_off, unsigned int bth_off)
{
	__u8 masked[DUMMY_LRH_BYTES + 60 + UDP_HEADER_BYTES + BTH_BYTES];
	__u8 *at = masked + DUMMY_LRH_BYTES;

	assert(bth_off + BTH_BYTES <= sizeof(masked) - DUMMY_LRH_BYTES);
	memset(masked, 0xff, DUMMY_LRH_BYTES);
	memcpy(at, l3, bth_off + BTH_BYTES);
	icrc_mask_l3(at, form);
	if (form != L3_GRH)
		memset(at + udp_off + 6, 0xff, 2);
	at[bth_off + 4] = 0xff;
	return libdeflate_crc32(0, masked, DUMMY_LRH_BYTES + bth_off + BTH_BYTES);
}

/* The ICRC of a frame that wire_parse took as RoCE and whose icrc_off lies inside it. */
static __u32 icrc_of_frame(const __u8 *frame, const struct wire_frame *f)
{
	unsigned int covered_off = f->bth_off + BTH_BYTES;
	__u32 crc = icrc_headers(
		frame + f->l3_off, f->l3, f->l4_off - f->l3_off, f->bth_off - f->l3_off);

	return libdeflate_crc32(crc, frame + covered_off, f->icrc_off - covered_off);
}

/* Is there an ICRC inside the len bytes of this frame? */
static bool frame_has_icrc(const struct wire_frame *f, unsigned int len)
{
	return f->bth_off && f->icrc_off && f->icrc_off + (unsigned int)ICRC_BYTES <= len;
}

static __u32 icrc_on_wire(const __u8 *frame, const struct wire_frame *f)
{
	__le32 icrc;

	memcpy(&icrc, frame + f->icrc_off, sizeof(icrc));
	return le32toh(icrc);
}

static void *head_take(struct frame_head *h, unsigned int len)
{
	__u8 *at = h->bytes + h->len;

	assert(h->len + len <= sizeof(h->bytes));
	memset(at, 0, len);
	h->len += len;
	return at;
}

/* The kernel fills the checksum of a raw socket's header; identification 0 with DF it leaves. */
static void head_put_ipv4(struct frame_head *h, const struct peer_path *path)
{
	struct wire_ipv4 *ip = head_take(h, sizeof(*ip));

	h->l3 = L3_IPV4;
	ip->version_ihl = 0x45;
	ip->tos = path->tos;
	ip->frag = WIRE_HTONS(IPV4_DONT_FRAGMENT);
	ip->ttl = IP_TTL_DEFAULT_HOPS;
	ip->protocol = IP_PROTO_UDP;
	ip->src = path->src[3];
	ip->dst = path->dst[3];
}

/* The UDP checksum stays 0 behind it too: RoCEv2's payload has the ICRC. */
static void head_put_ipv6(struct frame_head *h, const struct peer_path *path)
{
	struct wire_ipv6 *ip = head_take(h, sizeof(*ip));

	h->l3 = L3_IPV6;
	ip->version_class_flow =
		WIRE_HTONL((__u32)6 << 28 | (__u32)path->tos << 20 | IPV6_FLOW_LABEL);
	ip->next_header = IP_PROTO_UDP;
	ip->hop_limit = IP_TTL_DEFAULT_HOPS;
	memcpy(ip->src, path->src, sizeof(ip->src));
	memcpy(ip->dst, path->dst, sizeof(ip->dst));
}

/* How each L3 form starts a frame and says its length. */
static const struct head_l3 {
	void (*put)(struct frame_head *h, const struct peer_path *path);
	unsigned int length_off;  /* of the 16-bit length */
	unsigned int length_from; /* which byte that length starts to count at */
} head_l3[] = {
	[L3_IPV4] = {.put = head_put_ipv4, .length_off = 2, .length_from = 0},
	[L3_IPV6] = {.put = head_put_ipv6, .length_off = 4, .length_from = IPV6_HEADER_BYTES},
};

/* IP and UDP headers; their lengths are written by head_close. */
static void head_begin(struct frame_head *h, const struct peer_path *path)
{
	struct wire_udp *udp;

	h->len = 0;
	head_l3[path_l3(path)].put(h, path);
	h->udp_off = h->len;
	udp = head_take(h, sizeof(*udp));
	udp->src = WIRE_HTONS(path->udp_src_port);
	udp->dst = WIRE_HTONS(ROCE_V2_UDP_PORT);
}

static void head_put_bth(
	struct frame_head *h, __u8 opcode, unsigned int pad, __u32 dst_qpn, bool ack_req, __u32 psn)
{
	struct wire_bth *bth;

	h->bth_off = h->len;
	bth = head_take(h, sizeof(*bth));
	bth->opcode = opcode;
	bth->flags = pad << 4;
	bth->pkey = WIRE_HTONS(PKEY_DEFAULT);
	bth->ecn_dqpn = WIRE_HTONL(dst_qpn & BTH_QPN_MASK);
	bth->ack_psn =
		WIRE_HTONL((ack_req ? (__u32)BTH_ACK_REQUEST << 24 : 0) | (psn & BTH_PSN_MASK));
}

static void head_put_reth(struct frame_head *h, __u64 va, __u32 rkey, __u32 dma_bytes)
{
	__u8 *reth = head_take(h, RETH_BYTES);

	put_be64(reth, va);
	put_be32(reth + 8, rkey);
	put_be32(reth + 12, dma_bytes);
}

static void head_put_deth(struct frame_head *h, __u32 qkey, __u32 src_qpn)
{
	__u8 *deth = head_take(h, DETH_BYTES);

	put_be32(deth, qkey);
	put_be24(deth + 5, src_qpn);
}

static void head_put_aeth(struct frame_head *h, __u8 syndrome, __u32 msn)
{
	__u8 *aeth = head_take(h, AETH_BYTES);

	aeth[0] = syndrome;
	put_be24(aeth + 1, msn);
}

/*
 * Write the lengths of a frame whose headers are complete, and its tail: pad bytes of zero and the
 * ICRC over everything. Returns the length of the tail.
 */
static unsigned int head_close(struct frame_head *h, const void *payload,
	unsigned int payload_bytes, unsigned int pad, __u8 tail[TAIL_BYTES_MAX])
{
	const struct head_l3 *l3 = &head_l3[h->l3];
	unsigned int end = h->len + payload_bytes + pad + ICRC_BYTES;
	unsigned int covered_off = h->bth_off + BTH_BYTES;
	__le32 icrc;
	__u32 crc;

	put_be16(h->bytes + l3->length_off, end - l3->length_from);
	put_be16(h->bytes + h->udp_off + 4, end - h->udp_off);
	memset(tail, 0, pad);
	crc = icrc_headers(h->bytes, h->l3, h->udp_off, h->bth_off);
	crc = libdeflate_crc32(crc, h->bytes + covered_off, h->len - covered_off);
	if (payload_bytes) /* for NULL libdeflate starts anew */
		crc = libdeflate_crc32(crc, payload, payload_bytes);
	crc = libdeflate_crc32(crc, tail, pad);
	icrc = htole32(crc);
	memcpy(tail + pad, &icrc, sizeof(icrc));
	return pad + ICRC_BYTES;
}

#endif
