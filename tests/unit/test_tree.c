// SPDX-License-Identifier: BSD-2-Clause
// The queue tree of a port: every object, in an order that can be built, within the port's rate.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "reconcile/apply.h"
#include "reconcile/tree.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum { LIMIT_BYTES = 1 << 20, TICK_NS = 64 };

static struct tree_spec spec_of(uint64_t rate_bps, size_t classes, uint32_t slots, uint32_t qps)
{
	struct tree_spec spec = {.rate_bps = rate_bps,
		.mtu_bytes = 1500,
		.classes_count = classes,
		.slots = slots,
		.qp_count = qps,
		.line_rate_bps = rate_bps};
	size_t c;

	for (c = 0; c < classes; c++)
		spec.classes[c].limit_bytes = LIMIT_BYTES + (uint32_t)c;
	return spec;
}

struct tree {
	struct tc_object *list;
	size_t n;
};

static struct tree build(const struct tree_spec *spec)
{
	struct qerr err = {};
	struct tree t;

	if (tree_build(spec, &t.list, &t.n, &err))
		fail_msg("%s", err.text);
	return t;
}

static const struct tc_object *find(const struct tree *t, bool is_class, uint32_t handle)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		if (tc_is_class(&t->list[i]) == is_class && t->list[i].handle == handle)
			return &t->list[i];
	fail_msg("%x is not in the tree", handle);
	return NULL;
}

static const struct tc_object *find_class(const struct tree *t, uint32_t major, uint32_t minor)
{
	return find(t, true, TREE_CLASS(major, minor));
}

static const struct tc_object *find_qdisc(const struct tree *t, uint32_t major)
{
	return find(t, false, TREE_HANDLE(major));
}

static bool made_before(const struct tree *t, size_t i, bool is_class, uint32_t handle)
{
	while (i--)
		if (tc_is_class(&t->list[i]) == is_class && t->list[i].handle == handle)
			return true;
	return false;
}

/* May the object stand at i of the list? TBF's class 1 comes with its qdisc. */
static bool can_be_made(const struct tree *t, size_t i)
{
	const struct tc_object *obj = &t->list[i];
	uint32_t parent = obj->parent;

	if (made_before(t, i, tc_is_class(obj), obj->handle))
		return false;
	if (parent == TC_H_ROOT)
		return i == 0;
	if (TC_H_MAJ(parent) >= TREE_HANDLE(TREE_GATE) &&
		TC_H_MAJ(parent) < TREE_HANDLE(TREE_GATE + CLASSES_MAX))
		return TC_H_MIN(parent) == 1 && made_before(t, i, false, TC_H_MAJ(parent));
	return made_before(t, i, TC_H_MIN(parent) != 0, parent);
}

static void tree_build_makes_parents_before_children_and_nothing_twice(void **state)
{
	static const size_t classes[] = {0, 1, 3, CLASSES_MAX};
	size_t i, c;

	(void)state;
	for (c = 0; c < ARRAY_SIZE(classes); c++) {
		struct tree_spec spec =
			spec_of(1000000000, classes[c], SLOTS_MAX, classes[c] ? 256 : 0);
		struct tree t = build(&spec);

		for (i = 0; i < t.n; i++)
			assert_true(can_be_made(&t, i));
		free(t.list);
	}
}

static void tree_build_every_object_is_one_the_kernel_takes(void **state)
{
	static const uint64_t rates_bps[] = {8000, 8001, 999999, 34300000000ull, 1000000000000ull};
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct qerr err = {};
	size_t r, i;

	(void)state;
	for (r = 0; r < ARRAY_SIZE(rates_bps); r++) {
		struct tree_spec spec = spec_of(rates_bps[r], CLASSES_MAX, 3, 5);
		struct tree t = build(&spec);

		for (i = 0; i < t.n; i++)
			if (tc_put(buf, sizeof(buf), 1, &t.list[i], TC_CREATE, TICK_NS, &err))
				fail_msg("%s", err.text);
		free(t.list);
	}
}

