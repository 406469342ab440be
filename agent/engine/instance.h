/* SPDX-License-Identifier: BSD-2-Clause */
/* The files of one agent instance: lock, saved state, socket, pins. */
#ifndef QUENCH_INSTANCE_H
#define QUENCH_INSTANCE_H

#include <limits.h>
#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#include "qerr.h"
#include "quench/abi.h"

#define INSTANCE_NAME_MAX 64

struct instance {
	char name[INSTANCE_NAME_MAX];
	char socket_path[108];
	char state_path[PATH_MAX];
	char pin_dir[PATH_MAX];
	int lock_fd; /* -1: not held */
};

/* A port whose queues quench made: what release needs when the agent is dead. */
struct instance_port {
	char name[IFNAMSIZ];
	int ifindex;
	uint64_t line_rate_bps; /* what its QP classes are released to */
};

#define INSTANCE_LAYOUT_MAX 128

struct instance_state {
	uint64_t netns;			  /* inode of the network namespace that the ports are in */
	char layout[INSTANCE_LAYOUT_MAX]; /* what must be equal for the maps to be taken over */
	size_t ports_count;
	struct instance_port ports[SLOTS_MAX];
};

/* Paths for name: letters, digits, '-', '_' and '.', not starting with '.'; -EINVAL otherwise. */
int instance_init(struct instance *instance, const char *name, struct qerr *err);

/*
 * Become the instance's only agent, until instance_unlock or death. -EBUSY when another process
 * is. The lock is on the state file, which is made if it is not there.
 */
int instance_lock(struct instance *instance, struct qerr *err);
void instance_unlock(struct instance *instance);

/* The same for one that has made nothing: a state file that it only made for the lock goes too. */
void instance_abandon(struct instance *instance);

/*
 * Read or write the state file; to write, the lock must be held. An empty or missing file is a
 * state without ports.
 */
int instance_load(const struct instance *instance, struct instance_state *state, struct qerr *err);
int instance_save(
	const struct instance *instance, const struct instance_state *state, struct qerr *err);

/* The network namespace of this process, as its inode number; 0 when it cannot be told. */
uint64_t instance_netns(void);

/* The instance is gone for good: remove its state file and socket. The lock must be held. */
void instance_forget(struct instance *instance);

#endif
