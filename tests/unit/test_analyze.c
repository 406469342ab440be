// SPDX-License-Identifier: BSD-2-Clause
// The analysis of captures: counts, flows, pairs and findings, on frames made here, on the vectors,
// and on the captures, whole and damaged.
#include "vectors/vectors.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/analyze.h"
#include "analyze/infiniband.h"
#include "capture/capture.h"
#include "cli/analyze_report.h"
#include "quench/build.h"

#define CAPTURES "tests/captures"
#define US	 1000ull
#define MS	 1000000ull

enum {
	FRAME_ROOM_BYTES = 2048,
	TOS_ECT0 = 26 << 2 | 2,
	TOS_CE = 26 << 2 | 3,
	TOS_NOT_ECT = 26 << 2,
	PAYLOAD_BYTES = 64,
	QPN_A = 0x11, /* of host A, 10.0.0.1 */
	QPN_B = 0x12, /* of host B, 10.0.0.2 */
	ACK_REQUEST = 0x80,
	CAPTURE_BYTES_MAX = 1 << 20,
	DAMAGED_FRAMES = 20000,
};

/* What a frame of the tests is; what is 0 takes a default. */
struct shot {
	uint8_t opcode;
	uint32_t psn;
	bool from_b;  /* from host B to A, not from A to B */
	uint32_t qpn; /* 0: QPN_B, or QPN_A with from_b */
	uint8_t tos;  /* 0: TOS_ECT0 */
	bool not_ect; /* TOS_NOT_ECT */
	bool v1;      /* behind a GRH */
	bool ack_request;
	uint8_t syndrome;    /* of an ACK */
	uint32_t read_bytes; /* of a READ request */
	uint32_t payload;    /* bytes behind the extended headers */
	uint16_t id;	     /* of the IP header */
	uint64_t at_ns;	     /* 0: 10 us after the one before */
	uint32_t cut;	     /* captured bytes; 0: all */
};

/* An analysis under test and where it stands. */
struct bench {
	struct analyze *a;
	uint64_t number, now_ns;
	struct analyze_seen seen;
};

static struct bench open_bench(struct analyze_config config)
{
	struct bench b = {.now_ns = 1000000000};

	config.secret = 0x0123456789abcdef;
	b.a = analyze_new(&config);
	assert_non_null(b.a);
	return b;
}

static void close_bench(struct bench *b)
{
	uint64_t sum = 0;

	for (int kind = 0; kind < WIRE_KIND_COUNT; kind++)
		sum += b->a->kinds[kind];
	assert_int_equal(sum, b->a->frames);
	analyze_free(b->a);
}

static void feed(struct bench *b, const __u8 *data, uint32_t len, uint32_t wire_len)
{
	__u8 *copy = frame_copy(data, len);
	const struct analyze_frame frame = {
		.number = ++b->number,
		.time_ns = b->now_ns,
		.data = copy,
		.len = len,
		.wire_len = wire_len,
	};

	analyze_take(b->a, &frame, &b->seen);
	frame_free(copy);
}

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

static uint8_t tos_of(const struct shot *s)
{
	return s->not_ect ? TOS_NOT_ECT : s->tos ?: TOS_ECT0;
}

/* IPv4 and UDP, or a GRH, around length bytes of transport; returns where that starts. */
static uint32_t put_network(__u8 *frame, const struct shot *s, uint32_t length)
{
	const __u8 a[4] = {10, 0, 0, 1}, b[4] = {10, 0, 0, 2};
	__u8 *ip = frame + ETH_HEADER_BYTES, *udp = ip + IPV4_MIN_BYTES;

	memcpy(frame, s->from_b ? "\2\0\0\0\0\1\2\0\0\0\0\2" : "\2\0\0\0\0\2\2\0\0\0\0\1", 12);
	if (s->v1) {
		put_be16(frame + 12, ETHERTYPE_ROCE_V1);
		put_be32(ip, 0x60000000u | (uint32_t)tos_of(s) << 20);
		put_be16(ip + 4, length);
		ip[6] = GRH_NEXT_BTH;
		ip[18] = ip[19] = ip[34] = ip[35] = 0xff;
		memcpy(ip + 20, s->from_b ? b : a, 4);
		memcpy(ip + 36, s->from_b ? a : b, 4);
		return ETH_HEADER_BYTES + GRH_BYTES;
	}
	put_be16(frame + 12, ETHERTYPE_IPV4);
	ip[0] = 0x45;
	ip[1] = tos_of(s);
	put_be16(ip + 2, IPV4_MIN_BYTES + UDP_HEADER_BYTES + length);
	put_be16(ip + 4, s->id);
	ip[8] = 64;
	ip[9] = IP_PROTO_UDP;
	memcpy(ip + 12, s->from_b ? b : a, 4);
	memcpy(ip + 16, s->from_b ? a : b, 4);
	put_be16(udp, 0xc000);
	put_be16(udp + 2, ROCE_V2_UDP_PORT);
	put_be16(udp + 4, UDP_HEADER_BYTES + length);
	return ETH_HEADER_BYTES + IPV4_MIN_BYTES + UDP_HEADER_BYTES;
}

/* The extended headers that the tests need, and their length. */
static uint32_t put_extended(__u8 *at, const struct shot *s)
{
	switch (s->opcode) {
	case OP_RC_READ_REQUEST:
		put_be32(at + 12, s->read_bytes);
		return RETH_BYTES;
	case OP_RC_WRITE_FIRST:
	case OP_RC_WRITE_ONLY:
		return RETH_BYTES;
	case OP_RC_ACK:
		at[0] = s->syndrome;
		return AETH_BYTES;
	case OP_RC_READ_RESPONSE_FIRST:
	case 0x0f:
	case OP_RC_READ_RESPONSE_ONLY:
		return AETH_BYTES;
	case OP_CNP:
		return CNP_PAYLOAD_BYTES;
	}
	return 0;
}

static uint32_t payload_of(const struct shot *s)
{
	if (s->opcode == OP_RC_ACK || s->opcode == OP_RC_READ_REQUEST || s->opcode == OP_CNP)
		return s->payload;
	return s->payload ?: PAYLOAD_BYTES;
}

/* Write the frame, with a right ICRC, and return its length. */
static uint32_t make(__u8 *frame, const struct shot *s)
{
	uint32_t extended, length, start, icrc;
	__u8 scratch[64] = {};
	struct wire_frame f;

	memset(frame, 0, FRAME_ROOM_BYTES);
	extended = put_extended(scratch, s);
	length = BTH_BYTES + extended + payload_of(s) + ICRC_BYTES;
	start = put_network(frame, s, length);
	frame[start] = s->opcode;
	put_be16(frame + start + 2, 0xffff);
	put_be32(frame + start + 4, s->qpn ?: s->from_b ? QPN_A : QPN_B);
	put_be32(frame + start + 8, s->psn & BTH_PSN_MASK);
	frame[start + 8] = s->ack_request ? ACK_REQUEST : 0;
	memcpy(frame + start + BTH_BYTES, scratch, extended);
	wire_frame_init(&f);
	wire_parse(frame, frame + start + length, &f);
	assert_int_equal(f.icrc_off, start + length - ICRC_BYTES);
	icrc = wire_icrc(frame, &f);
	for (int i = 0; i < ICRC_BYTES; i++)
		frame[f.icrc_off + i] = icrc >> 8 * i;
	return start + length;
}

static __u8 *room(void)
{
	static __u32 aligned[FRAME_ROOM_BYTES / 4 + 1];

	return (__u8 *)aligned + ALIGN_BYTES;
}

static void send_shot(struct bench *b, struct shot s)
{
	uint32_t len = make(room(), &s);

	b->now_ns = s.at_ns ?: b->now_ns + 10 * US;
	feed(b, room(), s.cut ?: len, len);
}

#define SEND(b, ...) send_shot(b, (struct shot){__VA_ARGS__})

/* Frames from psn to last, each a message of its own. */
static void send_run(struct bench *b, uint32_t psn, uint32_t last, uint8_t tos)
{
	for (; psn <= last; psn++)
		SEND(b, .opcode = OP_RC_SEND_ONLY, .psn = psn, .tos = tos);
}

