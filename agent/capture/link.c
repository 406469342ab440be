// SPDX-License-Identifier: BSD-2-Clause
// Link types: one row each. What has no Ethernet header of its own gets one put in front.
#include "capture/link.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "quench/wire.h"

enum {
	SLL_HEADER_BYTES = 16,
	SLL2_HEADER_BYTES = 20,
	SLL_MULTICAST = 2, /* the packet type */
	SLL_ADDRESS_BYTES = 8,

	ERF_HEADER_BYTES = 16,
	ERF_EXTENSION_BYTES = 8,
	ERF_MORE = 0x80, /* another extension header follows */
	ERF_TYPE_MASK = 0x7f,
	ERF_ETHERNET_PAD_BYTES = 2,

	ETHERNET_ALIGN_BYTES = 2, /* the network header behind it is then aligned */
};

static void place(uint8_t *at, const uint8_t *from, uint32_t len, struct analyze_frame *frame)
{
	uint32_t dropped = frame->len - len;

	memcpy(at, from, len);
	frame->data = at;
	frame->wire_len = frame->wire_len > dropped ? frame->wire_len - dropped : 0;
	frame->len = len;
	if (frame->wire_len < len)
		frame->wire_len = len;
}

static void unwrap_ethernet(uint8_t *room, const uint8_t *record, struct analyze_frame *frame)
{
	frame->link = FRAME_ETHERNET;
	place(room + ETHERNET_ALIGN_BYTES, record, frame->len, frame);
}

static void unwrap_infiniband(uint8_t *room, const uint8_t *record, struct analyze_frame *frame)
{
	frame->link = FRAME_INFINIBAND;
	place(room, record, frame->len, frame);
}

/* The record does not hold what it should start with. */
static void unwrap_stub(uint8_t *room, const uint8_t *record, struct analyze_frame *frame)
{
	frame->link = FRAME_ETHERNET;
	place(room + ETHERNET_ALIGN_BYTES, record + frame->len, 0, frame);
}

/* What a Linux cooked header says, whichever version. */
struct cooked {
	uint32_t header_bytes;
	uint16_t hardware; /* ARPHRD_ */
	const uint8_t *protocol;
	const uint8_t *address; /* the sender's */
	uint8_t packet_type;
	uint8_t address_bytes;
};

/* Hardware types whose protocol field is an ethertype, by the types' list. */
static bool has_ethertype(uint16_t hardware)
{
	enum { IPGRE = 778, RADIOTAP = 803, FRAD = 770, NETLINK = 824 };

	return hardware != IPGRE && hardware != RADIOTAP && hardware != FRAD && hardware != NETLINK;
}

/* Of a multicast only the group is lost that it went to; MAC control has but one. */
static void rebuild_ethernet(struct wire_eth *eth, const struct cooked *c)
{
	static const uint8_t mac_control[] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};

	memset(eth, 0, sizeof(*eth));
	memcpy(&eth->type, c->protocol, sizeof(eth->type));
	if (c->address_bytes == sizeof(eth->src))
		memcpy(eth->src, c->address, sizeof(eth->src));
	if (c->packet_type == SLL_MULTICAST && eth->type == WIRE_HTONS(ETHERTYPE_MAC_CONTROL))
		memcpy(eth->dst, mac_control, sizeof(eth->dst));
}

static void unwrap_cooked(
	uint8_t *room, const uint8_t *record, const struct cooked *c, struct analyze_frame *frame)
{
	uint8_t *start = room + ETHERNET_ALIGN_BYTES;

	place(start + ETH_HEADER_BYTES, record + c->header_bytes, frame->len - c->header_bytes,
		frame);
	rebuild_ethernet((struct wire_eth *)start, c);
	frame->data = start;
	frame->len += ETH_HEADER_BYTES;
	frame->wire_len += ETH_HEADER_BYTES;
	frame->link = has_ethertype(c->hardware) ? FRAME_ETHERNET : FRAME_FOREIGN;
}

