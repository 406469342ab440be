// SPDX-License-Identifier: BSD-2-Clause
// One answer everywhere: the same frames over a cable, read by XDP in native and in generic mode,
// at tc, from a packet socket and from a capture file. All of them say the same of each.
#include "programs.h"

#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <time.h>

#include "analyze/analyze.h"
#include "capture/capture.h"
#include "prog/verdict.h"
#include "prog/verdict.skel.h"

#define SENDER	     "e0"
#define RECEIVER     "e1"
#define CAPTURE_FILE BUILD_DIR "/prog/hooks.pcap"

enum {
	FRAMES_MAX = 600,
	JUMBO_PAYLOAD_BYTES = 4096,
	MTU_BYTES = 9000,
	IDLES_MAX = 20,	     /* in a row, of a tenth of a second, before a capture has ended */
	VLAN_NEEDS = 14 + 6, /* bytes without which the kernel drops a tagged frame by itself */
};

struct sample {
	const char *name;
	const __u8 *data;
	size_t len;
};

static struct sample samples[FRAMES_MAX];
static size_t samples_count;
static struct frame jumbos[8];
static struct verdict_bpf *verdicts;
static int receiver_index, send_fd;

static void add_sample(const char *name, const __u8 *data, size_t len)
{
	assert_true(samples_count < FRAMES_MAX);
	if (len >= ETH_HEADER_BYTES) /* the kernel sends nothing shorter */
		samples[samples_count++] = (struct sample){name, data, len};
}

/* Longer than a page: not linear behind the sender's first bytes, nor where XDP gets it. */
static void add_jumbos(void)
{
	static const struct frame_spec specs[] = {
		{.tos = TOS_CE},
		{.tos = TOS_ECT0, .tags = 1},
		{.tos = TOS_ECT0, .tags = 2},
		{.l3 = L3_IPV6, .tos = TOS_ECT0},
		{.l3 = L3_GRH, .tags = 1},
	};
	static const char *const names[] = {
		"jumbo", "jumbo_tagged", "jumbo_qinq", "jumbo_ipv6", "jumbo_rocev1_tagged"};
	size_t i;

	for (i = 0; i < COUNT(specs); i++) {
		struct frame_spec spec = specs[i];

		spec.opcode = OP_RC_SEND_ONLY;
		spec.payload_bytes = JUMBO_PAYLOAD_BYTES;
		frame_make(&jumbos[i], spec);
		add_sample(names[i], jumbos[i].data, jumbos[i].len);
	}
}

/* With a virtio header in front, which says how much of the frame lies in the linear part. */
static int open_sender(void)
{
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(SENDER)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
		setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)) ||
		bind(fd, (struct sockaddr *)&to, sizeof(to)))
		return -1;
	return fd;
}

static int open_all(void **state)
{
	size_t i, j;

	if (read_vectors(state) || unshare(CLONE_NEWNET))
		return -1;
	shell("sysctl -qw net.ipv6.conf.default.disable_ipv6=1"); /* no frames but ours */
	shell("ip link add " SENDER " type veth peer name " RECEIVER);
	shell("ip link set " SENDER " mtu 9000 up && ip link set " RECEIVER " mtu 9000 up");
	receiver_index = (int)if_nametoindex(RECEIVER);
	send_fd = open_sender();
	for (i = 0; i < COUNT(all_rows); i++)
		for (j = 0; j < all_rows[i]->count; j++) {
			const struct row *r = &all_rows[i]->row[j];

			add_sample(r->field[0], r->frame, r->len);
		}
	add_jumbos();
	return send_fd < 0 ? -1 : 0;
}

static int close_all(void **state)
{
	close(send_fd);
	return free_vectors(state);
}

static void send_sample(const struct sample *s)
{
	static __u8 message[sizeof(struct virtio_net_hdr) + FRAME_ROOM];
	struct virtio_net_hdr header = {.hdr_len = ETH_HEADER_BYTES};
	size_t bytes = sizeof(header) + s->len;

	memcpy(message, &header, sizeof(header));
	memcpy(message + sizeof(header), s->data, s->len);
	if (send(send_fd, message, bytes, 0) != (ssize_t)bytes)
		fail_msg("%s, %zu bytes: %s", s->name, s->len, strerror(errno));
}

