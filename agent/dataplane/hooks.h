/* SPDX-License-Identifier: BSD-2-Clause */
/* Whatever programs are on an interface, and which of them are an instance's of ours. */
#ifndef QUENCH_HOOKS_H
#define QUENCH_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qerr.h"
#include "quench/abi.h"

enum { HOOK_PROGRAMS_MAX = 16, HOOK_NAME_MAX = 16 };

struct hook_program {
	uint32_t id; /* 0: none */
	char name[HOOK_NAME_MAX];
	bool ours;
};

struct hook_chain {
	struct hook_program programs[HOOK_PROGRAMS_MAX]; /* in the order they run */
	size_t count;
};

struct hooks {
	struct hook_program xdp;
	bool xdp_generic;
	struct hook_chain ingress, egress; /* of tcx */
};

/*
 * Read what is attached to the interface. Ours is what the links pinned in pin_dir hold. -EPERM and
 * *err for one who may not look. A kernel without tcx has empty chains.
 */
int hooks_read(const char *pin_dir, int ifindex, struct hooks *hooks, struct qerr *err);

/*
 * What the instance's programs are told, from the map pinned in pin_dir. -ENOENT when there is
 * none, -EPROTO when it is another version's.
 */
int hooks_read_conf(const char *pin_dir, struct conf *conf);

#endif
