// SPDX-License-Identifier: BSD-2-Clause
// Priority flow control in the programs: what is written down of a peer's PFC frames, when a queue
// that fills makes one of our own, and what that is, byte by byte and in the eyes of tshark.
#include "programs.h"

#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define PCAP_FILE BUILD_DIR "/prog/pfc.pcap"
#define JUDGE                                                                                      \
	"tshark -n -r " PCAP_FILE " -T fields -e frame.len -e eth.dst -e eth.src -e macc.opcode "  \
	"-e macc.cbfc.enbv -e macc.cbfc.pause_time.c0 -e macc.cbfc.pause_time.c1 "                 \
	"-e macc.cbfc.pause_time.c2 -e macc.cbfc.pause_time.c3 -e macc.cbfc.pause_time.c4 "        \
	"-e macc.cbfc.pause_time.c5 -e macc.cbfc.pause_time.c6 -e macc.cbfc.pause_time.c7 "        \
	"2>/dev/null"

enum {
	QUANTUM_PS = 5120, /* of a link of 100 Gbit/s */
	QUANTA = 0xbeef,   /* of an XOFF that leaves */
	ROCE_PRIORITY = 3,
	OTHER_PRIORITY = 7,
	BUDGET = 1000,
	AWAY_SLOT = 3, /* of the port that frames leave by */
	SENT_BYTES = 1000,
	UNTOUCHED = 77,
	SILENCE_MS = 20, /* no frame that is due takes longer */
	GSO_UDP_L4 = 5,	 /* of virtio_net_hdr, which Debian 12's headers do not know */
};

static const __u8 port_mac[6] = {2, 0, 0, 0, 0, 0x77};

/* The map, as the agent has it: shared memory. */
static struct port_pauses *pauses;

static struct port_conf pfc_port(void)
{
	struct port_conf port = port_default;

	port.flags = TRUSTS_BOTH | PORT_ENDS_PAUSE | PORT_ARMED;
	port.quantum_ps = QUANTUM_PS;
	port.pause_quanta = QUANTA;
	port.pausing = 1 << ROCE_CLASS | 1 << OTHER_CLASS;
	memcpy(port.mac, port_mac, sizeof(port.mac));
	return port;
}

static void set_pfc_conf(void (*change)(struct conf *conf))
{
	struct conf conf = conf_default();

	conf.pfc_budget_per_s = BUDGET;
	conf.classes[ROCE_CLASS].priority = ROCE_PRIORITY;
	conf.classes[OTHER_CLASS].priority = OTHER_PRIORITY;
	if (change)
		change(&conf);
	conf_set(&conf);
}

static int pause_open(void **state)
{
	struct port_conf port = pfc_port();

	if (programs_open(state))
		return -1;
	pauses = mmap(NULL, SLOTS_MAX * sizeof(*pauses), PROT_READ | PROT_WRITE, MAP_SHARED,
		bpf_map__fd(skel->maps.pauses), 0);
	if (pauses == MAP_FAILED)
		return -1;
	set_pfc_conf(NULL);
	port_set(LOOPBACK, &port);
	return 0;
}

static int pause_close(void **state)
{
	munmap(pauses, SLOTS_MAX * sizeof(*pauses));
	return programs_close(state);
}

#define pause_test(name) cmocka_unit_test_setup_teardown(name, pause_open, pause_close)

/* A PFC frame as 802.1Qbb has it, written down byte by byte. */
static void expect_pfc(__u8 want[60], const __u8 src[6], __u16 vector, const __u16 quanta[8])
{
	int i;

	memset(want, 0, 60);
	memcpy(want, (const __u8[]){0x01, 0x80, 0xc2, 0, 0, 1}, 6);
	memcpy(want + 6, src, 6);
	memcpy(want + 12, (const __u8[]){0x88, 0x08, 0x01, 0x01}, 4);
	frame_put16(want + 16, vector);
	for (i = 0; i < 8; i++)
		frame_put16(want + 18 + 2 * i, quanta[i]);
}

