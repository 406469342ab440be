// SPDX-License-Identifier: BSD-2-Clause
// A gate of a live agent's queues, closed and opened by hand.
#ifndef TESTS_BENCH_GATE_H
#define TESTS_BENCH_GATE_H

#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <unistd.h>

#include "netlink/link.h"
#include "netlink/tc.h"
#include "quench/abi.h"

/* The gate of the first class as it is while it is open. */
static inline struct tc_object gate_read(struct rtnl *nl, int ifindex)
{
	struct tc_object *list, gate = {.kind = TC_OTHER};
	struct qerr err = {};
	size_t n;

	if (tc_read(nl, ifindex, &list, &n, &err))
		error(1, 0, "%s", err.text);
	for (size_t i = 0; i < n; i++)
		if (list[i].kind == TC_TBF && list[i].handle == TREE_HANDLE(TREE_GATE))
			gate = list[i];
	free(list);
	if (gate.kind != TC_TBF || gate.tbf.closed)
		error(1, 0, "there is no open gate");
	return gate;
}

static inline void gate_set(struct rtnl *nl, int ifindex, struct tc_object gate, bool closed)
{
	struct qerr err = {};
	int kick;

	if (gate.kind != TC_TBF)
		error(2, 0, "the gate was not closed here");
	gate.tbf.closed = closed;
	if (tc_apply(nl, ifindex, &gate, TC_CHANGE, &err))
		error(1, 0, "%s", err.text);
	if (closed)
		return;
	kick = link_kick_open(&err);
	if (kick < 0 || link_kick(kick, ifindex, TREE_CLASS(TREE_ROOT, MINOR_SINK)))
		error(1, errno, "cannot kick the queues");
	close(kick);
}

#endif
