// SPDX-License-Identifier: BSD-2-Clause
// Queue trees in this machine's kernel, in a network namespace that ends with the process. What
// was installed is judged twice: by our own reading, and by what `tc` says. Needs root.
#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/pkt_cls.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <linux/bpf.h>

#include "netlink/link.h"
#include "netlink/link_upper.h"
#include "netlink/rtnl.h"
#include "netlink/tc.h"
#include "reconcile/apply.h"
#include "reconcile/tree.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PORT	      "q0"
#define PEER	      "q1"
#define TEXT_MAX      65536

enum { FRAME_BYTES = 200, FRAME_BYTES_MAX = 1400, WAIT_MS = 5000 };

static struct rtnl *nl;
static int port_index;

static void run(const char *command)
{
	if (system(command))
		fail_msg("failed: %s", command);
}

/* What the command prints, for free(). */
static char *output_of(const char *command)
{
	char *text = calloc(1, TEXT_MAX);
	FILE *f = popen(command, "r");
	size_t got;

	assert_non_null(text);
	assert_non_null(f);
	got = fread(text, 1, TEXT_MAX - 1, f);
	text[got] = '\0';
	assert_int_equal(pclose(f), 0);
	return text;
}

static json_t *json_of(const char *command)
{
	char *text = output_of(command);
	json_error_t error;
	json_t *json = json_loads(text, 0, &error);

	free(text);
	if (!json)
		fail_msg("%s: %s", command, error.text);
	return json;
}

/* What `tc` lists first under that handle ("9000:" or "9000:1"); NULL if nothing. */
static json_t *by_handle(json_t *list, const char *key, const char *handle)
{
	const char *value;
	json_t *item;
	size_t i;

	json_array_foreach (list, i, item) {
		value = json_string_value(json_object_get(item, key));
		if (value && !strcmp(value, handle))
			return item;
	}
	return NULL;
}

static json_int_t number(json_t *item, const char *key)
{
	json_t *value = json_object_get(item, key);

	if (!json_is_integer(value))
		fail_msg("tc gives no number '%s'", key);
	return json_integer_value(value);
}

static struct tree_spec spec_of(uint64_t rate_bps, uint32_t slots, uint32_t qps)
{
	struct tree_spec spec = {.rate_bps = rate_bps,
		.mtu_bytes = 1500,
		.classes_count = 3,
		.classes = {{1 << 20}, {200000}, {300000}},
		.slots = slots,
		.qp_count = qps,
		.qp_class = 1,
		.line_rate_bps = rate_bps};

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

static void install(const struct tree *t)
{
	struct qerr err = {};

	if (tree_install(nl, port_index, t->list, t->n, false, &err))
		fail_msg("%s", err.text);
}

static void take_off(void)
{
	struct qerr err = {};

	if (tree_remove(nl, port_index, &err) || err.text[0])
		fail_msg("%s", err.text);
}

static void text_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' does not say '%s'", text, part);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Frames that have come out at the other end, since the start. */
static long peer_frames(void)
{
	char *text = output_of("ip -s -j link show dev " PEER " | tr ',' '\\n' |"
			       " sed -n '/\"rx\"/,/\"tx\"/s/.*\"packets\"://p'");
	long frames = strtol(text, NULL, 10);

	free(text);
	return frames;
}

static void send_frames(int count, uint32_t priority, size_t bytes)
{
	struct ethhdr frame[FRAME_BYTES_MAX / sizeof(struct ethhdr)] = {
		{.h_dest = {2, 0, 0, 0, 0, 1}, .h_proto = htons(ETH_P_802_EX1)}};
	const struct sockaddr_ll to = {
		.sll_family = AF_PACKET, .sll_ifindex = port_index, .sll_halen = ETH_ALEN};
	const int room = 8 << 20;
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)), 0);
	while (count--)
		sendto(fd, frame, bytes, 0, (const struct sockaddr *)&to, sizeof(to));
	close(fd);
}

static struct tc_qdisc_stats stats_of(uint32_t major)
{
	struct tc_qdisc_stats stats;
	struct qerr err = {};

	if (tc_stats(nl, port_index, TREE_HANDLE(major), &stats, &err))
		fail_msg("%s", err.text);
	return stats;
}

