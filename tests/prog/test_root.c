// SPDX-License-Identifier: BSD-2-Clause
// The root classifier on frames: the class, the leaf, and at what depth a frame is marked or
// dropped. The depths are those of real queues: a tree on one end of a veth pair, whose gate lets
// nothing through, so that what was sent into it stays there.
#include "programs.h"

#include <linux/if_packet.h>
#include <poll.h>

#include "prog/classid.skel.h"

enum {
	OTHER_PORT = 77, /* an ingress port; an skb's ingress_ifindex need not exist */
	OTHER_SLOT = 1,
	SENT_BYTES = 1000, /* a frame that waits in the tree */
};

static struct classid_bpf *classid;

static int root_open(void **state)
{
	struct port_conf other = {.slot = OTHER_SLOT};

	if (programs_open(state))
		return -1;
	port_set(OTHER_PORT, &other);
	classid = classid_bpf__open_and_load();
	if (!classid)
		return -1;
	map_put(classid->maps.program, &(__u32){0},
		&(int){bpf_program__fd(skel->progs.quench_root)});
	return 0;
}

static int root_close(void **state)
{
	classid_bpf__destroy(classid);
	return programs_close(state);
}

#define root_test(name) cmocka_unit_test_setup_teardown(name, root_open, root_close)

/* Classify the frame; the minor of the class that it is to go to, 0 for none. */
static int run(struct skb_run *r, const struct frame *f)
{
	r->repeat = 2;
	run_skb(classid->progs.quench_classid, r, f->data, f->len);
	r->repeat = 0;
	return r->retval;
}

/* Classify the frame; what the program answers. */
static int answer(struct skb_run *r, const struct frame *f)
{
	run_skb(skel->progs.quench_root, r, f->data, f->len);
	return r->retval;
}

static int run_spec(struct skb_run *r, struct frame_spec spec)
{
	static struct frame f;

	frame_make(&f, spec);
	return run(r, &f);
}

static int run_row(struct skb_run *r, const char *name)
{
	const struct row *row = find_row(&frame_rows, name);
	struct frame f = {.data = row->frame, .len = row->len};

	return run(r, &f);
}

static const struct frame_spec data_spec = {
	.opcode = OP_RC_SEND_ONLY, .tos = TOS_ECT0, .payload_bytes = 64};

static struct frame_spec data_of_qp(__u32 qpn)
{
	struct frame_spec spec = data_spec;

	spec.qpn = qpn;
	return spec;
}

static struct flow_key key_of(struct frame_spec spec)
{
	static struct frame f;

	frame_make(&f, spec);
	return frame_key(&f);
}

static __u32 leaf_of(__u32 cls, __u32 minor)
{
	return TREE_CLASS(TREE_INNER + cls, minor);
}

static void root_dscp_decides_class_and_leaf(void **state)
{
	static const struct {
		struct frame_spec spec;
		int cls;
	} cases[] = {
		{{.opcode = OP_RC_SEND_ONLY, .tos = TOS_ECT0}, ROCE_CLASS},
		{{.opcode = OP_RC_SEND_ONLY, .tos = TOS_CE}, ROCE_CLASS},
		{{.opcode = OP_RC_SEND_ONLY, .tos = TOS_NOT_ECT}, ROCE_CLASS},
		{{.opcode = OP_RC_SEND_ONLY, .tos = TOS_ECT0, .l3 = L3_IPV6}, ROCE_CLASS},
		{{.opcode = OP_RC_SEND_ONLY, .tos = TOS_ECT0, .tags = 1}, ROCE_CLASS},
		{{.opcode = OP_RC_SEND_ONLY, .tos = TOS_ECT0, .tags = 2}, ROCE_CLASS},
		{{.opcode = OP_RC_SEND_ONLY, .tos = TOS_ECT0, .option_words = 3}, ROCE_CLASS},
		{{.opcode = OP_RC_ACK, .tos = TOS_ECT0}, ROCE_CLASS},
		{{.opcode = OP_RC_SEND_ONLY, .tos = 10 << 2}, OTHER_CLASS},
		{{.opcode = OP_RC_SEND_ONLY, .tos = TOS_ECT0, .l3 = L3_GRH, .tags = 1},
			OTHER_CLASS}, /* no IP header: PCP decides */
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		struct skb_run r = {.in.priority = 7};

		assert_int_equal(run_spec(&r, cases[i].spec), MINOR_PRIORITY + cases[i].cls);
		assert_int_equal(r.out.priority, leaf_of(cases[i].cls, MINOR_SLOT + SLOT_LOCAL));
	}
	assert_stats("classes", (struct port_stats){.depth_unknown = COUNT(cases)});
}

static void root_frame_of_no_class_goes_to_default(void **state)
{
	struct skb_run r = {.in.priority = 7};

	(void)state;
	assert_int_equal(run_row(&r, "v4_tcp"), MINOR_DEFAULT);
	assert_int_equal(run_row(&r, "arp"), MINOR_DEFAULT);
	assert_int_equal(run_row(&r, "v1_send_only"), MINOR_DEFAULT); /* neither DSCP nor PCP */
	assert_int_equal(
		run_spec(&r, (struct frame_spec){.opcode = OP_RC_SEND_ONLY}), MINOR_DEFAULT);
	assert_int_equal(r.out.priority, 7);
	assert_int_equal(run_row(&r, "vlan_arp"), MINOR_PRIORITY + OTHER_CLASS); /* PCP 3 */
	assert_stats("default", (struct port_stats){.depth_unknown = 1});
}

