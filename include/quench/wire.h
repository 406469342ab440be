/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frame formats and the one parser. The XDP and tc programs, the agent, the tests and the lab's
 * peer compile this same code: a bounds-checked cursor that walks from the Ethernet header to the
 * base transport header and stops at the first thing it does not understand.
 *
 * A new format is a row here: an enum value, a name in WIRE_KINDS, and a step that reads it.
 * Layouts: IBTA vol. 1 (BTH, extended headers, CM), annex 16/17 (RoCE), IEEE 802.1Qbb (PFC).
 */
#ifndef QUENCH_WIRE_H
#define QUENCH_WIRE_H

#include <linux/types.h>
#include <stdbool.h>

#ifdef __BPF__
#include <bpf/bpf_endian.h>
#define WIRE_NTOHS(x) bpf_ntohs(x)
#define WIRE_NTOHL(x) bpf_ntohl(x)
#define WIRE_HTONS(x) bpf_htons(x)
#define WIRE_HTONL(x) bpf_htonl(x)
#define WIRE_INLINE   static inline __attribute__((always_inline))
#else
#include <arpa/inet.h>
#include <stddef.h>
#define WIRE_NTOHS(x) ntohs(x)
#define WIRE_NTOHL(x) ntohl(x)
#define WIRE_HTONS(x) htons(x)
#define WIRE_HTONL(x) htonl(x)
#define WIRE_INLINE   static inline
#endif

enum {
	ETH_HEADER_BYTES = 14,
	VLAN_TAG_BYTES = 4,
	IPV4_MIN_BYTES = 20,
	IPV6_HEADER_BYTES = 40,
	GRH_BYTES = 40,
	UDP_HEADER_BYTES = 8,
	BTH_BYTES = 12,
	AETH_BYTES = 4,
	RETH_BYTES = 16,
	DETH_BYTES = 8,
	ICRC_BYTES = 4,
	MAD_BYTES = 256,
	CNP_PAYLOAD_BYTES = 16,
	MAC_CONTROL_FRAME_BYTES = 60, /* without the FCS */

	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_VLAN = 0x8100,
	ETHERTYPE_QINQ = 0x88a8,
	ETHERTYPE_IPV6 = 0x86dd,
	ETHERTYPE_MAC_CONTROL = 0x8808,
	ETHERTYPE_ROCE_V1 = 0x8915,

	IP_PROTO_UDP = 17,
	IPV6_NEXT_FRAGMENT = 44,
	GRH_NEXT_BTH = 0x1b,
	ROCE_V2_UDP_PORT = 4791,

	ECN_MASK = 0x03,
	ECN_NOT_ECT = 0,
	ECN_CE = 3,

	BTH_QPN_MASK = 0xffffff,
	BTH_PSN_MASK = 0xffffff,
	BTH_FECN = 0x80,
	BTH_BECN = 0x40,
	BTH_TVER_MASK = 0x0f,
	BTH_PAD_MASK = 0x30,

	MAC_CONTROL_PAUSE = 0x0001,
	MAC_CONTROL_PFC = 0x0101,

	QPN_CM = 1, /* the general service interface, where CM talks */
	WIRE_TAGS_MAX = 2,
	WIRE_PCP_NONE = 0xff,
};

/* What a frame is. The names are those of the `kind` label and of the JSON keys. */
#define WIRE_KINDS(X)                                                                              \
	X(OTHER, "other")		    /* nothing that quench knows */                        \
	X(ROCEV2, "rocev2")		    /* data, response or ACK over UDP */                   \
	X(ROCEV1, "rocev1")		    /* the same behind a GRH */                            \
	X(CNP, "cnp")			    /* congestion notification */                          \
	X(CM, "cm")			    /* connection management on QP 1 */                    \
	X(PFC, "pfc")			    /* 802.1Qbb, priority pause */                         \
	X(PAUSE, "pause")		    /* 802.3x, link pause */                               \
	X(MAC_CONTROL, "mac_control")	    /* 0x8808 with another opcode, address or length */    \
	X(UNKNOWN_OPCODE, "unknown_opcode") /* RoCE whose opcode or version is not defined */      \
	X(FRAGMENT, "fragment")		    /* of an IP packet */                                  \
	X(TOO_MANY_TAGS, "too_many_tags")   /* more than WIRE_TAGS_MAX */                          \
	X(TRUNCATED, "truncated")	    /* the headers go on past the end of the frame */      \
	X(MALFORMED, "malformed")	    /* lengths that contradict each other */