/* ---- what a peer says ---- */

static void hear(__u16 vector, __u16 time)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_size_in = 60, .repeat = 1);
	static __u8 room[64] __attribute__((aligned(8)));
	__u16 quanta[8];
	int i;

	for (i = 0; i < 8; i++)
		quanta[i] = time;
	expect_pfc(room + ALIGN_BYTES, sender_mac, vector, quanta);
	opts.data_in = room + ALIGN_BYTES;
	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(skel->progs.quench_xdp), &opts), 0);
	assert_int_equal(opts.retval, 1); /* XDP_DROP */
}

static void obey(__u8 priorities)
{
	struct port_conf port = pfc_port();

	port.obeyed = priorities;
	port_set(LOOPBACK, &port);
}

static __u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void assert_heard(__u16 vector, __u16 time, __u8 obeyed)
{
	struct port_stats want = {.frames[WIRE_PFC] = 1, .drops[PORT_DROP_PAUSE] = 1};
	const __u64 length_ns = (__u64)time * QUANTUM_PS / 1000;
	struct port_pauses *p = &pauses[PORT_SLOT];
	__u64 before_ns, after_ns;
	struct heard heard;
	int i;

	memset(p, 0, sizeof(*p));
	for (i = 0; i < PRIORITIES; i++)
		p->until_ns[i] = UNTOUCHED;
	clear_stats();
	obey(obeyed);
	before_ns = now_ns();
	hear(vector, time);
	after_ns = now_ns();
	for (i = 0; i < PRIORITIES; i++) {
		bool enabled = vector >> i & 1, counts = enabled && obeyed >> i & 1;

		(time ? want.xoff_received : want.xon_received)[i] = enabled;
		want.pause_ignored[PAUSE_IGNORED_NOT_ENABLED] += enabled && !counts;
		assert_int_equal(p->xoffs[i], enabled && time);
		if (counts)
			assert_in_range(
				p->until_ns[i], before_ns + length_ns, after_ns + length_ns);
		else
			assert_int_equal(p->until_ns[i], UNTOUCHED);
	}
	want.pause_ignored[PAUSE_IGNORED_EMPTY] = !(vector & 0xff);
	assert_stats("heard", want);
	hear_all(&heard);
	assert_int_equal(heard.count, (vector & obeyed) != 0);
	assert_int_equal(p->arrived, (vector & obeyed) != 0);
}

static void heard_priorities_that_are_obeyed_get_their_end_and_all_are_counted(void **state)
{
	static const __u16 vectors[] = {0, 0x01, 0x08, 0x18, 0x80, 0xa5, 0xff, 0xff00, 0xff08},
			   times[] = {0, 1, 0x1234, 0xffff};
	static const __u8 obeyed[] = {0, 0x08, 0x88, 0xff};
	size_t i, j, k;

	(void)state;
	for (i = 0; i < COUNT(vectors); i++)
		for (j = 0; j < COUNT(times); j++)
			for (k = 0; k < COUNT(obeyed); k++)
				assert_heard(vectors[i], times[j], obeyed[k]);
}

static void heard_pause_is_an_event_once_until_it_is_taken(void **state)
{
	struct heard heard;
	int i;

	(void)state;
	obey(1 << ROCE_PRIORITY);
	for (i = 0; i < 3; i++)
		hear(1 << ROCE_PRIORITY, i);
	hear_all(&heard);
	assert_int_equal(heard.count, 1);
	assert_int_equal(heard.event[0].type, EVENT_PAUSE);
	assert_int_equal(heard.event[0].slot, PORT_SLOT);
	assert_in_range(heard.event[0].time_ns, now_ns() - 1000000000, now_ns());
	pauses[PORT_SLOT].arrived = 0;
	hear(1 << ROCE_PRIORITY, 0);
	hear_all(&heard);
	assert_int_equal(heard.count, 1);
}

