// SPDX-License-Identifier: BSD-2-Clause
// What is legal in a policy and known to hurt: the reason, and what would be better.
#include <inttypes.h>

#include "policy/fields.h"
#include "policy/reader.h"
#include "policy/units.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define BITS_NS 8000000000ull /* bytes at 1 bit/s to nanoseconds */

/* Local ACK timeout 14, the usual one, is 4.096 us * 2^14: then a QP sends again. */
#define RETRANSMIT_NS 67108864ull

/* Rounded to what a reader takes in: 12.3ms. */
static struct units_text about(uint64_t time_ns)
{
	struct units_text out;

	if (time_ns >= 1000000)
		snprintf(out.text, sizeof(out.text), "%.1f ms", (double)time_ns / 1e6);
	else
		snprintf(out.text, sizeof(out.text), "%.1f us", (double)time_ns / 1e3);
	return out;
}

static uint64_t sending_ns(uint64_t bytes, uint64_t rate_bps)
{
	return (uint64_t)((double)bytes * (double)BITS_NS / (double)rate_bps);
}

static bool is_given(struct reader *reader, struct path path)
{
	return reader_state(reader, path) != VALUE_ABSENT;
}

/* The slowest port with queues, or NULL. */
static const struct policy_port *slowest_port(const struct policy *policy)
{
	const struct policy_port *slowest = NULL;

	for (size_t i = 0; i < policy->ports_count; i++) {
		const struct policy_port *port = &policy->ports[i];

		if (policy_port_has_queues(port) &&
			(!slowest || port->rate_bps < slowest->rate_bps))
			slowest = port;
	}
	return slowest;
}

/* ---- of one port ---- */

/* Keys that do nothing in a role. */
static void warn_no_effect(struct reader *reader, size_t i)
{
	static const struct {
		const char *key;
		uint32_t roles; /* bit: enum port_role */
	} idle[] = {
		{"rate", 1 << PORT_MONITOR},
		{"speed", 1 << PORT_MONITOR},
		{"pfc", 1 << PORT_MONITOR},
		{"replace_mq", 1 << PORT_MONITOR},
		{"notify", 1 << PORT_MONITOR | 1 << PORT_HOST},
	};
	enum port_role role = reader->policy->ports[i].role;

	for (size_t k = 0; k < ARRAY_SIZE(idle); k++) {
		struct path path = path_of("ports[%zu].%s", i, idle[k].key);

		if (idle[k].roles >> role & 1 && is_given(reader, path))
			reader_warn(reader, path, "does nothing in role %s; leave it out",
				role == PORT_MONITOR ? "monitor" : "host");
	}
}

/* As many QPs as can be slowed must, at their slowest, leave something to control. */
static void warn_min_rate(struct reader *reader, size_t i)
{
	const struct policy_port *port = &reader->policy->ports[i];
	const struct policy_dcqcn *dcqcn = &reader->policy->dcqcn;
	uint64_t floor_bps = dcqcn->qp_classes * dcqcn->rate.min_rate_bps;

	if (port->role != PORT_HOST || floor_bps <= port->rate_bps)
		return;
	reader_warn(reader, path_of("ports[%zu].rate", i),
		"%u QPs (dcqcn.qp_classes) at their slowest (dcqcn.min_rate, %s) are %s, more than "
		"%s: a congested port could not be relieved; lower one of them",
		dcqcn->qp_classes, units_text(UNITS_RATE, dcqcn->rate.min_rate_bps).text,
		units_text(UNITS_RATE, floor_bps).text,
		units_text(UNITS_RATE, port->rate_bps).text);
}

/* The first class that a reaction point may limit by its marks, or NULL. */
static const struct policy_class *marking_class(const struct policy *policy)
{
	for (size_t c = 0; c < policy->classes_count; c++)
		if (policy->classes[c].ecn.present)
			return &policy->classes[c];
	return NULL;
}

/* What a sender hears is as old as the queue was long: policies/lab.yaml. */
static void warn_timers(struct reader *reader, size_t i)
{
	const struct policy_port *port = &reader->policy->ports[i];
	const struct policy_class *class = marking_class(reader->policy);
	uint64_t timer_ns = reader->policy->dcqcn.rate.increase_timer_ns, queue_ns;

	if (port->role != PORT_HOST || !class || !timer_ns)
		return;
	queue_ns = sending_ns(class->ecn.kmin_bytes, port->rate_bps);
	if (timer_ns >= queue_ns)
		return;
	reader_warn(reader, path_of("dcqcn.increase_timer"),
		"%s is less than a queue of kmin, %s, takes at %s, %s: rates would rise on old "
		"news; policies/lab.yaml tells how timers and thresholds follow the link",
		units_text(UNITS_TIME, timer_ns).text,
		units_text(UNITS_SIZE, class->ecn.kmin_bytes).text,
		units_text(UNITS_RATE, port->rate_bps).text, about(queue_ns).text);
}

/* ---- of one class ---- */

