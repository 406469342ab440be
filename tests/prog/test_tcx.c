// SPDX-License-Identifier: BSD-2-Clause
// The tc hooks on frames: what a marked clone becomes, byte by byte and in the eyes of scapy and of
// the ICRC oracle; which clones are dropped; and when a CE frame earns a CNP at all.
#include "programs.h"

#include <linux/if_packet.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>

#define PCAP_FILE  BUILD_DIR "/prog/cnps.pcap"
#define PAIRS_FILE BUILD_DIR "/prog/cnps.pairs.json"
#define JUDGE	   "tests/oracle/check_cnps.py --at-source --pairs " PAIRS_FILE " " PCAP_FILE " 2>&1"

enum {
	FLOW_PKEY = 0x8001,
	FOREIGN_MARK = 0x71554e00, /* all but ours */
};

static const struct frame_spec data_spec = {.opcode = OP_RC_WRITE_ONLY,
	.tos = TOS_CE,
	.pkey = FLOW_PKEY,
	.psn = 0xabcdef,
	.ip_id = 0x1234,
	.payload_bytes = 16 + 64};

static struct skb_run run_egress(const struct frame *f, __u32 mark)
{
	struct skb_run r = {.in.mark = mark};

	run_skb(skel->progs.quench_tc_egress, &r, f->data, f->len);
	r.frame.data = r.frame.room + ALIGN_BYTES;
	return r;
}

/* What design and standard say the CNP about a frame is, written down byte by byte, but the ICRC.
 */
static void expect_cnp(struct frame *want, const struct frame *of, const struct frame_spec *spec)
{
	bool v6 = spec->l3 == L3_IPV6;
	__u16 sport = of->data[of->l4_off] << 8 | of->data[of->l4_off + 1];
	__u8 *ip, *udp, *bth;

	memset(want, 0, sizeof(*want));
	want->data = want->room + ALIGN_BYTES;
	memcpy(want->data, sender_mac, 6);
	memcpy(want->data + 6, receiver_mac, 6);
	memcpy(want->data + 12, of->data + 12, of->l3_off - 12); /* tags and type stay */
	ip = want->data + of->l3_off;
	udp = ip + (v6 ? 40 : 20);
	bth = udp + 8;
	if (v6) {
		memcpy(ip, (const __u8[]){0x6c, 0, 0, 0, 0, 40, 17, 64}, 8);
		memcpy(ip + 8, receiver_ipv6, 16);
		memcpy(ip + 24, sender_ipv6, 16);
	} else {
		memcpy(ip, (const __u8[]){0x45, 0xc0, 0, 60, 0, 0, 0x40, 0, 64, 17}, 10);
		memcpy(ip + 12, receiver_ipv4, 4);
		memcpy(ip + 16, sender_ipv4, 4);
		frame_put16(ip + 10, header_sum(ip, 20));
	}
	memcpy(udp, (const __u8[]){sport >> 8, sport, 4791 >> 8, 4791 & 0xff, 0, 40, 0, 0}, 8);
	memcpy(bth, (const __u8[]){0x81, 0, FLOW_PKEY >> 8, FLOW_PKEY & 0xff, 0x40}, 5);
	bth[5] = QPN_SENDER >> 16;
	frame_put16(bth + 6, QPN_SENDER & 0xffff);
	want->icrc_off = bth + 12 + 16 - want->data;
	want->len = want->icrc_off + ICRC_BYTES;
}

static const struct morph_case {
	const char *name;
	struct frame_spec spec;
} morph_cases[] = {
	{"IPv4", {.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 80}},
	{"IPv6", {.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 80, .l3 = L3_IPV6}},
	{"IPv4 in a VLAN", {.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 80, .tags = 1}},
	{"IPv6 in two VLANs",
		{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 80, .l3 = L3_IPV6, .tags = 2}},
	{"IPv4 with one word of options",
		{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 80, .option_words = 1}},
	{"IPv4 with all options",
		{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 80, .option_words = 10}},
	{"IPv4 with a UDP checksum",
		{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 80, .udp_check = 0xbeef}},
	{"IPv6 with a UDP checksum", {.opcode = OP_RC_WRITE_ONLY,
					     .payload_bytes = 80,
					     .l3 = L3_IPV6,
					     .udp_check = 0xbeef}},
	{"shorter than a CNP, IPv4", {.opcode = OP_RC_SEND_ONLY}},
	{"shorter than a CNP, IPv6", {.opcode = OP_RC_SEND_ONLY, .l3 = L3_IPV6}},
	{"as long as BPF_PROG_RUN can make one",
		{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = RUN_FRAME_MAX - 80}},
	{"a read response", {.opcode = OP_RC_READ_RESPONSE_ONLY, .payload_bytes = 68}},
};

