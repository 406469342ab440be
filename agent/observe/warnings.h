/* SPDX-License-Identifier: BSD-2-Clause */
/* What is wrong with a port and would otherwise stay silent, in words. */
#ifndef QUENCH_WARNINGS_H
#define QUENCH_WARNINGS_H

#include <jansson.h>

#include "observe/snapshot.h"

enum { WARNING_TEXT_MAX = 176 };

/* That the port's NIC takes off the VLAN tags that its policy goes by, and what to do about it. */
void warning_tags_hidden(const char *port, char text[WARNING_TEXT_MAX]);

/* [{code, text}] of the port, empty where all is well; the caller's to release. */
json_t *warnings_json(const struct snapshot *snapshot, const struct snapshot_port *port);

#endif
