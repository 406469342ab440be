// SPDX-License-Identifier: BSD-2-Clause
// iWARP: what starts an FPDU, what a start frame says, and what the analysis counts of a
// connection.
#include "vectors/vectors.h"

#include "analyze/analyze.h"
#include "quench/wire_iwarp.h"

enum {
	FRAME_ROOM_BYTES = 4096,
	HEADERS_BYTES = ETH_HEADER_BYTES + IPV4_MIN_BYTES + 20,
	FRAME_BYTES_MIN = 60,
	PORT_A = 40000,
	PORT_B = 7471,
	MARKED_FROM = 100, /* sequence number behind a start frame without private data */
	WORDS = 1 << 16,
	WRITE_LAST = 0xc140,
	SEND_LAST = 0x4143,
};

static void put_be16(__u8 *at, uint32_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static void put_be32(__u8 *at, uint32_t value)
{
	put_be16(at, value >> 16);
	put_be16(at + 2, value);
}

/* The FPDU whose first bytes are length and control, in a buffer of just so many bytes. */
static bool read_start(uint32_t length, uint32_t control, uint32_t bytes, struct wire_fpdu *out)
{
	__u8 start[8] = {};
	__u8 *payload = malloc(bytes);
	bool found;

	put_be16(start, length);
	put_be16(start + 2, control);
	assert_non_null(payload);
	memcpy(payload, start, bytes);
	found = wire_read_fpdu(payload, bytes, out);
	free(payload);
	return found;
}

static void fpdu_of_each_opcode_is_read(void **state)
{
	static const struct {
		uint16_t control;
		uint8_t opcode;
		bool tagged, last;
	} rows[] = {
		{0xc140, 0, true, true},
		{0x8140, 0, true, false},
		{0x4141, 1, false, true},
		{0xc142, 2, true, true},
		{0x8142, 2, true, false},
		{0x4143, 3, false, true},
		{0x0143, 3, false, false},
		{0x4144, 4, false, true},
		{0x4145, 5, false, true},
		{0x4146, 6, false, true},
		{0x4147, 7, false, true},
		{0x4148, 8, false, true},
		{0x4149, 9, false, true},
		{0x414a, 10, false, true},
		{0x414b, 11, false, true},
	};
	struct wire_fpdu fpdu;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_true(read_start(100, rows[i].control, 4, &fpdu));
		assert_int_equal(fpdu.opcode, rows[i].opcode);
		assert_int_equal(fpdu.tagged, rows[i].tagged);
		assert_int_equal(fpdu.last, rows[i].last);
		assert_int_equal(fpdu.ulpdu_bytes, 100);
	}
}

/* Of all control words only those of the twelve opcodes, first or last, with their own T bit. */
static void fpdu_with_any_other_control_word_is_none(void **state)
{
	struct wire_fpdu fpdu, untouched;
	uint32_t found = 0;

	(void)state;
	memset(&untouched, 0xa5, sizeof(untouched));
	for (uint32_t control = 0; control < WORDS; control++) {
		uint32_t opcode = control & 0xf;
		bool tagged = opcode == 0 || opcode == 2;
		uint32_t right = (tagged ? 0x8000 : 0) | 0x0140 | opcode;
		bool should = opcode < 12 && (control & ~0x4000u) == right;

		fpdu = untouched;
		assert_int_equal(read_start(100, control, 4, &fpdu), should);
		if (!should)
			assert_memory_equal(&fpdu, &untouched, sizeof(fpdu));
		found += should;
	}
	assert_int_equal(found, 2 * 12);
}

static void fpdu_shorter_than_its_header_is_none(void **state)
{
	struct wire_fpdu fpdu;

	(void)state;
	assert_false(read_start(13, WRITE_LAST, 4, &fpdu));
	assert_true(read_start(14, WRITE_LAST, 4, &fpdu));
	assert_false(read_start(17, SEND_LAST, 4, &fpdu));
	assert_true(read_start(18, SEND_LAST, 4, &fpdu));
	assert_false(read_start(0, SEND_LAST, 4, &fpdu));
}

