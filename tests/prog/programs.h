/* SPDX-License-Identifier: BSD-2-Clause */
/* quench's own programs, loaded afresh for each test, with one port: lo, in slot PORT_SLOT. */
#ifndef QUENCH_TESTS_PROGRAMS_H
#define QUENCH_TESTS_PROGRAMS_H

#include "prog.h"

#include "dataplane/dataplane.h"
#include "quench.skel.h"

enum {
	PORT_SLOT = 2,
	FLOWS = 8,
	PAIRS = 8,
	QP_POOL = 2, /* QP classes of the port */
	SLOTS = 4,
	ROCE_CLASS = 3,	 /* DSCP 26 */
	OTHER_CLASS = 5, /* DSCP 10, and PCP 3 of frames without an IP header */
	MARK_BACK = CLONE_CNP_BACK,
	MARK_ROUTED = CLONE_CNP_ROUTED,
	RING_BYTES = 4096,
	INTERVAL_NS = 1000000000,
	NOW_NS = 12345, /* by the agent's clock */
	TRUSTS_BOTH = PORT_TRUST_DSCP | PORT_TRUST_PCP,

	TCX_EGRESS = 47,  /* attach type, which Debian 12's headers do not know */
	ANSWER_MS = 2000, /* a frame that has not come by then does not come */
};

/* ECN codepoints of DSCP 26. */
enum { TOS_NOT_ECT = 0x68, TOS_ECT1 = 0x69, TOS_ECT0 = 0x6a, TOS_CE = 0x6b };

static struct quench_bpf *skel;

static const struct port_conf port_default = {
	.flags = TRUSTS_BOTH,
	.slot = PORT_SLOT,
	.qp_count = QP_POOL,
	.reaction_class = ROCE_CLASS,
	.generation = 1,
};

/* As the agent does it. */
static inline void port_set(__u32 ifindex, const struct port_conf *port)
{
	struct port_place place = {.ifindex = ifindex, .slot = port->slot};

	map_put(skel->maps.ports, &port->slot, port);
	map_put(skel->maps.port_slots, &ifindex, &port->slot);
	map_put(skel->maps.port_places, &(__u32){port_place(ifindex)}, &place);
}

/* Another interface has taken the port's place. */
static inline void port_take_place(__u32 ifindex)
{
	struct port_place other = {.ifindex = ifindex + PORT_PLACES, .slot = 0};

	map_put(skel->maps.port_places, &(__u32){port_place(ifindex)}, &other);
}

/* The port lo with these PORT_* flags; it trusts both DSCP and PCP. */
static inline void port_set_flags(__u32 flags)
{
	struct port_conf port = port_default;

	port.flags = flags | TRUSTS_BOTH;
	port_set(LOOPBACK, &port);
}

static inline void port_forget(void)
{
	port_take_place(LOOPBACK);
	assert_int_equal(
		bpf_map_delete_elem(bpf_map__fd(skel->maps.port_slots), &(__u32){LOOPBACK}), 0);
}

static inline struct conf conf_default(void)
{
	struct conf conf = {
		.now_ns = NOW_NS,
		.cnp_interval_ns = INTERVAL_NS,
		.slots = SLOTS,
		.cnp_tos = 0xc0,
		.udp_ports = WIRE_PORTS_DEFAULT,
	};
	int i;

	memset(conf.dscp_class, CLASS_NONE, sizeof(conf.dscp_class));
	memset(conf.pcp_class, CLASS_NONE, sizeof(conf.pcp_class));
	conf.dscp_class[26] = ROCE_CLASS;
	conf.dscp_class[10] = OTHER_CLASS;
	conf.pcp_class[3] = OTHER_CLASS;
	for (i = 0; i < CLASSES_MAX; i++)
		conf.classes[i].limit_bytes = 1 << 20;
	return conf;
}

static inline void conf_set(const struct conf *conf)
{
	map_put(skel->maps.conf_map, &(__u32){0}, conf);
}

static inline int programs_open(void **state)
{
	struct conf conf = conf_default();
	__u32 i;

	(void)state;
	skel = quench_bpf__open();
	if (!skel)
		return -1;
	skel->rodata->depth_rdonly_cast = dataplane_kernel_has_function("bpf_rdonly_cast");
	bpf_map__set_max_entries(skel->maps.flows, FLOWS);
	bpf_map__set_max_entries(skel->maps.qps, FLOWS);
	bpf_map__set_max_entries(skel->maps.pairs, PAIRS);
	bpf_map__set_max_entries(skel->maps.qp_classes, QP_POOL);
	bpf_map__set_max_entries(skel->maps.qp_free, QP_POOL);
	bpf_map__set_max_entries(skel->maps.qdisc_refs, ref_qp_leaf(SLOTS, QP_POOL));
	bpf_map__set_max_entries(skel->maps.qdisc_by_ptr, 2 * ref_qp_leaf(SLOTS, QP_POOL));
	bpf_map__set_max_entries(skel->maps.events, RING_BYTES);
	if (quench_bpf__load(skel))
		return -1;
	conf_set(&conf);
	port_set_flags(PORT_ENDS_PAUSE);
	for (i = 0; i < QP_POOL; i++)
		map_put(skel->maps.qp_free, &i, &(__u64){i});
	map_put(skel->maps.qp_pools, &(__u32){PORT_SLOT}, &(struct qp_pool){.tail = QP_POOL});
	return 0;
}

