/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pairs of this machine's own QPs. The kernel knows of each QP which QPN it talks to, but
 * between which addresses only where its connection was made by CM: for others, frames have to say.
 */
#ifndef QUENCH_LOCAL_H
#define QUENCH_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/pairs.h"

/* A connected QP of this machine, by the kernel's word. */
struct local_qp {
	uint32_t device;
	enum {
		LOCAL_UNKNOWN, /* the addresses are unspecified */
		LOCAL_TOLD,    /* by CM's ids */
		LOCAL_SEEN,    /* in frames */
		LOCAL_AMBIGUOUS,
	} addresses;
	struct endpoint self, peer;
};

/* An address that the QPs of that device may use. */
struct local_address {
	uint32_t device;
	__be32 addr[4];
};

/* One direction of a pair. */
struct local_pair {
	struct endpoint from, to;
	bool contradicted, dropped; /* on the way to a list: 0 in it */
};

/* What is to be put together. The arrays are the caller's; qps is in the order of local_sort. */
struct local {
	struct local_qp *qps;
	size_t qps_count;
	const struct local_address *addresses;
	size_t addresses_count;
};

void local_sort(struct local_qp *qps, size_t count);

/*
 * Frames of this flow, key, came in. Of the QPs that it may be for, those whose addresses are
 * unknown, and which sent(arg, key) says to have sent frames the other way (key is the flow's),
 * have these addresses; one that is seen with two peers is ambiguous.
 */
typedef bool (*local_sent_fn)(void *arg, const struct flow_key *key);
void local_see(struct local *l, const struct flow_key *key, local_sent_fn sent, void *arg);

/* The pair was so before. A QP with the same two QPNs that nothing newer is known of still has it.
 */
void local_keep(struct local *l, const struct endpoint *self, const struct endpoint *peer);

/*
 * Every pair that nothing contradicts, in both directions and in the order of `from`, into pairs,
 * which has room for 2 * qps_count; returns how many. Of pairs that share an end none is believed.
 */
size_t local_pairs(const struct local *l, struct local_pair *pairs);

/* Does a list of local_pairs hold the pair of these two? */
bool local_has_pair(const struct local_pair *pairs, size_t count, const struct endpoint *a,
	const struct endpoint *b);

#endif
