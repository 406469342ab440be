// SPDX-License-Identifier: BSD-2-Clause
// Numbers with units: exact values, both ends of what fits, and every way to be refused.
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "policy/units.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

struct whole_case {
	enum units_kind kind;
	const char *text;
	uint64_t value;
};

static void units_parse_whole_is_exact(void **state)
{
	static const struct whole_case cases[] = {
		{UNITS_RATE, "8kbit", 8000},
		{UNITS_RATE, "200Mbit", 200000000},
		{UNITS_RATE, "1.5Gbit", 1500000000},
		{UNITS_RATE, "1217.6kbit", 1217600},
		{UNITS_RATE, "0.001kbit", 1},
		{UNITS_RATE, "0kbit", 0},
		{UNITS_RATE, "1.6Tbit", 1600000000000},
		{UNITS_RATE, "9007199254740.993kbit", 9007199254740993}, /* no double has it */
		{UNITS_RATE, "18446744073709551.615kbit", UINT64_MAX},
		{UNITS_RATE, "1.0000000000000000000000000000Mbit", 1000000},
		{UNITS_SIZE, "0B", 0},
		{UNITS_SIZE, "1B", 1},
		{UNITS_SIZE, "20KB", 20000},
		{UNITS_SIZE, "20KiB", 20480},
		{UNITS_SIZE, "0.5KiB", 512},
		{UNITS_SIZE, "10MB", 10000000},
		{UNITS_SIZE, "1MiB", 1048576},
		{UNITS_SIZE, "2GB", 2000000000},
		{UNITS_SIZE, "4GiB", 4294967296},
		{UNITS_SIZE, "18446744073709551615B", UINT64_MAX},
		{UNITS_TIME, "50us", 50000},
		{UNITS_TIME, "4.4ms", 4400000},
		{UNITS_TIME, "1s", 1000000000},
		{UNITS_TIME, "7ns", 7},
		{UNITS_TIME, "0.000000001s", 1},
		{UNITS_LENGTH, "40m", 40000},
		{UNITS_LENGTH, "0.5m", 500},
		{UNITS_LENGTH, "1.5km", 1500000},
		{UNITS_COUNT, "0", 0},
		{UNITS_COUNT, "65536", 65536},
		{UNITS_COUNT, "0x11", 17},
		{UNITS_COUNT, "0xFFffff", 0xffffff},
		{UNITS_COUNT, "18446744073709551615", UINT64_MAX},
		{UNITS_COUNT, "0xffffffffffffffff", UINT64_MAX},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct qerr err = {};
		uint64_t value = 1;

		if (units_parse_u64(cases[i].kind, cases[i].text, &value, &err))
			fail_msg("%s", err.text);
		if (value != cases[i].value)
			fail_msg("%s read as %" PRIu64, cases[i].text, value);
	}
}

