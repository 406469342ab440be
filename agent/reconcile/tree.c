// SPDX-License-Identifier: BSD-2-Clause
// The queue tree of a port, object by object. The numbers that decide how it behaves are here.
#include "reconcile/tree.h"

#include <errno.h>
#include <stdlib.h>

enum {
	ETHERNET_HEADER_BYTES = 14,
	VLAN_TAGS_BYTES = 8, /* two */
	MTU_MIN_BYTES = 68,
	MTU_MAX_BYTES = 65535,
	BITS = 8,

	CONTROL_SHARE_PERCENT = 10,
	/* Of what CNPs, pauses and shares in percent leave, in parts: the classes without one. */
	AUTO_PARTS = 8,
	ALL_PARTS = 9, /* best effort has the rest */

	/* HTB's prio: who is asked first when what is left of the port's rate is given away. */
	PRIO_CONTROL = 0,
	PRIO_STRICT = 1,
	PRIO_PRIORITIES = 2,
	PRIO_DEFAULT = 3,

	QUANTUM_FRAMES_MAX = 64,
	/* HTB uses none of a class that has classes, and keeps the one that it was made with. */
	QUANTUM_INNER_BYTES = 10000,

	CONTROL_LIMIT_BYTES = 128 * 1024,
	DEFAULT_LIMIT_FRAMES = 1000,
};

/*
 * How long a class may send at the speed of the CPU after it was idle. The port's bridges the gap
 * between two timer wake-ups; a QP's is short because it goes out as one clump, yet must bridge a
 * timer's lateness at high rates. Neither is less than two frames: with less, every frame would
 * wait for a timer.
 */
#define PORT_BURST_NS	1000000u
#define QP_BURST_NS	10000u
#define BURST_FRAMES	2u
#define BURST_MAX_BYTES (64u << 20)

#define SINK_RATE_BPS TREE_RATE_MIN_BPS /* it never sends */

static uint32_t burst_above(uint64_t floor_bytes, uint64_t rate_bps, uint32_t time_ns)
{
	uint64_t bytes = rate_bps / BITS * time_ns / 1000000000u;

	if (bytes < floor_bytes)
		return (uint32_t)floor_bytes;
	return bytes < BURST_MAX_BYTES ? (uint32_t)bytes : BURST_MAX_BYTES;
}

static uint32_t burst_bytes(const struct tree_spec *spec, uint64_t rate_bps, uint32_t time_ns)
{
	return burst_above(BURST_FRAMES * tree_longest_frame(spec), rate_bps, time_ns);
}

uint32_t tree_qp_burst(uint32_t floor_bytes, uint64_t rate_bps)
{
	return burst_above(floor_bytes, rate_bps, QP_BURST_NS);
}

uint32_t tree_longest_frame(const struct tree_spec *spec)
{
	return spec->mtu_bytes + ETHERNET_HEADER_BYTES + VLAN_TAGS_BYTES;
}

static int class_check(const struct tree_spec *spec, size_t c, struct qerr *err)
{
	uint32_t limit = spec->classes[c].limit_bytes;

	if (limit < tree_longest_frame(spec))
		return qerr_set(err, -EINVAL,
			"class %zu: its limit of %u bytes does not hold one frame of %u", c, limit,
			tree_longest_frame(spec));
	return 0;
}

static int shares_check(const struct tree_spec *spec, struct qerr *err)
{
	uint32_t sum = 0;
	size_t c;

	for (c = 0; c < spec->classes_count; c++) {
		if (spec->classes[c].share_percent > 100)
			return qerr_set(err, -EINVAL, "class %zu: a share of %u%%", c,
				spec->classes[c].share_percent);
		sum += spec->classes[c].share_percent;
	}
	if (sum + CONTROL_SHARE_PERCENT >= 100)
		return qerr_set(err, -EINVAL, "shares of %u%%: best effort would have none", sum);
	return 0;
}