static inline int programs_close(void **state)
{
	(void)state;
	quench_bpf__destroy(skel);
	return 0;
}

#define prog_test(name) cmocka_unit_test_setup_teardown(name, programs_open, programs_close)

/* The pair that a CNP about the flow needs: its sender's QPN. */
static inline void pair_set(const struct flow_key *key)
{
	map_put(skel->maps.pairs, key, &(struct pair){.peer_qpn = QPN_SENDER, .source = PAIR_CM});
}

static inline struct pair pair_of(const struct flow_key *key)
{
	struct pair pair;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(skel->maps.pairs), key, &pair), 0);
	return pair;
}

/* The record of a flow that is there. */
static inline struct flow flow_of(const struct flow_key *key)
{
	struct flow flow;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(skel->maps.flows), key, &flow), 0);
	return flow;
}

/* A flow that something is to be counted for. */
static inline void flow_set(const struct flow_key *key)
{
	map_put(skel->maps.flows, key, &(struct flow){.packets = 1});
}

static inline void assert_stats(const char *what, struct port_stats want)
{
	struct port_stats have = stats_sum(skel->maps.port_stats, PORT_SLOT);

	stats_assert_equal(what, &have, &want);
}

static inline void clear_stats(void)
{
	size_t bytes = libbpf_num_possible_cpus() * sizeof(struct port_stats);
	struct port_stats *zero = calloc(1, bytes);

	map_put(skel->maps.port_stats, &(__u32){PORT_SLOT}, zero);
	free(zero);
}

struct heard {
	struct event event[RING_BYTES / sizeof(struct event)];
	size_t count;
};

static inline int hear_event(void *arg, void *data, size_t bytes)
{
	struct heard *heard = arg;

	assert_int_equal(bytes, sizeof(struct event));
	assert_true(heard->count < COUNT(heard->event));
	heard->event[heard->count++] = *(const struct event *)data;
	return 0;
}

/* All events that wait in the ring. */
static inline void hear_all(struct heard *heard)
{
	struct ring_buffer *ring;
	int consumed;

	memset(heard, 0, sizeof(*heard));
	ring = ring_buffer__new(bpf_map__fd(skel->maps.events), hear_event, heard, NULL);
	assert_non_null(ring);
	consumed = ring_buffer__consume(ring);
	assert_int_equal(consumed, heard->count);
	ring_buffer__free(ring);
}

/* An skb program's run: the context before and after, and the frame that came out. */
struct skb_run {
	struct __sk_buff in, out;
	int repeat;
	__s32 retval;
	struct frame frame;
};

/*
 * Run an skb program on a frame. What the kernel takes of the context (6.18, net/bpf/test_run.c,
 * convert___skb_to_skb): mark, priority, ingress_ifindex, ifindex, cb[], data_end (not used),
 * tstamp, wire_len (0, or the frame's length up to GSO_LEGACY_MAX_SIZE), gso_segs, gso_size,
 * hwtstamp. Every other field must be 0, tc_classid, tc_index, queue_mapping and the vlan_ ones
 * among them: a VLAN tag can only lie in the bytes here. It gives back mark, priority,
 * ingress_ifindex, ifindex, tstamp, cb[], wire_len, gso_segs and hwtstamp, but not tc_classid
 * (classid.bpf.c reads that). An ifindex of 0 or 1 is lo, another must be there; the frame must
 * fit into a page with the kernel's own needs, and lies in the skb's linear part.
 */
static inline void run_skb(
	const struct bpf_program *program, struct skb_run *run, const __u8 *data, size_t len)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = data, .data_size_in = len,
		.data_out = run->frame.room + ALIGN_BYTES,
		.data_size_out = sizeof(run->frame.room) - ALIGN_BYTES, .ctx_in = &run->in,
		.ctx_size_in = sizeof(run->in), .ctx_out = &run->out,
		.ctx_size_out = sizeof(run->out), .repeat = run->repeat);
	int code = bpf_prog_test_run_opts(bpf_program__fd(program), &opts);

	if (code)
		fail_msg("BPF_PROG_RUN: %s", strerror(-code));
	run->retval = opts.retval;
	run->frame.data = run->frame.room + ALIGN_BYTES;
	run->frame.len = opts.data_size_out;
}

static inline void assert_same_bytes(
	const char *what, const __u8 *have, size_t have_len, const __u8 *want, size_t want_len)
{
	size_t i;

	for (i = 0; i < want_len && i < have_len; i++)
		if (have[i] != want[i])
			fail_msg("%s: byte %zu is %02x, not %02x", what, i, have[i], want[i]);
	if (have_len != want_len)
		fail_msg("%s: %zu bytes, not %zu", what, have_len, want_len);
}

#endif
