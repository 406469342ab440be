/* SPDX-License-Identifier: BSD-2-Clause */
/* What happened lately, for people to read: one line each, the newest EVENTS_MAX kept. */
#ifndef QUENCH_EVENTS_H
#define QUENCH_EVENTS_H

#include <jansson.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define EVENTS_MAX     256
#define EVENT_TEXT_MAX 192

struct events {
	pthread_mutex_t lock;
	uint64_t count; /* all there ever were; the latest EVENTS_MAX are in the ring */
	struct {
		uint64_t time_ms; /* since the epoch */
		char text[EVENT_TEXT_MAX];
	} ring[EVENTS_MAX];
};

void events_init(struct events *events);

/* Note an event and tell it on stderr as well. From any thread. */
void events_note(struct events *events, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* [{number, time_ms, text}], the oldest first; the caller's to release. */
json_t *events_json(struct events *events);

#endif
