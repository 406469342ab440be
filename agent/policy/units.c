// SPDX-License-Identifier: BSD-2-Clause
// Numbers from people: text with a unit to exact integers and ratios.
#include "policy/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "policy/text.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

typedef unsigned __int128 u128;

struct unit {
	enum units_kind kind;
	const char *name;
	uint64_t num, den; /* what one of it is worth */
};

/* Within a kind the worth rises: units_format() takes the last one that divides. */
static const struct unit units[] = {
	{UNITS_RATE, "kbit", 1000, 1},
	{UNITS_RATE, "Mbit", 1000000, 1},
	{UNITS_RATE, "Gbit", 1000000000, 1},
	{UNITS_RATE, "Tbit", 1000000000000, 1},
	{UNITS_SIZE, "B", 1, 1},
	{UNITS_SIZE, "KB", 1000, 1},
	{UNITS_SIZE, "KiB", 1024, 1},
	{UNITS_SIZE, "MB", 1000000, 1},
	{UNITS_SIZE, "MiB", 1 << 20, 1},
	{UNITS_SIZE, "GB", 1000000000, 1},
	{UNITS_SIZE, "GiB", 1 << 30, 1},
	{UNITS_TIME, "ns", 1, 1},
	{UNITS_TIME, "us", 1000, 1},
	{UNITS_TIME, "ms", 1000000, 1},
	{UNITS_TIME, "s", 1000000000, 1},
	{UNITS_LENGTH, "mm", 1, 1},
	{UNITS_LENGTH, "m", 1000, 1},
	{UNITS_LENGTH, "km", 1000000, 1},
	{UNITS_PERCENT, "%", 1, 100},
};

/* What a value of the kind has to be a whole number of; NULL where fractions are fine. */
static const char *const whole_of[] = {
	[UNITS_RATE] = "bits a second",
	[UNITS_SIZE] = "bytes",
	[UNITS_TIME] = "nanoseconds",
	[UNITS_LENGTH] = "millimetres",
	[UNITS_COUNT] = "units",
};

/* 10^17, times 100 for a percentage, is still a denominator of 64 bits. */
#define FRACTION_DIGITS_MAX 17

static bool append_digit(uint64_t *value, unsigned int base, unsigned int digit)
{
	return !__builtin_mul_overflow(*value, base, value) &&
	       !__builtin_add_overflow(*value, digit, value);
}

/* Digits without a leading zero, from *at on; *at ends behind them. */
static int scan_whole(const char **at, uint64_t *value)
{
	const char *start = *at;

	*value = 0;
	for (; isdigit((unsigned char)**at); (*at)++) {
		if (!append_digit(value, 10, **at - '0'))
			return -ERANGE;
	}
	if (*at == start || (*start == '0' && *at - start > 1))
		return -EINVAL;
	return 0;
}

/* The digits behind the point; zeros at the end add nothing and cannot overflow. */
static int scan_fraction(const char **at, struct units_value *value)
{
	const char *start = *at, *end = start, *last = start;

	for (; isdigit((unsigned char)*end); end++) {
		if (*end != '0')
			last = end + 1;
	}
	if (end == start)
		return -EINVAL;
	if (last - start > FRACTION_DIGITS_MAX)
		return -ERANGE;
	for (; start < last; start++) {
		if (!append_digit(&value->num, 10, *start - '0'))
			return -ERANGE;
		value->den *= 10;
	}
	*at = end;
	return 0;
}

static int scan_decimal(const char **at, struct units_value *value)
{
	int ret = scan_whole(at, &value->num);

	value->den = 1;
	if (ret || **at != '.')
		return ret;
	(*at)++;
	return scan_fraction(at, value);
}

static int scan_hex(const char **at, uint64_t *value)
{
	const char *start = *at;

	*value = 0;
	for (; isxdigit((unsigned char)**at); (*at)++) {
		unsigned char c = tolower((unsigned char)**at);

		if (!append_digit(value, 16, c <= '9' ? c - '0' : c - 'a' + 10))
			return -ERANGE;
	}
	return *at == start ? -EINVAL : 0;
}

/* A count has no point in it: "12.5" stops at the point, which is then junk. */
static int scan_count(const char **at, struct units_value *value)
{
	value->den = 1;
	if (strncmp(*at, "0x", 2))
		return scan_whole(at, &value->num);
	*at += 2;
	return scan_hex(at, &value->num);
}

static int scan_ratio(const char **at, struct units_value *value)
{
	int ret = scan_decimal(at, value);

	if (ret || **at != '/')
		return ret;
	if (value->den != 1)
		return -EINVAL;
	(*at)++;
	ret = scan_whole(at, &value->den);
	return ret ? ret : value->den ? 0 : -EINVAL;
}

