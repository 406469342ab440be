/* SPDX-License-Identifier: BSD-2-Clause */
/* What a live agent cannot take over from a changed policy. Pure. */
#ifndef QUENCH_RESTART_H
#define QUENCH_RESTART_H

#include "policy/policy.h"

/*
 * The first thing in which the two differ that only a restart can change, as in "the role of port
 * eth0", written to buf; NULL when there is none.
 */
const char *policy_needs_restart(
	const struct policy *before, const struct policy *after, char *buf, size_t size);

#endif
