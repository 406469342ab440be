/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table with room for a fixed number of entries, all of it taken at the start. The hash is
 * keyed with a secret, because the keys come from captures, which anybody can write.
 */
#ifndef QUENCH_ANALYZE_TABLE_H
#define QUENCH_ANALYZE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table {
	uint8_t *entries;
	uint32_t *slots; /* index of the entry + 1, 0: free */
	uint64_t secret;
	size_t entry_bytes, key_bytes;
	uint32_t count, max, mask;
};

/*
 * Room for max entries (1 to 2^30) of entry_bytes each, which start with their key of key_bytes:
 * multiples of 8 and of 4. Returns 0 or -ENOMEM; table_free() is allowed after either, and on a
 * zeroed table.
 */
int table_init(
	struct table *t, uint32_t max, size_t entry_bytes, size_t key_bytes, uint64_t secret);
void table_free(struct table *t);

/* The entry with that key, or NULL. Entries never move. */
void *table_find(const struct table *t, const void *key);

/* The same; one that is not there is made, zeroed but for its key. NULL: the table is full. */
void *table_add(struct table *t, const void *key);

/* Entry number i of count, in the order they were made; and the number of an entry. */
void *table_at(const struct table *t, uint32_t i);
uint32_t table_index(const struct table *t, const void *entry);

#endif