static void root_unlisted_dscp_goes_to_default(void **state)
{
	struct conf conf = conf_default();
	int dscp, listed = 0;

	(void)state;
	for (dscp = 0; dscp < 64; dscp++) {
		struct frame_spec spec = {.opcode = OP_RC_SEND_ONLY, .tos = dscp << 2};
		__u8 cls = conf.dscp_class[dscp];
		struct skb_run r = {0};

		assert_int_equal(run_spec(&r, spec),
			cls == CLASS_NONE ? MINOR_DEFAULT : MINOR_PRIORITY + cls);
		listed += cls != CLASS_NONE;
	}
	assert_int_equal(listed, 2);
}

/* The tag's PCP is 3: OTHER_CLASS. DSCP 26 is ROCE_CLASS, DSCP 0 no class. */
static void root_trusted_field_alone_decides(void **state)
{
	static const struct frame_spec untagged = {.tos = TOS_ECT0},
				       tagged = {.tos = TOS_ECT0, .tags = 1},
				       tagged_0 = {.tags = 1}, grh = {.l3 = L3_GRH, .tags = 1};
	static const struct {
		__u32 trust;
		const struct frame_spec *spec;
		int minor;
	} cases[] = {
		{PORT_TRUST_PCP, &untagged, MINOR_DEFAULT},
		{PORT_TRUST_PCP, &tagged, MINOR_PRIORITY + OTHER_CLASS},
		{PORT_TRUST_PCP, &tagged_0, MINOR_PRIORITY + OTHER_CLASS},
		{PORT_TRUST_PCP, &grh, MINOR_PRIORITY + OTHER_CLASS},
		{PORT_TRUST_DSCP, &untagged, MINOR_PRIORITY + ROCE_CLASS},
		{PORT_TRUST_DSCP, &tagged, MINOR_PRIORITY + ROCE_CLASS},
		{PORT_TRUST_DSCP, &tagged_0, MINOR_DEFAULT},
		{PORT_TRUST_DSCP, &grh, MINOR_DEFAULT},
		{TRUSTS_BOTH, &tagged, MINOR_PRIORITY + ROCE_CLASS},
		{TRUSTS_BOTH, &tagged_0, MINOR_DEFAULT},
		{TRUSTS_BOTH, &grh, MINOR_PRIORITY + OTHER_CLASS},
		{TRUSTS_BOTH | PORT_PCP_FIRST, &untagged, MINOR_PRIORITY + ROCE_CLASS},
		{TRUSTS_BOTH | PORT_PCP_FIRST, &tagged, MINOR_PRIORITY + OTHER_CLASS},
		{0, &tagged, MINOR_DEFAULT},
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		struct port_conf port = port_default;
		struct frame_spec spec = *cases[i].spec;
		struct skb_run r = {0};
		int minor;

		port.flags = cases[i].trust;
		port_set(LOOPBACK, &port);
		spec.opcode = OP_RC_SEND_ONLY;
		minor = run_spec(&r, spec);
		if (minor != cases[i].minor)
			fail_msg("row %zu: class %#x, not %#x", i, minor, cases[i].minor);
	}
}

static void root_cnp_goes_to_control_whatever_its_dscp(void **state)
{
	struct frame_spec cnp = {.opcode = OP_CNP, .payload_bytes = 16, .tos = 0xc0};
	struct skb_run r = {.in.priority = 7};

	(void)state;
	assert_int_equal(run_spec(&r, cnp), MINOR_CONTROL);
	cnp.tos = TOS_ECT0;
	assert_int_equal(run_spec(&r, cnp), MINOR_CONTROL);
	assert_int_equal(r.out.priority, 7);
	assert_stats("cnp", (struct port_stats){0});
}

static void root_ingress_port_decides_leaf(void **state)
{
	struct skb_run r = {.in.ingress_ifindex = OTHER_PORT};

	(void)state;
	run_spec(&r, data_spec);
	assert_int_equal(r.out.priority, leaf_of(ROCE_CLASS, MINOR_SLOT + OTHER_SLOT));
	r.in.ingress_ifindex = OTHER_PORT + 1; /* a port that is not ours */
	run_spec(&r, data_spec);
	assert_int_equal(r.out.priority, leaf_of(ROCE_CLASS, MINOR_SLOT + SLOT_LOCAL));
}

static void root_marked_clone_goes_to_sink_and_is_counted(void **state)
{
	struct skb_run r = {.in.mark = MARK_BACK};

	(void)state;
	assert_int_equal(run_spec(&r, data_spec), MINOR_SINK);
	r.in.mark = MARK_ROUTED;
	assert_int_equal(run_row(&r, "arp"), MINOR_SINK);
	assert_stats("clones", (struct port_stats){.drops[PORT_DROP_STRAY_CLONE] = 2});
}

static void root_foreign_mark_is_left_alone(void **state)
{
	struct skb_run r = {.in.mark = MARK_BACK ^ 0x10};

	(void)state;
	assert_int_equal(run_spec(&r, data_spec), MINOR_PRIORITY + ROCE_CLASS);
	assert_int_equal(r.out.mark, r.in.mark);
}

