// SPDX-License-Identifier: BSD-2-Clause
// The frame parser against the vectors, against truncation at every byte, and against damage.
#include "vectors/vectors.h"

#include "quench/build.h"

enum { DAMAGED_FRAMES = 100000 };

static bool has_bth(const struct wire_frame *f)
{
	return wire_is_roce(f->kind) || f->kind == WIRE_CNP || f->kind == WIRE_CM ||
	       f->kind == WIRE_UNKNOWN_OPCODE;
}

/* The bytes that the parser read of the BTH and of the AETH right behind it. */
static size_t transport_bytes(const struct wire_frame *f)
{
	bool ack = f->opcode == OP_RC_ACK || f->opcode == OP_RC_ATOMIC_ACK;

	return BTH_BYTES + (ack && wire_is_roce(f->kind) ? AETH_BYTES : 0);
}

/* What holds for every frame, however damaged: NULL, or what does not hold. */
static const char *broken_promise(const struct wire_frame *f, size_t len)
{
	size_t transport_end = f->bth_off + transport_bytes(f);

	if (f->kind >= WIRE_KIND_COUNT)
		return "a kind that is none";
	if (f->l3_off > len || f->l4_off > len)
		return "a header past the end";
	if (has_bth(f) && (!f->bth_off || transport_end > len))
		return "a BTH past the end";
	if (has_bth(f) && f->icrc_off < transport_end)
		return "an ICRC inside the headers";
	if ((f->kind == WIRE_ROCEV1) != (wire_is_roce(f->kind) && f->l3 == L3_GRH))
		return "a GRH and RoCEv2";
	if ((f->kind == WIRE_PFC || f->kind == WIRE_PAUSE) &&
		f->mac_control_off + sizeof(struct wire_mac_control) > len)
		return "pause times past the end";
	if (f->psn > BTH_PSN_MASK || f->key.dst_qpn > BTH_QPN_MASK || f->key.zero)
		return "a QPN or PSN of more than 24 bits";
	if (f->tags > WIRE_TAGS_MAX || (f->pcp > 7) != (f->tags == 0))
		return "a PCP without a tag, or more tags than there may be";
	return NULL;
}

static void assert_promises(const char *name, const __u8 *frame, size_t len)
{
	struct wire_frame f = parse(frame, len);
	const char *broken = broken_promise(&f, len);

	if (broken)
		fail_msg("%s, %zu bytes, as %s: %s", name, len, kind_names[f.kind], broken);
}

static bool icrc_matches(const struct row *r, const struct wire_frame *f)
{
	__u32 icrc = wire_icrc(r->frame, f);
	__u8 wire[ICRC_BYTES] = {icrc, icrc >> 8, icrc >> 16, icrc >> 24};

	return f->icrc_off + (size_t)ICRC_BYTES <= r->len &&
	       !memcmp(wire, r->frame + f->icrc_off, ICRC_BYTES);
}

/* Kind of a vector; the caller counts what is wrong so that one run shows all of them. */
static int kind_differs(const struct row *r, const char *want, const struct wire_frame *f)
{
	if (!strcmp(kind_names[f->kind], want))
		return 0;
	print_error("%s is %s, not %s\n", r->field[0], kind_names[f->kind], want);
	return 1;
}

static void parse_icrc_vector_gives_its_fields(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < icrc_rows.count; i++) {
		const struct row *r = &icrc_rows.row[i];
		struct wire_frame f = parse(r->frame, r->len);

		assert_int_equal(kind_differs(r, r->field[1], &f), 0);
		assert_int_equal(f.opcode, number(r->field[2]));
		assert_int_equal(f.key.dst_qpn, number(r->field[3]));
		assert_int_equal(f.psn, number(r->field[4]));
		assert_int_equal(f.tos & ECN_MASK, number(r->field[5]));
		assert_int_equal(wire_is_ce(f.tos), number(r->field[5]) == ECN_CE);
		assert_int_equal(f.icrc_off, r->len - ICRC_BYTES);
		assert_int_equal(f.pkey, 0xffff);
	}
}

static void parse_frame_vector_gives_its_kind(void **state)
{
	int wrong = 0;
	size_t i;

	(void)state;
	for (i = 0; i < frame_rows.count; i++) {
		const struct row *r = &frame_rows.row[i];
		struct wire_frame f = parse(r->frame, r->len);

		wrong += kind_differs(r, r->field[1], &f);
	}
	assert_int_equal(wrong, 0);
}

