// SPDX-License-Identifier: BSD-2-Clause
// A hierarchical wheel of timers: eleven levels of 64 lists, so that any 64-bit time has a place.
#include "control/wheel.h"

#include <stdlib.h>

enum {
	SLOT_BITS = 6,
	SLOTS = 1 << SLOT_BITS,
	LEVELS = (64 + SLOT_BITS - 1) / SLOT_BITS,
};

/* Links count from 1, so that 0 is the end of a list; of an entry that is in none: NOWHERE. */
#define NOWHERE UINT32_MAX

struct wheel {
	uint64_t now; /* in units of 2^shift ns */
	unsigned int shift;
	uint64_t used[LEVELS]; /* bit n: list n is not empty */
	uint32_t head[LEVELS][SLOTS];
	uint32_t *next;
};

struct wheel *wheel_new(uint32_t entries, unsigned int shift)
{
	struct wheel *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->shift = shift;
	w->next = calloc((size_t)entries + 1, sizeof(*w->next));
	if (!w->next) {
		free(w);
		return NULL;
	}
	for (uint32_t i = 0; i < entries; i++)
		w->next[i] = NOWHERE;
	return w;
}

void wheel_free(struct wheel *w)
{
	if (!w)
		return;
	free(w->next);
	free(w);
}

static unsigned int slot_of(uint64_t time, unsigned int level)
{
	return time >> (level * SLOT_BITS) & (SLOTS - 1);
}

void wheel_add(struct wheel *w, uint32_t entry, uint64_t due_ns)
{
	uint64_t due = due_ns >> w->shift;
	unsigned int level, slot;

	if (due_ns == UINT64_MAX)
		return;
	if (due < w->now)
		due = w->now;
	level = due == w->now ? 0 : (63 - __builtin_clzll(due ^ w->now)) / SLOT_BITS;
	slot = slot_of(due, level);
	w->next[entry] = w->head[level][slot];
	w->head[level][slot] = entry + 1;
	w->used[level] |= 1ull << slot;
}

bool wheel_has(const struct wheel *w, uint32_t entry)
{
	return w->next[entry] != NOWHERE;
}

static size_t take_list(struct wheel *w, unsigned int level, unsigned int slot, uint32_t *out)
{
	uint32_t at = w->head[level][slot];
	size_t count = 0;

	w->head[level][slot] = 0;
	while (at) {
		uint32_t entry = at - 1;

		at = w->next[entry];
		w->next[entry] = NOWHERE;
		out[count++] = entry;
	}
	return count;
}

/* The lists that time passes or enters on its way: all of them if it goes around. */
static uint64_t passed(uint64_t from, uint64_t to, unsigned int level)
{
	unsigned int first = slot_of(from, level), last = slot_of(to, level);
	unsigned int above = (level + 1) * SLOT_BITS;

	if (above < 64 && from >> above != to >> above)
		return UINT64_MAX;
	return (UINT64_MAX << first) & (UINT64_MAX >> (SLOTS - 1 - last));
}

size_t wheel_take(struct wheel *w, uint64_t now_ns, uint32_t *out)
{
	uint64_t now = now_ns >> w->shift;
	size_t count = 0;

	if (now < w->now)
		now = w->now;
	for (unsigned int level = 0; level < LEVELS; level++) {
		uint64_t due = w->used[level] & passed(w->now, now, level);

		w->used[level] &= ~due;
		for (; due; due &= due - 1)
			count += take_list(w, level, __builtin_ctzll(due), out + count);
	}
	w->now = now;
	return count;
}
