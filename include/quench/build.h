/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writers: the frames that quench makes (CNP, PFC), and the checksums they carry. Same rule as
 * wire.h: the BPF programs, the agent and the tests compile this one code.
 */
#ifndef QUENCH_BUILD_H
#define QUENCH_BUILD_H

#include "quench/wire.h"

enum {
	CNP_IPV4_BYTES =
		IPV4_MIN_BYTES + UDP_HEADER_BYTES + BTH_BYTES + CNP_PAYLOAD_BYTES + ICRC_BYTES,
	CNP_IPV6_BYTES =
		IPV6_HEADER_BYTES + UDP_HEADER_BYTES + BTH_BYTES + CNP_PAYLOAD_BYTES + ICRC_BYTES,
	CNP_TTL = 64,
};

/* The register of CRC-32 (reflected 0xedb88320) after the eight 0xff bytes that stand for the LRH.
 */
#define ICRC_SEED 0xdebb20e3u

/* One byte more through the CRC-32 of Ethernet. Not complemented at either end. */
WIRE_INLINE __u32 wire_crc32_byte(__u32 crc, __u8 byte)
{
	static const __u32 table[256] = {
		0x00000000,
		0x77073096,
		0xee0e612c,
		0x990951ba,
		0x076dc419,
		0x706af48f,
		0xe963a535,
		0x9e6495a3,
		0x0edb8832,
		0x79dcb8a4,
		0xe0d5e91e,
		0x97d2d988,
		0x09b64c2b,
		0x7eb17cbd,
		0xe7b82d07,
		0x90bf1d91,
		0x1db71064,
		0x6ab020f2,
		0xf3b97148,
		0x84be41de,
		0x1adad47d,
		0x6ddde4eb,
		0xf4d4b551,
		0x83d385c7,
		0x136c9856,
		0x646ba8c0,
		0xfd62f97a,
		0x8a65c9ec,
		0x14015c4f,
		0x63066cd9,
		0xfa0f3d63,
		0x8d080df5,
		0x3b6e20c8,
		0x4c69105e,
		0xd56041e4,
		0xa2677172,
		0x3c03e4d1,
		0x4b04d447,
		0xd20d85fd,
		0xa50ab56b,
		0x35b5a8fa,
		0x42b2986c,
		0xdbbbc9d6,
		0xacbcf940,
		0x32d86ce3,
		0x45df5c75,
		0xdcd60dcf,
		0xabd13d59,
		0x26d930ac,
		0x51de003a,
		0xc8d75180,
		0xbfd06116,
		0x21b4f4b5,
		0x56b3c423,
		0xcfba9599,
		0xb8bda50f,
		0x2802b89e,
		0x5f058808,
		0xc60cd9b2,
		0xb10be924,
		0x2f6f7c87,
		0x58684c11,
		0xc1611dab,
		0xb6662d3d,
		0x76dc4190,
		0x01db7106,
		0x98d220bc,
		0xefd5102a,
		0x71b18589,
		0x06b6b51f,
		0x9fbfe4a5,
		0xe8b8d433,
		0x7807c9a2,
		0x0f00f934,
		0x9609a88e,
		0xe10e9818,
		0x7f6a0dbb,
		0x086d3d2d,
		0x91646c97,
		0xe6635c01,
		0x6b6b51f4,
		0x1c6c6162,
		0x856530d8,
		0xf262004e,
		0x6c0695ed,
		0x1b01a57b,
		0x8208f4c1,
		0xf50fc457,
		0x65b0d9c6,
		0x12b7e950,
		0x8bbeb8ea,
		0xfcb9887c,
		0x62dd1ddf,
		0x15da2d49,
		0x8cd37cf3,
		0xfbd44c65,
		0x4db26158,
		0x3ab551ce,
		0xa3bc0074,
		0xd4bb30e2,
		0x4adfa541,
		0x3dd895d7,
		0xa4d1c46d,
		0xd3d6f4fb,
		0x4369e96a,
		0x346ed9fc,
		0xad678846,
		0xda60b8d0,
		0x44042d73,
		0x33031de5,
		0xaa0a4c5f,
		0xdd0d7cc9,
		0x5005713c,
		0x270241aa,
		0xbe0b1010,
		0xc90c2086,
		0x5768b525,
		0x206f85b3,
		0xb966d409,
		0xce61e49f,
		0x5edef90e,
		0x29d9c998,
		0xb0d09822,
		0xc7d7a8b4,
		0x59b33d17,
		0x2eb40d81,
		0xb7bd5c3b,
		0xc0ba6cad,
		0xedb88320,
		0x9abfb3b6,
		0x03b6e20c,
		0x74b1d29a,
		0xead54739,
		0x9dd277af,
		0x04db2615,
		0x73dc1683,
		0xe3630b12,
		0x94643b84,
		0x0d6d6a3e,
		0x7a6a5aa8,
		0xe40ecf0b,
		0x9309ff9d,
		0x0a00ae27,
		0x7d079eb1,
		0xf00f9344,
		0x8708a3d2,
		0x1e01f268,
		0x6906c2fe,
		0xf762575d,
		0x806567cb,
		0x196c3671,
		0x6e6b06e7,
		0xfed41b76,
		0x89d32be0,
		0x10da7a5a,
		0x67dd4acc,
		0xf9b9df6f,
		0x8ebeeff9,
		0x17b7be43,
		0x60b08ed5,
		0xd6d6a3e8,
		0xa1d1937e,
		0x38d8c2c4,
		0x4fdff252,
		0xd1bb67f1,
		0xa6bc5767,
		0x3fb506dd,
		0x48b2364b,
		0xd80d2bda,
		0xaf0a1b4c,
		0x36034af6,
		0x41047a60,
		0xdf60efc3,
		0xa867df55,
		0x316e8eef,
		0x4669be79,
		0xcb61b38c,
		0xbc66831a,
		0x256fd2a0,
		0x5268e236,
		0xcc0c7795,
		0xbb0b4703,
		0x220216b9,
		0x5505262f,
		0xc5ba3bbe,
		0xb2bd0b28,
		0x2bb45a92,
		0x5cb36a04,
		0xc2d7ffa7,
		0xb5d0cf31,
		0x2cd99e8b,
		0x5bdeae1d,
		0x9b64c2b0,
		0xec63f226,
		0x756aa39c,
		0x026d930a,
		0x9c0906a9,
		0xeb0e363f,
		0x72076785,
		0x05005713,
		0x95bf4a82,
		0xe2b87a14,
		0x7bb12bae,
		0x0cb61b38,
		0x92d28e9b,
		0xe5d5be0d,
		0x7cdcefb7,
		0x0bdbdf21,
		0x86d3d2d4,
		0xf1d4e242,
		0x68ddb3f8,
		0x1fda836e,
		0x81be16cd,
		0xf6b9265b,
		0x6fb077e1,
		0x18b74777,
		0x88085ae6,
		0xff0f6a70,
		0x66063bca,
		0x11010b5c,
		0x8f659eff,
		0xf862ae69,
		0x616bffd3,
		0x166ccf45,
		0xa00ae278,
		0xd70dd2ee,
		0x4e048354,
		0x3903b3c2,
		0xa7672661,
		0xd06016f7,
		0x4969474d,
		0x3e6e77db,
		0xaed16a4a,
		0xd9d65adc,
		0x40df0b66,
		0x37d83bf0,
		0xa9bcae53,
		0xdebb9ec5,
		0x47b2cf7f,
		0x30b5ffe9,
		0xbdbdf21c,
		0xcabac28a,
		0x53b39330,
		0x24b4a3a6,
		0xbad03605,
		0xcdd70693,
		0x54de5729,
		0x23d967bf,
		0xb3667a2e,
		0xc4614ab8,
		0x5d681b02,
		0x2a6f2b94,
		0xb40bbe37,
		0xc30c8ea1,
		0x5a05df1b,
		0x2d02ef8d,
	};

	return table[(crc ^ byte) & 0xff] ^ crc >> 8;
}

