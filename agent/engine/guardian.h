/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The guardian: a process beside the agent that opens everything when the agent dies or hangs, so
 * that no queue pair stays throttled by nobody. It changes rates and gates in place and nothing
 * else: programs, queues and steering stay, for the next agent to take over or `quench release` to
 * take off.
 */
#ifndef QUENCH_GUARDIAN_H
#define QUENCH_GUARDIAN_H

#include <sys/types.h>

#include "engine/instance.h"
#include "qerr.h"

/* An agent that shows no sign of life for this long is taken for hung. */
#define GUARDIAN_PATIENCE_MS 2000

struct guardian {
	pid_t pid;    /* 0: none */
	int pid_fd;   /* readable once it is gone */
	int beats[2]; /* a pipe, from the first start to the stop: the agent's signs of life */
};

/*
 * Before anything else is opened: a dying process closes its descriptors in ascending order, and
 * the guardian learns of the death when this pipe closes. guardian_stop undoes it.
 */
int guardian_prepare(struct guardian *guardian, struct qerr *err);

/* Start it, or start it again after it died. The instance's state must have been saved. */
int guardian_start(struct guardian *guardian, const struct instance *instance, struct qerr *err);

/* A sign of life, at least every quarter of GUARDIAN_PATIENCE_MS. Never blocks. */
void guardian_beat(const struct guardian *guardian);

/* It has died: collect it. */
void guardian_reap(struct guardian *guardian);

/* End it without it doing anything. */
void guardian_stop(struct guardian *guardian);

/*
 * The guardian's own life, in a process of its own: agent_fd is a pidfd of the agent, beat_fd the
 * other end of its signs of life. Returns when the agent is gone and all is open.
 */
int guardian_watch(const struct instance *instance, int agent_fd, int beat_fd, struct qerr *err);

#endif