enum wire_kind {
#define X(id, name) WIRE_##id,
	WIRE_KINDS(X)
#undef X
		WIRE_KIND_COUNT
};

enum wire_l3 { L3_NONE, L3_IPV4, L3_IPV6, L3_GRH };

struct wire_eth {
	__u8 dst[6], src[6];
	__be16 type;
};

struct wire_vlan {
	__be16 tci;
	__be16 type;
};

struct wire_ipv4 {
	__u8 version_ihl;
	__u8 tos;
	__be16 total_len;
	__be16 id;
	__be16 frag; /* DF 0x4000, MF 0x2000, offset 0x1fff */
	__u8 ttl;
	__u8 protocol;
	__be16 check;
	__be32 src, dst;
};

struct wire_ipv6 { /* also the GRH */
	__be32 version_class_flow;
	__be16 payload_len;
	__u8 next_header;
	__u8 hop_limit;
	__be32 src[4], dst[4];
};

struct wire_udp {
	__be16 src, dst, len, check;
};

struct wire_bth {
	__u8 opcode;
	__u8 flags; /* SE 0x80, MigReq 0x40, PadCnt 0x30, TVer 0x0f */
	__be16 pkey;
	__be32 ecn_dqpn; /* FECN, BECN, 6 reserved bits, QPN */
	__be32 ack_psn;	 /* AckReq, 7 reserved bits, PSN */
};

struct wire_aeth {
	__be32 syndrome_msn;
};

struct wire_reth {
	__be32 va_hi, va_lo;
	__be32 rkey;
	__be32 dma_len;
};

struct wire_deth {
	__be32 qkey;
	__be32 src_qpn;
};

struct wire_mac_control {
	__be16 opcode;
	__be16 classes; /* PFC: bit n enables time[n]; PAUSE: the time itself */
	__be16 time[8]; /* quanta of 512 bit times */
};

#define WIRE_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
WIRE_SIZE(wire_eth, ETH_HEADER_BYTES);
WIRE_SIZE(wire_vlan, VLAN_TAG_BYTES);
WIRE_SIZE(wire_ipv4, IPV4_MIN_BYTES);
WIRE_SIZE(wire_ipv6, IPV6_HEADER_BYTES);
WIRE_SIZE(wire_udp, UDP_HEADER_BYTES);
WIRE_SIZE(wire_bth, BTH_BYTES);
WIRE_SIZE(wire_aeth, AETH_BYTES);
WIRE_SIZE(wire_reth, RETH_BYTES);
WIRE_SIZE(wire_deth, DETH_BYTES);
WIRE_SIZE(wire_mac_control, 20);

/*
 * Opcodes: transport in the upper three bits, operation in the lower five.
 * Transports: RC 00, UC 20, RD 40, UD 60, CNP 80, XRC a0.
 */
enum {
	OP_RC_SEND_FIRST = 0x00,
	OP_RC_SEND_ONLY = 0x04,
	OP_RC_WRITE_FIRST = 0x06,
	OP_RC_WRITE_MIDDLE = 0x07,
	OP_RC_WRITE_LAST = 0x08,
	OP_RC_WRITE_ONLY = 0x0a,
	OP_RC_READ_REQUEST = 0x0c,
	OP_RC_READ_RESPONSE_FIRST = 0x0d,
	OP_RC_READ_RESPONSE_ONLY = 0x10,
	OP_RC_ACK = 0x11,
	OP_RC_ATOMIC_ACK = 0x12,
	OP_UD_SEND_ONLY = 0x64,
	OP_CNP = 0x81,
};

enum wire_opcode_flags {
	OPF_KNOWN = 1,
	OPF_RESPONSE = 2, /* answers a request: its PSN is the requester's */
	OPF_ACK = 4,	  /* carries no data */
	OPF_AETH = 8,	  /* an ACK whose AETH follows the BTH at once */
};

/* One row an operation of a transport that has them all (IBTA table 35, annexes 14 and 19). */
#define WIRE_OPS_00_14(t, aeth)                                                                    \
	[(t) + 0x00 ...(t) + 0x0c] = OPF_KNOWN,                                                    \
			     [(t) + 0x0d ...(t) + 0x10] = OPF_KNOWN | OPF_RESPONSE,                \
			     [(t) + 0x11 ...(t) + 0x12] =                                          \
				     OPF_KNOWN | OPF_RESPONSE | OPF_ACK | (aeth),                  \
			     [(t) + 0x13 ...(t) + 0x14] = OPF_KNOWN

