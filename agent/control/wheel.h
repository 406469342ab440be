/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers by the hundred thousand: a hierarchical wheel of numbered entries. Pure. */
#ifndef QUENCH_WHEEL_H
#define QUENCH_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An entry stands in a list by the highest group of six bits in which its time differs from the
 * wheel's (Varghese and Lauck 1987, scheme 7). Entries are not taken out early: one whose time has
 * changed comes out at the old one, and its owner puts it in again.
 */
struct wheel;

/* For entries 0 to entries - 1, with times told apart to 2^shift ns. NULL without memory. */
struct wheel *wheel_new(uint32_t entries, unsigned int shift);
void wheel_free(struct wheel *w);

/* Put an entry that is not in the wheel into it. due_ns may be past; UINT64_MAX is refused. */
void wheel_add(struct wheel *w, uint32_t entry, uint64_t due_ns);

bool wheel_has(const struct wheel *w, uint32_t entry);

/*
 * Take out every entry that may be due by now_ns, and write them to out, which has room for all of
 * the wheel's: those due up to now_ns, and some that are due later, but never one twice. Returns
 * how many. Time does not go backwards here: an earlier now_ns takes what is due already.
 */
size_t wheel_take(struct wheel *w, uint64_t now_ns, uint32_t *out);

#endif