static void root_unknown_port_is_left_to_others(void **state)
{
	struct skb_run r = {.in.priority = 7};
	static struct frame f;

	(void)state;
	port_forget();
	frame_make(&f, data_spec);
	assert_int_equal(answer(&r, &f), ACT_NEXT);
	assert_int_equal(run(&r, &f), 0);
	assert_int_equal(r.out.priority, 7);
}

static void root_cm_of_this_host_becomes_event(void **state)
{
	const struct row *req = &cm_rows.row[0];
	struct frame f = {.data = req->frame, .len = req->len};
	struct skb_run r = {0};
	struct heard heard;

	(void)state;
	run(&r, &f);
	hear_all(&heard);
	assert_int_equal(heard.count, 1);
	assert_int_equal(heard.event[0].type, EVENT_CM);
	assert_int_equal(heard.event[0].cm.attribute, CM_REQ);
	r.in.ingress_ifindex = OTHER_PORT; /* seen by XDP there */
	run(&r, &f);
	hear_all(&heard);
	assert_int_equal(heard.count, 0);
}

static void root_unknown_depth_never_marks_or_drops(void **state)
{
	struct conf conf = conf_default();
	struct skb_run r = {0};
	static struct frame f;

	(void)state;
	conf.classes[ROCE_CLASS] = (struct class_conf){.ecn = 1}; /* mark all, limit 0 */
	conf_set(&conf);
	port_set_flags(PORT_MARKS);
	frame_make(&f, data_spec);
	assert_int_equal(answer(&r, &f), ACT_OK);
	assert_same_bytes("frame", r.frame.data, r.frame.len, f.data, f.len);
	assert_stats("unknown", (struct port_stats){.depth_unknown = 1});
}

static struct qp qp_of(__u32 qpn)
{
	struct flow_key key = key_of(data_of_qp(qpn));
	struct qp qp;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(skel->maps.qps), &key, &qp), 0);
	return qp;
}

static __u64 packets_of(__u32 qpn)
{
	struct qp qp = qp_of(qpn);

	return flow_packets(&qp.flow);
}

static struct qp_class qp_class_of(__u32 index)
{
	struct qp_class cls;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(skel->maps.qp_classes), &index, &cls), 0);
	return cls;
}

/* As the agent takes a class back: it stays the QP's until its leaf is seen empty. */
static void raise_generation(__u32 index)
{
	struct qp_class cls = qp_class_of(index);

	cls.generation++;
	map_put(skel->maps.qp_classes, &index, &cls);
}

static struct qp_pool pool(void)
{
	struct qp_pool pool;

	assert_int_equal(
		bpf_map_lookup_elem(bpf_map__fd(skel->maps.qp_pools), &(__u32){PORT_SLOT}, &pool),
		0);
	return pool;
}

/* As the agent returns a class to the ring. */
static void give_class(__u32 index)
{
	struct qp_pool p = pool();

	map_put(skel->maps.qp_free, &(__u32){p.tail % QP_POOL}, &(__u64){index});
	p.tail++;
	map_put(skel->maps.qp_pools, &(__u32){PORT_SLOT}, &p);
}

/* The leaf that a frame is sent to, below its class. */
static __u32 leaf_minor(struct frame_spec spec, __u32 ingress)
{
	struct skb_run r = {.in.ingress_ifindex = ingress};

	assert_int_equal(run_spec(&r, spec), MINOR_PRIORITY + ROCE_CLASS);
	assert_int_equal(r.out.priority >> 16, TREE_INNER + ROCE_CLASS);
	return r.out.priority & 0xffff;
}

static void qp_takes_class_at_first_data_frame_and_keeps_it(void **state)
{
	struct flow_key key = key_of(data_of_qp(0x100));
	struct qp_class cls;

	(void)state;
	port_set_flags(PORT_REACTION);
	assert_int_equal(leaf_minor(data_of_qp(0x100), 0), MINOR_QP + 0);
	assert_int_equal(leaf_minor(data_of_qp(0x200), 0), MINOR_QP + 1);
	assert_int_equal(leaf_minor(data_of_qp(0x100), 0), MINOR_QP + 0);
	assert_int_equal(pool().head, 2);
	cls = qp_class_of(0);
	assert_memory_equal(&cls.owner, &key, sizeof(key));
	assert_int_equal(cls.taken, 1);
	assert_true(cls.last_ns > 0);
	assert_int_equal(packets_of(0x100), 2);
	assert_int_equal(qp_of(0x100).flow.slot, PORT_SLOT);
	assert_stats("qps", (struct port_stats){.depth_unknown = 3});
}

static void qp_without_free_class_rides_in_shared_leaf_and_is_counted(void **state)
{
	(void)state;
	port_set_flags(PORT_REACTION);
	leaf_minor(data_of_qp(0x100), 0);
	leaf_minor(data_of_qp(0x200), 0);
	assert_int_equal(leaf_minor(data_of_qp(0x300), 0), MINOR_SLOT + SLOT_LOCAL);
	assert_int_equal(leaf_minor(data_of_qp(0x300), OTHER_PORT), MINOR_SLOT + OTHER_SLOT);
	assert_int_equal(pool().head, 2);
	assert_int_equal(qp_of(0x300).leaf, QP_SHARED_LEAF);
	assert_stats("full", (struct port_stats){.depth_unknown = 4, .qp_unenforced = 2});
}

