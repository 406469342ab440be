// SPDX-License-Identifier: BSD-2-Clause
// One parser, compiled for XDP, for tc, for headers in a copy, and for the host: all of them say
// the same, to the last byte, of every frame, however damaged.
#include "prog.h"

#include "prog/verdict.h"
#include "prog/verdict.skel.h"

enum {
	RANDOM_FRAMES = 150000,
	HEADERS_MAX = 160,    /* bytes of a frame that are changed one by one */
	COPIED_BYTES = 256,   /* FAR_HEADERS_BYTES */
	EVERY_WAY_OF = 8,     /* one of so many damaged frames goes through all programs */
	FRAME_BYTES_MAX = 600 /* of a random frame */
};

static struct verdict_bpf *skel;
static int xdp_fd, tc_fd, far_fd;
static size_t runs, kinds[WIRE_KIND_COUNT], tunnels[TUNNEL_END];

static int open_all(void **state)
{
	skel = verdict_bpf__open_and_load();
	if (!skel)
		return -1;
	xdp_fd = bpf_program__fd(skel->progs.quench_parse);
	tc_fd = bpf_program__fd(skel->progs.quench_parse_tc);
	far_fd = bpf_program__fd(skel->progs.quench_parse_far);
	return read_vectors(state);
}

static int close_all(void **state)
{
	verdict_bpf__destroy(skel);
	return free_vectors(state);
}

static void assert_program_says(const char *build, int fd, const char *name, const __u8 *frame,
	size_t len, const struct wire_frame *want)
{
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = len);
	const struct wire_frame *have = &skel->bss->verdict.frame;
	const __u8 *h = (const __u8 *)have, *w = (const __u8 *)want;
	size_t i;

	memset(&skel->bss->verdict.frame, 0xee, sizeof(*have));
	if (bpf_prog_test_run_opts(fd, &run))
		fail_msg("%s, %zu bytes: cannot run: %s", name, len, strerror(errno));
	runs++;
	assert_int_equal(run.retval, want->kind);
	for (i = 0; i < sizeof(*want); i++)
		if (h[i] != w[i])
			fail_msg("%s, %zu bytes: byte %zu of struct wire_frame is %#x in the %s "
				 "build (%s), %#x in the host's (%s)",
				name, len, i, h[i], build, kind_names[have->kind % WIRE_KIND_COUNT],
				w[i], kind_names[want->kind]);
}

/* BPF_PROG_RUN takes no frames that are shorter than an Ethernet header. */
static bool too_short_to_run(size_t len, const struct wire_frame *host)
{
	if (len >= ETH_HEADER_BYTES)
		return false;
	assert_int_equal(host->kind, WIRE_TRUNCATED);
	return true;
}

static void assert_xdp_same(const char *name, const __u8 *frame, size_t len)
{
	struct wire_frame host = parse(frame, len);

	kinds[host.kind]++;
	tunnels[host.tunnel]++;
	if (!too_short_to_run(len, &host))
		assert_program_says("XDP", xdp_fd, name, frame, len, &host);
}

/* Nor does it make an skb of a frame without all of the IP header that its type announces. */
static bool is_no_skb(const __u8 *frame, size_t len)
{
	__u16 type = frame[12] << 8 | frame[13];

	if (type == ETHERTYPE_IPV4)
		return len < ETH_HEADER_BYTES + IPV4_MIN_BYTES;
	if (type == ETHERTYPE_IPV6)
		return len < ETH_HEADER_BYTES + IPV6_HEADER_BYTES;
	return len == ETH_HEADER_BYTES;
}

static void assert_all_same(const char *name, const __u8 *frame, size_t len)
{
	struct wire_frame host = parse(frame, len);

	assert_xdp_same(name, frame, len);
	if (too_short_to_run(len, &host))
		return;
	if (!is_no_skb(frame, len))
		assert_program_says("tc", tc_fd, name, frame, len, &host);
	if (len > COPIED_BYTES)
		host = parse(frame, COPIED_BYTES);
	assert_program_says("copied", far_fd, name, frame, len, &host);
}

static void verdict_of_every_vector_is_the_same_in_all_builds(void **state)
{
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT(all_rows); i++)
		for (j = 0; j < all_rows[i]->count; j++) {
			const struct row *r = &all_rows[i]->row[j];

			assert_all_same(r->field[0], r->frame, r->len);
		}
}

