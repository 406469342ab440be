/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frame formats and the one parser. The XDP and tc programs, the agent, the tests and the lab's
 * peer compile this same code: a bounds-checked cursor that walks from the Ethernet header to the
 * base transport header and stops at the first thing it does not understand. What few frames have
 * (IPv6 extension headers, tunnels) is left for further passes, so that neither most frames nor the
 * kernel's verifier have to bother.
 *
 * A new format is a row here: an enum value, a name in WIRE_KINDS, and a step that reads it.
 * Layouts: IBTA vol. 1 (BTH, extended headers, CM), annex 16/17 (RoCE), IEEE 802.1Qbb (PFC).
 */
#ifndef QUENCH_WIRE_H
#define QUENCH_WIRE_H

#include <linux/types.h>
#include <stdbool.h>

#include "quench/wire_opcode.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WIRE_NTOHS(x) ((__u16)__builtin_bswap16(x))
#define WIRE_NTOHL(x) ((__u32)__builtin_bswap32(x))
#else
#define WIRE_NTOHS(x) ((__u16)(x))
#define WIRE_NTOHL(x) ((__u32)(x))
#endif
#define WIRE_HTONS(x) WIRE_NTOHS(x)
#define WIRE_HTONL(x) WIRE_NTOHL(x)

#ifdef __BPF__
#define WIRE_INLINE static inline __attribute__((always_inline))
#else
#include <stddef.h>
#define WIRE_INLINE static inline
#endif

/* Forget what is known of a variable: the next use is of the register that holds it now. */
#define WIRE_OPAQUE(variable) asm volatile("" : "+r"(variable))

enum {
	ETH_HEADER_BYTES = 14,
	VLAN_TAG_BYTES = 4,
	IPV4_MIN_BYTES = 20,
	IPV6_HEADER_BYTES = 40,
	GRH_BYTES = 40,
	UDP_HEADER_BYTES = 8,
	BTH_BYTES = 12,
	ICRC_BYTES = 4,
	MAD_BYTES = 256,
	CNP_PAYLOAD_BYTES = 16,
	MAC_CONTROL_FRAME_BYTES = 60, /* without the FCS */

	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_VLAN = 0x8100,
	ETHERTYPE_QINQ = 0x88a8,
	ETHERTYPE_QINQ_OLD = 0x9100,
	ETHERTYPE_IPV6 = 0x86dd,
	ETHERTYPE_MAC_CONTROL = 0x8808,
	ETHERTYPE_ROCE_V1 = 0x8915,
	ETHERTYPE_MACSEC = 0x88e5,
	ETHERTYPE_BRIDGED = 0x6558, /* an Ethernet frame in GRE or GENEVE */
	ETHERTYPE_ERSPAN_2 = 0x88be,
	ETHERTYPE_ERSPAN_3 = 0x22eb,

	IP_PROTO_TCP = 6,
	IP_PROTO_UDP = 17,
	IP_PROTO_GRE = 47,
	IPV6_HOP_BY_HOP = 0,
	IPV6_ROUTING = 43,
	IPV6_FRAGMENT = 44,
	IPV6_DESTINATION = 60,
	IPV6_HEADERS_MAX = 4, /* extension headers before the transport */
	GRH_NEXT_BTH = 0x1b,
	ROCE_V2_UDP_PORT = 4791,
	VXLAN_UDP_PORT = 4789,
	VXLAN_UDP_PORT_OLD = 8472,
	GENEVE_UDP_PORT = 6081,
	VXLAN_PORTS_MAX = 4,

	ECN_MASK = 0x03,
	ECN_NOT_ECT = 0,
	ECN_CE = 3,

