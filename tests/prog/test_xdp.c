// SPDX-License-Identifier: BSD-2-Clause
// The XDP program on frames: its verdict, the counters and the flow records that move, the events
// that it sends; and that it never changes a byte.
#include "programs.h"

enum { DROP = 1, PASS = 2 }; /* XDP_DROP, XDP_PASS */

/* Run the program on the frame, see that it leaves every byte alone, and return its verdict. */
static int run(const char *what, const __u8 *data, size_t len)
{
	static __u8 out[FRAME_ROOM];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = data, .data_size_in = len, .data_out = out,
		.data_size_out = sizeof(out));
	int code = bpf_prog_test_run_opts(bpf_program__fd(skel->progs.quench_xdp), &opts);

	if (code)
		fail_msg("%s: BPF_PROG_RUN: %s", what, strerror(-code));
	assert_same_bytes(what, out, opts.data_size_out, data, len);
	return opts.retval;
}

static void pass(const char *what, const struct frame *f)
{
	assert_int_equal(run(what, f->data, f->len), PASS);
}

/* Make a frame and let it pass; its key. */
static struct flow_key pass_spec(const char *what, struct frame_spec spec)
{
	static struct frame f;

	frame_make(&f, spec);
	pass(what, &f);
	return frame_key(&f);
}

static bool flow_exists(const struct flow_key *key)
{
	struct flow flow;

	return !bpf_map_lookup_elem(bpf_map__fd(skel->maps.flows), key, &flow);
}

/* In conf_default, DSCP 26 is one class, DSCP 10 and PCP 3 are another; the rest means none. */
static bool trusts_disagree(const struct wire_frame *f)
{
	return f->pcp == 3 && (f->l3 == L3_IPV4 || f->l3 == L3_IPV6) && f->tos >> 2 == 26;
}

/* A PFC frame that the port does not obey in any priority, read byte by byte. */
static void add_pfc(struct port_stats *want, const __u8 *m)
{
	enum { VECTOR_OFF = 3, TIMES_OFF = 4 };
	int i;

	if (!m[VECTOR_OFF])
		want->pause_ignored[PAUSE_IGNORED_EMPTY] = 1;
	for (i = 0; i < PRIORITIES; i++) {
		if (!(m[VECTOR_OFF] >> i & 1))
			continue;
		if (m[TIMES_OFF + 2 * i] || m[TIMES_OFF + 2 * i + 1])
			want->xoff_received[i] = 1;
		else
			want->xon_received[i] = 1;
		want->pause_ignored[PAUSE_IGNORED_NOT_ENABLED]++;
	}
}

/* The port trusts the DSCP, and where there is none the PCP. */
static int class_of(const struct wire_frame *f)
{
	if (f->l3 == L3_IPV4 || f->l3 == L3_IPV6)
		return f->tos >> 2 == 26   ? ROCE_CLASS
		       : f->tos >> 2 == 10 ? OTHER_CLASS
					   : CLASSES_MAX;
	return f->pcp == 3 ? OTHER_CLASS : CLASSES_MAX;
}

/* What the counters must be after that one frame. */
static struct port_stats stats_of_one(const struct wire_frame *f, const __u8 *frame)
{
	struct port_stats want = {0};

	want.frames[f->kind] = 1;
	if (wire_is_roce(f->kind)) {
		want.ce_received = wire_is_ce(f->tos);
		want.roce_class[class_of(f)] = 1;
		want.trust_disagrees = trusts_disagree(f);
		want.ce_inside = f->tunnel && wire_is_ce(f->inner_tos);
		if (f->tunnel)
			want.tunnels[f->tunnel - 1] = 1;
	}
	if (f->kind == WIRE_CNP && !f->tunnel)
		want.cnp_received = want.cnp_unknown_pair = 1;
	if (f->kind == WIRE_PFC || f->kind == WIRE_PAUSE || f->kind == WIRE_MAC_CONTROL)
		want.drops[PORT_DROP_PAUSE] = 1;
	if (f->kind == WIRE_PFC)
		add_pfc(&want, frame + f->mac_control_off);
	return want;
}

static __u64 packets_of(const struct flow_key *key)
{
	struct flow flow = flow_of(key);

	return flow_packets(&flow);
}