static void tree_build_default_class_comes_first(void **state)
{
	struct tree_spec spec = spec_of(200000000, 2, 3, 0);
	struct tree t = build(&spec);

	(void)state;
	assert_int_equal(t.list[0].handle, TREE_HANDLE(TREE_ROOT));
	assert_int_equal(t.list[0].htb.default_minor, MINOR_DEFAULT);
	assert_int_equal(t.list[1].handle, TREE_CLASS(TREE_ROOT, MINOR_PORT));
	assert_int_equal(t.list[2].handle, TREE_CLASS(TREE_ROOT, MINOR_DEFAULT));
	assert_int_equal(t.list[3].handle, TREE_HANDLE(TREE_DEFAULT_LEAF));
	free(t.list);
}

static void tree_build_shares_never_exceed_the_port(void **state)
{
	static const uint64_t rates_bps[] = {8000, 8008, 12345678, 1000000007, 400000000000ull};
	size_t r, n;
	uint32_t c;

	(void)state;
	for (r = 0; r < ARRAY_SIZE(rates_bps); r++)
		for (n = 0; n <= CLASSES_MAX; n++) {
			struct tree_spec spec = spec_of(rates_bps[r], n, 1, 0);
			struct tree t = build(&spec);
			uint64_t port = rates_bps[r] / 8 * 8, sum;

			sum = find_class(&t, TREE_ROOT, MINOR_CONTROL)->htb_class.rate_bps +
			      find_class(&t, TREE_ROOT, MINOR_DEFAULT)->htb_class.rate_bps;
			for (c = 0; c < n; c++) {
				const struct tc_object *obj =
					find_class(&t, TREE_ROOT, MINOR_PRIORITY + c);

				sum += obj->htb_class.rate_bps;
				assert_int_equal(obj->htb_class.ceil_bps, port);
			}
			assert_int_equal(sum, port);
			free(t.list);
		}
}

static void tree_build_shares_are_10_80_10(void **state)
{
	struct tree_spec spec = spec_of(1000000000, 2, 3, 0);
	struct tree t = build(&spec);
	const struct tc_object *control = find_class(&t, TREE_ROOT, MINOR_CONTROL);
	const struct tc_object *priority = find_class(&t, TREE_ROOT, MINOR_PRIORITY + 1);
	const struct tc_object *rest = find_class(&t, TREE_ROOT, MINOR_DEFAULT);

	(void)state;
	assert_int_equal(control->htb_class.rate_bps, 100000000);
	assert_int_equal(priority->htb_class.rate_bps, 400000000);
	assert_int_equal(rest->htb_class.rate_bps, 100000000);
	assert_int_equal(control->htb_class.prio, 0);
	assert_int_equal(priority->htb_class.prio, 2);
	assert_int_equal(rest->htb_class.prio, 3);
	assert_int_equal(control->parent, TREE_CLASS(TREE_ROOT, MINOR_PORT));
	free(t.list);
}

/* Of 900 Mbit/s: 10 % control, 50 % and 10 % by share; of the 30 % left two get 4/9, the rest 1/9.
 */
static void tree_build_shares_in_percent_come_before_the_others(void **state)
{
	struct tree_spec spec = spec_of(900000000, 4, 3, 0);
	static const uint64_t rates_bps[] = {450000000, 90000000, 120000000, 120000000};
	static const uint32_t quanta[] = {5 * 1522, 1522, 1522 * 12 / 9, 1522},
			      prios[] = {2, 2, 2, 1};
	struct tree t;
	uint32_t c;

	(void)state;
	spec.classes[0].share_percent = 50;
	spec.classes[1].share_percent = 10;
	spec.classes[3].strict = true;
	t = build(&spec);
	for (c = 0; c < 4; c++) {
		const struct tc_object *obj = find_class(&t, TREE_ROOT, MINOR_PRIORITY + c);

		assert_int_equal(obj->htb_class.rate_bps, rates_bps[c]);
		assert_int_equal(obj->htb_class.ceil_bps, 900000000);
		assert_int_equal(obj->htb_class.quantum_bytes, quanta[c]);
		assert_int_equal(obj->htb_class.prio, prios[c]);
	}
	assert_int_equal(find_class(&t, TREE_ROOT, MINOR_DEFAULT)->htb_class.rate_bps, 30000000);
	free(t.list);
}

