/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the BPF programs and the agent agree on: map keys and values, events, configuration, and
 * the names (handles, class ids, slots) of everything in a port's queue tree. From the first
 * release on, a change to any layout here raises ABI_VERSION, which is part of the pin path.
 */
#ifndef QUENCH_ABI_H
#define QUENCH_ABI_H

#include "quench/wire_cm.h"
#include "quench/wire_iwarp.h"

enum {
	ABI_VERSION = 1,

	CLASSES_MAX = 8,
	SLOTS_MAX = 64, /* slot 0: frames that this machine made, or whose port is unknown */
	SLOT_LOCAL = 0,
	QP_CLASSES_MAX = 4096, /* in one port's pool */
	CLASS_NONE = 0xff,
	IWARP_PORTS_MAX = 4,
	PRIORITIES = 8,
	NAK_CODES = 5, /* AETH_NAK_PSN_SEQUENCE to AETH_NAK_INVALID_RD_REQUEST */
};

/*
 * The queue tree of a port. Majors are qdisc handles; minors are HTB classes of the parent.
 *
 *     HTB TREE_ROOT  (the port's rate)
 *       1 port ─┬─ 0x10+c priority class c ─ TBF TREE_GATE+c ─ 1 ─ HTB TREE_INNER+c
 *               │                                ├─ 1+slot      bfifo per ingress port
 *               │                                └─ 0x1000+k    bfifo per QP class k
 *               ├─ 0x20 control (CNPs)           bfifo
 *               └─ 0x30 best effort, the default bfifo
 *       0x31 sink, not under the port: a queue that holds nothing
 */
enum {
	TREE_ROOT = 0x9000,
	TREE_GATE = 0x9010,  /* + class */
	TREE_INNER = 0x9020, /* + class */
	TREE_CONTROL_LEAF = 0x9030,
	TREE_DEFAULT_LEAF = 0x9031,
	TREE_SINK_LEAF = 0x9032,
	TREE_SLOT_LEAF = 0xa000, /* + class * SLOTS_MAX + ingress slot */
	TREE_QP_LEAF = 0xb000,	 /* + QP class */
	TREE_END = 0xc000,	 /* no handle of ours from here on */

	MINOR_PORT = 0x1,
	MINOR_PRIORITY = 0x10, /* + class */
	MINOR_CONTROL = 0x20,
	MINOR_DEFAULT = 0x30,
	MINOR_SINK = 0x31,
	MINOR_GATE_CHILD = 0x1, /* TBF's only class */
	MINOR_SLOT = 0x1,	/* + ingress slot */
	MINOR_QP = 0x1000,	/* + QP class */
};

#define TREE_HANDLE(major)	 ((__u32)(major) << 16)
#define TREE_CLASS(major, minor) (TREE_HANDLE(major) | (__u32)(minor))

/* What a port does; port_conf.flags. */
enum {
	PORT_NOTIFY_INGRESS = 1 << 0, /* a CE frame that arrives here for this host earns a CNP */
	PORT_NOTIFY_EGRESS =
		1 << 1, /* a CE frame that leaves here earns a CNP; marks before it queues */
	PORT_REACTION = 1 << 2,	  /* QP classes; received CNPs go to the fast thread */
	PORT_ARMED = 1 << 3,	  /* the egress hook that rewrites clones is in place */
	PORT_MARKS = 1 << 4,	  /* ECN marking by depth */
	PORT_ENDS_PAUSE = 1 << 5, /* pause frames end here: a port that only looks lets them pass */
	PORT_TRUST_DSCP = 1 << 6,
	PORT_TRUST_PCP = 1 << 7,
	PORT_PCP_FIRST = 1 << 8, /* of frames that have both; otherwise the DSCP decides */
	PORT_PAUSES = 1 << 9,	 /* a queue here that fills pauses the port it fills from */
};

struct class_conf {
	__u32 kmin_bytes, kmax_bytes;
	__u64 slope; /* marking probability per byte above kmin, in units of 2^-48 */
	__u32 limit_bytes;
	__u8 priority;
	__u8 ecn;	   /* 1: mark */
	__u8 unicast_only; /* 1: broadcast and multicast frames are best effort instead */
	__u8 zero;
	__u32 xoff_bytes; /* of one ingress port's leaf; 0: the class sends no PFC */
	__u32 xon_bytes;
};
_Static_assert(sizeof(struct class_conf) == 32, "class_conf");

