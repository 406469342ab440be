// SPDX-License-Identifier: BSD-2-Clause
// ECN marking as the kernel runs it: the curve against its formula within the bounds of chance, and
// each codepoint, checksum and byte of a marked frame.
#include "prog.h"

#include <math.h>

#include "policy/compile.h"
#include "prog/mark.skel.h"

enum {
	DRAWS = 1000000,
	SIGMAS = 5,	 /* one comparison in more than a million fails by chance, */
	FEW_FRAMES = 10, /* where there are enough marks for sigmas to say anything */
	KMIN = 20000,
	KMAX = 100000,
};

static struct mark_bpf *skel;

static int open_program(void **state)
{
	skel = mark_bpf__open_and_load();
	return skel ? read_vectors(state) : -1;
}

static int close_program(void **state)
{
	mark_bpf__destroy(skel);
	return free_vectors(state);
}

/* A class as policy makes it. */
static void set_curve(__u32 kmin, __u32 kmax, double pmax)
{
	static struct policy policy = {.classes_count = 1};
	struct conf conf;

	policy.classes[0].ecn.present = true;
	policy.classes[0].ecn.kmin_bytes = kmin;
	policy.classes[0].ecn.kmax_bytes = kmax;
	policy.classes[0].ecn.pmax = pmax;
	compile_conf(&policy, &conf);
	skel->bss->cls = conf.classes[0];
	assert_int_equal(skel->bss->cls.ecn, 1);
}

static void run_program(const struct bpf_program *program, const __u8 *data, size_t len, __u8 *out,
	__u32 *out_len, __u32 *retval)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = data, .data_size_in = len, .data_out = out,
		.data_size_out = out_len ? *out_len : 0);
	int code = bpf_prog_test_run_opts(bpf_program__fd(program), &opts);

	if (code)
		fail_msg("BPF_PROG_RUN: %s", strerror(-code));
	if (out_len)
		*out_len = opts.data_size_out;
	*retval = opts.retval;
}

/* The share of DRAWS frames that are marked at a depth. */
static double share_marked(__u32 depth_bytes)
{
	static const __u8 frame[64];
	__u32 retval;

	skel->bss->depths[0] = depth_bytes;
	skel->bss->depth_count = 1;
	skel->bss->draws = DRAWS;
	run_program(skel->progs.quench_draw, frame, sizeof(frame), NULL, NULL, &retval);
	return (double)skel->bss->marked[0] / DRAWS;
}

static void assert_share(__u32 depth_bytes, double wanted)
{
	double have = share_marked(depth_bytes);
	double bound = 0; /* of never and always there are no exceptions */

	if (wanted > 0 && wanted < 1)
		bound = SIGMAS * sqrt(wanted * (1 - wanted) / DRAWS) + (double)FEW_FRAMES / DRAWS;
	if (fabs(have - wanted) > bound)
		fail_msg("at %u bytes %.6f of the frames are marked, not %.6f (+- %.6f)",
			depth_bytes, have, wanted, bound);
}

static void mark_at_or_below_kmin_never(void **state)
{
	(void)state;
	set_curve(KMIN, KMAX, 1.0);
	assert_share(0, 0);
	assert_share(KMIN - 1, 0);
	assert_share(KMIN, 0);
}

static void mark_above_kmax_always(void **state)
{
	(void)state;
	set_curve(KMIN, KMAX, 0.01);
	assert_share(KMAX + 1, 1);
	assert_share(0xffffffff, 1);
}

static void mark_between_follows_the_line(void **state)
{
	static const double pmax[] = {0.01, 0.1, 0.5, 1.0};
	static const __u32 depths[] = {20001, 20100, 30000, 60000, 90000, 99999, 100000};
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT(pmax); i++) {
		set_curve(KMIN, KMAX, pmax[i]);
		for (j = 0; j < COUNT(depths); j++)
			assert_share(depths[j], pmax[i] * (depths[j] - KMIN) / (KMAX - KMIN));
	}
}

/* With kmin = kmax, DCTCP's step: no line, and no depth between. */
static void mark_with_equal_thresholds_is_a_step(void **state)
{
	(void)state;
	skel->bss->cls = (struct class_conf){.kmin_bytes = KMIN, .kmax_bytes = KMIN, .ecn = 1};
	assert_share(KMIN, 0);
	assert_share(KMIN + 1, 1);
}

/* A line so long that its slope per byte is small must not lose it to rounding. */
static void mark_line_of_1_gb_keeps_its_slope(void **state)
{
	static const double pmax[] = {0.01, 0.1, 1.0};
	const __u32 kmax = 1000000000, middle = kmax / 2;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(pmax); i++) {
		double line;

		set_curve(KMIN, kmax, pmax[i]);
		line = (double)skel->bss->cls.slope * (kmax - KMIN) / ldexp(1, 48);
		assert_true(fabs(line / pmax[i] - 1) < 0.01);
		assert_share(middle, pmax[i] * (middle - KMIN) / (kmax - KMIN));
	}
	/* the last one marks half of them: enough to see one in a hundred */
	assert_true(fabs(2 * share_marked(middle) - 1) < 0.01);
}

