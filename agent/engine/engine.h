/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent as a whole: everything put in place in order, watched, and taken off in order. */
#ifndef QUENCH_ENGINE_H
#define QUENCH_ENGINE_H

#include "engine/instance.h"
#include "policy/policy.h"
#include "qerr.h"

/*
 * Run the agent with this policy until SIGTERM, SIGINT or a release command. The instance's lock
 * must be held. All or nothing: on any failure what was put in place is off again. path is the
 * policy's, for status.
 */
int engine_run(
	struct instance *instance, const struct policy *policy, const char *path, struct qerr *err);

/*
 * Take off what a dead agent of this instance left: queue trees, pins. The lock must be held.
 * *found says whether there was anything. Not an error when there was nothing.
 */
int engine_clean(const struct instance *instance, bool *found, struct qerr *err);

#endif