/* With every port rate down to the least, all that adds up to 89 % is more than nothing. */
static void tree_build_shares_leave_a_rate_to_everybody(void **state)
{
	static const uint64_t rates_bps[] = {8000, 8008, 12345678, 1000000007, 400000000000ull};
	size_t r;
	uint32_t c, n;

	(void)state;
	for (r = 0; r < ARRAY_SIZE(rates_bps); r++)
		for (n = 1; n <= CLASSES_MAX; n++) {
			struct tree_spec spec = spec_of(rates_bps[r], n, 1, 0);
			struct tree t;
			uint64_t sum;

			spec.classes[0].share_percent = 88;
			spec.classes[n - 1].share_percent += 1;
			t = build(&spec);
			sum = find_class(&t, TREE_ROOT, MINOR_CONTROL)->htb_class.rate_bps +
			      find_class(&t, TREE_ROOT, MINOR_DEFAULT)->htb_class.rate_bps;
			for (c = 0; c < n; c++)
				sum += find_class(&t, TREE_ROOT, MINOR_PRIORITY + c)
					       ->htb_class.rate_bps;
			assert_int_equal(sum, rates_bps[r] / 8 * 8);
			for (c = 0; c < t.n; c++)
				if (t.list[c].kind == TC_HTB_CLASS)
					assert_in_range(
						t.list[c].htb_class.quantum_bytes, 1522, 64 * 1522);
			for (c = 0; c < t.n; c++)
				if (t.list[c].kind == TC_HTB_CLASS)
					assert_true(t.list[c].htb_class.rate_bps >= 8);
			free(t.list);
		}
}

static void tree_build_port_burst_is_1_ms_and_two_frames_at_least(void **state)
{
	static const struct {
		uint64_t rate_bps;
		uint32_t bytes;
	} cases[] = {
		{8000, 2 * 1522},
		{24352000, 3044},
		{100000000, 12500},
		{400000000000ull, 50000000},
		{1000000000000ull, 64 << 20},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tree_spec spec = spec_of(cases[i].rate_bps, 1, 2, 0);
		struct tree t = build(&spec);
		const struct tc_object *port = find_class(&t, TREE_ROOT, MINOR_PORT);

		assert_int_equal(port->htb_class.burst_bytes, cases[i].bytes);
		assert_int_equal(port->htb_class.cburst_bytes, cases[i].bytes);
		free(t.list);
	}
}

static void tree_build_leaves_share_alike_and_hold_the_limit(void **state)
{
	struct tree_spec spec = spec_of(200000000, 2, 4, 3);
	struct tree t;
	uint32_t c, s, k;

	(void)state;
	spec.qp_class = 1;
	spec.mtu_bytes = 4200;
	t = build(&spec);
	for (c = 0; c < 2; c++)
		for (s = 0; s < 4; s++) {
			const struct tc_object *leaf =
				find_class(&t, TREE_INNER + c, MINOR_SLOT + s);
			const struct tc_object *queue =
				find_qdisc(&t, TREE_SLOT_LEAF + c * SLOTS_MAX + s);

			assert_int_equal(leaf->htb_class.quantum_bytes, 4222);
			assert_int_equal(leaf->htb_class.rate_bps, TREE_OPEN_BPS);
			assert_int_equal(leaf->parent, TREE_HANDLE(TREE_INNER + c));
			assert_int_equal(queue->kind, TC_BFIFO);
			assert_int_equal(queue->parent, leaf->handle);
			assert_int_equal(queue->fifo.limit, LIMIT_BYTES + c);
		}
	for (k = 0; k < 3; k++) {
		const struct tc_object *leaf = find_class(&t, TREE_INNER + 1, MINOR_QP + k);
		const struct tc_object *queue = find_qdisc(&t, TREE_QP_LEAF + k);

		assert_int_equal(leaf->htb_class.quantum_bytes, 4222);
		assert_int_equal(leaf->htb_class.rate_bps, 200000000);
		assert_int_equal(leaf->htb_class.burst_bytes, 2 * 4222);
		assert_int_equal(queue->parent, leaf->handle);
		assert_int_equal(queue->fifo.limit, LIMIT_BYTES + 1);
	}
	free(t.list);
}