static struct analyze_flow *flow_to(const struct bench *b, uint32_t qpn)
{
	for (uint32_t i = 0; i < b->a->flows.count; i++)
		if (analyze_flow_at(b->a, i)->key.dst_qpn == qpn)
			return analyze_flow_at(b->a, i);
	fail_msg("no flow to QP %u", qpn);
	return NULL;
}

static uint64_t found(const struct bench *b, enum finding_id id)
{
	return b->a->evidence[id].count;
}

/* Nothing but what comes from every plain frame of the tests is found. */
static void assert_nothing_but(const struct bench *b, enum finding_id expected)
{
	for (int id = 0; id < FINDING_COUNT; id++)
		if ((int)expected != id && found(b, id))
			fail_msg("found %s as well", finding_code(id));
}

static void finish_and_close(struct bench *b, enum finding_id id, uint64_t count)
{
	analyze_finish(b->a);
	assert_nothing_but(b, id);
	if (id != FINDING_NONE)
		assert_int_equal(found(b, id), count);
	close_bench(b);
}

/* The QP pair of the bench, by CM as in cm.txt but between A and B. */
static void join_qps(struct bench *b)
{
	struct endpoint a = {.addr = {0, 0, htonl(0xffff), htonl(0x0a000001)}, .qpn = QPN_A};
	struct endpoint z = {.addr = {0, 0, htonl(0xffff), htonl(0x0a000002)}, .qpn = QPN_B};

	pairs_add(b->a->pairs, &a, &z);
}

/* Tables */

static void table_full_refuses_only_new_keys(void **state)
{
	struct table t;
	uint64_t key;

	(void)state;
	assert_int_equal(table_init(&t, 100, 16, 8, 1), 0);
	for (key = 0; key < 100; key++)
		assert_non_null(table_add(&t, &key));
	assert_null(table_add(&t, &key));
	for (key = 0; key < 100; key++) {
		assert_ptr_equal(table_add(&t, &key), table_at(&t, key));
		assert_int_equal(table_index(&t, table_find(&t, &key)), key);
	}
	assert_null(table_find(&t, &key));
	table_free(&t);
}

/* PSNs */

static enum psn_step step(struct psn_run *run, uint32_t psn)
{
	uint32_t missing;

	return psn_take(run, psn & BTH_PSN_MASK, &missing);
}

static void psn_in_every_position_gives_its_step(void **state)
{
	static const uint32_t starts[] = {0, 1000, 0xfffffe, 0x7ffffe};

	(void)state;
	for (size_t i = 0; i < COUNT(starts); i++) {
		struct psn_run run = {};
		uint32_t at = starts[i];

		assert_int_equal(step(&run, at), PSN_NEXT);
		assert_int_equal(step(&run, at), PSN_AGAIN);
		assert_int_equal(step(&run, at - 1), PSN_AGAIN);
		assert_int_equal(step(&run, at + 1), PSN_NEXT);
		assert_int_equal(step(&run, at + 4), PSN_JUMP);
		assert_int_equal(step(&run, at + 3), PSN_LATE);
		assert_int_equal(step(&run, at + 3), PSN_AGAIN);
		assert_int_equal(step(&run, at + 2), PSN_LATE);
		assert_int_equal(step(&run, at + 5), PSN_NEXT);
		assert_int_equal(step(&run, at + 500), PSN_JUMP);
		assert_int_equal(step(&run, at + 6), PSN_AGAIN);
		assert_int_equal(step(&run, at + 500 + PSN_WINDOW + 1), PSN_JUMP);
		assert_int_equal(step(&run, at + 501), PSN_AGAIN);
		assert_int_equal(step(&run, at + 500), PSN_RESTART);
	}
}

static void psn_jump_counts_what_is_missing(void **state)
{
	struct psn_run run = {};
	uint32_t missing;

	(void)state;
	psn_take(&run, 10, &missing);
	psn_take(&run, 14, &missing);
	assert_int_equal(missing, 3);
	run.room = 3; /* a READ of four frames */
	assert_int_equal(psn_take(&run, 18, &missing), PSN_NEXT);
	assert_int_equal(psn_take(&run, 16, &missing), PSN_AGAIN);
	run.room = 3;
	assert_int_equal(psn_take(&run, 24, &missing), PSN_JUMP);
	assert_int_equal(missing, 2);
}

/* ICRC */

static enum icrc_verdict judge(const __u8 *data, uint32_t len)
{
	const struct analyze_frame frame = {.data = data, .len = len, .wire_len = len};
	struct wire_frame f = parse(data, len);

	return icrc_judge(&frame, &f);
}

static void icrc_of_every_vector_is_judged_right(void **state)
{
	const struct rows *const rows[] = {&icrc_rows, &cm_rows};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t j = 0; j < rows[i]->count; j++) {
			const struct row *r = &rows[i]->row[j];
			__u8 *copy = frame_copy(r->frame, r->len);

			assert_int_equal(judge(copy, r->len), ICRC_OK);
			copy[r->len - 1] ^= 1;
			assert_int_equal(judge(copy, r->len), ICRC_BAD);
			copy[r->len - 1] ^= 1;
			copy[r->len - 5] ^= 0x80;
			assert_int_equal(judge(copy, r->len), ICRC_BAD);
			assert_int_equal(judge(copy, r->len - 1), ICRC_UNVERIFIABLE);
			frame_free(copy);
		}
}

static void every_vector_is_counted_as_its_kind(void **state)
{
	const struct rows *const rows[] = {&frame_rows, &format_rows};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t j = 0; j < rows[i]->count; j++) {
			const struct row *r = &rows[i]->row[j];
			struct bench b = open_bench((struct analyze_config){.flows_max = 4});

			feed(&b, r->frame, r->len, r->len);
			assert_string_equal(analyze_kind_name(b.seen.wire.kind), r->field[1]);
			assert_int_equal(b.a->kinds[b.seen.wire.kind], 1);
			assert_int_equal(found(&b, FINDING_ICRC_BAD), 0);
			analyze_finish(b.a);
			close_bench(&b);
		}
}

/* Put a right ICRC on what has one. */
static void mend_icrc(__u8 *frame, size_t len)
{
	struct wire_frame f = parse(frame, len);
	__u32 icrc;

	if (!has_bth(&f) || f.icrc_off + (size_t)ICRC_BYTES > len)
		return;
	icrc = wire_icrc(frame, &f);
	for (int i = 0; i < ICRC_BYTES; i++)
		frame[f.icrc_off + i] = icrc >> 8 * i;
}

/* Damage that an ICRC hides reaches what is behind the check. */
static void damaged_vectors_with_right_icrc_end_well(void **state)
{
	struct bench b = open_bench((struct analyze_config){.flows_max = 64});
	__u32 random = 88172645;

	(void)state;
	for (int n = 0; n < DAMAGED_FRAMES; n++) {
		const struct rows *rows = all_rows[next_random(&random) % COUNT(all_rows)];
		const struct row *r = &rows->row[next_random(&random) % rows->count];
		__u8 *copy = frame_copy(r->frame, r->len);

		for (__u32 i = next_random(&random) % 4 + 1; i; i--)
			copy[next_random(&random) % r->len] = next_random(&random);
		mend_icrc(copy, r->len);
		b.now_ns += next_random(&random) % 10000;
		feed(&b, copy, r->len, r->len);
		frame_free(copy);
	}
	assert_true(b.a->icrc[ICRC_OK] > DAMAGED_FRAMES / 4);
	assert_true(b.a->kinds[WIRE_CM] > 0);
	analyze_finish(b.a);
	close_bench(&b);
}