static void unwrap_sll(uint8_t *room, const uint8_t *record, struct analyze_frame *frame)
{
	if (frame->len < SLL_HEADER_BYTES) {
		unwrap_stub(room, record, frame);
		return;
	}
	unwrap_cooked(room, record,
		&(struct cooked){
			.header_bytes = SLL_HEADER_BYTES,
			.packet_type = record[1],
			.hardware = record[2] << 8 | record[3],
			.address_bytes = record[5],
			.address = record + 6,
			.protocol = record + 14,
		},
		frame);
}

static void unwrap_sll2(uint8_t *room, const uint8_t *record, struct analyze_frame *frame)
{
	if (frame->len < SLL2_HEADER_BYTES) {
		unwrap_stub(room, record, frame);
		return;
	}
	unwrap_cooked(room, record,
		&(struct cooked){
			.header_bytes = SLL2_HEADER_BYTES,
			.protocol = record,
			.hardware = record[8] << 8 | record[9],
			.packet_type = record[10],
			.address_bytes = record[11],
			.address = record + 12,
		},
		frame);
}

/* ERF record types (Endace's ERF types reference); what is not here is foreign. */
static const struct {
	uint8_t known;
	uint8_t link;
	uint8_t pad_bytes;
} erf_types[ERF_TYPE_MASK + 1] = {
	[2] = {1, FRAME_ETHERNET, ERF_ETHERNET_PAD_BYTES},
	[11] = {1, FRAME_ETHERNET, ERF_ETHERNET_PAD_BYTES},
	[16] = {1, FRAME_ETHERNET, ERF_ETHERNET_PAD_BYTES},
	[20] = {1, FRAME_ETHERNET, ERF_ETHERNET_PAD_BYTES},
	[21] = {1, FRAME_INFINIBAND, 0},
};

/* Where the frame starts in an ERF record, behind headers and pad; past its end when it has none.
 */
static uint32_t erf_start(const uint8_t *record, uint32_t len)
{
	uint32_t at = ERF_HEADER_BYTES;
	uint8_t more = record[8];

	while (more & ERF_MORE && at < len) {
		more = record[at];
		at += ERF_EXTENSION_BYTES;
	}
	return at + erf_types[record[8] & ERF_TYPE_MASK].pad_bytes;
}

static void unwrap_erf(uint8_t *room, const uint8_t *record, struct analyze_frame *frame)
{
	uint8_t type = frame->len > 8 ? record[8] & ERF_TYPE_MASK : 0;
	uint32_t start;

	if (frame->len < ERF_HEADER_BYTES || (start = erf_start(record, frame->len)) > frame->len) {
		unwrap_stub(room, record, frame);
		return;
	}
	frame->link = erf_types[type].known ? erf_types[type].link : FRAME_FOREIGN;
	place(room + (frame->link == FRAME_ETHERNET ? ETHERNET_ALIGN_BYTES : 0), record + start,
		frame->len - start, frame);
}

static const struct link_type types[] = {
	{1, "Ethernet", unwrap_ethernet},
	{113, "Linux cooked (SLL)", unwrap_sll},
	{276, "Linux cooked v2 (SLL2)", unwrap_sll2},
	{197, "ERF", unwrap_erf},
	{247, "InfiniBand", unwrap_infiniband},
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

const struct link_type *link_find(int number)
{
	for (size_t i = 0; i < TYPES; i++)
		if (types[i].number == number)
			return &types[i];
	return NULL;
}

void link_names(char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < TYPES && used < size; i++)
		used += snprintf(buf + used, size - used, "%s%s",
			!i		? ""
			: i + 1 < TYPES ? ", "
					: " and ",
			types[i].name);
}

void link_unwrap(const struct link_type *type, uint8_t *room, const uint8_t *record,
	struct analyze_frame *frame)
{
	if (frame->len > LINK_RECORD_BYTES_MAX)
		frame->len = LINK_RECORD_BYTES_MAX;
	if (frame->wire_len < frame->len)
		frame->wire_len = frame->len;
	type->unwrap(room, record, frame);
}