static void detach_xdp(void)
{
	bpf_xdp_detach(receiver_index, XDP_FLAGS_DRV_MODE, NULL);
	bpf_xdp_detach(receiver_index, XDP_FLAGS_SKB_MODE, NULL);
}

/* Put the program in place, in that mode and no other. */
static void attach_xdp(const struct bpf_program *program, __u32 mode)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);

	detach_xdp(); /* what a test that failed has left */
	assert_int_equal(bpf_xdp_attach(receiver_index, bpf_program__fd(program), mode, NULL), 0);
	assert_int_equal(bpf_xdp_query(receiver_index, 0, &query), 0);
	assert_true(mode == XDP_FLAGS_SKB_MODE ? query.skb_prog_id : query.drv_prog_id);
	assert_false(mode == XDP_FLAGS_SKB_MODE ? query.drv_prog_id : query.skb_prog_id);
}

static bool has_come(const volatile __u32 *count, __u32 wanted)
{
	struct timespec pause = {.tv_nsec = 100000};
	int i;

	for (i = 0; i < ANSWER_MS * 10 && *count != wanted; i++)
		nanosleep(&pause, NULL);
	return *count == wanted;
}

/* ---- what is the same everywhere ---- */

/* Offsets are not: of tagged frames, tc has bytes without the outer tag. */
struct answer {
	__u32 kind, cls, pcp, tos, tunnel, inner_tos, opcode, pkey, psn, mpa;
	__u32 bytes; /* from the IP header or GRH to the ICRC */
	struct flow_key key;
};

static struct answer answer_of(const struct wire_frame *f, __u32 cls)
{
	return (struct answer){
		.kind = f->kind,
		.cls = cls,
		.pcp = f->pcp,
		.tos = f->tos,
		.tunnel = f->tunnel,
		.inner_tos = f->inner_tos,
		.opcode = f->opcode,
		.pkey = f->pkey,
		.psn = f->psn,
		.mpa = f->mpa,
		.bytes = f->icrc_off ? f->icrc_off - wire_roce_l3_off(f) : 0,
		.key = f->key,
	};
}

/* The class by PCP, or else by DSCP, said once more. */
static __u32 class_by_hand(const struct wire_frame *f)
{
	if (f->pcp < 8)
		return f->pcp == 3 ? OTHER_CLASS : CLASS_NONE;
	if (f->l3 != L3_IPV4 && f->l3 != L3_IPV6)
		return CLASS_NONE;
	return f->tos >> 2 == 26 ? ROCE_CLASS : f->tos >> 2 == 10 ? OTHER_CLASS : CLASS_NONE;
}

static struct answer host_answer(const struct sample *s)
{
	struct wire_frame f = parse(s->data, s->len);

	return answer_of(&f, class_by_hand(&f));
}

static void assert_answer(const char *where, const struct sample *s, struct answer have)
{
	struct answer want = host_answer(s);

	if (memcmp(&have, &want, sizeof(have)))
		fail_msg("%s at %s: %s, class %u, PCP %u, QP %#x, %u bytes; elsewhere %s, class "
			 "%u, PCP %u, QP %#x, %u bytes",
			s->name, where, kind_names[have.kind % WIRE_KIND_COUNT], have.cls, have.pcp,
			have.key.dst_qpn, have.bytes, kind_names[want.kind], want.cls, want.pcp,
			want.key.dst_qpn, want.bytes);
}

static void assert_verdict(const char *where, const struct sample *s, const struct hook_verdict *v,
	__u32 frames_before)
{
	if (!has_come(&v->seen, frames_before + 1))
		fail_msg("%s does not come to %s", s->name, where);
	assert_answer(where, s, answer_of(&v->frame, v->cls));
}

/* A tag that the kernel cannot take out of the bytes: the frame ends before tc and sockets. */
static bool kernel_drops(const struct sample *s)
{
	__u16 type = s->data[12] << 8 | s->data[13];

	return (type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ) && s->len < VLAN_NEEDS;
}