static void mad_of_another_class_is_no_cm_message(void **state)
{
	const struct row *r = find_row(&cm_rows, "req");
	struct bench b = open_bench((struct analyze_config){});
	__u8 *copy = frame_copy(r->frame, r->len);
	uint64_t messages = 0;

	(void)state;
	copy[r->len - ICRC_BYTES - MAD_BYTES + 1] = 0x03; /* subnet administration */
	mend_icrc(copy, r->len);
	feed(&b, copy, r->len, r->len);
	for (int i = 0; i < CM_MESSAGE_COUNT; i++)
		messages += b.a->cm[i];
	assert_int_equal(messages, 0);
	assert_int_equal(b.a->icrc[ICRC_OK], 1);
	frame_free(copy);
	close_bench(&b);
}

/* Its QPN and AETH may be what the damage hit. */
static void icrc_bad_frame_makes_no_flow_and_no_nak(void **state)
{
	const struct row *r = find_row(&icrc_rows, "gen_v4_nak_psn_seq");
	__u8 *copy = frame_copy(r->frame, r->len);
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	copy[r->len - 1] ^= 1;
	feed(&b, copy, r->len, r->len);
	assert_int_equal(b.a->icrc[ICRC_BAD], 1);
	assert_int_equal(b.a->kinds[WIRE_ROCEV2], 1);
	assert_int_equal(b.a->flows.count, 0);
	frame_free(copy);
	finish_and_close(&b, FINDING_ICRC_BAD, 1);
}

static void icrc_bad_is_found_with_its_frame(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	uint32_t len;

	(void)state;
	send_run(&b, 1, 1, TOS_ECT0);
	len = make(room(), &(struct shot){.opcode = OP_RC_SEND_ONLY, .psn = 2});
	room()[len - 6] ^= 4;
	feed(&b, room(), len, len);
	assert_int_equal(b.a->evidence[FINDING_ICRC_BAD].frames[0], 2);
	assert_int_equal(flow_to(&b, QPN_B)->noted[FINDING_ICRC_BAD], 1);
	assert_int_equal(b.a->icrc[ICRC_OK], 1);
	finish_and_close(&b, FINDING_ICRC_BAD, 1);
}

static void cut_frame_is_unverifiable(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .cut = 64);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 2, .cut = 64);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 2, .cut = 64);
	assert_int_equal(b.a->icrc[ICRC_UNVERIFIABLE], 3);
	assert_int_equal(flow_to(&b, QPN_B)->packets, 3);
	assert_int_equal(flow_to(&b, QPN_B)->noted[FINDING_RETRANSMISSION], 1);
	assert_int_equal(b.a->cut, 3);
	assert_int_equal(b.a->evidence[FINDING_SNAPLEN].value, 64);
	close_bench(&b);
}

static void frame_shorter_than_it_says_is_found(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	uint32_t len = make(room(), &(struct shot){.opcode = OP_RC_SEND_ONLY, .psn = 1});

	(void)state;
	feed(&b, room(), len - 3, len - 3);
	finish_and_close(&b, FINDING_SHORT_FRAME, 1);
}

/* Flows */

static void plain_flow_finds_nothing(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	const struct analyze_flow *flow;

	(void)state;
	send_run(&b, 0xfffff0, 0x100000f, TOS_ECT0);
	flow = flow_to(&b, QPN_B);
	assert_int_equal(flow->packets, 32);
	assert_int_equal(flow->bytes, 32 * (20 + 8 + 12 + PAYLOAD_BYTES + 4));
	assert_int_equal(flow->operations[OPERATION_SEND], 32);
	assert_int_equal(flow->data_ecn[2], 32);
	assert_int_equal(flow->dscps, 1ull << 26);
	finish_and_close(&b, FINDING_NONE, 0);
}

static void psn_gap_is_found_where_it_is(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	send_run(&b, 1, 5, TOS_ECT0);
	send_run(&b, 9, 12, TOS_ECT0);
	assert_int_equal(flow_to(&b, QPN_B)->psns_missing, 3);
	assert_int_equal(b.a->evidence[FINDING_PSN_GAP].frames[0], 6);
	finish_and_close(&b, FINDING_PSN_GAP, 1);
}

static void go_back_counts_every_frame_that_came_before(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	send_run(&b, 1, 10, TOS_ECT0);
	b.now_ns += MS;
	send_run(&b, 4, 14, TOS_ECT0);
	finish_and_close(&b, FINDING_RETRANSMISSION, 7);
}

static void overtaken_frame_is_out_of_order(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	send_run(&b, 1, 3, TOS_ECT0);
	send_run(&b, 5, 6, TOS_ECT0);
	send_run(&b, 4, 4, TOS_ECT0);
	send_run(&b, 7, 9, TOS_ECT0);
	analyze_finish(b.a);
	assert_int_equal(found(&b, FINDING_OUT_OF_ORDER), 1);
	assert_int_equal(b.a->evidence[FINDING_OUT_OF_ORDER].frames[0], 6);
	assert_int_equal(found(&b, FINDING_RETRANSMISSION), 0);
	close_bench(&b);
}

static void frame_resent_after_loss_is_a_retransmission(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	send_run(&b, 1, 3, TOS_ECT0);
	send_run(&b, 5, 6, TOS_ECT0);
	SEND(&b, .opcode = OP_RC_ACK, .from_b = true, .psn = 4, .syndrome = AETH_NAK);
	send_run(&b, 4, 4, TOS_ECT0);
	analyze_finish(b.a);
	assert_int_equal(found(&b, FINDING_RETRANSMISSION), 1);
	assert_int_equal(found(&b, FINDING_OUT_OF_ORDER), 0);
	close_bench(&b);
}

static void copy_within_microseconds_is_a_duplicate(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	for (uint32_t psn = 1; psn <= 20; psn++) {
		SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = psn);
		SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = psn, .at_ns = b.now_ns + US);
	}
	finish_and_close(&b, FINDING_DUPLICATE, 20);
}

static void few_quick_copies_are_retransmissions(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	const struct evidence *e = &b.a->evidence[FINDING_RETRANSMISSION];

	(void)state;
	for (uint32_t psn = 1; psn <= 40; psn++) {
		SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = psn);
		if (psn % 10 == 0)
			SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = psn, .at_ns = b.now_ns + US);
	}
	analyze_finish(b.a);
	assert_nothing_but(&b, FINDING_RETRANSMISSION);
	assert_int_equal(e->count, 4);
	assert_int_equal(e->frames_count, 4);
	assert_int_equal(e->frames[0], 11);
	assert_int_equal(flow_to(&b, QPN_B)->noted[FINDING_RETRANSMISSION], 4);
	close_bench(&b);
}

static void sender_that_goes_back_at_once_retransmits(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	send_run(&b, 1, 3, TOS_ECT0);
	send_run(&b, 5, 6, TOS_ECT0);
	send_run(&b, 4, 9, TOS_ECT0);
	analyze_finish(b.a);
	assert_int_equal(found(&b, FINDING_RETRANSMISSION), 3);
	assert_int_equal(found(&b, FINDING_OUT_OF_ORDER), 0);
	assert_int_equal(found(&b, FINDING_PSN_GAP), 1);
	close_bench(&b);
}

static void psn_far_away_is_another_connection(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	send_run(&b, 1, 5, TOS_ECT0);
	send_run(&b, 5000000, 5000005, TOS_ECT0);
	send_run(&b, 70000, 70005, TOS_ECT0);
	assert_int_equal(flow_to(&b, QPN_B)->packets, 17);
	finish_and_close(&b, FINDING_NONE, 0);
}

static void same_psn_with_another_ip_id_is_a_retransmission(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .id = 1);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .id = 2, .at_ns = b.now_ns + US);
	finish_and_close(&b, FINDING_RETRANSMISSION, 1);
}

static void read_takes_the_psns_of_its_answer(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_RC_READ_REQUEST, .psn = 10, .read_bytes = 1024);
	SEND(&b, .opcode = OP_RC_READ_REQUEST, .psn = 14, .read_bytes = 1);
	SEND(&b, .opcode = OP_RC_READ_REQUEST, .psn = 15, .read_bytes = 0);
	send_run(&b, 16, 18, TOS_ECT0);
	assert_int_equal(found(&b, FINDING_PSN_GAP), 0);
	SEND(&b, .opcode = OP_RC_READ_REQUEST, .psn = 19, .read_bytes = 1024);
	send_run(&b, 24, 24, TOS_ECT0); /* 4 frames at most, not 5 */
	finish_and_close(&b, FINDING_PSN_GAP, 1);
}