#define WIRE_OPCODE_TABLE                                                                          \
	{                                                                                          \
		WIRE_OPS_00_14(0x00, OPF_AETH), /* RC */                                           \
			[0x16 ... 0x17] = OPF_KNOWN, [0x1c ... 0x1d] = OPF_KNOWN,                  \
				  [0x20 ... 0x2b] = OPF_KNOWN, /* UC */                            \
			WIRE_OPS_00_14(0x40, 0),	       /* RD */                            \
			[0x55] = OPF_KNOWN, [0x5c] = OPF_KNOWN,                                    \
				  [0x64 ... 0x65] = OPF_KNOWN,		      /* UD */             \
			[OP_CNP] = OPF_KNOWN, WIRE_OPS_00_14(0xa0, OPF_AETH), /* XRC */            \
			[0xb6 ... 0xb7] = OPF_KNOWN,                                               \
	}

/* AETH syndrome: bits 6-5 say ACK, RNR NAK or NAK. */
enum {
	AETH_TYPE_MASK = 0xe0,
	AETH_ACK = 0x00,
	AETH_RNR_NAK = 0x20,
	AETH_NAK = 0x60,
	AETH_NAK_PSN_SEQUENCE = 0x60,
	AETH_CREDIT_NONE = 0x1f, /* no end-to-end credits */
};

/* CM attribute IDs (IBTA 12.6). */
enum { CM_REQ = 0x10, CM_REP = 0x13, CM_RTU = 0x14, CM_DREQ = 0x15 };
enum { MAD_CLASS_CM = 0x07, MAD_ATTRIBUTE_OFFSET = 16, MAD_HEADER_BYTES = 24 };

/*
 * Who a frame belongs to: addresses in network order, IPv4 as ::ffff:a.b.c.d, GIDs as they are;
 * the QPN is the destination's, for that is all a frame names.
 */
struct flow_key {
	__be32 src[4];
	__be32 dst[4];
	__u32 dst_qpn;
	__u32 zero; /* keys are compared as bytes: always 0 */
};
_Static_assert(sizeof(struct flow_key) == 40, "flow_key");

/* What the parser found. Offsets count from the start of the frame. */
struct wire_frame {
	__u8 kind; /* enum wire_kind */
	__u8 l3;   /* enum wire_l3 */
	__u8 tags; /* VLAN tags read, an offloaded one included */
	__u8 pcp;  /* of the outer tag; WIRE_PCP_NONE without one */
	__u8 tos;  /* IPv4 TOS, IPv6 or GRH traffic class: DSCP in the upper six bits, ECN below */
	__u8 opcode; /* of the BTH */
	__u8 bth_flags;
	__u8 syndrome;	/* AETH's first byte, of an ACK */
	__u16 l3_off;	/* IP header or GRH */
	__u16 l4_off;	/* UDP header; BTH behind a GRH */
	__u16 bth_off;	/* 0: there is none */
	__u16 icrc_off; /* from the IP or GRH length: Ethernet padding may follow it */
	__u16 mac_control_off;
	__u16 pkey;
	__be16 udp_src;
	__u16 zero;
	__u32 psn;
	struct flow_key key; /* RoCE kinds only */
};

/* A place in a frame and the frame's end: nothing is read that wire_take did not grant. */
struct wire_cursor {
	const __u8 *start, *pos, *end;
};

/* The next len bytes, moving past them; NULL when the frame has fewer. */
WIRE_INLINE const void *wire_take(struct wire_cursor *c, __u32 len)
{
	const __u8 *at = c->pos;

	if (at + len > c->end)
		return NULL;
	c->pos = at + len;
	return at;
}

WIRE_INLINE __u16 wire_offset(const struct wire_cursor *c)
{
	return c->pos - c->start;
}

WIRE_INLINE bool wire_is_ce(__u8 tos)
{
	return (tos & ECN_MASK) == ECN_CE;
}

WIRE_INLINE bool wire_is_ect(__u8 tos)
{
	return (tos & ECN_MASK) != ECN_NOT_ECT;
}

/* A CNP of the one length that CNPs have; the opcode alone may head anything. */
WIRE_INLINE bool wire_cnp_is_whole(const struct wire_frame *f)
{
	return f->icrc_off == f->bth_off + BTH_BYTES + CNP_PAYLOAD_BYTES;
}