static int qps_check(const struct tree_spec *spec, struct qerr *err)
{
	if (!spec->qp_count)
		return 0;
	if (spec->qp_count > QP_CLASSES_MAX)
		return qerr_set(err, -EINVAL, "%u QP classes: a port has room for %d",
			spec->qp_count, QP_CLASSES_MAX);
	if (spec->qp_class >= spec->classes_count)
		return qerr_set(err, -EINVAL, "QP classes in class %u, but there are %zu classes",
			spec->qp_class, spec->classes_count);
	if (spec->line_rate_bps < TREE_RATE_MIN_BPS || spec->line_rate_bps > TREE_RATE_MAX_BPS)
		return qerr_set(err, -EINVAL,
			"a line rate of %llu bit/s: it must be 8 kbit/s to 1 Tbit/s",
			(unsigned long long)spec->line_rate_bps);
	return 0;
}

int tree_spec_check(const struct tree_spec *spec, struct qerr *err)
{
	size_t c;
	int rc;

	if (spec->rate_bps < TREE_RATE_MIN_BPS || spec->rate_bps > TREE_RATE_MAX_BPS)
		return qerr_set(err, -EINVAL,
			"a port rate of %llu bit/s: it must be 8 kbit/s to 1 Tbit/s",
			(unsigned long long)spec->rate_bps);
	if (spec->mtu_bytes < MTU_MIN_BYTES || spec->mtu_bytes > MTU_MAX_BYTES)
		return qerr_set(err, -EINVAL, "an MTU of %u: it must be %d to %d", spec->mtu_bytes,
			MTU_MIN_BYTES, MTU_MAX_BYTES);
	if (spec->classes_count > CLASSES_MAX)
		return qerr_set(err, -EINVAL, "%zu classes: a port has room for %d",
			spec->classes_count, CLASSES_MAX);
	if (!spec->slots || spec->slots > SLOTS_MAX)
		return qerr_set(
			err, -EINVAL, "%u slots: it must be 1 to %d", spec->slots, SLOTS_MAX);
	for (c = 0; c < spec->classes_count; c++) {
		rc = class_check(spec, c, err);
		if (rc)
			return rc;
	}
	rc = shares_check(spec, err);
	return rc ? rc : qps_check(spec, err);
}

static struct tc_object htb(uint32_t major, uint32_t parent, uint32_t default_minor)
{
	return (struct tc_object){.kind = TC_HTB,
		.handle = TREE_HANDLE(major),
		.parent = parent,
		.htb.default_minor = default_minor};
}

static struct tc_object fifo(enum tc_kind kind, uint32_t major, uint32_t parent, uint32_t limit)
{
	return (struct tc_object){
		.kind = kind, .handle = TREE_HANDLE(major), .parent = parent, .fifo.limit = limit};
}

/* A class that may send at rate by right, and up to ceil when there is something left. */
static struct tc_object shared_class(const struct tree_spec *spec, uint32_t minor,
	uint32_t parent_minor, uint64_t rate_bps, uint64_t ceil_bps, uint32_t prio)
{
	return (struct tc_object){.kind = TC_HTB_CLASS,
		.handle = TREE_CLASS(TREE_ROOT, minor),
		.parent = TREE_CLASS(TREE_ROOT, parent_minor),
		.htb_class = {.rate_bps = rate_bps,
			.ceil_bps = ceil_bps,
			.burst_bytes = burst_bytes(spec, rate_bps, PORT_BURST_NS),
			.cburst_bytes = burst_bytes(spec, ceil_bps, PORT_BURST_NS),
			.quantum_bytes = tree_longest_frame(spec),
			.prio = prio}};
}

/* A class of an inner HTB: the quantum of all of them is the same, so they share alike. */
static struct tc_object inner_class(const struct tree_spec *spec, uint32_t cls, uint32_t minor,
	uint64_t rate_bps, uint32_t burst)
{
	return (struct tc_object){.kind = TC_HTB_CLASS,
		.handle = TREE_CLASS(TREE_INNER + cls, minor),
		.parent = TREE_HANDLE(TREE_INNER + cls),
		.htb_class = {.rate_bps = rate_bps,
			.ceil_bps = rate_bps,
			.burst_bytes = burst,
			.cburst_bytes = burst,
			.quantum_bytes = tree_longest_frame(spec)}};
}