static void read_sent_again_is_a_retransmission(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_RC_READ_REQUEST, .psn = 10, .read_bytes = 4096);
	SEND(&b, .opcode = OP_RC_READ_REQUEST, .psn = 26, .read_bytes = 4096);
	b.now_ns += MS;
	SEND(&b, .opcode = OP_RC_READ_REQUEST, .psn = 20, .read_bytes = 2048);
	finish_and_close(&b, FINDING_RETRANSMISSION, 1);
}

static void read_data_flows_from_the_responder(void **state)
{
	static const uint8_t message[] = {0x0d, 0x0e, 0x0e, 0x0f};
	struct bench b = open_bench((struct analyze_config){});
	const struct analyze_flow *flow;

	(void)state;
	for (uint32_t psn = 100; psn < 120; psn += 5) {
		SEND(&b, .opcode = OP_RC_READ_REQUEST, .psn = psn, .read_bytes = 4096);
		for (uint32_t i = 0; i < 4; i++)
			SEND(&b, .opcode = message[i], .psn = psn + i, .payload = 1024,
				.from_b = true);
		SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = psn + 4);
	}
	flow = flow_to(&b, QPN_A);
	assert_int_equal(flow->operations[OPERATION_READ_RESPONSE], 16);
	assert_int_equal(flow->path_mtu_bytes, 1024);
	assert_int_equal(flow_to(&b, QPN_B)->operations[OPERATION_READ_REQUEST], 4);
	finish_and_close(&b, FINDING_PATH_MTU, 1);
}

static void read_response_with_a_hole_is_a_gap(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = 0x0d, .psn = 10, .from_b = true);
	SEND(&b, .opcode = 0x0e, .psn = 12, .from_b = true);
	SEND(&b, .opcode = 0x0f, .psn = 13, .from_b = true);
	SEND(&b, .opcode = 0x10, .psn = 40, .from_b = true); /* others' PSNs between */
	finish_and_close(&b, FINDING_PSN_GAP, 1);
}

static void datagrams_have_no_gaps(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_UD_SEND_ONLY, .psn = 10);
	SEND(&b, .opcode = OP_UD_SEND_ONLY, .psn = 40);
	SEND(&b, .opcode = OP_UD_SEND_ONLY, .psn = 11);
	finish_and_close(&b, FINDING_NONE, 0);
}

static void nak_of_each_code_is_its_own_finding(void **state)
{
	static const struct {
		uint8_t syndrome;
		enum finding_id id;
		unsigned int naks;
	} rows[] = {
		{0x1f, FINDING_NONE, 0},
		{0x2e, FINDING_RNR_NAK, 0},
		{0x60, FINDING_NAK_PSN_SEQUENCE, 1},
		{0x61, FINDING_NAK_INVALID_REQUEST, 1},
		{0x62, FINDING_NAK_REMOTE_ACCESS, 1},
		{0x63, FINDING_NAK_REMOTE_OPERATIONAL, 1},
		{0x64, FINDING_NAK_INVALID_RD_REQUEST, 1},
		{0x65, FINDING_NAK_RESERVED, 1},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct bench b = open_bench((struct analyze_config){});

		SEND(&b, .opcode = OP_RC_ACK, .psn = 1, .syndrome = rows[i].syndrome);
		assert_int_equal(flow_to(&b, QPN_B)->nak, rows[i].naks);
		finish_and_close(&b, rows[i].id, 1);
	}
}

static void unknown_opcode_makes_no_flow(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	for (int opcode = 0; opcode < 256; opcode++)
		if (!wire_opcode(opcode)->flags)
			SEND(&b, .opcode = opcode, .qpn = 0xffffff);
	assert_int_equal(b.a->flows.count, 0);
	assert_true(found(&b, FINDING_UNKNOWN_OPCODE) > 100);
	close_bench(&b);
}

static void flow_without_room_is_counted_as_missed(void **state)
{
	struct bench b = open_bench((struct analyze_config){.flows_max = 4});

	(void)state;
	for (uint32_t qpn = 2; qpn < 12; qpn++)
		SEND(&b, .opcode = OP_RC_SEND_ONLY, .qpn = qpn);
	assert_int_equal(b.a->flows.count, 4);
	assert_int_equal(b.a->missed, 6);
	finish_and_close(&b, FINDING_TABLES_FULL, 6);
}

static void path_mtu_is_that_of_full_frames(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_RC_WRITE_FIRST, .psn = 1, .payload = 512);
	SEND(&b, .opcode = OP_RC_WRITE_MIDDLE, .psn = 2, .payload = 512);
	SEND(&b, .opcode = OP_RC_WRITE_LAST, .psn = 3, .payload = 256);
	assert_int_equal(flow_to(&b, QPN_B)->path_mtu_bytes, 512);
	finish_and_close(&b, FINDING_PATH_MTU, 1);
}

/* QP pairs and CNPs */

static void feed_cm(struct bench *b, const char *name, bool damaged)
{
	const struct row *r = find_row(&cm_rows, name);
	__u8 *copy = frame_copy(r->frame, r->len);

	copy[r->len - 5] ^= damaged;
	feed(b, copy, r->len, r->len);
	frame_free(copy);
}

/* The data of cm.txt's connection, one frame in each direction. */
static void feed_connection(struct bench *b)
{
	struct {
		__u8 *at;
		uint32_t len;
	} frame = {.at = room()};
	const struct shot shots[] = {
		{.opcode = OP_RC_SEND_ONLY, .psn = 1, .qpn = 0x3344},
		{.opcode = OP_RC_ACK, .psn = 1, .qpn = 0x1122, .from_b = true},
	};

	for (size_t i = 0; i < COUNT(shots); i++) {
		__u8 *ip = frame.at + ETH_HEADER_BYTES;

		frame.len = make(frame.at, &shots[i]);
		for (int at = 12; at < 20; at += 4) { /* 10.0.0.n is 192.0.2.n there */
			ip[at] = 192;
			ip[at + 2] = 2;
		}
		mend_icrc(frame.at, frame.len);
		feed(b, frame.at, frame.len, frame.len);
	}
}

static void pair_is_learned_from_cm(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	feed_cm(&b, "req", false);
	feed_cm(&b, "rep", false);
	feed_cm(&b, "rtu", false);
	feed_connection(&b);
	feed_cm(&b, "dreq", false);
	assert_int_equal(b.a->kinds[WIRE_CM], 4);
	assert_int_equal(flow_to(&b, 0x3344)->peer_qpn, 0x1122);
	assert_int_equal(flow_to(&b, 0x1122)->peer_qpn, 0x3344);
	assert_int_equal(flow_to(&b, 0x1122)->pair_source, FLOW_PAIR_CM);
	assert_ptr_equal(analyze_reverse(b.a, flow_to(&b, 0x1122)), flow_to(&b, 0x3344));
	close_bench(&b);
}

static void pair_is_not_learned_from_damaged_cm(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	feed_cm(&b, "req", false);
	feed_cm(&b, "rep", true);
	feed_connection(&b);
	assert_int_equal(flow_to(&b, 0x3344)->peer_qpn, 0);
	close_bench(&b);
}

static void pair_is_learned_from_answers(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	for (uint32_t psn = 1; psn <= 3; psn++) {
		assert_int_equal(b.a->flows.count ? flow_to(&b, QPN_B)->pair_source : 0, 0);
		SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = psn, .ack_request = true);
		SEND(&b, .opcode = OP_RC_ACK, .psn = psn, .from_b = true);
		SEND(&b, .opcode = OP_RC_ACK, .psn = psn, .from_b = true); /* no second proof */
	}
	assert_int_equal(flow_to(&b, QPN_B)->peer_qpn, QPN_A);
	assert_int_equal(flow_to(&b, QPN_A)->peer_qpn, QPN_B);
	assert_int_equal(flow_to(&b, QPN_A)->pair_source, FLOW_PAIR_ACK);
	close_bench(&b);
}