WIRE_INLINE bool wire_is_roce(__u8 kind)
{
	return kind == WIRE_ROCEV2 || kind == WIRE_ROCEV1;
}

/* The flags of an opcode, 0 for one that is not defined. */
WIRE_INLINE __u8 wire_opcode_flags(__u8 opcode)
{
	static const __u8 flags[256] = WIRE_OPCODE_TABLE;

	return flags[opcode];
}

/* Is this the answer to a request (read response, ACK), not a request? */
WIRE_INLINE bool wire_is_response(__u8 opcode)
{
	return wire_opcode_flags(opcode) & OPF_RESPONSE;
}

WIRE_INLINE bool wire_is_ack(__u8 opcode)
{
	return wire_opcode_flags(opcode) & OPF_ACK;
}

/* The address of an IPv4 host in the form the keys use. */
WIRE_INLINE void wire_map_ipv4(__be32 out[4], __be32 addr)
{
	out[0] = 0;
	out[1] = 0;
	out[2] = WIRE_HTONL(0x0000ffff);
	out[3] = addr;
}

WIRE_INLINE int wire_done(struct wire_frame *f, enum wire_kind kind)
{
	f->kind = kind;
	return kind;
}

/* 802.3x and 802.1Qbb. An odd address or length makes it a frame without effect. */
WIRE_INLINE int wire_parse_mac_control(
	struct wire_cursor *c, const struct wire_eth *eth, struct wire_frame *f)
{
	static const __u8 address[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};
	const struct wire_mac_control *m;
	int i;

	f->mac_control_off = wire_offset(c);
	m = wire_take(c, sizeof(*m));
	if (!m)
		return wire_done(f, WIRE_MAC_CONTROL);
	for (i = 0; i < 6; i++)
		if (eth->dst[i] != address[i])
			return wire_done(f, WIRE_MAC_CONTROL);
	if (m->opcode == WIRE_HTONS(MAC_CONTROL_PFC))
		return wire_done(f, WIRE_PFC);
	if (m->opcode == WIRE_HTONS(MAC_CONTROL_PAUSE))
		return wire_done(f, WIRE_PAUSE);
	return wire_done(f, WIRE_MAC_CONTROL);
}

/*
 * The base transport header and what of the extended ones every frame's bookkeeping needs.
 * payload_end is where the ICRC ends, from the IP or GRH length.
 */
WIRE_INLINE int wire_parse_bth(struct wire_cursor *c, struct wire_frame *f, __u32 payload_end)
{
	const struct wire_bth *bth;
	const struct wire_aeth *aeth;
	__u32 ecn_dqpn;

	f->bth_off = wire_offset(c);
	if (payload_end < (__u32)f->bth_off + BTH_BYTES + ICRC_BYTES || payload_end > 0xffff)
		return wire_done(f, WIRE_MALFORMED);
	f->icrc_off = payload_end - ICRC_BYTES;
	bth = wire_take(c, sizeof(*bth));
	if (!bth)
		return wire_done(f, WIRE_TRUNCATED);
	ecn_dqpn = WIRE_NTOHL(bth->ecn_dqpn);
	f->opcode = bth->opcode;
	f->bth_flags = bth->flags;
	f->pkey = WIRE_NTOHS(bth->pkey);
	f->psn = WIRE_NTOHL(bth->ack_psn) & BTH_PSN_MASK;
	f->key.dst_qpn = ecn_dqpn & BTH_QPN_MASK;
	if (!wire_opcode_flags(f->opcode) || (bth->flags & BTH_TVER_MASK))
		return wire_done(f, WIRE_UNKNOWN_OPCODE);
	if (f->opcode == OP_CNP)
		return wire_done(f, f->l3 == L3_GRH ? WIRE_UNKNOWN_OPCODE : WIRE_CNP);
	if (wire_opcode_flags(f->opcode) & OPF_AETH) {
		if (f->icrc_off < wire_offset(c) + sizeof(*aeth))
			return wire_done(f, WIRE_MALFORMED);
		aeth = wire_take(c, sizeof(*aeth));
		if (!aeth)
			return wire_done(f, WIRE_TRUNCATED);
		f->syndrome = WIRE_NTOHL(aeth->syndrome_msn) >> 24;
	}
	if (f->opcode == OP_UD_SEND_ONLY && f->key.dst_qpn == QPN_CM)
		return wire_done(f, WIRE_CM);
	return wire_done(f, f->l3 == L3_GRH ? WIRE_ROCEV1 : WIRE_ROCEV2);
}