static void heard_pause_without_room_for_its_event_is_told_with_the_next(void **state)
{
	struct heard heard;
	int i, events = 0;

	(void)state;
	obey(1 << ROCE_PRIORITY);
	for (i = 0; !stats_sum(skel->maps.port_stats, PORT_SLOT).ring_drops; i++, events++) {
		assert_true(i < RING_BYTES);
		pauses[PORT_SLOT].arrived = 0;
		hear(1 << ROCE_PRIORITY, 1);
	}
	assert_int_equal(pauses[PORT_SLOT].arrived, 0);
	hear_all(&heard);
	assert_int_equal(heard.count, events - 1);
	hear(1 << ROCE_PRIORITY, 1);
	hear_all(&heard);
	assert_int_equal(heard.count, 1);
}

/* ---- what our own port says ---- */

/* What may have filled a queue. */
static const struct frame_spec originals[] = {
	{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 1000},
	{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 1000, .l3 = L3_IPV6},
	{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 1000, .l3 = L3_GRH},
	{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 1000, .tags = 1},
	{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 1000, .tags = 2, .l3 = L3_IPV6},
	{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = 1000, .option_words = 10},
	{.opcode = OP_RC_WRITE_ONLY, .payload_bytes = RUN_FRAME_MAX - 80},
	{.opcode = OP_RC_SEND_ONLY},
	{.opcode = OP_RC_ACK},
};

/* What is said of each class, and the words for it. */
static const struct say {
	const char *what;
	__u32 xoff, told; /* classes */
	__u16 vector, quanta[8];
} says[] = {
	{"XOFF", 1 << ROCE_CLASS, 0, 0x08, {[3] = QUANTA}},
	{"XOFF again", 1 << ROCE_CLASS, 1 << ROCE_CLASS, 0x08, {[3] = QUANTA}},
	{"XON", 0, 1 << ROCE_CLASS, 0x08, {0}},
	{"XOFF of both", 1 << ROCE_CLASS | 1 << OTHER_CLASS, 0, 0x88, {[3] = QUANTA, [7] = QUANTA}},
	{"XON of one, XOFF of the other", 1 << OTHER_CLASS, 1 << ROCE_CLASS, 0x88, {[7] = QUANTA}},
	{"XON of both", 0, 1 << ROCE_CLASS | 1 << OTHER_CLASS, 0x88, {0}},
};

static struct skb_run run_clone(const struct frame *f)
{
	struct skb_run r = {.in.mark = CLONE_PFC};

	run_skb(skel->progs.quench_tc_egress, &r, f->data, f->len);
	r.frame.data = r.frame.room + ALIGN_BYTES;
	return r;
}

static void set_word(const struct say *say)
{
	pauses[PORT_SLOT].xoff = say->xoff;
	pauses[PORT_SLOT].told = say->told;
}

static void clone_of_any_frame_becomes_exactly_what_is_to_be_said(void **state)
{
	static struct frame f;
	__u8 want[60];
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT(originals); i++)
		for (j = 0; j < COUNT(says); j++) {
			struct skb_run r;

			set_word(&says[j]);
			frame_make(&f, originals[i]);
			r = run_clone(&f);
			assert_int_equal(r.retval, ACT_NEXT);
			assert_int_equal(r.out.mark, 0);
			expect_pfc(want, port_mac, says[j].vector, says[j].quanta);
			assert_same_bytes(says[j].what, r.frame.data, r.frame.len, want, 60);
			assert_int_equal(pauses[PORT_SLOT].told, says[j].xoff);
		}
	assert_stats("said", (struct port_stats){0});
}

static void clone_with_nothing_to_say_is_dropped_and_counted(void **state)
{
	static struct frame f;

	(void)state;
	frame_make(&f, originals[0]);
	assert_int_equal(run_clone(&f).retval, ACT_SHOT);
	assert_stats("nothing", (struct port_stats){.drops[PORT_DROP_MORPH] = 1});
}