static void tree_build_gates_are_open_and_inner_htbs_have_a_default(void **state)
{
	struct tree_spec spec = spec_of(200000000, 2, 4, 0);
	struct tree t = build(&spec);
	const struct tc_object *gate = find_qdisc(&t, TREE_GATE + 1);
	const struct tc_object *inner = find_qdisc(&t, TREE_INNER + 1);
	struct tc_object made = tree_gate(&spec, 1, false);

	(void)state;
	assert_false(gate->tbf.closed);
	assert_true(tc_equal(gate, &made, TICK_NS));
	assert_true(gate->tbf.burst_bytes >= 524280); /* the longest GSO frame there is */
	assert_int_equal(gate->parent, TREE_CLASS(TREE_ROOT, MINOR_PRIORITY + 1));
	assert_int_equal(inner->parent, TREE_CLASS(TREE_GATE + 1, MINOR_GATE_CHILD));
	assert_int_equal(inner->htb.default_minor, MINOR_SLOT + SLOT_LOCAL);
	free(t.list);
}

/* The kernel does not change it. */
static void tree_build_class_with_classes_has_the_same_quantum_whatever_the_mtu(void **state)
{
	struct tree_spec spec = spec_of(200000000, 2, 4, 0);
	struct tree before, after;

	(void)state;
	before = build(&spec);
	spec.mtu_bytes = 9000;
	after = build(&spec);
	assert_int_equal(find_class(&before, TREE_ROOT, MINOR_PORT)->htb_class.quantum_bytes,
		find_class(&after, TREE_ROOT, MINOR_PORT)->htb_class.quantum_bytes);
	free(before.list);
	free(after.list);
}

static void tree_build_sink_stands_beside_the_port_and_holds_nothing(void **state)
{
	struct tree_spec spec = spec_of(200000000, 1, 2, 0);
	struct tree t = build(&spec);

	(void)state;
	assert_int_equal(find_class(&t, TREE_ROOT, MINOR_SINK)->parent, TREE_HANDLE(TREE_ROOT));
	assert_int_equal(find_qdisc(&t, TREE_SINK_LEAF)->kind, TC_PFIFO);
	assert_int_equal(find_qdisc(&t, TREE_SINK_LEAF)->fifo.limit, 0);
	free(t.list);
}

static void tree_qp_class_burst_grows_with_high_rates(void **state)
{
	struct tree_spec spec = spec_of(100000000000ull, 1, 2, 1);

	(void)state;
	assert_int_equal(tree_qp_class(&spec, 0, 10000000).htb_class.burst_bytes, 3044);
	assert_int_equal(tree_qp_class(&spec, 0, 100000000000ull).htb_class.burst_bytes, 125000);
	assert_int_equal(tree_qp_class(&spec, 0xfff, 8000).handle, TREE_CLASS(TREE_INNER, 0x1fff));
}

