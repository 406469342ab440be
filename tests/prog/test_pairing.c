// SPDX-License-Identifier: BSD-2-Clause
// Which QP answers which: what the XDP program tells of answers, and that what is learned from real
// captures by answers alone is what CM says, each pair and no other.
#include "programs.h"

#include "capture/capture.h"
#include "control/pairs.h"

enum { CAPTURE_FLOWS = 1024, CAPTURE_RING_BYTES = 65536, TRUTH_MAX = 16, QPN_OTHER = 0x445566 };

static void run_xdp(const __u8 *data, size_t len)
{
	static __u8 out[FRAME_ROOM];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = data, .data_size_in = len, .data_out = out,
		.data_size_out = sizeof(out));

	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(skel->progs.quench_xdp), &opts), 0);
}

/* A request of the sender to that QP of the receiver. */
static void ask(__u8 opcode, __u32 qpn, __u32 psn)
{
	static struct frame f;

	frame_make(&f,
		(struct frame_spec){.opcode = opcode, .qpn = qpn, .psn = psn, .payload_bytes = 64});
	run_xdp(f.data, f.len);
}

/* The receiver's answer to that QP of the sender; its key. */
static struct flow_key answer(__u8 opcode, __u8 syndrome, __u32 qpn, __u32 psn)
{
	static struct frame f;

	frame_make(&f, (struct frame_spec){.opcode = opcode,
			       .qpn = qpn,
			       .psn = psn,
			       .syndrome = syndrome,
			       .payload_bytes = 64});
	memcpy(f.data + f.l3_off + 12, receiver_ipv4, 4);
	memcpy(f.data + f.l3_off + 16, sender_ipv4, 4);
	run_xdp(f.data, f.len);
	return frame_key(&f);
}

static size_t heard_count(void)
{
	struct heard heard;

	hear_all(&heard);
	return heard.count;
}

static void answer_of_unknown_pair_names_the_qp_asked(void **state)
{
	struct flow_key key;
	struct heard heard;

	(void)state;
	ask(OP_RC_SEND_ONLY, QPN_RECEIVER, 0xabcdef);
	assert_int_equal(heard_count(), 0);
	key = answer(OP_RC_ACK, 0x1f, QPN_SENDER, 0xabcdef);
	hear_all(&heard);
	assert_int_equal(heard.count, 1);
	assert_int_equal(heard.event[0].type, EVENT_ANSWER);
	assert_memory_equal(&heard.event[0].key, &key, sizeof(key));
	assert_int_equal(heard.event[0].cm.qpn, QPN_RECEIVER);
	assert_int_equal(heard.event[0].cm.psn, 0xabcdef);
	assert_true(heard.event[0].time_ns > 0);
}

static void answer_is_told_for_each_kind_that_has_the_requests_psn(void **state)
{
	static const struct {
		__u8 request, answer, syndrome;
		size_t told;
	} cases[] = {
		{OP_RC_WRITE_ONLY, OP_RC_ACK, 0x00, 1},
		{OP_RC_READ_REQUEST, OP_RC_READ_RESPONSE_FIRST, 0, 1},
		{OP_RC_READ_REQUEST, OP_RC_READ_RESPONSE_ONLY, 0, 1},
		{OP_RC_READ_REQUEST, OP_RC_READ_RESPONSE_MIDDLE, 0, 0},
		{OP_RC_READ_REQUEST, OP_RC_READ_RESPONSE_LAST, 0, 0},
		{OP_RC + 0x14, OP_RC_ATOMIC_ACK, 0, 1},
		{OP_RC_SEND_ONLY, OP_RC_ACK, 0x60, 0}, /* NAK: the PSN that was missed */
		{OP_RC_SEND_ONLY, OP_RC_ACK, 0x21, 0}, /* RNR NAK */
		{OP_UC + 0x04, OP_RC_ACK, 0x1f, 0},    /* no request of a reliable connection */
		{OP_UD_SEND_ONLY, OP_RC_ACK, 0x1f, 0},
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		ask(cases[i].request, QPN_RECEIVER, 100 + i);
		answer(cases[i].answer, cases[i].syndrome, QPN_SENDER, 100 + i);
		if (heard_count() != cases[i].told)
			fail_msg("case %zu: not told %zu times", i, cases[i].told);
	}
}