	BTH_QPN_MASK = 0xffffff,
	BTH_PSN_MASK = 0xffffff,
	BTH_FECN = 0x80,
	BTH_BECN = 0x40,
	BTH_TVER_MASK = 0x0f,
	BTH_PAD_MASK = 0x30,
	BTH_PAD_SHIFT = 4,

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
	X(IWARP, "iwarp")		    /* a segment of a TCP connection that speaks MPA */    \
	X(INFINIBAND, "infiniband")	    /* a native InfiniBand packet, in captures */          \
	X(PFC, "pfc")			    /* 802.1Qbb, priority pause */                         \
	X(PAUSE, "pause")		    /* 802.3x, link pause */                               \
	X(MAC_CONTROL, "mac_control")	    /* 0x8808 with another opcode, address or length */    \
	X(MACSEC, "macsec")		    /* encrypted: nobody can say what */                   \
	X(UNKNOWN_OPCODE, "unknown_opcode") /* RoCE whose opcode or version is not defined */      \
	X(FRAGMENT, "fragment")		    /* of an IP packet */                                  \
	X(TOO_MANY_TAGS, "too_many_tags")   /* more than WIRE_TAGS_MAX */                          \
	X(TOO_MANY_HEADERS, "too_many_headers") /* more than IPV6_HEADERS_MAX */                   \
	X(TRUNCATED, "truncated")		/* the headers go on past the end of the frame */  \
	X(MALFORMED, "malformed")		/* lengths that contradict each other */

enum wire_kind {
#define X(id, name) WIRE_##id,
	WIRE_KINDS(X)
#undef X
		WIRE_KIND_COUNT
};

enum wire_l3 { L3_NONE, L3_IPV4, L3_IPV6, L3_GRH, L3_LRH };

/* What the frame is wrapped in; the names are those of the JSON key. */
#define WIRE_TUNNELS(X)                                                                            \
	X(VXLAN, "vxlan")                                                                          \
	X(GENEVE, "geneve")                                                                        \
	X(GRE, "gre")                                                                              \
	X(ERSPAN, "erspan")

enum wire_tunnel {
	TUNNEL_NONE,
#define X(id, name) TUNNEL_##id,
	WIRE_TUNNELS(X)
#undef X
		TUNNEL_END
};
enum { TUNNEL_COUNT = TUNNEL_END - 1 };

/* The UDP ports that mean something; 0 is none. */
struct wire_ports {
	__be16 roce;
	__be16 geneve;
	__be16 vxlan[VXLAN_PORTS_MAX];
};

#define WIRE_PORTS_DEFAULT                                                                         \
	{                                                                                          \
		.roce = WIRE_HTONS(ROCE_V2_UDP_PORT), .geneve = WIRE_HTONS(GENEVE_UDP_PORT),       \
		.vxlan = {WIRE_HTONS(VXLAN_UDP_PORT), WIRE_HTONS(VXLAN_UDP_PORT_OLD)},             \
	}

/*
 * An Ethernet header in a tunnel leaves what follows it aligned to 2 only. That is nothing to BPF
 * programs, whose compiler would read every such field in halves.
 */
#ifdef __BPF__
typedef __be32 wire_be32;
#else
typedef __be32 wire_be32 __attribute__((aligned(2)));
#endif

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
	wire_be32 src, dst;
};

struct wire_ipv6 { /* also the GRH */
	wire_be32 version_class_flow;
	__be16 payload_len;
	__u8 next_header;
	__u8 hop_limit;
	wire_be32 src[4], dst[4];
};

struct wire_udp {
	__be16 src, dst, len, check;
};

struct wire_tcp {
	__be16 src, dst;
	wire_be32 seq, ack;
	__u8 offset; /* of the payload, in words, in the upper four bits */
	__u8 flags;
	__be16 window, check, urgent;
};

struct wire_bth {
	__u8 opcode;
	__u8 flags; /* SE 0x80, MigReq 0x40, PadCnt 0x30, TVer 0x0f */
	__be16 pkey;
	wire_be32 ecn_dqpn; /* FECN, BECN, 6 reserved bits, QPN */
	wire_be32 ack_psn;  /* AckReq, 7 reserved bits, PSN */
};

struct wire_aeth {
	wire_be32 syndrome_msn;
};

struct wire_reth {
	wire_be32 va_hi, va_lo;
	wire_be32 rkey;
	wire_be32 dma_len;
};

