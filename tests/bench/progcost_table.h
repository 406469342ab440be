/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The figures of progcost: which program, which frame, and what each such frame must leave behind.
 * A kernel that runs a program many times gives it each time what it made of the frame the time
 * before. Where that would be another case, a walker (prog_walk.bpf.c) makes every frame anew.
 */
#ifndef PROGCOST_TABLE_H
#define PROGCOST_TABLE_H

#include "prog/prog.h"

enum {
	FRAMES = 200000, /* of one call */
	TABLE = 1 << 20, /* flows_max of every flow table: the largest that policy allows */
	NEW_FLOWS = 50000,
	RING_FRAMES = 1400, /* whose events fit into the half of the ring that is for CNPs */
	RING_CALLS = 5,

	QPN_TABLE = 0x10,      /* and up: flows that are in the tables */
	QPN_SINGLE = 0x200000, /* those of one frame each */
	QPN_NEW = 0x300000,
	QPN_PEER = 0x400000,

	ROCE_CLASS = 3,
	SLOTS = 3,
	SLOT_MEASURED = 1,
	SLOT_INGRESS = 2,
	QPS = 2, /* that there is room for: one has the only class, the other none */
	QP_POOL = 1,
	QUEUES = 1 + SLOTS + QP_POOL, /* that the programs know: a gate and its leaves */
	WAITING_FRAMES = 5,	      /* in the measured port's queue */
	WAITING_BYTES = 1500,
	DEPTH_BYTES = WAITING_FRAMES * WAITING_BYTES,
	MARK_ABOVE_BYTES = 100000, /* kmin and kmax, unless the frame is to be marked */
	LIMIT_BYTES = 1 << 20,
	DATA_BYTES = 1000, /* of payload */

	VERDICT_DROP = 1, /* XDP_DROP, XDP_PASS */
	VERDICT_PASS = 2,
};

static const __u64 an_hour_ns = 3600000000000;

/* DSCP 26, but for CNPs. */
enum { TOS_ECT0 = 0x6a, TOS_CE = 0x6b, TOS_CNP = 0xc0 };

enum sample {
	DATA,
	DATA_IPV6,
	DATA_CE,
	DATA_ELSEWHERE,
	DATA_AGAIN,
	DATA_OF_QP,
	DATA_OF_SHARED_QP,
	DATA_OF_REFUSED_QP,
	DATA_OF_TABLE,
	DATA_OF_NEW_FLOW,
	SHORT_CE, /* as long as the CNP about it */
	SHORT_CE_IPV6,
	ACK,
	CNP,
	PFC,
	TCP,
	SAMPLES
};

#define DATA_SPEC(...)                                                                             \
	{                                                                                          \
		.opcode = OP_RC_WRITE_MIDDLE, .tos = TOS_ECT0, __VA_ARGS__                         \
	}

static const struct frame_spec specs[SAMPLES] = {
	[DATA] = DATA_SPEC(.payload_bytes = DATA_BYTES),
	[DATA_IPV6] = DATA_SPEC(.payload_bytes = DATA_BYTES, .l3 = L3_IPV6),
	[DATA_CE] = {.opcode = OP_RC_WRITE_MIDDLE, .tos = TOS_CE, .payload_bytes = DATA_BYTES},
	[DATA_ELSEWHERE] = DATA_SPEC(.payload_bytes = DATA_BYTES),
	[DATA_AGAIN] = DATA_SPEC(.payload_bytes = DATA_BYTES),
	[DATA_OF_QP] = DATA_SPEC(.payload_bytes = DATA_BYTES),
	[DATA_OF_SHARED_QP] = DATA_SPEC(.payload_bytes = DATA_BYTES),
	[DATA_OF_REFUSED_QP] = DATA_SPEC(.payload_bytes = DATA_BYTES),
	[DATA_OF_TABLE] = DATA_SPEC(.payload_bytes = DATA_BYTES, .qpn = QPN_TABLE),
	[DATA_OF_NEW_FLOW] = DATA_SPEC(.payload_bytes = DATA_BYTES, .qpn = QPN_NEW),
	[SHORT_CE] = {.opcode = OP_RC_WRITE_ONLY,
		.tos = TOS_CE,
		.payload_bytes = CNP_PAYLOAD_BYTES},
	[SHORT_CE_IPV6] = {.opcode = OP_RC_WRITE_ONLY,
		.tos = TOS_CE,
		.payload_bytes = CNP_PAYLOAD_BYTES,
		.l3 = L3_IPV6},
	[ACK] = {.opcode = OP_RC_ACK, .tos = TOS_ECT0},
	[CNP] = {.opcode = OP_CNP, .tos = TOS_CNP, .payload_bytes = CNP_PAYLOAD_BYTES},
};

/* Those that are not RoCE, by their names in tests/vectors/frames.txt. */
static const char *const vectors[SAMPLES] = {[PFC] = "uts_pfc", [TCP] = "v4_tcp"};