static void answer_to_a_psn_that_went_to_two_qps_or_none_is_not_told(void **state)
{
	(void)state;
	ask(OP_RC_SEND_ONLY, QPN_RECEIVER, 7);
	ask(OP_RC_SEND_ONLY, QPN_OTHER, 7);
	answer(OP_RC_ACK, 0x1f, QPN_SENDER, 7);
	answer(OP_RC_ACK, 0x1f, QPN_SENDER, 8);
	assert_int_equal(heard_count(), 0);
	ask(OP_RC_SEND_ONLY, QPN_RECEIVER, 8);
	ask(OP_RC_SEND_ONLY, QPN_RECEIVER, 8); /* sent again: still one QP */
	answer(OP_RC_ACK, 0x1f, QPN_SENDER, 8);
	assert_int_equal(heard_count(), 1);
}

static void pair_set_from(const struct flow_key *key, __u32 qpn, enum pair_source source)
{
	map_put(skel->maps.pairs, key, &(struct pair){.peer_qpn = qpn, .source = source});
}

static void answer_of_a_known_pair_is_told_only_against_a_guess(void **state)
{
	struct flow_key key;

	(void)state;
	ask(OP_RC_SEND_ONLY, QPN_RECEIVER, 7);
	key = answer(OP_RC_ACK, 0x1f, QPN_SENDER, 7);
	assert_int_equal(heard_count(), 1);
	pair_set_from(&key, QPN_RECEIVER, PAIR_ANSWERS);
	answer(OP_RC_ACK, 0x1f, QPN_SENDER, 7);
	assert_int_equal(heard_count(), 0);
	pair_set_from(&key, QPN_OTHER, PAIR_ANSWERS);
	answer(OP_RC_ACK, 0x1f, QPN_SENDER, 7);
	assert_int_equal(heard_count(), 1);
	pair_set_from(&key, QPN_OTHER, PAIR_CM);
	answer(OP_RC_ACK, 0x1f, QPN_SENDER, 7);
	assert_int_equal(heard_count(), 0);
}

static void answers_of_a_flow_that_is_not_young_are_sampled(void **state)
{
	enum { YOUNG = 1024, MORE = 1600 };
	__u32 psn, told;

	(void)state;
	for (psn = 0; psn < YOUNG; psn++)
		ask(OP_RC_WRITE_ONLY, QPN_RECEIVER, psn);
	for (psn = 0; psn < YOUNG; psn++)
		answer(OP_RC_ACK, 0x60, QPN_SENDER, psn);
	for (told = 0; psn < YOUNG + MORE; psn++) {
		ask(OP_RC_WRITE_ONLY, QPN_RECEIVER, psn);
		answer(OP_RC_ACK, 0x1f, QPN_SENDER, psn);
		told += heard_count();
	}
	assert_in_range(told, MORE / 32, MORE / 8);
}

/* ---- captures ---- */

struct pair_list {
	struct endpoint a[TRUTH_MAX], b[TRUTH_MAX];
	size_t count;
};