static void fpdu_bytes_are_padded_and_have_a_crc(void **state)
{
	static const struct {
		uint16_t ulpdu;
		uint32_t bytes;
	} rows[] = {{18, 24}, {19, 28}, {21, 28}, {22, 28}, {23, 32}, {1442, 1448}, {65535, 65544}};
	struct wire_fpdu fpdu;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_true(read_start(rows[i].ulpdu, SEND_LAST, 4, &fpdu));
		assert_int_equal(fpdu.bytes, rows[i].bytes);
	}
}

static void fpdu_of_less_than_four_bytes_is_none(void **state)
{
	struct wire_fpdu fpdu;

	(void)state;
	for (uint32_t bytes = 0; bytes < 4; bytes++)
		assert_false(read_start(100, SEND_LAST, bytes, &fpdu));
}

static size_t put_start(__u8 *at, const char *key, uint32_t flags, uint32_t private_bytes)
{
	memcpy(at, key, MPA_KEY_BYTES);
	put_be16(at + 16, flags);
	put_be16(at + 18, private_bytes);
	memset(at + 20, 0, private_bytes);
	return 20 + private_bytes;
}

static void start_frame_gives_its_terms(void **state)
{
	struct wire_mpa_terms terms = {};
	__u8 frame[64];

	(void)state;
	put_start(frame, "MPA ID Req Frame", 0xc001, 16);
	assert_true(wire_read_mpa_terms(frame, 20, &terms));
	assert_int_equal(terms.flags, MPA_MARKERS | MPA_CRC);
	assert_int_equal(terms.revision, 1);
	assert_int_equal(terms.private_bytes, 16);
	put_start(frame, "MPA ID Rep Frame", 0x3002, 0);
	assert_true(wire_read_mpa_terms(frame, 20, &terms));
	assert_int_equal(terms.flags & MPA_REJECT, MPA_REJECT);
	assert_int_equal(terms.flags & (MPA_MARKERS | MPA_CRC), 0);
	assert_int_equal(terms.revision, 2);
	assert_false(wire_read_mpa_terms(frame, 19, &terms));
	frame[9] = 'x';
	assert_false(wire_read_mpa_terms(frame, 20, &terms));
}

/* The analysis */

struct bench {
	struct analyze *a;
	uint64_t frames;
	struct analyze_seen seen;
};

static struct bench open_bench(struct analyze_config config)
{
	struct bench b = {};

	config.secret = 0x0123456789abcdef;
	b.a = analyze_new(&config);
	assert_non_null(b.a);
	return b;
}

/* A segment from A to B, or back, in a frame padded as Ethernet does it. */
static void send_segment(
	struct bench *b, bool back, uint32_t seq, const __u8 *payload, uint32_t bytes)
{
	uint32_t len = HEADERS_BYTES + bytes;
	uint32_t padded = len < FRAME_BYTES_MIN ? FRAME_BYTES_MIN : len;
	__u8 *frame = frame_alloc(padded), *ip = frame + 14, *tcp = ip + 20;

	memset(frame, 0, padded);
	put_be16(frame + 12, ETHERTYPE_IPV4);
	ip[0] = 0x45;
	put_be16(ip + 2, len - 14);
	ip[8] = 64;
	ip[9] = IP_PROTO_TCP;
	put_be32(ip + 12, back ? 0x0a000002 : 0x0a000001);
	put_be32(ip + 16, back ? 0x0a000001 : 0x0a000002);
	put_be16(tcp, back ? PORT_B : PORT_A);
	put_be16(tcp + 2, back ? PORT_A : PORT_B);
	put_be32(tcp + 4, seq);
	tcp[12] = 5 << 4;
	memcpy(tcp + 20, payload, bytes);
	analyze_take(b->a,
		&(struct analyze_frame){.number = ++b->frames,
			.time_ns = b->frames * 1000,
			.data = frame,
			.len = padded,
			.wire_len = padded},
		&b->seen);
	frame_free(frame);
}

/* Start frames both ways, whose streams go on at MARKED_FROM; flags are those of B's reply. */
static void join(struct bench *b, uint32_t reply_flags)
{
	__u8 start[FRAME_ROOM_BYTES];
	size_t bytes = put_start(start, "MPA ID Req Frame", 0x4001, 8);

	send_segment(b, false, MARKED_FROM - bytes, start, bytes);
	bytes = put_start(start, "MPA ID Rep Frame", reply_flags, 0);
	send_segment(b, true, MARKED_FROM - bytes, start, bytes);
}