static void qp_in_shared_leaf_of_unknown_depth_takes_no_class(void **state)
{
	(void)state;
	port_set_flags(PORT_REACTION);
	leaf_minor(data_of_qp(0x100), 0);
	leaf_minor(data_of_qp(0x200), 0);
	leaf_minor(data_of_qp(0x300), 0);
	give_class(0);
	assert_int_equal(leaf_minor(data_of_qp(0x300), 0), MINOR_SLOT + SLOT_LOCAL);
	assert_int_equal(leaf_minor(data_of_qp(0x400), 0), MINOR_QP + 0); /* a fresh one may */
}

static void qp_ack_takes_no_class_and_is_not_unenforced(void **state)
{
	struct frame_spec ack = {.opcode = OP_RC_ACK, .tos = TOS_ECT0, .qpn = 0x100};

	(void)state;
	port_set_flags(PORT_REACTION);
	assert_int_equal(leaf_minor(ack, 0), MINOR_SLOT + SLOT_LOCAL);
	assert_int_equal(pool().head, 0);
	assert_stats("ack", (struct port_stats){.depth_unknown = 1});
}

/* A CNP of the receiver's, for that QP of the sender, arrives here. */
static void hear_cnp(__u32 qpn)
{
	static struct frame f;
	static __u8 out[FRAME_ROOM];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_out = out, .data_size_out = sizeof(out));

	frame_make(&f, (struct frame_spec){.opcode = OP_CNP, .qpn = qpn, .payload_bytes = 16});
	memcpy(f.data + f.l3_off + 12, receiver_ipv4, 4);
	memcpy(f.data + f.l3_off + 16, sender_ipv4, 4);
	opts.data_in = f.data;
	opts.data_size_in = f.len;
	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(skel->progs.quench_xdp), &opts), 0);
}

/* In a READ the responder, which this host is, carries the data: its QP is the one to limit. */
static void qp_of_a_read_responder_is_the_one_with_a_class_and_the_cnps(void **state)
{
	static const __u8 opcodes[] = {OP_RC_READ_RESPONSE_FIRST, OP_RC_READ_RESPONSE_MIDDLE,
		OP_RC_READ_RESPONSE_LAST, OP_RC_READ_RESPONSE_ONLY};
	struct frame_spec spec = {.tos = TOS_ECT0, .qpn = QPN_RECEIVER, .payload_bytes = 64};
	struct flow_key data = key_of(spec), back = {.dst_qpn = QPN_SENDER};
	struct heard heard;
	size_t i;

	(void)state;
	port_set_flags(PORT_REACTION);
	memcpy(back.src, data.dst, sizeof(back.src));
	memcpy(back.dst, data.src, sizeof(back.dst));
	map_put(skel->maps.pairs, &back,
		&(struct pair){.peer_qpn = QPN_RECEIVER, .source = PAIR_CM});
	for (i = 0; i < COUNT(opcodes); i++) {
		spec.opcode = opcodes[i];
		assert_int_equal(leaf_minor(spec, 0), MINOR_QP + 0);
	}
	assert_int_equal(pool().head, 1);
	hear_cnp(QPN_SENDER);
	hear_all(&heard);
	assert_int_equal(heard.count, 1);
	assert_int_equal(heard.event[0].type, EVENT_CNP);
	assert_memory_equal(&heard.event[0].key, &data, sizeof(data));
}

static void qp_class_taken_back_keeps_leaf_while_its_depth_is_unknown(void **state)
{
	(void)state;
	port_set_flags(PORT_REACTION);
	leaf_minor(data_of_qp(0x100), 0);
	raise_generation(0);
	assert_int_equal(leaf_minor(data_of_qp(0x100), 0), MINOR_QP + 0);
	assert_int_equal(qp_class_of(0).taken, 1);
	assert_int_equal(pool().head, 1);
}

static void qp_class_given_to_another_is_left_at_once(void **state)
{
	struct qp_class cls;

	(void)state;
	port_set_flags(PORT_REACTION);
	leaf_minor(data_of_qp(0x100), 0);
	raise_generation(0);
	cls = qp_class_of(0);
	cls.owner.dst_qpn = 0x999;
	map_put(skel->maps.qp_classes, &(__u32){0}, &cls);
	assert_int_equal(leaf_minor(data_of_qp(0x100), 0), MINOR_QP + 1);
}

static void qp_table_full_counts_and_uses_shared_leaf(void **state)
{
	__u32 qpn;

	(void)state;
	port_set_flags(PORT_REACTION);
	for (qpn = 1; qpn <= FLOWS; qpn++)
		leaf_minor(data_of_qp(qpn), 0);
	assert_int_equal(leaf_minor(data_of_qp(0x100), 0), MINOR_SLOT + SLOT_LOCAL);
	assert_stats("full", (struct port_stats){.depth_unknown = FLOWS + 1,
				     .qp_unenforced = FLOWS - QP_POOL,
				     .flows_full = 1});
}