static void apply(const struct tc_object *obj, enum tc_op op)
{
	struct qerr err = {};

	if (tc_apply(nl, port_index, obj, op, &err))
		fail_msg("%s", err.text);
}

static void link_get_describes_a_veth(void **state)
{
	static const uint8_t mac[] = {2, 0, 0, 0, 0, 7};
	struct link_info info;
	struct qerr err = {};

	(void)state;
	if (link_get(nl, PORT, &info, &err))
		fail_msg("%s", err.text);
	assert_int_equal(info.ifindex, (int)if_nametoindex(PORT));
	assert_string_equal(info.name, PORT);
	assert_string_equal(info.kind, "veth");
	assert_int_equal(info.mtu_bytes, 1500);
	assert_memory_equal(info.mac, mac, sizeof(mac));
	assert_true(info.ethernet && info.up && info.running);
	assert_true(info.tx_queues >= 1);
}

static void link_get_without_the_interface_is_enodev(void **state)
{
	struct link_info info;
	struct qerr err = {};

	(void)state;
	assert_int_equal(link_get(nl, "absent0", &info, &err), -ENODEV);
	assert_string_equal(err.text, "port absent0: no such interface");
	assert_int_equal(link_get(nl, "name-of-16-chars", &info, &err), -EINVAL);
	assert_int_equal(link_get(nl, "", &info, &err), -EINVAL);
}

static const struct link_info *link_named(const struct link_info *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	fail_msg("%s is not in the list", name);
	return NULL;
}

static void link_list_has_every_interface_and_what_it_stands_on(void **state)
{
	const struct link_info *bridge, *macvlan;
	struct link_info *list;
	struct qerr err = {};
	char bottoms[64];
	size_t n;

	(void)state;
	run("ip link add br0 type bridge && ip link add mv0 link br0 type macvlan");
	run("ip link add s0 type veth peer name s1 && ip link set s0 master br0 && "
	    "ip link set s1 master br0");
	assert_int_equal(link_list(nl, &list, &n, &err), 0);
	bridge = link_named(list, n, "br0");
	macvlan = link_named(list, n, "mv0");
	assert_string_equal(bridge->kind, "bridge");
	assert_int_equal(macvlan->lower_ifindex, bridge->ifindex);
	assert_int_equal(link_named(list, n, "s1")->master_ifindex, bridge->ifindex);
	assert_int_equal(link_named(list, n, PORT)->ifindex, port_index);
	assert_int_equal(link_upper_bottoms(list, n, macvlan, bottoms, sizeof(bottoms)), 0);
	assert_true(!strcmp(bottoms, "s0, s1") || !strcmp(bottoms, "s1, s0"));
	free(list);
	run("ip link del mv0 && ip link del br0 && ip link del s0");
}

/* Is it that rate? tc cuts off what its unit cannot show, and so nothing of a round number. */
static bool rate_is(const char *text, uint64_t rate_bps)
{
	static const struct {
		const char *name;
		uint64_t bps;
	} units[] = {{"bit ", 1}, {"Kbit ", 1000}, {"Mbit ", 1000000}, {"Gbit ", 1000000000},
		{"Tbit ", 1000000000000}};
	unsigned long long value;
	char *end;
	size_t i;

	value = strtoull(text, &end, 10);
	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (!strncmp(end, units[i].name, strlen(units[i].name)))
			return value == rate_bps / 8 * 8 / units[i].bps;
	return false;
}

static const char *text_after(const char *text, const char *part)
{
	const char *at = strstr(text, part);

	if (!at)
		fail_msg("no '%s' in '%s'", part, text);
	return at + strlen(part);
}

/* Every HTB class of the tree, as `tc` shows it. */
static void judge_classes(const struct tree *t)
{
	char *text = output_of("tc -d class show dev " PORT), head[64];
	const char *line;
	size_t i;

	for (i = 0; i < t->n; i++) {
		const struct tc_object *obj = &t->list[i];

		if (obj->kind != TC_HTB_CLASS)
			continue;
		snprintf(head, sizeof(head), "class htb %x:%x ", obj->handle >> 16,
			TC_H_MIN(obj->handle));
		line = text_after(text, head);
		if (!rate_is(text_after(line, "rate "), obj->htb_class.rate_bps) ||
			!rate_is(text_after(line, "ceil "), obj->htb_class.ceil_bps))
			fail_msg("%s%.80s", head, line);
	}
	text_has(text, " prio 0 quantum 1522 rate ");
	free(text);
}