static uint32_t put_fpdu(__u8 *at, uint32_t ulpdu, uint32_t control)
{
	uint32_t bytes = ((2 + ulpdu + 3) & ~3u) + 4;

	memset(at, 0x5a, bytes);
	put_be16(at, ulpdu);
	put_be16(at + 2, control);
	return bytes;
}

/* A's direction is made first. */
static const struct analyze_iwarp *way_of(const struct bench *b, uint32_t i)
{
	assert_true(i < b->a->iwarp.count);
	return table_at(&b->a->iwarp, i);
}

static uint64_t opcodes_of(const struct analyze_iwarp *way)
{
	uint64_t sum = 0;

	for (int i = 0; i < RDMAP_OPCODE_COUNT; i++)
		sum += way->opcodes[i];
	return sum;
}

static void connection_counts_the_fpdus_of_each_segment(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	__u8 payload[FRAME_ROOM_BYTES];
	uint32_t bytes;

	(void)state;
	join(&b, 0x4001);
	bytes = put_fpdu(payload, 100, WRITE_LAST);
	bytes += put_fpdu(payload + bytes, 19, SEND_LAST);
	send_segment(&b, false, MARKED_FROM, payload, bytes);
	put_fpdu(payload, 1400, WRITE_LAST);
	send_segment(&b, false, MARKED_FROM + bytes, payload, 700);
	send_segment(&b, false, MARKED_FROM + bytes + 700, payload + 700, 706); /* no start */
	bytes = put_fpdu(payload, 46, 0x4141);
	send_segment(&b, true, MARKED_FROM, payload, bytes);
	assert_int_equal(b.seen.wire.kind, WIRE_IWARP);
	assert_int_equal(way_of(&b, 0)->opcodes[0], 2);
	assert_int_equal(way_of(&b, 0)->opcodes[3], 1);
	assert_int_equal(opcodes_of(way_of(&b, 0)), 3);
	assert_int_equal(way_of(&b, 0)->packets, 4);
	assert_int_equal(way_of(&b, 1)->opcodes[1], 1);
	assert_int_equal(opcodes_of(way_of(&b, 1)), 1);
	analyze_free(b.a);
}

static void connection_keeps_the_terms_of_both_start_frames(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	join(&b, 0x8002);
	assert_int_equal(way_of(&b, 0)->start, MPA_REQUEST);
	assert_int_equal(way_of(&b, 0)->terms.flags, MPA_CRC);
	assert_int_equal(way_of(&b, 0)->terms.revision, 1);
	assert_int_equal(way_of(&b, 1)->start, MPA_REPLY);
	assert_int_equal(way_of(&b, 1)->terms.flags, MPA_MARKERS);
	assert_int_equal(way_of(&b, 1)->terms.revision, 2);
	assert_true(way_of(&b, 0)->has_markers); /* for B wants to receive them */
	assert_false(way_of(&b, 1)->has_markers);
	analyze_free(b.a);
}

static void padding_of_a_short_frame_is_no_fpdu(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	__u8 payload[FRAME_ROOM_BYTES];

	(void)state;
	join(&b, 0x4001);
	put_fpdu(payload, 100, WRITE_LAST);
	send_segment(&b, false, MARKED_FROM, payload, 3);
	send_segment(&b, false, MARKED_FROM, payload, 0);
	assert_int_equal(opcodes_of(way_of(&b, 0)), 0);
	analyze_free(b.a);
}

/* FPDUs one after the other, with a marker at every 512th byte of the stream; returns the bytes. */
static uint32_t put_marked(__u8 *at, uint32_t fpdus, uint32_t ulpdu)
{
	__u8 plain[FRAME_ROOM_BYTES];
	uint32_t plain_bytes = 0, bytes = 0;

	for (uint32_t i = 0; i < fpdus; i++)
		plain_bytes += put_fpdu(plain + plain_bytes, ulpdu, WRITE_LAST);
	for (uint32_t i = 0; i < plain_bytes; i += 4, bytes += 4) {
		if (bytes % 512 == 0) {
			memset(at + bytes, 0, 4);
			bytes += 4;
		}
		memcpy(at + bytes, plain + i, 4);
	}
	return bytes;
}

