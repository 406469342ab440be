/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's control socket: one command word a connection, one JSON document back. */
#ifndef QUENCH_CONTROL_H
#define QUENCH_CONTROL_H

#include <jansson.h>

#include "qerr.h"

/* Answer a command; the document becomes the caller's. NULL: the command is not known. */
typedef json_t *(*control_fn)(void *arg, const char *command);

/* Listen at path, readable and writable by root alone; returns the descriptor to poll. */
int control_listen(const char *path, struct qerr *err);

/* Serve one waiting client: never blocks for more than a second. */
void control_serve(int listen_fd, control_fn fn, void *arg);

/* The client's side: send command to the agent at path and read its document. */
int control_ask(const char *path, const char *command, json_t **doc, struct qerr *err);

#endif