static void verdict_of_every_cut_vector_is_the_same_in_all_builds(void **state)
{
	size_t i, j, len;

	(void)state;
	for (i = 0; i < COUNT(all_rows); i++)
		for (j = 0; j < all_rows[i]->count; j++) {
			const struct row *r = &all_rows[i]->row[j];

			for (len = 0; len <= r->len && len <= COPIED_BYTES; len++)
				assert_all_same(r->field[0], r->frame, len);
		}
}

static void verdict_of_every_changed_header_byte_is_the_same(void **state)
{
	static const __u8 values[] = {0x00, 0x01, 0x0f, 0x40, 0x7f, 0x80, 0xf0, 0xff};
	size_t i, j, at, v;

	(void)state;
	for (i = 0; i < COUNT(all_rows); i++)
		for (j = 0; j < all_rows[i]->count; j++) {
			struct row *r = &all_rows[i]->row[j];

			for (at = 0; at < r->len && at < HEADERS_MAX; at++) {
				__u8 was = r->frame[at];

				for (v = 0; v < COUNT(values); v++) {
					r->frame[at] = values[v];
					assert_xdp_same(r->field[0], r->frame, r->len);
				}
				r->frame[at] = was;
			}
		}
}

static const struct row *any_row(__u32 *seed)
{
	const struct rows *rows = all_rows[next_random(seed) % COUNT(all_rows)];

	return &rows->row[next_random(seed) % rows->count];
}

static size_t add_bytes(__u8 *frame, size_t len, const __u8 *bytes, size_t count)
{
	if (count > FRAME_BYTES_MAX - len)
		count = FRAME_BYTES_MAX - len;
	memcpy(frame + len, bytes, count);
	return len + count;
}

static size_t add_noise(__u8 *frame, size_t len, __u32 *seed)
{
	size_t more = next_random(seed) % 100;

	while (more-- && len < FRAME_BYTES_MAX)
		frame[len++] = next_random(seed) >> 8;
	return len;
}

/*
 * The start of one vector with the rest of another behind it, or with noise, or whole; then a few
 * bytes changed and the end cut off. Returns its length.
 */
static size_t make_random(__u8 *frame, __u32 *seed)
{
	const struct row *head = any_row(seed), *tail = any_row(seed);
	size_t cut = next_random(seed) % (head->len + 1), from, len, changes;

	switch (next_random(seed) % 4) {
	case 0:
		len = add_bytes(frame, 0, head->frame, cut);
		from = next_random(seed) % (tail->len + 1);
		len = add_bytes(frame, len, tail->frame + from, tail->len - from);
		break;
	case 1:
		len = add_noise(frame, add_bytes(frame, 0, head->frame, cut), seed);
		break;
	default:
		len = add_bytes(frame, 0, head->frame, head->len);
	}
	for (changes = next_random(seed) % 5; changes && len; changes--)
		frame[next_random(seed) % len] = next_random(seed) >> 8;
	return next_random(seed) % 4 ? len : next_random(seed) % (len + 1);
}

static void verdict_of_random_frame_is_the_same(void **state)
{
	__u8 *room = frame_alloc(FRAME_BYTES_MAX);
	__u32 seed = 0x4791beef;
	int i;

	(void)state;
	for (i = 0; i < RANDOM_FRAMES; i++) {
		size_t len = make_random(room, &seed);

		if (i % EVERY_WAY_OF)
			assert_xdp_same("random", room, len);
		else
			assert_all_same("random", room, len);
	}
	frame_free(room);
}

/* Native InfiniBand is in captures only: no Ethernet frame is of that kind. */
static void verdict_of_each_kind_and_tunnel_was_given(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < WIRE_KIND_COUNT; i++)
		if (!kinds[i] != (i == WIRE_INFINIBAND))
			fail_msg("%zu frames of kind %s", kinds[i], kind_names[i]);
	for (i = 0; i < TUNNEL_END; i++)
		if (!tunnels[i])
			fail_msg("no frame in tunnel %d", i);
	print_message("%zu runs\n", runs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdict_of_every_vector_is_the_same_in_all_builds),
		cmocka_unit_test(verdict_of_every_cut_vector_is_the_same_in_all_builds),
		cmocka_unit_test(verdict_of_every_changed_header_byte_is_the_same),
		cmocka_unit_test(verdict_of_random_frame_is_the_same),
		cmocka_unit_test(verdict_of_each_kind_and_tunnel_was_given),
	};

	if (refuse_without_root("test_same"))
		return 1;
	return cmocka_run_group_tests_name("prog_same", tests, open_all, close_all);
}