struct wire_deth {
	wire_be32 qkey;
	wire_be32 src_qpn;
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
WIRE_SIZE(wire_tcp, 20);
WIRE_SIZE(wire_bth, BTH_BYTES);
WIRE_SIZE(wire_aeth, AETH_BYTES);
WIRE_SIZE(wire_reth, RETH_BYTES);
WIRE_SIZE(wire_deth, DETH_BYTES);
WIRE_SIZE(wire_mac_control, 20);

/*
 * Who a frame belongs to: addresses in network order, IPv4 as ::ffff:a.b.c.d, GIDs as they are;
 * the QPN is the destination's, for that is all a frame names. Nine words and no padding: keys are
 * compared and hashed as they lie there, and a tenth word would cost a round more of the hash.
 */
struct flow_key {
	__be32 src[4];
	__be32 dst[4];
	__u32 dst_qpn;
};
_Static_assert(sizeof(struct flow_key) == 36, "flow_key");

/*
 * What the parser found. Offsets count from the start of the frame. What a machine on the way acts
 * on (l3, l3_off, tos, pcp) is of the outermost headers; the rest is of the innermost.
 */
struct wire_frame {
	__u8 kind; /* enum wire_kind */
	__u8 l3;   /* enum wire_l3 */
	__u8 tags; /* VLAN tags read, an offloaded one included */
	__u8 pcp;  /* of the outer tag; WIRE_PCP_NONE without one */
	__u8 tos;  /* IPv4 TOS, IPv6 or GRH traffic class: DSCP above, ECN in the lower two bits */
	__u8 opcode; /* of the BTH */
	__u8 bth_flags;
	__u8 syndrome;	/* AETH's first byte, of an ACK */
	__u16 l3_off;	/* IP header or GRH */
	__u16 l4_off;	/* UDP or TCP header; BTH behind a GRH */
	__u16 bth_off;	/* 0: there is none */
	__u16 icrc_off; /* from the IP or GRH length: Ethernet padding may follow it */
	__u16 mac_control_off;
	__u16 pkey;
	__be16 udp_src;
	__u8 tunnel; /* enum wire_tunnel; the inner_ fields are set when there is one */
	__u8 inner_l3;
	__u16 inner_l3_off;
	__u8 inner_tos;
	__u8 mpa;	       /* enum wire_mpa */
	__u16 tcp_payload_off; /* 0: no whole TCP header */
	__u8 ack_request;      /* the BTH's bit */
	__u8 zero;
	/* What is left to read, and where; rest is 0 at the end. */
	__u8 rest;	  /* enum wire_rest */
	__u8 rest_next;	  /* the IPv6 header that comes next */
	__be16 rest_type; /* the ethertype of what comes next */
	__u16 rest_off;
	__u16 zero2;
	__u32 rest_end; /* where the IP packet ends */
	__u32 psn;
	struct flow_key key; /* RoCE kinds, iWARP and TCP, whose QPN is the two ports */
};

/* What is left of a frame after a pass. */
enum wire_rest { REST_NONE, REST_IPV6_HEADERS, REST_VXLAN, REST_GENEVE, REST_GRE, REST_INNER };
enum {
	WIRE_OFFSET_MAX = 0x3fff, /* where a pass may start */
	WIRE_PASSES_MAX = 4,	  /* IPv6 headers, a tunnel, what is in it, its IPv6 headers */
};

/* A place in a frame and the frame's end: nothing is read that wire_take did not grant. */
#ifndef WIRE_BUFFER_BYTES
struct wire_cursor {
	const __u8 *start, *pos, *end;
};

/* At off in the frame, of which so many bytes have been granted; a verifier wants the bound. */
WIRE_INLINE struct wire_cursor wire_cursor(const void *data, const void *end, __u16 off)
{
	return (struct wire_cursor){
		.start = data, .pos = (const __u8 *)data + (off & WIRE_OFFSET_MAX), .end = end};
}

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
#else
/*
 * The same for headers in a buffer of WIRE_BUFFER_BYTES, for a verifier that follows numbers into
 * such memory but no pointers. At least WIRE_SLACK_BYTES more, the longest header, must lie behind
 * it.
 */
enum { WIRE_SLACK_BYTES = 64 };

struct wire_cursor {
	const __u8 *start;
	__u32 at, size;
};

WIRE_INLINE struct wire_cursor wire_cursor(const void *data, const void *end, __u16 off)
{
	return (struct wire_cursor){
		.start = data, .at = off, .size = (const __u8 *)end - (const __u8 *)data};
}

/*
 * The offset is opaque so that what is checked is what is added to start: a copy of it that was
 * made before is unbounded in the eyes of verifiers before Linux 6.15.
 */
WIRE_INLINE const void *wire_take(struct wire_cursor *c, __u32 len)
{
	__u32 at = c->at, next;

	WIRE_OPAQUE(at);
	next = at + len;
	if (at > WIRE_BUFFER_BYTES || next > WIRE_BUFFER_BYTES || next > c->size)
		return NULL;
	c->at = next;
	return c->start + at;
}

WIRE_INLINE __u16 wire_offset(const struct wire_cursor *c)
{
	return c->at;
}
#endif

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

/* What there is to know of an opcode. */
WIRE_INLINE const struct wire_opcode *wire_opcode(__u8 opcode)
{
	static const struct wire_opcode opcodes[256] = WIRE_OPCODES;

	return &opcodes[opcode];
}

/* Is this the answer to a request (read response, ACK), not a request? */
WIRE_INLINE bool wire_is_response(__u8 opcode)
{
	return wire_opcode(opcode)->flags & OPF_RESPONSE;
}

WIRE_INLINE bool wire_is_ack(__u8 opcode)
{
	return wire_opcode(opcode)->flags & OPF_ACK;
}

/* The IP header or GRH that the RoCE headers stand behind. */
WIRE_INLINE __u16 wire_roce_l3_off(const struct wire_frame *f)
{
	return f->tunnel ? f->inner_l3_off : f->l3_off;
}

WIRE_INLINE __u8 wire_roce_l3(const struct wire_frame *f)
{
	return f->tunnel ? f->inner_l3 : f->l3;
}

WIRE_INLINE __u8 wire_roce_tos(const struct wire_frame *f)
{
	return f->tunnel ? f->inner_tos : f->tos;
}

/* The user's bytes that a RoCE frame carries: without headers, padding and ICRC. */
WIRE_INLINE __u32 wire_payload_bytes(const struct wire_frame *f)
{
	__u32 headers = f->bth_off + BTH_BYTES + wire_opcode(f->opcode)->ext_bytes;
	__u32 pad = (f->bth_flags & BTH_PAD_MASK) >> BTH_PAD_SHIFT;

	return f->icrc_off > headers + pad ? f->icrc_off - headers - pad : 0;
}

/* The address of an IPv4 host in the form the keys use. */
WIRE_INLINE void wire_map_ipv4(__be32 out[4], __be32 addr)
{
	out[0] = 0;
	out[1] = 0;
	out[2] = WIRE_HTONL(0x0000ffff);
	out[3] = addr;
}

/* The two start frames of MPA, which open an iWARP connection. */
enum wire_mpa { MPA_NONE, MPA_REQUEST, MPA_REPLY };
enum { MPA_KEY_BYTES = 16 };

WIRE_INLINE __u32 wire_be32_at(const __u8 *p)
{
	return (__u32)p[0] << 24 | (__u32)p[1] << 16 | (__u32)p[2] << 8 | p[3];
}

/* "MPA ID Req Frame" or "MPA ID Rep Frame", four letters at a time. */
WIRE_INLINE enum wire_mpa wire_mpa_start(const __u8 *payload)
{
	if (wire_be32_at(payload) != 0x4d504120 || wire_be32_at(payload + 4) != 0x49442052 ||
		wire_be32_at(payload + 12) != 0x72616d65)
		return MPA_NONE;
	switch (wire_be32_at(payload + 8)) {
	case 0x65712046:
		return MPA_REQUEST;
	case 0x65702046:
		return MPA_REPLY;
	}
	return MPA_NONE;
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
	const struct wire_opcode *op;
	const struct wire_bth *bth;
	const __u8 *aeth;

	f->bth_off = wire_offset(c);
	if (payload_end < (__u32)f->bth_off + BTH_BYTES + ICRC_BYTES || payload_end > 0xffff)
		return wire_done(f, WIRE_MALFORMED);
	f->icrc_off = payload_end - ICRC_BYTES;
	bth = wire_take(c, sizeof(*bth));
	if (!bth)
		return wire_done(f, WIRE_TRUNCATED);
	f->opcode = bth->opcode;
	f->bth_flags = bth->flags;
	f->pkey = WIRE_NTOHS(bth->pkey);
	f->psn = WIRE_NTOHL(bth->ack_psn) & BTH_PSN_MASK;
	f->ack_request = WIRE_NTOHL(bth->ack_psn) >> 31;
	f->key.dst_qpn = WIRE_NTOHL(bth->ecn_dqpn) & BTH_QPN_MASK;
	op = wire_opcode(f->opcode);
	if (!op->flags || (bth->flags & BTH_TVER_MASK))
		return wire_done(f, WIRE_UNKNOWN_OPCODE);
	if (f->icrc_off < wire_offset(c) + op->ext_bytes)
		return wire_done(f, WIRE_MALFORMED);
	if (f->opcode == OP_CNP)
		return wire_done(f, wire_roce_l3(f) == L3_GRH ? WIRE_UNKNOWN_OPCODE : WIRE_CNP);
	if (op->flags & OPF_ACK) {
		if (op->flags & OPF_RDETH)
			wire_take(c, RDETH_BYTES);
		aeth = wire_take(c, AETH_BYTES);
		if (!aeth)
			return wire_done(f, WIRE_TRUNCATED);
		f->syndrome = *aeth;
	}
	if (f->opcode == OP_UD_SEND_ONLY && f->key.dst_qpn == QPN_CM)
		return wire_done(f, WIRE_CM);
	return wire_done(f, wire_roce_l3(f) == L3_GRH ? WIRE_ROCEV1 : WIRE_ROCEV2);
}

/* Leave the rest, from here on, for another pass. */
WIRE_INLINE int wire_leave(const struct wire_cursor *c, struct wire_frame *f, enum wire_rest rest)
{
	f->rest_off = wire_offset(c);
	if (f->rest_off > WIRE_OFFSET_MAX)
		return wire_done(f, WIRE_TOO_MANY_HEADERS);
	f->rest = rest;
	return wire_done(f, WIRE_OTHER);
}

/* Note the tunnel, whose headers are taken; NULL for at means that they were not all there. */
WIRE_INLINE int wire_enter(const struct wire_cursor *c, struct wire_frame *f, const void *at,
	enum wire_tunnel tunnel, __be16 type)
{
	if (!at)
		return wire_done(f, WIRE_TRUNCATED);
	f->tunnel = tunnel;
	f->rest_type = type;
	return wire_leave(c, f, REST_INNER);
}

/* VXLAN: RFC 7348. */
WIRE_INLINE int wire_enter_vxlan(struct wire_cursor *c, struct wire_frame *f)
{
	enum { VNI_VALID = 0x08, VXLAN_BYTES = 8 };
	const __u8 *vxlan = wire_take(c, VXLAN_BYTES);

	if (vxlan && !(vxlan[0] & VNI_VALID))
		return wire_done(f, WIRE_OTHER);
	return wire_enter(c, f, vxlan, TUNNEL_VXLAN, WIRE_HTONS(ETHERTYPE_BRIDGED));
}

/* GENEVE: RFC 8926. */
WIRE_INLINE int wire_enter_geneve(struct wire_cursor *c, struct wire_frame *f)
{
	enum { VERSION_MASK = 0xc0, OPTION_WORDS_MASK = 0x3f, GENEVE_BYTES = 8 };
	const __u8 *geneve = wire_take(c, GENEVE_BYTES);
	const void *options;

	if (!geneve)
		return wire_done(f, WIRE_TRUNCATED);
	if (geneve[0] & VERSION_MASK)
		return wire_done(f, WIRE_OTHER);
	options = wire_take(c, (geneve[0] & OPTION_WORDS_MASK) * 4);
	return wire_enter(c, f, options, TUNNEL_GENEVE, *(const __be16 *)(geneve + 2));
}

/*
 * ERSPAN behind GRE: type I has no header of its own and no sequence number, II has 8 bytes, III
 * has 12 and perhaps 8 more. Only what says that it holds an Ethernet frame is looked into.
 */
WIRE_INLINE int wire_enter_erspan(
	struct wire_cursor *c, struct wire_frame *f, __be16 type, bool has_sequence)
{
	enum { TYPE_2_BYTES = 8, TYPE_3_BYTES = 12, MORE_BYTES = 8 };
	enum { FRAME_TYPE_MASK = 0x7c, MORE = 0x01 }; /* in bytes 10 and 11 of type III */
	const __u8 *erspan = c->start;

