/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is in a capture: takes frame after frame, keeps flows, QP pairs, pauses and counts in
 * bounded memory, and says at the end what a reader should know. Pure: no I/O, no clock.
 */
#ifndef QUENCH_ANALYZE_H
#define QUENCH_ANALYZE_H

#include "analyze/finding.h"
#include "analyze/flow.h"
#include "analyze/frame.h"
#include "analyze/icrc.h"
#include "analyze/pause.h"
#include "analyze/series.h"
#include "analyze/table.h"
#include "control/pairs.h"
#include "quench/abi.h"
#include "quench/wire_iwarp.h"

/* What is kept at most, some 50 MB; frames beyond are counted, in no flow, and in `missed`. */
enum {
	ANALYZE_FLOWS_MAX = 65536,
	ANALYZE_HOSTS_MAX = 16384, /* one-way conversations between two addresses, or two MACs */
	ANALYZE_IWARP_MAX = 16384, /* directions of TCP connections that speak MPA */
	ANALYZE_PAUSERS_MAX = 1024,
	ANALYZE_HANDSHAKES_MAX = 4096,
	ANALYZE_PAIRS_MAX = 16384,
	ANALYZE_RECENT_REQUESTS = 4096, /* a power of two */
	HOST_NONE = 0xffffffff,
};

/* What a policy says of frames. */
struct analyze_policy {
	struct conf conf;
	struct port_conf port; /* its PORT_TRUST_* flags */
	uint8_t lossy;	       /* bit n: class n is of kind lossy */
};

struct analyze_config {
	uint64_t secret;      /* for the hash tables: random, where input is not trusted */
	uint32_t flows_max;   /* 0: ANALYZE_FLOWS_MAX; the other tables are no larger */
	uint64_t speed_bps;   /* of the link, for the length of pauses; 0: not known */
	uint64_t interval_ns; /* of the time series, up to SERIES_INTERVAL_MAX_NS; 0: none */
	series_emit emit;     /* where its rows go */
	void *emit_arg;
	const struct analyze_policy *policy;   /* NULL: none to hold the traffic against */
	const struct wire_ports *ports;	       /* NULL: those that standards give */
	uint16_t iwarp_ports[IWARP_PORTS_MAX]; /* TCP, that are iWARP however they begin; 0: none */
};

/* CM messages by attribute (IBTA vol. 1, 12.6). The names are those of the JSON keys. */
#define CM_MESSAGES(X)                                                                             \
	X(0x10, "req")                                                                             \
	X(0x11, "mra")                                                                             \
	X(0x12, "rej")                                                                             \
	X(0x13, "rep")                                                                             \
	X(0x14, "rtu")                                                                             \
	X(0x15, "dreq")                                                                            \
	X(0x16, "drep")                                                                            \
	X(0x17, "sidr_req")                                                                        \
	X(0x18, "sidr_rep")                                                                        \
	X(0x19, "lap")                                                                             \
	X(0x1a, "apr")

enum { CM_ATTRIBUTE_FIRST = CM_REQ, CM_MESSAGE_COUNT = 11 };
const char *analyze_cm_name(uint32_t message);

/* Everything that went from one address to another: an entry of a table. */
struct analyze_host {
	__be32 src[4], dst[4]; /* the key */
	uint64_t packets, cnps;
	uint64_t nak_ns; /* when the last NAK went by, RNR included */
};

/* Two MAC addresses, the lower first, and the RoCE versions between them. */
struct analyze_link_pair {
	uint8_t mac[16];   /* the key: two addresses and four zeros */
	uint64_t frame[2]; /* the first of RoCEv1 and of RoCEv2; 0: none */
};