/*
 * The byte at offset i of an IP packet (or GRH) as the ICRC sees it: fields that may change on the
 * way read as ones (IBTA annex 17). l4 and bth are the offsets of the UDP header and of the BTH.
 */
WIRE_INLINE __u8 wire_icrc_byte(enum wire_l3 l3, __u32 l4, __u32 bth, __u32 i, __u8 byte)
{
	if (i == bth + 4) /* FECN, BECN, reserved */
		return 0xff;
	if (l3 == L3_IPV4) {
		if (i == 1 || i == 8 || i == 10 || i == 11) /* TOS, TTL, checksum */
			return 0xff;
	} else {
		if (i == 0) /* version stays, traffic class does not */
			return byte | 0x0f;
		if (i < 4 || i == 7) /* traffic class, flow label, hop limit */
			return 0xff;
	}
	if (l3 != L3_GRH && (i == l4 + 6 || i == l4 + 7)) /* UDP checksum */
		return 0xff;
	return byte;
}

/*
 * ICRC of the len bytes at packet (IP header or GRH up to, not including, the ICRC). Its bytes go
 * onto the wire least significant first.
 */
WIRE_INLINE __u32 wire_icrc_packet(
	const __u8 *packet, enum wire_l3 l3, __u32 l4, __u32 bth, __u32 len)
{
	__u32 crc = ICRC_SEED, i;

	for (i = 0; i < len; i++) {
		WIRE_OPAQUE(i); /* clang peels it else, and Linux 6.1 takes no loop entered in its
				   middle */
		crc = wire_crc32_byte(crc, wire_icrc_byte(l3, l4, bth, i, packet[i]));
	}
	return ~crc;
}