static void forget_flow(const struct flow_key *key)
{
	bpf_map_delete_elem(bpf_map__fd(skel->maps.flows), key);
}

/* Neither direction of the TCP connection is iWARP any more. */
static void forget_iwarp(const struct flow_key *key)
{
	struct flow_key back = {.dst_qpn = key->dst_qpn << 16 | key->dst_qpn >> 16};

	memcpy(back.src, key->dst, sizeof(back.src));
	memcpy(back.dst, key->src, sizeof(back.dst));
	bpf_map_delete_elem(bpf_map__fd(skel->maps.iwarp), key);
	bpf_map_delete_elem(bpf_map__fd(skel->maps.iwarp), &back);
}

static void xdp_every_vector_moves_the_counters_of_its_kind_only(void **state)
{
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT(all_rows); i++)
		for (j = 0; j < all_rows[i]->count; j++) {
			const struct row *r = &all_rows[i]->row[j];
			struct wire_frame f = parse(r->frame, r->len);
			bool consumed = f.kind == WIRE_PFC || f.kind == WIRE_PAUSE ||
					f.kind == WIRE_MAC_CONTROL;

			if (r->len < ETH_HEADER_BYTES)
				continue;
			clear_stats();
			assert_int_equal(
				run(r->field[0], r->frame, r->len), consumed ? DROP : PASS);
			assert_stats(r->field[0], stats_of_one(&f, r->frame));
			assert_int_equal(flow_exists(&f.key), wire_is_roce(f.kind));
			forget_flow(&f.key);
			forget_iwarp(&f.key);
		}
}

static void xdp_unknown_port_passes_and_counts_nothing(void **state)
{
	const struct row *pfc = find_row(&frame_rows, "pfc_prio3_forever");
	struct port_stats zero = {0}, have;
	struct flow_key key;
	__u32 slot;

	(void)state;
	port_forget();
	key = pass_spec("data", (struct frame_spec){.opcode = OP_RC_SEND_ONLY, .tos = TOS_CE});
	assert_int_equal(run("pfc", pfc->frame, pfc->len), PASS);
	assert_false(flow_exists(&key));
	for (slot = 0; slot < SLOTS_MAX; slot++) {
		have = stats_sum(skel->maps.port_stats, slot);
		stats_assert_equal("unknown port", &have, &zero);
	}
}

static void port_whose_place_is_another_ones_is_found(void **state)
{
	(void)state;
	port_take_place(LOOPBACK);
	pass_spec("place taken", (struct frame_spec){.opcode = OP_RC_SEND_ONLY});
	assert_stats("place taken",
		(struct port_stats){.frames[WIRE_ROCEV2] = 1, .roce_class[CLASSES_MAX] = 1});
}

static void flow_record_counts_packets_and_ip_bytes(void **state)
{
	static const struct {
		struct frame_spec spec;
		__u64 bytes; /* IP packet or GRH, ICRC counted */
	} cases[] = {
		{{.opcode = OP_RC_SEND_ONLY, .payload_bytes = 1000}, 20 + 8 + 12 + 1000 + 4},
		{{.opcode = OP_RC_SEND_ONLY, .payload_bytes = 1000, .tags = 2},
			20 + 8 + 12 + 1000 + 4},
		{{.opcode = OP_RC_SEND_ONLY, .option_words = 10}, 60 + 8 + 12 + 4},
		{{.opcode = OP_RC_SEND_ONLY, .l3 = L3_IPV6, .payload_bytes = 4},
			40 + 8 + 12 + 4 + 4},
		{{.opcode = OP_RC_SEND_ONLY, .l3 = L3_GRH, .payload_bytes = 4}, 40 + 12 + 4 + 4},
		{{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 16 + 4096}, 20 + 8 + 12 + 4112 + 4},
		{{.opcode = OP_RC_ACK}, 20 + 8 + 12 + 4 + 4},
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		struct flow_key key = pass_spec("first", cases[i].spec);
		struct flow flow;

		pass_spec("second", cases[i].spec);
		flow = flow_of(&key);
		assert_int_equal(flow_packets(&flow), 2);
		assert_int_equal(flow_bytes(&flow), 2 * cases[i].bytes);
		assert_int_equal(flow.slot, PORT_SLOT);
		assert_int_equal(flow.l3, cases[i].spec.l3 ? cases[i].spec.l3 : L3_IPV4);
		assert_int_equal(flow.last_ns, NOW_NS);
		forget_flow(&key);
	}
}

