/* SPDX-License-Identifier: BSD-2-Clause */
/* One port: planned from the policy, put in place, kept true, taken off. */
#ifndef QUENCH_ENGINE_PORT_H
#define QUENCH_ENGINE_PORT_H

#include "engine/state.h"

/* Does the port have a queue tree of ours (roles gateway and host)? */
bool port_has_queues(const struct engine_port *port);

/* Entries that the port takes in qdisc_refs. */
uint32_t port_refs(const struct engine_port *port);

/* Look the i-th port of the policy up and work out what it is to be; ports before it are planned.
 */
int port_plan(struct engine *engine, size_t i, struct qerr *err);

/* Hooks, then queues, then the clones that need both. With engine->adopt, over what is there. */
int port_install(struct engine *engine, struct engine_port *port, struct qerr *err);

/*
 * Compare the port with what it is to be and mend it: gone, back under another index, another MTU
 * or address, and with queues set, queues deleted by somebody. One event for each finding. nl_lock
 * must be held.
 */
void port_check(struct engine *engine, struct engine_port *port, bool queues);

/* What the kernel tells nobody of: detached hooks, a deleted filter, a foreign root that has gone.
 */
void port_look_over(struct engine *engine, struct engine_port *port);

/* No more clones; QPs keep their leaves until the queues are gone, so that none overtakes itself.
 */
void port_disarm(struct engine *engine, struct engine_port *port);

/* Let the queues run empty and delete them. */
void port_remove_queues(struct engine *engine, struct engine_port *port);

/* Plan the port anew for a changed policy of the same shape; nothing is done to it yet. */
void port_follow(struct engine *engine, size_t i);

/*
 * Give the kernel what was planned: rates and limits are changed in place. What belongs to the fast
 * thread, gates and QP classes, stays as it is.
 */
int port_apply(struct engine *engine, struct engine_port *port, struct qerr *err);

#endif
