/* SPDX-License-Identifier: BSD-2-Clause */
/* The programs and maps in the kernel: loaded, attached, pinned, read and written. */
#ifndef QUENCH_DATAPLANE_H
#define QUENCH_DATAPLANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qerr.h"
#include "quench/abi.h"

struct dataplane;

/* Does the running kernel's BTF name this function? */
bool dataplane_kernel_has_function(const char *name);

/* How big the maps are to be; every value at least 1. */
struct dataplane_size {
	uint32_t flows;	     /* entries of the flow tables */
	uint32_t pairs;	     /* flows with a known peer QPN: two a pair */
	uint32_t refs;	     /* qdiscs of ours, all ports together */
	uint32_t qp_classes; /* QP classes, all ports together */
};

enum xdp_mode { XDP_MODE_NONE, XDP_MODE_IS_NATIVE, XDP_MODE_IS_GENERIC };

/*
 * Load the programs and pin the maps in pin_dir, on a bpffs. If adopt, maps that an earlier agent
 * left pinned there are taken over with all they hold, and must have the same sizes; else pin_dir
 * must not exist yet. Negative errno with the reason in *err: no bpffs, a capability missing, a
 * kernel that lacks something (the verifier's last words included).
 */
int dataplane_open(struct dataplane **dp, const struct dataplane_size *size, const char *pin_dir,
	bool adopt, struct qerr *err);

/* Detach everything, unpin everything, free. NULL is allowed. */
void dataplane_close(struct dataplane *dp);

/* Free, but leave what is attached and pinned for another agent. NULL is allowed. */
void dataplane_leave(struct dataplane *dp);

/* Where the link of that hook ("xdp", "tc_egress", "tc_ingress") of the interface is pinned. */
void dataplane_link_path(
	const char *pin_dir, const char *what, int ifindex, char *path, size_t size);

/* Remove what a dead agent left pinned in pin_dir: that detaches its programs. */
int dataplane_unpin(const char *pin_dir, struct qerr *err);

/* Have the programs that a dead agent left drop nothing because of a storm. */
void dataplane_calm(const char *pin_dir);

/*
 * The attachments. Where an earlier agent's program is still attached through a pinned link, ours
 * takes its place in one step and no frame goes past.
 *
 * Attach XDP to the interface: native; generic only if generic_ok and native is refused. The mode
 * is the one that the kernel reports afterwards. A program that is there already is left alone:
 * -EBUSY, with its id in *err.
 */
int dataplane_attach_xdp(struct dataplane *dp, const char *name, int ifindex, bool generic_ok,
	enum xdp_mode *live, struct qerr *err);

/* The mode that the kernel reports for our program on the interface right now. */
enum xdp_mode dataplane_xdp_mode(const struct dataplane *dp, int ifindex);

/* Attach the tc hooks (tcx) that a port with these PORT_* flags needs; XDP is attached already. */
int dataplane_attach_tc(
	struct dataplane *dp, const char *name, int ifindex, uint32_t flags, struct qerr *err);

/* Let go of tc hooks that an earlier agent left on the interface and this one has no use for. */
void dataplane_drop_tc(struct dataplane *dp, int ifindex);

/* The classifier for the root qdisc's filter; the descriptor stays the dataplane's. */
int dataplane_root_fd(const struct dataplane *dp);

/* Write the configuration; programs see each map entry change at once. */
int dataplane_set_conf(struct dataplane *dp, const struct conf *conf, struct qerr *err);
void dataplane_set_now(struct dataplane *dp, uint64_t now_ns); /* conf.now_ns, which dates flows */
int dataplane_set_port(
	struct dataplane *dp, int ifindex, const struct port_conf *port, struct qerr *err);

/*
 * Forget hooks of the interface that somebody detached; true if there were any. The attach
 * functions then attach those again and leave the others as they are.
 */
bool dataplane_drop_dead_hooks(struct dataplane *dp, int ifindex);

/* The interface is gone: forget it and what was attached to it. */
void dataplane_forget_port(struct dataplane *dp, int ifindex);

/* Pairs. Setting one keeps the counters of an entry whose peer QPN does not change. */
int dataplane_set_pair(struct dataplane *dp, const struct flow_key *flow, uint32_t peer_qpn,
	enum pair_source source);
void dataplane_clear_pair(struct dataplane *dp, const struct flow_key *flow);
typedef void (*dataplane_pair_fn)(void *arg, const struct flow_key *flow, const struct pair *pair);
void dataplane_each_pair(const struct dataplane *dp, dataplane_pair_fn fn, void *arg);
bool dataplane_get_pair(const struct dataplane *dp, const struct flow_key *flow, struct pair *pair);

/* Counters of a port slot, summed over the CPUs. */
int dataplane_get_stats(const struct dataplane *dp, uint32_t slot, struct port_stats *stats);
int dataplane_get_state(const struct dataplane *dp, uint32_t slot, struct port_state *state);

/*
 * A walk over a table, page by page; zeroed at first. It sees each entry once that is there all the
 * time, in no order. The functions return how many entries they wrote; 0: that was all.
 */
enum { DATAPLANE_PAGE = 64 };
struct dataplane_walk {
	uint32_t place;
	bool started, over;
};

/* Flows seen arriving; QPs whose frames leave by a reaction point; directions of iWARP. */
size_t dataplane_next_flows(const struct dataplane *dp, struct dataplane_walk *walk,
	struct flow_key keys[DATAPLANE_PAGE], struct flow flows[DATAPLANE_PAGE]);
size_t dataplane_next_qps(const struct dataplane *dp, struct dataplane_walk *walk,
	struct flow_key keys[DATAPLANE_PAGE], struct qp qps[DATAPLANE_PAGE]);
size_t dataplane_next_iwarp(const struct dataplane *dp, struct dataplane_walk *walk,
	struct flow_key keys[DATAPLANE_PAGE], struct iwarp_way ways[DATAPLANE_PAGE]);

/* The QP record of a flow that leaves here; false when there is none. */
bool dataplane_get_qp(const struct dataplane *dp, const struct flow_key *key, struct qp *qp);

/* Forget flows and QPs silent since before_ns (CLOCK_MONOTONIC); returns how many. */
size_t dataplane_age(struct dataplane *dp, uint64_t before_ns);

/* Memory shared with the programs: see abi.h for who may write what. */
struct qp_class *dataplane_qp_classes(const struct dataplane *dp);
uint64_t *dataplane_qp_free(const struct dataplane *dp);
struct qp_pool *dataplane_qp_pools(const struct dataplane *dp);
struct agent_counters *dataplane_counters(const struct dataplane *dp);
struct port_pauses *dataplane_pauses(const struct dataplane *dp);  /* by slot */
struct gate_counters *dataplane_gates(const struct dataplane *dp); /* by gate_index() */

/* A gate was opened: have the kernel look again whether the slot's peer may go on. */
void dataplane_pause_look(const struct dataplane *dp, uint32_t slot);

/*
 * The event ring: a descriptor to poll, and a call that hands over what is there. fn must not
 * block; when it returns false the rest waits for the next call.
 */
typedef bool (*dataplane_event_fn)(void *arg, const struct event *event);
int dataplane_events_open(struct dataplane *dp, dataplane_event_fn fn, void *arg, struct qerr *err);
int dataplane_events_fd(const struct dataplane *dp);
void dataplane_events_take(struct dataplane *dp);

#endif