static struct frame_spec morph_spec(const struct morph_case *c)
{
	struct frame_spec spec = c->spec;

	spec.tos = TOS_CE;
	spec.pkey = FLOW_PKEY;
	spec.psn = 0xabcdef;
	spec.ip_id = 0x1234;
	spec.sport = 0xc000 + (c - morph_cases); /* one CNP unlike the other */
	return spec;
}

static void egress_marked_clone_becomes_exactly_the_cnp(void **state)
{
	static struct frame f, want;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(morph_cases); i++) {
		const struct morph_case *c = &morph_cases[i];
		struct frame_spec spec = morph_spec(c);
		struct skb_run r;
		struct flow_key key;

		frame_make(&f, spec);
		key = frame_key(&f);
		pair_set(&key);
		flow_set(&key);
		r = run_egress(&f, MARK_BACK);
		if (r.retval != ACT_NEXT)
			fail_msg("%s: the program answers %d", c->name, r.retval);
		expect_cnp(&want, &f, &spec);
		assert_int_equal(r.frame.len, want.len);
		assert_same_bytes(c->name, r.frame.data, want.icrc_off, want.data, want.icrc_off);
		assert_int_equal(r.out.mark, 0);
		assert_int_equal(flow_of(&key).cnp, 1);
	}
	assert_stats("morph", (struct port_stats){.cnp_sent = COUNT(morph_cases)});
}

static void egress_cnp_goes_to_the_port_that_policy_gives_roce(void **state)
{
	enum { OTHER_PORT = 1021 };
	struct frame_spec spec = {.opcode = OP_RC_SEND_ONLY, .tos = TOS_CE, .payload_bytes = 64};
	struct conf conf = conf_default();
	static struct frame f;
	struct flow_key key;
	struct skb_run r;

	(void)state;
	conf.udp_ports.roce = htons(OTHER_PORT);
	conf_set(&conf);
	frame_make(&f, spec);
	key = frame_key(&f);
	pair_set(&key);
	frame_put16(f.data + f.l4_off + 2, OTHER_PORT);
	r = run_egress(&f, MARK_BACK);
	assert_int_equal(r.retval, ACT_NEXT);
	assert_int_equal(r.frame.data[f.l4_off + 2] << 8 | r.frame.data[f.l4_off + 3], OTHER_PORT);
	assert_stats("another port", (struct port_stats){.cnp_sent = 1});
}

static void pcap_write_header(FILE *file)
{
	static const struct {
		__u32 magic;
		__u16 major, minor;
		__u32 zone, digits, snap_bytes, link_type;
	} header = {0xa1b2c3d4, 2, 4, 0, 0, 65535, 1};

	assert_int_equal(fwrite(&header, sizeof(header), 1, file), 1);
}

static void pcap_write_frame(FILE *file, const __u8 *data, size_t len, __u32 second)
{
	__u32 record[4] = {second, 0, len, len};

	assert_int_equal(fwrite(record, sizeof(record), 1, file), 1);
	assert_int_equal(fwrite(data, len, 1, file), 1);
}

static FILE *pcap_open(void)
{
	FILE *file = fopen(PCAP_FILE, "w");

	if (!file)
		fail_msg(PCAP_FILE ": %s", strerror(errno));
	pcap_write_header(file);
	return file;
}

static void pairs_write(void)
{
	FILE *file = fopen(PAIRS_FILE, "w");

	assert_non_null(file);
	fprintf(file,
		"[{\"a\": \"192.0.2.1\", \"a_qpn\": %d, \"b\": \"192.0.2.2\", \"b_qpn\": %d, "
		"\"pkey\": %d},\n"
		" {\"a\": \"2001:db8::1\", \"a_qpn\": %d, \"b\": \"2001:db8::2\", \"b_qpn\": %d, "
		"\"pkey\": %d}]\n",
		QPN_SENDER, QPN_RECEIVER, FLOW_PKEY, QPN_SENDER, QPN_RECEIVER, FLOW_PKEY);
	assert_int_equal(fclose(file), 0);
}