/* One for the instance; written by the agent, read by every program. */
struct conf {
	__u64 now_ns; /* CLOCK_MONOTONIC when the agent last looked: every ten seconds */
	__u64 cnp_interval_ns;
	__u64 cnp_echo_ns; /* a CNP about a flow this long after ours says nothing new; 0: it does
			    */
	__u32 pfc_budget_per_s; /* PFC frames that a port sends in a second at most */
	__u32 slots;		/* ports + 1 */
	__u8 cnp_tos;
	__u8 cnp_pcp; /* in the VLAN tag of a CNP about a tagged frame */
	__u8 polls;   /* 1: the fast thread does not sleep, so nobody has to wake it */
	__u8 zero[5];
	struct wire_ports udp_ports;
	__be16 iwarp_ports[IWARP_PORTS_MAX]; /* TCP; 0: none */
	__u32 zero2;
	__u8 dscp_class[64]; /* class of each DSCP, or CLASS_NONE */
	__u8 pcp_class[8];   /* of each VLAN priority, or CLASS_NONE */
	struct class_conf classes[CLASSES_MAX];
};
_Static_assert(sizeof(struct conf) == 392, "conf");

/*
 * skb->mark of a clone of ours, and of nothing else: the whole value says what it is to become. A
 * frame that carries somebody else's mark is never taken for one.
 */
enum clone_mark {
	CLONE_NONE,
	CLONE_CNP_BACK = 0x71554e01,   /* a CNP that goes back the way the frame came */
	CLONE_CNP_ROUTED = 0x71554e02, /* a CNP that is routed */
	CLONE_PFC = 0x71554e03,	       /* a PFC frame of the port that it leaves by */
};

static inline bool clone_is_marked(__u32 mark)
{
	return mark >= CLONE_CNP_BACK && mark <= CLONE_PFC;
}

struct port_conf { /* map ports, by slot */
	__u32 slot;
	__u32 flags;
	__u32 refs_base;     /* this port's first entry of qdisc_refs */
	__u32 qp_base;	     /* this port's first entry of qp_classes and qp_free */
	__u32 qp_count;	     /* size of its pool; 0: none */
	__u32 generation;    /* a new one makes the egress program look for the qdiscs again */
	__u8 reaction_class; /* the class whose QPs are limited */
	__u8 mac[6];
	__u8 obeyed;	    /* bit n: the peer may pause priority n */
	__u32 quantum_ps;   /* 512 bit times of the link, which pauses are counted in */
	__u32 byte_ps;	    /* the time of a byte at the port's rate */
	__u16 pause_quanta; /* of an XOFF that leaves here */
	__u8 pausing;	    /* bit c: class c may pause the peer */
	__u8 zero[5];
};
_Static_assert(sizeof(struct port_conf) == 48, "port_conf");

/* Where the slot of an interface stands, unless another port's interface has the same place. */
enum { PORT_PLACES = 256 };
struct port_place {
	__u32 ifindex; /* 0: of none */
	__u32 slot;
};
_Static_assert(sizeof(struct port_place) == 8, "port_place");

static inline __u32 port_place(__u32 ifindex)
{
	return ifindex % PORT_PLACES;
}

/* A port's entries of qdisc_refs: gates, then ingress leaves, then QP leaves. */
static inline __u32 ref_gate(__u32 cls)
{
	return cls;
}

static inline __u32 ref_slot_leaf(__u32 cls, __u32 slots, __u32 slot)
{
	return CLASSES_MAX + cls * slots + slot;
}

static inline __u32 ref_qp_leaf(__u32 slots, __u32 qp_class)
{
	return CLASSES_MAX + CLASSES_MAX * slots + qp_class;
}

/* A qdisc of ours and what it must still look like to be believed. ptr 0: not found. */
struct qdisc_ref {
	__u64 ptr;
	__u64 dev_queue;
	__u32 handle;
	__u32 parent;
};
_Static_assert(sizeof(struct qdisc_ref) == 24, "qdisc_ref");

struct port_state {		/* by slot; written by the egress program */
	__u32 generation;	/* the one that the refs were found for; 0: look again */
	__u32 found;		/* qdiscs of ours seen by that walk */
	__u64 refused_position; /* as qp.position, of the last frame whose QP found no record */
	__u64 retry_ns;		/* no second walk before this */
	__u32 depth_max_bytes[CLASSES_MAX]; /* the deepest that a frame has found */
	__u32 leaf_max_bytes[CLASSES_MAX];  /* the same of one ingress port's leaf, its peer paused
					     */
};
_Static_assert(sizeof(struct port_state) == 88, "port_state");

