// SPDX-License-Identifier: BSD-2-Clause
// The frame parser against the vectors, against truncation at every byte, and against damage.
#include "vectors/vectors.h"

#include "quench/build.h"

enum { DAMAGED_FRAMES = 100000 };

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

/* A frame and what else of it formats.txt may name. */
struct seen {
	struct wire_frame f;
	__u32 payload;
	__u16 sport;
};

static const char *const l3_words[] = {"none", "ipv4", "ipv6", "grh", "lrh", NULL};
static const char *const mpa_words[] = {"none", "request", "reply", NULL};
static const char *const tunnel_words[] = {"none",
#define X(id, name) name,
	WIRE_TUNNELS(X)
#undef X
		NULL};

static const struct field {
	const char *name;
	size_t at;
	size_t bytes;
	const char *const *words; /* of the values 0, 1, ...; NULL: numbers */
} fields[] = {
#define FIELD(name, member, words)                                                                 \
	{                                                                                          \
		name, offsetof(struct seen, member), sizeof(((struct seen *)0)->member), words     \
	}
	FIELD("l3", f.l3, l3_words),
	FIELD("tags", f.tags, NULL),
	FIELD("pcp", f.pcp, NULL),
	FIELD("tos", f.tos, NULL),
	FIELD("opcode", f.opcode, NULL),
	FIELD("flags", f.bth_flags, NULL),
	FIELD("syndrome", f.syndrome, NULL),
	FIELD("l4_off", f.l4_off, NULL),
	FIELD("bth_off", f.bth_off, NULL),
	FIELD("icrc_off", f.icrc_off, NULL),
	FIELD("mac_control_off", f.mac_control_off, NULL),
	FIELD("tunnel", f.tunnel, tunnel_words),
	FIELD("inner_l3", f.inner_l3, l3_words),
	FIELD("inner_l3_off", f.inner_l3_off, NULL),
	FIELD("inner_tos", f.inner_tos, NULL),
	FIELD("mpa", f.mpa, mpa_words),
	FIELD("tcp_payload", f.tcp_payload_off, NULL),
	FIELD("psn", f.psn, NULL),
	FIELD("qpn", f.key.dst_qpn, NULL),
	FIELD("src", f.key.src, NULL),
	FIELD("dst", f.key.dst, NULL),
	FIELD("payload", payload, NULL),
	FIELD("sport", sport, NULL),
#undef FIELD
};

static const struct field *find_field(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT(fields); i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	fail_msg("no field %s", name);
	return NULL;
}

static __u32 word_value(const char *const *words, const char *word)
{
	__u32 i;

	for (i = 0; words[i]; i++)
		if (!strcmp(words[i], word))
			return i;
	fail_msg("no word %s", word);
	return 0;
}

static void read_address(const char *text, __be32 out[4])
{
	__be32 v4;

	if (inet_pton(AF_INET, text, &v4) == 1)
		wire_map_ipv4(out, v4);
	else
		assert_int_equal(inet_pton(AF_INET6, text, out), 1);
}

static bool field_is(const struct field *field, const struct seen *seen, const char *value)
{
	const void *at = (const char *)seen + field->at;
	__be32 address[4];
	__u32 want;

	if (field->bytes == sizeof(address)) {
		read_address(value, address);
		return !memcmp(at, address, sizeof(address));
	}
	want = field->words ? word_value(field->words, value) : number(value);
	switch (field->bytes) {
	case 1:
		return *(const __u8 *)at == want;
	case 2:
		return *(const __u16 *)at == want;
	}
	return *(const __u32 *)at == want;
}