/* The judges must have seen that many CNPs and find nothing wrong with any. */
static void judge(size_t cnps)
{
	char report[4096] = "", want[32];
	FILE *pipe;
	size_t bytes;

	pairs_write();
	pipe = popen(JUDGE, "r");
	assert_non_null(pipe);
	bytes = fread(report, 1, sizeof(report) - 1, pipe);
	report[bytes] = '\0';
	if (pclose(pipe))
		fail_msg("check_cnps.py: %s", report);
	snprintf(want, sizeof(want), "\"cnps\": %zu,", cnps);
	if (!strstr(report, want))
		fail_msg("check_cnps.py saw another number than %zu: %s", cnps, report);
}

static void egress_cnp_of_every_layout_satisfies_scapy_and_oracle(void **state)
{
	static struct frame f;
	FILE *pcap = pcap_open();
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(morph_cases); i++) {
		struct skb_run r;
		struct flow_key key;

		frame_make(&f, morph_spec(&morph_cases[i]));
		key = frame_key(&f);
		pair_set(&key);
		pcap_write_frame(pcap, f.data, f.len, i); /* its source port is to be the CNP's */
		r = run_egress(&f, MARK_BACK);
		pcap_write_frame(pcap, r.frame.data, r.frame.len, i);
	}
	assert_int_equal(fclose(pcap), 0);
	judge(COUNT(morph_cases));
}

static void egress_clone_of_a_frame_without_ce_is_dropped(void **state)
{
	struct frame_spec spec = data_spec;
	struct flow_key key;
	static struct frame f;

	(void)state;
	spec.tos &= ~ECN_CE;
	frame_make(&f, spec);
	key = frame_key(&f);
	pair_set(&key);
	assert_int_equal(run_egress(&f, MARK_BACK).retval, ACT_SHOT);
	assert_stats("no CE", (struct port_stats){.drops[PORT_DROP_MORPH] = 1});
}

static void assert_clone_dropped(const char *what, const __u8 *data, size_t len, __u64 times)
{
	struct frame f = {.data = (__u8 *)data, .len = len};
	struct skb_run r = run_egress(&f, MARK_BACK);

	if (r.retval != ACT_SHOT)
		fail_msg("%s: the program answers %d", what, r.retval);
	assert_stats(what, (struct port_stats){.drops[PORT_DROP_MORPH] = times});
}

static void egress_clone_of_no_data_frame_is_dropped_and_counted(void **state)
{
	static const char *const names[] = {"v4_cnp_quench", "v6_ack_nak", "v4_tcp",
		"v4_first_fragment", "v1_send_only", "bth_opcode_15", "arp", "v4_udp_length_0",
		"v6_cm_req", "ends_in_bth"};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(names); i++) {
		const struct row *row = find_row(&frame_rows, names[i]);
		struct flow_key key = parse(row->frame, row->len).key;

		if (i < PAIRS)
			pair_set(&key); /* so that it is not for want of one */
		assert_clone_dropped(names[i], row->frame, row->len, i + 1);
	}
}

static void egress_clone_of_unknown_pair_is_dropped_and_counted(void **state)
{
	static struct frame f;

	(void)state;
	frame_make(&f, data_spec);
	assert_clone_dropped("unknown pair", f.data, f.len, 1);
}

static void egress_clone_without_route_is_dropped_and_counted(void **state)
{
	static struct frame f;
	struct flow_key key;

	(void)state;
	frame_make(&f, data_spec);
	key = frame_key(&f);
	pair_set(&key);
	flow_set(&key);
	assert_int_equal(run_egress(&f, MARK_ROUTED).retval, ACT_SHOT);
	assert_stats("no route", (struct port_stats){.drops[PORT_DROP_MORPH] = 1,
					 .cnp_suppressed[CNP_SUPPRESSED_NO_ROUTE] = 1});
	assert_int_equal(flow_of(&key).cnp, 0);
}

static void egress_frame_without_our_mark_passes_untouched(void **state)
{
	static struct frame f;
	struct skb_run r;

	(void)state;
	frame_make(&f, data_spec);
	r = run_egress(&f, FOREIGN_MARK);
	assert_int_equal(r.retval, ACT_NEXT);
	assert_int_equal(r.out.mark, FOREIGN_MARK);
	assert_same_bytes("frame", r.frame.data, r.frame.len, f.data, f.len);
	assert_stats("none", (struct port_stats){0});
}