static FILE *pcap_open(void)
{
	static const struct {
		__u32 magic;
		__u16 major, minor;
		__u32 zone, digits, snap_bytes, link_type;
	} header = {0xa1b2c3d4, 2, 4, 0, 0, 65535, 1};
	FILE *file = fopen(PCAP_FILE, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(&header, sizeof(header), 1, file), 1);
	return file;
}

static void pcap_write(FILE *file, const struct frame *f)
{
	__u32 record[4] = {0, 0, f->len, f->len};

	assert_int_equal(fwrite(record, sizeof(record), 1, file), 1);
	assert_int_equal(fwrite(f->data, f->len, 1, file), 1);
}

/* The line that tshark is to print. */
static void expect_line(char line[256], const struct say *say)
{
	int i, at = snprintf(line, 256, "60\t01:80:c2:00:00:01\t02:00:00:00:00:77\t0x0101\t0x%04x",
		       say->vector);

	for (i = 0; i < 8; i++)
		at += snprintf(line + at, 256 - at, "\t%u", say->quanta[i]);
	snprintf(line + at, 256 - at, "\n");
}

static void clone_is_read_by_tshark_as_what_was_to_be_said(void **state)
{
	static struct frame f;
	FILE *file = pcap_open(), *pipe;
	char line[256], want[256];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(says); i++) {
		struct skb_run r;

		set_word(&says[i]);
		frame_make(&f, originals[i]);
		r = run_clone(&f);
		pcap_write(file, &r.frame);
	}
	assert_int_equal(fclose(file), 0);
	pipe = popen(JUDGE, "r");
	assert_non_null(pipe);
	for (i = 0; i < COUNT(says); i++) {
		if (!fgets(line, sizeof(line), pipe))
			fail_msg("%s: tshark says nothing", says[i].what);
		expect_line(want, &says[i]);
		assert_string_equal(line, want);
	}
	assert_int_equal(pclose(pipe), 0);
}

/* ---- on the wire ---- */

/* A packet socket on an interface. */
static int listen_at(__u32 ifindex)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET, .sll_ifindex = ifindex, .sll_protocol = htons(ETH_P_ALL)};
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (void *)&at, sizeof(at)), 0);
	return fd;
}

/* The next MAC control frame there; 0 bytes when none has come after that time. */
static size_t hear_control(int fd, __u8 frame[FRAME_ROOM], int patience_ms)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	while (poll(&wait, 1, patience_ms) > 0) {
		ssize_t len = recv(fd, frame, FRAME_ROOM, 0);

		assert_true(len >= ETH_HEADER_BYTES);
		if (frame[12] == 0x88 && frame[13] == 0x08)
			return len;
	}
	return 0;
}

/*
 * A gateway: what arrives at in1 enters by in0, is bridged, and leaves by out0 through the part of
 * a port's tree (abi.h) that class 3 needs for the leaf of in0's slot. What is sent there without a
 * filter goes into that leaf, and stays: the gate's bucket holds less than a frame's worth an hour.
 */
static const char *const gateway[] = {
	"ip link add in0 type veth peer name in1",
	"ip link add out0 type veth peer name out1",
	"ip link add br0 type bridge mcast_snooping 0",
	"ip link set in0 master br0 && ip link set out0 master br0",
	/* no addresses, so that nobody but the test sends there */
	"for i in in0 in1 out0 out1 br0; do ip link set $i mtu 9000 addrgenmode none up; done",
	"tc qdisc add dev out0 root handle 9000: htb default 13",
	"tc class add dev out0 parent 9000: classid 9000:1 htb rate 1gbit quantum 1522",
	"tc class add dev out0 parent 9000:1 classid 9000:13 htb rate 1gbit quantum 1522",
	"tc qdisc add dev out0 parent 9000:13 handle 9013: tbf rate 8bit burst 1600 limit 1000000",
	"tc qdisc add dev out0 parent 9013:1 handle 9023: htb default 3",
	"tc class add dev out0 parent 9023: classid 9023:3 htb rate 1gbit quantum 1522",
	"tc qdisc add dev out0 parent 9023:3 handle a0c2: bfifo limit 1000000",
};