static struct capture *open_socket(void)
{
	struct qerr err = {};
	struct capture *c = NULL;

	if (capture_open_port(RECEIVER, &c, &err))
		fail_msg("%s", err.text);
	return c;
}

static void assert_next(const char *where, struct capture *c, const struct sample *s)
{
	enum capture_step step = CAPTURE_IDLE;
	struct analyze_frame frame;
	struct qerr err = {};
	struct wire_frame f;
	int i;

	for (i = 0; i < IDLES_MAX && step == CAPTURE_IDLE; i++)
		step = capture_next(c, &frame, &err);
	if (step != CAPTURE_FRAME)
		fail_msg("%s does not come to %s", s->name, where);
	assert_same_bytes(s->name, frame.data, frame.len, s->data, s->len);
	f = parse(frame.data, frame.len);
	assert_answer(where, s, answer_of(&f, class_by_hand(&f)));
}

static void assert_socket_says_the_same(struct capture *c)
{
	size_t i;

	for (i = 0; i < samples_count; i++)
		if (!kernel_drops(&samples[i]))
			assert_next("a packet socket", c, &samples[i]);
	capture_close(c);
}

/* Through all hooks that a frame passes on its way in, XDP in this mode. */
static void assert_hooks_agree(__u32 mode)
{
	const struct hook_verdict *xdp = &verdicts->bss->at_xdp, *tc = &verdicts->bss->at_tc;
	struct capture *c = open_socket();
	size_t i;

	attach_xdp(verdicts->progs.quench_hook_xdp, mode);
	for (i = 0; i < samples_count; i++) {
		__u32 xdp_before = xdp->seen, tc_before = tc->seen;

		send_sample(&samples[i]);
		assert_verdict(mode == XDP_FLAGS_SKB_MODE ? "generic XDP" : "native XDP",
			&samples[i], xdp, xdp_before);
		if (!kernel_drops(&samples[i]))
			assert_verdict("tc", &samples[i], tc, tc_before);
	}
	detach_xdp();
	assert_socket_says_the_same(c);
	print_message("%zu frames\n", samples_count);
}

/* The first to attach makes the clsact, which has both sides. */
static int attach_tc(enum bpf_tc_attach_point where, const struct bpf_program *program)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = receiver_index, .attach_point = where);
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = bpf_program__fd(program));
	int code = where == BPF_TC_INGRESS ? bpf_tc_hook_create(&hook) : 0;

	return code ? code : bpf_tc_attach(&hook, &opts);
}

static void detach_tc(void)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = receiver_index,
		.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	bpf_tc_hook_destroy(&hook);
}

static int verdicts_open(void **state)
{
	struct conf conf = conf_default();

	(void)state;
	verdicts = verdict_bpf__open_and_load();
	if (!verdicts)
		return -1;
	verdicts->data->conf = conf;
	verdicts->bss->port.flags = TRUSTS_BOTH | PORT_PCP_FIRST;
	return attach_tc(BPF_TC_INGRESS, verdicts->progs.quench_hook_tc);
}

static int verdicts_close(void **state)
{
	(void)state;
	detach_tc();
	verdict_bpf__destroy(verdicts);
	return 0;
}

static void frames_are_the_same_at_native_xdp_tc_and_socket(void **state)
{
	(void)state;
	assert_hooks_agree(XDP_FLAGS_DRV_MODE);
}

static void frames_are_the_same_at_generic_xdp_tc_and_socket(void **state)
{
	(void)state;
	assert_hooks_agree(XDP_FLAGS_SKB_MODE);
}

/* ---- capture files ---- */

static void write_capture(void)
{
	const __u32 head[6] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1};
	FILE *file = fopen(CAPTURE_FILE, "w");
	size_t i;

	assert_non_null(file);
	fwrite(head, sizeof(head), 1, file);
	for (i = 0; i < samples_count; i++) {
		const __u32 record[4] = {1, (__u32)i, samples[i].len, samples[i].len};

		fwrite(record, sizeof(record), 1, file);
		fwrite(samples[i].data, samples[i].len, 1, file);
	}
	assert_int_equal(fclose(file), 0);
}