static void judge_qdiscs(const struct tree *t)
{
	json_t *list = json_of("tc -s -d -j qdisc show dev " PORT), *item, *options;
	char handle[16], parent[16];
	size_t i;

	for (i = 0; i < t->n; i++) {
		const struct tc_object *obj = &t->list[i];

		if (tc_is_class(obj))
			continue;
		snprintf(handle, sizeof(handle), "%x:", obj->handle >> 16);
		item = by_handle(list, "handle", handle);
		if (!item)
			fail_msg("tc does not show qdisc %s", handle);
		options = json_object_get(item, "options");
		snprintf(parent, sizeof(parent), "%x:%x", obj->parent >> 16, TC_H_MIN(obj->parent));
		if (obj->parent == TC_H_ROOT)
			assert_true(json_is_true(json_object_get(item, "root")));
		else
			assert_string_equal(
				json_string_value(json_object_get(item, "parent")), parent);
		if (obj->kind == TC_TBF)
			assert_int_equal(number(options, "rate"), obj->tbf.rate_bps / 8);
	}
	json_decref(list);
}

/* Plain text has what the JSON of some tc versions leaves out: limits and the default class. */
static void judge_limits(const struct tree *t)
{
	char *text = output_of("tc qdisc show dev " PORT), line[64];
	size_t i;

	text_has(text, "qdisc htb 9000: root refcnt");
	text_has(text, "default 0x30");
	for (i = 0; i < t->n; i++) {
		const struct tc_object *obj = &t->list[i];

		if (obj->kind != TC_BFIFO)
			continue;
		snprintf(line, sizeof(line), "qdisc bfifo %x: parent %x:%x limit ",
			obj->handle >> 16, obj->parent >> 16, TC_H_MIN(obj->parent));
		text_has(text, line);
	}
	text_has(text, "qdisc pfifo 9032: parent 9000:31 limit 0p");
	text_has(text, "qdisc bfifo a000: parent 9020:1 limit 1Mb");
	text_has(text, "qdisc bfifo b000: parent 9021:1000 limit 200000b");
	free(text);
}

static void tree_installs_exactly_from_8_kbit_to_400_gbit(void **state)
{
	static const uint64_t rates_bps[] = {8000, 64000, 1000000, 200000000, 10000000000ull,
		34300000000ull, 34400000000ull, 35000000000ull, 100000000000ull, 400000000000ull};
	char *before = output_of("tc qdisc show dev " PORT), *after;
	struct tc_object *have;
	struct qerr err = {};
	size_t i, n;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rates_bps); i++) {
		struct tree_spec spec = spec_of(rates_bps[i], 4, 8);
		struct tree t = build(&spec);

		install(&t);
		assert_int_equal(tc_read(nl, port_index, &have, &n, &err), 0);
		if (tree_compare(t.list, t.n, have, n, rtnl_tick_ns(nl), &err))
			fail_msg("%s", err.text);
		assert_int_equal(n, t.n + spec.classes_count); /* and a class of each gate */
		free(have);
		judge_classes(&t);
		judge_qdiscs(&t);
		judge_limits(&t);
		take_off();
		after = output_of("tc qdisc show dev " PORT);
		assert_string_equal(before, after);
		free(after);
		free(t.list);
	}
	free(before);
}

static void tree_of_any_size_installs_in_little_time(void **state)
{
	static const struct {
		uint32_t slots, qps, most_ms;
	} cases[] = {{4, 256, 500}, {SLOTS_MAX, QP_CLASSES_MAX, 10000}};
	uint64_t start_ms, middle_ms, end_ms;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tree_spec spec = spec_of(1000000000, cases[i].slots, cases[i].qps);
		struct tree t = build(&spec);

		start_ms = now_ms();
		install(&t);
		middle_ms = now_ms();
		take_off();
		end_ms = now_ms();
		print_message("%zu objects: installed and verified in %u ms, removed in %u ms\n",
			t.n, (unsigned)(middle_ms - start_ms), (unsigned)(end_ms - middle_ms));
		assert_true(middle_ms - start_ms < cases[i].most_ms);
		free(t.list);
	}
}