/* Run the marking program on a frame that the curve always picks. */
static __u32 mark(const struct frame *f, struct frame *out)
{
	__u32 len = FRAME_ROOM - ALIGN_BYTES, tos;

	out->data = out->room + ALIGN_BYTES;
	skel->bss->depths[0] = KMAX + 1;
	memset(&skel->bss->stats, 0, sizeof(skel->bss->stats));
	run_program(skel->progs.quench_mark, f->data, f->len, out->data, &len, &tos);
	out->len = len;
	return tos;
}

struct codepoint {
	__u8 tos, after;
	int counted;
};

static const struct codepoint codepoints[] = {
	{0x00, 0x00, 0}, /* Not-ECT: the sender does not know what CE means */
	{0x01, 0x03, 1},
	{0x02, 0x03, 1},
	{0x03, 0x03, 0}, /* somebody else's mark */
	{0x68, 0x68, 0},
	{0x69, 0x6b, 1},
	{0x6a, 0x6b, 1},
	{0x6b, 0x6b, 0},
	{0xc2, 0xc3, 1},
};

/* The frame with another TOS and, over IPv4, the checksum that it needs, recomputed in full. */
static void frame_set_tos(struct frame *f, enum wire_l3 l3, __u8 tos)
{
	__u8 *ip = f->data + f->l3_off;

	if (l3 == L3_IPV6) {
		ip[0] = 0x60 | tos >> 4;
		ip[1] = tos << 4 | (ip[1] & 0x0f);
		return;
	}
	ip[1] = tos;
	frame_put16(ip + 10, 0);
	frame_put16(ip + 10, header_sum(ip, 4 * (ip[0] & 0x0f)));
}

static void assert_marked(const char *what, struct frame_spec spec, const struct codepoint *c)
{
	static struct frame f, out;
	__u32 tos;
	size_t i;

	spec.tos = c->tos;
	frame_make(&f, spec);
	tos = mark(&f, &out);
	frame_set_tos(&f, spec.l3, c->after);
	assert_int_equal(out.len, f.len);
	for (i = 0; i < f.len; i++)
		if (out.data[i] != f.data[i])
			fail_msg("%s, TOS %02x, IP id %04x: byte %zu is %02x, not %02x", what,
				c->tos, spec.ip_id, i, out.data[i], f.data[i]);
	assert_int_equal(tos, c->after);
	assert_int_equal(skel->bss->stats.ce_marked, c->counted);
}

static void mark_each_codepoint(const char *what, struct frame_spec spec)
{
	size_t i;

	set_curve(KMIN, KMAX, 1.0);
	spec.opcode = OP_RC_SEND_ONLY;
	spec.payload_bytes = 32;
	for (i = 0; i < COUNT(codepoints); i++)
		assert_marked(what, spec, &codepoints[i]);
}

static void mark_of_ipv4_changes_ect_to_ce_and_nothing_else(void **state)
{
	(void)state;
	mark_each_codepoint("IPv4", (struct frame_spec){.l3 = L3_IPV4, .udp_check = 0xbeef});
}

static void mark_of_ipv4_with_options_is_the_same(void **state)
{
	(void)state;
	mark_each_codepoint("options", (struct frame_spec){.option_words = 1});
	mark_each_codepoint("options", (struct frame_spec){.option_words = 10});
}

static void mark_of_ipv6_leaves_flow_label_and_udp_checksum(void **state)
{
	(void)state;
	mark_each_codepoint("IPv6", (struct frame_spec){.l3 = L3_IPV6, .udp_check = 0xbeef});
}

/*
 * As a frame with two tags comes to a tc hook: one tag is taken off, one is left in the bytes, in
 * front of the IP header.
 */
static void mark_of_ipv4_behind_a_tag_is_the_same(void **state)
{
	(void)state;
	mark_each_codepoint("IPv4 behind a tag", (struct frame_spec){.tags = 1});
}

static void mark_of_ipv6_behind_a_tag_is_the_same(void **state)
{
	(void)state;
	mark_each_codepoint("IPv6 behind a tag", (struct frame_spec){.tags = 1, .l3 = L3_IPV6});
}

/* Every IP id, so every checksum: 0x0000 and 0xffff are where one's complement goes wrong. */
static void mark_ipv4_checksum_equals_full_recomputation(void **state)
{
	static const struct codepoint ect[] = {{0x69, 0x6b, 1}, {0x6a, 0x6b, 1}};
	struct frame_spec spec = {.opcode = OP_RC_SEND_ONLY, .payload_bytes = 32};
	__u32 id;

	(void)state;
	set_curve(KMIN, KMAX, 1.0);
	for (id = 0; id <= 0xffff; id++) {
		spec.ip_id = id;
		assert_marked("every id", spec, &ect[id & 1]);
		if (id == 0x2d5f || id == 0x2d60)
			assert_marked("every id", spec, &ect[~id & 1]);
	}
}