static void warn_unprotected(struct reader *reader, size_t i)
{
	const struct policy_class *class = &reader->policy->classes[i];

	if (class->kind == CLASS_LOSSLESS && !class->ecn.present && !class->pfc.present &&
		slowest_port(reader->policy))
		reader_warn(reader, path_of("classes[%zu].kind", i),
			"lossless by name only: without pfc and without ecn nobody is slowed down "
			"before the limit drops; add `pfc: {}` or ecn");
}

static void warn_unmarked_traffic(struct reader *reader, size_t i)
{
	const struct policy_class *class = &reader->policy->classes[i];

	if (class->kind == CLASS_LOSSY)
		return;
	if (class->dscp_mask & 1)
		reader_warn(reader, path_of("classes[%zu].dscp", i),
			"0 is what all unmarked traffic has: a pause would stop that too; let RDMA "
			"mark its packets");
	if (class->pcp_mask & 1)
		reader_warn(reader, path_of("classes[%zu].pcp", i),
			"0 is what all unmarked traffic has: a pause would stop that too; let RDMA "
			"mark its frames");
}

static void warn_thresholds(struct reader *reader, size_t i)
{
	const struct policy_class *class = &reader->policy->classes[i];
	const struct policy_port *port = slowest_port(reader->policy);
	uint64_t queue_ns;

	if (!class->ecn.present || !port)
		return;
	queue_ns = sending_ns(class->ecn.kmax_bytes, port->rate_bps);
	if (queue_ns > RETRANSMIT_NS)
		reader_warn(reader, path_of("classes[%zu].ecn.kmax", i),
			"a queue of %s takes %s at %s, and after 67 ms most QPs send again; lower "
			"it, policies/lab.yaml tells how thresholds follow the link",
			units_text(UNITS_SIZE, class->ecn.kmax_bytes).text, about(queue_ns).text,
			units_text(UNITS_RATE, port->rate_bps).text);
}

/* Only gateways pause those before them. */
static void warn_nobody_pauses(struct reader *reader, size_t i)
{
	const struct policy *policy = reader->policy;
	bool gateway = false, sends = false;

	for (size_t p = 0; p < policy->ports_count; p++) {
		const struct policy_port *port = &policy->ports[p];

		gateway |= port->role == PORT_GATEWAY;
		sends |= port->role == PORT_GATEWAY &&
			 (port->pfc == PFC_BOTH || port->pfc == PFC_SEND);
	}
	if (policy->classes[i].pfc.present && gateway && !sends)
		reader_warn(reader, path_of("classes[%zu].pfc", i),
			"no port sends pauses: each has `pfc: obey` or `pfc: off`");
}

/* ---- of the whole ---- */

static bool any_pauses(const struct policy *policy)
{
	for (size_t c = 0; c < policy->classes_count; c++)
		if (policy->classes[c].pfc.present)
			return true;
	return false;
}

static void warn_cnp(struct reader *reader)
{
	const struct policy_cnp *cnp = &reader->policy->cnp;

	if (cnp->generate == CNP_OFF)
		return;
	if (!cnp->priority)
		reader_warn(reader, path_of("cnp.priority"),
			"CNPs of priority 0 are best effort to everybody on their way, and late "
			"when it is congested; 6 and 7 are usual");
	if (!cnp->dscp)
		reader_warn(reader, path_of("cnp.dscp"),
			"CNPs of DSCP 0 are best effort to everybody on their way, and late when "
			"it is congested; 48 is usual");
}

static void warn_pfc(struct reader *reader)
{
	const struct policy_pfc *pfc = &reader->policy->pfc;

	if (!any_pauses(reader->policy))
		return;
	if (!pfc->watchdog.detect_ns)
		reader_warn(reader, path_of("pfc.watchdog.detect"),
			"without it a peer that pauses for ever stops its class for ever, here "
			"and step by step in the whole fabric");
	if (pfc->pause_ns && pfc->pause_ns < 2 * pfc->reaction_ns)
		reader_warn(reader, path_of("pfc.pause"),
			"%s is less than twice the reaction, %s: a pause would end before it is "
			"renewed",
			units_text(UNITS_TIME, pfc->pause_ns).text,
			units_text(UNITS_TIME, pfc->reaction_ns).text);
	if (pfc->multicast)
		reader_warn(reader, path_of("pfc.multicast"),
			"a broadcast waits for the slowest of its receivers, and with it "
			"everything in its class");
}

void policy_warn(struct reader *reader)
{
	for (size_t i = 0; i < reader->policy->ports_count; i++) {
		warn_no_effect(reader, i);
		warn_min_rate(reader, i);
		warn_timers(reader, i);
	}
	for (size_t i = 0; i < reader->policy->classes_count; i++) {
		warn_unprotected(reader, i);
		warn_unmarked_traffic(reader, i);
		warn_thresholds(reader, i);
		warn_nobody_pauses(reader, i);
	}
	warn_cnp(reader);
	warn_pfc(reader);
}