static void qp_steering_is_for_roce_of_the_reaction_class_only(void **state)
{
	struct frame_spec other = data_spec;
	struct skb_run r = {0};
	static struct frame f;

	(void)state;
	port_set_flags(PORT_REACTION);
	other.tos = 10 << 2;
	run_spec(&r, other);
	assert_int_equal(r.out.priority, leaf_of(OTHER_CLASS, MINOR_SLOT));
	frame_make(&f, data_spec);
	frame_put16(f.data + f.l4_off + 2, 4790); /* not RoCE */
	run(&r, &f);
	assert_int_equal(r.out.priority, leaf_of(ROCE_CLASS, MINOR_SLOT));
	port_set_flags(0); /* no reaction point */
	run_spec(&r, data_spec);
	assert_int_equal(r.out.priority, leaf_of(ROCE_CLASS, MINOR_SLOT));
	assert_int_equal(pool().head, 0);
}

/*
 * The part of a port's tree (abi.h) that class 3 needs, on q0, with leaves of slot 0 and 1 and of
 * QP class 0: gate, two leaves, QP leaf. What is sent there without a filter goes into the leaf of
 * slot 0, and stays: the gate's bucket holds less than a frame's worth an hour.
 */
enum { TREE_FOUND = 4 };

static void tree_add(void)
{
	shell("tc qdisc add dev q0 root handle 9000: htb default 13");
	shell("tc class add dev q0 parent 9000: classid 9000:1 htb rate 1gbit quantum 1522");
	shell("tc class add dev q0 parent 9000:1 classid 9000:13 htb rate 1gbit quantum 1522");
	shell("tc qdisc add dev q0 parent 9000:13 handle 9013: tbf rate 8bit burst 1600 "
	      "limit 1000000");
	shell("tc qdisc add dev q0 parent 9013:1 handle 9023: htb default 1");
	shell("tc class add dev q0 parent 9023: classid 9023:1 htb rate 1gbit quantum 1522");
	shell("tc class add dev q0 parent 9023: classid 9023:2 htb rate 1gbit quantum 1522");
	shell("tc class add dev q0 parent 9023: classid 9023:1000 htb rate 1gbit quantum 1522");
	shell("tc qdisc add dev q0 parent 9023:1 handle a0c0: bfifo limit 1000000");
	shell("tc qdisc add dev q0 parent 9023:2 handle a0c1: bfifo limit 1000000");
	shell("tc qdisc add dev q0 parent 9023:1000 handle b000: bfifo limit 1000000");
}

static __u32 tree_port;

static int tree_open(void **state)
{
	if (root_open(state))
		return -1;
	shell("ip link add q0 type veth peer name q1");
	/* no addresses, so that nobody but the test sends into the tree */
	shell("ip link set q0 addrgenmode none up && ip link set q1 addrgenmode none up");
	tree_port = if_nametoindex("q0");
	tree_add();
	port_forget();
	port_set(tree_port, &port_default);
	return 0;
}

static int tree_close(void **state)
{
	shell("ip link del q0");
	return root_close(state);
}

#define tree_test(name) cmocka_unit_test_setup_teardown(name, tree_open, tree_close)

static void tree_set_flags(__u32 flags, __u32 generation)
{
	struct port_conf port = port_default;

	port.flags = flags | TRUSTS_BOTH;
	port.generation = generation;
	port_set(tree_port, &port);
}

/* Put frames of SENT_BYTES into the tree; what its gate still holds of them. */
static __u32 tree_fill(int frames)
{
	static const __u8 frame[SENT_BYTES] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, [12] = 0x88, 0xb5};
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = tree_port};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), i;

	assert_true(fd >= 0);
	for (i = 0; i <= frames; i++) /* the first one empties the bucket, and is gone */
		assert_int_equal(
			sendto(fd, frame, SENT_BYTES, 0, (void *)&to, sizeof(to)), SENT_BYTES);
	close(fd);
	return frames * SENT_BYTES;
}

/* Open the gate: one frame more, and all that waited has left. */
static void tree_drain(void)
{
	shell("tc qdisc change dev q0 parent 9000:13 handle 9013: tbf rate 1gbit burst 100000 "
	      "limit 1000000");
	tree_fill(0);
}

/* Let a frame through so that the program has looked for its queues. */
static void tree_resolve(void)
{
	struct skb_run r = {.in.ifindex = tree_port};

	run_row(&r, "v4_send_only");
}

static struct port_state port_state(void)
{
	struct port_state state;

	assert_int_equal(bpf_map_lookup_elem(
				 bpf_map__fd(skel->maps.port_state), &(__u32){PORT_SLOT}, &state),
		0);
	return state;
}

static void depth_first_frame_finds_the_queues(void **state)
{
	struct skb_run r = {.in.ifindex = tree_port};

	(void)state;
	run_spec(&r, data_spec);
	assert_int_equal(port_state().found, TREE_FOUND);
	assert_stats("first", (struct port_stats){.depth_unknown = 1});
	run_spec(&r, data_spec);
	assert_stats("second", (struct port_stats){.depth_unknown = 1});
	run_spec(&r, (struct frame_spec){.opcode = OP_RC_SEND_ONLY, .tos = 10 << 2});
	assert_stats("class without a gate", (struct port_stats){.depth_unknown = 2});
}

