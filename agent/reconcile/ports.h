/* SPDX-License-Identifier: BSD-2-Clause */
/* The interfaces of this machine that a policy's patterns, drivers and addresses mean. */
#ifndef QUENCH_RECONCILE_PORTS_H
#define QUENCH_RECONCILE_PORTS_H

#include "policy/policy.h"
#include "qerr.h"

/*
 * policy_find_ports with the interfaces of this network namespace, by name. Needed after
 * policy_load and before anything that looks at ports. What appears later is not taken in.
 */
int ports_find(struct policy *policy, struct qerr *err);

#endif