static void icrc_of_every_vector_matches(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < icrc_rows.count; i++) {
		const struct row *r = &icrc_rows.row[i];
		struct wire_frame f = parse(r->frame, r->len);
		__u32 icrc = wire_icrc(r->frame, &f);
		char hex[2 * ICRC_BYTES + 1];

		snprintf(hex, sizeof(hex), "%02x%02x%02x%02x", icrc & 0xff, icrc >> 8 & 0xff,
			icrc >> 16 & 0xff, icrc >> 24);
		assert_string_equal(hex, r->field[6]);
		assert_true(icrc_matches(r, &f));
	}
	for (i = 0; i < cm_rows.count; i++) {
		const struct row *r = &cm_rows.row[i];
		struct wire_frame f = parse(r->frame, r->len);

		assert_true(icrc_matches(r, &f));
	}
}

static void icrc_of_every_whole_roce_frame_matches(void **state)
{
	size_t i, matched = 0;

	(void)state;
	for (i = 0; i < frame_rows.count; i++) {
		const struct row *r = &frame_rows.row[i];
		struct wire_frame f = parse(r->frame, r->len);

		assert_promises(r->field[0], r->frame, r->len);
		if (!has_bth(&f) || f.icrc_off + (size_t)ICRC_BYTES > r->len)
			continue;
		if (!icrc_matches(r, &f))
			fail_msg("%s: another ICRC", r->field[0]);
		matched++;
	}
	assert_true(matched > 50);
}

/*
 * A frame cut short is a truncated one, until there is enough of it to say what the whole is; MAC
 * control without room for its fields is a frame without effect.
 */
static void assert_cut(const struct row *r, enum wire_kind whole, size_t len, bool *told)
{
	__u8 *frame = frame_copy(r->frame, len);
	struct wire_frame f = parse(frame, len);
	bool expected = f.kind == whole || f.kind == WIRE_TRUNCATED ||
			(f.kind == WIRE_MAC_CONTROL && (whole == WIRE_PFC || whole == WIRE_PAUSE));

	if (!expected || (*told && f.kind != whole))
		fail_msg("%s cut to %zu is %s", r->field[0], len, kind_names[f.kind]);
	*told = f.kind == whole && whole != WIRE_TRUNCATED;
	assert_promises(r->field[0], frame, len);
	frame_free(frame);
}

static void parse_cut_frame_stays_inside(void **state)
{
	size_t i, j, len;

	(void)state;
	for (i = 0; i < COUNT(all_rows); i++)
		for (j = 0; j < all_rows[i]->count; j++) {
			const struct row *r = &all_rows[i]->row[j];
			struct wire_frame f = parse(r->frame, r->len);
			bool told = false;

			for (len = 0; len <= r->len; len++)
				assert_cut(r, f.kind, len, &told);
		}
}

static void parse_each_byte_changed_keeps_promises(void **state)
{
	static const __u8 values[] = {0x00, 0x01, 0x0f, 0x40, 0x7f, 0x80, 0xf0, 0xff};
	size_t i, j, at, v;

	(void)state;
	for (i = 0; i < COUNT(all_rows); i++)
		for (j = 0; j < all_rows[i]->count; j++) {
			struct row *r = &all_rows[i]->row[j];

			for (at = 0; at < r->len; at++) {
				__u8 was = r->frame[at];

				for (v = 0; v < COUNT(values); v++) {
					r->frame[at] = values[v];
					assert_promises(r->field[0], r->frame, r->len);
				}
				r->frame[at] = was;
			}
		}
}

static void parse_damaged_frame_keeps_promises(void **state)
{
	__u32 seed = 4791;
	int i, changes;

	(void)state;
	for (i = 0; i < DAMAGED_FRAMES; i++) {
		const struct rows *rows = all_rows[next_random(&seed) % COUNT(all_rows)];
		const struct row *r = &rows->row[next_random(&seed) % rows->count];
		size_t len = next_random(&seed) % (r->len + 1);
		__u8 *frame = frame_copy(r->frame, len);

		for (changes = next_random(&seed) % 5; changes && len; changes--)
			frame[next_random(&seed) % len] = next_random(&seed) >> 8;
		assert_promises(r->field[0], frame, len);
		frame_free(frame);
	}
}