static void rejected(struct tree_spec spec, const char *part)
{
	struct tc_object *list;
	struct qerr err = {};
	size_t n;

	assert_int_equal(tree_build(&spec, &list, &n, &err), -EINVAL);
	assert_null(list);
	if (!strstr(err.text, part))
		fail_msg("'%s' does not say '%s'", err.text, part);
}

static void tree_spec_check_names_what_does_not_fit(void **state)
{
	const struct tree_spec good = spec_of(200000000, 2, 4, 3);
	struct tree_spec bad;

	(void)state;
	bad = good, bad.rate_bps = 7999, rejected(bad, "port rate of 7999");
	bad = good, bad.rate_bps = 1000000000001ull, rejected(bad, "port rate");
	bad = good, bad.mtu_bytes = 67, rejected(bad, "MTU of 67");
	bad = good, bad.mtu_bytes = 65536, rejected(bad, "MTU");
	bad = good, bad.classes_count = CLASSES_MAX + 1, rejected(bad, "9 classes");
	bad = good, bad.slots = 0, rejected(bad, "0 slots");
	bad = good, bad.slots = SLOTS_MAX + 1, rejected(bad, "65 slots");
	bad = good, bad.classes[1].limit_bytes = 1521, rejected(bad, "class 1: its limit of 1521");
	bad = good, bad.classes[1].share_percent = 90, rejected(bad, "shares of 90%");
	bad = good, bad.classes[1].share_percent = 101, rejected(bad, "class 1: a share of 101%");
	bad = good, bad.qp_count = QP_CLASSES_MAX + 1, rejected(bad, "4097 QP classes");
	bad = good, bad.qp_class = 2, rejected(bad, "QP classes in class 2");
	bad = good, bad.line_rate_bps = 0, rejected(bad, "line rate of 0");
}

static void tree_compare_names_the_first_difference(void **state)
{
	struct tree_spec spec = spec_of(200000000, 2, 4, 3);
	struct tree want = build(&spec), have = build(&spec);
	struct qerr err = {};

	(void)state;
	assert_int_equal(tree_compare(want.list, want.n, have.list, have.n, TICK_NS, &err), 0);
	have.list[3].fifo.limit++;
	assert_int_equal(tree_compare(want.list, want.n, have.list, have.n, TICK_NS, &err), -EIO);
	assert_non_null(strstr(err.text, "wanted bfifo qdisc 9031:"));
	have.list[3].fifo.limit--;
	assert_int_equal(
		tree_compare(want.list, want.n, have.list, have.n - 1, TICK_NS, &err), -EIO);
	assert_non_null(strstr(err.text, "is not there"));
	assert_int_equal(tree_compare(want.list, want.n, NULL, 0, TICK_NS, &err), -EIO);
	free(want.list);
	free(have.list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tree_build_makes_parents_before_children_and_nothing_twice),
		cmocka_unit_test(tree_build_every_object_is_one_the_kernel_takes),
		cmocka_unit_test(tree_build_default_class_comes_first),
		cmocka_unit_test(tree_build_shares_never_exceed_the_port),
		cmocka_unit_test(tree_build_shares_are_10_80_10),
		cmocka_unit_test(tree_build_shares_in_percent_come_before_the_others),
		cmocka_unit_test(tree_build_shares_leave_a_rate_to_everybody),
		cmocka_unit_test(tree_build_port_burst_is_1_ms_and_two_frames_at_least),
		cmocka_unit_test(tree_build_leaves_share_alike_and_hold_the_limit),
		cmocka_unit_test(tree_build_gates_are_open_and_inner_htbs_have_a_default),
		cmocka_unit_test(
			tree_build_class_with_classes_has_the_same_quantum_whatever_the_mtu),
		cmocka_unit_test(tree_build_sink_stands_beside_the_port_and_holds_nothing),
		cmocka_unit_test(tree_qp_class_burst_grows_with_high_rates),
		cmocka_unit_test(tree_spec_check_names_what_does_not_fit),
		cmocka_unit_test(tree_compare_names_the_first_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