static void depth_at_limit_passes_and_one_byte_more_is_dropped(void **state)
{
	struct skb_run r = {.in.ifindex = tree_port};
	struct conf conf = conf_default();
	static struct frame f;
	__u32 depth;

	(void)state;
	frame_make(&f, data_spec);
	tree_resolve();
	depth = tree_fill(5);
	conf.classes[ROCE_CLASS].limit_bytes = depth + f.len;
	conf_set(&conf);
	assert_int_equal(answer(&r, &f), ACT_OK);
	r.in.wire_len = f.len + 1;
	assert_int_equal(answer(&r, &f), ACT_SHOT);
	assert_stats("limit", (struct port_stats){.depth_unknown = 1, .drops[PORT_DROP_LIMIT] = 1});
}

static void depth_deepest_that_a_frame_found_is_kept(void **state)
{
	struct skb_run r = {.in.ifindex = tree_port};
	__u32 depth;

	(void)state;
	tree_resolve();
	depth = tree_fill(5);
	run_spec(&r, data_spec);
	assert_int_equal(port_state().depth_max_bytes[ROCE_CLASS], depth);
	tree_drain();
	run_spec(&r, data_spec);
	assert_int_equal(port_state().depth_max_bytes[ROCE_CLASS], depth);
	assert_int_equal(port_state().depth_max_bytes[OTHER_CLASS], 0);
}

static void depth_above_kmax_marks_and_at_kmin_does_not(void **state)
{
	struct skb_run r = {.in.ifindex = tree_port};
	struct conf conf = conf_default();
	static struct frame f;
	__u32 depth;

	(void)state;
	frame_make(&f, data_spec);
	tree_resolve();
	depth = tree_fill(5);
	conf.classes[ROCE_CLASS].ecn = 1;
	conf.classes[ROCE_CLASS].kmin_bytes = conf.classes[ROCE_CLASS].kmax_bytes = depth - 1;
	conf_set(&conf);
	run(&r, &f); /* PORT_MARKS is not set */
	assert_int_equal(r.frame.data[f.l3_off + 1], TOS_ECT0);
	tree_set_flags(PORT_MARKS, 1);
	run(&r, &f);
	assert_int_equal(r.frame.data[f.l3_off + 1], TOS_CE);
	assert_int_equal(header_sum(r.frame.data + f.l3_off, IPV4_MIN_BYTES), 0);
	tree_set_flags(PORT_MARKS | PORT_NOTIFY_EGRESS, 1); /* the egress hook has marked it */
	run(&r, &f);
	assert_int_equal(r.frame.data[f.l3_off + 1], TOS_ECT0);
	tree_set_flags(PORT_MARKS, 1);
	conf.classes[ROCE_CLASS].kmin_bytes = depth;
	conf_set(&conf);
	run(&r, &f);
	assert_int_equal(r.frame.data[f.l3_off + 1], TOS_ECT0);
	assert_stats("marks", (struct port_stats){.depth_unknown = 1, .ce_marked = 1});
}

/* A CNP waits in the control class, whatever its DSCP: no depth of another class is its own. */
static void depth_above_kmax_never_marks_a_cnp(void **state)
{
	static const struct frame_spec cnp = {
		.opcode = OP_CNP, .payload_bytes = 16, .tos = TOS_ECT0};
	struct skb_run r = {.in.ifindex = tree_port, .in.ingress_ifindex = OTHER_PORT};
	struct conf conf = conf_default();
	static struct frame f;

	(void)state;
	conf.classes[ROCE_CLASS].ecn = 1; /* kmin = kmax = 0: mark at any depth */
	conf_set(&conf);
	tree_resolve();
	tree_fill(5);
	frame_make(&f, cnp);
	tree_set_flags(PORT_MARKS, 1);
	run(&r, &f);
	assert_int_equal(r.frame.data[f.l3_off + 1], TOS_ECT0);
	tree_set_flags(PORT_NOTIFY_EGRESS, 1);
	run_skb(skel->progs.quench_tc_ahead, &r, f.data, f.len);
	assert_int_equal(r.frame.data[f.l3_off + 1], TOS_ECT0);
	assert_stats("cnp", (struct port_stats){.depth_unknown = 1});
}

static struct qdisc_ref ref_of(__u32 index)
{
	struct qdisc_ref ref;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(skel->maps.qdisc_refs), &index, &ref), 0);
	return ref;
}

/* A reference that should not be believed: of each kind, what does not look like ours. */
static void depth_of_queue_that_looks_otherwise_is_unknown(void **state)
{
	struct skb_run r = {.in.ifindex = tree_port};
	__u32 gate = ref_gate(ROCE_CLASS), i;
	struct qdisc_ref ref;

	(void)state;
	tree_resolve();
	ref = ref_of(gate);
	for (i = 0; i < 3; i++) {
		struct qdisc_ref other = ref;

		other.handle += i == 0;
		other.parent += i == 1;
		other.dev_queue += i == 2;
		map_put(skel->maps.qdisc_refs, &gate, &other);
		run_spec(&r, data_spec);
		assert_stats("another", (struct port_stats){.depth_unknown = 2 + i});
	}
	map_put(skel->maps.qdisc_refs, &gate, &ref);
	run_spec(&r, data_spec);
	assert_stats("ours", (struct port_stats){.depth_unknown = 4});
}