	if (type == WIRE_HTONS(ETHERTYPE_ERSPAN_3)) {
		erspan = wire_take(c, TYPE_3_BYTES);
		if (erspan && (erspan[10] & FRAME_TYPE_MASK))
			return wire_done(f, WIRE_OTHER);
		if (erspan && (erspan[11] & MORE))
			erspan = wire_take(c, MORE_BYTES);
	} else if (has_sequence) {
		erspan = wire_take(c, TYPE_2_BYTES);
	}
	return wire_enter(c, f, erspan, TUNNEL_ERSPAN, WIRE_HTONS(ETHERTYPE_BRIDGED));
}

/* GRE (RFC 2784, 2890), with NVGRE (RFC 7637). */
WIRE_INLINE int wire_enter_gre(struct wire_cursor *c, struct wire_frame *f)
{
	enum { CSUM = 0x80, ROUTING = 0x40, KEY = 0x20, SEQUENCE = 0x10, VERSION_MASK = 0x07 };
	const __u8 *gre = wire_take(c, 4);
	__be16 type;

	if (!gre)
		return wire_done(f, WIRE_TRUNCATED);
	type = *(const __be16 *)(gre + 2);
	if ((gre[0] & ROUTING) || (gre[1] & VERSION_MASK))
		return wire_done(f, WIRE_OTHER);
	if (!wire_take(c,
		    (gre[0] & CSUM ? 4 : 0) + (gre[0] & KEY ? 4 : 0) + (gre[0] & SEQUENCE ? 4 : 0)))
		return wire_done(f, WIRE_TRUNCATED);
	if (type == WIRE_HTONS(ETHERTYPE_ERSPAN_2) || type == WIRE_HTONS(ETHERTYPE_ERSPAN_3))
		return wire_enter_erspan(c, f, type, gre[0] & SEQUENCE);
	return wire_enter(c, f, gre, TUNNEL_GRE, type);
}

WIRE_INLINE bool wire_is_vxlan_port(const struct wire_ports *ports, __be16 port)
{
	int i;

	for (i = 0; i < VXLAN_PORTS_MAX; i++)
		if (port && port == ports->vxlan[i])
			return true;
	return false;
}

WIRE_INLINE int wire_parse_udp(struct wire_cursor *c, struct wire_frame *f, __u32 l3_end,
	const struct wire_ports *ports, bool inner)
{
	const struct wire_udp *udp;
	__u32 udp_len;

	f->l4_off = wire_offset(c);
	if (l3_end && l3_end < (__u32)f->l4_off + UDP_HEADER_BYTES)
		return wire_done(f, WIRE_MALFORMED);
	udp = wire_take(c, sizeof(*udp));
	if (!udp)
		return wire_done(f, WIRE_TRUNCATED);
	if (udp->dst != ports->roce) {
		if (!inner && wire_is_vxlan_port(ports, udp->dst))
			return wire_leave(c, f, REST_VXLAN);
		if (!inner && ports->geneve && udp->dst == ports->geneve)
			return wire_leave(c, f, REST_GENEVE);
		return wire_done(f, WIRE_OTHER);
	}
	udp_len = WIRE_NTOHS(udp->len);
	if (f->l4_off + udp_len != l3_end)
		return wire_done(f, WIRE_MALFORMED);
	f->udp_src = udp->src;
	return wire_parse_bth(c, f, l3_end);
}

/*
 * TCP: the key names the connection, and a start frame of MPA is seen (RFC 5044, 7.1). Whether the
 * rest of the connection is iWARP only who remembers can say.
 */
WIRE_INLINE int wire_parse_tcp(struct wire_cursor *c, struct wire_frame *f)
{
	const struct wire_tcp *tcp;
	const __u8 *key;
	__u32 header_len;

	f->l4_off = wire_offset(c);
	tcp = wire_take(c, sizeof(*tcp));
	if (!tcp)
		return wire_done(f, WIRE_TRUNCATED);
	f->key.dst_qpn = (__u32)WIRE_NTOHS(tcp->src) << 16 | WIRE_NTOHS(tcp->dst);
	header_len = (tcp->offset >> 4) * 4;
	if (header_len < sizeof(*tcp) || !wire_take(c, header_len - sizeof(*tcp)))
		return wire_done(f, WIRE_OTHER);
	f->tcp_payload_off = wire_offset(c);
	key = wire_take(c, MPA_KEY_BYTES);
	if (!key)
		return wire_done(f, WIRE_OTHER);
	f->mpa = wire_mpa_start(key);
	return wire_done(f, f->mpa ? WIRE_IWARP : WIRE_OTHER);
}

/* What an IP header carries, up to end; 0 where the length does not fit its field (BIG TCP). */
WIRE_INLINE int wire_parse_transport(struct wire_cursor *c, struct wire_frame *f, __u8 protocol,
	__u32 end, const struct wire_ports *ports, bool inner)
{
	if (protocol == IP_PROTO_UDP)
		return wire_parse_udp(c, f, end, ports, inner);
	if (protocol == IP_PROTO_TCP && !inner)
		return wire_parse_tcp(c, f);
	if (protocol == IP_PROTO_GRE && !inner)
		return wire_leave(c, f, REST_GRE);
	return wire_done(f, WIRE_OTHER);
}

WIRE_INLINE void wire_note_l3(struct wire_frame *f, enum wire_l3 l3, __u16 offset, bool inner)
{
	if (inner) {
		f->inner_l3 = l3;
		f->inner_l3_off = offset;
	} else {
		f->l3 = l3;
		f->l3_off = offset;
	}
}

WIRE_INLINE void wire_note_tos(struct wire_frame *f, __u8 tos, bool inner)
{
	if (inner)
		f->inner_tos = tos;
	else
		f->tos = tos;
}

WIRE_INLINE int wire_parse_ipv4(
	struct wire_cursor *c, struct wire_frame *f, const struct wire_ports *ports, bool inner)
{
	const struct wire_ipv4 *ip;
	__u32 start = wire_offset(c), header_len, total_len;