static void run_on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* The CPU that saw the first frame counts alone; the frames of others add up with its own. */
static void flow_record_seen_by_other_cpus_counts_each_frame_once(void **state)
{
	const struct frame_spec spec = {.opcode = OP_RC_SEND_ONLY, .payload_bytes = 1000};
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), cpu, round;
	struct flow_key key = {0};
	cpu_set_t before;
	struct flow flow;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (round = 0; round < 3; round++)
		for (cpu = 0; cpu < cpus; cpu++) {
			run_on_cpu(cpu);
			key = pass_spec("each CPU", spec);
		}
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	flow = flow_of(&key);
	assert_int_equal(flow.cpu, 0);
	assert_int_equal(flow.packets, 3);
	assert_int_equal(flow_packets(&flow), 3 * cpus);
	assert_int_equal(flow_bytes(&flow), 3 * cpus * (20 + 8 + 12 + 1000 + 4));
}

static void flow_record_ethernet_padding_is_not_counted(void **state)
{
	static struct frame f;
	struct flow_key key;
	struct flow flow;

	(void)state;
	frame_make(&f, (struct frame_spec){.opcode = OP_RC_ACK});
	key = frame_key(&f);
	f.len += 40;
	pass("padded", &f);
	flow = flow_of(&key);
	assert_int_equal(flow_bytes(&flow), 48);
}

static void flow_record_counts_ce_and_no_other_codepoint(void **state)
{
	struct flow_key key = {0};
	int tos;

	(void)state;
	for (tos = TOS_NOT_ECT; tos <= TOS_CE; tos++)
		key = pass_spec("ecn", (struct frame_spec){.opcode = OP_RC_SEND_ONLY, .tos = tos});
	assert_int_equal(flow_of(&key).ce, 1);
	assert_int_equal(packets_of(&key), 4);
	assert_stats("ecn",
		(struct port_stats){
			.frames[WIRE_ROCEV2] = 4, .roce_class[ROCE_CLASS] = 4, .ce_received = 1});
}

static void flow_record_counts_nak_and_no_other_syndrome(void **state)
{
	static const __u8 syndromes[] = {0x00, 0x1f, 0x20, 0x3f, 0x60, 0x61, 0x64, 0x80, 0xe0};
	struct flow_key key = {0};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(syndromes); i++)
		key = pass_spec(
			"ack", (struct frame_spec){.opcode = OP_RC_ACK, .syndrome = syndromes[i]});
	assert_int_equal(flow_of(&key).nak, 3); /* 0x60, 0x61, 0x64: 0x20 and 0x3f are RNR NAKs */
	assert_int_equal(packets_of(&key), COUNT(syndromes));
	assert_int_equal(flow_of(&key).psn_known, 0);
}

struct psn_case {
	const char *name;
	__u32 psn[6]; /* of requests, one after another */
	int count, gaps, retransmissions;
};

static void flow_record_counts_psn_gaps_and_retransmissions(void **state)
{
	static const struct psn_case cases[] = {
		{"first PSN, whatever it is", {0x123456}, 1, 0, 0},
		{"one after another", {5, 6, 7}, 3, 0, 0},
		{"one missing", {5, 7, 8}, 3, 1, 0},
		{"many missing", {5, 1000, 1001}, 3, 1, 0},
		{"same once more", {5, 5, 6}, 3, 0, 1},
		{"go back and on", {5, 6, 7, 6, 7, 8}, 6, 0, 2},
		{"over the end of 24 bits", {0xfffffe, 0xffffff, 0, 1}, 4, 0, 0},
		{"gap over the end", {0xfffffe, 1}, 2, 1, 0},
		{"back over the end", {1, 0xffffff, 2}, 3, 0, 1},
		{"as far ahead as one connection gets", {0, 65535, 65536}, 3, 1, 0},
		{"as far back", {65535, 0, 65536}, 3, 0, 1},
		{"further ahead: another connection", {0, 65536, 65537}, 3, 0, 0},
		{"further back: another one", {65536, 0, 1}, 3, 0, 0},
		{"half the circle away", {0, 0x800000}, 2, 0, 0},
	};
	size_t i;
	int j;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		const struct psn_case *c = &cases[i];
		struct flow_key key = {0};
		struct flow flow;

		for (j = 0; j < c->count; j++)
			key = pass_spec(c->name, (struct frame_spec){.opcode = OP_RC_WRITE_MIDDLE,
							 .psn = c->psn[j]});
		flow = flow_of(&key);
		if ((int)flow.psn_gaps != c->gaps ||
			(int)flow.retransmissions != c->retransmissions)
			fail_msg("%s: %llu gaps, %llu retransmissions", c->name, flow.psn_gaps,
				flow.retransmissions);
		forget_flow(&key);
	}
}