static void mark_leaves_the_icrc_valid(void **state)
{
	static const struct codepoint ect0 = {0x6a, 0x6b, 1};
	static struct frame f, out;
	static const enum wire_l3 l3[] = {L3_IPV4, L3_IPV6};
	size_t i;

	(void)state;
	set_curve(KMIN, KMAX, 1.0);
	for (i = 0; i < COUNT(l3); i++) {
		struct wire_frame before, after;

		frame_make(&f, (struct frame_spec){.opcode = OP_RC_SEND_ONLY,
				       .tos = ect0.tos,
				       .l3 = l3[i],
				       .payload_bytes = 32});
		mark(&f, &out);
		before = parse(f.data, f.len);
		after = parse(out.data, out.len);
		assert_int_equal(after.tos, ect0.after);
		assert_int_equal(wire_icrc(out.data, &after), wire_icrc(f.data, &before));
	}
}

/* The outer header of a tunnel is marked when it says ECT itself, whatever the inner one says. */
static void mark_of_tunnel_touches_the_outer_header_alone(void **state)
{
	static const struct {
		const char *name;
		__u8 before, after; /* the outer TOS */
	} tunnels[] = {
		{"tunnel_outer_not_inner_ect", 0x00, 0x00},
		{"tunnel_only_inner_ce", 0x00, 0x00},
		{"tunnel_outer_ect_inner_not", 0x02, 0x03},
		{"tunnel_only_outer_ce", 0x6b, 0x6b},
	};
	size_t i;

	(void)state;
	set_curve(KMIN, KMAX, 1.0);
	for (i = 0; i < COUNT(tunnels); i++) {
		const struct row *r = find_row(&format_rows, tunnels[i].name);
		static struct frame out;
		struct frame f = {.data = r->frame, .len = r->len, .l3_off = ETH_HEADER_BYTES};

		assert_int_equal(r->frame[15], tunnels[i].before);
		assert_int_equal(mark(&f, &out), tunnels[i].after);
		frame_set_tos(&f, L3_IPV4, tunnels[i].after);
		assert_int_equal(out.len, f.len);
		assert_memory_equal(out.data, f.data, f.len);
	}
}

static void mark_of_class_without_ecn_never(void **state)
{
	static struct frame f, out;

	(void)state;
	set_curve(KMIN, KMAX, 1.0);
	skel->bss->cls.ecn = 0;
	frame_make(&f, (struct frame_spec){.opcode = OP_RC_SEND_ONLY, .tos = 0x6a});
	assert_int_equal(mark(&f, &out), 0x6a);
	assert_int_equal(out.data[f.l3_off + 1], 0x6a);
	assert_int_equal(skel->bss->stats.ce_marked, 0);
}

static void mark_of_frame_without_ip_header_never(void **state)
{
	static struct frame f, out;

	(void)state;
	set_curve(KMIN, KMAX, 1.0);
	frame_make(&f, (struct frame_spec){.opcode = OP_RC_SEND_ONLY, .tos = 0x6a, .l3 = L3_GRH});
	assert_int_equal(mark(&f, &out), 0x6a);
	assert_memory_equal(out.data, f.data, f.len);
	assert_int_equal(skel->bss->stats.ce_marked, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mark_at_or_below_kmin_never),
		cmocka_unit_test(mark_above_kmax_always),
		cmocka_unit_test(mark_between_follows_the_line),
		cmocka_unit_test(mark_with_equal_thresholds_is_a_step),
		cmocka_unit_test(mark_line_of_1_gb_keeps_its_slope),
		cmocka_unit_test(mark_of_ipv4_changes_ect_to_ce_and_nothing_else),
		cmocka_unit_test(mark_of_ipv4_with_options_is_the_same),
		cmocka_unit_test(mark_of_ipv6_leaves_flow_label_and_udp_checksum),
		cmocka_unit_test(mark_of_ipv4_behind_a_tag_is_the_same),
		cmocka_unit_test(mark_of_ipv6_behind_a_tag_is_the_same),
		cmocka_unit_test(mark_ipv4_checksum_equals_full_recomputation),
		cmocka_unit_test(mark_leaves_the_icrc_valid),
		cmocka_unit_test(mark_of_tunnel_touches_the_outer_header_alone),
		cmocka_unit_test(mark_of_class_without_ecn_never),
		cmocka_unit_test(mark_of_frame_without_ip_header_never),
	};

	if (refuse_without_root("test_mark"))
		return 1;
	return cmocka_run_group_tests_name("prog_mark", tests, open_program, close_program);
}
