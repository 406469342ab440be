/* SPDX-License-Identifier: BSD-2-Clause */
/* NICs that take VLAN tags out of frames before XDP sees them. */
#ifndef QUENCH_ENGINE_TAGS_H
#define QUENCH_ENGINE_TAGS_H

#include "engine/state.h"

/*
 * Does the port go by the VLAN priority first, while its NIC takes the tags off? Said as an event
 * when it becomes so, and when it no longer is; port->tags_hidden is what `quench status` shows.
 */
void tags_check(struct engine *engine, struct engine_port *port);

#endif
