// SPDX-License-Identifier: BSD-2-Clause
// What the XDP program remembers of iWARP connections: start frames, and the opcodes of FPDUs that
// begin with a segment.
#include "programs.h"

enum {
	PORT_A = 40000,
	PORT_B = 7471,
	SEQ_A = 0xfffffff0, /* goes past the end behind the start frame */
	FIRST_A = (__u32)(SEQ_A + MPA_START_BYTES),
	TCP_BYTES = 20,
	HEADERS_BYTES = ETH_HEADER_BYTES + IPV4_MIN_BYTES + TCP_BYTES,
	SHORT_FRAME_BYTES = 60,
	SEND_LAST = 0x4143,
	WRITE_LAST = 0xc140,
	PASS = 2, /* XDP_PASS */
};

/* The control words of DDP and RDMAP, by opcode. */
static const __u16 controls[RDMAP_OPCODE_COUNT] = {0xc140, 0x4141, 0xc142, 0x4143, 0x4144, 0x4145,
	0x4146, 0x4147, 0x4148, 0x4149, 0x414a, 0x414b};

struct segment {
	bool back; /* from B to A */
	__u32 seq;
	const void *payload;
	size_t bytes;
	const char *padding; /* of a short frame */
};

static void put_be32(__u8 *at, __u32 value)
{
	frame_put16(at, value >> 16);
	frame_put16(at + 2, value);
}

static void make_segment(struct frame *f, struct segment s)
{
	__u8 *ip, *tcp;

	memset(f, 0, sizeof(*f));
	f->data = f->room + ALIGN_BYTES;
	frame_put_ethernet(f, &(struct frame_spec){0});
	ip = f->data + f->l3_off;
	tcp = ip + IPV4_MIN_BYTES;
	ip[0] = 0x45;
	frame_put16(ip + 2, IPV4_MIN_BYTES + TCP_BYTES + s.bytes);
	ip[8] = 64;
	ip[9] = IP_PROTO_TCP;
	memcpy(ip + 12, s.back ? receiver_ipv4 : sender_ipv4, 4);
	memcpy(ip + 16, s.back ? sender_ipv4 : receiver_ipv4, 4);
	frame_put16(tcp, s.back ? PORT_B : PORT_A);
	frame_put16(tcp + 2, s.back ? PORT_A : PORT_B);
	put_be32(tcp + 4, s.seq);
	tcp[12] = TCP_BYTES / 4 << 4;
	memcpy(tcp + TCP_BYTES, s.payload, s.bytes);
	f->len = HEADERS_BYTES + s.bytes;
	if (s.padding)
		memcpy(f->data + f->len, s.padding, SHORT_FRAME_BYTES - f->len);
	if (f->len < SHORT_FRAME_BYTES)
		f->len = SHORT_FRAME_BYTES;
}

/* Let it arrive; its key. */
static struct flow_key arrive(struct segment s)
{
	static struct frame f;
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = f.room + ALIGN_BYTES);

	make_segment(&f, s);
	run.data_size_in = f.len;
	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(skel->progs.quench_xdp), &run), 0);
	assert_int_equal(run.retval, PASS);
	return frame_key(&f);
}

static struct flow_key arrive_start(bool back, __u32 seq, __u16 flags)
{
	__u8 start[MPA_START_BYTES] = {0};

	memcpy(start, back ? "MPA ID Rep Frame" : "MPA ID Req Frame", MPA_KEY_BYTES);
	frame_put16(start + MPA_KEY_BYTES, flags | 1);
	return arrive((struct segment){
		.back = back, .seq = seq, .payload = start, .bytes = sizeof(start)});
}

/* The start of an FPDU that is long enough for either of DDP's headers. */
static void put_fpdu(__u8 *at, __u16 control)
{
	frame_put16(at, DDP_UNTAGGED_BYTES + 100);
	frame_put16(at + FPDU_LENGTH_BYTES, control);
}

static struct flow_key arrive_fpdu(__u32 seq, size_t behind_bytes, __u16 control)
{
	__u8 payload[200] = {0};

	put_fpdu(payload + behind_bytes, control);
	return arrive((struct segment){.seq = seq, .payload = payload, .bytes = sizeof(payload)});
}

static bool way_find(const struct flow_key *key, struct iwarp_way *way)
{
	return !bpf_map_lookup_elem(bpf_map__fd(skel->maps.iwarp), key, way);
}

static struct iwarp_way way_of(const struct flow_key *key)
{
	struct iwarp_way way;

	assert_true(way_find(key, &way));
	return way;
}

static __u32 fpdus_of(const struct iwarp_way *way)
{
	__u32 sum = 0, i;

	for (i = 0; i < RDMAP_OPCODE_COUNT; i++)
		sum += way->opcodes[i];
	return sum;
}

static void segment_of_each_opcode_is_counted(void **state)
{
	struct flow_key key = arrive_start(false, SEQ_A, 0);
	struct iwarp_way way;
	__u32 i, n;

	(void)state;
	for (i = 0; i < RDMAP_OPCODE_COUNT; i++)
		for (n = 0; n <= i; n++)
			arrive_fpdu(FIRST_A + 200 * n, 0, controls[i]);
	way = way_of(&key);
	for (i = 0; i < RDMAP_OPCODE_COUNT; i++)
		assert_int_equal(way.opcodes[i], i + 1);
	assert_int_equal(way.packets, 1 + fpdus_of(&way));
	assert_int_equal(way.bytes,
		HEADERS_BYTES + MPA_START_BYTES + fpdus_of(&way) * (HEADERS_BYTES + 200));
	assert_int_equal(way.last_ns, NOW_NS);
}