/* The lengths of a short frame may claim anything: no offset may wrap round. */
static void parse_any_ipv4_length_keeps_promises(void **state)
{
	const struct row *r = find_row(&frame_rows, "v4_send_only");
	__u8 *frame = frame_copy(r->frame, r->len);
	__u32 total, udp;

	(void)state;
	for (total = IPV4_MIN_BYTES + UDP_HEADER_BYTES; total <= 0xffff; total++) {
		udp = total - IPV4_MIN_BYTES;
		frame[16] = total >> 8;
		frame[17] = total;
		frame[38] = udp >> 8;
		frame[39] = udp;
		assert_promises("v4_send_only with another length", frame, r->len);
	}
	frame_free(frame);
}

static void parse_ipv4_addresses_are_mapped(void **state)
{
	const struct row *r = find_row(&frame_rows, "v4_send_only");
	struct wire_frame f = parse(r->frame, r->len);
	static const __u8 src[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};
	static const __u8 dst[16] = {[10] = 0xff, 0xff, 192, 0, 2, 2};

	(void)state;
	assert_memory_equal(f.key.src, src, sizeof(src));
	assert_memory_equal(f.key.dst, dst, sizeof(dst));
	assert_int_equal(f.udp_src, htons(0xd00d));
	assert_int_equal(f.l3_off, 14);
	assert_int_equal(f.l4_off, 34);
	assert_int_equal(f.bth_off, 42);
	assert_int_equal(f.tos, 0x6a);
	assert_int_equal(f.tags, 0);
	assert_int_equal(f.pcp, WIRE_PCP_NONE);
}

static void parse_ipv6_and_grh_addresses_are_taken_as_they_are(void **state)
{
	static const char *const names[] = {"v6_send_only", "v1_send_only"};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(names); i++) {
		const struct row *r = find_row(&frame_rows, names[i]);
		struct wire_frame f = parse(r->frame, r->len);

		assert_memory_equal(f.key.src, r->frame + 22, 16);
		assert_memory_equal(f.key.dst, r->frame + 38, 16);
		assert_int_equal(f.tos, 0x6a);
	}
}

static void parse_options_are_stepped_over(void **state)
{
	char name[16];
	int ihl;

	(void)state;
	for (ihl = 6; ihl <= 15; ihl++) {
		const struct row *r;
		struct wire_frame f;

		snprintf(name, sizeof(name), "v4_ihl_%d", ihl);
		r = find_row(&frame_rows, name);
		f = parse(r->frame, r->len);
		assert_int_equal(f.l4_off, 14 + 4 * ihl);
		assert_int_equal(f.key.dst_qpn, 0x112233);
	}
}

static void parse_ack_gives_its_syndrome(void **state)
{
	static const struct {
		const char *name;
		__u8 syndrome;
	} acks[] = {{"gen_v4_ack", 0x1f}, {"gen_v4_nak_psn_seq", AETH_NAK_PSN_SEQUENCE}};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(acks); i++) {
		const struct row *r = find_row(&icrc_rows, acks[i].name);
		struct wire_frame f = parse(r->frame, r->len);

		assert_int_equal(f.syndrome, acks[i].syndrome);
	}
}

static void parse_tags_give_the_outer_pcp(void **state)
{
	static const struct {
		const char *name;
		__u8 pcp, tags;
	} tagged[] = {
		{"vlan_vid_0_pcp_3", 3, 1},
		{"vlan_vid_4095_pcp_7_dei", 7, 1},
		{"vlan_cnp", 6, 1},
		{"qinq_v4", 3, 2},
		{"two_customer_tags", 3, 2},
		{"vlan_arp", 3, 1},
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(tagged); i++) {
		const struct row *r = find_row(&frame_rows, tagged[i].name);
		struct wire_frame f = parse(r->frame, r->len);

		assert_int_equal(f.pcp, tagged[i].pcp);
		assert_int_equal(f.tags, tagged[i].tags);
	}
}

/* As a tc hook sees it: the outer tag is not in the bytes. */
static struct wire_frame parse_offloaded(const char *name, __u8 pcp)
{
	const struct row *r = find_row(&frame_rows, name);
	struct wire_frame f;

	wire_frame_init(&f);
	f.tags = 1;
	f.pcp = pcp;
	wire_parse(r->frame, r->frame + r->len, &f);
	return f;
}