static void units_parse_share_is_exact(void **state)
{
	static const struct {
		enum units_kind kind;
		const char *text;
		double value;
	} cases[] = {
		{UNITS_PERCENT, "10%", 0.1},
		{UNITS_PERCENT, "0.5%", 0.005},
		{UNITS_PERCENT, "100%", 1},
		{UNITS_PERCENT, "0%", 0},
		{UNITS_PERCENT, "0.00000000000000001%", 1e-19},
		{UNITS_RATIO, "1/256", 1.0 / 256},
		{UNITS_RATIO, "1/3", 1.0 / 3},
		{UNITS_RATIO, "0.004", 0.004},
		{UNITS_RATIO, "1", 1},
		{UNITS_RATIO, "0", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct units_value value;
		struct qerr err = {};

		if (units_parse(cases[i].kind, cases[i].text, &value, &err))
			fail_msg("%s", err.text);
		if (units_double(value) != cases[i].value)
			fail_msg("%s read as %.17g", cases[i].text, units_double(value));
	}
}

static void units_parse_bad_text_is_refused(void **state)
{
	static const struct {
		enum units_kind kind;
		const char *text;
		int ret;
		const char *what;
	} cases[] = {
		{UNITS_RATE, "", -EINVAL, "\"\" is empty"},
		{UNITS_RATE, "200", -EINVAL, "\"200\" has no unit (kbit, Mbit, Gbit or Tbit)"},
		{UNITS_RATE, "-200Mbit", -EINVAL, "\"-200Mbit\" has a sign"},
		{UNITS_RATE, "+200Mbit", -EINVAL, "\"+200Mbit\" has a sign"},
		{UNITS_RATE, "Mbit", -EINVAL, "\"Mbit\" is not a number"},
		{UNITS_RATE, " 1Mbit", -EINVAL, "\" 1Mbit\" is not a number"},
		{UNITS_RATE, ".5Mbit", -EINVAL, "\".5Mbit\" is not a number"},
		{UNITS_RATE, "5.Mbit", -EINVAL, "\"5.Mbit\" is not a number"},
		{UNITS_RATE, "01Mbit", -EINVAL, "\"01Mbit\" is not a number"},
		{UNITS_RATE, "1 Mbit", -EINVAL,
			"\"1 Mbit\" has an unknown unit \" Mbit\" (kbit, Mbit, Gbit or Tbit)"},
		{UNITS_RATE, "1Mbitx", -EINVAL,
			"\"1Mbitx\" has an unknown unit \"Mbitx\" (kbit, Mbit, Gbit or Tbit)"},
		{UNITS_RATE, "1mbit", -EINVAL,
			"\"1mbit\" has an unknown unit \"mbit\" (kbit, Mbit, Gbit or Tbit)"},
		{UNITS_RATE, "1e3Mbit", -EINVAL,
			"\"1e3Mbit\" has an unknown unit \"e3Mbit\" (kbit, Mbit, Gbit or Tbit)"},
		{UNITS_RATE, "1.2.3Mbit", -EINVAL,
			"\"1.2.3Mbit\" has an unknown unit \".3Mbit\" (kbit, Mbit, Gbit or Tbit)"},
		{UNITS_RATE, "0.0001kbit", -EINVAL,
			"\"0.0001kbit\" is not a whole number of bits a second"},
		{UNITS_RATE, "18446744073709551.616kbit", -ERANGE,
			"\"18446744073709551.616kbit\" has too many digits"},
		{UNITS_RATE, "18446744073709551615Tbit", -ERANGE,
			"\"18446744073709551615Tbit\" is too large"},
		{UNITS_RATE, "0.000000000000000001kbit", -ERANGE,
			"\"0.000000000000000001kbit\" has too many digits"},
		{UNITS_SIZE, "1k", -EINVAL,
			"\"1k\" has an unknown unit \"k\" (B, KB, KiB, MB, MiB, GB or GiB)"},
		{UNITS_SIZE, "0.1KiB", -EINVAL, "\"0.1KiB\" is not a whole number of bytes"},
		{UNITS_SIZE, "17179869184GiB", -ERANGE, "\"17179869184GiB\" is too large"},
		{UNITS_TIME, "55", -EINVAL, "\"55\" has no unit (ns, us, ms or s)"},
		{UNITS_TIME, "0.1ns", -EINVAL, "\"0.1ns\" is not a whole number of nanoseconds"},
		{UNITS_PERCENT, "0.1", -EINVAL, "\"0.1\" has no unit (%)"},
		{UNITS_PERCENT, "1%%", -EINVAL, "\"1%%\" has an unknown unit \"%%\" (%)"},
		{UNITS_RATIO, "1/0", -EINVAL, "\"1/0\" is not a number"},
		{UNITS_RATIO, "1/", -EINVAL, "\"1/\" is not a number"},
		{UNITS_RATIO, "0.5/2", -EINVAL, "\"0.5/2\" is not a number"},
		{UNITS_RATIO, "1/2x", -EINVAL, "\"1/2x\" is not a number"},
		{UNITS_RATIO, "1e-3", -EINVAL, "\"1e-3\" is not a number"},
		{UNITS_RATIO, "nan", -EINVAL, "\"nan\" is not a number"},
		{UNITS_LENGTH, "40", -EINVAL, "\"40\" has no unit (mm, m or km)"},
		{UNITS_LENGTH, "0.1mm", -EINVAL, "\"0.1mm\" is not a whole number of millimetres"},
		{UNITS_COUNT, "010", -EINVAL, "\"010\" is not a whole number"},
		{UNITS_COUNT, "1.0", -EINVAL, "\"1.0\" is not a whole number"},
		{UNITS_COUNT, "10abc", -EINVAL, "\"10abc\" is not a whole number"},
		{UNITS_COUNT, "0x", -EINVAL, "\"0x\" is not a whole number"},
		{UNITS_COUNT, "0x1g", -EINVAL, "\"0x1g\" is not a whole number"},
		{UNITS_COUNT, "18446744073709551616", -ERANGE,
			"\"18446744073709551616\" has too many digits"},
		{UNITS_COUNT, "0x10000000000000000", -ERANGE,
			"\"0x10000000000000000\" has too many digits"},
		{UNITS_COUNT, "a\nb\x1b[31m\xc3\xa9", -EINVAL,
			"\"a?b?[31m??\" is not a whole number"},
		{UNITS_COUNT, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxy", -EINVAL,
			"\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\" is not a whole number"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct units_value value = {42, 1};
		struct qerr err = {};

		assert_int_equal(
			units_parse(cases[i].kind, cases[i].text, &value, &err), cases[i].ret);
		assert_string_equal(err.text, cases[i].what);
		assert_int_equal(value.num, 42);
		assert_int_equal(
			units_parse(cases[i].kind, cases[i].text, &value, NULL), cases[i].ret);
	}
}

static void units_parse_u64_share_is_refused(void **state)
{
	uint64_t value;

	(void)state;
	assert_int_equal(units_parse_u64(UNITS_PERCENT, "10%", &value, NULL), -EINVAL);
	assert_int_equal(units_parse_u64(UNITS_RATIO, "1/2", &value, NULL), -EINVAL);
}

static void units_compare_near_values_are_told_apart(void **state)
{
	struct units_value third = {1, 3};
	struct units_value below = {3333333333333333333, 10000000000000000000U};

	(void)state;
	assert_true(units_compare(below, third) < 0);
	assert_true(units_compare(third, below) > 0);
	assert_int_equal(units_compare(third, (struct units_value){2, 6}), 0);
}

static void units_format_reads_back(void **state)
{
	static const struct whole_case cases[] = {
		{UNITS_RATE, "200Mbit", 200000000},
		{UNITS_RATE, "1500Mbit", 1500000000},
		{UNITS_RATE, "1217600.001kbit", 1217600001},
		{UNITS_RATE, "0.007kbit", 7},
		{UNITS_RATE, "0kbit", 0},
		{UNITS_SIZE, "0B", 0},
		{UNITS_SIZE, "1MiB", 1048576},
		{UNITS_SIZE, "300KB", 300000},
		{UNITS_SIZE, "1522B", 1522},
		{UNITS_SIZE, "18446744073709551615B", UINT64_MAX},
		{UNITS_TIME, "4400us", 4400000},
		{UNITS_TIME, "12ms", 12000000},
		{UNITS_LENGTH, "40m", 40000},
		{UNITS_LENGTH, "505mm", 505},
		{UNITS_COUNT, "12", 12},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t value = 1;
		char buf[64];

		units_format(cases[i].kind, cases[i].value, buf, sizeof(buf));
		assert_string_equal(buf, cases[i].text);
		assert_int_equal(units_parse_u64(cases[i].kind, buf, &value, NULL), 0);
		assert_true(value == cases[i].value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(units_parse_whole_is_exact),
		cmocka_unit_test(units_parse_share_is_exact),
		cmocka_unit_test(units_parse_bad_text_is_refused),
		cmocka_unit_test(units_parse_u64_share_is_refused),
		cmocka_unit_test(units_compare_near_values_are_told_apart),
		cmocka_unit_test(units_format_reads_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
