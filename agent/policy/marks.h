/* SPDX-License-Identifier: BSD-2-Clause */
/* The XOFF and XON marks of a class: what policy says or leaves to be computed, and the rules. */
#ifndef QUENCH_POLICY_MARKS_H
#define QUENCH_POLICY_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/headroom.h"
#include "policy/policy.h"
#include "qerr.h"

struct marks {
	const struct policy_class *class;
	struct headroom_link link;
	struct headroom headroom;
	uint64_t fillers;    /* ports that may fill one egress queue of the class */
	uint64_t xoff_bytes; /* of what one of them fills; 0: none fits into the limit */
	uint64_t xon_bytes;
};

/* Does the class pause those who fill it? */
bool marks_wanted(const struct policy_class *class);

/*
 * The marks of a class that wants some, for links of that speed and MTU. A peer whose response
 * nobody knows is taken to be as slow as quench itself.
 */
void marks_compute(struct marks *marks, const struct policy *policy,
	const struct policy_class *class, uint64_t speed_bps, uint32_t mtu_bytes);

/*
 * A rule about the marks: -EINVAL when they break it, with *err saying what is wrong and what is
 * allowed, else 0.
 */
struct marks_rule {
	const char *field; /* that the fault is about, as in "pfc.xoff" */
	int (*check)(const struct marks *marks, struct qerr *err);
};

extern const struct marks_rule marks_rules[];
extern const size_t marks_rules_count;

#endif