static void markers_are_stepped_over(void **state)
{
	__u8 payload[FRAME_ROOM_BYTES];

	(void)state;
	/* 502: an FPDU of 508 bytes, so that each begins behind a marker */
	for (uint32_t ulpdu = 14; ulpdu <= 1200; ulpdu++) {
		struct bench b = open_bench((struct analyze_config){.flows_max = 8});
		uint32_t bytes = put_marked(payload, 3, ulpdu);

		join(&b, 0x8001);
		send_segment(&b, false, MARKED_FROM, payload, bytes);
		assert_int_equal(way_of(&b, 0)->opcodes[0], 3);
		send_segment(&b, false, MARKED_FROM, payload, 0);
		assert_int_equal(opcodes_of(way_of(&b, 0)), 3);
		analyze_free(b.a);
	}
}

static void marked_stream_whose_start_was_not_seen_counts_a_segments_first(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	__u8 payload[FRAME_ROOM_BYTES];
	size_t bytes = put_start(payload, "MPA ID Rep Frame", 0x8001, 0);

	(void)state;
	send_segment(&b, true, MARKED_FROM - bytes, payload, bytes); /* the request is missing */
	bytes = put_fpdu(payload, 100, SEND_LAST);
	bytes += put_fpdu(payload + bytes, 100, SEND_LAST);
	send_segment(&b, false, MARKED_FROM, payload, bytes);
	assert_int_equal(way_of(&b, 1)->opcodes[3], 1);
	assert_int_equal(way_of(&b, 1)->start, MPA_NONE);
	analyze_free(b.a);
}

static void connection_on_a_given_port_needs_no_start(void **state)
{
	__u8 payload[FRAME_ROOM_BYTES];
	uint32_t bytes = put_fpdu(payload, 100, SEND_LAST);
	struct bench b = open_bench((struct analyze_config){.iwarp_ports = {1, PORT_B}});

	(void)state;
	send_segment(&b, false, 1, payload, bytes);
	assert_int_equal(b.seen.wire.kind, WIRE_IWARP);
	send_segment(&b, true, 1, payload, bytes);
	assert_int_equal(b.a->kinds[WIRE_IWARP], 2);
	assert_int_equal(way_of(&b, 0)->opcodes[3], 1);
	assert_int_equal(way_of(&b, 1)->opcodes[3], 1);
	analyze_free(b.a);

	b = open_bench((struct analyze_config){.iwarp_ports = {PORT_B + 1}});
	send_segment(&b, false, 1, payload, bytes);
	assert_int_equal(b.seen.wire.kind, WIRE_OTHER);
	analyze_free(b.a);
}

static void connection_without_room_is_missed(void **state)
{
	struct bench b =
		open_bench((struct analyze_config){.flows_max = 1, .iwarp_ports = {PORT_B}});

	(void)state;
	send_segment(&b, false, 1, (const __u8 *)"", 0);
	assert_int_equal(b.a->missed, 0);
	send_segment(&b, true, 1, (const __u8 *)"", 0);
	assert_int_equal(b.a->missed, 1);
	assert_int_equal(b.a->kinds[WIRE_IWARP], 2);
	analyze_free(b.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fpdu_of_each_opcode_is_read),
		cmocka_unit_test(fpdu_with_any_other_control_word_is_none),
		cmocka_unit_test(fpdu_shorter_than_its_header_is_none),
		cmocka_unit_test(fpdu_bytes_are_padded_and_have_a_crc),
		cmocka_unit_test(fpdu_of_less_than_four_bytes_is_none),
		cmocka_unit_test(start_frame_gives_its_terms),
		cmocka_unit_test(connection_counts_the_fpdus_of_each_segment),
		cmocka_unit_test(connection_keeps_the_terms_of_both_start_frames),
		cmocka_unit_test(padding_of_a_short_frame_is_no_fpdu),
		cmocka_unit_test(markers_are_stepped_over),
		cmocka_unit_test(marked_stream_whose_start_was_not_seen_counts_a_segments_first),
		cmocka_unit_test(connection_on_a_given_port_needs_no_start),
		cmocka_unit_test(connection_without_room_is_missed),
	};

	return cmocka_run_group_tests_name("iwarp", tests, NULL, NULL);
}