/* One direction of a TCP connection that speaks iWARP: an entry of a table. */
struct analyze_iwarp {
	struct flow_key key; /* the ports in place of the QPN */
	uint32_t first_seq;  /* behind the start frame, with start: markers count from there */
	uint64_t packets;
	uint64_t bytes; /* of the frames */
	uint64_t opcodes[RDMAP_OPCODE_COUNT];
	struct wire_mpa_terms terms; /* of the start frame that came this way, with start */
	uint8_t start;		     /* enum wire_mpa: which that was; MPA_NONE: it was not seen */
	uint8_t has_markers;	     /* the other side asked for them */
};
_Static_assert(sizeof(struct analyze_iwarp) % 8 == 0, "an entry of a table");

/* A request that waits to be answered, to learn QP pairs from answers. */
struct recent_request {
	uint32_t flow; /* index + 1; 0: empty */
	uint32_t psn;
};

struct analyze {
	uint64_t frames, bytes; /* all of them, as they were on the wire */
	uint64_t first_ns, last_ns;
	uint64_t kinds[WIRE_KIND_COUNT];
	uint64_t tunnels[TUNNEL_END];
	uint64_t icrc[ICRC_VERDICT_COUNT];
	uint64_t cut;	 /* frames that the capture cut short */
	uint64_t missed; /* frames that belong to no flow for want of room */
	uint64_t cm[CM_MESSAGE_COUNT];
	struct evidence evidence[FINDING_COUNT];
	struct table flows;		 /* struct analyze_flow */
	struct table hosts;		 /* struct analyze_host */
	struct analyze_host other_hosts; /* those without room */
	struct table macs;		 /* struct analyze_link_pair */
	struct table iwarp;		 /* struct analyze_iwarp */
	struct table pausers;		 /* struct pauser */
	struct pairs *pairs;
	struct recent_request *recent;
	const struct analyze_policy *policy; /* the caller's, or NULL */
	struct wire_ports ports;
	uint16_t iwarp_ports[IWARP_PORTS_MAX];
	uint64_t quantum_ps;
	struct series series;
};

/* What one frame was. */
struct analyze_seen {
	struct wire_frame wire;
	enum icrc_verdict icrc;
};

/* NULL without memory. Free with analyze_free (NULL is allowed). */
struct analyze *analyze_new(const struct analyze_config *config);
void analyze_free(struct analyze *a);

/* Take in one frame, whatever it holds; *seen says what it was. Never fails. */
void analyze_take(struct analyze *a, const struct analyze_frame *frame, struct analyze_seen *seen);

/* The capture itself lost frames. */
void analyze_lost(struct analyze *a, uint64_t frames);

/* No more frames: complete the flows and judge what takes the whole capture. Once. */
void analyze_finish(struct analyze *a);

/* The flow that is its other direction, or NULL. */
struct analyze_flow *analyze_reverse(const struct analyze *a, const struct analyze_flow *flow);

/* What went between the flow's addresses, and the other way: NULL when nothing did. */
struct analyze_host *analyze_host(struct analyze *a, const struct analyze_flow *flow);
const struct analyze_host *analyze_host_back(
	const struct analyze *a, const struct analyze_flow *flow);

static inline struct analyze_flow *analyze_flow_at(const struct analyze *a, uint32_t i)
{
	return table_at(&a->flows, i);
}

/* Count one for a finding, with its frame and its flow (NULL: none). */
void analyze_note(struct analyze *a, enum finding_id id, uint64_t frame, struct analyze_flow *flow);

/* A finding's text with its numbers and its flow; "" when there is nothing to find. */
void analyze_finding_text(const struct analyze *a, enum finding_id id, char *buf, size_t size);

enum { ANALYZE_ADDRESS_BYTES = 46, ANALYZE_TEXT_BYTES = 768 };

/* An address of a flow key as people write it. */
const char *analyze_address(const __be32 addr[4], char buf[ANALYZE_ADDRESS_BYTES]);

/* The names of a frame kind and of a tunnel. */
const char *analyze_kind_name(uint32_t kind);
const char *analyze_tunnel_name(uint32_t tunnel);

#endif
