/* SPDX-License-Identifier: BSD-2-Clause */
/* From a port's policy to the queues it should have. Pure. */
#ifndef QUENCH_DESIRED_H
#define QUENCH_DESIRED_H

#include "policy/policy.h"
#include "reconcile/tree.h"

/* Has it programs at tc, which make CNPs and XOFFs of clones? */
bool desired_hooks(const struct policy *policy, const struct policy_port *port);

/* The link's speed: the policy's word, else the driver's (0: none), else what the port may send. */
uint64_t desired_speed_bps(const struct policy_port *port, uint64_t driver_bps);

/* The queue tree of the port with that MTU; tree_spec_check says whether it can be built. */
void desired_spec(struct tree_spec *spec, const struct policy *policy,
	const struct policy_port *port, uint32_t mtu_bytes);

#endif