/* Objects with a flow table are there once for each count of flows in it. */
enum { FLOWS_10, FLOWS_1K, FLOWS_100K, FLOWS_1M, COUNTS };
enum object { EMPTY, FILTER, MINIMAL, QUENCH = MINIMAL + COUNTS, OBJECTS = QUENCH + COUNTS };

/* A program, a frame, and what each such frame must leave behind. */
struct bench {
	const char *key;
	int object;
	const char *program;
	enum sample sample;
	int verdict;

	__u32 flows;	/* that a walker makes the frames of, in turn; 0: no walker */
	bool unknown;	/* before each call */
	bool elsewhere; /* another CPU has seen the flow first */
	__u32 mark;	/* of the skb that the walker hands on */

	__u32 port_flags;
	bool local; /* the frame came in by no port */
	bool deep;  /* the queue is above kmax, and above XOFF: the peer is paused */

	struct port_stats stats; /* added by each frame */
	const char *map;	 /* of the flow's record: here, after a walk, one packet each */
	struct flow record;	 /* added by each frame of a call without a walk */
	__u32 priority;		 /* of the skb behind the program */

	int frames, calls; /* FRAMES and 1 */
	int events;	   /* sent by each frame; they are read after each call */

	struct {
		__u32 flow, frames, lap;
	} walked; /* how far the walker has got */
};

#define BENCH(a_key, a_object, a_program, a_sample, a_verdict, ...)                                \
	{                                                                                          \
		.key = a_key, .object = a_object, .program = a_program, .sample = a_sample,        \
		.verdict = a_verdict, __VA_ARGS__                                                  \
	}
#define XDP_PASSES(key, sample, ...)                                                               \
	BENCH(key, QUENCH, "quench_xdp", sample, VERDICT_PASS, __VA_ARGS__)
#define TC_PASSES(key, program, sample, ...)                                                       \
	BENCH(key, QUENCH, program, sample, ACT_NEXT, __VA_ARGS__)
#define ROOT(key, sample, ...) BENCH(key, QUENCH, "quench_root", sample, ACT_OK, __VA_ARGS__)

/* Each frame is of the next flow of the map, which has so many. */
#define WALK(a_map, a_flows) .map = a_map, .flows = (a_flows)
#define RECORD(...)	     .map = "flows", .record = {__VA_ARGS__}
#define STATS(kind, ...)     .stats = {.frames[kind] = 1, __VA_ARGS__}
#define ROCE(...)	     STATS(WIRE_ROCEV2, .roce_class[ROCE_CLASS] = 1, __VA_ARGS__)
#define LEAF(minor)	     .priority = TREE_CLASS(TREE_INNER + ROCE_CLASS, minor)

/* Each frame is of another flow of a table that has so many. */
#define MINIMAL_TABLE(key, count, flows)                                                           \
	BENCH(key, MINIMAL + (count), "minimal", DATA_OF_TABLE, VERDICT_PASS, WALK("flows", flows))
#define XDP_TABLE(key, count, flows)                                                               \
	BENCH(key, QUENCH + (count), "quench_xdp", DATA_OF_TABLE, VERDICT_PASS,                    \
		WALK("flows", flows), ROCE())

/* xdp-filter passes what is for port 4791, and drops the rest. */
static struct bench benches[] = {
	BENCH("xdp_empty", EMPTY, "empty_xdp", DATA, VERDICT_PASS),
	BENCH("tc_empty", EMPTY, "empty_tc", DATA, ACT_NEXT),
	BENCH("filter_data", FILTER, "xdpfilt_dny_udp", DATA, VERDICT_PASS),
	BENCH("filter_tcp", FILTER, "xdpfilt_dny_udp", TCP, VERDICT_DROP),
	BENCH("minimal_data", MINIMAL, "minimal", DATA, VERDICT_PASS, WALK("flows", 1)),

	XDP_PASSES("xdp_data", DATA, WALK("flows", 1), ROCE()),
	XDP_PASSES("xdp_data_ipv6", DATA_IPV6, WALK("flows", 1), ROCE()),
	XDP_PASSES("xdp_data_ce", DATA_CE, WALK("flows", 1), ROCE(.ce_received = 1)),
	XDP_PASSES(
		"xdp_data_elsewhere", DATA_ELSEWHERE, WALK("flows", 1), .elsewhere = true, ROCE()),
	XDP_PASSES(
		"xdp_data_again", DATA_AGAIN, RECORD(.packets = 1, .retransmissions = 1), ROCE()),
	XDP_PASSES("xdp_data_new_flow", DATA_OF_NEW_FLOW, WALK("flows", NEW_FLOWS), .unknown = true,
		.frames = NEW_FLOWS, ROCE()),
	BENCH("xdp_data_table_full", QUENCH + FLOWS_1M, "quench_xdp", DATA_OF_NEW_FLOW,
		VERDICT_PASS, ROCE(.flows_full = 1)),
	XDP_PASSES("xdp_ack", ACK, RECORD(.packets = 1), ROCE()),
	XDP_PASSES("xdp_cnp", CNP, RECORD(.cnp = 1), STATS(WIRE_CNP, .cnp_received = 1)),
	XDP_PASSES("xdp_cnp_event", CNP, RECORD(.cnp = 1), STATS(WIRE_CNP, .cnp_received = 1),
		.port_flags = PORT_REACTION, .events = 1, .frames = RING_FRAMES,
		.calls = RING_CALLS),
	BENCH("xdp_pfc", QUENCH, "quench_xdp", PFC, VERDICT_DROP, .port_flags = PORT_ENDS_PAUSE,
		STATS(WIRE_PFC, .drops[PORT_DROP_PAUSE] = 1, .xoff_received[0] = 1,
			.xoff_received[5] = 1, .pause_ignored[PAUSE_IGNORED_NOT_ENABLED] = 2)),
	XDP_PASSES("xdp_tcp", TCP, STATS(WIRE_OTHER)),