enum { LEAVES = 5, XOFF_BYTES = LEAVES * SENT_BYTES + 500, XON_BYTES = 2000 };

static __u32 in_port, out_port;
static int hooks[2] = {-1, -1};
static int at_peer = -1; /* what the peer of in0 gets */

static void set_marks(struct conf *conf)
{
	conf->classes[ROCE_CLASS].xoff_bytes = XOFF_BYTES;
	conf->classes[ROCE_CLASS].xon_bytes = XON_BYTES;
}

static void set_in_port(void (*change)(struct port_conf *port))
{
	struct port_conf port = pfc_port();

	if (change)
		change(&port);
	port_set(in_port, &port);
}

/* So many frames of SENT_BYTES in the leaf. */
static void fill_leaf(int count)
{
	static const __u8 frame[SENT_BYTES] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, [12] = 0x88, 0xb5};
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = out_port};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), i;

	for (i = 0; i <= count; i++) /* the first one empties the gate's bucket, and is gone */
		assert_int_equal(
			sendto(fd, frame, SENT_BYTES, 0, (void *)&to, sizeof(to)), SENT_BYTES);
	close(fd);
}

static int attach(const struct bpf_program *program, __u32 ifindex)
{
	int fd = bpf_link_create(
		bpf_program__fd(program), ifindex, (enum bpf_attach_type)TCX_EGRESS, NULL);

	if (fd < 0)
		fail_msg("tcx (kernel 6.6 or later): %s", strerror(-fd));
	return fd;
}

static int gateway_open(void **state)
{
	struct port_conf out = {.slot = AWAY_SLOT,
		.flags = TRUSTS_BOTH | PORT_PAUSES,
		.generation = 1,
		.byte_ps = 8000};
	const struct row *any = find_row(&frame_rows, "v4_send_only");
	struct skb_run resolve = {0};
	size_t i;

	if (pause_open(state))
		return -1;
	for (i = 0; i < COUNT(gateway); i++)
		shell(gateway[i]);
	in_port = if_nametoindex("in0");
	out_port = if_nametoindex("out0");
	at_peer = listen_at(if_nametoindex("in1"));
	port_forget();
	set_in_port(NULL);
	port_set(out_port, &out);
	set_pfc_conf(set_marks);
	hooks[0] = attach(skel->progs.quench_tc_egress, in_port);
	hooks[1] = attach(skel->progs.quench_tc_ahead, out_port);
	resolve.in.ifindex = out_port; /* the programs look for the queues */
	run_skb(skel->progs.quench_root, &resolve, any->frame, any->len);
	fill_leaf(LEAVES + 1); /* the gate looks at one of them, which no leaf shows meanwhile */
	return 0;
}

static int gateway_close(void **state)
{
	close(at_peer);
	close(hooks[0]);
	close(hooks[1]);
	shell("ip link del in0 && ip link del out0 && ip link del br0");
	return pause_close(state);
}

#define gateway_test(name) cmocka_unit_test_setup_teardown(name, gateway_open, gateway_close)

/* Run the hook of out0 on a frame of that length that came in by `from`. */
static void run_leaving(__u32 bytes, __u32 from, bool multicast)
{
	struct skb_run r = {.in.ifindex = out_port, .in.ingress_ifindex = from};
	static struct frame f;

	frame_make(&f,
		(struct frame_spec){
			.opcode = OP_RC_WRITE_ONLY, .tos = TOS_ECT0, .payload_bytes = bytes - 58});
	assert_int_equal(f.len, bytes);
	f.data[0] |= multicast;
	run_skb(skel->progs.quench_tc_ahead, &r, f.data, f.len);
	assert_int_equal(r.retval, ACT_NEXT);
	assert_int_equal(r.out.mark, 0);
	assert_same_bytes("frame", r.frame.data, r.frame.len, f.data, f.len);
}

