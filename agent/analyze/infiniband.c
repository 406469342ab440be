// SPDX-License-Identifier: BSD-2-Clause
// The local route header of InfiniBand, and through it to the transport that RoCE shares.
#include "analyze/infiniband.h"

#include <arpa/inet.h>
#include <string.h>

enum {
	LNH_MASK = 0x03, /* which header comes next */
	LNH_LOCAL = 2,	 /* BTH */
	LNH_GLOBAL = 3,	 /* GRH, BTH */
	PACKET_WORDS_MASK = 0x07ff,
};

struct lrh {
	__u8 vl_version;
	__u8 sl_lnh;
	__be16 dlid;
	__be16 words; /* of 4 bytes, from here through the ICRC */
	__be16 slid;
};
WIRE_SIZE(lrh, LRH_BYTES);

/* "::LID:0:n", which no GID is: its upper half would be that of a link-local address, or a prefix.
 */
static void map_lid(__be32 addr[4], __be16 lid)
{
	addr[0] = 0;
	addr[1] = 0;
	addr[2] = htonl(0x4c494400);
	addr[3] = htonl(ntohs(lid));
}

bool infiniband_is_lid(const __be32 addr[4], __u16 *lid)
{
	*lid = ntohl(addr[3]);
	return !addr[0] && !addr[1] && addr[2] == htonl(0x4c494400);
}

/* What RoCE tells apart by QP and opcode is all one kind here. */
static int as_infiniband(struct wire_frame *f)
{
	if (wire_is_roce(f->kind) || f->kind == WIRE_CM || f->kind == WIRE_CNP)
		f->kind = WIRE_INFINIBAND;
	return f->kind;
}

int infiniband_parse(const void *data, const void *end, struct wire_frame *f)
{
	static const struct wire_ports ports = WIRE_PORTS_DEFAULT;
	struct wire_cursor c = wire_cursor(data, end, 0);
	const struct lrh *lrh = wire_take(&c, sizeof(*lrh));

	if (!lrh)
		return wire_done(f, WIRE_TRUNCATED);
	f->l3 = L3_LRH;
	map_lid(f->key.src, lrh->slid);
	map_lid(f->key.dst, lrh->dlid);
	switch (lrh->sl_lnh & LNH_MASK) {
	case LNH_LOCAL:
		f->l4_off = LRH_BYTES;
		wire_parse_bth(&c, f, (ntohs(lrh->words) & PACKET_WORDS_MASK) * 4);
		return as_infiniband(f);
	case LNH_GLOBAL:
		wire_parse_ipv6(&c, f, L3_GRH, &ports, false);
		return as_infiniband(f);
	}
	return wire_done(f, WIRE_INFINIBAND);
}
