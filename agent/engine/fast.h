/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast thread: events from the kernel in, QP rates out. CM messages make pairs, CNPs make DCQCN
 * cut, timers let rates recover, and idle QPs give their classes back. It allocates nothing and
 * waits for nothing but its next event.
 */
#ifndef QUENCH_FAST_H
#define QUENCH_FAST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "control/pairs.h"
#include "control/rate_ctl.h"
#include "dataplane/dataplane.h"
#include "policy/policy.h"
#include "qerr.h"
#include "reconcile/tree.h"

/* A port as the fast thread needs it. */
struct fast_port {
	int ifindex;
	uint32_t slot;
	uint32_t qp_base;      /* its first entry of the pool arrays */
	struct tree_spec spec; /* qp_count 0: no reaction point */
	struct rate_params dcqcn;
	uint8_t obeyed;	   /* bit n: the peer may pause priority n */
	uint32_t byte_ps;  /* the time of a byte at the port's rate */
	uint64_t pause_ns; /* of an XOFF that leaves here */
};

/* What is so right now, for anyone to read; what it counts is in dataplane_counters. */
struct fast_gauges {
	_Atomic uint64_t pairs;
	_Atomic uint32_t limited[SLOTS_MAX]; /* QPs below line rate, by slot */
	_Atomic uint32_t taken[SLOTS_MAX];   /* QP classes in use, by slot */
};

struct fast;

/*
 * Start the thread for these ports (copied). policy and dp must outlive it. If adopt, pairs and QP
 * classes are taken over as an earlier agent left them; all classes must be at line rate. calls
 * (copied) are made from the thread, beat at least every FAST_BEAT_MS as long as it lives.
 */
#define FAST_BEAT_MS 100
typedef void (*fast_call_fn)(void *arg);
typedef void (*fast_note_fn)(void *arg, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct fast_calls {
	fast_call_fn beat;	 /* a sign of life */
	fast_call_fn qdisc_gone; /* a qdisc of ours died: have a look at the ports */
	fast_note_fn note;	 /* tell people */
	void *arg;
};
int fast_start(struct fast **fast, const struct policy *policy, struct dataplane *dp,
	const struct fast_port *ports, size_t ports_count, bool adopt,
	const struct fast_calls *calls, struct qerr *err);

/* Stop and free. The classes stay as they are. NULL is allowed. */
void fast_stop(struct fast *fast);

/*
 * The port has another ifindex or MTU now, or its queues were made anew: its QPs start from line
 * rate. ifindex 0: it has none, and nothing is sent. Takes effect within FAST_BEAT_MS; from any one
 * thread.
 */
void fast_port_renew(struct fast *fast, uint32_t slot, int ifindex, uint32_t mtu_bytes);

/*
 * Another policy, and the same ports as it has them (copied), from now on; QPs keep their rates.
 * Returns once the thread has nothing to do with the old one any more: 0, -EINVAL when DCQCN's
 * parameters do not fit a port (then nothing changes), -ETIMEDOUT when the thread hangs.
 */
int fast_reload(struct fast *fast, const struct policy *policy, const struct fast_port *ports,
	size_t ports_count, struct qerr *err);

/* What the kernel's RDMA stack says of this machine's QPs now, and did not before. */
struct fast_local_change {
	bool up;
	struct endpoint local, peer;
};

/*
 * Take in such changes, a few at a time. Returns once all are taken: 0, or -ETIMEDOUT when the
 * thread hangs. From the thread that also calls fast_reload.
 */
int fast_local_pairs(
	struct fast *fast, const struct fast_local_change *changes, size_t count, struct qerr *err);

const struct fast_gauges *fast_gauges(const struct fast *fast);

/* The rate that DCQCN holds QP class index (of the pool arrays) to; 0: none. */
uint64_t fast_rate_bps(const struct fast *fast, uint32_t index);

#endif
