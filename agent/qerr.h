/* SPDX-License-Identifier: BSD-2-Clause */
/* The error that travels: what went wrong, told once, with the place it happened. */
#ifndef QUENCH_QERR_H
#define QUENCH_QERR_H

#define QERR_TEXT_MAX 512

struct qerr {
	char text[QERR_TEXT_MAX]; /* one line without a newline; empty while all is well */
};

/*
 * Write the message into err (may be NULL) and return code, so that a failure is one line:
 *     return qerr_set(err, -ENODEV, "port %s: no such interface", name);
 * code is 0 or a negative errno. The text already there is replaced.
 */
int qerr_set(struct qerr *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Put "prefix: " in front of the text already there; returns code. */
int qerr_prefix(struct qerr *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
