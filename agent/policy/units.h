/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers from people: text with a unit to exact integers and ratios. */
#ifndef QUENCH_POLICY_UNITS_H
#define QUENCH_POLICY_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "qerr.h"

enum units_kind {
	UNITS_RATE,    /* bits a second: kbit, Mbit, Gbit, Tbit, all decimal */
	UNITS_SIZE,    /* bytes: B, KB, MB, GB decimal, KiB, MiB, GiB binary */
	UNITS_TIME,    /* nanoseconds: ns, us, ms, s */
	UNITS_LENGTH,  /* millimetres: mm, m, km */
	UNITS_PERCENT, /* a share: 10% is 1/10 */
	UNITS_RATIO,   /* a plain number: 1/256 or 0.004 */
	UNITS_COUNT,   /* a whole number without a unit, decimal or 0x hexadecimal */
};

/* num / den, den never 0. Of all but percents and ratios den is 1. */
struct units_value {
	uint64_t num;
	uint64_t den;
};

/*
 * Read the whole of text as a number of the kind. The unit is required; no sign, no blanks, no
 * leading zeros, nothing after the unit. What is no share must come out whole (1.5Gbit does, 0.1ns
 * does not); nothing is rounded. Returns 0; -ERANGE when the number is too large; -EINVAL for the
 * rest; *err then says what is wrong and starts with the text in quotes.
 */
int units_parse(
	enum units_kind kind, const char *text, struct units_value *value, struct qerr *err);

/* The same for kinds whose values are whole: bit/s, bytes, ns, mm, count. */
int units_parse_u64(enum units_kind kind, const char *text, uint64_t *value, struct qerr *err);

/* Less than, equal to or greater than 0 as a is below, equal to or above b; exact. */
int units_compare(struct units_value a, struct units_value b);

/* The nearest double. */
double units_double(struct units_value value);

/*
 * Write value (bit/s, bytes, ns, mm or a count) with the largest unit that divides it, so that
 * units_parse_u64() reads the same value back. Below 1 kbit/s a rate is a fraction of a kbit.
 */
void units_format(enum units_kind kind, uint64_t value, char *buf, size_t size);

struct units_text {
	char text[32];
};

/* The same, by value. */
struct units_text units_text(enum units_kind kind, uint64_t value);

/* The units of the kind as words, "kbit, Mbit, Gbit or Tbit"; "" for ratios and counts. */
void units_names(enum units_kind kind, char *buf, size_t size);

#endif