static void parse_offloaded_tag_keeps_its_pcp(void **state)
{
	struct wire_frame f = parse_offloaded("v4_send_only", 5);

	(void)state;
	assert_int_equal(f.kind, WIRE_ROCEV2);
	assert_int_equal(f.pcp, 5);
	assert_int_equal(f.tags, 1);
	f = parse_offloaded("vlan_vid_0_pcp_3", 5);
	assert_int_equal(f.kind, WIRE_ROCEV2);
	assert_int_equal(f.pcp, 5);
	assert_int_equal(f.tags, 2);
}

static void parse_offloaded_tag_counts_toward_the_most(void **state)
{
	(void)state;
	assert_int_equal(parse_offloaded("qinq_v4", 5).kind, WIRE_TOO_MANY_TAGS);
}

static void parse_tagged_pause_is_none(void **state)
{
	(void)state;
	assert_int_equal(parse_offloaded("pfc_prio3_forever", 0).kind, WIRE_OTHER);
	assert_int_equal(parse_offloaded("pause_forever", 0).kind, WIRE_OTHER);
}

static void parse_pfc_fields_are_where_the_standard_puts_them(void **state)
{
	const struct row *r = find_row(&frame_rows, "uts_pfc");
	struct wire_frame f = parse(r->frame, r->len);
	const struct wire_mac_control *m = (const void *)(r->frame + f.mac_control_off);

	(void)state;
	assert_int_equal(m->classes, htons(0x0021));
	assert_int_equal(m->time[0], htons(0x4321));
	assert_int_equal(m->time[5], htons(0x1234));
}

struct opcodes {
	__u8 first, last;
};

static bool in_list(const struct opcodes *list, size_t count, __u8 opcode)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (opcode >= list[i].first && opcode <= list[i].last)
			return true;
	return false;
}

static void opcode_is_known_as_the_standard_lists_it(void **state)
{
	static const struct opcodes defined[] = {
		{0x00, 0x14}, {0x16, 0x17}, {0x1c, 0x1d}, /* RC */
		{0x20, 0x2b},				  /* UC */
		{0x40, 0x55}, {0x5c, 0x5c},		  /* RD */
		{0x64, 0x65},				  /* UD */
		{0x81, 0x81},				  /* CNP */
		{0xa0, 0xb4}, {0xb6, 0xb7},		  /* XRC */
	};
	const struct row *r = find_row(&frame_rows, "v4_send_only");
	__u8 *frame = frame_copy(r->frame, r->len);
	int opcode;

	(void)state;
	for (opcode = 0; opcode <= 0xff; opcode++) {
		struct wire_frame f;
		enum wire_kind want = WIRE_UNKNOWN_OPCODE;

		if (in_list(defined, COUNT(defined), opcode))
			want = opcode == OP_CNP ? WIRE_CNP : WIRE_ROCEV2;
		frame[42] = opcode;
		f = parse(frame, r->len);
		if (f.kind != want || f.opcode != opcode)
			fail_msg("opcode %#x is %s", opcode, kind_names[f.kind]);
	}
	frame_free(frame);
}

static void opcode_is_response_as_the_standard_lists_it(void **state)
{
	static const struct opcodes responses[] = {
		{0x0d, 0x12}, /* RC: read responses, ACK, atomic ACK */
		{0x4d, 0x52}, /* RD */
		{0xad, 0xb2}, /* XRC */
	};
	int opcode;

	(void)state;
	for (opcode = 0; opcode <= 0xff; opcode++)
		if (wire_is_response(opcode) != in_list(responses, COUNT(responses), opcode))
			fail_msg("opcode %#x", opcode);
}

/* The MAD of a CM frame in a buffer of its own. */
static __u8 *copy_mad(const struct row *r)
{
	struct wire_frame f = parse(r->frame, r->len);
	size_t at = f.bth_off + BTH_BYTES + DETH_BYTES;
	__u8 *mad = malloc(MAD_BYTES);

	assert_int_equal(f.kind, WIRE_CM);
	assert_int_equal(f.opcode, OP_UD_SEND_ONLY);
	assert_int_equal(f.key.dst_qpn, QPN_CM);
	assert_int_equal(at + MAD_BYTES, f.icrc_off);
	assert_non_null(mad);
	memcpy(mad, r->frame + at, MAD_BYTES);
	return mad;
}

