// SPDX-License-Identifier: BSD-2-Clause
// The marks of a class: kmin < kmax < xoff <= limit, xon < xoff, and every headroom within the
// limit.
#include "policy/marks.h"

#include <errno.h>
#include <inttypes.h>

#include "policy/units.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

bool marks_wanted(const struct policy_class *class)
{
	return class->kind == CLASS_LOSSLESS && class->pfc.present;
}

/* Every port but the one that the queue is of. */
static uint64_t fillers(const struct policy *policy)
{
	uint64_t n = 0;

	for (size_t i = 0; i < policy->ports_count; i++)
		n += policy_port_has_queues(&policy->ports[i]);
	return n > 2 ? n - 1 : 1;
}

static uint64_t response_ns(const struct policy_pfc *pfc, uint64_t speed_bps)
{
	if (pfc->response_ns || headroom_response_quanta(speed_bps))
		return pfc->response_ns;
	return pfc->reaction_ns;
}

static struct headroom_link link_of(
	const struct policy_pfc *pfc, uint64_t speed_bps, uint32_t mtu_bytes)
{
	return (struct headroom_link){
		.speed_bps = speed_bps,
		.cable_mm = pfc->cable_m * 1000ull,
		.mtu_bytes = mtu_bytes,
		.port_mtu_bytes = mtu_bytes,
		.reaction_ns = pfc->reaction_ns,
		.response_ns = response_ns(pfc, speed_bps),
	};
}

void marks_compute(struct marks *marks, const struct policy *policy,
	const struct policy_class *class, uint64_t speed_bps, uint32_t mtu_bytes)
{
	uint64_t gap;

	*marks = (struct marks){
		.class = class,
		.link = link_of(&policy->pfc, speed_bps, mtu_bytes),
		.fillers = fillers(policy),
	};
	headroom_compute(headroom_find("quench"), &marks->link, &marks->headroom, NULL);
	headroom_marks(&marks->headroom, class->limit_bytes / marks->fillers, &marks->xoff_bytes,
		&marks->xon_bytes);
	if (class->pfc.xoff_bytes) {
		gap = marks->headroom.xon_gap_bytes;
		marks->xoff_bytes = class->pfc.xoff_bytes;
		marks->xon_bytes = marks->xoff_bytes > 2 * gap ? marks->xoff_bytes - gap
							       : marks->xoff_bytes / 2;
	}
	if (class->pfc.xon_bytes)
		marks->xon_bytes = class->pfc.xon_bytes;
}

/* ---- the rules ---- */

static int check_xoff(const struct marks *m, struct qerr *err)
{
	if (m->xoff_bytes <= m->class->limit_bytes)
		return 0;
	return qerr_set(err, -EINVAL,
		"%s is above the limit of the class, which would drop before it pauses; allowed "
		"up to %s",
		units_text(UNITS_SIZE, m->xoff_bytes).text,
		units_text(UNITS_SIZE, m->class->limit_bytes).text);
}

static int check_xon(const struct marks *m, struct qerr *err)
{
	if (!m->xoff_bytes || m->xon_bytes < m->xoff_bytes)
		return 0;
	return qerr_set(err, -EINVAL, "%s is not below xoff; allowed less than %s",
		units_text(UNITS_SIZE, m->xon_bytes).text,
		units_text(UNITS_SIZE, m->xoff_bytes).text);
}

static int check_kmax(const struct marks *m, struct qerr *err)
{
	const struct policy_ecn *ecn = &m->class->ecn;

	if (!ecn->present || !m->xoff_bytes || ecn->kmax_bytes < m->xoff_bytes)
		return 0;
	return qerr_set(err, -EINVAL,
		"%s is not below xoff, so it would pause before it has marked; allowed less than "
		"%s",
		units_text(UNITS_SIZE, ecn->kmax_bytes).text,
		units_text(UNITS_SIZE, m->xoff_bytes).text);
}

/* Below XOFF each needs what policy says, or at the least what the marks take. */
static uint64_t below_bytes(const struct marks *m)
{
	return m->class->pfc.xoff_bytes ? m->class->pfc.xoff_bytes
					: m->headroom.buffer_min_bytes - m->headroom.bytes;
}

static int check_limit(const struct marks *m, struct qerr *err)
{
	uint64_t need = m->fillers * (below_bytes(m) + m->headroom.bytes);
	const struct headroom_link *link = &m->link;

	if (need <= m->class->limit_bytes || m->xoff_bytes > m->class->limit_bytes)
		return 0;
	return qerr_set(err, -EINVAL,
		"%s is too little: %" PRIu64 " port%s may fill it, each with %s up to xoff and "
		"%" PRIu64 "B of headroom after it (%" PRIu64
		"B of that for a reaction of %s at %s); allowed %" PRIu64 "B or more",
		units_text(UNITS_SIZE, m->class->limit_bytes).text, m->fillers,
		m->fillers > 1 ? "s" : "", units_text(UNITS_SIZE, below_bytes(m)).text,
		m->headroom.bytes,
		(uint64_t)((double)link->reaction_ns * (double)link->speed_bps / 8e9),
		units_text(UNITS_TIME, link->reaction_ns).text,
		units_text(UNITS_RATE, link->speed_bps).text, need);
}

const struct marks_rule marks_rules[] = {
	{"pfc.xoff", check_xoff},
	{"pfc.xon", check_xon},
	{"ecn.kmax", check_kmax},
	{"limit", check_limit},
};

const size_t marks_rules_count = ARRAY_SIZE(marks_rules);