WIRE_INLINE int wire_parse_udp(struct wire_cursor *c, struct wire_frame *f, __u32 l3_end)
{
	const struct wire_udp *udp;
	__u32 udp_len;

	f->l4_off = wire_offset(c);
	if (l3_end < (__u32)f->l4_off + UDP_HEADER_BYTES)
		return wire_done(f, WIRE_MALFORMED);
	udp = wire_take(c, sizeof(*udp));
	if (!udp)
		return wire_done(f, WIRE_TRUNCATED);
	if (udp->dst != WIRE_HTONS(ROCE_V2_UDP_PORT))
		return wire_done(f, WIRE_OTHER);
	udp_len = WIRE_NTOHS(udp->len);
	if (f->l4_off + udp_len != l3_end)
		return wire_done(f, WIRE_MALFORMED);
	f->udp_src = udp->src;
	return wire_parse_bth(c, f, l3_end);
}

WIRE_INLINE int wire_parse_ipv4(struct wire_cursor *c, struct wire_frame *f)
{
	const struct wire_ipv4 *ip;
	__u32 header_len, total_len;

	f->l3 = L3_IPV4;
	f->l3_off = wire_offset(c);
	ip = wire_take(c, sizeof(*ip));
	if (!ip)
		return wire_done(f, WIRE_TRUNCATED);
	f->tos = ip->tos;
	header_len = (ip->version_ihl & 0x0f) * 4;
	total_len = WIRE_NTOHS(ip->total_len);
	if (ip->version_ihl >> 4 != 4 || header_len < sizeof(*ip) || total_len < header_len)
		return wire_done(f, WIRE_MALFORMED);
	if (ip->protocol != IP_PROTO_UDP)
		return wire_done(f, WIRE_OTHER);
	if (ip->frag & WIRE_HTONS(0x3fff))
		return wire_done(f, WIRE_FRAGMENT);
	if (!wire_take(c, header_len - sizeof(*ip)))
		return wire_done(f, WIRE_TRUNCATED);
	wire_map_ipv4(f->key.src, ip->src);
	wire_map_ipv4(f->key.dst, ip->dst);
	return wire_parse_udp(c, f, f->l3_off + total_len);
}

/* IPv6 and the GRH are one header with two meanings of what follows. */
WIRE_INLINE int wire_parse_ipv6(struct wire_cursor *c, struct wire_frame *f, enum wire_l3 l3)
{
	const struct wire_ipv6 *ip;
	__u32 first, end;
	int i;

	f->l3 = l3;
	f->l3_off = wire_offset(c);
	ip = wire_take(c, sizeof(*ip));
	if (!ip)
		return wire_done(f, WIRE_TRUNCATED);
	first = WIRE_NTOHL(ip->version_class_flow);
	f->tos = first >> 20;
	if (first >> 28 != 6)
		return wire_done(f, WIRE_MALFORMED);
	for (i = 0; i < 4; i++) {
		f->key.src[i] = ip->src[i];
		f->key.dst[i] = ip->dst[i];
	}
	end = wire_offset(c) + WIRE_NTOHS(ip->payload_len);
	if (l3 == L3_GRH) {
		if (ip->next_header != GRH_NEXT_BTH)
			return wire_done(f, WIRE_MALFORMED);
		f->l4_off = wire_offset(c);
		return wire_parse_bth(c, f, end);
	}
	if (ip->next_header == IP_PROTO_UDP)
		return wire_parse_udp(c, f, end);
	return wire_done(f, ip->next_header == IPV6_NEXT_FRAGMENT ? WIRE_FRAGMENT : WIRE_OTHER);
}

/*
 * Say what the frame between data and end is. *f must be zeroed but for pcp and tags, which carry
 * a tag that the hook was given apart from the bytes (skb->vlan_tci), or WIRE_PCP_NONE and 0.
 * Fills *f as far as the frame makes sense and returns f->kind. Reads nothing outside the frame,
 * changes nothing, never fails: what it does not understand is a kind of its own.
 */
