// SPDX-License-Identifier: BSD-2-Clause
// iWARP connections: learned from MPA's start frames or ports, their FPDUs counted by opcode.
#include "analyze/iwarp.h"

enum { TCP_SEQ_OFFSET = 4 };

const char *iwarp_opcode_name(uint32_t opcode)
{
	static const char *const names[RDMAP_OPCODE_COUNT] = {
#define X(number, name, is_tagged) [number] = name,
		RDMAP_OPCODES(X)
#undef X
	};

	return names[opcode];
}

static bool has_port(const struct analyze *a, uint32_t ports)
{
	uint16_t src = ports >> 16, dst = ports;

	for (int i = 0; i < IWARP_PORTS_MAX && a->iwarp_ports[i]; i++)
		if (a->iwarp_ports[i] == src || a->iwarp_ports[i] == dst)
			return true;
	return false;
}

bool iwarp_is(const struct analyze *a, const struct wire_frame *f)
{
	return has_port(a, f->key.dst_qpn) || (a->iwarp.count && table_find(&a->iwarp, &f->key));
}

/* A segment's payload: what pads a short frame is none of it, and the capture may have cut it. */
struct segment {
	const uint8_t *payload;
	uint32_t bytes;
	uint32_t seq; /* of its first byte */
};

static uint32_t ip_end(const struct analyze_frame *frame, const struct wire_frame *f)
{
	const uint8_t *ip = frame->data + f->l3_off;
	uint32_t length = f->l3 == L3_IPV4 ? wire_be16_at(ip + 2) : wire_be16_at(ip + 4);
	uint32_t end = f->l3_off + length + (f->l3 == L3_IPV4 ? 0 : IPV6_HEADER_BYTES);

	return length && end < frame->len ? end : frame->len; /* 0: more than fits, BIG TCP */
}

static struct segment segment_of(const struct analyze_frame *frame, const struct wire_frame *f)
{
	uint32_t end = ip_end(frame, f);

	return (struct segment){
		.payload = frame->data + f->tcp_payload_off,
		.bytes = end > f->tcp_payload_off ? end - f->tcp_payload_off : 0,
		.seq = wire_be32_at(frame->data + f->l4_off + TCP_SEQ_OFFSET),
	};
}

/* The connection of a start frame is iWARP from now on, in both directions. */
static void learn(struct analyze *a, const struct wire_frame *f, const struct segment *s)
{
	struct flow_key back_key =
		flow_reverse_key(&f->key, f->key.dst_qpn << 16 | f->key.dst_qpn >> 16);
	struct analyze_iwarp *way = table_add(&a->iwarp, &f->key);
	struct analyze_iwarp *back = table_add(&a->iwarp, &back_key);

	if (!way || !back || !wire_read_mpa_terms(s->payload, s->bytes, &way->terms))
		return;
	way->start = f->mpa;
	way->first_seq = s->seq + MPA_START_BYTES + way->terms.private_bytes;
	back->has_markers = !!(way->terms.flags & MPA_MARKERS);
}

/*
 * Markers stand at every 512th byte of the stream behind the start frame, the first one included,
 * in front of an FPDU that begins there (RFC 5044, 4.3). How many bytes of them there are at seq:
 */
static uint32_t marker_at(const struct analyze_iwarp *way, uint32_t seq)
{
	return way->has_markers && !((seq - way->first_seq) % MPA_MARKER_INTERVAL_BYTES)
		       ? MPA_MARKER_BYTES
		       : 0;
}

/* And within the FPDU of so many bytes at seq: */
static uint32_t markers_within(const struct analyze_iwarp *way, uint32_t seq, uint32_t bytes)
{
	enum { BETWEEN_BYTES = MPA_MARKER_INTERVAL_BYTES - MPA_MARKER_BYTES };
	uint32_t room =
		MPA_MARKER_INTERVAL_BYTES - (seq - way->first_seq) % MPA_MARKER_INTERVAL_BYTES;

	if (!way->has_markers || bytes <= room)
		return 0;
	return (1 + (bytes - room - 1) / BETWEEN_BYTES) * MPA_MARKER_BYTES;
}

/* From an FPDU at the segment's start on; what begins elsewhere nobody can tell from data. */
static void count_fpdus(struct analyze_iwarp *way, const struct segment *s)
{
	bool marks_known = way->start || !way->has_markers;
	uint32_t at = marks_known ? marker_at(way, s->seq) : 0;
	struct wire_fpdu fpdu;

	while (at < s->bytes && wire_read_fpdu(s->payload + at, s->bytes - at, &fpdu)) {
		way->opcodes[fpdu.opcode]++;
		if (!marks_known)
			return;
		at += fpdu.bytes + markers_within(way, s->seq + at, fpdu.bytes);
		at += marker_at(way, s->seq + at);
	}
}

bool iwarp_take(struct analyze *a, const struct analyze_frame *frame, const struct wire_frame *f)
{
	struct segment s = segment_of(frame, f);
	struct analyze_iwarp *way;

	if (f->mpa)
		learn(a, f, &s);
	way = table_add(&a->iwarp, &f->key);
	if (!way)
		return false;
	way->packets++;
	way->bytes += frame->wire_len;
	if (!f->mpa)
		count_fpdus(way, &s);
	return true;
}