static void egress_clone_at_a_port_that_is_forgotten_is_dropped(void **state)
{
	static struct frame f;

	(void)state;
	port_forget();
	frame_make(&f, data_spec);
	assert_int_equal(run_egress(&f, MARK_BACK).retval, ACT_SHOT);
}

/* A packet socket on an interface: what leaves there and what arrives. */
static int listen_at(__u32 ifindex)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
		.sll_ifindex = ifindex,
		.sll_protocol = htons(0x0003)}; /* ETH_P_ALL */
	int fd = socket(AF_PACKET, SOCK_RAW, htons(0x0003));

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (void *)&at, sizeof(at)), 0);
	return fd;
}

static __s64 now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* The next frame with that opcode that leaves by the interface; false when none comes. */
static bool hear_frame(int fd, __u8 opcode, struct frame *heard)
{
	__s64 deadline = now_ms() + ANSWER_MS;
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	heard->data = heard->room + ALIGN_BYTES;
	while (now_ms() < deadline && poll(&wait, 1, deadline - now_ms()) > 0) {
		struct sockaddr_ll from;
		socklen_t from_len = sizeof(from);
		ssize_t len = recvfrom(
			fd, heard->data, FRAME_ROOM - ALIGN_BYTES, 0, (void *)&from, &from_len);
		struct wire_frame f;

		assert_true(len > 0);
		f = parse(heard->data, len);
		heard->len = len;
		if (from.sll_pkttype == PACKET_OUTGOING && f.bth_off && f.opcode == opcode)
			return true;
	}
	return false;
}

static int hook = -1;

/* Attach the egress hook until the end of the test, however that ends. */
static void attach_egress(__u32 ifindex)
{
	hook = bpf_link_create(bpf_program__fd(skel->progs.quench_tc_egress), ifindex,
		(enum bpf_attach_type)TCX_EGRESS, NULL);

	if (hook < 0)
		fail_msg("tcx (kernel 6.6 or later): %s", strerror(-hook));
}

static int hook_close(void **state)
{
	close(hook);
	return programs_close(state);
}

#define hook_test(name) cmocka_unit_test_setup_teardown(name, programs_open, hook_close)

/* 4 KiB do not fit into BPF_PROG_RUN: a marked frame is sent by lo, where the hook is attached. */
static void egress_frame_of_4_kib_becomes_cnp_on_the_wire(void **state)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = LOOPBACK};
	struct frame_spec spec = data_spec;
	int fd = listen_at(LOOPBACK), out = socket(AF_PACKET, SOCK_RAW, 0), mark = MARK_BACK;
	static struct frame f, heard, want;
	FILE *pcap = pcap_open();
	struct flow_key key;

	(void)state;
	attach_egress(LOOPBACK);
	spec.payload_bytes = 16 + 4096;
	frame_make(&f, spec);
	key = frame_key(&f);
	pair_set(&key);
	assert_int_equal(setsockopt(out, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)), 0);
	assert_int_equal(sendto(out, f.data, f.len, 0, (void *)&to, sizeof(to)), f.len);
	assert_true(hear_frame(fd, OP_CNP, &heard));
	expect_cnp(&want, &f, &spec);
	assert_int_equal(heard.len, want.len);
	assert_same_bytes("4 KiB", heard.data, want.icrc_off, want.data, want.icrc_off);
	assert_stats("4 KiB", (struct port_stats){.cnp_sent = 1});
	pcap_write_frame(pcap, heard.data, heard.len, 0);
	assert_int_equal(fclose(pcap), 0);
	judge(1);
	close(fd);
	close(out);
}

static struct skb_run run_ingress(const struct frame *f)
{
	struct skb_run r = {.in.mark = FOREIGN_MARK};

	run_skb(skel->progs.quench_tc_ingress, &r, f->data, f->len);
	assert_int_equal(r.retval, ACT_NEXT);
	assert_int_equal(r.out.mark, FOREIGN_MARK);
	assert_same_bytes("frame", r.frame.data, r.frame.len, f->data, f->len);
	return r;
}

static void set_notify(__u32 flags)
{
	port_set_flags(PORT_NOTIFY_INGRESS | flags);
}

static void assert_suppressed(const char *what, enum cnp_suppressed why)
{
	struct port_stats want = {0};

	want.cnp_suppressed[why] = 1;
	assert_stats(what, want);
}