/* What the peer has been told: one XOFF of priority 3, or nothing. */
static void assert_peer_hears(const char *what, bool xoff)
{
	__u8 want[60], have[FRAME_ROOM];
	size_t len = hear_control(at_peer, have, xoff ? ANSWER_MS : SILENCE_MS);

	expect_pfc(want, port_mac, says[0].vector, says[0].quanta);
	assert_same_bytes(what, have, len, want, xoff ? 60 : 0);
	if (xoff)
		assert_int_equal(hear_control(at_peer, have, SILENCE_MS), 0);
}

static void assert_out_stats(const char *what, struct port_stats want)
{
	struct port_stats have = stats_sum(skel->maps.port_stats, AWAY_SLOT);

	want.depth_unknown = 1; /* of the frame that made the programs look */
	stats_assert_equal(what, &have, &want);
}

/* Its event is heard with it. */
static void assert_xoff(__u32 classes)
{
	struct heard heard;

	assert_int_equal(pauses[PORT_SLOT].xoff, classes);
	hear_all(&heard);
	assert_int_equal(heard.count, classes != 0);
	assert_int_equal(pauses[PORT_SLOT].changed, classes != 0);
	if (classes)
		assert_int_equal(heard.event[0].slot, PORT_SLOT);
}

static void leaf_that_the_frame_fills_past_its_mark_pauses_the_peer_once(void **state)
{
	struct port_state seen;
	__u64 before_ns;

	(void)state;
	run_leaving(500, in_port, false); /* to the mark exactly */
	assert_xoff(0);
	before_ns = now_ns();
	run_leaving(502, in_port, false);
	assert_peer_hears("XOFF", true);
	assert_xoff(1 << ROCE_CLASS);
	assert_int_equal(pauses[PORT_SLOT].told, 1 << ROCE_CLASS);
	assert_in_range(pauses[PORT_SLOT].crossed_ns[ROCE_CLASS], before_ns, now_ns());
	assert_int_equal(pauses[PORT_SLOT].crossed_at[ROCE_CLASS], AWAY_SLOT);
	assert_int_equal(pauses[PORT_SLOT].budget_used, 1);
	pauses[PORT_SLOT].changed = 0;
	run_leaving(1002, in_port, false);
	assert_peer_hears("paused already", false);
	assert_int_equal(pauses[PORT_SLOT].changed, 0);
	assert_int_equal(
		bpf_map_lookup_elem(bpf_map__fd(skel->maps.port_state), &(__u32){AWAY_SLOT}, &seen),
		0);
	assert_int_equal(seen.leaf_max_bytes[ROCE_CLASS], LEAVES * SENT_BYTES + 1002);
	assert_out_stats("XOFF", (struct port_stats){0});
	assert_stats("XOFF", (struct port_stats){0});
}

static void disarm(struct port_conf *port)
{
	port->flags &= ~PORT_ARMED;
}

static void pause_nobody(struct port_conf *port)
{
	port->pausing = 1 << OTHER_CLASS;
}

static void give_no_budget(struct conf *conf)
{
	set_marks(conf);
	conf->pfc_budget_per_s = 0;
}

static void keep_multicast_out(struct conf *conf)
{
	set_marks(conf);
	conf->classes[ROCE_CLASS].unicast_only = 1;
}

/* Reasons to pause nobody although the leaf is over its mark. */
static const struct silence {
	const char *what;
	void (*change_port)(struct port_conf *port);
	void (*change_conf)(struct conf *conf);
	bool local, multicast, stormed;
	int suppressed; /* why; counted once */
} silences[] = {
	{"not armed", .change_port = disarm, .suppressed = PAUSE_SUPPRESSED_NOT_ARMED},
	{"no PFC for the class", .change_port = pause_nobody, .suppressed = -1},
	{"no budget", .change_conf = give_no_budget, .suppressed = PAUSE_SUPPRESSED_BUDGET},
	{"from this host", .local = true, .suppressed = -1},
	{"multicast", .change_conf = keep_multicast_out, .multicast = true, .suppressed = -1},
	{"storm", .stormed = true, .suppressed = PAUSE_SUPPRESSED_STORM},
};

