/* SPDX-License-Identifier: BSD-2-Clause */
/* What the lab's peer reports: bytes over time, message latencies, counters as rows, as JSON. */
#ifndef RCPEER_REPORT_H
#define RCPEER_REPORT_H

#include <arpa/inet.h>
#include <jansson.h>
#include "rcpeer_net.h"

enum {
	TIMELINE_SLOT_MS = 100,
	TIMELINE_SLOTS_MAX = 10 * 3600 * 10, /* a clock that jumps must not eat the memory */
	TIMELINE_SLOTS_PER_SEC = 1000 / TIMELINE_SLOT_MS,
};

/* Bytes per 100 ms, on whatever clock start_ns is of. */
struct timeline {
	__u64 start_ns;
	__u64 *bytes;
	size_t count, room;
};

struct latencies {
	__u32 *us;
	size_t count, room;
};

/* A counter of a struct and its JSON key. */
struct counter_row {
	const char *key;
	size_t offset;
};

#define COUNTER_ROW(type, field)                                                                   \
	{                                                                                          \
#field, offsetof(struct type, field)                                               \
	}
#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

static void *grow(void *array, size_t *room, size_t want, size_t item_bytes)
{
	size_t bigger = want < 64 ? 64 : want * 2;

	if (want <= *room)
		return array;
	array = realloc(array, bigger * item_bytes);
	if (!array)
		err(1, "memory");
	memset((char *)array + *room * item_bytes, 0, (bigger - *room) * item_bytes);
	*room = bigger;
	return array;
}

static void timeline_add(struct timeline *t, __u64 at_ns, __u64 bytes)
{
	__u64 slot = at_ns > t->start_ns
			     ? (at_ns - t->start_ns) / (TIMELINE_SLOT_MS * NSEC_PER_MSEC)
			     : 0;

	if (slot >= TIMELINE_SLOTS_MAX)
		return;
	t->bytes = grow(t->bytes, &t->room, slot + 1, sizeof(*t->bytes));
	t->bytes[slot] += bytes;
	if (t->count < slot + 1)
		t->count = slot + 1;
}

static void timeline_merge(struct timeline *into, const struct timeline *from)
{
	size_t i;

	for (i = 0; i < from->count; i++)
		timeline_add(into, into->start_ns + i * TIMELINE_SLOT_MS * NSEC_PER_MSEC,
			from->bytes[i]);
}

static void latencies_add(struct latencies *l, __u64 latency_ns)
{
	l->us = grow(l->us, &l->room, l->count + 1, sizeof(*l->us));
	l->us[l->count++] = latency_ns / NSEC_PER_USEC;
}

static int compare_u32(const void *a, const void *b)
{
	__u32 x = *(const __u32 *)a, y = *(const __u32 *)b;

	return (x > y) - (x < y);
}

/* The smallest sample that per_mille of all samples do not exceed; l is sorted and not empty. */
static __u32 latencies_quantile(const struct latencies *l, unsigned int per_mille)
{
	size_t rank = (l->count * per_mille + 999) / 1000;

	return l->us[rank ? rank - 1 : 0];
}

/* Sorts *l. All null when there was no message. */
static json_t *latencies_json(struct latencies *l)
{
	double sum = 0;
	size_t i;

	if (!l->count)
		return json_pack("{s:n, s:n, s:n, s:n, s:n}", "p50", "p90", "p99", "max", "mean");
	qsort(l->us, l->count, sizeof(*l->us), compare_u32);
	for (i = 0; i < l->count; i++)
		sum += l->us[i];
	return json_pack("{s:i, s:i, s:i, s:i, s:f}", "p50", (int)latencies_quantile(l, 500), "p90",
		(int)latencies_quantile(l, 900), "p99", (int)latencies_quantile(l, 990), "max",
		(int)l->us[l->count - 1], "mean", sum / l->count);
}

static json_t *timeline_json(const struct timeline *t, unsigned int factor)
{
	json_t *a = json_array();
	size_t i;

	for (i = 0; i < t->count; i++)
		json_array_append_new(a, json_integer(t->bytes[i] * factor));
	return a;
}

static json_t *address_json(const __be32 addr[4])
{
	char text[INET6_ADDRSTRLEN];

	if (address_is_ipv4(addr))
		inet_ntop(AF_INET, &addr[3], text, sizeof(text));
	else
		inet_ntop(AF_INET6, addr, text, sizeof(text));
	return json_string(text);
}

static void put_count(json_t *o, const char *key, __u64 value)
{
	json_object_set_new(o, key, json_integer(value));
}

static void put_seconds(json_t *o, const char *key, __u64 ns)
{
	json_object_set_new(o, key, json_real(ns / 1e9));
}

static void put_counters(
	json_t *o, const void *base, const struct counter_row *rows, size_t row_count)
{
	size_t i;

	for (i = 0; i < row_count; i++)
		put_count(o, rows[i].key, *(const __u64 *)((const char *)base + rows[i].offset));
}

static const struct counter_row peer_counters[] = {
	COUNTER_ROW(peer, cnps),
	COUNTER_ROW(peer, icrc_bad),
	COUNTER_ROW(peer, ip_checksum_bad),
	COUNTER_ROW(peer, not_understood),
	COUNTER_ROW(peer, not_mine),
};

/* The part of the report that both roles share. */
static json_t *peer_json(struct peer *p, const char *role)
{
	json_t *o = json_object(), *addrs = json_array();
	__u64 dropped = 0, refused = 0;
	unsigned int i;

	for (i = 0; i < p->addr_count; i++)
		json_array_append_new(addrs, address_json(p->addrs[i].word));
	for (i = 0; i < L3_END; i++) {
		if (!p->speaks[i])
			continue;
		rx_read_drops(&p->rx[i]);
		dropped += p->rx[i].dropped;
		refused += p->control[i].refused;
	}
	json_object_set_new(o, "role", json_string(role));
	json_object_set_new(o, "address", address_json(p->addrs[0].word));
	json_object_set_new(o, "addresses", addrs);
	put_counters(o, p, peer_counters, ROWS(peer_counters));
	put_count(o, "socket_drops", dropped);
	put_count(o, "control_refused", refused);
	return o;
}

/* Print the document and end it; returns the exit code. */
static int report_print(json_t *o)
{
	int bad = json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(15));

	bad |= putchar('\n') == EOF || fflush(stdout);
	json_decref(o);
	if (bad)
		warnx("standard output: the report was not written");
	return bad ? 1 : 0;
}

#endif