static struct capture *open_file(void)
{
	struct capture *c = NULL;
	struct qerr err = {};

	write_capture();
	if (capture_open_file(CAPTURE_FILE, &c, &err))
		fail_msg("%s", err.text);
	return c;
}

static void frames_are_the_same_in_a_capture_file(void **state)
{
	struct capture *c = open_file();
	size_t i;

	(void)state;
	for (i = 0; i < samples_count; i++)
		assert_next("a capture file", c, &samples[i]);
	capture_close(c);
}

/* ---- quench itself: XDP's counters and flow records against `quench analyze` ---- */

/* The kind whose counter has gone up by one, alone. */
static int counted_kind(const struct port_stats *before, const struct port_stats *after)
{
	int kind = -1, i;

	for (i = 0; i < WIRE_KIND_COUNT; i++) {
		if (after->frames[i] == before->frames[i])
			continue;
		assert_int_equal(after->frames[i], before->frames[i] + 1);
		assert_int_equal(kind, -1);
		kind = i;
	}
	return kind;
}

static int wait_for_kind(const struct sample *s, const struct port_stats *before)
{
	struct timespec pause = {.tv_nsec = 100000};
	int kind = -1, i;

	for (i = 0; i < ANSWER_MS * 10 && kind < 0; i++) {
		struct port_stats after = stats_sum(skel->maps.port_stats, PORT_SLOT);

		kind = counted_kind(before, &after);
		if (kind < 0)
			nanosleep(&pause, NULL);
	}
	if (kind < 0)
		fail_msg("%s is not counted", s->name);
	return kind;
}

/* Of RoCE frames a record says whose and how long they are; forgotten again, for the next frame. */
static void assert_record(const struct sample *s, const struct wire_frame *f)
{
	struct flow flow = flow_of(&f->key);
	__u32 bytes = f->icrc_off + ICRC_BYTES - wire_roce_l3_off(f);

	if (flow_packets(&flow) != 1 || flow_bytes(&flow) != bytes || flow.slot != PORT_SLOT ||
		flow.tos != wire_roce_tos(f))
		fail_msg("%s: the record has %llu packets and %llu bytes, not 1 and %u", s->name,
			flow_packets(&flow), flow_bytes(&flow), bytes);
	assert_int_equal(bpf_map_delete_elem(bpf_map__fd(skel->maps.flows), &f->key), 0);
}

static void assert_counts_as_analyze(const struct sample *s, struct analyze *a, __u64 number)
{
	struct analyze_frame frame = {.number = number,
		.time_ns = number * 1000000,
		.data = s->data,
		.len = s->len,
		.wire_len = s->len};
	struct port_stats before = stats_sum(skel->maps.port_stats, PORT_SLOT);
	struct analyze_seen seen;
	int kind;

	analyze_take(a, &frame, &seen);
	send_sample(s);
	kind = wait_for_kind(s, &before);
	if (kind != seen.wire.kind)
		fail_msg("%s: XDP says %s, analyze %s", s->name, kind_names[kind],
			kind_names[seen.wire.kind]);
	if (wire_is_roce(kind))
		assert_record(s, &seen.wire);
}

static void assert_quench_counts_as_analyze(__u32 mode)
{
	struct analyze *a = analyze_new(&(struct analyze_config){0});
	struct port_conf port = port_default;
	size_t i;

	assert_non_null(a);
	port.flags |= PORT_ENDS_PAUSE;
	port_set((__u32)receiver_index, &port);
	attach_xdp(skel->progs.quench_xdp, mode);
	for (i = 0; i < samples_count; i++)
		assert_counts_as_analyze(&samples[i], a, i + 1);
	detach_xdp();
	assert_true(a->kinds[WIRE_IWARP] > 0);
	analyze_free(a);
}

static void native_xdp_counts_every_frame_as_analyze_does(void **state)
{
	(void)state;
	assert_quench_counts_as_analyze(XDP_FLAGS_DRV_MODE);
}

static void generic_xdp_counts_every_frame_as_analyze_does(void **state)
{
	(void)state;
	assert_quench_counts_as_analyze(XDP_FLAGS_SKB_MODE);
}

