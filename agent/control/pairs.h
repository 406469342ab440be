/* SPDX-License-Identifier: BSD-2-Clause */
/* Which QP talks to which: from CM messages, from answers, from the kernel's RDMA, from policy. */
#ifndef QUENCH_PAIRS_H
#define QUENCH_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "quench/abi.h"

/* A connected QP. The address has flow_key's form: network order, IPv4 as ::ffff:a.b.c.d. */
struct endpoint {
	__be32 addr[4];
	uint32_t qpn; /* 2..0xffffff */
};

enum pairs_event { PAIRS_UP, PAIRS_DOWN };

struct pairs_change {
	enum pairs_event event;
	enum pair_source source;
	struct endpoint a, b; /* for a pair by CM: a sent the REQ; by answers: b answers */
};

/* What one call did, in order. A new pair can end two old ones, one at each of its ends. */
#define PAIRS_CHANGES_MAX 3
struct pairs_changes {
	size_t count; /* 0: nothing changed */
	struct pairs_change change[PAIRS_CHANGES_MAX];
};

struct pairs;

/* A REQ that has seen no REP, and a REP that has seen no RTU, for this long is forgotten. */
#define PAIRS_HANDSHAKE_NS 60000000000ull

/* How often answers must say the same, with different PSNs, each within this time of the last. */
enum { PAIRS_EVIDENCE = 3 };
#define PAIRS_EVIDENCE_NS 10000000000ull

/* After a DREQ, late answers for its QPs say nothing. */
#define PAIRS_TIMEWAIT_NS 5000000000ull

/*
 * Room for that many unfinished handshakes and pairs, both > 0, all of it allocated here (the
 * hash tables still grow their bucket arrays with the number of entries). NULL without memory
 * or room. Free with pairs_free (NULL is allowed).
 */
struct pairs *pairs_new(size_t max_handshakes, size_t max_pairs);
void pairs_free(struct pairs *p);

/*
 * Take in one CM message seen from src to dst at now_ns; sources: IBTA vol. 1, 12.6.5 to 12.6.10.
 *  - REQ: remembered under (src, local_id), for IDs are unique per host only. A repeated one
 *    replaces itself. When the table is full the oldest handshake goes.
 *  - REP: makes the pair, if a REQ with that ID went from dst to src. An end that was in another
 *    pair leaves it. When the table is full the oldest learned pair ends. A pair from policy is
 *    never replaced: then nothing happens.
 *  - REJ: of the REQ, ends the handshake; of the REP, ends the pair that this had made.
 *  - RTU: the REP is accepted; a REJ of it says nothing from here on.
 *  - DREQ: names the receiver's QPN; ends the learned pair of (dst, qpn) if its peer is at src.
 * Anything else, QPNs 0 and 1, unknown IDs and repeated messages change nothing.
 */
struct pairs_changes pairs_learn(struct pairs *p, const __be32 src[4], const __be32 dst[4],
	const struct wire_cm *cm, uint64_t now_ns);

/*
 * An answer (ACK, first or only READ response, atomic's answer) from `from` to QP `to`, whose PSN
 * is that of the one request lately sent by its host, and that went to asked_qpn. When
 * PAIRS_EVIDENCE of them, and none between, say so of both ends, the two are a pair. A pair learned
 * so ends when as many say otherwise of one end. Pairs from elsewhere are not touched.
 */
struct pairs_changes pairs_answer(struct pairs *p, const __be32 from[4], const struct endpoint *to,
	uint32_t asked_qpn, uint32_t psn, uint64_t now_ns);

/*
 * Add a pair that the kernel's RDMA stack knows of its own QP, like one by CM; and end it, if it is
 * still that stack's: then its QP is gone.
 */
struct pairs_changes pairs_add_local(
	struct pairs *p, const struct endpoint *local, const struct endpoint *peer);
struct pairs_changes pairs_remove_local(
	struct pairs *p, const struct endpoint *local, const struct endpoint *peer);

/*
 * Add a pair from policy; no message ends or replaces it. A learned pair in its way ends, and a
 * pair that had been learned is reported as up again: it is from policy now. Nothing happens when
 * an end is in another pair from policy already, or when the table holds only such pairs.
 */
struct pairs_changes pairs_add(struct pairs *p, const struct endpoint *a, const struct endpoint *b);

/* Take over a pair that an earlier agent had learned from that source. */
struct pairs_changes pairs_restore(struct pairs *p, const struct endpoint *a,
	const struct endpoint *b, enum pair_source source);

/* End this pair, learned or from policy, if it is there. The ends may be given in any order. */
struct pairs_changes pairs_remove(
	struct pairs *p, const struct endpoint *a, const struct endpoint *b);

/*
 * The other end of the pair of (addr, qpn), if that is at peer_addr; else NULL. Valid until the
 * next call that may change a pair.
 */
const struct endpoint *pairs_peer(
	const struct pairs *p, const __be32 addr[4], uint32_t qpn, const __be32 peer_addr[4]);

/* How many pairs are known, and how many handshakes wait for their REP. */
size_t pairs_count(const struct pairs *p);
size_t pairs_handshakes(const struct pairs *p);

#endif
