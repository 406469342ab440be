// SPDX-License-Identifier: BSD-2-Clause
// What happened lately, for people to read.
#include "engine/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void events_init(struct events *events)
{
	*events = (struct events){};
	pthread_mutex_init(&events->lock, NULL);
}

void events_note(struct events *events, const char *fmt, ...)
{
	char text[EVENT_TEXT_MAX];
	struct timespec now;
	va_list ap;

	clock_gettime(CLOCK_REALTIME, &now);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&events->lock);
	memcpy(events->ring[events->count % EVENTS_MAX].text, text, sizeof(text));
	events->ring[events->count % EVENTS_MAX].time_ms =
		(uint64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	events->count++;
	pthread_mutex_unlock(&events->lock);
	fprintf(stderr, "quench: %s\n", text);
}

json_t *events_json(struct events *events)
{
	json_t *list = json_array();
	uint64_t first;

	pthread_mutex_lock(&events->lock);
	first = events->count > EVENTS_MAX ? events->count - EVENTS_MAX : 0;
	for (uint64_t i = first; i < events->count; i++)
		json_array_append_new(
			list, json_pack("{s:I, s:I, s:s}", "number", (json_int_t)i, "time_ms",
				      (json_int_t)events->ring[i % EVENTS_MAX].time_ms, "text",
				      events->ring[i % EVENTS_MAX].text));
	pthread_mutex_unlock(&events->lock);
	return list;
}