/* ---- a host behind each mode of XDP ---- */

static void host_port_set(void)
{
	struct port_conf port = port_default;

	port.flags |= PORT_NOTIFY_INGRESS | PORT_ARMED;
	memcpy(port.mac, receiver_mac, sizeof(port.mac));
	port_set((__u32)receiver_index, &port);
}

/* A CE frame goes to the host; what comes back must be one CNP for the frame's sender. */
static void assert_earns_cnp(const char *what, struct frame_spec spec)
{
	static struct frame frame;
	struct flow_key key;
	struct analyze_frame back = {0};
	struct capture *c = NULL;
	struct wire_frame f;
	struct qerr err = {};
	int i, found = 0;

	spec.tos = TOS_CE;
	spec.opcode = OP_RC_SEND_ONLY;
	frame_make(&frame, spec);
	key = frame_key(&frame);
	pair_set(&key);
	assert_int_equal(capture_open_port(SENDER, &c, &err), 0);
	send_sample(&(struct sample){what, frame.data, frame.len});
	for (i = 0; i < IDLES_MAX && !found; i++) {
		if (capture_next(c, &back, &err) != CAPTURE_FRAME)
			continue;
		f = parse(back.data, back.len);
		found = f.kind == WIRE_CNP;
	}
	if (!found)
		fail_msg("%s: no CNP", what);
	assert_int_equal(f.key.dst_qpn, QPN_SENDER);
	assert_int_equal(f.pcp, spec.tags ? 0 : WIRE_PCP_NONE);
	assert_memory_equal(back.data, sender_mac, sizeof(sender_mac));
	assert_memory_equal(f.key.dst, key.src, sizeof(key.src));
	assert_int_equal(icrc_judge(&back, &f), ICRC_OK);
	capture_close(c);
}

static void assert_host_makes_cnps(__u32 mode, const struct bpf_program *ingress)
{
	host_port_set();
	attach_xdp(skel->progs.quench_xdp, mode);
	assert_int_equal(attach_tc(BPF_TC_INGRESS, ingress), 0);
	assert_int_equal(attach_tc(BPF_TC_EGRESS, skel->progs.quench_tc_egress), 0);
	assert_earns_cnp("IPv4", (struct frame_spec){.qpn = 0x11});
	assert_earns_cnp("IPv4, tagged", (struct frame_spec){.qpn = 0x12, .tags = 1});
	assert_earns_cnp("IPv6", (struct frame_spec){.qpn = 0x13, .l3 = L3_IPV6});
	assert_earns_cnp("longer than a page",
		(struct frame_spec){.qpn = 0x14, .payload_bytes = JUMBO_PAYLOAD_BYTES});
	detach_tc();
	detach_xdp();
}

static void ce_frame_for_host_earns_cnp_behind_native_xdp(void **state)
{
	(void)state;
	assert_host_makes_cnps(XDP_FLAGS_DRV_MODE, skel->progs.quench_tc_ingress);
}

static void ce_frame_for_host_earns_cnp_behind_generic_xdp(void **state)
{
	(void)state;
	assert_host_makes_cnps(XDP_FLAGS_SKB_MODE, skel->progs.quench_tc_ingress_generic);
}

#define hook_test(name) cmocka_unit_test_setup_teardown(name, verdicts_open, verdicts_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		hook_test(frames_are_the_same_at_native_xdp_tc_and_socket),
		hook_test(frames_are_the_same_at_generic_xdp_tc_and_socket),
		cmocka_unit_test(frames_are_the_same_in_a_capture_file),
		prog_test(native_xdp_counts_every_frame_as_analyze_does),
		prog_test(generic_xdp_counts_every_frame_as_analyze_does),
		prog_test(ce_frame_for_host_earns_cnp_behind_native_xdp),
		prog_test(ce_frame_for_host_earns_cnp_behind_generic_xdp),
	};

	if (refuse_without_root("test_hooks"))
		return 1;
	return cmocka_run_group_tests_name("prog_hooks", tests, open_all, close_all);
}
