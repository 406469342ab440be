/* SPDX-License-Identifier: BSD-2-Clause */
/* The HTTP endpoint that Prometheus scrapes. */
#ifndef QUENCH_HTTP_H
#define QUENCH_HTTP_H

#include <stdint.h>
#include <stdio.h>

#include "qerr.h"

struct http;

/* Write the metrics text; called in the HTTP thread, one call at a time. */
typedef void (*http_metrics_fn)(void *arg, FILE *out);

/* Serve GET /metrics on the numeric address host (IPv4 or IPv6) and port, in a thread of its own.
 */
int http_start(struct http **http, const char *host, uint16_t port, http_metrics_fn fn, void *arg,
	struct qerr *err);

/* Stop serving; returns once no call of fn is running. NULL is allowed. */
void http_stop(struct http *http);

#endif
