// SPDX-License-Identifier: BSD-2-Clause
// The bounded hash table: open addressing over slots, entries in a row.
#include "analyze/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Multiply to 128 bits and fold: the mixing step of wyhash. */
static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint32_t hash(const struct table *t, const void *key)
{
	enum { WORD_BYTES = 4 };
	uint64_t h = t->secret, word;
	const uint8_t *at = key;
	size_t left = t->key_bytes;

	for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		h = fold(h ^ word, 0x9e3779b97f4a7c15ull);
	}
	if (left) {
		word = 0;
		memcpy(&word, at, WORD_BYTES);
		h = fold(h ^ word, 0x9e3779b97f4a7c15ull);
	}
	return fold(h, t->secret | 1);
}

static uint32_t slots_for(uint32_t max)
{
	uint32_t slots = 4;

	while (slots < 2 * max)
		slots *= 2;
	return slots;
}

int table_init(struct table *t, uint32_t max, size_t entry_bytes, size_t key_bytes, uint64_t secret)
{
	uint32_t slots = slots_for(max);

	*t = (struct table){
		.secret = secret,
		.entry_bytes = entry_bytes,
		.key_bytes = key_bytes,
		.max = max,
		.mask = slots - 1,
		.entries = calloc(max, entry_bytes),
		.slots = calloc(slots, sizeof(*t->slots)),
	};
	return t->entries && t->slots ? 0 : -ENOMEM;
}

void table_free(struct table *t)
{
	free(t->entries);
	free(t->slots);
	*t = (struct table){};
}

void *table_at(const struct table *t, uint32_t i)
{
	return t->entries + i * t->entry_bytes;
}

uint32_t table_index(const struct table *t, const void *entry)
{
	return ((const uint8_t *)entry - t->entries) / t->entry_bytes;
}

/* The slot that holds the key, or the free one where it would go. */
static uint32_t *slot_of(const struct table *t, const void *key)
{
	uint32_t at = hash(t, key) & t->mask;

	while (t->slots[at] && memcmp(table_at(t, t->slots[at] - 1), key, t->key_bytes))
		at = (at + 1) & t->mask;
	return &t->slots[at];
}

void *table_find(const struct table *t, const void *key)
{
	uint32_t slot = *slot_of(t, key);

	return slot ? table_at(t, slot - 1) : NULL;
}

void *table_add(struct table *t, const void *key)
{
	uint32_t *slot = slot_of(t, key);

	if (!*slot) {
		if (t->count == t->max)
			return NULL;
		memcpy(table_at(t, t->count), key, t->key_bytes);
		*slot = ++t->count;
	}
	return table_at(t, *slot - 1);
}