static void tree_is_refused_where_somebody_has_a_root(void **state)
{
	struct tree_spec spec = spec_of(1000000, 2, 0);
	struct tree t = build(&spec);
	struct qerr err = {};
	char *text;

	(void)state;
	run("tc qdisc add dev " PORT " root handle 1: htb default 1");
	assert_int_equal(tree_install(nl, port_index, t.list, t.n, false, &err), -EBUSY);
	text_has(err.text, "port " PORT ": somebody else's root qdisc is in place: htb qdisc 1:");
	assert_int_equal(tree_remove(nl, port_index, &err), 0); /* not ours: nothing to do */
	text = output_of("tc qdisc show dev " PORT);
	text_has(text, "qdisc htb 1: root");
	free(text);
	run("tc qdisc del dev " PORT " root");
	free(t.list);
}

static void tree_replaces_mq_if_told_and_a_default_fifo(void **state)
{
	struct tree_spec spec = spec_of(1000000, 2, 0);
	struct tree t = build(&spec);
	char *before, *after;
	struct qerr err = {};
	int index;

	(void)state;
	run("ip tuntap add name many0 mode tap multi_queue && ip link set many0 up");
	index = (int)if_nametoindex("many0");
	assert_int_equal(tree_install(nl, index, t.list, t.n, false, &err), -EBUSY);
	text_has(err.text, "port many0: the device has a queue per CPU (mq); `replace_mq: true`");
	before = output_of("tc qdisc show dev many0");
	if (tree_install(nl, index, t.list, t.n, true, &err))
		fail_msg("%s", err.text);
	assert_int_equal(tree_remove(nl, index, &err), 0);
	after = output_of("tc qdisc show dev many0");
	assert_string_equal(before, after);
	free(before);
	free(after);
	run("ip link del many0");

	run("ip tuntap add name one0 mode tap && ip link set one0 up");
	index = (int)if_nametoindex("one0");
	before = output_of("tc qdisc show dev one0");
	assert_null(strstr(before, "noqueue"));
	if (tree_install(nl, index, t.list, t.n, false, &err))
		fail_msg("%s", err.text);
	assert_int_equal(tree_remove(nl, index, &err), 0);
	after = output_of("tc qdisc show dev one0");
	assert_string_equal(before, after);
	run("ip link del one0");
	free(before);
	free(after);
	free(t.list);
}

static void tree_left_by_an_earlier_agent_is_eexist(void **state)
{
	struct tree_spec spec = spec_of(1000000, 2, 0);
	struct tree t = build(&spec);
	struct qerr err = {};

	(void)state;
	install(&t);
	assert_int_equal(tree_install(nl, port_index, t.list, t.n, false, &err), -EEXIST);
	text_has(err.text, "port " PORT ": the queue tree of an earlier agent is in place");
	assert_int_equal(stats_of(TREE_ROOT).backlog_bytes, 0); /* and it still is */
	take_off();
	take_off(); /* absent: success */
	free(t.list);
}

static void tree_install_failing_in_the_middle_leaves_nothing(void **state)
{
	struct tree_spec spec = spec_of(1000000, 2, 40);
	struct tree t = build(&spec);
	char *before = output_of("tc qdisc show dev " PORT), *after;
	struct qerr err = {};

	(void)state;
	t.list[30] = t.list[12]; /* a second time the same */
	assert_int_equal(tree_install(nl, port_index, t.list, t.n, false, &err), -EEXIST);
	text_has(err.text, "port " PORT ": cannot create");
	text_has(err.text, "File exists");
	after = output_of("tc qdisc show dev " PORT);
	assert_string_equal(before, after);
	free(before);
	free(after);
	free(t.list);
}

static void gate_closed_holds_every_frame_and_removal_lets_them_out(void **state)
{
	struct tree_spec spec = spec_of(100000000, 2, 0);
	struct tree t = build(&spec);
	struct tc_object gate = tree_gate(&spec, 0, true), *have;
	struct qerr err = {};
	size_t i, n;
	bool seen = false;
	long before;

	(void)state;
	install(&t);
	apply(&gate, TC_CHANGE);
	assert_int_equal(tc_read(nl, port_index, &have, &n, &err), 0);
	for (i = 0; i < n; i++)
		seen = seen || (have[i].kind == TC_TBF && tc_equal(&have[i], &gate, 64));
	assert_true(seen);
	free(have);

	before = peer_frames();
	send_frames(50, TREE_CLASS(TREE_ROOT, MINOR_PRIORITY), FRAME_BYTES);
	assert_int_equal(stats_of(TREE_GATE).qlen, 50);
	assert_int_equal(stats_of(TREE_GATE).backlog_bytes, 50 * FRAME_BYTES);
	assert_int_equal(stats_of(TREE_GATE).drops, 0);
	assert_int_equal(peer_frames(), before);
	take_off();
	assert_int_equal(peer_frames(), before + 50);
	free(t.list);
}

