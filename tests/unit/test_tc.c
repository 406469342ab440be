// SPDX-License-Identifier: BSD-2-Clause
// tc requests as bytes: what is sent for rates, bursts and limits, and what is refused.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "netlink/tc.h"
#include "quench/abi.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum { IFINDEX = 7, TICK_NS = 64 };

struct message {
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct nlmsghdr *nlh;
	struct tcmsg tcm;
	const char *kind;
	const struct nlattr *options;
};

static void put(struct message *m, const struct tc_object *obj, enum tc_op op)
{
	const struct nlattr *attr;
	struct qerr err = {};

	memset(m, 0, sizeof(*m));
	if (tc_put(m->buf, sizeof(m->buf), IFINDEX, obj, op, TICK_NS, &err))
		fail_msg("%s", err.text);
	m->nlh = (void *)m->buf;
	memcpy(&m->tcm, mnl_nlmsg_get_payload(m->nlh), sizeof(m->tcm));
	mnl_attr_for_each (attr, m->nlh, sizeof(m->tcm)) {
		if (mnl_attr_get_type(attr) == TCA_KIND)
			m->kind = mnl_attr_get_str(attr);
		if (mnl_attr_get_type(attr) == TCA_OPTIONS)
			m->options = attr;
	}
}

static const struct nlattr *option(const struct message *m, uint16_t type)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested (attr, m->options) {
		if (mnl_attr_get_type(attr) == type)
			return attr;
	}
	return NULL;
}

static struct tc_object htb_class(uint64_t rate_bps, uint32_t burst_bytes)
{
	return (struct tc_object){.kind = TC_HTB_CLASS,
		.handle = TREE_CLASS(TREE_ROOT, 0x10),
		.parent = TREE_CLASS(TREE_ROOT, 1),
		.htb_class = {.rate_bps = rate_bps,
			.ceil_bps = rate_bps,
			.burst_bytes = burst_bytes,
			.cburst_bytes = burst_bytes,
			.quantum_bytes = 1522,
			.prio = 1}};
}

static struct tc_object tbf(bool closed)
{
	return (struct tc_object){.kind = TC_TBF,
		.handle = TREE_HANDLE(TREE_GATE),
		.parent = TREE_CLASS(TREE_ROOT, MINOR_PRIORITY),
		.tbf = {.rate_bps = 100000000000ull,
			.burst_bytes = 1 << 20,
			.limit_bytes = 5000,
			.closed = closed}};
}

/* Offsets within struct tc_htb_opt, as the kernel's ABI has them. */
struct rate_case {
	uint64_t rate_bps, rate64;
	uint32_t rate;
};

static void htb_class_rates_are_exact_on_both_sides_of_32_bits(void **state)
{
	static const struct rate_case cases[] = {
		{8, 1, 1},
		{15, 1, 1}, /* rounded down to whole bytes */
		{8000, 1000, 1000},
		{34300000000ull, 4287500000ull, 4287500000u},
		{34359738360ull, 4294967295ull, 4294967295u},
		{34359738368ull, 4294967296ull, 0xffffffffu},
		{34400000000ull, 4300000000ull, 0xffffffffu},
		{35000000000ull, 4375000000ull, 0xffffffffu},
		{100000000000ull, 12500000000ull, 0xffffffffu},
		{400000000000ull, 50000000000ull, 0xffffffffu},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tc_object obj = htb_class(cases[i].rate_bps, 1 << 20);
		const char *parms;
		struct message m;
		uint32_t rate, ceil;

		put(&m, &obj, TC_CREATE);
		parms = mnl_attr_get_payload(option(&m, TCA_HTB_PARMS));
		memcpy(&rate, parms + 8, 4);
		memcpy(&ceil, parms + 20, 4);
		assert_int_equal(rate, cases[i].rate);
		assert_int_equal(ceil, cases[i].rate);
		assert_int_equal(mnl_attr_get_u64(option(&m, TCA_HTB_RATE64)), cases[i].rate64);
		assert_int_equal(mnl_attr_get_u64(option(&m, TCA_HTB_CEIL64)), cases[i].rate64);
	}
}