static void pair_is_not_learned_from_answers_that_change(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	for (uint32_t psn = 1; psn <= 8; psn++) { /* by turns to two QPs, answers to one */
		SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = psn, .ack_request = true,
			.qpn = psn & 1 ? 0x21 : 0x22);
		SEND(&b, .opcode = OP_RC_ACK, .psn = psn, .from_b = true);
	}
	assert_int_equal(flow_to(&b, QPN_A)->pair_source, FLOW_PAIR_NONE);
	close_bench(&b);
}

static void cnp_counts_for_the_flow_that_it_slows_down(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	join_qps(&b);
	send_run(&b, 1, 10, TOS_CE);
	SEND(&b, .opcode = OP_CNP, .from_b = true);
	SEND(&b, .opcode = OP_CNP, .from_b = true, .at_ns = b.now_ns + 50 * US);
	SEND(&b, .opcode = OP_RC_ACK, .psn = 10, .from_b = true);
	analyze_finish(b.a);
	assert_int_equal(flow_to(&b, QPN_B)->cnp, 2);
	assert_int_equal(flow_to(&b, QPN_B)->ce, 10);
	assert_int_equal(flow_to(&b, QPN_A)->cnp, 0);
	assert_int_equal(flow_to(&b, QPN_A)->packets, 1);
	assert_int_equal(flow_to(&b, QPN_A)->cnp_interval_min_ns, 50 * US);
	assert_nothing_but(&b, FINDING_NONE);
	close_bench(&b);
}

static void cnp_too_soon_is_found(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_CNP, .from_b = true);
	SEND(&b, .opcode = OP_CNP, .from_b = true, .at_ns = b.now_ns + 4 * US);
	SEND(&b, .opcode = OP_CNP, .from_b = true, .at_ns = b.now_ns + 4 * US - 1);
	SEND(&b, .opcode = OP_CNP, .from_b = true, .qpn = 0x99, .at_ns = b.now_ns + 1);
	finish_and_close(&b, FINDING_CNP_FAST, 1);
}

static void cnp_of_another_length_is_odd(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_CNP, .from_b = true, .payload = 4);
	assert_int_equal(b.a->kinds[WIRE_CNP], 1);
	assert_int_equal(b.a->flows.count, 0);
	finish_and_close(&b, FINDING_CNP_ODD, 1);
}

/* ECN and DSCP */

static void ce_without_cnp_is_found_if_the_way_back_is_seen(void **state)
{
	struct bench b = open_bench((struct analyze_config){}),
		     c = open_bench((struct analyze_config){});

	(void)state;
	send_run(&b, 1, 3, TOS_CE);
	finish_and_close(&b, FINDING_NONE, 0);
	send_run(&c, 1, 3, TOS_CE);
	SEND(&c, .opcode = OP_RC_ACK, .psn = 3, .from_b = true);
	finish_and_close(&c, FINDING_CE_WITHOUT_CNP, 1);
}

static void ecn_of_all_ce_is_found_from_a_hundred_frames_on(void **state)
{
	struct bench b = open_bench((struct analyze_config){}),
		     c = open_bench((struct analyze_config){});

	(void)state;
	send_run(&b, 1, 99, TOS_CE);
	finish_and_close(&b, FINDING_NONE, 0);
	send_run(&c, 1, 100, TOS_CE);
	finish_and_close(&c, FINDING_ECN_ALL_CE, 1);
}

static void data_without_ect_is_found(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .not_ect = true);
	finish_and_close(&b, FINDING_NOT_ECT, 1);
}

static void data_partly_ect_is_bleached(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 2, .not_ect = true);
	analyze_finish(b.a);
	assert_int_equal(b.a->evidence[FINDING_ECN_BLEACHED].frames_count, 2);
	assert_nothing_but(&b, FINDING_ECN_BLEACHED);
	close_bench(&b);
}

static void data_ect_in_one_direction_only_is_bleached(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	join_qps(&b);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .not_ect = true, .from_b = true);
	analyze_finish(b.a);
	assert_int_equal(found(&b, FINDING_ECN_BLEACHED), 1);
	assert_int_equal(flow_to(&b, QPN_A)->noted[FINDING_ECN_BLEACHED], 1);
	close_bench(&b);
}

static void dscp_that_differs_between_directions_is_found_once(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	join_qps(&b);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1);
	SEND(&b, .opcode = OP_RC_ACK, .psn = 1, .tos = 2, .from_b = true);
	assert_true(flow_to(&b, QPN_A)->dscps == 1);
	finish_and_close(&b, FINDING_DSCP_ASYMMETRY, 1);
}

/* DSCP 26 is a class, DSCP 10 a lossy one, DSCP 46 none; ACKs go wherever they like. */
static void data_is_held_against_the_policy(void **state)
{
	static struct analyze_policy policy = {.port.flags = PORT_TRUST_DSCP, .lossy = 1 << 1};
	struct bench b = open_bench((struct analyze_config){.policy = &policy});

	(void)state;
	memset(policy.conf.dscp_class, CLASS_NONE, sizeof(policy.conf.dscp_class));
	memset(policy.conf.pcp_class, CLASS_NONE, sizeof(policy.conf.pcp_class));
	policy.conf.dscp_class[26] = 0;
	policy.conf.dscp_class[10] = 1;
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .qpn = 100, .tos = 26 << 2 | 2);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .qpn = 101, .tos = 10 << 2 | 2);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 2, .qpn = 101, .tos = 10 << 2 | 2);
	SEND(&b, .opcode = OP_RC_ACK, .psn = 1, .qpn = 102, .tos = 46 << 2 | 2, .from_b = true);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .qpn = 103, .tos = 46 << 2 | 2);
	analyze_finish(b.a);
	assert_int_equal(found(&b, FINDING_ROCE_LOSSY), 1);
	assert_int_equal(b.a->evidence[FINDING_ROCE_LOSSY].frames[0], 2);
	assert_int_equal(found(&b, FINDING_ROCE_UNCLASSED), 1);
	assert_int_equal(b.a->evidence[FINDING_ROCE_UNCLASSED].frames[0], 5);
	assert_int_equal(found(&b, FINDING_TRUST_DISAGREES), 0);
	close_bench(&b);
}

static void both_versions_between_two_hosts_are_found_once(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .qpn = 5);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .qpn = 6, .v1 = true, .from_b = true);
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .qpn = 7, .v1 = true);
	assert_int_equal(b.a->kinds[WIRE_ROCEV1], 2);
	assert_int_equal(b.a->icrc[ICRC_OK], 3);
	assert_int_equal(b.a->evidence[FINDING_V1_BESIDE_V2].frames[1], 2);
	finish_and_close(&b, FINDING_V1_BESIDE_V2, 1);
}

/* Other kinds */

static void feed_row(struct bench *b, const struct rows *rows, const char *name)
{
	const struct row *r = find_row(rows, name);

	feed(b, r->frame, r->len, r->len);
}

static void iwarp_connection_is_known_from_its_start_on(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	const struct row *segment = find_row(&format_rows, "tcp_without_payload");
	__u8 *back = frame_copy(segment->frame, segment->len);

	(void)state;
	memcpy(back + 26, segment->frame + 30, 4); /* addresses and ports the other way */
	memcpy(back + 30, segment->frame + 26, 4);
	memcpy(back + 34, segment->frame + 36, 2);
	memcpy(back + 36, segment->frame + 34, 2);
	feed_row(&b, &format_rows, "tcp_without_payload");
	assert_int_equal(b.seen.wire.kind, WIRE_OTHER);
	feed_row(&b, &format_rows, "mpa_request");
	feed_row(&b, &format_rows, "tcp_without_payload");
	assert_int_equal(b.seen.wire.kind, WIRE_IWARP);
	feed(&b, back, segment->len, segment->len);
	assert_int_equal(b.seen.wire.kind, WIRE_IWARP);
	back[37] ^= 1; /* another connection */
	feed(&b, back, segment->len, segment->len);
	assert_int_equal(b.seen.wire.kind, WIRE_OTHER);
	assert_int_equal(b.a->kinds[WIRE_IWARP], 3);
	frame_free(back);
	finish_and_close(&b, FINDING_NONE, 0);
}