static void ingress_frame_that_earns_no_cnp_is_untouched(void **state)
{
	static struct frame f;
	struct frame_spec spec = data_spec;
	int tos;

	(void)state;
	set_notify(PORT_ARMED);
	for (tos = TOS_NOT_ECT; tos < TOS_CE; tos++) {
		spec.tos = tos;
		frame_make(&f, spec);
		run_ingress(&f);
	}
	spec.tos = TOS_CE;
	spec.opcode = OP_RC_ACK;
	frame_make(&f, spec);
	run_ingress(&f);
	spec.opcode = OP_CNP;
	frame_make(&f, spec);
	run_ingress(&f);
	spec.l3 = L3_GRH;
	spec.opcode = OP_RC_SEND_ONLY;
	frame_make(&f, spec);
	run_ingress(&f);
	assert_stats("no CNP due", (struct port_stats){0});
}

static void ingress_port_that_is_no_notification_point_does_nothing(void **state)
{
	static struct frame f;

	(void)state;
	port_set_flags(PORT_ARMED | PORT_NOTIFY_EGRESS);
	frame_make(&f, data_spec);
	run_ingress(&f);
	assert_stats("not asked to", (struct port_stats){0});
}

static void ingress_ce_of_unknown_pair_is_counted(void **state)
{
	static struct frame f;

	(void)state;
	set_notify(PORT_ARMED);
	frame_make(&f, data_spec);
	run_ingress(&f);
	assert_suppressed("unknown pair", CNP_SUPPRESSED_UNKNOWN_PAIR);
}

static void ingress_ce_at_unarmed_port_is_counted_and_keeps_the_interval(void **state)
{
	static struct frame f;
	struct flow_key key;

	(void)state;
	set_notify(0);
	frame_make(&f, data_spec);
	key = frame_key(&f);
	pair_set(&key);
	run_ingress(&f);
	assert_suppressed("not armed", CNP_SUPPRESSED_NOT_ARMED);
	assert_int_equal(pair_of(&key).last_cnp_ns, 0);
}

/* lo of the test's own namespace, the egress hook on it: the clone comes out as the CNP. */
static void ingress_ce_sends_one_cnp_an_interval(void **state)
{
	int fd = listen_at(LOOPBACK);
	static struct frame f, heard, want;
	struct flow_key key;

	(void)state;
	attach_egress(LOOPBACK);
	set_notify(PORT_ARMED);
	frame_make(&f, data_spec);
	key = frame_key(&f);
	pair_set(&key);
	run_ingress(&f);
	assert_true(hear_frame(fd, OP_CNP, &heard));
	expect_cnp(&want, &f, &data_spec);
	assert_same_bytes("CNP", heard.data, want.icrc_off, want.data, want.icrc_off);
	assert_stats("one CNP", (struct port_stats){.cnp_sent = 1});
	run_ingress(&f);
	assert_stats("within the interval",
		(struct port_stats){.cnp_sent = 1, .cnp_suppressed[CNP_SUPPRESSED_INTERVAL] = 1});
	close(fd);
}

static void ingress_ce_after_the_interval_sends_another_cnp(void **state)
{
	struct conf conf = conf_default();
	static struct frame f;
	struct flow_key key;

	(void)state;
	attach_egress(LOOPBACK);
	conf.cnp_interval_ns = 1;
	conf_set(&conf);
	set_notify(PORT_ARMED);
	frame_make(&f, data_spec);
	key = frame_key(&f);
	pair_set(&key);
	run_ingress(&f);
	run_ingress(&f);
	assert_stats("two CNPs", (struct port_stats){.cnp_sent = 2});
}

static void ingress_ce_at_a_port_that_is_down_is_counted(void **state)
{
	static struct frame f;
	struct flow_key key;

	(void)state;
	set_notify(PORT_ARMED);
	frame_make(&f, data_spec);
	key = frame_key(&f);
	pair_set(&key);
	shell("ip link set lo down");
	run_ingress(&f);
	shell("ip link set lo up");
	assert_suppressed("down", CNP_SUPPRESSED_CLONE);
}

enum { AWAY_SLOT = 3 };

/*
 * A gateway: frames come in by lo and leave by w0, one end of a veth pair, behind which the
 * receivers are. Routed frames carry w0's address as their source.
 */
static __u32 leave_port;

