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
/* From its start until it watches, on the slowest of machines. */
#define GUARDIAN_START_MS 10000

struct guardian {
	pid_t pid;    /* 0: none */
	int pid_fd;   /* readable once it is gone */
	int beats[2]; /* a pipe, from the first start to the stop: the agent's signs of life */
	int ready_fd; /* readable once it watches; -1: it was seen to */
};

/*
 * Before anything else is opened: a dying process closes its descriptors in ascending order, and
 * the guardian learns of the death when this pipe closes. guardian_stop undoes it.
 */
int guardian_prepare(struct guardian *guardian, struct qerr *err);

/* Start it, or start it again after it died. The instance's state must have been saved. */
int guardian_start(struct guardian *guardian, const struct instance *instance, struct qerr *err);

/* Wait until it watches: from then on, nothing that is held back stays so without an agent. */
int guardian_wait(struct guardian *guardian, struct qerr *err);

/* A sign of life, at least every quarter of GUARDIAN_PATIENCE_MS. Never blocks. */
void guardian_beat(const struct guardian *guardian);

/* It has died: collect it. */
void guardian_reap(struct guardian *guardian);

/* End it without it doing anything. */
void guardian_stop(struct guardian *guardian);

/* What the agent gives its guardian, by number on the command line. */
enum guardian_fd {
	GUARDIAN_AGENT, /* a pidfd of the agent */
	GUARDIAN_BEATS, /* the other end of its signs of life */
	GUARDIAN_READY, /* closed by the guardian, after a byte, once it watches */
	GUARDIAN_FDS
};

/*
 * The guardian's own life, in a process of its own. Returns when the agent is gone and all is open.
 */
int guardian_watch(const struct instance *instance, const int with[GUARDIAN_FDS], struct qerr *err);

#endif