static bool endpoints_equal(const struct endpoint *a, const struct endpoint *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static bool list_has(
	const struct pair_list *list, const struct endpoint *a, const struct endpoint *b)
{
	for (size_t i = 0; i < list->count; i++)
		if ((endpoints_equal(&list->a[i], a) && endpoints_equal(&list->b[i], b)) ||
			(endpoints_equal(&list->a[i], b) && endpoints_equal(&list->b[i], a)))
			return true;
	return false;
}

/* What has come up, each pair once; and into the map, as the agent does it. */
static void list_changes(struct pair_list *list, const struct pairs_changes *c, bool apply)
{
	for (size_t i = 0; i < c->count; i++) {
		const struct pairs_change *change = &c->change[i];
		struct flow_key there = {.dst_qpn = change->b.qpn},
				back = {.dst_qpn = change->a.qpn};

		memcpy(there.src, change->a.addr, sizeof(there.src));
		memcpy(there.dst, change->b.addr, sizeof(there.dst));
		memcpy(back.src, change->b.addr, sizeof(back.src));
		memcpy(back.dst, change->a.addr, sizeof(back.dst));
		assert_int_equal(change->event, PAIRS_UP);
		if (apply) {
			pair_set_from(&there, change->a.qpn, change->source);
			pair_set_from(&back, change->b.qpn, change->source);
		}
		if (list_has(list, &change->a, &change->b))
			continue;
		assert_true(list->count < TRUTH_MAX);
		list->a[list->count] = change->a;
		list->b[list->count++] = change->b;
	}
}

struct lesson {
	struct pairs *by_cm, *by_answers;
	struct pair_list told, learned;
};

static int take_event(void *arg, void *data, size_t bytes)
{
	const struct event *e = data;
	struct endpoint to = {.qpn = e->key.dst_qpn};
	struct lesson *lesson = arg;
	struct pairs_changes c = {0};

	(void)bytes;
	memcpy(to.addr, e->key.dst, sizeof(to.addr));
	if (e->type == EVENT_ANSWER) {
		c = pairs_answer(
			lesson->by_answers, e->key.src, &to, e->cm.qpn, e->cm.psn, e->time_ns);
		list_changes(&lesson->learned, &c, true);
	} else if (e->type == EVENT_CM && e->cm.attribute != CM_DREQ) {
		c = pairs_learn(lesson->by_cm, e->key.src, e->key.dst, &e->cm, e->time_ns);
		list_changes(&lesson->told, &c, false);
	}
	return 0;
}

static void learn_capture(const char *path, struct lesson *lesson)
{
	struct ring_buffer *ring;
	struct analyze_frame frame;
	struct capture *capture;
	struct qerr err;

	lesson->by_cm = pairs_new(64, 64);
	lesson->by_answers = pairs_new(64, 64);
	ring = ring_buffer__new(bpf_map__fd(skel->maps.events), take_event, lesson, NULL);
	assert_non_null(ring);
	if (capture_open_file(path, &capture, &err))
		fail_msg("%s (run from the top of the tree)", err.text);
	while (capture_next(capture, &frame, &err) == CAPTURE_FRAME) {
		if (frame.link != FRAME_ETHERNET || frame.len < 14 || frame.len > 2000)
			continue;
		run_xdp(frame.data, frame.len);
		ring_buffer__consume(ring);
	}
	capture_close(capture);
	ring_buffer__free(ring);
	pairs_free(lesson->by_cm);
	pairs_free(lesson->by_answers);
}

static int large_programs_open(void **state)
{
	(void)state;
	skel = quench_bpf__open();
	if (!skel)
		return -1;
	skel->rodata->depth_rdonly_cast = dataplane_kernel_has_function("bpf_rdonly_cast");
	bpf_map__set_max_entries(skel->maps.flows, CAPTURE_FLOWS);
	bpf_map__set_max_entries(skel->maps.pairs, CAPTURE_FLOWS);
	bpf_map__set_max_entries(skel->maps.events, CAPTURE_RING_BYTES);
	if (quench_bpf__load(skel))
		return -1;
	conf_set(&(struct conf){.udp_ports = WIRE_PORTS_DEFAULT, .slots = SLOTS});
	port_set_flags(0);
	return 0;
}

/*
 * Precision must be 1: none is learned that CM does not tell, or, where CM is not in the capture,
 * that is not its one connection. Recall is 1 here too: each connection has three answers.
 */
static void captures_teach_every_pair_and_no_other(void **state)
{
	static const struct {
		const char *path;
		size_t told, learned;
		__u32 qpn; /* where no CM message tells: the only one, of both QPs */
	} cases[] = {
		{"tests/captures/rxe-6.1.0-rping-v4.pcap", 1, 1, 0},
		{"tests/captures/rxe-6.1.0-rping-v6.pcap", 1, 1, 0},
		{"tests/captures/rxe-6.1.0-writebw-R-v4.pcap", 2, 2, 0},
		{"tests/captures/rxe-7.3.4-readbw-v4.pcap", 0, 1, 0x17},
		{"tests/captures/infiniband.pcap", 0, 0, 0},
	};
	size_t i, k;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		struct lesson lesson = {0};

		programs_close(NULL);
		assert_int_equal(large_programs_open(NULL), 0);
		learn_capture(cases[i].path, &lesson);
		for (k = 0; k < lesson.learned.count; k++) {
			const struct endpoint *a = &lesson.learned.a[k], *b = &lesson.learned.b[k];

			assert_true(cases[i].qpn ? a->qpn == cases[i].qpn && b->qpn == a->qpn
						 : list_has(&lesson.told, a, b));
		}
		assert_int_equal(lesson.told.count, cases[i].told);
		assert_int_equal(lesson.learned.count, cases[i].learned);
	}
}

static int setup(void **state)
{
	return enter_own_network() ? -1 : read_vectors(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		prog_test(answer_of_unknown_pair_names_the_qp_asked),
		prog_test(answer_is_told_for_each_kind_that_has_the_requests_psn),
		prog_test(answer_to_a_psn_that_went_to_two_qps_or_none_is_not_told),
		prog_test(answer_of_a_known_pair_is_told_only_against_a_guess),
		prog_test(answers_of_a_flow_that_is_not_young_are_sampled),
		prog_test(captures_teach_every_pair_and_no_other),
	};

	if (refuse_without_root("test_pairing"))
		return 1;
	return cmocka_run_group_tests_name("pairing", tests, setup, NULL);
}