static void leaf_past_its_mark_pauses_nobody_for_a_reason_that_is_counted(void **state)
{
	struct port_stats want = {0};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(silences); i++) {
		const struct silence *s = &silences[i];

		set_in_port(s->change_port);
		set_pfc_conf(s->change_conf ?: set_marks);
		pauses[AWAY_SLOT].stormed = s->stormed << ROCE_CLASS;
		run_leaving(1002, s->local ? 0 : in_port, s->multicast);
		assert_peer_hears(s->what, false);
		assert_xoff(0);
		if (s->suppressed >= 0)
			want.pause_suppressed[s->suppressed]++;
		assert_out_stats(s->what, want);
	}
}

static void xoff_whose_clone_cannot_be_sent_is_left_to_the_agent(void **state)
{
	(void)state;
	shell("ip link set in0 down");
	run_leaving(1002, in_port, false);
	assert_xoff(1 << ROCE_CLASS);
	assert_int_equal(pauses[PORT_SLOT].told, 0);
	assert_out_stats(
		"link down", (struct port_stats){.pause_suppressed[PAUSE_SUPPRESSED_CLONE] = 1});
}

/* The timer sees it without a frame that leaves or arrives. */
static void leaf_that_drains_below_xon_is_an_event(void **state)
{
	__u64 end_ns = now_ns() + ANSWER_MS * 1000000ull;
	__u32 *xoff = &pauses[PORT_SLOT].xoff;

	(void)state;
	run_leaving(1002, in_port, false);
	assert_xoff(1 << ROCE_CLASS);
	usleep(20000); /* twice the longest that the timer sleeps */
	assert_int_equal(__atomic_load_n(xoff, __ATOMIC_ACQUIRE), 1 << ROCE_CLASS);
	pauses[PORT_SLOT].changed = 0;
	shell("tc qdisc change dev out0 parent 9000:13 handle 9013: tbf rate 1gbit burst 100000 "
	      "limit 1000000");
	fill_leaf(0);
	while (__atomic_load_n(xoff, __ATOMIC_ACQUIRE) && now_ns() < end_ns)
		;
	assert_int_equal(*xoff, 0);
	usleep(1000); /* its event follows */
	assert_int_equal(pauses[PORT_SLOT].changed, 1);
}

static void set_marks_below_the_leaf(struct conf *conf)
{
	set_marks(conf);
	conf->classes[ROCE_CLASS].xon_bytes = LEAVES * SENT_BYTES - 1;
}

/* A byte takes no nanosecond there, yet it is time to wait for. */
static void leaf_a_byte_above_xon_on_a_fast_link_is_looked_at_again(void **state)
{
	struct port_conf out = {.slot = AWAY_SLOT,
		.flags = TRUSTS_BOTH | PORT_PAUSES,
		.generation = 1,
		.byte_ps = 80};
	__u64 end_ns = now_ns() + ANSWER_MS * 1000000ull;
	__u32 *xoff = &pauses[PORT_SLOT].xoff;

	(void)state;
	port_set(out_port, &out);
	set_pfc_conf(set_marks_below_the_leaf);
	run_leaving(1002, in_port, false);
	usleep(20000); /* it has been looked at, and was full */
	assert_int_equal(__atomic_load_n(xoff, __ATOMIC_ACQUIRE), 1 << ROCE_CLASS);
	shell("tc qdisc change dev out0 parent 9000:13 handle 9013: tbf rate 1gbit burst 100000 "
	      "limit 1000000");
	fill_leaf(0);
	while (__atomic_load_n(xoff, __ATOMIC_ACQUIRE) && now_ns() < end_ns)
		;
	assert_int_equal(*xoff, 0);
}