/* Responses carry the requester's PSNs, which run on by no rule that this port sees. */
static void flow_record_responses_leave_psns_alone(void **state)
{
	struct flow_key key;

	(void)state;
	pass_spec("request", (struct frame_spec){.opcode = OP_RC_SEND_ONLY, .psn = 10});
	pass_spec("response", (struct frame_spec){.opcode = OP_RC_READ_RESPONSE_ONLY, .psn = 900});
	pass_spec("ack", (struct frame_spec){.opcode = OP_RC_ACK, .psn = 3});
	key = pass_spec("request", (struct frame_spec){.opcode = OP_RC_SEND_ONLY, .psn = 11});
	assert_int_equal(flow_of(&key).psn, 11);
	assert_int_equal(flow_of(&key).psn_gaps, 0);
	assert_int_equal(flow_of(&key).retransmissions, 0);
}

/* A READ request uses up as many PSNs as its response has packets. */
static void flow_record_read_request_is_followed_by_any_psn(void **state)
{
	struct flow_key key;

	(void)state;
	pass_spec("read",
		(struct frame_spec){.opcode = OP_RC_READ_REQUEST, .psn = 10, .payload_bytes = 16});
	key = pass_spec("send", (struct frame_spec){.opcode = OP_RC_SEND_ONLY, .psn = 42});
	assert_int_equal(flow_of(&key).psn_gaps, 0);
	pass_spec("send", (struct frame_spec){.opcode = OP_RC_SEND_ONLY, .psn = 44});
	assert_int_equal(flow_of(&key).psn_gaps, 1);
}

static void flow_record_xrc_read_request_is_followed_by_any_psn(void **state)
{
	struct flow_key key;

	(void)state;
	pass_spec("read",
		(struct frame_spec){
			.opcode = OP_XRC + OP_RC_READ_REQUEST, .psn = 10, .payload_bytes = 20});
	key = pass_spec(
		"send", (struct frame_spec){
				.opcode = OP_XRC + OP_RC_SEND_ONLY, .psn = 42, .payload_bytes = 4});
	assert_int_equal(packets_of(&key), 2);
	assert_int_equal(flow_of(&key).psn_gaps, 0);
}

static void flow_record_datagrams_have_no_gaps_and_no_retransmissions(void **state)
{
	static const __u32 psns[] = {5, 900, 3, 3};
	struct flow_key key = {0};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(psns); i++)
		key = pass_spec("UD", (struct frame_spec){.opcode = OP_UD_SEND_ONLY,
					      .psn = psns[i],
					      .payload_bytes = DETH_BYTES});
	assert_int_equal(packets_of(&key), COUNT(psns));
	assert_int_equal(flow_of(&key).psn_gaps, 0);
	assert_int_equal(flow_of(&key).retransmissions, 0);
}

/* A QPN that is used again starts anywhere; what follows is counted from there. */
static void flow_record_of_another_connection_starts_afresh(void **state)
{
	static const __u32 psns[] = {1000000, 1000001, 5, 6, 8, 7, 0x800000, 0x800001};
	struct flow_key key = {0};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(psns); i++)
		key = pass_spec(
			"RC", (struct frame_spec){.opcode = OP_RC_SEND_ONLY, .psn = psns[i]});
	assert_int_equal(flow_of(&key).psn_gaps, 1);
	assert_int_equal(flow_of(&key).retransmissions, 1);
}