static int gateway_open(void **state)
{
	if (programs_open(state))
		return -1;
	shell("ip link add w0 type veth peer name w1");
	shell("ip link set w0 address 02:00:00:00:00:77");
	shell("ip link set w0 addrgenmode none up && ip link set w1 addrgenmode none up");
	leave_port = if_nametoindex("w0");
	return 0;
}

static int gateway_close(void **state)
{
	shell("ip link del w0");
	return hook_close(state);
}

#define gateway_test(name) cmocka_unit_test_setup_teardown(name, gateway_open, gateway_close)

static void leave_port_set(__u32 flags, const __u8 mac[6])
{
	struct port_conf port = {.slot = AWAY_SLOT, .flags = flags | TRUSTS_BOTH, .generation = 1};

	memcpy(port.mac, mac, 6);
	port_set(leave_port, &port);
}

static void run_leaving(const struct frame *f, __u32 came_in_by)
{
	struct skb_run r = {.in.ifindex = leave_port, .in.ingress_ifindex = came_in_by};

	run_skb(skel->progs.quench_tc_ahead, &r, f->data, f->len);
	assert_int_equal(r.retval, ACT_NEXT);
	assert_same_bytes("frame", r.frame.data, r.frame.len, f->data, f->len);
}

static void assert_away_stats(const char *what, struct port_stats want)
{
	struct port_stats have = stats_sum(skel->maps.port_stats, AWAY_SLOT);

	stats_assert_equal(what, &have, &want);
}

static void notify_ce_that_leaves_sends_cnp_by_the_port_it_came_in_by(void **state)
{
	static const __u8 other_mac[6] = {2, 0, 0, 0, 0, 0x77};
	int fd = listen_at(LOOPBACK);
	static struct frame f, heard, want;
	struct flow_key key;

	(void)state;
	attach_egress(LOOPBACK);
	port_set_flags(PORT_ARMED);
	leave_port_set(PORT_NOTIFY_EGRESS, other_mac); /* the frame has another: bridged */
	frame_make(&f, data_spec);
	key = frame_key(&f);
	pair_set(&key);
	run_leaving(&f, LOOPBACK);
	assert_true(hear_frame(fd, OP_CNP, &heard));
	expect_cnp(&want, &f, &data_spec);
	assert_same_bytes("CNP", heard.data, want.icrc_off, want.data, want.icrc_off);
	assert_away_stats("where the CE was seen", (struct port_stats){0});
	assert_stats("where the CNP left", (struct port_stats){.cnp_sent = 1});
	close(fd);
}

static void notify_ce_from_this_host_is_not_answered(void **state)
{
	static struct frame f;
	struct flow_key key;

	(void)state;
	port_set_flags(PORT_ARMED);
	leave_port_set(PORT_NOTIFY_EGRESS, receiver_mac);
	frame_make(&f, data_spec);
	key = frame_key(&f);
	pair_set(&key);
	run_leaving(&f, 0);
	assert_away_stats("local", (struct port_stats){0});
}

static void notify_ce_of_ack_or_cnp_is_not_answered(void **state)
{
	static const __u8 opcodes[] = {OP_RC_ACK, OP_CNP};
	static struct frame f;
	struct flow_key key;
	size_t i;

	(void)state;
	port_set_flags(PORT_ARMED);
	leave_port_set(PORT_NOTIFY_EGRESS, sender_mac);
	for (i = 0; i < COUNT(opcodes); i++) {
		struct frame_spec spec = data_spec;

		spec.opcode = opcodes[i];
		frame_make(&f, spec);
		key = frame_key(&f);
		pair_set(&key);
		run_leaving(&f, LOOPBACK);
		assert_int_equal(pair_of(&key).last_cnp_ns, 0);
	}
	assert_away_stats("no data", (struct port_stats){0});
}