struct tc_object tree_gate(const struct tree_spec *spec, uint32_t cls, bool closed)
{
	return (struct tc_object){.kind = TC_TBF,
		.handle = TREE_HANDLE(TREE_GATE + cls),
		.parent = TREE_CLASS(TREE_ROOT, MINOR_PRIORITY + cls),
		.tbf = {.rate_bps = TREE_OPEN_BPS,
			.burst_bytes = TREE_OPEN_BURST_BYTES,
			.limit_bytes = spec->classes[cls].limit_bytes,
			.closed = closed}};
}

struct tc_object tree_qp_class(const struct tree_spec *spec, uint32_t k, uint64_t rate_bps)
{
	return inner_class(spec, spec->qp_class, MINOR_QP + k, rate_bps,
		burst_bytes(spec, rate_bps, QP_BURST_NS));
}

/* The list under construction; it was made large enough. */
struct building {
	struct tc_object *list;
	size_t n;
};

static void add(struct building *b, struct tc_object obj)
{
	b->list[b->n++] = obj;
}

/* In whole bytes a second, so that what is dealt out never adds up to more than the port. */
struct shares {
	uint64_t port_bps, control_bps, default_bps;
	uint64_t class_bps[CLASSES_MAX];
};

/* What classes without a share in percent are assured of, each. */
static uint64_t auto_share(const struct tree_spec *spec, uint64_t rest)
{
	uint64_t n = 0;
	size_t c;

	for (c = 0; c < spec->classes_count; c++)
		n += !spec->classes[c].share_percent;
	return n ? rest * AUTO_PARTS / ALL_PARTS / n : 0;
}

static struct shares shares_of(const struct tree_spec *spec)
{
	uint64_t port = spec->rate_bps / BITS, control = port * CONTROL_SHARE_PERCENT / 100;
	uint64_t rest = port - control, each;
	struct shares s = {.port_bps = port * BITS, .control_bps = control * BITS};
	size_t c;

	for (c = 0; c < spec->classes_count; c++) {
		uint64_t share = port * spec->classes[c].share_percent / 100;

		s.class_bps[c] = share * BITS;
		rest -= share;
	}
	each = auto_share(spec, rest);
	for (c = 0; c < spec->classes_count; c++) {
		if (spec->classes[c].share_percent)
			continue;
		s.class_bps[c] = each * BITS;
		rest -= each;
	}
	s.default_bps = rest * BITS;
	return s;
}

/* What nobody else uses is given away in the proportion of the shares. */
static uint32_t class_quantum(const struct tree_spec *spec, const struct shares *s, uint32_t cls)
{
	uint64_t own_bps = s->class_bps[cls], least_bps = own_bps, frame = tree_longest_frame(spec);
	size_t c;

	for (c = 0; c < spec->classes_count && !spec->classes[cls].strict; c++)
		if (!spec->classes[c].strict && s->class_bps[c] < least_bps)
			least_bps = s->class_bps[c];
	if (own_bps / least_bps >= QUANTUM_FRAMES_MAX)
		return (uint32_t)(QUANTUM_FRAMES_MAX * frame);
	return (uint32_t)(own_bps * frame / least_bps);
}

/* The root down to where frames go as long as nothing places them. */
static void add_root(struct building *b, const struct tree_spec *spec, const struct shares *s)
{
	struct tc_object port = shared_class(spec, MINOR_PORT, 0, s->port_bps, s->port_bps, 0);

	port.htb_class.quantum_bytes = QUANTUM_INNER_BYTES;
	add(b, htb(TREE_ROOT, TC_H_ROOT, MINOR_DEFAULT));
	add(b, port);
	add(b, shared_class(
		       spec, MINOR_DEFAULT, MINOR_PORT, s->default_bps, s->port_bps, PRIO_DEFAULT));
	add(b, fifo(TC_BFIFO, TREE_DEFAULT_LEAF, TREE_CLASS(TREE_ROOT, MINOR_DEFAULT),
		       DEFAULT_LIMIT_FRAMES * tree_longest_frame(spec)));
}