static int scan_number(enum units_kind kind, const char **at, struct units_value *value)
{
	switch (kind) {
	case UNITS_COUNT:
		return scan_count(at, value);
	case UNITS_RATIO:
		return scan_ratio(at, value);
	default:
		return scan_decimal(at, value);
	}
}

static bool kind_has_units(enum units_kind kind)
{
	return kind != UNITS_COUNT && kind != UNITS_RATIO;
}

static const struct unit *find_unit(enum units_kind kind, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (units[i].kind == kind && !strcmp(units[i].name, name))
			return &units[i];
	}
	return NULL;
}

static int unit_unknown(
	enum units_kind kind, const char *text, const char *suffix, struct qerr *err)
{
	char names[64];

	units_names(kind, names, sizeof(names));
	if (!*suffix)
		return qerr_set(err, -EINVAL, "%s has no unit (%s)", text_quote(text).text, names);
	return qerr_set(err, -EINVAL, "%s has an unknown unit %s (%s)", text_quote(text).text,
		text_quote(suffix).text, names);
}

/* Multiply by the unit's worth; a share keeps its denominator, the rest has to come out whole. */
static int apply_unit(
	const struct unit *unit, const char *text, struct units_value *value, struct qerr *err)
{
	u128 num = (u128)value->num * unit->num;
	u128 den = (u128)value->den * unit->den;

	if (whole_of[unit->kind]) {
		if (num % den)
			return qerr_set(err, -EINVAL, "%s is not a whole number of %s",
				text_quote(text).text, whole_of[unit->kind]);
		num /= den;
		den = 1;
	}
	if (num > UINT64_MAX || den > UINT64_MAX)
		return qerr_set(err, -ERANGE, "%s is too large", text_quote(text).text);
	*value = (struct units_value){num, den};
	return 0;
}

static const char *kind_noun(enum units_kind kind)
{
	return kind == UNITS_COUNT ? "a whole number" : "a number";
}

int units_parse(enum units_kind kind, const char *text, struct units_value *value, struct qerr *err)
{
	struct units_value scanned = {};
	const struct unit *unit;
	const char *at = text;
	int ret;

	if (!*text)
		return qerr_set(err, -EINVAL, "\"\" is empty");
	if (*text == '-' || *text == '+')
		return qerr_set(err, -EINVAL, "%s has a sign", text_quote(text).text);
	ret = scan_number(kind, &at, &scanned);
	if (ret == -ERANGE)
		return qerr_set(err, ret, "%s has too many digits", text_quote(text).text);
	if (ret || (!kind_has_units(kind) && *at))
		return qerr_set(
			err, -EINVAL, "%s is not %s", text_quote(text).text, kind_noun(kind));
	if (kind_has_units(kind)) {
		unit = find_unit(kind, at);
		ret = unit ? apply_unit(unit, text, &scanned, err)
			   : unit_unknown(kind, text, at, err);
	}
	if (!ret)
		*value = scanned;
	return ret;
}

int units_parse_u64(enum units_kind kind, const char *text, uint64_t *value, struct qerr *err)
{
	struct units_value parsed;
	int ret;

	if (!whole_of[kind])
		return qerr_set(
			err, -EINVAL, "%s: a share is not a whole number", text_quote(text).text);
	ret = units_parse(kind, text, &parsed, err);
	if (!ret)
		*value = parsed.num;
	return ret;
}

int units_compare(struct units_value a, struct units_value b)
{
	u128 left = (u128)a.num * b.den;
	u128 right = (u128)b.num * a.den;

	return left < right ? -1 : left > right;
}

double units_double(struct units_value value)
{
	return (double)value.num / (double)value.den;
}

static const struct unit *largest_unit(enum units_kind kind, uint64_t value)
{
	const struct unit *best = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (units[i].kind == kind && (!best || (value && value % units[i].num == 0)))
			best = &units[i];
	}
	return best;
}

void units_format(enum units_kind kind, uint64_t value, char *buf, size_t size)
{
	const struct unit *unit = largest_unit(kind, value);

	if (!unit)
		snprintf(buf, size, "%" PRIu64, value);
	else if (value % unit->num == 0)
		snprintf(buf, size, "%" PRIu64 "%s", value / unit->num, unit->name);
	else
		snprintf(buf, size, "%" PRIu64 ".%03" PRIu64 "%s", value / unit->num,
			value % unit->num, unit->name);
}

struct units_text units_text(enum units_kind kind, uint64_t value)
{
	struct units_text out;

	units_format(kind, value, out.text, sizeof(out.text));
	return out;
}

void units_names(enum units_kind kind, char *buf, size_t size)
{
	size_t left = 0;

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		left += units[i].kind == kind;
	*buf = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (units[i].kind == kind)
			text_join(buf, size, units[i].name, --left);
	}
}
