/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent shows of itself, taken at one moment; the formats below are made from it. */
#ifndef QUENCH_SNAPSHOT_H
#define QUENCH_SNAPSHOT_H

#include <jansson.h>
#include <net/if.h>
#include <stdio.h>

#include "dataplane/dataplane.h"
#include "netlink/nic_pauses.h"
#include "policy/policy.h"
#include "quench/abi.h"

struct snapshot_port {
	char name[IFNAMSIZ];
	enum port_role role;
	enum xdp_mode xdp;
	bool gone; /* the interface is not there: no figures */
	struct port_stats stats;
	struct port_state state;
	uint32_t occupancy_bytes[CLASSES_MAX]; /* now, by class */
	struct gate_counters gates[CLASSES_MAX];
	struct nic_pauses nic_pauses;
	uint8_t obeyed;	      /* bit n: the peer may pause priority n */
	uint8_t pausing;      /* bit c: class c may pause the peer */
	uint32_t stormed;     /* bit c: the watchdog has taken class c out of PFC */
	uint64_t queue_drops; /* counted by our qdiscs */
	uint64_t qp_classes_taken;
	uint64_t qps_limited;
	uint64_t xdp_native;  /* 1: native mode, as the kernel reports it */
	uint64_t tags_hidden; /* 1: the NIC takes off VLAN tags that the policy goes by first */
};

struct snapshot {
	char instance[64];
	char policy_path[256];
	uint64_t policy_loaded_at; /* seconds since the epoch */
	const char *policy_result; /* of the last reload: "ok", or why the old policy is in force */
	size_t ports_count;
	struct snapshot_port ports[SLOTS_MAX];
	size_t classes_count;
	struct policy_class classes[CLASSES_MAX];
	uint64_t now_ns; /* CLOCK_MONOTONIC */
	uint64_t pairs;
	struct agent_counters counters;
};

/* One flow with what is known about it. */
struct snapshot_flow {
	struct flow_key key;
	struct flow flow;
	struct pair pair;		/* peer_qpn 0: not known */
	uint64_t rate_bps;		/* 0: not limited here */
	const struct policy_class *cls; /* that of its DSCP; NULL: best effort, or no IP */
};

/* The names that the outside sees. */
const char *snapshot_role_name(enum port_role role);
const char *snapshot_xdp_name(enum xdp_mode mode);

/* The Prometheus text format, version 0.0.4. */
void snapshot_write_metrics(const struct snapshot *snapshot, FILE *out);

/*
 * The document of `quench status --json`, and the entries of `quench flows --json`; the caller's to
 * release.
 */
json_t *snapshot_status_json(const struct snapshot *snapshot);
json_t *snapshot_flow_json(const struct snapshot_flow *flow);
json_t *snapshot_iwarp_json(const struct flow_key *key, const struct iwarp_way *way);

/* The line that ends the document of `quench flows`. */
#define SNAPSHOT_FLOWS_LAST "]}\n"

#endif