	MINIMAL_TABLE("minimal_10", FLOWS_10, 10),
	MINIMAL_TABLE("minimal_1k", FLOWS_1K, 1000),
	MINIMAL_TABLE("minimal_100k", FLOWS_100K, 100000),
	MINIMAL_TABLE("minimal_1m", FLOWS_1M, TABLE),
	XDP_TABLE("xdp_10", FLOWS_10, 10),
	XDP_TABLE("xdp_1k", FLOWS_1K, 1000),
	XDP_TABLE("xdp_100k", FLOWS_100K, 100000),
	XDP_TABLE("xdp_1m", FLOWS_1M, TABLE),

	ROOT("root_data", DATA, LEAF(MINOR_SLOT + SLOT_INGRESS), .port_flags = PORT_MARKS),
	ROOT("root_data_ipv6", DATA_IPV6, LEAF(MINOR_SLOT + SLOT_INGRESS),
		.port_flags = PORT_MARKS),
	ROOT("root_mark", DATA, LEAF(MINOR_SLOT + SLOT_INGRESS), .port_flags = PORT_MARKS,
		.flows = 1, .deep = true, .stats = {.ce_marked = 1}),
	ROOT("root_qp", DATA_OF_QP, LEAF(MINOR_QP), .port_flags = PORT_MARKS | PORT_REACTION,
		WALK("qps", 1), .local = true),
	ROOT("root_qp_shared", DATA_OF_SHARED_QP, LEAF(MINOR_SLOT + SLOT_LOCAL),
		.port_flags = PORT_MARKS | PORT_REACTION, WALK("qps", 1), .local = true,
		.stats = {.qp_unenforced = 1}),
	ROOT("root_qp_refused", DATA_OF_REFUSED_QP, LEAF(MINOR_SLOT + SLOT_LOCAL),
		.port_flags = PORT_MARKS | PORT_REACTION, .local = true,
		.stats = {.flows_full = 1}),
	ROOT("root_ack", ACK, LEAF(MINOR_SLOT + SLOT_INGRESS), .port_flags = PORT_MARKS),
	ROOT("root_cnp", CNP, .port_flags = PORT_MARKS),
	ROOT("root_tcp", TCP, .port_flags = PORT_MARKS),

	TC_PASSES("egress_data", "quench_tc_egress", DATA, .port_flags = PORT_MARKS),
	TC_PASSES("egress_morph", "quench_tc_egress", SHORT_CE, .flows = 1, .mark = CLONE_CNP_BACK,
		.stats = {.cnp_sent = 1}),
	TC_PASSES("egress_morph_ipv6", "quench_tc_egress", SHORT_CE_IPV6, .flows = 1,
		.mark = CLONE_CNP_BACK, .stats = {.cnp_sent = 1}),
	TC_PASSES("notify_data", "quench_tc_ahead", DATA, .port_flags = PORT_NOTIFY_EGRESS),
	TC_PASSES("notify_mark", "quench_tc_ahead", DATA, .port_flags = PORT_NOTIFY_EGRESS,
		.flows = 1, .deep = true,
		.stats = {.ce_marked = 1, .cnp_suppressed[CNP_SUPPRESSED_INTERVAL] = 1}),
	TC_PASSES("pauses_data", "quench_tc_ahead", DATA, .port_flags = PORT_PAUSES),
	TC_PASSES("pauses_data_over", "quench_tc_ahead", DATA, .port_flags = PORT_PAUSES,
		.deep = true),
	TC_PASSES("pauses_tcp", "quench_tc_ahead", TCP, .port_flags = PORT_PAUSES),
	TC_PASSES("notify_tcp", "quench_tc_ahead", TCP, .port_flags = PORT_NOTIFY_EGRESS),
	TC_PASSES("ingress_data", "quench_tc_ingress", DATA,
		.port_flags = PORT_NOTIFY_INGRESS | PORT_ARMED),
	TC_PASSES("ingress_ce", "quench_tc_ingress", DATA_CE,
		.port_flags = PORT_NOTIFY_INGRESS | PORT_ARMED,
		.stats = {.cnp_suppressed[CNP_SUPPRESSED_INTERVAL] = 1}),
};

static inline bool is_quench(const struct bench *b)
{
	return b->object >= QUENCH;
}

#endif