/*
 * What a port and its peer have told each other about pausing (map pauses, by slot, shared memory
 * with the agent). Only the latest counts, so a flood of PFC frames is one event at a time.
 */
struct port_pauses {
	/* the peer's word, written as PFC frames arrive */
	__u64 until_ns[PRIORITIES]; /* CLOCK_MONOTONIC; in the past: go on */
	__u32 arrived; /* 1: an event says that there is news; the agent clears it, then looks */
	__u32 zero[15];
	__u64 xoffs[PRIORITIES]; /* frames that said pause, obeyed or not */
	/* ours, written as queues fill and drain */
	__u64 crossed_ns[CLASSES_MAX]; /* when the class last passed its XOFF mark */
	__u32 crossed_at[CLASSES_MAX]; /* on its way out by this slot */
	__u32 xoff;		       /* bit c: the peer is to pause class c */
	__u32 changed;		       /* 1: an event says so; the agent clears it, then looks */
	__u64 budget_second;	       /* CLOCK_MONOTONIC, in seconds */
	__u32 budget_used;	       /* PFC frames of that second */
	__u32 told;		       /* bit c: the last word to the peer was XOFF */
	__u64 zero3;
	/* of the egress side, written by the agent */
	__u32 closed;  /* bit c: the gate of class c is closed */
	__u32 stormed; /* bit c: the watchdog has taken class c out of PFC */
	__u32 dropped; /* bit c: and its frames are dropped */
	__u32 zero4[13];
};
_Static_assert(sizeof(struct port_pauses) == 384, "port_pauses");

/* What the agent counts about a gate, by slot and class; it outlives the agent (map gates). */
#define PAUSE_BUCKETS 16
struct gate_counters {
	/* the peer pauses us */
	__u64 pauses;	       /* times that the gate was closed */
	__u64 paused_ns;       /* of pauses that are over */
	__u64 paused_since_ns; /* of one that is still on; 0: open */
	__u64 escaped_bytes;   /* left a gate after it was closed */
	__u64 kicks_lost;      /* times that an open gate had to be kicked again */
	__u64 reaction_ns;     /* sum of those below */
	/* we pause the peer */
	__u64 xoff_ns;	     /* of XOFFs that are over */
	__u64 xoff_since_ns; /* of one that lasts; 0: none */
	/* the watchdog */
	__u64 storms;
	__u64 restores;
	__u64 zero[6];
	__u64 lengths[PAUSE_BUCKETS];	/* pauses by length: up to 10 us times 2^n, then longer */
	__u64 reactions[PAUSE_BUCKETS]; /* closings by reaction: up to 1 us times 2^n */
};
_Static_assert(sizeof(struct gate_counters) == 384, "gate_counters");

/* What quench_pause_look is run with. */
struct pause_look_args {
	__u32 slot;
};

static inline __u32 gate_index(__u32 slot, __u32 cls)
{
	return slot * CLASSES_MAX + cls;
}

/* Why a CNP that was due was not sent. */
#define CNP_SUPPRESSED(X)                                                                          \
	X(INTERVAL, "interval")		/* one went out less than an interval ago */               \
	X(UNKNOWN_PAIR, "unknown_pair") /* the sender's QPN is not known */                        \
	X(NOT_ARMED, "not_armed")	/* the port it would leave by cannot make CNPs */          \
	X(CLONE, "clone_failed")	/* no memory, or the port is down */                       \
	X(NO_ROUTE, "no_route")		/* no neighbour toward the sender */                       \
	X(MORPH, "morph_failed")	/* the clone could not be rewritten */

enum cnp_suppressed {
#define X(id, name) CNP_SUPPRESSED_##id,
	CNP_SUPPRESSED(X)
#undef X
		CNP_SUPPRESSED_COUNT
};

/* Why a PFC frame, or a part of one, had no effect; MAC control of other kinds are frames[]. */
#define PAUSE_IGNORED(X)                                                                           \
	X(NOT_ENABLED, "not_enabled") /* a priority that policy does not obey */                   \
	X(EMPTY, "empty")	      /* no priority is enabled in it */

enum pause_ignored {
#define X(id, name) PAUSE_IGNORED_##id,
	PAUSE_IGNORED(X)
#undef X
		PAUSE_IGNORED_COUNT
};