static void flow_table_full_counts_and_passes(void **state)
{
	struct frame_spec spec = {.opcode = OP_RC_SEND_ONLY, .tos = TOS_CE};
	struct flow_key key = {0};
	__u32 qpn;

	(void)state;
	for (qpn = 1; qpn <= FLOWS; qpn++) {
		spec.qpn = qpn;
		pass_spec("fits", spec);
	}
	for (qpn = 0x100; qpn < 0x103; qpn++) {
		spec.qpn = qpn;
		key = pass_spec("one too many", spec);
		assert_false(flow_exists(&key));
	}
	assert_stats("full", (struct port_stats){.frames[WIRE_ROCEV2] = FLOWS + 3,
				     .roce_class[ROCE_CLASS] = FLOWS + 3,
				     .ce_received = FLOWS + 3,
				     .flows_full = 3});
	spec.qpn = 1;
	key = pass_spec("known one", spec);
	assert_int_equal(packets_of(&key), 2);
}

static void make_cnp(struct frame *f)
{
	frame_make(f, (struct frame_spec){.opcode = OP_CNP, .payload_bytes = 16, .tos = 0xc2});
}

/* The data flow that a CNP with this key is about: back to where the CNP came from. */
static struct flow_key data_key_of(const struct flow_key *cnp)
{
	struct flow_key data = {.dst_qpn = QPN_SENDER};

	memcpy(data.src, cnp->dst, sizeof(data.src));
	memcpy(data.dst, cnp->src, sizeof(data.dst));
	return data;
}

static void cnp_of_known_pair_is_counted_for_it(void **state)
{
	static struct frame f;
	struct flow_key key, data;
	struct heard heard;

	(void)state;
	make_cnp(&f);
	key = frame_key(&f);
	pair_set(&key);
	data = data_key_of(&key);
	flow_set(&data);
	pass("cnp", &f);
	pass("cnp", &f);
	assert_int_equal(flow_of(&data).cnp, 2);
	assert_int_equal(packets_of(&data), 1);
	assert_stats("cnp", (struct port_stats){.frames[WIRE_CNP] = 2, .cnp_received = 2});
	hear_all(&heard); /* no reaction point: nothing for the agent to do */
	assert_int_equal(heard.count, 0);
	assert_false(flow_exists(&key));
}

static void cnp_of_unknown_pair_is_counted_and_told_to_nobody(void **state)
{
	static struct frame f;
	struct heard heard;

	(void)state;
	port_set_flags(PORT_REACTION);
	make_cnp(&f);
	pass("cnp", &f);
	assert_stats(
		"cnp", (struct port_stats){
			       .frames[WIRE_CNP] = 1, .cnp_received = 1, .cnp_unknown_pair = 1});
	hear_all(&heard);
	assert_int_equal(heard.count, 0);
}

static void pause_at_a_port_that_only_looks_passes(void **state)
{
	const struct row *row = find_row(&frame_rows, "uts_pfc");

	(void)state;
	port_set_flags(0);
	assert_int_equal(run(row->field[0], row->frame, row->len), PASS);
}

static void cnp_at_reaction_point_becomes_event(void **state)
{
	static struct frame f;
	struct flow_key key, data;
	struct heard heard;

	(void)state;
	port_set_flags(PORT_REACTION);
	make_cnp(&f);
	key = frame_key(&f);
	pair_set(&key);
	data = data_key_of(&key);
	pass("cnp", &f);
	hear_all(&heard);
	assert_int_equal(heard.count, 1);
	assert_int_equal(heard.event[0].type, EVENT_CNP);
	assert_int_equal(heard.event[0].slot, PORT_SLOT);
	assert_memory_equal(&heard.event[0].key, &data, sizeof(data));
	assert_true(heard.event[0].time_ns > 0);
}

static void cm_message_becomes_event_with_its_fields(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < cm_rows.count; i++) {
		const struct row *r = &cm_rows.row[i];
		struct wire_frame f = parse(r->frame, r->len);
		struct heard heard;

		assert_int_equal(run(r->field[0], r->frame, r->len), PASS);
		hear_all(&heard);
		assert_int_equal(heard.count, 1);
		assert_int_equal(heard.event[0].type, EVENT_CM);
		assert_int_equal(heard.event[0].slot, PORT_SLOT);
		assert_memory_equal(&heard.event[0].key, &f.key, sizeof(f.key));
		assert_int_equal(heard.event[0].cm.attribute, number(r->field[1]));
		assert_int_equal(heard.event[0].cm.local_id, number(r->field[2]));
		assert_int_equal(heard.event[0].cm.remote_id, number(r->field[3]));
		assert_int_equal(heard.event[0].cm.qpn, number(r->field[4]));
		assert_int_equal(heard.event[0].cm.psn, number(r->field[5]));
	}
}