	wire_note_l3(f, L3_IPV4, start, inner);
	ip = wire_take(c, sizeof(*ip));
	if (!ip)
		return wire_done(f, WIRE_TRUNCATED);
	wire_note_tos(f, ip->tos, inner);
	header_len = (ip->version_ihl & 0x0f) * 4;
	total_len = WIRE_NTOHS(ip->total_len);
	if (ip->version_ihl >> 4 != 4 || header_len < sizeof(*ip) ||
		(total_len && total_len < header_len)) /* 0: more than fits the field, BIG TCP */
		return wire_done(f, WIRE_MALFORMED);
	if (ip->frag & WIRE_HTONS(0x3fff))
		return wire_done(f, WIRE_FRAGMENT);
	if (!wire_take(c, header_len - sizeof(*ip)))
		return wire_done(f, WIRE_TRUNCATED);
	wire_map_ipv4(f->key.src, ip->src);
	wire_map_ipv4(f->key.dst, ip->dst);
	return wire_parse_transport(
		c, f, ip->protocol, total_len ? start + total_len : 0, ports, inner);
}

/* An extension header that may stand before the transport (RFC 8200). */
WIRE_INLINE bool wire_is_ipv6_header(__u8 next)
{
	return next == IPV6_HOP_BY_HOP || next == IPV6_ROUTING || next == IPV6_FRAGMENT ||
	       next == IPV6_DESTINATION;
}

/*
 * Walk the extension headers from *next on, which becomes the transport. Returns a kind that ends
 * the walk, or WIRE_OTHER to go on.
 */
WIRE_INLINE int wire_skip_ipv6_headers(struct wire_cursor *c, __u8 *next)
{
	const __u8 *header;
	int i;

	for (i = 0; i < IPV6_HEADERS_MAX && wire_is_ipv6_header(*next); i++) {
		bool fragment = *next == IPV6_FRAGMENT;

		header = wire_take(c, 8);
		if (!header)
			return WIRE_TRUNCATED;
		if (fragment && (header[2] || (header[3] & ~0x06))) /* offset or M: not whole */
			return WIRE_FRAGMENT;
		if (!fragment && !wire_take(c, header[1] * 8))
			return WIRE_TRUNCATED;
		*next = header[0];
	}
	return wire_is_ipv6_header(*next) ? WIRE_TOO_MANY_HEADERS : WIRE_OTHER;
}

/* IPv6 and the GRH are one header with two meanings of what follows. */
WIRE_INLINE int wire_parse_ipv6(struct wire_cursor *c, struct wire_frame *f, enum wire_l3 l3,
	const struct wire_ports *ports, bool inner)
{
	const struct wire_ipv6 *ip;
	__u32 first, end;
	__u8 next;
	int i;

	wire_note_l3(f, l3, wire_offset(c), inner);
	ip = wire_take(c, sizeof(*ip));
	if (!ip)
		return wire_done(f, WIRE_TRUNCATED);
	first = WIRE_NTOHL(ip->version_class_flow);
	wire_note_tos(f, first >> 20, inner);
	if (first >> 28 != 6)
		return wire_done(f, WIRE_MALFORMED);
	for (i = 0; i < 4; i++) {
		f->key.src[i] = ip->src[i];
		f->key.dst[i] = ip->dst[i];
	}
	end = ip->payload_len ? wire_offset(c) + WIRE_NTOHS(ip->payload_len) : 0;
	next = ip->next_header;
	if (l3 == L3_GRH) {
		if (next != GRH_NEXT_BTH)
			return wire_done(f, WIRE_MALFORMED);
		f->l4_off = wire_offset(c);
		return wire_parse_bth(c, f, end);
	}
	if (wire_is_ipv6_header(next)) {
		f->rest_next = next;
		f->rest_end = end;
		return wire_leave(c, f, REST_IPV6_HEADERS);
	}
	return wire_parse_transport(c, f, next, end, ports, inner);
}

WIRE_INLINE bool wire_is_tag(__be16 type)
{
	return type == WIRE_HTONS(ETHERTYPE_VLAN) || type == WIRE_HTONS(ETHERTYPE_QINQ) ||
	       type == WIRE_HTONS(ETHERTYPE_QINQ_OLD);
}

/* The layers that an ethertype names. */
WIRE_INLINE int wire_parse_type(struct wire_cursor *c, struct wire_frame *f, __be16 type,
	const struct wire_ports *ports, bool inner)
{
	if (type == WIRE_HTONS(ETHERTYPE_IPV4))
		return wire_parse_ipv4(c, f, ports, inner);
	if (type == WIRE_HTONS(ETHERTYPE_IPV6))
		return wire_parse_ipv6(c, f, L3_IPV6, ports, inner);
	if (type == WIRE_HTONS(ETHERTYPE_ROCE_V1))
		return wire_parse_ipv6(c, f, L3_GRH, ports, inner);
	if (type == WIRE_HTONS(ETHERTYPE_MACSEC))
		return wire_done(f, WIRE_MACSEC);
	return wire_done(f, wire_is_tag(type) ? WIRE_TOO_MANY_TAGS : WIRE_OTHER);
}

/* Past the tags that are there; false when one is cut short. *type becomes what follows. */
WIRE_INLINE bool wire_take_tags(struct wire_cursor *c, __u8 *tags, __u8 *pcp, __be16 *type)
{
	const struct wire_vlan *tag;
	int i;

	for (i = 0; i < WIRE_TAGS_MAX && wire_is_tag(*type); i++) {
		tag = wire_take(c, sizeof(*tag));
		if (!tag)
			return false;
		if (!*tags)
			*pcp = WIRE_NTOHS(tag->tci) >> 13;
		(*tags)++;
		*type = tag->type;
	}
	return true;
}

/* The first pass, over what most frames are. */
WIRE_INLINE int wire_parse_first(
	struct wire_cursor *c, const struct wire_ports *ports, struct wire_frame *f)
{
	const struct wire_eth *eth = wire_take(c, sizeof(*eth));
	__be16 type;