/* What the kernel is told about a frame at in1 that is not finished. */
static const struct arrival {
	const char *what;
	enum wire_l3 l3;
	__u8 tags;
	bool xoff;		   /* from a clone of it */
	struct virtio_net_hdr hdr; /* csum_start is the test's */
} arrivals[] = {
	{"a whole frame", L3_IPV4, 0, true, {0}},
	{"a whole frame over IPv6", L3_IPV6, 0, true, {0}},
	{"a whole tagged frame", L3_IPV4, 1, true, {0}},
	{"a whole frame with two tags", L3_IPV6, 2, true, {0}},
	{"checksum to come", L3_IPV4, 0, false,
		{.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_offset = 6}},
	{"checksum to come, tagged IPv6", L3_IPV6, 1, false,
		{.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_offset = 6}},
	{"segments to come", L3_IPV4, 0, false,
		{.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
			.csum_offset = 6,
			.gso_type = GSO_UDP_L4,
			.gso_size = 1000,
			.hdr_len = 42}},
};

static void send_at_peer(const struct arrival *a)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex("in1")};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), on = 1;
	static struct {
		struct virtio_net_hdr hdr;
		__u8 bytes[FRAME_ROOM];
	} out;
	static struct frame f;

	frame_make(&f, (struct frame_spec){.opcode = OP_RC_WRITE_ONLY,
			       .tos = TOS_ECT0,
			       .payload_bytes = 4000,
			       .l3 = a->l3,
			       .tags = a->tags});
	out.hdr = a->hdr;
	out.hdr.csum_start = f.l4_off;
	memcpy(out.bytes, f.data, f.len);
	assert_int_equal(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)), 0);
	assert_int_equal(sendto(fd, &out, sizeof(out.hdr) + f.len, 0, (void *)&to, sizeof(to)),
		sizeof(out.hdr) + f.len);
	close(fd);
}

/* Bridged for real: tags are where the kernel puts them, checksums are as the sender left them. */
static void frame_that_arrives_makes_the_whole_pfc_frame_or_none(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(arrivals); i++) {
		struct port_pauses *p = &pauses[PORT_SLOT];

		p->xoff = p->told = p->changed = 0;
		send_at_peer(&arrivals[i]);
		assert_peer_hears(arrivals[i].what, arrivals[i].xoff);
		assert_xoff(1 << ROCE_CLASS); /* so the agent knows in any case */
		assert_int_equal(p->told, arrivals[i].xoff << ROCE_CLASS);
	}
	assert_out_stats("arrivals", (struct port_stats){0});
}

static int setup(void **state)
{
	return enter_own_network() ? -1 : read_vectors(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pause_test(heard_priorities_that_are_obeyed_get_their_end_and_all_are_counted),
		pause_test(heard_pause_is_an_event_once_until_it_is_taken),
		pause_test(heard_pause_without_room_for_its_event_is_told_with_the_next),
		pause_test(clone_of_any_frame_becomes_exactly_what_is_to_be_said),
		pause_test(clone_with_nothing_to_say_is_dropped_and_counted),
		pause_test(clone_is_read_by_tshark_as_what_was_to_be_said),
		gateway_test(leaf_that_the_frame_fills_past_its_mark_pauses_the_peer_once),
		gateway_test(leaf_past_its_mark_pauses_nobody_for_a_reason_that_is_counted),
		gateway_test(xoff_whose_clone_cannot_be_sent_is_left_to_the_agent),
		gateway_test(leaf_that_drains_below_xon_is_an_event),
		gateway_test(leaf_a_byte_above_xon_on_a_fast_link_is_looked_at_again),
		gateway_test(frame_that_arrives_makes_the_whole_pfc_frame_or_none),
	};

	if (refuse_without_root("test_pause"))
		return 1;
	return cmocka_run_group_tests_name("prog_pause", tests, setup, free_vectors);
}