static void gate_opened_and_kicked_lets_frames_out(void **state)
{
	struct tree_spec spec = spec_of(100000000, 2, 0);
	struct tree t = build(&spec);
	struct tc_object closed = tree_gate(&spec, 1, true), open = tree_gate(&spec, 1, false);
	uint64_t end_ms;
	long before;
	int kick;

	(void)state;
	install(&t);
	apply(&closed, TC_CHANGE);
	before = peer_frames();
	send_frames(20, TREE_CLASS(TREE_ROOT, MINOR_PRIORITY + 1), FRAME_BYTES);
	apply(&open, TC_CHANGE);
	kick = link_kick_open(NULL);
	assert_true(kick >= 0);
	assert_int_equal(link_kick(kick, port_index, TREE_CLASS(TREE_ROOT, MINOR_SINK)), 0);
	close(kick);
	end_ms = now_ms() + WAIT_MS;
	while (stats_of(TREE_ROOT).qlen && now_ms() < end_ms)
		;
	assert_int_equal(stats_of(TREE_ROOT).qlen, 0);
	assert_int_equal(stats_of(TREE_SINK_LEAF).drops, 1); /* the kick, and it did not leave */
	assert_int_equal(peer_frames(), before + 20);
	take_off();
	free(t.list);
}

static void tree_removal_drains_a_slow_port(void **state)
{
	struct tree_spec spec = spec_of(100000, 2, 0); /* a frame takes 16 ms */
	struct tree t = build(&spec);
	long before = peer_frames();

	(void)state;
	install(&t);
	send_frames(100, TREE_CLASS(TREE_ROOT, MINOR_PRIORITY), FRAME_BYTES);
	assert_true(stats_of(TREE_ROOT).qlen > 50);
	take_off();
	assert_int_equal(peer_frames(), before + 100);
	free(t.list);
}

static void batch_changes_rates_and_reports_only_faults(void **state)
{
	struct tree_spec spec = spec_of(1000000000, 2, 256);
	struct tree t = build(&spec);
	struct tc_object *have;
	struct rtnl_faults faults;
	struct qerr err = {};
	size_t i, n;
	uint32_t k;

	(void)state;
	install(&t);
	for (k = 0; k < 300; k++) { /* 256 of them exist */
		struct tc_object obj = tree_qp_class(&spec, k, 1000000 + 8 * k);

		assert_int_equal(tc_batch(nl, port_index, &obj, TC_CHANGE, &err), 0);
	}
	assert_int_equal(rtnl_batch_count(nl), 300);
	assert_int_equal(rtnl_batch_send(nl), 0);
	assert_int_equal(rtnl_batch_errors(nl, &faults), 44);
	assert_int_equal(faults.first.index, 256);
	assert_int_equal(faults.last.index, 299);
	assert_int_equal(faults.first.code, -ENOENT);
	assert_true(faults.last.text[0]);
	assert_int_equal(rtnl_batch_errors(nl, &faults), 0);

	assert_int_equal(tc_read(nl, port_index, &have, &n, &err), 0);
	for (i = 0, k = 0; i < n; i++) {
		uint32_t minor = TC_H_MIN(have[i].handle);

		if (have[i].kind != TC_HTB_CLASS || minor < MINOR_QP)
			continue;
		assert_int_equal(have[i].htb_class.rate_bps, 1000000 + 8 * (minor - MINOR_QP));
		assert_int_equal(have[i].htb_class.burst_bytes, 3044);
		k++;
	}
	assert_int_equal(k, 256);
	free(have);
	take_off();
	free(t.list);
}

