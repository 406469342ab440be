/* SPDX-License-Identifier: BSD-2-Clause */
/* The answer to `quench flows`, which may be long. */
#ifndef QUENCH_ENGINE_SHOW_FLOWS_H
#define QUENCH_ENGINE_SHOW_FLOWS_H

#include "engine/state.h"

/*
 * One JSON document, a page of it at a time, a line an entry: {version, instance, flows[],
 * iwarp[]}. The engine must outlive the answer. False without memory.
 */
bool show_flows(struct engine *engine, struct control_answer *answer);

#endif