static void read_cm_vector_gives_its_fields(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < cm_rows.count; i++) {
		const struct row *r = &cm_rows.row[i];
		__u8 *mad = copy_mad(r);
		struct wire_cm cm;

		assert_true(wire_read_cm(mad, &cm));
		assert_int_equal(cm.attribute, number(r->field[1]));
		assert_int_equal(cm.local_id, number(r->field[2]));
		assert_int_equal(cm.remote_id, number(r->field[3]));
		assert_int_equal(cm.qpn, number(r->field[4]));
		assert_int_equal(cm.psn, number(r->field[5]));
		free(mad);
	}
}

static void read_cm_same_message_over_ipv6_and_grh(void **state)
{
	static const char *const names[] = {"v6_cm_req", "v1_cm_req"};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(names); i++) {
		__u8 *mad = copy_mad(find_row(&frame_rows, names[i]));
		struct wire_cm cm;

		assert_true(wire_read_cm(mad, &cm));
		assert_int_equal(cm.attribute, CM_REQ);
		assert_int_equal(cm.qpn, 0x001122);
		free(mad);
	}
}

static void read_cm_other_message_is_refused(void **state)
{
	__u8 *mad = copy_mad(&cm_rows.row[0]);
	struct wire_cm cm;

	(void)state;
	mad[MAD_ATTRIBUTE_OFFSET] = 0x01; /* 0x0110 is not a REQ */
	assert_false(wire_read_cm(mad, &cm));
	mad[MAD_ATTRIBUTE_OFFSET] = 0;
	mad[MAD_ATTRIBUTE_OFFSET + 1] = 0x11; /* MRA */
	assert_false(wire_read_cm(mad, &cm));
	mad[MAD_ATTRIBUTE_OFFSET + 1] = CM_REQ;
	mad[1] = 0x03; /* subnet administration */
	assert_false(wire_read_cm(mad, &cm));
	free(mad);
}

static void psn_ahead_counts_on_the_circle(void **state)
{
	(void)state;
	assert_int_equal(wire_psn_ahead(5, 5), 0);
	assert_int_equal(wire_psn_ahead(6, 5), 1);
	assert_int_equal(wire_psn_ahead(5, 6), -1);
	assert_int_equal(wire_psn_ahead(0, 0xffffff), 1);
	assert_int_equal(wire_psn_ahead(0xffffff, 0), -1);
	assert_int_equal(wire_psn_ahead(2, 0xfffffe), 4);
	assert_int_equal(wire_psn_ahead(0x7fffff, 0), 0x7fffff);
	assert_int_equal(wire_psn_ahead(0x800000, 0), -0x800000);
	assert_int_equal(wire_psn_ahead(0x800001, 0), -0x7fffff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse_icrc_vector_gives_its_fields),
		cmocka_unit_test(parse_frame_vector_gives_its_kind),
		cmocka_unit_test(icrc_of_every_vector_matches),
		cmocka_unit_test(icrc_of_every_whole_roce_frame_matches),
		cmocka_unit_test(parse_cut_frame_stays_inside),
		cmocka_unit_test(parse_each_byte_changed_keeps_promises),
		cmocka_unit_test(parse_damaged_frame_keeps_promises),
		cmocka_unit_test(parse_any_ipv4_length_keeps_promises),
		cmocka_unit_test(parse_ipv4_addresses_are_mapped),
		cmocka_unit_test(parse_ipv6_and_grh_addresses_are_taken_as_they_are),
		cmocka_unit_test(parse_options_are_stepped_over),
		cmocka_unit_test(parse_ack_gives_its_syndrome),
		cmocka_unit_test(parse_tags_give_the_outer_pcp),
		cmocka_unit_test(parse_offloaded_tag_keeps_its_pcp),
		cmocka_unit_test(parse_offloaded_tag_counts_toward_the_most),
		cmocka_unit_test(parse_tagged_pause_is_none),
		cmocka_unit_test(parse_pfc_fields_are_where_the_standard_puts_them),
		cmocka_unit_test(opcode_is_known_as_the_standard_lists_it),
		cmocka_unit_test(opcode_is_response_as_the_standard_lists_it),
		cmocka_unit_test(read_cm_vector_gives_its_fields),
		cmocka_unit_test(read_cm_same_message_over_ipv6_and_grh),
		cmocka_unit_test(read_cm_other_message_is_refused),
		cmocka_unit_test(psn_ahead_counts_on_the_circle),
	};

	return cmocka_run_group_tests_name("wire", tests, read_vectors, free_vectors);
}