/* Nobody tells of its end here: its reference count does. */
static void depth_of_freed_queue_is_unknown(void **state)
{
	struct skb_run r = {.in.ifindex = tree_port};

	(void)state;
	tree_resolve();
	run_spec(&r, data_spec);
	assert_stats("alive", (struct port_stats){.depth_unknown = 1});
	shell("tc qdisc del dev q0 root");
	run_spec(&r, data_spec);
	assert_stats("freed", (struct port_stats){.depth_unknown = 2});
}

static void depth_of_destroyed_queue_is_unknown_until_it_is_found_again(void **state)
{
	struct skb_run r = {.in.ifindex = tree_port};
	struct bpf_link *link = bpf_program__attach(skel->progs.quench_qdisc_destroy);

	(void)state;
	assert_non_null(link);
	run_spec(&r, data_spec);
	run_spec(&r, data_spec);
	assert_stats("found", (struct port_stats){.depth_unknown = 1});
	assert_true(ref_of(ref_gate(ROCE_CLASS)).ptr);
	shell("tc qdisc del dev q0 root");
	assert_false(ref_of(ref_gate(ROCE_CLASS)).ptr);
	assert_false(ref_of(ref_qp_leaf(SLOTS, 0)).ptr);
	run_spec(&r, data_spec);
	assert_stats("destroyed", (struct port_stats){.depth_unknown = 2});
	tree_add();
	tree_set_flags(0, 2);
	run_spec(&r, data_spec);
	run_spec(&r, data_spec);
	assert_stats("found again", (struct port_stats){.depth_unknown = 3});
	assert_int_equal(port_state().found, TREE_FOUND);
	bpf_link__destroy(link);
}

/* Somebody else's tree, in which a handle of ours hangs below another parent. */
static void depth_of_foreign_queue_with_our_handle_is_not_taken(void **state)
{
	struct skb_run r = {.in.ifindex = tree_port};

	(void)state;
	shell("tc qdisc del dev q0 root");
	shell("tc qdisc add dev q0 root handle 1: htb default 13");
	shell("tc class add dev q0 parent 1: classid 1:13 htb rate 1gbit quantum 1522");
	shell("tc qdisc add dev q0 parent 1:13 handle 9013: tbf rate 8bit burst 1600 limit 9000");
	run_spec(&r, data_spec);
	assert_int_equal(port_state().found, 0);
}

static void qp_in_shared_leaf_moves_only_when_its_frames_have_left(void **state)
{
	struct skb_run r = {.in.ifindex = tree_port};

	(void)state;
	tree_set_flags(PORT_REACTION, 1);
	tree_resolve(); /* QP 0x112233 takes class 0 */
	tree_fill(3);
	run_spec(&r, data_of_qp(0x200)); /* takes class 1 */
	run_spec(&r, data_of_qp(0x300));
	assert_int_equal(r.out.priority, leaf_of(ROCE_CLASS, MINOR_SLOT));
	give_class(1);
	run_spec(&r, data_of_qp(0x300)); /* frames of it may still wait there */
	assert_int_equal(r.out.priority, leaf_of(ROCE_CLASS, MINOR_SLOT));
	tree_drain();
	run_spec(&r, data_of_qp(0x300));
	assert_int_equal(r.out.priority, leaf_of(ROCE_CLASS, MINOR_QP + 1));
	assert_int_equal(qp_of(0x300).leaf, 1);
}

static void qp_class_taken_back_is_left_once_it_is_empty(void **state)
{
	struct skb_run r = {.in.ifindex = tree_port};

	(void)state;
	tree_set_flags(PORT_REACTION, 1);
	tree_resolve();
	run_spec(&r, data_spec);
	assert_int_equal(r.out.priority, leaf_of(ROCE_CLASS, MINOR_QP + 0));
	raise_generation(0);
	run_spec(&r, data_spec); /* its leaf is empty: it takes the other class */
	assert_int_equal(r.out.priority, leaf_of(ROCE_CLASS, MINOR_QP + 1));
	assert_int_equal(qp_class_of(1).taken, 1);
}

/* A bridge of i1 and q0, so that a frame sent by i0 is forwarded to q0, tree and all. */
static int bridge_socket = -1, hook = -1;

static int bridge_open(void **state)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(0x0003)};
	struct conf conf = conf_default();

	if (tree_open(state))
		return -1;
	shell("ip link add name b0 type bridge && ip link set b0 addrgenmode none up");
	shell("ip link add i0 type veth peer name i1");
	shell("ip link set i0 addrgenmode none up && ip link set i1 addrgenmode none up");
	shell("ip link set i1 master b0 && ip link set q0 master b0");
	conf.classes[ROCE_CLASS].ecn = 1; /* kmin = kmax = 0: mark at any depth */
	conf_set(&conf);
	tree_set_flags(PORT_NOTIFY_EGRESS, 1); /* such a port marks in its egress hook */
	hook = bpf_link_create(bpf_program__fd(skel->progs.quench_tc_ahead), tree_port,
		(enum bpf_attach_type)TCX_EGRESS, NULL);
	bridge_socket = socket(AF_PACKET, SOCK_RAW, htons(0x0003)); /* ETH_P_ALL */
	at.sll_ifindex = if_nametoindex("q1");
	return hook < 0 || bind(bridge_socket, (void *)&at, sizeof(at)) ? -1 : 0;
}