WIRE_INLINE int wire_parse(const void *data, const void *end, struct wire_frame *f)
{
	struct wire_cursor c = {.start = data, .pos = data, .end = end};
	const struct wire_vlan *tag;
	const struct wire_eth *eth;
	__be16 type;
	int i;

	eth = wire_take(&c, sizeof(*eth));
	if (!eth)
		return wire_done(f, WIRE_TRUNCATED);
	type = eth->type;
	for (i = 0; i < WIRE_TAGS_MAX; i++) {
		if (type != WIRE_HTONS(ETHERTYPE_VLAN) && type != WIRE_HTONS(ETHERTYPE_QINQ))
			break;
		tag = wire_take(&c, sizeof(*tag));
		if (!tag)
			return wire_done(f, WIRE_TRUNCATED);
		if (!f->tags)
			f->pcp = WIRE_NTOHS(tag->tci) >> 13;
		f->tags++;
		type = tag->type;
	}
	if (f->tags > WIRE_TAGS_MAX)
		return wire_done(f, WIRE_TOO_MANY_TAGS);
	if (type == WIRE_HTONS(ETHERTYPE_IPV4))
		return wire_parse_ipv4(&c, f);
	if (type == WIRE_HTONS(ETHERTYPE_IPV6))
		return wire_parse_ipv6(&c, f, L3_IPV6);
	if (type == WIRE_HTONS(ETHERTYPE_ROCE_V1))
		return wire_parse_ipv6(&c, f, L3_GRH);
	if (type == WIRE_HTONS(ETHERTYPE_MAC_CONTROL) && !f->tags)
		return wire_parse_mac_control(&c, eth, f);
	if (type == WIRE_HTONS(ETHERTYPE_VLAN) || type == WIRE_HTONS(ETHERTYPE_QINQ))
		return wire_done(f, WIRE_TOO_MANY_TAGS);
	return wire_done(f, WIRE_OTHER);
}

/* A frame description as wire_parse wants it, for a frame whose tags are all in its bytes. */
WIRE_INLINE void wire_frame_init(struct wire_frame *f)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->pcp = WIRE_PCP_NONE;
}

/* What the pair learner needs of a CM message. IDs are opaque 32-bit names of one host. */
struct wire_cm {
	__u16 attribute; /* CM_REQ, CM_REP, CM_RTU or CM_DREQ */
	__u16 zero;
	__u32 local_id;	 /* the sender's communication ID */
	__u32 remote_id; /* the receiver's; 0 in a REQ */
	__u32 qpn;	 /* REQ, REP: the sender's QPN; DREQ: the receiver's; RTU: 0 */
	__u32 psn;	 /* REQ, REP: starting PSN of the sender */
};

WIRE_INLINE __u32 wire_be32_at(const __u8 *p)
{
	return (__u32)p[0] << 24 | (__u32)p[1] << 16 | (__u32)p[2] << 8 | p[3];
}

/*
 * Read the CM message whose MAD starts at mad (MAD_BYTES long). Returns false when it is not a
 * CM message of a kind that makes or ends a connection. Offsets: IBTA 12.6.5 to 12.6.10.
 */
WIRE_INLINE bool wire_read_cm(const __u8 *mad, struct wire_cm *cm)
{
	const __u8 *m = mad + MAD_HEADER_BYTES;

	__builtin_memset(cm, 0, sizeof(*cm));
	if (mad[1] != MAD_CLASS_CM)
		return false;
	cm->attribute = mad[MAD_ATTRIBUTE_OFFSET] << 8 | mad[MAD_ATTRIBUTE_OFFSET + 1];
	cm->local_id = wire_be32_at(m);
	switch (cm->attribute) {
	case CM_REQ:
		cm->qpn = wire_be32_at(m + 32) >> 8;
		cm->psn = wire_be32_at(m + 44) >> 8;
		return true;
	case CM_REP:
		cm->remote_id = wire_be32_at(m + 4);
		cm->qpn = wire_be32_at(m + 12) >> 8;
		cm->psn = wire_be32_at(m + 20) >> 8;
		return true;
	case CM_RTU:
		cm->remote_id = wire_be32_at(m + 4);
		return true;
	case CM_DREQ:
		cm->remote_id = wire_be32_at(m + 4);
		cm->qpn = wire_be32_at(m + 8) >> 8;
		return true;
	}
	return false;
}

/* How far psn is ahead of from on the 24-bit circle: negative when it is behind. */
WIRE_INLINE __s32 wire_psn_ahead(__u32 psn, __u32 from)
{
	return (__s32)((psn - from) << 8) >> 8;
}

#endif