static void htb_class_carries_burst_quantum_and_prio_and_no_rate_table(void **state)
{
	/* 1000 bytes at 1 Mbit/s: 8 ms, 125,000 ticks of 64 ns. */
	struct tc_object obj = htb_class(1000000, 1000);
	struct message m;
	const char *parms;
	uint32_t words[11];

	(void)state;
	put(&m, &obj, TC_CREATE);
	assert_int_equal(mnl_attr_get_payload_len(option(&m, TCA_HTB_PARMS)), 44);
	parms = mnl_attr_get_payload(option(&m, TCA_HTB_PARMS));
	memcpy(words, parms, sizeof(words));
	assert_int_equal((uint8_t)parms[1], TC_LINKLAYER_ETHERNET);
	assert_int_equal((uint8_t)parms[13], TC_LINKLAYER_ETHERNET);
	assert_int_equal(words[6], 125000); /* buffer */
	assert_int_equal(words[7], 125000); /* cbuffer */
	assert_int_equal(words[8], 1522);   /* quantum */
	assert_int_equal(words[9], 0);	    /* level: the kernel's */
	assert_int_equal(words[10], 1);	    /* prio */
	assert_null(option(&m, TCA_HTB_RTAB));
	assert_null(option(&m, TCA_HTB_CTAB));
}

struct ticks_case {
	uint64_t rate_bps;
	uint32_t bytes, ticks;
};

static void burst_ticks_round_up_and_never_wrap(void **state)
{
	static const struct ticks_case cases[] = {
		{8000, 1, 15625},
		{1000000, 1000, 125000},
		{100000000000ull, 1, 1}, /* 0.08 ns */
		{100000000000ull, 800, 1},
		{100000000000ull, 801, 2},
		{10000000000000ull, 1, 1},
		{8, 1, 15625000},
		{8, 274, 4281250000u},
		{8, 275, UINT32_MAX},
		{8, UINT32_MAX, UINT32_MAX},
		{7, 1, UINT32_MAX},
		{UINT64_MAX, UINT32_MAX, 1},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(
			tc_burst_ticks(cases[i].rate_bps, cases[i].bytes, TICK_NS), cases[i].ticks);
	assert_int_equal(tc_burst_bytes(UINT64_MAX, UINT32_MAX, TICK_NS), UINT32_MAX);
}

static void burst_read_back_gives_the_same_ticks(void **state)
{
	static const uint64_t rates_bps[] = {8, 8000, 999992, 124999992, 125000000, 125000008,
		10000000000ull, 34359738368ull, 400000000000ull};
	uint32_t bytes;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rates_bps); i++)
		for (bytes = 1; bytes < 200; bytes++) {
			uint32_t ticks = tc_burst_ticks(rates_bps[i], bytes, TICK_NS);
			uint32_t back = tc_burst_bytes(rates_bps[i], ticks, TICK_NS);
			struct tc_object a = htb_class(rates_bps[i], bytes);
			struct tc_object b = htb_class(rates_bps[i], back);

			if (ticks < UINT32_MAX)
				assert_int_equal(
					tc_burst_ticks(rates_bps[i], back, TICK_NS), ticks);
			assert_true(tc_equal(&a, &b, TICK_NS));
		}
}

static void tc_equal_sees_a_difference_in_each_value(void **state)
{
	struct tc_object a = htb_class(200000000, 30000), b[10];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(b); i++)
		b[i] = a;
	b[0].htb_class.rate_bps += 8;
	b[1].htb_class.ceil_bps += 8;
	b[2].htb_class.burst_bytes += 2;
	b[3].htb_class.cburst_bytes += 2;
	b[4].htb_class.quantum_bytes++;
	b[5].htb_class.prio++;
	b[6].handle++;
	b[7].parent++;
	b[8].kind = TC_OTHER_CLASS;
	b[9].htb_class.rate_bps += 7; /* the same number of whole bytes */
	for (i = 0; i < 9; i++)
		assert_false(tc_equal(&a, &b[i], TICK_NS));
	assert_true(tc_equal(&a, &b[9], TICK_NS));
	a.htb_class.rate_bps = a.htb_class.ceil_bps = 0; /* nothing divides by it */
	assert_true(tc_equal(&a, &a, TICK_NS));
}