	if (!eth)
		return wire_done(f, WIRE_TRUNCATED);
	type = eth->type;
	if (!wire_take_tags(c, &f->tags, &f->pcp, &type))
		return wire_done(f, WIRE_TRUNCATED);
	if (f->tags > WIRE_TAGS_MAX)
		return wire_done(f, WIRE_TOO_MANY_TAGS);
	if (type == WIRE_HTONS(ETHERTYPE_MAC_CONTROL) && !f->tags)
		return wire_parse_mac_control(c, eth, f);
	return wire_parse_type(c, f, type, ports, false);
}

/* A frame in a tunnel: its tags are its own, and no tunnel in it is entered. */
WIRE_INLINE int wire_parse_inner(
	struct wire_cursor *c, const struct wire_ports *ports, struct wire_frame *f)
{
	__be16 type = f->rest_type;
	const struct wire_eth *eth;
	__u8 tags = 0, pcp;

	if (type == WIRE_HTONS(ETHERTYPE_BRIDGED)) {
		eth = wire_take(c, sizeof(*eth));
		if (!eth)
			return wire_done(f, WIRE_TRUNCATED);
		type = eth->type;
		if (!wire_take_tags(c, &tags, &pcp, &type))
			return wire_done(f, WIRE_TRUNCATED);
	}
	return wire_parse_type(c, f, type, ports, true);
}

WIRE_INLINE int wire_parse_ipv6_headers(
	struct wire_cursor *c, const struct wire_ports *ports, struct wire_frame *f)
{
	__u8 next = f->rest_next;
	int kind = wire_skip_ipv6_headers(c, &next);