/* Why an XOFF that was due was not sent. */
#define PAUSE_SUPPRESSED(X)                                                                        \
	X(BUDGET, "budget")	  /* the port has sent its share for this second */                \
	X(NOT_ARMED, "not_armed") /* the port it would leave by cannot make PFC frames */          \
	X(CLONE, "clone_failed")  /* no memory, or the port is down */                             \
	X(STORM, "storm")	  /* the class is out of PFC: pausing would spread a storm */

enum pause_suppressed {
#define X(id, name) PAUSE_SUPPRESSED_##id,
	PAUSE_SUPPRESSED(X)
#undef X
		PAUSE_SUPPRESSED_COUNT
};

/* Frames that a program of ours dropped. */
#define PORT_DROPS(X)                                                                              \
	X(LIMIT, "class_limit")	      /* the class held its limit */                               \
	X(STORM, "storm")	      /* the class is in a pause storm */                          \
	X(STRAY_CLONE, "stray_clone") /* a clone that nothing rewrote */                           \
	X(MORPH, "morph_failed")      /* a clone that could not be rewritten */                    \
	X(CNP, "cnp_echo")	      /* a receiver's CNP about what ours has told already */      \
	X(PAUSE, "pause_consumed")    /* MAC control frames end at the port */

enum port_drop {
#define X(id, name) PORT_DROP_##id,
	PORT_DROPS(X)
#undef X
		PORT_DROP_COUNT
};

struct port_stats { /* by slot, per CPU */
	__u64 frames[WIRE_KIND_COUNT];
	__u64 tunnels[TUNNEL_COUNT]; /* RoCE frames in a tunnel, by its kind - 1 */
	__u64 headers_far;	     /* frames whose headers lay beyond the linear part */
	__u64 trust_disagrees;	     /* RoCE frames whose DSCP and PCP mean different classes */
	__u64 roce_class[CLASSES_MAX + 1]; /* RoCE frames by class; the last: of none */
	__u64 ce_received;
	__u64 ce_inside; /* RoCE frames in a tunnel that carry CE themselves */
	__u64 ce_marked;
	__u64 cnp_sent;
	__u64 cnp_received;
	__u64 cnp_unknown_pair; /* received, but for a QP that is not known */
	__u64 cnp_suppressed[CNP_SUPPRESSED_COUNT];
	__u64 drops[PORT_DROP_COUNT];
	__u64 depth_unknown;		 /* frames let through with no depth to judge by */
	__u64 flows_full;		 /* frames of flows that found no place in the table */
	__u64 qp_moves;			 /* times that a QP's frames changed to another leaf */
	__u64 qp_unenforced;		 /* data frames of QPs that ride in the shared leaf */
	__u64 ring_drops;		 /* events lost because the ring was full */
	__u64 xoff_received[PRIORITIES]; /* PFC frames that say pause, obeyed or not */
	__u64 xon_received[PRIORITIES];	 /* that say go on */
	__u64 xoff_sent[PRIORITIES];
	__u64 xon_sent[PRIORITIES];
	__u64 pause_ignored[PAUSE_IGNORED_COUNT];
	__u64 pause_suppressed[PAUSE_SUPPRESSED_COUNT];
	__u64 kept_out; /* broadcast and multicast frames kept out of a lossless class */
};

/*
 * A flow: everything from one source to one destination QP. Counts never go back. Mostly one CPU
 * sees all its frames and counts them alone; those that others see are counted apart, atomically.
 */
struct flow {
	__u64 packets; /* of CPU `cpu`; see flow_packets() */
	__u64 bytes;   /* of the IP packet or GRH: ICRC counted, Ethernet and its padding not */
	__u64 last_ns; /* CLOCK_MONOTONIC: of the frame, or conf.now_ns */
	__u32 cpu;
	__u32 psn;	 /* the last request's */
	__u16 slot;	 /* the port it was last seen on */
	__u16 bytes_max; /* of one frame, as in bytes */
	__u8 psn_known;
	__u8 l3;
	__u8 tos;	 /* of the last frame */
	__u8 ecn_seen;	 /* bit n: ECN codepoint n */
	__u8 operations; /* bit n: enum wire_operation n */
	__u8 zero[3];
	__u32 rnr; /* RNR NAKs */
	__u64 packets_elsewhere;
	__u64 bytes_elsewhere;
	__u64 ce;
	__u64 nak;
	__u64 cnp;	       /* about this flow: made here, or come by for its sender */
	__u64 psn_gaps;	       /* requests whose PSN jumped ahead */
	__u64 retransmissions; /* requests whose PSN had been seen */
	__u32 naks[NAK_CODES]; /* of nak, those with each code */
	__u32 zero2;
};
_Static_assert(sizeof(struct flow) == 128, "flow");