static void batch_full_says_so_and_goes_on(void **state)
{
	struct tc_object obj = {.kind = TC_PFIFO, .handle = 0x770000, .parent = 0x10001};
	struct rtnl_faults faults;
	uint32_t n = 0;

	(void)state;
	while (!tc_batch(nl, port_index, &obj, TC_CHANGE, NULL))
		n++;
	assert_int_equal(tc_batch(nl, port_index, &obj, TC_CHANGE, NULL), -ENOSPC);
	assert_int_equal(rtnl_batch_count(nl), n);
	assert_true(n > 500);
	assert_int_equal(rtnl_batch_send(nl), 0);
	assert_int_equal(rtnl_batch_count(nl), 0);
	assert_int_equal(rtnl_batch_errors(nl, &faults), n);
	assert_int_equal(rtnl_batch_send(nl), 0); /* empty */
}

static void batch_faults_nobody_reads_do_not_break_later_requests(void **state)
{
	struct tc_object obj = {.kind = TC_PFIFO, .handle = 0x770000, .parent = 0x10001};
	struct rtnl_faults faults;
	struct link_info info;
	struct tc_object *list;
	struct qerr err = {};
	struct rtnl *deaf;
	size_t n;
	int i;

	(void)state;
	assert_int_equal(rtnl_open(&deaf, &err), 0);
	for (i = 0; i < 60000; i++)
		if (tc_batch(deaf, port_index, &obj, TC_CHANGE, NULL) == -ENOSPC)
			rtnl_batch_send(deaf);
	rtnl_batch_send(deaf);
	/* Its own answer may be among what was lost, but then that is what it says. */
	i = link_get(deaf, PORT, &info, &err);
	assert_true(i == 0 || i == -ENOBUFS);
	assert_int_equal(link_get(deaf, PORT, &info, &err), 0);
	assert_int_equal(tc_read(deaf, port_index, &list, &n, &err), 0);
	free(list);
	assert_true(rtnl_batch_errors(deaf, &faults) > 1000);
	rtnl_close(deaf);
}

static void warning_with_success_is_kept_apart(void **state)
{
	_Alignas(struct nlmsghdr) char buf[RTNL_MESSAGE_MAX];
	struct tree_spec spec = spec_of(1000000000, 1, 0);
	struct tree t = build(&spec);
	struct tc_object obj = t.list[1];
	struct qerr err = {};
	uint32_t *word;

	(void)state;
	install(&t);
	obj.handle = TREE_CLASS(TREE_ROOT, 0x77);
	obj.htb_class.rate_bps = 35000000000ull;
	obj.htb_class.ceil_bps = 35000000000ull;
	obj.htb_class.quantum_bytes = 0x12345678;
	assert_int_equal(
		tc_put(buf, sizeof(buf), port_index, &obj, TC_CREATE, rtnl_tick_ns(nl), &err), 0);
	for (word = (void *)buf; *word != 0x12345678;)
		word++;
	*word = 0; /* let the kernel choose, which it comments on */
	assert_int_equal(rtnl_talk(nl, (void *)buf, NULL, NULL, &err), 0);
	text_has(rtnl_warning(nl), "quantum of class");
	assert_string_equal(err.text, "");
	obj.htb_class.quantum_bytes = 1522;
	apply(&obj, TC_CHANGE);
	assert_string_equal(rtnl_warning(nl), "");
	take_off();
	free(t.list);
}

static void refusal_names_port_object_and_the_kernels_reason(void **state)
{
	struct tc_object obj = {.kind = TC_PFIFO, .handle = 0x770000, .parent = 0x10001};
	struct qerr err = {};

	(void)state;
	assert_int_equal(tc_apply(nl, port_index, &obj, TC_CREATE, &err), -ENOENT);
	text_has(err.text, "port " PORT ": cannot create pfifo qdisc 77:: ");
	text_has(err.text, "(No such file or directory)");
}

static void stats_of_an_absent_qdisc_are_enoent(void **state)
{
	struct tc_qdisc_stats stats;
	struct qerr err = {};

	(void)state;
	assert_int_equal(tc_stats(nl, port_index, 0x770000, &stats, &err), -ENOENT);
	text_has(err.text, "port " PORT ": cannot read qdisc 77:");
}