static void segment_that_begins_inside_an_fpdu_has_no_opcode(void **state)
{
	struct flow_key key = arrive_start(false, SEQ_A, 0);
	struct iwarp_way way;

	(void)state;
	arrive_fpdu(FIRST_A, 2, SEND_LAST);
	way = way_of(&key);
	assert_int_equal(way.packets, 2);
	assert_int_equal(fpdus_of(&way), 0);
}

static void padding_of_a_short_frame_is_no_fpdu(void **state)
{
	static const char fpdu[6] = {0, 100, 0x41, 0x43, 0, 0};
	struct flow_key key = arrive_start(false, SEQ_A, 0);
	struct iwarp_way way;

	(void)state;
	arrive((struct segment){.seq = FIRST_A, .payload = "", .bytes = 0, .padding = fpdu});
	way = way_of(&key);
	assert_int_equal(way.packets, 2);
	assert_int_equal(fpdus_of(&way), 0);
	arrive((struct segment){.seq = FIRST_A, .payload = fpdu, .bytes = sizeof(fpdu)});
	way = way_of(&key);
	assert_int_equal(fpdus_of(&way), 1);
}

/* Who sends a start frame with M wants markers in what it receives. */
static void marker_in_front_of_an_fpdu_is_stepped_over(void **state)
{
	struct flow_key key = arrive_start(false, SEQ_A, 0);
	struct iwarp_way way;

	(void)state;
	arrive_start(true, 5000, MPA_MARKERS);
	arrive_fpdu(FIRST_A, MPA_MARKER_BYTES, WRITE_LAST);
	arrive_fpdu(FIRST_A + 3 * MPA_MARKER_INTERVAL_BYTES, MPA_MARKER_BYTES, WRITE_LAST);
	arrive_fpdu(FIRST_A + 100, 0, WRITE_LAST);
	way = way_of(&key);
	assert_int_equal(way.opcodes[0], 3);
	arrive_fpdu(FIRST_A + MPA_MARKER_INTERVAL_BYTES, 0, WRITE_LAST);
	arrive_fpdu(FIRST_A + 100, MPA_MARKER_BYTES, WRITE_LAST);
	way = way_of(&key);
	assert_int_equal(fpdus_of(&way), 3);
}

static void start_frame_that_comes_again_forgets_nothing(void **state)
{
	struct flow_key key = arrive_start(false, SEQ_A, 0);
	struct iwarp_way way;

	(void)state;
	arrive_start(true, 5000, MPA_MARKERS);
	arrive_fpdu(FIRST_A, MPA_MARKER_BYTES, SEND_LAST);
	arrive_start(false, SEQ_A, 0);
	way = way_of(&key);
	assert_int_equal(way.packets, 3);
	assert_int_equal(way.opcodes[3], 1);
	assert_true(way.has_markers);
}

static void connection_on_a_port_of_the_policy_needs_no_start_frame(void **state)
{
	struct conf conf = conf_default();
	struct iwarp_way way;
	struct flow_key key;

	(void)state;
	key = arrive_fpdu(FIRST_A, 0, SEND_LAST);
	assert_false(way_find(&key, &way));
	conf.iwarp_ports[0] = WIRE_HTONS(PORT_B);
	conf_set(&conf);
	arrive_fpdu(FIRST_A, 0, SEND_LAST);
	way = way_of(&key);
	assert_int_equal(way.packets, 1);
	assert_int_equal(way.opcodes[3], 1);
}

static void other_tcp_beside_iwarp_has_no_record(void **state)
{
	struct flow_key iwarp = arrive_start(false, SEQ_A, 0), other = iwarp;
	static struct frame f;
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = f.room + ALIGN_BYTES);
	struct iwarp_way way;

	(void)state;
	make_segment(&f, (struct segment){.payload = "GET /", .bytes = 5});
	frame_put16(f.data + HEADERS_BYTES - TCP_BYTES, PORT_A + 1);
	run.data_size_in = f.len;
	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(skel->progs.quench_xdp), &run), 0);
	other.dst_qpn += 1 << 16;
	assert_false(way_find(&other, &way));
	assert_int_equal(stats_sum(skel->maps.port_stats, PORT_SLOT).frames[WIRE_OTHER], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		prog_test(segment_of_each_opcode_is_counted),
		prog_test(segment_that_begins_inside_an_fpdu_has_no_opcode),
		prog_test(padding_of_a_short_frame_is_no_fpdu),
		prog_test(marker_in_front_of_an_fpdu_is_stepped_over),
		prog_test(start_frame_that_comes_again_forgets_nothing),
		prog_test(connection_on_a_port_of_the_policy_needs_no_start_frame),
		prog_test(other_tcp_beside_iwarp_has_no_record),
	};

	if (refuse_without_root("test_iwarp"))
		return 1;
	return cmocka_run_group_tests_name("prog_iwarp", tests, NULL, NULL);
}
