/* SPDX-License-Identifier: BSD-2-Clause */
/* For the tests that run the BPF programs on frames: a fresh skeleton a test, frames, counters. */
#ifndef QUENCH_TESTS_PROG_H
#define QUENCH_TESTS_PROG_H

#include "vectors/vectors.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "quench/abi.h"
#include "quench/build.h"

/* linux/bpf.h and linux/pkt_cls.h, whose other names clash with those of the C library. */
enum { ACT_NEXT = -1, ACT_OK = 0, ACT_SHOT = 2 };

enum {
	LOOPBACK = 1,	     /* ifindex of lo: where the kernel says that the frames are */
	FRAME_ROOM = 9216,   /* bytes of a frame that a test makes */
	OUTER_TCI = 0x6001,  /* PCP 3, VID 1 */
	INNER_TCI = 0x6002,  /* PCP 3, VID 2 */
	RUN_FRAME_MAX = 3600 /* what BPF_PROG_RUN takes for an skb: one page with its own needs */
};

static inline int refuse_without_root(const char *what)
{
	if (!geteuid())
		return 0;
	fprintf(stderr, "%s: BPF programs are loaded and run here: be root\n", what);
	return 1;
}

/* Leave the machine's interfaces alone: lo of a namespace of our own, up. */
static inline int enter_own_network(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd, failed;

	if (unshare(CLONE_NEWNET))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		return -1;
	failed = ioctl(fd, SIOCSIFFLAGS, &lo);
	close(fd);
	return failed;
}

static inline void shell(const char *command)
{
	if (system(command))
		fail_msg("failed: %s", command);
}

/* A frame to be made; what is 0 or not named gets the values of frame_make. */
struct frame_spec {
	enum wire_l3 l3;   /* L3_NONE: IPv4 */
	__u8 tags;	   /* in the bytes; the outer one's PCP is 3 */
	__u8 option_words; /* IPv4 */
	__u8 tos;
	__u8 opcode;
	__u8 syndrome; /* of an ACK */
	__u16 pkey;
	__u16 sport;
	__u16 ip_id;
	__u16 udp_check; /* as it lies on the wire, read big-endian */
	__u32 qpn;
	__u32 psn;
	__u32 payload_bytes; /* behind the BTH, an AETH included */
};

struct frame {
	__u8 room[FRAME_ROOM] __attribute__((aligned(8)));
	__u8 *data; /* room + ALIGN_BYTES */
	size_t len;
	size_t l3_off, l4_off, bth_off, icrc_off;
};

static const __u8 sender_mac[6] = {2, 0, 0, 0, 0, 1}, receiver_mac[6] = {2, 0, 0, 0, 0, 2};
/* 192.0.2.1 and .2; 2001:db8::1 and ::2 */
static const __u8 sender_ipv4[4] = {192, 0, 2, 1}, receiver_ipv4[4] = {192, 0, 2, 2};
static const __u8 sender_ipv6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
static const __u8 receiver_ipv6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 2};

enum { QPN_RECEIVER = 0x112233, QPN_SENDER = 0x001122, SPORT = 0xd00d };

