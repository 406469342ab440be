/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's control socket: one command word a connection, one JSON document back. */
#ifndef QUENCH_CONTROL_H
#define QUENCH_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "qerr.h"

struct control;

/* Write the next part of a long answer to out; false: that was the last. */
typedef bool (*control_part_fn)(void *state, FILE *out);

/* An answer: all at once, or in parts, each made when the client has taken the one before. */
struct control_answer {
	json_t *doc; /* control's to release */
	control_part_fn part;
	void *state; /* for part; free()d in the end */
};

/* Answer a command; false: it is not known, or there is no memory. */
typedef bool (*control_fn)(void *arg, const char *command, struct control_answer *answer);

/* Listen at path, readable and writable by root alone. Negative errno and *err else. */
int control_open(
	struct control **out, const char *path, control_fn fn, void *arg, struct qerr *err);

/* Let go of all clients, and free. NULL is allowed. */
void control_close(struct control *control);

/* A descriptor that becomes readable when control_serve has something to do. */
int control_fd(const struct control *control);

/* Serve whoever is ready, each with a part of an answer at most. Never waits for a client. */
void control_serve(struct control *control);

/* The client's side: send command to the agent at path and read its document. */
int control_ask(const char *path, const char *command, json_t **doc, struct qerr *err);

/*
 * The same for an answer in parts, line by line: fn sees each, its end of line included. -EPROTO
 * when the answer breaks off before the line `last`.
 */
typedef void (*control_line_fn)(void *arg, const char *line);
int control_ask_lines(const char *path, const char *command, const char *last, control_line_fn fn,
	void *arg, struct qerr *err);

#endif