static inline __u64 flow_packets(const struct flow *flow)
{
	return flow->packets + flow->packets_elsewhere;
}

static inline __u64 flow_bytes(const struct flow *flow)
{
	return flow->bytes + flow->bytes_elsewhere;
}

/*
 * One direction of a TCP connection that speaks iWARP (map iwarp, by flow_key, whose QPN is the two
 * ports). Of what MPA's start frames agreed on, it keeps what finding FPDUs takes.
 */
struct iwarp_way {
	__u64 packets;
	__u64 bytes;	  /* of whole frames */
	__u64 last_ns;	  /* conf.now_ns at the last frame */
	__u32 first_seq;  /* of its stream, behind its start frame */
	__u8 started;	  /* that one was seen */
	__u8 has_markers; /* the other side asked for them */
	__u16 zero;
	__u32 opcodes[RDMAP_OPCODE_COUNT]; /* segments that begin with an FPDU, by its opcode */
};
_Static_assert(sizeof(struct iwarp_way) == 80, "iwarp_way");

/* Where a QP's frames wait on a reaction-point port (map qps, by flow_key). */
struct qp {
	struct flow flow;
	__u64 position;	  /* shared leaf: bytes it will have sent once our last frame is out */
	__u32 leaf;	  /* QP class, or QP_SHARED_LEAF */
	__u32 generation; /* of that class when it was taken */
};
_Static_assert(sizeof(struct qp) == 144, "qp");
#define QP_SHARED_LEAF 0xffffffffu

/*
 * A class of a port's pool (map qp_classes, shared memory with the agent). The kernel takes it
 * from the ring qp_free under the root lock; the agent takes it back by raising the generation,
 * and returns it to the ring once its queue is empty.
 */
struct qp_class {
	struct flow_key owner;
	__u32 zero;
	__u64 last_ns;
	__u64 bytes; /* queued here so far, by all owners */
	__u32 generation;
	__u32 taken;
};
_Static_assert(sizeof(struct qp_class) == 64, "qp_class");

struct qp_pool { /* by slot, shared memory: head belongs to the kernel, tail to the agent */
	__u32 head;
	__u32 zero[15]; /* a cache line each */
	__u32 tail;
	__u32 zero2[15];
};
_Static_assert(sizeof(struct qp_pool) == 128, "qp_pool");

/* Who says so. */
enum pair_source { PAIR_CM = 1, PAIR_POLICY = 2, PAIR_ANSWERS = 3, PAIR_NETLINK = 4 };

/* The other end's QPN for a flow: who a CNP about it is for (map pairs, by flow_key). */
struct pair {
	__u64 last_cnp_ns; /* sent about this flow */
	__u32 peer_qpn;
	__u32 source; /* enum pair_source */
};
_Static_assert(sizeof(struct pair) == 16, "pair");

/* The QP that one host's request with this PSN went to (asked_map, by its flow_key with the PSN in
 * the place of the QPN). */
struct asked {
	__u64 time_ns;
	__u32 qpn; /* 0: to more than one, lately */
	__u32 zero;
};
_Static_assert(sizeof(struct asked) == 16, "asked");

/* What the agent counts, kept in a map so that it outlives the agent. */
struct agent_counters {
	__u64 cnps_handled;    /* CNPs that changed a rate */
	__u64 cnps_unenforced; /* CNPs for QPs that have no class of their own */
	__u64 cnps_too_soon;   /* CNPs ignored, for the QP had one just before */
	__u64 rate_changes;    /* sent to the kernel */
	__u64 netlink_errors;  /* of those, refused */
	__u64 starts;	       /* agents that have worked with these maps */
	__u32 qdisc_gone; /* set by the kernel when a qdisc of ours dies, cleared by the agent */
	__u32 zero;
};
_Static_assert(sizeof(struct agent_counters) == 56, "agent_counters");

/* Events, kernel to fast thread, through the ring. */
enum event_type {
	EVENT_CNP = 1,
	EVENT_CM = 2,
	EVENT_QDISC_GONE = 3,
	EVENT_PAUSE = 4,
	EVENT_ANSWER = 5
};

struct event {
	__u32 type;
	__u32 slot;
	__u64 time_ns;
	struct flow_key key; /* CNP: of the data flow that is to slow down; CM: of the message */
	struct wire_cm cm; /* CM; answer, to a QP whose pair is not known: the QPN and PSN asked */
};
_Static_assert(sizeof(struct event) == 72, "event");

#endif
