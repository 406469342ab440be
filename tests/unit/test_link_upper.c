// SPDX-License-Identifier: BSD-2-Clause
// The way down from a VLAN, a bond and their like, on lists of interfaces made here.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "netlink/link_upper.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { MANY = 300 };

/* eth0 and eth1 in a bond with two VLANs, one of them in a bridge with eth2; eth3 is alone. */
static const struct link_info host[] = {
	{.ifindex = 1, .name = "lo"},
	{.ifindex = 2, .name = "eth0", .master_ifindex = 6},
	{.ifindex = 3, .name = "eth1", .master_ifindex = 6},
	{.ifindex = 4, .name = "eth2", .master_ifindex = 9},
	{.ifindex = 5, .name = "eth3"},
	{.ifindex = 6, .name = "bond0", .kind = "bond"},
	{.ifindex = 7, .name = "bond0.10", .kind = "vlan", .lower_ifindex = 6},
	{.ifindex = 8, .name = "bond0.20", .kind = "vlan", .lower_ifindex = 6, .master_ifindex = 9},
	{.ifindex = 9, .name = "br0", .kind = "bridge"},
	{.ifindex = 10, .name = "eth3.5", .kind = "vlan", .lower_ifindex = 5},
	{.ifindex = 11, .name = "mv0", .kind = "macvlan", .lower_ifindex = 5},
	{.ifindex = 12, .name = "team0", .kind = "team"},
	{.ifindex = 13,
		.name = "away.5",
		.kind = "vlan",
		.lower_ifindex = 5,
		.lower_elsewhere = true},
	{.ifindex = 14, .name = "veth0", .kind = "veth", .lower_ifindex = 5},
};

static void bottoms(const struct link_info *list, size_t n, const struct link_info *upper,
	char *text, size_t size)
{
	assert_int_equal(link_upper_bottoms(list, n, upper, text, size), 0);
}

static const struct link_info *named(const char *name)
{
	for (size_t i = 0; i < COUNT(host); i++)
		if (!strcmp(host[i].name, name))
			return &host[i];
	fail_msg("no %s", name);
	return NULL;
}

static void upper_kind_is_told_of_those_that_stand_on_others(void **state)
{
	static const struct {
		const char *name, *kind;
	} rows[] = {
		{"bond0", "bond"},
		{"br0", "bridge"},
		{"team0", "team"},
		{"eth3.5", "vlan"},
		{"mv0", "macvlan"},
		{"eth0", NULL},
		{"veth0", NULL},
		{"lo", NULL},
		{"bond0.10", "vlan"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *kind = link_upper_kind(named(rows[i].name));

		if (rows[i].kind)
			assert_string_equal(kind, rows[i].kind);
		else
			assert_null(kind);
	}
}

static void bottoms_are_the_devices_that_stand_on_no_other(void **state)
{
	static const struct {
		const char *name, *under;
	} rows[] = {
		{"eth3.5", "eth3"},
		{"mv0", "eth3"},
		{"bond0", "eth0, eth1"},
		{"bond0.10", "eth0, eth1"},
		{"team0", ""},
		{"away.5", ""},
		{"br0", "eth2, eth0, eth1"},
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		bottoms(host, COUNT(host), named(rows[i].name), text, sizeof(text));
		assert_string_equal(text, rows[i].under);
	}
}

/* Two VLANs of one device in a bridge. */
static void bottom_under_two_ways_is_named_once(void **state)
{
	const struct link_info list[] = {
		{.ifindex = 1, .name = "br0", .kind = "bridge"},
		{.ifindex = 2,
			.name = "eth10.1",
			.kind = "vlan",
			.lower_ifindex = 4,
			.master_ifindex = 1},
		{.ifindex = 3,
			.name = "eth10.2",
			.kind = "vlan",
			.lower_ifindex = 4,
			.master_ifindex = 1},
		{.ifindex = 4, .name = "eth10"},
		{.ifindex = 5,
			.name = "eth1",
			.master_ifindex = 1}, /* the start of the name before */
	};
	char text[64];

	(void)state;
	bottoms(list, COUNT(list), &list[0], text, sizeof(text));
	assert_string_equal(text, "eth10, eth1");
}

static void bottoms_without_room_are_counted(void **state)
{
	static struct link_info list[MANY + 1] = {{.ifindex = 1, .name = "br0", .kind = "bridge"}};
	char text[60];

	(void)state;
	for (int i = 1; i <= MANY; i++) {
		list[i] = (struct link_info){.ifindex = i + 1, .master_ifindex = 1};
		snprintf(list[i].name, sizeof(list[i].name), "port%03d", i);
	}
	bottoms(list, MANY + 1, list, text, sizeof(text));
	assert_string_equal(text, "port001, port002, port003, port004 and 296 more");
}

/* The kernel makes none; a list that was read while interfaces changed may look so. */
static void circle_ends(void **state)
{
	const struct link_info list[] = {
		{.ifindex = 1, .name = "a", .kind = "vlan", .lower_ifindex = 2},
		{.ifindex = 2, .name = "b", .kind = "vlan", .lower_ifindex = 1},
	};
	char text[64];

	(void)state;
	bottoms(list, COUNT(list), &list[0], text, sizeof(text));
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(upper_kind_is_told_of_those_that_stand_on_others),
		cmocka_unit_test(bottoms_are_the_devices_that_stand_on_no_other),
		cmocka_unit_test(bottom_under_two_ways_is_named_once),
		cmocka_unit_test(bottoms_without_room_are_counted),
		cmocka_unit_test(circle_ends),
	};

	return cmocka_run_group_tests_name("link_upper", tests, NULL, NULL);
}
