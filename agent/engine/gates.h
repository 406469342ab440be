/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast thread's part of priority flow control. What a port's peer asks for closes and opens the
 * gates of the port's classes; what our own queues ask for, which the kernel has said once, is said
 * again while it lasts and taken back when it is over.
 */
#ifndef QUENCH_GATES_H
#define QUENCH_GATES_H

#include "dataplane/dataplane.h"
#include "engine/fast.h"
#include "netlink/rtnl.h"
#include "policy/policy.h"
#include "qerr.h"

struct gates;

/*
 * Take these ports' gates in hand: all must be open. Uses nl, which it shares with the rest of the
 * thread, and note, which tells people; both, policy and dp must outlive it.
 */
int gates_open(struct gates **gates, const struct policy *policy, struct dataplane *dp,
	struct rtnl *nl, const struct fast_port *ports, size_t ports_count,
	const struct fast_calls *calls, struct qerr *err);

/* Tell paused peers to go on, and free. The gates stay as they are. NULL is allowed. */
void gates_close(struct gates *gates);

/* An EVENT_PAUSE of that slot and time: something has been said, by the peer or to it. */
void gates_news(struct gates *gates, uint32_t slot, uint64_t event_ns);

/* When gates_run is due next (CLOCK_MONOTONIC); UINT64_MAX: not before there is news. */
uint64_t gates_due_ns(const struct gates *gates);
void gates_run(struct gates *gates, uint64_t now_ns);

/* Now and then: what an event lost to a full ring would have said, and alarms. */
void gates_look_over(struct gates *gates, uint64_t now_ns);

/*
 * Another policy, and the ports as it has them, in the same slots. Who no longer obeys goes on, and
 * so does a peer that is no longer paused.
 */
void gates_follow(struct gates *gates, const struct policy *policy, const struct fast_port *ports,
	size_t ports_count);

/* The port's queues are new, or it has another ifindex (0: none) or MTU: all gates are open. */
void gates_renew(struct gates *gates, uint32_t slot, int ifindex, uint32_t mtu_bytes);

#endif