/* tc_classid = minor; return TC_ACT_OK */
static int load_program(uint16_t minor)
{
	const struct bpf_insn program[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = minor},
		{.code = BPF_STX | BPF_MEM | BPF_W, /* of a constant: Linux 6.4 and later */
			.dst_reg = 1,
			.src_reg = 2,
			.off = offsetof(struct __sk_buff, tc_classid)},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = TC_ACT_OK},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_SCHED_CLS,
		.insns = (uintptr_t)program,
		.insn_cnt = ARRAY_SIZE(program),
		.license = (uintptr_t) "GPL"};

	return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

static void filter_on_the_root_places_frames_by_its_minor(void **state)
{
	const uint32_t root = TREE_HANDLE(TREE_ROOT);
	struct tree_spec spec = spec_of(100000000, 1, 0);
	struct tree t = build(&spec);
	struct qerr err = {};
	int prog = load_program(MINOR_SINK);
	char *text;

	(void)state;
	assert_true(prog >= 0);
	install(&t);
	if (tc_filter_bpf_add(nl, port_index, root, 5, prog, "to_sink", root, false, &err))
		fail_msg("%s", err.text);
	text = output_of("tc filter show dev " PORT);
	text_has(text, "pref 5 bpf");
	text_has(text, "handle 0x1 flowid 9000: to_sink direct-action");
	free(text);
	send_frames(7, 0, FRAME_BYTES);
	assert_int_equal(stats_of(TREE_SINK_LEAF).drops, 7);
	assert_int_equal(
		tc_filter_bpf_add(nl, port_index, root, 5, prog, "again", root, false, &err),
		-EEXIST);
	text_has(err.text, "port " PORT ": cannot attach the BPF filter");
	if (tc_filter_bpf_add(nl, port_index, root, 5, prog, "again", root, true, &err))
		fail_msg("%s", err.text);
	text = output_of("tc filter show dev " PORT);
	text_has(text, "handle 0x1 flowid 9000: again direct-action");
	free(text);
	assert_int_equal(tc_filter_bpf_del(nl, port_index, root, 5, &err), 0);
	assert_int_equal(tc_filter_bpf_del(nl, port_index, root, 5, &err), -ENOENT);
	send_frames(7, 0, FRAME_BYTES);
	assert_int_equal(stats_of(TREE_SINK_LEAF).drops, 7);
	close(prog);
	take_off();
	free(t.list);
}

/* Leaves at an "open" rate must never wait for themselves: only their turns decide. */
static void ingress_leaves_share_a_port_by_bytes(void **state)
{
	const uint32_t root = TREE_HANDLE(TREE_ROOT), slot = TREE_CLASS(TREE_INNER, MINOR_SLOT);
	struct tree_spec spec = spec_of(20000000, 3, 0);
	struct tree t = build(&spec);
	struct tc_object closed = tree_gate(&spec, 0, true), open = tree_gate(&spec, 0, false);
	uint32_t small, large, queued = 300 * 400;
	int prog = load_program(MINOR_PRIORITY), kick = link_kick_open(NULL);
	uint64_t end_ms = now_ms() + WAIT_MS;

	(void)state;
	assert_true(prog >= 0 && kick >= 0);
	install(&t);
	assert_int_equal(
		tc_filter_bpf_add(nl, port_index, root, 1, prog, "p", root, false, NULL), 0);
	apply(&closed, TC_CHANGE);
	send_frames(300, slot + 1, 400);
	send_frames(100, slot + 2, 1200);
	assert_int_equal(stats_of(TREE_GATE).backlog_bytes, 2 * queued);
	apply(&open, TC_CHANGE);
	link_kick(kick, port_index, TREE_CLASS(TREE_ROOT, MINOR_SINK));
	do {
		small = stats_of(TREE_SLOT_LEAF + 1).backlog_bytes;
		large = stats_of(TREE_SLOT_LEAF + 2).backlog_bytes;
	} while (small > queued / 2 && now_ms() < end_ms);
	print_message("left: %u bytes in short frames, %u in long ones\n", small, large);
	assert_in_range(small, queued / 4, queued / 2);
	assert_in_range(large, small - queued / 10, small + queued / 10);
	close(kick);
	close(prog);
	free(t.list);
}