	if (kind != WIRE_OTHER)
		return wire_done(f, kind);
	if (f->tunnel)
		return wire_parse_transport(c, f, next, f->rest_end, ports, true);
	return wire_parse_transport(c, f, next, f->rest_end, ports, false);
}

/* A further pass over what one before has left, from a cursor at f->rest_off. */
WIRE_INLINE int wire_parse_rest(
	struct wire_cursor *c, const struct wire_ports *ports, struct wire_frame *f)
{
	__u8 rest = f->rest;

	f->rest = REST_NONE;
	switch (rest) {
	case REST_IPV6_HEADERS:
		return wire_parse_ipv6_headers(c, ports, f);
	case REST_VXLAN:
		return wire_enter_vxlan(c, f);
	case REST_GENEVE:
		return wire_enter_geneve(c, f);
	case REST_GRE:
		return wire_enter_gre(c, f);
	case REST_INNER:
		return wire_parse_inner(c, ports, f);
	}
	return f->kind;
}

/*
 * Say what the frame between data and end is. *f must be zeroed but for pcp and tags, which carry
 * a tag that the hook was given apart from the bytes (skb->vlan_tci), or WIRE_PCP_NONE and 0.
 * Fills *f as far as the frame makes sense and returns f->kind. Reads nothing outside the frame,
 * changes nothing, never fails: what it does not understand is a kind of its own. The BPF programs
 * make the same passes one by one.
 */
WIRE_INLINE int wire_parse_ports(
	const void *data, const void *end, const struct wire_ports *ports, struct wire_frame *f)
{
	struct wire_cursor c = wire_cursor(data, end, 0);
	int i;

	wire_parse_first(&c, ports, f);
	for (i = 0; i < WIRE_PASSES_MAX && f->rest; i++) {
		c = wire_cursor(data, end, f->rest_off);
		wire_parse_rest(&c, ports, f);
	}
	return f->kind;
}

/* With the ports that standards give. */
WIRE_INLINE int wire_parse(const void *data, const void *end, struct wire_frame *f)
{
	static const struct wire_ports ports = WIRE_PORTS_DEFAULT;

	return wire_parse_ports(data, end, &ports, f);
}

/* A frame description as wire_parse wants it, for a frame whose tags are all in its bytes. */
WIRE_INLINE void wire_frame_init(struct wire_frame *f)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->pcp = WIRE_PCP_NONE;
}

/* How far psn is ahead of from on the 24-bit circle: negative when it is behind. */
WIRE_INLINE __s32 wire_psn_ahead(__u32 psn, __u32 from)
{
	return (__s32)((psn - from) << 8) >> 8;
}

#endif