/* RFC 1071 over any header, its check field included; 0 when that is right. */
static inline __u16 header_sum(const __u8 *header, size_t bytes)
{
	__u32 sum = 0;
	size_t i;

	for (i = 0; i < bytes; i += 2)
		sum += header[i] << 8 | header[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static inline void frame_put16(__u8 *at, __u16 value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static inline void frame_put_ipv4(struct frame *f, const struct frame_spec *s, __u32 l4_bytes)
{
	__u8 *ip = f->data + f->l3_off;
	size_t header = IPV4_MIN_BYTES + 4 * s->option_words;

	memset(ip, 1, header); /* options: no operation */
	ip[0] = 0x40 | header / 4;
	ip[1] = s->tos;
	frame_put16(ip + 2, header + l4_bytes);
	frame_put16(ip + 4, s->ip_id);
	frame_put16(ip + 6, 0x4000);
	ip[8] = 63;
	ip[9] = IP_PROTO_UDP;
	frame_put16(ip + 10, 0);
	memcpy(ip + 12, sender_ipv4, 4);
	memcpy(ip + 16, receiver_ipv4, 4);
	frame_put16(ip + 10, header_sum(ip, header));
	f->l4_off = f->l3_off + header;
}

static inline void frame_put_ipv6(struct frame *f, const struct frame_spec *s, __u32 l4_bytes)
{
	__u8 *ip = f->data + f->l3_off;

	ip[0] = 0x60 | s->tos >> 4;
	ip[1] = s->tos << 4 | 0x0a;
	ip[2] = 0xbc;
	ip[3] = 0xde;
	frame_put16(ip + 4, l4_bytes);
	ip[6] = s->l3 == L3_GRH ? GRH_NEXT_BTH : IP_PROTO_UDP;
	ip[7] = 63;
	memcpy(ip + 8, sender_ipv6, 16);
	memcpy(ip + 24, receiver_ipv6, 16);
	f->l4_off = f->l3_off + IPV6_HEADER_BYTES;
}

static inline void frame_put_ethernet(struct frame *f, const struct frame_spec *s)
{
	__u8 *at = f->data + 12;
	int i;

	memcpy(f->data, receiver_mac, 6);
	memcpy(f->data + 6, sender_mac, 6);
	for (i = 0; i < s->tags; i++, at += VLAN_TAG_BYTES) {
		frame_put16(at, i + 1 < s->tags ? ETHERTYPE_QINQ : ETHERTYPE_VLAN);
		frame_put16(at + 2, i ? INNER_TCI : OUTER_TCI);
	}
	frame_put16(at, s->l3 == L3_IPV6  ? ETHERTYPE_IPV6
			: s->l3 == L3_GRH ? ETHERTYPE_ROCE_V1
					  : ETHERTYPE_IPV4);
	f->l3_off = at + 2 - f->data;
}

static inline void frame_put_bth(struct frame *f, const struct frame_spec *s)
{
	__u8 *bth = f->data + f->bth_off;
	__u32 qpn = s->qpn ? s->qpn : QPN_RECEIVER, i;

	bth[0] = s->opcode;
	bth[1] = 0x40; /* MigReq */
	frame_put16(bth + 2, s->pkey ? s->pkey : 0xffff);
	bth[4] = 0;
	bth[5] = qpn >> 16;
	frame_put16(bth + 6, qpn);
	bth[8] = 0x80;
	bth[9] = s->psn >> 16;
	frame_put16(bth + 10, s->psn);
	for (i = 0; i < s->payload_bytes; i++)
		bth[BTH_BYTES + i] = i * 7 + 3;
	if (s->opcode == OP_RC_ACK)
		bth[BTH_BYTES] = s->syndrome;
}

/*
 * Make the frame from the sender to the receiver. Written byte by byte, without the layouts of
 * wire.h; only the ICRC comes from build.h, which test_vectors.c judges.
 */
static inline void frame_make(struct frame *f, struct frame_spec s)
{
	__u32 l4_bytes;
	struct wire_frame w;
	__u32 icrc;

	if (s.opcode == OP_RC_ACK && s.payload_bytes < AETH_BYTES)
		s.payload_bytes = AETH_BYTES;
	l4_bytes =
		(s.l3 == L3_GRH ? 0 : UDP_HEADER_BYTES) + BTH_BYTES + s.payload_bytes + ICRC_BYTES;
	memset(f, 0, sizeof(*f));
	f->data = f->room + ALIGN_BYTES;
	frame_put_ethernet(f, &s);
	if (s.l3 == L3_IPV6 || s.l3 == L3_GRH)
		frame_put_ipv6(f, &s, l4_bytes);
	else
		frame_put_ipv4(f, &s, l4_bytes);
	f->bth_off = f->l4_off;
	if (s.l3 != L3_GRH) {
		frame_put16(f->data + f->l4_off, s.sport ? s.sport : SPORT);
		frame_put16(f->data + f->l4_off + 2, ROCE_V2_UDP_PORT);
		frame_put16(f->data + f->l4_off + 4, l4_bytes);
		frame_put16(f->data + f->l4_off + 6, s.udp_check);
		f->bth_off += UDP_HEADER_BYTES;
	}
	frame_put_bth(f, &s);
	f->icrc_off = f->bth_off + BTH_BYTES + s.payload_bytes;
	f->len = f->icrc_off + ICRC_BYTES;
	w = parse(f->data, f->len);
	assert_int_equal(w.icrc_off, f->icrc_off);
	icrc = wire_icrc(f->data, &w);
	memcpy(f->data + f->icrc_off, &(__u32){__builtin_bswap32(htonl(icrc))}, ICRC_BYTES);
}

static inline struct flow_key frame_key(const struct frame *f)
{
	return parse(f->data, f->len).key;
}

static inline void map_put(const struct bpf_map *map, const void *key, const void *value)
{
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY), 0);
}

/* A slot's counters, summed over the CPUs. */
static inline struct port_stats stats_sum(const struct bpf_map *map, __u32 slot)
{
	int cpus = libbpf_num_possible_cpus(), cpu;
	struct port_stats *each = calloc(cpus, sizeof(*each)), sum = {0};
	size_t i;

	assert_non_null(each);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(map), &slot, each), 0);
	for (cpu = 0; cpu < cpus; cpu++)
		for (i = 0; i < sizeof(sum) / sizeof(__u64); i++)
			((__u64 *)&sum)[i] += ((__u64 *)&each[cpu])[i];
	free(each);
	return sum;
}

/* Each of a port's counters, so that one that moved without reason is named. */
static inline void stats_assert_equal(
	const char *what, const struct port_stats *have, const struct port_stats *want)
{
	const __u64 *h = (const __u64 *)have, *w = (const __u64 *)want;
	size_t i;

	for (i = 0; i < sizeof(*have) / sizeof(__u64); i++)
		if (h[i] != w[i])
			fail_msg("%s: counter at byte %zu of struct port_stats is %llu, not %llu",
				what, i * sizeof(__u64), h[i], w[i]);
}

#endif