static void notify_ce_of_unknown_pair_or_unarmed_port_is_counted(void **state)
{
	static struct frame f;
	struct flow_key key;

	(void)state;
	port_set_flags(0);
	leave_port_set(PORT_NOTIFY_EGRESS, sender_mac);
	frame_make(&f, data_spec);
	key = frame_key(&f);
	run_leaving(&f, LOOPBACK);
	assert_away_stats(
		"pair", (struct port_stats){.cnp_suppressed[CNP_SUPPRESSED_UNKNOWN_PAIR] = 1});
	pair_set(&key);
	run_leaving(&f, LOOPBACK);
	assert_away_stats(
		"port", (struct port_stats){.cnp_suppressed[CNP_SUPPRESSED_UNKNOWN_PAIR] = 1,
				.cnp_suppressed[CNP_SUPPRESSED_NOT_ARMED] = 1});
	port_set_flags(PORT_ARMED);
	leave_port_set(0, sender_mac); /* not asked to */
	run_leaving(&f, LOOPBACK);
	assert_away_stats(
		"no flag", (struct port_stats){.cnp_suppressed[CNP_SUPPRESSED_UNKNOWN_PAIR] = 1,
				   .cnp_suppressed[CNP_SUPPRESSED_NOT_ARMED] = 1});
}

/* Toward the sender by w0, over IPv4 and IPv6: next hop and source address are the kernel's. */
static void egress_routed_clone_gets_next_hop_and_own_address(void **state)
{
	static const __u8 want[12] = {2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 0x77};
	static const enum wire_l3 l3[] = {L3_IPV4, L3_IPV6};
	static struct frame f;
	size_t i;

	(void)state;
	shell("echo 1 >/proc/sys/net/ipv4/ip_forward");
	shell("echo 1 >/proc/sys/net/ipv6/conf/all/forwarding");
	shell("ip addr add 192.0.2.254/24 dev w0 && ip addr add 2001:db8::fe/64 dev w0 nodad");
	shell("ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:99 dev w0 nud permanent");
	shell("ip neigh add 2001:db8::1 lladdr 02:00:00:00:00:99 dev w0 nud permanent");
	leave_port_set(PORT_ARMED, sender_mac);
	for (i = 0; i < COUNT(l3); i++) {
		struct skb_run r = {.in.mark = MARK_ROUTED, .in.ifindex = leave_port};
		struct frame_spec spec = data_spec;
		struct flow_key key;

		spec.l3 = l3[i];
		frame_make(&f, spec);
		key = frame_key(&f);
		pair_set(&key);
		run_skb(skel->progs.quench_tc_egress, &r, f.data, f.len);
		assert_int_equal(r.retval, ACT_NEXT);
		assert_same_bytes("addresses", r.frame.data, sizeof(want), want, sizeof(want));
		assert_int_equal(parse(r.frame.data, r.frame.len).kind, WIRE_CNP);
	}
	assert_away_stats("routed", (struct port_stats){.cnp_sent = 2});
}

static int setup(void **state)
{
	return enter_own_network() ? -1 : read_vectors(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		prog_test(egress_marked_clone_becomes_exactly_the_cnp),
		prog_test(egress_cnp_goes_to_the_port_that_policy_gives_roce),
		prog_test(egress_cnp_of_every_layout_satisfies_scapy_and_oracle),
		prog_test(egress_clone_of_a_frame_without_ce_is_dropped),
		prog_test(egress_clone_of_no_data_frame_is_dropped_and_counted),
		prog_test(egress_clone_of_unknown_pair_is_dropped_and_counted),
		prog_test(egress_clone_without_route_is_dropped_and_counted),
		prog_test(egress_frame_without_our_mark_passes_untouched),
		prog_test(egress_clone_at_a_port_that_is_forgotten_is_dropped),
		hook_test(egress_frame_of_4_kib_becomes_cnp_on_the_wire),
		gateway_test(egress_routed_clone_gets_next_hop_and_own_address),
		prog_test(ingress_frame_that_earns_no_cnp_is_untouched),
		prog_test(ingress_port_that_is_no_notification_point_does_nothing),
		prog_test(ingress_ce_of_unknown_pair_is_counted),
		prog_test(ingress_ce_at_unarmed_port_is_counted_and_keeps_the_interval),
		hook_test(ingress_ce_sends_one_cnp_an_interval),
		hook_test(ingress_ce_after_the_interval_sends_another_cnp),
		prog_test(ingress_ce_at_a_port_that_is_down_is_counted),
		gateway_test(notify_ce_that_leaves_sends_cnp_by_the_port_it_came_in_by),
		gateway_test(notify_ce_from_this_host_is_not_answered),
		gateway_test(notify_ce_of_ack_or_cnp_is_not_answered),
		gateway_test(notify_ce_of_unknown_pair_or_unarmed_port_is_counted),
	};

	if (refuse_without_root("test_tcx"))
		return 1;
	return cmocka_run_group_tests_name("prog_tcx", tests, setup, free_vectors);
}