static void messages_name_device_place_and_kind(void **state)
{
	struct tc_object root = {.kind = TC_HTB,
		.handle = TREE_HANDLE(TREE_ROOT),
		.parent = TC_H_ROOT,
		.htb.default_minor = MINOR_DEFAULT};
	struct tc_object cls = htb_class(8000, 3000);
	struct message m;
	struct tc_htb_glob glob;

	(void)state;
	put(&m, &root, TC_CREATE);
	assert_int_equal(m.nlh->nlmsg_type, RTM_NEWQDISC);
	assert_int_equal(m.nlh->nlmsg_flags, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL);
	assert_int_equal(m.tcm.tcm_ifindex, IFINDEX);
	assert_int_equal(m.tcm.tcm_handle, 0x90000000);
	assert_int_equal(m.tcm.tcm_parent, 0xffffffff);
	assert_string_equal(m.kind, "htb");
	memcpy(&glob, mnl_attr_get_payload(option(&m, TCA_HTB_INIT)), sizeof(glob));
	assert_int_equal(glob.version, 3);
	assert_int_equal(glob.defcls, MINOR_DEFAULT);

	put(&m, &cls, TC_CHANGE);
	assert_int_equal(m.nlh->nlmsg_type, RTM_NEWTCLASS);
	assert_int_equal(m.nlh->nlmsg_flags, NLM_F_REQUEST);
	assert_int_equal(m.tcm.tcm_handle, 0x90000010);
	assert_int_equal(m.tcm.tcm_parent, 0x90000001);

	put(&m, &cls, TC_DELETE);
	assert_int_equal(m.nlh->nlmsg_type, RTM_DELTCLASS);
	assert_null(m.options);
	put(&m, &root, TC_DELETE);
	assert_int_equal(m.nlh->nlmsg_type, RTM_DELQDISC);
	assert_string_equal(m.kind, "htb"); /* so that no other kind can be hit */
}

static void fifo_limit_zero_is_sent_and_not_left_out(void **state)
{
	const struct tc_object obj = {.kind = TC_PFIFO,
		.handle = TREE_HANDLE(TREE_SINK_LEAF),
		.parent = TREE_CLASS(TREE_ROOT, MINOR_SINK)};
	struct message m;
	uint32_t limit = 1;

	(void)state;
	put(&m, &obj, TC_CREATE);
	assert_string_equal(m.kind, "pfifo");
	assert_int_equal(mnl_attr_get_payload_len(m.options), 4);
	memcpy(&limit, mnl_attr_get_payload(m.options), 4);
	assert_int_equal(limit, 0);
}

static void tbf_open_sends_its_burst_in_bytes(void **state)
{
	struct tc_object obj = tbf(false);
	struct tc_tbf_qopt opt;
	struct message m;

	(void)state;
	put(&m, &obj, TC_CHANGE);
	memcpy(&opt, mnl_attr_get_payload(option(&m, TCA_TBF_PARMS)), sizeof(opt));
	assert_int_equal(opt.rate.rate, 0xffffffff);
	assert_int_equal(opt.limit, 5000);
	assert_int_equal(mnl_attr_get_u64(option(&m, TCA_TBF_RATE64)), 12500000000ull);
	assert_int_equal(mnl_attr_get_u32(option(&m, TCA_TBF_BURST)), 1 << 20);
}

static void tbf_closed_costs_more_than_its_bucket_holds(void **state)
{
	struct tc_object obj = tbf(true);
	struct tc_tbf_qopt opt;
	struct message m;

	(void)state;
	put(&m, &obj, TC_CHANGE);
	memcpy(&opt, mnl_attr_get_payload(option(&m, TCA_TBF_PARMS)), sizeof(opt));
	assert_int_equal(opt.rate.rate, 4000);
	assert_int_equal(opt.rate.mpu, 65535);
	assert_int_equal(opt.buffer, 39062500); /* 2.5 s: frames up to 10,000 bytes get in */
	assert_int_equal(opt.limit, 5000);
	assert_null(option(&m, TCA_TBF_BURST));
}