/* How many of the "name=value,..." of a row are not so. */
static int fields_differ(const struct row *r, const struct wire_frame *f)
{
	struct seen seen = {
		.f = *f, .payload = wire_payload_bytes(f), .sport = WIRE_NTOHS(f->udp_src)};
	char *text = strdup(r->field[2]), *save = NULL, *one, *value;
	int wrong = 0;

	if (!strcmp(text, "-"))
		*text = '\0';
	for (one = strtok_r(text, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
		value = strchr(one, '=');
		assert_non_null(value);
		*value++ = '\0';
		if (field_is(find_field(one), &seen, value))
			continue;
		print_error("%s: %s is not %s\n", r->field[0], one, value);
		wrong++;
	}
	free(text);
	return wrong;
}

static void parse_format_vector_gives_its_kind_and_fields(void **state)
{
	int wrong = 0;
	size_t i;

	(void)state;
	for (i = 0; i < format_rows.count; i++) {
		const struct row *r = &format_rows.row[i];
		struct wire_frame f = parse(r->frame, r->len);

		wrong += kind_differs(r, r->field[1], &f) + fields_differ(r, &f);
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

/* Not a RoCE frame, though it came to RoCE's port. */
static bool carries_no_icrc(const struct row *r)
{
	return !strcmp(r->field[0], "other_protocol_at_4791");
}

static size_t match_icrcs(const struct rows *rows)
{
	size_t i, matched = 0;

	for (i = 0; i < rows->count; i++) {
		const struct row *r = &rows->row[i];
		struct wire_frame f = parse(r->frame, r->len);

		assert_promises(r->field[0], r->frame, r->len);
		if (!has_bth(&f) || f.icrc_off + (size_t)ICRC_BYTES > r->len || carries_no_icrc(r))
			continue;
		if (!icrc_matches(r, &f))
			fail_msg("%s: another ICRC", r->field[0]);
		matched++;
	}
	return matched;
}

static void icrc_of_every_whole_roce_frame_matches(void **state)
{
	(void)state;
	assert_true(match_icrcs(&frame_rows) > 50);
	assert_true(match_icrcs(&format_rows) > 120);
}

/* What a frame may be when it ends too soon: MAC control and TCP have kinds for less than all. */
static bool may_be_cut_to(enum wire_kind whole, __u8 kind)
{
	return kind == whole || kind == WIRE_TRUNCATED ||
	       (kind == WIRE_MAC_CONTROL && (whole == WIRE_PFC || whole == WIRE_PAUSE)) ||
	       (kind == WIRE_OTHER && whole == WIRE_IWARP);
}

/* A frame cut short is a truncated one, until there is enough of it to say what the whole is. */
static void assert_cut(const struct row *r, enum wire_kind whole, size_t len, bool *told)
{
	__u8 *frame = frame_copy(r->frame, len);
	struct wire_frame f = parse(frame, len);

	if (!may_be_cut_to(whole, f.kind) || (*told && f.kind != whole))
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

static void parse_priority_tag_leaves_the_flow_what_it_is(void **state)
{
	const struct row *tagged = find_row(&format_rows, "priority_tag");
	const struct row *untagged = find_row(&format_rows, "untagged_dscp_26");
	struct wire_frame t = parse(tagged->frame, tagged->len);
	struct wire_frame u = parse(untagged->frame, untagged->len);

	(void)state;
	assert_memory_equal(&t.key, &u.key, sizeof(t.key));
	assert_int_equal(t.kind, u.kind);
	assert_int_equal(t.psn, u.psn);
}

static void parse_third_tag_is_no_flow_of_two_tags(void **state)
{
	static const struct flow_key none;
	const struct row *r = find_row(&format_rows, "third_tag_is_no_two_tag_flow");
	struct wire_frame f = parse(r->frame, r->len);

	(void)state;
	assert_int_equal(f.kind, WIRE_TOO_MANY_TAGS);
	assert_memory_equal(&f.key, &none, sizeof(none));
}

/* Tunnels change who is asked, not who it is about. */
static void parse_tunnel_leaves_the_flow_what_it_is(void **state)
{
	const struct row *r = find_row(&format_rows, "untagged_dscp_26");
	struct wire_frame plain = parse(r->frame, r->len);
	size_t i, compared = 0;

	(void)state;
	for (i = 0; i < format_rows.count; i++) {
		const struct row *t = &format_rows.row[i];
		struct wire_frame f = parse(t->frame, t->len);

		if (!f.tunnel || f.kind != WIRE_ROCEV2 || f.inner_l3 != L3_IPV4)
			continue;
		assert_memory_equal(&f.key, &plain.key, sizeof(plain.key));
		compared++;
	}
	assert_true(compared > 20);
}

/* RoCE on 4000, one VXLAN port and no GENEVE. */
static void parse_ports_are_those_of_the_policy(void **state)
{
	static const struct wire_ports ports = {
		.roce = WIRE_HTONS(4000), .vxlan = {WIRE_HTONS(VXLAN_UDP_PORT_OLD)}};
	static const struct {
		const char *name;
		enum wire_kind kind;
		enum wire_tunnel tunnel;
	} rows[] = {
		{"untagged_dscp_26", WIRE_OTHER, TUNNEL_NONE},
		{"vxlan_v4", WIRE_OTHER, TUNNEL_NONE},
		{"vxlan_8472_v4", WIRE_OTHER, TUNNEL_VXLAN},
		{"geneve_v4", WIRE_OTHER, TUNNEL_NONE},
		{"gre_bridged_v4", WIRE_OTHER, TUNNEL_GRE},
	};
	const struct row *r = find_row(&format_rows, "untagged_dscp_26");
	__u8 *frame = frame_copy(r->frame, r->len);
	struct wire_frame f;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(rows); i++) {
		const struct row *t = find_row(&format_rows, rows[i].name);

		wire_frame_init(&f);
		assert_int_equal(
			wire_parse_ports(t->frame, t->frame + t->len, &ports, &f), rows[i].kind);
		assert_int_equal(f.tunnel, rows[i].tunnel);
	}
	frame[36] = 4000 >> 8;
	frame[37] = 4000 & 0xff;
	wire_frame_init(&f);
	assert_int_equal(wire_parse_ports(frame, frame + r->len, &ports, &f), WIRE_ROCEV2);
	frame_free(frame);
}

/* Ports that are not used are 0, and so may a frame's be. */
static void parse_port_0_is_no_tunnel(void **state)
{
	static const struct wire_ports ports = {.roce = WIRE_HTONS(ROCE_V2_UDP_PORT)};
	const struct row *r = find_row(&format_rows, "vxlan_v4");
	__u8 *frame = frame_copy(r->frame, r->len);
	struct wire_frame f;

	(void)state;
	frame[36] = 0;
	frame[37] = 0;
	wire_frame_init(&f);
	assert_int_equal(wire_parse_ports(frame, frame + r->len, &ports, &f), WIRE_OTHER);
	assert_int_equal(f.tunnel, TUNNEL_NONE);
	frame_free(frame);
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

/* v4_send_only with another opcode and that many bytes behind the BTH. */
static struct wire_frame parse_opcode(__u8 opcode, size_t bytes)
{
	enum { L3 = 14, L4 = 34, BTH = 42 };
	const struct row *r = find_row(&frame_rows, "v4_send_only");
	size_t len = BTH + BTH_BYTES + bytes + ICRC_BYTES;
	__u8 *frame = frame_alloc(len);
	struct wire_frame f;

	memset(frame, 0, len);
	memcpy(frame, r->frame, BTH + BTH_BYTES);
	frame[BTH] = opcode;
	frame[L3 + 2] = (len - L3) >> 8;
	frame[L3 + 3] = len - L3;
	frame[L4 + 4] = (len - L4) >> 8;
	frame[L4 + 5] = len - L4;
	f = parse(frame, len);
	frame_free(frame);
	return f;
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
	int opcode;

	(void)state;
	for (opcode = 0; opcode <= 0xff; opcode++) {
		struct wire_frame f = parse_opcode(opcode, 64);
		enum wire_kind want = WIRE_UNKNOWN_OPCODE;

		if (in_list(defined, COUNT(defined), opcode))
			want = opcode == OP_CNP ? WIRE_CNP : WIRE_ROCEV2;
		if (f.kind != want || f.opcode != opcode)
			fail_msg("opcode %#x is %s", opcode, kind_names[f.kind]);
	}
}

/* The bytes of the extended headers, added up by hand from the standard's table of them. */
static const struct {
	__u8 first, last, bytes;
} extended[] = {
	/* RC: ImmDt, RETH, AETH, AtomicAckETH, AtomicETH, IETH, FETH */
	{0x03, 0x03, 4},
	{0x05, 0x05, 4},
	{0x06, 0x06, 16},
	{0x09, 0x09, 4},
	{0x0a, 0x0a, 16},
	{0x0b, 0x0b, 20},
	{0x0c, 0x0c, 16},
	{0x0d, 0x0d, 4},
	{0x0f, 0x11, 4},
	{0x12, 0x12, 12},
	{0x13, 0x14, 28},
	{0x16, 0x17, 4},
	{0x1c, 0x1c, 20},
	{0x1d, 0x1d, 16},
	/* UC */
	{0x23, 0x23, 4},
	{0x25, 0x25, 4},
	{0x26, 0x26, 16},
	{0x29, 0x29, 4},
	{0x2a, 0x2a, 16},
	{0x2b, 0x2b, 20},
	/* RD: requests with RDETH and DETH, responses with RDETH */
	{0x40, 0x42, 12},
	{0x43, 0x43, 16},
	{0x44, 0x44, 12},
	{0x45, 0x45, 16},
	{0x46, 0x46, 28},
	{0x47, 0x48, 12},
	{0x49, 0x49, 16},
	{0x4a, 0x4a, 28},
	{0x4b, 0x4b, 32},
	{0x4c, 0x4c, 28},
	{0x4d, 0x4d, 8},
	{0x4e, 0x4e, 4},
	{0x4f, 0x51, 8},
	{0x52, 0x52, 16},
	{0x53, 0x54, 40},
	{0x55, 0x55, 12},
	{0x5c, 0x5c, 12},
	/* UD: DETH */
	{0x64, 0x64, 8},
	{0x65, 0x65, 12},
	/* XRC: requests with XRCETH */
	{0xa0, 0xa2, 4},
	{0xa3, 0xa3, 8},
	{0xa4, 0xa4, 4},
	{0xa5, 0xa5, 8},
	{0xa6, 0xa6, 20},
	{0xa7, 0xa8, 4},
	{0xa9, 0xa9, 8},
	{0xaa, 0xaa, 20},
	{0xab, 0xab, 24},
	{0xac, 0xac, 20},
	{0xad, 0xad, 4},
	{0xaf, 0xb1, 4},
	{0xb2, 0xb2, 12},
	{0xb3, 0xb4, 32},
	{0xb6, 0xb7, 8},
};

static size_t extended_bytes(__u8 opcode)
{
	size_t i;

	for (i = 0; i < COUNT(extended); i++)
		if (opcode >= extended[i].first && opcode <= extended[i].last)
			return extended[i].bytes;
	return 0;
}

static void opcode_with_room_for_just_its_headers_is_whole(void **state)
{
	int opcode;

	(void)state;
	for (opcode = 0; opcode <= 0xff; opcode++) {
		struct wire_frame f = parse_opcode(opcode, extended_bytes(opcode));

		if (!has_bth(&f) || wire_payload_bytes(&f))
			fail_msg("opcode %#x is %s with %u bytes of payload", opcode,
				kind_names[f.kind], wire_payload_bytes(&f));
	}
}

static void opcode_one_byte_short_of_its_headers_is_malformed(void **state)
{
	int opcode, short_ones = 0;

	(void)state;
	for (opcode = 0; opcode <= 0xff; opcode++) {
		size_t bytes = extended_bytes(opcode);

		if (!bytes)
			continue;
		if (parse_opcode(opcode, bytes - 1).kind != WIRE_MALFORMED)
			fail_msg("opcode %#x", opcode);
		short_ones++;
	}
	assert_int_equal(short_ones, 71);
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
	static const __u8 others[] = {
		0x00, 0x0f, 0x17, 0x18, 0x1a, 0x1b, 0xff}; /* SIDR, APR, ... */
	__u8 *mad = copy_mad(&cm_rows.row[0]);
	struct wire_cm cm;
	size_t i;

	(void)state;
	mad[MAD_ATTRIBUTE_OFFSET] = 0x01; /* 0x0110 is not a REQ */
	assert_false(wire_read_cm(mad, &cm));
	mad[MAD_ATTRIBUTE_OFFSET] = 0;
	for (i = 0; i < COUNT(others); i++) {
		mad[MAD_ATTRIBUTE_OFFSET + 1] = others[i];
		assert_false(wire_read_cm(mad, &cm));
	}
	mad[MAD_ATTRIBUTE_OFFSET + 1] = CM_REQ;
	mad[1] = 0x03; /* subnet administration */
	assert_false(wire_read_cm(mad, &cm));
	free(mad);
}

static void read_cm_rejection_gives_its_reason(void **state)
{
	size_t i, rejections = 0;

	(void)state;
	for (i = 0; i < cm_rows.count; i++) {
		const struct row *r = &cm_rows.row[i];
		__u8 *mad = copy_mad(r);
		struct wire_cm cm;

		assert_true(wire_read_cm(mad, &cm));
		assert_int_equal(cm.reason, strcmp(r->field[0], "rej") ? 0 : 28);
		rejections += cm.reason != 0;
		free(mad);
	}
	assert_int_equal(rejections, 1);
}

/* Nothing of a message lies behind what the contract says is read. */
static void read_cm_reads_no_more_than_it_says(void **state)
{
	enum { CM_READ_BYTES = 72 };
	size_t i;

	(void)state;
	for (i = 0; i < cm_rows.count; i++) {
		__u8 *mad = copy_mad(&cm_rows.row[i]), *cut = malloc(CM_READ_BYTES);
		struct wire_cm whole, part;

		assert_non_null(cut);
		memcpy(cut, mad, CM_READ_BYTES);
		assert_true(wire_read_cm(mad, &whole));
		assert_true(wire_read_cm(cut, &part));
		assert_memory_equal(&whole, &part, sizeof(whole));
		free(cut);
		free(mad);
	}
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
		cmocka_unit_test(parse_format_vector_gives_its_kind_and_fields),
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
		cmocka_unit_test(parse_priority_tag_leaves_the_flow_what_it_is),
		cmocka_unit_test(parse_third_tag_is_no_flow_of_two_tags),
		cmocka_unit_test(parse_tunnel_leaves_the_flow_what_it_is),
		cmocka_unit_test(parse_ports_are_those_of_the_policy),
		cmocka_unit_test(parse_port_0_is_no_tunnel),
		cmocka_unit_test(parse_offloaded_tag_keeps_its_pcp),
		cmocka_unit_test(parse_offloaded_tag_counts_toward_the_most),
		cmocka_unit_test(parse_tagged_pause_is_none),
		cmocka_unit_test(parse_pfc_fields_are_where_the_standard_puts_them),
		cmocka_unit_test(opcode_is_known_as_the_standard_lists_it),
		cmocka_unit_test(opcode_with_room_for_just_its_headers_is_whole),
		cmocka_unit_test(opcode_one_byte_short_of_its_headers_is_malformed),
		cmocka_unit_test(opcode_is_response_as_the_standard_lists_it),
		cmocka_unit_test(read_cm_vector_gives_its_fields),
		cmocka_unit_test(read_cm_same_message_over_ipv6_and_grh),
		cmocka_unit_test(read_cm_other_message_is_refused),
		cmocka_unit_test(read_cm_rejection_gives_its_reason),
		cmocka_unit_test(read_cm_reads_no_more_than_it_says),
		cmocka_unit_test(psn_ahead_counts_on_the_circle),
	};

	return cmocka_run_group_tests_name("wire", tests, read_vectors, free_vectors);
}