/* The ICRC that a parsed frame of a RoCE kind should carry; it must be whole, up to icrc_off. */
WIRE_INLINE __u32 wire_icrc(const __u8 *frame, const struct wire_frame *f)
{
	__u16 l3_off = wire_roce_l3_off(f);

	return wire_icrc_packet(frame + l3_off, (enum wire_l3)wire_roce_l3(f), f->l4_off - l3_off,
		f->bth_off - l3_off, f->icrc_off - l3_off);
}

/* Checksum of an IPv4 header without options whose check field is 0, as stored (RFC 791). */
WIRE_INLINE __be16 wire_ipv4_check(const struct wire_ipv4 *ip)
{
	const __u16 *word = (const __u16 *)ip;
	__u32 sum = 0, i;

	for (i = 0; i < IPV4_MIN_BYTES / 2; i++)
		sum += word[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)~sum;
}

/*
 * The sum over the pseudo header that belongs in the checksum field of a UDP datagram of len bytes
 * whose checksum somebody is still to complete (RFC 768, RFC 8200 8.1). In and out as stored.
 */
WIRE_INLINE __be16 wire_udp_pseudo_sum(const struct flow_key *key, __u16 len)
{
	__u32 sum = WIRE_HTONS(len) + WIRE_HTONS(IP_PROTO_UDP), i;

	/* the 0xffff that marks a mapped IPv4 address is 0 in ones' complement */
	for (i = 0; i < 4; i++) {
		sum += (key->src[i] & 0xffff) + (key->src[i] >> 16);
		sum += (key->dst[i] & 0xffff) + (key->dst[i] >> 16);
	}
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)((sum & 0xffff) + (sum >> 16));
}

/* Whose CNP: everything as it stands in the CE-marked data frame, but for peer_qpn and tos. */
struct cnp_request {
	struct flow_key key; /* of the data frame: the CNP goes from key.dst to key.src */
	__u32 peer_qpn;	     /* the data sender's QP */
	__be16 udp_src;
	__be16 udp_dst;	  /* RoCEv2's port */
	__be16 udp_check; /* 0, but where somebody is still to complete it */
	__u16 pkey;
	__u8 tos;
};

WIRE_INLINE void wire_build_cnp_tail(
	struct wire_udp *udp, struct wire_bth *bth, const struct cnp_request *r)
{
	udp->src = r->udp_src;
	udp->dst = r->udp_dst;
	udp->len = WIRE_HTONS(CNP_IPV4_BYTES - IPV4_MIN_BYTES);
	udp->check = r->udp_check; /* the ICRC does not cover it */
	bth->opcode = OP_CNP;
	bth->flags = 0;
	bth->pkey = WIRE_HTONS(r->pkey);
	bth->ecn_dqpn = WIRE_HTONL((__u32)BTH_BECN << 24 | r->peer_qpn);
	bth->ack_psn = 0;
}