static void refused(const struct tc_object *obj, const char *part)
{
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct qerr err = {};

	assert_int_equal(tc_put(buf, sizeof(buf), IFINDEX, obj, TC_CREATE, TICK_NS, &err), -EINVAL);
	if (!strstr(err.text, part))
		fail_msg("'%s' does not say '%s'", err.text, part);
}

static void tc_put_refuses_what_the_kernel_would_bend(void **state)
{
	const struct tc_object good = htb_class(8000, 3000);
	struct tc_object bad;

	(void)state;
	bad = good, bad.htb_class.rate_bps = 7, refused(&bad, "htb class 9000:10: its rate");
	bad = good, bad.htb_class.ceil_bps = 7992, refused(&bad, "ceiling is under its rate");
	bad = good, bad.htb_class.burst_bytes = 0, refused(&bad, "no burst");
	bad = good, bad.htb_class.cburst_bytes = 0, refused(&bad, "no cburst");
	bad = good, bad.htb_class.quantum_bytes = 0, refused(&bad, "no quantum");
	bad = good, bad.htb_class.prio = 8, refused(&bad, "prio is over 7");
	bad = good, bad.handle = TREE_HANDLE(TREE_ROOT), refused(&bad, "ends in 1 to ffff");
	bad = good, bad.parent = 0, refused(&bad, "no parent");
	bad = good, bad.parent = 0x10001, refused(&bad, "another qdisc");
	bad = tbf(false), bad.tbf.burst_bytes = 0, refused(&bad, "no burst");
	bad = tbf(false), bad.tbf.rate_bps = 0, refused(&bad, "its rate");
	bad = tbf(false), bad.parent = TREE_HANDLE(TREE_ROOT), refused(&bad, "not a class");
	bad = (struct tc_object){.kind = TC_HTB, .handle = 0x10000, .parent = TC_H_ROOT};
	refused(&bad, "default class");
	bad = (struct tc_object){.kind = TC_OTHER, .handle = 0x10000, .parent = TC_H_ROOT};
	refused(&bad, "only read");
}

static void tc_put_without_room_writes_nothing_outside(void **state)
{
	const struct tc_object obj = htb_class(8000, 3000);
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	size_t size, at;

	(void)state;
	for (size = 0; size < 200; size += 4) {
		memset(buf, 0x5a, sizeof(buf));
		if (!tc_put(buf, size, IFINDEX, &obj, TC_CREATE, TICK_NS, NULL))
			break;
		for (at = size; at < sizeof(buf); at++)
			assert_int_equal(buf[at], 0x5a);
	}
	assert_in_range(size, 100, 196);
}

static void tc_describe_says_every_value(void **state)
{
	struct tc_object obj = htb_class(35000000000ull, 3000);
	char text[256];

	(void)state;
	assert_string_equal(tc_describe(&obj, text, sizeof(text)),
		"htb class 9000:10 parent 9000:1 rate 35000000000 bit/s ceil 35000000000 bit/s "
		"burst 3000 B cburst 3000 B quantum 1522 B prio 1");
	tc_describe(&obj, text, 20);
	assert_int_equal(strlen(text), 19);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(htb_class_rates_are_exact_on_both_sides_of_32_bits),
		cmocka_unit_test(htb_class_carries_burst_quantum_and_prio_and_no_rate_table),
		cmocka_unit_test(burst_ticks_round_up_and_never_wrap),
		cmocka_unit_test(burst_read_back_gives_the_same_ticks),
		cmocka_unit_test(tc_equal_sees_a_difference_in_each_value),
		cmocka_unit_test(messages_name_device_place_and_kind),
		cmocka_unit_test(fifo_limit_zero_is_sent_and_not_left_out),
		cmocka_unit_test(tbf_open_sends_its_burst_in_bytes),
		cmocka_unit_test(tbf_closed_costs_more_than_its_bucket_holds),
		cmocka_unit_test(tc_put_refuses_what_the_kernel_would_bend),
		cmocka_unit_test(tc_put_without_room_writes_nothing_outside),
		cmocka_unit_test(tc_describe_says_every_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
