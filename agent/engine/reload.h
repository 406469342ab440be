/* SPDX-License-Identifier: BSD-2-Clause */
/* The policy file taken again by a live agent. */
#ifndef QUENCH_RELOAD_H
#define QUENCH_RELOAD_H

#include <jansson.h>

struct engine;

/*
 * Read the policy's file again and do what it says, in place: no queue is emptied, QPs keep their
 * rates, pauses and counters go on. All or nothing: with a file that is invalid, or that only a
 * restart can follow, or that the kernel refuses, the old policy stays in force.
 * Returns {result: "ok" | "invalid" | "refused" | "failed", faults: [text...]}, the caller's.
 */
json_t *engine_reload(struct engine *engine);

#endif
