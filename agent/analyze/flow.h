/* SPDX-License-Identifier: BSD-2-Clause */
/* A flow's record: what went from one source to one destination QP, and how its PSNs ran. */
#ifndef QUENCH_ANALYZE_FLOW_H
#define QUENCH_ANALYZE_FLOW_H

#include <stdbool.h>

#include "analyze/finding.h"
#include "analyze/frame.h"
#include "quench/wire.h"

/* What the frame does for its user; the opcode must be a known one. */
enum wire_operation operation_of(uint8_t opcode);
const char *operation_name(enum wire_operation operation);

/* Does the frame carry data that a switch may mark or a link may lose in bulk? */
bool operation_is_data(enum wire_operation operation);

/* What a PSN tells when it is held against those seen before. */
enum psn_step {
	PSN_NEXT,    /* as it should be */
	PSN_JUMP,    /* ahead: PSNs are missing before it */
	PSN_LATE,    /* one of those that were missing */
	PSN_AGAIN,   /* seen before, or too far back to tell */
	PSN_RESTART, /* so far away that another connection must have begun */
};

enum {
	PSN_RECENT = 8,
	PSN_WINDOW = 1 << 16, /* no sender goes back or jumps further than this */
};

/* One run of PSNs: a flow's requests, or its READ responses. */
struct psn_run {
	uint64_t seen; /* bit i: the PSN i behind the furthest has been seen */
	uint64_t jump_ns;
	uint64_t late_frame; /* the first of those below */
	uint32_t late;	     /* frames that came late: overtaken or sent again is not yet clear */
	uint32_t furthest;
	uint32_t room; /* PSNs behind the furthest that belong to others: a READ's responses */
	uint8_t known;
	uint8_t open; /* a message has begun and not ended */
	uint16_t zero;
	struct { /* the latest frames, by PSN: to tell a copy from a retransmission */
		uint32_t icrc;
		uint32_t time_ns; /* the lower 32 bits */
	} recent[PSN_RECENT];
};

/* Take in one PSN. *missing is set to how many were left out; 0 but for PSN_JUMP. */
enum psn_step psn_take(struct psn_run *run, uint32_t psn, uint32_t *missing);

enum flow_pair_source { FLOW_PAIR_NONE, FLOW_PAIR_CM, FLOW_PAIR_ACK, FLOW_PAIR_SOURCE_COUNT };
const char *flow_pair_source_name(enum flow_pair_source source);

/* In one interval of the time series. */
struct flow_sample {
	uint64_t packets, bytes, ce, cnp;
};

struct analyze_flow {
	struct flow_key key;
	uint64_t first_ns, last_ns;
	uint64_t first_frame;
	uint64_t packets;
	uint64_t bytes; /* of the IP packets or from the GRH: ICRC counted, Ethernet not */
	uint64_t ce;
	uint64_t nak;	      /* sent by this flow's source, RNR apart */
	uint64_t cnp;	      /* about this flow; filled in by analyze_finish() */
	uint64_t cnp_carried; /* toward this flow's destination QP, about its own data */
	uint64_t cnp_last_ns, cnp_interval_min_ns;
	uint64_t psns_missing;
	uint64_t operations[OPERATION_COUNT];
	uint64_t data_ecn[4];	    /* data frames by ECN field, in a tunnel the inner one's */
	uint64_t data_ecn_frame[4]; /* the first of each */
	uint64_t outer_ecn[4];	    /* data frames in a tunnel by the outer header's */
	uint64_t unclassed_frame;   /* the first of data in no class of the policy; 0: none */
	uint64_t lossy_frame;	    /* in a class of kind lossy */
	uint64_t dscps;		    /* bit n: DSCP n was seen */
	uint32_t noted[FINDING_COUNT];
	uint32_t path_mtu_bytes; /* 0: no message of several frames was seen */
	uint32_t peer_qpn;
	uint32_t host;	     /* index in the table of hosts, or HOST_NONE */
	uint8_t pair_source; /* enum flow_pair_source */
	uint8_t versions;    /* bit l3: seen over that */
	uint8_t tunnels;     /* bit tunnel: seen in that */
	uint8_t in_series;
	uint8_t evidence; /* how often in a row the candidate below fitted */
	uint8_t reused;	  /* a second connection began on the QP */
	uint8_t started;
	uint8_t zero;
	uint32_t candidate;
	uint32_t candidate_psn;
	struct psn_run requests, responses;
	struct flow_sample sample;
};
_Static_assert(sizeof(struct analyze_flow) % 8 == 0, "an entry of a table");

/* The key of the flow the other way, whose destination is QP qpn of this flow's source. */
struct flow_key flow_reverse_key(const struct flow_key *key, uint32_t qpn);

#endif