static void cm_message_over_ipv6_and_grh_becomes_event(void **state)
{
	static const char *const names[] = {"v6_cm_req", "v1_cm_req"};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(names); i++) {
		const struct row *r = find_row(&frame_rows, names[i]);
		struct heard heard;

		assert_int_equal(run(names[i], r->frame, r->len), PASS);
		hear_all(&heard);
		assert_int_equal(heard.count, 1);
		assert_int_equal(heard.event[0].cm.attribute, CM_REQ);
		assert_int_equal(heard.event[0].cm.qpn, 0x001122);
	}
}

static void cm_message_of_another_class_or_cut_short_is_no_event(void **state)
{
	const struct row *r = &cm_rows.row[0];
	struct wire_frame f = parse(r->frame, r->len);
	size_t mad = f.bth_off + BTH_BYTES + DETH_BYTES;
	__u8 *frame = frame_copy(r->frame, r->len);
	struct heard heard;

	(void)state;
	frame[mad + 1] = 0x03; /* subnet administration */
	assert_int_equal(run("another class", frame, r->len), PASS);
	frame[mad + 1] = MAD_CLASS_CM;
	assert_int_equal(run("cut in the message", frame, mad + 71), PASS);
	hear_all(&heard);
	assert_int_equal(heard.count, 0);
	assert_int_equal(run("just long enough", frame, mad + 72), PASS);
	hear_all(&heard);
	assert_int_equal(heard.count, 1);
	frame_free(frame);
}

static void event_ring_keeps_half_for_others_when_cnps_storm(void **state)
{
	static struct frame f;
	struct flow_key key;
	struct heard heard;
	size_t i, fits = RING_BYTES / (sizeof(struct event) + 8), sent = fits + 10;

	(void)state;
	port_set_flags(PORT_REACTION);
	make_cnp(&f);
	key = frame_key(&f);
	pair_set(&key);
	for (i = 0; i < sent; i++)
		pass("cnp", &f);
	hear_all(&heard);
	assert_stats("full", (struct port_stats){.frames[WIRE_CNP] = sent,
				     .cnp_received = sent,
				     .ring_drops = sent - heard.count});
	assert_in_range(heard.count, fits / 2, fits / 2 + 2);
}

static int setup(void **state)
{
	return enter_own_network() ? -1 : read_vectors(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		prog_test(xdp_every_vector_moves_the_counters_of_its_kind_only),
		prog_test(xdp_unknown_port_passes_and_counts_nothing),
		prog_test(port_whose_place_is_another_ones_is_found),
		prog_test(flow_record_counts_packets_and_ip_bytes),
		prog_test(flow_record_seen_by_other_cpus_counts_each_frame_once),
		prog_test(flow_record_ethernet_padding_is_not_counted),
		prog_test(flow_record_counts_ce_and_no_other_codepoint),
		prog_test(flow_record_counts_nak_and_no_other_syndrome),
		prog_test(flow_record_counts_psn_gaps_and_retransmissions),
		prog_test(flow_record_responses_leave_psns_alone),
		prog_test(flow_record_read_request_is_followed_by_any_psn),
		prog_test(flow_record_xrc_read_request_is_followed_by_any_psn),
		prog_test(flow_record_datagrams_have_no_gaps_and_no_retransmissions),
		prog_test(flow_record_of_another_connection_starts_afresh),
		prog_test(flow_table_full_counts_and_passes),
		prog_test(cnp_of_known_pair_is_counted_for_it),
		prog_test(cnp_of_unknown_pair_is_counted_and_told_to_nobody),
		prog_test(pause_at_a_port_that_only_looks_passes),
		prog_test(cnp_at_reaction_point_becomes_event),
		prog_test(cm_message_becomes_event_with_its_fields),
		prog_test(cm_message_over_ipv6_and_grh_becomes_event),
		prog_test(cm_message_of_another_class_or_cut_short_is_no_event),
		prog_test(event_ring_keeps_half_for_others_when_cnps_storm),
	};

	if (refuse_without_root("test_xdp"))
		return 1;
	return cmocka_run_group_tests_name("prog_xdp", tests, setup, free_vectors);
}
