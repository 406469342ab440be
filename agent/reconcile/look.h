/* SPDX-License-Identifier: BSD-2-Clause */
/* What a port is found to be: its queues, its programs, what its NIC does by itself. */
#ifndef QUENCH_LOOK_H
#define QUENCH_LOOK_H

#include "netlink/rtnl.h"
#include "reconcile/plan.h"

/*
 * Look at the interface. Nothing is changed. pin_dir tells the instance's own programs. Negative
 * errno and *err, with *facts empty, when queues or programs cannot be read.
 */
int look_at(struct rtnl *nl, const struct link_info *link, const char *pin_dir,
	struct plan_facts *facts, struct qerr *err);

void look_free(struct plan_facts *facts);

#endif