static void fast_port_does_not_stop_after_every_frame(void **state)
{
	struct tree_spec spec = spec_of(35000000000ull, 2, 0);
	struct tree t = build(&spec);
	long before = peer_frames();

	(void)state;
	install(&t);
	send_frames(2000, TREE_CLASS(TREE_ROOT, MINOR_PRIORITY), FRAME_BYTES_MAX);
	take_off();
	assert_int_equal(peer_frames(), before + 2000);
	install(&t);
	send_frames(2000, TREE_CLASS(TREE_ROOT, MINOR_PRIORITY), FRAME_BYTES_MAX);
	assert_in_range(stats_of(TREE_ROOT).overlimits, 0, 20);
	free(t.list);
}

static void clsact_carries_filters_and_goes_without_a_trace(void **state)
{
	static const uint32_t parents[] = {TC_CLSACT_INGRESS, TC_CLSACT_EGRESS};
	char *before = output_of("tc qdisc show dev " PORT), *after;
	struct qerr err = {};
	int prog = load_program(MINOR_SINK);
	size_t i;

	(void)state;
	assert_true(prog >= 0);
	assert_int_equal(tc_clsact_del(nl, port_index, &err), -ENOENT);
	if (tc_clsact_add(nl, port_index, &err))
		fail_msg("%s", err.text);
	assert_int_equal(tc_clsact_add(nl, port_index, &err), -EEXIST);
	for (i = 0; i < ARRAY_SIZE(parents); i++) {
		if (tc_filter_bpf_add(nl, port_index, parents[i], 9, prog, "hook", 0, false, &err))
			fail_msg("%s", err.text);
		if (tc_filter_bpf_del(nl, port_index, parents[i], 9, &err))
			fail_msg("%s", err.text);
	}
	assert_int_equal(tc_clsact_del(nl, port_index, &err), 0);
	after = output_of("tc qdisc show dev " PORT);
	assert_string_equal(before, after);
	close(prog);
	free(before);
	free(after);
}

static int in_namespace(void **state)
{
	struct qerr err = {};

	(void)state;
	if (geteuid()) {
		print_error("test_kernel_tc needs root: it makes a network namespace\n");
		return -1;
	}
	if (unshare(CLONE_NEWNET) || rtnl_open(&nl, &err)) {
		print_error("no network namespace: %s %s\n", strerror(errno), err.text);
		return -1;
	}
	if (system("ip link add " PORT " address 02:00:00:00:00:07 type veth peer name " PEER
		   " && sysctl -qw net.ipv6.conf." PORT ".disable_ipv6=1"
		   " net.ipv6.conf." PEER ".disable_ipv6=1"
		   " && ip link set " PORT " up && ip link set " PEER " up"))
		return -1;
	port_index = (int)if_nametoindex(PORT);
	return 0;
}

/* A test that failed half way must not make the next ones fail. */
static int bare_port(void **state)
{
	(void)state;
	return tree_remove(nl, port_index, NULL);
}

static int close_socket(void **state)
{
	(void)state;
	rtnl_close(nl);
	return 0;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, bare_port)
	const struct CMUnitTest tests[] = {
		TEST(link_get_describes_a_veth),
		TEST(link_get_without_the_interface_is_enodev),
		TEST(link_list_has_every_interface_and_what_it_stands_on),
		TEST(tree_installs_exactly_from_8_kbit_to_400_gbit),
		TEST(tree_of_any_size_installs_in_little_time),
		TEST(tree_is_refused_where_somebody_has_a_root),
		TEST(tree_replaces_mq_if_told_and_a_default_fifo),
		TEST(tree_left_by_an_earlier_agent_is_eexist),
		TEST(tree_install_failing_in_the_middle_leaves_nothing),
		TEST(gate_closed_holds_every_frame_and_removal_lets_them_out),
		TEST(gate_opened_and_kicked_lets_frames_out),
		TEST(tree_removal_drains_a_slow_port),
		TEST(batch_changes_rates_and_reports_only_faults),
		TEST(batch_full_says_so_and_goes_on),
		TEST(batch_faults_nobody_reads_do_not_break_later_requests),
		TEST(warning_with_success_is_kept_apart),
		TEST(refusal_names_port_object_and_the_kernels_reason),
		TEST(stats_of_an_absent_qdisc_are_enoent),
		TEST(filter_on_the_root_places_frames_by_its_minor),
		TEST(ingress_leaves_share_a_port_by_bytes),
		TEST(fast_port_does_not_stop_after_every_frame),
		TEST(clsact_carries_filters_and_goes_without_a_trace),
	};

	return cmocka_run_group_tests(tests, in_namespace, close_socket);
}