static void tunnel_tells_inner_and_outer_ecn_apart(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	const struct analyze_flow *flow;

	(void)state;
	feed_row(&b, &format_rows, "tunnel_outer_not_inner_ect");
	flow = flow_to(&b, 0x112233);
	assert_int_equal(b.a->tunnels[TUNNEL_VXLAN], 1);
	assert_int_equal(b.a->icrc[ICRC_OK], 1);
	assert_int_equal(flow->tunnels, 1 << TUNNEL_VXLAN);
	assert_int_equal(flow->data_ecn[2], 1);
	assert_int_equal(flow->outer_ecn[ECN_NOT_ECT], 1);
	finish_and_close(&b, FINDING_TUNNEL_NOT_ECT, 1);
}

static void tunnel_with_outer_ce_is_not_the_flows_ce(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	feed_row(&b, &format_rows, "tunnel_only_outer_ce");
	assert_int_equal(flow_to(&b, 0x112233)->ce, 0);
	assert_int_equal(flow_to(&b, 0x112233)->outer_ecn[ECN_CE], 1);
	feed_row(&b, &format_rows, "tunnel_only_inner_ce");
	assert_int_equal(flow_to(&b, 0x112233)->ce, 1);
	close_bench(&b);
}

static void feed_infiniband(struct bench *b, const __u8 *packet, uint32_t len)
{
	__u32 aligned[64];
	const struct analyze_frame frame = {
		.number = ++b->number,
		.time_ns = b->now_ns,
		.data = memcpy(aligned, packet, len),
		.len = len,
		.wire_len = len,
		.link = FRAME_INFINIBAND,
	};

	assert_true(len <= sizeof(aligned));
	analyze_take(b->a, &frame, &b->seen);
}

/* Frame 11 of infiniband.pcap: an ACK, with its VCRC. */
static const __u8 native_ack[] = {
	0x00,
	0x02,
	0x00,
	0x04,
	0x00,
	0x07,
	0x00,
	0x01,
	0x11,
	0x40,
	0xff,
	0xff,
	0x00,
	0x87,
	0x04,
	0x08,
	0x00,
	0xd4,
	0x0a,
	0x55,
	0x1f,
	0x00,
	0x00,
	0x01,
	0xa8,
	0x03,
	0x55,
	0x50,
	0x30,
	0x81,
};

static void infiniband_packet_is_read_through_its_lrh(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	__u8 copy[sizeof(native_ack)];

	(void)state;
	feed_infiniband(&b, native_ack, sizeof(native_ack));
	assert_int_equal(b.seen.wire.kind, WIRE_INFINIBAND);
	assert_int_equal(b.seen.wire.opcode, OP_RC_ACK);
	assert_int_equal(b.seen.wire.psn, 13896277);
	assert_int_equal(b.seen.icrc, ICRC_OK);
	assert_int_equal(flow_to(&b, 0x870408)->operations[OPERATION_ACK], 1);
	memcpy(copy, native_ack, sizeof(copy));
	copy[0] ^= 0xf0; /* the virtual lane may change on the way */
	feed_infiniband(&b, copy, sizeof(copy));
	assert_int_equal(b.seen.icrc, ICRC_OK);
	copy[3] ^= 1; /* the LID may not */
	feed_infiniband(&b, copy, sizeof(copy));
	assert_int_equal(b.seen.icrc, ICRC_BAD);
	for (uint32_t len = 0; len < LRH_BYTES + BTH_BYTES; len++) {
		feed_infiniband(&b, native_ack, len);
		assert_int_equal(b.seen.wire.kind, WIRE_TRUNCATED);
	}
	close_bench(&b);
}

static void infiniband_raw_packet_has_no_transport(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	__u8 copy[sizeof(native_ack)];

	(void)state;
	memcpy(copy, native_ack, sizeof(copy));
	copy[1] &= ~3; /* LNH: raw */
	feed_infiniband(&b, copy, sizeof(copy));
	assert_int_equal(b.seen.wire.kind, WIRE_INFINIBAND);
	assert_int_equal(b.seen.icrc, ICRC_NONE);
	assert_int_equal(b.a->flows.count, 0);
	finish_and_close(&b, FINDING_NONE, 0);
}

/* Pauses */

static void pause_priority(struct bench *b, uint8_t classes, uint16_t quanta, uint64_t after_ns)
{
	const __u16 times[8] = {[0 ... 7] = quanta};

	wire_build_pfc(room(), (const __u8[6]){2, 0, 0, 0, 0, 9}, classes, times);
	b->now_ns += after_ns;
	feed(b, room(), MAC_CONTROL_FRAME_BYTES, MAC_CONTROL_FRAME_BYTES);
}

static const struct pause_row *pause_row(const struct bench *b, int row)
{
	return &((const struct pauser *)table_at(&b->a->pausers, 0))->row[row];
}

static void pause_renewed_without_end_is_a_storm(void **state)
{
	struct bench b = open_bench((struct analyze_config){.speed_bps = 100000000000});
	char text[ANALYZE_TEXT_BYTES];

	(void)state;
	for (int i = 0; i < 1000; i++) /* 335 us at 100 Gbit/s */
		pause_priority(&b, 0x08, 0xffff, 300 * US);
	assert_int_equal(pause_row(&b, 3)->xoff, 1000);
	assert_int_equal(pause_row(&b, 4)->xoff, 0);
	assert_int_equal(pause_row(&b, 3)->paused_ns, 999 * 300 * US);
	analyze_finding_text(b.a, FINDING_PAUSE_STORM, text, sizeof(text));
	assert_non_null(strstr(text, "299 ms, by 02:00:00:00:00:09 for priority 3"));
	finish_and_close(&b, FINDING_PAUSE_STORM, 1);
}

static void pause_that_nothing_ends_holds_until_it_runs_out_or_the_capture_ends(void **state)
{
	struct bench b = open_bench((struct analyze_config){.speed_bps = 1000000000});

	(void)state;
	pause_priority(&b, 0x08, 0xffff, 0); /* 33.5 ms at 1 Gbit/s */
	pause_priority(&b, 0x10, 0xffff, 10 * 1000 * US);
	b.a->last_ns += 10 * 1000 * US;
	analyze_finish(b.a);
	assert_int_equal(pause_row(&b, 3)->paused_ns, 20 * 1000 * US);
	assert_int_equal(pause_row(&b, 4)->paused_ns, 10 * 1000 * US);
	close_bench(&b);
	b = open_bench((struct analyze_config){.speed_bps = 1000000000});
	pause_priority(&b, 0x08, 0xffff, 0);
	b.a->last_ns += 1000 * 1000 * US;
	analyze_finish(b.a);
	assert_int_equal(pause_row(&b, 3)->paused_ns, 0xffffull * 512);
	assert_int_equal(pause_row(&b, 3)->longest_ns, 0xffffull * 512);
	close_bench(&b);
}

static void pause_that_runs_out_is_no_storm(void **state)
{
	struct bench b = open_bench((struct analyze_config){.speed_bps = 100000000000});

	(void)state;
	for (int i = 0; i < 1000; i++)
		pause_priority(&b, 0x08, 0xffff, 400 * US);
	assert_int_equal(pause_row(&b, 3)->longest_ns, 335539);
	finish_and_close(&b, FINDING_NONE, 0);
}

static void pause_without_known_speed_counts_what_renewals_prove(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	for (int i = 0; i < 20; i++)
		pause_priority(&b, 0x08, 0xffff, 30 * MS); /* 33.5 ms at 1 Gbit/s */
	assert_int_equal(pause_row(&b, 3)->longest_ns, 570 * MS);
	pause_priority(&b, 0x08, 0xffff, 1000 * MS);
	assert_int_equal(pause_row(&b, 3)->longest_ns, 570 * MS);
	finish_and_close(&b, FINDING_PAUSE_STORM, 1);
}