static void add_control(struct building *b, const struct tree_spec *spec, const struct shares *s)
{
	add(b, shared_class(
		       spec, MINOR_CONTROL, MINOR_PORT, s->control_bps, s->port_bps, PRIO_CONTROL));
	add(b, fifo(TC_BFIFO, TREE_CONTROL_LEAF, TREE_CLASS(TREE_ROOT, MINOR_CONTROL),
		       CONTROL_LIMIT_BYTES));
}

static void add_sink(struct building *b, const struct tree_spec *spec)
{
	add(b, shared_class(spec, MINOR_SINK, 0, SINK_RATE_BPS, SINK_RATE_BPS, PRIO_DEFAULT));
	add(b, fifo(TC_PFIFO, TREE_SINK_LEAF, TREE_CLASS(TREE_ROOT, MINOR_SINK), 0));
}

static void add_slots(struct building *b, const struct tree_spec *spec, uint32_t cls)
{
	uint32_t s;

	for (s = 0; s < spec->slots; s++) {
		struct tc_object leaf = inner_class(
			spec, cls, MINOR_SLOT + s, TREE_OPEN_BPS, TREE_OPEN_BURST_BYTES);

		add(b, leaf);
		add(b, fifo(TC_BFIFO, TREE_SLOT_LEAF + cls * SLOTS_MAX + s, leaf.handle,
			       spec->classes[cls].limit_bytes));
	}
}

static void add_qps(struct building *b, const struct tree_spec *spec)
{
	uint32_t k;

	for (k = 0; k < spec->qp_count; k++) {
		struct tc_object leaf = tree_qp_class(spec, k, spec->line_rate_bps);

		add(b, leaf);
		add(b, fifo(TC_BFIFO, TREE_QP_LEAF + k, leaf.handle,
			       spec->classes[spec->qp_class].limit_bytes));
	}
}

static void add_priority(
	struct building *b, const struct tree_spec *spec, const struct shares *s, uint32_t cls)
{
	struct tc_object obj =
		shared_class(spec, MINOR_PRIORITY + cls, MINOR_PORT, s->class_bps[cls], s->port_bps,
			spec->classes[cls].strict ? PRIO_STRICT : PRIO_PRIORITIES);

	obj.htb_class.quantum_bytes = class_quantum(spec, s, cls);
	add(b, obj);
	add(b, tree_gate(spec, cls, false));
	add(b, htb(TREE_INNER + cls, TREE_CLASS(TREE_GATE + cls, MINOR_GATE_CHILD),
		       MINOR_SLOT + SLOT_LOCAL));
	add_slots(b, spec, cls);
	if (spec->qp_count && cls == spec->qp_class)
		add_qps(b, spec);
}

/* What the functions above add: four for the root, two each for control and sink. */
static size_t count_objects(const struct tree_spec *spec)
{
	return 4 + 2 + 2 + spec->classes_count * (3 + 2 * (size_t)spec->slots) +
	       2 * (size_t)spec->qp_count;
}

int tree_build(const struct tree_spec *spec, struct tc_object **list, size_t *n, struct qerr *err)
{
	struct building b = {0};
	struct shares s;
	uint32_t cls;
	int rc;

	*list = NULL;
	*n = 0;
	rc = tree_spec_check(spec, err);
	if (rc)
		return rc;
	b.list = calloc(count_objects(spec), sizeof(*b.list));
	if (!b.list)
		return qerr_set(err, -ENOMEM, "no memory for a port's queue tree");
	s = shares_of(spec);
	add_root(&b, spec, &s);
	add_control(&b, spec, &s);
	add_sink(&b, spec);
	for (cls = 0; cls < spec->classes_count; cls++)
		add_priority(&b, spec, &s, cls);
	*list = b.list;
	*n = b.n;
	return 0;
}
