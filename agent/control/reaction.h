/* SPDX-License-Identifier: BSD-2-Clause */
/* The reaction point of one port: which QP classes are limited, and which rates to send. */
#ifndef QUENCH_REACTION_H
#define QUENCH_REACTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/rate_ctl.h"

struct reaction;

/* The class must get this rate; generation is the owner for whom it was computed. */
struct rate_change {
	uint32_t class_index;
	uint32_t generation;
	uint64_t rate_bps; /* from the lowest rate to the line rate */
};

/*
 * A port with class indices 0 to classes - 1, all of them taken to stand at line rate in the
 * kernel. params is copied. step, 0 or more, is the share of the rate last sent by which the rate
 * must have moved to be sent. NULL without memory or when params or step are out of range. Nothing
 * is allocated after this; free with reaction_free (NULL is allowed).
 */
struct reaction *reaction_new(uint32_t classes, const struct rate_params *params, double step);
void reaction_free(struct reaction *r);

/*
 * A CNP at now_ns for the QP that owns the class in that generation. Another generation than
 * before is another QP: it starts from line rate. Returns false, and changes no rate, for an index
 * out of range and for a CNP too soon after the last one (see rate_ctl_cnp).
 */
bool reaction_cnp(struct reaction *r, uint32_t class_index, uint32_t generation, uint64_t now_ns);

/*
 * The class has sent this many more bytes by now_ns (DCQCN's byte counter). Nothing unless that
 * generation is limited; only needed where byte_counter_bytes is not 0.
 */
void reaction_sent(struct reaction *r, uint32_t class_index, uint32_t generation, uint64_t bytes,
	uint64_t now_ns);

/*
 * The first cut of each class since the last tick, at once: write at most max rates to send and
 * return how many. A class has no more than this or the tick's change between two ticks: what
 * comes after it, and what does not fit, waits for the tick after. What is written counts as sent.
 */
size_t reaction_cuts(struct reaction *r, struct rate_change *out, size_t max);

/*
 * Bring every limited QP up to now_ns and write at most max rates to send, each class once;
 * returns how many. Written:
 *  - exactly, the line rate of a class that came back to it or was given back;
 *  - any other rate that moved by more than step since one was sent;
 *  - but none of a class that reaction_cuts has written since the last tick.
 * What does not fit into out goes before anything else at the next tick. What is written counts
 * as sent: see reaction_retry. The cost grows with the classes that have an event, not with all.
 */
size_t reaction_tick(struct reaction *r, uint64_t now_ns, struct rate_change *out, size_t max);

/* Sending the rate of this class failed: the next tick writes the rate it then has. */
void reaction_retry(struct reaction *r, uint32_t class_index);

/*
 * The QP gave the class back: its state goes, and if a lower rate was sent the next tick sends
 * the line rate (under the old generation), so that the next owner finds it there.
 */
void reaction_forget(struct reaction *r, uint32_t class_index);

/*
 * Other parameters and another step for all QPs, which keep their rates within the new bounds (see
 * rate_ctl_renew). False, and nothing changes, when they are out of range.
 */
bool reaction_renew(struct reaction *r, const struct rate_params *params, double step);

/* How many QPs are limited, as of the last call that brought them up to date. */
uint32_t reaction_limited(const struct reaction *r);

/* The rate of the class's QP, as above; the line rate for a class that nothing limits. */
uint64_t reaction_rate_bps(const struct reaction *r, uint32_t class_index);

/* What so many classes take of memory, in bytes. */
size_t reaction_bytes(uint32_t classes);

/* Nothing limited and nothing left to send: no tick is needed until the next CNP. */
bool reaction_idle(const struct reaction *r);

#endif