static void xon_ends_a_pause(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	for (int i = 0; i < 100; i++) {
		pause_priority(&b, 0x18, 0xffff, 5 * MS);
		pause_priority(&b, 0x18, 0, 5 * MS);
	}
	assert_int_equal(pause_row(&b, 3)->xon, 100);
	assert_int_equal(pause_row(&b, 4)->xoff, 100);
	assert_int_equal(pause_row(&b, 4)->longest_ns, 5 * MS);
	finish_and_close(&b, FINDING_NONE, 0);
}

static void pfc_that_enables_no_class_pauses_none(void **state)
{
	struct bench b = open_bench((struct analyze_config){});

	(void)state;
	pause_priority(&b, 0, 0xffff, MS);
	put_be16(room() + 18, 0xffff); /* the time of priority 0, which is not enabled */
	feed(&b, room(), MAC_CONTROL_FRAME_BYTES, MAC_CONTROL_FRAME_BYTES);
	for (int i = 0; i < PAUSE_ROWS; i++)
		assert_int_equal(pause_row(&b, i)->xoff, 0);
	assert_int_equal(b.a->kinds[WIRE_PFC], 2);
	finish_and_close(&b, FINDING_NONE, 0);
}

static void link_pause(struct bench *b)
{
	wire_build_pfc(room(), (const __u8[6]){2, 0, 0, 0, 0, 9}, 0, (const __u16[8]){});
	put_be16(room() + 14, MAC_CONTROL_PAUSE);
	put_be16(room() + 16, 0xffff);
	feed(b, room(), MAC_CONTROL_FRAME_BYTES, MAC_CONTROL_FRAME_BYTES);
}

static void link_pause_is_found_only_beside_pfc(void **state)
{
	struct bench b = open_bench((struct analyze_config){}),
		     c = open_bench((struct analyze_config){});

	(void)state;
	link_pause(&b);
	assert_int_equal(b.a->kinds[WIRE_PAUSE], 1);
	assert_int_equal(pause_row(&b, PAUSE_LINK)->xoff, 1);
	finish_and_close(&b, FINDING_NONE, 0);
	link_pause(&c);
	pause_priority(&c, 0x08, 1, MS);
	finish_and_close(&c, FINDING_LINK_PAUSE_BESIDE_PFC, 1);
}

/* Fragments */

static void first_fragment_to_the_roce_port_is_found(void **state)
{
	static const struct {
		const struct rows *rows;
		const char *name;
		bool found;
	} rows[] = {
		{&frame_rows, "v4_first_fragment", true},
		{&frame_rows, "v4_middle_fragment", false},
		{&frame_rows, "v4_tcp_fragment", false},
		{&frame_rows, "v6_fragment", true},
		{&frame_rows, "v6_fragment_not_first", false},
		{&frame_rows, "vlan_first_fragment", true},
		{&format_rows, "first_fragment_too_short_for_udp", true},
		{&format_rows, "later_fragment_spells_roce_ports", false},
		{&format_rows, "v6_later_fragment_spells_roce_ports", false},
		{&format_rows, "v6_first_fragment_with_whole_bth", true},
		{&format_rows, "v6_fragment_behind_hop_by_hop", false},
		{&format_rows, "in_vxlan_fragment", false},
		{&format_rows, "fragment_of_vxlan", false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct bench b = open_bench((struct analyze_config){});

		feed_row(&b, rows[i].rows, rows[i].name);
		assert_int_equal(b.a->kinds[WIRE_FRAGMENT], 1);
		if (found(&b, FINDING_ROCE_FRAGMENT) != rows[i].found)
			fail_msg("%s", rows[i].name);
		close_bench(&b);
	}
}

/* The time series */

struct sum {
	uint64_t packets, bytes, ce, cnp, xoff, rows, last_ns;
	uint64_t whole_packets, whole_cnp;
};

static void add_row(void *arg, const struct series_row *row)
{
	struct sum *sum = arg;

	assert_true(row->time_ns >= sum->last_ns);
	assert_int_equal(row->time_ns % row->interval_ns, 0);
	sum->last_ns = row->time_ns;
	if (row->record) {
		sum->packets += row->sample.packets;
		sum->bytes += row->sample.bytes;
		sum->ce += row->sample.ce;
		sum->cnp += row->sample.cnp;
		sum->rows++;
	} else {
		sum->whole_packets += row->sample.packets;
		sum->whole_cnp += row->sample.cnp;
		sum->xoff += row->xoff;
	}
}

static void series_adds_up_to_the_flows(void **state)
{
	struct sum sum = {};
	struct bench b = open_bench(
		(struct analyze_config){.interval_ns = MS, .emit = add_row, .emit_arg = &sum});

	(void)state;
	join_qps(&b);
	send_run(&b, 1, 250, TOS_CE); /* 2.5 ms */
	SEND(&b, .opcode = OP_CNP, .from_b = true);
	pause_priority(&b, 0x08, 9, 0);
	b.now_ns += 3600000 * MS; /* an hour of silence is no hour of rows */
	send_run(&b, 251, 260, TOS_ECT0);
	analyze_finish(b.a);
	assert_int_equal(sum.packets, 260);
	assert_int_equal(sum.whole_packets, 260);
	assert_int_equal(sum.bytes, flow_to(&b, QPN_B)->bytes);
	assert_int_equal(sum.ce, 250);
	assert_int_equal(sum.cnp, 1);
	assert_int_equal(sum.whole_cnp, 1);
	assert_int_equal(sum.xoff, 1);
	assert_true(sum.rows < 10);
	close_bench(&b);
}

/* Words */

static void finding_text_fits_its_count(void **state)
{
	struct bench b = open_bench((struct analyze_config){});
	char text[ANALYZE_TEXT_BYTES];

	(void)state;
	SEND(&b, .opcode = OP_RC_SEND_ONLY, .psn = 1, .not_ect = true);
	analyze_finish(b.a);
	analyze_finding_text(b.a, FINDING_NOT_ECT, text, sizeof(text));
	assert_string_equal(text,
		"1 flow of RoCEv2 data was Not-ECT: switches cannot mark, only drop or "
		"pause (10.0.0.1 > 10.0.0.2 QP 0x000012)");
	analyze_finding_text(b.a, FINDING_PSN_GAP, text, sizeof(text));
	assert_string_equal(text, "");
	close_bench(&b);
}

static void every_finding_text_is_whole(void **state)
{
	char text[ANALYZE_TEXT_BYTES];

	(void)state;
	for (int id = 0; id < FINDING_COUNT; id++)
		for (uint64_t count = 1; count < 3; count++) {
			const struct evidence e = {.count = count * 1234567, .value = 1234};

			finding_format(id, &e, "detail", text, sizeof(text));
			assert_null(strpbrk(text, "{}|"));
			assert_true(strlen(text) + 300 < sizeof(text));
			assert_true(id == FINDING_PATH_MTU || id == FINDING_PAUSE_STORM ||
				    strstr(text, count == 1 ? "1,234,567" : "2,469,134"));
		}
}

/* Captures, whole and damaged */

struct image {
	char name[256];
	uint8_t *bytes;
	size_t len;
};

static struct image images[64];
static size_t images_count;

static void read_image(const char *name)
{
	struct image *image = &images[images_count++];
	char path[512];
	FILE *file;

	assert_true(images_count < COUNT(images));
	snprintf(image->name, sizeof(image->name), "%s", name);
	snprintf(path, sizeof(path), CAPTURES "/%s", name);
	file = fopen(path, "rb");
	assert_non_null(file);
	image->bytes = malloc(CAPTURE_BYTES_MAX);
	image->len = fread(image->bytes, 1, CAPTURE_BYTES_MAX, file);
	assert_true(image->len > 0 && image->len < CAPTURE_BYTES_MAX);
	fclose(file);
}

static int read_all_inputs(void **state)
{
	DIR *directory = opendir(CAPTURES);
	struct dirent *entry;

	assert_non_null(directory);
	while ((entry = readdir(directory)))
		if (strstr(entry->d_name, ".pcap"))
			read_image(entry->d_name);
	closedir(directory);
	assert_true(images_count > 0);
	return read_vectors(state);
}

static int free_all_inputs(void **state)
{
	for (size_t i = 0; i < images_count; i++)
		free(images[i].bytes);
	return free_vectors(state);
}

static void discard_row(void *arg, const struct series_row *row)
{
	analyze_csv_row(arg, row);
}

/* Analyze what fd holds as the command does, with all its outputs; returns the frames. */
static uint64_t analyze_descriptor(int fd, FILE *sink)
{
	struct bench b = open_bench((struct analyze_config){
		.interval_ns = MS, .emit = discard_row, .emit_arg = sink, .flows_max = 64});
	const struct analyze_source source = {.name = "image", .link = "any"};
	struct analyze_frame frame;
	struct capture *capture;
	struct qerr err = {};
	uint64_t frames = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!capture_open_file(path, &capture, &err)) {
		while (capture_next(capture, &frame, &err) == CAPTURE_FRAME) {
			analyze_take(b.a, &frame, &b.seen);
			analyze_frames_row(sink, &frame, &b.seen);
			frames++;
		}
		capture_close(capture);
	}
	analyze_finish(b.a);
	assert_int_equal(b.a->frames, frames);
	assert_int_equal(analyze_print(sink, b.a, &source), 0);
	json_decref(analyze_json(b.a, &source));
	close_bench(&b);
	return frames;
}

