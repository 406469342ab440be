/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A place to measure in: namespaces of their own, in which an agent runs between two neighbours.
 *
 *     from ──── from_port ═ agent, bridge ═ to_port ──── to
 */
#ifndef QUENCH_PLACE_H
#define QUENCH_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "netlink/rtnl.h"
#include "policy/policy.h"
#include "qerr.h"

enum {
	PLACE_PRIORITY = 3,
	PLACE_DSCP = 26, /* of frames of the lossless class */
};

struct place_end {
	int ifindex;
	uint8_t mac[6];
};

struct place {
	struct rtnl *nl;
	pid_t agent;
	int log_fd; /* what the agent says */
	struct place_end from, from_port, to_port, to;
};

/*
 * Call fn(place, result, arg, err) in a child process that is alone in a network, mount and process
 * namespace of its own, with the links above up and an agent, which runs as realtime says, in
 * charge of the two ports. When fn returns, or this process dies, all of it goes. fn's memory is
 * the child's: what it finds goes into the size bytes at result, which are copied back. Returns
 * what fn did, or a negative errno; *err says why.
 */
int place_run(const struct policy_realtime *realtime,
	int (*fn)(struct place *place, void *result, void *arg, struct qerr *err), void *result,
	size_t size, void *arg, struct qerr *err);

/* 0 while the agent lives, else -ECHILD, and *err has its last words. */
int place_check_agent(struct place *place, struct qerr *err);

#endif