/*
 * Write a CNP, from the IP header through the ICRC, into packet: CNP_IPV4_BYTES of it, aligned to
 * 4, zeroed by the caller. Layout: IBTA annex 17.9.3; UDP checksum 0, DF, id 0.
 */
WIRE_INLINE void wire_build_cnp_ipv4(__u8 packet[CNP_IPV4_BYTES], const struct cnp_request *r)
{
	enum {
		L4 = IPV4_MIN_BYTES,
		BTH = L4 + UDP_HEADER_BYTES,
		END = CNP_IPV4_BYTES - ICRC_BYTES
	};
	struct wire_ipv4 *ip = (struct wire_ipv4 *)packet;
	__u32 icrc;

	ip->version_ihl = 0x45;
	ip->tos = r->tos;
	ip->total_len = WIRE_HTONS(CNP_IPV4_BYTES);
	ip->frag = WIRE_HTONS(0x4000);
	ip->ttl = CNP_TTL;
	ip->protocol = IP_PROTO_UDP;
	ip->src = r->key.dst[3];
	ip->dst = r->key.src[3];
	ip->check = wire_ipv4_check(ip);
	wire_build_cnp_tail((struct wire_udp *)(packet + L4), (struct wire_bth *)(packet + BTH), r);
	icrc = wire_icrc_packet(packet, L3_IPV4, L4, BTH, END);
	packet[END] = icrc;
	packet[END + 1] = icrc >> 8;
	packet[END + 2] = icrc >> 16;
	packet[END + 3] = icrc >> 24;
}

/* The same over IPv6: CNP_IPV6_BYTES. */
WIRE_INLINE void wire_build_cnp_ipv6(__u8 packet[CNP_IPV6_BYTES], const struct cnp_request *r)
{
	enum {
		L4 = IPV6_HEADER_BYTES,
		BTH = L4 + UDP_HEADER_BYTES,
		END = CNP_IPV6_BYTES - ICRC_BYTES
	};
	struct wire_ipv6 *ip = (struct wire_ipv6 *)packet;
	__u32 icrc, i;

	ip->version_class_flow = WIRE_HTONL(0x60000000u | (__u32)r->tos << 20);
	ip->payload_len = WIRE_HTONS(CNP_IPV6_BYTES - IPV6_HEADER_BYTES);
	ip->next_header = IP_PROTO_UDP;
	ip->hop_limit = CNP_TTL;
	for (i = 0; i < 4; i++) {
		ip->src[i] = r->key.dst[i];
		ip->dst[i] = r->key.src[i];
	}
	wire_build_cnp_tail((struct wire_udp *)(packet + L4), (struct wire_bth *)(packet + BTH), r);
	icrc = wire_icrc_packet(packet, L3_IPV6, L4, BTH, END);
	packet[END] = icrc;
	packet[END + 1] = icrc >> 8;
	packet[END + 2] = icrc >> 16;
	packet[END + 3] = icrc >> 24;
}

/*
 * Write a PFC frame (MAC_CONTROL_FRAME_BYTES, without the FCS) from the port with address src:
 * bit n of classes enables priority n, whose pause is quanta[n] times 512 bit times; 0 is XON
 * (802.1Qbb, 802.3 annex 31D).
 */
WIRE_INLINE void wire_build_pfc(
	__u8 frame[MAC_CONTROL_FRAME_BYTES], const __u8 src[6], __u8 classes, const __u16 quanta[8])
{
	struct wire_eth *eth = (struct wire_eth *)frame;
	struct wire_mac_control *m = (struct wire_mac_control *)(frame + ETH_HEADER_BYTES);
	__u32 i;

	__builtin_memset(frame, 0, MAC_CONTROL_FRAME_BYTES);
	eth->dst[0] = 0x01;
	eth->dst[1] = 0x80;
	eth->dst[2] = 0xc2;
	eth->dst[5] = 0x01;
	for (i = 0; i < 6; i++)
		eth->src[i] = src[i];
	eth->type = WIRE_HTONS(ETHERTYPE_MAC_CONTROL);
	m->opcode = WIRE_HTONS(MAC_CONTROL_PFC);
	m->classes = WIRE_HTONS(classes);
	for (i = 0; i < 8; i++)
		m->time[i] = classes >> i & 1 ? WIRE_HTONS(quanta[i]) : 0;
}

#endif