static uint64_t analyze_bytes(const uint8_t *bytes, size_t len)
{
	int fd = memfd_create("capture", 0);
	FILE *sink = fopen("/dev/null", "w");
	uint64_t frames;

	assert_non_null(sink);
	assert_int_equal(write(fd, bytes, len), len);
	frames = analyze_descriptor(fd, sink);
	fclose(sink);
	close(fd);
	return frames;
}

/* QUENCH_FLIPS damages each capture as often; more than the default is for long runs. */
static unsigned long flips(void)
{
	const char *text = getenv("QUENCH_FLIPS");

	return text ? strtoul(text, NULL, 10) : 500;
}

/* Damage up to four bytes, mostly near each other's place in the headers of files and frames. */
static void damage(uint8_t *bytes, size_t len, __u32 *random)
{
	for (__u32 n = next_random(random) % 4 + 1; n; n--)
		bytes[next_random(random) % len] = next_random(random);
}

static void damaged_captures_end_well(void **state)
{
	uint8_t *copy = malloc(CAPTURE_BYTES_MAX);
	__u32 random = 2463534242u;

	(void)state;
	for (size_t i = 0; i < images_count; i++) {
		assert_true(analyze_bytes(images[i].bytes, images[i].len) > 0);
		for (unsigned long n = 0; n < flips(); n++) {
			memcpy(copy, images[i].bytes, images[i].len);
			damage(copy, images[i].len, &random);
			analyze_bytes(copy, images[i].len);
		}
	}
	free(copy);
}

static void captures_cut_anywhere_end_well(void **state)
{
	(void)state;
	for (size_t i = 0; i < images_count; i++)
		for (size_t len = 0; len < images[i].len; len += len < 200 ? 1 : 97)
			analyze_bytes(images[i].bytes, len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_full_refuses_only_new_keys),
		cmocka_unit_test(psn_in_every_position_gives_its_step),
		cmocka_unit_test(psn_jump_counts_what_is_missing),
		cmocka_unit_test(icrc_of_every_vector_is_judged_right),
		cmocka_unit_test(every_vector_is_counted_as_its_kind),
		cmocka_unit_test(damaged_vectors_with_right_icrc_end_well),
		cmocka_unit_test(mad_of_another_class_is_no_cm_message),
		cmocka_unit_test(icrc_bad_frame_makes_no_flow_and_no_nak),
		cmocka_unit_test(icrc_bad_is_found_with_its_frame),
		cmocka_unit_test(cut_frame_is_unverifiable),
		cmocka_unit_test(frame_shorter_than_it_says_is_found),
		cmocka_unit_test(plain_flow_finds_nothing),
		cmocka_unit_test(psn_gap_is_found_where_it_is),
		cmocka_unit_test(go_back_counts_every_frame_that_came_before),
		cmocka_unit_test(overtaken_frame_is_out_of_order),
		cmocka_unit_test(frame_resent_after_loss_is_a_retransmission),
		cmocka_unit_test(copy_within_microseconds_is_a_duplicate),
		cmocka_unit_test(few_quick_copies_are_retransmissions),
		cmocka_unit_test(sender_that_goes_back_at_once_retransmits),
		cmocka_unit_test(psn_far_away_is_another_connection),
		cmocka_unit_test(same_psn_with_another_ip_id_is_a_retransmission),
		cmocka_unit_test(read_takes_the_psns_of_its_answer),
		cmocka_unit_test(read_sent_again_is_a_retransmission),
		cmocka_unit_test(read_data_flows_from_the_responder),
		cmocka_unit_test(read_response_with_a_hole_is_a_gap),
		cmocka_unit_test(datagrams_have_no_gaps),
		cmocka_unit_test(nak_of_each_code_is_its_own_finding),
		cmocka_unit_test(unknown_opcode_makes_no_flow),
		cmocka_unit_test(flow_without_room_is_counted_as_missed),
		cmocka_unit_test(path_mtu_is_that_of_full_frames),
		cmocka_unit_test(pair_is_learned_from_cm),
		cmocka_unit_test(pair_is_not_learned_from_damaged_cm),
		cmocka_unit_test(pair_is_learned_from_answers),
		cmocka_unit_test(pair_is_not_learned_from_answers_that_change),
		cmocka_unit_test(cnp_counts_for_the_flow_that_it_slows_down),
		cmocka_unit_test(cnp_too_soon_is_found),
		cmocka_unit_test(cnp_of_another_length_is_odd),
		cmocka_unit_test(ce_without_cnp_is_found_if_the_way_back_is_seen),
		cmocka_unit_test(ecn_of_all_ce_is_found_from_a_hundred_frames_on),
		cmocka_unit_test(data_without_ect_is_found),
		cmocka_unit_test(data_partly_ect_is_bleached),
		cmocka_unit_test(data_ect_in_one_direction_only_is_bleached),
		cmocka_unit_test(dscp_that_differs_between_directions_is_found_once),
		cmocka_unit_test(data_is_held_against_the_policy),
		cmocka_unit_test(both_versions_between_two_hosts_are_found_once),
		cmocka_unit_test(iwarp_connection_is_known_from_its_start_on),
		cmocka_unit_test(tunnel_tells_inner_and_outer_ecn_apart),
		cmocka_unit_test(tunnel_with_outer_ce_is_not_the_flows_ce),
		cmocka_unit_test(infiniband_packet_is_read_through_its_lrh),
		cmocka_unit_test(infiniband_raw_packet_has_no_transport),
		cmocka_unit_test(pause_renewed_without_end_is_a_storm),
		cmocka_unit_test(pause_that_runs_out_is_no_storm),
		cmocka_unit_test(
			pause_that_nothing_ends_holds_until_it_runs_out_or_the_capture_ends),
		cmocka_unit_test(pause_without_known_speed_counts_what_renewals_prove),
		cmocka_unit_test(xon_ends_a_pause),
		cmocka_unit_test(pfc_that_enables_no_class_pauses_none),
		cmocka_unit_test(link_pause_is_found_only_beside_pfc),
		cmocka_unit_test(first_fragment_to_the_roce_port_is_found),
		cmocka_unit_test(series_adds_up_to_the_flows),
		cmocka_unit_test(finding_text_fits_its_count),
		cmocka_unit_test(every_finding_text_is_whole),
		cmocka_unit_test(damaged_captures_end_well),
		cmocka_unit_test(captures_cut_anywhere_end_well),
	};

	return cmocka_run_group_tests(tests, read_all_inputs, free_all_inputs);
}