static int bridge_close(void **state)
{
	close(bridge_socket);
	close(hook);
	shell("ip link del i0 && ip link del b0");
	return tree_close(state);
}

#define bridge_test(name) cmocka_unit_test_setup_teardown(name, bridge_open, bridge_close)

/* The frame as it arrives behind the bridge: a socket shows it without its outer tag. */
static void bridge_pass(const struct frame *f, struct frame *heard)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex("i0")};
	struct pollfd wait = {.fd = bridge_socket, .events = POLLIN};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	tree_resolve();
	tree_fill(5);
	assert_int_equal(sendto(fd, f->data, f->len, 0, (void *)&to, sizeof(to)), f->len);
	close(fd);
	tree_drain();
	heard->data = heard->room + ALIGN_BYTES;
	do {
		assert_int_equal(poll(&wait, 1, ANSWER_MS), 1);
		heard->len = recv(bridge_socket, heard->data, FRAME_ROOM - ALIGN_BYTES, 0);
	} while (memcmp(heard->data, f->data, 12));
}

static void assert_marked_behind_bridge(struct frame_spec spec)
{
	static struct frame f, heard, want;

	frame_make(&f, spec);
	bridge_pass(&f, &heard);
	spec.tos |= TOS_CE;
	if (spec.tags)
		spec.tags--;
	frame_make(&want, spec);
	if (spec.tags) /* the tag that is left is the inner one */
		frame_put16(want.data + ETH_HEADER_BYTES, INNER_TCI);
	assert_same_bytes("behind the bridge", heard.data, heard.len, want.data, want.len);
	assert_int_equal(stats_sum(skel->maps.port_stats, PORT_SLOT).ce_marked, 1);
}

static void bridge_untagged_frame_is_marked_and_otherwise_unchanged(void **state)
{
	(void)state;
	assert_marked_behind_bridge(data_spec);
}

static void bridge_frame_with_one_tag_is_marked_and_otherwise_unchanged(void **state)
{
	struct frame_spec spec = data_spec;

	(void)state;
	spec.tags = 1;
	assert_marked_behind_bridge(spec);
}

static void bridge_frame_with_two_tags_is_marked_and_otherwise_unchanged(void **state)
{
	struct frame_spec spec = data_spec;

	(void)state;
	spec.tags = 2;
	assert_marked_behind_bridge(spec);
}

static int setup(void **state)
{
	return enter_own_network() ? -1 : read_vectors(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		root_test(root_dscp_decides_class_and_leaf),
		root_test(root_frame_of_no_class_goes_to_default),
		root_test(root_unlisted_dscp_goes_to_default),
		root_test(root_trusted_field_alone_decides),
		root_test(root_cnp_goes_to_control_whatever_its_dscp),
		root_test(root_ingress_port_decides_leaf),
		root_test(root_marked_clone_goes_to_sink_and_is_counted),
		root_test(root_foreign_mark_is_left_alone),
		root_test(root_unknown_port_is_left_to_others),
		root_test(root_cm_of_this_host_becomes_event),
		root_test(root_unknown_depth_never_marks_or_drops),
		root_test(qp_takes_class_at_first_data_frame_and_keeps_it),
		root_test(qp_without_free_class_rides_in_shared_leaf_and_is_counted),
		root_test(qp_in_shared_leaf_of_unknown_depth_takes_no_class),
		root_test(qp_ack_takes_no_class_and_is_not_unenforced),
		root_test(qp_of_a_read_responder_is_the_one_with_a_class_and_the_cnps),
		root_test(qp_class_taken_back_keeps_leaf_while_its_depth_is_unknown),
		root_test(qp_class_given_to_another_is_left_at_once),
		root_test(qp_table_full_counts_and_uses_shared_leaf),
		root_test(qp_steering_is_for_roce_of_the_reaction_class_only),
		tree_test(depth_first_frame_finds_the_queues),
		tree_test(depth_at_limit_passes_and_one_byte_more_is_dropped),
		tree_test(depth_deepest_that_a_frame_found_is_kept),
		tree_test(depth_above_kmax_marks_and_at_kmin_does_not),
		tree_test(depth_above_kmax_never_marks_a_cnp),
		tree_test(depth_of_queue_that_looks_otherwise_is_unknown),
		tree_test(depth_of_freed_queue_is_unknown),
		tree_test(depth_of_destroyed_queue_is_unknown_until_it_is_found_again),
		tree_test(depth_of_foreign_queue_with_our_handle_is_not_taken),
		tree_test(qp_in_shared_leaf_moves_only_when_its_frames_have_left),
		tree_test(qp_class_taken_back_is_left_once_it_is_empty),
		bridge_test(bridge_untagged_frame_is_marked_and_otherwise_unchanged),
		bridge_test(bridge_frame_with_one_tag_is_marked_and_otherwise_unchanged),
		bridge_test(bridge_frame_with_two_tags_is_marked_and_otherwise_unchanged),
	};

	if (refuse_without_root("test_root"))
		return 1;
	return cmocka_run_group_tests_name("prog_root", tests, setup, free_vectors);
}
